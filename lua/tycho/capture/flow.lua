--- flow.lua -- what instructions read and write, where they lead, and which registers are read later.
-- In: a prototype. Out: for each of its instructions the registers that it reads and writes and the positions that may
-- come behind it; the registers that are live behind it; those that closures capture. False where an instruction is not
-- known. Cannot fail.

local pairs, ipairs, match = pairs, ipairs, string.match

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

local M = {}

-- What instructions read and write ------------------------------------------------------------------------------------

local arithmetic = { ADD = true, SUB = true, MUL = true, DIV = true, MOD = true }

--- "VN", "NV", "VV" of an operator's instruction, else nil.
function M.operator(name)
  local op, form = match(name, "^(%u%u%u)(%u%u)$")
  if op and arithmetic[op] and (form == "VN" or form == "NV" or form == "VV") then return form end
  return name == "POW" and "VV" or nil
end

M.calls = { CALL = true, CALLM = true, ITERC = true, ITERN = true }
local comparisons = { ISLT = true, ISGE = true, ISLE = true, ISGT = true, ISEQV = true, ISNEV = true }
M.tests = { IST = true, ISF = true }
M.reads_a = { ISEQS = true, ISNES = true, ISEQN = true, ISNEN = true, ISEQP = true, ISNEP = true, RET1 = true }
local copies = { MOV = true, NOT = true, UNM = true, LEN = true, BNOT = true }
local sets = { KSTR = true, KCDATA = true, KSHORT = true, KNUM = true, KPRI = true, UGET = true, TNEW = true,
  TDUP = true, GGET = true }
local bits = { BAND = true, BOR = true, BXOR = true, BSHL = true, BSHR = true, BSAR = true }
local no_registers = { UCLO = true, LOOP = true, JMP = true, RET0 = true, USETS = true, USETN = true, USETP = true }

