--- moves_spec.lua -- views, joins, gathers, scatters, sorting: element by element against the obvious definition, eager and
--- compiled.

local H = require "spec.helper"
local ty = H.ty

--- Calls fn with each 1-based index of a shape.
local function each(shape, fn)
  local index = {}
  local function walk(d)
    if d > #shape then return fn(index) end
    for i = 1, shape[d] do
      index[d] = i
      walk(d + 1)
    end
  end
  walk(1)
end

--- y has that shape, and at each index the value that `of(index)` gives.
local function is(y, shape, of)
  assert.same(shape, y.shape)
  each(shape, function(index)
    local want, got = of(index), y:get(unpack(index))
    if want ~= got and (want == want or got == got) then
      error(("at {%s}: %s instead of %s"):format(table.concat(index, ","), tostring(got), tostring(want)), 2)
    end
  end)
end

--- Checks what fn(...) gives, eager and compiled, for operands that lie in memory in several ways.
local function both(fn, x, check)
  local compiled = ty.compile(fn)
  local ways = { x, x:flip():clone():flip() }
  if x.ndim >= 2 then ways[3] = x:transpose(1, -1):clone():transpose(1, -1) end
  for _, v in ipairs(ways) do
    check(fn(v))
    check(compiled(v))
  end
end

local x345 = ty.arange(60):reshape(3, 4, 5)
local function value(i, j, k) return (i - 1) * 20 + (j - 1) * 5 + k - 1 end

