-- Random callers of compiled functions and of operations, whose results are let go of when they are dead, against the
-- same ones where nothing is.
--   luajit spec/fuzz_lifetimes.lua [programs = 20000] [seed = another each time] [only this program]
-- A program keeps, renames, exchanges, returns, stores, closes over, yields and drops results, in loops and functions
-- that call themselves. All results count as large. A result that is let go of too early raises.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

local LARGE = 256 * 1024
local counts = { freed = 0 }

local function pick(r, list) return list[r(#list)] end

-- --- making: a program is a list of statements, each a text of one or more lines

local names = { "a", "b", "c", "d" }
local make_block

local statement = {
  call = function(r) return ("%s = f(%s)"):format(pick(r, names), pick(r, names)) end,
  again = function(r)
    local v = pick(r, names)
    return ("%s = f(%s)"):format(v, v)
  end,
  drop = function(r) return ("f(%s)"):format(pick(r, names)) end,
  move = function(r) return ("%s = %s"):format(pick(r, names), pick(r, names)) end,
  swap = function(r) return ("%s, %s = %s, %s"):format(pick(r, names), pick(r, names), pick(r, names), pick(r, names)) end,
  store = function(r) return ("t[%d] = %s"):format(r(3), pick(r, names)) end,
  fetch = function(r) return ("%s = t[%d] or %s"):format(pick(r, names), r(3), pick(r, names)) end,
  field = function(r) return ("t.x = %s"):format(pick(r, names)) end,
  up = function(r) return ("up = %s"):format(pick(r, names)) end,
  down = function(r) return ("%s = up or %s"):format(pick(r, names), pick(r, names)) end,
  global = function(r) return ("G = %s"):format(pick(r, names)) end,
  number = function(r)
    return ("%s = %s %s %s"):format(pick(r, names), pick(r, names), pick(r, { "+", "-", "*" }), pick(r, { "2", "0.5" }))
  end,
  left = function(r) return ("%s = 2 %s %s"):format(pick(r, names), pick(r, { "+", "-", "*" }), pick(r, names)) end,
  two = function(r) return ("%s = %s %s %s"):format(pick(r, names), pick(r, names), pick(r, { "+", "-" }), pick(r, names)) end,
  object = function(r) return ("%s = keeper %s %s"):format("local _", pick(r, { "+", "*" }), pick(r, names)) end,
  method = function(r)
    local methods = { "abs", "sin", "relu", "contiguous", "clone", "detach" }
    return ("%s = %s:%s()"):format(pick(r, names), pick(r, names), pick(r, methods))
  end,
  chain = function(r)
    local a, b = pick(r, names), pick(r, names)
    return ("%s = ((%s * 2 + %s):abs() - %s * 0.5) * %s"):format(a, b, pick(r, names), pick(r, names), pick(r, { a, b, "0.25" }))
  end,
  function_of_it = function(r) return ("%s = %s(%s)"):format(pick(r, names), pick(r, { "exp", "abs" }), pick(r, names)) end,
  sly = function(r)
    return ("do\n  local z = %s * 2\n  local y = %s %s z\n  %s = y %s z\nend"):format(pick(r, names),
      pick(r, { "sly", "sly2", "keeper", pick(r, names) }),
      pick(r, { "+", "*" }), pick(r, names), pick(r, { "+", "-" })):gsub("keeper ([+*]) z\n  (%w) = y", "keeper %1 z\n  %2 = z")
  end,
  lent = function(r)
    return ("do\n  local z = %s * 2\n  local y = %s * z\n%s  %s = y + %s\nend"):format(pick(r, names), pick(r, names),
      r(2) == 1 and ("  t[%d] = s %% 3 < 1 and z or t[1]\n"):format(r(3)) or "", pick(r, names), pick(r, { "z", "y", "1" }))
  end,
  given_back = function(r)
    return ("%s = ends3(%s %s 2)"):format(pick(r, names), pick(r, names), pick(r, { "+", "*" }))
  end,
  sum = function(r) return ("s = s + %s:sum():item()"):format(pick(r, names)) end,
  given = function(r) return ("%s = k(%s)"):format(pick(r, names), pick(r, names)) end,
  held = function(r) return ("hold(%s)"):format(pick(r, names)) end,
  add = function(r) return ("list:add(%s)"):format(pick(r, names)) end,
  write = function(r) return ("%s[1] = %s:sum()"):format(pick(r, names), pick(r, names)) end,
  closure = function(r)
    local v = pick(r, names)
    return ("fns[#fns + 1] = function() return %s end"):format(v)
  end,
  setter = function(r) return ("local set = function(v) %s = v end\nset(%s)"):format(pick(r, names), pick(r, names)) end,
  yield = function(r) return ("if co then\n  %s = yield(%s)\nend"):format(pick(r, names), pick(r, names)) end,
  recur = function(r)
    return ("if n > 0 then\n  local v = main(n - 1, %s)\n  %s = type(v) == 'number' and x0 or v\nend")
      :format(pick(r, names), pick(r, names))
  end,
  protected = function(r)
    return ("local ok, v = pcall(f, %s)\n%s = v"):format(pick(r, names), pick(r, names))
  end,
  back = function(r) return ("if s > %d then\n  return %s\nend"):format(r(60), pick(r, names)) end,
  tail = function(r) return ("if s > %d then\n  return f(%s)\nend"):format(r(60), pick(r, names)) end,
  scope = function(r, deep)
    return ("do\n  local z = f(%s)\n%s  %s = z\nend"):format(pick(r, names), make_block(r, deep + 1), pick(r, names))
  end,
  branch = function(r, deep)
    return ("if s %% 2 < 1 then\n%selse\n%send"):format(make_block(r, deep + 1), make_block(r, deep + 1))
  end,
  count = function(r, deep)
    return ("for i = 1, %d do\n  s = s + i\n%send"):format(r(4), make_block(r, deep + 1))
  end,
  repetition = function(r, deep)
    return ("do\n  local m = 0\n  repeat\n    m = m + 1\n    local z = f(%s)\n%s    if m == %d then\n      %s = z\n    end\n"
      .. "  until m > %d\nend")
      :format(pick(r, names), make_block(r, deep + 1), r(3), pick(r, names), r(3))
  end,
  condition = function(r, deep)
    return ("do\n  local m = 0\n  while m < %d do\n    m = m + 1\n%s    if s > %d then\n      break\n    end\n  end\nend")
      :format(r(4), make_block(r, deep + 1), r(80))
  end,
  choice = function(r) return ("%s = s %% 3 < 1 and %s or %s"):format(pick(r, names), pick(r, names), pick(r, names)) end,
  both = function(r) return ("%s, %s = f(%s), f(%s)"):format(pick(r, names), pick(r, names), pick(r, names), pick(r, names)) end,
  inside = function(r) return ("%s = f(f(%s))"):format(pick(r, names), pick(r, names)) end,
  line = function(r) return ("%s = f(%s) %s = f(%s)"):format(pick(r, names), pick(r, names), pick(r, names), pick(r, names)) end,
  meta = function(r) return ("%s = k(thing %s %s)"):format(pick(r, names), pick(r, { "+", "*" }), pick(r, names)) end,
  kept_meta = function(r) return ("hold(thing + %s)"):format(pick(r, names)) end,
  own = function(r) return ("%s = k(thing:abs(%s))"):format(pick(r, names), pick(r, names)) end,
  other = function(r) return ("%s = f(%s) hold(g(%s))"):format(pick(r, names), pick(r, names), pick(r, names)) end,
  perhaps = function(r)
    local a, b = pick(r, names), pick(r, names)
    return ("do\n  local q = %s\n  if s %% 3 < 1 then\n    q = %s\n  end\n  local _ = %s\nend"):format(pick(r, { "thing", a }), a,
      pick(r, { "q + " .. b, "q:abs(" .. b .. ")", b .. " + q" }))
  end,
  written = function(r)
    local v = pick(r, names)
    return ("do\n  local n, m = 0, %s.abs\n  local function set()\n    n, m = keeper, hold\n  end\n  set()\n  local _ = %s\nend"):format(v,
      pick(r, { "n + " .. v, "m(" .. v .. ")" }))
  end,
  renamed = function(r)
    return ("do\n  local h = hold\n  h(thing + %s)\nend"):format(pick(r, names))
  end,
  chosen = function(r)
    return ("do\n  local o = 1\n  o = s %% 2 < 1 and keeper or o\n  local _ = o + %s\nend"):format(pick(r, names))
  end,
  less = function(r) return ("if tostring(thing) == %s then\n  s = s + 1\nend"):format(pick(r, names)) end,
  ends = function(r) return ("%s = ends(%s)"):format(pick(r, names), pick(r, names)) end,
  several = function(r) return ("%s = (select(2, f(%s), %s))"):format(pick(r, names), pick(r, names), pick(r, names)) end,
}
local sorts = {}
for name in pairs(statement) do sorts[#sorts + 1] = name end
table.sort(sorts)
for _ = 1, 12 do sorts[#sorts + 1] = "call" end
for _ = 1, 6 do sorts[#sorts + 1] = "again" end
for _ = 1, 6 do sorts[#sorts + 1] = "count" end
for _ = 1, 4 do
  for _, sort in ipairs { "number", "two", "chain", "lent" } do sorts[#sorts + 1] = sort end
end

local shallow = { scope = true, branch = true, count = true, repetition = true, condition = true }

local function make_statement(r, deep)
  local sort = pick(r, sorts)
  if deep > 2 and shallow[sort] then sort = "call" end
  return statement[sort](r, deep)
end

function make_block(r, deep)
  local out = {}
  for _ = 1, r(4) do
    for line in make_statement(r, deep):gmatch "[^\n]+" do out[#out + 1] = "  " .. line .. "\n" end
  end
  return table.concat(out)
end

local function make(seed)
  local r = frame.random(seed, 1)
  local program = { co = r(4) == 1, sums = r(2) == 1, hot = r(3) == 1 }
  for i = 1, 4 + r(8) do program[i] = make_statement(r, 0) end
  return program
end

local function text_of(program)
  local out = { "local f, k, hold, list, keeper, yield, co, g, thing, x0, sly, sly2, exp, abs = ...",
    "local t, fns, up, s, main = {}, {}, nil, 0, nil",
    "local function ends(v)", "t.y = v", "return f(v)", "end",
    "local function ends3(v)", "t.x = v", "return v:abs()", "end",
    "function main(n, a)", "local b, c, d = a, a, a" }
  for _, line in ipairs(program) do out[#out + 1] = line end
  out[#out + 1] = program.sums and "return (a + 1):sum():item() + b:sum():item(), c:sum():item() + d:sum():item()" or "return a, b, c, d"
  out[#out + 1] = "end"
  out[#out + 1] = "return function(x) local a, b, c, d = main(2, x) return a, b, c, d, t, fns, up, s end"
  return table.concat(out, "\n")
end

-- --- running

local base = ty.compile(function(x) return x * 0.5 + 1 end)
local method = ty.compile(function(_, x) return x * 0.5 + 2 end) -- also of a thing, of which it is a metamethod
local thing = setmetatable({ abs = method }, { __add = method, __mul = method })
for _ = 1, 3 do
  base(ty.ones(3))
  method(thing, ty.ones(3))
end
local function g(x) return method(nil, x) end

local function show(v)
  if not ty.is_tensor(v) then return type(v) == "table" and "table" or tostring(v) end
  return table.concat(v:totable(), " ")
end

--- What the program gives and keeps, as text.
local function run(program, bytes)
  local kept, G = {}, {}
  ty.internals.lifetimes(nil, bytes)
  jit.opt.start(program.hot and "hotloop=1" or "hotloop=56", program.hot and "hotexit=1" or "hotexit=10")
  local keeper = setmetatable({}, { __add = function(_, v) kept[#kept + 1] = v return 1 end,
    __mul = function(_, v) kept[#kept + 1] = v return 1 end })
  local function of_its_own(_, v) -- keeps its operand, and ends as one of ours does
    kept[#kept + 1] = v
    return base(v)
  end
  local function of_an_operation(_, v)
    kept[#kept + 1] = v
    return v:maximum(v)
  end
  local sly = setmetatable({}, { __add = of_its_own, __mul = of_its_own })
  local sly2 = setmetatable({}, { __add = of_an_operation, __mul = of_an_operation })
  local list = { add = function(_, v) kept[#kept + 1] = v end }
  local function k(v) return v end
  local function hold(v) kept[#kept + 1] = v end
  local chunk = assert(loadstring(text_of(program), "=program"))
  setfenv(chunk, setmetatable(G, { __index = _G }))
  local out = {}
  local function whole()
    local body = chunk(base, k, hold, list, keeper, coroutine.yield, program.co, g, thing, ty.ones(3), sly, sly2, ty.exp, ty.abs)
    for _ = 1, 2 do
      local a, b, c, d, t, fns, up, s = body(ty.tensor { 1, 2, 3 })
      local all = { a, b, c, d, up, G.G, t[1], t[2], t[3], t.x, t.y }
      for i = 1, 11 do out[#out + 1] = show(all[i]) end
      for _, fn in ipairs(fns) do out[#out + 1] = show(fn()) end
      for _, v in ipairs(kept) do out[#out + 1] = show(v) end
      out[#out + 1] = ("%.17g"):format(s)
    end
  end
  local ok, message
  if program.co then
    local co = coroutine.create(whole)
    local given
    repeat
      ok, message = coroutine.resume(co, given)
      given = message
    until coroutine.status(co) == "dead" or not ok
  else
    ok, message = pcall(whole)
  end
  ty.internals.lifetimes(nil, LARGE)
  if not ok then out[#out + 1] = frame.anywhere(tostring(message)) end
  return table.concat(out, "; ")
end

local function check(program)
  local want, got = run(program, 1e18), run(program, 1)
  if want ~= got then return ("results differ\nkept  %s\nfreed %s"):format(want, got) end
end

local fuzz = frame.fuzzer("fuzz_lifetimes", 20000, { make = make, check = check, show = text_of })
local before = ty.internals.lifetimes()
fuzz:run(5000)
counts.freed = ty.internals.lifetimes() - before

fuzz:claim(fuzz.failures == 0, "%d programs differ where dead results are let go of", fuzz.failures)
if fuzz:ran(400) then
  fuzz:claim(counts.freed >= fuzz.programs, "%d results were let go of, at least one for each program", counts.freed)
end
print(("fuzz_lifetimes: %d programs, seed %d, %.0f s: %d results let go of"):format(fuzz.programs, fuzz.seed, fuzz:seconds(),
  counts.freed))
fuzz:leave()
