-- Random Lua functions whose compiled calls are disturbed: debug hooks that raise, use tensors or yield, failing allocations.
--   luajit spec/fuzz_hooks.lua [programs = 2000] [seed = 1] [only this program]
-- A program (fuzz_world.lua) is loaded twice, which gives two equal worlds; in one its `main` is called as it is, in the
-- other through jit.compile, while a disturbance of a random kind begins after a random number of instructions. Then:
-- 1. What a hook raises while no code of the program's runs comes out, the very value, and the world is that before the
--    call; so the call is made again, and all that follows is as in the plain world. If Lua was skipped already, the world
--    is the one after the call.
-- 2. What a hook raises while code of the program's runs natively leaves it where it is: nothing can be compared any more.
-- 3. Where nothing is raised, results and worlds are the plain ones. What a hook does with tensors is done at once.
-- 4. After each call no mode, session, collector or hook is left otherwise than it was (hooked.lua).

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, gen = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_world.lua")
local moment, hooked = dofile(here .. "/account.lua")(ty), dofile(here .. "/hooked.lua")(ty, dofile(here .. "/module.lua"))
local C = hooked.C

if jit.off then jit.off(true, true) end

local function pack(...) return { n = select("#", ...), ... } end

local counts = { calls = 0, raised = 0, inside = 0, native = 0, after = 0, used = 0, ended = 0, starved = 0, crossed = 0,
  caught = 0, captures = 0, skips = 0, yields = 0 }

-- --- what a hook does

local TOKEN = {}

--- Whether a frame of the library's is of a call of the program's main: what main called last, as `return g(x)`, stands
--- in its place, and so does what comes behind its first part. Where main has parts, the first one may be done.
local function is_of_main(top, state)
  if top.source:find("/capture/", 1, true) then return false end
  if top.func == state.compiled then return state.whole end
  if not top.source:find("compile.lua", 1, true) then return true end
  for k = 1, 60 do
    local name, value = debug.getupvalue(top.func, k)
    if name == "h" then return value.fn == state.main and not value.parts end
  end
  return false
end

--- Where a hook runs: in "native" code of the program's or a coroutine of its own, in the "library" under the call, or
--- nowhere there: nil.
local function place_of(state)
  if coroutine.running() ~= state.co then return state.called and "native" or nil end
  for level = 3, 1000 do
    local info = debug.getinfo(level, "Sf")
    if not info then return nil end
    if info.source == "=program" then return "native" end
    if info.func == state.call then
      return is_of_main(debug.getinfo(level - 1, "Sf"), state) and "library" or "native"
    end
  end
end

--- A hook that raises once, and where it did.
local function raising(state)
  return function()
    local place = place_of(state)
    if not place then return end
    debug.sethook()
    state.raised = place
    error(TOKEN, 0)
  end
end

