-- cuda_files_spec.lua -- files of tensors that lie on the device "cuda": what is written are their elements, and what is read
-- lies on the CPU.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
ty.device "cpu"

local path = os.tmpname()
local function file(ending) return path .. ending end

--- More tensors than the CPU keeps copies of at a time, some of which lie otherwise than row by row.
local function many()
  local here, there = {}, {}
  for i = 1, 30 do
    here["t" .. i] = H.mixed(({ "f32", "i64", "u8", "f16" })[i % 4 + 1], { 3, i }, i)
    if i % 3 == 0 then here["t" .. i] = here["t" .. i]:t() end
    there["t" .. i] = here["t" .. i]:to "cuda"
  end
  return here, there
end

describe("a file of tensors on cuda", function()
  teardown(function()
    for _, ending in ipairs { "", ".npz", ".safetensors", ".csv", ".png" } do os.remove(file(ending)) end
  end)

  for _, ending in ipairs { ".npz", ".safetensors" } do
    probe("holds their elements, however many there are: " .. ending, function()
      local here, there = many()
      for _, opts in ipairs { {}, ending == ".npz" and { compress = true } or nil } do
        assert(ty.save(file(ending), there, opts))
        local back = assert(ty.load(file(ending)))
        for name, x in pairs(here) do H.same(x, back[name], name) end
      end
    end)
  end

  probe("of columns holds their numbers, however many there are, and describes them where they lie", function()
    local here, there, names = {}, {}, {}
    for i = 1, 20 do
      names[i] = ("c%02d"):format(i)
      here[names[i]] = ((ty.arange(6, { dtype = "f64" }) + i):sin() * 9):to(i % 2 == 0 and "f64" or "f32")
      there[names[i]] = here[names[i]]:to "cuda"
    end
    assert(ty.csv.save(file ".csv", there))
    local back = assert(ty.csv.load(file ".csv", { types = (function()
      local types = {}
      for i, name in ipairs(names) do types[name] = i % 2 == 0 and "f64" or "f32" end
      return types
    end)() }))
    for _, name in ipairs(names) do H.same(here[name], back.columns[name], name) end
    local want = tostring(back:describe())
    for _, name in ipairs(names) do back.columns[name] = there[name] end
    assert.equal(want, tostring(back:describe()))
    ty.device "cuda"
    local ok, got = pcall(function() return tostring(back:describe()) end)
    ty.device "cpu"
    assert.truthy(ok, got)
    assert.equal(want, got)
  end)

  probe("of a picture holds its pixels, which resize as on the CPU", function()
    local x = H.mixed("u8", { 3, 9, 7 }, 3)
    assert(ty.image.save(file ".png", x:to "cuda"))
    H.same(x, assert(ty.load(file ".png")))
    for _, t in ipairs { x, x:to "f32" } do
      local y = ty.image.resize(t:to "cuda", { 5, 11 })
      assert.equal("cuda", y.device)
      H.same(ty.image.resize(t, { 5, 11 }), y:to "cpu")
    end
  end)
end)
