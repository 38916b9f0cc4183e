-- dist_program.lua -- what dist_spec.lua runs on each rank: claims of ty.dist, each against what one process computes.
--   tycho --ranks N -q spec/dist_program.lua FOLDER claim ...
-- Out: the first rank prints a line for each claim that holds: its name, and a digest of its results, which neither the MPI
-- library nor, where the line ends in "any ranks", the number of ranks may change. A claim that does not hold raises.

local ty = require "tycho"
local dist, nn = ty.dist, ty.nn
local digest = require("tycho.dist.world").digest

local rank, size = dist.init { timeout = 20 }
local folder = arg[1]

local DTYPES = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "c64", "c128" }

--- What rank r (from 0) gives: numbers of either sign in which the order of a sum shows.
local function numbers(r, n, dtype, seed)
  local x = ((ty.arange(n, { dtype = "f64" }) * 1.7 + r * 3.1 + (seed or 0)):sin() * 1e3):to "f32":to "f64"
  if dtype:find "^u" then x = x:abs() end
  if dtype == "i8" or dtype == "u8" then x = x * 0.1 end
  return x:to(dtype)
end

local function text(x)
  return x.dtype .. table.concat(x.shape, ",") .. " " .. table.concat((ty.is_complex(x) and ty.view_as_real(x) or x):to "f64"
    :reshape(-1):totable(), " ")
end

local function same(want, got, what)
  if want.dtype ~= got.dtype or table.concat(want.shape, ",") ~= table.concat(got.shape, ",") then
    error(("%s: %s[%s], not %s[%s]"):format(what, got.dtype, table.concat(got.shape, ","), want.dtype,
      table.concat(want.shape, ",")), 2)
  end
  local view = { f32 = "i32", f64 = "i64", f16 = "i16", bf16 = "i16" }
  local a, b = want:contiguous(), got:contiguous()
  if view[want.dtype] and want:numel() > 0 then
    local p, q, bytes = require("ffi").cast("const char *", a:data()), require("ffi").cast("const char *", b:data()), a.nbytes
    for i = 0, bytes - 1 do
      if p[i] ~= q[i] then error(("%s: byte %d differs"):format(what, i), 2) end
    end
    return got
  end
  if want:numel() > 0 and not a:eq(b):all():item() then error(what .. " differs", 2) end
  return got
end

--- What all ranks give, from the first.
local function given(n, dtype, seed)
  local all = {}
  for r = 1, size do all[r] = numbers(r - 1, n, dtype, seed) end
  return all
end

local function fold(all, step)
  local y = all[1]
  for r = 2, #all do y = step(y, all[r]) end
  return y
end

local function add(a, b) return a + b end

local function raises(fn, ...)
  local ok, message = pcall(fn, ...)
  if ok then error("no error was raised", 2) end
  return tostring(message)
end

--- The text is the same on all ranks, but for the place that it begins with.
local function same_text(message)
  local bytes, short = {}, message:gsub("^[^:]*:%d+: ", "")
  for i = 1, 200 do bytes[i] = short:byte(i) or 0 end
  local all = dist.all_gather(ty.tensor(bytes, { dtype = "u8" }))
  for r = 2, size do assert(all[1]:eq(all[r]):all():item(), "texts of errors differ") end
  return short
end

local claims = {}

function claims.sums(out)
  for _, dtype in ipairs(DTYPES) do
    for _, n in ipairs { 0, 1, size + 1, 1000 } do
      local all = given(n, dtype)
      out(text(same(fold(all, add), dist.all_reduce(all[rank + 1]), ("sum of %d %s"):format(n, dtype))))
    end
  end
  for _, dtype in ipairs { "f32", "bf16", "i64", "c64" } do -- in slices, and in several blocks
    for _, n in ipairs { 20011, size * (dtype == "i64" and 600007 or 300007) } do
      local all = given(n, dtype)
      local y = same(fold(all, add), dist.all_reduce(all[rank + 1]), ("sum of %d %s"):format(n, dtype))
      out(text(y:narrow(1, 1, 50)))
    end
  end
end

