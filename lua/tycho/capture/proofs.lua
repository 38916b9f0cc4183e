--- proofs.lua -- what holds of a tape at all points of a range of sizes, by what it is made of and by five samples.
-- In: a tape, what its replays at the samples have noted, where the samples lie. Out: the points at which something is
-- decided otherwise; how the numbers follow that operations and the trace are given. nil, and why: nobody can say.
--
-- Each number of the tape is followed, not fitted: it is c + b t + a t (t - 1) / 2, which a product of two sizes is, or
-- the reciprocal, the root, or the reciprocal of the root of that. What else is computed from sizes (n % 7) may not be
-- given to an operation, compared, or given back.
-- 1. Sizes that operations give (dims, lengths) come from five samples. They follow from other sizes by sums, products,
--    and divisions by what is no size, which are no such line at five points unless they are one everywhere: operations
--    are given no other numbers that follow from sizes than they take as they are (follow). But what is cut off at 0
--    may be one: a dim that is 0 at all samples proves nothing. Dims are lines; a number of elements may be a product.
-- 2. With lines alone, what an operation demands of its arguments (that one is no greater than another, or not below 0)
--    holds between two points where it holds at both.
-- 3. Where two numbers that are compared for equality meet at one point, that point is a hole. So is one at which a
--    number is 0: sign and wholeness may differ there. Whether a tensor is reshaped as a view or by a copy goes by
--    equalities of sizes and strides, which the core notes as it decides (core/engine/range_decided.c).

local abs, floor, ceil, sqrt = math.abs, math.floor, math.ceil, math.sqrt
local ipairs, pairs, type = ipairs, pairs, type

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

local M = {}

local C = require("tycho").internals.capture
local MOST = C.RANGE_HOLES -- points of a range that it is not for
local SIZE, EIGHTH, RECIPROCAL, ROOT, RECIPROCAL_ROOT = C.SIZE, C.EIGHTH, C.RECIPROCAL, C.ROOT, C.RECIPROCAL_ROOT
local QUOTIENT = {} -- {QUOTIENT, c, b, a, by}: that divided by a number; never told to the core

-- Numbers for which operations do something else than for others: exponents, counts.
local SPECIAL = { -1, 0.5, 1, 1.5, 2, 3 }

local function is_whole(v) return v % 1 == 0 and abs(v) < 2 ^ 50 end

-- Points --------------------------------------------------------------------------------------------------------------

local Proof = {}
Proof.__index = Proof

function Proof:hole(t)
  if t < 0 or t > self.last or t % 1 ~= 0 or self.holes[t] then return end
  self.holes[t] = true
  self.count = self.count + 1
end

local function at(c, b, a, t) return c + b * t + a * (t * (t - 1) / 2) end

--- Where it is 0.
function Proof:root(c, b, a)
  if a == 0 then
    if b ~= 0 then self:hole(-c / b) end
    return
  end
  for t = 0, self.last do
    if at(c, b, a, t) == 0 then self:hole(t) end
  end
end

--- The polynomial through values at the samples; nil where it is none.
function Proof:polynomial(v)
  for i = 1, 5 do
    if type(v[i]) ~= "number" or not is_whole(v[i]) then return nil end
  end
  local t, m = self.t, self.t[3]
  local c, b = v[1], v[2] - v[1]
  local a = (v[3] - c - b * m) / (m * (m - 1) / 2)
  for i = 4, 5 do
    if v[i] ~= at(c, b, a, t[i]) then return nil end
  end
  return c, b, a
end

-- Numbers -------------------------------------------------------------------------------------------------------------

-- A number is {form, c, b, a}: the form of c + b t + a t (t - 1) / 2; false: it follows from sizes in another way.

local function constant(v) return { SIZE, v, 0, 0 } end

local function is_constant(z) return z[3] == 0 and z[4] == 0 end

--- Whether it grows with t or falls, perhaps ever faster.
local function is_steady(z) return z[4] == 0 or z[3] >= 0 and z[4] > 0 or z[3] <= 0 and z[4] < 0 end

--- The number whose values at the samples these are, if they lie on a line, or grow as a product of two sizes does.
function Proof:followed(v)
  local c, b, a = self:polynomial(v)
  if not c then
    for i = 2, 5 do
      if v[i] ~= v[1] then return false end
    end
    return v[1] == v[1] and constant(v[1])
  end
  if a ~= 0 and not (a > 0 and b >= 0 and c > 1) then return false end
  self:root(c, b, a)
  return { SIZE, c, b, a }
end

local compute = {}

