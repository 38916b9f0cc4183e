--- bytecode.lua -- what a Lua function consists of: its dump, decoded.
-- In: a Lua function. Out: its prototype, a table (tycho.Prototype) with decoded instructions, constants, upvalue
-- descriptors, children, and lines and names where the dump has them. Raises nothing: what cannot be decoded gives
-- nil and a reason.
--
-- Rules.
-- 1. Only string.dump is asked: it shows a function as it was compiled, also when LuaJIT has patched it for a trace.
-- 2. The numbers of opcodes differ between builds of LuaJIT that write the same dump version. So they are learnt:
--    small texts are compiled whose instructions are known by name, and the dump tells their numbers. Nothing is
--    taken over unless all probes agree, the numbers ascend in the order in which every LuaJIT lists the names, and
--    a listing of a function that uses every kind of operand comes out as it is known to be.
-- 3. An opcode that no probe brings forth is not made from Lua text: it occurs in library functions that LuaJIT
--    wrote in bytecode (table.remove and the like). Such a function counts as native.
-- 4. Registers and positions are counted from 1. Constants stand in the instructions themselves.
-- 5. A prototype is shared by all closures of it; it holds no function, so the caches can be weak.
-- 6. A flag in a dump's header may change how the rest is to be read. Known are those named below, and those that
--    probes carry which decode as they should: builds set flags for new instructions, and by accident too (where the
--    flag of a prototype lies among the bits that count its closures).
--
-- The dump:  ESC 'L' 'J' version, flags (1 big-endian, 2 stripped, 4 with cdata constants, 8 frames of two slots),
--            [chunk name], prototypes (children before their parent), 0
-- prototype: length, flags, params, framesize, #upvalues, #objects, #numbers, #code, [size of debug info, [first line,
--            #lines]], code (4 bytes each), upvalues (2 bytes each), objects, numbers, debug info
-- Numbers in it are ULEB128: 7 bits a byte, low ones first, the top bit says that more follow.

local type, tostring, error, pairs, ipairs = type, tostring, error, pairs, ipairs
local format, match, gmatch = string.format, string.match, string.gmatch
local concat, insert, remove = table.concat, table.insert, table.remove
local M = {}

local byte, sub, find = string.byte, string.sub, string.find
local floor = math.floor
local internals = require("tycho").internals
local integer = require("tycho.capture.operators").integer
local undisturbed = internals.undisturbed -- what a hook raises is no reason to refuse a function for good
local is_native = internals.capture.is_native

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

---@class tycho.Instruction
---@field name string the opcode's name
---@field a integer register or upvalue
---@field b? integer
---@field c? integer of instructions with three operands
---@field d? integer of instructions with two operands
---@field k any the constant operand
---@field target? integer where a jump leads

---@class tycho.Upvalue
---@field is_local boolean a local of the enclosing function, else one of its upvalues
---@field immutable boolean never assigned after its initialisation
---@field index integer register or upvalue of the enclosing function
---@field name? string

---@class tycho.Variable
---@field name string
---@field first integer position of the first instruction for which it is there
---@field last integer

---@class tycho.Prototype
---@field params integer
---@field vararg boolean
---@field framesize integer
---@field upvalues tycho.Upvalue[]
---@field code tycho.Instruction[]
---@field children tycho.Prototype[]
---@field globals boolean it, or a function inside it, names a global
---@field source? string chunk name as Lua keeps it ("@file.lua")
---@field short string the chunk's name as messages show it
---@field first_line? integer
---@field n_lines integer how many it has, besides the first
---@field lines? integer[] line of each instruction
---@field variables? tycho.Variable[] its local variables, in the order in which they begin
---@field refused? string why it cannot be evaluated
---@field library? boolean refused because LuaJIT's library wrote it
---@field header table what is common to a dump, and the dump
---@field first_byte integer where it lies in the dump
---@field last_byte integer
---@field fr2 integer 1 where calls leave a slot between function and arguments, else 0

