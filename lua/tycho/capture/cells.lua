--- cells.lua -- functions that are cut although closures share variables with them that are assigned.
-- In: a Lua function and its prototype. Out: a function of the same code that keeps such variables in upvalues of its
-- own; nil where the loop itself counts or walks by such a variable. Raises when memory is out.
--
-- What goes on behind a cut has registers of its own, which closures that were made before know nothing of. An
-- upvalue can be shared: by those closures, and by all that goes on in the middle of the function. So each captured
-- variable that is assigned is an upvalue beside its register. Where a closure may have changed it, the register is set
-- from it before it is read, and it is set from the register where that is written. Instructions stay as they are, with
-- jumps over what is put between; so do names in messages, which are those of registers.
--
-- Rules.
-- 1. A variable is shared behind the instruction that makes a closure of it, up to the one that closes it (UCLO).
--    Before, what is written to its register is written to the upvalue where that value may come to such a place.
-- 2. A function has one upvalue for a register. Where something behind the end of a variable may make a closure of a
--    variable in the same register, as loops do whose body declares it, the upvalue becomes another variable at that
--    end: a call (renew, lua_instance.c) joins it to a new one. LuaJIT's traces take what an upvalue is joined to for a
--    constant, so these functions are not for its trace compiler.
-- 3. The first upvalue of its own holds the function itself, whose globals may be set meanwhile. Where variables are
--    renewed, the last two are what does so and the function that goes from part to part.
-- 4. A condition and its jump stay together; so do the instructions of a loop's end, what gives as many values as there
--    are and what takes these, an object that is copied and its method that is found.

local edit = require "tycho.capture.dump_edit"

local char, sub, find, byte = string.char, string.sub, string.find, string.byte
local concat, floor, max = table.concat, math.floor, math.max
local ipairs, pairs, next = ipairs, pairs, next

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

local M = {}

local MOST_REGISTERS, MOST_UPVALUES = 240, 60

-- Where a variable is shared ------------------------------------------------------------------------------------------

--- The variables that are assigned and that closures share: by register, the positions where such closures are made.
local function assigned(proto)
  local list = {}
  for i, ins in ipairs(proto.code) do
    for _, u in ipairs(ins.name == "FNEW" and ins.k.upvalues or {}) do
      if u.is_local and not u.immutable then
        list[u.index] = list[u.index] or {}
        list[u.index][i] = true
      end
    end
  end
  return list
end

