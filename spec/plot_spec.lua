--- plot_spec.lua -- pictures of numbers: points stand where arithmetic puts them, files are what their formats say, ticks
-- are round numbers at equal distances.

local H = require "spec.helper"
local ty = H.ty
local ticks = require "tycho.plot.ticks"
local color = require "tycho.plot.color"
local png = require "tycho.plot.png"
local axes = require "tycho.plot.axes"
local font = require "tycho.plot.font"

local r = H.random(41)

-- A strict reader of XML without namespaces: a tree of {tag, attributes, children, text} or nil and why -----------------

local function parse_xml(s)
  if s:find "[%z\1-\8\11\12\14-\31]" then return nil, "a control character" end
  local at, stack = 1, { { children = {} } }
  local function text_fine(t)
    if t:find "[<>]" then return false end
    for entity in t:gmatch "&([^;]*);?" do
      if not ({ amp = 1, lt = 1, gt = 1, quot = 1 })[entity] then return false end
    end
    return true
  end
  while at <= #s do
    local open = s:find("<", at, true)
    local text = s:sub(at, (open or #s + 1) - 1)
    local top = stack[#stack]
    if top.tag ~= "style" and not text_fine(text) then return nil, "bad text " .. text end
    top.text = (top.text or "") .. text
    if not open then break end
    local from, to, slash, tag, rest, ends = s:find("^<(/?)([%a][%w]*)([^<>]-)(/?)>", open)
    if not from then return nil, "bad tag at " .. s:sub(open, open + 40) end
    if slash == "/" then
      if top.tag ~= tag or rest ~= "" then return nil, "end of " .. tag .. " in " .. tostring(top.tag) end
      stack[#stack] = nil
    else
      local node, left = { tag = tag, attributes = {}, children = {} }, rest
      while left ~= "" do
        local whole, name, value = left:match '^(%s+([%a][%w%-:]*)="([^"<]*)")'
        if not whole then return nil, "bad attribute " .. left end
        if node.attributes[name] then return nil, "attribute twice: " .. name end
        if not text_fine(value) then return nil, "bad value " .. value end
        node.attributes[name] = value
        left = left:sub(#whole + 1)
      end
      top.children[#top.children + 1] = node
      if ends ~= "/" then stack[#stack + 1] = node end
    end
    at = to + 1
  end
  if #stack ~= 1 then return nil, "not closed: " .. stack[#stack].tag end
  if #stack[1].children ~= 1 then return nil, "not one root" end
  return stack[1].children[1]
end

local function find_all(node, tag, list)
  list = list or {}
  for _, child in ipairs(node.children) do
    if child.tag == tag then list[#list + 1] = child end
    find_all(child, tag, list)
  end
  return list
end

local function svg_of(p)
  local tree, why = parse_xml(p:svg())
  assert.truthy(tree, why)
  assert.equal("svg", tree.tag)
  return tree
end

-- A reader of PNG, by the letter of RFC 1951 and the PNG specification -----------------------------------------------

local function inflate(s)
  local at, bit = 1, 0
  local function bits(n)
    local v = 0
    for i = 0, n - 1 do
      local b = s:byte(at) or error "it ends early"
      v = v + math.floor(b / 2 ^ bit) % 2 * 2 ^ i
      bit = bit + 1
      if bit == 8 then at, bit = at + 1, 0 end
    end
    return v
  end
  assert.equal(0, (s:byte(1) * 256 + s:byte(2)) % 31)
  assert.equal(8, s:byte(1) % 16)
  at = 3
  assert.equal(1, bits(1)) -- the last block
  assert.equal(1, bits(2)) -- fixed code
  local function symbol() -- highest bit first: 7 bits of 256.., 8, then 9
    local v = 0
    for _ = 1, 7 do v = v * 2 + bits(1) end
    if v <= 23 then return 256 + v end
    v = v * 2 + bits(1)
    if v >= 48 and v <= 191 then return v - 48 end
    if v >= 192 and v <= 199 then return 280 + v - 192 end
    v = v * 2 + bits(1)
    return 144 + v - 400
  end
  local base = { [0] = 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163,
    195, 227, 258 }
  local out = {}
  while true do
    local v = symbol()
    if v == 256 then break end
    if v < 256 then out[#out + 1] = string.char(v)
    else
      local extra = v < 265 and 0 or v == 285 and 0 or math.floor((v - 261) / 4)
      local length = base[v - 257] + bits(extra)
      local distance = 0
      for _ = 1, 5 do distance = distance * 2 + bits(1) end
      if distance >= 4 then
        local more = math.floor(distance / 2) - 1
        distance = (2 + distance % 2) * 2 ^ more + bits(more)
      end
      for _ = 1, length do out[#out + 1] = out[#out - distance] end
    end
  end
  if bit > 0 then at = at + 1 end
  local y = table.concat(out)
  local a, b = 1, 0
  for i = 1, #y do
    a = (a + y:byte(i)) % 65521
    b = (b + a) % 65521
  end
  local p, q, u, w = s:byte(at, at + 3)
  assert.equal(b, p * 256 + q)
  assert.equal(a, u * 256 + w)
  return y
end

local function be32(s, at)
  local a, b, c, d = s:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

--- A checksum bit by bit: no table.
local function slow_crc(s)
  local c = 0xffffffff
  for i = 1, #s do
    c = bit.bxor(c, s:byte(i))
    for _ = 1, 8 do c = bit.bxor(bit.rshift(c, 1), bit.band(c, 1) == 1 and 0xedb88320 or 0) end
  end
  return bit.bnot(c) % 2 ^ 32
end

--- Width, height, channels and the samples of each row as strings.
local function read_png(s)
  assert.equal("\137PNG\r\n\26\n", s:sub(1, 8))
  local at, seen, data, head = 9, {}, "", nil
  while at <= #s do
    local n, kind = be32(s, at), s:sub(at + 4, at + 7)
    local body = s:sub(at + 8, at + 7 + n)
    assert.equal(slow_crc(kind .. body), be32(s, at + 8 + n), kind)
    seen[#seen + 1] = kind
    if kind == "IHDR" then head = body end
    if kind == "IDAT" then data = data .. body end
    at = at + 12 + n
  end
  assert.same({ "IHDR", "IDAT", "IEND" }, seen)
  local width, height, channels = be32(head, 1), be32(head, 5), ({ [0] = 1, [2] = 3, [6] = 4 })[head:byte(10)]
  assert.equal(8, head:byte(9))
  assert.equal("\0\0\0", head:sub(11, 13))
  local raw, stride, rows, above = inflate(data), width * channels, {}, {}
  assert.equal(height * (stride + 1), #raw)
  for y = 1, height do
    local from = (y - 1) * (stride + 1) + 1
    assert.equal(2, raw:byte(from)) -- "up"
    local row = {}
    for k = 1, stride do row[k] = (raw:byte(from + k) + (above[k] or 0)) % 256 end
    rows[y], above = row, row
  end
  return width, height, channels, rows
end

describe("PNG", function()
  it("is written so that a reader by the specification gets the samples back", function()
    for _, shape in ipairs { { 1, 1, 1 }, { 3, 2, 3 }, { 17, 5, 4 }, { 300, 7, 3 }, { 1500, 3, 3 } } do
      local w, h, c = unpack(shape)
      local samples = {}
      for i = 0, w * h * c - 1 do samples[i] = r.unit() < 0.6 and i % 3 == 0 and 255 or r.whole(0, 255) end
      if w == 300 then -- long runs of every length
        for i = 0, w * h * c - 1 do samples[i] = math.floor(i / 263) % 2 * 255 end
      end
      local width, height, channels, rows = read_png(png.encode(w, h, c, function(i) return samples[i] end))
      assert.same(shape, { width, height, channels })
      for y = 1, h do
        for k = 1, w * c do
          if rows[y][k] ~= samples[(y - 1) * w * c + k - 1] then
            assert.equal(samples[(y - 1) * w * c + k - 1], rows[y][k], ("%d %d"):format(y, k))
          end
        end
      end
    end
  end)

  it("packs runs of every length, and what comes again from any distance", function()
    for n = 0, 600 do
      local s = ("a"):rep(n) .. "b"
      assert.equal(s, inflate(png.deflate(s)))
    end
    local noise = {}
    for i = 1, 40000 do noise[i] = string.char(r.whole(0, 255)) end
    noise = table.concat(noise)
    for _, distance in ipairs { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 4096, 4097, 24577, 32767, 32768, 32769, 40000 } do
      local s = noise:sub(1, distance) .. noise:sub(1, math.min(distance, 300)) .. "end"
      assert.truthy(inflate(png.deflate(s)) == s, distance)
    end
    for _ = 1, 200 do -- few letters: many matches
      local letters = {}
      for i = 1, r.whole(1, 400) do letters[i] = ("abcd"):sub(r.whole(1, 2), r.whole(2, 4)) end
      local s = table.concat(letters)
      assert.equal(s, inflate(png.deflate(s)))
    end
  end)
end)

-- Ticks --------------------------------------------------------------------------------------------------------------

describe("ticks", function()
  it("are round numbers at equal distances inside the range, about as many as asked for", function()
    for _ = 1, 3000 do
      local size = 10 ^ r.range(-8, 8)
      local lo = (r.unit() < 0.3 and 0 or r.range(-1, 1)) * 10 ^ r.range(-8, 8)
      local hi = lo + size
      local wanted = r.whole(3, 9)
      if hi > lo and size > 1e-7 * math.abs(lo) then
        local first, step, n = ticks.linear(lo, hi, wanted)
        local mantissa = step / 10 ^ math.floor(math.log10(step) + 1e-9)
        local round = false
        for j = 1, 40 do
          for _, q in ipairs { 1, 5, 2, 2.5, 4, 3 } do
            local m = j * q
            while m >= 10 * (1 - 1e-9) do m = m / 10 end
            round = round or math.abs(m - mantissa) < 1e-6 or math.abs(m - mantissa / 10) < 1e-6
          end
        end
        assert.truthy(round, ("%g in %g..%g"):format(step, lo, hi))
        assert.truthy(n >= 2 and n <= 2 * wanted + 2, ("%d of %d"):format(n, wanted))
        -- the labels span most of the range and do not go far beyond
        local last = first + step * (n - 1)
        assert.truthy(last - first > 0.4 * size and last - first < 1.5 * size, ("%g..%g in %g..%g"):format(first, last, lo, hi))
        local list, power = ticks.on_line(lo, hi, wanted)
        local before
        for _, t in ipairs(list) do
          assert.truthy(t.value >= lo - 1e-6 * size and t.value <= hi + 1e-6 * size)
          local said = tonumber((t.text:gsub("\226\136\146", "-"))) * 10 ^ power
          assert.truthy(math.abs(said - t.value) <= 1e-6 * math.max(math.abs(t.value), step), t.text)
          assert.truthy(t.text ~= before, t.text) -- no two labels say the same
          before = t.text
        end
      end
    end
  end)

  it("of known ranges are what one expects", function()
    local function texts(lo, hi, n)
      local y = {}
      for i, t in ipairs((ticks.on_line(lo, hi, n))) do y[i] = t.text end
      return table.concat(y, " ")
    end
    assert.equal("0.0 0.2 0.4 0.6 0.8 1.0", texts(0, 1, 6))
    assert.equal("0 20 40 60 80 100", texts(0, 100, 6))
    assert.equal("\226\136\1462 0 2 4 6 8", texts(-3.2, 8.1, 6))
    assert.equal("1000000000.10 1000000000.15 1000000000.20 1000000000.25", texts(1e9 + 0.1, 1e9 + 0.3, 5))
  end)

  it("differ, however little their values do", function()
    for _, at in ipairs { 1e-12, 1e-5, 0.1, 1, 1e5, 1e9, 1e15, 1e20, 1e300 } do
      for _, share in ipairs { 1e-3, 1e-6, 1e-9, 1e-11 } do
        local seen = {}
        for _, t in ipairs((ticks.on_line(at, at * (1 + share), 5))) do
          assert.is_nil(seen[t.text], t.text)
          seen[t.text] = true
        end
      end
    end
  end)

  it("of a logarithmic axis are powers of ten", function()
    for _ = 1, 500 do
      local lo = 10 ^ r.range(-12, 6)
      local hi = lo * 10 ^ r.range(1.2, 14)
      local said = 0
      for _, t in ipairs(ticks.on_log(lo, hi, 6)) do
        assert.truthy(t.value >= lo * 0.999 and t.value <= hi * 1.001)
        local mantissa = t.value / 10 ^ math.floor(math.log10(t.value) + 1e-9)
        assert.near(mantissa, math.floor(mantissa + 0.5), 1e-9)
        if t.text then said = said + 1 end
      end
      assert.truthy(said >= 1 and said <= 16, said)
    end
  end)
end)

-- Where points stand -------------------------------------------------------------------------------------------------

--- The numbers of a path's data.
local function points_of(data)
  local list = {}
  for x, y in data:gmatch "[ML](%-?[%d.]+) (%-?[%d.]+)" do list[#list + 1] = { tonumber(x), tonumber(y) } end
  return list
end

--- Which value a label stands for, and where: from the SVG alone.
local function labels_of(tree, horizontal)
  local list = {}
  for _, t in ipairs(find_all(tree, "text")) do
    local v = tonumber((t.text:gsub("\226\136\146", "-")))
    local end_anchor = t.attributes["text-anchor"] == "end"
    if v and end_anchor ~= horizontal then
      list[#list + 1] = { v, tonumber(t.attributes[horizontal and "x" or "y"]) }
    end
  end
  return list
end

--- A line through two labels: value to pixel.
local function scale_of(labels, log)
  local f = log and math.log or function(v) return v end
  local a, b = labels[1], labels[#labels]
  return function(v) return a[2] + (f(v) - f(a[1])) / (f(b[1]) - f(a[1])) * (b[2] - a[2]) end
end

describe("a plot", function()
  it("puts points where the labels of its axes say", function()
    local xs, ys = { 0, 1, 2.5, 7, 9 }, { -3, 4, 1, 12, 0.5 }
    local tree = svg_of(ty.plot{}:line(xs, ys, { color = "#123456" }))
    local px, py = scale_of(labels_of(tree, true)), scale_of(labels_of(tree, false))
    local found
    for _, path in ipairs(find_all(tree, "path")) do
      if path.attributes.stroke == "#123456" then found = points_of(path.attributes.d) end
    end
    assert.equal(5, #found)
    for i, p in ipairs(found) do
      assert.near(px(xs[i]), p[1], 0.1)
      assert.near(py(ys[i]) - 11.5 * 0.35, p[2], 0.1) -- labels stand lower by a third of a letter
    end
  end)

  it("puts points on logarithmic axes where the labels say", function()
    local xs, ys = { 0.01, 1, 30, 900 }, { 5, 50, 2, 700 }
    local tree = svg_of(ty.plot{ xscale = "log", yscale = "log" }:scatter(xs, ys, { color = "#123456" }))
    local px, py = scale_of(labels_of(tree, true), true), scale_of(labels_of(tree, false), true)
    local circles = find_all(tree, "circle")
    assert.equal(4, #circles)
    for i, c in ipairs(circles) do
      assert.near(px(xs[i]), tonumber(c.attributes.cx), 0.1)
      assert.near(py(ys[i]) - 11.5 * 0.35, tonumber(c.attributes.cy), 0.1)
    end
  end)

  it("begins and ends its axes where the limits are", function()
    for _, scale in ipairs { "linear", "log" } do
      local p = ty.plot { ylim = { 2, 200 }, xlim = { 2, 200 }, xscale = scale, yscale = scale }:line { 1, 100 }
      local tree = svg_of(p)
      local frame
      for _, path in ipairs(find_all(tree, "path")) do
        local points = points_of(path.attributes.d)
        if #points == 3 and points[1][1] == points[2][1] and points[2][2] == points[3][2] then frame = points end
      end
      local log = scale == "log"
      local px, py = scale_of(labels_of(tree, true), log), scale_of(labels_of(tree, false), log)
      assert.near(frame[2][1], px(2), 0.1)
      assert.near(frame[3][1], px(200), 0.1)
      assert.near(frame[2][2], py(2) - 11.5 * 0.35, 0.1)
      assert.near(frame[1][2], py(200) - 11.5 * 0.35, 0.1)
    end
  end)

  it("leaves gaps at NaN, at infinity, and at 0 on a log axis", function()
    local ys = { 1, 2, 0 / 0, 3, 4, 1 / 0, 5, 6 }
    local function pieces(p)
      local n = 0
      for _, path in ipairs(find_all(svg_of(p), "path")) do
        if path.attributes.stroke == "#123456" then
          for _ in path.attributes.d:gmatch "M" do n = n + 1 end
        end
      end
      return n
    end
    assert.equal(3, pieces(ty.plot{}:line(ys, { color = "#123456" })))
    assert.equal(2, pieces(ty.plot{ yscale = "log" }:line({ 1, 2, 0, 3, 4 }, { color = "#123456" })))
  end)

  it("shows a point without neighbours as a dot", function()
    for ys, dots in pairs { [{ 3 }] = 1, [{ 1, 2, 0 / 0, 3, 0 / 0, 4 }] = 2, [{ 1, 2 }] = 0 } do
      assert.equal(dots, #find_all(svg_of(ty.plot{}:line(ys, { color = "#123456" })), "circle"))
    end
  end)

  it("cuts texts that are longer than it is wide", function()
    local long = ("größer "):rep(50)
    for _, e in ipairs(find_all(svg_of(ty.plot { title = long, xlabel = long, ylabel = long }:line { 1, 2 }), "text")) do
      assert.truthy(#e.text < #long)
    end
  end)

  it("draws the largest numbers, the smallest, and those that hardly differ", function()
    for _, values in ipairs { { 1e308, -1e308 }, { 1e300, -1e300 }, { 1e17, 1e17 + 16 }, { 5e-324, 0 }, { 1e-200, 3e-200 },
      { 1, 1 + 2 ^ -52 }, { -1e300, -1e300 } } do
      for _, scale in ipairs { "linear", "log" } do
        local p = ty.plot { yscale = scale }:line(values):hist(values)
        assert.truthy(parse_xml(p:svg()))
        assert.is_nil(p:svg():find "nan" or p:svg():find "inf")
      end
      assert.truthy(parse_xml(ty.plot():heat({ values }):svg()))
      assert.truthy(parse_xml(ty.plot { xlim = { 1e17, 1e17 + 16 } }:scatter(values, values, { values = values }):svg()))
    end
    for _, values in ipairs { { 1e-320, 1e300 }, { 1, 1 + 2 ^ -52 } } do
      assert.truthy(parse_xml(ty.plot { yscale = "log" }:line(values):svg()))
    end
    assert.truthy(parse_xml(ty.plot { yscale = "log", ylim = { 1e-300, 1e300 } }:line({ 1, 2 }):svg()))
    assert.truthy(parse_xml(ty.plot { yscale = "log", ylim = { 1, 1 + 2 ^ -52 } }:line({ 1, 2 }):svg()))
  end)

  it("of long curves keeps the extremes of each column of pixels", function()
    local n = 100000
    local ys = {}
    for i = 1, n do ys[i] = math.sin(i / 50) end
    ys[54321] = 9
    local tree = svg_of(ty.plot{}:line(ys, { color = "#123456" }))
    local most, count = math.huge, 0
    for _, path in ipairs(find_all(tree, "path")) do
      if path.attributes.stroke == "#123456" then
        for _, p in ipairs(points_of(path.attributes.d)) do most, count = math.min(most, p[2]), count + 1 end
      end
    end
    assert.truthy(count > 640 and count < 4 * 640, count)
    assert.near(scale_of(labels_of(tree, false))(9) - 11.5 * 0.35, most, 0.1)
    assert.near(scale_of(labels_of(tree, false))(9) - 11.5 * 0.35, most, 0.2)
  end)

  it("counts values into bins as counting by hand does", function()
    local values = {}
    for i = 1, 1000 do values[i] = r.range(-2, 3) end
    values[7] = 0 / 0
    local edges, counts = axes.bins(values, { bins = 13 })
    assert.equal(14, #edges)
    for k = 1, 13 do
      local n = 0
      for _, v in ipairs(values) do
        if v >= edges[k] and (v < edges[k + 1] or k == 13 and v <= edges[14]) then n = n + 1 end
      end
      assert.near(n, counts[k], 1) -- a value right on an edge may fall to either side
    end
    local _, density = axes.bins(values, { bins = 13, density = true })
    local sum = 0
    for k = 1, 13 do sum = sum + density[k] * (edges[k + 1] - edges[k]) end
    assert.near(1, sum, 1e-9)
  end)

  it("takes tensors of any dtype and plain tables alike", function()
    local want = ty.plot{}:line({ 1, 2, 3 }, { 4, 5, 7 }):svg()
    assert.equal(want, ty.plot{}:line(ty.tensor { 1, 2, 3 }, ty.tensor({ 4, 5, 7 }, { dtype = "i32" })):svg())
    assert.equal(want, ty.plot{}:line({ 4, 5, 7 }):svg())
  end)

  it("is well-formed whatever its texts are", function()
    local nasty = "a < b & \"c\" > 'd' \1\27 \195\169 </text>"
    local p = ty.plot{ title = nasty, xlabel = nasty, ylabel = nasty, theme = "auto" }
    p:line({ 1, 2 }, { label = nasty }):note(1, 1, nasty):bars({ nasty, "x" }, { 1, 2 }, { label = nasty })
    svg_of(p)
    svg_of(ty.plot{ { p, p }, { p }, title = nasty })
    assert.truthy(#p:png() > 100)
  end)

  it("draws every kind of mark, and nothing, in both formats", function()
    local m = ty.randn(5, 7)
    for name, p in pairs {
      nothing = ty.plot(), empty = ty.plot{}:line({}, {}), lonely = ty.plot{}:line { 3 },
      same = ty.plot{}:line { 2, 2, 2 }, nan = ty.plot{}:scatter { 0 / 0 },
      band = ty.plot{}:band({ 1, 2, 3 }, { 0, 0, 0 / 0 }, { 1, 2, 3 }),
      scatter = ty.plot{}:scatter({ 1, 2, 3 }, { 3, 1, 2 }, { values = { 1, 0 / 0, 3 }, marker = "diamond" }),
      hist = ty.plot{}:hist(ty.randn(4, 50)), hist_none = ty.plot{}:hist {}, hist_log = ty.plot{ yscale = "log" }:hist { 1, 2, 2 },
      bars = ty.plot{}:bars({ "a", "b" }, { 1, -2 }), across = ty.plot{}:bars({ "a", "b" }, { 1, 2 }, { horizontal = true }),
      many = ty.plot{}:bars({ ("name"):rep(9), ("other"):rep(9), "c", "d" }, { 1, 2, 3, 4 }),
      heat = ty.plot{}:heat(m, { label = "value" }), heat_range = ty.plot{}:heat(m, { x = { 0, 1 }, y = { -1, 1 } }),
      rules = ty.plot{}:hline(1):vline(2), image = ty.plot{}:image(ty.rand(3, 4, 4)),
      sheet = ty.plot{}:image(ty.rand(7, 1, 4, 4)), tiny = ty.plot{ width = 60, height = 50 }:line { 1, 2 },
    } do
      assert.truthy(parse_xml(p:svg()), name)
      local width, height = read_png(p:png(0.25))
      assert.same({ p.width / 4, math.ceil(p.height / 4) }, { width, height }, name)
    end
  end)
end)

-- Pixels -------------------------------------------------------------------------------------------------------------

describe("a picture in PNG", function()
  it("has the colour of a bar inside of it, paper outside, and a mixture at no pixel of its inside", function()
    local p = ty.plot{ xlim = { 0, 3 }, ylim = { 0, 4 }, grid = false }:bars({ "a", "b" }, { 3, 1 }, { color = "#ff0000" })
    local _, _, _, rows = read_png(p:png(1))
    local box = p.box
    local function at(x, y) -- in shares of the box
      local column, row = math.floor(box.x + x * box.w), math.floor(box.y + (1 - y) * box.h)
      local i = column * 3
      return { rows[row + 1][i + 1], rows[row + 1][i + 2], rows[row + 1][i + 3] }
    end
    assert.same({ 255, 0, 0 }, at(1 / 3, 0.5))
    assert.same({ 255, 255, 255 }, at(1 / 3, 0.9))
    assert.same({ 255, 0, 0 }, at(2 / 3, 0.1))
    assert.same({ 255, 255, 255 }, at(2 / 3, 0.5))
  end)

  it("covers as much as the shapes' areas", function()
    local raster = require "tycho.plot.raster"
    local function ink(items)
      local w, h, sample = raster.draw({ width = 60, height = 50, items = items }, 1)
      local sum = 0
      for i = 0, w * h * 3 - 1, 3 do sum = sum + (255 - sample(i)) / 255 end
      return sum
    end
    -- a triangle, a disc, a line with round caps, a turned square: areas by school formulas
    assert.near(0.5 * 30 * 20, ink { { kind = "path", lines = { { 10, 10, 40, 10, 10, 30 } }, fill = "#000000" } }, 2)
    assert.near(math.pi * 100, ink { { kind = "marks", points = { 30.3, 25.1 }, size = 20, fill = "#000000" } }, 3)
    local length = math.sqrt(30 ^ 2 + 17 ^ 2)
    assert.near(length * 4 + math.pi * 4, ink { { kind = "path", lines = { { 10, 12, 40, 29 } }, stroke = "#000000", width = 4 } }, 2)
    assert.near(200, ink { { kind = "path", lines = { { 30, 15, 40, 25, 30, 35, 20, 25 } }, fill = "#000000" } }, 2)
    -- in two hundred pieces it is the same line
    local pieces = {}
    for i = 0, 200 do pieces[2 * i + 1], pieces[2 * i + 2] = 10 + 30 * i / 200, 12 + 17 * i / 200 end
    assert.near(length * 4 + math.pi * 4, ink { { kind = "path", lines = { pieces }, stroke = "#000000", width = 4 } }, 2)
    -- crossing itself makes no line darker; half as opaque is half as dark
    local cross = { kind = "path", lines = { { 5, 5, 55, 45 }, { 5, 45, 55, 5 } }, stroke = "#000000", width = 3 }
    local full = ink { cross }
    cross.alpha = 0.5
    assert.near(full / 2, ink { cross }, 2)
  end)

  it("shows heat maps and images sample by sample", function()
    local p = ty.plot{}:image({ { 0, 1 }, { 1, 0 } })
    local _, _, _, rows = read_png(p:png(1))
    local function grey(x, y) return rows[y][x * 3 + 1] end
    assert.same({ 0, 255, 255, 0 }, { grey(220, 100), grey(420, 100), grey(220, 320), grey(420, 320) })
  end)

  it("draws text: as wide as the layout thinks", function()
    local strokes = font.strokes("Loss 10\194\178", 20)
    local most = 0
    for _, line in ipairs(strokes) do
      for i = 1, #line, 2 do most = math.max(most, line[i]) end
    end
    assert.truthy(most > 40 and most <= font.width("Loss 10\194\178", 20))
    for code = 32, 126 do -- every letter is known
      local c = string.char(code)
      assert.truthy(font.width(c, 20) ~= 12 or c == "~", c)
      assert.truthy(c == " " or #font.strokes(c, 20) > 0, c)
    end
    local unknown = font.strokes("中", 20)
    for c in ("ÄÖÜäöüßéèçñåøŽčłαβγδεθλμρσφψωΔΣΩ→∞≤≥≈∇∂√€₀"):gmatch "[\192-\255][\128-\191]+" do
      assert.not_same(unknown, font.strokes(c, 20), c)
    end
    assert.truthy(#font.strokes("ö", 20) == 1 + 2 and font.width("ö", 20) == font.width("o", 20))
  end)
end)

describe("colours", function()
  it("of viridis are those of its makers, to a hundredth or two", function()
    for t, want in pairs { [0] = "#440154", [0.25] = "#3b528b", [0.5] = "#21918c", [0.75] = "#5ec962", [1] = "#fde725" } do
      local a, b = { color.rgb(want) }, { color.maps.viridis(t) }
      for k = 1, 3 do assert.near(a[k], b[k], 0.02) end
    end
  end)

  it("from red to blue are those that it is made of, and halfway between them", function()
    local stops = { "#b2182b", "#ef8a62", "#fddbc7", "#f7f7f7", "#d1e5f0", "#67a9cf", "#2166ac" }
    for i, hex in ipairs(stops) do
      local a, b = { color.rgb(hex) }, { color.maps.redblue((i - 1) / 6) }
      local c, d = { color.rgb(stops[i + 1] or hex) }, { color.maps.redblue(math.min((i - 0.5) / 6, 1)) }
      for k = 1, 3 do
        assert.near(a[k], b[k], 1e-12)
        assert.near((a[k] + c[k]) / 2, d[k], 1e-12)
      end
    end
  end)

  it("of the dark theme are dark ones, of the same picture", function()
    local function picture(theme)
      return ty.plot { theme = theme, title = "t", legend = true }:line({ 1, 3, 2 }, { label = "a" }):scatter({ 1, 2 }, { 2, 3 }):svg()
    end
    local light, seen = picture "light", {}
    local dark = light:gsub("#%x%x%x%x%x%x", function(hex)
      seen[hex] = true
      return axes.dark[hex]
    end)
    assert.equal(dark, picture "dark")
    assert.truthy(seen["#ffffff"] and seen[axes.ink] and seen["#1f6feb"])
  end)

  it("are read from names, short and long forms", function()
    assert.equal("#aabbcc", color.parse "#abc")
    assert.equal("#1f6feb", color.parse "blue")
    assert.equal("#ff8000", color.parse { 1, 0.5, 0 })
    assert.is_nil(color.parse "bluish")
    assert.is_nil(color.parse { 1, 2, 3 })
  end)
end)

describe("wrong use of ty.plot", function()
  it("raises at the user's line and says what is wrong", function()
    for want, fn in pairs {
      ["plot: unknown option titel, did you mean title?"] = function() ty.plot { titel = "a" } end,
      ["line: x and y differ in length, 2 and 3"] = function() ty.plot():line({ 1, 2 }, { 1, 2, 3 }) end,
      ["line: argument 1 (y): element 2 is string \"a\""] = function() ty.plot():line { 1, "a" } end,
      ["line: argument 1 (y) must have one dim, got f32[2,2]"] = function() ty.plot():line(ty.zeros(2, 2)) end,
      ["line: option color must be a name"] = function() ty.plot():line({ 1 }, { color = "bluish" }) end,
      ["plot: option yscale must be one of linear log, got string \"logg\""] = function() ty.plot { yscale = "logg" } end,
      ["plot: option xlim must be {low, high}"] = function() ty.plot { xlim = { 2, 1 } } end,
      ["heat: argument 1 must have 2 dims, got f32[3]"] = function() ty.plot():heat(ty.zeros(3)) end,
      ["image: argument 1 must have 1 or 3 channels"] = function() ty.plot():image(ty.zeros(2, 2, 4, 4)) end,
      ["save: the path must end in .svg or .png, got \"a.gif\""] = function() ty.plot():save "a.gif" end,
      ["hist: option bins must be a whole number"] = function() ty.plot():hist({ 1 }, { bins = 0 }) end,
      ["plot: row 1: element 1 must be a plot, got number 3"] = function() ty.plot { { 3 } } end,
      ["plot: row 1 must be a list of plots, got number 3 (values are drawn by ty.plot{}:line(values))"] = function()
        ty.plot { 3, 4 }
      end,
      ["got tensor f32[2] (values are drawn by"] = function() ty.plot(ty.ones(2)) end,
      ["plot: option ylim must be {low, high}"] = function() ty.plot { ylim = { -1e308, 1e308 } } end,
      ["plot: there is no method points; there are band bars heat hist "] = function() ty.plot():points { 1 } end,
      ["image: argument 1 is too large to draw"] = function() ty.plot():image(ty.zeros(1):expand(2 ^ 13, 2 ^ 12)) end,
    } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.truthy(message:find(want, 1, true), message)
      assert.truthy(message:find "plot_spec.lua:%d+: ", message)
    end
  end)

  it("gives nil and why where a file cannot be written", function()
    local y, why = ty.plot():line({ 1, 2 }):save "/nowhere/a.svg"
    assert.is_nil(y)
    assert.truthy(why:find("^/nowhere/a.svg: "), why) -- as ty.save has it
  end)

  it("draws the same without ffi, but for the rounding of shares of pixels", function()
    local code = [[ty.plot { width = 80, height = 60, title = "t" }:line({ 1, 3, 2 }, { alpha = 0.5 }):save(...)]]
    local path = os.tmpname()
    local out, status = H.script("package.preload.ffi = function() error 'none' end package.loaded.ffi = nil "
      .. "local ty = require 'tycho' assert(" .. code .. ")", nil, path .. ".1.png")
    assert.equal(0, status, out)
    assert(assert(loadstring("local ty = require 'tycho' return " .. code))(path .. ".2.png"))
    local a, b = ty.image.load(path .. ".1.png"):to "f32", ty.image.load(path .. ".2.png"):to "f32"
    assert.truthy((a - b):abs():max():item() <= 1 and (a - b):abs():mean():item() < 0.001)
    assert.truthy(a:std():item() > 10)
    for _, ending in ipairs { "", ".1.png", ".2.png" } do os.remove(path .. ending) end
  end)

  it("writes what it gives as text", function()
    local p, path = ty.plot{}:line { 1, 3, 2 }, os.tmpname()
    assert.is_true(p:save(path .. ".svg")) -- as all that save
    local f = assert(io.open(path .. ".svg", "rb"))
    assert.equal(p:svg(), f:read "*a")
    f:close()
    os.remove(path .. ".svg")
    os.remove(path)
  end)
end)
