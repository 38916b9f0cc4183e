--- special.lua -- composites element by element: special functions, and those that treat NaN or zero in their own way.
--
-- Special functions are computed in f64 and rounded once, those of narrower floats by shorter sums, whose errors do
-- not show; polynomials are interpolations at Chebyshev's points, made in 60 digits. Where a piece of a function
-- does not apply, its argument is one of where it does: so no piece overflows.
-- Gradients are the formulas', in `ruled`.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail, is_tensor = check.fail, ty.is_tensor
  local where, abs, exp, log, sqrt, eq, ne, lt = ty.where, ty.abs, ty.exp, ty.log, ty.sqrt, ty.eq, ty.ne, ty.lt
  local maximum, minimum, trunc = ty.maximum, ty.minimum, ty.trunc
  local bitwise_and, bitwise_or = ty.bitwise_and, ty.bitwise_or
  local grad, tracked = ty.internals.grad, ty.internals.vmap.tracked
  local taping = grad.mode
  local INF, PI = math.huge, math.pi
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  --- The dtype of a result of floats, or of complex numbers.
  local function float_of(x)
    local dtype = x.dtype
    return (floats[dtype] or ty.is_complex(x)) and dtype or ty.default_dtype()
  end

  local function times_slope(saved, g, what) return g * what.slope(saved[1], what.n) end

  --- fn(x), whose gradient is g * slope(x, n). A trace keeps slope: it is to be no closure of a call.
  local function ruled(fn, slope, x, n)
    if not (taping() and tracked(x)) then return fn(x) end
    return grad.pure(function(v) return fn(v), { v } end, times_slope, { slope = slope, n = n })(x)
  end

  --- fn of x in f64, as a float of x; its gradient g * slope(x, n). fn is also told whether the result is narrower.
  local function special(who, fn, slope, x, n)
    check.real(who, 1, x)
    local dtype = float_of(x)
    if dtype ~= x.dtype then x = x:to(dtype) end
    return ruled(function(v) return fn(v:to("f64"), dtype ~= "f64"):to(dtype) end, slope, x, n)
  end

  --- c[1] + c[2] x + c[3] x^2 ...
  local function polynomial(c, x)
    local y = c[#c]
    for i = #c - 1, 1, -1 do y = y * x + c[i] end
    return y
  end

  ------------------------------------------------------------------------------------------------- the error function

  --- (1 + 2 x) exp(x^2) erfc(x), in t = (x - 4) / (x + 4)
  local ERFC = {
    1.2329951186255525, -0.1396211168405625, 0.015379652102619604, 0.068097054254690391, -0.10103906603630055,
    0.093732834998438267, -0.066330365812186977, 0.037167515535929115, -0.016197734059799266,
    0.0050319699926699334, -0.00075777326137309563, -0.0001992567757633648, 0.00015062149001240472,
    -2.4398944545280834e-5, -1.1221287012353485e-5, 5.7092060530721829e-6, 2.9197333779630121e-7,
    -8.2491984275083543e-7, 7.7469927270179419e-8, 1.1009737295274889e-7, -2.0560649275699202e-8,
    -1.4709550868669279e-8, 3.1695881915648172e-9, 1.7903326159489846e-9, -2.6595996902426894e-10,
    -1.3746529890011638e-10,
  }

  --- The same to 1.5e-9, in t = (x - 2) / (x + 2), x up to 10.5
  local ERFC_SHORT = {
    1.2769783823067076, -0.092763814822355805, -0.16603048495117275, 0.16405087960761196, -0.05421843722837164,
    -0.0080297842599010608, 0.008712785678741647, 0.0012506210333167137, -0.0014301499271922352,
    -0.00040183451642194527, 0.0001778078769999818, 8.3838182124330982e-5,
  }

  --- exp(-x^2): the square in two parts.
  local function gauss(x)
    local high = (x * 16):round() / 16
    local low = x - high
    return exp(-(high * high)) * exp(-(low * (x + high)))
  end

  --- Of what was an f32, whose square is exact.
  local function erfc_short(x)
    local a = minimum(abs(x), 10.5)
    local q = 1 / ((a + 2) * (a * 2 + 1))
    local far = exp(-(a * a)) * polynomial(ERFC_SHORT, (a - 2) * (a * 2 + 1) * q) * ((a + 2) * q)
    return where(lt(x, 0), 2 - far, where(ne(x, x), x, far))
  end

  local function erfc_value(x, short)
    if short then return erfc_short(x) end
    local a = minimum(abs(x), 27.5)
    local far = gauss(a) * polynomial(ERFC, (a - 4) / (a + 4)) / (a * 2 + 1)
    return where(lt(abs(x), 0.5), 1 - ty.erf(x), where(lt(x, 0), 2 - far, where(ne(x, x), x, far)))
  end

  local function erfc_slope(x) return exp(-(x * x)) * (-2 / math.sqrt(PI)) end

  --- 1 - erf(x), accurate where that is near zero.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function erfc(x) return special("erfc", erfc_value, erfc_slope, x) end

  ------------------------------------------------------------------------------------------------- the gamma function

  --- lgamma(x) / ((x - 1) (x - 2)), in x - 2 for 1 <= x <= 3
  local LGAMMA = {
    0.42278433509846714, -0.10031730167435392, 0.032965000621155737, -0.012384192193371024,
    0.0049986411647038771, -0.0021081308339677401, 0.00091537692206067879, -0.00040570739724578334,
    0.00018255264197705732, -8.3095129569437035e-5, 3.8168862813724325e-5, -1.7661650808739294e-5,
    8.2223475245535897e-6, -3.8474588531093492e-6, 1.8074596187759183e-6, -8.5245894228547055e-7,
    4.0556328878243746e-7, -1.9297722928131086e-7, 8.7459726655535558e-8, -4.0989550123056008e-8,
    2.6247261052647615e-8, -1.3413634707816497e-8, -7.6031618173372557e-10, 1.0302382218738489e-9,
    4.92787868580723e-9, -2.7213519871256958e-9, -1.3899445166244099e-9, 7.7815799101825252e-10,
    4.2453673576593121e-10, -2.2029817508598181e-10,
  }
  --- B_2k / (2 k (2 k - 1)), of Stirling's series
  local STIRLING = {
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188,
  }

  --- sin(PI x) / x, in x^2 for -1/2 <= x <= 1/2
  local SINE = {
    3.1415926535897932, -5.1677127800499696, 2.5501640398773005, -0.59926452931894468, 0.082145886573102895,
    -0.0073704305059169434, 0.00046629981618983938, -2.1903497074626017e-5, 7.6978267682241906e-7,
  }

  --- sin(PI x), but for its sign.
  local function sine_of_turns(x)
    local t = x - x:round()
    return polynomial(SINE, t * t) * t
  end

  --- lgamma(x) from 0: below 1 that of x + 1 less log(x); to 3 by the polynomial, to 8 by products of x - 1, x - 2 ...,
  --- beyond by Stirling's series. Near 1 and 2 nothing may be rounded before the zero is a factor. One logarithm serves
  --- all of them.
  local function lgamma_from_0(x, small)
    local far = lt(8, x)
    local y, product = where(far, 2, x), 1
    for _ = 1, 5 do
      local above = lt(3, y)
      y = where(above, y - 1, y)
      product = where(above, y, 1) * product
    end
    local z = where(far, minimum(x, 1e300), 8)
    local logarithm = log(where(far, z, where(small, where(eq(x, 0), 1, x), product)))
    local t = y - where(small, 1, 2)
    local near = polynomial(LGAMMA, t) * (t * where(small, y, y - 1)) + where(small, -logarithm, logarithm)
    local r = 1 / z
    local series = polynomial(STIRLING, r * r) * r + 0.91893853320467274178
    return where(far, (z - 0.5) * (logarithm - 1) + (series - 0.5), near)
  end

  local function lgamma_value(x)
    local negative = lt(x, 0)
    local a = where(negative, -x, x)
    local y = lgamma_from_0(where(lt(a, INF), a, 1), lt(a, 1))
    local whole = bitwise_and(eq(a, a:floor()), bitwise_or(negative, eq(a, 0)))
    -- where |x| is tiny, it is -log |x|
    local tiny = lt(a, 1e-8)
    local mirrored = log(where(tiny, where(eq(a, 0), 1, a), abs(sine_of_turns(a)) * a))
    y = where(negative, where(tiny, -mirrored, 1.1447298858494001741 - mirrored - y), y)
    return where(ne(x, x), x, where(bitwise_or(whole, eq(a, INF)), INF, y))
  end

  --- digamma(x) / (x - root), in 2 x - 3 for 1 <= x <= 2; and the root, in two parts
  local DIGAMMA = {
    0.95105587603183289, -0.2118137106407303, 0.060135621060193475, -0.018550615381735008,
    0.0059367952784364786, -0.001935066664861307, 0.0006368880282849916, -0.00021074841138175561,
    6.9950205063848487e-5, -2.3258242519113285e-5, 7.7411560492738052e-6, -2.5780939540457722e-6,
    8.5913431761142102e-7, -2.863161166883193e-7, 9.5006590343005033e-8, -3.1629111474084542e-8,
    1.1039363482759935e-8, -3.7083753242807276e-9, 8.6575336728126126e-10, -2.7580994814376998e-10,
    2.4786953456068389e-10, -8.5055076601326102e-11,
  }
  local ROOT, ROOT_LOW = 0x1.762d86356be3fp+0, 9.5499954299656977e-17
  --- B_2k / (2 k), of its asymptotic series
  local TAIL = { 1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160 }

  --- x from 1: to 2 as its polynomial, to 10 by sums of 1 / (x - 1), ..., beyond by the series.
  local function digamma_from_1(x)
    local far = lt(10, x)
    local y, sum = where(far, 1.5, x), 0
    for _ = 1, 8 do
      local above = lt(2, y)
      y = where(above, y - 1, y)
      sum = where(above, 1 / y, 0) + sum
    end
    local near = polynomial(DIGAMMA, y * 2 - 3) * ((y - ROOT) - ROOT_LOW) + sum
    local z = where(far, x, 10)
    local r = 1 / z
    return where(far, log(z) - r * 0.5 - polynomial(TAIL, r * r) * (r * r), near)
  end

  local function digamma_value(x)
    local negative = lt(x, 0)
    local a = where(negative, -x, x)
    local small = bitwise_or(negative, lt(a, 1))
    local y = digamma_from_1(where(small, a + 1, a))
    local turn = PI / ty.tan((a - a:round()) * PI)
    y = where(negative, y + turn, y - where(bitwise_and(small, lt(0, a)), 1 / a, 0))
    local pole = bitwise_and(negative, eq(a, a:floor()))
    return where(ne(x, x), x, where(eq(x, 0), -1 / x, where(pole, 0 / 0, y)))
  end

  local polygamma

  local function lgamma_slope(v) return ty.digamma(v) end
  local function polygamma_slope(v, n) return polygamma(n + 1, v) end

  --- The logarithm of the magnitude of the gamma function; inf at 0, -1, -2 ...
  --- Near its zeros below 0 the error is absolute, some 1e-16.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function lgamma(x) return special("lgamma", lgamma_value, lgamma_slope, x) end

  --- The logarithmic derivative of the gamma function; NaN at -1, -2 ..., of infinite magnitude at 0.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function digamma(x) return special("digamma", digamma_value, polygamma_slope, x, 0) end

  --- B_2k / (2 k)!, of Euler's and Maclaurin's sum
  local MACLAURIN = {
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000,
  }

  --- x^-s for whole s.
  local function inverse_power(x, s)
    if s > 4 then return x ^ -s end
    local r = 1 / x
    local square = r * r
    return s == 2 and square or s == 3 and square * r or square * square
  end

  --- The sum of (x + k)^-s over all k from 0, x > 0; `short`: to 4e-11.
  local function hurwitz(s, x, short)
    local terms, tail = short and 6 or 12, short and 4 or #MACLAURIN
    local sum = inverse_power(x, s)
    for k = 1, terms - 1 do sum = sum + inverse_power(x + k, s) end
    local z = x + terms
    local term = inverse_power(z, s)
    sum = sum + (term * 0.5 + term * z / (s - 1))
    local factor, r = s, 1 / z
    term = term * r
    for k = 1, tail do
      sum = sum + term * (MACLAURIN[k] * factor)
      factor = factor * (s + 2 * k - 1) * (s + 2 * k)
      term = term * (r * r)
    end
    return sum
  end

  --- The n-th derivative of digamma. Below zero only of n = 0 and 1, NaN for others.
  --- Raises where n is no whole number from 0, or x no tensor.
  ---@param n integer
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  function polygamma(n, x)
    n = check.whole("polygamma", 1, n, "n")
    if n < 0 then fail("polygamma", "argument 1 (n) must not be negative, got %g", n) end
    check.tensor("polygamma", 2, x)
    if n == 0 then return digamma(x) end
    local factorial = n % 2 == 1 and 1 or -1
    for k = 2, n do factorial = factorial * k end
    return special("polygamma", function(v, short)
      local negative = lt(v, 0)
      local y = hurwitz(n + 1, where(negative, n == 1 and 1 - v or 0 / 0, v), short)
      if n == 1 then
        local turn = PI / sine_of_turns(v)
        y = where(negative, turn * turn - y, y)
      end
      return where(eq(v, INF), 0, y * factorial)
    end, polygamma_slope, x, n)
  end

  ------------------------------------------------------------------------------------------------- Bessel's functions

  --- exp(-x) sqrt(x) I(x) for x > 8, in 16 / x - 1
  local I0_FAR = {
    0.40217650944500808, 0.0033605519836678616, 0.00013621607438984735, 1.1143033790932038e-5,
    1.4838476651250267e-6, 2.9735985885673903e-7, 8.8720343833139429e-8, 3.9325843345532348e-8,
    2.1566251453120202e-8, 7.5546918812281126e-9, -6.8493381883597976e-9, -1.3408917539999459e-8,
    -5.0381064876932641e-9, 7.5525830618744357e-9, 6.560138746528788e-9, -3.5059665304342823e-9,
    -4.575553424073457e-9, 1.5200816948778085e-9, 2.1968921375419908e-9, -5.7158438604884987e-10,
    -6.6332871111229869e-10, 1.5279202679770501e-10, 9.3650868902476206e-11, -2.0260604260424477e-11,
  }
  local I1_FAR = {
    0.38939845902587232, -0.0097495771932357362, -0.0002192357638317243, -1.5038547200567217e-5,
    -1.8349102358955386e-6, -3.4838557610442923e-7, -1.0001095659636335e-7, -4.312917729178674e-8,
    -2.3392503748034765e-8, -8.4277660937117189e-9, 6.8401389977815031e-9, 1.4034238781965698e-8,
    5.5933701015762968e-9, -7.6423941340854933e-9, -6.9838396244997692e-9, 3.4262341485131279e-9,
    4.8105974046192357e-9, -1.4387250527343432e-9, -2.297004161537574e-9, 5.2956254370621172e-10,
    6.9170892927419161e-10, -1.4011625163027393e-10, -9.7523972015178802e-11, 1.8515118799211388e-11,
  }
  --- 1 / (k! (k + n)!), in x^2 / 4
  local I0_NEAR, I1_NEAR = { 1 }, { 1 }
  for k = 1, 25 do
    I0_NEAR[k + 1] = I0_NEAR[k] / (k * k)
    I1_NEAR[k + 1] = I1_NEAR[k] / (k * (k + 1))
  end

  local function bessel(near, far, x)
    local a = abs(x)
    local small, b = minimum(a, 8), minimum(maximum(a, 8), 720)
    local half = exp(b * 0.5)
    local large = polynomial(far, 16 / b - 1) / sqrt(b) * half * half
    return where(lt(8, a), where(eq(a, INF), INF, large), polynomial(near, small * small * 0.25))
  end

  local function i0_value(x) return where(ne(x, x), x, bessel(I0_NEAR, I0_FAR, x)) end

  local function i1_value(x)
    local y = bessel(I1_NEAR, I1_FAR, x)
    return where(ne(x, x), x, where(lt(8, abs(x)), ty.copysign(y, x), y * x * 0.5))
  end

  local function i0_slope(v) return ty.i1(v) end
  local function i1_slope(v) return ty.i0(v) - where(eq(v, 0), 0.5, ty.i1(v) / where(eq(v, 0), 1, v)) end

  --- The modified Bessel function of the first kind and order 0.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function i0(x) return special("i0", i0_value, i0_slope, x) end

  --- The modified Bessel function of the first kind and order 1.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function i1(x) return special("i1", i1_value, i1_slope, x) end

  row { "erfc", "x", erfc, "1 - erf(x), accurate where that is near zero", shape = "x", dtype = "float",
    inplace = true }
  row { "lgamma", "x", lgamma, "the logarithm of the magnitude of the gamma function", shape = "x", dtype = "float",
    formula = "Stirling's series, a polynomial near 1 and 2, reflection below 0", inplace = true }
  row { "digamma", "x", digamma, "the logarithmic derivative of the gamma function", shape = "x", dtype = "float",
    inplace = true }
  row { "polygamma", "n, x", polygamma, "the n-th derivative of digamma", shape = "x", dtype = "float",
    formula = "(-1)^(n + 1) n! zeta(n + 1, x)", only = "module" }
  row { "i0", "x", i0, "the modified Bessel function of the first kind, order 0", shape = "x", dtype = "float",
    inplace = true }
  row { "i1", "x", i1, "the modified Bessel function of the first kind, order 1", shape = "x", dtype = "float",
    inplace = true }

  ------------------------------------------------------------------------------------------------------ roots, parts

  local function cbrt_slope(v)
    local y = ty.cbrt(v)
    return 1 / (y * y * 3)
  end

  --- Of what was an f32. A third of the exponent, which lies in the bits, gives y to 4 %, a series in y^3 / b to 2e-5,
  --- and a step of Newton's, in f64, to 1e-9.
  local function cbrt_short(x)
    local a = abs(x):to("f32")
    local tiny, huge = lt(a, 2 ^ -100), lt(2 ^ 100, a)
    local b = a * where(tiny, 2 ^ 24, where(huge, 2 ^ -24, ty.ones_like(a)))
    local regular = bitwise_and(lt(0, a), lt(a, INF))
    b = where(regular, b, 1)
    local guess = (b:view_as("i32"):to("f32") * (1 / 3) + 709921077):to("i32"):view_as("f32")
    local q = 1 / b
    local u = guess * guess * guess * q - 1
    local y = (guess * (((u * (-14 / 81) + 2 / 9) * u - 1 / 3) * u + 1)):to("f64")
    y = y - (y * y * y - b:to("f64")) * (y * (q:to("f64") * (1 / 3)))
    y = y * where(tiny, 2 ^ -8, where(huge, 2 ^ 8, ty.ones_like(y)))
    return where(regular, ty.copysign(y, x), x)
  end

  local function cbrt_value(x, short)
    if short then return cbrt_short(x) end
    local a = abs(x)
    local tiny = lt(a, 1e-280)
    local b = where(tiny, a * 2 ^ 162, a)
    b = where(bitwise_and(lt(0, b), lt(b, INF)), b, 1)
    local y = exp(log(b) / 3)
    y = y - (y * y * y - b) / (y * y * 3)
    y = where(tiny, y * 2 ^ -54, y)
    return where(bitwise_and(lt(0, a), lt(a, INF)), ty.copysign(y, x), x)
  end

  --- The cube root, of the sign of x.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats; integers give the default float
  local function cbrt(x)
    return special("cbrt", cbrt_value, cbrt_slope, x)
  end

  --- What stands behind the point: x - trunc(x), of the sign of x.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape and dtype of x
  local function frac(x)
    check.real("frac", 1, x)
    return x - trunc(x)
  end

  --- log(x / (1 - x)), the inverse of sigmoid; NaN outside of 0 to 1.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@param eps? number x is kept from eps to 1 - eps; without it nothing is
  ---@return tycho.Tensor # shape of x, floats
  local function logit(x, eps)
    check.real("logit", 1, x)
    local dtype = float_of(x)
    if dtype == "f16" or dtype == "bf16" or not floats[x.dtype] then x = x:to(dtype == "f64" and "f64" or "f32") end
    if eps ~= nil then x = x:clamp(check.number("logit", 2, eps, "eps"), 1 - eps) end
    local y = log(x / (1 - x))
    return y.dtype == dtype and y or y:to(dtype)
  end

  --- sin(pi x) / (pi x), 1 at zero.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats
  local function sinc(x)
    check.tensor("sinc", 1, x)
    local dtype = float_of(x)
    if dtype == "f16" or dtype == "bf16" then x = x:to("f32") end
    local zero = eq(x, 0)
    local z = where(zero, 1, x) * PI
    local y = where(zero, 1, ty.sin(z) / z)
    return y.dtype == dtype and y or y:to(dtype)
  end

  --- Whether the sign is that of -1: -0 has it.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # bool, shape of x
  local function signbit(x)
    check.real("signbit", 1, x)
    if not floats[x.dtype] then return lt(x, 0) end
    return lt(ty.copysign(1, x), 0)
  end

  --- Degrees as radians.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats
  local function deg2rad(x) return check.tensor("deg2rad", 1, x) * (PI / 180) end

  --- Radians as degrees.
  --- Raises where x is no tensor.
  ---@param x tycho.Tensor any shape
  ---@return tycho.Tensor # shape of x, floats
  local function rad2deg(x) return check.tensor("rad2deg", 1, x) * (180 / PI) end

  row { "cbrt", "x", cbrt, "the cube root, of the sign of x", shape = "x", dtype = "float", inplace = true }
  row { "frac", "x", frac, "what stands behind the point, of the sign of x", shape = "x", inplace = true }
  row { "logit", "x, eps = nil", logit, "log(x / (1 - x)), the inverse of sigmoid", shape = "x", dtype = "float",
    inplace = true }
  row { "sinc", "x", sinc, "sin(pi x) / (pi x), 1 at zero", shape = "x", dtype = "float", inplace = true }
  row { "signbit", "x", signbit, "bool: the sign is that of -1", shape = "x", dtype = "bool" }
  row { "deg2rad", "x", deg2rad, "degrees as radians", shape = "x", dtype = "float", inplace = true, single = true }
  row { "rad2deg", "x", rad2deg, "radians as degrees", shape = "x", dtype = "float", inplace = true, single = true }

  -------------------------------------------------------------------------------------------------------- two operands

  --- The other one where an operand is NaN, else what `of` gives. A number is asked in Lua: what is computed of numbers
  --- alone lies on the default device.
  local function without_nan(who, of, a, b)
    check.reals(who, a, b)
    return check.under(who, function()
      if type(a) == "number" then return where(ne(b, b), a, a == a and of(a, b) or b) end
      if type(b) == "number" then return where(ne(a, a), b, b == b and of(a, b) or a) end
      return where(ne(b, b), a, where(ne(a, a), b, of(a, b)))
    end)
  end

  --- The larger; a number is larger than NaN.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, the promoted dtype
  local function fmax(a, b) return without_nan("fmax", maximum, a, b) end

  --- The smaller; a number is smaller than NaN.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, the promoted dtype
  local function fmin(a, b) return without_nan("fmin", minimum, a, b) end

  --- The first one as a tensor beside the other one: of its dtype, if that is of floats, and on its device.
  local function beside(a, b)
    if is_tensor(a) then return a end
    return ty.full({}, a, { dtype = floats[b.dtype] and b.dtype or ty.default_dtype(), device = b.device })
  end

  --- a * fn(b), 0 where a is 0 and fn(b) not finite; NaN of b stays. low: fn is finite above it; safe: such a place.
  local function times_log(who, a, b, fn, low, safe)
    check.reals(who, a, b)
    a, b = beside(a, b), beside(b, a)
    local finite = bitwise_and(lt(low, b), lt(b, INF))
    local none = bitwise_and(eq(a, 0), ty.logical_not(finite))
    local y = where(none, 0, a * fn(where(none, safe, b)))
    return where(ne(b, b), 0 / 0, y)
  end

  --- a * log(b), 0 where a is 0 though b be 0, too.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, floats
  local function xlogy(a, b) return times_log("xlogy", a, b, log, 0, 1) end

  --- a * log(1 + b), 0 where a is 0.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, floats
  local function xlog1py(a, b) return times_log("xlog1py", a, b, ty.log1p, -1, 0) end

  --- 0 below zero, 1 above, `value` at zero.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param x tycho.Tensor
  ---@param value tycho.Tensor|number broadcasts with x
  ---@return tycho.Tensor # the broadcast shape
  local function heaviside(x, value)
    check.real("heaviside", 1, x)
    check.fits("heaviside", 2, x, value)
    return check.named("heaviside", "where", where, eq(x, 0), value, where(ne(x, x), x, lt(0, x):to(x.dtype)))
  end

  --- log2(2^a + 2^b) without overflow.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, floats
  local function logaddexp2(a, b)
    check.reals("logaddexp2", a, b)
    a, b = check.floats(a, b)
    local swap = ty.lt(a, b)
    local larger, other = where(swap, b, a), where(swap, a, b)
    local none = ty.bitwise_and(eq(a, b), eq(abs(larger), INF)) -- equal infinities have no difference
    return larger + ty.log1p(ty.exp2(where(none, 0, other - larger))) * (1 / math.log(2))
  end

  --- x * 2^n.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param x tycho.Tensor|number
  ---@param n tycho.Tensor|number
  ---@return tycho.Tensor # the broadcast shape, floats
  local function ldexp(x, n)
    check.numbers("ldexp", x, n)
    return x * (is_tensor(n) and ty.exp2(floats[n.dtype] and n or n:to(is_tensor(x) and float_of(x) or "f32")) or 2 ^ n)
  end

  --- a^b in f64; of complex numbers in c128.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number broadcasts with a
  ---@return tycho.Tensor # the broadcast shape, f64 or c128
  local function float_power(a, b)
    check.numbers("float_power", a, b)
    local wide = (ty.is_complex(a) or ty.is_complex(b)) and "c128" or "f64"
    return ty.pow(is_tensor(a) and a:to(wide) or a, is_tensor(b) and b:to(wide) or b)
  end

  local function times(a, b) return a * b end
  local function over(a, b) return a / b end

  --- fn: what a and b are combined by, where one is a tensor; of: numbers.
  local function combined(who, x, a, b, opts, fn, of)
    check.tensor(who, 1, x)
    check.operand(who, 2, a)
    check.operand(who, 3, b)
    check.together(who, x, a, b)
    opts = check.options(who, opts, { value = "number" })
    local half = x.dtype
    half = (half == "f16" or half == "bf16") and half or nil
    if half then x = x:to("f32") end
    local v = opts.value or 1
    if type(a) == "number" and type(b) == "number" then fn = of end
    local y = check.under(who, function() return x + (v == 1 and fn(a, b) or fn(a * v, b)) end)
    return half and y:to(half) or y
  end

  --- x + value * a * b, element by element.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param x tycho.Tensor
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number
  ---@param opts? {value: number?} 1
  ---@return tycho.Tensor # the broadcast shape
  local function addcmul(x, a, b, opts) return combined("addcmul", x, a, b, opts, ty.mul, times) end

  --- x + value * a / b, element by element.
  --- Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
  ---@param x tycho.Tensor
  ---@param a tycho.Tensor|number
  ---@param b tycho.Tensor|number
  ---@param opts? {value: number?} 1
  ---@return tycho.Tensor # the broadcast shape
  local function addcdiv(x, a, b, opts) return combined("addcdiv", x, a, b, opts, ty.div, over) end

  row { "fmax", "a, b", fmax, "the larger; a number is larger than NaN", shape = "broadcast of a and b" }
  row { "fmin", "a, b", fmin, "the smaller; a number is smaller than NaN", shape = "broadcast of a and b" }
  row { "xlogy", "a, b", xlogy, "a * log(b), 0 where a is 0", shape = "broadcast of a and b", dtype = "float",
    inplace = true }
  row { "xlog1py", "a, b", xlog1py, "a * log(1 + b), 0 where a is 0", shape = "broadcast of a and b", dtype = "float" }
  row { "heaviside", "x, value", heaviside, "0 below zero, 1 above, value at zero", shape = "broadcast of x and value" }
  row { "logaddexp2", "a, b", logaddexp2, "log2(2^a + 2^b) without overflow", shape = "broadcast of a and b",
    dtype = "float" }
  row { "ldexp", "x, n", ldexp, "x times 2 to the power n", shape = "broadcast of x and n", dtype = "float" }
  row { "float_power", "a, b", float_power, "a to the power b, in f64", shape = "broadcast of a and b", dtype = "f64" }
  row { "addcmul", "x, a, b, {value = 1}", addcmul, "x + value * a * b", shape = "broadcast of the arguments",
    inplace = true }
  row { "addcdiv", "x, a, b, {value = 1}", addcdiv, "x + value * a / b", shape = "broadcast of the arguments",
    inplace = true }
end