-- Opcodes in the order of every LuaJIT, with their operands: two (A D) or three (A B C).
-- r register, u upvalue, x plain number, j jump, . unused; constants: s string, n number, i small integer,
-- p nil, false or true, t table, f function, c cdata. Behind it a ? where some builds of LuaJIT lack the opcode.
local rows = {
  "ISLT rr", "ISGE rr", "ISLE rr", "ISGT rr", "ISEQV rr", "ISNEV rr", "ISEQS rs", "ISNES rs", "ISEQN rn", "ISNEN rn",
  "ISEQP rp", "ISNEP rp", "ISTC rr", "ISFC rr", "IST .r", "ISF .r", "MOV rr", "NOT rr", "UNM rr", "LEN rr",
  "ADDVN rrn", "SUBVN rrn", "MULVN rrn", "DIVVN rrn", "MODVN rrn", "ADDNV rrn", "SUBNV rrn", "MULNV rrn", "DIVNV rrn",
  "MODNV rrn", "ADDVV rrr", "SUBVV rrr", "MULVV rrr", "DIVVV rrr", "MODVV rrr", "POW rrr", "CAT rrr", "KSTR rs",
  "KCDATA rc ?",
  "KSHORT ri", "KNUM rn", "KPRI rp", "KNIL rr", "UGET ru", "USETV ur", "USETS us", "USETN un", "USETP up",
  "UCLO rj", "FNEW rf", "TNEW rx", "TDUP rt", "GGET rs", "GSET rs", "TGETV rrr", "TGETS rrs", "TGETB rrx", "TSETV rrr",
  "TSETS rrs", "TSETB rrx", "TSETM rn", "CALLM rxx", "CALL rxx", "CALLMT rx", "CALLT rx", "ITERC rxx", "ITERN rxx",
  "VARG rxx", "ISNEXT rj", "RETM rx", "RET rx", "RET0 rx", "RET1 rx", "FORI rj", "FORL rj", "ITERL rj", "LOOP rj",
  "JMP rj", "BNOT rr ?", "BAND rrr ?", "BOR rrr ?", "BXOR rrr ?", "BSHL rrr ?", "BSHR rrr ?", "BSAR rrr ?",
}

-- Texts and what they compile to. `local a, b, c = ...` comes first and RET0 last, in each of them. Last a ? where some
-- builds of LuaJIT refuse the text.
local probes = {
  { "if a < b then end if not (a < b) then end if a <= b then end if not (a <= b) then end",
    "ISGE JMP ISLT JMP ISGT JMP ISLE JMP" },
  { "if a == b then end if a ~= b then end if a == 's' then end if a ~= 's' then end",
    "ISNEV JMP ISEQV JMP ISNES JMP ISEQS JMP" },
  { "if a == 7 then end if a ~= 7 then end if a == nil then end if a ~= nil then end",
    "ISNEN JMP ISEQN JMP ISNEP JMP ISEQP JMP" },
  { "if a then end if not a then end c = a or b c = a and b",
    "ISF JMP IST JMP ISTC JMP MOV ISFC JMP MOV" },
  { "c = not a c = -a c = #a c = a c = a .. b", "NOT UNM LEN MOV MOV MOV CAT" },
  { "c = a + 1 c = a - 1 c = a * 1 c = a / 1 c = a % 1", "ADDVN SUBVN MULVN DIVVN MODVN" },
  { "c = 1 + a c = 1 - a c = 1 * a c = 1 / a c = 1 % a", "ADDNV SUBNV MULNV DIVNV MODNV" },
  { "c = a + b c = a - b c = a * b c = a / b c = a % b c = a ^ b", "ADDVV SUBVV MULVV DIVVV MODVV POW" },
  { "c = 's' c = 7 c = nil c = 1.5 local d, e", "KSTR KSHORT KPRI KNUM KNIL" },
  { "c = {} c = {1} c = g g = c", "TNEW TDUP GGET GSET" },
  { "c = a[b] c = a.s c = a[1] a[b] = c a.s = c a[1] = c", "TGETV TGETS TGETB TSETV TSETS TSETB" },
  { "a = {b()} a = b(c(...)) b()", "TNEW MOV CALL TSETM MOV MOV MOV VARG CALLM CALLM MOV MOV CALL" },
  { "for i = 1, a do end", "KSHORT MOV KSHORT FORI FORL" },
  { "for k in pairs(a) do end", "GGET MOV CALL ISNEXT ITERN ITERL" },
  { "for k in a, b, c do end", "MOV MOV MOV JMP ITERC ITERL" },
  { "while a do end", "ISF JMP LOOP JMP" },
  { "do local z = a c = function() return z end end", "MOV FNEW UCLO" },
  { "if a then return b(...) end", "ISF JMP MOV VARG CALLMT" },
  { "if a then return b() end", "ISF JMP MOV CALLT" },
  { "if a then return b, ... end", "ISF JMP MOV VARG RETM" },
  { "if a then return b, c end", "ISF JMP MOV MOV RET" },
  { "if a then return b end", "ISF JMP RET1" },
  { "c = ~a c = a & b c = a | b c = a ~ b c = a << b c = a >> b c = a ~>> b",
    "BNOT BAND BOR BXOR BSHL BSHR BSAR", "?" },
}
local inner_probe = { -- the child of a chunk
  "local a, b return function() b = a a = b a = 's' a = 7 a = nil end",
  "UGET USETV UGET USETV USETS USETN USETP RET0",
}

