--- data.lua -- datasets and loaders: `ty.data`.
-- In: tensors, tables, CSV files, folders of images, files of records. Out: batches of tensors, in an order that a
-- seed gives, with the files of the next batches read in the background. Misuse raises; files that cannot be opened
-- give nil and a message where a dataset is made, and raise inside of a loop, which nil would end.
--
-- A dataset has `count` samples; a sample is one or several values (an input, a label). What each kind of dataset
-- adds is one method, reader(order, opts): an object that walks through the samples in the order of an i64 tensor
-- (nil: as they lie; opts: workers, ahead, and spare, a table where one reader leaves its memory to the next) and
-- answers   one()     the values of the next sample, as a list {n = , ...}; nil and a message where a file fails
--   batch(n)  the next n samples side by side, the same list of stacked values
-- All else (map, subset, split, loaders) stands on that. The order of an epoch depends on the seed, the epoch's
-- number and the number of samples alone, so an epoch can be taken up in its middle.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local files = require("tycho.files")

local C = files._native
local type, ipairs, pairs, setmetatable, select, unpack = type, ipairs, pairs, setmetatable, select, unpack
local fail, show, text = check.fail, check.show, check.text
local is_tensor = ty.is_tensor
local min, ceil, floor = math.min, math.ceil, math.floor

local AHEAD = 1024 -- samples that wait at most, whatever the batch

--- ty.data(x) is x:data(), the address of a tensor's elements.
local M = setmetatable({ _classes = {} }, { __call = function(_, x) return check.tensor("data", 1, x):data() end })

local function pack(...) return { n = select("#", ...), ... } end

local function check_count(who, what, v)
  if type(v) == "number" and v % 1 == 0 and v >= 1 then return v end
  return fail(who, "%s must be a whole number from 1, got %s", what, show(v))
end

local function check_path(who, what, v)
  if type(v) ~= "string" or v == "" or v:find("\0", 1, true) then
    fail(who, "argument 1 must be a %s, got %s", what, show(v))
  end
end

--------------------------------------------------------------------------------------------------------- stacking

local collate

local function collate_tensors(list)
  local shape = table.concat(list[1].shape, ",")
  for i, x in ipairs(list) do
    if not is_tensor(x) then fail("data", "sample %d of a batch is %s, the first a tensor", i, show(x)) end
    if table.concat(x.shape, ",") ~= shape then
      fail("data", "samples of one batch differ in size, %s and %s", text(list[1]), text(x))
    end
  end
  return ty.stack(list, 1)
end

--- Values of one field, side by side: tensors stacked, numbers as f32, booleans as bool, strings as a list, tables
--- field by field.
function collate(list)
  if type(list) ~= "table" or is_tensor(list) or list[1] == nil then
    fail("data", "a batch must be made of a list of samples, got %s", show(list))
  end
  local first = list[1]
  local kind = type(first)
  if is_tensor(first) then return collate_tensors(list) end
  for i, v in ipairs(list) do
    if type(v) ~= kind then fail("data", "sample %d of a batch is %s, the first %s", i, show(v), show(first)) end
  end
  if kind == "number" or kind == "boolean" then return ty.tensor(list) end
  if kind == "string" then return list end
  if kind ~= "table" then fail("data", "a sample cannot hold a %s", kind) end
  local y = {}
  for k in pairs(first) do
    local column = {}
    for i, v in ipairs(list) do
      column[i] = v[k]
      if column[i] == nil then fail("data", "sample %d of a batch has no %s", i, tostring(k)) end
    end
    y[k] = collate(column)
  end
  return y
end

--- data.collate(list): values side by side, as batches are made of samples: tensors stacked, numbers as f32, booleans
--- as bool, strings as a list, tables field by field.
--- Raises where the list is empty, or its entries are not alike.
---@param list any[]
---@return tycho.Tensor|table # one dim more than the entries
function M.collate(list) return collate(list) end

--- The next n samples of a reader that only knows them one by one.
local function batch_of_ones(reader, n)
  local columns = { n = 0 }
  for i = 1, n do
    local values, why = reader:one()
    if not values then return nil, why end
    if i == 1 then
      for f = 1, values.n do columns[f] = {} end
      columns.n = values.n
    end
    if values.n ~= columns.n then
      fail("data", "samples of %d and of %d values in one batch", columns.n, values.n)
    end
    for f = 1, values.n do columns[f][i] = values[f] end
  end
  for f = 1, columns.n do columns[f] = collate(columns[f]) end
  return columns
