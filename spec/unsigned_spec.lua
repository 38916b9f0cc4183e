--- unsigned_spec.lua -- u16, u32, u64. What each operation gives is compared with the oracle in ops_spec.lua; here is what
--- they meet, sum to, are called, stored and shown as.

local H = require "spec.helper"
local ffi = require "ffi"

local ty = H.ty
local kinds = { "u16", "u32", "u64" }

--- Values at both ends of a dtype: 0, 1, half, half + 1, the largest but one, the largest.
local function ends(dtype)
  local bits = H.dtype[dtype].bytes * 8
  local list = { 0ULL, 1ULL, bit.lshift(1ULL, bits - 1), bit.lshift(1ULL, bits - 1) + 1, 0ULL - 2, 0ULL - 1 }
  local to = H.buffer(dtype, #list)
  for i, v in ipairs(list) do H.oracle.oracle_store_int(dtype, ffi.new("int64_t[1]", ffi.cast("int64_t", v)), 1,
    to + (i - 1) * bits / 8) end
  return H.tensor(dtype, to, { #list })
end

--- f, eager and compiled: the same bits. Gives its results.
local function both(f, ...)
  local want, compiled = { f(...) }, ty.compile(f)
  for _ = 1, 2 do
    local got = { compiled(...) }
    for i, v in ipairs(want) do H.same(v, got[i]) end
  end
  return unpack(want)
end

describe("unsigned integers", function()
  -- np.promote_types of NumPy 2.4, in the order of the names
  local names = { "bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64" }
  local met = {
    bool = "bool u8 i8 u16 i16 u32 i32 u64 i64", u8 = "u8 u8 i16 u16 i16 u32 i32 u64 i64",
    i8 = "i8 i16 i8 i32 i16 i64 i32 f64 i64", u16 = "u16 u16 i32 u16 i32 u32 i32 u64 i64",
    i16 = "i16 i16 i16 i32 i16 i64 i32 f64 i64", u32 = "u32 u32 i64 u32 i64 u32 i64 u64 i64",
    i32 = "i32 i32 i32 i32 i32 i64 i32 f64 i64", u64 = "u64 u64 f64 u64 f64 u64 f64 u64 f64",
    i64 = "i64 i64 i64 i64 i64 i64 i64 f64 i64",
  }

  it("meet others as in NumPy, floats as other integers do", function()
    for a, list in pairs(met) do
      local i = 0
      for want in list:gmatch "%S+" do
        i = i + 1
        assert.equal(want, ty.promote_types(a, names[i]), a .. " " .. names[i])
        local y = ty.maximum(ty.ones(2, { dtype = a }), ty.ones(2, { dtype = names[i] }))
        assert.equal(want, y.dtype, a .. " " .. names[i])
      end
      for _, float in ipairs { "f16", "bf16", "f32", "f64" } do
        assert.equal(float, (ty.ones(2, { dtype = a }) * ty.ones(2, { dtype = float })).dtype)
        assert.equal(float, ty.promote_types(float, a))
      end
    end
  end)

  it("stay what they are beside a number that they hold", function()
    for _, dtype in ipairs(kinds) do
      local x = ty.ones(2, { dtype = dtype })
      assert.same({ dtype, "f32", "f32" }, { (x + 1).dtype, (x * 0.5).dtype, (x / 2).dtype })
      assert.equal(("add: -1 does not fit %s"):format(dtype), H.raises(function() return x + -1 end):match "add.*")
      assert.equal(("tensor: -1 at [1] does not fit %s"):format(dtype),
        H.raises(ty.tensor, { -1 }, { dtype = dtype }):match "tensor.*")
    end
  end)

  it("have the limits and the names of NumPy's", function()
    for i, dtype in ipairs(kinds) do
      local bits = 8 * 2 ^ i
      assert.same({ dtype = dtype, bits = bits, min = 0, max = 2 ^ bits - (bits < 64 and 1 or 0) }, ty.iinfo(dtype))
      assert.equal(dtype, ty.zeros({ 2 }, { dtype = "uint" .. bits }).dtype)
    end
  end)

  it("have the sign 1 or 0", function()
    for _, dtype in ipairs(kinds) do H.same(ty.tensor({ 0, 1, 1, 1, 1, 1 }, { dtype = dtype }), both(ty.sign, ends(dtype))) end
  end)

  it("wrap, sum to u64, are ordered above what i64 holds", function()
    for _, dtype in ipairs(kinds) do
      local x = ends(dtype)
      local bits = H.dtype[dtype].bytes * 8
      local top = tostring(0ULL - 1):match "%d+"
      if bits < 64 then top = ("%.0f"):format(2 ^ bits - 1) end
      local sum, big, at, sorted, order, line, cells = both(function(v)
        local s, o = v:sort(1, true)
        return v:sum(), v:max(), v:argmax(), s, o, v:cummax(1), v:flip():cumsum(1)
      end, x)
      assert.same({ "u64", dtype, dtype }, { sum.dtype, big.dtype, line.dtype })
      assert.truthy(tostring(big):find(top, 1, true), tostring(big))
      assert.equal(6, at:item())
      assert.same({ 6, 5, 4, 3, 2, 1 }, order:totable())
      H.same(x:flip(), sorted)
      H.same(x, line)
      assert.equal("u64", cells.dtype)
      H.same(sum, cells[6])
      H.same(x, (x:flip():unique()))
      H.same(x + 1, both(function(v) return v - -v + 1 - v end, x))
      H.same(x, both(function(v) return v:floor_divide(3) * 3 + v % 3 end, x))
      H.same(ty.tensor { 1, 2, 3, 4, 5, 6 }:to "i64", x:searchsorted(x) + 0)
    end
  end)

  it("have products, gathers and scatters of their own arithmetic", function()
    for _, dtype in ipairs(kinds) do
      local x = ends(dtype)
      local a = x:reshape(2, 3)
      local sums = ty.stack({ (a[1] * a[1]):sum():to(dtype), (a[1] * a[2]):sum():to(dtype), (a[1] * a[2]):sum():to(dtype),
        (a[2] * a[2]):sum():to(dtype) }, 1):reshape(2, 2)
      H.same(sums, both(function(v) return v:matmul(v:t()) end, a))
      H.same(sums + 1, both(function(v) return v:matmul(v:t()) + 1 end, a))
      local index = ty.tensor({ 6, 1, 6, 2, 5, 5 }, { dtype = "i64" })
      local taken = both(function(v, i) return v:gather(1, i) end, x, index)
      assert.truthy(taken:eq(x:take(index)):all():item())
      H.same(ty.zeros(6, { dtype = dtype }) + ty.where(ty.tensor { true, false, false, false, false, true }, x[6] + x[1], 0):to(dtype),
        both(function(v)
          return ty.zeros(6, { dtype = dtype }):scatter_add(1, ty.tensor({ 1, 6 }, { dtype = "i64" }), v[6]:expand(2))
        end, x))
    end
    local x = ty.arange(5)
    for _, dtype in ipairs { "u16", "u32" } do
      assert.same({ 4, 0 }, x[ty.tensor({ 5, 1 }, { dtype = dtype })]:totable())
      assert.truthy(H.raises(function() return x[ty.tensor({ 65535 }, { dtype = dtype })] end):find("65535", 1, true))
    end
    assert.truthy(H.raises(function() return x[ty.tensor({ 1 }, { dtype = "u64" })] end):find('use :to("i64")', 1, true))
  end)

  it("are shown whole, and leave as numbers where these are exact", function()
    assert.truthy(tostring(ends "u64"):find("18446744073709551614, 18446744073709551615", 1, true))
    assert.equal(2 ^ 63, ends("u64")[3]:item())
    assert.equal("item: u64 18446744073709551615 is not exact as a number of Lua",
      H.raises(function() return ends("u64")[6]:item() end):match "item.*")
    assert.same({ 0, 1, 2 ^ 31, 2 ^ 31 + 1, 2 ^ 32 - 2, 2 ^ 32 - 1 }, ends("u32"):totable())
  end)

  it("are drawn, counted, batched", function()
    for _, dtype in ipairs(kinds) do
      local x = ty.randint(3, 9, { 200 }, { dtype = dtype })
      assert.same({ dtype, 3, 9 }, { x.dtype, x:min():item(), x:max():item() })
      H.same(x, ty.arange(200, { dtype = dtype }) * 0 + x)
      local m = ends(dtype):reshape(3, 2)
      H.same(m:max(2), ty.vmap(function(v) return v:max() end)(m))
    end
  end)

  it("come back from npy, safetensors and npz", function()
    local path = os.tmpname()
    for _, dtype in ipairs(kinds) do
      local x = ends(dtype):reshape(2, 3)
      for _, kind in ipairs { ".npy", ".npz", ".safetensors" } do
        assert(ty.save(path .. kind, kind == ".npy" and x or { x = x }))
        local y = assert(ty.load(path .. kind))
        H.same(x, kind == ".npy" and y or y.x)
        os.remove(path .. kind)
      end
    end
    os.remove(path)
  end)
end)
