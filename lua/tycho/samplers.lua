--- samplers.lua -- which samples an epoch takes, and in what order; datasets joined and cut at random: part of
--- `ty.data`. A sampler has order(epoch): the numbers of the samples as an i64 tensor, which depend on its seed and
--- the epoch alone, and count(): how many. A batch sampler has batches(epoch): a list of lists of them, and count():
--- how many lists. Any table with these methods is one.

---@param ty table the module tycho
---@param M table ty.data, which is filled
---@param internals table what datasets are made of, see data.lua
return function(ty, M, internals)
  local check = require("tycho.arguments")(ty)
  local fail, show = check.fail, check.show
  local type, ipairs, pairs, setmetatable, unpack = type, ipairs, pairs, setmetatable, unpack
  local floor, min, is_tensor = math.floor, math.min, ty.is_tensor
  local check_count, is_dataset, shuffled = internals.check_count, internals.is_dataset, internals.shuffle
  local i64 = { dtype = "i64", device = "cpu" }

  ---------------------------------------------------------------------------------------------------------- joined

  local Concat = internals.kind_of_dataset()

  --- The dataset and the number in it of each sample of an order; nil: one dataset after the other.
  local function places_of(self, order)
    local parts, own = {}, {}
    if not order then
      for i, ds in ipairs(self.inner) do
        for _ = 1, ds.size do parts[#parts + 1] = i end
      end
      return parts, nil
    end
    for i = 1, #self.inner do own[i] = {} end
    for k, n in ipairs(order:totable()) do
      local i = 1
      while n > self.inner[i].size do n, i = n - self.inner[i].size, i + 1 end
      parts[k], own[i][#own[i] + 1] = i, n
    end
    return parts, own
  end

  function Concat:reader(order, opts)
    local at, readers = 0, {}
    local parts, own = places_of(self, order)
    local spare = opts.spare or {}
    for i, ds in ipairs(self.inner) do
      spare[i] = spare[i] or {}
      local inner = { workers = opts.workers, ahead = opts.ahead, spare = opts.spare and spare[i] }
      readers[i] = ds:reader(own and ty.tensor(own[i], i64) or nil, inner)
    end
    return {
      one = function()
        at = at + 1
        return readers[parts[at]]:one()
      end,
      batch = function(self_, n)
        for k = at + 2, at + n do
          if parts[k] ~= parts[at + 1] then return internals.batch_of_ones(self_, n) end
        end
        at = at + n
        return readers[parts[at]]:batch(n)
      end,
      skip = function(_, n)
        local counts = {}
        for k = at + 1, at + n do counts[parts[k]] = (counts[parts[k]] or 0) + 1 end
        for i, count in pairs(counts) do readers[i]:skip(count) end
        at = at + n
      end,
      close = function()
        for _, r in ipairs(readers) do
          if r.close then r.close() end
        end
      end,
    }
  end

  --- data.Subset(source, indices): the samples whose numbers are given, in that order: dataset:subset(indices).
  --- Raises where the first argument is no dataset, or a number is out of range.
  ---@param source tycho.data.Dataset
  ---@param indices integer[]|tycho.Tensor 1-based
  ---@return tycho.data.Dataset
  function M.Subset(source, indices)
    if not is_dataset(source) then fail("data.Subset", "argument 1 must be a dataset, got %s", show(source)) end
    return check.named("data.Subset", "subset", source.subset, source, indices)
  end

  --- data.ConcatDataset{dataset, ...}: the samples of several datasets, one after the other.
  --- Raises where the argument is no list of datasets.
  ---@param datasets tycho.data.Dataset[]
  ---@return tycho.data.Dataset # the samples of all
  function M.ConcatDataset(datasets)
    local who, size = "data.ConcatDataset", 0
    if type(datasets) ~= "table" or #datasets == 0 then
      fail(who, "argument 1 must be a list of datasets, got %s", show(datasets))
    end
    local inner = {}
    for i, ds in ipairs(datasets) do
      if not is_dataset(ds) then fail(who, "entry %d must be a dataset, got %s", i, show(ds)) end
      inner[i], size = ds, size + ds.size
    end
    return internals.dataset(Concat, { size = size, inner = inner, classes = inner[1].classes })
  end

  --- Numbers of samples from fractions: each rounded down, what is left one by one to the first ones. PyTorch's rule.
  local function lengths_of(who, size, lengths)
    local sum, fractions = 0, true
    for i, v in ipairs(lengths) do
      if type(v) ~= "number" or v < 0 or v ~= v then fail(who, "length %d is %s", i, show(v)) end
      sum, fractions = sum + v, fractions and v <= 1
    end
    if not fractions or sum ~= 1 and sum == size then
      if sum ~= size then fail(who, "the lengths add up to %.14g, the dataset has %d samples", sum, size) end
      for i, v in ipairs(lengths) do
        if v % 1 ~= 0 then fail(who, "length %d is %s", i, show(v)) end
      end
      return lengths
    end
    if math.abs(sum - 1) > 1e-9 then fail(who, "the fractions add up to %.14g, not to 1", sum) end
    local list, left = {}, size
    for i, v in ipairs(lengths) do
      list[i] = floor(size * v)
      left = left - list[i]
    end
    for i = 1, left do list[(i - 1) % #list + 1] = list[(i - 1) % #list + 1] + 1 end
    return list
  end

  --- Several datasets of so many samples each, drawn at random: train, test = random_split(ds, {800, 200}). Lengths
  --- may be fractions that add up to 1; ds:split({0.8}) takes those of less.
  --- Raises where ds is no dataset, or the lengths do not add up to its size.
  ---@param ds tycho.data.Dataset
  ---@param lengths number[] numbers of samples, or fractions
  ---@param seed? integer 0
  ---@return tycho.data.Dataset ... # one for each length
  function M.random_split(ds, lengths, seed)
    local who = "data.random_split"
    if not is_dataset(ds) then fail(who, "argument 1 must be a dataset, got %s", show(ds)) end
    if type(lengths) ~= "table" or #lengths == 0 then
      fail(who, "argument 2 must be a list of lengths, got %s", show(lengths))
    end
    local counts = lengths_of(who, ds.size, lengths)
    local order, parts, from = shuffled(ds.size, check.whole(who, 3, seed, "seed", 0), 0), {}, 0
    for i, n in ipairs(counts) do
      parts[i] = ds:subset(order:narrow(1, from + 1, n))
      from = from + n
    end
    return unpack(parts)
  end

  ---------------------------------------------------------------------------------------------------------- samplers

  ---@class tycho.data.Sampler
  local Sampler = {}
  Sampler.__index = Sampler
  M._classes.Sampler = Sampler

  local function new_sampler(n, order) return setmetatable({ n = n, make = order }, Sampler) end

  --- How many samples an epoch takes.
  --- Raises never.
  ---@return integer
  function Sampler:count() return self.n end

  --- The samples of an epoch, in their order.
  --- Raises never.
  ---@param epoch? integer 1
  ---@return tycho.Tensor # i64 [count], numbers from 1
  function Sampler:order(epoch) return self.make(epoch or 1) end

  local function size_of(who, source)
    if is_dataset(source) then return source.size end
    if type(source) == "number" then return check_count(who, "argument 1", source) end
    return fail(who, "argument 1 must be a dataset or a number of samples, got %s", show(source))
  end

  --- data.SequentialSampler(source): all samples as they lie.
  --- Raises where source is neither a dataset nor a count.
  ---@param source tycho.data.Dataset|integer
  ---@return tycho.data.Sampler # as the loader's option sampler
  function M.SequentialSampler(source)
    local n = size_of("data.SequentialSampler", source)
    return new_sampler(n, function() return ty.range(1, n, 1, i64) end)
  end

  --- Uniform numbers in 0..1, f64, that depend on seed and epoch alone and leave the library's own as they are.
  local function uniform(n, seed, epoch)
    local state = ty.random_state()
    ty.manual_seed((seed * 1000003 + epoch * 7919 + 1) % 2 ^ 52)
    local u = ty.rand({ n }, { dtype = "f64", device = "cpu" })
    ty.random_state(state)
    return u
  end

  --- data.RandomSampler(source, {replacement = false, num_samples, seed = 0}): samples in a random order, another in
  --- each epoch; with replacement each is drawn from all.
  --- Raises where source is neither a dataset nor a count, or an option is not known or out of range.
  ---@param source tycho.data.Dataset|integer
  ---@param opts? {replacement: boolean?, num_samples: integer?, seed: integer?} num_samples: as many as there are
  ---@return tycho.data.Sampler # as the loader's option sampler
  function M.RandomSampler(source, opts)
    local who = "data.RandomSampler"
    local size = size_of(who, source)
    opts = check.options(who, opts, { replacement = "boolean", num_samples = "number", seed = "number" })
    local n, seed = check_count(who, "option num_samples", opts.num_samples or size), opts.seed or 0
    if opts.replacement then
      return new_sampler(n, function(epoch)
        return ((uniform(n, seed, epoch) * size):floor() + 1):to("i64"):clamp(1, size)
      end)
    end
    return new_sampler(n, function(epoch)
      local parts = {}
      for i = 0, n - 1, size do parts[#parts + 1] = shuffled(size, seed + i, epoch):narrow(1, 1, min(size, n - i)) end
      return ty.cat(parts, 1)
    end)
  end

  --- Chances as f64 on the CPU, each at least 0, some above.
  local function weights_of(who, weights)
    if type(weights) == "table" and not is_tensor(weights) then
      weights = check.named(who, "tensor", ty.tensor, weights, { dtype = "f64", device = "cpu" })
    end
    if not is_tensor(weights) or weights.ndim ~= 1 or weights:size(1) < 1 then
      fail(who, "argument 1 must be a list of weights, got %s", show(weights))
    end
    weights = weights:detach():to("f64"):to("cpu")
    if not (weights:min():item() >= 0 and weights:sum():item() > 0 and weights:sum():item() < math.huge) then
      fail(who, "weights must be at least 0, finite, and some above 0")
    end
    return weights
  end

  --- data.WeightedRandomSampler(weights, num_samples, {replacement = true, seed = 0}): samples drawn by chances in
  --- proportion to weights, others in each epoch. Without replacement each comes once at most (Efraimidis, Spirakis
  --- 2006).
  --- Raises where weights are negative or all 0, or more are asked for than have a weight, without replacement.
  ---@param weights number[]|tycho.Tensor one a sample
  ---@param num_samples integer
  ---@param opts? {replacement: boolean?, seed: integer?}
  ---@return tycho.data.Sampler # as the loader's option sampler
  function M.WeightedRandomSampler(weights, num_samples, opts)
    local who = "data.WeightedRandomSampler"
    local w = weights_of(who, weights)
    local n = check_count(who, "argument 2 (num_samples)", num_samples)
    opts = check.options(who, opts, { replacement = "boolean", seed = "number" })
    local size, seed = w:size(1), opts.seed or 0
    if opts.replacement == false then
      local some = w:gt(0):sum():item()
      if n > some then fail(who, "%d samples are asked for, %d have a weight", n, some) end
      return new_sampler(n, function(epoch)
        local keys = ty.where(w:gt(0), ty.log(uniform(size, seed, epoch):maximum(1e-300)) / w, -math.huge)
        return keys:argsort(1, true):narrow(1, 1, n)
      end)
    end
    local sums = w:cumsum(1)
    local last = w:gt(0):to("i64"):mul(ty.range(1, size, 1, i64)):max():item() -- the last that has a weight
    return new_sampler(n, function(epoch)
      return ty.searchsorted(sums, uniform(n, seed, epoch) * sums[-1], { right = true }):clamp(1, last)
    end)
  end

  --- data.SubsetRandomSampler(indices, {seed = 0}): these samples in a random order, another in each epoch.
  --- Raises where indices are no list of whole numbers from 1.
  ---@param indices integer[]|tycho.Tensor
  ---@param opts? {seed: integer?}
  ---@return tycho.data.Sampler # as the loader's option sampler
  function M.SubsetRandomSampler(indices, opts)
    local who = "data.SubsetRandomSampler"
    local list = internals.indices_of(who, indices, 2 ^ 52)
    local seed = check.options(who, opts, { seed = "number" }).seed or 0
    local n = list:size(1)
    return new_sampler(n, function(epoch) return list:index_select(1, shuffled(n, seed, epoch)) end)
  end

  ---------------------------------------------------------------------------------------------------------- batches

  ---@class tycho.data.BatchSampler
  local Batches = {}
  Batches.__index = Batches
  M._classes.BatchSampler = Batches

  --- How many batches an epoch has.
  --- Raises never.
  ---@return integer
  function Batches:count()
    local n = self.sampler:count() / self.size
    return self.drop and floor(n) or math.ceil(n)
  end

  --- The batches of an epoch.
  --- Raises never.
  ---@param epoch? integer 1
  ---@return integer[][] # lists of sample numbers
  function Batches:batches(epoch)
    local order, list = internals.order_list(self.sampler, epoch or 1), {}
    for i = 1, self:count() do
      local from = (i - 1) * self.size
      list[i] = {}
      for k = 1, min(self.size, #order - from) do list[i][k] = order[from + k] end
    end
    return list
  end

  --- data.BatchSampler(sampler, batch_size, drop_last = false): the samples of a sampler in batches, for the loader's
  --- option batch_sampler.
  --- Raises where sampler is none, or the size is no count.
  ---@param sampler tycho.data.Sampler
  ---@param batch_size integer
  ---@param drop_last? boolean whether a last batch that is smaller is left out
  ---@return tycho.data.BatchSampler
  function M.BatchSampler(sampler, batch_size, drop_last)
    local who = "data.BatchSampler"
    if type(sampler) ~= "table" or type(sampler.order) ~= "function" or type(sampler.count) ~= "function" then
      fail(who, "argument 1 must be a sampler, got %s", show(sampler))
    end
    check_count(who, "argument 2 (batch_size)", batch_size)
    return setmetatable({ sampler = sampler, size = batch_size,
      drop = check.boolean(who, 3, drop_last, "drop_last", false) }, Batches)
  end
end
