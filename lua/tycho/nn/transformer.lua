--- nn/transformer.lua -- encoders and decoders of transformers: layers and stacks of them, norms first or last.
-- In: [batch, time, width] ({batch_first = false}: [time, batch, width]). Out: the same. Masks are of bools (true:
-- seen) or floats (added); those of positions are [queries, keys], those of padding [batch, keys], true: a position
-- that counts. PyTorch's masks of bools say what is not seen.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count = nn._check, nn.class, nn._count
  local is_tensor = ty.is_tensor

  local layer_options = {
    inner = "number", dropout = "number", activation = "any", layer_norm_eps = "number", batch_first = "boolean",
    norm_first = "boolean", bias = "boolean", kv_heads = "number",
  }

  --- What both kinds of layers are given. attention: the names of their attentions.
  local function begin(m, who, width, heads, opts, attentions)
    count(who, 1, width, "width")
    opts = check.options(who, opts, layer_options)
    local activation = opts.activation or "relu"
    if type(activation) == "string" then
      local known = activation == "relu" or activation == "gelu" or activation == "silu"
      if not known then
        check.fail(who, "option activation must be a function, \"relu\", \"gelu\" or \"silu\", got %q", activation)
      end
    elseif type(activation) ~= "function" then
      check.fail(who, "option activation must be a function or a name, got %s", check.show(activation))
    end
    local inner, bias = count(who, 3, opts.inner or 2048, "inner"), opts.bias
    m.batch_first, m.norm_first = opts.batch_first ~= false, opts.norm_first or false
    m.dropout, m.activation = opts.dropout or 0.1, activation
    if m.dropout < 0 or m.dropout > 1 or m.dropout ~= m.dropout then
      check.fail(who, "option dropout must be in 0..1, got %.14g", m.dropout)
    end
    for _, name in ipairs(attentions) do
      m[name] = nn.MultiHeadAttention(width, heads, { bias = bias, dropout = m.dropout, kv_heads = opts.kv_heads })
    end
    m.linear1, m.linear2 = nn.Linear(width, inner, { bias = bias }), nn.Linear(inner, width, { bias = bias })
    for i = 1, #attentions + 1 do m["norm" .. i] = nn.LayerNorm(width, { eps = opts.layer_norm_eps, bias = bias }) end
  end

  local function drop(m, x)
    if m.training and m.dropout > 0 then return ty.dropout(x, m.dropout) end
    return x
  end

  local function activate(m, x)
    local f = m.activation
    if f == "relu" then return ty.relu(x) end
    if f == "gelu" then return ty.gelu(x) end
    if f == "silu" then return ty.silu(x) end
    return f(x)
  end

  local function feed(m, x) return drop(m, m.linear2(drop(m, activate(m, m.linear1(x))))) end

  --- A mask of bools as floats that are added.
  local function added(mask, like)
    if mask.dtype ~= "bool" then return mask end
    return ty.where(mask, ty.zeros({}, { dtype = like.dtype, device = like.device }), -math.huge)
  end

  --- The mask of positions and the one of padding, [batch, keys], as one for the attention; nil where there is none.
  local function joined(who, x, mask, padding)
    for what, t in pairs { mask = mask or nil, padding = padding or nil } do
      if not is_tensor(t) then check.fail(who, "option %s must be a tensor, got %s", what, check.show(t)) end
    end
    if mask and mask.ndim == 3 then mask = mask:unsqueeze(2) end -- of each sequence, for all heads
    if not padding then return mask end
    if padding.ndim ~= 2 then check.fail(who, "the padding must be [batch, keys], got %s", check.text(padding)) end
    padding = padding:unsqueeze(2):unsqueeze(2) -- [batch, 1, 1, keys]
    if not mask then return padding end
    if mask.dtype == "bool" and padding.dtype == "bool" then return mask:logical_and(padding) end
    return added(mask, x) + added(padding, x)
  end

  --- x + fn(norm(x)), or norm(x + fn(x)).
  local function around(m, norm, x, fn, ...)
    if m.norm_first then return x + fn(m, norm(x), ...) end
    return norm(x + fn(m, x, ...))
  end

  local function to_self(m, x, mask, causal)
    return drop(m, m.self_attn(x, { mask = mask, causal = causal }))
  end

  local function to_memory(m, x, memory, mask, causal)
    return drop(m, m.multihead_attn(x, memory, memory, { mask = mask, causal = causal }))
  end

  --- Inputs with the batch first, and as it was given.
  local function turned(m, x) return m.batch_first and x or x:transpose(1, 2) end

  local function input(m, what, x)
    local width = m.linear2.outputs
    if not is_tensor(x) or x.ndim < 2 or x.ndim > 3 or x:size(-1) ~= width then
      check.fail(m.class_name, "%s must be [%s, %d], got %s", what, m.batch_first and "batch, time" or "time, batch",
        width, check.got(x))
    end
    return x.ndim == 3 and turned(m, x) or x:unsqueeze(1)
  end

  local function output(m, y, x) return x.ndim == 3 and turned(m, y) or y:squeeze(1) end

  ---------------------------------------------------------------------------------------------------------- encoder

  ---@class tycho.nn.TransformerEncoderLayer: tycho.Module
  local EncoderLayer = class "TransformerEncoderLayer"
  nn.TransformerEncoderLayer = EncoderLayer

  --- nn.TransformerEncoderLayer(width, heads, {inner = 2048, dropout = 0.1, activation = "relu", layer_norm_eps =
  --- 1e-5, batch_first = true, norm_first = false, bias = true, kv_heads = heads}): attention of the sequence to
  --- itself, then two linear layers; each is added to its input and normalised. norm_first: inputs are normalised
  --- instead. m(x, {mask, padding, causal = false}): a mask [queries, keys], a padding [batch, keys]. Vaswani and
  --- others 2017, arXiv:1706.03762.
  --- Raises where the width does not divide into the heads, an option is not known, or the input has other sizes.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {inner: integer?, dropout: number?, activation: string|function|nil, layer_norm_eps: number?,
  ---  batch_first: boolean?, norm_first: boolean?, bias: boolean?, kv_heads: integer?}
  ---@return tycho.Module # [batch, time, width] to [batch, time, width]
  function EncoderLayer:init(width, heads, opts)
    begin(self, "TransformerEncoderLayer", width, heads, opts, { "self_attn" })
  end

  local encoder_call = { mask = "any", padding = "any", causal = "boolean" }

  function EncoderLayer:forward(x, opts)
    local who = self.class_name
    opts = check.options(who, opts, encoder_call)
    local y = input(self, "the input", x)
    local mask = joined(who, y, opts.mask, opts.padding)
    y = around(self, self.norm1, y, to_self, mask, opts.causal)
    return output(self, around(self, self.norm2, y, feed), x)
  end

  --- Copies of a layer with parameters of their own, of the same values.
  local function copies(who, layer, n)
    count(who, 2, n, "layers")
    if not nn.is_module(layer) then check.fail(who, "argument 1 must be a layer, got %s", check.show(layer)) end
    local list = {}
    for i = 1, n do list[i] = nn._copied(layer) end
    return nn.ModuleList(list)
  end

  local function norm_option(who, opts)
    local norm = check.options(who, opts, { norm = "any" }).norm
    if norm ~= nil and not nn.is_module(norm) then
      check.fail(who, "option norm must be a module, got %s", check.show(norm))
    end
    return norm
  end

  ---@class tycho.nn.TransformerEncoder: tycho.Module
  local Encoder = class "TransformerEncoder"
  nn.TransformerEncoder = Encoder

  --- nn.TransformerEncoder(layer, layers, {norm}): so many copies of a layer, one after the other, then the norm.
  --- m(x, {mask, padding, causal}) as of the layer.
  --- Raises where layer or norm is no module, or the count is not whole.
  ---@param layer tycho.Module such as nn.TransformerEncoderLayer
  ---@param layers integer
  ---@param opts? {norm: tycho.Module?}
  ---@return tycho.Module # [batch, time, width] to [batch, time, width]
  function Encoder:init(layer, layers, opts)
    self.layers = copies("TransformerEncoder", layer, layers)
    self.norm = norm_option("TransformerEncoder", opts)
  end

  function Encoder:forward(x, opts)
    for i = 1, #self.layers do x = self.layers[i](x, opts) end
    return self.norm and self.norm(x) or x
  end

  ---------------------------------------------------------------------------------------------------------- decoder

  ---@class tycho.nn.TransformerDecoderLayer: tycho.Module
  local DecoderLayer = class "TransformerDecoderLayer"
  nn.TransformerDecoderLayer = DecoderLayer

  --- nn.TransformerDecoderLayer(width, heads, {inner = 2048, dropout = 0.1, activation = "relu", layer_norm_eps =
  --- 1e-5, batch_first = true, norm_first = false, bias = true, kv_heads = heads}): attention of the sequence to
  --- itself, to the memory that an encoder gives, then two linear layers; each is added to its input and normalised.
  --- m(x, memory, {mask, padding, causal = false, memory_mask, memory_padding}): masks [queries, keys], paddings
  --- [batch, keys].
  --- Raises where the width does not divide into the heads, an option is not known, or an input has other sizes.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {inner: integer?, dropout: number?, activation: string|function|nil, layer_norm_eps: number?,
  ---  batch_first: boolean?, norm_first: boolean?, bias: boolean?, kv_heads: integer?}
  ---@return tycho.Module # [batch, time, width] and [batch, memory, width] to [batch, time, width]
  function DecoderLayer:init(width, heads, opts)
    begin(self, "TransformerDecoderLayer", width, heads, opts, { "self_attn", "multihead_attn" })
  end

  local decoder_call = {
    mask = "any", padding = "any", causal = "boolean", memory_mask = "any", memory_padding = "any",
  }

  function DecoderLayer:forward(x, memory, opts)
    local who = self.class_name
    opts = check.options(who, opts, decoder_call)
    local y, m = input(self, "the input", x), input(self, "the memory", memory)
    local mask = joined(who, y, opts.mask, opts.padding)
    local memory_mask = joined(who, y, opts.memory_mask, opts.memory_padding)
    y = around(self, self.norm1, y, to_self, mask, opts.causal)
    y = around(self, self.norm2, y, to_memory, m, memory_mask, false)
    return output(self, around(self, self.norm3, y, feed), x)
  end

  ---@class tycho.nn.TransformerDecoder: tycho.Module
  local Decoder = class "TransformerDecoder"
  nn.TransformerDecoder = Decoder

  --- nn.TransformerDecoder(layer, layers, {norm}): so many copies of a layer, one after the other, then the norm.
  --- m(x, memory, {mask, padding, causal, memory_mask, memory_padding}) as of the layer.
  --- Raises where layer or norm is no module, or the count is not whole.
  ---@param layer tycho.Module such as nn.TransformerDecoderLayer
  ---@param layers integer
  ---@param opts? {norm: tycho.Module?}
  ---@return tycho.Module # [batch, time, width] and [batch, memory, width] to [batch, time, width]
  function Decoder:init(layer, layers, opts)
    self.layers = copies("TransformerDecoder", layer, layers)
    self.norm = norm_option("TransformerDecoder", opts)
  end

  function Decoder:forward(x, memory, opts)
    for i = 1, #self.layers do x = self.layers[i](x, memory, opts) end
    return self.norm and self.norm(x) or x
  end

  ---------------------------------------------------------------------------------------------------------- both

  ---@class tycho.nn.Transformer: tycho.Module
  local Transformer = class "Transformer"
  nn.Transformer = Transformer

  --- nn.Transformer(width, heads, {encoder_layers = 6, decoder_layers = 6, inner = 2048, dropout = 0.1,
  --- activation = "relu", layer_norm_eps = 1e-5, batch_first = true, norm_first = false, bias = true}): an encoder of
  --- the source and a decoder of the target, each with a norm at its end. m(source, target, {mask, padding, causal =
  --- false, source_mask, source_padding, memory_mask, memory_padding}): mask, padding and causal are the target's.
  --- Vaswani and others 2017, arXiv:1706.03762.
  --- Raises where the width does not divide into the heads, an option is not known, or an input has other sizes.
  ---@param width integer
  ---@param heads integer
  ---@param opts? {encoder_layers: integer?, decoder_layers: integer?, inner: integer?, dropout: number?,
  ---  activation: string|function|nil, layer_norm_eps: number?, batch_first: boolean?, norm_first: boolean?,
  ---  bias: boolean?}
  ---@return tycho.Module # [batch, source, width] and [batch, target, width] to [batch, target, width]
  function Transformer:init(width, heads, opts)
    local known = { encoder_layers = "number", decoder_layers = "number" }
    for k, v in pairs(layer_options) do known[k] = v end
    opts = check.options("Transformer", opts, known)
    local own = {}
    for k in pairs(layer_options) do own[k] = opts[k] end
    local function norm() return nn.LayerNorm(width, { eps = opts.layer_norm_eps, bias = opts.bias }) end
    self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, own), opts.encoder_layers or 6,
      { norm = norm() })
    self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(width, heads, own), opts.decoder_layers or 6,
      { norm = norm() })
    local _, list = nn._parameters(self)
    for _, p in ipairs(list) do
      if p.ndim > 1 then nn.init.xavier_uniform_(p) end
    end
  end

  local transformer_call = {
    mask = "any", padding = "any", causal = "boolean", source_mask = "any", source_padding = "any", memory_mask = "any",
    memory_padding = "any",
  }

  function Transformer:forward(source, target, opts)
    opts = check.options("Transformer", opts, transformer_call)
    local memory = self.encoder(source, { mask = opts.source_mask, padding = opts.source_padding })
    return self.decoder(target, memory, { mask = opts.mask, padding = opts.padding, causal = opts.causal,
      memory_mask = opts.memory_mask, memory_padding = opts.memory_padding })
  end
end
