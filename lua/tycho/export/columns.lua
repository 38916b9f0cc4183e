--- export/columns.lua -- programs of columns as C: part of program.lua.
-- In: the class of programs on their way, what program.lua shares. Out: its method `columns`.
--
-- Columns go in strips. Of a strip each row is one step: row r belongs to block r / 256 and to lane r % 4, and its
-- elements are side by side, so that compilers make vectors of the loops over them.

local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, ipairs, type, setmetatable = string.format, ipairs, type, setmetatable
local max = math.max
local text, at_most = sizes.text, sizes.at_most
local ctype, expression = primitives.ctype, primitives.expression

local COL_BLOCK, COL_LANES = 256, 4
local STRIP = 64 -- columns that are worked on together

---@param Emit table
---@param h table functions of program.lua
return function(Emit, h)
  local merged, numel, offset_of, sum_text = h.merged, h.numel, h.offset_of, h.sum_text
  local is_reduction, is_position, ordered, levels_of, JOINS = h.is_reduction, h.is_position, h.ordered, h.levels_of,
    h.JOINS

  --- What a program of columns has to do, as lists of values; before: values of columns that elements read.
  function Emit:column_work()
    local p = self.p
    local y = { reductions = {}, positions = {}, stores = {}, after = {}, before = {} }
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      local list = is_reduction(ins) and y.reductions or is_position(ins) and y.positions
        or ins.op == "store" and (self.class[v] == "elem" and y.stores or y.after)
      if self.live[v] and list then list[#list + 1] = v end
    end
    local function wants(v)
      local ins = p.body[v]
      if self.class[v] == "row" then
        y.before[v] = ins.op ~= "load" or nil
        return
      end
      for k = 1, 3 do
        if ins[k] then wants(ins[k]) end
      end
    end
    y.elements = {}
    for _, list in ipairs { y.reductions, y.positions, y.stores } do
      for _, v in ipairs(list) do
        y.elements[#y.elements + 1] = p.body[v][1]
        wants(p.body[v][1])
      end
    end
    return y
  end

  --- Declares what sums of w columns are in, and values of columns that elements read.
  function Emit:column_states(work, W, long, R, index)
    local p = self.p
    for v = 0, p.n - 1 do
      if work.before[v] then
        self:line("%s t%d[%d];", ctype[p.body[v].type], v, W)
        self:open "for (int c = 0; c < w; c++)"
        self:declare(v, index, {}, "row")
        self:line("t%d[c] = v%d;", v, v)
        self:close()
      end
    end
    for _, v in ipairs(work.reductions) do
      local ins = p.body[v]
      self:line("%s a%d[%d];", ctype[ins.type], v, COL_LANES * W)
      self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", COL_LANES * W, v, self:start(ins.op, ins.type))
      if long and ordered(ins) then
        self:line("%s q%d[%d];", ctype[ins.type], v, levels_of(R, COL_BLOCK) * COL_LANES * W)
      end
    end
    for _, v in ipairs(work.positions) do
      local from = p.body[p.body[v][1]].type
      self:line("%s b%d[%d];", ctype[from], v, W)
      self:line("int64_t k%d[%d];", v, W)
      self:line("for (int c = 0; c < %d; c++) b%d[c] = %s, k%d[c] = 0;", W, v, self:start(p.body[v].op, from), v)
    end
  end

  --- One row of a strip: element by element.
  function Emit:column_elements(work, index, column_index)
    local p, known, saved = self.p, {}, self.names
    self:open "for (int c = 0; c < w; c++)"
    self.names = setmetatable({}, { __index = function(_, v) return work.before[v] and format("t%d[c]", v) or nil end })
    local function declare(v)
      local ins = p.body[v]
      if known[v] or work.before[v] or self.class[v] == "uniform" then return end
      known[v] = true
      for k = 1, 3 do
        if ins[k] then declare(ins[k]) end
      end
      local where = self.class[v] == "row" and column_index or index
      self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, where))
    end
    for _, v in ipairs(work.elements) do declare(v) end
    for _, v in ipairs(work.reductions) do self:accumulate(v, format("a%d[lane + c]", v)) end
    for _, v in ipairs(work.positions) do
      self:position(v, format("b%d[c]", v), format("k%d[c]", v), self:name(p.body[v][1]), "r")
    end
    for _, v in ipairs(work.stores) do self:store(v, index) end
    self.names = saved
    self:close()
  end

  --- The rows of a strip, one by one.
  function Emit:column_rows(work, W, long, rows, names, at_column)
    local p, R = self.p, numel(rows)
    self:open("for (int64_t r = 0; r < %s; r++)", text(R))
    if #work.reductions > 0 then self:line("const int lane = (int)(r %% %d) * %d;", COL_LANES, W) end
    local bases = {}
    for k = 1, self.noperands do
      local by = self.operand_used[k - 1] and not p.operands[k - 1].row and offset_of(rows, k, "r")
      if by then
        self:line("const int64_t r%d = %s;", k - 1, sum_text(names[k], by))
        bases[k] = "r" .. k - 1
      end
    end
    self:column_elements(work, function(k) return sum_text(bases[k + 1] or names[k + 1], at_column(k)) end,
      function(k) return sum_text(names[k + 1], at_column(k)) end)
    local trees = {}
    for _, v in ipairs(long and work.reductions or {}) do
      if ordered(p.body[v]) then trees[#trees + 1] = v end
    end
    if #trees > 0 then
      self:open("if ((r + 1) %% %d == 0 || r + 1 == %s)", COL_BLOCK, text(R))
      for _, v in ipairs(trees) do
        self:tree(v, COL_LANES * W, format("r / %d", COL_BLOCK), format("r + 1 == %s", text(R)))
      end
      self:close()
    end
    self:close()
  end

  --- Lanes join; then what is of columns.
  function Emit:column_results(work, W, R, index)
    local p, known = self.p, {}
    for _, v in ipairs(work.reductions) do
      for _, s in ipairs { 2, 1 } do
        self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", s * W, v,
          expression({ op = JOINS[p.body[v].op], type = p.body[v].type }, format("a%d[j]", v),
            format("a%d[j + %d]", v, s * W), nil, self.use))
      end
    end
    if #work.after == 0 then return end
    self:open "for (int c = 0; c < w; c++)"
    for _, v in ipairs(work.reductions) do
      known[v] = true
      self:result(v, format("a%d[c]", v), R)
    end
    for _, v in ipairs(work.positions) do
      known[v] = true
      self:line("const int64_t v%d = k%d[c];", v, v)
    end
    for _, v in ipairs(work.after) do self:declare(p.body[v][1], index, known, "row") end
    for _, v in ipairs(work.after) do self:store(v, index) end
    self:close()
  end

  function Emit:columns()
    local launch, n = self.launch, self.noperands
    local outer = merged(launch, 1, launch.no, n)
    local rows = merged(launch, launch.no + 1, launch.no + launch.nr, n)
    local cols = merged(launch, launch.no + launch.nr + 1, launch.no + launch.nr + launch.ni, n)
    local R, last, work = numel(rows), #cols.dims, self:column_work()
    local I = last > 0 and cols.dims[last] or 1
    local base = self:starts()
    self:loops(outer, #outer.dims, base)
    self:loops(cols, last - 1, base)
    local names = self:bases(base)
    local W = at_most(I, STRIP) and max(I, 1) or STRIP
    self:open("for (int64_t c0 = 0; c0 < %s; c0 += %d)", text(I), W)
    if type(I) == "number" and I % W == 0 then self:line("enum { w = %d };", W)
    else self:line("const int w = %s - c0 < %d ? (int)(%s - c0) : %d;", text(I), W, text(I), W) end
    local function at_column(k)
      local by = last > 0 and cols.strides[k + 1][last] or 0
      return by == 1 and "(c0 + c)" or by ~= 0 and format("(c0 + c) * %s", text(by)) or nil
    end
    local function index(k) return sum_text(names[k + 1], at_column(k)) end
    local long = not at_most(R, COL_BLOCK)
    self:column_states(work, W, long, R, index)
    if #work.elements > 0 then self:column_rows(work, W, long, rows, names, at_column) end
    self:column_results(work, W, R, index)
    for _ = 1, 1 + #outer.dims + max(last - 1, 0) do self:close() end
  end
end
