-- cuda_attention_fast_spec.lua -- attention of half floats on the device "cuda" by cuDNN, on the software GPU and a stand-in of the
-- library (spec/gpu/lib/cudnn) that checks its calls; its bits depend on engine and knobs. Expected values: the formula in f64.
-- The device's own kernels are in cuda_fast_spec.lua.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local graph = require "tycho.graph"
local ty = H.ty

local probe = cuda.soft and it or pending
ty.device "cpu"

local fake
if cuda.soft then
  -- the device's own fast kernel may take the processor's own exp2
  require("spec.soft_gpu").cu.soft_gpu_set("APPROXIMATE", 1)
  local ffi = require "ffi"
  ffi.cdef [[
    int soft_cudnn_executions(void); int soft_cudnn_asked(void); int soft_cudnn_plans(void); int soft_cudnn_compiled(void);]]
  fake = ffi.load(os.getenv "TYCHO_CUDNN")
end

--- Numbers of either sign, below 1.
local function numbers(dtype, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin()):to(dtype):reshape { ... }
end

local function on(dtype) return function(...) return numbers(dtype, ...):to "cuda" end end

--- f(...) at that precision; how often the library computed for it.
local function at(precision, f, ...)
  ty.precision(precision)
  local before = fake.soft_cudnn_executions()
  local results = { pcall(f, ...) }
  ty.precision "exact"
  assert(results[1], results[2])
  return fake.soft_cudnn_executions() - before, unpack(results, 2)
end

local function wide(x) return x:to "cpu":to "f64" end

local ROUND = { f16 = 2 ^ -11, bf16 = 2 ^ -8 }

--- softmax(q k^t / sqrt(d)) v in f64 and what weights and result may be off, that are rounded to the dtype once each.
local function oracle(q, k, v, causal, dtype)
  local n, m = q:size(-2), k:size(-2)
  local scores = q:matmul(k.mT) / math.sqrt(q:size(-1))
  if causal then scores = (ty.arange(m):reshape(1, m) - ty.arange(n):reshape(n, 1)):le(m - n):where(scores, -math.huge) end
  local weights = scores:softmax(-1)
  local y = weights:matmul(v)
  return y, (weights:matmul(v:abs()) + y:abs()) * (ROUND[dtype] + 2 ^ -16) + 1e-6
end

--- Heads of keys and values that serve several of queries.
local function groups(x, heads) return x:repeat_interleave(heads / x:size(-3), -3) end

