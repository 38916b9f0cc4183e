--- random_scopes.lua -- random programs of coroutines that enter and leave modes, yield, resume others, fail, are dropped.
-- In: a seed, how many steps, what is called now and then. Out: nothing; raises where the modes in force are not those of
-- the model: each coroutine has a list of what it entered, and what holds is read off the lists of the chain of resumes,
-- from the outermost on.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local modes, level = H.internals.modes, H.internals.vmap.level
local create, resume, wrap, yield = coroutine.create, coroutine.resume, coroutine.wrap, coroutine.yield

local weight = ty.ones(2):requires_grad_()
local linear = ty.nn.Linear(2, 2)
local input = ty.ones(1, 2)

local function go(co)
  local ok, y = resume(co)
  if not ok then error(y, 0) end
  return y
end

--- Calls fn() with random numbers of its own, as checkpoint does in the backward pass.
local function with_random(seed, fn)
  local scope = modes.random(ffi.string(ffi.new("uint64_t[2]", seed, 0), 16))
  local ok, e = pcall(fn)
  modes.leave(scope)
  if not ok then error(e, 0) end
end

local OUT, DIE = "out of a scope", "out of the coroutine"

--- What tells of taping and autocast; a function of its own each time.
local function probe()
  return function(w, x) return (w * 2).requires_grad, linear(x).dtype, x + 1 end
end
local captured = ty.compile(probe())
local probes = { probe(), captured, H.lazy(probe()) }

--- Runs a program of so many steps; `rest` is called now and then.
local function program(seed, size, rest)
  local r, wrong = H.random(seed), nil
  local base = { seed = 1000 + seed, draws = 0 }
  local main = { scopes = {} }
  local chain, pool, left = { main }, {}, size
  local steps

  local function expected()
    local e = { grad = true, half = "f32", level = 0, random = base }
    for _, co in ipairs(chain) do
      for _, s in ipairs(co.scopes) do e[s[1]] = s[2] end
    end
    return e
  end

  --- Errors do not come out of coroutines that fail: the first one is kept.
  local function is(want, got, what)
    if want == got then return end
    wrong = wrong or ("program %d: %s is %s where the model has %s"):format(seed, what, tostring(got), tostring(want))
    error(wrong, 0)
  end

  local function observe()
    local e = expected()
    local grad, half = probes[r.whole(1, 3)](weight, input)
    is(e.grad, grad, "taping")
    is(e.half, half, "the dtype of products")
    is(e.level, level(), "the level")
    if r.whole(1, 2) == 1 then
      ty.rand(1)
      e.random.draws = e.random.draws + 1
    end
    is(("%016x%016x"):format(e.random.seed, e.random.draws), ty.random_state(), "the random state")
  end

  --- Enters by call(fn), and goes on inside.
  local function within(me, kind, value, call)
    local n = #me.scopes
    local ok, e = pcall(call, function()
      me.scopes[n + 1] = { kind, value }
      if kind == "level" then me.scopes[n + 1][2] = level() end
      steps(me)
    end)
    me.scopes[n + 1] = nil
    if not ok and e ~= OUT then error(e, 0) end
    observe()
  end

  local halves = { "bf16", "f16", "f32" }
  local enters = {
    function(me) within(me, "grad", false, ty.no_grad) end,
    function(me) within(me, "grad", true, ty.enable_grad) end,
    function(me)
      local half = halves[r.whole(1, 3)]
      within(me, "half", half, function(fn) ty.autocast(half, fn) end)
    end,
    function(me)
      within(me, "level", nil, function(fn)
        ty.vmap(function(x)
          fn()
          return x
        end, { randomness = "same" })(ty.ones(2))
      end)
    end,
    function(me)
      local own = { seed = r.whole(1, 1e6), draws = 0 }
      within(me, "random", own, function(fn) with_random(own.seed, fn) end)
    end,
  }

  --- The highest and the lowest level among what a coroutine entered.
  local function levels(co)
    local low, high
    for _, s in ipairs(co.scopes) do
      if s[1] == "level" then low, high = low or s[2], s[2] end
    end
    return low, high
  end

  --- Whether all vmaps would lie inside of earlier ones.
  local function in_order(co)
    local low = levels(co)
    for _, outer in ipairs(low and chain or {}) do
      local _, high = levels(outer)
      if high and high > low then return false end
    end
    return true
  end

  local function new()
    local co = { scopes = {} }
    local function body()
      steps(co)
      return "ended"
    end
    if r.whole(1, 2) == 1 then
      co.run = wrap(body)
    else
      local thread = create(body)
      co.run = function() return go(thread) end
    end
    return co
  end

  local function on(co)
    chain[#chain + 1], co.busy = co, true
    local ok, e = pcall(co.run)
    chain[#chain], co.busy = nil, false
    co.ended = not ok or e == "ended"
    if not ok and e ~= OUT and e ~= DIE then is("no error", e, "what came out of a coroutine") end
  end

  local function resume_one()
    local k = r.whole(1, 4)
    local co = pool[k]
    if not co or co.ended or not co.busy and r.whole(1, 8) == 1 then -- dropped where it stands
      co = new()
      pool[k] = co
    end
    if not co.busy and in_order(co) then on(co) end
    observe()
  end

  function steps(me)
    observe()
    for _ = 1, r.whole(1, 6) do
      left = left - 1
      if left < 0 then return end
      local what = r.whole(1, 20)
      if what <= 6 then
        enters[r.whole(1, #enters)](me)
      elseif what <= 12 then
        if #chain < 5 then resume_one() end
      elseif what <= 16 then
        if me ~= main then
          yield()
          observe()
        end
      elseif what == 17 then
        if r.whole(1, 2) == 1 and #me.scopes > 0 then error(OUT, 0) end
        if r.whole(1, 3) == 1 and me ~= main then error(DIE, 0) end
      elseif what == 18 then
        rest()
      else
        observe()
      end
    end
  end

  local state = ty.random_state()
  ty.random_state(("%016x%016x"):format(base.seed, 0))
  while left > 0 do
    left = left - 1
    local ok, e = pcall(steps, main)
    if not ok and e ~= OUT then wrong = wrong or ("program %d: %s"):format(seed, tostring(e)) end
  end
  pcall(observe)
  ty.random_state(state)
  if wrong then error(wrong, 0) end
end

return { program = program, captured = captured }
