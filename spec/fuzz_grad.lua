-- Gradients of random losses: eager against compiled, bit for bit; in f64 against differences.
--   luajit spec/fuzz_grad.lua [programs = 3000] [seed = another each time] [only this program]
-- A program (fuzz_loss.lua) is differentiated in one of several ways (ty.grad, nested tables, backward, a compiled forward,
-- checkpoints, gradients of gradients, ty.jvp), eagerly, captured, and recorded. Each is called several times: again with
-- the same inputs, with other values, with other sizes. All losses and gradients must have the same bits, all errors the same text.
-- Every second program is smooth: its gradients must be what differences say, too.
-- A failure is shrunk to the statements that matter and printed with its number: the third argument repeats it.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, losses = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_loss.lua")
local gen, SMOOTH, floats_of, readable = losses.gen, losses.SMOOTH, losses.floats_of, frame.readable
local capture = ty.internals.capture

-- --- ways to gradients: each gives a function of the inputs that lists the loss and the gradients

local ways = {}

local function loss_of(program)
  return function(...) return losses.loss(ty, program, { ... }) end
end

function ways.grad(program, compile)
  local vg = ty.value_and_grad(loss_of(program), floats_of(program))
  local f = compile(function(...) return vg(...) end)
  return function(inputs) return { f(unpack(inputs)) } end
end

function ways.nested(program, compile)
  local floats, count = floats_of(program), #program.inputs
  local vg = ty.value_and_grad(function(p) return losses.loss(ty, program, { unpack(p.inner.list, 1, count) }) end)
  local f = compile(function(p) return vg(p) end)
  return function(inputs)
    local y, g = f { inner = { list = inputs, n = 3 }, text = "is no tensor" }
    local out = { y }
    for i, k in ipairs(floats) do out[i + 1] = g.inner.list[k] end
    return out
  end
end

function ways.checkpoint(program, compile)
  local loss = loss_of(program)
  local vg = ty.value_and_grad(function(...) return ty.checkpoint(loss, ...) end, floats_of(program))
  local f = compile(function(...) return vg(...) end)
  return function(inputs) return { f(unpack(inputs)) } end
end

--- The loss is a sum of squares of gradients.
function ways.second(program, compile)
  local floats = floats_of(program)
  local inner = ty.grad(loss_of(program), floats)
  local vg = ty.value_and_grad(function(...)
    local sum = ty.zeros({}, { dtype = "f64" })
    for i, g in ipairs { inner(...) } do sum = sum + (losses.reals(g) * losses.reals(g) * (1 / i)):sum():to("f64") end
    return sum
  end, floats)
  local f = compile(function(...) return vg(...) end)
  return function(inputs) return { f(unpack(inputs)) } end
end

-- A direction for input k, x: no element is 0.
local function direction(x, k)
  local d = ((ty.arange(x:numel(), { dtype = "f64" }) * 1.3 + k):sin() * 0.5 + 0.75):reshape(x.shape)
  if x:is_complex() then d = ty.complex(d * 0.8, d * 0.6) end
  return d:to(x.dtype)
end

--- The derivative of the loss along a direction of the first input that is a float.
function ways.jvp(program, compile)
  local k, loss = floats_of(program)[1], loss_of(program)
  if not k then return ways.grad(program, compile) end
  local f = compile(function(...)
    local vars = { ... }
    local x = vars[k]
    return ty.jvp(function(p)
      vars[k] = p
      return loss(unpack(vars))
    end, x, direction(x, k))
  end)
  return function(inputs) return { f(unpack(inputs)) } end
end

local function gradients(floats, inputs, y)
  local out = { y:detach() }
  for i, k in ipairs(floats) do out[i + 1] = inputs[k].grad or false end
  return out
end

-- The same leaves again in the second call: gradients add up there. Some leaves are views.
local function with_leaves(program, call)
  local floats, plain = floats_of(program), program.seed % 3 > 0
  local before
  return function(inputs, again)
    inputs = again and before or inputs
    before = inputs
    for _, k in ipairs(floats) do
      if plain and not again then inputs[k] = inputs[k]:clone() end
      inputs[k]:requires_grad_()
      if not again and plain then losses.hook(ty, program, inputs[k], k) end
    end
    return gradients(floats, inputs, call(unpack(inputs)))
  end
end

function ways.backward(program, compile)
  return with_leaves(program, compile(function(...)
    local y = losses.loss(ty, program, losses.unleaf(program, { ... }))
    y:backward()
    return y:detach()
  end))
end

