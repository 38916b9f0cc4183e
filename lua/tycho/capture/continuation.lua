--- continuation.lua -- functions that go on in the middle of others: their dumps, edited.
-- In: a Lua function, positions in its bytecode. Out: a function that is given registers, begins at a position, and
-- where it is to leave calls another function with registers, in its own place. Nil and a reason where that cannot be.
--
-- What is made of a dump is the same function with some instructions before the first and behind the last one; where it
-- begins, lines, names, constants and upvalues (these are joined) stay as they are. So messages, tracebacks, levels,
-- yields and depth are those of the function itself.
--
-- Rules.
-- 1. Before the code: a jump to where it begins. Behind it: for each exit a call in the function's own place, with the
--    registers that are live there; others are nil.
-- 2. The operand A of a jump is the number of registers that are in use: LuaJIT's trace compiler believes it.
-- 3. An exit by falling through takes the place of the instruction there, an exit by a jump changes the jump: names in
--    messages are found by walking back over the code.
-- 4. A `for k in pairs(t)` that is entered in its middle walks by next and key: ITERN becomes ITERC, ISNEXT a jump.
-- 5. What has exits is not for LuaJIT's trace compiler, which looks for the beginning of a loop before the place that
--    its end jumps to.
-- 6. What `...` stands for comes behind the registers. So do the results of a call that the next instruction takes as
--    many as there are of: what goes on there is a function with `...`, which puts them where that looks for them. That
--    is not for functions with `...` of their own.
-- 7. Functions that need more registers or upvalues than there can be are refused.

local bytecode = require "tycho.capture.bytecode"
local edit = require "tycho.capture.dump_edit"
local flows = require "tycho.capture.flow"

local char, rep = string.char, string.rep
local floor, max, min = math.floor, math.max, math.min
local HAS_INTEGERS = require("tycho.capture.operators").HAS_INTEGERS
local error, ipairs, pairs, select, type = error, ipairs, pairs, select, type
local concat, insert = table.concat, table.insert
local dump, compile = string.dump, loadstring or load
local debug = type(debug) == "table" and debug or {}
local join, get_upvalue, set_upvalue = debug.upvaluejoin, debug.getupvalue, debug.setupvalue
local get_env, set_env = debug.getfenv, debug.setfenv

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

local M = {}

local internals = require("tycho").internals
local split, joined, moved, append = edit.split, edit.joined, edit.moved, edit.append
local not_for_traces = edit.not_for_traces
local two, three, jump = edit.two, edit.three, edit.jump
local load_dump, lay_out, build = edit.load, edit.lay_out, edit.build

local MOST_REGISTERS, MOST_UPVALUES = 240, 60
local VARARG = 2 -- flag of a prototype: it has `...`
local LOOKED_AT = 3 -- first arguments of a call that holds a reason
local ANY = 255 -- registers in use where as many values are handed on as there are

-- Calls in the function's own place ----------------------------------------------------------------------------------

