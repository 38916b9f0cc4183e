-- Calls of the library's functions by their names, for fuzz_program.lua: arguments are made from the signatures that the
-- library's help has, so that a new function is called as soon as it is described.
-- In: a maker of programs. Out: statements.
--
-- A signature is `name(x, dim = -1, {key = value})`. An argument is made by its name (`argument`), an option by its name or
-- its default. What takes tensors of particular sizes says so in `sizes`: one text for each leading argument (a list's each),
-- in which letters stand for sizes that are the same in all of them, "@n" for whole numbers 1..n of these sizes, "c" for complex
-- numbers, "#" for a plain value. What raises is left out by the maker.

local M = {}

local MOST = 100 -- elements of an argument

-- What is no function of tensors, changes more than its arguments, reads addresses, does not give the same twice, or
-- moves to another device than the program's.
local left_out = {}
for name in ([[ autocast backward blas budget check checkpoint clip_grad_norm_ clip_grad_value_ compile cpu cuda custom_grad data
  deadline default_dtype deterministic detect_anomaly device disable empty empty_like enable_grad explain export from_ptr get
  grad gradcheck graph help hessian iinfo finfo item jacobian jvp load load_checkpoint load_weights manual_seed new_empty no_grad
  pass plot precision profile progress promote_types random_state register_hook release requires_grad_ reset result_type
  retain_grad rows
  save save_checkpoint scan scope set set_print show stance start stats synchronize threads to totable tolist value_and_grad
  view_as vmap warmup result_type version new_tensor tensor as_tensor array internals is_tensor
  ]]):gmatch "%S+" do left_out[name] = true end

--- Functions that read data, after which no trace goes on.
M.reads = {}
for name in ([[ allclose equal nonzero argwhere masked_select unique bincount histc histogram index_put index_put_ isin
  masked_scatter masked_scatter_ repeat_interleave multinomial polyfit ]]):gmatch "%S+" do M.reads[name] = true end

local sizes = {
  adaptive_avg_pool1d = "2 3 i; #2", adaptive_avg_pool2d = "1 2 5 4; #2", adaptive_avg_pool3d = "1 2 3 4 3; #2",
  adaptive_max_pool1d = "2 3 i; #2", adaptive_max_pool2d = "1 2 5 4; #3", adaptive_max_pool3d = "1 2 3 4 3; #2",
  addmm = "i k; i j; j k", addmv = "i; i j; j", addr = "i j; i; j", adjoint = "i j", affine_grid = "2 2 3; #{ 2, 1, 3, 4 }",
  as_strided = "3 4; #{ 2, 3 }; #{ 4, 1 }", average = "i j; #1; i j", avg_pool1d = "2 3 6; #2", avg_pool2d = "1 2 4 5; #2",
  avg_pool3d = "1 2 4 3 4; #2", baddbmm = "b i k; b i j; b j k", bincount = "@5 i", bmm = "b i j; b j k", bucketize = "i j; k",
  cartesian_prod = "i; j", cdist = "b i k; b j k", combinations = "4", conv1d = "2 3 6; 2 3 2; 2", conv2d = "1 2 4 5; 3 2 2 2; 3",
  conv3d = "1 2 3 4 3; 2 2 2 2 1; 2", conv_transpose1d = "2 3 4; 3 2 2; 2", conv_transpose2d = "1 2 3 3; 2 2 2 2; 2",
  conv_transpose3d = "1 2 2 3 2; 2 1 2 1 2; 1", convolve = "i; j", corrcoef = "i 4", cosine_embedding_loss = "3 i; 3 i; 3",
  cov = "i 4", cross = "i 3; i 3", cross_entropy = "3 4; @4 3", ctc_loss = "5 2 4; @3 2 2; #{ 5, 5 }; #{ 2, 2 }",
  diagonal_scatter = "3 3; 3", dot = "i; i", embedding = "5 i; @5 2", fliplr = "i j", flipud = "i j",
  ["fft.fft2"] = "i j k", ["fft.ifft2"] = "i j k", ["fft.rfft2"] = "i j k", ["fft.irfft2"] = "i j k", glu = "i 4",
  grid_sample = "1 2 4 3; 1 3 2 2", inner = "i k; j k", interp = "i; 4; 4", interpolate = "1 2 3 4", istft = "c 3 5; #4",
  layer_norm = "i 4; 4; 4", lp_pool1d = "2 3 6; #2; #2", lp_pool2d = "1 2 4 5; #2; #2", matmul = "b i j; j k",
  max_pool1d = "2 3 6; #2", max_pool2d = "1 2 4 5; #2", max_pool3d = "1 2 4 3 4; #2", max_unpool1d = "1 2 3; @6 1 2 3; #2",
  max_unpool2d = "1 2 2 2; @16 1 2 2 2; #2", max_unpool3d = "1 1 2 2 2; @64 1 1 2 2 2; #2", mm = "i j; j k",
  multi_margin_loss = "3 4; @4 3", multilabel_margin_loss = "3 4; @4 3 4", multilabel_soft_margin_loss = "i 4; i 4", mv = "i j; j",
  nll_loss = "3 4; @4 3", one_hot = "@4 i j; #4", outer = "i; j", pdist = "i 3", pixel_shuffle = "1 8 i j; #2",
  pixel_unshuffle = "1 2 4 2; #2", polyfit = "5; 5; #2", polyval = "i; j k", prelu = "i 3; 3", rms_norm = "i 4; 4", rot90 = "i j",
  scaled_dot_product_attention = "b i k; b j k; b j k", searchsorted = "i; j k", stft = "2 9; #4", t = "i j",
  tensordot = "b i j; i j k", trapezoid = "i j", triplet_margin_loss = "i 3; i 3; i 3", unflatten = "2 6; #2; #{ 2, 3 }",
  vander = "4", vdot = "i; i", vecdot = "i j; i j", view_as_complex = "i j 2", index_put = "5 i; #{ labels = 5 }; i",
  ["linalg.lstsq"] = "4 3; 4 2", ["linalg.solve"] = "b i i; b i k", ["linalg.solve_triangular"] = "i i; i k",
  ["linalg.matrix_norm"] = "b i j", ["linalg.svd"] = "b i j", ["linalg.svdvals"] = "b i j", ["linalg.qr"] = "b i j",
  ["linalg.pinv"] = "b i j", ["linalg.matrix_rank"] = "b i j", ["linalg.tensorinv"] = "2 3 6", ["linalg.tensorsolve"] = "2 3 6; 2 3",
  ["linalg.multi_dot"] = "i j; j k; k i", einsum = "#'bij,jk->kb'; b i j; j k", contract = "b i j; b j k; #1; #1",
  ["linalg.lu"] = "b i j", square_matrix = "b i i",
}
for name in ("inv det slogdet eigh eigvalsh cholesky matrix_exp matrix_power cond"):gmatch "%S+" do
  sizes["linalg." .. name] = sizes.square_matrix
end

--- Modules: what they are made with, the sizes of what they are given. They are made beside the program, in evaluation,
--- and their weights need no gradient: that of what they are given goes through them.
local modules = {
  { "Linear", "4, 3", "i 4" }, { "Bilinear", "2, 3, 2", "i 2; i 3" }, { "Conv1d", "3, 2, 2", "2 3 5" }, { "Conv2d", "2, 3, 2", "1 2 4 3" },
  { "ConvTranspose1d", "2, 2, 2", "1 2 4" }, { "BatchNorm1d", "3", "4 3" }, { "BatchNorm2d", "2", "2 2 2 3" }, { "LayerNorm", "4", "i 4" },
  { "GroupNorm", "2, 4", "2 4 3" }, { "InstanceNorm1d", "3", "2 3 4" }, { "RMSNorm", "4", "i 4" }, { "PReLU", "", "i j" },
  { "GRU", "3, 2", "4 2 3" }, { "LSTM", "3, 2", "4 2 3" }, { "RNN", "3, 2", "4 2 3" }, { "GRUCell", "3, 2", "2 3" },
  { "LSTMCell", "3, 2", "2 3" }, { "RNNCell", "3, 2", "2 3" }, { "MultiHeadAttention", "4, 2", "2 3 4" },
  { "TransformerEncoderLayer", "4, 2", "2 3 4" }, { "Embedding", "5, 3", "@5 2 3" }, { "LocalResponseNorm", "2", "1 4 3" },
  { "ChannelShuffle", "2", "1 4 2 2" }, { "PixelShuffle", "2", "1 4 2 3" }, { "Unfold", "2", "1 2 3 3" }, { "Flatten", "", "2 3 2" },
  { "Upsample", "{ scale = 2 }", "1 2 3 3" }, { "ReflectionPad1d", "1", "1 2 4" }, { "CircularPad2d", "1", "1 2 3 3" },
  { "CosineSimilarity", "", "i 3; i 3" }, { "GLU", "", "2 4" }, { "MaxPool2d", "2", "1 2 4 5" },
  { "GRU", "3, 2", "3 4 3", lengths = "{ 4, 2, 1 }" }, { "LSTM", "3, 2", "2 4 3", lengths = "{ 1, 3 }" },
  { "RNN", "3, 2", "3 5 3", lengths = "{ 2, 5, 4 }" },
}

local function pick(r, list) return list[r(#list)] end

-- --- options

local choices = {
  reduction = { "mean", "sum", "none" }, norm = { "backward", "ortho", "forward" }, approximate = { "none", "tanh" },
  mode = { "nearest", "bilinear", "bicubic", "full", "same", "valid", "area" }, indexing = { "ij", "xy" },
  padding_mode = { "zeros", "border", "reflection" }, pad_mode = { "reflect", "replicate", "circular", "constant" },
  interpolation = { "linear", "lower", "higher", "midpoint", "nearest" }, normalized = { true, false }, center = { true, false },
  onesided = { true, false }, return_complex = { true, false }, hop_length = { 1, 2, 3 }, upper = { true, false }, size = { 2, 3, 5 },
  dim = { -1, 1, 2 }, dims = { -1, { 1, 2 } }, length = { 7, 12 }, groups = { 1 }, range = { { -1, 1 } }, p = { 1, 2, 3 },
  stride = { 1, 2 }, padding = { 0, 1 }, dilation = { 1, 2 }, output_padding = { 0 }, dropout = { 0, 0.25 }, blank = { 1, 4 },
  eps = { 1e-3 }, tau = { 1, 0.5 }, bins = { 3, 10 },
}
local some = { 1, 2, 0.5, 0 }

--- A value of an option, by its name or its default as text; nil where none is known.
local function option(self, key, default)
  local r = self.r
  if key == "dtype" then return pick(r, self.how.dtypes) end
  if choices[key] then return pick(r, choices[key]) end
  if default == "true" or default == "false" then return r(2) == 1 end
  if default and tonumber(default) then return pick(r, some) end
end

local function options(self, text)
  local out, any = {}, nil
  for part in text:sub(2, -2):gmatch "[^,]+" do
    local key, default = part:match "^%s*([%w_]+)%s*=?%s*(.-)%s*$"
    if key and self.r(3) == 1 then
      out[key] = option(self, key, default ~= "" and default or nil)
      any = any or out[key] ~= nil
    end
  end
  return any and out or nil
end

-- --- arguments; `of` says what is known of the call: its name, the first tensor's variable and tensor, the dim

local function few(t) return t:numel() <= MOST end

local function same_shape(t, u)
  if t.ndim ~= u.ndim then return false end
  for d = 1, t.ndim do
    if t:size(d) ~= u:size(d) then return false end
  end
  return true
end

--- A tensor: the first one of the call, or one that goes with it.
local function tensor(self, of)
  local r = self.r
  if not of.t then
    local all, whole = r(5) == 1, of.name:find "bitwise" or of.name:find "shift" or of.name == "invert"
    local a = self:any(function(t) return few(t) and (all or not self.numeric[t.dtype] == (whole and true or false)) end)
    if not a then return nil end
    of.a, of.t = a, self.vars[a]
    return { var = a }
  end
  local loose = r(4) == 1
  local b = self:any(function(t) return same_shape(t, of.t) and (loose or t.dtype == of.t.dtype) end)
  return { var = b or of.a }
end

local argument = {}

for name in ([[ x a b c y other re im abs angle rate values target var anchor positive negative condition v p_ ]]):gmatch "%S+" do
  argument[name] = tensor
end

function argument.dim(self, of)
  local rank = math.max(of.t and of.t.ndim or 1, 1)
  of.dim = self.r(rank)
  return self.r(3) == 1 and of.dim - rank - 1 or of.dim
end
argument.dim1, argument.dim2, argument.from = argument.dim, argument.dim, argument.dim

function argument.dims(self, of)
  local rank = of.t and of.t.ndim or 1
  if of.name:find "permute" then
    local list = {}
    for d = 1, rank do table.insert(list, self.r(#list + 1), d) end
    return list
  end
  if rank >= 2 and self.r(3) == 1 then return { self.r(rank - 1), rank } end
  return argument.dim(self, of)
end

local function size_at(of) return of.t and of.t.ndim > 0 and of.t:size(of.dim or -1) or 1 end

--- Whole numbers 1 .. n that no gradient goes through.
local function labels(self, n, shape)
  local s = self:call("randint", 1, math.max(n, 1), shape)
  self:add(s)
  return { var = s.y }
end

function argument.index(self, of)
  if of.name:find "^select" then return self.r(size_at(of)) end
  if of.name:find "^index_" or of.name == "take" then
    of.taken = self.r(3)
    return labels(self, size_at(of), { of.taken })
  end
  return labels(self, size_at(of), of.t.shape)
end

function argument.src(self, of)
  if not (of.name:find "^index_" or of.name == "select_scatter") then return tensor(self, of) end
  local shape = of.t.shape
  if of.taken then shape[of.dim] = of.taken else table.remove(shape, of.dim) end
  if of.t:numel() == 0 then return nil end
  return self:reshaped(of.a, unpack(shape))
end

function argument.mask(self, of)
  local s = self:call(pick(self.r, { "lt", "ge", "ne" }), { var = of.a }, 0.25)
  self:add(s)
  return { var = s.y }
end

function argument.sizes(self, of)
  if of.name:find "expand" or of.name:find "broadcast" then
    local shape = of.t.shape
    table.insert(shape, 1, self.r(3))
    return shape
  end
  if of.t and self.r(2) == 1 then return { of.t:numel() } end
  return of.t and of.t.shape or { self.r(3), self.r(4) }
end

argument["sizes..."] = function(self) return { self.r(3), self.r(4) } end

local function list(self, of)
  local first = tensor(self, of)
  return first and { list = { first.var, tensor(self, of).var } }
end
argument.list = list

local function numbers(...)
  local from = { ... }
  return function(self) return pick(self.r, from) end
end

for names, way in pairs {
  ["keepdim training descending largest right periodic increasing with_replacement accumulate replacement"] = numbers(true, false),
  ["k n r classes columns factor count shifts counts step size degree length bins minlength parts m"] = numbers(1, 2, 3),
  ["offset first start low_"] = numbers(0, 1, -1), ["last stop"] = numbers(-1, 2, 5), ["to"] = numbers(1, -1),
  ["value min low beta alpha slope lambda threshold start_ nan neginf"] = numbers(-0.5, 0, 0.25, 1, -2),
  ["max high posinf stop_"] = numbers(0.5, 1, 3), ["p"] = numbers(0.25, 0.5, 1), ["weight q eps"] = numbers(0.25, 0.5, 0.125),
  ["base d std sigma median mean"] = numbers(1, 2, 0.5),
} do
  for name in names:gmatch "%S+" do argument[name] = way end
end
argument.reduce = numbers("sum", "mean", "max", "min", "prod")
argument.n_fft, argument.kernel = numbers(4, 3), numbers(2, 3)
function argument.s(self) return { self.r(4), self.r(4) } end
function argument.norm(self) return pick(self.r, choices.norm) end
function argument.mode(self) return pick(self.r, choices.mode) end

-- --- arguments of particular sizes

--- A variable's elements in other dims: flattened, repeated as often as it takes, cut.
function M.reshaped(self, a, ...)
  local shape, n = { ... }, 1
  for _, size in ipairs(shape) do n = n * size end
  local have = self.vars[a]:numel()
  local s = self:call("flatten", { var = a })
  self:add(s)
  if have < n then
    s = self:call("tile", { var = s.y }, { math.ceil(n / have) })
    self:add(s)
  end
  if have ~= n then
    s = self:call("narrow", { var = s.y }, 1, 1, n)
    self:add(s)
  end
  s = self:call("reshape", { var = s.y }, shape)
  self:add(s)
  return { var = s.y }
end

local function sized(self, of, text)
  local value = text:match "^#(.*)$"
  if value then
    local n = value:match "labels = (%d+)"
    if n then return { list = { labels(self, tonumber(n), { of.t:size(-1) }).var } } end
    return loadstring("return " .. value)()
  end
  local most, complex, shape = text:match "@(%d+)", text:find "^c ", {}
  for word in text:gsub("@%d+", ""):gsub("^c ", ""):gmatch "%S+" do
    of.letters[word] = of.letters[word] or tonumber(word) or self.r(4)
    shape[#shape + 1] = of.letters[word]
  end
  if most then return labels(self, tonumber(most), shape) end
  local dtype = of.t and of.t.dtype
  local a = self:any(function(t)
    return t:numel() > 0 and t:numel() <= 4 * MOST and self.numeric[t.dtype] and (not dtype or t.dtype == dtype)
  end)
  if not a then return nil end
  if complex and not self.vars[a]:is_complex() then
    local s = self:call("complex", { var = a })
    self:add(s)
    a = s.y
  end
  local v = M.reshaped(self, a, unpack(shape))
  of.a, of.t = of.a or v.var, of.t or self.vars[v.var]
  return v
end

-- --- functions

--- All that is called: {name, group?, signature as a list of {name, default}, options as text}.
function M.functions(ty, takes)
  local out, help = {}, ty.internals.help
  for name, text in pairs(help) do
    local group, own = name:match "^(%l+)%.(.*)$"
    local known = group and (group == "fft" or group == "linalg") and ty[group][own]
      or not group and (rawget(ty, name) ~= nil or ty.internals.methods[name])
    local call = text:match "^[^(]*%((.-)%)\n"
    if known and call and not left_out[name] and name:sub(1, 1) ~= "_" and takes(name) then
      local f = { full = name, name = own or name, group = group, args = {} }
      f.options = call:match "%b{}$"
      for part in call:gsub("%b{}", function(b) return b == f.options and "" or "T" end):gmatch "[^,]+" do
        local a, default = part:match "^%s*([^%s=]+)%s*=?%s*(.-)%s*$"
        if a then f.args[#f.args + 1] = { a, default ~= "" and default or nil } end
      end
      out[#out + 1] = f
    end
  end
  table.sort(out, function(f, g) return f.full < g.full end)
  return out
end

local two_results = { sort = true, topk = true, kthvalue = true, mode = true, aminmax = true, unique = true, split = true,
  chunk = true, unbind = true, meshgrid = true, broadcast_tensors = true, var_mean = true, std_mean = true, histogram = true }
for name in ("svd qr lu eigh slogdet lstsq"):gmatch "%S+" do two_results["linalg." .. name] = true end

--- A statement that calls a module; its weights have the dtype of what it is given.
function M.layer(self)
  local row = pick(self.r, modules)
  local of, x = { letters = {} }, {}
  for text in row[3]:gmatch "[^;]+" do x[#x + 1] = sized(self, of, text:match "^%s*(.-)%s*$") end
  if #x == 0 then return nil end
  local t = self.vars[x[1].var]
  local s = { kind = "layer", y = self:new_var(), x = x[1].var, z = x[2] and x[2].var, name = row[1], modules = {} }
  s.lengths = row.lengths and loadstring("return " .. row.lengths)()
  local m = self.ty.nn[row[1]](loadstring("return " .. row[2])()):eval():requires_grad_(false)
  if t.dtype ~= "f32" and self.numeric[t.dtype] then m:to(t.dtype) end
  s.modules.cpu = m
  local other = os.getenv "FUZZ_DEVICE"
  if other then s.modules[other] = self.ty.nn._copied(m):to(other) end
  return s
end

--- A statement that calls one of the functions.
function M.call(self)
  local how = self.how
  how.functions = how.functions or M.functions(self.ty, how.calls)
  local f = pick(self.r, how.functions)
  if self.calm and (M.reads[f.full] or f.group == "linalg") then return nil end
  local writes = f.name:sub(-1) == "_"
  local of, args, n = { name = f.name, letters = {} }, {}, 0
  local given = sizes[f.full:gsub("_$", "")]
  local texts = {}
  for text in (given or ""):gmatch "[^;]+" do texts[#texts + 1] = text:match "^%s*(.-)%s*$" end
  for i, a in ipairs(f.args) do
    local value
    local optional = a[2] ~= nil or i > #texts and a[1] == "bias"
    if optional and self.r(2) == 1 then break end
    local many = a[1]:find "%.%.%.$"
    if texts[i] and not many and a[1] ~= "list" then
      value = sized(self, of, texts[i])
    elseif texts[i] then
      local vars = {}
      for k = i, #texts do vars[#vars + 1] = sized(self, of, texts[k]) end
      if many then
        for _, v in ipairs(vars) do
          n = n + 1
          args[n] = v
        end
      else
        for k, v in ipairs(vars) do vars[k] = v.var end
        value = { list = vars }
      end
    elseif many and not argument[a[1]] then
      for _ = 1, 2 do
        n = n + 1
        args[n] = tensor(self, of)
      end
    else
      local way = argument[a[1]]
      value = way and way(self, of)
    end
    if value ~= nil then
      n = n + 1
      args[n] = value
    elseif not many then
      if not optional then return nil end
      break
    end
  end
  if f.options and self.r(2) == 1 then
    n = n + 1
    args[n] = options(self, f.options)
  end
  if writes and of.a and self.r(how.copied) > 1 then
    local copy = self:call("clone", args[1])
    self:add(copy)
    args[1] = { var = copy.y }
  end
  local s = self:call(f.name, unpack(args, 1, n))
  s.group = f.group
  if two_results[f.full] then s.w = self:new_var() end
  return s
end

return M