local FORMS = { -- operands, as a user has them: f(n), n makes numbers
  ["in order"] = function(n) return n(2, 3, 17, 16), n(2, 3, 21, 16), n(2, 3, 21, 16) end,
  ["without heads"] = function(n) return n(3, 17, 16), n(3, 21, 16), n(3, 21, 16) end,
  ["without leading dims"] = function(n) return n(17, 16), n(21, 16), n(21, 16) end,
  ["as many queries as keys"] = function(n) return n(2, 3, 21, 16), n(2, 3, 21, 16), n(2, 3, 21, 16) end,
  ["one key"] = function(n) return n(2, 3, 17, 16), n(2, 3, 1, 16), n(2, 3, 1, 16) end,
  ["more positions than a tile"] = function(n) return n(1, 2, 70, 24), n(1, 2, 133, 24), n(1, 2, 133, 24) end,
  ["values of another width"] = function(n) return n(2, 3, 17, 16), n(2, 3, 21, 16), n(2, 3, 21, 40) end,
  ["128 features"] = function(n) return n(1, 2, 17, 128), n(1, 2, 21, 128), n(1, 2, 21, 128) end,
  ["heads between positions"] = function(n)
    return n(2, 17, 3, 16):transpose(2, 3), n(2, 21, 3, 16):transpose(2, 3), n(2, 21, 3, 16):transpose(2, 3)
  end,
  ["parts of one product"] = function(n)
    local all = n(2, 21, 3, 3, 16)
    return all[{ {}, {}, 1 }]:transpose(2, 3), all[{ {}, {}, 2 }]:transpose(2, 3), all[{ {}, {}, 3 }]:transpose(2, 3)
  end,
  ["rows of a wider tensor"] = function(n)
    return n(2, 3, 17, 40)[{ "...", { 9, 24 } }], n(2, 3, 21, 24)[{ "...", { 1, 16 } }], n(2, 3, 21, 16)
  end,
  ["that are not aligned"] = function(n)
    return n(2, 3, 17, 40)[{ "...", { 2, 17 } }], n(2, 3, 21, 24)[{ "...", { 3, 18 } }], n(2, 3, 21, 16)
  end,
  ["rows that are not aligned"] = function(n)
    return n(2, 3, 17, 19)[{ "...", { 1, 16 } }], n(2, 3, 21, 17)[{ "...", { 1, 16 } }], n(2, 3, 21, 16)
  end,
  ["every other feature"] = function(n) return n(2, 3, 17, 32)[{ "...", { 1, -1, 2 } }], n(2, 3, 21, 16), n(2, 3, 21, 16) end,
  ["positions in reverse"] = function(n) return n(2, 3, 17, 16):flip(-2), n(2, 3, 21, 16), n(2, 3, 21, 16):flip(-2) end,
  ["features that lie apart"] = function(n) return n(2, 3, 16, 17).mT, n(2, 3, 16, 21).mT, n(2, 3, 21, 16) end,
  ["many leading dims"] = function(n) return n(2, 2, 3, 17, 16), n(2, 2, 3, 21, 16), n(2, 2, 3, 21, 16) end,
  ["leading dims in another order"] = function(n)
    return n(2, 4, 3, 17, 16):transpose(1, 2), n(2, 4, 3, 21, 16):transpose(1, 2), n(2, 4, 3, 21, 16):transpose(1, 2)
  end,
  ["keys that the batch shares"] = function(n) return n(2, 3, 17, 16), n(1, 3, 21, 16), n(1, 3, 21, 16) end,
  ["keys that heads share, in groups"] = function(n) return n(2, 4, 17, 16), n(2, 2, 21, 16), n(2, 2, 21, 16) end,
  ["keys that all heads share"] = function(n) return n(2, 4, 17, 16), n(2, 1, 21, 16), n(2, 1, 21, 16) end,
  ["keys alone that all heads share"] = function(n) return n(2, 4, 17, 16), n(2, 1, 21, 16), n(2, 4, 21, 16) end,
}

