--- fast_spec.lua -- {fast = true}: a product and the sum that reads it may be rounded once, for one function.

local H = require "spec.helper"
local ty = H.ty

local function values(dtype, n, seed)
  ty.manual_seed(seed)
  return ty.randn(n):to(dtype)
end

local function text(f) return ty.explain(f):full() end

describe("a function compiled with {fast = true}", function()
  it("rounds a product and a sum once", function()
    local a, b, c = values("f32", 1003, 1), values("f32", 1003, 2), values("f32", 1003, 3)
    local wide = function(x) return x:to "f64" end
    for name, f in pairs {
      sum = function(x, y, z) return x * y + z end,
      turned = function(x, y, z) return z + x * y end,
      difference = function(x, y, z) return x * y - z end,
      ["turned difference"] = function(x, y, z) return z - x * y end,
    } do
      local fast = ty.compile(f, { fast = true })
      local got, exact = fast(a, b, c), f(wide(a), wide(b), wide(c))
      assert.truthy(text(fast):find(" fma ", 1, true), name)
      assert.truthy(text(fast):find("bits may differ from eager", 1, true))
      assert.truthy(text(fast):find("map fast", 1, true))
      -- half a unit in the last place of the exact result, and no more
      local wrong = (wide(got) - exact):abs():gt(exact:abs() * 2 ^ -24 * (1 + 1e-6)):sum():item()
      assert.equal(0, wrong, name)
      assert.truthy(H.difference(f(a, b, c), got), name .. ": nothing was contracted")
    end
  end)

  it("stays near eager in longer chains, f64 and rows too", function()
    for _, dtype in ipairs { "f32", "f64" } do
      local a, b, c = values(dtype, 4096, 1):reshape(64, 64), values(dtype, 64, 2), values(dtype, 4096, 3):reshape(64, 64)
      local f = function(x, y, z)
        local u = (x * y + z) * x - (y * y - z * x):tanh() * 0.5
        return u, (u * x - y):softmax(), (x * z + u):sum(1), u - u:mean(2, true) * y
      end
      local want, got = { f(a, b, c) }, { ty.compile(f, { fast = true })(a, b, c) }
      for i = 1, #want do
        local most = (want[i] - got[i]):abs():max():item() / math.max(1, want[i]:abs():max():item())
        assert.truthy(most < (dtype == "f32" and 1e-5 or 1e-13), ("result %d: %g"):format(i, most))
      end
    end
  end)

  it("contracts nothing else: integers, halves, products read twice", function()
    for _, dtype in ipairs { "i32", "i64", "u8", "f16", "bf16" } do
      local a = H.mixed(dtype, 500, 1)
      local f = function(x) return x * x + x - x * 3 end
      H.same(f(a), ty.compile(f, { fast = true })(a), dtype)
    end
    local a, b = H.mixed("f32", 500, 1), H.mixed("f32", 500, 2)
    local f = function(x, y)
      local p = x * y
      return p, p + x
    end
    local p, s = ty.compile(f, { fast = true })(a, b)
    local q, t = f(a, b)
    H.same(q, p)
    H.same(t, s)
    -- expansions keep their roundings
    for _, g in ipairs { function(x) return x:exp() end, function(x, y) return x:remainder(y) end, ty.log1p, ty.erf } do
      H.same(g(a, b), ty.compile(function(x, y) return g(x, y) end, { fast = true })(a, b))
    end
  end)

  it("leaves other functions alone", function()
    local f = function(x, y, z) return x * y + z, (x * y - z):tanh():sum() end
    local a, b, c = values("f32", 1003, 1), values("f32", 1003, 2), values("f32", 1003, 3)
    local fast, plain = ty.compile(f, { fast = true }), ty.compile(f)
    for _ = 1, 3 do
      fast(a, b, c)
      local want, got = { f(a, b, c) }, { plain(a, b, c) }
      for i = 1, 2 do H.same(want[i], got[i]) end
    end
    assert.falsy(text(plain):find("map fast", 1, true))
    assert.falsy(text(plain):match "program of group 0(.-)program":find(" fma ", 1, true))
  end)

  it("gives the same bits on every machine", function()
    local code = ("package.path = '%s?.lua;' .. package.path\n"):format(H.root) .. [[
      local H = require "spec.helper"
      local ty = H.ty
      ty.manual_seed(7)
      local f = ty.compile(function(x, y, z)
        local u = x * y + z
        return u * x - (y - z * x), (z - u * y):sum(2), (x * y - z):softmax(), (u * y + 1):cumsum(1)
      end, { fast = true })
      for _, dtype in ipairs { "f32", "f64" } do
        local function rough(...) return ty.randn(...):to(dtype) end
        for _, y in ipairs { f(rough(37, 70), rough(70), rough(37, 1)) } do
          local bytes, n = H.bytes(y)
          local sum = 0
          for k = 0, H.dtype[dtype].bytes * n - 1 do sum = (sum * 31 + bytes[k]) % 4294967291 end
          print(sum)
        end
      end]]
    local want, status = H.script(code, { TYCHO_MACHINE = "tile" })
    assert.equal(0, status, want)
    for _, env in ipairs { {}, { TYCHO_ISA = "avx2" }, { TYCHO_MACHINE = "tile", TYCHO_ISA = "base" }, { TYCHO_THREADS = "1" } } do
      local got, ended = H.script(code, env)
      assert.equal(0, ended, got)
      assert.equal(want, got)
    end
  end)
end)
