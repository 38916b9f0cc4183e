--- show.lua -- `ty.show`: an image, a matrix or a vector in the terminal.
-- In: a tensor or nested tables. Out: text, written, or given with {text = true}. Wrong use raises at the user's line.
--
-- What the terminal has decides: graphics of kitty or sixel; half blocks, two pixels a letter, in 24-bit or 256
-- colours; letters of more or less ink where there is no colour or no terminal. Images that are larger than the
-- terminal are scaled down, each pixel the mean of the area that it covers. Vectors are a line of small bars.

local ty = require "tycho"
local terminal = require "tycho.terminal"
local color = require "tycho.plot.color"
local png = require "tycho.plot.png"

local check = require("tycho.arguments")(ty)
local fail, show = check.fail, check.show

local floor, min, max = math.floor, math.min, math.max

local SMALL = 16 -- images that are less high are magnified
local CELL_WIDTH, CELL_HEIGHT = 8, 16 -- pixels of a letter, about, where a terminal shows graphics
local RAMP = " .:-=+*#%@"
local HALF = "\226\150\128" -- the upper half block
local LEVELS = { 100, 60, 40, 30, 25, 20, 16, 13, 11, 9, 8, 7, 6, 5 } -- of a channel in sixels, less one
local CHUNK = 4096 -- bytes of a piece of kitty's protocol

---------------------------------------------------------------------------------------------------------- scaling

