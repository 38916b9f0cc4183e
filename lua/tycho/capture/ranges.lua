--- ranges.lua -- a trace whose calls have ever new sizes gets an instance for a range of them.
-- In: replays of a trace's tape for sizes that calls have come with. Out: when the sizes of the last ones lie on a
-- line, the tape is played at five points of it, with tensors that stand in for those of such calls, and the core makes
-- one instance of the five (shape_range.c). Raises nothing: where that cannot be, each size has an instance of its own.
--
-- A line: sizes that calls had are s + k u for whole k, where s is the list of all dims of tensors from outside and of
-- all numbers that are sizes. A range is from half the sizes to twice the sizes of the call that asks for it, or less
-- where the tape cannot be played there. Claims about sizes (tape.lua) hold in all of a range: both sides of a claim
-- are polynomials of k, and what follows for the other points is worked out from the five.

local abs, ceil, floor, max, min, huge = math.abs, math.ceil, math.floor, math.max, math.min, math.huge
local pairs, ipairs, type, next, unpack = pairs, ipairs, type, next, unpack

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local LEAST = 5    -- steps of a range
local HOLES = 8    -- points of a range that it is not for
local FAILURES = 3 -- after which a trace is left alone
local TRIES = 4    -- to find an end of a range
local APART = { 1, 2, 8 } -- steps between the sizes of a range

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

-- Claims --------------------------------------------------------------------------------------------------------------

--- The polynomial c + b t + a t (t - 1) / 2 through values at the samples' t; nil where it is none.
local function polynomial(v, t)
  for i = 1, 5 do
    if type(v[i]) ~= "number" or v[i] % 1 ~= 0 or abs(v[i]) > 2 ^ 50 then return nil end
  end
  local m = t[3]
  local c, b = v[1], v[2] - v[1]
  local a = (v[3] - c - b * m) / (m * (m - 1) / 2)
  for i = 4, 5 do
    if v[i] ~= c + b * t[i] + a * (t[i] * (t[i] - 1) / 2) then return nil end
  end
  return c, b, a
end

local function all_same(v)
  for i = 2, 5 do
    if v[i] ~= v[1] then return false end
  end
  return v[1] == v[1]
end

--- Adds to holes the points of a range where a claim does not hold. False where there are too many, or nobody can say.
local function hold_between(claims, t, holes)
  for j, first in ipairs(claims[1]) do
    local compare, outcome, a, b = first[1], first[4], {}, {}
    for i = 1, 5 do
      local claim = claims[i][j]
      if not claim or claim[1] ~= compare then return false end
      a[i], b[i] = claim[2], claim[3]
    end
    if not (all_same(a) and all_same(b)) then
      local a0, a1, a2 = polynomial(a, t)
      local b0, b1, b2 = polynomial(b, t)
      if not a0 or not b0 then return false end
      local straight = a2 == b2 and a1 == b1 -- as far apart everywhere
      for k = 0, straight and -1 or t[5] do
        local pairs_of = k * (k - 1) / 2
        if compare(a0 + a1 * k + a2 * pairs_of, b0 + b1 * k + b2 * pairs_of) ~= outcome and not holes[k] then
          holes[k] = true
          holes.n = holes.n + 1
          if holes.n > HOLES then return false end
        end
      end
    end
  end
  return true
end

-- A range -------------------------------------------------------------------------------------------------------------

-- A range in the making is {line =, apart =, low =, high =, claims =}: from low to high by steps of `apart` steps of
-- the line {sizes =, before =, by =, steps =}. claims[i]: what sample i claimed, false while it is to be made.

local function begin(line, apart)
  local low, high = reach(line.steps, line.sizes)
  low, high = ceil(low / apart), floor(high / apart)
  if high - low < LEAST then return nil end
  local claims = { false, false, false, false, false }
  return { line = line, apart = apart, low = low, high = high, claims = claims, tries = TRIES }
end

--- The sample to be made next, and how many steps away it is: the ends first, since the tape may not be played there.
local function next_sample(range)
  local low, last, claims = range.low, range.high - range.low, range.claims
  if not claims[5] then return 5, range.high end
  if not claims[1] then return 1, low end
  local at = { 0, 1, floor(last / 2), last - 1 }
  for i = 2, 4 do
    if not claims[i] then return i, low + at[i] end
  end
end

--- Makes it. nil, and why: the range cannot be.
local function make_sample(handle, range, p, now)
  local i, k = next_sample(range)
  local replay = p:again()
  replay.claims = {}
  if stand_in(replay, now, range.line, k * range.apart) and replay:play(handle, p.position, i) then
    range.claims[i] = replay.claims
    return true
  end
  range.tries = range.tries - 1
  if range.tries < 0 or i > 1 and i < 5 or k == 0 then return nil, "the tape cannot be played at other sizes" end
  if i == 5 then range.high = floor(k / 2) else range.low = ceil(k / 2) end
  if range.high - range.low < LEAST then return nil, "the tape cannot be played at other sizes" end
  return true
end

--- Makes a range of five samples.
local function join(handle, range, p)
  local last, holes, list = range.high - range.low, { n = 0 }, {}
  if not hold_between(range.claims, { 0, 1, floor(last / 2), last - 1, last }, holes) then
    return nil, "what the code decides by sizes differs between them"
  end
  for k in pairs(holes) do
    if k ~= "n" then list[#list + 1] = k end
  end
  return p.C.join(handle, p.position, last, unpack(list))
end

--- The next sample of the range in the making, and after the last one its end. Where it cannot be, the next one is of
--- sizes that lie further apart, since numbers such as floor(n / 2) follow from all sizes in ways of their own. What
--- helped is the first that is tried the next time.
local function go_on(handle, kept, p, now)
  local range = kept.range
  local done, why = make_sample(handle, range, p, now)
  if done and next_sample(range) then return end
  if done then done, why = join(handle, range, p) end
  kept.range, kept.why = nil, why
  if done then
    kept.apart, kept.failures = range.apart, 0
    return
  end
  for i = 1, #APART do
    if APART[i] > range.apart and not kept.range then kept.range = begin(range.line, APART[i]) end
  end
  if not kept.range then kept.failures = kept.failures + 1 end
end

--- After a replay p of a call: a range around its sizes where they and those of two calls before lie on a line. A call
--- makes one of the five samples at most, so that none takes longer than twice the time of a replay.
function M.stretch(handle, p)
  local d = p.d
  local kept = d.stretched or { failures = 0, apart = 1 }
  d.stretched = kept
  if kept.failures >= FAILURES then return end
  local sizes = sizes_of(p)
  if not sizes then return end
  if kept.tape ~= p.tape then kept.tape, kept.one, kept.two, kept.range = p.tape, nil, nil, nil end
  if kept.range then
    go_on(handle, kept, p, sizes)
  elseif kept.two then
    local steps, by = line_through(sizes, kept.one)
    if steps and steps_to(steps, sizes, kept.two) then
      kept.range = begin({ sizes = sizes, before = kept.one, by = by, steps = steps }, kept.apart)
      if kept.range then go_on(handle, kept, p, sizes) end
    end
  end
  kept.one, kept.two = without_tensors(sizes), kept.one
end

return M
