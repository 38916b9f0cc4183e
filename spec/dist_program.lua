-- dist_program.lua -- what dist_spec.lua runs on each rank: claims of ty.dist, each against what one process computes.
--   tycho --ranks N -q spec/dist_program.lua FOLDER claim ...
-- Out: the first rank prints a line for each claim that holds: its name, and a digest of its results, which neither the MPI
-- library nor, where the line ends in "any ranks", the number of ranks may change. A claim that does not hold raises.

local ty = require "tycho"
local dist, nn = ty.dist, ty.nn
local W = require "tycho.dist.world"
local digest = W.digest

local rank, size = dist.init { timeout = 20 }
local everyone = W.open().all
local device = os.getenv "DIST_DEVICE" -- all that is made without one is made there
if device then
  assert(ty.cuda.is_available())
  ty.device(device)
end
local few = device and not os.getenv "TEST_LONG" -- a software GPU takes long for many cases
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
  local a, b = want:to "cpu":contiguous(), got:to "cpu":contiguous()
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
  for _, dtype in ipairs { "f32", "bf16", "i64", "c64" } do -- in slices
    local all = given(20011, dtype)
    local y = same(fold(all, add), dist.all_reduce(all[rank + 1]), "sum of 20011 " .. dtype)
    out(text(y:narrow(1, 1, 50)))
  end
  local all = {} -- in several blocks, of elements that repeat with a period that no block has
  for r = 1, size do all[r] = numbers(r - 1, 10007, "f32"):unsqueeze(1):expand(size * 110, 10007):reshape(-1) end
  local y = same(fold(all, add), dist.all_reduce(all[rank + 1]), "sum of many f32")
  out(text(y:narrow(1, 1, 50)))
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
    dist.send(ty.tensor({ 1 }, { device = "cpu" }), 1, { tag = 7 })
    dist.send(ty.tensor({ 2 }, { device = "cpu" }), 1, { tag = 255 })
    dist.send(ty.tensor({ 3 }, { device = "cpu" }), 1, { tag = 7 })
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

--- Where tensors lie, DIST_DEVICE being "cuda".
function claims.devices(out)
  local odd = rank == size - 1
  local message = raises(dist.all_reduce, ty.ones(3, { device = odd and "cpu" or nil }))
  assert(message:find("rank 0 calls all_reduce of f32[3] on cuda (sum), rank " .. size - 1 .. " calls all_reduce of f32[3] (sum)",
    1, true), message)
  assert(dist.all_reduce(ty.ones(3)).device == "cuda")
  assert(dist.all_reduce(ty.ones(3, { device = "cpu" })).device == "cpu")
  if rank == 0 then
    dist.send(ty.ones(2), 1)
    local x = ty.ones(2):exp()
    dist.send(x, 1) -- it waits for what computes it
  elseif rank == 1 then
    assert(dist.recv(0).device == "cuda")
    same(ty.ones(2):exp(), dist.recv(0), "a message of a device")
  end
  dist.barrier()
  out "devices"
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

--- Steps of one process that goes through the parts of each batch in order, as many as there are ranks.
local function alone(m, opt, steps, passes, parts)
  parts = parts or size
  for i = 1, steps do
    local x, y = batch(i)
    opt:zero_grad()
    for _ = 1, passes do
      local before = {}
      for k, p in ipairs(m:parameters()) do before[k], p.grad = p.grad or false, nil end
      for r = 0, parts - 1 do
        local n = 12 / parts
        ty.cross_entropy(m(x:narrow(1, r * n + 1, n)), y:narrow(1, r * n + 1, n)):backward()
      end
      for k, p in ipairs(m:parameters()) do
        local g = p.grad / parts
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

local function together(m, step, steps, group)
  for i = 1, steps do
    local x, y = batch(i)
    step(dist.part(x, 1, { group = group }), dist.part(y, 1, { group = group }))
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

--- Each rank's elements, which ranks have not agreed to exchange: [ranks, n].
local function shown_to_all(a)
  local n, own, all = a:numel(), {}, {}
  for r = 1, size do
    own[2 * r - 1], own[2 * r] = 0, n
    all[2 * r - 1], all[2 * r] = (r - 1) * n, n
  end
  return W.exchange("spec", everyone, "data", a, own, a.dtype, { size, n }, all)
end

