--- progress.lua -- `ty.progress`: how far a loop is, in one line that is written over; curves above it while it runs.
--
--   local bar = ty.progress(steps, { label = "train", unit = "samples", per_step = 32, curve = "loss" })
--   for i in bar do bar:set{ loss = step() } end         -- or bar:step{ loss = step() } where the loop is another's
--   for images, labels in ty.progress(loader) do ... end -- around an iterator, or a list
--
-- The line goes to the errors' file, so that what is piped on stays clean. Where that is no terminal, a line is written
-- at the end, and every minute. Values may be tensors: they are read only when they are drawn, at most 15 times a
-- second. Nothing of the terminal is changed, so nothing needs to be put back when the work raises; a bar whose line
-- has become another's begins a new one. A step costs a look at the clock.

local ty = require "tycho"
local terminal = require "tycho.terminal"

local check = require("tycho.arguments")(ty)
local fail, show = check.fail, check.show

local floor, min, max = math.floor, math.min, math.max

local INTERVAL = 1 / 15 -- seconds between two drawings
local QUIET = 60 -- seconds between two lines where there is no terminal
local MEMORY = 3 -- seconds over which the rate is a mean
local KEPT = 1024 -- points of a curve; beyond, every second one goes
local ERRORS = 2

---@class tycho.Progress
local Progress = {}

local LACKING = { -- what a bar may be without
  label = true, total = true, next = true, list = true, finished = true, begun = true, control = true, rate = true,
}

--- A method by its name; a name that bars have not raises, and says what there is.
function Progress.__index(_, name)
  local method = Progress[name]
  if method ~= nil or LACKING[name] then return method end
  return fail("progress", "a bar has no %s; it has bar:step(), bar:step(n, {loss = 0.3}), bar:set{loss = 0.3}, "
    .. "bar:print(text), bar:done()", type(name) == "string" and name or show(name))
end

local current -- the bar whose line the cursor is on

---------------------------------------------------------------------------------------------------------- text

local function clock_text(seconds)
  if seconds - seconds ~= 0 then return "?" end
  if seconds < 10 then return ("%.1f s"):format(seconds) end
  if seconds < 60 then return ("%.0f s"):format(seconds) end
  if seconds < 3600 then return ("%d:%02d min"):format(floor(seconds / 60), floor(seconds % 60)) end
  return ("%d:%02d h"):format(floor(seconds / 3600), floor(seconds % 3600 / 60))
end

local function count_text(n)
  if n < 10 then return ("%.2f"):format(n) end
  if n < 1e4 then return ("%.0f"):format(n) end
  for _, unit in ipairs { "k", "M", "G", "T" } do
    n = n / 1000
    if n < 999.5 then return ("%.3g%s"):format(n, unit) end -- of three digits: %g writes no exponent
  end
  return ("%.0fT"):format(n)
end

local EIGHTHS = { "", "\226\150\143", "\226\150\142", "\226\150\141", "\226\150\140", "\226\150\139", "\226\150\138",
  "\226\150\137" } -- blocks that fill from the left

local function bar_text(share, width, unicode)
  share = min(1, max(0, share))
  if not unicode then
    local full = floor(share * width)
    return "[" .. ("#"):rep(full) .. ("."):rep(width - full) .. "]"
  end
  local eighths = floor(share * width * 8)
  local full, part = floor(eighths / 8), EIGHTHS[eighths % 8 + 1]
  local empty = width - full - (part == "" and 0 or 1)
  return "\226\150\149" .. ("\226\150\136"):rep(full) .. part .. (" "):rep(empty) .. "\226\150\143"
end

--- A value as it is drawn: tensors are read now.
local function number_of(v)
  if ty.is_tensor(v) then return v:item() end
  return v
end

