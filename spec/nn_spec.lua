--- nn_spec.lua -- modules and their functions: values and gradients that PyTorch gave (fixtures/nn.lua, made by
-- fixtures/make_nn.py), the walk over parts, states, initialisers, errors, compiled = eager.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn
local raised = H.raises
local V = require "spec.torch_values"
local tensor, close, state_of, inputs_of, seed_of = V.tensor, V.close, V.state_of, V.inputs_of, V.seed_of
local cases = dofile(H.root .. "spec/fixtures/nn.lua")

local function f64(shape, ...) return ty.randn(shape, { dtype = "f64" }, ...) end

--- What make_nn.py made, by the fixture's name.
local modules = {
  ["Linear"] = function() return nn.Linear(3, 4) end,
  ["Linear without bias"] = function() return nn.Linear(3, 2, { bias = false }) end,
  ["Conv1d"] = function() return nn.Conv1d(4, 6, 3, { stride = 2, padding = 1, dilation = 2, groups = 2 }) end,
  ["Conv2d"] = function()
    return nn.Conv2d(3, 4, { 3, 2 }, { stride = { 2, 1 }, padding = { 1, 0 }, dilation = { 1, 2 } })
  end,
  ["Conv2d same"] = function() return nn.Conv2d(2, 2, { 2, 3 }, { padding = "same", groups = 2, bias = false }) end,
  ["Conv2d depthwise"] = function() return nn.Conv2d(2, 4, 3, { padding = 1, groups = 2 }) end,
  ["Conv2d without a batch"] = function() return nn.Conv2d(2, 3, 1) end,
  ["ConvTranspose1d"] = function()
    return nn.ConvTranspose1d(4, 6, 3, { stride = 2, padding = 1, output_padding = 1, groups = 2 })
  end,
  ["ConvTranspose2d"] = function()
    return nn.ConvTranspose2d(2, 3, { 3, 2 }, { stride = { 2, 3 }, padding = { 2, 0 }, dilation = { 2, 1 } })
  end,
  ["BatchNorm1d train"] = function() return nn.BatchNorm1d(3) end,
  ["BatchNorm1d eval"] = function() return nn.BatchNorm1d(3):eval() end,
  ["BatchNorm2d train"] = function() return nn.BatchNorm2d(2, { momentum = 0.3, eps = 1e-3 }) end,
  ["BatchNorm2d eval"] = function() return nn.BatchNorm2d(2):eval() end,
  ["LayerNorm"] = function() return nn.LayerNorm { 3, 4 } end,
  ["RMSNorm"] = function() return nn.RMSNorm(4) end,
  ["GroupNorm"] = function() return nn.GroupNorm(2, 4) end,
  ["Embedding"] = function() return nn.Embedding(5, 3) end,
  ["RNN relu"] = function() return nn.RNN(2, 3, { nonlinearity = "relu" }) end,
  ["MultiHeadAttention"] = function() return nn.MultiHeadAttention(8, 2) end,
  ["MultiHeadAttention over others"] = function() return nn.MultiHeadAttention(8, 4) end,
  ["TransformerBlock"] = function() return nn.TransformerBlock(8, 2, { inner = 16 }) end,
  ["TransformerBlock causal"] = function()
    return nn.TransformerBlock(8, 2, { inner = 12, activation = "relu", causal = true })
  end,
  ["Sequential"] = function()
    return nn.Sequential(nn.Conv2d(1, 2, 3, { padding = 1 }), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2),
      nn.Flatten(), nn.Linear(8, 3), nn.LogSoftmax()):eval()
  end,
}
for _, kind in ipairs { "RNN", "GRU", "LSTM" } do
  modules[kind] = function() return nn[kind](3, 4, { layers = 2, bidirectional = true }) end
  modules[kind .. " time first"] = function() return nn[kind](3, 4, { bias = false, batch_first = false }) end
end

--- How inputs of the fixture are given where that differs.
local calls = {
  ["MultiHeadAttention"] = function(m, x, mask) return m(x, { mask = mask }) end,
}

local functions = {
  ["max_pool1d"] = function(x) return ty.max_pool1d(x, 3, { stride = 2, padding = 1 }) end,
  ["max_pool2d"] = function(x) return ty.max_pool2d(x, { 2, 3 }, { stride = 2, padding = { 0, 1 } }) end,
  ["max_pool2d dilated"] = function(x) return ty.max_pool2d(x, 2, { stride = 1, dilation = 2 }) end,
  ["max_pool2d ceil"] = function(x) return ty.max_pool2d(x, 2, { padding = 1, ceil_mode = true }) end,
  ["max_pool2d large"] = function(x) return ty.max_pool2d(x, 5, { stride = 2, padding = 1 }) end,
  ["avg_pool1d"] = function(x) return ty.avg_pool1d(x, 3, { stride = 2, padding = 1 }) end,
  ["avg_pool2d"] = function(x) return ty.avg_pool2d(x, 3, { stride = 2, padding = 1 }) end,
  ["avg_pool2d inside"] = function(x)
    return ty.avg_pool2d(x, 3, { stride = 2, padding = 1, count_include_pad = false })
  end,
  ["avg_pool2d ceil"] = function(x) return ty.avg_pool2d(x, { 3, 2 }, { stride = 2, padding = 1, ceil_mode = true }) end,
  ["avg_pool2d large"] = function(x) return ty.avg_pool2d(x, 5) end,
  ["adaptive_avg_pool1d"] = function(x) return ty.adaptive_avg_pool1d(x, 3) end,
  ["adaptive_avg_pool2d"] = function(x) return ty.adaptive_avg_pool2d(x, { 3, 4 }) end,
  ["adaptive_max_pool1d"] = function(x) return ty.adaptive_max_pool1d(x, 3) end,
  ["adaptive_max_pool2d"] = function(x) return ty.adaptive_max_pool2d(x, { 4, 1 }) end,
  ["interpolate nearest"] = function(x) return ty.interpolate(x, { size = { 9, 5 } }) end,
  ["interpolate scale"] = function(x) return ty.interpolate(x, { scale = 2 }) end,
  ["interpolate linear"] = function(x) return ty.interpolate(x, { size = 5, mode = "linear" }) end,
  ["interpolate bilinear"] = function(x) return ty.interpolate(x, { size = { 9, 4 }, mode = "bilinear" }) end,
  ["interpolate corners"] = function(x)
    return ty.interpolate(x, { size = { 3, 10 }, mode = "bilinear", align_corners = true })
  end,
  ["attention"] = ty.scaled_dot_product_attention,
  ["attention causal"] = function(q, k, v) return ty.scaled_dot_product_attention(q, k, v, { causal = true }) end,
  ["attention bool mask"] = function(q, k, v, m) return ty.scaled_dot_product_attention(q, k, v, { mask = m }) end,
  ["attention float mask"] = function(q, k, v, m)
    return ty.scaled_dot_product_attention(q, k, v, { mask = m, scale = 0.3 })
  end,
  ["cross_entropy"] = ty.cross_entropy,
  ["cross_entropy smooth"] = function(x, t) return ty.cross_entropy(x, t, { label_smoothing = 0.2, reduction = "sum" }) end,
  ["cross_entropy ignore"] = function(x, t) return ty.cross_entropy(x, t, { label_smoothing = 0.1, ignore_index = 3 }) end,
  ["cross_entropy chances"] = ty.cross_entropy,
  ["nll_loss"] = function(x, t) return ty.nll_loss(x, t, { reduction = "none" }) end,
  ["mse_loss"] = ty.mse_loss,
  ["l1_loss"] = function(x, t) return ty.l1_loss(x, t, { reduction = "sum" }) end,
  ["huber_loss"] = function(x, t) return ty.huber_loss(x, t, { delta = 0.7 }) end,
  ["smooth_l1_loss"] = function(x, t) return ty.smooth_l1_loss(x, t, { beta = 2, reduction = "none" }) end,
  ["bce_with_logits"] = ty.bce_with_logits,
  ["bce_with_logits weights"] = function(x, t, w, p)
    return ty.bce_with_logits(x, t, { weight = w, pos_weight = p, reduction = "sum" })
  end,
  ["kl_div"] = function(x, t) return ty.kl_div(x, t, { reduction = "batchmean" }) end,
  ["kl_div logarithms"] = function(x, t) return ty.kl_div(x, t, { log_target = true, reduction = "none" }) end,
}

