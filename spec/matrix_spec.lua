--- matrix_spec.lua -- what a function read, crossed with what happens to it between calls.
-- A cell is a small function that reads a value from a place, is called until Lua is skipped, sees the value changed,
-- is called again, sees it put back, and is called again. In each call results, errors and state are those of the
-- plain
-- function in a twin world (twins.lua), to the bit; in each phase whose plain call does not raise the calls end up
-- skipping Lua; and the number of captures is the one written here by hand.
--
-- Cells are data: kinds (a value and its use) x places (where the value lies) x changes. How to read a kind:
--   body     the function's statements; $ is the place, x an f32 tensor [3]
--   value    an expression; more results than one go to the local `poke`
--   a change = {captures before it, captures after it, what is done, how it is undone ("set(v)" by default)}
-- Changes are: nothing; again (the same value set again); changed (another value, or the object's content in place);
-- rebound (another object with other content); identity (another object with equal content); removed (set to nil);
-- added (nil at first, then set); type (a value of another type).

local H = require "spec.helper"
local T = require "spec.twins"

-- Places ------------------------------------------------------------------------------------------------------------

-- before: statements of the chunk; read: what $ becomes; set: statements that store `new`; args: of the call after x.
-- core: places that all kinds are crossed with; the others take those kinds that are marked `everywhere`.
local places = {
  { name = "argument", core = true, read = "a", set = "given = new", args = "given" },
  { name = "upvalue", core = true, before = "local value", read = "value", set = "value = new" },
  { name = "global", read = "matrix_value", set = "given = new",
    after = "function W.enter() getfenv(0).matrix_value = given end" },
  { name = "field", core = true, before = "local box = {}", read = "box.value", set = "box.value = new" },
  { name = "environment", core = true, read = "value", set = "env.value = new",
    before = "local env = {} for k, e in pairs(getfenv(0)) do env[k] = e end", after = "setfenv(W.f, env)" },
  { name = "inherited field", read = "box.value", set = "proto.value = new",
    before = "local proto = {} local box = setmetatable({}, {__index = proto})" },
  { name = "local", read = "held", set = "given = new", args = "given", first = "local held = a" },
  { name = "nested field", before = "local root = {a = {b = {}}}", read = "root.a.b.value",
  set = "root.a.b.value = new" },
  { name = "list element", before = "local list = {1, 2}", read = "list[3]", set = "list[3] = new" },
  { name = "upvalue of a called function", before = "local value local function get() return value end",
    read = "get()", set = "value = new" },
  { name = "field by __index function", read = "box.value", set = "value = new",
    before = [[local value
      local box = setmetatable({}, {__index = function(_, k) if k == "value" then return value end end})]] },
  { name = "metatable's field", before = "local mt = {} local box = setmetatable({}, mt)",
    read = "getmetatable(box).value", set = "mt.value = new" },
  { name = "vararg", read = "(...)", set = "given = new", args = "nil, given" },
  { name = "field of a new argument", read = "a.value", set = "given = new", args = "{value = given}" },
  { name = "module's field", read = "unit.value", set = "unit.value = new",
    before = "package.loaded.matrix_unit = {} local unit = require 'matrix_unit'" },
}

-- Kinds -------------------------------------------------------------------------------------------------------------

local kinds = {}
local function kind(k) kinds[#kinds + 1] = k end

-- Numbers are inputs of the plan: another value is no other trace, unless something else than arithmetic used it.
kind { name = "number, an operand", everywhere = true, body = "return x * $ + 1", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 1 }, added = { 0, 1 },
  type = { 1, 2, "set(ty.tensor {4, 5, 6})" } }
kind { name = "number, in arithmetic", body = "return x + ($ * 2 - 1) / 3 % 2 ^ 2", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "number, in functions of math", body = "return x * math.floor($) + math.max(math.sin($), 0.5)",
  value = "2.5", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(2.75)" }, removed = { 1, 1 } }
kind { name = "number, on the same side of a branch", everywhere = true,
  body = "if $ > 2 then return x + $ end return x - $", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 1 }, added = { 0, 1 },
  type = { 1, 1, "set('9')" } }
kind { name = "number, across a branch", everywhere = true,
  body = "if $ > 2 then return x + $ end return x - $", value = "2.5", changed = { 1, 2, "set(1)" } }
kind { name = "number, compared with a number", body = "if $ == 3 then return x + $ end return x - $", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 1 } }
kind { name = "number, reaching equality", body = "if $ == 3 then return x + $ end return x - $", value = "2.5",
  changed = { 1, 2, "set(3)" } }
kind { name = "number, a key", everywhere = true, body = "return x * T[$]", value = "2",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(3)" }, removed = { 1, 1 }, added = { 0, 1 },
  type = { 1, 2, "set('b')" } }
kind { name = "number, a loop's bound", body = "local y = x for i = 1, $ do y = y * i + 1 end return y", value = "2",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(3)" }, removed = { 1, 1 }, added = { 0, 1 },
  type = { 1, 2, "set('3')" } }
kind { name = "number, a size", body = "return x:sum() + ty.ones($)", value = "2",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(3)" }, removed = { 1, 2 }, type = { 1, 1,
  "set(false)" } }
kind { name = "number, a dim", body = "return T.matrix:sum($)", value = "1",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(2)" }, removed = { 1, 2 } }
kind { name = "number, in a text", body = "return x * T['k' .. $]", value = "2",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(3)" }, removed = { 1, 1 }, type = { 1, 2,
  "set('3')" } }
kind { name = "number, tested for nil", everywhere = true, body = "if $ == nil then return x end return x * $",
  value = "2.5", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 2 },
  added = { 1, 2 }, type = { 1, 2, "set(ty.tensor {4, 5, 6})" } }
kind { name = "number, with a default", body = "local k = $ or 3 return x * k", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 2 }, added = { 1, 2 },
  type = { 1, 2, "set(false)" } }
