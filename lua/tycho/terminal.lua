--- terminal.lua -- what the terminal is and what it can show; charts of braille dots.
-- In: the environment, the files 1 (output) and 2 (errors). Out: sizes, colours, kinds of graphics; text. Cannot fail.
-- `world` is all that is asked of the system: specs put their own clock and terminal there.

local ty = require "tycho"

local M = {}

local floor, min, max = math.floor, math.min, math.max

M.world = {
  clock = ty.internals.clock,
  getenv = os.getenv,
  size = ty.internals.terminal,
  write = function(fd, text)
    local file = fd == 2 and io.stderr or io.stdout
    if fd == 2 then io.stdout:flush() end -- both in the order in which they were written
    file:write(text)
    file:flush()
  end,
}

local function env(name) return M.world.getenv(name) or "" end

--- Columns and rows of the terminal that file `fd` is, nil: it is none.
---@param fd integer
---@return integer? columns, integer? rows
function M.size(fd)
  local columns, rows = M.world.size(fd)
  if not columns then return nil end
  if env "TERM" == "dumb" then return nil end
  return columns > 0 and columns or 80, rows > 0 and rows or 24
end

--- Whether letters beyond ASCII can be written.
function M.has_unicode()
  for _, name in ipairs { "LC_ALL", "LC_CTYPE", "LANG" } do
    local v = env(name)
    if v ~= "" then return v:lower():find("utf%-?8") ~= nil end
  end
  return false
end

--- How many colours: "24bit", "256", or nil.
function M.colors()
  if env "NO_COLOR" ~= "" then return nil end
  local kind, term = env "COLORTERM", env "TERM"
  if kind == "truecolor" or kind == "24bit" or term:find "direct" then return "24bit" end
  if term:find "256" or kind ~= "" or term:find "kitty" then return "256" end
  return nil
end

local asked -- what the terminal answered

--- Asks the terminal for its attributes; 4 among them means sixel. Waits a fifth of a second at most.
local function answers_sixel()
  if asked == nil then
    asked = false
    local tty = io.open("/dev/tty", "r+")
    local kept = tty and io.popen "stty -g </dev/tty 2>/dev/null"
    local mode = kept and kept:read "*l"
    if kept then kept:close() end
    if mode and mode ~= "" then
      os.execute "stty raw -echo min 0 time 2 </dev/tty"
      tty:write "\27[c"
      tty:flush()
      local answer = ""
      for _ = 1, 40 do
        local c = tty:read(1)
        if not c then break end
        answer = answer .. c
        if c == "c" then break end
      end
      os.execute("stty '" .. mode .. "' </dev/tty")
      asked = (";" .. (answer:match "%[%?([%d;]*)c" or "") .. ";"):find(";4;", 1, true) ~= nil
    end
    if tty then tty:close() end
  end
  return asked
end

--- The kind of graphics that the terminal on the output has: "kitty", "sixel" or nil.
function M.graphics()
  local term, program = env "TERM", env "TERM_PROGRAM"
  if env "TMUX" ~= "" or term:find "^screen" then return nil end -- they swallow what they do not know
  if env "KITTY_WINDOW_ID" ~= "" or term:find "kitty" or program == "ghostty" or program == "WezTerm" then
    return "kitty"
  end
  if term:find "sixel" or term:find "^mlterm" or term:find "^foot" or program == "mintty" then return "sixel" end
  if M.world.size == ty.internals.terminal and M.world.size(0) and answers_sixel() then return "sixel" end
  return nil
end

---------------------------------------------------------------------------------------------------------- text

--- How many columns a text takes: letters, without escapes.
function M.columns(text)
  text = text:gsub("\27%[[%d;]*%a", "")
  local _, more = text:gsub("[\128-\191]", "")
  return #text - more
end

--- The UTF-8 of a code point from 0x800 on.
local function utf8(code)
  return string.char(224 + floor(code / 4096), 128 + floor(code / 64) % 64, 128 + code % 64)
end

local BLOCKS = {}
for i = 1, 8 do BLOCKS[i] = utf8(0x2580 + i) end -- one to eight eighths, from below

