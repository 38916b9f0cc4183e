-- A variational autoencoder of hand-written digits: learns to write digits that nobody wrote.
--   ./tycho examples/vae.lua [epochs = 60] [image = vae.png] [seed = 1]
-- The encoder gives a normal distribution over ten numbers for each digit, the decoder an image for ten numbers; both
-- learn from the bound of Kingma and Welling (2014): how well a digit comes back, and how far the distributions are
-- from the standard normal. The image shows digits that were never trained on above what comes back, and samples.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local EPOCHS, DRAWING, SEED = tonumber(arg[1]) or 60, arg[2] or "vae.png", tonumber(arg[3]) or 1
local TRAIN, BATCH, RATE, LATENT, HIDDEN, NOISE = 1437, 32, 2e-3, 10, 192, 0.14
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")

local VAE = nn.class "VAE"

function VAE:init()
  self.encoder = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
    nn.Linear(HIDDEN, 2 * LATENT))
  self.decoder = nn.Sequential(nn.Linear(LATENT, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(),
    nn.Linear(HIDDEN, 64))
end

--- Means and logarithms of variances, each [n, LATENT].
function VAE:encode(x)
  local y = self.encoder(x)
  return y:narrow(2, 1, LATENT), y:narrow(2, LATENT + 1, LATENT)
end

--- The ink of each pixel in 0..1, before the sigmoid.
function VAE:forward(x)
  local mean, log_var = self:encode(x)
  local z = mean + ty.randn(mean.shape) * (log_var * 0.5):exp()
  return self.decoder(z), mean, log_var
end

--- The negative bound in nats a digit: reconstruction, where pixels are normal with the deviation NOISE around what the
--- decoder says, then distance to the standard normal.
local function terms(model, x)
  local ink, mean, log_var = model(x)
  local miss = ((ink:sigmoid() - x) ^ 2):sum(2):mean() / (2 * NOISE ^ 2) + 64 * math.log(NOISE * math.sqrt(2 * math.pi))
  local distance = ((mean * mean + log_var:exp() - log_var - 1) * 0.5):sum(2):mean()
  return miss, distance
end

ty.manual_seed(SEED)
local pixels = support.digits(here .. "/data/digits.csv")
pixels = pixels[ty.randperm(#pixels)]
local train, held_out = pixels[{ { 1, TRAIN } }], pixels[{ { TRAIN + 1, -1 } }]
local model = VAE()
print(model:summary(held_out[{ { 1, 1 } }]))

local opt = optim.Adam(model:parameters(), { lr = RATE })
local schedule = optim.OneCycleLR(opt, { steps = EPOCHS * math.floor(TRAIN / BATCH), most = RATE })
local step = jit.compile(function(x)
  opt:zero_grad()
  local miss, distance = terms(model, x)
  local loss = miss + distance
  loss:backward()
  opt:step()
  return loss:detach()
end)
support.fit("train", train, train, BATCH, EPOCHS, step, schedule)

local miss, distance = ty.no_grad(terms, model, held_out)
print(("held out: %.2f nats a digit, %.2f to write it again and %.2f to tell which"):format((miss + distance):item(),
  miss:item(), distance:item()))

-- The image.

local function images(x) return x:reshape(#x, 8, 8) end
local shown = held_out[{ { 1, 16 } }]
local again, samples = ty.no_grad(function()
  return model.decoder((model:encode(shown))):sigmoid(), model.decoder(ty.randn(96, LATENT)):sigmoid()
end)
local ink = { map = "ink", lim = { 0, 1 }, columns = 16 }
local sheet = ty.plot {
  { ty.plot { title = "digits it never saw, and what comes back", height = 120 }:image(
    images(ty.cat { shown, again }), ink) },
  { ty.plot { title = "samples", height = 290 }:image(images(samples), ink) },
  width = 640, height = 410,
}
assert(sheet:save(DRAWING))
ty.show(images(samples[{ { 1, 16 } }]), { columns = 8, lim = { 0, 1 } })
print("drawn to " .. DRAWING)

--- How far samples are from the nearest digit, and from the nearest of other samples, as mean squares of pixels: the
--- first is small if they look like digits, the second is small if they all look the same.
local function nearest(a, b, skip)
  local d = ((a:unsqueeze(2) - b:unsqueeze(1)) ^ 2):mean(3)
  if skip then d = d + ty.eye(#a) * 10 end
  return d:min(2):mean():item()
end
print(("mean square to the nearest digit %.4f, to the nearest other sample %.4f; of digits %.4f"):format(
  nearest(samples, train), nearest(samples, samples, true), nearest(held_out[{ { 1, 96 } }], train)))