kind { name = "number, asked for its type", body = "if type($) == 'number' then return x * $ end return x",
  value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" }, removed = { 1, 2 }, added = { 1, 2 },
  type = { 1, 2, "set('text')" } }
kind { name = "number, kept in a new table", body = "local t = {$, k = $} return x * t[1] + t.k, t", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" } }
kind { name = "number, new in each call", everywhere = true, body = "return x * $", value = "1",
  each = "set(count / 4)", nothing = { 1, 1 } }

-- Whole numbers keep integer tensors integer: wholeness matters there and nowhere else.
kind { name = "whole number on an integer tensor", everywhere = true, body = "return T.integers * $", value = "2",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(3)" }, added = { 0, 1 }, removed = { 1, 1 },
  type = { 1, 2, "set(true)" } }
kind { name = "whole number that becomes a fraction, on an integer tensor", everywhere = true,
  body = "return T.integers * $", value = "2", changed = { 1, 2, "set(2.5)" } }
kind { name = "fraction that becomes another, on an integer tensor", body = "return T.integers * $", value = "0.5",
  changed = { 1, 1, "set(0.25)" } }
kind { name = "whole number that becomes a fraction, on a float tensor", body = "return x * $", value = "2",
  changed = { 1, 1, "set(2.5)" } }

-- NaN and the zeros.
kind { name = "NaN, an operand", everywhere = true, body = "return x + $", value = "0 / 0",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(1)" } }
kind { name = "NaN, compared with itself", body = "local v = $ if v == v then return x + v end return x - 1",
  value = "0 / 0", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(1)" } }
kind { name = "NaN, ordered", body = "if $ < 3 then return x + 1 end return x - 1", value = "0 / 0",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(1)" } }
kind { name = "zero, a divisor", everywhere = true, body = "return x / $", value = "zero",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(-zero)" } }
kind { name = "zero, its sign asked", body = "if 1 / $ > 0 then return x + 1 end return x - 1", value = "zero",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(-zero)" } }
kind { name = "zero, compared with zero", body = "if $ == 0 then return x / $ end return x", value = "zero",
  changed = { 1, 1, "set(-zero)" } }

-- Strings.
kind { name = "string, compared", everywhere = true, body = "if $ == 'left' then return x + 1 end return x - 1",
  value = "'left'", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('right')" }, removed = { 1, 2 },
  added = { 1, 2 }, type = { 1, 2, "set(7)" } }
kind { name = "string, a key", everywhere = true, body = "return x * T[$]", value = "'a'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('b')" }, removed = { 1, 1 }, added = { 0, 1 },
  type = { 1, 2, "set(2)" } }
kind { name = "string, joined", body = "return x * T['k' .. $]", value = "'2'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('3')" }, removed = { 1, 1 }, type = { 1, 2,
  "set(3)" } }
kind { name = "string, its length", body = "return x * #$", value = "'abc'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('abcd')" }, removed = { 1, 1 } }
kind { name = "string, its method", body = "return x * T[$:lower()]", value = "'A'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('B')" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "string, a dtype", body = "return x:to($)", value = "'f64'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set('f16')" }, type = { 1, 1, "set(3)" } }

-- Booleans and nil.
kind { name = "boolean, a branch", everywhere = true, body = "if $ then return x + 1 end return x * 2",
  value = "true",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(false)" }, removed = { 1, 2 }, added = { 1, 2 },
  type = { 1, 2, "set('yes')" } }
kind { name = "boolean, negated", body = "return x * (not $ and 2 or 3)", value = "true",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(false)" }, removed = { 1, 2 } }
kind { name = "boolean, an option", body = "return T.matrix:sum(1, $)", value = "true",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "set(false)" }, removed = { 1, 2 } }
kind { name = "nil, tested", everywhere = true, body = "if $ == nil then return x end return x + 1", value = "nil",
  nothing = { 1, 1 }, again = { 1, 1 }, type = { 1, 2, "set(true)" } }

-- What is only moved is not looked at; an argument's kind is part of its trace's key, though.
kind { name = "number, returned", body = "return $, x + 1", value = "2.5",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(4)" } }
kind { name = "string, returned", body = "return $, x + 1", value = "'a'",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set('b')" } }
kind { name = "boolean, returned", body = "return x + 1, $", value = "true",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "set(false)" } }
kind { name = "table, returned", body = "return $, x + 1", value = "{1, {2}}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v[1] = 5", "v[1] = 1" }, rebound = { 1, 1, "set({7})" },
  identity = { 1, 1, "set({1, {2}})" } }
kind { name = "function, returned", body = "return $, x + 1", value = "print",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 1, "set(function() end)" } }
kind { name = "tensor, returned", body = "return $, x + 1", value = "ty.tensor {2, 3}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v:fill_(8)", "v:copy_(ty.tensor {2, 3})" },
  rebound = { 1, 1, "set(ty.tensor {5, 6})" }, identity = { 1, 1, "set(v:clone())" } }

-- Tables are known by the path to them.
kind { name = "table, a field", everywhere = true, body = "return x * $.k", value = "{k = 2}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v.k = 3", "v.k = 2" }, rebound = { 1, 1, "set({k = 5})" },
  identity = { 1, 1, "set({k = 2})" }, removed = { 1, 1 }, added = { 0, 1 }, type = { 1, 1, "set('text')" } }
kind { name = "table, new in each call", everywhere = true, body = "return x * $.k", value = "{k = 2}",
  each = "set({k = count})", nothing = { 1, 1 } }
