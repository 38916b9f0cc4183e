--- export/fourier_plan.lua -- how a Fourier transform is computed: the ways of core/device/cpu/fft_plan.c.
-- In: a dtype, a length, how many lines there are. Out: a table that fourier.lua writes as C; nothing fails.

local primitives = require "tycho.export.primitives"

local floor, ceil, sqrt, min, max = math.floor, math.ceil, math.sqrt, math.min, math.max
local DIRECT, MOST, ODD_MOST = 2 ^ 14, 19, 53 -- as in core/device/fft_plan.h
local FEW_LINES, SHORT_LINE = 4, 128
local PAGE = 4096 -- addresses that differ by so many bytes share their places in a cache

local M = { LANES = 16 }

-- Lengths -------------------------------------------------------------------------------------------------------------

local function is_prime(p)
  for d = 2, p - 1 do
    if p % d == 0 then return false end
  end
  return true
end

--- The radices of a length; nil: it has a prime above MOST.
local function factors(n)
  local list, twos = {}, 0
  while n % 2 == 0 do n, twos = n / 2, twos + 1 end
  while twos > 0 do
    local bits = (twos == 4 or twos == 2) and 2 or twos == 1 and 1 or 3
    list[#list + 1], twos = 2 ^ bits, twos - bits
  end
  for p = MOST, 3, -2 do
    while n % p == 0 and is_prime(p) do
      list[#list + 1], n = p, n / p
    end
  end
  return n == 1 and list or nil
end

local function divisor(n)
  local d = floor(sqrt(n))
  while n % d ~= 0 do d = d - 1 end
  return d
end

--- The length of Bluestein's convolution.
local function convenient(least)
  local best
  for _, odd in ipairs { 1, 3, 5, 9, 15 } do
    local m = 8 * odd
    while m < least do m = m * 2 end
    best = best and min(best, m) or m
  end
  return best
end

-- Complex numbers -----------------------------------------------------------------------------------------------------

--- Passes of these radices, each with its place in a table.
local function add_passes(p, radices, one, take)
  local s = 1
  for i, r in ipairs(radices) do
    local m, h = p.n / s / r, floor(r / 2)
    local flat = one and m > 1 and s < M.LANES and s ~= 8
    p[i] = { r = r, m = m, s = s, flat = flat,
      at = take((r % 2) * 2 * h * h + (m > 1 and 2 * (r - 1) * m * (flat and s or 1) or 0)) }
    s = s * r
  end
end

--- How n complex numbers are transformed, one by one or not. take: a place in a table for so many elements.
--- way: "passes", which are in its list; "chirp", a convolution of m numbers, which `sub` transforms; "split", in two
--- dims, by `first` and `second`. rows: numbers that it works on; long: lines go one by one.
function M.of(t, n, one, take)
  local radices = factors(n)
  local p = { t = t, n = n, rows = n }
  if not radices or n / divisor(n) > DIRECT then
    p.way, p.m = "chirp", convenient(2 * n - 1)
    p.chirp, p.all = take(2 * n), take(2 * p.m)
    p.sub = M.of(t, p.m, one, take)
    p.rows, p.long = p.m, p.sub.long
  elseif n > DIRECT then
    p.way, p.long = "split", true
    local n1 = divisor(n)
    local n2 = n / n1
    p.first, p.second = M.of(t, n1, false, take), M.of(t, n2, false, take)
    p.u = take(2 * ((n1 - 1) * (ceil(n2 / M.LANES) - 1) + 1))
    p.v = take(2 * M.LANES * n1)
  else
    p.way = "passes"
    add_passes(p, radices, one, take)
  end
  return p
end

--- Numbers from one of the four arrays to the next: long ones lie a quarter of a page apart.
local function apart(count, bytes)
  if count * bytes < 2 * PAGE then return count end
  return count + (PAGE / 4 - count * bytes) % PAGE / bytes
end

--- From one array to the next of the columns of a plan that is split.
function M.columns(p) return apart(M.LANES * p.second.n, primitives.bytes[p.t]) end

--- Elements of scratch of a plan's own type beside the four arrays that it works on; of none: 0.
function M.beside(p)
  if not p then return 0 end
  if p.way == "split" then return 2 * p.n + 4 * M.columns(p) end
  return M.beside(p.sub)
end

-- Lines of a tensor ---------------------------------------------------------------------------------------------------

--- The passes over an odd number of real ones: {n, r, m} each, and the length that is left, without a radix.
local function real_passes(n)
  local list = {}
  while true do
    local r
    for p = 3, ODD_MOST, 2 do
      if n % p == 0 and is_prime(p) then r = p end
    end
    if not r then return list, n end
    list[#list + 1] = { n = n, r = r, m = n / r }
    n = n / r
  end
end

--- Whether `lines` lines, in which so many numbers go through passes, go one by one.
local function is_one_by_one(n, lines, neighbours)
  if type(lines) == "number" and lines < FEW_LINES then return true end
  if neighbours or n <= SHORT_LINE then return false end
  return (factors(n) or factors(convenient(2 * n - 1)))[1] == 8
end

--- Tables and plans of passes over an odd number of real ones.
local function plan_passes(L, t, one, take)
  for _, p in ipairs(L.passes) do
    local h = floor(p.r / 2)
    p.at = take(2 * h ^ 2 + (p.m > 1 and 2 * h * p.m or 0))
    p.plan = p.m > 1 and M.of(t, p.m, one, take) or nil
    p.rows = p.plan and p.plan.rows or 1
  end
  if L.rest > 1 then L.last = M.of(t, L.rest, one, take) end
end

--- What the arrays take: numbers of one line from array to array, of passes over real numbers, of scratch.
local function add_room(L, bytes)
  local main = L.plan or L.last
  L.each = apart(max(main and main.rows or 1, L.h + 1) * L.cols, bytes)
  L.beside, L.reals, L.outputs, L.widest = M.beside(main), L.passes and L.rest or 0, 0, 0
  for _, p in ipairs(L.passes or {}) do
    L.beside, L.reals = max(L.beside, M.beside(p.plan)), L.reals + p.n
    L.outputs, L.widest = max(L.outputs, floor(p.r / 2) * p.rows), max(L.widest, p.rows)
  end
  local half = L.passes and 2 * (L.h + 1) or 0
  L.aside = 4 * L.each + (half + L.reals + 2 * L.outputs + 2 * L.widest) * L.cols
end

--- How lines of n numbers, real at one end or complex, are transformed. neighbours: numbers side by side are of several
--- lines. Gives
---   plan, of all numbers or, where `halves`, of pairs of real ones; or
---   passes over an odd number of real ones, and `last`, the plan of the `rest` of the length, if it is not 1;
---   one: whether lines go one by one, else `cols` of them side by side;
---   size: elements of tables; half_at: where the roots of `halves` are;
---   each: numbers from one of the four arrays to the next. Behind them are the half of an odd transform, `reals`,
---   `outputs` of a pass twice, and two arrays of the `widest`; then, from `aside` on, so many elements `beside`.
function M.lines(t, n, real, lines, neighbours)
  local L = { n = n, h = floor(n / 2), halves = real and n % 2 == 0, size = 0 }
  local function take(elements)
    L.size = L.size + elements
    return L.size - elements
  end
  if real and not L.halves then
    L.passes, L.rest = real_passes(n)
    if #L.passes == 0 then L.passes = nil end
  end
  local main = L.halves and n / 2 or L.passes and L.passes[1].m or n
  local one = is_one_by_one(main, lines, neighbours)
  if L.passes then plan_passes(L, t, one, take) else L.plan = M.of(t, main, one, take) end
  local long = L.plan and L.plan.long or L.last and L.last.long
  for _, p in ipairs(L.passes or {}) do long = long or p.plan and p.plan.long end
  L.one = one or long
  L.cols = L.one and 1 or M.LANES
  if L.halves then L.half_at = take(2 * (L.h + 1)) end
  L.size = L.size + L.size % 2 -- doubles may follow
  add_room(L, primitives.bytes[t])
  return L
end

return M
