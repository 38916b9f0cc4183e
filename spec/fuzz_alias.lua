-- Random functions of tensors that share memory: plain against compiled, bit for bit, while who is who changes.
--   luajit spec/fuzz_alias.lua [programs = 20000] [seed = another each time] [only this program]
-- A world has storages and views of them: the same place by two views, halves, a matrix and its transpose, expansions,
-- leaves, leaves that are views of one storage, detached ones, copies that share until they are written. A program is a
-- function of two tensors and three fields, and a list of calls, between which arguments and fields are made other ones of
-- the world, for one of several sizes. After each call all is written down: what results hold, whether they need gradients,
-- whose memory they share and where they begin in it, all storages, all gradients, error texts. Both accounts must be equal.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

local storage_of = ty.internals.grad.storage

-- --- worlds: tensors by name, all vectors of n elements, as two programs of one size find them

local NAMES = { "a", "a2", "b", "every", "row", "turned", "same", "wide", "fresh", "other", "leaf", "leaf2", "left", "right",
  "left2", "off", "whole", "copy", "near" }

local function world(n)
  local w = {}
  local base = ty.range(4 * n)
  w.a, w.a2, w.b = base:narrow(1, 1, n), base:reshape(4, n)[1], base:narrow(1, n + 1, n)
  w.near = base:narrow(1, 2, n)
  w.every, w.row = base[{ { 1, -1, 4 } }], base:reshape(4, n)[4]
  w.turned = base:reshape(n, 4):t()[2]
  w.wide = ty.full({ 1 }, 3):expand(n)
  w.fresh, w.other = ty.range(n) * 0.5, ty.range(n) - 2
  w.same = w.fresh:narrow(1, 1, n)
  w.copy = w.other:detach()
  w.leaf, w.leaf2 = (ty.range(n) * 0.25):requires_grad_(), (ty.range(n) + 1):requires_grad_()
  local flat = ty.range(2 * n) * 0.5
  w.left, w.right = flat:narrow(1, 1, n):requires_grad_(), flat:narrow(1, n + 1, n):requires_grad_()
  w.left2 = flat:narrow(1, 1, n)
  w.off, w.whole = w.leaf:detach(), w.leaf:reshape(n)
  return w
end

-- --- programs

local OPERANDS = { "p", "q", "W.x", "W.y", "W.z" }

