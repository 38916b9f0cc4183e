--- dist/world.lua -- the ranks of a run: how a process finds its own, groups of them, what they agree on.
-- In: the environment that a launcher made. Out: the world: its rank and size, C (dist.so), groups. Raises where the
-- environment tells of several ranks and MPI does not start, and where ranks do not agree.
--
-- Tags of messages: a group's number, a kind, and a number of the user's for send and recv. Messages of one tag between
-- two ranks keep their order. Numbers of groups are agreed on by their members: none that two ranks share occurs twice.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)

local type, ipairs, tonumber, setmetatable, getmetatable = type, ipairs, tonumber, setmetatable, getmetatable
local floor, max = math.floor, math.max
local format, concat = string.format, table.concat
local is_tensor = ty.is_tensor

local M = {}

M.KINDS = { agree = 1, data = 2, group = 3, head = 4, body = 5, stage_head = 6, stage_body = 7, back = 8 } -- 0: notices
M.GROUPS, M.TAGS = 4096, 256

local PATIENCE = 300 -- seconds

local C

---------------------------------------------------------------------------------------------------- the environment

local function number_of(name)
  local v = tonumber(os.getenv(name) or "")
  return v and v >= 0 and v == floor(v) and v or nil
end

--- Launchers: which variables tell how many ranks there are, how many on this machine, this one's place among those;
--- which library they started.
local OPENMPI, MPICH = { "libmpi.so.40", "libmpi.so" }, { "libmpich.so.12", "libmpi.so.12", "libmpich.so" }
local launchers = {
  { size = "OMPI_COMM_WORLD_SIZE", near = "OMPI_COMM_WORLD_LOCAL_SIZE", place = "OMPI_COMM_WORLD_LOCAL_RANK",
    libraries = OPENMPI },
  { size = "PMI_SIZE", near = "MPI_LOCALNRANKS", place = "MPI_LOCALRANKID", libraries = MPICH },
  { size = "PMIX_RANK", near = "SLURM_TASKS_PER_NODE", place = "SLURM_LOCALID", libraries = OPENMPI, by_rank = true },
}

--- The libraries to look for, nil where the process is alone; ranks on this machine; how ranks without a launcher find
--- each other.
local function launched()
  for _, l in ipairs(launchers) do
    local n = number_of(l.size)
    if n and (n > 1 or l.by_rank) then return l.libraries, number_of(l.near) or 1 end
  end
  local n = number_of "WORLD_SIZE" or number_of "SLURM_NTASKS" or 1
  if n == 1 or number_of "OMPI_COMM_WORLD_SIZE" or number_of "PMI_SIZE" then return end
  local rank, host, port = number_of "RANK", os.getenv "MASTER_ADDR", number_of "MASTER_PORT"
  if rank and host and port and rank < n then
    return MPICH, number_of "LOCAL_WORLD_SIZE" or 1, { rank = rank, size = n, host = host, port = port }
  end
  check.fail("init", "%d processes were started, and none of them by MPI (use mpirun, srun --mpi=pmix, or tycho " ..
    "--ranks; or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where MPICH is installed)", n)
end

--- Ranks that no launcher has started find each other.
local function meet(r, seconds)
  local ok, why = require("tycho.dist.rendezvous").prepare(r.rank, r.size, r.host, r.port, seconds)
  if not ok then check.fail("init", "%s", why) end
end

--- The place of this process among those of its machine, from 0.
function M.local_rank()
  for _, l in ipairs(launchers) do
    local place = number_of(l.size) and number_of(l.place)
    if place then return place end
  end
  return 0
end

--- Ranks that share a machine share its processors, unless TYCHO_THREADS says otherwise.
local function share_threads(near)
  if near > 1 and (os.getenv "TYCHO_THREADS" or "") == "" then ty.threads(max(1, floor(ty.threads() / near))) end
end

---------------------------------------------------------------------------------------------------------- the world

