--- random_learner.lua -- random small models with random ways of training them.
-- In: a seed. Out: a learner: what it is made of, as text; its tensors; a step, to be run eagerly or compiled; what
-- changes between steps. The same seed makes the same learner: eager and compiled twins are made of one.
--
-- Models nest modules in lists, tables and classes, share modules and weights, freeze parts, keep buffers of their own,
-- have all their parameters in one buffer.
-- Steps gather gradients, clip, scale, go through several optimisers, schedules, autocast, checkpoints, custom
-- gradients. Between steps modes, rates, sizes, frozen parts and plain numbers change.

local H = require "spec.helper"
local ty = H.ty
local nn, optim = ty.nn, ty.optim

local M = {}
local WIDTH = 6

--- A generator of choices: pick(list), chance(p), whole(a, b). Its own numbers, not those of tensors.
local function chooser(seed)
  local r = H.random(seed)
  local c = { whole = r.whole }
  function c.chance(p) return r.unit() < p end
  function c.pick(list) return list[r.whole(1, #list)] end
  function c.range(a, b) return r.range(a, b) end
  return c
end

-- --- blocks: [batch, WIDTH] to the same

local Residual = nn.class "Residual"
function Residual:init(body, scale) self.parts, self.scale = { body = body }, scale end
function Residual:forward(x) return x + self.parts.body(x) * self.scale end

local Counting = nn.class "Counting" -- buffers that the forward pass writes
function Counting:init()
  self.seen, self.mean = ty.zeros(1), ty.zeros(WIDTH)
  self.gain = nn.Parameter(ty.ones(WIDTH))
end
function Counting:forward(x)
  if self.training then
    self.seen:add_(1)
    self.mean:mul_(0.9):add_(x:detach():to("f32"):mean(1) * 0.1)
  end
  return x * self.gain - self.mean / (self.seen + 1)
end

local Either = nn.class "Either"
function Either:init(a, b, n) self.list, self.at, self.n = { a, { b } }, 0, n end
function Either:forward(x)
  local part = self.training and self.list[1] or self.list[2][1]
  for _ = 1, self.n do x = part(x):tanh() end
  return x
end

local Gate = nn.class "Gate"
function Gate:init(named) self.w = named end
function Gate:forward(x)
  local a, b = x:narrow(-1, 1, WIDTH / 2), x:narrow(-1, WIDTH / 2 + 1, WIDTH / 2)
  local names = {}
  for name in pairs(self.w) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do a = a * self.w[name]:sigmoid() + b end
  return ty.cat({ a, b }, -1)
end

local Views = nn.class "Views" -- writes into parts of a new tensor
function Views:init() self.bias = nn.Parameter(ty.randn(WIDTH) * 0.1) end
function Views:forward(x)
  local y = x * 1
  y:narrow(-1, 1, 2):add_(self.bias:narrow(1, 1, 2))
  y[{ {}, { 3, 4 } }] = x[{ {}, { 5, 6 } }]:sin() + self.bias[{ { 3, 4 } }]
  return y
end

local Picture = nn.class "Picture"
function Picture:init(pool, places)
  self.conv = nn.Conv2d(1, 3, 3, { padding = 1 })
  self.norm, self.pool, self.out = nn.BatchNorm2d(3), pool, nn.Linear(3 * places, WIDTH)
end
function Picture:forward(x)
  local y = self.norm(self.conv(x:reshape(-1, 1, 2, 3)))
  y = y:relu()
  if self.pool then y = self.pool(y) end
  return self.out(y:flatten(2))
end

local Series = nn.class "Series"
function Series:init(body, heads) self.body, self.heads = body, heads end
function Series:forward(x)
  local s = ty.stack({ x, x:flip(2), x * 0.5 }, 2)
  local y = self.body(s)
  return y:narrow(2, 2, 1):squeeze(2) + y:mean(2)
end

local doubled = ty.custom_grad(function(x) return x * 2, x end, function(x, g) return g * 2 + x * 0.01 end)

local Checkpointed = nn.class "Checkpointed"
function Checkpointed:init(body, given) self.body, self.given = body, given end
function Checkpointed:forward(x)
  if self.given then return ty.checkpoint(function(m, v) return m.body(v) end, self, x) end
  return ty.checkpoint(self.body, x)
end

local blocks = {}
local function linear() return nn.Linear(WIDTH, WIDTH) end

function blocks.linear(c) return nn.Linear(WIDTH, WIDTH, { bias = c.chance(0.8) }) end
function blocks.activation(c)
  return c.pick { nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.Softplus, nn.Mish, nn.LeakyReLU }()
end
function blocks.norm(c)
  return c.pick { function() return nn.LayerNorm(WIDTH) end, function() return nn.RMSNorm(WIDTH) end,
    function() return nn.BatchNorm1d(WIDTH, { momentum = c.range(0.05, 0.5), track = c.chance(0.8) }) end,
    function() return nn.GroupNorm(2, WIDTH) end }()
end
function blocks.dropout(c) return nn.Dropout(c.range(0.1, 0.6)) end
function blocks.softmax() return nn.Softmax() end
function blocks.counting() return Counting() end
function blocks.views() return Views() end
function blocks.gate(c)
  local named = {}
  for i = 1, c.whole(1, 3) do named[("w%d"):format(i)] = nn.Parameter(ty.randn(WIDTH / 2)) end
  return Gate(named)
end
function blocks.picture(c)
  local pool = c.pick { { false, 6 }, { nn.MaxPool2d({ 1, 3 }), 2 }, { nn.AvgPool2d(2, { stride = 1 }), 2 },
    { nn.AvgPool2d({ 1, 2 }, { stride = { 1, 2 }, ceil_mode = true }), 4 },
    { nn.MaxPool2d({ 2, 3 }, { stride = 1, padding = { 1, 1 } }), 9 } }
  return Picture(unpack(pool))
end
function blocks.custom() return function(x) return doubled(x) end end
function blocks.plain(c)
  local k = c.range(0.5, 1.5)
  return function(x) return ty.where(x:gt(0), x * k, x:clamp(-1, 0)) end
end
function blocks.recurrent(c)
  local body = c.pick { nn.GRU, nn.LSTM, nn.RNN }(WIDTH, WIDTH)
  return Series(nn.Sequential(body, function(y) return y end))
end
function blocks.attention(c)
  return Series(nn.TransformerBlock(WIDTH, c.pick { 1, 3 }, { inner = 8, dropout = c.pick { 0, 0.3 }, causal = c.chance(0.5),
    norm = c.pick { "layer", "rms" }, rotary = c.chance(0.3) }))
end

local nested = {}
function nested.residual(c, make) return Residual(make(c), c.range(0.1, 1)) end
function nested.sequence(c, make)
  local list = {}
  for i = 1, c.whole(1, 3) do list[i] = make(c) end
  return nn.Sequential(list)
end
function nested.shared(c, make) -- one part in two places
  local part = make(c)
  return nn.Sequential(part, nn.Tanh(), part)
end
function nested.either(c, make) return Either(make(c), make(c), c.whole(1, 2)) end
function nested.checkpoint(c, make) return Checkpointed(make(c), c.chance(0.5)) end
function nested.tied()
  local a, b = linear(), linear()
  b.weight = a.weight
  return nn.Sequential(a, nn.GELU(), b)
end
function nested.turned() -- tied to its transpose
  local a = linear()
  return nn.Module { first = a, forward = function(self, x)
    return self.first(x):tanh():matmul(self.first.weight:t())
  end }
end

local plain_names, nested_names = H.sorted(blocks), H.sorted(nested)

--- A random block; `text` collects what it is. `depth`: how far it may nest.
local function block(c, text, depth)
  if depth > 0 and c.chance(0.4) then
    local name = c.pick(nested_names)
    text[#text + 1] = name .. "("
    local m = nested[name](c, function(k) return block(k, text, depth - 1) end)
    text[#text + 1] = ")"
    return m
  end
  local name = c.pick(plain_names)
  text[#text + 1] = name
  return blocks[name](c)
end

-- --- models: inputs, outputs, losses

local Net = nn.class "Net"
function Net:init(kind, list, outputs)
  self.kind, self.body = kind, list
  if kind == "tokens" then self.embedding = nn.Embedding(10, WIDTH) end
  self.head = { out = nn.Linear(WIDTH, outputs) }
end
function Net:forward(x)
  if self.embedding then x = self.embedding(x):mean(2) end
  for _, part in ipairs(self.body) do x = part(x) end
  if self.tied then return x:matmul(self.embedding.weight:t()) end
  return self.head.out(x)
end

local losses = {
  labels = { nn.CrossEntropyLoss { label_smoothing = 0.1 }, ty.cross_entropy,
    function(y, t) return ty.nll_loss(y:log_softmax(), t) end,
    function(y, t) return ty.cross_entropy(y, t, { ignore_index = 2, reduction = "sum" }) / 4 end },
  values = { nn.MSELoss(), nn.HuberLoss(), ty.l1_loss, function(y, t) return ((y - t) ^ 2):mean() end,
    function(y, t) return ty.bce_with_logits(y, t:sigmoid()) end, function(y, t) return (y - t):square():sum() / 7 end },
}

local optimizers = {
  { "SGD", { lr = 0.05 } }, { "SGD", { lr = 0.05, momentum = 0.9, nesterov = true } },
  { "SGD", { lr = 0.05, momentum = 0.8, dampening = 0.1, weight_decay = 0.01 } }, { "Adam", { lr = 0.01 } },
  { "AdamW", { lr = 0.01, amsgrad = true } }, { "RMSprop", { lr = 0.01, centered = true, momentum = 0.5 } },
  { "Adagrad", { lr = 0.05 } }, { "Lion", { lr = 0.003, weight_decay = 0.1 } },
}

local function copy(t)
  local y = {}
  for k, v in pairs(t) do y[k] = v end
  return y
end

--- One to three optimisers over the parameters, some of them with groups.
local function make_optimizers(c, text, params)
  local n, list, parts = c.pick { 1, 1, 2, 3 }, {}, {}
  for i = 1, n do parts[i] = {} end
  for i, p in ipairs(params) do table.insert(parts[i <= n and i or c.whole(1, n)], p) end
  for _, part in ipairs(parts) do
    local kind = c.pick(optimizers)
    if #part > 0 then
      text[#text + 1] = " " .. kind[1]
      if #part > 1 and c.chance(0.4) then
        local a, b = {}, {}
        for i, p in ipairs(part) do table.insert(i % 2 == 0 and a or b, p) end
        list[#list + 1] = optim[kind[1]]({ { params = a, lr = 0.02 }, { params = b } }, copy(kind[2]))
      else
        list[#list + 1] = optim[kind[1]](part, copy(kind[2]))
      end
    end
  end
  return list
end

local schedules = {
  function(o) return optim.StepLR(o, { every = 3, gamma = 0.5 }) end,
  function(o) return optim.CosineLR(o, { steps = 10 }) end,
  function(o) return optim.WarmupLR(o, { warmup = 4, start = 0.1 }) end,
  function(o) return optim.OneCycleLR(o, { steps = 12 }) end,
  function(o) return optim.LambdaLR(o, function(n) return 1 / (1 + n) end) end,
}

--- How a learner steps: what is said once, read by the step.
local function way_of(c, text)
  local how = {
    gather = c.pick { 1, 1, 1, 2, 3 }, clip = c.pick { false, false, "norm", "value" },
    half = c.pick { false, false, "bf16", "f16" }, zero = c.pick { "before", "behind", "nil" },
    average = c.chance(0.2), penalty = c.chance(0.2), inside = c.chance(0.5), every = c.pick { 1, 1, 1, 2 },
    scaler = c.pick { false, false, false, "capturable", "plain" },
  }
  how.covers_loss = c.chance(0.6)
  for _, k in ipairs(H.sorted(how)) do
    if how[k] and how[k] ~= 1 then text[#text + 1] = (" %s=%s"):format(k, tostring(how[k])) end
  end
  return how
end

--- Functions of gradients: by what a hook keeps, a number that changes, and the gradient.
local hooks = {
  function(_, L, g) return g * L.hook_scale end,
  function(_, _, g) return g:clamp(-0.05, 0.05) end,
  function(h, _, g) h.calls = (h.calls or 0) + 1 return nil, g end,
  function(h, _, g) h.last = g:detach():abs():max() end,
  function(_, _, g) return g / (g:norm() + 1) end,
  function(h, L, g)
    h.calls = (h.calls or 0) + 1
    if h.calls % 2 == 0 then return g * 0.5 + L.hook_scale end
  end,
  function(_, _, g) return g:sum():item() > 1e9 and g or nil end, -- reads data: the last one
}

--- A hook that is made anew, of kind k, noted among the learner's.
local function hook_of(L, k)
  local h = {}
  L.hooks[#L.hooks + 1] = h
  local fn = hooks[k]
  return function(g) return fn(h, L, g) end
end

--- Registers and removes hooks between steps: of leaves and modules. c: choices.
local function change_hooks(L, c)
  local list, k = L.handles, c.whole(1, #hooks - 1)
  if #list > 0 and c.chance(0.4) then return table.remove(list, c.whole(1, #list)):remove() end
  if c.chance(0.3) then L.hook_scale = L.hook_scale * 1.25 end
  local modules, names = {}, H.sorted { forward = 1, pre = 1, back = 1 }
  for _, m in L.model:named_modules() do modules[#modules + 1] = m end
  local m, what, scale = c.pick(modules), c.pick(names), c.range(0.5, 1.5)
  if not L.flat and c.chance(0.5) then
    local params = {}
    for _, p in ipairs(L.params) do
      if p.requires_grad then params[#params + 1] = p end
    end
    if #params > 0 then list[#list + 1] = c.pick(params):register_hook(hook_of(L, k)) end
  elseif what == "forward" then
    list[#list + 1] = m:register_forward_hook(function(_, _, y)
      if ty.is_tensor(y) and y.dtype ~= "i64" then return y * scale end
    end)
  elseif what == "pre" then
    list[#list + 1] = m:register_forward_pre_hook(function(_, x)
      if ty.is_tensor(x) and x.dtype ~= "i64" then return x * scale end
    end)
  else
    list[#list + 1] = m:register_full_backward_hook(function(_, gi) return gi[1] and #gi == 1 and { gi[1] * scale } or nil end)
  end
end

--- What the backward pass begins with: the loss, penalised and scaled.
local function total(L, how, x, t)
  local function forward()
    local y = L.model(x)
    if L.hooked and y.requires_grad then
      y = y * 1
      local first = y:register_hook(hook_of(L, L.hooked))
      y:register_hook(function(g) return g + 0.001 end)
      if L.removes then first:remove() end
    end
    return how.covers_loss and L.loss(y, t) or y
  end
  local y
  if how.half then y = ty.autocast(how.half, forward) else y = forward() end
  local value = how.covers_loss and y or L.loss(y, t)
  if how.penalty then
    for i, p in ipairs(L.params) do
      if i % 2 == 1 then value = value + p:square():sum() * L.weight end
    end
  end
  return value
end

local function step(L, how, batches)
  local last
  if how.zero == "before" then for _, o in ipairs(L.opts) do o:zero_grad() end end
  for _, b in ipairs(batches) do
    last = total(L, how, b[1], b[2]) / #batches
    local scaled = L.scaler and L.scaler:scale(last) or last
    scaled:backward()
  end
  L.count = L.count + 1
  if L.count % how.every == 0 then
    if L.scaler and how.clip then for _, o in ipairs(L.opts) do L.scaler:unscale_(o) end end
    if how.clip == "norm" then ty.clip_grad_norm_(L.params, 0.5)
    elseif how.clip == "value" then ty.clip_grad_value_(L.params, 0.05) end
    for _, o in ipairs(L.opts) do
      if L.scaler then L.scaler:step(o) else o:step() end
    end
    if how.inside then for _, s in ipairs(L.schedules) do s:step() end end
    if how.average then
      ty.no_grad(function()
        for i, p in ipairs(L.params) do L.averages[i]:lerp_(p, 0.1) end
      end)
    end
    if how.zero == "behind" then L.model:zero_grad()
    elseif how.zero == "nil" then for _, p in ipairs(L.params) do p.grad = nil end end
  end
  return last:detach()
end

--- What changes between two steps. A change is made to both twins alike.
local changes = {
  function(L) L.model:eval() end,
  function(L) L.model:train() end,
  function(L) L.model:train() end,
  function(L) L.batch = 3 end,
  function(L) L.batch = 5 end,
  function(L) L.weight = L.weight * 0.5 end,
  function(L) for _, o in ipairs(L.opts) do o.groups[1].lr = o.groups[1].lr * 0.7 end end,
  function(L) L.params[1]:requires_grad_(false) end,
  function(L) L.params[1]:requires_grad_(true) end,
  function(L) for _, p in ipairs(L.params) do p.grad = nil end end,
  function(L) ty.no_grad(function() L.params[#L.params]:mul_(0.9) end) end,
  function(L) ty.manual_seed(L.count + 50) end,
  function(L) L.model:load_state_dict(L.model:state_dict()) end,
  function(L) for _, o in ipairs(L.opts) do o:load_state_dict(o:state_dict()) end end,
  function(L) L.model.head.out.bias = nil end,
  function(L)
    local body = L.model.body
    body[1], body[#body] = body[#body], body[1]
  end,
  function(L)
    for _, part in ipairs(L.model:modules()) do
      if part.p then part.p = part.p * 0.5 end
      if part.scale then part.scale = part.scale * 0.9 end
    end
  end,
  function(L)
    for _, b in ipairs(L.model:buffers()) do
      if b.dtype == "f32" and not b.requires_grad then b:mul_(0.5) end
    end
  end,
}

--- Puts all parameters of a model side by side into one buffer: they are one leaf, seen through many tensors.
local function flatten(model)
  local of, n, seen = {}, 0, {}
  for _, p in ipairs(model:parameters()) do
    of[p] = { n + 1, p:numel(), p.shape }
    n = n + p:numel()
  end
  local all = ty.zeros(n)
  for p, at in pairs(of) do all:narrow(1, at[1], at[2]):copy_(p:detach():reshape(-1)) end
  for p, at in pairs(of) do
    of[p] = all:narrow(1, at[1], at[2]):reshape(at[3]):requires_grad_()
  end
  local function replace(t)
    if seen[t] then return end
    seen[t] = true
    for k, v in pairs(t) do
      if ty.is_tensor(v) and of[v] then t[k] = of[v]
      elseif type(v) == "table" then replace(v) end
    end
  end
  replace(model)
  return all
end

--- The learner of a seed. learner.step(batches...) steps; learner.change(n) comes before step n; learner.text.
function M.make(seed)
  local c, text = chooser(seed), {}
  ty.manual_seed(seed)
  local kind = c.pick { "numbers", "numbers", "tokens" }
  local goal = c.pick { "labels", "values" }
  local list = {}
  for i = 1, c.whole(1, 3) do list[i] = block(c, text, 2) end
  local L = { count = 0, batch = 4, weight = 0.01, schedules = {}, averages = {} }
  L.model = Net(kind, list, goal == "labels" and 10 or 3)
  L.model.tied = kind == "tokens" and goal == "labels" and c.chance(0.5)
  L.loss = c.pick(losses[goal])
  if c.chance(0.2) and nn.is_module(list[1]) then -- frozen
    list[1]:requires_grad_(false)
    text[#text + 1] = " frozen"
  end
  if chooser(seed + 7919).chance(0.12) then -- by choices of its own: those of the others stay
    L.flat = flatten(L.model)
    text[#text + 1] = " flat"
  end
  local own = chooser(seed + 104729)
  if own.chance(0.4) then
    L.hooks, L.handles, L.hook_scale, L.hooks_change = {}, {}, 0.75, own.pick { 0, 0.3 }
    L.hooked = own.pick { false, own.whole(1, #hooks - 1), own.whole(1, #hooks) }
    L.removes = own.chance(0.2)
    L.reads = L.hooked == #hooks and not L.removes
    text[#text + 1] = (" hooks=%s, %g%s"):format(tostring(L.hooked), L.hooks_change, L.removes and ", removed" or "")
  end
  L.params = L.model:parameters()
  local how = way_of(c, text)
  L.opts = make_optimizers(c, text, L.params)
  for i, o in ipairs(L.opts) do
    if c.chance(0.4) then L.schedules[#L.schedules + 1] = schedules[(i + seed) % #schedules + 1](o) end
  end
  for i, p in ipairs(L.params) do L.averages[i] = p:detach():clone() end
  if how.scaler then
    L.scaler = optim.GradScaler { init_scale = 256, growth_interval = 3, capturable = how.scaler == "capturable" }
  end
  local function data()
    local x = kind == "tokens" and ty.randint(1, 10, { L.batch, 4 }) or ty.randn(L.batch, WIDTH)
    return { x, goal == "labels" and ty.randint(1, 10, { L.batch }) or ty.randn(L.batch, 3) }
  end
  function L.batches()
    local all = {}
    for i = 1, how.gather do all[i] = data() end
    return all
  end
  function L.step(batches) return step(L, how, batches) end
  local often = c.pick { 0, 0.2, 0.5 }
  function L.change(n)
    local k = chooser(seed * 1000 + n)
    if k.chance(often) then k.pick(changes)(L) end
    local h = chooser(seed * 1000 + n + 15485863)
    if L.hooks and h.chance(L.hooks_change) then change_hooks(L, h) end
    if not how.inside then for _, s in ipairs(L.schedules) do s:step() end end
  end
  L.text = ("seed %d: %s to %s, %s"):format(seed, kind, goal, table.concat(text, " "))
  return L
end

--- All that a step may change, by name.
function M.state_of(L)
  local state = { count = L.count, ["flat gradient"] = L.flat and L.flat.grad }
  for i, p in ipairs(L.params) do
    state["parameter " .. i] = p:detach()
    state["gradient " .. i] = p.grad or "none"
    state["average " .. i] = L.averages[i]
  end
  for name, b in L.model:named_buffers() do state[name] = b:detach() end
  for i, h in ipairs(L.hooks or {}) do
    state["calls of hook " .. i], state["last of hook " .. i] = h.calls or 0, h.last or "none"
  end
  for k, o in ipairs(L.opts) do
    for i, g in ipairs(o.groups) do
      state[("rate %d %d"):format(k, i)] = g.lr
      for j, s in ipairs(g.state) do
        for name, v in pairs(s) do state[("state %d %d %d %s"):format(k, i, j, name)] = v end
      end
    end
  end
  if L.scaler then state.factor, state.good = L.scaler.factor, L.scaler.good end
  return state
end

return M