local counted_probe = { "return function(...) return ... end", "VARG RETM" } -- the child: many closures are made of it

local forms, optional = {}, {}
for _, row in ipairs(rows) do
  local name, form, may_lack = match(row, "^(%S+) (%S+) ?(%??)$")
  forms[name], optional[name] = form, may_lack == "?"
end

--- LuaJIT's own functions, kept before anyone can replace them.
local dump = string.dump
local compile = loadstring or load

-- Reading ----------------------------------------------------------------------------------------------------------

local text, at -- what is being read, and how far it has been
local opcode_names -- by number, once learnt

local function read_byte()
  at = at + 1
  return byte(text, at - 1)
end

local function read_bytes(n)
  at = at + n
  return sub(text, at - n, at - 1)
end

local function read_uleb()
  local value, scale = 0, 1
  while true do
    local b = read_byte()
    if b < 128 then return value + b * scale end
    value, scale = value + (b - 128) * scale, scale * 128
  end
end

local function read_name() -- up to a zero
  local stop = find(text, "\0", at, true)
  local name = sub(text, at, stop - 1)
  at = stop + 1
  return name
end

--- An integer on hosts that tell them from doubles, as the constant is one.
local function signed(u) return integer(u >= 2147483648 and u - 4294967296 or u) end

--- A double from its halves. No power below 2^-1022 is raised: some builds of LuaJIT give 0 for it.
local function double_of(low, high)
  local sign = high >= 2147483648 and -1 or 1
  local exponent = floor(high / 1048576) % 2048
  local fraction = ((high % 1048576) * 4294967296 + low) / 4503599627370496
  if exponent == 2047 then return fraction == 0 and sign / 0 or 0 / 0 end
  if exponent == 0 then return sign * fraction * 2 ^ -1022 end
  return sign * (1 + fraction) * 2 ^ (exponent - 1023)
end

--- A number constant. Its first byte has a flag in the lowest bit: a double in two parts, else an integer.
local function read_number()
  local first = read_byte()
  local is_double = first % 2 == 1
  local low = floor(first / 2)
  if low >= 64 then low = low - 64 + read_uleb() * 64 end
  if not is_double then return signed(low) end
  return double_of(low, read_uleb())
end

local function read_table_entry() -- an element of a template
  local kind = read_uleb()
  if kind >= 5 then return read_bytes(kind - 5) end
  if kind == 4 then
    local low = read_uleb()
    return double_of(low, read_uleb())
  end
  if kind == 3 then return signed(read_uleb()) end
  if kind == 0 then return nil end
  return kind == 2
end

--- A template as lists: what position i of `array` holds is element i - 1 of the table.
local function read_template()
  local n_array, n_hash = read_uleb(), read_uleb()
  local template = { n_array = n_array, n_hash = n_hash, array = {}, keys = {}, values = {} }
  for i = 1, n_array do template.array[i] = read_table_entry() end
  for i = 1, n_hash do
    template.keys[i] = read_table_entry()
    template.values[i] = read_table_entry()
  end
  return template
end

