--- operators.lua -- Lua's operators as functions: each applies one, with its metamethods.
-- They are what captures call, and what tapes have, where the code that is evaluated has an operator.

local M = {}

M.compute = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  mod = function(a, b) return a % b end,
  pow = function(a, b) return a ^ b end,
  unm = function(a) return -a end,
}

M.compare = {
  lt = function(a, b) return a < b end,
  le = function(a, b) return a <= b end,
  eq = function(a, b) return a == b end,
}

M.index = {
  get = function(t, k) return t[k] end,
  set = function(t, k, v) t[k] = v end,
  length = function(t) return #t end,
}

--- Some builds of LuaJIT, those for ARM among them, tell integers from doubles: 0 * -1 is 0 there.
local zero, minus = 0, -1
M.HAS_INTEGERS = 1 / (zero * minus) > 0

--- A whole number as an integer, where the host has them and it is one of 32 bits; math.floor does that on some only.
function M.integer(v)
  for i = v, v do return i end -- luacheck: ignore
end

return M
