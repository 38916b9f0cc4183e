--- export/text.lua -- the files of an exported model: C text, header, weights.
-- In: a model (export.lua). Out: model.c, model.h and, with weights beside, model.bin; what was written. Files that
-- cannot be written give nil and a message, and none of them is left.

local prelude = require "tycho.export.prelude"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, gsub, byte, rep, char = string.format, string.gsub, string.byte, string.rep, string.char
local concat, ipairs, floor, min = table.concat, ipairs, math.floor, math.min
local remove = os.remove
local text = sizes.text

local M = {}

local MAGIC = "TYCHOW01"
local LINE = 64 -- bytes: weights begin at multiples of it

-- Weights -------------------------------------------------------------------------------------------------------------

--- Elements of `size` bytes as words of C, so many a line.
local function words_of(data, size)
  local out, line = {}, {}
  local form = size == 8 and "0x%02x%02x%02x%02x%02x%02x%02x%02xu" or size == 4 and "0x%02x%02x%02x%02xu"
    or size == 2 and "0x%02x%02x" or "%d"
  local per = size == 8 and 5 or size == 4 and 8 or 16
  for at = 1, #data, size do
    local a, b, c, d, e, f, g, h = byte(data, at, at + size - 1)
    local word
    if size == 8 then word = format(form, h, g, f, e, d, c, b, a)
    elseif size == 4 then word = format(form, d, c, b, a)
    elseif size == 2 then word = format(form, b, a)
    else word = format(form, a) end
    line[#line + 1] = word
    if #line == per then
      out[#out + 1] = "  " .. concat(line, ", ")
      line = {}
    end
  end
  if #line > 0 then out[#out + 1] = "  " .. concat(line, ", ") end
  return concat(out, ",\n")
end

local word_type = { "uint8_t", "uint16_t", nil, "uint32_t", nil, nil, nil, "uint64_t" }

--- A weight as an array in the file: by its bits, which need no reading of decimals.
local function array_of(w)
  local size = primitives.bytes[w.dtype]
  local n = #w.data / size
  if n == 0 then return format("static const %s %s[1] = {0};\n", primitives.stored[w.dtype], w.name) end
  return format("/* %s: %s, %d elements */\n_Alignas(64) static const union {\n  %s bits[%d];\n  %s at[%d];\n"
    .. "} %s_ = {{\n%s}};\n#define %s %s_.at\n", w.path, w.dtype, n, word_type[size], n,
    primitives.stored[w.dtype], n, w.name,
    words_of(w.data, size), w.name, w.name)
end

--- FNV-1a of 32 bits, with products that a double holds.
local function checksum(list)
  local h = 2166136261
  for _, data in ipairs(list) do
    for at = 1, #data do
      local low = h % 256
      local b = byte(data, at)
      local x = bit.bxor(low, b)
      h = h - low + x
      h = (h % 65536 * 16777619 + floor(h / 65536) * 16777619 % 65536 * 65536) % 4294967296
    end
  end
  return h
end

local function little(v, n)
  local out = {}
  for i = 1, n do
    out[i] = char(v % 256)
    v = floor(v / 256)
  end
  return concat(out)
end

--- The file of weights: a line of its own that says what it is, then each at a multiple of 64 bytes.
local function weights_file(list)
  local out, at = {}, LINE
  for _, w in ipairs(list) do
    w.offset = at
    local pad = -#w.data % LINE
    out[#out + 1] = w.data .. rep("\0", pad)
    at = at + #w.data + pad
  end
  local sum = checksum(out)
  local head = MAGIC .. little(at, 8) .. little(sum, 4)
  return head .. rep("\0", LINE - #head) .. concat(out), at, sum
end

-- C text --------------------------------------------------------------------------------------------------------------

local function parameter_list(m, declared)
  local out = {}
  if m.weights_beside then out[1] = declared and "const void *weights" or "weights" end
  for _, i in ipairs(m.inputs) do
    if i.number then out[#out + 1] = declared and "double " .. i.name or i.name
    else out[#out + 1] = declared and format("const %s *%s", primitives.stored[i.dtype], i.name) or i.name end
  end
  for _, s in ipairs(m.sizes or {}) do out[#out + 1] = declared and "int64_t " .. s.name or s.name end
  if m.random then
    out[#out + 1] = declared and "uint64_t seed" or "seed"
    out[#out + 1] = declared and "uint64_t stream" or "stream"
  end
  for _, o in ipairs(m.outputs) do
    local kind = o.number and "double" or primitives.stored[o.dtype]
    out[#out + 1] = declared and format("%s *%s", kind, o.name) or o.name
  end
  out[#out + 1] = declared and "void *workspace" or "workspace"
  return concat(out, ", ")
end

local function lut_text(core, number)
  local list, kind = core.internals.capture.lut(number)
  for i, bits in ipairs(list) do list[i] = primitives.literal(kind, bits) end
  local lines = {}
  for i = 1, #list, 4 do lines[#lines + 1] = "  " .. concat(list, ", ", i, min(i + 3, #list)) end
  return format("static const %s ty_lut_%d[%d] = {\n%s};\n", primitives.ctype[kind], number, #list,
    concat(lines, ",\n"))
end

local function source_text(m, core, header)
  local out = { format("/* %s: written by Tycho's jit.export; %s says how it is called. */\n#include \"%s\"\n",
    m.name, header, header), prelude.head }
  local used, luts = {}, {}
  for name in pairs(m.used) do
    local number = name:match "^lut_(%d+)$"
    if number then luts[#luts + 1] = tonumber(number) else used[name] = true end
  end
  out[#out + 1] = prelude.text(used)
  table.sort(luts)
  for _, number in ipairs(luts) do out[#out + 1] = lut_text(core, number) end
  if not m.weights_beside then
    for _, w in ipairs(m.weight_list) do out[#out + 1] = array_of(w) end
  end
  for _, f in ipairs(m.functions) do out[#out + 1] = f end
  local find_weights = {}
  for _, w in ipairs(m.weights_beside and m.weight_list or {}) do
    local kind = primitives.stored[w.dtype]
    find_weights[#find_weights + 1] = format("  const %s *%s = (const %s *)(const void *)"
      .. "((const unsigned char *)weights + %d);\n  (void)%s;\n", kind, w.name, kind, w.offset, w.name)
  end
  local unused = { "(void)work" }
  for word in parameter_list(m, false):gmatch "[%w_]+" do unused[#unused + 1] = "(void)" .. word end
  --- The function that calls the steps of a model.
  local function runner(name, of)
    return format("static int %s(%s) {\n  unsigned char *work = (unsigned char *)workspace;\n"
      .. "%s%s%s\n  return %s_OK;\n}\n", name, parameter_list(m, true), concat(find_weights),
      format("  %s;\n", concat(unused, ", ")) .. (of.sizes and ""
        or format("  unsigned char *room = work + %s;\n  (void)room;\n", text(of.arena))),
      (gsub(concat(of.run, "\n"), "%(SINGLE%)", "(" .. parameter_list(m, false) .. ")")), m.upper)
  end
  if m.one then out[#out + 1] = runner("run_single", m.one) end
  out[#out + 1] = runner("run", m)
  out[#out + 1] = format("int %s_run(%s) {\n  const ty_mode mode = ty_enter();\n  const int status = ty_is_inexact() ? "
    .. "%s_ROUNDING : run(%s);\n  ty_leave(mode);\n  return status;\n}\n", m.name, parameter_list(m, true), m.upper,
    parameter_list(m, false))
  if m.sizes then
    local names = {}
    for i, s in ipairs(m.sizes) do names[i] = "int64_t " .. s.name end
    local lines = {}
    for i, s in ipairs(m.sizes) do
      lines[i] = format("  const int64_t dim_%s = %s;\n  (void)dim_%s;\n", s.name, s.name, s.name)
    end
    if m.one then
      lines[#lines + 1] = format("  if (%s == 1) return %s;\n", m.sizes[1].name, text(m.one.arena + m.one.room))
    end
    out[#out + 1] = format("size_t %s_workspace(%s) {\n%s  return (size_t)%s;\n}\n", m.name, concat(names, ", "),
      concat(lines), text(m.arena + m.room))
  end
  if m.weights_beside then
    out[#out + 1] = format([[
int %s_weights_fit(const void *weights, size_t bytes) {
  const unsigned char *p = (const unsigned char *)weights;
  const char *magic = "%s";
  uint32_t sum = 2166136261u;
  if (!p || (uintptr_t)p %% 64 || bytes < %d) return 0;
  for (int i = 0; i < 8; i++)
    if (p[i] != (unsigned char)magic[i]) return 0;
  for (size_t i = 64; i < %d; i++) sum = (sum ^ p[i]) * 16777619u;
  return sum == 0x%08xu;
}
]], m.name, MAGIC, m.weight_bytes, m.weight_bytes, m.weight_sum)
  end
  return concat(out, "\n")
end

local function header_text(m, bin)
  local out = {}
  local function add(fmt, ...) out[#out + 1] = select("#", ...) > 0 and format(fmt, ...) or fmt end
  local guard = m.upper .. "_H"
  add("/*")
  add("** %s -- a model that Tycho's jit.export has written. It needs no library, and gives Tycho's bits on", m.name)
  add("** every compiler that keeps IEEE 754.")
  add("**")
  if m.weights_beside then
    add("** weights    the contents of %s, %d bytes, at a multiple of 64 bytes: read or mapped by the caller;", bin,
      m.weight_bytes)
    add("**            %s_weights_fit(weights, bytes) is 1 where they are this model's", m.name)
  end
  for _, i in ipairs(m.inputs) do
    if i.number then add("** %-10s in: a number", i.name)
    else add("** %-10s in: %s %s, row-major%s", i.name, i.dtype, i.text, i.note or "") end
  end
  for _, s in ipairs(m.sizes or {}) do add("** %-10s in: a size from %d to %d%s", s.name, s.least, s.most,
      s.multiple > 1 and format(", a multiple of %d", s.multiple) or "") end
  if m.random then
    add("** seed       in: what ty.manual_seed was given")
    add("** stream     in: the number of draws before this call, 0 after ty.manual_seed; a call takes %d", m.streams)
  end
  for _, o in ipairs(m.outputs) do
    if o.number then add("** %-10s out: a number", o.name)
    else add("** %-10s out: %s %s, row-major", o.name, o.dtype, o.text) end
  end
  add("** workspace  %s bytes at a multiple of 64 bytes; its contents matter neither before nor behind a call",
    m.sizes and m.name .. "_workspace(...)" or m.upper .. "_WORKSPACE")
  add("**")
  add("** Halves (f16, bf16) are given by their bits, bools as 0 and 1. Nothing is allocated, and")
  add("** nothing kept but tables of constants: any number of threads may call it, each with a workspace of its")
  add("** own. Outputs must not overlap with anything else.")
  add("*/")
  add("#ifndef %s", guard)
  add("#define %s", guard)
  add("#include <stddef.h>")
  add("#include <stdint.h>")
  add("#ifdef __cplusplus")
  add("extern \"C\" {")
  add("#endif")
  add("")
  add("/* What %s_run gives. INDEX: one was out of range. NUMBER: one does not fit the integers that it meets.", m.name)
  add("** SIZE: a size is out of range. ROUNDING: the compiler's options or the processor do not keep IEEE 754. */")
  add((gsub("enum { @_OK = 0, @_INDEX = 1, @_NUMBER = 2, @_SIZE = 3, @_ROUNDING = 4 };", "@", m.upper)))
  if m.sizes then
    local names = {}
    for i, s in ipairs(m.sizes) do names[i] = "int64_t " .. s.name end
    add("size_t %s_workspace(%s);", m.name, concat(names, ", "))
  else
    add("#define %s_WORKSPACE %s", m.upper, text(m.arena + m.room))
  end
  if m.weights_beside then
    add("#define %s_WEIGHTS %d", m.upper, m.weight_bytes)
    add("int %s_weights_fit(const void *weights, size_t bytes);", m.name)
  end
  for _, i in ipairs(m.inputs) do
    if not i.number and not m.sizes then add("#define %s_%s_BYTES %s", m.upper, i.name:upper(), i.bytes) end
  end
  for _, o in ipairs(m.outputs) do
    if not o.number and not m.sizes then add("#define %s_%s_BYTES %s", m.upper, o.name:upper(), o.bytes) end
  end
  add("int %s_run(%s);", m.name, parameter_list(m, true))
  add("")
  add("#ifdef __cplusplus")
  add("}")
  add("#endif")
  add("#endif")
  return concat(out, "\n") .. "\n"
end

-- Files ---------------------------------------------------------------------------------------------------------------

local function write_all(list, core)
  local write = core.internals.load("tycho.files")._native.write
  for i, f in ipairs(list) do
    local ok, why = write(f.path, { f.text })
    if not ok then
      for k = 1, i - 1 do remove(list[k].path) end
      return nil, why
    end
  end
  return true
end

local function bytes_of(v)
  local n = primitives.bytes[v.dtype]
  for _, d in ipairs(v.shape) do n = n * d end
  return text(n)
end

--- Writes the files. Gives what was written: {source, header, weights (a path), inputs, outputs, workspace}.
function M.write(m, path, core)
  local stem = gsub(path, "%.c$", "")
  local header, bin = stem .. ".h", stem .. ".bin"
  local function base(p) return p:match "[^/\\]*$" end
  local list = {}
  for _, v in ipairs(m.inputs) do v.bytes = not v.number and bytes_of(v) or nil end
  for _, v in ipairs(m.outputs) do v.bytes = not v.number and bytes_of(v) or nil end
  if m.weights_beside then
    local data
    data, m.weight_bytes, m.weight_sum = weights_file(m.weight_list)
    list[#list + 1] = { path = bin, text = data }
  end
  list[#list + 1] = { path = path, text = source_text(m, core, base(header)) }
  list[#list + 1] = { path = header, text = header_text(m, base(bin)) }
  local ok, why = write_all(list, core)
  if not ok then return nil, why end
  local y = { source = path, header = header, weights = m.weights_beside and bin or nil, inputs = {}, outputs = {},
    workspace = not m.sizes and m.arena + m.room or nil, sizes = m.sizes }
  for i, v in ipairs(m.inputs) do
    y.inputs[i] = { name = v.name, dtype = v.dtype, shape = v.shape, number = v.number }
  end
  for i, v in ipairs(m.outputs) do
    y.outputs[i] = { name = v.name, dtype = v.dtype, shape = v.shape, number = v.number and true or nil }
  end
  return y
end

return M
