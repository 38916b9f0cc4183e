--- export/program.lua -- loop programs as C functions.
-- In: a program, the launch of a step, what its operands are. Out: lines of a C function. Raises (by the caller's
-- `refuse`) where a program has what cannot be written.
--
-- The order of every sum is tile.c's: see its head, whose rules 1 to 3 are followed here, too. A row goes in chunks
-- of as many elements as there are lanes, element j of a chunk to lane j, so that compilers make vectors of the
-- loops; columns go in strips, of which each row is one step of lane r % 4.

require "tycho.export.sums"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, find, sub = string.format, string.find, string.sub
local concat, insert, ipairs, next, type = table.concat, table.insert, ipairs, next, type
local max = math.max
local text, at_most = sizes.text, sizes.at_most
local ctype, loaded, to_store = primitives.ctype, primitives.loaded, primitives.to_store
local expression, identity, empty, floating = primitives.expression, primitives.identity, primitives.empty,
  primitives.floating

local M = {}

-- Domains -------------------------------------------------------------------------------------------------------------

--- The dims [from, to] of a launch, those merged that every operand walks as one: {dims = {...}, strides = {[operand] =
--- {...}}}. Dims of one element are left out.
local function merged(launch, from, to, noperands)
  local y = { dims = {}, strides = {} }
  for k = 1, noperands do y.strides[k] = {} end
  for d = to, from, -1 do
    local extent = launch.dims[d]
    local joins = #y.dims > 0
    for k = 1, noperands do
      joins = joins and launch.strides[k][d] == y.strides[k][1] * y.dims[1]
    end
    if joins and extent ~= 1 then
      y.dims[1] = extent * y.dims[1]
    elseif extent ~= 1 then -- one of 1 is never walked
      insert(y.dims, 1, extent)
      for k = 1, noperands do insert(y.strides[k], 1, launch.strides[k][d]) end
    end
  end
  return y
end

--- Where the element at linear index `at` of merged dims lies, as a text; nil: at 0.
local function offset_of(part, k, at)
  local n, out, rest = #part.dims, {}, at
  for d = n, 1, -1 do
    local stride = part.strides[k][d]
    local index = d == 1 and rest or format("%s %% %s", rest, text(part.dims[d]))
    if stride ~= 0 then
      if find(index, "%%") then index = "(" .. index .. ")" end
      if find(index, "/") then index = "(" .. index .. ")" end
      insert(out, 1, stride == 1 and index or format("%s * %s", index, text(stride)))
    end
    rest = format("%s / %s", rest, text(part.dims[d]))
  end
  return #out > 0 and concat(out, " + ") or nil
end

local function numel(part)
  local n = 1
  for _, d in ipairs(part.dims) do n = n * d end
  return n
end

