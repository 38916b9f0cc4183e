--- tape.lua -- the calls of Tycho's functions in one capture, replayed for tensors of other sizes.
-- In: the calls of a dynamic capture, in order, as natives.lua makes them; the numbers that they gave, which are sizes,
-- and what was computed and decided from these alone. Out: one more plan for the same trace, without the user's code
-- being evaluated; nil where a decision falls otherwise at these sizes, and then the function is evaluated again.
--
-- A tape is a list of entries over registers, which hold tensors, sizes and iterators:
--     outside   a tensor that slot k reads
--     bound     a number that slot k reads, and that is a size like those of tensors
--     call      a function of Tycho's, its arguments, what its results were
--     compute   arithmetic on sizes
--     claim     what a comparison of sizes came to, the very bits of one that was looked at
-- What stands in arguments and results is told by operands:
--     {VALUE, v}  {REGISTER, r}  {NUMBER, id}  {SLOT, k}  {TABLE, {[k] = operand}, sizes and writes}
--     {NEW, r, dtype, rank}  {GIVEN, i}, of results: argument i itself
--     {KEPT, r}, a table that the core keeps and gives back, and that is not looked into
--
-- Rules:
-- 1. All that evaluated code can learn from a size is a register or a claim. So where the claims hold, the same code
--    makes the same calls, reads and writes: the guards, results and effects of the trace are right as they are.
-- 2. What results are is a part of the claims: dtype and rank of tensors, keys of tables, all but numbers, and which
--    tensors are one and the same.
-- 3. Numbers that later calls read are told to the core as they were in the capture, and must be taken in the same way.
-- 4. A tape that cannot tell where something came from, or in which a call raised, is no tape. The trace does without.

local format, floor = string.format, math.floor
local type, pairs, ipairs, select, tostring, setmetatable = type, pairs, ipairs, select, tostring, setmetatable
local rawget, rawset, rawequal = rawget, rawset, rawequal
local unpack = unpack
local operators = require "tycho.capture.operators"

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

--- Tapes that one trace keeps: as many ways through the function as sizes may decide about.
M.MOST = 4

local VALUE, REGISTER, NUMBER, SLOT, TABLE, NEW = "value", "register", "number", "slot", "table", "new"
local GIVEN, KEPT = "given", "kept"

local metatable_of = type(debug) == "table" and debug.getmetatable or getmetatable

local raw_length = rawlen or function(t) return #t end -- luacheck: ignore

local function same_bits(a, b)
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  return a == b and 1 / a == 1 / b
end

local function same_value(a, b)
  if type(a) == "number" and type(b) == "number" then return same_bits(a, b) end
  return rawequal(a, b)
end

local function pack(...) return { ... }, select("#", ...) end

local operations = { bits = same_bits }
for _, name in ipairs { "add", "sub", "mul", "div", "unm" } do operations[name] = operators.compute[name] end
for name, f in pairs(operators.compare) do operations[name] = f end
for _, name in ipairs { "abs", "floor", "ceil", "sqrt" } do operations[name] = math[name] end

--- The names of operations, by function.
M.names = {}
for name, f in pairs(operations) do M.names[f] = name end

-- Recording -----------------------------------------------------------------------------------------------------------

local Tape = {}
Tape.__index = Tape

function M.new(world)
  return setmetatable({ world = world, count = 0, at = {}, said = {}, inside = {} }, Tape)
end

