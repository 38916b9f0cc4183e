--- nn/utils.lua -- weights made of other parameters (weight norm, spectral norm), parameters as one vector, sequences
--- of unlike lengths: `nn.utils`.
--
-- A module whose weight is normalised has a class of its own, whose forward makes the weight, calls the module's and
-- takes it away again: the parameters are what it is made of, and a capture sees all of it.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, is_tensor = nn._check, ty.is_tensor
  local type, rawget, getmetatable, setmetatable, ipairs = type, rawget, getmetatable, setmetatable, ipairs

  ---@class tycho.nn.utils
  local M = {}
  nn.utils = M

  ---------------------------------------------------------------------------------------------------------- weights

  --- The dim of a weight's outputs: the last of [inputs, outputs], the first of a convolution's, the second of a
  --- transposed one's.
  local function outputs_dim(m, w)
    if w.ndim == 2 then return m.entries and 1 or 2 end
    return m.class_name:find("Transpose", 1, true) and 2 or 1
  end

  --- Checks the module and gives its weight.
  local function weight_of(who, m, name)
    if not nn.is_module(m) then check.fail(who, "argument 1 must be a module, got %s", check.show(m)) end
    local w = rawget(m, name)
    if not is_tensor(w) or not (w.requires_grad and w.is_leaf) then
      check.fail(who, "%s has no parameter %s", m.class_name, tostring(name))
    end
    return w
  end

  --- Gives m a class whose forward makes its field `name`; parts: names of what it is made of, in PyTorch's layout
  --- where m's own weight is turned.
  local function remade(m, name, make, parts)
    local old = getmetatable(m)
    local class = nn.class(old.class_name, old)
    class.made, class.made_before = { name = name, make = make }, old
    function class:forward(...)
      self[name] = make(self)
      return self:made_over(name, old.forward(self, ...))
    end
    function class:made_over(field, ...)
      self[field] = nil
      return ...
    end
    function class:from_torch(k, v)
      if parts[k] and v.ndim == 2 and old.from_torch then return old.from_torch(self, name, v) end
      if old.from_torch then return old.from_torch(self, k, v) end
      return v
    end
    m[name] = nil
    m._transient = { [name] = true }
    return setmetatable(m, class)
  end

  --- All dims but one.
  local function others(w, dim)
    local list = {}
    for d = 1, w.ndim do
      if d ~= dim then list[#list + 1] = d end
    end
    return list
  end

  local function norm_but(w, dim) return (w * w):sum(others(w, dim), true):sqrt() end

  --- nn.utils.weight_norm(m, name = "weight", dim): the weight as magnitudes times directions, weight_g * weight_v /
  --- |weight_v|, norms over all dims but that of the outputs. m.weight is there only while the module computes. Gives
  --- the module. Salimans, Kingma 2016, arXiv:1602.07868.
  --- Raises where m is no module, or has no parameter of that name.
  ---@param m tycho.Module such as nn.Linear, nn.Conv2d
  ---@param name? string "weight"
  ---@param dim? integer that of the outputs
  ---@return tycho.Module # m itself
  function M.weight_norm(m, name, dim)
    local who = "weight_norm"
    name = name == nil and "weight" or name
    local w = weight_of(who, m, name)
    dim = check.dim(who, dim, w.ndim, outputs_dim(m, w))
    local g, v = name .. "_g", name .. "_v"
    local own = w:detach():clone()
    remade(m, name, function(self) return self[v] * (self[g] / norm_but(self[v], dim)) end, { [g] = true, [v] = true })
    m[g], m[v] = nn.Parameter(norm_but(own, dim)), nn.Parameter(own)
    return m
  end

  --- The weight as a matrix [outputs, the rest].
  local function matrix(w, dim)
    if dim ~= 1 then w = w:transpose(1, dim) end
    return w:flatten(2)
  end

  local function unit(x, eps) return x / (x * x):sum():sqrt():maximum(eps) end

  --- nn.utils.spectral_norm(m, name = "weight", {n_power_iterations = 1, eps = 1e-12, dim}): the weight divided by
  --- its largest singular value, which is followed by steps of the power method while training. m.weight is there
  --- only while the module computes; weight_orig is the parameter, weight_u and weight_v are buffers. Gives the
  --- module. Miyato and others 2018, arXiv:1802.05957.
  --- Raises where m is no module, has no parameter of that name, or an option is not known or out of range.
  ---@param m tycho.Module such as nn.Linear, nn.Conv2d
  ---@param name? string "weight"
  ---@param opts? {n_power_iterations: integer?, eps: number?, dim: integer?} dim: that of the outputs
  ---@return tycho.Module # m itself
  function M.spectral_norm(m, name, opts)
    local who = "spectral_norm"
    if type(name) == "table" then name, opts = nil, name end
    name = name == nil and "weight" or name
    local w = weight_of(who, m, name)
    opts = check.options(who, opts, { n_power_iterations = "number", eps = "number", dim = "number" })
    local dim = check.dim(who, opts.dim, w.ndim, outputs_dim(m, w))
    local steps, eps = nn._count(who, 3, opts.n_power_iterations or 1, "n_power_iterations"), opts.eps or 1e-12
    local orig, un, vn = name .. "_orig", name .. "_u", name .. "_v"

    local function follow(self)
      local a, u, v = matrix(self[orig], dim), self[un], self[vn]
      for _ = 1, steps do
        v:copy_(unit(a:t():matmul(u), eps))
        u:copy_(unit(a:matmul(v), eps))
      end
    end

    local own = w:detach():clone()
    remade(m, name, function(self)
      if self.training then ty.no_grad(follow, self) end
      local u, v = self[un]:clone(), self[vn]:clone() -- later steps write these
      return self[orig] / (u * matrix(self[orig], dim):matmul(v)):sum()
    end, { [orig] = true })
    m[orig] = nn.Parameter(own)
    local a = matrix(own, dim)
    m:register_buffer(un, unit(ty.randn({ a:size(1) }, { dtype = own.dtype, device = own.device }), eps))
    m:register_buffer(vn, unit(ty.randn({ a:size(2) }, { dtype = own.dtype, device = own.device }), eps))
    ty.no_grad(function()
      for _ = 1, 15 do follow(m) end
    end)
    return m
  end

  --- Takes a weight or spectral norm off: the weight is a parameter again, as the module computes it in evaluation.
  --- Gives the module.
  --- Raises where there is none.
  ---@param m tycho.Module
  ---@return tycho.Module # m itself
  function M.remove_norm(m)
    local class = nn.is_module(m) and getmetatable(m)
    local made = class and rawget(class, "made")
    if not made then check.fail("remove_norm", "argument 1 has no normalised weight, got %s", check.show(m)) end
    local training = m.training
    m.training = false
    local w = ty.no_grad(made.make, m)
    m.training = training
    for _, suffix in ipairs { "_g", "_v", "_u", "_orig" } do m[made.name .. suffix] = nil end
    m._transient, m._buffers = nil, nil
    setmetatable(m, class.made_before)
    m[made.name] = nn.Parameter(w)
    return m
  end

  ---------------------------------------------------------------------------------------------------------- vectors

  --- Tensors side by side as one vector.
  --- Raises where the list is empty or holds other than tensors.
  ---@param list tycho.Tensor[] such as m:parameters()
  ---@return tycho.Tensor # [all elements]
  function M.parameters_to_vector(list)
    if type(list) ~= "table" or #list == 0 then
      check.fail("parameters_to_vector", "argument 1 must be a list of tensors, got %s", check.show(list))
    end
    local flat = {}
    for i, p in ipairs(list) do flat[i] = check.tensor("parameters_to_vector", 1, p):reshape(-1) end
    return ty.cat(flat, 1)
  end

  --- Writes a vector into tensors, piece by piece.
  --- Raises where it has not as many elements as they.
  ---@param vector tycho.Tensor [all elements]
  ---@param list tycho.Tensor[] such as m:parameters()
  function M.vector_to_parameters(vector, list)
    local who, n = "vector_to_parameters", 0
    check.tensor(who, 1, vector)
    if type(list) ~= "table" then check.fail(who, "argument 2 must be a list of tensors, got %s", check.show(list)) end
    for _, p in ipairs(list) do n = n + check.tensor(who, 2, p):numel() end
    if vector.ndim ~= 1 or vector:size(1) ~= n then
      check.fail(who, "argument 1 must be [%d], got %s", n, check.text(vector))
    end
    local at = 1
    for _, p in ipairs(list) do
      ty.no_grad(p.copy_, p, vector:narrow(1, at, p:numel()):reshape(p.shape))
      at = at + p:numel()
    end
  end

  ---------------------------------------------------------------------------------------------------------- sequences

  --- Sequences of unlike lengths side by side, filled up at their ends.
  --- Options: batch_first = true (PyTorch's is false); padding_value = 0.
  --- Raises where the list is empty, or sequences differ in other dims than the first.
  ---@param list tycho.Tensor[] each [time, ...]
  ---@param opts? {batch_first: boolean?, padding_value: number?}
  ---@return tycho.Tensor # [batch, the longest time, ...]
  function M.pad_sequence(list, opts)
    local who, longest = "pad_sequence", 0
    opts = check.options(who, opts, { batch_first = "boolean", padding_value = "number" })
    if type(list) ~= "table" or #list == 0 then
      check.fail(who, "argument 1 must be a list of tensors, got %s", check.show(list))
    end
    for _, x in ipairs(list) do
      check.tensor(who, 1, x)
      if x.ndim < 1 then check.fail(who, "a sequence must be [time, ...], got %s", check.text(x)) end
      longest = math.max(longest, x:size(1))
    end
    local padded = {}
    for i, x in ipairs(list) do
      local amounts = {}
      for d = 1, x.ndim do amounts[d] = { 0, d == 1 and longest - x:size(1) or 0 } end
      padded[i] = x:pad(amounts, opts.padding_value or 0)
    end
    return check.named(who, "stack", ty.stack, padded, opts.batch_first == false and 2 or 1)
  end

  --- The sequences that pad_sequence put side by side.
  --- Raises where lengths are not one a sequence, from 0 to the time.
  ---@param x tycho.Tensor [batch, time, ...]
  ---@param lengths integer[]|tycho.Tensor one a sequence
  ---@param opts? {batch_first: boolean?} true
  ---@return tycho.Tensor[] # each [length, ...]
  function M.unpad_sequence(x, lengths, opts)
    local who = "unpad_sequence"
    check.tensor(who, 1, x)
    opts = check.options(who, opts, { batch_first = "boolean" })
    if is_tensor(lengths) then lengths = lengths:totable() end
    if x.ndim < 2 then check.fail(who, "argument 1 must be [batch, time, ...], got %s", check.text(x)) end
    if opts.batch_first == false then x = x:transpose(1, 2) end
    if type(lengths) ~= "table" or #lengths ~= x:size(1) then
      check.fail(who, "argument 2 must be a list of %d lengths, got %s", x:size(1), check.show(lengths))
    end
    local list = {}
    for i, n in ipairs(lengths) do
      if type(n) ~= "number" or n % 1 ~= 0 or n < 0 or n > x:size(2) then
        check.fail(who, "length %d must be whole and in 0..%d, got %s", i, x:size(2), check.show(n))
      end
      list[i] = x[i]:narrow(1, 1, n)
    end
    return list
  end

  --- Sequences of unlike lengths for recurrent layers, which stop each at its end: `x` filled up at the ends, [batch,
  --- time, ...], and `lengths`, i64 [batch].
  ---@class tycho.nn.PackedSequence
  ---@field x tycho.Tensor
  ---@field lengths tycho.Tensor
  ---@field batch_first boolean whether x is [batch, time, ...] or [time, batch, ...]
  local Packed = {}
  Packed.__index = Packed

  function Packed.__tostring(p) return ("packed sequence %s"):format(check.text(p.x)) end

  --- Whether a value is a packed sequence.
  function nn._is_packed(v) return type(v) == "table" and getmetatable(v) == Packed end

  local pack_options = { batch_first = "boolean", enforce_sorted = "boolean" }

  --- Sequences filled up at their ends, with their lengths, as recurrent layers take them: each stops at its end, what
  --- lies behind is not read. They need no order (enforce_sorted of PyTorch is taken and does nothing).
  --- Raises where lengths are not one a sequence, or, given as a list, not in 1..time.
  ---@param x tycho.Tensor [batch, time, ...]
  ---@param lengths integer[]|tycho.Tensor one a sequence; of a tensor the values are not looked at
  ---@param opts? {batch_first: boolean?, enforce_sorted: boolean?} batch_first: true (PyTorch's is false)
  ---@return tycho.nn.PackedSequence
  function M.pack_padded_sequence(x, lengths, opts)
    local who = "pack_padded_sequence"
    check.tensor(who, 1, x)
    opts = check.options(who, opts, pack_options)
    local first = opts.batch_first ~= false
    if x.ndim < 2 then
      check.fail(who, "argument 1 must be [%s, ...], got %s", first and "batch, time" or "time, batch", check.text(x))
    end
    local batch, time = x:size(first and 1 or 2), x:size(first and 2 or 1)
    if type(lengths) == "table" then
      for i, n in ipairs(lengths) do
        if type(n) ~= "number" or n % 1 ~= 0 or n < 1 or n > time then
          check.fail(who, "length %d must be whole and in 1..%d, got %s", i, time, check.show(n))
        end
      end
      lengths = ty.tensor(lengths, { dtype = "i64", device = x.device })
    end
    if not is_tensor(lengths) or lengths.ndim ~= 1 or lengths:size(1) ~= batch then
      check.fail(who, "argument 2 must be %d lengths, got %s", batch, check.show(lengths))
    end
    return setmetatable({ x = x, lengths = lengths, batch_first = first }, Packed)
  end

  --- Sequences side by side as recurrent layers take them: pad_sequence, then pack_padded_sequence.
  --- Raises where the list is empty, or sequences differ in other dims than the first.
  ---@param list tycho.Tensor[] each [time, ...]
  ---@param opts? {enforce_sorted: boolean?} taken as PyTorch has it; it does nothing
  ---@return tycho.nn.PackedSequence
  function M.pack_sequence(list, opts)
    check.options("pack_sequence", opts, { enforce_sorted = "boolean" })
    local x, lengths = M.pad_sequence(list), {}
    for i, s in ipairs(list) do lengths[i] = s:size(1) end
    return M.pack_padded_sequence(x, lengths)
  end

  --- What pack_padded_sequence put together, or a recurrent layer gave for such: 0 behind the ends. The time is that of
  --- what was packed, not the longest length.
  --- Raises where p is no packed sequence.
  ---@param p tycho.nn.PackedSequence
  ---@param opts? {batch_first: boolean?} true
  ---@return tycho.Tensor x, tycho.Tensor lengths # [batch, time, ...], i64 [batch]
  function M.pad_packed_sequence(p, opts)
    local who = "pad_packed_sequence"
    if not nn._is_packed(p) then check.fail(who, "argument 1 must be a packed sequence, got %s", check.show(p)) end
    opts = check.options(who, opts, { batch_first = "boolean" })
    local x = p.x
    if (opts.batch_first ~= false) ~= p.batch_first then x = x:transpose(1, 2) end
    return x, p.lengths
  end

  --- A packed sequence of the same lengths.
  function nn._packed_like(p, x)
    return setmetatable({ x = x, lengths = p.lengths, batch_first = p.batch_first }, Packed)
  end
end
