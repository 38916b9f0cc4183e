--- layouts_spec.lua -- views of many short dims, read and written: every element against its address, worked out here.
-- Loads and stores go by rectangles whose rows lie along one dim or another (tile_place.c); pieces of a tensor begin and
-- end anywhere in it.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

local ctype = { u8 = "uint8_t", i16 = "int16_t", f32 = "float", f64 = "double" }

--- Views by dims in another order, some reversed, cut, stepped, repeated.
local function random_view(x, r)
  local order = {}
  for d = 1, x.ndim do table.insert(order, r.whole(1, d), d) end
  x = x:permute(unpack(order))
  for d = 1, x.ndim do
    local kind, size = r.whole(1, 6), x:size(d)
    if kind == 1 then x = x:flip(d)
    elseif kind == 2 and size > 2 then x = x:narrow(d, 2, size - 1)
    elseif kind == 3 and size > 2 then x = x:slice(d, 1, size, 2) end
  end
  return x
end

--- The elements of a view in order, by its strides alone.
local function elements(v, dtype)
  local p, shape, n, list = ffi.cast(ctype[dtype] .. " *", v:data()), v.shape, v:numel(), {}
  local stride = {}
  for d = 1, #shape do stride[d] = v:stride(d) end
  for i = 0, n - 1 do
    local rest, at = i, 0
    for d = #shape, 1, -1 do
      at = at + rest % shape[d] * stride[d]
      rest = math.floor(rest / shape[d])
    end
    list[i + 1] = tonumber(p[at])
  end
  return list
end

local function base(dtype, shape)
  local n = 1
  for _, s in ipairs(shape) do n = n * s end
  return (ty.arange(n, { dtype = "i64" }) % (dtype == "u8" and 251 or 32749)):to(dtype):reshape(shape)
end

local shapes = { { 16, 16, 4, 2, 8 }, { 400, 2, 2, 3 }, { 3, 2, 2, 2, 2, 100 }, { 33, 17, 5 }, { 2, 2, 2, 2, 2, 2, 2, 2 },
  { 9, 1, 8, 7, 6 }, { 5, 300, 3 } }

--- The same numbers, each through f where that is given.
local function agree(want, got, text, f)
  assert.equal(#want, #got, text)
  for i, w in ipairs(want) do
    if f then w = f(w) end
    if got[i] ~= w then assert.equal(w, got[i], ("%s: element %d"):format(text, i)) end
  end
end

local wrap = {
  u8 = function(v) return v * 2 % 256 end,
  i16 = function(v) return (v * 2 + 2 ^ 15) % 2 ^ 16 - 2 ^ 15 end,
}

local function double(v) return v * 2 end

describe("views of many short dims", function()
  for _, dtype in ipairs { "u8", "i16", "f32", "f64" } do
    it("are read element by element, " .. dtype, function()
      local r, twice = H.random(#dtype), ty.compile(function(v) return v + v end)
      for _, shape in ipairs(shapes) do
        for _ = 1, 6 do
          local v = random_view(base(dtype, shape), r)
          local want, text = elements(v, dtype), ("%s as %s"):format(table.concat(shape, "x"), table.concat(v.shape, "x"))
          agree(want, elements(v:clone(), dtype), text)
          agree(want, elements(twice(v), dtype), text, wrap[dtype] or double)
        end
      end
    end)

    it("are written element by element, and nothing beside, " .. dtype, function()
      local r = H.random(#dtype + 10)
      for _, shape in ipairs(shapes) do
        for _ = 1, 4 do
          local whole = ty.zeros(shape, { dtype = dtype })
          local v = random_view(whole, r)
          local from = base(dtype, v.shape) + 1
          v:copy_(from)
          agree(elements(from, dtype), elements(v, dtype), table.concat(v.shape, "x"))
          assert.equal(from:to("i64"):sum():item(), whole:to("i64"):sum():item())
        end
      end
    end)
  end
end)
