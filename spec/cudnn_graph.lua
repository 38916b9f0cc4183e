-- cudnn_graph.lua -- cuDNN's graph API from Lua, by FFI, and operation graphs of attention: for a stand-in (spec/gpu/lib/cudnn.c) and
-- for the library itself, which are to accept and to refuse the same.
-- Out: {load, packed, KIND, TYPE, ARRAY, ATTR, DATA, PW, RED, HEUR}; load(path) gives a library L, whose methods raise "what: status why".
local ffi = require "ffi"

ffi.cdef [[
int cudnnCreate(void **handle); int cudnnDestroy(void *handle);
int cudnnSetStream(void *handle, void *stream); int cudnnGetStream(void *handle, void **stream);
size_t cudnnGetVersion(void);
const char *cudnnGetErrorString(int status); void cudnnGetLastErrorString(char *text, size_t size);
int cudnnBackendCreateDescriptor(int kind, void **descriptor); int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t n, const void *values);
int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t n, int64_t *found, void *values);
int cudnnBackendFinalize(void *descriptor);
int cudnnBackendExecute(void *handle, void *plan, void *pack);
]]

local M = {}

M.KIND = { POINTWISE = 0, ENGINE = 2, ENGINECFG = 3, ENGINEHEUR = 4, PLAN = 5, KNOB_CHOICE = 7, OP_POINTWISE = 13, GRAPH = 15,
  PACK = 16, TENSOR = 17, MATMUL = 18, OP_MATMUL = 19, REDUCTION = 21, OP_REDUCTION = 22, KERNEL_CACHE = 34, DEVICEPROP = 38 }

M.TYPE = { HANDLE = 0, DATA_TYPE = 1, BOOLEAN = 2, INT64 = 3, FLOAT = 4, DOUBLE = 5, VOID_PTR = 6, HEUR_MODE = 8, KNOB_TYPE = 9, NOTE = 11,
  NAN = 10, POINTWISE_MODE = 14, DESCRIPTOR = 15, REDUCTION_OPERATOR = 18, INT32 = 23 }
local T = M.TYPE
local ARRAY = { [T.HANDLE] = "void *[?]", [T.DATA_TYPE] = "int[?]", [T.BOOLEAN] = "bool[?]", [T.INT64] = "int64_t[?]",
  [T.FLOAT] = "float[?]", [T.DOUBLE] = "double[?]", [T.VOID_PTR] = "void *[?]", [T.HEUR_MODE] = "int[?]", [T.KNOB_TYPE] = "int[?]",
  [T.NAN] = "int[?]", [T.NOTE] = "int[?]", [T.POINTWISE_MODE] = "int[?]", [T.DESCRIPTOR] = "void *[?]", [T.REDUCTION_OPERATOR] = "int[?]",
  [T.INT32] = "int32_t[?]" }
M.ARRAY = ARRAY