--- Values as small bars in one line, `width` columns at most; NaN is a blank.
---@param values number[]
---@param width integer
---@return string
function M.sparkline(values, width)
  local n = #values
  local shown = min(n, width)
  local lo, hi, means = math.huge, -math.huge, {}
  for i = 1, shown do
    local from, to = floor((i - 1) * n / shown) + 1, max(floor(i * n / shown), floor((i - 1) * n / shown) + 1)
    local sum, count = 0, 0
    for k = from, to do
      if values[k] - values[k] == 0 then sum, count = sum + values[k], count + 1 end
    end
    means[i] = count > 0 and sum / count or nil
    if means[i] then lo, hi = min(lo, means[i]), max(hi, means[i]) end
  end
  local out = {}
  for i = 1, shown do
    local v = means[i]
    local level = v and (hi > lo and floor((v - lo) / (hi - lo) * 7 + 0.5) + 1 or 4)
    out[i] = level and BLOCKS[level] or " "
  end
  return table.concat(out)
end

-- Bits of the eight dots of a braille letter: [row][column].
local DOTS = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } }
local INKS = { "34", "33", "32", "31", "35", "36" }

--- A number in about five letters.
function M.short(v)
  if v ~= v then return "nan" end
  local size = math.abs(v)
  if size == math.huge then return v < 0 and "-inf" or "inf" end
  if size ~= 0 and (size < 1e-3 or size >= 1e5) then return ("%.1e"):format(v) end
  return ("%.4g"):format(v)
end

--- Curves as lines of text. series: lists of numbers over equal distances; the scale of y is that of all.
---@param series number[][]
---@param width integer columns, with the labels
---@param height integer rows
---@param colors? boolean
---@return string[]
function M.curves(series, width, height, colors)
  local lo, hi = math.huge, -math.huge
  for _, values in ipairs(series) do
    for _, v in ipairs(values) do
      if v - v == 0 then lo, hi = min(lo, v), max(hi, v) end
    end
  end
  if lo > hi then lo, hi = 0, 1 end
  if lo == hi then lo, hi = lo - max(math.abs(lo) * 0.1, 1e-9), hi + max(math.abs(hi) * 0.1, 1e-9) end
  local top, bottom = M.short(hi), M.short(lo)
  local margin = max(#top, #bottom)
  local columns = max(width - margin - 2, 4)
  local cells, inks = {}, {} -- dots and the colour of each letter
  local function dot(x, y, ink)
    local at = floor(y / 4) * columns + floor(x / 2)
    local mark = DOTS[y % 4 + 1][x % 2 + 1]
    if floor((cells[at] or 0) / mark) % 2 == 0 then cells[at] = (cells[at] or 0) + mark end
    inks[at] = ink
  end
  local wide, tall = columns * 2, height * 4
  for i, values in ipairs(series) do
    local n, before = #values, nil
    for x = 0, min(wide, n) - 1 do
      local shown = min(wide, n)
      local from, to = floor(x * n / shown) + 1, floor((x + 1) * n / shown)
      local sum, count = 0, 0
      for k = from, to do
        if values[k] - values[k] == 0 then sum, count = sum + values[k], count + 1 end
      end
      local at = n > 1 and n < wide and floor(x * (wide - 1) / (n - 1) + 0.5) or x
      if count > 0 then
        local y = floor((1 - (sum / count - lo) / (hi - lo)) * (tall - 1) + 0.5)
        if before then -- a line from the point before
          local steps = max(at - before[1], math.abs(y - before[2]), 1)
          local dx, dy = (at - before[1]) / steps, (y - before[2]) / steps
          for s = 1, steps do dot(floor(before[1] + dx * s + 0.5), floor(before[2] + dy * s + 0.5), i) end
        else
          dot(at, y, i)
        end
        before = { at, y }
      else
        before = nil
      end
    end
  end
  local lines = {}
  for row = 0, height - 1 do
    local label = row == 0 and top or row == height - 1 and bottom or ""
    local parts, ink = { (" "):rep(margin - #label), label, row == 0 and " \226\148\164" or " \226\148\130" }, nil
    for column = 0, columns - 1 do
      local at = row * columns + column
      local want = colors and cells[at] and INKS[(inks[at] - 1) % #INKS + 1] or nil
      if want ~= ink then parts[#parts + 1] = want and "\27[" .. want .. "m" or "\27[0m" end
      ink = want
      parts[#parts + 1] = cells[at] and utf8(0x2800 + cells[at]) or " "
    end
    if ink then parts[#parts + 1] = "\27[0m" end
    lines[row + 1] = table.concat(parts):gsub("%s+$", "")
  end
  return lines
end

--- The escape that colours the i-th curve's name.
function M.ink(i, text) return ("\27[%sm%s\27[0m"):format(INKS[(i - 1) % #INKS + 1], text) end

return M