local function append(tape, entry) tape[#tape + 1] = entry end

local function register(tape, object)
  tape.count = tape.count + 1
  if object ~= nil then tape.at[object] = tape.count end
  return tape.count
end

--- A tensor from outside that slot k reads; several slots may.
function Tape:outside(t, slot)
  append(self, { "outside", slot, not self.at[t] and register(self, t) or nil })
end

--- A number from outside that slot k reads: its register.
function Tape:bound(slot)
  local r = register(self)
  append(self, { "bound", slot, r })
  return r
end

--- The shadow of a size whose value is v now; path: as the user would write it.
local function size(tape, v, path) return { size = register(tape), value = v, path = path, typed = true } end

local function size_operand(v, s)
  if s and s.size and not s.pinned then return { REGISTER, s.size } end
  return { VALUE, v }
end

--- Arithmetic on sizes and known numbers: the shadow of the result. operation: a name, or a pure function.
function Tape:compute(operation, v, a, as, b, bs, path)
  local s = size(self, v, path)
  s.made = { operation, a, as, b, bs }
  append(self, { "compute", operations[operation] or operation, size_operand(a, as),
    b ~= nil and size_operand(b, bs), s.size })
  return s
end

--- What a decision about sizes came to; text: as the user would write it.
function Tape:claim(operation, a, as, b, bs, outcome, text)
  local x, y = size_operand(a, as), size_operand(b, bs)
  local at = format("%s %s %s %.17g %s %.17g", operation, x[1], y[1], x[2], tostring(outcome), y[2])
  if self.said[at] then return end
  self.said[at] = true
  append(self, { "claim", operations[operation], x, y, outcome, text = text, line = self.world:where() })
end

--- How a value that a function is given will be found. Fresh tables are copied: the code may change them later.
local function operand(tape, v, s)
  local world, kind = tape.world, type(v)
  if kind == "number" then
    if s and not s.pinned and not s.size then return { NUMBER, (world:number_id(v, s)) } end
    return size_operand(v, s)
  end
  if kind == "nil" or kind == "boolean" or kind == "string" and not world.random_at[v] then return { VALUE, v } end
  local r = tape.at[v]
  if r then return { REGISTER, r } end
  if kind == "table" then
    local o = world:table_of(v, s)
    if o.constant then return { VALUE, v } end
    if not o.fresh then return { SLOT, o.slot } end -- the code has not written to it
    local fields = {}
    tape.broken = tape.broken or tape.inside[v] -- it holds itself
    tape.inside[v] = true
    for k, e in pairs(tape.broken and {} or v) do fields[k] = operand(tape, e, o.shadow[k]) end
    tape.inside[v] = nil
    return { TABLE, fields, { writes = world:writes(o), n_array = o.n_array, n_hash = o.n_hash } }
  end
  if kind ~= "function" or s and s.bytecode_only then tape.broken = true end
  return { VALUE, v }
end

--- Begins the entry of a call; symbols: positions of arguments and the numbers that they are. keeps: the argument that
--- comes back from a later call. site: where the code stands.
function Tape:call(f, args, shadows, n, symbols, keeps, site)
  local operands = {}
  for i = 1, n do
    operands[i] = i == keeps and { KEPT, register(self, args[i]) } or operand(self, args[i], shadows[i])
  end
  self.given = args
  self.open = { "call", self.at[f] and { REGISTER, self.at[f] } or { VALUE, f }, operands, n, symbols, site = site }
end

--- What a result is; sizes get their shadows here.
local function result(tape, v, s, fresh, path)
  local world, kind = tape.world, type(v)
  if kind == "number" then
    s = size(tape, v, path)
    return { NEW, s.size, "number" }, s
  end
  if kind == "nil" or kind == "boolean" or kind == "string" and not world.random_at[v] then return { VALUE, v } end
  local r = tape.at[v]
  if r then return { REGISTER, r }, s end
  if kind == "string" then return { NEW, register(tape, v), "string" } end
  if kind == "userdata" and not world.is_tensor(v) then return { NEW, register(tape, v), "userdata" } end
  if kind == "userdata" then return { NEW, register(tape, v), v.dtype, v.ndim } end
  if kind == "function" then return { NEW, register(tape, v), "function" }, s end
  if not fresh[v] then -- it was there before
    for i, a in pairs(tape.given) do
      if rawequal(a, v) then return { GIVEN, i }, s end
    end
    tape.broken = tape.broken or not (world.constants[v] or s and s.hooks) -- of hooks it must be the same list
    return { VALUE, v }, s
  end
  local fields, shadow = {}, world.tables[v].shadow
  for k, e in pairs(v) do fields[k], shadow[k] = result(tape, e, shadow[k], fresh, world.path_of(path, k)) end
  return { TABLE, fields }, s
end

--- Ends the entry of a call. fresh: the tables that it made; path: how results are called. Numbers become sizes.
function Tape:returned(results, shadows, n, fresh, path)
  local entry, operands = self.open, {}
  self.open = nil
  for i = 1, n do operands[i], shadows[i] = result(self, results[i], shadows[i], fresh, path) end
  entry[6], entry[7] = operands, n
  append(self, entry)
end

--- What the core said of the numbers in the call that is open: which it took, which had to be whole. The others are
--- guarded by now: what they were stands in the plan, and finalisers may run between the guards and the replay.
function Tape:took(taken, ...)
  local entry = self.open
  local operands, symbols = entry[3], entry[5]
  entry.taken, entry.whole = taken, { ... }
  for k = 1, symbols and #symbols or 0, 2 do
    local i = symbols[k]
    if floor(taken / 2 ^ (i - 1)) % 2 == 0 then operands[i] = { VALUE, self.given[i] } end
  end
end

--- Ends the recording: what remains is data. made: the tensors that results and effects mention; sizes: shadows, in the
--- order in which the trace's program speaks of them. Nil where the tape is none.
function Tape:finish(made, sizes)
  local at = self.at
  local out = { entries = {}, made = {}, sizes = {} }
  if self.broken or self.open then return nil end
  for i, t in pairs(made) do
    out.made[i] = at[t]
    if not at[t] then return nil end
  end
  for i, s in pairs(sizes) do out.sizes[i] = s.size end
  for i = 1, #self do out.entries[i] = self[i] end
  return out
end

-- Replay --------------------------------------------------------------------------------------------------------------

local Replay = {}
Replay.__index = Replay

--- What reads slots, by instruction of the description's program.
local read = {
  upvalue = function(p, i) return p.C.upvalue(p:slot(i[2]), i[3]) end,
  env = function(p, i) return p.C.environment(p:slot(i[2])) end,
  field = function(p, i) return rawget(p:slot(i[2]), i[3]) end,
  at = function(p, i) return rawget(p:slot(i[2]), p:number(i[3])) end,
  metatable = function(p, i) return metatable_of(p:slot(i[2])) end,
  string_metatable = function() return metatable_of("") end,
  loaded = function(p) return p.C.loaded() end,
  grad = function(p, i) return (select(2, p.C.gradient(p:slot(i[2])))) end,
  hooks = function(p, i) return (p.C.hooks(p:slot(i[2]))) end,
}

--- Finds the instruction of each slot and number.
local function instructions(d, C)
  if d.readers then return end
  local readers, expressions, slot, number = {}, {}, d.narg + 1, 0
  for k, i in ipairs(d.program) do
    local kind = C.guards[i[1]].kind
    if k == d.early + 1 then number = C.DEFERRED end
    if k == d.late + 1 then number = C.DRAWN end
    if kind == "read" then
      slot = slot + 1
      readers[slot] = i
    elseif kind == "number" then
      number = number + 1
      expressions[number] = i
    end
  end
  d.expressions = expressions
  d.readers = readers -- last: with these it counts as done
end

function Replay:slot(k)
  local v = self.slots[k]
  if rawequal(v, nil) and self.d.readers[k] then
    local i = self.d.readers[k]
    v = read[i[1]](self, i)
    self.slots[k] = v
  end
  return v
end

--- The number that later calls know by id, as it is in this one.
function Replay:number(id)
  local v = self.numbers[id]
  if v == nil then
    v = self:compute(self.d.expressions[id])
    self.numbers[id] = v
  end
  return v
end

--- What makes numbers, by instruction of the description's program; the others are operations on two numbers or one.
local make = {
  number = function(p, i) return p:slot(i[2]) end,
  const = function(_, i) return i[2] end,
  entries = function(p, i) return raw_length(p:slot(i[2])) end,
  size = function(p, i) return p.values[p.tape.sizes[i[2]]] end,
  call = function(p, i)
    if i[4] then return (i[2](p:number(i[3]), p:number(i[4]))) end
    return (i[2](p:number(i[3])))
  end,
}
make.bound = make.number
function make.draw(p) return p.C.UNKNOWN end

--- Whether a tape can replay an instruction of that kind and name; a spec asks for each row of the table of guards.
function M.replays(kind, name)
  if kind == "read" then return read[name] ~= nil end
  return kind == "check" or make[name] ~= nil or operations[name] ~= nil or name == "whole"
    or name == "key"
end

function Replay:compute(i)
  local name = i[1]
  if make[name] then return make[name](self, i) end
  return operations[name](self:number(i[2]), i[3] and self:number(i[3]))
end

function Replay:value(x)
  local kind = x[1]
  if kind == VALUE then return x[2] end
  if kind == REGISTER then return self.values[x[2]] end
  if kind == NUMBER then return self:number(x[2]) end
  if kind == SLOT then return self:slot(x[2]) end
  if kind == KEPT then
    self.values[x[2]] = {}
    return self.values[x[2]]
  end
  local fields, how = x[2], x[3]
  local t = self.C.table(how.n_array, how.n_hash)
  for _, w in ipairs(how.writes) do
    local v = w.full or nil
    if w.last and fields[w.key] then v = self:value(fields[w.key]) end
    rawset(t, w.key, v)
  end
  return t
end

--- Whether a result is what it was but for sizes; then it is kept.
function Replay:accept(x, v)
  local kind = x[1]
  if kind == VALUE then return same_value(x[2], v) end
  if kind == REGISTER then return rawequal(self.values[x[2]], v) end
  if kind == GIVEN then return rawequal(self.args[x[2]], v) end
  if kind == TABLE then
    if type(v) ~= "table" then return false end
    for k in pairs(v) do
      if not x[2][k] then return false end
    end
    for k, e in pairs(x[2]) do
      if not self:accept(e, v[k]) then return false end
    end
    return true
  end
  if x[4] then
    if not self.C.is_tensor(v) or self.met[v] or v.dtype ~= x[3] or v.ndim ~= x[4] then return false end
    if self.shapes then self.shapes[x[2]] = v.shape end
  elseif type(v) ~= x[3] then
    return false
  end
  if x[3] ~= "number" and x[3] ~= "string" then self.met[v] = true end
  self.values[x[2]] = v
  return true
end

--- Whether a guard that needs sizes holds; what is none does.
function Replay:holds(i)
  local name = i[1]
  if name == "whole" then
    local v = self:number(i[2])
    return (v % 1 == 0) == i[3] -- what is not finite is not whole: its remainder is no number
  end
  if self.C.guards[name].kind ~= "outcome" then return true end
  return operations[name](self:number(i[2]), self:number(i[3])) == i[4]
end

local replay = {}

--- Two tensors may be one in this call, which no guard holds for others: each is found through its own slot.
function replay.outside(p, e)
  local t = p:slot(e[2])
  if e[3] and p.met[t] then t = p.C.another(t) end
  p.C.outside(t, e[2])
  if e[3] then
    p.values[e[3]], p.met[t] = t, true
  end
  return true
end

function replay.bound(p, e)
  local v = p:slot(e[2])
  p.values[e[3]] = v
  return type(v) == "number"
end

function replay.compute(p, e)
  local a, b = p:value(e[3]), e[4]
  if b then a = e[2](a, p:value(b)) else a = e[2](a) end -- math.log is not to be given a nil
  p.values[e[5]] = a
  return true
end

function replay.claim(p, e) return e[2](p:value(e[3]), p:value(e[4])) == e[5] end

local function same_list(list, ...)
  if select("#", ...) ~= #list then return false end
  for i = 1, #list do
    if list[i] ~= (select(i, ...)) then return false end
  end
  return true
end

function replay.call(p, e)
  local C, args, n, symbols = p.C, {}, e[4], e[5]
  for i = 1, n do args[i] = p:value(e[3][i]) end
  if symbols then C.symbols(n, unpack(symbols)) end
  if e.site then C.place(e.site) end
  local results, count = pack(p:value(e[2])(unpack(args, 1, n)))
  p.args = args
  if count ~= e[7] or C.reason() or symbols and C.taken() ~= e.taken or not same_list(e.whole, C.wholeness()) then
    return false
  end
  for i = 1, count do
    if not p:accept(e[6][i], results[i]) then return false end
  end
  return true
end

local function replayer(C, d, tape, f, ...)
  instructions(d, C)
  local p = setmetatable({ C = C, d = d, tape = tape, slots = { ... }, values = {}, numbers = {}, met = {} },
    Replay)
  p.slots[d.narg + 1] = f
  return p
end

--- Another replay of the same call, which has not begun, and notes what proofs need (proofs.lua).
function Replay:again()
  local slots = {}
  for k = 1, self.d.narg + 1 do slots[k] = self.slots[k] end
  return setmetatable({ C = self.C, d = self.d, tape = self.tape, slots = slots, values = {}, numbers = {}, met = {},
    shapes = {} }, Replay)
end

--- What slot k reads in f(...), nil where nothing can be read.
function M.look(core, d, k, f, ...)
  local ok, v = core.internals.undisturbed(Replay.slot, replayer(core.internals.capture, d, nil, f, ...), k)
  return ok and v or nil
end

--- Whether what a scan's turn has read outside is still what it was, see reads_position of init.lua.
function M.unchanged(core, kept)
  local p = replayer(core.internals.capture, kept.program, nil)
  for k, v in pairs(kept.roots) do p.slots[k] = v end
  local ok, same = core.internals.undisturbed(function()
    for k, v in pairs(kept.values) do
      if not same_value(p:slot(k), v) then return false end
    end
    for k in pairs(kept.absent) do
      if p:slot(k) ~= nil then return false end
    end
    for k, version in pairs(kept.versions) do
      if core.internals.grad.version(p:slot(k)) ~= version then return false end
    end
    return true
  end)
  return ok and same
end

--- Plays a tape in the open session: a description of what differs, or nil and what came out otherwise.
local function record(p)
  local C, d, tape = p.C, p.d, p.tape
  for _, e in ipairs(tape.entries) do
    if not replay[e[1]](p, e) then return nil, e.text or "what an operation gives" end
  end
  for k = d.early + 1, #d.program do
    if not p:holds(d.program[k]) then return nil, d.about[k] or "a number" end
  end
  if C.sharing() ~= d.sharing then return nil, "which tensors share memory" end
  local out = { tensors = {}, sizes = {} }
  for i, r in ipairs(tape.made) do out.tensors[i] = p.values[r] end
  for i, r in ipairs(tape.sizes) do out.sizes[i] = p.values[r] end
  return out
end

--- Plays a tape whose numbers are read through p. sample: of a range of sizes; else the trace serves these sizes now.
local function attempt(p, handle, position, sample)
  local at, d = p.C.sized(handle, position)
  if at ~= position or d ~= p.d then return false end -- a finaliser has moved the traces
  if sample then p.C.ranged() end
  local out, otherwise = record(p)
  return out ~= nil and p.C.finish(out, position, handle, sample) == true, otherwise
end

--- The same in a session of its own. True, or what came out otherwise; nil where no session can be.
function Replay:play(handle, position, sample)
  local ok, done, why = self.C.session(handle, attempt, self, handle, position, sample)
  if ok == nil then return nil end
  return ok and done == true, ok and why or nil
end

--- Adds the sizes of this call to a trace that lacks them. True when that was done; else nothing has changed.
---@return boolean done
---@return string? otherwise what these sizes decide otherwise, in the way through the function that was tried first
---@return table? replay that was played, of the trace at `position`
function M.replay(C, handle, f, ...)
  local position, d = C.sized(handle)
  local otherwise
  while position do
    for k = 1, #d.tapes do
      local p = replayer(C, d, d.tapes[k], f, ...)
      local done, why = p:play(handle, position)
      if done == nil then return false end
      if done then
        p.position = position
        return true, nil, p
      end
      otherwise = otherwise or why
    end
    position, d = C.sized(handle, position + 1)
  end
  return false, otherwise
end

return M
