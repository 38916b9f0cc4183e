--- make bench-ops: every public function of tensors beside NumPy and PyTorch.
-- In: TYCHO_PEERS_PYTHON names a python (else python3). Out: a table, the rows farthest behind the faster peer first.
--
-- Counted is the time that the process computed, float32 unless inputs say other, one thread. Every row is measured in
-- each of several rounds, ours and the peers one right after the other: medians of times, and of ratios within a round.
-- A row "f, gradient" is the call, the sum of its first result (of magnitudes, where that is complex), and the backward
-- pass. Ours releases its results as soon as Python's count of references does; what it makes on the way is left to
-- Lua's collector. Before all that mean magnitudes of results and gradients are compared with a peer's.
--   luajit bench/ops.lua [rounds = 3] [only rows whose name contains this, or one of several parted by |]
--   luajit bench/ops.lua --check     computes each row once, smallest size; raises where a function has no row

local ffi = require "ffi"
ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
ffi.C.setenv("OPENBLAS_NUM_THREADS", "1", 1) -- LAPACK's routines do not follow ty.threads

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here .. "/?.lua;" .. package.path
local measure = require "measure"
local median, seconds_of, now = measure.median, measure.seconds_of, measure.now

local CHECK = arg[1] == "--check"
local ROUNDS, ONLY = tonumber(arg[1]) or 3, arg[2]
local BATCH = 0.01 -- seconds that a measurement lasts, about: as in ops.py
local NEAR = 1.1 -- a ratio up to this counts as no slower
local build = here .. "/../build/bench"

---------------------------------------------------------------------------------------------------------- the inputs

local function uniform(low, high, ...) return ty.uniform(low, high, { ... }) end
local function integers(low, high, ...) return ty.randint(low, high, { ... }) end
local function bools(...) return ty.rand(...):lt(0.5) end

--- Tensors of a size n, by the names they have in rows; Python reads the same from files.
local inputs = {
  x = function(n) return uniform(-2, 2, n, n) end,
  y = function(n) return uniform(-2, 2, n, n) end,
  z = function(n) return uniform(-2, 2, n, n) end,
  p = function(n) return uniform(0.1, 2, n, n) end, -- positive
  q = function(n) return uniform(0.1, 2, n, n) end,
  u = function(n) return uniform(-0.9, 0.9, n, n) end, -- within the unit interval
  g = function(n) return uniform(1.1, 3, n, n) end, -- above one
  c = function(n) return uniform(0.05, 0.95, n, n) end, -- chances
  d = function(n) return ty.softmax(uniform(-2, 2, n, n)) end, -- distributions
  l = function(n) return ty.log_softmax(uniform(-2, 2, n, n)) end, -- their logarithms
  v = function(n) return uniform(-2, 2, n) end,
  w = function(n) return uniform(-2, 2, n) end,
  e = function(n) return uniform(-2, 2, n * n) end, -- as many as in x
  r = function(n) return (ty.sort(uniform(-2, 2, n * n))) end, -- in order
  a = function(n) return integers(0, 1000, n, n) end,
  b = function(n) return integers(0, 1000, n, n) end,
  s = function(n) return integers(0, 7, n, n) end,
  m = function(n) return bools(n, n) end,
  o = function(n) return bools(n, n) end,
  yes = function(n) return ty.ones(n, n, { dtype = "bool" }) end,
  no = function(n) return ty.zeros(n, n, { dtype = "bool" }) end,
  i = function(n) return integers(1, n, n, n) end, -- positions
  j = function(n) return ty.argsort(ty.rand(n, n)) end, -- no position twice in a row
  k = function(n) return integers(1, n, n) end,
  list = function(n) return uniform(-2, 2, n, n) end, -- nested tables
  batch = function(n) return uniform(-1, 1, 8, n, n) end,
  other = function(n) return uniform(-1, 1, 8, n, n) end,
  sound = function(n) return uniform(-1, 1, 4, 16, n * n) end,
  image = function(n) return uniform(-1, 1, 4, 16, n, n) end,
  volume = function(n) return uniform(-1, 1, 2, 8, n, n, n) end,
  taps = function() return uniform(-1, 1, 16, 16, 3) end,
  kernel = function() return uniform(-1, 1, 16, 16, 3, 3) end,
  cube = function() return uniform(-1, 1, 8, 8, 3, 3, 3) end,
  bias = function() return uniform(-1, 1, 16) end,
  zed = function(n) return ty.complex(uniform(-1, 1, n, n), uniform(-1, 1, n, n)) end,
  why = function(n) return ty.complex(uniform(-1, 1, n, n), uniform(-1, 1, n, n)) end,
  wave = function(n) return uniform(-1, 1, 16 * n) end,
  wide = function(n) return uniform(-1, 1, math.floor(60000 / n), n):to "f64" end, -- lines of f64
  widez = function(n)
    local lines = math.floor(60000 / n)
    return ty.complex(uniform(-1, 1, lines, n):to "f64", uniform(-1, 1, lines, n):to "f64")
  end,
  query = function(n) return uniform(-1, 1, 2, 4, n, 64) end,
  key = function(n) return uniform(-1, 1, 2, 4, n, 64) end,
  value = function(n) return uniform(-1, 1, 2, 4, n, 64) end,
  speech = function(n) return ty.log_softmax(uniform(-2, 2, n, 8, 32)) end,
  labels = function() return integers(2, 32, 8, 4) end, -- the first class is the blank
  theta = function() return uniform(-1, 1, 4, 2, 3) end,
  grid = function(n) return uniform(-1, 1, 4, n, n, 2) end,
  general = function(n) return uniform(-1, 1, n, n) end,
  positive = function(n) -- symmetric, positive definite
    local t = uniform(-1, 1, n, n)
    return t:matmul(t:t()) / n + ty.eye(n)
  end,
}
local counted_from_one = { i = true, j = true, k = true, labels = true }

------------------------------------------------------------------------------------------------------------ the rows