function compute.add(x, y) return { SIZE, x[2] + y[2], x[3] + y[3], x[4] + y[4] } end
function compute.sub(x, y) return { SIZE, x[2] - y[2], x[3] - y[3], x[4] - y[4] } end
function compute.unm(x) return { SIZE, -x[2], -x[3], -x[4] } end

function compute.mul(x, y)
  if is_constant(x) then x, y = y, x end
  local c, b, a = y[2], y[3], x[4]
  if is_constant(y) then return c ~= 0 and { SIZE, x[2] * c, x[3] * c, a * c } end -- 0 has the sign of x
  if a ~= 0 or y[4] ~= 0 then return false end
  return { SIZE, x[2] * c, x[2] * b + x[3] * c + x[3] * b, 2 * x[3] * b }
end

local is_power_of_two = { [1] = true, [2] = true, [4] = true, [8] = true }

--- By a number that is no power of two, the quotient is rounded: only its floor is known, and only where the steps are
--- whole.
function compute.div(x, y)
  local by = y[2]
  if not is_constant(y) then return x[2] == 1 and is_constant(x) and { RECIPROCAL, by, y[3], y[4] } end
  local c, b, a = x[2] / by, x[3] / by, x[4] / by
  if is_power_of_two[by] then return { SIZE, c, b, a } end
  return by >= 1 and is_whole(by) and is_whole(x[2]) and is_whole(b) and is_whole(a)
    and (is_whole(c) and { SIZE, c, b, a } or { QUOTIENT, x[2], x[3], x[4], by })
end

local function rounded(f)
  return function(x)
    if x[1] == QUOTIENT then return { SIZE, f(x[2] / x[5]), x[3] / x[5], x[4] / x[5] } end
    return is_whole(x[3]) and is_whole(x[4]) and { SIZE, f(x[2]), x[3], x[4] }
  end
end

compute.floor, compute.ceil = rounded(floor), rounded(ceil)
function compute.sqrt(x) return { ROOT, x[2], x[3], x[4] } end

--- Whether a reciprocal or root is one of numbers beyond 1 and, but for holes, not whole.
function Proof:is_never_whole(z)
  local low, high = z[2], at(z[2], z[3], z[4], self.last)
  if low > high then low, high = high, low end
  if low <= 1 then return false end
  if z[1] == ROOT then
    for k = ceil(sqrt(low)), floor(sqrt(high)) do self:root(z[2] - k * k, z[3], z[4]) end
  end
  return true
end

--- What is computed of two numbers or one; f: as the tape has it, name: of a plain operation.
function Proof:computed(f, name, x, y)
  if not x or y == false then return false end
  if x[1] == SIZE and is_constant(x) and (not y or y[1] == SIZE and is_constant(y)) then
    local v = y and f(x[2], y[2]) or not y and f(x[2])
    return type(v) == "number" and v == v and constant(v)
  end
  if name == "div" and y[1] == ROOT and x[1] == SIZE and x[2] == 1 and is_constant(x) then
    return { RECIPROCAL_ROOT, y[2], y[3], y[4] }
  end
  local quotient = x[1] == QUOTIENT and (name == "floor" or name == "ceil")
  if x[1] ~= SIZE and not quotient or y and y[1] ~= SIZE or not compute[name] then return false end
  local z = compute[name](x, y)
  if not z or not is_steady(z) then return false end
  if abs(z[2]) + abs(z[3] * self.last) + abs(z[4]) * self.last ^ 2 > 2 ^ 48 then return false end -- else rounded
  if not is_whole(z[2] * 8) or not is_whole(z[3] * 8) or not is_whole(z[4] * 8) then return false end
  self:root(z[2], z[3], z[4])
  return (z[1] == SIZE or z[1] == QUOTIENT or self:is_never_whole(z)) and z
end

-- Entries of a tape ---------------------------------------------------------------------------------------------------

--- The number that an operand is; nil: it is none.
function Proof:number(x)
  if x[1] == "register" then return self.known[x[2]] end
  if x[1] == "value" and type(x[2]) == "number" then return constant(x[2]) end
end

--- What the core is told of a number: {form, c, b, a} in whole numbers; nil where that cannot be.
local function told(z)
  if is_whole(z[2]) and is_whole(z[3]) and is_whole(z[4]) then return z[1] ~= QUOTIENT and z or nil end
  return z[1] == SIZE and { EIGHTH, z[2] * 8, z[3] * 8, z[4] * 8 } or nil
end

