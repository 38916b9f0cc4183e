-- Random losses: programs of fuzz_program.lua and of what networks are made of, and a number that all of their values
-- reach.
-- In: a seed, a kind. Out: a program, and functions that run it over inputs.
--
-- Three kinds. `any`: every dtype, special values, writes through views; only bits can be compared. `cut`: the same, and
-- data are read, decide branches and loops, or errors; functions are called that no trace holds. `smooth`: f64, moderate
-- values, operations that have a gradient by the table's last column (or give bool: constant but for jumps), nothing that
-- is not finite; there differences tell what the gradient must be.

local gen = dofile((debug.getinfo(1, "S").source:match "^@(.*)[/\\][^/\\]*$" or ".") .. "/fuzz_program.lua")

local FLOATS, SMOOTH = gen.FLOATS, gen.Maker.numeric -- reals; what gradients go through: complex numbers, too

local M = { gen = gen, SMOOTH = SMOOTH }
local Maker = gen.Maker

local function pick(r, list) return list[r(#list)] end

--- The numbers that t is made of: pairs of them, where it is complex.
function M.reals(t) return t:is_complex() and t:view_as_real() or t end

-- --- statements beyond those of fuzz_program.lua

local make = setmetatable({}, { __index = gen.usual.make })

local function is_full_float(t) return FLOATS[t.dtype] and t:numel() > 0 and t:numel() <= 400 end

--- A full float variable in these dims.
function Maker:float(...)
  local a = self:any(is_full_float)
  return a and self:reshaped(a, ...)
end

--- Another of its dtype.
function Maker:like(v, ...)
  local dtype = self.vars[v.var].dtype
  local a = self:any(function(t) return is_full_float(t) and t.dtype == dtype end)
  return a and self:reshaped(a, ...)
end

--- Whole numbers 1 .. n that no gradient goes through.
function Maker:labels(n, ...)
  local s = self:call("randint", 1, n, { ... })
  self:add(s)
  return { var = s.y }
end

local layers = {}

function layers.conv2d(self, r)
  local groups = r(2)
  local x = self:float(r(2), 2, 3 + r(2), 2 + r(3))
  local w = x and self:like(x, 2 * r(2), 2 / groups, r(3), r(3))
  local b = r(2) == 1 and w and self:like(x, self.vars[w.var]:size(1)) or gen.none
  local options = { stride = pick(r, { 1, 2, { 2, 1 } }), padding = pick(r, { 0, 1, { 0, 2 } }), dilation = r(2), groups = groups }
  return w and self:call("conv2d", x, w, b, options)
end

function layers.conv1d(self, r)
  local x = self:float(2, 3, 6)
  local w = x and self:like(x, 2, 3, r(3))
  return w and self:call("conv1d", x, w, gen.none, { stride = r(2), padding = r(3) - 1, dilation = r(2) })
end

function layers.conv_transpose2d(self, r)
  local x = self:float(1, 2, 2, 3)
  local w = x and self:like(x, 2, r(2), 2, r(3))
  local options = { stride = r(2), padding = r(2) - 1, output_padding = r(2) - 1, dilation = r(2) }
  return w and self:call("conv_transpose2d", x, w, gen.none, options)
end

function layers.pool(self, r)
  local x = self:float(1, 2, 4, r(2) + 2)
  local name = pick(r, { "max_pool2d", "avg_pool2d", "max_pool2d" })
  return x and self:call(name, x, 2, { stride = r(2), padding = r(2) - 1 })
end

function layers.adaptive(self, r)
  local x = self:float(1, 2, 5, 4)
  return x and self:call(pick(r, { "adaptive_avg_pool2d", "adaptive_max_pool2d" }), x, r(4))
end

function layers.interpolate(self, r)
  local x = self:float(1, 1, 3, 4)
  return x and self:call("interpolate", x, { size = { 2 + r(4), r(6) }, mode = pick(r, { "nearest", "bilinear" }) })
end

function layers.attention(self, r)
  local n, width = r(5), r(3)
  local q = self:float(2, n, width)
  local k = q and self:like(q, 2, 4, width)
  local v = k and self:like(q, 2, 4, r(3))
  return v and self:call("scaled_dot_product_attention", q, k, v, { causal = r(2) == 1 })
end

function layers.norm(self, r)
  local x = self:float(2, 3, 4)
  local w = x and r(2) == 1 and self:like(x, 4) or gen.none
  if not x then return nil end
  if r(2) == 1 then return self:call("rms_norm", x, w) end
  return self:call("layer_norm", x, w, w ~= gen.none and r(2) == 1 and self:like(x, 4) or gen.none)
end

function layers.cross_entropy(self, r)
  local x = self:float(3, 4)
  local options = { label_smoothing = r(2) == 1 and 0.1 or 0, reduction = pick(r, { "mean", "sum", "none" }) }
  return x and self:call("cross_entropy", x, self:labels(4, 3), options)
end

function layers.loss(self, r)
  local x = self:float(2, 3)
  local y = x and self:like(x, 2, 3)
  local name = pick(r, { "mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "bce_with_logits", "kl_div" })
  if not y then return nil end
  if name == "kl_div" or name == "bce_with_logits" then
    local s = self:call("sigmoid", y)
    self:add(s)
    y = { var = s.y }
  end
  return self:call(name, x, y, { reduction = pick(r, { "mean", "sum", "none" }) })
end

function layers.embedding(self, r)
  local w = self:float(5, r(3))
  return w and { kind = "index_by", y = self:new_var(), x = w.var, i = self:labels(5, 2, r(3)).var }
end

function layers.dropout(self)
  local a = self:any(is_full_float)
  return a and self:call("dropout", { var = a }, 0.3)
end

function layers.products(self, r)
  local x = self:float(2, 2, 3)
  local y = x and self:like(x, 2, 3, 2)
  if not y then return nil end
  local choice = r(3)
  if choice == 1 then return self:call("bmm", x, y) end
  if choice == 2 then return self:call("einsum", "aij,ajk->ki", x, y) end
  return self:call("tensordot", x, y, { { 3 }, { 2 } })
end

function layers.over_dim(self, r)
  local a = self:any(function(t) return is_full_float(t) and t.ndim >= 1 end)
  if not a then return nil end
  local dim = r(self.vars[a].ndim)
  local name = pick(r, { "softmax", "log_softmax", "logsumexp", "sort", "var", "std", "mean", "median", "norm" })
  if name == "norm" then return self:call("norm", { var = a }, pick(r, { 1, 2, 3 }), dim) end
  return self:call(name, { var = a }, dim)
end

function layers.pair(self, r)
  local a = self:any(is_full_float)
  local t = a and self.vars[a]
  local b = a and self:any(function(u)
    return u.dtype == t.dtype and u.ndim == t.ndim and u:numel() == t:numel() and table.concat(u.shape, " ") ==
      table.concat(t.shape, " ")
  end)
  if not b then return nil end
  local name = pick(r, { "hypot", "logaddexp", "lerp", "stack" })
  if name == "stack" then return self:call("stack", { list = { a, b, a } }, 1) end
  return self:call(name, { var = a }, { var = b }, name == "lerp" and 0.3 or nil)
end

function layers.activation(self, r)
  local a = self:any(is_full_float)
  local name = pick(r, { "gelu", "silu", "mish", "softplus", "elu", "leaky_relu", "relu", "square", "rsqrt", "reciprocal" })
  return a and self:call(name, { var = a })
end

function layers.part(self, r)
  local a = self:any(function(t) return is_full_float(t) and t.ndim >= 2 end)
  if not a then return nil end
  local choice = r(5)
  if choice == 1 then return self:call("tril", { var = a }, r(3) - 2) end
  if choice == 2 then return self:call("triu", { var = a }, r(3) - 2) end
  if choice == 3 then return self:call("repeat_interleave", { var = a }, 2, 1) end
  if choice == 4 then return self:call("unfold", { var = a }, 2, 1 + (self.vars[a]:size(2) > 1 and r(2) - 1 or 0)) end
  return self:call("index_select", { var = a }, 1, self:labels(self.vars[a]:size(1), 3))
end

local layer_names = {}
for name in pairs(layers) do layer_names[#layer_names + 1] = name end
table.sort(layer_names)

function make.layer(self) return layers[pick(self.r, layer_names)](self, self.r) end

-- Writes mostly go to a copy: what an operation keeps for its gradient must not change afterwards.
for _, kind in ipairs { "inplace", "assign" } do
  local base = gen.usual.make[kind]
  make[kind] = function(self)
    local s = base(self)
    if s and self.r(5) > 1 then
      local copy = self:call("clone", { var = s.x })
      self:add(copy)
      s.x = copy.y
    end
    return s
  end
end

-- A value chosen by another: where beside the other conditions.
function make.chosen(self)
  local a = self:any(is_full_float)
  local t = a and self.vars[a]
  if not t then return nil end
  local s = self:call(pick(self.r, { "lt", "le", "gt" }), { var = a }, 0.25)
  self:add(s)
  local other = self:call("mul", { var = a }, 0.5)
  self:add(other)
  return self:call("where", { var = s.y }, { var = a }, { var = other.y })
end

-- --- kinds of programs

local function weights(more)
  local w = {}
  for k, v in pairs(gen.weights) do w[k] = v end
  for k, v in pairs(more) do w[k] = v end
  return gen.by_weight(w)
end

-- Inputs as they are while gradients are recorded, so that statements that raise then are left out.
local function tracked(ty, program)
  local vars = gen.inputs(ty, program)
  for i, t in ipairs(vars) do
    if SMOOTH[t.dtype] then vars[i] = t:requires_grad_() * 1 end
  end
  return vars
end

local DTYPES = { "f32", "f32", "f32", "f64", "f16", "bf16", "f32", "i64", "bool", "f32", "f64", "u32", "u64", "c64", "c128" }

M.any = {
  dtypes = DTYPES, sizes = { 0, 1, 1, 2, 3, 3, 4, 5, 5, 15, 17 }, most = 200, values = gen.usual.values, calm = true,
  make = make, sorts = weights { named = 6, layer = 12, chosen = 3, move = 4, read = 0, branch = 0, loop = 1, said = 0, caught = 0 },
  vars = tracked, takes = function() return true end, calls = gen.usual.calls, copied = 5,
}

M.cut = {}
for k, v in pairs(M.any) do M.cut[k] = v end
M.cut.calm = false
M.cut.sorts = weights { named = 6, layer = 12, chosen = 3, move = 4, read = 5, branch = 5, loop = 4, said = 4, caught = 4 }

-- Values that most functions are defined for, by turns: below 1, above 0, any small ones.
local ranges = {
  function(r) return (r(1601) - 801) / 1000 end,
  function(r) return 0.2 + r(2001) / 1000 end,
  function(r) return (r(2) == 1 and 1 or -1) * (0.2 + r(1401) / 1000) end,
}

local function smooth_values(r)
  local range = pick(r, ranges)
  return function(_, dtype)
    if SMOOTH[dtype] then return range(r) end
    return dtype == "bool" and r(2) - 1 or r(9) - 5
  end
end

--- Finite, and not so large that differences drown; no dtype whose steps are larger than they are.
local function moderate(ty, v)
  if not ty.is_tensor(v) or not SMOOTH[v.dtype] then return true end
  if v.requires_grad and v.dtype ~= "f64" and v.dtype ~= "c128" then return false end
  return v:numel() == 0 or v:detach():abs():max():item() < 100 -- NaN is not
end

--- Functions whose gradient is no derivative, by what they are for; stairs, whose steps may be narrower than what
--- differences are taken over.
local kinked = { detach = true, gaussian_nll_loss = true, gumbel_softmax = true, remainder = true, fmod = true, mod = true,
  remainder_ = true, fmod_ = true }

M.smooth = {
  dtypes = { "f64", "f64", "f64", "f64", "f64", "f64", "i64", "bool", "c128" }, sizes = { 1, 2, 2, 3, 3, 4, 5 }, most = 40,
  values = smooth_values, calm = true, make = make,
  sorts = weights { named = 6, layer = 14, chosen = 3, move = 4, read = 0, branch = 0, bitcast = 0, loop = 1, said = 0, caught = 0 },
  vars = tracked, accept = moderate, takes = function(row)
    return (row.gradients > 0 or row.rule == "cmp") and not kinked[row.lua]
  end,
  calls = function(name) return not kinked[name] end, copied = 5,
}

--- The program of a seed and a kind ("any", "cut", "smooth").
function M.make(ty, seed, kind) return gen.make(ty, seed, M[kind]) end

--- The numbers of the inputs that have gradients.
function M.floats_of(program)
  local list = {}
  for i, spec in ipairs(program.inputs) do
    if SMOOTH[spec.dtype] then list[#list + 1] = i end
  end
  return list
end

--- Leaves cannot be written to: the variables that statements see are computed from them, but for every fourth program.
function M.unleaf(program, inputs)
  local vars = { unpack(inputs) }
  if program.seed % 4 == 0 then return vars end
  for i, t in ipairs(vars) do
    if SMOOTH[t.dtype] then vars[i] = t * 1 end
  end
  return vars
end

--- Inputs like those of the program: values moved along, sizes that are at least 2 each larger by `grown`.
function M.inputs_like(program, moved, grown)
  if moved == 0 and grown == 0 then return program.inputs end
  local list = {}
  for i, spec in ipairs(program.inputs) do
    local shape, n, data = {}, 1, {}
    for d, size in ipairs(spec.shape) do
      shape[d] = size >= 2 and size + grown or size
      n = n * shape[d]
    end
    if gen.COMPLEX[spec.dtype] then n = 2 * n end
    for k = 1, n do data[k] = spec.data[(k - 1 + moved) % math.max(#spec.data, 1) + 1] or 0 end
    list[i] = { dtype = spec.dtype, shape = shape, data = data, layout = spec.layout }
  end
  return list
end

-- --- losses

--- What hooks of the k-th kind make of a gradient; the first changes nothing, which smooth programs need.
local hooks = {
  function(g) return g * 1 end,
  function(g) return g:clamp(-0.25, 0.25) end,
  function(g, k) return g * (k * 0.125) + 0.5 end,
  function() end,
  function(g) return g:sum():item() > 1 and -g or nil end, -- reads data
}

--- Registers a hook on a tensor that can have one; gives its handle.
function M.hook(ty, program, x, k)
  if not program.hooks or not ty.is_tensor(x) or not FLOATS[x.dtype] or not x.requires_grad then return nil end
  local fn = hooks[program.kind == "smooth" and 1 or k % (program.kind == "cut" and 5 or 4) + 1]
  local ok, handle = pcall(x.register_hook, x, function(g) return fn(g, k) end)
  return ok and handle or nil -- a part of another tensor has none
end

--- Runs the program's statements over the variables and adds up all floats that are alive, each element by a weight of
--- its own. A tensor of one element, f64.
function M.loss(ty, program, vars)
  for i, s in ipairs(program) do
    gen.execute(ty, vars, s)
    if program.hooks and (program.seed + i) % 5 == 0 then
      local k = (program.seed + i) % program.count + 1
      local handle = M.hook(ty, program, vars[k], k)
      if handle and program.seed % 7 == 0 then handle:remove() end
    end
  end
  local sum = ty.zeros({}, { dtype = "f64" })
  for i = 1, program.count do
    local v = vars[i]
    if ty.is_tensor(v) and SMOOTH[v.dtype] and v:numel() > 0 then
      v = M.reals(v)
      local w = (ty.arange(v:numel(), { dtype = "f64" }) * 0.7 + i):sin() + 0.5
      sum = sum + (v:to("f64") * w:reshape(v.shape)):sum()
    end
  end
  return sum
end

return M
