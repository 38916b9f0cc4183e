--- export/model.lua -- a captured plan on its way to C: parameters, memory, a function for each step.
-- In: the world and the description of a capture, its plan. Out: an object whose fields text.lua writes: inputs,
-- outputs, weights, functions, the lines that call them, bytes of the workspace. Raises where a step cannot be
-- written.

local ty = require "tycho"
local primitives = require "tycho.export.primitives"
local product = require "tycho.export.product"
local program = require "tycho.export.program"
local routines = require "tycho.export.routines"
local sizes = require "tycho.export.sizes"

local type, pairs, ipairs, tostring, tonumber, select = type, pairs, ipairs, tostring, tonumber, select
local setmetatable = setmetatable
local format, gsub, find = string.format, string.gsub, string.find
local concat, insert, sort = table.concat, table.insert, table.sort
local text = sizes.text

local M = {}

local fail = ty.internals.error

local function refuse(what) return fail("export: " .. what) end

--- Bytes in whole cache lines; where they follow from sizes, in what the widest element needs.
local function aligned(n)
  return sizes.round_up(n, type(n) == "number" and 64 or 8)
end

-- Names ---------------------------------------------------------------------------------------------------------------

local keywords = {}
for w in ([[auto break case char const continue default do double else enum extern float for goto if inline int long
  register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main
  workspace seed stream weights status work room run mode]]):gmatch "%S+" do keywords[w] = true end

--- A name for C, unique among those used.
local function c_name(path, used)
  local name = gsub(gsub(gsub(path, "[^%w]+", "_"), "^_+", ""), "_+$", "")
  if name == "" or find(name, "^%d") then name = "x" .. name end
  if keywords[name] or find(name, "^ty_") or find(name, "^dim_") or find(name, "^step_") or find(name, "^[sic]%d")
    or find(name, "^n_s%d") then name = name .. "_" end
  local own, k = name, 1
  while used[own] do k, own = k + 1, name .. "_" .. (k + 1) end
  used[own] = true
  return own
end

--- What a number expression depends on: true where an argument of the call is among it.
local function depends(numbers, id, root, seen)
  local s = numbers[id]
  local instr = s and s.instr
  if not instr then return false end
  if seen[id] ~= nil then return seen[id] end
  seen[id] = false
  local y = false
  if instr[1] == "number" then
    y = root[instr[2]] ~= nil
  elseif instr[1] == "draw" then
    y = true
  elseif instr[1] ~= "const" and instr[1] ~= "size" then
    for i = instr[1] == "call" and 3 or 2, 4 do y = y or instr[i] ~= nil and depends(numbers, instr[i], root, seen) end
  end
  seen[id] = y
  return y
end

-- Models --------------------------------------------------------------------------------------------------------------

--- A model on its way to C: what its files say.
local Model = {}
Model.__index = Model

function Model:needs(name) self.used[name] = true end

local plain_functions = { [math.sqrt] = "sqrt", [math.abs] = "abs", [math.floor] = "floor", [math.ceil] = "ceil" }
local operators = { add = "+", sub = "-", mul = "*", div = "/" }

--- C text of a number expression, as a double.
function Model:number(w, id, depth)
  local s = w.numbers[id]
  local instr = s and s.instr
  if not instr then refuse "a number of unknown origin" end
  if not depends(w.numbers, id, self.root, {}) then
    local literal, needs = primitives.double(s.value)
    if needs then self:needs(needs) end
    return literal
  end
  local kind, first = instr[1], 2
  if kind == "call" and plain_functions[instr[2]] then kind, first = plain_functions[instr[2]], 3 end
  local function part(i) return self:number(w, instr[i], (depth or 0) + 1) end
  if kind == "number" then
    local name = self.number_names[instr[2]]
    if not name then refuse(format("the number %s, which is found in an argument", s.path or "?")) end
    return name
  elseif operators[kind] then
    return format("(%s %s %s)", part(2), operators[kind], part(3))
  elseif kind == "unm" then
    return format("-(%s)", part(2))
  elseif kind == "abs" then
    self:needs "bits_f64"
    return format("ty_abs_f64(%s)", part(first))
  elseif kind == "floor" or kind == "ceil" then
    self:needs "round_f64"
    return format("ty_%s_f64(%s)", kind, part(first))
  elseif kind == "sqrt" then
    self:needs "sqrt_f64"
    return format("ty_sqrt_f64(%s)", part(first))
  elseif kind == "draw" then
    refuse "a number that math.random or a clock gives in each call"
  end
  return refuse(format("a function of Lua's of a number among the arguments (%s): compute it before the call",
    s.path or kind))
