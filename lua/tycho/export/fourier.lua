--- export/fourier.lua -- Fourier transforms as C: the ways of core/device/cpu/fft_plan.c, by the pieces of
-- butterflies.lua.
-- In: a step and a kit, see routines.lua. Out: lines of its function; the bytes of scratch it takes.
--
-- Lines go one by one or, where a length's first passes are no match for vectors, up to LANES of them side by side.
-- Roots of
-- unity are in tables that the first call makes.

require "tycho.export.long_transforms"
require "tycho.export.real_transforms"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local floor, sqrt, max = math.floor, math.sqrt, math.max
local text = sizes.text
local DIRECT, MOST, ODD_MOST = 2 ^ 14, 19, 53 -- as in core/device/fft_plan.h
local LANES, FEW_LINES, SHORT_LINE = 16, 4, 128
local PAGE = 4096 -- addresses that differ by so many bytes share their places in a cache

local M = {}

-- Ways ----------------------------------------------------------------------------------------------------------------

local function is_prime(p)
  for d = 2, p - 1 do
    if p % d == 0 then return false end
  end
  return true
end

--- The passes over an odd number of real ones: {n, r, m} each, and the length that is left, without a radix.
local function odd_passes(n)
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
    best = best and math.min(best, m) or m
  end
  return best
end

--- How n complex numbers are transformed, one by one or not. take: a place in a table for so many elements.
local function plan_of(t, n, one, take)
  local radices = factors(n)
  local p = { t = t, n = n, rows = n, one = one }
  if not radices or n / divisor(n) > DIRECT then
    p.way, p.m = "chirp", convenient(2 * n - 1)
    p.chirp, p.all = take(2 * n), take(2 * p.m)
    p.sub = plan_of(t, p.m, one, take)
    p.rows, p.long = p.m, p.sub.long
  elseif n > DIRECT then
    p.way, p.long = "split", true
    local n1 = divisor(n)
    local n2 = n / n1
    p.first, p.second = plan_of(t, n1, false, take), plan_of(t, n2, false, take)
    p.u = take(2 * ((n1 - 1) * (math.ceil(n2 / LANES) - 1) + 1))
    p.v = take(2 * LANES * n1)
  else
    p.way = "passes"
    local s = 1
    for i, r in ipairs(radices) do
      local m = n / s / r
      local h = floor(r / 2)
      local flat = one and m > 1 and s < LANES and s ~= 8
      p[i] = { r = r, m = m, s = s, flat = flat,
        at = take((r % 2) * 2 * h * h + (m > 1 and 2 * (r - 1) * m * (flat and s or 1) or 0)) }
      s = s * r
    end
  end
  return p
end

--- Numbers from one of the four arrays to the next: long ones lie a quarter of a page apart.
local function apart(count, bytes)
  if count * bytes < 2 * PAGE then return count end
  return count + (PAGE / 4 - count * bytes) % PAGE / bytes
end

--- From one array to the next of the columns of a plan that is split.
local function columns(p) return apart(LANES * p.second.n, primitives.bytes[p.t]) end

--- Elements of scratch of a plan's own type beside the four arrays that it works on.
local function beside(p)
  if p.way == "split" then return 2 * p.n + 4 * columns(p) end
  return p.sub and beside(p.sub) or 0
end

-- Lines ---------------------------------------------------------------------------------------------------------------

local Job = {}
Job.__index = Job

function Job:add(format, ...) self.kit.add(self.depth .. format, ...) end
function Job:use(piece, t) self.kit.use("fft_" .. piece .. "_" .. t) end

--- Four arrays of so many elements from `at` on.
function Job:arrays(name, t, at, each)
  self.kit.use("fft_" .. t)
  self:add("ty_fft_%s %s = {%s, %s + %d, %s + %d, %s + %d};", t, name, at, at, each, at, 2 * each, at, 3 * each)
end

