-- Random functions of tensors whose sizes change from call to call: for fuzz_sizes.lua and fuzz_forward.lua.
-- In: a random function, how sizes go along with each other. Out: a program, a list of lines; its text; the arguments of a call
-- with n rows. A program slices, reshapes, multiplies, reduces, writes, branches by sizes and counts with them.

local M = {}
local ty = require "tycho"

M.WIDTH = 24 -- which rows are as many as, at one of the sizes
local WIDTH = M.WIDTH

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
  ruled = function(r) -- a function with a gradient of its own, which knows sizes
    return ("%s = %s"):format(pick(r, names), pick(r, { "ty.checkpoint(function(t) return (t * #a):tanh() end, %s)",
      "own(%s, #b)", "own(%s, 1 / #a)", "ty.checkpoint(function(t, n) return t * n + t:sin() end, %s, k)",
      "ty.checkpoint(function(t) return t:matmul(w) end, %s)" }):format(pick(r, names)))
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

--- A line at random; `divides`: by what follows from a size. `without`: sorts that are left out.
function M.line(r, divides, without)
  local sort
  repeat sort = divides and "divided" or pick(r, sorts) until not (without and without[sort])
  return statement[sort](r)
end

--- The program as a function of w, v and o that gives one of a, b, i, j and k.
function M.text(program)
  local out = { "local ty, w, v, o = ...",
    "local own = ty.custom_grad(function(t, n) return t * n, { t, n, #t } end,",
    "function(s, g) return g * s[2] + s[1] * 0 * s[3] end)",
    "return function(a, b, i, j, k)", "local c, d, s, _ = a, b, 0, nil" }
  for _, line in ipairs(program) do out[#out + 1] = line end
  out[#out + 1] = "return a, b, c, d, s"
  out[#out + 1] = "end"
  return table.concat(out, "\n")
end

local function matrix(rows, columns, seed)
  return ((ty.arange(rows * columns, { dtype = "f64" }) * 0.37 + seed):sin() * 2):to("f32"):reshape(rows, columns)
end

--- The arguments of a call with n rows; how: by which the second tensor and the number go along.
function M.arguments(n, how)
  local m = how == 1 and n or how == 2 and 60 - n or how == 3 and 2 * n or WIDTH
  local a, b = matrix(n, WIDTH, 1), matrix(m, WIDTH, 2)
  if how == 4 then a = matrix(WIDTH, n, 3):t() end
  local index = (ty.arange(n) * 7 % n + 1):to "i64"
  return a, b, index, (ty.arange(5) * 3 % n + 1):to "i64", how == 2 and 3 or n - 2
end

--- The function of a program; w, v: as it is to have them. And o, which it may write to.
function M.load(program, w, v)
  local o = matrix(64, WIDTH, 5)
  return assert(loadstring(M.text(program), "=program"))(ty, w, v, o), o
end

function M.weights() return matrix(WIDTH, WIDTH, 4) * 0.1, matrix(1, WIDTH, 6)[1] end

--- The sizes of the calls: on a line, then others in mixed order.
function M.sizes(r)
  local list = {}
  for n = 20, 31 do list[#list + 1] = n end
  for _ = 1, 14 do list[#list + 1] = 9 + r(38) end
  list[#list + 1] = WIDTH
  return list
end

return M
