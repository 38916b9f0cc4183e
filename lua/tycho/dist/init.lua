--- dist/init.lua -- several processes on MPI and NCCL: `ty.dist`.
-- In: tensors of the CPU, or of one CUDA device a rank, on all ranks of a run that mpirun, srun or `tycho --ranks`
-- started. Out: what the ranks make of them together. Raises on every rank where ranks do not agree, where one is gone,
-- or does not answer.
--
-- 1. Ranks count from 0, as MPI and its launchers number them.
-- 2. Sums are those of Tycho's own kernels in the order of ranks, ((x0 + x1) + x2) + ...: each rank gets its slice of
--    every rank's elements, sums it, and gives it to all: a ring's bytes; few bytes go whole (goes_whole). The bits
--    depend neither on the topology nor on the library or device, and are those of one process that adds the tensors in
--    that order. {fast = true} leaves sums to MPI or NCCL.
-- 3. Ranks first tell each other what they call, with dtype and sizes: what does not fit raises, the same on each rank,
--    before anything is exchanged. The next call works.
-- 4. A rank that ends, or does not answer for so long (init), ends the exchange on all others. What comes later
--    raises the same.
-- 5. A process that was started alone is rank 0 of 1, and needs no MPI.
-- 6. In a capture (W.records) exchanges and what ranks agree on become calls of the plan (core/dist/calls.c), with the
--    same messages in the same order, so ranks may run a plan or this file, each as it likes.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W = require "tycho.dist.world"

local format, concat = string.format, table.concat
local fail, text = check.fail, check.text
local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

local M = { _classes = { Group = W.Group } }

---------------------------------------------------------------------------------------------------------- arguments

local mode = ty.internals.grad.mode

--- A tensor that can be exchanged, without its past.
local function exchangeable(who, x)
  check.tensor(who, 1, x)
  if x.device ~= "cpu" and not x.device:find "^cuda" then
    fail(who, "argument 1 must be on the CPU or a CUDA device, got %s on %s (use :to(\"cpu\"))", text(x), x.device)
  end
  if not x.requires_grad then return x end
  if mode() then
    fail(who, "argument 1, %s, requires grad, and no gradient goes to other ranks (use :detach(), or ty.no_grad)",
      text(x))
  end
  return x:detach()
end

local OPTIONS = { group = "table" }
local REDUCE = { group = "table", op = "string", fast = "boolean" }

local function group_of(who, opts)
  local g = opts.group
  if g ~= nil and not W.is_group(g) then
    fail(who, "option group must be what dist.group gave, got %s", check.show(g))
  end
  return W.group_of(g)
end

