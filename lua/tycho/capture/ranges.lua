--- ranges.lua -- a trace whose calls have ever new sizes gets an instance for a range of them.
-- In: replays of a trace's tape for sizes that calls have come with. Out: when the sizes of the last ones lie on a
-- line, the tape is played at five points of it, with tensors that stand in for those of such calls, and the core makes
-- one instance of the five (shape_range.c). Raises nothing: where that cannot be, each size has an instance of its own.
--
-- A line: sizes that calls had are s + k u for whole k, where s is the list of all dims of tensors from outside and of
-- all numbers that are sizes. A range is from half the sizes to twice the sizes of the call that asks for it, or less
-- where the tape cannot be played there, or plans for small and large sizes differ. What holds between the samples:
-- proofs.lua.
--
-- Results that need a gradient lead to a backward pass, whose plan is made for the range as it is asked for
-- (engine/traced_back.c). Where that cannot be, the range is given up.

local ty = require "tycho"
local operators = require "tycho.capture.operators"
local proofs = require "tycho.capture.proofs"
local tape = require "tycho.capture.tape"

local abs, ceil, floor, max, min, huge = math.abs, math.ceil, math.floor, math.max, math.min, math.huge
local pairs, ipairs, next = pairs, ipairs, next

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local LEAST = ty.internals.capture.RANGE_LEAST -- steps of a range
local FAILURES = 3 -- after which a trace is left alone
local TRIES = 4    -- to find an end of a range
local APART = { 1, 2, 8 } -- steps between the sizes of a range
local PART = 1 / 4  -- of the widest range, the least that is tried
local DIFFER = ty.internals.capture.DIFFER -- why there is none where plans differ

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

-- What sizes a call has -----------------------------------------------------------------------------------------------

