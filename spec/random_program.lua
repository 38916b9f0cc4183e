--- random_program.lua -- a random Lua program of numbers, tables and closures, from a seed.
-- It ends: each loop turn and each call takes from a budget, and raises "budget" when none is left. Its functions
-- return numbers; `log` collects what it does. Other errors than the budget's occur inside of pcall alone; their messages
-- are logged. Where the host has 64-bit constants and operators for bits, so has the program.

local Maker = {}
Maker.__index = Maker

function Maker:random(n) -- 1 .. n, the same on every host
  self.state = (self.state * 16807) % 2147483647
  return self.state % n + 1
end

function Maker:one_of(...) return (select(self:random(select("#", ...)), ...)) end

function Maker:emit(text) self.out[#self.out + 1] = ("  "):rep(self.depth) .. text end

function Maker:fresh(kind)
  self.counter = self.counter + 1
  return kind .. self.counter
end

--- A name in scope of a kind: n number, t table, f function. Declared names are dropped with their block.
function Maker:pick(kind)
  local names = {}
  for _, name in ipairs(self.scope) do
    if name:sub(1, 1) == kind then names[#names + 1] = name end
  end
  return #names > 0 and names[self:random(#names)] or nil
end

function Maker:declare(name) self.scope[#self.scope + 1] = name end

function Maker:block(body)
  local mark = #self.scope
  self.depth = self.depth + 1
  body()
  self.depth = self.depth - 1
  for k = #self.scope, mark + 1, -1 do self.scope[k] = nil end
end

local has_bits, has_wide = loadstring "return ~1" ~= nil, loadstring "return 1LL" ~= nil

function Maker:constant()
  return self:one_of("0", "1", "2", "-1", "0.5", "7", "1e10", "255", "256", "-3.25", "0 / 0", "('4' * 1)", "-0", "1 / 0")
end

--- A number, as text. Deep expressions get rarer.
function Maker:number(level)
  level = level or 0
  local kind = self:random(level > 2 and 4 or 15)
  if kind <= 2 then return self:pick("n") or self:constant() end
  if kind == 3 then return self:constant() end
  if kind == 4 then return self.vararg and self:one_of("select('#', ...)", "((...) or 3)") or self:pick("n") or "5" end
  local x, y = self:number(level + 1), self:number(level + 1)
  if kind <= 8 then return ("(%s %s %s)"):format(x, self:one_of("+", "-", "*", "/", "%"), y) end
  if kind == 9 then return ("-(%s)"):format(x) end
  if kind == 10 then return ("(%s %s %s and %s or %s)"):format(x, self:compare(), y, self:number(level + 1), x) end
  if kind == 11 then
    local t = self:pick("t")
    return t and ("(%s[%s] or %s)"):format(t, self:key(), x) or x
  end
  if kind == 12 then
    local t = self:pick("t")
    return t and ("(%s.x or %s)"):format(t, x) or y
  end
  if kind == 13 then
    local f = self:pick("f")
    return f and ("(%s(%s) or 0)"):format(f, self:arguments(level + 1)) or x
  end
  if kind == 14 then return ("(%s or %s)"):format(self:one_of("nil", "false", x), y) end
  if has_bits and self:random(2) == 1 then
    if self:random(4) == 1 then return ("(~%s)"):format(x) end
    return ("(%s %s %s)"):format(x, self:one_of("&", "|", "~", "<<", ">>", "~>>"), y)
  end
  return ("#(%s .. '' .. %s)"):format(x, y)
end

function Maker:compare() return self:one_of("<", "<=", ">", ">=", "==", "~=") end

function Maker:condition()
  local text = ("%s %s %s"):format(self:number(1), self:compare(), self:number(1))
  local kind = self:random(6)
  if kind == 1 then return ("not (%s)"):format(text) end
  if kind == 2 then return ("%s and %s == %s"):format(text, self:number(2), self:number(2)) end
  if kind == 3 then return ("%s or not %s"):format(text, self:pick("t") or "nil") end
  return text
end

function Maker:key() return self:one_of("1", "2", "3", "300", "'x'", "'y'", "true", "-1", "1.5") end

function Maker:arguments(level)
  local list = {}
  for k = 1, self:random(4) - 1 do list[k] = self:number(level) end
  if self.vararg and self:random(3) == 1 then list[#list + 1] = "..." end
  local f = self:pick("f")
  if f and level < 2 and self:random(4) == 1 then list[#list + 1] = f .. "()" end
  return table.concat(list, ", ")
end

local statements = {}

function statements:local_numbers()
  local n = self:random(3)
  local names, values = {}, {}
  for k = 1, n do names[k], values[k] = self:fresh("n"), self:number() end
  self:emit(("local %s = %s"):format(table.concat(names, ", "), table.concat(values, ", ")))
  for k = 1, n do self:declare(names[k]) end
end

function statements:assign()
  local a, b = self:pick("n"), self:pick("n")
  if not a then return end
  if a == b then return self:emit(("%s = %s"):format(a, self:number())) end
  self:emit(("%s, %s = %s, %s"):format(a, b, self:number(), self:number()))
end

function statements:note() self:emit(("log[#log + 1] = %s"):format(self:number())) end

function statements:table()
  local name, items = self:fresh("t"), {}
  for k = 1, self:random(4) - 1 do
    items[k] = self:one_of(self:number(2), "x = " .. self:number(2), "[" .. self:key() .. "] = " .. self:number(2), "7", "nil")
  end
  if self.vararg and self:random(3) == 1 then items[#items + 1] = "..." end
  self:emit(("local %s = { %s }"):format(name, table.concat(items, ", ")))
  self:declare(name)
end

function statements:store()
  local t = self:pick("t")
  if t then self:emit(("%s[%s] = %s"):format(t, self:key(), self:number())) end
end

function statements:choose()
  self:emit(("if %s then"):format(self:condition()))
  self:block(function() self:body(2) end)
  if self:random(2) == 1 then
    self:emit(("elseif %s then"):format(self:condition()))
    self:block(function() self:body(1) end)
  end
  if self:random(2) == 1 then
    self:emit("else")
    self:block(function() self:body(1) end)
  end
  self:emit("end")
end

--- The inside of a loop: spends, and may leave or go on early.
function Maker:loop_body()
  self:emit("spend()")
  local skips = self:random(3) == 1
  local label = self:fresh("continue")
  if skips then self:emit(("if %s then goto %s end"):format(self:condition(), label)) end
  self:emit("do")
  self:block(function() self:body(3) end)
  self:emit("end")
  if self:random(3) == 1 then self:emit(("if %s then break end"):format(self:condition())) end
  if skips then self:emit(("::%s::"):format(label)) end
end

function statements:numeric_for()
  local name = self:fresh("n")
  local bounds = self:one_of("1, 4", "3, 1, -1", "0, 1, 0.25", "1, 0", "'1', 2", "5, 5", "2, -2, -2")
  self:emit(("for %s = %s do"):format(name, bounds))
  self:block(function()
    self:declare(name)
    self:loop_body()
  end)
  self:emit("end")
end

function statements:generic_for()
  local t = self:pick("t")
  if not t then return end
  local name = self:fresh("n")
  local head = self:one_of("_, %s in ipairs(%s)", "%s in count(%s[1] and 2 or 1)", "%s, _ in next, { 4, 5, 6, %s and 7 }")
  self:emit("for " .. head:gsub("%%s", name, 1):gsub("%%s", t, 1) .. " do")
  self:block(function()
    self:declare(name)
    self:loop_body()
  end)
  self:emit("end")
end

function statements:while_loop()
  local name = self:fresh("n")
  self:emit(("local %s = 0"):format(name))
  self:emit(("while %s < %d do"):format(name, self:random(4)))
  self:block(function()
    self:emit(("%s = %s + 1"):format(name, name))
    self:loop_body()
  end)
  self:emit("end")
end

function statements:repeat_loop()
  local name, f = self:fresh("n"), self:fresh("f")
  self:emit("repeat")
  self:block(function()
    self:emit("spend()")
    self:emit(("local %s = %s"):format(name, self:number()))
    self:declare(name)
    self:emit(("local function %s() %s = %s + 1 return %s end"):format(f, name, name, name))
    self:body(2)
  end)
  self:emit(("until %s() ~= %s() or %s ~= %s"):format(f, f, name, name))
end

function statements:func()
  local name, params = self:fresh("f"), {}
  for k = 1, self:random(3) - 1 do params[k] = self:fresh("n") end
  local vararg, outer = self:random(3) == 1, self.vararg
  local list = table.concat(params, ", ")
  if vararg then list = list .. (#params > 0 and ", " or "") .. "..." end
  local recursive = self:random(4) == 1
  if recursive then self:declare(name) end
  self:emit(("local function %s(%s)"):format(name, list))
  self.vararg = vararg
  self:block(function()
    self:emit("spend()")
    for k = 1, #params do
      self:emit(("%s = %s or %d"):format(params[k], params[k], k))
      self:declare(params[k])
    end
    self:body(3)
    self:returns()
  end)
  self.vararg = outer
  self:emit("end")
  if not recursive then self:declare(name) end
end

function Maker:returns()
  local f = self:pick("f")
  local kind = self:random(6)
  if kind == 1 and f then return self:emit(("return %s(%s)"):format(f, self:arguments(0))) end
  if kind == 2 and self.vararg then return self:emit(("return %s, ..."):format(self:number())) end
  if kind == 3 then return self:emit("return") end
  if kind == 4 and f then return self:emit(("return %s, %s()"):format(self:number(), f)) end
  if kind == 5 then return self:emit(("return %s, %s, %s"):format(self:number(), self:number(1), self:number(1))) end
  self:emit(("return %s"):format(self:number()))
end

function statements:call()
  local f = self:pick("f")
  if not f then return end
  local a, b = self:fresh("n"), self:fresh("n")
  self:emit(("local %s, %s = %s(%s)"):format(a, b, f, self:arguments(0)))
  self:emit(("%s, %s = %s or 1, %s or 2"):format(a, b, a, b))
  self:declare(a)
  self:declare(b)
end

function statements:protected()
  local name, outer = self:fresh("n"), self.vararg
  local message = self:fresh("message")
  self:emit(("local %s, %s = pcall(function(...)"):format(name, message))
  self.vararg = true
  self:block(function()
    self:emit("spend()")
    self:body(2)
    self:emit(self:fault())
  end)
  self.vararg = outer
  self:emit(("end, %s)"):format(self:number()))
  self:emit(("log[#log + 1], %s = type(%s) == 'table' or tostring(%s), %s and 1 or 0"):format(name, message, message, name))
  self:declare(name)
end

--- A statement that fails, mostly.
function Maker:fault()
  local n, t, f = self:pick("n") or "log", self:pick("t") or "log", self:pick("f") or "count"
  local texts = { "error('x')", "error({})", "error('y', 0)", "error('up', 2)", "do return 1 end", "local z = nil; z = z.x",
    "z = {} + 1", "undefined()", t .. ".a.b = 1", t .. ".none(1)", t .. ":none(1)", n .. "()", n .. ".x.y = 1",
    "log.z = " .. t .. " .. 1", "log.z = 2 - " .. t, "log.z = -" .. t .. ".none", "log.z = #" .. n, "log.z = " .. t .. " < " .. n,
    "for i = 1, " .. t .. " do end", "for x in " .. n .. " do end", t .. "[nil] = 1", "string.rep()", "log.z = ('x'):rep(" .. t .. ")",
    "setmetatable(1, " .. t .. ")", "return string.format('%d', 'x')", "return " .. f .. " + 1", "assert(false, 'no')",
    "assert(nil)", "return (object.none.x)", "return setmetatable({}, object) + object.none.x" }
  return texts[self:random(#texts)]
end

function statements:wide()
  if not has_wide then return self:note() end
  self:emit(("log[#log + 1] = tostring(%s %s %s)"):format(self:one_of("5LL", "-1LL", "7ULL", "0x7fffffffffffffffLL"),
    self:one_of("+", "-", "*"), self:one_of("3", "2LL", "9ULL", "-4")))
end

function statements:object()
  local name = self:fresh("object")
  self:emit(("local %s = setmetatable({ x = %s }, object)"):format(name, self:number(2)))
  self:emit(("log[#log + 1] = (%s + %s).x"):format(name, self:number(2)))
  self:emit(("log[#log + 1] = %s:get(%s)"):format(name, self:arguments(1)))
  self:emit(("log[#log + 1] = %s.missing .. (%s < %s and 'l' or 'g')"):format(name, name, name))
end

local kinds = { "local_numbers", "local_numbers", "assign", "assign", "note", "note", "table", "store", "choose", "choose",
  "numeric_for", "generic_for", "while_loop", "repeat_loop", "func", "func", "call", "call", "protected", "protected", "object", "wide" }

function Maker:body(n)
  for _ = 1, self:random(n) do
    local nested = self.depth > 5
    statements[kinds[self:random(nested and 8 or #kinds)]](self)
  end
end

local prelude = [[
local log, budget = {}, 300
local function spend() budget = budget - 1 if budget < 0 then error("budget", 0) end end
local function count(n) local i = 0 return function() if i < n then i = i + 1 return i end end end
local object = {
  __add = function(a, b) spend() return { x = type(a) == "table" and a.x or a or b } end,
  __lt = function(a, b) return a.x < b.x end,
}
object.__index = function(_, k) return k == "get" and object.get or k .. "!" end
function object:get(...) return select("#", ...) + (tonumber(self.x) or 0) end]]

--- The program's text. It returns whether it came to its end, and the log.
---@param seed integer
---@return string
return function(seed)
  local maker = setmetatable({ state = seed * 7919 % 2147483646 + 1, out = { prelude }, scope = {}, depth = 0, counter = 0 }, Maker)
  for _ = 1, 5 do maker:random(2) end
  maker:emit("local function main(...)")
  maker.vararg = true
  maker:block(function()
    maker:body(4)
    for _ = 1, 6 do maker:body(4) end
    maker:returns()
  end)
  maker:emit("end")
  maker:emit("local results = { pcall(main, 1, nil, 3) }")
  maker:emit("return results, log, budget")
  return table.concat(maker.out, "\n")
end