---@class tycho.dist.Group
---@field ranks integer[] of the world, ascending
---@field index integer of this process among them, from 1
---@field team integer? by which MPI knows the group, for its own sums; nil: it can know no more of them
local Group = {}
Group.__index = Group
M.Group = Group
ty.internals.grad.fixed[Group] = true

function Group:__tostring() return "group of ranks " .. concat(self.ranks, ", ") end

local world

local function all_ranks(size)
  local ranks = {}
  for r = 0, size - 1 do ranks[r + 1] = r end
  return ranks
end

--- What dist.so makes steps of plans.
local CAPTURED = { "agree", "exchange", "expect", "records", "reduce", "nccl_exchange", "nccl_gather", "nccl_broadcast",
  "nccl_reduce" }

local function set_patience(w, seconds) C.settings(seconds, os.getenv "TYCHO_DIST_FAILED" or "", w.near) end

local function connect(opts)
  local libraries, near, rendezvous = launched()
  if not libraries then return { rank = 0, size = 1 } end
  local missing
  C, missing = require "tycho.native" "dist"
  if not C then check.fail("init", "%s", missing) end
  local named = os.getenv "TYCHO_MPI"
  if named and named ~= "" then libraries = { named } end
  local patience = opts.timeout or tonumber(os.getenv "TYCHO_TIMEOUT" or "") or PATIENCE
  if rendezvous then meet(rendezvous, patience) end
  local rank, size, version = C.open(libraries)
  if not rank then
    check.fail("init", "%s%s", size, rendezvous and " (RANK and WORLD_SIZE need MPICH; else use mpirun)" or "")
  end
  share_threads(near)
  for _, name in ipairs(CAPTURED) do ty.internals.grad.captured[C[name]] = "dist." .. name end
  local w = { rank = rank, size = size, version = version, C = C, near = near }
  set_patience(w, patience)
  return w
end

--- The world, which the first call finds.
function M.open(opts)
  if world then
    if opts and opts.timeout and C then set_patience(world, opts.timeout) end
    return world
  end
  local w = connect(opts or {})
  w.next_group = 1
  w.all = setmetatable({ ranks = all_ranks(w.size), index = w.rank + 1, number = 0, team = 0 }, Group)
  world = w
  return w
end

--- Whether there is a world already: a question that starts nothing.
function M.is_open() return world ~= nil end

---------------------------------------------------------------------------------------------------------- agreement

function M.tag(group, kind, own) return (own or 0) * 16 * M.GROUPS + group.number * 16 + M.KINDS[kind] end

--- The group that options name; the world. This process is in it.
function M.group_of(group)
  local w = M.open()
  if group == nil then return w.all, w end
  return group, w
end

