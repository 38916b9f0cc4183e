-- cuda_cases.lua -- what bench/cuda.lua measures, and what is to be reached.
-- In: a tycho module whose device is chosen; sizes. Out: a list of cases. A case is {name =, make =}; make() gives a
-- function that is called again and again. Optional: bytes that a call moves at least, flops, precision
-- (ty.precision), cpu (what counts is the thread's time, not the device's), marks: a list of {of = "copy" | "torch" |
-- "us", least = | most =}: part of the driver's copy, times as fast as PyTorch, microseconds; library, without: what is
-- asked where that library is not found.
-- cuda_peers.py has rows of the same names.

return function(ty, sizes)
  local nn, models = ty.nn, require "bench.models"(ty)
  local side, rows, small = sizes.side, sizes.rows, sizes.small
  local cases = {}
  local function case(c) cases[#cases + 1] = c end
  local matrix = rows * side * 4 -- bytes

  -- --- one kernel

  case { name = "map", bytes = 3 * matrix, marks = { { of = "copy", least = 0.88 } }, make = function()
    local x, y = ty.randn(rows, side), ty.randn(rows, side)
    local f = ty.compile(function(u, v) return (u * 2 + v):tanh() end)
    return function() return f(x, y) end
  end }
  for dim, name in ipairs { "column_sum", "row_sum" } do
    case { name = name, bytes = matrix, marks = { { of = "copy", least = 0.85 } }, make = function()
      local x = ty.randn(rows, side)
      return function() return x:sum(dim) end
    end }
  end
  case { name = "softmax", bytes = 2 * matrix, make = function()
    local x = ty.randn(rows, side)
    return function() return x:softmax(2) end
  end }
  case { name = "cumsum", bytes = 2 * matrix, make = function()
    local x = ty.randn(rows, side)
    return function() return x:cumsum(2) end
  end }

  -- --- products, attention

  local function product(name, dtype, precision, least)
    local marks = { { of = "torch", least = least } }
    case { name = name, flops = 2 * side ^ 3, precision = precision, marks = marks, make = function()
      local a, b = ty.randn(side, side):to(dtype), ty.randn(side, side):to(dtype)
      return function() return a:matmul(b) end
    end }
  end
  product("matmul", "f32", "exact", 0.9)
  product("matmul_tf32", "f32", "tf32", 0.98)
  product("matmul_f16", "f16", "fast", 0.98)
  product("matmul_bf16", "bf16", "fast", 0.98)
  local heads, length, width = sizes.heads, sizes.length, sizes.width
  for _, causal in ipairs { false, true } do
    local name, all = causal and "attention_causal" or "attention", 4 * heads * length ^ 2 * width
    local flops = causal and all / 2 or all
    local marks = { { of = "torch", least = 1, library = "libcudnn", without = 0.8 } }
    case { name = name, flops = flops, precision = "fast", marks = marks, make = function()
      local function operand() return ty.randn(1, heads, length, width):to "f16" end
      local q, k, v = operand(), operand(), operand()
      return function() return ty.scaled_dot_product_attention(q, k, v, { causal = causal }) end
    end }
  end

  -- --- what a call costs the CPU

  local function chain()
    local short = ty.randn(small)
    local f = ty.compile(function(v)
      for i = 1, 10 do v = v:flip(1):cumsum(1) * (1 / i) end
      return v
    end)
    return function() return f(short) end
  end
  case { name = "chain_of_10", make = chain }
  local marks = { { of = "us", most = 5 }, { of = "torch", least = 1 } }
  case { name = "chain_of_10_cpu", cpu = true, make = chain, marks = marks }

  -- --- training steps

  local function both_precisions(name, make, exact, tf32)
    case { name = name, make = make, marks = { { of = "torch", least = exact } } }
    case { name = name .. "_tf32", make = make, precision = "tf32", marks = { { of = "torch", least = tf32 } } }
  end

  local function step_of(model, x, classes)
    local opt, labels = ty.optim.SGD(model:parameters(), { lr = 0.01 }), ty.randint(1, classes, { x:size(1) })
    local step = ty.compile(function(u, v)
      opt:zero_grad()
      local loss = ty.cross_entropy(model(u), v)
      loss:backward()
      opt:step()
      return loss:detach()
    end)
    return function() return step(x, labels) end
  end

  both_precisions("train_mlp", function()
    return step_of(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), ty.rand(small, 784), 10)
  end, 1.3, 1.3)
  both_precisions("train_gpt", function()
    local step, x, y = models.gpt()
    local compiled = ty.compile(step)
    x, y = x:narrow(1, 1, sizes.texts):contiguous(), y:narrow(1, 1, sizes.texts):contiguous()
    return function() return compiled(x, y) end
  end, 1.3, 1.3)

  local Block = nn.class "Block"
  function Block:init(from, to, stride)
    self.conv1, self.norm1 = nn.Conv2d(from, to, 3, { stride = stride, padding = 1, bias = false }), nn.BatchNorm2d(to)
    self.conv2, self.norm2 = nn.Conv2d(to, to, 3, { padding = 1, bias = false }), nn.BatchNorm2d(to)
    if stride > 1 or from ~= to then
      self.short = nn.Sequential(nn.Conv2d(from, to, 1, { stride = stride, bias = false }), nn.BatchNorm2d(to))
    end
  end
  function Block:forward(x)
    local y = self.norm2(self.conv2(self.norm1(self.conv1(x)):relu()))
    return (y + (self.short and self.short(x) or x)):relu()
  end
  --- ResNet-18 for images of 32 x 32: a 3 x 3 convolution first, no pooling behind it.
  both_precisions("train_resnet18", function()
    local c = sizes.channels
    local layers = { nn.Conv2d(3, c, 3, { padding = 1, bias = false }), nn.BatchNorm2d(c), nn.ReLU() }
    local from = c
    for stage = 0, 3 do
      for i = 1, 2 do
        layers[#layers + 1] = Block(from, c * 2 ^ stage, stage > 0 and i == 1 and 2 or 1)
        from = c * 2 ^ stage
      end
    end
    local blocks = nn.Sequential(unpack(layers))
    local model = nn.Sequential(blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(from, 10))
    return step_of(model, ty.rand(sizes.images, 3, 32, 32), 10)
  end, 0.5, 1.0)
  return cases
end
