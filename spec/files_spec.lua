--- files_spec.lua -- files as other tools write them, as they read them, and as nobody should write them.
-- fixtures/files.lua holds files of NumPy, safetensors, gguf and PyTorch with what these read in them.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local files = ty.files
local fixtures = dofile(H.root .. "spec/fixtures/files.lua")
local C = package.loadlib(package.cpath:match("[^;]*build[^;]*"):gsub("%?", "tycho/files"), "luaopen_tycho_files")()

ffi.cdef [[
int mkfifo(const char *path, unsigned mode);
int symlink(const char *target, const char *path);
int chmod(const char *path, unsigned mode);
]]

-- Files on the disk ----------------------------------------------------------------------------------------------------

local folder = os.tmpname()
os.remove(folder)
assert(H.make_folder(folder))

local function write(name, bytes)
  local path = folder .. "/" .. name
  if H.windows then collectgarbage() end -- a file that is mapped cannot be made anew there
  local f = assert(io.open(path, "wb"))
  f:write(bytes)
  f:close()
  return path
end

local function slurp(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

local function bytes_of(hex)
  return (hex:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end))
end
for _, f in ipairs(fixtures) do f.bytes = bytes_of(f.bytes) end

-- Comparison -----------------------------------------------------------------------------------------------------------

--- Raises unless t is as the fixture's description says: dtype, sizes, each element to the bit.
local function same(want, t, what)
  assert.equal(want.dtype, t.dtype, what)
  assert.same(want.shape, t.shape, what)
  local got = H.list(t)
  assert.equal(#want.values, #got, what)
  for i, v in ipairs(want.values) do
    if type(v) == "boolean" then v = v and 1 or 0 end
    local w = got[i]
    if not (v == w and 1 / v == 1 / w or v ~= v and w ~= w) then
      error(("%s: element %d is %.17g instead of %.17g"):format(what, i, w, v), 2)
    end
  end
end

local function count(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

--- Raises unless the tensors by name are those of the fixture.
local function same_all(want, tensors, what)
  assert.equal(count(want), count(tensors), what)
  for name, w in pairs(want) do same(w, assert(tensors[name], what .. ": no " .. name), what .. ": " .. name) end
end

--- What a fixture's file holds, by its name; metadata.
local function load(f, opts)
  local path = write("file." .. f.format, f.bytes)
  local value, more = ty.load(path, opts)
  if f.format == "npy" and value then return { [""] = value } end
  return value, more
end

describe("a file that another tool wrote", function()
  for _, f in ipairs(fixtures) do
    if f.tensors then
      it("is read as that tool reads it: " .. f.name, function()
        local tensors, metadata = load(f)
        same_all(f.tensors, assert(tensors, metadata), f.name)
        if f.metadata then assert.same(f.metadata, metadata) end
        if f.format ~= "npz" then same_all(f.tensors, assert(load(f, { mmap = true })), f.name .. ", mapped") end
      end)
    else
      it("is refused with a message: " .. f.name, function()
        local value, message = load(f)
        assert.is_nil(value)
        assert.equal(folder .. "/file." .. f.format .. ": ", message:sub(1, #folder + 8 + #f.format), message)
        assert.truthy(message:find(f.refused), message)
      end)
    end
  end

  it("is written byte for byte as the reference implementation does", function()
    for _, f in ipairs(fixtures) do
      if f.rewrite then
        local tensors, metadata = load(f)
        local path = folder .. "/again.safetensors"
        assert(ty.save(path, tensors, { metadata = metadata }))
        assert.equal(f.bytes, slurp(path), f.name)
      end
    end
  end)

  it("is written byte for byte as NumPy does", function()
    local written = 0
    for _, f in ipairs(fixtures) do
      local dtype = f.name:match("^npy of (%S+)$") or f.name == "npy without dims" or f.name == "npy of one dim"
        or f.name == "npy without elements" or f.name == "npy of 8 dims"
      if f.tensors and dtype and not ({ u2 = 1, u4 = 1, u8 = 1 })[dtype] then
        local path = folder .. "/again.npy"
        assert(ty.save(path, load(f)[""]))
        assert.equal(f.bytes, slurp(path), f.name)
        written = written + 1
      end
    end
    assert.equal(13, written)
  end)
end)

describe("a file of ours", function()
  local tensors = {}
  for i, dtype in ipairs(H.dtypes) do
    tensors["t" .. dtype] = H.mixed(dtype, { 2, i }, i)
    tensors["turned." .. dtype] = H.mixed(dtype, { 3, 4 }, i):t()
  end
  tensors.scalar, tensors.none, tensors["日本"] = ty.tensor(7), ty.zeros(0, 4), ty.randn(2):requires_grad_()

  for _, format in ipairs { "safetensors", "npz", "npz, compressed" } do
    it("comes back to the bit: " .. format, function()
      local path, saved = folder .. "/ours." .. format:match("^%w+"), {}
      for name, t in pairs(tensors) do
        if format == "safetensors" or t.dtype ~= "bf16" then saved[name] = t end
      end
      assert(ty.save(path, saved, format:find "," and { compress = true } or nil))
      local back = assert(ty.load(path))
      assert.equal(count(saved), count(back))
      for name, t in pairs(saved) do H.same(t:detach(), back[name], name) end
    end)
  end

  it("comes back to the bit: npy", function()
    for name, t in pairs(tensors) do
      if t.dtype ~= "bf16" then
        assert(ty.save(folder .. "/ours.npy", t))
        H.same(t:detach(), ty.load(folder .. "/ours.npy"), name)
      end
    end
  end)

  it("in npz is read although another one cannot be, as by NumPy", function()
    local path, objects, none = folder .. "/objects.npz", nil, ty.zeros(0)
    for _, f in ipairs(fixtures) do objects = f.name == "npy of objects" and f.bytes or objects end
    assert(ty.save(folder .. "/one.npy", ty.range(3)))
    assert(C.zip(path, { "o.npy", "a.npy" }, { objects, slurp(folder .. "/one.npy") }, { none, none }))
    H.same(ty.range(3), ty.load(path, { names = { "a" } }).a)
    local value, message = ty.load(path)
    assert.is_nil(value)
    assert.equal(path .. ": \"o\" holds Python objects, which are not read: save numbers"
      .. " (option names = {...} reads the others)", message)
    local file = assert(files.npz.open(path))
    assert.truthy(select(3, file:info "o"):find "^holds Python objects")
    assert.is_nil(select(3, file:info "a"))
    file:close()
  end)

  it("in safetensors is read although another has nine dims or a dtype that we have not", function()
    local path = folder .. "/nine.safetensors"
    for entry, why in pairs {
      ['"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2]'] = "has 9 dims, at most 8 are read",
      ['"dtype":"F8_E4M3","shape":[8]'] = "is of the dtype F8_E4M3, which is not read",
    } do
      local header = '{"odd":{' .. entry .. ',"data_offsets":[0,8]},"x":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}'
      write("nine.safetensors", string.char(#header, 0, 0, 0, 0, 0, 0, 0) .. header .. ("\0"):rep(16))
      local value, message = ty.load(path)
      assert.is_nil(value)
      assert.equal(path .. ': "odd" ' .. why .. " (option names = {...} reads the others)", message)
      assert.same({ 0, 0 }, ty.load(path, { names = { "x" } }).x:totable())
      value, message = ty.load(path, { names = { "x", "odd" } })
      assert.is_nil(value)
      assert.equal(path .. ': "odd" ' .. why, message)
      local weights
      weights, message = ty.load_weights(path)
      assert.is_nil(weights)
      assert.truthy(message:find(why, 1, true))
    end
  end)

  it("may hold nothing", function()
    for _, format in ipairs { "safetensors", "npz" } do
      local path = folder .. "/nothing." .. format
      assert(ty.save(path, { x = ty.ones(1) }))
      assert(ty.save(path, {}))
      assert.same({}, (ty.load(path)))
    end
  end)

  it("is read in part", function()
    local path = folder .. "/part.safetensors"
    assert(ty.save(path, tensors))
    local two = assert(ty.load(path, { names = { "tf32", "none" } }))
    assert.equal(2, count(two))
    H.same(tensors.tf32, two.tf32)
    local value, message = ty.load(path, { names = { "absent" } })
    assert.is_nil(value)
    assert.truthy(message:find('holds no tensor "absent"', 1, true), message)
    local file = assert(files.safetensors.open(path))
    assert.equal(count(tensors), #file.names)
    assert.truthy(file:has "tf32" and not file:has "absent")
    local shape, dtype = file:info "turned.i16"
    assert.same({ 4, 3 }, shape)
    assert.equal("i16", dtype)
    assert.is_nil((file:info "absent"))
    H.same(tensors["tu8"], file:get "tu8")
    assert.same({}, file.metadata)
    local kept = file:get "ti64"
    file:close()
    H.same(tensors.ti64, kept)
    assert.truthy(H.raises(file.get, file, "tu8"):find "closed")
  end)

  it("that is mapped can be written to without changing, and outlives its handle", function()
    local path = folder .. "/mapped.safetensors"
    assert(ty.save(path, { a = ty.arange(8), flags = ty.tensor { true, false } }))
    local before = slurp(path)
    local mapped = assert(ty.load(path, { mmap = true }))
    local f = ty.compile(function(x) return x * 2 + 1 end)
    for _ = 1, 3 do assert.same({ 1, 3, 5, 7, 9, 11, 13, 15 }, f(mapped.a):totable()) end
    mapped.a:add_(1)
    mapped.flags:fill_(true)
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, mapped.a:totable())
    assert.equal(before, slurp(path))
    local a = mapped.a
    mapped = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.equal(36, a:sum():item())
  end)

  it("holds booleans that are 0 or 1, whatever bytes the file has", function()
    local header = '{"x":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}}  '
    local path = write("bools.safetensors", string.char(#header) .. ("\0"):rep(7) .. header .. "\0\1\2\255")
    for _, mmap in ipairs { false, true } do
      local x = assert(ty.load(path, { mmap = mmap })).x
      assert.same({ 0, 1, 1, 1 }, x:view_as("u8"):totable())
    end
  end)

  it("of GGUF comes in the dtype that is asked for", function()
    for _, f in ipairs(fixtures) do
      if f.name == "gguf tensors" then
        for name, t in pairs(assert(load(f, { dtype = "f32" }))) do assert.equal("f32", t.dtype, name) end
      end
    end
  end)
end)

describe("the world", function()
  it("gives nil and a message that begins with the path", function()
    ffi.C.mkfifo(folder .. "/pipe.npy", 0x1b6)
    assert(H.make_folder(folder .. "/directory.npy"))
    for path, why in pairs {
      [folder .. "/absent.npy"] = "No such file", [folder .. "/directory.npy"] = "is a directory",
      [folder .. "/pipe.npy"] = "not a regular file", [folder .. "/absent.safetensors"] = "No such file",
    } do
      local value, message = ty.load(path)
      assert.is_nil(value)
      assert.equal(path .. ": ", message:sub(1, #path + 2))
      assert.truthy(message:find(why), message)
    end
    local x = ty.ones(3)
    for path, why in pairs { [folder .. "/absent/x.npy"] = "No such file", [folder .. "/directory.npy"] = "directory" } do
      local ok, message = ty.save(path, x)
      assert.is_nil(ok)
      assert.truthy(message:find(why), message)
    end
    local ok, message = files.npy.save("/dev/full", ty.ones(10000))
    assert.is_nil(ok)
    assert.truthy(message:find "No space left", message)
    ok, message = files.npz.save(folder .. "/absent/x.npz", { x = x })
    assert.is_nil(ok)
    assert.truthy(message:find "cannot be written", message)
  end)

  it("keeps the old file where a new one cannot be written whole", function()
    local path = folder .. "/kept.npy"
    assert(ty.save(path, ty.ones(3)))
    local out, status = H.script(([[
      local ty = require "tycho"
      local ok, message = ty.save(%q, ty.ones(100000))
      print(ok, message)
    ]]):format(path), nil, "")
    assert.equal(0, status, out)
    assert.equal(100000, ty.load(path):numel())
    for _, name in ipairs { "kept.npy", "kept.npz", "kept.csv" } do -- a file that grows too long is no signal that kills
      path = folder .. "/" .. name
      local value = name:find "npz" and "{ x = x }" or "x"
      local f = io.popen(("ulimit -f 8; luajit -e \"local ty = require'tycho'; local x = ty.ones(5);"
        .. " print(ty.save('%s', %s)); x = ty.ones(1000000); print(ty.save('%s', %s)); print(x[1])\" 2>&1"):format(
        path, value, path, value))
      out = f:read "*a"
      f:close()
      assert.truthy(out:find "^true\nnil\t.*cannot be written: .*File too large\n1 ", out)
    end
    path = folder .. "/kept.npy"
    assert.equal(5, ty.load(path):numel())
    local list = io.popen(("ls -a '%s'"):format(folder))
    assert.falsy(list:read("*a"):find "%.new")
    list:close()
  end)

  it("names the file as it was given, where a link leads to another", function()
    local path, link = folder .. "/named.npy", folder .. "/other.npy"
    assert(ty.save(path, ty.ones(5)))
    ffi.C.symlink(path, link)
    local f = io.popen(("cd '%s'; ulimit -f 8; luajit -e \"print(require'tycho'.save('./other.npy',"
      .. " require'tycho'.ones(1000000)))\" 2>&1"):format(folder))
    local out = f:read "*a"
    f:close()
    assert.truthy(out:find "^nil\t%./other%.npy: cannot be written: File too large\n", out)
  end)

  it("works and leaves nothing beside the file, whatever the system can do and when the process is killed", function()
    if H.asan then return pending "the sanitizer is loaded first" end
    local source, object = write("worse.c", [[
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <errno.h>
      #include <fcntl.h>
      #include <signal.h>
      #include <stdarg.h>
      #include <stdlib.h>
      #include <unistd.h>
      static int refuse(const char *what) { return getenv(what) != 0; }
      static int real_open(const char *name, const char *path, int flags, int mode) {
        int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
        if (refuse("NO_TMPFILE") && (flags & O_TMPFILE) == O_TMPFILE) return errno = EOPNOTSUPP, -1;
        return real(path, flags, mode);
      }
      #define OPEN(name) int name(const char *path, int flags, ...) { \
        va_list ap; va_start(ap, flags); int mode = va_arg(ap, int); va_end(ap); \
        return real_open(#name, path, flags, mode); }
      OPEN(open)
      OPEN(open64)
      int linkat(int a, const char *from, int b, const char *to, int flags) {
        static int (*real)(int, const char *, int, const char *, int);
        if (!real) real = (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");
        return refuse("NO_LINK") ? (errno = EPERM, -1) : real(a, from, b, to, flags);
      }
      ssize_t write(int fd, const void *p, size_t n) {
        static ssize_t (*real)(int, const void *, size_t);
        if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
        if (n < 100000 || !refuse("KILL")) return real(fd, p, n);
        real(fd, p, n / 2);
        raise(SIGKILL);
        return 0;
      }]]), folder .. "/worse.so"
    assert(H.shell(("gcc -shared -fPIC -o '%s' '%s' -ldl"):format(object, source)))
    local nameless = H.shell(("luajit -e \"local f = require'ffi'; f.cdef'int open(const char *p, int f, int m);'"
      .. " os.exit(f.C.open('%s', 0x410002, 384) < 0 and 1 or 0)\""):format(folder)) -- O_RDWR | O_TMPFILE
    local inside = folder .. "/worse"
    assert(H.make_folder(inside))
    local function entries()
      local list = io.popen("ls -A '" .. inside .. "'")
      local text = list:read "*a"
      list:close()
      return text
    end
    local path = inside .. "/x.npy"
    local script = ("local ty = require 'tycho' print(ty.save(%q, ty.full({ 100000 }, tonumber(arg[1] or 0))))"):format(path)
    for i, env in ipairs { {}, { NO_LINK = 1 }, { NO_TMPFILE = 1 } } do
      env.LD_PRELOAD = object
      local out, status = H.script((script:gsub("arg%[1%] or 0", i)), env)
      assert.same({ 0, "true\n" }, { status, out })
      assert.same({ i, 100000 }, { ty.load(path):max():item(), ty.load(path):numel() })
      assert.equal("x.npy\n", entries())
      ffi.C.chmod(path, 0x100 + 0x80)
    end
    local stat = io.popen("stat -c %a '" .. path .. "'")
    assert.equal("600\n", stat:read "*a")
    stat:close()
    local out, status = H.script((script:gsub("arg%[1%] or 0", "9")), { LD_PRELOAD = object, KILL = 1 })
    assert.truthy(status ~= 0 and not out:find "true", out)
    assert.equal(3, ty.load(path):max():item())
    if nameless then assert.equal("x.npy\n", entries()) end
  end)

  it("keeps links, and the rights of the file that is replaced", function()
    local path, link = folder .. "/target.npy", folder .. "/link.npy"
    assert(ty.save(path, ty.ones(3)))
    ffi.C.chmod(path, 0x100 + 0x80) -- rw for the owner alone
    ffi.C.symlink(path, link)
    assert(ty.save(link, ty.ones(7)))
    assert.equal(7, ty.load(path):numel())
    local list = io.popen(("stat -c '%%a %%F' '%s' '%s'"):format(path, link))
    local text = list:read "*a"
    list:close()
    assert.truthy(text:find "^600 regular file\n%d+ symbolic link", text)
  end)
end)

describe("npz without libzip", function()
  it("says what to install; other formats do not ask for it", function()
    if H.asan then return pending "the sanitizer is loaded first" end
    local source, object = write("nozip.c", [[
      #define _GNU_SOURCE
      #include <dlfcn.h>
      #include <string.h>
      void *dlopen(const char *name, int flags) {
        static void *(*real)(const char *, int);
        if (!real) real = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
        return name && strstr(name, "libzip") ? 0 : real(name, flags);
      }]]), folder .. "/nozip.so"
    assert(H.shell(("gcc -shared -fPIC -o '%s' '%s' -ldl"):format(object, source)))
    local out, status = H.script(([[
      local ty = require "tycho"
      local npy, npz = %q, %q
      print(ty.save(npy, ty.ones(3)), ty.load(npy))
      print(ty.files.npz.load(npy))
      print(ty.save(npz, { x = ty.ones(3) }))]]):format(folder .. "/z.npy", folder .. "/z.npz"), { LD_PRELOAD = object })
    assert.equal(0, status, out)
    assert.truthy(out:find "^true\t{1, 1, 1}", out)
    assert.equal(2, select(2, out:gsub("nil\t[^\n]*npz needs libzip: apt%-get install libzip4", "")), out)
  end)
end)

describe("misuse", function()
  it("raises and names what is wrong", function()
    local x = ty.ones(2)
    for _, case in ipairs {
      { ty.load, { 1 }, "load: argument 1 must be a path" },
      { ty.load, { "x.unknown" }, 'load: "x.unknown" does not end in one of .*%.npy' },
      { ty.load, { "x" }, "does not end in one of" },
      { ty.load, { "x.npy", { mmpa = true } }, "unknown option mmpa, did you mean mmap" },
      { ty.load, { "x\0.npy" }, "zero byte" },
      { ty.save, { "x.gguf", {} }, "does not end in one of" },
      { ty.save, { "x.npy", {} }, "npy.save: argument 2 must be a tensor" },
      { ty.save, { "x.npy", x:to "bf16" }, "NumPy has no bf16" },
      { ty.save, { "x.npy", x, { compress = true } }, "npy.save: unknown option compress; there are none" },
      { ty.load, { "x.npz", { limit = -1 } }, "option limit must be a number of bytes, got .1" },
      { ty.save, { "x.safetensors", x }, "tensors by name" },
      { ty.save, { "x.safetensors", { x } }, "names must be texts" },
      { ty.save, { "x.safetensors", ty.nn.Linear(2, 2) }, "got a module; give module:state_dict()" },
      { ty.save, { "x.safetensors", { ["a\n"] = x } }, "control character" },
      { ty.save, { "x.safetensors", { ["a\255"] = x } }, "not UTF" },
      { ty.save, { "x.safetensors", { __metadata__ = x } }, "__metadata__" },
      { ty.save, { "x.safetensors", { a = 1 } }, "a must be a tensor" },
      { ty.save, { "x.safetensors", { a = x }, { metadata = { a = 1 } } }, "metadata must be texts" },
      { ty.save_checkpoint, { "x", { f = print } }, "f cannot be saved: it is function" },
      { ty.save_checkpoint, { "x", { a = { [{}] = 1 } } }, "a: keys must be texts, numbers or booleans, got table" },
      { ty.save_checkpoint, { "x", 1 }, "argument 2 must be a table of parts" },
      { ty.load_checkpoint, { "x", { model = 1 } }, "model must have state_dict and load_state_dict" },
      { ty.load_checkpoint, { "x", ty.nn.Linear(1, 1) }, "argument 2 must be a table of parts by name" },
    } do
      local message = H.raises(case[1], unpack(case[2]))
      assert.truthy(message:find(case[3]), message)
    end
  end)
end)

-- Hostile files --------------------------------------------------------------------------------------------------------

--- Opens bytes as a file and reads all that is in it. Whether it was taken. known: where there is a checksum, what was
--- taken is as it was.
local function digest(format, bytes, known)
  local archive, message = C.parse(format, bytes)
  if not archive then
    if type(message) ~= "string" or not message:find("^bytes: .") then error("no message: " .. tostring(message)) end
    return false
  end
  local all = true
  for i, name in ipairs(C.names(archive)) do
    local t, why = C.read(archive, i)
    if t and known and known[name] then
      local list = H.list(why and #t.shape == 2 and t:t() or t)
      for k, v in ipairs(known[name].values) do
        if #t.shape < 3 and list[k] ~= v then error(name .. " is taken, and is not what it was") end
      end
    end
    if t then t:release() else all = all and type(why) ~= "string" end
  end
  C.metadata(archive)
  C.close(archive)
  return all
end

describe("damage", function()
  it("of any length that is missing is seen", function()
    local n = 0
    for _, f in ipairs(fixtures) do
      for length = 0, #f.bytes - 1 do
        local taken = digest(f.format, f.bytes:sub(1, length))
        n = n + 1
        -- what stands behind the last element may be missing: padding of GGUF, what follows an array
        local spare = f.format == "gguf" and length > #f.bytes - 64 or f.name == "npy and more behind" or f.refused
        if taken and not spare then error(("%s: cut at %d of %d it is taken"):format(f.name, length, #f.bytes)) end
      end
    end
    assert.truthy(n > 50000, n)
  end)

  it("of any bit ends in a message or in a tensor", function()
    local n, taken = 0, 0
    for _, f in ipairs(fixtures) do
      if f.tensors and #f.bytes < 2000 then
        for at = 1, #f.bytes do
          local front, byte, back = f.bytes:sub(1, at - 1), f.bytes:byte(at), f.bytes:sub(at + 1)
          for bit_number = 0, 7 do
            local flipped = front .. string.char(bit.bxor(byte, bit.lshift(1, bit_number))) .. back
            n = n + 1
            if digest(f.format, flipped, f.format == "npz" and f.tensors) then taken = taken + 1 end
          end
        end
      end
    end
    assert.truthy(n > 80000 and taken > 1000 and taken < n, ("%d of %d"):format(taken, n))
  end)

  it("meets memory that is used up at any allocation", function()
    for _, f in ipairs(fixtures) do
      if f.tensors and f.format ~= "npz" then
        local after, done = 0, false
        repeat
          C.starve(after)
          local ok, archive, message = pcall(C.parse, f.format, f.bytes)
          assert.truthy(ok, archive)
          if archive then
            done = true
            for i in ipairs(C.names(archive)) do
              local t, why = C.read(archive, i)
              if not t then done, message = false, why end
            end
          end
          C.starve(-1)
          if not done then assert.truthy(message:find "out of memory", f.name .. ": " .. message) end
          after = after + 1
        until done
        assert.truthy(after > 2)
      end
    end
  end)

  it("meets tensors that find no memory", function()
    local path = folder .. "/starved.safetensors"
    assert(ty.save(path, { a = ty.randn(100), b = ty.randn(7, 3):t() }))
    local turned, refused = ty.ones(7, 3):t(), 0
    for after = 0, 12 do
      H.probe.fail(after, -1)
      local ok, value, message = pcall(ty.load, path)
      H.probe.fail(-1)
      if not (ok and value) then
        assert.truthy(tostring(ok and message or value):find "memory", message)
        refused = refused + 1
      end
      H.probe.fail(after, -1)
      ok, value, message = pcall(ty.save, folder .. "/other.safetensors", { b = turned })
      H.probe.fail(-1)
      if not ok then assert.truthy(tostring(value):find "memory", value) else assert.truthy(value, message) end
    end
    assert.truthy(refused > 0)
    assert.equal(2, count(assert(ty.load(path))))
  end)

  -- Calls of all formats; each answers a value, or nil and why.
  local calls = {
    ["a table of text"] = function() return ty.csv.parse("a,b,c\n1,x,0.5\n2,y,1.5\n3,x,2\n", { types = { b = "category" } }) end,
    ["text of a table"] = function(to) return ty.csv.save(to "t.csv", { n = ty.ones(3), word = { "a", "b", "c" } }) end,
    ["an array"] = function(to)
      local ok, why = ty.save(to "a.npy", ty.ones(3, 2):t())
      if not ok then return nil, why end
      return ty.load(to "a.npy")
    end,
    ["an archive"] = function(to)
      local ok, why = ty.save(to "a.npz", { a = ty.ones(3), b = ty.ones(2, 2):t() })
      if not ok then return nil, why end
      return ty.load(to "a.npz")
    end,
    ["a mapped file"] = function(to)
      local ok, why = ty.save(to "a.safetensors", { a = ty.ones(64) }, { metadata = { k = "v" } })
      if not ok then return nil, why end
      return ty.load(to "a.safetensors", { mmap = true })
    end,
    ["a checkpoint"] = function(to)
      local ok, why = ty.save_checkpoint(to "c", { a = { ty.ones(2), x = "text" } })
      if not ok then return nil, why end
      return ty.load_checkpoint(to "c")
    end,
    ["a loader"] = function(to)
      local loader, n = ty.data.images(to "pictures"):loader { workers = 0 }, 0
      for _ = 1, 2 do
        for x in loader:epoch() do n = n + x:numel() end
      end
      loader:close()
      return n
    end,
    ["a smaller picture"] = function() return ty.image.resize(ty.ones({ 3, 9, 8 }, { dtype = "u8" }), { 4, 5 }) end,
    ["a larger picture of floats"] = function() return ty.image.resize(ty.ones(3, 4, 5), { 9, 7 }) end,
  }
  for _, kind in ipairs { "png", "jpg", "ppm" } do
    calls["a picture: " .. kind] = function(to)
      local ok, why = ty.image.save(to("p." .. kind), ty.ones({ 3, 40, 50 }, { dtype = "u8" }))
      if not ok then return nil, why end
      return ty.image.load(to("p." .. kind))
    end
  end

  it("meets memory that is used up anywhere, in every format, and goes on when there is some", function()
    local here = folder .. "/starved"
    H.make_folder(here .. "/pictures")
    for i = 1, 2 do ty.image.save(("%s/pictures/%d.png"):format(here, i), ty.full({ 3, 2, 2 }, i, { dtype = "u8" })) end
    local function to(name) return here .. "/" .. name end
    for name, call in pairs(calls) do
      assert(call(to)) -- all is loaded
      for what, set in pairs { files = C.starve, core = function(after) H.probe.fail(after, -1) end } do
        local after, ok, value, why = 0, nil, nil, nil -- luacheck: ignore
        repeat
          set(after)
          ok, value, why = pcall(call, to)
          set(-1)
          local text = tostring(ok and why or value)
          if not (ok and value) then assert.truthy(text:find "memory", ("%s, %s, %d: %s"):format(name, what, after, text)) end
          after = after + 1
        until ok and value or after > 400
        assert.truthy(ok and value, name)
        assert(call(to))
      end
    end
  end)

  it("costs no memory: what a file states is compared with what it is", function()
    if H.sanitized then return pending "a sanitizer needs memory of its own" end
    local function u64(n)
      local t = {}
      for i = 1, 8 do
        t[i] = string.char(n % 256)
        n = math.floor(n / 256)
      end
      return table.concat(t)
    end
    local function npy(shape)
      local dict = ("{'descr': '<f8', 'fortran_order': False, 'shape': %s}"):format(shape)
      return "\147NUMPY\1\0" .. string.char(#dict % 256, math.floor(#dict / 256)) .. dict
    end
    local function safe(header) return u64(#header) .. header end
    local many = {}
    for i = 1, 60000 do many[i] = ('"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'):format(i) end
    local pairs_ = {}
    for i = 1, 60000 do pairs_[i] = ('"%d":""'):format(i) end
    local gguf = "GGUF\3\0\0\0"
    local hostile = {
      npy = { npy "(1000000000,)", npy "(4294967296, 4294967296, 4294967296)", npy "(0, 4611686018427387904)",
        npy "(100000000000000,)" },
      safetensors = {
        safe "{" .. ("x"):rep(100), u64(99999999) .. "{",
        safe '{"a":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8000000000]}}',
        safe("{" .. table.concat(many, ",") .. "}"), safe('{"__metadata__":{' .. table.concat(pairs_, ",") .. "}}"),
        safe('{"__metadata__":{"a":"' .. ("x"):rep(9e7) .. '"}}'), safe('{"' .. ("x"):rep(5e7) .. '":' .. ("x"):rep(4e7)),
        safe('{"__metadata__":{"tycho.tree":"{\\"a\\":[' .. ("[],"):rep(5e6) .. '[]]}"}}'),
        safe("{" .. ('"a":{"dtype":"F32"},'):rep(100000) .. "}"), safe(("["):rep(1000000)),
        safe('{"a":' .. ("{"):rep(1000000)),
      },
      gguf = {
        gguf .. u64(1e15) .. u64(0), gguf .. u64(0) .. u64(1e15),
        gguf .. u64(0) .. u64(1) .. u64(1) .. "k\9\0\0\0\0\0\0\0" .. u64(1e12),
        gguf .. u64(0) .. u64(1) .. u64(1) .. "k\9\0\0\0\0\0\0\0" .. u64(2e7) .. ("\1"):rep(2e7), -- 20 million numbers
        gguf .. u64(0) .. u64(1) .. u64(1) .. "k\9\0\0\0\8\0\0\0" .. u64(2e6) .. ("\0"):rep(16e6), -- 2 million texts
        gguf .. u64(0) .. u64(1) .. u64(1) .. "k\9\0\0\0\9\0\0\0" .. u64(1e6) .. ("\0"):rep(12e6), -- 1 million arrays
        gguf .. u64(300000) .. u64(0) .. ("\0"):rep(24 * 300000),
      },
      npz = {},
    }
    write("model.safetensors.index.json", '{"weight_map":{"a":[' .. ("[],"):rep(5e6) .. "[]]}}")
    assert(ty.save(folder .. "/bomb.npz", { x = ty.zeros(20e6) }, { compress = true }))
    local list = { ("%q"):format(folder .. "/bomb.npz") }
    for format, texts in pairs(hostile) do
      for i, text in ipairs(texts) do
        if H.share(i, 2) then list[#list + 1] = ("%q"):format(write(("hostile%d.%s"):format(i, format), text)) end
      end
    end
    local out, status = H.script(H.process .. [[
      local ty = require "tycho"
      ty.load "/absent.npy"
      --- Calls fn, which must not cost more than that many bytes and 64 MB.
      local function cost(what, bytes, fn)
        collectgarbage()
        collectgarbage()
        local peak = io.open("/proc/self/clear_refs", "w")
        peak:write "5" -- the peak begins anew
        peak:close()
        local start = memory "VmRSS"
        local value, why = fn()
        local grown = memory "VmHWM" - start
        print(what, math.floor(grown / 1024), math.floor(bytes / 2 ^ 20), (value and "taken" or why):sub(1, 150))
        if grown * 1024 > bytes + 64 * 2 ^ 20 then print "TOO MUCH" end
      end
      for _, path in ipairs {]] .. table.concat(list, ", ") .. [[} do
        local file = io.open(path, "rb")
        local size, name = file:seek "end", path:match "[^/]*$"
        file:close()
        cost(name, size, function() return ty.load(path) end)
        if path:find "%.safetensors$" then cost(name .. " as a checkpoint", size, function() return ty.load_checkpoint(path) end) end
      end
      cost("index", 16e6, function() return ty.load_weights "]] .. folder .. [[" end)]])
    assert.equal(0, status, out)
    assert.truthy(H.sanitized or not out:find "TOO MUCH", out)
    if os.getenv "TYCHO_SAY" then print(out) end
    assert.truthy(out:find "bomb.npz\t%d+\t%d+\t[^\n]*unpack", out)
    local all = assert(ty.load(folder .. "/bomb.npz", { limit = 2 ^ 30 }))
    assert.equal(20e6, all.x:numel())
  end)

  it("does not follow an index out of its folder", function()
    local path = write("model.safetensors.index.json", '{"weight_map": {"a": "../../etc/passwd"}}')
    local value, message = ty.load_weights(path)
    assert.is_nil(value)
    assert.truthy(message:find "no file beside it", message)
    for _, text in ipairs { "", "{", "[]", '{"weight_map": 1}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": ".."}}',
      '{"weight_map": {"a": "absent.safetensors"}}', ("["):rep(10000) } do
      value, message = ty.load_weights(write("model.safetensors.index.json", text))
      assert.is_nil(value)
      assert.equal("string", type(message))
    end
  end)
end)

describe("JSON", function()
  it("is read as it is defined", function()
    for text, want in pairs {
      ["1"] = 1, ["-0"] = -0.0, ["0.1"] = 0.1, ["1e3"] = 1000, ["-1.5E-2"] = -0.015, ["true"] = true, ['"a"'] = "a",
      ['"\\u00e9\\ud83d\\ude00\\n\\/"'] = "é😀\n/", ['" é"'] = " é", ["[]"] = {}, ["{}"] = {},
      ["[1,[2,{\"a\":[]}]]"] = { 1, { 2, { a = {} } } },
      [' {"a" : 1 , "b":[ true,false ]}\n'] = { a = 1, b = { true, false } }, ["1.7976931348623157e308"] = 1.7976931348623157e308,
    } do
      assert.same(want, C.json(text), text)
    end
    assert.equal(-math.huge, 1 / C.json "-0")
    for _, text in ipairs { "", " ", "01", "1.", ".5", "+1", "1e", "-", "nul", "True", "'a'", '"a', '"\\x"', '"\\u12"', '"\n"', '"\255"',
      '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\237\160\128"', '"\192\128"', '"\244\144\128\128"', "[1,]", "[,1]", "[1 2]", "{1:2}",
      '{"a"}', '{"a":}', '{"a":1,}', '{"a":1 "b":2}', '{"a":1,"a":2}', "[1}", "[", "{", "]", "1 2", "[1]x",
      ("["):rep(129) .. ("]"):rep(129) } do
      local value, message = C.json(text)
      assert.is_nil(value, text)
      assert.truthy(message:find "^JSON: ", text)
    end
    assert.truthy(C.json(("["):rep(128) .. ("]"):rep(128)))
  end)
end)

-- Weights and checkpoints ----------------------------------------------------------------------------------------------

describe("weights of PyTorch", function()
  local function model()
    local nn = ty.nn
    return nn.Module {
      layers = { nn.Linear(4, 6), nn.LayerNorm(6) }, norm = nn.BatchNorm1d(6), head = nn.Linear(6, 2, { bias = false }),
      forward = function(self, x) return self.head(self.norm(self.layers[2](self.layers[1](x):tanh()))) end,
    }:eval()
  end
  local given = fixtures.model
  local directory = folder .. "/shards"
  assert(H.make_folder(directory) and H.make_folder(folder .. "/whole"))
  write("shards/model.safetensors.index.json", given.index)
  for name, hex in pairs(given.shards) do write("shards/" .. name, bytes_of(hex)) end
  write("whole/model.safetensors", bytes_of(given.whole))

  for name, path in pairs { directory = directory, ["directory with a slash"] = directory .. "/",
    index = directory .. "/model.safetensors.index.json", ["one file"] = folder .. "/whole/model.safetensors",
    ["directory of one file"] = folder .. "/whole" } do
    it("load by name from a " .. name, function()
      local m = model()
      local weights = assert(ty.load_weights(path))
      m:load_state_dict(weights, { from = "torch" })
      local x = ty.tensor(given.x.values):reshape(given.x.shape)
      local y = ty.no_grad(m.forward, m, x)
      assert.same(given.y.shape, y.shape)
      for i, v in ipairs(H.list(y)) do assert.truthy(math.abs(v - given.y.values[i]) < 1e-5, i) end
    end)
  end

  it("are missing with a message", function()
    local value, message = ty.load_weights(folder .. "/absent")
    assert.is_nil(value)
    assert.truthy(message:find "holds no model.safetensors", message)
  end)
end)

describe("a checkpoint", function()
  local learner = [[
    local ty = require "tycho"
    local nn, optim = ty.nn, ty.optim
    ty.manual_seed(tonumber(arg[2]))
    local m = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2))
    local opt = optim.OPTIMIZER
    local schedule = optim.CosineLR(opt, { steps = 20 })
    local step = WRAP(function(x, y)
      opt:zero_grad()
      local d = m(x) - y
      local loss = (d * d):mean()
      loss:backward()
      opt:step()
      return loss:detach()
    end)
    local function train(n)
      for _ = 1, n do
        step(ty.randn(16, 8), ty.randn(16, 2)):item()
        schedule:step()
      end
    end
    local parts = { model = m, optimizer = opt, schedule = schedule }
    local path = arg[1]
    if arg[3] == "whole" then train(20)
    elseif arg[3] == "first" then
      train(10)
      parts.step = 10
      assert(ty.save_checkpoint(path, parts))
      return
    else
      local rest = assert(ty.load_checkpoint(path, parts))
      assert(rest.step == 10 and rest.model == m)
      train(10)
    end
    assert(ty.save_checkpoint(path .. "." .. arg[3], parts))]]

  for _, optimizer in ipairs { "Adam(m:parameters(), { lr = 0.01 })", "SGD(m:parameters(), { lr = 0.1, momentum = 0.9 })",
    "AdamW({ { params = { m[1].weight }, lr = 0.02 }, { params = { m[1].bias, m[5].weight } } }, { amsgrad = true })" } do
    for mode, wrap in pairs { compiled = "ty.compile", eager = "(function(f) return f end)" } do
      it(("goes on to the bit in a fresh process: %s, %s"):format(optimizer:match "%w+", mode), function()
        local path = folder .. "/checkpoint"
        local code = learner:gsub("OPTIMIZER", function() return optimizer end):gsub("WRAP", function() return wrap end)
        for i, what in ipairs { "whole", "first", "second" } do
          local out, status = H.script(code, nil, ("'%s' %d %s"):format(path, i <= 2 and 5 or 77, what))
          assert.equal(0, status, out)
        end
        assert.equal(slurp(path .. ".whole"), slurp(path .. ".second"))
        assert.truthy(#slurp(path .. ".whole") > 1000)
      end)
    end
  end

  it("leaves random numbers where they are with {random = false}", function()
    local path, m = folder .. "/random", ty.nn.Linear(1, 1)
    ty.manual_seed(5)
    assert(ty.save_checkpoint(path, { model = m }))
    ty.manual_seed(6)
    local state = ty.random_state()
    assert(ty.load_checkpoint(path, { model = m }, { random = false }))
    assert.equal(state, ty.random_state())
    assert(ty.load_checkpoint(path, { model = m }))
    assert.not_equal(state, ty.random_state())
  end)

  it("keeps tensors whose paths are spelt alike apart", function()
    local path = folder .. "/alike"
    assert(ty.save_checkpoint(path, { a = { b = ty.ones(2) }, ["a.b"] = ty.zeros(3), c = { [1.5] = ty.ones(1) } }))
    local back = assert(ty.load_checkpoint(path))
    assert.same({ { 1, 1 }, { 0, 0, 0 } }, { back.a.b:totable(), back["a.b"]:totable() })
  end)

  it("keeps every number, text and table", function()
    local path = folder .. "/odd"
    local given = {
      numbers = { 0.1, 1 / 3, -0.0, 2 ^ 53, 1e300, 5e-324, math.huge, -math.huge, 0 / 0 }, text = "é\n\"\\\0\255\127", empty = {},
      mixed = { 1, 2, x = 3, [true] = false, [1.5] = "y", ["$tensor"] = "none" }, yes = true, ["a key.1"] = { { { "deep" } } },
      t = ty.randn(2, 3), list = { ty.ones(1), ty.tensor({ 2 ^ 40 }, { dtype = "i64" }) }, ["1"] = "text",
    }
    given.again = given.t
    assert(ty.save_checkpoint(path, given))
    local state = ty.random_state()
    local back = assert(ty.load_checkpoint(path))
    assert.equal(state, ty.random_state())
    for i, v in ipairs(given.numbers) do
      local w = back.numbers[i]
      assert.truthy(v ~= v and w ~= w or v == w and 1 / v == 1 / w, i)
    end
    H.same(given.t, back.t)
    H.same(given.t, back.again)
    H.same(given.list[2], back.list[2])
    for _, name in ipairs { "numbers", "t", "again", "list" } do given[name], back[name] = nil, nil end
    assert.same(given, back)
  end)

  it("takes whatever has state_dict and load_state_dict", function()
    local path = folder .. "/scaler"
    local p = ty.ones(2):requires_grad_()
    local function make()
      local opt = ty.optim.SGD({ p }, { lr = 1 })
      return { scaler = ty.optim.GradScaler(), plateau = ty.optim.ReduceLROnPlateau(opt, { patience = 0 }), opt = opt }
    end
    local a, b = make(), make()
    a.scaler.factor, a.scaler.good = 128, 3
    a.plateau:step(1)
    a.plateau:step(2)
    assert(ty.save_checkpoint(path, a))
    local parts = assert(ty.load_checkpoint(path, b))
    assert.equal(b.scaler, parts.scaler)
    assert.same({ factor = 128, good = 3 }, b.scaler:state_dict())
    assert.same(a.plateau:state_dict(), b.plateau:state_dict())
    assert.equal(0.1, b.opt.groups[1].lr)
  end)

  it("is saved and loaded inside compiled functions as outside", function()
    local path, calls = folder .. "/inside.npy", 0
    local f = ty.compile(function(x)
      local y = x * 2
      ty.save(path, y)
      calls = calls + 1
      return ty.load(path) + 1, ty.files.npy.load(path)
    end)
    for i = 1, 4 do
      local a, b = f(ty.full({ 3 }, i))
      assert.same({ 2 * i + 1, 2 * i + 1, 2 * i + 1 }, a:totable())
      assert.same({ 2 * i, 2 * i, 2 * i }, b:totable())
      assert.equal(i, calls)
    end
  end)

  it("is read in each call of a compiled function, by whichever name", function()
    local path = folder .. "/again.npy"
    local reads = { ty.load, ty.files.npy.load, function(p) return ty.files.npy.load(p) * 1 end }
    for _, read in ipairs(reads) do
      local f = ty.compile(function(x) return read(path), x + 1 end)
      for i = 1, 4 do
        ty.save(path, ty.full({ 3 }, i))
        assert.same({ i, i, i }, (f(ty.ones(1))):totable())
      end
    end
  end)

  it("that could not be read again is not written", function()
    local long = {}
    for i = 1, 3e6 do long[i] = i % 7 end
    local message = H.raises(ty.save_checkpoint, folder .. "/long", { list = long })
    assert.truthy(message:find "save_checkpoint: JSON: .*memory.*as tensors", message)
    assert.is_nil(io.open(folder .. "/long"))
    assert(ty.save_checkpoint(folder .. "/long", { list = ty.tensor(long) }))
    local deep = {}
    for _ = 1, 60 do deep = { deep } end
    assert.truthy(H.raises(ty.save_checkpoint, folder .. "/deep", { deep = deep }):find "without end")
  end)

  it("is the old one or the new one, whenever its process is killed", function()
    local path = folder .. "/killed"
    local code = [[
      local ty = require "tycho"
      local n = tonumber(arg[2])
      while true do
        n = n + 1
        assert(ty.save_checkpoint(arg[1], { n = n, t = ty.full({ 1000000 }, n) }))
      end]]
    local last = 0
    for _, after in ipairs { 0.15, 0.21, 0.27, 0.33 } do
      local script = write("killed.lua", code)
      os.execute(("timeout -s KILL %g luajit '%s' '%s' %d >/dev/null 2>&1"):format(after, script, path, last))
      local parts = ty.load_checkpoint(path)
      if parts then
        assert.truthy(parts.n >= last)
        H.same(ty.full({ 1000000 }, parts.n), parts.t)
        last = parts.n
      end
    end
    assert(last > 0 or H.sanitized, "nothing was written")
  end)

  it("is a file of safetensors that says what is in it", function()
    local path = folder .. "/plain.safetensors"
    assert(ty.save_checkpoint(path, { model = ty.nn.Linear(2, 3), step = 5 }))
    local tensors, metadata = ty.load(path)
    assert.same({ 2, 3 }, tensors["model.weight"].shape)
    assert.equal(5, C.json(metadata["tycho.tree"]).step)
  end)

  it("leaves all parts as they were where one does not fit", function()
    local path = folder .. "/fits"
    local function parts(optimizer)
      local list = {}
      for i = 1, 4 do
        local m = ty.nn.Linear(2, 3)
        list["model" .. i], list["optimizer" .. i] = m, optimizer(m:parameters(), { lr = 0.1, momentum = 0.9 })
      end
      return list
    end
    assert(ty.save_checkpoint(path, parts(ty.optim.SGD)))
    for wrong = 1, 4 do
      local into = parts(ty.optim.SGD)
      for i = 1, 4 do
        into["model" .. i](ty.ones(1, 2)):sum():backward()
        into["optimizer" .. i]:step()
      end
      into["model" .. wrong] = ty.nn.Linear(3, 3)
      local function weights()
        local list = {}
        for i = 1, 4 do
          list[i] = into["model" .. i].weight:totable()
          list[4 + i] = {}
          for k, v in pairs(into["optimizer" .. i]:state_dict().groups[1].state[1]) do
            list[4 + i][k] = ty.is_tensor(v) and v:totable() or v
          end
        end
        return list
      end
      local before, random = weights(), ty.random_state()
      assert.truthy(H.raises(ty.load_checkpoint, path, into):find "weight")
      assert.same(before, weights())
      assert.same(random, ty.random_state())
    end
  end)

  it("is refused where it is none, is damaged, or lacks a part", function()
    local path = folder .. "/refused"
    local m = ty.nn.Linear(2, 3)
    assert(ty.save_checkpoint(path, { model = m }))
    local whole = slurp(path)
    local value, message = ty.load_checkpoint(path, { optimizer = ty.optim.SGD(m:parameters(), { lr = 1 }) })
    assert.is_nil(value)
    assert.truthy(message:find "no state of optimizer", message)
    for length = 0, #whole - 1, 7 do
      assert.is_nil((ty.load_checkpoint(write("refused", whole:sub(1, length)))))
    end
    local t = { ["model.weight"] = ty.ones(2, 3) }
    for metadata, why in pairs {
      [""] = "is no checkpoint", ['{"model":{"weight":{"$tensor":"absent"}}}'] = "not there", ["{"] = "JSON", ["1"] = "no object",
      ['{"a":{"$pairs":[[{"$number":"nan"},1]]}}'] = "not there", ['{"a":{"$pairs":1}}'] = "not there",
      ['{"a":{"$bytes":"zz"}}'] = "not there",
      ['{"a":{"$what":1}}'] = "not there",
      ["{}"] = "tycho.random is damaged",
    } do
      assert(ty.save(path .. ".safetensors", t, { metadata = metadata ~= ""
        and { ["tycho.tree"] = metadata, ["tycho.random"] = "no number" } or {} }))
      value, message = ty.load_checkpoint(path .. ".safetensors", {})
      assert.is_nil(value)
      assert.truthy(message:find(why), message)
    end
    assert(ty.save_checkpoint(path, { model = m }))
    assert.truthy(H.raises(ty.load_checkpoint, path, { model = ty.nn.Linear(3, 3) }):find "load_state_dict")
  end)
end)

describe("an archive with the end of large ones", function()
  --- The bytes of an npz whose counts stand in a record of zip64.
  local function zip64(bytes, members)
    local function le(v, n)
      local y = {}
      for i = 1, n do y[i] = string.char(math.floor(v / 256 ^ (i - 1)) % 256) end
      return table.concat(y)
    end
    local function number(s, from, n)
      local v = 0
      for i = n - 1, 0, -1 do v = v * 256 + s:byte(from + i) end
      return v
    end
    local tail = bytes:sub(-22)
    assert.equal("PK\5\6", tail:sub(1, 4))
    local record = "PK\6\6" .. le(44, 8) .. le(45, 2) .. le(45, 2) .. le(0, 8) .. le(members, 8) .. le(members, 8)
      .. le(number(tail, 13, 4), 8) .. le(number(tail, 17, 4), 8)
    local locator = "PK\6\7" .. le(0, 4) .. le(#bytes - 22, 8) .. le(1, 4)
    return bytes:sub(1, -23) .. record .. locator .. tail:sub(1, 8) .. "\255\255\255\255" .. tail:sub(13)
  end

  it("is read, and refused where it states more members than can be", function()
    local path = folder .. "/zip64.npz"
    assert(ty.save(path, { a = ty.tensor { 1, 2, 3 }, b = ty.ones(2, 2) }))
    local bytes = slurp(path)
    local back = assert(ty.load(write("large.npz", zip64(bytes, 2))))
    assert.same({ { 1, 2, 3 }, { { 1, 1 }, { 1, 1 } } }, { back.a:totable(), back.b:totable() })
    local value, why = ty.load(write("large.npz", zip64(bytes, 2 ^ 40)))
    assert.is_nil(value)
    assert.truthy(why:find("large.npz: states 1099511627776 members, at most %d+ are read"), why)
  end)
end)

describe("the state of random numbers", function()
  it("is taken up where it was left", function()
    ty.manual_seed(11)
    ty.rand(3)
    local state = ty.random_state()
    local a = ty.randn(5)
    ty.manual_seed(12)
    assert.equal(state, ty.random_state(state))
    H.same(a, ty.randn(5))
    assert.truthy(H.raises(ty.random_state, "x"):find "random_state")
    assert.truthy(H.raises(ty.random_state, 5):find "random_state")
  end)

  teardown(function() H.remove_folder(folder) end) -- the last of this file
end)
