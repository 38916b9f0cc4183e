--- evaluate.lua -- runs Lua functions instruction by instruction, with a shadow beside each value.
-- In: a world (what reading, writing, arithmetic and calls mean), a function, its arguments and their shadows.
-- Out: results and shadows. Fails by world:abort, which raises. What Lua itself would raise is the world's to say: one
-- that captures aborts, since the native run that follows raises the natural text; one that stands for Lua raises it.
--
-- A frame holds registers twice: R the values, S the shadows; both from 1, as bytecode.lua counts. A shadow of nil says
-- that the value is known. Everything else about shadows is the world's; here they only travel with their values.
--
-- Rules.
-- 1. What an instruction does is the LuaJIT interpreter's doing: its order of evaluation, its unordered comparisons
--    (ISGE is "not less", ISGT "not less or equal"), its numeric loops.
-- 2. A handler takes (instruction, R, S, frame, world). It returns nothing to go on, or the position to go on at;
--    LEAVE ends the frame, SWITCH says that a tail call has put another function into it, ENTER that the frame above it
--    is to run, YIELD that the stack of a coroutine stays as it is (threads.lua). So calls take none of LuaJIT's stack,
--    unless a native function or a metamethod stands between.
-- 3. Roads that do not ask the world (numbers, strings and truth of known values) give what the world would give.
-- 4. Frames lie in a stack and are used again (frames.lua). Results stay in the callee's registers until the caller has
--    copied them.
-- 5. A closure made here is virtual: the world gives a placeholder for it. Its upvalues are cells. An open cell points
--    at a frame's registers, UCLO gives it a place of its own: as in Lua, so each turn of a loop has its variables.
-- 6. The depth of the stack is set right by whoever runs after a call, so errors that the world catches need no care.
-- 7. LuaJIT must not compile handlers: captures are short, and their LuaJIT traces would push out the user's.

local bytecode = require "tycho.capture.bytecode"
local frames = require "tycho.capture.frames"
local constructors = require "tycho.capture.constructors"
local operators = require "tycho.capture.operators"

local M = {
  where = frames.where, site = frames.site, level = frames.level, position = frames.position, forget = frames.forget,
}

local next_frame, take_results, clear, close_cells = frames.next, frames.take_results, frames.clear, frames.close_cells

local gmatch, upper = string.gmatch, string.upper
local type, floor, concat, ipairs = type, math.floor, table.concat, ipairs

if jit and jit.off then jit.off(true, true) end

local LEAVE, SWITCH, ENTER, YIELD = 0, -1, -2, -3
local STACK = 65500 -- slots that a native stack has at most

---@class tycho.Cell an upvalue of a virtual closure: a register, or an upvalue of an outside function
---@field values? table
---@field shadows? table
---@field index integer
---@field fn? function the outside function whose upvalue it is
---@field fs? table

local handlers = {}

--- What the instructions do, by opcode name; for specs, which count and replace them before a function is first run.
M.handlers = handlers

local LOOK = 500 -- instructions from one look at the clock to the next, where the world wants any

--- kind: see World:abort of the capture.
local function spend(world, n, kind)
  local left = world.steps_left - n
  world.steps_left = left
  if left >= (world.next_look or 0) then return end
  if left < 0 then
    world:abort("it takes more steps than a capture may", "jit.warmup(f, ...) has no such bound", kind)
  end
  world.next_look = left > LOOK and left - LOOK or 0
  world:look_at_clock()
end

-- Frames and calls -------------------------------------------------------------------------------------------------

local comparison = {}
for name in gmatch("ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP ISTC ISFC IST ISF", "%S+") do
  comparison[name] = true
end

local function nothing() end