local function sum_text(...)
  local out = {}
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    if v and v ~= 0 then out[#out + 1] = type(v) == "string" and v or text(v) end
  end
  return #out > 0 and concat(out, " + ") or "0"
end

-- Functions -----------------------------------------------------------------------------------------------------------

--- A program on its way to C.
local Emit = {}
Emit.__index = Emit

function Emit:line(fmt, ...)
  self.out[#self.out + 1] = ("  "):rep(self.depth) .. (select("#", ...) > 0 and format(fmt, ...) or fmt)
end

function Emit:open(fmt, ...)
  self:line(fmt .. " {", ...)
  self.depth = self.depth + 1
end

function Emit:close()
  self.depth = self.depth - 1
  self:line "}"
end

--- Which values are used at all; and per value its class: uniform, row, elem; its phase (of reductions before it) and
--- its segment (of scans before it).
local function classify(p)
  local live, class, phase, segment = {}, {}, {}, {}
  for i = p.n - 1, 0, -1 do
    local ins = p.body[i]
    if ins.op == "store" then live[i] = true end
    if live[i] then
      for k = 1, 3 do
        if ins[k] then live[ins[k]] = true end
      end
    end
  end
  local phases = 1
  for i = 0, p.n - 1 do
    local ins, low, ph, seg = p.body[i], "uniform", 0, 0
    if live[i] then
      for k = 1, 3 do
        local a = ins[k]
        if a then
          ph, seg = max(ph, phase[a]), max(seg, segment[a])
          if class[a] == "elem" or low == "uniform" then low = class[a] end
        end
      end
      local op = ins.op
      if op == "load" or op == "iota" or op == "gload" or op == "store" then
        low = p.kind ~= "map" and ins.row and "row" or "elem"
      elseif sub(op, 1, 1) == "r" and identity[op] then
        low, ph = "row", ph + 1
      elseif sub(op, 1, 1) == "s" and (identity[op] or op == "slin") and p.kind == "row" then
        low, seg = "elem", seg + 1
        p.scans = true
      end
      class[i], phase[i], segment[i] = low, ph, seg
      if low == "elem" then phases = max(phases, ph + 1)
      elseif identity[op] then phases = max(phases, ph) end
    end
  end
  return live, class, phase, segment, phases
end

local JOINS = { rsum = "add", rprod = "mul", rmax = "max", rmin = "min" }

local function is_reduction(ins) return JOINS[ins.op] ~= nil end
local function is_position(ins) return ins.op == "rargmax" or ins.op == "rargmin" end
local function is_scan(ins)
  local op = ins.op
  return op == "ssum" or op == "sprod" or op == "smax" or op == "smin" or op == "smaxx" or op == "slin"
end

--- What a value is called where it is read.
function Emit:name(v)
  local ins = self.p.body[v]
  if ins.op == "const" then
    local literal, needs = primitives.literal(ins.type, ins.bits)
    if needs then self.use(needs) end
    return literal
  elseif ins.op == "scalar" then
    return self.scalar(ins.imm, ins.type)
  end
  return self.names[v] or "v" .. v
end

--- The text of value v, whose operands are named; index(operand) gives the text of a place in memory, nil: none.
function Emit:value(v, index)
  local ins, use = self.p.body[v], self.use
  if ins.op == "load" then
    local y = loaded(self:dtype_at(ins.imm), format("%s[%s]", self.pointer(ins.imm), index(ins.imm)), use)
    return self.guard and format("%s ? %s : 0", self.guard, y) or y
  elseif ins.op == "iota" then
    return format("(int64_t)(%s)", index(ins.imm))
  elseif ins.op == "gload" then
    local operand, by = self.p.operands[ins.imm], self.launch.gstride[ins.imm + 1]
    local at = by == 1 and self:name(ins[1]) or format("%s * %s", self:name(ins[1]), text(by))
    return loaded(operand.dtype, format("%s[%s + %s]", self.pointer(ins.imm), index(ins.imm), at), use)
  end
  local names = {}
  for k = 1, 3 do names[k] = ins[k] and self:name(ins[k]) end
  local y = expression(ins, names[1], names[2], names[3], use)
  if ins.op == "sel" and self.divides and not floating[ins.type] then -- no branches where there are no vectors
    local u = primitives.unsigned[ins.type]
    local is = format("(%s)(%s != 0)", u, names[1])
    y = format("(%s)(((%s)%s & (0 - %s)) | ((%s)%s & (%s - 1)))", ctype[ins.type], u, names[2], is, u, names[3], is)
  end
  return y or self.refuse("the primitive " .. ins.op)
end

--- The dtype of an operand's elements where they lie, or are staged.
function Emit:dtype_at(k) return self.staged[k] == "half" and "f32" or self.p.operands[k].dtype end

--- Stores value v's operand, or another value in its place.
function Emit:store(v, index, other)
  local ins = self.p.body[v]
  self:line("%s[%s] = %s;", self.pointer(ins.imm), index(ins.imm),
    to_store(self:dtype_at(ins.imm), self:name(other or ins[1]), self.use))
end

--- Declares value v and what it needs of its class that is not known here. known: by value, true where it is.
function Emit:declare(v, index, known, class)
  local ins = self.p.body[v]
  if known[v] or ins.op == "const" or ins.op == "scalar" then return end
  if self.class[v] ~= class then return end
  known[v] = true
  for k = 1, 3 do
    if ins[k] then self:declare(ins[k], index, known, class) end
  end
  self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
end

function Emit:uniforms()
  for v = 0, self.p.n - 1 do
    local ins = self.p.body[v]
    if self.live[v] and self.class[v] == "uniform" and ins.op ~= "const" and ins.op ~= "scalar" then
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v))
    end
  end