--- The sizes of a call, as its replay has read them: {slot =, tensor =, dims =, strides =, offset =, elements =,
--- storage =, may =} for each tensor from outside, {slot =, number =} for each number.
local function sizes_of(p)
  local out, seen = {}, {}
  for _, e in ipairs(p.tape.entries) do
    local slot = e[2]
    if (e[1] == "outside" or e[1] == "bound") and not seen[slot] then
      local v = p:slot(slot)
      seen[slot] = true
      if e[1] == "bound" then
        out[#out + 1] = { slot = slot, number = v }
      else
        local dims, strides, offset, elements, may, storage = p.C.layout(v)
        if not dims then return nil end
        out[#out + 1] = { slot = slot, tensor = v, dims = dims, strides = strides, offset = offset,
          elements = elements, storage = storage, may = may }
      end
    end
  end
  return out
end

--- What is kept of them.
local function without_tensors(sizes)
  for _, s in ipairs(sizes) do s.tensor, s.storage = nil, nil end
  return sizes
end

--- Calls visit(now, before, tensor's sizes, where) for each size: dims and numbers.
local function each_size(now, before, visit)
  for i, s in ipairs(now) do
    local b = before[i]
    if s.number then visit(s.number, b.number, i, 0) end
    for d, v in ipairs(s.dims or {}) do visit(v, b.dims[d], i, d) end
  end
end

--- The steps of a line through two lists of sizes, by place and dim (0: a number), and how many lead to the second. In
--- the direction in which most sizes grow.
local function line_through(now, before)
  local steps, common, growth, whole = {}, 0, 0, true
  each_size(now, before, function(v, b, i, d)
    local by = v - b
    whole = whole and by % 1 == 0 and abs(v) < 2 ^ 31
    if not whole or by == 0 then return end
    steps[i] = steps[i] or {}
    steps[i][d] = by
    common = gcd(common, abs(by))
    growth = growth + (by > 0 and 1 or -1)
  end)
  if not whole or common == 0 then return nil end
  if growth < 0 then common = -common end
  for _, of in pairs(steps) do
    for d, by in pairs(of) do of[d] = by / common end
  end
  return steps, -common
end

--- How many steps lead from these sizes to the others; nil: they do not lie on the line.
local function steps_to(steps, now, other)
  local k, fits = nil, true
  each_size(now, other, function(v, o, i, d)
    local u = steps[i] and steps[i][d] or 0
    if u == 0 then
      fits = fits and v == o
    else
      fits = fits and (o - v) % u == 0 and (k == nil or k == (o - v) / u)
      k = (o - v) / u
    end
  end)
  return fits and k or nil
end

--- How many steps from the sizes a range may reach in either direction.
local function reach(steps, sizes)
  local low, high, dims = -huge, huge, false
  for i, of in pairs(steps) do dims = dims or sizes[i].dims ~= nil and next(of) ~= nil end
  for i, of in pairs(steps) do
    for d, u in pairs(of) do
      local v = d == 0 and sizes[i].number or sizes[i].dims[d]
      if d > 0 or not dims then
        local least, most = (max(2, ceil(v / 2)) - v) / abs(u), (2 * v - v) / abs(u)
        if u < 0 then least, most = -most, -least end
        low, high = max(low, ceil(least)), min(high, floor(most))
      end
    end
  end
  return min(low, 0), max(high, 0)
end

-- Tensors of other sizes ----------------------------------------------------------------------------------------------

local function row_major(s)
  local n = 1
  for d = #s.dims, 1, -1 do
    if s.strides[d] ~= n and s.dims[d] ~= 1 then return false end
    n = n * s.dims[d]
  end
  return true
end

--- The layout of a tensor k steps away, by that of another call that was `by` steps away. nil where it cannot be told.
local function layout_at(s, before, by, steps, k)
  local y = { dims = {}, strides = {} }
  local function along(v, b) return v + k * ((b - v) / by) end
  for d, v in ipairs(s.dims) do y.dims[d] = v + k * (steps and steps[d] or 0) end
  y.offset = along(s.offset, before.offset)
  if row_major(s) and row_major(before) then
    local n = 1
    for d = #s.dims, 1, -1 do y.strides[d], n = n, n * y.dims[d] end
    local all, other = 1, 1
    for d = 1, #s.dims do all, other = all * s.dims[d], other * before.dims[d] end
    y.elements = all == s.elements and other == before.elements and n or along(s.elements, before.elements)
  else
    for d, v in ipairs(s.strides) do y.strides[d] = along(v, before.strides[d]) end
    y.elements = along(s.elements, before.elements)
  end
  if y.offset % 1 ~= 0 or y.elements % 1 ~= 0 then return nil end
  for _, v in ipairs(y.strides) do
    if v % 1 ~= 0 then return nil end
  end
  return y
end

local function moves(s, before)
  if s.offset ~= before.offset or s.elements ~= before.elements then return true end
  for d, v in ipairs(s.strides) do
    if v ~= before.strides[d] then return true end
  end
  return false
end

--- Puts what stands in for the tensors and numbers of a call, where the replay reads them: what they would be k steps
--- away from those that the line was found with. False where that cannot be.
local function stand_in(p, now, line, k)
  local of_tensor, of_storage = {}, {}
  p.stand_ins = of_tensor
  for i, s in ipairs(line.sizes) do
    local of, b, real = line.steps[i], line.before[i], now[i]
    if s.number then
      p.slots[s.slot] = s.number + k * (of and of[0] or 0)
    elseif of or moves(s, b) then
      local t = of_tensor[real.tensor]
      if not t then
        local y = real.may and layout_at(s, b, line.by, of, k)
        t = y and p.C.stand_in(real.tensor, y.dims, y.strides, y.offset, y.elements, of_storage[real.storage])
        if not t then return false end
        of_tensor[real.tensor] = t
        of_storage[real.storage] = of_storage[real.storage] or t
      end
      p.slots[s.slot] = t
    end
  end
  return true
end

-- A range -------------------------------------------------------------------------------------------------------------

-- A range in the making is {line =, apart =, part =, low =, high =, samples =}: from low to high by steps of `apart`
-- steps of the line {sizes =, before =, by =, steps =}; part: of how far it may reach. samples[i]: what the replay of
-- sample i has noted, false while it is to be made.

local function begin(line, apart, part)
  local low, high = reach(line.steps, line.sizes)
  low, high = ceil(low * part / apart), floor(high * part / apart)
  if high - low < LEAST then return nil end
  local samples = { false, false, false, false, false }
  return { line = line, apart = apart, part = part, low = low, high = high, samples = samples, tries = TRIES }
end

--- The sample to be made next, and how many steps away it is: the ends first, since the tape may not be played there.
local function next_sample(range)
  local low, last, samples = range.low, range.high - range.low, range.samples
  if not samples[5] then return 5, range.high end
  if not samples[1] then return 1, low end
  local at = { 0, 1, floor(last / 2), last - 1 }
  for i = 2, 4 do
    if not samples[i] then return i, low + at[i] end
  end
end

--- Makes it. nil, and why: the range cannot be.
local function make_sample(handle, range, p, now)
  local i, k = next_sample(range)
  local replay = p:again()
  local done = stand_in(replay, now, range.line, k * range.apart) and replay:play(handle, p.position, i)
  for _, t in pairs(replay.stand_ins) do t:release() end -- they may be large
  if done then
    range.samples[i] = { values = replay.values, shapes = replay.shapes }
    return true
  end
  range.tries = range.tries - 1
  if range.tries < 0 or i > 1 and i < 5 or k == 0 then return nil, "the tape cannot be played at other sizes" end
  if i == 5 then range.high = floor(k / 2) else range.low = ceil(k / 2) end
  if range.high - range.low < LEAST then return nil, "the tape cannot be played at other sizes" end
  return true
end

--- A list of numbers {form, c, b, a} as the core takes it.
local function flat(list)
  local out = {}
  for _, z in ipairs(list) do
    for k = 1, 4 do out[#out + 1] = z[k] end
  end
  return out
end

--- By function: which of its arguments may follow from sizes, from one place to another: dims, places and values that
--- it takes as they are. What it divides by, or counts with, lies on no line between the samples: so those that are not
--- here are given the same at all sizes. series: its other numbers may be no fractions but eighths, lest a count is
--- rounded. record: the argument that is the number of a record.
local follow = {}

local function may_follow(first, last, names, series)
  local places = { first, last, series = series }
  for name in names:gmatch "%S+" do
    local f = ty[name]
    if f then follow[f] = places end
    local method = ty.internals.methods[name]
    if method then follow[method] = places end
  end
end

may_follow(1, 2, "arange range", true)
may_follow(1, 9, "zeros ones empty full rand randn eye tri tensor randperm")
may_follow(2, 9, "reshape view expand tile full_like unflatten pad")
may_follow(2, 3, "where clamp clamp_ masked_fill masked_fill_ bernoulli fill_")
may_follow(3, 3, "unfold randint uniform normal")
may_follow(3, 4, "narrow slice")
for _, row in ipairs(ty.internals.probe.ops()) do
  if row.class == "map" and row.lua then may_follow(1, row.arity, row.lua .. " " .. row.lua .. "_") end
end
for _, f in pairs(operators.compute) do follow[f] = { 1, 2 } end
follow[ty.internals.grad.join] = { 1, 0, record = 4 }
follow[ty.internals.grad.start] = { 1, 0, record = 4 }
follow[ty.internals.loop.record] = { 2, 2 } -- turns
for _, f in pairs(operators.index) do follow[f] = { 2, 3 } end

--- Makes a range of five samples.
local function join(handle, range, p)
  local last = range.high - range.low
  local t = { 0, 1, floor(last / 2), last - 1, last }
  local proof, why = proofs.prove(p.tape, range.samples, t, tape.names, follow)
  if not proof then return nil, why end
  return p.C.join(handle, p.position, last, proof.holes, flat(proof.given), flat(proof.sizes))
end

--- How far apart, and what part, the ranges are that are tried after one that cannot be: where plans differ, narrow
--- ones; then those of sizes that lie further apart, since numbers as floor(n / 2) follow from all sizes in ways of
--- their own.
local function others(of, why)
  local list = {}
  if why == DIFFER and of.part > PART then list[1] = { of.apart, of.part / 2 } end
  for _, apart in ipairs(APART) do
    if apart > of.apart then list[#list + 1] = { apart, 1 } end
  end
  return list
end

local function another(range, why)
  for _, o in ipairs(others(range, why)) do
    local other = begin(range.line, o[1], o[2])
    if other then return other end
  end
end

--- The next sample of the range in the making, and after the last one its end. What helped is the first that is tried
--- the next time.
local function go_on(handle, kept, p, now)
  local range = kept.range
  local done, why = make_sample(handle, range, p, now)
  if done and next_sample(range) then return end
  if done then done, why = join(handle, range, p) end
  kept.range, kept.why = nil, why
  if done then
    kept.apart, kept.part, kept.failures = range.apart, range.part, 0
    return
  end
  kept.range = another(range, why)
  if not kept.range then kept.failures = kept.failures + 1 end
end

--- A backward pass found that its plans are none for the range.
local function give_up(kept, why)
  local other = others(kept, why)[1]
  kept.range, kept.why = nil, why
  if other then kept.apart, kept.part = other[1], other[2] else kept.failures = FAILURES end
end

--- After a replay p of a call: a range around its sizes where they and those of two calls before lie on a line. A call
--- makes one of the five samples at most, so that none takes longer than twice the time of a replay.
function M.stretch(handle, p)
  local d, kept = p.d, p.tape.stretched or { failures = 0, apart = 1, part = 1 }
  p.tape.stretched = kept
  if kept.failures >= FAILURES then return end
  local unfit = p.C.unfit(handle, p.position)
  if unfit then give_up(kept, unfit) end
  if kept.failures >= FAILURES then return end
  local sizes = sizes_of(p)
  if not sizes then return end
  if kept.range then
    go_on(handle, kept, p, sizes)
  elseif kept.two then
    local steps, by = line_through(sizes, kept.one)
    if steps and steps_to(steps, sizes, kept.two) then
      if d.making and not d.making.range then d.making = nil end
      if not d.making then -- the trace has room for the samples of one
        kept.range = begin({ sizes = sizes, before = kept.one, by = by, steps = steps }, kept.apart, kept.part)
      end
      if kept.range then
        d.making = kept
        go_on(handle, kept, p, sizes)
      end
    end
  end
  kept.one, kept.two = without_tensors(sizes), kept.one
end

return M
