--- dump_edit.lua -- functions made of the dumps of others, edited.
-- In: a function's prototype; what is to be changed of its parts: code, parameters, upvalues. Out: a function of the
-- changed dump, or a function that makes such functions. Raises when memory is out.
--
-- Children, constants, lines and names are copied byte for byte. Templates of constructors are laid out as in the
-- function itself, since tables are walked as they lie.

local bytecode = require "tycho.capture.bytecode"
local constructors = require "tycho.capture.constructors"
local templates = require "tycho.capture.table_templates"

local byte, char, sub, rep, find = string.byte, string.char, string.sub, string.rep, string.find
local floor = math.floor
local error, ipairs, pairs, select = error, ipairs, pairs, select
local concat = table.concat
local compile = loadstring or load
local debug = type(debug) == "table" and debug or {}
local join, get_env, set_env = debug.upvaluejoin, debug.getfenv, debug.setfenv

if jit and jit.off then jit.off(true, true) end -- seldom run: its LuaJIT traces would push out the user's

local M = {}

local new_table = require("tycho").internals.capture.table
local CHILD, NOJIT = 1, 8 -- flags of a prototype: it makes functions; it is not compiled to traces

-- The parts of a prototype's dump -------------------------------------------------------------------------------------

local function read_uleb(s, at)
  local value, scale = 0, 1
  while true do
    local b = byte(s, at)
    at = at + 1
    if b < 128 then return value + b * scale, at end
    value, scale = value + (b - 128) * scale, scale * 128
  end
end

