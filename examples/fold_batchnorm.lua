-- A pass over graphs: a batch norm is folded into the layer before it.
--   ./tycho examples/fold_batchnorm.lua [rows = 2048] [width = 128]
-- In use, not in training, a batch norm multiplies each column of its input by a number and adds another. The layer
-- before it, x W + b, can do that by itself with other weights: (x W + b - mean) / std * gamma + beta is x W' + b' with
-- W' = W scale, b' = (b - mean) scale + beta and scale = gamma / std. Four passes over a large matrix become work on a
-- small one. The sums are taken in another order, so the last bits may differ: a pass is asked for by name.

local ty = require "tycho"

local rows, width = tonumber(arg[1]) or 2048, tonumber(arg[2]) or 128

-- One number for each column of the layer's result, as the fold needs it.
local function is_column(n, result)
  return #n.shape == 1 and n.shape[1] == result.shape[#result.shape] and n.dtype == result.dtype
end

local normed_layer = "add(mul(div(sub(add(matmul(?x, ?w), ?b), ?mean), ?std), ?gamma), ?beta)"

jit.pass("fold_batchnorm", function(g)
  g:rewrite(normed_layer, function(m)
    for _, name in ipairs { "b", "mean", "std", "gamma", "beta" } do
      if not is_column(m[name], m.root) then return nil end
    end
    local at = { before = m.root }
    local scale = g:insert(at, "div", { m.gamma, m.std }, { name = "scale" })
    local weight = g:insert(at, "mul", { m.w, scale }, { name = "weight" })
    local centred = g:insert(at, "sub", { m.b, m.mean })
    local bias = g:insert(at, "add", { g:insert(at, "mul", { centred, scale }), m.beta }, { name = "bias" })
    return g:insert(at, "add", { g:insert(at, "matmul", { m.x, weight }), bias })
  end)
end)

-- Two layers, each with its batch norm.
local function parameters(inputs, outputs)
  return {
    w = ty.randn(inputs, outputs) / math.sqrt(inputs), b = ty.randn(outputs),
    mean = ty.randn(outputs), var = ty.rand(outputs) + 0.5, gamma = ty.randn(outputs), beta = ty.randn(outputs),
  }
end

local function layer(x, p)
  local std = (p.var + 1e-5):sqrt()
  return (x:matmul(p.w) + p.b - p.mean) / std * p.gamma + p.beta
end

ty.manual_seed(1)
local first, second = parameters(width, width), parameters(width, 10)

local function model(x) return layer(layer(x, first):relu(), second) end

local function elements_written(g)
  local total = 0
  for n in g:nodes() do
    if n.op ~= "input" and n.op ~= "scalar" then
      local count = 1
      for _, size in ipairs(n.shape) do count = count * size end
      total = total + count
    end
  end
  return total
end

-- Passes run in their order when a call is captured; these two only look.
local graphs = {}
local function look(g) graphs[#graphs + 1] = g:clone() end

local x = ty.randn(rows, width)
local unfolded = jit.compile(model)
local folded = jit.compile(model, { passes = { look, "fold_batchnorm", look } })
local y, z = unfolded(x), folded(x)

print("as captured:\n" .. tostring(graphs[1]))
print("\nfolded:\n" .. tostring(graphs[2]))
print(("\nelements written: %d, folded %d"):format(elements_written(graphs[1]), elements_written(graphs[2])))
print(("largest difference: %.2g of values up to %.3g"):format((y - z):abs():max():item(), y:abs():max():item()))
print("compiled without the pass, the model has its bits: " .. tostring(y:equal(model(x))))

-- Parameters are read in each call: training may go on.
first.gamma = first.gamma * 2
y, z = model(x), folded(x)
print(("with other parameters: %.2g of %.3g, captured %d time"):format((y - z):abs():max():item(),
  y:abs():max():item(), jit.explain(folded).captures))
