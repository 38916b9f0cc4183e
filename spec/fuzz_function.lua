-- Random Lua functions as source text: expressions by type, statements, functions.
-- In: a generator with its seed and what is in scope. Out: trees of source. A node is a line of text, or a table of lines
-- and lists of nodes in turn, as {"if x then", {...}, "else", {...}, "end"}; whole nodes can be taken out and mostly a
-- program remains.
--
-- Rules that a change must keep
--  1. Nothing depends on addresses, and so not on the order in which `next` walks a table that has objects as keys: sums
--     over pairs are of whole numbers. Tables "H" have none: their order may be told.
--  2. Every loop ends after a few rounds, whatever the values are; lists and strings have caps.
--  3. Expressions have a type, and tensors a shape class (mn, n, nn, s: sizes M x N, N, N x N, none; z: complex, M x N), so that most calls
--     succeed; what the steps of a program do to the world may still break every assumption.
--  4. What no capture can bear (values read back, unknown C functions) is in programs marked `wild` or `breaks` alone.

if jit.off then jit.off(true, true) end -- much code, none of it hot

local here = debug.getinfo(1, "S").source:match "^@(.*)[/\\][^/\\]*$" or "."
local frame = dofile(here .. "/fuzz_frame.lua")

local M = {}

local G = {} -- methods of the generator: r, vars (what is in scope), count (of names), wild, depth of expressions
G.__index = G

