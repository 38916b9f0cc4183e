-- Random functions that read, fill and empty lists by numbers of the call and by lengths: plain against compiled.
--   luajit spec/fuzz_keys.lua [programs = 20000] [seed = another each time] [only this program]
-- A program is a world of lists (an upvalue, a field, two arguments, which may be the same one), and a function that is called
-- with other numbers, lists and holes each time. Some of its statements cut it into parts. After each call results, errors,
-- lengths, the order of keys and all values are written down; the accounts of the plain and of the compiled function must be
-- equal.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

jit.off() -- LuaJIT's compiler may find another end of a list with holes than its interpreter does
require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

-- --- programs

local LISTS = { "a", "b", "up", "w.list", "a", "up" }
local NAMES = { "i", "j", "n", "w.n" }

local function pick(int, list) return list[int(#list)] end

--- A key: of the call, of the code, of a length.
local function key(int, list)
  local kind, name = int(14), pick(int, NAMES)
  if kind <= 4 then return name end
  if kind <= 6 then return ("%s + %d"):format(name, int(2)) end
  if kind == 7 then return ("%s - 1"):format(name) end
  if kind == 8 then return tostring(int(5)) end
  if kind <= 10 then return "#" .. list end
  if kind == 11 then return ("#%s + 1"):format(list) end
  if kind == 12 then return ("#%s - 1"):format(list) end
  if kind == 13 then return ("(%s + #%s) %% 4"):format(name, list) end
  return ("#%s + 1"):format(pick(int, LISTS))
end

local function value(int)
  local kind = int(10)
  if kind <= 3 then return tostring(int(9)) end
  if kind <= 5 then return pick(int, NAMES) end
  if kind <= 7 then return ("x * %d"):format(int(3)) end
  if kind == 8 then return "nil" end
  local list = pick(int, LISTS)
  return ("%s[%s]"):format(list, key(int, list))
end

--- "kept" notes a value among the results.
local function statement(int, depth)
  local list = pick(int, LISTS)
  local kind, k, v = int(depth > 0 and 21 or 26), key(int, list), value(int)
  if kind <= 3 then return ("kept(out, %s[%s])"):format(list, k) end
  if kind <= 6 then return ("%s[%s] = %s"):format(list, k, v) end
  if kind <= 8 then return ("%s[#%s + 1] = %s"):format(list, list, v) end
  if kind == 9 then return ("table.insert(%s, %s)"):format(list, v) end
  if kind == 10 then return ("kept(out, table.remove(%s))"):format(list) end
  if kind == 11 then return ("kept(out, #%s)"):format(list) end
  if kind == 12 then return ("%s[#%s] = nil"):format(list, list) end
  if kind == 13 then
    local other = pick(int, LISTS)
    return ("%s[%s], %s[%s] = %s[%s], %s"):format(list, k, other, key(int, other), list, key(int, list), v)
  end
  if kind == 14 then return ("push(%s, %s)"):format(list, v) end
  if kind == 15 then return ("kept(out, rawget(%s, %s)) rawset(%s, %s, %s)"):format(list, k, list, pick(int, NAMES), v) end
  if kind == 16 then return ("n = n + 1 %s[n] = %s"):format(list, v) end
  if kind == 17 then return ("w.n = w.n + 1 kept(out, %s[w.n])"):format(list) end
  if kind == 18 then return ("%s.tag = %s"):format(list, v) end
  if kind == 19 then return pick(int, { "kept(out, unpack(%s))", "for _, v in ipairs(%s) do kept(out, v) end", "kept(out, next(%s))",
    "for q, v in pairs(%s) do kept(out, q, v) end", "table.insert(%s, 1, 7)", "kept(out, table.remove(%s, 1))" }):format(list) end
  if kind == 20 then return pick(int, { "kept(out, x:sum():item())", "said(i)", "kept(out, x:get(1))" }) end
  if kind == 21 then return ("kept(out, select('#', %s[%s], #%s))"):format(list, k, list) end
  if kind == 22 then return ("if %s == %s then %s end"):format(k, key(int, list), statement(int, depth + 1)) end
  if kind == 23 then return ("if #%s < %d then %s end"):format(list, int(6), statement(int, depth + 1)) end
  if kind == 24 then return ("for q = 1, %d do %s[%s + q] = %s end"):format(int(3), list, k, value(int)) end
  local body = statement(int, depth + 1):gsub("%f[%a]i%f[%A]", "t")
  return ("for t = 1, %d do %s %s end"):format(1 + int(3), body, pick(int, { "said(t)", "", "kept(out, x:sum():item())" }))
end

--- What happens to the world before a call.
local function change(int)
  local list = pick(int, { "lists[1]", "lists[2]", "lists[3]" })
  local kind = int(12)
  if kind <= 3 then return ("%s[#%s + 1] = %d"):format(list, list, int(9)) end
  if kind == 4 then return ("%s[%d] = nil"):format(list, int(5)) end
  if kind == 5 then return ("%s[%d] = %d"):format(list, int(12), int(9)) end
  if kind == 6 then return ("for k = #%s, 1, -1 do %s[k] = nil end"):format(list, list) end
  if kind == 7 then return ("lists[%d] = lists[%d]"):format(int(3), int(3)) end
  if kind == 8 then return ("lists[%d] = { %s }"):format(int(3), ("1, "):rep(int(8) == 1 and 60 + int(8) or int(5))) end
  if kind == 9 then return ("setmetatable(%s, { %s })"):format(list, pick(int, { "", "__index = { 5, 6, 7 }",
    "__index = function(_, k) return k end", "__newindex = function(t, k, v) rawset(t, k, v) rawset(t, 'made', k) end" })) end
  if kind == 10 then return ("setmetatable(%s, nil)"):format(list) end
  if kind == 11 then return ("%s.tag = nil"):format(list) end
  return ("%s[%d] = ty.full({ 2 }, %d)"):format(list, int(4), int(9))
end

local ODD = { "0", "-1", "1.5", "'2'", "nil", "0 / 0", "2 ^ 31", "-0", "1e300" }

local function make(seed)
  local int = frame.random(seed, 3)
  local program = { calls = {} }
  for k = 1, 1 + int(5) do program[k] = statement(int, 0) end
  local i, j = int(4), int(4)
  for c = 1, 8 + int(6) do
    if int(3) > 1 then i = i + 1 end
    if int(3) == 1 then j = int(4) end
    if i > 9 then i = 1 end
    program.calls[c] = { change = int(2) == 1 and change(int) or "", a = int(4) == 1 and 2 or 1, b = int(4) == 1 and 1 or 2,
      i = int(12) == 1 and pick(int, ODD) or tostring(i), j = int(20) == 1 and pick(int, ODD) or tostring(j) }
  end
  return program
end

local function source(program)
  local body, steps = {}, {}
  for k, s in ipairs(program) do body[k] = "  " .. s end
  for k, c in ipairs(program.calls) do
    steps[k] = ("  function() %s up = lists[3] w.list = lists[%d] return x, %s, %s, lists[%d], lists[%d] end,")
      :format(c.change, k % 3 + 1, c.i, c.j, c.a, c.b)
  end
  return ([[
local ty, wrap, said = ...
local lists, w, n, results = { { 1, 2, 3 }, { 4, 5 }, {} }, { n = 0 }, 0, {}
local up, x = lists[3], ty.full({ 2 }, 3)
w.list = lists[1]
local function push(t, v) t[#t + 1] = v return #t end
local function kept(out, ...)
  for k = 1, select("#", ...) do
    out.n = out.n + 1
    out[out.n] = select(k, ...)
  end
end
local function main(x, i, j, a, b)
  local out = { n = 0 }
%s
  kept(out, x + 1)
  return out, unpack(out, 1, out.n)
end
return wrap(main), {
%s
}, function() return lists, w, n, up end]]):format(table.concat(body, "\n"), table.concat(steps, "\n"))
end

-- --- accounts

local counts = { calls = 0, raised = 0, skips = 0, captured = 0, parts = 0, captures = 0 }

local function text(v, known)
  if ty.is_tensor(v) then return tostring(v) end
  if type(v) == "number" then return ("%.17g"):format(v) end
  if type(v) == "table" then
    if known[v] then return "table " .. known[v] end
    known.n = known.n + 1
    known[v] = known.n
    local list = { ("table %d #%d"):format(known.n, #v) }
    for k, e in next, v do list[#list + 1] = text(k, known) .. "=" .. text(e, known) end
    return table.concat(list, " ")
  end
  return (tostring(v):gsub("0x%x+", ""))
end

local function line(...)
  local list, known = {}, { n = 0 }
  for i = 1, select("#", ...) do list[i] = text((select(i, ...)), known) end
  return table.concat(list, ", ")
end

local function run(program, compile)
  local log, f = {}, nil
  local said = setmetatable({}, { __call = function(_, v) log[#log + 1] = tostring(v) end })
  local function wrap(main)
    f = compile(main)
    return f
  end
  local main, steps, world = assert(loadstring(source(program), "=program"))(ty, wrap, function(v)
    said(v)
    return debug.getinfo(1, "l") ~= nil -- which no capture goes through
  end)
  local accounts = {}
  for k, step in ipairs(steps) do
    local result = line(pcall(function() return main(step()) end))
    accounts[k] = table.concat({ result, line(world()), table.concat(log, " ") }, " | ")
    counts.calls = counts.calls + 1
    if result:sub(1, 4) ~= "true" then counts.raised = counts.raised + 1 end
  end
  return accounts, f
end

local function check(program)
  local plain = run(program, function(f) return f end)
  local compiled, f = run(program, function(f) return ty.compile(f) end)
  for k = 1, #plain do
    if plain[k] ~= compiled[k] then return ("call %d differs\nplain    %s\ncompiled %s"):format(k, plain[k], compiled[k]) end
  end
  return nil, f
end

local function passed(_, _, f)
  local e = ty.explain(f)
  counts.skips = counts.skips + e.skips
  counts.captures = counts.captures + e.captures
  if e.captures > 0 then counts.captured = counts.captured + 1 end
  if #e.parts > 0 then counts.parts = counts.parts + 1 end
end

local fuzz = frame.fuzzer("fuzz_keys", 20000, { make = make, check = check, show = source, passed = passed })
fuzz:run(5000)

fuzz:claim(fuzz.failures == 0, "%d programs differ between plain and compiled", fuzz.failures)
if fuzz:ran(400) then
  fuzz:claim(counts.raised < 0.25 * counts.calls, "%d of %d calls raise, fewer than a quarter", counts.raised, counts.calls)
  fuzz:claim(counts.captured >= 0.5 * fuzz.programs, "%d functions are captured, at least half", counts.captured)
  fuzz:claim(counts.skips >= 0.15 * counts.calls, "%d of %d calls skipped Lua, three in twenty", counts.skips, counts.calls)
end
print(("fuzz_keys: %d programs, seed %d, %.0f s: %d calls, plain and compiled, %d raise, %d answered without Lua; %d functions "
  .. "captured, %d times, %d in parts"):format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.calls, counts.raised, counts.skips,
  counts.captured, counts.captures, counts.parts))
fuzz:leave()
