--- networks_spec.lua -- functions and modules beside values and gradients that PyTorch gave (fixtures/networks.lua, made by
-- fixtures/make_networks.py): eager, compiled and captured whole to the same bits, forward and back, and batched by vmap.

local H = require "spec.helper"
local V = require "spec.torch_values"
local ty = H.ty
local nn = ty.nn
local raised = H.raises
local tensor, close, seed_of, sorted = V.tensor, V.close, V.seed_of, H.sorted
local cases = dofile(H.root .. "spec/fixtures/networks.lua")

local shares = ty.tensor({ 0.5, 2, 1.25 }, { dtype = "f64" }) -- weights of classes

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
  ["fold"] = function(x)
    return ty.fold(x, { 4, 5 }, { 2, 3 }, { dilation = { 2, 1 }, padding = 1, stride = { 1, 2 } })
  end,
  ["normalize dim"] = function(x) return ty.normalize(x, { p = 3, dim = 2 }) end,
  ["cosine_similarity"] = ty.cosine_similarity,
  ["cosine_similarity dim"] = function(x, y) return ty.cosine_similarity(x, y, { dim = 2 }) end,
  ["pairwise_distance"] = ty.pairwise_distance,
  ["pairwise_distance 1"] = function(x, y) return ty.pairwise_distance(x, y, { p = 1, keepdim = true }) end,

  ["nll_loss weight"] = function(x, y) return ty.nll_loss(x, y, { weight = shares }) end,
  ["nll_loss weight ignore"] = function(x, y) return ty.nll_loss(x, y, { weight = shares, ignore_index = 3 }) end,
  ["cross_entropy weight"] = function(x, y)
    return ty.cross_entropy(x, y, { weight = shares, label_smoothing = 0.2, ignore_index = 1 })
  end,
  ["cross_entropy weight sum"] = function(x, y) return ty.cross_entropy(x, y, { weight = shares, reduction = "sum" }) end,
  ["cross_entropy weight chances"] = function(x, y)
    return ty.cross_entropy(x, y:detach(), { weight = shares, label_smoothing = 0.1 })
  end,
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

local function windows(name, fn) functions[name] = fn end

windows("conv3d", function(x, w, b)
  return ty.conv3d(x, w, b, { stride = { 1, 2, 1 }, padding = { 1, 0, 1 }, dilation = { 1, 1, 2 } })
end)
windows("conv3d groups", function(x, w) return ty.conv3d(x, w, { groups = 2, padding = 1 }) end)
windows("conv_transpose3d", function(x, w, b)
  return ty.conv_transpose3d(x, w, b, { stride = 2, padding = { 1, 0, 1 }, output_padding = { 1, 0, 0 } })
end)
windows("conv_transpose3d groups", function(x, w) return ty.conv_transpose3d(x, w, { groups = 2, dilation = { 1, 2, 1 } }) end)
windows("max_pool1d indices", function(x) return ty.max_pool1d(x, 3, { stride = 2, padding = 1, return_indices = true }) end)
windows("max_pool2d indices", function(x)
  return ty.max_pool2d(x, { 2, 3 }, { stride = 2, padding = { 1, 1 }, return_indices = true })
end)
windows("max_pool2d indices large", function(x) return ty.max_pool2d(x, 5, { stride = 3, padding = 2, return_indices = true }) end)
windows("max_pool3d", function(x) return ty.max_pool3d(x, 2) end)
windows("max_pool3d indices", function(x)
  return ty.max_pool3d(x, { 2, 3, 2 }, { stride = { 1, 2, 2 }, padding = { 1, 1, 0 }, return_indices = true })
end)
windows("avg_pool2d divisor", function(x) return ty.avg_pool2d(x, 2, { stride = 1, padding = 1, divisor_override = 3 }) end)
windows("avg_pool3d", function(x)
  return ty.avg_pool3d(x, { 2, 3, 2 }, { stride = { 1, 2, 2 }, padding = { 1, 0, 1 }, count_include_pad = false })
end)
windows("avg_pool3d ceil", function(x) return ty.avg_pool3d(x, 2, { ceil_mode = true }) end)
windows("adaptive_avg_pool3d", function(x) return ty.adaptive_avg_pool3d(x, { 2, 3, 1 }) end)
windows("adaptive_max_pool3d", function(x) return ty.adaptive_max_pool3d(x, { 2, 3, 1 }) end)
windows("lp_pool1d", function(x) return ty.lp_pool1d(x, 2, 3, { stride = 2, ceil_mode = true }) end)
windows("lp_pool2d", function(x) return ty.lp_pool2d(x, 3, 2) end)
windows("max_unpool1d", function(x, i) return ty.max_unpool1d(x, i, 2) end)
windows("max_unpool2d", function(x, i) return ty.max_unpool2d(x, i, 2, { output_size = { 5, 6 } }) end)
windows("max_unpool3d", function(x, i) return ty.max_unpool3d(x, i, 2) end)

