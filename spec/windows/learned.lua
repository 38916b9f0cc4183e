--- learned.lua -- a training run whose weights are compared between systems: `make test-windows`.
--   luajit spec/windows/learned.lua FOLDER WHERE
-- Out: FOLDER/WHERE with letters that no code page has all of, weights and losses in safetensors, of 40 compiled steps.

local ty = require "tycho"
local nn = ty.nn
local folder, where = arg[1], arg[2]

ty.manual_seed(7)
local net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Dropout(0.1), nn.Linear(64, 64), nn.Tanh(),
  nn.Linear(64, 5))
local opt = ty.optim.AdamW(net:parameters(), { lr = 3e-3 })
local x, labels = ty.randn(128, 20), ty.randint(1, 5, { 128 })

local step = jit.compile(function(a, b)
  opt:zero_grad()
  local loss = ty.cross_entropy(net(a), b)
  loss:backward()
  opt:step()
  return loss
end)

local losses = {}
for i = 1, 40 do losses[i] = step(x, labels):item() end
assert(losses[40] < losses[1] / 2, "it does not learn")

local all = { losses = ty.tensor(losses, { dtype = "f64" }) }
for i, p in ipairs(net:parameters()) do all["weight" .. i] = p:detach() end
local path = ("%s/%s ж 日本 é.safetensors"):format(folder, where)
assert(ty.save(path, all))
assert(ty.load(path).losses:eq(all.losses):all():item(), "it reads something else")