--- Fills the plan's tables from w on. room: of doubles.
function Job:lay(p, w, room)
  local t = p.t
  for _, q in ipairs(p) do
    self:use("factors", t)
    self:add("ty_fft_factors_%s(%s + %d, %d, %d, %d, %d);", t, w, q.at, q.r, q.m, q.s, q.flat and 1 or 0)
  end
  if p.way == "split" then
    self:lay(p.first, w, room)
    self:lay(p.second, w, room)
    self:use("long", t)
    self:add("ty_fft_twists_%s(%s + %d, %s + %d, %d, %d);", t, w, p.u, w, p.v, p.first.n, p.second.n)
  elseif p.way == "chirp" then
    self:lay(p.sub, w, room)
    self:use("chirp", t)
    local more = 0
    local of = plan_of("f64", p.m, true, function(n)
      more = more + n
      return more - n
    end)
    self:add "{"
    self:add("  double *const wide = (double *)(void *)(%s);", room)
    local outer = self.depth
    self.depth = outer .. "  "
    self:arrays("s", "f64", "wide", p.m)
    self:add("double *const v = wide + %d, *const aside = v + %d;", 4 * p.m, more)
    self:add "(void)aside;"
    self:lay(of, "v", "NULL")
    self:add("ty_fft_chirp_%s(%s + %d, %d, %d, s.ar, s.ai);", t, w, p.chirp, p.n, p.m)
    self:run(of, "v", "aside", "1")
    self:add("ty_fft_chirped_%s(%s + %d, %d, s.ar, s.ai);", t, w, p.all, p.m)
    self.depth = outer
    self:add "}"
    self.wide = max(self.wide, 4 * p.m + more + beside(of))
  end
end

--- Transforms what is in s. aside: of the plan's type.
function Job:run(p, w, aside, cols)
  local t = p.t
  for _, q in ipairs(p) do
    local name = (q.flat and "flat" or "pass") .. q.r
    self:use(name, t)
    self:add("ty_fft_%s_%s(&s, %d, %s, %s + %d);", name, t, q.m,
      cols == "1" and q.s or ("%d * %s"):format(q.s, cols), w, q.at)
  end
  if p.way == "split" then
    self:split(p, w, aside, { "s.ar", "s.ai - s.ar", "1" }, { "s.ar", "s.ai - s.ar", "1" }, "1")
  elseif p.way == "chirp" then
    self:use("chirp", t)
    self:add("ty_fft_multiply_%s(&s, %s + %d, %d, %s);", t, w, p.chirp, p.n, cols)
    self:add("ty_fft_zeros_%s(&s, %d * %s, %d * %s);", t, p.n, cols, p.m, cols)
    self:add "for (int half = 0; half < 2; half++) {"
    self.depth = self.depth .. "  "
    self:run(p.sub, w, aside, cols)
    self:add("if (!half) ty_fft_multiply_%s(&s, %s + %d, %d, %s);", t, w, p.all, p.m, cols)
    self:add("ty_fft_conjugate_%s(&s);", t)
    self.depth = self.depth:sub(3)
    self:add "}"
    self:add("ty_fft_multiply_%s(&s, %s + %d, %d, %s);", t, w, p.chirp, p.n, cols)
  end
end