function claims.operations(out)
  local all = given(501, "f32")
  all[1][1], all[size][2], all[1][3], all[size][4] = 0 / 0, 1 / 0, -1 / 0, -0.0
  local x = all[rank + 1]
  out(text(same(fold(all, ty.maximum), dist.all_reduce(x, { op = "max" }), "max")))
  out(text(same(fold(all, ty.minimum), dist.all_reduce(x, { op = "min" }), "min")))
  out(text(same(fold(all, ty.mul), dist.all_reduce(x, { op = "prod" }), "prod")))
  out(text(same(fold(all, add) / size, dist.all_reduce(x, { op = "mean" }), "mean")))
  local bools = {}
  for r = 1, size do bools[r] = numbers(r, 9, "f32"):gt(0) end
  out(text(same(fold(bools, ty.logical_or), dist.all_reduce(bools[rank + 1], { op = "max" }), "any")))
  for _, dtype in ipairs { "f32", "i32", "f16" } do
    local ints = given(1000, "i8")
    local want = fold(ints, function(a, b) return a:to(dtype) + b:to(dtype) end)
    same(want:to(dtype), dist.all_reduce(ints[rank + 1]:to(dtype), { fast = true }), "MPI's sum of " .. dtype)
  end
end

function claims.views(out)
  local base = numbers(rank, 24, "f64"):reshape(4, 6)
  local function all(fn)
    local list = {}
    for r = 1, size do list[r] = fn(numbers(r - 1, 24, "f64"):reshape(4, 6)):contiguous() end
    return fold(list, add)
  end
  for name, fn in ipairs { function(x) return x:transpose(1, 2) end, function(x) return x[{ {}, { 1, 6, 2 } }] end,
    function(x) return x[{ { -1, 1, -1 } }] end, function(x) return x[1]:unsqueeze(1):expand(3, 6) end,
    function(x) return x[2][3] end, function(x) return x:narrow(1, 2, 0) end } do
    local y = same(all(fn), dist.all_reduce(fn(base)), "view " .. name)
    assert(y:is_contiguous())
    if name == 1 then out(text(y)) end
  end
  local copy, want = base:clone(), all(function(x) return x:transpose(1, 2) end)
  local given_back = dist.all_reduce_(copy:transpose(1, 2))
  same(want, given_back, "in place")
  same(want:transpose(1, 2):contiguous(), copy, "in place, seen by another view")
end

function claims.copies(out)
  for _, n in ipairs { 0, 1, 700, 40009 } do
    for _, dtype in ipairs { "f32", "u8", "bool", "c128" } do
      local all = dtype == "bool" and {} or given(n, dtype)
      if dtype == "bool" then
        for r = 1, size do all[r] = numbers(r, n, "f32"):gt(0) end
      end
      local x = all[rank + 1]
      for from = 0, size - 1, math.max(1, size - 1) do same(all[from + 1], dist.broadcast(x, from), "broadcast") end
      local list = {}
      for r = 1, size do list[r] = all[r] end
      out(text(same(ty.stack(list, 1), dist.all_gather(x), "all_gather"):reshape(-1)[{ { 1, math.min(size * n, 20) } }]))
    end
  end
  local x = numbers(rank, 3, "f32")
  assert(rawequal(x, dist.broadcast_(x, size - 1)))
  same(numbers(size - 1, 3, "f32"), x, "broadcast_")
  for _, rows in ipairs { 0, size, 3 * size, 4001 * size } do
    local all = {}
    for r = 1, size do all[r] = numbers(r - 1, rows * 2, "f32"):reshape(rows, 2) end
    same(fold(all, add):narrow(1, rank * rows / size + 1, rows / size), dist.reduce_scatter(all[rank + 1]), "reduce_scatter")
  end
end

