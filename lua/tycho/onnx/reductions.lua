--- reductions.lua -- ONNX operators that reduce, accumulate, multiply matrices.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs, select = ipairs, select
local T, numbers, dim_of = values.tensor, values.numbers, values.dim

return function(op)
  --- The dims that are reduced; nil: none at all.
  local function dims_of(a, x, axes)
    local list = axes ~= nil and numbers(axes) or a.axes
    local dims = {}
    if list == nil or #list == 0 then
      if a.noop_with_empty_axes == 1 then return nil end
      for d = 1, x.ndim do dims[d] = d end
    else
      for i, axis in ipairs(list) do dims[i] = dim_of(x, axis) end
    end
    return dims
  end

  local integers = { u8 = true, i8 = true, i16 = true, i32 = true, i64 = true, u16 = true, u32 = true, u64 = true }

  local function reduction(name, f, before)
    op(name, "axes keepdims noop_with_empty_axes", function(a, x, axes)
      x = T(x)
      if before then x = before(x) end
      local dims = dims_of(a, x, axes)
      if not dims then return f(x, nil) end
      if #dims == 0 then return f(x, {}) end
      local y = f(x, dims, a.keepdims ~= 0)
      return y.dtype == x.dtype and y or y:to(x.dtype)
    end)
  end

  local function over(f, empty)
    return function(x, dims, keep)
      if dims == nil or #dims == 0 then return empty and empty(x) or x end
      return f(x, dims, keep)
    end
  end

  local function mean(x, dims, keep) return (integers[x.dtype] and x:to("f32") or x):mean(dims, keep) end

  local function extreme(f, fill)
    return function(x, dims, keep)
      for _, d in ipairs(dims) do
        if x:size(d) == 0 then
          if values.is_float(x) then return ty.full_like(x:sum(dims, keep), fill) end
          return ty.full_like(x:sum(dims, keep), x.dtype == "bool" and fill > 0 and 1 or 0)
        end
      end
      if x.dtype == "bool" then return f(x:to("u8"), dims, keep):to("bool") end
      return f(x, dims, keep)
    end
  end

  reduction("ReduceSum", over(ty.sum))
  reduction("ReduceMean", over(mean))
  reduction("ReduceProd", over(ty.prod))
  reduction("ReduceMax", over(extreme(function(x, d, k) return (x:max(d, k)) end, -math.huge)))
  reduction("ReduceMin", over(extreme(function(x, d, k) return (x:min(d, k)) end, math.huge)))
  reduction("ReduceL1", over(function(x, d, k) return x:abs():sum(d, k) end, ty.abs))
  reduction("ReduceL2", over(function(x, d, k)
    return (integers[x.dtype] and x:to("f32") or x):square():sum(d, k):sqrt()
  end, ty.abs))
  reduction("ReduceSumSquare", over(function(x, d, k) return x:square():sum(d, k) end, ty.square))
  reduction("ReduceLogSum", over(function(x, d, k) return x:sum(d, k):log() end, ty.log))
  reduction("ReduceLogSumExp", over(ty.logsumexp))

  local function places(name, f)
    op(name, "axis keepdims select_last_index", function(a, x)
      x = T(x)
      local d = dim_of(x, a.axis or 0)
      local y
      if a.select_last_index == 1 then
        y = x:size(d) - f(x:flip(d), d, a.keepdims ~= 0)
      else
        y = f(x, d, a.keepdims ~= 0) - 1
      end
      return y
    end)
  end
  places("ArgMax", ty.argmax)
  places("ArgMin", ty.argmin)

  local function running(name, f)
    op(name, "exclusive reverse", function(a, x, axis)
      x = T(x)
      local d = dim_of(x, values.number(axis))
      if a.reverse == 1 then x = x:flip(d) end
      local y = f(x, d)
      if a.exclusive == 1 then
        local n = x:size(d)
        local first = ty.full_like(y:narrow(d, 1, 1), name == "CumProd" and 1 or 0)
        y = ty.cat({ first, y:narrow(d, 1, n - 1) }, d)
      end
      if a.reverse == 1 then y = y:flip(d) end
      return y.dtype == x.dtype and y or y:to(x.dtype)
    end)
  end
  running("CumSum", ty.cumsum)
  running("CumProd", ty.cumprod)

  ------------------------------------------------------------------------------------------------------------ softmax

  local function along(name, f)
    op(name, "axis", function(a, x)
      x = T(x)
      if a.opset >= 13 then return f(x, dim_of(x, a.axis or -1)) end
      return f(values.matrix(x, a.axis or 1), 2):reshape(x.shape)
    end)
  end
  along("Softmax", ty.softmax)
  along("LogSoftmax", ty.log_softmax)
  along("Hardmax", function(x, d)
    local at = x:argmax(d, true)
    return ty.zeros_like(x):scatter(d, at, ty.ones_like(at, { dtype = x.dtype }))
  end)

  ------------------------------------------------------------------------------------------------------------ products

  op("MatMul", "", function(_, a, b) return T(a):matmul(T(b)) end)

  op("Gemm", "alpha beta transA transB broadcast", function(a, x, y, c)
    x, y = T(x), T(y)
    if a.transA == 1 then x = x:t() end
    if a.transB == 1 then y = y:t() end
    local product = x:matmul(y)
    if a.alpha and a.alpha ~= 1 then product = product * a.alpha end
    if c == nil then return product end
    c = T(c)
    if a.beta and a.beta ~= 1 then c = c * a.beta end
    local sum = product + c
    return sum.dtype == product.dtype and sum or sum:to(product.dtype)
  end)

  op("Einsum", "equation", function(a, ...)
    local list = {}
    for i = 1, select("#", ...) do list[i] = T((select(i, ...))) end
    return ty.einsum(a.equation:gsub("%s", ""), list)
  end)

  op("Det", "", function(_, x)
    x = T(x)
    return ty.linalg.det(x)
  end)

  op("LpNormalization", "axis p", function(a, x)
    x = T(x)
    local d = dim_of(x, a.axis or -1)
    local n = (a.p or 2) == 1 and x:abs():sum(d, true) or x:square():sum(d, true):sqrt()
    return ty.where(n:eq(0), 0, x / n)
  end)

  op("MeanVarianceNormalization", "axes", function(a, x)
    x = T(x)
    local dims = {}
    for i, axis in ipairs(a.axes or { 0, 2, 3 }) do dims[i] = dim_of(x, axis) end
    local centred = x - x:mean(dims, true)
    return centred / (centred:square():mean(dims, true):sqrt() + 1e-9)
  end)

  ------------------------------------------------------------------------------------------------------------ losses

  local function reduced(a, loss, weight)
    if a.reduction == "none" then return loss end
    if a.reduction == "sum" then return loss:sum() end
    return weight and loss:sum() / weight:sum() or loss:mean()
  end

  --- The negative log-likelihood of class numbers from 0 in dim 2.
  local function likelihood(a, x, target, weight)
    x, target = T(x), T(target)
    local ignored = a.ignore_index and target:eq(a.ignore_index)
    local at = ignored and ty.where(ignored, 0, target) or target
    local loss = -x:gather(2, (at:to("i64") + 1):unsqueeze(2)):squeeze(2)
    local w
    if weight ~= nil then w = T(weight):take(at:to("i64") + 1) end
    if ignored then
      w = w or ty.ones_like(loss)
      w = ty.where(ignored, 0, w)
    end
    return reduced(a, w and loss * w or loss, w)
  end

  op("NegativeLogLikelihoodLoss", "ignore_index reduction", likelihood)
  op("SoftmaxCrossEntropyLoss", "ignore_index reduction", function(a, x, target, weight)
    local p = T(x):log_softmax(2)
    return likelihood(a, p, target, weight), p
  end)

end
