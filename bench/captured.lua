-- captured.lua -- rows of `make bench` about calls that run no Lua of the user's.
-- In: run.lua's row, its C module, and latency(what), which gives two numbers of a process of its own.
-- Out: rows. A call here ends with its result; nothing is read back, since captured calls compute at once.

local ty = require "tycho"
local models = require "models"(ty)
local live_set = dofile((arg[0]:match "^(.*)/[^/]*$" or ".") .. "/../spec/live_set.lua")

return function(row, native, latency)
  local vector = native.vector4(1, 2, 3, 4)
  local function floor() return native.add4(vector, vector) end
  local nothing = "a C function of Lua's"

  local function called(f, ...)
    local compiled, x, y = jit.compile(f), ...
    return function() return compiled(x, y) end
  end

  row { name = "captured call, 1 guard", peer = "call1", what = nothing, unit = "us", mark = 0.30e-6,
    setup = function() return called(function(x) return x + 1 end, ty.randn(4)) end, floor = floor }
  row { name = "captured call, 8 guards", peer = "call8", what = nothing, unit = "us", mark = 0.30e-6,
    setup = function()
      local options = { active = true, mode = "add", scale = 2 }
      return called(function(x)
        if options.active and options.mode == "add" then return x + options.scale end
        return x
      end, ty.randn(4))
    end, floor = floor }
  row { name = "100 captured parameters in nested tables", peer = "parameters", what = nothing, unit = "us",
    mark = 2e-6, setup = function() return called(models.parameters()) end, floor = floor }
  for _, r in ipairs { { 64, 0.75e-6 }, { 256, 8.5e-6 } } do
    row { name = ("MLP %dx3, batch 1"):format(r[1]), peer = "mlp" .. r[1], what = "its three products alone, eager",
      setup = function() return called(models.mlp(r[1], 3)) end,
      floor = function()
        local w, x = ty.randn(r[1], r[1]), ty.randn(1, r[1])
        return function() return x:matmul(w):matmul(w):matmul(w) end
      end, make_floor = true, unit = "us", mark = r[2] }
  end
  -- Time and memory of a capture are linear in operations: so many at once, beside as many in parts of a thousand.
  local function capture(n)
    local x = ty.ones(4)
    local function body(v)
      for _ = 1, n / 2 do v = v * 0.99 + 0.1 end
      return v
    end
    return function() return jit.compile(function(v) return body(v) end)(x) end
  end
  for _, n in ipairs { 10000, 100000 } do
    row { name = ("first call of %d operations"):format(n), peer = "none", what = "first calls of 1000 each",
      unit = "ms", mark = n * 5e-6, make_floor = true, setup = function() return capture(n) end,
      floor = function()
        local part = capture(1000)
        return function()
          for _ = 2, n / 1000 do part() end
          return part()
        end
      end }
  end
  for _, r in ipairs { { "784-128-10", { 784, 128, 10 }, 64, 0.33e-3 }, { "8-32-2", { 8, 32, 2 }, 16, 6e-6 } } do
    row { name = ("training step, MLP %s, batch %d, SGD"):format(r[1], r[3]), peer = "step" .. r[2][1],
      what = "eager", unit = "us", mark = r[4], make_floor = true,
      setup = function() return called(models.step(r[2], r[3])) end,
      floor = function()
        local step, x = models.step(r[2], r[3])
        return function() return step(x) end
      end }
  end
  --- The forward pass compiled, the loss outside, beside the step compiled whole. maker: of a step and its arguments.
  local function outside(name, unit, whole, maker, ...)
    local args = { ... }
    row { name = name, peer = "none", what = "compiled whole", unit = unit, most = 1.1, make_floor = true,
      setup = function()
        local step, x, y = maker(unpack(args))
        for _ = 1, 20 do step(x, y) end -- an optimiser's first steps go operation by operation
        return function() return step(x, y) end
      end,
      floor = whole }
  end
  for _, r in ipairs {
    { { 8, 32, 2 }, 16 },
    { { 64, 64, 10 }, 32 },
    { { 128, 128, 10 }, 64 },
    { { 784, 128, 10 }, 64 },
    { { 784, 128, 10 }, 1024 },
  } do
    local name = ("MLP %s, batch %d"):format(table.concat(r[1], "-"), r[2])
    local function whole() return called(models.step(r[1], r[2])) end
    outside("forward compiled, loss outside, " .. name, "us", whole, models.outside, r[1], r[2], jit.compile)
    if r[2] == 16 then
      outside("forward, loss, update compiled, " .. name, "us", whole, models.outside, r[1], r[2], jit.compile,
        jit.compile)
    end
  end
  row { name = "four calls in place of one, without a tape, MLP 8-32-2, batch 16", peer = "none", what = "one call",
    unit = "us", remark = "the floor of the first row", make_floor = true,
    setup = function()
      local step, x = models.by_hand({ 8, 32, 2 }, 16, jit.compile)
      return function() return step(x) end
    end,
    floor = function() return called(models.by_hand({ 8, 32, 2 }, 16)) end }
  outside("forward compiled, loss outside, CNN 1-16-32, 28x28, batch 32", "ms",
    function() return called(models.cnn(28, 32)) end, models.cnn_outside, 28, 32, jit.compile)
  outside("forward compiled, loss outside, GPT of 3 blocks of 64, 16x64", "ms",
    function() return called(models.gpt()) end, models.gpt, jit.compile)
  row { name = "conv 3x3, 32 to 32 channels, 28x28, batch 16", peer = "conv", what = "a product of as many sums",
    unit = "ms", mark = 1.2e-3, make_floor = true,
    setup = function()
      return called(function(x, w) return ty.conv2d(x, w, { padding = 1 }) end, ty.randn(16, 32, 28, 28),
        ty.randn(32, 32, 3, 3))
    end,
    floor = function()
      local a, b = ty.randn(32, 288), ty.randn(288, 16 * 784)
      return function() return a:matmul(b) end
    end }
  row { name = "training step, CNN 1-16-32, 28x28, batch 32, SGD", peer = "cnn", what = "eager", unit = "ms",
    mark = 2.7e-3, make_floor = true,
    setup = function() return called(models.cnn(28, 32)) end,
    floor = function()
      local step, x = models.cnn(28, 32)
      return function() return step(x) end
    end }
  -- A length that was not there before: one plan serves a range of them.
  for _, layers in ipairs { 1, 8, 12 } do
    local function decoding(length)
      local step, x = models.decoder(layers, 64)
      local compiled, calls = jit.compile(step), 0
      for n = 60, 72 do compiled(x, n) end
      return function()
        calls = calls + 1
        return compiled(x, length(calls))
      end
    end
    row { name = ("decoding, %d block%s d64, another length each call"):format(layers, layers > 1 and "s" or ""),
      peer = "none", what = "one length", unit = "us", make_floor = true, most = 1.15,
      setup = function() return decoding(function(i) return 40 + i * 7 % 61 end) end,
      floor = function() return decoding(function() return 70 end) end }
  end
  -- The same of what is trained: beside functions that have one size each, and beside the model as it is.
  local function training(kind, compile)
    local step, low, high = models.sized(kind, compile)
    local calls, span, by = 0, high - low + 1, 7
    while span % by == 0 do by = by + 2 end
    local function call()
      calls = calls + 1
      return step(low + calls * by % span)
    end
    for _ = 1, 3 * span do call() end
    return call
  end
  local function known(kind)
    local steps, calls, _, low, high = {}, 0, models.sized(kind, jit.compile)
    for i = 0, 6 do
      local step, n = models.sized(kind, jit.compile), math.floor(low + (high - low) * i / 6)
      steps[i + 1] = function() return step(n) end
    end
    local function call()
      calls = calls % 7 + 1
      return steps[calls]()
    end
    for _ = 1, 70 do call() end
    return call
  end
  for _, r in ipairs { { "MLP 32-64-64-8, batches of 17 to 64", "MLP" }, { "GRU 16-32, lengths of 20 to 80", "GRU" },
    { "GPT, 2 blocks d32, lengths of 20 to 80", "GPT" } } do
    row { name = ("forward compiled, then backward, %s"):format(r[1]), peer = "none", what = "known sizes", unit = "us",
      make_floor = true, most = 1.1, setup = function() return training(r[2], jit.compile) end,
      floor = function() return known(r[2]) end }
    row { name = ("the same, %s"):format(r[1]), peer = "none", what = "eager", unit = "us",
      make_floor = true, most = 1.1, setup = function() return training(r[2], jit.compile) end,
      floor = function() return training(r[2], function(f) return f end) end }
  end
  local function falling(f)
    local counts, calls, n = {}, 0, 1000
    local place, speed = ty.randn(4000, 3), ty.zeros(4000, 3)
    math.randomseed(1)
    for i = 1, 3000 do
      n = math.max(200, math.min(4000, n + math.random(-20, 20)))
      counts[i] = n
    end
    return function()
      calls = calls % 3000 + 1
      return (f(place:narrow(1, 1, counts[calls]), speed:narrow(1, 1, counts[calls]), 0.01))
    end
  end
  row { name = "particles, some 1,000, another count each call", peer = "none", what = "eager", unit = "us",
    make_floor = true, most = 0.3,
    setup = function() return falling(jit.compile(models.particles())) end,
    floor = function() return falling(models.particles()) end }
  row { name = "1,000 small MLPs a frame", peer = "mlps1000", what = "1,000 C functions of Lua's", unit = "ms",
    mark = 0.75e-3,
    setup = function()
      local nets, x, run = {}, ty.randn(1, 16), jit.compile(models.run)
      for i = 1, 1000 do nets[i] = models.small() end
      return function()
        for i = 1, #nets do run(nets[i], x) end
      end
    end,
    floor = function() for _ = 1, 1000 do floor() end end }

  for _, r in ipairs {
    { "mlp", "capture of a 4-layer MLP", 2e-3 }, { "transformer", "capture of a 12-layer transformer", 30e-3 },
  } do
    local second
    row { name = r[2] .. ", first", peer = "first_" .. r[1], raw = true, unit = "ms", what = "its second call",
      mark = r[3],
      ours = function()
        local first
        first, second = latency(r[1])
        return first
      end }
    row { name = r[2] .. ", warm", raw = true, unit = "ms", what = "its second call",
      ours = function() return second or select(2, latency(r[1])) end }
  end
  local warm
  row { name = "first compiled step of an MLP 784-128-10", raw = true, unit = "ms", what = "no other call", mark = 5e-3,
    ours = function()
      local first
      first, warm = latency "step"
      return first
    end }
  row { name = "first compiled step of an MLP, warm", raw = true, unit = "ms", what = "no other call",
    ours = function() return warm or select(2, latency "step") end }

  local function blocks(rows)
    local nn = ty.nn
    local function block() return nn.TransformerBlock(64, 4, { causal = true }) end
    local model = nn.Sequential(block(), block())
    local opt, target = ty.optim.Adam(model:parameters()), ty.randn(rows, 32, 64)
    return function(x)
      opt:zero_grad()
      local loss = ty.mse_loss(model(x), target)
      loss:backward()
      opt:step()
      return loss:detach()
    end, ty.randn(rows, 32, 64)
  end

  for _, r in ipairs {
    { "MLP 784-128-10, batch 64", function() return models.step({ 784, 128, 10 }, 64) end },
    { "two transformer blocks d64/s32, batch 8", function() return blocks(8) end },
    { "two transformer blocks d64/s32, batch 1", function() return blocks(1) end },
  } do
    local least, taken
    row { name = "peak memory of a training step, " .. r[1], raw = true, raw_floor = true, unit = "MB",
      what = "its live set", most = 1.1,
      ours = function()
        local step, x = r[2]()
        local compiled = jit.compile(step)
        for _ = 1, 2 do compiled(x) end
        least, taken = live_set.measure(jit.explain(compiled).traces[1])
        return taken
      end,
      floor = function() return least end }
  end
  local before
  row { name = "memory of an entry, 1,000 captures", raw = true, raw_floor = true, unit = "MB",
    what = "after 200 captures",
    ours = function()
      local after
      before, after = latency "memory"
      return after
    end,
    floor = function() return before end, most = 1.05 }
end