describe("attention by cuDNN", function()
  for name, form in pairs(FORMS) do
    probe("is right to roundings of weights and result, and the same compiled: " .. name, function()
      for dtype in pairs(ROUND) do
        local q, k, v = form(on(dtype))
        for _, causal in ipairs { false, true } do
          if not causal or q:size(-2) <= k:size(-2) then
            local options = { causal = causal }
            local function f(a, b, c) return ty.scaled_dot_product_attention(a, b, c, options) end
            local n, y = at("fast", f, q, k, v)
            assert.equal(1, n)
            assert.equal(dtype, y.dtype)
            local a, b, c = wide(q), wide(k), wide(v)
            if a.ndim > 3 and b:size(-3) > 1 then b, c = groups(b, a:size(-3)), groups(c, a:size(-3)) end
            local want, off = oracle(a, b, c, causal, dtype)
            assert.truthy(((wide(y) - want):abs() - off):max():item() <= 0, dtype)
            for what, g in pairs {
              plain = f,
              contiguous = function(x, u, w) return f(x:contiguous(), u:contiguous(), w:contiguous()) end,
              maps = function(x, u, w) return f(-(-x), u * 1, w + 0) end,
            } do
              local compiled = ty.compile(g)
              for _ = 1, 3 do
                local ran, z = at("fast", compiled, q, k, v)
                assert.equal(1, ran)
                H.same(y:to "cpu", z:to "cpu", what)
              end
            end
          end
        end
      end
    end)
  end

  probe("is not asked for masks, dropout, queries that see no key, sizes that no engine takes, and what is exact", function()
    local function none(precision, q, k, v, options)
      assert.equal(0, (at(precision, ty.scaled_dot_product_attention, q, k, v, options)))
    end
    local x, y = on "f16"(2, 21, 16), on "f16"(2, 17, 16)
    none("fast", x, x, x, { mask = ty.ones({ 21, 21 }, { dtype = "bool", device = "cuda" }) })
    none("fast", x, x, x, { dropout = 0.5 })
    none("fast", x, y, y, { causal = true })
    local empty = ty.zeros({ 2, 0, 16 }, { dtype = "f16", device = "cuda" })
    none("fast", x, empty, empty)
    none("fast", on "f16"(2, 15, 16), x, x)
    none("fast", on "f16"(2, 1, 16), x, x, { causal = true })
    none("exact", x, x, x)
    none("fast", x:to "f32", x:to "f32", x:to "f32")
    none("tf32", x:to "f32", x:to "f32", x:to "f32")
    none("fast", x:to "f64", x:to "f64", x:to "f64")
    none("fast", x:to "cpu", x:to "cpu", x:to "cpu")
    for _, width in ipairs { 4, 20, 136 } do
      local z = on "bf16"(2, 21, width)
      none("fast", z, z, z)
      none("fast", x:to "bf16", x:to "bf16", z)
    end
    assert.equal(1, (at("fast", ty.scaled_dot_product_attention, x, y, y)))
  end)

  probe("is chosen by autocast, too", function()
    local x = on "f32"(2, 21, 16)
    local f = function() return ty.scaled_dot_product_attention(x:to "bf16", x:to "bf16", x:to "bf16") end
    assert.equal(1, (at("exact", function() return ty.autocast("bf16", f) end)))
  end)

  probe("asks for an engine once a shape, plans it once, and compiles a kernel for all sizes of batch, heads and positions", function()
    local function run(dtype, b, h, n, m, d, options)
      local q, k = on(dtype)(b, h, n, d), on(dtype)(b, h, m, d)
      at("fast", ty.scaled_dot_product_attention, q, k, k, options)
    end
    local function counts() return { fake.soft_cudnn_asked(), fake.soft_cudnn_plans(), fake.soft_cudnn_compiled() } end
    local function more(f)
      local before = counts()
      f()
      local after = counts()
      return { after[1] - before[1], after[2] - before[2], after[3] - before[3] }
    end
    assert.same({ 1, 1, 1 }, more(function() run("f16", 2, 3, 17, 21, 72) end))
    assert.same({ 0, 0, 0 }, more(function() for _ = 1, 5 do run("f16", 2, 3, 17, 21, 72) end end))
    assert.same({ 1, 1, 0 }, more(function() run("f16", 1, 2, 18, 18, 72) end))
    assert.same({ 1, 1, 1 }, more(function() run("f16", 1, 2, 18, 18, 72, { causal = true }) end))
    assert.same({ 1, 1, 1 }, more(function() run("f16", 1, 2, 17, 18, 72, { causal = true }) end))
    assert.same({ 1, 1, 0 }, more(function() run("f16", 1, 2, 17, 19, 72, { causal = true }) end))
    assert.same({ 1, 1, 1 }, more(function() run("bf16", 2, 3, 17, 21, 72) end))
    local q = on "f16"(2, 17, 3, 72):transpose(2, 3) -- as it lies, by the engine of the packed one
    local k = on "f16"(2, 3, 21, 72)
    assert.same({ 0, 1, 0 }, more(function() at("fast", ty.scaled_dot_product_attention, q, k, k) end))
  end)

  probe("keeps plans within a bound", function()
    local one = on "f16"(16, 8)
    for n = 1, 300 do
      local k = ty.full({ n, 8 }, 0.5, { dtype = "f16", device = "cuda" })
      local _, y = at("fast", ty.scaled_dot_product_attention, one, k, k)
      if n % 50 == 0 then assert.near(0.5, y:to "f32":mean():item(), 1e-3) end
    end
  end)

  probe("has its gradients by the device's own kernels, as those of the formula", function()
    for dtype in pairs(ROUND) do
      for _, options in ipairs { {}, { causal = true } } do
        local q, k, v = numbers(dtype, 2, 3, 17, 16), numbers(dtype, 2, 3, 21, 16), numbers(dtype, 2, 3, 21, 24)
        local function f(x)
          return (ty.scaled_dot_product_attention(x[1], x[2], x[3], options):to "f32" * ty.arange(24, { device = x[1].device })):sum()
        end
        local want = ty.grad(function(x)
          return (oracle(x[1], x[2], x[3], options.causal, dtype) * ty.arange(24):to "f64"):sum()
        end) { wide(q), wide(k), wide(v) }
        local n, got = at("fast", ty.grad(f), { q:to "cuda", k:to "cuda", v:to "cuda" })
        assert.equal(1, n)
        local g = ty.compile(function(a, b, c) return ty.grad(f) { a, b, c } end)
        for _ = 1, 3 do
          local _, same = at("fast", g, q:to "cuda", k:to "cuda", v:to "cuda")
          for i = 1, 3 do H.same(got[i]:to "cpu", same[i]:to "cpu") end
        end
        for i = 1, 3 do
          assert.equal(dtype, got[i].dtype)
          local worst = (wide(got[i]) - want[i]):abs():max():item() / want[i]:abs():max():item()
          assert.truthy(worst < 8 * ROUND[dtype], ("%s %d: %g"):format(dtype, i, worst))
        end
      end
    end
  end)

  probe("has gradients of gradients", function()
    local x = numbers("f16", 18, 8)
    local function twice(device)
      local function f(a) return ty.scaled_dot_product_attention(a, a, a):to "f32":sin():sum() end
      return ty.grad(function(a) return (ty.grad(f)(a):to "f32" ^ 2):sum() end)(x:to(device))
    end
    local want = twice "cpu"
    local _, got = at("fast", twice, "cuda")
    assert.truthy((wide(got) - wide(want)):abs():max():item() < 2 ^ -7 * want:abs():max():item() * 4)
  end)

  probe("has eager's bits where the scale is a number of the call", function()
    for dtype, precision in pairs { f32 = "tf32", f16 = "fast", bf16 = "fast" } do
      for _, features in ipairs { 16, 20, 136 } do -- the library and one kernel of the device's own, another, a third
        local q, k = on(dtype)(2, 3, 17, features), on(dtype)(2, 3, 21, features)
        local function f(a, b, scale) return ty.scaled_dot_product_attention(a, b, b, { scale = scale }) end
        local g = ty.compile(f)
        for turn = 1, 4 do
          local _, want = at(precision, f, q, k, 0.1 + turn / 7)
          local _, got = at(precision, g, q, k, 0.1 + turn / 7)
          H.same(want:to "cpu", got:to "cpu", dtype .. features)
        end
      end
    end
  end)

  probe("serves examples of a vmap at once", function()
    local q, k = on "f16"(4, 3, 17, 16), on "f16"(4, 3, 21, 16)
    local f = ty.vmap(function(a, b) return ty.scaled_dot_product_attention(a, b, b) end)
    local n, y = at("fast", f, q, k)
    assert.equal(1, n)
    local _, z = at("fast", ty.scaled_dot_product_attention, q, k, k)
    H.same(z:to "cpu", y:to "cpu")
  end)

  probe("goes on where a plan for a range of sizes serves another one", function()
    local f = ty.compile(function(q, k) return ty.scaled_dot_product_attention(q * 1, k, k, { causal = true }) * 2 end)
    for _, m in ipairs { 21, 24, 19, 40, 21, 17 } do
      local q, k = on "bf16"(2, 3, 17, 16), on "bf16"(2, 3, m, 16)
      local _, want = at("fast", ty.scaled_dot_product_attention, q, k, k, { causal = true })
      local n, y = at("fast", f, q, k)
      assert.equal(1, n)
      H.same((want * 2):to "cpu", y:to "cpu")
    end
  end)

  probe("is a node like any other: its graph is sound, is read from its text, runs, and so does its source", function()
    local q, k = on "f16"(2, 3, 17, 16), on "f16"(2, 3, 21, 16)
    local function f(a, b) return ty.scaled_dot_product_attention(a, b, b, { causal = true }) end
    local _, want, g = at("fast", function() return f(q, k), assert(graph.record(f, q, k)) end)
    assert.is_nil(g:lint())
    local text = g:text()
    assert.truthy(text:find("attend %%0 %%1 %%1", 1), text)
    for what, run in pairs {
      run = function() return g:run(q, k) end,
      text = function() return graph.parse(text):run(q, k) end,
      source = function() return loadstring(g:source())()(q, k) end,
    } do
      local n, y = at("exact", run)
      assert.equal(1, n, what)
      H.same(want:to "cpu", y:to "cpu", what)
    end
    assert.has_error(function() graph.parse((text:gsub("@cuda", ""))) end)
  end)

  probe("goes by each device's own handle", function()
    local x = numbers("f16", 2, 3, 21, 16)
    local n, y = at("fast", ty.scaled_dot_product_attention, x:to "cuda", x:to "cuda", x:to "cuda")
    local m, z = at("fast", ty.scaled_dot_product_attention, x:to "cuda:1", x:to "cuda:1", x:to "cuda:1")
    assert.same({ 1, 1, "cuda:1" }, { n, m, z.device })
    H.same(y:to "cpu", z:to "cpu")
  end)

  probe("runs in a model that learns, as compiled as not", function()
    local function losses(compile)
      ty.manual_seed(3)
      local layer = ty.nn.MultiHeadAttention(32, 4):to "bf16":to "cuda"
      local x, list = on "bf16"(2, 21, 32), {}
      local opt = ty.optim.SGD(layer:parameters(), { lr = 0.1 })
      local function step(a)
        opt:zero_grad()
        local loss = (layer(a):to "f32" ^ 2):mean()
        loss:backward()
        opt:step()
        return loss
      end
      step = compile and ty.compile(step) or step
      for i = 1, 4 do list[i] = step(x):item() end
      return list
    end
    local n, want = at("fast", losses, false)
    local m, got = at("fast", losses, true)
    assert.same({ 4, 4 }, { n, m })
    assert.truthy(want[4] < want[1], table.concat(want, " "))
    assert.same(want, got)
  end)
end)

