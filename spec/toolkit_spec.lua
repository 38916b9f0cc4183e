-- toolkit_spec.lua -- what the device "cuda" takes from headers of CUDA's toolkit is there as it is taken: numbers, sizes, types of
-- calls. The headers are looked for in $CUDA_HOME and in /usr/local/cuda; without them nothing is claimed.
local module = require "spec.module"

local function readable(path)
  local f = io.open(path, "rb")
  return f and f:close() and path
end

--- The folder of headers; nil: there is none.
local function headers()
  local places = { os.getenv "CUDA_HOME" or "", "/usr/local/cuda" }
  local p = not module.windows and io.popen "ls -d /usr/local/cuda-* 2>/dev/null"
  if p then
    for line in p:lines() do places[#places + 1] = line end
    p:close()
  end
  for _, place in ipairs(places) do
    local folder = place .. "/include"
    if place ~= "" and readable(folder .. "/cublasLt.h") and readable(folder .. "/cusolverDn.h") then return folder end
  end
end

local folder = headers()
local probe = folder and it or pending

describe("CUDA's toolkit", function()
  probe("has the numbers, sizes and calls that are taken from it", function()
    local p = assert(io.popen(("cc -std=c11 -fsyntax-only -I'%s' '%sspec/toolkit.c' 2>&1; echo status $?"):format(folder, module.root)))
    local text = p:read "*a"
    p:close()
    assert.equal("status 0\n", text)
  end)
end)