--- A line in two dims: columns of n1, then rows of n2. x, y: {first number, how far its imaginary part is, from
-- number to
--- number}. `by`: what results are multiplied by.
function Job:split(p, w, aside, x, y, by)
  local t, n1, n2 = p.t, p.first.n, p.second.n
  local stored = primitives.stored[t]
  self:use("long", t)
  self:add "{"
  local outer = self.depth
  self.depth = outer .. "  "
  self:add("const %s *from = %s;", stored, x[1])
  self:add("%s *to = %s, *mid = %s;", stored, y[1], aside)
  self:add("const int64_t far = %s, row = %s, back = %s, step = %s;", x[2], x[3], y[2], y[3])
  self:arrays("s", t, ("(mid + %d)"):format(2 * p.n), columns(p))
  self:add("for (int64_t j = 0; j < %d; j += ty_fft_lanes) {", n2)
  self:add("  const int64_t cols = %d - j < ty_fft_lanes ? %d - j : ty_fft_lanes;", n2, n2)
  self:add("  ty_fft_gather_%s(s.ar, s.ai, %d, cols, from + j * row, far, %d * row, row);", t, n1, n2)
  self.depth = self.depth .. "  "
  self:run(p.first, w, aside, "cols")
  self.depth = self.depth:sub(3)
  self:add("  ty_fft_twist_%s(&s, %s + %d, j / ty_fft_lanes, %s + %d, %d, cols);", t, w, p.u, w, p.v, n1)
  self:add("  ty_fft_scatter_%s(mid + j, %d, %d, 1, s.ar, s.ai, %d, cols, 1);", t, p.n, n2, n1)
  self:add "}"
  self:add("for (int64_t k = 0; k < %d; k += ty_fft_lanes) {", n1)
  self:add("  const int64_t cols = %d - k < ty_fft_lanes ? %d - k : ty_fft_lanes;", n1, n1)
  self:add("  ty_fft_gather_%s(s.ar, s.ai, %d, cols, mid + k * %d, %d, 1, %d);", t, n2, n2, p.n, n2)
  self.depth = self.depth .. "  "
  self:run(p.second, w, aside, "cols")
  self.depth = self.depth:sub(3)
  self:add("  ty_fft_scatter_%s(to + k * step, back, %d * step, step, s.ar, s.ai, %d, cols, %s);", t, n1, n2, by)
  self:add "}"
  self.depth = outer
  self:add "}"
end

--- An odd number of real ones, in x, to the half in h; and back. at: of the pass from which on; step: of its outputs.
function Job:forward(passes, i, x, step)
  local t, p = self.t, passes[i]
  if not p then
    local rest = passes.rest
    if rest == 1 then
      self:add("for (int64_t c = 0; c < cols; c++) h.ar[c] = (%s)[c], h.ai[c] = 0;", x)
      return
    end
    self:add("for (int64_t k = 0; k < %d * cols; k++) s.ar[k] = (%s)[k], s.ai[k] = 0;", rest, x)
    self:run(passes.last, "w", "aside", self.cols)
    self:add("ty_fft_scatter_%s(h.ar, h.ai - h.ar, %d * cols, 1, s.ar, s.ai, %d, cols, 1);", t, step,
      floor(rest / 2) + 1)
    return
  end
  local own = ("%s + %d * cols"):format(x, p.n)
  self:use("halve" .. p.r, t)
  self:add("ty_fft_halve%d_%s(%d, cols, %s, %s, ur, ui, %d * cols, w + %d);", p.r, t, p.m, x, own, p.rows, p.at)
  self:add("for (int k = 1; k <= %d; k++) {", floor(p.r / 2))
  self.depth = "      "
  self:add("ty_fft_%s s = {ur + (k - 1) * %d * cols, ui + (k - 1) * %d * cols, more, more + %d * cols};", t, p.rows,
    p.rows, p.rows)
  if p.m > 1 then self:run(p.plan, "w", "aside", self.cols) end
  self:add("ty_fft_unfold_%s(%d, %d, k, s.ar, s.ai, h.ar, h.ai, %d, cols);", t, p.n, p.r, step)
  self.depth = "    "
  self:add "}"
  self:forward(passes, i + 1, own, step * p.r)
end

