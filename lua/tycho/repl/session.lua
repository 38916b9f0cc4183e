--- repl/session.lua -- what was typed becomes a function, and its locals live on.
-- In: text, one complete input after the other. Out: functions that run it; results under `_`, `_1`, `_2` ...; what is
-- wrong with it. The variables of earlier inputs are the same variables in later ones, not copies.
--
-- 1. An input is compiled as the body of a function whose upvalues are the session's locals that it names; they are
--    joined to the variables themselves (debug.upvaluejoin). So closures see what is assigned later, and another
--    `local x` is another variable, as in a file.
-- 2. At its end an input hands over a closure of the locals that it declares. Where an error comes first, those that
--    have values by then live on all the same, as new variables.
-- 3. An input that is an expression gives its values. It calls in no tail position, so that errors find its line.

local source = require "tycho.repl.source"

local M = {}
M.__index = M

local KEPT = 16 -- results of so many inputs stay under their numbers
local HIDDEN = "_session" -- the upvalue that hands over locals, or passes values on

--- The end of an input that declares locals. It assigns to them, though it is never called so: what the text assigns to
--- nowhere, LuaJIT takes for constants.
local KEEP = HIDDEN .. "(function(...) if ... then NAMES = nil end return NAMES end)"

function M.new()
  return setmetatable({ count = 0, locals = {}, texts = {}, order = {}, results = {}, fresh = {} }, M)
end

--- The name of the input's chunk, as errors have it.
local function chunk_name(number) return ("input[%d]"):format(number) end

--- The session's local of that name: whether there is one, its value.
---@param name string
---@return boolean, any
function M:get(name)
  local box = self.locals[name]
  if not box then return false end
  return true, select(2, debug.getupvalue(box.fn, box.index))
end

--- Each local and its value.
function M:each(visit)
  for _, name in ipairs(self.order) do
    local _, value = self:get(name)
    visit(name, value)
  end
end

local function keep(self, name, fn, index)
  if not self.locals[name] then self.order[#self.order + 1] = name end
  self.locals[name] = { fn = fn, index = index }
end

--- Takes the upvalues of a closure as the variables of their names.
local function keep_all(self, fn)
  for i = 1, math.huge do
    local name = debug.getupvalue(fn, i)
    if not name then return end
    keep(self, name, fn, i)
  end
end

--- Takes the value of a variable that is on the stack and will be gone.
function M:keep_value(name, value)
  keep(self, name, function(...)
    if ... then value = nil end -- as in KEEP
    return value
  end, 1)
end

--- The names in source order that the session holds.
local function used(self, names)
  local list = {}
  for _, name in ipairs(self.order) do
    if names[name] then list[#list + 1] = name end
  end
  return list
end

local function pass(...) return ... end

--- Joins the upvalues of a compiled input to the variables that they mean.
local function join(self, fn, hidden)
  for i = 1, math.huge do
    local name = debug.getupvalue(fn, i)
    if not name then return fn end
    local box = self.locals[name]
    if name == HIDDEN then debug.setupvalue(fn, i, hidden)
    elseif box then debug.upvaluejoin(fn, i, box.fn, box.index) end
  end
end

---@class tycho.Input
---@field fn function
---@field name string of the chunk
---@field locals string[] which it declares
---@field silent boolean
---@field expression boolean its values are what was asked for
---@field call boolean the expression is a call

--- Compiles an input. Nil and LuaJIT's message where it is no Lua.
---@param text string
---@return tycho.Input?, string? message
function M:compile(text)
  self.count = self.count + 1
  local name = chunk_name(self.count)
  self.texts[name] = text
  local chunk = "=" .. name
  text = text:gsub("^%s*=", "")
  local body, silent = source.without_semicolon(text)
  local tokens = source.tokens(text)
  local locals, names = source.names(tokens)
  local prelude = "local " .. table.concat({ HIDDEN, unpack(used(self, names)) }, ", ") .. " return function(...) "
  if loadstring("return " .. body .. "\n", chunk) and body:find "%S" and #source.tokens(body) > 0 then
    local last = tokens[#tokens]
    local comment = last.kind == "comment" and "\n" or "" -- else the calls in it would be the next line's
    local maker = assert(loadstring(("%sreturn %s(%s%s) end"):format(prelude, HIDDEN, body, comment), chunk))
    return {
      fn = join(self, maker(), pass), name = name, locals = {}, silent = silent, expression = true,
      call = body:find "[)}\"']%s*$" ~= nil and tokens[1].text ~= "{" and tokens[1].kind ~= "string",
    }
  end
  local checked, why = loadstring(text, chunk)
  if not checked then return nil, why end
  local epilogue = #locals > 0 and KEEP:gsub("NAMES", (table.concat(locals, ", "))) or ""
  local maker = loadstring(("%s%s\n%s end"):format(prelude, text, epilogue), chunk)
    or assert(loadstring(("%s%s\nend"):format(prelude, text), chunk)) -- it ends with `return`, or a label
  return {
    fn = join(self, maker(), function(fn) keep_all(self, fn) end), name = name, locals = locals, silent = silent,
    expression = text:find "^%s*return%f[%W]" ~= nil, call = false,
  }
end

--- Holds a result under `_` and the number of its input.
---@param value any
function M:hold(value)
  if value == nil then return end
  local number = self.count
  rawset(_G, "_", value)
  rawset(_G, "_" .. number, value)
  self.results[#self.results + 1] = number
  if #self.results > KEPT then rawset(_G, "_" .. table.remove(self.results, 1), nil) end
end

return M
