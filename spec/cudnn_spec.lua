-- cudnn_spec.lua -- the stand-in of cuDNN's graph API on the software GPU (spec/gpu/lib/cudnn.c): what it computes against a plain loop
-- in f64, what it refuses, and that it accepts nothing that the library itself refuses. For that the library is asked where it is
-- installed, about a device that is not there; without it this claim is counted as skipped.
local bit, ffi = require "bit", require "ffi"

local module = require "spec.module"

local built = not module.windows and io.open(module.root .. (os.getenv "TYCHO_BUILD" or "build") .. "/spec/soft_cudnn.so")
if built then built:close() end
local probe = built and it or pending
local G = built and require "spec.soft_gpu"
local M = require "spec.cudnn_graph"
local cases = require "spec.cudnn_cases"
local D, P, R = M.DATA, M.PW, M.RED

local L, fake
if built then
  local path = module.root .. (os.getenv "TYCHO_BUILD" or "build") .. "/spec/soft_cudnn.so"
  L, fake = assert(M.load(path)), ffi.load(path)
  pcall(ffi.cdef, "int setenv(const char *name, const char *value, int overwrite);")
  ffi.cdef "int soft_cudnn_executions(void); int soft_cudnn_asked(void); int soft_cudnn_plans(void); int soft_cudnn_compiled(void);"
end

local function set(name, value) ffi.C.setenv("SOFT_CUDNN_" .. name, tostring(value), 1) end

--- f() under a setting of the stand-in.
local function under(name, value, f)
  set(name, value)
  local ok, why = pcall(f)
  set(name, "")
  assert(ok, why)
end

-- half floats, as bits

local word = ffi.new "union { float f; uint32_t u; }"
local function bf16_value(h)
  word.u = bit.lshift(h, 16)
  return tonumber(word.f)
end
local function f16_value(h)
  local s, e, m = bit.band(h, 0x8000) ~= 0 and -1 or 1, bit.band(bit.rshift(h, 10), 31), bit.band(h, 1023)
  return s * (e == 0 and m * 2 ^ -24 or (1 + m / 1024) * 2 ^ (e - 15))
end
local value = { [D.HALF] = f16_value, [D.BFLOAT16] = bf16_value }
local EPS = { [D.HALF] = 2 ^ -11, [D.BFLOAT16] = 2 ^ -8, [D.FLOAT] = 2 ^ -24 }

--- Bits of a value below 2 that is a multiple of 2^-7: exact in either type.
local function half(v, dtype)
  word.f = v
  if dtype == D.BFLOAT16 then return bit.rshift(word.u, 16) end
  if v == 0 then return 0 end
  local s, a, e = v < 0 and 0x8000 or 0, math.abs(v), 0
  while a >= 2 do a, e = a / 2, e + 1 end
  while a < 1 do a, e = a * 2, e - 1 end
  return s + bit.lshift(e + 15, 10) + (a - 1) * 1024
end

--- n numbers of both signs, the same at each run.
local function numbers(n, seed)
  local list, x = {}, seed
  for i = 1, n do
    x = (x * 1103515245 + 12345) % 2147483648
    list[i] = (math.floor(x / 65536) % 255 - 127) / 128
  end
  return list
end

--- Where an element of a 4-d tensor lies, and how many elements it spans.
local function offset(strides, a, b, c, d) return a * strides[1] + b * strides[2] + c * strides[3] + d * strides[4] end
local function span(dims, strides)
  local last = 0
  for i = 1, 4 do last = last + (dims[i] - 1) * strides[i] end
  return last + 1
end

