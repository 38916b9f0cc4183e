--- coroutines_spec.lua -- coroutines that compiled functions make: they are part of a trace where their bodies are, and
-- behave as in plain Lua where not.

local ty = require "tycho"
local create, resume, wrap, yield, status, running = coroutine.create, coroutine.resume, coroutine.wrap, coroutine.yield,
  coroutine.status, coroutine.running

--- A value as text: what is in it.
local function text(v)
  if ty.is_tensor(v) then return v.dtype .. "[" .. table.concat(v.shape, ",") .. "]" .. text(v:reshape(-1):totable()) end
  if type(v) == "table" then
    local out = {}
    for i, e in ipairs(v) do out[i] = text(e) end
    return "{" .. table.concat(out, " ") .. "}"
  end
  if type(v) == "number" then return ("%.17g"):format(v) end
  return type(v) == "thread" and "thread" or type(v) == "function" and "function" or tostring(v)
end

local function told(...)
  local out = {}
  for i = 1, select("#", ...) do out[i] = text((select(i, ...))) end
  return table.concat(out, ", ")
end

--- Both in one place, since errors tell the line.
local function call(f, ...) return told(pcall(f, ...)) end

local x = ty.tensor { 1.5, -2, 3 }

--- n: calls of ten that a trace answers.
local function agree(f, n, ...)
  local compiled = ty.compile(f)
  for _ = 1, 10 do assert.equal(call(f, ...), call(compiled, ...)) end
  if n then assert.equal(n, ty.explain(compiled).skips) end
  return compiled
end