end

--------------------------------------------------------------------------------------------------------- datasets

---@class tycho.data.Dataset
---@field size integer how many samples there are, as count() says; Lua's # sees no metamethod of a table
---@field classes string[]? names of the labels, where the dataset knows them
local Dataset = {}
Dataset.__index = Dataset
M.Dataset = Dataset

local function dataset(kind, fields) return setmetatable(fields, kind) end

local function kind_of_dataset()
  local kind = setmetatable({}, { __index = Dataset })
  kind.__index = kind
  kind.__tostring = function(self) return ("dataset of %d samples"):format(self.size) end
  kind.__len = Dataset.count -- where Lua was built for it; elsewhere # of a table is of its list
  return kind
end

--- How many samples there are, as the field `size` says; # of a dataset is 0, as Lua counts a table without a list.
--- Raises never.
---@return integer
function Dataset:count() return self.size end

--- The values of sample i; a file that cannot be read gives nil and a message.
--- Raises where i is out of range.
---@param i integer 1-based, negative from the end
---@return any ... # the values of the sample
function Dataset:get(i)
  local n = self.size
  if type(i) ~= "number" or i % 1 ~= 0 or i == 0 or i > n or i < -n then
    fail("get", "sample %s of %d", type(i) == "number" and ("%.14g"):format(i) or show(i), n)
  end
  if i < 0 then i = n + 1 + i end
  local reader = self:reader(ty.tensor({ i }, { dtype = "i64", device = "cpu" }), { workers = 0, ahead = 1 })
  local values, why = reader:one()
  if reader.close then reader.close() end -- its memory is more than Lua's collector knows
  if not values then return nil, why end
  return unpack(values, 1, values.n)
end

--- An index list of the user's as an i64 tensor that lies within 1..n.
local function indices_of(who, list, n)
  if type(list) == "table" and not is_tensor(list) then
    list = check.named(who, "tensor", ty.tensor, list, { dtype = "i64", device = "cpu" })
  end
  if not is_tensor(list) or list.ndim ~= 1 or not list.dtype:find("^[iu]%d") then
    fail(who, "argument 1 must be a list of sample numbers, got %s", show(list))
  end
  list = list:to("i64"):to("cpu")
  if list:numel() > 0 and (list:min():item() < 1 or list:max():item() > n) then
    fail(who, "sample numbers go from 1 to %d, got %.14g to %.14g", n, list:min():item(), list:max():item())
  end
  return list
end

-- Samples in memory.

local Memory = kind_of_dataset()

--- Rows `at` to `at + n - 1` of the order, or of the data themselves.
local function rows_of(x, order, at, n)
  if is_tensor(x) then
    if not order then return x:narrow(1, at, n) end
    if x:is_contiguous() and not x.requires_grad and x.device == "cpu" then return C.rows(x, order, at, n) end
    return x:index_select(1, order:narrow(1, at, n):to(x.device))
  end
  local y = {}
  for i = 1, n do y[i] = x[order and order:get(at + i - 1) or at + i - 1] end
  return collate(y)
end

