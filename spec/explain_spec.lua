--- explain_spec.lua -- what jit.explain tells of functions in parts, of what backward passes keep, and of breaks.
-- What is told is compared with what the function itself counts, with sizes that are worked out by hand, and with the
-- lines of this file.

local H = require "spec.helper"
local ty = H.ty
local clock = ty.internals.clock

local here = "explain_spec.lua"

local function line() return debug.getinfo(2, "l").currentline end

--- Several operations, which make a part worth its while.
local function work(x) return ((x * 2 + 1):exp():log() - 1) * 0.5 + 1 end

local said = 0
local say = ty.disable(function() said = said + 1 end)

--- The lines of a text.
local function lines_of(text)
  local list = {}
  for l in text:gmatch "[^\n]+" do list[#list + 1] = l end
  return list
end

--- Of the parts' table as it is printed: by the heads of its columns, where these begin and end.
local function columns(rows)
  local at = {}
  for from, word, to in rows[1]:gmatch "()([%a]+)()" do at[word] = { from, to - 1 } end
  return at
end

--- A function of n cuts, each with work behind it.
local function with_cuts(n)
  local source = { "local work, say = ... return function(x)" }
  for _ = 1, n do source[#source + 1] = "x = work(x) say()" end
  source[#source + 1] = "return work(x) end"
  return loadstring(table.concat(source, "\n"), "=cuts.lua")(work, say)
end

describe("explain of a function in parts", function()
  local x = ty.arange(1, 9)
  local first, f

  before_each(function()
    first = line() + 2
    f = ty.compile(function(v)
      local y = work(v)
      say()
      y = work(y)
      local total = y:sum():item()
      if total > 1e6 then return y end
      return work(y) + total
    end)
  end)

  it("tells where each begins and ends, and why", function()
    for _ = 1, 10 do f(x) end
    local parts = ty.explain(f).parts
    assert.equal(3, #parts)
    local function told(p)
      local at = p.ends[1]
      return { p.begins:match "[^/]*$", p.line, at.at and at.at:match "[^/]*$", at.line, at.reason }
    end
    local disabled = "calls a function that jit.disable marked"
    assert.same({ here .. ":" .. first - 1, first - 1, here .. ":" .. first + 1, first + 1, disabled }, told(parts[1]))
    assert.same({ here .. ":" .. first + 2, first + 2, here .. ":" .. first + 3, first + 3, "item reads data" },
      told(parts[2]))
    assert.match("keep the value as a tensor", parts[2].ends[1].hint)
    assert.same({ {} }, parts[3].ends) -- the end
    assert.equal(first + 4, parts[3].line)
  end)

  it("tells how often each was called and hit, and came straight from the one before", function()
    local before = said
    for _ = 1, 10 do f(x) end
    assert.equal(10, said - before)
    local counted = {}
    for i, p in ipairs(ty.explain(f).parts) do counted[i] = { p.calls, p.skips, p.captures } end
    assert.same({ { 10, 10, 1 }, { 10, 10, 1 }, { 10, 10, 1 } }, counted)
    local parts = ty.explain(f).parts
    assert.same({ 0, 0 }, { parts[1].linked, parts[2].linked }) -- say stands before
    assert.truthy(parts[3].linked >= 8) -- all but those that captured
    assert.equal(ty.explain(f).calls, parts[1].calls)
  end)

  it("tells what a call of each takes, and looks at the clock seldom", function()
    f(x)
    for _, p in ipairs(ty.explain(f).parts) do assert.is_nil(p.time) end -- the first call is no measure
    local from = clock()
    for _ = 1, 1000 do f(x) end
    local took = clock() - from
    local e, sum = ty.explain(f), 0
    for _, p in ipairs(e.parts) do
      assert.truthy(p.time > 0 and p.time * p.timed / 2 < took, p.time) -- half of them took as long
      sum = sum + p.time
    end
    assert.truthy(sum < took)
    assert.equal(e.time, e.parts[1].time)
    assert.truthy(e.timed >= 1000 / 64 and e.timed <= 1000 / 64 + 7, e.timed) -- 1, 2, 4 ... 64, 128, 192 ...
    ty.reset(f)
    assert.same({ 0 }, { ty.explain(f).timed, ty.explain(f).time })
  end)

  it("prints a table that aligns", function()
    for k = 1, 300 do f(x * (k % 3)) end
    local rows, found = lines_of(tostring(ty.explain(f))), nil
    for i, l in ipairs(rows) do found = found or l:match "^part " and i end
    local table_of = { rows[found], rows[found + 1], rows[found + 2], rows[found + 3] }
    local at = columns(table_of)
    for i = 2, 4 do
      assert.equal(here .. ":", table_of[i]:sub(1, #here + 1))
      for _, head in ipairs { "calls", "hits", "linked", "captures", "each" } do -- numbers end where their head does
        assert.match("^[%d%-s]$", table_of[i]:sub(at[head][2], at[head][2]))
        assert.equal(" ", table_of[i]:sub(at[head][2] + 1, at[head][2] + 1))
      end
      assert.equal(" ", table_of[i]:sub(at.up[1] - 1, at.up[1] - 1))
      assert.match("^%S", table_of[i]:sub(at.up[1]))
    end
    assert.match("300 +300 +%-", table_of[2])
    assert.match("item reads data$", table_of[3])
    assert.match("item reads data; keep the value", ty.explain(f):full()) -- with the remedy
  end)

  it("gives the parts to programs, and is none of a function that is whole", function()
    f(x)
    local plain = ty.explain(f):table()
    assert.is_nil(getmetatable(plain))
    assert.equal(3, #plain.parts)
    assert.match("matmul", ty.explain(f):full():gsub("exp", "matmul")) -- graphs of the parts, too
    local whole = ty.compile(work)
    whole(x)
    assert.same({}, ty.explain(whole).parts)
    assert.is_nil(tostring(ty.explain(whole)):find("up to", 1, true))
  end)

  it("names the line of the reason where that is in another function", function()
    local at = line() + 2
    local function inner(v)
      say()
      return work(v)
    end
    local g = ty.compile(function(v)
      local y = inner(work(v) + 1)
      return work(y) * 2
    end)
    for _ = 1, 3 do g(x) end
    local found = false
    for _, p in ipairs(ty.explain(g).parts) do
      for _, e in ipairs(p.ends) do found = found or e.where and e.where:match ":(%d+)$" == tostring(at) end
    end
    assert.truthy(found, tostring(ty.explain(g)))
  end)

  it("tells that a function is cut at no more places, and prints in 25 lines", function()
    local most = 64
    local plain, many = with_cuts(most + 6), ty.compile(with_cuts(most + 6))
    for _ = 1, 3 do
      local before = said
      H.same(plain(x), many(x))
      assert.equal(2 * (most + 6), said - before)
    end
    local e = ty.explain(many)
    assert.equal(most, e.most_parts)
    assert.equal(most + 1, #e.parts)
    local text = tostring(e)
    assert.match("cut at 64 places, which is the most: what comes behind runs as it is", text)
    assert.truthy(#lines_of(text) <= 25, text)
    assert.match("and %d+ more parts", text)
    assert.match("it is cut at 64 places already", e:full())
    assert.match("cuts%.lua:%d+ +3 +3", e:full())
    assert.is_nil(ty.explain(f).most_parts)
    -- what is behind the last cut is tried seldom
    for _ = 1, 64 do many(x) end
    local tries = #e.parts[#e.parts].aborts
    assert.truthy(tries >= 1 and tries <= 3, tries)
    assert.truthy(#ty.explain(many).parts[#e.parts].aborts <= 8)
    local few = ty.compile(with_cuts(most - 1))
    for _ = 1, 3 do few(x) end
    assert.is_nil(ty.explain(few).most_parts)
  end)

  it("prints in 25 lines whatever there is to tell of traces, parts, misses and calls that ran", function()
    local source = { "local work, say = ... return function(x, kind)", [[if kind == 7 then kind = x:item() end
      x = work(x) if kind then x = x + #tostring(kind) end]] }
    for _ = 1, 40 do source[#source + 1] = "x = work(x) say()" end
    source[#source + 1] = "return work(x) end"
    local g = ty.compile(loadstring(table.concat(source, "\n"), "=cuts.lua")(work, say))
    local kinds = { 1, "text", true, {}, ty.ones(2), work }
    for i = 1, 60 do pcall(g, ty.ones(i % 2 + 1), kinds[i % 7], i % 3 == 0 and 1 or nil) end
    for _ = 1, 4 do pcall(g, ty.ones(2, 2), 7) end
    local e = ty.explain(g)
    local text = tostring(e)
    assert.truthy(#e.traces > 4 and #e.parts > 13 and #e.misses > 3 and #e.differences > 1, text)
    assert.equal(25, #lines_of(text), text)
    for _, l in ipairs(lines_of(text)) do assert.truthy(#l <= 160, l) end
    for _, part in ipairs { "and %d+ more traces", "and %d+ more parts", "miss: ", "signatures: ", ":full%(%)" } do
      assert.match(part, text)
    end
  end)
end)

describe("explain of a forward pass with gradients", function()
  local w, b

  before_each(function()
    w, b = ty.randn(3, 4):requires_grad_(), ty.randn(4):requires_grad_()
  end)

  local function of(f) return ty.explain(f).traces[1] end

  it("tells what a call keeps for its backward pass", function()
    local f = ty.compile(function(x) return (x:matmul(w) + b):tanh() end)
    local x = ty.ones(2, 3)
    f(x)
    local kept = of(f).kept
    table.sort(kept, function(p, q) return p.what < q.what end)
    -- the gradient of w needs x, that of tanh needs what it was given; that of b, a sum, needs nothing
    assert.same({ { what = "input", path = "x", type = "f32[2,3]", bytes = 24, by = "matmul" },
      { what = "result", type = "f32[2,4]", bytes = 32, by = "tanh" } }, kept)
    assert.match("gradients: a call keeps 1 result %(32 B%), 1 input %(24 B%); no backward plan yet", tostring(ty.explain(f)))
    assert.match("keeps result: f32%[2,4%], 32 B, for tanh", ty.explain(f):full())
    assert.match("keeps input x: f32%[2,3%], 24 B, for matmul", ty.explain(f):full())
  end)

  it("counts memory once that several values share", function()
    local f = ty.compile(function(x)
      local y = x:matmul(w):exp():cumsum(1)
      return y:narrow(1, 1, 1) * y:narrow(1, 2, 1)
    end)
    f(ty.ones(2, 3))
    local bytes = 0
    for _, v in ipairs(of(f).kept) do
      if v.what == "result" then bytes = bytes + v.bytes end
    end
    assert.equal(2 * 2 * 4 * 4, bytes) -- what exp was given, and y, of which two views are read
    local twice = ty.compile(function(x) return x:matmul(w):exp() + x:matmul(w):tanh() end) -- the product is computed once
    twice(ty.ones(2, 3))
    bytes = {}
    for _, v in ipairs(of(twice).kept) do
      if v.what == "result" then bytes[#bytes + 1] = v.bytes end
    end
    assert.same({ 32, 0 }, bytes)
    assert.match("memory of one above", ty.explain(twice):full())
  end)

  it("tells what is computed again, and from what", function()
    local f = ty.compile(function(x) return ((x:matmul(w) * 2 + b):sin():exp() * 3):tanh() end)
    f(ty.ones(2, 3))
    local again, result = {}, {}
    for _, v in ipairs(of(f).kept) do
      if v.what == "again" then again[#again + 1] = v.by elseif v.what == "result" then result[#result + 1] = v.bytes end
    end
    table.sort(again)
    -- what sin was given, x w 2 + b, is kept: x w itself is not. What exp and tanh were given follows from it.
    assert.same({ "exp", "tanh" }, again)
    assert.same({ 32 }, result)
    assert.match("a call keeps 1 result %(32 B%), 1 input %(24 B%) and computes 2 values %(64 B%) again", tostring(ty.explain(f)))
    assert.match("computes again: f32%[2,4%], 32 B, for exp", ty.explain(f):full())
  end)

  it("tells how many backward plans there are, and what they do", function()
    local f = ty.compile(function(x)
      local h = x:matmul(w):tanh()
      return h, (h * b):exp()
    end)
    local x = ty.ones(2, 3)
    local function go(which)
      w.grad, b.grad = nil, nil
      local results = { f(x) }
      for _, i in ipairs(which) do results[i]:sum():backward() end
    end
    go {}
    assert.same({}, of(f).backward)
    go { 1 }
    assert.equal(1, #of(f).backward)
    go { 1 }
    assert.equal(1, #of(f).backward) -- the same
    go { 2 }
    assert.equal(2, #of(f).backward)
    for _, p in ipairs(of(f).backward) do assert.truthy(p.operations >= 2 and p.steps >= 1) end
    assert.match("; 2 backward plans", tostring(ty.explain(f)))
    assert.match("backward plan 2: %d+ operations in", ty.explain(f):full())
  end)

  it("says nothing where no result needs a gradient", function()
    local f = ty.compile(function(x) return x * 2 end)
    f(ty.ones(2))
    assert.is_nil(of(f).kept)
    assert.is_nil(ty.explain(f):full():find("gradients:", 1, true))
    local step = ty.compile(function(x)
      (x:matmul(w)):sum():backward()
      return 1
    end)
    step(ty.ones(2, 3))
    assert.is_nil(of(step).kept)
  end)
end)

describe("fullgraph", function()
  it("raises with the first break, its line and what to do about it, in each call", function()
    local first = line() + 3
    local f = ty.compile(function(x)
      local y = work(x)
      if y:sum():item() > 1 then say() end
      return y
    end, { fullgraph = true })
    for _ = 1, 12 do
      local before = said
      local ok, message = pcall(f, ty.ones(3))
      assert.falsy(ok)
      assert.match("fullgraph was asked for, but the function cannot be captured: .*" .. here .. ":" .. first
        .. ": item reads data %(keep the value as a tensor", message)
      assert.equal(before, said)
    end
  end)

  it("raises at a break in a later call, and goes on answering those that have none", function()
    local f = ty.compile(function(x, k)
      if k then say() end
      return work(x)
    end, { fullgraph = true })
    for _ = 1, 8 do
      H.same(work(ty.ones(3)), f(ty.ones(3)))
      assert.error_matches(function() f(ty.ones(3), true) end, "jit.disable marked")
    end
    assert.equal(1, ty.explain(f).captures)
  end)
end)