describe("views", function()
  it("share their storage: a write through one is seen by all", function()
    local x = ty.arange(60):reshape(3, 4, 5)
    local views = { x[1]:t(), x:permute { 3, 1, 2 }, x:transpose(1, 3), x[{ {}, { 1, 4, 3 } }], x:flip(), x:unsqueeze(2),
      x:diagonal(0, 1, 2), x:unfold(3, 3), x:reshape(60), x:view(12, 5), x:movedim(1, 3), x:narrow(2, 1, 2), x[1],
      x:unbind()[1], x:split(2)[1], x:expand(2, 3, 4, 5), x:flatten(1, 2), x:unflatten(3, { 5, 1 }), x:squeeze() }
    for i, v in ipairs(views) do
      local before = v:sum():item()
      x:set(1, 1, 1, x:get(1, 1, 1) + 1000)
      assert.truthy(v:sum():item() > before, "view " .. i)
    end
  end)

  it("transpose, permute and movedim exchange indices", function()
    both(function(x) return x:transpose(1, 3) end, x345, function(y)
      is(y, { 5, 4, 3 }, function(i) return value(i[3], i[2], i[1]) end)
    end)
    both(function(x) return x:permute { 3, 1, 2 } end, x345, function(y)
      is(y, { 5, 3, 4 }, function(i) return value(i[2], i[3], i[1]) end)
    end)
    both(function(x) return x:movedim(1, -1) end, x345, function(y)
      is(y, { 4, 5, 3 }, function(i) return value(i[3], i[1], i[2]) end)
    end)
    both(function(x) return x:movedim({ 1, 2 }, { 3, 1 }) end, x345, function(y)
      is(y, { 4, 5, 3 }, function(i) return value(i[3], i[1], i[2]) end)
    end)
  end)

  it("reshape keeps the row-major order, of strided tensors too", function()
    both(function(x) return x:reshape(4, -1) end, x345, function(y)
      is(y, { 4, 15 }, function(i) return (i[1] - 1) * 15 + i[2] - 1 end)
    end)
    both(function(x) return x:permute({ 2, 3, 1 }):reshape(20, 3) end, x345, function(y)
      is(y, { 20, 3 }, function(i) return value(i[2], math.floor((i[1] - 1) / 5) + 1, (i[1] - 1) % 5 + 1) end)
    end)
    both(function(x) return x:flatten(2):unflatten(2, { 2, -1 }) end, x345, function(y)
      is(y, { 3, 2, 10 }, function(i) return (i[1] - 1) * 20 + (i[2] - 1) * 10 + i[3] - 1 end)
    end)
  end)

  it("flip, narrow, slice and ranges walk in steps of either sign", function()
    both(function(x) return x:flip { 1, 3 } end, x345, function(y)
      is(y, { 3, 4, 5 }, function(i) return value(4 - i[1], i[2], 6 - i[3]) end)
    end)
    both(function(x) return x:narrow(2, 2, 3) end, x345, function(y)
      is(y, { 3, 3, 5 }, function(i) return value(i[1], i[2] + 1, i[3]) end)
    end)
    both(function(x) return x[{ {}, { -1, 1, -2 }, { 2, 5, 2 } }] end, x345, function(y)
      is(y, { 3, 2, 2 }, function(i) return value(i[1], 4 - 2 * (i[2] - 1), 2 * i[3]) end)
    end)
    both(function(x) return x:slice(3, 5, 1, -3) end, x345, function(y)
      is(y, { 3, 4, 2 }, function(i) return value(i[1], i[2], 5 - 3 * (i[3] - 1)) end)
    end)
  end)

  it("expand repeats dims of size 1, diagonal and unfold pick overlapping elements", function()
    both(function(x) return x[{ {}, { 2 } }]:expand(2, 3, 4, -1) end, x345, function(y)
      is(y, { 2, 3, 4, 5 }, function(i) return value(i[2], 2, i[4]) end)
    end)
    for offset = -2, 3 do
      both(function(x) return x:diagonal(offset, 1, 2) end, x345, function(y)
        local rows, columns = 3 + math.min(offset, 0), 4 - math.max(offset, 0)
        is(y, { 5, math.max(0, math.min(rows, columns)) }, function(i)
          return value(i[2] - math.min(offset, 0), i[2] + math.max(offset, 0), i[1])
        end)
      end)
    end
    both(function(x) return x:unfold(3, 3, 2) end, x345, function(y)
      is(y, { 3, 4, 2, 3 }, function(i) return value(i[1], i[2], (i[3] - 1) * 2 + i[4]) end)
    end)
  end)

  it("squeeze and unsqueeze drop and insert dims of size 1", function()
    assert.same({ 3, 4, 5 }, x345:unsqueeze(1):unsqueeze(-1):squeeze().shape)
    assert.same({ 3, 4, 5, 1 }, x345:unsqueeze(1):unsqueeze(-1):squeeze(1).shape)
    assert.same({ 3, 4, 1, 5 }, x345:unsqueeze(-2).shape)
  end)

  it("split, chunk and unbind cut a dim into views in order", function()
    local function shapes(list)
      local y = {}
      for i, t in ipairs(list) do y[i] = t:size(2) end
      return y
    end
    assert.same({ 3, 1 }, shapes(x345:split(3, 2)))
    assert.same({ 1, 0, 3 }, shapes(x345:split({ 1, 0, 3 }, 2)))
    assert.same({ 2, 2 }, shapes(x345:chunk(2, 2)))
    assert.same({ 2, 2 }, shapes(x345:chunk(3, 2)))
    for i, t in ipairs(x345:unbind(2)) do
      is(t, { 3, 5 }, function(k) return value(k[1], i, k[2]) end)
    end
  end)
end)