--- Gives each instruction its handler and what the handler would otherwise compute each time.
local function link(proto)
  local code = proto.code
  constructors.link(proto)
  for position, i in ipairs(code) do
    local name = i.name
    i.run = handlers[name]
    if comparison[name] then -- the jump that follows belongs to it
      i.target, i.skip = code[position + 1].target, position + 2
    elseif name == "LOOP" then -- a label that is jumped back to has no end of the loop
      i.cost = i.target > position and i.target - position or #code - position
    elseif name == "FORI" and i.target == position + 1 then
      i.run = nothing -- continuation.lua's: of one kind or the other, numbers are what they are
    elseif name == "FORL" or name == "ITERL" then
      i.cost = position - i.target + 1
    elseif name == "TSETM" then
      i.first = i.k - 2 ^ 52
    end
    i.args = i.a and i.a + proto.fr2 -- where arguments of a call begin, less one
  end
  proto.own = frames.is_own(proto)
  proto.linked = true
end

--- What is called when f is: a function, and the number of arguments in R. f itself becomes the first one where a
--- metamethod is called.
local function callee(world, R, S, f, fs, n, caller)
  if type(f) ~= "function" then
    local h, hs = world:metamethod(f, fs, "__call")
    if type(h) ~= "function" then world:cannot_call(f, caller) end
    for k = n, 1, -1 do R[k + 1], S[k + 1] = R[k], S[k] end
    R[1], S[1] = f, fs
    f, fs, n = h, hs, n + 1
  end
  if fs ~= nil then world:pin(f, fs) end
  return f, fs, n
end

--- The prototype to evaluate for f, and the closure record of a virtual f; nil when f runs natively.
local function prototype_of(world, R, S, f, n)
  local closure = world:closure_of(f)
  if closure then
    local proto = closure.proto
    if proto.refused then world:abort("a function cannot be evaluated: " .. proto.refused) end
    return proto, closure
  end
  local proto, reason, native = bytecode.prototype(f)
  if not proto then
    if native then return nil end
    world:abort("a function cannot be evaluated: " .. reason)
  elseif world:prefers_native(f, R, S, n) then
    return nil
  end
  return proto
end

