--- svg.lua -- a scene as SVG.
-- In: a scene. Out: text: one file that needs nothing else; images in it are PNG. Cannot fail.

local png = require "tycho.plot.png"

local M = {}

local concat = table.concat

--- What XML takes for markup, and what it does not take at all.
local function escape(text)
  return (text:gsub("[%z\1-\8\11\12\14-\31\127]", ""):gsub("[&<>\"]",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local PLACES = { 262144, 4096, 64, 1 }

--- The letters that SVG and terminals take for bytes.
function M.base64(s)
  local out = {}
  for i = 1, #s, 3 do
    local a, b, c = s:byte(i, i + 2)
    local v = a * 65536 + (b or 0) * 256 + (c or 0)
    for k = 1, 4 do
      local d = math.floor(v / PLACES[k]) % 64 + 1
      out[#out + 1] = (k == 3 and not b or k == 4 and not c) and "=" or DIGITS:sub(d, d)
    end
  end
  return concat(out)
end

--- A length: hundredths are enough.
local function n(v)
  local text = ("%.2f"):format(v):gsub("0+$", ""):gsub("%.$", "")
  return text == "-0" and "0" or text
end

--- The points of lines as path data.
local function path_data(item)
  local out = {}
  for _, line in ipairs(item.lines) do
    for i = 1, #line, 2 do out[#out + 1] = (i == 1 and "M" or "L") .. n(line[i]) .. " " .. n(line[i + 1]) end
    if #line == 2 then out[#out + 1] = "h0" end -- a dot, by its round caps
    if item.closed or item.fill then out[#out + 1] = "Z" end
  end
  return concat(out)
end

local write = {}

local function style(item)
  local out = (' fill="%s"'):format(item.fill or "none")
  if item.stroke then
    out = out .. (' stroke="%s" stroke-width="%s"'):format(item.stroke, n(item.width or 1))
    if item.kind == "path" then out = out .. ' stroke-linejoin="round" stroke-linecap="round"' end
  end
  if item.dash then
    local parts = {}
    for i, v in ipairs(item.dash) do parts[i] = n(v) end
    out = out .. (' stroke-dasharray="%s"'):format(concat(parts, " "))
  end
  if item.alpha and item.alpha < 1 then out = out .. (' opacity="%s"'):format(n(item.alpha)) end
  return out
end

function write.rect(put, item)
  put('<rect x="%s" y="%s" width="%s" height="%s"%s/>', n(item.x), n(item.y), n(item.w), n(item.h), style(item))
end

function write.path(put, item) put('<path d="%s"%s/>', path_data(item), style(item)) end

function write.marks(put, item)
  local alpha = item.alpha and item.alpha < 1 and (' opacity="%s"'):format(n(item.alpha)) or ""
  for i = 1, #item.points, 2 do
    local x, y = item.points[i], item.points[i + 1]
    local fill = item.fills and item.fills[(i + 1) / 2] or item.fill
    if item.outline then
      local line = {}
      for k = 1, #item.outline, 2 do line[k], line[k + 1] = x + item.outline[k], y + item.outline[k + 1] end
      local data = path_data { lines = { line }, closed = true }
      put('<path d="%s" %s%s/>', data, item.open and ('fill="none" stroke="%s" stroke-width="1.6"'):format(fill)
        or ('fill="%s"'):format(fill), alpha)
    else
      put('<circle cx="%s" cy="%s" r="%s" fill="%s"%s/>', n(x), n(y), n(item.size / 2), fill, alpha)
    end
  end
end

function write.text(put, item)
  local anchor = item.anchor and item.anchor ~= "start" and (' text-anchor="%s"'):format(item.anchor) or ""
  local turn = item.rotate and (' transform="rotate(%s %s %s)"'):format(n(item.rotate), n(item.x), n(item.y)) or ""
  put('<text x="%s" y="%s" font-size="%s" fill="%s"%s%s%s>%s</text>', n(item.x), n(item.y), n(item.size), item.color,
    anchor, item.bold and ' font-weight="600"' or "", turn, escape(item.text))
end

--- Not all readers know "pixelated": samples are repeated until the image is larger than it is shown.
function write.image(put, item)
  local data, columns = item.data, item.columns
  local kx = math.max(1, math.ceil(2 * item.w / columns))
  local ky = math.max(1, math.ceil(2 * item.h / item.rows))
  local wide = columns * kx
  local bytes = png.encode(wide, item.rows * ky, 3, function(i)
    local at = math.floor(i / 3)
    local row, column = math.floor(at / wide / ky), math.floor(at % wide / kx)
    return data[(row * columns + column) * 3 + i % 3 + 1]
  end)
  put('<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" style="image-rendering:pixelated" '
    .. 'href="data:image/png;base64,%s"/>', n(item.x), n(item.y), n(item.w), n(item.h), M.base64(bytes))
end

--- The text of a scene.
---@param scene table
---@return string
function M.text(scene)
  local out, clips = {}, 0
  local function put(format, ...) out[#out + 1] = format:format(...) end
  local function all(items)
    for _, item in ipairs(items) do
      if item.kind == "clip" then
        clips = clips + 1
        put('<clipPath id="c%d"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath>', clips, n(item.x), n(item.y),
          n(item.w), n(item.h))
        put('<g clip-path="url(#c%d)">', clips)
        all(item.items)
        put "</g>"
      else
        write[item.kind](put, item)
      end
    end
  end
  put('<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" role="img"'
    .. ' font-family="Helvetica, Arial, Liberation Sans, sans-serif">', n(scene.width), n(scene.height), n(scene.width),
    n(scene.height))
  if scene.auto then -- rules outdo attributes
    put "<style>@media (prefers-color-scheme: dark) {"
    for light, dark in pairs(require("tycho.plot.axes").dark) do
      put('[fill="%s"] { fill: %s } [stroke="%s"] { stroke: %s }', light, dark, light, dark)
    end
    put "}</style>"
  end
  if scene.title then put("<title>%s</title>", escape(scene.title)) end
  all(scene.items)
  put "</svg>\n"
  return concat(out, "\n")
end

return M