end

local rounding = { f32 = "(float)%s", f64 = "%s" }

--- Declares what each scalar of the plan is. Whether a number is whole may have decided about a dtype.
function Model:scalars(w, d, p)
  for _, g in ipairs(d.program) do
    if g[1] == "whole" and depends(w.numbers, g[2], self.root, {}) then
      self:needs "integer"
      self:body("if (%sty_is_integer(%s)) return %s_NUMBER;", g[3] and "!" or "", self:number(w, g[2]), self.upper)
    end
  end
  self.scalar_text = {}
  for i, from in ipairs(p.numbers or {}) do
    local name = "s" .. i - 1
    if from.kind == "sized" then
      if from.needs then self:needs(from.needs) end
      self:body("const %s %s = (%s)(%s);", primitives.ctype[from.type], name, primitives.ctype[from.type], from.text)
      self.scalar_text[i - 1] = { name = name, type = primitives.ctype[from.type] }
    elseif from.kind == "const" then
      self.scalar_text[i - 1] = { bits = from.bits }
    elseif from.kind == "seed" then
      self.random = true
      self.scalar_text[i - 1] = { name = "(int64_t)seed", type = "int64_t" }
    elseif from.kind == "stream" then
      self.random = true
      self.scalar_text[i - 1] = { name = format("(int64_t)(stream + %d)", tonumber(from.bits, 16)), type = "int64_t" }
    else
      local v = self:number(w, from.id)
      local kind = primitives.computed[from.dtype]
      if rounding[from.dtype] then
        self:body("const %s %s = %s;", primitives.ctype[kind], name, format(rounding[from.dtype], v))
      elseif from.dtype == "f16" or from.dtype == "bf16" then
        self:needs("half_" .. from.dtype)
        self:body("const float %s = ty_half_%s(%s);", name, from.dtype, v)
      else
        self:needs "whole"
        self:body("int64_t n_%s;", name)
        local low, high = primitives.limits(from.dtype)
        self:body("if (!ty_is_whole(%s, %s, %s, &n_%s)) return %s_NUMBER;", v, low, high, name, self.upper)
        self:body("const %s %s = (%s)n_%s;", primitives.ctype[kind], name, primitives.ctype[kind], name)
      end
      self.scalar_text[i - 1] = { name = name, type = primitives.ctype[kind] }
    end
  end
end

