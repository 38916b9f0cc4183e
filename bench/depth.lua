-- depth.lua -- rows of `make bench` about results that nobody holds, small composites, recurrent layers.
-- In: run.lua's row. Out: rows.

local ty = require "tycho"

return function(row)
  local function steps(x)
    local y = x * 1.01 + 0.5
    return (y:abs() * 0.25 + x):maximum(0.1) * y
  end
  local function beside(objects, call)
    return function()
      local heap, f, x = {}, jit.compile(steps), ty.randn(1e6)
      for i = 1, objects do heap[i] = { i } end
      return call(f, x), heap
    end
  end
  local function dropped(f, x)
    return function() local _ = f(x) end
  end
  local function released(f, x)
    return function() f(x):release() end
  end
  for _, objects in ipairs { 0, 2e5 } do
    row { name = "7 operations, 1e6, result dropped" .. (objects > 0 and ", beside 200,000 tables" or ""),
      peer = "none", unit = "us", what = "released", make_floor = true, most = 1.15, setup = beside(objects, dropped),
      floor = beside(objects, released) }
  end

  local x, two = ty.randn(16, 16), ty.randn(16, 16)
  for _, r in ipairs {
    { "softmax", function() return x:softmax(2) end }, { "layer_norm", function() return x:layer_norm() end },
    { "cross_entropy", function() return ty.cross_entropy(x, two) end }, { "norm", function() return x:norm() end },
    { "clamp", function() return x:clamp(-1, 1) end },
  } do
    row { name = r[1] .. ", 16x16, eager", peer = "small_" .. r[1], unit = "us", what = "x:sum(2)", most = 2,
      ours = r[2], floor = function() return x:sum(2) end }
  end

  --- A step of training of two layers in both directions over 30 positions.
  local function recurrent(kind)
    local net, input = ty.nn[kind](32, 64, { layers = 2, bidirectional = true }), ty.randn(16, 30, 32)
    local optimizer = ty.optim.SGD(net:parameters(), { lr = 0.01 })
    return function()
      optimizer:zero_grad()
      net(input):square():mean():backward()
      optimizer:step()
    end
  end
  for _, kind in ipairs { "LSTM", "GRU" } do
    row { name = ("training step, %s 32-64, 2 layers, both ways, 30 x 16"):format(kind), peer = "train_" .. kind,
      unit = "ms", beats = "torch", times = 1.5, what = "eager", make_floor = true,
      setup = function() return jit.compile(recurrent(kind)) end, floor = function() return recurrent(kind) end }
  end
end
