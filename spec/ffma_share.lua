-- ffma_share.lua -- what share of a product's inner loop are multiply-adds: luajit spec/ffma_share.lua NVDISASM FOLDER ARCHITECTURE
-- In: nvdisasm (PyPI: nvidia-cuda-nvdisasm), a folder of PTX texts, a processor as a number. Out: for each text that copies to
-- shared memory asynchronously, the share of FFMA between the ends of the loop that has most of them; it fails where that is
-- less than 89 percent, of wide tiles, whose loop has twice as many, 92.
local nvdisasm, folder, arch = arg[1], arg[2], arg[3]
assert(arch, "spec/ffma_share.lua: NVDISASM FOLDER ARCHITECTURE")

local ptxas, lines_of = dofile "spec/ptxas_path.lua"

--- The loop, a label to a branch back to it, whose share of FFMA is largest among those with at least 512 of them.
local function share_of(cubin)
  local at, ops, most, length = {}, {}, 0, 0
  for _, line in ipairs(lines_of(("'%s' -c '%s'"):format(nvdisasm, cubin))) do
    local label = line:match "^(%.L_x_%d+):"
    if label then at[label] = #ops + 1 end
    local op = line:match "/%*%x+%*/%s+(.-)%s*;"
    if op then ops[#ops + 1] = op end
    local target = op and op:match "BRA.-`%((%.L_x_%d+)%)"
    if target and at[target] then
      local n = 0
      for i = at[target], #ops do if ops[i]:find "FFMA" then n = n + 1 end end
      local share = n / (#ops - at[target] + 1)
      if n >= 512 and share > most then most, length = share, #ops - at[target] + 1 end
    end
  end
  return most * 100, length
end

local cubin, bad, seen = os.tmpname(), 0, 0
for _, file in ipairs(lines_of(("grep -l 'cp\\.async' '%s'/*.ptx"):format(folder))) do
  os.execute(("'%s' -arch sm_%s '%s' -o '%s'"):format(ptxas, arch, file, cubin))
  local share, length = share_of(cubin)
  local least = share * length > 100 * 2000 and 92 or 89
  seen = seen + 1
  if share < least then bad = bad + 1 end
  print(("%s: FFMA are %.1f %% of %d instructions%s"):format(file:match "[^/]*$", share, length, share < least and ": too few" or ""))
end
os.remove(cubin)
print(("ffma: sm_%s: %d texts, %d with too few"):format(arch, seen, bad))
os.exit(bad == 0 and 0 or 1)