function claims.messages(out)
  local right, left = (rank + 1) % size, (rank - 1) % size
  local first = rank % 2 == 0
  for _, dtype in ipairs { "bool", "u8", "i64", "f16", "f32", "c64" } do
    local x = dtype == "bool" and numbers(rank, 6, "f32"):gt(0) or numbers(rank, 6, dtype)
    x = x:reshape(2, 3):transpose(1, 2)
    if first then dist.send(x, right) end
    local y = dist.recv(left)
    if not first then dist.send(x, right) end
    local want = dtype == "bool" and numbers(left, 6, "f32"):gt(0) or numbers(left, 6, dtype)
    same(want:reshape(2, 3):transpose(1, 2):contiguous(), y, "a message")
  end
  if rank == 0 then -- each tag has an order of its own
    dist.send(ty.tensor { 1 }, 1, { tag = 7 })
    dist.send(ty.tensor { 2 }, 1, { tag = 255 })
    dist.send(ty.tensor { 3 }, 1, { tag = 7 })
    dist.send(ty.zeros(2, 0, 3), 1)
    dist.send(numbers(0, 200003, "f64"), 1)
  elseif rank == 1 then
    local got = { dist.recv(0, { tag = 255 }):item(), dist.recv(0, { tag = 7 }):item(), dist.recv(0, { tag = 7 }):item() }
    assert(table.concat(got, " ") == "2 1 3", table.concat(got, " "))
    same(ty.zeros(2, 0, 3), dist.recv(0), "an empty message")
    same(numbers(0, 200003, "f64"), dist.recv(0), "a long message")
  end
  dist.barrier()
  out "messages"
end

function claims.groups(out)
  local ends = dist.group { size - 1, 0 } -- in any order
  local last = dist.group { size - 1 }
  assert((ends ~= nil) == (rank == 0 or rank == size - 1) and (not ends or dist.size(ends) == 2))
  assert((last ~= nil) == (rank == size - 1))
  if last then same(numbers(rank, 5, "f32"), dist.all_reduce(numbers(rank, 5, "f32"), { group = last }), "a group of one") end
  local pairs_of = {} -- groups that overlap
  for r = 0, size - 2 do pairs_of[r] = dist.group { r, r + 1 } end
  local mine, other = pairs_of[rank], pairs_of[rank - 1]
  assert(not (mine and other) or mine.number ~= other.number) -- messages of one are not the other's
  for r = 0, size - 2 do
    local g = pairs_of[r]
    if g then
      local want = numbers(r, 30000, "f32") + numbers(r + 1, 30000, "f32")
      same(want, dist.all_reduce(numbers(rank, 30000, "f32"), { group = g }), "a pair")
      same(numbers(r + 1, 4, "f32"), dist.broadcast(numbers(rank, 4, "f32"), r + 1, { group = g }), "a pair's broadcast")
      same(dist.all_reduce(ty.ones(3), { group = g, fast = true }), ty.full({ 3 }, 2), "MPI's sum in a pair")
      assert(dist.rank(g) == rank - r and dist.size(g) == 2 and tostring(g):find(("%d, %d"):format(r, r + 1), 1, true))
      dist.barrier { group = g }
    end
  end
  out "groups"
end

function claims.disagreement(out)
  local odd = rank == size - 1
  for _, pair in ipairs {
    { function() dist.all_reduce(ty.ones(odd and 3 or 4)) end, "f32[4] (sum), rank %d calls all_reduce of f32[3] (sum)" },
    { function() dist.all_reduce(ty.ones(3, { dtype = odd and "f64" or "f32" })) end, "all_reduce of f64[3]" },
    { function() dist.all_reduce(ty.ones(3), { op = odd and "max" or "sum" }) end, "(max)" },
    { function() if odd then dist.barrier() else dist.all_gather(ty.ones(3)) end end, "rank %d calls barrier" },
    { function() dist.broadcast(ty.ones(2), odd and 1 or 0) end, "from 1" },
    { function() dist.replicate(nn.Linear(3, odd and 4 or 5)) end, "replicate of 2 tensors" },
  } do
    local message = raises(pair[1])
    assert(message:find("the ranks do not agree: rank 0 calls ", 1, true), message)
    assert(message:find(pair[2]:format(size - 1), 1, true), message)
    assert(message:find "dist_program.lua:%d+: ", message)
    same_text((message:gsub("^.-the ranks", "the ranks"))) -- the next call works
  end
  local long = ty.ones(1, 1, 1, 1, 1, 1, 1, odd and 2 or 3)
  assert(raises(dist.all_reduce, long):find "1,1,2%]")
  out "disagreement"
end

--------------------------------------------------------------------------------------------------------- training

