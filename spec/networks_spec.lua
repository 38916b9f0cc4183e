--- networks_spec.lua -- functions and modules beside values and gradients that PyTorch gave (fixtures/networks.lua, made by
-- fixtures/make_networks.py): eager, compiled and captured whole to the same bits, forward and back, and batched by vmap.

local H = require "spec.helper"
local V = require "spec.torch_values"
local ty = H.ty
local nn = ty.nn
local raised = H.raises
local tensor, close, seed_of, sorted = V.tensor, V.close, V.seed_of, H.sorted
local cases = dofile(H.root .. "spec/fixtures/networks.lua")

--- What make_networks.py called, by the fixture's name.
local functions = {
  ["relu6"] = ty.relu6,
  ["hardtanh"] = function(x) return ty.hardtanh(x, -0.75, 2) end,
  ["hardsigmoid"] = ty.hardsigmoid,
  ["hardswish"] = ty.hardswish,
  ["threshold"] = function(x) return ty.threshold(x, 0.3, -2) end,
  ["hardshrink"] = function(x) return ty.hardshrink(x, 0.4) end,
  ["softshrink"] = ty.softshrink,
  ["selu"] = ty.selu,
  ["celu"] = function(x) return ty.celu(x, 1.5) end,
  ["prelu"] = ty.prelu,
  ["prelu of one"] = ty.prelu,
  ["glu"] = ty.glu,
  ["glu dim"] = function(x) return ty.glu(x, 2) end,
  ["logsigmoid"] = ty.logsigmoid,
  ["softsign"] = ty.softsign,
  ["tanhshrink"] = ty.tanhshrink,
  ["softmin"] = function(x) return ty.softmin(x, 1) end,
  ["normalize"] = ty.normalize,
  ["normalize dim"] = function(x) return ty.normalize(x, { p = 3, dim = 2 }) end,
  ["cosine_similarity"] = ty.cosine_similarity,
  ["cosine_similarity dim"] = function(x, y) return ty.cosine_similarity(x, y, { dim = 2 }) end,
  ["pairwise_distance"] = ty.pairwise_distance,
  ["pairwise_distance 1"] = function(x, y) return ty.pairwise_distance(x, y, { p = 1, keepdim = true }) end,

  ["binary_cross_entropy"] = ty.binary_cross_entropy,
  ["binary_cross_entropy weight"] = function(x, y, w)
    return ty.binary_cross_entropy(x, y, { weight = w:detach(), reduction = "sum" })
  end,
  ["binary_cross_entropy ends"] = function(x)
    return ty.binary_cross_entropy(x, ty.tensor({ 0, 1, 0, 1, 0.5 }, { dtype = "f64" }), { reduction = "none" })
  end,
  ["soft_margin_loss"] = ty.soft_margin_loss,
  ["multilabel_soft_margin_loss"] = function(x, y, w)
    return ty.multilabel_soft_margin_loss(x, y, { weight = w:detach() })
  end,
  ["multilabel_margin_loss"] = ty.multilabel_margin_loss,
  ["multi_margin_loss"] = ty.multi_margin_loss,
  ["multi_margin_loss weights"] = function(x, y, w)
    return ty.multi_margin_loss(x, y, { p = 2, margin = 0.5, weight = w:detach(), reduction = "none" })
  end,
  ["margin_ranking_loss"] = function(a, b, y) return ty.margin_ranking_loss(a, b, y:detach(), { margin = 0.3 }) end,
  ["hinge_embedding_loss"] = function(x, y) return ty.hinge_embedding_loss(x, y:detach(), { margin = 0.7 }) end,
  ["cosine_embedding_loss"] = function(a, b, y) return ty.cosine_embedding_loss(a, b, y:detach(), { margin = -0.2 }) end,
  ["triplet_margin_loss"] = ty.triplet_margin_loss,
  ["triplet_margin_loss swap"] = function(a, b, c)
    return ty.triplet_margin_loss(a, b, c, { margin = 2, p = 1, swap = true, reduction = "none" })
  end,
  ["gaussian_nll_loss"] = ty.gaussian_nll_loss,
  ["gaussian_nll_loss full"] = function(x, y, v)
    return ty.gaussian_nll_loss(x, y, v, { full = true, eps = 0.4, reduction = "sum" })
  end,
  ["poisson_nll_loss"] = ty.poisson_nll_loss,
  ["poisson_nll_loss full"] = function(x, y)
    return ty.poisson_nll_loss(x, y:detach(), { log_input = false, full = true, reduction = "sum" })
  end,
}

local modules = {
  ["PReLU"] = function() return nn.PReLU(3) end,
}

--- How inputs of the fixture are given where that differs.
local calls = {}

