--- export/rows.lua -- programs of rows as C: part of program.lua.
-- In: the class of programs on their way, what program.lua shares. Out: its method `rows`.
--
-- A row is passed over once for each phase. Three kinds of results come of a phase:
--   sums       and products of floats, whose order is told: a chunk has as many elements as there are lanes
--   exact      extremes, and sums of whole numbers: one number, in any order. Floats are compared as whole numbers of
--              the same order (order_max_*, order_min_*), since compilers make vectors of these alone
--   positions  of extremes: the extreme of each block as above, then the first element of the first best block that
--              is it

local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, concat = string.format, table.concat
local ipairs, type = ipairs, type
local min, max = math.min, math.max
local text, at_most = sizes.text, sizes.at_most
local ctype, expression, floating = primitives.ctype, primitives.expression, primitives.floating

local BLOCK, VECTOR = 4096, 16
local CHEAP = 4 -- operations that are done again rather than kept
local costs = { load = 0, iota = 1, gload = 2, add = 1, sub = 1, mul = 1, fma = 1, min = 2, max = 2, sel = 1, neg = 1,
  abs = 1, cvt = 1 }

---@param Emit table
---@param h table functions of program.lua
return function(Emit, h)
  local merged, numel, offset_of, sum_text = h.merged, h.numel, h.offset_of, h.sum_text
  local is_reduction, is_position, ordered, lanes_of, levels_of, JOINS = h.is_reduction, h.is_position, h.ordered,
    h.lanes_of, h.levels_of, h.JOINS

  -- What is kept ------------------------------------------------------------------------------------------------------

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
        if is_reduction(ins) then wants(ins[1], self.phase[v] - 1)
        elseif is_position(ins) then wants(ins[1], self.phase[v]) -- looked at once more
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

  --- How places in a row's memory are told by the number of an element.
  function Emit.row_index(_, names, part)
    return function(k, at) return sum_text(names[k + 1], offset_of(part, k + 1, at)) end
  end

  -- Exact results -----------------------------------------------------------------------------------------------------

  local order_types = { f32 = "i32", f64 = "i64" }
  local is_largest = { rmax = true, rargmax = true }

  --- The type of what an exact result or a position is compared as.
  function Emit:order_type(v)
    local from = self.p.body[self.p.body[v][1]].type
    return order_types[from] or from
  end

  --- Text of an element as a number of that type.
  function Emit:order_of(v, x)
    local ins = self.p.body[v]
    local from = self.p.body[ins[1]].type
    if not floating[from] then return x end
    if is_position(ins) then x = x .. (from == "f32" and " + 0.0f" or " + 0.0") end -- zeros are equal
    self.use("order_" .. from)
    return format("ty_order_%s_%s(%s)", is_largest[ins.op] and "max" or "min", from, x)
  end

  --- Where the best of no elements begins.
  function Emit:order_start(v)
    local ins = self.p.body[v]
    return self:order_of(v, self:start(ins.op, self.p.body[ins[1]].type))
  end

  --- Text of whether number x comes before accumulator `m`.
  function Emit:order_better(v, x, m)
    return format("%s %s %s", x, is_largest[self.p.body[v].op] and ">" or "<", m)
  end

  --- The line by which accumulator `m` of an exact result takes number x in.
  function Emit:order_step(v, m, x)
    local op = self.p.body[v].op
    if op == "rsum" or op == "rprod" then
      self:line("%s = %s;", m, expression({ op = JOINS[op], type = self.p.body[v].type }, m, x, nil, self.use))
    else
      self:line("%s = %s ? %s : %s;", m, self:order_better(v, x, m), x, m)
    end
  end

  --- The value that an exact result's accumulator stands for.
  function Emit:order_value(v, m)
    local from = self.p.body[v].type
    if not floating[from] then return m end
    return format("ty_unorder_%s(%s)", from, m)
  end

  --- Whether a value is 0 or 1, as far as a few steps show.
  local function is_truth(p, v, steps)
    local ins = p.body[v]
    local op = ins.op
    if op == "lt" or op == "le" or op == "eq" then return true end
    if op == "load" then return p.operands[ins.imm].dtype == "bool" end
    return (op == "and" or op == "or") and steps > 0 and is_truth(p, ins[1], steps - 1)
      and is_truth(p, ins[2], steps - 1)
  end

  -- Phases ------------------------------------------------------------------------------------------------------------

  --- What a phase over a row has to do, as lists of values: sums, exact, positions, keeps, stores; lanes: how many
  --- elements go together, nil where order does not matter; settles: whether it may end where truth values are known.
  function Emit:row_work(phase)
    local p, y = self.p, { sums = {}, exact = {}, positions = {}, keeps = {}, stores = {} }
    local lanes, truths = 64, true
    local function add(list, v) list[#list + 1] = v end
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      if self.live[v] then
        if is_reduction(ins) and self.phase[v] == phase + 1 then
          add(ordered(ins) and y.sums or y.exact, v)
          if ordered(ins) then lanes = min(lanes, lanes_of(ins.type)) end
          truths = truths and (ins.op == "rmax" or ins.op == "rmin") and is_truth(p, ins[1], 3)
        elseif is_position(ins) and self.phase[v] == phase + 1 then
          add(y.positions, v)
        elseif ins.op == "store" and self.class[v] == "elem" and phase == self.phases - 1 then
          add(y.stores, v)
        end
        if self.kept[v] and self.phase[v] == phase then add(y.keeps, v) end
      end
    end
    y.lanes = #y.sums > 0 and lanes or nil
    y.pure = #y.keeps + #y.stores == 0 and not self.gathers -- does nothing but reduce
    y.settles = truths and #y.exact > 0 and #y.positions + #y.keeps + #y.stores == 0
    y.empty = #y.sums + #y.exact + #y.positions + #y.keeps + #y.stores == 0
    return y
  end

  --- Declares lanes of exact results and of positions where sums go by lanes, numbers elsewhere.
  function Emit:order_states(list, work)
    for _, v in ipairs(list) do
      local kind = ctype[self:order_type(v)]
      if work.chunks then
        self:line("%s a%d[%d];", kind, v, work.lanes)
        self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", work.lanes, v, self:order_start(v))
      end
      self:line("%s m%d = %s;", kind, v, self:order_start(v))
    end
  end

  --- Lanes of exact results come to one number.
  function Emit:order_joins(list, work)
    for _, v in ipairs(work.chunks and list or {}) do
      self:open("for (int j = 0; j < %d; j++)", work.lanes)
      self:order_step(v, "m" .. v, format("a%d[j]", v))
      self:close()
    end
  end

  --- Declares what the results of a row are in.
  function Emit:row_states(work, R)
    local p = self.p
    for _, v in ipairs(work.sums) do
      local ins = p.body[v]
      local width = work.one and work.lanes or lanes_of(ins.type)
      self:line("%s a%d[%d];", ctype[ins.type], v, width)
      self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", width, v, self:start(ins.op, ins.type))
      if work.blocks then self:line("%s q%d[%d];", ctype[ins.type], v, levels_of(R, BLOCK) * width) end
    end
    self:order_states(work.exact, work)
    for _, v in ipairs(work.blocks and work.positions or {}) do
      self:line("%s b%d = %s;", ctype[self:order_type(v)], v, self:order_start(v))
      self:line("int64_t at%d = 0;", v)
    end
  end

  --- What is done with each element of a phase; lane: the number of its lane, nil where there are none.
  function Emit:row_elements(work, phase, at, index, lane)
    local p, known = self.p, {}
    local function at_index(k) return index(k, at) end
    for _, list in ipairs { work.sums, work.exact, work.positions, work.stores } do
      for _, v in ipairs(list) do self:elements(p.body[v][1], phase, at_index, known, at) end
    end
    for _, v in ipairs(work.keeps) do self:elements(v, phase, at_index, known, at) end
    for _, v in ipairs(work.sums) do
      local half = not work.one and lanes_of(p.body[v].type) > work.lanes
      self:accumulate(v, format("a%d[%s]", v, half and "half + j" or "j"))
    end
    for _, list in ipairs { work.exact, work.positions } do
      for _, v in ipairs(list) do
        local x = self:order_of(v, self:name(p.body[v][1]))
        if self.guard then x = format("%s ? %s : %s", self.guard, x, self:order_start(v)) end
        if x:find "%(" then
          self:line("const %s k%d = %s;", ctype[self:order_type(v)], v, x)
          x = "k" .. v
        end
        self:order_step(v, lane and format("a%d[%s]", v, lane) or "m" .. v, x)
      end
    end
    for _, v in ipairs(work.keeps) do self:line("w%d[%s] = v%d;", v, at, v) end
    for _, v in ipairs(work.stores) do self:store(v, at_index) end
  end

  --- A loop of n turns over lanes. Where n is known and no whole vectors, more turns than that, in which nothing is
  --- read: a narrow store into what is then read as a vector would stall.
  function Emit:guarded(work, kind, name, n, body)
    local whole = type(n) == "number" and n > VECTOR and n % VECTOR ~= 0 and work.pure and n + -n % VECTOR
    self:open("for (%s %s = 0; %s < %s; %s++)", kind, name, name, whole or n, name)
    if whole then
      self:line("const int in = %s < %d;", name, n)
      self.guard = "in"
    end
    body()
    self.guard = nil
    self:close()
  end

  --- Chunks of a row from `from` to `to`, and what is left behind them.
  function Emit:row_chunks(work, phase, from, to, index, R)
    local L = work.lanes
    local halves = false
    for _, v in ipairs(work.sums) do halves = halves or lanes_of(self.p.body[v].type) > L end
    local function chunk(n)
      if halves then self:line("const int half = (int)(r / %d %% 2) * %d;", L, L) end
      self:guarded(work, "int", "j", n, function() self:row_elements(work, phase, "(r + j)", index, "j") end)
    end
    self:line("int64_t r = %s;", from)
    self:open("for (; r + %d <= %s; r += %d)", L, to, L)
    chunk(L)
    self:close()
    local left = type(R) == "number" and R % L or nil
    if left == 0 then return end
    self:open("if (r < %s)", to)
    if left then chunk(left)
    else
      self:line("const int n = (int)(%s - r);", to)
      chunk "n"
    end
    self:close()
  end

  --- The elements from `from` to `to` one by one; all of them: by loops over the row's dims where there are several.
  function Emit:row_each(work, phase, from, to, index, part, names, R)
    local n = #part.dims
    if work.one then
      return self:guarded(work, "int64_t", "j", R, function() self:row_elements(work, phase, "j", index) end)
    elseif n < 2 or work.blocks then
      self:open("for (int64_t j = %s; j < %s; j++)", from, to)
      self:row_elements(work, phase, "j", index)
      self:close()
      return
    end
    local at = nil
    local function name(d) return d == n and "j" or "x" .. d end
    for d = 1, n do
      self:open("for (int64_t %s = 0; %s < %s; %s++)", name(d), name(d), text(part.dims[d]), name(d))
      at = at and format("(%s * %s + %s)", at, text(part.dims[d]), name(d)) or name(d)
    end
    self:row_elements(work, phase, at, function(k)
      local out = {}
      for d = 1, n do
        local by = part.strides[k + 1][d]
        if by ~= 0 then out[#out + 1] = by == 1 and name(d) or format("%s * %s", name(d), text(by)) end
      end
      return sum_text(names[k + 1], #out > 0 and concat(out, " + ") or nil)
    end)
    for _ = 1, n do self:close() end
  end

  --- What a block came to: sums wait for others, the best so far is told; where truth values are settled it ends.
  function Emit:row_block_ends(work, R)
    for _, v in ipairs(work.sums) do
      self:tree(v, lanes_of(self.p.body[v].type), "c", format("(c + 1) * %d >= %s", BLOCK, text(R)))
    end
    self:order_joins(work.positions, work)
    for _, v in ipairs(work.positions) do
      self:line("if (%s) b%d = m%d, at%d = c * %d;", self:order_better(v, "m" .. v, "b" .. v), v, v, v, BLOCK)
    end
    if work.settles then
      local out = {}
      for _, v in ipairs(work.exact) do
        out[#out + 1] = format("m%d == %d", v, self.p.body[v].op == "rmax" and 1 or 0)
      end
      self:line("if (%s) break;", concat(out, " && "))
    end
  end

  --- Looks for the first element that is the extreme of a row, or of its best block.
  function Emit:row_search(v, work, phase, index, R)
    local best, kind = work.blocks and "b" .. v or "m" .. v, ctype[self:order_type(v)]
    local n, base, at = text(R), "", "j"
    self:line("%s first%d = %d;", kind, v, BLOCK)
    if work.blocks then
      n, base, at = "n" .. v, format("at%d + ", v), format("(at%d + j)", v)
      self:line("const int n%d = %s - at%d < %d ? (int)(%s - at%d) : %d;", v, text(R), v, BLOCK, text(R), v, BLOCK)
    end
    self:open("for (%s j = 0; j < %s; j++)", kind, n)
    local x = self.p.body[v][1]
    self:elements(x, phase + 1, function(k) return index(k, at) end, {}, at)
    self:line("const %s k = %s, here = k == %s ? j : %d;", kind, self:order_of(v, self:name(x)), best, BLOCK)
    self:line("first%d = here < first%d ? here : first%d;", v, v, v)
    self:close()
    self:line("const int64_t v%d = %sfirst%d;", v, base, v)
  end

  --- One phase over a row: its reductions, what is kept, and in the last phase the stores.
  function Emit:row_phase(phase, part, names, R)
    local work = self:row_work(phase)
    if work.empty then return end
    work.one = work.lanes and at_most(R, work.lanes) -- a row is one chunk
    if work.one then
      work.lanes = max(R, 1)
      if work.pure and R > VECTOR then
        while math.frexp(work.lanes) ~= 0.5 do work.lanes = work.lanes + 1 end -- a power of two
      end
    end
    work.chunks = work.lanes and not work.one
    work.blocks = (#work.sums + #work.positions > 0 or work.settles) and not at_most(R, BLOCK)
    local from, to, index = "0", text(R), self:row_index(names, part)
    self:row_states(work, R)
    if work.blocks then
      self:open("for (int64_t c = 0; c * %d < %s; c++)", BLOCK, to)
      self:line("const int64_t end = (c + 1) * %d < %s ? (c + 1) * %d : %s;", BLOCK, to, BLOCK, to)
      from, to = format("c * %d", BLOCK), "end"
    end
    self:order_states(work.positions, work)
    if work.chunks then
      self:open ""
      self:row_chunks(work, phase, from, to, index, R)
      self:close()
    else
      self:row_each(work, phase, from, to, index, part, names, R)
    end
    if work.blocks then
      self:row_block_ends(work, R)
      self:close()
    else
      self:order_joins(work.positions, work)
    end
    self:order_joins(work.exact, work)
    for _, v in ipairs(work.sums) do
      self:join(v, work.one and work.lanes or lanes_of(self.p.body[v].type), R)
    end
    for _, v in ipairs(work.exact) do self:result(v, self:order_value(v, "m" .. v), R) end
    for _, v in ipairs(work.positions) do self:row_search(v, work, phase, index, R) end
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

  --- Rows one by one, from the text `from` on in the last of the outer dims.
  function Emit:rows_in_turn(outer, inner, base, R, from)
    local known, room = {}, 0
    for v = 0, self.p.n - 1 do
      if self.kept[v] then
        local t = self.p.body[v].type
        self:line("%s *restrict w%d = (%s *)(void *)(room + %s);", ctype[t], v, ctype[t], text(room))
        room = room + self.aligned(R * primitives.bytes[t])
      end
    end
    self.room = room
    if #outer.dims > 0 then self:over(outer, #outer.dims, base, from) end
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
    if #outer.dims > 0 then self:close() end
  end

  function Emit:rows()
    local launch, n = self.launch, self.noperands
    local outer = merged(launch, 1, launch.no, n)
    local inner = merged(launch, launch.no + 1, launch.no + launch.nr, n)
    local R, rows = numel(inner), outer.dims[#outer.dims]
    local base, from = self:starts(), "0"
    self:plan_kept()
    self:loops(outer, #outer.dims - 1, base)
    if rows and self:goes_abreast(R, rows) then
      self:rows_abreast(outer, inner, base, R)
      from = type(rows) == "number" and text(rows - rows % self.GROUP)
        or format("%s / %d * %d", text(rows), self.GROUP, self.GROUP)
    end
    if from ~= text(rows or 1) then self:rows_in_turn(outer, inner, base, R, from) end
    for _ = 1, #outer.dims - 1 do self:close() end
  end
end
