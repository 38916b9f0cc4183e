-- Hand-written digits by a network of three layers: `ty.nn`, `ty.optim`, one compiled training step.
--   ./tycho examples/digits_mlp.lua [epochs = 30] [seeds = 3]
-- 1,437 samples train, 360 that are never trained on measure.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local EPOCHS, SEEDS = tonumber(arg[1]) or 30, tonumber(arg[2]) or 3
local TRAIN, BATCH, RATE = 1437, 32, 3e-3
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")

local function network()
  return nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(128, 64), nn.ReLU(),
    nn.Linear(64, 10))
end

local function train(pixels, labels, seed)
  ty.manual_seed(seed)
  local order = ty.randperm(#pixels)
  local x, y = pixels[order], labels[order]
  local model = network()
  local opt = optim.AdamW(model:parameters(), { lr = RATE })
  local schedule = optim.OneCycleLR(opt, { steps = EPOCHS * math.floor(TRAIN / BATCH), most = RATE })

  local step = jit.compile(function(images, target)
    opt:zero_grad()
    local loss = ty.cross_entropy(model(images), target, { label_smoothing = 0.1 })
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  support.fit(("seed %d"):format(seed), x[{ { 1, TRAIN } }], y[{ { 1, TRAIN } }], BATCH, EPOCHS, step, schedule)

  model:eval()
  local predict = jit.compile(function(images) return model(images):argmax(2) end)
  local guess = ty.no_grad(predict, x[{ { TRAIN + 1, -1 } }])
  local accuracy = guess:eq(y[{ { TRAIN + 1, -1 } }]):to("f32"):mean():item()
  print(("  held-out accuracy %.2f %%"):format(100 * accuracy))
  return accuracy, model, step
end

local pixels, labels = support.digits(here .. "/data/digits.csv")
print(("%d digits of %d pixels; %d train, %d are held out"):format(#pixels, pixels:size(2), TRAIN, #pixels - TRAIN))

local sum, model, step = 0, nil, nil
for seed = 1, SEEDS do
  local accuracy
  accuracy, model, step = train(pixels, labels, seed)
  sum = sum + accuracy
end
print(("\nmean held-out accuracy of %d seeds: %.2f %%"):format(SEEDS, 100 * sum / SEEDS))
print(("\n%s\n%d parameters"):format(tostring(model), model:num_parameters()))
support.tell("the training step", step)
