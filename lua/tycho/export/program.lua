--- export/program.lua -- loop programs as C functions.
-- In: a program, the launch of a step, what its operands are. Out: lines of a C function. Raises (by the caller's
-- `refuse`) where a program has what cannot be written.
--
-- The order of every sum is tile.c's: see its head, whose rules 1 to 3 are followed here, too. A row goes in chunks
-- of as many elements as there are lanes, element j of a chunk to lane j, so that compilers make vectors of the
-- loops; columns go in strips, of which each row is one step of lane r % 4.

local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, find, sub = string.format, string.find, string.sub
local concat, insert, ipairs, type = table.concat, table.insert, ipairs, type
local min, max = math.min, math.max
local text, at_most = sizes.text, sizes.at_most
local ctype, loaded, to_store = primitives.ctype, primitives.loaded, primitives.to_store
local expression, identity, empty, floating = primitives.expression, primitives.identity, primitives.empty,
  primitives.floating

local M = {}

local BLOCK, SCAN = 4096, 16

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
    local operand = self.p.operands[ins.imm]
    return loaded(operand.dtype, format("%s[%s]", self.pointer(ins.imm), index(ins.imm)), use)
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
  return y or self.refuse("the primitive " .. ins.op)
end

function Emit:store(v, index)
  local ins = self.p.body[v]
  local dtype = self.p.operands[ins.imm].dtype
  self:line("%s[%s] = %s;", self.pointer(ins.imm), index(ins.imm), to_store(dtype, self:name(ins[1]), self.use))
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

local TILE = 16 -- elements of a cache line

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

