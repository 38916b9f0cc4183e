--- collect_spec.lua -- Lua's collector at every boundary: while a call is captured, answered by a trace or run, each
-- allocation ends a whole cycle, in which a finaliser calls, resets, captures, releases, writes. Results are those of
-- plain Lua to the bit. collected.lua does it, in processes of their own.

local H = require "spec.helper"

--- Runs collected.lua; it must end well, after so many cycles at least.
local function collected(words, least)
  local pipe = io.popen(("cd '%s.' && LUA_PATH=\"./?.lua;$LUA_PATH\" luajit spec/collected.lua %s 2>&1; echo \"status $?\"")
    :format(H.root, words))
  local out = pipe:read "*a"
  pipe:close()
  assert.equal("0", out:match "status (%d+)", words .. ": " .. out)
  assert.truthy(tonumber(out:match "(%d+) cycles") >= least, words .. ": " .. out)
end

describe("while each allocation ends a cycle of the collector, programs give what plain Lua gives", function()
  it("with finalisers that do nothing", function() collected("nothing", 3000) end)
  it("with finalisers that start the collector again", function() collected("restart 1", 3000) end)
  it("with finalisers that run the function that is being captured or called", function() collected("call", 3000) end)
  it("with finalisers that capture other calls of a function", function() collected("sizes", 3000) end)
  it("with finalisers that take the trace away, and make others", function() collected("again", 3000) end)
  for seed = 1, 2 do
    it("with finalisers that do something of all that there is, seed " .. seed, function()
      collected("random " .. seed, 3000)
    end)
  end
end)

describe("in worlds and cells of other specs", function()
  it("no claim is broken by the collector", function()
    collected("nothing worlds_spec 4", 1000)
    collected("nothing matrix_spec 90", 2000)
  end)
  it("results stay, whatever finalisers call", function() collected("random worlds_spec 12", 1000) end)
end)

describe("finalisers", function()
  it("of ours may let go of anything while a function is captured", function() collected("waiting nothing", 100) end)
  it("of users' that use tensors end a capture, and meet all as it was before", function()
    collected("waiting counts", 100)
  end)
  it("that raise end a call that is not begun, or none", function() collected("raise", 300) end)
  it("count what compiled functions count, and no count is lost", function() collected("counters", 300) end)
  it("may call functions that are garbage themselves", function() collected("dead", 1) end)
  it("may release and rewrite what any function works on", function() collected("hostile", 5000) end)
  it("leave no more behind than jit.reset leaves, which is nothing", function() collected("forgotten", 1) end)
end)