local function network(seed)
  ty.manual_seed(seed)
  return nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 5))
end

local function batch(i)
  ty.manual_seed(100 + i)
  return ty.randn(12, 6), ty.randint(1, 5, { 12 })
end

local function weights(m)
  local list = {}
  for i, p in ipairs(m:parameters()) do list[i] = text(p:detach()) end
  return table.concat(list, "\n")
end

--- Steps of one process that goes through the parts of each batch in order.
local function alone(m, opt, steps, passes)
  for i = 1, steps do
    local x, y = batch(i)
    opt:zero_grad()
    for _ = 1, passes do
      local before = {}
      for k, p in ipairs(m:parameters()) do before[k], p.grad = p.grad or false, nil end
      for r = 0, size - 1 do
        local n = 12 / size
        ty.cross_entropy(m(x:narrow(1, r * n + 1, n)), y:narrow(1, r * n + 1, n)):backward()
      end
      for k, p in ipairs(m:parameters()) do
        local g = p.grad / size
        p.grad = before[k] and before[k] + g or g
      end
    end
    opt:step()
  end
end

local function step_of(m, opt, passes)
  return function(x, y)
    opt:zero_grad()
    local loss
    for _ = 1, passes do
      loss = ty.cross_entropy(m(x), y)
      loss:backward()
    end
    opt:step()
    return loss:detach()
  end
end

local function together(m, step, steps)
  for i = 1, steps do
    local x, y = batch(i)
    step(dist.part(x), dist.part(y))
  end
  return weights(m)
end

local function adam(m) return ty.optim.AdamW(m:parameters(), { lr = 0.05 }) end

function claims.training(out)
  for passes = 1, 2 do
    local one = network(1)
    alone(one, adam(one), 6, passes)
    local want = weights(one)
    for _, compiled in ipairs { false, true } do
      local m = network(1 + rank) -- the first one's numbers
      assert(rawequal(m, dist.replicate(m)))
      local step = step_of(m, adam(m), passes)
      if compiled then step = jit.compile(step) end
      assert(together(m, step, 6) == want, ("%d passes, %s"):format(passes, compiled and "compiled" or "plain"))
      if compiled then assert(ty.explain(step).skips > 0) end
      dist.release(m)
    end
    out(want)
  end
end

--- Whole calls, which Lua answers no part of.
local function is_whole(f)
  local e = ty.explain(f)
  return e.skips == e.calls and not tostring(e):find("up to", 1, true)
end

