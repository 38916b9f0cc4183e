-- Random functions that share variables with others: plain against compiled, while callers change which ones they share with.
--   luajit spec/fuzz_cells.lua [programs = 20000] [seed = another each time] [only this program]
-- A program makes three objects by one function: closures over the same local variables, some of which read, write or rebind
-- them. One object's `main` is called with closures of its own object and of others; in between all may be
-- made anew, or their variables joined to those of others. After each call results, errors and all variables are written
-- down. The accounts of the plain and of the compiled function must be equal.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

-- --- programs

local VARIABLES = { "a", "b", "t.v", "u" }

local function expression(int, names)
  local x = int(2) == 1 and VARIABLES[int(#VARIABLES)] or names[int(#names)]
  local kind = int(6)
  if kind == 1 then return x .. " + 1" end
  if kind == 2 then return ("%s * 2 - %s"):format(x, names[int(#names)]) end
  if kind == 3 then return tostring(int(9)) end
  return x
end

--- One that changes a variable, or what it refers to.
local function write(int, names)
  local v = expression(int, names)
  local kind = int(7)
  if kind <= 2 then return "a = " .. v end
  if kind == 3 then return "b = " .. v end
  if kind == 4 then return "t.v = " .. v end
  if kind == 5 then return ("t = { v = %s }"):format(v) end
  if kind == 6 then return "u = " .. v end
  return "a, b = b, a"
end

local function statement(int, names, k)
  local function new()
    local name = "r" .. k
    names[#names + 1] = name
    return name
  end
  local kind = int(12)
  if kind <= 3 then return write(int, names) end
  if kind <= 5 then
    local e = expression(int, names)
    return ("local %s = %s"):format(new(), e)
  end
  if kind <= 8 then return ("local %s = get()"):format(new()) end
  if kind == 9 then return ("set(%s)"):format(expression(int, names)) end
  if kind == 10 then return ("local %s = both(%s)"):format(new(), expression(int, names)) end
  if kind == 11 then
    local body, e = write(int, { "x" }), expression(int, { "x" })
    return ("local function inner(x) %s return %s end local %s = inner(%s)"):format(body, e, new(), expression(int, names))
  end
  local e = expression(int, names)
  return ("if a == %d then a = %s end"):format(int(4), e)
end

--- main is a list of statements; get, set and both are texts.
local function make(seed)
  local int = frame.random(seed, 3)
  local names, program = { "x" }, {}
  for k = 1, 1 + int(5) do program[k] = statement(int, names, k) end
  program.get = "return " .. expression(int, { "a", "b" })
  program.set = write(int, { "x" })
  program.both = ("%s return %s"):format(write(int, { "x" }), expression(int, { "x" }))
  program.result = expression(int, names)
  program.calls = {}
  local now = { get = int(3), set = int(3), both = int(3), anew = false, x = int(5) }
  for c = 1, 6 + int(6) do
    if int(2) == 1 then now[({ "get", "set", "both" })[int(3)]] = int(3) end
    program.calls[c] = { get = now.get, set = now.set, both = now.both, x = int(5), anew = int(3) == 1, main = int(8) == 1 and 2 or 1,
      tensor = int(6) == 1 }
  end
  return program
end

local function source(program)
  local body = {}
  for k, s in ipairs(program) do body[k] = "    " .. s end
  return ([[
return function(i)
  local a, b, t, u = i, i * 10, { v = i * 100 }, i * 1000
  local o = {}
  function o.get() %s end
  function o.set(x) %s end
  function o.both(x) %s end
  function o.main(x, get, set, both)
%s
    return %s, x
  end
  function o.see() return a, b, t.v, u end
  return o
end]]):format(program.get, program.set, program.both, table.concat(body, "\n"), program.result)
end

local function show(program)
  local lines = { source(program) }
  for _, c in ipairs(program.calls) do
    lines[#lines + 1] = ("-- object %d: main(%d%s, get of %d, set of %d, both of %d)%s"):format(c.main, c.x,
      c.tensor and " as a tensor" or "", c.get, c.set, c.both, c.anew and ", 2 and 3 made anew" or "")
  end
  return table.concat(lines, "\n")
end

-- --- accounts

local counts = { calls = 0, raised = 0, skips = 0, captured = 0 }

local function text(v)
  if ty.is_tensor(v) then return ("tensor %s"):format(tostring(v)) end
  if type(v) == "number" then return ("%.17g"):format(v) end
  return (tostring(v):gsub("^.-:%d+: ", ""):gsub("0x%x+", ""))
end

local function line(...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = text((select(i, ...))) end
  return table.concat(list, ", ")
end

local function run(program, compile)
  local maker = assert(loadstring(source(program), "=program"))()
  local o, mains = {}, {}
  for i = 1, 3 do o[i] = maker(i) end
  for i = 1, 2 do mains[i] = compile(o[i].main) end
  local first, second, accounts = o[1], o[2], {}
  for k, c in ipairs(program.calls) do
    if c.anew then o[2], o[3] = maker(k + 1), maker(k + 2) end
    local x = c.tensor and ty.full({ 2 }, c.x) or c.x
    local result = line(pcall(mains[c.main], x, o[c.get].get, o[c.set].set, o[c.both].both))
    accounts[k] = table.concat({ result, line(pcall(first.see)), line(pcall(second.see)), line(pcall(o[2].see)),
      line(pcall(o[3].see)) }, " | ")
    counts.calls = counts.calls + 1
    if result:sub(1, 4) ~= "true" then counts.raised = counts.raised + 1 end
  end
  return accounts, mains
end

local function check(program)
  local plain = run(program, function(f) return f end)
  local compiled, mains = run(program, function(f) return ty.compile(f) end)
  for k = 1, #plain do
    if plain[k] ~= compiled[k] then return ("call %d differs\nplain    %s\ncompiled %s"):format(k, plain[k], compiled[k]) end
  end
  return nil, mains
end

local function passed(_, _, mains)
  for _, f in ipairs(mains) do
    local e = ty.explain(f)
    counts.skips = counts.skips + e.skips
    if e.captures > 0 then counts.captured = counts.captured + 1 end
  end
end

local fuzz = frame.fuzzer("fuzz_cells", 20000, { make = make, check = check, show = show, passed = passed })
fuzz:run(5000)

fuzz:claim(fuzz.failures == 0, "%d programs differ between plain and compiled", fuzz.failures)
if fuzz:ran(400) then
  fuzz:claim(counts.raised < 0.2 * counts.calls, "%d of %d calls raise, fewer than a fifth", counts.raised, counts.calls)
  fuzz:claim(counts.captured >= fuzz.programs, "%d functions are captured, at least as many as programs", counts.captured)
  fuzz:claim(counts.skips >= 0.3 * counts.calls, "%d of %d calls skipped Lua, three in ten", counts.skips, counts.calls)
end
print(("fuzz_cells: %d programs, seed %d, %.0f s: %d calls, plain and compiled, %d raise, %d answered without Lua; %d functions "
  .. "captured"):format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.calls, counts.raised, counts.skips, counts.captured))
fuzz:leave()
