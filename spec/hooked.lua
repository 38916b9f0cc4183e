--- hooked.lua -- calls that are interrupted between any two instructions, and what must hold afterwards.
-- In: ty; module.lua's. Out: C, what hosts do from C (hooks.c; nil without LuaJIT's headers); whole(), which tells what is not as it was
-- before; programs, each of which enters something that it must leave; interrupt(), which runs one of them so.
--
-- An interruption is a debug hook that raises, called by Lua or without a frame; a signal; an allocation that fails.

return function(ty, module)
  local M = {}
  local grad, vmap = ty.internals.grad, ty.internals.vmap

  -- What hosts do from C -----------------------------------------------------------------------------------------------

  local headers = module.headers()
  M.C = headers and assert(package.loadlib(module.build("hooks",
    ("-std=c11 -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -I'%s'"):format(headers)), "luaopen_hooks"))()

  -- What must hold -----------------------------------------------------------------------------------------------------

  --- A tensor's elements as text.
  function M.values(t) return table.concat(t:detach():reshape(-1):totable(), " ") end

  --- Nil, or what an interruption has left behind: modes, a session, the collector, a profile, hooks.
  ---@return string?
  function M.whole()
    if debug.gethook() then return "a hook is set" end
    if not grad.mode() or not (ty.ones(2):requires_grad_() * 2).requires_grad then return "nothing is taped" end
    if vmap.level() ~= 0 then return "a vmap's level is open" end
    if ty._half() then return "autocast is in force" end
    if not collectgarbage "isrunning" then return "the collector stands still" end
    if ty.stance() ~= "default" then return "the stance is another one" end
    if ty.internals.profile_runs() then return "a profile runs" end
    local ok, y = pcall(function() return (ty.ones(2) * 3):sum():item() end)
    if not ok then return "item() raises " .. tostring(y) end
    if y ~= 6 then return "item() gives " .. tostring(y) end
    local twice = ty.compile(function(x) return x * 2, x:sum() end)
    for _ = 1, 3 do
      local a, b = twice(ty.ones(2))
      if M.values(a) ~= "2 2" or b:item() ~= 2 then return "a compiled function gives " .. M.values(a) end
    end
    if ty.explain(twice).captures ~= 1 then return "nothing is captured any more" end
  end

  -- Programs -----------------------------------------------------------------------------------------------------------
  -- make() gives what is interrupted, and what must be true afterwards: it raises where it is not.

  M.programs = {}

  local function program(name, make) M.programs[#M.programs + 1] = { name = name, make = make } end

  local function same(want, got, what) assert(want == got, ("%s is %s, not %s"):format(what, got, want)) end

  --- A compiled function of two results that writes to a tensor, a field and an upvalue.
  local function effects()
    local w, t, count, x = ty.ones(4) * 2, { n = 0 }, 0, ty.arange(4)
    local f = ty.compile(function(v, k)
      w:add_(v)
      t.n, t.y, count = t.n + 1, v * w, count + k
      return t.y + 1, v - 1
    end)
    local function after()
      for k = 1, 3 do
        local before, n, c = w:clone(), t.n, count
        local a, b = f(x, k)
        same(M.values(before + x), M.values(w), "what is written")
        same(M.values(x * w + 1), M.values(a), "the result")
        same(M.values(x - 1), M.values(b), "the second result")
        same(M.values(x * w), M.values(t.y), "the field")
        same(n + 1, t.n, "the counter")
        same(c + k, count, "the upvalue")
      end
      assert(ty.explain(f).skips >= 1, ty.explain(f):full())
    end
    --- Whether all of the call's effects are there, or none.
    local function state() return ("%s %d %d %s"):format(M.values(w), t.n, count, tostring(t.y ~= nil)) end
    return function() f(x, 1) end, after, state
  end

  program("a capture with effects", effects)
  local TABLES = [[
    local t = ...
    return function(v, k)
      local list = { v, nil, k, name = "list", [k] = 1 }
      local function less(a, b) return a < b end
      local _, why = pcall(function() return assert(nil, k) end)
      table.sort(t, less)
      t.n = t.n + #list
      local keys = ""
      for key in pairs(list) do keys = keys .. tostring(key) end
      return v * t[1] + t[3], keys, why
    end]]

  program("a capture of tables, closures and errors", function()
    local t, x = { 3, 1, 2, n = 0 }, ty.arange(2)
    local f = ty.compile(loadstring(TABLES)(t)) -- what is known of it was not known before
    local function state() return table.concat(t, " ") .. " " .. t.n end
    return function() f(x, 5) end, function()
      for k = 5, 7 do
        local n = t.n
        local y, keys, why = f(x, k)
        local want = ""
        for key in pairs { x, nil, k, name = "list", [k] = 1 } do want = want .. tostring(key) end
        same("3 4", M.values(y), "the result")
        same(want, keys, "the order of keys")
        assert(tostring(why):find(k .. "$"), why)
        same(n + 3, t.n, "the counter")
      end
    end, state
  end)
  program("a capture of a learning step", function()
    local w, x = ty.ones(3):requires_grad_(), ty.arange(3)
    local f = ty.compile(function(v)
      w.grad = nil
      local loss = (w * v):sum()
      loss:backward()
      ty.no_grad(function() w:sub_(w.grad * 0.5) end)
      return loss:detach()
    end)
    return function() f(x) end, function()
      for _ = 1, 3 do
        local before = w:detach():clone()
        same((before * x):sum():item(), f(x):item(), "the loss")
        same(M.values(before - x * 0.5), M.values(w), "the parameter")
      end
    end, function() return M.values(w) .. " " .. tostring(w.grad == nil) end
  end)
  program("a capture of gradients for many examples", function()
    local f, x = ty.compile(ty.vmap(ty.grad(function(v) return (v * v):sum() end))), ty.ones(2, 2)
    return function() f(x) end, function()
      for _ = 1, 3 do same("2 2 2 2", M.values(f(x)), "the gradient") end
    end
  end)
  program("sizes that are replayed", function()
    local f = ty.compile(function(v) return (v * 2):sum() + #v, v:narrow(1, 1, #v - 1) end)
    for n = 3, 5 do f(ty.ones(n)) end
    return function()
      f(ty.ones(6))
      f(ty.ones(7))
    end, function()
      for n = 6, 9 do
        local a, b = f(ty.ones(n))
        same(3 * n, a:item(), "the sum")
        same(n - 1, #b, "the length")
      end
    end
  end)
  program("a bound that counts on", function()
    local f = ty.compile(function(v, k) return v:narrow(1, 1, k) + k end)
    for k = 1, 3 do f(ty.zeros(9), k) end
    return function() f(ty.zeros(9), 4) end, function()
      for k = 4, 7 do same(k * k, f(ty.zeros(9), k):sum():item(), "the sum") end
    end
  end)
  program("no_grad", function()
    local w = ty.ones(2):requires_grad_()
    return function() ty.no_grad(function() return w * 2 end) end
  end)
  program("enable_grad in no_grad", function()
    local w = ty.ones(2):requires_grad_()
    return function()
      ty.no_grad(function()
        ty.enable_grad(function() return w * 2 end)
        return w * 3
      end)
    end
  end)
  program("autocast", function()
    local layer = ty.nn.Linear(2, 2)
    return function() ty.autocast("bf16", layer, ty.ones(1, 2)) end
  end)
  program("vmap", function()
    local f, x = ty.vmap(function(v) return v * 2 + 1 end), ty.ones(3, 2)
    return function() f(x) end, function() same("3 3 3 3 3 3", M.values(f(x)), "the result") end
  end)
  program("grad", function()
    local f, x = ty.grad(function(v) return (v * v):sum() end), ty.ones(3)
    return function() f(x) end, function() same("2 2 2", M.values(f(x)), "the gradient") end
  end)
  program("backward through a checkpoint", function()
    local w = ty.ones(3):requires_grad_()
    local function f(v) return (v * v * ty.ones(3)):sum() end
    return function() ty.checkpoint(f, w):backward() end, function()
      w.grad = nil
      ty.checkpoint(f, w):backward()
      same("2 2 2", M.values(w.grad), "the gradient")
    end
  end)
  program("a gradient of its own", function()
    local w = ty.ones(3):requires_grad_()
    local f = ty.custom_grad(function(v) return v * 2, v end, function(_, g) return g * 5 end)
    return function() f(w):sum():backward() end, function()
      w.grad = nil
      f(w):sum():backward()
      same("5 5 5", M.values(w.grad), "the gradient")
    end
  end)
  program("scope", function()
    local w, kept = ty.ones(3), nil
    local function body()
      local y = w * 2
      return y + 1
    end
    return function() ty.scope(body) end, function()
      kept = w * 5 -- of no scope: it stays when one ends
      same("3 3 3", M.values(ty.scope(body)), "the result")
      same("5 5 5", M.values(kept), "the tensor")
    end
  end)
  program("profile", function()
    local w = ty.ones(3)
    return function() ty.profile(function() return w * 2 end) end, function()
      local profile, y = ty.profile(function() return w * 2 end)
      same("2 2 2", M.values(y), "the result")
      assert(profile.seconds > 0)
    end
  end)
  program("warmup", function()
    local f = ty.compile(function(v) return v * 2 end)
    return function() ty.warmup(f, ty.ones(2)) end, function()
      local was = ty.budget(0)
      local late = ty.compile(function(v) return v * 3 end)
      same("3 3", M.values(late(ty.ones(2))), "the result")
      same(0, ty.explain(late).captures, "captures without time")
      ty.budget(was)
      for _ = 1, 3 do same("2 2", M.values(f(ty.ones(2))), "the result") end
    end
  end)
  program("a checked call", function()
    local runs = 0
    local f = ty.compile(function(v) return v * 2 end)
    local g = ty.compile(function(v)
      runs = runs + 1
      return v * 2
    end)
    f(ty.ones(2))
    ty.check(f, 1)
    return function() f(ty.ones(2)) end, function()
      for _ = 1, 3 do same("2 2", M.values(f(ty.ones(2))), "the result") end
      for _ = 1, 3 do g(ty.ones(2)) end
      same(3, runs, "the counter")
      assert(ty.explain(f).skips >= 1)
    end
  end)
  program("graph", function()
    local w = ty.ones(3)
    local function f(v)
      v:add_(1)
      return v * 2
    end
    return function() ty.graph(f, w) end, function()
      same("1 1 1", M.values(w), "the argument")
      assert(#ty.graph(f, w) > 0)
    end
  end)

  -- Interruptions ------------------------------------------------------------------------------------------------------

  local TOKEN = {} -- what hooks raise
  M.TOKEN = TOKEN

  local library = ty.internals.load and debug.getinfo(ty.internals.load, "S").source:match "^(@.*[/\\])"

  --- Whether what runs at that level of the stack is a chunk of the library's.
  local function is_library(level)
    local info = debug.getinfo(level + 1, "S")
    return info ~= nil and info.source:sub(1, #library) == library
  end

  --- Whether a capture is in progress, as a hook sees it: code of the library runs, and none of the user's since.
  function M.is_captured()
    local level = 3 -- whoever called the hook
    while is_library(level) or (debug.getinfo(level, "S") or {}).what == "C" do
      local info = debug.getinfo(level, "Sf")
      if info.func == ty.internals.capture.session then return true end
      level = level + 1
    end
    return false
  end

  --- Ways to interrupt a call at its k-th place: begin(k) before it, stop() after it. True when the place was not reached.
  M.ways = {}

  --- A hook of Lua's that raises at the k-th event, `times` in a row as long as the library runs.
  local function hook(mask, count, times)
    local n, left
    return {
      begin = function(k)
        n, left = 0, times
        debug.sethook(function()
          n = n + 1
          if n < k or times > 1 and not is_library(2) then return end
          left = left - 1
          if left == 0 then debug.sethook() end
          error(TOKEN, 0)
        end, mask, count)
      end,
      stop = function()
        debug.sethook()
        return left == times
      end,
    }
  end

  M.ways["a count hook"] = hook("", 1, 1)
  M.ways["a count hook that goes on raising"] = hook("", 1, 9)
  M.ways["a hook for calls and returns"] = hook("cr", nil, 1)
  M.ways["a line hook"] = hook("l", nil, 1)

  if M.C then
    M.ways["a hook of C's without a frame"] = {
      begin = function(k) M.C.hook("raise once", TOKEN, "", k) end,
      stop = function()
        local there = M.C.hooked() ~= nil
        debug.sethook()
        return there
      end,
    }
    M.ways["a lack of memory"] = {
      begin = function(k)
        collectgarbage()
        M.C.starve(k - 1, 1)
      end,
      stop = function(k) return tonumber((M.C.starve())) < k end,
    }
    M.ways["no memory any more"] = {
      begin = function(k)
        collectgarbage()
        M.C.starve(k - 1, -1)
      end,
      stop = function(k) return tonumber((M.C.starve())) < k end,
    }
  end

  --- Interrupts a program at its k-th place. Nil, or what is wrong then; whether the place was beyond its end.
  ---@param p table one of programs
  ---@param way string
  ---@param k integer
  ---@return string?, boolean
  function M.interrupt(p, way, k)
    local by, memory = M.ways[way], way:find "memory" ~= nil
    local run, after, state = p.make()
    local before = state and state()
    local beyond = false
    local ok, raised = pcall(function()
      by.begin(k)
      run()
      beyond = by.stop(k)
    end)
    by.stop(k)
    local wrong
    if ok and not beyond and not memory then wrong = "the error is lost" end
    if not ok and (memory and not tostring(raised):find "memory" or not memory and raised ~= TOKEN) then
      wrong = "raises " .. tostring(raised)
    end
    if not wrong and not ok and state and not memory then -- where memory has failed it runs as it is, and may fail there
      local now = state()
      if now ~= before and now ~= p.done then wrong = ("is half done: %s, was %s"):format(now, before) end
    end
    wrong = wrong or M.whole()
    if not wrong and after then
      local fine, why = pcall(after)
      wrong = not fine and tostring(why) or M.whole()
    end
    return wrong, beyond
  end

  --- Interrupts a program at its places 1, 2, 3 ...: each of the first `all`, then one in `step` or so, by chance, and ever
  --- fewer, a hundredth each time, until its end. Nil, or what is wrong and where; how often it was interrupted.
  ---@return string?, integer
  function M.interrupt_everywhere(p, way, all, step, random)
    local k, tries = 0, 0
    local run, _, state = p.make()
    run()
    p.done = state and state()
    while true do
      k = k + (k < all and 1 or random(math.floor(2 * step) - 1))
      if k > all then step = step * 1.01 end
      tries = tries + 1
      local wrong, beyond = M.interrupt(p, way, k)
      if wrong then return ("%s, at place %d: %s"):format(p.name, k, wrong), tries end
      if beyond then return nil, tries end
    end
  end

  return M
end