end

--- Opens a loop over a merged dim; base: by operand the texts of offsets so far. from, n: a part of it, as texts.
function Emit:over(part, d, base, from, n)
  self.loop = self.loop + 1
  local i = "i" .. self.loop
  self:open("for (int64_t %s = %s; %s < %s; %s++)", i, from or "0", i, n or text(part.dims[d]), i)
  for k = 1, #part.strides do
    local by = part.strides[k][d]
    if by ~= 0 then insert(base[k], by == 1 and i or format("%s * %s", i, text(by))) end
  end
end

--- Loops over merged dims from the first to the `to`-th.
function Emit:loops(part, to, base)
  for d = 1, to do self:over(part, d, base) end
end

--- The offsets so far as variables, so that inner loops add to one number.
function Emit:bases(base)
  local names = {}
  for k = 1, #base do
    local used = self.operand_used[k - 1]
    if used and #base[k] > 0 then
      local whole = concat(base[k], " + ")
      if find(whole, "^[%w_]+$") then names[k] = whole
      else
        self:line("const int64_t o%d = %s;", k - 1, whole)
        names[k] = "o" .. k - 1
      end
    end
  end
  return names
end

local function start_of(launch, k) return launch.start[k] ~= 0 and { text(launch.start[k]) } or {} end

function Emit:starts()
  local base = {}
  for k = 1, self.noperands do base[k] = start_of(self.launch, k) end
  return base
end

-- Maps ----------------------------------------------------------------------------------------------------------------

local TILE, STAGE = 16, 256 -- elements of a cache line; of a tile

--- The dim along which elements lie side by side of an operand that the innermost one strides over: a transposition.
function Emit:crossed(part)
  local n = #part.dims
  local function is_long(d) return type(part.dims[d]) == "number" and part.dims[d] >= TILE end
  if n < 2 or not is_long(n) then return nil end
  for k = 1, #part.strides do
    local strides = part.strides[k]
    if self.operand_used[k - 1] and strides[n] ~= 0 and strides[n] ~= 1 then
      for d = 1, n - 1 do
        if strides[d] == 1 and is_long(d) then return d end
      end
    end
  end
end

--- Opens all loops but the innermost. Gives from where to where that one goes, as texts. Transpositions go by tiles: so
--- cache lines are used whole.
function Emit:map_loops(part, base)
  local n, crossed = #part.dims, self:crossed(part)
  if not crossed then
    self:loops(part, n - 1, base)
    return "0", text(part.dims[n])
  end
  for d = 1, n - 1 do
    if d ~= crossed then self:over(part, d, base) end
  end
  for _, at in ipairs { { "s", crossed }, { "t", n } } do
    local name, whole = at[1], part.dims[at[2]]
    self:open("for (int64_t %s = 0; %s < %d; %s += %d)", name, name, whole, name, TILE)
    self:line("const int64_t %send = %s + %d < %d ? %s + %d : %d;", name, name, TILE, whole, name, TILE, whole)
  end
  self:over(part, crossed, base, "s", "send")
  return "t", "tend"
end

--- What goes through an array of a tile: halves, of which there are instructions for whole vectors alone, and elements
--- that are read backwards beside others of another width, of which gcc makes no vectors. By operand: "half", "copy".
function Emit:map_staged(part)
  local n, p, staged, width, mixed = #part.dims, self.p, {}, nil, false
  if n == 0 or at_most(part.dims[n], TILE - 1) then return staged end
  for k = 0, self.noperands - 1 do
    local operand = p.operands[k]
    if self.operand_used[k] and operand then
      local bytes = primitives.bytes[operand.dtype]
      mixed, width = mixed or width ~= nil and bytes ~= width, bytes
    end
  end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    local by = self.live[v] and (ins.op == "load" or ins.op == "store") and part.strides[ins.imm + 1][n]
    if by == 1 and p.operands[ins.imm].dtype == "f16" then staged[ins.imm] = "half"
    elseif mixed and ins.op == "load" and type(by) == "number" and by < 0 then staged[ins.imm] = "copy" end
  end
  return staged
end

