-- Random functions of tensors whose sizes change from call to call, compiled against plain: what one plan gives for a
-- range of sizes is what a call gives at each of them.
--   luajit spec/fuzz_sizes.lua [programs = 2000] [seed = another each time] [only this program]
-- A program slices, reshapes, multiplies, reduces, writes, branches by sizes and counts with them. It is called with
-- sizes on a line, so that ranges come to be, and then with others in mixed order: at some of them dims that differ
-- elsewhere are equal, and at some the program raises.

local ty = require "tycho"
jit.log = false -- programs raise, and are not captured then

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")
local describe = dofile(here .. "/fuzz_program.lua").describe

local WIDTH = 24 -- which rows are as many as, at one of the sizes
local counts = { ranges = 0, calls = 0, raised = 0, served = 0 }

local function pick(r, list) return list[r(#list)] end

-- --- making: a program is a list of statements, each a line

local names = { "a", "b", "c", "d" }

local statement = {
  binary = function(r) return ("%s = %s %s %s"):format(pick(r, names), pick(r, names), pick(r, { "+", "-", "*" }), pick(r, names)) end,
  scaled = function(r)
    return ("%s = %s %s %s"):format(pick(r, names), pick(r, names), pick(r, { "+", "*", "/" }),
      pick(r, { "#a", "#b", "(1 / #c)", "math.sqrt(#a)", "k", "(2 * #b)", "c:numel()", "math.floor(#a / 2)", "(#d - 7)", "(#b % 3)" }))
  end,
  unary = function(r)
    return ("%s = %s:%s()"):format(pick(r, names), pick(r, names), pick(r, { "relu", "tanh", "neg", "abs", "t", "contiguous",
      "flatten", "clone", "sin", "sum", "mean", "detach", "layer_norm", "amax", "std" }))
  end,
  along = function(r)
    return ("%s = %s:%s(%s)"):format(pick(r, names), pick(r, names), pick(r, { "sum", "mean", "amax", "cumsum", "softmax", "argmax",
      "argsort", "flip", "unsqueeze", "std", "norm" }), pick(r, { "1", "2", "-1" }))
  end,
  kept = function(r) return ("%s = %s:sum(%d, true)"):format(pick(r, names), pick(r, names), r(2)) end,
  slice = function(r)
    return ("%s = %s[{ { %s } }]"):format(pick(r, names), pick(r, names), pick(r, { "1, #a - 1", "2, -1", "1, math.floor(#a / 2)",
      "1, k", "k, -1", "1, -1, 2", "1, 9", "1, #b", "-5, -1", "1, math.min(#a, 30)" }))
  end,
  row = function(r)
    return ("%s = %s[%s]"):format(pick(r, names), pick(r, names), pick(r, { "1", "-1", "#a", "k", "{ {}, 1 }", "{ {}, { 2, 9 } }" }))
  end,
  shape = function(r)
    return ("%s = %s:%s"):format(pick(r, names), pick(r, names), pick(r, { "reshape(-1)", "reshape(#a, -1)", "reshape(-1, #b)",
      "reshape(1, -1)", "reshape(-1, 2)", "transpose(1, -1)", "unsqueeze(1)", "squeeze()", "expand(3, -1, -1)", "reshape(-1, 24)",
      "tile(2, 1)", "repeat_interleave(2, 1)", "roll(1, 1)", "roll(k, 1)", "reshape(24, -1)", "t():reshape(#a, -1)",
      "t():reshape(-1)", "unfold(1, 5, 2)", "t():contiguous()", "expand(#b, -1)" }))
  end,
  product = function(r)
    return ("%s = %s:matmul(%s)"):format(pick(r, names), pick(r, names), pick(r, { "w", "w", "a:t()", "b:t()", "c:t()", "b", "d" }))
  end,
  turned = function(r) return ("%s = %s:t():matmul(%s)"):format(pick(r, names), pick(r, names), pick(r, names)) end,
  joined = function(r) return ("%s = ty.cat({ %s, %s }, %d)"):format(pick(r, names), pick(r, names), pick(r, names), r(2)) end,
  stacked = function(r) return ("%s = ty.stack { %s, %s }"):format(pick(r, names), pick(r, names), pick(r, names)) end,
  rows = function(r)
    return ("%s = %s%s"):format(pick(r, names), pick(r, names), pick(r, { "[i]", ":index_select(1, i)", ":gather(1, i:unsqueeze(2))",
      ":index_select(1, j)", ":index_add(1, i, b)", ":take(i)" }))
  end,
  created = function(r)
    return ("%s = %s"):format(pick(r, names), pick(r, { "ty.arange(#a)", "ty.zeros(#b, 24)", "ty.randn(#a, 24)", "ty.eye(#a)",
      "ty.full({ #a }, #a)", "ty.linspace(0, 1, #a)", "ty.rand(k, 24)", "ty.arange(#a * 24):reshape(#a, 24)", "ty.ones(k)" }))
  end,
  written = function(r)
    return pick(r, { "o[{ { 1, #a } }] = a", "o:narrow(1, k, 3):mul_(2)", "a:add_(1)", "b:mul_(0.5)", "o[k] = c:sum()",
      "o:narrow(1, 1, #b):copy_(b)", "c[1] = 3", "o[{ { #a, -1 } }] = 0" })
  end,
  read = function(r)
    return ("%s = o%s"):format(pick(r, names), pick(r, { "[{ { 1, #a } }]", ":narrow(1, 1, k)", "[{ { k, #a } }]", ":narrow(1, k, 2)" }))
  end,
  branch = function(r)
    return ("if %s then %s = %s * 2 end"):format(pick(r, { "#a > 30", "#a == 33", "#a % 2 == 0", "#b < 24", "#a ~= 24", "k > 20",
      "#a == k", "#a * #a > 1000", "#c == #d", "a.shape[1] == c.shape[1]", "#b >= 2 * #d" }), pick(r, names), pick(r, names))
  end,
  number = function(r)
    return ("s = s + %s"):format(pick(r, { "#a", "#b * 2", "c:numel()", "#a / 3", "k", "d:stride(1)", "math.max(#a, 31)" }))
  end,
  gradient = function(r)
    return ("%s = ty.grad(function(q) return (q * q * %s):sum() end)(%s)")
      :format(pick(r, names), pick(r, { "2", "q", "#a" }), pick(r, names))
  end,
  pooled = function(r)
    return ("%s = ty.%s(a:t():unsqueeze(1), %s)"):format(pick(r, names), pick(r, { "max_pool1d", "avg_pool1d" }), pick(r, { "2", "3" }))
  end,
  divided = function(r) -- by what follows from a size: on no line, though it may look like one
    return ("%s = %s"):format(pick(r, names), pick(r, { "o:slice(1, 1, -1, k)", "o[{ { 1, #a, k } }]", "o:chunk(k)[1]", "o:split(k)[2]",
      "ty.max_pool1d(a:t():unsqueeze(1), k)", "ty.arange(0, #a, 0.7)", "ty.range(k, #a * 2, 0.3)", "o:unfold(1, 5, k):sum(3)" }))
  end,
  narrowed = function(r)
    return ("%s = %s:to '%s'"):format(pick(r, names), pick(r, names), pick(r, { "f64", "i64", "bf16", "f32", "f32" }))
  end,
  scan = function(r)
    return ("_, %s = ty.scan(function(h, x) h = (h + x) * 0.5 return h, h end, v, %s)"):format(pick(r, names), pick(r, names))
  end,
}
local sorts = {}
for name in pairs(statement) do
  if name ~= "divided" then sorts[#sorts + 1] = name end -- which mostly leaves a function without ranges: in some alone
end
table.sort(sorts)

local function text_of(program)
  local out = { "local ty, w, v, o = ...", "return function(a, b, i, j, k)", "local c, d, s, _ = a, b, 0, nil" }
  for _, line in ipairs(program) do out[#out + 1] = line end
  out[#out + 1] = "return a, b, c, d, s"
  out[#out + 1] = "end"
  return table.concat(out, "\n")
end

-- --- running

local function matrix(rows, columns, seed)
  return ((ty.arange(rows * columns, { dtype = "f64" }) * 0.37 + seed):sin() * 2):to("f32"):reshape(rows, columns)
end

--- The arguments of a call with n rows; how: by which the second tensor and the number go along.
local function arguments(n, how)
  local m = how == 1 and n or how == 2 and 60 - n or how == 3 and 2 * n or WIDTH
  local a, b = matrix(n, WIDTH, 1), matrix(m, WIDTH, 2)
  if how == 4 then a = matrix(WIDTH, n, 3):t() end
  local index = (ty.arange(n) * 7 % n + 1):to "i64"
  return a, b, index, (ty.arange(5) * 3 % n + 1):to "i64", how == 2 and 3 or n - 2
end

local function world(program)
  local o = matrix(64, WIDTH, 5)
  return assert(loadstring(text_of(program), "=program"))(ty, matrix(WIDTH, WIDTH, 4) * 0.1, matrix(1, WIDTH, 6)[1], o), o
end

local function outcome(f, o, n, how)
  ty.manual_seed(n)
  local out = {}
  local args = { arguments(n, how) }
  local results = { pcall(f, unpack(args)) }
  if not results[1] then
    counts.raised = counts.raised + 1
    out[1] = tostring(results[2]):gsub("^[^ ]*: ", "")
  end
  for k = 2, results[1] and 6 or 0 do out[#out + 1] = describe(ty, results[k]) end
  if results[1] then out[#out + 1] = describe(ty, args[1]) .. describe(ty, args[2]) .. describe(ty, o) end
  return table.concat(out, "; "), results[1]
end

--- Statements that raise at the first size are left out.
local function make(seed)
  local r = frame.random(seed, 1)
  local program = { how = r(5) }
  local divides = r(12) == 1
  for i = 1, 4 + r(9) do
    program[#program + 1] = statement[divides and i < 3 and "divided" or pick(r, sorts)](r)
    local f, o = world(program)
    local _, ok = outcome(f, o, 20, program.how)
    if not ok then program[#program] = nil end
  end
  program.sizes = {}
  for n = 20, 31 do program.sizes[n - 19] = n end
  for _ = 1, 14 do program.sizes[#program.sizes + 1] = 9 + r(38) end
  program.sizes[#program.sizes + 1] = WIDTH
  return program
end

local function check(program)
  local plain, plain_o = world(program)
  local f, o = world(program)
  f = ty.compile(f)
  for _, n in ipairs(program.sizes) do
    local want, got = outcome(plain, plain_o, n, program.how), outcome(f, o, n, program.how)
    counts.calls = counts.calls + 1
    if want ~= got then
      local at = 1
      while want:byte(at) == got:byte(at) do at = at + 1 end
      at = math.max(1, at - 60)
      return ("size %d\nplain    ..%s\ncompiled ..%s"):format(n, want:sub(at, at + 200), got:sub(at, at + 200))
    end
  end
  local e, ranged = ty.explain(f), false
  for _, t in ipairs(e.traces) do ranged = ranged or t.ranges > 0 end
  counts.ranges = counts.ranges + (ranged and 1 or 0)
  counts.served = counts.served + e.skips
end

local fuzz = frame.fuzzer("fuzz_sizes", 2000, { make = make, check = check,
  show = function(program) return ("-- how = %s\n%s"):format(tostring(program.how), text_of(program)) end })
fuzz:run(500)
fuzz:claim(fuzz.failures == 0, "%d programs differ at some size", fuzz.failures)
if fuzz:ran(100) then
  fuzz:claim(counts.ranges >= 0.1 * fuzz.programs, "%d programs of %d came to a range of sizes", counts.ranges, fuzz.programs)
  fuzz:claim(counts.raised <= 0.5 * counts.calls, "%d of %d calls raised", counts.raised / 2, counts.calls)
end
print(("fuzz_sizes: %d programs, seed %d, %.0f s: %d with ranges, %d calls, %d answered without Lua, %d raised"):format(fuzz.programs,
  fuzz.seed, fuzz:seconds(), counts.ranges, counts.calls, counts.served, counts.raised / 2))
fuzz:leave()