for name, opts in pairs {
  ["nearest-exact"] = { size = { 9, 3 }, mode = "nearest-exact" }, ["bicubic"] = { size = { 9, 4 }, mode = "bicubic" },
  ["bicubic corners"] = { size = { 3, 10 }, mode = "bicubic", align_corners = true },
  ["trilinear"] = { size = { 3, 5, 2 }, mode = "trilinear" }, ["area"] = { size = { 3, 4 }, mode = "area" },
  ["nearest of three dims"] = { size = { 3, 2, 5 } },
  ["bilinear antialias"] = { size = { 3, 10 }, mode = "bilinear", antialias = true },
  ["bicubic antialias"] = { size = { 3, 4 }, mode = "bicubic", antialias = true },
  ["scale linear"] = { scale = 1.75, mode = "linear" }, ["scale nearest"] = { scale = { 1.1, 2.9 } },
  ["scale nearest of one dim"] = { scale = 1.3 }, ["scale exact"] = { scale_factor = 1.6, mode = "nearest-exact" },
  ["scale bicubic"] = { scale_factor = { 0.6, 1.3 }, mode = "bicubic" },
  ["scale antialias"] = { scale = { 0.6, 1.2 }, mode = "bilinear", antialias = true },
  ["scale recomputed"] = { scale = 0.6, mode = "bilinear", recompute_scale_factor = true },
} do
  windows("interpolate " .. name, function(x) return ty.interpolate(x, opts) end)
end
for _, mode in ipairs { "bilinear", "bicubic", "nearest" } do
  for _, pad in ipairs { "zeros", "border", "reflection" } do
    for _, corners in ipairs { false, true } do
      windows(("grid_sample %s %s %s"):format(mode, pad, corners and "corners" or "borders"), function(x, g)
        return ty.grid_sample(x, g, { mode = mode, padding_mode = pad, align_corners = corners })
      end)
    end
  end
end
windows("grid_sample of three dims", ty.grid_sample)
windows("affine_grid", function(t) return ty.affine_grid(t, { 2, 1, 3, 4 }) end)
windows("affine_grid corners", function(t) return ty.affine_grid(t, { 1, 1, 2, 3, 2 }, { align_corners = true }) end)

for name, row in pairs { [""] = { 7, {} }, [" sum"] = { 6, { blank = 4, reduction = "sum" } }, [" none"] = { 5, { reduction = "none" } },
  [" long"] = { 80, {} }, [" zero"] = { 2, { zero_infinity = true, reduction = "sum" } } } do
  windows("ctc_loss" .. name, function(x, t)
    return ty.ctc_loss(x:log_softmax(), t, { row[1], row[1] - 1 }, { 3, 2 }, row[2])
  end)
end
windows("pad_sequence", function(a, b, c) return nn.utils.pad_sequence({ a, b, c }, { padding_value = 0.5 }) end)