function Emit:map()
  local part = merged(self.launch, 1, #self.launch.dims, self.noperands)
  local n, depth = #part.dims, self.depth
  local base = self:starts()
  local from, to
  if n > 0 then from, to = self:map_loops(part, base) end
  local names = self:bases(base)
  if n > 0 then self:open("for (int64_t j = %s; j < %s; j++)", from, to) end
  local function index(k)
    local by = n > 0 and part.strides[k + 1][n] or 0
    return sum_text(names[k + 1], by == 1 and "j" or by ~= 0 and format("j * %s", text(by)))
  end
  local known = {}
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" then self:declare(self.p.body[v][1], index, known, "elem") end
  end
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" then self:store(v, index) end
  end
  while self.depth > depth do self:close() end
end

-- Rows ----------------------------------------------------------------------------------------------------------------

local CHEAP = 4 -- operations that are done again rather than kept
local costs = { load = 0, iota = 1, gload = 2, add = 1, sub = 1, mul = 1, fma = 1, min = 2, max = 2, sel = 1, neg = 1,
  abs = 1, cvt = 1 }

--- What it takes to compute an element's value again, from loads and what is kept.
function Emit:cost(v, phase)
  local ins = self.p.body[v]
  if self.class[v] ~= "elem" then return 0 end
  if self.kept[v] and self.phase[v] < phase then return 0 end
  local sum = costs[ins.op] or CHEAP + 1
  for k = 1, 3 do
    if ins[k] then sum = sum + self:cost(ins[k], phase) end
  end
  return sum
end

--- Element values that a later phase reads and that are not computed again there are kept for the row.
function Emit:plan_kept()
  local p = self.p
  self.kept = {}
  local function wants(v, phase)
    if self.class[v] ~= "elem" then return end
    local ins = p.body[v]
    if self.phase[v] < phase and not self.kept[v] and ins.op ~= "load" and self:cost(v, phase) > CHEAP then
      self.kept[v] = true
    end
    if self.kept[v] and self.phase[v] < phase then return end
    for k = 1, 3 do
      if ins[k] then wants(ins[k], phase) end
    end
  end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      if is_reduction(ins) or is_position(ins) then wants(ins[1], self.phase[v] - 1)
      elseif ins.op == "store" and self.class[v] == "elem" then wants(ins[1], self.phases - 1) end
    end
  end
end

--- Declares elements of one phase in the order of the program: kept ones of phases before are read back.
function Emit:elements(v, phase, index, known, at)
  local ins = self.p.body[v]
  if known[v] or self.class[v] ~= "elem" or ins.op == "const" or ins.op == "scalar" then return end
  known[v] = true
  if self.kept[v] and self.phase[v] < phase then
    self:line("const %s v%d = w%d[%s];", ctype[ins.type], v, v, at)
    return
  end
  for k = 1, 3 do
    if ins[k] then self:elements(ins[k], phase, index, known, at) end
  end
  self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
end

local function lanes_of(kind) return (kind == "i64" or kind == "f64") and 32 or 64 end

--- How places in a row's memory are told by the number of an element.
function Emit.row_index(_, names, part)
  return function(k, at) return sum_text(names[k + 1], offset_of(part, k + 1, at)) end
end

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

--- The lanes of a row come to one value.
function Emit:join(v, L, R)
  local ins, acc = self.p.body[v], "a" .. v
  if L > 1 then
    local s = 1
    while s * 2 < L do s = s * 2 end
    while s >= 1 do
      self:line("for (int j = 0; j < %d; j++) %s[j] = %s;", min(s, L - s), acc,
        expression({ op = JOINS[ins.op], type = ins.type }, acc .. "[j]", format("%s[j + %d]", acc, s), nil, self.use))
      L, s = s, s / 2
    end
  end
  self:result(v, acc .. "[0]", R)
end

function Emit:accumulate(v, acc)
  local ins = self.p.body[v]
  self:line("%s = %s;", acc, expression({ op = JOINS[ins.op], type = ins.type }, acc, self:name(ins[1]), nil, self.use))
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

--- The same over the n elements of a chunk, of which few hold a better one: that is asked of all together.
function Emit:positions(v)
  local best, x = "b" .. v, format("t%d[j]", v)
  self:open ""
  self:line "int any = 0;"
  self:line("for (int j = 0; j < n; j++) any |= %s;", self:better(v, best, x))
  self:open "for (int j = 0; any && j < n; j++)"
  self:position(v, best, "v" .. v, x, "r + j")
  self:close()
  self:close()
end

--- What a phase over a row has to do, as lists of values: reductions, positions, keeps, stores; lanes: how many
--- elements go together, nil where nothing is summed.
function Emit:row_work(phase)
  local p, y = self.p, { reductions = {}, positions = {}, keeps = {}, stores = {}, trees = false }
  local lanes = 64
  local function add(list, v) list[#list + 1] = v end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      if is_reduction(ins) and self.phase[v] == phase + 1 then
        add(y.reductions, v)
        lanes, y.trees = min(lanes, lanes_of(ins.type)), y.trees or ordered(ins)
      elseif is_position(ins) and self.phase[v] == phase + 1 then
        add(y.positions, v)
      elseif ins.op == "store" and self.class[v] == "elem" and phase == self.phases - 1 then
        add(y.stores, v)
      end
      if self.kept[v] and self.phase[v] == phase then add(y.keeps, v) end
    end
  end
  y.lanes = #y.reductions + #y.positions > 0 and lanes or nil
  y.empty = #y.reductions + #y.positions + #y.keeps + #y.stores == 0
  return y
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

--- Declares what sums of a row are in: lanes, waiting blocks; the best so far and its position.
function Emit:row_states(work, one, long, R)
  local p = self.p
  for _, v in ipairs(work.reductions) do
    local ins = p.body[v]
    local width = one and work.lanes or lanes_of(ins.type)
    self:line("%s a%d[%d];", ctype[ins.type], v, width)
    self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", width, v, self:start(ins.op, ins.type))
    if long and ordered(ins) then self:line("%s q%d[%d];", ctype[ins.type], v, levels_of(R, BLOCK) * width) end
  end
  for _, v in ipairs(work.positions) do
    local from = p.body[p.body[v][1]].type
    self:line("%s b%d = %s;", ctype[from], v, self:start(p.body[v].op, from))
    self:line("int64_t v%d = 0;", v)
    if not one then self:line("%s t%d[%d];", ctype[from], v, work.lanes) end
  end
end

--- Opens the loops over chunks of a row, or over the row where it is one chunk or nothing is summed. Gives the text
--- of an element's number, and how its place is told.
function Emit:row_loops(work, one, long, part, names, R)
  local whole, L = text(R), work.lanes
  if L and not one then
    local from, to = "0", whole
    if long then
      self:open("for (int64_t c = 0; c * %d < %s; c++)", BLOCK, whole)
      self:line("const int64_t end = (c + 1) * %d < %s ? (c + 1) * %d : %s;", BLOCK, whole, BLOCK, whole)
      from, to = format("c * %d", BLOCK), "end"
    end
    self:open("for (int64_t r = %s; r < %s; r += %d)", from, to, L)
    if not long and type(R) == "number" and R % L == 0 then self:line("enum { n = %d };", L)
    else self:line("const int n = %s - r < %d ? (int)(%s - r) : %d;", to, L, to, L) end
    for _, v in ipairs(work.reductions) do
      if lanes_of(self.p.body[v].type) > L then
        self:line("const int half = (int)(r / %d %% 2) * %d;", L, L)
        break
      end
    end
    self:open "for (int j = 0; j < n; j++)"
    return "(r + j)", self:row_index(names, part), 1
  elseif L or #part.dims < 2 then
    self:open("for (int64_t j = 0; j < %s; j++)", whole)
    return "j", self:row_index(names, part), 1
  end
  local at, n = nil, #part.dims -- nothing is summed: the row's dims may be loops of their own
  local function name(d) return d == n and "j" or "x" .. d end
  for d = 1, n do
    self:open("for (int64_t %s = 0; %s < %s; %s++)", name(d), name(d), text(part.dims[d]), name(d))
    at = at and format("(%s * %s + %s)", at, text(part.dims[d]), name(d)) or name(d)
  end
  return at, function(k)
    local out = {}
    for d = 1, n do
      local by = part.strides[k + 1][d]
      if by ~= 0 then out[#out + 1] = by == 1 and name(d) or format("%s * %s", name(d), text(by)) end
    end
    return sum_text(names[k + 1], #out > 0 and concat(out, " + ") or nil)
  end, n
end

--- What is done with each element of a phase.
function Emit:row_elements(work, one, phase, at, index)
  local p, known = self.p, {}
  for _, list in ipairs { work.reductions, work.positions, work.stores } do
    for _, v in ipairs(list) do self:elements(p.body[v][1], phase, index, known, at) end
  end
  for _, v in ipairs(work.keeps) do self:elements(v, phase, index, known, at) end
  for _, v in ipairs(work.reductions) do
    local half = not one and lanes_of(p.body[v].type) > work.lanes
    self:accumulate(v, format("a%d[%s]", v, half and "half + j" or "j"))
  end
  for _, v in ipairs(work.positions) do
    if one then self:position(v, "b" .. v, "v" .. v, self:name(p.body[v][1]), "j")
    else self:line("t%d[j] = %s;", v, self:name(p.body[v][1])) end
  end
  for _, v in ipairs(work.keeps) do self:line("w%d[%s] = v%d;", v, at, v) end
  for _, v in ipairs(work.stores) do self:store(v, index) end
end

--- One phase over a row: its reductions, what is kept, and in the last phase the stores.
function Emit:row_phase(phase, part, names, R)
  local work = self:row_work(phase)
  if work.empty then return end
  local one = work.lanes and at_most(R, work.lanes) -- a row is one chunk
  if one then work.lanes = max(R, 1) end
  local long = work.trees and not at_most(R, BLOCK)
  self:row_states(work, one, long, R)
  local at, index_at, loops = self:row_loops(work, one, long, part, names, R)
  self:row_elements(work, one, phase, at, function(k) return index_at(k, at) end)
  for _ = 1, loops do self:close() end
  if work.lanes and not one then
    for _, v in ipairs(work.positions) do self:positions(v) end
    self:close()
  end
  for _, v in ipairs(long and work.reductions or {}) do
    local ins = self.p.body[v]
    if ordered(ins) then
      self:tree(v, lanes_of(ins.type), "c", format("(c + 1) * %d >= %s", BLOCK, text(R)))
    end
  end
  if long then self:close() end
  for _, v in ipairs(work.reductions) do
    self:join(v, one and work.lanes or lanes_of(self.p.body[v].type), R)
  end
end

--- A block is complete, after so many others: it joins those that wait.
function Emit:tree(v, width, blocks, last)
  local ins = self.p.body[v]
  local kind = sub(ins.op, 2)
  self.use(format("tree_%s_%s", kind, ins.type))
  self:line("ty_tree_%s_%s(a%d, q%d, %d, %s, %s);", kind, ins.type, v, v, width, blocks, last)
end

--- Values of rows that are known when so many phases are done.
function Emit:row_values(phase, known, index)
  for v = 0, self.p.n - 1 do
    local ins = self.p.body[v]
    if self.live[v] and self.class[v] == "row" and self.phase[v] <= phase and ins.op ~= "store"
      and not is_reduction(ins) and not is_position(ins) and not known[v] then
      known[v] = true
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
    end
  end
end

function Emit:rows()
  local launch, n = self.launch, self.noperands
  local outer = merged(launch, 1, launch.no, n)
  local inner = merged(launch, launch.no + 1, launch.no + launch.nr, n)
  local R, known = numel(inner), {}
  self:plan_kept()
  local base = self:starts()
  local room = 0
  for v = 0, self.p.n - 1 do
    if self.kept[v] then
      local t = self.p.body[v].type
      self:line("%s *restrict w%d = (%s *)(void *)(room + %s);", ctype[t], v, ctype[t], text(room))
      room = room + self.aligned(R * primitives.bytes[t])
    end
  end
  self.room = room
  self:loops(outer, #outer.dims, base)
  local names = self:bases(base)
  local function row_index(k) return sum_text(names[k + 1]) end
  for phase = 0, self.phases do
    self:row_values(phase, known, row_index)
    if phase < self.phases then
      if self.p.scans then self:scan(inner, names, R)
      else self:row_phase(phase, inner, names, R) end
    end
  end
  for v = 0, self.p.n - 1 do
    if self.live[v] and self.p.body[v].op == "store" and self.class[v] == "row" then self:store(v, row_index) end
  end
  for _ = 1, #outer.dims do self:close() end
end

-- Scans ---------------------------------------------------------------------------------------------------------------

--- Chunks of 16 elements; between two scans values wait in arrays.
function Emit:scan(part, names, R)
  local p, segments, scans = self.p, 0, {}
  for v = 0, p.n - 1 do
    if self.live[v] then
      segments = max(segments, self.segment[v])
      if is_scan(p.body[v]) then scans[#scans + 1] = v end
    end
  end
  local crosses = {}
  local function wants(v, segment)
    local ins = p.body[v]
    if self.class[v] ~= "elem" or ins.op == "load" then return end
    if is_scan(ins) or self.segment[v] < segment then
      crosses[v] = true
      return
    end
    for k = 1, 3 do
      if ins[k] then wants(ins[k], segment) end
    end
  end
  for v = 0, p.n - 1 do
    local ins = p.body[v]
    if self.live[v] then
      for k = 1, 3 do
        if ins[k] and is_scan(ins) then
          crosses[ins[k]] = true
          wants(ins[k], self.segment[v] - 1)
        elseif ins[k] then
          wants(ins[k], ins.op == "store" and segments or self.segment[v])
        end
      end
    end
  end
  for v = 0, p.n - 1 do
    if crosses[v] then self:line("%s x%d[%d];", ctype[p.body[v].type], v, SCAN) end
  end
  for _, v in ipairs(scans) do
    local ins = p.body[v]
    if ins.op == "slin" then
      self:line("double z%d = 0.0;", v)
    else
      local ident = identity[ins.op][ins.type]
      if find(ident, "ty_float") then self.use("bits_" .. ins.type) end
      self:line("%s z%d[2] = {%s, %s};", ctype[ins.type], v, ident, ident)
    end
  end
  self:open("for (int64_t r = 0; r < %s; r += %d)", text(R), SCAN)
  self:line("const int n = %s - r < %d ? (int)(%s - r) : %d;", text(R), SCAN, text(R), SCAN)
  for _, v in ipairs(scans) do
    local ins = p.body[v]
    if floating[ins.type] and (ins.op == "ssum" or ins.op == "sprod") then
      self:line("if (r && r %% %d == 0) ty_scan_block_%s_%s(z%d);", BLOCK, sub(ins.op, 2), ins.type, v)
    end
  end
  local index_at = self:row_index(names, part)
  local function index(k) return index_at(k, "(r + j)") end
  for segment = 0, segments do
    local known = {}
    self:open "for (int j = 0; j < n; j++)"
    local function declare(v)
      local ins = p.body[v]
      if known[v] or self.class[v] ~= "elem" then return end
      known[v] = true
      if crosses[v] and (self.segment[v] < segment or is_scan(ins)) then
        self:line("const %s v%d = x%d[j];", ctype[ins.type], v, v)
        return
      end
      for k = 1, 3 do
        if ins[k] then declare(ins[k]) end
      end
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
    end
    for v = 0, p.n - 1 do
      if crosses[v] and not is_scan(p.body[v]) and self.segment[v] == segment then
        if self.class[v] == "elem" then declare(v) end
        self:line("x%d[j] = %s;", v, self:name(v))
      end
    end
    if segment == segments then
      for v = 0, p.n - 1 do
        if self.live[v] and p.body[v].op == "store" and self.class[v] == "elem" then declare(p.body[v][1]) end
      end
      for v = 0, p.n - 1 do
        if self.live[v] and p.body[v].op == "store" and self.class[v] == "elem" then self:store(v, index) end
      end
    end
    self:close()
    for _, v in ipairs(scans) do
      if self.segment[v] == segment + 1 then self:scan_step(v) end
    end
  end
  self:close()
end

function Emit:scan_step(v)
  local ins = self.p.body[v]
  local op, t, a = ins.op, ins.type, "x" .. ins[1]
  if floating[t] and (op == "ssum" or op == "sprod") then
    self.use(format("scan_%s_%s", sub(op, 2), t))
    self:line("ty_scan_%s_%s(z%d, %s, x%d, n);", sub(op, 2), t, v, a, v)
    return
  end
  self:open "for (int j = 0; j < n; j++)"
  if op == "slin" then
    self.use "fma_f64"
    self:line("z%d = ty_fma_f64(z%d, %s[j], x%d[j]);", v, v, a, ins[2])
    self:line("x%d[j] = (%s)z%d;", v, ctype[t], v)
  else
    local by = ({ ssum = "add", sprod = "mul", smax = "max", smin = "min", smaxx = "max" })[op]
    if op == "smaxx" then self:line("const %s next = %s[j];", ctype[t], a) end
    if op == "smaxx" then self:line("x%d[j] = z%d[0];", v, v) end
    self:line("z%d[0] = %s;", v, expression({ op = by, type = t }, format("z%d[0]", v),
      op == "smaxx" and "next" or a .. "[j]", nil, self.use))
    if op ~= "smaxx" then self:line("x%d[j] = z%d[0];", v, v) end
  end
  self:close()
end

require("tycho.export.columns")(Emit, { merged = merged, numel = numel, offset_of = offset_of, sum_text = sum_text,
  is_reduction = is_reduction, is_position = is_position, ordered = ordered, levels_of = levels_of, JOINS = JOINS })

-- Programs ------------------------------------------------------------------------------------------------------------

--- The lines of a program's loops, at depth 1, and the bytes of scratch (`room`) that they use.
--- about: {program, launch, pointer(k) -> name of operand k's pointer, scalar(k, type) -> text, use(name),
--- refuse(what)}
function M.lines(about)
  local p = about.program
  local e = setmetatable({ p = p, launch = about.launch, out = {}, depth = about.depth or 1, loop = 0, names = {},
    pointer = about.pointer, scalar = about.scalar, use = about.use, refuse = about.refuse, room = 0,
    aligned = about.aligned }, Emit)
  e.noperands = #p.operands + (p.operands[0] and 1 or 0)
  e.live, e.class, e.phase, e.segment, e.phases = classify(p)
  e.operand_used = {}
  for v = 0, p.n - 1 do
    local op = p.body[v].op
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