--- Puts a function into a frame whose first n registers hold the arguments.
local function start(world, frame, f, fs, n, proto, closure)
  if not proto.linked then link(proto) end
  local R, S, params = frame.R, frame.S, proto.params
  frame.proto, frame.code, frame.fn, frame.fs = proto, proto.code, f, fs
  if closure then
    frame.cells, frame.env, frame.envs, frame.owner = closure.cells, closure.env, closure.envs, closure.owner
    frame.root = closure.root
  else
    frame.cells, frame.env, frame.envs, frame.owner = nil, nil, nil, f
    frame.root = f
  end
  frame.turns = 0
  for k = n + 1, params do R[k], S[k] = nil, nil end
  if proto.vararg then
    local extra, extra_shadows = {}, {}
    for k = 1, n - params do extra[k], extra_shadows[k] = R[params + k], S[params + k] end
    frame.extra, frame.extra_shadows, frame.n_extra = extra, extra_shadows, n > params and n - params or 0
  end
  if world.exact then -- as much stack as natively
    local below = world.stack[frame.depth - 1]
    frame.top = (below and below.top or 0) + proto.framesize + (proto.vararg and n + 2 or 2)
    if frame.top > STACK then world:too_deep() end
  end
  spend(world, #proto.code, "unknown") -- what is called may set its caller's globals
end

--- Whether the function is left before the instruction: always, or in that turn of its loops.
local function is_cut(cut, frame) return cut == true or cut == frame.turns end

--- Runs the function in a frame, and those that it calls. Its results are then in frame.out and frame.out_shadows,
--- frame.count from frame.first. True: it was left where the world wants so, or yields; what there is stands in the
--- registers. top, at: it goes on in that frame, which it called, at that position.
local function execute(world, base, top, at)
  local stack, exact, frame = world.stack, world.exact, top or base
  local code, R, S = frame.code, frame.R, frame.S
  local cuts = frame.depth == 1 and not stack.of_thread and world.cuts
  at = at or 1
  while true do
    repeat
      local i = code[at]
      frame.at = at
      if cuts and frame == base and is_cut(cuts[at], frame) then return true end
      at = i.run(i, R, S, frame, world) or at + 1
    until at <= LEAVE
    if at == LEAVE then
      if frame == base then return end
      local depth, left = frame.depth - 1, frame
      frame = stack[depth]
      stack.depth = depth
      code, R, S, at = frame.code, frame.R, frame.S, frame.at
      local i = code[at]
      take_results(left, R, S, i.a, i.b - 1, frame) -- all instructions that call have these operands
      if exact then clear(left) end
      at = at + 1
    elseif at == YIELD then
      return true
    else
      if at == ENTER then frame = stack[stack.depth] elseif frame == base then cuts = false end
      code, R, S, at = frame.code, frame.R, frame.S, 1
    end
  end
end

--- Calls a native function with the n values in R; its results become those of `frame`.
--- caller: "lua", "native", "metamethod" (what called it), site: the calling frame. Both are for M.position.
local function native(world, frame, R, S, f, fs, n, caller, site)
  local stack, args, shadows = world.stack, {}, {}
  for k = 1, n do args[k], shadows[k] = R[k], S[k] end
  local outer = stack.native
  stack.caller, stack.site, stack.native = caller, site, stack.depth
  local results, result_shadows, count = world:native(f, fs, args, shadows, n)
  stack.native = outer
  frame.out, frame.out_shadows, frame.first, frame.count = results, result_shadows, 1, count
end

--- Calls f for the world with the n values in the registers of `frame`, which lies above the caller's, to its end.
local function invoke(world, frame, f, fs, n, caller)
  local stack, R, S, depth = world.stack, frame.R, frame.S, frame.depth
  f, fs, n = callee(world, R, S, f, fs, n, caller)
  local proto, closure = prototype_of(world, R, S, f, n)
  if proto then
    start(world, frame, f, fs, n, proto, closure)
    stack.depth = depth
    frame.caller = caller
    execute(world, frame)
  else
    stack.direct = false
    native(world, frame, R, S, f, fs, n, caller, stack[depth - 1])
  end
  stack.depth = depth - 1
end

--- An instruction calls R[fn] with n arguments from R[first]: the frame above takes them.
local function call(i, R, S, frame, world, fn, first, n)
  local above = next_frame(world)
  local to, to_shadows = above.R, above.S
  for k = 1, n do to[k], to_shadows[k] = R[first + k - 1], S[first + k - 1] end
  local f, fs = R[fn], S[fn]
  f, fs, n = callee(world, to, to_shadows, f, fs, n, "lua")
  local proto, closure = prototype_of(world, to, to_shadows, f, n)
  local stack, depth = world.stack, above.depth
  if proto then
    start(world, above, f, fs, n, proto, closure)
    stack.depth = depth
    above.caller = "lua"
    return ENTER
  end
  stack.direct = true
  native(world, above, to, to_shadows, f, fs, n, "lua", frame)
  stack.depth = depth - 1
  if stack.yielded then return YIELD end
  take_results(above, R, S, i.a, i.b - 1, frame)
  if world.exact then clear(above) end
end

--- A call takes the frame of the function that makes it. n arguments begin after i.args.
local function tail_call(i, R, S, frame, world, n)
  local f, fs = R[i.a], S[i.a]
  local shift = i.args
  for k = 1, n do R[k], S[k] = R[k + shift], S[k + shift] end -- downward, and all cells are closed
  f, fs, n = callee(world, R, S, f, fs, n, "lua")
  local proto, closure = prototype_of(world, R, S, f, n)
  local stack, depth = world.stack, frame.depth
  if proto then
    if depth == 1 and not stack.left then stack.left = { at = frame.at, turns = frame.turns } end
    start(world, frame, f, fs, n, proto, closure)
    return SWITCH
  end
  if world.exact then stack.depth = depth - 1 end -- else where() is to tell the place of the call
  stack.direct = true
  native(world, frame, R, S, f, fs, n, frame.caller, stack[depth - 1])
  stack.depth = depth
  return stack.yielded and YIELD or LEAVE
end

function handlers.CALL(i, R, S, frame, world) return call(i, R, S, frame, world, i.a, i.args + 1, i.c - 1) end

function handlers.CALLM(i, R, S, frame, world)
  return call(i, R, S, frame, world, i.a, i.args + 1, i.c + frame.multi)
end

function handlers.CALLT(i, R, S, frame, world) return tail_call(i, R, S, frame, world, i.d - 1) end

function handlers.CALLMT(i, R, S, frame, world) return tail_call(i, R, S, frame, world, i.d + frame.multi) end

--- The generic for: the three registers before a are the iterator, its state and the control variable.
function handlers.ITERC(i, R, S, frame, world) return call(i, R, S, frame, world, i.a - 3, i.a - 2, 2) end

handlers.ITERN = handlers.ITERC -- natively quicker where the iterator is next

function handlers.ISNEXT(i) return i.target end -- natively decides between ITERN and ITERC

local function leave(R, S, frame, first, count)
  frame.out, frame.out_shadows, frame.first, frame.count = R, S, first, count
  return LEAVE
end

function handlers.RET0(_, R, S, frame) return leave(R, S, frame, 1, 0) end

function handlers.RET1(i, R, S, frame) return leave(R, S, frame, i.a, 1) end

function handlers.RET(i, R, S, frame) return leave(R, S, frame, i.a, i.d - 1) end

function handlers.RETM(i, R, S, frame) return leave(R, S, frame, i.a, i.d + frame.multi) end

function handlers.VARG(i, R, S, frame)
  local a, wanted, extra, extra_shadows = i.a, i.b - 1, frame.extra, frame.extra_shadows
  if wanted < 0 then
    wanted = frame.n_extra
    frame.multi = wanted
  end
  for k = 1, wanted do R[a + k - 1], S[a + k - 1] = extra[k], extra_shadows[k] end
end

-- Moves and constants ----------------------------------------------------------------------------------------------

function handlers.MOV(i, R, S)
  local a, d = i.a, i.d
  R[a], S[a] = R[d], S[d]
end

function handlers.KSTR(i, R, S)
  local a = i.a
  R[a], S[a] = i.k, nil
end

handlers.KSHORT, handlers.KNUM, handlers.KPRI = handlers.KSTR, handlers.KSTR, handlers.KSTR

function handlers.KCDATA(i, R, S, _, world)
  local a = i.a
  R[a], S[a] = world:cdata(i.k), nil
end

function handlers.KNIL(i, R, S)
  for k = i.a, i.d do R[k], S[k] = nil, nil end
end

-- Upvalues and closures --------------------------------------------------------------------------------------------

local function get_upvalue(frame, world, index)
  local cells = frame.cells
  if not cells then return world:upvalue(frame.fn, frame.fs, index) end
  local cell = cells[index]
  if cell.fn then return world:upvalue(cell.fn, cell.fs, cell.index) end
  index = cell.index
  return cell.values[index], cell.shadows[index]
end

local function set_upvalue(frame, world, index, v, s)
  local cells = frame.cells
  if not cells then return world:set_upvalue(frame.fn, frame.fs, index, v, s) end
  local cell = cells[index]
  if cell.fn then return world:set_upvalue(cell.fn, cell.fs, cell.index, v, s) end
  index = cell.index
  cell.values[index], cell.shadows[index] = v, s
end

function handlers.UGET(i, R, S, frame, world)
  local a = i.a
  R[a], S[a] = get_upvalue(frame, world, i.d)
end

function handlers.USETV(i, R, S, frame, world) set_upvalue(frame, world, i.a, R[i.d], S[i.d]) end

function handlers.USETS(i, _, _, frame, world) set_upvalue(frame, world, i.a, i.k, nil) end

handlers.USETN, handlers.USETP = handlers.USETS, handlers.USETS

--- The cell of a register; closures that share the variable share it.
local function open_cell(frame, register)
  local open = frame.open
  if not open then
    open = {}
    frame.open = open
  end
  local cell = open[register]
  if not cell then
    cell = { values = frame.R, shadows = frame.S, index = register }
    open[register] = cell
  end
  return cell
end

function handlers.UCLO(i, _, _, frame)
  if frame.open then close_cells(frame, i.a) end
  return i.target
end

local function environment(frame, world)
  local env = frame.env
  if env == nil then
    env, frame.envs = world:environment(frame.fn, frame.fs)
    frame.env = env
  end
  return env, frame.envs
end

function handlers.FNEW(i, R, S, frame, world)
  local proto, cells, outer = i.k, {}, frame.cells
  for k, upvalue in ipairs(proto.upvalues) do
    local index = upvalue.index
    if upvalue.is_local then
      cells[k] = open_cell(frame, index)
    else
      cells[k] = outer and outer[index] or { fn = frame.fn, fs = frame.fs, index = index }
    end
  end
  local env, envs
  if proto.globals or world.exact then env, envs = environment(frame, world) end -- else nobody asks for it
  local a = i.a
  R[a], S[a] = world:closure(proto, cells, env, envs, bytecode.constant(frame.owner, i.d), frame, i), nil
end

-- Arithmetic and strings -------------------------------------------------------------------------------------------

--- Both operands are registers.
local function arith_vv(op, compute)
  return function(i, R, S, _, world)
    local a, b, c = i.a, i.b, i.c
    local x, xs, y, ys = R[b], S[b], R[c], S[c]
    if xs == nil and ys == nil and type(x) == "number" and type(y) == "number" then
      R[a], S[a] = compute(x, y), nil
    else
      R[a], S[a] = world:arith(op, x, xs, y, ys)
    end
  end
end

--- The second operand is a constant.
local function arith_vn(op, compute)
  return function(i, R, S, _, world)
    local a, b = i.a, i.b
    local x, xs = R[b], S[b]
    if xs == nil and type(x) == "number" then
      R[a], S[a] = compute(x, i.k), nil
    else
      R[a], S[a] = world:arith(op, x, xs, i.k, nil)
    end
  end
end

--- The first operand is a constant.
local function arith_nv(op, compute)
  return function(i, R, S, _, world)
    local a, b = i.a, i.b
    local y, ys = R[b], S[b]
    if ys == nil and type(y) == "number" then
      R[a], S[a] = compute(i.k, y), nil
    else
      R[a], S[a] = world:arith(op, i.k, nil, y, ys)
    end
  end
end

for op, compute in pairs(operators.compute) do
  local name = upper(op)
  if op == "pow" then
    handlers.POW = arith_vv(op, compute)
  elseif op ~= "unm" then
    handlers[name .. "VV"] = arith_vv(op, compute)
    handlers[name .. "VN"] = arith_vn(op, compute)
    handlers[name .. "NV"] = arith_nv(op, compute)
  end
end

function handlers.UNM(i, R, S, _, world)
  local a, x, xs = i.a, R[i.d], S[i.d]
  if xs == nil and type(x) == "number" then
    R[a], S[a] = -x, nil
  else
    R[a], S[a] = world:arith("unm", x, xs, x, xs)
  end
end

for name in pairs(bytecode.bit_operators) do
  handlers[name] = function(i, R, S, _, world)
    local a, b, c = i.a, i.b or i.d, i.c
    local y, ys = nil, nil
    if c then y, ys = R[c], S[c] end
    R[a], S[a] = world:bits(name, R[b], S[b], y, ys)
  end
end

function handlers.LEN(i, R, S, _, world)
  local a, x, xs = i.a, R[i.d], S[i.d]
  if xs == nil and type(x) == "string" then
    R[a], S[a] = #x, nil
  else
    R[a], S[a] = world:length(x, xs)
  end
end

function handlers.CAT(i, R, S, _, world)
  local a, first, last = i.a, i.b, i.c
  local plain = true
  for k = first, last do
    local t = type(R[k])
    plain = plain and S[k] == nil and (t == "string" or t == "number")
  end
  if plain then
    R[a], S[a] = last == first + 1 and R[first] .. R[last] or concat(R, "", first, last), nil
    return
  end
  local n, values, shadows = last - first + 1, {}, {}
  for k = 1, n do values[k], shadows[k] = R[first + k - 1], S[first + k - 1] end
  R[a], S[a] = world:concat(values, shadows, n)
end

-- Tests: they jump when they hold, and skip the jump that follows them when not --------------------------------------

local function less(x, xs, y, ys, world)
  if xs == nil and ys == nil then
    local t = type(x)
    if t == type(y) and (t == "number" or t == "string") then return x < y end
  end
  return world:less(x, xs, y, ys)
end

local function less_equal(x, xs, y, ys, world)
  if xs == nil and ys == nil then
    local t = type(x)
    if t == type(y) and (t == "number" or t == "string") then return x <= y end
  end
  return world:less_equal(x, xs, y, ys)
end

local no_metamethods = { number = true, string = true, boolean = true, ["nil"] = true, ["function"] = true }

local function equal(x, xs, y, ys, world)
  if xs == nil and ys == nil then
    local t = type(x)
    if t == type(y) then
      if no_metamethods[t] then return x == y end
    elseif t ~= "cdata" and type(y) ~= "cdata" then
      return false
    end
  end
  return world:equal(x, xs, y, ys)
end

local function truth(x, xs, world)
  if xs == nil then return x end
  return world:truth(x, xs)
end

function handlers.ISLT(i, R, S, _, world)
  local a, d = i.a, i.d
  return less(R[a], S[a], R[d], S[d], world) and i.target or i.skip
end

function handlers.ISGE(i, R, S, _, world)
  local a, d = i.a, i.d
  return less(R[a], S[a], R[d], S[d], world) and i.skip or i.target
end

function handlers.ISLE(i, R, S, _, world)
  local a, d = i.a, i.d
  return less_equal(R[a], S[a], R[d], S[d], world) and i.target or i.skip
end

function handlers.ISGT(i, R, S, _, world)
  local a, d = i.a, i.d
  return less_equal(R[a], S[a], R[d], S[d], world) and i.skip or i.target
end

function handlers.ISEQV(i, R, S, _, world)
  local a, d = i.a, i.d
  return equal(R[a], S[a], R[d], S[d], world) and i.target or i.skip
end

function handlers.ISNEV(i, R, S, _, world)
  local a, d = i.a, i.d
  return equal(R[a], S[a], R[d], S[d], world) and i.skip or i.target
end

function handlers.ISEQS(i, R, S, _, world)
  local a = i.a
  return equal(R[a], S[a], i.k, nil, world) and i.target or i.skip
end

function handlers.ISNES(i, R, S, _, world)
  local a = i.a
  return equal(R[a], S[a], i.k, nil, world) and i.skip or i.target
end

handlers.ISEQN, handlers.ISEQP = handlers.ISEQS, handlers.ISEQS
handlers.ISNEN, handlers.ISNEP = handlers.ISNES, handlers.ISNES

function handlers.IST(i, R, S, _, world)
  local d = i.d
  return truth(R[d], S[d], world) and i.target or i.skip
end

function handlers.ISF(i, R, S, _, world)
  local d = i.d
  return truth(R[d], S[d], world) and i.skip or i.target
end

--- These two copy the value when they jump.
function handlers.ISTC(i, R, S, _, world)
  local a, d = i.a, i.d
  if not truth(R[d], S[d], world) then return i.skip end
  R[a], S[a] = R[d], S[d]
  return i.target
end

function handlers.ISFC(i, R, S, _, world)
  local a, d = i.a, i.d
  if truth(R[d], S[d], world) then return i.skip end
  R[a], S[a] = R[d], S[d]
  return i.target
end

function handlers.NOT(i, R, S, _, world)
  local a, d = i.a, i.d
  R[a], S[a] = not truth(R[d], S[d], world), nil
end

-- Tables -----------------------------------------------------------------------------------------------------------

function handlers.GGET(i, R, S, frame, world)
  local a, env, envs = i.a, environment(frame, world)
  R[a], S[a] = world:index(env, envs, i.k, nil)
end

function handlers.GSET(i, R, S, frame, world)
  local a, env, envs = i.a, environment(frame, world)
  world:newindex(env, envs, i.k, nil, R[a], S[a])
end

function handlers.TGETV(i, R, S, _, world)
  local a, b, c = i.a, i.b, i.c
  R[a], S[a] = world:index(R[b], S[b], R[c], S[c])
end

function handlers.TGETS(i, R, S, _, world)
  local a, b = i.a, i.b
  R[a], S[a] = world:index(R[b], S[b], i.k, nil)
end

function handlers.TGETB(i, R, S, _, world)
  local a, b = i.a, i.b
  R[a], S[a] = world:index(R[b], S[b], i.c, nil)
end

function handlers.TSETV(i, R, S, _, world)
  local a, b, c = i.a, i.b, i.c
  world:newindex(R[b], S[b], R[c], S[c], R[a], S[a])
end

function handlers.TSETS(i, R, S, _, world)
  local a, b = i.a, i.b
  world:newindex(R[b], S[b], i.k, nil, R[a], S[a])
end

function handlers.TSETB(i, R, S, _, world)
  local a, b = i.a, i.b
  world:newindex(R[b], S[b], i.c, nil, R[a], S[a])
end

--- The end of a constructor: several values from a on go to the table before them.
function handlers.TSETM(i, R, S, frame, world)
  local a, first, n = i.a, i.first, frame.multi
  if n == 0 then return end
  local t = world:make_room(R[a - 1], first + n)
  R[a - 1] = t
  for k = 0, n - 1 do world:newindex(t, nil, first + k, nil, R[a + k], S[a + k]) end
end

function handlers.TNEW(i, R, S, _, world)
  local a = i.a
  R[a], S[a] = world:new_table(i.n_array, i.n_hash), nil
end

function handlers.TDUP(i, R, S, frame, world)
  local a = i.a
  R[a], S[a] = world:duplicate(i.k, bytecode.constant(frame.owner, i.d)), nil
end

-- Loops ------------------------------------------------------------------------------------------------------------

function handlers.JMP(i) return i.target end

function handlers.LOOP(i, _, _, frame, world)
  frame.turns = frame.turns + 1
  spend(world, i.cost)
end

local function for_operand(R, S, k, world, what)
  local v, s = R[k], S[k]
  if s ~= nil or type(v) ~= "number" then v = world:tonumber_for(v, s, what) end
  R[k], S[k] = v, nil
  return v
end

--- Whether a loop at this index has another turn. With a step of 0, -0 or NaN that depends on its sign.
local function goes_on(index, limit, step, world)
  if step > 0 then return index <= limit end
  if step < 0 then return index >= limit end
  return world:goes_on(index, limit, step)
end

--- The index as LuaJIT would count, and the step: what a loop counts in depends on all three.
local function as_counted(index, limit, step)
  local first = index
  for i = index, limit, step do -- luacheck: ignore
    first = i
    break
  end
  return first, step ~= 0 and floor(step) == step and operators.integer(step) or step
end

--- Registers from a: index, limit, step, and the variable that the body sees.
function handlers.FORI(i, R, S, _, world)
  local a = i.a
  local index = for_operand(R, S, a, world, "initial value")
  local limit = for_operand(R, S, a + 1, world, "limit")
  local step = for_operand(R, S, a + 2, world, "step")
  if operators.HAS_INTEGERS then
    index, step = as_counted(index, limit, step)
    R[a], R[a + 2] = index, step
  end
  R[a + 3], S[a + 3] = index, nil
  if not goes_on(index, limit, step, world) then return i.target end
end

function handlers.FORL(i, R, S, frame, world)
  local a = i.a
  frame.turns = frame.turns + 1
  local limit, step = R[a + 1], R[a + 2]
  local index = R[a] + step
  R[a] = index
  if not goes_on(index, limit, step, world) then return end
  R[a + 3], S[a + 3] = index, nil
  spend(world, i.cost)
  return i.target
end

function handlers.ITERL(i, R, S, frame, world)
  local a = i.a
  frame.turns = frame.turns + 1
  local v, s = R[a], S[a]
  if equal(v, s, nil, nil, world) then return end
  R[a - 1], S[a - 1] = v, s
  spend(world, i.cost)
  return i.target
end

-- The world's side -------------------------------------------------------------------------------------------------

--- The frame above those that run, with values in its registers.
local function load_arguments(world, from, from_shadows, count)
  local frame = next_frame(world)
  local R, S = frame.R, frame.S
  for k = 1, count do R[k], S[k] = from[k], from_shadows[k] end
  return frame
end

--- Gives what a coroutine is resumed with to the call that has yielded, and goes on. Whether it yields again.
local function go_on(world, base, values, shadows, n)
  local stack = world.stack
  local frame = stack[stack.depth]
  local i = frame.code[frame.at]
  local from = { out = values, out_shadows = shadows, first = 1, count = n }
  if i.name == "CALLT" or i.name == "CALLMT" then
    frame.out, frame.out_shadows, frame.first, frame.count = values, shadows, 1, n
    if frame == base then return false end
    stack.depth = stack.depth - 1
    frame = stack[stack.depth]
    i = frame.code[frame.at]
  end
  take_results(from, frame.R, frame.S, i.a, i.b - 1, frame)
  return execute(world, base, frame, frame.at + 1)
end

--- Starts a coroutine of captured code, or goes on with it, on its own stack: world.stack from then on.
---@return boolean ended
---@return table results
---@return table shadows
---@return integer n
function M.resume(world, thread, values, value_shadows, n)
  local stack, yields = thread.stack, false
  world.stack = stack
  local base = stack[1]
  if base then
    yields = go_on(world, base, values, value_shadows, n)
  else
    base = load_arguments(world, values, value_shadows, n)
    local R, S = base.R, base.S
    local f, fs, count = callee(world, R, S, thread.f, thread.fs, n, "native")
    local proto, closure = prototype_of(world, R, S, f, count)
    if proto then
      stack.depth, base.caller = 1, "native"
      start(world, base, f, fs, count, proto, closure)
      yields = execute(world, base)
    else
      stack.direct = false
      native(world, base, R, S, f, fs, count, "native", nil)
    end
  end
  if yields then
    local given = stack.yielded
    stack.yielded = nil
    return false, given[1], given[2], given[3]
  end
  local results, shadows = {}, {}
  take_results(base, results, shadows, 1, base.count, base)
  return true, results, shadows, base.count
end

--- Evaluates a call of fn. args and shadows: n of each. Returns results, their shadows, and how many they are.
--- While it runs, world.apply(f, fs, args, shadows, n) calls any value in the same way.
---@param world table
---@param fn function
---@param fs table|nil shadow of fn
---@param args table
---@param shadows table
---@param n integer
---@param code? function has the code to evaluate: fn, or one that goes on in its middle
---@return table results
---@return table shadows
---@return integer n
---@return table? frame of a function that was left before its end; then results are its registers
function M.run(world, fn, fs, args, shadows, n, code)
  world.stack = { depth = 0 }

  local function collect(frame)
    local results, result_shadows = {}, {}
    take_results(frame, results, result_shadows, 1, frame.count, frame)
    return results, result_shadows, frame.count
  end

  function world.apply(f, f_shadow, values, value_shadows, count)
    local stack = world.stack
    local frame = load_arguments(world, values, value_shadows, count)
    invoke(world, frame, f, f_shadow, count, stack.native == stack.depth and "native" or "metamethod")
    local results, result_shadows, n_results = collect(frame)
    if world.exact then clear(frame) end
    return results, result_shadows, n_results
  end

  local proto, reason = bytecode.prototype(code or fn)
  if not proto then world:abort("the function cannot be evaluated: " .. reason) end
  local frame = load_arguments(world, args, shadows, n)
  world.stack.depth = 1
  frame.caller = "native"
  start(world, frame, fn, fs, n, proto, nil)
  local is_left = execute(world, frame)
  world.stack.depth = 0
  if is_left then return frame.R, frame.S, proto.framesize, frame end
  return collect(frame)
end

return M
