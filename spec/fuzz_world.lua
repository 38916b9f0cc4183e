-- Whole random programs: a world, functions over it, and steps that change it between calls.
-- In: a seed. Out: a tree of source (fuzz_function.lua says what a node is), and its text.
--
-- A program is one chunk that holds everything: an outside world (tables, lists, tensors, metatables, globals, upvalues),
-- helpers, `main`, which is the function under test, and `steps`: functions that change the world and return the
-- arguments of the next call. Two loads of one text are two equal worlds. Half of the steps change nothing, so that what
-- was captured is met again. In two programs of five nearly every step gives most tensors another number of rows instead,
-- in every third one nearly every step changes small whole numbers, which are positions and bounds.
-- Each eighth program learns: it asks for gradients, of arguments and of leaves. Each eighth one breaks: it reads and says
-- what no trace holds.

local F = dofile((debug.getinfo(1, "S").source:match "^@(.*)[/\\][^/\\]*$" or ".") .. "/fuzz_function.lua")
local OBJECT, NUMBERS, STRINGS = F.OBJECT, F.NUMBERS, F.STRINGS

if jit.off then jit.off(true, true) end -- much code, none of it hot

local M = {}

-- --- the parts of a program

local function outside(g)
  local out = {
    "local ty, C, say, mode, fresh = ...",
    ("local M, N = %d, %d"):format(g.m, g.n),
    "local LOG = {}",
    { "local function log(...)", { "LOG[#LOG + 1] = { select('#', ...), ... }" }, "end" },
    ("local u_n, u_i, u_s, u_b = %s, %d, %s, %s"):format(g:pick(NUMBERS), g.r(3), g:pick(STRINGS), g:pick { "true", "false" }),
    "local u_x, u_v, u_w, u_o, u_l, u_k, u_q, u_h" .. (g.learns and ", u_p, u_c" or ""),
    "local Class, Num, Lazy = {}, {}, {}",
    "local W = { flat = { 1, 2, a = 3 } }",
    { "local function object(seed)", { "return { n = seed / 4, m = 2, i = seed % 3 + 1, s = 'o' .. seed, flag = seed % 2 == 0,",
      "w = fresh(seed, N, N), b = fresh(seed + 1, N), x = fresh(seed + 2, M, N), l = { 1, 2.5, seed },",
      "k = { fresh(seed, M, N), fresh(seed + 3, M, N) }, sub = { n = seed, b = fresh(seed + 4, N), s = 'sub', flag = true } }" },
      "end" },
    { "local function build()", {
      ("W.o, W.p = setmetatable(object(1), %s), setmetatable(object(2), %s)"):format(g:chance(92) and "Class" or "nil",
        g:chance(85) and "Class" or "nil"),
      "W.l, W.k, W.x = { 3, 1, 2 }, { fresh(5, M, N), fresh(6, M, N) }, fresh(7, M, N)",
      "u_x, u_v, u_w, u_o = fresh(8, M, N), fresh(9, N), fresh(10, N, N), W.p",
      "u_l, u_k = { 4, 5 }, { fresh(11, M, N) }",
      "u_h, W.h = { nil, 2, a = 1 }, { 1, 2, 3, 4, 5, b = 2, d = 3 }",
      g.learns and "u_p, u_c = fresh(13, N, N):requires_grad_(), fresh(14, N):requires_grad_()" or "" }, "end" },
    "build()",
    { "local function resize(m)", { "M = m",
      "for _, o in ipairs { W.o, W.p } do o.x, o.k = fresh(2, M, N), { fresh(m, M, N), fresh(3, M, N) } end",
      "W.k, W.x, u_k = { fresh(5, M, N), fresh(6, M, N) }, fresh(7, M, N), { fresh(11, M, N) }",
      "u_x, G_x = fresh(8, M, N), fresh(12, M, N)" }, "end" },
  }
  return out
end

local VEC = { "+", "-", "*" }

