--- parts.lua -- functions that are captured in parts: where they are cut, and what goes on behind.
-- In: a compiled function; why a capture of it was given up, and where. Out: what the capture needs to end there: the
-- registers that are live, and a function that goes on with them. Nil where it cannot be cut.
--
-- A part ends before an instruction that no trace can hold (a print, a C function, a read of data). Its results are the
-- registers that are live there. With these the function that continuation.lua makes runs that instruction natively,
-- and calls the rest of the function behind it: a compiled function like any other, whose registers are its arguments.
-- So parts have guards, run-time scalars, sizes, and further cuts, as all functions have.
--
-- Rules.
-- 1. Positions are those of the whole function. The rest of it from one position on is one compiled function, however
--    many parts lead to it: loops come back to the same ones.
-- 2. The rest that begins inside of a loop ends where that loop begins its next turn, else each turn would be a part of
--    its own, with another count.
-- 3. A call whose callee holds the reason is run natively, and calls the compiled callee instead.
-- 4. Where no more than a read of data and turns of loops stand between two parts, a link leads from one to the other
--    without Lua (lua_link.c). It gives up where something else happens, and Lua does the same.
-- 5. In f(x:item()) a link hands the number on to a part that begins with the call of f. If that is not kept, f is
--    called natively, as the function that was compiled of it.
-- 6. A function that is made anew in each call (a closure) has parts, too: those of its prototype. The function itself
--    goes from part to part behind the registers, and what runs natively is made where it runs, over its variables
--    (lua_instance.c). Where closures share variables with a function that are assigned, one takes its place that keeps
--    these in upvalues, new ones in each call (cells.lua).
-- 7. A part costs about a microsecond. One that does too little for that, and does not lead to one that does more, is
--    not kept: from there on the function runs as it is, and one that is cut there after as little is not cut at all,
--    unless what it calls there does enough.

local cells = require "tycho.capture.cells"
local continuation = require "tycho.capture.continuation"

local sort, concat, format, floor, unpack = table.sort, table.concat, string.format, math.floor, unpack
local type, pairs, ipairs, next, select, setmetatable, rawget = type, pairs, ipairs, next, select, setmetatable, rawget
local load_text = loadstring or load
local get_metatable = type(debug) == "table" and debug.getmetatable

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local MOST = 64 -- places where one function is cut
local HANDED = 0.5 -- is added to the position of a call for what begins behind it and is given its results
local TRIES = 16 -- calls of what goes on that show whether it does enough

--- Operations, and nanoseconds that these take: a part that has less does too little. Specs keep them all.
M.FEW, M.SHORT = 4, 20e3
M.ANEW = 3 -- times as many where functions are made anew in each call: what runs in their place is made anew, too
M.BYTES = 6000 -- that fusion saves take as long as one more operation

--- Whether a part does enough. work: its operations, the nanoseconds that they take (time) and the bytes that fusion
--- saves (saved). anew: functions are made in each call.
---@param work {operations: number, time: number, saved: number}
function M.does_enough(work, anew)
  local enough = work.operations >= M.FEW
  if anew then enough = enough and work.operations + work.saved / M.BYTES >= M.ANEW * M.FEW end
  return enough or work.time >= M.SHORT
end

---@class tycho.Whole a function that may be captured in parts
---@class tycho.Parts a compiled function that is a whole one, or the rest of one

local Whole, Parts, WEAK = {}, {}, { __mode = "kv" }
Whole.__index, Parts.__index = Whole, Parts

-- Calls that are made natively ----------------------------------------------------------------------------------------

local CALLEES, CODES = 8, 8 -- that are called compiled; kinds of functions that are made anew in each call
local MOST_PARAMETERS, MOST_HELD = 60, 256

--- What makes a function that gives its arguments as n registers, and behind them what open(the function `made`) gives
--- and what `...` stands for, to what `put` says.
local function forwarder(params, n, vararg, open)
  local names, given = {}, {}
  for i = 1, params do names[i] = "a" .. i end
  for i = 1, n do given[i] = names[i] or "nil" end
  given[n + 1], names[params + 1] = open and "open(made)" or "made", vararg and "..." or nil
  given[n + 2] = vararg and "..." or nil
  return load_text(format([[local open, entry = ...
    return function(on) entry = on end, function(made)
      return function(%s) return entry(%s) end
    end]], concat(names, ", "), concat(given, ", ")), "=(tycho)")(open)
