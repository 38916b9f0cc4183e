--- TYCHO_CHECK=capture: calls that a trace answers are captured anew beside it, and a missing guard raises.

local H = require "spec.helper"

--- Runs code in a process that checks captures; its output.
local function checked(code)
  local out, status = H.script('local ty = require "tycho"\n' .. code, { TYCHO_CHECK = "capture" })
  assert.equal(0, status, out)
  return out
end

-- What takes a kind of guards out of programs.
local without = [[
local evaluate, World = require "tycho.capture.evaluate", require("tycho.capture").World
local function without(name)
  local emit = World.emit
  World.emit = function(self, instr, ...)
    if instr[1] ~= name then return emit(self, instr, ...) end
    return emit(self, { "type", self.narg + 1, "function" }, ...) -- holds always
  end
end
]]

describe("a call that is captured beside its trace", function()
  it("gives what the trace gives, over results, effects, sizes and numbers", function()
    assert.equal("fine\n", checked [[
      local W = { n = 0, k = {}, x = ty.ones(3) }
      local opt
      local f = ty.compile(function(x, s, name)
        W.n = W.n + s
        W.k[name] = x * W.n
        W.x:add_(1)
        return { x:sum(), list = { x, W.x, s * 2 } }, x:t(), name .. "!", ty.rand(2)
      end)
      for i = 1, 12 do f(ty.ones(2 + i % 3, 2), i / 2, i % 2 == 0 and "a" or "b") end
      local model = ty.nn.Sequential(ty.nn.Linear(3, 4), ty.nn.Tanh(), ty.nn.Linear(4, 1))
      opt = ty.optim.AdamW(model:parameters(), { lr = 0.02 })
      local step = ty.compile(function(x, y)
        opt:zero_grad()
        local loss = ty.mse_loss(model(x), y)
        loss:backward()
        opt:step()
        return loss:detach()
      end)
      for i = 1, 6 do step(ty.rand(5, 3), ty.rand(5, 1)) end
      assert(ty.explain(f).skips > 8 and ty.explain(step).skips > 4)
      print "fine"
    ]])
  end)

  it("counts what is checked of an index that the function reads", function()
    assert.equal("fine\n", checked [[
      local x, i = ty.arange(12):reshape(3, 4), ty.tensor({ { 1, 4, 2 } }, { dtype = "i64" })
      local f = ty.compile(function(v, at, n) return v:gather(2, at) * n, v[{ {}, at[1] }], v:index_select(1, at[1][{ { 1, 1 } }]) end)
      for n = 1, 5 do f(x, i, n) end
      assert(ty.explain(f).skips == 5, ty.explain(f).skips)
      i:add_(1)
      print(pcall(f, x, i, 1) and "not checked" or "fine")
    ]])
  end)

  it("does so for every call that a trace answers, and for no other", function()
    assert.equal("4\n", checked [[
      local capture, n = require "tycho.capture", 0
      local dry = capture.dry
      function capture.dry(...)
        n = n + 1
        return dry(...)
      end
      local f = ty.compile(function(x) return x + 1 end)
      local g = ty.compile(function(x) return x:item() end)
      for _ = 1, 4 do
        local y = f(ty.ones(1))
        g(y)
      end
      print(n)
    ]])
  end)

  it("is over where a debug hook has ended a call in the middle of it", function()
    assert.equal("fine\n", checked [[
      local x, n = ty.ones(2), 0
      for k = 1, 700 do
        local f = ty.compile(function(v) n = n + 1 return v * 2 + n end)
        if k % 2 == 0 then f(x) end
        pcall(function()
          debug.sethook(function()
            debug.sethook()
            error("stop", 0)
          end, "", k)
          f(x)
          debug.sethook()
        end)
        for _ = 1, 3 do
          local y = f(x)
          assert(y and y[1]:item() == 2 + n, k)
        end
      end
      print "fine"
    ]])
  end)

  for name, case in pairs {
    field = { "length", "local t = { 1, 2 } local function f(x) for i = 1, #t do x = x * i end return x end", "t[3] = 3" },
    value = { "equal", "local t = { k = 'a' } local function f(x) return x, t.k == 'a' and 1 or 2 end", "t.k = 'b'" },
    same = { "same", "local t = { a = ty.ones(2) } t.b = t.a local function f(x) return t.a + t.b + x end",
      "t.b = ty.ones(2)" },
    order = { "keys", "local t = { a = 1, b = 2 } local function f(x) local s = '' for k in pairs(t) do s = s .. k end return x, s end",
      "t.c = 3" },
    outcome = { "lt", "local n = 1 local function f(x) if n > 0 then return x + 1 end return x + 2 end", "n = -1" },
    cell = { "cell_distinct", [[
      local function mk(v) return { function(x, get) v = v + 1 return x + get() end, function() return v end } end
      local a, b, d = mk(1), mk(2), mk(3)
      local get = b[2]
      local function f(x) return a[1](x, get) end]], "get = a[2]", "get = d[2]" },
  } do
    it("finds a missing guard: " .. name, function()
      local code = ([[
        %s
        %s
        without %q
        local c = ty.compile(f)
        local x = ty.ones(2)
        c(x)
        %s
        c(x)
        c(x)
        %s
        print((select(2, pcall(c, x))))
      ]]):format(without, case[2], case[1], case[4] or "", case[3])
      local out = checked(code)
      assert.match("a trace would do something else than the function", out)
    end)
  end

  for what, body in pairs {
    ["captured anew it aborts: "] = "if n > 0 then return x + 1 end return x * x:sum():item()",
    ["effect t.a: captured anew set "] = "if n > 0 then t.a = 1 else u.a = 1 end return x",
    ["result 1, entry 2: another table"] = "local a = {} if n > 0 then return { a, a } end return { a, {} }",
    ["results, captured anew 1"] = "if n > 0 then return x, x end return x",
    ["1 effects, captured anew 0"] = "if n > 0 then t.a = 1 end return x",
    ["other indices are checked"] = "local y = x:gather(1, n > 0 and i or j) return x",
    ["random streams, captured anew 1"] = "if n <= 0 then ty.rand(1) end return x",
    ["a tensor is written that the trace does not write"] = "if n <= 0 then w:add_(1) end return x",
    ["a tensor is written in another way"] = "w:add_(n > 0 and x or -x) return x",
  } do
    it("tells what would differ: " .. what, function()
      local out = checked(without .. ([[
        local n, t, u, w, i, j = 1, {}, {}, ty.ones(2), ty.tensor({ 1 }, { dtype = "i64" }), ty.tensor({ 2 }, { dtype = "i64" })
        local c = ty.compile(function(x) %s end)
        for _, guard in ipairs { "lt", "le" } do without(guard) end
        for _ = 1, 2 do c(ty.ones(2)) end
        n = -1
        print(t, u, w, i, j, select(2, pcall(c, ty.ones(2))))
      ]]):format(body))
      assert.truthy(out:find(what, 1, true), out)
    end)
  end

  it("finds one even where the values agree", function()
    assert.match("result 1: a tensor that is computed in another way", checked(without .. [[
      local t = { a = ty.ones(2) }
      t.b = t.a
      local c = ty.compile(function(x) return t.a + t.b * x end)
      without "same"
      c(ty.ones(2))
      c(ty.ones(2))
      t.b = ty.ones(2) -- the same elements
      print((select(2, pcall(c, ty.ones(2)))))
    ]]))
  end)
end)
