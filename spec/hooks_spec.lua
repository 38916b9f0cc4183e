--- hooks_spec.lua -- debug hooks, signals and a lack of memory between any two instructions of the library.
-- What a hook raises comes out as it is; what was begun is over; hooks are outside of captures: what they do with tensors
-- is done at once; they themselves are as the host has set them.

local H = require "spec.helper"
local ty = H.ty
local X = require "spec.hooked"(ty, require "spec.module")
local C, values, TOKEN = X.C, X.values, X.TOKEN

local without_c = C and it or pending

--- The same places in each run.
local function random(seed)
  local s = seed
  return function(n)
    s = s * 16807 % 2147483647
    return math.floor(s / 1024) % n + 1
  end
end

local function sorted_names(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names
end

for _, way in ipairs(sorted_names(X.ways)) do
  describe(way .. " ends", function()
    local jit_on = jit.status and jit.status()
    -- LuaJIT itself crashes where its trace compiler gets no memory, and where a trace allocates
    before_each(function()
      if not way:find "memory" then return end
      jit.off()
      jit.flush()
    end)
    after_each(function()
      debug.sethook()
      if jit_on then jit.on() end
    end)

    for _, p in ipairs(X.programs) do
      it(p.name .. " at any place, and nothing of it is left", function()
        local wrong, tries = X.interrupt_everywhere(p, way, H.cases(20, 60), H.cases(1500, 500), random(7))
        assert.is_nil(wrong)
        assert.truthy(tries >= 3, tries)
      end)
    end
  end)
end

--- A function that is captured when it is called, and takes some thousand instructions for that.
local function captured(body)
  return ty.compile(body or function(x)
    for i = 1, 5 do x = x * 2 + i end
    return x
  end)
end

describe("what a debug hook raises in a capture", function()
  after_each(function() debug.sethook() end)

  local x = ty.ones(2)

  it("is the very value, whatever it is", function()
    for _, value in ipairs { "text", 7, false, TOKEN, print, x } do
      debug.sethook(function()
        debug.sethook()
        error(value, 0)
      end, "", 500)
      local ok, raised = pcall(captured(), x)
      assert.falsy(ok)
      assert.equal(value, raised)
    end
  end)

  it("has the position of the hook's own code", function()
    debug.sethook(function()
      debug.sethook()
      error "time is up"
    end, "", 500)
    local _, raised = pcall(captured(), x)
    assert.truthy(tostring(raised):find "^[^:]*hooks_spec%.lua:%d+: time is up$", raised)
  end)

  it("is not caught by a pcall that is captured", function()
    local reached
    for k = 100, 3000, 100 do
      local f = captured(function(v)
        local ok, e = pcall(function()
          for i = 1, 5 do v = v * 2 + i end
          if #v > 2 then error "long" end
          return v
        end)
        return v, ok, e
      end)
      local ok, raised = pcall(function()
        debug.sethook(function()
          reached = X.is_captured()
          debug.sethook()
          error(TOKEN, 0)
        end, "", k)
        f(x)
        debug.sethook()
      end)
      if not reached then break end
      assert.same({ false, TOKEN }, { ok, raised })
    end
    assert.falsy(reached) -- captures are shorter
  end)

  it("is not taken for an answer of the host, which the library asks", function()
    local asked, by_name = { [next] = true, [assert] = true, [table.sort] = true }, {}
    for _, p in ipairs(X.programs) do by_name[p.name] = p end
    local found, util = pcall(require, "jit.util")
    if found then asked[util.funck] = true end
    local k = 0
    while true do
      k = k + 1
      local n, run, reached = 0, by_name["a capture of tables, closures and errors"].make(), false
      local ok, raised = pcall(function()
        debug.sethook(function()
          n = n + (asked[debug.getinfo(2, "f").func] and 1 or 0)
          if n < k then return end
          debug.sethook()
          reached = true
          error(TOKEN, 0)
        end, "c")
        run()
        debug.sethook()
      end)
      assert.same({ not reached, reached and TOKEN or nil }, { ok, raised })
      if not reached then break end
    end
    assert.truthy(k > 10, k)
  end)

  it("comes out of a capture that another error ends, too", function()
    local function hook()
      debug.sethook()
      error(TOKEN, 0)
    end
    for k = 50, 1000, 50 do
      local f = captured(function(v) return v:item() end) -- it cannot be captured
      local ok, raised = pcall(function()
        debug.sethook(hook, "", k)
        f(ty.ones(1))
        debug.sethook()
      end)
      if ok then break end
      assert.equal(TOKEN, raised)
    end
    assert.equal(1, captured(function(v) return v:item() end)(ty.ones(1)))
  end)

  it("stops a program that does nothing but capture", function()
    debug.sethook(function()
      debug.sethook()
      error(TOKEN, 0)
    end, "", 200000)
    local ok, raised = pcall(function()
      for _ = 1, 2000 do captured()(x) end
      error "nothing stops it"
    end)
    assert.same({ false, TOKEN }, { ok, raised })
  end)

  it("leaves no collector that stands still, and one that stood still as it was", function()
    local function interrupted()
      debug.sethook(function()
        debug.sethook()
        error(TOKEN, 0)
      end, "", 700)
      assert.falsy((pcall(captured(), x)))
    end
    interrupted()
    assert.truthy(collectgarbage "isrunning")
    collectgarbage "stop"
    interrupted()
    local running = collectgarbage "isrunning"
    collectgarbage "restart"
    assert.falsy(running)
  end)
end)

describe("a debug hook that uses tensors while others are captured", function()
  after_each(function() debug.sethook() end)

  --- Calls f(...) while a hook runs every `count` instructions; times the hook ran inside of captures.
  local function hooked(count, hook, f, ...)
    local ran = 0
    debug.sethook(function()
      if not X.is_captured() then return end
      ran = ran + 1
      hook(ran)
    end, "", count)
    local results = { f(...) }
    debug.sethook()
    return ran, unpack(results)
  end

  it("does so at once, each time, with results at once", function()
    local v, seen = ty.zeros(2), {}
    local ran, y = hooked(3, function(n)
      v:add_(1)
      seen[n] = (v * 2):sum():item() == 4 * n and v:get(1) == n
    end, captured(), ty.ones(2))
    assert.truthy(ran > 50, ran)
    assert.equal(ran, #seen)
    for n = 1, ran do assert.truthy(seen[n], n) end
    assert.equal(ran, v:get(2))
    assert.equal("89 89", values(y))
  end)

  it("sees what the captured function writes as it was before", function()
    local w, grads = ty.ones(2), ty.ones(2):requires_grad_()
    local f = captured(function(x)
      w:add_(x)
      grads.grad = nil
      (grads * x):sum():backward()
      for i = 1, 5 do w:mul_(i) end
      return w * x
    end)
    local seen = {}
    for k = 200, 8000, 60 do
      w:fill_(1)
      ty.reset(f)
      hooked(k, function(n)
        if n > 1 then return end
        seen[#seen + 1] = ("%s; %s"):format(values(w), tostring(grads.grad and values(grads.grad)))
      end, f, ty.ones(2))
      assert.equal("240 240", values(w))
      assert.equal("1 1", values(grads.grad))
    end
    assert.truthy(#seen > 20, #seen)
    assert.equal("1 1; nil", seen[1]) -- and then as the call before has left it
    for i = 2, #seen do assert.equal("1 1; 1 1", seen[i]) end
  end)

  it("is outside of the captured function's modes", function()
    local w, linear = ty.ones(2):requires_grad_(), ty.nn.Linear(2, 2)
    local taped, half, level, n = true, false, 0, 0
    local f = captured(function(x)
      return ty.no_grad(function()
        return ty.autocast("bf16", function() return ty.vmap(function(v) return linear(v:unsqueeze(1)):sum() end)(x) end)
      end)
    end)
    for k = 300, 9000, 200 do
      ty.reset(f)
      hooked(k, function(i)
        if i > 1 then return end
        n = n + 1
        taped = taped and (w * 2).requires_grad
        half = half or linear(ty.ones(1, 2)).dtype ~= "f32"
        level = math.max(level, ty.internals.vmap.level())
      end, f, ty.ones(3, 2))
    end
    assert.truthy(n > 20, n)
    assert.same({ true, false, 0 }, { taped, half, level })
  end)

  it("draws random numbers that stay drawn", function()
    ty.manual_seed(5)
    local a, b = ty.rand(2), ty.rand(2)
    ty.manual_seed(5)
    local drawn
    hooked(400, function(n) if n == 1 then drawn = ty.rand(2) end end, captured(), ty.ones(2))
    H.same(a, drawn)
    H.same(b, ty.rand(2))
  end)

  it("calls compiled functions, which answer as always", function()
    local known = captured()
    known(ty.ones(2))
    known(ty.ones(2))
    local n = 0
    hooked(100, function()
      n = n + 1
      assert(values(known(ty.ones(2))) == "89 89")
      if n % 4 == 0 then assert(values(captured()(ty.ones(2))) == "89 89") end
    end, captured(), ty.ones(2))
    assert.truthy(n > 5, n)
  end)

  it("lets other coroutines go on, which are outside of it, too", function()
    local v = ty.zeros(2)
    local other = coroutine.wrap(function()
      while true do
        v:add_(1)
        coroutine.yield(v:sum():item())
      end
    end)
    local ran = hooked(50, function(n) assert(other() == 2 * n) end, captured(), ty.ones(2))
    assert.truthy(ran > 5, ran)
    assert.equal(ran, v:get(1))
  end)

  it("may release what the captured function was given", function()
    for k = 100, 4000, 150 do
      local x = ty.ones(2)
      local f = captured(function(v) return v * 2 + v end)
      debug.sethook(function()
        if X.is_captured() then x:release() end
        debug.sethook()
      end, "", k)
      local ok, e = pcall(f, x)
      debug.sethook()
      assert.truthy(ok or tostring(e):find "was released", e)
      assert.is_nil(X.whole())
    end
  end)

  it("ends the capture, which the explanation tells; the next call is captured", function()
    local f = captured()
    local ran = hooked(300, function() ty.ones(2):sum():item() end, f, ty.ones(2))
    assert.truthy(ran > 0)
    local e = ty.explain(f)
    assert.equal(0, e.captures)
    assert.truthy(tostring(e):find("a debug hook used tensors meanwhile", 1, true), tostring(e))
    for _ = 1, 4 do f(ty.ones(2)) end
    assert.equal(1, ty.explain(f).captures)
  end)

  it("does not end one by what has nothing to do with tensors", function()
    local f, n = captured(), 0
    local ran = hooked(50, function() n = n + #tostring { n } end, f, ty.ones(2))
    assert.truthy(ran > 5 and n > 0)
    assert.equal(1, ty.explain(f).captures)
    assert.truthy(collectgarbage "isrunning")
  end)

  it("may restart the collector: no finaliser is captured", function()
    local v = ty.zeros(1)
    local ran = hooked(20, function()
      for _ = 1, 5 do getmetatable(newproxy(true)).__gc = function() v:add_(1) end end
      collectgarbage()
      collectgarbage "restart"
    end, captured(), ty.ones(2))
    collectgarbage()
    collectgarbage()
    assert.truthy(ran > 5, ran)
    assert.equal(5 * ran, v:item())
  end)

  it("is outside of what jit.graph records, whose writes are put back", function()
    local v, x = ty.zeros(2), ty.ones(2)
    local n = 0
    debug.sethook(function()
      n = n + 1
      v:add_(1)
      assert(v:get(1) == n)
    end, "l")
    local g = ty.graph(function(t)
      local y = t + 1
      t:mul_(5)
      y = y * t
      return y
    end, x)
    debug.sethook()
    assert.truthy(n >= 4, n)
    assert.equal(n, v:get(1))
    assert.equal("1 1", values(x))
    assert.equal(1, select(2, g.text:gsub("= mul ", "= mul ")) - select(2, g.text:gsub("= add ", "= add ")))
  end)
end)

describe("a debug hook during captures", function()
  after_each(function() debug.sethook() end)

  local x = ty.ones(2)

  it("finds itself, and stays as it was set", function()
    for _, set in ipairs { { "", 100 }, { "l" }, { "cr", 7 }, { "crl", 1 }, { "r" }, { "c", 100000 } } do
      local fine, ran = true, 0
      local function hook()
        if not X.is_captured() then return end
        local f, mask, count = debug.gethook()
        ran = ran + 1
        fine = fine and f == hook and mask == set[1] and count == (set[2] or 0)
      end
      debug.sethook(hook, set[1], set[2])
      captured()(x)
      local f, mask, count = debug.gethook()
      debug.sethook()
      assert.truthy(fine and ran > 0)
      assert.same({ hook, set[1], set[2] or 0 }, { f, mask, count })
    end
  end)

  it("is not there afterwards if it was not before", function()
    captured()(x)
    assert.same({ nil, "", 0 }, { debug.gethook() })
  end)

  it("may take itself away", function()
    local ran = 0
    debug.sethook(function()
      if not X.is_captured() then return end
      ran = ran + 1
      debug.sethook()
    end, "", 10)
    local f = captured()
    f(x)
    assert.equal(1, ran)
    assert.is_nil((debug.gethook()))
    assert.equal(1, ty.explain(f).captures)
  end)

  it("may set another one, which takes over at once", function()
    local first, second = 0, 0
    local function other() second = second + 1 end
    debug.sethook(function()
      if not X.is_captured() then return end
      first = first + 1
      debug.sethook(other, "l")
    end, "", 10)
    captured()(x)
    local f, mask = debug.gethook()
    debug.sethook()
    assert.equal(1, first)
    assert.truthy(second > 100, second)
    assert.same({ other, "l" }, { f, mask })
  end)

  it("hears of as many instructions as pass, give or take one step a capture", function()
    local function count_of(n)
      local events = 0
      debug.sethook(function() events = events + 1 end, "", n)
      for _ = 1, 20 do captured()(x) end
      debug.sethook()
      return events * n
    end
    captured()(x)
    local all = count_of(1)
    for _, n in ipairs { 2, 10, 100, 1000, 5000 } do
      local heard = count_of(n)
      assert.truthy(heard > 0.5 * all - n and heard < 1.1 * all + n, ("%d of %d by %d"):format(heard, all, n))
    end
  end)

  without_c("of C's comes as it was set: the same function, mask and count", function()
    for _, set in ipairs { { "call", "", 100 }, { "call", "l", 0 }, { "call", "cr", 33 } } do
      local ran = 0
      C.hook(set[1], function() if X.is_captured() then ran = ran + 1 end end, set[2], set[3])
      local name, mask, count = C.hooked()
      captured()(x)
      assert.same({ name, mask, count }, { C.hooked() })
      C.hook()
      assert.truthy(ran > 0)
    end
  end)

  without_c("of C's uses tensors outside of them, without a frame", function()
    local v, n = ty.zeros(2), 0
    C.hook("call", function()
      if not X.is_captured() then return end
      n = n + 1
      v:add_(1)
      assert(v:get(1) == n)
    end, "", 20)
    local y = captured()(x)
    C.hook()
    assert.truthy(n > 5, n)
    assert.equal(n, v:get(2))
    assert.equal("89 89", values(y))
  end)

  without_c("of C's that yields goes on yielding, and the calls give what they give", function()
    local w, log = ty.ones(2), {}
    local f = captured(function(v)
      w:add_(v)
      return w * 2, v - 1
    end)
    local co = coroutine.create(function()
      for i = 1, 8 do
        local a, b = f(x)
        log[i] = values(a) .. " " .. values(b)
      end
    end)
    local turns, other = 0, ty.zeros(1)
    while coroutine.status(co) ~= "dead" do
      C.hook("yield", co, "", 50)
      local ok, e = coroutine.resume(co)
      C.hook()
      assert.truthy(ok, e)
      turns = turns + 1
      assert.equal(turns, (other:add_(1)):item())
    end
    assert.truthy(turns > 10, turns)
    for i = 1, 8 do assert.equal(("%d %d 0 0"):format(2 * i + 2, 2 * i + 2), log[i]) end
    assert.truthy(ty.explain(f).captures >= 1)
  end)
end)

describe("a signal's hook", function()
  without_c("raises out of a capture that it comes to, at any place, whether another hook is set or not", function()
    local capture = ty.internals.capture
    local names, original = { "is_native", "upvalue", "upvalue_id", "outside", "reason", "wholeness" }, {}
    local left
    finally(function()
      for _, name in ipairs(names) do capture[name] = original[name] end
    end)
    for _, name in ipairs(names) do
      original[name] = capture[name]
      capture[name] = function(...)
        left = left - 1
        if left == 0 then C.interrupt(TOKEN) end
        return original[name](...)
      end
    end
    local n = 0
    for _, mask in ipairs { "none", "l" } do
      for place = 1, 1000 do
        local w = ty.ones(2)
        local f = captured(function(v)
          w:add_(v)
          return v * 2 + 1
        end)
        left = place
        if mask ~= "none" then debug.sethook(function() end, mask) end
        local ok, raised = pcall(f, ty.ones(2))
        debug.sethook()
        if left > 0 then break end
        n = n + 1
        assert.same({ false, TOKEN, "1 1" }, { ok, raised, values(w) })
        assert.is_nil(X.whole())
      end
    end
    assert.truthy(n >= 20, n)
  end)

  for _, on in ipairs { "on", "off" } do
    it(("reaches a script from the interpreter's Ctrl-C while functions are captured, the trace compiler %s"):format(on), function()
      local out, status = H.script(([[
        local ffi = require "ffi"
        ffi.cdef "int getpid(void); int sigaction(int, const void *, void *);"
        jit.%s()
        local ty = require "tycho"
        local handler = ffi.new "char[512]" -- the interpreter's own, which serves once
        ffi.C.sigaction(2, nil, handler)
        local clock, x, w = ty.internals.clock, ty.arange(4), ty.ones(4)
        local lost, others = 0, 0
        for i = 1, 15 do
          ffi.C.sigaction(2, handler, nil)
          local stop = clock() + 10
          os.execute(("(sleep 0.0%%02d; kill -INT %%d) &"):format(i * 5, ffi.C.getpid()))
          local ok, e = pcall(function()
            while clock() < stop do
              ty.compile(function(v)
                w:add_(v)
                for k = 1, 5 do v = v * 2 + k end
                return v
              end)(x)
            end
          end)
          if ok then lost = lost + 1 elseif not tostring(e):find "interrupted!$" then others = others + 1 end
          assert((x * 2):sum():item() == 12)
          assert(ty.internals.grad.mode() and collectgarbage "isrunning" and not debug.gethook())
          local f = ty.compile(function(v) return v + 1 end)
          for _ = 1, 3 do assert(f(x):sum():item() == 10) end
          assert(ty.explain(f).skips == 3)
        end
        print(lost, others)]]):format(on))
      assert.equal(0, status, out)
      assert.equal("0\t0\n", out)
    end)
  end

  -- LuaJIT's collector writes the mask back that it read before: the hook then stands there for no event.
  it("comes from a signal whose hook lost its events to the collector", function()
    local out, status = H.script([[
      local ffi = require "ffi"
      ffi.cdef "struct time { long s, us, first, first_us; };"
      ffi.cdef "int sigaction(int, const void *, void *); int setitimer(int, const struct time *, void *);"
      jit.off()
      local protect = require "tycho".internals.protect
      local handler, time, proxy = ffi.new "char[512]", ffi.new "struct time", newproxy(true)
      ffi.C.sigaction(2, nil, handler)
      getmetatable(proxy).__gc = function() end
      local function collect()
        ffi.C.sigaction(14, handler, nil)
        ffi.C.setitimer(0, time, nil)
        repeat
          for _ = 1, 2000 do newproxy(proxy) end
          collectgarbage()
        until debug.gethook() -- one that has events raises before
      end
      for i = 1, 4000 do
        time.first_us = 300 + i * 37 % 700
        local ok = pcall(collect)
        if ok then return print(select(2, pcall(protect, function() end))) end
      end
      print "interrupted!"]])
    assert.equal(0, status, out)
    assert.match("interrupted!\n$", out)
  end)
end)

describe("an interruption", function()
  after_each(function() debug.sethook() end)

  it("while a part of the library is loaded does not keep it from being loaded", function()
    local out, status = H.script([[
      local ty = require "tycho"
      local n = 0
      for _, k in ipairs { 10, 100, 1000, 5000, 12000, 30000 } do
        local function compile() return ty.compile(function(x) return x + 1 end)(ty.ones(1)) end
        local function profile() return ty.profile(function() end) end
        for _, use in ipairs { compile, function() return ty.nn.Linear(1, 1) end, function() return ty.optim.SGD end, profile } do
          debug.sethook(function()
            debug.sethook()
            n = n + 1
            error("stop", 0)
          end, "", k)
          pcall(use)
          debug.sethook()
        end
      end
      local f = ty.compile(function(x) return x + 1 end)
      for _ = 1, 3 do assert(f(ty.ones(1)):item() == 2) end
      assert(ty.explain(f).captures == 1)
      assert(ty.nn.Linear(2, 3)(ty.ones(1, 2)):size(2) == 3)
      assert(ty.optim.SGD and (ty.profile(function() end)))
      print(n > 8)]])
    assert.equal(0, status, out)
    assert.equal("true\n", out)
  end)

  it("between a compiled call's answer and its results does not mix up those of others", function()
    local f = ty.compile(function(x) return x + 1, x + 2, x + 3 end)
    local g = ty.compile(function(x) return x * 2, f(x) end)
    local x = ty.ones(1)
    for _ = 1, 3 do
      f(x)
      g(x)
    end
    for k = 1, 60 do
      for _, h in ipairs { f, g } do
        pcall(function()
          debug.sethook(function()
            debug.sethook()
            error(TOKEN, 0)
          end, "", k)
          h(x)
          debug.sethook()
        end)
        local a, b, c, d = h(x * k)
        if h == f then assert.same({ k + 1, k + 2, k + 3 }, { a:item(), b:item(), c:item() })
        else assert.same({ 2 * k, k + 1, k + 2, k + 3 }, { a:item(), b:item(), c:item(), d:item() }) end
      end
    end
  end)

  it("of a call in many coroutines does not, either", function()
    if not C then return end
    local f = ty.compile(function(x) return x + 1, x + 2 end)
    for _ = 1, 3 do f(ty.ones(1)) end
    local all, wrong = {}, 0
    for i = 1, 10 do
      all[i] = coroutine.create(function()
        for k = 1, 20 do
          local a, b = f(ty.full({ 1 }, i * 100 + k))
          if a:item() ~= i * 100 + k + 1 or b:item() ~= i * 100 + k + 2 then wrong = wrong + 1 end
        end
      end)
    end
    local turns, alive = 0, true
    while alive do
      alive = false
      for i, co in ipairs(all) do
        if coroutine.status(co) ~= "dead" then
          alive = true
          C.hook("yield", co, "", turns % 3 + 1)
          local ok, e = coroutine.resume(co)
          C.hook()
          assert.truthy(ok, i .. tostring(e))
          turns = turns + 1
        end
      end
    end
    assert.truthy(turns > 1000, turns)
    assert.equal(0, wrong)
  end)

  it("of tensors' memory in a capture leaves nothing, either", function()
    local probe = ty.internals.probe
    for _, p in ipairs(X.programs) do
      for after = 0, 40 do
        local run, check = p.make()
        probe.fail(after, 1)
        local ok, e = pcall(run)
        probe.fail(-1)
        assert.truthy(ok or tostring(e):find "memory", p.name .. ": " .. tostring(e))
        assert.is_nil(X.whole())
        if check then check() end
      end
    end
  end)
end)

describe("a recursion without an end", function()
  it("raises in a compiled function what it raises in a plain one", function()
    local function body(x)
      local function down(n) return 1 + down(n + 1) end
      return x * down(1)
    end
    for _, run in ipairs { pcall, function(f, ...) return coroutine.resume(coroutine.create(f), ...) end } do
      local _, want = run(body, ty.ones(1))
      local f = ty.compile(body)
      for _ = 1, 3 do
        local ok, got = run(f, ty.ones(1))
        assert.falsy(ok)
        assert.equal(want, got)
        assert.is_nil(X.whole())
      end
    end
  end)
end)
