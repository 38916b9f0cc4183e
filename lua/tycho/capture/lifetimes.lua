--- lifetimes.lua -- where a tensor that an operation made is dead: proved by the bytecode of the caller.
-- In: a Lua function; where it made a tensor, and where it calls another operation. Out: whether the tensor may be let
-- go of before that call.
--
-- The core knows function and line of a call and the slots between the frames, or the operator with its numbers, not
-- the instruction: what holds must hold of all that it may be. A result is followed through the control flow, from
-- register to register:
-- 1. It may be an operand of a method of its own that is known to give something new (SAFE), of an operator whose other
--    operand is a number or came of it, of a comparison with a constant, an index, a test. All else may keep it, at
--    any time: to be an argument of a function, the second operand behind what may be an object with operators of its
--    own, to be stored, returned, closed over, concatenated, counted as one of many values.
-- 2. At a call it is dead if it is no argument and no register that may hold it is read afterwards, on any way.
-- Registers of a frame that has ended are gone; that the frame is the same, or has ended, the core knows by its slot.

local bytecode = require "tycho.capture.bytecode"
local flows = require "tycho.capture.flow"

local type, pairs, ipairs, unpack = type, pairs, ipairs, unpack
local format, sub = string.format, string.sub
local operator, registers = flows.operator, flows.registers
local calls, tests, reads_a = flows.calls, flows.tests, flows.reads_a

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
    local method, given = state[a], false
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
    local fine = tests[name] or reads_a[name] and name ~= "RET1"
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

local function any_holds(state)
  for _, v in pairs(state) do
    if holds(v) then return true end
  end
  return false
end

--- Where the result of the instruction at `site` may be, by position: the states before. Nil: it may be kept.
local function follow(proto, site)
  local code, flow = proto.code, flows.of(proto)
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
  if code[site].name ~= "CALL" or code[site].b ~= 1 then go(site, { [code[site].a] = HELD }) end
  while #work > 0 do
    local at = work[#work]
    work[#work] = nil
    for r, v in pairs(states[at]) do
      if holds(v) and flow.captured[r] then return nil end
    end
    local after = step(proto, code[at], states[at])
    if not after then return nil end
    if any_holds(after) then go(at, after) end
  end
  return states
end

--- Whether what has these states is dead at an instruction, unless it is an argument there.
local function is_dead(proto, states, at)
  local written = {}
  for _, r in ipairs(proto.flow[at].writes) do written[r] = true end
  for r, v in pairs(states[at] or {}) do
    if holds(v) and not written[r] and proto.flow.live[at][r] then return false end
  end
  return true
end

-- Which instructions it may be ----------------------------------------------------------------------------------------

--- Whether an operator's instruction may have had that number, or any, as its first or second operand, or none.
local function has_operands(ins, which, number)
  local form = operator(ins.name)
  if not form then return ins.name == "UNM" end
  local fits = number == nil or ins.k == number
  if form == "VN" then return which == 2 and fits end
  if form == "NV" then return which == 1 and fits end
  return true
end

local operator_of = { __add = "ADD", __sub = "SUB", __mul = "MUL", __div = "DIV", __mod = "MOD", __pow = "POW",
  __unm = "UNM" }

--- The positions of what is called on that line: what: the slots from frame to frame (less than 0: those of a function
--- of `...`, which are more), or the event of an operator.
local function positions(proto, line, what, which, number)
  local key = format("%d %s %d %s", line, what, which, number and format("%.17g", number) or "")
  local known = proto.positions or {}
  proto.positions = known
  if known[key] then return known[key] end
  local list, event, register = {}, operator_of[what], nil
  if not event and type(what) == "number" then register = what > 0 and what - proto.fr2 or -what - 2 * proto.fr2 end
  -- where traces are stitched around a C function, a frame of 2 slots and fr2 lies between
  local stitched = register and register - 2 - proto.fr2
  for i, ins in ipairs(proto.code) do
    local it
    if proto.lines[i] == line then
      if event then it = sub(ins.name, 1, 3) == event and has_operands(ins, which, number)
      else it = calls[ins.name] and register and (ins.a == register or ins.a == stitched) end
    end
    if it then list[#list + 1] = i end
  end
  known[key] = list
  return list
end

--- Whether the instruction gives one result, or none.
local function makes_one(ins)
  return ins.name == "UNM" or operator(ins.name) or ins.name == "CALL" and (ins.b == 1 or ins.b == 2)
end

--- What is known of the results of the instruction at a position.
local function states_of(proto, at)
  local known = proto.lifetimes or {}
  proto.lifetimes = known
  if known[at] == nil then known[at] = makes_one(proto.code[at]) and follow(proto, at) or false end
  return known[at]
end

---@class tycho.CallPlace
---@field [1] integer its line
---@field [2] integer|string the slots from the caller's frame to the callee's; of an operator, the event
---@field [3] integer of an operator: which operand is a number, 0: none
---@field [4]? number that number, where it tells it from others

--- Whether a result that was made there is dead at that call, unless it is an argument of it. Without `here`: whether
--- it is never kept, and whether it may be the result of several instructions.
---@param fn function
---@param made tycho.CallPlace
---@param here? tycho.CallPlace
---@return boolean
---@return boolean? several
function M.dies(fn, made, here)
  local proto = bytecode.prototype(fn)
  if not proto or not proto.lines or #proto.code > MOST or not flows.of(proto) then return false end
  local list = positions(proto, unpack(made, 1, 4))
  for _, at in ipairs(list) do
    if not states_of(proto, at) then return false, #list > 1 end
  end
  if not here then return #list > 0, #list > 1 end
  local calls_here = positions(proto, unpack(here, 1, 4))
  for _, at in ipairs(list) do
    for _, n in ipairs(calls_here) do
      if not is_dead(proto, states_of(proto, at), n) then return false end
    end
  end
  return #list > 0 and #calls_here > 0
end

return M
