-- Which digit is on an image? A network that learnt hand-written digits reads a PNG, JPEG or PPM.
--   ./tycho examples/classify.lua [image.png] [drawing = classify.png] [model = digits.safetensors]
-- The first run trains the model, half a second, and saves it; later ones load it. Without an image a digit that was
-- never trained on is drawn to digit.png first. Ink may be dark on bright or bright on dark; the digit should fill a
-- good part of the image, upright and alone.

local ty = require "tycho"
local nn = ty.nn

local IMAGE, DRAWING, MODEL = arg[1], arg[2] or "classify.png", arg[3] or "digits.safetensors"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")

local function network()
  return nn.Sequential(
    nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Dropout(0.2),
    nn.Linear(128, 64), nn.ReLU(),
    nn.Linear(64, 10))
end

--- The model from its file, or trained and saved there. `unseen`: pixels [360, 64] that it was not trained on.
local function trained(path)
  local model = network()
  local parts = ty.load_checkpoint(path, { model = model })
  if parts then return model, parts.unseen end
  local pixels, labels = support.digits(here .. "/data/digits.csv")
  local settings = { seed = 1, epochs = 30, batch = 32, rate = 3e-3 }
  local _, learnt, _, unseen = support.classify(pixels, labels, network, settings)
  assert(ty.save_checkpoint(path, { model = learnt, unseen = unseen }))
  print("saved to " .. path)
  return learnt, unseen
end

--- First and last of a vector's elements that are true, 1-based; nil: there is none.
local function extent(v)
  local at = v:nonzero()
  if #at == 0 then return nil end
  return at:min():item(), at:max():item()
end

--- The ink of an image u8 [h, w] as the training data have it, [8, 8] in 0..1: cut to what is drawn, as high and wide
--- as its longer side, each of 64 cells the mean of its part.
local function as_trained(image)
  local ink = image:to("f32")
  local low, high = ink:min(), ink:max()
  if (high - low):item() < 16 then return nil, "one colour only: there is no digit to be seen" end
  ink = (ink - low) / (high - low)
  local edge = ty.cat { ink[1], ink[-1], ink[{ {}, 1 }], ink[{ {}, -1 }] }
  if edge:mean():item() > 0.5 then ink = 1 - ink end -- the background is what lies along the edges
  local drawn = ink:gt(0.35)
  local top, bottom = extent(drawn:any(2))
  local left, right = extent(drawn:any(1))
  ink = ink[{ { top, bottom }, { left, right } }]
  local h, w = ink:size(1), ink:size(2)
  local side = math.max(h, w)
  local function around(n)
    local before = math.floor((side - n) / 2)
    return { before, side - n - before }
  end
  local small = ty.image.resize(ink:pad { around(h), around(w) }:contiguous(), { 8, 8 }, "box")
  return small / small:max()
end

local model, unseen = trained(MODEL)
model:eval()
if not IMAGE then
  IMAGE = "digit.png"
  local digit = 1 - ty.image.resize(unseen[7]:reshape(8, 8), { 128, 128 }, "bicubic"):clamp(0, 1)
  assert(ty.save(IMAGE, digit:pad({ { 32, 32 }, { 32, 32 } }, 1)))
  print("a digit that was never trained on is drawn to " .. IMAGE)
end

local image, why = ty.image.load(IMAGE, { channels = 1 })
local seen
if image then seen, why = as_trained(image[1]) end
if not seen then
  io.stderr:write(image and (IMAGE .. ": " .. why) or why, "\n")
  os.exit(1)
end

local share = ty.no_grad(function() return model(seen:reshape(1, 64)):softmax(2)[1] end)
print(("\n%s, %d x %d pixels, as the network sees it:"):format(IMAGE, image:size(3), image:size(2)))
ty.show(seen, { lim = { 0, 1 } })
local names = {}
for digit = 0, 9 do
  names[digit + 1] = tostring(digit)
  local p = share:get(digit + 1)
  print(("  %d %5.1f %%  %s"):format(digit, 100 * p, ("█"):rep(math.floor(40 * p + 0.5))))
end
print(("it is a %d"):format(share:argmax():item() - 1))

assert(ty.plot {
  { ty.plot { title = IMAGE:match("[^/]*$"), width = 240 }:image(image[1]),
    ty.plot { title = "what the network sees", width = 240 }:image(seen, { lim = { 0, 1 }, map = "ink" }),
    ty.plot { title = "which digit it is", ylabel = "probability", ylim = { 0, 1 }, width = 400 }:bars(names, share) },
}:save(DRAWING))
print("drawn to " .. DRAWING)
