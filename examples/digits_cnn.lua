-- Hand-written digits by a small convolutional network: batch norm, dropout, one compiled training step.
--   ./tycho examples/digits_cnn.lua [epochs = 15] [seeds = 3] [--device cuda]
-- 1,437 samples train, 360 that are never trained on measure. At the end: those that are misread, as images.

local ty = require "tycho"
local nn = ty.nn

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")
support.device(arg)
local EPOCHS, SEEDS = tonumber(arg[1]) or 15, tonumber(arg[2]) or 3

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

--- Digits as images of blocks, up to six in a row.
local function images(x, guess, truth, wrong)
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

local _, _, step, x, guess, truth = support.classify_all(here .. "/data/digits.csv", Net,
  { epochs = EPOCHS, seeds = SEEDS, batch = 32, rate = 3e-3 })

local wrong = {}
for i, right in ipairs(guess:eq(truth):totable()) do
  if not right then wrong[#wrong + 1] = i end
end
print(("\nmisread: %d of %d"):format(#wrong, #guess))
if #wrong > 0 then images(x, guess, truth, wrong) end
support.tell("the training step", step)
