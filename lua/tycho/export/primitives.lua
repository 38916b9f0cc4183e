--- export/primitives.lua -- loop programs as tables, and their primitives as C expressions.
-- In: the text of a program. Out: its operands and instructions; C text of constants, of instructions, of what loads
-- and stores make of elements. Every value is what core/ir/program.h says of its primitive.

local format, match, gmatch, sub = string.format, string.match, string.gmatch, string.sub
local concat, tonumber = table.concat, tonumber
local max, floor, abs, frexp = math.max, math.floor, math.abs, math.frexp

local M = {}

-- Programs ------------------------------------------------------------------------------------------------------------

local ctype = { i32 = "int32_t", i64 = "int64_t", f32 = "float", f64 = "double" }
M.ctype = ctype
--- What elements in memory are.
M.stored = { bool = "uint8_t", u8 = "uint8_t", i8 = "int8_t", i16 = "int16_t", i32 = "int32_t", i64 = "int64_t",
  f16 = "uint16_t", bf16 = "uint16_t", f32 = "float", f64 = "double", u16 = "uint16_t", u32 = "uint32_t",
  u64 = "uint64_t" }
M.bytes = { bool = 1, u8 = 1, i8 = 1, i16 = 2, i32 = 4, i64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8,
  u16 = 2, u32 = 4, u64 = 8 }
--- What they are computed in.
M.computed = { bool = "i32", u8 = "i32", i8 = "i32", i16 = "i32", i32 = "i32", i64 = "i64", f16 = "f32", bf16 = "f32",
  f32 = "f32", f64 = "f64", u16 = "i32", u32 = "i64", u64 = "i64" }

local dtypes = { [0] = "bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u16", "u32", "u64" }

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
    local exponent, fraction = floor(low / 2 ^ 23) % 256, low % 2 ^ 23
    local sign = low >= 2 ^ 31 and "-" or ""
    if exponent == 255 then return format("ty_float_f32(0x%08xu)", low), "bits_f32" end
    if exponent == 0 and fraction == 0 then return sign .. "0.0f" end
    local v = exponent == 0 and fraction * 2 ^ -149 or (fraction + 2 ^ 23) * 2 ^ (exponent - 150)
    if v < 2 ^ 20 and v == floor(v) then return format("%s%d.0f", sign, v) end
    return format("%s0x%xp%df", sign, exponent == 0 and fraction or fraction + 2 ^ 23, max(exponent, 1) - 150)
  end
  local exponent, top = floor(high / 2 ^ 20) % 2048, high % 2 ^ 20
  local sign = high >= 2 ^ 31 and "-" or ""
  if exponent == 2047 then return format("ty_float_f64(UINT64_C(0x%s))", bits), "bits_f64" end
  if exponent == 0 and top == 0 and low == 0 then return sign .. "0.0" end
  return format("%s0x%x%08xp%d", sign, exponent == 0 and top or top + 2 ^ 20, low, max(exponent, 1) - 1075)
end

--- A Lua number as a double of C.
function M.double(v)
  if v == floor(v) and abs(v) < 2 ^ 50 and (v ~= 0 or 1 / v > 0) then return format("%d.0", v) end
  if v ~= v then return "ty_float_f64(UINT64_C(0x7ff8000000000000))", "bits_f64" end
  if v == 1 / 0 then return "ty_float_f64(UINT64_C(0x7ff0000000000000))", "bits_f64" end
  if v == -1 / 0 then return "ty_float_f64(UINT64_C(0xfff0000000000000))", "bits_f64" end
  local m, e = frexp(abs(v))
  local sign = (v < 0 or 1 / v < 0) and "-" or ""
  if m == 0 then return sign .. "0.0" end
  local whole = m * 2 ^ 53
  return format("%s0x%x%08xp%d", sign, floor(whole / 2 ^ 32), whole % 2 ^ 32, e - 53)
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
identity.ssum, identity.sprod = identity.rsum, identity.rprod
identity.smax, identity.smin = identity.rmax, identity.rmin
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

M.loaded, M.to_store, M.unsigned = loaded, to_store, unsigned

--- The dtype that a `narrow` rounds to.
function M.narrowed(ins) return dtypes[ins.imm] end

local limits = { bool = { "0.0", "1.0" }, u8 = { "0.0", "255.0" }, i8 = { "-128.0", "127.0" },
  i16 = { "-32768.0", "32767.0" }, i32 = { "-0x1p31", "0x1.fffffffcp30" }, i64 = { "-0x1p63", "0x1.fffffffffffffp62" },
  u16 = { "0.0", "65535.0" }, u32 = { "0.0", "4294967295.0" }, u64 = { "0.0", "0x1.fffffffffffffp62" } }

--- The lowest and the highest number of a dtype that a double is.
function M.limits(dtype) return limits[dtype][1], limits[dtype][2] end

M.expression, M.identity, M.empty, M.floating = expression, identity, empty, floating

return M
