--- slices.lua -- jit.start: calls that run in slices of time, beside a frame loop.
-- A call runs on a coroutine of its own. Where a compiled function's plan is about to run, its entry yields what waits
-- (core/lua/lua_slice.c); step runs that until the time is over. Results and effects come when it is done, before the
-- coroutine goes on.

local resume, create, status = coroutine.resume, coroutine.create, coroutine.status
local error, format, huge, select, setmetatable, type, unpack =
  error, string.format, math.huge, select, setmetatable, type, unpack

--- Without a budget a step goes on in pieces of this, so that Ctrl-C comes through; ns.
local PIECE = 1e7

return function(core)
  local fail = core.internals.error
  local show = require("tycho.arguments")(core).show
  local run_slice, clock, close, slicing = core._slice_run, core._slice_clock, core._slice_close, core._slicing
  local slice_meta = core._slice_meta
  ---@class tycho.Run a call in slices of time
  ---@field done boolean whether it has ended, with results or by an error
  local Run = {}
  local meta = { __index = Run }

  local function check(who, run)
    if getmetatable(run) ~= meta then fail(format("%s: call it as run:%s(), on what jit.start gives", who, who)) end
  end

  --- What pick answers with when its plan has run: in the place of the compiled function that called it.
  local function goes_on(run, slice, finish)
    return function(...)
      local call, y = finish(slice)
      if call == false then
        run.disturbed = y
        return error(y, 0)
      end
      if call then return call(...) end
      return y
    end
  end

  --- What a resume came to; another run goes on if it was resumed inside of that. before: how much had run as Lua.
  local function came(run, outer, before, ok, ...)
    local _, now = slicing(outer)
    run.in_lua = run.in_lua or now ~= before
    if status(run.thread) ~= "dead" then
      local slice, finish = ...
      if getmetatable(slice) == slice_meta then run.slice, run.finish = slice, finish end
      return -- else the function itself yields
    end
    run.done, run.thread = true, nil
    if ok then
      run.n, run.values = select("#", ...), { ... }
    else
      run.raised = { (...) }
    end
  end

  local function go_on(run, ...)
    local outer, before = slicing(run.thread)
    return came(run, outer, before, resume(run.thread, ...))
  end

  --- Raises what ended the call: what disturbed it is the fault of who goes on with it.
  local function raise(run)
    local e = run.raised[1]
    if e == run.disturbed then fail(e) end
    return error(e, 0)
  end

  --- Runs what waits, at most until then; whether the coroutine may go on.
  local function run_until(run, over)
    repeat
      local now = over == huge and clock() + PIECE or over
      if run_slice(run.slice, now) then return true end
    until over ~= huge
    return false
  end

  --- Goes on with a call that jit.start has begun, and tells whether it has ended. A plan stops between tiles; Lua code
  --- of the function, and what is not captured, is not stopped.
  --- Raises what the call raises, then and whenever it is asked again; where it was cancelled, or goes on inside of
  --- itself; where microseconds is no number from 0.
  ---@param microseconds? number how long; without: to the end
  ---@return boolean # whether it has ended: run.done
  function Run:step(microseconds)
    check("step", self)
    if microseconds ~= nil and (type(microseconds) ~= "number" or microseconds < 0 or microseconds ~= microseconds) then
      fail("step: argument 1 must be a number of microseconds, got " .. show(microseconds))
    end
    if self.runs then fail "step: the call is under way, and cannot go on inside of itself" end
    if self.raised then return raise(self) end
    if self.cancelled then fail "step: the call was cancelled" end
    local over = clock() + (microseconds or huge) * 1e3
    while not self.done do
      if self.slice then
        if not run_until(self, over) then return false end
        local slice, finish = self.slice, self.finish
        self.slice, self.finish, self.runs = nil, nil, true
        go_on(self, goes_on(self, slice, finish))
      else
        self.runs = true
        go_on(self, unpack(self.arguments, 1, self.n))
        self.arguments, self.n = {}, self.done and self.n or 0
      end
      self.runs = false
      if self.raised then return raise(self) end
      if not self.done and not self.slice and over ~= huge or not self.done and clock() >= over then return false end
    end
    return true
  end

  --- The results of a call that has ended.
  --- Raises while it has not, where it was cancelled, and what the call raised.
  ---@return any # what the function gave
  function Run:results()
    check("results", self)
    if self.raised then return raise(self) end
    if self.cancelled then fail "results: the call was cancelled" end
    if not self.done then fail "results: the call has not ended; run:step(microseconds) tells when it has" end
    return unpack(self.values, 1, self.n)
  end

  --- Leaves undone what has not run: of the plan under way nothing is seen. A call that has ended stays as it is.
  --- Raises inside of the call itself.
  function Run:cancel()
    check("cancel", self)
    if self.runs then fail "cancel: the call is under way" end
    if self.done then return end
    if self.slice then close(self.slice) end
    self.slice, self.finish, self.thread = nil, nil, nil
    self.done, self.cancelled = true, true
  end

  function meta.__tostring(run)
    local state = run.cancelled and "cancelled" or run.raised and "ended by an error" or run.done and "done"
    return format("call in slices: %s", state or "under way")
  end

  return function(f, ...)
    if type(f) == "table" and type(getmetatable(f)) == "table" and getmetatable(f).__call then
      local callable = f
      f = function(...) return callable(...) end
    end
    if type(f) ~= "function" then fail("start: argument 1 must be a function or a module, got " .. show(f)) end
    local run = { thread = create(f), arguments = { ... }, n = select("#", ...), done = false, runs = false }
    return setmetatable(run, meta)
  end
end