kind { name = "table of tensors", everywhere = true, body = "return x * $.w + $.b",
  value = "{w = ty.tensor {1, 2, 3}, b = ty.tensor(1)}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v.b = ty.tensor(7)", "v.b = ty.tensor(1)" },
  rebound = { 1, 1, "set({w = ty.tensor {3, 2, 1}, b = ty.tensor(4)})" },
  identity = { 1, 1, "set({w = v.w, b = v.b})" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "table, a key's presence", everywhere = true, body = "if $.flag then return x + 1 end return x - 1",
  value = "{flag = true}", nothing = { 1, 1 }, again = { 1, 1 },
  changed = { 1, 2, "v.flag = nil", "v.flag = true" }, rebound = { 1, 2, "set({})" },
  identity = { 1, 1, "set({flag = true})" } }
kind { name = "table, a key's absence", body = "if $.flag then return x + 1 end return x - 1",
  value = "{}", nothing = { 1, 1 }, again = { 1, 1 },
  changed = { 1, 2, "v.flag = true", "v.flag = nil" }, rebound = { 1, 1, "set({other = true})" },
  identity = { 1, 1, "set({})" } }
kind { name = "table, its identity", everywhere = true, body = "if $ == T then return x + 1 end return x - 1",
  value = "T",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 2, "set({})" }, removed = { 1, 2 }, type = { 1, 2,
  "set(true)" } }
kind { name = "table, another identity", body = "if $ == T then return x + 1 end return x - 1", value = "{}",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 1, "set({1})" }, identity = { 1, 1, "set({})" } }
kind { name = "table, unpacked", body = "local a, b = unpack($) return x * a + b", value = "{2, 3}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v[2] = 7", "v[2] = 3" }, rebound = { 1, 1, "set({4, 5})" },
  identity = { 1, 1, "set({2, 3})" }, removed = { 1, 1 } }
kind { name = "list, walked by #", everywhere = true, body = "local y = x for i = 1, #$ do y = y * $[i] end return y",
  value = "{2, 3}", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v[1] = 4", "v[1] = 2" },
  rebound = { 1, 1, "set({4, 5})" }, identity = { 1, 1, "set({2, 3})" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "list that grows, walked by #", everywhere = true,
  body = "local y = x for i = 1, #$ do y = y * $[i] end return y", value = "{2, 3}",
  changed = { 1, 2, "v[3] = 4", "v[3] = nil" }, rebound = { 1, 2, "set({4, 5, 6})" } }
kind { name = "list that shrinks, walked by #", body = "local y = x for i = 1, #$ do y = y * $[i] end return y",
  value = "{2, 3}", changed = { 1, 2, "v[2] = nil", "v[2] = 3" } }
kind { name = "list, walked by ipairs", everywhere = true,
  body = "local y = x for i, k in ipairs($) do y = y * k + i end return y",
  value = "{2, 3}", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v[1] = 4", "v[1] = 2" },
  rebound = { 1, 1, "set({4, 5})" }, identity = { 1, 1, "set({2, 3})" }, removed = { 1, 1 } }
kind { name = "list that grows, walked by ipairs",
  body = "local y = x for i, k in ipairs($) do y = y * k + i end return y",
  value = "{2, 3}", changed = { 1, 2, "v[3] = 4", "v[3] = nil" }, rebound = { 1, 2, "set({4, 5, 6})" } }
kind { name = "table, walked by pairs", everywhere = true,
  body = "local y = x for _, n in pairs($) do y = y * n + 1 end return y",
  value = "{a = 2, b = 3}", nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v.a = 4", "v.a = 2" },
  rebound = { 1, 1, "set({a = 5, b = 6})" }, identity = { 1, 1, "set({a = 2, b = 3})" }, removed = { 1, 1 } }
kind { name = "table that gains a key, walked by pairs",
  body = "local y = x for _, n in pairs($) do y = y * n + 1 end return y",
  value = "{a = 2, b = 3}", changed = { 1, 2, "v.c = 5", "set({a = 2, b = 3})" }, rebound = { 1, 2,
  "set({a = 2, b = 3, c = 4})" } }
kind { name = "table that loses a key, walked by pairs",
  body = "local y = x for _, n in pairs($) do y = y * n + 1 end return y",
  value = "{a = 2, b = 3}", changed = { 1, 2, "v.a = nil", "set({a = 2, b = 3})" } }
kind { name = "table, its keys' order, walked by pairs", everywhere = true,
  body = "local y = x for _, n in pairs($) do y = y * n + 1 end return y", value = "ordered(1, 2)",
  nothing = { 1, 1 }, identity = { 1, 1, "set(ordered(1, 2))" }, rebound = { 1, 2, "set(ordered(2, 1))" } }
kind { name = "table, emptiness by next", body = "if next($) == nil then return x end return x * 2", value = "{}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "v.a = 1", "set({})" }, identity = { 1, 1, "set({})" } }
kind { name = "table, for the library", body = "return x * #table.concat($, ',')", value = "{2, 3}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 2, "v[1] = 44", "v[1] = 2" }, rebound = { 1, 2,
  "set({7, 8, 9})" },
  identity = { 1, 1, "set({2, 3})" } }
kind { name = "list of tensors, joined", body = "return ty.cat($)", value = "{ty.tensor {1, 2}, ty.tensor {3}}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v[2] = ty.tensor {9}", "v[2] = ty.tensor {3}" },
  identity = { 1, 1, "set({v[1], v[2]})" } }

-- Functions are known by identity, and by bytecode where a place gets a new one.
kind { name = "function, called", everywhere = true, body = "return $(x)", value = "make(2)",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "poke(3)", "poke(2)" },
  rebound = { 1, 2, "set(function(y) return y - 1 end)" }, identity = { 1, 2, "set((make(2)))" }, removed = { 1, 1 },
  added = { 0, 1 }, type = { 1, 2, "set(setmetatable({}, {__call = function(_, y) return y + 1 end}))" } }
kind { name = "function, new in each call", everywhere = true, body = "return $(x)", value = "make(2)",
  each = "set((make(count)))", nothing = { 2, 2 } }