--- Whether an operation may be given the operand. may_follow: also where it follows from sizes. No option does, nor the
--- step of an index.
function Proof:may_be_given(x, may_follow, inner)
  if x[1] == "table" then
    for k, e in pairs(x[2]) do
      if not self:may_be_given(e, may_follow and type(k) == "number" and not (inner and k == 3), true) then
        return false
      end
    end
    return true
  end
  if x[1] ~= "register" then return true end
  local z = self.known[x[2]]
  if z == nil then return true end
  if not z or z[1] == QUOTIENT then return false end
  if z[1] == SIZE and not (is_whole(z[3]) and is_whole(z[4])) then return false end -- now whole, now not
  if is_constant(z) then return true end
  local number = told(z)
  if not may_follow or not number then return false end
  for _, v in ipairs(SPECIAL) do self:root(z[2] - v, z[3], z[4]) end
  self.given[#self.given + 1] = number
  return true
end

--- Whether an operand is no number, or one of whole eighths, as those that follow from sizes are.
function Proof:is_in_eighths(x)
  local z = self:number(x)
  return not z or is_whole(z[2] * 8)
end

--- Notes what a result is at all points; false where a dim follows from sizes in another way.
function Proof:result(x)
  if x[1] == "table" then
    for _, e in pairs(x[2]) do
      if not self:result(e) then return false end
    end
    return true
  end
  if x[1] ~= "new" then return true end
  local r, v = x[2], {}
  if x[3] == "number" then
    for i = 1, 5 do v[i] = self.samples[i].values[r] end
    self.known[r] = self:followed(v)
  elseif x[4] then
    for d = 1, x[4] do
      for i = 1, 5 do v[i] = self.samples[i].shapes[r][d] end
      local z = self:followed(v)
      if not z or z[4] ~= 0 then return false end
      if z[2] == 0 and z[3] == 0 then return false end -- none at the samples: less than none is none, too
    end
  end
  return true
end

local entry = {}

function entry.outside() return true end

function entry.bound(p, e)
  local v = {}
  for i = 1, 5 do v[i] = p.samples[i].values[e[3]] end
  p.known[e[3]] = p:followed(v)
  return true
end

function entry.compute(p, e, names)
  local x, y = p:number(e[3]), nil
  if e[4] then y = p:number(e[4]) or false end
  p.known[e[5]] = p:computed(e[2], names[e[2]], x, y)
  return true
end

--- What is less at both ends is so between them where both sides are lines, and what is equal at some points only is a
--- hole. Of products each point is looked at.
function entry.claim(p, e, names)
  local x, y = p:number(e[3]), p:number(e[4])
  if not x or not y or x[1] ~= SIZE or y[1] ~= SIZE then return false end
  local name, a = names[e[2]], x[4] - y[4]
  if name ~= "lt" and name ~= "le" then
    p:root(x[2] - y[2], x[3] - y[3], a)
  elseif a ~= 0 then
    for t = 0, p.last do
      if e[2](at(x[2], x[3], x[4], t), at(y[2], y[3], y[4], t)) ~= e[5] then p:hole(t) end
    end
  end
  return true
end

local NONE = { 1, 0 }

function entry.call(p, e, _, follow)
  local places = e[2][1] == "value" and follow[e[2][2]] or NONE
  for i = 1, e[4] do
    if i ~= places.record and not p:may_be_given(e[3][i], places[1] <= i and i <= places[2]) then return false end
    if places.series and not p:is_in_eighths(e[3][i]) then return false end
  end
  for i = 1, e[7] do
    if not p:result(e[6][i]) then return false end
  end
  return true
end

--- samples[i]: {values =, by register, shapes =, by register of a tensor} of the replay at
--- t[i]; names: of plain operations, by function; follow: by function, which arguments may follow from sizes. Gives
--- {holes =, given =, sizes =}: lists of points and of numbers.
---@return table? proof
---@return string? why there is none
function M.prove(tape, samples, t, names, follow)
  local p = setmetatable({ samples = samples, t = t, last = t[5], known = {}, given = {}, holes = {}, count = 0 },
    Proof)
  for _, e in ipairs(tape.entries) do
    if not entry[e[1]](p, e, names, follow) then
      return nil, "what the code does with sizes is not known between those that were tried"
    end
  end
  local out = { holes = {}, given = p.given, sizes = {} }
  for i, r in ipairs(tape.sizes) do
    local z = p.known[r]
    out.sizes[i] = z and told(z)
    if not out.sizes[i] then return nil, "a number that is given back follows from sizes in its own way" end
  end
  if p.count > MOST then return nil, "too many sizes decide otherwise" end
  for k in pairs(p.holes) do out.holes[#out.holes + 1] = k end
  return out
end

return M
