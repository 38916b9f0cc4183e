-- Random programs: what a statement is, how it runs, how it is made. A statement is a table {kind, y = variable, ...}
-- whose operands are variable numbers; statements whose operands are gone (after shrinking) do nothing.
-- What programs are made of is in a table (`M.usual`), so that others (fuzz_loss.lua) can make theirs of other things.

local ffi = require "ffi"

local here = debug.getinfo(1, "S").source:match "^@(.*)[/\\][^/\\]*$" or "."
local frame, names = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_names.lua")

local M = {}

local LARGE = 2e6 -- elements beyond which no result is made
local FLOATS = { f32 = true, f64 = true, f16 = true, bf16 = true }
local COMPLEX = { c64 = true, c128 = true }
local SPECIAL = { 0, -0.0, 1, -1, 0.5, 2, 3, 7, -2.5, 1e-3, 1e30, -1e-40, 1 / 0, -1 / 0, 0 / 0, 100, 1e10 }

-- --- writing down

-- Bits of a tensor as a Lua string, every NaN the same.
local bits_of = { [1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t" }
local bytes_of = { bool = 1, u8 = 1, i8 = 1, i16 = 2, u16 = 2, i32 = 4, u32 = 4, i64 = 8, u64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }
local nan_above = { f16 = 0x7c00, bf16 = 0x7f80, f32 = 0x7f800000, f64 = 0x7ff0000000000000ULL }

local function image(t)
  local c = t:clone():to("cpu")
  if c:is_complex() then c = c:view_as_real() end
  local n, size = c:numel(), bytes_of[c.dtype]
  if n == 0 then return "" end
  local p = ffi.cast(bits_of[size] .. "*", c:data())
  local limit = nan_above[c.dtype]
  if limit then
    local sign = ffi.cast(bits_of[size], 1) * 1ULL
    for _ = 1, size * 8 - 1 do sign = sign * 2 end
    for i = 0, n - 1 do
      local magnitude = p[i] + 0ULL
      if magnitude >= sign then magnitude = magnitude - sign end
      if magnitude > limit + 0ULL then p[i] = ffi.cast(bits_of[size], limit + 0ULL) + 1 end
    end
  end
  local s = ffi.string(p, n * size)
  c:release()
  return s
end

--- A value as text, a tensor with its bits.
function M.describe(ty, v)
  if not ty.is_tensor(v) then return type(v) .. " " .. tostring(v) end
  return table.concat({ v.dtype, table.concat(v.shape, "x"), image(v) }, " ")
end

--- Where two values differ first: of tensors of one type the element and both bits, as text.
function M.difference(ty, want, got)
  if not (ty.is_tensor(want) and ty.is_tensor(got)) or want.dtype ~= got.dtype or #want.shape ~= #got.shape then
    return ("%s instead of %s"):format(tostring(got), tostring(want))
  end
  local a, b, size = image(want), image(got), want:is_complex() and bytes_of[want:view_as_real().dtype] or bytes_of[want.dtype]
  local function part(s, i) return s:sub(i * size + 1, i * size + size) end
  local function bits(s) return "0x" .. s:reverse():gsub(".", function(c) return ("%02x"):format(c:byte()) end) end
  for i = 0, math.min(#a, #b) / size - 1 do
    local x, y = part(a, i), part(b, i)
    if x ~= y then return ("element %d is %s instead of %s"):format(i + 1, bits(y), bits(x)) end
  end
  return "they have other sizes, or are equal now"
end

-- --- running

--- Fresh tensors for the program's inputs, the same ones at every call.
function M.inputs(ty, program)
  local vars = {}
  for i, spec in ipairs(program.inputs) do
    local flat = ty.tensor(spec.data, { dtype = "f64" })
    if COMPLEX[spec.dtype] then flat = flat:reshape(-1, 2):view_as_complex() end
    local t = (flat.dtype == spec.dtype and flat or flat:to(spec.dtype)):reshape(spec.shape)
    if spec.layout == "transposed" and #spec.shape >= 2 then
      t = t:transpose(1, -1):contiguous():transpose(1, -1)
    elseif spec.layout == "stepped" and #spec.shape >= 1 then
      t = ty.stack({ t, t }, #spec.shape + 1):flatten(-2, -1)[{ "...", { 1, -1, 2 } }]
    elseif spec.layout == "reversed" and #spec.shape >= 1 then
      t = t:flip(1)[{ { -1, 1, -1 } }]
    end
    vars[i] = t
  end
  return vars
end

local run = {}

function run.call(ty, v, s) -- y, w = ty.name(operands and constants), or ty.group.name, or a method
  local args, n = {}, #s.args
  for i, a in ipairs(s.args) do
    if type(a) == "table" and a.var then
      args[i] = v[a.var]
      if args[i] == nil then return end
    elseif type(a) == "table" and a.list then
      args[i] = {}
      for k, var in ipairs(a.list) do
        args[i][k] = v[var]
        if v[var] == nil then return end
      end
    elseif a == M.none then
      args[i] = nil
    else
      args[i] = a
    end
  end
  local f = s.group and ty[s.group][s.name] or ty[s.name] or args[1][s.name]
  local y, w = f(unpack(args, 1, n))
  if type(y) == "table" then y, w = y[1], y[2] end
  v[s.y] = y
  if s.w then v[s.w] = w end
end

function run.layer(ty, v, s) -- y = module(x, z); where there are lengths, of a packed sequence
  local x = v[s.x]
  if not x or s.z and not v[s.z] then return end
  local m = s.modules[ty.device()]
  if s.lengths then
    local packed = m(ty.nn.utils.pack_padded_sequence(x, s.lengths))
    v[s.y] = ty.nn.utils.pad_packed_sequence(packed)
  else
    local y = m(x, s.z and v[s.z] or nil)
    v[s.y] = y
  end
end

function run.method(ty, v, s) -- the same, on the module's in-place methods: x:name(...)
  local x, b = v[s.x], s.b
  if type(b) == "table" then b = v[b.var] end
  if x == nil or b == nil then return end
  x[s.name](x, b)
  if s.check then v[s.y] = ty.is_tensor(x) end
end

function run.index(_, v, s)
  if v[s.x] then v[s.y] = v[s.x][s.key] end
end

function run.index_by(_, v, s)
  if v[s.x] and v[s.i] then v[s.y] = v[s.x][v[s.i]] end
end

function run.assign(_, v, s)
  local value = s.value
  if type(value) == "table" then value = v[value.var] end
  if v[s.x] and value ~= nil then v[s.x][s.key] = value end
end

function run.read(_, v, s) -- a number leaves and comes back
  if v[s.x] and v[s.z] then v[s.y] = v[s.z] * v[s.x]:sum():item() end
end

--- What no trace holds, and evaluation does not enter: it is given a tensor and gives it back.
local told = 0
local tell

function run.said(ty, v, s)
  tell = tell or ty.disable(function(t)
    told = told + t:numel()
    return t
  end)
  if v[s.x] then v[s.y] = tell(v[s.x]) end
end

function run.caught(_, v, s) -- an error that data decide, and what was computed before it
  if not v[s.x] then return end
  local ok, why = pcall(function()
    local t = v[s.x] * 2
    if t:sum():item() > s.limit then error(("beyond %d"):format(s.limit)) end
    v[s.y] = t
  end)
  if not ok then v[s.y] = v[s.x] * #tostring(why):match ": (.*)$" end
end

function run.journey(_, v, s) -- a copy by way of the CPU
  if v[s.x] then v[s.y] = v[s.x]:to("cpu"):clone():to(v[s.x].device) end
end

function run.branch(ty, v, s) -- control flow on a value
  if not v[s.x] then return end
  local taken = v[s.x]:to("f64"):sum():item() > s.limit and s.yes or s.no
  for _, t in ipairs(taken) do M.execute(ty, v, t) end
end

function run.loop(ty, v, s) -- with a value read in every round
  for i = 1, s.n do
    for _, t in ipairs(s.body) do M.execute(ty, v, t) end
    if v[s.x] and s.limit and v[s.x]:to("f64"):mean():item() > s.limit then
      v[s.y] = i
      break
    end
  end
end

-- A turn's function: its own variables are 1, what is carried, 2, the row, and 3, a tensor from outside.
local function turn_of(ty, v, s)
  return function(carried, row)
    local own = { carried, row, s.z and v[s.z] }
    for _, t in ipairs(s.turn) do M.execute(ty, own, t) end
    return own[s.next] or carried, s.made and own[s.made] or nil
  end
end

--- Set while programs are made: each scan is compared with the loop that it stands for; what differed.
M.compares, M.wrong = false, nil

local function compare_turns(ty, turn, carried, x, last, made)
  local rows = {}
  for i = 1, x:size(1) do carried, rows[i] = turn(carried:clone(), x[i]:clone()) end -- a turn may write to them
  local same = M.describe(ty, carried) == M.describe(ty, last)
  if rows[1] then same = same and M.describe(ty, ty.stack(rows)) == M.describe(ty, made) end
  if not same then M.wrong = "a scan differs from the loop" end
end

function run.turns(ty, v, s) -- ty.scan over a dim
  if not (v[s.x] and v[s.c]) then return end
  local turn = turn_of(ty, v, s)
  local last, made = ty.scan(turn, v[s.c], v[s.x], { reverse = s.reverse })
  if M.compares and not s.reverse and not s.draws then compare_turns(ty, turn, v[s.c], v[s.x], last, made) end
  v[s.y], v[s.w] = last, made
end

function run.drop(_, v, s) -- a handle dies, sometimes the collector runs
  v[s.x] = nil
  if s.collect then collectgarbage() end
end

M.none = {}

function M.execute(ty, vars, s) return run[s.kind](ty, vars, s) end

function M.size(program)
  local n = 0
  for _, s in ipairs(program) do
    n = n + 1
    if s.body then n = n + s.n * M.size(s.body) end
    if s.turn then n = n + M.size(s.turn) end
    if s.yes then n = n + M.size(s.yes) end
  end
  return n
end

-- --- printing

local function show(x)
  if x == M.none then return "nil" end
  if type(x) == "string" then return ("%q"):format(x) end
  if type(x) ~= "table" then return tostring(x) end
  if x.var then return "v" .. x.var end
  local out = {}
  for k, e in pairs(x.list or x) do
    local item = x.list and "v" .. e or show(e)
    out[#out + 1] = type(k) == "number" and item or k .. " = " .. item
  end
  return "{" .. table.concat(out, ", ") .. "}"
end

local function lines(program, indent, out)
  for _, s in ipairs(program) do
    local line
    if s.kind == "call" then
      local args = {}
      for i, a in ipairs(s.args) do args[i] = show(a) end
      line = ("v%s%s = ty.%s%s(%s)"):format(s.y, s.w and ", v" .. s.w or "", s.group and s.group .. "." or "", s.name,
        table.concat(args, ", "))
    elseif s.kind == "layer" then
      line = ("v%s = ty.nn.%s(...)(%sv%s%s)"):format(s.y, s.name, s.lengths and "packed " or "", s.x, s.z and ", v" .. s.z or "")
    elseif s.kind == "method" then line = ("v%s:%s(%s)"):format(s.x, s.name, show(s.b))
    elseif s.kind == "index" then line = ("v%s = v%s[%s]"):format(s.y, s.x, show(s.key))
    elseif s.kind == "index_by" then line = ("v%s = v%s[v%s]"):format(s.y, s.x, s.i)
    elseif s.kind == "assign" then line = ("v%s[%s] = %s"):format(s.x, show(s.key), show(s.value))
    elseif s.kind == "read" then line = ("v%s = v%s * v%s:sum():item()"):format(s.y, s.z, s.x)
    elseif s.kind == "journey" then line = ('v%s = v%s:to("cpu"):clone():to(v%s.device)'):format(s.y, s.x, s.x)
    elseif s.kind == "drop" then line = ("v%s = nil%s"):format(s.x, s.collect and "; collectgarbage()" or "")
    elseif s.kind == "turns" then
      line = ("v%s, v%s = ty.scan(turn, v%s, v%s, {reverse = %s}); next own[%s], made own[%s], own[3] = v%s"):format(
        s.y, s.w, s.c, s.x, tostring(s.reverse), tostring(s.next), tostring(s.made), tostring(s.z))
    elseif s.kind == "branch" then line = ("if v%s:to'f64':sum():item() > %s"):format(s.x, s.limit)
    elseif s.kind == "loop" then line = ("for %d rounds, until v%s:to'f64':mean():item() > %s"):format(s.n, s.x,
        tostring(s.limit))
    end
    out[#out + 1] = indent .. (line or ("v%s = %s(v%s)"):format(tostring(s.y), s.kind, tostring(s.x)))
    if s.body then lines(s.body, indent .. "  ", out) end
    if s.turn then lines(s.turn, indent .. "  ", out) end
    if s.yes then
      lines(s.yes, indent .. "  ", out)
      out[#out + 1] = indent .. "else"
      lines(s.no, indent .. "  ", out)
    end
  end
  return out
end

function M.print(program)
  local out = {}
  for i, spec in ipairs(program.inputs) do
    out[i] = ("v%d: input %s [%s] %s"):format(i, spec.dtype, table.concat(spec.shape, ","), spec.layout)
  end
  return table.concat(lines(program, "", out), "\n")
end

-- --- making

local DTYPES = { "f32", "f32", "f32", "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i8", "i16", "bool", "u16", "u32", "u64",
  "c64", "c128" }
local SIZES = { 0, 1, 1, 2, 3, 3, 4, 5, 5, 15, 16, 17, 33 }
local LAYOUTS = { "plain", "plain", "plain", "transposed", "stepped", "reversed" }

local function pick(r, list) return list[r(#list)] end

-- The borders of integers, those that a double holds; all are cast from doubles.
local BORDERS = {}
for name, range in pairs { u8 = { 0, 8 }, i8 = { -1, 7 }, i16 = { -1, 15 }, u16 = { 0, 16 }, i32 = { -1, 31 }, u32 = { 0, 32 },
  i64 = { -1, 63 }, u64 = { 0, 64 } } do
  local past = 2 ^ range[2]
  local last = past - (range[2] > 53 and 2 ^ (range[2] - 53) or 1)
  BORDERS[name] = { 0, 1, 127, 3, range[1] * past, last, math.floor(last / 2) + 1, past, 0 / 0 }
end

local function random_value(r, dtype)
  if dtype == "bool" then return r(2) - 1 end
  if FLOATS[dtype] or COMPLEX[dtype] then
    if r(12) == 1 then return pick(r, SPECIAL) end
    return (r(2001) - 1001) / 256
  end
  if r(10) == 1 then return pick(r, BORDERS[dtype]) end
  return BORDERS[dtype][5] == 0 and r(40) - 1 or r(41) - 21
end

local function random_shape(r, how)
  local shape, numel = {}, 1
  for d = 1, r(4) - 1 do
    local n = pick(r, how.sizes)
    if numel * n > how.most then n = 3 end
    shape[d], numel = n, numel * n
  end
  if how.long and r(40) == 1 then shape, numel = { 600 + r(5000) }, nil end
  if not numel then numel = shape[1] end
  return shape, numel
end

local function random_input(r, how, shape)
  local dtype = pick(r, how.dtypes)
  local numel = 1
  if not shape then
    shape, numel = random_shape(r, how)
  else
    for _, n in ipairs(shape) do numel = numel * n end
  end
  local data = {}
  local value = how.values(r)
  for i = 1, COMPLEX[dtype] and 2 * numel or numel do data[i] = value(r, dtype) end
  return { dtype = dtype, shape = shape, data = data, layout = pick(r, LAYOUTS) }
end

-- What the maker knows: the live variables with their tensors.
local Maker = {}
Maker.__index = Maker
M.Maker = Maker
Maker.numeric = { f32 = true, f64 = true, f16 = true, bf16 = true, c64 = true, c128 = true }

function Maker:any(want)
  local found = {}
  for i, t in pairs(self.vars) do
    if self.ty.is_tensor(t) and (not want or want(t)) then found[#found + 1] = i end
  end
  if #found == 0 then return nil end
  table.sort(found)
  -- late variables more often, so that chains grow
  local a, b = self.r(#found), self.r(#found)
  return found[math.max(a, b)]
end

function Maker:new_var()
  self.count = self.count + 1
  return self.count
end

local function is_float(t) return FLOATS[t.dtype] end
local function is_discrete(t) return not FLOATS[t.dtype] and not COMPLEX[t.dtype] end
local function is_int(t) return is_discrete(t) and t.dtype ~= "bool" end
local function has_dims(t) return t.ndim >= 1 end
local function has_elements(t) return t.ndim >= 1 and t:numel() > 0 end

local function same_shape(a, b)
  if a.ndim ~= b.ndim then return false end
  for d = 1, a.ndim do
    if a:size(d) ~= b:size(d) then return false end
  end
  return true
end

local function broadcasts(a, b)
  local sa, sb, numel = a.shape, b.shape, 1
  for k = 0, math.max(#sa, #sb) - 1 do
    local m, n = sa[#sa - k] or 1, sb[#sb - k] or 1
    if m ~= n and m ~= 1 and n ~= 1 then return false end
    numel = numel * math.max(m, n)
  end
  return numel <= LARGE
end

function Maker:call(name, ...) return { kind = "call", y = self:new_var(), name = name, args = { ... } } end
local call = Maker.call

-- Rows of class map by what they take; the table fills the lists, so that a new row is reached at once.
local function map_operand(row)
  if row.rule == "int" then return is_int end
  if row.rule == "bits" then return is_discrete end
end

local make = {}

function make.map(self)
  local row = pick(self.r, self.maps)
  local want = map_operand(row)
  local a = self:any(want)
  if not a then return nil end
  if row.arity == 1 then return call(self, row.lua, { var = a }) end
  local ta = self.vars[a]
  if row.arity == 3 then
    local c = self:any(function(t) return t.dtype == "bool" and broadcasts(t, ta) end)
    local b = self:any(function(t) return same_shape(t, ta) end)
    return c and call(self, row.lua, { var = c }, { var = a }, { var = b })
  end
  local b = self.r(4) > 1 and self:any(function(t)
    return broadcasts(t, ta) and (not want or want(t))
  end)
  local number = is_discrete(ta) and pick(self.r, { 0, 1, 2, 3, 5 }) or pick(self.r, { 0.5, 2, -1.25, 3, 0, 1, 1e-3 })
  local other = b and { var = b } or number
  if self.r(6) == 1 and not b and not want then
    return call(self, row.lua, other, { var = a })
  end
  return call(self, row.lua, { var = a }, other)
end

function make.inplace(self)
  local row = pick(self.r, self.inplace)
  local want = map_operand(row) or is_float
  local a = self:any(want)
  if not a or row.arity == 3 then return nil end
  local ta = self.vars[a]
  if row.arity == 1 then
    return { kind = "method", x = a, name = row.lua .. "_", b = true }
  end
  local b = self:any(function(t)
    return t.dtype == ta.dtype and broadcasts(t, ta) and t.ndim <= ta.ndim
      and same_shape(t + ta, ta)
  end)
  return { kind = "method", x = a, name = row.lua .. "_", b = b and self.r(3) > 1 and { var = b } or 2 }
end

function make.cast(self)
  local a = self:any()
  return a and call(self, "to", { var = a }, pick(self.r, self.how.dtypes))
end

function make.bitcast(self)
  local to = { f32 = "u32", u32 = "i32", i32 = "f32", f64 = "u64", u64 = "i64", i64 = "f64", f16 = "u16", u16 = "i16", i16 = "bf16",
    bf16 = "f16" }
  local a = self:any(function(t) return to[t.dtype] end)
  if not a then return nil end
  return call(self, "view_as", { var = a }, to[self.vars[a].dtype])
end

function make.reduce(self)
  local row = pick(self.r, self.reduces)
  local a = self:any(row.lua:find("max") and has_elements or row.lua:find("min") and has_elements or nil)
  if not a then return nil end
  local rank = self.vars[a].ndim
  if rank == 0 or self.r(4) == 1 then return call(self, row.lua, { var = a }) end
  local keep = self.r(2) == 1
  if rank >= 2 and self.r(4) == 1 and not row.lua:find("arg") then
    local d = self.r(rank - 1)
    return call(self, row.lua, { var = a }, { d, d + 1 }, keep)
  end
  return call(self, row.lua, { var = a }, self.r(3) == 1 and -1 or self.r(rank), keep)
end

function make.scan(self)
  local row = pick(self.r, self.scans)
  local a = self:any(has_dims)
  return a and call(self, row.lua, { var = a }, self.r(self.vars[a].ndim))
end

function make.product(self)
  local a = self:any(has_dims)
  if not a then return nil end
  local ta = self.vars[a]
  if self.r(4) == 1 then -- the product of a sum
    local sum = call(self, "sum", { var = a }, 1, true)
    self:add(sum)
    a, ta = sum.y, self.vars[sum.y]
  end
  if ta.ndim >= 2 and is_float(ta) and self.r(6) == 1 then -- attention to itself, or to a matrix as wide
    local b = ta.ndim == 2 and self:any(function(t)
      return t.ndim == 2 and t.dtype == ta.dtype and t:size(2) == ta:size(2)
    end) or a
    return call(self, "scaled_dot_product_attention", { var = a }, { var = b }, { var = b }, { causal = self.r(2) == 1 })
  end
  local k = ta:size(-1)
  local b = self:any(function(t)
    return t.ndim >= 1 and t.ndim <= 2 and t:size(t.ndim == 1 and 1 or -2) == k
  end)
  if not b or self.r(5) == 1 then
    if ta.ndim ~= 2 then return nil end
    local y = call(self, "transpose", { var = a }, 1, 2)
    self:add(y)
    b = y.y
  end
  local tb = self.vars[b]
  if ta:numel() / k * (tb.ndim == 1 and 1 or tb:size(-1)) > LARGE then return nil end
  return call(self, "matmul", { var = a }, { var = b })
end

function make.view(self)
  local a = self:any(has_dims)
  if not a then return nil end
  local t, r = self.vars[a], self.r
  local rank, choice = t.ndim, r(12)
  if choice == 1 then return call(self, "transpose", { var = a }, r(rank), r(rank)) end
  if choice == 2 then return call(self, "flatten", { var = a }) end
  if choice == 3 then return call(self, "unsqueeze", { var = a }, r(rank + 1)) end
  if choice == 4 then return call(self, "flip", { var = a }, r(rank)) end
  if choice == 5 then return call(self, "squeeze", { var = a }) end
  if choice == 6 and rank <= 3 then
    local sizes = t.shape
    table.insert(sizes, 1, r(3))
    return call(self, "expand", { var = a }, sizes)
  end
  if choice == 7 and rank >= 2 then return call(self, "diagonal", { var = a }) end
  if choice == 8 then return call(self, "roll", { var = a }, r(5) - 3, r(rank)) end
  if choice == 9 and t:numel() > 0 then return call(self, "reshape", { var = a }, { t:numel(), 1 }) end
  if choice == 10 then return call(self, "movedim", { var = a }, r(rank), r(rank)) end
  if t:size(1) == 0 then return nil end
  if choice == 11 then return { kind = "index", y = self:new_var(), x = a, key = r(t:size(1)) } end
  return { kind = "index", y = self:new_var(), x = a, key = self:key(t) }
end

-- An indexing table of numbers and ranges.
function Maker:key(t)
  local key = {}
  for d = 1, self.r(t.ndim) do
    local n = t:size(d)
    local lo = n > 0 and self.r(n) or 1
    local hi = n > 0 and lo + self.r(n - lo + 1) - 1 or 0
    local choice = self.r(5)
    if choice == 1 or n == 0 then key[d] = {}
    elseif choice == 2 then key[d] = lo
    elseif choice == 3 then key[d] = { hi, lo, -1 }
    elseif choice == 4 then key[d] = { lo, hi, 2 }
    else key[d] = { lo, hi } end
  end
  return key
end

function make.assign(self)
  local a = self:any(has_elements)
  if not a then return nil end
  local t = self.vars[a]
  local key = self.r(3) == 1 and self.r(t:size(1)) or self:key(t)
  local value = self.how.values(self.r)(self.r, t.dtype)
  if t.dtype == "bool" then value = value == 1 end
  local ok, part = pcall(function() return t[key] end)
  local b = ok and self:any(function(x)
    return x.dtype == t.dtype and x.ndim <= part.ndim and broadcasts(x, part) and x:numel() <= part:numel()
      and (x:numel() > 0 or part:numel() == 0)
  end)
  return { kind = "assign", x = a, key = key, value = b and self.r(3) > 1 and { var = b } or value }
end

function make.move(self)
  local a, r = self:any(has_elements), self.r
  if not a then return nil end
  local t = self.vars[a]
  local dim = r(t.ndim)
  local n = t:size(dim)
  local choice = r(9)
  if choice == 1 and r(2) == 1 then return call(self, "topk", { var = a }, r(n), dim, r(2) == 1) end
  if choice == 1 then return call(self, "argsort", { var = a }, dim, r(2) == 1) end
  if choice == 2 then
    local b = self:any(function(x)
      return x.dtype == t.dtype and x.ndim == t.ndim and same_shape(x, t)
    end)
    return call(self, "cat", { list = { a, b or a } }, dim)
  end
  if choice == 3 then return call(self, "pad", { var = a }, { { r(2), 1 } }, 1) end
  if choice == 4 then
    local q = self:any(function(x) return x.ndim == t.ndim and x.ndim == 1 end)
    if not q then return nil end
    local s = call(self, "sort", { var = a }, -1)
    self:add(s)
    return call(self, "searchsorted", { var = s.y }, { var = q }, { right = r(2) == 1 })
  end
  -- an index of the same shape, made of other values so that it records
  local source = self:any(function(x) return is_int(x) and same_shape(x, t) end)
  local index
  if source then
    local m = call(self, "remainder", { var = source }, math.min(n, 100))
    self:add(m)
    index = call(self, "add", { var = m.y }, 1)
  else
    index = call(self, "argsort", { var = a }, dim)
  end
  self:add(index)
  local repeats = r(2) == 1
  for d = 1, t.ndim do -- one position for whole rows
    if repeats and d ~= dim and r(4) > 1 then
      index = call(self, "narrow", { var = index.y }, d, 1, 1)
      self:add(index)
    end
  end
  if repeats then
    index = call(self, "expand", { var = index.y }, t.shape)
    self:add(index)
  end
  if choice <= 6 then return call(self, "gather", { var = a }, dim, { var = index.y }) end
  local b = self:any(function(x) return x.dtype == t.dtype and same_shape(x, t) end)
  return call(self, choice == 7 and "scatter" or "scatter_add", { var = a }, dim, { var = index.y },
    { var = b or a })
end

function make.leaf(self)
  local r, shape = self.r, random_shape(self.r, self.how)
  local choice = r(7)
  local options = { dtype = pick(r, { "f32", "f32", "f64", "i32", "i64", "bool", "f16", "u16", "u32", "u64", "c64",
    "c128" }) }
  if choice == 1 then return call(self, "zeros", shape, options) end
  if choice == 2 then return call(self, "ones", shape, options) end
  if choice == 3 then return call(self, "full", shape, r(9), options) end
  if choice == 4 then return call(self, "arange", r(40)) end
  if choice == 5 then return call(self, "rand", shape) end
  if choice == 6 then return call(self, "randn", shape) end
  return call(self, "randint", 1, 9, shape)
end

-- --- compositions that people write
local composites = { "softmax", "log_softmax", "relu", "gelu", "silu", "mean", "var", "logsumexp" }

function make.composite(self)
  local a = self:any(function(t) return is_float(t) and has_elements(t) end)
  if not a then return nil end
  return call(self, pick(self.r, composites), { var = a })
end

function make.read(self)
  local a = self:any(function(t) return is_float(t) and t:numel() > 0 end)
  local z = self:any(is_float)
  return a and { kind = "read", y = self:new_var(), x = a, z = z }
end

function make.said(self)
  local a = self:any(is_float)
  return a and { kind = "said", y = self:new_var(), x = a }
end

function make.caught(self)
  local a = self:any(function(t) return is_float(t) and t:numel() > 0 end)
  return a and { kind = "caught", y = self:new_var(), x = a, limit = self.r(9) - 5 }
end

function make.journey(self)
  local a = self:any()
  return a and { kind = "journey", y = self:new_var(), x = a }
end

function make.branch(self)
  local a = self:any()
  if not a then return nil end
  local b = self:any(is_float)
  if not b then return nil end
  local y = self:new_var()
  return {
    kind = "branch", x = a, limit = self.r(9) - 5,
    yes = { { kind = "call", y = y, name = "mul", args = { { var = b }, 2 } } },
    no = { { kind = "call", y = y, name = "sub", args = { { var = b }, 1 } } },
  }
end

function make.loop(self)
  local a = self:any(is_float)
  if not a then return nil end
  local t = self.vars[a]
  local b = self:any(function(x) return same_shape(x, t) and x.dtype == t.dtype end)
  local body = { { kind = "call", y = a, name = "mul", args = { { var = a }, 0.5 } },
    { kind = "call", y = a, name = pick(self.r, { "add", "sub", "maximum" }), args = { { var = a }, { var = b } } } }
  if self.r(2) == 1 then body[1] = { kind = "method", x = a, name = "mul_", b = 0.5 } end
  local limit = self.r(2) == 1 and not self.calm and self.r(5) or nil
  return { kind = "loop", n = self.r(5), x = a, y = self:new_var(), limit = limit, body = body }
end

local in_turns = { named = 10, map = 30, inplace = 4, cast = 4, reduce = 8, scan = 3, product = 4, view = 10, move = 5, leaf = 3,
  composite = 4, assign = 3 }
local LARGE_TURN = 1e5 -- elements of what a turn computes, at most

--- A scan over the first dim of a tensor. The turn's statements are made while they run on the first row.
function make.turns(self)
  local x = self:any(function(t) return has_dims(t) and t:size(1) > 0 and t:size(1) <= 40 end)
  local c = self:any(function(t) return t:numel() <= 200 end)
  if not (x and c) then return nil end
  local z = self.r(2) == 1 and self:any() or nil
  local own = { self.vars[c]:clone(), self.vars[x][1]:clone(), z and self.vars[z]:clone() }
  local made = setmetatable({ program = {}, vars = own, count = 3, calm = true }, { __index = self })
  local sorts, state, s = M.by_weight(in_turns), self.ty.random_state(), { kind = "turns", x = x, c = c, z = z, reverse = self.r(4) == 1 }
  for _ = 1, 2 + self.r(6) do
    local before = #made.program
    local ok = pcall(function()
      local statement = made.how.make[M.sort_of(self.r, sorts)](made)
      local written = statement and (statement.kind == "method" or statement.kind == "assign") and statement.x
      if statement and not (written and written <= 3) then made:add(statement) end
      local t = own[made.count]
      if self.ty.is_tensor(t) and t:numel() > LARGE_TURN then error "too large: there is one for each turn" end
    end)
    if not ok then
      for i = #made.program, before + 1, -1 do made.program[i] = nil end
    end
  end
  local like = own[1]
  for i = 1, made.count do
    local t = own[i]
    if i > 3 and self.ty.is_tensor(t) then
      s.made = i
      if t.dtype == like.dtype and same_shape(t, like) then s.next = i end
    end
  end
  s.draws = self.ty.random_state() ~= state -- the loop draws other numbers
  s.turn, s.y, s.w = made.program, self:new_var(), self:new_var()
  return s
end

function make.drop(self)
  local a = self:any()
  return a and { kind = "drop", x = a, collect = self.r(20) == 1 and not self.calm }
end

-- A function of the library, by its signature; a module.
make.named, make.module, Maker.reshaped = names.call, names.layer, names.reshaped

-- Statements of every sort, by weight.
local weights = { named = 8, module = 2, map = 30, inplace = 6, cast = 4, bitcast = 2, reduce = 8, scan = 3, product = 4, view = 14,
  assign = 6, move = 8, leaf = 4, composite = 5, read = 2, branch = 2, loop = 2, drop = 2,
  journey = 2, turns = 2, said = 1, caught = 1 }

--- The sorts of statements by weight, in an order that is always the same.
function M.by_weight(list)
  local sorts = { total = 0 }
  for kind, w in pairs(list) do
    sorts[#sorts + 1] = { kind = kind, weight = w }
    sorts.total = sorts.total + w
  end
  table.sort(sorts, function(a, b) return a.kind < b.kind end)
  return sorts
end

function M.sort_of(r, sorts)
  local at = r(sorts.total)
  for _, s in ipairs(sorts) do
    at = at - s.weight
    if at <= 0 then return s.kind end
  end
end

-- Runs the statement while making and keeps it. Raises what the statement raises.
function Maker:add(s)
  self.program[#self.program + 1] = s
  M.execute(self.ty, self.vars, s)
  local accept = self.how.accept
  for _, k in ipairs(accept and { s.x or s.y, s.y } or {}) do -- what was made, what may be written
    if not accept(self.ty, self.vars[k]) then
      self.vars[k] = nil
      error("not accepted", 0)
    end
  end
end

-- The rows of the table by what makes statements of them.
local function rows(ty, how)
  if how.rows then return how.rows end
  local c = { maps = {}, inplace = {}, reduces = {}, scans = {} }
  for _, row in ipairs(ty.internals.probe.ops()) do
    if row.class == "map" and row.lua then
      if how.takes(row) then
        c.maps[#c.maps + 1] = row
        if row.in_place then c.inplace[#c.inplace + 1] = row end
      end
    elseif row.class == "reduce" then c.reduces[#c.reduces + 1] = row
    elseif row.class == "scan" then c.scans[#c.scans + 1] = row end
  end
  how.rows = c
  return c
end

--- What programs are made of: dtypes, sizes and values of inputs, at most how many elements; statements and their
--- weights; which rows of class map; which functions by name, of which one in `copied` writes to what is there, where
--- it writes. `vars` gives the inputs while the program is made, `accept` says whether what a statement did may stay.
M.usual = {
  dtypes = DTYPES, sizes = SIZES, most = 600, long = true, values = function() return random_value end,
  make = make, sorts = M.by_weight(weights), takes = function() return true end, calls = function() return true end,
  vars = M.inputs, copied = 2,
}
M.weights, M.random_value, M.FLOATS, M.COMPLEX = weights, random_value, FLOATS, COMPLEX

local restless = { read = true, branch = true, said = true, caught = true } -- they look at data, so their programs are captured in parts

--- A program for the seed, and the text of the error that ends it, if one does. Every second program is calm, unless
--- `how` says which are: it asks for no data, so that captures come to its end.
function M.make(ty, seed, how)
  how = how or M.usual
  local r = frame.random(seed, 1)
  local program = { seed = seed % 65536, inputs = {} }
  for i = 1, 2 + r(3) do program.inputs[i] = random_input(r, how) end
  program.inputs[#program.inputs + 1] = random_input(r, how, program.inputs[1].shape)
  local self = setmetatable({ ty = ty, r = r, how = how, program = program, count = #program.inputs }, Maker)
  for k, list in pairs(rows(ty, how)) do self[k] = list end
  self.vars = how.vars(ty, program)
  ty.manual_seed(program.seed)
  M.compares, M.wrong = true, nil
  local wanted, rough = 10 + r(20), r(10) == 1
  self.calm = how.calm
  if how.calm == nil then self.calm = seed % 2 == 0 end
  local tries = 0
  while M.size(program) < wanted and tries < 200 do
    tries = tries + 1
    local before = #program
    local ok, message = pcall(function()
      local sort = M.sort_of(r, how.sorts)
      local s = not (self.calm and restless[sort]) and how.make[sort](self)
      if s then self:add(s) end
    end)
    if not ok then
      if rough and not how.accept then
        program.count = self.count
        M.compares = false
        return program, message
      end
      for i = #program, before + 1, -1 do program[i] = nil end -- mostly, what raises is left out
    end
  end
  program.count = self.count
  M.compares = false
  return program
end

return M