--- The value that a store writes: what it is rounded to it is by the store itself.
function Emit:stored(v)
  local ins = self.p.body[v]
  local from, dtype = self.p.body[ins[1]], self.p.operands[ins.imm].dtype
  if from.op == "narrow" and (dtype == "f16" or dtype == "bf16") and primitives.narrowed(from) == dtype then
    return from[1]
  end
  return ins[1]
end

--- The stores of a map, element by element, and what they need.
function Emit:map_elements(index)
  local p, known = self.p, {}
  for v = 0, p.n - 1 do
    if self.live[v] and p.body[v].op == "store" then self:declare(self:stored(v), index, known, "elem") end
  end
  for v = 0, p.n - 1 do
    if self.live[v] and p.body[v].op == "store" then self:store(v, index, self:stored(v)) end
  end
end

--- The innermost loop by tiles; what is staged is copied before it or behind it.
function Emit:map_tiles(staged, from, to, index)
  local p, pointer, writes = self.p, self.pointer, {}
  self:open("for (int64_t j0 = %s; j0 < %s; j0 += %d)", from, to, STAGE)
  self:line("const int n = %s - j0 < %d ? (int)(%s - j0) : %d;", to, STAGE, to, STAGE)
  for v = 0, p.n - 1 do
    if self.live[v] and p.body[v].op == "store" then writes[p.body[v].imm] = true end
  end
  local function each(k, then_do)
    if not staged[k] then return end
    local whole = format("%s + %s", pointer(k), index(k, "j0"))
    then_do(whole)
  end
  for k = 0, self.noperands - 1 do
    each(k, function(whole)
      self:line("%s t%d[%d];", staged[k] == "half" and "float" or primitives.stored[p.operands[k].dtype], k, STAGE)
      if writes[k] then return end
      if staged[k] == "half" then
        self.use "halves"
        self:line("ty_widen_f16(t%d, %s, n);", k, whole)
      else
        self:line("for (int j = 0; j < n; j++) t%d[j] = %s[%s];", k, pointer(k), index(k, "(j0 + j)"))
      end
    end)
  end
  self.staged, self.pointer = staged, function(k) return staged[k] and "t" .. k or pointer(k) end
  self:open "for (int j = 0; j < n; j++)"
  self:map_elements(function(k) return staged[k] and "j" or index(k, "(j0 + j)") end)
  self:close()
  self.staged, self.pointer = {}, pointer
  for k = 0, self.noperands - 1 do
    each(k, function(whole)
      if not writes[k] then return end
      self.use "halves"
      self:line("ty_halve_f16(%s, t%d, n);", whole, k)
    end)
  end
  self:close()
end