--- Groups of rows: sizes n, and rows of
---   the function's name, behind a comma the case; a name that ends with _ writes to its first input
---   names of its inputs; n is the size
---   NumPy's expression and PyTorch's, "" where there is none
---   ours, where it is not the function of that name, called with the inputs
---   drawn = true: values are not compared
local linalg = ty.linalg
local groups = {
  { sizes = { 16, 256, 1000 }, -- element by element, of one
    { "abs", "x", "np.abs(x)", "torch.abs(x)" },
    { "acos", "u", "np.arccos(u)", "torch.acos(u)" },
    { "acosh", "g", "np.arccosh(g)", "torch.acosh(g)" },
    { "asin", "u", "np.arcsin(u)", "torch.asin(u)" },
    { "asinh", "x", "np.arcsinh(x)", "torch.asinh(x)" },
    { "atan", "x", "np.arctan(x)", "torch.atan(x)" },
    { "atanh", "u", "np.arctanh(u)", "torch.atanh(u)" },
    { "bitwise_not", "a", "np.bitwise_not(a)", "torch.bitwise_not(a)" },
    { "ceil", "x", "np.ceil(x)", "torch.ceil(x)" },
    { "clamp", "x", "np.clip(x, -1, 1)", "torch.clamp(x, -1, 1)", function(x) return ty.clamp(x, -1, 1) end },
    { "cos", "x", "np.cos(x)", "torch.cos(x)" },
    { "cosh", "x", "np.cosh(x)", "torch.cosh(x)" },
    { "elu", "x", "", "F.elu(x)" },
    { "erf", "x", "", "torch.erf(x)" },
    { "erfinv", "u", "", "torch.erfinv(u)" },
    { "exp", "x", "np.exp(x)", "torch.exp(x)" },
    { "exp2", "x", "np.exp2(x)", "torch.exp2(x)" },
    { "expm1", "x", "np.expm1(x)", "torch.expm1(x)" },
    { "floor", "x", "np.floor(x)", "torch.floor(x)" },
    { "gelu", "x", "", "F.gelu(x)" },
    { "gelu, tanh", "x", "", "F.gelu(x, approximate='tanh')",
      function(x) return ty.gelu(x, { approximate = "tanh" }) end },
    { "isfinite", "x", "np.isfinite(x)", "torch.isfinite(x)" },
    { "isinf", "x", "np.isinf(x)", "torch.isinf(x)" },
    { "isnan", "x", "np.isnan(x)", "torch.isnan(x)" },
    { "leaky_relu", "x", "np.where(x > 0, x, x * f32(0.01))", "F.leaky_relu(x)" },
    { "log", "p", "np.log(p)", "torch.log(p)" },
    { "log10", "p", "np.log10(p)", "torch.log10(p)" },
    { "log1p", "p", "np.log1p(p)", "torch.log1p(p)" },
    { "log2", "p", "np.log2(p)", "torch.log2(p)" },
    { "logical_not", "m", "np.logical_not(m)", "torch.logical_not(m)" },
    { "mish", "x", "", "F.mish(x)" },
    { "nan_to_num", "x", "np.nan_to_num(x)", "torch.nan_to_num(x)" },
    { "neg", "x", "np.negative(x)", "torch.neg(x)" },
    { "reciprocal", "p", "np.reciprocal(p)", "torch.reciprocal(p)" },
    { "relu", "x", "np.maximum(x, f32(0))", "F.relu(x)" },
    { "round", "x", "np.rint(x)", "torch.round(x)" },
    { "rsqrt", "p", "1 / np.sqrt(p)", "torch.rsqrt(p)" },
    { "sigmoid", "x", "1 / (1 + np.exp(-x))", "torch.sigmoid(x)" },
    { "sign", "x", "np.sign(x)", "torch.sign(x)" },
    { "silu", "x", "x / (1 + np.exp(-x))", "F.silu(x)" },
    { "sin", "x", "np.sin(x)", "torch.sin(x)" },
    { "sinh", "x", "np.sinh(x)", "torch.sinh(x)" },
    { "softplus", "x", "np.logaddexp(x, f32(0))", "F.softplus(x)" },
    { "sqrt", "p", "np.sqrt(p)", "torch.sqrt(p)" },
    { "square", "x", "np.square(x)", "torch.square(x)" },
    { "tan", "u", "np.tan(u)", "torch.tan(u)" },
    { "tanh", "x", "np.tanh(x)", "torch.tanh(x)" },
    { "trunc", "x", "np.trunc(x)", "torch.trunc(x)" },
    { "cbrt", "x", "np.cbrt(x)", "torch.sign(x) * torch.abs(x) ** (1 / 3)" },
    { "deg2rad", "x", "np.deg2rad(x)", "torch.deg2rad(x)" },
    { "rad2deg", "x", "np.rad2deg(x)", "torch.rad2deg(x)" },
    { "frac", "x", "x - np.trunc(x)", "torch.frac(x)" },
    { "signbit", "x", "np.signbit(x)", "torch.signbit(x)" },
    { "sinc", "x", "np.sinc(x)", "torch.sinc(x)" },
    { "digamma", "p", "", "torch.digamma(p)" },
    { "erfc", "x", "", "torch.erfc(x)" },
    { "i0", "x", "np.i0(x)", "torch.i0(x)" },
    { "lgamma", "p", "", "torch.lgamma(p)" },
    { "logit", "c", "np.log(c / (1 - c))", "torch.logit(c)" },
    { "i1", "x", "", "torch.special.i1(x)" },
    { "polygamma", "p", "", "torch.polygamma(1, p)", function(p) return ty.polygamma(1, p) end },
    { "celu", "x", "", "F.celu(x)" },
    { "hardshrink", "x", "", "F.hardshrink(x)" },
    { "hardsigmoid", "x", "", "F.hardsigmoid(x)" },
    { "hardswish", "x", "", "F.hardswish(x)" },
    { "hardtanh", "x", "", "F.hardtanh(x)" },
    { "logsigmoid", "x", "", "F.logsigmoid(x)" },
    { "relu6", "x", "", "F.relu6(x)" },
    { "selu", "x", "", "F.selu(x)" },
    { "softshrink", "x", "", "F.softshrink(x)" },
    { "softsign", "x", "", "F.softsign(x)" },
    { "tanhshrink", "x", "", "F.tanhshrink(x)" },
    { "threshold", "x", "", "F.threshold(x, 0.5, 0)", function(x) return ty.threshold(x, 0.5, 0) end },
    { "to", "x", "x.astype(np.float64)", "x.to(torch.float64)", function(x) return x:to("f64") end },
    { "to, i64", "x", "x.astype(i64)", "x.to(torch.int64)", function(x) return x:to("i64") end },
    { "view_as", "x", "x.view(np.int32).copy()", "x.view(torch.int32).clone()",
      function(x) return x:view_as("i32") end },
    { "clone", "x", "x.copy()", "torch.clone(x)" },
    { "contiguous", "x", "np.ascontiguousarray(x.T)", "x.t().contiguous()",
      function(x) return x:t():contiguous() end },
  },
  { sizes = { 16, 256, 1000 }, -- of two and more
    { "add", "x y", "np.add(x, y)", "torch.add(x, y)" },
    { "add, a number", "x", "x + f32(1)", "x + 1", function(x) return x + 1 end },
    { "add, a row", "x v", "x + v", "x + v" },
    { "add, a column", "x v", "x + v[:, None]", "x + v[:, None]",
      function(x, v) return x + v:unsqueeze(2) end },
    { "add, integers", "a b", "np.add(a, b)", "torch.add(a, b)" },
    { "atan2", "x y", "np.arctan2(x, y)", "torch.atan2(x, y)" },
    { "bitwise_and", "a b", "np.bitwise_and(a, b)", "torch.bitwise_and(a, b)" },
    { "bitwise_or", "a b", "np.bitwise_or(a, b)", "torch.bitwise_or(a, b)" },
    { "bitwise_xor", "a b", "np.bitwise_xor(a, b)", "torch.bitwise_xor(a, b)" },
    { "copysign", "x y", "np.copysign(x, y)", "torch.copysign(x, y)" },
    { "div", "x p", "np.divide(x, p)", "torch.div(x, p)" },
    { "eq", "x y", "np.equal(x, y)", "torch.eq(x, y)" },
    { "floor_divide", "x p", "np.floor_divide(x, p)", "torch.floor_divide(x, p)" },
    { "fmod", "x p", "np.fmod(x, p)", "torch.fmod(x, p)" },
    { "ge", "x y", "np.greater_equal(x, y)", "torch.ge(x, y)" },
    { "gt", "x y", "np.greater(x, y)", "torch.gt(x, y)" },
    { "hypot", "x y", "np.hypot(x, y)", "torch.hypot(x, y)" },
    { "isclose", "x y", "np.isclose(x, y)", "torch.isclose(x, y)" },
    { "le", "x y", "np.less_equal(x, y)", "torch.le(x, y)" },
    { "lerp", "x y", "x + f32(0.3) * (y - x)", "torch.lerp(x, y, 0.3)", function(x, y) return ty.lerp(x, y, 0.3) end },
    { "logaddexp", "x y", "np.logaddexp(x, y)", "torch.logaddexp(x, y)" },
    { "logical_and", "m o", "np.logical_and(m, o)", "torch.logical_and(m, o)" },
    { "logical_or", "m o", "np.logical_or(m, o)", "torch.logical_or(m, o)" },
    { "logical_xor", "m o", "np.logical_xor(m, o)", "torch.logical_xor(m, o)" },
    { "lshift", "a s", "np.left_shift(a, s)", "torch.bitwise_left_shift(a, s)" },
    { "lt", "x y", "np.less(x, y)", "torch.lt(x, y)" },
    { "masked_fill", "x m", "np.where(m, f32(0.5), x)", "x.masked_fill(m, 0.5)",
      function(x, m) return ty.masked_fill(x, m, 0.5) end },
    { "maximum", "x y", "np.maximum(x, y)", "torch.maximum(x, y)" },
    { "minimum", "x y", "np.minimum(x, y)", "torch.minimum(x, y)" },
    { "mul", "x y", "np.multiply(x, y)", "torch.mul(x, y)" },
    { "ne", "x y", "np.not_equal(x, y)", "torch.ne(x, y)" },
    { "pow", "p x", "np.power(p, x)", "torch.pow(p, x)" },
    { "pow, 3", "x", "np.power(x, f32(3))", "torch.pow(x, 3)", function(x) return ty.pow(x, 3) end },
    { "remainder", "x p", "np.remainder(x, p)", "torch.remainder(x, p)" },
    { "rshift", "a s", "np.right_shift(a, s)", "torch.bitwise_right_shift(a, s)" },
    { "sub", "x y", "np.subtract(x, y)", "torch.sub(x, y)" },
    { "where", "m x y", "np.where(m, x, y)", "torch.where(m, x, y)" },
    { "addcdiv", "x y p", "x + y / p", "torch.addcdiv(x, y, p)" },
    { "addcmul", "x y z", "x + y * z", "torch.addcmul(x, y, z)" },
    { "float_power", "p x", "np.float_power(p, x)", "torch.float_power(p, x)" },
    { "fmax", "x y", "np.fmax(x, y)", "torch.fmax(x, y)" },
    { "fmin", "x y", "np.fmin(x, y)", "torch.fmin(x, y)" },
    { "heaviside", "x y", "np.heaviside(x, y)", "torch.heaviside(x, y)", -- which has no gradient
      function(x, y) return ty.heaviside(x:detach(), y:detach()) end },
    { "ldexp", "x s", "np.ldexp(x, s)", "torch.ldexp(x, s)" },
    { "logaddexp2", "x y", "np.logaddexp2(x, y)", "torch.logaddexp2(x, y)" },
    { "prelu", "x v", "", "F.prelu(x, v)" },
    { "xlog1py", "x p", "", "torch.special.xlog1py(x, p)" },
    { "xlogy", "x p", "", "torch.xlogy(x, p)" },
    { "allclose", "x", "np.allclose(x, x)", "torch.allclose(x, x)", function(x) return ty.allclose(x, x) end },
    { "equal", "x", "np.array_equal(x, x)", "torch.equal(x, x.view(-1).view(n, n))",
      function(x) return ty.equal(x, x:t():t()) end },
  },
  { sizes = { 16, 256, 1000 }, -- written in place
    { "add_", "x y", "np.add(x, y, out=x)", "x.add_(y)" },
    { "clamp_", "x", "np.clip(x, -1, 1, out=x)", "x.clamp_(-1, 1)", function(x) return x:clamp_(-1, 1) end },
    { "copy_", "x y", "np.copyto(x, y)", "x.copy_(y)", drawn = true },
    { "fill_", "x", "x.fill(3)", "x.fill_(3)", function(x) return x:fill_(3) end, drawn = true },
    { "index_add_", "x k y", "np.add.at(x, k, y)", "x.index_add_(0, k, y)",
      function(x, k, y) return x:index_add_(1, k, y) end },
    { "masked_fill_", "x m", "np.putmask(x, m, f32(0.5))", "x.masked_fill_(m, 0.5)",
      function(x, m) return x:masked_fill_(m, 0.5) end },
    { "cauchy_", "x", "", "x.cauchy_()", drawn = true },
    { "exponential_", "x", "", "x.exponential_()", drawn = true },
    { "geometric_", "x", "", "x.geometric_(0.5)", function(x) return x:geometric_(0.5) end, drawn = true },
    { "log_normal_", "x", "", "x.log_normal_()", drawn = true },
    { "normal_", "x", "", "x.normal_()", drawn = true },
    { "random_", "x", "", "x.random_(0, 100)", function(x) return x:random_(0, 99) end, drawn = true },
    { "scatter_", "x j y", "np.put_along_axis(x, j, y, 1)", "x.scatter_(1, j, y)",
      function(x, j, y) return x:scatter_(2, j, y) end },
    { "scatter_add_", "x i y", "", "x.scatter_add_(1, i, y)",
      function(x, i, y) return x:scatter_add_(2, i, y) end },
    { "sigmoid_", "x", "", "x.sigmoid_()" },
    { "tril_", "x", "", "x.tril_()" },
    { "uniform_", "x", "", "x.uniform_()", drawn = true },
    { "zero_", "x", "x.fill(0)", "x.zero_()", drawn = true },
    { "set", "x", "x.__setitem__((0, 0), 0.5)", "x.__setitem__((0, 0), 0.5)",
      function(x) return x:set(1, 1, 0.5) end, drawn = true },
  },
  { sizes = { 16, 256, 1000 }, -- over all, rows, columns
    { "all", "yes", "np.all(yes)", "torch.all(yes)" },
    { "all, seen early", "m", "np.all(m)", "torch.all(m)" },
    { "all, rows", "yes", "np.all(yes, 1)", "torch.all(yes, 1)", function(m) return ty.all(m, 2) end },
    { "any", "no", "np.any(no)", "torch.any(no)" },
    { "any, seen early", "m", "np.any(m)", "torch.any(m)" },
    { "any, columns", "no", "np.any(no, 0)", "torch.any(no, 0)", function(m) return ty.any(m, 1) end },
    { "argmax", "x", "np.argmax(x)", "torch.argmax(x)" },
    { "argmax, rows", "x", "np.argmax(x, 1)", "torch.argmax(x, 1)", function(x) return ty.argmax(x, 2) end },
    { "argmax, columns", "x", "np.argmax(x, 0)", "torch.argmax(x, 0)", function(x) return ty.argmax(x, 1) end },
    { "argmin", "x", "np.argmin(x)", "torch.argmin(x)" },
    { "argmin, rows", "x", "np.argmin(x, 1)", "torch.argmin(x, 1)", function(x) return ty.argmin(x, 2) end },
    { "count_nonzero", "m", "np.count_nonzero(m)", "torch.count_nonzero(m)" },
    { "count_nonzero, rows", "x", "np.count_nonzero(x, 1)", "torch.count_nonzero(x, 1)",
      function(x) return ty.count_nonzero(x, 2) end },
    { "logsumexp", "x", "", "torch.logsumexp(x, (0, 1))" },
    { "logsumexp, rows", "x", "", "torch.logsumexp(x, 1)", function(x) return ty.logsumexp(x, 2) end },
    { "logsumexp, columns", "x", "", "torch.logsumexp(x, 0)", function(x) return ty.logsumexp(x, 1) end },
    { "max", "x", "np.max(x)", "torch.max(x)" },
    { "max, rows", "x", "np.max(x, 1)", "torch.amax(x, 1)", function(x) return ty.max(x, 2) end },
    { "max, columns", "x", "np.max(x, 0)", "torch.amax(x, 0)", function(x) return ty.max(x, 1) end },
    { "mean", "x", "np.mean(x)", "torch.mean(x)" },
    { "mean, rows", "x", "np.mean(x, 1)", "torch.mean(x, 1)", function(x) return ty.mean(x, 2) end },
    { "mean, columns", "x", "np.mean(x, 0)", "torch.mean(x, 0)", function(x) return ty.mean(x, 1) end },
    { "median", "x", "np.median(x)", "torch.median(x)" },
    { "median, rows", "x", "np.median(x, 1)", "torch.median(x, 1)", function(x) return ty.median(x, 2) end },
    { "min", "x", "np.min(x)", "torch.min(x)" },
    { "min, rows", "x", "np.min(x, 1)", "torch.amin(x, 1)", function(x) return ty.min(x, 2) end },
    { "norm", "x", "np.linalg.norm(x)", "torch.linalg.vector_norm(x)" },
    { "norm, rows", "x", "np.linalg.norm(x, axis=1)", "torch.linalg.vector_norm(x, dim=1)",
      function(x) return ty.norm(x, 2, 2) end },
    { "norm, of order 1", "x", "np.abs(x).sum()", "torch.linalg.vector_norm(x, 1)",
      function(x) return ty.norm(x, 1) end },
    { "prod", "p", "np.prod(p)", "torch.prod(p)" },
    { "prod, rows", "p", "np.prod(p, 1)", "torch.prod(p, 1)", function(p) return ty.prod(p, 2) end },
    { "std", "x", "np.std(x, ddof=1)", "torch.std(x)" },
    { "std, rows", "x", "np.std(x, 1, ddof=1)", "torch.std(x, 1)", function(x) return ty.std(x, 2) end },
    { "sum", "x", "np.sum(x)", "torch.sum(x)" },
    { "sum, rows", "x", "np.sum(x, 1)", "torch.sum(x, 1)", function(x) return ty.sum(x, 2) end },
    { "sum, columns", "x", "np.sum(x, 0)", "torch.sum(x, 0)", function(x) return ty.sum(x, 1) end },
    { "sum, bools", "m", "np.sum(m)", "torch.sum(m)" },
    { "aminmax", "x", "(np.min(x), np.max(x))", "torch.aminmax(x)" },
    { "nanmax", "x", "np.nanmax(x)", "" },
    { "nanmean", "x", "np.nanmean(x)", "torch.nanmean(x)" },
    { "nanmedian", "x", "", "torch.nanmedian(x)" },
    { "nanmin", "x", "np.nanmin(x)", "" },
    { "nansum", "x", "np.nansum(x)", "torch.nansum(x)" },
    { "quantile, rows", "x", "np.quantile(x, 0.3, 1)", "torch.quantile(x, 0.3, 1)",
      function(x) return ty.quantile(x, 0.3, 2) end },
    { "trace", "x", "np.trace(x)", "torch.trace(x)" },
    { "var_mean", "x", "(np.var(x, ddof=1), np.mean(x))", "torch.var_mean(x)" },
    { "var", "x", "np.var(x, ddof=1)", "torch.var(x)" },
    { "var, rows", "x", "np.var(x, 1, ddof=1)", "torch.var(x, 1)", function(x) return ty.var(x, 2) end },
    { "var, columns", "x", "np.var(x, 0, ddof=1)", "torch.var(x, 0)", function(x) return ty.var(x, 1) end },
  },
  { sizes = { 16, 256, 1000 }, -- scans, orders, searches
    { "argsort", "x", "np.argsort(x, 1, kind='stable')", "torch.argsort(x, dim=1, stable=True)" },
    { "cummax", "x", "np.maximum.accumulate(x, 1)", "torch.cummax(x, 1)", function(x) return ty.cummax(x, 2) end },
    { "cummin", "x", "np.minimum.accumulate(x, 1)", "torch.cummin(x, 1)", function(x) return ty.cummin(x, 2) end },
    { "cumprod", "c", "np.cumprod(c, 1)", "torch.cumprod(c, 1)", function(c) return ty.cumprod(c, 2) end },
    { "cumsum", "x", "np.cumsum(x, 1)", "torch.cumsum(x, 1)", function(x) return ty.cumsum(x, 2) end },
    { "cumsum, columns", "x", "np.cumsum(x, 0)", "torch.cumsum(x, 0)", function(x) return ty.cumsum(x, 1) end },
    { "logcumsumexp", "x", "np.logaddexp.accumulate(x, 1)", "torch.logcumsumexp(x, 1)",
      function(x) return ty.logcumsumexp(x, 2) end },
    { "bincount", "k", "np.bincount(k)", "torch.bincount(k)" },
    { "bucketize", "e r", "np.digitize(e, r)", "torch.bucketize(e, r)", drawn = true },
    { "diff", "x", "np.diff(x)", "torch.diff(x)" },
    { "histc", "e", "np.histogram(e, 100)[0]", "torch.histc(e)" },
    { "histogram", "e", "np.histogram(e)", "torch.histogram(e, 10)" },
    { "interp", "e r r", "np.interp(e, r, r)", "" },
    { "isin", "a k", "np.isin(a, k)", "torch.isin(a, k)", drawn = true },
    { "kthvalue", "x", "", "torch.kthvalue(x, 5)", function(x) return ty.kthvalue(x, 5) end },
    { "mode", "a", "", "torch.mode(a)" },
    { "multinomial", "p", "", "torch.multinomial(p, 8, True)",
      function(p) return ty.multinomial(p, 8, true) end, drawn = true },
    { "nonzero", "m", "np.argwhere(m)", "torch.nonzero(m)" },
    { "searchsorted", "r e", "np.searchsorted(r, e)", "torch.searchsorted(r, e)" },
    { "sort", "x", "(lambda k: (np.take_along_axis(x, k, 1), k))(np.argsort(x, 1, kind='stable'))",
      "torch.sort(x, dim=1, stable=True)" },
    { "sort, columns", "x", "(lambda k: (np.take_along_axis(x, k, 0), k))(np.argsort(x, 0, kind='stable'))",
      "torch.sort(x, dim=0, stable=True)", function(x) return ty.sort(x, 1) end },
    { "sort, one row", "e", "(lambda k: (e[k], k))(np.argsort(e, kind='stable'))", "torch.sort(e, stable=True)" },
    { "sort, values alone", "x", "np.sort(x, 1)", "", function(x) return ty.sort(x, 2) end },
    { "topk", "x", "", "torch.topk(x, 10)", function(x) return ty.topk(x, 10) end },
    { "unique", "a", "np.unique(a, return_inverse=True)", "torch.unique(a, return_inverse=True)" },
    { "unique, floats", "e", "np.unique(e, return_inverse=True)", "torch.unique(e, return_inverse=True)" },
  },
  { sizes = { 16, 256, 1000 }, -- places: taken, put, joined
    { "cat", "x y", "np.concatenate((x, y))", "torch.cat((x, y))", function(x, y) return ty.cat { x, y } end },
    { "cat, columns", "x y", "np.concatenate((x, y), 1)", "torch.cat((x, y), 1)",
      function(x, y) return ty.cat({ x, y }, 2) end },
    { "flip, copied", "x", "np.flip(x).copy()", "torch.flip(x, (0, 1))",
      function(x) return x:flip():contiguous() end },
    { "gather", "x i", "np.take_along_axis(x, i, 1)", "torch.gather(x, 1, i)",
      function(x, i) return ty.gather(x, 2, i) end },
    { "get", "x", "x[0, 0].item()", "x[0, 0].item()", function(x) return x:get(1, 1) end },
    { "index_add", "x k y", "", "torch.index_add(x, 0, k, y)",
      function(x, k, y) return ty.index_add(x, 1, k, y) end },
    { "index_select", "x k", "np.take(x, k, 0)", "torch.index_select(x, 0, k)",
      function(x, k) return ty.index_select(x, 1, k) end },
    { "index_select, columns", "x k", "np.take(x, k, 1)", "torch.index_select(x, 1, k)",
      function(x, k) return ty.index_select(x, 2, k) end },
    { "index, a tensor", "x k", "x[k]", "x[k]", function(x, k) return x[k] end },
    { "interpolate, nearest", "x", "x.repeat(2, 0).repeat(2, 1)[None, None]",
      "F.interpolate(x[None, None], scale_factor=2)",
      function(x) return ty.interpolate(x[{ "new", "new" }], { scale = 2 }) end },
    { "interpolate, linear", "x", "", "F.interpolate(x[None, None], scale_factor=2, mode='bilinear')",
      function(x) return ty.interpolate(x[{ "new", "new" }], { scale = 2, mode = "linear" }) end },
    { "block_diag", "x y", "", "torch.block_diag(x, y)" },
    { "diag_embed", "v", "np.diag(v)", "torch.diag_embed(v)" },
    { "index_copy", "x j y", "", "torch.index_copy(x, 0, j[0], y)",
      function(x, j, y) return ty.index_copy(x, 1, j[1], y) end },
    { "index_fill", "x k", "", "torch.index_fill(x, 0, k, 0.5)",
      function(x, k) return ty.index_fill(x, 1, k, 0.5) end },
    { "index_put", "x k v", "", "torch.index_put(x, (k,), v, True)",
      function(x, k, v) return ty.index_put(x, { k }, v, true) end },
    { "masked_scatter", "x m y", "", "torch.masked_scatter(x, m, y)" },
    { "rot90, copied", "x", "np.rot90(x).copy()", "torch.rot90(x)",
      function(x) return ty.rot90(x):contiguous() end },
    { "scatter_reduce", "x i y", "", "torch.scatter_reduce(x, 1, i, y, 'amax')",
      function(x, i, y) return ty.scatter_reduce(x, 2, i, y, "amax") end },
    { "select_scatter", "x v", "", "torch.select_scatter(x, v, 0, 5)",
      function(x, v) return ty.select_scatter(x, v, 1, 6) end },
    { "tril_indices", "n", "np.tril_indices(n)", "torch.tril_indices(n, n)", drawn = true },
    { "triu_indices", "n", "np.triu_indices(n)", "torch.triu_indices(n, n)", drawn = true },
    { "vander", "v", "np.vander(v, 8)", "torch.vander(v, 8)", function(v) return ty.vander(v, 8) end },
    { "masked_select", "x m", "x[m]", "torch.masked_select(x, m)" },
    { "meshgrid", "v w", "np.meshgrid(v, w, indexing='ij')", "torch.meshgrid(v, w, indexing='ij')" },
    { "one_hot", "k n", "(k[:, None] == np.arange(n)).astype(i64)", "F.one_hot(k, n)" },
    { "pad", "x", "np.pad(x, ((1, 1), (2, 2)))", "F.pad(x, (2, 2, 1, 1))",
      function(x) return ty.pad(x, { { 1, 1 }, { 2, 2 } }) end },
    { "repeat_interleave", "x", "np.repeat(x, 2, 1)", "torch.repeat_interleave(x, 2, 1)",
      function(x) return ty.repeat_interleave(x, 2, 2) end },
    { "roll", "x", "np.roll(x, (3, 5), (0, 1))", "torch.roll(x, (3, 5), (0, 1))",
      function(x) return ty.roll(x, { 3, 5 }, { 1, 2 }) end },
    { "scatter", "x j y", "", "torch.scatter(x, 1, j, y)", function(x, j, y) return ty.scatter(x, 2, j, y) end },
    { "scatter_add", "x i y", "", "torch.scatter_add(x, 1, i, y)",
      function(x, i, y) return ty.scatter_add(x, 2, i, y) end },
    { "stack", "x y", "np.stack((x, y))", "torch.stack((x, y))", function(x, y) return ty.stack { x, y } end },
    { "stack, last", "x y", "np.stack((x, y), 2)", "torch.stack((x, y), 2)",
      function(x, y) return ty.stack({ x, y }, 3) end },
    { "take", "x i", "np.take(x, i)", "torch.take(x, i)" },
    { "tensor", "list", "np.array(list, f32)", "torch.tensor(list)" },
    { "tile", "x", "np.tile(x, (2, 2))", "torch.tile(x, (2, 2))", function(x) return ty.tile(x, { 2, 2 }) end },
    { "totable", "x", "x.tolist()", "x.tolist()", function(x) return #x:totable() end, drawn = true },
    { "tril", "x", "np.tril(x)", "torch.tril(x)" },
    { "triu", "x", "np.triu(x)", "torch.triu(x)" },
    { "item", "x", "x[0, 0].item()", "x[0, 0].item()", function(x) return x[{ 1, 1 }]:item() end },
  },
  { sizes = { 1000 }, -- views
    { "chunk", "x", "np.split(x, 10)", "torch.chunk(x, 10)", function(x) return ty.chunk(x, 10) end },
    { "detach", "x", "x.view()", "x.detach()" },
    { "diagonal", "x", "np.diagonal(x)", "torch.diagonal(x)" },
    { "expand", "v n", "np.broadcast_to(v, (n, n))", "v.expand(n, n)", function(v, n) return v:expand(n, n) end },
    { "flatten", "x", "x.reshape(-1)", "torch.flatten(x)" },
    { "flip", "x", "np.flip(x)", "" },
    { "index, ranges", "x", "x[1:9, 1:99:2]", "x[1:9, 1:99:2]", function(x) return x[{ { 2, 9 }, { 2, 99, 2 } }] end },
    { "index, a number", "x", "x[5]", "x[5]", function(x) return x[6] end },
    { "movedim", "x", "np.moveaxis(x, 0, 1)", "torch.movedim(x, 0, 1)",
      function(x) return ty.movedim(x, 1, 2) end },
    { "narrow", "x", "x[10:20]", "torch.narrow(x, 0, 10, 10)", function(x) return ty.narrow(x, 1, 11, 10) end },
    { "permute", "x", "np.transpose(x, (1, 0))", "torch.permute(x, (1, 0))",
      function(x) return x:permute(2, 1) end },
    { "reshape", "x", "x.reshape(-1, 10)", "torch.reshape(x, (-1, 10))", function(x) return x:reshape(-1, 10) end },
    { "rows", "x", "[t for t in x]", "[t for t in x]",
      function(x)
        for _ in x:rows() do end
        return 0
      end, drawn = true },
    { "slice", "x", "x[10:90:2]", "x[10:90:2]", function(x) return ty.slice(x, 1, 11, 90, 2) end },
    { "split", "x", "np.split(x, 10)", "torch.split(x, 100)", function(x) return ty.split(x, 100) end },
    { "squeeze", "x", "x[None].squeeze()", "x[None].squeeze()", function(x) return x:unsqueeze(1):squeeze() end },
    { "t", "x", "x.T", "x.t()" },
    { "transpose", "x", "x.swapaxes(0, 1)", "torch.transpose(x, 0, 1)", function(x) return x:transpose(1, 2) end },
    { "unbind", "x", "", "torch.unbind(x)" },
    { "unflatten", "x", "x.reshape(10, 100, n)", "x.unflatten(0, (10, 100))",
      function(x) return x:unflatten(1, { 10, 100 }) end },
    { "unfold", "v", "np.lib.stride_tricks.sliding_window_view(v, 8)", "v.unfold(0, 8, 1)",
      function(v) return v:unfold(1, 8) end },
    { "unsqueeze", "x", "x[:, None]", "torch.unsqueeze(x, 1)", function(x) return x:unsqueeze(2) end },
    { "view", "x", "x.reshape(-1)", "x.view(-1)", function(x) return x:view(-1) end },
  },
  { sizes = { 16, 128, 512 }, -- products
    { "addmm", "z x y", "z + x @ y", "torch.addmm(z, x, y)" },
    { "bmm", "batch other", "batch @ other", "torch.bmm(batch, other)" },
    { "contract", "x y", "x @ y", "x @ y", function(x, y) return ty.contract(x, y, 0, 1) end },
    { "einsum", "x y", "np.einsum('ij,jk->ik', x, y, optimize=True)", "torch.einsum('ij,jk->ik', x, y)",
      function(x, y) return ty.einsum("ij,jk->ik", x, y) end },
    { "baddbmm", "batch other", "batch + batch @ other", "torch.baddbmm(batch, batch, other)",
      function(x, y) return ty.baddbmm(x, x, y) end },
    { "cdist", "x y", "", "torch.cdist(x, y)" },
    { "corrcoef", "x", "np.corrcoef(x)", "torch.corrcoef(x)" },
    { "cov", "x", "np.cov(x)", "torch.cov(x)" },
    { "inner", "x y", "np.inner(x, y)", "torch.inner(x, y)" },
    { "matmul", "x y", "x @ y", "torch.matmul(x, y)" },
    { "matmul, a vector", "x v", "x @ v", "torch.matmul(x, v)" },
    { "tensordot", "batch other", "np.tensordot(batch, other, ((0, 2), (0, 2)))",
      "torch.tensordot(batch, other, ((0, 2), (0, 2)))",
      function(x, y) return ty.tensordot(x, y, { { 1, 3 }, { 1, 3 } }) end },
  },
  { sizes = { 16, 256, 1000 },
    { "dot", "e r", "np.dot(e, r)", "torch.dot(e, r)" },
    { "cross", "x y", "np.cross(x[:, :3], y[:, :3])", "torch.linalg.cross(x[:, :3], y[:, :3])",
      function(x, y) return ty.cross(x:narrow(2, 1, 3), y:narrow(2, 1, 3)) end },
    { "convolve", "v w", "np.convolve(v, w)", "" },
    { "vecdot", "x y", "(x * y).sum(-1)", "torch.linalg.vecdot(x, y)" },
    { "outer", "v w", "np.outer(v, w)", "torch.outer(v, w)" },
  },
  { sizes = { 8, 32, 128 }, -- windows
    { "adaptive_avg_pool1d", "sound", "", "F.adaptive_avg_pool1d(sound, 7)",
      function(x) return ty.adaptive_avg_pool1d(x, 7) end },
    { "adaptive_avg_pool2d", "image", "", "F.adaptive_avg_pool2d(image, 7)",
      function(x) return ty.adaptive_avg_pool2d(x, 7) end },
    { "adaptive_max_pool1d", "sound", "", "F.adaptive_max_pool1d(sound, 7)",
      function(x) return ty.adaptive_max_pool1d(x, 7) end },
    { "adaptive_max_pool2d", "image", "", "F.adaptive_max_pool2d(image, 7)",
      function(x) return ty.adaptive_max_pool2d(x, 7) end },
    { "avg_pool1d", "sound", "", "F.avg_pool1d(sound, 2)", function(x) return ty.avg_pool1d(x, 2) end },
    { "avg_pool2d", "image", "", "F.avg_pool2d(image, 2)", function(x) return ty.avg_pool2d(x, 2) end },
    { "conv1d", "sound taps bias", "", "F.conv1d(sound, taps, bias, padding=1)",
      function(x, w, b) return ty.conv1d(x, w, b, { padding = 1 }) end },
    { "conv2d", "image kernel bias", "", "F.conv2d(image, kernel, bias, padding=1)",
      function(x, w, b) return ty.conv2d(x, w, b, { padding = 1 }) end },
    { "conv2d, stride 2", "image kernel bias", "", "F.conv2d(image, kernel, bias, 2, 1)",
      function(x, w, b) return ty.conv2d(x, w, b, { stride = 2, padding = 1 }) end },
    { "conv_transpose1d", "sound taps bias", "", "F.conv_transpose1d(sound, taps, bias)" },
    { "conv_transpose2d", "image kernel bias", "", "F.conv_transpose2d(image, kernel, bias)" },
    { "affine_grid", "theta n", "", "F.affine_grid(theta, (4, 16, n, n), False)",
      function(theta, n) return ty.affine_grid(theta, { 4, 16, n, n }) end },
    { "grid_sample", "image grid", "", "F.grid_sample(image, grid, align_corners=False)" },
    { "lp_pool1d", "sound", "", "F.lp_pool1d(sound, 2, 2)", function(x) return ty.lp_pool1d(x, 2, 2) end },
    { "lp_pool2d", "image", "", "F.lp_pool2d(image, 2, 2)", function(x) return ty.lp_pool2d(x, 2, 2) end },
    { "pixel_shuffle", "image", "", "F.pixel_shuffle(image, 2)", function(x) return ty.pixel_shuffle(x, 2) end },
    { "pixel_unshuffle", "image", "", "F.pixel_unshuffle(image, 2)",
      function(x) return ty.pixel_unshuffle(x, 2) end },
    { "interpolate, images", "image", "", "F.interpolate(image, scale_factor=2, mode='bilinear')",
      function(x) return ty.interpolate(x, { scale = 2, mode = "linear" }) end },
    { "max_pool1d", "sound", "", "F.max_pool1d(sound, 2)", function(x) return ty.max_pool1d(x, 2) end },
    { "max_pool2d", "image", "", "F.max_pool2d(image, 2)", function(x) return ty.max_pool2d(x, 2) end },
    { "max_pool2d, overlapping", "image", "", "F.max_pool2d(image, 3, 2, 1)",
      function(x) return ty.max_pool2d(x, 3, { stride = 2, padding = 1 }) end },
  },
  { sizes = { 4, 8, 24 },
    { "adaptive_avg_pool3d", "volume", "", "F.adaptive_avg_pool3d(volume, 3)",
      function(x) return ty.adaptive_avg_pool3d(x, 3) end },
    { "adaptive_max_pool3d", "volume", "", "F.adaptive_max_pool3d(volume, 3)",
      function(x) return ty.adaptive_max_pool3d(x, 3) end },
    { "avg_pool3d", "volume", "", "F.avg_pool3d(volume, 2)", function(x) return ty.avg_pool3d(x, 2) end },
    { "conv_transpose3d", "volume cube", "", "F.conv_transpose3d(volume, cube)" },
    { "max_pool3d", "volume", "", "F.max_pool3d(volume, 2)", function(x) return ty.max_pool3d(x, 2) end },
    { "conv3d", "volume cube", "", "F.conv3d(volume, cube, padding=1)",
      function(x, w) return ty.conv3d(x, w, nil, { padding = 1 }) end },
  },
  { sizes = { 16, 256, 1000 }, -- complex numbers
    { "abs, complex", "zed", "np.abs(zed)", "torch.abs(zed)" },
    { "add, complex", "zed why", "zed + why", "zed + why" },
    { "angle", "zed", "np.angle(zed)", "torch.angle(zed)" },
    { "complex", "x y", "", "torch.complex(x, y)" },
    { "conj", "zed", "np.conj(zed)", "torch.conj_physical(zed)" },
    { "div, complex", "zed why", "zed / why", "zed / why" },
    { "exp, complex", "zed", "np.exp(zed)", "torch.exp(zed)" },
    { "imag", "zed", "zed.imag", "zed.imag" },
    { "log, complex", "zed", "np.log(zed)", "torch.log(zed)" },
    { "mul, complex", "zed why", "zed * why", "zed * why" },
    { "polar", "p x", "", "torch.polar(p, x)" },
    { "real", "zed", "zed.real", "torch.real(zed)" },
    { "sum, complex", "zed", "np.sum(zed)", "torch.sum(zed)" },
    { "sqrt, complex", "zed", "np.sqrt(zed)", "torch.sqrt(zed)" },
  },
  { sizes = { 16, 128, 512 },
    { "matmul, complex", "zed why", "zed @ why", "torch.matmul(zed, why)" },
  },
  { sizes = { 16, 256, 1000 }, -- transforms of rows, of both dims, of pieces of a signal
    { "fft.fft", "zed", "np.fft.fft(zed)", "torch.fft.fft(zed)" },
    { "fft.fft2", "zed", "np.fft.fft2(zed)", "torch.fft.fft2(zed)" },
    { "fft.ifft", "zed", "np.fft.ifft(zed)", "torch.fft.ifft(zed)" },
    { "fft.irfft", "zed", "np.fft.irfft(zed)", "torch.fft.irfft(zed)" },
    { "fft.rfft", "x", "np.fft.rfft(x)", "torch.fft.rfft(x)" },
    { "fft.rfft2", "x", "np.fft.rfft2(x)", "torch.fft.rfft2(x)" },
    { "istft", "wave", "", "torch.istft(torch.stft(wave, 64, 16, return_complex=True), 64, 16)",
      function(x)
        local options = { hop_length = 16 }
        return ty.istft(ty.stft(x, 64, options), 64, options)
      end },
    { "stft", "wave", "", "torch.stft(wave, 64, 16, return_complex=True)",
      function(x) return ty.stft(x, 64, { hop_length = 16 }) end },
  },
  { sizes = { 15, 25, 75, 128 }, -- short lines of f64
    { "fft.fft, f64", "widez", "np.fft.fft(widez)", "torch.fft.fft(widez)" },
    { "fft.rfft, f64", "wide", "np.fft.rfft(wide)", "torch.fft.rfft(wide)" },
  },
  { sizes = { 16, 128, 512 },
    { "scaled_dot_product_attention", "query key value", "", "F.scaled_dot_product_attention(query, key, value)" },
    { "scaled_dot_product_attention, causal", "query key value", "",
      "F.scaled_dot_product_attention(query, key, value, is_causal=True)",
      function(q, k, v) return ty.scaled_dot_product_attention(q, k, v, { causal = true }) end },
  },
  { sizes = { 16, 256, 1000 }, -- norms, softmax, losses
    { "dropout", "x", "", "F.dropout(x, 0.5)", drawn = true },
    { "layer_norm", "x v w", "", "F.layer_norm(x, (n,), v, w)" },
    { "log_softmax", "x", "", "F.log_softmax(x, 1)" },
    { "rms_norm", "x v", "", "F.rms_norm(x, (n,), v, 1e-5)" },
    { "softmax", "x", "(lambda e: e / e.sum(1, keepdims=True))(np.exp(x - x.max(1, keepdims=True)))",
      "F.softmax(x, 1)" },
    { "softmax, columns", "x", "(lambda e: e / e.sum(0))(np.exp(x - x.max(0)))", "F.softmax(x, 0)",
      function(x) return ty.softmax(x, 1) end },
    { "glu", "x", "", "F.glu(x)" },
    { "normalize", "x", "", "F.normalize(x)" },
    { "binary_cross_entropy", "c d", "", "F.binary_cross_entropy(c, d.detach())",
      function(c, d) return ty.binary_cross_entropy(c, d:detach()) end },
    { "cosine_similarity", "x y", "", "F.cosine_similarity(x, y)" },
    { "ctc_loss", "speech labels n", "", "F.ctc_loss(speech, labels, [n] * 8, [4] * 8)",
      function(x, labels, n)
        local whole = { dtype = "i64" }
        return ty.ctc_loss(x, labels, ty.full({ 8 }, n, whole), ty.full({ 8 }, 4, whole))
      end },
    { "gaussian_nll_loss", "x y p", "", "F.gaussian_nll_loss(x, y, p)" },
    { "multi_margin_loss", "x k", "", "F.multi_margin_loss(x, k)" },
    { "pairwise_distance", "x y", "", "F.pairwise_distance(x, y)" },
    { "poisson_nll_loss", "x p", "", "F.poisson_nll_loss(x, p)" },
    { "triplet_margin_loss", "x y z", "", "F.triplet_margin_loss(x, y, z)" },
    { "bce_with_logits", "x c", "", "F.binary_cross_entropy_with_logits(x, c)" },
    { "cross_entropy", "x k", "", "F.cross_entropy(x, k)" },
    { "cross_entropy, chances", "x d", "", "F.cross_entropy(x, d)" },
    { "huber_loss", "x y", "", "F.huber_loss(x, y)" },
    { "kl_div", "l d", "", "F.kl_div(l, d)" },
    { "l1_loss", "x y", "np.abs(x - y).mean()", "F.l1_loss(x, y)" },
    { "mse_loss", "x y", "np.square(x - y).mean()", "F.mse_loss(x, y)" },
    { "nll_loss", "l k", "-l[np.arange(n), k].mean()", "F.nll_loss(l, k)" },
    { "smooth_l1_loss", "x y", "", "F.smooth_l1_loss(x, y)" },
  },
  { sizes = { 8, 64, 256 }, lapack = true, -- linear algebra
    { "linalg.cholesky", "positive", "np.linalg.cholesky(positive)", "torch.linalg.cholesky(positive)" },
    { "linalg.det", "positive", "np.linalg.det(positive)", "torch.linalg.det(positive)", drawn = true },
    { "linalg.eigh", "positive", "np.linalg.eigh(positive)", "torch.linalg.eigh(positive)" },
    { "linalg.eig", "positive", "np.linalg.eig(positive)", "torch.linalg.eig(positive)" },
    { "linalg.eigvals", "positive", "np.linalg.eigvals(positive)", "torch.linalg.eigvals(positive)" },
    { "linalg.eigvalsh", "positive", "np.linalg.eigvalsh(positive)", "torch.linalg.eigvalsh(positive)" },
    { "linalg.inv", "positive", "np.linalg.inv(positive)", "torch.linalg.inv(positive)" },
    { "linalg.lstsq", "positive x", "np.linalg.lstsq(positive, x)", "torch.linalg.lstsq(positive, x)" },
    { "linalg.qr", "general", "np.linalg.qr(general)", "torch.linalg.qr(general)", drawn = true },
    { "linalg.lu", "general", "", "torch.linalg.lu(general)[2]",
      function(a) return (select(3, linalg.lu(a))) end },
    { "linalg.matrix_exp", "positive", "", "torch.linalg.matrix_exp(positive)" },
    { "linalg.slogdet", "positive", "np.linalg.slogdet(positive)[1]", "torch.linalg.slogdet(positive)[1]",
      function(a) return (select(2, linalg.slogdet(a))) end },
    { "linalg.solve_triangular", "positive x", "", "torch.linalg.solve_triangular(positive, x, upper=True)",
      function(a, b) return linalg.solve_triangular(a, b, { upper = true }) end },
    { "linalg.svdvals", "general", "np.linalg.svd(general, compute_uv=False)", "torch.linalg.svdvals(general)" },
    { "linalg.solve", "positive x", "np.linalg.solve(positive, x)", "torch.linalg.solve(positive, x)" },
    { "linalg.svd", "general", "np.linalg.svd(general)", "torch.linalg.svd(general)", drawn = true },
  },
  { sizes = { 16, 256, 1000 }, -- made from nothing
    { "arange", "n", "np.arange(n * n, dtype=i64)", "torch.arange(n * n)", function(n) return ty.arange(n * n) end },
    { "bernoulli", "c", "", "torch.bernoulli(c)", drawn = true },
    { "empty", "n", "np.empty((n, n), f32)", "torch.empty(n, n)", function(n) return ty.empty(n, n) end, drawn = true },
    { "empty_like", "x", "np.empty_like(x)", "torch.empty_like(x)", drawn = true },
    { "eye", "n", "np.eye(n, dtype=f32)", "torch.eye(n)", function(n) return ty.eye(n) end },
    { "full", "n", "np.full((n, n), f32(3))", "torch.full((n, n), 3.0)", function(n) return ty.full({ n, n }, 3) end },
    { "full_like", "x", "np.full_like(x, 3)", "torch.full_like(x, 3)", function(x) return ty.full_like(x, 3) end },
    { "linspace", "n", "np.linspace(0, 1, n * n, dtype=f32)", "torch.linspace(0, 1, n * n)",
      function(n) return ty.linspace(0, 1, n * n) end },
    { "normal", "n", "", "torch.normal(0.0, 1.0, (n, n))",
      function(n) return ty.normal(0, 1, { n, n }) end, drawn = true },
    { "ones", "n", "np.ones((n, n), f32)", "torch.ones(n, n)", function(n) return ty.ones(n, n) end },
    { "ones_like", "x", "np.ones_like(x)", "torch.ones_like(x)" },
    { "logspace", "n", "np.logspace(0, 1, n * n, dtype=f32)", "torch.logspace(0, 1, n * n)",
      function(n) return ty.logspace(0, 1, n * n) end },
    { "poisson", "p", "", "torch.poisson(p)", drawn = true },
    { "rand", "n", "np.random.default_rng(1).random((n, n), f32)", "torch.rand(n, n)",
      function(n) return ty.rand(n, n) end, drawn = true },
    { "rand_like", "x", "", "torch.rand_like(x)", drawn = true },
    { "randint", "n", "np.random.default_rng(1).integers(0, 100, (n, n))", "torch.randint(0, 100, (n, n))",
      function(n) return ty.randint(0, 99, { n, n }) end, drawn = true },
    { "randn", "n", "np.random.default_rng(1).standard_normal((n, n), f32)", "torch.randn(n, n)",
      function(n) return ty.randn(n, n) end, drawn = true },
    { "randn_like", "x", "", "torch.randn_like(x)", drawn = true },
    { "randperm", "n", "np.random.default_rng(1).permutation(n * n)", "torch.randperm(n * n)",
      function(n) return ty.randperm(n * n) end, drawn = true },
    { "range", "n", "np.arange(1, n * n + 1, dtype=i64)", "torch.arange(1, n * n + 1)",
      function(n) return ty.range(n * n) end },
    { "tri", "n", "np.tri(n, dtype=f32)", "torch.ones(n, n).tril()" },
    { "uniform", "n", "", "torch.empty(n, n).uniform_(-1, 1)",
      function(n) return ty.uniform(-1, 1, { n, n }) end, drawn = true },
    { "zeros", "n", "np.zeros((n, n), f32)", "torch.zeros(n, n)", function(n) return ty.zeros(n, n) end },
    { "zeros_like", "x", "np.zeros_like(x)", "torch.zeros_like(x)" },
  },
}

--- What has no row, by its reason. Forms that write in place have none where their plain form has one.
local excluded = {
  ["tells of a tensor without a look at its elements"] = "dim is_contiguous is_floating_point is_tensor numel size "
    .. "stride",
  ["tells of dtypes"] = "finfo iinfo promote_types result_type",
  ["sets or tells how things are done"] = "blas default_dtype deterministic device manual_seed precision random_state "
    .. "requires_grad_ set_print stats synchronize threads",
  ["memory, without its elements"] = "from_ptr release scope",
  ["runs or changes functions of the user: rows of `make bench`"] = "autocast backward budget check checkpoint compile "
    .. "custom_grad deadline detect_anomaly disable enable_grad explain export grad gradcheck graph hessian jacobian "
    .. "jvp no_grad pass profile reset scan stance start value_and_grad vmap warmup",
  ["changes gradients, of which every row \"gradient\" makes some"] = "clip_grad_norm_ clip_grad_value_",
  ["complex numbers: a view, or made of what has rows"] = "adjoint conj_ is_complex iscomplex isreal vdot "
    .. "view_as_complex view_as_real",
  ["windows, which are made once"] = "bartlett_window blackman_window hamming_window hann_window kaiser_window",
  ["made of transforms that have rows"] = "fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft2 fft.ifftn "
    .. "fft.ifftshift fft.ihfft fft.irfft2 fft.irfftn fft.rfftfreq fft.rfftn",
  ["a view, or few of those that have rows"] = "as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors diag "
    .. "dsplit fliplr flipud hsplit select tensor_split vsplit",
  ["made of products that have rows"] = "addmv addr kron mm mv linalg.matrix_power linalg.multi_dot linalg.tensorinv "
    .. "linalg.tensorsolve",
  ["made of decompositions and norms that have rows"] = "linalg.cond linalg.matrix_norm linalg.matrix_rank linalg.norm "
    .. "linalg.pinv linalg.vector_norm polyfit",
  ["made of joins, places and copies that have rows"] = "cartesian_prod column_stack combinations diagflat "
    .. "diagonal_scatter dstack fold hstack max_unpool1d max_unpool2d max_unpool3d slice_scatter take_along_dim vstack",
  ["made of reductions, orders and scans that have rows"] = "average cumulative_trapezoid msort nanquantile "
    .. "pdist percentile polyval ptp std_mean trapezoid",
  ["losses and layers made of elementwise functions, softmax and means, which have rows"] = "cosine_embedding_loss "
    .. "gumbel_softmax hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multilabel_soft_margin_loss "
    .. "soft_margin_loss softmin",
  ["files, text and pictures"] = "help load load_checkpoint load_weights plot progress save save_checkpoint show",
}

--- The public function of that name.
local function named(name)
  return ty[name] or linalg[name:match "^linalg%.(.*)$"] or ty.fft[name:match "^fft%.(.*)$"]
end

--- Raises where a public function is forgotten, or a row names what is none.
local function check_complete()
  local told, missing = { index = true }, {}
  for _, group in ipairs(groups) do
    for _, r in ipairs(group) do told[r[1]:match "^[^,]+"] = true end
  end
  for _, names in pairs(excluded) do
    for name in names:gmatch "%S+" do told[name] = true end
  end
  for _, row in ipairs(ty.internals.composites) do -- another name runs the function that it names
    if row.alias and ty[row.name] then told[row.name] = true end
  end
  local function visit(prefix, t)
    for name, fn in pairs(t) do
      local full = prefix .. name
      if type(fn) == "function" and not name:find "^_" and not told[full] and not told[full:gsub("_$", "")] then
        missing[#missing + 1] = full
      end
    end
  end
  visit("", ty)
  visit("linalg.", linalg)
  visit("fft.", ty.fft)
  table.sort(missing)
  assert(#missing == 0, "neither a row of bench/ops.lua nor excluded there: " .. table.concat(missing, " "))
  for name in pairs(told) do
    local fn = name == "index" or named(name)
    assert(fn, "bench/ops.lua names what is no function: " .. name)
  end
end

------------------------------------------------------------------------------------------------------------ our side

local known = {} -- inputs by name and size

--- The tensor of that name and size; peers find it in a file.
local function input(name, n)
  if name == "n" then return n end
  local key = ("%s_%d"):format(name, n)
  if known[key] == nil then
    local value = inputs[name](n)
    if not CHECK then
      assert(ty.save(("%s/ops/%s.npy"):format(build, key), counted_from_one[name] and value - 1 or value))
    end
    known[key] = value
  end
  return name == "list" and known[key]:totable() or known[key] -- none is kept: Lua's heap stays as small as a user's
end

local function first(y) return type(y) == "table" and y[1] or y end

--- The mean magnitude of a result: a number, a boolean, a tensor, or the first in a table.
local function magnitude(y)
  y = first(y)
  if type(y) == "boolean" then return y and 1 or 0 end
  return type(y) == "number" and math.abs(y) or y:abs():to("f64"):mean():item()
end

--- Frees up to three results.
local function free(y, z, w)
  if type(y) == "userdata" then y:release()
  elseif type(y) == "table" then for i = 1, #y do free(y[i]) end end
  if z then return free(z, w) end
end

--- Two functions: a call that frees its results, and one that gives the mean magnitude of the first.
local function forward(case)
  local f, a, b, c = case.fn, unpack(case.arguments)
  local function value() return magnitude((f(a, b, c))) end
  if case.fresh then return function() f(a, b, c) end, value end
  return function() free(f(a, b, c)) end, value
end

local recorded = { f32 = true, f64 = true, c64 = true, c128 = true }

--- The inputs, with copies that record gradients for floats and complex numbers, and a list of these copies.
local function with_leaves(case)
  local arguments, leaves = {}, {}
  for i, value in ipairs(case.arguments) do
    if ty.is_tensor(value) and recorded[value.dtype] then
      value = value:clone():requires_grad_()
      leaves[#leaves + 1] = value
    end
    arguments[i] = value
  end
  return arguments, leaves
end

--- Whether the first result has a gradient, and a peer to compare it with.
local function has_gradient(case)
  if case.fresh or case.row[4] == "" then return false end
  local y = first((case.fn(unpack((with_leaves(case))))))
  return ty.is_tensor(y) and y.requires_grad
end

--- As forward, with the sum of the first result and the backward pass; the magnitudes are those of the gradients.
local function backward(case)
  local arguments, leaves = with_leaves(case)
  local f, a, b, c = case.fn, unpack(arguments)
  local function finish(y, z)
    local sum = first(y)
    sum = (ty.is_complex(sum) and sum:abs() or sum):sum()
    sum:backward()
    free(sum, y, z)
  end
  return function()
    finish(f(a, b, c))
    for i = 1, #leaves do
      free(leaves[i].grad)
      leaves[i].grad = nil
    end
  end, function()
    local total = 0
    local y = first((f(a, b, c)))
    if ty.is_complex(y) then y = y:abs() end
    y:sum():backward()
    for _, leaf in ipairs(leaves) do total = total + magnitude(leaf.grad or 0) end
    return total
  end
end

--- Size as it is shown: that of the first input that is a tensor, or of the result.
local function size_of(case)
  for _, value in ipairs(case.arguments) do
    if ty.is_tensor(value) then return table.concat(value.shape, "x") end
  end
  local y = first((case.fn(unpack(case.arguments))))
  return ty.is_tensor(y) and table.concat(y.shape, "x") or ("%dx%d"):format(case.n, case.n)
end

--- Sets what a case is called with; tensors that it writes to are its own.
local function prepare(case)
  case.arguments = {}
  for name in case.row[2]:gmatch "%S+" do
    local value = input(name, case.n)
    case.arguments[#case.arguments + 1] = case.fresh and ty.is_tensor(value) and value:clone() or value
  end
end

------------------------------------------------------------------------------------------------------------- the run

--- Whether a row of that name is asked for.
local function chosen(name)
  for part in (ONLY or ""):gmatch "[^|]+" do
    if name:find(part, 1, true) then return true end
  end
  return not ONLY or ONLY == ""
end

--- The chosen rows at every size; in a check at the smallest.
local cases = {}
local lapack = ty.blas(true)
ty.blas(false)
for _, group in ipairs(groups) do
  for _, r in ipairs(group) do
    local name = r[1]
    local plain = name:match "^[^,]+"
    if chosen(name) and (lapack or not group.lapack) then
      local fn = r[5] or named(plain)
      for _, n in ipairs(group.sizes) do
        cases[#cases + 1] = { row = r, name = name, fn = fn, n = n, fresh = plain:find "_$" or plain == "set" }
        if CHECK then break end
      end
    end
  end
end

--- Calls visit(case) for each case, then for its gradient; a case is prepared meanwhile.
local function each_case(round, visit)
  for i, case in ipairs(cases) do
    measure.progress(("round %d of %d, row %d of %d: %s %d"):format(round, ROUNDS, i, #cases, case.name, case.n))
    prepare(case)
    visit(case, forward)
    if case.gradient == nil then
      case.gradient = has_gradient(case) and { name = case.name .. ", gradient", row = case.row, n = case.n }
    end
    if case.gradient then
      case.gradient.fn, case.gradient.arguments = case.fn, case.arguments
      visit(case.gradient, backward)
      case.gradient.arguments = nil
    end
    case.arguments = nil
  end
end

if CHECK then
  check_complete()
  each_case(0, function(case, calls) select(2, calls(case))() end)
  print(("%d rows, every public function among them"):format(#cases))
  return
end

local started = now(measure.WALL)
ty.threads(1)
ty.manual_seed(1)
os.execute(("mkdir -p %q"):format(build .. "/ops"))
local versions, answer = measure.peers(here .. "/ops.py", build)
local complaints = {}

--- Two numbers of NumPy and PyTorch; nil where there is none.
local function ask(what, case, calls)
  if not answer then return end
  what = what .. (calls == backward and " gradient" or case.fresh and " fresh" or "")
  local line = answer(table.concat({ what, case.n, case.row[2], case.row[3], case.row[4] }, "\t"))
  local numpy, torch = line:match "^(%S+) (%S+)$"
  if what:find "value" and not numpy then
    complaints[#complaints + 1] = ("%s, %d: %s"):format(case.name, case.n, line)
  end
  return tonumber(numpy), tonumber(torch)
end

--- Equal up to rounding; of positions, which we count from 1, up to that.
local function near(ours, theirs)
  local slack = 1e-3 * math.max(math.abs(ours), math.abs(theirs)) + 1e-6
  return math.abs(ours - theirs) <= slack or math.abs(ours - 1 - theirs) <= 1e-6 * ours
end

--- Once before all rounds: the size as text, and values beside those of a peer.
local function compare(case, calls)
  case.size = size_of(case)
  local value = select(2, calls(case))()
  local numpy, torch = ask("value", case, calls)
  local theirs = torch or numpy
  if theirs and not case.row.drawn and not near(value, theirs) then
    complaints[#complaints + 1] = ("%s %s: mean magnitude %.9g, a peer's is %.9g"):format(case.name, case.size, value,
      theirs)
  end
  case.ours, case.numpy, case.torch, case.ratio = {}, {}, {}, {}
end

local function time(case, calls)
  jit.flush() -- a row runs as in a program of its own, and not into the traces of others
  local ours = seconds_of((calls(case)), BATCH)
  local numpy, torch = ask("time", case, calls)
  local best = math.min(numpy or math.huge, torch or math.huge)
  table.insert(case.ours, ours)
  table.insert(case.numpy, numpy)
  table.insert(case.torch, torch)
  table.insert(case.ratio, best < math.huge and ours / best or nil)
end

each_case(0, compare)
for round = 1, ROUNDS do each_case(round, time) end
measure.progress ""

local function show(seconds)
  if not seconds then return "-" end
  local value, unit = seconds * 1e9, "ns"
  if value >= 1e3 then value, unit = value / 1e3, "us" end
  if value >= 1e3 then value, unit = value / 1e3, "ms" end
  return (value < 10 and "%.2f %s" or value < 100 and "%.1f %s" or "%.0f %s"):format(value, unit)
end

local results = {}
for _, case in ipairs(cases) do
  for _, c in ipairs { case, case.gradient or nil } do
    results[#results + 1] = c
    c.place, c.behind = #results, median(c.ratio)
  end
end
table.sort(results, function(p, q)
  local a, b = p.behind or 0, q.behind or 0
  return a > b or a == b and p.place < q.place
end)

print(("tycho %s, machine %s, 1 thread, medians of %d rounds; beside it %s\n"):format(ty.version, ty.stats().machine,
  ROUNDS, versions or "nobody: no python with NumPy was found"))
local lines = { { "", "", "ours", "NumPy", "PyTorch", "ours/faster" } }
local logarithms, compared, kept = 0, 0, 0
for _, c in ipairs(results) do
  lines[#lines + 1] = { c.name, c.size, show(median(c.ours)), show(median(c.numpy)), show(median(c.torch)),
    c.behind and ("%.2f"):format(c.behind) or "-" }
  if c.behind then
    logarithms, compared, kept = logarithms + math.log(c.behind), compared + 1, kept + (c.behind <= NEAR and 1 or 0)
  end
end
measure.print_table(lines, { true, true })
if compared > 0 then
  print(("\n%d of %d rows take at most %.1f times as long as the faster peer; geometric mean %.2f"):format(kept,
    compared, NEAR, math.exp(logarithms / compared)))
end
for _, text in ipairs(complaints) do print("IN DOUBT  " .. text) end
print(("%.0f s"):format(now(measure.WALL) - started))
