--- export/sizes.lua -- numbers of a plan that follow from sizes: polynomials in the sizes that callers give.
-- In: Lua numbers, polynomials. Out: their sums and products, and C text. A number without sizes stays a Lua number, so
-- that what is known is compared with == as it is; a polynomial equals no number.

local getmetatable, setmetatable, pairs, type, tostring = getmetatable, setmetatable, pairs, type, tostring
local format, match, gmatch = string.format, string.match, string.gmatch
local concat, sort, max = table.concat, table.sort, math.max

local M = {}

local Poly = {}

local function is_poly(v) return getmetatable(v) == Poly end

--- coefficients: by monomial, a text such as "n n rows"; "" is the constant.
local function make(coefficients)
  local only, n = nil, 0
  for key, v in pairs(coefficients) do
    if v == 0 then coefficients[key] = nil else only, n = key, n + 1 end
  end
  if n == 0 then return 0 end
  if n == 1 and only == "" then return coefficients[""] end
  return setmetatable(coefficients, Poly)
end

local function terms(v) return is_poly(v) and v or { [""] = v } end

local function joined(a, b)
  local words = {}
  for w in gmatch(a .. " " .. b, "%S+") do words[#words + 1] = w end
  sort(words)
  return concat(words, " ")
end

function Poly.__add(a, b)
  local y = {}
  for key, v in pairs(terms(a)) do y[key] = v end
  for key, v in pairs(terms(b)) do y[key] = (y[key] or 0) + v end
  return make(y)
end

function Poly.__mul(a, b)
  local y = {}
  for p, v in pairs(terms(a)) do
    for q, w in pairs(terms(b)) do
      local key = joined(p, q)
      y[key] = (y[key] or 0) + v * w
    end
  end
  return make(y)
end

function Poly.__unm(a) return a * -1 end

function Poly.__sub(a, b) return a + b * -1 end

function Poly.__eq(a, b)
  for key, v in pairs(a) do
    if b[key] ~= v then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

--- A size by its name in C.
function M.size(name) return make { [name] = 1 } end

--- A polynomial of so many monomials.
M.make, M.is_poly = make, is_poly

--- Whole numbers of C; those that an int does not hold have their type.
local function literal(v)
  if v < -2 ^ 31 or v >= 2 ^ 31 then return format("INT64_C(%.0f)", v) end
  return format("%d", v)
end

function Poly.__tostring(a)
  local keys, out = {}, {}
  for key in pairs(a) do keys[#keys + 1] = key end
  sort(keys)
  for i, key in ipairs(keys) do
    local v, factors = a[key], key:gsub(" ", " * ")
    local by = key == "" and literal(v) or v == 1 and factors or literal(v) .. " * " .. factors
    out[i] = by
  end
  return #out == 1 and out[1] or "(" .. concat(out, " + ") .. ")"
end

--- C text of a number, which stands in products and sums as it is.
function M.text(v)
  if type(v) == "number" then return v < 0 and "(" .. literal(v) .. ")" or literal(v) end
  return match(tostring(v), "^%(") and tostring(v) or "(" .. tostring(v) .. ")"
end

--- Whether a number is known and at most `most`.
function M.at_most(v, most) return type(v) == "number" and v <= most end

--- A multiple of `by`, divided.
function M.divide(v, by)
  if type(v) == "number" then return v / by end
  local y = {}
  for key, c in pairs(v) do y[key] = c / by end
  return make(y)
end

--- Not less, for sizes from 1 on: coefficients that are multiples of `unit`.
function M.round_up(v, unit)
  if type(v) == "number" then return v + -v % unit end
  local y = {}
  for key, c in pairs(v) do y[key] = c + -c % unit end
  return make(y)
end

--- Not less than either, for sizes from 1 on.
function M.larger(a, b)
  if type(a) == "number" and type(b) == "number" then return max(a, b) end
  local y = {}
  a, b = terms(a), terms(b)
  for key, c in pairs(a) do y[key] = max(c, b[key] or 0) end
  for key, c in pairs(b) do y[key] = max(c, a[key] or 0) end
  return make(y)
end

--- The value where sizes are known by name.
function M.value(v, sizes)
  if type(v) == "number" then return v end
  local sum = 0
  for key, by in pairs(v) do
    for name in gmatch(key, "%S+") do by = by * sizes[name] end
    sum = sum + by
  end
  return sum
end

return M