function Job:back(passes, i, x, step)
  local t, p = self.t, passes[i]
  if not p then
    local rest = passes.rest
    if rest == 1 then
      self:add("for (int64_t c = 0; c < cols; c++) (%s)[c] = h.ar[c];", x)
      return
    end
    self:add("ty_fft_gather_%s(s.ar, s.ai, %d, cols, h.ar, h.ai - h.ar, %d * cols, 1);", t, floor(rest / 2) + 1, step)
    self:use("mirror", t)
    self:add("ty_fft_mirror_%s(&s, %d, cols, %s);", t, rest, self.one)
    self:add("ty_fft_conjugate_%s(&s);", t)
    self:run(passes.last, "w", "aside", self.cols)
    self:add("for (int64_t k = 0; k < %d * cols; k++) (%s)[k] = s.ai[k];", rest, x)
    return
  end
  local own = ("%s + %d * cols"):format(x, p.n)
  self:back(passes, i + 1, own, step * p.r)
  self:add("for (int k = 1; k <= %d; k++) {", floor(p.r / 2))
  self.depth = "      "
  self:add("%s *const re = ur + (k - 1) * %d * cols, *const im = ui + (k - 1) * %d * cols;", primitives.stored[t],
    p.rows, p.rows)
  self:add("ty_fft_%s s = {re, im, more, more + %d * cols};", t, p.rows)
  self:add("ty_fft_fold_%s(%d, %d, k, s.ar, s.ai, h.ar, h.ai, %d, cols);", t, p.n, p.r, step)
  self:add("ty_fft_conjugate_%s(&s);", t)
  if p.m > 1 then self:run(p.plan, "w", "aside", self.cols) end
  self:add("for (int64_t l = 0; s.ai != re && l < %d * cols; l++) re[l] = s.ai[l], im[l] = s.ar[l];", p.m)
  self.depth = "    "
  self:add "}"
  self:use("unite" .. p.r, t)
  self:add("ty_fft_unite%d_%s(%d, cols, %s, %s, ur, ui, %d * cols, w + %d, %s * 2);", p.r, t, p.m, x, own, p.rows, p.at,
    self.one)
end

