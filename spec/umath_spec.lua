--- umath_spec.lua -- NumPy's validation values for transcendental functions, within the error that each row states; and the
--- known answers of Philox. The data is not part of the project: it is read where it lies, or skipped.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

local data = os.getenv "TYCHO_DATA" or H.root .. "../shared/data"

local function lines(name)
  local f = io.open(data .. "/" .. name)
  if not f then return nil end
  local list = {}
  for line in f:lines() do
    line = line:gsub("%s+$", "")
    if line ~= "" and not line:find("^#") and not line:find("^dtype") then list[#list + 1] = line end
  end
  f:close()
  return list
end

local names = { arccos = "acos", arccosh = "acosh", arcsin = "asin", arcsinh = "asinh", arctanh = "atanh", cos = "cos",
  exp = "exp", log = "log", log10 = "log10", log2 = "log2", sin = "sin", tan = "tan", tanh = "tanh" }

--- Floats by their order: neighbours differ by 1, both zeros are 0.
local function rank(word, width)
  local sign = bit.lshift(1ULL, width - 1)
  local magnitude = ffi.cast("int64_t", bit.band(word, sign - 1))
  return bit.band(word, sign) ~= 0 and -magnitude or magnitude
end

local function check(numpy, own, list)
  for dtype, bits in pairs { f32 = 32, f64 = 64 } do
    local word = bits == 32 and "uint32_t" or "uint64_t"
    local input, want, most, n = {}, {}, {}, 0
    for _, line in ipairs(list) do
      local width, x, y, ulp = line:match("^np%.float(%d+),0x(%x+),0x(%x+),(%d+)$")
      if tonumber(width) == bits then
        n = n + 1
        input[n], want[n], most[n] = x, y, tonumber(ulp)
      end
    end
    local function number(hex) return assert(loadstring("return 0x" .. hex .. "ULL"))() end
    local bytes = H.buffer(dtype, n)
    local words = ffi.cast(word .. " *", bytes)
    for i = 1, n do words[i - 1] = ffi.cast(word, number(input[i])) end
    local result = H.bytes(ty[own](H.tensor(dtype, bytes, { n })))
    local got, v = ffi.cast(word .. " *", result), H.doubles(H.tensor(dtype, result, { n }))
    for i = 1, n do
      local expected = number(want[i])
      local value = ffi.new("uint8_t[8]")
      ffi.copy(value, ffi.new("uint64_t[1]", expected), bits / 8)
      local e = ffi.new "double[1]"
      H.oracle.oracle_load(dtype, value, 1, e)
      if e[0] ~= e[0] then
        assert.truthy(v[i - 1] ~= v[i - 1], ("%s(0x%s) should be NaN"):format(numpy, input[i]))
      else
        local far = rank(ffi.cast("uint64_t", got[i - 1]), bits) - rank(expected, bits)
        if far < 0 then far = -far end
        if v[i - 1] ~= v[i - 1] or far > most[i] then
          error(("%s of %s 0x%s: %s, not 0x%s within %d ulp"):format(numpy, dtype, input[i], H.element(dtype, result, i - 1),
            want[i], most[i]))
        end
      end
    end
  end
end

describe("NumPy's validation set", function()
  if not lines "umath/umath-validation-set-exp.csv" then
    pending("is not at " .. data)
    return
  end
  for numpy, own in pairs(names) do
    it("for " .. numpy .. " is met within its errors", function()
      check(numpy, own, assert(lines("umath/umath-validation-set-" .. numpy .. ".csv")))
    end)
  end
end)

describe("Philox4x32-10", function()
  local list = lines "philox4x32-10.txt"
  if not list then
    pending("known answers are not at " .. data)
    return
  end

  it("of the oracle gives its authors' known answers", function()
    assert.equal(3, #list)
    for _, line in ipairs(list) do
      local w = ffi.new "uint32_t[10]"
      local n = 0
      for hex in line:gmatch("%x+") do
        w[n] = tonumber(hex, 16)
        n = n + 1
      end
      local y = ffi.new "uint32_t[4]"
      H.oracle.oracle_philox(w, w + 4, y)
      for i = 0, 3 do assert.equal(w[6 + i], y[i]) end
    end
  end)

  it("of the library begins seed 0 with the known answer for zeros", function()
    ty.manual_seed(0)
    local w = {}
    for hex in list[1]:gmatch("%x+") do w[#w + 1] = tonumber(hex, 16) end
    assert.equal(math.floor(w[7] / 2 ^ 8) * 2 ^ -24, ty.rand(1):item())
    ty.manual_seed(0)
    assert.equal((math.floor(w[7] / 2 ^ 5) * 2 ^ 26 + math.floor(w[8] / 2 ^ 6)) * 2 ^ -53, ty.rand(1, { dtype = "f64" }):item())
    ty.manual_seed()
  end)
end)