--- Exchanges as steps of plans: to the bit what they give at once.
function claims.captured(out)
  local x, y = numbers(rank, 1000, "f32"), numbers(rank, 42000 * size, "f32"):reshape(60 * size, 700)
  local blocks = numbers(rank, 1100000 * size, "f32") -- of 4 MB a rank
  for _, case in ipairs { -- the same order on all ranks
    { "small", function(a) return dist.all_reduce(a * 2) + 1 end, x },
    { "large", function(a) return dist.all_reduce(a * 2) + 1 end, y },
    { "mean", function(a) return dist.all_reduce(a, { op = "mean" }) * 3 end, y },
    { "largest", function(a) return dist.all_reduce(a:to "i64", { op = "max" }) end, y },
    { "half", function(a) return dist.all_reduce(a:to "f16") end, x },
    { "given", function(a) return dist.all_reduce(a) end, y },
    { "blocks", function(a) return dist.all_reduce(a) + 1 end, blocks },
    { "view", function(a) return dist.all_reduce(a:transpose(1, 2)) end, y },
    { "gathered", function(a) return dist.all_gather(a):sum(1) end, y },
    { "scattered", function(a) return dist.reduce_scatter(a) * 2 end, y },
    { "shown", function(a) return dist.broadcast(a + 1, 1) end, y },
    { "few", function(a) return dist.broadcast(a + 1, 1) * 2 end, x },
    { "written", function(a)
      local b = a + 1
      dist.all_reduce_(b)
      return b * b
    end, y },
    { "chain", function(a)
      local b = dist.all_reduce(a)
      return dist.all_reduce(b * 0.5) + dist.all_reduce(a + 1)
    end, y },
    { "stop", function(a)
      dist.barrier()
      return a + 1
    end, x },
    { "unused", function(a)
      local b = dist.all_reduce(a)
      return rank == 0 and b or a
    end, x },
  } do
    local name, f, a = unpack(case)
    local g = jit.compile(f)
    for _ = 1, 3 do same(f(a), g(a), "captured " .. name) end
    assert(is_whole(g), name)
    -- the others call it at once, which is the same to this one
    for odd = 0, 1 do same(f(a), (rank == odd and f or g)(a), "captured by others, " .. name) end
  end
  local wrong = jit.compile(function(a) return dist.all_reduce(a) + 1 end)
  for _ = 1, 2 do wrong(x) end
  local message = raises(wrong, rank == size - 1 and numbers(rank, 999, "f32") or x)
  assert(message:find("all_reduce: the ranks do not agree: rank 0 calls all_reduce of f32[1000] (sum), rank " .. size - 1, 1, true),
    message)
  same_text((message:gsub("^.-the ranks", "the ranks")))
  same(dist.all_reduce(x) + 1, wrong(x), "after ranks that did not agree")
  local two = jit.compile(function(a, b) return dist.all_reduce(a) + dist.all_reduce(b):sum() end)
  for _ = 1, 2 do two(x, x) end
  message = raises(two, x, rank == size - 1 and numbers(rank, 999, "f32") or x)
  assert(message:find("all_reduce: the ranks do not agree: rank 0 calls all_reduce of f32[1000] (sum), rank " .. size - 1, 1, true),
    message)
  same(dist.all_reduce(x) + dist.all_reduce(x):sum(), two(x, x), "after a second call that did not agree")
  out "captured"
end

--- A network with gradients of many sizes and of two dtypes.
local function varied(seed)
  ty.manual_seed(seed)
  local m = nn.Sequential(nn.Linear(40, 1700), nn.Tanh(), nn.Linear(1700, 40), nn.Tanh(), nn.Linear(40, 6))
  m.scale = nn.Parameter(ty.randn(6, { dtype = "f64" }))
  return m
end

--- A training step as one plan: weights of one process that goes through the ranks' parts, and of ranks of which some run no
--- plan; other sizes of the batch, another learning rate, a rank that does not reach a parameter, and one with an error.
function claims.steps(out)
  local function data(i, n)
    ty.manual_seed(500 + i)
    return ty.randn(n, 40), ty.randn(n, 6, { dtype = "f64" })
  end
  local function loss_of(m, x, y, reaches)
    local h = m(x):to "f64"
    if reaches then h = h * m.scale end
    return ((h - y) ^ 2):mean()
  end
  local function step_with(m, opt)
    return function(x, y, reaches)
      opt:zero_grad()
      local loss = loss_of(m, x, y, reaches)
      loss:backward()
      opt:step()
      return loss:detach()
    end
  end
  local rows = { 8, 8, 8, 5, 8, 5, 8, 8 }
  local function reaches(i, r) return i ~= 7 or r == 0 end
  local function rate(opt, i) opt.lr = 0.02 / i end
  local one = varied(1)
  local opt = ty.optim.SGD(one:parameters(), { lr = 0.02, momentum = 0.9 })
  for i, n in ipairs(rows) do
    opt:zero_grad()
    local x, y = data(i, n * size)
    local total = {}
    for r = 0, size - 1 do
      for _, p in ipairs(one:parameters()) do p.grad = nil end
      loss_of(one, x:narrow(1, r * n + 1, n), y:narrow(1, r * n + 1, n), reaches(i, r)):backward()
      for k, p in ipairs(one:parameters()) do
        local g = p.grad or ty.zeros(p.shape, { dtype = p.dtype })
        total[k] = r == 0 and g or total[k] + g
      end
    end
    for k, p in ipairs(one:parameters()) do p.grad = total[k] / size end
    rate(opt, i)
    opt:step()
  end
  local want = weights(one)
  for plain = -1, 1 do -- this rank runs Lua; -1: none does
    local m = dist.replicate(varied(1 + rank))
    local own = ty.optim.SGD(m:parameters(), { lr = 0.02, momentum = 0.9 })
    local eager = step_with(m, own)
    local step = rank == plain and eager or jit.compile(eager)
    for i, n in ipairs(rows) do
      local x, y = data(i, n * size)
      rate(own, i)
      step(dist.part(x), dist.part(y), reaches(i, rank))
    end
    assert(weights(m) == want, ("weights differ, %d runs Lua"):format(plain))
    if rank ~= plain then
      local e = ty.explain(step)
      assert(is_whole(step) or e.skips >= e.calls - 1, tostring(e))
      assert(e:full():find " = call %%%d+ %%%d+ %%%d+ {k=%d+, k2=1}", e:full())
    end
    dist.release(m)
  end
  out(want)
