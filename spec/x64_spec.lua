--- The native machine: its encodings against the system's assembler, its programs against the portable machine;
-- single operations of both against plain C. x64_check.c and loops_check.c are linked with the library's objects;
-- where that cannot be done the claims are skipped, and counted.

local H = require "spec.helper"

local check, loops = H.root .. "build/spec/x64_check", H.root .. "build/spec/loops_check"

local function run(command)
  local pipe = io.popen(command .. " 2>&1; echo \"status $?\"")
  local out = pipe:read "*a"
  pipe:close()
  local text, status = out:match("^(.*)status (%d+)\n$")
  return text, tonumber(status)
end

--- A checker is built once, again when anything is newer.
local function built(name)
  local source, program = H.root .. "spec/" .. name .. ".c", H.root .. "build/spec/" .. name
  local _, fresh = run(("test -f '%s' -a '%s' -nt '%s' -a '%s' -nt '%sbuild/tycho/core.so'"):format(program, program,
    source, program, H.root))
  if fresh == 0 then return true end
  local text, status = run(("mkdir -p '%sbuild/spec' && gcc -std=c11 -O1 -Wall -Wextra -Werror -ffp-contract=off "
    .. "-D_GNU_SOURCE -I'%score' -I'%s.' -o '%s' '%s' $(find '%sbuild/obj' -name '*.o' | grep -v -e /lua/ -e /file/) -lm -ldl -lpthread")
    :format(H.root, H.root, H.root, program, source, H.root))
  assert(status == 0, text)
  return true
end

local machine = jit.arch == "x64" and not H.asan and built "x64_check"
  and built "loops_check" and select(2, run(check .. " can")) == 0

describe("the native machine", function()
  local function claim(name, fn)
    it(name, function()
      if not machine then return pending "not this processor, or a sanitizer's build" end
      fn()
    end)
  end

  claim("encodes as the system's assembler does", function()
    local path = os.tmpname()
    local out, status = run(("%s encode"):format(check))
    assert.equal(0, status, out)
    local f, n = assert(io.open(path, "w")), 0
    local want, text = {}, {}
    f:write ".intel_syntax noprefix\n"
    for hex, line in out:gmatch "(%x+) ([^\n]*)\n" do
      n = n + 1
      want[n], text[n] = hex, line
      f:write(line, "\n")
    end
    f:close()
    assert.is_true(n > 5000)
    local message, failed = run(("as -o %s.o %s && objcopy -O binary -j .text %s.o %s"):format(path, path, path, path))
    assert.equal(0, failed, message)
    f = assert(io.open(path, "rb"))
    local got = f:read("*a"):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    f:close()
    os.remove(path)
    os.remove(path .. ".o")
    local at = 1
    for i = 1, n do
      local mine = got:sub(at, at + #want[i] - 1)
      if mine ~= want[i] then error(("%s: %s, but the assembler gives %s"):format(text[i], want[i], mine)) end
      at = at + #want[i]
    end
    assert.equal(at - 1, #got)
  end)

  claim("refuses a program or makes the right code when allocations fail", function()
    local out, status = run(check .. " starve")
    assert.equal(0, status, out)
  end)

  claim("leaves the code of a process alone when its child makes code, and the other way round", function()
    local out, status = run(check .. " fork")
    assert.equal(0, status, out)
  end)

  for _, isa in ipairs { "avx512", "avx2", "base" } do
    claim("agrees with plain C on numbers, conversions, scans, positions and layouts: " .. isa, function()
      local out, status = run(("TYCHO_ISA=%s %s"):format(isa, loops))
      assert.equal(0, status, out)
    end)
  end

  for _, isa in ipairs { "avx512", "avx2" } do
    claim("computes random programs over random layouts to the bit like the portable machine: " .. isa, function()
      local out, status = run(("TYCHO_ISA=%s %s diff 2500 %d"):format(isa, check, isa == "avx2" and 11 or 12))
      assert.equal(0, status, out)
    end)
  end
end)