local sorted = H.sorted

describe("modules give what PyTorch's give with its state:", function()
  for _, name in ipairs(sorted(modules)) do
    local row = assert(cases[name], name)

    local function made()
      local m = modules[name]():to("f64")
      m:load_state_dict(state_of(row), { from = "torch" })
      return m, calls[name] or function(mm, ...) return mm(...) end
    end

    it(name, function()
      local m, call = made()
      local got = { call(m, unpack(inputs_of(row))) }
      assert.equal(#row.outputs, #got)
      for i, want in ipairs(row.outputs) do close(want, got[i], "output " .. i) end
      local buffers = {}
      for k, v in m:named_buffers() do buffers[k] = v end
      for k, want in pairs(row.after or {}) do close(want, buffers[k], k) end
    end)

    it(name .. ", gradients", function()
      local m, call = made()
      local inputs = inputs_of(row)
      if row.gradient then inputs[1]:requires_grad_() end
      local y = call(m, unpack(inputs))
      y:backward(seed_of(y))
      if row.gradient then close(row.gradient, inputs[1].grad, "gradient of the input") end
      -- gradients are states too: a second module of this kind takes them from PyTorch's layout
      local expected = modules[name]():to("f64")
      local sd, n = state_of(row), 0
      for k, v in pairs(row.gradients) do sd[k] = tensor(v) end
      expected:load_state_dict(sd, { from = "torch" })
      local want = expected:state_dict()
      for k, p in m:named_parameters() do
        n = n + 1
        local v = { shape = want[k].shape, unpack(want[k]:reshape(-1):totable()) }
        close(v, p.grad, "gradient of " .. k)
      end
      assert.equal(#sorted(row.gradients), n)
    end)
  end
end)

describe("functions give what PyTorch's give:", function()
  for _, name in ipairs(sorted(functions)) do
    local row = assert(cases[name], name)
    it(name, function()
      local inputs = inputs_of(row)
      close(row.outputs[1], functions[name](unpack(inputs)), "output")
      inputs[1]:requires_grad_()
      local y = functions[name](unpack(inputs))
      y:backward(seed_of(y))
      close(row.gradient, inputs[1].grad, "gradient")
    end)
  end

  it("a transposed convolution is the transpose of the convolution: <conv(x), y> = <x, transpose(y)>", function()
    local opts = { stride = 2, padding = 1, dilation = 2, groups = 2 }
    local w = f64 { 6, 2, 3 }
    local x, y = f64 { 2, 4, 11 }, f64 { 2, 6, 5 }
    assert.near((ty.conv1d(x, w, opts) * y):sum():item(), (x * ty.conv_transpose1d(y, w, opts)):sum():item(), 1e-12)
    local w2 = f64 { 6, 2, 3, 2 }
    local x2, y2 = f64 { 2, 4, 11, 7 }, f64 { 2, 6, 5, 4 }
    opts.stride, opts.padding = { 2, 2 }, { 1, 1 }
    assert.near((ty.conv2d(x2, w2, opts) * y2):sum():item(), (x2 * ty.conv_transpose2d(y2, w2, opts)):sum():item(), 1e-12)
  end)

  it("all fixtures are looked at", function()
    for name in pairs(cases) do assert.truthy(modules[name] or functions[name], name) end
  end)
end)

--- One module of each kind and inputs for it.
local zoo = {
  Linear = function() return nn.Linear(3, 4), ty.randn(2, 3) end,
  Conv1d = function() return nn.Conv1d(2, 4, 3, { padding = 1, groups = 2 }), ty.randn(2, 2, 6) end,
  Conv2d = function() return nn.Conv2d(2, 4, 3, { stride = 2, padding = "valid" }), ty.randn(2, 2, 6, 5) end,
  ConvTranspose1d = function() return nn.ConvTranspose1d(2, 4, 3, { stride = 2 }), ty.randn(2, 2, 6) end,
  ConvTranspose2d = function() return nn.ConvTranspose2d(2, 4, 3, { stride = 2 }), ty.randn(2, 2, 4, 5) end,
  BatchNorm1d = function() return nn.BatchNorm1d(3), ty.randn(4, 3) end,
  BatchNorm2d = function() return nn.BatchNorm2d(3), ty.randn(4, 3, 2, 2) end,
  LayerNorm = function() return nn.LayerNorm(3), ty.randn(4, 3) end,
  RMSNorm = function() return nn.RMSNorm(3), ty.randn(4, 3) end,
  GroupNorm = function() return nn.GroupNorm(2, 4), ty.randn(3, 4, 2) end,
  Embedding = function() return nn.Embedding(7, 3), ty.randint(1, 7, { 2, 3 }) end,
  Dropout = function() return nn.Dropout(0.5), ty.randn(50) end,
  RNN = function() return nn.RNN(3, 4, { layers = 2, dropout = 0.3 }), ty.randn(2, 5, 3) end,
  GRU = function() return nn.GRU(3, 4, { bidirectional = true }), ty.randn(2, 5, 3) end,
  LSTM = function() return nn.LSTM(3, 4), ty.randn(2, 5, 3) end,
  MultiHeadAttention = function() return nn.MultiHeadAttention(8, 2, { dropout = 0.2 }), ty.randn(2, 5, 8) end,
  TransformerBlock = function()
    return nn.TransformerBlock(8, 2, { causal = true, rotary = true, norm = "rms", dropout = 0.1 }), ty.randn(2, 5, 8)
  end,
  MaxPool1d = function() return nn.MaxPool1d(2), ty.randn(2, 3, 6) end,
  MaxPool2d = function() return nn.MaxPool2d(3, { stride = 2, padding = 1 }), ty.randn(2, 3, 6, 6) end,
  AvgPool1d = function() return nn.AvgPool1d(2), ty.randn(2, 3, 6) end,
  AvgPool2d = function() return nn.AvgPool2d({ 2, 3 }), ty.randn(2, 3, 6, 6) end,
  AdaptiveAvgPool1d = function() return nn.AdaptiveAvgPool1d(4), ty.randn(2, 3, 6) end,
  AdaptiveAvgPool2d = function() return nn.AdaptiveAvgPool2d { 2, 5 }, ty.randn(2, 3, 6, 6) end,
  AdaptiveMaxPool1d = function() return nn.AdaptiveMaxPool1d(4), ty.randn(2, 3, 6) end,
  AdaptiveMaxPool2d = function() return nn.AdaptiveMaxPool2d(1), ty.randn(2, 3, 6, 6) end,
  Upsample = function() return nn.Upsample { scale = 1.5, mode = "bilinear" }, ty.randn(2, 3, 4, 6) end,
  Flatten = function() return nn.Flatten(), ty.randn(2, 3, 4) end,
  Sequential = function() return nn.Sequential(nn.Linear(3, 4), ty.relu, nn.Dropout(), nn.Linear(4, 2)), ty.randn(5, 3) end,
  CrossEntropyLoss = function()
    return nn.CrossEntropyLoss { label_smoothing = 0.1 }, ty.randn(2, 3), ty.tensor({ 1, 3 }, { dtype = "i64" })
  end,
  NLLLoss = function() return nn.NLLLoss(), ty.randn(2, 3), ty.tensor({ 1, 3 }, { dtype = "i64" }) end,
}
for _, name in ipairs { "ReLU", "LeakyReLU", "ELU", "SiLU", "Mish", "Softplus", "Sigmoid", "Tanh", "Softmax", "LogSoftmax",
  "GELU", "Identity" } do
  zoo[name] = function() return nn[name](), ty.randn(3, 4) end
end
for _, name in ipairs { "BCEWithLogitsLoss", "MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "KLDivLoss" } do
  zoo[name] = function() return nn[name] { reduction = "sum" }, ty.randn(3, 4), ty.rand(3, 4) end
end

describe("a compiled module gives the bits of eager,", function()
  for _, name in ipairs(sorted(zoo)) do
    it(name .. ", training or not", function()
      ty.manual_seed(7)
      local m, x, target = zoo[name]()
      local compiled = ty.compile(m)
      local skips = 0
      for _, training in ipairs { true, false } do
        m:train(training)
        local before = {}
        for k, v in m:named_buffers() do before[k] = v:clone() end
        for _ = 1, 3 do
          for k, v in m:named_buffers() do v:copy_(before[k]) end
          ty.manual_seed(1)
          local want = { m(x, target) }
          local after = {}
          for k, v in m:named_buffers() do after[k] = v:clone() end
          for k, v in m:named_buffers() do v:copy_(before[k]) end
          ty.manual_seed(1)
          local got = { compiled(x, target) }
          assert.equal(#want, #got)
          for i = 1, #want do H.same(want[i], got[i]) end
          for k, v in m:named_buffers() do H.same(after[k], v) end
        end
        for _ = 1, 3 do ty.no_grad(compiled, x, target) end
        local told = ty.explain(compiled)
        assert.truthy(told.skips > skips, tostring(told))
        skips = told.skips
      end
    end)
  end

  it("and serves any batch and any length by one more capture", function()
    local rows = {
      { nn.Sequential(nn.Conv2d(1, 4, 3, { padding = 1 }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64, 10)), function(n) return ty.randn(n, 1, 8, 8) end },
      { nn.ConvTranspose2d(2, 4, 3, { stride = 2 }), function(n) return ty.randn(2, 2, n, 5) end },
      { nn.TransformerBlock(8, 2, { causal = true, rotary = true }), function(n) return ty.randn(2, n, 8) end },
      { nn.LSTM(3, 4), function(n) return ty.randn(n, 5, 3) end },
      { nn.GroupNorm(2, 4), function(n) return ty.randn(2, 4, n) end },
      { nn.AvgPool2d(3, { padding = 1, stride = 2, ceil_mode = true }), function(n) return ty.randn(2, 3, n, 8) end },
      { nn.Upsample { scale = 2, mode = "bilinear" }, function(n) return ty.randn(2, 3, n, 8) end },
    }
    for i, row in ipairs(rows) do
      local m, count = row[1]:eval(), 0
      local compiled = ty.compile(function(...) return m(...) end)
      for _, n in ipairs { 1, 2, 3, 5, 4, 2, 9, 70 } do
        local x = row[2](n)
        H.same(m(x), (ty.no_grad(compiled, x)))
        count = count + 1
      end
      local told = ty.explain(compiled)
      assert.same({ 2, count }, { told.captures, told.skips }, "module " .. i)
    end
  end)

  it("and sees new weights, modes and autocast", function()
    local m, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)):eval(), ty.randn(4, 8)
    local compiled = ty.compile(function(v) return m(v) end)
    H.same(m(x), compiled(x))
    nn.init.zeros_(m[1].weight)
    H.same(m(x), compiled(x))
    m[1].weight = nn.Parameter(ty.randn(8, 8))
    H.same(m(x), compiled(x))
    assert.equal("bf16", ty.autocast("bf16", compiled, x).dtype)
    H.same(ty.autocast("bf16", m, x), ty.autocast("bf16", compiled, x))
    H.same(m(x), compiled(x))
    m:train()
    ty.manual_seed(3)
    local want = m(x)
    ty.manual_seed(3)
    H.same(want, compiled(x))
  end)
end)

describe("a module", function()
  local function names(iterate, m)
    local list = {}
    for name in iterate(m) do list[#list + 1] = name end
    return table.concat(list, " ")
  end

  it("is walked in sorted order, numbers before strings, through plain tables", function()
    local m = nn.Module {
      z = nn.Linear(1, 1), a = { nn.Linear(1, 2, { bias = false }), [3] = nn.BatchNorm1d(2), more = { w = nn.Parameter(ty.ones(1)) } },
      b = ty.zeros(2), [2] = nn.Parameter(ty.ones(3)), n = 5, f = print,
    }
    assert.equal("2 a.1.weight a.3.bias a.3.weight a.more.w z.bias z.weight", names(m.named_parameters, m))
    assert.equal("a.3.running_mean a.3.running_var b", names(m.named_buffers, m))
    assert.equal(" a.1 a.3 z", names(m.named_modules, m))
    assert.equal("a.1 a.3 z", names(m.named_children, m))
    assert.equal(7, #m:parameters())
    assert.equal(3, #m:buffers())
    assert.equal(4, #m:modules())
    assert.equal(3, #m:children())
    assert.equal(3 + 2 + 2 + 2 + 1 + 1 + 1, m:num_parameters())
  end)

  it("meets shared tables and tensors once, whatever goes around in circles", function()
    local shared = nn.Linear(2, 2)
    local m = nn.Module { a = shared, b = shared, c = { shared.weight } }
    m.self = m
    shared.owner = m
    assert.equal("a.bias a.weight", names(m.named_parameters, m))
    assert.equal(2, #m:modules())
    assert.equal(2, #m:parameters())
    m:train(false)
    assert.equal(false, shared.training)
    assert.truthy(tostring(m):find("Linear", 1, true))
  end)

  it("leaves out what _transient lists, and what has a metatable of another kind", function()
    local m = nn.Module { w = nn.Parameter(ty.ones(1)), seen = ty.ones(2), other = setmetatable({ ty.ones(1) }, {}),
      _transient = { seen = true } }
    assert.equal("w", names(m.named_parameters, m))
    assert.equal("", names(m.named_buffers, m))
    assert.same({ "w" }, sorted(m:state_dict()))
  end)

  it("has a class with init, forward, and a parent", function()
    local Net = nn.class "Net"
    function Net:init(n) self.fc = nn.Linear(n, 2) end
    function Net:forward(x) return self.fc(x):relu() end
    local Wide = nn.class("Wide", Net)
    function Wide:init(n)
      Net.init(self, n)
      self.other = nn.Linear(2, 5)
    end
    function Wide:forward(x) return self.other(Net.forward(self, x)) end
    local m = Wide(3)
    assert.same({ 4, 5 }, m(ty.randn(4, 3)).shape)
    assert.equal("Wide(\n  (fc): Linear(3, 2)\n  (other): Linear(2, 5)\n)", tostring(m))
    assert.truthy(raised(nn.class("Empty")(), 1):find("^Empty: has no forward"))
    assert.truthy(nn.is_module(m))
    assert.falsy(nn.is_module({}))
  end)

  it("that does not train gives the same whatever the random numbers; a norm without running means goes by the batch", function()
    for _, name in ipairs(sorted(zoo)) do
      ty.manual_seed(1)
      local m, x, target = zoo[name]()
      m:eval()
      local y = m(x, target)
      ty.manual_seed(2)
      H.same(y, (m(x, target)), name)
    end
    local m, x = nn.BatchNorm1d(3, { track = false }), ty.randn(5, 3)
    H.same(m(x), m:eval()(x))
    assert.same({}, m:buffers())
  end)

  it("switches all parts between training and not, and applies functions to inner ones first", function()
    local m = nn.Sequential(nn.Dropout(0.9), nn.Sequential(nn.Dropout(0.9)))
    local x = ty.ones(100)
    assert.equal(m, m:eval())
    H.same(x, m(x))
    m:train()
    assert.falsy(ty.equal(x, m(x)))
    local order = {}
    m:apply(function(part) order[#order + 1] = part.class_name end)
    assert.same({ "Dropout", "Sequential", "Dropout", "Sequential" }, order)
  end)

  it("goes to another dtype with shared tensors shared, integers as they are", function()
    local w = nn.Parameter(ty.randn(2, 2))
    local m = nn.Module { a = { w = w }, b = { w = w }, n = ty.arange(3, { dtype = "i64" }), norm = nn.BatchNorm1d(2) }
    m:to("f64")
    assert.equal("f64", m.a.w.dtype)
    assert.truthy(m.a.w == m.b.w)
    assert.truthy(m.a.w.requires_grad)
    assert.falsy(m.norm.running_mean.requires_grad)
    assert.equal("f64", m.norm.running_mean.dtype)
    assert.equal("i64", m.n.dtype)
    assert.truthy(raised(m.to, m, "i32"):find("^to: "))
  end)

  it("forgets gradients, and freezes", function()
    local m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    for _, p in ipairs(m:parameters()) do p.grad = ty.ones_like(p) end
    m:zero_grad()
    for _, p in ipairs(m:parameters()) do assert.is_nil(p.grad) end
    m:requires_grad_(false)
    assert.equal(0, #m:parameters())
    m:requires_grad_()
    assert.equal("1.bias 1.weight 2.bias 2.weight", names(m.named_parameters, m))
  end)
end)

describe("the counts of PyTorch's batch norms", function()
  it("are passed over where the state is PyTorch's, and unexpected elsewhere", function()
    local m = nn.BatchNorm1d(2)
    local sd = m:state_dict()
    sd.num_batches_tracked = ty.tensor(3, { dtype = "i64" })
    m:load_state_dict(sd, { from = "torch" })
    assert.truthy(raised(m.load_state_dict, m, sd):find("unexpected: num_batches_tracked", 1, true))
  end)
end)

describe("a module that is added to", function()
  it("runs and shows what was appended", function()
    local x, a, b = ty.randn(4, 3), nn.Linear(3, 5), nn.Linear(5, 2)
    local m = nn.Sequential(a)
    assert.equal(m, m:append(ty.relu))
    assert.equal(m, m:append(b))
    H.same(b(ty.relu(a(x))), m(x))
    assert.truthy(raised(m.append, m, 5):find "^Sequential: part 1 must be a module or a function, got number 5")
    local list = nn.ModuleList { a }
    assert.equal(list, list:append(b))
    assert.same({ 2, b, 4 }, { #list, list[2], #list:parameters() })
  end)

  it("of a block computes its activation", function()
    local x = ty.randn(2, 5, 8)
    for _, name in ipairs { "gelu", "relu", "silu" } do
      local m = nn.TransformerBlock(8, 2, { activation = name, norm = "rms" })
      local y = x + m.self_attn(m.norm1(x))
      H.same(y + m.linear2(ty[name](m.linear1(m.norm2(y)))), m(x), name)
    end
  end)
end)

describe("names of parts", function()
  it("are not given twice", function()
    local m = nn.Module { a = { b = nn.Parameter(ty.zeros(1)) }, ["a.b"] = nn.Parameter(ty.ones(1)) }
    assert.truthy(raised(m.state_dict, m):find("state_dict: two parts are named a.b", 1, true))
    assert.truthy(raised(m.load_state_dict, m, { ["a.b"] = ty.ones(1) }):find("two parts are named a.b", 1, true))
  end)

  it("of classes come from classes", function()
    assert.truthy(raised(nn.class, "X", 3):find("class: argument 2 must be a class, got number 3"))
    assert.truthy(raised(nn.class, "X", {}):find("class: argument 2 must be a class, got table"))
    assert.equal("Y", nn.class("Y", nn.Linear)(1, 1).class_name)
  end)
end)

describe("a compiled module", function()
  local function net() return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)) end

  it("has the module's parts", function()
    local m = net()
    local c = ty.compile(m)
    assert.equal(6, #c:parameters())
    assert.equal(2, #c:buffers())
    assert.equal(4, #c:modules())
    assert.equal(3, #c:children())
    assert.equal(tostring(m), tostring(c))
    assert.truthy(nn.is_module(c))
    c:eval()
    assert.equal(false, m[2].training)
    m:parameters()[1].grad = ty.ones_like(m:parameters()[1])
    c:zero_grad()
    assert.equal(nil, m:parameters()[1].grad)
    local other = net()
    other:load_state_dict(c:state_dict())
    assert.truthy(other[1].weight:equal(m[1].weight))
    c:load_state_dict(net():state_dict())
    assert.equal(m, c:to("f64") and m)
    assert.equal("f64", m[1].weight.dtype)
  end)

  it("that was a plain table has its parts where it is a part, as the table has", function()
    local n = nn.Sequential()
    local part = { w = nn.Parameter(ty.ones(3)), forward = function(self, x) return x * self.w end }
    n.part = ty.compile(part)
    assert.equal(1, #n:parameters())
    assert(rawequal(part.w, n:parameters()[1]))
    assert.truthy(n:state_dict()["part.w"])
  end)

  it("is a part of another under the names of its own", function()
    local inner = net()
    local outer = nn.Sequential(ty.compile(inner), nn.Linear(1, 1))
    local plain = nn.Sequential(inner, outer[2])
    local want, got = {}, {}
    for name in plain:named_parameters() do want[#want + 1] = name end
    for name in outer:named_parameters() do got[#got + 1] = name end
    assert.same(want, got)
    outer:eval()
    assert.equal(false, inner.training)
    local x = ty.randn(4, 2)
    assert.truthy(outer(x):equal(plain(x)))
  end)

  it("has gradients where it is an argument, in the structure of the module", function()
    local m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    local x = ty.randn(4, 2)
    local want = ty.grad(function(n, v) return n(v):sum() end)(m, x)
    local outer = nn.Sequential(ty.compile(m[1]), m[2])
    for _, n in ipairs { ty.compile(m), outer } do
      local f = ty.grad(function(k, v) return k(v):sum() end)
      for _, g in ipairs { f(n, x), ty.compile(f)(n, x) } do
        H.same(want[1].weight, g[1].weight)
        H.same(want[2].bias, g[2].bias)
      end
    end
  end)

  it("is what m.parameters() is not: a module", function()
    assert.truthy(raised(function() net().parameters() end):find("parameters: argument 1 must be a module, got nil"))
    assert.truthy(raised(function() net().eval() end):find("train: argument 1 must be a module, got nil"))
  end)
end)

describe("a state", function()
  it("goes around: all names, also of what is shared", function()
    local function made()
      local w = nn.Embedding(4, 3)
      return nn.Module { emb = w, head = nn.Module { weight = w.weight }, body = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)) }
    end
    local a, b = made(), made()
    a.body[2].running_mean:fill_(3)
    local sd = a:state_dict()
    assert.same({ "body.1.bias", "body.1.weight", "body.2.bias", "body.2.running_mean", "body.2.running_var",
      "body.2.weight", "emb.weight", "head.weight" }, sorted(sd))
    local missing, unexpected = b:load_state_dict(sd)
    assert.same({ {}, {} }, { missing, unexpected })
    for name, t in pairs(b:state_dict()) do H.same(sd[name], t) end
    assert.falsy(b.emb.weight == a.emb.weight)
    nn.init.zeros_(a.emb.weight)
    assert.falsy(ty.equal(a.emb.weight, b.emb.weight))
  end)

  it("is cast, and is taken whole or not at all", function()
    local m = nn.Linear(2, 3)
    local before = m.weight:clone()
    assert.equal("load_state_dict: bias is f32[2], the module has f32[3]",
      raised(m.load_state_dict, m, { weight = ty.ones(2, 3), bias = ty.ones(2) }))
    assert.equal("load_state_dict: missing: bias; unexpected: more",
      raised(m.load_state_dict, m, { weight = ty.ones(2, 3), more = ty.ones(2) }))
    H.same(before, m.weight)
    local missing, unexpected = m:load_state_dict({ weight = ty.ones({ 2, 3 }, { dtype = "f64" }), more = 1 }, { strict = false })
    assert.same({ { "bias" }, { "more" } }, { missing, unexpected })
    H.same(ty.ones(2, 3), m.weight)
    assert.truthy(raised(m.load_state_dict, m, 5):find("^load_state_dict: argument 1"))
    assert.truthy(raised(m.load_state_dict, m, {}, { from = "keras" }):find("must be \"torch\"", 1, true))
    assert.truthy(raised(m.load_state_dict, m, { weight = 1, bias = 2 }):find("must be a tensor"))
  end)

  it("of PyTorch counts lists from 0 and has its layouts; its counters of batches are left", function()
    local m = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 2, { layers = 2 }), nn.BatchNorm1d(2))
    local sd = {
      ["0.weight"] = ty.arange(6):reshape(3, 2), ["0.bias"] = ty.zeros(3),
      ["2.weight"] = ty.ones(2), ["2.bias"] = ty.ones(2), ["2.running_mean"] = ty.ones(2), ["2.running_var"] = ty.ones(2),
      ["2.num_batches_tracked"] = ty.tensor(4, { dtype = "i64" }),
    }
    for layer = 0, 1 do
      sd["1.weight_ih_l" .. layer], sd["1.weight_hh_l" .. layer] = ty.ones(8, layer == 0 and 3 or 2), ty.ones(8, 2)
      sd["1.bias_ih_l" .. layer], sd["1.bias_hh_l" .. layer] = ty.zeros(8), ty.full({ 8 }, layer)
    end
    m:load_state_dict(sd, { from = "torch" })
    assert.same({ { 0, 2, 4 }, { 1, 3, 5 } }, m[1].weight:totable())
    assert.equal(1, m[2].bias_hh_l2:get(1))
    assert.truthy(raised(m.load_state_dict, m, sd):find("missing: 1.bias, 1.weight", 1, true))
  end)
end)

describe("initialisers", function()
  local function within(t, bound)
    local most = t:abs():max():item()
    assert.truthy(most <= bound, ("%g of %g"):format(most, bound))
    assert.truthy(most > bound * 0.97, ("%g of %g"):format(most, bound))
    assert.truthy(math.abs(t:mean():item()) < bound * 0.05)
  end

  before_each(function() ty.manual_seed(11) end)

  it("have PyTorch's bounds; of a linear weight the inputs are dim 1", function()
    local w = ty.empty(50, 80)
    within(nn.init.xavier_uniform_(w), math.sqrt(6 / 130))
    within(nn.init.xavier_uniform_(w, 2), 2 * math.sqrt(6 / 130))
    within(nn.init.kaiming_uniform_(w), math.sqrt(2) * math.sqrt(3 / 50))
    within(nn.init.kaiming_uniform_(w, { mode = "fan_out", nonlinearity = "tanh" }), 5 / 3 * math.sqrt(3 / 80))
    within(nn.init.kaiming_uniform_(ty.empty(20, 10, 3, 3), { a = math.sqrt(5) }), 1 / math.sqrt(90))
    within(nn.init.uniform_(w, -3, 3), 3)
    assert.near(math.sqrt(2 / 130), nn.init.xavier_normal_(w):std():item(), 0.005)
    assert.near(math.sqrt(2 / 50), nn.init.kaiming_normal_(w, { nonlinearity = "relu" }):std():item(), 0.006)
    assert.near(0.5, nn.init.normal_(w, 3, 0.5):std():item(), 0.02)
    assert.near(3, w:mean():item(), 0.04)
  end)

  it("truncate, fill, and give orthogonal rows", function()
    local w = nn.init.trunc_normal_(ty.empty(100, 100), 1, 0.5, 0, 1.5)
    assert.truthy(w:min():item() >= 0 and w:max():item() <= 1.5)
    assert.near(0.87, w:mean():item(), 0.02) -- 1 - 0.5 (phi(1) - phi(-2)) / (Phi(1) - Phi(-2)) = 0.8852 - ...
    assert.same({ { 1, 0, 0 }, { 0, 1, 0 } }, nn.init.eye_(ty.empty(2, 3)):totable())
    assert.same({ 2, 2 }, nn.init.constant_(ty.empty(2), 2):totable())
    assert.same({ 1, 1 }, nn.init.ones_(ty.empty(2)):totable())
    assert.same({ 0, 0 }, nn.init.zeros_(ty.empty(2)):totable())
    for _, shape in ipairs { { 3, 5 }, { 5, 3 }, { 4, 2, 2 } } do
      local q = nn.init.orthogonal_(ty.empty(shape, { dtype = "f64" }), 2):reshape(shape[1], -1)
      if q:size(1) > q:size(2) then q = q:t() end
      assert.truthy(ty.allclose(q:matmul(q:t()), ty.eye(q:size(1), { dtype = "f64" }) * 4, { atol = 1e-12 }))
    end
    local up = 0 -- each sign is as likely
    for _ = 1, 40 do
      if nn.init.orthogonal_(ty.empty(3, 3)):get(1, 1) > 0 then up = up + 1 end
    end
    assert.truthy(up > 8 and up < 32, up)
    assert.near(math.sqrt(2), nn.init.calculate_gain "relu", 1e-12)
    assert.near(math.sqrt(2 / 1.04), nn.init.calculate_gain("leaky_relu", 0.2), 1e-12)
    assert.truthy(raised(nn.init.calculate_gain, "gelu"):find("^calculate_gain: "))
    assert.truthy(raised(nn.init.xavier_uniform_, ty.zeros(3)):find("^xavier_uniform_: "))
  end)

  it("are what layers begin with", function()
    within(nn.Linear(100, 90).weight, 0.1)
    within(nn.Linear(100, 2000).bias, 0.1)
    within(nn.Conv2d(25, 30, 2).weight, 0.1)
    within(nn.ConvTranspose2d(30, 25, 2).weight, 0.1)
    within(nn.LSTM(30, 100).weight_ih_l1, 0.1)
    within(nn.MultiHeadAttention(48, 2).in_proj_weight, math.sqrt(6 / (4 * 48)))
    assert.near(1, nn.Embedding(100, 100).weight:std():item(), 0.03)
  end)
end)

describe("attention", function()
  local function plain(q, k, v, mask, scale)
    local s = q:matmul(k:transpose(-1, -2)) * (scale or 1 / math.sqrt(q:size(-1)))
    if mask then s = s:masked_fill(mask:logical_not(), -math.huge) end
    return s:softmax():matmul(v)
  end

  local function causal(n, m) return ty.tri(n, m, m - n, { dtype = "bool" }) end

  local function near(want, got, eps)
    assert.same(want.shape, got.shape)
    assert.truthy((want - got):abs():max():item() < eps)
  end

  it("in blocks gives what the whole matrix gives", function()
    ty.manual_seed(5)
    for _, sizes in ipairs { { 2100, 2100 }, { 1100, 4000 }, { 5000, 900 } } do
      local n, m = sizes[1], sizes[2]
      local q, k, v = f64 { n, 4 }, f64 { m, 4 }, f64 { m, 3 }
      near(plain(q, k, v), ty.scaled_dot_product_attention(q, k, v), 1e-12)
      if n <= m then
        near(plain(q, k, v, causal(n, m)), ty.scaled_dot_product_attention(q, k, v, { causal = true }), 1e-12)
      end
      local mask = ty.rand(n, m):gt(0.5)
      near(plain(q, k, v, mask), ty.scaled_dot_product_attention(q, k, v, { mask = mask }), 1e-12)
    end
  end)

  it("under causal lets the last query see all keys", function()
    local q, k, v = f64 { 2, 4 }, f64 { 5, 4 }, f64 { 5, 3 }
    near(plain(q, k, v, causal(2, 5)), ty.scaled_dot_product_attention(q, k, v, { causal = true }), 1e-14)
  end)

  it("gives zeros to a query without keys", function()
    local q = ty.randn(2, 4)
    local mask = ty.tensor { { false, false }, { true, false } }
    local y = ty.scaled_dot_product_attention(q, q, q, { mask = mask })
    assert.same({ 0, 0, 0, 0 }, y[1]:totable())
    H.same(q[1], y[2])
  end)

  it("broadcasts heads, and computes half floats in f32 between the products", function()
    local q, k = f64 { 3, 4, 5, 2 }, f64 { 3, 1, 6, 2 }
    near(plain(q, k, k), ty.scaled_dot_product_attention(q, k, k), 1e-14)
    local h = ty.randn(4, 8):to("bf16")
    local y = ty.scaled_dot_product_attention(h, h, h)
    assert.equal("bf16", y.dtype)
    near(plain(h:to("f32"), h:to("f32"), h:to("f32")), y:to("f32"), 0.05)
  end)

  it("drops weights by chance when training", function()
    ty.manual_seed(2)
    local q, v = ty.zeros(400, 2), ty.ones(400, 1)
    local y = ty.scaled_dot_product_attention(q, q, v, { dropout = 0.25 })
    assert.near(1, y:mean():item(), 0.01)
    assert.truthy(y:std():item() > 0.01)
    near(v, ty.scaled_dot_product_attention(q, q, v, { dropout = 0.25, training = false }), 1e-6)
  end)

  it("of many positions never holds all scores", function()
    local out, status = H.script [[
      local ty = require "tycho"
      local n = 8192
      local q = ty.randn(n, 8)
      ty.scaled_dot_product_attention(q, q, q)
      print(ty.stats().memory.peak / (n * n * 4))
    ]]
    assert.equal(0, status, out)
    assert.truthy(tonumber(out) < 0.1, out)
  end)

  it("in blocks has the gradients of the whole matrix", function()
    local function attend(a, b, c) return ty.scaled_dot_product_attention(a, b, c, { causal = true }) end
    local q, k, v = f64 { 2100, 2 }, f64 { 2100, 2 }, f64 { 2100, 3 }
    H.same(attend(q, k, v), ty.checkpoint(attend, q, k, v))
    local function gradients(fn)
      local list = {}
      for i, x in ipairs { q, k, v } do list[i] = x:clone():requires_grad_() end
      local y = fn(unpack(list))
      y:backward(seed_of(y))
      return list
    end
    local want = gradients(function(a, b, c) return plain(a, b, c, causal(2100, 2100)) end)
    for i, x in ipairs(gradients(attend)) do near(want[i].grad, x.grad, 1e-10) end
  end)

  it("with a cache gives what it gives at once", function()
    for _, rotary in ipairs { false, true } do
      local m = nn.TransformerBlock(8, 2, { rotary = rotary }):to("f64"):eval()
      local x = f64 { 2, 7, 8 }
      local whole, cache, parts = m(x, { causal = true }), m:cache(2, 7), {}
      for _, range in ipairs { { 1, 3 }, { 4, 1 }, { 5, 3 } } do
        parts[#parts + 1] = m(x:narrow(2, range[1], range[2]), { cache = cache })
      end
      near(whole, ty.cat(parts, 2), 1e-13)
      assert.equal(7, cache.length)
      assert.truthy(raised(m, x, { cache = cache }):find("the cache has room for 7 positions"))
      local one = x:narrow(2, 1, 1)
      while cache.length < 7 do m(one, { cache = cache }) end
      assert.truthy(raised(m, one, { cache = cache }):find("room for 7 positions, 7 and 1 more do not fit", 1, true))
      assert.truthy(raised(m, one, { cache = m:cache(3, 7) }):find(
        "the cache is for 3 sequences of 2 heads of 4 features, not 2 of 2 of 4", 1, true))
      assert.truthy(raised(m, one, { cache = {} }):find("option cache must be what cache(batch, positions) gives", 1, true))
    end
  end)

  it("turns pairs of features by their positions", function()
    local a = nn.MultiHeadAttention(4, 1, { rotary = 100 })
    local b, long = nn.MultiHeadAttention(4, 1, { rotary = true }), ty.randn(1, 9, 4)
    b:load_state_dict(a:state_dict())
    assert.falsy(a(long):equal(b(long)))
    a.rotary = 10000
    assert.truthy(a(long):equal(b(long)))
    local y = nn.rotary(ty.tensor({ { 1, 2, 3, 4 }, { 1, 2, 3, 4 } }, { dtype = "f64" }), 5, 100):totable()
    for t = 1, 2 do
      for i = 1, 2 do
        local angle = (t + 4) * 100 ^ (-2 * (i - 1) / 4)
        assert.near(i * math.cos(angle) - (i + 2) * math.sin(angle), y[t][i], 1e-6)
        assert.near((i + 2) * math.cos(angle) + i * math.sin(angle), y[t][i + 2], 1e-6)
      end
    end
  end)
end)

describe("ty.nn and ty.optim", function()
  it("are loaded when they are asked for, or by require", function()
    local out = H.script [[
      local ty = require "tycho"
      print(package.loaded["tycho.nn"] == nil, package.loaded["tycho.optim"] == nil, ty.nothing)
      print(ty.nn == require "tycho.nn", ty.optim == require "tycho.optim", rawget(ty, "nn") == ty.nn)
    ]]
    assert.equal("true\ttrue\tnil\ntrue\ttrue\ttrue\n", out)
    out = H.script [[
      local nn = require "tycho.nn"
      print(nn.Linear(2, 3), require("tycho").autocast ~= nil)
    ]]
    assert.equal("Linear(2, 3)\ttrue\n", out)
  end)
end)

describe("autocast", function()
  it("computes layers' products in that dtype", function()
    local m = nn.Linear(4, 4)
    local x = ty.randn(2, 4)
    local y = ty.autocast("bf16", m, x)
    H.same(x:to("bf16"):matmul(m.weight:to("bf16")) + m.bias:to("bf16"), y)
    local conv = nn.Conv1d(1, 2, 3)
    local a, b = ty.autocast("f16", function(v)
      local inner = ty.autocast(false, m, x)
      return conv(v).dtype, inner.dtype
    end, ty.randn(1, 1, 5))
    assert.same({ "f16", "f32" }, { a, b })
    assert.equal("f32", m(x).dtype)
    assert.equal("f32", m.weight.dtype)
  end)

  it("has losses, softmax and norms in f32, as functions and as modules, compiled too", function()
    local m, loss = nn.Linear(4, 4), nn.CrossEntropyLoss()
    local x, y = ty.randn(3, 4), ty.tensor({ 1, 3, 4 }, { dtype = "i64" })
    local function both() return loss(m(x), y), ty.cross_entropy(m(x), y) end
    local a, b = ty.autocast("bf16", both)
    assert.same({ "f32", "f32" }, { a.dtype, b.dtype })
    H.same(ty.cross_entropy(ty.autocast("bf16", m, x):to("f32"), y), a)
    H.same(a, b)
    local compiled = ty.compile(function() return both() end)
    assert.equal("f32", compiled().dtype)
    H.same(a:detach(), (ty.autocast("bf16", compiled)):detach())
    assert.equal("bf16", loss(m(x):to("bf16"), y).dtype)
  end)

  it("gives what is added up in f32, and the rest as it comes", function()
    local group, batch, layer = nn.GroupNorm(2, 4), nn.BatchNorm1d(4), nn.LayerNorm(4)
    local targets, shares = ty.tensor({ 1, 3, 4 }, { dtype = "i64" }), ty.rand(3, 4)
    local whole = {
      softmax = function(x) return x:softmax() end, log_softmax = function(x) return x:log_softmax(1) end,
      layer_norm = function(x) return ty.layer_norm(x) end, rms_norm = function(x) return ty.rms_norm(x) end,
      LayerNorm = function(x) return layer(x) end, GroupNorm = function(x) return group(x) end,
      mean = function(x) return x:mean(1) end, var = function(x) return x:var() end, std = function(x) return x:std() end,
      norm = function(x) return x:norm() end, logsumexp = function(x) return x:logsumexp(2) end,
      sum = function(x) return x:sum(2, true) end, prod = function(x) return ty.prod(x) end,
      cumsum = function(x) return x:cumsum(1) end, cumprod = function(x) return x:cumprod(2) end,
      logcumsumexp = function(x) return x:logcumsumexp(2) end,
      cross_entropy = function(x) return ty.cross_entropy(x, targets) end,
      ["cross_entropy of shares"] = function(x) return ty.cross_entropy(x, shares:to(x.dtype), { label_smoothing = 0.1 }) end,
      nll_loss = function(x) return ty.nll_loss(x, targets) end, mse_loss = function(x) return ty.mse_loss(x, 1) end,
      l1_loss = function(x) return ty.l1_loss(x, shares:to(x.dtype)) end,
      huber_loss = function(x) return ty.huber_loss(x, 0.5, { reduction = "none" }) end,
      smooth_l1_loss = function(x) return ty.smooth_l1_loss(x, 0.5) end,
      bce_with_logits = function(x) return ty.bce_with_logits(x, shares:to(x.dtype)) end,
      kl_div = function(x) return ty.kl_div(x, shares:to(x.dtype), { reduction = "batchmean" }) end,
    }
    local same = {
      BatchNorm = function(x) return batch(x) end, relu = function(x) return x:relu() end,
      gelu = function(x) return ty.gelu(x) end, max = function(x) return x:max(1) end,
      cummax = function(x) return x:cummax(2) end,
      matmul = function(x) return x:matmul(x:t()) end, exp = function(x) return x:exp() end,
    }
    for _, half in ipairs { "f16", "bf16" } do
      local x = ty.randn(3, 4):to(half)
      for name, fn in pairs(whole) do
        local shut = ty.compile(fn)
        H.same(fn(x), shut(x))
        assert.equal(half, shut(x).dtype, name)
        local y = ty.autocast(half, fn, x)
        assert.equal("f32", y.dtype, name)
        H.same(y, ty.autocast(half, shut, x))
        H.same(y, ty.compile(function(v) return ty.autocast(half, fn, v) end)(x))
        if not name:find "shares" and name ~= "l1_loss" and name ~= "kl_div" and name ~= "bce_with_logits" then
          H.same(fn(x:to "f32"), y) -- no more is rounded than on the way in
        end
        H.same(fn(x), y:to(half)) -- without, that is rounded once
        assert.equal(half, shut(x).dtype, name)
        assert.equal("f64", ty.autocast(half, fn, x:to "f64").dtype, name)
      end
      for name, fn in pairs(same) do assert.equal(half, ty.autocast(half, fn, x).dtype, name) end
    end
  end)

  it("ends with errors", function()
    local m = nn.Linear(4, 4)
    assert.falsy((pcall(ty.autocast, "bf16", function() error("x", 0) end)))
    assert.equal("f32", m(ty.randn(4)).dtype)
    assert.truthy(raised(ty.autocast, "i32", m):find("^autocast: "))
    assert.truthy(raised(ty.autocast, "f16", 5):find("^autocast: "))
  end)
end)

describe("a loss as a module", function()
  local x, y, labels = ty.randn(4, 3), ty.rand(4, 3), ty.tensor({ 1, 3, 2, 3 }, { dtype = "i64" })
  local rows = {
    { "CrossEntropyLoss", ty.cross_entropy, labels, { label_smoothing = 0.2, ignore_index = 3, reduction = "sum" } },
    { "CrossEntropyLoss", ty.cross_entropy, ty.tensor({ 1, 3, 2 }, { dtype = "i64" }), { dim = 1, reduction = "none" } },
    { "NLLLoss", ty.nll_loss, labels, { ignore_index = 2, reduction = "sum" } },
    { "BCEWithLogitsLoss", ty.bce_with_logits, y, { weight = ty.rand(3), pos_weight = ty.rand(3), reduction = "sum" } },
    { "MSELoss", ty.mse_loss, y, { reduction = "none" } }, { "L1Loss", ty.l1_loss, y, { reduction = "sum" } },
    { "HuberLoss", ty.huber_loss, y, { delta = 0.3, reduction = "sum" } },
    { "SmoothL1Loss", ty.smooth_l1_loss, y, { beta = 0.3, reduction = "sum" } },
    { "KLDivLoss", ty.kl_div, y, { log_target = true, reduction = "sum" } },
  }
  for _, row in ipairs(rows) do
    it("is the function with its options: " .. row[1], function()
      local want = row[2](x, row[3], row[4])
      H.same(want, nn[row[1]](row[4])(x, row[3]))
      local fits, plain = pcall(row[2], x, row[3])
      assert.falsy(fits and want:equal(plain))
    end)
  end
end)

describe("dropout inside of a module", function()
  --- How many different outputs it gives in training; in eval() one.
  local function outputs(m, x)
    local seen, n = {}, 0
    for _ = 1, 8 do
      local y = m(x)
      local key = ("%.9g"):format((y * y):sum():item())
      if not seen[key] then seen[key], n = true, n + 1 end
    end
    return n
  end

  local x = ty.randn(2, 5, 4)
  local rows = {
    ["LSTM, between layers"] = { function() return nn.LSTM(4, 4, { layers = 2, dropout = 0.5 }) end, 8 },
    ["GRU of one layer, which has nothing between"] = { function() return nn.GRU(4, 4, { dropout = 0.5 }) end, 1 },
    ["MultiHeadAttention"] = { function() return nn.MultiHeadAttention(4, 2, { dropout = 0.5 }) end, 8 },
    ["TransformerBlock"] = { function() return nn.TransformerBlock(4, 2, { dropout = 0.5 }) end, 8 },
    ["TransformerBlock, whose attention drops nothing"] = { function()
      local m = nn.TransformerBlock(4, 2, { dropout = 0.5 })
      m.self_attn.dropout = 0
      return m
    end, 8 },
  }
  for name, row in pairs(rows) do
    it("is drawn when training alone: " .. name, function()
      local m = row[1]()
      assert.equal(row[2], outputs(m, x))
      assert.equal(1, outputs(m:eval(), x))
    end)
  end

  it("of a block drops what attention gives, what is inside and what comes last", function()
    assert.truthy(nn.TransformerBlock(4, 2, { dropout = 1 })(x):equal(x)) -- all that is added is dropped
    local m, drawn = nn.TransformerBlock(4, 2, { dropout = 0.5 }), 0
    local dropout = ty.dropout
    ty.dropout = function(...)
      drawn = drawn + 1
      return dropout(...)
    end
    local ok = pcall(m, x)
    ty.dropout = dropout
    assert.truthy(ok)
    assert.equal(3, drawn)
  end)
end)

describe("misuse that looks like use", function()
  it("is told", function()
    local m = nn.MultiHeadAttention(4, 2)
    assert.truthy(raised(m, ty.ones(1, 3, 4), 3):find("the options must be a table, got number 3"))
    assert.truthy(raised(nn.TransformerBlock):find("TransformerBlock: argument 1 %(width%) must be whole"))
    assert.truthy(raised(nn.Embedding, 3, 2, { max_norm = 1 }):find("unknown option max_norm"))
    assert.truthy(raised(nn.Embedding, 3, 2, { padding_idx = 4 }):find("padding_idx must be an index from 1 to 3"))
    assert.truthy(raised(nn.Sequential, nn.ReLU(), nil, nn.ReLU()):find("part 2 must be a module or a function, got nil"))
    assert.equal(1, #nn.Sequential(nn.ReLU(), nil)) -- a part that is left out at the end
    assert.truthy(raised(ty.cross_entropy, ty.ones(1, 2), ty.ones(1, { dtype = "i64" }), { label_smoothing = 2 }):find(
      "label_smoothing must be in 0..1, got 2", 1, true))
    local w = nn.Parameter(ty.ones(2, 3))
    for _, name in ipairs { "xavier_uniform_", "xavier_normal_", "trunc_normal_" } do
      assert.truthy(raised(nn.init[name], w, "relu"):find(name .. ": argument 2 %(%a+%) must be a number"))
    end
  end)

  it("is told where a loss would repeat both predictions and targets", function()
    for _, name in ipairs { "mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "bce_with_logits", "kl_div" } do
      local loss = ty[name]
      assert.truthy(raised(loss, ty.zeros(3, 1), ty.ones(3)):find(name .. ": f32[3,1] beside f32[3]", 1, true))
      assert.truthy(raised(ty.compile(loss), ty.zeros(3), ty.ones(3, 1)):find(name .. ": f32[3] beside f32[3,1]", 1, true))
      for _, pair in ipairs { { { 3, 1 }, { 1 } }, { { 1 }, { 1, 3 } }, { { 2, 3 }, { 3 } }, { { 3 }, { 2, 3 } }, { { 1, 1 }, { 1 } } } do
        local x, y = ty.zeros(pair[1]), ty.ones(pair[2])
        assert.same((x + y).shape, loss(x, y, { reduction = "none" }).shape)
      end
    end
  end)
end)

describe("misuse of layers is told in the user's terms:", function()
  local function says(text, fn, ...)
    local got = raised(fn, ...)
    assert.truthy(got:find(text, 1, true), ("%s\nlacks\n%s"):format(got, text))
  end

  local x = ty.zeros(1, 3, 4, 4)

  it("convolutions", function()
    says("conv2d: argument 1 must have 4 dims, or 3 without a batch, got f32[4]", ty.conv2d, ty.zeros(4), ty.zeros(1, 1, 1, 1))
    says("conv2d: f32[1,3,4,4] has 3 channels, the weight f32[2,2,3,3] takes 2", ty.conv2d, x, ty.zeros(2, 2, 3, 3))
    says("in 3 groups takes 6", ty.conv2d, x, ty.zeros(3, 2, 3, 3), { groups = 3 })
    says("conv2d: 4 channels of the weight f32[4,1,3,3] do not divide into 3 groups", ty.conv2d, x, ty.zeros(4, 1, 3, 3),
      { groups = 3 })
    says("conv2d: argument 3, the bias, must be [2], got f32[3]", ty.conv2d, x, ty.zeros(2, 3, 3, 3), ty.zeros(3))
    says("conv2d: a kernel that reaches 5 places does not fit into 4 (dim 1, padded)", ty.conv2d, x, ty.zeros(2, 3, 3, 3),
      { dilation = 2 })
    says("conv2d: option stride must be whole and at least 1, got number 0", ty.conv2d, x, ty.zeros(2, 3, 3, 3), { stride = 0 })
    says("conv2d: option stride must be a number or a list of 2, got a list of 3", ty.conv2d, x, ty.zeros(2, 3, 3, 3),
      { stride = { 1, 1, 1 } })
    says("needs stride 1", ty.conv2d, x, ty.zeros(2, 3, 3, 3), { stride = 2, padding = "same" })
    says("conv2d: unknown option pad", ty.conv2d, x, ty.zeros(2, 3, 3, 3), { pad = 1 })
    says("output_padding must be below stride", ty.conv_transpose2d, x, ty.zeros(3, 2, 3, 3), { output_padding = 1 })
    says("conv_transpose2d: padding 9 leaves nothing of f32[1,3,4,4] (dim 1)", ty.conv_transpose2d, x, ty.zeros(3, 2, 3, 3),
      { padding = 9 })
    says("Conv2d: argument 3 (kernel) must be whole and at least 1, got nil", nn.Conv2d, 1, 2)
    says("Conv2d: 3 inputs and 4 outputs do not divide into 2 groups", nn.Conv2d, 3, 4, 1, { groups = 2 })
  end)

  it("pooling and interpolation", function()
    says("max_pool2d: a window that reaches 5 places does not fit into f32[1,3,4,4]", ty.max_pool2d, x, 5)
    says("max_pool2d: padding must be at most half of the window, got 2 for 3", ty.max_pool2d, x, 3, { padding = 2 })
    says("max_pool2d: argument 2, the window, must be whole and at least 1, got nil", ty.max_pool2d, x)
    says("avg_pool2d: unknown option divisor", ty.avg_pool2d, x, 2, { divisor = 2 })
    says("adaptive_avg_pool2d: argument 2, the output's size,", ty.adaptive_avg_pool2d, x, 0)
    says("interpolate: needs one of the options size and scale", ty.interpolate, x, {})
    says("interpolate: option mode", ty.interpolate, x, { size = 2, mode = "cube" })
    says("(use :to(\"f32\"))", ty.max_pool2d, x:to("i32"), 2)
  end)

  it("attention", function()
    local f, q = ty.scaled_dot_product_attention, ty.zeros(3, 4)
    says("queries and keys have other features, f32[3,4] and f32[3,5]", f, q, ty.zeros(3, 5), q)
    says("keys and values have other positions, f32[3,4] and f32[2,4]", f, q, q, ty.zeros(2, 4))
    says("option mask bool[2,3] does not fit 3 queries and 3 keys", f, q, q, q, { mask = ty.zeros({ 2, 3 }, { dtype = "bool" }) })
    says("option mask must be of bools (true: seen) or floats (added)", f, q, q, q, { mask = ty.zeros({ 3, 3 }, { dtype = "i64" }) })
    says("dtypes differ", f, q, q:to("f64"), q)
    says("at least 2 dims", f, ty.zeros(3), q, q)
    says("MultiHeadAttention: a width of 6 does not divide into 4 heads", nn.MultiHeadAttention, 6, 4)
    says("MultiHeadAttention: the input must be [batch, time, 4], got f32[2,3]", nn.MultiHeadAttention(4, 2), ty.zeros(2, 3))
    says("rotary positions need an even number", nn.MultiHeadAttention, 6, 2, { rotary = true })
    for _, base in ipairs { "100", {}, true } do
      says("rotary: argument 3 (base) must be a number, got ", nn.rotary, q, 0, base)
    end
    for _, base in ipairs { 0, -1, 0 / 0 } do
      says("rotary: argument 3 (base) must be positive, got number ", nn.rotary, q, 0, base)
    end
    says("rotary: argument 2 (offset) must be a number, got string", nn.rotary, q, "1")
    says("MultiHeadAttention: option rotary must be a boolean or a positive base, got string", nn.MultiHeadAttention, 4, 2,
      { rotary = "100" })
    says("MultiHeadAttention: option rotary must be a boolean or a positive base, got number 0", nn.MultiHeadAttention, 4, 2,
      { rotary = 0 })
  end)

  it("others", function()
    says("Linear: the input must be [..., 3], got f32[2,4]", nn.Linear(3, 2), ty.zeros(2, 4))
    says("Linear: argument 2 (outputs) must be whole", nn.Linear, 3)
    says("Linear: unknown option biass, did you mean bias?", nn.Linear, 3, 2, { biass = false })
    says("Embedding: the input must be a tensor of integers, got f32[2]", nn.Embedding(3, 2), ty.zeros(2))
    says("BatchNorm2d: the input must be [batch, 3, height, width], got f32[2,4,1,1]", nn.BatchNorm2d(3), ty.zeros(2, 4, 1, 1))
    says("needs more than one value a channel", nn.BatchNorm1d(3), ty.zeros(1, 3))
    says("LayerNorm: the input must end with the sizes 3, 4, got f32[3,3]", nn.LayerNorm { 3, 4 }, ty.zeros(3, 3))
    says("GroupNorm: 3 channels do not divide into 2 groups", nn.GroupNorm, 2, 3)
    says("LSTM: the input must be [batch, time, 3], got tensor f32[2,3]", nn.LSTM(3, 2), ty.zeros(2, 3))
    says("LSTM: h must be [1, 2, 2], got tensor f32[1,2,3]", nn.LSTM(3, 2), ty.zeros(2, 5, 3), ty.zeros(1, 2, 3))
    says("Sequential: part 2 must be a module or a function, got number 5", nn.Sequential, nn.ReLU(), 5)
    says("ModuleList: part 1 must be a module, got a function", nn.ModuleList, print)
    says("Dropout: argument 1 (p) must be in 0..1, got 2", nn.Dropout, 2)
    says("Parameter: argument 1 must be of floats", nn.Parameter, ty.zeros({ 2 }, { dtype = "i64" }))
    says("huber_loss: option delta must be above 0, got 0", ty.huber_loss, x, x, { delta = 0 })
    says("l1_loss: sizes do not broadcast, f32[2] and f32[3]", ty.l1_loss, ty.zeros(2), ty.zeros(3))
    says("CrossEntropyLoss: unknown option smoothing", nn.CrossEntropyLoss, { smoothing = 0.1 })
  end)
end)