kind { name = "function of the library", everywhere = true, body = "return x * $(2.5)", value = "math.floor",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 2, "set(math.ceil)" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "function of tensors", everywhere = true, body = "return $(x)", value = "ty.exp",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 2, "set(ty.sqrt)" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "function, a composite", body = "return $(x)", value = "ty.softmax",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 2, "set(ty.gelu)" } }
kind { name = "function, compiled", body = "return $(x)", value = "compiled(2)",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "poke(3)", "poke(2)" },
  rebound = { 1, 2, "set(ty.compile(function(y) return y - 1 end))" }, removed = { 1, 1 } }
kind { name = "function, its identity", body = "if $ == ty.exp then return x + 1 end return x - 1", value = "ty.exp",
  nothing = { 1, 1 }, again = { 1, 1 }, rebound = { 1, 2, "set(ty.sqrt)" }, removed = { 1, 2 } }

-- Tensors are read anew in each call; their type and layout are known.
kind { name = "tensor, an operand", everywhere = true, body = "return x * $ + 1", value = "ty.tensor {2, 3, 4}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v:fill_(7)", "v:copy_(ty.tensor {2, 3, 4})" },
  rebound = { 1, 1, "set(ty.tensor {5, 6, 7})" }, identity = { 1, 1, "set(v:clone())" }, removed = { 1, 1 },
  added = { 0, 1 }, type = { 1, 2, "set(2)" } }
kind { name = "tensor, new in each call", everywhere = true, body = "return x * $ + 1", value = "ty.tensor {2, 3, 4}",
  each = "set(ty.tensor {count, 1, 2})", nothing = { 1, 1 } }
kind { name = "tensor, its dtype", everywhere = true, body = "return x * $", value = "ty.tensor {2, 3, 4}",
  rebound = { 1, 2, "set(v:to('f64'))" }, type = { 1, 2, "set(v:to('i32'))" } }
kind { name = "tensor, its rank", body = "return x * $", value = "ty.tensor {2, 3, 4}",
  rebound = { 1, 2, "set(ty.tensor {{1, 2, 3}, {4, 5, 6}})" }, type = { 1, 2, "set(ty.tensor(5))" } }
kind { name = "tensor, its size", everywhere = true, body = "return ($ * 2 + 1):sum() + x",
  value = "ty.tensor {2, 3, 4}",
  rebound = { 1, 2, "set(ty.tensor {5, 6, 7, 8, 9})" } }
kind { name = "tensor, its strides", everywhere = true, body = "return x * $", value = "ty.tensor {2, 3, 4}",
  rebound = { 1, 2, "set(ty.tensor {{2, 0}, {3, 0}, {4, 0}}:t()[1])" } }
kind { name = "tensor, tested", everywhere = true, body = "if $ then return x + $ end return x",
  value = "ty.tensor {2, 3, 4}",
  nothing = { 1, 1 }, rebound = { 1, 1, "set(ty.tensor {5, 6, 7})" }, removed = { 1, 2 }, added = { 1, 2 } }
kind { name = "tensor, its shape asked", body = "return x * $.shape[1]", value = "ty.tensor {2, 3, 4}",
  nothing = { 1, 1 }, changed = { 1, 1, "v:fill_(7)" }, rebound = { 1, 2, "set(ty.tensor {5, 6})" },
  identity = { 1, 1, "set(v:clone())" }, removed = { 1, 1 } }
kind { name = "tensor, its identity", body = "if $ == T.integers then return x + 1 end return x - 1",
  value = "T.integers",
  nothing = { 1, 1 }, again = { 1, 1 }, identity = { 1, 2, "set(v:clone())" }, removed = { 1, 2 } }
kind { name = "tensor, written in place", everywhere = true, body = "$:add_(x) return $ * 2",
  value = "ty.tensor {2, 3, 4}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v:fill_(7)" }, rebound = { 1, 1,
  "set(ty.tensor {5, 6, 7})" },
  identity = { 1, 1, "set(v:clone())" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "tensor, an index", body = "return x[$]", value = "ty.tensor({3, 1}, {dtype = 'i64'})",
  nothing = { 1, 1 }, changed = { 1, 1, "v:fill_(2)" }, rebound = { 1, 1,
  "set(ty.tensor({2, 3}, {dtype = 'i64'}))" } }

-- Objects: metatables and what lies in them are read by path as well.
kind { name = "object, its method", everywhere = true, body = "return $:scale(x)",
  value = "setmetatable({k = 2}, Class)",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v.k = 3", "v.k = 2" },
  rebound = { 1, 1, "set(setmetatable({k = 5}, Class))" }, identity = { 1, 1, "set(setmetatable({k = 2}, Class))" },
  removed = { 1, 1 }, added = { 0, 1 }, type = { 1, 2, "set({scale = function(_, y) return y - 1 end})" } }
kind { name = "object, its method redefined", everywhere = true, body = "return $:scale(x)",
  value = "setmetatable({k = 2}, Class)",
  changed = { 1, 2, "Class.scale = function(self, y) return y + self.k end", "Class.scale = scale" },
  again = { 1, 1, "Class.scale = scale" } }
kind { name = "object, its method shadowed", body = "return $:scale(x)", value = "setmetatable({k = 2}, Class)",
  changed = { 1, 2, "rawset(v, 'scale', function(self, y) return y + self.k end)", "rawset(v, 'scale', nil)" } }
kind { name = "object, its metatable", everywhere = true, body = "return $:scale(x)",
  value = "setmetatable({k = 2}, Class)",
  -- Class is its own __index: one table by two paths, which the new metatable is not
  identity = { 1, 2, "setmetatable(v, {__index = Class})", "setmetatable(v, Class)" },
  rebound = { 1, 2, "setmetatable(v, {__index = {scale = function(_, y) return y - 3 end}})",
  "setmetatable(v, Class)" },
  removed = { 1, 1, "setmetatable(v, nil)", "setmetatable(v, Class)" } }
