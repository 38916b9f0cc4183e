--- ops_spec.lua -- every map of the table: against the oracle within its bound, compiled equal to eager to the bit, in all
--- dtypes that its rule admits, layouts, sizes, on special values, and while the host flushes denormals.

local H = require "spec.helper"
local ty, ffi, oracle = H.ty, H.ffi, H.oracle

local SIZES = { 0, 1, 2, 15, 16, 17, 33 }
local maps = {}
for _, row in ipairs(H.ops) do
  if row.class == "map" and row.lua then maps[#maps + 1] = row end
end

--- Operand k of a row as n elements: WHERE's first is bool.
local function operand(row, k, dtype, n, seed)
  if row.rule == "where" and k == 1 then dtype = "bool" end
  return H.mixed(dtype, n, seed + 17 * k)
end

local function operands(row, dtype, n, seed)
  local list = {}
  for k = 1, row.arity do list[k] = operand(row, k, dtype, n, seed) end
  return list
end

--- The dtypes that the rule admits.
local function admitted(row)
  local list = {}
  for _, dtype in ipairs(H.dtypes) do
    if H.meet(row.rule, dtype) then list[#list + 1] = dtype end
  end
  return list
end

-- Against the oracle -----------------------------------------------------------------------------------------------

local HALF_STEP = H.cases(8, 2) -- a half float of so many is tried
local UNARY, BINARY = H.cases(12000, 50000), H.cases(5000, 20000)

--- Bytes of n elements that say most about a dtype: half floats are walked through, others sampled.
local function sample(dtype, n, seed)
  if dtype ~= "f16" and dtype ~= "bf16" then return H.values(dtype, n, seed), n end
  local step = HALF_STEP
  local count = math.floor(65535 / step) + 1
  local y = H.buffer(dtype, count)
  local words = ffi.cast("uint16_t *", y)
  for i = 0, count - 1 do words[i] = i * step + seed % step end
  return y, count
end

--- All pairs of special values, then mixed ones.
local function sample_pairs(dtype, n, seed)
  local specials, count = H.specials(dtype)
  local size, total = H.dtype[dtype].bytes, count * count + n
  local a, b = H.values(dtype, total, seed), H.values(dtype, total, seed + 1)
  for i = 0, count - 1 do
    for j = 0, count - 1 do
      H.store(dtype, specials + i, 1, a + (i * count + j) * size)
      H.store(dtype, specials + j, 1, b + (i * count + j) * size)
    end
  end
  return a, b, total
end

local function cast(from, to, bytes, n)
  if from == to then return bytes end
  local y = H.buffer(to, n)
  oracle.oracle_cast(from, to, bytes, n, y)
  return y
end

local worst = ffi.new "int64_t[1]"

--- What f64 keeps, where f32's bound in the table is larger.
local of_f64 = { atan = 1, expm1 = 1, sinh = 1 }

--- Checks n results of a row on operands of a dtype.
local function check(row, dtype, n, a, b, got)
  local inside, out = H.meet(row.rule, dtype)
  assert.equal(out, got.dtype)
  local y = H.bytes(got)
  local p, q = cast(dtype, inside, a, n), b and cast(dtype, inside, b, n)
  if H.is_float(inside) and row.rule ~= "cmp" then
    local ulp = oracle.oracle_ulp(row.lua, inside, n, p, q, y, worst)
    assert.truthy(ulp >= 0, "the oracle does not know " .. row.lua)
    local i = tonumber(worst[0])
    if ulp > math.max(inside == "f64" and of_f64[row.lua] or row.bound, 0.5) then
      error(("%s of %s: %g ulp at %s%s, got %s"):format(row.lua, dtype, ulp, H.element(inside, p, i),
        q and " and " .. H.element(inside, q, i) or "", H.element(inside, y, i)))
    end
    return
  end
  local want = H.buffer(out, n)
  local known = H.is_float(inside) and oracle.oracle_compare(row.lua, inside, n, p, q, want)
    or oracle.oracle_int(row.lua, inside, n, p, q, want)
  assert.equal(0, tonumber(known), "the oracle does not know " .. row.lua)
  local at = tonumber(oracle.oracle_differ(out, want, y, n))
  if at >= 0 then
    error(("%s of %s: %s%s gives %s instead of %s"):format(row.lua, dtype, H.element(inside, p, at),
      q and " and " .. H.element(inside, q, at) or "", H.element(out, y, at), H.element(out, want, at)))
  end
end

local function checks_values(row)
  for _, dtype in ipairs(admitted(row)) do
    if row.arity == 1 then
      local a, n = sample(dtype, UNARY, 3)
      check(row, dtype, n, a, nil, ty[row.lua](H.tensor(dtype, a, { n })))
    else
      local a, b, n = sample_pairs(dtype, BINARY, 5)
      check(row, dtype, n, a, b, ty[row.lua](H.tensor(dtype, a, { n }), H.tensor(dtype, b, { n })))
    end
  end
end

describe("against the oracle", function()
  for _, row in ipairs(maps) do
    if row.rule ~= "where" then
      it(("%s is within %s in all dtypes"):format(row.lua, row.bound == 0 and "a rounding" or row.bound .. " ulp"), function()
        checks_values(row)
      end)
    end
  end

  it("atan, expm1, sinh of f64 are within 1 ulp at many places near 0", function()
    local n = 40000
    local x = (ty.rand(n, { dtype = "f64" }) - 0.5) * 1.4
    for _, row in ipairs(maps) do
      if of_f64[row.lua] then check(row, "f64", n, H.bytes(x), nil, ty[row.lua](x)) end
    end
  end)

  it("where takes the second operand's bits where the condition holds, else the third's", function()
    for _, dtype in ipairs(H.dtypes) do
      local n, size = 500, H.dtype[dtype].bytes
      local c, a, b = H.values("bool", n, 1), H.values(dtype, n, 2), H.values(dtype, n, 3)
      local want = H.buffer(dtype, n)
      for i = 0, n - 1 do ffi.copy(want + i * size, (c[i] ~= 0 and a or b) + i * size, size) end
      H.same_bytes(want, ty.where(H.tensor("bool", c, { n }), H.tensor(dtype, a, { n }), H.tensor(dtype, b, { n })))
    end
  end)
end)

-- Modes and layouts ------------------------------------------------------------------------------------------------

--- The row alone, and between selections that keep every dtype, so that it shares a kernel.
local function forms(row)
  local op = ty[row.lua]
  local alone = op
  local function fused(m, ...)
    local first, second, third = ...
    if row.arity == 1 then
      return op(m:where(first, second)), op(m:where(second, first))
    elseif row.arity == 2 then
      return op(m:where(first, second), second), op(m:where(second, first), first)
    end
    return op(m:where(first, m), second, third), op(first, m:where(second, third), third)
  end
  return alone, fused
end

describe("compiled equals eager to the bit", function()
  for _, row in ipairs(maps) do
    it(("for %s, in all dtypes, sizes, layouts, alone and fused"):format(row.lua), function()
      local alone, fused = forms(row)
      local compiled, compiled_fused = ty.compile(alone), ty.compile(fused)
      for _, dtype in ipairs(admitted(row)) do
        for i, n in ipairs(SIZES) do
          local plain = operands(row, dtype, n, 100 * i)
          local want = alone(unpack(plain))
          for j, name in ipairs(H.layout_names) do
            local x = {}
            for k, t in ipairs(plain) do x[k] = H.layouts[k == 1 and name or H.layout_names[(j + k) % 4 + 1]](t) end
            H.same(want, alone(unpack(x)), ("eager %s, n = %d"):format(name, n))
            H.same(want, compiled(unpack(x)), ("compiled %s, n = %d"):format(name, n))
          end
          local m = H.mixed("bool", n, 7)
          if row.arity == 1 then plain[2] = H.mixed(dtype, n, 9) end
          local p, q = fused(m, unpack(plain))
          local r, s = compiled_fused(m, unpack(plain))
          H.same(p, r, ("fused, n = %d"):format(n))
          H.same(q, s, ("fused, n = %d"):format(n))
        end
      end
    end)
  end
end)

describe("broadcasting", function()
  for _, row in ipairs(maps) do
    if row.arity >= 2 then
      it(("%s sees 0-d, rows, columns, transposed and expanded operands as if they were laid out"):format(row.lua), function()
        local op = ty[row.lua]
        local compiled = ty.compile(op)
        local dtype = H.meet(row.rule, "f32") and "f32" or "i32"
        local shapes = { {}, { 5 }, { 4, 1 }, { 4, 5 }, { 3, 1, 5 }, { 0, 4, 5 } }
        for i, sa in ipairs(shapes) do
          for j, sb in ipairs(shapes) do
            if sa[3] == nil or sb[3] == nil or sa[1] == sb[1] then
              local x = {}
              for k = 1, row.arity do
                local own = row.rule == "where" and k == 1 and "bool" or dtype
                x[k] = H.mixed(own, k == 1 and sa or k == 2 and sb or {}, i * 10 + j + k)
              end
              local y = op(unpack(x))
              local laid = {}
              for k = 1, row.arity do laid[k] = x[k]:expand(y.shape):clone() end
              H.same(op(unpack(laid)), y)
              H.same(y, compiled(unpack(x)))
              for k = 1, row.arity do -- the same through strides
                if y.ndim >= 2 then laid[k] = laid[k]:transpose(-1, -2):clone():transpose(-1, -2) end
              end
              H.same(y, op(unpack(laid)))
              H.same(y, compiled(unpack(laid)))
            end
          end
        end
      end)
    end
  end
end)

-- Flags of the host ------------------------------------------------------------------------------------------------

local function flushed(fn, ...)
  oracle.oracle_flush_to_zero(1)
  local ok, a, b = pcall(fn, ...)
  local flushing = oracle.oracle_is_flushing()
  oracle.oracle_flush_to_zero(0)
  assert.truthy(ok, a)
  assert.equal(1, flushing, "the host's flags were changed")
  return a, b
end

describe("while the host flushes denormals to zero", function()
  for _, row in ipairs(maps) do
    it(("%s gives the same bits, eager and compiled"):format(row.lua), function()
      local op = ty[row.lua]
      local compiled = ty.compile(op)
      for _, dtype in ipairs(admitted(row)) do
        local x = operands(row, dtype, 700, 11)
        local want = op(unpack(x))
        H.same(want, (flushed(op, unpack(x))), "eager " .. dtype)
        H.same(want, (flushed(compiled, unpack(x))), "compiled " .. dtype)
      end
    end)
  end

  it("numbers, items and tables keep denormals", function()
    local tiny = 2 ^ -149
    local function through()
      local t = ty.tensor { tiny }
      return (t * 1):item(), (t:totable())[1]
    end
    local a, b = flushed(through)
    assert.equal(tiny, a)
    assert.equal(tiny, b)
  end)

  it("sums, products, scans and sorting give the same bits", function()
    for _, dtype in ipairs { "f32", "f64", "bf16" } do
      local x = H.mixed(dtype, { 33, 33 }, 3)
      x[x:ne(x)] = 2 ^ -126
      local function all() return ty.cat({ x:sum(2), x:matmul(x):sum(1), x:cumsum(1)[33], x:max(1), x:prod(2) }) end
      local want = all()
      H.same(want, (flushed(all)), dtype)
      H.same(x:argsort(1), (flushed(x.argsort, x, 1)), dtype)
    end
  end)
end)

-- Conversions ------------------------------------------------------------------------------------------------------

describe("conversions", function()
  for _, from in ipairs(H.dtypes) do
    it(("of %s to every dtype round once, saturate, wrap or cut as defined"):format(from), function()
      local function converter(to) return function(x) return x:to(to) end end
      local bytes, n = sample(from, BINARY, 2)
      local x = H.tensor(from, bytes, { n })
      for _, to in ipairs(H.dtypes) do
        local want = H.buffer(to, n)
        oracle.oracle_cast(from, to, bytes, n, want)
        H.same_bytes(want, x:to(to), from .. " to " .. to)
        H.same_bytes(want, ty.compile(converter(to))(x), "compiled " .. from .. " to " .. to)
      end
    end)
  end

  it("of f64 and i64 to half floats round once where two roundings would differ", function()
    local function near(mantissa, e) -- a tie of the half format, moved by less than f32 can say
      return { 2 ^ e * (1 + 2 ^ -mantissa), 2 ^ e * (1 + 2 ^ -mantissa + 2 ^ -45), 2 ^ e * (1 + 2 ^ -mantissa - 2 ^ -45) }
    end
    for dtype, mantissa in pairs { f16 = 11, bf16 = 8 } do
      for e = -14, 14 do
        local v = near(mantissa, e)
        local want = H.store(dtype, ffi.new("double[3]", v), 3)
        H.same_bytes(want, ty.tensor(v, { dtype = "f64" }):to(dtype))
        H.same_bytes(want, ty.tensor(v, { dtype = dtype }))
      end
    end
    local v = ffi.new("int64_t[4]", { 2 ^ 40 + 2 ^ 32 + 1, -(2 ^ 40 + 2 ^ 32 + 1), 2 ^ 62 + 2 ^ 54 + 1, 2 ^ 31 + 2 ^ 23 + 1 })
    local bytes, want = H.store("i64", v, 4), H.buffer("bf16", 4)
    oracle.oracle_cast("i64", "bf16", bytes, 4, want)
    H.same_bytes(want, H.tensor("i64", bytes, { 4 }):to("bf16"))
  end)

  it("of Lua numbers into elements round as conversions do", function()
    for _, dtype in ipairs { "f16", "bf16", "f32", "f64" } do
      local specials, n = H.specials(dtype)
      local list = {}
      for i = 1, n do list[i] = specials[i - 1] end
      for i = 1, n do list[n + i] = specials[i - 1] * (1 + 2 ^ -12) end
      local want = H.store(dtype, ffi.new("double[?]", #list, list), #list)
      H.same_bytes(want, ty.tensor(list, { dtype = dtype }))
      for i = 1, #list do
        local one = H.store(dtype, ffi.new("double[1]", list[i]), 1)
        H.same_bytes(one, ty.full({}, list[i], { dtype = dtype }))
      end
    end
  end)
end)

describe("bit casts", function()
  it("keep the bits between dtypes of one size, NaNs becoming the one NaN", function()
    for _, from in ipairs(H.dtypes) do
      for _, to in ipairs(H.dtypes) do
        local size = H.dtype[from].bytes
        if size == H.dtype[to].bytes and to ~= "bool" then
          local n = 3000
          local bytes = H.values(from, n, 4)
          local want = H.buffer(to, n)
          ffi.copy(want, bytes, n * size)
          if H.is_float(from) then -- a NaN counts as positive and quiet
            local canonical = ({ f16 = 0x7e00, bf16 = 0x7fc0, f32 = 0x7fc00000, f64 = 0x7ff8000000000000ULL })[from]
            local as = ({ [2] = "uint16_t *", [4] = "uint32_t *", [8] = "uint64_t *" })[size]
            local values, words = H.doubles(H.tensor(from, bytes, { n })), ffi.cast(as, want)
            for i = 0, n - 1 do
              if values[i] ~= values[i] then words[i] = canonical end
            end
          end
          local x = H.tensor(from, bytes, { n })
          H.same_bytes(want, x:view_as(to), from .. " as " .. to)
          H.same_bytes(want, ty.compile(function(v) return v:view_as(to) end)(x), "compiled " .. from .. " as " .. to)
        end
      end
    end
  end)
end)
