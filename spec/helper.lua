--- helper.lua -- what specs share: the oracle, test data, layouts, comparison to the bit, subprocesses.
-- The oracle (oracle.c) is compiled once into build/spec and called through FFI.

local ffi = require "ffi"
local ty = require "tycho"
local module = require "spec.module"

-- Specs compile what cannot be captured, and so do the processes that they start: no line tells of it.
ffi.cdef [[
int setenv(const char *name, const char *value, int overwrite);
int _putenv_s(const char *name, const char *value);
]]
local function set_variable(name, value)
  if module.windows then ffi.C._putenv_s(name, value) else ffi.C.setenv(name, value, 1) end
end
set_variable("TYCHO_LOG", "0")
jit.log = false

local M = { ty = ty, ffi = ffi, internals = ty.internals, probe = ty.internals.probe }

--- The directory of the project, with a slash at the end.
M.root = module.root

--- Under a sanitizer, and where the library checks memory itself (TYCHO_CHECK=memory), memory is not what it is
--- otherwise: claims about resident memory are skipped.
M.asan = (os.getenv "LD_PRELOAD" or ""):find("asan", 1, true) ~= nil
M.checked = (os.getenv "TYCHO_CHECK" or ""):find("^memory") ~= nil
M.sanitized = M.asan or M.checked

--- Whether all cases are asked for (`make test-long`): claims over many cases run a share of them else.
M.long = (os.getenv "TEST_LONG" or "") ~= ""

--- How many cases a claim runs: `few`, or all of them in `make test-long`.
function M.cases(few, all) return M.long and all or few end

--- Chooses the share of this run: `make test` sets it to a number that each commit changes.
M.seed = tonumber(os.getenv "TEST_SEED") or 1

--- Whether this run has the i-th of equal cases: one in n, others with another seed; all in `make test-long`.
function M.share(i, n) return M.long or (i + M.seed) % n == 0 end