--- Exchanges of some ranks, of MPI's own sums, of complex numbers and of single messages as steps of plans.
local function cases_of_some(x, y)
  local pairs_of = {}
  for r = 0, size - 2 do pairs_of[r] = dist.group { r, r + 1 } end
  local right, left = pairs_of[rank], pairs_of[rank - 1]
  local ends = dist.group { 0, size - 1 }
  local whole = numbers(rank, 20011, "i8"):to "f32"
  local complex, many = numbers(rank, 700, "c64"), numbers(rank, 20011 * size, "c128")
  local next_rank, last_rank = (rank + 1) % size, (rank - 1) % size
  local cases = {
    { "fast", function(a) return dist.all_reduce(a * 2, { fast = true }) + 1 end, whole },
    { "fast and not", function(a)
      local b = dist.all_reduce(a, { fast = true, op = "max" })
      return dist.all_reduce(b * a) + dist.all_reduce(a, { fast = true }) + b
    end, whole },
    { "complex", function(a) return dist.all_reduce(a * 2) + 1 end, complex },
    { "complex in blocks", function(a) return dist.all_reduce(a * 2, { op = "mean" }) end, many },
    { "complex copies", function(a) return dist.all_gather(a + 1):sum(1) * dist.broadcast(a, 1) end, many },
    { "neighbours", function(a)
      local b = a
      if right then b = b + dist.all_reduce(a, { group = right }) end
      if left then b = b - dist.all_reduce(a * 3, { group = left }) end
      if ends then b = b * dist.all_gather(a + 1, { group = ends }):sum(1) end
      return b
    end, x },
    { "neighbours by MPI", function(a)
      local b = a
      if right then b = b + dist.all_reduce(a, { group = right, fast = true }) end
      if left then b = b - dist.all_reduce(a * 3, { group = left, fast = true }) end
      return b
    end, whole },
    { "neighbours stop", function(a)
      if right then dist.barrier { group = right } end
      if left then dist.barrier { group = left } end
      return a + 1
    end, x },
    { "a message", function(a)
      if rank == 0 then dist.send(a * 2, 1) end
      return rank == 1 and dist.recv(0, { like = a }) + 1 or a
    end, y },
    { "a ring", function(a)
      if rank % 2 == 0 then dist.send(a * 2, next_rank) end
      local b = dist.recv(last_rank, { like = a })
      if rank % 2 == 1 then dist.send(a + b, next_rank) end
      return dist.all_reduce(b) + a
    end, x },
    { "messages of two tags", function(a)
      if rank == 0 then
        dist.send(a, 1, { tag = 7 })
        dist.send(a * 2, 1, { tag = 255 })
        dist.send(a * 3, 1, { tag = 7 })
        dist.send(ty.zeros(0, 2), 1)
      elseif rank == 1 then
        local b, c = dist.recv(0, { tag = 255, like = a }), dist.recv(0, { tag = 7, like = a })
        dist.recv(0, { like = ty.ones(0, 2) })
        return b * 10 + c - dist.recv(0, { tag = 7, like = a })
      end
      return a
    end, complex:narrow(1, 1, 20) }, -- few: MPI keeps them until they are asked for
  }
  if device then -- sends and receives of theirs are no steps
    for i = #cases, 1, -1 do
      if cases[i][1]:find "message" or cases[i][1] == "a ring" then table.remove(cases, i) end
    end
  end
  return cases
end

