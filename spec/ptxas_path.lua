-- ptxas_path.lua -- what the scripts that assemble PTX texts share. Gives ptxas, and the lines that a command prints; where it is not
-- there, says so, and the script has ended.
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
return ptxas, lines_of
