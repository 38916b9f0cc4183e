--- export/dynamic.lua -- one plan for any sizes, out of plans for some.
-- In: plans of one function for sizes on a grid, and for others to prove them with. Out: a plan whose numbers are
-- polynomials of the sizes. Raises where plans differ in more than numbers, or a number is no such polynomial.
--
-- Why it is right in between: what a function computes is its graph, and that must be one graph for all samples, the
-- smallest among them. How a plan cuts it is another matter: plans of small sizes are cut in other ways since that is
-- faster, but the order of every sum follows from shapes alone, so a plan that is valid for a size gives the bits of
-- Tycho's own plan for it. Valid it is where sizes are equal, or 1, just where they were on the grid: two polynomials
-- that are equal there are equal, and 1 is a case of its own.

local sizes = require "tycho.export.sizes"

local type, pairs, ipairs, tostring, tonumber = type, pairs, ipairs, tostring, tonumber
local format, sub, gmatch, match, gsub = string.format, string.sub, string.gmatch, string.match, string.gsub
local floor, abs, sqrt = math.floor, math.abs, math.sqrt

local M = {}

--- Multiples of an example's size: where polynomials of degree 2 are fitted, and where they are proved.
M.GRID, M.PROOF = { 1, 2, 3 }, { 5, 7 }

-- Polynomials ---------------------------------------------------------------------------------------------------------

local function whole(c)
  local r = floor(c + 0.5)
  return abs(c - r) <= 1e-9 * (1 + abs(c)) and r or nil
end

--- Coefficients of 1, x, x^2 through three points.
local function quadratic(x, v)
  local d1, d2 = (v[2] - v[1]) / (x[2] - x[1]), (v[3] - v[2]) / (x[3] - x[2])
  local c2 = (d2 - d1) / (x[3] - x[1])
  local c1 = d1 - c2 * (x[1] + x[2])
  return { v[1] - c1 * x[1] - c2 * x[1] * x[1], c1, c2 }
end

--- The polynomial through values on a grid: at(index of a sample), names and points of the sizes; nil where it has
--- other coefficients than whole numbers.
local function fitted(names, points, at)
  local coefficients, fine = {}, true
  local function go(k, index, monomial, value)
    -- value(index): what is left to fit when the sizes before k are settled
    if k > #names then
      local c = whole(value(index))
      if not c then fine = false elseif c ~= 0 then coefficients[monomial] = c end
      return
    end
    for power = 0, 2 do
      local function settled(others)
        local v = {}
        for i = 1, 3 do
          others[k] = i
          v[i] = value(others)
        end
        return quadratic(points[k], v)[power + 1]
      end
      local word = power == 0 and "" or power == 1 and names[k] or names[k] .. " " .. names[k]
      local joined = match(monomial .. " " .. word, "^%s*(.-)%s*$")
      go(k + 1, index, joined, settled)
    end
  end
  go(1, {}, "", at)
  if not fine then return nil end
  -- monomials as sizes.lua writes them
  local sum = 0
  for monomial, c in pairs(coefficients) do
    local term = c
    for word in gmatch(monomial, "%S+") do term = term * sizes.size(word) end
    sum = sum + term
  end
  return sum
end

-- Scalars -------------------------------------------------------------------------------------------------------------

local function f32_of(bits)
  local low = tonumber(bits, 16)
  local sign, exponent, fraction = low >= 2 ^ 31 and -1 or 1, floor(low / 2 ^ 23) % 256, low % 2 ^ 23
  if exponent == 255 then return 0 / 0 end
  return sign * (exponent == 0 and fraction * 2 ^ -149 or (fraction + 2 ^ 23) * 2 ^ (exponent - 150))
end

