--- axes.lua -- a plot to a scene: where everything stands.
-- In: a checked plot. Out: a scene {width, height, title, items}; lengths in pixels, y downwards, items painted in
-- order:
--   rect  {x, y, w, h, fill?, stroke?, width?, alpha?}
--   path  {lines = {{x, y, x, y ...} ...}, closed?, fill?, stroke?, width?, dash?, alpha?}
--   marks {points = {x, y ...}, size, outline? (around 0, 0; else a disc), open?, fill, fills?, alpha?}
--   text  {x, y, text, size, color, anchor?, rotate? (degrees, clockwise), bold?}
--   image {x, y, w, h, columns, rows, data (samples 0..255, RGB, row by row)}
--   clip  {x, y, w, h, items}
-- Cannot fail.
--
-- A panel is laid out from the outside in: limits from the data, ticks from the limits, margins from the widths of the
-- ticks' labels, and then the marks in what is left. Two rounds, since how many ticks fit depends on the margins.

local ticks = require "tycho.plot.ticks"
local color = require "tycho.plot.color"
local font = require "tycho.plot.font"

local M = {}

local floor, min, max, abs, huge = math.floor, math.min, math.max, math.abs, math.huge

local TITLE, LABEL, TICK, GAP = 15, 13, 11.5, 8
local WIDER = 1.12
local HITS = 3 -- points under a legend from which on it goes out of the way
local BAR_WIDTH, BAR_ROOM = 14, 18 -- a colour bar, and what is left before it

M.ink, M.soft = "#24292f", "#656d76"
local PAPER, GRID, FRAME, NOTHING = "#ffffff", "#e4e8ec", "#afb8c1", "#d0d7de"

--- Light to dark. "auto" leaves the choice to who looks at the SVG.
M.dark = {
  [M.ink] = "#e6edf3", [M.soft] = "#9198a1", [PAPER] = "#0d1117", [GRID] = "#272d35", [FRAME] = "#4a525c",
  ["#1f6feb"] = "#58a6ff", ["#e36209"] = "#f0883e", ["#1a9850"] = "#3fb950", ["#cf222e"] = "#ff7b72",
  ["#8250df"] = "#bc8cff", ["#0aa3a3"] = "#39c5cf", ["#bf8700"] = "#d29922", ["#6e7781"] = "#8b949e",
}
M.themes = { light = true, dark = true, auto = true }

--- Outlines of size 1 around the origin; a disc and a ring have none.
local D = 0.62
M.markers = {
  disc = {}, square = { -0.45, -0.45, 0.45, -0.45, 0.45, 0.45, -0.45, 0.45 },
  triangle = { 0, -0.6, 0.58, 0.42, -0.58, 0.42 }, diamond = { 0, -D, D, 0, 0, D, -D, 0 },
  plus = { -0.13, -0.6, 0.13, -0.6, 0.13, -0.13, 0.6, -0.13, 0.6, 0.13, 0.13, 0.13, 0.13, 0.6, -0.13, 0.6, -0.13, 0.13,
    -0.6, 0.13, -0.6, -0.13, -0.13, -0.13 },
  cross = { -0.52, -0.34, -0.34, -0.52, 0, -0.18, 0.34, -0.52, 0.52, -0.34, 0.18, 0, 0.52, 0.34, 0.34, 0.52, 0, 0.18,
    -0.34, 0.52, -0.52, 0.34, -0.18, 0 },
}

local MOST, MOST_LOG = 1e300, 1e250 -- values beyond are as infinite ones: the room around them is still a number

local function is_finite(v) return abs(v) <= MOST end

--- Two limits, far enough apart for labels between them to differ.
local function apart(lo, hi)
  local least = max(max(abs(lo), abs(hi)) * 1e-11, 1e-300)
  if hi - lo >= least then return lo, hi end
  return lo - least, hi + least
end

---------------------------------------------------------------------------------------------------------- data

