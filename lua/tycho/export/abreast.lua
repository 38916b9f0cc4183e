--- export/abreast.lua -- short rows side by side, as C: part of program.lua.
-- In: the class of programs on their way, what program.lua shares. Out: its method `rows_abreast`.
--
-- Of a short row compilers make no vectors, least of what is computed once for each row. So rows go in groups, and the
-- innermost loops are over the rows of a group: each row's values are where they would be, and so is the order of sums.
-- What a group reads and writes is turned by way of arrays.

local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, ipairs, setmetatable, type = string.format, ipairs, setmetatable, type
local min = math.min
local text = sizes.text
local ctype, expression = primitives.ctype, primitives.expression

local GROUP = 16
local SHORT, MOST, HEAVY = 16, 64, 16 -- rows up to SHORT; longer ones of at least so many operations an element

---@param Emit table
---@param h table functions of program.lua
return function(Emit, h)
  Emit.GROUP = GROUP
  local offset_of, sum_text, is_reduction, is_position, lanes_of, JOINS = h.offset_of, h.sum_text, h.is_reduction,
    h.is_position, h.lanes_of, h.JOINS

  --- Whether rows of R elements, of which there are `rows`, go side by side.
  function Emit:goes_abreast(R, rows)
    local p, lanes, work = self.p, MOST, 0
    if p.scans or type(R) ~= "number" or R < 2 or type(rows) == "number" and rows < GROUP then return false end
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      if self.live[v] and is_reduction(ins) then lanes = min(lanes, lanes_of(ins.type)) end
      if self.live[v] and self.class[v] ~= "uniform" and ins.op ~= "load" and ins.op ~= "store" then work = work + 1 end
    end
    return R <= lanes and (R <= SHORT or work >= HEAVY)
  end

  --- Which values of rows are read elsewhere than where they are computed.
  function Emit:group_rows()
    local p, read = self.p, {}
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      for k = 1, self.live[v] and 3 or 0 do
        local a = ins[k]
        if a and self.class[a] == "row" and (self.class[v] ~= "row" or ins.op == "store"
          or self.phase[a] ~= self.phase[v]) then
          read[a] = true
        end
      end
    end
    return read
  end

  --- Declares what a group's values are in: of rows r, of sums a, of extremes m, of positions first, kept ones w.
  function Emit:group_states(R, read)
    local p = self.p
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      if read[v] then self:line("%s r%d[%d];", ctype[ins.type], v, GROUP) end
      if self.live[v] and h.ordered(ins) then
        self:line("%s a%d[%d];", ctype[ins.type], v, R * GROUP)
      elseif self.live[v] and (is_reduction(ins) or is_position(ins)) then
        local kind = ctype[self:order_type(v)]
        self:line("%s m%d[%d];", kind, v, GROUP)
        if is_position(ins) then self:line("%s first%d[%d];", kind, v, GROUP) end
        self:line("for (int w = 0; w < %d; w++) m%d[w] = %s%s;", GROUP, v, self:order_start(v),
          is_position(ins) and format(", first%d[w] = 0", v) or "")
      end
      if self.kept[v] then -- for positions, too, which here need none
        self:line("%s w%d[%d];", ctype[ins.type], v, R * GROUP)
        self:line("(void)w%d;", v)
      end
    end
  end

  --- Element j of each row of a group.
  function Emit:group_elements(work, phase, R, index)
    local p, known = self.p, {}
    local at = format("j * %d + w", GROUP)
    self:line "TY_ROLLED"
    self:open("for (int j = 0; j < %d; j++)", R)
    self:open("for (int w = 0; w < %d; w++)", GROUP)
    for _, list in ipairs { work.sums, work.exact, work.positions, work.stores } do
      for _, v in ipairs(list) do self:elements(p.body[v][1], phase, index, known, at) end
    end
    for _, v in ipairs(work.keeps) do self:elements(v, phase, index, known, at) end
    for _, v in ipairs(work.sums) do self:line("a%d[%s] = %s;", v, at, self:name(p.body[v][1])) end
    for _, v in ipairs(work.exact) do
      local m = format("m%d[w]", v)
      self:line("const %s k%d = %s;", ctype[self:order_type(v)], v, self:order_of(v, self:name(p.body[v][1])))
      self:order_step(v, m, "k" .. v)
    end
    for _, v in ipairs(work.positions) do
      local kind, m = ctype[self:order_type(v)], format("m%d[w]", v)
      self:line("const %s k%d = %s;", kind, v, self:order_of(v, self:name(p.body[v][1])))
      self:line("first%d[w] = %s ? (%s)j : first%d[w];", v, self:order_better(v, "k" .. v, m), kind, v)
      self:order_step(v, m, "k" .. v)
    end
    for _, v in ipairs(work.keeps) do self:line("w%d[%s] = v%d;", v, at, v) end
    for _, v in ipairs(work.stores) do self:store(v, index) end
    self:close()
    self:close()
  end

  --- The elements of each row come to its sum.
  function Emit:group_join(v, R)
    local ins, s, n = self.p.body[v], 1, R
    while s * 2 < n do s = s * 2 end
    while n > 1 do
      self:line("for (int j = 0; j < %d; j++) a%d[j] = %s;", min(s, n - s) * GROUP, v,
        expression({ op = JOINS[ins.op], type = ins.type }, format("a%d[j]", v),
          format("a%d[j + %d]", v, s * GROUP), nil, self.use))
      n, s = s, s / 2
    end
  end

  --- Values of rows that are known when so many phases are done; those before are read back.
  function Emit:group_values(phase, known, read, index)
    local p, new = self.p, {}
    for v = 0, p.n - 1 do
      if self.live[v] and self.class[v] == "row" and self.phase[v] <= phase and p.body[v].op ~= "store"
        and not known[v] then
        new[#new + 1] = v
      end
    end
    if #new == 0 then return end
    self:open("for (int w = 0; w < %d; w++)", GROUP)
    for _, v in ipairs(new) do
      local ins = p.body[v]
      local value
      if h.ordered(ins) then value = format("a%d[w]", v)
      elseif is_reduction(ins) then value = self:order_value(v, format("m%d[w]", v))
      elseif is_position(ins) then value = format("first%d[w]", v)
      else value = self:value(v, index) end
      self:line("const %s v%d = %s;", ctype[ins.type], v, value)
      if read[v] then self:line("r%d[w] = v%d;", v, v) end
      self.inside[v] = true
    end
    self:close()
    for _, v in ipairs(new) do known[v], self.inside[v] = true, nil end
  end

  --- Operands of elements whose rows do not lie side by side: by number, "in" or "out".
  function Emit:group_turned(by)
    local p, y = self.p, {}
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      local k = ins.imm
      if self.live[v] and self.class[v] == "elem" and by[k + 1] ~= 0 and by[k + 1] ~= 1 then
        if ins.op == "load" then y[k] = "in" elseif ins.op == "store" then y[k] = "out" end
      end
    end
    return y
  end

  --- Copies what is turned, of each row R elements.
  function Emit:group_turn(turned, which, R, pointer, index)
    for k = 0, self.noperands - 1 do
      if turned[k] == which then
        local from, to = format("%s[%s]", pointer(k), index(k)), format("t%d[j * %d + w]", k, GROUP)
        if which == "out" then from, to = to, from end
        self:line "TY_ROLLED"
        self:open("for (int j = 0; j < %d; j++)", R)
        self:line("for (int w = 0; w < %d; w++) %s = %s;", GROUP, to, from)
        self:close()
      end
    end
  end

  --- Groups of rows side by side: the last of the outer dims, in which rows are `r0` and those behind it.
  function Emit:rows_abreast(outer, inner, base, R)
    local last, known = #outer.dims, {}
    local own, by = {}, {}
    for k = 1, self.noperands do
      own[k], by[k] = {}, outer.strides[k][last]
      for i, v in ipairs(base[k]) do own[k][i] = v end
      if by[k] ~= 0 then own[k][#own[k] + 1] = by[k] == 1 and "r0" or format("r0 * %s", text(by[k])) end
    end
    self:open("for (int64_t r0 = 0; r0 + %d <= %s; r0 += %d)", GROUP, text(outer.dims[last]), GROUP)
    local names, saved = self:bases(own), self.names
    self.inside = {} -- values of rows that the loop at hand has computed
    self.names = setmetatable({}, { __index = function(_, v)
      local ins = self.p.body[v]
      if self.class[v] == "row" and ins.op ~= "const" and ins.op ~= "scalar" and not self.inside[v] then
        return format("r%d[w]", v)
      end
    end })
    local function row_index(k)
      return sum_text(names[k + 1], by[k + 1] == 1 and "w" or by[k + 1] ~= 0 and format("w * %s", text(by[k + 1])))
    end
    local function index(k)
      local at = offset_of(inner, k + 1, "j")
      local row = row_index(k)
      return at and (row == "0" and at or row .. " + " .. at) or row
    end
    local turned, pointer, read = self:group_turned(by), self.pointer, self:group_rows()
    for k = 0, self.noperands - 1 do
      if turned[k] then self:line("%s t%d[%d];", primitives.stored[self.p.operands[k].dtype], k, R * GROUP) end
    end
    self.pointer = function(k) return turned[k] and "t" .. k or pointer(k) end
    local function turned_index(k) return turned[k] and format("j * %d + w", GROUP) or index(k) end
    self:group_states(R, read)
    self:group_turn(turned, "in", R, pointer, index)
    for phase = 0, self.phases do
      self:group_values(phase, known, read, row_index)
      local work = phase < self.phases and self:row_work(phase)
      if work and not work.empty then
        self:group_elements(work, phase, R, turned_index)
        for _, v in ipairs(work.sums) do self:group_join(v, R) end
      end
    end
    local stores = {}
    for v = 0, self.p.n - 1 do
      if self.live[v] and self.p.body[v].op == "store" and self.class[v] == "row" then stores[#stores + 1] = v end
    end
    if #stores > 0 then
      self:open("for (int w = 0; w < %d; w++)", GROUP)
      for _, v in ipairs(stores) do self:store(v, row_index) end
      self:close()
    end
    self:group_turn(turned, "out", R, pointer, index)
    self.names, self.pointer = saved, pointer
    self:close()
  end
end