end

--- What opens a function whose last two upvalues are what renews its variables, and itself.
local function with_renewal(open, renew, n)
  return function(made)
    local f = open(made)
    continuation.set_upvalue(f, n - 1, renew)
    continuation.set_upvalue(f, n, f)
    return f
  end
end

--- Functions with f's code that are made anew are captured in parts of their own. Gives what knows of these, and what
--- makes of such a function what runs in its place. Each call has its own upvalues for variables that are assigned, see
--- cells.lua.
---@return tycho.Whole|nil
---@return fun(f: function): function
local function anew(parent, f)
  local proto = continuation.ready(f)
  if not proto or proto.params > MOST_PARAMETERS then return nil end
  local of, own, renews = cells.of(f, proto)
  local params, open, renew = proto.params, nil, nil
  if of then
    proto = continuation.ready(of)
    local make = continuation.opener(of, proto, own)
    open, renew = parent.instances(make, 1), renews and parent.renews(make) or nil
    if renews then open = with_renewal(open, renew, #proto.upvalues) end
  else
    of = continuation.copy(f, proto)
  end
  local whole, put = parent.sub_whole(of, proto), nil
  local run = whole:rest(1, function(on) put(on) end)
  local set, wrap = forwarder(params, whole.rests[1].parts.carried - 1, proto.vararg, open)
  put = set
  put(run)
  whole.renew = renew
  whole.original = own > 0 and #proto.upvalues - own + 1 or nil -- the upvalue that holds the function itself
  parent.anew[#parent.anew + 1] = whole
  return whole, wrap
end

--- What runs in place of f, which is made anew in each call, if that is known of f; else nil.
local function prepared_anew(whole, f)
  for _, known in ipairs(whole.codes) do
    if whole.has_code(f, known.code) then
      if known.wrap == nil then
        known.whole, known.wrap = anew(whole, f)
        known.wrap = known.wrap or false
      end
      if not known.wrap or known.whole.plain or known.whole.rests[1].native then return nil, true end
      return known.wrap(f), true, known
    end
  end
  return nil, false
end

--- What is called in place of f: its compiled function, if it has one. A function that is made by the whole one, or
--- whose code another one had that was called, is made anew in each call.
local function prepared(whole, f)
  local meta = type(f) == "table" and get_metatable(f)
  local call = type(f) == "function" and f or type(meta) == "table" and rawget(meta, "__call")
  local known = whole.callees[f]
  if known and known.call == call and not whole.is_disabled(call) then return known.run, known end
  if type(call) ~= "function" or not whole.may_compile(call) then return f end
  if call == f then
    local run, found, of = prepared_anew(whole, f)
    if found then return run or f, of end
    local code = #whole.codes < CODES and continuation.code(f)
    if code then
      whole.codes[#whole.codes + 1] = { code = code }
      if whole.inside[code] then return prepared(whole, f) end
    end
  end
  if whole.ncallees >= CALLEES then return f end
  local compiled = whole.compile(call)
  known = { call = call, run = compiled, compiled = compiled }
  if call ~= f then
    function known.run(...) return compiled(f, ...) end
  end
  whole.callees[f], whole.ncallees = known, whole.ncallees + 1
  return known.run, known
end

--- What is called at a site in place of f, and its first arguments: what f calls among them.
local function prepared_call(whole, callees, f, ...)
  local g, known = prepared(whole, f)
  if known then callees[known] = true end
  local at = g == f and whole.callers[f]
  if not at or at > select("#", ...) then return g, ... end
  local args = { ... }
  args[at], known = prepared(whole, args[at])
  if known then callees[known] = true end
  return f, unpack(args, 1, select("#", ...))
end

-- Sites ---------------------------------------------------------------------------------------------------------------

--- The place before an instruction, where parts end; nil where the function cannot be cut. inside: what it calls holds
--- the reason. unknown: what is called may give its caller other globals; may_link: but for what a read of data hands
--- its results to.
function Whole:site(at, inside, unknown, may_link)
  local key = (inside and "inside " or unknown and "unknown " or "") .. at
  local site = self.sites[key]
  if site ~= nil then return site or nil end
  if self.count >= MOST then
    self.full = true
    return nil
  end
  self.count = self.count + 1
  local callees, calls, due = {}, 0, TRIES
  local function prepare(...)
    calls = calls + 1
    if calls == due then
      due = 2 * due -- what it calls may be given up later than it is asked
      self:may_give_up(site)
    end
    return prepared_call(self, callees, ...)
  end
  local native, n, exits
  local function behind(run, to)
    if not unknown then return run end
    if self.made_anew then return self:behind_unknown(run, to) end
    return function(...)
      if not continuation.has_globals(self.f, native) then
        continuation.give_globals(self.f, native)
        self:share()
      end
      return run(...)
    end
  end
  local function rest(to, put)
    return behind(self:rest(to, function(run) put(behind(run, to)) end), to)
  end
  local called = inside or continuation.taker_calls(self.proto, at)
  native, n, exits = continuation.native(self.f, self.proto, at, inside, called and prepare or nil, rest,
    self.made_anew)
  if native then
    local hand_on, run = self.hand_on, native
    if self.made_anew then run = self:runner(native, n + 1, unknown) end
    site = { at = at, live = continuation.live(self.proto, at), n = n, exits = exits, ends = {}, native = native,
      calls = called and true,
      resume = function() return run(hand_on()) end, may_link = may_link, callees = callees }
  end
  self.sites[key] = site or false
  return site
end

--- Keeps g until behind_unknown asks for it: who has called the rest of its function away is on no stack. Those for
--- which nobody asks, since an error came between, are let go of when there are too many.
function Whole:hold(g)
  if self.n_held >= MOST_HELD then self.held, self.n_held = {}, 0 end
  if not self.held[g] then self.held[g], self.n_held = true, self.n_held + 1 end
end

function Whole:let_go(g)
  if self.held[g] then self.held[g], self.n_held = nil, self.n_held - 1 end
end

--- What runs what `make` makes, over the variables of the argument at a position. noted: what its globals are then is
--- known until behind_unknown asks.
function Whole:runner(make, at, noted)
  local instance = self.instances(make, at)
  if not noted then return function(...) return instance(...)(...) end end
  return function(...)
    local g, f = instance(...), select(at, ...)
    self.running[f], self.globals[g] = g, continuation.globals(g)
    self:hold(g)
    return g(...)
  end
end

--- Gives a function that is made anew, and the one that it stands for, the globals of g.
function Whole:set_globals(f, g)
  continuation.give_globals(f, g)
  if self.original then continuation.give_globals(continuation.upvalue(f, self.original), g) end
end

--- What is called at a position behind a call that may have given its caller other globals: those are the function's
--- from then on.
function Whole:behind_unknown(run, at)
  local carried = continuation.registers(self.proto, at) + 1
  return function(...)
    local f = select(carried, ...)
    local g = self.running[f]
    if g then
      if continuation.globals(g) ~= self.globals[g] then self:set_globals(f, g) end
      self:let_go(g)
    end
    return run(...)
  end
end

--- The function shares other variables or globals than it did, and so must all that goes on in its middle.
function Whole:share()
  for _, site in pairs(self.sites) do
    if site then continuation.share(self.f, self.proto, site.native) end
  end
  for _, rest in pairs(self.rests) do continuation.share(self.f, self.proto, rest.parts.raw) end
  for _, maker in pairs(self.makers) do
    if maker then continuation.share(self.f, self.proto, maker.make) end
  end
end

--- What runs as it is behind a cut may set the globals of the function that runs: they become those of the whole one.
function Whole:take_globals()
  local function take(g)
    if not continuation.has_globals(self.f, g) then continuation.give_globals(self.f, g) end
  end
  for _, site in pairs(self.sites) do
    if site then take(site.native) end
  end
  for _, rest in pairs(self.rests) do take(rest.parts.raw) end
end

--- The places where loops begin a turn anew around a position, in the rest that begins there.
local function turns_around(whole, at, shift)
  local cuts = {}
  for q, ins in ipairs(whole.proto.code) do
    local place = nil
    if ins.name == "FORL" and ins.target <= at and at <= q then place = q end
    if ins.name == "ITERL" and ins.target <= at and at <= q then place = q - 1 end
    if ins.name == "LOOP" and q < at and (ins.target <= q or at < ins.target) then place = q end
    if place and place ~= at and whole:site(place, false, false, true) then cuts[place + shift] = true end
  end
  return next(cuts) and cuts or nil
end

--- What leads from a site to what follows it without Lua, or nil. reader: the function that is called there, if any.
--- hands: what takes all results of that is a call that may begin a part.
function Whole:link(site, reader, hands)
  if not site.may_link then return nil end
  local leads = { unpack(site.exits) }
  if hands then leads[#leads + 1] = site.at + HANDED end
  local width, steps, constants, n = continuation.steps(self.proto, site.at, site.exits, hands and #leads,
    self.made_anew)
  if not width then return nil end
  if hands then self.handing[site.at + HANDED], site.leads = site, leads end
  local link = self.new_link { owner = self.f, shared = self.shared, reader = reader or false, native = site.resume,
    width = width, steps = steps, constants = constants, nconstants = n, carries = self.made_anew or false }
  for k, to in ipairs(leads) do
    local entered, resume = false, nil
    local function put()
      local rest = self.rests[to]
      self.set_exit(link, k, resume, rest.run == rest.compiled and self.part_of(rest.compiled) or false)
    end
    function resume()
      if not entered then
        entered = true
        self:rest(to, put)
        put()
      end
      return self.rests[to].run(self.hand_on())
    end
    self.set_exit(link, k, resume, false)
  end
  return link
end

--- What goes on at a position; put(f) changes it at the place that asks.
function Whole:rest(at, put)
  local rest = self.rests[at]
  if not rest then
    local handed = at % 1 > 0
    local make_rest = handed and continuation.rest_handed or continuation.rest
    local raw, n, shift = make_rest(self.f, self.proto, floor(at), self.made_anew)
    local parts = setmetatable({ whole = self, shift = shift, begins = at, raw = raw, code = raw, sites = {},
      cuts = turns_around(self, floor(at), shift) }, Parts)
    local make = raw
    if self.made_anew then parts.carried, parts.raw, parts.code = n + 1, self:runner(make, n + 1), make() end
    rest = { parts = parts, puts = {}, make = make, compiled = self.compile(make, parts) }
    rest.run = rest.compiled
    self.rests[at] = rest
  end
  rest.puts[#rest.puts + 1] = put
  return rest.run
end

local function put_all(rest, run)
  rest.run = run
  for _, put in ipairs(rest.puts) do put(run) end
end

--- Whether it does enough, or is followed by what does. seen: those that have been asked.
function Parts:pays(seen)
  if self.worth then return true end
  if seen[self] then return false end
  seen[self] = true
  for site in pairs(self.sites) do
    for known in pairs(site.callees) do
      if known.whole and known.whole:pays(seen) then return true end
      if known.compiled and self.whole.does_enough(known.compiled, seen) then return true end
    end
    for _, to in ipairs(site.leads or site.exits) do
      local rest = self.whole.rests[to]
      if rest and rest.parts:pays(seen) then return true end
    end
  end
  return false
end

--- Whether some part of a function that is made anew does enough, or what is called there.
function Whole:pays(seen)
  for _, rest in pairs(self.rests) do
    if rest.parts:pays(seen) then return true end
  end
  return false
end

--- What goes on at a position does too little, as far as is known: some calls will tell.
function Whole:try(at)
  local rest, left = self.rests[at], TRIES
  if rest.native or rest.tried then return end
  rest.tried = true
  put_all(rest, function(...)
    left = left - 1
    if rest.parts:pays {} then
      put_all(rest, rest.compiled)
    elseif left == 0 then
      self:run_natively(at)
    end
    return rest.compiled(...)
  end)
end

--- The results of a read are not handed on to a part: they are taken natively.
function Whole:unlink(at)
  local site = self.handing[at]
  self.unlink_site(site.link)
  self.handing[at], site.leads = nil, nil
end

--- A function could not be cut since closures share variables with it that are assigned: from its next call on another
--- one takes its place, if there is one that can.
function Whole:take_cells()
  if not self.lacks_cells or self.made_anew then return end
  self.lacks_cells = false
  local of, wrap = anew(self, self.f)
  if not of or not of.original then return end
  self.stands_aside = true
  function of.drop()
    self.stands_aside = false
    self.stand_aside(nil)
  end
  self.stand_aside(wrap(self.f), of.rests[1].compiled)
end

--- From a position on the function runs as it is.
function Whole:run_natively(at)
  local rest = self.rests[at]
  if rest.native then return end
  rest.native = true
  if at == 1 and self.drop then self.drop() end
  put_all(rest, rest.parts.raw)
  if self.handing[at] then self:unlink(at) end
  for _, site in pairs(self.sites) do
    if site then self:may_give_up(site) end
  end
end

--- What ends at a site does too little if nothing behind it is captured, nor what is called there does enough.
function Whole:may_give_up(site)
  if not self:is_native(site) then return end
  for parts in pairs(site.ends) do parts:give_up() end
end

--- The rest of the function runs as it is, and may set its globals: gives what is to run it, given what does so.
function Parts:sets_globals()
  local whole, rest, carried = self.whole, self.whole.rests[self.begins], self.carried
  local function follow(f, g, ...)
    if f then whole:set_globals(f, g) else whole:take_globals() end
    return ...
  end
  local function run(g, ...) return follow(carried and select(carried, ...), g, g(...)) end
  local raw = self.raw
  rest.native = true
  put_all(rest, carried and function(...) return run(whole.instances(rest.make, carried)(...), ...) end
    or function(...) return run(raw, ...) end)
  return run
end

--- Whether nothing behind a site is captured.
function Whole:is_native(site)
  for _, to in ipairs(site.leads or site.exits) do
    if not (self.rests[to] and self.rests[to].native) then return false end
  end
  return true
end

-- Parts ---------------------------------------------------------------------------------------------------------------

--- The cuts of a function that is to be cut at one more place; nil: it cannot be.
---@param cut {at: integer, turns: integer, inside: boolean, unknown: boolean}
---@return table<integer, boolean|integer>|nil
function Parts:cuts_with(cut)
  local at = cut.at - self.shift
  local start = at >= 1 and continuation.start(self.whole.proto, at) or 0
  if start < 1 then return nil end
  local whole, begins = self.whole, self.begins
  local handed = begins and whole.handing[begins] and cut.turns == 0
  if handed and start <= continuation.taker(whole.proto, begins - HANDED) then
    whole:run_natively(begins) -- what takes the results is run from where they are read
    return nil
  end
  local inside = cut.inside and continuation.calls(whole.proto, start)
  local unknown = cut.inside or cut.unknown
  self.asked = whole:site(start, inside, unknown or continuation.hands_on(whole.proto, start), not unknown)
  if not self.asked then return nil end
  local cuts = { [start + self.shift] = cut.turns }
  for place, always in pairs(self.cuts or {}) do cuts[place] = always end
  return cuts
end

--- What a part gives that ends where its frame stands: the registers that are live and what `...` stands for, their
--- shadows, how many there are, and what goes on with them: in Lua, and without it if there is such a way.
---@param frame table
---@param world table what is evaluated
function Parts:leave(frame, world)
  local at, R, S = frame.at, frame.R, frame.S
  local site = self.cuts and self.cuts[at] and self.whole:site(at - self.shift, false, false, true) or self.asked
  local results, shadows, n = {}, {}, site.n
  for r in pairs(site.live) do results[r], shadows[r] = R[r], S[r] end
  if self.carried then
    n = n + 1
    results[n], shadows[n] = world.fn, world.fn_shadow
  end
  local first = continuation.handed(self.whole.proto, site.at)
  if first then
    for k = 1, frame.multi do results[n + k], shadows[n + k] = R[first + k - 1], S[first + k - 1] end
    n = n + frame.multi
  elseif self.whole.proto.vararg then
    for k = 1, frame.n_extra do results[n + k], shadows[n + k] = frame.extra[k], frame.extra_shadows[k] end
    n = n + frame.n_extra
  end
  self.left, self.sites[site] = site, true
  if site.link == nil then
    local ins = self.whole.proto.code[site.at]
    local reader = continuation.calls(self.whole.proto, site.at) and R[ins.a]
    local caller = continuation.taker_calls(self.whole.proto, site.at)
    local hands = caller and world:may_hold_call(R[caller])
    site.link = (not reader or world:reads_data(reader)) and self.whole:link(site, reader, hands) or false
  end
  return results, shadows, n, site.resume, site.link or nil
end

--- What makes the closure that an instruction makes, see continuation.maker.
---@param at integer
---@return {make: function, taken: table<integer, boolean>, n: integer}|nil
function Parts:maker(at)
  local whole, place = self.whole, at - self.shift
  if whole.makers[place] == nil then
    local make, taken, n = continuation.maker(whole.f, whole.proto, place)
    whole.lacks_cells = whole.lacks_cells or not make
    if make and self.carried then make = whole.within(make, continuation.shared(whole.proto, place)) end
    whole.makers[place] = make and { make = make, taken = taken, n = n, carried = self.carried } or false
  end
  return whole.makers[place] or nil
end

--- What makes a closure of any function that is evaluated.
M.maker_of = continuation.maker_of

--- Whether it is what gives a turn of a loop variables of its own.
function Parts:renews(f) return self.whole.renew == f end

--- The line of a position.
function Parts:line(at)
  local lines = self.whole.proto.lines
  return lines and lines[at - self.shift]
end

--- What goes on behind the cuts of the whole function, in the order of its code: {line, run: the compiled function}, or
--- {line} where it runs as it is; then the parts of functions that are made anew in each call.
---@return {line: integer?, run: function?}[]
function Parts:list()
  local at, list = {}, {}
  for place in pairs(self.whole.stands_aside and {} or self.whole.rests) do at[#at + 1] = place end
  sort(at)
  local lines = self.whole.proto.lines or {}
  for i, place in ipairs(at) do
    local rest = self.whole.rests[place]
    list[i] = { line = lines[floor(place)], run = not rest.native and rest.compiled or nil }
  end
  for _, whole in ipairs(self.whole.anew) do
    for i, part in ipairs(Parts.list { whole = whole }) do
      if i > 1 or not whole.drop then list[#list + 1] = part end -- else it is the function itself
    end
  end
  return list
end

--- The number of places at which it is cut, where more were asked for than there may be.
---@return integer?
function Parts:most() return self.whole.full and MOST or nil end

--- Why it could not be cut.
function Parts:refusal()
  return self.whole.full and format("it is cut at %d places already", MOST) or "it cannot end there"
end

--- It does too little to be kept.
function Parts:give_up()
  if self.worth or self:pays {} then return end
  if self.begins then return self.whole:run_natively(self.begins) end
  self.drop()
end

--- A part was captured, which does that work; ended: at a site. False: it is not kept.
function Parts:captured(work, ended)
  if M.does_enough(work, self.whole.made_anew or #self.whole.anew > 0) then
    self.worth = true
    return true
  end
  local site = ended and self.left
  if self.worth then
    return true
  elseif self.begins then
    self.whole:try(self.begins)
  elseif site then
    if self.whole:is_native(site) and not (site.calls or self:pays {}) then return false end
    site.ends[self] = true
  end
  return true
end

--- What is to be known of a function that may be captured in parts; nil and a reason where it may not.
---@param f function
---@param how {compile: function, may_compile: function, is_disabled: function, hand_on: function, drop: function,
---has_own_globals: function, part_of: function, link: function, link_exit: function, unlink: function,
---stand_aside: function, callers: table<function, integer>, does_enough: function, has_code: function,
---instances: function, within: function, renews: function}
---@return tycho.Parts|false
---@return string? reason
function M.new(f, how)
  local proto, why = continuation.ready(f)
  if not proto then return false, why end
  local function new_whole(of, of_proto, made_anew)
    local whole = setmetatable({ f = of, proto = of_proto, sites = {}, rests = {}, makers = {}, count = 0, callees = {},
      handing = {}, -- by place: the sites whose links hand results on to it
      ncallees = 0, made_anew = made_anew, codes = {}, anew = {}, inside = continuation.inside(of_proto),
      running = setmetatable({}, WEAK), globals = setmetatable({}, WEAK), held = {}, n_held = 0,
      compile = how.compile, may_compile = how.may_compile, is_disabled = how.is_disabled, callers = how.callers,
      does_enough = how.does_enough, has_code = how.has_code, instances = how.instances, within = how.within,
      renews = how.renews, stand_aside = how.stand_aside,
      part_of = how.part_of, new_link = how.link, set_exit = how.link_exit, unlink_site = how.unlink }, Whole)
    whole.hand_on, whole.shared = how.hand_on(of, function() whole:share() end)
    function whole.has_own_globals()
      if not made_anew then return how.has_own_globals(whole) end
      whole.plain = true
      if whole.drop then whole.drop() end
    end
    function whole.sub_whole(sub_f, sub_proto) return new_whole(sub_f, sub_proto, true) end
    return whole
  end
  return setmetatable({ whole = new_whole(f, proto), shift = 0, sites = {}, drop = how.drop, code = f }, Parts)
end

return M
