--- surface_spec.lua -- the Lua surface as it was ruled: indices, options, promotion, printing, errors.

local H = require "spec.helper"
local ty = H.ty

local function raised(fn, ...) return H.raises(fn, ...) end

local function same(want, t) assert.same(want, t:totable()) end

describe("indices count from 1", function()
  local x = ty.arange(12):reshape(3, 4)

  it("a number drops its dim, negative ones count from the end", function()
    same({ 0, 1, 2, 3 }, x[1])
    same({ 8, 9, 10, 11 }, x[-1])
    assert.equal(0, x[2][3].ndim)
    assert.equal(6, x[2][3]:item())
    assert.equal(6, x[{ 2, 3 }]:item())
    assert.equal(11, x:get(-1, -1))
  end)

  it("0, out of range and fractions raise with index and bounds; nil raises", function()
    assert.equal("index: index 0 is out of range 1..3 (dim 1)", raised(function() return x[0] end))
    assert.equal("index: index 4 is out of range 1..3 (dim 1)", raised(function() return x[4] end))
    assert.equal("index: index -4 is out of range 1..3 (dim 1)", raised(function() return x[-4] end))
    assert.truthy(raised(function() return x[1.5] end):find("^index: index 1%.5"))
    assert.truthy(raised(function() return x[nil] end):find("^index: "))
    assert.truthy(raised(function() return x[{ 1, nil, 2 }] end):find("^index: "))
    assert.truthy(raised(function() return x[{ 1, 1, 1 }] end):find("^index: .*f32%[3,4%]"))
    assert.truthy(raised(x.get, x, 1, 5):find("^get: index 5 .*1%.%.4"))
    assert.truthy(raised(x.get, x, 1):find("^get: "))
    assert.truthy(raised(x.sum, x, 3):find("^sum: dim 3 is out of range 1%.%.2"))
    assert.truthy(raised(x.sum, x, 0):find("^sum: dim 0"))
  end)

  it("ranges hold from, to and a step, both ends included", function()
    same({ { 0, 1, 2, 3 }, { 4, 5, 6, 7 } }, x[{ { 1, 2 } }])
    same({ { 4, 5, 6, 7 } }, x[{ { 2 } }])
    same({ 1, 5, 9 }, x[{ {}, 2 }])
    same({ { 1 }, { 5 }, { 9 } }, x[{ {}, { 2 } }])
    same({ { 0, 3 } }, x[{ { 1 }, { 1, 4, 3 } }])
    same({ { 0, 2 } }, x[{ { 1 }, { 1, 4, 2 } }])
    same({ 8, 4, 0 }, x[{ { -1, 1, -1 }, 1 }])
    assert.same({ 0, 4 }, x[{ { 2, 1 } }].shape)
    assert.same({ 3, 0 }, x[{ {}, { 5, 4 } }].shape)
    assert.truthy(raised(function() return x[{ { 1, 3, 0 } }] end):find("^index: step 0"))
    assert.truthy(raised(function() return x[{ { 3, 1 } }] end):find("^index: "))
    assert.truthy(raised(function() return x[{ { 0, 1 } }] end):find("^index: index 0"))
    assert.truthy(raised(function() return x[{ { 1, 4 } }] end):find("^index: index 4"))
  end)

  it('"..." fills and "new" inserts a dim', function()
    same({ 3, 7, 11 }, x[{ "...", -1 }])
    same({ { 0, 1, 2, 3 } }, x[{ "new", 1 }])
    assert.same({ 3, 1, 4 }, x[{ {}, "new" }].shape)
    assert.same({ 3, 4, 1 }, x[{ "...", "new" }].shape)
    assert.truthy(raised(function() return x[{ "...", "..." }] end):find("^index: "))
  end)

  it("index tensors pick places, numbers and tables in their position becoming i64", function()
    local i = ty.tensor({ 3, 1 }, { dtype = "i64" })
    same({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 } }, x[i])
    same({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 } }, x[{ { { 3, 1 } } }])
    same({ 8, 1 }, x[{ i, ty.tensor({ 1, 2 }, { dtype = "u8" }) }])
    same({ { 2, 0 }, { 6, 4 }, { 10, 8 } }, x[{ {}, i }])
    assert.truthy(raised(function() return x[ty.tensor { 1, 2 }] end):find('^index: .*f32%[2%] %(use :to%("i64"%)%)'))
    assert.truthy(raised(function() return x[ty.tensor({ 4 }, { dtype = "i64" })] end):find("^index %(dim 1%): index 4"))
    assert.truthy(raised(function() return x[ty.tensor({ 0 }, { dtype = "i64" })] end):find("^index %(dim 1%): index 0"))
  end)

  it("masks pick what holds; they must fit", function()
    same({ 9, 10, 11 }, x[x:gt(8)])
    same({ { 4, 5, 6, 7 } }, x[ty.tensor { false, true, false }])
    assert.same({ 0 }, x[x:gt(99)].shape)
    assert.truthy(raised(function() return x[ty.tensor { true, false }] end):find("^index: a mask bool%[2%] does not fit"))
  end)

  it("#t is the size of dim 1 and raises on 0-d; rows iterates", function()
    assert.equal(3, #x)
    assert.truthy(raised(function() return #ty.tensor(1) end):find("^len: "))
    local n = 0
    for i, row in x:rows() do
      n = n + 1
      assert.equal(n, i)
      H.same(x[i], row)
    end
    assert.equal(3, n)
  end)
end)

describe("assignment", function()
  local x
  before_each(function() x = ty.zeros(3, 4) end)

  it("broadcasts and casts numbers, tables and tensors", function()
    x[1] = 5
    x[{ {}, 2 }] = ty.tensor({ 1, 2, 3 }, { dtype = "i32" })
    x[{ { 2, 3 }, { 3, 4 } }] = { { 7, 8 }, { 9, 10 } }
    same({ { 5, 1, 5, 5 }, { 0, 2, 7, 8 }, { 0, 3, 9, 10 } }, x)
    x[{ "...", -1 }] = ty.tensor { 6 }
    same({ 6, 6, 6 }, x[{ {}, 4 }])
    assert.truthy(raised(function() x[1] = ty.zeros(3) end):find("^assign: f32%[3%] does not broadcast to f32%[4%]"))
  end)

  it("by masks and index tensors writes those places, the last of equal ones", function()
    x[x:eq(0)] = 1
    x[ty.tensor({ 1, 3 }, { dtype = "i64" })] = ty.tensor { { 2 }, { 3 } }
    same({ { 2, 2, 2, 2 }, { 1, 1, 1, 1 }, { 3, 3, 3, 3 } }, x)
    local v = ty.zeros(3)
    v[ty.tensor({ 2, 2, 1 }, { dtype = "i64" })] = ty.tensor { 1, 2, 3 }
    same({ 3, 2, 0 }, v)
    v[v:gt(2)] = ty.tensor { 9 }
    same({ 9, 2, 0 }, v)
  end)

  it("raises for what an integer tensor cannot hold", function()
    local i = ty.zeros({ 3 }, { dtype = "i32" })
    assert.equal("assign: 1.5 does not fit i32", raised(function() i[1] = 1.5 end))
    assert.truthy(raised(function() i[1] = ty.tensor(1.5) end):find("^assign: f32 values do not go into i32"))
    assert.truthy(raised(i.set, i, 1, 2 ^ 40):find("^set: .*does not fit i32"))
    assert.truthy(raised(function() ty.zeros({ 2 }, { dtype = "u8" })[1] = -1 end):find("does not fit u8"))
    i[2] = 7
    same({ 0, 7, 0 }, i)
  end)

  it("of a string or a missing value raises", function()
    assert.truthy(raised(function() x[1] = "a" end):find("^assign: "))
    assert.truthy(raised(function() x[1] = nil end):find("^assign: "))
    assert.truthy(raised(function() x.foo = 1 end):find("^tensor: "))
    assert.truthy(raised(function() x.shape = 1 end):find("^tensor: "))
  end)

  it("to elements that share memory raises", function()
    local e = ty.zeros(3, 1):expand(3, 4)
    assert.truthy(raised(e.fill_, e, 1):find("^fill_: .*share memory"))
    assert.truthy(raised(e.add_, e, 1):find("^add_: "))
  end)
end)

describe("properties", function()
  it("are shape, dtype, device, ndim; the shape is a fresh table", function()
    local x = ty.zeros({ 2, 3 }, { dtype = "f16" })
    local s = x.shape
    s[1] = 99
    assert.same({ 2, 3 }, x.shape)
    assert.same({ "f16", "cpu", 2, false }, { x.dtype, x.device, x.ndim, x.requires_grad })
    assert.equal(nil, x.grad)
    assert.same({ 2, 3 }, x:size())
    assert.equal(3, x:size(-1))
    assert.same({ 3, 1 }, x:stride())
    assert.equal(6, x:numel())
    assert.truthy(x:is_contiguous())
    assert.falsy(x:t():is_contiguous())
    assert.truthy(ty.is_tensor(x))
    for _, v in ipairs { 1, "x", {}, print, io.stdout, false } do assert.falsy(ty.is_tensor(v)) end
  end)

  it("that are unknown raise with the nearest name", function()
    local x = ty.zeros(1)
    assert.equal('tensor: no field "shap"; did you mean "shape"?', raised(function() return x.shap end))
    assert.equal('tensor: no field "mattmul"; did you mean "matmul"?', raised(function() return x.mattmul end))
    assert.equal('tensor: no field "q"', raised(function() return x.q end)) -- a single letter is near to none
    assert.equal('tensor: no field "xyzzy"', raised(function() return x.xyzzy end))
  end)

  it("are not there after release", function()
    local x = ty.zeros(3)
    x:release()
    assert.truthy(raised(function() return x.shape end):find("released"))
    assert.equal("add: tensor was released", raised(function() return x + 1 end))
    assert.truthy(tostring(x):find("released"))
    x:release()
  end)
end)

describe("comparisons", function()
  local a, b = ty.tensor { 1, 2 }, ty.tensor { 2, 2 }

  it("are methods: < and <= raise with that hint", function()
    assert.truthy(raised(function() return a < b end):find("^lt: .*a:lt%(b%)"))
    assert.truthy(raised(function() return a <= b end):find("^le: .*a:le%(b%)"))
    same({ true, false }, a:lt(b))
    same({ true, true }, a:le(b))
    same({ false, true }, a:ge(2))
    same({ false, true }, a:gt(1.5))
    same({ false, true }, a:eq(b))
    same({ true, false }, a:ne(b))
  end)

  it("== is identity and never raises", function()
    assert.falsy(a == b)
    assert.truthy(a == a) -- luacheck: ignore
    assert.falsy(a == 1)
    assert.falsy(a == nil)
    assert.truthy(ty.equal(a, ty.tensor { 1, 2 }))
    assert.falsy(ty.equal(a, b))
    assert.falsy(ty.equal(a, ty.zeros(3)))
  end)

  it("with numbers outside of an integer's range are still right", function()
    local u = ty.tensor({ 0, 255 }, { dtype = "u8" })
    same({ true, true }, u:lt(256))
    same({ false, false }, u:lt(-1))
    same({ false, true }, u:gt(254.5))
    same({ false, false }, u:eq(-1))
  end)

  it("isclose and allclose follow NumPy", function()
    assert.truthy(ty.allclose(ty.tensor { 1, math.huge }, ty.tensor { 1 + 1e-7, math.huge }))
    assert.falsy(ty.allclose(ty.tensor { 0 / 0 }, ty.tensor { 0 / 0 }))
    assert.truthy(ty.allclose(ty.tensor { 0 / 0 }, ty.tensor { 0 / 0 }, { equal_nan = true }))
    same({ true, false, false }, ty.isclose(ty.tensor { 1, 1, 1 }, ty.tensor { 1.000001, 1.1, math.huge }))
  end)
end)

describe("tables as arguments", function()
  it("with a string key are options, else sizes, dims or data", function()
    assert.same({ 2, 3 }, ty.zeros(2, 3).shape)
    assert.same({ 2, 3 }, ty.zeros({ 2, 3 }).shape)
    local z = ty.zeros({ 2, 3 }, { dtype = "f64" })
    assert.same({ "f64", { 2, 3 } }, { z.dtype, z.shape })
    z = ty.zeros(2, 3, { dtype = "f64" })
    assert.same({ "f64", { 2, 3 } }, { z.dtype, z.shape })
    assert.same({}, ty.zeros({}).shape)
    assert.same({ 0 }, ty.tensor({}).shape)
    assert.same({ 2, 0 }, ty.tensor({ {}, {} }).shape)
  end)

  it("with unknown options raise and list the known ones", function()
    assert.truthy(raised(ty.zeros, 2, { dtyp = "f64" }):find("^zeros: unknown option .*dtype device"))
    assert.truthy(raised(ty.zeros, 2, { dtype = "f33" }):find("^zeros: a dtype must be one of bool u8"))
    assert.truthy(raised(ty.zeros, 2, { device = "cuda:0" }):find("^zeros: device"))
  end)

  it("as data must be even", function()
    assert.truthy(raised(ty.tensor, { { 1, 2 }, { 3 } }):find("^tensor: ragged data, %[2%] has 1 elements where 2"))
    assert.truthy(raised(ty.tensor, { { 1, 2 }, 3 }):find("^tensor: ragged data"))
    assert.truthy(raised(ty.tensor, { 1, true }):find("^tensor: mixed data, %[2%]"))
    assert.truthy(raised(ty.tensor, { 1, "a" }):find("^tensor: ragged data, %[2%] is string"))
    assert.truthy(raised(ty.tensor, { { { 1 } }, { { {} } } }):find("^tensor: ragged data, %[2%]%[1%]%[1%]"))
    assert.truthy(raised(ty.tensor, { 300 }, { dtype = "u8" }):find("^tensor: 300 at %[1%] does not fit u8"))
  end)

  it("give f32 for numbers and bool for booleans", function()
    assert.equal("f32", ty.tensor({ 1, 2 }).dtype)
    assert.equal("bool", ty.tensor({ true }).dtype)
    assert.equal("bool", ty.tensor(false).dtype)
    assert.equal("f32", ty.tensor(3).dtype)
    assert.equal("bool", ty.full({ 2 }, true).dtype)
    assert.equal("f32", ty.zeros(2).dtype)
  end)
end)

describe("dims", function()
  local x = ty.arange(6):reshape(2, 3)

  it("are a number, a list, or all; keepdim keeps the rank", function()
    assert.equal(15, x:sum():item())
    same({ 3, 5, 7 }, x:sum(1))
    same({ 3, 12 }, x:sum(-1))
    assert.equal(15, x:sum({ 1, 2 }):item())
    assert.same({ 1, 1 }, x:sum(nil, true).shape)
    assert.same({ 2, 1 }, x:sum(2, true).shape)
    assert.same({ 1, 3 }, x:mean(1, true).shape)
  end)

  it("of an empty list, given twice, or out of range raise", function()
    assert.truthy(raised(x.sum, x, {}):find("^sum: an empty list"))
    assert.truthy(raised(x.sum, x, { 1, 1 }):find("^sum: dim 1 is given twice"))
    assert.truthy(raised(x.sum, x, { 1, -2 }):find("^sum: dim 1 is given twice"))
    assert.truthy(raised(x.mean, x, {}):find("^mean: an empty list"))
    assert.truthy(raised(x.softmax, x, 3):find("^softmax: dim 3"))
  end)

  it("argmax takes the first on ties, NaN wins, no dim means flattened; one result each", function()
    local t = ty.tensor { { 1, 3, 3 }, { 3, 0 / 0, 5 } }
    assert.equal(5, t:argmax():item())
    same({ 2, 2 }, t:argmax(2))
    assert.equal("i64", t:argmax().dtype)
    assert.equal(1, select("#", t:max(1)))
    assert.equal(2, select("#", t:sort()))
    assert.equal(2, select("#", t:topk(1)))
    assert.equal(2, select("#", t:unique()))
    assert.equal(2, ty.tensor({ 5, 1, 1 }):argmin():item())
  end)
end)

describe("orders of arguments", function()
  it("full(sizes, value), randint(low, high, sizes), linspace(start, stop, count)", function()
    same({ { 7, 7 } }, ty.full({ 1, 2 }, 7))
    same({ 3, 3 }, ty.randint(3, 3, { 2 }))
    same({ 0, 0.25, 0.5, 0.75, 1 }, ty.linspace(0, 1, 5))
    same({ 2 }, ty.linspace(2, 9, 1))
    same({}, ty.linspace(2, 9, 0))
  end)

  it("arange is half-open, range inclusive as Lua's for", function()
    same({ 0, 1, 2 }, ty.arange(3))
    same({ 1, 2, 3 }, ty.range(3))
    same({ 2, 4 }, ty.arange(2, 6, 2))
    same({ 2, 4, 6 }, ty.range(2, 6, 2))
    same({ 3, 2, 1 }, ty.range(3, 1, -1))
    same({}, ty.range(0))
    same({}, ty.arange(3, 1))
    assert.equal("i64", ty.range(3, { dtype = "i64" }).dtype)
    assert.truthy(raised(ty.arange, 1, 2, 0):find("^arange: the step is 0"))
    for _, v in ipairs { 0.1, 1 / 3, 0.7 } do
      local count = 0
      for _ = 1, 10, v do count = count + 1 end
      assert.equal(count, ty.range(1, 10, v):numel())
    end
  end)

  it("eye, tri, tril, triu, meshgrid", function()
    same({ { 1, 0 }, { 0, 1 } }, ty.eye(2))
    same({ { 1, 0, 0 }, { 0, 1, 0 } }, ty.eye(2, 3))
    same({ { 1, 0 }, { 1, 1 } }, ty.tri(2))
    same({ { 1, 1, 0 }, { 1, 1, 1 } }, ty.tri(2, 3, 1))
    local m = ty.tensor { { 1, 2 }, { 3, 4 } }
    same({ { 1, 0 }, { 3, 4 } }, m:tril())
    same({ { 1, 2 }, { 0, 4 } }, m:triu())
    local g = ty.meshgrid(ty.tensor { 1, 2 }, ty.tensor { 5, 6, 7 })
    assert.equal(2, #g)
    same({ { 1, 1, 1 }, { 2, 2, 2 } }, g[1])
    same({ { 5, 6, 7 }, { 5, 6, 7 } }, g[2])
  end)

  it("where, norm, topk, cat and split take theirs", function()
    local c = ty.tensor { true, false }
    same({ 1, 2 }, c:where(1, ty.tensor { 2, 2 }))
    assert.equal(5, ty.tensor({ 3, 4 }):norm():item())
    same({ 3, 4 }, ty.tensor({ { 3, 4 } }):norm(1, 1))
    assert.equal(4, ty.tensor({ 3, 4 }):norm(math.huge):item())
    assert.same({ 4, 1 }, ty.cat({ ty.zeros(2, 1), ty.zeros(2, 1) }).shape)
    assert.equal(3, #ty.zeros(5):split(2))
    assert.equal("table", type(ty.zeros(5):split(2)))
  end)
end)

describe("dtypes", function()
  local function of(a, b) return (ty.zeros({ 1 }, { dtype = a }) + ty.zeros({ 1 }, { dtype = b })).dtype end

  it("promote by the lattice", function()
    local rank = { bool = 1, u8 = 2, i8 = 3, i16 = 4, i32 = 5, i64 = 6, f16 = 7, bf16 = 8, f32 = 9, f64 = 10 }
    for a, ra in pairs(rank) do
      for b, rb in pairs(rank) do
        local want = ra > rb and a or b
        if (a == "u8" and b == "i8") or (a == "i8" and b == "u8") then want = "i16" end
        if (a == "f16" and b == "bf16") or (a == "bf16" and b == "f16") then want = "f32" end
        if want == "bool" then want = "i64" end
        assert.equal(want, of(a, b), a .. " + " .. b)
      end
    end
  end)

  it("are not moved by Lua numbers, which are weak", function()
    for _, d in ipairs { "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64" } do
      local x = ty.ones({ 1 }, { dtype = d })
      assert.equal(d, (x + 1).dtype)
      assert.equal(d, (2 * x).dtype)
      assert.equal(H.is_float(d) and d or "f32", (x + 0.5).dtype)
      assert.equal(H.is_float(d) and d or "f32", (x / 2).dtype)
    end
    assert.equal("i64", (ty.tensor { true } + 1).dtype)
    assert.equal("f32", (ty.tensor { true } * 0.5).dtype)
  end)

  it("compute scalars in double, then round to the type", function()
    local x = ty.tensor({ 1 }, { dtype = "f32" })
    assert.equal(H.doubles(ty.tensor(0.1))[0], (x * 0.1):item())
    assert.equal("u8", (ty.tensor({ 1 }, { dtype = "u8" }) + 255).dtype)
    assert.truthy(raised(function() return ty.tensor({ 1 }, { dtype = "u8" }) + 256 end):find("^add: 256 does not fit u8"))
  end)

  it("give i64 for sums of integers and bool, floats for quotients", function()
    local b = ty.tensor { true, true, false }
    assert.equal(2, b:sum():item())
    assert.equal("i64", b:sum().dtype)
    assert.equal("i64", ty.ones({ 3 }, { dtype = "u8" }):sum().dtype)
    assert.equal("f32", ty.ones({ 3 }, { dtype = "i32" }):mean().dtype)
    assert.equal(2.5, (ty.tensor({ 5 }, { dtype = "i64" }) / 2):item())
    assert.equal("f16", ty.ones({ 2 }, { dtype = "f16" }):sum().dtype)
  end)

  it("leave i64 as a number only when it is exact", function()
    local x = ty.tensor({ 2 ^ 53 }, { dtype = "i64" })
    assert.equal(2 ^ 53, x:item())
    assert.truthy(raised(function() return (x + 1):item() end):find("^item: i64 9007199254740993"))
    assert.equal("[i64 1 cpu]", tostring(x + 1):match("%b[]$"))
    assert.truthy(tostring(x + 1):find("9007199254740993", 1, true))
  end)

  it("to gives the same tensor when nothing changes; another device answers nil and a message", function()
    local x = ty.zeros(2)
    assert.equal(x, x:to("f32"))
    assert.equal(x, x:to("cpu"))
    assert.equal("f64", x:to("f64").dtype)
    assert.equal("i32", x:to(ty.zeros({ 1 }, { dtype = "i32" })).dtype)
    local y, message = x:to("cuda:0")
    assert.equal(nil, y)
    assert.truthy(message:find("cuda:0", 1, true))
    assert.truthy(raised(x.to, x, "floating"):find("^to: a dtype must be one of"))
  end)
end)

describe("values", function()
  it("var and std divide by n - 1 unless told, layer_norm by n", function()
    local x = ty.tensor { 1, 2, 3, 4 }
    assert.near(5 / 3, x:var():item(), 1e-6)
    assert.near(1.25, x:var { correction = 0 }:item(), 1e-6)
    assert.near(math.sqrt(5 / 3), x:std():item(), 1e-6)
    local y = x:layer_norm(nil, nil, { eps = 0 })
    assert.near(0, y:mean():item(), 1e-6)
    assert.near(1, y:var({ correction = 0 }):item(), 1e-5)
    local v = ty.tensor({ 3 }):var():item()
    assert.truthy(v ~= v)
  end)

  it("round to even, remainders take the divisor's sign, integers divide by zero to zero", function()
    same({ 0, 2, 2, -0.0, -2, 4 }, ty.tensor({ 0.5, 1.5, 2.5, -0.5, -1.5, 3.5 }):round())
    same({ 1, 2, -2, -1 }, ty.tensor { 7, -7, 7, -7 } % ty.tensor { 3, 3, -3, -3 })
    same({ 1, -1, 1, -1 }, ty.tensor({ 7, -7, 7, -7 }):fmod(ty.tensor { 3, 3, -3, -3 }))
    local i = ty.tensor({ 7, -7, 0 }, { dtype = "i32" })
    same({ 0, 0, 0 }, i:floor_divide(0))
    same({ 0, 0, 0 }, i % 0)
    same({ 3, -4, 0 }, i:floor_divide(2))
  end)

  it("logsumexp and softmax survive large values and infinities", function()
    assert.near(1000 + math.log(2), ty.tensor({ 1000, 1000 }):logsumexp():item(), 1e-4)
    assert.equal(-math.huge, ty.tensor({ -math.huge, -math.huge }):logsumexp():item())
    assert.equal(math.huge, ty.tensor({ math.huge, 1 }):logsumexp():item())
    same({ 0.5, 0.5 }, ty.tensor({ 1000, 1000 }):softmax())
    same({ 1, 0 }, ty.tensor({ 0, -math.huge }):softmax())
  end)

  it("any and all of nothing are false and true", function()
    assert.equal(false, ty.zeros({ 0 }):any():item())
    assert.equal(true, ty.zeros({ 0 }):all():item())
    assert.equal(true, ty.tensor({ 0, 0 / 0 }):any():item())
    same({ true, false }, ty.tensor({ { 1, 0 }, { 0, 0 } }):any(2))
    assert.equal(2, ty.tensor({ 0, 3, -1 }):count_nonzero():item())
  end)

  it("sign, clamp, nan_to_num, lerp, hypot, copysign are as defined on specials", function()
    local inf, nan = math.huge, 0 / 0
    same({ -1, 0, 1, 1, -1 }, ty.tensor({ -3, 0, 0.5, inf, -inf }):sign())
    same({ 0, 0.5, 1 }, ty.tensor({ -3, 0.5, 9 }):clamp(0, 1))
    local c = ty.tensor({ nan }):clamp(0, 1):item()
    assert.truthy(c ~= c)
    same({ 0, 7, -8 }, ty.tensor({ nan, inf, -inf }):nan_to_num(0, 7, -8))
    same({ 1, 2, 3 }, ty.tensor({ 1, 1, 1 }):lerp(3, ty.tensor { 0, 0.5, 1 }))
    same({ 5, inf, inf }, ty.tensor({ 3, inf, nan }):hypot(ty.tensor { 4, nan, -inf }))
    same({ -2, 2 }, ty.tensor({ 2, -2 }):copysign(ty.tensor { -0.0, nan }))
    same({ true, false, false }, ty.tensor({ nan, inf, 1 }):isnan())
    same({ false, true, false }, ty.tensor({ nan, -inf, 1 }):isinf())
    same({ false, false, true }, ty.tensor({ nan, inf, 1 }):isfinite())
  end)

  it("losses take labels from 1 and reduce as asked", function()
    local logits = ty.tensor { { 2, 1, 0 }, { 0, 0, 5 } }
    local labels = ty.tensor({ 1, 3 }, { dtype = "i64" })
    local each = (-logits:log_softmax()):gather(2, labels:unsqueeze(2)):squeeze(2)
    H.same(each, logits:cross_entropy(labels, { reduction = "none" }))
    H.same(each:sum() / 2, logits:cross_entropy(labels))
    H.same(each:sum() / 2, logits:log_softmax():nll_loss(labels))
    assert.equal(2.5, ty.tensor({ 1, 2 }):mse_loss(ty.tensor { 2, 4 }):item())
    assert.truthy(raised(logits.cross_entropy, logits, labels - 1):find("^cross_entropy: index 0"))
    assert.truthy(raised(logits.cross_entropy, logits, ty.ones({ 3 }, { dtype = "i64" })):find("^cross_entropy: labels i64%[3%]"))
  end)
end)

describe("methods that end in _", function()
  it("change their tensor, return it, and cast to its dtype", function()
    local x = ty.tensor { 1, 2, 3 }
    assert.equal(x, x:add_(1))
    assert.equal(x, x:mul_(ty.tensor({ 2, 2, 2 }, { dtype = "f64" })))
    same({ 4, 6, 8 }, x)
    assert.equal("f32", x.dtype)
    assert.equal(x, x:relu_():clamp_(5, 7):sqrt_():zero_():fill_(3))
    same({ 3, 3, 3 }, x)
    local i = ty.tensor({ 5 }, { dtype = "i32" })
    assert.truthy(raised(i.div_, i, 2):find("^div_: "))
    assert.equal(5, i:item())
    assert.truthy(raised(x.add_, x, ty.zeros(2, 3)):find("^add_: "))
  end)

  it("exist for every operation that keeps shape and dtype", function()
    for _, name in ipairs { "neg", "abs", "exp", "log", "sin", "tanh", "sigmoid", "sub", "div", "pow", "maximum", "floor",
      "square", "sqrt", "rsqrt", "reciprocal", "erf", "sign", "silu", "gelu", "lerp", "masked_fill", "tril", "clamp" } do
      assert.equal("function", type(ty.internals.methods[name .. "_"]), name .. "_")
    end
  end)
end)

describe("printing", function()
  it("aligns values and ends with dtype, sizes and device", function()
    assert.equal("{{1, 2},\n {3, 4}}\n[f32 2x2 cpu]", tostring(ty.tensor { { 1, 2 }, { 3, 4 } }))
    assert.equal("{  1.5, -10.0,   0.0} [f32 3 cpu]", tostring(ty.tensor { 1.5, -10, 0 }))
    assert.equal("{ true, false} [bool 2 cpu]", tostring(ty.tensor { true, false }))
    assert.equal("{} [f32 0 cpu]", tostring(ty.zeros { 0 }))
    assert.equal("{} [f32 2x0 cpu]", tostring(ty.zeros { 2, 0 }))
    local lines = {}
    for line in tostring(ty.tensor({ { 1.5, -10 }, { 100, 0.25 } })):gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(#lines[1], #lines[2])
  end)

  it("shows the number of a 0-d tensor and its footer", function()
    assert.equal("3.5 [f32 cpu]", tostring(ty.tensor(3.5)))
    assert.equal("7 [i64 cpu]", tostring(ty.tensor(7, { dtype = "i64" })))
    assert.equal("true [bool cpu]", tostring(ty.tensor(true)))
    assert.equal("nan [f64 cpu]", tostring(ty.tensor(0 / 0, { dtype = "f64" })))
  end)

  it("shows the edges of large tensors", function()
    local s = tostring(ty.arange(10000):reshape(100, 100))
    assert.truthy(#s < 1000)
    assert.truthy(s:find("...", 1, true))
    assert.truthy(s:find("9999", 1, true))
    assert.truthy(s:find("[f32 100x100 cpu]", 1, true))
  end)

  it("takes as many decimals as set_print allows", function()
    ty.set_print { precision = 2 }
    assert.equal("0.33 [f32 cpu]", tostring(ty.tensor(1 / 3)))
    ty.set_print { precision = 4 }
    assert.equal("0.3333 [f32 cpu]", tostring(ty.tensor(1 / 3)))
    ty.set_print {}
  end)

  it("prints views as what they show, half floats and negatives too", function()
    assert.equal("{{1, 3},\n {2, 4}}\n[f32 2x2 cpu]", tostring(ty.tensor({ { 1, 2 }, { 3, 4 } }):t()))
    assert.equal("{-1.5, -0.5} [f16 2 cpu]", tostring(ty.tensor({ -1.5, -0.5 }, { dtype = "f16" })))
  end)
end)

describe("leaving and lifetime", function()
  it("item, totable, get and rows give numbers, booleans and tables", function()
    assert.equal(2.5, ty.tensor({ { 2.5 } }):item())
    assert.equal(true, ty.tensor({ true }):item())
    assert.same({ { 1, 2 }, { 3, 4 } }, ty.tensor({ { 1, 2 }, { 3, 4 } }):totable())
    assert.equal(5, ty.tensor(5):totable())
    assert.equal("item: needs a tensor of one element, got f32[2]", raised(ty.item, ty.zeros(2)))
  end)

  it("data gives an FFI pointer through which both sides see writes", function()
    local x = ty.tensor { 1, 2, 3 }
    local p = x:data()
    p[1] = 20
    same({ 1, 20, 3 }, x)
    x:add_(1)
    assert.equal(21, p[1])
    local y = x * 2
    p[0] = 100
    assert.equal(4, y:get(1))
    same({ 101, 22, 5 }, x + 1)
  end)

  it("from_ptr sees foreign memory and keeps its anchor", function()
    local buffer = H.ffi.new("double[4]", { 1, 2, 3, 4 })
    local x = ty.from_ptr(buffer, { 2, 2 }, "f64")
    same({ { 1, 2 }, { 3, 4 } }, x)
    buffer[3] = 40
    assert.equal(40, x:get(2, 2))
    x:mul_(2)
    assert.equal(80, buffer[3])
    local anchor = setmetatable({}, { __mode = "k" })
    local key = {}
    anchor[key] = true
    local t = ty.from_ptr(buffer, 4, "f64", key)
    key = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.truthy(next(anchor))
    t:release()
    collectgarbage()
    collectgarbage()
    assert.falsy(next(anchor))
  end)

  it("clone copies, contiguous only where it must", function()
    local x = ty.arange(6):reshape(2, 3)
    assert.equal(x, x:contiguous())
    local y = x:t():contiguous()
    assert.truthy(y:is_contiguous())
    H.same(x:t(), y)
    local c = x:clone()
    c:zero_()
    assert.equal(15, x:sum():item())
  end)

  it("scope frees what it made but what it returns", function()
    local inside
    local y, t = ty.scope(function(a)
      inside = ty.ones(3) + a
      return inside * 2, { kept = inside + 1 }
    end, 1)
    same({ 4, 4, 4 }, y)
    same({ 3, 3, 3 }, t.kept)
    assert.truthy(raised(function() return inside + 1 end):find("released"))
    local ok, message = pcall(ty.scope, function() error "mine" end)
    assert.falsy(ok)
    assert.truthy(message:find("mine"))
  end)
end)

describe("settings", function()
  it("give what is in force", function()
    local before = ty.threads()
    assert.equal(2, ty.threads(2))
    assert.equal(2, ty.threads())
    ty.threads(before)
    assert.equal("exact", ty.precision())
    assert.equal("f32", ty.default_dtype())
    assert.equal("boolean", type(ty.deterministic()))
    local stats = ty.stats()
    assert.truthy(stats.memory.used >= 0 and stats.plans.entries and stats.kernels.bytes and stats.operations > 0)
    assert.truthy(raised(ty.threads, 0):find("^threads: "))
    assert.truthy(raised(ty.precision, "best"):find("^precision: "))
  end)

  it("of captures give what was in force, and refuse what is none", function()
    assert.equal(math.huge, ty.budget(5))
    assert.equal(5, ty.budget())
    assert.equal(5, ty.budget(math.huge))
    assert.equal("default", ty.stance "eager")
    assert.equal("eager", ty.stance())
    assert.equal("eager", ty.stance "default")
    for _, bad in ipairs { -1, 0 / 0, "5", {} } do assert.truthy(raised(ty.budget, bad):find("^budget: argument 1 .* got ")) end
    for _, bad in ipairs { "lazy", 1, {} } do assert.truthy(raised(ty.stance, bad):find("^stance: argument 1 .* got ")) end
    assert.same({ math.huge, "default" }, { ty.budget(), ty.stance() })
  end)

  it("default_dtype rules what numbers and integers become", function()
    ty.default_dtype("f64")
    local d = { ty.zeros(1).dtype, ty.tensor({ 1 }).dtype, (ty.ones({ 1 }, { dtype = "i32" }) / 2).dtype }
    ty.default_dtype("f32")
    assert.same({ "f64", "f64", "f64" }, d)
    assert.truthy(raised(ty.default_dtype, "i32"):find("^default_dtype: "))
  end)
end)

-- Wrong use ---------------------------------------------------------------------------------------------------------

--- Every public function by name; what its errors begin with is that name.
local function public_functions()
  local list = {}
  for _, source in ipairs { ty, ty.internals.methods, ty.linalg } do
    for name, fn in pairs(source) do
      if type(fn) == "function" and not name:find("^_") then list[#list + 1] = { name = name, fn = fn } end
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

--- The text behind this file and line, if it begins with the name and is no error of Lua's own; else nil and what is wrong.
local function begins(message, name)
  local own = message:match("^[^\n]-surface_spec%.lua:%d+: (.*)$")
  if not own then return nil, "does not name this file and line: " .. message end
  if own:sub(1, #name + 2) ~= name .. ": " then return nil, "does not begin with " .. name .. ": " .. own end
  if own:find("attempt to", 1, true) or own:find("bad argument", 1, true) then return nil, own end
  return own
end

--- Calls from a line of this file: not by a tail call, which leaves no line.
local function call(fn, ...)
  local y = fn(...)
  return y
end

describe("wrong use of every public function", function()
  local functions = public_functions()
  -- these take anything, or nothing
  local anything = { is_tensor = true, is_complex = true, manual_seed = true, stats = true, help = true, threads = true, blas = true,
    precision = true, deterministic = true, default_dtype = true, device = true, scope = true, compile = true, explain = true, graph = true,
    reset = true, stance = true, budget = true, zeros = true, ones = true, empty = true, rand = true, randn = true,
    uniform = true, normal = true, release = true, plot = true, progress = true, random_state = true, synchronize = true }

  local takes_functions = { scope = true, compile = true, graph = true, disable = true, no_grad = true, enable_grad = true,
    grad = true, value_and_grad = true, checkpoint = true, custom_grad = true, jvp = true, progress = true,
    profile = true, vmap = true, scan = true, jacobian = true, hessian = true, detect_anomaly = true, gradcheck = true,
    start = true, export = true }

  it("without arguments raises an error that begins with its name, at this line", function()
    for _, f in ipairs(functions) do
      local write, written = io.write, 0
      if f.name == "help" then io.write = function(text) written = written + #text end end -- luacheck: ignore
      local ok, message = pcall(call, f.fn)
      io.write = write -- luacheck: ignore
      assert.equal(f.name == "help", written > 0)
      if ok then assert.truthy(anything[f.name], f.name .. "() did not raise")
      else assert(begins(message, f.name)) end
    end
  end)

  it("with a first argument of the wrong kind raises an error that shows it", function()
    for _, f in ipairs(functions) do
      if f.name ~= "is_tensor" and f.name ~= "is_complex" and f.name ~= "stats" and f.name ~= "synchronize" then
        for _, bad in ipairs { function() end, coroutine.create(function() end), io.stdout } do
          local callable = type(bad) == "function"
          if not (callable and takes_functions[f.name]) then
            local ok, message = pcall(call, f.fn, bad)
            assert.falsy(ok, f.name .. " took a " .. type(bad))
            assert.truthy(assert(begins(message, f.name)):find(type(bad), 1, true), message)
          end
        end
      end
    end
  end)

  it("with a released tensor says so", function()
    local gone = ty.zeros(2)
    gone:release()
    for _, f in ipairs(functions) do
      if not anything[f.name] then
        local ok, message = pcall(call, f.fn, gone, 1)
        assert.falsy(ok, f.name .. " took a released tensor")
        assert(begins(message, f.name))
      end
    end
  end)

  it("with any mixture of arguments raises only errors that begin with its name", function()
    local r = H.random(7)
    local gone = ty.zeros(1)
    gone:release()
    local pool = { true, false, 0, 1, -1, 2, 3, 1.5, 0 / 0, math.huge, -2 ^ 60, 2 ^ 60, "abc", "f32", "...", {}, { 1 }, { 2, 1 },
      { -1 }, { 1.5 }, { "a" }, { a = 1 }, { dtype = "f99" }, { dtype = "i32" }, { dim = 9 }, { {} }, { { 1 }, { 1, 2 } },
      function() end, coroutine.create(function() end), io.stdout, gone, ty.tensor(1.5), ty.zeros(2, 3), ty.zeros(3, 2),
      ty.zeros(2, 2, 2), ty.zeros(0), ty.ones(2, 3):gt(0), ty.ones({ 3 }, { dtype = "i64" }), ty.full({ 2, 3 }, 9, { dtype = "i32" }),
      ty.ones({ 2, 3 }, { dtype = "f16" }), ty.zeros(2, 1):expand(2, 3), { ty.zeros(2, 3), ty.zeros(2) }, { ty.zeros(2, 3), 1 } }
    local skip = { is_tensor = true, is_complex = true, scope = true, graph = true, compile = true, blas = true, help = true, show = true,
      profile = true, detect_anomaly = true }
    local threads = ty.threads()
    local tried, wrong = 0, {}
    for _, f in ipairs(functions) do
      if not skip[f.name] then
        for _ = 1, 150 do
          local arguments, n = {}, r.whole(1, 4)
          for i = 1, n do arguments[i] = pool[r.whole(1, #pool)] end
          if r.whole(1, 3) > 1 then arguments[1] = ty.ones(2, 3) end
          local ok, message = pcall(call, f.fn, unpack(arguments, 1, n))
          tried = tried + 1
          if not ok then
            local own, why = begins(tostring(message), f.name)
            if not own then wrong[#wrong + 1] = f.name .. ": " .. why end
          end
        end
      end
    end
    os.remove "abc" -- checkpoints of {}
    os.remove "f32"
    ty.threads(threads)
    ty.precision("exact")
    ty.default_dtype("f32")
    ty.deterministic(true)
    ty.budget(math.huge)
    ty.manual_seed()
    ty.set_print {}
    assert.truthy(tried > 20000)
    assert.same({}, { unpack(wrong, 1, 12) }, #wrong .. " wrong")
  end)

  it("by operators names the operation, shows both sides", function()
    local a, b = ty.zeros(2, 3), ty.zeros(4, 5)
    assert.equal("add: sizes do not broadcast, f32[2,3] and f32[4,5]", raised(function() return a + b end))
    assert.equal("mul: argument 2 must be a tensor or a number, got nil", raised(function() return a * nil end))
    assert.truthy(raised(function() return "a" - a end):find("^sub: argument 1 .*string"))
    assert.truthy(raised(function() return a / {} end):find("^div: argument 2 .*table"))
    assert.truthy(raised(function() return a ^ "x" end):find("^pow: "))
    assert.truthy(raised(function() return a % {} end):find("^remainder: "))
    assert.truthy(raised(function() return a .. "x" end):find("^concat: "))
    assert.truthy(raised(function() return -ty.tensor(1):release() end) ~= nil)
    assert.truthy(raised(function() return a() end) ~= nil)
  end)

  it("inside a compiled function raises the same text at the same line", function()
    local function wrong(a, b) return a + b end
    local f = ty.compile(wrong)
    local a, b = ty.zeros(2, 3), ty.zeros(4, 5)
    local _, plain = pcall(wrong, a, b)
    local _, compiled = pcall(f, a, b)
    assert.equal(plain, compiled)
    H.same(a + 1, f(a, 1))
  end)
end)

describe("another form of a call", function()
  local i64 = { dtype = "i64" }

  it("gives what the usual one gives: options for flags, tensors for numbers", function()
    local x = ty.tensor { 3, 1, 2 }
    local down, at = x:sort(1, { descending = true })
    assert.same({ { 3, 2, 1 }, { 1, 3, 2 } }, { down:totable(), at:totable() })
    assert.same({ 1, 3, 2 }, x:argsort(1, { descending = true }):totable())
    assert.same({ 3 }, ty.tensor({ 1, 2, 3 }):searchsorted(ty.tensor { 2 }, { right = true }):totable())
    assert.same({ 2, 2, 2 }, ty.tensor({ 0, 1 }):multinomial(3, { replacement = true }):totable())
    assert.same({ { 2 } }, ty.tensor({ { 3, 1 }, { 4, 2 } }):median(nil, true):totable())
    local one, place = ty.tensor(7):sort()
    assert.same({ 7, 1 }, { one:item(), place:item() })
    local filled = ty.ones(2):masked_fill(ty.tensor { true, false }, ty.tensor(5, i64))
    assert.same({ "f32", { 5, 1 } }, { filled.dtype, filled:totable() })
  end)

  it("assigns to the rows that a mask names a value for each of their places", function()
    local y, z = ty.zeros(3, 2), ty.zeros({ 3, 2 }, i64)
    local mask = ty.tensor { true, false, true }
    y[mask] = ty.tensor { 1, 2 }
    z[mask] = ty.tensor({ 1, 2 }, { dtype = "i32" })
    assert.same({ { 1, 2 }, { 0, 0 }, { 1, 2 } }, y:totable())
    assert.same({ { 1, 2 }, { 0, 0 }, { 1, 2 } }, z:totable())
    assert.equal("assign: f32[3] does not broadcast to f32[2,2]", raised(function() y[mask] = ty.ones(3) end))
  end)

  it("goes by sizes that are rounded up, and by indices that were scattered", function()
    local f = ty.compile(function(x, n, i)
      local at = (ty.zeros({ 3 }, i64) + 1):scatter(1, i, 2)
      return x[{ { 1, math.ceil(n) } }], x:gather(1, at), math.ceil(n) * 2
    end)
    local x = ty.tensor { 5, 6, 7 }
    for n = 1, 4 do
      local head, by, twice = f(x, n / 2 + 0.25, ty.tensor({ n % 3 + 1 }, i64))
      local want = { 5, 5, 5 }
      want[n % 3 + 1] = 6
      assert.same({ math.ceil(n / 2 + 0.25), 2 * math.ceil(n / 2 + 0.25), want }, { head:numel(), twice, by:totable() })
    end
  end)
end)
