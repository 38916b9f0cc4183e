--- embed_spec.lua -- the C API (core/tycho.h): programs in C and C++ that are built by a compiler alone call models, with the
--- results of Lua to the bit; wrong use, limits, threads and failing allocators give codes and sentences.
-- embed.c holds the claims that need a host in C, one process each.

local H = require "spec.helper"
local ty = H.ty

local root = io.popen("cd '" .. H.root .. "' && pwd"):read "*l" .. "/"
-- Another build, and what links with its objects: make asan, make coverage.
local B, LINK = os.getenv "TYCHO_BUILD" or "build", os.getenv "TYCHO_LINK" or ""
local build = root .. B .. "/"
local here = build .. "spec/"
local LIBS = "-lm -ldl -lpthread " .. LINK

--- What a command prints, and its status.
local function run(command) return require("spec.module").run(("cd '%s'; %s"):format(H.root, command)) end

--- Builds a program; gives its path.
local function program(name, command)
  local out, status = run(("mkdir -p '%s' && %s -I%s/include -o '%s'"):format(here, command, B, here .. name))
  assert(status == 0, out)
  return here .. name
end

local ARCHIVE = B .. "/libtycho.a "
local STATIC, SHARED = ARCHIVE .. LIBS, ("-L%s -ltycho -Wl,-rpath,'%s' %s"):format(B, build, LINK)

--- The directory of LuaJIT's headers, or nil.
local function headers()
  for _, dir in ipairs { "/usr/include/luajit-2.1", "/usr/local/include/luajit-2.1" } do
    local f = io.open(dir .. "/lua.h")
    if f then
      f:close()
      return dir
    end
  end
end

describe("a program in C", function()
  local model, weights = root .. "examples/embed/model.lua", root .. "examples/embed/model.safetensors"

  --- What the example prints, by Lua.
  local function expected()
    local agent = assert(loadfile(model))(assert(ty.load_weights(weights)))
    local lines = {}
    for i, state in ipairs { { 0.1, -0.4, 0.7, 0.2 }, { 1, 2, 3, 4 }, { -1, 0, 1, 0 } } do
      local y = agent:forward(ty.tensor { state }, 0.5)
      lines[i] = ("frame %d: action %d, chances %a %a\n"):format(i - 1, y.action:get(1), y.chance:get(1, 1), y.chance:get(1, 2))
    end
    return table.concat(lines)
  end

  for kind, libs in pairs { static = STATIC, shared = SHARED } do
    it("is built by cc alone and has Lua's bits: " .. kind, function()
      local path = program("embed_" .. kind, "cc -Wall -Wextra -Werror examples/embed/main.c " .. libs)
      local out, status = run(("'%s' '%s' '%s' 2>/dev/null"):format(path, model, weights))
      assert.equal(0, status, out)
      assert.equal(expected(), out)
      out = run(("cd examples/embed && '%s' 2>&1 >/dev/null"):format(path)) -- its own files, and which LuaJIT runs
      assert.truthy(out:find "^LuaJIT 2%.", out)
    end)
  end

  it("is a game loop whose model learns in slices of its frames", function()
    local path = program("embed_catch", "cc -Wall -Wextra -Werror examples/embed/catch.c " .. STATIC)
    local out, status = run(("cd examples/embed && '%s' 240 1500"):format(path))
    assert.equal(0, status, out)
    local median = tonumber(out:match "^frames +240 at 60 a second, %d+ of them late\nin Tycho +median ([%d.]+) ms")
    assert.truthy(median and median < 8, out) -- half a frame, on a machine that may be busy
    assert.truthy(tonumber(out:match "training +(%d+) steps of 256 samples") > 10, out)
    assert.truthy(out:find "caught +%d+ of 100 in the first two seconds, %d+ in the last two\n$", out)
  end)

  it("says what is wrong with its files", function()
    local path = program("embed_static", "cc examples/embed/main.c " .. STATIC)
    local out, status = run(("'%s' /no/model.lua"):format(path))
    assert.equal(1, status)
    assert.truthy(out:find("load: TY_FAILED: ty_load: /no/model.lua: cannot be opened: No such file", 1, true), out)
  end)

  it("may be in C++", function()
    local path = program("embed_cpp", "g++ -std=c++11 -Wall -Wextra -Wpedantic -Werror spec/embed.cpp " .. STATIC)
    local out, status = run(("'%s' '%s' '%s'"):format(path, model, weights))
    assert.equal(0, status, out)
    assert.equal(expected(), out)
  end)

  it("finds a header that is C99", function()
    local flags = "-std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -x c"
    local out, status = run(("echo '#include <tycho.h>' | cc %s -I%s/include -"):format(flags, B))
    assert.equal(0, status, out)
  end)
end)

