--- color.lua -- colours: names, "#rrggbb", and maps from numbers to colours.
-- In: what the user wrote, or a number 0..1. Out: "#rrggbb", or red, green, blue in 0..1. Unknown names give nil.

local M = {}

--- Curves of one plot, in turn: apart in hue and in lightness.
M.cycle = { "#1f6feb", "#e36209", "#1a9850", "#cf222e", "#8250df", "#0aa3a3", "#bf8700", "#6e7781" }

local names = {
  black = "#000000", white = "#ffffff", gray = "#808080", grey = "#808080", red = "#cf222e", green = "#1a9850",
  blue = "#1f6feb", orange = "#e36209", purple = "#8250df", teal = "#0aa3a3", gold = "#bf8700", pink = "#e377c2",
}

--- "#rrggbb" of a name, "#rgb", "#rrggbb" or {r, g, b} in 0..1.
---@return string? color nil: it is none of these
function M.parse(v)
  if type(v) == "table" then
    for i = 1, 3 do
      if type(v[i]) ~= "number" or not (v[i] >= 0 and v[i] <= 1) then return nil end
    end
    return M.hex(v[1], v[2], v[3])
  end
  if type(v) ~= "string" then return nil end
  if v:match "^#%x%x%x%x%x%x$" then return v:lower() end
  local r, g, b = v:match "^#(%x)(%x)(%x)$"
  if r then return ("#" .. r .. r .. g .. g .. b .. b):lower() end
  return names[v]
end

---@return number r, number g, number b in 0..1
function M.rgb(hex)
  return tonumber(hex:sub(2, 3), 16) / 255, tonumber(hex:sub(4, 5), 16) / 255, tonumber(hex:sub(6, 7), 16) / 255
end

function M.hex(r, g, b)
  return ("#%02x%02x%02x"):format(math.floor(r * 255 + 0.5), math.floor(g * 255 + 0.5), math.floor(b * 255 + 0.5))
end

-- Maps: polynomials of degree 6 fitted to matplotlib's (which are CC0), coefficients of 1, t, t^2 ... for each channel;
-- largest error 0.02. viridis, magma and inferno are perceptually uniform.
local fits = {
  viridis = {
    { 0.2777273272, 0.1050930431, -0.3308618287, -4.6342304990, 6.2282699362, 4.7763849977, -5.4354558559 },
    { 0.0054073440, 1.4046135299, 0.2148475595, -5.7991009734, 14.1799333668, -13.7451453778, 4.6458526122 },
    { 0.3340998053, 1.3845901628, 0.0950951630, -19.3324409563, 56.6905526007, -65.3530326334, 26.3124352495 },
  },
  magma = {
    { -0.0021364853, 0.2516605407, 8.3537172792, -27.6687330858, 52.1761398123, -50.7685253637, 18.6557071004 },
    { -0.0007496551, 0.6775232436, -3.5777195149, 14.2647307810, -27.9436060717, 29.0465828213, -11.4897735193 },
    { -0.0053861279, 2.4940263987, 0.3144679035, -13.6492131881, 12.9441694424, 4.2341532991, -5.6019615086 },
  },
  inferno = {
    { 0.0002189403, 0.1065134195, 11.6024930825, -41.7039961314, 77.1629356994, -71.3194282449, 25.1311262248 },
    { 0.0016510046, 0.5639564368, -3.9728538655, 17.4363988820, -33.4023589421, 32.6260642639, -12.2426689534 },
    { -0.0194808984, 3.9327123888, -15.9423941063, 44.3541451987, -81.8073092526, 73.2095198580, -23.0703250009 },
  },
}

local function clamp(v) return v < 0 and 0 or v > 1 and 1 or v end

local function polynomial(fit)
  return function(t)
    local y = {}
    for k = 1, 3 do
      local v = 0
      for i = 7, 1, -1 do v = v * t + fit[k][i] end
      y[k] = clamp(v)
    end
    return y[1], y[2], y[3]
  end
end

--- Between colours at equal distances.
local function between(...)
  local stops = { ... }
  for i, hex in ipairs(stops) do stops[i] = { M.rgb(hex) } end
  return function(t)
    local at = t * (#stops - 1)
    local i = math.min(math.floor(at), #stops - 2)
    local a, b, f = stops[i + 1], stops[i + 2], at - i
    return a[1] + (b[1] - a[1]) * f, a[2] + (b[2] - a[2]) * f, a[3] + (b[3] - a[3]) * f
  end
end

--- name -> function(t in 0..1) -> r, g, b
M.maps = {
  gray = function(t) return t, t, t end,
  ink = function(t) return 1 - t, 1 - t, 1 - t end,
  redblue = between("#b2182b", "#ef8a62", "#fddbc7", "#f7f7f7", "#d1e5f0", "#67a9cf", "#2166ac"),
}
for name, fit in pairs(fits) do M.maps[name] = polynomial(fit) end

return M