local function range(list, from, to)
  for r = from, to do list[#list + 1] = r end
  return list
end

--- Registers that a closure of a prototype has as its variables.
local function captured(proto)
  local list = {}
  for _, u in ipairs(proto.upvalues) do
    if u.is_local then list[#list + 1] = u.index end
  end
  return list
end

--- Registers that an instruction reads, and that it writes; nil where it is not known. Reads of as many values as there
--- are end at the frame's.
function M.registers(proto, ins)
  local name, a, top = ins.name, ins.a, proto.framesize
  local form = M.operator(name)
  if form == "VV" then return { ins.b, ins.c }, { a } end
  if form then return { ins.b }, { a } end
  if copies[name] then return { ins.d }, { a } end
  if comparisons[name] then return { a, ins.d }, {} end
  if M.tests[name] then return { ins.d }, {} end
  if M.reads_a[name] then return { a }, {} end
  if name == "FNEW" then return captured(ins.k), { a } end
  if sets[name] then return {}, { a } end
  if bits[name] then return { ins.b, ins.c }, { a } end
  if no_registers[name] then return {}, {} end
  if name == "ISTC" or name == "ISFC" then return { ins.d, a }, {} end -- a is written on one way only
  if name == "CAT" then return range({}, ins.b, ins.c), { a } end
  if name == "KNIL" then return {}, range({}, a, ins.d) end
  if name == "USETV" then return { ins.d }, {} end
  if name == "GSET" then return { a }, {} end
  if name == "TGETV" then return { ins.b, ins.c }, { a } end
  if name == "TGETS" or name == "TGETB" then return { ins.b }, { a } end
  if name == "TSETV" then return { a, ins.b, ins.c }, {} end
  if name == "TSETS" or name == "TSETB" then return { a, ins.b }, {} end
  if name == "TSETM" then return range({}, a - 1, top), {} end
  if name == "CALL" then
    local written = ins.b == 0 and range({}, a, top) or range({}, a, a + ins.b - 2)
    if ins.c == 0 then return range({}, a, top), written end
    local read = { a }
    return range(read, a + 1 + proto.fr2, a + proto.fr2 + ins.c - 1), written
  end
  if name == "CALLM" then return range({}, a, top), range({}, a, ins.b == 0 and top or a + ins.b - 2) end
  if name == "CALLT" then return range({ a }, a + 1 + proto.fr2, a + proto.fr2 + ins.d - 1), {} end
  if name == "CALLMT" or name == "RETM" then return range({}, a, top), {} end
  if name == "ITERC" or name == "ITERN" then return range({}, a - 3, a - 1), range({}, a, a + ins.b - 2) end
  if name == "VARG" then return {}, ins.b == 0 and range({}, a, top) or range({}, a, a + ins.b - 2) end
  if name == "ISNEXT" then return range({}, a - 3, a - 1), {} end
  if name == "RET" then return range({}, a, a + ins.d - 2), {} end
  if name == "FORI" or name == "FORL" then return range({}, a, a + 2), { a, a + 3 } end
  if name == "ITERL" then return { a }, { a - 1 } end
  return nil
end

local leaves = { RET = true, RET0 = true, RET1 = true, RETM = true, CALLT = true, CALLMT = true }
local jumps_always = { JMP = true, UCLO = true, ISNEXT = true }

--- Positions that may come behind an instruction. A condition may leave out the jump that follows it.
local function behind(ins, at)
  local name = ins.name
  if leaves[name] then return {} end
  local may_skip = comparisons[name] or M.tests[name] or name == "ISTC" or name == "ISFC" or M.reads_a[name]
  if may_skip then return { at + 1, at + 2 } end
  if ins.name == "LOOP" or not ins.target then return { at + 1 } end
  if jumps_always[ins.name] then return { ins.target } end
  return { at + 1, ins.target }
end

-- What is read later --------------------------------------------------------------------------------------------------

--- By position: the registers whose values may be read behind it. Nil where an instruction is not known.
local function live_behind(proto, flow)
  local code, live, before = proto.code, {}, {}
  for i = 1, #code do live[i], before[i] = {}, {} end
  local again = true
  while again do
    again = false
    for i = #code, 1, -1 do
      local out = live[i]
      for _, n in ipairs(flow[i].behind) do
        for r in pairs(before[n] or {}) do
          if not out[r] then out[r], again = true, true end
        end
      end
      local into, written = before[i], {}
      for _, r in ipairs(flow[i].writes) do written[r] = true end
      for r in pairs(out) do
        if not written[r] and not into[r] then into[r], again = true, true end
      end
      for _, r in ipairs(flow[i].reads) do
        if not into[r] then into[r], again = true, true end
      end
    end
  end
  return live
end

--- The registers that are live before a position: a set, and the highest one.
---@param flow tycho.Flow
---@param at integer
---@return table<integer, boolean>
---@return integer
function M.live_before(flow, at)
  local live, top = {}, 0
  for r in pairs(flow.live[at]) do live[r] = true end
  for _, r in ipairs(flow[at].writes) do live[r] = nil end
  for _, r in ipairs(flow[at].reads) do live[r] = true end
  for r in pairs(live) do top = r > top and r or top end
  return live, top
end

---@class tycho.Flow
---@field [integer] {reads: integer[], writes: integer[], behind: integer[]} by position
---@field live table<integer, boolean>[] by position: registers whose values may be read behind it
---@field captured table<integer, boolean> registers that are variables of closures, at some time

--- What instructions read and write and where they lead; false where one is not known.
---@param proto tycho.Prototype
---@return tycho.Flow|false
function M.of(proto)
  if proto.flow ~= nil then return proto.flow end
  local flow = {}
  for i, ins in ipairs(proto.code) do
    local reads, writes = M.registers(proto, ins)
    if not reads then
      proto.flow = false
      return false
    end
    flow[i] = { reads = reads, writes = writes, behind = behind(ins, i) }
  end
  flow.live = live_behind(proto, flow)
  flow.captured = {}
  for _, child in ipairs(proto.children) do
    for _, r in ipairs(captured(child)) do flow.captured[r] = true end
  end
  proto.flow = flow
  return flow
end

return M
