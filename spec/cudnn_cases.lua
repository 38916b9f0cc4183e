-- cudnn_cases.lua -- sequences of calls of cuDNN's graph API, right and wrong ones, and operation graphs that a device's heuristics are
-- asked for: what a stand-in and the library answer, a line each.
-- As a program: luajit spec/cudnn_cases.lua LIBRARY [CAPABILITY] prints "name: status" for sequences and "name: engines or none" for
-- graphs; with a third argument, a log of the stand-in's, what the library's heuristics say of the graphs that were made there.
package.path = debug.getinfo(1, "S").source:match "^@(.-)spec/[^/]*$" .. "?.lua;" .. package.path

local M = require "spec.cudnn_graph"
local D, P, R, T = M.DATA, M.PW, M.RED, M.TYPE

local C = { sequences = {}, graphs = {} }

--- A sequence: a function of the library that returns the status of its last call. alone: the library is not asked.
local function sequence(name, f, alone) C.sequences[#C.sequences + 1] = { name = name, run = f, alone = alone } end

--- The attributes of a kind with changes: a value for a name replaces it, false leaves it out; extra ones are put behind.
local function changed(attributes, changes)
  local out, done = {}, {}
  for _, a in ipairs(attributes) do
    local c = changes[a[1]]
    done[a[1]] = true
    if c == nil then out[#out + 1] = a elseif c ~= false then out[#out + 1] = { a[1], c } end
  end
  for name, c in pairs(changes) do if not done[name] then out[#out + 1] = { name, c } end end
  return out
end

--- The status of the first call that fails, else of the last.
local function status_of(L, kind, attributes)
  local d = L:create(kind)
  for _, a in ipairs(attributes) do
    local s = L:try_set(d, a[1], a[2], a[3], a[4])
    if s ~= 0 then return s end
  end
  return L.c.cudnnBackendFinalize(d), d
end

local TENSOR = { { "UID", 1 }, { "DATA_TYPE", D.FLOAT }, { "DIMS", { 2, 4, 8, 16 } }, { "STRIDES", { 512, 128, 16, 1 } },
  { "ALIGNMENT", 16 } }

local function tensor(L, uid, dims, more)
  local list = changed(TENSOR, { UID = uid, DIMS = dims, STRIDES = M.packed(dims) })
  return L:make("TENSOR", changed(list, more or {}))
end

local function tensors(name, changes, alone)
  sequence("tensor: " .. name, function(L) return (status_of(L, "TENSOR", changed(TENSOR, changes))) end, alone)
end
tensors("as it should be", {})
tensors("virtual", { VIRTUAL = true })
tensors("by value", { BY_VALUE = true, DIMS = { 1, 1, 1, 1 }, STRIDES = { 1, 1, 1, 1 } })
tensors("half", { DATA_TYPE = D.HALF })
tensors("bf16", { DATA_TYPE = D.BFLOAT16 })
tensors("boolean", { DATA_TYPE = D.BOOLEAN })
tensors("of one dim", { DIMS = { 4 }, STRIDES = { 1 } })
tensors("of eight dims", { DIMS = { 1, 1, 1, 1, 1, 1, 1, 1 }, STRIDES = { 1, 1, 1, 1, 1, 1, 1, 1 } })
tensors("of nine dims", { DIMS = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, STRIDES = { 1, 1, 1, 1, 1, 1, 1, 1, 1 } })
tensors("without a data type", { DATA_TYPE = false })
tensors("without dims", { DIMS = false })
tensors("without strides", { STRIDES = false })
tensors("without an id", { UID = false })
tensors("without an alignment", { ALIGNMENT = false })
tensors("a dim of 0", { DIMS = { 2, 0, 8, 16 } })
tensors("a negative dim", { DIMS = { 2, -4, 8, 16 } })
tensors("a negative stride", { STRIDES = { 512, -128, 16, 1 } })
tensors("a stride of 0", { STRIDES = { 512, 0, 16, 1 } })
tensors("fewer strides than dims", { STRIDES = { 128, 16, 1 } })
tensors("an alignment of 0", { ALIGNMENT = 0 })
tensors("an alignment of 3", { ALIGNMENT = 3 })
tensors("an alignment of -16", { ALIGNMENT = -16 })
tensors("an alignment of 2 for floats", { ALIGNMENT = 2 })
tensors("virtual and by value", { VIRTUAL = true, BY_VALUE = true })
tensors("virtual and by value, one number", { VIRTUAL = true, BY_VALUE = true, DIMS = { 1, 1 }, STRIDES = { 1, 1 } })
tensors("many numbers by value", { BY_VALUE = true })
tensors("an unknown data type", { DATA_TYPE = 99 }, true)
tensors("an id of 0", { UID = 0 })
tensors("a negative id", { UID = -3 })

local function setting(name, kind, attribute, values, type, n, before)
  sequence(("set: %s"):format(name), function(L)
    local d = L:create(kind)
    for _, a in ipairs(before or {}) do L:set(d, a[1], a[2]) end
    return L:try_set(d, attribute, values, type, n)
  end)
end
setting("dims as 32 bits", "TENSOR", "DIMS", { 1, 2 }, T.INT32)
setting("two data types", "TENSOR", "DATA_TYPE", { 0, 0 })
setting("a count of 0", "TENSOR", "DIMS", { 1 }, nil, 0)
setting("a negative count", "TENSOR", "DIMS", { 1 }, nil, -1)
setting("a matmul's type of a tensor", "TENSOR", "MM_COMP", D.FLOAT)
setting("a data type as a number", "TENSOR", "DATA_TYPE", 0, T.INT64)
setting("virtual as a number", "TENSOR", "VIRTUAL", 1, T.INT64)
setting("the padding of a matmul", "MATMUL", "MM_PADDING", 0)
setting("an axis of a map", "POINTWISE", "PW_AXIS", 2)
setting("the workspace of a plan", "PLAN", "PLAN_WORKSPACE", 5)
setting("results of heuristics", "ENGINEHEUR", "HEUR_RESULTS", { nil })
sequence("set: no values", function(L)
  return L.c.cudnnBackendSetAttribute(L:create "TENSOR", M.ATTR.DIMS[1], T.INT64, 4, nil)
end)
sequence("set: no descriptor", function(L)
  local v = require "ffi".new("int64_t[1]", 1)
  return L.c.cudnnBackendSetAttribute(nil, M.ATTR.UID[1], T.INT64, 1, v)
end)
sequence("set: after finalize", function(L) return L:try_set(L:make("TENSOR", TENSOR), "UID", 7) end)
sequence("set: twice before finalize", function(L)
  local d = L:create "TENSOR"
  L:set(d, "UID", 3)
  return L:try_set(d, "UID", 4)
end)
sequence("set: a tensor that is not finalized", function(L) return L:try_set(L:create "OP_MATMUL", "OP_MM_A", L:create "TENSOR") end)
sequence("set: a map's descriptor as a tensor", function(L)
  local pw = L:make("POINTWISE", { { "PW_MODE", P.ADD }, { "PW_PREC", D.FLOAT } })
  return L:try_set(L:create "OP_MATMUL", "OP_MM_A", pw)
end)
sequence("finalize: twice", function(L) return L.c.cudnnBackendFinalize(L:make("TENSOR", TENSOR)) end)
sequence("finalize: nothing", function(L) return L.c.cudnnBackendFinalize(nil) end)
sequence("create: a kind that there is not", function(L)
  return L.c.cudnnBackendCreateDescriptor(777, require "ffi".new "void *[1]")
end)

local function kinds(name, kind, attributes, alone)
  sequence(name, function(L) return (status_of(L, kind, attributes)) end, alone)
end
kinds("map: a mode that there is not", "POINTWISE", { { "PW_MODE", 999 }, { "PW_PREC", D.FLOAT } }, true)
kinds("map: in another type", "POINTWISE", { { "PW_MODE", P.ADD }, { "PW_PREC", D.DOUBLE } })
kinds("matmul: in another type", "MATMUL", { { "MM_COMP", D.HALF } })
kinds("matmul: another padding than 0", "MATMUL", { { "MM_COMP", D.FLOAT }, { "MM_PADDING", 1 } })
kinds("reduction: an operator that there is not", "REDUCTION", { { "RED_OP", 99 }, { "RED_COMP", D.FLOAT } }, true)
kinds("reduction: in another type", "REDUCTION", { { "RED_OP", R.ADD }, { "RED_COMP", D.HALF } })
kinds("matmul: f32", "MATMUL", { { "MM_COMP", D.FLOAT } })
kinds("matmul: without a type", "MATMUL", {})
kinds("map: add", "POINTWISE", { { "PW_MODE", P.ADD }, { "PW_PREC", D.FLOAT } })
kinds("map: without a mode", "POINTWISE", { { "PW_PREC", D.FLOAT } })
kinds("map: without a type", "POINTWISE", { { "PW_MODE", P.ADD } })
kinds("map: index", "POINTWISE", { { "PW_MODE", P.GEN_INDEX }, { "PW_PREC", D.INT32 }, { "PW_AXIS", 2 } })
kinds("map: index in f32", "POINTWISE", { { "PW_MODE", P.GEN_INDEX }, { "PW_PREC", D.FLOAT }, { "PW_AXIS", 2 } })
kinds("map: index without an axis", "POINTWISE", { { "PW_MODE", P.GEN_INDEX }, { "PW_PREC", D.INT32 } })
kinds("map: comparison in booleans", "POINTWISE", { { "PW_MODE", P.CMP_GE }, { "PW_PREC", D.BOOLEAN } })
kinds("reduction: max", "REDUCTION", { { "RED_OP", R.MAX }, { "RED_COMP", D.FLOAT } })
kinds("reduction: without an operator", "REDUCTION", { { "RED_COMP", D.FLOAT } }, true) -- it reads what was not set
kinds("reduction: without a type", "REDUCTION", { { "RED_OP", R.MAX } })

--- Operations: dims of their tensors.
local function product(name, a, b, c, changes)
  sequence("op matmul: " .. name, function(L)
    local list = { { "OP_MM_A", tensor(L, 1, a) }, { "OP_MM_B", tensor(L, 2, b) }, { "OP_MM_C", tensor(L, 3, c) },
      { "OP_MM", L:make("MATMUL", { { "MM_COMP", D.FLOAT } }) } }
    return (status_of(L, "OP_MATMUL", changed(list, changes or {})))
  end)
end
product("as it should be", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 24 })
product("of rank 3", { 2, 8, 16 }, { 2, 16, 24 }, { 2, 8, 24 })
product("inner sizes differ", { 1, 2, 8, 16 }, { 1, 2, 8, 24 }, { 1, 2, 8, 24 })
product("another height of the result", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 16, 24 })
product("another width of the result", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 16 })
product("batches differ", { 1, 3, 8, 16 }, { 1, 2, 16, 24 }, { 1, 3, 8, 24 })
product("one matrix for all heads", { 1, 4, 8, 16 }, { 1, 1, 16, 24 }, { 1, 4, 8, 24 })
product("heads in groups", { 1, 4, 8, 16 }, { 1, 2, 16, 24 }, { 1, 4, 8, 24 })
product("ranks differ", { 1, 2, 8, 16 }, { 2, 16, 24 }, { 1, 2, 8, 24 })
product("without a", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 24 }, { OP_MM_A = false })
product("without b", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 24 }, { OP_MM_B = false })
product("without c", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 24 }, { OP_MM_C = false })
product("without a descriptor", { 1, 2, 8, 16 }, { 1, 2, 16, 24 }, { 1, 2, 8, 24 }, { OP_MM = false })