--- Equal bins over the finite values. Gives their edges and counts (or densities).
---@param list number[]
---@param o {bins: integer?, lim: number[]?, density: boolean?}
---@return number[] edges, number[] counts
function M.bins(list, o)
  local sorted = {}
  for _, v in ipairs(list) do
    if is_finite(v) then sorted[#sorted + 1] = v end
  end
  table.sort(sorted)
  local n = #sorted
  local lo, hi = sorted[1] or 0, sorted[n] or 1
  if o.lim then lo, hi = o.lim[1], o.lim[2] end
  if lo == hi then lo, hi = lo - 0.5, hi + 0.5 end
  lo, hi = apart(lo, hi)
  local bins = o.bins
  if not bins then -- Freedman and Diaconis: 2 iqr / n^(1/3) wide
    local iqr = n > 3 and sorted[floor(n * 0.75) + 1] - sorted[floor(n * 0.25) + 1] or 0
    local width = 2 * iqr / max(n, 1) ^ (1 / 3)
    bins = width > 0 and math.ceil((hi - lo) / width) or 10
    bins = min(max(bins, 5), 80)
  end
  local edges, counts = {}, {}
  for i = 0, bins do edges[i + 1] = lo + (hi - lo) * i / bins end
  for i = 1, bins do counts[i] = 0 end
  local inside = 0
  for _, v in ipairs(sorted) do
    if v >= lo and v <= hi then
      local i = min(bins, floor((v - lo) / (hi - lo) * bins) + 1)
      counts[i] = counts[i] + 1
      inside = inside + 1
    end
  end
  for i = 1, o.density and bins or 0 do counts[i] = counts[i] / max(inside, 1) / ((hi - lo) / bins) end
  return edges, counts
end

--- A range that grows by what it is shown: finite values, on a log axis above 0.
local function range(log)
  local r = { lo = huge, hi = -huge }
  function r.see(v)
    if v and is_finite(v) and (not log or v >= 1 / MOST_LOG and v <= MOST_LOG) then
      r.lo, r.hi = min(r.lo, v), max(r.hi, v)
    end
  end
  return r
end

--- The range of colours of a mark.
local function value_range(values, lim)
  if lim then return lim[1], lim[2] end
  local r = range()
  for _, v in ipairs(values) do r.see(v) end
  if r.lo > r.hi then return 0, 1 end
  if r.lo == r.hi then return apart(r.lo - 0.5, r.hi + 0.5) end
  return apart(r.lo, r.hi)
end

local function flatten(cells)
  local out = {}
  for _, row in ipairs(cells) do
    for _, v in ipairs(row) do out[#out + 1] = v end
  end
  return out
end

--- What a mark adds to the ranges of both axes, and whether the axes should end right there.
local extents = {}

local function points(m, x, y)
  for i = 1, #m.x do
    x.see(m.x[i])
    y.see(m.y[i])
  end
end
extents.line, extents.scatter, extents.note = points, points, points

function extents.band(m, x, y)
  points(m, x, y)
  for i = 1, #m.high do y.see(m.high[i]) end
end

function extents.rule(m, x, y) (m.axis == "x" and x or y).see(m.at) end

function extents.hist(m, x, y)
  x.see(m.edges[1])
  x.see(m.edges[#m.edges])
  for _, n in ipairs(m.counts) do y.see(n) end
  y.floor = 0
  y.see(0)
end

function extents.bars(m, x, y)
  local along, up = x, y
  if m.horizontal then along, up = y, x end
  along.names = along.names or m.names
  along.see(0.5)
  along.see(#along.names + 0.5)
  along.tight, along.down = true, m.horizontal
  for _, v in ipairs(m.y) do up.see(v) end
  local base = m.base or 0
  up.see(base)
  if up.lo >= base then up.floor = base end
end

function extents.heat(m, x, y)
  local xs, ys = m.xs or { 0.5, #m.cells[1] + 0.5 }, m.ys or { 0.5, #m.cells + 0.5 }
  for i = 1, 2 do
    x.see(xs[i])
    y.see(ys[i])
  end
  x.tight, y.tight = true, true
  x.whole, y.whole = not m.xs, not m.ys
  y.down = y.down or not m.ys
end

---------------------------------------------------------------------------------------------------------- an axis

--- Limits with some room around the data.
local function limits(r, lim, log, room)
  local lo, hi = r.lo, r.hi
  if lo > hi then lo, hi = log and 0.1 or 0, 1 end
  if lim and log then return lim[1], max(lim[2], lim[1] * (1 + 1e-11)) end
  if lim then return apart(lim[1], lim[2]) end
  if log then
    if hi <= lo * (1 + 1e-11) then lo, hi = lo / 2, hi * 2 end
    local grow = r.tight and 1 or math.exp((math.log(hi) - math.log(lo)) * room)
    return r.floor == lo and lo or lo / grow, hi * grow
  end
  if lo == hi then
    local about = max(abs(lo) * 0.1, 1e-9, lo == 0 and 1 or 0)
    lo, hi = lo - about, hi + about
  end
  lo, hi = apart(lo, hi)
  if r.tight then return lo, hi end
  local grow = (hi - lo) * room
  return r.floor == lo and lo or lo - grow, hi + grow
end

--- An axis: where values stand between its two ends (0..1), its ticks.
local function axis_of(r, lim, log, room)
  local a = { log = log, names = r.names, down = r.down, whole = r.whole }
  a.lo, a.hi = limits(r, lim, log, room)
  local from = log and math.log(a.lo) or a.lo
  local span = (log and math.log(a.hi) or a.hi) - from
  function a.share(v)
    if log then v = v > 0 and math.log(v) or -huge end
    return (v - from) / span
  end
  return a
end

--- Fills a.ticks and a.power for about so many labels.
local function label_axis(a, wanted)
  a.power = 0
  if a.names then
    a.ticks = {}
    for i, name in ipairs(a.names) do a.ticks[i] = { value = i, text = name } end
  elseif a.log then
    a.ticks = ticks.on_log(a.lo, a.hi, wanted)
  else
    a.ticks, a.power = ticks.on_line(a.lo, a.hi, wanted)
    if a.whole then -- rows and columns: none between two
      local kept = {}
      for _, t in ipairs(a.ticks) do
        if t.value % 1 == 0 and t.value >= 1 then
          kept[#kept + 1] = { value = t.value, text = ticks.format(t.value, 0) }
        end
      end
      a.ticks, a.power = kept, 0
    end
  end
end

--- The widest label; the reader of an SVG may have a wider font than ours.
local function widest(list)
  local w = 0
  for _, t in ipairs(list) do w = max(w, t.text and font.width(t.text, TICK) or 0) end
  return w * WIDER
end

--------------------------------------------------------------------------------------------------------- marks to items

local paint = {}

--- Where a number of the data stands.
local function mapper(box, x, y)
  return function(v) return box.x + x.share(v) * box.w end,
    y.down and function(v) return box.y + y.share(v) * box.h end
      or function(v) return box.y + (1 - y.share(v)) * box.h end
end

--- Of a long line only what can be seen: in each column of pixels the first, the last and both extremes. Its x must not
--- go back; else all of it is kept.
local function thinned(line, columns)
  if #line <= 8 * columns then return line end
  for i = 3, #line, 2 do
    if line[i] < line[i - 2] then return line end
  end
  local out, i = {}, 1
  local function keep(k) out[#out + 1], out[#out + 2] = line[k], line[k + 1] end
  while i <= #line do
    local column, first, low, high = floor(line[i]), i, i, i
    local k = i
    while k <= #line and floor(line[k]) == column do
      if line[k + 1] < line[low + 1] then low = k end
      if line[k + 1] > line[high + 1] then high = k end
      k = k + 2
    end
    local last, before = k - 2, nil
    for _, at in ipairs { first, min(low, high), max(low, high), last } do
      if at ~= before then keep(at) end
      before = at
    end
    i = k
  end
  return out
end

--- The pieces of a curve between gaps.
local function pieces(xs, ys, px, py)
  local lines, line = {}, nil
  for i = 1, #xs do
    local x, y = px(xs[i]), py(ys[i])
    if is_finite(x) and is_finite(y) then
      if not line then
        line = {}
        lines[#lines + 1] = line
      end
      line[#line + 1], line[#line + 2] = x, y
    else
      line = nil
    end
  end
  return lines
end

local function marker_item(m, at, size)
  local outline = m.marker and M.markers[m.marker]
  local item = { kind = "marks", points = at, size = size, fill = m.color, fills = m.fills, alpha = m.alpha }
  if outline and #outline > 0 then
    item.outline = {}
    for i, v in ipairs(outline) do item.outline[i] = v * size end
  end
  return item
end

function paint.line(m, box, px, py)
  local lines = pieces(m.x, m.y, px, py)
  local items = {}
  local at = {}
  for i, line in ipairs(lines) do
    if m.marker or #line == 2 then -- a point without neighbours is no line: it would not be seen
      for k = 1, #line do at[#at + 1] = line[k] end
    end
    lines[i] = thinned(line, box.w)
  end
  items[1] = { kind = "path", lines = lines, stroke = m.color, width = m.width or 2, alpha = m.alpha,
    dash = #m.dash > 0 and m.dash or nil }
  if #at > 0 then items[2] = marker_item(m, at, m.marker and 7 or 2.5 * (m.width or 2)) end
  return items
end

function paint.band(m, _, px, py)
  local lines, low, high = {}, {}, {}
  local function close()
    if #low > 2 then
      for i = #high - 1, 1, -2 do low[#low + 1], low[#low + 2] = high[i], high[i + 1] end
      lines[#lines + 1] = low
    end
    low, high = {}, {}
  end
  for i = 1, #m.x do
    local x, a, b = px(m.x[i]), py(m.y[i]), py(m.high[i])
    if is_finite(x) and is_finite(a) and is_finite(b) then
      low[#low + 1], low[#low + 2] = x, a
      high[#high + 1], high[#high + 2] = x, b
    else
      close()
    end
  end
  close()
  return { { kind = "path", lines = lines, closed = true, fill = m.color, alpha = m.alpha } }
end

function paint.scatter(m, _, px, py)
  local at, fills = {}, m.values and {}
  local map = m.values and color.maps[m.map]
  for i = 1, #m.x do
    local x, y = px(m.x[i]), py(m.y[i])
    local v = m.values and m.values[i]
    if is_finite(x) and is_finite(y) and (not v or is_finite(v)) then
      at[#at + 1], at[#at + 2] = x, y
      if v then fills[#fills + 1] = color.hex(map(min(1, max(0, (v - m.from) / (m.to - m.from))))) end
    end
  end
  m.fills = fills
  return { marker_item(m, at, m.size or 6) }
end

function paint.hist(m, _, px, py)
  local items, base = {}, py(0)
  if not is_finite(base) then base = py(1e-300) end
  for i, n in ipairs(m.counts) do
    local x0, x1, y = px(m.edges[i]), px(m.edges[i + 1]), py(n)
    if n > 0 and is_finite(y) then
      local between = x1 - x0 > 4 and 1 or 0
      items[#items + 1] = { kind = "rect", x = x0, y = y, w = max(x1 - x0 - between, 0.5), h = base - y,
        fill = m.color, alpha = m.alpha or 0.85 }
    end
  end
  return items
end

function paint.bars(m, box, px, py)
  local items = {}
  local width = 0.8 / m.groups
  for i, v in ipairs(m.y) do
    local from = i - 0.4 + (m.group - 1) * width
    local a, b, c, d
    if m.horizontal then
      a, b, c, d = px(m.base or 0), px(v), py(from), py(from + width)
      if not is_finite(a) then a = box.x end
    else
      a, b, c, d = py(m.base or 0), py(v), px(from), px(from + width)
      if not is_finite(a) then a = box.y + box.h end
    end
    local thin = d - c > 4 and 1 or 0
    if is_finite(b) then
      local lo, size = min(a, b), max(abs(a - b), 1)
      items[#items + 1] = m.horizontal and { kind = "rect", x = lo, w = size, y = c, h = d - c - thin }
        or { kind = "rect", x = c, w = d - c - thin, y = lo, h = size }
      items[#items].fill, items[#items].alpha = m.color, m.alpha
    end
  end
  return items
end

function paint.rule(m, box, px, py)
  local line
  if m.axis == "x" then
    local x = px(m.at)
    line = { x, box.y, x, box.y + box.h }
  else
    local y = py(m.at)
    line = { box.x, y, box.x + box.w, y }
  end
  if not (is_finite(line[1]) and is_finite(line[2])) then return {} end
  return { { kind = "path", lines = { line }, stroke = m.color, width = m.width, alpha = m.alpha,
    dash = #m.dash > 0 and m.dash or nil } }
end

function paint.note(m, box, px, py)
  local x, y = px(m.x[1]), py(m.y[1])
  if not (x >= box.x and x <= box.x + box.w and y >= box.y and y <= box.y + box.h) then return {} end
  return { { kind = "text", x = x, y = y - 4, text = m.text, size = m.size or TICK, anchor = m.anchor,
    color = m.color } }
end

function paint.heat(m, _, px, py)
  local rows, columns = #m.cells, #m.cells[1]
  local data, map = {}, color.maps[m.map]
  local nr, ng, nb = color.rgb(NOTHING)
  for i = 1, rows do
    local row = m.cells[m.ys and rows + 1 - i or i]
    for k = 1, columns do
      local v = row[k]
      local r, g, b = nr, ng, nb
      if v == v then r, g, b = map(min(1, max(0, (v - m.from) / (m.to - m.from)))) end
      local at = #data
      data[at + 1], data[at + 2], data[at + 3] = floor(r * 255 + 0.5), floor(g * 255 + 0.5), floor(b * 255 + 0.5)
    end
  end
  local xs, ys = m.xs or { 0.5, columns + 0.5 }, m.ys or { 0.5, rows + 0.5 }
  local x0, x1, y0, y1 = px(xs[1]), px(xs[2]), py(ys[1]), py(ys[2])
  return { { kind = "image", x = x0, y = min(y0, y1), w = x1 - x0, h = abs(y1 - y0), columns = columns, rows = rows,
    data = data } }
end

---------------------------------------------------------------------------------------------------------- images

--- Samples of a sheet of images, with gaps in the colour of the paper.
local function sheet(m, paper)
  local n, h, w = #m.images, #m.images[1][1], #m.images[1][1][1]
  local columns = min(m.columns or math.ceil(math.sqrt(n * h / w)), n)
  local rows, gap = math.ceil(n / columns), n > 1 and (m.gap or max(1, floor(min(w, h) / 12))) or 0
  local wide, tall = columns * (w + gap) - gap, rows * (h + gap) - gap
  local r, g, b = color.rgb(paper)
  local data = {}
  for i = 1, wide * tall * 3, 3 do data[i], data[i + 1], data[i + 2] = r * 255, g * 255, b * 255 end
  local lo, hi = m.from, m.to
  local map = m.map and color.maps[m.map]
  local function share(v) return v == v and min(1, max(0, (v - lo) / (hi - lo))) or 0.5 end
  for i, image in ipairs(m.images) do
    local top, left = floor((i - 1) / columns) * (h + gap), (i - 1) % columns * (w + gap)
    for y = 1, h do
      for x = 1, w do
        local at = ((top + y - 1) * wide + left + x - 1) * 3
        for k = 1, 3 do data[at + k] = floor(share((image[k] or image[1])[y][x]) * 255 + 0.5) end
        if map then
          local cr, cg, cb = map(share(image[1][y][x]))
          data[at + 1], data[at + 2], data[at + 3] = floor(cr * 255 + 0.5), floor(cg * 255 + 0.5), floor(cb * 255 + 0.5)
        end
      end
    end
  end
  return data, wide, tall
end

--- The largest box of that shape in the middle of another; whole pixels a sample where there are enough.
local function fitted(box, wide, tall)
  local scale = min(box.w / wide, box.h / tall)
  if scale > 1 then scale = floor(scale * 2) / 2 end
  local w, h = wide * scale, tall * scale
  return floor(box.x + (box.w - w) / 2 + 0.5), floor(box.y + (box.h - h) / 2 + 0.5), w, h
end

function paint.image(m, box)
  local data, wide, tall = sheet(m, PAPER)
  local x, y, w, h = fitted(box, wide, tall)
  return { { kind = "image", x = x, y = y, w = w, h = h, columns = wide, rows = tall, data = data } }
end

------------------------------------------------------------------------------------------------------- around the marks

--- Texts of marks with labels, in a box at a corner: that with the least data in it, unless the user chose. Where there
--- is data in each, only the width that is wanted beside the plot is given, until `outside` says that it is there.
local function legend_items(p, box, drawn, outside)
  local rows, width = {}, 0
  for _, m in ipairs(p.marks) do
    if m.label and not m.bar and m.kind ~= "note" then
      rows[#rows + 1] = m
      width = max(width, font.width(m.label, TICK))
    end
  end
  if #rows == 0 or p.legend == false then return {} end
  local w, h = width * WIDER + 46, #rows * 18 + 8
  local corners = {}
  for _, name in ipairs { "top right", "top left", "bottom right", "bottom left" } do
    local c = { name = name, hits = 0 }
    c.x = name:find "left" and box.x + GAP or box.x + box.w - w - GAP
    c.y = name:find "top" and box.y + GAP or box.y + box.h - h - GAP
    corners[#corners + 1] = c
  end
  local function see(x, y)
    for _, c in ipairs(corners) do
      if x > c.x - 4 and x < c.x + w + 4 and y > c.y - 4 and y < c.y + h + 4 then c.hits = c.hits + 1 end
    end
  end
  for _, item in ipairs(drawn) do
    for _, line in ipairs(item.lines or { item.points }) do
      for i = 1, #line, 2 do
        see(line[i], line[i + 1])
        if item.lines and line[i + 2] then -- long pieces have few points
          local x, y, dx, dy = line[i], line[i + 1], line[i + 2] - line[i], line[i + 3] - line[i + 1]
          local steps = min(floor((abs(dx) + abs(dy)) / 12), 100)
          for f = 1, steps do see(x + dx * f / (steps + 1), y + dy * f / (steps + 1)) end
        end
      end
    end
    if item.kind == "rect" then
      for f = 0, 8 do
        for e = 0, 8 do see(item.x + item.w * f / 8, item.y + item.h * e / 8) end
      end
    end
  end
  local best = corners[1]
  for _, c in ipairs(corners) do
    if c.name == p.legend or type(p.legend) ~= "string" and c.hits < best.hits then best = c end
  end
  if outside then best = { x = outside, y = box.y }
  elseif best.hits > HITS and type(p.legend) ~= "string" and w < box.w / 2 then return nil, w end
  local items = { { kind = "rect", x = best.x, y = best.y, w = w, h = h, fill = PAPER, stroke = GRID, alpha = 0.85 } }
  for i, m in ipairs(rows) do
    local y = best.y + 4 + (i - 0.5) * 18
    local x0, x1 = best.x + 8, best.x + 30
    if m.kind == "line" or m.kind == "rule" then
      items[#items + 1] = { kind = "path", lines = { { x0, y, x1, y } }, stroke = m.color, width = m.width or 2,
        alpha = m.alpha, dash = #m.dash > 0 and m.dash or nil }
      if m.marker then items[#items + 1] = marker_item(m, { (x0 + x1) / 2, y }, 7) end
    elseif m.kind == "scatter" then
      items[#items + 1] = marker_item(m, { (x0 + x1) / 2, y }, min(m.size or 6, 10))
    else
      items[#items + 1] = { kind = "rect", x = x0 + 4, y = y - 6, w = 14, h = 12, fill = m.color, alpha = m.alpha }
    end
    items[#items + 1] = { kind = "text", x = best.x + 37, y = y + TICK * 0.35, text = m.label, size = TICK,
      color = M.ink }
  end
  return items
end

--- The first mark that has a colour bar.
local function barred(p)
  for _, m in ipairs(p.marks) do
    if m.bar then return m end
  end
end

--- The bar at x; h high.
local function colour_bar(put, m, x, y, h)
  local data, map = {}, color.maps[m.map]
  local steps = 128
  for i = steps - 1, 0, -1 do
    local r, g, b = map(i / (steps - 1))
    local at = #data
    data[at + 1], data[at + 2], data[at + 3] = floor(r * 255 + 0.5), floor(g * 255 + 0.5), floor(b * 255 + 0.5)
  end
  put { kind = "image", x = x, y = y, w = BAR_WIDTH, h = h, columns = 1, rows = steps, data = data }
  for _, t in ipairs(m.axis.ticks) do
    local at = y + (1 - m.axis.share(t.value)) * h
    put { kind = "path", lines = { { x + BAR_WIDTH, at, x + BAR_WIDTH + 3, at } }, stroke = FRAME }
    put { kind = "text", x = x + BAR_WIDTH + 6, y = at + TICK * 0.35, text = t.text, size = TICK, color = M.soft }
  end
  if m.axis.power ~= 0 then
    put { kind = "text", x = x, y = y - 6, text = "\195\151" .. ticks.power(m.axis.power), size = TICK, color = M.soft }
  end
  if m.bar ~= "" then
    put { kind = "text", x = x + BAR_WIDTH + 12 + widest(m.axis.ticks) + TICK * 0.9, y = y + h / 2, text = m.bar,
      size = LABEL, anchor = "middle", rotate = -90, color = M.ink }
  end
end

--- Labels of x that would run into each other are turned.
local function turned(x, width)
  local names = x.names
  if not names then return false end
  local room = width / #names
  for _, name in ipairs(names) do
    if font.width(name, TICK) > room - 6 then return true end
  end
  return false
end

--- The range of values of images.
local function image_range(m)
  local all = {}
  for _, image in ipairs(m.lim and {} or m.images) do
    for _, channel in ipairs(image) do
      for _, v in ipairs(flatten(channel)) do all[#all + 1] = v end
    end
  end
  return value_range(all, m.lim)
end

--- The samples of an image mark as they are, for who shows them elsewhere: RGB, columns, rows.
function M.image(m)
  m.from, m.to = image_range(m)
  return sheet(m, "#000000")
end

--- Both axes of a panel, and its ranges of colours.
local function ranges(p)
  local x, y = range(p.xscale == "log"), range(p.yscale == "log")
  local groups = 0
  for _, m in ipairs(p.marks) do
    if m.kind == "bars" then
      groups = groups + 1
      m.group = groups
    end
    if extents[m.kind] then extents[m.kind](m, x, y) end
    if m.kind == "heat" then m.from, m.to = value_range(flatten(m.cells), m.lim)
    elseif m.kind == "scatter" and m.values then m.from, m.to = value_range(m.values, m.lim)
    elseif m.kind == "image" then m.from, m.to = image_range(m)
    end
  end
  for _, m in ipairs(p.marks) do
    if m.kind == "bars" then m.groups = groups end
  end
  return axis_of(x, p.xlim, p.xscale == "log", 0.03), axis_of(y, p.ylim, p.yscale == "log", 0.06)
end

--- What is left of a cell for the data; labels of both axes are decided.
local function layout(p, x, y, w, h)
  local ax, ay = ranges(p)
  local bar = barred(p)
  local top = (p.title and TITLE + 18 or 14)
  local box = { x = x + 60, y = y + top, w = w - 80, h = h - top - 40 }
  for _ = 1, 2 do
    label_axis(ay, min(8, max(2, box.h / 42)))
    label_axis(ax, min(8, max(2, box.w / 72)))
    ax.turned = turned(ax, box.w)
    local left = widest(ay.ticks) + 12 + (p.ylabel and LABEL + 10 or 0)
    local last = ax.ticks[#ax.ticks]
    local right = 14 + (last and last.text and not ax.turned and ax.share(last.value) > 0.9
      and font.width(last.text, TICK) / 2 - 8 or 0)
    if bar then
      bar.axis = axis_of({ lo = bar.from, hi = bar.to, tight = true }, nil, false, 0)
      label_axis(bar.axis, max(2, box.h / 42))
      right = BAR_ROOM + BAR_WIDTH + 14 + widest(bar.axis.ticks) + (bar.bar ~= "" and LABEL + 8 or 0)
    end
    local bottom = (ax.turned and widest(ax.ticks) * 0.6 + 16 or TICK + 12) + (p.xlabel and LABEL + 8 or 0) + 6
    local above = top + ((ay.power ~= 0 or bar and bar.axis.power ~= 0) and not p.title and TICK or 0)
    if ax.power ~= 0 and not p.xlabel then bottom = bottom + TICK end
    box = { x = x + left, y = y + above, w = max(w - left - max(right, 14), 10), h = max(h - above - bottom, 10) }
  end
  box.x, box.y = floor(box.x) + 0.5, floor(box.y) + 0.5
  box.w, box.h = floor(box.w), floor(box.h)
  return box, ax, ay, bar
end

local function grid_and_ticks(put, p, box, ax, ay, px, py)
  local grid = p.grid ~= false
  local drawn = { x = grid and not ax.names and not ax.whole, y = grid and not ay.names and not ay.whole }
  local function line(name, a, b, c, d)
    put { kind = "path", lines = { { a, b, c, d } }, stroke = name, width = 1 }
  end
  for _, t in ipairs(ax.ticks) do
    local at = px(t.value)
    if drawn.x and t.text then line(GRID, at, box.y, at, box.y + box.h) end
    if not ax.names then line(FRAME, at, box.y + box.h, at, box.y + box.h + (t.text and 4 or 2.5)) end
    if t.text then
      put { kind = "text", x = at + (ax.turned and 3 or 0), y = box.y + box.h + TICK + (ax.turned and 2 or 6),
        text = t.text, size = TICK, anchor = ax.turned and "end" or "middle",
        rotate = ax.turned and -36 or nil, color = M.soft }
    end
  end
  for _, t in ipairs(ay.ticks) do
    local at = py(t.value)
    if drawn.y and t.text then line(GRID, box.x, at, box.x + box.w, at) end
    if not ay.names then line(FRAME, box.x - (t.text and 4 or 2.5), at, box.x, at) end
    if t.text then
      put { kind = "text", x = box.x - 7, y = at + TICK * 0.35, text = t.text, size = TICK, anchor = "end",
        color = ay.names and M.ink or M.soft }
    end
  end
end

--- A text that stays within so many pixels: smaller, then cut. Gives the text and its size.
local function fitting(text, size, room)
  local least = size * 0.7
  local wide = font.width(text, size) * WIDER
  if wide <= room then return text, size end
  size = max(least, size * room / wide)
  local kept = {}
  for letter in text:gmatch "[%z\1-\127\192-\255][\128-\191]*" do kept[#kept + 1] = letter end
  while #kept > 1 and font.width(table.concat(kept), size) * WIDER > room do
    kept[#kept] = nil
    kept[#kept] = "\226\128\166"
  end
  return table.concat(kept), size
end

local function labels(put, p, box, x, w, bottom, left, ax, ay)
  if p.title then
    local text, size = fitting(p.title, TITLE, w)
    put { kind = "text", x = x + w / 2, y = box.title, text = text, size = size, anchor = "middle", bold = true,
      color = M.ink }
  end
  local function power(n, at, y, anchor)
    if n == 0 then return end
    put { kind = "text", x = at, y = y, text = "\195\151" .. ticks.power(n), size = TICK, color = M.soft,
      anchor = anchor }
  end
  power(ay.power, box.x, box.y - 6)
  power(ax.power, box.x + box.w, box.y + box.h + TICK * 2 + 8, "end")
  if p.xlabel then
    local text, size = fitting(p.xlabel, LABEL, box.w)
    put { kind = "text", x = box.x + box.w / 2, y = bottom - 10, text = text, size = size, anchor = "middle",
      color = M.ink }
  end
  if p.ylabel then
    local text, size = fitting(p.ylabel, LABEL, box.h)
    put { kind = "text", x = left + LABEL + 3, y = box.y + box.h / 2, text = text, size = size, anchor = "middle",
      rotate = -90, color = M.ink }
  end
end

--- A panel that is images alone: no axes.
local function bare_panel(p, put, x, y, w, h)
  local top = p.title and TITLE + 18 or 8
  if p.title then
    local text, size = fitting(p.title, TITLE, w)
    put { kind = "text", x = x + w / 2, y = y + TITLE + 6, text = text, size = size, anchor = "middle", bold = true,
      color = M.ink }
  end
  for _, m in ipairs(p.marks) do
    for _, item in ipairs(paint.image(m, { x = x + 8, y = y + top, w = w - 16, h = h - top - 8 })) do put(item) end
  end
end

local panel

--- beside: room for a legend at the right.
function panel(p, send, x, y, w, h, beside)
  local items = {}
  local function put(item) items[#items + 1] = item end
  local only_images = #p.marks > 0
  for _, m in ipairs(p.marks) do only_images = only_images and m.kind == "image" end
  if only_images then
    ranges(p)
    return bare_panel(p, send, x, y, w, h)
  end
  local box, ax, ay, bar = layout(p, x, y, w - (beside or 0), h)
  box.title = y + TITLE + 6
  local px, py = mapper(box, ax, ay)
  if p.axes ~= false then grid_and_ticks(put, p, box, ax, ay, px, py) end
  local clip = { kind = "clip", x = box.x, y = box.y - 1, w = box.w + 1, h = box.h + 2, items = {} }
  for _, m in ipairs(p.marks) do
    for _, item in ipairs(paint[m.kind](m, box, px, py)) do
      if m.kind ~= "note" then clip.items[#clip.items + 1] = item end
    end
  end
  put(clip)
  if p.axes ~= false then
    local frame = { box.x, box.y, box.x, box.y + box.h, box.x + box.w, box.y + box.h }
    put { kind = "path", lines = { frame }, stroke = FRAME, width = 1 }
  end
  if bar then colour_bar(put, bar, box.x + box.w + BAR_ROOM, box.y, box.h) end
  labels(put, p, box, box.x, box.w, y + h, x, ax, ay)
  for _, m in ipairs(p.marks) do
    for _, item in ipairs(m.kind == "note" and paint.note(m, box, px, py) or {}) do put(item) end
  end
  local legend, wanted = legend_items(p, box, clip.items, beside and x + w - beside)
  if not legend then return panel(p, send, x, y, w, h, wanted + GAP) end
  for _, item in ipairs(legend) do put(item) end
  for _, item in ipairs(items) do send(item) end
  p.box, p.ax, p.ay = box, ax, ay -- what was decided, for who asks where a point stands
end

--- Every colour of an item as its dark one.
local function darken(items)
  for _, item in ipairs(items) do
    for _, key in ipairs { "fill", "stroke", "color" } do item[key] = M.dark[item[key]] or item[key] end
    if item.items then darken(item.items) end
  end
end

--- The scene of a plot or of rows of plots.
---@param p tycho.Plot
---@return table
function M.scene(p)
  local items = { { kind = "rect", x = 0, y = 0, w = p.width, h = p.height, fill = PAPER } }
  local function put(item) items[#items + 1] = item end
  if p.rows then
    local top = 0
    if p.title then
      top = TITLE + 22
      put { kind = "text", x = p.width / 2, y = TITLE + 10, text = p.title, size = TITLE + 2, anchor = "middle",
        bold = true, color = M.ink }
    end
    -- rows and columns share what there is as their plots' own sizes are
    local heights, all, room = {}, 0, p.height - top
    for i, row in ipairs(p.rows) do
      heights[i] = 0
      for _, q in ipairs(row) do heights[i] = max(heights[i], q.height) end
      all = all + heights[i]
    end
    for i, row in ipairs(p.rows) do
      local tall, left, widths = heights[i] / all * room, 0, 0
      for _, q in ipairs(row) do widths = widths + q.width end
      for _, q in ipairs(row) do
        local wide = q.width / widths * p.width
        panel(q, put, left + 4, top, wide - 8, tall)
        left = left + wide
      end
      top = top + tall
    end
  else
    panel(p, put, 0, 0, p.width, p.height)
  end
  if p.theme == "dark" then darken(items) end
  return { width = p.width, height = p.height, title = p.title, items = items, auto = p.theme == "auto" }
end

return M