--- Operands of attention on the device, and their values.
local function operands(o)
  local b, h, hk, n, m, d = o.b or 1, o.h or 2, o.hk or o.h or 2, o.n or 16, o.m or o.n or 16, o.d or 64
  local dv, io = o.dv or d, o.dtype or D.HALF
  local A = { b = b, h = h, hk = hk, n = n, m = m, d = d, dv = dv, io = io, out = o.out or io }
  local function given(name, dims, strides, seed)
    local v = numbers(span(dims, strides), seed)
    local bits = {}
    for i, x in ipairs(v) do bits[i] = half(x, io) end
    A[name] = { dims = dims, strides = strides, values = v, array = G.array("uint16_t", #v, bits) }
  end
  given("q", { b, h, n, d }, o.qs or M.packed { b, h, n, d }, 1)
  given("k", { b, hk, d, m }, o.ks or { hk * m * d, m * d, 1, d }, 2)
  given("v", { b, hk, m, dv }, o.vs or M.packed { b, hk, m, dv }, 3)
  local os = o.os or M.packed { b, h, n, dv }
  A.o = { dims = { b, h, n, dv }, strides = os, array = G.array(A.out == D.FLOAT and "float" or "uint16_t", span({ b, h, n, dv }, os)) }
  A.stats = { array = G.array("float", b * h * n) }
  A.scale = ffi.new("float[1]", o.scale or 0.125)
  A.low, A.keys, A.queries = ffi.new("float[1]", -math.huge), ffi.new("int32_t[1]", m), ffi.new("int32_t[1]", n)
  return A
end

--- What attention of them is: values of o and stats, and how far o may be off.
local function expected(A, o)
  local out, bound, stats = {}, {}, {}
  local function at(t, a, b, c, d) return t.values[offset(t.strides, a, b, c, d) + 1] end
  for b = 0, A.b - 1 do for h = 0, A.h - 1 do for i = 0, A.n - 1 do
    local kh, w, most, sum = math.floor(h / (A.h / A.hk)), {}, -math.huge, 0
    for j = 0, A.m - 1 do
      local s = 0
      for e = 0, A.d - 1 do s = s + at(A.q, b, h, i, e) * at(A.k, b, kh, e, j) end
      s = s * tonumber(A.scale[0])
      if o.causal and j > i + (o.shift and A.m - A.n or 0) then s = -math.huge end
      w[j], most = s, math.max(most, s)
    end
    for j = 0, A.m - 1 do
      w[j] = math.exp(w[j] - most)
      sum = sum + w[j]
    end
    stats[(b * A.h + h) * A.n + i] = most + math.log(sum)
    for e = 0, A.dv - 1 do
      local y, all = 0, 0
      for j = 0, A.m - 1 do
        y = y + w[j] / sum * at(A.v, b, kh, j, e)
        all = all + w[j] / sum * math.abs(at(A.v, b, kh, j, e))
      end
      local p = offset(A.o.strides, b, h, i, e)
      out[p], bound[p] = y, all * (EPS[A.io] + EPS[A.out] + 2 ^ -17)
    end
  end end end
  return out, bound, stats
end

--- A plan for the attention of o: descriptors in R.
local function planned(o, handle, engine, knobs)
  local ops, uids = L:attention(o)
  local graph = L:make("GRAPH", { { "GRAPH_HANDLE", handle }, { "GRAPH_OPS", ops } })
  local cfg
  if engine then
    local list = { { "CFG_ENGINE", L:make("ENGINE", { { "ENGINE_GRAPH", graph }, { "ENGINE_INDEX", engine } }) } }
    local choices = {}
    for type, v in pairs(knobs or {}) do choices[#choices + 1] = L:make("KNOB_CHOICE", { { "KNOB_TYPE", type }, { "KNOB_VALUE", v } }) end
    if #choices > 0 then list[2] = { "CFG_KNOBS", choices } end
    cfg = L:make("ENGINECFG", list)
  else
    local status, found, results = L:ask(graph)
    assert(status == 0 and found > 0, "no engine: " .. L:why())
    cfg = results[0]
  end
  local plan = L:make("PLAN", { { "PLAN_HANDLE", handle }, { "PLAN_CFG", cfg } })
  local _, _, bytes = L:get(plan, "PLAN_WORKSPACE", 1)
  return plan, uids, tonumber(bytes[0]), graph
end

local function pointer(v) return ffi.cast("void *", type(v) == "table" and v.array and ffi.cast("uintptr_t", v.array.address) or v) end

--- The status of an execution; change: a function of the list {uid, pointer} and of the pack's other attributes.
local function execute(handle, plan, uids, bytes, A, change)
  local bound, more = {}, {}
  for _, name in ipairs { "q", "k", "v", "o", "stats", "scale", "low", "keys", "queries" } do
    if uids[name] and (name ~= "stats" or A.bound) then bound[name] = pointer(A[name]) end
  end
  if bytes > 0 then
    A.workspace = G.array("uint8_t", bytes)
    more.workspace = ffi.cast("void *", ffi.cast("uintptr_t", A.workspace.address))
  end
  if change then change(bound, more) end
  local ids, pointers = {}, {}
  for name, p in pairs(bound) do ids[#ids + 1], pointers[#pointers + 1] = uids[name], p end
  local list = { { "PACK_UIDS", ids }, { "PACK_POINTERS", pointers } }
  if more.workspace then list[3] = { "PACK_WORKSPACE", more.workspace } end
  local pack = L:make("PACK", list)
  local status = L.c.cudnnBackendExecute(handle, plan, pack)
  L.c.cudnnBackendDestroyDescriptor(pack)
  return status
end

local handle, stream
local function prepare()
  handle, stream = L:handle(), ffi.new "void *[1]"
  G.check(G.cu.cuStreamCreate(stream, 1))
  assert.equal(0, L.c.cudnnSetStream(handle, stream[0]))
end

--- How far an output is off its bound at worst (above 1: wrong), for a graph of options; want: those of the loop.
local function off(o, want, engine, knobs)
  local A = operands(want or o)
  A.bound = o.stats
  local plan, uids, bytes = planned(o, handle, engine, knobs)
  assert.equal(0, execute(handle, plan, uids, bytes, A), "execute")
  G.check(G.cu.cuStreamSynchronize(stream[0]))
  local out, bound, stats = expected(A, want or o)
  local got, worst = G.read(A.o.array), 0
  for p, y in pairs(out) do
    local v = A.out == D.FLOAT and tonumber(got[p]) or value[A.out](got[p])
    worst = v == v and math.max(worst, math.abs(v - y) / (bound[p] + 1e-6)) or math.huge
  end
  if o.stats then
    local s = G.read(A.stats.array)
    for p, y in pairs(stats) do worst = math.max(worst, math.abs(tonumber(s[p]) - y) / (1e-5 + math.abs(y) * 1e-5)) end
  end
  return worst, got, A
end

local function changing(which, name, v)
  return function(node, list)
    if node ~= which then return end
    for _, a in ipairs(list) do if a[1] == name then a[2] = v end end
  end
end

local FORMS = {
  ["plain"] = {},
  ["causal"] = { causal = true },
  ["bf16"] = { dtype = D.BFLOAT16, causal = true },
  ["odd lengths, batches, stats"] = { b = 2, n = 5, m = 9, d = 16, dv = 8, stats = true },
  ["an output of f32"] = { n = 7, d = 24, out = D.FLOAT, stats = true, causal = true },
  ["more keys than queries, the mask at the last query"] = { n = 4, m = 11, d = 8, causal = true, shift = true },
  ["more keys than queries, the mask at the first query"] = { n = 4, m = 11, d = 8, causal = true },
  ["heads in groups"] = { h = 4, hk = 2, n = 6, d = 16 },
  ["one head of keys and values"] = { b = 2, h = 3, hk = 1, n = 6, d = 16 },
  ["positions before heads"] = { h = 2, n = 6, m = 10, d = 16, qs = { 192, 16, 32, 1 }, ks = { 320, 16, 1, 32 },
    vs = { 320, 16, 32, 1 }, os = { 192, 16, 32, 1 } },
  ["operands within a wider matrix"] = { h = 2, n = 6, d = 16, qs = { 576, 16, 96, 1 }, ks = { 576, 16, 1, 96 },
    vs = { 576, 16, 96, 1 } },
}

describe("the stand-in of cuDNN", function()
  if built then
    setup(function()
      G.set("CAPABILITY", 90)
      prepare()
    end)
    teardown(function() G.set("CAPABILITY", 80) end)
    after_each(function() L:clear() end)
  end

  for name, o in pairs(FORMS) do
    probe("computes attention, to the rounding of weights and output: " .. name, function()
      assert.truthy(off(o) <= 1, ("%g bounds off"):format(off(o)))
    end)
  end

  probe("shows in numbers what is wrong in a graph that it takes", function()
    local causal = { n = 12, d = 16, causal = true }
    local wrongs = { side = changing("compare.desc", "PW_MODE", P.CMP_LE), strict = changing("compare.desc", "PW_MODE", P.CMP_GT),
      axes = changing("rows.desc", "PW_AXIS", 3), scale = changing("scaling.desc", "PW_MODE", P.DIV) }
    for name, wrong in pairs(wrongs) do
      assert.truthy(off({ n = 12, d = 16, causal = true, wrong = wrong }, causal) > 1, name)
    end
    assert.truthy(off({ n = 12, d = 16 }, causal) > 1, "no mask")
    assert.truthy(off({ n = 8, m = 8, h = 4, hk = 1, d = 8 }, { n = 8, h = 4, hk = 4, d = 8 }) > 1, "heads")
  end)

  probe("sums in another order for another engine and other knobs", function()
    local o, bits = { n = 4, m = 96, d = 64, scale = 2, out = D.FLOAT }, {}
    for i, engine in ipairs { { 0 }, { 1 }, { 1, { [24] = 2 } }, { 5, { [24] = 10, [14] = 2 } } } do
      local worst, got, A = off(o, o, engine[1], engine[2])
      assert.truthy(worst <= 1, worst)
      bits[i] = ffi.string(got, A.o.array.n * 4)
      for j = 1, i - 1 do assert.truthy(bits[j] ~= bits[i], ("%d and %d agree"):format(j, i)) end
    end
  end)

  probe("computes when the stream comes to it, in order with what is before and behind it", function()
    local o = { n = 8, d = 16 }
    local A = operands(o)
    local plan, uids, bytes = planned(o, handle)
    local late = G.array("uint16_t", A.v.array.n, function(i) return tonumber(A.v.array.host[i]) end)
    local v, s = A.v.array, stream[0]
    G.check(G.cu.cuMemsetD8Async(v.address, 0, v.n * 2, s))
    G.check(G.cu.cuMemcpyDtoDAsync_v2(v.address, late.address, v.n * 2, s))
    assert.equal(0, execute(handle, plan, uids, bytes, A))
    G.check(G.cu.cuMemsetD8Async(v.address, 0, v.n * 2, s))
    A.scale[0] = 77 -- by value: it was read at the call
    G.check(G.cu.cuStreamSynchronize(s))
    A.scale[0] = 0.125
    local out, bound = expected(A, o)
    local got = G.read(A.o.array)
    for p, y in pairs(out) do assert.truthy(math.abs(f16_value(got[p]) - y) <= bound[p] + 1e-6) end
  end)

  probe("checks what is bound", function()
    local o = { n = 8, d = 16, causal = true, stats = true }
    local A = operands(o)
    A.bound = true
    local plan, uids, bytes = planned(o, handle)
    local before = fake.soft_cudnn_executions()
    local function status(f) return execute(handle, plan, uids, bytes, A, f) end
    local short, long = G.array("uint16_t", 64), G.array("uint16_t", 65536, 0)
    local function at(array, more) return ffi.cast("void *", ffi.cast("uintptr_t", array.address) + (more or 0)) end
    assert.truthy(bytes > 0)
    for name, f in pairs {
      ["an operand is missing"] = function(b) b.k = nil end,
      ["a number is missing"] = function(b) b.low = nil end,
      ["a virtual tensor is bound"] = function(b) b.p = at(long) end,
      ["an operand that is too short"] = function(b) b.v = at(short) end,
      ["an operand in the CPU's memory"] = function(b) b.q = ffi.cast("void *", A.scale) end,
      ["an operand that is not aligned"] = function(b) b.q = at(long, 8) end,
      ["a tensor that the graph has not"] = function(b)
        uids.other = 77
        b.other = at(long)
      end,
      ["a workspace that is not aligned"] = function(_, more) more.workspace = at(long, 8) end,
      ["a number on the device"] = function(b) b.scale = at(A.q.array) end,
      ["no workspace"] = function(_, more) more.workspace = nil end,
      ["a workspace that is too small"] = function(_, more) more.workspace = at(short) end,
      ["a workspace that is an operand"] = function(_, more) more.workspace = at(A.q.array) end,
      ["a result that is an operand"] = function(b) b.o = b.q end,
    } do
      if name == "a workspace that is an operand" then A.q.array = G.array("uint16_t", 1024, 0) end
      local s = status(f)
      assert.truthy(s >= 2000 and s < 3000, ("%s: %d"):format(name, s))
    end
    assert.equal(before, fake.soft_cudnn_executions())
    local other = L:handle()
    assert.equal(2007, L.c.cudnnBackendExecute(other, plan, plan), "a handle without a stream")
    assert.equal(0, L.c.cudnnSetStream(other, stream[0]))
    assert.equal(2012, L.c.cudnnBackendExecute(other, plan, plan))
    assert.equal(2000, execute(other, plan, uids, bytes, A), "a plan of another handle")
    assert.equal(0, status())
    G.check(G.cu.cuStreamSynchronize(stream[0]))
    local scratch = G.read(A.workspace) -- which is written, as any engine may
    for i = 0, bytes - 1 do assert.equal(0xa5, scratch[i]) end
  end)

  probe("answers calls on the wrong thing with their statuses", function()
    local graph = L:make("GRAPH", { { "GRAPH_HANDLE", handle }, { "GRAPH_OPS", (L:attention { n = 8 }) } })
    local _, _, results = L:ask(graph)
    local plan, tensor, none = planned({ n = 8 }, handle), L:create "TENSOR", ffi.new "void *[1]"
    local n, c = ffi.new "int64_t[4]", L.c
    local function get(d, name, type, count, found, into) return c.cudnnBackendGetAttribute(d, name, type, count, found, into) end
    local function pack(uids, pointers)
      local d = L:create "PACK"
      L:set(d, "PACK_UIDS", uids)
      L:set(d, "PACK_POINTERS", pointers)
      return c.cudnnBackendFinalize(d)
    end
    local p = ffi.cast("void *", n)
    for i, pair in ipairs {
      { 2002, c.cudnnCreate(nil) }, { 1001, c.cudnnDestroy(nil) }, { 2000, c.cudnnSetStream(nil, nil) },
      { 2000, c.cudnnGetStream(handle, nil) }, { 2000, c.cudnnGetStream(nil, none) }, { 0, c.cudnnGetStream(handle, none) },
      { 2002, c.cudnnBackendCreateDescriptor(17, nil) }, { 2002, get(nil, 906, 3, 1, n, n) }, { 2000, get(graph, 906, 3, 1, n, n) },
      { 2004, get(tensor, 906, 3, 1, n, n) }, { 2010, get(plan, 402, 4, 1, n, n) }, { 2000, get(plan, 402, 3, -1, n, n) },
      { 2000, get(plan, 402, 3, 1, n, nil) }, { 2000, get(plan, 402, 3, 0, nil, nil) }, { 0, get(plan, 402, 3, 0, n, nil) },
      { 2000, get(results[0], 300, 15, 1, n, ffi.new("void *[1]", tensor)) },
      { 2000, get(results[0], 300, 15, 1, n, ffi.new("void *[1]", results[1])) },
      { 2000, L:try_set(L:create "GRAPH", "GRAPH_ENGINES", 5) }, { 2000, L:try_set(L:create "PLAN", "PLAN_HANDLE", none[0]) },
      { 2000, pack({ 1, 2 }, { p }) }, { 2002, pack({ 1, 2 }, { p, ffi.cast("void *", nil) }) }, { 2009, pack({ 1, 1 }, { p, p }) },
      { 2000, c.cudnnBackendExecute(nil, plan, plan) }, { 2002, c.cudnnBackendExecute(handle, plan, nil) },
      { 2004, c.cudnnBackendExecute(handle, plan, L:create "PACK") },
    } do
      assert.equal(pair[1], pair[2], ("call %d"):format(i))
    end
    for type, want in pairs { [24] = 3000, [14] = 3000 } do -- a value and a knob that the engine has not
      local knob = L:make("KNOB_CHOICE", { { "KNOB_TYPE", type }, { "KNOB_VALUE", type == 24 and 99 or 1 } })
      local cfg = L:create "ENGINECFG"
      L:set(cfg, "CFG_ENGINE", L:make("ENGINE", { { "ENGINE_GRAPH", graph }, { "ENGINE_INDEX", 1 } }))
      L:set(cfg, "CFG_KNOBS", { knob })
      assert.equal(want, c.cudnnBackendFinalize(cfg))
    end
    local twice = L:create "ENGINECFG"
    L:set(twice, "CFG_ENGINE", L:make("ENGINE", { { "ENGINE_GRAPH", graph }, { "ENGINE_INDEX", 1 } }))
    local function knob() return L:make("KNOB_CHOICE", { { "KNOB_TYPE", 24 }, { "KNOB_VALUE", 1 } }) end
    L:set(twice, "CFG_KNOBS", { knob(), knob() })
    assert.equal(2009, c.cudnnBackendFinalize(twice))
    local heur = L:make("ENGINEHEUR", { { "HEUR_GRAPH", graph }, { "HEUR_MODE", M.HEUR.A } })
    assert.equal(2000, (L:get(heur, "HEUR_RESULTS", 1, ffi.new("void *[1]", tensor))))
    assert.equal(2000, (L:get(results[0], "CFG_KNOBS", 1, ffi.new("void *[1]", tensor))))
    assert.falsy(pcall(L.make, L, "ENGINEHEUR", { { "HEUR_GRAPH", graph }, { "HEUR_MODE", 17 } }))
    local ok, why = pcall(L.make, L, "ENGINE", { { "ENGINE_GRAPH", graph }, { "ENGINE_INDEX", 6 } })
    assert.falsy(ok)
    assert.truthy(why:find("3000 no engine of number 6", 1, true), why)
  end)

  probe("reports an operand that nobody has written", function()
    local o = { n = 8, d = 16 }
    local A = operands(o)
    A.k.array = G.array("uint16_t", A.k.array.n)
    local plan, uids, bytes = planned(o, handle)
    assert.equal(0, execute(handle, plan, uids, bytes, A))
    assert.truthy(G.cu.cuStreamSynchronize(stream[0]) ~= 0)
    local text = G.report()
    assert.truthy(text:find("cudnnBackendExecute's operand reads what nobody has written", 1, true), text)
    G.reset()
    prepare()
  end)

  probe("says so when a descriptor is used that was destroyed", function()
    local t = L:make("TENSOR", { { "UID", 1 }, { "DATA_TYPE", D.HALF }, { "DIMS", { 1, 1, 8, 8 } }, { "STRIDES", { 64, 64, 8, 1 } },
      { "ALIGNMENT", 16 } })
    local op = L:create "OP_REDUCTION"
    L:set(op, "OP_RED", L:make("REDUCTION", { { "RED_OP", R.ADD }, { "RED_COMP", D.FLOAT } }))
    L:set(op, "OP_RED_X", t)
    L:set(op, "OP_RED_Y", t)
    assert.equal(0, L.c.cudnnBackendDestroyDescriptor(t))
    assert.equal(2002, L.c.cudnnBackendFinalize(op))
    assert.equal(2002, L.c.cudnnBackendDestroyDescriptor(t))
  end)

  probe("gives engines, their notes and knobs, as a caller takes them", function()
    local before = fake.soft_cudnn_asked()
    local graph = L:make("GRAPH", { { "GRAPH_HANDLE", handle }, { "GRAPH_OPS", (L:attention { n = 8 }) } })
    local _, found, results, count = L:ask(graph)
    assert.equal(before + 1, fake.soft_cudnn_asked())
    assert.equal(3, found)
    assert.equal(3, count)
    local engine = ffi.new("void *[1]", L:create "ENGINE")
    assert.equal(0, (L:get(results[0], "CFG_ENGINE", 1, engine)))
    local _, _, index = L:get(engine[0], "ENGINE_INDEX", 1)
    assert.equal(5, tonumber(index[0]))
    local knobs = ffi.new("void *[4]", L:create "KNOB_CHOICE", L:create "KNOB_CHOICE", L:create "KNOB_CHOICE", L:create "KNOB_CHOICE")
    local _, n = L:get(results[0], "CFG_KNOBS", 4, knobs)
    assert.equal(2, n)
    local _, _, type = L:get(knobs[1], "KNOB_TYPE", 1)
    local _, _, v = L:get(knobs[1], "KNOB_VALUE", 1)
    assert.same({ 14, 2 }, { type[0], tonumber(v[0]) })
    under("NOTE", 1, function()
      local _, notes, list = L:get(engine[0], "ENGINE_NOTES", 8)
      assert.same({ 2, 4 }, { notes, list[1] })
    end)
    assert.equal(1, (select(2, L:get(engine[0], "ENGINE_NOTES", 8))))
  end)

  probe("makes kernels once for all sizes of a topology, where a plan has their cache", function()
    local function graph(o, dynamic)
      return L:make("GRAPH", { { "GRAPH_HANDLE", handle }, { "GRAPH_DYNAMIC", dynamic }, { "GRAPH_OPS", (L:attention(o)) } })
    end
    local function plan(g, cache)
      local _, _, results = L:ask(g)
      local list = { { "PLAN_HANDLE", handle }, { "PLAN_CFG", results[0] } }
      if cache then list[3] = { "PLAN_CACHE", cache } end
      local before = fake.soft_cudnn_compiled()
      local ok, why = pcall(L.make, L, "PLAN", list)
      return ok and fake.soft_cudnn_compiled() - before or why
    end
    local first = graph({ n = 8 }, true)
    local cache = L:make("KERNEL_CACHE", { { "CACHE_GRAPH", first } })
    assert.equal(1, plan(first, cache))
    assert.equal(0, plan(graph({ n = 24, m = 40 }, true), cache))
    assert.equal(1, plan(first))
    assert.equal(1, plan(first, L:make("KERNEL_CACHE", { { "CACHE_GRAPH", first } })))
    assert.truthy(plan(graph({ n = 8, causal = true }, true), cache):find("another topology", 1, true))
    assert.truthy(plan(graph({ n = 8 }, false), cache):find("without dynamic shapes", 1, true))
  end)

  probe("fails where it is told to", function()
    local o = { n = 8, d = 16 }
    local A = operands(o)
    local plan, uids, bytes = planned(o, handle)
    local function why(f)
      local ok, text = pcall(f)
      assert.falsy(ok)
      return tostring(text)
    end
    under("CREATE", -1, function() assert.truthy(why(function() L:handle() end):find("1001", 1, true)) end)
    under("NONE", -1, function() assert.truthy(why(function() planned(o, handle) end):find("no engine", 1, true)) end)
    under("PLAN", -1, function() assert.truthy(why(function() planned(o, handle) end):find("PLAN: 3000", 1, true)) end)
    under("PLAN", "-1:4003", function() assert.truthy(why(function() planned(o, handle) end):find("PLAN: 4003", 1, true)) end)
    under("FINALIZE", -1, function() assert.truthy(why(function() planned(o, handle) end):find("TENSOR: 4003", 1, true)) end)
    under("FAIL", -1, function() assert.equal(5000, execute(handle, plan, uids, bytes, A)) end)
    under("REFUSE", 1, function()
      assert.truthy(why(function() planned(o, handle) end):find("PLAN: 3002", 1, true))
      planned(o, handle, 1)
    end)
    under("STRIDED", 1, function()
      planned(o, handle)
      local text = why(function() planned({ n = 8, d = 16, qs = { 256, 16, 32, 1 } }, handle) end)
      assert.truthy(text:find("PLAN: 3004", 1, true), text)
    end)
    under("WORKSPACE", 4096, function() assert.equal(4096, (select(3, planned(o, handle, 0)))) end)
    under("VERSION", 80907, function() assert.equal(80907, tonumber(L.c.cudnnGetVersion())) end)
    assert.equal(91900, tonumber(L.c.cudnnGetVersion()))
    assert.equal(0, execute(handle, plan, uids, bytes, A))
    G.check(G.cu.cuStreamSynchronize(stream[0]))
  end)
end)

--- What the stand-in refuses though the library lets it pass: calls by which nothing could be computed.
local STRICTER = {
  "tensor: without a data type", "tensor: without an id", "tensor: a dim of 0", "tensor: a stride of 0",
  "set: a tensor that is not finalized", "set: a map's descriptor as a tensor", "matmul: without a type", "map: without a mode",
  "map: without a type", "map: index without an axis", "reduction: without a type",
  "op matmul: without a descriptor", "op map: another shape of the result", "op map: a result that is smaller",
  "op map: shapes that do not broadcast", "op map: exp with b", "op map: exp of another shape", "op map: add with a condition",
  "op reduction: to a size that is neither", "op reduction: without a descriptor", "graph: a virtual tensor that nothing makes",
  "graph: an id of two tensors", "graph: operations in another order", "attention: a stride of queries that is no multiple of 8",
  "cache of kernels: of one size", "tensor: virtual and by value, one number", "map: in another type", "matmul: in another type",
  "matmul: another padding than 0", "reduction: in another type", "op map: add of whole numbers in f32",
  "op map: a result of more than its operands", "op map: a result by value", "op map: a result that is its own operand",
  "graph: a result that overlaps itself", "attention: half scores", "attention: half scores, scaled",
  "attention: queries aligned to 8 bytes", "attention: heads of 264", "attention: weights that are not virtual",
  "attention: a sum that is not virtual", "attention: operands of f32",
}

--- The library and the folder of the toolkit's stub of the driver; nil: they are not there.
local function installed()
  local p = not module.windows and io.popen "ls -d ${CUDA_HOME:+$CUDA_HOME/} /usr/local/cuda*/ 2>/dev/null"
  for folder in (p and p:read "*a" or ""):gmatch "[^\n]+" do
    for _, lib in ipairs { "lib64/", "lib/" } do
      local library, stub = folder .. lib .. "libcudnn.so.9", folder .. lib .. "stubs/libcuda.so"
      if module.shell(("test -f '%s' -a -f '%s'"):format(library, stub)) then return library, stub end
    end
  end
end

local library, stub = installed()
local asked = built and library and it or pending

--- What spec/cudnn_cases.lua prints for the library, about a device that is not there.
local function library_says(capability, more)
  local folder = module.root .. (os.getenv "TYCHO_BUILD" or "build") .. "/spec/stub"
  module.make_folder(folder)
  assert(module.shell(("ln -sf '%s' '%s/libcuda.so.1'"):format(stub, folder)))
  local text, status = module.run(("LD_LIBRARY_PATH='%s' timeout 60 luajit '%sspec/cudnn_cases.lua' '%s' %d %s"):format(folder,
    module.root, library, capability * 10, more or ""))
  assert.equal(0, status, text)
  return text
end

--- Attention in the forms that go to cuDNN: half types, masks, sizes, one head of keys and values, operands as they lie, gradients.
local PROGRAM = [[
local ty = require "tycho"
require "spec.cuda"
ty.device "cuda"
ty.precision "fast"
local function attend(dtype, options, ...)
  local x = {}
  for i, sizes in ipairs { ... } do x[i] = ty.randn(sizes):to(dtype) end
  if options.turned then for i = 1, 3 do x[i] = x[i]:transpose(2, 3) end end
  ty.scaled_dot_product_attention(x[1], x[2], x[3], { causal = options.causal }):to "cpu"
end
for _, dtype in ipairs { "f16", "bf16" } do
  for _, causal in ipairs { false, true } do
    local o = { causal = causal }
    attend(dtype, o, { 1, 2, 16, 64 }, { 1, 2, 16, 64 }, { 1, 2, 16, 64 })
    attend(dtype, o, { 2, 3, 17, 32 }, { 2, 3, 33, 32 }, { 2, 3, 33, 16 })
    attend(dtype, o, { 2, 4, 19, 32 }, { 2, 1, 33, 32 }, { 2, 1, 33, 32 })
    attend(dtype, { causal = causal, turned = true }, { 2, 19, 4, 32 }, { 2, 33, 4, 32 }, { 2, 33, 4, 32 })
  end
end
local q = ty.randn(2, 2, 16, 16):to("f16"):requires_grad_()
ty.scaled_dot_product_attention(q, q, q):to("f32"):sum():backward()
print("done")
]]

describe("cuDNN itself", function()
  for _, capability in ipairs { 90, 80, 75 } do
    asked(("refuses nothing that the stand-in takes, on sm_%d"):format(capability), function()
      local text = library_says(capability)
      local answers, n = {}, 0
      for name, answer in text:gmatch "([^\n]*): ([^\n:]*)\n" do answers[name] = answer end
      local stricter = {}
      for _, name in ipairs(STRICTER) do stricter[name] = true end
      G.set("CAPABILITY", capability)
      cases.answers(L, nil, function(name, ours)
        local theirs = assert(answers[name], name)
        n = n + 1
        local function category(s) return tonumber(s) and math.floor(tonumber(s) / 1000) or s end
        if theirs == "not asked" then
          assert.truthy(ours == "none" or (tonumber(ours) and tonumber(ours) > 0), name .. ": it is taken")
        elseif stricter[name] and (capability >= 80 or not name:find "^attention") then
          assert.truthy(theirs == "0" or theirs == "engines", name .. ": the library refuses it too")
          assert.truthy(ours ~= theirs, name .. ": it is taken")
        else
          assert.equal(category(theirs), category(ours), name)
        end
      end)
      G.set("CAPABILITY", 80)
      assert.equal(#cases.sequences + #cases.graphs, n)
    end)
  end

  asked("has engines for the graphs that attention makes, where operands and calls are the device's", function()
    local log = os.tmpname()
    local cuda = require "spec.cuda"
    cuda.gives("done\nstatus 0", ("SOFT_CUDNN_LOG='%s' SOFT_GPU_CAPABILITY=90"):format(log), PROGRAM)
    for _, capability in ipairs { 90, 80 } do
      local n = 0
      for graph, answer in library_says(capability, log):gmatch "(%d+): ([^\n]*)" do
        n = n + 1
        assert.equal("engines", answer, ("graph %s on sm_%d"):format(graph, capability))
      end
      assert.truthy(n >= 16, ("%d graphs"):format(n))
    end
    os.remove(log)
  end)
end)
