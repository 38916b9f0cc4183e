-- parts.lua -- rows of `make bench` about functions that are captured in parts: data are read, something is written.
-- And about functions that gain nothing.
-- In: run.lua's row. Out: rows.

local ty = require "tycho"

return function(row)
  --- Element by element until the largest error is small: so many turns, and what is read decides.
  local function newton(x)
    local y = x * 0.5 + 1
    local err = (y * y - x):abs():max()
    while err:item() > 1e-5 do
      y = y - (y * y - x) / (y * 2)
      err = (y * y - x):abs():max()
    end
    return y
  end

  local function conjugate(A, b)
    local x, r = ty.zeros(100), b
    local p, rs, n = r, r:dot(r), 0
    while rs:item() > 1e-8 and n < 60 do
      local Ap = A:matmul(p)
      local alpha = rs / p:dot(Ap)
      x, r = x + p * alpha, r - Ap * alpha
      local now = r:dot(r)
      p, rs, n = r + p * (now / rs), now, n + 1
    end
    return x
  end

  local null = io.open("/dev/null", "w")
  local function written(x)
    for _ = 1, 3 do
      for _ = 1, 5 do x = x * 0.9 + 0.1 end
      null:write(tostring(x:sum():item()), "\n")
    end
    return x
  end

  local function gets(x)
    local s = 0
    for i = 1, 64 do s = s + x:get(i) end
    return s
  end

  --- A training step that gives its loss as a number, or as a tensor.
  local function step(reads)
    local w, x = (ty.randn(64, 64) / 8):requires_grad_(), ty.randn(64, 64)
    return function()
      local loss = (x:matmul(w):tanh() - x):square():mean()
      loss:backward()
      ty.no_grad(function() w:sub_(w.grad * 0.01) end)
      w.grad = nil
      if reads then return loss:item() end
      return loss
    end
  end

  row { name = "training step, its loss read by item()", peer = "none", unit = "us", what = "not read",
    make_floor = true, most = 1.15, setup = function() return jit.compile(step(true)) end,
    floor = function() return jit.compile(step(false)) end }

  --- Functions of ten operations that gain nothing: each call differs from those before. key(i): what call i is given.
  local function ten(x)
    for _ = 1, 5 do x = x * 0.9 + 0.1 end
    return x
  end
  local field, lengths = {}, ty.randn(1000)
  for i = 1, 20000 do field["k" .. i], field[i] = i, i end
  local function shared(i) return lengths:narrow(1, 1, i % 1000 + 1) end
  local square = ty.rand(16, 16)
  for _, r in ipairs {
    { "a new string each call, made inside, as a key", function(x, i) return ten(x) * field["k" .. i] end },
    { "a new string each call, given, as a key", function(x, i) return ten(x) * field[i] end,
      key = function(i) return "k" .. i end },
    { "a new integer key each call", function(x, i) return ten(x) * field[i] end },
    { "a new integer key each call, written to", function(x, i, out)
      out[i] = i
      return ten(x)
    end },
    { "a number's text each call", function(x, i) return ten(x), tostring(i) end },
    { "sizes 1 to 1,000 in turn", ten, input = shared },
    { "sizes 1 to 1,000 in turn, which decide", function(x)
      local s = 0
      for i = 1, x:size(1) % 7 do s = s + i end
      return ten(x) * s
    end, input = shared },
    { "sizes 1 to 1,000 in turn, of what is not captured", function(x)
      debug.getinfo(1, "l")
      return ten(x)
    end, input = shared },
  } do
    local function calls(f)
      local i, out = 0, {}
      local function call()
        i = i % 20000 + 1
        return (f(r.input and r.input(i) or square, r.key and r.key(i) or i, out))
      end
      for _ = 1, 4000 do call() end
      return call
    end
    row { name = "nothing gained: " .. r[1], peer = "none", unit = "us", what = "eager", make_floor = true, most = 1.1,
      setup = function() return calls(jit.compile(r[2])) end, floor = function() return calls(r[2]) end }
  end

  local x, Q, b, image = ty.arange(1, 101), ty.rand(100, 100), ty.rand(100), ty.rand(64, 64)
  local A = Q:matmul(Q:t()) / 100 + ty.eye(100)
  for _, r in ipairs {
    { "Newton's roots of 100 numbers, while err:item() > tol", newton, x, 0.6 },
    { "conjugate gradients, 100x100, while rs:item() > tol", conjugate, A, 0.8, b },
    { "30 operations on 64x64, 3 writes of values", written, image, 0.7 },
    { "64 times x:get(i)", gets, x, 1.1 },
  } do
    local f = r[2]
    row { name = r[1], peer = "none", unit = "us", what = "eager", make_floor = true, most = r[4],
      setup = function()
        local g = jit.compile(f)
        return function() return g(r[3], r[5]) end
      end,
      floor = function() return function() return f(r[3], r[5]) end end }
  end
end