local cdata_types = { [2] = "int64_t", [3] = "uint64_t", [4] = "complex" }

local function read_object(proto, children)
  local kind = read_uleb()
  if kind >= 5 then return read_bytes(kind - 5) end
  if kind == 1 then return read_template() end
  if kind == 0 then
    local child = remove(children)
    insert(proto.children, 1, child)
    return child
  end
  local words = { type = cdata_types[kind] }
  for i = 1, kind == 4 and 4 or 2 do words[i] = read_uleb() end
  return words
end

--- The name of a chunk as messages show it.
local function short_source(source)
  local kind = sub(source, 1, 1)
  if kind == "=" then return sub(source, 2, 60) end
  if kind == "@" then
    if #source - 1 < 60 then return sub(source, 2) end
    return "..." .. sub(source, -56)
  end
  local line = match(source, "^[^%z\1-\31]*")
  if #line > 48 or #line < #source then return '[string "' .. sub(line, 1, 45) .. '..."]' end
  return '[string "' .. line .. '"]'
end

local function read_lines(proto, n, n_lines)
  local lines, width = {}, n_lines < 256 and 1 or n_lines < 65536 and 2 or 4
  for i = 1, n do
    local offset, scale = 0, 1
    for _ = 1, width do offset, scale = offset + read_byte() * scale, scale * 256 end
    lines[i] = proto.first_line + offset
  end
  proto.lines = lines
end

--- Variables that the compiler makes, by what stands in place of their names.
local made_variables = { "(for index)", "(for limit)", "(for step)", "(for generator)", "(for state)", "(for control)" }

local function read_names(proto)
  for _, upvalue in ipairs(proto.upvalues) do upvalue.name = read_name() end
  local variables, n, first = {}, 0, 0
  local kind = byte(text, at)
  while kind > 0 do
    local name = made_variables[kind]
    if name then at = at + 1 else name = read_name() end
    first = first + read_uleb()
    n = n + 1
    variables[n] = { name = name, first = first, last = first + read_uleb() - 1 }
    kind = byte(text, at)
  end
  proto.variables = variables
end

local function read_upvalues(n)
  local list = {}
  for i = 1, n do
    local low, high = read_byte(), read_byte()
    local is_local = high >= 128
    list[i] = { is_local = is_local, immutable = floor(high / 64) % 2 == 1, index = low + 1 }
  end
  return list
end

--- A prototype with its code still as bytes. What it needs of the children that stand before it is taken from them.
local function read_prototype(header, children)
  local flags = read_byte()
  local proto = {
    children = {}, fr2 = header.fr2, source = header.source, short = header.short,
    vararg = floor(flags / 2) % 2 == 1,
    params = read_byte(), framesize = read_byte(),
  }
  local n_upvalues, n_objects, n_numbers, n_code = read_byte(), read_uleb(), read_uleb(), read_uleb()
  local debug_size, n_lines = 0, 0
  if not header.stripped then
    debug_size = read_uleb()
    if debug_size > 0 then proto.first_line, n_lines = read_uleb(), read_uleb() end
  end
  proto.n_lines = n_lines
  proto.bytes = read_bytes(4 * n_code)
  proto.upvalues = read_upvalues(n_upvalues)
  local objects, numbers = { n = n_objects }, {}
  for i = 1, n_objects do objects[i] = read_object(proto, children) end
  for i = 1, n_numbers do numbers[i] = read_number() end
  proto.objects, proto.numbers = objects, numbers
  local stop = at + debug_size
  if debug_size > 0 then
    read_lines(proto, n_code, n_lines)
    read_names(proto)
  end
  at = stop
  return proto
end

local harmless = {} -- flags, by value, that probes have carried

--- Refuses flags that may change how the rest is to be read; while probes are decoded, they are to show that.
local function check_flags(flags)
  if flags % 2 == 1 then error("bytecode of a big-endian machine", 0) end
  local flag = 16
  while flag <= flags and opcode_names do
    if floor(flags / flag) % 2 == 1 and not harmless[flag] then error("bytecode with unknown flags", 0) end
    flag = flag * 2
  end
end

local function note_harmless(flags)
  for i = 4, 31 do
    if floor(flags / 2 ^ i) % 2 == 1 then harmless[2 ^ i] = true end
  end