local modules = {
  ["weight_norm Linear"] = function() return nn.utils.weight_norm(nn.Linear(3, 4)) end,
  ["weight_norm Conv2d"] = function() return nn.utils.weight_norm(nn.Conv2d(2, 3, 2)) end,
  ["spectral_norm Linear"] = function() return nn.utils.spectral_norm(nn.Linear(3, 4)) end,
  ["spectral_norm Conv2d eval"] = function() return nn.utils.spectral_norm(nn.Conv2d(2, 3, 2), { n_power_iterations = 2 }) end,
  ["PReLU"] = function() return nn.PReLU(3) end,
  ["Conv3d"] = function() return nn.Conv3d(2, 4, { 2, 3, 2 }, { stride = { 1, 2, 1 }, padding = 1, groups = 2 }) end,
  ["Conv1d circular"] = function() return nn.Conv1d(2, 3, 3, { padding = 2, padding_mode = "circular" }) end,
  ["Conv2d reflect"] = function()
    return nn.Conv2d(2, 3, 3, { stride = 2, padding = { 1, 2 }, padding_mode = "reflect" })
  end,
  ["Conv2d replicate same"] = function()
    return nn.Conv2d(2, 2, { 2, 3 }, { padding = "same", padding_mode = "replicate" })
  end,
  ["ConvTranspose3d"] = function() return nn.ConvTranspose3d(2, 3, 2, { stride = 2 }) end,
  ["BatchNorm3d"] = function() return nn.BatchNorm3d(2) end,
  ["BatchNorm3d eval"] = function() return nn.BatchNorm3d(2) end,
  ["InstanceNorm1d"] = function() return nn.InstanceNorm1d(3) end,
  ["InstanceNorm2d"] = function() return nn.InstanceNorm2d(3, { affine = true, track = true }) end,
  ["InstanceNorm2d eval"] = function() return nn.InstanceNorm2d(3, { affine = true, track = true }) end,
  ["InstanceNorm3d"] = function() return nn.InstanceNorm3d(2, { affine = true, eps = 1e-3 }) end,
  ["LocalResponseNorm"] = function() return nn.LocalResponseNorm(3, { alpha = 0.5, k = 2 }) end,
  ["LocalResponseNorm even"] = function() return nn.LocalResponseNorm(4, { beta = 0.5 }) end,
  ["ReflectionPad2d all"] = function() return nn.ReflectionPad2d(2) end,
  ["ZeroPad2d cut"] = function() return nn.ZeroPad2d { -1, 2, 1, -2 } end,
  ["RNNCell"] = function() return nn.RNNCell(3, 4, { nonlinearity = "relu" }) end,
  ["GRUCell"] = function() return nn.GRUCell(3, 4) end,
  ["GRUCell alone"] = function() return nn.GRUCell(3, 4, { bias = false }) end,
  ["LSTMCell"] = function() return nn.LSTMCell(3, 4) end,
  ["Bilinear"] = function() return nn.Bilinear(3, 4, 2) end,
  ["Unflatten"] = function() return nn.Unflatten(2, { 2, 3 }) end,
  ["PixelShuffle"] = function() return nn.PixelShuffle(2) end,
  ["PixelUnshuffle"] = function() return nn.PixelUnshuffle(2) end,
  ["ChannelShuffle"] = function() return nn.ChannelShuffle(2) end,
  ["Unfold"] = function() return nn.Unfold({ 2, 3 }, { dilation = { 1, 2 }, padding = { 1, 0 }, stride = { 2, 1 } }) end,
  ["Fold"] = function() return nn.Fold({ 4, 5 }, { 2, 3 }, { dilation = { 2, 1 }, padding = 1, stride = { 1, 2 } }) end,
  ["Fold alone"] = function() return nn.Fold(3, 2) end,
  ["CosineSimilarity"] = function() return nn.CosineSimilarity { dim = 2 } end,
  ["PairwiseDistance"] = function() return nn.PairwiseDistance { p = 1, keepdim = true } end,
  ["Embedding padding"] = function() return nn.Embedding(5, 3, { padding_idx = 2 }) end,
  ["EmbeddingBag weights"] = function() return nn.EmbeddingBag(5, 3, { mode = "sum" }) end,
  ["TransformerEncoderLayer"] = function() return nn.TransformerEncoderLayer(8, 2, { inner = 12, dropout = 0 }) end,
  ["TransformerEncoderLayer time first"] = function()
    return nn.TransformerEncoderLayer(8, 4, { inner = 6, dropout = 0, activation = "gelu", norm_first = true, bias = false,
      layer_norm_eps = 1e-3, batch_first = false })
  end,
  ["TransformerEncoderLayer masks"] = function() return nn.TransformerEncoderLayer(8, 2, { inner = 12, dropout = 0 }) end,
  ["TransformerEncoder"] = function()
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, { inner = 6, dropout = 0, norm_first = true }), 2,
      { norm = nn.LayerNorm(8) })
  end,
  ["TransformerDecoderLayer"] = function() return nn.TransformerDecoderLayer(8, 2, { inner = 6, dropout = 0 }) end,
  ["TransformerDecoderLayer padding"] = function()
    return nn.TransformerDecoderLayer(8, 2, { inner = 6, dropout = 0, norm_first = true })
  end,
  ["TransformerDecoder"] = function()
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, { inner = 6, dropout = 0 }), 2)
  end,
  ["Transformer"] = function()
    return nn.Transformer(4, 2, { encoder_layers = 1, decoder_layers = 1, inner = 6, dropout = 0 })
  end,
  ["MultiHeadAttention grouped"] = function() return nn.MultiHeadAttention(8, 4, { kv_heads = 2, causal = true }) end,
  ["MultiheadAttention"] = function() return nn.MultiheadAttention(8, 2) end,
  ["MultiheadAttention of others"] = function()
    return nn.MultiheadAttention(8, 2, { kdim = 6, vdim = 5, batch_first = false })
  end,
  ["MultiheadAttention masks"] = function() return nn.MultiheadAttention(8, 4, { bias = false }) end,
  ["LSTM packed"] = function() return nn.LSTM(3, 2, { layers = 2, bidirectional = true }) end,
  ["GRU packed"] = function() return nn.GRU(3, 2, { batch_first = false }) end,
  ["RNN packed"] = function() return nn.RNN(3, 2, { bidirectional = true }) end,
}
for name, amounts in pairs { ["1d"] = { 2, 1 }, ["2d"] = { 1, 2, 2, 0 }, ["3d"] = { 1, 0, 1, 1, 0, 1 } } do
  for _, kind in ipairs { "Zero", "Constant", "Reflection", "Replication", "Circular" } do
    modules[kind .. "Pad" .. name] = function() return nn[kind .. "Pad" .. name](amounts, kind == "Constant" and 0.5 or nil) end
  end
end
for _, mode in ipairs { "mean", "sum", "max" } do
  modules["EmbeddingBag " .. mode] = function() return nn.EmbeddingBag(5, 3, { mode = mode }) end
  modules["EmbeddingBag ragged " .. mode] = modules["EmbeddingBag " .. mode]
end

--- A recurrent layer over sequences that end after 2, 4 and 1 times.
local function packed(m, x, h)
  local rnn = nn.utils
  local y, last, c = m(rnn.pack_padded_sequence(x, { 2, 4, 1 }, { batch_first = m.batch_first }), h)
  return (rnn.pad_packed_sequence(y, { batch_first = m.batch_first })), last, c
