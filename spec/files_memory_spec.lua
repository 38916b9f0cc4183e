-- Files of strangers cost little memory: each hostile file is read by a process of its own, whose peak (VmHWM) is held
-- against what it had before. What is refused, and every picture, takes at most the file's size and 64 MB; what is
-- taken at most what the annotations of the loaders state.

local H = require "spec.helper"
local ffi = require "ffi"
local ty = H.ty

local SPARE = 64 * 2 ^ 20
local folder = os.tmpname()
os.remove(folder)
os.execute("mkdir -p " .. folder)

local function write(name, ...)
  local path = folder .. "/" .. name
  local f = assert(io.open(path, "wb"))
  for _, part in ipairs { ... } do f:write(part) end
  f:close()
  return path
end

--- Little-endian and big-endian numbers.
local function le(v, n)
  local y = {}
  for i = 1, n do y[i] = string.char(math.floor(v / 256 ^ (i - 1)) % 256) end
  return table.concat(y)
end
local function be(v, n) return le(v, n):reverse() end

---------------------------------------------------------------------------------------------------------- reading

local CHILD = H.process .. [[
local path, options = arg[1], arg[2]
local ty = require "tycho"
ty.load "/absent.npy"
local read = assert(loadstring("local ty, path = ... return " .. options))
collectgarbage()
collectgarbage()
local start = memory "VmRSS"
local value, why = read(ty, path)
print(memory "VmHWM" - start, value and "taken" or why)]]

--- What a process takes to read the file: bytes, and "taken" or the message. code: an expression of `ty` and `path`.
local function cost(path, code)
  local out, status = H.script(CHILD, nil, ("'%s' '%s'"):format(path, code or "ty.load(path)"))
  assert.equal(0, status, out)
  local kb, said = out:match "(%d+)\t(.*)\n$"
  local f = io.open(path, "rb")
  local size = f and f:seek "end" or 0
  if f then f:close() end
  if os.getenv "TYCHO_SAY" then
    print(("%7.1f MB of %6.1f  %s  %s"):format(kb / 1024, size / 2 ^ 20, path:match "[^/]*$", said:sub(1, 150)))
  end
  return kb * 1024, said, size
end

local function within(bytes, most, text)
  assert.truthy(bytes <= most or H.sanitized, text) -- a sanitizer needs memory of its own
end

local files = 0

--- Whether a run reads the file, which is removed else: every second one.
local function turn(path)
  files = files + 1
  return H.share(files, 2) or not os.remove(path)
end

--- The file is refused with such a message, and has cost little.
local function refused(path, message, code)
  if not turn(path) then return end
  local bytes, said, size = cost(path, code)
  assert.truthy(said:find(message), said)
  within(bytes, size + SPARE, ("%d bytes of %d: %s"):format(bytes, size, path))
  os.remove(path)
end

--- It is taken, at `times` its size and 64 MB at most.
local function taken(path, times, code)
  if not turn(path) then return end
  local bytes, said, size = cost(path, code)
  assert.equal("taken", said)
  within(bytes, times * size + SPARE, ("%d bytes of %d: %s"):format(bytes, size, path))
  os.remove(path)
end

---------------------------------------------------------------------------------------------------------- pictures

pcall(ffi.cdef, [[
  unsigned long crc32(unsigned long, const unsigned char *, unsigned int);
  int compress(unsigned char *, unsigned long *, const unsigned char *, unsigned long);
  void *tjInitCompress(void);
  int tjDestroy(void *);
  int tjCompress2(void *, const unsigned char *, int, int, int, int, unsigned char **, unsigned long *, int, int, int);
]])
local _, z = pcall(ffi.load, "libz.so.1")
local _, tj = pcall(ffi.load, "libturbojpeg.so.0")
local S444, S420, PROGRESSIVE = 0, 2, 16384

