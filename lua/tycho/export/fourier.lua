--- export/fourier.lua -- Fourier transforms as C: what fourier_plan.lua plans, by the pieces of butterflies.lua,
-- long_transforms.lua and real_transforms.lua.
-- In: a step and a kit, see routines.lua. Out: lines of its function; the bytes of scratch it takes.
--
-- Lines go one by one or, where a length's first passes are no match for vectors, up to LANES of them side by side.
-- Roots of unity are in tables that the first call makes.

require "tycho.export.long_transforms"
require "tycho.export.real_transforms"
local plans = require "tycho.export.fourier_plan"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local floor, sqrt, max = math.floor, math.sqrt, math.max
local text = sizes.text

local M = {}

--- What is written: kit, see routines.lua; t and stored, the dtype and its C type; depth, what lines begin with; wide,
--- doubles that tables take while they are made; L, the plan of lines; cols, the text of how many lie side by side.
local Job = {}
Job.__index = Job

function Job:add(format, ...) self.kit.add(self.depth .. format, ...) end
function Job:use(piece, t) self.kit.use("fft_" .. piece .. "_" .. t) end

--- A block of C behind `head`, whose lines `body` adds.
function Job:block(head, body)
  local outer = self.depth
  self:add(head == "" and "{" or head .. " {")
  self.depth = outer .. "  "
  body()
  self.depth = outer
  self:add "}"
end

--- Four arrays of so many elements from `at` on.
function Job:arrays(name, t, at, each)
  self.kit.use("fft_" .. t)
  self:add("ty_fft_%s %s = {%s, %s + %d, %s + %d, %s + %d};", t, name, at, at, each, at, 2 * each, at, 3 * each)
end

-- Plans ---------------------------------------------------------------------------------------------------------------

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
    self:block("", function() self:lay_chirp(p, w, room) end)
  end
end

--- The chirp of a plan, and what its lines are convolved with, whose transform is taken in double.
function Job:lay_chirp(p, w, room)
  local t, tables = p.t, 0
  local wide = plans.of("f64", p.m, true, function(n)
    tables = tables + n
    return tables - n
  end)
  self:use("chirp", t)
  self:add("double *const wide = (double *)(void *)(%s);", room)
  self:arrays("s", "f64", "wide", p.m)
  self:add("double *const v = wide + %d, *const aside = v + %d;", 4 * p.m, tables)
  self:add "(void)aside;"
  self:lay(wide, "v", "NULL")
  self:add("ty_fft_chirp_%s(%s + %d, %d, %d, s.ar, s.ai);", t, w, p.chirp, p.n, p.m)
  self:run(wide, "v", "aside", "1")
  self:add("ty_fft_chirped_%s(%s + %d, %d, s.ar, s.ai);", t, w, p.all, p.m)
  self.wide = max(self.wide, 4 * p.m + tables + plans.beside(wide))
end

--- Transforms what is in s. aside: of the plan's type.
function Job:run(p, w, aside, cols)
  for _, q in ipairs(p) do
    local name = (q.flat and "flat" or "pass") .. q.r
    self:use(name, p.t)
    self:add("ty_fft_%s_%s(&s, %d, %s, %s + %d);", name, p.t, q.m,
      cols == "1" and q.s or ("%d * %s"):format(q.s, cols), w, q.at)
  end
  if p.way == "split" then self:split(p, w, aside)
  elseif p.way == "chirp" then self:convolve(p, w, aside, cols) end
end

--- Bluestein's convolution.
function Job:convolve(p, w, aside, cols)
  local t = p.t
  local function multiply(by, n) return ("ty_fft_multiply_%s(&s, %s + %d, %d, %s);"):format(t, w, by, n, cols) end
  self:use("chirp", t)
  self:add(multiply(p.chirp, p.n))
  self:add("ty_fft_zeros_%s(&s, %d * %s, %d * %s);", t, p.n, cols, p.m, cols)
  self:block("for (int half = 0; half < 2; half++)", function()
    self:run(p.sub, w, aside, cols)
    self:add("if (!half) " .. multiply(p.all, p.m))
    self:add("ty_fft_conjugate_%s(&s);", t)
  end)
  self:add(multiply(p.chirp, p.n))
end