end

--- The main prototype of a dump, and the dump's flags.
local function read_dump(source)
  text, at = source, 5
  if sub(source, 1, 3) ~= "\27LJ" then error("no LuaJIT bytecode", 0) end
  local version = byte(source, 4)
  if version ~= 1 and version ~= 2 then error("bytecode of version " .. version, 0) end
  local flags = read_uleb()
  check_flags(flags)
  local header = { dump = source, stripped = floor(flags / 2) % 2 == 1, fr2 = floor(flags / 8) % 2 }
  if not header.stripped then header.source = read_bytes(read_uleb()) end
  header.stop = at - 1
  header.short = short_source(header.source or "=?")
  local children = {}
  local first = at
  while read_uleb() > 0 do
    local proto = read_prototype(header, children) -- takes its own children off the list
    proto.header, proto.first_byte, proto.last_byte = header, first, at - 1
    children[#children + 1] = proto
    first = at
  end
  if #children ~= 1 then error("bytecode of several functions", 0) end
  text = nil
  return children[1], flags
end

-- Decoding ---------------------------------------------------------------------------------------------------------

--- The dump of a function of this prototype, which may have been found inside of another one's.
---@param proto tycho.Prototype
---@return string
function M.dump(proto)
  local first = proto
  while first.children[1] do first = first.children[1] end
  local source = proto.header.dump
  return sub(source, 1, proto.header.stop) .. sub(source, first.first_byte, proto.last_byte) .. "\0"
end

local primitives = { [0] = nil, [1] = false, [2] = true }

--- The constant that an operand of the given kind means.
local function constant(proto, kind, operand)
  if kind == "n" then return proto.numbers[operand + 1] end
  if kind == "i" then return operand >= 32768 and operand - 65536 or operand end
  if kind == "p" then return primitives[operand] end
  return proto.objects[proto.objects.n - operand] -- counted from the end
end

local function decode_operand(proto, ins, field, kind, operand, position)
  if kind == "r" or kind == "u" then
    ins[field] = operand + 1
  elseif kind == "x" then
    ins[field] = operand
  elseif kind == "j" then
    ins.target = position + 1 + operand - 32768
  elseif kind ~= "." then
    ins[field] = operand
    ins.k = constant(proto, kind, operand)
  end
end

local function decode(proto)
  local code, bytes = {}, proto.bytes
  for position = 1, proto.refused and 0 or #bytes / 4 do
    local op, a, c, b = byte(bytes, 4 * position - 3, 4 * position)
    local name = opcode_names[op]
    if not name then
      proto.refused, proto.library = "it has an opcode that Lua text never compiles to", true
      break
    end
    local form, ins = forms[name], { name = name }
    code[position] = ins
    decode_operand(proto, ins, "a", sub(form, 1, 1), a, position)
    if #form == 3 then
      decode_operand(proto, ins, "b", sub(form, 2, 2), b, position)
      decode_operand(proto, ins, "c", sub(form, 3, 3), c, position)
    else
      decode_operand(proto, ins, "d", sub(form, 2, 2), c + 256 * b, position)
    end
    if name == "GGET" or name == "GSET" then proto.globals = true end
  end
  proto.code, proto.bytes, proto.objects, proto.numbers = code, nil, nil, nil
  proto.globals = proto.globals or false
  for _, child in ipairs(proto.children) do
    decode(child)
    proto.globals = proto.globals or child.globals
  end
  return proto
end

local function describe(v)
  if type(v) == "table" then
    return v.code and "function" or v.type or format("table %d+%d", v.n_array, v.n_hash)
  end
  return type(v) == "string" and format("%q", v) or tostring(v)
end

--- A prototype's instructions as text, one a line: position, name, operands, constant, jump.
---@param proto tycho.Prototype
---@return string
function M.listing(proto)
  local out = {}
  for i, ins in ipairs(proto.code) do
    local form = forms[ins.name]
    local line = { format("%04d %s", i, ins.name), ins.a or ".", ins.b or false, ins.c or false, ins.d or false }
    for field = #line, 1, -1 do
      if line[field] == false then remove(line, field) end
    end
    if find(form, "[sniptc]") then line[#line + 1] = "= " .. describe(ins.k) end
    if ins.target then line[#line + 1] = format("-> %04d", ins.target) end
    out[i] = concat(line, " ")
  end
  return concat(out, "\n")
end

-- Learning the opcodes ---------------------------------------------------------------------------------------------

--- Takes over what a probe tells, whose prototype is that of its dump, or the only child of it.
local function learn(numbers, proto, flags, expected)
  local position = 0
  for name in gmatch(expected, "%S+") do
    position = position + 1
    local op = byte(proto.bytes, 4 * position - 3)
    if not op then error("a probe is shorter than known: " .. expected, 0) end
    if numbers[name] and numbers[name] ~= op then error("two numbers for opcode " .. name, 0) end
    numbers[name] = op
  end
  if 4 * position ~= #proto.bytes then error("a probe is longer than known: " .. expected, 0) end
  note_harmless(flags)
end

local function learn_opcodes()
  local numbers, names, last = {}, {}, -1
  for _, probe in ipairs(probes) do
    local chunk = compile("local a, b, c = ... " .. probe[1])
    if chunk then
      local proto, flags = read_dump(dump(chunk))
      learn(numbers, proto, flags, "VARG " .. probe[2] .. " RET0")
    elseif not probe[3] then
      error("a probe does not compile: " .. probe[1], 0)
    end
  end
  local proto, flags = read_dump(dump(compile(inner_probe[1])))
  learn(numbers, proto.children[1], flags, inner_probe[2])
  local make = compile(counted_probe[1])
  for _ = 1, 5 do
    proto, flags = read_dump(dump(make()))
    learn(numbers, proto, flags, counted_probe[2])
  end
  if numbers.KSHORT == numbers.KSTR + 2 then numbers.KCDATA = numbers.KSTR + 1 end -- a probe would load ffi
  for _, row in ipairs(rows) do
    local name = match(row, "^%S+")
    local op = numbers[name]
    if op then
      if op <= last then error("opcode " .. name .. " is out of order", 0) end
      names[op], last = name, op
    elseif not optional[name] then
      error("no probe has brought forth opcode " .. name, 0)
    end
  end
  return names
end

local self_test = [[
local a, b = ...
for i = 10, a, -2.5 do
  if not (a.x <= b) then a[7], a[i] = nil, "s\0" end
end
local t = { 1, nil, 3, x = -7, [true] = 2 ^ 40 }
return t, function(p, q) a = p - 0.1; return q(t, p) end]]

local self_listing = [[
0001 VARG 1 3 0
0002 KSHORT 3 10 = 10
0003 MOV 4 1
0004 KNUM 5 0 = -2.5
0005 FORI 3 -> 0014
0006 TGETS 7 1 0 = "x"
0007 ISLE 7 2
0008 JMP 7 -> 0013
0009 KPRI 7 0 = nil
0010 KSTR 8 1 = "s\0"
0011 TSETV 8 1 6
0012 TSETB 7 1 7
0013 FORL 3 -> 0006
0014 TDUP 3 2 = table 4+2
0015 MOV 4 3
0016 FNEW 5 3
0017 UCLO 1 -> 0018
0018 RET 4 3]]

local self_listing_inner = {
  [0] = "0001 SUBVN 3 1 0 = 0.1\n0002 USETV 1 3\n0003 MOV 3 2\n0004 UGET 4 2\n0005 MOV 5 1\n0006 CALLT 3 3",
  [1] = "0001 SUBVN 3 1 0 = 0.1\n0002 USETV 1 3\n0003 MOV 3 2\n0004 UGET 5 2\n0005 MOV 6 1\n0006 CALLT 3 3",
}

local function check_decoding()
  local proto = decode(read_dump(dump(compile(self_test, "=self-test"))))
  local inner = proto.children[1]
  if M.listing(proto) ~= self_listing then error("the self-test decodes otherwise:\n" .. M.listing(proto), 0) end
  if M.listing(inner) ~= self_listing_inner[proto.fr2] then
    error("the self-test's inner function decodes otherwise:\n" .. M.listing(inner), 0)
  end
  local first, second = inner.upvalues[1], inner.upvalues[2]
  local template = proto.code[14].k
  local fits = first.is_local and first.index == 1 and not first.immutable and second.is_local and second.index == 3
    and second.immutable and proto.vararg and not inner.vararg and inner.params == 2 and inner.framesize >= 5
    and proto.code[16].k == inner and template.array[2] == 1 and template.array[4] == 3 and template.array[3] == nil
    and #template.keys == 2
  for i = 1, 2 do
    local key, value = template.keys[i], template.values[i]
    fits = fits and (key == "x" and value == -7 or key == true and value == 2 ^ 40)
  end
  if not fits then error("the self-test's constants decode otherwise", 0) end
end

local readiness -- true, or why not

--- Whether this LuaJIT's bytecode is understood. The first call finds out.
---@return boolean|nil ready
---@return string? reason
function M.ready()
  if readiness == nil then
    if not dump or not compile then
      readiness = "LuaJIT has no string.dump or no loadstring"
    else
      local ok, result = undisturbed(learn_opcodes)
      if ok then
        opcode_names = result
        ok, result = undisturbed(check_decoding)
      end
      readiness = ok or tostring(result)
    end
  end
  if readiness == true then return true end
  return nil, readiness
end

--- The names of the opcodes that Lua text compiles to, by number.
---@return table<integer, string>
function M.opcodes()
  local copy = {}
  for op, name in pairs(M.ready() and opcode_names or {}) do copy[op] = name end
  return copy
end

-- Prototypes -------------------------------------------------------------------------------------------------------

local by_function = setmetatable({}, { __mode = "k" })
local by_dump = setmetatable({}, { __mode = "v" }) -- closures of one prototype share it

local function of_dump(source)
  local proto = by_dump[source]
  if proto then return proto end
  local ok, result = undisturbed(function() return decode(read_dump(source)) end)
  proto = ok and result or { refused = tostring(result) }
  by_dump[source] = proto
  return proto
end

--- The prototype of a function; or nil, why not, and whether the function is native: written in C, or in bytecode by
--- LuaJIT's library.
---@param fn function
---@return tycho.Prototype|nil
---@return string? reason
---@return boolean? native
function M.prototype(fn)
  local proto = by_function[fn]
  if not proto then
    local ready, reason = M.ready()
    if not ready then return nil, reason end
    if is_native(fn) then
      proto = { refused = "it is written in C", library = true }
    else
      local ok, source = undisturbed(dump, fn)
      if not ok then error("not enough memory", 0) end -- all other functions have a dump
      proto = of_dump(source)
    end
    by_function[fn] = proto
  end
  if proto.refused then return nil, proto.refused, proto.library or false end
  return proto
end

-- Constants and operators as LuaJIT has them -----------------------------------------------------------------------

--- A 64-bit integer or complex number from what an instruction has as its constant. Raises on builds without ffi.
---@param words table
---@return any cdata
function M.cdata(words)
  if words.value == nil then
    local ffi = require "ffi"
    words.value = ffi.cast(words.type .. "*", ffi.new("uint32_t[?]", #words, words))[0]
  end
  return words.value
end

--- Functions that apply LuaJIT's bit operators, by the instruction's name; empty where it has none.
M.bit_operators = {}
if compile and compile("return ~1") then
  M.bit_operators.BNOT = compile("return function(a) return ~a end")()
  for name, operator in pairs { BAND = "&", BOR = "|", BXOR = "~", BSHL = "<<", BSHR = ">>", BSAR = "~>>" } do
    M.bit_operators[name] = compile(format("return function(a, b) return a %s b end", operator))()
  end
end

local found, util = pcall(require, "jit.util")
local constant_of = found and type(util) == "table" and util.funck

--- The very object that an operand means, such as the template that a TDUP copies: in a dump its layout is lost.
--- Nil on builds without jit.util.
---@param owner function|userdata|nil a function; what this function gives for a prototype inside it
---@param operand integer
---@return any
function M.constant(owner, operand)
  if owner == nil or not constant_of then return nil end
  local ok, v = undisturbed(constant_of, owner, -operand - 1)
  return ok and v or nil
end

M.short_source = short_source

return M