--- Attributes: number and type.
M.ATTR = {
  PW_MODE = { 0, T.POINTWISE_MODE }, PW_PREC = { 1, T.DATA_TYPE }, PW_NAN = { 2, T.NAN }, PW_LOWER = { 3, T.DOUBLE },
  PW_AXIS = { 9, T.INT64 }, HEUR_MODE = { 200, T.HEUR_MODE }, HEUR_GRAPH = { 201, T.DESCRIPTOR },
  HEUR_RESULTS = { 202, T.DESCRIPTOR }, HEUR_DEVICE = { 204, T.DESCRIPTOR }, CFG_ENGINE = { 300, T.DESCRIPTOR },
  CFG_KNOBS = { 302, T.DESCRIPTOR }, CFG_WORKSPACE = { 303, T.INT64 }, PLAN_HANDLE = { 400, T.HANDLE },
  PLAN_CFG = { 401, T.DESCRIPTOR }, PLAN_WORKSPACE = { 402, T.INT64 }, PLAN_CACHE = { 406, T.DESCRIPTOR },
  PLAN_DEVICE = { 407, T.DESCRIPTOR }, KNOB_TYPE = { 600, T.KNOB_TYPE }, KNOB_VALUE = { 601, T.INT64 },
  OP_PW = { 750, T.DESCRIPTOR }, OP_PW_X = { 751, T.DESCRIPTOR }, OP_PW_B = { 752, T.DESCRIPTOR },
  OP_PW_Y = { 753, T.DESCRIPTOR }, OP_PW_ALPHA1 = { 754, T.FLOAT }, OP_PW_ALPHA2 = { 755, T.FLOAT },
  OP_PW_T = { 758, T.DESCRIPTOR }, GRAPH_HANDLE = { 800, T.HANDLE }, GRAPH_OPS = { 801, T.DESCRIPTOR },
  GRAPH_ENGINES = { 802, T.INT64 }, GRAPH_DYNAMIC = { 803, T.BOOLEAN }, ALIGNMENT = { 900, T.INT64 },
  DATA_TYPE = { 901, T.DATA_TYPE }, DIMS = { 902, T.INT64 }, STRIDES = { 903, T.INT64 }, UID = { 906, T.INT64 },
  VIRTUAL = { 907, T.BOOLEAN }, BY_VALUE = { 908, T.BOOLEAN }, PACK_UIDS = { 1000, T.INT64 },
  PACK_POINTERS = { 1001, T.VOID_PTR }, PACK_WORKSPACE = { 1003, T.VOID_PTR }, ENGINE_GRAPH = { 1300, T.DESCRIPTOR },
  ENGINE_INDEX = { 1301, T.INT64 }, ENGINE_NOTES = { 1303, T.NOTE }, MM_COMP = { 1500, T.DATA_TYPE },
  MM_PADDING = { 1503, T.DOUBLE }, OP_MM_A = { 1520, T.DESCRIPTOR }, OP_MM_B = { 1521, T.DESCRIPTOR },
  OP_MM_C = { 1522, T.DESCRIPTOR }, OP_MM = { 1523, T.DESCRIPTOR }, RED_OP = { 1600, T.REDUCTION_OPERATOR },
  RED_COMP = { 1601, T.DATA_TYPE }, OP_RED_X = { 1610, T.DESCRIPTOR }, OP_RED_Y = { 1611, T.DESCRIPTOR },
  OP_RED = { 1612, T.DESCRIPTOR }, CACHE_GRAPH = { 2400, T.DESCRIPTOR },
}
M.DATA = { FLOAT = 0, DOUBLE = 1, HALF = 2, INT8 = 3, INT32 = 4, BFLOAT16 = 9, INT64 = 10, BOOLEAN = 11 }
M.PW = { ADD = 0, MUL = 1, MIN = 2, MAX = 3, SQRT = 4, DIV = 6, SUB = 9, EXP = 13, LOG = 15, NEG = 16, IDENTITY = 21, RECIPROCAL = 22,
  CMP_EQ = 300, CMP_NEQ = 301, CMP_GT = 302, CMP_GE = 303, CMP_LT = 304, CMP_LE = 305, GEN_INDEX = 501, SELECT = 601 }
M.HEUR = { INSTANT = 0, B = 1, FALLBACK = 2, A = 3 }
M.RED = { ADD = 0, MUL = 1, MIN = 2, MAX = 3 }

local Library = {}
Library.__index = Library

function M.load(path)
  local ok, c = pcall(ffi.load, path)
  if not ok then return nil, c end
  return setmetatable({ c = c, made = {} }, Library)
end

--- What the library says of its last error.
function Library:why()
  local text = ffi.new "char[16384]"
  self.c.cudnnGetLastErrorString(text, 16384)
  return ffi.string(text)
end

local function check(L, status, what)
  if status ~= 0 then error(("%s: %d %s"):format(what, status, L:why()), 0) end
end