function Model:body(fmt, ...)
  self.run[#self.run + 1] = "  " .. (select("#", ...) > 0 and format(fmt, ...) or fmt)
end

-- Inputs, weights -----------------------------------------------------------------------------------------------------

local function product_of(shape)
  local n = 1
  for _, v in ipairs(shape) do n = n * v end
  return n
end

--- A shape for the header's reader: sizes by the names that callers give them.
local function shape_text(shape)
  local out = {}
  for i, v in ipairs(shape) do
    out[i] = type(v) == "number" and format("%d", v) or gsub(gsub(tostring(v), "[()]", ""), "%f[%w_]dim_", "")
  end
  return "[" .. concat(out, ", ") .. "]"
end

--- The tensors and numbers among the arguments, in order, as parameters of C.
function Model:parameters(w, d, root)
  self.inputs, self.number_names, self.input_of = {}, {}, {}
  local listed, counted = {}, {}
  for _, g in ipairs(d.program) do
    if g[1] == "number" then counted[g[2]] = true end
  end
  for slot = 1, #w.slots do
    local s = w.slots[slot]
    local of = root[slot]
    if s and of then listed[#listed + 1] = s end
  end
  for _, s in ipairs(listed) do
    local v = s.value
    local path = s.slot <= d.narg and self.names[s.slot] or s.path
    if ty.is_tensor(v) then
      if v.device ~= "cpu" then
        refuse(format("argument %s lies on %s, and what is exported computes on the CPU (move the model and its "
          .. "arguments with :to \"cpu\")", path, v.device))
      end
      local i = { name = c_name(path, self.taken), path = path, dtype = v.dtype, shape = v.shape, slot = s.slot }
      if not v:is_contiguous() then refuse(format("argument %s is not contiguous", path)) end
      for dim, size in pairs(self.dynamic[s.slot] or {}) do i.shape[dim] = sizes.size("dim_" .. size) end
      self.inputs[#self.inputs + 1] = i
      self.input_of[s.slot] = i
    elseif type(v) == "number" and (s.slot <= d.narg or counted[s.slot]) then
      local i = { name = c_name(path, self.taken), path = path, number = true, slot = s.slot }
      self.inputs[#self.inputs + 1] = i
      self.number_names[s.slot] = i.name
    end
  end
end

--- Where the inputs of the plan are found, as C text of pointers.
function Model:sources(w, p)
  self.weights, self.source = {}, {}
  for i, from in ipairs(p.inputs) do
    local stored = primitives.stored[from.dtype]
    local input = from.slot and self.input_of[from.slot]
    if input then
      self.source[i - 1] = { text = from.delta ~= 0 and format("(%s + %s)", input.name, text(from.delta)) or input.name,
        dtype = from.dtype }
    else
      local first = self.weights[from.buffer] or from.data and (self.weight_of[from.dtype .. from.data])
      if not first then
        local s = from.slot and w.slots[from.slot]
        local path = s and s.path or "constant"
        local name = c_name("w_" .. path, setmetatable({}, { __index = function(_, k)
          return self.taken[k] or self.weight_names[k]
        end }))
        self.taken[name], self.weight_names[name] = true, true
        first = { name = name, path = path, dtype = from.dtype, data = from.data,
          shape = s and s.value.shape or from.shape }
        self.weight_of[from.dtype .. from.data] = first
        self.weight_list[#self.weight_list + 1] = first
      end
      self.weights[from.buffer] = first
      local at = from.at ~= 0 and format("(%s + %s)", first.name, text(from.at)) or first.name
      if first.dtype ~= from.dtype then at = format("((const %s *)(const void *)%s)", stored, at) end
      self.source[i - 1] = { text = at, dtype = from.dtype }
    end
  end
end

-- Results -------------------------------------------------------------------------------------------------------------

local function row_major(shape)
  local strides, n = {}, 1
  for i = #shape, 1, -1 do
    strides[i] = n
    n = n * shape[i]
  end
  return strides
end

local function is_row_major(shape, strides)
  local want = row_major(shape)
  for i, v in ipairs(shape) do
    if v ~= 1 and strides[i] ~= want[i] then return false end
  end
  return true
end

--- The results as parameters of C, in order; what is no tensor and no number is refused.
function Model:results(w, d, p)
  local outputs, bound, visited = {}, {}, {}
  local function check_real(dtype)
    if not primitives.bytes[dtype] then refuse "a result is complex: give ty.view_as_real of it" end
  end
  local function add(recipe, path)
    local kind, k = recipe and recipe[1], recipe and recipe[2]
    if kind == "tensor" then
      local m = p.made[k]
      check_real(m.dtype)
      local o = { path = path, dtype = m.dtype, shape = m.shape, made = m }
      if m.target and not bound[m.target] and m.offset == 0 and is_row_major(m.shape, m.strides)
        and product_of(m.shape) == p.targets[m.target].numel then
        bound[m.target], o.direct = o, true
      end
      outputs[#outputs + 1] = o
    elseif kind == "slot" and ty.is_tensor(w.slots[k].value) then
      local v = w.slots[k].value
      check_real(v.dtype)
      outputs[#outputs + 1] = { path = path, dtype = v.dtype, shape = v.shape,
        made = { slot = k, offset = 0, shape = v.shape, strides = v:stride(), dtype = v.dtype } }
    elseif kind == "slot" and type(w.slots[k].value) == "number" then
      outputs[#outputs + 1] = { path = path, number = self.number_names[k] or primitives.double(w.slots[k].value) }
    elseif kind == "number" then
      outputs[#outputs + 1] = { path = path, number = self:number(w, k) }
    elseif kind == "value" and (type(k) == "number" or sizes.is_poly(k)) then
      outputs[#outputs + 1] = { path = path,
        number = sizes.is_poly(k) and "(double)" .. text(k) or primitives.double(k) }
    elseif kind == "table" and not visited[k] and not d.tables[k].maker then
      visited[k] = true
      for _, pair in ipairs(d.tables[k]) do
        local key = pair[1] and pair[1][1] == "value" and pair[1][2]
        if type(key) ~= "string" and type(key) ~= "number" then
          refuse("a table among the results has no plain keys")
        end
        add(pair[2], path .. "_" .. tostring(key))
      end
    elseif kind == "value" and k == nil then
      return
    else
      refuse(format("result %s is no tensor and no number", path))
    end
  end
  local results = p.results or d.results
  for i = 1, d.nresults do add(results[i], d.nresults == 1 and "y" or "y" .. i) end
  if #outputs == 0 then refuse "the function gives no tensor and no number" end
  for i, o in ipairs(outputs) do o.name = c_name(self.output_names[i] or o.path, self.taken) end
  self.outputs, self.bound = outputs, bound
end

-- Memory --------------------------------------------------------------------------------------------------------------

--- Where each slot of a plan lies: {typed = {text, dtype}}, or {offset} in bytes of `work`; and the bytes of that.
--- given(slot): the pointer to an input or an output that has its own memory, or nil. Temporaries share places where
--- one ends before the other begins.
local function placed(p, given)
  local slots, last, first, at, places = p.slots or {}, {}, {}, {}, {}
  for i, s in ipairs(p.steps or {}) do
    for _, k in ipairs(s.slots) do
      first[k] = first[k] or i
      last[k] = i
    end
  end
  local order, never = {}, #(p.steps or {}) + 1
  for k = 1, #slots do
    local own = given(slots[k])
    if own then at[k] = { typed = own }
    elseif first[k] then order[#order + 1] = k end
  end
  sort(order, function(a, b) return first[a] < first[b] or first[a] == first[b] and a < b end)
  local function fits(q, bytes)
    return q == bytes or type(bytes) == "number" and type(q) == "number" and q >= bytes and q <= 4 * bytes + 4096
  end
  for _, k in ipairs(order) do
    local s, found = slots[k], nil
    for _, q in ipairs(places) do
      if not found and q.to < first[k] and fits(q.bytes, s.bytes) then found = q end
    end
    if not found then
      found = { bytes = s.bytes }
      places[#places + 1] = found
    end
    found.to = s.kind == "output" and never or last[k]
    at[k] = found
  end
  local total = 0
  for _, q in ipairs(places) do
    q.offset = total
    total = total + aligned(q.bytes)
  end
  return at, total
end

--- Where steps stand: what their slots and scalars are, and the lines of the function that calls them.
local function frame_of(at, scalar_text, prefix)
  local lines = {}
  return { at = at, scalar_text = scalar_text, prefix = prefix, room = 0, lines = lines, add = function(fmt, ...)
    lines[#lines + 1] = "  " .. (select("#", ...) > 0 and format(fmt, ...) or fmt)
  end }
end

function Model:memory(p)
  self.output_slot = {}
  for k, s in ipairs(p.slots or {}) do
    if s.kind == "output" then self.output_slot[s.k + 1] = k end
  end
  local at, total = placed(p, function(s)
    if s.kind == "input" then return self.source[s.k] end
    local bound = s.kind == "output" and self.bound[s.k + 1]
    return bound and { text = bound.name, dtype = bound.dtype, writes = true } or nil
  end)
  self.arena = total
  return at
end

--- The pointer to a slot, as C text of the type of an element.
local function pointer(frame, k, dtype)
  local at = frame.at[k]
  local stored = primitives.stored[dtype]
  if not at then refuse "a step reads what no step has made" end
  if not at.typed then return format("(%s *)(void *)(work + %s)", stored, text(at.offset)) end
  if primitives.stored[at.typed.dtype] == stored then return at.typed.text end
  return format("(%s%s *)(%svoid *)%s", at.typed.writes and "" or "const ", stored, at.typed.writes and "" or "const ",
    at.typed.text)
end

-- Steps ---------------------------------------------------------------------------------------------------------------

--- Writers of steps by kind: lines of a function; the bytes of scratch that it takes. product_name: the pointer to a
--- product that an epilogue reads.
local writers = {}

function writers.kernel(s, kit, out, product_name)
  local p = primitives.parse(s.program)
  local first = s.kind == "product" and 3 or 0
  local lines, room = program.lines { program = p, launch = s.launch, scalar = kit.scalar, use = kit.use,
    refuse = kit.refuse, aligned = aligned, pointer = function(k)
      if product_name and k == s.gemm.product then return product_name end
      return kit.slot(s.slots[first + k + 1], p.operands[k].dtype)
    end }
  for _, line in ipairs(lines) do out[#out + 1] = line end
  return room
end

function writers.product(s, kit, out)
  local g = s.gemm
  if g.blas then kit.refuse "a product by OpenBLAS, whose bits depend on the machine" end
  if g.amx then kit.refuse "a product at reduced precision" end
  local a, b = kit.slot(s.slots[1], g.dtype), kit.slot(s.slots[2], g.dtype)
  local y
  local before = 0
  if s.program and g.aside then -- the epilogue's elements are of another width: the product lies in scratch
    before, y = aligned(g.batch * g.m * g.n * primitives.bytes[g.dtype]), "aside"
    kit.add("%s *aside = (%s *)(void *)room;", primitives.stored[g.dtype], primitives.stored[g.dtype])
  else
    y = kit.slot(s.slots[3], g.dtype)
  end
  kit.add "{"
  if before ~= 0 then kit.add("unsigned char *const free = room + %s;", text(before)) end
  local room = product.lines(kit.add, g, a, b, y, kit.use, aligned, before ~= 0 and "free" or "room")
  kit.add "}"
  local after = s.program and writers.kernel(s, kit, out, y) or 0
  if before ~= 0 and after ~= 0 then kit.refuse "an epilogue that needs scratch" end
  return sizes.larger(before + room, after)
end

--- A function of C for one step: its parameters are the slots, once each, and scalars.
---@param s table the step
function Model:step(s, number, frame)
  local name = frame.prefix .. number
  local params, args, by_slot, out = {}, {}, {}, {}
  local writes = {}
  for i, k in ipairs(s.slots) do writes[k] = writes[k] or s.writes[i] end
  local function add(fmt, ...) out[#out + 1] = "  " .. (select("#", ...) > 0 and format(fmt, ...) or fmt) end
  local function use(piece) self:needs(piece) end
  local typed = {}
  --- The name of the parameter for a slot whose elements are of a dtype.
  local function slot(k, dtype)
    local p = by_slot[k]
    if not p then
      p = { name = "p" .. #params, dtype = dtype }
      by_slot[k] = p
      params[#params + 1] = format("%s%s *restrict %s", writes[k] and "" or "const ", primitives.stored[dtype],
        p.name)
      args[#args + 1] = pointer(frame, k, dtype)
    elseif primitives.stored[p.dtype] ~= primitives.stored[dtype] then
      local other = p.name .. "_" .. dtype
      if not typed[other] then
        typed[other] = true
        p.aliased = true
        insert(out, 1, format("  typedef %s TY_ALIAS t_%s;", primitives.stored[dtype], other))
        insert(out, 2, format("  %st_%s *%s = (%st_%s *)(void *)%s;", writes[k] and "" or "const ", other, other,
          writes[k] and "" or "const ", other, p.name))
      end
      return other
    end
    return p.name
  end
  local scalars = {}
  local function scalar(k, kind)
    local of = frame.scalar_text[s.scalars[k + 1]]
    if of.bits then
      local literal, needs = primitives.literal(kind, of.bits)
      if needs then use(needs) end
      return literal
    end
    if not scalars[k] then
      scalars[k] = true
      params[#params + 1] = format("const %s s%d", of.type, k)
      args[#args + 1] = of.name
    end
    return "s" .. k
  end
  local function refuse_step(what) return refuse(format("%s (%s) cannot be exported", s.op, what)) end
  local kit = { add = add, use = use, slot = slot, scalar = scalar, refuse = refuse_step, aligned = aligned,
    model = self,
    name = name }
  local write = writers[s.kind] or routines[s.kind]
  if not write then refuse_step(s.kind) end
  local room = write(s, kit, out)
  frame.room = sizes.larger(frame.room, room)
  local call = format("%s(%s)", name, concat(args, ", ") .. (room ~= 0 and ", room" or "") .. self.size_arguments)
  if kit.fails then frame.add("if (%s) return %s;", call, frame.failed)
  else frame.add("%s;", call) end
  frame.fails = frame.fails or kit.fails
  if room ~= 0 then params[#params + 1] = "unsigned char *restrict room" end
  for i, size in ipairs(self.sizes or {}) do
    params[#params + 1] = "const int64_t dim_" .. size.name
    insert(out, i, format("  (void)dim_%s;", size.name))
  end
  local aliased = false
  for _, p in pairs(by_slot) do aliased = aliased or p.aliased end
  local list = concat(params, ", ")
  if aliased then list = gsub(list, "restrict ", "") end
  self.functions[#self.functions + 1] = format("/* %s%s */\nTY_STEP %s %s(%s) {\n%s\n}\n", s.op,
    s.kind == "kernel" and "" or ", " .. s.kind, kit.fails and "int" or "void", name, list == "" and "void" or list,
    concat(out, "\n"))
end

--- Copies a result that does not lie in its own buffer.
function Model:copy_out(o, frame)
  local m = o.made
  local from
  if product_of(m.shape) == 0 then return end
  if m.target then
    local bound = self.bound[m.target]
    if bound then from = bound.name
    else from = format("(%s)", pointer(frame, self.output_slot[self.plan_of[m.target]], o.dtype)) end
  else
    local input = self.input_of[m.slot]
    if not input then refuse(format("result %s is a tensor from outside, given back as it is", o.path)) end
    from = input.name
  end
  local at, depth, source = {}, "  ", m.offset ~= 0 and { text(m.offset) } or {}
  local strides = row_major(m.shape)
  for d, n in ipairs(m.shape) do
    if n ~= 1 then
      self:body("%sfor (int64_t i%d = 0; i%d < %s; i%d++)", depth, d, d, text(n), d)
      depth = depth .. "  "
      at[#at + 1] = format("i%d * %s", d, text(strides[d]))
      if m.strides[d] ~= 0 then source[#source + 1] = format("i%d * %s", d, text(m.strides[d])) end
    end
  end
  self:body("%s%s[%s] = %s[%s];", depth, o.name, #at > 0 and concat(at, " + ") or "0", from,
    #source > 0 and concat(source, " + ") or "0")
end

--- Indices among the inputs that are checked before anything runs.
function Model:check(k, number)
  local input = self.input_of[k.slot]
  if not input then return end -- what is frozen was checked when the function was captured
  local at, depth, close = { text(k.delta) }, "", 0
  self:body("/* indices of %s count from %d to %s */", input.path, k.base, text(k.size + (k.base - 1)))
  for d, n in ipairs(k.shape) do
    self:body("%sfor (int64_t c%d_%d = 0; c%d_%d < %s; c%d_%d++)", depth, number, d, number, d, text(n), number, d)
    depth, close = depth .. "  ", close + 1
    at[#at + 1] = format("c%d_%d * %s", number, d, text(k.strides[d]))
  end
  self:needs "index"
  self:body("%sif (ty_is_outside(%s[%s], %s, %d%s)) return %s_INDEX;", depth, input.name, concat(at, " + "),
    text(k.size), k.base, k.skip and format(", 1, %s", primitives.double(k.skip)) or ", 0, 0", self.upper)
end

-- Loops ---------------------------------------------------------------------------------------------------------------

--- The turns of a scan: carried values go from turn to turn, rows come and go.
function routines.loop(s, kit)
  local self, body, node = kit.model, s.body, s.node
  local t, stored, add = body.dtype, primitives.stored[body.dtype], kit.add
  local types, backwards = node.operands, node.k % 2 == 1
  local draws_backwards = node.k >= 2
  local names = {}
  for i = 1, #s.slots - 1 do
    if s.slots[i] ~= 0 then names[i] = kit.slot(s.slots[i], types[i].dtype) end
  end
  local y = kit.slot(s.slots[#s.slots], t)
  local turns, carried = types[2].shape[1], body.carried
  local scalars = {}
  for k = 0, #s.scalars - 1 do
    local name = kit.scalar(k, "i64")
    local by = k % 2 == 0 and format("(int64_t)((uint64_t)%s + (uint64_t)drawn * %s)", name, text(body.streams)) or name
    scalars[k] = { name = by, type = "int64_t" }
  end
  local at, arena = placed(body, function(slot)
    if slot.kind == "input" then
      local from = body.reads[slot.k + 1]
      local base = from.operand == 0 and "carried" or from.operand == 1 and "row" or names[from.operand + 1]
      return { text = from.at ~= 0 and format("(%s + %s)", base, text(from.at)) or base,
        dtype = types[from.operand + 1].dtype }
    elseif slot.kind == "output" then
      local to = body.gives[slot.k + 1]
      local base = to.row and "made" or "next"
      return { text = to.at ~= 0 and format("(%s + %s)", base, text(to.at)) or base, dtype = t, writes = true }
    end
  end)
  local spare = aligned(2 * carried * primitives.bytes[t])
  local frame = frame_of(at, scalars, kit.name .. "_")
  frame.failed = "1"
  for i, inner in ipairs(body.steps) do self:step(inner, i, frame) end
  add("%s *spare = (%s *)(void *)room;", stored, stored)
  add("unsigned char *work = room + %s;", text(spare))
  add("const %s *carried = %s;", stored, names[1])
  add("(void)work, (void)spare;")
  add("for (int64_t t = 0; t < %s; t++) {", text(turns))
  add("const int64_t r = %s;", backwards and format("%s - 1 - t", text(turns)) or "t")
  if #s.scalars > 0 then
    add("const int64_t drawn = %s;", draws_backwards and format("%s - 1 - r", text(turns)) or "r")
  end
  add("%s *next = t == %s - 1 ? %s : spare + t %% 2 * %s;", stored, text(turns), y, text(carried))
  add("const %s *row = %s + r * %s;", primitives.stored[types[2].dtype], names[2], text(body.row))
  add("%s *made = %s + %s + r * %s;", stored, y, text(carried), text(body.made))
  add "(void)row, (void)made, (void)next;"
  if frame.room ~= 0 then
    add "{"
    add "unsigned char *const outer = room;"
    add("unsigned char *room = outer + %s;", text(spare + arena))
  end
  for _, line in ipairs(frame.lines) do add("%s", line) end
  if frame.room ~= 0 then add "}" end
  add "carried = next;"
  add "}"
  add("if (%s == 0)", text(turns))
  add("  for (int64_t i = 0; i < %s; i++) %s[i] = %s[i];", text(carried), y, names[1])
  kit.fails = frame.fails
  if frame.fails then add "return 0;" end
  return spare + arena + frame.room
end

-- All of it -----------------------------------------------------------------------------------------------------------

local function model_of(name, args, names, opts)
  local upper = name:upper()
  return setmetatable({ dynamic = {}, name = name, upper = upper, args = args, names = names,
    used = { environment = true }, taken = {},
    functions = {}, run = {}, room = 0, weight_list = {}, weight_of = {}, weight_names = {},
    prefix = "step_", output_names = opts.outputs or {}, weights_beside =
    opts.weights == "beside", size_arguments = "" }, Model)
end

--- What a plan becomes.
function Model:build(of, p)
  local w, d, root = of.w, of.d, of.root
  self.root, self.streams = root, p.streams
  self:parameters(w, d, root)
  self:sources(w, p)
  self:results(w, d, p)
  -- an output of the plan may share the buffer of another one
  self.plan_of = {}
  for i, o in ipairs(p.outputs or {}) do self.plan_of[i] = o.same >= 0 and o.same + 1 or i end
  for i, k in pairs(self.plan_of) do
    local o = self.bound[i]
    if k ~= i and o then
      self.bound[i] = nil
      if self.bound[k] then o.direct, o.made = nil, { target = k, offset = 0, shape = o.shape,
        strides = row_major(o.shape), dtype = o.dtype }
      else self.bound[k] = o end
    end
  end
  for _, t in ipairs(p.targets) do
    if t.slot then refuse(format("the function writes %s in place", d.paths[t.slot] or "a tensor")) end
  end
  for _, size in ipairs(self.sizes or {}) do
    self:body("const int64_t dim_%s = %s;", size.name, size.name)
    if self.one then self:body("if (%s == 1) return run_single(SINGLE);", size.name) end
    self:body("if (%s < %d || %s > %d%s) return %s_SIZE;", size.name, size.least, size.name, size.most,
      size.multiple > 1 and format(" || %s %% %d", size.name, size.multiple) or "", self.upper)
  end
  local memory = self:memory(p)
  if self.sizes then
    self:body("unsigned char *room = work + %s;", text(self.arena))
    self:body "(void)room;"
  end
  for i, k in ipairs(p.checks) do self:check(k, i) end
  self:scalars(w, d, p)
  local frame = frame_of(memory, self.scalar_text, self.prefix)
  frame.failed, frame.lines, frame.add = self.upper .. "_INDEX", self.run, function(...) self:body(...) end
  for i, s in ipairs(p.steps or {}) do self:step(s, i, frame) end
  self.room = frame.room
  for _, o in ipairs(self.outputs) do
    if o.number then self:body("*%s = %s;", o.name, o.number)
    elseif not o.direct then self:copy_out(o, frame) end
  end
  for _, input in ipairs(self.inputs) do
    if not input.number then input.text = shape_text(input.shape) end
  end
  for _, o in ipairs(self.outputs) do
    if not o.number then o.text = shape_text(o.shape) end
  end
end

M.new, M.c_name, M.depends, M.refuse = model_of, c_name, depends, refuse

return M