describe("a coroutine made in a compiled function", function()
  local captured = {
    ["that a loop runs over"] = function(v, n)
      local s = v
      for e, i in wrap(function() for i = 1, n do yield(v * i, i) end end) do s = s + e * i end
      return s
    end,
    ["that calls functions which yield"] = function(v, n)
      local function walk(t)
        if type(t) == "table" then
          for _, e in ipairs(t) do walk(e) end
        else
          yield(t)
        end
      end
      local out = {}
      for e in wrap(function() walk { v, { v + n, { v * 2 } }, 7 } end) do out[#out + 1] = e end
      return out
    end,
    ["that is given and gives values"] = function(v, n)
      local co = create(function(a, b)
        local c, d = yield(a + b, "first")
        local e = { yield(c, d, nil) }
        return #e, e[1], v
      end)
      local out = { status(co), type(co) }
      local function note(...) for i = 1, select("#", ...) do out[#out + 1] = tostring((select(i, ...)) ~= nil) end return ... end
      local _, p = note(resume(co, v, n))
      note(resume(co, p * 2, n))
      out[#out + 1] = status(co)
      local ok, k, first, last = note(resume(co, 5, 6))
      out[#out + 1] = status(co)
      return out, p, ok, k, first, last, note(resume(co)), select("#", resume(co))
    end,
    ["that yields in tail calls"] = function(v)
      local function give(a) return yield(a) end
      local f = wrap(function(a) local b, c = give(a + 1) return yield(b * 2, c) end)
      return f(v), f(v, 3), f(4, 5)
    end,
    ["that raises under resume"] = function(v)
      local co = create(function(a) yield(a) error("boom") end)
      local co2 = create(function() error({ v }) end)
      local co3 = create(function() error("at no place", 0) end)
      return { resume(co, v), { resume(co) }, status(co), { resume(co) }, { resume(co2) }, { resume(co3) }, status(co3) }, v * 2
    end,
    ["that raises under pcall of what wrap gave"] = function(v)
      local f = wrap(function(a) yield(a) error("boom") end)
      local g = wrap(function() error({ v }) end)
      local function again(h) local y = h() return y end
      return { { pcall(f, v) }, { pcall(again, f) }, { pcall(f) }, { pcall(again, f) }, { pcall(g) }, { pcall(again, g) } }, v * 2
    end,
    ["inside of another one"] = function(v, n)
      local function count(a) for i = 1, n do yield(a * i) end return "end" end
      local function twice() for e in wrap(function() count(v) end) do yield(e + 1) yield(e - 1) end end
      local s = v
      for e in wrap(twice) do s = s + e end
      return s
    end,
    ["that asks which one runs"] = function(v)
      local co
      co = create(function() yield(running() == co, status(co)) return coroutine.isyieldable and coroutine.isyieldable() end)
      local all = { { resume(co) }, { resume(co) }, status(co) }
      local a = wrap(function() local t = running() yield(status(t)) end)()
      return all, a, v + 1
    end,
    ["that shares variables and keeps its own"] = function(v, n)
      local total, makers = v, {}
      for i = 1, 3 do
        local mine = i
        makers[i] = wrap(function() while true do mine = mine + 1 total = total + v * mine yield(mine) end end)
      end
      local out = {}
      for _ = 1, n do for i = 3, 1, -1 do out[#out + 1] = makers[i]() end end
      return total, out
    end,
    ["that is never run"] = function(v) local co = create(error) return v * 2, status(co) end,
    ["that catches its own errors"] = function(v)
      local f = wrap(function() local ok, why = pcall(error, "inside", 0) yield(ok, why) return v end)
      return { f() }, f()
    end,
  }
  for name, f in pairs(captured) do
    it(name .. " is part of a trace", function() agree(f, 10, x, 3) end)
  end

  it("has numbers of later calls", function()
    local f = ty.compile(function(v, k)
      local s = v
      for e in wrap(function() for i = 1, 3 do yield(v * (i * k)) end end) do s = s + e end
      return s
    end)
    for k = 1, 20 do assert.equal(1 + 6 * k / 4, f(ty.ones(1), k / 4):item()) end
    assert.is_true(ty.explain(f).skips >= 19)
  end)

  it("takes any sizes", function()
    local function plain(v)
      local s = v
      for e in wrap(function() for i = 1, 3 do yield(v * i) end end) do s = s + e end
      return s
    end
    local f = ty.compile(plain)
    for n = 2, 20 do assert.equal(text(plain(ty.arange(n) / 8)), text(f(ty.arange(n) / 8))) end
    assert.is_true(ty.explain(f).captures <= 2)
  end)

  local odd = {
    ["is returned"] = function(v) return wrap(function() yield(v) end), v * 2 end,
    ["is stored"] = function(v) G_thread = create(function() yield(v) end) return v * 2 end, -- luacheck: ignore
    ["reads data"] = function(v) return wrap(function() yield(v:sum():item()) end)() end,
    ["yields under pcall"] = function(v)
      local f = wrap(function() local _, r = pcall(yield, v) yield(pcall(function() return yield(r) end)) end)
      return { f(), f(2), { f(3) } }
    end,
    ["yields in a metamethod"] = function(v)
      local t = setmetatable({}, { __index = function(_, k) return yield(k) end })
      local f = wrap(function() return t.a, t.b end)
      return { f(), f(v), { f(2) } }
    end,
    ["yields in a comparison of sort"] = function(v)
      return { pcall(wrap(function() table.sort({ 3, 2, 1 }, function(a, b) yield(a) return a < b end) end)) }, v
    end,
    ["yields within ty.no_grad"] = function(v)
      local w = ty.ones(3):requires_grad_()
      local f = wrap(function() ty.no_grad(function() yield((v * w).requires_grad) yield((v * w).requires_grad) end) end)
      return f(), (v * w).requires_grad, f(), (v + w).requires_grad
    end,
    ["resumes itself"] = function(v)
      local co
      co = create(function() return resume(co) end)
      local f
      f = wrap(function() return pcall(f) end)
      return { resume(co) }, { f() }, v
    end,
    ["raises through what wrap gave"] = function(v)
      local f = wrap(function() error("boom") end)
      v = v * 2
      f()
      return v
    end,
    ["is dead when it is called"] = function(v) local f = wrap(function() return v end) f() f() return v end,
    ["is made of a function of C"] = function(v) return wrap(ty.exp)(v), { resume(create(tostring), 5) } end,
    ["is made of no function"] = function(v) return v, wrap(5) end,
  }
  for name, f in pairs(odd) do
    it("behaves as in plain Lua where it " .. name, function() agree(f, nil, x, 3) end)
  end

  it("does not hide that the function itself yields", function()
    local function f(v)
      for e in wrap(function() yield(v) yield(v * 2) end) do yield(e) end
      return v + 1
    end
    local function all(g)
      local out = {}
      for e in wrap(function() yield(g(x)) end) do out[#out + 1] = text(e) end
      return table.concat(out, " ")
    end
    local compiled = ty.compile(f)
    for _ = 1, 10 do assert.equal(all(f), all(compiled)) end
  end)

  it("lets a function be cut behind it, and where it is made as before", function()
    local said = {}
    local spy = wrap(function(...) local v = ... while true do said[#said + 1] = text(v) v = yield() end end)
    local function f(v)
      local s = v
      for e in wrap(function() for i = 1, 3 do yield(v * i) end end) do s = s + e end
      spy(s)
      s = ((s * 2 + 1):exp() + 3):tanh() * v
      return s
    end
    local function g(v)
      v = ((v * 2 + 1):exp() + 3):tanh() * v
      local make = wrap(spy)
      make(v)
      return ((v * 2 + 1):exp() + 3):tanh() * v
    end
    for _, h in ipairs { f, g } do
      local compiled = ty.compile(h)
      for _ = 1, 6 do
        said = {}
        local want = call(h, x) .. table.concat(said)
        said = {}
        assert.equal(want, call(compiled, x) .. table.concat(said))
      end
    end
  end)

  it("gives tensors that outlive a scope which did not make them", function()
    local function make(v) return wrap(function() yield(v * 2) end)() end
    local f = ty.compile(make)
    for _, g in ipairs { make, f } do
      for _ = 1, 5 do
        local kept
        g(x)
        ty.scope(function() kept = g(x) end)
        assert.equal(3, kept[1]:item())
      end
    end
    assert.is_true(ty.explain(f).skips >= 4)
  end)
end)