--- The weights with which n samples make m means: for each mean, a list {first, weight, weight ...}.
local function shares(n, m)
  local out, width = {}, n / m
  for i = 0, m - 1 do
    local a, b = i * width, (i + 1) * width
    local first = floor(a)
    local list = { first }
    for k = first, min(math.ceil(b) - 1, n - 1) do list[#list + 1] = (min(b, k + 1) - max(a, k)) / width end
    out[i] = list
  end
  return out
end

--- Another size of an image (RGB samples): means of areas; larger: repeated.
---@param data number[]
---@return number[]
local function resized(data, columns, rows, wide, tall)
  if columns == wide and rows == tall then return data end
  local xs, ys, out = shares(columns, wide), shares(rows, tall), {}
  for y = 0, tall - 1 do
    local down = ys[y]
    for x = 0, wide - 1 do
      local along = xs[x]
      local r, g, b = 0, 0, 0
      for i = 2, #down do
        for k = 2, #along do
          local at = ((down[1] + i - 2) * columns + along[1] + k - 2) * 3
          local w = down[i] * along[k]
          r, g, b = r + data[at + 1] * w, g + data[at + 2] * w, b + data[at + 3] * w
        end
      end
      local at = (y * wide + x) * 3
      out[at + 1], out[at + 2], out[at + 3] = floor(r + 0.5), floor(g + 0.5), floor(b + 0.5)
    end
  end
  return out
end

---------------------------------------------------------------------------------------------------------- ways to show

local function code24(r, g, b) return ("2;%d;%d;%d"):format(r, g, b) end

--- The nearest of the 256: a cube of 6 x 6 x 6 and 24 greys.
local function code256(r, g, b)
  local function level(v) return v < 48 and 0 or v < 115 and 1 or floor((v - 35) / 40) end
  local function value(l) return l == 0 and 0 or 55 + 40 * l end
  local cr, cg, cb = level(r), level(g), level(b)
  local grey = min(23, max(0, floor(((r + g + b) / 3 - 3) / 10)))
  local v = 8 + 10 * grey
  local function distance(x, y, z) return (r - x) ^ 2 + (g - y) ^ 2 + (b - z) ^ 2 end
  if distance(v, v, v) < distance(value(cr), value(cg), value(cb)) then return "5;" .. 232 + grey end
  return "5;" .. 16 + 36 * cr + 6 * cg + cb
end

--- Half blocks: the upper pixel is the letter's colour, the lower the ground's.
local function half_blocks(data, wide, tall, code)
  local lines = {}
  local function at(x, y)
    if y >= tall then return nil end
    local i = (y * wide + x) * 3
    return code(data[i + 1], data[i + 2], data[i + 3])
  end
  for y = 0, tall - 1, 2 do
    local parts, over, under = {}, nil, nil
    for x = 0, wide - 1 do
      local a, b = at(x, y), at(x, y + 1)
      if a ~= over then parts[#parts + 1] = "\27[38;" .. a .. "m" end
      if b ~= under then parts[#parts + 1] = b and "\27[48;" .. b .. "m" or "\27[49m" end
      over, under = a, b
      parts[#parts + 1] = HALF
    end
    lines[#lines + 1] = table.concat(parts) .. "\27[0m"
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Letters: the brighter, the more ink; each is as high as two pixels.
local function letters(data, wide, tall)
  local lines = {}
  for y = 0, tall - 1, 2 do
    local parts = {}
    for x = 0, wide - 1 do
      local sum, n = 0, 0
      for dy = 0, min(1, tall - 1 - y) do
        local i = ((y + dy) * wide + x) * 3
        sum, n = sum + 0.299 * data[i + 1] + 0.587 * data[i + 2] + 0.114 * data[i + 3], n + 1
      end
      local level = floor(sum / n / 256 * #RAMP) + 1
      parts[#parts + 1] = RAMP:sub(level, level)
    end
    lines[#lines + 1] = table.concat(parts):gsub("%s+$", "")
  end
  return table.concat(lines, "\n") .. "\n"
end

--- kitty's protocol: a PNG in base64, in pieces.
local function kitty(data, wide, tall)
  local text = ty.internals.load("tycho.plot.svg").base64(png.encode(wide, tall, 3, function(i) return data[i + 1] end))
  local out = {}
  for from = 1, #text, CHUNK do
    local more = from + CHUNK <= #text and 1 or 0
    local piece = text:sub(from, from + CHUNK - 1)
    out[#out + 1] = ("\27_G%sm=%d;%s\27\\"):format(from == 1 and "a=T,f=100," or "", more, piece)
  end
  return table.concat(out) .. "\n"
end

--- The finest levels of a channel at which the colours of an image are 256 at most: a function of a sample. Levels are
--- the same for all channels, so that greys stay grey.
local function levels_of(data, n)
  for _, most in ipairs(LEVELS) do
    local seen, count = {}, 0
    for at = 1, 3 * n, 3 do
      local key = (floor(data[at] / 255 * most + 0.5) * 101 + floor(data[at + 1] / 255 * most + 0.5)) * 101
        + floor(data[at + 2] / 255 * most + 0.5)
      if not seen[key] then
        seen[key], count = true, count + 1
        if count > 256 then break end
      end
    end
    if count <= 256 then return most end
  end
end

--- Sixel: bands of six rows, in each one pass for each colour; at most 256 colours.
local function sixel(data, wide, tall)
  local out = { "\27P0;1q", ('"1;1;%d;%d'):format(wide, tall) }
  local most, defined, count = levels_of(data, wide * tall), {}, 0
  local function entry(at)
    local r = floor(data[at + 1] / 255 * most + 0.5)
    local g = floor(data[at + 2] / 255 * most + 0.5)
    local b = floor(data[at + 3] / 255 * most + 0.5)
    local key = (r * 101 + g) * 101 + b
    local n = defined[key]
    if not n then
      n, count = count, count + 1
      defined[key] = n
      local percent = 100 / most
      out[#out + 1] = ("#%d;2;%d;%d;%d"):format(n, floor(r * percent + 0.5), floor(g * percent + 0.5),
        floor(b * percent + 0.5))
    end
    return n
  end
  for top = 0, tall - 1, 6 do
    local used, list = {}, {} -- colour -> bits of each column
    for x = 0, wide - 1 do
      for dy = 0, min(5, tall - 1 - top) do
        local n = entry(((top + dy) * wide + x) * 3)
        if not used[n] then
          used[n] = {}
          list[#list + 1] = n
        end
        used[n][x] = (used[n][x] or 0) + 2 ^ dy
      end
    end
    for i, n in ipairs(list) do
      out[#out + 1] = (i > 1 and "$" or "") .. "#" .. n
      local x = 0
      while x < wide do
        local bits, run = used[n][x] or 0, 1
        while x + run < wide and (used[n][x + run] or 0) == bits do run = run + 1 end
        local letter = string.char(63 + bits)
        out[#out + 1] = run > 3 and ("!%d%s"):format(run, letter) or letter:rep(run)
        x = x + run
      end
    end
    out[#out + 1] = "-"
  end
  out[#out + 1] = "\27\\\n"
  return table.concat(out)
end

local MODES = { kitty = true, sixel = true, ["24bit"] = true, ["256"] = true, plain = true }

local function best_mode()
  if not terminal.size(1) then return "plain" end
  return terminal.graphics() or terminal.has_unicode() and terminal.colors() or "plain"
end

---------------------------------------------------------------------------------------------------------- images

--- The size in pixels at which an image is shown in so many columns and rows of letters.
local function target(mode, wide, tall, columns, rows)
  local graphics = mode == "kitty" or mode == "sixel"
  local most_wide, most_tall = columns, rows * 2
  if graphics then most_wide, most_tall = columns * CELL_WIDTH, rows * CELL_HEIGHT end
  local scale = min(1, most_wide / wide, most_tall / tall)
  local small = graphics and SMALL * 8 or SMALL
  if scale == 1 and tall < small then
    scale = max(1, min(floor(small / tall), floor(most_wide / wide), floor(most_tall / tall)))
  end
  return max(1, floor(wide * scale + 0.5)), max(1, floor(tall * scale + 0.5))
end

local function image(x, o)
  local sheet = ty.internals.load("tycho.plot"){}:image(x, { lim = o.lim, map = o.map, columns = o.columns }).marks[1]
  local data, wide, tall = ty.internals.load("tycho.plot.axes").image(sheet)
  local mode = o.mode or best_mode()
  local columns, rows = terminal.size(1)
  columns = floor(o.width or columns or 80)
  rows = o.width and 1e4 or rows and max(rows - 2, 4) or 1e4
  local w, h = target(mode, wide, tall, columns, rows)
  data = resized(data, wide, tall, w, h)
  if mode == "kitty" then return kitty(data, w, h) end
  if mode == "sixel" then return sixel(data, w, h) end
  if mode == "plain" then return letters(data, w, h) end
  return half_blocks(data, w, h, mode == "24bit" and code24 or code256)
end

local function vector(values, o)
  if #values == 0 then return "(empty)\n" end
  local lo, hi = math.huge, -math.huge
  for _, v in ipairs(values) do
    if v - v == 0 then lo, hi = min(lo, v), max(hi, v) end
  end
  local columns = floor(o.width or terminal.size(1) or 80)
  local tail = lo <= hi and ("  %s to %s"):format(terminal.short(lo), terminal.short(hi)) or "  no finite values"
  return terminal.sparkline(values, max(columns - #tail - 1, 8)) .. tail .. "\n"
end

--- Shows a vector as small bars; a matrix, an image [3, h, w] or a sheet of images [n, h, w], [n, c, h, w] in
--- colours. Options: mode = "kitty", "sixel", "24bit", "256" or "plain", instead of what the terminal has; width in
--- columns; map and lim as in plots; columns, of a sheet; text = true gives the text and writes nothing.
--- Raises where x is no tensor or list of numbers, has more than 4 dims, or an option is not known.
---@param x tycho.Tensor|number[]|number[][]
---@param opts? {mode: string?, width: integer?, map: string?, lim: number[]?, columns: integer?, text: boolean?}
---@return string? text
return function(x, opts)
  local o = check.options("show", opts,
    { mode = "any", width = "number", map = "any", lim = "any", columns = "number", text = "boolean" })
  if o.mode ~= nil and not MODES[o.mode] then
    fail("show", "option mode must be one of 24bit 256 kitty plain sixel, got %s", show(o.mode))
  end
  if o.width and not (o.width >= 1 and o.width <= 10000) then
    fail("show", "option width must be from 1 to 10000, got %g", o.width)
  end
  if o.map ~= nil and not color.maps[o.map] then fail("show", "there is no colour map %s", show(o.map)) end
  if type(x) == "table" and not ty.is_tensor(x) then x = check.named("show", "tensor", ty.tensor, x) end
  check.tensor("show", 1, x)
  if x.ndim > 4 then fail("show", "argument 1 must have at most 4 dims, got %s", check.text(x)) end
  local text
  if x.ndim == 0 then text = tostring(x:item()) .. "\n"
  elseif x.ndim == 1 then text = vector(x:to("f64"):totable(), o)
  else text = check.named("show", "image", image, x, o) end
  if o.text then return text end
  terminal.world.write(1, text)
end
