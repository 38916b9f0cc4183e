--- recurrent.lua -- ONNX operators RNN, GRU, LSTM.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local ipairs = ipairs
local T = values.tensor

local activations = {
  Relu = ty.relu, Tanh = ty.tanh, Sigmoid = ty.sigmoid, Softplus = function(x) return x:softplus() end,
  Softsign = function(x) return x / (x:abs() + 1) end,
  Affine = function(x, alpha, beta) return x * (alpha or 1) + (beta or 0) end,
  LeakyRelu = function(x, alpha) return x:leaky_relu(alpha or 0.01) end,
  ThresholdedRelu = function(x, alpha) return ty.where(x:gt(alpha or 1), x, 0) end,
  ScaledTanh = function(x, alpha, beta) return (x * (beta or 1)):tanh() * (alpha or 1) end,
  HardSigmoid = function(x, alpha, beta) return (x * (alpha or 0.2) + (beta or 0.5)):clamp(0, 1) end,
  Elu = function(x, alpha) return x:elu(alpha or 1) end,
}

local attributes = "activation_alpha activation_beta activations clip direction hidden_size input_forget layout "
  .. "linear_before_reset output_sequence"

local function check(a)
  for _, name in ipairs(a.activations or {}) do
    if not activations[name] then return ("the activation %q is not supported"):format(name) end
  end
  return nil
end

return function(op)
  --- The activation function number i of a direction.
  local function activation(a, i, default)
    local name = a.activations and a.activations[i] or default
    local alpha, beta = a.activation_alpha and a.activation_alpha[i], a.activation_beta and a.activation_beta[i]
    return function(x)
      if a.clip then x = x:clamp(-a.clip, a.clip) end
      return activations[name](x, alpha, beta)
    end
  end

  --- Runs `cell(x, h, c, k) -> h, c` over the sequence in the directions asked; gates: rows of W by the hidden size.
  local function run(a, x, w, r, b, lengths, h0, c0, gates, nactivations, defaults, cell_of)
    x, w, r = T(x), T(w), T(r)
    if a.layout == 1 then x = x:transpose(1, 2) end
    local steps, batch, directions = x:size(1), x:size(2), w:size(1)
    local hidden = r:size(3)
    local sequences, last_h, last_c = {}, {}, {}
    local zeros = ty.zeros({ batch, hidden }, { dtype = x.dtype, device = x.device })
    if h0 ~= nil then h0 = a.layout == 1 and T(h0):transpose(1, 2) or T(h0) end
    if c0 ~= nil then c0 = a.layout == 1 and T(c0):transpose(1, 2) or T(c0) end
    if lengths ~= nil then lengths = T(lengths):reshape(batch, 1) end
    for k = 1, directions do
      local acts = {}
      for i = 1, nactivations do acts[i] = activation(a, (k - 1) * nactivations + i, defaults[i]) end
      local bias = b ~= nil and T(b)[k] or nil
      local wb, rb
      if bias then wb, rb = bias:narrow(1, 1, gates * hidden), bias:narrow(1, gates * hidden + 1, gates * hidden) end
      local step = cell_of(acts, w[k]:t(), r[k]:t(), wb, rb, hidden, k)
      local h, c = h0 and h0[k] or zeros, c0 and c0[k] or zeros
      local rows = {}
      local backward = a.direction == "reverse" or k == 2
      for i = 1, steps do
        local t = backward and steps + 1 - i or i
        local h2, c2 = step(x[t], h, c)
        if lengths then
          local inside = lengths:ge(t)
          h = ty.where(inside, h2, h)
          c = c2 and ty.where(inside, c2, c) or c
          rows[t] = ty.where(inside, h2, 0)
        else
          h, c, rows[t] = h2, c2 or c, h2
        end
      end
      sequences[k], last_h[k], last_c[k] = ty.stack(rows, 1), h, c
    end
    local y, yh, yc = ty.stack(sequences, 2), ty.stack(last_h, 1), ty.stack(last_c, 1)
    if a.layout == 1 then y, yh, yc = y:permute(3, 1, 2, 4), yh:transpose(1, 2), yc:transpose(1, 2) end
    return y, yh, yc
  end

  local function plus(x, b) return b and x + b or x end

  op("RNN", attributes, function(a, x, w, r, b, lengths, h0)
    return run(a, x, w, r, b, lengths, h0, nil, 1, 1, { "Tanh" }, function(f, wt, rt, wb, rb)
      return function(v, h) return f[1](plus(v:matmul(wt), wb) + plus(h:matmul(rt), rb)) end
    end)
  end, { check = check })

  op("GRU", attributes, function(a, x, w, r, b, lengths, h0)
    return run(a, x, w, r, b, lengths, h0, nil, 3, 2, { "Sigmoid", "Tanh" }, function(f, wt, rt, wb, rb, n)
      local rzr, rh = rt:narrow(2, 1, 2 * n), rt:narrow(2, 2 * n + 1, n)
      local rbzr, rbh = rb and rb:narrow(1, 1, 2 * n), rb and rb:narrow(1, 2 * n + 1, n)
      return function(v, h)
        local from_x = plus(v:matmul(wt), wb)
        local zr = f[1](from_x:narrow(2, 1, 2 * n) + plus(h:matmul(rzr), rbzr))
        local z, reset = zr:narrow(2, 1, n), zr:narrow(2, n + 1, n)
        local from_h
        if (a.linear_before_reset or 0) ~= 0 then
          from_h = reset * plus(h:matmul(rh), rbh)
        else
          from_h = plus((reset * h):matmul(rh), rbh)
        end
        local new = f[2](from_x:narrow(2, 2 * n + 1, n) + from_h)
        return (1 - z) * new + z * h
      end
    end)
  end, { check = check })

  op("LSTM", attributes, function(a, x, w, r, b, lengths, h0, c0, p)
    return run(a, x, w, r, b, lengths, h0, c0, 4, 3, { "Sigmoid", "Tanh", "Tanh" }, function(f, wt, rt, wb, rb, n, k)
      local peep = p ~= nil and T(p)[k]
      local pi, po, pf
      if peep then pi, po, pf = peep:narrow(1, 1, n), peep:narrow(1, n + 1, n), peep:narrow(1, 2 * n + 1, n) end
      return function(v, h, c)
        local gates = plus(v:matmul(wt), wb) + plus(h:matmul(rt), rb)
        local i, o = gates:narrow(2, 1, n), gates:narrow(2, n + 1, n)
        local forget, g = gates:narrow(2, 2 * n + 1, n), gates:narrow(2, 3 * n + 1, n)
        i = f[1](pi and i + pi * c or i)
        forget = (a.input_forget or 0) ~= 0 and 1 - i or f[1](pf and forget + pf * c or forget)
        local c2 = forget * c + i * f[2](g)
        return f[1](po and o + po * c2 or o) * f[3](c2), c2
      end
    end)
  end, { check = check })
end
