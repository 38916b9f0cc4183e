--- decided_spec.lua -- programs in which data decide how long a loop runs, or which way is taken: the same bits as eagerly,
-- and Lua is entered once a call.

local H = require "spec.helper"
local ty = H.ty
local programs = require "bench.decided"(ty)

--- What a call gives, as text.
local function account(f, seed, args)
  ty.manual_seed(seed)
  local list = { pcall(f, unpack(args)) }
  for i, v in ipairs(list) do list[i] = ty.is_tensor(v) and H.texts(v) or tostring(v) end
  return table.concat(list, "|")
end

--- How often parts of a function were called, and how often from the part before without Lua.
local function entered(f)
  local calls, linked = 0, 0
  for _, part in ipairs(ty.explain(f).parts) do
    calls, linked = calls + part.calls, linked + part.linked
  end
  return calls, linked
end

--- The arguments of call i: the same at first, then others.
local function args_of(p, i)
  local args = {}
  for k, v in ipairs(p.args) do args[k] = ty.is_tensor(v) and i % 3 == 0 and v * (1 + i / 30) or v end
  return args
end

describe("a program that data decide", function()
  for name, p in pairs(programs) do
    it("gives what it gives eagerly: " .. name, function()
      local f = ty.compile(p.run)
      for i = 1, 12 do
        local args = args_of(p, i)
        assert.equal(account(p.run, i, args), account(f, i, args), "call " .. i)
      end
      local e = ty.explain(f)
      assert.truthy(e.skips >= 8, tostring(e))
      assert.truthy(#e.parts > 1, tostring(e))
    end)

    it("enters Lua once a call: " .. name, function()
      local f = ty.compile(p.run)
      for i = 1, 12 do account(f, i % 4, p.args) end
      local skips, calls, linked = ty.explain(f).skips, entered(f)
      account(f, 3, p.args)
      local calls_now, linked_now = entered(f)
      assert.equal(skips + 1, ty.explain(f).skips, tostring(ty.explain(f)))
      assert.truthy(calls_now - calls > 2, tostring(ty.explain(f)))
      assert.equal(1, calls_now - calls - (linked_now - linked), tostring(ty.explain(f)))
    end)
  end
end)
