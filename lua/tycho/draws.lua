--- draws.lua -- composites of random numbers: distributions that uniform numbers are turned into.
-- Each draw takes the next stream of the seed, as rand does: the numbers are the same compiled or not, on all machines.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row, _, as_one)
  local fail, is_tensor = check.fail, ty.is_tensor
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  --- Uniform numbers in the shape of x: f64 for f64, else f32.
  local function uniform(x)
    return ty.rand(x.shape, { dtype = x.dtype == "f64" and "f64" or "f32", device = x.device })
  end

  local function positive(who, i, v, what, default)
    v = check.number(who, i, v, what, default)
    if v <= 0 or v ~= v then fail(who, "argument %d (%s) must be above 0, got %g", i, what, v) end
    return v
  end

  --- Writes 1 with probability p, else 0.
  --- Raises where p lies outside of 0 to 1, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param p? number|tycho.Tensor 0.5; a tensor broadcasts to x
  ---@return tycho.Tensor # x itself
  local function bernoulli_in_place(x, p)
    local who = "bernoulli_"
    check.tensor(who, 1, x)
    if p == nil then p = 0.5 end
    if is_tensor(p) then
      p = check.named(who, "expand", ty.expand, p, x.shape)
      return check.named(who, "copy_", x.copy_, x, check.named(who, "bernoulli", ty.bernoulli, p))
    end
    local options = { dtype = floats[x.dtype] and x.dtype or "f32", device = x.device }
    return check.named(who, "copy_", x.copy_, x, check.named(who, "bernoulli", ty.bernoulli, p, x.shape, options))
  end

  --- Writes exponential numbers, of mean 1 / lambda.
  --- Raises where x is no float tensor, lambda is not above 0, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor floats
  ---@param lambda? number 1
  ---@return tycho.Tensor # x itself
  local function exponential_in_place(x, lambda)
    check.float("exponential_", 1, x)
    lambda = positive("exponential_", 2, lambda, "lambda", 1)
    return check.named("exponential_", "copy_", x.copy_, x, ty.log1p(-uniform(x)) / -lambda)
  end

  --- Writes Cauchy's numbers.
  --- Raises where x is no float tensor, sigma is not above 0, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor floats
  ---@param median? number 0
  ---@param sigma? number 1: half of the width at half of the height
  ---@return tycho.Tensor # x itself
  local function cauchy_in_place(x, median, sigma)
    check.float("cauchy_", 1, x)
    median = check.number("cauchy_", 2, median, "median", 0)
    sigma = positive("cauchy_", 3, sigma, "sigma", 1)
    return check.named("cauchy_", "copy_", x.copy_, x, ty.tan((uniform(x) - 0.5) * math.pi) * sigma + median)
  end

  --- Writes numbers whose logarithms are normal.
  --- Raises where x is no float tensor, std is not above 0, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor floats
  ---@param mean? number 1: of the logarithms
  ---@param std? number 2: of the logarithms
  ---@return tycho.Tensor # x itself
  local function log_normal_in_place(x, mean, std)
    check.float("log_normal_", 1, x)
    mean = check.number("log_normal_", 2, mean, "mean", 1)
    std = positive("log_normal_", 3, std, "std", 2)
    local dtype = x.dtype == "f64" and "f64" or "f32"
    local z = ty.normal(mean, std, x.shape, { dtype = dtype, device = x.device })
    return check.named("log_normal_", "copy_", x.copy_, x, ty.exp(z))
  end

  --- Writes geometric numbers: how many draws of probability p it takes until one succeeds, from 1.
  --- Raises where p does not lie between 0 and 1, or x is a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param p number above 0, below 1
  ---@return tycho.Tensor # x itself
  local function geometric_in_place(x, p)
    local who = "geometric_"
    check.tensor(who, 1, x)
    p = positive(who, 2, p, "p")
    if p >= 1 then fail(who, "argument 2 (p) must be below 1, got %g", p) end
    local y = (ty.log1p(-uniform(x)) / math.log(1 - p)):ceil():maximum(1)
    return check.named(who, "copy_", x.copy_, x, floats[x.dtype] and y or y:to(x.dtype))
  end

  --- The largest whole number from 0 on that a dtype holds together with all below it; int64 takes what a double does.
  local largest = { bool = 1, u8 = 255, i8 = 127, i16 = 32767, u16 = 65535, i32 = 2 ^ 31 - 1, u32 = 2 ^ 32 - 1,
    i64 = 2 ^ 53 - 1, u64 = 2 ^ 53 - 1, f16 = 2 ^ 11, bf16 = 2 ^ 8, f32 = 2 ^ 24, f64 = 2 ^ 53 - 1 }

  --- Writes whole numbers from `from` to `to`, both of them among these, each as likely. Without them: from 0 to the
  --- largest that the dtype holds together with all below it (2^53 - 1 at most).
  --- Raises where only one bound is given, from is above to, or x is complex or a leaf that requires a gradient.
  ---@param x tycho.Tensor
  ---@param from? integer 0
  ---@param to? integer the dtype's largest; it is drawn, too, as by math.random
  ---@return tycho.Tensor # x itself
  local function random_in_place(x, from, to)
    local who = "random_"
    check.tensor(who, 1, x)
    local most = largest[x.dtype] or fail(who, "argument 1 must not be complex, got %s", check.text(x))
    if from ~= nil and to == nil then
      fail(who, "argument 3 (to) is missing: both bounds are drawn, or none is given")
    end
    from = check.whole(who, 2, from, "from", 0)
    to = check.whole(who, 3, to, "to", most)
    local options = { dtype = "i64", device = x.device }
    return check.named(who, "copy_", x.copy_, x, check.named(who, "randint", ty.randint, from, to, x.shape, options))
  end

  local function in_place(name, args, fn, help)
    row { name, args, fn, help .. ", returns it", shape = "x", single = true }
  end
  in_place("bernoulli_", "x, p = 0.5", bernoulli_in_place, "writes 1 with probability p, else 0, to x")
  in_place("exponential_", "x, lambda = 1", exponential_in_place, "writes exponential numbers to x")
  in_place("cauchy_", "x, median = 0, sigma = 1", cauchy_in_place, "writes Cauchy's numbers to x")
  in_place("log_normal_", "x, mean = 1, std = 2", log_normal_in_place, "writes numbers with normal logarithms to x")
  in_place("random_", "x, from = 0, to", random_in_place, "writes whole numbers, each as likely, to x")
  in_place("geometric_", "x, p", geometric_in_place, "writes how many draws it takes until one succeeds to x")

  local MOST, LARGEST = 400, 1e6 -- exp(-400) is a normal number; a mean in all

  --- The least number of 16, 24, 32, 48, 64, ... that an event of that mean exceeds with a chance below 2^-60: few
  --- numbers, as each is a plan.
  local function most_events(mean)
    local p = math.exp(-mean)
    local k = 0
    while k <= mean or p > 2 ^ -61 do
      k = k + 1
      p = p * mean / k
    end
    local n = 16
    while n < k do n = n * 1.5 >= k and n * 1.5 or n * 2 end
    return n
  end

  --- For each mean how many of the sums of the probabilities of 0 .. k events, k < most, a uniform number reaches.
  local events = as_one(function(mean, most)
    local u = ty.rand(mean.shape, { dtype = "f64", device = mean.device })
    local p = ty.exp(-mean)
    local below, sum = p, ty.le(p, u):to("f64")
    for k = 1, most - 1 do
      p = p * (mean * (1 / k))
      below = below + p
      sum = ty.le(below, u):to("f64") + sum
    end
    return sum
  end)

  --- Numbers of events, of Poisson's distribution with that mean: one for each element. Reads the largest mean.
  --- By inversion, in f64: the probabilities of 0, 1, 2, ... are added up until they exceed a uniform number. A large
  --- mean is a sum of several draws.
  --- Raises where a mean is negative, not finite, or above 1e6.
  ---@param rate tycho.Tensor floats from 0
  ---@return tycho.Tensor # shape and dtype of rate
  local function poisson(rate)
    local who = "poisson"
    check.float(who, 1, rate)
    if rate:numel() == 0 then return rate:clone() end
    local most, least = rate:max():item(), rate:min():item()
    if not (least >= 0 and most < math.huge) then fail(who, "means must be finite and not negative, got %g", least) end
    if most > LARGEST then
      fail(who, "means above %g take too many draws, got %g (take normal numbers of that mean and variance)", LARGEST,
        most)
    end
    local draws = math.max(1, math.ceil(most / MOST))
    local mean = rate:detach():to("f64") / draws
    most = most / draws
    local sum = events(mean, most_events(most))
    for _ = 2, draws do sum = sum + events(mean, most_events(most)) end
    return sum:to(rate.dtype)
  end

  row { "poisson", "rate", poisson, "numbers of events, of Poisson's distribution with that mean", shape = "rate",
    formula = "the least k with u < sum of exp(-rate) rate^i / i!, i = 0 to k", single = true }
end