local function rank_of(who, i, rank, group)
  for k, r in ipairs(group.ranks) do
    if r == rank then return k end
  end
  local known = concat(group.ranks, " ", 1, math.min(16, #group.ranks))
  return fail(who, "argument %d must be a rank, one of %s, got %s", i, known, check.show(rank))
end

--- dtype and dims, which all ranks of a call have alike.
local function kind_of(x)
  local dims = x.shape
  for d = 1, #dims do dims[d] = format("%d", dims[d]) end
  return format("%s[%s]%s", x.dtype, concat(dims, ","), x.device == "cpu" and "" or W.nccl().kind(x))
end

--- {at, count} for each of n ranks.
local function places(n, each)
  local list = {}
  for i = 1, n do list[2 * i - 1], list[2 * i] = each(i) end
  return list
end

---------------------------------------------------------------------------------------------------------- the ranks

--- Finds this process among the ranks of its run: where mpirun, srun or `tycho --ranks` started it, MPI is loaded and
--- started. Where none of them did, and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, ranks find each other at
--- that address of the first one's, by TCP, and MPICH starts (Open MPI's processes join by its mpirun alone);
--- LOCAL_WORLD_SIZE: how many share a machine. Else it is rank 0 of 1. Every other function of ty.dist does so, too.
--- timeout: after so many seconds without progress a call raises, and names the ranks that it waits for (300;
--- TYCHO_TIMEOUT). TYCHO_MPI names the MPI library, where it is not found.
--- Raises where several processes were started, and MPI is not found or does not start, or the first rank does not
--- answer.
---@param opts? {timeout: number?} in seconds
---@return integer rank, integer size # from 0; how many there are
function M.init(opts)
  opts = check.options("init", opts, { timeout = "number" })
  if opts.timeout and (opts.timeout <= 0 or opts.timeout ~= opts.timeout) then
    fail("init", "option timeout must be a number of seconds, got %g", opts.timeout)
  end
  local w = W.open(opts)
  return w.rank, w.size
end

--- The rank of this process, from 0.
--- Raises where the group is none, and as dist.init.
---@param group? tycho.dist.Group
---@return integer # its place in the group, from 0
function M.rank(group) return group_of("rank", { group = group }).index - 1 end

--- The place of this process among those of its machine, from 0: which of the machine's CUDA devices is its own, as in
--- ty.device("cuda:" .. dist.local_rank()). 0 where the launcher does not tell.
--- Raises nothing.
---@return integer
function M.local_rank() return W.local_rank() end

--- How many ranks there are.
--- Raises where the group is none, and as dist.init.
---@param group? tycho.dist.Group
---@return integer
function M.size(group) return #group_of("size", { group = group }).ranks end

--- The MPI library that carries messages, in its own words; nil where the process is alone.
--- Raises as dist.init.
---@return string?
function M.library() return W.open().version end

--- A group of some ranks, for the option `group` of other functions. All of them call this with the same ranks; others
--- need not. Order does not matter: sums are in that of the world's ranks.
--- Raises where a rank is out of range or given twice, or the ranks do not agree.
---@param ranks integer[] from 0
---@return tycho.dist.Group? group # nil on ranks that are not in it
function M.group(ranks) return W.group(ranks) end

--- Waits until all ranks have come here.
--- Raises where one of them calls something else, has ended, or does not answer.
---@param opts? {group: tycho.dist.Group?}
function M.barrier(opts)
  local group = group_of("barrier", check.options("barrier", opts, OPTIONS))
  if #group.ranks > 1 then W.agree("barrier", group, "barrier") end
end

---------------------------------------------------------------------------------------------------------- copies

local SMALL = 65536 -- bytes that cost less than another message

--- All parts to all ranks: y is made of part i, which rank i has at the same place of its own x.
local function gather_slices(who, group, part, n, dims)
  local ranks = #group.ranks
  local _, own = W.slice(n, ranks, group.index)
  return W.exchange(who, group, "data", part, places(ranks, function() return 0, own end), part.dtype, dims,
    places(ranks, function(i) return W.slice(n, ranks, i) end))
end

--- A tensor's slices from its owner to the ranks; each gets its own, as a vector.
local function scatter(who, group, x, root)
  local n, ranks = x:numel(), #group.ranks
  local _, own = W.slice(n, ranks, group.index)
  local nothing = places(ranks, function() return 0, 0 end)
  local sends = group.index == root and places(ranks, function(i) return W.slice(n, ranks, i) end) or nothing
  return W.exchange(who, group, "data", x, sends, x.dtype, { own },
    places(ranks, function(i) return 0, i == root and own or 0 end))
end

local function broadcast(who, x, from, opts)
  opts = check.options(who, opts, OPTIONS)
  x = exchangeable(who, x)
  local group = group_of(who, opts)
  from = from == nil and group.ranks[1] or from
  local root = rank_of(who, 2, from, group)
  local ranks = #group.ranks
  if ranks == 1 then return x:clone() end
  W.agree(who, group, format("%s of %s from %d", who, kind_of(x), from))
  local n = x:numel()
  if n == 0 then return x:clone() end
  if x.device ~= "cpu" then return W.nccl().broadcast(who, group, x, root) end
  if x.nbytes > SMALL then return gather_slices(who, group, scatter(who, group, x, root), n, x.shape) end
  local own = group.index == root
  return W.exchange(who, group, "data", x, places(ranks, function() return 0, own and n or 0 end), x.dtype, x.shape,
    places(ranks, function(i) return 0, i == root and n or 0 end))
end

--- The elements of rank `from` on all ranks; the others give a tensor of the same dtype and sizes.
--- Raises where ranks do not agree on these, x requires grad or is on neither the CPU nor CUDA, or a rank is gone.
---@param x tycho.Tensor of any dtype and shape
---@param from? integer a rank of the world, the first at first
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # of x's dtype and shape
function M.broadcast(x, from, opts) return broadcast("broadcast", x, from, opts) end

local function copied(x, y)
  x:copy_(y)
  return x
end

--- broadcast into x itself.
--- Raises what broadcast raises.
---@param x tycho.Tensor of any dtype and shape; a leaf that requires grad inside of ty.no_grad
---@param from? integer a rank of the world, the first at first
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # x itself
function M.broadcast_(x, from, opts) return copied(x, broadcast("broadcast_", x, from, opts)) end

--- The tensors of all ranks, stacked along a new first dim in the order of ranks.
--- Raises where ranks do not agree on dtype and sizes, x requires grad or is on neither the CPU nor CUDA, or a rank is
--- gone.
---@param x tycho.Tensor of any dtype and shape
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # [ranks, ...]; y:flatten(1, 2) joins them along the first dim of x
function M.all_gather(x, opts)
  local who = "all_gather"
  opts = check.options(who, opts, OPTIONS)
  x = exchangeable(who, x)
  local group = group_of(who, opts)
  local ranks, dims, n = #group.ranks, x.shape, x:numel()
  if ranks == 1 then return x:unsqueeze(1):clone() end
  if #dims == 8 then fail(who, "argument 1 must have at most 7 dims, got %s", text(x)) end
  W.agree(who, group, "all_gather of " .. kind_of(x))
  table.insert(dims, 1, ranks)
  if n == 0 then return ty.zeros(dims, { dtype = x.dtype, device = x.device }) end
  if x.device ~= "cpu" then
    return W.nccl().gather(who, group, x, ty.empty(dims, { dtype = x.dtype, device = x.device }))
  end
  return W.exchange(who, group, "data", x, places(ranks, function() return 0, n end), x.dtype, dims,
    places(ranks, function(i) return (i - 1) * n, n end))
end

---------------------------------------------------------------------------------------------------------- reductions

local add = function(a, b) return a + b end
local steps = { sum = add, mean = add, max = ty.maximum, min = ty.minimum, prod = function(a, b) return a * b end }

local BLOCK = 2 ^ 22 -- bytes of a slice that is exchanged, summed, given to all before the next: they stay in a cache
local FEW = 4096 -- elements for which no plan is made
local PAIR = 2 ^ 20 -- bytes that two ranks give each other whole

--- Functions (to, own, others), views that are released: what rank `index` of so many folds from its own elements, in
--- any dims, and those of the others, [ranks - 1, n]. Compiled it is one kernel, which reads each of them once.
local folds = {}

local function fold_of(op, ranks, index)
  local key = format("%s %d %d", op, ranks, index)
  if folds[key] then return folds[key] end
  local step, is_mean = steps[op], op == "mean"
  local is_power = is_mean and math.frexp(ranks) == 0.5 -- of 2: the product has the quotient's bits
  local function mean(y)
    if is_power and not ty.is_complex(y) then return y * (1 / ranks) end
    return y / ranks
  end
  local function fold(to, own, others)
    local dims = own.shape
    local function part(i) return i == index and own or others[i < index and i or i - 1]:reshape(dims) end
    local y = part(1)
    for i = 2, ranks do y = step(y, part(i)) end
    to:copy_(is_mean and mean(y) or y)
  end
  folds[key] = { plain = fold, compiled = ty.internals.compile(fold) }
  return folds[key]
end

local function fold(op, group, to, own, others)
  local f = fold_of(op, #group.ranks, group.index)
  if W.records() then return ty.no_grad(f.plain, to, own, others) end
  ty.no_grad(to:numel() > FEW and f.compiled or f.plain, to, own, others)
  -- their memory is the next block's before the collector knows
  others:release()
  own:release()
  to:release()
end

local function check_op(who, op, x)
  if not steps[op] then fail(who, "option op must be one of sum mean max min prod, got %q", op) end
  if x.dtype == "bool" and op ~= "max" and op ~= "min" then
    fail(who, "%s of bool: take op = \"max\" (any), \"min\" (all), or :to(\"i64\")", op)
  end
  if op == "mean" and not floats[x.dtype] and not ty.is_complex(x) then
    fail(who, "the mean of %s: use :to(\"f32\"), or op = \"sum\"", text(x))
  end
  if (op == "max" or op == "min") and ty.is_complex(x) then fail(who, "complex numbers have no %s", op) end
end

--- The others' elements `from` to `from + n` of x's vector, for this rank, whose slice of them is that: [ranks - 1,
--- own]; slice(i): where the slice of rank i begins, and how many it holds.
local function others_of(who, group, x, slice)
  local ranks, index = #group.ranks, group.index
  local _, own = slice(index)
  return W.exchange(who, group, "data", x, places(ranks, function(i)
    if i == index then return 0, 0 end
    return slice(i)
  end), x.dtype, { ranks - 1, own }, places(ranks, function(i)
    return (i < index and i - 1 or i - 2) * own, i ~= index and own or 0
  end))
end

--- MPI's own, or NCCL's, where they know the dtype.
local function reduce_fast(who, group, x, op)
  local y
  local step = op == "mean" and "sum" or op
  if x.device ~= "cpu" then y = W.nccl().reduce(who, group, x, step)
  else y = W.open().C.reduce(who, W.tag(group, "data"), group.ranks, group.index, x, step, group.team) end
  return op == "mean" and y / #group.ranks or y
end

--- One block of the result, n elements behind `from`: each rank folds its slice of it, and gives that to all. Gives the
--- result, or what takes its place in a capture.
local function reduce_block(who, group, op, x, result, from, n)
  local ranks, index = #group.ranks, group.index
  local y = result:reshape(-1)
  local function slice(i)
    local at, count = W.slice(n, ranks, i)
    return from + at, count
  end
  local at, count = slice(index)
  local others = others_of(who, group, x, slice)
  fold(op, group, y:narrow(1, at + 1, count), x:narrow(1, at + 1, count), others)
  if y.device ~= "cpu" and n % ranks == 0 then return W.nccl().spread(who, group, result, from, n) end
  if not W.records() then y:release() end -- the result has its memory alone
  return W.exchange(who, group, "back", result, places(ranks, function(i) return at, i ~= index and count or 0 end),
    result, nil, places(ranks, function(i)
      if i == index then return 0, 0 end
      return slice(i)
    end))
end

--- Whether each rank gives all others the whole vector, by one exchange: where it has few bytes, and where two ranks
--- exchange as many as by slices, in half the messages, until they leave the cache before they are summed.
local function goes_whole(x, ranks)
  return x.nbytes * ranks <= SMALL or ranks == 2 and x.device == "cpu" and x.nbytes <= PAIR
end

--- op over the ranks of what they have alike, on all ranks.
local function sum_of(who, group, x, op)
  local ranks, n = #group.ranks, x:numel()
  if n == 0 then return x:clone() end
  local result = ty.empty(x.shape, { dtype = x.dtype, device = x.device })
  local whole = x:contiguous()
  x = whole:reshape(-1)
  if goes_whole(x, ranks) then
    local others = others_of(who, group, x, function() return 0, n end)
    if W.records() then fold(op, group, result, whole, others) -- in its dims it fuses with what reads it
    else fold(op, group, result:reshape(-1), x:narrow(1, 1, n), others) end
  else
    local block = math.max(1, math.floor(BLOCK * ranks * n / x.nbytes))
    if x.device ~= "cpu" then block = n - n % ranks end -- in equal slices, then the few that are left
    for from = 0, n - 1, block do
      result = reduce_block(who, group, op, x, result, from, math.min(block, n - from))
    end
  end
  return result
end

local function all_reduce(who, x, opts)
  opts = check.options(who, opts, REDUCE)
  x = exchangeable(who, x)
  local op = opts.op or "sum"
  check_op(who, op, x)
  local group, w = group_of(who, opts)
  if #group.ranks == 1 then return x:clone() end
  local fast = opts.fast
  if fast then fast = x.device == "cpu" and w.C.takes(x.dtype) or x.device ~= "cpu" and W.nccl().takes(x.dtype) end
  W.agree(who, group, format("%s of %s (%s%s)", who, kind_of(x), op, fast and ", fast" or ""))
  if x:numel() == 0 then return x:clone() end
  if fast and (x.device ~= "cpu" or group.team) then return reduce_fast(who, group, x, op) end
  return sum_of(who, group, x, op)
end

--- What the ranks' tensors add up to, element by element, on all ranks: in the order of ranks, by Tycho's operations
--- (f16 rounds after each, integers wrap), so that the bits are those of one process that adds them. op: "sum", "mean"
--- (the sum over the number of ranks), "max", "min", "prod". fast: MPI, or NCCL, sums in an order of its own, which may
--- change with sizes and machines; dtypes that it does not know are summed here.
--- Raises where ranks do not agree on op, dtype and sizes, x requires grad or is on neither the CPU nor CUDA, for sums
--- of bool and means of integers, or where a rank is gone.
---@param x tycho.Tensor of any shape
---@param opts? {op: string?, fast: boolean?, group: tycho.dist.Group?}
---@return tycho.Tensor # of x's dtype and shape
function M.all_reduce(x, opts) return all_reduce("all_reduce", x, opts) end

--- all_reduce into x itself.
--- Raises what all_reduce raises.
---@param x tycho.Tensor of any shape; a leaf that requires grad inside of ty.no_grad
---@param opts? {op: string?, fast: boolean?, group: tycho.dist.Group?}
---@return tycho.Tensor # x itself
function M.all_reduce_(x, opts) return copied(x, all_reduce("all_reduce_", x, opts)) end

--- The rank's own part of all_reduce: the first dim is cut in as many equal parts as there are ranks.
--- Raises where the first dim does not divide by the number of ranks, and what all_reduce raises.
---@param x tycho.Tensor [ranks * n, ...]
---@param opts? {op: string?, group: tycho.dist.Group?}
---@return tycho.Tensor # [n, ...], part `rank` of the sum
function M.reduce_scatter(x, opts)
  local who = "reduce_scatter"
  opts = check.options(who, opts, { group = "table", op = "string" })
  x = exchangeable(who, x)
  local op = opts.op or "sum"
  check_op(who, op, x)
  local group = group_of(who, opts)
  local ranks, dims, n = #group.ranks, x.shape, x:numel()
  if #dims == 0 or dims[1] % ranks ~= 0 then
    fail(who, "the first dim must divide by %d ranks, got %s", ranks, text(x))
  end
  if ranks == 1 then return x:clone() end
  W.agree(who, group, format("reduce_scatter of %s (%s)", kind_of(x), op))
  dims[1] = dims[1] / ranks
  if n == 0 then return ty.zeros(dims, { dtype = x.dtype, device = x.device }) end
  x = x:reshape(-1)
  local y = ty.empty({ n / ranks }, { dtype = x.dtype, device = x.device })
  local at, count = W.slice(n, ranks, group.index)
  local others = others_of(who, group, x, function(i) return W.slice(n, ranks, i) end)
  fold(op, group, y:narrow(1, 1, count), x:narrow(1, at + 1, count), others)
  return y:reshape(dims)
end

---------------------------------------------------------------------------------------------------------- two ranks

local SEND, RECEIVE = { tag = "number" }, { tag = "number", like = "any" }
local DTYPES = { "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u16", "u32", "u64", "c64",
  "c128" }
local dtype_number = {}
for i, name in ipairs(DTYPES) do dtype_number[name] = i end

--- The pair of ranks that exchange a message, as a group of theirs, and its tag.
local function pair(who, i, other, tag)
  local w = W.open()
  tag = tag or 0
  if tag % 1 ~= 0 or tag < 0 or tag >= W.TAGS then
    fail(who, "option tag must be a whole number from 0 to %d, got %g", W.TAGS - 1, tag)
  end
  rank_of(who, i, other, w.all)
  if other == w.rank then fail(who, "argument %d is the rank itself, %d", i, other) end
  return { ranks = { other }, index = 0, number = tag }
end

local HEAD = 11 -- numbers that go ahead of a tensor: dtype, how many dims, these, that it lies on a device

local function head_numbers(x)
  local head = { dtype_number[x.dtype], x.ndim, unpack(x.shape) }
  for i = #head + 1, HEAD - 1 do head[i] = 0 end
  head[HEAD] = x.device == "cpu" and 0 or 1
  return head
end

local function head_of(x) return ty.tensor(head_numbers(x), { dtype = "i64", device = "cpu" }) end

--- dtype, dims, number of elements that a head tells of, and its last number: 0 for tensors of the CPU.
local function kind_in(head)
  local list, dims, n = head:totable(), {}, 1
  for d = 1, list[2] do
    dims[d] = list[2 + d]
    n = n * dims[d]
  end
  return DTYPES[list[1]], dims, n, list[HEAD]
end

--- Gives a tensor to another rank, which calls recv. Returns when it has been taken, or MPI keeps a copy.
--- Raises where `to` is no other rank, x requires grad or is on neither the CPU nor CUDA, or the rank is gone.
---@param x tycho.Tensor of any dtype and shape
---@param to integer a rank of the world
---@param opts? {tag: integer?} 0 to 255: recv takes messages of the same tag, in the order in which they were sent;
---those of CUDA tensors in that order whatever their tags
function M.send(x, to, opts)
  opts = check.options("send", opts, SEND)
  x = exchangeable("send", x)
  local two = pair("send", 2, to, opts.tag)
  if x.device ~= "cpu" then W.records "sends tensors of CUDA devices" end
  local head, n = head_of(x), x:numel()
  if x.device ~= "cpu" then head[11] = W.nccl().count_message("sent", to) end -- NCCL knows no tags
  W.exchange("send", two, "head", head, { 0, HEAD })
  if n > 0 then W.exchange("send", two, "body", x, { 0, n }) end
end

--- A message of like's dtype and sizes, in a capture: where another one comes, the plan fails.
local function recv_like(two, like)
  if like.device ~= "cpu" then W.records "receives tensors of CUDA devices" end
  local n = like:numel()
  W.open().C.expect("recv", W.tag(two, "head"), two.ranks, 0, head_numbers(like))
  if n == 0 then return like:clone() end
  return W.exchange("recv", two, "body", nil, nil, like.dtype, like.shape, { 0, n })
end

--- Takes the next tensor that another rank sends to this one. A compiled function has to know what will come: with
--- `like`, a message is a step of its plan; without, the function is cut there.
--- Raises where `from` is no other rank, or where the rank is gone, sends nothing in time, or something else than
--- `like`.
---@param from integer a rank of the world
---@param opts? {tag: integer?, like: tycho.Tensor?} tag: 0 to 255; like: a tensor of the dtype and sizes that will
---come, whose elements are not read
---@return tycho.Tensor # of the sender's dtype and shape
function M.recv(from, opts)
  opts = check.options("recv", opts, RECEIVE)
  local two, like = pair("recv", 1, from, opts.tag), opts.like
  if like ~= nil and not ty.internals.is_live(like) then
    fail("recv", "option like must be a tensor, got %s", check.show(like))
  end
  if W.records(not like and "receives a tensor whose sizes the message tells (recv takes option like)" or nil) then
    return recv_like(two, like)
  end
  local head = W.exchange("recv", two, "head", nil, nil, "i64", { HEAD }, { 0, HEAD })
  local dtype, dims, n, number = kind_in(head)
  local device = number == 0 and "cpu" or W.device()
  if device ~= "cpu" and number ~= W.nccl().count_message("received", from) then
    fail("recv", "rank %d has sent tensors of CUDA devices before this one: they are received in the order in which " ..
      "they were sent, whatever their tags are", from)
  end
  local x
  if n == 0 then x = ty.zeros(dims, { dtype = dtype, device = device })
  else x = W.exchange("recv", two, "body", nil, nil, dtype, dims, { 0, n }, device) end
  if like and kind_of(like) ~= kind_of(x) then
    fail("recv", "rank %d has sent %s, and option like is %s", from, text(x), text(like))
  end
  return x
end

---------------------------------------------------------------------------------------------------------- training

--- This rank's part of a batch: the first dim, or another one, in as many equal parts as there are ranks.
--- Raises where the dim does not divide by the number of ranks.
---@param x tycho.Tensor any shape with a dim
---@param dim? integer 1-based, negative from the end; 1
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # a view: [n / ranks, ...]; x itself in one process
function M.part(x, dim, opts)
  local who = "part"
  opts = check.options(who, opts, OPTIONS)
  check.tensor(who, 1, x)
  dim = check.dim(who, dim, x.ndim, 1)
  local group = group_of(who, opts)
  local ranks = #group.ranks
  if ranks == 1 then return x end
  local n = x:size(dim)
  if n % ranks ~= 0 then fail(who, "dim %d must divide by %d ranks, got %s", dim, ranks, text(x)) end
  return x:narrow(dim, (group.index - 1) * (n / ranks) + 1, n / ranks)
end

local own = { sum_of = sum_of, kind_of = kind_of, places = places, broadcast = broadcast, all_reduce = all_reduce,
  scatter = scatter, others_of = others_of, fold = fold, group_of = group_of, exchangeable = exchangeable,
  head_of = head_of, kind_in = kind_in, HEAD = HEAD }
for _, part in ipairs { "replicate", "fully_shard", "tensor_parallel", "pipeline", "shard", "clip" } do
  require("tycho.dist." .. part)(M, own)
end

local pinned = ty.internals.grad.pinned
for _, f in ipairs { M.broadcast, M.broadcast_, M.part, M.send, M.recv } do pinned[f] = true end

return M
