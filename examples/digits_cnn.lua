-- Hand-written digits by a small convolutional network: batch norm, dropout, one compiled training step.
--   ./tycho examples/digits_cnn.lua [epochs = 15] [seeds = 3]
-- 1,437 samples train, 360 that are never trained on measure. At the end: those that are misread, as pictures.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local EPOCHS, SEEDS = tonumber(arg[1]) or 15, tonumber(arg[2]) or 3
local TRAIN, BATCH, RATE = 1437, 32, 3e-3
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")

local Net = nn.class "Net"

function Net:init()
  self.conv1, self.norm1 = nn.Conv2d(1, 16, 3, { padding = 1 }), nn.BatchNorm2d(16)
  self.conv2, self.norm2 = nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32)
  self.drop, self.out = nn.Dropout(0.3), nn.Linear(32 * 4 * 4, 10)
end

--- [batch, 64] to [batch, 10].
function Net:forward(x)
  x = x:reshape(-1, 1, 8, 8)
  x = self.norm1(self.conv1(x)):relu()
  x = self.norm2(self.conv2(x)):relu()
  x = ty.max_pool2d(x, 2):flatten(2)
  return self.out(self.drop(x))
end

local function train(pixels, labels, seed)
  ty.manual_seed(seed)
  local order = ty.randperm(#pixels)
  local x, y = pixels[order], labels[order]
  local model = Net()
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
  local held_out, truth = x[{ { TRAIN + 1, -1 } }], y[{ { TRAIN + 1, -1 } }]
  local guess = ty.no_grad(function() return model(held_out):argmax(2) end)
  local accuracy = guess:eq(truth):to("f32"):mean():item()
  print(("  held-out accuracy %.2f %%"):format(100 * accuracy))
  return accuracy, model, step, held_out, guess, truth
end

--- Digits as pictures of blocks, up to six in a row.
local function pictures(x, guess, truth, wrong)
  local shades = { " ", "░", "▒", "▓", "█" }
  local n = math.min(#wrong, 6)
  for row = 0, 7 do
    local line = {}
    for k = 1, n do
      for column = 1, 8 do
        line[#line + 1] = shades[math.floor(x:get(wrong[k], row * 8 + column) * 4 + 0.5) + 1]:rep(2)
      end
      line[#line + 1] = "  "
    end
    print(table.concat(line))
  end
  for k = 1, n do io.write((" %d read as %d     "):format(truth:get(wrong[k]) - 1, guess:get(wrong[k]) - 1)) end
  print()
end

local pixels, labels = support.digits(here .. "/data/digits.csv")
print(("%d digits of %d pixels; %d train, %d are held out"):format(#pixels, pixels:size(2), TRAIN, #pixels - TRAIN))

local sum, model, step, x, guess, truth = 0, nil, nil, nil, nil, nil
for seed = 1, SEEDS do
  local accuracy
  accuracy, model, step, x, guess, truth = train(pixels, labels, seed)
  sum = sum + accuracy
end
print(("\nmean held-out accuracy of %d seeds: %.2f %%"):format(SEEDS, 100 * sum / SEEDS))
print(("\n%s\n%d parameters"):format(tostring(model), model:num_parameters()))

local wrong = {}
for i, right in ipairs(guess:eq(truth):totable()) do
  if not right then wrong[#wrong + 1] = i end
end
print(("\nmisread: %d of %d"):format(#wrong, #guess))
if #wrong > 0 then pictures(x, guess, truth, wrong) end
support.tell("the training step", step)
