--- Keys and lengths that are numbers of the call: one trace answers all of them, and does what plain Lua does.

local H = require "spec.helper"
local ty = H.ty

--- Calls plain and compiled with the same arguments; both must give the same, and so must what they have written.
local function pair(make)
  local plain, p = make()
  local f, q = make()
  local c = ty.compile(f)
  return function(...)
    local want, got = { pcall(plain, ...) }, { pcall(c, ...) }
    for i = 1, math.max(#want, #got) do assert.equal(tostring(want[i]), tostring(got[i])) end
    local a, b = {}, {}
    for k, v in pairs(p) do a[#a + 1] = tostring(k) .. "=" .. tostring(v) end
    for k, v in pairs(q) do b[#b + 1] = tostring(k) .. "=" .. tostring(v) end
    assert.same(a, b)
    assert.equal(#p, #q)
  end, c, p, q
end

local function captures(c) return ty.explain(c).captures end

local x = ty.ones(3)

describe("a key that is a number of the call", function()
  it("reads what stands there, and is no guard on its value", function()
    local call, c = pair(function()
      local t = { 5, 6, 7, 8, [300] = 9, [-2] = 10, [0] = 11 }
      return function(v, i) return v * t[i] end, t
    end)
    for _, i in ipairs { 1, 2, 3, 4, 300, -2, 0, -0 } do call(x, i) end
    assert.equal(1, captures(c))
  end)

  it("asks what kind of value stands there", function()
    local call, c = pair(function()
      local t = { 5, x, "a", nil, { k = 3 } }
      return function(v, i)
        local e = t[i]
        if type(e) == "string" or e == nil then return e end
        return v * (type(e) == "table" and e.k or e)
      end, {}
    end)
    for _ = 1, 2 do
      for i = 1, 6 do call(x, i) end
    end
    assert.equal(5, captures(c))
  end)

  it("may be a fraction, text, too large or not a number: each as in plain Lua", function()
    local call = pair(function()
      local t = { 1, 2, [1.5] = 3, ["1"] = 4, [2 ^ 40] = 5 }
      return function(v, i)
        t.last = t[i]
        t[i] = 7
        return v
      end, t
    end)
    for _ = 1, 2 do
      for _, i in ipairs { 1, 1.5, "1", 2 ^ 40, 2, 0 / 0, -1 / 0 } do call(x, i) end
      call(x, nil)
    end
  end)

  it("writes where the call says, so that the list grows as in plain Lua", function()
    local call, c = pair(function()
      local t = {}
      return function(v, i)
        t[i] = v * i
        return v + 1
      end, t
    end)
    for i = 1, 20 do call(x, i) end
    for _, i in ipairs { 7, 40, 21, 22, -1, 0 } do call(x, i) end
    assert.equal(1, captures(c))
  end)

  it("is told from another one: what was written at one answers reads at the other only where they are equal", function()
    local call, c = pair(function()
      local t = { 1, 2, 3, 4 }
      return function(v, i, j)
        t[i] = t[i] + 10
        t[j] = t[j] * 2
        return v * t[i], t[2]
      end, t
    end)
    for _, k in ipairs { { 1, 3 }, { 3, 4 }, { 4, 1 }, { 1, 1 }, { 3, 3 }, { 2, 4 }, { 4, 2 }, { 2, 2 } } do call(x, k[1], k[2]) end
    assert.equal(5, captures(c)) -- apart, equal, i or j or both of them 2
  end)

  it("is told from one that is written first, and again", function()
    local call = pair(function()
      local t = { 0, 0, 0 }
      return function(v, i, j)
        t[i] = 1
        t[j] = 2
        t[i] = 3
        return v + 1
      end, t
    end)
    for i = 1, 3 do
      for j = 1, 3 do call(x, i, j) end
    end
  end)

  it("finds two tables that are one for once", function()
    local call = pair(function()
      local t, u = { 1, 2, 3 }, { 4, 5, 6 }
      return function(v, i, j, same)
        local other = same and t or u
        t[i] = v
        local read = other[j]
        other[j] = 9
        return read, t[i]
      end, t
    end)
    for _, same in ipairs { false, true, false, true } do
      call(x, 1, 2, same)
      call(x, 2, 2, same)
      call(x, 3, 1, same)
    end
  end)

  it("finds one table under two names whose keys come and go in between", function()
    local function order(compile)
      local u, w, keys = {}, { list = {} }, {}
      local f = compile(function(v, i)
        u.tag = i
        w.list[i] = v
        u.tag = nil
        return v + 1
      end)
      f(x, 1)
      f(x, 2)
      rawset(w, "list", u)
      for i = 3, 12 do
        f(x, i)
        for k in next, u do keys[#keys + 1] = tostring(k) end
      end
      return table.concat(keys, " ")
    end
    assert.equal(order(function(f) return f end), order(ty.compile))
  end)

  it("asks metatables where nothing stands", function()
    local call = pair(function()
      local log = {}
      local t = setmetatable({ 1, nil, 3 }, { __index = function(_, k) return k * 100 end,
        __newindex = function(s, k, v)
          log[#log + 1] = k
          rawset(s, k, v)
        end })
      return function(v, i)
        local r = t[i]
        t[i] = 5
        return v * r, #log
      end, log
    end)
    for _ = 1, 2 do
      for i = 1, 5 do call(x, i) end
    end
  end)

  it("counts on: an upvalue, a field", function()
    local call, c = pair(function()
      local t, n, o = {}, 0, { at = 0 }
      return function(v)
        n, o.at = n + 1, o.at + 2
        t[n], t[-o.at] = v, n
        return v * n
      end, t
    end)
    for _ = 1, 12 do call(x) end
    assert.equal(1, captures(c))
  end)

  it("is a position of a tensor, too", function()
    local call, c = pair(function()
      local rows, t = ty.range(12):reshape(6, 2), {}
      return function(v, i)
        t[i] = rows:narrow(1, i, 1) * v[1]
        t[i + 1] = i
        return t[i]
      end, {}
    end)
    for i = 1, 6 do call(x, i) end
    assert.truthy(captures(c) <= 3)
  end)
end)

describe("the length of a list", function()
  it("is where a call appends, and no guard on its value", function()
    for _, append in ipairs {
      function(t, v) t[#t + 1] = v end,
      function(t, v) table.insert(t, v) end,
      function(t, v)
        local n = #t
        t[n + 1] = v
        t[n + 2] = n
      end,
      function(t, v)
        t[#t + 1] = v
        t[#t + 1] = 1
        table.insert(t, 2)
      end,
    } do
      local call, c = pair(function()
        local t = {}
        return function(v)
          append(t, v * 2)
          return v + 1
        end, t
      end)
      for _ = 1, 20 do call(x) end
      assert.equal(1, captures(c))
    end
  end)

  it("is what it was and what was added", function()
    local call, c = pair(function()
      local t = {}
      return function(v)
        t[#t + 1] = v
        table.insert(t, #t)
        if #t > 8 then
          t[#t] = nil
          table.remove(t)
        end
        return v * #t, t[#t]
      end, t
    end)
    for _ = 1, 20 do call(x) end
    assert.equal(2, captures(c))
  end)

  it("goes down as the host's table.remove takes it, whatever metatables say", function()
    local call = pair(function()
      local t = { 1, 2, 3, 4, 5, 6, 7, 8 }
      t[2] = nil
      setmetatable(t, { __index = function(_, k) return k * 10 end, __newindex = function() end })
      return function(v)
        local first, last = table.remove(t, 1), table.remove(t)
        return v + 1, first, last, rawget(t, 1)
      end, t
    end)
    for _ = 1, 4 do call(x) end
  end)

  it("is told from an empty list's, from which nothing goes", function()
    local call = pair(function()
      local t = {}
      return function(v)
        t[#t] = nil
        t[#t + 1] = v
        return v * #t
      end, t
    end)
    for _ = 1, 4 do call(x) end
  end)

  it("is that of plain Lua where the list has holes", function()
    local call, _, p, q = pair(function()
      local t = { 1, 2, 3 }
      return function(v)
        t[#t + 1] = v
        t[#t + 1] = 5
        return v, #t, t[#t]
      end, t
    end)
    for _ = 1, 3 do call(x) end
    for _, t in ipairs { p, q } do t[2], t[20], t[21] = nil, 1, 2 end
    for _ = 1, 9 do call(x) end
    for _, t in ipairs { p, q } do
      for k = #t, 1, -1 do t[k] = nil end
    end
    for _ = 1, 3 do call(x) end
  end)

  it("costs no walk over a long list", function()
    local list = {}
    for i = 1, 1e5 do list[i] = i end
    local f = ty.compile(function(v)
      list[#list + 1] = 1
      list[#list + 1] = 2
      local y = (v * #list + 1) * 0.5 + v * 2
      list[#list], list[#list - 1] = nil, nil
      return y
    end)
    for _ = 1, 5 do f(x) end
    local before = os.clock()
    for _ = 1, 200 do f(x) end
    assert.truthy((os.clock() - before) / 200 < 1e-4) -- a walk takes a millisecond
    assert.equal(1e5, #list)
  end)

  it("is one guard where a loop goes by it", function()
    local list = { 1, 2, 3 }
    local f = ty.compile(function(v)
      for i = 1, #list do v = v * list[i] end
      return v
    end)
    assert.equal(6, f(x)[1]:item())
    list[4] = 2
    assert.equal(12, f(x)[1]:item())
    assert.truthy(tostring(ty.explain(f):full()):find("list: has length 4", 1, true))
  end)
end)

describe("a list that is filled in a loop that data cut", function()
  for name, fill in pairs {
    ["by the loop's variable"] = function(t, i, v) t[i] = v end,
    ["by its length"] = function(t, _, v) t[#t + 1] = v end,
    ["by table.insert"] = function(t, _, v) table.insert(t, v) end,
  } do
    it("takes no trace for each turn: " .. name, function()
      local function plain(v, n)
        local list = {}
        for i = 1, n do
          v = v:matmul(v):tanh() * 0.5 + 1
          local s = v:sum():item()
          fill(list, i, s)
          if s > 1e9 then break end
        end
        return list
      end
      local f = ty.compile(plain)
      local m = ty.ones(8, 8)
      for k = 1, 5 do assert.same(plain(m * k, 30), f(m * k, 30)) end
      local e = ty.explain(f)
      for _, part in ipairs(e.parts) do assert.truthy(part.captures <= 3, part.begins) end
    end)
  end
end)
