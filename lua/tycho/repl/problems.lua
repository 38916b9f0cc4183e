--- repl/problems.lua -- errors, as one wants to read them.
-- In: what was raised, with the stack. Out: text: the message, what may have been meant, and the
-- lines of the user's code that led there, with their source, also of what was typed. Cannot fail.

local ty = require "tycho"
local values = require "tycho.repl.values"

local M = {}

local FRAMES = 12 -- the inner ones; of a deeper stack the outermost is shown, too
local paint = values.paint

--- The n-th line of a chunk's source: of an input, of a file; nil where it cannot be had.
---@param session table
---@param chunk string a source as debug.getinfo gives it
---@param number integer
---@return string?
function M.line_of(session, chunk, number)
  local text = session.texts[chunk:match "^=(.*)$" or chunk]
  local i = 0
  if text then
    for line in (text .. "\n"):gmatch "([^\n]*)\n" do
      i = i + 1
      if i == number then return line end
    end
    return nil
  end
  local file = chunk:sub(1, 1) == "@" and io.open(chunk:sub(2), "r")
  if not file then return nil end
  for line in file:lines() do
    i = i + 1
    if i == number then
      file:close()
      return line
    end
  end
  file:close()
end

-------------------------------------------------------------------------------------------------------- what was meant

--- Adds the names in a table and in the classes behind it to `found`, which it gives.
---@param t any
---@param found table<string, true>
---@return table<string, true>
function M.keys_of(t, found)
  if t == ty then
    for k in pairs(ty.internals.parts) do found[k] = true end
  end
  for _ = 1, 8 do
    if type(t) ~= "table" then break end
    for k in next, t do
      if type(k) == "string" and not k:find "^_" then found[k] = true end
    end
    local meta = debug.getmetatable(t)
    t = type(meta) == "table" and rawget(meta, "__index")
  end
  return found
end

