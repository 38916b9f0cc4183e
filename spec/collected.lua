--- collected.lua -- programs while Lua's collector is at its worst: each allocation of a compiled call ends a whole cycle
-- of it, and a finaliser that does something of Tycho's runs in every one.
-- luajit spec/collected.lua ACTION [FIRST STEP | SPEC N]: in a process of its own, whose heap is small (collect_spec.lua starts it).
-- Prints how many cycles there were, or raises. ACTION: a row of `actions`, with which programs are run, the FIRST and every
-- STEP-th from there, or every N-th cell of a spec, by TEST_SEED which, with its own claims where the action leaves counts
-- alone; or a row of `by_hand`. TEST_SEED is what chance is made of, too.
--
-- A cycle ends in one step where setstepmul is huge, and the next begins with the next allocation where setpause is 0.

local T = require "spec.twins"
local H = require "spec.helper"
local ty = H.ty

local cycles, deep, act = 0, 0, nil

-- The collector -----------------------------------------------------------------------------------------------------

--- A finaliser that runs once in each cycle, and does what is to be done when a call of `around` is in progress.
local function arm()
  getmetatable(newproxy(true)).__gc = function()
    cycles = cycles + 1
    arm()
    if deep ~= 1 then return end
    deep = 2 -- what it allocates itself may end cycles, too
    local ok, why = pcall(act)
    deep = 1
    if not ok then
      if type(why) == "table" then error(why, 0) end -- on purpose
      print("an action failed: " .. tostring(why))
      os.exit(1)
    end
  end
end

local function back(...)
  deep = 0
  collectgarbage("setpause", 200)
  collectgarbage("setstepmul", 200)
  collectgarbage "restart"
  return ...
end

local function around(f, ...)
  if deep > 0 then return pcall(f, ...) end
  collectgarbage("setpause", 0)
  collectgarbage("setstepmul", 1e9)
  collectgarbage()
  deep = 1
  return back(pcall(f, ...))
end

-- What finalisers do ------------------------------------------------------------------------------------------------

local own = { -- worlds of the finalisers' own
  box = { n = 0, w = ty.ones(3, 3) / 4, list = {} }, x = ty.tensor { { 1, 2, 3 }, { 4, 5, 6 } },
  calls = 0, kept = ty.zeros(4),
}

local function stateful(box, x, k)
  box.n = box.n + 1
  local y = x:matmul(box.w) * k
  box.last = { y, n = box.n }
  x:add_(1)
  return y:sum(1), box.last, y:t()
end

local shared = ty.compile(stateful)
local other = ty.compile(function(x) return x[x:argmax()] + own.kept:sum() end)
local lazy = ty.compile(function(x)
  if x:sum():item() > 1e6 then return x end
  return x * 2
end)

--- One call of the shared function whose outcome is known.
local function call_shared()
  local box = { n = own.calls, w = own.box.w }
  own.calls = own.calls + 1
  local x = own.x:clone()
  local y, last = shared(box, x, 4)
  assert(box.n == own.calls and last == box.last and last.n == box.n)
  assert(y:get(1) == 21 and x:get(1, 1) == 2, "a call in a finaliser is wrong")
end

