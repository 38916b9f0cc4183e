-- Forward passes that are compiled, whose gradients are asked for outside: against the same functions run eagerly, bit for bit.
--   luajit spec/fuzz_forward.lua [programs = 1500] [seed = another each time] [only this program]
-- A program (fuzz_loss.lua) gives its loss and some of its values. What is done with them outside is one of the ways below:
-- some results are used, or all; more than once; with tensors that the function was given; changed afterwards; several calls,
-- several backward passes, gradients of gradients. All values, gradients, errors, and what results say of themselves are the same.
-- Each third program is one of fuzz_sized.lua, whose sizes change from call to call; results of a call are gone back through
-- behind the next one, which has other sizes.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, losses = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_loss.lua")
local sized = dofile(here .. "/fuzz_sized.lua")
local gen, SMOOTH, floats_of, readable = losses.gen, losses.SMOOTH, losses.floats_of, frame.readable

--- Of what a way does: inputs, what is told, and helpers.
local function is_float(t) return ty.is_tensor(t) and SMOOTH[t.dtype] and t:numel() > 0 end

--- A sum of the elements, each by a weight of its own.
local function weigh(t, k)
  t = losses.reals(t)
  local w = (ty.arange(t:numel(), { dtype = "f64" }) * 0.9 + k):sin() + 0.25
  return (t:to("f64") * w:reshape(t.shape)):sum()
end

local function weigh_all(list)
  local sum = ty.zeros({}, { dtype = "f64" })
  for k, t in ipairs(list) do
    if is_float(t) then sum = sum + weigh(t, k) end
  end
  return sum
end