function G:pick(list) return list[self.r(#list)] end

function G:chance(percent) return self.r(100) <= percent end

function G:name(prefix)
  self.count = self.count + 1
  return prefix .. self.count
end

-- --- what is in scope

-- A variable: {name =, t = "N" number, "I" small whole number, "S" string, "B" truth, "T:mn" tensor, "L" list of
-- numbers, "K" list of tensors mn, "H" table of numbers with holes and names, "O" object, "Q" instance of Num,
-- "F" function}, fixed = not assigned to. Objects have
-- fields = {name -> type}; functions have takes = {types}, gives = {types}.
function G:declare(name, t, more)
  local v = more or {}
  v.name, v.t = name, t
  self.vars[#self.vars + 1] = v
  return v
end

function G:scoped(body)
  local n, loop = #self.vars, self.loop
  local result = body()
  for i = #self.vars, n + 1, -1 do self.vars[i] = nil end
  self.loop = loop
  return result
end

M.OBJECT = { n = "N", m = "N", i = "I", s = "S", flag = "B", w = "T:nn", b = "T:n", x = "T:mn", l = "L", k = "K",
  sub = { n = "N", b = "T:n", s = "S", flag = "B" } }

local field_names = setmetatable({}, { __mode = "k" })
local function sorted_fields(fields)
  local names = field_names[fields]
  if not names then
    names = {}
    for k in pairs(fields) do names[#names + 1] = k end
    table.sort(names)
    field_names[fields] = names
  end
  return names
end

local function fields_of(out, path, fields, t)
  for _, k in ipairs(sorted_fields(fields)) do
    local ft = fields[k]
    if ft == t then out[#out + 1] = path .. "." .. k end
    if type(ft) == "table" then fields_of(out, path .. "." .. k, ft, t) end
  end
end

--- An expression that may be assigned to as well: a variable or a field of the type; nil where there is none.
function G:place(t, assign)
  local out = {}
  for _, v in ipairs(self.vars) do
    if v.t == t and not (assign and v.fixed) then out[#out + 1] = v.name end
    if v.fields then fields_of(out, v.name, v.fields, t) end
  end
  if #out == 0 then return nil end
  local at = math.max(self.r(#out), self.r(#out)) -- what is near is used more
  local path = out[at]
  if self:chance(8) then path = path:gsub("%.(%l+)$", '["%1"]') end
  return path
end

function G:variable(t)
  local out = {}
  for _, v in ipairs(self.vars) do
    if v.t == t then out[#out + 1] = v end
  end
  return #out > 0 and out[math.max(self.r(#out), self.r(#out))] or nil
end

--- A call of some function in scope whose first result has the type; nil where there is none.
function G:call(t, d)
  if self.calls <= 0 then return nil end
  local out = {}
  for _, v in ipairs(self.vars) do
    if v.t == "F" and v.gives[1] == t then out[#out + 1] = v end
  end
  if #out == 0 then return nil end
  self.calls = self.calls - 1
  local f = self:pick(out)
  local args = {}
  for i, want in ipairs(f.takes) do args[i] = self:expression(want, d - 1) end
  if f.rest then
    for _ = 1, self.r(4) - 1 do args[#args + 1] = self:expression("N", 0) end
  end
  local text = f.name .. "(" .. table.concat(args, ", ") .. ")"
  return #f.gives > 1 and self:chance(50) and "(" .. text .. ")" or text, f
end

-- --- expressions

M.NUMBERS = { "0", "1", "2", "3", "-1", "0.5", "-2.5", "10", "0.1", "1e10", "-0.0", "7", "100", "1e-3" }
M.STRINGS = { '"a"', '"b"', '"abc"', '""', '"x y"', '"n"', '"12"', '"Tycho"' }

local number = {} -- ways to a number

function number.constant(g) return g:pick(M.NUMBERS) end
function number.arith(g, d)
  return ("(%s %s %s)"):format(g:N(d), g:pick { "+", "-", "*", "/", "%", "+", "-", "*" }, g:N(d))
end
function number.power(g, d) return ("%s ^ %s"):format(g:atom("N", d), g:pick { "2", "0.5", "-1" }) end
function number.negated(g, d) return "(-" .. g:atom("N", d) .. ")" end
function number.maths(g, d)
  local f = g:pick { "floor", "ceil", "abs", "sqrt", "sin", "exp", "cos", "tanh", "log", "floor" }
  return ("math.%s(%s)"):format(f, g:N(d))
end
function number.extreme(g, d) return ("math.%s(%s, %s)"):format(g:pick { "max", "min", "fmod" }, g:N(d), g:N(d)) end
function number.length(g) return "#" .. (g:place(g:pick { "L", "K" }) or '"abc"') end
function number.element(g, d)
  local l = g:place "L"
  if not l then return "1" end
  return ("(%s[%s] or %s)"):format(l, g:expression("I", d), g:pick { "0", "1.5" })
end
function number.hole(g, d)
  local h = g:place "H" or "u_h"
  return g:pick { "#" .. h, ("(%s[%s] or %s)"):format(h, g:expression("I", d), g:leaf "N"), ("(%s.a or 2)"):format(h),
    ("select('#', unpack(%s))"):format(h), ("select('#', unpack(%s, 1, 4))"):format(h), ("(next(%s) == 'a' and 1 or 2)"):format(h),
    ("(select(2, unpack(%s)) or 3)"):format(h), ("table.getn(%s)"):format(h) }
end
function number.count(g) return g.vararg and 'select("#", ...)' or "2" end
function number.rest(g) return g.vararg and "((...) or 1)" or "3" end
function number.chosen_rest(g)
  if not g.vararg then return "u_i" end
  return g:pick { "(select(2, ...) or 0)", "(select(-1, 0, ...) or 1)", "(tonumber((select(1, ...))) or 2)", "#{ ... }" }
end
function number.seen(g)
  local a, b = g:place "O" or "W.o", g:place "O" or "W.p"
  return ("(({ [%s] = 1, [%s] = 2 })[%s] or 0)"):format(a, b, g:pick { a, b, "W.o", "u_o" })
end
function number.string(g, d)
  local s = g:atom("S", d)
  return g:pick { "#" .. s, "(" .. s .. "):len()", "((" .. s .. "):byte() or 0)", "(tonumber(" .. s .. ") or 4)",
    "((" .. s .. ").len(" .. s .. "))" }
end
function number.choice(g, d) return ("(%s and %s or %s)"):format(g:B(d), g:N(d), g:N(d)) end
function number.size(g)
  local x = g:place "T:mn" or "u_x"
  return g:pick { x .. ":size(1)", "#" .. x, x .. ".ndim", x .. ":numel()", x .. ".shape[2]", x .. ".shape[1]",
    x .. ":stride(1)", x .. ":size()[1]", "#" .. x .. ".shape", x .. ":t():stride(2)", "(select(2, unpack(" .. x .. ".shape)))" }
end
function number.call(g, d) return g:call("N", d) or "u_n" end
function number.instance(g, d)
  local q = g:place "Q"
  if not q then return "u_n" end
  local other = g:place "Q"
  return g:pick { q .. ".v", ("(%s + %s).v"):format(q, other), ("(%s * %s).v"):format(q, g:N(d)),
    ("(%s - %s).v"):format(g:N(d), q), ("(-%s).v"):format(q), q .. "(" .. g:N(d) .. ")", ("#(%s .. %s)"):format(q, other),
    q .. ":twice()", q .. ".missing", ("(%s / 2).v"):format(q) }
end
function number.method(g, d)
  local o = g.methods and g:variable "O"
  return o and o.class and ("%s:%s(%s)"):format(o.name, g:pick { "get", "get", "bump" }, g:N(d)) or "u_n"
end
function number.optional(g) return ("(%s.opt or 0)"):format(g:place "O" or "W.o") end
function number.raw(g) return ('(rawget(%s, "n") or 0)'):format(g:place "O" or "W.o") end
function number.lazy(g) return ("W.z.%s"):format(g:pick { "a", "bb", "ccc" }) end
local has_bits = loadstring "return ~1" ~= nil -- the operators, which current hosts have

function number.bits(g, d)
  local x = g:expression("I", d)
  if not has_bits then return ("bit.band(%s, 7)"):format(x) end
  return g:pick({ "bit.band(%s, 7)", "(%s & 7)", "(7 & ~%s)", "(%s << 1 & 7)", "((%s >> 1 | 1) & 7)", "(%s ~ 5 & 7)" }):format(x)
end

function number.wild(g)
  if not g.wild then return "0.25" end
  local x = g:place "T:mn" or "u_x"
  local length = "#tostring(" .. x .. "):match '^[^%[]*'" -- without the footer: devices' names differ
  return g:pick { x .. ":sum():item()", x .. ":get(1, 1)", "debug.getinfo(1, 'l').currentline", length }
end

local number_ways = { number.constant, number.constant, number.arith, number.arith, number.arith, number.power,
  number.negated, number.maths, number.extreme, number.length, number.element, number.count, number.rest, number.chosen_rest, number.string,
  number.choice, number.size, number.call, number.call, number.method, number.instance, number.optional, number.raw, number.lazy,
  number.bits, number.seen, number.wild, number.hole }

local whole = {} -- ways to a small whole number

function whole.constant(g) return tostring(g.r(3)) end
function whole.length(g) return "#" .. (g:place "L" or "W.l") end
function whole.floor(g, d) return ("math.floor(%s) %% 3 + 1"):format(g:N(d)) end
function whole.count(g) return g.vararg and 'select("#", ...)' or "1" end
function whole.sum(g, d) return ("(%s %% 4 + %s)"):format(g:expression("I", d), g:expression("I", d)) end
function whole.size(g)
  local x = g:place "T:mn" or "u_x"
  return g:pick { "#%s", "%s:size(1) %% 3 + 1", "%s.shape[1]", "math.ceil(#%s / 2)", "math.max(#%s - 1, 1)" }:format(x)
end
local whole_ways = { whole.size, whole.constant, whole.constant, whole.length, whole.floor, whole.count, whole.sum }

local truth = {} -- ways to a condition

function truth.compare(g, d)
  return ("%s %s %s"):format(g:N(d), g:pick { "<", "<=", ">", ">=", "==", "~=" }, g:N(d))
end
function truth.strings(g, d) return ("%s %s %s"):format(g:S(d), g:pick { "==", "~=", "<" }, g:S(d)) end
function truth.negated(g, d) return "not (" .. g:B(d) .. ")" end
function truth.both(g, d) return ("(%s %s %s)"):format(g:B(d), g:pick { "and", "or" }, g:B(d)) end
function truth.missing(g) return ("%s.%s %s nil"):format(g:place "O" or "W.o", g:pick { "opt", "zz", "n" }, g:pick { "==", "~=" }) end
function truth.type(g, d)
  local t = g:pick { "N", "S", "O", "T:mn", "L" }
  return ("type(%s) == %s"):format(g:expression(t, d), g:pick { '"number"', '"table"', '"string"', '"userdata"' })
end
function truth.identity(g)
  local t = g:pick { "T:mn", "O", "L", "T:n" }
  return ("%s %s %s"):format(g:place(t) or "u_x", g:pick { "==", "~=" }, g:place(t) or "u_x")
end
function truth.instances(g)
  local q = g:place "Q"
  return q and ("%s %s %s"):format(q, g:pick { "==", "<", "<=", "~=", ">" }, g:place "Q") or "u_b"
end
function truth.tensor(g) return ("ty.is_tensor(%s)"):format(g:place(g:pick { "T:mn", "N", "O" }) or "u_x") end
function truth.dtype(g) return ('%s.dtype == "f32"'):format(g:place "T:mn" or "u_x") end
function truth.raw(g) return ("rawequal(%s, %s)"):format(g:place "O" or "W.o", g:place "O" or "W.p") end
function truth.meta(g) return ("getmetatable(%s) == Class"):format(g:place "O" or "W.o") end
function truth.wild(g, d)
  return g.wild and ("%s:mean():item() > 0"):format(g:T("mn", d)) or "u_b"
end
function truth.size(g)
  local x = g:place "T:mn" or "u_x"
  return g:pick { "#%s > 3", "#%s == %s", "%s:numel() %% 2 == 0", "%s:size(1) == %s:size(2)", "%s:size(1) < " .. g:leaf "N",
    "%s:t():is_contiguous()" }:format(x, x)
end
local truth_ways = { truth.size, truth.compare, truth.compare, truth.compare, truth.compare, truth.strings, truth.negated, truth.both,
  truth.missing, truth.type, truth.identity, truth.instances, truth.tensor, truth.dtype, truth.raw, truth.meta, truth.wild }

local text = {} -- ways to a string

function text.constant(g) return g:pick(M.STRINGS) end
function text.concat(g, d) return ("(%s .. %s)"):format(g:S(d), g:S(d)) end
function text.number(g, d) return ("(%s .. %s)"):format(g:S(d), g:expression("I", d)) end
function text.method(g, d)
  return ("(%s):%s"):format(g:S(d), g:pick { "upper()", "sub(1, 2)", "rep(2)", "reverse()", "lower()", 'gsub("a", "b")' })
end
function text.format(g, d) return ('("%%d:%%s"):format(%s, %s)'):format(g:expression("I", d), g:S(d)) end
function text.type(g, d) return ("type(%s)"):format(g:expression(g:pick { "N", "O", "T:n", "B" }, d)) end
function text.joined(g) return ("table.concat(%s, ',')"):format(g:place "L" or "W.l") end
function text.tostring(g, d) return ("tostring(%s)"):format(g:pick { g:expression("I", d), g:B(d), "nil" }) end
function text.choice(g, d) return ("(%s and %s or %s)"):format(g:B(d), g:S(d), g:S(d)) end
local text_ways = { text.constant, text.constant, text.concat, text.number, text.method, text.format, text.type, text.joined,
  text.tostring, text.choice }

local tensor = { mn = {}, n = {}, nn = {}, s = {}, z = {} } -- ways to a tensor, by shape class

local UNARY = { "relu", "abs", "tanh", "sigmoid", "neg", "square", "floor", "clone", "exp", "sin", "sqrt", "contiguous" }

local function unary(sh)
  return function(g, d) return ("%s:%s()"):format(g:atom("T:" .. sh, d), g:pick(UNARY)) end
end
local function binary(sh, others)
  return function(g, d)
    local a, b = g:T(sh, d), g:T(g:pick(others), d)
    if g:chance(25) then return ("ty.%s(%s, %s)"):format(g:pick { "maximum", "minimum", "add", "atan2" }, a, b) end
    return ("(%s %s %s)"):format(a, g:pick { "+", "-", "*", "/", "+", "-", "*" }, b)
  end
end
local function with_number(sh)
  return function(g, d)
    local a, n = g:T(sh, d), g:N(d)
    if g:chance(30) then return ("(%s %s %s)"):format(n, g:pick { "+", "-", "*", "/" }, a) end
    if g:chance(15) then return ("%s:%s(%s)"):format(g:atom("T:" .. sh, d), g:pick { "add", "maximum", "mul", "leaky_relu" }, n) end
    return ("(%s %s %s)"):format(a, g:pick { "+", "-", "*", "/", "*", "%" }, n)
  end
end
local function chosen(sh)
  return function(g, d) return ("(%s and %s or %s)"):format(g:B(d), g:T(sh, d), g:T(sh, d)) end
end
local function called(sh)
  return function(g, d) return g:call("T:" .. sh, d) or g:leaf("T:" .. sh) end
end
local function rounded(sh)
  return function(g, d)
    return ('%s:to("%s")'):format(g:atom("T:" .. sh, d), g:pick { "f64", "f32", "f32", "f32", "f16", "i32", "u32", "u64" })
  end
end

for sh, others in pairs { mn = { "mn", "n", "s", "mn" }, n = { "n", "s", "n" }, nn = { "nn", "n" }, s = { "s" } } do
  tensor[sh] = { unary(sh), unary(sh), binary(sh, others), binary(sh, others), binary(sh, others), with_number(sh),
    with_number(sh), chosen(sh), called(sh), called(sh), rounded(sh) }
end

local function also(sh, way) table.insert(tensor[sh], way) end
also("mn", function(g, d) return ("%s:matmul(%s)"):format(g:atom("T:mn", d), g:T("nn", d)) end)
also("mn", function(g, d) return ("ty.matmul(%s, %s)"):format(g:T("mn", d), g:T("nn", d)) end)
also("mn", function(g, d) return ("%s:gt(%s):where(%s, %s)"):format(g:atom("T:mn", d), g:N(d), g:T("mn", d), g:T("mn", d)) end)
also("mn", function(g, d) return ("%s:%s()"):format(g:atom("T:mn", d), g:pick { "softmax", "gelu", "silu", "log_softmax" }) end)
also("mn", function(g)
  local x = g:place "T:mn" or "u_x"
  return g:pick { "ty.randn(%s.shape)", "ty.zeros(%s.shape)", "ty.ones(%s:size(1), u_w:size(1))", "ty.rand(%s.shape)",
    "ty.full_like(%s, 0.5)", "ty.zeros_like(%s)", "%s:t():t()", "%s[{{1, -1}}]" }:format(x)
end)
also("mn", function(g, d)
  local x = g:place "T:mn" or "u_x"
  return g:pick { "(%s / #%s)", "(%s * %s:size(1))", "%s[{ { 1, #%s } }]", "%s[{ { -#%s, -1 } }]", "%s:reshape(unpack(%s.shape))",
    "%s:reshape(#%s, -1)", "%s:roll(#%s - 1, 1)", "%s:expand(%s.shape)", "ty.cat({ %s, %s })[{ { 1, #" .. x .. " } }]",
    "(%s + ty.arange(%s:size(1)):reshape(-1, 1))", "ty.stack(%s:unbind(), 1)", "ty.cat(%s:split(2))",
      "%s:tile(2, 1)[{ { #%s + 1, -1 } }]",
    ("(%%s * (%s / #%%s))"):format((g:N(d):gsub("%%", "%%%%"))) }:format(x, x)
end)

-- Complex numbers: of parts, by transforms, by arithmetic; and what is real of them.
also("z", function(g, d) return ("ty.%s(%s, %s)"):format(g:pick { "complex", "polar" }, g:T("mn", d), g:T("mn", d)) end)
also("z", function(g, d)
  return ("ty.fft.%s(%s%s)"):format(g:pick { "fft", "ifft" }, g:T(g:pick { "mn", "z" }, d), g:pick { "", ", nil, 1", ", { dim = 2 }" })
end)
also("z", function(g, d) return ("(%s %s %s)"):format(g:T("z", d), g:pick { "+", "-", "*", "/" }, g:T(g:pick { "z", "mn", "n" }, d)) end)
also("z", function(g, d) return ("(%s %s %s)"):format(g:T("z", d), g:pick { "+", "*", "/" }, g:N(d)) end)
also("z", function(g, d) return ("%s:%s()"):format(g:atom("T:z", d), g:pick { "conj", "exp", "neg", "sqrt", "clone", "square" }) end)
also("z", function(g, d) return ("%s:matmul(%s)"):format(g:atom("T:z", d), g:T("nn", d)) end)
also("z", chosen "z")
also("mn", function(g, d) return ("%s:%s()"):format(g:atom("T:z", d), g:pick { "real", "imag", "abs", "angle", "real" }) end)

--- As many positions as x has rows, computed from it. Where the device tells of an index out of range later, eager and
--- compiled runs differ in what was written until then: there all are in range.
local LATE = (os.getenv "FUZZ_DEVICE" or "cpu") ~= "cpu"
function M.rows(x, i)
  return ("(%s:sum(2) * 0 + %s):to('i64')%s"):format(x, i, LATE and ":clamp(1, 1)" or "")
end

also("mn", function(g)
  local x = g:place "T:mn" or "u_x"
  return ("%s:index_select(1, %s)"):format(x, M.rows(x, M.row(g, x)))
end)

--- A number that is a position or a bound of a tensor's rows; mostly one that fits, and never one that memory has no room
--- for: a compiled function does not make what nobody reads, and so does not raise there.
local function row(g, x)
  local i = g:chance(70) and g:expression("I", 1) or g:N(1)
  if g:chance(12) then return ("math.min(%s, 99)"):format(i) end
  if g:chance(30) then return ("math.max(1, math.min(%s, #%s))"):format(i, x) end
  return ("(math.floor(%s) %% #%s + 1)"):format(i, x)
end

M.row = row

--- Ways in which numbers are positions, bounds and sizes.
local function bounded(sh, ways)
  also(sh, function(g)
    local x = g:place "T:mn" or "u_x"
    local i = row(g, x)
    return (g:pick(ways):gsub("[XI]", { X = x, I = i }))
  end)
end
bounded("mn", { "X:roll(I, 1)", "ty.cat({ X, X }):narrow(1, I, #X)", "(X + X[{ { I, I } }])", "(X * X:narrow(1, 1, I):sum(1))",
  "ty.cat({ X[{ { I, -1 } }], X[{ { 1, I - 1 } }] })", "(X - ty.ones(I, 1):sum())",
  "ty.nn.rotary(ty.cat({ X, X }, 2), I)[{ {}, { 1, N } }]", "ty.full(X.shape, I)" })
also("mn", function(g, d) return ("(%s ^ %s)"):format(g:atom("T:mn", d), g:pick { "(" .. g:N(d) .. ")", "2", "-1" }) end)
also("mn", function(g, d)
  return (g:pick { "(X * math.random())", "(X + math.random(9) / 4)", "(X - math.floor(math.random() * N))" }
    :gsub("%f[%w][XN]%f[^%w]", { X = g:atom("T:mn", d), N = "(" .. g:N(d) .. ")" }))
end)
--- Ways in which numbers are elements, or what elements are computed from.
also("s", function(g, d)
  local n, m = "(" .. g:N(d) .. ")", "(" .. g:N(d) .. ")"
  return (g:pick { "ty.tensor { N, M, 1 }:sum()", "ty.tensor({ { N }, { M } }, { dtype = 'f64' }):mean()", "ty.linspace(N, M, 5):sum()",
    "ty.arange(N, N + 2.5):sum()", "ty.arange(N, N + M * 3, M):sum()", "ty.range(M, M + 2):sum()", "ty.uniform(N, N + 1, { 3 }):sum()",
    "ty.normal(N, 0.5, { 3 }):sum()", "ty.full({ 2 }, M, { dtype = 'i32' }):sum()", "u_x:norm(N)",
    "ty.huber_loss(u_x, 0, { delta = math.abs(N) + 0.1 })", "u_x:pad({ { 1, 0 } }, N):sum()" }:gsub("%f[%w][NM]%f[^%w]", { N = n, M = m }))
end)
bounded("n", { "X[I]", "X[-(I)]", "X[{ { 1, I } }]:sum(1)", "X:narrow(1, I, 1)[1]", "X:tile(I, 1)[-1]" })
bounded("s", { "X:narrow(1, 1, I):sum()", "ty.arange(I):sum()", "ty.zeros(I, 2):add(I):sum()", "X[I]:sum()", "X[{ { I, -1 } }]:mean()",
  "X:split(I)[1]:sum()", "ty.rand(I):sum()" })
also("mn", function(g, d)
  local k = g:place "K" or "W.k"
  return ("(%s[%s] or %s)"):format(k, g:expression("I", d), g:T("mn", 0))
end)
also("mn", function(g, d) return ("ty.stack({ %s, %s }):sum(1)"):format(g:T("mn", d), g:T("mn", d)) end)
also("mn", function(g, d)
  local o = g.methods and g:variable "O"
  return o and o.class and ("%s:forward(%s)"):format(o.name, g:T("mn", d)) or g:leaf "T:mn"
end)
also("n", function(g, d) return ("%s:%s(1)"):format(g:atom("T:mn", d), g:pick { "sum", "mean", "max" }) end)
also("n", function(g) return (g:place "T:mn" or "u_x") .. "[1]" end)
also("n", function(g, d) return ("%s:matmul(%s)"):format(g:atom("T:n", d), g:T("nn", d)) end)
also("s", function(g, d) return ("%s:%s()"):format(g:atom("T:" .. g:pick { "mn", "n" }, d), g:pick { "sum", "mean", "max" }) end)
also("nn", function(g, d) return ("%s:t()"):format(g:atom("T:nn", d)) end)

local leaf_of = { N = "u_n", I = "2", S = "u_s", B = "u_b", L = "u_l", K = "u_k", H = "u_h", O = "u_o", ["T:mn"] = "u_x",
  ["T:n"] = "u_v", ["T:nn"] = "u_w", ["T:s"] = "u_x:sum()", ["T:z"] = "ty.fft.fft(u_x)", Q = "u_q" }

function G:leaf(t)
  if t == "N" and self:chance(25) then return self:pick(M.NUMBERS) end
  if t == "B" and self:chance(30) then return self:pick { "true", "false", "nil" } end
  if t == "N" and self:chance(15) then return self:place "I" or "2" end
  return self:place(t) or leaf_of[t]
end

local ways = { N = number_ways, I = whole_ways, S = text_ways, B = truth_ways }

--- An expression of a type, at most d deep.
function G:expression(t, d)
  if t:sub(1, 2) == "F:" then return self:argument_function(t) end
  local from = ways[t] or tensor[t:match "^T:(.*)$"]
  if d <= 0 or not from or self:chance(30) then return self:leaf(t) end
  return self:pick(from)(self, d - 1)
end

function G:N(d) return self:expression("N", d) end
function G:B(d) return self:expression("B", d) end
function G:S(d) return self:expression("S", d) end
function G:T(sh, d) return self:expression("T:" .. sh, d) end

--- The same where an operator or a method follows.
function G:atom(t, d)
  local e = self:expression(t, d)
  if e:find "^[%a_][%w_%.]*$" then return e end
  return "(" .. e .. ")"
end

-- --- statements; each gives a list of nodes

local make = {}

local LOCALS = { "N", "N", "I", "S", "B", "T:mn", "T:mn", "T:n", "T:s", "T:nn", "T:z" }

function make.local_value(g, d)
  local t, name = g:pick(LOCALS), g:name "v"
  local e = g:expression(t, d)
  g:declare(name, t)
  return { ("local %s = %s"):format(name, e) }
end

function make.several(g, d)
  local a, b = g:name "v", g:name "v"
  local ea, eb = g:expression("N", d), g:expression("T:mn", d)
  g:declare(a, "N")
  g:declare(b, "T:mn")
  return { ("local %s, %s = %s, %s"):format(a, b, ea, eb) }
end

function make.assign(g, d)
  local t = g:pick { "N", "N", "N", "I", "S", "B", "T:mn", "T:mn", "T:n" }
  local p = g:place(t, true)
  if not p then return nil end
  local e = g:expression(t, d)
  if t == "S" then e = ("(%s):sub(1, 20)"):format(e) end
  if t == "I" then e = e .. " % 5" end
  return { ("%s = %s"):format(p, e) }
end

function make.swap(g)
  local t = g:pick { "N", "T:mn", "L", "O" }
  local a, b = g:place(t, true), g:place(t, true)
  return a and { ("%s, %s = %s, %s"):format(a, b, b, a) }
end

function make.field(g, d)
  local o = g:place "O"
  if not o then return nil end
  return { g:pick { "%s.opt = %s", "%s.zz = %s", "%s.opt = nil -- %s", "%s[u_s] = %s", "%s[%s] = true",
    'rawset(%s, "opt", %s)' }:format(o, g:N(d)) }
end

function make.append(g, d)
  local k = g:chance(40) and g:place "K"
  if k then
    local how = g:pick { "if #%s < 5 then %s[#%s + 1] = %s end", "if #%s < 5 then table.insert(%s, #%s + 1, %s) end" }
    return { how:format(k, k, k, g:T("mn", d)) }
  end
  local l, n = g:place "L", g:N(d)
  if not l then return nil end
  local choice = g.r(6)
  if choice <= 2 then return { ("if #%s < 8 then %s[#%s + 1] = %s end"):format(l, l, l, n) } end
  if choice == 3 then return { ("if #%s < 8 then table.insert(%s, %s) end"):format(l, l, n) } end
  if choice == 4 then return { ("if #%s < 8 then table.insert(%s, 1, %s) end"):format(l, l, n) } end
  if choice == 5 then return { ("table.remove(%s)"):format(l) } end
  return { ("if %s[1] then %s[1] = %s end"):format(l, l, n) }
end

function make.in_place(g, d)
  local x = g:place "T:mn"
  if not x then return nil end
  local choice = g.r(14)
  if choice == 1 then return { ("%s:add_(%s)"):format(x, g:N(d)) } end
  if choice == 2 then return { ("%s:mul_(%s)"):format(x, g:T(g:pick { "mn", "n", "s" }, d)) } end
  if choice == 3 then return { ("%s[1] = %s"):format(x, g:pick { g:N(d), g:T("n", d) }) } end
  if choice == 4 then return { ("%s[{ {}, { 1 } }] = %s"):format(x, g:N(d)) } end
  if choice == 5 then return { ("%s:%s_()"):format(x, g:pick { "relu", "abs", "neg", "zero" }) } end
  if choice == 6 then
    local v = g:name "v"
    g:declare(v, "T:n")
    return { ("local %s = %s[%s]"):format(v, x, g:pick { "1", "-1" }), ("%s:%s"):format(v, g:pick { "add_(1)", "mul_(0.5)",
      "neg_()" }) }
  end
  if choice == 7 then return { ("%s:copy_(%s)"):format(x, g:T("mn", d)) } end
  if choice == 8 then
    local how = g:pick { "X[I] = E", "X[{ { I, -1 } }]:add_(E)", "X:narrow(1, 1, I):mul_(E)", "X[{ { 1, I } }] = E" }
    return { (how:gsub("[XIE]", { X = x, I = M.row(g, x), E = g:N(d) })) }
  end
  if choice == 9 then return { ("%s[#%s] = %s"):format(x, x, g:N(d)) } end
  if choice == 10 then return { ("%s[{ { math.ceil(#%s / 2), #%s } }]:add_(#%s)"):format(x, x, x, x) } end
  if choice == 11 then -- at an index; at a computed one, of which some are out of range
    local how = g:pick { "X[ty.tensor({ 1, #X }, { dtype = 'i64' })] = E", "X[ROWS] = E", "X[ROWS - 1] = E",
      "X:index_add_(1, ROWS, X)", "local _ = X:index_select(1, ROWS + 1)", "local _ = X[ROWS] * 2" }
    if LATE then how = how:gsub("ROWS [+-] 1", "ROWS") end
    return { (how:gsub("ROWS", M.rows(x, "I")):gsub("[XIE]", { X = x, I = M.row(g, x), E = g:N(d) })) }
  end
  local z = choice > 12 and g:place "T:z"
  if z then -- through the parts, or as a whole
    local how = g:pick { "Z:real():add_(E)", "Z:imag():mul_(E)", "Z[1] = E", "Z:mul_(E)", "Z:conj_()", "Z:view_as_real():neg_()" }
    return { (how:gsub("[ZE]", { Z = z, E = g:N(d) })) }
  end
  return { ("%s:fill_(%s)"):format(x, g:N(d)) }
end

function make.record(g, d)
  local name = g:name "t"
  local fields = { n = "N", x = "T:mn", s = "S", sub = { n = "N", b = "T:n" } }
  local e = ("{ n = %s, x = %s, s = %s, %s, sub = { n = %s, b = %s } }"):format(g:N(d), g:T("mn", d), g:S(d),
    g:N(d), g:N(0), g:T("n", 0))
  if g:chance(25) then e = ("setmetatable(%s, Class)"):format(e) end
  g:declare(name, "O", { fields = fields, fixed = true })
  return { ("local %s = %s"):format(name, e) }
end

function make.list(g, d)
  local name = g:name "l"
  if g:chance(40) then
    local e = ("{ %s, %s }"):format(g:T("mn", d), g:T("mn", d))
    g:declare(name, "K", { fixed = true })
    return { ("local %s = %s"):format(name, e) }
  end
  local e = g.vararg and g:chance(40) and "{ ... }" or ("{ %s, %s, %s }"):format(g:N(d), g:N(0), g:N(0))
  g:declare(name, "L", { fixed = true })
  return { ("local %s = %s"):format(name, e) }
end

-- Tables with holes: statements on them, and what their constructors hold.
local parts_of = dofile(here .. "/fuzz_tables.lua")(make)

-- All results of a call in a table, among them those behind the first.
function make.collect(g, d)
  local f = g:variable "F"
  if not f or #f.gives < 2 or g.calls <= 0 then return nil end
  g.calls = g.calls - 1
  local args, t = {}, g:name "t"
  for i, want in ipairs(f.takes) do args[i] = g:expression(want, d) end
  g:declare(t .. "[1]", f.gives[1], { fixed = true })
  g:declare(t .. "[2]", f.gives[2], { fixed = true })
  return { ("local %s = { %s(%s) }"):format(t, f.name, table.concat(args, ", ")) }
end

-- Closures of one loop, each with its own variable.
function make.closures(g, d)
  local fs, i, c = g:name "fs", g:name "i", g:name "v"
  local body = { ("%s[%s] = function(p) %s = %s + 1 return p * %s + %s end"):format(fs, i, c, c, i, g:N(0)) }
  local node = { ("local %s = {} for %s = 1, 3 do local %s = %s"):format(fs, i, c, g:N(d)), body, "end" }
  g:declare(fs .. "[2]", "F", { takes = { "N" }, gives = { "N" } })
  return { node }
end

local function raise(g)
  return (g:pick {
    "error(S)", "error(S)", "error({ code = S })", "error(S, 0)", "local nothing; nothing.x = S", "assert(false)", "assert(nil, S)",
    "assert(false, nil)", "assert(false, S, S)", "assert(false, { code = S })", "error({ code = S }, S)", "error(true, {})", "error(N)",
    "error(S, '0')", "error()",
  }:gsub("[SN]", function(t) return t == "S" and g:S(1) or g:N(1) end))
end

-- Comparisons that look at what is sorted, change it, or raise.
function make.sort(g)
  local l = g:place "L"
  if not l then return nil end
  if g:chance(40) then
    return { (g:pick { "table.sort(L)", "table.sort(L, function(p, q) return p > q end)", "table.sort(L, nil)" }:gsub("L", l)) }
  end
  local n, m, vararg = g:name "n", g:name "m", g.vararg
  g.vararg = false
  local what = g:pick {
    "log(L[1], L[#L])", "log(next(L))", "log(rawget(L, 2), #L)", "W.n = (L[2] or 0) + N", "L[1] = N", "L[#L] = nil",
    "L[2] = L[1]", "L[3] = nil", "L.seen = n", "rawset(L, 2, p)", "if #L < 8 then L[#L + 1] = q end", "log(p)", "table.remove(L)",
    "RAISE", "RAISE", "RAISE", "do return n end",
  }
  local sorting = "local N1 = 0 local OK, M = pcall(table.sort, L, function(p, q) N1 = N1 + 1 if N1 == " .. g.r(7)
    .. " then " .. what .. " end return p " .. g:pick { "<", ">", "<=" } .. " q end)"
  sorting = sorting:gsub("%f[%w]L%f[%W]", l):gsub("N1", n):gsub("%f[%w]n%f[%W]", n):gsub("OK, M", g:name "ok" .. ", " .. m)
  sorting = sorting:gsub("RAISE", function() return raise(g) end):gsub("%f[%w]N%f[%W]", function() return g:N(0) end)
  g.vararg = vararg
  local cleared = "for N = 9, 1, -1 do if type(L[N]) ~= 'number' then L[N] = nil end end"
  return { sorting, ("log(type(%s) == 'table' and %s.code or %s, %s)"):format(m, m, m, n),
    ("for %s = 1, 9 do log(%s[%s]) end"):format(n, l, n),
    (cleared:gsub("[NL]%f[%W]", { N = n, L = l })) }
end

function make.instance(g, d)
  local name = g:name "q"
  local e = ("new_num(%s)"):format(g:N(d))
  g:declare(name, "Q", { fixed = true })
  return { ("local %s = %s"):format(name, e) }
end

function make.instance_write(g, d)
  local q = g:place "Q"
  return q and { ("%s.%s = %s"):format(q, g:pick { "v", "v", "extra" }, g:N(d)) } or { ("W.z.%s = %s"):format(g:pick { "a", "q" }, g:N(d)) }
end

function make.say(g, d)
  local t = g:pick { "N", "S", "T:mn", "I", "B", "O" }
  local e = g:expression(t, d)
  if g.wild and t ~= "T:mn" and t ~= "O" and g:chance(40) then return { ("say(%s)"):format(e) } end
  return { ("log(%s, %s)"):format(e, g:S(0)) }
end

function make.call(g, d)
  local several = {}
  for _, v in ipairs(g.vars) do
    if v.t == "F" and #v.gives == 2 then several[#several + 1] = v end
  end
  if #several > 0 and g:chance(60) and g.calls > 0 then
    g.calls = g.calls - 1
    local f, a, b = g:pick(several), g:name "v", g:name "v"
    local args = {}
    for i, want in ipairs(f.takes) do args[i] = g:expression(want, d) end
    g:declare(a, f.gives[1])
    g:declare(b, f.gives[2])
    return { ("local %s, %s = %s(%s)"):format(a, b, f.name, table.concat(args, ", ")) }
  end
  local o = g.methods and g:variable "O"
  if o and o.class and g:chance(50) then return { ("%s:bump(%s)"):format(o.name, g:N(d)) } end
  local e = g:call(g:pick { "N", "T:mn" }, d)
  return e and { (e:gsub("^%((.*)%)$", "%1")) }
end

function make.branch(g, d)
  local node = { ("if %s then"):format(g:B(d)), g:block(d - 1, g.r(3)) }
  if g:chance(30) then
    node[#node + 1] = ("elseif %s then"):format(g:B(d))
    node[#node + 1] = g:block(d - 1, g.r(2))
  end
  if g:chance(60) then
    node[#node + 1] = "else"
    node[#node + 1] = g:block(d - 1, g.r(2))
  end
  node[#node + 1] = "end"
  return { node }
end

-- The body of a loop: with break, with goto continue.
function G:loop_body(d, declare)
  return self:scoped(function()
    if declare then declare() end
    self.loop = true
    local body = self:block(d, self.r(3))
    if self:chance(25) then
      table.insert(body, self.r(#body + 1), ("if %s then break end"):format(self:B(1)))
    end
    if self:chance(25) then
      local label = self:name "next"
      table.insert(body, self.r(#body + 1), ("if %s then goto %s end"):format(self:B(1), label))
      return { { "do", body, "end" }, ("::%s::"):format(label) }
    end
    return body
  end)
end

function make.numeric_for(g, d)
  local i = g:name "i"
  local bounds = g:pick { "1, math.min(%s, 4)", "math.min(%s, 3), 1, -1", "0.5, math.min(%s, 2), 0.75", "1, 3 -- %s", "2, 1 -- %s" }
  bounds = bounds:format(g:expression("I", 1))
  return { { ("for %s = %s do"):format(i, (bounds:gsub(" %-%-.*", ""))), g:loop_body(d - 1, function()
    g:declare(i, bounds:find "^0" and "N" or "I")
  end), "end" } }
end

function make.ipairs_loop(g, d)
  local i, v = g:name "i", g:name "v"
  local k = g:chance(50) and g:place "K"
  local list = k or g:place "L" or "W.l"
  local head = g:pick { "for %s, %s in ipairs(%s) do", "for %s, %s in ipairs(%s) do", "for %s, %s in each, %s, 0 do" }
  return { { head:format(i, v, list), g:loop_body(d - 1, function()
    g:declare(i, "I")
    g:declare(v, k and "T:mn" or "N")
  end), "end" } }
end

-- Sums of whole numbers: the same in whatever order the keys come.
function make.pairs_loop(g)
  local c, k, v = g:name "v", g:name "k", g:name "v"
  local o = g:pick { g:place "O" or "W.o", "W.flat", "W.l" }
  local head = g:pick { "for %s, %s in pairs(%s) do", "for %s, %s in next, %s do" }
  local body = g:pick { "if type(%s) == 'number' then %s = %s + 1 end", "%s, %s = nil, %s + 2", "%s, %s = 1, %s + #tostring(%s)" }
  body = body:format(v, c, c, k)
  g:declare(c, "N")
  return { ("local %s = 0"):format(c), { head:format(k, v, o), { body }, "end" } }
end

function make.iterator_loop(g, d)
  local v = g:name "v"
  return { { ("for %s in count_to(%s) do"):format(v, g:pick { "2", "3", "math.min(" .. g:expression("I", 1) .. ", 3)" }),
    g:loop_body(d - 1, function() g:declare(v, "I") end), "end" } }
end

--- What a coroutine's body does: it may yield between its statements, in loops and in branches; what it is resumed with
--- is a number.
local function thread_body(g, d, gives, ends)
  return g:scoped(function()
    local vararg, calls = g.vararg, g.calls
    g.vararg = false
    g:declare("p", "N")
    local body = g:block(d - 1, g.r(3))
    for _ = 1, g.r(3) do
      local give = ("local p = coroutine.yield(%s)%s"):format(g:expression(gives, 1), g:chance(60) and " or 1" or "")
      if g:chance(30) then give = ("if %s then %s end"):format(g:B(1), give) end
      if g:chance(40) then give = ("for t = 1, %s do %s end"):format(g:pick { "2", "3", "math.min(u_i, 3)" }, give) end
      table.insert(body, g.r(#body + 1), "do " .. give .. " end")
    end
    if g:chance(20) then table.insert(body, g.r(#body + 1), ("if %s then %s end"):format(g:B(1), raise(g))) end
    if g:chance(5) then body[#body + 1] = "pcall(coroutine.yield, " .. g:expression(gives, 1) .. ")" end
    if g:chance(ends) then body[#body + 1] = "do return " .. g:expression(gives, 1) .. " end" end
    g.vararg, g.calls = vararg, calls
    return body
  end)
end

function make.thread_loop(g, d)
  local v, f, gives = g:name "v", g:name "f", g:pick { "N", "T:mn" }
  return { { ("local %s = coroutine.wrap(function(p)"):format(f), thread_body(g, d, gives, 4), "end)" },
    { ("for %s in %s do"):format(v, f), g:loop_body(d - 1, function() g:declare(v, gives) end), "end" } }
end

function make.thread(g, d)
  local co, f, out = g:name "c", g:name "f", {}
  out[1] = { ("local %s = coroutine.%s(function(p)"):format(co, g:pick { "create", "create", "wrap" }),
    thread_body(g, d, g:pick { "N", "T:mn" }, 40), "end)" }
  local resume = "log(coroutine.resume(%s, %s))"
  if out[1][1]:find "wrap" then resume = g:chance(85) and "log(pcall(%s, %s))" or "log(%s(%s))" end
  for _ = 1, g.r(4) do
    out[#out + 1] = resume:format(co, g:N(1))
    if g:chance(20) and resume:find "resume" then out[#out + 1] = ("log(coroutine.status(%s))"):format(co) end
  end
  if g:chance(3) then out[#out + 1] = ("W.%s = %s"):format(f, co) end
  return out
end

function make.module(g)
  return { g:pick { "log(require 'math'.max(%s, 1))", "log(require('fuzz.module').n + %s)",
    "u_n = require('fuzz.module').f(%s)" }:format(g:N(1)) }
end

function make.while_loop(g, d)
  local c = g:name "c"
  local condition = g:B(1)
  local body = g:loop_body(d - 1, function() g:declare(c, "I", { fixed = true }) end)
  if g:chance(50) then
    return { { ("do local %s = 0; while %s < 3 and (%s) do %s = %s + 1"):format(c, c, condition, c, c), body, "end end" } }
  end
  return { { ("do local %s = 0; repeat %s = %s + 1"):format(c, c, c), { { "do", body, "end" } },
    ("until %s >= 3 or (%s) end"):format(c, condition) } }
end

function make.goto_block(g, d)
  local label = g:name "done"
  local body = g:scoped(function() return g:block(d - 1, g.r(3)) end)
  if g:chance(50) then
    table.insert(body, g.r(#body + 1), ("if %s then goto %s end"):format(g:B(1), label))
    return { { "do", body, ("::%s:: end"):format(label) } }
  end
  local c = g:name "c"
  return { { ("do local %s = 0 ::%s:: %s = %s + 1"):format(c, label, c, c), { { "do", body, "end" } },
    ("if %s < 3 and (%s) then goto %s end end"):format(c, g:B(1), label) } }
end

-- A closure that reads and writes locals around it, and one that shares them.
function make.closure(g, d)
  local c, f, other = g:name "c", g:name "f", g:name "f"
  local start = g:N(d)
  g:declare(c, "N")
  local calls = g.calls
  local function closure(name, takes, gives, params, extra)
    local node = g:scoped(function()
      local vararg = g.vararg
      g.vararg = false
      for i, t in ipairs(takes) do g:declare(params[i], t) end
      local body = g:block(math.min(d - 1, 1), g.r(2))
      for _, s in ipairs(extra) do body[#body + 1] = s end
      body[#body + 1] = "do return " .. g:expression(gives[1], 1) .. " end"
      g.vararg = vararg
      return { ("local function %s(%s)"):format(name, table.concat(params, ", ")), body, "end" }
    end)
    return node
  end
  local a, b = closure(f, { "N" }, { "N" }, { "p" }, { ("%s = %s + p"):format(c, c) }),
    closure(other, { "T:mn" }, { "T:mn" }, { "p" }, g:chance(50) and { ("%s = %s * 2"):format(c, c) } or {})
  g.calls = calls
  g:declare(f, "F", { takes = { "N" }, gives = { "N" } })
  g:declare(other, "F", { takes = { "T:mn" }, gives = { "T:mn" } })
  return { ("local %s = %s"):format(c, start), a, b }
end

function make.protected(g, d)
  local ok, r, v = g:name "ok", g:name "r", g:name "v"
  local argument = g:N(1)
  local body = g:scoped(function()
    local vararg = g.vararg
    g.vararg = false
    g:declare("p", "N")
    local body = g:block(d - 1, g.r(3))
    if g:chance(60) then
      table.insert(body, g.r(#body + 1), ("if %s then %s end"):format(g:B(1), raise(g)))
    end
    body[#body + 1] = "do return " .. g:T("mn", 1) .. " end"
    g.vararg = vararg
    return body
  end)
  local out = { { ("local %s, %s = pcall(function(p)"):format(ok, r), body, ("end, %s)"):format(argument) } }
  out[2] = ("local %s = %s and %s or %s"):format(v, ok, r, g:T("mn", 0))
  if g:chance(50) then out[3] = ("log(%s, type(%s) == 'table' and %s.code or %s)"):format(ok, r, r, r) end
  g:declare(ok, "B")
  g:declare(v, "T:mn")
  return out
end

function make.fail(g, d)
  if not g:chance(40) then return nil end
  return { ("if %s then %s end"):format(g:B(d), raise(g)) }
end

function make.leave(g)
  if g.depth > 0 or not g:chance(50) then return nil end
  return { ("if %s then return %s end"):format(g:B(1), g:results()) }
end

function make.wild(g)
  if not g.wild then return nil end
  return { g:pick { "say(u_s)", "collectgarbage()", "log(coroutine.running() == nil)",
    "log(coroutine.wrap(function(p) coroutine.yield(p + 1) end)(u_n))", "log(loadstring('return 1 + 1')())",
    "u_x = u_x:clone() log(tostring(u_x))", "G_n = getfenv(1).G_n", "log(u_x:sum():item())", "W.keep = function() return u_n end" } }
end

--- Arguments of a function as text, of which the last one is what `last` gives.
local function arguments(g, f, d, last)
  local args = {}
  for i = 1, #f.takes - 1 do args[i] = g:expression(f.takes[i], d) end
  args[#args + 1] = last
  return table.concat(args, ", ")
end

--- A function in scope whose last argument has the type, nil where there is none.
local function taking(g, t)
  local out = {}
  for _, v in ipairs(g.vars) do
    if v.t == "F" and v.takes[#v.takes] == t then out[#out + 1] = v end
  end
  return #out > 0 and g:pick(out) or nil
end

--- A statement that no trace holds.
local function break_of(g, x, read)
  return g:pick { "say(type(u_n), tonumber(u_n))", ("log(%s%s)"):format(x, read), ("if %s%s > 1 then u_n = 1 end"):format(x, read),
    "log(tostring(u_x))" }
end

--- A function that is made in each call, breaks, and shares variables that are assigned, by it, by others or behind it.
local function closure_that_breaks(g, x, read)
  local f, c, other, last = g:name "f", g:name "c", g:name "f", g:name "t"
  local out = { ("local %s, %s = %s, nil"):format(c, last, g:N(0)) }
  local body = g:scoped(function()
    local vararg = g.vararg
    g.vararg = false
    g:declare("p", "N")
    local list = g:block(1, g.r(3))
    table.insert(list, g.r(#list + 1), break_of(g, x, read))
    if g:chance(60) then table.insert(list, g.r(#list + 1), ("%s = %s %s p"):format(c, c, g:pick { "+", "-", "*" })) end
    if g:chance(50) then table.insert(list, g.r(#list + 1), ("%s = %s"):format(last, g:T("mn", 1))) end
    if g:chance(20) then table.insert(list, g.r(#list + 1), ("if p > 5 then error(%s) end"):format(g:pick { "'far'", c, "{ p }" })) end
    list[#list + 1] = ("do return %s, %s end"):format(c, g:T("mn", 1))
    g.vararg = vararg
    return list
  end)
  out[2] = { ("local function %s(p)"):format(f), body, "end" }
  if g:chance(40) then out[3] = ("local function %s() %s = %s + 1 return %s end"):format(other, c, c, c) else other = nil end
  for _ = 1, 1 + g.r(3) do
    local v = g:pick { g:N(0), c }
    out[#out + 1] = g:pick { ("log(%s(%s))"):format(f, v), ("log(pcall(%s, %s))"):format(f, v),
      ("log(ty.no_grad(%s, %s))"):format(f, v), ("log(ty.no_grad(function() return %s(%s) end))"):format(f, v),
      ("for i = 1, 2 do log(%s(i)) end"):format(f), ("%s = %s * 0.5"):format(c, c), ("say(%s, %s)"):format(c, last),
      other and ("log(%s())"):format(other) or ("log(%s)"):format(c) }
  end
  out[#out + 1] = ("log(%s, %s)"):format(c, last)
  return { { "do", out, "end" } }
end

--- What no trace holds, where a call takes as many values as another gives, in a function that is called, and before data
--- decide; only in programs that break.
function make.breaks(g, d)
  local choice, x = g.r(9), g:place "T:mn" or "u_x"
  local read = g:pick { ":sum():item()", ":mean():item()", ":get(1, 1)", ":max():item()" }
  if choice == 1 then return { ("say(%s)"):format(g:expression(g:pick { "N", "S", "I" }, 1)) } end
  if choice >= 8 then return closure_that_breaks(g, x, read) end
  if choice == 2 then -- what was read decides
    return { { ("if %s%s > %s then"):format(x, read, g:N(0)), g:block(d - 1, g.r(2)), "else", g:block(d - 1, 1), "end" } }
  end
  if choice == 3 then -- in a body that is protected, or that no gradient is asked of
    local body = g:scoped(function()
      local vararg = g.vararg
      g.vararg = false
      local list = g:block(1, g.r(2))
      table.insert(list, g.r(#list + 1), break_of(g, x, read))
      g.vararg = vararg
      return list
    end)
    local head = g:pick { "log(pcall(function()", "ty.no_grad(function()" }
    return { { head, body, head:find "^log" and "end))" or "end)" } }
  end
  local t = g:pick { "N", "N", "T:mn" }
  local f, by = taking(g, t), g:variable "F"
  if not f or g.calls <= 0 then return { ("log(math.max(1, %s%s), %s%s)"):format(x, read, x, read) } end
  g.calls = g.calls - 1
  if choice <= 5 and t == "N" then
    local name = g:name "v"
    local call = ("%s(%s)"):format(f.name, arguments(g, f, 1, x .. read))
    if g:chance(40) then return { ("%s(%s)"):format(g:pick { "log", "say" }, call) } end
    g:declare(name, f.gives[1])
    return { ("local %s = %s"):format(name, call) }
  end
  if not by or by.gives[1] ~= t then return { ("say(%s(%s))"):format(f.name, arguments(g, f, 1, g:leaf(t))) } end
  local inner = ("%s(%s)"):format(by.name, arguments(g, by, 1, g:leaf(by.takes[#by.takes])))
  return { ("log(%s(%s))"):format(f.name, arguments(g, f, 1, inner)) }
end

-- --- gradients; only in programs that learn

local function scalar(g, d) return ("(%s):%s()"):format(g:T("mn", d), g:pick { "sum", "mean", "sum" }) end

-- A function of p whose gradient is asked for, as text.
local function loss_function(g, d, parameter, t)
  return g:scoped(function()
    local vararg = g.vararg
    g.vararg = false
    g:declare(parameter, t)
    local first = g:chance(40) and make.local_value(g, d)[1] .. " " or ""
    local e = scalar(g, d)
    if g:chance(70) then
      local use = { ["T:mn"] = "(%s * %s):sum()", ["T:n"] = "(%s * %s):mean()", ["T:nn"] = "(%s:matmul(%s)):tanh():sum()" }
      e = ("%s + %s"):format(e, use[t]:format(t == "T:nn" and g:T("mn", 0) or parameter, parameter))
    end
    g.vararg = vararg
    return ("%sreturn %s"):format(first, e)
  end)
end

function make.gradient(g, d)
  local name, t = g:name "g", g:pick { "T:mn", "T:mn", "T:n", "T:nn" }
  local choice = g.r(5)
  local at = g:expression(t, 1)
  local out
  if choice <= 2 then
    out = ("local %s = ty.grad(function(p) %s end)(%s)"):format(name, loss_function(g, d, "p", t), at)
  elseif choice == 3 then
    local y = g:name "v"
    out = ("local %s, %s = ty.value_and_grad(function(o, p) %s end, 2)(nil, %s)"):format(y, name,
      loss_function(g, d, "p", t), at)
    g:declare(y, "T:s")
  elseif choice == 4 then
    out = ("local %s = ty.grad(function(q) local p = q.k[1] %s end)({ k = { %s }, n = 2 }).k[1]"):format(name,
      loss_function(g, d, "p", t), at)
  else
    local inner = loss_function(g, d, "p", t)
    out = ("local %s = ty.grad(function(q) return (ty.grad(function(p) %s end)(q) * q):sum() end)(%s)"):format(name, inner, at)
  end
  g:declare(name, t)
  return { out }
end

--- A step of learning on the leaves u_p and u_c: what is forgotten before, the loss, the backward pass, what is done then.
function make.learn(g, d)
  local node = { "do" }
  local body = {}
  if g:chance(60) then body[1] = "u_p.grad, u_c.grad = nil, nil" end
  local e = g:scoped(function()
    g:declare("u_p", "T:nn", { fixed = true })
    g:declare("u_c", "T:n", { fixed = true })
    return ("((%s):matmul(u_p) + u_c):%s()"):format(g:T("mn", d), g:pick { "tanh", "relu", "square", "softmax", "abs" })
  end)
  body[#body + 1] = ("local loss = (%s):mean()"):format(e)
  body[#body + 1] = "loss:backward()"
  if g:chance(60) then
    body[#body + 1] = ("ty.no_grad(function() u_p:sub_(u_p.grad * %s) u_c:sub_(u_c.grad * u_n) end)"):format(
      g:pick { "0.1", "0.5", "u_n" })
  end
  if g:chance(30) then body[#body + 1] = "ty.clip_grad_norm_({ u_p, u_c }, 0.5)" end
  if g:chance(30) then body[#body + 1] = "log(loss:detach(), u_p.grad)" end
  if g:chance(10) then body[#body + 1] = "u_c.grad = u_c.grad * 2" end
  node[2], node[3] = body, "end"
  return { node }
end

local weights = { local_value = 22, collect = 3, holes = 5, thin = 9, look = 4, closures = 2, sort = 3,
  several = 3, assign = 20, swap = 3, field = 4, append = 6, in_place = 7, record = 5, list = 4,
  instance = 3, instance_write = 2, say = 5, call = 8, branch = 10, numeric_for = 4, ipairs_loop = 5, pairs_loop = 3,
  iterator_loop = 2, while_loop = 3, goto_block = 2, closure = 3, protected = 3, fail = 2, leave = 2, wild = 3,
  thread = 1, thread_loop = 1, module = 1 }
local sorts = {}
for kind, w in pairs(weights) do
  for _ = 1, w do sorts[#sorts + 1] = kind end
end
table.sort(sorts)

local nested = { branch = true, numeric_for = true, ipairs_loop = true, iterator_loop = true, while_loop = true,
  goto_block = true, closure = true, protected = true, thread = true, thread_loop = true }

--- A list of n statements, at most d deep, in a scope of its own.
function G:block(d, n)
  return self:scoped(function() return self:statements(d, n) end)
end

function G:statements(d, n)
  local out = {}
  self.depth = self.depth + 1
  for _ = 1, n do
    local kind = self.learns and self:chance(25) and self:pick { "gradient", "learn" }
      or self.breaks and self:chance(30) and "breaks" or self:pick(sorts)
    if d > 0 or not nested[kind] then
      if self.size <= 0 then break end
      self.size = self.size - 1
      for _, node in ipairs(make[kind](self, nested[kind] and d or 2) or {}) do out[#out + 1] = node end
    end
  end
  self.depth = self.depth - 1
  return out
end

--- A list of results: values of all sorts, tables of them, arguments, the rest arguments.
function G:results()
  local out = {}
  local function value(d)
    local choice = self.r(d > 0 and 16 or 9)
    if choice <= 3 then return self:T(self:pick { "mn", "n", "s" }, 2) end
    if choice <= 5 then return self:N(2) end
    if choice == 6 then return self:S(1) end
    if choice == 7 then return self:B(1) end
    if choice == 8 then return self:pick { "nil", "x", "u_x", "W.o.x", "u_o", self:place "O" or "nil" } end
    if choice == 9 then return self:place(self:pick { "T:mn", "T:n", "L", "K", "Q", "O", "H", "H" }) or "false" end
    if choice <= 11 then return ("{ a = %s, %s, b = %s }"):format(value(d - 1), value(d - 1), value(d - 1)) end
    if choice == 12 then return ("{ %s, %s, { %s } }"):format(value(d - 1), value(d - 1), value(d - 1)) end
    if choice == 14 then return ("{ %s }"):format(table.concat(parts_of(self, 1), ", ")) end
    if choice == 15 then return ("{ %s, nil, %s }"):format(value(d - 1), value(d - 1)) end
    if choice == 13 then return ("setmetatable({ v = %s }, Num)"):format(self:N(1)) end
    return (self:place "T:mn" or "u_x") .. self:pick { "[1]", ":t()", ":reshape(-1)", "[{ {}, { 1 } }]" }
  end
  for i = 1, self.r(4) - (self:chance(5) and 1 or 0) do out[i] = value(2) end
  if self.vararg and self:chance(15) then out[#out + 1] = "..." end
  if self:chance(8) then out[#out + 1] = ("unpack(%s)"):format(self:place "H" or "u_h") end
  return table.concat(out, ", ")
end

-- --- functions

--- A function: its parameters by type, some statements, what it returns. how: params = {names}, rest = has `...`, last = its
--- last line.
function G:define(name, takes, gives, n, d, how)
  local params = {}
  local node = self:scoped(function()
    self.vararg = how and how.rest or false
    for i, t in ipairs(takes) do
      params[i] = how and how.params and how.params[i] or "p" .. i
      self:declare(params[i], t, t == "O" and { fields = M.OBJECT, class = true } or nil)
    end
    local list = table.concat(params, ", ")
    if self.vararg then list = list == "" and "..." or list .. ", ..." end
    local body = self:statements(d, n)
    if how and how.last then
      body[#body + 1] = how.last
    else
      local results = {}
      for i, t in ipairs(gives) do results[i] = self:expression(t, 2) end
      body[#body + 1] = "do return " .. table.concat(results, ", ") .. " end"
    end
    self.vararg = false
    return { ("%sfunction %s(%s)"):format(name:find "[%.:]" and "" or "local ", name, list), body, "end" }
  end)
  return node
end

--- A function as an argument: a helper, or one made on the spot.
function G:argument_function()
  local known = {}
  for _, v in ipairs(self.vars) do
    if v.t == "F" and v.takes[1] == "T:mn" and v.gives[1] == "T:mn" and v.takes[2] ~= "I" then known[#known + 1] = v.name end
  end
  if #known > 0 and self:chance(60) then return self:pick(known) end
  return ("function(p, a) return p %s a + %s end"):format(self:pick { "+", "-", "*" }, self:N(0))
end

--- A generator for a seed.
function M.new(seed)
  return setmetatable({ r = frame.random(seed, 7), vars = {}, count = 0, depth = 0, calls = 2, size = 10, vararg = false }, G)
end

return M