local function f64_of(bits)
  bits = ("0"):rep(16 - #bits) .. bits
  local high, low = tonumber(sub(bits, 1, 8), 16), tonumber(sub(bits, 9), 16)
  local sign, exponent = high >= 2 ^ 31 and -1 or 1, floor(high / 2 ^ 20) % 2048
  local fraction = high % 2 ^ 20 * 2 ^ 32 + low
  if exponent == 2047 then return 0 / 0 end
  return sign * (exponent == 0 and fraction * 2 ^ -1074 or (fraction + 2 ^ 52) * 2 ^ (exponent - 1075))
end

--- The number behind the bits of a compute type.
local function value_of(kind, bits)
  if kind == "f32" then return f32_of(bits) end
  if kind == "f64" then return f64_of(bits) end
  local high = #bits > 8 and tonumber(sub(bits, 1, #bits - 8), 16) or 0
  local v = high * 2 ^ 32 + tonumber(sub(bits, -8), 16)
  if kind == "i32" then return v >= 2 ^ 31 and v - 2 ^ 32 or v end
  return v >= 2 ^ 63 and v - 2 ^ 64 or v
end

local function rounded(kind, v)
  if kind ~= "f32" then return v end
  local m, e = math.frexp(v)
  local s = m * 2 ^ 24
  local r = floor(s)
  local rest = s - r
  if rest > 0.5 or rest == 0.5 and r % 2 == 1 then r = r + 1 end
  return r * 2 ^ (e - 24)
end

--- How numbers come of sizes: the size behind a number, the number, as C text.
local forms = {
  { function(v) return v end, function(n) return n end, "(double)%s" },
  { function(v) return v * 8 end, function(n) return n * 0.125 end, "(double)%s * 0.125" },
  { function(v) return 1 / v end, function(n) return 1 / n end, "1.0 / (double)%s" },
  { function(v) return v * v end, function(n) return sqrt(n) end, "ty_sqrt_f64((double)%s)", "sqrt_f64" },
  { function(v) return 1 / (v * v) end, function(n) return 1 / sqrt(n) end, "1.0 / ty_sqrt_f64((double)%s)",
    "sqrt_f64" },
}

-- Plans ---------------------------------------------------------------------------------------------------------------

--- The compute type in which programs read scalar slot i of a plan.
local function kind_of(p, i)
  for _, s in ipairs(p.steps or {}) do
    for k, slot in ipairs(s.scalars or {}) do
      local kind = slot == i and s.program and match(s.program, "scalar (%w+) row #" .. format("%x", k - 1) .. "%f[%X]")
      if kind or slot == i and k == 1 and s.program and match(s.program, "scalar (%w+) row\n") then
        return kind or match(s.program, "scalar (%w+) row\n")
      end
    end
  end
end

--- One plan of many. samples: {plan =, sizes = {name = value}}, of which the first are the grid, in the order of its
--- indices; names: of the sizes; points: by size. refuse(what) raises.
function M.unify(samples, names, points, refuse)
  local first = samples[1].plan

  local function index_of(index)
    local at, by = 1, 1
    for k = 1, #names do
      at = at + (index[k] - 1) * by
      by = by * 3
    end
    return at
  end

  local function number(values, where, list)
    local v = values[1]
    local same = true
    for i = 2, #list do same = same and values[i] == v end
    if same then return v end
    local y = fitted(names, points, function(index) return values[index_of(index)] end)
    if not y then refuse(format("%s follows from sizes in a way that is no polynomial", where)) end
    for i = 1, #list do
      if sizes.value(y, list[i].sizes) ~= values[i] then
        refuse(format("%s follows from sizes in another way for some of them", where))
      end
    end
    return y
  end

  local function scalar(values, i)
    local kind = kind_of(first, i - 1)
    if not kind then refuse "a number that follows from sizes, and is read by no program" end
    local v = {}
    for k, bits in ipairs(values) do v[k] = value_of(kind, bits) end
    for _, form in ipairs(forms) do
      local n, fits = {}, true
      for k = 1, #v do
        n[k] = floor(form[1](v[k]) + 0.5)
        fits = fits and n[k] == n[k] and abs(n[k]) < 2 ^ 53 and rounded(kind, form[2](n[k])) == v[k]
      end
      local ok, poly = pcall(number, n, "a number", samples)
      if fits and ok then
        return { kind = "sized", text = format(form[3], sizes.text(poly)), type = kind, needs = form[4] }
      end
    end
    return refuse "a number follows from sizes in a way that is not known"
  end

  local function another(where) return refuse(format("its plan is another one for other sizes (%s)", where)) end

  --- One value of the values of samples `of`.
  local function merge(list, where, of)
    local v = list[1]
    for i = 2, #of do
      if type(list[i]) ~= type(v) then another(where) end
    end
    if type(v) == "number" then return number(list, where, of) end
    if type(v) ~= "table" then
      for i = 2, #of do
        if list[i] ~= v then another(where) end
      end
      return v
    end
    local y, seen = {}, 0
    for key in pairs(v) do
      local values = {}
      for i = 1, #of do values[i] = list[i][key] end
      if #values < #of then another(where) end
      y[key] = merge(values, where .. "." .. tostring(key), of)
      seen = seen + 1
    end
    for i = 2, #of do
      local n = 0
      for _ in pairs(list[i]) do n = n + 1 end
      if n ~= seen then another(where) end
    end
    return y
  end

  --- Graphs, word by word: numbers in decimal may follow from sizes; scalars are looked at apart.
  local function words_of(text)
    local out = {}
    for line in gmatch(text, "[^\n]+") do
      if sub(line, 1, 1) ~= "$" then
        local plain = gsub(line, "0x%x+", function(hex) return "h" .. gsub(hex, "%d", "%0_") end)
        local at = 1
        for from, digits, to in gmatch(plain, "()(%-?%f[%w]%d+%f[^%w])()") do
          out[#out + 1], out[#out + 2] = sub(plain, at, from - 1), tonumber(digits)
          at = to
        end
        out[#out + 1] = sub(plain, at)
      end
    end
    return out
  end

  local planned, graphs, plans, rest, numbers = {}, {}, {}, {}, {}
  for i, s in ipairs(samples) do
    local p = s.plan
    graphs[i], numbers[i] = words_of(p.graph), p.numbers
    rest[i] = { inputs = p.inputs, targets = p.targets, made = p.made, checks = p.checks, results = p.results,
      tables = p.tables, streams = p.streams }
    if not s.small then
      planned[#planned + 1] = s
      plans[#plans + 1] = { steps = p.steps, slots = p.slots, outputs = p.outputs }
    end
  end
  merge(graphs, "the graph", samples)
  local y = merge(plans, "the plan", planned)
  for key, v in pairs(merge(rest, "the plan", samples)) do y[key] = v end
  y.numbers = {}
  for i, from in ipairs(first.numbers) do
    local bits, same = {}, true
    for k = 1, #samples do
      local other = numbers[k][i]
      if not other or other.kind ~= from.kind then refuse "its plan has other numbers for other sizes" end
      bits[k] = other.bits
      same = same and other.bits == from.bits
    end
    y.numbers[i] = same and from or scalar(bits, i)
  end
  return y
end

--- The samples that are to be taken for sizes whose examples are given: lists of {name = value}, the grid's first; and
--- the points of each size.
function M.samples(names, examples)
  local list, points = {}, {}
  for k, name in ipairs(names) do
    points[k] = {}
    for i, by in ipairs(M.GRID) do points[k][i] = examples[name] * by end
  end
  local function go(k, chosen)
    if k == 0 then
      local copy = {}
      for name, v in pairs(chosen) do copy[name] = v end
      list[#list + 1] = copy
      return
    end
    for i = 1, 3 do
      chosen[names[k]] = points[k][i]
      go(k - 1, chosen)
    end
  end
  go(#names, {})
  local grid = #list
  for i, by in ipairs(M.PROOF) do
    local chosen = {}
    for k, name in ipairs(names) do chosen[name] = examples[name] * (by + (i + k) % 2) end
    list[grid + i] = chosen
  end
  return list, points
end
return M
