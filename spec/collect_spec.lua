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
  local least = H.cases(1000, 3000)
  local first = H.cases(2, 1) -- without the program that has by far the most cycles, which others of these rows run
  it("with finalisers that do nothing", function() collected("nothing", least) end)
  it("with finalisers that start the collector again", function() collected(("restart %d 2"):format(first), least) end)
  it("with finalisers that run the function that is being captured or called", function() collected("call " .. first, least) end)
  it("with finalisers that capture other calls of a function", function() collected("sizes " .. first, least) end)
  it("with finalisers that take the trace away, and make others", function() collected("again " .. first, least) end)
  for seed = 1, 2 do -- they share the programs
    it("with finalisers that do something of all that there is, seed " .. seed, function()
      collected(("random %d 2"):format(seed), least)
    end)
  end
end)

describe("in worlds and cells of other specs", function()
  it("no claim is broken by the collector", function()
    collected("nothing worlds_spec " .. H.cases(20, 4), H.cases(500, 1000))
    collected("nothing matrix_spec " .. H.cases(300, 90), H.cases(500, 2000))
  end)
  it("results stay, whatever finalisers call", function() collected("random worlds_spec " .. H.cases(60, 12), H.cases(100, 1000)) end)
end)

describe("finalisers", function()
  it("of ours may let go of anything while a function is captured", function() collected("waiting nothing", 100) end)
  it("of users' that use tensors end a capture, and meet all as it was before", function()
    collected("waiting counts", 100)
  end)
  it("that raise end a call that is not begun, or none", function() collected("raise", 300) end)
  it("count what compiled functions count, and no count is lost", function() collected("counters", 300) end)
  it("may call functions that are garbage themselves", function() collected("dead", 1) end)
  it("may release and rewrite what any function works on", function() collected("hostile", H.cases(1000, 5000)) end)
  it("leave no more behind than jit.reset leaves, which is nothing", function() collected("forgotten", 1) end)
end)