--- A call of an upvalue in the function's own place, with n registers, of which `live` hold a value, with what the
--- upvalue `carried` holds, if that is given, and with what `...` stands for in a function of so many parameters.
local function exit_call(proto, upvalue, live, n, params, carried)
  local list, given = { two("UGET", n, upvalue) }, n
  for r = 1, n do
    local to = n + proto.fr2 + r
    list[#list + 1] = live[r] and two("MOV", to, r - 1) or two("KPRI", to, 0)
  end
  if carried then
    given = n + 1
    list[#list + 1] = two("UGET", n + proto.fr2 + given, carried)
  end
  if proto.vararg then
    list[#list + 1] = three("VARG", n + given + 1 + proto.fr2, 0, params)
    list[#list + 1] = two("CALLMT", n, given)
  else
    list[#list + 1] = two("CALLT", n, given + 1)
  end
  return list
end

--- What `...` stands for lies behind so many parameters.
local function set_params(proto, p, n)
  p.params = n
  for i, ins in ipairs(proto.code) do
    if ins.name == "VARG" then p.code[i][3] = n end
  end
end

--- Walks of tables in whose middle it begins: by the key.
local function walk_by_key(proto, p, start)
  for q, ins in ipairs(proto.code) do
    if ins.name == "ITERL" and ins.target <= start and start <= q and proto.code[q - 1].name == "ITERN" then
      p.code[q - 1][1] = edit.numbers.ITERC
      for i, other in ipairs(proto.code) do
        if other.name == "ISNEXT" and other.target == q - 1 then p.code[i][1] = edit.numbers.JMP end
      end
    end
  end
end

-- What runs natively --------------------------------------------------------------------------------------------------

local takes_many = { CALLM = true, CALLMT = true, RETM = true, TSETM = true }
local returns = { RET = true, RET0 = true, RET1 = true }
local passes = { JMP = true, LOOP = true, FORL = true, ITERC = true, ITERN = true, ITERL = true,
  UCLO = true }
local moves = { MOV = true, UGET = true, KPRI = true, KSHORT = true, KNUM = true, KSTR = true, KNIL = true }

--- The position of what takes all results of the call at a position; nil where they are as many as it says.
---@param proto tycho.Prototype
---@param at integer
---@return integer|nil
function M.taker(proto, at)
  local code = proto.code
  if code[at].name ~= "CALL" or code[at].b > 0 then return nil end
  local to = code[at + 1].name == "UCLO" and at + 2 or at + 1
  return takes_many[code[to].name] and to or nil
end

--- The function's register of the call that takes all results of the one at a position, if one does.
---@param proto tycho.Prototype
---@param at integer
---@return integer|nil
function M.taker_calls(proto, at)
  local to = M.taker(proto, at)
  return to and M.calls(proto, to) and proto.code[to].a or nil
end

--- The first of the registers whose values the call at a position takes as many as there are of; nil where it does not,
--- or what runs from there on cannot be handed them.
---@param proto tycho.Prototype
---@param at integer
---@return integer|nil
function M.handed(proto, at)
  local ins = proto.code[at]
  if proto.vararg then return nil end
  return ins.name == "CALLM" and ins.a + proto.fr2 + 1 + ins.c or ins.name == "CALLMT" and ins.a + proto.fr2 + 1 + ins.d
    or nil
end

--- The registers below `first` that are live before a position, where those from there on are handed: a set, and the
--- highest one.
local function live_below(proto, at, first)
  local live, top = {}, 0
  for r in pairs((flows.live_before(proto.flow, at))) do
    if r < first then live[r], top = true, max(top, r) end
  end
  return live, top
end

--- The same behind the call at a position, whose results are handed on.
local function live_beside(proto, at) return live_below(proto, at + 1, proto.code[at].a) end

--- Where what is run natively begins, so that the values that an instruction takes are all in registers.
---@param proto tycho.Prototype
---@param at integer
---@return integer
function M.start(proto, at)
  local code = proto.code
  while takes_many[code[at].name] and not M.handed(proto, at) do
    at = at - 1
    if code[at].name == "UCLO" then at = at - 1 end
  end
  return at
end

--- Whether nothing but a return comes from there on.
local function only_returns(code, at)
  while code[at] and moves[code[at].name] do at = at + 1 end
  return code[at] ~= nil and returns[code[at].name] ~= nil
end

--- The instructions that are run natively from `start` on: what is there, what takes its values, loops around it and
--- returns. Their exits: {from, to, by a jump}.
local function region_of(proto, flow, start)
  local code, inside, exits, work = proto.code, {}, {}, { start }
  inside[start] = true
  local function leave(from, to, by_jump)
    local name = code[to].name
    if takes_many[name] or passes[name] or only_returns(code, to) or inside[to] then
      if not inside[to] then
        inside[to] = true
        work[#work + 1] = to
      end
    else
      exits[#exits + 1] = { from, to, by_jump }
    end
  end
  while #work > 0 do
    local at = work[#work]
    work[#work] = nil
    local ins, behind = code[at], flow[at].behind
    if behind[2] == at + 2 then -- a condition, and its jump
      inside[at + 1] = true
      leave(at + 1, code[at + 1].target, true)
      leave(at, at + 2, false)
    else
      for _, to in ipairs(behind) do leave(at, to, to ~= at + 1 or ins.name == "JMP" or ins.name == "UCLO") end
    end
  end
  return exits
end

local walks = ipairs {} -- what a loop over ipairs(t) calls each turn
local constants = { KPRI = true, KSHORT = true, KNUM = true, KSTR = true }

--- What stands between a position and the exits behind it, for a link. Nil: more than a link can do.
---@param proto tycho.Prototype
---@param start integer
---@param exits integer[]
---@param handed integer|nil the number of the exit that begins with the call that takes all results of the one at the
---position
---@param carries boolean|nil a function is carried behind the registers: it lies in the last one meanwhile
---@return integer|nil width registers that it needs
---@return table[]? steps {op, next, a, other, args, nargs, nresults}, see lua_link.c; next and other count from 0
---@return any[]? constants by their positions, which their steps have as args
---@return integer? n of them
function M.steps(proto, start, exits, handed, carries)
  local code, steps, known, number, values, n_values, walk = proto.code, {}, {}, {}, {}, 0, nil
  local _, width = flows.live_before(proto.flow, start)
  local carried = {} -- steps that take what is carried from where it lies
  if proto.vararg then return nil end
  for k, to in ipairs(exits) do number[to] = k end
  local function put(step)
    steps[#steps + 1] = step
    return step
  end
  local function put_constant(a, v)
    n_values = n_values + 1
    values[n_values] = v
    put { op = "constant", next = #steps + 1, a = a, args = n_values }
  end
  --- Puts what is carried behind n registers. Gives how many these are then.
  local function carry(n)
    if not carries then return n end
    carried[#carried + 1] = put { op = "move", next = #steps + 1, a = n + 1 }
    width = max(width, n + 1)
    return n + 1
  end
  local function leave(to)
    local live, n = flows.live_before(proto.flow, to)
    width = max(width, n)
    for r = 1, n do
      if not live[r] then put_constant(r, nil) end
    end
    local given = carry(n)
    put { op = "exit", a = number[to], nargs = given }
  end
  local taker = code[M.taker(proto, start)]
  local is_handed = taker and (handed or taker.name == "RETM")
  --- The call gives one result, which is handed on, behind the registers, or returned behind others.
  local function hand_on(step)
    step.op, step.nresults = "one", 1
    width = max(width, step.a)
    if taker.name == "RETM" then
      put { op = "return", a = taker.a, nargs = taker.d + 1 }
      return
    end
    local live, n = live_beside(proto, start)
    for r = 1, n do
      if not live[r] then put_constant(r, nil) end
    end
    local behind = carries and n + 2 or n + 1
    if step.a ~= behind then put { op = "move", next = #steps + 1, a = behind, args = step.a } end
    width = max(width, behind)
    carry(n)
    put { op = "exit", a = handed, nargs = behind }
  end
  local visit
  --- What follows an instruction that changes registers: nothing that Lua would have to do from the beginning.
  local function visit_changed(at)
    local to, from_start = visit(at)
    return not from_start and to or nil
  end
  --- The step for an instruction; whether Lua may have to do all of it, from the start.
  function visit(at)
    local ins, i = code[at], #steps
    local name = ins.name
    if known[at] then return known[at][1], known[at][2] end
    known[at] = { i, true }
    local from_start = false
    if number[at] then
      leave(at)
    elseif name == "JMP" or name == "LOOP" then
      i, from_start = visit(name == "JMP" and ins.target or at + 1)
    elseif name == "FORL" then
      local step = put { op = "for", a = ins.a }
      width = max(width, ins.a + 3)
      step.next = visit_changed(ins.target)
      if not step.next then return nil end
      step.other, from_start = visit(at + 1)
      if not step.other then return nil end
    elseif name == "ITERC" and walk ~= at and (walk or code[at + 1].target > start or at < start) then
      put { op = "native" } -- one walk, around the start: the link looks at what walks before it begins
      from_start = true
    elseif name == "ITERC" then
      n_values, walk = n_values + 1, at
      values[n_values] = walks
      local step = put { op = "walk", a = ins.a, args = n_values, nresults = ins.b - 1 }
      width = max(width, ins.a + ins.b - 2)
      step.next = visit_changed(code[at + 1].target)
      if not step.next then return nil end
      step.other, from_start = visit(at + 2)
      if not step.other then return nil end
    elseif at == start and (name == "CALL" and (ins.b > 0 or is_handed) or name == "CALLT") then
      local tail = name == "CALLT"
      local step = put { op = "call", a = ins.a, args = ins.a + proto.fr2 + 1, nargs = (tail and ins.d or ins.c) - 1,
        nresults = tail and -1 or ins.b - 1 }
      width = max(width, ins.a + step.nresults - 1)
      if name == "CALL" and ins.b == 0 then
        step.next = #steps
        hand_on(step)
      elseif tail then
        step.next = #steps
        put { op = "return", nargs = -1 }
      else
        step.next = visit_changed(at + 1)
      end
      if not step.next then return nil end
    elseif at == start and name == "TGETV" then
      local step = put { op = "index", a = ins.a, args = ins.b, nargs = ins.c }
      width = max(width, ins.a)
      step.next = visit_changed(at + 1)
      if not step.next then return nil end
    elseif name == "RET" or name == "RET0" or name == "RET1" then
      put { op = "return", a = ins.a, nargs = ins.d - 1 }
    elseif name == "MOV" or constants[name] then
      width = max(width, ins.a)
      if name == "MOV" then
        put { op = "move", next = #steps + 1, a = ins.a, args = ins.d }
      else
        put_constant(ins.a, ins.k)
      end
      local step = steps[#steps]
      step.next = visit_changed(at + 1)
      if not step.next then return nil end
    else
      put { op = "native" }
      from_start = true
    end
    known[at] = { i, from_start }
    return i, from_start
  end
  if carries then width = width + 1 end -- as it is given
  if not visit(start) then return nil end
  if carries then width = width + 1 end
  for _, step in ipairs(carried) do step.args = width end
  return width, steps, values, n_values
end

-- Functions -----------------------------------------------------------------------------------------------------------

--- Lets a function that goes on in the middle of f share f's variables, and its globals.
M.share = edit.share

--- Whether a function's globals are still those of f.
function M.has_globals(f, g) return get_env(f) == get_env(g) end

--- Gives f the globals that what went on in its middle was given.
function M.give_globals(f, g) set_env(f, get_env(g)) end

--- How many registers what goes on at a position is given.
function M.registers(proto, at) return (select(2, flows.live_before(proto.flow, at))) end

--- The globals of a function.
M.globals = get_env

--- An upvalue of a function.
function M.upvalue(f, i) return (select(2, get_upvalue(f, i))) end

M.set_upvalue = set_upvalue

--- The dump of a function, a text that its prototype has alone; nil: it is not known.
function M.code(f)
  local proto = bytecode.prototype(f)
  return proto and bytecode.dump(proto)
end

--- The dumps of the functions that a prototype makes: a set.
function M.inside(proto)
  local set = {}
  local function add(of)
    for _, child in ipairs(of.children) do
      set[bytecode.dump(child)] = true
      add(child)
    end
  end
  add(proto)
  return set
end

--- The variables of the closure that an instruction makes which are those of the function it is made in: pairs of
--- numbers, its own and that function's, as bytes.
function M.shared(proto, at)
  local list = {}
  for k, u in ipairs(proto.code[at].k.upvalues) do
    if not u.is_local then list[#list + 1] = char(k, u.index) end
  end
  return concat(list)
end

--- What makes functions of a prototype whose last n upvalues are new ones.
function M.opener(f, proto, n)
  return build(f, proto, split(proto), 0, true, n)
end

--- A function like f that shares nothing with it.
function M.copy(f, proto)
  local g = load_dump(bytecode.dump(proto))
  lay_out(proto, f, g)
  return g
end

--- Whether functions that go on in the middle of f can be made.
---@param f function
---@return tycho.Prototype|nil
---@return string? reason
function M.ready(f)
  if not (join and get_upvalue and set_upvalue and get_env and set_env and compile) then
    return nil, "this host has no debug library"
  end
  local proto, why = bytecode.prototype(f)
  if not proto then return nil, why end
  if not flows.of(proto) then return nil, "an instruction is not known" end
  local ok, source = internals.undisturbed(dump, f)
  if not ok then return error("not enough memory", 0) end -- it has a dump
  if not lay_out(proto, f, load_dump(source)) then
    return nil, "a table that it makes would be laid out otherwise"
  end
  edit.ready()
  return proto
end

--- The registers that are live before a position, but for those that are handed.
function M.live(proto, at)
  local first = M.handed(proto, at)
  if first then return (live_below(proto, at, first)) end
  return (flows.live_before(proto.flow, at))
end

--- Whether the instruction is a call whose function stands in its first register.
function M.calls(proto, at)
  local name = proto.code[at].name
  return name == "CALL" or name == "CALLM" or name == "CALLT" or name == "CALLMT"
end

--- Whether the instruction's values are handed to a call, which is then run natively, too.
function M.hands_on(proto, at)
  local behind = proto.code[at + 1]
  return behind ~= nil and behind.name == "CALLM"
end

--- Where LuaJIT tells integers from doubles, the three numbers of a loop are all of one kind, but registers may come as
--- either. FORI sees to that for the loops around a position that go on; the variable keeps its value.
local function counters(proto, at, live, spare)
  local list = {}
  for q, ins in ipairs(HAS_INTEGERS and proto.code or list) do
    local a = ins.a
    if ins.name == "FORL" and ins.target <= at and at <= q and live[a] and live[a + 1] and live[a + 2] then
      list[#list + 1] = two("MOV", spare, a + 2)
      list[#list + 1] = two("FORI", a - 1, 32768)
      list[#list + 1] = two("MOV", a + 2, spare)
    end
  end
  return list
end

--- f from behind a call on, given the registers 1 to n and all that the call has given.
---@param f function
---@param proto tycho.Prototype
---@param at integer of the call, of which there is a function that runs it natively
---@param made_anew boolean|nil then what makes it, and what is carried comes behind the registers
---@return function
---@return integer n
---@return integer shift so many instructions are put before the code
function M.rest_handed(f, proto, at, made_anew)
  local live, n = live_beside(proto, at)
  local p, given = split(proto), made_anew and n + 1 or n
  local head = counters(proto, at, live, given)
  local shift = #head + 2
  p.flags, p.params, p.framesize = p.flags + VARARG, given, max(p.framesize, given + 1)
  not_for_traces(p)
  walk_by_key(proto, p, at)
  local line, code, lines = p.lines[at + 1], p.code, p.lines
  p.code, p.lines = {}, {}
  head[shift - 1] = three("VARG", proto.code[at].a - 1, 0, given)
  head[shift] = jump(shift, at + 1 + shift, ANY)
  append(p, head, line)
  for i, ins in ipairs(code) do p.code[shift + i], p.lines[shift + i] = ins, lines[i] end
  if p.debug_size > 0 then p.variables = moved(p.variables, shift) end
  return build(f, proto, p, 0, made_anew), n, shift
end

--- f from a position on, given the registers 1 to n, of which those that are live there count.
---@param f function
---@param proto tycho.Prototype
---@param at integer
---@param made_anew boolean|nil then what makes it, and what is carried comes behind the registers
---@return function|nil
---@return integer|string n
---@return integer? shift so many instructions are put before the code
function M.rest(f, proto, at, made_anew)
  local live, n = flows.live_before(proto.flow, at)
  local p, given = split(proto), made_anew and n + 1 or n
  local head = counters(proto, at, live, given)
  local shift = #head + 1
  if shift > 1 then not_for_traces(p) end -- what LuaJIT records of FORI forgets the registers behind
  if n > MOST_REGISTERS then return nil, "too many values are in use" end
  set_params(proto, p, given)
  p.framesize = max(p.framesize, given + 1)
  walk_by_key(proto, p, at)
  head[shift] = jump(shift, at + shift, given)
  local line = p.lines[at]
  for i = shift, 1, -1 do
    insert(p.code, 1, head[i])
    if p.debug_size > 0 then insert(p.lines, 1, line) end
  end
  if p.debug_size > 0 then p.variables = moved(p.variables, shift) end
  return build(f, proto, p, 0, made_anew), n, shift
end

--- The arguments of the call at a position that may be functions which it calls: their first register, how many.
local function looked_at(proto, at)
  local ins = proto.code[at]
  local first = ins.a + proto.fr2 + 1
  if M.handed(proto, at) then return first, 0 end
  local n = ins.name == "CALL" and ins.c - 1 or ins.name == "CALLT" and ins.d - 1 or ins.name == "CALLM" and ins.c or
    ins.d
  return first, max(0, min(n, LOOKED_AT))
end

--- What runs natively from a position on, given the registers 1 to n, and behind them what it is handed; behind it
--- rest(position) goes on.
---@param f function
---@param proto tycho.Prototype
---@param at integer
---@param inside boolean whether the call at the position holds the reason
---@param prepare function|nil what is called takes the place of the first result of prepare(what is called, its first
---arguments): at the position, if inside, and by what takes all results of the call there, if one does; the arguments
---take that of the others
---@param rest fun(at: integer, put: fun(f: function)): function what takes over at a position, asked for when it is
---first come to; put(f) makes it another function
---@param made_anew boolean|nil then what makes it, and what is carried comes behind the registers
---@return function|nil
---@return integer|string n
---@return integer[]? exits positions behind it
function M.native(f, proto, at, inside, prepare, rest, made_anew)
  local flow, p = proto.flow, split(proto)
  if proto.code[at].name == "FNEW" then return nil, "its variables would stay behind" end
  local first = M.handed(proto, at)
  local live_here, n = flows.live_before(flow, at)
  if first then live_here, n = live_below(proto, at, first) end
  local exits, tops, list = region_of(proto, flow, at), {}, {}
  local given = made_anew and n + 1 or n
  local head = counters(proto, at, live_here, given)
  local widest = given + 3
  for _, e in ipairs(exits) do
    if not tops[e[2]] then
      local live, top = flows.live_before(flow, e[2])
      tops[e[2]] = { live = live, top = top }
      list[#list + 1] = e[2]
      widest = max(widest, 2 * top + 3)
    end
  end
  local added = #list + (prepare and 1 or 0) + (made_anew and 1 or 0)
  if prepare then widest = max(widest, given + LOOKED_AT + 3) end
  if widest > MOST_REGISTERS or p.n_upvalues + added > MOST_UPVALUES then return nil, "too many values are in use" end
  set_params(proto, p, given)
  p.framesize = max(p.framesize, widest + proto.fr2)
  not_for_traces(p)
  walk_by_key(proto, p, at)
  local line = p.lines[at]
  local function prepare_call(a, argument, k)
    head[#head + 1] = two("UGET", given, p.n_upvalues + #list)
    head[#head + 1] = two("MOV", given + 1 + proto.fr2, a - 1)
    for j = 1, k do head[#head + 1] = two("MOV", given + 1 + proto.fr2 + j, argument + j - 2) end
    head[#head + 1] = three("CALL", given, k + 2, k + 2)
    head[#head + 1] = two("MOV", a - 1, given)
    for j = 1, k do head[#head + 1] = two("MOV", argument + j - 2, given + j) end
  end
  local taker = prepare and M.taker_calls(proto, at)
  if taker then prepare_call(taker, 0, 0) end
  if prepare and inside then prepare_call(proto.code[at].a, looked_at(proto, at)) end
  if first then
    p.flags = p.flags + VARARG
    head[#head + 1] = three("VARG", first - 1, 0, given)
  end
  local before = #head + 1
  head[before] = jump(before, at + before, first and ANY or given)
  local code, lines = p.code, p.lines
  p.code, p.lines = {}, {}
  append(p, head, line)
  for i, ins in ipairs(code) do
    p.code[before + i] = ins
    p.lines[before + i] = lines[i]
  end
  for k, to in ipairs(list) do
    tops[to].stub = #p.code + 1
    append(p, exit_call(proto, p.n_upvalues + k - 1, tops[to].live, tops[to].top, given,
      made_anew and p.n_upvalues + added - 1), lines[to])
  end
  for _, e in ipairs(exits) do
    local from, to = e[1], tops[e[2]]
    local loop = proto.code[from].name == "LOOP" -- does nothing
    local place = before + ((e[3] or loop) and from or e[2])
    local changed = e[3] and p.code[place] or jump(place, to.stub, to.top)
    local d = to.stub - place - 1 + 32768
    changed[3], changed[4] = d % 256, floor(d / 256)
    p.code[place] = changed
  end
  if p.debug_size > 0 then p.variables = moved(p.variables, before) end
  local g = build(f, proto, p, added, made_anew, 1)
  for k, to in ipairs(list) do
    local function put(on) set_upvalue(g, p.n_upvalues + k, on) end
    put(function(...)
      local on = rest(to, put)
      put(on)
      return on(...)
    end)
  end
  if prepare then set_upvalue(g, p.n_upvalues + #list + 1, prepare) end
  return g, n, list
end

--- A function that makes the closure of f which an instruction makes, of the values of its variables: so many registers
--- of f, in their places. Nil where it shares a variable that may be assigned later.
---@param f function
---@param proto tycho.Prototype
---@param at integer of FNEW
---@return function|nil
---@return table<integer, boolean> taken registers
---@return integer n
function M.maker(f, proto, at)
  local ins, p, taken, n = proto.code[at], split(proto), {}, 0
  for _, u in ipairs(ins.k.upvalues) do
    if u.is_local and not u.immutable then return nil, taken, 0 end
    if u.is_local and u.index ~= ins.a then -- else it is the closure itself
      taken[u.index] = true
      n = max(n, u.index)
    end
  end
  set_params(proto, p, n)
  not_for_traces(p)
  local made, line = p.code[at], p.lines[at]
  p.code, p.lines = {}, {}
  append(p, { made, two("UCLO", 0, 32768), two("RET1", ins.a - 1, 2) }, line)
  return build(f, proto, p, 0), taken, n
end

--- A function that makes a closure, which an instruction of `parent` makes, of the values of its variables. upvalues:
--- by number what each is: an argument's number, {function, number} of a variable that it shares, or true: the closure
--- itself. f: a function whose globals it has; like: what bytecode.constant gives for the closure's prototype.
---@param parent tycho.Prototype
---@param at integer of FNEW
---@param upvalues table
---@param n integer arguments
---@param f function
---@param like any
---@return function|nil
function M.maker_of(parent, at, upvalues, n, f, like)
  local child, list, shared = parent.code[at].k, {}, {}
  if not M.ready(f) or n + 2 > MOST_REGISTERS then return nil end
  for k, u in ipairs(child.upvalues) do
    local what, flags = upvalues[k], u.immutable and 192 or 128
    if type(what) == "table" then
      shared[#shared + 1], what, flags = what, #shared + 1, u.immutable and 64 or 0
    end
    list[k] = char(what == true and n or what - 1, flags)
  end
  local p = split(parent)
  local made, line = p.code[at], p.lines[at]
  set_params(parent, p, n)
  not_for_traces(p)
  p.framesize = max(p.framesize, n + 2 + parent.fr2)
  p.n_upvalues, p.upvalues, p.code, p.lines = #shared, rep("\0\128", #shared), {}, {}
  if p.debug_size > 0 then p.names = rep("(variable)\0", #shared) end
  append(p, { { made[1], n, made[3], made[4] }, two("UCLO", 0, 32768), two("RET1", n, 2) }, line)
  local g = load_dump(joined(parent, p, 0, edit.with_upvalues(parent, child, concat(list))))
  for k, what in ipairs(shared) do join(g, k, what[1], what[2]) end
  set_env(g, get_env(f))
  if not lay_out(child, like, bytecode.constant(g, parent.code[at].d)) then return nil end
  return g
end

return M
