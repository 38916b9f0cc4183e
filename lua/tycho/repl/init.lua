--- repl/init.lua -- the prompt: reads, runs, shows.
-- In: what is typed at a terminal. Out: what it gives. Errors are shown, and the session goes on; Ctrl-C ends what
-- runs; Ctrl-D ends the session.

local ty = require "tycho"
local terminal = require "tycho.terminal"
local commands = require "tycho.repl.commands"
local complete = require "tycho.repl.complete"
local edit = require "tycho.repl.edit"
local history = require "tycho.repl.history"
local problems = require "tycho.repl.problems"
local sessions = require "tycho.repl.session"
local source = require "tycho.repl.source"
local values = require "tycho.repl.values"
local warnings = require "tycho.repl.warnings"

local OUTPUT = 1
local interruptible = ty.internals.interruptible

---@class tycho.Repl what commands work on
local Repl = {}
Repl.__index = Repl

--- Columns that may be used.
function Repl:width() -- luacheck: ignore self
  return (terminal.size(OUTPUT) or 80) - 1
end

function Repl:write(text) -- luacheck: ignore self
  io.write(text, "\n")
  io.flush()
end

--- An error or a warning, on the same screen.
function Repl:warn(text) -- luacheck: ignore self
  io.flush()
  io.stderr:write(text, "\n")
  io.stderr:flush()
end

--- Goes to the start of a line: on, if something stands in this one. A mark and blanks as wide as the terminal end in
--- this line only if they began at its start.
function Repl:start_line()
  if terminal.size(OUTPUT) then io.write("%", (" "):rep(self:width()), "\r\27[K") end
end

--- Runs fn(...) so that Ctrl-C ends it. True and its results; false where it failed, which has been shown.
---@param input? tycho.Input whose locals live on
---@return boolean, ...
function Repl:run(input, fn, ...)
  local function finish(ok, where, ...)
    if ok then return true, ... end
    io.flush()
    local problem = ...
    if where then
      self:warn(values.paint("error", where .. "interrupted", self.colors))
    elseif type(problem) == "table" and problem.frames then
      self:warn(problems.text(self.session, problem, self.colors))
    else
      self:warn(values.paint("error", tostring(problem), self.colors))
    end
    return false
  end
  return finish(interruptible(fn, problems.handler(self.session, input), ...))
end

--- Draws a plot in the terminal, dark unless it says otherwise, as most terminals are.
function Repl:draw(plot)
  local name, theme = os.tmpname(), rawget(plot, "theme")
  local path = name .. ".png"
  rawset(plot, "theme", theme or "dark")
  local ok, message = plot:save(path)
  rawset(plot, "theme", theme)
  local image = ok and ty.load(path)
  os.remove(path)
  os.remove(name)
  if image then ty.show(image) else self:warn(tostring(message)) end
end

--- Shows values, and holds the first one.
function Repl:show(input, ...)
  local n = select("#", ...)
  if n == 0 or n == 1 and (...) == nil and input.call then return end
  self.session:hold((...))
  if input.silent then return end
  self:start_line()
  local list = { ... }
  self:run(nil, function()
    for i = 1, n do
      local v = list[i]
      local drawn = type(v) == "table" and complete.is_plot(v) and terminal.size(OUTPUT)
      if drawn then
        self:draw(v)
      else
        local text = values.show(v, { colors = self.colors, width = self:width() })
        if text ~= "" then self:write(text) end
      end
    end
  end)
end

--- Runs a text that was typed, as an input of its own.
---@param text string
---@return boolean ok
function Repl:evaluate(text)
  local session = self.session
  local input, message = session:compile(text)
  if not input then
    self:warn(problems.syntax(session, message, self.colors))
    return false
  end
  local undefined = warnings(session, input)
  local function finish(ok, ...)
    if not ok then return false end
    if input.expression then self:show(input, ...) end
    for _, warning in ipairs(undefined()) do self:warn(values.paint("warning", warning, self.colors)) end
    return true
  end
  return finish(self:run(input, input.fn))
end

--- An input: Lua, or a command. An error of our own ends no session.
---@param text string
function Repl:take(text)
  local ok, message = pcall(function()
    if not commands.run(self, text) then self:evaluate(text) end
  end)
  if not ok then self:warn("tycho: " .. tostring(message)) end
  io.flush()
end

local function prompt(self)
  local number = ("%d>"):format(self.session.count + 1)
  return (self.colors and "\1\27[1;32m\1" .. number .. "\1\27[0m\1 " or number .. " ")
end

local BANNER = [[Tycho %son %s. Help: ty.help(), ?name; commands: %%help. Ctrl-D leaves.]]

--- Reads and runs until the end of input.
function Repl:loop()
  local past = history.open()
  local reader = edit.open {
    prompt = function() return prompt(self) end,
    more = function(text) return not commands.is_command(text) and source.is_incomplete(text) end,
    indent = source.indentation, dedent = source.dedented,
    complete = function(text) return complete.words(self.session, text) end,
    width = function() return self:width() end,
  }
  for _, text in ipairs(past.list) do reader.add(text) end
  while true do
    self:start_line()
    local text = reader.read()
    if text == nil then return end
    if text and text:find "%S" then
      if past:add(text) then reader.add(text) end
      self:take(text)
      if self.left then return end
    end
  end
end

--- A prompt's state; `session` holds what was typed.
---@param opts? { colors: boolean? }
---@return tycho.Repl
local function new(opts)
  local self = setmetatable({ session = sessions.new() }, Repl)
  self.colors = opts and opts.colors
  if self.colors == nil then
    self.colors = terminal.size(OUTPUT) ~= nil and (os.getenv "NO_COLOR" or "") == ""
  end
  require("tycho.plan_text").texts = self.session.texts
  self.known = {}
  for name in pairs(_G) do self.known[name] = true end
  return self
end

--- The session at a terminal, until it ends.
---@param opts? { quiet: boolean? }
local function start(opts)
  local self = new()
  ty.internals.ignore_interrupts()
  require "tycho.repl.compiled_loops"(ty.internals)
  if not (opts and opts.quiet) then
    self:write(BANNER:format(ty.version and ty.version .. " " or "", type(jit) == "table" and jit.version or _VERSION))
  end
  self:loop()
end

return { new = new, start = start }
