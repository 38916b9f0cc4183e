-- One module, two modes: in one it gives its loss, and its parameters their gradients, in the other what it predicts.
-- It is compiled as a whole; each mode becomes a plan of its own, and fields of the module read and write through.
--   ./tycho examples/modes.lua [steps = 400]
-- It learns a noisy sine; the curve is drawn beside what it learnt.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local STEPS = tonumber(arg[1]) or 400

local Curve = nn.class "Curve"

function Curve:init(width)
  self.body = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
  self.mode = "loss"
end

--- x [n, 1]. In mode "loss" the mean squared error against y [n, 1], whose gradients go to the parameters: so the way
--- back is a part of the plan. In mode "predict" the curve at x.
function Curve:forward(x, y)
  local curve = self.body(x)
  if self.mode == "predict" then return curve end
  local loss = ty.mse_loss(curve, y)
  loss:backward()
  return loss:detach()
end

ty.manual_seed(1)
local x = ty.uniform(-3, 3, { 128, 1 })
local y = x:sin() + ty.randn(128, 1) * 0.1

local model = Curve(32)
local compiled = jit.compile(model)
local opt = optim.Adam(model:parameters(), { lr = 0.01 })

local first, last
local bar = ty.progress(STEPS, { label = "train", unit = "samples", per_step = #x, curve = "loss" })
for step = 1, STEPS do
  opt:zero_grad()
  local loss = compiled(x, y)
  opt:step()
  bar:step { loss = loss }
  if step == 1 or step % math.ceil(STEPS / 5) == 0 or step == STEPS then
    last = loss:item()
    first = first or last
    bar:print(("step %4d  loss %.4f"):format(step, last))
  end
end

compiled.mode = "predict" -- written through to the module
assert(model.mode == "predict")
local at = ty.linspace(-3, 3, 25):unsqueeze(2)
local learnt
ty.no_grad(function()
  jit.warmup(compiled, at)
  for _ = 1, 3 do learnt = compiled(at) end
end)

print("\n    x    sin(x)  learnt")
local worst = 0
for i = 1, #at do
  local a, b = math.sin(at:get(i, 1)), learnt:get(i, 1)
  worst = math.max(worst, math.abs(a - b))
  local line = {}
  for column = 0, 40 do
    line[#line + 1] = column == math.floor(b * 18 + 20.5) and "o" or column == math.floor(a * 18 + 20.5) and "." or " "
  end
  print(("%5.2f  %7.3f %7.3f  |%s|"):format(at:get(i, 1), a, b, table.concat(line)))
end
print(("loss from %.4f to %.4f, largest distance to the sine %.3f"):format(first, last, worst))

local told = jit.explain(compiled)
print(("\n%d calls, %d of them without running the module's Lua code; plans:"):format(told.calls, told.skips))
for _, t in ipairs(told.traces) do
  for _, guard in ipairs(t.guards) do
    local when = guard:match("self%.mode: %S+ %S+")
    if when then print(("  %d operations in %d steps as long as %s"):format(t.operations, t.steps, when)) end
  end
end
