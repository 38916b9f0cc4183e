--- integers_spec.lua -- numbers where LuaJIT tells integers from doubles, as its builds for ARM do: 0 * -1 is 0 there and -0
--- elsewhere, for plain Lua and for compiled functions alike.

local H = require "spec.helper"
local ty = H.ty

local zero, minus = 0, -1
local INTEGERS = 1 / (zero * minus) > 0

--- The sign of a zero shows in its inverse.
local function same(f, calls)
  local compiled = ty.compile(f)
  local one = ty.ones(1)
  for _, args in ipairs(calls) do
    for _ = 1, 2 do
      local want, got = 1 / f(one, unpack(args)), 1 / compiled(one, unpack(args))
      assert.equal(tostring(want:item()), tostring(got:item()), table.concat(args, ", "))
    end
  end
  return compiled
end

describe("the sign of a zero that a compiled function computes", function()
  local calls = { { 1, 2 }, { 2, -1 }, { 0, -1 }, { -1, 0 }, { -1, -1 }, { 0.5, 0.5 }, { 0, 3 }, { 0 * -0.5, 1 },
    { minus / math.huge, 1 }, { 1, 2 } }

  for name, f in pairs {
    ["a negation"] = function(t, a) return t * -a end,
    ["a product"] = function(t, a, b) return t * (a * b) end,
    ["a product with a constant"] = function(t, a) return t * (a * -1) end,
    ["a negated difference"] = function(t, a, b) return t * -(a - b) end,
    ["a rest"] = function(t, a, b) return t * (a % b) end,
    ["a negated size"] = function(t) return t * -(#t - 1) end,
  } do
    it("is plain Lua's: " .. name, function() same(f, calls) end)
  end

  it("is plain Lua's in loops, with constants and with entries of tables", function()
    same(function(t, n)
      local sums, list, thousands = t * 0, { 0, -1 }, 100000
      for i = 0, n do sums = sums + 1 / (t * (i * -1)) end
      for i = 1, n do sums = sums + 1 / (t * -(i - 1)) end
      return 1 / (sums + 1 / (t * (list[1] * list[2])) + 1 / (t * -(thousands - 100000)))
    end, { { 1 }, { 0 }, { 3 } })
  end)

  it("costs calls without such a zero nothing but guards", function()
    local compiled = same(function(t, a, b) return t * -a * (a * b) end, { { 1, 2 }, { 2, -1 }, { 3, 0.5 }, { -1, 4 } })
    assert.equal(1, jit.explain(compiled).captures)
  end)

  if INTEGERS then
    it("is left to plain Lua where it depends on how LuaJIT holds the number", function()
      local compiled = same(function(t, a) return t * -a end, { { 1 }, { 0 } })
      assert.truthy(tostring(jit.explain(compiled)):find("0 of integers, else -0", 1, true))
    end)
  end
end)