--- A hook that works with tensors of its own, `most` times; what is not as it must be goes to state.wrong.
local function using(state, r, most)
  local v, w = ty.zeros(3), ty.ones(3):requires_grad_()
  local known = ty.compile(function(x) return x * 2, x + 1 end)
  known(v)
  local works = {
    function(n) return v:add_(1):sum():item() == 3 * n end,
    function() return (w * 2).requires_grad and ty.no_grad(function() return not (w * 2).requires_grad end) end,
    function()
      w.grad = nil;
      (w * w):sum():backward()
      return w.grad:sum():item() == 6
    end,
    function()
      local a, b = known(ty.ones(2))
      return a:sum():item() == 4 and b:sum():item() == 4
    end,
    function() return ty.compile(function(x) return x * 3 end)(ty.ones(2)):get(1) == 3 end,
    function() return ty.vmap(function(x) return x:sum() end)(ty.ones(2, 3)):sum():item() == 6 end,
    function() return ty.scope(function() return ty.ones(3):matmul(ty.ones(3)) end):item() == 3 end,
    function() return coroutine.wrap(function() return (ty.ones(2) + 1):sum():item() end)() == 4 end,
    function() return #v.shape == 1 and w.is_leaf end,
  }
  local n, added = 0, 0
  return function()
    n = n + 1
    if n > most then return debug.sethook() end
    local captured = hooked.is_captured()
    local work = works[r(#works)]
    if work == works[1] then added = added + 1 end
    local right
    if captured then right = work(added)
    else right = ty.enable_grad(ty.autocast, false, work, added) end -- the program's modes are the hook's, too
    if not right then state.wrong = "what a hook computes is wrong" end
    if v:get(1) ~= added then state.wrong = "what a hook writes is lost, or there twice" end
    counts.used = counts.used + 1
    if captured then counts.ended = counts.ended + 1 end
  end
end

--- Up to `most`, small ones as often as large ones.
local function places(r, most) return math.floor(most ^ (r(1000) / 1000)) end

--- The kinds of disturbance: each begins, and gives what ends it.
local kinds = {
  function(state, r) -- after some instructions
    debug.sethook(raising(state), "", places(r, 20000))
    return debug.sethook
  end,
  function(state, r) -- at some call, return or line
    local raise, left = raising(state), places(r, 2000)
    debug.sethook(function()
      left = left - 1
      if left <= 0 then raise() end
    end, ({ "c", "r", "l", "cr" })[r(4)])
    return debug.sethook
  end,
  function(state, r)
    debug.sethook(using(state, r, 6), "", places(r, 8000))
    return debug.sethook
  end,
  function(state, r) -- the first instructions, one by one
    debug.sethook(using(state, r, 20 + r(60)), r(2) == 1 and "l" or "", 1)
    return debug.sethook
  end,
}
if C then
  kinds[#kinds + 1] = function(state, r)
    local raise = raising(state)
    C.hook("call", raise, ({ "", "l", "c" })[r(3)], places(r, 20000))
    return debug.sethook
  end
  kinds[#kinds + 1] = function(state, r)
    local use, skip = using(state, r, 8), places(r, 300)
    C.hook("call", function()
      skip = skip - 1
      if skip <= 0 then use() end
    end, ({ "", "l", "c" })[r(3)], places(r, 300))
    return function()
      C.hook()
      debug.sethook()
    end
  end
  kinds[#kinds + 1] = function(state, r)
    jit.off() -- LuaJIT itself crashes where its trace compiler gets no memory, and where a trace allocates
    jit.flush()
    local after, times = places(r, 600), r(3) == 1 and r(3) or 1
    state.starve = function() C.starve(after, times) end
    return jit.on
  end
  kinds[#kinds + 1] = function(state, r, in_thread) -- a call in a coroutine yields again and again
    state.yields = in_thread and places(r, 500) or nil
    return debug.sethook
  end
end

-- --- calls

--- Its arguments, once there is memory again.
local function fed(...)
  if C then C.starve() end
  return ...
end

--- A call in a coroutine, resumed until it ends; a hook of C's yields every so many instructions.
local function in_coroutine(yields, f, ...)
  local co = coroutine.create(f)
  local function turn(...)
    if yields then C.hook("yield", co, "", yields) end
    local results = pack(fed(coroutine.resume(co, ...)))
    if yields then C.hook() end
    return results
  end
  local results = turn(...)
  while coroutine.status(co) == "suspended" do
    counts.yields = counts.yields + 1
    results = turn()
  end
  return unpack(results, 1, results.n)
end

--- One that nothing disturbs.
local function called(f, args, mode)
  if mode.thread then return pack(in_coroutine(nil, f, unpack(args, 2, args.n))) end
  return pack(pcall(f, unpack(args, 2, args.n)))
end

--- The outside world, and arguments, as text.
local function picture(roots, said, args)
  local a = moment.new()
  if args then a:list(unpack(args, 2, args.n)) end
  a:list(roots())
  a:add(table.concat(said, ";"))
  a:add(ty.random_state():gsub(".", function(c) return ("%02x"):format(c:byte()) end))
  return a:text()
end

--- Call i of main, in either world. The numbers of math.random are the call's: what a hook raises may come when some were
--- drawn, and nobody can put those back.
local function begin_call(i) math.randomseed(7 + i) end

local function results_text(results, log)
  local a = moment.new()
  a:list(unpack(results, 1, results.n))
  a:list(log)
  return (a:text():gsub("fuzz_hooks%.lua:%d+:", "fuzz_hooks.lua:")) -- a tail call raises at its caller's line, which is here
end

--- The plain run: for each call its results and the world after it, as text.
local function plain(text)
  local main, steps, roots, log, said, mode = gen.load(ty, text, false)
  local moments, prev = {}, nil
  for i, step in ipairs(steps) do
    for k = #log, 1, -1 do log[k] = nil end
    mode.thread = false
    local results = pack(pcall(step, prev))
    if results[1] then
      begin_call(i)
      results = called(main, results, mode)
    end
    gen.keep(results, log, said, roots())
    moments[i] = { results = results_text(results, log), world = picture(roots, said) }
    prev = results
  end
  return moments
end

--- One disturbed call. Its results, and what the disturbance knows.
local function disturbed(f, main, args, mode, r)
  local state, results = { compiled = f, main = main, whole = #ty.explain(f).parts == 0 }, nil
  local function call(...)
    state.co, state.called = coroutine.running(), true
    if state.starve then state.starve() end
    return fed(f(...))
  end
  state.call = call
  local stop = debug.sethook
  pcall(function() -- a hook may raise while it is taken away
    local begin = kinds[r(#kinds)]
    stop = begin(state, r, mode.thread)
    if mode.thread then results = pack(in_coroutine(state.yields, call, unpack(args, 2, args.n)))
    else results = pack(fed(pcall(call, unpack(args, 2, args.n)))) end
    stop()
  end)
  stop()
  if state.starve then counts.starved = counts.starved + 1 end
  return results or { false, TOKEN, n = 2 }, state
end

--- The compiled run beside the account of the plain one: what differs, or nil.
local function compiled(text, want, r)
  local main, steps, roots, log, said, mode = gen.load(ty, text, true)
  local f = ty.compile(main)
  local prev
  for i, step in ipairs(steps) do
    for k = #log, 1, -1 do log[k] = nil end
    mode.thread = false
    local args = pack(pcall(step, prev))
    local results, state = args, {}
    if args[1] then
      counts.calls = counts.calls + 1
      local before = picture(roots, said, args)
      begin_call(i)
      if r(3) > 1 then results, state = disturbed(f, main, args, mode, r)
      else results = called(f, args, mode) end
      local left = hooked.whole()
      if left then return ("call %d: %s"):format(i, left) end
      if state.wrong then return ("call %d: %s"):format(i, state.wrong) end
      if state.raised == "native" then
        counts.native = counts.native + 1
        return nil, f
      end
      local text_of_error = tostring(results[2])
      -- in the program's sort or gsub, where its own pcall may catch it
      local crossed = "attempt to yield across"
      if text_of_error:find(crossed, 1, true) or results_text(results, log):find(crossed, 1, true) then
        counts.crossed = counts.crossed + 1
        return nil, f
      end
      if state.starve and not results[1] and text_of_error:find "memory" then return nil, f end
      if state.starve and (results_text(results, log) ~= want[i].results or picture(roots, said) ~= want[i].world) then
        counts.caught = counts.caught + 1
        return nil, f -- code of the program's has caught the error
      end
      if state.raised == "library" then
        counts.raised = counts.raised + 1
        if results[1] or results[2] ~= TOKEN then
          return ("call %d: what a hook raised is lost: %s"):format(i, text_of_error)
        end
        if picture(roots, said, args) ~= before then
          counts.after = counts.after + 1
          local now = picture(roots, said)
          if now ~= want[i].world then return ("call %d is half done"):format(i), want[i].world, now end
          return nil, f
        end
        counts.inside = counts.inside + 1
        begin_call(i)
        results = called(f, args, mode)
      end
    end
    local told, world = results_text(results, log), picture(roots, said)
    if told ~= want[i].results then return ("call %d gives something else"):format(i), want[i].results, told end
    if world ~= want[i].world then return ("call %d leaves another world"):format(i), want[i].world, world end
    prev = results
  end
  return nil, f
end

local function check(program)
  local text = gen.render(program.tree)
  return compiled(text, plain(text), frame.random(program.seed, 1024))
end

--- want and got: the accounts that differed at first, for programs that do so once only.
local function report(program, want, got)
  print(gen.render(program.tree))
  local ok, now, want_again, got_again = pcall(check, program)
  if not ok then return print(now) end
  if now then want, got = want_again, got_again end
  print(now or "it no longer differs; at first:")
  if not want or not got then return end
  local at = 1
  while want:sub(at, at) == got:sub(at, at) do at = at + 1 end
  at = math.max(1, at - 60)
  print(("plain:    %s\ncompiled: %s"):format(frame.readable(want:sub(at, at + 160), 1000), frame.readable(got:sub(at, at + 160), 1000)))
end

require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

local fuzz = frame.fuzzer("fuzz_hooks", 2000, {
  make = function(seed) return { tree = gen.make(seed), seed = seed } end,
  show = function(program) return gen.render(program.tree) end,
  check = check, report = report,
  passed = function(_, _, f)
    if not f then return end
    local e = ty.explain(f)
    counts.captures, counts.skips = counts.captures + e.captures, counts.skips + e.skips
  end,
})
fuzz:run(1000)

fuzz:claim(fuzz.failures == 0, "%d programs show something wrong", fuzz.failures)
if fuzz:ran(200) then
  fuzz:claim(counts.inside >= 0.1 * fuzz.programs, "%d hooks raised in captures, one for each ten programs", counts.inside)
  fuzz:claim(counts.ended >= 0.2 * fuzz.programs, "%d hooks used tensors in captures, one for each five programs", counts.ended)
  local left = counts.crossed + counts.caught
  fuzz:claim(left <= 0.03 * fuzz.programs, "%d programs are left early, one of thirty at most", left)
  fuzz:claim(counts.captures >= 0.3 * fuzz.programs, "%d captures, one for each three programs", counts.captures)
end
print(("fuzz_hooks: %d programs, seed %d: %d calls; hooks raised %d times in the library (%d before a call's effects, %d after them), %d "
  .. "in programs; used tensors %d times, %d in captures; yielded %d times; %d calls without memory; left early for a yield "
  .. "across C %d, for an error of memory that the program caught %d; captures %d, %d calls "
  .. "answered without Lua; %.0f s"):format(fuzz.programs, fuzz.seed, counts.calls, counts.raised, counts.inside, counts.after,
  counts.native, counts.used, counts.ended, counts.yields, counts.starved, counts.crossed, counts.caught, counts.captures,
  counts.skips, fuzz:seconds()))
fuzz:leave()
