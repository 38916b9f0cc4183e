--- raster.lua -- a scene to pixels: anti-aliased, without a library.
-- In: a scene (scene.lua says what that is), a scale. Out: width, height and samples, RGB, row by row. Cannot fail but
-- for memory.
--
-- One shape at a time is drawn into a mask of coverages 0..1, then painted through it once, so that a curve that
-- crosses itself or whose joins overlap is no darker there. Rules:
-- 1. Strokes: the coverage of a pixel is that of a disc of the line's width whose centre is the nearest point of the
--    line: round caps and joins come by themselves. Coverages of one shape are joined by their maximum.
-- 2. Areas: SUB lines a pixel, each exact in x, non-zero winding.
-- 3. The mask is clean outside of `dirty`, which only grows between two paintings.

local font = require "tycho.plot.font"
local color = require "tycho.plot.color"

local M = {}

local floor, ceil, min, max, sqrt, abs = math.floor, math.ceil, math.min, math.max, math.sqrt, math.abs

local SUB = 5
local WEIGHT, BOLD = 0.085, 0.13 -- of strokes of letters, to the size

local has_ffi, ffi = pcall(require, "ffi")

--- n numbers from 0 on, all v.
local function numbers(n, v)
  local t
  if has_ffi then
    t = ffi.new("float[?]", n)
    if v == 0 then return t end
  else
    t = {}
  end
  for i = 0, n - 1 do t[i] = v end
  return t
end

---------------------------------------------------------------------------------------------------------- the mask

local function clean(c)
  c.x0, c.y0, c.x1, c.y1 = c.width, c.height, -1, -1
end

--- Makes the dirty part hold [x0, x1] x [y0, y1], cut to the clip; gives what is left of it.
local function touch(c, x0, y0, x1, y1)
  x0, y0 = max(c.left, floor(x0)), max(c.top, floor(y0))
  x1, y1 = min(c.right, ceil(x1)), min(c.bottom, ceil(y1))
  if x0 <= x1 and y0 <= y1 then
    c.x0, c.y0, c.x1, c.y1 = min(c.x0, x0), min(c.y0, y0), max(c.x1, x1), max(c.y1, y1)
  end
  return x0, y0, x1, y1
end

--- Paints the mask in a colour and cleans it.
local function paint(c, hex, alpha)
  local r, g, b = color.rgb(hex)
  r, g, b = r * 255, g * 255, b * 255
  local mask, pixels, width = c.mask, c.pixels, c.width
  for y = c.y0, c.y1 do
    for at = y * width + c.x0, y * width + c.x1 do
      local a = mask[at]
      if a > 0 then
        a = a * alpha
        local p = at * 3
        pixels[p] = pixels[p] + (r - pixels[p]) * a
        pixels[p + 1] = pixels[p + 1] + (g - pixels[p + 1]) * a
        pixels[p + 2] = pixels[p + 2] + (b - pixels[p + 2]) * a
        mask[at] = 0
      end
    end
  end
  clean(c)
end

--- One piece of a stroke. Pixel centres lie at halves.
local function segment(c, ax, ay, bx, by, half)
  local reach = half + 0.5
  local dx, dy = bx - ax, by - ay
  local length2 = dx * dx + dy * dy
  local x0, y0, x1, y1 = touch(c, min(ax, bx) - reach, min(ay, by) - reach, max(ax, bx) + reach, max(ay, by) + reach)
  local mask, width = c.mask, c.width
  local slope = abs(dy) > 1e-9 and dx / dy or nil
  local spread = slope and reach * sqrt(1 + slope * slope) or 0
  for y = y0, y1 do
    local py = y + 0.5
    local from, to = x0, x1
    if slope then -- the part of this row that the line, were it endless, comes near
      local mid = ax + (py - ay) * slope
      from, to = max(x0, floor(mid - spread - 1)), min(x1, ceil(mid + spread))
    end
    for x = from, to do
      local px = x + 0.5
      local t = length2 > 0 and ((px - ax) * dx + (py - ay) * dy) / length2 or 0
      t = t < 0 and 0 or t > 1 and 1 or t
      local ex, ey = px - ax - t * dx, py - ay - t * dy
      local v = reach - sqrt(ex * ex + ey * ey)
      if v > 0 then
        if v > 1 then v = 1 end
        if half < 0.5 then v = v * 2 * half end -- thinner than a pixel: fainter
        local at = y * width + x
        if v > mask[at] then mask[at] = v end
      end
    end
  end