--- A number for a text, and its length: different texts have different ones, but by chance.
function M.digest(text)
  local a, b = 1, 0 -- Adler's sums, of two lengths
  for i = 1, #text do
    a = (a * 31 + text:byte(i)) % 4294967291
    b = (b + a) % 4294967279
  end
  return format("%d letters %.0f %.0f", #text, a, b)
end

--- Raises what all ranks raise where they have come to different calls.
function M.disagree(who, group, texts)
  local parts = {}
  for i, text in ipairs(texts) do
    if #parts < 4 and (i == 1 or text ~= texts[1]) then
      parts[#parts + 1] = format("rank %d calls %s", group.ranks[i], text)
    end
  end
  check.fail(who, "the ranks do not agree: %s", concat(parts, ", "))
end

--- What the ranks of the group say: true where all say the same, else the texts in their order. goes_on: where they do
--- not, the caller does something else than to raise.
function M.compare(who, group, call, goes_on)
  local own = #call < 250 and call or call:sub(1, 180) .. "... " .. M.digest(call)
  return C.agree(who, M.tag(group, "agree"), group.ranks, group.index, own, goes_on)
end

--- All ranks of the group have come to the same call; else all of them raise the same.
function M.agree(who, group, call)
  local texts = M.compare(who, group, call)
  if texts ~= true then M.disagree(who, group, texts) end
end

--- Whether exchanges become steps of a plan, since what is called is captured. does: what no plan can hold, where a
--- capture is cut.
function M.records(does) return C ~= nil and C.records(does) end

--- The CUDA device of this rank: the default device if that is one, else "cuda".
function M.device()
  local device = ty.device()
  return device:find "^cuda" and device or "cuda"
end

local nccl
--- What exchanges tensors of CUDA devices.
function M.nccl()
  nccl = nccl or require "tycho.dist.nccl"(M)
  return nccl
end

--- In captures complex numbers travel as pairs of reals.
local complex_reals = { c64 = "f32", c128 = "f64" }

local function with_pairs(dims)
  local y = { unpack(dims) }
  y[#y + 1] = 2
  return y
end

local function doubled(list)
  local y = list and {}
  for i = 1, list and #list or 0 do y[i] = 2 * list[i] end
  return y
end

--- Exchanges parts of x, and gives what came as a tensor of these dims. sends, receives: see dist_lua.c. device: where
--- what comes belongs, if not where x lies.
function M.exchange(who, group, kind, x, sends, to, dims, receives, device)
  device = device or x and x.device or "cpu"
  if complex_reals[x and x.dtype or to] and C.records() then
    local reals = x and ty.view_as_real(x)
    if is_tensor(to) then to = rawequal(x, to) and reals or ty.view_as_real(to)
    elseif to then to, dims = complex_reals[to], with_pairs(dims) end
    local y = M.exchange(who, group, kind, reals, doubled(sends), to, dims, doubled(receives), device)
    return y and ty.view_as_complex(y)
  end
  if device ~= "cpu" then
    nccl = nccl or M.nccl()
    return nccl.exchange(who, group, kind, x, sends, to, dims, receives, device)
  end
  return C.exchange(who, M.tag(group, kind), group.ranks, group.index, x, sends, to, dims, receives)
end

---------------------------------------------------------------------------------------------------------- groups

--- The ranks of a list, ascending, each once, of the world's.
local function ranks_of(w, ranks)
  if type(ranks) ~= "table" or #ranks == 0 then
    check.fail("group", "argument 1 must be a list of ranks, got %s", check.show(ranks))
  end
  local list, seen = {}, {}
  for i, r in ipairs(ranks) do
    if type(r) ~= "number" or r % 1 ~= 0 or r < 0 or r >= w.size then
      check.fail("group", "a rank must be a whole number from 0 to %d, got %s", w.size - 1, check.show(r))
    end
    if seen[r] then check.fail("group", "rank %d is given twice", r) end
    seen[r], list[i] = true, r
  end
  table.sort(list)
  return list
end

--- The group of these ranks; nil on ranks that are not among them.
function M.group(ranks)
  local w = M.open()
  local list, index = ranks_of(w, ranks), nil
  for i, r in ipairs(list) do index = r == w.rank and i or index end
  if not index then return nil end
  local g = setmetatable({ ranks = list, index = index, number = 0 }, Group)
  if #list == 1 then return g end
  local n, one, places = #list, {}, {}
  for i = 1, n do
    one[2 * i - 1], one[2 * i] = 0, 1
    places[2 * i - 1], places[2 * i] = i - 1, 1
  end
  local numbers = M.exchange("group", g, "group", ty.tensor({ w.next_group }, { dtype = "i64", device = "cpu" }), one,
    "i64", { n }, places)
  local number = numbers:max():item()
  if number >= M.GROUPS then check.fail("group", "there are %d groups already", M.GROUPS) end
  w.next_group, g.number = number + 1, number
  M.agree("group", g, "group of ranks " .. concat(list, ", "))
  local team = C.team(list, M.tag(g, "group")) -- now that all of them are here: it waits for them
  g.team = team > 0 and team or nil
  return g
end

--- Element i of n in equal slices: where the slice of rank i (from 1) begins, and how many it holds.
function M.slice(n, ranks, i)
  local from, to = floor(n * (i - 1) / ranks), floor(n * i / ranks)
  return from, to - from
end

function M.is_group(v) return getmetatable(v) == Group end

return M
