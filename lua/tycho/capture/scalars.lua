--- scalars.lua -- numbers of later calls in functions written in C that compute with them before they record.
-- In: a call of such a function. Out: its results, recorded so that the numbers are read in each call; nil where that
-- is not possible, and the numbers are to be pinned.
--
-- The core takes numbers as scalars of the plan where they meet tensors as they are. A function that decides by them,
-- or computes others of them, has a twin here: Lua code that does the same by operations of Tycho's, and is evaluated
-- in its place. So what it computes becomes expressions, what it decides guards. Rules:
-- 1. A twin records the operations that the function does, in its order: the bits are its.
-- 2. It gives nothing where the function would raise, and for what it does not know: then the function is called, with
--    its numbers pinned.
-- 3. Twins stand in for functions in captures only, and only where a number is not known.

local ty = require "tycho"
local internals = ty.internals

local type, next, ipairs, unpack, getmetatable = type, next, ipairs, unpack, getmetatable
local huge, ceil, floor, find = math.huge, math.ceil, math.floor, string.find
local power = internals.power

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

--- Elements of a table of numbers of which one is not known; longer ones are data.
local MOST = 64

local function is_symbol(v, s) return type(v) == "number" and s ~= nil and not s.pinned and not s.size end

-- Twins ---------------------------------------------------------------------------------------------------------------

--- Makes a number known that is a size, whatever it was computed from.
local function settled(n) return n end

local function options_of(opts)
  if opts == nil then return ty.default_dtype(), ty.device() end
  if type(opts) ~= "table" or opts.requires_grad then return nil end
  return opts.dtype or ty.default_dtype(), opts.device or ty.device()
end

local function is_options(t)
  if type(t) ~= "table" then return false end
  for k in next, t do
    if type(k) == "string" then return true end
  end
  return false
end

local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

--- start + i * step for i from 0, of that many elements.
local function series(start, step, count, opts)
  local dtype, device = options_of(opts)
  if not floats[dtype] or count <= 0 then return nil end
  local y = ty.arange(settled(count), { dtype = "i64", device = device }):to "f64"
  if step ~= 1 then y = y * step end
  if start ~= 0 then y = y + start end
  return y:to(dtype)
end

local function is_finite(v) return v - v == 0 end

--- Start, stop, step and options of a series, which may be given a stop alone; nil where it would raise.
local function ends(first, start, stop, step, opts)
  if type(stop) ~= "number" then start, stop, step, opts = first, start, nil, stop end
  if type(step) == "table" then step, opts = nil, step end
  step = step or 1
  if not (is_finite(start) and is_finite(stop) and is_finite(step)) or step == 0 then return nil end
  return start, stop, step, opts
end

local function arange(...)
  local start, stop, step, opts = ends(0, ...)
  return start and series(start, step, ceil((stop - start) / step), opts)
end

local function range(...)
  local start, stop, step, opts = ends(1, ...)
  return start and series(start, step, floor((stop - start) / step) + 1, opts)
end

--- Whether the numbers that a series is given say how long it is, not where it lies: then they are sizes. A step is
--- none: no range of sizes follows it.
local function are_sizes(args, shadows)
  if is_symbol(args[3], shadows[3]) then return false end
  if is_symbol(args[2], shadows[2]) and is_symbol(args[1], shadows[1]) then return false end
  for i = 1, 3 do
    if type(args[i]) == "number" and args[i] % 1 ~= 0 then return false end
  end
  return true
end

local function linspace(a, b, n, opts)
  local dtype, device = options_of(opts)
  if not floats[dtype] or type(n) ~= "number" or n <= 1 or n ~= n then return nil end
  local step = (b - a) / (n - 1)
  local i = ty.arange(n, { dtype = "i64", device = device })
  local up, down = i:to "f64" * step + a, b - ((n - 1) - i):to "f64" * step
  return i:lt(floor((n + 1) / 2)):where(up, down):to(dtype)
end

--- y * scale + shift, as draws are moved.
local function moved(y, scale, shift)
  if scale ~= 1 then y = y * scale end
  if shift ~= 0 then y = y + shift end
  return y
end

local function sizes_of(sizes, opts)
  if is_options(sizes) then return {}, sizes end
  return sizes or {}, opts
end

local function uniform(low, high, sizes, opts)
  sizes, opts = sizes_of(sizes, opts)
  if not (low <= high and high - low < huge) or not floats[options_of(opts)] then return nil end
  return moved(ty.rand(sizes, opts), high - low, low)
end

local function normal(mean, std, sizes, opts)
  sizes, opts = sizes_of(sizes, opts)
  local valid = std >= 0
  if not valid or not floats[options_of(opts)] then return nil end
  return moved(ty.randn(sizes, opts), std, mean)
end

local function uniform_in_place(x, low, high)
  low, high = low or 0, high or 1
  if not (low <= high and high - low < huge) or not floats[x.dtype] then return nil end
  return x:copy_(moved(ty.rand_like(x), high - low, low))
end

local function normal_in_place(x, mean, std)
  mean, std = mean or 0, std or 1
  local valid = std >= 0
  if not valid or not floats[x.dtype] then return nil end
  return x:copy_(moved(ty.randn_like(x), std, mean))
end

local function bernoulli(p, sizes, opts)
  sizes, opts = sizes_of(sizes, opts)
  if not (p >= 0 and p <= 1) then return nil end
  local dtype, device = options_of(opts)
  if dtype ~= "f32" and dtype ~= "f64" then return nil end
  return ty.rand(sizes, { dtype = dtype, device = device }):lt(p):to(dtype)
end