local function product_from(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

--- Whether lines go one by one.
local function is_one_by_one(radices, n, outer, inner)
  local lines = inner == 1 and outer or inner
  if type(lines) == "number" and lines < FEW_LINES then return true end
  return inner == 1 and n > SHORT_LINE and radices ~= nil and radices[1] == 8
end

function M.fft(step, kit)
  local node, x = step.node, step.node.operands[1]
  local kind, norm, d = node.k2 % 8, floor(node.k2 / 8), node.k + 1
  local takes, gives = kind == 2 or kind == 5, kind == 4 or kind == 3
  local whole = gives and node.shape or x.shape
  local rank = (takes or gives) and #whole or #whole - 1
  local n = whole[d]
  if type(n) ~= "number" then kit.refuse "a Fourier transform along a size that varies" end
  local outer, inner = product_from(whole, 1, d - 1), product_from(whole, d + 1, rank)
  local t, stored, bytes = x.dtype, primitives.stored[x.dtype], primitives.bytes[x.dtype]
  local from, to = kit.slot(step.slots[1], t), kit.slot(step.slots[2], t)
  local h, size = floor(n / 2), 0
  local function take(elements)
    size = size + elements
    return size - elements
  end
  local job = setmetatable({ kit = kit, t = t, depth = "", wide = 0 }, Job)
  local halves = (takes or gives) and n % 2 == 0
  local passes, rest = {}, nil
  if (takes or gives) and not halves then
    passes, rest = odd_passes(n)
    passes.rest = rest
  end
  local odd = #passes > 0
  local main = halves and n / 2 or odd and passes[1].m or n
  local radices = main > 1 and factors(main) or {}
  if main > 1 and not factors(main) then radices = factors(convenient(2 * main - 1)) end
  local one = is_one_by_one(radices, main, outer, inner)
  local plan = not odd and plan_of(t, main, one, take) or nil
  local long = plan and plan.long
  for _, p in ipairs(passes) do
    p.at = take(2 * floor(p.r / 2) ^ 2 + (p.m > 1 and 2 * floor(p.r / 2) * p.m or 0))
    p.plan = p.m > 1 and plan_of(t, p.m, one, take) or nil
    p.rows = p.plan and p.plan.rows or 1
    long = long or p.plan and p.plan.long
  end
  if odd and rest > 1 then
    passes.last = plan_of(t, rest, one, take)
    long = long or passes.last.long
  end
  if long then one = true end
  local half_at = halves and take(2 * (h + 1))
  size = size + size % 2 -- doubles may follow
  local cols = one and 1 or LANES
  job.cols = one and "1" or "cols"
  local weight = kind == 5 and 2 or kind == 3 and 0.5 or 1
  job.one = ("(%s)%s"):format(stored, primitives.double(weight))
  local scale = norm == 1 and 1 / n or norm == 2 and 1 / sqrt(n) or 1
  local function scaled(v) return ("(%s)%s"):format(stored, primitives.double(v)) end
  -- memory: tables where they are not kept, the four arrays, the half, what passes over real numbers take, what is
  -- beside
  local rows = max(plan and plan.rows or passes.last and passes.last.rows or 1, h + 1)
  local each = apart(rows * cols, bytes)
  local whole_x, most = 0, 0
  for _, p in ipairs(passes) do
    whole_x, most = whole_x + p.n, max(most, (p.r + 1) * p.rows)
  end
  whole_x = odd and whole_x + rest or 0
  local more = plan and beside(plan) or passes.last and beside(passes.last) or 0
  for _, p in ipairs(passes) do more = max(more, p.plan and beside(p.plan) or 0) end
  kit.use "fft_once"
  kit.add("static ty_once once;")
  kit.add("static %s kept[%d];", stored, max(size, 1))
  kit.add("%s *w = kept, *const own = (%s *)(void *)room, *const area = own + %d;", stored, stored, size)
  kit.add "const int claimed = ty_claim(&once);"
  kit.add "if (claimed != 2) {"
  kit.add "  if (!claimed) w = own;"
  job.depth = "  "
  if plan then job:lay(plan, "w", "area") end
  for _, p in ipairs(passes) do
    kit.use("fft_real_" .. t)
    kit.add("  ty_fft_turns_%s(w + %d, %d, %d);", t, p.at, p.r, p.m)
    if p.plan then job:lay(p.plan, "w", "area") end
  end
  if passes.last then job:lay(passes.last, "w", "area") end
  if halves then
    kit.use("fft_half_" .. t)
    kit.add("  ty_fft_halves_%s(w + %d, %d);", t, half_at, h)
  end
  kit.add "  if (claimed) ty_ready(&once);"
  kit.add "}"
  kit.add("%s *const aside = area + %d;", stored, 4 * each + (odd and 2 * (h + 1) + whole_x + 2 * most or 0) * cols)
  kit.add "(void)aside, (void)w;"
  -- groups of lines
  local nx, ny = gives and h + 1 or n, takes and h + 1 or n
  local px, py = takes and 1 or 2, gives and 1 or 2
  local lines = inner == 1 and outer or inner
  kit.add("const int64_t lines = %s, inner = %s, groups = (lines + %d) / %d;", text(lines), text(inner), cols - 1, cols)
  kit.add("for (int64_t o = 0; o < %s; o++)", inner == 1 and "1" or text(outer))
  kit.add "  for (int64_t g = 0; g < groups; g++) {"
  job.depth = "    "
  job:add "const int64_t first = lines * g / groups, cols = lines * (g + 1) / groups - first;"
  job:add("const %s *x = %s + (o * %d * inner + first%s) * %d;", stored, from, nx, inner == 1 and " * " .. nx or "", px)
  job:add("%s *y = %s + (o * %d * inner + first%s) * %d;", stored, to, ny, inner == 1 and " * " .. ny or "", py)
  job:add "(void)cols, (void)x, (void)y;"
  job:arrays("s", t, "area", each)
  job:add "(void)s;"
  local xcol, ycol = inner == 1 and nx * px or px, inner == 1 and ny * py or py
  --- Text of what moves `count` numbers between a tensor and the arrays.
  local function moved(count, far, row, col)
    if one then return ("1, %d"):format(count), ("%s, 0, %s"):format(far, row) end
    return ("%d, cols"):format(count), ("%s, %s, %d"):format(far, row, col)
  end
  local function gather(re, im, count, far, row)
    local a, b = moved(count, far, row, xcol)
    job:add("ty_fft_gather_%s(%s, %s, %s, x, %s);", t, re, im, a, b)
  end
  local function scatter(at, re, im, count, far, row, by, k)
    local a, b = moved(count, far, row, ycol)
    local behind = k > 0 and (" + %d * %s"):format(k, cols == 1 and "1" or "cols") or ""
    job:add("ty_fft_scatter_%s(%s, %s, %s%s, %s%s, %s, %s);", t, at, b, re, behind, im, behind, a, scaled(by))
  end
  local function half_out(re, im)
    local alone = n % 2 == 0 and h or h + 1
    local k = 0
    while k <= h do
      local count = weight == 1 and h + 1 or (k == 0 or k == alone) and 1 or alone - k
      scatter(k == 0 and "y" or ("y + %d * inner"):format(2 * k), re, im, count, "1", "2 * inner",
        (k == 0 or k == alone) and scale or scale * weight, k)
      k = k + count
    end
  end
  if odd then
    job:add("ty_fft_%s h = {area + %d, area + %d, NULL, NULL};", t, 4 * each, 4 * each + (h + 1) * cols)
    job:add("%s *const x0 = area + %d, *const ur = x0 + %d;", stored, 4 * each + 2 * (h + 1) * cols, whole_x * cols)
    local room, widest = 0, 0
    for _, p in ipairs(passes) do room, widest = max(room, floor(p.r / 2) * p.rows), max(widest, p.rows) end
    job:add("%s *const ui = ur + %d, *const more = ui + %d;", stored, room * cols, room * cols)
    job.more = (2 * room + 2 * widest) * cols
  end
  if odd and takes then
    gather("x0", "s.ai", n, "0", "inner")
    job:forward(passes, 1, "x0", 1)
    half_out("h.ar", "h.ai")
  elseif odd then
    gather("h.ar", "h.ai", h + 1, "1", "2 * inner")
    job:back(passes, 1, "x0", 1)
    scatter("y", "x0", "x0", n, "0", "inner", scale, 0)
  elseif takes then
    if halves then gather("s.ar", "s.ai", h, "inner", "2 * inner")
    else
      gather("s.ar", "s.ai", n, "0", "inner")
      job:add("for (int64_t k = 0; k < %d * %s; k++) s.ai[k] = 0;", n, job.cols)
    end
    job:run(plan, "w", "aside", job.cols)
    if halves then job:add("ty_fft_to_half_%s(&s, w + %d, %d, %s);", t, half_at, h, job.cols) end
    half_out("s.ar", "s.ai")
  elseif gives then
    gather("s.ar", "s.ai", h + 1, "1", "2 * inner")
    if halves then job:add("ty_fft_from_half_%s(&s, w + %d, %d, %s, %s);", t, half_at, h, job.cols, job.one)
    else
      kit.use("fft_mirror_" .. t)
      job:add("ty_fft_mirror_%s(&s, %d, %s, %s);", t, n, job.cols, job.one)
    end
    job:add("ty_fft_conjugate_%s(&s);", t)
    job:run(plan, "w", "aside", job.cols)
    if halves then scatter("y", "s.ai", "s.ar", h, "inner", "2 * inner", scale, 0)
    else scatter("y", "s.ai", "s.ai", n, "0", "inner", scale, 0) end
  else
    local re, im = "s.ar", "s.ai"
    if kind == 1 then re, im = im, re end
    gather(re, im, n, "1", "2 * inner")
    job:run(plan, "w", "aside", job.cols)
    scatter("y", re, im, n, "1", "2 * inner", scale, 0)
  end
  kit.add "  }"
  local area = 4 * each + (odd and 2 * (h + 1) + whole_x + 2 * most or 0) * cols + more
  return kit.aligned(64 + size * bytes + max(area * bytes, job.wide * 8 + 64))
end

return M