-- Metatables: a class of objects, numbers with every metamethod, a table whose fields are computed.
local function classes(g)
  local function arith(event, op)
    return ("Num.__%s = function(p, q) return new_num((type(p) == 'table' and p.v or p) %s (type(q) == 'table' and q.v or q)) end")
      :format(event, op)
  end
  return {
    "Class.__index = Class",
    { "local function new_num(v)", { "return setmetatable({ v = v }, Num)" }, "end" },
    arith("add", g:pick(VEC)), arith("mul", "*"), arith("sub", "-"), arith("div", "/"),
    "Num.__unm = function(p) return new_num(-p.v) end",
    "Num.__call = function(self, a) return self.v " .. g:pick(VEC) .. " a end",
    "Num.__eq = function(p, q) return p.v == q.v end",
    "Num.__lt = function(p, q) return p.v < q.v end",
    "Num.__le = function(p, q) return p.v <= q.v end",
    "Num.__concat = function(p, q) return type(p) == type(q) and 'both' or 'one' end",
    "Num.twice = function(self) return self.v * 2 end",
    g:pick { "Num.__index = Num Num.missing = 5", "Num.__index = function(t, k) return Num[k] or #k end",
      "Num.__index = setmetatable({ missing = 2 }, { __index = Num })" },
    g:pick { "", "Num.__newindex = function(t, k, v) rawset(t, k, v) u_n = u_n + 1 end", "Num.__newindex = W.flat" },
    "Lazy.__index = function(t, k) return #k end",
    g:pick { "Lazy.__newindex = function(t, k, v) rawset(t, k, v + 1) end", "" },
    "W.z = setmetatable({}, Lazy)",
    "u_q, W.q = new_num(3), new_num(4)",
    { "local function each(l, i)", { "i = i + 1", "if l[i] ~= nil then return i, l[i] end" }, "end" },
    { "local function count_to(n)", { "local i = 0", "return function() i = i + 1 if i <= n then return i end end" }, "end" },
  }
end

local HELPERS = {
  { name = "h_num", takes = { "N", "I" }, gives = { "N" } },
  { name = "h_ten", takes = { "T:mn", "N" }, gives = { "T:mn" } },
  { name = "h_two", takes = { "T:mn", "N" }, gives = { "T:mn", "N" } },
  { name = "h_rest", takes = { "N" }, gives = { "N" }, rest = true },
  { name = "h_obj", takes = { "O", "N" }, gives = { "N" } },
  { name = "h_row", takes = { "T:n" }, gives = { "T:n" } },
}

-- What main may see of the outside.
local function declare_outside(g)
  g:declare("u_n", "N")
  g:declare("G_n", "N")
  g:declare("u_i", "I")
  g:declare("u_s", "S")
  g:declare("G_s", "S")
  g:declare("u_b", "B")
  g:declare("u_x", "T:mn")
  g:declare("G_x", "T:mn")
  g:declare("u_v", "T:n")
  g:declare("u_w", "T:nn")
  g:declare("u_l", "L")
  g:declare("u_k", "K", { fixed = true })
  g:declare("u_h", "H", { fixed = true })
  g:declare("W.h", "H", { fixed = true })
  g:declare("u_o", "O", { fields = OBJECT, class = true })
  g:declare("W.o", "O", { fields = OBJECT, class = true })
  g:declare("W.p", "O", { fields = OBJECT, class = true, fixed = true })
  g:declare("W.x", "T:mn")
  g:declare("W.l", "L")
  g:declare("W.k", "K", { fixed = true })
  g:declare("u_q", "Q", { fixed = true })
  g:declare("W.q", "Q", { fixed = true })
end