end

--- How inputs of the fixture are given where that differs.
local calls = {
  ["EmbeddingBag weights"] = function(m, index, weights) return m(index, { weights = weights }) end,
  ["TransformerEncoderLayer masks"] = function(m, x, padding)
    return m(x, { mask = ty.tri(4, 4, 0, { dtype = "bool" }), padding = padding })
  end,
  ["TransformerEncoder"] = function(m, x) return m(x, { causal = true }) end,
  ["TransformerDecoderLayer"] = function(m, x, memory) return m(x, memory, { causal = true }) end,
  ["TransformerDecoderLayer padding"] = function(m, x, memory, padding) return m(x, memory, { memory_padding = padding }) end,
  ["Transformer"] = function(m, x, y) return m(x, y, { causal = true }) end,
  ["MultiheadAttention of others"] = function(m, q, k, v, mask)
    return m(q, k, v, { attn_mask = mask, average_attn_weights = false })
  end,
  ["MultiheadAttention masks"] = function(m, x, padding)
    local later = ty.tri(4, 4, 0, { dtype = "bool" }):logical_not()
    return (m(x, x, x, { key_padding_mask = padding, attn_mask = later, need_weights = false }))
  end,
  ["LSTM packed"] = packed, ["GRU packed"] = packed, ["RNN packed"] = packed,
}

--- Those that vmap cannot hold, and why.
local not_batched = {}
for _, name in ipairs { "conv3d", "conv3d groups", "conv_transpose3d", "conv_transpose3d groups" } do
  not_batched[name] = "vmap: a tensor of 8 dims has no room for the batch"