end

--- Steps on one rank that end before its gradients travel, and the same steps again.
function claims.stopped(out)
  local m = dist.replicate(network(1))
  local opt = adam(m)
  local step = jit.compile(function(x, y, at)
    opt:zero_grad()
    local rows = (x:sum() * 0 + at):to "i64":reshape(1, 1):expand(1, 6) -- known to the run alone
    local loss = ty.cross_entropy(m(x), y) + x:gather(1, rows):sum() * 0
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  local one = network(1)
  alone(one, adam(one), 4, 1)
  for i = 1, 4 do
    local x, y = batch(i)
    if i == 3 and rank == size - 1 then
      assert(raises(step, dist.part(x), dist.part(y), 99):find "index 99")
    end
    step(dist.part(x), dist.part(y), 1)
  end
  assert(weights(m) == weights(one))
  dist.release(m)
  out(weights(m))
end

function claims.gradients(out)
  local m = dist.replicate(network(1))
  local x = numbers(rank, 6, "f32"):reshape(1, 6) * 0.01
  local unused = m[3].bias
  local loss = rank == 0 and (m[1](x):sum() + m[3].weight:sum()) or m(x):sum() -- the first one does not reach a bias
  loss:backward()
  same(ty.full({ 5 }, (size - 1) / size), unused.grad, "zeros where a rank did not come")
  local before = m[1].bias.grad:clone()
  local ok = pcall(function() (m(x) * ty.ones(1, 5)):backward() end) -- no scalar
  assert(not ok)
  same(before, m[1].bias.grad, "after an error")
  local other = ty.ones(3):requires_grad_()
  other:sum():backward() -- reaches nothing of the model
  same(before, m[1].bias.grad, "another pass")
  same(ty.ones(3), other.grad, "what is not replicated")
  assert(raises(function() m(x):sum():backward { create_graph = true } end):find "create_graph")
  m[1].bias.grad = nil
  dist.release(m)
  m(x):sum():backward()
  same(m[1].bias.grad, m[1].bias.grad, "released")
  assert(raises(dist.release, m):find "must be a replicated module")
  local norm = nn.BatchNorm1d(3)
  norm(numbers(rank, 12, "f32"):reshape(4, 3))
  dist.replicate(norm)
  out(text(norm.running_mean))
  same(dist.broadcast(norm.running_mean), norm.running_mean, "buffers")
  dist.release(norm)
end

function claims.loaders(out, any)
  any()
  for _, last in ipairs { "keep", "drop" } do
    local options = { batch = 12, shuffle = true, seed = 5, shard = true, last = last }
    local loader = ty.data.tensors(ty.arange(104, { dtype = "i64" })):loader(options)
    local list = {}
    for _ = 1, 2 do
      for v, i in loader do list[#list + 1] = i .. text(dist.all_gather(v):flatten(1, 2)) end
    end
    assert(#list == 2 * loader:count())
    out(table.concat(list, "\n"))
    local at = folder .. "/loader." .. last -- where another number of ranks goes on
    local f = io.open(at)
    if not f and rank == 0 then
      assert(dist.size() == size)
    end
    if f then f:close() end
    local again = ty.data.tensors(ty.arange(104, { dtype = "i64" })):loader(options)
    again:restore { epoch = 2, position = 3, seed = 5 }
    local v, i = again:epoch()()
    assert(list[loader:count() + 4] == i .. text(dist.all_gather(v):flatten(1, 2)))
  end
  assert(raises(function() ty.data.tensors(ty.ones(20)):loader { batch = size + 1, shard = true } end):find "must divide by")
end

--- How many elements of states a rank keeps, and how many there are.
local function held_by(opt)
  local held, whole = 0, 0
  for _, g in ipairs(opt.groups) do
    for j, p in ipairs(g.params) do
      whole = whole + p:numel()
      held = held + (g.state[j] and g.state[j].exp_avg:numel() or 0)
    end
  end
  return held, whole
end

function claims.shards(out)
  local want, states
  local path = folder .. "/shards.safetensors"
  for _, cut in ipairs { false, true } do
    local m = dist.replicate(network(1))
    local opt = ty.optim.AdamW({ { params = m[1]:parameters() }, { params = m[3]:parameters(), lr = 0.01 } }, { lr = 0.05 })
    if cut then
      assert(rawequal(opt, dist.shard(opt)))
      local held, whole = held_by(opt)
      assert(held < whole and dist.all_reduce(ty.tensor { held }):item() == whole)
      assert(opt.lr == nil and opt.groups[2].lr == 0.01)
    end
    local got = together(m, cut and jit.compile(step_of(m, opt, 1)) or step_of(m, opt, 1), 5)
    local sd, list = opt:state_dict(), {}
    for _, g in ipairs(sd.groups) do
      for _, s in ipairs(g.state) do list[#list + 1] = ("%d %s %s"):format(s.step, text(s.exp_avg), text(s.exp_avg_sq)) end
    end
    local state = table.concat(list, "\n")
    if cut then
      assert(got == want, "weights of a sharded optimiser differ")
      assert(state == states, "the state of a sharded optimiser differs")
      assert(dist.save_checkpoint(path, { model = m, opt = opt, step = 5 }))
      local other = dist.replicate(network(9))
      local o = ty.optim.AdamW({ { params = other[1]:parameters() }, { params = other[3]:parameters() } }, { lr = 1 })
      dist.shard(o)
      local saved = assert(ty.load_checkpoint(path, { model = other, opt = o }))
      assert(saved.step == 5 and weights(other) == got)
      assert(held_by(o) == held_by(opt))
      local step, on = step_of(m, opt, 1), step_of(other, o, 1)
      dist.release(m)
      dist.release(other)
      local x, y = batch(50)
      step(x, y)
      on(x, y)
      assert(weights(m) == weights(other), "training does not go on to the bit")
      local none, why = dist.save_checkpoint("/no/such/folder/x", { opt = opt })
      assert(none == nil and why:find("/no/such/folder", 1, true))
      assert(raises(dist.save_checkpoint, path, { print = print }):find "cannot be saved")
      local one = ty.ones(2):requires_grad_()
      opt:add_group { params = { one }, lr = 0.5 }
      one:sum():backward()
      opt:step()
      same(dist.broadcast(one:detach()), one:detach(), "a group that came later")
    else
      dist.release(m)
    end
    want, states = got, state
  end
  assert(raises(dist.shard, ty.optim.LBFGS({ ty.ones(2):requires_grad_() })):find "all parameters together")
  out(want)
end

--------------------------------------------------------------------------------------------------------- the claims

--- Many bytes: more elements than 2^31.
function claims.huge(out)
  local n = 2 ^ 31 + 5
  local x = ty.full({ n }, rank + 1, { dtype = "u8" })
  x[{ { -1, -1 } }] = 7 * (rank + 1)
  local y = dist.all_reduce(x)
  local sum = size * (size + 1) / 2
  assert(y:get(1) == sum and y:get(n - 1) == sum and y:get(n) == 7 * sum)
  y:release()
  x = dist.broadcast(x, size - 1)
  assert(x:get(1) == size and x:get(n) == 7 * size)
  if rank == 0 then dist.send(x, 1) elseif rank == 1 then assert(dist.recv(0):get(n) == 7 * size) end
  out "huge"
end

for i = 2, #arg do
  local parts, any = {}, false
  claims[arg[i]](function(s) parts[#parts + 1] = s end, function() any = true end)
  dist.barrier()
  if rank == 0 then print(arg[i], digest(table.concat(parts, "\n")), any and "any ranks" or "") end
end