local turn = 0
local actions = {
  nothing = function() end,
  cycle = function() collectgarbage() end,
  step = function() collectgarbage("step", 10) end,
  restart = function()
    collectgarbage "restart"
    local _ = { {}, {}, ty.ones(2) }
  end,
  eager = function() assert((own.x + 1):sum():item() == 27) end,
  call = call_shared,
  sizes = function() -- captures, again and again
    turn = turn % 9 + 1
    assert(other(ty.arange(turn)):item() == turn - 1)
  end,
  lazy = function() assert(lazy(own.x):get(2, 3) == 12) end,
  compile = function()
    turn = turn + 1
    local k = turn
    local f = ty.compile(function(x) return x + k end)
    assert(f(own.x):get(1, 1) == 1 + k and f(own.x):get(1, 1) == 1 + k)
  end,
  reset = function()
    ty.reset(shared)
    if own.compiled then ty.reset(own.compiled) end
  end,
  again = function() -- nothing is left of the call in progress, and something else takes its place
    ty.reset(shared)
    if own.compiled then ty.reset(own.compiled) end
    call_shared()
    call_shared()
  end,
  warmup = function() ty.warmup(shared, { n = 1, w = own.box.w }, own.x:clone(), 4) end,
  explain = function()
    return ty.explain(shared):full(), own.compiled and tostring(ty.explain(own.compiled)), ty.stats()
  end,
  release = function()
    local x = ty.ones(100)
    local y = x + 1
    x:release()
    assert(y:get(100) == 2)
    y:release()
  end,
  scope = function()
    local y = ty.scope(function()
      local x = own.x * 2
      return x:t()
    end)
    assert(y:get(3, 2) == 12)
  end,
  data = function()
    local x = own.x:clone()
    assert(x:data()[5] == 6)
    x:add_(1)
    assert(x:data()[5] == 7)
  end,
  write = function()
    own.kept:add_(1)
    own.kept:sub_(1)
    own.kept[2] = 0
  end,
  graph = function()
    local ok, graph = pcall(ty.graph, function(x) return x * 2 + 1 end, own.x)
    assert(ok and #graph.text > 0 or not ok and graph:find "inside a compiled function")
  end,
  coroutine = function()
    local co = coroutine.wrap(function()
      call_shared()
      coroutine.yield()
      call_shared()
    end)
    co()
    if turn % 2 == 0 then co() end -- or it is left as it is
    turn = turn + 1
  end,
  random = function() end, -- replaced below: one of the others in turn
}

local names = {}
for name in pairs(actions) do
  if name ~= "random" then names[#names + 1] = name end
end
table.sort(names)
local random = H.random(H.seed + (tonumber(arg[2]) or 0))
actions.random = function() return actions[names[random.whole(1, #names)]]() end

--- After these the numbers of captures and of calls that were skipped are not those of the function alone.
local disturbs = { reset = true, again = true, random = true }

-- Programs ----------------------------------------------------------------------------------------------------------

-- Worlds as twins.lua makes them, called so often, or `few` times where a call has thousands of cycles (`H.cases`).
local programs = {
  effects = { 12, function(W)
    local box = { n = 0, w = ty.ones(3, 3) / 4 }
    W.f = stateful
    W.args = function() return box, ty.arange(6):reshape(2, 3), 3 end
    W.state = function() return box end
  end },
  ["the finalisers' own function"] = { 12, function(W)
    local box = { n = 0, w = ty.ones(3, 3) / 4 }
    W.f = W.is_twin and shared or stateful
    W.args = function() return box, ty.arange(6):reshape(2, 3), 3 end
    W.state = function() return box end
  end },
  ["results of all kinds"] = { 10, function(W)
    local meta = { __index = { k = 7 } }
    local key = {}
    W.f = function(x, s)
      local y = x * 2
      local t = setmetatable({ y, y, { x, s = s, deep = { { y:t() } } }, [2.5] = "kept" }, meta)
      return t, nil, "text", 7.5, y, t[3], x, false, t.k, key == s, y + 1, x - 1
    end
    W.args = function() return ty.arange(6):reshape(2, 3), W.i % 3 == 0 and "a" or "b" end
  end },
  ["closures, upvalues, varargs"] = { 10, function(W)
    local n, log = 0, {}
    local function note(v) n = n + 1 log[n] = v end
    W.f = function(x, ...)
      local function each(f, a, ...)
        if a == nil then return x end
        note(a)
        return f(each(f, ...), a)
      end
      return each(function(p, q) return p * q + n end, ...)
    end
    W.args = function() return ty.ones(3), 1, 2, W.i end
    W.state = function() return n, log end
  end },
  ["metamethods"] = { 10, function(W)
    local calls = 0
    local V = {}
    V.__index = function(t, k) calls = calls + 1 return rawget(t, "_" .. k) end
    V.__newindex = function(t, k, v) rawset(t, "_" .. k, v) end
    V.__add = function(a, b) return setmetatable({ _x = a.x + b.x }, V) end
    V.__call = function(t, y) return t.x * y end
    W.f = function(a, b)
      local c = a + b
      c.z = c.x * 2
      return c(3), c.z, c
    end
    W.args = function() return setmetatable({ _x = ty.ones(2) }, V), setmetatable({ _x = ty.arange(2) }, V) end
    W.state = function() return calls end
  end },
  ["writes in place"] = { 10, function(W)
    local s = { buffer = ty.zeros(4, 3), m = ty.ones(3) }
    s.row = s.buffer[2]
    W.f = function(x)
      s.row:add_(x)
      s.m:mul_(0.5):add_(x * x)
      s.buffer[{ {}, 1 }] = s.m:sum()
      s.last = s.buffer[3]
      return s.row, s.buffer:sum(), s.m
    end
    W.args = function() return ty.arange(3) end
    W.state = function() return s end
  end },
  ["sizes that change"] = { 16, function(W)
    W.f = function(x) return x:sort(), x[x:argmax()], x:softmax() end
    W.args = function() return ty.arange(W.i % 5 + 1) end
  end },
  ["random numbers"] = { 8, function(W)
    W.enter = function() ty.manual_seed(W.i) end
    W.f = function(x) return x + ty.rand(3), ty.randn(2):dropout(0.5) end
    W.args = function() return ty.ones(3) end
  end },
  ["values that are demanded"] = { 8, function(W)
    W.f = function(x)
      local y = x * 2
      if y:sum():item() > 3 then y = y + y:max() end
      return y, y:totable(), tostring(y), y:nonzero(), (y:unique())
    end
    W.args = function() return ty.arange(4) - W.i end
  end, few = 2 },
  ["errors"] = { 8, function(W)
    local n = 0
    W.f = function(x, k)
      n = n + 1
      if k > 2 then error({ code = k }) end
      if k > 1 then return x:matmul(ty.ones(7, 7)) end
      return x[k]
    end
    W.args = function() return ty.ones(2), W.i % 4 end
    W.state = function() return n end
  end },
  ["coroutines"] = { 6, function(W)
    local function steps(x)
      for i = 1, 3 do coroutine.yield(x * i) end
      return x + 1
    end
    local compiled = W.is_twin and ty.compile(steps) or steps
    W.f = function(x)
      local co, out = coroutine.wrap(compiled), {}
      for i = 1, 4 do out[i] = co(x) + 0 end
      return out
    end
    W.args = function() return ty.ones(2) * W.i end
  end },
  ["a backend and passes"] = { 8, function(W)
    W.options = W.is_twin and { backend = function(graph) return function(...) return graph:run(...) end end,
      passes = { function() end } }
    W.f = function(x, k) return (x * k):exp(), x + 1 end
    W.args = function() return ty.arange(5), 2 end
  end, few = 2 },
  ["modules and self"] = { 8, function(W)
    local L = {}
    L.__index = L
    function L:forward(x) self.seen = (self.seen or 0) + 1 return x:matmul(self.w) + self.b end
    local layers = {}
    for i = 1, 4 do layers[i] = setmetatable({ w = ty.ones(3, 3) / (i + 1), b = ty.ones(3) }, L) end
    W.f = function(x)
      for _, layer in ipairs(layers) do x = layer:forward(x):relu() end
      return x
    end
    W.args = function() return ty.ones(2, 3) end
    W.state = function() return layers end
  end },
}

local function run_program(name, hooked)
  local all, build, few = programs[name][1], programs[name][2], programs[name].few
  local calls = H.cases(few or math.ceil(all / 2), all)
  local made = 0
  local options
  local pair = T.pair(function(W)
    made = made + 1
    W.is_twin, W.i = made == 2, 1
    build(W)
    options = W.options or nil
  end)
  if options then pair.compiled = ty.compile(pair.twin.f, options) end
  own.compiled = pcall(ty.explain, pair.compiled) and pair.compiled or nil
  for i = 1, calls do
    pair:each(function(W) W.i = i end)
    pair:call(hooked and i % 4 == 3) -- by a hook there are cycles between lines, and between a call's two halves
  end
end

-- Cells of other specs ----------------------------------------------------------------------------------------------

--- busted's words, enough of them: every `part`-th cell is run.
local function run_spec(file, part, exact)
  local count, ran, after = 0, 0, {}
  local words = setmetatable({}, { __index = _G })
  function words.describe(_, body) body() end
  function words.after_each(fn) after[#after + 1] = fn end
  words.setup, words.pending = function(fn) fn() end, function() end
  function words.it(name, body)
    count = count + 1
    if (count + H.seed) % part ~= 0 then return end
    ran = ran + 1
    local ok, why = pcall(body)
    if not ok then error(("%s: %s"):format(name, tostring(why)), 0) end
    for _, fn in ipairs(after) do fn() end
  end
  local claims = {
    truthy = function(v, why) return v, why end,
    equal = function(a, b, why) return a == b, why or ("%s is not %s"):format(tostring(b), tostring(a)) end,
    same = function(a, b, why) return T.text({ a }, 1) == T.text({ b }, 1), why end,
  }
  words.assert = setmetatable({}, { __call = function(_, ...) return assert(...) end, __index = function(_, k)
    return function(...)
      local ok, why = claims[k](...)
      if exact and not ok then error(why or "a claim fails", 2) end
    end
  end })
  setfenv(assert(loadfile(H.root .. "spec/" .. file .. ".lua")), words)()
  assert(ran > 0)
end

-- What finalisers break ---------------------------------------------------------------------------------------------

local by_hand = {}

--- Whether an error of a finaliser reaches what it interrupts. Current hosts print it.
local function reaches()
  local proxy = newproxy(true)
  getmetatable(proxy).__gc = function() error("a finaliser raises", 0) end
  proxy = nil -- luacheck: ignore
  local ok = pcall(collectgarbage)
  return not ok
end

--- Finalisers raise, so allocations do: a call that a trace answers is then either done or not begun.
function by_hand.raise()
  local box, x = { n = 0, w = ty.ones(3, 3) / 4 }, ty.zeros(2, 3)
  local f = ty.compile(stateful)
  for _ = 1, 3 do f(box, x, 2) end
  local raised, before = 0, ty.explain(f).skips
  actions.raise = function()
    if random.unit() < 0.1 then error({ "on purpose" }, 0) end
  end
  act = actions.raise
  for i = 1, 300 do
    local n, last, first = box.n, box.last, x:get(1, 1)
    local ok, y, t = around(f, box, x, i)
    if ok then
      assert(box.n == n + 1 and box.last == t and t.n == box.n and x:get(1, 1) == first + 1)
      assert(y:get(1) == (first * 3 / 4) * i * 2, "a wrong result")
    else
      assert(type(y) == "table" and y[1] == "on purpose", tostring(y))
      assert(box.n == n and box.last == last and x:get(1, 1) == first, "half a call was done")
      raised = raised + 1
    end
  end
  if reaches() then assert(raised > 50 and raised < 250, raised) else assert(raised == 0, raised) end
  assert(ty.explain(f).skips - before == 300 - raised)
  local g = ty.compile(function(v) return v + 1, v:t() end, { dynamic = true })
  for i = 1, 60 do around(g, ty.ones(i % 12 + 1, 2)) end
  act = actions.nothing
  for i = 1, 14 do g(ty.ones(i, 2)) g(ty.ones(i, 2)) end
  local skips = ty.explain(g).skips
  for i = 1, 12 do assert(select(2, g(ty.ones(i, 2))).shape[2] == i) end
  assert(ty.explain(g).skips == skips + 12, "errors of finalisers have spoilt a trace")
end

--- What a finaliser counts down and a compiled function counts up.
function by_hand.counters()
  local live, gone, box = 0, 0, { n = 0, list = {} }
  local f = ty.compile(function(x)
    live = live + 1
    box.n = box.n + 1
    box.list[box.n % 3 + 1] = { x, live }
    return x * live, { x }
  end)
  act = function()
    live, gone = live - 1, gone + 1
    box.n = box.n - 1
  end
  for i = 1, 200 do
    around(f, ty.ones(2))
    assert(live == i - gone and box.n == i - gone, "a finaliser's count is lost")
  end
  assert(gone > 200 and ty.explain(f).skips > 100)
end

--- What the collector finds garbage is called once more, by finalisers that come before or behind those of its parts.
function by_hand.dead()
  local called = 0
  for i = 1, 60 do
    local f
    local function proxy()
      getmetatable(newproxy(true)).__gc = function()
        for _ = 1, 3 do assert(f(ty.ones(3)):get(1) == 3) end
        pcall(ty.explain, f)
        pcall(ty.reset, f)
        pcall(ty.warmup, f, ty.ones(3))
        called = called + 1
      end
    end
    if i % 2 == 0 then proxy() end
    f = ty.compile(function(x) return x + 2 end)
    for _ = 1, i % 4 do f(ty.ones(3)) end
    if i % 2 == 1 then proxy() end
  end
  collectgarbage()
  collectgarbage()
  assert(called == 60)
end

--- jit.reset lets go of all that traces held.
function by_hand.forgotten()
  local seen = setmetatable({}, { __mode = "k" })
  local f = ty.compile(function(x, t) return x * t.k, t end)
  for _ = 1, 40 do
    local t = { k = ty.ones(2) }
    seen[t], seen[t.k] = true, true
    local function g(x) return x, t end
    seen[g] = true
    local h = ty.compile(function(x) return g(x), f(x, t) end)
    seen[h] = true
    for _ = 1, 3 do h(ty.ones(2)) end
    ty.reset(h)
    ty.reset(f)
  end
  local function left()
    collectgarbage()
    collectgarbage()
    local n = 0
    for _ in pairs(seen) do n = n + 1 end
    return n
  end
  assert(left() <= 8, left()) -- the last round may stand on the stack
  local count = collectgarbage "count"
  for i = 1, 400 do
    f(ty.ones(2), { k = i })
    if i % 2 == 0 then ty.reset(f) end
  end
  left()
  assert(collectgarbage "count" - count < 100, "resets leave something behind")
end

--- LuaJIT drives the collector on whenever compiled Lua code is left while finalisers wait, even where it is stopped: so
--- they run while a function is captured. Ours let go of what records kept, of modes that nobody can leave any more;
--- those of users count in a tensor where the second word says so. Whether it happens depends on which code LuaJIT
--- compiles, and that on where things lie.
function by_hand.waiting()
  local counts = arg[2] == "counts"
  local C, within, inside, gone, log = ty.internals.capture, false, 0, 0, ty.zeros(3)
  local session, finish = C.session, C.finish
  local function leave(...) within = false return ... end
  C.session = function(...) within = true return leave(session(...)) end
  C.finish = function(...)
    local done, work, time = finish(...)
    within = within and not done
    return done, work, time
  end
  local function proxies(n)
    for _ = 1, n do
      getmetatable(newproxy(true)).__gc = function()
        gone = gone + 1
        if within then inside = inside + 1 end
        if not counts then return end
        log:add_(1)
        assert(log:sum():item() == 3 * gone, "a finaliser reads something else than it wrote")
      end
    end
  end
  jit.on()
  local w, at, rounds = ty.randn(7, 6):requires_grad_(), ty.tensor({ 3, 1, 2 }, { dtype = "i64" }), 0
  for _ = 1, 300 do -- composites become compiled code
    w:layer_norm()
    ty.silu(w)
    ty.gelu(w)
    w:var(1)
  end
  local function abandoned()
    local function wait() ty.no_grad(coroutine.yield) end
    coroutine.wrap(wait)()
  end
  local function round()
    local function f(x, i)
      local y = x:index_select(1, i)
      local loss = ((ty.silu(y) + y:layer_norm() + y:var(1) + ty.gelu(y)) * rounds):square():sum()
      loss:backward()
      return loss:detach(), x.grad:clone()
    end
    collectgarbage()
    collectgarbage()
    w.grad, gone = nil, 0
    log:zero_()
    proxies(150)
    w:index_select(1, at) -- its record keeps the positions, until its handle is collected
    abandoned() -- its mode is the latest until it is collected
    proxies(150)
    repeat collectgarbage("step", 0) until gone > 0
    local loss, g = ty.compile(f)(w, at)
    assert((w * 2).requires_grad, "a mode was lost")
    w.grad = nil
    local want, g_want = f(w, at)
    assert(loss:equal(want) and g:equal(g_want), "a wrong result")
    assert(log:get(1) == (counts and gone or 0), "a finaliser's count is lost")
  end
  repeat
    rounds = rounds + 1
    if inside == 0 and rounds % 30 == 0 then jit.flush() end -- other code may do
    ty.no_grad(function()
      ty.enable_grad(round)
      assert(not (w * 2).requires_grad, "a mode was lost")
    end)
  until inside > 300 or rounds == 500
  cycles = inside
end

--- Every function of the module, while finalisers release and rewrite what it works on. Nothing is claimed but that
--- the process lives (and no sanitizer complains).
function by_hand.hostile()
  local x, at, mask
  local function fresh()
    x, at = ty.tensor { { 3, 1, 2 }, { 6, 5, 4 }, { 7, 9, 8 } }, ty.tensor { { 1, 2, 3 }, { 2, 3, 1 }, { 3, 1, 2 } }:to "i64"
    mask = x:gt(4)
  end
  local deeds = {
    function() x:release() at:release() mask:release() end,
    function() x:add_(1) mask:copy_(mask:bitwise_not()) at:copy_(at:flip()) end,
    function() x:data() at:data() mask:data() end,
    function() collectgarbage() x:release() at:release() end,
    function() collectgarbage "restart" x:release() at:release() mask:release() end,
    function() collectgarbage "restart" at:copy_(at:flip()) x:copy_(x:t()) mask:copy_(x:lt(5)) end,
  }
  local skip = {}
  for name in ([[release save load help print set_print threads blas precision from_ptr manual_seed default_dtype device budget
    stance compile disable pass check lint stats deterministic]]):gmatch "%S+" do skip[name] = true end
  local functions = { index = function(a, k) return a[k] end, write = function(a, k, v) a[k] = v or 1 end }
  for _, list in ipairs { ty, ty.internals.methods, ty.linalg or {}, ty.internals.metatable or {} } do
    for name, fn in pairs(list) do
      if type(fn) == "function" and not skip[name] and not name:find "^_[^_]" and name ~= "__gc" then functions[name] = fn end
    end
  end
  local compiled = ty.compile(function(a, i, m) return a:gather(2, i) + a:sum(), m:where(a, 0), { a, a:t() } end)
  functions["a compiled function"] = function() return compiled(x, at, mask) end
  local order = {}
  for name in pairs(functions) do order[#order + 1] = name end
  table.sort(order)
  local calls = {
    function(fn) return fn(x) end, function(fn) return fn(x, 1) end, function(fn) return fn(x, x) end,
    function(fn) return fn(x, 1, at) end, function(fn) return fn(x, at) end, function(fn) return fn(x, mask) end,
    function(fn) return fn({ x, x, x }, 1) end, function(fn) return fn(x, 1, at, x) end, function(fn) return fn(mask, x, x) end,
    function(fn) return fn(x, { at, 1 }) end, function(fn) return fn(x, { {}, at[1] }, x[1]) end,
    function(fn) return fn(x, function(v) return v + x end) end,
  }
  local round = tonumber(arg[2]) or H.seed
  for i, name in ipairs(order) do
    for k, call in ipairs(calls) do
      local deed = deeds[(i + k + round) % #deeds + 1]
      local done = 0
      act = function()
        done = done + 1
        if done == (i + round) % 3 + 1 then pcall(deed) end
      end
      if (i + k + round) % 2 == 0 and H.share(i, 8) then
        if not H.long then pcall(call, functions[name]) end -- a part of the library that it loads has most of the cycles
        fresh()
        around(call, functions[name])
      end
    end
  end
end

-- The run -----------------------------------------------------------------------------------------------------------

local action, program, step = arg[1], arg[2], tonumber(arg[3])
local is_spec = program and not tonumber(program) and step
jit.off() -- cycles end where the interpreter allocates
call_shared()
if by_hand[action] then
  act = actions.nothing
  arm()
  by_hand[action]()
elseif is_spec then
  act = actions[action]
  arm()
  local pair = T.pair
  T.pair = function(...)
    local p = pair(...)
    own.compiled = p.compiled
    if disturbs[action] then -- nothing to settle
      p.settle = function(self) return true, self:call() end
    end
    return p
  end
  T.around = around
  run_spec(program, step, not disturbs[action])
else
  act = actions[action]
  arm()
  T.around = around
  local list = {}
  for name in pairs(programs) do list[#list + 1] = name end
  table.sort(list)
  for i = tonumber(program) or 1, #list, step or 1 do
    local name = list[i]
    local ok, why = pcall(run_program, name, action == "nothing")
    if not ok then error(("%s: %s"):format(name, tostring(why)), 0) end
  end
end
print(("%d cycles"):format(cycles))