end

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
  CTCLoss = function()
    return nn.CTCLoss(), ty.randn(5, 2, 4):log_softmax(), ty.tensor({ { 2, 3 }, { 4, 4 } }, i64), ty.tensor({ 5, 5 }, i64),
      ty.tensor({ 2, 2 }, i64)
  end,
  PoissonNLLLoss = function() return nn.PoissonNLLLoss(), ty.randn(3), ty.rand(3):round() end,
  MaxPool3d = function() return nn.MaxPool3d(2), ty.randn(1, 2, 4, 4, 4) end,
  AvgPool3d = function() return nn.AvgPool3d(3, { stride = 1, padding = 1 }), ty.randn(1, 2, 4, 4, 4) end,
  AdaptiveAvgPool3d = function() return nn.AdaptiveAvgPool3d { 2, 3, 1 }, ty.randn(1, 2, 4, 4, 4) end,
  AdaptiveMaxPool3d = function() return nn.AdaptiveMaxPool3d(2), ty.randn(1, 2, 4, 4, 4) end,
  LPPool1d = function() return nn.LPPool1d(2, 2), ty.randn(1, 2, 4) end,
  LPPool2d = function() return nn.LPPool2d(2, 2), ty.randn(1, 2, 4, 4) end,
  MaxUnpool1d = function() return nn.MaxUnpool1d(2), ty.randn(1, 1, 2), ty.tensor({ { { 1, 4 } } }, i64) end,
  MaxUnpool2d = function() return nn.MaxUnpool2d(2), ty.randn(1, 1, 1, 2), ty.tensor({ { { { 1, 8 } } } }, i64) end,
  MaxUnpool3d = function() return nn.MaxUnpool3d(2), ty.randn(1, 1, 1, 1, 1), ty.tensor({ { { { { 7 } } } } }, i64) end,
  Dropout1d = function() return nn.Dropout1d(0.4), ty.randn(3, 5, 4) end,
  Dropout2d = function() return nn.Dropout2d(0.4), ty.randn(3, 5, 2, 2) end,
  Dropout3d = function() return nn.Dropout3d(0.4), ty.randn(5, 2, 2, 2) end,
  AlphaDropout = function() return nn.AlphaDropout(0.4), ty.randn(3, 5) end,
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
      ["ty.conv3d(ty.ones(1, 3, 2, 2, 2), ty.ones(2, 1, 1, 1, 1), {groups = 2})"] = "in 2 groups takes 2",
      ["ty.max_unpool2d(ty.ones(1, 1, 2, 2), ty.ones(1, 1, 2, 2), 2)"] = "max_unpool2d: argument 2 must be integers of the sizes of",
      ["ty.max_unpool1d(ty.ones(1, 1, 2), ty.full({1, 1, 2}, 9, {dtype = 'i64'}), 2)"] = "max_unpool1d: index 9",
      ["ty.max_unpool1d(ty.ones(1, 1, 2), ty.ones({1, 1, 2}, {dtype = 'i64'}), 2, {output_size = {9}})"] =
        "option output_size must be within the stride of 4 in dim 1, got number 9",
      ["ty.lp_pool1d(ty.ones(1, 1, 4), 0, 2)"] = "lp_pool1d: argument 2 (p) must not be 0",
      ["ty.avg_pool2d(ty.ones(1, 1, 4, 4), 2, {divisor_override = 0})"] = "option divisor_override must not be 0",
      ["ty.nn.ReflectionPad1d(3)(ty.ones(1, 3))"] = "ReflectionPad1d: padding 3, 3 is more than f32[1,3] has places (dim 2)",
      ["ty.nn.CircularPad1d({1, 2, 3})"] = "argument 1 (padding) must be a number or a list of 2, got a list of 3",
      ["ty.nn.ZeroPad2d(-2)(ty.ones(1, 3, 4))"] = "ZeroPad2d: padding -2, -2 leaves nothing of f32[1,3,4]",
      ["ty.nn.ReplicationPad2d(1)(ty.ones(3))"] = "the input must have 4 dims, or 3 without a batch, got f32[3]",
      ["ty.nn.Conv2d(1, 1, 2, {padding_mode = 'mirror'})"] = "option padding_mode must be \"zeros\", \"reflect\"",
      ["ty.nn.ConvTranspose2d(1, 1, 2, {padding_mode = 'reflect'})"] = "option padding_mode must be \"zeros\", got",
      ["ty.nn.InstanceNorm2d(3)(ty.ones(2, 4, 2, 2))"] = "the input must be [batch, 3, height, width] or without the batch",
      ["ty.nn.InstanceNorm2d(3)(ty.ones(2, 3, 1, 1))"] = "InstanceNorm2d: needs more than one value a channel",
      ["ty.nn.GRUCell(3, 4)(ty.ones(2, 4))"] = "GRUCell: the input must be [batch, 3], got f32[2,4]",
      ["ty.nn.LSTMCell(3, 4)(ty.ones(2, 3), ty.ones(2, 3))"] = "LSTMCell: h must be [2, 4], got f32[2,3]",
      ["ty.nn.PixelShuffle(2)(ty.ones(1, 3, 2, 2))"] = "3 channels do not divide by 4, the square of the factor",
      ["ty.nn.PixelUnshuffle(2)(ty.ones(1, 3, 2, 3))"] = "does not divide into squares of 2 places",
      ["ty.nn.ChannelShuffle(2)(ty.ones(1, 3, 2))"] = "must be [batch, channels, ...] in 2 groups",
      ["ty.nn.Fold(4, 2)(ty.ones(1, 4, 3))"] = "Fold: the input must be [batch, channels 4, 9], got f32[1,4,3]",
      ["ty.nn.Unfold(5)(ty.ones(1, 1, 4, 4))"] = "Unfold: a window that reaches 5 places does not fit into 4 (dim 1, padded)",
      ["ty.nn.EmbeddingBag(3, 2, {mode = 'x'})"] = "option mode must be \"mean\", \"sum\" or \"max\"",
      ["ty.nn.EmbeddingBag(3, 2)(ty.ones(2, 2))"] = "EmbeddingBag: the input must be integers of 2 dims, got f32[2,2]",
      ["ty.nn.EmbeddingBag(3, 2)(ty.ones({2, 2}, {dtype = 'i64'}), {weights = ty.ones(2, 2)})"] = "weights need the mode \"sum\"",
      ["ty.nn.Bilinear(3, 4, 2)(ty.ones(1, 3), ty.ones(1, 3))"] = "Bilinear: input 2 must be [..., 4], got f32[1,3]",
      ["ty.nn.Dropout2d(0.5)(ty.ones(2, 3))"] = "Dropout2d: the input must have 4 dims, or 3 without a batch",
      ["ty.nn.Dropout2d(1.5)"] = "Dropout2d: argument 1 (p) must be in 0..1, got 1.5",
      ["ty.nn.ModuleDict {a = 3}"] = "ModuleDict: a must be a module, got number 3",
      ["ty.nn.ModuleDict {forward = ty.nn.ReLU()}"] = "ModuleDict: \"forward\" cannot be the name of a part",
      ["ty.nn.ModuleDict {ty.nn.ReLU()}"] = "ModuleDict: a name must be a string, got number 1",
      ["ty.nn.ParameterList {3}"] = "Parameter: argument 1 must be a tensor, got number 3",
      ["ty.grid_sample(ty.ones(1, 1, 2, 2), ty.ones(1, 2, 2, 3))"] = "a grid for f32[1,1,2,2] must be [1, ..., 2] of 4 dims",
      ["ty.grid_sample(ty.ones(1, 1, 2, 2), ty.ones(1, 2, 2, 2), {mode = 'x'})"] =
        "option mode must be \"bilinear\", \"bicubic\" or \"nearest\"",
      ["ty.affine_grid(ty.ones(1, 2, 2), {1, 1, 2, 2})"] = "affine_grid: argument 1 must be [1, 2, 3], got f32[1,2,2]",
      ["ty.affine_grid(ty.ones(1, 2, 3), 4)"] = "argument 2 must be a list of 4 or 5 sizes, got number 4",
      ["ty.interpolate(ty.ones(1, 1, 2, 2), {size = 3, mode = 'area', antialias = true})"] = "option antialias needs a linear",
      ["ty.ctc_loss(ty.ones(3, 2), ty.ones(2, 2), {3}, {2})"] = "ctc_loss: argument 1 must be [time, batch, classes], got f32[3,2]",
      ["ty.ctc_loss(ty.ones(3, 2, 4), ty.ones(2, 2), {3, 3}, {2, 2})"] = "argument 2 must be integer labels [2, labels], got f32[2,2]",
      ["ty.ctc_loss(ty.ones(3, 1, 4), ty.ones({1, 2}, {dtype = 'i64'}), {3, 3}, {2})"] = "argument 3 must be 1 whole numbers",
      ["ty.ctc_loss(ty.ones(3, 1, 4), ty.ones({1, 2}, {dtype = 'i64'}), 3, 2, {blank = 5})"] =
        "option blank must be a class from 1 to 4, got 5",
      ["ty.nn.Hardtanh('x')"] = "Hardtanh: argument 1 (low) must be a number, got string \"x\"",
      ["ty.nn.PReLU(0)"] = "PReLU: argument 1 (channels) must be whole and at least 1, got number 0",
      ["ty.nn.TripletMarginLoss {swop = true}"] = "TripletMarginLoss: unknown option swop, did you mean swap?",
    } do
      local got = raised(loadstring("local ty = ... return " .. call), ty)
      assert.truthy(got:find(text, 1, true), call .. ": " .. got)
    end
  end)
