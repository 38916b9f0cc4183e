--- nn/recurrent.lua -- recurrent layers: RNN, GRU, LSTM, of several layers and in both directions.
-- In: [batch, time, inputs] ({batch_first = false}: [time, batch, inputs]) and a state [layers * directions, batch,
-- hidden], zeros by default. Out: what the last layer gave at each time, [batch, time, hidden * directions], and the
-- last states.
--
-- Parameters of layer n: weight_ih_ln [inputs, gates * hidden], weight_hh_ln [hidden, gates * hidden], bias_ih_ln,
-- bias_hh_ln, of the backward direction the same with _reverse. The gates' order is PyTorch's: r z n, and i f g o.
-- All times' inputs meet their weights in one product; what depends on the state is one product a time. Up to LONG
-- times are written out one after the other, which leaves a compiler more to fuse; more are one ty.scan.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count, uniform, cast = nn._check, nn.class, nn._count, nn._uniform, nn._cast
  local sigmoid, tanh, relu, where = ty.sigmoid, ty.tanh, ty.relu, ty.where
  local is_tensor = ty.is_tensor
  local LONG = 64

  ---@class tycho.nn.Recurrent: tycho.Module
  local Recurrent = class "Recurrent"

  local known = {
    layers = "number", bias = "boolean", batch_first = "boolean", dropout = "number", bidirectional = "boolean",
    nonlinearity = "string",
  }

  --- dropout: between layers. Weights begin uniform within 1 / sqrt(hidden).
  ---@param inputs integer
  ---@param hidden integer
  ---@param opts? table
  function Recurrent:init(inputs, hidden, opts)
    local who = self.class_name
    self.inputs, self.hidden = count(who, 1, inputs, "inputs"), count(who, 2, hidden, "hidden")
    opts = check.options(who, opts, known)
    self.layers, self.bias = count(who, 3, opts.layers or 1, "layers"), opts.bias ~= false
    self.batch_first, self.dropout = opts.batch_first ~= false, opts.dropout or 0
    self.directions = opts.bidirectional and 2 or 1
    self.nonlinearity = opts.nonlinearity or "tanh"
    if self.nonlinearity ~= "tanh" and (self.nonlinearity ~= "relu" or self.gates > 1) then
      check.fail(who, "option nonlinearity must be %s, got %q", self.gates > 1 and "left out" or "\"tanh\" or \"relu\"",
        self.nonlinearity)
    end
    local bound = 1 / math.sqrt(hidden)
    self.names = {} -- of the parameters, by layer and direction
    for layer = 1, self.layers do
      for direction = 1, self.directions do
        local own = ("_l%d%s"):format(layer, direction == 2 and "_reverse" or "")
        local width = layer == 1 and inputs or hidden * self.directions
        local names = { "weight_ih" .. own, "weight_hh" .. own, "bias_ih" .. own, "bias_hh" .. own }
        self[names[1]] = uniform({ width, self.gates * hidden }, bound)
        self[names[2]] = uniform({ hidden, self.gates * hidden }, bound)
        if self.bias then
          self[names[3]] = uniform({ self.gates * hidden }, bound)
          self[names[4]] = uniform({ self.gates * hidden }, bound)
        end
        self.names[#self.names + 1] = names
      end
    end
  end

  function Recurrent.torch_name(_, k)
    return (k:gsub("_l(%d+)", function(n) return "_l" .. (tonumber(n) - 1) end))
  end

  function Recurrent.from_torch(_, k, v)
    if k:sub(1, 6) == "weight" and v.ndim == 2 then return v:t() end
    return v
  end

  function Recurrent:describe()
    local text = ("%d, %d"):format(self.inputs, self.hidden)
    if self.layers > 1 then text = text .. (", layers = %d"):format(self.layers) end
    if self.directions > 1 then text = text .. ", bidirectional" end
    return text
  end

  --- Checks a state given, or makes one of zeros.
  local function state_of(m, who, x, s, batch)
    local n = m.layers * m.directions
    if s == nil then return ty.zeros({ n, batch, m.hidden }, { dtype = x.dtype, device = x.device }) end
    if not is_tensor(s) or s.ndim ~= 3 or s:size(1) ~= n or s:size(2) ~= batch or s:size(3) ~= m.hidden then
      check.fail(m.class_name, "%s must be [%d, %d, %d], got %s", who, n, batch, m.hidden, check.show(s))
    end
    return s
  end

  --- A step where the sequences go on, [batch, 1] of bool; elsewhere the states stay and the output is 0.
  local function step(m, g, h, c, wh, bh, on)
    local y, state = m:step(g, h, c, wh, bh)
    if not on then return y, y, state end
    return where(on, y, 0), where(on, y, h), state and where(on, state, c)
  end

  --- One layer in one direction over x [time, batch, width]. Gives the outputs, stacked in order of time along dim
  --- `along`, and the last states. on: where sequences go on, [time, batch, 1], or nil.
  local function run(m, x, names, h, c, backward, along, on)
    local a, wi, wh, bi, bh = cast(x, m[names[1]], m[names[2]], m[names[3]], m[names[4]])
    local gates = a:matmul(wi)
    if bi then gates = gates + bi end
    local outs, time = {}, x:size(1)
    if time > LONG and not ty._half() then
      local last, all = ty.scan(function(s, g)
        local y, state, cell = step(m, on and g[1] or g, s[1], s[2], wh, bh, on and g[2])
        return { state, cell }, y
      end, { h, c }, on and { gates, on } or gates, { reverse = backward })
      return along == 1 and all or all:transpose(1, along):contiguous(), last[1], last[2]
    end
    local first, last, by = 1, time, 1
    if backward then first, last, by = time, 1, -1 end
    for t = first, last, by do
      outs[t], h, c = step(m, gates[t], cast(h), c, wh, bh, on and on[t])
    end
    return ty.stack(outs, along), h, c
  end

  --- Gives the outputs and the last h; of an LSTM also the last c. Packed sequences (nn.utils) stop each at its end,
  --- and the outputs are packed likewise.
  ---@param x tycho.Tensor|tycho.nn.PackedSequence [batch, time, inputs]
  ---@param h? tycho.Tensor [layers * directions, batch, hidden]
  ---@param c? tycho.Tensor likewise, of an LSTM
  function Recurrent:forward(x, h, c)
    local packed, on = nn._is_packed(x) and x or nil, nil
    if packed then
      x = packed.x
      if packed.batch_first ~= self.batch_first and x.ndim == 3 then x = x:transpose(1, 2) end
    end
    if not is_tensor(x) or x.ndim ~= 3 or x:size(3) ~= self.inputs then
      check.fail(self.class_name, "the input must be [%s, %d], got %s",
        self.batch_first and "batch, time" or "time, batch", self.inputs, check.show(x))
    end
    if self.batch_first then x = x:transpose(1, 2) end
    if x:size(1) < 1 then check.fail(self.class_name, "the input has no times") end
    local batch = x:size(2)
    if packed then
      on = ty.arange(x:size(1), { dtype = "i64", device = x.device }):unsqueeze(2):lt(packed.lengths):unsqueeze(3)
    end
    h = state_of(self, "h", x, h, batch)
    if self.cells then c = state_of(self, "c", x, c, batch) end
    local last_h, last_c, output = {}, {}, nil
    for layer = 1, self.layers do
      local parts = {}
      for direction = 1, self.directions do
        local i = (layer - 1) * self.directions + direction
        local along = layer == self.layers and self.batch_first and 2 or 1
        parts[direction], last_h[i], last_c[i] = run(self, x, self.names[i], h[i], c and c[i], direction == 2, along,
          on)
      end
      output = self.directions == 2 and ty.cat(parts, 3) or parts[1]
      if layer < self.layers then
        if self.training and self.dropout > 0 then output = ty.dropout(output, self.dropout) end
        x = output
      end
    end
    if packed then
      if packed.batch_first ~= self.batch_first then output = output:transpose(1, 2) end
      output = nn._packed_like(packed, output)
    end
    if self.cells then return output, ty.stack(last_h), ty.stack(last_c) end
    return output, ty.stack(last_h)
  end

  --- What the state gives to the gates.
  local function from_state(h, w, b)
    local y = h:matmul(w)
    if b then y = y + b end
    return y
  end

  --- nn.RNN(inputs, hidden, {layers = 1, bias = true, batch_first = true, dropout = 0, bidirectional = false,
  --- nonlinearity = "tanh"}): h' = tanh(x wi + bi + h wh + bh), or relu of it. Elman 1990.
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?,
  ---  nonlinearity: "tanh"|"relu"|nil} dropout: between layers
  ---@return tycho.Module # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions,
  ---  batch, hidden]
  nn.RNN = class("RNN", Recurrent)
  nn.RNN.gates = 1
  function nn.RNN:step(x, h, _, w, b)
    local y = x + from_state(h, w, b)
    if self.nonlinearity == "relu" then return relu(y) end
    return tanh(y)
  end

  --- nn.GRU(inputs, hidden, {layers = 1, bias = true, batch_first = true, dropout = 0, bidirectional = false}):
  --- h' = (1 - z) * n + z * h, n = tanh(x + r * (h wh + bh)). Cho and others 2014, arXiv:1406.1078.
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?}
  ---  dropout: between layers
  ---@return tycho.Module # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions,
  ---  batch, hidden]
  nn.GRU = class("GRU", Recurrent)
  nn.GRU.gates = 3
  function nn.GRU:step(x, h, _, w, b)
    local n = self.hidden
    local s = from_state(h, w, b)
    local r = sigmoid(x:narrow(2, 1, n) + s:narrow(2, 1, n))
    local z = sigmoid(x:narrow(2, n + 1, n) + s:narrow(2, n + 1, n))
    local new = tanh(x:narrow(2, 2 * n + 1, n) + r * s:narrow(2, 2 * n + 1, n))
    return (1 - z) * new + z * h
  end

  --- nn.LSTM(inputs, hidden, {layers = 1, bias = true, batch_first = true, dropout = 0, bidirectional = false}):
  --- c' = f * c + i * g, h' = o * tanh(c'). Hochreiter, Schmidhuber 1997.
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?}
  ---  dropout: between layers
  ---@return tycho.Module # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions,
  ---  batch, hidden], twice: h and c
  nn.LSTM = class("LSTM", Recurrent)
  nn.LSTM.gates, nn.LSTM.cells = 4, true
  function nn.LSTM:step(x, h, c, w, b)
    local n = self.hidden
    local s = x + from_state(h, w, b)
    local i, f = sigmoid(s:narrow(2, 1, n)), sigmoid(s:narrow(2, n + 1, n))
    local g, o = tanh(s:narrow(2, 2 * n + 1, n)), sigmoid(s:narrow(2, 3 * n + 1, n))
    local new = f * c + i * g
    return o * tanh(new), new
  end
end