function Library:create(kind)
  local d = ffi.new "void *[1]"
  check(self, self.c.cudnnBackendCreateDescriptor(assert(M.KIND[kind], kind), d), "create " .. kind)
  self.made[#self.made + 1] = d[0]
  return d[0]
end

function Library:handle()
  local h = ffi.new "void *[1]"
  check(self, self.c.cudnnCreate(h), "cudnnCreate")
  return h[0]
end

--- The status of setting an attribute; values: one value or a list. type, n: others than the right ones.
function Library:try_set(d, name, values, type, n)
  local attr = assert(M.ATTR[name], name)
  if _G.type(values) ~= "table" then values = { values } end
  type = type or attr[2]
  local array = ffi.new(ARRAY[type], math.max(1, #values))
  for i, v in ipairs(values) do array[i - 1] = v end
  return self.c.cudnnBackendSetAttribute(d, attr[1], type, n or #values, array)
end

function Library:set(d, name, ...) check(self, self:try_set(d, name, ...), "set " .. name) end

--- A finalized descriptor of these attributes, {name, values ...} in order.
function Library:make(kind, attributes)
  local d = self:create(kind)
  for _, a in ipairs(attributes) do self:set(d, a[1], a[2], a[3], a[4]) end
  check(self, self.c.cudnnBackendFinalize(d), "finalize " .. kind)
  return d
end

function Library:get(d, name, most, into)
  local attr = assert(M.ATTR[name], name)
  local found, values = ffi.new("int64_t[1]", -1), into or ffi.new(ARRAY[attr[2]], math.max(1, most))
  local status = self.c.cudnnBackendGetAttribute(d, attr[1], attr[2], most, found, most > 0 and values or nil)
  return status, tonumber(found[0]), values
end

--- All descriptors that were made, destroyed.
function Library:clear()
  for i = #self.made, 1, -1 do self.c.cudnnBackendDestroyDescriptor(self.made[i]) end
  self.made = {}
end


--- A device that is not there, an H100 of that capability (900, 800 ...), for queries of the library's heuristics.
function Library:device(capability)
  local text = ('{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,' ..
    '"multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,' ..
    '"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,' ..
    '"maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85000000000,' ..
    '"smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":%d,' ..
    '"driverVer":13000,"deviceName":"NVIDIA H100 80GB HBM3"}'):format(capability)
  local d = self:create "DEVICEPROP"
  check(self, self.c.cudnnBackendSetAttribute(d, 2702, 24, #text, text), "device")
  check(self, self.c.cudnnBackendFinalize(d), "device")
  return d
end

--- Strides of dims in row-major order.
function M.packed(dims)
  local strides, step = {}, 1
  for i = #dims, 1, -1 do strides[i], step = step, step * dims[i] end
  return strides
end

--- The operations of attention. o: b, h, hk (heads of k and v), n, m (queries, keys), d, dv, dtype, causal, shift (the mask's corner
--- is the last query and key), stats (bound; "none": not made), out (type of the output), qs ks vs os (strides), by_value (false: the
--- scale is on the device); wrong: a function that is called with each node's name and attributes before they are set, and may return
--- others. Returns operations and uids by tensor's name.
function Library:attention(o)
  local D, P, R = M.DATA, M.PW, M.RED
  local io, b, h, hk, n, m, d = o.dtype or D.HALF, o.b or 1, o.h or 2, o.hk or o.h or 2, o.n or 16, o.m or o.n or 16, o.d or 64
  local dv = o.dv or d
  local uid, ops, uids = 0, {}, {}
  local function node(kind, name, attributes)
    if o.wrong then attributes = o.wrong(name, attributes) or attributes end
    return self:make(kind, attributes)
  end
  local function tensor(name, dims, dtype, strides, virtual, by_value)
    uid = uid + 1
    uids[name] = uid
    return node("TENSOR", name, { { "UID", uid }, { "DATA_TYPE", dtype }, { "DIMS", dims }, { "STRIDES", strides or M.packed(dims) },
      { "ALIGNMENT", 16 }, { "VIRTUAL", virtual or false }, { "BY_VALUE", by_value or false } })
  end
  local function virtual(name, dims, dtype) return tensor(name, dims, dtype or D.FLOAT, nil, true) end
  local function product(name, x, y, z)
    local mm = node("MATMUL", name .. ".desc", { { "MM_COMP", D.FLOAT } })
    ops[#ops + 1] = node("OP_MATMUL", name, { { "OP_MM_A", x }, { "OP_MM_B", y }, { "OP_MM_C", z }, { "OP_MM", mm } })
    return z
  end
  local function map(name, mode, x, y, z, t, axis, prec)
    local list = { { "PW_MODE", mode }, { "PW_PREC", prec or D.FLOAT } }
    if axis then list[#list + 1] = { "PW_AXIS", axis } end
    local pw = node("POINTWISE", name .. ".desc", list)
    list = { { "OP_PW", pw }, { "OP_PW_X", x }, { "OP_PW_Y", z } }
    if y then list[#list + 1] = { "OP_PW_B", y } end
    if t then list[#list + 1] = { "OP_PW_T", t } end
    ops[#ops + 1] = node("OP_POINTWISE", name, list)
    return z
  end
  local function reduce(name, op, x, y)
    local red = node("REDUCTION", name .. ".desc", { { "RED_OP", op }, { "RED_COMP", D.FLOAT } })
    ops[#ops + 1] = node("OP_REDUCTION", name, { { "OP_RED", red }, { "OP_RED_X", x }, { "OP_RED_Y", y } })
    return y
  end
  local score, row = { b, h, n, m }, { b, h, n, 1 }
  local q = tensor("q", { b, h, n, d }, io, o.qs)
  local k = tensor("k", { b, hk, d, m }, io, o.ks or { hk * m * d, m * d, 1, d })
  local v = tensor("v", { b, hk, m, dv }, io, o.vs)
  local s = product("scores", q, k, virtual("s", score))
  local scale = tensor("scale", { 1, 1, 1, 1 }, D.FLOAT, nil, false, o.by_value ~= false)
  s = map("scaling", P.MUL, s, scale, virtual("scaled", score))
  if o.causal then
    local i = map("rows", P.GEN_INDEX, s, nil, virtual("i", score, D.INT32), nil, 2, D.INT32)
    local j = map("columns", P.GEN_INDEX, s, nil, virtual("j", score, D.INT32), nil, 3, D.INT32)
    if o.shift then -- query i sees keys up to i + m - n
      local function whole(name) return tensor(name, { 1, 1, 1, 1 }, D.INT32, nil, false, true) end
      i = map("plus", P.ADD, i, whole "keys", virtual("i1", score, D.INT32), nil, nil, D.INT32)
      i = map("minus", P.SUB, i, whole "queries", virtual("i2", score, D.INT32), nil, nil, D.INT32)
    end
    local seen = map("compare", P.CMP_GE, i, j, virtual("seen", score, D.BOOLEAN), nil, nil, D.BOOLEAN)
    local low = tensor("low", { 1, 1, 1, 1 }, D.FLOAT, nil, false, true)
    s = map("select", P.SELECT, s, low, virtual("masked", score), seen)
  end
  local most = reduce("max", R.MAX, s, virtual("most", row))
  local e = map("exp", P.EXP, map("sub", P.SUB, s, most, virtual("less", score)), nil, virtual("e", score))
  local sum = reduce("sum", R.ADD, e, virtual("total", row))
  if o.stats ~= "none" then
    local logs = map("log", P.LOG, sum, nil, virtual("logs", row))
    map("add", P.ADD, most, logs, tensor("stats", row, D.FLOAT, nil, not o.stats))
  end
  local p = map("div", P.DIV, e, sum, virtual("p", score, o.p_type or io))
  product("values", p, v, tensor("o", { b, h, n, dv }, o.out or io, o.os))
  return ops, uids
end

--- Configurations that the heuristics have for a graph.
function Library:ask(graph, device, mode, most)
  local list = { { "HEUR_GRAPH", graph }, { "HEUR_MODE", mode or M.HEUR.A } }
  if device then list[#list + 1] = { "HEUR_DEVICE", device } end
  local heur = self:make("ENGINEHEUR", list)
  local _, n = self:get(heur, "HEUR_RESULTS", 0)
  local results = ffi.new("void *[?]", most or 8)
  for i = 0, (most or 8) - 1 do results[i] = self:create "ENGINECFG" end
  local status, found = self:get(heur, "HEUR_RESULTS", most or 8, results)
  return status, found, results, n
end

return M
