-- ptxas.lua -- assembles what the CUDA device has made: luajit spec/ptxas.lua FOLDER 75 80 90 ...
-- In: a folder of PTX texts, processors as numbers. Out: how many texts, the most registers of a thread; it fails where ptxas
-- refuses one, where registers are spilled, or where there are more of them than MOST. Without ptxas it says so.
local MOST = 128 -- registers of a thread: four blocks of 128 threads of each multiprocessor at least

local folder = assert(arg[1], "spec/ptxas.lua: FOLDER ARCHITECTURES")

local function lines_of(command)
  local pipe, list = io.popen(command), {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local ptxas = lines_of "command -v ptxas || ls /usr/local/cuda/bin/ptxas 2>/dev/null"[1]
if not ptxas then
  print "ptxas: skipped, it is not there (it comes with NVIDIA's toolkit)"
  os.exit(0)
end

local bad = 0
for i = 2, #arg do
  local texts, most, failed = 0, 0, {}
  local command = ("ls '%s'/*.ptx | xargs -P 2 -I{} sh -c '\"%s\" -arch sm_%s -v {} -o /dev/null 2>&1 | sed \"s|^|{}: |\" | cat'")
    :format(folder, ptxas, arg[i])
  for _, line in ipairs(lines_of(command)) do
    local used = tonumber(line:match "Used (%d+) registers")
    if used then
      texts, most = texts + 1, math.max(most, used)
      if used > MOST then failed[#failed + 1] = line end
    end
    local spilled = line:match "(%d+) bytes spill"
    if line:find("error", 1, true) or line:find("fatal", 1, true) or (spilled and spilled ~= "0") then failed[#failed + 1] = line end
  end
  for k = 1, math.min(#failed, 10) do print(failed[k]) end
  bad = bad + #failed
  print(("ptxas: sm_%s: %d texts, at most %d registers, %d bad"):format(arg[i], texts, most, #failed))
end
os.exit(bad == 0 and 0 or 1)
