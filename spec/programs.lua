--- programs.lua -- small Lua programs that between them use every instruction and corner of LuaJIT.
-- For specs that run Lua in other ways than LuaJIT does and compare. Each is a name and a text; the function is called
-- with the arguments (3, nil, "s", nil), or (3) where a chunk makes it. All end without an error, deterministically.

local M = {}

--- Chunks that are the function themselves: all functions in them are made while they run.
M.chunks = {
  { "constants and moves",
    "local a, b, c = 1, -7, 2.5 local d, e = true, nil return a, b, c, d, e, 's', 1e300, 40000, -40000" },
  { "assigns several at once", [[
    local a, b, c = 1, 2 a, b, c = b, a, 4, 5 local t = {} local i = 1 i, t[i] = i + 1, 20
    return a, b, c, i, t]] },
  { "swaps in a table", "local t = {1, 2, 3} t[1], t[2], t[3] = t[3], t[1], t[2] return t" },
  { "counts arguments", "return select('#', ...), select(2, ...), (select(3, ...))" },
  { "keeps nils among varargs", [[
    local function f(...) local a, b, c, d, e = ... return select('#', ...), a, b, c, d, e, ... end
    return f(...)]] },
  { "nests varargs", [[
    local function g(...) return select('#', ...), ... end
    local function f(a, ...) return a, g(..., 1, g(...)) end
    return f(g(...)), (f(...)), f()]] },
  { "varargs into a table",
    "local t = {...} local u = {0, ...} local v = {..., 9} return t[1], t[2], t[3], u[2], u[4], v[1], v[2]" },
  { "main chunk without arguments to spare", "local a, b, c, d, e, f = ... return a, b, c, d, e, f" },
  { "a vararg call in the middle is cut to one", "local function f() return 1, 2, 3 end return f(), f(), (f())" },
  { "calls with many arguments", [[
    local function f(...) return select('#', ...) end return f(unpack({1, 2, 3}, 1, 200)), f(nil, nil), f()]] },
  { "arithmetic", [[
    local a, b = 7, -3
    return a + b, a - b, a * b, a / b, a % b, a ^ b, -a, a + 1, a - 1, a * 2, a / 2, a % 2,
      1 + a, 1 - a, 2 * a, 2 / a, 2 % a, a ^ 2, 2 ^ a]] },
  { "negative zero", "local z = 0 local m = -z return m, 1 / m, 0 - z, m + 0, -m, 0 * -1, m % 3, 1 / (m * 1), 3 % -3" },
  { "arithmetic of special values", [[
    local inf, nan = 1 / 0, 0 / 0
    return inf - inf, inf % 2, 5 % inf, -5 % inf, 5 % 0, nan + 1, inf * 0, -inf, 2 ^ 1024, 5.5 % -2, -5.5 % 2, 1e308 * 10]] },
  { "strings as numbers",
    "return '10' + 1, 1 + '10', '3' * '4', -'2', '0x10' + 0, ' 5 ' - 1, '7' % '4', '2' ^ 3, 10 .. 20, '6' / 2" },
  { "comparison of numbers", [[
    local out = {}
    for _, p in ipairs {{1, 2}, {2, 1}, {1, 1}, {-0, 0}} do
      local a, b = p[1], p[2]
      out[#out + 1] = tostring(a < b) .. tostring(a <= b) .. tostring(a > b)
        .. tostring(a >= b) .. tostring(a == b) .. tostring(a ~= b)
    end
    return out]] },
  { "comparison with NaN, and its negations", [[
    local nan, x, out = 0 / 0, 1, {}
    local function add(v) out[#out + 1] = v end
    add(nan < x) add(nan <= x) add(nan > x) add(nan >= x) add(nan == nan) add(nan ~= nan)
    add(not (nan < x)) add(not (nan <= x)) add(not (nan > x)) add(not (nan >= x)) add(not (nan == nan)) add(not (nan ~= nan))
    if nan < x then add(1) else add(2) end
    if not (nan < x) then add(3) else add(4) end
    if nan <= x then add(5) else add(6) end
    if not (nan <= x) then add(7) else add(8) end
    if nan > x then add(9) else add(10) end
    if not (nan >= x) then add(11) else add(12) end
    while not (nan < x) do add(13) break end
    repeat add(14) until nan ~= 1
    return out]] },
  { "comparison of strings", [[
    local a, b = 'abc', 'abd' return a < b, a <= b, a > b, a >= b, a == 'abc', a ~= 'abc', 'a\0b' < 'a\0c', '' < a,
    'Z' < 'a']] },
  { "equality with constants", [[
    local function f(v)
      local r = ''
      if v == 's' then r = r .. 1 end if v ~= 's' then r = r .. 2 end
      if v == 1 then r = r .. 3 end if v ~= 1 then r = r .. 4 end
      if v == nil then r = r .. 5 end if v ~= nil then r = r .. 6 end
      if v == true then r = r .. 7 end if v ~= true then r = r .. 8 end
      if v == false then r = r .. 9 end if v ~= false then r = r .. 0 end
      if v == 1.5 then r = r .. 'a' end if v ~= 1e10 then r = r .. 'b' end
      return r
    end
    return f('s'), f(1), f(nil), f(true), f(false), f(1.5), f({}), f('1'), f(print), f(1e10)]] },
  { "equality of values", [[
    local t, u, f = {}, {}, function() end
    return t == t, t == u, t ~= u, f == f, t == f, '1' == 1, nil == false, 'a' == 'a', 1 == 1.0, u == nil]] },
  { "and, or, not as values", [[
    local function p(a, b, c)
    return a and b, a or b, a and b or c, not a, not not a, (a or b) and c, a and (b or c), not (a and b) end
    return {p(1, 2, 3)}, {p(nil, 2, 3)}, {p(false, nil, 3)}, {p(1, nil, 3)}, {p(1, false, nil)}, {p('', 0, {})}]] },
  { "and, or over calls", [[
    local n = 0 local function f(v) n = n + 1 return v end local a = f(nil) or f(2) and f(3) or f(4)
    return a, n, f(false) == (f(nil) and 1), n]] },
  { "if, elseif, else", [[
    local function f(x) if x < 0 then return 'neg' elseif x == 0 then return 'zero' elseif x < 10 then
    return 'small' else return 'big' end end
    return f(-1), f(0), f(5), f(50)]] },
  { "while, break, nested", [[
    local i, s = 0, 0 while true do i = i + 1 if i > 20 then break end
    local j = 0 while j < i do j = j + 1 if j % 3 == 0 then s = s + j end end end
    return i, s]] },
  { "repeat with a local in its condition", "local i = 0 repeat local j = i * 2 i = i + 1 until j > 8 return i" },
  { "repeat with upvalues in its condition", [[
    local fs, i = {}, 0
    repeat local j = i * 2 fs[#fs + 1] = function() j = j + 1 return j end i = i + 1 until fs[#fs]() > 6
    return i, fs[1](), fs[1](), fs[4](), fs[4]()]] },
  { "goto continue",
    "local s = 0 for i = 1, 10 do if i % 2 == 0 then goto continue end s = s + i ::continue:: end return s" },
  { "goto backward", "local i = 1 ::top:: i = i * 2 if i < 100 then goto top end return i" },
  { "goto out of nested loops", [[
    local a, b for i = 1, 9 do for j = 1, 9 do if i * j == 42 then a, b = i, j goto out end end end
    ::out:: return a, b]] },
  { "goto backward makes fresh variables", [[
    local fs, i = {}, 0
    ::top:: do local x = i fs[#fs + 1] = function() x = x + 1 return x end end
    i = i + 1 if i < 3 then goto top end
    return fs[1](), fs[1](), fs[2](), fs[3]()]] },
  { "numeric for", [[
    local out = {}
    for i = 1, 3 do out[#out + 1] = i end
    for i = 3, 1, -1 do out[#out + 1] = i end
    for i = 1, 2, 0.25 do out[#out + 1] = i end
    for i = 0.1, 0.95, 0.1 do out[#out + 1] = i end
    for i = 1, 0 do out[#out + 1] = 'never' end
    for i = 0, 1, -1 do out[#out + 1] = 'never' end
    for i = 1, 1 do out[#out + 1] = i end
    for i = 1, 0, 0 do out[#out + 1] = 'never' end
    for i = 1, 0 / 0 do out[#out + 1] = 'never' end
    for i = 0 / 0, 1 do out[#out + 1] = 'never' end
    for i = -0, 0 do out[#out + 1] = 1 / i end
    for i = '1', '3', '2' do out[#out + 1] = i end
    for i = 1, 3 do local j = i i = i * 10 out[#out + 1] = i + j end
    for i = 1, math.huge do if i > 3 then break end out[#out + 1] = i end
    return out]] },
  { "numeric for with a large index", [[
    local n = 0 for i = 2 ^ 53 - 3, 2 ^ 53 - 1 do n = n + 1 end for i = 2147483646, 2147483649
    do n = n + i end return n]] },
  { "generic for", [[
    local out, t = {}, {10, 20, 30, nil, 50}
    for i, v in ipairs(t) do out[#out + 1] = i * v end
    for k, v in pairs({5, 6, 7}) do out[#out + 1] = k * v end
    for k, v in next, {8, 9} do out[#out + 1] = k + v end
    for w in ('a bc d'):gmatch('%S+') do out[#out + 1] = w end
    for k in pairs {} do out[#out + 1] = 'never' end
    return out]] },
  { "generic for over an iterator with state", [[
    local function range(n) return function(s, i) if i < s then return i + 1, i * i, nil, 4 end end, n, 0 end
    local out = {} for i, sq, no, four in range(4) do out[#out + 1] = sq + four + (no and 100 or 0) end return out]] },
  { "pairs replaced: the iterator is no next", [[
    local pairs = function(t) local n = 0 return function() n = n + 1 if t[n] then return n, -t[n] end end end
    local out = {} for k, v in pairs({4, 5}) do out[#out + 1] = k * v end return out]] },
  { "pairs replaced in the same place", [[
    local function walk(pairs, t) local s = 0 for k, v in pairs(t) do s = s * 10 + v end return s end
    return walk(pairs, {1, 2, 3}), walk(ipairs, {1, 2, 3}), walk(function()
    return next, {7}, nil end), walk(pairs, {4, 5})]] },
  { "a control variable that closures keep", [[
    local fs = {} for k, v in ipairs {5, 6} do fs[k] = function() v = v + k
    return v end end return fs[1](), fs[1](), fs[2](), fs[2]()]] },
  { "fresh variables in each turn", [[
    local fs = {}
    for i = 1, 3 do local j = i * 10 fs[i] = function(d) i = i + d j = j + i return i, j end end
    local w = 0
    while w < 2 do local x = w fs[#fs + 1] = function() x = x + 1 return x end w = w + 1 end
    return {fs[1](1)}, {fs[1](1)}, {fs[2](0)}, {fs[3](-3)}, fs[4](), fs[4](), fs[5]()]] },
  { "closures share a variable", [[
    local function counter() local n = 0 return function() n = n + 1 return n end, function()
    return n end, function(v) n = v end end
    local inc, get, set = counter() local inc2 = counter()
    inc() inc() local a = get() set(10) return a, inc(), get(), inc2(), get()]] },
  { "a variable is shared with its frame while open", [[
    local x = 1 local function f() x = x + 1 return x end
    local a = f() x = 10 local b = f() local c = x do local y = x f = function() y = y + x return y end
    end x = 1 return a, b, c, f(), f(), x]] },
  { "upvalues of upvalues", [[
    local a = 1
    local function f() local b = 10 return function() local c = 100
    return function() a, b, c = a + 1, b + 1, c + 1 return a, b, c end end end
    local g = f() local h, k = g(), g() return {h()}, {h()}, {k()}, {g()()}, a]] },
  { "upvalues are set to constants", [[
    local a local function f(k) if k == 1 then a = 's' elseif k == 2 then a = 7 elseif k == 3 then a = nil elseif k
    == 4 then a = true else a = 1.5 end return a end return f(1), f(2), f(3), f(4), f(5), a]] },
  { "a recursive local function",
    "local function fact(n) if n < 2 then return 1 end return n * fact(n - 1) end return fact(20)" },
  { "mutual recursion", [[
    local even, odd function even(n) if n == 0 then return true end
    return odd(n - 1) end function odd(n) if n == 0 then return false end
    return even(n - 1) end return even(100), odd(7)]] },
  { "deep recursion", "local function sum(n) if n == 0 then return 0 end return n + sum(n - 1) end return sum(150)" },
  { "ten thousand tail calls", [[
    local function loop(n, s) if n == 0 then return s, n, 'end' end
    return loop(n - 1, s + n) end return loop(10000, 0)]] },
  { "tail calls with varargs", [[
    local function f(n, ...) if n == 0 then return select('#', ...), ... end
    return f(n - 1, n, ...) end return f(20)]] },
  { "tail calls of natives and of methods", [[
    local t = {f = function(self, x) return self.y, x end, y = 5}
    local function g(...) return select('#', ...) end local function h()
    return t:f(g(1, 2, 3)) end return h(), (h())]] },
  { "a tail call that moves its arguments", [[
    local function swap(a, b, c) return c, a, b end local function f(a, b, c)
    return swap(c, a, b) end return f(1, 2, 3)]] },
  { "a tail call after closures were made", [[
    local function id(...) return ... end local function f(x) local g = function() x = x + 1
    return x end g() return id(x, g(), x) end return f(1)]] },
  { "methods", [[
    local C = {} C.__index = C function C.new(v) return setmetatable({v = v}, C) end
    function C:add(o) return C.new(self.v + o.v) end function C:get()
    return self.v end return C.new(1):add(C.new(2)):get(), ('abc'):upper(), #('x'):rep(5)]] },
  { "string methods and coercion", [[
    local s = 'value' return s:len(), s:sub(2, 3), (s .. 1):upper(), s:byte(1, 3), ('%d:%s'):format(7, nil), 1 ..
    '', -0.5 .. 'x', 1e15 .. '', 2 ^ 53 .. '']] },
  { "concatenation of many", [[
    local a, b, c = 'a', 2, 'c' return a .. b .. c .. 1 .. a .. (b .. c) .. 0.1, a .. '' , (a .. b) .. c, '' .. '']] },
  { "length", "local t = {1, 2, 3} local s = 'four' return #t, #s, #{}, #'', #{n = 1}, #{1, 2, nil, 4} >= 2, -#t" },
  { "table constructors", [[
    local x, y = 5, 'k'
    return {1, 2, 3}, {x, y}, {a = 1, b = x, [y] = 2, [x] = 3, 10, x; 30},
      {}, {nil}, {nil, 2}, {[1] = 'a', 'b'}, {{}, {{}}}, {true, false}, {x = nil, y = 1}]] },
  { "negative and fractional keys", [[
    local t = {} t[-1] = 'a' t[1.5] = 'b' t[2 ^ 40] = 'c' t[true] = 'd' t[0] = 'e' t[255] = 'f' t[256] = 'g'
    local k = -1 return t[k], t[1.5], t[2 ^ 40], t[true], t[0], t[255], t[256], t[-0], t]] },
  { "large constants arrays",
    "local t = {" .. ("1, nil, 'x', "):rep(150) .. "} return #t % 1, t[1], t[2], t[3], t[448], t[449], t[450], t[451]" },
  { "large constructors of variables",
    "local v = 9 local t = {" .. ("v, v + 1, nil, "):rep(150) .. "v} return t[1], t[2], t[3], t[449], t[450], t[451], t" },
  { "a long call after many elements",
    "local function f() return 7, 8, 9 end local t = {" .. ("1, "):rep(300) .. "f()} "
      .. "return #t, t[300], t[301], t[303], {f(), f()}, {f(), nil, f()}, {(f())}" },
  { "templates are copied each time", [[
    local out = {} for i = 1, 3 do local t = {1, 2, x = {}} t[1] = t[1] + i t.y = i out[i] = t end
    return out]] },
  { "long jumps",
    "local s = 0 for i = 1, 3 do " .. ("s = s + i "):rep(3000) .. " if s > 10000 then break end end return s" },
  { "many constants", (function()
    local out = {} for i = 1, 700 do out[i] = ("t[%d] = '%s' t.k%d = %d.5"):format(i, "s" .. i, i, i) end
    return "local t = {} " .. table.concat(out, " ") .. " local s = 0 for i = 1, 700 do s = s + t['k' .. i] end "
      .. "return s, t[1], t[255], t[256], t[257], t[700]"
  end)() },
  { "many locals",
    "local " .. (function() local n = {} for i = 1, 190 do n[i] = "l" .. i end return table.concat(n, ", ") end)() .. " = ... "
      .. "l190 = l1 l100 = l190 + 1 return l1, l100, l190, l3" },
  { "globals", [[
    answer_of_spec = 42 local a = answer_of_spec answer_of_spec = answer_of_spec + 1
    local b = answer_of_spec answer_of_spec = nil return a, b, answer_of_spec, type(print), no_such_global]] },
  { "pcall, nested", [[
    local function bad(x) error(x) end
    return pcall(bad, {1}), pcall(pcall, bad, 'm'), pcall(function()
    local ok, e = pcall(bad, 'inner') error(e .. '+', 0) end), pcall(error), select('#', pcall(error))]] },
  { "error positions", [[
    local function f() error('here') end
    local function g()
      local x = 1
      error('there') return x
    end
    local function tail() return error('tail') end
    local function over() local v = tail() return v end
    return {pcall(f)}, {pcall(g)}, {pcall(tail)}, {pcall(over)},
      {pcall(error, 'direct')}, {pcall(error, 'zero', 0)}, {pcall(function() error() end)}]] },
  { "error in deep calls leaves frames usable", [[
    local fs = {}
    local function deep(n) local v = n fs[n] = function() v = v + 1 return v end
    if n == 0 then error('x', 0) end return deep(n - 1) + 1 end
    local function other(n) local v = -n if n == 0 then return v end return other(n - 1) end
    local ok = pcall(deep, 10) other(10) local function g(...) local a, b, c = ... return a end g(100, 200, 300)
    return ok, fs[0](), fs[5](), fs[5](), fs[10]()]] },
  { "xpcall and assert", [[
    return xpcall(function() error('q', 0) end, function(m) return m .. '!' end), pcall(assert, false),
    pcall(assert, nil, 'msg'), assert(1, 2, 3)]] },
  { "natives that call back", [[
    local n = 0 table.sort({3, 1, 2}, function(a, b) n = n + 1 return a < b end)
    return (('abc'):gsub('.', function(c) return c .. c end)), n > 0, pcall(string.rep)]] },
  { "sort with a closure over a counter", [[
    local t = {5, 2, 8, 1} local calls = 0 table.sort(t, function(a, b) calls = calls + 1
    return a > b end) return t, calls > 2]] },
  { "metamethods of arithmetic", [[
    local M = {} local log = {}
    local function name_of(v) return type(v) == 'table' and v.n or tostring(v) end
    local function op(name)
      return function(a, b) log[#log + 1] = name .. name_of(a) .. name_of(b) return name, 2 end
    end
    for _, n in ipairs {'add', 'sub', 'mul', 'div', 'mod', 'pow', 'concat'} do M['__' .. n] = op(n) end
    M.__unm = function(a) return 'minus' .. a.n, 3 end
    local a, b = setmetatable({n = 'A'}, M), setmetatable({n = 'B'}, M)
    return {a + b, a - 1, 1 * a, a / b, a % 2, 2 ^ a, a .. 'x', 'x' .. a,
      1 .. a, a .. b .. 'c', -a, a - b, 3 - a, 4 / a, 5 % a, a + 6, '7' + a}, log]] },
  { "metamethods of comparison", [[
    local M = {} local log = ''
    M.__eq = function(a, b) log = log .. 'e' return a.v == b.v end
    M.__lt = function(a, b) log = log .. 'l' return a.v < b.v end
    M.__le = function(a, b) log = log .. 'm' return a.v <= b.v end
    local a, b, c = setmetatable({v = 1}, M), setmetatable({v = 2}, M), setmetatable({v = 1}, M)
    local r = {a == b, a == c, a ~= c, a < b, a <= b, a > b, a >= b, not (a < b), not (a <= b), not (a == c), a == 1, a ~= nil}
    if not (a < b) then r[#r + 1] = 1 end if not (a >= b) then r[#r + 1] = 2 end if a ~= b then r[#r + 1] = 3 end
    return r, log, rawequal(a, c)]] },
  { "__lt stands in for __le", [[
    local M = {__lt = function(a, b) return a.v < b.v end} local a, b = setmetatable({v = 1}, M), setmetatable({v =
    2}, M) return a <= b, b <= a, a >= b, not (a <= b)]] },
  { "results of comparison metamethods become booleans", [[
    local M = {__lt = function() return 7 end, __eq = function() return nil end}
    local a, b = setmetatable({}, M), setmetatable({}, M) return a < b, a == b, a ~= b, not (a < b)]] },
  { "__index chains", [[
    local base = {x = 1, y = 2} local mid = setmetatable({y = 3}, {__index = base})
    local top = setmetatable({}, {__index = mid})
    local f = setmetatable({}, {__index = function(t, k) return k .. '!', 'lost' end})
    return top.x, top.y, top.z, f.abc, f[1], f['k' .. 1], rawget(top, 'x'), (top.x)]] },
  { "__newindex", [[
    local log = {} local sink = {}
    local t = setmetatable({own = 1}, {__newindex = function(t, k, v)
      log[#log + 1] = tostring(k) .. '=' .. tostring(v) rawset(t, k, v) end})
    local u = setmetatable({}, {__newindex = sink})
    t.a = 1 t.a = 2 t[1] = 3 t.own = 5 local k = 'dyn' t[k] = 6 u.x = 7 u[2] = 8 return log, t, u, sink]] },
  { "__call", [[
    local M = {__call = function(self, ...) return self.n, select('#', ...), ... end}
    local t = setmetatable({n = 'N'}, M) local function tail() return t(1, nil) end
    local out = {} for i in setmetatable({}, {__call = function(_, s, c) c = (c or 0) + 1 if c < 4 then
    return c end end}) do out[#out + 1] = i end
    return {t()}, {t(1, 2)}, {tail()}, out, pcall(t, 5)]] },
  { "__len and __unm of a userdata, none of a table", [[
    local p = newproxy(true) getmetatable(p).__len = function() return 42 end getmetatable(p).__unm = function()
    return 'u' end getmetatable(p).__index = function(_, k) return k end
    return #p, -p, p.key, p[3], #setmetatable({1}, {__len = function()
    return 9 end})]] },
  { "__tostring, __metatable, rawset", [[
    local t = setmetatable({}, {__tostring = function() return 'T!' end, __metatable = 'locked'}) rawset(t, 'a', 1)
    return tostring(t), getmetatable(t), rawget(t, 'a'), pcall(setmetatable, t, {})]] },
  { "setfenv of a function made outside", [[
    local f = loadstring('g = (g or 0) + 1 return g, h', '=inner')
    local e = {h = 'H', g = 5} setfenv(f, e) return {f()}, {f()}, e]] },
  { "loaded code inside", [[
    local f = loadstring('local a = ... return a * 2, function() return a end', '=inner')
    local r, g = f(21) return r, g()]] },
  { "shadowing and blocks", [[
    local x = 1 do local x = x + 1 do local x = x * 10 y_of_spec = x end x = x + 100 end
    local z = y_of_spec y_of_spec = nil return x, z]] },
  { "an OOP program", [[
    local Stack = {} Stack.__index = Stack
    function Stack.new() return setmetatable({n = 0}, Stack) end
    function Stack:push(...)
    for i = 1, select('#', ...) do self.n = self.n + 1 self[self.n] = (select(i, ...)) end return self end
    function Stack:pop() local v = self[self.n] self[self.n] = nil self.n = self.n - 1 return v end
    local s = Stack.new():push(1, 2, 3):push('a') return s:pop(), s:pop(), s.n, s]] },
  { "sieve", [[
    local n, p, out = 200, {}, {} for i = 2, n do p[i] = true end
    for i = 2, n do if p[i] then out[#out + 1] = i for j = i * i, n, i
    do p[j] = false end end end return out]] },
  { "string building", [[
    local out = {} for i = 1, 20 do out[#out + 1] = i % 15 == 0 and 'fizzbuzz' or i % 5 == 0 and 'buzz' or i % 3 ==
    0 and 'fizz' or tostring(i) end return table.concat(out, ' ')]] },
  { "a matrix product", [[
    local function mm(a, b) local c = {} for i = 1, #a do c[i] = {} for j = 1, #b[1] do local s = 0
    for k = 1, #b do s = s + a[i][k] * b[k][j] end c[i][j] = s end end return c end
    return mm({{1, 2}, {3, 4}}, {{0.5, -1}, {2, 1e3}})]] },
  { "eight queens", [[
    local N, count = 6, 0
    local function ok(a, n, c) for i = 1, n - 1 do
    if a[i] == c or a[i] - i == c - n or a[i] + i == c + n then return false end end return true end
    local function add(a, n) if n > N then count = count + 1 else for c = 1, N do
    if ok(a, n, c) then a[n] = c add(a, n + 1) end end end end
    add({}, 1) return count]] },
  { "memoising closures", [[
    local function memo(f) local c = {} return function(n) local v = c[n]
    if v == nil then v = f(n) c[n] = v end return v end end local fib fib = memo(function(n)
    return n < 2 and n or fib(n - 1) + fib(n - 2) end) return fib(60)]] },
  { "Y combinator", [[
    local function Y(f) return (function(x) return x(x) end)(function(x)
    return f(function(...) return x(x)(...) end) end) end return Y(function(self)
    return function(n) return n == 0 and 1 or n * self(n - 1) end end)(10)]] },
  { "results beyond what is wanted", [[
    local function f(n) if n == 0 then return end return n, f(n - 1) end
    local a, b = f(5) local c, d, e = f(1) local t = {f(10)} return a, b, c, d, e, #t, f(3)]] },
  { "multiple results through several frames", [[
    local function f(...) return ... end local function g(...) return f(f(...), f(...)) end
    return g(1, nil, 3, nil)]] },
  { "false and nil as results and arguments", [[
    local function f(a, b, c) return c, b, a end return f(false, nil, false), (f(nil, nil)), f(nil, false)]] },
  { "numbers as text keep their digits", [[
    return 0.1 + 0.2, 1e-320, 2 ^ -1074, 1.7976931348623157e308, 4503599627370497, -9007199254740993, 0x7fffffff, 1
    / 3, 123456789012]] },
  { "bytes in constants", "return 'a\\0b\\255\\n\"', #'\\0', ({['k\\0'] = 1})['k\\0']" },
}

table.insert(M.chunks, { "closures that an error leaves behind", [[
    local get, set
    local function f(x)
      local a = 'xuxu'
      get, set = function() return a, x end, function(y) a = a .. x .. y end
      if x ~= 1 then error() end
    end
    local out = {}
    for _, x in ipairs { 1, 2, 3 } do
      pcall(f, x)
      out[#out + 1] = get() set('!') out[#out + 1] = get()
      local function noise(p, q) local r, s = q, p return r, s end noise(7, 8)
      out[#out + 1], out[#out + 2] = get()
    end
    return out]] })

if pcall(require, "ffi") then
  table.insert(M.chunks, { "64-bit and complex constants", [[
    local a, b, c = 1LL, 0x8000000000000001ULL, 2.5i local t = {} for i = 1, 3 do t[i] = 7LL end
    return a + 2, b, c, -a, a == 1LL, a < 2, 5LL / 2, 5ULL % 3, tostring(b), rawequal(t[1], t[2]), type(c), 2LL ^ 5]] })
end

--- Whether this host has operators for bits.
M.has_bit_operators = loadstring "return ~1" ~= nil

if M.has_bit_operators then
  table.insert(M.chunks, { "operators for bits", [[
    local a, b, out = 0x12345678, -7, {}
    for _, x in ipairs { a, b, 0, 2 ^ 31, -1, 3.7, 2 ^ 40 + 5 } do
      out[#out + 1] = ~x out[#out + 1] = x & 0xff out[#out + 1] = x | a out[#out + 1] = a ~ x
      out[#out + 1] = x << 3 out[#out + 1] = x >> 3 out[#out + 1] = x ~>> 3 out[#out + 1] = 1 << x
    end
    return out, 5LL & 4, ~1ULL, pcall(function(v) return v & 1 end, {}), pcall(function(v) return ~v end, "1")]] })
end

--- Texts that fail, each in another way, for the messages.
M.failing = { "local a a.b = 1", "local t = {} t.x.y = 1", "x.y.z = 1", "local a = {} a.b:c()", "local a = nil a()", "f()",
  "local t = {} t.f()", "local t = {} t:f()", "return 1 + nil", "local a = {} return a + 1", "return 'a' + 1",
  "return {} .. 'x'", "local a, b = 1 return a .. b", "local a, b = {}, 'x' return b .. a .. b", "return #5",
  "local a return #a", "return -{}", "local a = {} return 2 - a", "return {} < {}", "return 1 < '2'", "return nil <= 1",
  "for i = 1, 'x' do end", "for i = 'y', 1 do end", "for i = 1, 2, {} do end", "for x in 5 do end", "for x in nil do end",
  "for k in next, nil do end", "local t = {} t[nil] = 1", "local t = {} t[0 / 0] = 1", "string.rep()", "('x'):rep({})",
  "local s = string s.rep('x', {})", "setmetatable(1, 2)", "return math.floor('a')", "error()", "error('m')", "error('m', 0)",
  "error('m', 2)", "error(7)", "error({ 1 })", "assert(false)", "assert(nil, 'msg')", "local up; (function() up.x = 1 end)()",
  "local up; return (function() return up() end)()", "return tostring()", "return next({}, 1)", "return select(-5)",
  "return ('x').y.z", "return table.concat({ {} })", "table.insert({}, 1, 2, 3)", "return ('x'):gsub('(', '')",
  "return coroutine.wrap(function() error('in') end)()", "return unpack({}, 1, 1e8)", "return string.char(-1)",
  "local t = setmetatable({}, { __index = function(t, k) error('no ' .. k) end }) return t.z",
  "local t = setmetatable({}, { __index = function(t, k) error('no ' .. k, 2) end })\n return t.z",
  "local t = setmetatable({}, { __index = function(t, k) return error('no ' .. k) end })\n return t.z",
  "local t = setmetatable({}, { __newindex = function(t, k) error('ro', 2) end })\n t.z = 1",
  "local t = setmetatable({}, { __index = 5 }) return t.z", "local t = setmetatable({}, { __call = 5 }) t()",
  "local t = setmetatable({}, { __add = 5 }) return t + 1", "local t = setmetatable({}, { __call = error }) t()",
  "local function g() error('deep', 3) end\n local function h() g() end\n h()", "return 2 ^ {}", "return {} % 2", "return 5 / {}",
  "pcall(error)\n return pcall(error, 'x', 2)", "return pcall(string.rep)",
  "local _, m = pcall(error, 'x', 2)\n error(m, 0)", "local _, m = pcall(function() error('x', 3) end)\n error(m, 0)",
  "local f = string.rep return f()",
  "local a = { b = {} } a.b.c.d = 1", "local i, t = 1, {} t[i]()", "return ({})[1][2]", "return (nil)[1]",
  "local t = setmetatable({}, { __lt = function() error('less') end }) return t < t", "return debug.getlocal(50, 1)",
  "string.dump(print)", "setfenv(1, nil)" }

--- Chunks that return the function: it and those it calls are closures with upvalues of their own.
M.makers = {
  { "reads and writes upvalues of an outside function", [[
    local n, log = 0, {} return function(d) n = n + d log[#log + 1] = n
    return n, #log, log end]] },
  { "outside functions share an upvalue", [[
    local n = 0 local function inc() n = n + 1 end local function get()
    return n end return function() inc() inc() local a = get() n = 10 inc()
    return a, get(), n end]] },
  { "sets upvalues to constants",
    "local a, b, c, d = 1, 2, 3, 4 return function() a = 's' b = 7 c = nil d = true return a, b, c, d end" },
  { "a closure inside reaches an outside upvalue", [[
    local n = 1 return function(d) local m = 5 local function f() n, m = n + d, m + 1
    return function() n = n * 2 return n, m end end return {f()()}, n, m, {f()()} end]] },
  { "calls outside functions of every shape", [[
    local function v(...) return select('#', ...), ... end local function t(...)
    return v(...) end local function r(n) if n == 0 then return 0 end
    return 1 + r(n - 1) end return function(...) return {v(...)}, {t(1, nil)}, r(50), (v()) end]] },
  { "an outside environment", [[
    local e = setmetatable({seen = 1}, {__index = _G})
    local f = function() seen = seen + 1 return seen, type(print), (function() other = 2 return other end)() end
    return setfenv(function() return f(), e.seen, rawget(e, 'other'), rawget(_G, 'other') end, e) and
      setfenv(f, e) and function() local a, b, c = f() return a, b, c, rawget(e, 'seen'), rawget(e, 'other') end]] },
  { "an outside object with metamethods", [[
    local V = {} V.__index = V V.__add = function(a, b) return setmetatable({x = a.x + b.x}, V) end V.__eq =
    function(a, b) return a.x == b.x end function V:len() return self.x end
    local a, b = setmetatable({x = 1}, V), setmetatable({x = 2}, V)
    return function() local c = a + b return c:len(), c == a, a + b == c, (b + b):len() end]] },
  { "immutable upvalues",
    "local k, t, f = 3, {1, 2}, math.floor return function(x) return k * x, t[2], f(x + 0.5), #t end" },
  { "virtual closures and outside functions take turns in one frame", [[
    local n = 1 local function outside(x) n = n + x return n end
    return function(x)
      local m = 100 local function inside(y) m = m + y return m end
      return inside(1), outside(1), inside(x), outside(x), (function(...) return outside(...) end)(5), inside(1), outside(2)
    end]] },
  { "error in an outside function", [[
    local function f(x) if x then error('outer ' .. x) end end return function()
    return pcall(f, 1), pcall(f) end]] },
}

return M
