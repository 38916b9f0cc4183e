--- The native machine: its encodings against the system's assembler, its programs against the portable machine;
-- single operations of both against plain C. x64_check.c and loops_check.c are linked with the library's objects;
-- where that cannot be done the claims are skipped, and counted.

local H = require "spec.helper"

-- Another build, and what links with its objects: make coverage.
local build, link = H.root .. (os.getenv "TYCHO_BUILD" or "build"), os.getenv "TYCHO_LINK" or ""
local check, loops = build .. "/spec/x64_check", build .. "/spec/loops_check"

local function run(command)
  local pipe = io.popen(command .. " 2>&1; echo \"status $?\"")
  local out = pipe:read "*a"
  pipe:close()
  local text, status = out:match("^(.*)status (%d+)\n$")
  return text, tonumber(status)
end

--- A checker is built once, again when anything is newer.
local function built(name)
  local source, program = H.root .. "spec/" .. name .. ".c", build .. "/spec/" .. name
  local _, fresh = run(("test -f '%s' -a '%s' -nt '%s' -a '%s' -nt '%s/tycho/core.so'"):format(program, program,
    source, program, build))
  if fresh == 0 then return true end
  local text, status = run(("mkdir -p '%s/spec' && gcc -std=c11 -O1 -Wall -Wextra -Werror -ffp-contract=off "
    .. "-D_GNU_SOURCE -I'%score' -I'%s.' -o '%s' '%s' $(find '%s/obj' -name '*.o' | "
    .. "grep -v -e /lua/ -e /file/ -e /embed/ -e /cuda/ -e /dist/) -lm -ldl -lpthread %s")
    :format(build, H.root, H.root, program, source, build, link))
  assert(status == 0, text)
  return true
end

local machine = jit.arch == "x64" and not H.asan and built "x64_check"
  and built "loops_check" and select(2, run(check .. " can")) == 0

--- The bytes that the system's assembler makes of a text, in hexadecimal.
local function assembled(text)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  f:write(".intel_syntax noprefix\n", text)
  f:close()
  local message, failed = run(("as -o %s.o %s && objcopy -O binary -j .text %s.o %s"):format(path, path, path, path))
  assert.equal(0, failed, message)
  f = assert(io.open(path, "rb"))
  local bytes = f:read("*a"):gsub(".", function(c) return ("%02x"):format(c:byte()) end)
  f:close()
  os.remove(path)
  os.remove(path .. ".o")
  return bytes
end

--- The system's assembler makes those bytes of each line.
local function agrees(want, text)
  local got, at = assembled(table.concat(text, "\n") .. "\n"), 1
  for i, bytes in ipairs(want) do
    local mine = got:sub(at, at + #bytes - 1)
    if mine ~= bytes then error(("%s: %s, but the assembler gives %s"):format(text[i], bytes, mine)) end
    at = at + #bytes
  end
  assert.equal(at - 1, #got)
end

describe("the native machine", function()
  local function claim(name, fn)
    it(name, function()
      if not machine then return pending "not this processor, or a sanitizer's build" end
      fn()
    end)
  end

  claim("encodes as the system's assembler does", function()
    local out, status = run(("%s encode"):format(check))
    assert.equal(0, status, out)
    local n, want, text = 0, {}, {}
    for hex, line in out:gmatch "(%x+) ([^\n]*)\n" do
      n = n + 1
      want[n], text[n] = hex, line
    end
    assert.is_true(n > 5000)
    agrees(want, text)
  end)

  for _, isa in ipairs { "avx512", "avx2" } do
    claim("shows its code, place by place, as the system's assembler would read it: TYCHO_DUMP=a, " .. isa, function()
      local out, status = H.script([[
        local ty = require "tycho"
        for _, dtype in ipairs { "f32", "f16", "i64", "u8" } do
          local x = ty.ones({ 3, 37 }, { dtype = dtype })
          ty.compile(function(v)
            return v + v * 2, v:to "f64" * 0.5, v:to "i32", v:gt(0), v:sum(2), v:t():contiguous(), v:gather(2, v:to "i64")
          end)(x)
        end]], { TYCHO_DUMP = "a", TYCHO_ISA = isa })
      assert.equal(0, status, out)
      local text, want, kernels, at = {}, {}, 0, 0
      for line in out:gmatch "[^\n]+" do
        local place, bytes, said = line:match "^ *(%x+)  (%x*) +(.*)$"
        if line:find "^kernel of step %d+$" then
          kernels, at = kernels + 1, 0
          want[#want + 1], text[#text + 1] = "", ("kernel%d:"):format(kernels)
        elseif place then
          assert.equal(at, tonumber(place, 16), line)
          at = at + #bytes / 2
          said = said:gsub(" 0x(%x+)$", (" kernel%d+0x%%1"):format(kernels)):gsub("^;", "#")
          want[#want + 1], text[#text + 1] = bytes, (bytes:find "^62" and "{evex} " or "") .. said
        else
          assert.equal("-- code", line)
        end
      end
      assert.is_true(kernels > 15 and #want > 1000, ("%d kernels, %d lines"):format(kernels, #want))
      agrees(want, text)
    end)
  end

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
      local seed = 2 * H.seed % 2 ^ 31 + (isa == "avx2" and 1 or 0)
      local out, status = run(("TYCHO_ISA=%s %s diff %d %d"):format(isa, check, H.cases(1000, 2500), seed))
      assert.equal(0, status, out)
    end)
  end
end)