--- The texts of the values, in the order in which their names came.
local function value_texts(bar)
  local out = {}
  for _, name in ipairs(bar.names) do
    local v = number_of(bar.values[name])
    local text = type(v) == "number" and terminal.short(v) or tostring(v)
    out[#out + 1] = name .. " " .. text
  end
  return out
end

local function share_of(bar) return bar.total > 0 and bar.count / bar.total or 1 end

-- What each part of the line is worth: where there is no room, that of least worth goes first, after the bar itself.
local WORTH = { share = 1, spent = 2, label = 3, value = 4, count = 5, rate = 6, main = 7, left = 8 }

--- The parts of the line, from left to right: {text, worth}. A part with a third field becomes that one, of the worth
--- in the fourth, before it goes.
local function parts_of(bar, now)
  local spent = max(now - bar.started, 1e-9)
  local rate = bar.finished and bar.count / spent or bar.rate or bar.count / spent
  local parts = {}
  local function add(...) parts[#parts + 1] = { ... } end
  if bar.label then add(bar.label, WORTH.label) end
  if bar.total then
    add(("%3.0f %%"):format(100 * share_of(bar)), WORTH.share)
    add(("%d/%d"):format(bar.count, bar.total), WORTH.count)
  else
    add(("%d"):format(bar.count), WORTH.count)
  end
  local main = bar.curves[1] or "loss"
  if bar.values[main] == nil then main = bar.names[1] end
  for i, text in ipairs(value_texts(bar)) do
    add(text, bar.names[i] == main and WORTH.main or WORTH.value - i / 1000)
  end
  add(("%s %s/s"):format(count_text(rate * bar.per_step), bar.unit), WORTH.rate)
  local left = bar.total and not bar.finished and rate > 0 and (bar.total - bar.count) / rate
  if left then
    local text = clock_text(left) .. " left"
    add(clock_text(spent) .. ", " .. text, WORTH.spent, text, WORTH.left)
  else
    add(bar.finished and "in " .. clock_text(spent) or clock_text(spent), bar.finished and WORTH.left or WORTH.spent)
  end
  return parts
end

local function joined(parts, from)
  local texts = {}
  for i = from, #parts do texts[#texts + 1] = parts[i][1] end
  return table.concat(texts, "  ")
end

--- Takes away what is of least worth.
local function shorten(parts)
  local least = 1
  for i, p in ipairs(parts) do
    if p[2] < parts[least][2] then least = i end
  end
  local p = parts[least]
  if p[3] then parts[least] = { p[3], p[4] }
  else table.remove(parts, least) end
end

--- The line, at most `width` columns. The bar takes what the parts leave, unless the line is bare.
local function line_of(bar, now, width, bare)
  local parts = parts_of(bar, now)
  local whole = #parts
  while #parts > 1 and terminal.columns(joined(parts, 1)) > width do
    shorten(parts)
    bare = true
  end
  local first = bar.label and #parts == whole and 2 or 1 -- the bar stands behind the label
  local head = first == 2 and bar.label .. " " or ""
  local text = joined(parts, first)
  local room = width - terminal.columns(head .. text) - 4
  if bar.total and room >= 5 and not bare then
    text = bar_text(share_of(bar), min(room, 30), terminal.has_unicode()) .. " " .. text
  end
  text = head .. text
  if terminal.columns(text) <= width then return text end
  return (text:gsub("[\128-\255]", "?"):sub(1, width)) -- a very narrow terminal
end

---------------------------------------------------------------------------------------------------------- drawing

--- A point more of a curve. When there are many, every two become their mean, and so will those to come.
local function note(history, v)
  history.sum, history.n = history.sum + v, history.n + 1
  if history.n < history.stride then return end
  history[#history + 1] = history.sum / history.n
  history.sum, history.n = 0, 0
  if #history < KEPT then return end
  for i = 1, KEPT / 2 do history[i] = (history[2 * i - 1] + history[2 * i]) / 2 end
  for i = KEPT, KEPT / 2 + 1, -1 do history[i] = nil end
  history.stride = history.stride * 2
end

--- Numbers are noted as they come; tensors only here, when they are read anyway.
local function note_tensors(bar)
  for name, history in pairs(bar.history) do
    local v = bar.values[name]
    if ty.is_tensor(v) then note(history, v:item()) end
  end
end

--- The lines of the curves, with a line of names.
local function curve_lines(bar, columns, rows)
  local series, names = {}, {}
  for i, name in ipairs(bar.curves) do
    series[i] = bar.history[name]
    names[i] = terminal.colors() and terminal.ink(i, name) or name
  end
  local lines = terminal.curves(series, min(columns - 1, 100), max(2, min(bar.height, rows - 3)), terminal.colors())
  lines[#lines + 1] = "  " .. table.concat(names, "  ")
  return lines
end

local function draw_terminal(bar, now, columns, rows)
  local out = {}
  if current ~= bar then
    if current then out[1] = "\n" end
    current, bar.above = bar, 0
  end
  if #bar.curves > 0 and columns >= 20 and rows >= 6 and terminal.has_unicode() then
    local lines = curve_lines(bar, columns, rows)
    out[#out + 1] = bar.above > 0 and ("\r\27[%dA"):format(bar.above) or "\r"
    for _, line in ipairs(lines) do out[#out + 1] = line .. "\27[K\n" end
    bar.above = #lines
  end
  -- the last column stays free: some terminals go to the next line when it is written
  out[#out + 1] = "\r" .. line_of(bar, now, columns - 1) .. "\27[K"
  if bar.finished then
    out[#out + 1] = "\n"
    current = nil
  end
  terminal.world.write(ERRORS, table.concat(out))
end

local function draw(bar, now)
  local since = now - bar.drawn
  if since > 0 and bar.count > bar.drawn_count then -- a mean that forgets
    local fresh = (bar.count - bar.drawn_count) / since
    local weight = 1 - math.exp(-since / MEMORY)
    bar.rate = bar.rate and bar.rate + (fresh - bar.rate) * weight or fresh
  end
  bar.drawn, bar.drawn_count = now, bar.count
  note_tensors(bar)
  local columns, rows = terminal.size(ERRORS)
  if columns then
    bar.due = now + INTERVAL
    return draw_terminal(bar, now, columns, rows)
  end
  bar.due = now + QUIET
  if bar.finished or now - bar.started >= QUIET then
    terminal.world.write(ERRORS, line_of(bar, now, 120, true) .. "\n")
  end
end

-------------------------------------------------------------------------------------------------------- what users call

local function take(bar, values)
  for name, v in pairs(values) do
    if type(name) ~= "string" then fail("progress", "values must have names, got %s", show(name)) end
    local single = ty.is_tensor(v) and check.tensor("progress", 1, v):numel() == 1
    if not single and type(v) ~= "number" and type(v) ~= "string" then
      fail("progress", "value %s must be a number, a tensor of one element or a string, got %s", name, show(v))
    end
    if bar.values[name] == nil then bar.names[#bar.names + 1] = name end
    if type(v) == "number" and bar.history[name] then note(bar.history[name], v) end
    bar.values[name] = ty.is_tensor(v) and v.requires_grad and v:detach() or v
  end
end

--- New values, such as {loss = 0.3}; those not named stay.
--- Raises where a value is no number, tensor of one element or string.
---@param values table<string, number|string|tycho.Tensor>
---@return tycho.Progress
function Progress:set(values)
  if type(values) ~= "table" then fail("progress", "set takes a table of values, got %s", show(values)) end
  take(self, values)
  return self
end

--- One step more, or n of them, with new values perhaps: step(), step(n), step{loss = 0.3}.
--- Raises where n is no count, or a value is none.
---@param n? integer|table
---@param values? table
---@return tycho.Progress
function Progress:step(n, values)
  if type(n) == "table" then n, values = 1, n end
  if n ~= nil and (type(n) ~= "number" or n < 0 or n ~= n) then
    fail("progress", "step takes a count, got %s", show(n))
  end
  self.count = self.count + (n or 1)
  if values then take(self, values) end
  local now = terminal.world.clock()
  if self.finished then return self end
  if self.total and self.count >= self.total then return self:done() end
  if now >= self.due then draw(self, now) end
  return self
end

--- It is over: draws the last time. A bar that has all its steps is done by itself.
--- Raises never.
---@return tycho.Progress
function Progress:done()
  if self.finished then return self end
  self.finished = true
  draw(self, terminal.world.clock())
  return self
end

--- Writes a line of text above the bar.
--- Raises never.
---@param text string
function Progress:print(text)
  if current == self then
    terminal.world.write(ERRORS, "\r\27[K" .. (self.above > 0 and ("\27[%dA\27[J"):format(self.above) or ""))
    current = nil
  end
  terminal.world.write(1, tostring(text) .. "\n")
  if not self.finished and terminal.size(ERRORS) then draw(self, terminal.world.clock()) end
end

--- The iterator's values; nil ends the bar.
local function advance(self, first, ...)
  if first == nil then
    self:done()
    return nil
  end
  self.begun, self.control = true, first
  return first, ...
end

--- As the iterator of a `for`: a step is counted when the next one begins.
function Progress:__call()
  if self.begun then
    self.begun = false
    self:step()
  end
  local i = self.index + 1
  if self.next then return advance(self, self.next(nil, self.control)) end
  if self.list and self.list[i] == nil or not self.list and self.total and i > self.total then
    self:done()
    return nil
  end
  self.index, self.begun = i, true
  if self.list then return i, self.list[i] end
  return i
end

local KNOWN = {
  label = "string", unit = "string", per_step = "number", total = "number", curve = "any", height = "number",
}

--- Fills in what is iterated over: a count, a list, a function.
local function source(bar, what)
  if type(what) == "number" then
    if what < 0 or what % 1 ~= 0 or what == math.huge then
      fail("progress", "argument 1 must be a whole number of steps, got %s", show(what))
    end
    bar.total = what
  elseif type(what) == "function" then
    bar.next = what
  elseif type(what) == "table" and getmetatable(what) and getmetatable(what).__call then
    bar.next = what
    if type(what.count) == "function" then bar.total = bar.total or what:count() end -- as loaders have it
  elseif type(what) == "table" then
    bar.list, bar.total = what, #what
  elseif what ~= nil then
    fail("progress", "argument 1 must be a count, a list or an iterator, got %s", show(what))
  end
end

--- A progress bar over n steps, a list or an iterator (nil: of unknown length). Options: label; unit and per_step, for
--- the rate ("step", 1); total, of an iterator; curve: the value or values drawn as curves; height: their rows, 8.
--- Raises where it is no count, list or iterator, or an option is not known.
---@param what? integer|table|function
---@param opts? {label: string?, unit: string?, per_step: number?, total: integer?, curve: string|string[]|nil,
---  height: integer?}
---@return tycho.Progress
return function(what, opts)
  local o = check.options("progress", opts, KNOWN)
  local curves = type(o.curve) == "string" and { o.curve } or o.curve or {}
  if type(curves) ~= "table" then
    fail("progress", "option curve must be a name or a list of names, got %s", show(curves))
  end
  for name, least in pairs { total = 0, height = 1, per_step = 0 } do
    local v = o[name]
    if v and not (v >= least and v < math.huge) then
      fail("progress", "option %s must be a number from %d, got %g", name, least, v)
    end
  end
  local now = terminal.world.clock()
  local bar = setmetatable({
    label = o.label, unit = o.unit or "step", per_step = o.per_step or 1, total = o.total, curves = curves,
    height = o.height or 8, count = 0, index = 0, values = {}, names = {}, history = {},
    started = now, drawn = now, drawn_count = 0, due = now + INTERVAL, above = 0,
  }, Progress)
  for i, name in ipairs(curves) do
    if type(name) ~= "string" then fail("progress", "option curve: name %d is %s", i, show(name)) end
    bar.history[name] = { sum = 0, n = 0, stride = 1 }
  end
  source(bar, what)
  return bar
end
