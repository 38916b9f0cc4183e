--- image_spec.lua -- pictures as Pillow and libpng have them; damaged ones; what is written reads back.
-- fixtures/data.lua holds files with their pixels, channel by channel.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local image = ty.image
local data = dofile(H.root .. "spec/fixtures/data.lua")
local C = ty.files._native

local folder = os.tmpname()
os.remove(folder)
assert(H.make_folder(folder))
teardown(function() H.remove_folder(folder) end)

--- The bytes of a tensor, row by row.
local function bytes(x)
  x = x:contiguous()
  return ffi.string(x:data(), x:numel())
end

local function picture(name, format)
  for _, p in ipairs(data.pictures) do
    if p.name == name and p.format == format then return p end
  end
end
local rgb = picture("RGB", "png")

--- u8 [channels, height, width] of a fixture's pixels.
local function tensor_of(p)
  local x = ty.zeros({ p.channels, p.height, p.width }, { dtype = "u8" })
  ffi.copy(x:data(), p.planes, #p.planes)
  return x
end

local function write(name, text)
  local f = assert(io.open(folder .. "/" .. name, "wb"))
  f:write(text)
  f:close()
  return folder .. "/" .. name
end

describe("a picture", function()
  for _, p in ipairs(data.pictures) do
    it(("in a file has Pillow's pixels: %s, %s"):format(p.format, p.name), function()
      local x = assert(ty.load(write("x." .. (p.format == "pnm" and "ppm" or p.format), p.bytes)))
      assert.equal("u8", x.dtype)
      assert.same({ p.channels, p.height, p.width }, x.shape)
      assert.equal(p.planes, bytes(x))
    end)
  end

  it("is known by its bytes, not by its name", function()
    assert.same({ 3, 9, 11 }, image.load(write("x.jpg", rgb.bytes)).shape)
  end)

  it("has the channels that are asked for", function()
    local grey = {}
    for i, v in ipairs(data.grey) do grey[i] = string.char(v) end
    assert.equal(table.concat(grey), bytes(image.decode(rgb.bytes, { channels = 1 })))
    assert.equal(rgb.planes .. ("\255"):rep(99), bytes(image.decode(rgb.bytes, { channels = 4 })))
    local p = picture("grey", "png")
    assert.equal(p.planes:rep(3), bytes(image.decode(p.bytes, { channels = 3 })))
    p = picture("RGBA", "png")
    assert.equal(p.planes:sub(1, 297), bytes(image.decode(p.bytes, { channels = 3 })))
    assert.same({ 1, 9, 11 }, image.decode(picture("4:2:0", "jpeg").bytes, { channels = 1 }).shape)
  end)

  it("can be floats from 0 to 1", function()
    local x = image.decode(rgb.bytes, { dtype = "f32" })
    assert.truthy(ty.equal(x, tensor_of(rgb):to("f32") / 255))
  end)

  for _, s in ipairs(data.sizes) do
    it(("is resized as by Pillow: %s, %d x %d"):format(s.mode, s.size[1], s.size[2]), function()
      local y = image.resize(tensor_of(rgb), s.size, s.mode)
      assert.same({ 3, s.size[1], s.size[2] }, y.shape)
      assert.equal(s.planes, bytes(y))
      -- floats: the same before rounding
      local f = image.resize(tensor_of(rgb):to("f32"), s.size, s.mode)
      assert.truthy((f:clamp(0, 255) - y:to("f32")):abs():max():item() <= 1.01)
      if s.mode == "bilinear" then
        assert.equal(s.planes, bytes(image.decode(rgb.bytes, { size = s.size })))
      end
    end)
  end
end)

describe("a file of a picture", function()
  it("cut anywhere is refused", function()
    for _, p in ipairs(data.pictures) do
      local last = #p.bytes - 1
      if p.name:find "^plain" then last = 20 -- plain numbers may be cut in the last one
      elseif p.format == "jpeg" then last = #p.bytes - 2 end -- all pixels are there without the end's mark
      for n = 0, last, p.format == "jpeg" and 7 or 1 do
        local x, why = image.decode(p.bytes:sub(1, n))
        if x then error(("%s %s cut at %d of %d was read"):format(p.format, p.name, n, #p.bytes)) end
        assert.truthy(why:find "^image: ", why)
      end
    end
  end)

  it("that has tables and no picture says so", function()
    local all = picture("4:4:4", "jpeg").bytes
    local at = assert(all:find("\255\192", 1, true)) -- where the frame begins
    local x, why = image.decode(all:sub(1, at - 1) .. "\255\217")
    assert.is_nil(x)
    assert.equal("image: damaged JPEG: holds no image", why)
  end)

  it("with any bit turned is read or refused, and a PNG is refused", function()
    for _, p in ipairs { rgb, picture("palette", "png"), picture("4:4:4", "jpeg"), picture("progressive", "jpeg"),
      picture("RGB", "pnm"), picture("plain grey of 16 steps", "pnm") } do
      for i = 1, #p.bytes, p.format == "jpeg" and 3 or 1 do
        for b = 0, 7 do
          local byte = string.char(bit.bxor(p.bytes:byte(i), bit.lshift(1, b)))
          local x, why = image.decode(p.bytes:sub(1, i - 1) .. byte .. p.bytes:sub(i + 1))
          assert.truthy(x or why:find "^image: ")
          if p.format == "png" then assert.is_nil(x) end -- every byte has a sum that it is part of
        end
      end
    end
  end)

  it("that promises more pixels than its bytes may hold is refused before memory is taken", function()
    local huge = rgb.bytes:sub(1, 16) .. "\0\1\0\0\0\1\0\0" .. rgb.bytes:sub(25)
    local x, why = image.decode(huge)
    assert.is_nil(x)
    assert.truthy(why:find "limit" or why:find "CRC", why)
    x, why = image.decode("P6\n60000 60000\n255\nabc")
    assert.is_nil(x)
    assert.truthy(why:find "too few for 60000 x 60000", why)
    local blank = image.encode(ty.zeros({ 1, 8000, 8000 }, { dtype = "u8" }), "png")
    x, why = image.decode(blank)
    assert.is_nil(x)
    assert.truthy(why:find "8000 x 8000 pixels of 1 channel: .* over the limit of %d+ .raise it by the option limit", why)
    assert.same({ 1, 8000, 8000 }, image.decode(blank, { limit = 80e6 }).shape)
    assert.is_nil((image.decode(rgb.bytes, { limit = 593 }))) -- 297 bytes of pixels, and as many of planes
    assert.truthy(image.decode(rgb.bytes, { limit = 594 }))
    assert.is_nil((image.decode(rgb.bytes, { limit = 594, dtype = "f32" })))
    assert.truthy(image.decode(rgb.bytes, { limit = 297 * 5, dtype = "f32" }))
  end)

  it("is refused with its name and what is wrong", function()
    for text, wrong in pairs {
      ["nonsense"] = "no PNG, JPEG, PPM or PGM", ["P4\n1 1\n\0"] = "PBM", ["P5\n2 2\n99999\n"] = "header",
      ["P2 2 1 5 1 6"] = "above the maximum", ["P5 0 3 255 "] = "0 x 3 pixels", [""] = "no PNG",
      ["P6 1 1 255 ab"] = "too few", ["P2 99999999999 1 255 1"] = "header",
    } do
      local x, why = image.load(write("bad.ppm", text))
      assert.is_nil(x)
      assert.truthy(why:find(folder .. "/bad.ppm: ", 1, true) and why:find(wrong, 1, true), why)
    end
    assert.is_nil((image.load(folder)))
    assert.truthy(select(2, image.load("/nowhere/x.png")):find "^/nowhere/x.png: ")
  end)

  it("is refused when memory ends, and nothing is lost", function()
    for after = 0, 6 do
      for _, p in ipairs { rgb, picture("4:2:0", "jpeg"), picture("RGB", "pnm") } do
        C.starve(after)
        local x, why = image.decode(p.bytes, { channels = 4, size = { 3, 3 } })
        C.starve(-1)
        assert.truthy(x or why:find "out of memory", why)
        assert.truthy(image.decode(p.bytes))
      end
    end
  end)

  it("needs its library, and says which where it is not there", function()
    local code = ([[
      local ffi = require "ffi"
      ffi.cdef "void *dlopen(const char *, int);"
      local ty = require "tycho"
      local C = ty.files._native
      local x, why = ty.image.load(arg[1])
      io.write(tostring(why))]])
    local script = write("absent.lua", code)
    local png, jpg = write("y.png", rgb.bytes), write("y.jpg", picture("4:2:0", "jpeg").bytes)
    -- a library of that name without its functions comes first
    write("empty.c", "int nothing;\n")
    assert(H.shell(("gcc -shared -fPIC '%s/empty.c' -o '%s/libpng16.so.16'"):format(folder, folder)))
    assert(H.shell(("cp '%s/libpng16.so.16' '%s/libturbojpeg.so.0'"):format(folder, folder)))
    for path, text in pairs { [png] = "png needs libpng: apt-get install libpng16-16",
      [jpg] = "jpeg needs libturbojpeg: apt-get install libturbojpeg0" } do
      local p = io.popen(("LD_LIBRARY_PATH='%s' luajit '%s' '%s' 2>&1"):format(folder, script, path))
      local said = p:read "*a"
      p:close()
      assert.truthy(said:find(text, 1, true), said)
    end
  end)
end)

describe("a picture that is written", function()
  it("reads back as it was, where the format keeps it", function()
    for _, c in ipairs { 1, 2, 3, 4 } do
      local x = ty.randint(0, 255, { c, 13, 7 }):to("u8")
      local y = image.decode(assert(image.encode(x, "png")), { channels = c == 2 and 4 or nil })
      if c == 2 then y = ty.stack({ y[1], y[4] }, 1) end
      assert.truthy(ty.equal(x, y), c)
    end
    for name, c in pairs { ppm = 3, pgm = 1, pnm = 3 } do
      local x = ty.randint(0, 255, { c, 5, 6 }):to("u8")
      assert.truthy(ty.equal(x, image.decode(image.encode(x, name))))
    end
  end)

  it("as PPM is red, green and blue alike where it is grey", function()
    local x = ty.randint(0, 255, { 1, 5, 6 }):to("u8")
    assert.truthy(ty.equal(ty.cat({ x, x, x }, 1), image.decode(image.encode(x, "ppm"))))
    assert.truthy(ty.equal(ty.cat({ x, x, x }, 1), image.decode(image.encode(x[1], "ppm"))))
    assert.truthy(image.encode(x, "ppm"):find "^P6\n6 5\n255\n")
  end)

  it("has every pixel in its place, whatever its size", function()
    for w = 1, 64 do
      local x = ty.randint(0, 255, { 3, 1 + w % 3, w }):to("u8")
      assert.truthy(ty.equal(x, image.decode(image.encode(x, "ppm"))), w)
    end
  end)

  it("is near to what it was as JPEG", function()
    local x = ty.arange(64):reshape(1, 8, 8):to("u8") * 3
    local y = image.decode(assert(image.encode(x, "jpg", { quality = 95 })))
    assert.truthy((x:to("f32") - y:to("f32")):abs():max():item() < 8)
    local noise = ty.randint(0, 255, { 3, 40, 40 }):to("u8")
    assert.truthy(#image.encode(noise, "jpg", { quality = 20 }) < #image.encode(noise, "jpg", { quality = 90 }))
  end)

  it("takes floats from 0 to 1, cuts what lies beyond, and rounds", function()
    local x = ty.tensor { { 0, 1, 0.5, -3, 7, 0.4999 / 255, 0.5 / 255 } }
    assert.same({ { { 0, 255, 128, 0, 255, 0, 1 } } }, image.decode(image.encode(x, "png")):totable())
    assert.same({ { { 0, 255 } } }, image.decode(image.encode(ty.tensor { { false, true } }, "png")):totable())
  end)

  it("is whole or not there", function()
    local ok, why = image.save("/nowhere/x.png", ty.zeros(3, 3))
    assert.is_nil(ok)
    assert.truthy(why:find "^/nowhere/x.png: ")
    assert.is_true(ty.save(folder .. "/z.png", ty.rand(3, 4, 5)))
    assert.same({ 3, 4, 5 }, ty.load(folder .. "/z.png").shape)
  end)

  it("can be a sheet of many", function()
    local x = ty.ones(5, 1, 2, 3)
    local y = image.grid(x, { columns = 3, padding = 1 })
    assert.same({ { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }, { 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0 },
      { 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0 }, { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 },
      { 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0 }, { 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0 },
      { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 } } }, y:totable())
    assert.same({ 3, 6, 11 }, image.grid({ ty.zeros(3, 2, 3), ty.zeros(3, 2, 3) }, { value = 1, columns = 9 }):narrow(2, 1, 6)
      :narrow(3, 1, 11).shape)
  end)

  it("must be an image", function()
    for text, fn in pairs {
      ["image.save: argument 2 must be an image, [h,w] or [c,h,w] of 1 to 4 channels, got f32[5,2,6]"] = function()
        image.save("x.png", ty.zeros(5, 2, 6))
      end,
      ["got u8[5,7,3] (x:permute(3, 1, 2) has the channels first)"] = function()
        image.save("x.png", ty.zeros({ 5, 7, 3 }, { dtype = "u8" }))
      end,
      ["image.save: argument 2 must be of u8, floats from 0 to 1, or bool"] = function()
        image.save("x.png", ty.zeros({ 2, 2 }, { dtype = "i64" }))
      end,
      ["image.save: jpg has 1 or 3 channels"] = function() image.save("x.jpg", ty.zeros(4, 2, 2)) end,
      ["image.save: jpg has 1 or 3 channels, got u8[2,2,2]"] = function() image.save("x.jpg", ty.zeros(2, 2, 2)) end,
      ["image.save: ppm has 1 or 3 channels, got u8[4,2,2] (.png keeps the fourth)"] = function()
        image.save("x.ppm", ty.zeros(4, 2, 2))
      end,
      ["image.save: pgm has 1 channel, got u8[3,2,2] (.ppm has 3)"] = function() image.save("x.pgm", ty.zeros(3, 2, 2)) end,
      ["image.save: \"gif\" is no format"] = function() image.save("x.gif", ty.zeros(2, 2)) end,
      ["image.load: option channels must be 1, 3 or 4, got 2"] = function() image.load("x.png", { channels = 2 }) end,
      ["image.resize: size must be {height, width}"] = function() image.resize(ty.zeros(2, 2), { 3 }) end,
      ["image.resize: argument 3 must be bilinear"] = function() image.resize(ty.zeros(2, 2), { 3, 3 }, "linear") end,
      ["image.grid: entry 2 is f32[3,3], the first f32[2,2]"] = function() image.grid { ty.zeros(2, 2), ty.zeros(3, 3) } end,
    } do
      local ok, why = pcall(fn)
      assert.is_false(ok)
      assert.truthy(why:find(text, 1, true), why)
    end
  end)
end)
