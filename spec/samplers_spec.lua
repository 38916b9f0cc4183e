--- samplers_spec.lua -- which samples an epoch takes: samplers, batches of their own, datasets joined and cut at random, and what
-- makes a batch of samples.

local H = require "spec.helper"
local ty = H.ty
local data, raised = ty.data, H.raises

local function counted(n, from)
  local x = ty.range(from or 1, (from or 1) + n - 1)
  return data.tensors(x, x * 10)
end

--- The samples of an epoch, batch by batch.
local function epoch(loader)
  local list = {}
  for x in loader do list[#list + 1] = x:totable() end
  return list
end

local function flat(batches)
  local list = {}
  for _, b in ipairs(batches) do
    for _, v in ipairs(b) do list[#list + 1] = v end
  end
  return list
end

local function sorted(list)
  local copy = { unpack(list) }
  table.sort(copy)
  return copy
end

local function numbers(from, to)
  local list = {}
  for i = from, to do list[#list + 1] = i end
  return list
end

describe("datasets joined", function()
  it("give the samples of all, one after the other, whatever their order and batches", function()
    local ds = data.ConcatDataset { counted(3), counted(4, 11),
      data.list { 21, 22 }:map(function(v) return ty.tensor(v), ty.tensor(v * 10) end) }
    assert.equal(9, ds:count())
    assert.same({ 3, 30 }, { ds:get(3):item(), select(2, ds:get(3)):item() })
    assert.same({ 11, 22 }, { ds:get(4):item(), ds:get(-1):item() })
    local all = { 1, 2, 3, 11, 12, 13, 14, 21, 22 }
    for batch = 1, 9 do assert.same(all, flat(epoch(ds:loader { batch = batch })), batch) end
    local loader = ds:loader { batch = 2, shuffle = true, seed = 3 }
    assert.same(all, sorted(flat(epoch(loader))))
    assert.same({ 14, 1, 22 }, flat(epoch(ds:subset({ 7, 1, 9 }):loader { batch = 2 })))
    for x, y in loader do H.same(x * 10, y) end
  end)

  it("can be taken up in the middle", function()
    local ds = data.ConcatDataset { counted(5), counted(6, 11) }
    local a = ds:loader { batch = 2, shuffle = true, seed = 1 }
    local want, rest, n = {}, {}, 0
    for x in a:epoch() do
      n = n + 1
      want[n] = x:totable()
      if n == 2 then
        local b = ds:loader { batch = 2, shuffle = true, seed = 1 }
        b:restore(a:state())
        for v in b:epoch() do rest[#rest + 1] = v:totable() end
      end
    end
    assert.same({ unpack(want, 3) }, rest)
  end)

  it("tell what is none", function()
    assert.truthy(raised(data.ConcatDataset, {}):find("ConcatDataset: argument 1 must be a list of datasets", 1, true))
    assert.truthy(raised(data.ConcatDataset, { counted(1), 3 }):find("entry 2 must be a dataset, got number 3", 1, true))
  end)
end)

describe("a random split", function()
  it("has the lengths asked for, shares nothing and misses nothing", function()
    local a, b, c = data.random_split(counted(10), { 5, 3, 2 }, 4)
    assert.same({ 5, 3, 2 }, { a:count(), b:count(), c:count() })
    assert.same(numbers(1, 10), sorted(flat(epoch(data.ConcatDataset({ a, b, c }):loader()))))
    local again = data.random_split(counted(10), { 5, 3, 2 }, 4)
    assert.same(epoch(a:loader()), epoch(again:loader()))
    assert.falsy(table.concat(flat(epoch(a:loader())), " ") == "1 2 3 4 5")
  end)

  it("of fractions rounds down, and what is left goes to the first ones, as PyTorch's", function()
    local function lengths(n, list)
      local out = {}
      for i, ds in ipairs { data.random_split(counted(n), list) } do out[i] = ds:count() end
      return out
    end
    assert.same({ 4, 3, 3 }, lengths(10, { 1 / 3, 1 / 3, 1 / 3 }))
    assert.same({ 9, 2 }, lengths(11, { 0.8, 0.2 }))
    assert.same({ 1 }, lengths(1, { 1 }))
    assert.same({ 7 }, lengths(7, { 1 }))
  end)

  it("tells lengths that do not add up", function()
    for text, list in pairs { ["the lengths add up to 9, the dataset has 10 samples"] = { 5, 4 },
      ["the fractions add up to 0.9, not to 1"] = { 0.5, 0.4 }, ["length 1 is number -1"] = { -1, 11 },
      ["argument 2 must be a list of lengths"] = {} } do
      local got = raised(data.random_split, counted(10), list)
      assert.truthy(got:find(text, 1, true), got)
    end
  end)
end)

describe("a sampler", function()
  it("of all, in order or not: another order in each epoch, the same for a seed", function()
    assert.same(numbers(1, 5), data.SequentialSampler(5):order():totable())
    local a, b = data.RandomSampler(counted(9), { seed = 2 }), data.RandomSampler(9, { seed = 2 })
    assert.same(numbers(1, 9), sorted(a:order(1):totable()))
    H.same(a:order(3), b:order(3))
    assert.falsy(ty.equal(a:order(1), a:order(2)))
    local many = data.RandomSampler(4, { num_samples = 10 }):order():totable()
    assert.equal(10, #many)
    assert.same(numbers(1, 4), sorted { unpack(many, 1, 4) })
    assert.same(numbers(1, 4), sorted { unpack(many, 5, 8) })
    assert.equal(3, data.RandomSampler(9, { num_samples = 3 }):count())
  end)

  it("with replacement draws each from all, evenly", function()
    local counts = {}
    for _, v in ipairs(data.RandomSampler(5, { replacement = true, num_samples = 50000 }):order():totable()) do
      counts[v] = (counts[v] or 0) + 1
    end
    for i = 1, 5 do assert.near(10000, counts[i], 500) end
  end)

  it("by weights draws in proportion to them, never what has none", function()
    local counts = { 0, 0, 0, 0, 0 }
    local s = data.WeightedRandomSampler({ 0, 1, 3, 6, 0 }, 40000, { seed = 5 })
    for _, v in ipairs(s:order():totable()) do counts[v] = counts[v] + 1 end
    assert.same({ 0, 0 }, { counts[1], counts[5] })
    for i, want in pairs { [2] = 4000, [3] = 12000, [4] = 24000 } do assert.near(want, counts[i], 400) end
    assert.falsy(ty.equal(s:order(1), s:order(2)))
    H.same(s:order(2), data.WeightedRandomSampler(ty.tensor { 0, 1, 3, 6, 0 }, 40000, { seed = 5 }):order(2))
  end)

  it("by weights without replacement draws each once; the first one by its chance", function()
    local first = { 0, 0, 0 }
    for n = 1, 3000 do
      local list = data.WeightedRandomSampler({ 1, 0, 3 }, 2, { replacement = false, seed = n }):order():totable()
      assert.same({ 1, 3 }, sorted(list))
      first[list[1]] = first[list[1]] + 1
    end
    assert.near(750, first[1], 90)
  end)

  it("leaves the library's random numbers alone", function()
    ty.manual_seed(3)
    local want = ty.rand(4)
    ty.manual_seed(3)
    data.WeightedRandomSampler({ 1, 2 }, 5):order()
    data.RandomSampler(3, { replacement = true }):order(2)
    H.same(want, ty.rand(4))
  end)

  it("of some draws these", function()
    local s = data.SubsetRandomSampler({ 2, 5, 7 }, { seed = 1 })
    assert.same({ 2, 5, 7 }, sorted(s:order():totable()))
  end)

  it("gives a loader its samples, whose epochs can be taken up", function()
    local ds = counted(6)
    local function made() return ds:loader { batch = 2, sampler = data.WeightedRandomSampler({ 1, 1, 0, 1, 0, 1 }, 7) } end
    local a = made()
    assert.equal(4, a:count())
    local first, second = epoch(a), epoch(a)
    assert.same({ 2, 2, 2, 1 }, { #first[1], #first[2], #first[3], #first[4] })
    for _, v in ipairs(flat(first)) do assert.truthy(v ~= 3 and v ~= 5) end
    assert.falsy(table.concat(flat(first), " ") == table.concat(flat(second), " "))
    local b = made()
    b:restore { epoch = 2, position = 1, seed = 0 }
    assert.same({ unpack(second, 2) }, epoch(b))
    local own = { order = function() return { 6, 6, 1 } end, count = function() return 3 end }
    assert.same({ { 6, 6 }, { 1 } }, epoch(ds:loader { batch = 2, sampler = own }))
  end)

  it("in batches of its own gives these", function()
    local ds = counted(7)
    local s = data.BatchSampler(data.SequentialSampler(7), 3)
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 }, { 7 } }, s:batches())
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, epoch(ds:loader { batch_sampler = data.BatchSampler(data.SequentialSampler(7), 3, true) }))
    local own = { batches = function(_, n) return { { n }, { 7, 6, 5, 4 }, { 2, 2 } } end, count = function() return 3 end }
    local loader = ds:loader { batch_sampler = own }
    assert.same({ { 1 }, { 7, 6, 5, 4 }, { 2, 2 } }, epoch(loader))
    assert.same({ { 2 }, { 7, 6, 5, 4 }, { 2, 2 } }, epoch(loader))
    loader:restore { epoch = 1, position = 2, seed = 0 }
    assert.same({ { 2, 2 } }, epoch(loader))
  end)

  it("tells what does not fit", function()
    local ds = counted(4)
    for text, fn in pairs {
      ["option sampler must have order(epoch) and count()"] = function() ds:loader { sampler = {} } end,
      ["option batch_sampler must have batches(epoch)"] = function() ds:loader { batch_sampler = data.RandomSampler(3) } end,
      ["option shuffle beside a sampler"] = function() ds:loader { sampler = data.RandomSampler(3), shuffle = true } end,
      ["option batch beside a batch_sampler"] = function()
        ds:loader { batch_sampler = data.BatchSampler(data.RandomSampler(3), 2), batch = 2 }
      end,
      ["sampler: sample numbers go from 1 to 4, got 1 to 9"] = function() epoch(ds:loader { sampler = data.SequentialSampler(9) }) end,
      ["WeightedRandomSampler: weights must be at least 0"] = function() data.WeightedRandomSampler({ 1, -1 }, 2) end,
      ["2 samples are asked for, 1 have a weight"] = function() data.WeightedRandomSampler({ 1, 0 }, 2, { replacement = false }) end,
      ["argument 2 (num_samples) must be a whole number from 1"] = function() data.WeightedRandomSampler({ 1, 0 }) end,
      ["RandomSampler: argument 1 must be a dataset or a number"] = function() data.RandomSampler("x") end,
      ["BatchSampler: argument 1 must be a sampler, got nil"] = function() data.BatchSampler(nil, 2) end,
    } do
      local got = raised(fn)
      assert.truthy(got:find(text, 1, true), got)
    end
  end)
end)

describe("samples made into a batch", function()
  it("by a function of one's own: sequences of unlike lengths, padded", function()
    local ds = data.lazy(4, function(i) return ty.full({ i }, i), i end)
    local loader = ds:loader { batch = 3, collate = function(samples)
      local longest, list, lengths = 0, {}, {}
      for i, s in ipairs(samples) do longest, lengths[i] = math.max(longest, s[1]:size(1)), s[2] end
      for i, s in ipairs(samples) do list[i] = s[1]:pad { { 0, longest - s[1]:size(1) } } end
      return data.collate(list), data.collate(lengths)
    end }
    local got = {}
    for x, n in loader do got[#got + 1] = { x:totable(), n:totable() } end
    assert.same({ { { { 1, 0, 0 }, { 2, 2, 0 }, { 3, 3, 3 } }, { 1, 2, 3 } }, { { { 4, 4, 4, 4 } }, { 4 } } }, got)
    assert.truthy(raised(function() epoch(ds:loader { collate = function() end }) end):find("collate returned nothing", 1, true))
  end)

  it("stands side by side, whatever it is", function()
    local y = data.collate { { x = 1, s = "a", t = ty.ones(2) }, { x = 2, s = "b", t = ty.zeros(2) } }
    assert.same({ { 1, 2 }, { "a", "b" }, { { 1, 1 }, { 0, 0 } } }, { y.x:totable(), y.s, y.t:totable() })
    assert.truthy(raised(data.collate, {}):find("must be made of a list of samples", 1, true))
  end)
end)