kind { name = "object, gets a metatable", body = "return $.k and x * $.k or x", value = "{}",
  nothing = { 1, 1 }, changed = { 1, 2, "setmetatable(v, {__index = {k = 4}})", "setmetatable(v, nil)" },
  identity = { 1, 2, "setmetatable(v, {})", "setmetatable(v, nil)" } }
kind { name = "object, an operand", body = "return x * ($ + 1)", value = "setmetatable({k = 2}, Class)",
  nothing = { 1, 1 }, changed = { 1, 1, "v.k = 3", "v.k = 2" }, rebound = { 1, 1,
  "set(setmetatable({k = 5}, Class))" },
  removed = { 1, 1 }, type = { 1, 2, "set(9)" } }
kind { name = "object, its operator redefined", body = "return x * ($ + 1)", value = "setmetatable({k = 2}, Class)",
  changed = { 1, 2, "Class.__add = function(a, b) return a.k - b end", "Class.__add = add" } }
kind { name = "object, compared", body = "if $ < T.limit then return x + 1 end return x - 1",
  value = "setmetatable({k = 2}, Class)", nothing = { 1, 1 }, changed = { 1, 1, "v.k = 3", "v.k = 2" },
  rebound = { 1, 2, "set(setmetatable({k = 50}, Class))" } }
kind { name = "object, called", body = "return $(x)", value = "setmetatable({k = 2}, Class)",
  nothing = { 1, 1 }, changed = { 1, 1, "v.k = 3", "v.k = 2" }, rebound = { 1, 1,
  "set(setmetatable({k = 5}, Class))" },
  type = { 1, 2, "set(ty.exp)" } }