--- {text of a statement}; v: names of values so far, which it may add to.
local function statement(int, v, k)
  local function operand() return int(3) == 1 and #v > 0 and v[int(#v)] or OPERANDS[int(#OPERANDS)] end
  local function new()
    local name = "t" .. k
    v[#v + 1] = name
    return name
  end
  local x, y = operand(), operand()
  local kind = int(20)
  if kind <= 4 then return ("local %s = %s %s %s"):format(new(), x, ({ "*", "+", "-" })[int(3)], y) end
  if kind == 5 then return ("local %s = %s:detach()"):format(new(), x) end
  if kind == 6 then return ("local %s = %s:reshape(-1)"):format(new(), x) end
  if kind == 7 then return ("local %s = %s:narrow(1, 1, n)"):format(new(), x) end
  if kind == 8 then return ("local %s = %s:flip(1)"):format(new(), x) end
  if kind == 9 then return ("local %s = (%s * 2):neg():exp()"):format(new(), x) end
  if kind == 10 then return ("ty.no_grad(function() %s:add_(%s) end)"):format(x, int(2) == 1 and y or int(5)) end
  if kind == 11 then return ("if not %s.requires_grad then %s[1] = %s end"):format(x, x, int(2) == 1 and int(9) or y .. "[2]") end
  if kind == 12 then return ("out.%s = %s"):format(({ "f", "g" })[int(2)], x) end
  if kind == 13 then return ("%s = %s"):format(OPERANDS[2 + int(3)], x) end
  if kind <= 16 then return ("B(%s * %s + %s)"):format(x, y, int(2) == 1 and operand() or int(4)) end
  if kind == 17 then return ("local %s = %s.grad or %s"):format(new(), x, y) end
  if kind == 18 then
    return ("if %s.requires_grad and %s.is_leaf then %s.grad = %s end"):format(x, x, x, int(2) == 1 and "nil" or y .. ":detach()")
  end
  if kind == 19 then
    return ("local %s, t%d_ = G(%s, %s)"):format(new(), k, x, y)
  end
  return ("local %s = H({ %s, b = %s }).b"):format(new(), x, y)
end

local HEAD = [[
local ty, W, out = ...
local G = ty.grad(function(u, v) return (u * v + u):sum() end, { 1, 2 })
local H = ty.grad(function(t) return (t[1] * t.b * t.b):sum() end)
local function B(y) if y.requires_grad then y:sum():backward() end end
return function(p, q, n)
]]

local function make(seed)
  local int = frame.random(seed, 3)
  local program = { results = {}, sizes = int(3), fields = {} }
  local v = {}
  for k = 1, 1 + int(5) do program[k] = statement(int, v, k) end
  for k = 1, int(3) do program.results[k] = int(2) == 1 and #v > 0 and v[int(#v)] or OPERANDS[int(#OPERANDS)] end
  local function name() return NAMES[int(#NAMES)] end
  local now = { p = name(), q = name(), x = name(), y = name(), z = name() }
  program.calls = {}
  for c = 1, 5 + int(6) do
    if c > 2 then -- most often one thing changes, back and forth
      for _ = 1, int(3) do now[({ "p", "q", "x", "y", "z" })[int(5)]] = name() end
      if int(3) == 1 then now.q = now.p end
    end
    program.calls[c] = { p = now.p, q = now.q, x = now.x, y = now.y, z = now.z,
      n = 3 + (c > 2 and int(program.sizes) or 1), reset = int(2) == 1 }
  end
  return program
end

local function source(program)
  local body = {}
  for k, s in ipairs(program) do body[k] = "  " .. s .. ";" end
  -- names whose statement was left out while shrinking are globals, which are nil
  return HEAD .. table.concat(body, "\n") .. "\n  return " .. table.concat(program.results, ", ") .. "\nend"
end

local function show(program)
  local lines = { source(program) }
  for _, c in ipairs(program.calls) do
    lines[#lines + 1] = ("-- n = %d, p = %s, q = %s, x = %s, y = %s, z = %s%s"):format(c.n, c.p, c.q, c.x, c.y, c.z,
      c.reset and ", a new world" or "")
  end
  return table.concat(lines, "\n")
end

-- --- accounts

local function text_of(t)
  local values = ty.no_grad(function() return t:detach():clone():totable() end)
  if type(values) == "number" then values = { values } end
  for i, v in ipairs(values) do values[i] = type(v) == "table" and "table" or ("%.17g"):format(v) end
  return ("%s[%s]{%s}%s"):format(t.dtype, table.concat(t.shape, ","), table.concat(values, " "):gsub("nan", "-nan"):gsub("%-%-", "-"),
    t.requires_grad and (t.is_leaf and " leaf" or " taped") or "")
end

local function account(out, W, w, ok, ...)
  local lines, seen, stores, n = { tostring(ok) }, {}, {}, 0
  local function add(name, v)
    if not ty.is_tensor(v) then
      lines[#lines + 1] = name .. ": " .. tostring(v):gsub("^.-:%d+: ", "")
      return
    end
    local id = storage_of(v)
    if not stores[id] then
      n = n + 1
      stores[id] = n
    end
    local again = seen[v]
    seen[v] = seen[v] or name
    lines[#lines + 1] = ("%s: %s in %d%s"):format(name, text_of(v), stores[id], again and ", is " .. again or "")
    local g = v.is_leaf and v.grad
    if g then lines[#lines + 1] = ("%s.grad: %s"):format(name, text_of(g)) end
  end
  for _, name in ipairs(NAMES) do add(name, w[name]) end
  for _, name in ipairs { "x", "y", "z" } do add("W." .. name, W[name]) end
  for _, name in ipairs { "f", "g" } do add("out." .. name, out[name]) end
  for i = 1, select("#", ...) do add("result " .. i, (select(i, ...))) end
  return table.concat(lines, "\n")
end

local counts = { calls = 0, raised = 0, skips = 0, captured = 0, played = 0 }

--- Accounts of all calls, and the function.
local function run(program, compiled)
  local worlds, W, out = {}, {}, {}
  local body = assert(loadstring(source(program), "=program"))(ty, W, out)
  local f = compiled and ty.compile(body) or body
  local accounts = {}
  for i, c in ipairs(program.calls) do
    if c.reset then worlds[c.n] = nil end
    local w = worlds[c.n] or world(c.n)
    worlds[c.n] = w
    W.x, W.y, W.z, out.f, out.g = w[c.x], w[c.y], w[c.z], nil, nil
    local function note(ok, ...)
      if compiled then
        counts.calls = counts.calls + 1
        if not ok then counts.raised = counts.raised + 1 end
      end
      accounts[i] = account(out, W, w, ok, ...)
    end
    note(pcall(f, w[c.p], w[c.q], c.n))
  end
  return accounts, f
end

local function first_difference(a, b)
  local x, y = {}, {}
  for line in a:gmatch "[^\n]+" do x[#x + 1] = line end
  for line in b:gmatch "[^\n]+" do y[#y + 1] = line end
  for i = 1, math.max(#x, #y) do
    if x[i] ~= y[i] then return ("plain    %s\ncompiled %s"):format(tostring(x[i]), tostring(y[i])) end
  end
end

local function check(program)
  local plain = run(program, false)
  local compiled, f = run(program, true)
  for i = 1, #plain do
    if plain[i] ~= compiled[i] then return ("call %d differs\n%s"):format(i, first_difference(plain[i], compiled[i])) end
  end
  return nil, f
end

local function passed(_, _, f)
  local e = ty.explain(f)
  local instances = 0
  for _, t in ipairs(e.traces) do instances = instances + t.instances end
  counts.skips, counts.played = counts.skips + e.skips, counts.played + math.max(0, instances - e.captures)
  if e.captures > 0 then counts.captured = counts.captured + 1 end
end

local fuzz = frame.fuzzer("fuzz_alias", 20000, { make = make, check = check, show = show, passed = passed })
fuzz:run(5000)

fuzz:claim(fuzz.failures == 0, "%d programs differ between plain and compiled", fuzz.failures)
if fuzz:ran(400) then
  fuzz:claim(counts.raised < 0.4 * counts.calls, "%d of %d calls raise, fewer than two in five", counts.raised, counts.calls)
  fuzz:claim(counts.captured >= 0.5 * fuzz.programs, "%d of %d programs are captured, at least half", counts.captured, fuzz.programs)
  fuzz:claim(counts.skips >= 0.3 * counts.calls, "%d of %d calls skipped Lua, three in ten", counts.skips, counts.calls)
  fuzz:claim(counts.played >= 0.05 * fuzz.programs, "%d sets of sizes were replayed, one for twenty programs", counts.played)
end
print(("fuzz_alias: %d programs, seed %d, %.0f s: %d calls, %d raise, %d answered without Lua; %d programs captured, %d sets of "
  .. "sizes replayed"):format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.calls, counts.raised, counts.skips,
  counts.captured, counts.played))
fuzz:leave()