describe("the library", function()
  it("shows ty_* alone, and needs nothing but the C library", function()
    if LINK ~= "" then return pending "this build is instrumented" end
    for _, name in ipairs { "nm -g --defined-only " .. ARCHIVE, "nm -D --defined-only " .. build .. "libtycho.so" } do
      local out, seen = run(name), 0
      for symbol in out:gmatch "%x+ %a ([%w_.]+)" do
        seen = seen + 1
        assert.truthy(H.read("core/tycho.h"):find("[ *]" .. symbol .. "%("), symbol .. " is not in tycho.h")
      end
      assert.truthy(seen > 18, seen)
    end
    assert.equal("", (run("nm -u " .. ARCHIVE .. " | grep -E ' U (lua|ty_)'")))
    assert.equal("", (run("nm -u " .. ARCHIVE .. " | grep -wE 'abort|_?exit|_Exit|setlocale|printf|puts|putchar|perror|__assert_fail'")))
    assert.equal("", (run("readelf -d " .. build .. "libtycho.so | grep NEEDED | grep -vE 'lib(c|m|dl|pthread)\\.so|ld-linux'")))
  end)

  it("has every function of its header", function()
    local out, seen = run("nm -g --defined-only " .. ARCHIVE), 0
    for name in H.read("core/tycho.h"):gmatch "TY_API [^;(]-[ *](ty_[%w_]+)%(" do
      seen = seen + 1
      assert.truthy(out:find(" T " .. name .. "\n", 1, true), name)
    end
    assert.truthy(seen > 18, seen)
  end)
end)

local claims = {
  arrays = "takes and gives arrays of every dtype and rank",
  complex = "computes with complex numbers",
  strides = "takes strides of any sign, and elements at odd addresses",
  values = "takes and gives numbers, booleans, strings and tables",
  numbers = "captures nothing anew for another number",
  borrowed = "writes to no argument, and reads none after the call",
  results = "keeps results while other models write to what they are",
  paths = "reads files whatever letters their names have",
  errors = "answers wrong use with a code and a sentence",
  wild = "outlives what Lua does wrong",
  limits = "keeps a limit of memory",
  deadlines = "keeps a limit of time, in operations and in loops",
  logs = "tells the host, who may not call back",
  quiet = "neither prints nor handles signals, whatever fails",
  setups = "refuses half a host",
  threads = "runs one model in 16 threads over the same weights",
  weights = "shares weights, and copies them for who writes",
  contention = "tells threads that use one engine at the same time",
  steps = "gives a call in slices the results of a plain one, all at once, when it is done",
  cancels = "leaves a call in slices undone, and shows nothing of it",
  step_errors = "ends a call in slices by errors, and at its limits",
  step_limits = "counts all steps of a call together, and leaves LuaJIT's code as it is",
  starved = "loses nothing, whichever allocation fails",
  starved_steps = "loses nothing, whichever allocation of a call in slices fails",
}

describe("an engine", function()
  local path = program("embed_claims", "cc -O1 -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE spec/embed.c " .. STATIC)

  for _, name in ipairs(H.sorted(claims)) do
    it(claims[name], function()
      local out, status = run(("timeout 200 '%s' %s '%sembed.safetensors'"):format(path, name, here))
      assert.equal(0, status, out)
    end)
  end

  it("does not ask for the locale, and leaves it as it is", function()
    run(("mkdir -p '%slocale' && localedef -i de_DE -f UTF-8 '%slocale/de_DE.UTF-8'"):format(here, here))
    local out, status = run(("LOCPATH='%slocale' '%s' locales '%sembed.safetensors'"):format(here, path, here))
    if status == 77 then return pending "there is no locale with commas, and the package `locales` is not installed" end
    assert.equal(0, status, out)
  end)

  local cuda = require "spec.cuda"
  local probe = cuda.soft and it or pending
  probe("works on a CUDA device with the CPU's bits, learns there, in threads and slices, and says nothing to stderr", function()
    local settings = "TYCHO_CUDA_DRIVER='%slibcuda.so' TYCHO_CACHE=off TYCHO_NVJITLINK=off TYCHO_CUDA_LATE=1 TYCHO_LOG=1"
    settings = settings:format(here)
    local out, status = run(("%s timeout 200 '%s' device '%sembed.safetensors' 2>&1"):format(settings, path, here))
    assert.equal(0, status, out)
    assert.equal("", out)
    local example = program("embed_device", "cc -Wall -Wextra -Werror examples/embed/main.c " .. SHARED)
    local function printed(device)
      local text, code = run(("cd examples/embed && %s '%s' model.lua model.safetensors %s 2>/dev/null"):format(settings, example, device))
      assert.equal(0, code, text)
      return text
    end
    assert.equal(printed "cpu", printed "cuda")
  end)

  it("has the same bits by the host's threads", function()
    local by_host, status = run(("'%s' jobs"):format(path))
    assert.equal(0, status, by_host)
    assert.equal(by_host, (run(("'%s' no_jobs"):format(path))))
  end)

  it("reads and writes no memory but its own, and gives it back", function()
    if run("command -v valgrind") == "" then return pending "valgrind is not installed" end
    if LINK ~= "" then return pending "this build is instrumented" end
    for i, name in ipairs { "borrowed", "weights" } do
      if H.share(i, 2) then
        local out, status = run(("valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "
          .. "--error-exitcode=9 '%s' %s '%sembed.safetensors'"):format(path, name, here))
        assert.equal(0, status, out)
        assert.equal("", out)
      end
    end
  end)
end)

