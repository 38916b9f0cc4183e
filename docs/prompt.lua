--- prompt.lua -- a picture of a session at the prompt: luajit docs/prompt.lua docs/pictures/prompt.svg; `make pictures`.
-- In: the lines below, typed into ./tycho in a terminal of its own. Out: its screen as SVG, letter by letter in its
-- colours. Raises where a line does not come back to the prompt.

local terminal = require "spec.terminal_screen"

local COLUMNS, WIDE, TALL, PAD = 100, 8.4, 18, 16

local lines = {
  "local m = ty.nn.Sequential(ty.nn.Linear(4, 8), ty.nn.ReLU(), ty.nn.Linear(8, 2))",
  "f = jit.compile(function(x) return m(x):softmax(2) end)",
  "f(ty.ones(2, 4))",
  "_:sum(2)",
  "m(ty.ones(2, 3))",
  "?gelu",
  "wave = (ty.range(16):unsqueeze(2) / 3):sin() * (ty.range(64) / 6):cos()",
  "ty.show(wave, { map = 'viridis' })",
}

--- The 16 colours of a dark terminal.
local palette = { [0] = "#15181c", "#f2746b", "#7fd1a6", "#e5a445", "#6cb2f5", "#c3a6f0", "#6fd0d6", "#e4e7eb", "#98a1ab", "#f2897f",
  "#a8e5c4", "#f3c77b", "#8cc4ff", "#d8c3f7", "#9be4e8", "#ffffff" }
local BACK, FRONT = "#15181c", "#e4e7eb"

--- Colour n of the 256.
local function of_256(n)
  if n < 16 then return palette[n] end
  if n >= 232 then return ("#%02x%02x%02x"):format(8 + 10 * (n - 232), 8 + 10 * (n - 232), 8 + 10 * (n - 232)) end
  n = n - 16
  local function level(v) return v == 0 and 0 or 55 + 40 * v end
  return ("#%02x%02x%02x"):format(level(math.floor(n / 36)), level(math.floor(n / 6) % 6), level(n % 6))
end

--- A pen, newest escapes first, as {front, back, bold, dim}.
local function look_of(pen)
  local look, codes = {}, {}
  for code in pen:gmatch "%d+" do codes[#codes + 1] = tonumber(code) end
  local i = 1
  while i <= #codes do
    local code = codes[i]
    if code == 38 or code == 48 then
      local key, few = code == 38 and "front" or "back", codes[i + 1] == 5
      look[key] = look[key] or few and of_256(codes[i + 2])
        or ("#%02x%02x%02x"):format(codes[i + 2], codes[i + 3], codes[i + 4])
      i = i + (few and 2 or 4)
    elseif code == 1 then look.bold = true
    elseif code == 2 then look.dim = true
    elseif code >= 30 and code <= 37 then look.front = look.front or palette[code - 30]
    elseif code >= 90 and code <= 97 then look.front = look.front or palette[code - 82]
    elseif code >= 40 and code <= 47 then look.back = look.back or palette[code - 40] end
    i = i + 1
  end
  return look
end

local function escape(text) return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" })) end

--- The screen as SVG. Letters of one look stand together; half blocks are drawn.
local function svg(t)
  local rows = 0
  for y in pairs(t.lines) do rows = math.max(rows, y + 1) end
  local out = {}
  local function put(form, ...) out[#out + 1] = form:format(...) end
  local width, height = COLUMNS * WIDE + 2 * PAD, rows * TALL + 2 * PAD + 22
  put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\">", width, height,
    width, height)
  put "<title>A session at the prompt of tycho</title>"
  put "<style>text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre }</style>"
  put("<rect width=\"%d\" height=\"%d\" rx=\"10\" fill=\"%s\"/>", width, height, BACK)
  for i, color in ipairs { "#f2746b", "#e5a445", "#7fd1a6" } do
    put("<circle cx=\"%d\" cy=\"18\" r=\"5.5\" fill=\"%s\"/>", 4 + i * 18, color)
  end
  for y = 0, rows - 1 do
    local line, pens, x = t.lines[y] or {}, t.pens[y] or {}, 0
    local top = PAD + 22 + y * TALL
    while x < COLUMNS do
      local letter, pen, first = line[x], pens[x], x
      if letter == "▀" or letter == "▄" then
        local look = look_of(pen)
        local upper, lower = look.front or FRONT, look.back or BACK
        if letter == "▄" then upper, lower = lower, upper end
        put("<path fill=\"%s\" d=\"M%.1f %dh%.1fv9.5h-%.1fz\"/>", upper, PAD + x * WIDE, top, WIDE + 0.6, WIDE + 0.6)
        put("<path fill=\"%s\" d=\"M%.1f %dh%.1fv9.5h-%.1fz\"/>", lower, PAD + x * WIDE, top + TALL / 2, WIDE + 0.6, WIDE + 0.6)
        x = x + 1
      elseif letter then
        local letters = {}
        while line[x] and pens[x] == pen and line[x] ~= "▀" and line[x] ~= "▄" do
          letters[#letters + 1] = line[x]
          x = x + 1
        end
        local look, text = look_of(pen), table.concat(letters)
        if text:find "%S" then
          local weight = (look.bold and " font-weight=\"600\"" or "") .. (look.dim and " opacity=\"0.65\"" or "")
          put("<text x=\"%.1f\" y=\"%d\" fill=\"%s\"%s textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\">%s</text>",
            PAD + first * WIDE, top + 13, look.front or FRONT, weight, #letters * WIDE, escape(text))
        end
      else
        x = x + 1
      end
    end
  end
  put "</svg>"
  return table.concat(out, "\n") .. "\n"
end

--- The session: a terminal in which all lines were typed.
local function session()
  local history = os.tmpname()
  local t = terminal.start({ "./tycho" }, { TYCHO_HISTORY = history, TERM = "xterm-256color", COLORTERM = "truecolor", NO_COLOR = false,
    LC_ALL = "C.UTF-8", TYCHO_LOG = "0", TMUX = false, HOME = "/nonexistent", TERM_PROGRAM = false }, COLUMNS, 60)
  t:expect "1> $"
  t:send "ty.manual_seed(1);\r"
  t:expect "\n2> $"
  for _, line in ipairs(lines) do
    t:mark()
    t:send(line .. "\r")
    t:expect "\n%d+> $"
  end
  t:close()
  os.remove(history)
  return t
end

if arg and arg[0] and arg[0]:find "prompt%.lua$" then
  local file = assert(io.open(assert(arg[1], "prompt.lua: which file?"), "w"))
  file:write(svg(session()))
  file:close()
end

return { session = session, svg = svg }
