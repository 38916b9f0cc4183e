--- jit.compile, jit.explain, jit.graph: compiled functions as Lua sees them.
-- The wrapper below must call the user's function by a tail call: it then runs in the wrapper's place, so that error
-- levels, yields and depth are those of plain Lua.

local type, tostring, pcall, error = type, tostring, pcall, error
local pairs, ipairs, setmetatable, getmetatable, rawget = pairs, ipairs, setmetatable, getmetatable, rawget
local format = string.format
local concat, remove, sort, huge, min = table.concat, table.remove, table.sort, math.huge, math.min

local words = require "tycho.capture.words"
local log = require "tycho.capture.log"

local M = {}

---@class tycho.CompileOptions
---@field fast? boolean results may differ from eager in the last bits
---@field fullgraph? boolean a call that cannot be captured whole raises
---@field dynamic? boolean|table whether sizes are symbolic from the first call on, or of which arguments and dims
---@field parts? boolean true: what no trace holds whole is compiled in parts
---@field passes? (string|function)[] change each captured graph
---@field backend? function makes of each captured graph the function that runs instead of the plan

---@class tycho.Graph one recorded graph: nodes by position, each {op, dtype, shape, src, live}
---@field text string
---@field dot string for Graphviz

local capture -- loaded when the first function is compiled
local known_options = { fast = "boolean", fullgraph = "boolean", dynamic = "any", parts = "boolean", passes = "table",
  backend = "any" }
local known_names = "backend, dynamic, fast, fullgraph, parts, passes"
local fail -- raises at the user's line
local clock = os and os.clock or function() return 0 end
local COARSE = type(jit) == "table" and jit.os == "Windows" -- os.clock counts milliseconds

--- Everything about compiled functions that is not needed to call them; gone with them. The values are weak, too: they
--- hold the user's function, which may know its compiled one. They live as long as the handle's part that captures.
local handle_of = setmetatable({}, { __mode = "kv" })
local forward_of = setmetatable({}, { __mode = "kv" }) -- of compiled modules: what gives their function
--- Compiled by the text of the options and by function. Both weak: a compiled function holds its function.
local compiled_by = {}
local disabled = setmetatable({}, { __mode = "k" })
local budget = huge -- milliseconds that one capture may take
local stance = "default" -- what jit.stance was told last
local recaptures = os and os.getenv and os.getenv "TYCHO_CHECK" == "capture" -- see oracle.lua

local function check_options(opts)
  if opts == nil then return {} end
  if type(opts) ~= "table" then
    fail("compile: argument 2 must be a table of options, got " .. type(opts))
  end
  for k, v in pairs(opts) do
    local want = known_options[k]
    if not want then fail(format("compile: unknown option %s (known: %s)", tostring(k), known_names)) end
    if want ~= "any" and type(v) ~= want then
      fail(format("compile: option %s must be a %s, got %s", k, want, type(v)))
    end
  end
  return opts
end

--- A module (a table with `forward`) stays a table: fields read and write through, forward among them.
local function compile_module(core, m, opts)
  local compiled, source
  local function forward()
    local meta = getmetatable(m)
    local now = type(meta) == "table" and rawget(meta, "hooked") or m.forward -- nn/hooks.lua: with what is around it
    if source ~= now then
      if type(now) ~= "function" then
        fail("compile: the module's `forward` became a " .. type(now))
      end
      source, compiled = now, M.compile_function(core, now, opts)
    end
    return compiled
  end
  local proxy = setmetatable({}, {
    __call = function(_, ...) return forward()(m, ...) end,
    __index = m,
    __newindex = m,
    __module = m, -- for what looks at fields one by one
    __tostring = function() return tostring(m) end,
  })
  forward_of[proxy] = forward
  return proxy
end

--- Options that make another function of it, as text.
local function key_of(opts)
  local custom = opts.custom and opts.custom.key or ""
  return concat({ tostring(opts.fast or false), tostring(opts.fullgraph or false), tostring(opts.dynamic),
    tostring(opts.parts), custom }, " ")
end

