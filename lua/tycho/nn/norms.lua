--- nn/norms.lua -- normalising layers: batch, instance, layer, group, RMS, local response.
-- Half floats are normalised in f32 and rounded once; within ty.autocast all but batch norms give f32. Weights begin
-- with 1, biases with 0.

---@param ty table the module tycho
---@param nn table what is filled
return function(ty, nn)
  local check, class, count = nn._check, nn.class, nn._count
  local sqrt, writable, outside = ty.sqrt, ty.internals.vmap.writable, ty.internals.loop.outside
  local halves, autocast = { f16 = true, bf16 = true }, ty._half

  local function ones(n) return nn.Parameter(ty.ones(n)) end
  local function zeros(n) return nn.Parameter(ty.zeros(n)) end

  ---------------------------------------------------------------------------------------------------------- batch

  ---@class tycho.nn.BatchNorm: tycho.Module
  local BatchNorm = class "BatchNorm"
  BatchNorm._buffers = { running_mean = true, running_var = true }

  local batch_options = { eps = "number", momentum = "number", affine = "boolean", track = "boolean" }

  --- (x - mean) / sqrt(var + eps) * weight + bias for each channel, over the batch when training, else by the running
  --- means. momentum: the share of a new batch in these. Ioffe, Szegedy 2015, arXiv:1502.03167.
  --- Inside of ty.vmap each example is normalised over its own batch; running means, of which there is one for all
  --- examples, cannot follow then, so a module in training needs track = false there.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?}
  function BatchNorm:init(channels, opts)
    local who = self.class_name
    self.channels = count(who, 1, channels, "channels")
    opts = check.options(who, opts, batch_options)
    self.eps, self.momentum = opts.eps or 1e-5, opts.momentum or 0.1
    if opts.affine ~= false then self.weight, self.bias = ones(channels), zeros(channels) end
    if opts.track ~= false then self.running_mean, self.running_var = ty.zeros(channels), ty.ones(channels) end
  end

  --- Checks the shape; the dims but that of channels, and the sizes that a channel's value broadcasts by.
  local function batch_dims(m, x)
    local n = x.ndim
    if not m.ranks[n] or x:size(2) ~= m.channels then
      check.fail(m.class_name, "the input must be %s, got %s", m.shape_text:format(m.channels), check.text(x))
    end
    local dims, sizes = { 1 }, { m.channels }
    for d = 3, n do dims[d - 1], sizes[d - 1] = d, 1 end
    return dims, sizes
  end

  --- The running moments follow those of a batch, of n values a channel.
  local function follow(m, mean, var, n)
    if not (writable(m.running_mean, mean) and writable(m.running_var, var)) then
      check.fail(m.class_name, "in training inside of ty.vmap every example has moments of its own, but the running "
        .. "means are one for all (use {track = false}, eval() or nn.GroupNorm, or give the module to vmap as an "
        .. "argument, with running means for each example)")
    end
    if outside(m.running_mean) or outside(m.running_var) then
      check.fail(m.class_name, "in training inside of ty.scan the running means change from turn to turn, but they "
        .. "are not carried (use {track = false}, eval() or nn.GroupNorm, or carry them: a turn begins by setting "
        .. "running_mean and running_var to what it was given, and gives what they are at its end)")
    end
    local share = m.momentum
    m.running_mean:mul_(1 - share):add_(mean:detach() * share)
    m.running_var:mul_(1 - share):add_(var:detach() * (n / (n - 1) * share))
  end

  --- The mean and the variance of a batch; the running ones follow.
  local function batch_moments(m, w, dims, sizes)
    local n = w:numel() / m.channels
    if n < 2 then
      check.fail(m.class_name, "needs more than one value a channel when training, got %s", check.text(w))
    end
    local mean = w:sum(dims) / n
    local d = w - mean:reshape(sizes)
    local var = (d * d):sum(dims) / n
    if m.running_mean then follow(m, mean, var, n) end
    return d, var
  end

  --- [batch, channels, ...] to the same shape.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor
  function BatchNorm:forward(x)
    check.float(self.class_name, 1, x)
    local dims, sizes = batch_dims(self, x)
    local half = halves[x.dtype] and x.dtype
    local w = half and x:to("f32") or x
    local d, var
    if self.training or not self.running_mean then
      d, var = batch_moments(self, w, dims, sizes)
    else
      d, var = w - self.running_mean:reshape(sizes), self.running_var
    end
    local y = d / sqrt(var:reshape(sizes) + self.eps)
    if self.weight then y = y * self.weight:reshape(sizes) + self.bias:reshape(sizes) end
    return half and y:to(half) or y
  end

  function BatchNorm:describe()
    return ("%d, eps = %g, momentum = %g"):format(self.channels, self.eps, self.momentum)
  end

  --- nn.BatchNorm1d(channels, {eps = 1e-5, momentum = 0.1, affine = true, track = true}): each channel of [batch,
  --- channels] or [batch, channels, length] to mean 0 and variance 1, times weight plus bias: over the batch when
  --- training, else by the running means, in which momentum is the share of a new batch.
  --- Raises where the input has other sizes, or one value a channel when training.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # the sizes of the input
  nn.BatchNorm1d = class("BatchNorm1d", BatchNorm)
  nn.BatchNorm1d.ranks, nn.BatchNorm1d.shape_text = { [2] = true, [3] = true }, "[batch, %d], or that with a length,"
  --- nn.BatchNorm2d(channels, {eps = 1e-5, momentum = 0.1, affine = true, track = true}): the same of [batch,
  --- channels, height, width].
  --- Raises where the input has other sizes, or one value a channel when training.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # the sizes of the input
  nn.BatchNorm2d = class("BatchNorm2d", BatchNorm)
  nn.BatchNorm2d.ranks, nn.BatchNorm2d.shape_text = { [4] = true }, "[batch, %d, height, width]"

  --- nn.BatchNorm3d(channels, {eps = 1e-5, momentum = 0.1, affine = true, track = true}): the same of [batch,
  --- channels, depth, height, width].
  --- Raises where the input has other sizes, or one value a channel when training.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # the sizes of the input
  nn.BatchNorm3d = class("BatchNorm3d", BatchNorm)
  nn.BatchNorm3d.ranks, nn.BatchNorm3d.shape_text = { [5] = true }, "[batch, %d, depth, height, width]"

  ---------------------------------------------------------------------------------------------------------- instance

  ---@class tycho.nn.InstanceNorm: tycho.nn.BatchNorm
  local InstanceNorm = class("InstanceNorm", BatchNorm)

  --- As a batch norm whose batch is each sample alone. affine and track are false by default.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?}
  function InstanceNorm:init(channels, opts)
    opts = check.options(self.class_name, opts, batch_options)
    BatchNorm.init(self, channels, { eps = opts.eps, momentum = opts.momentum, affine = opts.affine or false,
      track = opts.track or false })
  end

  --- [batch, channels, ...] or [channels, ...] to the same shape.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor
  function InstanceNorm:forward(x)
    check.float(self.class_name, 1, x)
    local single = x.ndim == self.places + 1
    local input = single and x:unsqueeze(1) or x
    if input.ndim ~= self.places + 2 or input:size(2) ~= self.channels then
      check.fail(self.class_name, "the input must be %s or without the batch, got %s",
        self.shape_text:format(self.channels), check.text(x))
    end
    local half = halves[x.dtype] and x.dtype
    local w = half and input:to("f32") or input
    local dims, sizes, n = {}, { self.channels }, 1
    for d = 3, w.ndim do dims[d - 2], sizes[d - 1], n = d, 1, n * w:size(d) end
    local d, var
    if self.training or not self.running_mean then
      if n < 2 then
        check.fail(self.class_name, "needs more than one value a channel, got %s", check.text(x))
      end
      local mean = w:sum(dims, true) / n
      d = w - mean
      var = (d * d):sum(dims, true) / n
      if self.running_mean then follow(self, mean:flatten(2):mean(1), var:flatten(2):mean(1), n) end
    else
      d, var = w - self.running_mean:reshape(sizes), self.running_var:reshape(sizes)
    end
    local y = d / sqrt(var + self.eps)
    if self.weight then y = y * self.weight:reshape(sizes) + self.bias:reshape(sizes) end
    if half then y = y:to(half) end
    return single and y:squeeze(1) or y
  end

  local function instance(name, places, text)
    local c = class(name, InstanceNorm)
    nn[name], c.places, c.shape_text = c, places, text
  end

  --- nn.InstanceNorm1d(channels, {eps = 1e-5, momentum = 0.1, affine = false, track = false}): each channel of each
  --- sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
  --- Raises where the input has other sizes, or one value a channel.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # [batch, channels, length] or without the batch, to the same
  instance("InstanceNorm1d", 1, "[batch, %d, length]")
  --- nn.InstanceNorm2d(channels, {eps = 1e-5, momentum = 0.1, affine = false, track = false}): each channel of each
  --- sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
  --- Raises where the input has other sizes, or one value a channel.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # [batch, channels, height, width] or without the batch, to the same
  instance("InstanceNorm2d", 2, "[batch, %d, height, width]")
  --- nn.InstanceNorm3d(channels, {eps = 1e-5, momentum = 0.1, affine = false, track = false}): each channel of each
  --- sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
  --- Raises where the input has other sizes, or one value a channel.
  ---@param channels integer
  ---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} track: keep running means
  ---@return tycho.Module # [batch, channels, depth, height, width] or without the batch, to the same
  instance("InstanceNorm3d", 3, "[batch, %d, depth, height, width]")

  ---@class tycho.nn.LocalResponseNorm: tycho.Module
  local LocalResponseNorm = class "LocalResponseNorm"
  nn.LocalResponseNorm = LocalResponseNorm

  --- nn.LocalResponseNorm(size, {alpha = 1e-4, beta = 0.75, k = 1}): x / (k + alpha * mean of x^2 over `size`
  --- channels around each)^beta. Krizhevsky and others 2012.
  --- Raises where the size is not whole, or the input has no channels.
  ---@param size integer
  ---@param opts? {alpha: number?, beta: number?, k: number?}
  ---@return tycho.Module # [batch, channels, ...] to the same
  function LocalResponseNorm:init(size, opts)
    self.size = count("LocalResponseNorm", 1, size, "size")
    opts = check.options("LocalResponseNorm", opts, { alpha = "number", beta = "number", k = "number" })
    self.alpha, self.beta, self.k = opts.alpha or 1e-4, opts.beta or 0.75, opts.k or 1
  end

  function LocalResponseNorm:forward(x)
    check.float("LocalResponseNorm", 1, x)
    if x.ndim < 3 then
      check.fail("LocalResponseNorm", "the input must be [batch, channels, ...], got %s", check.text(x))
    end
    local half = halves[x.dtype] and x.dtype
    local w = half and x:to("f32") or x
    local amounts, before = {}, math.floor(self.size / 2)
    for d = 1, x.ndim do amounts[d] = { 0, 0 } end
    amounts[2] = { before, self.size - 1 - before }
    local sums = (w * w):pad(amounts):unfold(2, self.size, 1):sum(-1)
    local y = w / (sums / self.size * self.alpha + self.k):pow(self.beta)
    return half and y:to(half) or y
  end

  function LocalResponseNorm:describe() return tostring(self.size) end

  ---------------------------------------------------------------------------------------------------------- layer, RMS

  --- The sizes that a norm goes over, as a list.
  local function sizes_list(who, sizes)
    if type(sizes) == "number" then sizes = { sizes } end
    if type(sizes) ~= "table" or #sizes == 0 then
      check.fail(who, "argument 1 (sizes) must be a number or a list, got %s", check.show(sizes))
    end
    for _, n in ipairs(sizes) do count(who, 1, n, "sizes") end
    return sizes
  end

  --- Checks that x ends with the sizes; the dims that they are.
  local function last_dims(m, x)
    local sizes, own = m.sizes, x.shape
    local n, fits, dims = #sizes, #own >= #sizes, {}
    for i = 1, n do
      fits = fits and own[#own - n + i] == sizes[i]
      dims[i] = #own - n + i
    end
    if not fits then
      check.fail(m.class_name, "the input must end with the sizes %s, got %s", table.concat(sizes, ", "), check.text(x))
    end
    return dims
  end

  local function describe_sizes(self) return ("%s, eps = %g"):format(table.concat(self.sizes, " x "), self.eps) end

  ---@class tycho.nn.LayerNorm: tycho.Module
  local LayerNorm = class "LayerNorm"
  nn.LayerNorm, LayerNorm.describe = LayerNorm, describe_sizes

  --- nn.LayerNorm(sizes, {eps = 1e-5, affine = true, bias = true}): over the last dims, which have these sizes.
  --- Ba, Kiros, Hinton 2016, arXiv:1607.06450.
  --- Raises where the input does not end with the sizes.
  ---@param sizes integer|integer[]
  ---@param opts? {eps: number?, affine: boolean?, bias: boolean?}
  ---@return tycho.Module # the sizes of the input
  function LayerNorm:init(sizes, opts)
    self.sizes = sizes_list("LayerNorm", sizes)
    opts = check.options("LayerNorm", opts, { eps = "number", affine = "boolean", bias = "boolean" })
    self.eps = opts.eps or 1e-5
    if opts.affine ~= false then
      self.weight = ones(self.sizes)
      if opts.bias ~= false then self.bias = zeros(self.sizes) end
    end
  end

  function LayerNorm:forward(x)
    check.float("LayerNorm", 1, x)
    return ty.layer_norm(x, self.weight, self.bias, { dims = last_dims(self, x), eps = self.eps })
  end

  ---@class tycho.nn.RMSNorm: tycho.Module
  local RMSNorm = class "RMSNorm"
  nn.RMSNorm, RMSNorm.describe = RMSNorm, describe_sizes

  --- nn.RMSNorm(sizes, {eps = 1e-5, affine = true}): x / sqrt(mean(x^2) + eps) * weight over the last dims.
  --- Zhang, Sennrich 2019, arXiv:1910.07467.
  --- Raises where the input does not end with the sizes.
  ---@param sizes integer|integer[]
  ---@param opts? {eps: number?, affine: boolean?}
  ---@return tycho.Module # the sizes of the input
  function RMSNorm:init(sizes, opts)
    self.sizes = sizes_list("RMSNorm", sizes)
    opts = check.options("RMSNorm", opts, { eps = "number", affine = "boolean" })
    self.eps = opts.eps or 1e-5
    if opts.affine ~= false then self.weight = ones(self.sizes) end
  end

  function RMSNorm:forward(x)
    check.float("RMSNorm", 1, x)
    return ty.rms_norm(x, self.weight, { dims = last_dims(self, x), eps = self.eps })
  end

  ---------------------------------------------------------------------------------------------------------- group

  ---@class tycho.nn.GroupNorm: tycho.Module
  local GroupNorm = class "GroupNorm"
  nn.GroupNorm = GroupNorm

  --- nn.GroupNorm(groups, channels, {eps = 1e-5, affine = true}): over groups of channels of each sample.
  --- Wu, He 2018, arXiv:1803.08494.
  --- Raises where channels do not divide into groups, or the input has other ones.
  ---@param groups integer
  ---@param channels integer
  ---@param opts? {eps: number?, affine: boolean?}
  ---@return tycho.Module # the sizes of the input
  function GroupNorm:init(groups, channels, opts)
    self.groups, self.channels = count("GroupNorm", 1, groups, "groups"), count("GroupNorm", 2, channels, "channels")
    if channels % groups ~= 0 then
      check.fail("GroupNorm", "%d channels do not divide into %d groups", channels, groups)
    end
    opts = check.options("GroupNorm", opts, { eps = "number", affine = "boolean" })
    self.eps = opts.eps or 1e-5
    if opts.affine ~= false then self.weight, self.bias = ones(channels), zeros(channels) end
  end

  --- [batch, channels, ...] to the same shape.
  --- Raises where x has other channels.
  ---@param x tycho.Tensor [batch, channels, ...]
  ---@return tycho.Tensor # the sizes of x
  function GroupNorm:forward(x)
    check.float("GroupNorm", 1, x)
    local shape = x.shape
    if #shape < 2 or shape[2] ~= self.channels then
      check.fail("GroupNorm", "the input must be [batch, %d, ...], got %s", self.channels, check.text(x))
    end
    local half = halves[x.dtype] and x.dtype
    local w = half and x:to("f32") or x
    if half and autocast() then half = false end
    local groups = w:unflatten(2, { self.groups, self.channels / self.groups }):flatten(3)
    local y = ty.layer_norm(groups, { eps = self.eps }):reshape(shape)
    if self.weight then
      local sizes = { self.channels }
      for d = 3, #shape do sizes[d - 1] = 1 end
      y = y * self.weight:reshape(sizes) + self.bias:reshape(sizes)
    end
    return half and y:to(half) or y
  end

  function GroupNorm:describe() return ("%d, %d, eps = %g"):format(self.groups, self.channels, self.eps) end
end
