--- complex.lua -- complex numbers by arithmetic on their real and imaginary parts.
-- In: the core module. Out: for rows of the table of operations what they do where an operand is complex, which the
-- binding asks for; and words of the composites in complex_rows.lua.
--
-- 1. A complex tensor is a view of reals, so every formula here is made of operations on reals, and its gradient is
--    theirs: that of a number is dL/dre + i dL/dim, as PyTorch has it. Where a formula has branches that meet, the
--    function is holomorphic and has its derivative as a rule: the gradient of f(z) is g conj(f'(z)).
-- 2. Magnitudes are taken by hypot and quotients by Smith's method (1962), which overflow no sooner than their results;
--    the root scales by powers of two; exp divides what overflows; the inverse functions are Kahan's (1987).
-- 3. A real operand has the imaginary part 0. A number takes the dtype of the parts.

---@param ty table the core module
---@param check table arguments.lua
---@param as_one fun(fn: function): function see functions.lua
return function(ty, check, as_one)
  local fail, is_tensor = check.fail, ty.is_tensor
  local is_complex, pairs_of, reals = ty.is_complex, ty.view_as_complex, ty.view_as_real
  local where, eq, abs, lt, sqrt, exp, log = ty.where, ty.eq, ty.abs, ty.lt, ty.sqrt, ty.exp, ty.log
  local sin, cos, atan2, copysign, asinh = ty.sin, ty.cos, ty.atan2, ty.copysign, ty.asinh
  local maximum, minimum, bitwise_and, bitwise_or = ty.maximum, ty.minimum, ty.bitwise_and, ty.bitwise_or
  local INF, core = math.huge, ty.internals.grad
  local tracked = ty.internals.vmap.tracked

  --- re + im i, of parts of one dtype, f32 or f64, and one shape.
  local function join(re, im) return pairs_of(ty.stack({ re, im }, -1)) end

  --- The parts of x; a number, and the second one nil, where it is real.
  local function parts(x)
    if is_complex(x) then return x:real(), x:imag() end
    if x == true or x == false then return x and 1 or 0 end
    return x
  end

  --- a and b in one dtype: the parts of a complex one go into the wider one.
  local function meet(a, b)
    if not (is_tensor(a) and is_tensor(b)) or a.dtype == b.dtype then return a, b end
    local dtype = ty.promote_types(a.dtype, b.dtype)
    return is_complex(a) and a:to(dtype) or a, is_complex(b) and b:to(dtype) or b
  end

  --- x as the parts of a complex dtype: another real dtype is cast.
  local function like_parts(x, z)
    local dtype = z:real().dtype
    return is_tensor(x) and x.dtype ~= dtype and x:to(dtype) or x
  end

  --- 0 in the shape and dtype of x.
  local function zero(x) return ty.zeros_like(x) end

  local function times_i(z) return join(-z:imag(), z:real()) end
  local function conjugate(z) return join(z:real(), -z:imag()) end
  local function hypot(a, b) return ty.hypot(a, b) end

  ------------------------------------------------------------------------------------------------------- arithmetic

  local rows = {}

  function rows.mul(x, y)
    x, y = meet(x, y)
    local a, b = parts(x)
    local c, d = parts(y)
    if not b then
      a = like_parts(a, y)
      if is_tensor(a) then a = a:unsqueeze(-1) end
      return pairs_of(a * reals(y))
    elseif not d then
      c = like_parts(c, x)
      if is_tensor(c) then c = c:unsqueeze(-1) end
      return pairs_of(reals(x) * c)
    end
    return join(a * c - b * d, a * d + b * c)
  end

  --- (a + bi) / (c + di) by Smith's method. What is not taken divides by 1: its gradient is 0, no NaN.
  local function quotient(a, b, c, d)
    local swap = lt(abs(c), abs(d))
    local p, q = where(swap, d, c), where(swap, c, d) -- the larger, the smaller
    local u, v = where(swap, b, a), where(swap, a, b)
    local ratio = where(eq(p, 0), 0, q / p)
    local scale = 1 / (p + q * ratio)
    local none = eq(p, 0) -- by zero: each part by itself
    local re, im = (u + v * ratio) * scale, where(swap, u * ratio - v, v - u * ratio) * scale
    local c_or_one = where(none, abs(c), 1)
    return where(none, a / c_or_one, re), where(none, b / c_or_one, im)
  end

  function rows.div(x, y)
    x, y = meet(x, y)
    local a, b = parts(x)
    local c, d = parts(y)
    if not d then
      c = like_parts(c, x)
      if is_tensor(c) then c = c:unsqueeze(-1) end
      return pairs_of(reals(x) / c)
    end
    if not b then
      a = like_parts(a, y)
      if not is_tensor(a) then a = ty.full_like(c, a) end
      b = zero(a)
    end
    if is_complex(x) or a.ndim > 0 then a, b, c, d = unpack(ty.broadcast_tensors(a, b, c, d)) end
    return join(quotient(a, b, c, d))
  end

  function rows.eq(x, y)
    local a, b = parts(x)
    local c, d = parts(y)
    local same = eq(a, c)
    b, d = b or 0, d or 0
    if is_tensor(b) or is_tensor(d) then return bitwise_and(same, eq(b, d)) end
    return b == d and same or ty.zeros_like(same)
  end

  function rows.ne(x, y)
    local a, b = parts(x)
    local c, d = parts(y)
    return bitwise_or(ty.ne(a, c), ty.ne(b or 0, d or 0))
  end

  function rows.nonzero(z) return ty.nonzero(rows.ne(z, 0)) end

  function rows.abs(z) return hypot(z:real(), z:imag()) end

  ------------------------------------------------------------------------------------------------------ functions

  local function rule(saved, g, what) return rows.mul(g, conjugate(what.slope(saved[1]))) end

  --- f, a function of one complex tensor, with its derivative.
  local function holomorphic(f, slope)
    local what = { slope = slope }
    return function(z)
      if not core.mode() or not tracked(z) then return f(z) end
      return core.pure(function(p) return f(p), { p } end, rule, what)(z)
    end
  end

  local HUGE, TINY = { f32 = 2 ^ 120, f64 = 2 ^ 1000 }, { f32 = 2 ^ -100, f64 = 2 ^ -960 }
  local LARGEST = { f32 = 88, f64 = 709 } -- exp of more overflows

  --- What exp divides, so that the product with a cosine may be finite: e^a = y * factor.
  local function exponential(a)
    local most = LARGEST[a.dtype]
    local large = lt(most, a)
    return exp(where(large, a - most, a)), where(large, ty.full_like(a, math.exp(most)), 1)
  end

  local function exp_of(z)
    local a, b = z:real(), z:imag()
    local y, factor = exponential(a)
    local still = eq(b, 0) -- else infinity times 0
    local none = eq(a, -INF) -- 0, whatever the angle
    local re = where(still, y, where(none, copysign(zero(a), cos(b)), y * cos(b))) * factor
    local wild = ty.ne(b - b, 0)
    re = where(bitwise_and(eq(a, INF), wild), INF, re) -- of no known sign
    return join(re, where(still, b, where(none, copysign(zero(a), where(wild, b, sin(b))), y * sin(b) * factor)))
  end
  rows.exp = holomorphic(exp_of, exp_of)

  --- log |z|: near the unit circle by log1p, since there the magnitude has few digits of its distance from 1.
  local function log_magnitude(a, b)
    local p, q = abs(a), abs(b)
    local m, n = maximum(p, q), minimum(p, q)
    local near = bitwise_and(lt(0.5, m), lt(m, 2))
    local large = lt(HUGE[a.dtype], m)
    local scale = where(large, 2 ^ -4, 1):to(a.dtype)
    local h = log(hypot(a * scale, b * scale)) + where(large, ty.full_like(a, 4 * math.log(2)), 0)
    return where(near, 0.5 * ty.log1p((m - 1) * (m + 1) + n * n), h)
  end

  local function reciprocal(z) return rows.div(1, z) end
  local function log_of(z) return join(log_magnitude(z:real(), z:imag()), atan2(z:imag(), z:real())) end
  rows.log = holomorphic(log_of, reciprocal)
  function rows.log2(z) return rows.mul(rows.log(z), 1 / math.log(2)) end
  function rows.log10(z) return rows.mul(rows.log(z), 1 / math.log(10)) end
  function rows.exp2(z) return rows.exp(rows.mul(z, math.log(2))) end

  local function log1p_of(z)
    local a, b = z:real(), z:imag()
    local small = lt(hypot(a, b), 0.5)
    local exact = 0.5 * ty.log1p(a * (a + 2) + b * b)
    return join(where(small, exact, log_magnitude(a + 1, b)), atan2(b, a + 1))
  end
  rows.log1p = holomorphic(log1p_of, function(z) return rows.div(1, z + 1) end)

  local function expm1_of(z)
    local a, b = z:real(), z:imag()
    local half = sin(b * 0.5)
    return join(ty.expm1(a) * cos(b) - 2 * half * half, exp(a) * sin(b))
  end
  rows.expm1 = holomorphic(expm1_of, exp_of)

  local UP, DOWN = { f32 = 2 ^ 48, f64 = 2 ^ 120 }, 2 ^ -4

  local function root(z)
    local a, b = z:real(), z:imag()
    local dtype = a.dtype
    local most = maximum(abs(a), abs(b))
    local large, small = lt(HUGE[dtype], most), lt(most, TINY[dtype])
    local scale = where(large, DOWN, where(small, UP[dtype], 1)):to(dtype)
    local back = where(large, DOWN ^ -0.5, where(small, UP[dtype] ^ -0.5, 1)):to(dtype)
    local p, q = a * scale, b * scale
    local t = sqrt((abs(p) + hypot(p, q)) * 0.5)
    local w = where(eq(t, 0), 0, abs(q) / (2 * t))
    local right = ty.ge(a, 0)
    local re, im = where(right, t, w) * back, where(right, w, t) * back
    local infinite = eq(abs(b), INF)
    return join(where(infinite, INF, re), where(eq(b, 0), where(right, b, copysign(im, b)),
      where(infinite, b, copysign(im, b))))
  end
  rows.sqrt = holomorphic(root, function(z) return rows.div(0.5, rows.sqrt(z)) end)

  local function sinh_of(z)
    local a, b = z:real(), z:imag()
    return join(where(eq(a, 0), a, ty.sinh(a) * cos(b)), where(eq(b, 0), b, ty.cosh(a) * sin(b)))
  end

  local function cosh_of(z)
    local a, b = z:real(), z:imag()
    local none = bitwise_or(eq(a, 0), eq(b, 0))
    return join(ty.cosh(a) * cos(b), where(none, a * b, ty.sinh(a) * sin(b)))
  end
  rows.sinh = holomorphic(sinh_of, cosh_of)
  rows.cosh = holomorphic(cosh_of, sinh_of)

  --- f(z) = -i h(iz), or h(iz) where `even`.
  local function turned(h, even)
    return function(z)
      local y = h(times_i(z))
      return even and y or join(y:imag(), -y:real())
    end
  end

  local sin_of, cos_of = turned(sinh_of), turned(cosh_of, true)
  rows.sin = holomorphic(sin_of, cos_of)
  rows.cos = holomorphic(cos_of, function(z) return -sin_of(z) end)

  local FAR = { f32 = 11, f64 = 22 } -- there tanh of the real part is 1

  local function tanh_of(z)
    local a, b = z:real(), z:imag()
    local far = lt(FAR[a.dtype], abs(a))
    local t, s = ty.tan(b), ty.sinh(where(far, 0, a))
    local beta = 1 + t * t
    local below = 1 + beta * s * s
    local pole = eq(abs(t), INF)
    local re = where(pole, 1 / where(pole, s, 1), beta * sqrt(1 + s * s) * s / below)
    local tail = 4 * sin(b) * cos(b) * exp(-2 * abs(a))
    tail = where(bitwise_and(far, ty.ne(b - b, 0)), copysign(zero(b), b), tail)
    return join(where(far, copysign(ty.ones_like(a), a), re), where(far, tail, where(eq(b, 0), b, t / below)))
  end
  local function tanh_slope(z)
    local y = tanh_of(z)
    return 1 - rows.mul(y, y)
  end
  rows.tanh = holomorphic(tanh_of, tanh_slope)
  rows.tan = holomorphic(turned(tanh_of), function(z)
    local y = turned(tanh_of)(z)
    return 1 + rows.mul(y, y)
  end)

  function rows.sigmoid(z) return rows.div(1, 1 + rows.exp(-z)) end

  -- The inverse functions: W. Kahan, "Branch cuts for complex elementary functions" (1987).

  --- z + c and c - z for a real c: a zero keeps its sign as imaginary part, which tells the sides of a cut apart.
  local function above(z, c) return join(z:real() + c, z:imag()) end
  local function below(c, z) return join(c - z:real(), -z:imag()) end

  --- Whether a part of z is infinite; then the angle of z's direction with the imaginary, or the real axis, from 0 up.
  local function at_infinity(z, axis)
    local function direction(v) return where(eq(abs(v), INF), copysign(ty.ones_like(v), v), v * 0) end -- NaN stays
    local x, y = direction(z:real()), abs(direction(z:imag()))
    return eq(hypot(z:real(), z:imag()), INF), axis == "imaginary" and atan2(x, y) or atan2(y, x)
  end

  local function asin_of(z)
    local p, q = root(below(1, z)), root(above(z, 1))
    local infinite, angle = at_infinity(z, "imaginary")
    local re = where(infinite, angle, atan2(z:real(), rows.mul(p, q):real()))
    return join(re, where(infinite, copysign(INF, z:imag()), asinh(rows.mul(conjugate(p), q):imag())))
  end

  local function acos_of(z)
    local p, q = root(below(1, z)), root(above(z, 1))
    local infinite, angle = at_infinity(z, "real")
    return join(where(infinite, angle, 2 * atan2(p:real(), q:real())),
      where(infinite, copysign(INF, -z:imag()), asinh(rows.mul(conjugate(q), p):imag())))
  end

  local function acosh_of(z)
    local p, q = root(above(z, -1)), root(above(z, 1))
    local infinite, angle = at_infinity(z, "real")
    return join(where(infinite, INF, asinh(rows.mul(conjugate(p), q):real())),
      where(infinite, copysign(angle, z:imag()), 2 * atan2(p:imag(), q:real())))
  end

  local BEYOND = { f32 = 2 ^ 15, f64 = 2 ^ 30 } -- there atanh z = 1 / z + i pi / 2, to rounding

  local function atanh_of(z)
    local x, y = z:real(), z:imag()
    local p, q = abs(x), abs(y) -- below zero log1p would cancel
    local most = maximum(p, q)
    local far, infinite = lt(BEYOND[x.dtype], most), eq(most, INF)
    local u, v = p / most, q / most
    local re = where(far, u / (u * u + v * v) / most, 0.25 * ty.log1p(4 * p / ((1 - p) * (1 - p) + y * y)))
    local im = where(far, math.pi / 2, 0.5 * atan2(2 * q, (1 - p) * (1 + p) - y * y))
    return join(copysign(where(infinite, 0, re), x), copysign(im, y))
  end

  local function asin_slope(z) -- 1 / sqrt(1 - z^2)
    return rows.div(1, rows.mul(rows.sqrt(below(1, z)), rows.sqrt(above(z, 1))))
  end
  rows.asin = holomorphic(asin_of, asin_slope)
  rows.acos = holomorphic(acos_of, function(z) return -asin_slope(z) end)
  rows.acosh = holomorphic(acosh_of, function(z)
    return rows.div(1, rows.mul(rows.sqrt(above(z, -1)), rows.sqrt(above(z, 1))))
  end)
  rows.asinh = holomorphic(turned(asin_of), function(z) return asin_slope(times_i(z)) end)
  rows.atanh = holomorphic(atanh_of, function(z) return rows.div(1, 1 - rows.mul(z, z)) end)
  rows.atan = holomorphic(turned(atanh_of), function(z) return rows.div(1, 1 + rows.mul(z, z)) end)

  --------------------------------------------------------------------------------------------------------- powers

  --- z^n for a whole n, by squares.
  local function whole_power(z, n)
    local y, square, left = nil, z, math.abs(n)
    while left > 0 do
      if left % 2 == 1 then y = y and rows.mul(y, square) or square end
      left = math.floor(left / 2)
      if left > 0 then square = rows.mul(square, square) end
    end
    if n == 0 then return ty.ones_like(z) end
    return n < 0 and reciprocal(y) or y
  end

  local MOST = 100 -- whole powers up to here are products

  function rows.pow(z, p)
    if type(p) == "number" and p % 1 == 0 and math.abs(p) <= MOST then return whole_power(z, p) end
    if p == 0.5 then return rows.sqrt(z) end
    z, p = meet(z, p)
    local base = is_complex(z) and rows.log(z) or nil
    if not base then -- a real base
      if not is_tensor(z) then z = ty.full_like(p:real(), z) end
      base = rows.log(like_parts(z, p):to(p.dtype))
    end
    local y = rows.exp(rows.mul(base, p))
    local none = is_complex(z) and rows.eq(z, 0) or eq(z, 0)
    local pr, pi = parts(p)
    if not is_tensor(pr) then return where(none, pr > 0 and 0 or 0 / 0, y) end
    local positive = lt(0, pr)
    if pi then positive = bitwise_and(positive, eq(pi, 0)) end
    local at_zero = where(positive, 0, where(rows.eq(p, 0), 1, 0 / 0))
    return where(none, at_zero, y)
  end

  ------------------------------------------------------------------------------------------- products over dims

  --- Complex products of pairs of places of a dim, until one is left.
  local function product_over(x, d)
    local n = x:size(d)
    if n == 0 then return ty.ones_like(x:sum(d, true)) end
    while n > 1 do
      local half = math.floor(n / 2)
      local y = rows.mul(x:narrow(d, 1, half), x:narrow(d, half + 1, half))
      if n % 2 == 1 then y = ty.cat({ y, x:narrow(d, n, 1) }, d) end
      x, n = y, half + n % 2
    end
    return x
  end

  function rows.prod(x, dims, keepdim)
    local keep = type(keepdim) == "table" and keepdim.keepdim or keepdim == true
    if dims == nil then
      local y = product_over(x:reshape(-1), 1):reshape {}
      if not keep then return y end
      for _ = 1, x.ndim do y = y:unsqueeze(1) end
      return y
    end
    dims = check.dims("prod", dims, x.ndim)
    for i = #dims, 1, -1 do x = product_over(x, dims[i]) end
    return keep and x or x:squeeze(dims)
  end

  function rows.cumprod(x, d)
    if x.ndim == 0 then return x:clone() end
    d = check.dim("cumprod", d, x.ndim, x.ndim == 1 and 1 or nil)
    local n, step = x:size(d), 1
    while step < n do
      local first, rest = x:narrow(d, 1, step), x:narrow(d, step + 1, n - step)
      x, step = ty.cat({ first, rows.mul(rest, x:narrow(d, 1, n - step)) }, d), 2 * step
    end
    return step == 1 and x:clone() or x
  end

  --- b with one more dim before dim d + 1, and its parts behind: what real pairs are multiplied with.
  local function turned_pairs(b, d) return ty.stack({ reals(b), reals(times_i(b)) }, d + 1) end

  --- As ty.contract.
  function rows.contract(a, b, lead, summed)
    a, b = meet(a, b)
    if not is_complex(a) then return pairs_of(ty.contract(like_parts(a, b), reals(b), lead, summed)) end
    if not is_complex(b) then b = b:to(a.dtype) end
    return pairs_of(ty.contract(reals(a), turned_pairs(b, lead + summed), lead, summed + 1))
  end

  function rows.matmul(a, b)
    check.tensor("matmul", 1, a)
    check.tensor("matmul", 2, b)
    a, b = meet(a, b)
    local z = is_complex(a) and a or b
    a = is_complex(a) and a or like_parts(a, z)
    b = is_complex(b) and b or like_parts(b, z)
    if a.ndim == 0 or b.ndim == 0 then
      fail("matmul", "operands need at least one dim, %s x %s", check.text(a), check.text(b))
    end
    local column = b.ndim == 1
    if a:size(-1) ~= b:size(column and 1 or -2) then
      fail("matmul", "inner sizes differ, %s x %s", check.text(a), check.text(b))
    end
    if not is_complex(b) then return join(ty.matmul(a:real(), b), ty.matmul(a:imag(), b)) end
    local w = column and b:unsqueeze(-1) or b
    local y
    if is_complex(a) then
      local m = turned_pairs(w, w.ndim - 1) -- [.., k, 2, m, 2]
      y = ty.matmul(reals(a):flatten(-2, -1), m:flatten(-2, -1):flatten(-3, -2))
    else
      y = ty.matmul(a, reals(w):flatten(-2, -1))
    end
    y = pairs_of(y:unflatten(-1, { -1, 2 }))
    return column and y:squeeze(-1) or y
  end

  local called = {}
  for name, fn in pairs(rows) do called[name] = as_one(fn) end
  ty.internals.complex(called)

  return { join = join, conjugate = conjugate }
end