--- Forward compiled, backward eagerly.
function ways.forward(program, compile)
  local f = compile(function(...) return losses.loss(ty, program, losses.unleaf(program, { ... })) end)
  return with_leaves(program, function(...)
    local y = f(...)
    y:backward()
    return y
  end)
end

local names = { "grad", "backward", "second", "jvp", "grad", "nested", "backward", "checkpoint", "forward" }

-- --- the bits

local calls = { { 0, 0 }, { 0, 0, true }, { 1, 0 }, { 0, 1 }, { 2, 1 }, { 0, 0 } }

local counts = { calls = 0, raised = 0, captured = 0, parts = 0, skips = 0, differences = 0, sharp = 0, skipped = 0,
  endless = 0, flat = 0 }

local function eager(f) return f end

local compiled -- the function that was compiled last

local function captured(f)
  compiled = ty.compile(f)
  return compiled
end

local function recorded(f)
  capture.off = true
  f = ty.compile(f)
  capture.off = false
  return f
end

local devices = frame.devices()

--- What the calls give: lists of texts, an error's text alone.
local function account_here(program, way, compile)
  local f, out = ways[way](program, compile), {}
  for i, c in ipairs(calls) do
    local inputs = gen.inputs(ty, { inputs = losses.inputs_like(program, c[1], c[2]) })
    ty.manual_seed(program.seed)
    local ok, list = pcall(f, inputs, c[3])
    if ok then
      for k, v in ipairs(list) do list[k] = gen.describe(ty, v) end
    else
      list = { "error " .. frame.anywhere(list) }
    end
    list[#list + 1] = gen.describe(ty, ty.rand(2)) -- the stream of random numbers stands where it must
    out[i] = list
    if compile == eager and ty.device() == "cpu" then
      counts.calls = counts.calls + 1
      counts.raised = counts.raised + (ok and 0 or 1)
    end
  end
  return out
end

local function account(program, way, compile, device) return frame.on(ty, device, account_here, program, way, compile) end

local function differs(want, got)
  for i, list in ipairs(want) do
    for k = 1, math.max(#list, #got[i]) do
      if list[k] ~= got[i][k] then return i, k, list[k], got[i][k] end
    end
  end
end

local function check_bits(program, way)
  local want = account(program, way, eager, "cpu")
  for _, device in ipairs(devices) do
    for _, mode in ipairs(device == "cpu" and { "captured", "recorded" } or { "eager", "recorded", "captured" }) do
      local got = account(program, way, mode == "captured" and captured or mode == "recorded" and recorded or eager, device)
      local call, k, a, b = differs(want, got)
      if call then
        return ("%s, %s on %s: call %d, result %d differs\neager:    %s\ncompiled: %s"):format(way, mode, device, call, k,
          readable(a), readable(b))
      end
    end
  end
  local told = ty.explain(compiled)
  counts.captured = counts.captured + (told.captures > 0 and 1 or 0)
  counts.skips = counts.skips + told.skips
  counts.parts = counts.parts + (told.captures > 0 and #told.parts > 0 and 1 or 0)
end

-- --- differences
-- Along a direction d the loss is a function of one number, F(t) = loss(x + t d), and the gradient's product with d must
-- be F'(0). D(h) = (F(h) - F(-h)) / 2h misses it by about h^2 F'''/6: halving h leaves a quarter, so that what two D
-- differ by says how far the later may be off, also where a kink lies a little beside x. Rounding: the values that F is
-- made of are below 100 (fuzz_loss.lua) and right to a few ulp each; 2^-40 of the sum of their magnitudes allows for
-- chains of operations that magnify that a thousandfold. At a kink or a jump at x itself nothing is right: there
-- F(h) - 2 F(0) + F(-h), over h, does not halve with h, as it does where F is smooth.

local H = 2 ^ -12
local MARGIN, ROUNDING = 4, 2 ^ -40

local function differences(F, at0, scale)
  local D, bend = {}, {}
  for i = 1, 3 do
    local h = H / 2 ^ (i - 1)
    local up, down = F(h), F(-h)
    D[i], bend[i] = (up - down) / (2 * h), math.abs(up - 2 * at0 + down) / h
  end
  local rounding = ROUNDING * scale / H
  for i = 1, 2 do
    local smooth = bend[i + 1] <= 0.7 * bend[i] + rounding -- false for NaN
    if not smooth then return nil end
  end
  local off = math.max(math.abs(D[1] - D[2]), math.abs(D[2] - D[3]))
  return D[3], MARGIN * off + rounding
end

--- The sum of magnitudes of what the loss is made of.
local function scale_of(program, inputs)
  local vars, sum = { unpack(inputs) }, 1
  ty.manual_seed(program.seed)
  losses.loss(ty, program, vars)
  for _, v in pairs(vars) do
    if ty.is_tensor(v) and SMOOTH[v.dtype] then sum = sum + 1.5 * losses.reals(v):to("f64"):abs():sum():item() end
  end
  return sum
end

local function check_differences(program, way)
  local function inputs() return gen.inputs(ty, program) end
  local f = ways[way](program, eager)
  local function run(list)
    ty.manual_seed(program.seed)
    return f(list)
  end
  local ok, results = pcall(run, inputs())
  if not ok then return nil end
  local scale = scale_of(program, inputs())
  if way == "second" then scale = scale + math.abs(results[1]:item()) end
  for i, k in ipairs(floats_of(program)) do
    if way == "jvp" and i > 1 then break end
    local x = inputs()[k]
    local d = direction(x, k)
    local g = results[i + 1]
    if g and way ~= "jvp" then g = (losses.reals(g) * losses.reals(d)):sum() end
    local got = g and g:item() or 0
    local function F(t)
      local list = inputs()
      list[k] = list[k] + d * t
      return run(list)[1]:item()
    end
    local done, want, tolerance = pcall(differences, F, results[1]:item(), scale)
    if not done or not want then counts.skipped = counts.skipped + 1
    elseif got ~= got or math.abs(got) == math.huge then counts.endless = counts.endless + 1
    else
      counts.differences = counts.differences + 1
      if want == 0 and got == 0 then counts.flat = counts.flat + 1
      elseif tolerance <= 1e-3 * math.abs(want) then counts.sharp = counts.sharp + 1 end
      if math.abs(got - want) > tolerance then
        return ("%s: along a direction of v%d the gradient gives %.12g, differences %.12g, within %.3g"):format(way, k, got,
          want, tolerance)
      end
    end
  end
end

-- --- programs

local function check(program)
  local what = check_bits(program, program.way)
  if not what and program.kind == "smooth" then what = check_differences(program, program.way) end
  return what
end

-- What is reached by name: rows of the table, functions of the library.
local reached = {}

local function count_names(program)
  for _, s in ipairs(program) do
    if s.name then
      local name = s.name:gsub("_$", "")
      reached[name] = (reached[name] or 0) + 1
    end
  end
end

require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

local fuzz = frame.fuzzer("fuzz_grad", 3000, {
  make = function(seed, number)
    local kind = number % 2 == 0 and "smooth" or math.floor(number / 20) % 3 == 0 and "cut" or "any"
    local program = losses.make(ty, seed, kind)
    program.kind, program.way, program.hooks = kind, names[number % #names + 1], math.floor(number / 18) % 3 == 0
    count_names(program)
    return program
  end,
  check = check,
  show = function(program) return program.way .. "\n" .. gen.print(program) end,
})
fuzz:run(2000)

-- The counters that make the run worth something.
fuzz:claim(fuzz.failures == 0, "%d programs have other gradients compiled, or than differences say", fuzz.failures)
if fuzz:ran(150) then
  local asked, programs = counts.differences + counts.skipped + counts.endless, fuzz.programs
  fuzz:claim(counts.raised < 0.25 * counts.calls, "%d of %d calls raise, fewer than a quarter", counts.raised, counts.calls)
  fuzz:claim(counts.captured >= 0.4 * programs, "%d of %d programs are captured, at least two in five", counts.captured, programs)
  fuzz:claim(counts.parts >= 0.03 * programs, "%d of %d programs are captured in parts, at least three in a hundred",
    counts.parts, programs)
  fuzz:claim(counts.sharp >= 0.6 * asked, "%d of %d directions are told to a thousandth, at least three in five", counts.sharp,
    asked)
  fuzz:claim(counts.endless < 0.05 * asked, "%d of %d gradients are not finite, fewer than a twentieth", counts.endless, asked)
end
if fuzz:ran(2000) then
  for _, row in ipairs(ty.internals.probe.ops()) do
    if row.lua and row.gradients > 0 then fuzz:claim(reached[row.lua], "the gradient of %s is never asked for", row.lua) end
  end
end
print(("fuzz_grad: %d programs, seed %d, %.0f s: %d of %d calls raise; %d programs captured, %d in parts, %d calls "
  .. "answered without Lua"):format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.raised, counts.calls, counts.captured,
  counts.parts, counts.skips))
print(("directions: %d agree, %d of them to a thousandth, %d are flat; %d at kinks and jumps, %d not finite"):format(
  counts.differences, counts.sharp, counts.flat, counts.skipped, counts.endless))
fuzz:leave()
