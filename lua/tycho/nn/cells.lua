--- nn/cells.lua -- recurrent cells: one step of RNN, GRU, LSTM, for loops of one's own.
-- Parameters: weight_ih [inputs, gates * hidden], weight_hh [hidden, gates * hidden], bias_ih, bias_hh; the gates'
-- order is PyTorch's: r z n, and i f g o.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count, uniform, cast = nn._check, nn.class, nn._count, nn._uniform, nn._cast
  local is_tensor = ty.is_tensor

  --- A class around one step of a recurrent layer's class.
  local function cell(name, layer, options)
    local c = class(name)
    nn[name] = c
    c.gates, c.cells, c.step = layer.gates, layer.cells, layer.step

    function c:init(inputs, hidden, opts)
      self.inputs, self.hidden = count(name, 1, inputs, "inputs"), count(name, 2, hidden, "hidden")
      opts = check.options(name, opts, options)
      self.nonlinearity = opts.nonlinearity or "tanh"
      if self.nonlinearity ~= "tanh" and self.nonlinearity ~= "relu" then
        check.fail(name, "option nonlinearity must be \"tanh\" or \"relu\", got %q", self.nonlinearity)
      end
      local bound = 1 / math.sqrt(hidden)
      self.weight_ih = uniform({ inputs, self.gates * hidden }, bound)
      self.weight_hh = uniform({ hidden, self.gates * hidden }, bound)
      if opts.bias ~= false then
        self.bias_ih = uniform({ self.gates * hidden }, bound)
        self.bias_hh = uniform({ self.gates * hidden }, bound)
      end
    end

    function c.from_torch(_, k, v)
      if k:sub(1, 6) == "weight" and v.ndim == 2 then return v:t() end
      return v
    end

    --- A state with a batch, zeros where there is none.
    local function state(m, what, s, x, single)
      local batch = x:size(1)
      if s == nil then return ty.zeros({ batch, m.hidden }, { dtype = x.dtype, device = x.device }) end
      if is_tensor(s) and single and s.ndim == 1 then s = s:unsqueeze(1) end
      if not is_tensor(s) or s.ndim ~= 2 or s:size(1) ~= batch or s:size(2) ~= m.hidden then
        check.fail(name, "%s must be [%s%d], got %s", what, single and "" or batch .. ", ", m.hidden, check.got(s))
      end
      return s
    end

    function c:forward(x, h, cs)
      if not is_tensor(x) or x.ndim < 1 or x.ndim > 2 or x:size(-1) ~= self.inputs then
        check.fail(name, "the input must be [batch, %d], got %s", self.inputs, check.got(x))
      end
      local single = x.ndim == 1
      if single then x = x:unsqueeze(1) end
      h = state(self, "h", h, x, single)
      if self.cells then cs = state(self, "c", cs, x, single) end
      local a, wi, wh, bi, bh = cast(x, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
      local gates = a:matmul(wi)
      if bi then gates = gates + bi end
      local y, new = self:step(gates, cast(h), cs, wh, bh)
      if single then y, new = y:squeeze(1), new and new:squeeze(1) end
      if self.cells then return y, new end
      return y
    end

    function c:describe()
      return ("%d, %d%s"):format(self.inputs, self.hidden, self.bias_ih and "" or ", bias = false")
    end
  end

  --- nn.RNNCell(inputs, hidden, {bias = true, nonlinearity = "tanh"}): one step of nn.RNN, h = m(x, h).
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {bias: boolean?, nonlinearity: "tanh"|"relu"|nil}
  ---@return tycho.Module # [batch, inputs] and [batch, hidden] (zeros by default) to [batch, hidden]
  cell("RNNCell", nn.RNN, { bias = "boolean", nonlinearity = "string" })
  --- nn.GRUCell(inputs, hidden, {bias = true}): one step of nn.GRU, h = m(x, h).
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {bias: boolean?}
  ---@return tycho.Module # [batch, inputs] and [batch, hidden] (zeros by default) to [batch, hidden]
  cell("GRUCell", nn.GRU, { bias = "boolean" })
  --- nn.LSTMCell(inputs, hidden, {bias = true}): one step of nn.LSTM, h, c = m(x, h, c).
  --- Raises where a count is not whole, an option is not known, or input or state has other sizes.
  ---@param inputs integer features of the input
  ---@param hidden integer features of the state
  ---@param opts? {bias: boolean?}
  ---@return tycho.Module # [batch, inputs] and two of [batch, hidden] (zeros by default) to two of [batch, hidden]
  cell("LSTMCell", nn.LSTM, { bias = "boolean" })
end
