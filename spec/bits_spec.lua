--- bits_spec.lua -- one hash of a fixed set of results (bits.lua), pinned: whatever the machine, the instruction set, the
--- number of threads. A change here changes what users' programs compute: it is made on purpose, and said.

local H = require "spec.helper"

local pinned = [[
maps 54b30116560a642d
conversions 5b85ef0d314587d9
chains 6f9767daeb6f2e45
reductions 5c120f4095d80fbf
scans 72ad646d7f179e29
moves 2ec9ec17ebe45b79
products 2d4e8310e85d5ffd
attention caefcedc40e8dc91
random 77865e41bf48f36e
convolutions 841ced74d75552b3
training 53ec7525bf0589e5
mapped and folded 513087cfc6db1aa1
]]

--- Whether the processor has what an instruction set's code uses.
local function has(isa)
  if jit.arch ~= "x64" then return isa == "base" end -- what is compiled there is called so
  local needs = { base = "", avx2 = "avx2 fma f16c bmi2", avx512 = "avx2 fma f16c bmi2 avx512f avx512vl avx512bw avx512dq" }
  local f = io.open "/proc/cpuinfo"
  local flags = " " .. (f and f:read("*a"):match "flags%s*:%s*([^\n]*)" or "") .. " "
  if f then f:close() end
  for flag in needs[isa]:gmatch "%S+" do
    if not flags:find(" " .. flag .. " ", 1, true) then return false end
  end
  return true
end

describe("the hash of a fixed set of results", function()
  for _, on in ipairs { { "tile", "base" }, { "tile", "avx2" }, { "tile", "avx512" }, { "x64", "avx2" }, { "x64", "avx512" } } do
    local machine, isa = on[1], on[2]
    it(("is the pinned one: %s, %s, 1 and 2 threads"):format(machine, isa), function()
      if not has(isa) then return pending("this processor has no " .. isa) end
      if machine == "x64" and jit.arch ~= "x64" then return pending "this processor has no native code" end
      local out, status = H.script(("dofile '%sspec/bits.lua'"):format(H.root), { TYCHO_MACHINE = machine, TYCHO_ISA = isa })
      assert.equal(0, status, out)
      local ran, two, one = out:match "^machine (%w+)\n2 threads\n(.*)1 thread\n(.*)$"
      assert.equal(machine, ran)
      assert.equal(pinned, two)
      assert.equal(pinned, one)
    end)
  end

  it("is that of the portable machine below AVX2, which stands in for native code", function()
    if jit.arch ~= "x64" then return pending "this processor has no native code" end
    local out, status = H.script("print(require 'tycho'.stats().machine)", { TYCHO_MACHINE = "x64", TYCHO_ISA = "base" })
    assert.same({ "tile\n", 0 }, { out, status })
  end)
end)