--- Some powers are defined to be other operations.
local function pow(x, p)
  if p == 2 or p == 3 or p == 0.5 or p == -1 then return nil end
  return power(x, p)
end

local function pow_in_place(x, p)
  if p == 2 or p == 3 or p == 0.5 or p == -1 then return nil end
  return x:copy_(power(x, p))
end

--- Attention multiplies queries by the scale before all else, and rounds them. Its gradient does otherwise, and so do
--- a device's tensor cores.
local function attend(q, k, v, mask, key, causal, scale, drop)
  if q.requires_grad or k.requires_grad or v.requires_grad then return nil end
  local half = q.dtype ~= "f32" and q.dtype ~= "f64"
  if q.device ~= "cpu" and half then return nil end
  if half then q = q:to "f32" end
  return internals.attend(q * scale, k, v, mask, key, causal, 1, drop)
end

--- By function: its twin, and the first and last argument of which one must be a number of later calls. unless: nor
--- where this holds.
local twins = {
  [ty.linspace] = { linspace, 1, 2 },
  [ty.arange] = { arange, 1, 3, unless = are_sizes },
  [ty.range] = { range, 1, 3, unless = are_sizes },
  [ty.uniform] = { uniform, 1, 2 },
  [ty.normal] = { normal, 1, 2 },
  [internals.methods.uniform_] = { uniform_in_place, 2, 3 },
  [internals.methods.normal_] = { normal_in_place, 2, 3 },
  [ty.bernoulli] = { bernoulli, 1, 1 },
  [internals.attend] = { attend, 7, 7 },
  [ty.pow] = { pow, 2, 2 },
  [internals.methods.pow_] = { pow_in_place, 2, 2 },
}

-- Tables of numbers ---------------------------------------------------------------------------------------------------

--- How many elements nested tables hold, at most MOST + 1; nil of what is no data of numbers.
local function count(v)
  if type(v) == "number" then return 1 end
  if type(v) ~= "table" or getmetatable(v) ~= nil then return nil end
  local n = 0
  for i = 1, #v do
    local more = n <= MOST and count(v[i])
    if not more then return n > MOST and n or nil end
    n = n + more
  end
  return n
end

--- A copy of nested tables with 0 for the numbers that are not known, which are appended to found with their positions.
local function copy(world, v, s, at, found)
  if type(v) ~= "table" then
    if not is_symbol(v, s) then return v, s end
    found[#found + 1] = { v = v, s = s, unpack(at) }
    return 0, nil
  end
  local n = world:table_length(world:table_of(v, s))
  local t = world:new_table(n, 0)
  for i = 1, n do
    at[#at + 1] = i
    local e, es = world:raw_index(v, s, i)
    e, es = copy(world, e, es, at, found)
    world:raw_newindex(t, nil, i, e, es)
    at[#at] = nil
  end
  return t, nil
end

--- A tensor of a table: that of the known numbers, with the others written into it.
local function tensor(world, args, shadows, n)
  local elements = type(args[1]) == "table" and count(args[1])
  if not elements or elements > MOST then return nil end
  local o = world:table_of(args[1], shadows[1])
  if o.overlay or o.meta ~= nil or o.constant then return nil end
  if type(args[2]) == "table" and args[2].requires_grad then return nil end
  local found = {}
  local data = copy(world, args[1], shadows[1], {}, found)
  if #found == 0 then return nil end
  local results, rs, count_results = world:tycho(ty.tensor, "tensor", { data, args[2] }, { nil, shadows[2] }, n)
  for _, e in ipairs(found) do
    local key = e[1]
    if #e > 1 then
      key = world:new_table(#e, 0)
      for i = 1, #e do world:raw_newindex(key, nil, i, e[i], nil) end
    end
    world:tensor_newindex(results[1], rs[1], key, nil, e.v, e.s)
  end
  return results, rs, count_results
end

--- Functions whose options are sizes: strides, padding, factors. They decide about shapes, as pinned numbers.
local function is_sized(name) return find(name, "conv") or find(name, "pool") or name == "interpolate" end

-- The world's side ----------------------------------------------------------------------------------------------------

return function(World, models)
  models[settled] = function(world, args, shadows)
    local v, s = args[1], shadows[1]
    if is_symbol(v, s) then world:pin_number(v, s) end
    return { v }, { s }, 1
  end

  --- Whether a table has options for f among which is a number that is not known, and is no size. Lists hold dims.
  function World:has_symbols(f, t)
    local o, constant, name = self.tables[t], self.constants[t], self:owner(f)
    if constant or o and o.constant or name and is_sized(name) then return false end
    for k, v in next, t do
      if type(k) == "string" and type(v) == "number" and not (o and o.fresh and not is_symbol(v, o.shadow[k])) then
        return true
      end
    end
    return false
  end

  --- What f would give, by its twin; nil where it is to be called.
  function World:by_twin(f, args, shadows, n)
    if f == ty.tensor then return tensor(self, args, shadows, n) end
    local twin = twins[f]
    if not twin or twin.unless and twin.unless(args, shadows) then return nil end
    local any = false
    for i = twin[2], twin[3] do any = any or is_symbol(args[i], shadows[i]) end
    if not any then return nil end
    local results, rs, count_results = self.apply(twin[1], nil, args, shadows, n)
    if count_results == 0 or results[1] == nil then return nil end
    return results, rs, count_results
  end

  --- x ^ p of a tensor and a number that is not known, likewise.
  function World:power(x, xs, p, ps)
    if not is_symbol(p, ps) then return nil end
    local results, rs = self.apply(pow, nil, { x, p }, { xs, ps }, 2)
    return results[1], rs[1]
  end
end