end)

describe("parts by name and by number", function()
  it("are walked, called, and go around in states", function()
    local m = nn.Module {
      acts = nn.ModuleDict { relu = nn.ReLU(), fc = nn.Linear(2, 3) },
      scales = nn.ParameterList { ty.ones(3), ty.zeros(1) },
      more = nn.ParameterDict { w = ty.ones(2) },
      forward = function(self, x) return self.acts.relu(self.acts.fc(x)) * self.scales[1] + self.scales[2] * self.more.w:sum() end,
    }
    local names = {}
    for name, p in m:named_parameters() do
      names[#names + 1] = name
      assert.truthy(p.requires_grad)
    end
    assert.same({ "acts.fc.bias", "acts.fc.weight", "more.w", "scales.1", "scales.2" }, names)
    assert.same({ "fc", "relu" }, m.acts:keys())
    local found = {}
    for name, part in m.acts:items() do found[name] = part end
    assert.truthy(rawequal(found.fc, m.acts.fc))
    assert.equal(m.acts, m.acts:update("other", nn.Tanh()))
    assert.same({ "fc", "other", "relu" }, m.acts:keys())
    assert.equal(2, #m.scales)
    assert.equal(m.scales, m.scales:append(ty.ones(2)))
    local x = ty.randn(4, 2)
    local compiled = ty.compile(m, { fullgraph = true })
    H.same(m(x), compiled(x))
    H.same(m(x), compiled(x))
    assert.equal("ModuleDict(\n  (fc): Linear(2, 3)\n  (other): Tanh()\n  (relu): ReLU()\n)", tostring(m.acts))
  end)
end)

describe("dropout of channels", function()
  it("zeroes whole channels, scales the others, and keeps the mean", function()
    ty.manual_seed(3)
    for name, shape in pairs { Dropout1d = { 40, 50, 3 }, Dropout2d = { 40, 50, 2, 3 }, Dropout3d = { 40, 50, 2, 2, 2 } } do
      local y = nn[name](0.25)(ty.ones(shape)):flatten(3)
      H.same(y:max(3), y:min(3))
      assert.near(1, y:mean():item(), 0.05, name)
      assert.near(4 / 3, y:max():item(), 1e-6)
    end
  end)

  it("of a selu keeps mean and variance", function()
    ty.manual_seed(4)
    local y = nn.AlphaDropout(0.3)(ty.randn(200, 200))
    assert.near(0, y:mean():item(), 0.02)
    assert.near(1, y:std():item(), 0.02)
    H.same(ty.zeros(3), nn.AlphaDropout(1)(ty.ones(3)))
  end)
end)

describe("pooled means of dilated windows", function()
  it("are those of the places written out", function()
    local x = ty.randn({ 1, 1, 9 }, { dtype = "f64" })
    local want = {}
    for o = 0, 2 do
      local sum, n = 0, 0
      for k = 0, 2 do
        local at = o * 2 - 1 + k * 3
        if at >= 0 and at < 9 then sum, n = sum + x:get(1, 1, at + 1), n + 1 end
      end
      want[o + 1] = sum / n
    end
    local y = ty.avg_pool1d(x, 3, { stride = 2, padding = 1, dilation = 3, count_include_pad = false })
    for i, v in ipairs(want) do assert.near(v, y:get(1, 1, i), 1e-14) end
    assert.truthy(ty.gradcheck(function(a) return ty.avg_pool1d(a, 2, { stride = 2, dilation = 2 }) end, { x }))
  end)
end)

describe("a transformer's layers", function()
  local x = ty.randn(2, 4, 8)

  it("take masks of floats and of bools, with paddings of both, to one result", function()
    local m = nn.TransformerEncoderLayer(8, 2, { inner = 6, dropout = 0 })
    local seen, real = ty.tri(4, 4, 0, { dtype = "bool" }), ty.tensor { { true, true, true, true }, { true, true, false, false } }
    local want = m(x, { mask = seen, padding = real })
    local function floats(t) return ty.where(t, ty.zeros({}), -math.huge) end
    for _, mask in ipairs { seen, floats(seen) } do
      for _, padding in ipairs { real, floats(real) } do H.same(want, m(x, { mask = mask, padding = padding })) end
    end
    local own = ty.stack { seen, seen }
    H.same(want, m(x, { mask = own, padding = real }))
    H.same(m(x)[1], m(x[1]))
  end)

  it("give the same bits whoever is hidden", function()
    local m = nn.TransformerDecoderLayer(8, 2, { inner = 6, dropout = 0 })
    local memory, real = ty.randn(2, 3, 8), ty.tensor { { true, true, false }, { true, true, true } }
    local other = memory:clone()
    other[{ 1, 3 }] = 7
    H.same(m(x, memory, { memory_padding = real }), m(x, other, { memory_padding = real }))
  end)

  it("in a stack have parameters of their own", function()
    local m = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, { inner = 6 }), 3)
    H.same(m.layers[1].linear1.weight, m.layers[2].linear1.weight)
    assert.falsy(rawequal(m.layers[1].linear1.weight, m.layers[2].linear1.weight))
    assert.equal(3 * 12, #m:parameters())
    local a, b = m(x), m(x)
    assert.falsy(ty.equal(a, b)) -- dropout
    m:eval()
    H.same(m(x), m(x))
  end)

  it("serve any batch and length by one more capture", function()
    local m = nn.Transformer(8, 2, { encoder_layers = 1, decoder_layers = 1, inner = 6 }):eval()
    local compiled = ty.compile(function(a, b) return m(a, b, { causal = true }) end)
    local calls_made = 0
    for _, n in ipairs { 3, 5, 4, 7, 9 } do
      local a, b = ty.randn(n, n + 1, 8), ty.randn(n, n, 8)
      H.same(m(a, b, { causal = true }), (ty.no_grad(compiled, a, b)))
      calls_made = calls_made + 1
    end
    local told = ty.explain(compiled)
    assert.same({ 2, calls_made }, { told.captures, told.skips }, tostring(told))
  end)

  it("of fewer heads of keys than of queries keep fewer in a cache, to the same result", function()
    local m = nn.MultiHeadAttention(8, 4, { kv_heads = 2, causal = true, rotary = true }):eval()
    assert.same({ 8, 16 }, m.in_proj_weight.shape)
    local cache = m:cache(2, 4)
    assert.same({ 2, 2, 4, 2 }, cache.k.shape)
    local want = m(x)
    for t = 1, 4 do
      assert.truthy(ty.allclose(want:narrow(2, t, 1), m(x:narrow(2, t, 1), { cache = cache }), { atol = 1e-6 }))
    end
    assert.truthy(raised(nn.MultiHeadAttention, 8, 4, { kv_heads = 3 }):find("4 heads do not divide into 3 of keys", 1, true))
  end)

  it("tell what does not fit", function()
    local m = nn.TransformerDecoderLayer(8, 2)
    for text, fn in pairs {
      ["TransformerDecoderLayer: the input must be [batch, time, 8], got f32[2,4,7]"] = function() m(ty.ones(2, 4, 7), x) end,
      ["TransformerDecoderLayer: the memory must be [batch, time, 8], got nil"] = function() m(x) end,
      ["TransformerDecoderLayer: unknown option src_mask"] = function() m(x, x, { src_mask = 1 }) end,
      ["the padding must be [batch, keys], got f32[3]"] = function() m(x, x, { padding = ty.ones(3) }) end,
      ["option mask must be a tensor, got number 3"] = function() m(x, x, { mask = 3 }) end,
      ["option activation must be a function, \"relu\""] = function() nn.TransformerEncoderLayer(8, 2, { activation = "x" }) end,
      ["TransformerEncoder: argument 1 must be a layer, got number 1"] = function() nn.TransformerEncoder(1, 2) end,
      ["TransformerEncoder: argument 2 (layers) must be whole"] = function() nn.TransformerEncoder(m) end,
      ["a width of 8 does not divide into 3 heads"] = function() nn.TransformerEncoderLayer(8, 3) end,
    } do
      local got = raised(fn)
      assert.truthy(got:find(text, 1, true), got)
    end
  end)
end)

describe("parts that are registered", function()
  it("are buffers that no requires_grad_ turns, in states or not; parameters; modules", function()
    local m = nn.Module {}
    assert.equal(m, m:register_buffer("mean", ty.ones(2)):register_buffer("scratch", ty.zeros(3), false))
    m:register_parameter("w", ty.ones(2)):add_module("fc", nn.Linear(2, 1))
    m:requires_grad_()
    assert.same({ "fc.bias", "fc.weight", "w" }, (function()
      local list = {}
      for name in m:named_parameters() do list[#list + 1] = name end
      return list
    end)())
    assert.equal(2, #m:buffers())
    assert.same({ "fc.bias", "fc.weight", "mean", "w" }, sorted(m:state_dict()))
    local other = nn.Module {}
    other:register_buffer("mean", ty.zeros(2)):register_buffer("scratch", ty.zeros(3), false)
    other:register_parameter("w", ty.zeros(2)):add_module("fc", nn.Linear(2, 1))
    assert.same({ {}, {} }, { other:load_state_dict(m:state_dict()) })
    H.same(ty.ones(2), other.mean)
    m:to "f64"
    assert.equal("f64", m.scratch.dtype)
    m:register_buffer("mean", nil)
    assert.is_nil(m.mean)
    assert.equal(1, #m:buffers())
    local norm = nn.BatchNorm1d(2):register_buffer("seen", ty.zeros(1))
    assert.is_nil(nn.BatchNorm1d(2)._buffers.seen)
    assert.truthy(norm._buffers.running_mean)
  end)

  it("are found by their path", function()
    local m = nn.Module { layers = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) }
    assert.truthy(rawequal(m.layers[2], m:get_submodule "layers.2"))
    assert.truthy(rawequal(m, m:get_submodule ""))
    assert.truthy(rawequal(m.layers[1].weight, m:get_parameter "layers.1.weight"))
    assert.truthy(rawequal(m.layers[2].running_var, m:get_buffer "layers.2.running_var"))
    for text, fn in pairs {
      ["get_submodule: there is no layers.3 in Module"] = function() m:get_submodule "layers.3" end,
      ["get_submodule: layers.1.weight is no module"] = function() m:get_submodule "layers.1.weight" end,
      ["get_parameter: layers.2.running_var is no parameter"] = function() m:get_parameter "layers.2.running_var" end,
      ["get_buffer: layers.1.weight is no buffer"] = function() m:get_buffer "layers.1.weight" end,
      ["register_buffer: argument 1 must be a name without dots, got string \"a.b\""] = function() m:register_buffer("a.b") end,
      ["register_buffer: \"forward\" is a method of Module"] = function() m:register_buffer("forward", ty.ones(1)) end,
      ["register_buffer: argument 2 must be a tensor, got number 3"] = function() m:register_buffer("x", 3) end,
      ["register_parameter: argument 2 must be of floats"] = function() m:register_parameter("x", ty.arange(2):to "i64") end,
      ["add_module: argument 2 must be a module, got nil"] = function() m:add_module("x") end,
    } do
      local got = raised(fn)
      assert.truthy(got:find(text, 1, true), got)
    end
  end)
end)

describe("a weight that is made of others", function()
  it("begins as it was, and is a parameter again when the norm is taken off", function()
    for _, name in ipairs { "weight_norm", "spectral_norm" } do
      local m, x = nn.Conv1d(2, 3, 2):to "f64", ty.randn({ 1, 2, 5 }, { dtype = "f64" })
      local before, w = m(x), m.weight:clone()
      assert.equal(m, nn.utils[name](m))
      m:eval()
      local y = m(x)
      if name == "weight_norm" then assert.truthy(ty.allclose(before, y, { rtol = 1e-12 }))
      else
        local largest = select(2, ty.linalg.svd(w:flatten(2)))[1]:item()
        assert.truthy(ty.allclose((before - m.bias:unsqueeze(2)) / largest, y - m.bias:unsqueeze(2), { rtol = 1e-3, atol = 1e-3 }))
      end
      assert.is_nil(m.weight)
      assert.equal("Conv1d", m.class_name)
      assert.equal(m, nn.utils.remove_norm(m))
      H.same(y, m(x))
      assert.same({ "bias", "weight" }, sorted(m:state_dict()))
      assert.truthy(m.weight.requires_grad)
    end
    assert.truthy(raised(nn.utils.weight_norm, nn.ReLU()):find("weight_norm: ReLU has no parameter weight", 1, true))
    assert.truthy(raised(nn.utils.remove_norm, nn.ReLU()):find("has no normalised weight", 1, true))
  end)

  it("or a vector goes back into its parameters, and sequences back to their lengths", function()
    local m = nn.Linear(2, 3)
    local v = nn.utils.parameters_to_vector(m:parameters())
    assert.same({ 9 }, v.shape)
    nn.utils.vector_to_parameters(ty.range(9), m:parameters())
    assert.same({ { 4, 5, 6 }, { 7, 8, 9 } }, m.weight:detach():totable())
    assert.truthy(raised(nn.utils.vector_to_parameters, ty.ones(8), m:parameters()):find("argument 1 must be [9], got f32[8]", 1, true))
    local a, b = ty.ones(2, 3), ty.zeros(4, 3)
    local back = nn.utils.unpad_sequence(nn.utils.pad_sequence { a, b }, { 2, 4 })
    H.same(a, back[1])
    H.same(b, back[2])
    assert.truthy(raised(nn.utils.unpad_sequence, ty.ones(2, 3), { 2 }):find("a list of 2 lengths", 1, true))
    assert.truthy(raised(nn.utils.pad_sequence, {}):find("pad_sequence: argument 1 must be a list", 1, true))
  end)
end)