describe("joins and repeats", function()
  it("cat joins thousands of tensors, also under a gradient", function()
    local list, want = {}, {}
    for i = 1, 3000 do
      list[i] = ty.tensor({ i, -i }):requires_grad_()
      want[2 * i - 1], want[2 * i] = i, -i
    end
    local y = ty.cat(list)
    assert.truthy(y:equal(ty.tensor(want)))
    y:square():sum():backward()
    for i = 1, 3000 do assert.truthy(list[i].grad:equal(ty.tensor { 2 * i, -2 * i })) end
  end)

  it("cat puts tensors of promoted dtype behind each other, empty ones too", function()
    for d = 1, 3 do
      local function join(x) return ty.cat({ x, x:narrow(d, 1, 2) * 2, x:narrow(d, 1, 0), x:to("f64") }, d) end
      both(join, x345, function(y)
        assert.equal("f64", y.dtype)
        local n = x345:size(d)
        local sizes = { 3, 4, 5 }
        sizes[d] = n * 2 + 2
        is(y, sizes, function(i)
          local k = { i[1], i[2], i[3] }
          if i[d] <= n then return value(unpack(k)) end
          if i[d] <= n + 2 then
            k[d] = i[d] - n
            return 2 * value(unpack(k))
          end
          k[d] = i[d] - n - 2
          return value(unpack(k))
        end)
      end)
    end
  end)

  it("stack makes a new dim at any place", function()
    for d = 1, 4 do
      both(function(x) return ty.stack({ x, x + 1 }, d) end, x345, function(y)
        is(y, ({ { 2, 3, 4, 5 }, { 3, 2, 4, 5 }, { 3, 4, 2, 5 }, { 3, 4, 5, 2 } })[d], function(i)
          local k = { i[1], i[2], i[3], i[4] }
          local which = table.remove(k, d)
          return value(unpack(k)) + which - 1
        end)
      end)
    end
  end)

  it("pad surrounds from dim 1 with a value", function()
    both(function(x) return x:pad({ { 1, 0 }, 2 }, -1) end, x345, function(y)
      is(y, { 4, 8, 5 }, function(i)
        local a, b = i[1] - 1, i[2] - 2
        if a < 1 or b < 1 or b > 4 then return -1 end
        return value(a, b, i[3])
      end)
    end)
  end)

  it("roll moves places round, over one dim, several, or the flattened tensor", function()
    both(function(x) return x:roll(2, 3) end, x345, function(y)
      is(y, { 3, 4, 5 }, function(i) return value(i[1], i[2], (i[3] - 3) % 5 + 1) end)
    end)
    both(function(x) return x:roll({ -1, 6 }, { 1, 2 }) end, x345, function(y)
      is(y, { 3, 4, 5 }, function(i) return value(i[1] % 3 + 1, (i[2] - 7) % 4 + 1, i[3]) end)
    end)
    both(function(x) return x:roll(7) end, x345, function(y)
      is(y, { 3, 4, 5 }, function(i) return (value(unpack(i)) - 7) % 60 end)
    end)
  end)

  it("tile repeats the whole, repeat_interleave each element", function()
    both(function(x) return x:tile { 2, 1, 3 } end, x345, function(y)
      is(y, { 6, 4, 15 }, function(i) return value((i[1] - 1) % 3 + 1, i[2], (i[3] - 1) % 5 + 1) end)
    end)
    both(function(x) return x[1]:tile(2, 1, 1) end, x345, function(y)
      is(y, { 2, 4, 5 }, function(i) return value(1, i[2], i[3]) end)
    end)
    both(function(x) return x:repeat_interleave(3, 2) end, x345, function(y)
      is(y, { 3, 12, 5 }, function(i) return value(i[1], math.floor((i[2] - 1) / 3) + 1, i[3]) end)
    end)
    assert.same({ 1, 3, 3, 3 }, ty.tensor({ 1, 2, 3 }):repeat_interleave(ty.tensor({ 1, 0, 3 }, { dtype = "i64" })):totable())
    assert.same({ 1, 1, 2, 2 }, ty.tensor({ { 1 }, { 2 } }):repeat_interleave(2):totable())
  end)
end)

local function positions(shape, size, seed)
  local r, n = H.random(seed), 1
  for _, s in ipairs(shape) do n = n * s end
  local list = {}
  for i = 1, n do
    local p = r.whole(1, size)
    list[i] = r.whole(1, 2) == 1 and p or p - size - 1 -- from the end
  end
  return ty.tensor(list, { dtype = "i64" }):reshape(shape)
end

local function place(i, size) return i < 0 and i + size + 1 or i end