--- A line in two dims: columns of n1, then rows of n2.
function Job:split(p, w, aside)
  local t, n1, n2 = p.t, p.first.n, p.second.n
  self:use("long", t)
  self:block("", function()
    self:add("const ty_fft_%s line = s;", t)
    self:add("%s *mid = %s;", primitives.stored[t], aside)
    self:arrays("s", t, ("(mid + %d)"):format(2 * p.n), plans.columns(p))
    self:block(("for (int64_t j = 0; j < %d; j += ty_fft_lanes)"):format(n2), function()
      self:add("const int64_t cols = %d - j < ty_fft_lanes ? %d - j : ty_fft_lanes;", n2, n2)
      self:add("ty_fft_gather_%s(s.ar, s.ai, %d, cols, line.ar + j, line.ai - line.ar, %d, 1);", t, n1, n2)
      self:run(p.first, w, aside, "cols")
      self:add("ty_fft_twist_%s(&s, %s + %d, j / ty_fft_lanes, %s + %d, %d, cols);", t, w, p.u, w, p.v, n1)
      self:add("ty_fft_scatter_%s(mid + j, %d, %d, 1, s.ar, s.ai, %d, cols, 1);", t, p.n, n2, n1)
    end)
    self:block(("for (int64_t k = 0; k < %d; k += ty_fft_lanes)"):format(n1), function()
      self:add("const int64_t cols = %d - k < ty_fft_lanes ? %d - k : ty_fft_lanes;", n1, n1)
      self:add("ty_fft_gather_%s(s.ar, s.ai, %d, cols, mid + k * %d, %d, 1, %d);", t, n2, n2, p.n, n2)
      self:run(p.second, w, aside, "cols")
      self:add("ty_fft_scatter_%s(line.ar + k, line.ai - line.ar, %d, 1, s.ar, s.ai, %d, cols, 1);", t, n1, n2)
    end)
  end)
end

-- An odd number of real ones ------------------------------------------------------------------------------------------

--- From what is in x to the half in h. i: of the pass from which on; step: from one of its outputs to the next.
function Job:forward(i, x, step)
  local t, p = self.t, self.L.passes[i]
  if not p then return self:forward_rest(x, step) end
  local own = ("%s + %d * cols"):format(x, p.n)
  self:use("halve" .. p.r, t)
  self:add("ty_fft_halve%d_%s(%d, cols, %s, %s, ur, ui, %d * cols, w + %d);", p.r, t, p.m, x, own, p.rows, p.at)
  self:block(("for (int k = 1; k <= %d; k++)"):format(floor(p.r / 2)), function()
    self:add("ty_fft_%s s = {ur + (k - 1) * %d * cols, ui + (k - 1) * %d * cols, more, more + %d * cols};", t, p.rows,
      p.rows, p.rows)
    if p.plan then self:run(p.plan, "w", "aside", self.cols) end
    self:add("ty_fft_unfold_%s(%d, %d, k, s.ar, s.ai, h.ar, h.ai, %d, cols);", t, p.n, p.r, step)
  end)
  self:forward(i + 1, own, step * p.r)
end

function Job:forward_rest(x, step)
  local t, L = self.t, self.L
  if not L.last then
    self:add("for (int64_t c = 0; c < cols; c++) h.ar[c] = (%s)[c], h.ai[c] = 0;", x)
    return
  end
  self:add("for (int64_t k = 0; k < %d * cols; k++) s.ar[k] = (%s)[k], s.ai[k] = 0;", L.rest, x)
  self:run(L.last, "w", "aside", self.cols)
  self:add("ty_fft_scatter_%s(h.ar, h.ai - h.ar, %d * cols, 1, s.ar, s.ai, %d, cols, 1);", t, step,
    floor(L.rest / 2) + 1)
end

--- And back.
function Job:back(i, x, step)
  local t, p = self.t, self.L.passes[i]
  if not p then return self:back_rest(x, step) end
  local own = ("%s + %d * cols"):format(x, p.n)
  self:back(i + 1, own, step * p.r)
  self:block(("for (int k = 1; k <= %d; k++)"):format(floor(p.r / 2)), function()
    self:add("%s *const re = ur + (k - 1) * %d * cols, *const im = ui + (k - 1) * %d * cols;", self.stored, p.rows,
      p.rows)
    self:add("ty_fft_%s s = {re, im, more, more + %d * cols};", t, p.rows)
    self:add("ty_fft_fold_%s(%d, %d, k, s.ar, s.ai, h.ar, h.ai, %d, cols);", t, p.n, p.r, step)
    self:add("ty_fft_conjugate_%s(&s);", t)
    if p.plan then self:run(p.plan, "w", "aside", self.cols) end
    self:add("for (int64_t l = 0; s.ai != re && l < %d * cols; l++) re[l] = s.ai[l], im[l] = s.ar[l];", p.m)
  end)
  self:use("unite" .. p.r, t)
  self:add("ty_fft_unite%d_%s(%d, cols, %s, %s, ur, ui, %d * cols, w + %d, %s * 2);", p.r, t, p.m, x, own, p.rows,
    p.at, self:constant(self.weight))
end