local ABORTS_KEPT, MISSES_KEPT = 16, 16
local NOT_APPLIED = "passes and backend are not applied"

local function keep(list, v, most)
  list[#list + 1] = v
  if #list > most then remove(list, 1) end
end

--- Whether numbers of the calls are known to be sizes, see capture.lua.
local function has_bounds(h)
  for _, is in pairs(h.bounds) do
    if is then return true end
  end
  return false
end

local function abort_text(why)
  local at = why.file and (why.line and format("%s:%s: ", why.file, why.line) or why.file .. ": ") or ""
  local uncut = why.uncut and "; not captured in parts: " .. why.uncut or ""
  return at .. why.reason .. (why.hint and " (" .. why.hint .. ")" or "") .. uncut
end

--- Notes what a call that no trace answers differs in from those that one does. Gives it as text, nil of the first
--- call, and what the user could do about it.
---@param due table what core._due says
---@param otherwise? string what sizes that no trace has decide otherwise
local function note_miss(core, h, due, otherwise)
  if not (due.at or due.why) then return nil end
  local m, remedy = words.miss(core, due)
  local sizes = due.sized and not due.noted and "sizes of tensors that no call before had"
  if sizes and has_bounds(h) then sizes = "sizes or bounds that no call before had" end
  if sizes then m.text = otherwise and format("%s, which decide otherwise: %s", sizes, otherwise) or sizes end
  keep(h.misses, m, MISSES_KEPT)
  return m.text, remedy, m.line
end

local TOO_LITTLE = "a part would do too little"
local OWN_GLOBALS = "it sets or asks for the globals of the function that runs"

--- It is not captured in parts any more, since that gains nothing.
local function forget_parts(core, h)
  core._forget_parts(h.handle)
  h.parts, h.uncut = false, TOO_LITTLE
end

--- What is to be known of a function that may be captured in parts.
local function parts_of(core, h)
  if h.parts == nil and (h.whole or h.fullgraph or h.custom or recaptures) then
    h.parts = false
  elseif h.parts == nil then
    h.parts, h.uncut = capture.parts(h.fn, {
      compile = function(fn, parts)
        return M.compile_function(core, fn, { fast = h.fast, dynamic = h.dynamic }, parts)
      end,
      may_compile = function(fn) return not handle_of[fn] and not disabled[fn] and capture.may_compile(core, fn) end,
      hand_on = core._hand_on,
      callers = { [pcall] = 1, [xpcall] = 1, [core.no_grad] = 1, [core.enable_grad] = 1, [core.scope] = 1,
        [core.autocast] = 2 }, -- functions that call one of their arguments, and give it to nobody
      stand_aside = function(run, compiled)
        core._stands(h.handle, run)
        h.stands = compiled and handle_of[compiled]
        if not run then h.parts, h.uncut = false, TOO_LITTLE end
      end,
      does_enough = function(compiled, seen)
        local of = handle_of[compiled].stands or handle_of[compiled]
        return of.does_enough or of.parts and of.parts:pays(seen)
      end,
      has_code = core._has_code, instances = core._instances, within = core._inside, renews = core._renews,
      is_disabled = function(fn) return disabled[fn] end,
      part_of = function(compiled) return core._part(handle_of[compiled].fn, handle_of[compiled].handle) end,
      link = core._link, link_exit = core._link_exit, unlink = core._unlink,
      has_own_globals = function(whole)
        core._reset(h.handle) -- the next call comes here
        h.own_globals = whole
      end, drop = function() forget_parts(core, h) end,
    })
  end
  return h.parts or nil
end

--- What happens when no trace answers a call: the call is evaluated and described. Nothing is raised unless the options
--- or the stance ask for it; without a trace the function runs as it is. Called by what runs in the compiled function's
--- place.
---@param h table the compiled function's record
---@param otherwise? string what sizes that no trace has decide otherwise
local function capture_call(core, h, otherwise, ...)
  if h.own_globals then -- from its last call on
    h.own_globals:take_globals()
    h.parts, h.own_globals, h.uncut = false, nil, OWN_GLOBALS
  end
  local due = core._due(h.handle)
  local captured = h.captures
  local missed, remedy, line = note_miss(core, h, due, otherwise)
  capture.find_bounds(core, h.handle, due.description, h.bounds, h.fn, ...)
  due.description, due.value = nil, nil -- they hold what the user may let go of
  if captured > 0 and core._stance() == "no_recompile" then
    fail(format("compile: the stance is no_recompile, and %s would be captured again: %s", h.place,
      missed or "it was called in another way"))
  end
  local now = core.internals.capture.clock or COARSE and core.internals.clock or clock -- specs bring their own
  local started = now()
  local span = core.internals.span and core.internals.span("capture " .. h.place) -- a profile listens
  local dynamic = h.dynamic ~= false and (due.sizes or h.dynamic ~= nil or has_bounds(h))
  h.closures = h.closures or due.closures
  local warms = core._within_warmup(h.handle)
  local in_time = budget < huge and not warms
  local done, why = capture.run_with(core, h.handle, { closures = h.closures, dynamic = dynamic, sized = due.sized,
    bounds = h.bounds, custom = h.custom, clock = now, steps = warms and huge or nil,
    parts = h.parts or nil, may_cut = function() return parts_of(core, h) end,
    deadline = in_time and started + budget / 1e3 or nil }, h.fn, ...)
  if done and why.operations then
    h.does_enough = h.does_enough or capture.does_enough(why)
  end
  if done and h.parts and why.operations and not h.parts:captured(why, why.ended) then
    forget_parts(core, h)
    done, why = false, why.why
  end
  if not done and h.parts and why.cut then h.parts.whole:take_cells() end
  local cost = (now() - started) * 1e3
  if span then span() end
  core._tried(h.handle, done or why.raised ~= nil, not done and why.late or false)
  if not done and why.of_function and h.parts then
    h.parts.whole:has_own_globals()
    h.follow = h.parts.begins and h.parts:sets_globals() or nil
  end
  if done then
    h.captures = captured + 1
    if log.in_vain(core, h) then
      log.tell(core, h, 2, format("each call needs a capture of its own: %s", missed or "it is called in another way"),
        remedy, line)
    end
    return
  end
  if why.raised then return error(why.raised[1], 0) end -- the next call asks again
  if h.custom then why.hint = why.hint and why.hint .. "; " .. NOT_APPLIED or NOT_APPLIED end
  why.cost = cost
  why.uncut = why.uncut or why.cut and h.uncut
  why.text = abort_text(why)
  if h.stands then return end
  keep(h.aborts, why, ABORTS_KEPT)
  if h.fullgraph then
    if not why.late then core._wake(h.handle) end -- the next call raises, too
    fail(format("compile: fullgraph was asked for, but the function cannot be captured: %s", why.text))
  end
  if log.in_vain(core, h) or why.late and not h.told then
    log.tell(core, h, 2, why.reason, why.hint, why.file and (why.line and why.file .. ":" .. why.line or why.file))
  end
end

--- The names of a function's bounds, for a line of text.
local function bounds_text(h)
  local list = {}
  for path, is in pairs(h.bounds) do
    if is then list[#list + 1] = "`" .. path .. "`" end
  end
  sort(list)
  return #list > 0 and concat(list, ", ") or "its sizes"
end

function M.compile_function(core, f, opts, parts)
  if handle_of[f] then return f end
  local key = key_of(opts)
  local cache = compiled_by[key]
  if not cache then
    cache = setmetatable({}, { __mode = "kv" })
    compiled_by[key] = cache
  end
  if cache[f] then return cache[f] end
  capture = capture or core.internals.load "tycho.capture"
  local pick, handle, pick_again, checked, checked_again, tell = core._entry(f, opts.fast or false, recaptures)
  if parts and parts.carried then core._carries(handle, parts.carried) end
  local function compiled(...)
    local run, y = pick(...)
    if run then return run(...) end
    return y
  end
  local h = {
    handle = handle, fn = f, place = words.place(parts and parts.code or f), fast = opts.fast,
    fullgraph = opts.fullgraph,
    dynamic = opts.dynamic, custom = opts.custom, captures = 0, misses = {}, aborts = {},
    bounds = {}, parts = parts, whole = opts.parts == false,
  }
  handle_of[compiled] = h
  -- Runs in the wrapper's place, by a tail call, and leaves it in the same way. It must not hold the wrapper: the
  -- handle holds it while it is finalised, when the wrapper must be gone from the weak tables.
  core._captures(handle, function(...)
    local done, otherwise = nil, nil
    if not h.custom then done, otherwise = capture.resize(core, handle, f, ...) end
    if not done then
      capture_call(core, h, otherwise, ...)
    elseif log.in_vain(core, h) then
      log.tell(core, h, 1, "each value of " .. bounds_text(h) .. " needs a plan of its own", words.SIZE)
    end
    local run, y = pick_again(...)
    if run and h.follow then return h.follow(run, ...) end
    if run then return run(...) end
    return y
  end, not core.internals.capture.off)
  if recaptures then
    local function recapture(...) return require("tycho.capture.oracle").call(core, capture, h, ...) end
    core._recheck(handle, function(...) return recapture(tell, checked, ...) end,
      function(...) return recapture(tell, checked_again, ...) end)
  end
  cache[f] = compiled
  return compiled
end

local graph_meta = {}

function graph_meta.__tostring(g) return g.text end

local graphs_meta = {}

function graphs_meta.__tostring(list)
  local out = {}
  for i, g in ipairs(list) do
    out[i] = (#list > 1 and format("-- graph %d\n", i) or "") .. g.text
  end
  return concat(out, "\n")
end

--- The functions of this file over the C module.
function M.open(core)
  local api = {}
  fail = core.internals.error
  core.internals.disabled = disabled
  local show = require("tycho.arguments")(core).show

  --- A function that runs f's tensor operations in fused kernels, with the results of f to the bit. Compiling twice
  --- gives the same function. Options: fast = true lets the engine contract and re-associate for this function:
  --- results may then differ from eager in the last bits. fullgraph = true: a call that cannot be captured whole
  --- raises, and names the line. parts = false: what no trace holds whole runs as it is, instead of in parts. dynamic
  --- = true: a trace for any size from the start, or {x = {1}}: for these dims of an argument; false: sizes stay
  --- fixed. passes = {fn or name, ...} change each captured graph before it is compiled; backend = fn makes a
  --- function of it, to run instead.
  --- Raises where f is neither a function nor a module, an option is not known, or as fullgraph says.
  ---@param f function|table a function, or a module, which gives a callable table whose fields read and write through
  ---@param opts? tycho.CompileOptions
  ---@return function|table # of the same arguments and results
  function api.compile(f, opts)
    opts = check_options(opts)
    if opts.passes or opts.backend then
      local copy = {}
      for k, v in pairs(opts) do copy[k] = v end
      copy.custom = core.internals.load("tycho.graph").options(opts)
      opts = copy
    end
    if type(f) == "function" then return M.compile_function(core, f, opts) end
    if type(f) == "table" then
      if forward_of[f] then return f end
      if type(f.forward) == "function" then return compile_module(core, f, opts) end
    end
    fail(format("compile: argument 1 must be a function or a module with `forward`, got %s", show(f)))
  end

  --- For functions of the library: as compile, but no line tells of captures in vain, and nothing is captured under a
  --- stance of the user's.
  function core.internals.compile(f)
    local compiled = M.compile_function(core, f, { parts = false })
    handle_of[compiled].told = true
    return function(...)
      if stance == "default" then return compiled(...) end
      return f(...)
    end
  end

  --- The function that a compiled one was made of; nil: f is not compiled.
  local function original(f)
    local h = handle_of[forward_of[f] and forward_of[f]() or f]
    return h and h.fn
  end
  core.internals.original = original

  --- For C: what answers calls of a compiled function by its traces, without and with borrowed arguments.
  function core.internals.answers(f)
    local h = handle_of[f]
    return core._answers(h.fn, h.handle)
  end

  local modes = core.internals.modes

  --- What follows a call inside of a mode.
  local function leave(mode, ok, ...)
    modes.leave(mode)
    if not ok then return error(..., 0) end
    return ...
  end

  local function handle(who, f)
    local h = handle_of[forward_of[f] and forward_of[f]() or f]
    if not h then
      fail(format("%s: argument 1 must be a compiled function, got %s", who,
        type(f) == "function" and "a function that is not compiled (use jit.compile)" or show(f)))
    end
    return h
  end

  --- What a compiled function did: a table that prints in 25 lines at most; e:full() is the whole text, with guards,
  --- graphs and programs, e:table() a plain table. calls; nested (calls inside of other compiled functions); skips
  --- (calls that a trace answered: the function did not run); captures; timed (how many of these calls were timed,
  --- about one of 64), time (seconds that such a call took: the median of the last ones); traces, most recently used
  --- first: {key, guards, sizes (what was decided about them), effects, hits, dynamic, instances (sets of sizes),
  --- ranges (of sizes), no_range (why there is none), graph, plan (steps, outputs, pieces of the arena), sites (of
  --- the graph's nodes: "file:line", behind "<" in a backward pass, or false), seconds (of the plan's steps, the mean
  --- of so many runs: timed; nil where none was)}, and where a
  --- result needs a gradient: kept (what a call keeps for its backward pass: {what = "result", "input" or "constant",
  --- path, type, bytes, by (the operation whose gradient reads it)}), backward (its plans: {operations, kernels,
  --- steps, range (whether it is for a range of sizes)}); parts, where it is captured in parts, in the order of its
  --- code: {begins = "file:line", line, native (runs as it is), calls, skips, linked (skips that came straight from
  --- the part before), captures, timed, time, traces, aborts, ends[i] = {at = "file:line", line, reason, hint, where
  --- (the reason's "file:line")}, or {} for the function's end}; most_parts (at how many places it is cut, where there
  --- may not be more); misses, the last of them: {text, guard, path, was, now, line}, each compared with the trace
  --- whose guards agreed longest; aborts, the last of them: {text, file, line, reason, hint, cost in ms}. Of calls
  --- that ran and were recorded: signature_hits, signature_misses, evicted, differences, signatures[i] = {signature,
  --- hits, rests (runs eagerly for now, since recording does not pay), graphs = {{runs, text}}}. Traces and graphs
  --- tell their work: operations, operations_saved (that take no step of their own), kernels, steps, bytes_moved,
  --- bytes_saved.
  --- Raises where f is no compiled function.
  ---@param f function
  ---@return tycho.Explanation
  function api.explain(f)
    return core.internals.load("tycho.explain").of(core, handle("explain", f), handle_of)
  end

  --- Runs fn() and tells what each line of the user's source cost in kernels, of compiled functions as of eager
  --- operations: a table that prints well, hottest line first, then fn's results. A kernel that holds operations of
  --- several lines is shared among them, by what each costs, roughly; gradients count where their operation stands.
  --- A field `lines` has them as tables: {file, line, source, seconds, backward, runs, bytes, flops, share}. Where the
  --- trace cannot be written: nil and a message.
  --- Raises where fn is no function, and what fn raises, after the trace was written.
  ---@param fn function
  ---@param path? string of a trace to write for chrome://tracing or Perfetto, "trace.json", as ty.profile does
  ---@return tycho.LineProfile?, ...
  function api.profile(fn, path)
    core.internals.load "tycho.profile"
    return core.internals.profile_lines(fn, path)
  end

  --- Writes one page for a browser, which needs nothing else: the source's lines with what became of them, parts,
  --- guards, graphs, plans with the lifetimes of buffers, kernels as loop programs beside their machine code, times.
  --- Raises where f is no compiled function, or the path no string.
  ---@param f function compiled, and called at least once
  ---@param path string "f.html"
  ---@return true? written, string? message
  function api.view(f, path)
    local h = handle("view", f)
    if type(path) ~= "string" or path == "" then
      fail(format("view: argument 2 must be the path of a file, got %s", show(path)))
    end
    core._tells_code(true)
    local ok, e = pcall(api.explain, f)
    core._tells_code(false)
    if not ok then return error(e, 0) end
    local page = core.internals.load("tycho.view").page(e, h.fn)
    return core.internals.load("tycho.files")._native.write(path, { page })
  end

  --- Forgets the signatures and counters of a compiled function.
  --- Raises where f is no compiled function.
  ---@param f function
  function api.reset(f)
    local h = handle("reset", f)
    core._reset(h.handle)
    h.captures, h.misses, h.aborts, h.closures, h.told, h.tried_calls = 0, {}, {}, nil, nil, nil
    h.parts, h.stands = h.parts and h.parts.begins and h.parts or nil, nil
    core._stands(h.handle, nil)
  end

  --- Keeps a function from being captured: compiled functions that call it run as they are, recording what they do.
  --- Gives the function.
  --- Raises where f is no function.
  ---@param f function
  ---@return function
  function api.disable(f)
    if type(f) ~= "function" then fail("disable: argument 1 must be a function, got " .. show(f)) end
    disabled[f] = true
    return f
  end

  -- Machine code that is being made beside is waited for.
  local function settled(...)
    local cuda = package.loaded["tycho.cuda"]
    if type(cuda) == "table" then cuda.settle() end
    return ...
  end

  --- Calls f once so that later calls find their trace: no budget applies, and a capture that waits for its turn is
  --- tried; kernels that a device's driver assembles are waited for. Gives f's results; what f writes is written.
  --- Raises where f is no compiled function, and what f raises.
  ---@param f function a compiled function
  ---@param ... any what f is given
  ---@return any ... # what f gives
  function api.warmup(f, ...)
    local h = handle("warmup", f)
    core._wake(h.handle)
    return leave(modes.about(h.handle, "warmup"), settled(pcall(f, ...)))
  end

  --- How compiled functions are run: "default"; "eager": as if they were not compiled; "no_recompile": a call that
  --- would be captured again raises and says why. Without an argument nothing changes. Gives the stance so far.
  --- Raises for other names.
  ---@param name? "default"|"eager"|"no_recompile"
  ---@return string
  function api.stance(name)
    if name ~= nil and name ~= "default" and name ~= "eager" and name ~= "no_recompile" then
      fail(format("stance: argument 1 must be \"default\", \"eager\" or \"no_recompile\", got %s", show(name)))
    end
    stance = name or stance
    return core._stance(name)
  end

  --- How many milliseconds a capture may take inside a call; one that needs more is given up, and waits for warmup.
  --- math.huge, as it is at first: as many as it needs. Without an argument nothing changes. Gives the budget so far.
  --- Raises where it is no number from 0.
  ---@param ms? number
  ---@return number
  function api.budget(ms)
    if ms ~= nil and (type(ms) ~= "number" or ms ~= ms or ms < 0) then
      fail("budget: argument 1 must be a number of milliseconds, got " .. show(ms))
    end
    local was = budget
    budget = ms or budget
    return was
  end

  --- fn(...), in which operations raise when so many milliseconds are over: at their beginning, and within those that
  --- take their time, of which nothing is seen then. Of deadlines inside of each other the earliest holds. Lua code
  --- between operations, LAPACK and files are not looked at.
  --- Raises where ms is no number from 0 or fn no function; in operations when the time is over; and what fn raises.
  ---@param ms number
  ---@param fn function
  ---@param ... any what fn is given
  ---@return any ... # what fn gives
  function api.deadline(ms, fn, ...)
    if type(ms) ~= "number" or ms ~= ms or ms < 0 then
      fail("deadline: argument 1 must be a number of milliseconds, got " .. show(ms))
    end
    if type(fn) ~= "function" then fail("deadline: argument 2 must be a function, got " .. show(fn)) end
    return leave(modes.deadline(min(ms, 1e12)), pcall(fn, ...))
  end

  local start

  --- The call f(...) in slices of time, for frame loops: nothing has run yet. `run:step(microseconds)` goes on for so
  --- long and tells whether the call has ended (raises what it raises), `run:results()` gives its results then; results
  --- and effects of a plan appear together when it is done. What the call reads is as it was when it read it; where a
  --- tensor, field or variable that it writes has changed meanwhile, it raises and writes nothing. Compile f, and warm
  --- it up (jit.warmup): plans are stopped between tiles, Lua code and captures are not.
  --- Raises where f is neither a function nor a module; what f raises comes out of run:step.
  ---@param f function|table a compiled function, or one that calls such
  ---@param ... any what f is given
  ---@return tycho.Run # run.done tells whether the call has ended; methods: run:step, run:results, run:cancel
  function api.start(f, ...)
    start = start or core.internals.load("tycho.slices")(core)
    return start(f, ...)
  end

  local beside -- loaded when something is checked first

  --- Runs f as it is written beside every n-th call of the compiled function, and raises where a bit differs: of
  --- results, of what was written, of the random state. What the plain run changes is put back, but output and what C
  --- libraries keep: they happen twice. n = 0 or nil ends it. Not for functions compiled with {fast = true}, whose bits
  --- may differ.
  --- Raises where f is no compiled function, n no count, or f was compiled with {fast = true}; in calls where a bit
  --- differs.
  ---@param f function a compiled function
  ---@param n? integer
  function api.check(f, n)
    local h = handle("check", f)
    n = n or 0
    if type(n) ~= "number" or n < 0 or n % 1 ~= 0 then
      fail("check: argument 2 must be a whole number of calls, got " .. show(n))
    end
    if h.fast then fail("check: the function was compiled with {fast = true}: its bits may differ") end
    beside = beside or core.internals.load("tycho.jit_check")(core, function(fn)
      local other = handle_of[fn]
      return other and other.fn
    end)
    local compiled = forward_of[f] and forward_of[f]() or f
    core._check(h.handle, n, n > 0 and function(...)
      return leave(modes.about(h.handle, "check"), pcall(beside.call, h, compiled, ...))
    end)
  end

  --- Writes f as one C11 file and its header, which need no library: the same bits, in programs without Lua.
  --- Tensors among the arguments become pointers, numbers doubles; all else that f reads is frozen, weights too.
  --- Options, by name beside the arguments: weights = "inside" (the C file, as it is without) or "beside" (model.bin);
  --- name: of the functions, else the file's; outputs = {"y", ...}: names of results; dynamic = {x = {1}}: dims of
  --- arguments that callers of the C function give, or {x = {[1] = "rows"}} with their names; most = 1024: the
  --- largest of these sizes, 128 at least.
  --- Gives {source, header, weights (paths), inputs, outputs, workspace (bytes)}; nil and a message where a file cannot
  --- be written.
  --- Raises where f cannot be captured whole, writes to what is outside of it, is decided by a number among its
  --- arguments, or needs what C cannot be written for, and says what; where an option is not known or stands in
  --- another argument; nothing is written then.
  ---@param f function|table a function, compiled or not, or a module
  ---@param path string "model.c"; beside it stand model.h and perhaps model.bin
  ---@param given? table example arguments and options: {x, 0.5, weights = "beside"}
  ---@return table? written, string? message
  function api.export(f, path, given, ...)
    return core.internals.load("tycho.export").export(core, original, f, path, given, ...)
  end

  function api.pass(name, fn) return core.internals.load("tycho.graph").pass(name, fn) end

  --- The graph that f(...) records: a table of nodes {op, dtype, shape, src, live} with `text` and
  --- `dot`, printed as text. Where f demands a value there are several graphs, and a list of them is
  --- returned. f runs once; tensors that it writes to are put back, but not what it writes by set() or to
  --- memory whose address was taken.
  --- Raises where f is no function, and what f raises.
  ---@param f function
  ---@return tycho.Graph
  ---@param ... any what f is given
  function api.graph(f, ...)
    if type(f) == "table" and type(f.forward) == "function" then
      return api.graph(f.forward, f, ...)
    end
    if type(f) ~= "function" then
      fail("graph: argument 1 must be a function, got " .. type(f))
    end
    local list = core._graph(f, ...)
    for _, g in ipairs(list) do setmetatable(g, graph_meta) end
    if #list == 1 then return list[1] end
    return setmetatable(list, graphs_meta)
  end

  return api
end

return M