--- Exchanges as steps of plans: to the bit what they give at once.
function claims.captured(out)
  local x, y = numbers(rank, 1000, "f32"), numbers(rank, 42000 * size, "f32"):reshape(60 * size, 700)
  local blocks = numbers(rank, 1100000 * size, "f32") -- of 4 MB a rank
  local cases = { -- the same order on all ranks
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
    { "order", function(a)
      local b = shown_to_all(shown_to_all(a):sum(1) * 0.5)
      return b:sum(1) + shown_to_all(a + 1):sum(1)
    end, x },
    { "stop", function(a)
      dist.barrier()
      return a + 1
    end, x },
    { "unused", function(a)
      local b = dist.all_reduce(a)
      return rank == 0 and b or a
    end, x },
  }
  for _, case in ipairs(cases_of_some(x, y)) do cases[#cases + 1] = case end
  for _, case in ipairs(cases) do
    local name, f, a = unpack(case)
    local g = jit.compile(f)
    for _ = 1, 3 do same(f(a), g(a), "captured " .. name) end
    assert(is_whole(g), name .. ": " .. tostring(ty.explain(g)))
    -- the others call it at once, which is the same to this one
    for odd = 0, 1 do same(f(a), (rank == odd and f or g)(a), "captured by others, " .. name) end
  end
  local disagreed = ("all_reduce: the ranks do not agree: rank 0 calls all_reduce of f32[1000]%s (sum), rank %d"):format(
    device and " on " .. device or "", size - 1)
  local chosen = dist.group { rank }
  local of_chosen = jit.compile(function(a) return dist.all_reduce(a, { group = chosen }) + 1 end)
  for _, g in ipairs { chosen, everyone, chosen } do
    chosen = g
    for _ = 1, 2 do same(dist.all_reduce(x, { group = g }) + 1, of_chosen(x), "a group that changes") end
  end
  local message_of = { like = x } -- of what is sent
  if rank == 0 then dist.send(y, 1) dist.send(x, 1)
  elseif rank == 1 then
    assert(raises(dist.recv, 0, message_of):find("recv: rank 0 has sent f32[" .. table.concat(y.shape, ",") ..
      "], and option like is f32[1000]", 1, true))
    same(numbers(0, 1000, "f32"), dist.recv(0, message_of), "the next message")
  end
  local wrong = jit.compile(function(a) return dist.all_reduce(a) + 1 end)
  for _ = 1, 2 do wrong(x) end
  local message = raises(wrong, rank == size - 1 and numbers(rank, 999, "f32") or x)
  assert(message:find(disagreed, 1, true), message)
  same_text((message:gsub("^.-the ranks", "the ranks")))
  same(dist.all_reduce(x) + 1, wrong(x), "after ranks that did not agree")
  local two = jit.compile(function(a, b) return dist.all_reduce(a) + dist.all_reduce(b):sum() end)
  for _ = 1, 2 do two(x, x) end
  message = raises(two, x, rank == size - 1 and numbers(rank, 999, "f32") or x)
  assert(message:find(disagreed, 1, true), message)
  same(dist.all_reduce(x) + dist.all_reduce(x):sum(), two(x, x), "after a second call that did not agree")
  out "captured"
end

--- Exchanges of tensors of devices, at once and in plans, for which no host waits: the other ranks begin theirs when the first
--- one has gone on.
function claims.queued(out)
  local x = numbers(rank, 1000, "f32")
  local function f(a) return shown_to_all(a * 2):sum(1) + 1 end
  local g, want = jit.compile(f), f(x)
  for _ = 1, 3 do same(want, g(x), "a plan") end
  for name, h in pairs { eager = f, plan = g } do
    local y = rank == 0 and h(x)
    dist.barrier()
    if rank > 0 then y = h(x) end
    same(want, y, name)
  end
  assert(is_whole(g), tostring(ty.explain(g)))
  local function sum_of_odd(a) return dist.all_reduce(a, { op = "max" }) + dist.all_reduce(a, { fast = true }) end
  local whole, sum = numbers(rank, 20011, "i8"):to "f32", jit.compile(sum_of_odd) -- slices of which one is empty
  for _ = 1, 2 do same(sum_of_odd(whole), sum(whole), "an odd number of elements") end
  out(text(want))
end

--- Models of two ranks each, beside others that no pass reaches, of these or of all ranks; steps that were captured before.
function claims.replicas(out)
  local mine
  for r = 0, size - 2, 2 do mine = dist.group { r, r + 1 } or mine end
  local first = mine.ranks[1]
  local one = network(1 + first)
  alone(one, adam(one), 6, 1, 2)
  local want = weights(one)
  for i = 1, 4 do
    local compiled, apart = i % 2 == 0, i > 2
    local m = dist.replicate(network(1 + rank), { group = mine })
    local unused = dist.replicate(network(9 + rank), { group = not apart and mine or nil })
    local step = step_of(m, adam(m), 1)
    if compiled then step = jit.compile(step) end
    assert(together(m, step, 6, mine) == want)
    if compiled and not apart then assert(is_whole(step), tostring(ty.explain(step))) end
    assert(weights(unused) == weights(network(apart and 9 or 9 + first)) and unused[1].weight.grad == nil)
    dist.release(unused)
    dist.release(m)
  end
  out(mine.ranks[1] == 0 and want or "")
  local m, other = network(1), network(2)
  local x = numbers(rank, 6, "f32"):reshape(1, 6) * 0.01
  local function pass()
    m[1].bias.grad, m[3].weight.grad = nil, nil
    m(x):sum():backward()
    return m[1].bias.grad + m[3].weight.grad:sum()
  end
  local captured = jit.compile(pass)
  local function agrees(what)
    for _ = 1, 2 do same(pass(), captured(), what) end
  end
  agrees "a rank's own"
  local own = pass()
  dist.replicate(m)
  agrees "captured before its model was replicated"
  assert(not own:eq(pass()):all():item())
  dist.replicate(other)
  agrees "captured before another model was replicated"
  dist.release(m)
  agrees "captured before its model was released"
  same(own, pass(), "released")
  dist.release(other)
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
  local rows = few and { 8, 8, 5 } or { 8, 8, 8, 5, 8, 5, 8, 8 }
  local function reaches(i, r) return few or i ~= 7 or r == 0 end
  local function rate(opt, i) opt.lr = 0.02 / i end
  if device then ty.device "cpu" end
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
  if device then ty.device(device) end
  for plain = few and 1 or -1, 1 do -- this rank runs Lua; -1: none does
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
      assert(tostring(e):find "; %d exchanges with other ranks", tostring(e))
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

--- Two blocks and what is around them, one of its weights in two places, one frozen; a parameter that is never used.
local Net = nn.class "Net"
function Net:init(seed)
  ty.manual_seed(seed)
  self.embed, self.blocks = nn.Embedding(7, 4), nn.ModuleList()
  for i = 1, 2 do self.blocks[i] = nn.TransformerBlock(4, 2, { causal = true, dropout = 0.1 }) end
  self.head = nn.Linear(4, 7)
  self.head.weight = self.embed.weight
  self.frozen, self.unused = ty.randn(4), nn.Parameter(ty.randn(1))
end
function Net:forward(x)
  local h = self.embed(x) + self.frozen
  for i = 1, 2 do h = self.blocks[i](h) end
  return h:matmul(self.head.weight:t()) + self.head.bias
end

local function in_units(m, keep)
  for i = 1, 2 do dist.fully_shard(m.blocks[i], { keep = keep }) end
  return dist.fully_shard(m)
end

local function states_of(opt)
  local list = {}
  for _, g in ipairs(opt:state_dict().groups) do
    for _, s in ipairs(g.state) do list[#list + 1] = ("%d %s %s"):format(s.step, text(s.exp_avg), text(s.exp_avg_sq)) end
  end
  return table.concat(list, "\n")
end

local function whole_weights(m)
  local names, list, sd = {}, {}, m:state_dict()
  for name in pairs(sd) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do list[i] = name .. text(sd[name]) end
  return table.concat(list, "\n")
end

--- Steps on sequences, each rank with random numbers of its own.
local function learn(m, opt, from, steps, compiled, clip)
  local function fn(x, y)
    opt:zero_grad()
    local loss = ty.cross_entropy(m(x), y)
    loss:backward()
    local norm = clip(opt.groups[1].params, 0.3)
    opt:step()
    return loss:detach(), norm
  end
  local step, norms = compiled and jit.compile(fn) or fn, {}
  for i = from, from + steps - 1 do
    ty.manual_seed(300 + i)
    local x, y = ty.randint(1, 7, { 12, 3 }), ty.randint(1, 7, { 12, 3 })
    ty.manual_seed(1000 * i + rank)
    local _, norm = step(dist.part(x), dist.part(y))
    norms[#norms + 1] = text(norm)
  end
  return table.concat(norms, " ")
end

function claims.units(out)
  local one = dist.replicate(Net(1))
  local adam_one = adam(one)
  local norms = learn(one, adam_one, 1, 3, false, ty.clip_grad_norm_)
  local want, states, count = whole_weights(one), states_of(adam_one), one:num_parameters()
  dist.release(one)
  for _, case in ipairs { { true, false }, { nil, true } } do
    local m = in_units(Net(1 + rank), case[1])
    local what = ("kept %s, compiled %s"):format(tostring(case[1]), tostring(case[2]))
    assert(m:num_parameters() <= count / size + 30)
    local opt = dist.shard(adam(m))
    assert(learn(m, opt, 1, 3, case[2], dist.clip_grad_norm_) == norms, what .. ": norms differ")
    assert(whole_weights(m) == want, what .. ": weights differ")
    assert(states_of(opt) == states, what .. ": states differ")
    assert(rawequal(m.head.weight, m.embed.weight) and m.embed.weight.ndim == 1 and m.unused.grad == nil)
    -- a checkpoint of other ranks, of this number, and of a process alone
    local path = folder .. "/units.safetensors"
    local f = io.open(path)
    if f then
      f:close()
      local other = in_units(Net(7))
      local o = dist.shard(adam(other))
      local saved = assert(ty.load_checkpoint(path, { model = other, opt = o }))
      assert(whole_weights(other) == saved.weights and states_of(o) == saved.states, what .. ": of other ranks")
    end
    dist.barrier()
    assert(dist.save_checkpoint(path, { model = m, opt = opt, weights = want, states = states }))
    local plain, other = Net(8), in_units(Net(9))
    local p, o = adam(plain), dist.shard(adam(other))
    assert(ty.load_checkpoint(path, { model = plain, opt = p }))
    assert(whole_weights(plain) == want and states_of(p) == states, what .. ": alone")
    assert(ty.load_checkpoint(path, { model = other, opt = o }))
    learn(m, opt, 4, 2, false, dist.clip_grad_norm_)
    learn(other, o, 4, 2, false, dist.clip_grad_norm_)
    assert(whole_weights(other) == whole_weights(m), what .. ": training does not go on to the bit")
  end
  out(want)
  local m = in_units(Net(1))
  local p = m:parameters()
  assert(raises(ty.clip_grad_norm_, p, 1):find("is this rank's part of one that ty.dist has cut (use that of ty.dist", 1, true))
  assert(raises(ty.optim.Adafactor, p, {}):find "is this rank's part of one")
  assert(raises(ty.optim.LBFGS, p, {}):find "is this rank's part of one")
  assert(raises(dist.fully_shard, m):find "the module was cut before: Net")
  assert(raises(m.to, m, "f64"):find "call to before")
  local tied = Net(1)
  dist.fully_shard(tied.head)
  assert(raises(dist.fully_shard, tied):find "embed.weight is a part of a unit that was cut before")
  assert(raises(dist.fully_shard, nn.Linear(3, rank + 2)):find "the ranks do not agree: rank 0 calls fully_shard of 2 tensors")
  -- what an error leaves: slices; a scaler makes one decision on all ranks
  raises(m.blocks[1], ty.ones(2, 3, 5))
  assert(m.blocks[1].linear1.weight.ndim == 1)
  local opt, scaler = adam(m), ty.optim.GradScaler { init_scale = 4 }
  m.embed.weight.grad = ty.full(m.embed.weight.shape, rank == size - 1 and 1 / 0 or 1)
  assert(scaler:step(opt) == false)
  ty.no_grad(m, ty.ones(1, 2):to "i64") -- no tape, whole or not
  assert(m.blocks[1].linear1.weight.ndim == 1)
end

--- What a rank keeps of a model that has 4 blocks of 12 * 64 * 64 elements, and at most at once.
function claims.memory(out)
  local function used(cut)
    collectgarbage()
    collectgarbage()
    local before = ty.stats().memory.used
    ty.manual_seed(1)
    local m = nn.Sequential()
    for i = 1, 4 do m[i] = nn.TransformerBlock(64, 2) end
    if cut then
      for i = 1, 4 do dist.fully_shard(m[i], { keep = cut == "keep" }) end
      dist.fully_shard(m)
    else
      dist.replicate(m)
    end
    local opt = adam(m)
    local x, between = ty.randn(1, 4, 64), nil
    local function pass()
      opt:zero_grad()
      local y = m(x):sum()
      collectgarbage()
      between = ty.stats().memory.used - before
      y:backward()
      opt:step()
    end
    for _ = 1, 2 do
      pass()
      collectgarbage()
      collectgarbage()
    end
    local kept = ty.stats().memory.used - before
    if not cut then dist.release(m) end
    return kept, between
  end
  local all = 4 * (12 * 64 * 64 + 13 * 64) * 4 -- bytes of the parameters; gradients and two states are as many each
  local whole, z2, between2 = used(), used "keep"
  local z3, between3 = used "free"
  -- handles of the last results of a line live until it runs again: some gathered parameters that are kept
  assert(whole > 4 * all and z2 < 4.1 * all / size + 0.6 * all and z3 < 4.1 * all / size,
    ("%d %d %d %d"):format(all, whole, z2, z3))
  assert(between3 < between2 - 0.8 * all, ("%d %d %d"):format(all, between2, between3))
  out "memory"
end

-------------------------------------------------------------------------------------------------------- layers in parts

--- A transformer of one block over 8 classes, as it is and, of `parts` ranks' parts, each part by itself.
local Small = nn.class "Small"
function Small:init(seed)
  ty.manual_seed(seed)
  self.embed, self.block = nn.Embedding(8, 16), nn.TransformerBlock(16, 4, { causal = true, rotary = true, inner = 24 })
  self.head = nn.Linear(16, 8)
end
function Small:forward(x) return self.head(self.block(self.embed(x))) end

local SMALL = { embed = "entries", head = "classes" }

--- A tensor to a copy for each part, whose gradients are added in order.
local function fan(x, parts)
  return { ty.custom_grad(function(v)
    local list = {}
    for i = 1, parts do list[i] = v:clone() end
    return list
  end, function(_, ...)
    local y = ...
    for i = 2, parts do y = y + (select(i, ...)) end
    return y
  end)(x) }
end

--- The columns of in_proj that part i of so many has.
local function head_columns(w, i, parts)
  local n, list = 16 / parts, {}
  for k = 0, 2 do list[k + 1] = w:narrow(-1, 16 * k + (i - 1) * n + 1, n) end
  return ty.cat(list, -1)
end

local function leaf(x) return nn.Parameter(x:detach():clone()) end

local function in_parts(m, parts)
  local b, one = m.block, { embed = m.embed, norm1 = m.block.norm1, norm2 = m.block.norm2 }
  one.out_bias, one.bias2 = leaf(b.self_attn.out_proj.bias), leaf(b.linear2.bias)
  for i = 1, parts do
    local part, n, inner = {}, 16 / parts, 24 / parts
    part.attn = nn.MultiHeadAttention(16, 4, { causal = true, rotary = true })
    part.attn.heads, part.attn.kv_heads = 4 / parts, 4 / parts
    part.attn.in_proj_weight = leaf(head_columns(b.self_attn.in_proj_weight, i, parts))
    part.attn.in_proj_bias = leaf(head_columns(b.self_attn.in_proj_bias, i, parts))
    part.attn.out_proj = nn.Linear(n, 16, { bias = false })
    part.attn.out_proj.weight = leaf(b.self_attn.out_proj.weight:narrow(1, (i - 1) * n + 1, n))
    part.w1 = leaf(b.linear1.weight:narrow(2, (i - 1) * inner + 1, inner))
    part.b1 = leaf(b.linear1.bias:narrow(1, (i - 1) * inner + 1, inner))
    part.w2 = leaf(b.linear2.weight:narrow(1, (i - 1) * inner + 1, inner))
    part.head = leaf(m.head.weight:narrow(2, (i - 1) * 8 / parts + 1, 8 / parts))
    part.head_bias = leaf(m.head.bias:narrow(1, (i - 1) * 8 / parts + 1, 8 / parts))
    one[i] = part
  end
  return nn.Module(one)
end

local function sum_of_parts(parts, fn)
  local y
  for i = 1, parts do y = y and y + fn(i) or fn(i) end
  return y
end

local function loss_in_parts(m, parts, x, labels)
  local h = m.embed(x)
  local a = fan(m.norm1(h), parts)
  h = h + (sum_of_parts(parts, function(i) return m[i].attn(a[i]) end) + m.out_bias)
  local c = fan(m.norm2(h), parts)
  h = h + (sum_of_parts(parts, function(i) return ty.gelu(c[i]:matmul(m[i].w1) + m[i].b1):matmul(m[i].w2) end) + m.bias2)
  local d, scores = fan(h, parts), {}
  for i = 1, parts do scores[i] = d[i]:matmul(m[i].head) + m[i].head_bias end
  local most = ty.cat(scores, -1):detach():max(-1, true)
  local total = sum_of_parts(parts, function(i) return (scores[i] - most):exp():sum(-1) end)
  local picked = (ty.cat(scores, -1) - most):gather(-1, labels:unsqueeze(-1)):squeeze(-1)
  return (total:log() - picked):mean()
end

--- The whole weights of a model in parts, by the names of the model.
local function whole_of_parts(m, parts)
  local sd = { ["embed.weight"] = m.embed.weight, ["block.linear2.bias"] = m.bias2,
    ["block.self_attn.out_proj.bias"] = m.out_bias }
  for _, norm in ipairs { "norm1", "norm2" } do
    sd["block." .. norm .. ".weight"], sd["block." .. norm .. ".bias"] = m[norm].weight, m[norm].bias
  end
  local function join(name, dim, get)
    local list = {}
    for i = 1, parts do list[i] = get(m[i]):detach() end
    sd[name] = ty.cat(list, dim)
  end
  join("block.self_attn.out_proj.weight", 1, function(p) return p.attn.out_proj.weight end)
  join("block.linear1.weight", 2, function(p) return p.w1 end)
  join("block.linear1.bias", 1, function(p) return p.b1 end)
  join("block.linear2.weight", 1, function(p) return p.w2 end)
  join("head.weight", 2, function(p) return p.head end)
  join("head.bias", 1, function(p) return p.head_bias end)
  for _, name in ipairs { "in_proj_weight", "in_proj_bias" } do
    local list, n = {}, 16 / parts
    for k = 0, 2 do
      for i = 1, parts do list[#list + 1] = m[i].attn[name]:detach():narrow(-1, k * n + 1, n) end
    end
    sd["block.self_attn." .. name] = ty.cat(list, -1)
  end
  return { state_dict = function() return sd end }
end

local function sequences(i)
  ty.manual_seed(500 + i)
  return ty.randint(1, 8, { 3, 5 }), ty.randint(1, 8, { 3, 5 })
end

local function steps_of(opt, loss_of, from, steps)
  local losses = {}
  for i = from, from + steps - 1 do
    local x, y = sequences(i)
    opt:zero_grad()
    local loss = loss_of(x, y)
    loss:backward()
    opt:step()
    losses[#losses + 1] = text(loss:detach())
  end
  return table.concat(losses, " ")
end

function claims.tensors(out)
  local one = in_parts(Small(1), size)
  local losses = steps_of(adam(one), function(x, y) return loss_in_parts(one, size, x, y) end, 1, 3)
  local want = whole_weights(whole_of_parts(one, size))
  local m = dist.tensor_parallel(Small(1 + rank), SMALL)
  local opt = dist.shard(adam(m))
  local function loss_of(x, y) return dist.cross_entropy(m(x), y) end
  assert(m.block.linear1.weight:size(2) == 24 / size and m.head.weight:size(2) == 8 / size)
  assert(steps_of(opt, loss_of, 1, 3) == losses, "losses differ")
  assert(whole_weights(m) == want, "weights differ")
  out(want)
  -- checkpoints: of other ranks, of these, of one process
  local path = folder .. "/tensors.safetensors"
  local f = io.open(path)
  if f then
    f:close()
    local other = dist.tensor_parallel(Small(5), SMALL)
    local saved = assert(ty.load_checkpoint(path, { model = other }))
    assert(whole_weights(other) == saved.weights, "of other ranks")
  end
  dist.barrier()
  assert(dist.save_checkpoint(path, { model = m, opt = opt, weights = want }))
  local plain, again = Small(6), dist.tensor_parallel(Small(7), SMALL)
  local o, p = dist.shard(adam(again)), adam(plain)
  assert(ty.load_checkpoint(path, { model = plain, opt = p }))
  assert(whole_weights(plain) == want and states_of(p) == states_of(opt))
  assert(ty.load_checkpoint(path, { model = again, opt = o }))
  steps_of(opt, loss_of, 4, 1)
  local x, y = sequences(4)
  local step = jit.compile(function()
    o:zero_grad()
    dist.cross_entropy(again(x), y):backward()
    dist.clip_grad_norm_(o.groups[1].params, 1e9)
    o:step()
  end)
  step()
  assert(whole_weights(m) == whole_weights(again), "compiled, from a checkpoint")
  -- what is not cut: the bits of a layer that is whole
  local table_, columns = nn.Embedding(8, 4), nn.Linear(4, 8)
  local e = dist.broadcast(table_(x):detach())
  columns.weight, columns.bias = dist.broadcast(columns.weight:detach()), dist.broadcast(columns.bias:detach())
  nn.Parameter(columns.weight)
  nn.Parameter(columns.bias)
  local c = columns(e):detach()
  local layers = dist.tensor_parallel(nn.Module { a = table_, b = columns, d = nn.Linear(8, 4) },
    { a = "entries", b = "columns", d = "rows" })
  same(e, layers.a(x):detach(), "an embedding")
  same(c, layers.b(e):detach(), "columns")
  local h = ty.ones(2, 8):requires_grad_()
  local r = layers.d(h)
  r:sum():backward()
  assert(r:detach():allclose(h:detach():matmul(layers:state_dict()["d.weight"]) + layers.d.bias:detach(), { rtol = 1e-5, atol = 1e-5 }))
  assert(h.grad:allclose(layers:state_dict()["d.weight"]:sum(2):expand(2, 8)))
  same(dist.broadcast(h.grad), h.grad, "a gradient of the input")
  local attention = dist.tensor_parallel(nn.MultiHeadAttention(16, 4))
  local u = dist.broadcast(ty.randn(1, 3, 16)):requires_grad_()
  attention(u):square():sum():backward()
  local slope = u.grad
  u.grad = nil
  attention(u, u, u):square():sum():backward()
  same(slope, u.grad, "keys and values that are the queries")
  if size == 4 then -- two groups, each with a model of its own
    local low, high = dist.group { 0, 1 }, dist.group { 2, 3 }
    local g = low or high
    local two = dist.tensor_parallel(Small(1), SMALL, { group = g })
    local loss = dist.cross_entropy(two(x), y, { group = g })
    same(dist.broadcast(loss:detach()), loss:detach(), "groups")
  end
  for _, case in ipairs {
    { "tensor_parallel: d: 7 inputs do not divide by " .. size .. " ranks", nn.Module { d = nn.Linear(7, 4) }, { d = "rows" } },
    { "tensor_parallel: d is Linear, and \"entries\" is for Embedding", nn.Module { d = nn.Linear(8, 4) }, { d = "entries" } },
    { "tensor_parallel: d: a style must be one of block classes columns entries heads rows, got string \"row\"",
      nn.Module { d = nn.Linear(8, 4) }, { d = "row" } },
    { "Linear has no TransformerBlock or MultiHeadAttention", nn.Linear(8, 4) },
    { "get_submodule: there is no x in Module", nn.Module { d = nn.Linear(8, 4) }, { x = "rows" } },
    { "a.weight is cut already", layers, { d = "rows" } },
  } do
    local message = raises(dist.tensor_parallel, case[2], case[3])
    assert(message:find(case[1], 1, true), message)
  end
  assert(raises(table_, x + 8):find "an index is out of range, 1 to 8")
  assert(raises(dist.cross_entropy, ty.ones(2, 8 / size), x):find "labels must be integers %[2%], got i64%[3,5%]")
  assert(raises(dist.cross_entropy, ty.ones(3, 5, 8 / size), x + 8):find "labels must be in 1 to 8")
end

---------------------------------------------------------------------------------------------------------------- stages

local function layers(seed)
  ty.manual_seed(seed)
  return nn.Sequential(nn.Embedding(8, 6), nn.Linear(6, 12), nn.Tanh(), nn.BatchNorm1d(12), nn.Linear(12, 9), nn.ReLU(),
    nn.Linear(9, 8))
end

local function rows_of(i)
  ty.manual_seed(700 + i)
  return ty.randint(1, 8, { 12 }), ty.randint(1, 8, { 12 })
end

--- One process: micro-batches one by one through the whole model.
local function one_by_one(m, opt, from, steps, micro, limit)
  local told = {}
  for i = from, from + steps - 1 do
    local x, y = rows_of(i)
    opt:zero_grad()
    local total
    for k = 1, micro do
      local n = 12 / micro
      local loss = ty.cross_entropy(m(x:narrow(1, (k - 1) * n + 1, n)), y:narrow(1, (k - 1) * n + 1, n))
      total = total and total + loss:detach() or loss:detach();
      (loss / micro):backward()
    end
    told[#told + 1] = text(total / micro) .. text(ty.clip_grad_norm_(m:parameters(), limit))
    opt:step()
  end
  return table.concat(told, " ")
end

local function staged(pipe, opt, from, steps, limit)
  local told = {}
  for i = from, from + steps - 1 do
    local x, y = rows_of(i)
    opt:zero_grad()
    local loss = pipe:backward(rank == 0 and x or nil, rank == size - 1 and y or nil)
    told[#told + 1] = text(loss) .. text(pipe:clip_grad_norm_(limit))
    opt:step()
  end
  return table.concat(told, " ")
end

function claims.stages(out, any)
  any()
  for _, case in ipairs { { 6, "1f1b", false }, { 3, "gpipe", true }, { 1, "1f1b", false } } do
    local micro, schedule, compiled = unpack(case)
    local what = ("%d, %s, %s: "):format(unpack { micro, schedule, tostring(compiled) })
    local one = layers(1)
    local plain = adam(one)
    local told = one_by_one(one, plain, 1, 3, micro, 0.5)
    local model = layers(1 + rank)
    local pipe = dist.pipeline(model, { micro = micro, schedule = schedule, compile = compiled, loss = ty.cross_entropy })
    local opt = dist.shard(adam(pipe))
    assert(#model == 0 and pipe:num_parameters() < one:num_parameters())
    assert(staged(pipe, opt, 1, 3, 0.5) == told, what .. "losses or norms differ")
    assert(whole_weights(pipe) == whole_weights(one), what .. "weights differ")
    assert(states_of(opt) == states_of(plain), what .. "states differ")
    out(told)
    if micro == 6 then
      local x = rows_of(1)
      pipe:eval()
      one:eval()
      same(one(x):detach(), pipe(rank == 0 and x or nil), "a forward alone")
      pipe:train()
      local path = folder .. "/stages.safetensors"
      local f = io.open(path)
      if f then
        f:close()
        local other = dist.pipeline(layers(4), { micro = 2 })
        local saved = assert(ty.load_checkpoint(path, { model = other }))
        assert(whole_weights(other) == saved.weights, "of other ranks")
      end
      dist.barrier()
      assert(dist.save_checkpoint(path, { model = pipe, opt = opt, weights = whole_weights(one) }))
      local whole, again = layers(5), dist.pipeline(layers(6), { micro = micro, loss = ty.cross_entropy,
        parts = ({ {}, { 3, 4 }, { 2, 2, 3 }, { 1, 3, 1, 2 } })[size] })
      local o, a = dist.shard(adam(again)), adam(whole)
      assert(ty.load_checkpoint(path, { model = whole, opt = a }))
      assert(whole_weights(whole) == whole_weights(one) and states_of(a) == states_of(plain), "alone")
      assert(ty.load_checkpoint(path, { model = again, opt = o }))
      assert(staged(again, o, 4, 1, 1) == one_by_one(whole, a, 4, 1, micro, 1), "from a checkpoint")
      assert(whole_weights(again) == whole_weights(whole), "from a checkpoint, in other stages")
      assert(raises(ty.clip_grad_norm_, pipe:parameters(), 1):find "is one of a stage of a pipeline")
      assert(raises(ty.optim.LBFGS, pipe:parameters(), {}):find "is one of a stage of a pipeline")
    end
  end
  local tied = layers(1)
  tied[7].weight = tied[2].weight
  for _, case in ipairs {
    { "pipeline: there are 1 modules for " .. size .. " ranks", { nn.Tanh() } },
    { "pipeline: module 2 must be a module, got number 3", { nn.Tanh(), 3 } },
    { "7.weight is a tensor of another stage, too", tied },
    { "option micro must be a whole number of micro-batches, got number 0", layers(1), { micro = 0 } },
    { 'option schedule must be "1f1b" or "gpipe", got "x"', layers(1), { schedule = "x" } },
    { "numbers that add up to 7 modules, got", layers(1), { parts = { 1, 1, 1, 1, 1 } } },
    { "the ranks do not agree: rank 0 calls a pipeline of 11 tensors, micro = 1, 1f1b, parts ", layers(1), { micro = rank + 1 } },
  } do
    local message = raises(dist.pipeline, case[2], case[3])
    assert(message:find(case[1], 1, true), message)
  end
end

--------------------------------------------------------------------------------------------------------- the claims

--- Messages of more bytes than MPI counts: here it counts to 1,000.
function claims.pieces(out)
  local C, failed = require("tycho.dist.world").open().C, os.getenv "TYCHO_DIST_FAILED" or ""
  C.settings(20, failed, size, 1000)
  for _, dtype in ipairs { "f32", "c128" } do
    for _, n in ipairs { 250, 251, 20011 } do
      local all = given(n, dtype)
      local y = same(fold(all, add), dist.all_reduce(all[rank + 1]), ("sum of %d %s"):format(n, dtype))
      out(text(y:narrow(1, n - 9, 10)))
    end
    local all = given(20011, dtype)
    same(all[size], dist.broadcast(all[rank + 1], size - 1), "broadcast")
    same(ty.stack(all, 1), dist.all_gather(all[rank + 1]), "all_gather")
    if rank == 0 then dist.send(all[1], 1) elseif rank == 1 then same(all[1], dist.recv(0), "a message") end
  end
  local ints = given(20011, "i8")
  local want = fold(ints, function(a, b) return a:to "i64" + b:to "i64" end)
  same(want, dist.all_reduce(ints[rank + 1]:to "i64", { fast = true }), "MPI's sum")
  C.settings(20, failed, size, 2 ^ 30)
end

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
