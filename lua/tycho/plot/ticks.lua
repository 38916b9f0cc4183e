--- ticks.lua -- where the labels of an axis stand, and what they say.
-- In: a range, about how many labels fit. Out: positions, texts, a common power of ten. Cannot fail on finite ranges.
--
-- Linear axes: Talbot, Lin and Hanrahan, "An Extension of Wilkinson's Algorithm for Positioning Tick Labels on Axes"
-- (2010). Of all labelings first + i * step, step = j * q * 10^z, the one with the best mean of simplicity (is q an
-- early one of Q, is 0 among the labels), coverage (do the labels reach the ends), density (are they as many as asked
-- for) is taken. The loops end early: each bound says what is the best that can still come.

local font = require "tycho.plot.font"

local M = {}

local floor, ceil, abs, max, min = math.floor, math.ceil, math.abs, math.max, math.min

local Q = { 1, 5, 2, 2.5, 4, 3 }
local SIMPLICITY, COVERAGE, DENSITY, LEGIBILITY = 0.2, 0.25, 0.5, 0.05
local EPS = 1e-10
local STEPS_MOST, LABELS_MOST = 40, 40

local function simplicity(i, j, first, last, step)
  local zero = first % step
  local has_zero = min(zero, step - zero) < EPS * max(1, abs(step)) and first <= 0 and last >= 0
  return 1 - (i - 1) / (#Q - 1) - j + (has_zero and 1 or 0)
end

local function coverage(lo, hi, first, last)
  local range = 0.1 * (hi - lo)
  return 1 - 0.5 * (((hi - last) / range) ^ 2 + ((lo - first) / range) ^ 2)
end

--- The best coverage of labels that span so much.
local function coverage_most(lo, hi, span)
  local range = hi - lo
  if span <= range then return 1 end
  local half = (span - range) / 2
  return 1 - (half / (0.1 * range)) ^ 2
end

local function density(k, wanted, lo, hi, first, last)
  local r = (k - 1) / (last - first)
  local rt = (wanted - 1) / (max(last, hi) - min(first, lo))
  return 2 - max(r / rt, rt / r)
end

local function score(s, c, d) return SIMPLICITY * s + COVERAGE * c + DENSITY * d + LEGIBILITY end

--- The best first label for this q, j, number of labels and power.
local function try_starts(best, lo, hi, wanted, i, j, k, z)
  local step = j * Q[i] * 10 ^ z
  local from, to = floor(hi / step) * j - (k - 1) * j, ceil(lo / step) * j
  if to - from > LABELS_MOST * j then return end
  for start = from, to do
    local first = start * step / j
    local last = first + step * (k - 1)
    local s = score(simplicity(i, j, first, last, step), coverage(lo, hi, first, last),
      density(k, wanted, lo, hi, first, last))
    if s > best.score then best.score, best.first, best.step, best.n = s, first, step, k end
  end
end

--- Labels for [lo, hi]: about `wanted` of them. Returns the first, the step, how many. They may stand a little outside.
---@param lo number
---@param hi number above lo
---@param wanted number
---@return number first, number step, integer n
function M.linear(lo, hi, wanted)
  local best = { score = -2, first = lo, step = hi - lo, n = 2 }
  for j = 1, STEPS_MOST do
    for i = 1, #Q do
      local s_most = 1 - (i - 1) / (#Q - 1) - j + 1
      if score(s_most, 1, 1) < best.score then break end
      for k = 2, LABELS_MOST do
        local d_most = k >= wanted and 2 - (k - 1) / (wanted - 1) or 1
        if score(s_most, 1, d_most) < best.score then break end
        local z = ceil(math.log10((hi - lo) / (k + 1) / j / Q[i]))
        while true do
          local span = j * Q[i] * 10 ^ z * (k - 1)
          local possible = score(s_most, coverage_most(lo, hi, span), d_most)
          if possible < best.score or possible ~= possible then break end
          try_starts(best, lo, hi, wanted, i, j, k, z)
          z = z + 1
        end
      end
    end
    if score(1 - j + 1, 1, 1) < best.score then break end
  end
  return best.first, best.step, best.n
end

--- The fewest decimals that tell numbers which are multiples of step, at most 16.
local function decimals(first, step)
  local function told(n)
    local a, b = first * 10 ^ n, step * 10 ^ n
    local near = 1e-6 * abs(b) + 1e-15 * abs(a)
    return abs(b) > 0.5 and abs(b - floor(b + 0.5)) < near and abs(a - floor(a + 0.5)) < near
  end
  local n = 0
  while n < 16 and not told(n) do n = n + 1 end
  return n
end

local MINUS = "\226\136\146"

--- A number as labels have it, with a real minus.
---@param v number
---@param places integer decimals
---@return string
function M.format(v, places)
  local text = ("%." .. places .. "f"):format(v)
  if not text:find "[1-9]" then text = text:gsub("^-", "") end
  return (text:gsub("^-", MINUS))
end

--- 10 to a power, as text.
function M.power(n) return "10" .. font.exponent(n) end

--- Linear ticks inside [lo, hi]: a list of {value, text}, and a power of ten that all are multiplied with, 0 mostly.
---@param lo number
---@param hi number
---@param wanted number
---@return {value: number, text: string}[] ticks, integer power
function M.on_line(lo, hi, wanted)
  local first, step, n = M.linear(lo, hi, max(2, wanted))
  local most = max(abs(lo), abs(hi))
  local power = 0
  if most >= 1e5 or most < 1e-3 then power = floor(math.log10(most) + EPS) end
  local places, ticks = decimals(first / 10 ^ power, step / 10 ^ power), {}
  if places > 5 and most >= 1e5 and most < 1e16 then power, places = 0, decimals(first, step) end -- 1000000000.5
  local unit = 10 ^ power
  local slack = (hi - lo) * 1e-9
  for i = 0, n - 1 do
    local v = first + i * step
    if abs(v) < step * 1e-9 then v = 0 end
    if v >= lo - slack and v <= hi + slack then ticks[#ticks + 1] = { value = v, text = M.format(v / unit, places) } end
  end
  return ticks, power
end

--- Ticks of a logarithmic axis: powers of ten, also 2 and 5 times them where there are few, without text between.
---@param lo number above 0
---@param hi number
---@param wanted number
---@return {value: number, text: string?}[]
function M.on_log(lo, hi, wanted)
  local from, to = math.log10(lo), math.log10(hi)
  if to - from < 1 then return (M.on_line(lo, hi, wanted)) end
  local ticks, every = {}, max(1, ceil((to - from) / wanted))
  local between = to - from < wanted / 2.5
  local plain = from >= -3 and to <= 4.01
  for e = floor(from), ceil(to) do
    for _, m in ipairs { 1, 2, 3, 4, 5, 6, 7, 8, 9 } do
      local v = m * 10 ^ e
      local said = m == 1 and e % every == 0 or between and (m == 2 or m == 5)
      if v >= lo * (1 - EPS) and v <= hi * (1 + EPS) and (said or every == 1) then
        local text = plain and M.format(v, e < 0 and -e or 0) or m == 1 and M.power(e) or m .. "\194\183" .. M.power(e)
        ticks[#ticks + 1] = { value = v, text = said and text or nil }
      end
    end
  end
  return ticks
end

return M
