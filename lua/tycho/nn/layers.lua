--- nn/layers.lua -- linear layers, embeddings, dropout, shapes, containers.
-- What they begin with is PyTorch's: weights and biases uniform within 1 / sqrt(inputs), embeddings normal.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class = nn._check, nn.class
  local sqrt, max = math.sqrt, math.max
  local is_tensor, cast = ty.is_tensor, nn._cast

  --- A whole number of at least `least`.
  local function count(who, i, v, what, least)
    if type(v) ~= "number" or v % 1 ~= 0 or v < (least or 1) then
      check.fail(who, "argument %d (%s) must be whole and at least %d, got %s", i, what, least or 1, check.show(v))
    end
    return v
  end
  nn._count = count

  --- A parameter of uniform numbers within a bound.
  local function uniform(sizes, bound) return nn.Parameter(ty.uniform(-bound, bound, sizes)) end
  nn._uniform = uniform

  ---------------------------------------------------------------------------------------------------------- linear

  ---@class tycho.nn.Linear: tycho.Module
  local Linear = class "Linear"
  nn.Linear = Linear

  --- nn.Linear(inputs, outputs, {bias = true}): x weight + bias over the last dim; weight [inputs, outputs].
  --- Raises where a count is not whole, or the input does not end with `inputs`.
  ---@param inputs integer
  ---@param outputs integer
  ---@param opts? {bias: boolean?}
  ---@return tycho.nn.Linear # [..., inputs] to [..., outputs]
  function Linear:init(inputs, outputs, opts)
    count("Linear", 1, inputs, "inputs", 0)
    count("Linear", 2, outputs, "outputs", 0)
    opts = check.options("Linear", opts, { bias = "boolean" })
    self.inputs, self.outputs = inputs, outputs
    local bound = 1 / sqrt(max(inputs, 1))
    self.weight = uniform({ inputs, outputs }, bound)
    if opts.bias ~= false then self.bias = uniform({ outputs }, bound) end
  end

  --- [..., inputs] to [..., outputs].
  ---@param x tycho.Tensor
  ---@return tycho.Tensor
  function Linear:forward(x)
    if not is_tensor(x) or x.ndim < 1 or x:size(-1) ~= self.inputs then
      check.fail("Linear", "the input must be [..., %d], got %s", self.inputs, check.got(x))
    end
    local a, w, b = cast(x, self.weight, self.bias)
    local y = a:matmul(w)
    if b then y = y + b end
    return y
  end

  function Linear.from_torch(_, k, v)
    if k == "weight" and v.ndim == 2 then return v:t() end
    return v
  end

  function Linear:describe()
    return ("%d, %d%s"):format(self.inputs, self.outputs, self.bias and "" or ", bias = false")
  end

  ---------------------------------------------------------------------------------------------------------- embedding

  ---@class tycho.nn.Embedding: tycho.Module
  local Embedding = class "Embedding"
  nn.Embedding = Embedding

  --- nn.Embedding(entries, features): one row of the weight for each index; indices count from 1.
  --- Raises where a count is not whole, or an index is no integer or out of range.
  ---@param entries integer
  ---@param features integer
  ---@return tycho.nn.Embedding # integers [...] to [..., features]
  function Embedding:init(entries, features, opts)
    check.options("Embedding", opts, {}) -- there are none: PyTorch's padding_idx is not passed over in silence
    self.entries = count("Embedding", 1, entries, "entries")
    self.features = count("Embedding", 2, features, "features", 0)
    self.weight = nn.Parameter(ty.randn(entries, features))
  end

  --- Integers of any shape [...] to [..., features].
  ---@param index tycho.Tensor
  ---@return tycho.Tensor
  function Embedding:forward(index)
    if not is_tensor(index) or index.dtype == "bool" or index.dtype:find("f", 1, true) then
      check.fail("Embedding", "the input must be a tensor of integers, got %s", check.got(index))
    end
    local y = self.weight:index_select(1, index:reshape(-1)) -- no tail call: an error in it names this layer
    if index.ndim == 1 then return y end
    local sizes = index.shape
    sizes[#sizes + 1] = self.features
    return y:reshape(sizes)
  end

  function Embedding:describe() return ("%d, %d"):format(self.entries, self.features) end

  ---------------------------------------------------------------------------------------------------------- dropout

  ---@class tycho.nn.Dropout: tycho.Module
  local Dropout = class "Dropout"
  nn.Dropout = Dropout

  --- nn.Dropout(p = 0.5): zeroes elements by chance p when training.
  --- Raises where p lies outside of 0 to 1.
  ---@param p? number
  ---@return tycho.Module # the sizes of the input
  function Dropout:init(p)
    p = check.number("Dropout", 1, p, "p", 0.5)
    if not (p >= 0 and p <= 1) then check.fail("Dropout", "argument 1 (p) must be in 0..1, got %.14g", p) end
    self.p = p
  end

  function Dropout:forward(x)
    if not self.training or self.p == 0 then return x end
    return ty.dropout(x, self.p)
  end

  function Dropout:describe() return ("%g"):format(self.p) end

  ---------------------------------------------------------------------------------------------------------- shapes

  ---@class tycho.nn.Flatten: tycho.Module
  local Flatten = class "Flatten"
  nn.Flatten = Flatten

  --- nn.Flatten(first = 2, last = -1): those dims as one.
  --- Raises where a dim of the input is out of range.
  ---@param first? integer 2: the batch stays
  ---@param last? integer the last
  ---@return tycho.Module # [batch, ...] to [batch, the product of the rest]
  function Flatten:init(first, last)
    self.first, self.last = check.whole("Flatten", 1, first, "first", 2), check.whole("Flatten", 2, last, "last", -1)
  end

  function Flatten:forward(x) return x:flatten(self.first, self.last) end

  function Flatten:describe() return ("%d, %d"):format(self.first, self.last) end

  ---------------------------------------------------------------------------------------------------------- containers

  --- The parts in a list of arguments, or in one plain table.
  local function parts_of(who, ...)
    local n, list = select("#", ...), { ... }
    if n == 1 and type(list[1]) == "table" and getmetatable(list[1]) == nil then
      list = list[1]
      n = #list
    end
    while n > 0 and list[n] == nil do n = n - 1 end -- left out at the end
    for i = 1, n do -- a nil before another part is one that the caller misspelt
      local part = list[i]
      if not nn.is_module(part) and type(part) ~= "function" then
        check.fail(who, "part %d must be a module%s, got %s", i, who == "Sequential" and " or a function" or "",
          check.show(part))
      end
    end
    return list
  end

  ---@class tycho.nn.Sequential: tycho.Module
  local Sequential = class "Sequential"
  nn.Sequential = Sequential

  --- nn.Sequential(part, ...): each part takes what the one before it gives; functions are parts too.
  --- Raises where a part is neither a module nor a function.
  ---@param ... tycho.Module|function the parts, or one list of them
  ---@return tycho.Module # what the last part gives; m[i] is part i, #m how many
  function Sequential:init(...)
    for i, part in ipairs(parts_of("Sequential", ...)) do self[i] = part end
  end

  function Sequential:forward(x)
    for i = 1, #self do x = self[i](x) end
    return x
  end

  --- Adds a part at the end. Gives the module.
  --- Raises where the part is neither a module nor a function.
  ---@param part tycho.Module|function a further part
  ---@return tycho.nn.Sequential # the module itself
  function Sequential:append(part)
    self[#self + 1] = parts_of("Sequential", part)[1]
    return self
  end

  ---@class tycho.nn.ModuleList: tycho.Module
  local ModuleList = class "ModuleList"
  nn.ModuleList = ModuleList

  --- nn.ModuleList(part, ...): a list of modules, list[1] to list[#list]; calling them is the owner's doing.
  --- Raises where a part is no module.
  ---@param ... tycho.Module the parts, or one list of them
  ---@return tycho.Module # list[i] is part i
  function ModuleList:init(...)
    for i, part in ipairs(parts_of("ModuleList", ...)) do
      if not nn.is_module(part) then check.fail("ModuleList", "part %d must be a module, got a function", i) end
      self[i] = part
    end
  end

  --- Adds a part at the end. Gives the module.
  --- Raises where the part is no module.
  ---@param part tycho.Module a further part
  ---@return tycho.nn.ModuleList # the module itself
  function ModuleList:append(part)
    if not nn.is_module(part) then check.fail("ModuleList", "a part must be a module, got %s", check.show(part)) end
    self[#self + 1] = part
    return self
  end
end