-- Writes: the next call reads what the last one wrote.
kind { name = "table, a field written", everywhere = true, body = "$.out = x + 1 return $.out",
  value = "{out = false}",
  nothing = { 1, 1 }, changed = { 1, 1, "v.out = 3" }, rebound = { 1, 1, "set({out = 'text'})" },
  identity = { 1, 1, "set({out = false})" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "table, a counter in it", everywhere = true, body = "$.n = $.n + 1 return x * $.n", value = "{n = 0}",
  nothing = { 1, 1 }, again = { 1, 1 }, changed = { 1, 1, "v.n = 100" }, rebound = { 1, 1, "set({n = 7})" },
  identity = { 1, 1, "set({n = 0})" }, removed = { 1, 1 }, added = { 0, 1 } }
kind { name = "table, a state of tensors in it", body = "$.h = ($.h * 0.5 + x):tanh() return $.h * 2",
  value = "{h = ty.zeros(3)}", nothing = { 1, 1 }, changed = { 1, 1, "v.h = ty.ones(3)" },
  rebound = { 1, 1, "set({h = ty.tensor {1, 2, 3}})" } }
kind { name = "table, all its fields written", body = "for k in pairs($) do $[k] = x * 2 end return x",
  value = "{a = x, b = x}", nothing = { 1, 1 }, rebound = { 1, 1, "set({a = x * 3, b = x * 4})" } }
kind { name = "object, written through __newindex", body = "$.other = x * 2 return T.seen",
  value = "setmetatable({}, Class)",
  nothing = { 1, 1 }, rebound = { 1, 1, "set(setmetatable({k = 1}, Class))" } }

-- Cells -------------------------------------------------------------------------------------------------------------

local changes = { "nothing", "again", "changed", "rebound", "identity", "removed", "added", "type" }
local done = { nothing = "", again = "set(v)", removed = "set(nil)", added = "set(v)" }

-- Which cells are left out, by rule.
local function left_out(k, place, change)
  if not place.core and not k.everywhere then return "a place like others, for a kind of minor interest" end
  if not k[change] then return "the kind cannot change so, or another kind has the cell" end
end

local template = [[
local W, ty = ...
local zero, count, given = 0, 0, nil
local T = { 2, 3, 5, a = 4, b = 7, k2 = 2, k3 = 3, integers = ty.tensor({1, 2, 3}, {dtype = "i32"}),
  matrix = ty.tensor {{1, 2}, {3, 4}} }
local Class = {}
Class.__index = Class
local function scale(self, y) return y * self.k end
local function add(a, b) return a.k + b end
Class.scale, Class.__add = scale, add
function Class.__lt(a, b) return a.k < b.k end
function Class.__call(self, y) return y / self.k end
function Class.__newindex(_, _, y) T.seen = y end
T.limit = setmetatable({k = 10}, Class)
local function make(k)
  return function(y) return y * k end, function(n) k = n end
end
local function compiled(k)
  local f, poke = make(k)
  return ty.compile(f), poke
end
local function ordered(first, second) -- keys that collide: the order of pairs is that of insertion
  local t = {}
  t[W.colliding[first] ] = first
  t[W.colliding[second] ] = second
  return t
end
local x = ty.tensor {1, 2, 3}
local v, poke = VALUE
BEFORE
function W.f(x, a, ...)
  FIRST
  BODY
end
local function set(new) SET end
function W.begin() BEGIN end
function W.change() CHANGE end
function W.back() BACK end
function W.args()
  count = count + 1
  EACH
  return x, ARGS
end
function W.state() return v, given, T.seen, x end
AFTER
]]

--- Two integer keys that share a chain in a small table, so that the order of pairs tells which came first.
local function colliding()
  for i = 1000, 1100 do
    for j = i + 1, i + 40 do
      local a, b = {}, {}
      a[i], a[j] = 1, 2
      b[j], b[i] = 2, 1
      if next(a) ~= next(b) then return { i, j } end
    end
  end
  error "no colliding keys"
end

local keys = colliding()

local function source_of(k, place, change)
  local cell = k[change]
  local parts = {
    VALUE = k.value, BEFORE = place.before or "", FIRST = place.first or "", SET = place.set,
    BODY = (k.body:gsub("%$", (place.read:gsub("%%", "%%%%")))), EACH = k.each or "", ARGS = place.args or "nil",
    AFTER = place.after or "", BEGIN = change == "added" and "set(nil)" or "set(v)",
    CHANGE = cell[3] or done[change] or error("no change for " .. k.name .. ", " .. change),
    BACK = cell[4] or change == "added" and "set(nil)" or "set(v)",
  }
  return (template:gsub("%u%u%u+", parts))
end

--- Calls until Lua is skipped, which it must be unless the plain function raises, after so many captures.
local function phase(pair, name, body, captures)
  local skipped, result = pair:settle()
  local function wrong(what, ...)
    error(("%s: %s (%s)\n%s"):format(name, what:format(...), pair:story(), body), 0)
  end
  if result[1] and not skipped then wrong "Lua is not skipped" end
  if pair:captures() ~= captures then wrong("%d captures instead of %d", pair:captures(), captures) end
end

local function run(k, place, change)
  local cell = k[change]
  local source = source_of(k, place, change)
  local pair = T.pair(function(W, ty)
    W.colliding = keys
    return assert(loadstring(source, "=cell"))(W, ty)
  end)
  pair:each(function(W) W.begin() end)
  phase(pair, "before", k.body, cell[1])
  pair:each(function(W) W.change() end)
  phase(pair, "after", k.body, cell[2])
  pair:each(function(W) W.back() end)
  phase(pair, "back", k.body, cell[2])
end

local cells, left = 0, 0

describe("what a function read, and what happens to it between calls", function()
  for _, place in ipairs(places) do
    for _, k in ipairs(kinds) do
      local list = {}
      for _, change in ipairs(changes) do
        if left_out(k, place, change) then left = left + 1 else list[#list + 1] = change end
      end
      cells = cells + #list
      if #list > 0 then
        it(("%s: %s"):format(place.name, k.name), function()
          local wrong = {}
          for _, change in ipairs(list) do
            local ok, message = pcall(run, k, place, change)
            if not ok then wrong[#wrong + 1] = change .. ": " .. tostring(message) end
          end
          if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
        end)
      end
    end
  end
end)

-- Things that are crossed with no places ----------------------------------------------------------------------------

-- setup: statements that come before the function; head: its parameters, "x" by default; args: of the call, "x" by
-- default; steps: pairs of what is done (first before the first call) and the captures there are then, all told.
local specials = {}
local function special(s) specials[#specials + 1] = s end

special { name = "count of varargs", setup = "local list", head = "x, ...", args = "x, unpack(list)",
  body = "local y = x for i = 1, select('#', ...) do y = y * i + (select(i, ...)) end return y",
  steps = { { "list = {2, 3}", 1 }, { "list = {4, 5.5}", 1 }, { "list = {1, 2, 3}", 2 }, { "list = {}", 3 },
    { "list = {7, 7}", 3 } } }
special { name = "varargs in a new table", setup = "local list", head = "x, ...", args = "x, unpack(list)",
  body = "local t = {...} return x * #t + t[1], t",
  steps = { { "list = {2, 3}", 1 }, { "list = {4, 5}", 1 }, { "list = {5}", 2 }, { "list = {3, 9}", 2 } } }
special { name = "count of arguments", setup = "local list = {n = 1}", head = "x, a, b",
  args = "x, unpack(list, 1, list.n)", body = "return x + 1, a, b",
  steps = { { "", 1 }, { "list.n = 0", 2 }, { "list.n = 3", 3 }, { "list.n = 1", 3 } } }

special { name = "dtype of an argument", body = "return x * 2 + 1",
  steps = { { "x = ty.tensor {1, 2}", 1 }, { "x = x:to('f64')", 2 }, { "x = x:to('i32')", 3 },
    { "x = ty.tensor {5, 6}", 3 }, { "x = x:to('bool')", 4 } } }
special { name = "rank of an argument", body = "return x * 2 + 1",
  steps = { { "x = ty.ones(4)", 1 }, { "x = ty.ones(2, 2)", 2 }, { "x = ty.tensor(3)", 3 }, { "x = ty.zeros(4)",
  3 } } }
special { name = "size of an argument", body = "return x * 2 + 1",
  steps = { { "x = ty.ones(4)", 1 }, { "x = ty.ones(6)", 2 }, { "x = ty.arange(9)", 2 }, { "x = ty.arange(1000)", 2 },
    { "x = ty.zeros(4)", 2 } } }
special { name = "size that two arguments share", setup = "local y", head = "x, y", args = "x, y",
  body = "return x * y - x",
  steps = { { "x, y = ty.ones(4), ty.arange(4)", 1 }, { "x, y = ty.ones(6), ty.arange(6)", 2 },
    { "x, y = ty.ones(9), ty.arange(9)", 2 }, { "x, y = ty.ones(9), ty.ones(1)", 2 } } }
special { name = "rows of a batch",
  setup = "local w, b = ty.arange(12):reshape(3, 4) / 7, ty.arange(4)",
  body = "return (x:matmul(w) + b):relu()",
  steps = { { "x = ty.arange(24):reshape(8, 3)", 1 }, { "x = ty.arange(15):reshape(5, 3)", 2 },
    { "x = ty.ones(13, 3)", 2 }, { "x = ty.arange(24):reshape(8, 3)", 2 } } }
special { name = "size that is asked", body = "local n = x:size(1) return x / n, n",
  steps = { { "x = ty.ones(4)", 1 }, { "x = ty.ones(4) * 3", 1 }, { "x = ty.ones(6)", 2 } } }
special { name = "strides of an argument", body = "return x * 2 + 1",
  steps = { { "x = ty.arange(6):reshape(2, 3)", 1 }, { "x = ty.arange(6):reshape(3, 2):t()", 2 },
    { "x = ty.ones(2, 3)", 2 }, { "x = ty.ones(3, 2):t()", 2 } } }
special { name = "rows of one tensor, offset after offset", setup = "local base = ty.arange(12):reshape(4, 3)",
  body = "return x * 2 + 1",
  steps = { { "x = base[1]", 1 }, { "x = base[2]", 1 }, { "x = base[4]", 1 }, { "base = base + 1 x = base[3]", 1 } } }

special { name = "offset between views of one storage, one written",
  setup = "local base, a, b = ty.arange(12)",
  head = "a, b",
  args = "a, b", state = "base", body = "a:add_(b) return a * 1 + b",
  steps = { { "a, b = base[{{1, 3}}], base[{{4, 6}}]", 1 }, { "b = base[{{2, 4}}]", 2 }, { "b = base[{{3, 5}}]", 3 },
    { "b = base[{{2, 4}}]", 3 }, { "a, b = base[{{4, 6}}], base[{{5, 7}}]", 4 }, { "b = ty.arange(3)", 4 } } }
-- what is written is known by its place at first; once it lies elsewhere, by what it shares memory with alone
special { name = "rows of one tensor, written", setup = "local base = ty.arange(12):reshape(4, 3)", state = "base",
  body = "x:add_(1) return x * 2",
  steps = { { "x = base[1]", 1 }, { "x = base[2]", 2 }, { "x = base[4]", 2 }, { "base = base + 1 x = base[3]", 2 } } }
special { name = "views of one storage, none written", setup = "local base, a, b = ty.arange(12)",
  head = "a, b",
  args = "a, b", body = "return a * 2 + b",
  steps = { { "a, b = base[{{1, 3}}], base[{{4, 6}}]", 1 }, { "b = base[{{2, 4}}]", 1 }, { "b = a", 1 },
    { "b = ty.arange(3)", 1 } } }
special { name = "one tensor as two arguments, written", setup = "local a, b = ty.ones(3), ty.zeros(3)",
  head = "a, b",
  args = "a, b", body = "a:add_(1) return b * 2",
  steps = { { "", 1 }, { "b = a", 2 }, { "b = ty.zeros(3)", 2 }, { "a, b = ty.ones(3), ty.ones(3)", 2 }, { "a = b",
  2 } } }
special { name = "one table by two paths, none written", setup = "local p, q = {n = 1}, {n = 5}",
  body = "return x * p.n + q.n",
  steps = { { "", 1 }, { "q.n = 6", 1 }, { "q = p", 1 }, { "q = {n = 2}", 1 } } }
special { name = "one table by two paths, written", setup = "local p, q = {n = 1}, {n = 5}", state = "p, q",
  body = "p.n = p.n + 1 return x * q.n",
  steps = { { "", 1 }, { "q.n = 6", 1 }, { "q = p", 2 }, { "q = {n = 2}", 2 }, { "p = q", 2 } } }

special { name = "default dtype, a flag of the state", body = "return ty.ones(3) * x",
  steps = { { "ty.default_dtype('f32')", 1 }, { "ty.default_dtype('f64')", 2 }, { "ty.default_dtype('f32')", 2 } } }
special { name = "precision, a flag of the state", body = "return x:matmul(x)",
  steps = { { "x = ty.ones(4, 4)", 1 }, { "ty.precision('fast')", 2 }, { "ty.precision('exact')", 2 } } }
special { name = "threads, no flag", body = "return x * 2",
  steps = { { "", 1 }, { "ty.threads(1)", 1 }, { "ty.threads(2)", 1 } } }
special { name = "two flags", setup = "local p, q = true, true",
  body = "local y = x if p then y = y + 1 end if q then y = y * 2 end return y",
  steps = { { "", 1 }, { "p = false", 2 }, { "q = false", 3 }, { "p = true", 4 }, { "p, q = true, true", 4 },
    { "p, q = false, true", 4 } } }

special { name = "environment replaced", setup = "local env", body = "return x * k",
  steps = { { "setfenv(W.f, {k = 2})", 1 }, { "setfenv(W.f, {k = 3})", 1 },
  { "setfenv(W.f, {k = ty.tensor {1, 2, 3}})", 2 },
    { "setfenv(W.f, setmetatable({}, {__index = {k = 4}}))", 3 }, { "setfenv(W.f, {k = 9})", 3 } } }
special { name = "module's function replaced", body = "return unit.act(x)",
  setup = "package.loaded.matrix_unit = {act = ty.relu} local unit = require 'matrix_unit'",
  steps = { { "", 1 }, { "unit.act = ty.tanh", 2 }, { "unit.act = ty.relu", 2 }, { "unit.other = 1", 2 } } }
special { name = "library's function replaced, in an environment",
  setup = "local env = {math = {max = math.max, min = math.min}}",
  body = "return x * math.max(2, 3)",
  steps = { { "setfenv(W.f, env)", 1 }, { "env.math.max = math.min", 2 }, { "env.math.max = math.max", 2 },
    { "env.math = {max = math.max}", 2 } } }
special { name = "upvalue shared with a sibling that writes it",
  setup = "local k = 1 local function more() k = k + 1 end",
  body = "return x * k", steps = { { "", 1 }, { "more()", 1 }, { "more() more()", 1 } } }
special { name = "function made and called inside", setup = "local k = 2",
  body = "local function g(y) return y * k end return g(x) + g(g(x))",
  steps = { { "", 1 }, { "k = 3", 1 }, { "k = ty.tensor {1, 2, 3}", 2 } } }
special { name = "table of functions made inside", setup = "local k = 2",
  body = "local t = {} for i = 1, 3 do t[i] = function(y) return y * i + k end end return t[1](t[2](t[3](x)))",
  steps = { { "", 1 }, { "k = 3", 1 } } }

special { name = "upvalue counted up", setup = "local n = 0", state = "n", body = "n = n + 1 return x * n",
  steps = { { "", 1 }, { "", 1 }, { "n = 0.5", 1 }, { "n = -7", 1 } } }
special { name = "global counted up from nothing", setup = "local env = {}", state = "env",
  body = "total = (total or 0) + 1 return x * total",
  steps = { { "setfenv(W.f, env)", 2 }, { "env.total = 100", 2 }, { "env.total = nil", 2 } } }
special { name = "field made when first used", setup = "local self = {}", state = "self",
  body = "self.h = self.h or ty.zeros(3) self.h = self.h + x return self.h",
  steps = { { "", 2 }, { "self.h = nil", 2 }, { "self = {}", 2 }, { "self = {h = ty.ones(3)}", 2 } } }
special { name = "every tenth step is another", setup = "local n = 0", state = "n",
  body = "n = n + 1 if n % 10 == 0 then return x * n end return x + n",
  steps = { { "", 1 }, { "n = 9", 2 }, { "n = 19", 2 }, { "n = 25", 2 } } }
special { name = "flag flipped by the function itself", setup = "local odd = false", state = "odd",
  body = "odd = not odd if odd then return x + 1 end return x - 1", steps = { { "", 2 }, { "odd = true", 2 } } }

special { name = "layers of a model, one replaced, added, removed", state = "model",
  setup = [[
    local Linear, Act = {}, {}
    Linear.__index, Act.__index = Linear, Act
    function Linear:forward(h) return h:matmul(self.w) + self.b end
    function Act.forward(_, h) return h:tanh() end
    local function linear() return setmetatable({w = ty.ones(3, 3) / 4, b = ty.ones(3)}, Linear) end
    local model = {layers = {linear(), setmetatable({}, Act), linear()}}]],
  body = "local h = x for _, layer in ipairs(model.layers) do h = layer:forward(h) end return h",
  steps = { { "", 1 }, { "model.layers[1] = linear()", 1 }, { "model.layers[1].w = ty.ones(3, 3) * 2", 1 },
    { "model.layers[3].b:fill_(5)", 1 }, { "model.layers[3] = setmetatable({}, Act)", 2 },
    { "model.layers[4] = linear()", 3 }, { "model.layers[4] = nil", 3 }, { "model.layers[3] = linear()", 3 },
    { "model = {layers = {linear(), setmetatable({}, Act), linear()}}", 3 },
    { "function Act.forward(_, h) return h:relu() end", 4 } } }
special { name = "tree walked by recursion", setup = [[
    local tree = {k = 1, {k = 2, {k = 3}}, {k = 4}}
    local function walk(node, y)
      y = y * node.k
      for _, child in ipairs(node) do y = walk(child, y) + 1 end
      return y
    end]], body = "return walk(tree, x)",
  steps = { { "", 1 }, { "tree[1].k = 7", 1 }, { "tree[2][1] = {k = 2}", 2 }, { "tree[2][1] = nil", 2 },
    { "tree = {k = 2, {k = 3, {k = 4}}, {k = 5}}", 2 } } }
special { name = "inherited through three tables", setup = [[
    local base = {k = 2}
    local middle = setmetatable({}, {__index = base})
    local object = setmetatable({}, {__index = middle})]], body = "return x * object.k",
  steps = { { "", 1 }, { "base.k = 3", 1 }, { "middle.k = 5", 2 }, { "object.k = 7", 3 }, { "object.k = nil", 3 },
    { "middle.k = nil", 3 } } }
special { name = "protected call that fails or not", setup = [[
    local bad = false
    local function g(y) if bad then error({code = 7}) end return y * 2 end]],
  body = "local ok, y = pcall(g, x) if ok then return y end return x - y.code",
  steps = { { "", 1 }, { "bad = true", 2 }, { "bad = false", 2 } } }
special { name = "number written into a text", setup = "local k = 2", body = "return x + 1, ('step %d'):format(k)",
  steps = { { "", 1 }, { "k = 3", 2 }, { "k = 2", 2 } } }
special { name = "results of many shapes", setup = "local k = 2",
  body = "local y = x * k local t = {y, y, {k = k, s = 'a', x}, [5] = false} return y, nil, t, y, x, t[3]",
  steps = { { "", 1 }, { "k = 3", 1 }, { "k = ty.tensor(2)", 2 } } }
special { name = "tables with keys that are objects", setup = "local key, t = {}, {} t[key] = 2",
  body = "return x * t[key]",
  steps = { { "", 1 }, { "t[key] = 3", 1 }, { "t = {[key] = 5}", 1 }, { "key = {} t[key] = 9", 2 } } }

local special_template = [[
local W, ty = ...
local x = ty.tensor {1, 2, 3}
SETUP
function W.f(HEAD)
  BODY
end
W.steps = { STEPS }
function W.args() return ARGS end
function W.state() return STATE end
]]

local function special_source(s)
  local steps = {}
  for i, step in ipairs(s.steps) do steps[i] = "function() " .. step[1] .. " end" end
  local parts = { SETUP = s.setup or "", HEAD = s.head or "x", BODY = s.body, ARGS = s.args or "x",
    STATE = s.state or "nil", STEPS = table.concat(steps, ",\n  ") }
  return (special_template:gsub("%u%u%u+", parts))
end

describe("a thing of its own:", function()
  after_each(function()
    H.ty.default_dtype "f32"
    H.ty.precision "exact"
    H.ty.threads(2)
  end)

  for _, s in ipairs(specials) do
    cells = cells + #s.steps
    it(s.name, function()
      local pair = T.pair(special_source(s))
      for i, step in ipairs(s.steps) do
        pair:each(function(W) W.steps[i]() end)
        phase(pair, ("step %d (%s)"):format(i, step[1]), s.body, step[2])
      end
    end)
  end
end)

describe("the matrix", function()
  it("has cells enough", function()
    print(("matrix: %d cells, %d left out by rule"):format(cells, left))
    assert.truthy(cells >= 400)
  end)
end)