describe("gather and its kin", function()
  it("gather takes the index's element along a dim, counting from the end where it is negative", function()
    for d = 1, 3 do
      local shape = { 2, 3, 4 }
      shape[d] = 6
      local at = positions(shape, x345:size(d), d)
      for _, dtype in ipairs { "i64", "i32", "i8" } do
        both(function(x) return x:gather(d, at:to(dtype)) end, x345, function(y)
          is(y, shape, function(i)
            local k = { i[1], i[2], i[3] }
            k[d] = place(at:get(unpack(i)), x345:size(d))
            return value(unpack(k))
          end)
        end)
      end
    end
  end)

  it("index_select and take pick places of a dim, take also of the flattened tensor", function()
    both(function(x) return x:index_select(2, ty.tensor({ 4, 1, 4 }, { dtype = "i64" })) end, x345, function(y)
      is(y, { 3, 3, 5 }, function(i) return value(i[1], ({ 4, 1, 4 })[i[2]], i[3]) end)
    end)
    both(function(x) return x:take({ { 1, -1 }, { 7, 60 } }) end, x345, function(y)
      assert.same({ { 0, 59 }, { 6, 59 } }, y:totable())
    end)
    both(function(x) return x:take({ { 5, 1 }, { 2, 2 } }, 3) end, x345, function(y)
      is(y, { 3, 4, 2, 2 }, function(i) return value(i[1], i[2], ({ { 5, 1 }, { 2, 2 } })[i[3]][i[4]]) end)
    end)
  end)

  it("scatter writes in order, the last of equal positions wins; scatter_add adds in order", function()
    for d = 1, 2 do
      local base = ty.arange(12):reshape(3, 4)
      local at, src = positions({ 3, 4 }, base:size(d), d + 5), ty.arange(12):reshape(3, 4) + 100
      local want, added = base:totable(), base:totable()
      each({ 3, 4 }, function(i)
        local k = { i[1], i[2] }
        k[d] = place(at:get(unpack(i)), base:size(d))
        want[k[1]][k[2]] = src:get(unpack(i))
        added[k[1]][k[2]] = added[k[1]][k[2]] + src:get(unpack(i))
      end)
      both(function(x) return x:scatter(d, at, src) end, base, function(y) assert.same(want, y:totable()) end)
      both(function(x) return x:scatter_add(d, at, src) end, base, function(y) assert.same(added, y:totable()) end)
      local y = base:clone()
      assert.equal(y, y:scatter_(d, at, src))
      assert.same(want, y:totable())
    end
    assert.same({ 0, 7, 0 }, ty.zeros(3):scatter(1, ty.tensor({ 2 }, { dtype = "i64" }), 7):totable())
  end)

  it("scatter_add rounds after each addition, in order", function()
    local x = ty.zeros({ 1 }, { dtype = "f16" })
    local src = ty.full({ 3000 }, 1, { dtype = "f16" })
    assert.equal(2048, x:scatter_add(1, ty.ones({ 3000 }, { dtype = "i64" }), src):item())
  end)

  it("index_add adds places of a dim", function()
    local y = ty.zeros(4, 2):index_add(1, ty.tensor({ 2, -1, 2 }, { dtype = "i64" }), ty.tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } })
    assert.same({ { 0, 0 }, { 6, 8 }, { 0, 0 }, { 3, 4 } }, y:totable())
  end)

  it("raise for positions that are 0, out of range or not whole, and name position and bounds", function()
    local x = ty.zeros(3, 4)
    assert.equal("gather: index 0 at (1, 2) is out of range 1..4",
      H.raises(x.gather, x, 2, ty.tensor({ { 1, 0 } }, { dtype = "i64" })))
    assert.truthy(H.raises(x.gather, x, 2, ty.tensor({ { 5 } }, { dtype = "i64" })):find("^gather: index 5"))
    assert.truthy(H.raises(x.gather, x, 2, ty.tensor({ { -5 } }, { dtype = "i64" })):find("^gather: index %-5"))
    assert.truthy(H.raises(x.gather, x, 2, ty.tensor { { 1 } }):find("^gather: .*f32"))
    assert.truthy(H.raises(x.scatter, x, 1, ty.tensor({ { 4 } }, { dtype = "i64" }), ty.ones(1, 1)):find("^scatter: index 4"))
  end)
end)