function Job:back_rest(x, step)
  local t, L = self.t, self.L
  if not L.last then
    self:add("for (int64_t c = 0; c < cols; c++) (%s)[c] = h.ar[c];", x)
    return
  end
  self:add("ty_fft_gather_%s(s.ar, s.ai, %d, cols, h.ar, h.ai - h.ar, %d * cols, 1);", t, floor(L.rest / 2) + 1, step)
  self:use("mirror", t)
  self:add("ty_fft_mirror_%s(&s, %d, cols, %s);", t, L.rest, self:constant(self.weight))
  self:add("ty_fft_conjugate_%s(&s);", t)
  self:run(L.last, "w", "aside", self.cols)
  self:add("for (int64_t k = 0; k < %d * cols; k++) (%s)[k] = s.ai[k];", L.rest, x)
end

--- The half, h, and what passes over real numbers take, behind the four arrays.
function Job:odd_arrays()
  local L = self.L
  local half = (L.h + 1) * L.cols
  local at = 4 * L.each + 2 * half
  self:add("ty_fft_%s h = {area + %d, area + %d, NULL, NULL};", self.t, 4 * L.each, 4 * L.each + half)
  self:add("%s *const x0 = area + %d, *const ur = x0 + %d;", self.stored, at, L.reals * L.cols)
  self:add("%s *const ui = ur + %d, *const more = ui + %d;", self.stored, L.outputs * L.cols, L.outputs * L.cols)
end

function Job:odd_forward()
  self:odd_arrays()
  self:gather("x0", "s.ai", self.L.n, "0", "inner")
  self:forward(1, "x0", 1)
  self:half_out("h.ar", "h.ai")
end

function Job:odd_back()
  self:odd_arrays()
  self:gather("h.ar", "h.ai", self.L.h + 1, "1", "2 * inner")
  self:back(1, "x0", 1)
  self:scatter("y", "x0", "x0", self.L.n, "0", "inner", self.scale)
end

-- Lines ---------------------------------------------------------------------------------------------------------------

function Job:constant(v) return ("(%s)%s"):format(self.stored, primitives.double(v)) end

--- Text of what moves `count` numbers of a line between a tensor and the arrays.
function Job:moved(count, far, row, col)
  if self.L.one then return ("1, %d"):format(count), ("%s, 0, %s"):format(far, row) end
  return ("%d, cols"):format(count), ("%s, %s, %d"):format(far, row, col)
end

function Job:gather(re, im, count, far, row)
  local a, b = self:moved(count, far, row, self.xcol)
  self:add("ty_fft_gather_%s(%s, %s, %s, x, %s);", self.t, re, im, a, b)
end

function Job:scatter(at, re, im, count, far, row, by)
  local a, b = self:moved(count, far, row, self.ycol)
  self:add("ty_fft_scatter_%s(%s, %s, %s, %s, %s, %s);", self.t, at, b, re, im, a, self:constant(by))
end

--- The half of what is Hermitian to the tensor; what stands for two counts by the weight.
function Job:half_out(re, im)
  local n, h, k = self.L.n, self.L.h, 0
  local alone = n % 2 == 0 and h or h + 1
  while k <= h do
    local single = k == 0 or k == alone
    local count = self.weight == 1 and h + 1 or single and 1 or alone - k
    local behind = k > 0 and (" + %d * %s"):format(k, self.cols) or ""
    self:scatter(k == 0 and "y" or ("y + %d * inner"):format(2 * k), re .. behind, im .. behind, count, "1",
      "2 * inner", single and self.scale or self.scale * self.weight)
    k = k + count
  end
end

function Job:to_half()
  local t, L = self.t, self.L
  if L.halves then self:gather("s.ar", "s.ai", L.h, "inner", "2 * inner")
  else
    self:gather("s.ar", "s.ai", L.n, "0", "inner")
    self:add("for (int64_t k = 0; k < %d * %s; k++) s.ai[k] = 0;", L.n, self.cols)
  end
  self:run(L.plan, "w", "aside", self.cols)
  if L.halves then self:add("ty_fft_to_half_%s(&s, w + %d, %d, %s);", t, L.half_at, L.h, self.cols) end
  self:half_out("s.ar", "s.ai")
end

function Job:from_half()
  local t, L, weight = self.t, self.L, self:constant(self.weight)
  self:gather("s.ar", "s.ai", L.h + 1, "1", "2 * inner")
  if L.halves then self:add("ty_fft_from_half_%s(&s, w + %d, %d, %s, %s);", t, L.half_at, L.h, self.cols, weight)
  else
    self:use("mirror", t)
    self:add("ty_fft_mirror_%s(&s, %d, %s, %s);", t, L.n, self.cols, weight)
  end
  self:add("ty_fft_conjugate_%s(&s);", t)
  self:run(L.plan, "w", "aside", self.cols)
  if L.halves then self:scatter("y", "s.ai", "s.ar", L.h, "inner", "2 * inner", self.scale)
  else self:scatter("y", "s.ai", "s.ai", L.n, "0", "inner", self.scale) end