local function helpers(g, out)
  for _, h in ipairs(HELPERS) do
    if g:chance(45) then
      g.calls, g.size = 2, 8
      out[#out + 1] = g:define(h.name, h.takes, h.gives, g.r(3), 1, { rest = h.rest })
      if g:chance(10) then out[#out + 1] = ("%s = C(%s)"):format(h.name, h.name) end
      g:declare(h.name, "F", { takes = h.takes, gives = h.gives, rest = h.rest })
    end
  end
  if g:chance(30) then
    out[#out + 1] = { "local function h_rec(p, d)", { "if d <= 0 then return p end",
      ("return h_rec(p %s, d - 1) + %s"):format(g:pick { "* 0.5", "+ 1", ":tanh()" }, g:pick { "p", "1", "d" }) }, "end" }
    g:declare("h_rec", "F", { takes = { "T:mn", "I" }, gives = { "T:mn" } })
  end
  if g:chance(30) then
    out[#out + 1] = { "local function h_map(f, p, a)", { "return f(f(p, a), a + 1)" }, "end" }
    g:declare("h_map", "F", { takes = { "F:ten", "T:mn", "N" }, gives = { "T:mn" } })
  end
  g.calls, g.size = 2, 6
  out[#out + 1] = g:define("Class.get", { "O", "N" }, { "N" }, g.r(2), 0, { params = { "self", "a" } })
  out[#out + 1] = g:define("Class.forward", { "O", "T:mn" }, { "T:mn" }, g.r(2), 0, { params = { "self", "p" },
    last = g:chance(50) and "do return p:matmul(self.w) + self.b end" or nil })
  out[#out + 1] = g:define("Class.bump", { "O", "N" }, { "N" }, g.r(2), 0, { params = { "self", "a" } })
end

-- --- the steps between calls

local function change(g)
  local r = g.r
  local o = g:pick { "W.o", "W.o", "W.p", "u_o" }
  local tensor_place = g:pick { "u_x", o .. ".x", o .. ".w", o .. ".b", "u_v", "u_w", "G_x", "W.x", o .. ".k[1]", o .. ".sub.b" }
  local number_place = g:pick { "u_n", o .. ".n", o .. ".m", "G_n", o .. ".sub.n", o .. ".l[1]", "u_l[2]", o .. ".opt" }
  local c, choice = g:pick(NUMBERS), r(38)
  if choice <= 5 then return ("%s = %s"):format(number_place, c) end
  if choice <= 7 then return ("%s = %s:clone() * 2"):format(tensor_place, tensor_place) end
  if choice <= 9 then return ("%s:%s"):format(tensor_place, g:pick { "mul_(0.5)", "add_(1)", "fill_(2)", "neg_()" }) end
  if choice == 10 then return ("%s = %s:to('f64')"):format(tensor_place, tensor_place) end
  if choice == 11 then return ("%s = %s:to('f32')"):format(tensor_place, tensor_place) end
  if choice == 12 then return ("%s.x = %s.x:t():contiguous():t()"):format(o, o) end
  if choice == 13 then return ("%s.b = %s.x[1]"):format(o, g:pick { o, "W.p" }) end
  if choice == 14 then return ("u_x = %s"):format(g:pick { "W.x", "W.o.x", "G_x", "W.k[1]" }) end
  if choice == 15 then return ("%s = %s"):format(g:pick { "u_s", o .. ".s", "G_s", o .. ".sub.s" }, g:pick(STRINGS)) end
  if choice == 16 then return g:pick { "u_b = not u_b", o .. ".flag = not " .. o .. ".flag", o .. ".flag = nil" } end
  if choice == 17 then return g:pick { "u_l[#u_l + 1] = %s", "W.l[#W.l + 1] = %s", o .. ".l[#" .. o .. ".l + 1] = %s" }:format(c) end
  if choice == 18 then return ("table.remove(%s)"):format(g:pick { "u_l", "W.l", o .. ".l", "u_k" }) end
  if choice == 19 then return ("%s[#%s + 1] = fresh(%d, M, N)"):gsub("%%s", function() return g.list end):format(r(20)) end
  if choice == 20 then return ("%s.%s = %s"):format(o, g:pick { "opt", "zz", "extra" }, g:pick { "nil", c }) end
  if choice == 21 then return ("%s.sub = { n = %s.sub.n, b = %s.sub.b, s = %s.sub.s, flag = true }"):format(o, o, o, o) end
  if choice == 22 then return g:pick { "W.o.sub = W.p.sub", "W.o, W.p = W.p, W.o", "u_o = W.o", "u_o = W.p", "u_l = W.l", "W.l = u_l" } end
  if choice == 23 then return ("Class.get = function(self, a) return self.m + a * %s end"):format(c) end
  if choice == 24 then
    return g:pick { "%s.get = function(self, a) return a end", "%s.get = nil", "%s.forward = function(self, p) return p * 2 end" }
      :format(o)
  end
  if choice == 25 then
    return ("setmetatable(%s, %s)"):format(o, g:pick { "{ __index = Class }", "Class", "{ __index = function(t, k) return Class[k] end }",
      g:chance(20) and "nil" or "Class" })
  end
  if choice == 26 then return ("Num.__%s = function(p, q) return new_num(%s) end"):format(g:pick { "add", "mul" }, c) end
  if choice == 27 then return ("M = %d build()"):format(r(5)) end
  if choice == 28 and g:chance(40) then return ("%s = %s"):format(number_place, g:pick { "'7'", "nil", "{}", "true" }) end
  if choice == 29 then return ("W.flat[%s] = %s"):format(g:pick { "'b'", "3", "#W.flat", "'a'" }, g:pick { c, "nil" }) end
  if choice == 30 then
    return g:pick { "u_q.v = %s", "W.q.v = %s", "u_q = W.q", "W.q = new_num(%s)", "W.z.a = %s", "u_q.v = u_x:sum()" }:format(c)
  end
  if choice == 31 and #g.functions > 0 then
    local f = g:pick(g.functions)
    if f == "h_ten" or f == "h_two" then return ("%s = function(p, a) return p * 2 - a, 1 end"):format(f) end
    if f == "h_num" then return "h_num = function(p, a) return p - a end" end
  end
  if choice == 32 and g:chance(30) then return "setfenv(main, setmetatable({ G_n = 9 }, { __index = getfenv(main) }))" end
  if choice == 34 then return "collectgarbage()" end
  if choice == 38 then
    return "modules['fuzz.module']" .. g:pick { ".n = " .. c, ".f = function(v) return v * 2 end",
      " = { n = 1, f = function(v) return v - 1 end }", g:chance(30) and " = nil" or ".n = 4" }
  end
  if choice >= 35 then
    local key = g:pick { "1", "2", "4", "6", "'a'", "'b'", "'q'" }
    return (g:pick { "H[K] = nil", "H[K] = 4", "H[K] = nil", "for i = 1, 9 do H[i] = i end for i = 2, 7 do H[i] = nil end",
      "u_h, W.h = { 3, nil, 5 }, { a = 1, b = 2, c = 3 }" }:gsub("[HK]", { H = g:pick { "u_h", "W.h" }, K = key }))
  end
  if choice == 33 then return "if prev and ty.is_tensor(prev[2]) then prev[2]:fill_(1) end" end
  return nil
end

-- What happens to leaves between calls.
local function change_leaf(g)
  return g:pick { "u_p.grad, u_c.grad = nil, nil", "u_p.grad = nil", "u_p.grad = fresh(3, N, N)", "u_c.grad = fresh(4, N)",
    "u_p = fresh(5, N, N):requires_grad_()", "u_c = fresh(6, N):requires_grad_()", "u_p:requires_grad_(not u_p.requires_grad)",
    "ty.no_grad(function() u_p:mul_(0.5) end)", "u_p = u_p:detach():t():requires_grad_()", "do local y = u_p * u_c y:sum():backward() end" }
end

-- Ways to an argument of a type, the usual first.
local function argument(g, t)
  if t == "N" then return g:pick(NUMBERS) end
  if t == "I" then return tostring(g.r(4) - 1) end
  if t == "S" then return g:pick(STRINGS) end
  if t == "L" then return g:pick { "W.l", "u_l", "{ 1, 2, 3 }", "{ 1, 2, 3 }", "{}", "W.o.l" } end
  if t == "O" then return g:pick { "W.o", "W.o", "W.p", "u_o", "setmetatable(object(3), Class)",
    "setmetatable(object(4), Class)", g:chance(20) and "object(5)" or "W.o" } end
  if t == "T:n" then return g:pick { "fresh(3, N)", "u_v", "W.o.b", "W.x[1]", "u_x[1]", "fresh(3, 1):expand(N)" } end
  return g:pick { "fresh(1, M, N)", "fresh(2, M, N)", "fresh(2, M, N)", "W.x", "u_x", "W.o.x", "fresh(4, N, M):t()", "W.k[1]",
    "W.x[{ { 1, -1 } }]", "fresh(1, M, N):to('f64')", "fresh(2, 2 * M, N)[{ { 1, -1, 2 } }]", "feed(prev, fresh(1, M, N))" }
end

local function steps(g, takes, rest, out)
  local args, extra = {}, {}
  for i, t in ipairs(takes) do args[i] = argument(g, t) end
  if rest then
    for i = 1, g.r(4) - 1 do extra[i] = g:chance(20) and "nil" or g:N(0) end
  end
  local r = g.r
  local calls = ((g.sizes or g.bounds) and 8 or 4) + r(4)
  for k = 1, calls do
    local body = {}
    g.list = g:pick { "u_k", "W.k", "W.o.k" }
    if k > 1 and g.sizes then
      local rows = r(9) - (g:chance(12) and 1 or 0)
      body[1] = g:pick { "resize(%d)", "resize(%d)", "resize(%d)", "M = %d build()", "-- as it was, not %d" }:format(rows)
    end
    if k > 1 and g.bounds and g:chance(80) then
      body[#body + 1] = ("%s = %d"):format(g:pick { "u_i", "W.o.i", "W.p.i", "u_o.i", "u_n", "W.o.n", "W.p.m", "W.o.l[1]" }, r(6))
    end
    if k > 1 and g:chance(g.sizes and 15 or g.bounds and 25 or 50) then
      for _ = 1, g.r(2) do body[#body + 1] = change(g) end
    end
    if k > 1 and g.learns and g:chance(30) then body[#body + 1] = change_leaf(g) end
    for i, t in ipairs(takes) do
      if g:chance((t == "N" or t == "I" and g.bounds) and 60 or 14) then args[i] = argument(g, t) end
    end
    if rest and g:chance(15) then
      extra = {}
      for i = 1, g.r(4) - 1 do extra[i] = g:chance(20) and "nil" or g:pick(NUMBERS) end
    end
    local all = {}
    for i, a in ipairs(args) do all[i] = a end
    for _, a in ipairs(extra) do all[#all + 1] = a end
    if g:chance(3) then all[g.r(#all)] = g:pick { "nil", "'text'", "true" } end
    if g:chance(3) then all[#all] = nil end
    if g:chance(4) then body[#body + 1] = "mode.thread = true" end
    body[#body + 1] = "do return " .. table.concat(all, ", ") .. " end"
    out[#out + 1] = { "steps[#steps + 1] = function(prev)", body, "end" }
  end
end

--- The program of a seed: a tree.
function M.make(seed)
  local g = F.new(seed)
  local r = g.r
  g.m, g.n, g.wild, g.sizes = r(4), r(4), r(100) <= 60, r(100) <= 40
  g.bounds = r(100) <= 33
  g.learns, g.breaks = seed % 8 == 0, seed % 8 == 4
  if g.breaks then g.wild = false end
  local out = outside(g)
  for _, node in ipairs(classes(g)) do out[#out + 1] = node end
  out[#out + 1] = "G_n, G_s, G_x = 1.5, 'global', fresh(12, M, N)"
  declare_outside(g)
  g.functions = {}
  helpers(g, out)
  for _, v in ipairs(g.vars) do
    if v.t == "F" then g.functions[#g.functions + 1] = v.name end
  end
  local takes, params = { "T:mn", "O", "N" }, { "x", "o", "a" }
  for _, extra in ipairs { { "T:mn", "y" }, { "I", "i" }, { "L", "l" }, { "S", "s" }, { "T:n", "v" } } do
    if g:chance(30) then
      takes[#takes + 1], params[#params + 1] = extra[1], extra[2]
    end
  end
  local rest = g:chance(30)
  g.calls, g.size, g.depth, g.methods = 4, 8 + r(18), -1, true
  out[#out + 1] = g:scoped(function()
    g.vararg = rest
    for i, t in ipairs(takes) do
      g:declare(params[i], t, t == "O" and { fields = OBJECT, class = true } or nil)
    end
    local list = table.concat(params, ", ") .. (rest and ", ..." or "")
    local body = g:statements(2, 4 + r(8))
    body[#body + 1] = "do return " .. (g:chance(12) and g:call("T:mn", 1) or g:results()) .. " end"
    g.vararg = false
    return { ("local function main(%s)"):format(list), body, "end" }
  end)
  out[#out + 1] = { "local function feed(prev, other)", { "if prev and ty.is_tensor(prev[2]) and prev[2].ndim == 2 then return prev[2] end",
    "return other" }, "end" }
  out[#out + 1] = "local steps = {}"
  steps(g, takes, rest, out)
  local seen = "return W, u_n, u_i, u_s, u_b, u_x, u_v, u_w, u_o, u_l, u_k, u_q, u_h, G_n, G_s, G_x, LOG"
  out[#out + 1] = { "local function roots()", { seen .. (g.learns and ", u_p, u_c" or "") }, "end" }
  out[#out + 1] = "return main, steps, roots, LOG"
  return out
end

--- The source text of a tree.
function M.render(tree)
  local out = {}
  local function walk(nodes, indent)
    for _, node in ipairs(nodes) do
      if type(node) == "string" then
        if node ~= "" then out[#out + 1] = indent .. node end
      else
        for _, part in ipairs(node) do
          if type(part) == "string" then out[#out + 1] = indent .. part else walk(part, indent .. "  ") end
        end
      end
    end
  end
  walk(tree, "")
  return table.concat(out, "\n") .. "\n"
end

--- All places of a tree as {list, node}, inner ones after what holds them: taking the node out of the list gives a smaller program.
function M.places(tree)
  local places = {}
  local function walk(nodes)
    for i = #nodes, 1, -1 do
      local node = nodes[i]
      places[#places + 1] = { nodes, node }
      if type(node) == "table" then
        for _, part in ipairs(node) do
          if type(part) == "table" then walk(part) end
        end
      end
    end
  end
  walk(tree)
  return places
end

-- --- a program is loaded

local libraries = { "math", "string", "table", "bit", "coroutine", "debug", "type", "tostring", "tonumber", "pairs", "ipairs",
  "next", "select", "pcall", "error", "rawget", "rawset", "rawequal", "setmetatable", "getmetatable", "unpack", "assert",
  "collectgarbage", "loadstring", "getfenv", "setfenv", "require" }

-- A C function that nothing knows: what it is given goes to a list.
local function recorder(list)
  return coroutine.wrap(function(...)
    local v = ...
    while true do
      local text = tostring(v)
      if type(v) == "table" or type(v) == "function" then text = text:gsub("0x%x+", "") end -- each run has others
      list[#list + 1] = v ~= v and "nan" or ("%.17g %s"):format(tonumber(v) or 0, text)
      v = coroutine.yield()
    end
  end)
end

-- Current LuaJITs place strings in tables by the order in which the strings were made. Those that a plain run shows are
-- kept until the next one: where they were collected, the compiled run's tables would lie otherwise.
M.kept = {}

local function keep(v, seen)
  if type(v) == "string" then M.kept[v] = true end
  if type(v) ~= "table" or seen[v] then return end
  seen[v] = true
  for k, e in next, v do
    keep(k, seen)
    keep(e, seen)
  end
  keep(getmetatable(v), seen)
end

function M.keep(...)
  local seen = {}
  for i = 1, select("#", ...) do keep((select(i, ...)), seen) end
end

--- Loads a program over a world of its own: what its chunk gives, what `say` heard, and the table whose field `thread`
--- asks for a coroutine. The random state is that of each load.
function M.load(ty, text, compiled)
  local chunk, env, said, mode = assert(loadstring(text, "=program")), { ty = ty }, {}, {}
  for _, name in ipairs(libraries) do env[name] = _G[name] end
  env.modules = package.loaded
  env.modules["fuzz.module"] = { n = 2.5, f = function(v) return v + 0.5 end }
  setfenv(chunk, env)
  if jit.off then jit.off(chunk, true) end -- LuaJIT 2.1.0-beta3 miscompiles `(...)` in some traces
  --- A small tensor of quarters that depends on the seed alone.
  local function fresh(seed, ...)
    local n, data = 1, {}
    for i = 1, select("#", ...) do n = n * select(i, ...) end
    for i = 1, n do data[i] = ((seed * 37 + i * 53) % 29 - 14) / 4 end
    return ty.tensor(data):reshape(...)
  end
  ty.manual_seed(7)
  math.randomseed(7)
  local main, calls, roots, log = chunk(ty, compiled and ty.compile or function(f) return f end, recorder(said), mode, fresh)
  assert(type(main) == "function", "no program: what is left after shrinking has no main")
  if not compiled then
    M.kept = { main, calls, roots }
  end
  return main, calls, roots, log, said, mode
end

return M
