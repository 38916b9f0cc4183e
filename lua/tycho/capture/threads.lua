--- threads.lua -- coroutines that captured code makes and runs, as captured code sees them.
-- In: arguments with shadows. Out: models of the library coroutine, as library.lua's are.
--
-- No coroutine of the host runs: the body is evaluated on a stack of its own, which is left as it stands where it
-- yields (evaluate.lua). What captured code gets is a coroutine or an iterator of the host's that stands for the record
-- of the thread: {f, fs, stack, status}. It never leaves the trace: what would hand it out is given up, and captured
-- again without coroutines, so that the function is cut where it makes one.
--
-- 1. A body yields from Lua functions of the user's alone. Where a pcall, a metamethod or code of the library stands
--    between, the capture is given up: so no mode (ty.no_grad and its kin) is open in what is suspended.
-- 2. Scopes belong to a coroutine: what was made in another one is not theirs. A trace that hands out such a tensor is
--    for calls outside of any scope.

local evaluate = require "tycho.capture.evaluate"
local undisturbed = require("tycho").internals.undisturbed

local sub = string.sub
local type, pcall, error, getmetatable, select = type, pcall, error, getmetatable, select
local library = type(coroutine) == "table" and coroutine or {}
local create, wrap = library.create, library.wrap

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua

local DEEPEST = 20 -- coroutines that resume each other; the host's C stack takes more

local NONE = {}

local function nothing() end

-- What the host says --------------------------------------------------------------------------------------------------

--- What the function that wrap gave raises the n-th time, called by a Lua function.
local function wrap_raises(n, body)
  local f = wrap(body)
  local v
  for _ = 1, n do
    local _
    _, v = undisturbed(function()
      local y = f()
      return y
    end)
  end
  return v
end

--- What is raised when a dead coroutine goes on, and whether wrap puts the caller's place before texts.
local dead, dead_wrapped, tells_place, extra_of_running

local function ask_host()
  local co = create(nothing)
  library.resume(co)
  dead = select(2, library.resume(co))
  tells_place = wrap_raises(1, function() error("x", 0) end) ~= "x"
  local text = wrap_raises(2, nothing)
  dead_wrapped = type(text) == "string" and type(dead) == "string" and sub(text, -#dead) == dead and dead or nil
  if dead_wrapped and (text ~= dead) ~= tells_place then dead_wrapped = nil end
  co = create(function() return library.running() end)
  extra_of_running = select("#", library.resume(co)) - 2
end

--- False where the host's functions yield to a scheduler of its own, as nginx's do: captures leave them alone.
local has_coroutines = create and wrap and pcall(ask_host)

-- Threads -------------------------------------------------------------------------------------------------------------

local function one(v) return { v }, NONE, 1 end

local function make(world, args, shadows, n, name)
  if not world.threads or not has_coroutines then world:abort("calls coroutine." .. name, world.OUTSIDE) end
  if n == 0 or type(args[1]) ~= "function" then world:abort("coroutine." .. name .. " is given no function") end
  return { f = args[1], fs = shadows[1], stack = { depth = 0, of_thread = true }, status = "suspended" }
end

local function thread_of(world, v, s, name)
  local thread = world.threads and world.threads[v]
  if thread then return thread end
  world:typed(v, s)
  return world:abort("calls coroutine." .. name .. " of a coroutine from outside", world.OUTSIDE)
end

--- Runs a thread until it yields or ends: true and what it gives, or false and what it raised.
local function go_on(world, thread, values, shadows, n)
  local outer, stack = world.thread, world.stack
  local depth = outer and outer.nested + 1 or 1
  if depth > DEEPEST then world:abort_thread("coroutines resume each other deeper than a capture may follow") end
  if outer then outer.status = "normal" end
  thread.status, thread.nested = "running", depth
  world.thread = thread
  local ok, has_ended, results, out, count = pcall(evaluate.resume, world, thread, values, shadows, n)
  if not ok and getmetatable(has_ended) ~= world.Raised then error(has_ended, 0) end -- the capture is over
  world.thread, world.stack = outer, stack
  if outer then outer.status = "running" end
  thread.status = (not ok or has_ended) and "dead" or "suspended"
  if ok then return true, results, out, count end
  return false, has_ended
end

--- Calls what coroutine.wrap has given.
local function call_wrapped(world, thread, args, shadows, n)
  if thread.status == "dead" and not dead_wrapped or thread.status == "running" or thread.status == "normal" then
    world:abort_thread("a coroutine is resumed that is " .. thread.status)
  end
  local text = dead_wrapped
  if thread.status ~= "dead" then
    local ok, results, out, count = go_on(world, thread, args, shadows, n)
    if ok then return results, out, count end
    text = results.value
    if type(text) ~= "string" or not tells_place then return world:raise(text, results.shadow) end
    world:pin(text, results.shadow)
  end
  return world:raise((tells_place and world:position() or "") .. text, nil)
end

local model = {}

model["coroutine.create"] = function(world, args, shadows, n)
  local thread = make(world, args, shadows, n, "create")
  thread.value = create(nothing)
  world.threads[thread.value] = thread
  return one(thread.value)
end

model["coroutine.wrap"] = function(world, args, shadows, n)
  local thread = make(world, args, shadows, n, "wrap")
  local f = wrap(nothing)
  thread.call = call_wrapped
  world.iterators[f] = thread
  return one(f)
end

model["coroutine.resume"] = function(world, args, shadows, n)
  local thread = thread_of(world, args[1], shadows[1], "resume")
  if thread.status == "dead" then return { false, dead }, NONE, 2 end
  if thread.status ~= "suspended" then world:abort_thread("a coroutine is resumed that is " .. thread.status) end
  local values, value_shadows = {}, {}
  for i = 2, n do values[i - 1], value_shadows[i - 1] = args[i], shadows[i] end
  world.catching = world.catching + 1
  local ok, results, out, count = go_on(world, thread, values, value_shadows, n - 1)
  world.catching = world.catching - 1
  if not ok then return { false, results.value }, { nil, results.shadow }, 2 end
  local all, all_shadows = { true }, {}
  for i = 1, count do all[i + 1], all_shadows[i + 1] = results[i], out[i] end
  return all, all_shadows, count + 1
end

model["coroutine.status"] = function(world, args, shadows)
  return one(thread_of(world, args[1], shadows[1], "status").status)
end

--- Gives the capture up where the running coroutine might not yield: see rule 1.
local function must_be_able_to_yield(world, name)
  local stack = world.stack
  if not world.thread then world:abort("calls coroutine." .. name, world.OUTSIDE) end
  local plain = stack.direct and stack.depth > 0
  for depth = 1, stack.depth do
    local frame = stack[depth]
    plain = plain and (depth == 1 or frame.caller == "lua") and not frame.proto.own
  end
  if not plain then world:abort_thread("a coroutine yields from within a native function") end
end

model["coroutine.yield"] = function(world, args, shadows, n)
  must_be_able_to_yield(world, "yield")
  world.stack.yielded = { args, shadows, n }
  return {}, NONE, 0
end

model["coroutine.isyieldable"] = function(world)
  must_be_able_to_yield(world, "isyieldable")
  return one(true)
end

model["coroutine.running"] = function(world)
  local thread = world.thread
  if not thread then world:abort("calls coroutine.running", world.OUTSIDE) end
  if not thread.value then
    thread.value = create(nothing)
    world.threads[thread.value] = thread
  end
  return { thread.value, extra_of_running == 1 and false or nil }, NONE, 1 + extra_of_running
end

return model
