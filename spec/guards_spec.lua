--- The table of guard instructions (core/lua/lua_guard.h): all that must know a row is generated from it or does not
--- compile without it.

local H = require "spec.helper"
local ty = H.ty
local description = require "spec.description"
local tape = require "tycho.capture.tape"
local rows = ty.internals.capture.guards

local HEAD = "core/lua/lua_guard.h"

local function read(path)
  local f = assert(io.open(H.root .. path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

--- Whether a source compiles beside a head in which `from`, which stands once in it, is `to`; what the compiler says.
local function compiles(source, from, to)
  local text = read(HEAD)
  local at, last = text:find(from, 1, true)
  assert(at and not text:find(from, last + 1, true), from)
  local folder = os.tmpname()
  os.remove(folder)
  assert(H.shell(("mkdir -p '%s/lua'"):format(folder)))
  local f = assert(io.open(folder .. "/lua/lua_guard.h", "wb"))
  f:write(text:sub(1, at - 1), to, text:sub(last + 1))
  f:close()
  local said = folder .. "/said"
  local ok = H.shell(("cd '%s' && gcc -std=c11 -fsyntax-only -Wall -Wextra -Werror -D_GNU_SOURCE -I'%s' -Icore -I. "
    .. "-I/usr/include/luajit-2.1 -I/usr/local/include/luajit-2.1 %s 2>'%s'"):format(H.root, folder, source, said))
  f = assert(io.open(said, "rb"))
  local out = f:read "*a"
  f:close()
  H.shell(("rm -r '%s'"):format(folder))
  return ok, out
end

local WHOLE = "_(WHOLE, "

describe("the table of guard instructions", function()
  it("compiles as it is", function()
    for _, source in ipairs { "core/lua/lua_guard_run.c", "core/lua/lua_capture.c", "core/lua/lua_guard.c" } do
      local ok, out = compiles(source, WHOLE, WHOLE)
      assert.truthy(ok, out)
    end
  end)

  it("takes no row that the guard loop does not run", function()
    local ok, out = compiles("core/lua/lua_guard_run.c", WHOLE, '_(MORE, "more", OUTCOME, 0, O1(NUMBER), 0) \\\n' .. WHOLE)
    assert.falsy(ok)
    assert.truthy(out:find("G_MORE", 1, true), out)
  end)

  it("loses no row that the guard loop runs", function()
    local ok, out = compiles("core/lua/lua_guard_run.c", "_(EQ, ", "#define IGNORE _(EQ, ")
    assert.falsy(ok, out)
  end)

  it("takes no operand that the reader of descriptions cannot read", function()
    for _, source in ipairs { "core/lua/lua_capture.c", "core/lua/lua_guard.c" } do
      local ok, out = compiles(source, "ON_OUTCOME /*", "ON_MORE, ON_OUTCOME /*")
      assert.falsy(ok)
      assert.truthy(out:find("ON_MORE", 1, true), out)
    end
  end)

  it("takes no kind without a name in Lua", function()
    local ok, out = compiles("core/lua/lua_guard.c", "GUARD_OUTCOME /*", "GUARD_MORE, GUARD_OUTCOME /*")
    assert.falsy(ok)
    assert.truthy(out:find("GUARD_MORE", 1, true), out)
  end)

  it("has just the instructions that the model of a trace knows", function()
    for name in pairs(rows) do assert.truthy(description.shapes[name], name) end
    for name, shape in pairs(description.shapes) do
      assert.truthy(rows[name], name)
      local kind = shape:find("+", 1, true) and "read" or shape:find("#", 1, true) and "number"
      assert.equal(kind or shape:find "^n+b$" and "outcome" or "check", rows[name].kind, name)
      assert.equal(#(shape:gsub("[+#]", "")), #rows[name].operands, name)
    end
  end)

  it("is replayed for other sizes row by row", function()
    for name, row in pairs(rows) do assert.truthy(tape.replays(row.kind, name), name) end
  end)

  it("tells in explain's lines only operands that the row has", function()
    for name, row in pairs(rows) do
      for column in (row.text or ""):gmatch "%$(%d)" do assert.truthy(row.operands[column - 1], name) end
      if row.text and row.text:find("|", 1, true) then assert.equal("outcome", row.operands[#row.operands], name) end
    end
  end)
end)

describe("the table of native functions", function()
  local natives = require "tycho.capture.native_table"
  local names = require "tycho.capture.names"

  it("has a row for each function of Lua's own libraries that computes", function()
    for f, name in pairs(names.library) do
      local lib = name:match "^(%w+)%."
      local computes = not lib or lib == "string" or lib == "table" or lib == "math" or lib == "bit"
      local own = debug.getinfo(f, "S").what == "C" -- specs' runners add functions of theirs
      if computes and own then assert.truthy(natives.library[name], name) end
    end
  end)

  it("names functions that are there, and what they do to a capture", function()
    local purities = { pure = true, reads = true, writes = true, state = true }
    local captures = { call = true, draw = true, unary = true, binary = true, fold = true, model = true, setting = true, abort = true,
      itself = true }
    local there = {}
    for _, name in pairs(names.of(ty)) do there[name] = true end
    for name in pairs(natives.tycho) do assert.truthy(there[name] or rawget(ty.jit or jit, name), name) end
    for _, list in pairs { natives.library, natives.tycho } do
      for name, row in pairs(list) do assert.truthy(purities[row.purity] and captures[row.capture], name) end
    end
  end)

  it("decides whether a capture calls, computes or gives up", function()
    local function why(f)
      local c = ty.compile(f, { parts = false })
      c(2.25)
      local e = ty.explain(c)
      return e.aborts[1] and e.aborts[1].text:match ": (.*)" or "captured"
    end
    assert.equal("captured", why(function(x) return string.upper "a", x end))
    assert.equal("captured", why(function(x) return math.fmod(x, 2) + math.max(x, 1, 3) end))
    assert.equal("captured", why(function(x) return x + math.random() end))
    assert.equal("calls math.random (use ty.rand, or pass the number as an argument)",
      why(function(x) return x + math.random(0.5) end))
    assert.equal("calls string.dump (call it outside of the compiled function)",
      why(function(x) return #string.dump(why) + x end))
    assert.equal("captured", why(function(x) return x, ty.default_dtype() end))
    assert.equal("default_dtype changes or shows what is no part of a trace (call it outside of the compiled function)",
      why(function(x) return x, ty.default_dtype "f32" end))
  end)
end)
