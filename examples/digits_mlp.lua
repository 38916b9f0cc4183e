-- Hand-written digits by a network of three layers: `ty.nn`, `ty.optim`, one compiled training step.
--   ./tycho examples/digits_mlp.lua [epochs = 30] [seeds = 3]
-- 1,437 samples train, 360 that are never trained on measure.

local ty = require "tycho"
local nn = ty.nn

local EPOCHS, SEEDS = tonumber(arg[1]) or 30, tonumber(arg[2]) or 3
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")

local function network()
  return nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(128, 64), nn.ReLU(),
    nn.Linear(64, 10))
end

local _, _, step = support.classify_all(here .. "/data/digits.csv", network,
  { epochs = EPOCHS, seeds = SEEDS, batch = 32, rate = 3e-3 })
support.tell("the training step", step)
