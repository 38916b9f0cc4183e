--- levels_spec.lua -- core has a folder for each level: a file uses its own level and lower ones, in words and in code.

local H = require "spec.helper"

--- In the order in which they stand on each other.
local LEVELS = { "base", "ir", "record", "compile", "device", "engine", "lua" }

--- Where a level calls a higher one all the same: through a pointer that the higher one gave it, and why.
local CALLBACKS = {
  ["record/tensor.h cut"] = "a value that is read is computed: the engine plans and runs",
  ["record/tensor.h recorded"] = "TYCHO_DUMP=r shows each operation as it is recorded",
  ["record/tensor.h quick"] = "an eager operation of a usual kind needs no graph",
  ["record/tensor.h forget"] = "what was packed of a buffer's contents goes with them",
  ["record/tensor.h drop"] = "memory of others' is theirs to free",
  ["record/grad.h drop"] = "what a gradient of the user's keeps is Lua's",
  ["record/grad.h write"] = "an assignment is recorded as record_write.c does it",
  ["engine/engine.h say"] = "dumps go where the host wants them",
  ["engine/entry.h on_cut"] = "jit.graph hears of each cut",
}

local level = {}
for i, name in ipairs(LEVELS) do level[name] = i end

local function lines_of(command)
  local list, pipe = {}, io.popen(("cd '%s' && %s"):format(H.root, command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function level_of(path, prefix) return level[path:match("^" .. prefix .. "([%w_]+)/")] end

describe("the levels of core", function()
  it("are all there is but formats, which are a library of their own", function()
    for _, folder in ipairs(lines_of "ls -d core/*/") do
      local name = folder:match "core/([%w_]+)/"
      assert.truthy(level[name] or name == "file", folder)
    end
  end)

  it("include downwards only", function()
    local seen = 0
    for _, path in ipairs(lines_of "find core -name '*.[ch]'") do
      local own = level_of(path, "core/")
      for included in H.read(path):gmatch '#include "([%w_/]+%.h)"' do
        local other = level_of(included, "")
        seen = seen + 1
        if own and other then assert.truthy(other <= own, ("%s includes %s from above"):format(path, included)) end
      end
    end
    assert.truthy(seen > 200, seen)
  end)

  --- Who defines and who needs which symbol, by object whose source is there.
  local function symbols()
    local sources, defined, needed = {}, {}, {}
    for _, path in ipairs(lines_of "find core -name '*.c'") do sources[path:match "^core/(.*)%.c$"] = true end
    for _, line in ipairs(lines_of "find build/obj -name '*.o' -exec nm -A {} +") do
      local object, kind, name = line:match "^build/obj/([%w_/]+)%.o:%x*%s+(%a) ([%w_.]+)$"
      if not sources[object] then kind = nil end
      if kind == "U" then
        needed[#needed + 1] = { object, name }
      elseif kind and kind:upper() == kind then
        defined[name] = object
      end
    end
    return defined, needed
  end

  it("link downwards only", function()
    local defined, needed = symbols()
    local seen = 0
    for _, pair in ipairs(needed) do
      local object, name = pair[1], pair[2]
      local from = defined[name]
      local own, other = level_of(object, ""), from and level_of(from, "")
      if own and other then
        seen = seen + 1
        assert.truthy(other <= own, ("%s needs %s of %s, from above"):format(object, name, from))
      end
    end
    assert.truthy(seen > 1000, seen)
  end)

  it("call upwards by few pointers, each for a reason", function()
    local found = {}
    for _, path in ipairs(lines_of "ls core/*/*.h") do
      local file = path:match "^core/(.*)$"
      if file:find "^record/" or file:find "^compile/" or file:find "^engine/" or file:find "^ir/" or file:find "^base/" then
        local text = H.read(path):gsub("/%*.-%*/", " ")
        for name in text:gmatch "%(%*([%a_][%w_]*)%)%(" do found[file .. " " .. name] = true end
      end
    end
    local n = 0
    for key in pairs(found) do
      n = n + 1
      assert.truthy(CALLBACKS[key], key .. " is no callback that is known")
    end
    for key in pairs(CALLBACKS) do assert.truthy(found[key], key .. " is gone") end
    assert.truthy(n <= 10, n)
  end)
end)
