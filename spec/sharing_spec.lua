--- What is shared: memory by tensors, variables by closures, methods by strings. Plain calls beside compiled ones, while what
--- is shared with whom changes between calls. Random ones: fuzz_alias.lua, fuzz_cells.lua.

local H = require "spec.helper"
local ty = H.ty

--- Calls f plainly and compiled, each in a world of its own: make(ty) gives the function, and one that makes the arguments
--- of call k, or nil behind the last. see(results ...) gives text.
local function beside(make, see)
  local function run(compile)
    local f, arguments = make()
    local g, lines, k = compile(f), {}, 1
    while true do
      local args = { arguments(k) }
      if args[1] == nil then return lines, g end
      lines[k] = see(g(unpack(args, 1, 8)))
      k = k + 1
    end
  end
  local plain = run(function(f) return f end)
  local compiled, g = run(function(f) return ty.compile(f) end)
  assert.same(plain, compiled)
  return ty.explain(g)
end

local function text(t)
  if t == nil then return "nil" end
  local needs = t.requires_grad and (t.is_leaf and " leaf" or " taped") or ""
  return table.concat(t.shape, "x") .. " " .. tostring(t:detach()) .. needs
end

local function texts(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = text((select(i, ...))) end
  return table.concat(list, "; ")
end

describe("two ways to one place in memory", function()
  it("are two inputs: an argument that is a view which the function makes, too", function()
    local e = beside(function()
      local W, out, b = { x = ty.range(12):reshape(4, 3) }, {}, ty.ones(3)
      return function(v)
        local d = (v * b):neg()
        out.b = W.x[1] - 1
        return out.b, d
      end, function(k) return ({ W.x[1], W.x[1], ty.full({ 3 }, 100), W.x[2] })[k] end
    end, texts)
    assert.equal(1, e.captures)
  end)

  it("are two inputs: two fields", function()
    local e = beside(function()
      local W = { x = ty.range(12):reshape(4, 3) }
      W.y = W.x[1]
      return function() return W.x[1] - 1, W.y * 2 end, function(k)
        if k == 3 then W.y = ty.full({ 3 }, 100) end
        if k == 4 then W.x = W.x * 2 end
        return k < 5 or nil
      end
    end, texts)
    assert.equal(1, e.captures)
  end)

  it("are two inputs: an argument and its transpose, a part of a cache, an expansion", function()
    local e = beside(function()
      local p, cache, one = ty.range(9):reshape(3, 3), ty.range(12), ty.full({ 1 }, 3)
      return function(a, b, c, d) return a:t() - 1, b * 2, cache:narrow(1, 1, 4) + c, one:expand(4) * d end,
        function(k)
          if k <= 2 then return p, p:t(), cache:narrow(1, 1, 4), one:expand(4) end
          if k == 3 then return p, p:t() + 1, cache:narrow(1, 1, 4) * 2, ty.full({ 1 }, 5):expand(4) end
          return nil
        end
    end, texts)
    assert.is_true(e.captures <= 2) -- layouts of the third call are others
  end)

  it("are two where one tensor stood for both while new sizes were replayed", function()
    local e = beside(function()
      local z, w = ty.range(5), ty.range(5) * 7
      return function(a, b) return a * 2 - b end, function(k)
        if k <= 2 then return ty.range(k + 2), ty.ones(k + 2) end
        if k == 3 then return z, z end -- the sizes that the replay finds
        if k == 4 then return z, w end
        if k == 5 then return w, z end
        return nil
      end
    end, texts)
    assert.is_true(e.captures <= 2, e.captures)
  end)

  it("are one where one of them is written: who shares with whom is guarded", function()
    beside(function()
      local base = ty.range(12)
      return function(a, b)
        a:add_(1)
        return a * 2, b * 3
      end, function(k)
        local a, b = base:narrow(1, 1, 3), base:narrow(1, 1, 3)
        if k == 3 or k == 6 then b = ty.ones(3) end
        if k == 4 then b = base:narrow(1, 2, 3) end
        if k == 5 then b = a end
        if k < 8 then return a, b end
        return nil
      end
    end, texts)
  end)
end)

describe("a result that is a view", function()
  it("needs gradients as the tensor does that it is a view of, whatever else shares its memory", function()
    beside(function()
      local leaf = ty.range(4):requires_grad_()
      return function(d, w)
        local y = d * 2
        return w:view(2, 2), y
      end, function(k) if k < 4 then return leaf:detach(), leaf end end
    end, texts)
  end)

  it("is detached where that tensor is, also when it begins to need gradients later", function()
    beside(function()
      local x = ty.range(4)
      return function(t) return t:view(2, 2) end, function(k)
        if k > 6 then return nil end
        return k % 2 == 1 and x or x:detach()
      end
    end, function(y)
      y:requires_grad_()
      return text(y)
    end)
    local c = ty.compile(function(t) return t:view(2, 2) end)
    local x = ty.range(4)
    c(x:detach())
    local y = c(x)
    x:requires_grad_()
    assert.is_true(y.requires_grad)
    assert.is_false(c(ty.range(4):requires_grad_():detach()).requires_grad)
  end)
end)

describe("leaves", function()
  local function leaf(n) return (ty.range(n) * 0.5):requires_grad_() end

  it("that become one while sizes are replayed are seen to be one", function()
    beside(function()
      local W, g = {}, ty.grad(function(p, x) return (p.a * p.b * x):sum() end)
      return function(x) return g(W, x).a end, function(k)
        if k > 5 then return nil end
        W.a, W.b = ty.full({ 1 }, 5), ty.full({ 1 }, 5)
        if k >= 3 then W.a = W.b end
        return ty.ones(1 + k)
      end
    end, texts)
    for _, second in ipairs { function(z) return z end, function(z) return z:view(6) end,
      function(z) return z:detach():requires_grad_() end } do
      beside(function()
        return function(v, u)
          (u * u):sum():backward()
          return v.grad
        end, function(k)
          if k < 3 then return leaf(3 + k), leaf(3 + k) end
          local z = leaf(6)
          if k < 6 then return z, second(z) end
          return nil
        end
      end, texts)
    end
  end)

  it("that are views of one buffer have one gradient, of which each sees its part", function()
    local function world(read)
      local flat = ty.ones(5)
      local w, b = flat:narrow(1, 1, 2):requires_grad_(), flat:narrow(1, 3, 2):requires_grad_()
      return function(k)
        ((w * 2 * k):sum() + (b * 3):sum()):backward()
        if read == "one" then return w.grad end
        if read == "both" then return w.grad, b.grad end
        if read == "set" then w.grad = b.grad:detach() end
        if read == "clear" then w.grad = nil end
        return nil
      end, function(k) return k < 6 and k or nil end, w, b
    end
    for _, read in ipairs { "none", "one", "both", "set", "clear" } do
      local f, _, w, b = world(read)
      local g, _, v, c = world(read)
      local compiled = ty.compile(g)
      for k = 1, 5 do
        local plain, fast = texts(f(k)), texts(compiled(k))
        assert.equal(plain, fast)
        assert.equal(texts(w.grad, b.grad), texts(v.grad, c.grad))
      end
      assert.is_true(ty.explain(compiled).skips > 2, read)
    end
  end)

  it("on one flat buffer are trained as one parameter each", function()
    local function world()
      local flat = ty.range(8) * 0.25
      local w, b = flat:narrow(1, 1, 6):view(2, 3):requires_grad_(), flat:narrow(1, 7, 2):requires_grad_()
      local opt = ty.optim.Adam({ w, b }, { lr = 0.1 })
      return function(x)
        opt:zero_grad()
        local y = ((w:matmul(x) + b):tanh() * 2):sum()
        y:backward()
        opt:step()
        return y:detach()
      end, function(k) if k < 8 then return ty.range(3) - k * 0.1 end end
    end
    local e = beside(world, texts)
    assert.is_true(e.skips > 5)
  end)

  it("are compared by jit.check, which undoes what the plain run gave to them", function()
    local x = ty.ones(3):requires_grad_()
    local f = ty.compile(function(n)
      (x * n):sum():backward()
    end)
    ty.check(f, 1)
    f(2)
    f(3)
    H.same(ty.full({ 3 }, 5), x.grad)
    -- a compiled function that gives another gradient than the plain one is caught
    local count = coroutine.wrap(function() -- nothing that is undone
      for n = 1, math.huge do coroutine.yield(n) end
    end)
    local g = ty.compile(ty.disable(function() x.grad = ty.full({ 3 }, count()) end))
    ty.check(g, 1)
    local ok, err = pcall(g)
    assert.is_false(ok)
    assert.match("x%.grad%[1%] differs: eager 1, compiled 2", err)
  end)
end)

describe("a variable that functions share", function()
  -- Two objects' closures over the same local; main belongs to the first one.
  local function objects()
    local function make(k)
      local a, t = k, { v = k }
      local o = {}
      function o.main(x, get, add)
        a = a + 1
        local before = get()
        add(10)
        return x * a + before, get()
      end
      function o.read(x, get) return x * a * 10 + get(), t.v end
      function o.rebind(x, get)
        t = { v = x }
        return get()
      end
      function o.get() return a + t.v * 1000 end
      function o.add(n) a = a + n t.v = t.v + n end
      return o
    end
    return { make(1), make(2), make(3) }
  end

  it("is one or is none in each call as it is there: all sequences of four calls", function()
    local wrong, sequences = 0, 0
    for _, name in ipairs { "main", "read", "rebind" } do
      for code = 0, 3 ^ 4 - 1 do
        for swap = 0, 1 do
          local function run(compile)
            local o, c, out = objects(), code, {}
            local f = compile(o[1][name])
            for k = 1, 4 do
              local which = c % 3 + 1
              c = (c - c % 3) / 3
              local add = o[swap == 1 and which % 3 + 1 or which].add
              local y, z = f(k, o[which].get, add)
              out[k] = ("%s %s %s %s %s"):format(tostring(y), tostring(z), o[1].get(), o[2].get(), o[3].get())
            end
            return table.concat(out, "; ")
          end
          sequences = sequences + 1
          if run(function(f) return f end) ~= run(function(f) return ty.compile(f) end) then wrong = wrong + 1 end
        end
      end
    end
    assert.equal(486, sequences)
    assert.equal(0, wrong)
  end)

  it("may be written by a function that is made anew for each call, without Lua", function()
    local total = 0
    local f = ty.compile(function(x, visit)
      visit(x * 2)
      return x + 1
    end)
    for i = 1, 20 do
      local seen = 0
      f(i, function(v) seen = seen + v end)
      total = total + seen
    end
    assert.equal(420, total)
    assert.is_true(ty.explain(f).skips >= 17)
  end)
end)

describe("methods of strings", function()
  local function fresh() return ty.compile(function(s, x) return s:upper(), s.extra, x * 2 end) end
  local library = getmetatable("").__index -- string, by a name under which it may be changed
  local upper, index = string.upper, getmetatable("").__index
  after_each(function()
    library.upper, library.extra = upper, nil
    getmetatable("").__index = index
  end)

  it("are those of the call: replaced, added, found by another __index", function()
    local f = fresh()
    assert.same({ "AB", nil, 4 }, { f("ab", 2) })
    f("ab", 2)
    library.upper = function(s) return "up " .. s end
    assert.same({ "up ab", nil, 4 }, { f("ab", 2) })
    library.upper, library.extra = upper, 7
    assert.same({ "AB", 7, 4 }, { f("ab", 2) })
    library.extra = nil
    getmetatable("").__index = function(_, k)
      if k == "upper" then return function() return "found" end end
      return index[k]
    end
    assert.same({ "found", nil, 4 }, { f("ab", 2) })
    getmetatable("").__index = index
    assert.same({ "AB", nil, 4 }, { f("ab", 2) })
    assert.is_true(ty.explain(f).skips > 0)
  end)
end)

describe("require", function()
  local modules = package.loaded
  local function fresh() return ty.compile(function(x) local m = require "spec.made_here" return m.f(x) * m.k end) end
  local function double(x) return x * 2 end
  before_each(function() modules["spec.made_here"] = { f = double, k = 3 } end)
  after_each(function() modules["spec.made_here"], package.preload["spec.made_here"] = nil, nil end)

  it("of a module that is loaded is part of a trace, and sees another module, its fields and its functions", function()
    local f = fresh()
    for _ = 1, 10 do assert.equal(6, f(ty.ones(1)):item()) end
    assert.equal(10, ty.explain(f).skips)
    modules["spec.made_here"].k = 4
    assert.equal(8, f(ty.ones(1)):item())
    modules["spec.made_here"].f = function(x) return x + 1 end
    assert.equal(8, f(ty.ones(1)):item())
    modules["spec.made_here"] = { f = double, k = 5 }
    assert.equal(10, f(ty.ones(1)):item())
    modules["spec.made_here"].k = 6
    assert.equal(12, f(ty.ones(1)):item())
  end)

  it("loads a module once that was unloaded in between", function()
    local f, loads = fresh(), 0
    for _ = 1, 3 do f(ty.ones(1)) end
    modules["spec.made_here"] = nil
    package.preload["spec.made_here"] = function() loads = loads + 1 return { f = double, k = 7 } end
    for _ = 1, 3 do assert.equal(14, f(ty.ones(1)):item()) end
    assert.equal(1, loads)
  end)

  it("is the function of that name at the time, and knows what true means as a module", function()
    local f = ty.compile(function(x, name) return x * 2, require(name) end)
    modules["spec.made_here"] = true
    for _ = 1, 3 do assert.is_true((select(2, f(ty.ones(1), "spec.made_here")))) end
    assert.equal(3, ty.explain(f).skips)
    modules["spec.made_here"] = "text"
    assert.equal("text", (select(2, f(ty.ones(1), "spec.made_here"))))
    assert.equal(string, (select(2, f(ty.ones(1), "string"))))
    local own = setmetatable({ require = function(name) return "own " .. name end }, { __index = _G })
    local g = setfenv(loadstring "return function(x) return x * 2, require 'string' end", own)()
    local h = ty.compile(g)
    for _ = 1, 3 do assert.equal("own string", (select(2, h(ty.ones(1))))) end
    own.require = require
    for _ = 1, 3 do assert.equal(string, (select(2, h(ty.ones(1))))) end
  end)

  it("raises as in plain Lua", function()
    local function g(x, name) return x * 2, require(name) end
    local f = ty.compile(g)
    for _, name in ipairs { "spec.no_such_module", "", 5, false } do
      local want = { pcall(g, ty.ones(1), name) }
      assert.is_false(want[1])
      for _ = 1, 3 do assert.same(want, { pcall(f, ty.ones(1), name) }) end
    end
  end)
end)

describe("a value that is given twice", function()
  it("is computed once and has one buffer, until somebody writes to it", function()
    local function f(a) return a + a, a + a end
    local recorded, compiled, x = H.lazy(f), ty.compile(f), ty.ones(4)
    recorded(x)
    assert.equal(1, ty.explain(recorded).signatures[1].graphs[1].steps)
    for _ = 1, 3 do
      local p, q = compiled(x)
      p:add_(5)
      q[1] = 9
      assert.same({ 7, 7, 7, 7 }, p:totable())
      assert.same({ 9, 2, 2, 2 }, q:totable())
    end
  end)

  it("has a buffer of its own in every row of a scan", function()
    local last, rows = ty.scan(function(c, v)
      local y = c + v
      return y, y
    end, ty.zeros(3), ty.arange(12):reshape(4, 3))
    assert.same({ 18, 22, 26 }, last:totable())
    assert.same({ { 0, 1, 2 }, { 3, 5, 7 }, { 9, 12, 15 }, { 18, 22, 26 } }, rows:totable())
  end)
end)
