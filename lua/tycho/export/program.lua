--- export/program.lua -- loop programs as C functions.
-- In: a program as text, the launch of a step, what its operands are. Out: the text of a C function. Raises (through
-- the file's `refuse`) where a program has what cannot be written.
--
-- The order of every sum is tile.c's: see its head, whose rules 1 to 3 are followed here, too. A row goes in chunks of as
-- many elements as there are lanes, element j of a chunk to lane j, so that compilers make vectors of the loops; columns
-- go in strips, of which each row is one step of lane r % 4.

local sizes = require "tycho.export.sizes"

local format, match, gmatch, find, sub = string.format, string.match, string.gmatch, string.find, string.sub
local concat, ipairs, pairs, tonumber, type = table.concat, ipairs, pairs, tonumber, type
local min, max = math.min, math.max
local text, at_most = sizes.text, sizes.at_most

local M = {}

M.BLOCK, M.COL_BLOCK, M.COL_LANES, M.SCAN = 4096, 256, 4, 16
local STRIP = 64 -- columns that are worked on together

-- Programs ------------------------------------------------------------------------------------------------------------

local ctype = { i32 = "int32_t", i64 = "int64_t", f32 = "float", f64 = "double" }
M.ctype = ctype
--- What elements in memory are.
M.stored = { bool = "uint8_t", u8 = "uint8_t", i8 = "int8_t", i16 = "int16_t", i32 = "int32_t", i64 = "int64_t",
  f16 = "uint16_t", bf16 = "uint16_t", f32 = "float", f64 = "double" }
M.bytes = { bool = 1, u8 = 1, i8 = 1, i16 = 2, i32 = 4, i64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }
--- What they are computed in.
M.computed = { bool = "i32", u8 = "i32", i8 = "i32", i16 = "i32", i32 = "i32", i64 = "i64", f16 = "f32", bf16 = "f32",
  f32 = "f32", f64 = "f64" }

local dtypes = { [0] = "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" }

--- The program of a text: {kind, fast, operands = {[0] = {dtype, row, write}}, body = {[0] = {op, type, row, from, imm,
--- a, b, c}}}, imm a number, or of constants the bits as a text.
function M.parse(source)
  local p = { operands = {}, body = {}, n = 0 }
  for line in gmatch(source, "[^\n]+") do
    local words = {}
    for w in gmatch((match(line, "^([^;]*)")), "%S+") do words[#words + 1] = w end
    local first = words[1]
    if not p.kind then
      p.kind, p.fast = first, words[2] == "fast"
    elseif sub(first, 1, 1) == "@" then
      p.operands[tonumber(sub(first, 2))] = { dtype = words[2], row = words[3] == "row", write = words[4] == "write" }
    else
      local ins, k, at = { op = words[2], type = words[3], row = words[4] == "row" }, 5, 0
      if words[k] == "from" then ins.from, k = words[k + 1], k + 2 end
      for i = k, #words do
        local kind, rest = match(words[i], "^(.)(.*)$")
        if kind == "%" then
          at = at + 1
          ins[at] = tonumber(rest)
        elseif kind == "@" then
          ins.imm = tonumber(rest)
        else
          ins.bits, ins.imm = rest, tonumber(rest, 16)
        end
      end
      ins.imm = ins.imm or 0
      p.body[p.n] = ins
      p.n = p.n + 1
    end
  end
  return p
end

-- Constants -----------------------------------------------------------------------------------------------------------

--- The C literal of a compute type's bits.
function M.literal(kind, bits)
  bits = ("0"):rep(16 - #bits) .. bits
  local high, low = tonumber(sub(bits, 1, 8), 16), tonumber(sub(bits, 9), 16)
  if kind == "i32" then
    if low == 0x80000000 then return "INT32_MIN" end
    return format("%d", low >= 2 ^ 31 and low - 2 ^ 32 or low)
  elseif kind == "i64" then
    if high == 0 then return low < 2 ^ 31 and format("%d", low) or format("INT64_C(%.0f)", low) end
    return format("(int64_t)UINT64_C(0x%s)", bits)
  elseif kind == "f32" then
    local exponent, fraction = math.floor(low / 2 ^ 23) % 256, low % 2 ^ 23
    local sign = low >= 2 ^ 31 and "-" or ""
    if exponent == 255 then return format("ty_float_f32(0x%08xu)", low), "bits_f32" end
    if exponent == 0 and fraction == 0 then return sign .. "0.0f" end
    local v = exponent == 0 and fraction * 2 ^ -149 or (fraction + 2 ^ 23) * 2 ^ (exponent - 150)
    if v < 2 ^ 20 and v == math.floor(v) then return format("%s%d.0f", sign, v) end
    return format("%s0x%xp%df", sign, exponent == 0 and fraction or fraction + 2 ^ 23, max(exponent, 1) - 150)
  end
  local exponent, top = math.floor(high / 2 ^ 20) % 2048, high % 2 ^ 20
  local sign = high >= 2 ^ 31 and "-" or ""
  if exponent == 2047 then return format("ty_float_f64(UINT64_C(0x%s))", bits), "bits_f64" end
  if exponent == 0 and top == 0 and low == 0 then return sign .. "0.0" end
  return format("%s0x%x%08xp%d", sign, exponent == 0 and top or top + 2 ^ 20, low, max(exponent, 1) - 1075)
end

--- A Lua number as a double of C.
function M.double(v)
  if v == math.floor(v) and math.abs(v) < 2 ^ 50 and (v ~= 0 or 1 / v > 0) then return format("%d.0", v) end
  if v ~= v then return "ty_float_f64(UINT64_C(0x7ff8000000000000))", "bits_f64" end
  if v == 1 / 0 then return "ty_float_f64(UINT64_C(0x7ff0000000000000))", "bits_f64" end
  if v == -1 / 0 then return "ty_float_f64(UINT64_C(0xfff0000000000000))", "bits_f64" end
  local m, e = math.frexp(math.abs(v))
  local sign = (v < 0 or 1 / v < 0) and "-" or ""
  if m == 0 then return sign .. "0.0" end
  local whole = m * 2 ^ 53
  return format("%s0x%x%08xp%d", sign, math.floor(whole / 2 ^ 32), whole % 2 ^ 32, e - 53)
end

local identity = {
  rsum = { f32 = "-0.0f", f64 = "-0.0", i32 = "0", i64 = "0" },
  rprod = { f32 = "1.0f", f64 = "1.0", i32 = "1", i64 = "1" },
  rmax = { f32 = "ty_float_f32(0xff800000u)", f64 = "ty_float_f64(UINT64_C(0xfff0000000000000))", i32 = "INT32_MIN",
    i64 = "INT64_MIN" },
  rmin = { f32 = "ty_float_f32(0x7f800000u)", f64 = "ty_float_f64(UINT64_C(0x7ff0000000000000))", i32 = "INT32_MAX",
    i64 = "INT64_MAX" },
}
identity.rargmax, identity.rargmin = identity.rmax, identity.rmin
identity.ssum, identity.sprod, identity.smax, identity.smin = identity.rsum, identity.rprod, identity.rmax, identity.rmin
identity.smaxx = identity.rmax
local empty = { rsum = { f32 = "0.0f", f64 = "0.0", i32 = "0", i64 = "0" } }

-- Primitives ----------------------------------------------------------------------------------------------------------

local wraps = { add = "+", sub = "-", mul = "*", ["and"] = "&", ["or"] = "|", xor = "^" }
local compares = { eq = "==", lt = "<", le = "<=" }
local floating = { f32 = true, f64 = true }
local unsigned = { i32 = "uint32_t", i64 = "uint64_t" }

--- C text of an instruction whose operands are texts. use(name): a piece of the prelude is needed.
local function expression(ins, a, b, c, use)
  local op, t = ins.op, ins.type
  local function call(name, ...) return format("ty_%s_%s(%s)", name, t, concat({ ... }, ", ")) end
  if compares[op] then return format("(int32_t)(%s %s %s)", a, compares[op], b) end
  if op == "sel" then return format("%s ? %s : %s", a, b, c) end
  if op == "min" or op == "max" then
    use("extremes_" .. t)
    return call(op, a, b)
  end
  if floating[t] then
    if wraps[op] then return format("%s %s %s", a, wraps[op], b) end
    if op == "div" then return format("%s / %s", a, b) end
    if op == "neg" then return "-(" .. a .. ")" end
    if op == "abs" then
      use("bits_" .. t)
      return call("abs", a)
    end
    if op == "fma" or op == "sqrt" then
      use(op .. "_" .. t)
      return call(op, a, b, c)
    end
    if op == "floor" or op == "ceil" or op == "trunc" or op == "rint" then
      use("round_" .. t)
      return call(op, a)
    end
  else
    local u = unsigned[t]
    if wraps[op] then return format("(%s)((%s)%s %s (%s)%s)", ctype[t], u, a, wraps[op], u, b) end
    if op == "neg" then return format("(%s)(0 - (%s)%s)", ctype[t], u, a) end
    if op == "abs" then return format("(%s)(%s < 0 ? 0 - (%s)%s : (%s)%s)", ctype[t], a, u, a, u, a) end
    if op == "divi" or op == "remi" then
      use("divi_" .. t)
      return call(op, a, b)
    end
    local w = t == "i32" and 31 or 63
    if op == "shl" then return format("(%s)((%s)%s << ((%s)%s & %d))", ctype[t], u, a, u, b, w) end
    if op == "shru" then return format("(%s)((%s)%s >> ((%s)%s & %d))", ctype[t], u, a, u, b, w) end
    if op == "shr" then
      use("shr_" .. t)
      return call("shr", a, format("(int)(%s & %d)", b, w))
    end
    if op == "mulhi" then
      use "mulhi"
      return format("(int64_t)ty_mulhi((uint64_t)%s, (uint64_t)%s)", a, b)
    end
  end
  if op == "cvt" then
    if floating[ins.from] and not floating[t] then
      use(format("cvt_%s_%s", ins.from, t))
      return format("ty_cvt_%s_%s(%s)", ins.from, t, a)
    end
    if ins.from == "i64" and t == "i32" then return format("(int32_t)(uint32_t)(uint64_t)%s", a) end
    return format("(%s)%s", ctype[t], a)
  elseif op == "bits" then
    if floating[t] then
      use("bits_" .. t)
      return format("ty_float_%s((%s)%s)", t, t == "f32" and "uint32_t" or "uint64_t", a)
    end
    use("bits_" .. ins.from)
    return format("(%s)ty_%s_%s(%s)", ctype[t], ins.imm == 1 and "raw" or "bits", ins.from, a)
  elseif op == "narrow" then
    local to = dtypes[ins.imm]
    if to == "bool" then return format("(int32_t)(%s != 0)", a) end
    if to == "f16" or to == "bf16" then
      use(to)
      return format("ty_narrow_%s(%s)", to, a)
    end
    if to == "u8" then return format("(int32_t)((uint32_t)%s & 0xffu)", a) end
    if to == "i8" then return format("(int32_t)(((uint32_t)%s & 0xffu) ^ 0x80u) - 0x80", a) end
    if to == "i16" then return format("(int32_t)(((uint32_t)%s & 0xffffu) ^ 0x8000u) - 0x8000", a) end
    return a
  elseif op == "philox" then
    use "philox"
    return format("ty_philox(%s, %s, %s, %d)", a, b, c, ins.imm)
  elseif op == "lut" then
    use("lut_" .. ins.imm)
    return format("ty_lut_%d[%s]", ins.imm, a)
  end
  return nil
end

--- What a load makes of an element.
local function loaded(dtype, element, use)
  if dtype == "f16" or dtype == "bf16" then
    use(dtype)
    return format("ty_from_%s(%s)", dtype, element)
  end
  return element
end

local function to_store(dtype, v, use)
  if dtype == "f16" or dtype == "bf16" then
    use(dtype)
    return format("ty_to_%s(%s)", dtype, v)
  elseif M.stored[dtype] ~= "float" and M.stored[dtype] ~= "double" and M.bytes[dtype] < 4 then
    return format("(%s)%s", M.stored[dtype], v)
  end
  return v
end

M.loaded, M.to_store = loaded, to_store

local limits = { bool = { "0.0", "1.0" }, u8 = { "0.0", "255.0" }, i8 = { "-128.0", "127.0" },
  i16 = { "-32768.0", "32767.0" }, i32 = { "-0x1p31", "0x1.fffffffcp30" }, i64 = { "-0x1p63", "0x1.fffffffffffffp62" } }

--- The lowest and the highest number of a dtype that a double is.
function M.limits(dtype) return limits[dtype][1], limits[dtype][2] end

-- Domains -------------------------------------------------------------------------------------------------------------

--- The dims [from, to] of a launch, those merged that every operand walks as one: {dims = {...}, strides = {[operand] =
--- {...}}}. Dims of one element are left out.
local function merged(launch, from, to, noperands)
  local y = { dims = {}, strides = {} }
  for k = 1, noperands do y.strides[k] = {} end
  for d = to, from, -1 do
    local extent = launch.dims[d]
    local joins = #y.dims > 0
    for k = 1, noperands do
      joins = joins and launch.strides[k][d] == y.strides[k][1] * y.dims[1]
    end
    if extent == 1 then -- it is never walked
    elseif joins then
      y.dims[1] = extent * y.dims[1]
    else
      table.insert(y.dims, 1, extent)
      for k = 1, noperands do table.insert(y.strides[k], 1, launch.strides[k][d]) end
    end
  end
  return y
end

--- Where the element at linear index `at` of merged dims lies, as a text; nil: at 0.
local function offset_of(part, k, at)
  local n, out, rest = #part.dims, {}, at
  for d = n, 1, -1 do
    local stride = part.strides[k][d]
    local index = d == 1 and rest or format("%s %% %s", rest, text(part.dims[d]))
    if stride ~= 0 then
      if find(index, "%%") then index = "(" .. index .. ")" end
      if find(index, "/") then index = "(" .. index .. ")" end
      table.insert(out, 1, stride == 1 and index or format("%s * %s", index, text(stride)))
    end
    rest = format("%s / %s", rest, text(part.dims[d]))
  end
  return #out > 0 and concat(out, " + ") or nil
end

local function numel(part)
  local n = 1
  for _, d in ipairs(part.dims) do n = n * d end
  return n
end

local function sum_text(...)
  local out = {}
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    if v and v ~= 0 then out[#out + 1] = type(v) == "string" and v or text(v) end
  end
  return #out > 0 and concat(out, " + ") or "0"
end

-- Functions -----------------------------------------------------------------------------------------------------------

--- A program on its way to C.
local Emit = {}
Emit.__index = Emit

function Emit:line(fmt, ...)
  self.out[#self.out + 1] = ("  "):rep(self.depth) .. (select("#", ...) > 0 and format(fmt, ...) or fmt)
end

function Emit:open(fmt, ...)
  self:line(fmt .. " {", ...)
  self.depth = self.depth + 1
end

function Emit:close()
  self.depth = self.depth - 1
  self:line "}"
end

--- Which values are used at all; and per value its class: uniform, row, elem; its phase (of reductions before it) and
--- its segment (of scans before it).
local function classify(p)
  local live, class, phase, segment = {}, {}, {}, {}
  for i = p.n - 1, 0, -1 do
    local ins = p.body[i]
    if ins.op == "store" then live[i] = true end
    if live[i] then
      for k = 1, 3 do
        if ins[k] then live[ins[k]] = true end
      end
    end
  end
  local phases = 1
  for i = 0, p.n - 1 do
    local ins, low, ph, seg = p.body[i], "uniform", 0, 0
    if live[i] then
      for k = 1, 3 do
        local a = ins[k]
        if a then
          ph, seg = max(ph, phase[a]), max(seg, segment[a])
          if class[a] == "elem" or low == "uniform" then low = class[a] end
        end
      end
      local op = ins.op
      if op == "load" or op == "iota" or op == "gload" or op == "store" then
        low = p.kind ~= "map" and ins.row and "row" or "elem"
      elseif sub(op, 1, 1) == "r" and identity[op] then
        low, ph = "row", ph + 1
      elseif sub(op, 1, 1) == "s" and (identity[op] or op == "slin") and p.kind == "row" then
        low, seg = "elem", seg + 1
        p.scans = true
      end
      class[i], phase[i], segment[i] = low, ph, seg
      if low == "elem" then phases = max(phases, ph + 1)
      elseif identity[op] then phases = max(phases, ph) end
    end
  end
  return live, class, phase, segment, phases
end

local function is_reduction(ins) return ins.op == "rsum" or ins.op == "rprod" or ins.op == "rmax" or ins.op == "rmin" end
local function is_position(ins) return ins.op == "rargmax" or ins.op == "rargmin" end
local function is_scan(ins)
  local op = ins.op
  return op == "ssum" or op == "sprod" or op == "smax" or op == "smin" or op == "smaxx" or op == "slin"
end

--- What a value is called where it is read.
function Emit:name(v)
  local ins = self.p.body[v]
  if ins.op == "const" then
    local literal, needs = M.literal(ins.type, ins.bits)
    if needs then self.use(needs) end
    return literal
  elseif ins.op == "scalar" then
    return self.scalar(ins.imm, ins.type)
  end
  return self.names[v] or "v" .. v
end

--- The text of value v, whose operands are named; index(operand) gives the text of a place in memory, nil: none.
function Emit:value(v, index)
  local ins, use = self.p.body[v], self.use
  if ins.op == "load" then
    local operand = self.p.operands[ins.imm]
    return loaded(operand.dtype, format("%s[%s]", self.pointer(ins.imm), index(ins.imm)), use)
  elseif ins.op == "iota" then
    return format("(int64_t)(%s)", index(ins.imm))
  elseif ins.op == "gload" then
    local operand, by = self.p.operands[ins.imm], self.launch.gstride[ins.imm + 1]
    local at = by == 1 and self:name(ins[1]) or format("%s * %s", self:name(ins[1]), text(by))
    return loaded(operand.dtype, format("%s[%s + %s]", self.pointer(ins.imm), index(ins.imm), at), use)
  end
  local names = {}
  for k = 1, 3 do names[k] = ins[k] and self:name(ins[k]) end
  local y = expression(ins, names[1], names[2], names[3], use)
  return y or self.refuse("the primitive " .. ins.op)
end

function Emit:store(v, index)
  local ins = self.p.body[v]
  local dtype = self.p.operands[ins.imm].dtype
  self:line("%s[%s] = %s;", self.pointer(ins.imm), index(ins.imm), to_store(dtype, self:name(ins[1]), self.use))
end

--- Declares value v and what it needs of its class that is not known here. known: by value, true where it is.
function Emit:declare(v, index, known, class)
  local ins = self.p.body[v]
  if known[v] or ins.op == "const" or ins.op == "scalar" then return end
  if self.class[v] ~= class then return end
  known[v] = true
  for k = 1, 3 do
    if ins[k] then self:declare(ins[k], index, known, class) end
  end
  self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
end

function Emit:uniforms()
  for v = 0, self.p.n - 1 do
    local ins = self.p.body[v]
    if self.live[v] and self.class[v] == "uniform" and ins.op ~= "const" and ins.op ~= "scalar" then
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v))
    end
  end
end

--- Loops over merged dims from the first to the `to`-th: opens them; base: by operand the texts of offsets so far.
function Emit:loops(part, to, base)
  for d = 1, to do
    self.loop = self.loop + 1
    local i = "i" .. self.loop
    self:open("for (int64_t %s = 0; %s < %s; %s++)", i, i, text(part.dims[d]), i)
    for k = 1, #part.strides do
      local by = part.strides[k][d]
      if by ~= 0 then table.insert(base[k], by == 1 and i or format("%s * %s", i, text(by))) end
    end
  end
end

--- The offsets so far as variables, so that inner loops add to one number.
function Emit:bases(base)
  local names = {}
  for k = 1, #base do
    local used = self.operand_used[k - 1]
    if used and #base[k] > 0 then
      local whole = concat(base[k], " + ")
      if find(whole, "^[%w_]+$") then names[k] = whole
      else
        self:line("const int64_t o%d = %s;", k - 1, whole)
        names[k] = "o" .. k - 1
      end
    end
  end
  return names
end

local function start_of(launch, k) return launch.start[k] ~= 0 and { text(launch.start[k]) } or {} end

function Emit:starts()
  local base = {}
  for k = 1, self.noperands do base[k] = start_of(self.launch, k) end
  return base
end

-- Maps ----------------------------------------------------------------------------------------------------------------

function Emit:map()
  local part = merged(self.launch, 1, #self.launch.dims, self.noperands)
  local n = #part.dims
  local base = self:starts()
  self:loops(part, n - 1, base)
  local names = self:bases(base)
  if n > 0 then self:open("for (int64_t j = 0; j < %s; j++)", text(part.dims[n])) end
  local function index(k)
    local by = n > 0 and part.strides[k + 1][n] or 0
    return sum_text(names[k + 1], by == 1 and "j" or by ~= 0 and format("j * %s", text(by)))
  end
  local known = {}
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" then self:declare(self.p.body[v][1], index, known, "elem") end
  end
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" then self:store(v, index) end
  end
  for _ = 1, n do self:close() end
end

-- Rows ----------------------------------------------------------------------------------------------------------------

local CHEAP = 4 -- operations that are done again rather than kept
local costs = { load = 0, iota = 1, gload = 2, add = 1, sub = 1, mul = 1, fma = 1, min = 2, max = 2, sel = 1, neg = 1,
  abs = 1, cvt = 1 }

--- What it takes to compute an element's value again, from loads and what is kept.
function Emit:cost(v, phase)
  local ins = self.p.body[v]
  if self.class[v] ~= "elem" then return 0 end
  if self.kept[v] and self.phase[v] < phase then return 0 end
  local sum = costs[ins.op] or CHEAP + 1
  for k = 1, 3 do
    if ins[k] then sum = sum + self:cost(ins[k], phase) end
  end
  return sum
end

--- Element values that a later phase reads and that are not computed again there are kept for the row.
function Emit:plan_kept()
  local p = self.p
  self.kept = {}
  local function wants(v, phase)
    if self.class[v] ~= "elem" then return end
    local ins = p.body[v]
    if self.phase[v] < phase and not self.kept[v] and ins.op ~= "load" and self:cost(v, phase) > CHEAP then
      self.kept[v] = true
    end
    if self.kept[v] and self.phase[v] < phase then return end
    for k = 1, 3 do
      if ins[k] then wants(ins[k], phase) end
    end
  end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      if is_reduction(ins) or is_position(ins) then wants(ins[1], self.phase[v] - 1)
      elseif ins.op == "store" and self.class[v] == "elem" then wants(ins[1], self.phases - 1) end
    end
  end
end

--- Declares elements of one phase in the order of the program: kept ones of phases before are read back.
function Emit:elements(v, phase, index, known, at)
  local ins = self.p.body[v]
  if known[v] or self.class[v] ~= "elem" or ins.op == "const" or ins.op == "scalar" then return end
  known[v] = true
  if self.kept[v] and self.phase[v] < phase then
    self:line("const %s v%d = w%d[%s];", ctype[ins.type], v, v, at)
    return
  end
  for k = 1, 3 do
    if ins[k] then self:elements(ins[k], phase, index, known, at) end
  end
  self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
end

local function lanes_of(kind) return (kind == "i64" or kind == "f64") and 32 or 64 end

function Emit:row_index(names, part)
  return function(k, at) return sum_text(names[k + 1], offset_of(part, k + 1, at)) end
end

local function ordered(ins) return floating[ins.type] and (ins.op == "rsum" or ins.op == "rprod") end

--- The accumulators of a reduction come to one value, declared.
function Emit:join(v, L, R)
  local ins, acc = self.p.body[v], "a" .. v
  local y = expression({ op = ({ rsum = "add", rprod = "mul", rmax = "max", rmin = "min" })[ins.op], type = ins.type },
    acc .. "[j]", acc .. "[j + s]", nil, self.use)
  if L > 1 then
    local s = 1
    while s * 2 < L do s = s * 2 end
    self:line("for (int s = %d; s; s /= 2)", s)
    self:line("  for (int j = 0; j < s%s; j++) %s[j] = %s;", s * 2 == L and "" or format(" && j + s < %d", L), acc, y)
  end
  local none = empty[ins.op] and empty[ins.op][ins.type]
  if none and floating[ins.type] and (type(R) ~= "number" or R == 0) then
    self:line("const %s v%d = %s > 0 ? %s[0] : %s;", ctype[ins.type], v, text(R), acc, none)
  else
    self:line("const %s v%d = %s[0];", ctype[ins.type], v, acc)
  end
end

function Emit:accumulate(v, acc)
  local ins = self.p.body[v]
  local y = expression({ op = ({ rsum = "add", rprod = "mul", rmax = "max", rmin = "min" })[ins.op], type = ins.type },
    acc, self:name(ins[1]), nil, self.use)
  self:line("%s = %s;", acc, y)
end

--- The position of the extreme so far goes on with the element `x` at `at`.
function Emit:position(v, best, pos, x, at)
  local ins = self.p.body[v]
  local from = self.p.body[ins[1]].type
  local better = format("%s %s %s", x, ins.op == "rargmax" and ">" or "<", best)
  if floating[from] then better = format("%s || (%s != %s && %s == %s)", better, x, x, best, best) end
  self:line("if (%s) %s = %s, %s = %s;", better, best, x, pos, at)
end

--- One phase over a row: its reductions, what is kept, and in the last phase the stores.
function Emit:row_phase(phase, part, names, R)
  local p, reductions, positions, keeps, stores = self.p, {}, {}, {}, {}
  local L, trees = 64, false
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      if is_reduction(ins) and self.phase[v] == phase + 1 then
        reductions[#reductions + 1] = v
        L, trees = min(L, lanes_of(ins.type)), trees or ordered(ins)
      elseif is_position(ins) and self.phase[v] == phase + 1 then positions[#positions + 1] = v
      elseif ins.op == "store" and self.class[v] == "elem" and phase == self.phases - 1 then stores[#stores + 1] = v
      end
      if self.kept[v] and self.phase[v] == phase then keeps[#keeps + 1] = v end
    end
  end
  if #reductions + #positions + #keeps + #stores == 0 then return end
  if #reductions == 0 and #positions == 0 then L = nil end
  -- lanes of different widths in one phase: each reduction has its own number, chunks are of the smaller
  local one = L and at_most(R, L) -- a row is one chunk
  if one then L = max(R, 1) end
  local long = trees and not at_most(R, M.BLOCK)
  local levels = 0
  if long then
    levels = 24
    if type(R) == "number" then
      levels = 1
      while M.BLOCK * 2 ^ levels < R do levels = levels + 1 end
    end
  end
  for _, v in ipairs(reductions) do
    local ins = p.body[v]
    local width = one and L or lanes_of(ins.type)
    self:line("%s a%d[%d];", ctype[ins.type], v, width)
    local ident = identity[ins.op][ins.type]
    if find(ident, "ty_float") then self.use("bits_" .. ins.type) end
    self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", width, v, ident)
    if long and ordered(ins) then self:line("%s q%d[%d];", ctype[ins.type], v, levels * width) end
  end
  for _, v in ipairs(positions) do
    local from = p.body[p.body[v][1]].type
    local ident = identity[p.body[v].op][from]
    if find(ident, "ty_float") then self.use("bits_" .. from) end
    self:line("%s b%d = %s;", ctype[from], v, ident)
    self:line("int64_t v%d = 0;", v)
    if not one then self:line("%s t%d[%d];", ctype[from], v, L) end
  end
  if long then self:open("for (int64_t c = 0; c * %d < %s; c++)", M.BLOCK, text(R)) end
  local whole = text(R)
  local wide = {}
  for _, v in ipairs(reductions) do wide[#wide + 1] = not one and lanes_of(p.body[v].type) > L and v or nil end
  local j, at, nested = "j", "j", nil
  if L and not one then
    if long then
      self:line("const int64_t end = (c + 1) * %d < %s ? (c + 1) * %d : %s;", M.BLOCK, whole, M.BLOCK, whole)
      self:open("for (int64_t r = c * %d; r < end; r += %d)", M.BLOCK, L)
      self:line("const int n = end - r < %d ? (int)(end - r) : %d;", L, L)
    else
      self:open("for (int64_t r = 0; r < %s; r += %d)", whole, L)
      if type(R) == "number" and R % L == 0 then self:line("enum { n = %d };", L)
      else self:line("const int n = %s - r < %d ? (int)(%s - r) : %d;", whole, L, whole, L) end
    end
    if #wide > 0 then self:line("const int half = (int)(r / %d %% 2) * %d;", L, L) end
    self:open "for (int j = 0; j < n; j++)"
    at = "(r + j)"
  elseif L or #part.dims < 2 then
    self:open("for (int64_t j = 0; j < %s; j++)", whole)
  else -- nothing is summed: the row's dims may be loops of their own
    at, nested = nil, #part.dims
    for d = 1, nested do
      local x = d == nested and "j" or "x" .. d
      self:open("for (int64_t %s = 0; %s < %s; %s++)", x, x, text(part.dims[d]), x)
      at = at and format("(%s * %s + %s)", at, text(part.dims[d]), x) or x
    end
  end
  local index_at = self:row_index(names, part)
  local function index(k)
    if not nested then return index_at(k, at) end
    local out = {}
    for d = 1, nested do
      local by, x = part.strides[k + 1][d], d == nested and "j" or "x" .. d
      if by ~= 0 then out[#out + 1] = by == 1 and x or format("%s * %s", x, text(by)) end
    end
    return sum_text(names[k + 1], #out > 0 and concat(out, " + ") or nil)
  end
  local known = {}
  for _, list in ipairs { reductions, positions, stores } do
    for _, v in ipairs(list) do self:elements(p.body[v][1], phase, index, known, at) end
  end
  for _, v in ipairs(keeps) do self:elements(v, phase, index, known, at) end
  for _, v in ipairs(reductions) do
    local lane = not one and lanes_of(p.body[v].type) > L and "half + j" or j
    self:accumulate(v, format("a%d[%s]", v, lane))
  end
  for _, v in ipairs(positions) do
    if one then self:position(v, "b" .. v, "v" .. v, self:name(p.body[v][1]), "j")
    else self:line("t%d[j] = %s;", v, self:name(p.body[v][1])) end
  end
  for _, v in ipairs(keeps) do self:line("w%d[%s] = v%d;", v, at, v) end
  for _, v in ipairs(stores) do self:store(v, index) end
  for _ = 1, nested or 1 do self:close() end
  if L and not one then
    for _, v in ipairs(positions) do
      self:open "for (int j = 0; j < n; j++)"
      self:position(v, "b" .. v, "v" .. v, format("t%d[j]", v), "r + j")
      self:close()
    end
    self:close()
  end
  if long then
    for _, v in ipairs(reductions) do
      local ins = p.body[v]
      if ordered(ins) then
        local kind = sub(ins.op, 2)
        self.use(format("tree_%s_%s", kind, ins.type))
        self:line("ty_tree_%s_%s(a%d, q%d, %d, c, (c + 1) * %d >= %s);", kind, ins.type, v, v, lanes_of(ins.type),
          M.BLOCK, whole)
      end
    end
    self:close()
  end
  for _, v in ipairs(reductions) do self:join(v, one and L or lanes_of(p.body[v].type), R) end
end

--- Values of rows that are known when so many phases are done.
function Emit:row_values(phase, known, index)
  for v = 0, self.p.n - 1 do
    local ins = self.p.body[v]
    if self.live[v] and self.class[v] == "row" and self.phase[v] <= phase and ins.op ~= "store"
      and not is_reduction(ins) and not is_position(ins) and not known[v] then
      known[v] = true
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
    end
  end
end

function Emit:rows()
  local launch, n = self.launch, self.noperands
  local outer = merged(launch, 1, launch.no, n)
  local inner = merged(launch, launch.no + 1, launch.no + launch.nr, n)
  local R, known = numel(inner), {}
  self:plan_kept()
  local base = self:starts()
  local room = 0
  for v = 0, self.p.n - 1 do
    if self.kept[v] then
      local t = self.p.body[v].type
      self:line("%s *restrict w%d = (%s *)(void *)(room + %s);", ctype[t], v, ctype[t], text(room))
      room = room + self.aligned(R * M.bytes[t])
    end
  end
  self.room = room
  self:loops(outer, #outer.dims, base)
  local names = self:bases(base)
  local function row_index(k) return sum_text(names[k + 1]) end
  for phase = 0, self.phases do
    self:row_values(phase, known, row_index)
    if phase < self.phases then
      if self.p.scans then self:scan(inner, names, R)
      else self:row_phase(phase, inner, names, R) end
    end
  end
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" and self.class[v] == "row" then self:store(v, row_index) end
  end
  for _ = 1, #outer.dims do self:close() end
end

-- Scans ---------------------------------------------------------------------------------------------------------------

--- Chunks of 16 elements; between two scans values wait in arrays.
function Emit:scan(part, names, R)
  local p, segments, scans = self.p, 0, {}
  for v = 0, p.n - 1 do
    if self.live[v] then
      segments = max(segments, self.segment[v])
      if is_scan(p.body[v]) then scans[#scans + 1] = v end
    end
  end
  local crosses = {}
  local function wants(v, segment)
    local ins = p.body[v]
    if self.class[v] ~= "elem" or ins.op == "load" then return end
    if is_scan(ins) or self.segment[v] < segment then
      crosses[v] = true
      return
    end
    for k = 1, 3 do
      if ins[k] then wants(ins[k], segment) end
    end
  end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      for k = 1, 3 do
        if ins[k] and is_scan(ins) then
          crosses[ins[k]] = true
          wants(ins[k], self.segment[v] - 1)
        elseif ins[k] then
          wants(ins[k], ins.op == "store" and segments or self.segment[v])
        end
      end
    end
  end
  for v = 0, p.n - 1 do
    if crosses[v] then self:line("%s x%d[%d];", ctype[p.body[v].type], v, M.SCAN) end
  end
  for _, v in ipairs(scans) do
    local ins = p.body[v]
    if ins.op == "slin" then
      self:line("double z%d = 0.0;", v)
    else
      local ident = identity[ins.op][ins.type]
      if find(ident, "ty_float") then self.use("bits_" .. ins.type) end
      self:line("%s z%d[2] = {%s, %s};", ctype[ins.type], v, ident, ident)
    end
  end
  self:open("for (int64_t r = 0; r < %s; r += %d)", text(R), M.SCAN)
  self:line("const int n = %s - r < %d ? (int)(%s - r) : %d;", text(R), M.SCAN, text(R), M.SCAN)
  for _, v in ipairs(scans) do
    local ins = p.body[v]
    if floating[ins.type] and (ins.op == "ssum" or ins.op == "sprod") then
      self:line("if (r && r %% %d == 0) ty_scan_block_%s_%s(z%d);", M.BLOCK, sub(ins.op, 2), ins.type, v)
    end
  end
  local index_at = self:row_index(names, part)
  local function index(k) return index_at(k, "(r + j)") end
  for segment = 0, segments do
    local known = {}
    self:open "for (int j = 0; j < n; j++)"
    local function declare(v)
      local ins = p.body[v]
      if known[v] or self.class[v] ~= "elem" then return end
      known[v] = true
      if crosses[v] and (self.segment[v] < segment or is_scan(ins)) then
        self:line("const %s v%d = x%d[j];", ctype[ins.type], v, v)
        return
      end
      for k = 1, 3 do
        if ins[k] then declare(ins[k]) end
      end
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
    end
    for v = 0, p.n - 1 do
      if crosses[v] and not is_scan(p.body[v]) and self.segment[v] == segment then
        if self.class[v] == "elem" then declare(v) end
        self:line("x%d[j] = %s;", v, self:name(v))
      end
    end
    if segment == segments then
      for v = 0, p.n - 1 do
        if self.live[v] and p.body[v].op == "store" and self.class[v] == "elem" then declare(p.body[v][1]) end
      end
      for v = 0, p.n - 1 do
        if self.live[v] and p.body[v].op == "store" and self.class[v] == "elem" then self:store(v, index) end
      end
    end
    self:close()
    for _, v in ipairs(scans) do
      if self.segment[v] == segment + 1 then self:scan_step(v) end
    end
  end
  self:close()
end

function Emit:scan_step(v)
  local ins = self.p.body[v]
  local op, t, a = ins.op, ins.type, "x" .. ins[1]
  if floating[t] and (op == "ssum" or op == "sprod") then
    self.use(format("scan_%s_%s", sub(op, 2), t))
    self:line("ty_scan_%s_%s(z%d, %s, x%d, n);", sub(op, 2), t, v, a, v)
    return
  end
  self:open "for (int j = 0; j < n; j++)"
  if op == "slin" then
    self.use "fma_f64"
    self:line("z%d = ty_fma_f64(z%d, %s[j], x%d[j]);", v, v, a, ins[2])
    self:line("x%d[j] = (%s)z%d;", v, ctype[t], v)
  else
    local by = ({ ssum = "add", sprod = "mul", smax = "max", smin = "min", smaxx = "max" })[op]
    if op == "smaxx" then self:line("const %s next = %s[j];", ctype[t], a) end
    if op == "smaxx" then self:line("x%d[j] = z%d[0];", v, v) end
    self:line("z%d[0] = %s;", v, expression({ op = by, type = t }, format("z%d[0]", v),
      op == "smaxx" and "next" or a .. "[j]", nil, self.use))
    if op ~= "smaxx" then self:line("x%d[j] = z%d[0];", v, v) end
  end
  self:close()
end

-- Columns -------------------------------------------------------------------------------------------------------------

function Emit:columns()
  local launch, n, p = self.launch, self.noperands, self.p
  local outer = merged(launch, 1, launch.no, n)
  local rows = merged(launch, launch.no + 1, launch.no + launch.nr, n)
  local cols = merged(launch, launch.no + launch.nr + 1, launch.no + launch.nr + launch.ni, n)
  local R, last = numel(rows), #cols.dims
  local I = last > 0 and cols.dims[last] or 1
  local reductions, positions, stores, row_stores = {}, {}, {}, {}
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      if is_reduction(ins) then reductions[#reductions + 1] = v
      elseif is_position(ins) then positions[#positions + 1] = v
      elseif ins.op == "store" and self.class[v] == "elem" then stores[#stores + 1] = v
      elseif ins.op == "store" then row_stores[#row_stores + 1] = v end
    end
  end
  local base = self:starts()
  self:loops(outer, #outer.dims, base)
  self:loops(cols, last - 1, base)
  local names = self:bases(base)
  local W = at_most(I, STRIP) and max(I, 1) or STRIP
  self:open("for (int64_t c0 = 0; c0 < %s; c0 += %d)", text(I), W)
  if type(I) == "number" and I % W == 0 then self:line("enum { w = %d };", W)
  else self:line("const int w = %s - c0 < %d ? (int)(%s - c0) : %d;", text(I), W, text(I), W) end
  local function at_column(k)
    local by = last > 0 and cols.strides[k + 1][last] or 0
    return by == 1 and "(c0 + c)" or by ~= 0 and format("(c0 + c) * %s", text(by)) or nil
  end
  local function column_index(k) return sum_text(names[k + 1], at_column(k)) end
  -- values of columns that elements read
  local before = {}
  local function wants(v)
    local ins = p.body[v]
    if self.class[v] == "row" and ins.op ~= "load" then before[v] = true end
    if self.class[v] == "row" then return end
    for k = 1, 3 do
      if ins[k] then wants(ins[k]) end
    end
  end
  for _, list in ipairs { reductions, positions, stores } do
    for _, v in ipairs(list) do wants(p.body[v][1]) end
  end
  for v = 0, p.n - 1 do
    if before[v] then
      local known = {}
      self:line("%s t%d[%d];", ctype[p.body[v].type], v, W)
      self:open "for (int c = 0; c < w; c++)"
      self:declare(v, column_index, known, "row")
      self:line("t%d[c] = v%d;", v, v)
      self:close()
    end
  end
  local long = not at_most(R, M.COL_BLOCK)
  local levels = 30
  if type(R) == "number" then
    levels = 1
    while M.COL_BLOCK * 2 ^ levels < R do levels = levels + 1 end
  end
  for _, v in ipairs(reductions) do
    local ins = p.body[v]
    local ident = identity[ins.op][ins.type]
    if find(ident, "ty_float") then self.use("bits_" .. ins.type) end
    self:line("%s a%d[%d];", ctype[ins.type], v, M.COL_LANES * W)
    self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", M.COL_LANES * W, v, ident)
    if long and ordered(ins) then self:line("%s q%d[%d];", ctype[ins.type], v, levels * M.COL_LANES * W) end
  end
  for _, v in ipairs(positions) do
    local from = p.body[p.body[v][1]].type
    local ident = identity[p.body[v].op][from]
    if find(ident, "ty_float") then self.use("bits_" .. from) end
    self:line("%s b%d[%d];", ctype[from], v, W)
    self:line("int64_t k%d[%d];", v, W)
    self:line("for (int c = 0; c < %d; c++) b%d[c] = %s, k%d[c] = 0;", W, v, ident, v)
  end
  if #reductions + #positions + #stores > 0 then
    self:open("for (int64_t r = 0; r < %s; r++)", text(R))
    if #reductions > 0 then self:line("const int lane = (int)(r %% %d) * %d;", M.COL_LANES, W) end
    local bases = {}
    for k = 1, n do
      if self.operand_used[k - 1] and not p.operands[k - 1].row then
        local by = offset_of(rows, k, "r")
        if by then
          self:line("const int64_t r%d = %s;", k - 1, sum_text(names[k], by))
          bases[k] = "r" .. k - 1
        end
      end
    end
    local function index(k) return sum_text(bases[k + 1] or names[k + 1], at_column(k)) end
    self:open "for (int c = 0; c < w; c++)"
    local known, saved = {}, self.names
    self.names = setmetatable({}, { __index = function(_, v)
      return before[v] and format("t%d[c]", v) or nil
    end })
    local function declare(v)
      local ins = p.body[v]
      if known[v] or before[v] or self.class[v] == "uniform" then return end
      known[v] = true
      for k = 1, 3 do
        if ins[k] then declare(ins[k]) end
      end
      local where = self.class[v] == "row" and column_index or index
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, where))
    end
    for _, list in ipairs { reductions, positions, stores } do
      for _, v in ipairs(list) do declare(p.body[v][1]) end
    end
    for _, v in ipairs(reductions) do self:accumulate(v, format("a%d[lane + c]", v)) end
    for _, v in ipairs(positions) do
      self:position(v, format("b%d[c]", v), format("k%d[c]", v), self:name(p.body[v][1]), "r")
    end
    for _, v in ipairs(stores) do self:store(v, index) end
    self.names = saved
    self:close()
    if long then
      local any = false
      for _, v in ipairs(reductions) do any = any or ordered(p.body[v]) end
      if any then
        self:open("if ((r + 1) %% %d == 0 || r + 1 == %s)", M.COL_BLOCK, text(R))
        for _, v in ipairs(reductions) do
          local ins = p.body[v]
          if ordered(ins) then
            local kind = sub(ins.op, 2)
            self.use(format("tree_%s_%s", kind, ins.type))
            self:line("ty_tree_%s_%s(a%d, q%d, %d, r / %d, r + 1 == %s);", kind, ins.type, v, v, M.COL_LANES * W,
              M.COL_BLOCK, text(R))
          end
        end
        self:close()
      end
    end
    self:close()
  end
  -- lanes join; what follows is of columns
  for _, v in ipairs(reductions) do
    local ins = p.body[v]
    local by = ({ rsum = "add", rprod = "mul", rmax = "max", rmin = "min" })[ins.op]
    for s = M.COL_LANES / 2, 1, -1 do
      if s == 2 or s == 1 then
        self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", s * W, v,
          expression({ op = by, type = ins.type }, format("a%d[j]", v), format("a%d[j + %d]", v, s * W), nil, self.use))
      end
    end
  end
  if #row_stores > 0 then
    self:open "for (int c = 0; c < w; c++)"
    local known = {}
    for _, v in ipairs(reductions) do
      local ins = p.body[v]
      local none = empty[ins.op] and empty[ins.op][ins.type]
      known[v] = true
      if none and floating[ins.type] and (type(R) ~= "number" or R == 0) then
        self:line("const %s v%d = %s > 0 ? a%d[c] : %s;", ctype[ins.type], v, text(R), v, none)
      else
        self:line("const %s v%d = a%d[c];", ctype[ins.type], v, v)
      end
    end
    for _, v in ipairs(positions) do
      known[v] = true
      self:line("const int64_t v%d = k%d[c];", v, v)
    end
    for _, v in ipairs(row_stores) do self:declare(p.body[v][1], column_index, known, "row") end
    for _, v in ipairs(row_stores) do self:store(v, column_index) end
    self:close()
  end
  self:close()
  for _ = 1, #outer.dims + max(last - 1, 0) do self:close() end
end

-- Programs ------------------------------------------------------------------------------------------------------------

--- The lines of a program's loops, at depth 1, and the bytes of scratch (`room`) that they use.
--- about: {program, launch, pointer(k) -> name of operand k's pointer, scalar(k, type) -> text, use(name), refuse(what)}
function M.lines(about)
  local p = about.program
  local e = setmetatable({ p = p, launch = about.launch, out = {}, depth = about.depth or 1, loop = 0, names = {},
    pointer = about.pointer, scalar = about.scalar, use = about.use, refuse = about.refuse, room = 0,
    aligned = about.aligned }, Emit)
  if p.fast then about.refuse "a program of a function compiled with {fast = true}" end
  e.noperands = #p.operands + (p.operands[0] and 1 or 0)
  e.live, e.class, e.phase, e.segment, e.phases = classify(p)
  e.operand_used = {}
  for v = 0, p.n - 1 do
    local op = p.body[v].op
    if e.live[v] and (op == "load" or op == "store" or op == "gload" or op == "iota") then
      e.operand_used[p.body[v].imm] = true
    end
  end
  e:uniforms()
  if p.kind == "map" then e:map()
  elseif p.kind == "row" then e:rows()
  else e:columns() end
  return e.out, e.room, e.operand_used
end

M.merged, M.sum_text, M.numel = merged, sum_text, numel

return M
