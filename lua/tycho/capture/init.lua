--- capture/init.lua -- one call of a function, evaluated and described, so that later calls need not run it.
-- In: the core, the handle of a compiled function, the function and its arguments. Out: true when a trace was
-- installed; nil and {reason, hint, file, line} when the function does something that a trace cannot repeat. Nothing
-- outside has changed then: an error of the function, of a library or of this file is an abort too. What a debug hook
-- raises meanwhile goes on to the caller, with nothing changed outside either.
--
-- How it works. The function's bytecode is evaluated (evaluate.lua) with the real arguments. This file is the world
-- that the bytecode sees: whatever is read, written, computed or called goes through a method of World. Beside each
-- value travels a shadow that says where it came from:
--     nil             known: a constant, made inside, or determined by guards that stand already
--     {slot = k}      read from outside by the k-th reading instruction of the description's program
--     {number = id}   a number that later calls compute again: expression id
--     {size = r}      a size, a bound, or what was computed from these alone: register r of the tape
-- Reads append instructions to the program, decisions append guards, writes to what is outside go to overlays. At the
-- end program, overlays and results are the description that C compiles to a trace.
--
-- Rules that a change must keep:
-- 1. A value may be moved, stored and returned without a guard; whatever looks at it pins it first: typed() for its
--    type and presence, pin() for its value.
-- 2. One object has one record (self.tables, self.objects), however many paths lead to it. A second path emits "same".
-- 3. One place is read once: fields by record and key, upvalues by cell, environments by function. After a write the
--    overlay answers.
-- 4. A table is known by its path, a function by identity. Only tables that are identified (as keys) are "equal".
-- 5. What Tycho itself is made of (its chunks, its constants) is not guarded.
-- 6. Real tables made inside hold real values; metatables that the code gave them are kept beside, never set, so that
--    no library function can run a metamethod behind our back.
-- 7. Whatever is not understood aborts. A wrong "known" is a wrong result; a needless pin is one capture more.
-- 8. A pcall that a capture runs raises again what is not its own: it may be a hook's.
--
-- The methods are spread over: this file (slots, guards, functions), description.lua (what a capture becomes),
-- tables.lua (tables, metatables, overlays), keys.lua (keys and lengths that vary), table_layout.lua (tables made
-- inside), numbers.lua (arithmetic and comparison, by operators.lua), natives.lua (C functions, Tycho's), scalars.lua
-- (numbers in these), library.lua (Lua's own), gradients.lua. words.lua and log.lua tell the user what differs and what
-- is not captured. A trace that is to serve any sizes has a tape beside (tape.lua).

local bytecode = require "tycho.capture.bytecode"
local evaluate = require "tycho.capture.evaluate"
local tape = require "tycho.capture.tape"
local ranges = require "tycho.capture.ranges"
local parts = require "tycho.capture.parts"
local description = require "tycho.capture.description"

local type, select, next, pairs, unpack = type, select, next, pairs, unpack
local tostring, tonumber, pcall, error, ipairs, rawequal = tostring, tonumber, pcall, error, ipairs, rawequal
local setmetatable = setmetatable
local format, gsub, match, find, sub = string.format, string.gsub, string.match, string.find, string.sub
local insert = table.insert
local clock = os and os.clock or function() return 0 end
local getinfo = type(debug) == "table" and debug.getinfo
local getlocal = type(debug) == "table" and debug.getlocal
local getupvalue = type(debug) == "table" and debug.getupvalue

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

--- Evaluated instructions that one capture may take. A function that runs longer is worth little as one trace.
M.STEPS = 200000

--- The methods of a world; each world has them as its own fields.
local World = {}
M.World = World

--- When instructions can be run: at once, when the sizes of a plan are known, when nothing can miss any more.
World.EARLY, World.DEFERRED, World.DRAWN = 0, 1, 2

--- "file:line" of the user's code that is evaluated, nil outside of it.
World.where = evaluate.where
World.site = evaluate.site
--- The evaluated function at a level of a native one, and what error() puts before its message.
World.level, World.position = evaluate.level, evaluate.position

require("tycho.capture.tables")(World)
require("tycho.capture.table_layout")(World)
require("tycho.capture.keys")(World)
require("tycho.capture.numbers")(World)
require("tycho.capture.natives")(World)
require("tycho.capture.gradients")(World)
description.extend(World)

--- Whether two descriptions are one trace but for the sizes of tensors.
M.same = description.same

-- Ends of a capture ---------------------------------------------------------------------------------------------------

--- What abort raises. evaluate.lua lets it pass.
local ABORT = setmetatable({}, { __tostring = function() return "capture aborted" end })
M.ABORT = ABORT

--- Adds the user's file and line to what is told about a failure.
function World:locate(why)
  local where = self:where()
  if not where then return end
  why.file, why.line = match(where, "^(.*):(%d+)$")
  why.file, why.line = why.file or where, tonumber(why.line)
end

--- Gives the capture up. Never returns.
---@param reason string what the function does, such as "calls print"
---@param hint? string what the user could do instead
---@param kind? "error"|"itself"|"unknown"|"holes"|"zero" an error that the native run will raise; what changes
--- or shows the function that runs itself; a call of what nothing is known of; the length of a list with holes; a
--- zero whose sign the native run alone knows
function World:abort(reason, hint, kind)
  if not self.failure then
    self.failure = { reason = reason, hint = hint, kind = kind }
    self:locate(self.failure)
  end
  return error(ABORT, 0)
end

--- The same where an earlier instruction is to blame: place is what cut_here said there.
function World:abort_at(place, reason, hint)
  if not self.failure then
    self.failure = { reason = reason, hint = hint, place = place }
    self:locate(self.failure)
  end
  return error(ABORT, 0)
end

--- Gives the capture up since of a coroutine that is made inside: without these it may do.
function World:abort_thread(reason)
  self.without_threads = true
  return self:abort(reason)
end

--- Whether a value is a coroutine that captured code has made, or what coroutine.wrap has given it.
function World:is_thread(v)
  local kind = type(v)
  if kind == "thread" then return self.threads and self.threads[v] ~= nil or false end
  return kind == "function" and type(self.iterators[v]) == "table"
end

--- Gives the capture up since a bound decides about more than sizes: it is to be specialised.
function World:abort_bound(s)
  if not self.failure then self.failure = { reason = "a bound is looked at", bound = s.path } end
  return error(ABORT, 0)
end

-- Slots and guards ----------------------------------------------------------------------------------------------------

--- Gives up when the time that jit.budget allows for a capture is over.
function World:look_at_clock()
  if self.deadline and self.clock() >= self.deadline then
    self.overdue = true
    self:abort("it takes longer than jit.budget allows", "capture it by jit.warmup")
  end
end

--- Appends an instruction; path: what it is about, as the user would write it; stage: EARLY by default. Path and line
--- lie beside the program: as fields of the instruction they would make its table grow.
function World:emit(instr, path, stage)
  local list = stage == self.DEFERRED and self.deferred or stage == self.DRAWN and self.drawn or self
  local program = list.program
  local n = #program + 1
  if n % 16 == 0 then self:look_at_clock() end
  program[n] = instr
  list.about[n], list.lines[n] = path, self:where()
  return instr
end

--- Appends a reading instruction whose value is v now; returns the shadow.
function World:slot(v, instr, path)
  self:emit(instr, path)
  local k = self.nslots + 1
  self.nslots = k
  local s = { slot = k, path = path, value = v, typed = false, pinned = false, type_guard = nil }
  self.slots[k] = s
  if type(v) == "number" then self:bound(s) end
  return s
end

--- Numbers of calls that were known to be specialised for the sake of a size, and have changed since, are bounds: they
--- are sizes as those of tensors are. Each value has a plan of its own, and what is decided about it is the tape's.
function World:bound(s)
  if not (self.bounds and self.bounds[s.path]) then return end
  s.size, s.typed, s.is_bound = self.tape:bound(s.slot), true, true
  self.nnumbers = self.nnumbers + 1
  s.early = self.nnumbers
  local instr = self:emit({ "bound", s.slot, self:size_id(s) }, s.path)
  self.numbers[s.early] = { number = s.early, value = s.value, path = s.path, instr = instr }
end

--- Notes the numbers of the call that one depends on, whose value a function of the library has asked for; false stands
--- for those that go with a size there: each of its values asks for another capture, even if the number stays as it is.
function World:specialise(s)
  local queue, seen, deferred = { s }, {}, s.number and self:stage(s.number) > self.EARLY
  for _, e in ipairs(queue) do
    local instr = e.instr
    local slot = not e.size and e.slot or instr and (instr[1] == "number" or instr[1] == "bound") and instr[2]
    if seen[e] then instr = nil end
    seen[e] = true
    if slot then
      self.specialised[slot] = not deferred and self.specialised[slot] ~= false and self.slots[slot].value
    elseif instr then
      local first = instr[1] == "call" and 3 or instr[1] == "entries" and 5 or 2 -- operand that is a number
      for i = first, 4 do queue[#queue + 1] = self.numbers[instr[i]] end
    end
  end
end

--- A guard that says more about a slot than its type does: in place of the guard of its type if there is one.
function World:guard(s, name, v)
  local instr = s.type_guard
  if not instr then return self:emit({ name, s.slot, v }, s.path) end
  instr[1], instr[3], s.type_guard = name, v, nil
  return instr
end

--- Makes the type of a value known, and so whether it is nil.
function World:typed(v, s)
  if s == nil or s.typed or s.number then return v end
  s.typed = true
  if rawequal(v, nil) then
    s.pinned = true
    self:emit({ "equal", s.slot, nil }, s.path)
  else
    s.type_guard = self:emit({ "type", s.slot, type(v) }, s.path)
  end
  return v
end

--- For values that were seen but not used so far: their type is guarded at the end, unless a use guards more.
function World:typed_later(s)
  if s and not s.typed and not s.number then self.untyped[#self.untyped + 1] = s end
end

--- Makes a value known: its bits for plain values, identity for functions, kind for tables and tensors.
function World:pin(v, s)
  if s == nil or s.pinned then return v end
  if type(v) == "number" and (self.asking or self:in_ours()) then self:specialise(s) end
  if s.number or s.size or s.length or s.behind then
    self:pin_number(v, s)
    return v
  end
  local kind = type(v)
  if kind == "table" then
    self:table_of(v, s)
  elseif kind == "userdata" and self.is_tensor(v) then
    self:pin_tensor(v, s)
  elseif kind == "function" then
    self:pin_function(v, s)
  else
    self:guard(s, "equal", v)
    s.pinned, s.typed = true, true
  end
  return v
end

--- Objects that are reached by two paths must be one object in later calls too.
function World:pin_tensor(v, s)
  s.pinned, s.typed = true, true
  local first = self.objects[v]
  if first then
    self:emit({ "same", first.slot, s.slot }, s.path)
  else
    self.objects[v] = s
  end
  self.C.outside(v, s.slot)
  if self.tape then self.tape:outside(v, s.slot) end
  s.tensor = self:guard(s, "tensor", v)
end

--- A view of a tensor from outside is given back: whether gradients go through it is a matter of that tensor, too.
function World:pin_viewed(v)
  local slot, detached = self.C.viewed(v)
  if slot then self.slots[slot].tensor[4] = detached end
end

function World:pin_function(f, s)
  s.pinned, s.typed = true, true
  if not self.objects[f] then self.objects[f] = s end
  if self.closures_differ and not self.C.is_native(f) and not self:is_ours(f) then
    s.bytecode_only = true
    self:guard(s, "closure", f)
  else
    self:guard(s, "equal", f)
  end
end

--- Makes known which object a value is, as far as later calls can be asked.
function World:identify(v, s)
  if s == nil or s.identified or s.number or s.size then return self:pin(v, s) end
  local kind = type(v)
  if kind == "userdata" and self.is_tensor(v) then
    self:abort("a tensor from outside is used as a key of a table", "use its name or position as the key")
  end
  self:pin(v, s)
  if kind == "table" or s.bytecode_only then self:emit({ "equal", s.slot, v }, s.path) end
  s.identified = true
  return v
end

--- Whether a conditional takes v as true.
function World:truth(v, s)
  if s and not s.typed and not s.number then
    if type(v) == "boolean" then self:pin(v, s) else self:typed(v, s) end
  elseif s and type(v) == "boolean" then
    self:pin(v, s)
  end
  return v and true or false
end

-- Functions: what closes over what ------------------------------------------------------------------------------------

--- With "/" between folders: Windows has either, in one name too.
local function chunk_of(f)
  local source
  if getinfo then
    source = getinfo(f, "S").source
  else
    local proto = bytecode.prototype(f)
    source = proto and proto.source or "?"
  end
  return find(source, "\\", 1, true) and gsub(source, "\\", "/") or source
end

--- How the chunks of this library begin; compile.lua's functions close over what belongs to users.
local HOME = match(chunk_of(function() end), "^(@.*/)capture/") or "@?"
local WRAPPERS = HOME .. "compile.lua"
--- Modules and optimisers are models like those of users: what they close over and hold is guarded.
local MODULES, OPTIMISERS, ONNX = HOME .. "nn/", HOME .. "optim/", HOME .. "onnx/init.lua"

local ours = setmetatable({}, { __mode = "k" })

--- Whether a Lua function is part of Tycho: what it closes over is constant.
local function is_ours(f)
  local known = ours[f]
  if known == nil then
    local chunk = chunk_of(f)
    known = (sub(chunk, 1, #HOME) == HOME or sub(chunk, 1, 8) == "=(tycho)") and chunk ~= WRAPPERS
      and sub(chunk, 1, #MODULES) ~= MODULES and sub(chunk, 1, #OPTIMISERS) ~= OPTIMISERS and chunk ~= ONNX
    ours[f] = known
  end
  return known
end

--- Functions of ours that were made around functions of users', such as those that ty.grad gives, are not.
function World:is_ours(f) return not self.closures[f] and not self.around[f] and is_ours(f) end

--- Whether code of the library is being evaluated: it does not mind the order of keys.
function World:in_ours()
  local stack = self.stack
  local frame = stack and stack[stack.depth]
  return frame ~= nil and frame.proto.own
end

--- Whether a Lua function belongs to the compiler's front: the wrappers of compiled functions do.
function World.is_wrapper(f) return chunk_of(f) == WRAPPERS end

--- A constant of the library: tables among them need no guards, unless users reach them too.
function World:constant(v)
  if type(v) == "table" and not self.constants[v] then self.constants[v] = { value = v, constant = true } end
  return v
end

--- The shadow of a function from outside; the place where it was found first will do.
function World:function_slot(f, fs)
  if fs == nil or not fs.slot then fs = self.objects[f] end
  if not fs then self:abort("a function of unknown origin is called") end
  self:pin(f, fs)
  return fs
end

function World.upvalue_name(f, i)
  local name = getupvalue and getupvalue(f, i)
  return name and name ~= "" and name or ("upvalue " .. i)
end

--- The cell behind an upvalue, which several closures may share. Functions known by identity share it in later calls as
--- they do now. Where one is known by its bytecode alone, guards hold that: here that two upvalues are one cell, and in
--- guard_cells that two are not, where it matters.
function World:cell(f, fs, i)
  local C = self.C
  if self:is_ours(f) then
    local id = C.upvalue_id(f, i)
    local cell = self.cells[id]
    if not cell then
      cell = { value = self:constant(C.upvalue(f, i)) }
      self.cells[id] = cell
    end
    return cell
  end
  fs = self:function_slot(f, fs)
  local id = C.upvalue_id(f, i)
  local slot, anew = fs.slot, fs.bytecode_only
  local cell = self.cells[id]
  if not cell then
    local v = C.upvalue(f, i)
    local s = self:slot(v, { "upvalue", slot, i }, World.upvalue_name(f, i))
    -- what a compiled function asks for the function to run
    s.pick = type(v) == "function" and C.is_native(v) and not self:owner(v) and self.is_wrapper(f)
    cell = { value = v, shadow = s, path = s.path, fslot = slot, index = i, anew = anew, seen = { [slot] = true } }
    self.cells[id] = cell
    self.outside_cells[#self.outside_cells + 1] = cell
  elseif cell.seen and not cell.seen[slot] then -- else it is the library's
    cell.seen[slot] = true
    if anew or cell.anew then self:emit({ "cell_same", cell.fslot, slot, cell.index, i }, World.upvalue_name(f, i)) end
  end
  return cell
end

--- What turns of scans that are being evaluated read outside; false: what cannot be read again.
function World:note_read(s)
  for _, turn in ipairs(self.turns) do
    if s and s.slot then turn[s.slot] = true elseif not s then turn.unsure = true end
  end
end

--- A cell that is written is none of the others that were read or written, also in later calls.
function World:guard_cells()
  local list = self.outside_cells
  for i, a in ipairs(list) do
    for k, b in ipairs(list) do
      local asked = k < i and b.written -- of two written ones the first asks
      if a.written and k ~= i and not asked and (a.anew or b.anew) then
        self:emit({ "cell_distinct", a.fslot, b.fslot, a.index, b.index }, a.path)
      end
    end
  end
end

--- Upvalue i of a real Lua function.
function World:upvalue(f, fs, i)
  local cell = self:cell(f, fs, i)
  if self.turns and cell.shadow then self:note_read(cell.shadow) end
  return cell.value, cell.shadow
end

function World:set_upvalue(f, fs, i, v, vs)
  local cell = self:cell(f, fs, i)
  if cell.fslot and not cell.written then
    cell.written = true
    self.effects[#self.effects + 1] = { cell = cell }
  end
  cell.value, cell.shadow = v, vs
end

--- The table of a function's globals.
function World:environment(f, fs)
  local t = self.C.environment(f)
  if self:is_ours(f) then return self:constant(t), nil end -- what is read there is the standard library
  fs = self:function_slot(f, fs)
  local s = self.environments[fs.slot]
  if not s then
    s = self:slot(t, { "env", fs.slot }, "_G")
    self.environments[fs.slot] = s
  end
  if self.turns then self:note_read(s) end
  return t, s
end

--- A closure made inside: it has no code of its own, evaluate.lua runs it. As a value it is a function like no other.
--- by: the instruction that makes it.
function World:closure(proto, cells, env, envs, owner, frame, by)
  local function placeholder() return error("a closure made inside ran outside", 0) end
  self.closures[placeholder] = { proto = proto, cells = cells, env = env, envs = envs, owner = owner, made_by = by,
    parent = frame.proto, root = frame.root, by = not frame.cells and rawequal(frame.fn, self.fn) and by or nil }
  return placeholder
end

--- Instructions that read, by slot.
function World:readers()
  local list, slot = {}, self.narg + 1
  for _, instr in ipairs(self.program) do
    if self.C.guards[instr[1]].kind == "read" then
      slot = slot + 1
      list[slot] = instr
    end
  end
  return list
end

function World:closure_of(f) return self.closures[f] end


-- Entry ---------------------------------------------------------------------------------------------------------------

local function new_world(core, f, options, ...)
  local C = core.internals.capture
  local n = select("#", ...)
  local w = {
    core = core, C = C, is_tensor = C.is_tensor, narg = n, parts = options.parts,
    code = options.parts and options.parts.code or f, -- the function that is evaluated
    fn = f, fn_shadow = nil,                          -- whose variables it has
    program = {}, about = {}, lines = {}, deferred = { program = {}, about = {}, lines = {} },
    drawn = { program = {}, about = {}, lines = {} },
    slots = {}, nslots = n + 1,
    tables = {},       -- by table, made inside or from outside: its record, see tables.lua
    constants = {},    -- by table of the library: a record
    objects = {},      -- by tensor or function from outside: the shadow of its first path
    cells = {},        -- by identity of upvalue
    outside_cells = {}, -- as they were found
    environments = {}, -- by slot of function: shadow
    closures = {}, iterators = {}, owners = {},
    threads = options.threads ~= false and {} or nil, in_threads = {}, -- see threads.lua
    numbers = {}, nnumbers = 0, ndeferred = C.DEFERRED, ndrawn = C.DRAWN, number_at = {}, said = {},
    sizes = {},        -- that the program speaks of: shadows
    specialised = {},  -- by slot: numbers whose value a function of the library has asked for
    effects = {}, untyped = {},
    gradients = {}, ngradients = 0, hook_lists = {}, memories = {}, sharing = {}, -- see gradients.lua
    rule_tensor_at = {}, of_rules = {}, frozen = {}, -- frozen: by storage
    hashes = {}, again = {}, -- by hash of a scan's turn: what that reads outside; how it is read again
    random_at = {},   -- by random state: how many streams the call had taken
    around = core.internals.grad.around,
    made_tables = {}, made_tensors = {}, tensor_at = {},
    catching = 0,     -- pcalls that are being evaluated
    steps_left = options.steps or M.STEPS,
    closures_differ = options.closures or false,
    dynamic = options.dynamic or options.sized or nil,
    deadline = options.deadline or false, clock = options.clock or clock,
    next_look = options.deadline and (options.steps or M.STEPS) or 0, -- see evaluate.lua
    cuts = options.cuts or false,
  }
  for name, method in next, World do w[name] = method end -- by way of a metatable each call took ten times as long
  w.tape = w.dynamic and not options.custom and tape.new(w) or nil
  w.bounds = w.tape and options.bounds
  local args, shadows = {}, {}
  for i = 1, n do
    local v = (select(i, ...))
    local name = getlocal and getlocal(w.code, i) or ("argument " .. i)
    args[i], shadows[i] = v, { slot = i, path = name, value = v }
    w.slots[i] = shadows[i]
    if type(v) == "number" then w:bound(shadows[i]) end
  end
  -- the function itself: a trace belongs to it
  local fs = { slot = n + 1, path = "function", value = f, pinned = true, typed = true }
  w.slots[n + 1], w.objects[f] = fs, fs
  local carried = options.parts and options.parts.carried
  if carried then -- it is another one in each call, but of this code
    fs = shadows[carried]
    w.fn = args[carried]
    fs.path, fs.pinned, fs.typed, fs.bytecode_only, w.objects[w.fn] = "function", true, true, true, fs
  end
  w.fn_shadow = fs
  return w, args, shadows, fs
end

--- Where a function stands, for dumps.
local function place_of(f)
  local info = getinfo and getinfo(f, "S")
  return info and format("%s:%d", info.short_src, info.linedefined) or "a function"
end

local function dump(text)
  local letters = os.getenv "TYCHO_DUMP"
  if not letters or letters == "help" or not find(letters, "c", 1, true) then return end
  io.stderr:write(text)
end

--- Where the function would be cut so that it does not come to what is evaluated now: in the function itself, or where
--- it calls what does that.
function World:cut_here()
  local stack = self.stack
  local frame, left = stack and stack[1], stack and stack.left
  if not frame or stack.depth == 0 or stack.of_thread then return nil end
  local inside = left ~= nil or stack.depth > 1
  if inside and not left and stack[2].caller == "metamethod" then inside = false end
  left = left or frame
  return { at = left.at, turns = left.turns, inside = inside }
end

--- Where the function is to be cut so that it does not come to what aborted the capture; nil: nowhere. A second result,
--- true: the function is not to be cut at all.
local function cut_of(w)
  local why = w.failure
  if not w.stack or w.stack.depth == 0 or not why or w.overdue or why.bound then return nil end
  if why.kind == "error" or why.kind == "zero" then return nil end
  if why.kind == "itself" then return nil, true end
  local cut = why.place or w:cut_here()
  if cut then cut.unknown = why.kind == "unknown" end
  return cut
end

--- Why a capture failed: what the world said, else what the core refused, else the error itself.
local function failure(w, err, refused)
  local why = w.failure or {}
  if err ~= ABORT or not why.reason then
    local text = type(err) == "string" and err or "an error is raised"
    local plain = gsub(text, "^.-%.lua:%d+: ", "")
    why = { reason = refused or ("an error is raised: " .. plain), internal = text }
    if w.stack then w:locate(why) end
  end
  why.late = w.overdue
  why.without_threads = w.threads and (w.without_threads or w.thread) and true or nil
  if refused then w.failure = why end
  if err == ABORT or refused then why.cut, why.of_function = cut_of(w) end
  return why
end

--- The installed trace that the description fits but for sizes: its position and its description.
local function sized_trace(C, handle, d)
  if not d.dynamic or not C.traces then return nil end
  for i, t in ipairs(C.traces(handle)) do
    if t.dynamic and t.current and M.same(t.description, d) then return i, t.description end
  end
end

--- A trace that got other sizes by evaluation replays that way through the function, too, most recent first.
local function keep_tape(d, new)
  insert(d.tapes, 1, new.tapes[1])
  d.tapes[tape.MOST + 1] = nil
end

--- A trace outlives the tensors that it was made with, and holds no memory of theirs: what they were is kept.
local function let_go_of_tensors(d)
  for _, g in ipairs(d.program) do
    local t = g[3]
    if g[1] == "tensor" then
      g[3] = { dtype = t.dtype, ndim = t.ndim, shape = t.shape, requires_grad = t.requires_grad, is_leaf = t.is_leaf,
        device = t.device }
    end
  end
  for i = 1, #d.tensors do d.tensors[i] = true end
end

--- Passes and backends of the user's get the graph when the session is over, since they may compute anything. What they
--- make of it takes its place in a second session, whose graph must be the same.
---@return boolean? settled nil: the graph is to be customized first
local function put_in_place(w, options, d)
  local custom = options.custom
  if not custom then return true end
  local text, outputs, inputs = w.C.graph(d.tensors)
  if not text then w:abort(outputs) end
  local asked = options.asked
  if asked.text then
    if asked.text ~= text then w:abort("the function records another graph after passes and backend have seen it") end
    d.custom = asked.answer
    return true
  end
  if #outputs == 0 then return true end -- nothing is computed
  asked.text, asked.outputs, asked.inputs = text, outputs, inputs
  return nil
end

--- One attempt.
local function capture(core, handle, options, f, ...)
  local C = core.internals.capture
  local w, seen
  local function attempt(...)
    local args, shadows, fs
    w, args, shadows, fs = new_world(core, f, options, ...)
    C.located(function() return w:where() end)
    local results, rs, n, frame = evaluate.run(w, w.fn, fs, args, shadows, w.narg, w.code)
    local at, resume, link = frame and frame.at, nil, nil
    if at then
      results, rs, n, resume, link = options.parts:leave(frame, w)
    end
    if options.cut and not at then w:abort("it goes another way when it is captured again") end
    w.goes_on = at ~= nil
    local d = w:describe(results, rs, n)
    d.resume, d.link = resume, link
    if w.makes_closures then d.owners = w:sharing_owners(options.parts) end
    if at then d.ends = { line = options.parts:line(at), why = options.cut and options.why } end
    local refused = C.reason()
    if refused then w:abort(refused) end
    if options.dry then
      seen = options.dry(w, d)
      return "dry"
    end
    w:look_at_clock()
    if not put_in_place(w, options, d) then return "customize" end
    local position, sized = sized_trace(C, handle, d)
    local done, told, time, saved = C.finish(d, position, handle)
    if not done then w:abort(told or "the core could not compile the trace") end
    if sized then keep_tape(sized, d) end
    let_go_of_tensors(d)
    seen = { operations = told, time = time, saved = saved, ended = at ~= nil, why = options.why }
    return true
  end
  local ok, err, refused, again = C.session(handle, attempt, ...)
  if ok and err == true then return true, seen end
  if ok and err == "dry" then return true, seen end
  if ok then return nil, { customize = true } end
  if ok == nil then return nil, { reason = err } end
  local known, why = core.internals.protect(failure, w or {}, err, refused)
  if not known then why = { reason = tostring(err) } end
  why.again = again
  return nil, why
end

--- Captures f(...) with options:
---   closures  true: Lua functions are guarded by their bytecode instead of their identity, where that is possible
---   dynamic   true: the trace takes tensors of other sizes too, each set of which is captured once
---   sized     true: a dynamic trace lacks the sizes of this call
---   bounds    by path: numbers that are sizes in a dynamic trace; set to false where one turns out to decide more
---   deadline  what the clock shows when the capture must have ended
---   clock     in place of os.clock
---   steps     how many instructions may be evaluated
---   custom    passes and a backend, as graph.options gives them. What they raise is in why.raised
---   parts     of a function that is cut already, or the rest of one: see parts.lua
---   may_cut   gives them where it is to be cut now, or nil
---@return boolean? done
---@return table? why {reason =, hint =, file =, line =}; what was captured where it is done
function M.run_with(core, handle, options, f, ...)
  local ready, why = bytecode.ready()
  if not ready then return nil, { reason = why } end
  local done, own = nil, {}
  for name, v in pairs(options) do own[name] = v end
  own.asked = {}
  if own.custom and own.custom.backend then own.dynamic, own.sized = nil, nil end -- its function is for these sizes
  local tries, first = 3, nil -- first: why the function is cut
  own.cuts = own.parts and own.parts.cuts or nil
  local function cut_before(cut)
    own.parts = own.parts or options.may_cut()
    return own.parts and own.parts:cuts_with(cut) or nil
  end
  while tries > 0 do
    tries = tries - 1
    done, why = capture(core, handle, own, f, ...)
    if done then break end
    if why.customize then
      local asked = own.asked
      local ok, answer = pcall(core.internals.load("tycho.graph").customize, own.custom, asked, asked.inputs)
      if not ok then return nil, { reason = "its passes or backend raise an error", raised = { answer } } end
      asked.answer, asked.inputs = answer, nil
    elseif why.bound and own.bounds[why.bound] then -- one less each time
      own.bounds[why.bound], own.asked, tries = false, {}, tries + 1
    elseif why.again then
      own.asked = {}
    elseif why.without_threads and not why.late and why.kind ~= "error" then -- as if it could not evaluate coroutines
      own.threads, own.asked, own.cut, own.why, first, tries = false, {}, nil, nil, nil, 3
      own.cuts = own.parts and own.parts.cuts or nil
    elseif options.may_cut and why.cut and not first then
      first, own.why, own.cut, own.cuts, own.asked = why, why, why.cut, cut_before(why.cut), {}
      if not own.cuts then break end
      tries = 2
    else
      break
    end
  end
  if not done and first then
    first.uncut = why ~= first and why.reason or own.parts and own.parts:refusal() or nil
    why = first
  end
  if done then
    core.internals.protect(dump, format("capture: a trace of %s\n", place_of(own.parts and own.parts.code or f)))
    return true, why
  end
  core.internals.protect(dump, format("capture: aborted at %s:%s: %s%s\n", tostring(why.file or "?"),
    tostring(why.line or "?"), why.reason, why.internal and " [" .. why.internal .. "]" or ""))
  return nil, why
end

--- Captures f(...) and gives what dry(world, description) says while the session is open; nothing is installed.
---@return boolean? done
---@return any said of dry; why where it is not done
function M.dry(core, handle, options, dry, f, ...)
  options.dry = dry
  return capture(core, handle, options, f, ...)
end

--- Adds the sizes of f(...) to the trace that lacks them, by what was asked of Tycho's functions when it was captured:
--- f is not evaluated. True when that was done.
---@return boolean done
---@return string? otherwise what these sizes decide otherwise
function M.resize(core, handle, f, ...)
  local done, otherwise, p = tape.replay(core.internals.capture, handle, f, ...)
  if done then core.internals.protect(ranges.stretch, handle, p) end
  return done, otherwise
end

local function add_bounds(core, d, bounds, f, ...)
  for slot, was in pairs(d.specialised) do
    local path = d.paths[slot]
    if path and bounds[path] == nil then
      local v = tape.look(core, d, slot, f, ...)
      if type(v) == "number" and not description.same_value(v, was) then bounds[path] = true end
    end
  end
end

--- Adds to bounds, by path, those numbers that traces were specialised for and that are others in f(...).
---@param failed? table description of the trace one of whose guards failed; those that lack sizes are asked, too
---@param bounds table<string, boolean>
function M.find_bounds(core, handle, failed, bounds, f, ...)
  local C = core.internals.capture
  if failed then add_bounds(core, failed, bounds, f, ...) end
  local position, d = C.sized(handle)
  while position do
    add_bounds(core, d, bounds, f, ...)
    position, d = C.sized(handle, position + 1)
  end
end

--- Captures f(...) and installs the trace at the handle's entry.
---@return boolean? done
---@return table? why {reason =, hint =, file =, line =}
function M.run(core, handle, f, ...) return M.run_with(core, handle, {}, f, ...) end

M.unpack = unpack

M.parts = parts.new
M.does_enough = parts.does_enough

--- Whether a function that captured code calls may be compiled itself.
function M.may_compile(core, f)
  return not core.internals.capture.is_native(f) and not is_ours(f) and not World.is_wrapper(f)
end

bytecode.ready() -- finds out what LuaJIT's bytecode is as it is loaded, not in the first call

return M