function Emit:map()
  local part = merged(self.launch, 1, #self.launch.dims, self.noperands)
  local n, depth = #part.dims, self.depth
  local base, staged = self:starts(), self:map_staged(part)
  local from, to
  if n > 0 then from, to = self:map_loops(part, base) end
  local names = self:bases(base)
  local function index(k, at)
    local by = n > 0 and part.strides[k + 1][n] or 0
    return sum_text(names[k + 1], by == 1 and at or by ~= 0 and format("%s * %s", at, text(by)))
  end
  if next(staged) then
    self:map_tiles(staged, from, to, index)
  else
    if n > 0 then self:open("for (int64_t j = %s; j < %s; j++)", from, to) end
    self:map_elements(function(k) return index(k, "j") end)
  end
  while self.depth > depth do self:close() end
end

-- Reductions ----------------------------------------------------------------------------------------------------------

local function lanes_of(kind) return (kind == "i64" or kind == "f64") and 32 or 64 end

local function ordered(ins) return floating[ins.type] and (ins.op == "rsum" or ins.op == "rprod") end

--- Declares a reduction's value; an empty sum is +0.
function Emit:result(v, whole, R)
  local ins = self.p.body[v]
  local none = empty[ins.op] and empty[ins.op][ins.type]
  if none and floating[ins.type] and (type(R) ~= "number" or R == 0) then
    self:line("const %s v%d = %s > 0 ? %s : %s;", ctype[ins.type], v, text(R), whole, none)
  else
    self:line("const %s v%d = %s;", ctype[ins.type], v, whole)
  end
end

--- The lanes of a row come to one value: to a power of two of them first.
function Emit:join(v, L, R)
  local ins, acc, s = self.p.body[v], "a" .. v, 1
  while s * 2 <= L do s = s * 2 end
  if s < L then
    self:line("for (int j = 0; j < %d; j++) %s[j] = %s;", L - s, acc,
      expression({ op = JOINS[ins.op], type = ins.type }, acc .. "[j]", format("%s[j + %d]", acc, s), nil, self.use))
  end
  local name = format("join_%s_%s", sub(ins.op, 2), ins.type)
  self.use(name)
  self:result(v, format("ty_%s(%s, %d)", name, acc, s), R)
end

function Emit:accumulate(v, acc)
  local ins = self.p.body[v]
  local x = self:name(ins[1])
  if self.guard then x = format("(%s ? %s : %s)", self.guard, x, self:start(ins.op, ins.type)) end
  self:line("%s = %s;", acc, expression({ op = JOINS[ins.op], type = ins.type }, acc, x, nil, self.use))
end

--- The position of the extreme so far goes on with the element `x` at `at`.
function Emit:better(v, best, x)
  local ins = self.p.body[v]
  local y = format("(%s %s %s)", x, ins.op == "rargmax" and ">" or "<", best)
  if not floating[self.p.body[ins[1]].type] then return y end
  return format("%s | ((%s != %s) & (%s == %s))", y, x, x, best, best)
end

function Emit:position(v, best, pos, x, at)
  self:line("if (%s) %s = %s, %s = %s;", self:better(v, best, x), best, x, pos, at)
end

--- A constant that a reduction starts from.
function Emit:start(op, kind)
  local y = identity[op][kind]
  if find(y, "ty_float") then self.use("bits_" .. kind) end
  return y
end

--- How deep a tree of so many blocks is.
local function levels_of(n, block)
  if type(n) ~= "number" then return 24 end
  local y = 1
  while block * 2 ^ y < n do y = y + 1 end
  return y
end

--- A block is complete, after so many others: it joins those that wait.
function Emit:tree(v, width, blocks, last)
  local ins = self.p.body[v]
  local kind = sub(ins.op, 2)
  self.use(format("tree_%s_%s", kind, ins.type))
  self:line("ty_tree_%s_%s(a%d, q%d, %d, %s, %s);", kind, ins.type, v, v, width, blocks, last)
end

local shared = { merged = merged, numel = numel, offset_of = offset_of, sum_text = sum_text,
  is_reduction = is_reduction, is_position = is_position, is_scan = is_scan, ordered = ordered, lanes_of = lanes_of,
  levels_of = levels_of, JOINS = JOINS }
require("tycho.export.rows")(Emit, shared)
require("tycho.export.abreast")(Emit, shared)
require("tycho.export.scans")(Emit, shared)
require("tycho.export.columns")(Emit, shared)

-- Programs ------------------------------------------------------------------------------------------------------------

--- The lines of a program's loops, at depth 1, and the bytes of scratch (`room`) that they use.
--- about: {program, launch, pointer(k) -> name of operand k's pointer, scalar(k, type) -> text, use(name),
--- refuse(what)}
function M.lines(about)
  local p = about.program
  local e = setmetatable({ p = p, launch = about.launch, out = {}, depth = about.depth or 1, loop = 0, names = {},
    staged = {},
    pointer = about.pointer, scalar = about.scalar, use = about.use, refuse = about.refuse, room = 0,
    aligned = about.aligned }, Emit)
  e.noperands = #p.operands + (p.operands[0] and 1 or 0)
  e.live, e.class, e.phase, e.segment, e.phases = classify(p)
  e.operand_used = {}
  for v = 0, p.n - 1 do
    local op = p.body[v].op
    e.gathers = e.gathers or e.live[v] and op == "gload"
    e.divides = e.divides or e.live[v] and (op == "divi" or op == "remi") and p.body[v].type == "i64"
    if e.live[v] and (op == "load" or op == "store" or op == "gload" or op == "iota") then
      e.operand_used[p.body[v].imm] = true
    end
  end
  e:uniforms()
  if p.kind == "map" then e:map()
  elseif p.kind == "row" then e:rows()
  else e:columns() end
  return e.out, e.room, e.operand_used
end

M.merged, M.sum_text, M.numel = merged, sum_text, numel

return M