end

function Job:complex(re, im)
  self:gather(re, im, self.L.n, "1", "2 * inner")
  self:run(self.L.plan, "w", "aside", self.cols)
  self:scatter("y", re, im, self.L.n, "1", "2 * inner", self.scale)
end

-- A step --------------------------------------------------------------------------------------------------------------

--- Tables where they are kept or, if another call is about them, in scratch; what lies behind them there.
function Job:tables()
  local t, stored, L = self.t, self.stored, self.L
  self.kit.use "fft_once"
  self:add("static ty_once once;")
  self:add("static %s kept[%d];", stored, max(L.size, 1))
  self:add("%s *w = kept, *const own = (%s *)(void *)room, *const area = own + %d;", stored, stored, L.size)
  self:add "const int claimed = ty_claim(&once);"
  self:block("if (claimed != 2)", function()
    self:add "if (!claimed) w = own;"
    if L.plan then self:lay(L.plan, "w", "area") end
    for _, p in ipairs(L.passes or {}) do
      self:use("real", t)
      self:add("ty_fft_turns_%s(w + %d, %d, %d);", t, p.at, p.r, p.m)
      if p.plan then self:lay(p.plan, "w", "area") end
    end
    if L.last then self:lay(L.last, "w", "area") end
    if L.halves then
      self:use("half", t)
      self:add("ty_fft_halves_%s(w + %d, %d);", t, L.half_at, L.h)
    end
    self:add "if (claimed) ty_ready(&once);"
  end)
  self:add("%s *const aside = area + %d;", stored, L.aside)
  self:add "(void)aside, (void)w;"
end

--- Groups of lines: `first` of them, whose numbers x and y point at, and `cols` in all.
function Job:lines(outer, inner, from, to)
  local L, stored, one = self.L, self.stored, inner == 1
  local nx, ny = self.gives and L.h + 1 or L.n, self.takes and L.h + 1 or L.n
  local px, py = self.takes and 1 or 2, self.gives and 1 or 2
  self.xcol, self.ycol = one and nx * px or px, one and ny * py or py
  self:add("const int64_t lines = %s, inner = %s, groups = (lines + %d) / %d;", text(one and outer or inner),
    text(inner), L.cols - 1, L.cols)
  self:add("for (int64_t o = 0; o < %s; o++)", one and "1" or text(outer))
  self:block("  for (int64_t g = 0; g < groups; g++)", function()
    self:add "const int64_t first = lines * g / groups, cols = lines * (g + 1) / groups - first;"
    self:add("const %s *x = %s + (o * %d * inner + first%s) * %d;", stored, from, nx, one and " * " .. nx or "", px)
    self:add("%s *y = %s + (o * %d * inner + first%s) * %d;", stored, to, ny, one and " * " .. ny or "", py)
    self:add "(void)cols, (void)x, (void)y;"
    self:arrays("s", self.t, "area", L.each)
    self:add "(void)s;"
    if L.passes and self.takes then self:odd_forward()
    elseif L.passes then self:odd_back()
    elseif self.takes then self:to_half()
    elseif self.gives then self:from_half()
    elseif self.inverse then self:complex("s.ai", "s.ar")
    else self:complex("s.ar", "s.ai") end
  end)
end

local function product_from(list, from, to)
  local n = 1
  for d = from, to do n = n * list[d] end
  return n
end

function M.fft(step, kit)
  local node, x = step.node, step.node.operands[1]
  local kind, norm, d = node.k2 % 8, floor(node.k2 / 8), node.k + 1
  local takes, gives = kind == 2 or kind == 5, kind == 4 or kind == 3 -- real numbers
  local whole = gives and node.shape or x.shape
  local rank = (takes or gives) and #whole or #whole - 1
  local n = whole[d]
  if type(n) ~= "number" then kit.refuse "a Fourier transform along a size that varies" end
  local outer, inner = product_from(whole, 1, d - 1), product_from(whole, d + 1, rank)
  local t = x.dtype
  local L = plans.lines(t, n, takes or gives, inner == 1 and outer or inner, inner ~= 1)
  local job = setmetatable({ kit = kit, t = t, stored = primitives.stored[t], depth = "", wide = 0, L = L,
    cols = L.one and "1" or "cols", takes = takes, gives = gives, inverse = kind == 1,
    weight = kind == 5 and 2 or kind == 3 and 0.5 or 1,
    scale = norm == 1 and 1 / n or norm == 2 and 1 / sqrt(n) or 1 }, Job)
  job:tables()
  job:lines(outer, inner, kit.slot(step.slots[1], t), kit.slot(step.slots[2], t))
  local bytes = primitives.bytes[t]
  return kit.aligned(64 + L.size * bytes + max((L.aside + L.beside) * bytes, job.wide * 8 + 64))
end

return M
