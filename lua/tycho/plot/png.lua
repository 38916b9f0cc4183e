--- png.lua -- pixels to a PNG file's bytes, without a library.
-- In: rows of 8-bit samples. Out: a string. Cannot fail.
--
-- Rows are filtered by the one above (images of curves are mostly equal rows), then packed in one block of deflate's
-- fixed code. Matches are looked for at one place alone, the last one with the same four bytes: that is a page of code,
-- fast enough for images, and within a small factor of what zlib makes of them.

local bit = require "bit"
local band, bxor, rshift, lshift = bit.band, bit.bxor, bit.rshift, bit.lshift
local byte, char, concat = string.byte, string.char, table.concat

local M = {}

local table_of_crc = {}
for n = 0, 255 do
  local c = n
  for _ = 1, 8 do c = band(c, 1) == 1 and bxor(0xedb88320, rshift(c, 1)) or rshift(c, 1) end
  table_of_crc[n] = c
end

--- The checksum of PNG's chunks.
---@param s string
---@return integer as bit operations have it: signed
function M.crc32(s)
  local c = -1
  for i = 1, #s do c = bxor(table_of_crc[band(bxor(c, byte(s, i)), 0xff)], rshift(c, 8)) end
  return bit.bnot(c)
end

local function adler32(s)
  local a, b = 1, 0
  for i = 1, #s do
    a = a + byte(s, i)
    b = b + a
    if i % 3800 == 0 then a, b = a % 65521, b % 65521 end
  end
  return a % 65521, b % 65521
end

local function be32(n)
  return char(band(rshift(n, 24), 255), band(rshift(n, 16), 255), band(rshift(n, 8), 255), band(n, 255))
end

local function chunk(kind, data) return be32(#data) .. kind .. data .. be32(M.crc32(kind .. data)) end

--- The n lowest bits of v in the other order: codes of deflate begin with their highest bit.
local function reversed(v, n)
  local y = 0
  for _ = 1, n do
    y = lshift(y, 1) + band(v, 1)
    v = rshift(v, 1)
  end
  return y
end

--- The fixed code: for each byte, and each length of a run, its bits and how many.
local code, bits = {}, {}
for v = 0, 143 do code[v], bits[v] = reversed(0x30 + v, 8), 8 end
for v = 144, 255 do code[v], bits[v] = reversed(0x190 + v - 144, 9), 9 end
local LENGTHS = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163,
  195, 227, 258 }
local EXTRA = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 }

local LONGEST, FARTHEST = 258, 32768

--- The bits of a match's length: the code, then what is beyond the first length of its class.
local run_code, run_bits = {}, {}
for i, from in ipairs(LENGTHS) do
  local symbol = 256 + i
  local prefix, n = reversed(symbol - 256, 7), 7
  if symbol >= 280 then prefix, n = reversed(0xc0 + symbol - 280, 8), 8 end
  for length = from, math.min(from + 2 ^ EXTRA[i] - 1, i < #LENGTHS and LENGTHS[i + 1] - 1 or LONGEST) do
    run_code[length] = prefix + lshift(length - from, n)
    run_bits[length] = n + EXTRA[i]
  end
end

--- The bits of a distance: 30 classes, two for each power of two.
local function distance_code(d)
  if d <= 4 then return reversed(d - 1, 5), 5 end
  local extra = math.floor(math.log(d - 1) / math.log(2) + 1e-9) - 1
  local half = math.floor((d - 1) / 2 ^ extra) % 2
  return reversed(2 * extra + 2 + half, 5) + (d - 1) % 2 ^ extra * 32, 5 + extra
end

--- How many bytes at i are those at `from` before it.
local function match_length(s, from, i, n)
  local most = math.min(LONGEST, n - i + 1)
  local length = 0
  while length < most and byte(s, from + length) == byte(s, i + length) do length = length + 1 end
  return length
end

--- zlib's format: one block.
---@param s string
---@return string
function M.deflate(s)
  local out, hold, held = { "\120\1" }, 3, 3 -- the last block, fixed code
  local part, filled = {}, 0
  local function put(v, n)
    hold = hold + v * 2 ^ held
    held = held + n
    while held >= 8 do
      filled = filled + 1
      part[filled] = hold % 256
      hold = math.floor(hold / 256)
      held = held - 8
    end
    if filled >= 4000 then
      out[#out + 1] = char(unpack(part, 1, filled))
      filled = 0
    end
  end
  local last = {} -- by four bytes: where they stood last
  local i, n = 1, #s
  while i <= n do
    local length, from = 0, nil
    if i + 3 <= n then
      local a, b, c, d = byte(s, i, i + 3)
      local key = band(bxor(a * 0x9e5f, b * 0x6a35, c * 0x3c6f, d * 0x1b87), 0xffff)
      from = last[key]
      last[key] = i
      if from and i - from <= FARTHEST then length = match_length(s, from, i, n) end
    end
    if length >= 4 then
      put(run_code[length], run_bits[length])
      put(distance_code(i - from))
      i = i + length
    else
      local v = byte(s, i)
      put(code[v], bits[v])
      i = i + 1
    end
  end
  put(0, 7) -- end of block
  if held > 0 then put(0, 8 - held) end
  out[#out + 1] = char(unpack(part, 1, filled))
  local a, b = adler32(s)
  out[#out + 1] = char(rshift(b, 8), band(b, 255), rshift(a, 8), band(a, 255))
  return concat(out)
end

--- A PNG of `channels` = 1 (grey), 3 (RGB) or 4 (RGBA) samples a pixel.
---@param width integer
---@param height integer
---@param channels integer
---@param sample fun(i: integer): integer the i-th sample from 0 on, row by row, 0..255
---@return string
function M.encode(width, height, channels, sample)
  local rows, stride = {}, width * channels
  local row, above = {}, {}
  for k = 0, stride - 1 do above[k] = 0 end
  for y = 0, height - 1 do
    local parts = { "\2" } -- the filter: minus the byte above
    local from = 1
    for k = 0, stride - 1 do
      local v = sample(y * stride + k)
      row[k - from + 2] = band(v - above[k], 255)
      above[k] = v
      if k - from + 2 == 4000 or k == stride - 1 then
        parts[#parts + 1] = char(unpack(row, 1, k - from + 2))
        from = k + 2
      end
    end
    rows[y + 1] = concat(parts)
  end
  local kind = channels == 1 and 0 or channels == 3 and 2 or 6
  return "\137PNG\r\n\26\n" .. chunk("IHDR", be32(width) .. be32(height) .. char(8, kind, 0, 0, 0))
    .. chunk("IDAT", M.deflate(concat(rows))) .. chunk("IEND", "")
end

return M