--- The positions that may come behind these, up to where `stops` says so.
local function reached(flow, from, stops)
  local set, work = {}, {}
  local function add(at)
    if flow[at] and not set[at] then
      set[at], work[#work + 1] = true, at
    end
  end
  for at in pairs(from) do
    for _, to in ipairs(flow[at].behind) do add(to) end
  end
  while #work > 0 do
    local at = work[#work]
    work[#work] = nil
    if not (stops and stops(at)) then
      for _, to in ipairs(flow[at].behind) do add(to) end
    end
  end
  return set
end

local function has(list, r)
  for _, v in ipairs(list) do
    if v == r then return true end
  end
  return false
end

--- The positions behind which one of these may come; r: while the register holds what it holds there.
local function leading_to(flow, made, r)
  local set, again = {}, true
  while again do
    again = false
    for at = #flow, 1, -1 do
      for _, to in ipairs(not set[at] and flow[at].behind or {}) do
        if made[to] or set[to] and not has(flow[to].writes, r) then set[at], again = true, true end
      end
    end
  end
  return set
end

local jumps = { JMP = true, UCLO = true, FORI = true, FORL = true, ITERL = true, LOOP = true, ISNEXT = true }
local together = { ITERC = true, ITERN = true }
local takes_many = { CALLM = true, CALLMT = true, RETM = true, TSETM = true }
local copies = { ISTC = "IST", ISFC = "ISF" } -- where they jump: what jumps alone

--- Whether nothing may stand between an instruction and the one before it.
local function follows(proto, at)
  local before = proto.code[at - 1]
  if not before or at > #proto.code then return false end
  return before.name == "ITERC" or before.name == "ITERN" or proto.flow[at - 1].behind[2] == at + 1
end

--- Whether it gives as many values as there are. These lie behind all variables, and what takes them comes next.
local function gives_many(ins)
  return ins.b == 0 and (ins.name == "CALL" or ins.name == "CALLM" or ins.name == "VARG")
end

--- Whether it finds the method of an object that the instruction before it has just copied: messages call it a method.
local function finds_method(proto, at)
  local code = proto.code
  local ins, copy = code[at], code[at - 1]
  if ins.name ~= "TGETS" or not copy or copy.name ~= "MOV" then return false end
  for _, other in ipairs(code) do
    if other.target == at then return false end
  end
  return copy.d == ins.b and copy.a == ins.a + 1 + proto.fr2
end

local function may_stand_before(proto, at)
  local ins = proto.code[at]
  if ins.name == "UCLO" then ins = proto.code[ins.target] end
  return not takes_many[ins.name] and not finds_method(proto, at)
end

--- Adds what keeps a register and its upvalue the same: before[at] and behind[at], lists of instructions, and
--- apart[at], one that comes where the instruction has copied a value and jumps; renewed[at]: upvalues whose variables
--- end there. False: it cannot be done.
local function keep_same(proto, r, upvalue, made, before, behind, apart, renewed)
  local code, flow = proto.code, proto.flow
  local function closes(at) return code[at].name == "UCLO" and code[at].a <= r end
  local shared, leads, uses = reached(flow, made, closes), leading_to(flow, made), {}
  for at in pairs(made) do uses[at] = true end
  for at in pairs(shared) do uses[at] = true end
  local becomes = leading_to(flow, uses, r)
  local function put(list, at, ins)
    list[at] = list[at] or {}
    list[at][#list[at] + 1] = ins
  end
  for at in pairs(shared) do
    if closes(at) and leads[at] then
      if follows(proto, at) then return false end
      put(renewed, at, upvalue)
    end
  end
  local get, set = edit.two("UGET", r - 1, upvalue), edit.two("USETV", upvalue, r - 1)
  for at, ins in ipairs(code) do
    local reads = shared[at] and may_stand_before(proto, at)
      and (closes(at) and flow.live[at][r] or ins.name ~= "FNEW" and has(flow[at].reads, r))
    local writes = has(flow[at].writes, r) and not gives_many(ins)
      and (shared[at] or made[at] or becomes[at])
    if reads then
      if follows(proto, at) then return false end
      put(before, at, get)
    end
    if copies[ins.name] and ins.a == r and (shared[at] or becomes[at]) then apart[at] = set end
    if writes then
      if jumps[ins.name] or together[ins.name] or follows(proto, at + 1) then return false end
      put(behind, at, set)
    end
  end
  if r <= proto.params then put(before, 1, set) end
  return true
end

-- The function's dump -------------------------------------------------------------------------------------------------

--- The variables, whose beginnings and ends are moved. place: of a position that was.
local function moved(variables, place)
  local at, out, was, now = 1, {}, 0, 0
  while byte(variables, at) ~= 0 do
    local first = at
    at = byte(variables, at) < 7 and at + 1 or find(variables, "\0", at, true) + 1
    out[#out + 1] = sub(variables, first, at - 1)
    local starts, lasts
    starts, at = edit.read_uleb(variables, at)
    lasts, at = edit.read_uleb(variables, at)
    was = was + starts
    out[#out + 1] = edit.uleb(place(was) - now) .. edit.uleb(place(was + lasts) - place(was))
    now = place(was)
  end
  return concat(out) .. sub(variables, at)
end

--- Lets conditions that copy a value jump behind the end of the code, where that is done, and apart[at].
local function put_apart(proto, p, at, starts, apart)
  for i, ins in ipairs(proto.code) do
    if apart[i] then
      local first, test, jump = #p.code + 1, p.code[at[i]], p.code[at[i] + 1]
      local to = first - (at[i] + 1) - 1 + 32768
      edit.append(p, { edit.two("MOV", ins.a - 1, ins.d - 1), apart[i],
        edit.jump(first + 2, starts[proto.code[i + 1].target], jump[2]) }, p.lines[at[i]])
      test[1], test[2] = edit.numbers[copies[ins.name]], 0
      jump[3], jump[4] = to % 256, floor(to / 256)
    end
  end
end

--- Puts the lists of instructions between those of the parts.
local function put_between(proto, p, before, behind, apart)
  local old, old_lines, at, starts = p.code, p.lines, {}, {}
  p.code, p.lines = {}, {}
  for i, ins in ipairs(old) do
    starts[i] = #p.code + 1
    edit.append(p, before[i] or {}, old_lines[i])
    edit.append(p, { ins }, old_lines[i])
    at[i] = #p.code
    edit.append(p, behind[i] or {}, old_lines[i])
  end
  local n = #p.code
  for i, ins in ipairs(proto.code) do
    if jumps[ins.name] then
      local d = starts[ins.target] - at[i] - 1 + 32768
      old[i][3], old[i][4] = d % 256, floor(d / 256)
    end
  end
  local function place(was) return starts[was] or was < 1 and was or n + was - #old end
  put_apart(proto, p, at, starts, apart)
  if p.debug_size > 0 then p.variables = moved(p.variables, place) end
end

--- Puts calls of `renew`, an upvalue behind which lies the one for the function that goes from part to part, where
--- variables end. False: too many values are in use.
local function put_renewals(proto, p, before, renewed, renew)
  local a, most = proto.framesize, 0
  for at, upvalues in pairs(renewed) do
    local first = a + 1 + proto.fr2
    before[at] = before[at] or {}
    local list, n = before[at], #before[at]
    list[n + 1], list[n + 2] = edit.two("UGET", a, renew), edit.two("UGET", first, renew + 1)
    for k, upvalue in ipairs(upvalues) do list[n + 2 + k] = edit.two("KSHORT", first + k, upvalue + 1) end
    list[#list + 1] = edit.three("CALL", a, 1, #upvalues + 2)
    most = max(most, #upvalues)
  end
  p.framesize = a + 2 + proto.fr2 + most
  edit.not_for_traces(p)
  return p.framesize <= MOST_REGISTERS
end

--- A function of the same code, which keeps variables that closures share and that are assigned in upvalues behind its
--- own, and what makes such functions; nil where there are none, or it cannot be.
---@param f function
---@param proto tycho.Prototype of which continuation.ready has said that it can be cut
---@return function|nil
---@return integer n upvalues that are its own
---@return boolean? renews the last two of these are what renews variables, and the function that goes from part to part
function M.of(f, proto)
  local list, before, behind, apart, renewed, upvalue_of = assigned(proto), {}, {}, {}, {}, {}
  if not next(list) then return nil, 0 end
  local p, n = edit.split(proto), 1
  for r = 1, proto.framesize do
    if list[r] then
      upvalue_of[r], n = p.n_upvalues + n, n + 1
      if not keep_same(proto, r, upvalue_of[r], list[r], before, behind, apart, renewed) then return nil, 0 end
    end
  end
  local renews = next(renewed) ~= nil
  if renews then
    if not put_renewals(proto, p, before, renewed, p.n_upvalues + n) then return nil, 0 end
    n = n + 2
  end
  if p.n_upvalues + n > MOST_UPVALUES then return nil, 0 end
  put_between(proto, p, before, behind, apart)
  local function shared(dump)
    for _, ins in ipairs(proto.code) do
      if ins.name == "FNEW" then
        local upvalues = edit.split(ins.k).upvalues
        for k, u in ipairs(ins.k.upvalues) do
          if u.is_local and not u.immutable then
            upvalues = sub(upvalues, 1, 2 * k - 2) .. char(upvalue_of[u.index], 0) .. sub(upvalues, 2 * k + 1)
          end
        end
        dump = edit.with_upvalues(proto, ins.k, upvalues)(dump)
      end
    end
    return dump
  end
  local g = edit.load(edit.joined(proto, p, n, shared))
  edit.lay_out(proto, f, g)
  return g, n, renews
end

return M