local function uleb(n)
  local out = {}
  while n >= 128 do
    out[#out + 1] = char(n % 128 + 128)
    n = floor(n / 128)
  end
  return concat(out) .. char(n)
end

--- Splits the dump of a prototype: what may be changed apart from what is copied.
local function split(proto)
  local s = sub(proto.header.dump, proto.first_byte, proto.last_byte)
  local p, n_lines = {}, 0
  local at = select(2, read_uleb(s, 1))
  p.flags, p.params, p.framesize, p.n_upvalues = byte(s, at, at + 3)
  at = at + 4
  p.n_objects, at = read_uleb(s, at)
  p.n_numbers, at = read_uleb(s, at)
  local n_code
  n_code, at = read_uleb(s, at)
  p.debug_size = 0
  if not proto.header.stripped then
    p.debug_size, at = read_uleb(s, at)
    if p.debug_size > 0 then
      p.first_line, at = read_uleb(s, at)
      n_lines, at = read_uleb(s, at)
    end
  end
  p.n_lines, p.width = n_lines, n_lines < 256 and 1 or n_lines < 65536 and 2 or 4
  p.code = {}
  for i = 1, n_code do
    p.code[i] = { byte(s, at, at + 3) }
    at = at + 4
  end
  p.upvalues, p.upvalues_at = sub(s, at, at + 2 * p.n_upvalues - 1), at
  at = at + 2 * p.n_upvalues
  p.constants = sub(s, at, #s - p.debug_size)
  at = #s - p.debug_size + 1
  p.lines = {}
  if p.debug_size > 0 then
    for i = 1, n_code do
      p.lines[i] = sub(s, at, at + p.width - 1)
      at = at + p.width
    end
    local first = at
    for _ = 1, p.n_upvalues do at = find(s, "\0", at, true) + 1 end
    p.names, p.variables = sub(s, first, at - 1), sub(s, at)
  end
  return p
end

--- The variables, of which the first begins `by` instructions later; the others follow it.
local function moved(variables, by)
  local at = byte(variables, 1)
  if at == 0 then return variables end
  at = at < 7 and 2 or find(variables, "\0", 1, true) + 1
  local first, behind = read_uleb(variables, at)
  return sub(variables, 1, at - 1) .. uleb(first + by) .. sub(variables, behind)
end

--- The bytes of a prototype that is made of the parts again, with so many upvalues behind its own, as `upvalues`
--- describes all of them.
local function prototype_of(proto, p, added, upvalues)
  local code = {}
  for i, ins in ipairs(p.code) do code[i] = char(ins[1], ins[2], ins[3], ins[4]) end
  local out = { char(p.flags, p.params, p.framesize, p.n_upvalues + added), uleb(p.n_objects), uleb(p.n_numbers),
    uleb(#code) }
  local tail = ""
  if p.debug_size > 0 then tail = concat(p.lines) .. p.names .. rep("(rest)\0", added) .. p.variables end
  if not proto.header.stripped then
    out[#out + 1] = uleb(#tail)
    if p.debug_size > 0 then out[#out + 1] = uleb(p.first_line) .. uleb(p.n_lines) end
  end
  out[#out + 1] = concat(code) .. upvalues .. p.constants .. tail
  local main = concat(out)
  return uleb(#main) .. main
end

--- The dump that is made of the parts again. edit: gives what the prototypes before it become, in the same bytes.
local function joined(proto, p, added, edit)
  local main = prototype_of(proto, p, added, p.upvalues .. rep("\0\128", added))
  local whole = bytecode.dump(proto) -- its last part is the prototype itself
  local before = sub(whole, 1, #whole - 1 - (proto.last_byte - proto.first_byte + 1))
  if edit then before = edit(before) end
  return before .. main .. "\0"
end

-- Instructions --------------------------------------------------------------------------------------------------------

local numbers -- of opcodes, by name

local function two(name, a, d) return { numbers[name], a, d % 256, floor(d / 256) } end

local function three(name, a, b, c) return { numbers[name], a, c, b } end

--- A jump from one position to another.
local function jump(from, to, in_use) return two("JMP", in_use, to - from - 1 + 32768) end

--- Puts instructions into the code, at the line of another one.
local function append(p, list, line)
  for _, ins in ipairs(list) do
    p.code[#p.code + 1] = ins
    if p.debug_size > 0 then p.lines[#p.code] = line end
  end
end

local function not_for_traces(p)
  if floor(p.flags / NOJIT) % 2 == 0 then p.flags = p.flags + NOJIT end
end

--- The dump of a function that makes functions of the parts, whose upvalues it shares, but for the last `own` ones:
--- these are new, and hold what it is given.
local function maker_dump(proto, p, added, own)
  local shared, list, code = p.n_upvalues + added - own, {}, {}
  for k = 1, shared do list[k] = char(k - 1, 0) end
  for k = 1, own do list[shared + k] = char(k - 1, 128) end
  for i, ins in ipairs { two("FNEW", own, 0), two("UCLO", 0, 32768), two("RET1", own, 2) } do
    code[i] = char(ins[1], ins[2], ins[3], ins[4])
  end
  local maker = char(CHILD + NOJIT, own, own + 2 + proto.fr2, shared) .. uleb(1) .. uleb(0) .. uleb(#code)
    .. (proto.header.stripped and "" or uleb(0)) .. concat(code) .. rep("\0\128", shared) .. uleb(0)
  local whole = bytecode.dump(proto)
  local before = sub(whole, 1, #whole - 1 - (proto.last_byte - proto.first_byte + 1))
  return before .. prototype_of(proto, p, added, concat(list)) .. uleb(#maker) .. maker .. "\0"
end

--- The dump of a prototype's parent, with other variables for what it makes, described in as many bytes.
function M.with_upvalues(parent, child, descriptions)
  local first = parent
  while first.children[1] do first = first.children[1] end
  local at = parent.header.stop + child.first_byte - first.first_byte + split(child).upvalues_at
  return function(before) return sub(before, 1, at - 1) .. descriptions .. sub(before, at + #descriptions) end
end

-- Functions -----------------------------------------------------------------------------------------------------------

--- Lays the templates of constructors out in a function that was loaded as they are in the one that was dumped: tables
--- are walked as they lie. Whether that could be done.
local function lay_out(proto, was, is)
  constructors.link(proto)
  for _, ins in ipairs(proto.code) do
    if ins.name == "TDUP" or ins.name == "FNEW" then
      local a, b = bytecode.constant(was, ins.d), bytecode.constant(is, ins.d)
      if not (a and b) then return false end
      if ins.name == "FNEW" and not lay_out(ins.k, a, b) then return false end
      if ins.name == "TDUP" and not templates.lay_out(new_table, ins.k, a, b) then return false end
    end
  end
  return true
end

--- The function of a dump, which is known to be one.
local function load_dump(source)
  local g, why = compile(source, "=continuation")
  return g or error(why, 0)
end

--- Lets a function that goes on in the middle of f share f's variables, and its globals.
function M.share(f, proto, g)
  for i = 1, #proto.upvalues do join(g, i, f, i) end
  set_env(g, get_env(f))
end

--- Loads a dump; it shares f's variables, and its globals.
local function load_like(f, proto, source)
  local g = load_dump(source)
  M.share(f, proto, g)
  return g
end

--- The function that is made of the parts, laid out as f. made_anew: what makes it instead, see lua_instance.c; then
--- its last `own` upvalues are its own.
local function build(f, proto, p, added, made_anew, own)
  if not made_anew then
    local g = load_like(f, proto, joined(proto, p, added))
    lay_out(proto, f, g)
    return g
  end
  local make = load_dump(maker_dump(proto, p, added, own or 0))
  lay_out(proto, f, make())
  return make
end

M.read_uleb, M.uleb, M.split, M.moved, M.joined, M.append = read_uleb, uleb, split, moved, joined, append
M.not_for_traces = not_for_traces
M.two, M.three, M.jump, M.load, M.lay_out, M.build = two, three, jump, load_dump, lay_out, build

--- Finds out what the opcodes are.
function M.ready()
  if numbers then return end
  numbers = {}
  for op, name in pairs(bytecode.opcodes()) do numbers[name] = op end
  M.numbers = numbers
end

return M