local function each(self, fn)
  if not self.named then
    local y = { n = #self.fields }
    for f, x in ipairs(self.fields) do y[f] = fn(x) end
    return y
  end
  local y = {}
  for k, x in pairs(self.named) do y[k] = fn(x) end
  return { n = 1, y }
end

function Memory:reader(order)
  local at, data = 1, self
  return {
    one = function()
      local i = order and order:get(at) or at
      at = at + 1
      return each(data, function(x) return x[i] end)
    end,
    batch = function(_, n)
      at = at + n
      return each(data, function(x) return rows_of(x, order, at - n, n) end)
    end,
    skip = function(_, n) at = at + n end,
  }
end

--- Rows of a field: a tensor's first dim, a list's length.
local function field_rows(who, name, x)
  if is_tensor(x) then
    check.tensor(who, name, x)
    if x.ndim == 0 then fail(who, "argument %s must have rows, got %s", tostring(name), text(x)) end
    return x:size(1)
  end
  if type(x) ~= "table" then
    fail(who, "argument %s must be a tensor or a list, got %s", tostring(name), show(x))
  end
  return #x
end

--- The rows of tensors or lists: tensors(x, y) gives samples of two values, tensors{x = a, y = b} tables, and so does
--- a table of csv.load. Entries of lists are put side by side: numbers as f32, strings as a list.
--- Raises where columns have not the same number of rows.
---@param first tycho.Tensor|table|tycho.csv.Table
---@param ... tycho.Tensor|table further columns
---@return tycho.data.Dataset # a sample for each row
function M.tensors(first, ...)
  local who = "data.tensors"
  if getmetatable(first) == files.csv.Table then first = first.columns end
  local fields, named = { first, ... }, nil
  if select("#", ...) == 0 and type(first) == "table" and #first == 0 and next(first) ~= nil then
    fields, named = first, first
  elseif #fields == 0 then
    fail(who, "argument 1 must be a tensor, got %s", show(first))
  end
  local names, size = {}, nil
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local n = field_rows(who, name, fields[name])
    if size and n ~= size then
      fail(who, "%s has %d rows, %s has %d", tostring(names[1]), size, tostring(name), n)
    end
    size = n
  end
  return dataset(Memory, { size = size, fields = not named and fields or nil, named = named })
end

-- Samples that a function makes.

local Lazy = kind_of_dataset()

function Lazy:reader(order)
  local at, fn = 0, self.fn
  return {
    one = function()
      at = at + 1
      return pack(fn(order and order:get(at) or at))
    end,
    batch = batch_of_ones,
    skip = function(_, n) at = at + n end,
  }
end

--- n samples, each made by fn(i) when it is asked for.
--- Raises where n is no count, or fn no function.
---@param n integer
---@param fn fun(i: integer): any, any
---@return tycho.data.Dataset # n samples
function M.lazy(n, fn)
  if n ~= 0 then check_count("data.lazy", "argument 1", n) end
  if type(fn) ~= "function" then fail("data.lazy", "argument 2 must be a function, got %s", show(fn)) end
  return dataset(Lazy, { size = n, fn = fn })
end

--- The entries of a list: a list among them is several values, anything else is one.
--- Raises where the argument is no list.
---@param list any[]
---@return tycho.data.Dataset # a sample for each entry
function M.list(list)
  if type(list) ~= "table" then fail("data.list", "argument 1 must be a list, got %s", show(list)) end
  return M.lazy(#list, function(i)
    local v = list[i]
    if type(v) == "table" and v[1] ~= nil then return unpack(v) end
    return v
  end)
end

-- Samples in files, read in the background.

local Files = kind_of_dataset()

local function file_one(ring, labels, at)
  local x, why = C.ring_next(ring)
  if not x then return nil, why end
  if labels then return { n = 2, x, labels[at] } end
  return { n = 1, x }
end

function Files:reader(order, opts)
  local labels, paths, plan, first = self.labels, self.paths, {}, 1
  for k, v in pairs(self.plan) do plan[k] = v end
  plan.workers, plan.capacity = opts.workers, min(opts.ahead, AHEAD)
  order = order or ty.range(1, self.size, 1, { dtype = "i64", device = "cpu" })
  if labels then labels = labels:index_select(1, order) end
  local at, ring, dtype, spare = 1, nil, self.dtype, opts.spare or {}
  --- The ring opens with the first sample, so that a reader can be set forward before. It copies the paths: where few
  --- are wanted, only those.
  local function open()
    first = at
    local rest = order:narrow(1, at, order:size(1) - at + 1)
    local n = rest:size(1)
    if not plan.shape and n < #paths / 2 then
      local few = rest:totable()
      for i, which in ipairs(few) do few[i] = paths[which] end
      ring = C.ring_open(few, ty.range(1, n, 1, { dtype = "i64", device = "cpu" }), plan, spare.ring)
    else
      ring = C.ring_open(paths, rest:contiguous(), plan, spare.ring)
    end
    spare.ring = nil
    return ring
  end
  local function finish(x) return files._image_as(x, dtype) end
  return {
    one = function()
      local values, why = file_one(ring or open(), labels, at)
      if not values then return nil, why end
      at = at + 1
      values[1] = finish(values[1])
      return values
    end,
    batch = function(_, n)
      local x, why = C.ring_batch(ring or open(), n)
      if not x then return nil, why end
      at = at + n
      return { n = labels and 2 or 1, finish(x), labels and labels:narrow(1, at - n, n) }
    end,
    skip = function(_, n)
      assert(not ring and first == 1)
      at = at + n
    end,
    close = function()
      if not ring then return end
      C.ring_close(ring, opts.spare ~= nil)
      ring, spare.ring = nil, ring
    end,
  }
end

local IMAGES = { png = true, jpg = true, jpeg = true, ppm = true, pgm = true, pnm = true }

--- Names of images in a folder, sorted.
local function images_in(names)
  local list = {}
  for _, name in ipairs(names) do
    if IMAGES[(name:match("%.([%w]+)$") or ""):lower()] then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- Images of a folder: (image, label) where it has sub-folders, one for each class, whose sorted names the labels
--- count from 1 (ds.classes); else single images. Options as of image.load: channels, size, dtype, limit (for each
--- image: what is over it is refused when its turn comes).
--- Raises where an option is not known; a folder that cannot be read gives nil and a message.
---@param dir string
---@param opts? {channels: integer?, size: integer[]?, dtype: string?, limit: integer?}
---@return tycho.data.Dataset? ds, string? message
function M.images(dir, opts)
  local who = "data.images"
  check_path(who, "folder", dir)
  opts = check.options(who, opts, { channels = "number", size = "table", dtype = "string", limit = "number" })
  local plan = {}
  plan.channels, plan.height, plan.width, plan.limit, plan.element = files._image_wants(who, opts)
  local names, folders = C.folder(dir)
  if not names then return nil, folders end
  local ds = { paths = {}, plan = plan, dtype = opts.dtype ~= "u8" and opts.dtype or nil }
  table.sort(folders)
  local labels = {}
  for class, folder in ipairs(folders) do
    local inside, why = C.folder(dir .. "/" .. folder)
    if not inside then return nil, why end
    for _, name in ipairs(images_in(inside)) do
      ds.paths[#ds.paths + 1] = dir .. "/" .. folder .. "/" .. name
      labels[#labels + 1] = class
    end
  end
  if #folders > 0 and #labels > 0 then
    ds.classes, ds.labels = folders, ty.tensor(labels, { dtype = "i64", device = "cpu" })
  else
    for _, name in ipairs(images_in(names)) do ds.paths[#ds.paths + 1] = dir .. "/" .. name end
  end
  ds.size = #ds.paths
  if ds.size == 0 then return nil, dir .. ": holds no images (png jpg jpeg ppm pgm pnm)" end
  return dataset(Files, ds)
end

--- Records of one size, one behind the other in a file, as tensors. Options: shape (a list of sizes), dtype (u8),
--- offset (bytes before the first), count (as many as there are).
--- Raises where the shape is missing or a number is out of range; a file that cannot be read gives nil and a message.
---@param path string
---@param opts {shape: integer[], dtype: string?, offset: integer?, count: integer?}
---@return tycho.data.Dataset? ds, string? message
function M.records(path, opts)
  local who = "data.records"
  check_path(who, "path", path)
  opts = check.options(who, opts, { shape = "table", dtype = "string", offset = "number", count = "number" })
  if not opts.shape then fail(who, "option shape must be a list of sizes") end
  for _, n in ipairs(opts.shape) do check_count(who, "a size", n) end
  local offset, dtype = opts.offset or 0, opts.dtype or "u8"
  if offset < 0 or offset % 1 ~= 0 then fail(who, "option offset must be a number of bytes, got %.14g", offset) end
  local bytes = (tonumber(dtype:match("%d+$")) or 8) / 8
  check.named(who, "zeros", ty.zeros, { 0 }, { dtype = dtype, device = "cpu" }) -- knows the names of dtypes
  for _, n in ipairs(opts.shape) do bytes = bytes * n end
  if bytes > 2 ^ 40 then fail(who, "a record of %.14g bytes", bytes) end
  local size, why = C.file_size(path)
  if not size then return nil, why end
  local have = floor((size - offset) / bytes)
  local count = opts.count or have
  if opts.count then check_count(who, "option count", count) end
  if count < 1 or count > have then
    return nil, ("%s: holds %d bytes, %d records of %d bytes from %.14g on are asked for"):format(path, size,
      math.max(count, 1), bytes, offset)
  end
  local plan = { shape = opts.shape, dtype = dtype, offset = offset }
  return dataset(Files, { size = count, paths = { path }, plan = plan })
end

-- CSV.

--- Rows of a CSV file: (inputs, target), or inputs alone. Options: inputs = names or numbers of columns, default all
--- that hold numbers but the target; target = a column: text counts as categories (ds.classes), true and
--- false too but where types say "bool"; dtype of the inputs, default f32; all else as csv.load takes it. ds.table is
--- the table.
--- Raises where an option is not known; a file that cannot be read gives nil and a message.
---@param path string
---@param opts? table
---@return tycho.data.Dataset? ds, string? message
function M.csv(path, opts)
  local who = "data.csv"
  check_path(who, "path", path)
  local own, rest = {}, {}
  if opts ~= nil and type(opts) ~= "table" then fail(who, "the options must be a table, got %s", show(opts)) end
  for k, v in pairs(opts or {}) do
    if k == "inputs" or k == "target" or k == "dtype" then own[k] = v else rest[k] = v end
  end
  local t, why = files.csv.load(path, rest)
  if not t then return nil, why end
  local target = own.target
  if type(target) == "number" then target = t.names[target] end
  if own.target ~= nil and (target == nil or not t.columns[target]) then
    return nil, ("%s: there is no column %q"):format(path, tostring(own.target))
  end
  local kind = target and t.types[target]
  local asked = type(rest.types) == "table" and (rest.types[target] or rest.types[own.target]) or rest.types
  if kind == "text" or kind == "bool" and asked ~= "bool" then -- again, with the classes looked for
    for _, p in ipairs(t.place) do
      if p and p.index == 1 then p.matrix:release() end -- not beside the new ones
    end
    local types = type(rest.types) == "table" and rest.types or {}
    rest.types = {}
    for k, v in pairs(types) do rest.types[k] = v end
    rest.types[target] = "category"
    t, why = files.csv.load(path, rest)
    if not t then return nil, why end
  end
  local inputs = own.inputs
  if not inputs then
    inputs = {}
    for _, name in ipairs(t.names) do
      local own_kind = t.types[name]
      if name ~= target and own_kind ~= "text" and own_kind ~= "category" then inputs[#inputs + 1] = name end
    end
  end
  local ds = M.tensors(t:tensor(inputs, own.dtype or "f32"), target and t:column(target))
  ds.table, ds.classes = t, target and t.classes[target]
  return ds
end

-------------------------------------------------------------------------------------------- datasets of datasets

local Mapped = kind_of_dataset()

function Mapped:reader(order, opts)
  local inner, fn = self.inner:reader(order, opts), self.fn
  return {
    one = function()
      local values, why = inner:one()
      if not values then return nil, why end
      local y = pack(fn(unpack(values, 1, values.n)))
      if y.n == 0 or y[1] == nil then fail("map", "the function returned nothing") end
      return y
    end,
    batch = batch_of_ones,
    skip = function(_, n) inner:skip(n) end,
    close = function()
      if inner.close then inner.close() end
    end,
  }
end

--- Samples fn(sample): the values that fn returns for those of each sample, when it is asked for.
--- Raises where fn is no function, and in a loop where it gives nothing.
---@param fn fun(...): ...
---@return tycho.data.Dataset
function Dataset:map(fn)
  if type(fn) ~= "function" then fail("map", "argument 1 must be a function, got %s", show(fn)) end
  return dataset(Mapped, { size = self.size, inner = self, fn = fn, classes = self.classes })
end

local Subset = kind_of_dataset()

function Subset:reader(order, opts)
  return self.inner:reader(order and self.indices:index_select(1, order) or self.indices, opts)
end

--- The samples whose numbers are given, in that order.
--- Raises where a number is out of range.
---@param indices integer[]|tycho.Tensor 1-based
---@return tycho.data.Dataset
function Dataset:subset(indices)
  local list = indices_of("subset", indices, self.size)
  return dataset(Subset, { size = list:size(1), inner = self, indices = list, classes = self.classes })
end

--- Several datasets, of these shares of the samples, which share none: train, test = ds:split({0.8, 0.2}, 1). With a
--- seed they are drawn at random, without one they lie one behind the other.
--- Raises where fractions are no list, or add up to more than 1.
---@param fractions number[] together at most 1
---@param seed? integer
---@return tycho.data.Dataset ...
function Dataset:split(fractions, seed)
  if type(fractions) ~= "table" or #fractions == 0 then
    fail("split", "argument 1 must be a list of fractions, got %s", show(fractions))
  end
  if seed ~= nil and (type(seed) ~= "number" or seed % 1 ~= 0) then
    fail("split", "the seed must be a whole number, got %s", show(seed))
  end
  local order = seed and C.shuffle(self.size, seed, 0) or ty.range(1, self.size, 1, { dtype = "i64", device = "cpu" })
  local parts, sum, from = {}, 0, 0
  for i, share in ipairs(fractions) do
    if type(share) ~= "number" or share < 0 or share ~= share then
      fail("split", "fraction %d is %s", i, show(share))
    end
    sum = sum + share
    if sum > 1 + 1e-9 then fail("split", "the fractions add up to more than 1") end
    local to = floor(min(sum, 1) * self.size + 0.5)
    parts[i] = self:subset(order:narrow(1, from + 1, to - from))
    from = to
  end
  return unpack(parts)
end

---------------------------------------------------------------------------------------------------------- loaders

---@class tycho.data.Loader
---@field dataset tycho.data.Dataset
---@field batch integer
local Loader = {}
Loader.__index = Loader
M.Loader = Loader

local loader_options = {
  batch = "number", shuffle = "boolean", seed = "number", last = "string", transform = "function", workers = "number",
  ahead = "number", device = "string", sampler = "table", batch_sampler = "table", collate = "function",
  shard = "boolean", drop_last = "boolean",
}

--- Checks that what a loader is given for an order is none that excludes another.
local function check_samplers(who, opts)
  local sampler, batches = opts.sampler, opts.batch_sampler
  if sampler and (type(sampler.order) ~= "function" or type(sampler.count) ~= "function") then
    fail(who, "option sampler must have order(epoch) and count(), as data.RandomSampler gives")
  end
  if batches and (type(batches.batches) ~= "function" or type(batches.count) ~= "function") then
    fail(who, "option batch_sampler must have batches(epoch) and count(), as data.BatchSampler gives")
  end
  if sampler and opts.shuffle then fail(who, "option shuffle beside a sampler") end
  for _, name in ipairs { "sampler", "shuffle", "batch", "last", "shard" } do
    if batches and opts[name] then fail(who, "option %s beside a batch_sampler", name) end
  end
end

--- The sample numbers that a sampler gives for an epoch, checked.
local function sampler_order(sampler, epoch, n)
  return indices_of("sampler", sampler:order(epoch), n)
end

--- All batches of a batch sampler as one order, and their sizes.
local function batch_order(batches, epoch, n)
  local list, sizes = {}, {}
  for i, b in ipairs(batches:batches(epoch)) do
    local own = indices_of("batch_sampler", b, n):totable()
    if #own == 0 then fail("batch_sampler", "batch %d is empty", i) end
    sizes[i] = #own
    for k = 1, #own do list[#list + 1] = own[k] end
  end
  return ty.tensor(list, { dtype = "i64", device = "cpu" }), sizes
end

--- Batches of a dataset. Options: batch (1) samples each; shuffle (false) by seed (0), in another order each epoch;
--- last = "keep" | "drop" (or drop_last = true): a last batch that is smaller; device: where tensors of a batch go;
--- transform = fn(values of a batch), what it returns is the batch; collate = fn(list of samples), a sample of
--- several values as a list: what it returns is the batch instead of the values side by side (data.collate); sampler,
--- such as data.WeightedRandomSampler: which samples an epoch takes; batch_sampler: these in batches of its own;
--- workers (1) threads that read files in the background, the result does not depend on them; ahead (2): batches that
--- are read before they are asked for; shard (false): the ranks of ty.dist share each batch, in equal parts in their
--- order, so that `batch` counts the samples of all ranks, the batches are the same for any number of ranks, and a
--- state is taken up by another number of them. A last batch that is smaller loses what is left over.
--- Raises where ds is no dataset, or an option is not known or out of range, or excludes another one; where a batch
--- does not divide by the number of ranks.
---@param ds tycho.data.Dataset
---@param opts? table
---@return tycho.data.Loader
function M.loader(ds, opts)
  local who = "data.loader"
  if type(ds) ~= "table" or type(ds.reader) ~= "function" then
    fail(who, "argument 1 must be a dataset, got %s", show(ds))
  end
  opts = check.options(who, opts, loader_options)
  local o = setmetatable({
    dataset = ds, batch = opts.batch or 1, shuffle = opts.shuffle or false, seed = opts.seed or 0,
    last = opts.last or opts.drop_last and "drop" or "keep", transform = opts.transform,
    workers = opts.workers or 1, ahead = opts.ahead or 2, device = opts.device,
    at = { epoch = 1, position = 0 }, spare = {},
    sampler = opts.sampler, batch_sampler = opts.batch_sampler, collate = opts.collate, ranks = 1,
  }, Loader)
  check_samplers(who, opts)
  if opts.shard then
    local dist = ty.dist
    o.rank, o.ranks = dist.rank(), dist.size()
  end
  if o.device then check.named(who, "zeros", ty.zeros, { 0 }, { device = o.device }) end -- knows the names of devices
  check_count(who, "option batch", o.batch)
  check_count(who, "option ahead", o.ahead)
  if o.batch % o.ranks ~= 0 then fail(who, "option batch, %d, must divide by %d ranks", o.batch, o.ranks) end
  if o.seed % 1 ~= 0 then fail(who, "option seed must be a whole number, got %.14g", o.seed) end
  if o.workers < 0 or o.workers > 16 or o.workers % 1 ~= 0 then
    fail(who, "option workers must be from 0 to 16, got %.14g", o.workers)
  end
  if o.last ~= "keep" and o.last ~= "drop" then fail(who, "option last must be keep or drop, got %q", o.last) end
  return o
end

--- Its batches, with the options of data.loader.
--- Raises where an option is not known or out of range.
---@param opts? table
---@return tycho.data.Loader
function Dataset:loader(opts) return M.loader(self, opts) end

--- How many batches an epoch has.
--- Raises never.
---@return integer
function Loader:count()
  if self.batch_sampler then return self.batch_sampler:count() end
  local n = (self.sampler or self.dataset):count()
  if n % self.batch < self.ranks then n = n - n % self.batch end -- not one for each rank
  return self.last == "drop" and floor(n / self.batch) or ceil(n / self.batch)
end

--- Where the loader stands: plain numbers for a checkpoint. A loader over the same data, with the same options, that
--- is given them by restore goes on with the batch that would have come next.
--- Raises never.
---@return {epoch: integer, position: integer, seed: integer}
function Loader:state()
  return { epoch = self.at.epoch, position = self.at.position, seed = self.seed }
end

--- Goes on where a loader stood that gave this state.
--- Raises where it is no state of such a loader.
---@param state {epoch: integer, position: integer, seed: integer}
function Loader:restore(state)
  if type(state) ~= "table" then fail("restore", "argument 1 must be a loader's state, got %s", show(state)) end
  local epoch, position, seed = state.epoch, state.position, state.seed
  check_count("restore", "epoch", epoch)
  if type(seed) ~= "number" or seed % 1 ~= 0 then fail("restore", "seed must be a whole number, got %s", show(seed)) end
  if type(position) ~= "number" or position % 1 ~= 0 or position < 0 or position > self:count() then
    fail("restore", "position %s of %d batches", tostring(position), self:count())
  end
  self:close()
  self.seed, self.at, self.left = seed, { epoch = epoch, position = position }, nil
end

Loader.state_dict, Loader.load_state_dict = Loader.state, Loader.restore -- so that it can be a part of a checkpoint

--- Ends the reading in the background; the collector does so too. The loader can be used again.
--- Raises never.
function Loader:close()
  self:rest()
  self.spare = {}
end

--- Ends an epoch's reading; the memory that it was read into waits for the next. Raises never.
function Loader:rest()
  local reader = self.reader
  self.reader, self.running, self.given = nil, nil, nil
  if reader and reader.close then reader.close() end
end

--- The rank's part of each batch of an order (nil: as they lie) of n samples.
local function shard_of(self, order, n)
  order = order or ty.range(1, n, 1, { dtype = "i64", device = "cpu" })
  local own, whole, left = self.batch / self.ranks, floor(n / self.batch), floor(n % self.batch / self.ranks)
  local parts = {
    order:narrow(1, 1, whole * self.batch):reshape(whole, self.ranks, own):narrow(2, self.rank + 1, 1):reshape(-1),
  }
  if left > 0 then parts[2] = order:narrow(1, whole * self.batch + self.rank * left + 1, left) end
  return ty.cat(parts, 1)
end

--- A reader that stands at a batch of an epoch; how many samples the epoch takes, and the sizes of its batches where
--- they have some of their own.
local function reader_at(self, epoch, position)
  local ds, sizes = self.dataset, nil
  local n, order = ds:count(), nil
  if self.batch_sampler then order, sizes = batch_order(self.batch_sampler, epoch, n)
  elseif self.sampler then order = sampler_order(self.sampler, epoch, n)
  elseif self.shuffle then order = C.shuffle(n, self.seed, epoch) end
  if self.ranks > 1 then order = shard_of(self, order, order and order:size(1) or n) end
  local most = self.batch / self.ranks
  local before = position * most
  if sizes then
    before = 0
    for i, size in ipairs(sizes) do
      most = math.max(most, size)
      if i <= position then before = before + size end
    end
  end
  local reader = ds:reader(order, { workers = self.workers, ahead = most * self.ahead, spare = self.spare })
  if before > 0 then reader:skip(before) end
  return reader, order and order:size(1) or n, sizes
end

--- The next n samples as the function that was given makes a batch of them.
local function collated(self, reader, n)
  local list = {}
  for i = 1, n do
    local values, why = reader:one()
    if not values then return nil, why end
    list[i] = values[1]
    if values.n > 1 then
      list[i] = values
      values.n = nil
    end
  end
  local y = pack(self.collate(list))
  if y[1] == nil then fail("data.loader", "the function collate returned nothing") end
  return y
end

--- What a loop gets: the values of the batch, then its number.
local function answer(self, reader, values, why, number)
  if not values then
    if self.reader == reader then self:rest() end
    fail("data", "%s", why)
  end
  if self.device then
    for i = 1, values.n do
      if ty.is_tensor(values[i]) then values[i] = values[i]:to(self.device) end
    end
  end
  if self.transform then
    values = pack(self.transform(unpack(values, 1, values.n)))
    if values[1] == nil then fail("data.loader", "the transform returned nothing") end
  end
  values[values.n + 1] = number
  return unpack(values, 1, values.n + 1)
end

--- One epoch: for x, y, i in loader:epoch() do; the batch's number is the last value. The next epoch begins where
--- this is called again, unless restore has set where to go on. A loader walks through one epoch at a time.
--- Raises in the loop where another epoch of the loader has begun, or a file cannot be read.
---@return fun(): ...
function Loader:epoch()
  self:rest()
  local count = self:count()
  if self.at.position >= count and count > 0 or self.left then
    self.at = { epoch = self.at.epoch + 1, position = 0 }
  end
  self.left = nil
  local at = self.at
  local reader, total, sizes = reader_at(self, at.epoch, at.position)
  if sizes then count = #sizes end
  self.reader = reader
  return function()
    if self.at ~= at then fail("data.loader", "another epoch of this loader has begun") end
    if at.position >= count then
      if self.reader == reader then self:rest() end
      return nil
    end
    self.left = true -- begun: where the loop is left, the next epoch is another
    local number = at.position + 1
    local own = self.batch / self.ranks
    local n = sizes and sizes[number] or min(own, total - at.position * own)
    local values, why
    if self.collate then values, why = collated(self, reader, n) else values, why = reader:batch(n) end
    if values then at.position = number end
    return answer(self, reader, values, why, number)
  end
end

--- for x, y in loader do: an epoch each time such a loop begins. Two loops are told apart by what each was given
--- last.
function Loader:__call(_, control)
  if control == nil then self.running = self:epoch()
  elseif not self.running or control ~= self.given then
    fail("data.loader", "another epoch of this loader has begun")
  end
  local function give(first, ...)
    self.given = first
    return first, ...
  end
  return give(self.running())
end

function Loader:__tostring()
  return ("loader of %d batches of %d from %d samples"):format(self:count(), self.batch, self.dataset:count())
end

require("tycho.samplers")(ty, M, {
  check_count = check_count, is_dataset = function(ds) return type(ds) == "table" and type(ds.reader) == "function" end,
  shuffle = C.shuffle, kind_of_dataset = kind_of_dataset, dataset = dataset, batch_of_ones = batch_of_ones,
  indices_of = indices_of, order_list = function(s, epoch) return sampler_order(s, epoch, 2 ^ 52):totable() end,
})

return M