local function tried(out, ...)
  local ok, why = pcall(...)
  out[#out + 1] = ok and "passed" or "error " .. frame.anywhere(why)
end

local function backward(y, ...) y:backward(...) end

local function needing(outs)
  local list = {}
  for _, t in ipairs(outs) do
    if is_float(t) and t.requires_grad then list[#list + 1] = t end
  end
  return list
end

--- out: what is told. f: gives the results. x: inputs, leaves where they are floats. r: which of several.
local ways = {
  function(out, f, x) tried(out, backward, f(x)[1]) end,
  function(out, f, x) tried(out, backward, weigh_all(f(x))) end,
  function(out, f, x, r)
    local outs = needing(f(x))
    if outs[1] then tried(out, backward, weigh(outs[r % #outs + 1], 1)) end
  end,
  function(out, f, x) -- two calls, the first one's gradient last
    local a, b = f(x), f(x)
    tried(out, backward, b[1])
    tried(out, backward, weigh_all(a))
  end,
  function(out, f, x, r)
    local y = f(x)
    tried(out, backward, y[r % 2 == 0 and 2 or 1], { retain_graph = true })
    tried(out, backward, y[1])
    tried(out, backward, y[1])
  end,
  function(out, f, x) -- each result by itself: some lead to what an earlier pass has freed
    for _, t in ipairs(needing(f(x))) do tried(out, backward, weigh(t, 2)) end
  end,
  function(out, f, x) -- gradients of gradients, through grad of leaves
    local y = f(x)
    tried(out, backward, y[1], { create_graph = true })
    local list = { y[2] }
    for _, t in ipairs(x) do
      if SMOOTH[t.dtype] and t.grad then list[#list + 1] = t.grad end
    end
    tried(out, backward, weigh_all(list))
  end,
  function(out, f, x) -- what the function is given is used before and behind it, too
    local before = weigh_all(x) * 0.5
    local y = f(x)
    local behind = weigh_all(x)
    tried(out, backward, y[1] * 2 + behind + before)
  end,
  function(out, f, x, r) -- inputs that are no leaves
    local list = {}
    for i, t in ipairs(x) do list[i] = SMOOTH[t.dtype] and t * 1.5 or t end
    local first = list[1]
    if r % 3 == 0 then list[2] = list[2] and SMOOTH[list[2].dtype] and list[2]:detach() or list[2] end
    local y = weigh_all(f(list))
    if is_float(first) then y = y + weigh(first, 3) end
    tried(out, backward, y)
  end,
  function(out, f, x, r) -- a result is changed
    local y = f(x)
    local t = y[r % #y + 1]
    tried(out, ty.no_grad, function() t:mul_(3) end)
    tried(out, backward, weigh_all(y))
  end,
  function(out, f, x, r) -- an input is changed
    local y = f(x)
    tried(out, ty.no_grad, function() x[r % #x + 1]:mul_(2) end)
    tried(out, backward, y[1])
  end,
  function(out, f, x, r) -- a result is written to, and goes on
    local y = f(x)
    local t = y[2 + r % 2] or y[1]
    tried(out, function() t:mul_(2) end)
    tried(out, backward, weigh_all(y))
  end,
  function(out, f, x) -- ty.grad around it
    local floats = {}
    for i, t in ipairs(x) do
      if SMOOTH[t.dtype] then floats[#floats + 1] = i end
    end
    if #floats == 0 then return end
    tried(out, function()
      for _, g in ipairs { ty.value_and_grad(function(...) return weigh_all(f { ... }) end, floats)(unpack(x)) } do
        out[#out + 1] = gen.describe(ty, g:detach())
        out[#out + 1] = tostring(g.requires_grad)
      end
    end)
  end,
  function(out, f, x) -- gradients of gradients of another kind
    local i
    for k, t in ipairs(x) do i = i or SMOOTH[t.dtype] and k end
    if not i then return end
    tried(out, function()
      local args = { unpack(x) }
      local inner = ty.grad(function(t)
        args[i] = t
        local y = f(args)
        return y[1] * 0.5 + weigh_all { y[2] }
      end)
      local g = ty.grad(function(t) return weigh_all { inner(t) } end)(x[i])
      out[#out + 1] = gen.describe(ty, g:detach())
    end)
  end,
  function(out, f, x) -- where nothing is tracked
    for _, t in ipairs(ty.no_grad(f, x)) do out[#out + 1] = tostring(t.requires_grad) end
  end,
  function(out, f, x, r) -- parts of results, and those detached
    local list = {}
    for k, t in ipairs(f(x)) do
      if is_float(t) then
        list[#list + 1] = t.ndim > 0 and t:narrow(1, 1, 1) or t
        list[#list + 1] = k % 2 == r % 2 and t:detach() or t:flatten():flip(1)
      end
    end
    tried(out, backward, weigh_all(list))
  end,
  function(out, f, x) -- kept as its arguments alone
    tried(out, function()
      local y = ty.checkpoint(function(...) return unpack(f { ... }) end, unpack(x))
      y:backward()
    end)
  end,
  function(out, f, x) -- one call's results are the next one's inputs
    local y = f(x)
    local list = { unpack(x) }
    for i, t in ipairs(list) do
      local first = y[2]
      if is_float(t) and is_float(first) and t.dtype == first.dtype and SMOOTH[t.dtype] then
        list[i] = t + first:sum()
      end
    end
    tried(out, backward, weigh_all(f(list)) + y[1])
  end,
  function(out, f, x) -- some leaves are none
    for i, t in ipairs(x) do
      if i % 2 == 1 and SMOOTH[t.dtype] then x[i] = t:detach() end
    end
    local y = f(x)
    if y[1].requires_grad then tried(out, backward, y[1]) end
  end,
  function(out, f, x) -- a leaf in two places
    for i = 2, #x do
      if x[i].dtype == x[1].dtype and table.concat(x[i].shape, " ") == table.concat(x[1].shape, " ") then x[i] = x[1] end
    end
    tried(out, backward, weigh_all(f(x)))
  end,
}

-- --- one program

local by_kind = { 0, 0, 0, 0 }
local counts = { calls = 0, captured = 0, parts = 0, skips = 0, raised = 0, passed = 0, programs = 0, sized = 0, ranges = 0,
  backward = 0 }

local function eager(f) return f end

local compiled
local function captured(f)
  compiled = ty.compile(f)
  return compiled
end

--- Functions with rules of their own around what the program does, by number; w: a leaf of 3.
local inside = {
  function(values) return values end,
  function(values, w) -- all of it runs again; what it closes over needs a gradient, too
    local k = w[3] * 0.5
    return function(...)
      local y, a, b = ty.checkpoint(values, ...)
      return ty.checkpoint(function(t) return t * k end, y), a, b
    end
  end,
  function(values, w) -- what is saved holds an argument, a result, a number
    local own = ty.custom_grad(function(t, v, n)
      local y = t * v * n
      return y, { y = y, v = v, n = n, t = t }
    end, function(s, g) return g * s.v * s.n, (g * s.t * s.n + g * s.y * 0):sum() end)
    return function(...)
      local y, a, b = values(...)
      return own(y, w[1], 0.75), a, b
    end
  end,
  function(values, w) -- a loop over numbers that the program gives
    return function(...)
      local y, a, b = values(...)
      local v = losses.reals(a):to("f64"):flatten():narrow(1, 1, 1) * 0.125
      local c, all = ty.scan(function(c, r)
        local n = (c * w[1] + r * v):sin()
        return n, n * 2
      end, y:reshape(1), ty.stack { y, y * 0.5, w[3] })
      return c:sum() + all:sum(), a, b
    end
  end,
}

--- The program as a function of a list of inputs: its loss, and values of it that are floats.
local function function_of(program, compile)
  local kept, w = program.kept, (ty.arange(3, { dtype = "f64" }) + 1):requires_grad_()
  local f = compile(inside[program.inside](function(...)
    local vars = losses.unleaf(program, { ... })
    local y = losses.loss(ty, program, vars) * w[2]
    local a, b = vars[kept[1]], vars[kept[2]]
    if not is_float(a) then a = y * 3 end
    if not is_float(b) then b = a * 2 end
    return y, a, b
  end, w))
  return function(x) return { f(unpack(x)) } end, w
end

local calls = { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 2, 0 } }

local function account_here(program, compile)
  local f, w = function_of(program, compile)
  local out = {}
  for i, c in ipairs(calls) do
    local inputs, list = gen.inputs(ty, { inputs = losses.inputs_like(program, c[1], c[2]) }), {}
    for _, k in ipairs(floats_of(program)) do inputs[k] = inputs[k]:clone():requires_grad_() end
    local given = { unpack(inputs) }
    ty.manual_seed(program.seed)
    local function told(...)
      local y = f(...)
      for _, t in ipairs(y) do
        list[#list + 1] = gen.describe(ty, t:detach()) .. tostring(t.requires_grad) .. tostring(t.is_leaf)
      end
      return y
    end
    tried(list, ways[program.way], list, told, given, program.seed % 7)
    for _, k in ipairs(floats_of(program)) do list[#list + 1] = gen.describe(ty, inputs[k].grad or false) end
    list[#list + 1] = gen.describe(ty, w.grad or false)
    list[#list + 1] = gen.describe(ty, ty.rand(2))
    out[i] = list
  end
  return out
end

--- The same of a program whose sizes change. w, v: leaves; o: what the program may write to.
local function account_sizes(program, compile)
  local w, v = sized.weights()
  w:requires_grad_()
  v:requires_grad_()
  local run, o = sized.load(program, w, v)
  local k
  local f = compile(function(a, b, i, j, n) -- o is written to: what needs a gradient is none of it
    local c, d, e, g, s = run(a, b, i, j, n)
    return weigh_all { c, d, e, g } * s, c, d, e, g
  end)
  local function told(x) return { f(x[1], x[2], x[3], x[4], k) } end
  local out, held, raised = {}, nil, 0
  for call, n in ipairs(program.sizes) do
    local list, x = {}, { sized.arguments(n, program.how) }
    k = table.remove(x)
    for m = 1, 2 do
      x[m] = x[m]:clone()
      if program.leaves >= m then x[m]:requires_grad_() end
    end
    ty.manual_seed(n)
    ty.no_grad(function() o:copy_(ty.ones_like(o)) end)
    local given = { unpack(x) }
    local y
    tried(list, function()
      local got = told(given)
      ty.synchronize() -- a device's errors come late
      y = got
    end)
    for _, t in ipairs(y or {}) do
      if ty.is_tensor(t) then list[#list + 1] = gen.describe(ty, t:detach()) .. tostring(t.requires_grad) .. tostring(t.is_leaf) end
    end
    if not y then raised = raised + 1 end
    if y and (call + program.seed) % 2 == 0 then tried(list, ways[program.way], list, told, { unpack(x) }, program.seed % 7) end
    if held and held.requires_grad then tried(list, backward, held) end
    held = y and y[1] or nil
    for m = 1, 2 do list[#list + 1] = gen.describe(ty, x[m].grad or false) end
    list[#list + 1] = gen.describe(ty, w.grad or false) .. gen.describe(ty, v.grad or false) .. gen.describe(ty, o:detach())
    w.grad, v.grad = nil, nil
    out[call] = list
  end
  return out, raised
end

local devices = frame.devices()

local function account(program, compile, device)
  return frame.on(ty, device, program.sizes and account_sizes or account_here, program, compile)
end

--- A text of an error without its places: a device's errors come late, where somebody waits.
local function placeless(text) return text and (text:gsub("^error [^:]+:%d+: ", "error "):gsub(" %(%S+:%d+%)$", "")) end

local function differs(want, got, late)
  for i, list in ipairs(want) do
    for k = 1, math.max(#list, #got[i]) do
      local a, b = list[k], got[i][k]
      if a ~= b and not (late and placeless(a) == placeless(b)) then return i, k, a, b end
    end
  end
end

local function check(program)
  local want = account(program, eager, "cpu")
  for _, device in ipairs(devices) do
    local call, k, a, b = differs(want, account(program, captured, device), device ~= "cpu")
    if call then
      return ("way %d on %s: call %d, value %d differs\neager:    %s\ncompiled: %s"):format(program.way, device, call, k,
        readable(a or "nothing"), readable(b or "nothing"))
    end
  end
  local told = ty.explain(compiled)
  counts.programs = counts.programs + 1
  counts.captured = counts.captured + (told.captures > 0 and 1 or 0)
  if program.sizes then
    counts.sized = counts.sized + 1
    local ranges, backward_plans = 0, 0
    for _, t in ipairs(told.traces) do
      ranges = ranges + t.ranges
      for _, p in ipairs(t.backward or {}) do backward_plans = backward_plans + (p.range and p.steps > 0 and 1 or 0) end
    end
    counts.ranges = counts.ranges + (ranges > 0 and 1 or 0)
    counts.backward = counts.backward + (backward_plans > 0 and 1 or 0)
  else
    by_kind[program.inside] = by_kind[program.inside] + (told.skips > 0 and 1 or 0)
  end
  counts.skips = counts.skips + told.skips
  counts.parts = counts.parts + (told.captures > 0 and #told.parts > 0 and 1 or 0)
  for _, list in ipairs(want) do
    for _, text in ipairs(list) do
      if text == "passed" then counts.passed = counts.passed + 1 end
      if text:sub(1, 5) == "error" then counts.raised = counts.raised + 1 end
    end
  end
end

require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

--- One whose sizes change. Lines that raise at the first size are left out.
local function make_sized(seed, number)
  local r = frame.random(seed, 1)
  local program = { seed = seed, how = r(5), way = math.floor(number / 3) % #ways + 1, leaves = r(3) - 1 }
  local divides, without = r(20) == 1, { written = r(4) > 1, gradient = r(3) > 1 }
  program.sizes = { 20 }
  for i = 1, 4 + r(9) do
    program[#program + 1] = sized.line(r, divides and i < 3, without)
    local ok, _, raised = pcall(account_sizes, program, eager)
    if not ok or raised > 0 then program[#program] = nil end
  end
  program.sizes = sized.sizes(r)
  return program
end

local fuzz = frame.fuzzer("fuzz_forward", 1500, {
  make = function(seed, number)
    if number % 3 == 0 then return make_sized(seed, number) end
    local program = losses.make(ty, seed, ({ "any", "cut", "smooth" })[number % 3 + 1])
    program.way = number % #ways + 1
    program.inside = math.floor(number / #ways) % #inside + 1
    program.kept = { seed % program.count + 1, math.floor(seed / 7) % program.count + 1 }
    return program
  end,
  check = check,
  show = function(program)
    if program.sizes then
      return ("way %d, how %d, leaves %d\n"):format(program.way, program.how, program.leaves) .. sized.text(program)
    end
    return ("way %d inside %d, keeps %d %d\n"):format(program.way, program.inside, unpack(program.kept)) .. gen.print(program)
  end,
})
fuzz:run(1000)

fuzz:claim(fuzz.failures == 0, "%d programs are other programs where the forward pass is compiled", fuzz.failures)
if fuzz:ran(150) then
  fuzz:claim(counts.captured >= 0.5 * counts.programs, "%d of %d programs are captured, at least half", counts.captured,
    counts.programs)
  for k, n in ipairs(by_kind) do
    fuzz:claim(n >= 0.08 * (counts.programs - counts.sized), "kind %d: %d of %d programs run without Lua, at least a twelfth", k, n,
      counts.programs - counts.sized)
  end
  fuzz:claim(counts.ranges >= 0.1 * counts.sized, "%d of %d programs whose sizes change come to a range, at least a tenth",
    counts.ranges, counts.sized)
  fuzz:claim(counts.backward >= 0.05 * counts.sized, "%d of %d have a backward pass for a range, at least a twentieth",
    counts.backward, counts.sized)
  fuzz:claim(counts.parts >= 0.1 * counts.programs, "%d of %d programs are captured in parts, at least a tenth", counts.parts,
    counts.programs)
  fuzz:claim(counts.passed >= counts.raised, "%d backward passes go through, %d raise", counts.passed, counts.raised)
end
print(("fuzz_forward: %d programs, seed %d, %.0f s: %d captured, %d of them in parts, "
  .. "%d calls answered without Lua; of %d whose sizes change %d with ranges, %d with backward ones; %d passed, %d raised"):format(
  fuzz.programs, fuzz.seed, fuzz:seconds(), counts.captured, counts.parts, counts.skips, counts.sized, counts.ranges,
  counts.backward, counts.passed, counts.raised))
fuzz:leave()