--- The name in `known` that may have been meant by one that is not there, else the shortest one that begins so.
---@param name string
---@param known table<string, any>
---@return string?
function M.nearest(name, known)
  local found = ty.internals.nearest(name, known)
  if found or #name < 3 then return found end
  for other in pairs(known) do
    local shorter = not found or #other < #found or #other == #found and other < found
    if shorter and other:sub(1, #name) == name then found = other end
  end
  return found
end

--- All names that a line can use: globals and the session's locals.
function M.names(session)
  local known = M.keys_of(_G, {})
  for name in pairs(session.locals) do known[name] = true end
  return known
end

--- The value of "a.b.c" by globals and locals, without calling anything.
function M.resolve(session, path)
  local value
  local first = true
  for name in path:gmatch "[^.:]+" do
    if first then
      first = false
      local there, v = session:get(name)
      value = v
      if not there then value = rawget(_G, name) end
    elseif ty.is_tensor(value) then
      return ty.internals.methods[name]
    elseif type(value) == "table" then
      local ok, v = ty.internals.protect(function(t) return t[name] end, value)
      value = ok and v or nil
    else
      return nil
    end
  end
  return value
end

local PROPERTIES = { shape = true, dtype = true, device = true, ndim = true, requires_grad = true, grad = true }

--- A sentence of what to do: what may have been meant by a name that is nothing, what tensors have instead.
local function suggestion(session, message, line)
  local property = message:match "attempt to call method '([%w_]+)' %(a "
  if PROPERTIES[property] then return ("`%s` is a property, not a method: write it without ()"):format(property) end
  if message:find "attempt to compare .*userdata" then
    return "tensors are compared by methods: x:lt(y), x:le(y), x:eq(y) ..."
  end
  local name = message:match "global '([%w_]+)' %(a nil value%)"
  if name then
    local near = M.nearest(name, M.names(session))
    return near and ("did you mean `%s`?"):format(near)
  end
  name = message:match "[fm]%a+ '([%w_]+)' %(a nil value%)"
  if not name or not line then return nil end
  local path = line:match("([%a_][%w_.]*)[.:]%s*" .. name)
  local owner = path and M.resolve(session, path)
  local near = type(owner) == "table" and M.nearest(name, M.keys_of(owner, {}))
  return near and ("did you mean `%s.%s`?"):format(path, near)
end

---------------------------------------------------------------------------------------------------------------- errors

---@class tycho.Problem
---@field message string
---@field frames { chunk: string, source: string, line: integer, name: string? }[]

--- In an error handler: an error's text with the path of the module in whose `forward` it was raised, as errors of the
--- library have it; what names no line stays as it is.
---@param message string
---@return string
function M.located(message)
  local name_module = ty.internals.name_module -- there where modules are in use
  local where, text = message:match "^(.-:%d+): (.*)$"
  if not name_module or not where or where:find "^[%w_.]+ %(%w+%), " then return message end
  local ok, located = pcall(name_module, where, text)
  return ok and located or message
end

--- In an error handler: the message and the stack down to the input's function, whose locals live on.
---@param session table
---@param input tycho.Input
---@return fun(e: any): tycho.Problem
function M.handler(session, input)
  return function(e)
    local ok, text = pcall(tostring, e)
    local problem = { value = e, message = ok and text or "an error whose __tostring fails", frames = {} }
    if type(e) == "string" then problem.message = M.located(e)
    else problem.message = "error: " .. values.show(e) end
    local level = 2
    while true do
      local info = debug.getinfo(level, "Slnf")
      if not info then break end
      if info.what ~= "C" and info.currentline > 0 then
        problem.frames[#problem.frames + 1] =
          { chunk = info.source, source = info.short_src, line = info.currentline, name = info.name }
      end
      if input and info.func == input.fn then
        local wanted = {}
        for _, name in ipairs(input.locals) do wanted[name] = true end
        for i = 1, math.huge do
          local name, value = debug.getlocal(level, i)
          if not name then break end
          if wanted[name] and value ~= nil then
            wanted[name] = nil
            session:keep_value(name, value)
          end
        end
        break
      end
      level = level + 1
    end
    return problem
  end
end

local home = debug.getinfo(ty.internals.load, "S").source:match "^(@.*)[/\\]" or "@\0"

local function is_ours(frame) return frame.chunk:sub(1, #home) == home and frame.chunk:find("^[/\\]", #home + 1) end

--- What is written of an error.
---@param session table
---@param problem tycho.Problem
---@param colors boolean
---@return string
function M.text(session, problem, colors)
  local lines = { paint("error", problem.message, colors) }
  local shown = {}
  for _, frame in ipairs(problem.frames) do
    if not is_ours(frame) then shown[#shown + 1] = frame end
  end
  local first = shown[1]
  local near = suggestion(session, problem.message, first and M.line_of(session, first.chunk, first.line))
  if near then lines[#lines + 1] = "  " .. near end
  for i, frame in ipairs(shown) do
    if i <= FRAMES or i == #shown then
      if i == #shown and i > FRAMES + 1 then lines[#lines + 1] = ("  ... %d more"):format(i - FRAMES - 1) end
      local place = ("%s:%d"):format(frame.source, frame.line)
      local text = M.line_of(session, frame.chunk, frame.line)
      local one_line = #shown == 1 and session.texts[frame.chunk:sub(2)]
      if not (one_line and not one_line:find "\n") then -- the line was just typed
        local code = text and paint("dim", "  | " .. text:match "^%s*(.-)%s*$", colors) or ""
        local name = frame.name and " in " .. frame.name or ""
        lines[#lines + 1] = ("  %s%s%s"):format(paint("name", place, colors), name, code)
      end
    end
  end
  return table.concat(lines, "\n")
end

--- A message of LuaJIT's compiler, with the line that it means.
function M.syntax(session, message, colors)
  local chunk, number, what = message:match "^(.-):(%d+): (.*)$"
  local text = chunk and M.line_of(session, chunk, tonumber(number))
  if not text then return paint("error", message, colors) end
  local lines = { paint("error", ("%s:%s: %s"):format(chunk, number, what), colors), "  " .. text }
  local near = what:match "near '(.*)'$"
  local at, stop
  if near == "<eof>" then at, stop = #text + 1, #text + 1
  elseif near then at, stop = text:find(near, 1, true) end
  local marks = at and ("^"):rep(math.max(stop - at + 1, 1))
  if marks then lines[#lines + 1] = "  " .. (" "):rep(at - 1) .. paint("error", marks, colors) end
  return table.concat(lines, "\n")
end

return M