local function deflated(text)
  local n = ffi.new("unsigned long[1]", #text / 100 + 1000)
  local to = ffi.new("unsigned char[?]", n[0])
  assert(z.compress(to, n, text, #text) == 0)
  return ffi.string(to, n[0])
end

local function chunk(kind, data)
  local crc = tonumber(z.crc32(0, kind .. data, #data + 4))
  return be(#data, 4) .. kind .. data .. be(crc, 4)
end

local GREY, RGB, PALETTE, RGBA = 0, 2, 3, 6
local CHANNELS = { [GREY] = 1, [RGB] = 3, [PALETTE] = 1, [RGBA] = 4 }

--- A black PNG; `data` instead of its rows, `extra` chunks before them.
local function png(width, height, kind, depth, interlaced, data, extra)
  local rows = 0
  local function pass(w, h)
    if w > 0 and h > 0 then rows = rows + h * (1 + math.ceil(w * CHANNELS[kind] * depth / 8)) end
  end
  if interlaced then
    for _, p in ipairs { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 }, { 2, 0, 4, 4 }, { 0, 2, 2, 4 }, { 1, 0, 2, 2 },
      { 0, 1, 1, 2 } } do
      pass(math.ceil((width - p[1]) / p[3]), math.ceil((height - p[2]) / p[4]))
    end
  else
    pass(width, height)
  end
  local head = be(width, 4) .. be(height, 4) .. string.char(depth, kind, 0, 0, interlaced and 1 or 0)
  local n = 2 ^ depth
  local colors = kind == PALETTE and chunk("PLTE", ("\1\2\3"):rep(n)) .. chunk("tRNS", ("\9"):rep(n)) or ""
  return "\137PNG\r\n\26\n" .. chunk("IHDR", head) .. colors .. (extra or "") ..
    chunk("IDAT", data or deflated(("\0"):rep(rows))) .. chunk("IEND", "")
end

local function jpeg(width, height, sampling, flags)
  local handle, pixels = tj.tjInitCompress(), ffi.new("unsigned char[?]", width * height * 3)
  local to, n = ffi.new "unsigned char *[1]", ffi.new "unsigned long[1]"
  assert(tj.tjCompress2(handle, pixels, width, 0, height, 0, to, n, sampling, 80, flags or 0) == 0)
  tj.tjDestroy(handle)
  return ffi.string(to[0], n[0])
end

--- The same file with other sizes in its frame.
local function of_size(text, width, height)
  local at = text:find("\255[\192\194]\0\17\8")
  return text:sub(1, at + 4) .. be(height, 2) .. be(width, 2) .. text:sub(at + 9)
end

--- A grey JPEG whose three components come one after the other, which makes the decoder keep them all. Blocks without
--- coefficients are 001010 in the table of the first, 0000 in that of the others.
local function in_scans(width, height)
  local head = of_size(jpeg(64, 64, S444), width, height)
  local blocks = width / 8 * height / 8
  local function scan(component, tables, data)
    return "\255\218\0\8\1" .. string.char(component, tables, 0, 63, 0) .. data
  end
  return head:sub(1, head:find("\255\218", 1, true) - 1) .. scan(1, 0, ("\40\162\138"):rep(blocks / 4)) ..
    scan(2, 17, ("\0"):rep(blocks / 2)) .. scan(3, 17, ("\0"):rep(blocks / 2)) .. "\255\217"
end

describe("a picture costs at most its file and 64 MB:", function()
  local OVER = "over the limit of %d+ %(raise it by the option limit = bytes%)"

  it("one of 60000 x 60000 pixels in its header", function()
    refused(write("a.png", png(60000, 60000, RGB, 8, false, "abc")), OVER)
    refused(write("b.png", png(60000, 60000, GREY, 1, true, "abc")), OVER)
    refused(write("a.jpg", of_size(jpeg(64, 64, S420), 60000, 60000)), OVER)
    refused(write("b.jpg", of_size(jpeg(64, 64, S420, PROGRESSIVE), 60000, 60000)), OVER)
    refused(write("a.ppm", "P6 60000 60000 255\n"), "too few")
    refused(write("b.pgm", "P5 1 2147483647 65535\n"), "too few")
  end)

  it("PNG that compresses well", function()
    taken(write("rgb.png", png(4600, 3600, RGB, 8)), 1)
    taken(write("rgba.png", png(3700, 3300, RGBA, 8)), 1)
    taken(write("grey.png", png(7000, 7000, GREY, 8)), 1)
    taken(write("deep.png", png(3400, 3500, RGBA, 16)), 1)
    taken(write("colors.png", png(3400, 3500, PALETTE, 1)), 1)
    taken(write("interlaced.png", png(4600, 3600, RGB, 8, true)), 1)
    taken(write("grey3.png", png(3600, 3500, GREY, 8)), 1, "ty.load(path, {channels = 3})")
    refused(write("colors.png", png(7000, 7000, PALETTE, 1)), OVER)
    refused(write("rgb.png", png(6000, 6000, RGB, 8)), OVER)
    refused(write("grey3.png", png(5000, 5000, GREY, 8)), OVER, "ty.load(path, {channels = 3})")
  end)

  it("PNG of one long row", function()
    refused(write("long.png", png(20e6, 1, GREY, 8)), OVER)
    refused(write("long.png", png(2e6, 1, GREY, 8)), OVER, "ty.load(path, {size = {8, 8}, channels = 3})")
    taken(write("long.png", png(1e6, 1, GREY, 8)), 1, "ty.load(path, {size = {8, 8}})")
    taken(write("high.png", png(1, 1e6, GREY, 8)), 1, "ty.load(path, {size = {8, 8}})")
  end)

  it("PNG whose texts and profiles unpack to a thousand times their size", function()
    local texts = chunk("zTXt", "a\0\0" .. deflated(("x"):rep(1e6))):rep(900)
    local profile = chunk("iCCP", "a\0\0" .. deflated(("\0"):rep(1e6)))
    taken(write("texts.png", png(10, 10, RGB, 8, false, nil, texts .. profile)), 1)
  end)

  it("JPEG, also progressive and in several scans", function()
    taken(write("a.jpg", jpeg(4600, 3600, S420)), 1)
    taken(write("a.jpg", jpeg(3700, 2600, S420, PROGRESSIVE)), 1)
    taken(write("a.jpg", jpeg(3000, 2200, S444, PROGRESSIVE)), 1)
    refused(write("a.jpg", jpeg(3700, 2600, S444, PROGRESSIVE)), OVER)
    refused(write("cut.jpg", of_size(jpeg(64, 64, S444, PROGRESSIVE), 3000, 2200)), "damaged")
    taken(write("scans.jpg", in_scans(2880, 2240)), 1)
    refused(write("scans.jpg", in_scans(2880, 2240):sub(1, -10000)), "damaged")
    refused(write("scans.jpg", in_scans(3840, 3200)), OVER)
  end)

  it("also as floats, of another size, and in a loader", function()
    local photo = jpeg(4600, 3600, S420)
    refused(write("a.jpg", photo), OVER, "ty.load(path, {dtype = \"f32\"})")
    taken(write("a.jpg", jpeg(2000, 1700, S420)), 1, "ty.load(path, {dtype = \"f32\"})")
    taken(write("a.jpg", photo), 1, "ty.load(path, {size = {224, 224}, dtype = \"f32\"})")
    taken(write("a.jpg", jpeg(3000, 2200, S420)), 1, "ty.load(path, {size = {2000, 2000}})")
    refused(write("a.jpg", photo), OVER, "ty.load(path, {size = {8000, 8000}})")
    os.execute(("mkdir -p '%s/set'"):format(folder))
    local set = "ty.data.images(path:match \"(.*)/\")"
    taken(write("set/a.jpg", photo), 1, set .. ":get(1)")
    refused(write("set/a.jpg", jpeg(5000, 4000, S420)), OVER, set .. ":get(1)")
    local _, said = cost(write("set/a.jpg", jpeg(5000, 4000, S420)),
      "ty.data.images(path:match \"(.*)/\", {limit = 2^27}):loader{batch = 1}:epoch()():size(4) == 5000")
    assert.equal("taken", said)
  end)
end)

---------------------------------------------------------------------------------------------------------- tables

describe("a table that is refused costs at most its file and 64 MB:", function()
  local COLUMNS = 100
  local ones = ("1,"):rep(COLUMNS - 1) .. "1\n"
  local many = ones:rep(100000) -- 20 MB of text, 80 MB of numbers

  it("rows of another length, text, zero bytes, quotes at its very end", function()
    refused(write("a.csv", many, "1,2,3\n"), ":100001: 3 fields where the first row has 100")
    refused(write("a.csv", many, ones, ones:sub(1, -2), ",1\n"), ":100002: 101 fields")
    refused(write("a.csv", many, '"1', ones:sub(2)), ":100001: a quote is opened and never closed")
    refused(write("a.csv", many, '"1"x', ones:sub(2)), ":100001: text behind a closing quote")
    refused(write("a.csv", many, "\0", ones:sub(2)), ":100001: a zero byte")
    refused(write("a.csv", many, "x", ones:sub(2)), ":100001: column 1: \"x\" is no number",
      "ty.load(path, {types = \"f64\"})")
    refused(write("a.csv", many, ones:sub(2)), "an empty field where a number is needed",
      "ty.load(path, {fill = \"error\"})")
    refused(write("a.csv", many, "2", ones:sub(2)), ":100001: column 1: \"2\" is none of the classes",
      "ty.load(path, {classes = {{\"1\"}}})")
  end)

  it("text of two bytes a character", function()
    refused(write("a.csv", "\255\254", ("1\0,\0001\0\n\0"):rep(5e6)), ":1: the text is UTF%-16")
    refused(write("a.csv", ("1\0,\0001\0\n\0"):rep(5e6)), ":1: a zero byte")
  end)

  it("columns without number", function()
    refused(write("a.csv", ("1,"):rep(20e6)), "more than 65536 columns")
    refused(write("a.csv", ("1,"):rep(65535), "1\n", ("1\n"):rep(10e6)), ":2: 1 field where the first row has 65536")
  end)

  it("and one that is taken at most nine times its size and 64 MB", function()
    taken(write("a.csv", many), 9)
    taken(write("a.csv", (","):rep(99), "\n", ((","):rep(99) .. "\n"):rep(100000), ("1e300,"):rep(99), "1e300\n"), 9)
  end)
end)

describe("a large table", function()
  local rows = {}
  for i = 1, 1000 do rows[i] = ("%d,%d.5,,%d"):format(i, i, i % 10) end
  local text = table.concat(rows, "\n") .. "\n"

  it("holds what it says behind the rows that are stored at once", function()
    local t = assert(ty.load(write("a.csv", text:rep(2500)))) -- 60 MB of numbers
    assert.equal(2.5e6, t.rows)
    assert.equal(2500 * 500500, t:column(1):sum():item())
    assert.equal(2500 * (500500 + 500), t:column(2):to("f64"):sum():item())
    assert.equal(2.5e6, t:column(3):isnan():sum():item())
    assert.equal(2500 * 4500, t:column(4):sum():item())
  end)

  it("is read again where its last row makes a column something else", function()
    local t = assert(ty.load(write("a.csv", text:rep(2500), "1,1e300,2,end\n")))
    assert.same({ "i64", "f64", "f32", "text" }, { t.types.column1, t.types.column2, t.types.column3, t.types.column4 })
    assert.equal(1e300, t:column(2):get(-1))
    assert.equal(2500 * (500500 + 500), t:column(2):narrow(1, 1, 2.5e6):sum():item())
    assert.same({ "1", "end", "0" }, { t.columns.column4[1], t.columns.column4[t.rows], t.columns.column4[t.rows - 1] })
    os.remove(folder .. "/a.csv")
  end)
end)

---------------------------------------------------------------------------------------------------------- tensors

--- The front of an npy file.
local function npy(descr, ...)
  local sizes = { ... }
  for i, n in ipairs(sizes) do sizes[i] = ("%.0f"):format(n) end
  local head = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }"):format(descr, table.concat(sizes, ", "))
  return "\147NUMPY\1\0" .. le(#head, 2) .. head
end

--- A stored zip archive of {name, data}; `crc` instead of the last member's.
local function zip(members, crc)
  local parts, center, at = {}, {}, 0
  for i, m in ipairs(members) do
    local name, data = m[1], m[2]
    local sum = i == #members and crc or tonumber(z.crc32(0, data, #data))
    local common = "\20\0\0\0\0\0\0\0\33\0" .. le(sum, 4) .. le(#data, 4) .. le(#data, 4) .. le(#name, 2) .. "\0\0"
    parts[#parts + 1] = "PK\3\4" .. common .. name
    parts[#parts + 1] = data
    center[i] = "PK\1\2\20\0" .. common .. "\0\0\0\0\0\0\0\0\0\0" .. le(at, 4) .. name
    at = at + 30 + #name + #data
  end
  local list = table.concat(center)
  parts[#parts + 1] = list .. "PK\5\6\0\0\0\0" .. le(#members, 2):rep(2) .. le(#list, 4) .. le(at, 4) .. "\0\0"
  return table.concat(parts)
end

local function safetensors(header, ...) return le(#header, 8) .. header, ... end

describe("tensors that are refused cost at most their file and 64 MB:", function()
  it("npy", function()
    refused(write("a.npy", npy("<f4", 2 ^ 40)), "its shape needs")
    refused(write("a.npy", npy("<f4", 2 ^ 62, 2 ^ 62)), "larger than any memory")
    taken(write("a.npy", npy("<u2", 3e7), ("\1\2"):rep(3e7)), 3)
  end)

  it("npz that unpacks to much, says too little, or has many or long names", function()
    local bomb = folder .. "/bomb.npz"
    assert(ty.save(bomb, { x = ty.zeros(20e6) }, { compress = true }))
    local f = io.open(bomb, "rb")
    local text = f:read "*a"
    f:close()
    refused(bomb, "would unpack to more than %d+ bytes %(allow that by {limit = bytes}%)")
    local whole = npy("<f4", 20e6)
    for _, size in ipairs { 1000, 128 + 4000, 50e6 } do -- what both headers say instead of 80 MB
      local n, size4 = le(20e6 * 4 + 128, 4), le(size, 4)
      local lied = text:gsub(n:gsub("%W", "%%%0"), (size4:gsub("%%", "%%%%")))
      refused(write("lie.npz", lied), "lie.npz: ")
    end
    local members = {}
    for i = 1, 20000 do members[i] = { i .. ".npy", npy("<f4", 0) } end
    taken(write("many.npz", zip(members)), 30)
    members = {}
    for i = 1, 500 do members[i] = { ("\228"):rep(65000) .. i .. ".npy", npy("<f4", 0) } end
    refused(write("names.npz", zip(members)), "is not UTF%-8")
    assert.truthy(#whole < 128)
  end)

  it("npz whose last member is damaged", function()
    local half = npy("<u2", 12e6) .. ("\1\2"):rep(12e6)
    refused(write("a.npz", zip({ { "a.npy", half }, { "b.npy", half }, { "c.npy", half } }, 1)), "c.npy")
  end)

  it("safetensors: deep and long headers, entries without number, dtypes that are not there behind others", function()
    refused(write("a.safetensors", safetensors('{"a":' .. ("["):rep(3e7))), "must be an object")
    refused(write("a.safetensors", safetensors('{"a":' .. ("{\"a\":"):rep(6e6))), "too many levels")
    refused(write("a.safetensors", le(99e6, 8) .. "{"), "within the header")
    local many = {}
    for i = 1, 70000 do many[i] = ('"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'):format(i) end
    refused(write("a.safetensors", safetensors("{" .. table.concat(many, ",") .. "}")), "more than 65536 tensors")
    many[65537] = nil
    many = table.concat(many, ",", 1, 65536)
    refused(write("a.safetensors", safetensors("{" .. many .. "}", "x")), "behind the last tensor")
    local n = 68e6
    local two = ('{"a":{"dtype":"U16","shape":[%d],"data_offsets":[0,%d]},' ..
      '"b":{"dtype":"%%s","shape":[1],"data_offsets":[%d,%d]}}'):format(n / 2, n, n, n + 8)
    local data = ("\1"):rep(n) .. ("\255"):rep(8)
    refused(write("a.safetensors", safetensors(two:format "F4", data)), "do not make the bytes")
    local bytes = two:format("F8_E5M2"):gsub('"shape":%[1%]', '"shape":[8]')
    refused(write("a.safetensors", safetensors(bytes, data)), "F8_E5M2, which is not read")
    taken(write("a.safetensors", safetensors(two:format "I64", data)), 2)
  end)

  local GGUF = "GGUF\3\0\0\0"
  local function tensor(name, n, kind, at)
    return le(#name, 8) .. name .. le(1, 4) .. le(n, 8) .. le(kind, 4) .. le(at, 8)
  end

  it("gguf: counts, arrays, texts; a type that is not read behind one that grows", function()
    refused(write("a.gguf", GGUF, le(2 ^ 50, 8), le(0, 8)), "more than the file has room for")
    refused(write("a.gguf", GGUF, le(0, 8), le(2 ^ 50, 8)), "more than the file has room for")
    refused(write("a.gguf", GGUF, le(1, 8), le(0, 8), tensor("a", 2 ^ 45, 0, 0)), "needs %d+ bytes")
    refused(write("a.gguf", GGUF, le(0, 8), le(1, 8), le(1, 8), "k", le(9, 4), le(8, 4), le(3e6, 8), ("\0"):rep(24e6)),
      "too much memory")
    local bytes = le(1, 8) .. "k" .. le(9, 4) .. le(0, 4) .. le(7e6, 8) .. ("\1"):rep(7e6)
    refused(write("a.gguf", GGUF, le(1000, 8), le(1, 8), bytes), "ends at byte")
    local blocks = 1e6 -- of Q4_0: 18 MB, which become 128
    local front = GGUF .. le(2, 8) .. le(0, 8) .. tensor("a", 32 * blocks, 2, 0)
    local function padded(s) return s .. ("\0"):rep(-#s % 32) end
    local data = ("\1"):rep(18 * blocks) .. ("\1"):rep(64)
    refused(write("a.gguf", padded(front .. tensor("b", 32, 9, 18 * blocks)), data), "Q8_1, which is not read")
    local whole = padded(front .. tensor("b", 32, 2, 18 * blocks))
    taken(write("a.gguf", whole, data), 7.2)
    taken(write("a.gguf", whole, data), 7.2, "ty.load(path, {dtype = \"f16\"})")
  end)

  it("checkpoints and indices of shards", function()
    local function tree(text)
      return safetensors('{"__metadata__":{"tycho.tree":"' .. text:gsub('"', '\\"') .. '"}}')
    end
    for _, text in ipairs {
      '{"a":[' .. ("[],"):rep(5e6) .. "[]]}",
      '{"a":[' .. ("0,"):rep(1.9e6) .. '{"$tensor":"b"}]}',
      '{"a":[' .. ('{"a":1},'):rep(190000) .. '{"$tensor":"b"}]}',
      '{"a":' .. ("["):rep(127) .. ("]"):rep(127) .. "}",
    } do
      local path = write("a.safetensors", tree(text))
      local bytes, said, size = cost(path, "ty.load_checkpoint(path)")
      within(bytes, size + SPARE, said)
    end
    local list, shards = {}, {}
    for i = 1, 177000 do
      list[i] = ('"layers.%d.weight":"model-%d.safetensors"'):format(i, i % 4000)
      shards[i] = ('"layers.%d.weight":"model-%d.safetensors"'):format(i, i)
    end
    local short = {}
    for i = 1, 220000 do short[i] = ('"%d":"%d"'):format(i, i) end
    local function map(entries) return '{"weight_map":{' .. table.concat(entries, ",") .. "}}" end
    for _, text in ipairs {
      '{"weight_map":{"a":[' .. ("[],"):rep(5e6) .. "[]]}}", (" "):rep(2 ^ 24 + 1), (" "):rep(2 ^ 24), map(list),
      map(shards), map(short),
    } do
      refused(write("model.safetensors.index.json", text), "model", "ty.load_weights(path)")
    end
  end)
end)

teardown(function() os.execute("rm -rf " .. folder) end)