describe("an engine in a host's Lua state", function()
  --- LuaJIT's static library, or nil.
  local static = run("ls /usr/lib/*/libluajit-5.1.a /usr/local/lib/libluajit-5.1.a 2>/dev/null"):match "[^\n]+"
  local opened = "TY_FAILED: ty_open: the Lua state has no `package`: open its libraries by luaL_openlibs\n"
    .. "TY_FAILED: ty_open: an engine is open in this Lua state; close it before\n"

  for kind, libs in pairs {
    ["libtycho.a, a shared LuaJIT"] = STATIC .. " -lluajit-5.1",
    ["libtycho.so, a shared LuaJIT"] = "-lluajit-5.1 " .. SHARED,
    ["libtycho.a, a static LuaJIT without -Wl,-E"] = static and ARCHIVE .. static .. " " .. LIBS,
    ["libtycho.so, a static LuaJIT"] = static and static .. " " .. LIBS .. " " .. SHARED,
  } do
    it("opens, closes and opens again: " .. kind, function()
      local dir = headers()
      if not dir or not libs then return pending "LuaJIT's headers or library are missing" end
      local path = program("embed_host", ("cc -I'%s' spec/embed_host.c %s"):format(dir, libs))
      local out, status = run(("'%s'"):format(path))
      assert.equal(0, status, out)
      assert.equal(opened, out:sub(1, #opened))
      assert.equal(2, select(2, out:gsub("LuaJIT [^\n]- %(linked%)\n4 6 top 1\n", "")), out)
    end)
  end

  it("says that another Lua is not LuaJIT", function()
    local lua = "/usr/include/lua5.1"
    if not io.open(lua .. "/lua.h") then return pending "PUC Lua 5.1 is not installed" end
    local path = program("embed_puc", ("cc -I%s spec/embed_host.c %s -llua5.1"):format(lua, STATIC))
    local out, status = run(("'%s'"):format(path))
    assert.equal(1, status)
    assert.truthy(out:find("TY_NO_LUAJIT: ty_open: the Lua of this program is not LuaJIT", 1, true), out)
  end)
end)

describe("require in a host that core.so cannot use", function()
  it("says that PUC Lua is not LuaJIT", function()
    if run("command -v lua5.1") == "" then return pending "PUC Lua 5.1 is not installed" end
    local out, status = run("LUA_PATH='build/?.lua;build/?/init.lua' LUA_CPATH='build/?.so' lua5.1 -e 'require \"tycho\"'")
    assert.equal(1, status)
    assert.truthy(out:find "this Lua is not LuaJIT %(Lua 5.1 has no [%w_]+%): Tycho needs LuaJIT 2.1", out)
  end)

  it("says that a program shows no functions", function()
    local dir, static = headers(), run("ls /usr/lib/*/libluajit-5.1.a 2>/dev/null"):match "[^\n]+"
    if not dir or not static then return pending "LuaJIT's headers or static library are missing" end
    local source = here .. "mute.c"
    local f = assert(io.open(source, "w"))
    f:write [[
      #include <lauxlib.h>
      #include <lualib.h>
      #include <stdio.h>
      int main(void) {
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        if (luaL_dostring(L, "require 'tycho'")) puts(lua_tostring(L, -1));
        return 0;
      }
    ]]
    f:close()
    local path = program("mute", ("cc -I'%s' '%s' %s -lm -ldl"):format(dir, source, static))
    local out = run(("LUA_PATH='build/?.lua;build/?/init.lua' LUA_CPATH='build/?.so' '%s'"):format(path))
    assert.truthy(out:find("the program does not show its Lua's functions to modules (lua", 1, true), out)
    assert.truthy(out:find("link it with -Wl,-E", 1, true), out)
  end)
end)