local function map(name, mode, x, b, y, o)
  o = o or {}
  sequence("op map: " .. name, function(L)
    local pw = { { "PW_MODE", mode }, { "PW_PREC", o.prec or D.FLOAT } }
    if o.axis then pw[3] = { "PW_AXIS", o.axis } end
    local list = { { "OP_PW", L:make("POINTWISE", pw) } }
    if x then list[#list + 1] = { "OP_PW_X", tensor(L, 1, x) } end
    if b then list[#list + 1] = { "OP_PW_B", tensor(L, 2, b) } end
    if y then list[#list + 1] = { "OP_PW_Y", tensor(L, 3, y, o.y) } end
    if o.t then list[#list + 1] = { "OP_PW_T", tensor(L, 4, o.t, { DATA_TYPE = D.BOOLEAN }) } end
    return (status_of(L, "OP_POINTWISE", list))
  end)
end
local S, ROW, ONE = { 1, 2, 8, 16 }, { 1, 2, 8, 1 }, { 1, 1, 1, 1 }
map("add", P.ADD, S, S, S)
map("subtract a column", P.SUB, S, ROW, S)
map("multiply by a number", P.MUL, S, ONE, S)
map("the first operand is broadcast", P.MUL, ONE, S, S)
map("both are broadcast", P.MUL, ROW, { 1, 2, 1, 16 }, S)
map("exp", P.EXP, S, nil, S)
map("another shape of the result", P.ADD, S, S, { 1, 2, 8, 8 })
map("a result that is smaller", P.ADD, S, S, ROW)
map("shapes that do not broadcast", P.ADD, S, { 1, 2, 4, 16 }, S)
map("add without b", P.ADD, S, nil, S)
map("exp with b", P.EXP, S, S, S)
map("without x", P.EXP, nil, nil, S)
map("without y", P.EXP, S, nil, nil)
map("exp of another shape", P.EXP, S, nil, ROW)
map("index", P.GEN_INDEX, S, nil, S, { axis = 2, prec = D.INT32, y = { DATA_TYPE = D.INT32 } })
map("index of an axis that there is not", P.GEN_INDEX, S, nil, S, { axis = 4, prec = D.INT32, y = { DATA_TYPE = D.INT32 } })
map("index of axis -1", P.GEN_INDEX, S, nil, S, { axis = -1, prec = D.INT32, y = { DATA_TYPE = D.INT32 } })
map("compare", P.CMP_GE, S, S, S, { prec = D.BOOLEAN, y = { DATA_TYPE = D.BOOLEAN } })
map("select", P.SELECT, S, ONE, S, { t = S })
map("select without a condition", P.SELECT, S, ONE, S)
map("add of whole numbers in f32", P.ADD, S, S, S, { y = { DATA_TYPE = D.INT32 } })
map("a result of more than its operands", P.ADD, ROW, ROW, S)
map("a result by value", P.ADD, ONE, ONE, ONE, { y = { BY_VALUE = true } })
map("add with a condition", P.ADD, S, S, S, { t = S })

sequence("op map: a result that is its own operand", function(L)
  local pw = L:make("POINTWISE", { { "PW_MODE", P.ADD }, { "PW_PREC", D.FLOAT } })
  local x, y = tensor(L, 1, S), tensor(L, 2, S)
  return (status_of(L, "OP_POINTWISE", { { "OP_PW", pw }, { "OP_PW_X", x }, { "OP_PW_B", y }, { "OP_PW_Y", y } }))
end)

local function reduction(name, x, y, changes)
  sequence("op reduction: " .. name, function(L)
    local list = { { "OP_RED", L:make("REDUCTION", { { "RED_OP", R.MAX }, { "RED_COMP", D.FLOAT } }) }, { "OP_RED_X", tensor(L, 1, x) },
      { "OP_RED_Y", tensor(L, 2, y) } }
    return (status_of(L, "OP_REDUCTION", changed(list, changes or {})))
  end)
end
reduction("of rows", S, ROW)
reduction("of columns", S, { 1, 2, 1, 16 })
reduction("of all", S, ONE)
reduction("of nothing", S, S)
reduction("to a size that is neither", S, { 1, 2, 8, 4 })
reduction("to more", ROW, S)
reduction("ranks differ", S, { 2, 8, 1 })
reduction("without x", S, ROW, { OP_RED_X = false })
reduction("without y", S, ROW, { OP_RED_Y = false })
reduction("without a descriptor", S, ROW, { OP_RED = false })

--- Graphs of a few operations: what is said of whether they hang together.
local function ops_of(name, f, alone)
  sequence("graph: " .. name, function(L)
    local function add(x, b, y)
      return L:make("OP_POINTWISE", { { "OP_PW", L:make("POINTWISE", { { "PW_MODE", P.ADD }, { "PW_PREC", D.FLOAT } }) }, { "OP_PW_X", x },
        { "OP_PW_B", b }, { "OP_PW_Y", y } })
    end
    local function t(uid, virtual) return tensor(L, uid, S, { VIRTUAL = virtual or false }) end
    local list = f(L, add, t)
    return (status_of(L, "GRAPH", list and { { "GRAPH_OPS", list } } or {}))
  end, alone)
end
ops_of("one operation", function(_, add, t) return { add(t(1), t(2), t(3)) } end)
ops_of("two operations", function(_, add, t)
  local v = t(3, true)
  return { add(t(1), t(2), v), add(v, t(2), t(4)) }
end)
ops_of("without operations", function() return nil end)
ops_of("a virtual tensor that nothing makes", function(_, add, t) return { add(t(1), t(2, true), t(3)) } end)
ops_of("a virtual result", function(_, add, t) return { add(t(1), t(2), t(3, true)) } end)
ops_of("a result that overlaps itself", function(L, add, t)
  return { add(t(1), t(2), tensor(L, 3, S, { STRIDES = { 256, 128, 8, 1 } })) }
end)
ops_of("a tensor for an operation", function(_, _, t) return { t(1) } end, true)
ops_of("a tensor that two operations make", function(_, add, t)
  local y = t(3)
  return { add(t(1), t(2), y), add(t(4), t(5), y) }
end)
ops_of("two operations that wait for one another", function(_, add, t)
  local y, z = t(3), t(4)
  return { add(t(1), y, z), add(t(2), z, y) }
end)
ops_of("an id of two tensors", function(L, add, t)
  return { add(t(1), tensor(L, 1, ROW), t(3)) }
end)
ops_of("operations in another order", function(_, add, t)
  local v = t(3, true)
  return { add(v, t(2), t(4)), add(t(1), t(2), v) }
end)

local function cache(name, attributes)
  sequence("cache of kernels: " .. name, function(L)
    local list = {}
    if attributes then
      local graph = { { "GRAPH_OPS", (L:attention { n = 8 }) } }
      for _, a in ipairs(attributes) do graph[#graph + 1] = a end
      list[1] = { "CACHE_GRAPH", L:make("GRAPH", graph) }
    end
    return (status_of(L, "KERNEL_CACHE", list))
  end)
end
cache("of dynamic shapes", { { "GRAPH_DYNAMIC", true } })
cache("of one size", {})
cache("without a graph", nil)

--- Attention as a device's heuristics see it: options of cudnn_graph's attention. alone: the library is not asked, it ends the process.
local function graph(name, o, alone) C.graphs[#C.graphs + 1] = { name = name, options = o, alone = alone } end
local function set(list, name, value)
  for _, a in ipairs(list) do
    if a[1] == name then
      a[2] = value
      return list
    end
  end
  list[#list + 1] = { name, value }
  return list
end
local function where(which, attribute, value)
  return function(name, list) if name == which then return set(list, attribute, value) end end
end
graph("plain", { n = 64 })
graph("causal", { n = 64, causal = true })
graph("bf16", { n = 64, dtype = D.BFLOAT16, causal = true })
graph("stats", { n = 64, stats = true })
graph("odd lengths", { n = 17, m = 33 })
graph("one query", { n = 1, m = 100 })
graph("heads of 8", { n = 64, d = 8 })
graph("heads of 40", { n = 64, d = 40 })
graph("heads of 128", { n = 64, d = 128 })
graph("values of 64, keys of 128", { n = 64, d = 128, dv = 64 })
graph("an output of f32", { n = 64, stats = true, out = D.FLOAT })
graph("the mask of the last query", { n = 16, m = 64, causal = true, shift = true })
graph("an output and stats that are f32, positions first", { n = 64, m = 100, b = 2, causal = true, shift = true, stats = true,
  out = D.FLOAT, os = { 8192, 64, 128, 1 } })
graph("keys and values of one head", { n = 64, h = 4, hk = 1 })
graph("heads in groups", { n = 64, h = 4, hk = 2 })
graph("positions, heads, features", { n = 64, qs = { 8192, 64, 128, 1 }, os = { 8192, 64, 128, 1 }, ks = { 8192, 64, 1, 128 },
  vs = { 8192, 64, 128, 1 } })
graph("heads of 60", { n = 64, d = 60 })
graph("values of 60", { n = 64, dv = 60 })
graph("f32 weights for half values", { n = 64, p_type = D.FLOAT })
graph("values of another type", { n = 64, wrong = where("v", "DATA_TYPE", D.BFLOAT16) })
graph("queries whose features are apart", { n = 64, qs = { 16384, 8192, 128, 2 } }, true)
graph("keys that are not transposed", { n = 64, m = 64, ks = { 8192, 4096, 64, 1 } }, true)
graph("values whose features are apart", { n = 64, vs = { 8192, 4096, 1, 64 } }, true)
graph("an output whose features are apart", { n = 64, os = { 8192, 4096, 1, 64 } }, true)
graph("a stride of queries that is no multiple of 8", { n = 64, qs = { 64 * 68 * 2, 64 * 68, 68, 1 } })
graph("scores that are not virtual", { n = 64, wrong = where("s", "VIRTUAL", false) })
graph("half scores", { n = 64, wrong = where("s", "DATA_TYPE", D.HALF) })
graph("half scores, scaled", { n = 64, wrong = where("scaled", "DATA_TYPE", D.HALF) })
graph("queries aligned to 8 bytes", { n = 64, wrong = where("q", "ALIGNMENT", 8) })
graph("heads of 264", { n = 64, d = 264 })
graph("weights that are not virtual", { n = 64, wrong = where("p", "VIRTUAL", false) })
graph("a sum that is not virtual", { n = 64, wrong = where("total", "VIRTUAL", false) })
graph("operands of f32", { n = 64, dtype = D.FLOAT })
graph("without the logarithms", { n = 64, stats = "none" })
graph("the least instead of the most", { n = 64, wrong = where("max.desc", "RED_OP", R.MIN) })
graph("a product instead of the sum", { n = 64, wrong = where("sum.desc", "RED_OP", R.MUL) })
graph("weights multiplied instead of divided", { n = 64, wrong = where("div.desc", "PW_MODE", P.MUL) })
graph("exp and log exchanged", { n = 64, wrong = where("exp.desc", "PW_MODE", P.LOG) })
graph("a mask of the other side", { n = 64, causal = true, wrong = where("compare.desc", "PW_MODE", P.CMP_LE) })

--- Calls each(name, answer) for each sequence (its status) and graph ("engines" or "none"). device: the capability of one that is not
--- there, for a library without a GPU.
function C.answers(L, device, each)
  for _, s in ipairs(C.sequences) do
    local asked = not (s.alone and device)
    local ok, status = true, "not asked"
    if asked then ok, status = pcall(s.run, L) end
    each(s.name, ok and tostring(status) or "raised " .. status)
    L:clear()
  end
  for _, g in ipairs(C.graphs) do
    local function ask()
      if g.alone and device then return "not asked" end
      local d, list = device and L:device(device), { { "GRAPH_OPS", (L:attention(g.options)) } }
      if not d then list[2] = { "GRAPH_HANDLE", L:handle() } end
      local status, found = L:ask(L:make("GRAPH", list), d)
      return status == 0 and found > 0 and "engines" or "none"
    end
    local ok, answer = pcall(ask)
    each("attention: " .. g.name, ok and answer or "raised " .. answer)
    L:clear()
  end
end

--- Makes the tensors, operations and graphs of a log (SOFT_CUDNN_LOG) again: each(number, "engines" or "none") for each graph.
function C.replay(L, device, log, each)
  local ffi = require "ffi"
  local wanted, made, n = {}, {}, 0
  for _, kind in ipairs { "POINTWISE", "MATMUL", "REDUCTION", "TENSOR", "OP_POINTWISE", "OP_MATMUL", "OP_REDUCTION", "GRAPH" } do
    wanted[M.KIND[kind]] = kind
  end
  local function bits(text)
    return ffi.new("uint64_t[1]", tonumber("0x" .. text:sub(-8)) + 4294967296ULL * tonumber("0x0" .. text:sub(1, -9)))
  end
  for line in io.lines(log) do
    local call, id, rest = line:match "^(%S+) (%S+) ?(.*)$"
    if call == "create" then made[id] = wanted[tonumber(rest)] and { wanted[tonumber(rest)], L:create(wanted[tonumber(rest)]) }
    elseif made[id] and call == "set" then
      local name, type, count, elements = rest:match "^(%d+) (%d+) (%d+)(.*)$"
      local ctype, i = M.ARRAY[tonumber(type)], 0
      local values = ffi.new(ctype, tonumber(count))
      local size = ffi.sizeof(values) / tonumber(count)
      for text in elements:gmatch "%x+" do
        if tonumber(type) == T.DESCRIPTOR then values[i] = made["0x" .. text][2]
        else ffi.copy(ffi.cast("char *", values) + i * size, bits(text), size) end
        i = i + 1
      end
      assert(L.c.cudnnBackendSetAttribute(made[id][2], tonumber(name), tonumber(type), i, values) == 0, line)
    elseif made[id] and call == "finalize" then
      assert(L.c.cudnnBackendFinalize(made[id][2]) == 0, line)
      if made[id][1] == "GRAPH" then
        n = n + 1
        local status, found = L:ask(made[id][2], L:device(device))
        each(n, status == 0 and found > 0 and "engines" or "none " .. L:why())
      end
    end
  end
end

if arg and arg[0] and arg[0]:find "cudnn_cases%.lua$" then
  local function show(name, answer)
    io.write(("%s: %s\n"):format(name, (answer:gsub("\n.*", ""))))
    io.flush()
  end
  local L = assert(M.load(arg[1]))
  if arg[3] then C.replay(L, tonumber(arg[2]), arg[3], show) else C.answers(L, tonumber(arg[2]), show) end
  os.exit(0)
end
return C
