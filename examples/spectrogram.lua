-- A melody under noise: its spectrogram in the terminal, before and after the noise is taken away.
--   ./tycho examples/spectrogram.lua [seconds = 2] [decibels of the melody over the noise = 0]
-- Short pieces of the sound are transformed (ty.stft), weak frequencies of each made weaker, and all transformed back.
-- How weak is too weak? The threshold is the one of least risk by Stein's formula (1981), which never sees the melody:
-- |f(y) - y|^2 + 2 s^2 divergence(f), the divergence by one derivative along random signs (Ramani, Blu, Unser 2008).

local ty = require "tycho"

local seconds, decibels = tonumber(arg[1]) or 2, tonumber(arg[2]) or 0
local rate, size, hop = 8000, 512, 128
local window = ty.hann_window(size)
local samples = math.floor(seconds * rate / hop) * hop
ty.manual_seed(7)

--- Notes one after the other, each with a vibrato, two overtones, and a soft beginning and end.
local function melody()
  local t = ty.arange(samples, { dtype = "f64" }) / rate
  local y = ty.zeros_like(t)
  local notes, length = { 523.25, 659.26, 783.99, 1046.5, 783.99, 659.26, 880, 1174.66 }, samples / rate / 8
  for i, hertz in ipairs(notes) do
    local at = t - (i - 1) * length
    local loud = ty.relu(ty.sin((at / length):clamp(0, 1) * math.pi)) ^ 0.5
    local phase = 2 * math.pi * hertz * at + 3 * ty.sin(2 * math.pi * 6 * at)
    y = y + loud * (phase:sin() + (2 * phase):sin() * 0.4 + (3 * phase):sin() * 0.2)
  end
  return y:to("f32")
end

local how = { hop_length = hop, window = window }

--- The sound without what is weaker than the threshold; what is stronger loses the threshold's power.
local function without_noise(y, threshold)
  local z = y:stft(size, how)
  local gain = (1 - threshold * threshold / (z:abs() ^ 2 + 1e-12)):relu()
  return (z * gain):istft(size, { hop_length = hop, window = window, length = samples })
end

local denoise = jit.compile(without_noise)

--- Stein's estimate of the mean squared error, noise of the deviation s.
local risk = jit.compile(function(y, signs, threshold, s)
  local x, slope = ty.jvp(function(v) return without_noise(v, threshold) end, y, signs)
  return ((x - y) ^ 2 + 2 * s * s * signs * slope):mean() - s * s
end)

--- Decibels of the power of `clean` over that of what `y` has beside it.
local function ratio(clean, y)
  return 10 * math.log10(((clean ^ 2):sum() / ((y - clean) ^ 2):sum()):item())
end

--- The spectrogram up to 4 kHz, low frequencies below; a shade is 5 decibels.
local function draw(title, y)
  local shades = { " ", ".", ":", "-", "=", "+", "*", "#", "%", "@" }
  local rows, columns = 16, 64
  local power = y:stft(size, how):abs() ^ 2
  power = ty.adaptive_avg_pool2d(power:reshape(1, 1, power:size(1), power:size(2)), { rows, columns })[{ 1, 1 }]
  local shade = (10 + 10 * (power / power:max() + 1e-12):log10() / 5):floor():clamp(0, 9)
  print(title)
  for r = rows, 1, -1 do
    local line = {}
    for c = 1, columns do line[c] = shades[shade:get(r, c) + 1] end
    print(("%5.2f kHz |%s"):format(r * rate / 2000 / rows, table.concat(line)))
  end
end

local clean = melody()
local noise = clean:std() * 10 ^ (-decibels / 20)
local y = clean + ty.randn(samples) * noise
draw(("heard: %.1f s, the melody %.1f dB over the noise"):format(samples / rate, ratio(clean, y)), y)

-- Of noise alone |z|^2 is exponential: its lowest fifth, where no melody is, tells s.
local power = (window ^ 2):sum():item()
local s = (((y:stft(size, how):abs() ^ 2):quantile(0.2) / (-math.log(0.8) * power)) ^ 0.5):item()
local signs = ty.randint(0, 1, { samples }):to("f32") * 2 - 1
local scale = s * power ^ 0.5
local tries, best, least = 40, nil, math.huge
local bar = ty.progress(tries, { label = "threshold", unit = "thresholds", curve = "risk" })
for k = 1, tries do
  local threshold = scale * 4 * k / tries
  local r = risk(y, signs, threshold, s):item()
  if r < least then best, least = threshold, r end
  bar:step { risk = r }
end

local x = denoise(y, best)
draw(("\nwithout noise: %.1f dB"):format(ratio(clean, x)), x)
local most = -math.huge -- knowing the melody
for k = 1, tries do most = math.max(most, ratio(clean, denoise(y, scale * 4 * k / tries))) end
print(("\nnoise of %.3f, taken for %.3f; threshold %.2f of it; the best of all thresholds gives %.1f dB"):format(
  noise:item(), s, best / scale, most))
print(("%d of %d estimates without Lua"):format(jit.explain(risk).skips, tries))
