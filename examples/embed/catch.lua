--- The player of catch.c: it learns where falling balls will land, while the game runs.
-- forward: states of balls to places; learn: a step of training by what was seen to land.

local ty = require "tycho"
local nn = ty.nn

ty.manual_seed(1)
local net = nn.Sequential(nn.Linear(4, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 1))
local opt = ty.optim.Adam(net:parameters(), { lr = 4e-3 })

local player = {}

--- state: f32 [n, 4], x, height, and both speeds of each ball. Gives [n], where they will land.
function player.forward(_, state)
  return ty.no_grad(function() return net(state):flatten() end)
end

--- landed: f32 [n]. Gives how far off the guesses are, as a square.
function player.learn(_, state, landed)
  opt:zero_grad()
  local loss = ty.mse_loss(net(state):flatten(), landed)
  loss:backward()
  opt:step()
  return loss:detach()
end

return player
