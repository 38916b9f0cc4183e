--- lifetimes.lua -- where a call's result is dead when the call is made again: proved by the caller's bytecode.
-- In: a Lua function, a line of it on which a compiled function is called, by which name. Out: whether the result of
-- the last time may be let go of before the call is made again.
--
-- The core knows function, line and name of a call (LuaJIT's: that of the variable or field that it last read into the
-- call's register), not the instruction: so a line with several calls of that name is refused. The result of the one
-- that is left is followed through the control flow, from register to register, until the call comes again:
-- 1. It may be an operand of a method of its own that is known to give something new (SAFE), of an operator whose other
--    operand is a number or came of it, of a comparison, an index, a test. All else may keep it: to be an argument of a
--    function, to be stored, returned, closed over, concatenated, counted as one of many values.
-- 2. When the call comes again, no register that may hold it is read by it or afterwards, on any way from there.
-- Registers of a frame that has ended are gone; that the frame is the same, or has ended, the core knows by its slot.

local bytecode = require "tycho.capture.bytecode"

local type, pairs, ipairs, next, find = type, pairs, ipairs, next, string.find

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

local M = {}

--- Instructions that are looked at, at most.
local MOST = 4000

--- Methods of tensors that give no handle of their argument, and keep none.
local SAFE = {}
for name in ([[abs add all any amax amin argmax argmin argsort bmm ceil clamp clone cos cosh cumprod cumsum detach div
  dot eq erf exp floor gather ge gt isfinite isinf isnan item layer_norm le log log_softmax logsumexp lt matmul max
  maximum mean min minimum mul ne neg norm numel outer pow prod reciprocal relu round rsqrt sigmoid sign sin sinh size
  sort softmax sqrt square std sub sum tan tanh topk totable var]]):gmatch "%S+" do
  SAFE[name] = true
end

-- What instructions read and write ------------------------------------------------------------------------------------

local arithmetic = { ADD = true, SUB = true, MUL = true, DIV = true, MOD = true }

--- "VN", "NV", "VV" of an operator's instruction, else nil.
local function operator(name)
  local op, form = name:match "^(%u%u%u)(%u%u)$"
  if op and arithmetic[op] and (form == "VN" or form == "NV" or form == "VV") then return form end
  return name == "POW" and "VV" or nil
end

local equal = { ISEQV = true, ISNEV = true } -- of two objects with different __eq neither is called
local comparisons = { ISLT = true, ISGE = true, ISLE = true, ISGT = true, ISEQV = true, ISNEV = true }
local tests = { IST = true, ISF = true }
local reads_a = { ISEQS = true, ISNES = true, ISEQN = true, ISNEN = true, ISEQP = true, ISNEP = true, RET1 = true }
local copies = { MOV = true, NOT = true, UNM = true, LEN = true, BNOT = true }
local sets = { KSTR = true, KCDATA = true, KSHORT = true, KNUM = true, KPRI = true, UGET = true, FNEW = true,
  TNEW = true, TDUP = true, GGET = true }
local bits = { BAND = true, BOR = true, BXOR = true, BSHL = true, BSHR = true, BSAR = true }
local no_registers = { UCLO = true, LOOP = true, JMP = true, RET0 = true, USETS = true, USETN = true, USETP = true }

local function range(list, from, to)
  for r = from, to do list[#list + 1] = r end
  return list
end

--- Registers that an instruction reads, and that it writes; nil where it is not known. Reads of as many values as there
--- are end at the frame's.
local function registers(proto, ins)
  local name, a, top = ins.name, ins.a, proto.framesize
  local form = operator(name)
  if form == "VV" then return { ins.b, ins.c }, { a } end
  if form then return { ins.b }, { a } end
  if copies[name] then return { ins.d }, { a } end
  if comparisons[name] then return { a, ins.d }, {} end
  if tests[name] then return { ins.d }, {} end
  if reads_a[name] then return { a }, {} end
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
  local may_skip = comparisons[name] or tests[name] or name == "ISTC" or name == "ISFC" or reads_a[name]
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

--- What instructions read and write and where they lead; false where one is not known.
local function flow_of(proto)
  if proto.flow ~= nil then return proto.flow end
  local flow = {}
  for i, ins in ipairs(proto.code) do
    local reads, writes = registers(proto, ins)
    if not reads then
      proto.flow = false
      return false
    end
    flow[i] = { reads = reads, writes = writes, behind = behind(ins, i) }
  end
  flow.live = live_behind(proto, flow)
  flow.captured = {}
  for _, child in ipairs(proto.children) do
    for _, u in ipairs(child.upvalues) do
      if u.is_local then flow.captured[u.index] = true end
    end
  end
  proto.flow = flow
  return flow
end

-- Where a result goes -------------------------------------------------------------------------------------------------

-- What is known of a register; a text: it holds the result's method of that name.
local HELD, PERHAPS, NUMBER = 1, 2, 3 -- the result; the result or anything else; a number

local function holds(v) return v == HELD or v == PERHAPS end

--- The state behind an instruction where registers stand for what `state` says; nil: the result may be kept.
local function step(proto, ins, state)
  local name, a = ins.name, ins.a
  local new = {}
  for r, v in pairs(state) do new[r] = v end
  local function held(r) return holds(state[r]) end
  local form = operator(name)
  if form then
    local first = form == "VV" and held(ins.c) and ins.b or nil
    if first and state[first] ~= HELD and state[first] ~= NUMBER then return nil end -- an object may get it
    new[a] = nil
    return new
  end
  if name == "MOV" then
    new[a] = state[ins.d]
    return new
  end
  if name == "KNUM" or name == "KSHORT" then
    new[a] = NUMBER
    return new
  end
  if name == "TGETS" and state[ins.b] == HELD and type(ins.k) == "string" then
    new[a] = ins.k
    return new
  end
  if name == "CALL" then
    local self = a + 1 + proto.fr2
    local method = state[a]
    local given = false
    for _, r in ipairs((registers(proto, ins))) do given = given or held(r) end
    if given and not (SAFE[method] and state[self] == HELD and ins.c > 0) then return nil end
    for r = a, proto.framesize do new[r] = nil end -- the callee's frame lay there
    return new
  end
  local reads, writes = registers(proto, ins)
  local any = false
  for _, r in ipairs(reads) do any = any or held(r) end
  if any then
    local value = name == "TSETV" or name == "TSETS" or name == "TSETB"
    local fine = equal[name] or tests[name] or reads_a[name] and name ~= "RET1"
      or name == "UNM" or name == "NOT" or name == "LEN"
      or name == "TGETV" and not held(ins.c) or name == "TGETB" or name == "TGETS"
      or value and not held(a) and not (name == "TSETV" and held(ins.c))
    if not fine then return nil end
  end
  for _, r in ipairs(writes) do new[r] = nil end
  if name == "ISTC" or name == "ISFC" then new[a] = nil end
  if name == "FORI" or name == "FORL" then new[a + 3] = NUMBER end
  return new
end

--- Joins a state into that of a position; whether it changed.
local function join(states, at, state)
  local old = states[at]
  if not old then
    states[at] = state
    return true
  end
  local changed = false
  local function differs(r, v, w)
    if v == w or v == PERHAPS then return end
    local y = (holds(v) or holds(w)) and PERHAPS or nil
    if y ~= v then old[r], changed = y, true end
  end
  for r, w in pairs(state) do differs(r, old[r], w) end
  for r, v in pairs(old) do differs(r, v, state[r]) end
  return changed
end

--- Whether the result of the call at `site` is dead when the call comes again: see the head.
local function is_dead(proto, site)
  local code, flow = proto.code, flow_of(proto)
  local states, work = {}, {}
  local function go(from, state)
    for _, n in ipairs(flow[from].behind) do
      local copy = {}
      for r, v in pairs(state) do
        if holds(v) or not flow.captured[r] then copy[r] = v end -- else a closure may write it
      end
      if code[n] and join(states, n, copy) then work[#work + 1] = n end
    end
  end
  go(site, { [code[site].a] = HELD })
  while #work > 0 do
    local at = work[#work]
    work[#work] = nil
    local state = states[at]
    for r, v in pairs(state) do
      if holds(v) and flow.captured[r] then return false end
    end
    if at ~= site then
      state = step(proto, code[at], state)
      if not state then return false end
      if next(state) then go(at, state) end
    end
  end
  local state = states[site] or {}
  for _, r in ipairs(flow[site].reads) do
    if holds(state[r]) then return false end
  end
  for r, v in pairs(state) do
    if holds(v) and r ~= code[site].a and flow.live[site][r] then return false end
  end
  return true
end

--- Whether LuaJIT may call what that instruction calls by the name: it reads the instructions backwards, whatever leads
--- there, to the one that wrote the function's register.
local function called(proto, fn, at, name)
  local code, a = proto.code, proto.code[at].a
  for i = at - 1, 1, -1 do
    local ins = code[i]
    if ins.name == "CALL" or ins.name == "CALLM" or ins.name == "VARG" or ins.name == "KNIL" then
      if ins.a <= a then return true end
    elseif ins.a == a then
      if ins.name == "TGETS" or ins.name == "GGET" then return ins.k == name end
      if ins.name == "UGET" then return debug.getupvalue(fn, ins.d) == name end
      if #proto.flow[i].writes > 0 then return true end
    end
  end
  return true
end

--- The call of that name on that line; nil where there are several, or its results are not one.
local function call_at(proto, fn, line, name)
  local found
  for i, ins in ipairs(proto.code) do
    local calls = ins.name == "CALL" or ins.name == "CALLM" or ins.name == "ITERC" or ins.name == "ITERN"
    if proto.lines[i] == line and calls and (find(ins.name, "^ITER") or called(proto, fn, i, name)) then
      if found then return nil end
      found = i
    end
  end
  local ins = found and proto.code[found]
  return ins and ins.name == "CALL" and (ins.b == 1 or ins.b == 2) and found or nil
end

--- Whether the result of the last time is dead when that line calls again; see the head.
---@param fn function
---@param line integer
---@param name string
---@return boolean
function M.dies(fn, line, name)
  local proto = bytecode.prototype(fn)
  if not proto or not proto.lines or #proto.code > MOST or not flow_of(proto) then return false end
  local site = call_at(proto, fn, line, name)
  return site and (proto.code[site].b == 1 or is_dead(proto, site)) or false -- one result, or none
end

return M
