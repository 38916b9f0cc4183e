-- contraction.lua -- whether a product and a sum of PTX texts may become one operation of a GPU:
--   luajit spec/contraction.lua NVDISASM FOLDER ARCHITECTURE
-- In: nvdisasm (PyPI: nvidia-cuda-nvdisasm), a folder of PTX texts, a processor as a number. Out: how many texts were looked at; it
-- fails where a text has an operation of f32 or f64 without a rounding, which ptxas is free to contract, or flushes denormals,
-- and where the machine code of one that adds and multiplies, but has no fma of its own, nor a division or root, whose
-- code is of such, multiplies and adds in one. CONTRACTION_TEXTS=300 in the environment is how many of these at most.
local nvdisasm, folder, arch = arg[1], arg[2], tonumber(arg[3])
assert(arch, "spec/contraction.lua: NVDISASM FOLDER ARCHITECTURE")

local ptxas, lines_of = dofile "spec/ptxas_path.lua"

local ROUNDED = { add = true, sub = true, mul = true, fma = true, mad = true, div = true, sqrt = true, rcp = true }

--- Of a text: whether it adds and multiplies floats, whether it has what is made of fma, and what is not rounded.
local function look(text)
  local has, loose = {}, nil
  for line in text:gmatch "[^\n]+" do
    local op = line:match "^%s*@!?%%p%d+%s+(%S+)" or line:match "^%s*(%l%S*)"
    local name = op and op:match "^%l+"
    if name and ROUNDED[name] and (op:find "%.f32" or op:find "%.f64") then
      has[name] = true
      -- the kernels of fast attention approximate by name
      if op:find "%.ftz" or not (op:find "%.rn" or op:find "%.approx") then loose = loose or line end
    end
  end
  return has.mul and (has.add or has.sub), has.fma or has.mad or has.div or has.sqrt or has.rcp, loose
end

local cubin, seen, checked, bad, sums = os.tmpname(), 0, 0, 0, 0
local most = tonumber(os.getenv "CONTRACTION_TEXTS") or 300
for _, file in ipairs(lines_of(("find '%s' -name '*.ptx' | sort"):format(folder))) do -- names are hashes: in no order
  local f = assert(io.open(file, "rb"))
  local text = f:read "*a"
  f:close()
  seen = seen + 1
  local both, fused, loose = look(text)
  if loose then
    bad = bad + 1
    print(("%s: not rounded to nearest: %s"):format(file:match "[^/]*$", loose))
  end
  if both and not fused and checked < most and tonumber(text:match "%.target sm_(%d+)") <= arch then
    checked = checked + 1
    os.execute(("'%s' -arch sm_%d '%s' -o '%s'"):format(ptxas, arch, file, cubin))
    local contracted
    for _, line in ipairs(lines_of(("'%s' -c '%s'"):format(nvdisasm, cubin))) do
      local op = line:match "/%*%x+%*/%s+(.-)%s*;"
      if op and (op:find "%f[%u]FADD" or op:find "%f[%u]DADD") then sums = sums + 1 end
      if op and (op:find "%f[%u]FFMA" or op:find "%f[%u]DFMA") then contracted = contracted or op end
    end
    if contracted then
      bad = bad + 1
      print(("%s: %s"):format(file:match "[^/]*$", contracted))
    end
  end
end
os.remove(cubin)
print(("contraction: sm_%d: %d texts, the code of %d with %d sums, %d bad"):format(arch, seen, checked, sums, bad))
os.exit(bad == 0 and sums > 0 and 0 or 1)