function M.read(path)
  local f = assert(io.open(M.root .. path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

--- The keys of a table in their order.
function M.sorted(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  return keys
end

-- The oracle ------------------------------------------------------------------------------------------------------

ffi.cdef [[
void oracle_store(const char *dtype, const double *x, int64_t n, void *y);
void oracle_load(const char *dtype, const void *x, int64_t n, double *y);
void oracle_store_int(const char *dtype, const int64_t *x, int64_t n, void *y);
void oracle_cast(const char *from, const char *to, const void *x, int64_t n, void *y);
int64_t oracle_differ(const char *dtype, const void *a, const void *b, int64_t n);
double oracle_ulp(const char *name, const char *dtype, int64_t n, const void *a, const void *b, const void *got,
                  int64_t *worst);
double oracle_distance(const char *dtype, double want, double got);
double oracle_value(const char *name, double a, double b);
int oracle_int(const char *name, const char *dtype, int64_t n, const void *pa, const void *pb, void *y);
int oracle_compare(const char *name, const char *dtype, int64_t n, const void *pa, const void *pb, uint8_t *y);
void oracle_reduce(const char *name, int single, int trailing, int64_t outer, int64_t n, int64_t inner,
                   const double *x, double *y);
void oracle_scan(const char *name, int single, int64_t n, const double *x, double *y);
void oracle_product(int single, int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *y);
void oracle_product_int(int64_t m, int64_t n, int64_t k, const int64_t *a, const int64_t *b, int64_t *y);
void oracle_philox(const uint32_t *counter, const uint32_t *key, uint32_t *y);
int oracle_is_flushing(void);
void oracle_flush_to_zero(int on);
]]

M.windows = module.windows
M.shell, M.make_folder, M.remove_folder = module.shell, module.make_folder, module.remove_folder
M.oracle = ffi.load(module.build("oracle", "-O1 -lm"))
local oracle = M.oracle

-- Dtypes and rows --------------------------------------------------------------------------------------------------

M.dtypes, M.dtype = {}, {}
--- Those whose elements are more than doubles can tell apart.
M.wide = { i64 = true, u64 = true }
for i, d in ipairs(M.probe.dtypes()) do
  M.dtypes[i], M.dtype[d.name] = d.name, d
end

function M.is_float(dtype) return M.dtype[dtype].kind == "f" end

M.ops, M.op = M.probe.ops(), {}
for _, row in ipairs(M.ops) do M.op[row.name] = row end

--- The dtype in which a row computes on operands of a dtype, and that of its result; nil where the rule refuses it.
function M.meet(rule, dtype)
  local float, bool = M.is_float(dtype), dtype == "bool"
  if rule == "arith" or rule == "dot" then return bool and "i64" or dtype, bool and "i64" or dtype end
  if rule == "float" then return float and dtype or "f32", float and dtype or "f32" end
  if rule == "int" then return not float and not bool and dtype or nil, dtype end
  if rule == "bits" then return not float and dtype or nil, dtype end
  if rule == "cmp" then return dtype, "bool" end
  return dtype, dtype
end

-- Data -------------------------------------------------------------------------------------------------------------

--- Numbers that repeat: a generator of its own, so that no change to the library's moves the tests.
function M.random(seed)
  local state = ffi.new("uint64_t[1]", 0x9E3779B97F4A7C15ULL * (seed + 1))
  local r = {}
  function r.bits()
    local x = state[0]
    x = bit.bxor(x, bit.lshift(x, 13))
    x = bit.bxor(x, bit.rshift(x, 7))
    x = bit.bxor(x, bit.lshift(x, 17))
    state[0] = x
    return x
  end
  function r.unit() return tonumber(bit.rshift(r.bits(), 11)) * 2 ^ -53 end
  function r.whole(a, b) return a + math.floor(r.unit() * (b - a + 1)) end
  function r.range(a, b) return a + r.unit() * (b - a) end
  return r
end

--- Memory for n elements, at least one.
function M.buffer(dtype, n)
  return ffi.new("uint8_t[?]", math.max(1, tonumber(n)) * M.dtype[dtype].bytes)
end

local inf, nan = math.huge, 0 / 0
local minus_zero = -1 / inf -- the literal is 0 where LuaJIT has two kinds of numbers

local special = {
  f16 = { 2 ^ -24, 3 * 2 ^ -24, 2 ^ -14 - 2 ^ -24, 2 ^ -14, 65504, 65472, 1 + 2 ^ -10, 1 - 2 ^ -11 },
  bf16 = { 2 ^ -133, 3 * 2 ^ -133, 2 ^ -126, 0x1.fep127, 1 + 2 ^ -7, 1 - 2 ^ -8, 256, 1e30 },
  f32 = { 2 ^ -149, 3 * 2 ^ -149, 2 ^ -126 - 2 ^ -149, 2 ^ -126, 0x1.fffffep127, 1 + 2 ^ -23, 1 - 2 ^ -24, 16777217,
    88.72283, -87.33655, 1e30, 2 ^ 31, 2 ^ 63 },
  f64 = { 2 ^ -1074, 3 * 2 ^ -1074, 2 ^ -1022, 0x1.fffffffffffffp1023, 1 + 2 ^ -52, 1 - 2 ^ -53, 709.7827128933840,
    -745.13321910194110, 1e300, 2 ^ 53 + 2, 2 ^ 31, 2 ^ 63 },
}
local common = { 0, minus_zero, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 2, -2, 3, 7, -7, 10, 0.1, math.pi, math.pi / 2, inf, -inf, nan }

--- Special values of a dtype as an array of doubles (floats) or of 64-bit integers, and their count.
function M.specials(dtype)
  local list = {}
  if M.is_float(dtype) then
    for _, v in ipairs(common) do list[#list + 1] = v end
    for _, v in ipairs(special[dtype]) do
      list[#list + 1] = v
      list[#list + 1] = -v
    end
    return ffi.new("double[?]", #list, list), #list
  end
  local d = M.dtype[dtype]
  if d.kind == "b" then return ffi.new("int64_t[2]", { 0, 1 }), 2 end
  for _, v in ipairs { 0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127 } do list[#list + 1] = 0LL + v end
  local top = bit.lshift(1LL, d.bytes * 8 - 1)
  if d.kind == "u" then
    for _, v in ipairs { 128LL, 254LL, 255LL } do list[#list + 1] = v end
    for _, v in ipairs(d.bytes > 1 and { top, top - 1, top + 1, -1LL, -2LL, -3LL } or {}) do list[#list + 1] = v end
  else
    for _, v in ipairs { -1LL, -2LL, -3LL, -7LL, -64LL, top - 1, top - 2, -top, 1 - top } do list[#list + 1] = v end
  end
  return ffi.new("int64_t[?]", #list, list), #list
end

-- Whether a C type is that of 64-bit integers, by its number.
local are_integers = {}

--- Elements from doubles or 64-bit integers.
function M.store(dtype, values, n, to)
  to = to or M.buffer(dtype, n)
  local ctype = tonumber(ffi.typeof(values))
  local integers = are_integers[ctype]
  if integers == nil then
    integers = tostring(ffi.typeof(values)):find("int64_t", 1, true) ~= nil
    are_integers[ctype] = integers
  end
  if integers then
    oracle.oracle_store_int(dtype, values, n, to)
  else
    oracle.oracle_store(dtype, values, n, to)
  end
  return to
end

--- n elements: special values, any bits, and values of everyday size, in turn.
function M.values(dtype, n, seed)
  local r, d, to = M.random(seed or 1), M.dtype[dtype], M.buffer(dtype, n)
  local specials, count = M.specials(dtype)
  local one_double, one_int = ffi.new "double[1]", ffi.new "int64_t[1]"
  for i = 0, n - 1 do
    local at, kind = to + i * d.bytes, r.whole(1, 4)
    if kind == 1 then
      M.store(dtype, specials + r.whole(0, count - 1), 1, at)
    elseif d.kind == "f" and kind >= 3 then
      one_double[0] = r.range(-8, 8)
      oracle.oracle_store(dtype, one_double, 1, at)
    else
      one_int[0] = kind == 2 and ffi.cast("int64_t", r.bits()) or r.whole(-20, 20)
      if d.kind == "f" then ffi.copy(at, one_int, d.bytes) else oracle.oracle_store_int(dtype, one_int, 1, at) end
    end
  end
  return to
end

--- A tensor of those bytes that shares nothing with them.
function M.tensor(dtype, bytes, shape)
  local t = ty.empty(shape, { dtype = dtype, device = "cpu" })
  local n, device = t:numel(), ty.device()
  if n > 0 then ffi.copy(t:data(), bytes, n * M.dtype[dtype].bytes) end
  return device == "cpu" and t:clone() or t:to(device)
end

--- A tensor of n (or of those sizes) mixed values.
function M.mixed(dtype, shape, seed)
  if type(shape) == "number" then shape = { shape } end
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return M.tensor(dtype, M.values(dtype, n, seed), shape)
end

--- The bytes of a tensor's elements in order, and their count.
function M.bytes(t)
  if ty.is_complex(t) then t = ty.view_as_real(t) end
  local c = t:clone():to("cpu")
  local n, size = c:numel(), M.dtype[c.dtype].bytes
  local to = M.buffer(c.dtype, n)
  if n > 0 then ffi.copy(to, c:data(), n * size) end
  return to, n
end

--- Elements as doubles.
function M.doubles(t)
  if ty.is_complex(t) then t = ty.view_as_real(t) end
  local bytes, n = M.bytes(t)
  local y = ffi.new("double[?]", math.max(1, n))
  oracle.oracle_load(t.dtype, bytes, n, y)
  return y, n
end

--- The elements of a tensor in row-major order, as a list of numbers.
function M.list(t)
  local v, n = M.doubles(t)
  local y = {}
  for i = 1, n do y[i] = v[i - 1] end
  return y
end

-- Comparison -------------------------------------------------------------------------------------------------------

local function describe(t) return ("%s[%s]"):format(t.dtype, table.concat(t.shape, ",")) end
M.describe = describe

function M.element(dtype, bytes, i)
  local size = M.dtype[dtype].bytes
  local hex = {}
  for k = size - 1, 0, -1 do hex[#hex + 1] = ("%02x"):format(bytes[i * size + k]) end
  local y = ffi.new "double[1]"
  oracle.oracle_load(dtype, bytes + i * size, 1, y)
  return ("%.17g (0x%s)"):format(y[0], table.concat(hex))
end

--- nil where both are the same to the bit (NaNs are one value), else what differs.
function M.difference(want, got)
  if describe(want) ~= describe(got) then return ("%s instead of %s"):format(describe(got), describe(want)) end
  local a, n = M.bytes(want)
  local b = M.bytes(got)
  local at = tonumber(oracle.oracle_differ(want.dtype, a, b, n))
  if at < 0 then return nil end
  return ("%s: element %d is %s instead of %s"):format(describe(want), at + 1, M.element(want.dtype, b, at),
    M.element(want.dtype, a, at))
end

--- Raises where the tensors differ by a bit.
function M.same(want, got, what)
  local wrong = M.difference(want, got)
  if wrong then error((what and what .. ": " or "") .. wrong, 2) end
end

--- Raises where a tensor's elements are not those bytes.
function M.same_bytes(want, t, what)
  local b, n = M.bytes(t)
  local at = tonumber(oracle.oracle_differ(t.dtype, want, b, n))
  if at >= 0 then
    error(("%s%s: element %d is %s instead of %s"):format(what and what .. ": " or "", describe(t), at + 1,
      M.element(t.dtype, b, at), M.element(t.dtype, want, at)), 2)
  end
end

-- Layouts ----------------------------------------------------------------------------------------------------------

--- The same elements as a vector x, lying in memory in other ways. Each gives a tensor of x's contents and sizes.
M.layouts = {
  contiguous = function(x) return x:clone() end,
  sliced = function(x) -- every second place of a longer one, begun late
    local n = x:numel()
    local y = ty.zeros({ 2 * n + 3 }, { dtype = x.dtype })
    local v = n > 0 and y[{ { 3, 2 * n + 1, 2 } }] or y[{ { 3, 2 } }]
    v:copy_(x)
    return v
  end,
  reversed = function(x) return x:flip():clone():flip() end,
  column = function(x) -- of a matrix
    local n = x:numel()
    local y = ty.zeros({ n, 3 }, { dtype = x.dtype })
    y:t()[2]:copy_(x)
    return y:t()[2]
  end,
}
M.layout_names = { "contiguous", "sliced", "reversed", "column" }

-- Errors -----------------------------------------------------------------------------------------------------------

--- An error's text without its position, and without the line that a device names in what it finds later.
local function bare(message)
  if type(message) ~= "string" then return message end
  return (message:gsub("^[^\n]-:%d+: ", ""):gsub(" %([^()]+:%d+%)$", ""))
end

local function told(ok, ...)
  local fine, message = pcall(ty.synchronize)
  if ok and not fine then return false, bare(message) end
  if not ok then return false, bare((...)) end
  return ok, ...
end

--- pcall. What a device other than the CPU finds later is the call's own error, and errors name no lines there.
function M.pcall(fn, ...)
  if ty.device() == "cpu" then return pcall(fn, ...) end
  return told(pcall(fn, ...))
end

--- Calls fn(...), which must raise a text; gives it without "file:line: ".
function M.raises(fn, ...)
  local ok, message = M.pcall(fn, ...)
  if ok then error("no error was raised", 2) end
  if type(message) ~= "string" then error("an error that is no text: " .. tostring(message), 2) end
  return (bare(message):gsub("@" .. ty.device(), "")) -- types name another device than the CPU
end

-- Modes ------------------------------------------------------------------------------------------------------------

--- Compiles a function that has not been compiled yet so that it is never captured: each call runs it and records.
function M.lazy(fn, opts)
  local capture = M.internals.capture
  local was = capture.off
  capture.off = true
  local ok, compiled = pcall(ty.compile, fn, opts)
  capture.off = was
  if not ok then error(compiled, 2) end
  return compiled
end

-- Processes --------------------------------------------------------------------------------------------------------

--- The same under Windows, where a command says no variables and no shell says a status.
local function script_windows(path, env, arguments)
  local out, was = os.tmpname(), {}
  for k, v in pairs(env or {}) do
    was[k] = os.getenv(k) or ""
    set_variable(k, tostring(v))
  end
  local status = os.execute(("luajit.exe %s %s > %s 2>&1"):format(path, (arguments or ""):gsub("'", '"'), (out:gsub("/", "\\"))))
  for k, v in pairs(was) do set_variable(k, v) end
  local text = assert(io.open(out)):read "*a"
  os.remove(out)
  os.remove(path)
  return text, status
end

--- Runs a Lua script in a process of its own, with the same library. env: variables to set, in a table, or as the shell has
--- them in front of a command. Gives its output (both streams) and its exit status; 128 + n stands for signal n.
function M.script(code, env, arguments)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(code)
  f:close()
  if module.windows then return script_windows(path, env, arguments) end
  local words = type(env) == "string" and { env } or {}
  for k, v in pairs(type(env) == "table" and env or {}) do words[#words + 1] = ("%s='%s'"):format(k, v) end
  local pipe = io.popen(("%s luajit '%s' %s 2>&1; echo \"status $?\""):format(table.concat(words, " "), path,
    arguments or ""))
  local out = pipe:read "*a"
  pipe:close()
  os.remove(path)
  local text, status = out:match("^(.*)status (%d+)\n$")
  return text, tonumber(status)
end

--- A field of /proc/self/status in KB: VmRSS, VmHWM.
M.process = [[
local function memory(name)
  for line in io.lines("/proc/self/status") do
    local n = line:match("^" .. name .. ":%s*(%d+) kB")
    if n then return tonumber(n) end
  end
end
]]

--- Values as text: of a tensor its dtype, sizes and elements.
function M.texts(...)
  local list = { ... }
  for i = 1, select("#", ...) do
    local v = list[i]
    list[i] = M.ty.is_tensor(v) and v.dtype .. table.concat(v.shape, ",") .. table.concat(M.list(v), " ") or tostring(v)
  end
  return table.concat(list, "; ")
end

return M