describe("masks", function()
  local x = ty.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
  local mask = x:gt(2)

  it("masked_fill and masked_select write and read where the mask holds", function()
    both(function(v) return v:masked_fill(mask, -1) end, x, function(y) assert.same({ { 1, 2, -1 }, { -1, -1, -1 } }, y:totable()) end)
    both(function(v) return v:masked_select(mask) end, x, function(y) assert.same({ 3, 4, 5, 6 }, y:totable()) end)
    assert.same({ 1, 3, 4, 6 }, x:masked_select(ty.tensor { true, false, true }):totable())
    assert.same({ 0 }, x:masked_select(x:gt(9)).shape)
  end)

  it("nonzero and masked_select go by any strides, in every dtype", function()
    for _, dtype in ipairs(H.dtypes) do
      local all = H.mixed(dtype, { 7, 5, 9 }, 2)
      if H.wide[dtype] then all = all % 1000 end
      all = ty.where(ty.randint(0, 1, { 7, 5, 9 }):eq(0), all, ty.zeros_like(all))
      local part = all[{ { 1 } }]:expand(3, 5, 9)
      for _, v in ipairs { all, all:transpose(1, 3), all:flip(), all[{ {}, 2 }], all[{ {}, {}, { 1, 9, 2 } }], part } do
        local list, want, chosen, at = H.list(v), {}, {}, v:nonzero()
        local where = {}
        each(v.shape, function(index)
          local e = v:get(unpack(index))
          if type(e) == "boolean" then e = e and 1 or 0 end
          if e ~= 0 then
            where[#where + 1] = { unpack(index) }
            chosen[#chosen + 1] = e == e and e or "nan"
          end
          want[#want + 1] = e
        end)
        assert.equal(#list, #want)
        assert.same(where, at:totable())
        local got = H.list(v:masked_select(v:ne(0)))
        for i = 1, #got do if got[i] ~= got[i] then got[i] = "nan" end end
        assert.same(chosen, got)
      end
    end
    assert.same({}, ty.tensor({ -0.0, 0 }):nonzero():flatten():totable())
    assert.same({ 1, 0 }, ty.tensor(3):nonzero().shape)
    assert.same({ 0, 0 }, ty.tensor(0):nonzero().shape)
  end)

  it("masked_select broadcasts a mask over rows, and rows over a mask", function()
    local some = ty.tensor { { true, false, true, false }, { false, true, true, false } }
    assert.same({ 1, 3, 2, 3 }, ty.arange(1, 5):masked_select(some):totable())
    assert.same({ 1, 3, 5, 7 }, ty.arange(1, 9):reshape(2, 4):masked_select(some[1]):totable())
  end)

  it("nonzero lists positions in order, one row each; of nothing it is empty", function()
    assert.same({ { 1, 3 }, { 2, 1 }, { 2, 2 }, { 2, 3 } }, mask:nonzero():totable())
    assert.same({ 0, 2 }, x:gt(9):nonzero().shape)
    assert.same({ { 2 }, { 3 } }, ty.tensor({ 0, 0 / 0, -1 }):nonzero():totable())
  end)

  it("one_hot puts a 1 at each class", function()
    assert.same({ { 0, 1, 0 }, { 1, 0, 0 } }, ty.tensor({ 2, 1 }, { dtype = "i64" }):one_hot(3):totable())
    assert.same({ 2, 2, 4 }, ty.tensor({ { 2, 1 }, { 4, 4 } }, { dtype = "i32" }):one_hot().shape)
  end)
end)

-- Sorting -----------------------------------------------------------------------------------------------------------

--- Order of numbers; NaN is the largest.
local function before(a, b)
  if a ~= a then return false end
  return b ~= b or a < b
end

local function sorted_positions(list, descending)
  local at = {}
  for i = 1, #list do at[i] = i end
  for i = 2, #at do -- insertion: stable and obvious
    local p, k = at[i], i
    local function earlier(a, b)
      if descending then return before(list[b], list[a]) end
      return before(list[a], list[b])
    end
    while k > 1 and earlier(p, at[k - 1]) do
      at[k] = at[k - 1]
      k = k - 1
    end
    at[k] = p
  end
  return at
end

describe("sorting", function()
  it("argsort and sort are stable, NaN the largest, in every dtype and either direction", function()
    for _, dtype in ipairs(H.dtypes) do
      for _, n in ipairs { 0, 1, 2, 15, 16, 17, 33, 130 } do
        local x = H.mixed(dtype, n, n)
        if H.wide[dtype] then x = x % 1000 end -- exact as doubles
        for _, descending in ipairs { false, true } do
          local want = sorted_positions(H.list(x), descending)
          assert.same(want, x:argsort(1, descending):totable(), dtype)
          local values, at = x:sort(1, descending)
          assert.same(want, at:totable())
          H.same(x:gather(1, at), values)
        end
      end
    end
  end)

  it("along any dim sorts each line", function()
    local x = H.mixed("f32", { 5, 6, 7 }, 4)
    for d = 1, 3 do
      local y, at = x:sort(d)
      H.same(y, x:gather(d, at))
      local lines = x:movedim(d, -1):reshape(-1, x:size(d))
      local sorted = at:movedim(d, -1):reshape(-1, x:size(d))
      for i = 1, lines:size(1), 5 do assert.same(sorted_positions(H.list(lines[i])), sorted[i]:totable()) end
      H.same(x:argsort(d), ty.compile(function(v) return v:argsort(d) end)(x))
    end
  end)

  --- Positions that sort a list, by the host's sort: ties go by their place.
  local function host_sorted(list, descending)
    local at = {}
    for i = 1, #list do at[i] = i end
    table.sort(at, function(p, q)
      local a, b = list[p], list[q]
      if descending then a, b = b, a end
      if before(a, b) then return true end
      return not before(b, a) and p < q
    end)
    return at
  end

  --- Checks all rows of x, its last dim, sorted in both directions; x also as it lies turned in memory.
  local function check_rows(x)
    for _, descending in ipairs { false, true } do
      local at = x:argsort(-1, descending)
      for r = 1, x:size(1) do assert.same(host_sorted(H.list(x[r]), descending), at[r]:totable()) end
      H.same(at, x:t():clone():argsort(1, descending):t())
      H.same(at, x:t():clone():t():argsort(2, descending))
    end
  end

  it("of any number of rows is that of each", function()
    for rows = 1, 19 do check_rows(H.mixed("f32", { rows, 37 }, rows)) end
  end)

  it("of rows side by side is that of each, at any length, with ties", function()
    for _, n in ipairs { 1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 33, 40, 63, 65, 72, 100, 129, 200, 255, 257, 520, 1000 } do
      check_rows(ty.randint(-n, n, { 9, n }):to("f32") / 4)
    end
  end)

  it("of rows side by side is that of each, in every dtype", function()
    for _, dtype in ipairs(H.dtypes) do
      local x = H.mixed(dtype, { 11, 45 }, 3)
      if H.wide[dtype] then x = x % 1000 end
      check_rows(x)
    end
  end)

  it("of rows too long to go side by side is that of each", function()
    check_rows(ty.randint(0, 3000, { 4, 5000 }):to("f32"))
  end)

  it("with two threads is the same", function()
    local x = ty.randint(0, 500, { 37, 300 }):to("f32")
    local one = x:argsort()
    local threads = ty.threads()
    ty.threads(2)
    local two = x:argsort()
    ty.threads(threads)
    H.same(one, two)
  end)

  it("of keys of 8 bytes looks at lower halves where upper ones are equal", function()
    local upper = ty.tensor { 0, -1, 3, 1 / 4 }
    for _, most in ipairs { 0, 3, 40, 1000 } do -- few upper halves, and many
      local x = ty.randint(-most, most, { 700 }) * 2 ^ 32 + ty.randint(0, 50, { 700 })
      assert.same(host_sorted(x:totable()), x:argsort():totable())
      assert.same(host_sorted(x:totable(), true), x:argsort(1, true):totable())
      local y = upper:to("f64"):take(ty.randint(1, 4, { 700 })) + ty.randint(-9, 9, { 700 }):to("f64") * 2 ^ -50
      assert.same(host_sorted(y:totable()), y:argsort():totable())
    end
  end)

  it("of i64 is exact beyond 2^53", function()
    local v = H.ffi.new("int64_t[4]", { 9007199254740993LL, 9007199254740992LL, -9007199254740993LL, -9007199254740992LL })
    local x = H.tensor("i64", H.ffi.cast("uint8_t *", v), { 4 })
    assert.same({ 3, 4, 2, 1 }, x:argsort():totable())
    assert.same({ 1, 2, 4, 3 }, x:argsort(1, true):totable())
  end)

  it("topk gives the k first in order with their positions, NaN as the largest", function()
    local x = ty.tensor { { 3, 1, 2, 3 }, { 0 / 0, 5, -1, 4 } }
    local y, at = x:topk(2)
    assert.same({ { 1, 4 }, { 1, 2 } }, at:totable())
    assert.equal(3, y:get(1, 2))
    local z, low = x:topk(2, 2, false)
    assert.same({ { 1, 2 }, { -1, 4 } }, z:totable())
    assert.same({ { 2, 3 }, { 3, 4 } }, low:totable())
    assert.same({ 0, 4 }, x:topk(0, 1).shape)
  end)

  it("topk gives what sort gives first, of many and of few, in every dtype", function()
    for _, dtype in ipairs(H.dtypes) do
      for _, shape in ipairs { { 3, 400 }, { 12, 90 }, { 400, 3 }, { 1, 20 } } do
        local x = H.mixed(dtype, shape, 7)
        for dim = 1, 2 do
          for _, k in ipairs { 0, 1, 2, 10, 11, 33, 50, 400 } do
            if k <= x:size(dim) then
              for _, largest in ipairs { true, false } do
                local values, at = x:sort(dim, largest)
                local first = dim == 1 and { { 1, k } } or { {}, { 1, k } }
                local y, where = x:topk(k, dim, largest)
                if k == 0 then
                  assert.equal(0, y:numel() + where:numel())
                else
                  H.same(values[first], y)
                  H.same(at[first], where)
                end
                local again, there = ty.compile(function(v) return v:topk(k, dim, largest) end)(x)
                H.same(y, again)
                H.same(where, there)
              end
            end
          end
        end
      end
    end
  end)

  it("topk of rows that grow and shrink keeps the best", function()
    for _, x in ipairs { ty.arange(0, 1000), ty.arange(0, 1000):flip():clone(), ty.zeros(1000) } do
      for _, largest in ipairs { true, false } do
        local _, at = x:topk(20, 1, largest)
        H.same((select(2, x:sort(1, largest)))[{ { 1, 20 } }], at)
      end
    end
  end)

  it("unique gives sorted values and where each element stands among them", function()
    local y, at = ty.tensor({ { 3, 1 }, { 3, 2 } }):unique()
    assert.same({ 1, 2, 3 }, y:totable())
    assert.same({ { 3, 1 }, { 3, 2 } }, at:totable())
    assert.equal(2, (ty.tensor { 0 / 0, 1, 0 / 0 }:unique()):numel())
    assert.same({ 0 }, (ty.zeros { 0 }:unique()).shape)
  end)

  it("unique holds -0 for 0 and all NaNs for one, gives what came first, and says where in x's shape", function()
    for _, dtype in ipairs { "f16", "bf16", "f32", "f64" } do
      local x = ty.tensor({ { 0 / 0, -0.0, 2 }, { 0, -(0 / 0), -1 } }, { dtype = dtype })
      local y, at = x:unique()
      assert.same({ -1, 0, 2 }, y[{ { 1, 3 } }]:totable())
      assert.equal(-1 / 0, 1 / y:get(2))
      assert.truthy(y:get(4) ~= y:get(4))
      assert.same({ { 4, 2, 3 }, { 2, 4, 1 } }, at:totable())
    end
  end)

  it("unique of many finds each again", function()
    for _, dtype in ipairs(H.dtypes) do
      local x = H.mixed(dtype, { 60, 50 }, 5)
      if H.wide[dtype] then x = x % 1000 end
      for _, v in ipairs { x, x:t(), x:flip() } do
        local y, at = v:unique()
        assert.is_true(y:take(at):eq(v):logical_or(v:ne(v)):all():item())
        if y:numel() > 1 then
          local d = H.list(y)
          for i = 2, #d do assert.is_true(before(d[i - 1], d[i])) end
        end
      end
    end
  end)

  it("searchsorted counts what lies before a value, to its left or right", function()
    local sorted = ty.tensor { 1, 2, 2, 5 }
    assert.same({ 1, 2, 4, 5, 5 }, sorted:searchsorted(ty.tensor { 0, 2, 3, 7, 0 / 0 }):totable())
    assert.same({ 1, 4, 4, 5, 5 }, sorted:searchsorted(ty.tensor { 0, 2, 3, 7, 0 / 0 }, true):totable())
    assert.equal(4, sorted:searchsorted(2.5):item())
    local rows = ty.tensor { { 1, 3 }, { 10, 30 } }
    assert.same({ { 2 }, { 1 } }, rows:searchsorted(ty.tensor { { 2 }, { 5 } }):totable())
    for _, dtype in ipairs(H.dtypes) do
      if not H.wide[dtype] then
        local x, v = H.mixed(dtype, 100, 1):sort(), H.mixed(dtype, 40, 2)
        local list, queries, got = H.list(x), H.list(v), x:searchsorted(v):totable()
        for i, q in ipairs(queries) do
          local k = 0
          while k < #list and before(list[k + 1], q) do k = k + 1 end
          assert.equal(k + 1, got[i], dtype)
        end
      end
    end
  end)

  it("searchsorted counts in rows of every length, to the ends of each dtype, with infinities and NaN", function()
    local most = { u8 = 255, i8 = 127, i64 = 2 ^ 53, f16 = 1 / 0, f32 = 1 / 0, f64 = 1 / 0 }
    local function below(a, b) return a < b or b ~= b and a == a end
    for dtype, last in pairs(most) do
      local values = dtype:find "f" and { -1 / 0, -2, -0.0, 0, 1, 2.5, last, 0 / 0 } or { 0, 1, 5, 9, last - 1, last }
      local v = ty.tensor(values, { dtype = dtype })
      for n = 0, 34 do
        local list = {}
        for i = 1, n do list[i] = values[(i * 7 + n) % #values + 1] end
        table.sort(list, below)
        local x = ty.tensor(list, { dtype = dtype })
        for _, right in ipairs { false, true } do
          local got = x:searchsorted(v, right):totable()
          for k, b in ipairs(values) do
            local count = 0
            for _, a in ipairs(list) do
              if below(a, b) or right and not below(b, a) then count = count + 1 end
            end
            assert.equal(count + 1, got[k], dtype)
          end
        end
      end
    end
  end)

  it("median takes the lower middle, NaN wins", function()
    assert.equal(2, ty.tensor({ 3, 1, 2, 4 }):median():item())
    assert.equal(3, ty.tensor({ 3, 1, 5 }):median():item())
    assert.same({ 1, 2 }, ty.tensor({ { 1, 2 }, { 3, 4 } }):median(1):totable())
    local v = ty.tensor({ 1, 0 / 0, 3 }):median():item()
    assert.truthy(v ~= v)
  end)
end)

describe("products by labels", function()
  local r = H.random(3)
  local function grid(...)
    local list, n = {}, 1
    for _, s in ipairs { ... } do n = n * s end
    for i = 1, n do list[i] = r.whole(-9, 9) end
    return ty.tensor(list):reshape { ... }
  end

  it("einsum sums as the letters say", function()
    local a, b, c = grid(3, 4), grid(4, 5), grid(5)
    H.same(a:matmul(b), ty.einsum("ij,jk->ik", a, b))
    H.same(a:matmul(b):t(), ty.einsum("ij,jk->ki", a, b))
    H.same(a:t(), ty.einsum("ij->ji", a))
    H.same(a:sum(1), ty.einsum("ij->j", a))
    H.same(a:sum(), ty.einsum("ij->", a))
    H.same(a:matmul(b):matmul(c), ty.einsum("ij,jk,k->i", a, b, c))
    H.same(c:outer(c), ty.einsum("i,j->ij", c, c))
    H.same((c * c):sum(), ty.einsum("i,i", c, c))
    local s, t = grid(2, 3, 4), grid(2, 4, 5)
    H.same(s:bmm(t), ty.einsum("bij,bjk->bik", s, t))
    H.same(s:bmm(t), ty.einsum("...ij,...jk->...ik", s, t))
    local q = grid(4, 4)
    H.same(q:diagonal():sum(), ty.einsum("ii->", q))
    H.same(q:diagonal(), ty.einsum("ii->i", q))
  end)

  it("tensordot sums over pairs of dims", function()
    local a, b = grid(3, 4, 5), grid(4, 5, 6)
    H.same(a:reshape(3, 20):matmul(b:reshape(20, 6)), a:tensordot(b))
    H.same(a:tensordot(b), a:tensordot(b, { { 2, 3 }, { 1, 2 } }))
    assert.same({ 3, 4, 5, 4, 5, 6 }, a:tensordot(b, 0).shape)
  end)

  it("dot, outer, bmm and addmm are what their names say", function()
    local a, b = grid(4), grid(4)
    assert.equal((a * b):sum():item(), a:dot(b):item())
    is(a:outer(b), { 4, 4 }, function(i) return a:get(i[1]) * b:get(i[2]) end)
    local c, m, n = grid(3, 5), grid(3, 4), grid(4, 5)
    H.same(c * 2 + m:matmul(n) * 3, c:addmm(m, n, { alpha = 3, beta = 2 }))
    H.same(c + m:matmul(n), c:addmm(m, n))
  end)
end)
