--- step.lua -- what each host runs: a training step and a model, captured; gives one line about bits and captures.
-- For hosts without the `jit` library, without FFI, without files: it asks for nothing but the module.

local ty = require "tycho"
local nn = ty.nn

ty.manual_seed(5)
local model = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.LayerNorm(20), nn.Linear(20, 3))
local opt = ty.optim.AdamW(model:parameters(), { lr = 0.02 })
local step = ty.compile(function(x, y)
  opt:zero_grad()
  local loss = ty.cross_entropy(model(x), y)
  loss:backward()
  opt:step()
  return loss:detach()
end)
local label = ty.range(33, { dtype = "i64" }):remainder(3) + 1
local x = ty.randn(33, 12)
local loss
for _ = 1, 30 do loss = step(x, label) end

local infer = ty.compile(function(v) return model(v):softmax(2), v:exp():cumsum(2) end)
local p, sums
for i = 1, 4 do p, sums = infer(ty.rand(7, 12) * i) end

--- All bits of a tensor, as a number that any of them changes; whole numbers are exact in doubles.
local function digest(t)
  local list = t:detach():to("f64"):reshape(-1):totable()
  local h = 7
  for _, v in ipairs(list) do
    local text = ("%a"):format(v)
    for i = 1, #text do h = (h * 31 + text:byte(i)) % 4503599627370449 end
  end
  return h
end

local h = 0
for _, t in ipairs { loss:reshape(1), p, sums, ty.randn(5), unpack(model:parameters()) } do h = (h * 31 + digest(t)) % 4503599627370449 end
local e = ty.explain(step)
return ("bits %.0f, %d captures, %d of %d calls without Lua, %s code"):format(h, e.captures, e.skips, e.calls,
  ty.stats().no_native and "no" or "native")