end

local function stroke(c, points, half, closed)
  local n = #points
  if n == 2 then return segment(c, points[1], points[2], points[1], points[2], half) end
  for i = 1, n - 3, 2 do segment(c, points[i], points[i + 1], points[i + 2], points[i + 3], half) end
  if closed then segment(c, points[n - 1], points[n], points[1], points[2], half) end
end

--- The parts of a polyline that a pattern {on, off, ...} shows.
local function dashed(points, pattern)
  local parts, part, at, left, on = {}, { points[1], points[2] }, 1, pattern[1], true
  for i = 1, #points - 3, 2 do
    local ax, ay, bx, by = points[i], points[i + 1], points[i + 2], points[i + 3]
    local length = sqrt((bx - ax) ^ 2 + (by - ay) ^ 2)
    local done = 0
    while length - done > left do
      done = done + left
      local x, y = ax + (bx - ax) * done / length, ay + (by - ay) * done / length
      if on then
        part[#part + 1], part[#part + 2] = x, y
        parts[#parts + 1] = part
      else
        part = { x, y }
      end
      on, at = not on, at % #pattern + 1
      left = pattern[at]
    end
    left = left - (length - done)
    if on then part[#part + 1], part[#part + 2] = bx, by end
  end
  if on and #part > 2 then parts[#parts + 1] = part end
  return parts
end

--- The area of closed polygons, by sub-lines of rows.
local function fill(c, polygons)
  local edges, low, high, left, right = {}, math.huge, -math.huge, math.huge, -math.huge
  for _, p in ipairs(polygons) do
    local n = #p
    for i = 1, n, 2 do
      local j = i + 2 > n and 1 or i + 2
      local ax, ay, bx, by = p[i], p[i + 1], p[j], p[j + 1]
      left, right = min(left, ax), max(right, ax)
      if ay ~= by then
        local dir = 1
        if ay > by then ax, ay, bx, by, dir = bx, by, ax, ay, -1 end
        edges[#edges + 1] = { ay, by, ax, (bx - ax) / (by - ay), dir }
        low, high = min(low, ay), max(high, by)
      end
    end
  end
  if #edges == 0 then return end
  table.sort(edges, function(a, b) return a[1] < b[1] end)
  local _, y0, _, y1 = touch(c, left, low, right, high)
  local mask, width, x_first, x_last = c.mask, c.width, c.left, c.right
  local live, coming = {}, 1
  for y = y0, y1 do
    for sub = 0, SUB - 1 do
      local py = y + (sub + 0.5) / SUB
      while coming <= #edges and edges[coming][1] <= py do
        live[#live + 1] = edges[coming]
        coming = coming + 1
      end
      local cuts = {}
      for i = #live, 1, -1 do
        local e = live[i]
        if e[2] <= py then table.remove(live, i)
        else cuts[#cuts + 1] = { e[3] + (py - e[1]) * e[4], e[5] } end
      end
      table.sort(cuts, function(a, b) return a[1] < b[1] end)
      local winding = 0
      for i = 1, #cuts - 1 do
        winding = winding + cuts[i][2]
        if winding ~= 0 then
          local a, b = max(cuts[i][1], x_first), min(cuts[i + 1][1], x_last + 1)
          for x = floor(a), ceil(b) - 1 do
            local at = y * width + x
            mask[at] = min(1, mask[at] + max(0, min(b, x + 1) - max(a, x)) / SUB)
          end
        end
      end
    end
  end
end

---------------------------------------------------------------------------------------------------------- the items

local draw = {}

function draw.rect(c, item, s)
  local x0, y0 = item.x * s, item.y * s
  local x1, y1 = x0 + item.w * s, y0 + item.h * s
  local polygon = { x0, y0, x1, y0, x1, y1, x0, y1 }
  if item.fill then
    fill(c, { polygon })
    paint(c, item.fill, item.alpha or 1)
  end
  if item.stroke then
    stroke(c, polygon, (item.width or 1) * s / 2, true)
    paint(c, item.stroke, 1)
  end
end

local function scaled(points, s)
  local y = {}
  for i = 1, #points do y[i] = points[i] * s end
  return y
end

function draw.path(c, item, s)
  local lines = {}
  for i, line in ipairs(item.lines) do lines[i] = scaled(line, s) end
  if item.fill then
    fill(c, lines)
    paint(c, item.fill, item.alpha or 1)
  end
  if not item.stroke then return end
  for _, line in ipairs(lines) do
    local parts = item.dash and #line > 2 and dashed(line, scaled(item.dash, s)) or { line }
    for _, part in ipairs(parts) do stroke(c, part, (item.width or 1) * s / 2, item.closed) end
  end
  paint(c, item.stroke, item.alpha or 1)
end

function draw.marks(c, item, s)
  local shape = item.outline -- around the origin; nil: a disc
  for i = 1, #item.points, 2 do
    local x, y = item.points[i] * s, item.points[i + 1] * s
    if shape then
      local polygon = {}
      for k = 1, #shape, 2 do polygon[k], polygon[k + 1] = x + shape[k] * s, y + shape[k + 1] * s end
      if item.open then stroke(c, polygon, s * 0.8, true) else fill(c, { polygon }) end
    else
      segment(c, x, y, x, y, item.size * s / 2)
    end
    paint(c, item.fills and item.fills[(i + 1) / 2] or item.fill, item.alpha or 1)
  end
end

function draw.text(c, item, s)
  local size = item.size * s
  local shift = item.anchor == "middle" and -0.5 or item.anchor == "end" and -1 or 0
  shift = shift * font.width(item.text, size)
  local angle = math.rad(item.rotate or 0)
  local cos, sin = math.cos(angle), math.sin(angle)
  local half = size * (item.bold and BOLD or WEIGHT) / 2
  for _, line in ipairs(font.strokes(item.text, size)) do
    local points = {}
    for i = 1, #line, 2 do
      local x, y = line[i] + shift, -line[i + 1]
      points[i], points[i + 1] = item.x * s + x * cos - y * sin, item.y * s + x * sin + y * cos
    end
    stroke(c, points, line.dot and half * 1.35 or half)
  end
  paint(c, item.color, 1)
end

--- Each pixel of the image takes the sample under its centre: nothing is blurred.
function draw.image(c, item, s)
  local x0, y0, w, h = item.x * s, item.y * s, item.w * s, item.h * s
  local data, columns, rows = item.data, item.columns, item.rows
  local pixels, width = c.pixels, c.width
  for y = max(c.top, floor(y0 + 0.5)), min(c.bottom, floor(y0 + h + 0.5) - 1) do
    local row = min(rows - 1, max(0, floor((y + 0.5 - y0) * rows / h)))
    for x = max(c.left, floor(x0 + 0.5)), min(c.right, floor(x0 + w + 0.5) - 1) do
      local from = (row * columns + min(columns - 1, max(0, floor((x + 0.5 - x0) * columns / w)))) * 3
      local p = (y * width + x) * 3
      pixels[p], pixels[p + 1], pixels[p + 2] = data[from + 1], data[from + 2], data[from + 3]
    end
  end
end

local function draw_all(c, items, s)
  for _, item in ipairs(items) do
    if item.kind == "clip" then
      local left, top, right, bottom = c.left, c.top, c.right, c.bottom
      c.left, c.top = max(left, floor(item.x * s)), max(top, floor(item.y * s))
      c.right, c.bottom = min(right, ceil((item.x + item.w) * s) - 1), min(bottom, ceil((item.y + item.h) * s) - 1)
      draw_all(c, item.items, s)
      c.left, c.top, c.right, c.bottom = left, top, right, bottom
    else
      draw[item.kind](c, item, s)
    end
  end
end

--- Draws a scene at `scale` pixels a unit.
---@param scene table
---@param scale number
---@return integer width, integer height, fun(i: integer): integer sample
function M.draw(scene, scale)
  local width, height = ceil(scene.width * scale), ceil(scene.height * scale)
  local c = {
    width = width, height = height, left = 0, top = 0, right = width - 1, bottom = height - 1,
    pixels = numbers(width * height * 3, 255), mask = numbers(width * height, 0),
  }
  clean(c)
  draw_all(c, scene.items, scale)
  local pixels = c.pixels
  return width, height, function(i) return floor(pixels[i] + 0.5) end
end

return M