--- Those that vmap cannot hold, and why.
local not_batched = {}

local function is_float(t) return ty.is_tensor(t) and t.dtype == "f64" end

--- The inputs of a row; those of floats require gradients.
local function leaves(row)
  local list = V.inputs_of(row)
  for i, x in ipairs(list) do
    if is_float(x) and row.wanted[i] then x:requires_grad_() end
  end
  return list
end

--- What fn gives for the row's inputs, and the gradients by them.
local function forward_and_back(fn, row)
  local inputs = leaves(row)
  local ys = { fn(unpack(inputs)) }
  ys[1]:backward(seed_of(ys[1]))
  local gradients = {}
  for i, x in ipairs(inputs) do gradients[i] = row.wanted[i] and x.grad or false end
  return ys, gradients
end

local function same_all(want, got, what)
  assert.equal(#want, #got, what)
  for i = 1, #want do
    if want[i] then H.same(want[i]:detach(), got[i]:detach(), what .. " " .. i) end
  end
end

describe("functions give what PyTorch's give:", function()
  for _, name in ipairs(sorted(functions)) do
    local row, fn = assert(cases[name], name), functions[name]
    row.wanted = row.gradients

    it(name, function()
      local ys, gradients = forward_and_back(fn, row)
      assert.equal(#row.outputs, #ys)
      for i, want in ipairs(row.outputs) do close(want, ys[i], "output " .. i) end
      for i, want in ipairs(row.gradients) do
        if want then close(want, gradients[i], "gradient " .. i) end
      end
    end)

    it(name .. ", compiled, forward and back, as one trace", function()
      local inputs = V.inputs_of(row)
      local compiled = ty.compile(function(...) return fn(...) end, { fullgraph = true })
      local learn = ty.compile(function(list)
        local ys = { fn(unpack(list)) }
        ys[1]:backward(seed_of(ys[1]))
        return ys[1]:detach()
      end, { fullgraph = true })
      local ys, gradients = forward_and_back(fn, row)
      for _ = 1, 3 do
        same_all({ fn(unpack(inputs)) }, { compiled(unpack(inputs)) }, "output")
        local list = leaves(row)
        H.same(ys[1]:detach(), learn(list))
        local own = {}
        for i, x in ipairs(list) do own[i] = row.wanted[i] and x.grad or false end
        same_all(gradients, own, "gradient")
      end
      assert.equal(3, ty.explain(compiled).skips, tostring(ty.explain(compiled)))
      assert.equal(3, ty.explain(learn).skips, tostring(ty.explain(learn)))
    end)

    it(name .. (not_batched[name] and ", not batched" or ", batched by vmap, with its gradient"), function()
      local inputs = V.inputs_of(row)
      local x = inputs[1]
      local rows = { x, x * 0.75 }
      local batched = ty.vmap(function(a) return (fn(a, unpack(inputs, 2))) end)
      local slope = ty.grad(function(a) return (fn(a, unpack(inputs, 2)) * 1.5):sum() end)
      if not_batched[name] then
        assert.truthy(raised(batched, ty.stack(rows)):find(not_batched[name], 1, true))
        return
      end
      local all, slopes = batched(ty.stack(rows)), ty.vmap(slope)(ty.stack(rows))
      for i, own in ipairs(rows) do
        assert.truthy(ty.allclose(fn(own, unpack(inputs, 2)), all[i], { rtol = 1e-12, atol = 1e-12 }), "example " .. i)
        assert.truthy(ty.allclose(slope(own), slopes[i], { rtol = 1e-11, atol = 1e-11 }), "slope " .. i)
      end
    end)
  end
end)

describe("modules give what PyTorch's give with its state:", function()
  for _, name in ipairs(sorted(modules)) do
    local row = assert(cases[name], name)
    row.wanted = row.input_gradients

    local function made()
      local m = modules[name]():to("f64")
      m:train(row.after ~= nil)
      m:load_state_dict(V.state_of(row), { from = "torch" })
      return m, calls[name] or function(mm, ...) return mm(...) end
    end

    local function buffers_of(m)
      local list = {}
      for k, v in m:named_buffers() do list[k] = v end
      return list
    end

    it(name, function()
      local m, call = made()
      local ys, gradients = forward_and_back(function(...) return call(m, ...) end, row)
      assert.equal(#row.outputs, #ys)
      for i, want in ipairs(row.outputs) do close(want, ys[i], "output " .. i) end
      for i, want in ipairs(row.input_gradients) do
        if want then close(want, gradients[i], "gradient of input " .. i) end
      end
      local buffers = buffers_of(m)
      for k, want in pairs(row.after or {}) do close(want, buffers[k], k) end
      -- gradients are states too: a second module of this kind takes them from PyTorch's layout
      local expected = modules[name]():to("f64")
      local sd, n = V.state_of(row), 0
      for k, v in pairs(row.gradients) do sd[k] = tensor(v) end
      expected:load_state_dict(sd, { from = "torch" })
      local want = expected:state_dict()
      for k, p in m:named_parameters() do
        if p.grad then
          n = n + 1
          close({ shape = want[k].shape, unpack(want[k]:reshape(-1):totable()) }, p.grad, "gradient of " .. k)
        end
      end
      assert.equal(#sorted(row.gradients), n)
    end)

    it(name .. ", compiled, forward and back, as one trace", function()
      local m, call = made()
      local own, own_call = made()
      local compiled = ty.compile(function(...) return own_call(own, ...) end, { fullgraph = true })
      local learn = ty.compile(function(list)
        own:zero_grad()
        local ys = { own_call(own, unpack(list)) }
        ys[1]:backward(seed_of(ys[1]))
        return ys[1]:detach()
      end, { fullgraph = true })
      for _ = 1, 3 do
        local inputs = V.inputs_of(row)
        same_all({ call(m, unpack(inputs)) }, { compiled(unpack(inputs)) }, "output")
        m:zero_grad()
        local ys, gradients = forward_and_back(function(...) return call(m, ...) end, row)
        local list = leaves(row)
        H.same(ys[1]:detach(), learn(list))
        local got = {}
        for i, x in ipairs(list) do got[i] = row.wanted[i] and x.grad or false end
        same_all(gradients, got, "gradient")
        local theirs = own:parameters()
        for i, p in ipairs(m:parameters()) do
          if p.grad then H.same(p.grad, theirs[i].grad) end
        end
        local buffers = buffers_of(own)
        for k, v in pairs(buffers_of(m)) do H.same(v, buffers[k], k) end
      end
      assert.equal(3, ty.explain(compiled).skips, tostring(ty.explain(compiled)))
      assert.equal(3, ty.explain(learn).skips, tostring(ty.explain(learn)))
    end)
  end

  it("all fixtures are looked at", function()
    for name in pairs(cases) do assert.truthy(modules[name] or functions[name], name) end
  end)
end)

--- Modules that hold no more than a function, or random numbers; and what they are given.
local i64 = { dtype = "i64" }
local zoo = {
  BCELoss = function() return nn.BCELoss { reduction = "sum" }, ty.rand(3, 4), ty.rand(3, 4) end,
  SoftMarginLoss = function() return nn.SoftMarginLoss(), ty.randn(4), ty.tensor { 1, -1, -1, 1 } end,
  MultiLabelSoftMarginLoss = function()
    return nn.MultiLabelSoftMarginLoss { weight = ty.rand(4) }, ty.randn(3, 4), ty.rand(3, 4):round()
  end,
  MultiLabelMarginLoss = function()
    return nn.MultiLabelMarginLoss(), ty.randn(2, 3), ty.tensor({ { 2, 0, 1 }, { 1, 3, 0 } }, i64)
  end,
  MultiMarginLoss = function() return nn.MultiMarginLoss { p = 2 }, ty.randn(2, 3), ty.tensor({ 1, 3 }, i64) end,
  MarginRankingLoss = function()
    return nn.MarginRankingLoss { margin = 0.5 }, ty.randn(3), ty.randn(3), ty.tensor { 1, -1, 1 }
  end,
  HingeEmbeddingLoss = function() return nn.HingeEmbeddingLoss(), ty.randn(3), ty.tensor { 1, -1, 1 } end,
  CosineEmbeddingLoss = function()
    return nn.CosineEmbeddingLoss(), ty.randn(3, 4), ty.randn(3, 4), ty.tensor { 1, -1, 1 }
  end,
  TripletMarginLoss = function() return nn.TripletMarginLoss { swap = true }, ty.randn(3, 4), ty.randn(3, 4), ty.randn(3, 4) end,
  GaussianNLLLoss = function() return nn.GaussianNLLLoss { full = true }, ty.randn(3), ty.randn(3), ty.rand(3) end,
  PoissonNLLLoss = function() return nn.PoissonNLLLoss(), ty.randn(3), ty.rand(3):round() end,
  Threshold = function() return nn.Threshold(0.5, 2), ty.randn(3, 4) end,
  RReLU = function() return nn.RReLU(), ty.randn(3, 4) end,
  Softmax2d = function() return nn.Softmax2d(), ty.randn(2, 3, 2, 2) end,
}
for _, name in ipairs { "ReLU6", "SELU", "CELU", "Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink", "Tanhshrink",
  "Softsign", "LogSigmoid", "GLU", "Softmin" } do
  zoo[name] = function() return nn[name](), ty.randn(3, 4) end
end

describe("a compiled module gives the bits of eager, as one trace, and its gradients:", function()
  for _, name in ipairs(sorted(zoo)) do
    it(name .. ", training or not", function()
      ty.manual_seed(7)
      local list = { zoo[name]() }
      local m, inputs = table.remove(list, 1), list
      local function run(of, given)
        local y = of(unpack(given))
        if y.requires_grad then y:sum():backward() end
        return y:detach()
      end
      local compiled = ty.compile(function(...) return run(m, { ... }) end, { fullgraph = true })
      for _, training in ipairs { true, false } do
        m:train(training)
        for _ = 1, 3 do
          local own = {}
          for i, x in ipairs(inputs) do own[i] = x:detach():clone() end
          for _, x in ipairs { inputs[1], own[1] } do
            if x.dtype == "f32" then x:requires_grad_() end
            x.grad = nil
          end
          ty.manual_seed(1)
          local want = run(m, inputs)
          ty.manual_seed(1)
          H.same(want, compiled(unpack(own)))
          if inputs[1].grad then H.same(inputs[1].grad, own[1].grad) end
        end
      end
      assert.equal(6, ty.explain(compiled).skips, tostring(ty.explain(compiled)))
    end)
  end

  it("every class of layers is looked at here or in nn_spec", function()
    local others = H.read "spec/nn_spec.lua"
    for name, class in pairs(nn) do
      if nn.is_module(class) and name ~= "Module" and name ~= "ModuleList" then
        assert.truthy(zoo[name] or modules[name] or others:find("%f[%w]" .. name .. "%f[%W]"), name)
      end
    end
  end)
end)

describe("what does not fit", function()
  it("is told by name", function()
    for call, text in pairs {
      ["ty.hardtanh(ty.ones(2), 2, 1)"] = "hardtanh: low, 2, lies above high, 1",
      ["ty.prelu(ty.ones(2, 3), ty.ones(2))"] = "prelu: argument 2, the weight, must be [1] or [channels], got f32[2] for f32[2,3]",
      ["ty.glu(ty.ones(3))"] = "glu: dim 1 of f32[3] does not divide into halves",
      ["ty.celu(ty.ones(3), 0)"] = "celu: argument 2 (alpha) must not be 0",
      ["ty.gumbel_softmax(ty.ones(3), {tau = 0})"] = "gumbel_softmax: option tau must be above 0, got 0",
      ["ty.selu(ty.arange(3):to 'i64')"] = "selu: argument 1 must be of floats, got i64[3] (use :to(\"f32\"))",
      ["ty.softmin(ty.ones(3), 2)"] = "softmin: dim 2 is out of range",
      ["ty.binary_cross_entropy(ty.ones(3), ty.ones(2))"] = "binary_cross_entropy: targets f32[2] do not fit f32[3]",
      ["ty.binary_cross_entropy(ty.ones(3), ty.ones(3), {reduction = 'x'})"] = "must be \"mean\", \"sum\" or \"none\"",
      ["ty.multi_margin_loss(ty.ones(2, 3), ty.ones(2))"] = "multi_margin_loss: labels must be integers, got f32[2]",
      ["ty.multi_margin_loss(ty.ones(2, 3), ty.full({2}, 4, {dtype = 'i64'}))"] = "multi_margin_loss: ",
      ["ty.multi_margin_loss(ty.ones(2, 3), ty.ones({2}, {dtype = 'i64'}), {p = 3})"] = "option p must be 1 or 2, got 3",
      ["ty.margin_ranking_loss(ty.ones(2), ty.ones(3), ty.ones(2))"] = "margin_ranking_loss: sizes do not broadcast, f32[2] and f32[3]",
      ["ty.triplet_margin_loss(ty.ones(2), ty.ones(2), ty.ones(2), {margin = -1})"] = "option margin must be above 0, got -1",
      ["ty.multilabel_margin_loss(ty.ones(2), ty.ones(2))"] = "labels must be integers, got f32[2]",
      ["ty.nn.Hardtanh('x')"] = "Hardtanh: argument 1 (low) must be a number, got string \"x\"",
      ["ty.nn.PReLU(0)"] = "PReLU: argument 1 (channels) must be whole and at least 1, got number 0",
      ["ty.nn.TripletMarginLoss {swop = true}"] = "TripletMarginLoss: unknown option swop, did you mean swap?",
    } do
      local got = raised(loadstring("local ty = ... return " .. call), ty)
      assert.truthy(got:find(text, 1, true), call .. ": " .. got)
    end
  end)
end)
