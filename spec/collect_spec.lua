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
  --- All programs, or of the four groups of them that which the row's turn is.
  local function programs(action, row)
    collected(("%s %d %d"):format(action, H.cases((H.seed + row) % 4 + 1, 1), H.cases(4, 1)), H.cases(100, 3000))
  end
  it("with finalisers that do nothing", function() programs("nothing", 1) end)
  it("with finalisers that start the collector again", function() programs("restart", 2) end)
  it("with finalisers that run the function that is being captured or called", function() programs("call", 3) end)
  it("with finalisers that capture other calls of a function", function() programs("sizes", 4) end)
  it("with finalisers that take the trace away, and make others", function() programs("again", 2) end)
  for row = 3, 4 do
    it("with finalisers that do something of all that there is, " .. row - 2, function() programs("random", row) end)
  end
end)

describe("in worlds and cells of other specs", function()
  it("no claim is broken by the collector", function()
    collected("nothing worlds_spec " .. H.cases(40, 4), H.cases(150, 1000))
    collected("nothing matrix_spec " .. H.cases(500, 90), H.cases(150, 2000))
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
  it("may release and rewrite what any function works on", function() collected("hostile", H.cases(500, 5000)) end)
  it("leave no more behind than jit.reset leaves, which is nothing", function() collected("forgotten", 1) end)
end)
