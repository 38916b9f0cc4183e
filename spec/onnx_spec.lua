--- onnx_spec.lua -- models of ONNX files: what they compute, what they take up, what they refuse. Models are written by hand
-- (onnx_encode.lua); expected values are counted by hand or come from plain operations.

local H = require "spec.helper"
local W = require "spec.onnx_encode"
local ty = H.ty

local value, node = W.value, W.node
local path

local function write(bytes)
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
end

--- The model of a graph; or nil and the message.
local function load(graph, opset, more)
  write(W.model(graph, opset, more))
  return ty.load(path)
end

--- A model of one node over inputs.
local function one(kind, inputs, attributes, opset, outputs)
  local names, values = {}, {}
  for i = 1, inputs do
    names[i] = "x" .. i
    values[i] = value(names[i])
  end
  local out = {}
  for i = 1, outputs or 1 do out[i] = "y" .. i end
  local results = {}
  for i, name in ipairs(out) do results[i] = value(name) end
  return load({ node = { node(kind, names, out, attributes) }, input = values, output = results }, opset)
end

local whole = { dtype = "i64" }

describe("a model of an ONNX file", function()
  before_each(function() path = os.tmpname() .. ".onnx" end)
  after_each(function() os.remove(path) end)

  --- A perceptron: relu(x w + b), weights within the file.
  local function perceptron()
    local w, b = ty.tensor { { 1, -2 }, { 3, 4 }, { 5, 6 } }, ty.tensor { 0.5, -100 }
    return assert(load {
      name = "net", input = { value("x", "f32", { "batch", 3 }) }, output = { value("y", "f32", { "batch", 2 }) },
      initializer = { W.tensor("w", w), W.tensor("b", b) },
      node = { node("MatMul", { "x", "w" }, { "h" }), node("Add", { "h", "b" }, { "s" }), node("Relu", { "s" }, { "y" }) },
    }), w, b
  end

  it("computes, by place and by name", function()
    local m = perceptron()
    local x = ty.tensor { { 1, 2, 3 }, { 1, 0, 0 } }
    local want = ty.tensor { { 22.5, 0 }, { 1.5, 0 } }
    H.same(want, m(x):detach())
    H.same(want, m({ x = x }).y:detach())
    H.raises("no input \"z\", the model has x", m, { z = x })
    H.raises("the input \"x\" is missing", m)
  end)

  it("transforms as its formula says: whole, half, inverse, in pieces", function()
    --- The sum of the formula over dim 2 of [1, n, 1 or 2], for m frequencies.
    local function summed(x, n, m, sign)
      local y, parts = {}, x:totable()[1]
      for k = 0, m - 1 do
        local re, im = 0, 0
        for j = 0, math.min(n, #parts) - 1 do
          local t, a, b = sign * 2 * math.pi * j * k / n, parts[j + 1][1], parts[j + 1][2] or 0
          re, im = re + a * math.cos(t) - b * math.sin(t), im + a * math.sin(t) + b * math.cos(t)
        end
        y[k + 1] = { re, im }
      end
      return ty.tensor { y }
    end
    local function near(want, got) assert.truthy((want - got:detach()):abs():max():item() < 1e-5) end
    local real, pairs = ty.randn(1, 6, 1), ty.randn(1, 6, 2)
    for _, x in ipairs { real, pairs } do
      near(summed(x, 6, 6, -1), assert(one("DFT", 1, { axis = 1 }, 17))(x))
      near(summed(x, 6, 6, 1) / 6, assert(one("DFT", 1, { axis = 1, inverse = 1 }, 17))(x))
      near(summed(x, 6, 4, -1), assert(one("DFT", 1, { axis = 1, onesided = 1 }, 17))(x))
      for _, n in ipairs { 4, 9 } do
        near(summed(x, n, n, -1), assert(one("DFT", 2, { axis = 1 }, 17))(x, ty.tensor(n, whole)))
      end
    end
    local w = ty.rand(4)
    local stft = assert(one("STFT", 3, { onesided = 1 }, 17))(real, ty.tensor(2, whole), w)
    for t = 0, 1 do
      near(summed(real:narrow(2, 1 + 2 * t, 4) * w:reshape(1, 4, 1), 4, 3, -1), stft[{ {}, t + 1 }])
    end
  end)

  it("has its weights as parameters, with gradients and a state", function()
    local m, w = perceptron()
    local names = {}
    for name in pairs(m:state_dict()) do names[#names + 1] = name end
    table.sort(names)
    assert.same({ "parts.b", "parts.w" }, names)
    local x = ty.tensor { { 1, 2, 3 } }
    m(x):sum():backward()
    H.same(ty.tensor { { 1, 0 }, { 2, 0 }, { 3, 0 } }, m.parts.w.grad) -- the second output is below 0
    H.same(w, m.parts.w:detach())
  end)

  it("is captured whole, for other sizes too, and says what it is", function()
    local m = perceptron()
    local f = ty.compile(m)
    for n = 1, 6 do
      local x = ty.randn(n, 3)
      for _ = 1, 2 do H.same(m(x):detach(), f(x):detach()) end
    end
    assert.falsy(tostring(ty.explain(f)):find "abort", tostring(ty.explain(f)))
    local text = tostring(m)
    assert.match("input   x  float%[batch, 3%]", text)
    assert.match("output  y  float%[batch, 2%]", text)
    assert.match("1 Add, 1 MatMul, 1 Relu", text)
    assert.match("8 numbers in 2 tensors", text)
  end)

  it("is shown by the command", function()
    perceptron()
    local pipe = io.popen(("'%s/tycho' --onnx '%s' 2>&1"):format(H.root, path))
    local text = pipe:read "*a"
    pipe:close()
    assert.match("^ONNX model net %(opset 21%)\n  input   x  float%[batch, 3%]\n", text)
  end)

  it("reads elements in every form that they are written in", function()
    local lists = {
      { "f32", { float_data = ("\0\0\128\63"):rep(2) } }, { "i64", { int64_data = "\1\1" } }, { "i32", { int32_data = "\1\1" } },
      { "bool", { int32_data = "\1\1" } }, { "f16", { int32_data = W.varint(0x3c00):rep(2) } }, { "i8", { int32_data = "\1\1" } },
      { "f64", { double_data = ("\0\0\0\0\0\0\240\63"):rep(2) } }, { "u8", { raw_data = "\1\1" } },
      { "u16", { int32_data = "\1\1" } }, { "u32", { uint64_data = "\1\1" } }, { "u64", { uint64_data = "\1\1" } },
    }
    for _, c in ipairs(lists) do
      local t = { name = "w", dims = { 2, 1 }, data_type = W.numbers[c[1]] }
      for k, v in pairs(c[2]) do t[k] = v end
      local m = assert(load { node = { node("Identity", { "w" }, { "y" }) }, initializer = { t }, output = { value "y" } })
      H.same(ty.ones(2, 1, { dtype = c[1] }), m():detach(), c[1])
    end
    local negative = { name = "w", dims = { 1, 1 }, data_type = 7, int64_data = W.varint(-5) }
    local m = assert(load { node = { node("Identity", { "w" }, { "y" }) }, initializer = { negative }, output = { value "y" } })
    assert.equal(-5, m():item())
    local all = { name = "w", dims = { 1 }, data_type = 13, uint64_data = W.varint(65539) }
    m = assert(load { node = { node("Cast", { "w" }, { "y" }, { to = 4 }) }, initializer = { all }, output = { value "y" } })
    H.same(ty.tensor({ 3 }, { dtype = "u16" }), m():detach())
  end)

  it("takes elements from a file beside it, never from elsewhere", function()
    local side = path:gsub("onnx$", "data")
    local f = assert(io.open(side, "wb"))
    f:write(("\0"):rep(8), "\0\0\128\63", "\0\0\0\64")
    f:close()
    local function at(location, offset)
      return load { node = { node("Identity", { "w" }, { "y" }) }, output = { value "y" }, initializer = { { name = "w",
        dims = { 2, 1 }, data_type = 1, data_location = 1, external_data = { { key = "location", value = location },
          { key = "offset", value = offset }, { key = "length", value = "8" } } } } }
    end
    H.same(ty.tensor { { 1 }, { 2 } }, assert(at(side:match "[^/]+$", "8"))():detach())
    for location, why in pairs { [side] = "not within", ["../" .. side:match "[^/]+$"] = "not within", ["no.data"] = "No such file" } do
      local m, message = at(location, "8")
      assert.is_nil(m)
      assert.match(why, message)
    end
    local m, message = at(side:match "[^/]+$", "16")
    assert.is_nil(m)
    assert.match("behind the end", message)
    os.remove(side)
  end)

  it("computes shapes without elements: one capture for every length", function()
    -- y = reshape(x, [shape(x)[0], -1]) * size
    local m = assert(load {
      input = { value("x", "f32", { "n", "a", "b" }) }, output = { value "y" },
      initializer = { W.tensor("zero", ty.tensor({ 0 }, whole)), W.tensor("rest", ty.tensor({ -1 }, whole)) },
      node = { node("Shape", { "x" }, { "s" }), node("Gather", { "s", "zero" }, { "n" }),
        node("Concat", { "n", "rest" }, { "to" }, { axis = 0 }), node("Reshape", { "x", "to" }, { "r" }),
        node("Size", { "x" }, { "count" }), node("Cast", { "count" }, { "f" }, { to = 1 }), node("Mul", { "r", "f" }, { "y" }) },
    })
    local f = ty.compile(m)
    for n = 1, 8 do
      local x = ty.randn(n, 2, 3)
      for _ = 1, 2 do H.same(x:reshape(n, 6) * (6 * n), f(x)) end
    end
    local text = tostring(ty.explain(f))
    assert.falsy(text:find "abort", text)
    assert.truthy(tonumber(text:match "(%d+) captures?") <= 3, text)
  end)

  it("reads a number that decides first, and is one part behind it", function()
    local function branch(by)
      local nodes = { node("Mul", { "x", by }, { "v0" }) }
      for i = 1, 12 do nodes[i + 1] = node(i % 2 == 0 and "Tanh" or "Sigmoid", { "v" .. i - 1 }, { "v" .. i }) end
      return { node = nodes, output = { value "v12" } }
    end
    local m = assert(load {
      input = { value("x", "f32", { "n" }), value("rate", "i64", {}) }, output = { value "y" },
      initializer = { W.tensor("a", ty.tensor { { 2 } }), W.tensor("b", ty.tensor { { 3 } }),
        W.tensor("limit", ty.tensor(8000, whole)) },
      node = { node("Greater", { "rate", "limit" }, { "c" }),
        node("If", { "c" }, { "y" }, { then_branch = branch "a", else_branch = branch "b" }) },
    })
    local f = ty.compile(m)
    for k = 1, 24 do
      local x, rate = ty.randn(1, 4000), ty.tensor(k % 3 == 0 and 16000 or 8000 - k, whole)
      ty.no_grad(function() H.same(m(x, rate), f(x, rate)) end)
    end
    local text = tostring(ty.explain(f))
    assert.falsy(text:find "abort", text)
    assert.truthy(ty.explain(f).skips >= 20, text)
  end)

  it("puts pads together as PyTorch writes them, without elements", function()
    -- the list [before, after] of the last dim, lengthened by zeros, turned row by row
    local m = assert(load {
      input = { value("x", "f32", { "a", "b" }) }, output = { value "y" },
      initializer = { W.tensor("two", ty.tensor({ 2 }, whole)), W.tensor("given", ty.tensor({ 1, 2 }, whole)),
        W.tensor("rows", ty.tensor({ -1, 2 }, whole)), W.tensor("last", ty.tensor({ -1 }, whole)),
        W.tensor("first", ty.tensor({ -9223372036854775807 }, whole)), W.tensor("zero", ty.tensor({ 0 }, whole)) },
      node = { node("ConstantOfShape", { "two" }, { "zeros" }, { value = W.tensor("v", ty.tensor({ 0 }, whole)) }),
        node("Concat", { "given", "zeros" }, { "all" }, { axis = 0 }), node("Reshape", { "all", "rows" }, { "table" }),
        node("Slice", { "table", "last", "first", "zero", "last" }, { "turned" }),
        node("Transpose", { "turned" }, { "sides" }, { perm = { 1, 0 } }), node("Reshape", { "sides", "last" }, { "line" }),
        node("Cast", { "line" }, { "pads" }, { to = 7 }), node("Pad", { "x", "pads" }, { "y" }, { mode = "reflect" }) },
    })
    local x = ty.tensor { { 1, 2, 3, 4 } }
    local want = ty.tensor { { 2, 1, 2, 3, 4, 3, 2 } }
    local f = ty.compile(m)
    for _ = 1, 3 do
      H.same(want, m(x))
      H.same(want, f(x))
    end
    assert.falsy(tostring(ty.explain(f)):find "abort", tostring(ty.explain(f)))
  end)

  it("runs the graphs of If, Loop and Scan, which read what is around them", function()
    local function branch(by)
      return { node = { node("Mul", { "x", by }, { "z" }) }, output = { value "z" } }
    end
    local m = assert(load {
      input = { value "x", value("c", "bool", {}) }, output = { value "y" },
      initializer = { W.tensor("two", ty.tensor { { 2 } }), W.tensor("three", ty.tensor { { 3 } }) },
      node = { node("If", { "c" }, { "y" }, { then_branch = branch "two", else_branch = branch "three" }) },
    })
    local x = ty.tensor { { 1, 2 } }
    H.same(x * 2, m(x, ty.tensor(true)):detach())
    H.same(x * 3, m(x, ty.tensor(false)):detach())

    -- what no node reads any more, but the graph inside
    m = assert(load {
      input = { value "x", value("c", "bool", {}) }, output = { value "y", value "s" },
      node = { node("Exp", { "x" }, { "h" }), node("Neg", { "h" }, { "s" }), node("If", { "c" }, { "y" }, {
        then_branch = { node = { node("Identity", { "h" }, { "z" }) }, output = { value "z" } },
        else_branch = { node = { node("Neg", { "h" }, { "z" }) }, output = { value "z" } } }) },
    })
    H.same(x:exp(), (m(x, ty.tensor(true))))
    H.same(-x:exp(), (m(x, ty.tensor(false))))

    -- five turns of v = v + x, each v kept
    local body = { input = { value("i", "i64", {}), value("c", "bool", {}), value "v" }, output = { value "c2", value "v2", value "row" },
      node = { node("Identity", { "c" }, { "c2" }), node("Add", { "v", "x" }, { "v2" }), node("Identity", { "v2" }, { "row" }) } }
    m = assert(load { input = { value "x" }, output = { value "last", value "rows" },
      initializer = { W.tensor("n", ty.tensor(5, whole)) },
      node = { node("Loop", { "n", "", "x" }, { "last", "rows" }, { body = body }) } })
    local last, rows = m(x)
    H.same(x * 6, last)
    H.same(ty.tensor { { { 2, 4 } }, { { 3, 6 } }, { { 4, 8 } }, { { 5, 10 } }, { { 6, 12 } } }, rows)

    local sums = { input = { value "a", value "e" }, output = { value "a2", value "k" },
      node = { node("Add", { "a", "e" }, { "a2" }), node("Identity", { "a2" }, { "k" }) } }
    m = assert(load { input = { value "a0", value "xs" }, output = { value "end", value "all" },
      node = { node("Scan", { "a0", "xs" }, { "end", "all" }, { body = sums, num_scan_inputs = 1 }) } })
    local finish, all = m(ty.zeros(2), ty.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } })
    H.same(ty.tensor { 9, 12 }, finish)
    H.same(ty.tensor { { 1, 2 }, { 4, 6 }, { 9, 12 } }, all)
  end)

  it("expands the model's own functions, with the caller's attributes", function()
    local scaled = { name = "Scaled", domain = "own", input = { "a" }, output = { "b" }, attribute = { "k" },
      opset_import = { { domain = "", version = 21 } },
      node = { node("LeakyRelu", { "a" }, { "b" }), } }
    scaled.node[1].attribute = { { name = "alpha", ref_attr_name = "k", type = 1 } }
    local function m(k)
      return assert(load({ input = { value "x" }, output = { value "y" },
        node = { node("Scaled", { "x" }, { "y" }, { k = k }, { domain = "own" }) } }, 21, { functions = { scaled } }))
    end
    local x = ty.tensor { -1, 1 }
    H.same(ty.tensor { -0.25, 1 }, m(0.25)(x))
    H.same(ty.tensor { -0.5, 1 }, m(0.5)(x))
  end)

  it("knows operators as their versions have them", function()
    local x = ty.tensor { { { 1, 2 }, { 3, 4 } } }
    -- before 13 softmax goes over all dims from the axis on
    H.same(x:reshape(1, 4):softmax(2):reshape(1, 2, 2), one("Softmax", 1, { axis = 1 }, 11)(x))
    H.same(x:softmax(2), one("Softmax", 1, { axis = 1 }, 13)(x))
    -- integers are divided towards zero
    H.same(ty.tensor({ -3, 3, -3 }, whole), one("Div", 2)(ty.tensor({ -7, 7, 7 }, whole), ty.tensor({ 2, 2, -2 }, whole)))
    local sizes = assert(load { output = { value "y" }, node = { node("Div", { "a", "b" }, { "y" }) }, initializer = {
      W.tensor("a", ty.tensor({ -7, 7 }, whole)), W.tensor("b", ty.tensor({ 2, -2 }, whole)) } })
    H.same(ty.tensor({ -3, -3 }, whole), sizes())
    H.same(ty.tensor({ 1, 1, -1 }, whole), one("Mod", 2)(ty.tensor({ -7, 7, 7 }, whole), ty.tensor({ 2, 2, -2 }, whole)))
    H.same(ty.tensor({ -1, 1, 1 }, whole), one("Mod", 2, { fmod = 1 })(ty.tensor({ -7, 7, 7 }, whole), ty.tensor({ 2, 2, -2 }, whole)))
    -- positions count from 0, and from the end
    H.same(ty.tensor { 3, 1 }, one("Gather", 2)(ty.tensor { 1, 2, 3 }, ty.tensor({ -1, 0 }, whole)))
    H.same(ty.tensor({ 1 }, whole), one("ArgMax", 1, { keepdims = 0 })(ty.tensor { { 1 }, { 5 }, { 2 } }))
    local most, at = one("TopK", 2, { axis = 0 }, 21, 2)(ty.tensor { 1, 5, 3 }, ty.tensor({ 2 }, whole))
    H.same(ty.tensor { 5, 3 }, most)
    H.same(ty.tensor({ 1, 2 }, whole), at)
  end)

  it("counts runs of integers, with and without places between", function()
    local attributes = { mode = "TF", min_gram_length = 1, max_gram_length = 2, max_skip_count = 1, ngram_counts = { 0, 2 },
      ngram_indexes = { 3, 0, 1, 2 }, pool_int64s = { 5, 6, 5, 6, 6, 5 } } -- 5; 6; 5 6; 6 5
    local x = ty.tensor({ { 5, 6, 5, 1 }, { 6, 1, 5, 6 } }, whole)
    H.same(ty.tensor { { 1, 1, 1, 2 }, { 2, 1, 1, 1 } }, one("TfIdfVectorizer", 1, attributes)(x))
    H.same(ty.tensor { 1, 1, 1, 2 }, one("TfIdfVectorizer", 1, attributes)(x[1]:to "i32"))
    attributes.mode, attributes.weights = "IDF", { 0.5, 1.5, 2.5, 4.5 }
    H.same(ty.tensor { 1.5, 2.5, 4.5, 0.5 }, one("TfIdfVectorizer", 1, attributes)(x[1]))
    for key, bad in pairs { ngram_counts = { 0, 9 }, ngram_indexes = { 3 }, mode = "no", max_gram_length = 0, pool_int64s = { 1 } } do
      local kept = attributes[key]
      attributes[key] = bad
      assert.is_nil((one("TfIdfVectorizer", 1, attributes)), key)
      attributes[key] = kept
    end
  end)

  it("takes maxima of boxes, and reads files of images", function()
    local x = ty.arange(16):reshape(1, 1, 4, 4)
    local m = one("MaxRoiPool", 2, { pooled_shape = { 2, 2 } })
    H.same(ty.tensor { { { { 5, 7 }, { 13, 15 } } }, { { { 10, 10 }, { 10, 10 } } } },
      m(x, ty.tensor { { 0, 0, 0, 3, 3 }, { 0, 2, 2, 1, 1 } }))
    local pixels = ty.tensor({ { { 10, 20 } }, { { 30, 40 } }, { { 50, 60 } } }, { dtype = "u8" })
    local file = ty.tensor({ ty.image.encode(pixels, H.windows and "ppm" or "png"):byte(1, -1) }, { dtype = "u8" })
    H.same(pixels:permute(2, 3, 1), one("ImageDecoder", 1, {}, 20)(file))
    H.same(pixels:flip(1):permute(2, 3, 1), one("ImageDecoder", 1, { pixel_format = "BGR" }, 20)(file))
    assert.same({ { { 26 }, { 36 } } }, one("ImageDecoder", 1, { pixel_format = "Grayscale" }, 20)(file):totable())
    assert.truthy(H.raises(one("ImageDecoder", 1, {}, 20), ty.zeros(9, { dtype = "u8" })):find "^ImageDecoder: image: is no PNG")
  end)

  it("names what is not supported, before anything runs", function()
    for _, c in ipairs {
      { node("Frobnicate", { "x" }, { "y" }, {}, { name = "third" }), "third %(Frobnicate%): the operator Frobnicate is not supported" },
      { node("Relu", { "x" }, { "y" }, { slope = 2 }), "node 1 %(Relu%): the attribute slope is not supported" },
      { node("Cast", { "x" }, { "y" }, { to = 17 }), "node 1 %(Cast%): the type float8e4m3fn is not supported" },
      { node("Relu", { "nowhere" }, { "y" }), "node 1 %(Relu%): the value \"nowhere\" is read before any node gives it" },
      { node("Op", { "x" }, { "y" }, {}, { domain = "com.other" }), "the operator com.other.Op is not supported" },
    } do
      local m, message = load { input = { value "x" }, output = { value "y" }, node = { c[1] } }
      assert.is_nil(m)
      assert.match(c[2], message)
    end
    local m, message = load({ input = { value "x" }, output = { value "x" } }, 99)
    assert.is_nil(m)
    assert.match("of version 99, the newest known is", message)
    m, message = load { node = { node("Identity", { "w" }, { "y" }) }, output = { value "y" },
      initializer = { { name = "w", dims = { 2 }, data_type = 8, string_data = { "a", "b" } } } }
    assert.is_nil(m)
    assert.match("the initializer \"w\": its elements are strings", message)
  end)

  it("refuses what is damaged, whichever byte, and takes no more memory than it may", function()
    perceptron()
    local f = assert(io.open(path, "rb"))
    local bytes = f:read "*a"
    f:close()
    for cut = 0, #bytes - 1, 3 do
      write(bytes:sub(1, cut))
      local ok, m, message = pcall(ty.load, path)
      assert.truthy(ok, m)
      assert.truthy(m ~= nil or type(message) == "string")
    end
    local r = H.random(11)
    for _ = 1, 800 do
      local at, list = r.whole(1, #bytes), { bytes:byte(1, -1) }
      list[at] = r.whole(0, 255)
      write(string.char(unpack(list)))
      local ok, m, message = pcall(ty.load, path)
      assert.truthy(ok, m)
      assert.truthy(m ~= nil or type(message) == "string")
    end
    -- a message in a message in a message, an endless number, a length behind the end, a million empty nodes
    local deep = "" -- graph, node, attribute, graph ...
    for _ = 1, 40 do
      for _, tag in ipairs { "\50", "\42", "\10" } do deep = tag .. W.varint(#deep) .. deep end
    end
    for _, c in ipairs {
      { "\58" .. W.varint(#deep) .. deep, "nested too deep" }, { ("\255"):rep(20), "no end" }, { "\58\255\1", "behind the end" },
      { "\58" .. W.varint(2 * 2 ^ 20) .. ("\10\0"):rep(2 ^ 20), "takes too much memory" }, { "\11\12", "unknown type 3" } } do
      write(c[1])
      local m, message = ty.load(path)
      assert.is_nil(m)
      if c[2] then assert.match(c[2], message) end
    end
  end)
end)
