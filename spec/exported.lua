--- exported.lua -- runs what jit.export writes: for export_spec and the matrix of compilers.
-- In: a function, arguments, compilers with flags. Out: the results that the compiled C gives, as tensors, and the
-- program's exit status.

local ty = require "tycho"

local M = {}

local stored = { bool = "uint8_t", u8 = "uint8_t", i8 = "int8_t", i16 = "int16_t", i32 = "int32_t", i64 = "int64_t",
  f16 = "uint16_t", bf16 = "uint16_t", f32 = "float", f64 = "double", u16 = "uint16_t", u32 = "uint32_t",
  u64 = "uint64_t" }

--- A folder for files of one run.
function M.folder()
  local path = os.tmpname()
  os.remove(path)
  os.execute("mkdir -p " .. path)
  return path
end

function M.remove(folder) os.execute("rm -rf " .. folder) end

local function write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

local function read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

local ffi = require "ffi"

--- A main program: reads inputs from one file in order, runs the model, writes outputs to another.
local function main_text(name, info, inputs, sizes, random)
  local out, args = {}, {}
  local function add(...) out[#out + 1] = string.format(...) end
  add('#include "%s.h"', name)
  add "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>"
  add "static void *take(FILE *f, size_t n) {"
  add "  void *p = aligned_alloc(64, n / 64 * 64 + 64);"
  add "  if (!p || (f && fread(p, 1, n, f) != n)) exit(99);\n  if (!f) memset(p, 0xa5, n);\n  return p;\n}"
  add "int main(int argc, char **argv) {\n  FILE *in = fopen(argv[1], \"rb\"), *to = fopen(argv[2], \"wb\");"
  add "  if (argc < 3 || !in || !to) return 98;"
  if info.weights then
    add '  FILE *wf = fopen(argv[3], "rb");\n  if (!wf) return 97;'
    add("  void *weights = take(wf, %s_WEIGHTS);", name:upper())
    add("  if (!%s_weights_fit(weights, %s_WEIGHTS)) return 96;", name, name:upper())
    args[1] = "weights"
  end
  for i, v in ipairs(info.inputs) do
    if v.number then
      add("  double x%d;\n  if (fread(&x%d, 8, 1, in) != 1) return 95;", i, i)
    else
      add("  %s *x%d = take(in, %d);", stored[v.dtype], i, #inputs[i])
    end
    args[#args + 1] = "x" .. i
  end
  for _, s in ipairs(sizes or {}) do args[#args + 1] = tostring(s) end
  if random then args[#args + 1], args[#args + 2] = random[1] .. "u", random[2] .. "u" end
  for i, v in ipairs(info.outputs) do
    if v.number then
      add("  double y%d = 0;", i)
      args[#args + 1] = "&y" .. i
    else
      add("  %s *y%d = take(NULL, %d);", stored[v.dtype], i, v.bytes)
      args[#args + 1] = "y" .. i
    end
  end
  if sizes then
    local list = {}
    for i, s in ipairs(sizes) do list[i] = tostring(s) end
    add("  void *work = take(NULL, %s_workspace(%s));", name, table.concat(list, ", "))
  else
    add("  void *work = take(NULL, %s_WORKSPACE);", name:upper())
  end
  add("  const int status = %s_run(%s, work);", name, table.concat(args, ", "))
  for i, v in ipairs(info.outputs) do
    add("  fwrite(%sy%d, 1, %d, to);", v.number and "&" or "", i, v.number and 8 or v.bytes)
  end
  add "  fclose(to);\n  return status;\n}"
  return table.concat(out, "\n")
end

local width = { bool = 1, u8 = 1, i8 = 1, i16 = 2, f16 = 2, bf16 = 2, i32 = 4, f32 = 4, i64 = 8, f64 = 8, u16 = 2, u32 = 4, u64 = 8 }

local function number_bytes(v) return ffi.string(ffi.new("double[1]", v), 8) end

--- Exports f for the arguments to a folder. Gives what `run` takes.
function M.export(folder, f, given, name)
  given.name = name or "model"
  local info, why = jit.export(f, folder .. "/" .. given.name .. ".c", given)
  assert(info, why)
  return { folder = folder, name = given.name, info = info }
end

local function compiled(folder, compiler, files)
  local command = ("cd %s && %s -std=c11 -Wall -Wextra -Werror %s 2> log"):format(folder, compiler, files)
  assert(os.execute(command) == 0, compiler .. "\n" .. read(folder .. "/log"))
end

--- Compiles the model by a command such as "gcc -O2", once for all calls, and runs it on the arguments. want: the results
--- to expect, whose dtypes and sizes the outputs get. Gives a list of tensors and numbers; the exit status.
function M.run(model, compiler, args, want, options)
  options = options or {}
  local folder, name, info = model.folder, model.name, model.info
  local inputs = {}
  for i, v in ipairs(info.inputs) do
    inputs[i] = v.number and number_bytes(args[i]) or M.raw(args[i])
  end
  for i, v in ipairs(info.outputs) do
    if not v.number then v.bytes = want[i]:numel() * width[v.dtype] end
  end
  write(folder .. "/main.c", main_text(name, info, inputs, options.sizes, options.random))
  write(folder .. "/in", table.concat(inputs))
  if model.compiler ~= compiler then compiled(folder, compiler, ("-c %s.c -o %s.o"):format(name, name)) end
  model.compiler = compiler
  compiled(folder, compiler, name .. ".o main.c -o program")
  local status = os.execute(("cd %s && ASAN_OPTIONS=detect_leaks=0 %s ./program in out %s 2>> log"):format(folder, options.by or "",
    info.weights and name .. ".bin" or ""))
  status = status > 255 and math.floor(status / 256) or status
  local text, at, results = read(folder .. "/out"), 1, {}
  if status > 90 then error(compiler .. ": " .. status .. "\n" .. read(folder .. "/log")) end
  for i, v in ipairs(info.outputs) do
    if v.number then
      results[i] = ffi.cast("const double *", text:sub(at, at + 7))[0]
      at = at + 8
    else
      results[i] = M.tensor(text:sub(at, at + v.bytes - 1), want[i])
      at = at + v.bytes
    end
  end
  return results, status
end

--- The bytes of a tensor, and a tensor like another one of such bytes.
function M.raw(t)
  t = t:contiguous()
  local n = t:numel() * width[t.dtype]
  if n == 0 then return "" end
  return ffi.string(ffi.cast("const char *", t:data()), n)
end

function M.tensor(bytes, like)
  local y = ty.zeros(like.shape, { dtype = like.dtype })
  if #bytes > 0 then ffi.copy(ffi.cast("char *", y:data()), bytes, #bytes) end
  return y
end

return M
