--- sizes_spec.lua -- compiled functions whose tensors change their sizes: what a tape replays is what the function does.
-- Each case is a function that makes a world and gives the function under test; two worlds are made, plain and compiled.
-- Both are called with the same sizes in mixed order. Results to the bit, their strides and what they share with
-- arguments, error texts, fields, upvalues, tensors written in place and the random state must be equal in each call.
-- Captures are at most the number beside the case: one for the first sizes, one for any, and one more for each way in
-- which sizes decide; all others are answered without Lua, but for `ran` calls that raise or read what no trace has.

local H = require "spec.helper"
local T = require "spec.twins"
local ty = H.ty

local SIZES = { 4, 6, 9, 2, 17, 1, 0, 9, 5, 1, 33, 4, 0, 3, 128, 8, 7, 1, 2, 64, 11, 0, 6 }
local SOME = { 4, 6, 9, 5, 17, 4, 33, 8, 7, 6, 21, 64, 11, 128, 10, 5 } -- where 0, 1, 2 would decide or raise

-- What lies on a line and is met in any order: a range of sizes comes to serve it, where the function allows one.
local WALK = { 20, 21, 22, 23, 24, 25, 26, 27, 28 }
for k = 0, 36 do WALK[#WALK + 1] = 10 + k * 11 % 37 end

local function pack(...) return { n = select("#", ...), ... } end

local function matrix(n) return (ty.arange(3 * n):reshape(n, 3) - 4) / 4 end

local function vector(n) return (ty.arange(n) - 2) / 4 end

--- Strides and offsets as far as users see them, and what results share: each tensor among them is written to.
local function disturb(results)
  local out = {}
  for i = 2, results.n do
    local y = results[i]
    if ty.is_tensor(y) then
      out[#out + 1] = table.concat(y:stride(), ",")
      if y.dtype ~= "bool" then out[#out + 1] = tostring((pcall(y.add_, y, 1))) end
    end
  end
  return table.concat(out, ";")
end

--- One call in one world, as a text.
local function observe(W, f, ...)
  ty.manual_seed(11)
  local args = pack(W.args(...))
  local results = pack(pcall(f, unpack(args, 1, args.n)))
  local stream = ty.rand(2)
  local state = pack(W.state())
  local text = T.text({ results, args, state, stream }, 4)
  if not W.kept then
    local strides = disturb(results)
    text = text .. strides .. T.text({ results, args, state }, 3)
  end
  return text, results
end

--- Calls both with these sizes; raises where anything differs.
local function call(pair, ...)
  local want, results = observe(pair.plain, pair.plain.f, ...)
  local got = observe(pair.twin, pair.compiled, ...)
  if want ~= got then
    local at = 1
    while want:byte(at) == got:byte(at) do at = at + 1 end
    at = math.max(1, at - 80)
    error(("sizes %s\nplain:    ..%s\ncompiled: ..%s"):format(table.concat({ ... }, ", "), want:sub(at, at + 200),
      got:sub(at, at + 200)), 0)
  end
  return results
end

local function pair_of(make, args, options)
  return T.pair(function(W)
    W.args = args
    W.f = make(W)
  end, options)
end

--- Runs a case: {name, captures, make, args =, sizes =, ran =, options =}.
local function run(case)
  local pair = pair_of(case[3], case.args or matrix, case.options)
  local calls = 0
  for _, n in ipairs(case.sizes or SIZES) do
    if type(n) == "table" then call(pair, unpack(n)) else call(pair, n) end
    calls = calls + 1
  end
  local e = ty.explain(pair.compiled)
  local story = ("%d calls, %d skips, %d captures: %s"):format(calls, e.skips, e.captures, pair:story())
  assert.truthy(e.captures <= case[2], story)
  assert.truthy(calls - e.skips <= (case.ran or 0), story)
  if not case.options and type((case.sizes or SIZES)[1]) == "number" then
    for _, n in ipairs(WALK) do call(pair, n) end
  end
  return pair, e
end

local function cases(list)
  for _, case in ipairs(list) do
    it(case[1], function() run(case) end)
  end
end

describe("sizes are read by", function()
  cases {
    { "shape", 2, function() return function(x) return x.shape[1], x.shape[2], x.shape, x * x.shape[1] end end },
    { "size", 2, function() return function(x) return x:size(1), x:size(-1), x:size(), x + x:size(1) end end },
    { "#", 2, function() return function(x) return #x, x - #x, #x.shape end end },
    { "numel", 2, function() return function(x) return x:numel(), x / x:numel() end end },
    { "stride", 2, function() return function(x) return x:stride(), x:stride(1), x:t():stride(2), x:t() end end },
    { "stride of a row-wise view", 2, function()
      return function(x) return x:stride(1), x:stride(2), x + 1 end
    end, args = function(n) return matrix(n):t() end },
    { "stride of dims of size 1, however they came to be", 2, function()
      return function(x) return x:stride(), x, x:t(), x:t():stride(1), x:reshape(-1, 3) end
    end, args = function(n)
      if n % 3 == 0 then return matrix(n + 1)[{ { 1, 1 } }] end
      return n % 3 == 1 and matrix(1) or ty.arange(3):reshape(3, 1):t()
    end },
    { "ndim and dtype, which are none", 2, function()
      return function(x) return x.ndim * 2, x.dtype .. "!", x:sum() end
    end },
    { "functions of ty", 2, function()
      return function(x) return x.size(x, 1), x.numel(x), ty.neg(x) end
    end },
    { "a method in a variable", 2, function()
      local size = ty.ones(1).size
      return function(x) return size(x, 1) * 2, size(x)[2] end
    end },
    { "is_contiguous", 3, function()
      return function(x)
        if x:t():is_contiguous() then return x * 2 end
        return x * 3
      end
    end },
  }
end)

describe("what is computed from sizes", function()
  cases {
    { "by arithmetic", 2, function()
      return function(x)
        local n = #x
        return n + 1, n - 7, 3 * n, n / 3, n % 4, -n, 2 ^ n, n ^ 2, (n + 1) % 3, x * (n * 0.5 - 1)
      end
    end },
    { "by functions of mathematics", 2, function()
      return function(x)
        local n = x:numel()
        return math.floor(n / 2), math.ceil(n / 2), math.sqrt(n), math.abs(-n), math.max(n, 5), math.min(n, 5),
          math.sin(n), math.exp(-n), math.log(n + 1), math.fmod(n, 4), math.pow(n, 2), math.modf(n / 4),
          x * math.sqrt(n), math.atan2(n, 3), math.ldexp(n, 2), (math.frexp(n))
      end
    end },
    { "as strings", 15, function()
      return function(x) return ("%d rows of %d"):format(x:size(1), x:size(2)), "n" .. #x, tostring(#x), x * 2 end
    end },
    { "as a key of a table made inside", 15, function()
      return function(x) return { [#x] = x * 2, n = #x } end
    end },
    { "as an index of a table from outside", 7, function()
      local weights = { 10, 20, 30, 40, 50, 60 }
      return function(x) return x * (weights[#x] or 1) end
    end, sizes = { 1, 2, 3, 9, 2, 1, 3, 6, 7, 2, 9, 7, 3, 6, 0, 1 } },
    { "in comparisons", 5, function()
      return function(x)
        local n = #x
        if n > 8 then return x * 2 elseif n == 1 then return x - 1 elseif n <= 3 then return x / 2, n end
        return x + n
      end
    end },
    { "with and, or, not", 6, function()
      return function(x)
        local n = x:size(1)
        local even = n % 2 == 0 and "even" or "odd"
        return even, not (n > 4 and n ~= 7), x + 1
      end
    end },
    { "kept in locals, swapped, passed through functions", 2, function()
      local function twice(a, b) return b, a * 2 end
      return function(x)
        local n, m = x:size(1), x:size(2)
        n, m = m, n
        local a, b = twice(n, m)
        local list = { a, b, n }
        list[4] = list[1] + list[2]
        return list, unpack(list)
      end
    end },
    { "by varargs and select", 2, function()
      local function pick(k, ...) return (select(k, ...)), select("#", ...) end
      return function(x, ...)
        local a, count = pick(2, x:size(1), x:numel(), ...)
        return a * 2, count, { ... }, (select(-1, ...)), unpack(x.shape)
      end
    end, args = function(n) return matrix(n), n, "s", vector(n) end },
    { "by ipairs and unpack of the shape", 2, function()
      return function(x)
        local p, s = 1, 0
        for i, n in ipairs(x.shape) do p, s = p * n, s + i * n end
        for _, n in pairs(x:size()) do s = s + n end
        return p, s, select(2, unpack(x.shape)), x:reshape(unpack(x.shape))
      end
    end },
    { "in loops", 5, function()
      return function(x)
        local y = x
        for i = 1, #x do y = y + i end
        return y
      end
    end, sizes = { 3, 4, 3, 5, 3, 4, 0, 1, 5, 0, 1, 4, 3 } },
    { "in loops over rows", 5, function()
      return function(x)
        local s = 0
        for i = 1, x:size(1) do s = x[i] * i + s end
        return s
      end
    end, sizes = { 3, 4, 3, 5, 3, 4, 0, 1, 5, 0, 1, 4, 3 } },
    { "in while loops with half of it", 9, function()
      return function(x)
        local n, turns = #x, 0
        while n > 1 do n, turns = math.floor(n / 2), turns + 1 end
        return x * turns, n, turns
      end
    end },
    { "and equal to each other", 3, function()
      return function(x, y)
        if x:size(1) == y:size(1) then return x + y end
        return x:sum() + y:sum()
      end
    end, args = function(n, m) return matrix(n), matrix(m) end,
      sizes = { { 3, 3 }, { 4, 4 }, { 3, 4 }, { 4, 3 }, { 7, 7 }, { 9, 2 }, { 2, 9 }, { 8, 8 }, { 5, 6 }, { 1, 1 } } },
    { "to nothing: 0 / 0 and 1 / 0", 2, function()
      return function(x) return x / x:numel(), 1 / #x, x:numel() / #x, -#x, 1 / -#x end
    end },
    { "with numbers of strings", 15, function() return function(x) return "2" * #x, #x + "10", x * ("3" + 0) end end },
  }
end)

describe("sizes are given to", function()
  cases {
    { "slices", 2, function()
      return function(x)
        local n = #x
        return x[{ { 1, n - 1 } }], x[{ { 2, n } }] - x[{ { 1, n - 1 } }], x[n], x[{ { math.floor(n / 2), n }, 1 }]
      end
    end, sizes = SOME },
    { "slices that are empty or out of range at some sizes", 2, function()
      return function(x) return x[{ { 1, #x - 3 } }], x[{ { 4, -1 } }] end
    end, ran = 8 },
    { "negative indices", 2, function()
      return function(x) return x[-1], x[-#x], x[{ { -3, -1 } }], x[{ { -1, 1, -1 } }], x[{ {}, -1 }] end
    end, sizes = SOME },
    { "reshape, view, unflatten", 2, function()
      return function(x)
        local n = #x
        return x:reshape(3 * n), x:reshape(3, n), x:view(n, 3, 1), x:reshape(-1, n), x:flatten():unflatten(1, { n, 3 }),
          x:t():reshape(n * 3), x:reshape({ 1, n, 3 })
      end
    end, sizes = SOME },
    { "expand and tile", 2, function()
      return function(x)
        return x[1]:expand(#x, 3), x:unsqueeze(1):expand(2, #x, 3), x:tile(2, 1), x:tile(#x, 1), x:repeat_interleave(2, 1)
      end
    end, sizes = { 4, 6, 9, 5, 12, 3, 8, 6 } },
    { "creation", 2, function()
      return function(x)
        local n = #x
        return ty.arange(n), ty.zeros(n, 2), ty.ones(x.shape), ty.full({ n }, n), ty.eye(n), ty.linspace(0, 1, n),
          ty.range(n), ty.zeros_like(x), ty.full_like(x, n), ty.arange(1, n + 1) * x:sum()
      end
    end, sizes = SOME },
    { "creation at 0 and 1", 2, function()
      return function(x) return ty.arange(#x) + x[{ {}, 1 }], ty.eye(#x), ty.tri(#x), ty.zeros(#x) end
    end },
    { "random numbers", 2, function()
      return function(x) return ty.randn(#x, 2), ty.rand(x.shape) + x, x:dropout(0.5, true), ty.rand(3) end
    end, sizes = SOME },
    { "random permutations", 2, function()
      return function(x) return ty.randperm(#x), ty.randint(1, 6, { #x }), ty.bernoulli(0.5, { #x }), x + 1 end
    end, sizes = SOME },
    { "split by a part of it", 2, function()
      return function(x)
        local parts = x:split(math.ceil(#x / 2))
        return parts[1] + 1, parts[2] and parts[2]:sum(), #parts
      end
    end, sizes = SOME },
    { "split by a number, which gives more and more parts", 5, function()
      return function(x)
        local s = 0
        for i, p in ipairs(x:split(2)) do s = p:sum() * i + s end
        return s, x:split(2)
      end
    end, sizes = { 4, 5, 6, 5, 4, 7, 8, 8, 7, 3, 4, 1, 0, 2, 4 } },
    { "chunk, unbind", 8, function()
      return function(x)
        local a = x:chunk(2)
        local rows = x:unbind()
        return a, rows[1], #rows, rows[#rows], ty.stack(rows)
      end
    end, sizes = { 4, 5, 6, 5, 4, 7, 8, 8, 7, 3, 4, 1, 0, 2, 4 }, ran = 1 },
    { "rows", 5, function()
      return function(x)
        local s = x[1] * 0
        for i, r in x:rows() do s = s + r * i end
        return s
      end
    end, sizes = { 4, 5, 4, 6, 5, 4, 1, 6, 0, 3, 1 }, ran = 1 },
    { "cat and stack of tables from outside", 2, function(W)
      W.list = { vector(3), vector(3) }
      local list = W.list
      return function(x) return ty.cat(list), ty.cat { x, x, list[1] }, ty.stack { x, x * 2 }, ty.cat { x, list[2]:sum(1):expand(#x) } end
    end, args = vector },
    { "squeeze: the rank changes at 1", 3, function()
      return function(x) return x:squeeze(), x:squeeze().ndim, x:sum(1):squeeze(), x:unsqueeze(2):squeeze(2) end
    end },
    { "broadcasting at 1", 2, function()
      return function(x, y) return x + y, x * y[1], (x - y):sum(1) end
    end, args = function(n, m) return matrix(n), matrix(m) end,
      sizes = { { 4, 4 }, { 4, 1 }, { 1, 4 }, { 1, 1 }, { 6, 6 }, { 6, 1 }, { 1, 9 }, { 5, 5 }, { 4, 5 }, { 3, 3 }, { 7, 1 } }, ran = 1 },
    { "contiguous, which may be the tensor itself", 3, function()
      return function(x)
        local c = x:t():contiguous()
        local d = x:contiguous()
        c:add_(1)
        return c, d, rawequal(d, x), rawequal(c, x), c == d
      end
    end },
    { "contiguous beside what it is or copies", 3, function()
      return function(x)
        local t = x:t()
        local c = t:contiguous()
        t:add_(1)
        return t, c, rawequal(t, c), { t, c }
      end
    end },
    { "contiguous of a slice", 3, function()
      return function(x)
        local c = x[{ {}, { 1, 1 } }]:contiguous()
        c:mul_(2)
        return c, x * 1
      end
    end },
    { "reshape, which may be a copy", 2, function()
      return function(x)
        local c = x:t():reshape(-1)
        c:mul_(2)
        return c, x * 1
      end
    end },
    { "pad, roll, flip, unfold, diagonal", 2, function()
      return function(x)
        local n = #x
        return x:pad { { n - 1, 1 } }, x:roll(n - 2, 1), x:roll(1), x:flip(1), x:unfold(1, 2), x:unfold(1, n - 1), x:diagonal(),
          x:diagonal(-1), x:narrow(1, 2, n - 2)
      end
    end, sizes = SOME },
    { "topk, sort, cumsum, argmax", 2, function()
      return function(x)
        local a, b = x:topk(2, 1)
        local c, d = x:sort(1)
        return a, b, c, d, x:cumsum(1), x:argmax(1)
      end
    end, sizes = SOME },
    { "gather, scatter, index_select, where, masks", 2, function()
      return function(x)
        local i = ty.range(#x, { dtype = "i64" })
        return x[i], x:index_select(1, i), x:gt(0):where(x, -x), x:masked_fill(x:lt(0), #x), x:gather(1, i:unsqueeze(2))
      end
    end, sizes = SOME },
    { "tables of tables", 2, function()
      return function(x) return { n = #x, s = x.shape, deep = { x * 2, { #x, x } } }, x.shape end
    end },
    { "settled dtypes", 2, function()
      return function(x) return x:to "f64":sum(), x:to "i32" + #x, x:to "f16" * #x, x:gt(#x) end
    end },
  }
end)

describe("sizes decide what is written:", function()
  cases {
    { "slices in place", 2, function()
      return function(x)
        local n = #x
        x[{ { 2, n } }] = x[{ { 1, n - 1 } }]
        x[n] = n
        x[{ { 1, n - 2 } }]:add_(n)
        x[1]:mul_(2)
        return x[n]
      end
    end, sizes = SOME },
    { "a tensor from outside", 2, function(W)
      local w = ty.zeros(200, 3)
      W.state = function() return w end
      return function(x)
        w[{ { 1, #x } }] = x
        w:add_(#x)
        return w:sum()
      end
    end, sizes = SOME },
    { "fields, lists, upvalues", 2, function(W)
      local state, list, last = { n = 0 }, {}, nil
      W.state = function() return state, list, last end
      return function(x)
        state.n = state.n + #x
        state.last, state.shape = #x, x.shape
        state.x = x * #x
        list[1], list[2] = #x * 2, { n = #x }
        last = #x
        return state.n
      end
    end },
    { "a list that grows", 8, function(W)
      local list = {}
      W.state = function() return list end
      return function(x)
        list[#list + 1] = #x
        return x + #list
      end
    end, ran = 15 },
    { "the same tensor twice", 4, function()
      return function(x, y)
        x:add_(#y)
        return x + y, rawequal(x, y), #x == #y
      end
    end, args = function(n, same)
      local x = matrix(n)
      return x, same == 1 and x or matrix(n)
    end, sizes = { { 4, 1 }, { 5, 1 }, { 6, 1 }, { 4, 2 }, { 7, 2 }, { 8, 1 }, { 9, 2 }, { 1, 1 }, { 0, 2 }, { 0, 1 } } },
    { "views of one storage", 2, function()
      return function(a, b)
        b:mul_(2)
        local c = a * 10
        a:add_(#b)
        return a, b, c
      end
    end, args = function(n)
      local base = vector(2 * n + 2)
      return base[{ { 1, n } }], base[{ { 3, n + 2 } }]
    end, sizes = SOME },
    { "results that are arguments, their views, aliases of each other", 2, function()
      return function(x)
        local y = x * 2
        return x, x:t(), x[{ {}, { 1, 2 } }], y, y, y:t(), { y, x }
      end
    end },
    { "tensors that outlive their call", 3, function(W)
      W.state = function() return W.kept_tensor end
      W.kept = true
      return function(x)
        local h = W.kept_tensor
        W.kept_tensor = x + (h and h:sum() or 0)
        return h
      end
    end },
  }
end)

describe("sizes meet numbers of the call:", function()
  local function with_number(n, k) return matrix(n), k or 0.5 end
  local mixed = { { 4, 0.5 }, { 6, 0.25 }, { 9, 2 }, { 4, 3 }, { 17, 0.1 }, { 5, -1 }, { 6, 7 }, { 33, 0.5 }, { 8, 1e3 }, { 3, 0.1 } }
  cases {
    { "x * (lr / n)", 2, function()
      return function(x, lr) return x * (lr / #x), lr / #x, { n = lr * #x }, (lr + #x) / 2 end
    end, args = with_number, sizes = mixed },
    { "several sizes and numbers", 2, function()
      return function(x, k)
        local a, b = x:size(1) * k, x:size(2) + k
        return a, b, a * b, x * a - b, -a, math.floor(a), a % 3, math.max(a, b), math.sqrt(a * a), a ^ 2, math.abs(b)
      end
    end, args = with_number, sizes = mixed },
    { "a branch on lr / n", 3, function()
      return function(x, lr)
        if lr / #x > 0.05 then return x * lr end
        return x - lr, lr / #x
      end
    end, args = with_number, sizes = mixed, ran = 2 },
    { "equality", 3, function()
      return function(x, k)
        if k * 2 == #x then return x * k end
        return x - k
      end
    end, args = with_number,
      sizes = { { 4, 2 }, { 6, 3 }, { 4, 3 }, { 8, 4 }, { 8, 2 }, { 10, 5 }, { 2, 1 }, { 3, 1 }, { 9, 4.5 } }, ran = 2 },
    { "integer tensors, where wholeness matters", 5, function()
      return function(x, k) return x:to "i32" * (k * #x), x:to "i32" + k end
    end, args = with_number,
      sizes = { { 4, 0.5 }, { 6, 0.5 }, { 5, 0.5 }, { 8, 1 }, { 5, 2 }, { 3, 0.5 }, { 4, 0.25 }, { 6, 0.25 }, { 7, 3 } } },
    { "integers that do not fit", 3, function()
      return function(x, k) return x:to "i32" + k * #x end
    end, args = with_number,
      sizes = { { 4, 2 }, { 6, 3 }, { 5, 1e9 }, { 8, 1e9 }, { 5, 2 }, { 3, 1e300 }, { 4, 0 / 0 }, { 7, 1 } }, ran = 3 },
    { "counters", 2, function(W)
      local count, seen = 0, { 0 }
      W.state = function() return count, seen end
      return function(x)
        count = count + 1
        seen[1] = seen[1] + #x * count
        return x / count, seen[1] / #x
      end
    end },
    { "fields as sizes", 6, function(W)
      W.width = 2
      return function(x)
        W.width = W.width % 3 + 1
        return x[{ {}, { 1, W.width } }], ty.zeros(#x, W.width)
      end
    end, ran = 3 },
    { "a number that is pinned beside", 4, function()
      return function(x, k) return x[{ { 1, k } }] * #x, ty.zeros(#x + k) end
    end, args = function(n, k) return matrix(n), k end, sizes = { { 4, 2 }, { 6, 2 }, { 6, 3 }, { 4, 3 }, { 9, 2 }, { 17, 3 }, { 5, 2 } } },
    { "0 and -0, nothing by nothing", 2, function()
      return function(x, k) return 1 / (k * #x), x * (k * #x), k / #x, x + k / #x end
    end, args = with_number, sizes = { { 4, 0 }, { 0, 1 }, { 0, -1 }, { 4, -0.0 }, { 0, 0 }, { 5, 1 / 0 }, { 0, 1 / 0 }, { 5, -2 } } },
  }
end)

--- A tensor of ten and a number, or what else there is.
local function beside(...) return ty.arange(10) / 4, ... end

local COUNTS = { 3, 4, 5, 6, 7, 5, 2, 3, 9, 8, 1, 10, 4, 2, 6, 3 }
local MISFITS = { 3, 4, 5, 2.5, 6, 11, -1, -3, 0, 1e300, 0 / 0, 1 / 0, -1 / 0, 7, 2 ^ 53, -0.0, 0.5, 8, 2, 3, 5 }

local function pairs_of(list)
  local out = {}
  for i, n in ipairs(list) do out[i] = { n, list[(i * 7) % #list + 1] } end
  return out
end

describe("numbers of the call become sizes:", function()
  cases {
    { "bounds of narrow", 2, function()
      return function(x, n) return x:narrow(1, 1, n) * 2, x:narrow(1, n, 1), n + 1 end
    end, args = beside, sizes = COUNTS },
    { "bounds of slices", 2, function()
      return function(x, n) return x[{ { 1, n } }] + 1, x[{ { -n, -1 } }], x[n], x[-n] * n end
    end, args = beside, sizes = COUNTS },
    { "sizes of new tensors", 2, function()
      return function(x, n)
        return ty.zeros(n), ty.ones({ n, 2 }), ty.arange(n) + x[1], ty.full({ 2, n }, n), ty.rand(n), ty.range(n, n + 4)
      end
    end, args = beside, sizes = COUNTS },
    { "options, lists of sizes, shifts", 2, function()
      return function(x, n)
        return x:pad({ { n, 1 } }, n), x:roll(n, 1), x:reshape(5, 2):tile(n, 1), x:cumsum(1)[n], x:unfold(1, n)
      end
    end, args = beside, sizes = COUNTS },
    { "offsets of rotary positions", 2, function()
      return function(x, n) return ty.nn.rotary(x:reshape(5, 2), n), x:narrow(1, n, 1) end
    end, args = beside, sizes = COUNTS },
    { "dims", 2, function()
      return function(x, n)
        local y = x:reshape(1, 2, 5, 1)
        return y:sum(n), y:softmax(n), y:narrow(n, 1, 1), y:size(n), y:unsqueeze(n):flip(n), ty.cat({ y, y }, n)
      end
    end, args = beside, sizes = { 1, 2, 3, 4, 2, 3, 1, 4 } },
    { "with numbers that stay", 3, function(W)
      W.scale = { by = 2, off = 0.5 }
      return function(x, n) return x:narrow(1, n * W.scale.by, 1), x[{ { 1, math.ceil(n * W.scale.off) } }] * 2 end
    end, args = beside, sizes = { 1, 2, 3, 4, 5, 2, 3, 1, 4 } },
    { "with sizes", 3, function()
      return function(x, k) return x:narrow(1, 1, k * #x) + 1 end
    end, args = function(n, k) return matrix(n), k end,
      sizes = { { 4, 0.5 }, { 6, 0.5 }, { 8, 0.5 }, { 8, 0.25 }, { 10, 0.5 }, { 6, 1 }, { 4, 0.5 }, { 16, 0.25 } } },
    { "options of the user's functions", 2, function()
      local function cut(x, opts) return x:narrow(1, opts.start or 1, opts.count), opts end
      return function(x, opts) return cut(x, opts), (cut(x, { count = opts.count })) * 2 end
    end, args = function(n) return ty.arange(20), { start = n, count = n + 1 } end, sizes = COUNTS },
    { "what is computed from them", 2, function()
      return function(x, n)
        local half, back = math.floor(n / 2) + 1, #x - n + 1
        return x:narrow(1, half, 1), x:narrow(1, back, 1), x[{ { half, -1 } }]:sum() * half, n % 3, half
      end
    end, args = beside, sizes = COUNTS },
    { "fields that are written, in place beside them", 3, function(W)
      local memory = { n = 0, x = ty.zeros(40) }
      W.state = function() return memory, memory.n, memory.x end
      return function(x, n)
        local before = memory.n
        memory.x:narrow(1, before + 1, n):copy_(x:narrow(1, 1, n))
        memory.n = (before + n) % 20
        return memory.x:narrow(1, 1, before + n), before
      end
    end, args = beside, sizes = { 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 1, 2, 2, 5, 4, 4, 4, 10, 1, 1, 8, 2 } },
    { "upvalues that count", 3, function(W)
      local at = 0
      W.state = function() return at end
      return function(x)
        at = at + 1
        if at > #x then at = 1 end
        return x[at] * 2
      end
    end, args = beside, sizes = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, ran = 0 },
    { "two that change together", 2, function()
      return function(x, n, m) return x:narrow(1, n, m), x:narrow(1, m, n), ty.zeros(n, m) end
    end, args = beside, sizes = { { 1, 2 }, { 2, 3 }, { 3, 3 }, { 4, 5 }, { 5, 5 }, { 1, 9 }, { 2, 3 }, { 4, 1 } } },
    { "two that are compared", 4, function()
      return function(x, n, m)
        if n < m then return x:narrow(1, n, m - n) end
        return x:narrow(1, m, n - m + 1) * -1
      end
    end, args = beside, sizes = { { 1, 2 }, { 2, 4 }, { 3, 3 }, { 4, 5 }, { 5, 5 }, { 1, 9 }, { 9, 3 }, { 4, 1 }, { 4, 4 } } },
    { "sizes of tensors beside them", 3, function()
      return function(x, n)
        if n > #x then return x * 2 end
        return x:narrow(1, 1, n) * #x
      end
    end, args = function(n, m) return vector(n), m end,
      sizes = { { 4, 2 }, { 5, 3 }, { 6, 3 }, { 6, 4 }, { 5, 9 }, { 5, 8 }, { 7, 7 }, { 33, 20 }, { 4, 6 } } },
    { "a branch that turns with them", 4, function()
      return function(x, n)
        if n > 4 then return x:narrow(1, 1, n) end
        return x:narrow(1, n, 2) * 2, n
      end
    end, args = beside, sizes = COUNTS },
    { "decreasing, and the same again", 2, function()
      return function(x, n) return x:narrow(1, n, 1), n end
    end, args = beside, sizes = { 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 10, 9, 1 } },
    { "tensors of numbers that are given to operations, too", 2, function()
      return function(x, n)
        local y = x:narrow(1, 1, n) * n - n / 3
        y:add_(n)
        return y, x:gt(n), (n + 0.5) * 2, -n
      end
    end, args = beside, sizes = COUNTS },
  }

  cases {
    { "misfits raise as they do without", 12, function()
      return function(x, n) return x:narrow(1, 1, n), n end
    end, args = beside, sizes = MISFITS, ran = 16 },
    { "misfits that are no errors everywhere", 12, function()
      return function(x, n) return x + n, x[{ { 1, n } }], 1 / n end
    end, args = beside, sizes = MISFITS, ran = 16 },
    { "misfits where pcall sees them", 30, function()
      return function(x, n)
        local ok, y = pcall(function() return x:narrow(1, 1, n) end)
        return ok, ok and y * 2 or 0
      end
    end, args = beside, sizes = MISFITS, ran = 30 },
    { "misfits as sizes of new tensors", 12, function()
      return function(x, n) return ty.zeros(n, 1) + x:sum(), n end
    end, args = beside, sizes = { 3, 4, 5, 2.5, 6, -1, -3, 0, 0 / 0, 7, -0.0, 0.5, 8, 2, 3, 5, 1e300 }, ran = 14 },
    { "a loop's bound stays what it was", 20, function()
      return function(x, n)
        local y = x:narrow(1, 1, n)
        for i = 1, n do y = y + i end
        return y
      end
    end, args = beside, sizes = COUNTS, ran = 6 },
    { "a table's key stays what it was", 20, function()
      local names = { "a", "b", "c", "d", "e" }
      return function(x, n) return x:narrow(1, 1, n) * 2, names[n], { [n] = x } end
    end, args = beside, sizes = COUNTS, ran = 6 },
    { "text stays what it was", 20, function()
      return function(x, n) return x:narrow(1, 1, n) * 2, "n" .. n end
    end, args = beside, sizes = COUNTS, ran = 6 },
    { "what is no number any more", 8, function()
      return function(x, n) return n and x:narrow(1, 1, tonumber(n)) * 2, n end
    end, args = beside, sizes = { 3, 4, 5, "6", 7, "8", 6, 4, "6", 2 }, ran = 3 },
    { "with {dynamic = false} never", 16, function()
      return function(x, n) return x:narrow(1, 1, n) * 2 end
    end, args = beside, sizes = { 3, 4, 5, 6, 3, 4, 5, 6 }, options = { dynamic = false } },
  }

  it("pairs of any two", function()
    local pair = pair_of(function()
      return function(x, n, m)
        local k = n + m
        return k > 8 and x:narrow(1, 1, m) or x:narrow(1, n, m), k * 2, ty.zeros(n, k)
      end
    end, beside)
    for _, list in ipairs { pairs_of(COUNTS), pairs_of(MISFITS), pairs_of(COUNTS) } do
      for _, nm in ipairs(list) do call(pair, unpack(nm)) end
    end
  end)

  it("a model with a cache of 40 positions is captured twice", function()
    ty.manual_seed(3)
    local layers = {}
    for i = 1, 3 do layers[i] = ty.nn.TransformerBlock(8, 2, { causal = true, rotary = true }):eval() end
    local function forward(x, caches)
      for i, layer in ipairs(layers) do x = layer(x, { cache = caches[i] }) end
      return x
    end
    local function caches_of() return { layers[1]:cache(2, 40), layers[2]:cache(2, 40), layers[3]:cache(2, 40) } end
    local f = ty.compile(forward)
    ty.no_grad(function()
      for _ = 1, 3 do
        local a, b = caches_of(), caches_of()
        for i = 1, 40 do
          local x = ty.randn(2, 1, 8)
          assert.equal(T.text({ forward(x, a), a[3] }, 4), T.text({ f(x, b), b[3] }, 4))
          assert.equal(i, b[2].length)
        end
        assert.has_error(function() f(ty.randn(2, 1, 8), b) end)
        assert.equal(40, b[1].length)
      end
    end)
    local e = ty.explain(f)
    assert.truthy(e.captures <= 2 and e.skips >= 119, ("%d captures, %d skips"):format(e.captures, e.skips))
  end)

  it("without a line of the function", function()
    local pair = pair_of(function() return function(x, n) return x:narrow(1, n, 2) * n, x[n], n / 2 end end, beside)
    for n = 1, 3 do call(pair, n) end
    for n = 4, 9 do
      local result, lines = pair:witness(pair.compiled, beside(n))
      assert.truthy(result[1])
      assert.equal(0, lines)
    end
    assert.equal(2, ty.explain(pair.compiled).captures)
  end)

  it("with explain telling so", function()
    local f = ty.compile(function(x, n) return n > 0 and x:narrow(1, n, 1) end)
    for n = 1, 4 do f(ty.arange(10), n) end
    local text = ty.explain(f):full()
    assert.truthy(text:find("guard n: a number, with a plan for each value", 1, true), text)
    assert.truthy(text:find("sizes 0 < n: true", 1, true), text)
    assert.truthy(text:find("miss: `n` (argument 2) is 2, was 1", 1, true), text)
  end)

  it("until they never come back", function()
    local pair = pair_of(function() return function(x, n) return x:narrow(1, n * n % 997 + 1, 2) * n end end, function(n)
      return ty.arange(2000), n
    end)
    for n = 1, 600 do call(pair, n) end
    local skips = ty.explain(pair.compiled).skips
    assert.truthy(skips < 400, tostring(skips))
    for n = 1, 200 do call(pair, n) end
    assert.truthy(ty.explain(pair.compiled).skips >= skips + 200)
  end)

  it("or decide too often to be worth a capture each, until one stays", function()
    local function f(x)
      local s = 0
      for i = 1, x:size(1) % 7 do s = s + i end
      return x * s
    end
    local c, x = ty.compile(f), ty.arange(1000)
    for round = 1, 3 do
      for n = 1, 1000 do
        local v = x:narrow(1, 1, n)
        if n % 31 == round then H.same(f(v), c(v)) else c(v) end
      end
    end
    assert.truthy(ty.explain(c).captures < 400, ty.explain(c).captures)
    local v, skips = ty.ones(1717), ty.explain(c).skips
    for _ = 1, 10000 do c(v) end
    assert.truthy(ty.explain(c).skips > skips + 5000)
  end)
end)

describe("errors at some sizes:", function()
  cases {
    { "raised by the library", 2, function(W)
      local state = { n = 0 }
      local w = ty.ones(3, 2)
      W.state = function() return state end
      return function(x)
        state.n = state.n + 1
        local y = x:matmul(w) + x[{ 3, { 1, 2 } }]
        state.n = state.n + 10
        return y
      end
    end, ran = 8 },
    { "of sizes that do not fit", 2, function()
      return function(x, y) return x + y end
    end, args = function(n, m) return matrix(n), matrix(m) end,
      sizes = { { 4, 4 }, { 5, 5 }, { 4, 5 }, { 6, 6 }, { 5, 4 }, { 7, 7 }, { 8, 3 }, { 9, 9 }, { 0, 2 }, { 3, 3 } }, ran = 4 },
    { "raised by the function", 4, function() -- the errors end parts
      return function(x)
        if #x == 9 then error("nine rows of " .. x:size(2)) end
        assert(#x ~= 0, "no rows")
        return x * 2
      end
    end, ran = 5 },
    { "caught inside", 2, function(W)
      local seen = {}
      W.state = function() return seen end
      return function(x)
        local ok, y = pcall(function() return x:reshape(2, -1) * 2 end)
        seen[1] = ok
        if ok then return y end
        return x, y
      end
    end, ran = 11 },
    { "caught inside with error()", 3, function()
      return function(x)
        local ok, y = pcall(function()
          if #x > 8 then error { n = #x } end
          return x * 2
        end)
        return ok, ok and y or y.n
      end
    end },
    { "arithmetic on a row that is missing", 4, function()
      return function(x)
        local rows = x:unbind()
        return rows[3] + 1
      end
    end, sizes = { 4, 5, 2, 4, 3, 1, 5, 2, 4 }, ran = 3 },
  }
end)

describe("sizes go through", function()
  cases {
    { "softmax, norms, statistics", 2, function()
      return function(x)
        return x:softmax(1), x:softmax(), x:layer_norm(), x:log_softmax(1), x:norm(), x:std(1), x:var(), x:mean(1), x:median(1)
      end
    end, sizes = SOME },
    { "products and einsum", 2, function()
      return function(x)
        return ty.einsum("ij,kj->ik", x, x), x:t():matmul(x), x:matmul(ty.ones(3)), ty.einsum("ij->j", x),
          x:t():unsqueeze(1):bmm(x:unsqueeze(1))
      end
    end, sizes = SOME },
    { "composites at 0 and 1", 2, function()
      return function(x) return x:softmax(1), x:layer_norm(), x:sum(1), x:mean(2), x:norm(2, 2), x:prod() end
    end },
    { "a convolution by unfold", 2, function()
      local kernel = ty.tensor { 1, 2, 1 }
      return function(x)
        local n = #x
        local p = x:pad { { 1, 1 } }
        local y = p:unfold(1, 3):matmul(kernel)
        return y[{ { 1, n } }], (y * n):sum()
      end
    end, args = vector, sizes = SOME },
    { "a difference quotient", 2, function()
      return function(x)
        local n = #x
        local dx = 1 / (n - 1)
        local y = x:clone()
        y[{ { 2, n - 1 } }] = (x[{ { 3, n } }] - x[{ { 1, n - 2 } }]) / (2 * dx)
        return y
      end
    end, args = vector, sizes = SOME },
    { "attention with a mask", 2, function()
      return function(q)
        local n, d = q:size(1), q:size(2)
        local scores = q:matmul(q:t()) / math.sqrt(d)
        local mask = ty.tri(n):eq(0)
        return scores:masked_fill(mask, -1e9):softmax():matmul(q), ty.arange(n):reshape(n, 1) / n
      end
    end, sizes = SOME },
    { "functions of the library written in Lua", 2, function()
      return function(x)
        local ones = ty.ones({ #x }, { dtype = "i64" })
        return x:cross_entropy(ones), x:mse_loss(x * #x), x:tensordot(x:t(), 1), ones:one_hot(2)
      end
    end, sizes = SOME },
    { "closures made anew, whose upvalues are sizes", 2, function()
      return function(x)
        local n = #x
        local function scale(y) return y * n end
        local list = {}
        for i = 1, 2 do list[i] = function(y) n = n + i return scale(y) + i end end
        return list[1](x), list[2](x), n
      end
    end },
    { "a function made anew for each call", 3, function(W)
      local function outer(x, f) return f(x) * #x end
      W.f2 = outer
      return outer
    end, args = function(n) return matrix(n), function(y) return y + #y end end },
    { "metatables", 2, function()
      local V = {}
      V.__index = V
      V.__add = function(a, b) return setmetatable({ n = a.n + b.n }, V) end
      V.__len = function(a) return a.n end
      function V:scale(x) return x * self.n end
      return function(x)
        local a = setmetatable({ n = #x }, V) + setmetatable({ n = x:size(2) }, V)
        return a.n, a:scale(x), a
      end
    end },
    { "two arguments on their own", 2, function()
      return function(x, y) return x:t():matmul(x):sum() + y:sum(), #x * #y, #x - #y, ty.zeros(#x, #y) end
    end, args = function(n, m) return matrix(n), vector(m) end,
      sizes = { { 4, 4 }, { 4, 7 }, { 5, 4 }, { 6, 9 }, { 4, 4 }, { 17, 3 }, { 3, 17 }, { 8, 64 }, { 64, 8 }, { 5, 4 } } },
    { "recursion by halves", 6, function()
      local function total(x)
        local n = #x
        if n <= 2 then return x:sum() end
        local h = math.floor(n / 2)
        return total(x[{ { 1, h } }]) + total(x[{ { h + 1, n } }])
      end
      return total
    end, args = vector, sizes = { 8, 9, 8, 10, 12, 9, 4, 3, 8, 12, 16, 5 } },
    { "table.concat, sort, insert, remove", 15, function()
      return function(x)
        local t = { #x, 5, x:numel() }
        table.insert(t, #x * 2)
        table.insert(t, 1, 7)
        local last = table.remove(t)
        table.sort(t)
        return t, last, table.concat(t, ","), x * 1
      end
    end },
    { "goto, repeat, nested loops over both dims", 4, function()
      return function(x)
        local s, i = 0, 0
        repeat
          i = i + 1
          for j = 1, x:size(2) do s = s + i * j end
        until i >= 3 or i >= #x
        return s, i, x * s
      end
    end },
    { "another compiled function", 2, function()
      local inner = ty.compile(function(y, n) return y * n + #y end)
      return function(x) return inner(x, #x), inner(x:t(), 2) end
    end },
    { "nothing: no tensor is made", 2, function() return function(x) return #x, x.shape end end },
    { "nothing: no result", 2, function(W)
      W.state = function() return W.n end
      return function(x) W.n = #x end
    end },
    { "ranks from 0 to 4", 6, function()
      return function(x) return x + x.ndim, x:numel(), #x.shape, x.shape, x:sum() end
    end, args = function(...) return ty.ones(...) end,
      sizes = { { 2 }, { 3 }, { 2, 3 }, { 3, 3 }, { 2, 1, 3 }, { 4, 1, 2 }, { 1, 2, 3, 4 }, { 2, 2, 3, 4 }, { 5 }, { 4, 5 },
        { 2, 5, 2 } }, ran = 3 },
  }
end)

describe("ways are left in the middle:", function()
  cases {
    { "after random numbers were drawn", 5, function()
      return function(x)
        local y = x + ty.rand(#x, 3)
        if #x > 8 then return y * ty.randn(3) end
        return y, ty.rand(1), #x % 2 == 0
      end
    end },
    { "after tensors were written", 4, function(W)
      local w = ty.zeros(3)
      local state = { n = 0 }
      W.state = function() return w, state end
      return function(x)
        state.n = state.n + 1
        w:add_(#x)
        x:mul_(2)
        if #x > 6 then w:mul_(2) elseif #x == 1 then state.one = w * 1 end
        return x + w
      end
    end },
    { "after tables were changed", 5, function(W)
      local list = { 1, 2 }
      W.state = function() return list end
      return function(x)
        list[1] = #x
        list.shape = x.shape
        if #x > 6 then list[2] = nil else list[2] = { #x } end
        list.shape[1] = #x > 40 and 0 or 7
        return x
      end
    end },
    { "by a shape that was changed, and one from the call before", 3, function(W)
      local kept = { shape = { 3, 1 } }
      W.state = function() return kept end
      return function(x)
        local s = x.shape
        s[2], s[1] = s[1], s[2]
        local y = ty.ones(kept.shape)
        s[3] = 1
        return x:reshape(s), y:sum()
      end
    end },
    { "by a size of a size", 3, function()
      return function(x, y) return x:size(#y), y:size(1) * #x, x[{ { 1, #y } }], x:tile(#y, 1):sum() end
    end, args = function(n) return matrix(n + 2), vector(n % 2 + 1) end },
    { "where coroutines call", 2, function()
      local inner = function(x) return x * #x, #x end
      return inner
    end, args = matrix },
    { "where a function that records calls another", 24, function()
      local inner = ty.compile(function(x) return x * #x + 1 end)
      return function(x)
        local s = x:sum():item()
        return inner(x + 1), inner(x) * s
      end
    end, ran = 24 },
  }

  it("in coroutines", function()
    local f = ty.compile(function(x)
      if #x > 30 then return x - #x end
      return x * #x, #x
    end)
    for n = 1, 60 do
      local co = coroutine.wrap(function() return f(matrix(n)) end)
      local a = co()
      if n > 30 then H.same(matrix(n) - n, a) else H.same(matrix(n) * n, a) end
    end
    assert.equal(3, ty.explain(f).captures)
  end)

  it("in modules", function()
    local net = ty.compile { w = ty.ones(3, 2), n = 0, forward = function(self, x)
      self.n = self.n + #x
      return x:matmul(self.w) / #x
    end }
    local total = 0
    for n = 1, 60 do
      total = total + n
      H.same(matrix(n):matmul(ty.ones(3, 2)) / n, net(matrix(n)))
      assert.equal(total, net.n)
    end
  end)
end)

-- What tapes are beside --------------------------------------------------------------------------------------------------

describe("sizes are replayed", function()
  before_each(function() jit.stance "default" end)
  after_each(function() jit.stance "default" end)

  local function instances(f)
    local n = 0
    for _, t in ipairs(ty.explain(f).traces) do n = n + t.instances end
    return n
  end

  it("for 500 lengths, with at most 3 captures", function()
    local pair = pair_of(function() return function(x) return (x * 2 + 1):relu() - x / #x, x:sum(), x[{ { 2, -1 } }] end end, vector)
    for n = 2, 501 do
      if n % 25 == 0 then call(pair, n) else pair.compiled(vector(n)) end
    end
    local e = ty.explain(pair.compiled)
    assert.truthy(e.captures <= 3, e.captures .. " captures")
    assert.truthy(e.skips >= 490, e.skips .. " skips")
    assert.truthy(instances(pair.compiled) <= 60, "ranges serve most of them")
  end)

  it("without a line of the function", function()
    local pair = pair_of(function() return function(x) return x * #x, x:numel() / 2 end end, matrix)
    for _, n in ipairs { 4, 5, 6 } do call(pair, n) end
    for n = 7, 40 do
      local result, lines = pair:witness(pair.compiled, matrix(n))
      assert.truthy(result[1])
      assert.equal(0, lines)
    end
    assert.equal(2, ty.explain(pair.compiled).captures)
  end)

  it("with {dynamic = false} never, with a dim marked from the first call on", function()
    local function body() return function(x) return x * #x end end
    local _, e = run { "fixed", 5, body, options = { dynamic = false }, sizes = { 4, 5, 6, 7, 8, 4, 5, 6, 7, 8 } }
    assert.equal(5, e.captures)
    _, e = run { "marked", 1, body, options = { dynamic = { x = { 1 } } } }
    assert.equal(1, e.captures)
    _, e = run { "all", 1, body, options = { dynamic = true } }
    assert.equal(1, e.captures)
  end)

  it("where the stance forbids captures", function()
    local pair = pair_of(function()
      return function(x)
        if #x > 50 then return x * 2 end
        return x * #x
      end
    end, matrix)
    for _, n in ipairs { 4, 5, 6 } do call(pair, n) end
    jit.stance "no_recompile"
    for n = 7, 20 do call(pair, n) end
    assert.equal(2, ty.explain(pair.compiled).captures)
    local message = H.raises(pair.compiled, matrix(60))
    assert.truthy(message:find "no_recompile" and message:find("50", 1, true), message)
    for n = 21, 24 do call(pair, n) end
    jit.stance "default"
    for n = 58, 64 do call(pair, n) end
    assert.equal(3, ty.explain(pair.compiled).captures)
  end)

  it("beside jit.check, and after jit.reset", function()
    local pair = pair_of(function(W)
      local state = { n = 0 }
      W.state = function() return state end
      return function(x)
        state.n = state.n + #x
        return x * state.n + ty.rand(#x, 3)
      end
    end, matrix)
    for _, n in ipairs(SIZES) do call(pair, n) end
    jit.check(pair.compiled, 1)
    for n = 20, 40 do call(pair, n) end
    jit.check(pair.compiled, 0)
    for n = 41, 60 do
      if n % 8 == 0 then jit.reset(pair.compiled) end
      call(pair, n)
    end
    assert.truthy(ty.explain(pair.compiled).captures <= 2)
  end)

  it("with explain telling what was decided", function()
    local f = ty.compile(function(x)
      if #x > 3 and x:size(1) % 2 == 0 then return x * 2 end
      return x
    end)
    for n = 1, 12 do f(matrix(n)) end
    local text = ty.explain(f):full()
    assert.truthy(text:find("sizes 3 < ", 1, true), text)
    assert.truthy(text:find("sizes_spec.lua:", 1, true), text)
  end)

  it("when more ways are taken than tapes are kept", function()
    run { "ways", 25, function()
      return function(x)
        local y = x
        for i = 1, #x % 12 do y = y + i end
        return y
      end
    end, sizes = { 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20, 28, 29, 30, 31, 32, 4, 5, 40, 41, 42, 43, 12, 24, 25 } }
  end)

  it("beyond the sets of sizes that one trace keeps", function()
    local pair = pair_of(function() return function(x) return x + #x end end, vector)
    for n = 1, 700 do pair.compiled(vector(n)) end
    for _, n in ipairs { 1, 2, 700, 350, 3 } do call(pair, n) end
    assert.truthy(ty.explain(pair.compiled).captures <= 3)
  end)

  it("with numbers that a plan was made for, and no others", function()
    local both = function(n, k) return matrix(n), k end
    local function body() return function(x, k) return x:narrow(1, 1, k * #x) + 1 end end
    run { "narrow", 8, body, args = both, ran = 2,
      sizes = { { 4, 0.5 }, { 8, 0.5 }, { 6, 0.5 }, { 8, 0.25 }, { 6, 1 / 3 }, { 4, 0.5 }, { 8, 0.25 }, { 10, 0.2 }, { 10, 0.5 } } }
    local function tile() return function(x, k) return ty.zeros(k, #x), x * k end end
    run { "zeros", 8, tile, args = both, ran = 2,
      sizes = { { 4, 2 }, { 8, 2 }, { 6, 2 }, { 8, 3 }, { 6, 3 }, { 9, 3 }, { 9, 2 }, { 5, 2 } } }
  end)
end)

describe("while sizes are replayed", function()
  local C = ty.internals.capture
  local session, before = C.session, nil

  -- What a finaliser may do between the guards and the session: then the collector rests.
  before_each(function()
    C.session = function(...)
      local change = before
      before = nil
      if change then change() end
      return session(...)
    end
  end)
  after_each(function() C.session, before = session, nil end)

  local function world(change)
    local k, w, v = 2, ty.ones(3), ty.zeros(3)
    local function body(x)
      local y = x:narrow(1, 1, k) + #x
      x:mul_(2):add_(w)
      return y * v, x * k
    end
    local function set(a, b, c) k, w, v = a or k, b or w, c or v end
    local f = ty.compile(body)
    local function check(n)
      local x, y = matrix(n), matrix(n)
      local a, b = f(x)
      local c, d = body(y)
      H.same(c, a)
      H.same(d, b)
      H.same(y, x)
    end
    for n = 4, 6 do check(n) end
    before = function() change(set, f) end
    check(7)
    check(7)
    set(2, ty.ones(3), ty.zeros(3))
    check(7)
    set(3, ty.ones(3) * 5, ty.ones(3))
    for n = 7, 9 do check(n) end
  end

  it("numbers may change", function() world(function(set) set(3) end) end)
  it("bounds may change", function()
    local ranges = require "tycho.capture.ranges"
    local stretch = ranges.stretch
    finally(function() ranges.stretch = stretch end)
    function ranges.stretch() end -- by a range nothing is replayed
    local at = 1
    local function body(x)
      local y = x:narrow(1, at, 2) * at
      at = at + 1
      return y, at
    end
    local f = ty.compile(body)
    local function check(n, now)
      at = n
      local a, b = f(ty.arange(20))
      H.same(ty.arange(20):narrow(1, now, 2) * now, a)
      assert.equal(now + 1, b)
      assert.equal(now + 1, at)
    end
    for n = 1, 4 do check(n, n) end
    for _, now in ipairs { 7, 2, 5, 6 } do
      before = function() at = now end
      check(now + 10, now)
      check(now + 10, now + 10)
      check(now, now)
    end
    before = function() jit.reset(f) end
    check(9, 9)
    for n = 1, 10 do check(n, n) end
  end)
  it("dtypes may change", function() world(function(set) set(2, ty.ones({ 3 }, { dtype = "f64" })) end) end)
  it("sizes and ranks may change", function()
    world(function(set) set(2, ty.ones(7, 3)) end)
    world(function(set) set(2, ty.ones(1), ty.ones(1)) end)
  end)
  it("two tensors may become one", function()
    local one = ty.ones(3)
    world(function(set) set(2, one, one) end)
  end)
  it("something else may stand where a tensor was", function() world(function(set) set(2, 5) end) end)
  it("the function may be called", function()
    world(function(set, f)
      f(matrix(12))
      set(3)
      f(matrix(13))
      f(matrix(7))
    end)
  end)
  it("it may be reset", function() world(function(_, f) jit.reset(f) end) end)
  it("it may be reset and called", function()
    world(function(set, f)
      jit.reset(f)
      set(3)
      for n = 4, 8 do f(matrix(n)) end
      set(2)
    end)
  end)

  it("finalisers may run at any time", function()
    local f
    local state = { n = 0, w = ty.ones(3) }
    f = ty.compile(function(x)
      state.n = state.n + 1
      return x * state.w + #x, x:sum()
    end)
    local calls, busy = 0, false
    local function litter()
      getmetatable(newproxy(true)).__gc = function()
        if busy then return end
        busy = true
        calls = calls + 1
        f(matrix(calls % 90 + 1))
        state.w = ty.ones(3) -- as it was
        if calls % 17 == 0 then jit.reset(f) end
        busy = false
      end
    end
    for n = 1, 300 do
      for _ = 1, 3 do litter() end
      local a, b = f(matrix(n))
      H.same(matrix(n) + n, a)
      H.same(matrix(n):sum(), b)
      if n % 20 == 0 then collectgarbage() end
    end
    collectgarbage()
    assert.truthy(calls > 100)
    assert.equal(300 + calls, state.n)
  end)

  it("memory may run out", function()
    local probe = ty.internals.probe
    local state
    local function body(x)
      state.n = state.n + #x
      state.last = { #x, x:numel() / 2 }
      x[{ { 1, #x - 1 } }]:add_(1)
      return (x * 2):softmax(1), x:reshape(-1) * (state.k / #x), ty.cat { x, x }
    end
    local f = ty.compile(body)
    state = { n = 0, k = 0.5 }
    for n = 3, 6 do f(matrix(n)) end
    local finished, n = 0, 6
    for _, times in ipairs { 1, -1 } do
      for after = 0, 60 do
        n = n + 1
        local x, y = matrix(n), matrix(n)
        x:sum():item()
        local was = state.n
        probe.fail(after, times)
        local ok, a, b, c = pcall(f, x)
        probe.fail(-1)
        if not ok then
          assert.truthy(tostring(a):find "memory", tostring(a))
          state.n = was
          x = matrix(n)
          a, b, c = f(x)
        else
          finished = finished + 1
        end
        assert.same({ was + n, { n, 1.5 * n } }, { state.n, state.last })
        local d, e, g = body(y)
        state.n = was + n
        H.same(d, a)
        H.same(e, b)
        H.same(g, c)
        H.same(y, x)
      end
    end
    assert.truthy(finished > 10 and finished < 122, finished .. " calls finished")
    local captures = ty.explain(f).captures
    for m = 300, 320 do f(matrix(m)) end
    assert.equal(captures, ty.explain(f).captures)
  end)

  it("memory may run out while bounds count on", function()
    local probe = ty.internals.probe
    local memory = { n = 0, x = ty.zeros(300) }
    local f = ty.compile(function(x)
      local n = memory.n + 1
      memory.x:narrow(1, n, 2):copy_(x * n)
      memory.n = n
      return memory.x[{ { 1, n } }]:sum()
    end)
    local x, kept, finished = ty.ones(2), ty.zeros(300), 0
    local function step() return f(x) end
    for after = -4, 110 do
      local n = memory.n + 1
      kept:narrow(1, n, 2):fill_(n)
      if after >= 0 then probe.fail(after % 55, after < 55 and 1 or -1) end
      local ok, y = pcall(step)
      probe.fail(-1)
      if ok then
        finished = finished + 1
      else
        assert.truthy(tostring(y):find "memory", tostring(y))
        assert.equal(n - 1, memory.n)
        y = step()
      end
      assert.equal(n, memory.n)
      H.same(kept[{ { 1, n } }]:sum(), y)
      H.same(kept, memory.x)
    end
    assert.truthy(finished > 10 and finished < 115, finished .. " calls finished")
    assert.truthy(ty.explain(f).captures <= 8, ty.explain(f):full()) -- those that memory ended are made again
  end)
end)