--- What a program prints in a process of its own: half(...) makes f16 numbers on the device, attend is attention.
local function gives(want, environment, program)
  return cuda.gives(want, "TYCHO_LOG= TYCHO_CUDA_INTERPRET=0 " .. environment, [[
    local ty = require "tycho"
    require "spec.cuda"
    require("spec.soft_gpu").cu.soft_gpu_set("APPROXIMATE", 1)
    ty.precision "fast"
    local function half(...)
      local n = 1
      for _, size in ipairs { ... } do n = n * size end
      return (ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin():to "f16":reshape { ... }:to "cuda"
    end
    local attend = ty.scaled_dot_product_attention
    local function text(x) return table.concat(x:to "cpu":to "f32":flatten():totable(), " ") end
    local function right(y, q, k, v)
      local function wide(x) return x:to "cpu":to "f64" end
      local want = (wide(q):matmul(wide(k).mT) / math.sqrt(q:size(-1))):softmax(-1):matmul(wide(v))
      local off = (wide(y) - want):abs():max():item()
      assert(off < 2 ^ -9, off)
    end
    local q, k = half(2, 3, 17, 16), half(2, 3, 21, 16)
  ]] .. program)
end

describe("what goes wrong with cuDNN:", function()
  local own = [[
    local y = attend(q, k, k)
    right(y, q, k, k)
    assert(text(y) == text(attend(q, k, k)) and text(y) == text(ty.compile(function(a, b) return attend(a, b, b) end)(q, k)))
    print(attend(q, k, k):to "f32":sum():get())
  ]]
  local sum = "%-?[%d.e-]+\n"
  probe("it is not there, is too old, or does not start: the device's own kernel goes on, which one line says", function()
    for _, environment in ipairs {
      "TYCHO_CUDNN=/nowhere/x.so", "TYCHO_CUDNN=off", "TYCHO_CUDNN=libm.so.6", "SOFT_CUDNN_CREATE=-1", "SOFT_CUDNN_VERSION=91001",
    } do
      gives("^tycho: cuda: cuDNN 9.10.2 or newer was not found: attention [^\n]*\n" .. sum .. "status 0\n$", environment, own)
    end
    gives("^" .. sum .. "status 0\n$", "TYCHO_CUDNN=off TYCHO_LOG=0", own)
  end)
  probe("it has no engine, or none has a plan: the device's own kernel goes on, which one line says", function()
    for _, environment in ipairs { "SOFT_CUDNN_NONE=-1", "SOFT_CUDNN_PLAN=-1", "SOFT_CUDNN_NOTE=3", "SOFT_CUDNN_FINALIZE=-1:3001" } do
      gives("^tycho: cuda: cuDNN has no engine for some attention[^\n]*\n" .. sum .. "status 0\n$", environment, own)
    end
  end)
  probe("an engine adds in no fixed order, or has no plan: the next one is taken", function()
    for _, environment in ipairs { "SOFT_CUDNN_NOTE=1", "SOFT_CUDNN_REFUSE=1", "SOFT_CUDNN_REFUSE=2" } do
      gives("^" .. sum .. "status 0\n$", environment, own)
    end
    local program = [[print(text(attend(half(3, 20, 64), half(3, 300, 64), half(3, 300, 64))))]]
    local first, noted = gives("status 0", "", program), gives("status 0", "SOFT_CUDNN_NOTE=1", program)
    assert.are_not.equal(first, noted)
    assert.equal(noted, gives("status 0", "SOFT_CUDNN_REFUSE=1", program))
  end)
  probe("its engine does not take how an operand lies: it is packed, to the same bits", function()
    gives("^same\nstatus 0\n$", "SOFT_CUDNN_STRIDED=1", [[
      local t = half(2, 17, 3, 16):transpose(2, 3)
      assert(text(attend(t, k, k)) == text(attend(t:contiguous(), k, k)))
      local g = half(2, 2, 21, 16)
      local all = g:repeat_interleave(2, 2)
      assert(text(attend(half(2, 4, 17, 16), g, g)) == text(attend(half(2, 4, 17, 16), all, all)))
      print "same"]])
  end)
  probe("a call fails: the error names its status, and the next one goes on", function()
    gives("^false\t[^\n]*scaled_dot_product_attention: cuDNN fails: [^\n]*SOFT_CUDNN_FAIL[^\n]*\nstatus 0\n$", "SOFT_CUDNN_FAIL=1", [[
      print(pcall(function() return attend(q, k, k):to "f32":sum():item() end))
      right(attend(q, k, k), q, k, k)]])
    gives("^false\t[^\n]*scaled_dot_product_attention: cuDNN fails: [^\n]*\nstatus 0\n$", "SOFT_CUDNN_PLAN=1:5000", [[
      print(pcall(function() return attend(q, k, k):to "f32":sum():item() end))
      right(attend(q, k, k), q, k, k)]])
  end)
  probe("it is out of memory: it raises, and the next call goes on", function()
    for _, environment in ipairs {
      "SOFT_CUDNN_FINALIZE=1", "SOFT_CUDNN_FINALIZE=40:4004", "SOFT_CUDNN_PLAN=1:4003", "SOFT_CUDNN_FAIL=1:4004",
    } do
      gives("^false\t[^\n]*memory[^\n]*\nstatus 0\n$", environment, [[
        print(pcall(function() return attend(q, k, k):to "f32":sum():item() end))
        right(attend(q, k, k), q, k, k)]])
    end
  end)
  probe("there is no memory for its workspace, for operands in order, for results: it raises, and the next call goes on", function()
    gives("^false\t[^\n]*memory[^\n]*\n.*right\nstatus 0\n$", "SOFT_CUDNN_WORKSPACE=20000", [[
      local t = half(2, 16, 17, 3):transpose(2, 4)
      local function try() return pcall(function() return attend(t, k, k) end) end
      right(select(2, try()), t, k, k)
      local failed = 0
      for room = 0, 60000, 512 do
        collectgarbage()
        ty.cuda.empty_cache()
        ty.cuda.limit(ty.cuda.memory().used + room)
        local ok, y = try()
        if ok then
          assert(failed * 512 > room - 512 or failed > 0)
        else
          failed = failed + 1
          assert(failed * 512 > room, "it goes on with less") -- more memory never fails where less was enough
          print(ok, y)
        end
      end
      assert(failed * 512 > 20000)
      ty.cuda.limit(math.huge)
      right(select(2, try()), t, k, k)
      print "right"]])
  end)
end)
