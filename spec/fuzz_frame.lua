--- fuzz_frame.lua -- what all fuzzers have in common: their arguments, seeds, the loop, shrinking, reports, claims.
-- In: what a fuzzer makes and what it checks. Out: text, and an exit status for the shell. Nothing raises: an error of
-- the fuzzer's own is reported as a failure of the program that it came with.
--
-- A program is what `make` gives. Mostly it is a list of statements with more fields beside, of which any may be left
-- out; then it can be shrunk here. Program n of a seed is the same in every run, so `luajit spec/NAME.lua N SEED n`
-- repeats it alone.

local M = {}

local FAILURES = 5 -- that are reported before a fuzzer gives up

--- A generator of whole numbers 1..n, so that programs do not depend on the host's. by: what its states are divided by.
function M.random(seed, by)
  local s = seed % 2147483647
  if s <= 0 then s = s + 2147483646 end
  local function next_int(n)
    s = s * 16807 % 2147483647
    return math.floor(s / by) % n + 1
  end
  for _ = 1, 8 do next_int(7) end
  return next_int
end

--- Bytes as they can be printed, the first ones.
function M.readable(s, most)
  return (tostring(s):gsub("[^%g ]", function(c) return ("\\%d"):format(c:byte()) end):sub(1, most or 300))
end

-- --- devices

--- Where programs run: on the CPU, and with FUZZ_DEVICE=far or FUZZ_DEVICE=cuda in the environment on that device too
--- (far.lua, cuda.lua), where all bits and errors must be the same.
function M.devices()
  local other = os.getenv "FUZZ_DEVICE"
  if not other then return { "cpu" } end
  assert(other == "far" or other == "cuda", "FUZZ_DEVICE: there is no such device")
  local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\][^/\\]*$" or "."
  local device = dofile(("%s/%s.lua"):format(folder, other))
  assert(device.loaded, device.why)
  return { "cpu", other }
end

--- Calls fn(...) where tensors are made on the device.
function M.on(ty, device, fn, ...)
  local was = ty.device()
  ty.device(device)
  local results = { pcall(fn, ...) }
  ty.device(was)
  if not results[1] then error(results[2], 0) end
  return unpack(results, 2, table.maxn(results))
end

--- A text in which types and printed tensors do not name a device.
function M.anywhere(text)
  if not text then return nil end
  text = tostring(text)
  for _, name in ipairs { "far", "cuda" } do
    text = text:gsub("@" .. name .. "%f[%W]", ""):gsub("(%[%w+ [%dx]*) " .. name .. "%]", "%1 cpu]")
  end
  return text
end

-- --- shrinking

local function without(program, k)
  local copy = {}
  for name, v in pairs(program) do copy[name] = v end
  table.remove(copy, k)
  return copy
end

--- The statements without which the program would pass.
local function shrink(program, check)
  local again = true
  while again do
    again = false
    for k = #program, 1, -1 do
      local smaller = without(program, k)
      local ok, what = pcall(check, smaller)
      if ok and what ~= nil then program, again = smaller, true end
    end
  end
  return program
end

-- --- a fuzzer

---@class Fuzzer
---@field N integer programs that are asked for
---@field seed integer
---@field only integer? the one program that is asked for
---@field programs integer that were made
---@field failures integer
local Fuzzer = {}
Fuzzer.__index = Fuzzer

--- A fuzzer of that name. of.make(seed, number): a program. of.check(program): text that says what is wrong, or nil and
--- what else is known. of.show(program): its text. Optional: of.passed(program, number, known); of.told(small): what is
--- printed about a failure beyond its text and statements; of.report(program), in place of shrinking and printing.
---@param name string
---@param programs integer how many, unless the command line says so
function M.fuzzer(name, programs, of)
  local given = { tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3]) }
  return setmetatable({ name = name, of = of, N = given[1] or programs, seed = given[2] or os.time() % 1000000,
    only = given[3], programs = 0, failures = 0, claims = { passed = 0, failed = 0 }, started = os.clock() }, Fuzzer)
end

function Fuzzer:seconds() return os.clock() - self.started end

function Fuzzer:report(program)
  local of = self.of
  local small = shrink(program, of.check)
  local _, now = pcall(of.check, small)
  print(("shrunk to %d statements: %s\n%s"):format(#small, tostring(now or "no longer differs"), of.show(small)))
  if of.told then of.told(small) end
end

--- One program. Whether to go on.
function Fuzzer:try(number)
  local of = self.of
  local program = of.make(self.seed * 1000003 + number, number)
  if self.only then print(of.show(program)) end
  self.programs = self.programs + 1
  local ok, what, known, other = pcall(of.check, program)
  if not ok then what = "the fuzzer itself: " .. tostring(what) end
  if what then
    self.failures = self.failures + 1
    print(("\nprogram %d of seed %d: %s"):format(number, self.seed, what))
    io.flush()
    if of.report then of.report(program, known, other) else self:report(program) end
  elseif of.passed then
    of.passed(program, number, known)
  end
  return self.failures < FAILURES
end

--- All programs; tells where it stands after every so many.
function Fuzzer:run(every)
  local number = self.only or 1
  while number <= (self.only or self.N) and self:try(number) do
    if number % every == 0 and not self.only then
      io.write(("%s: %d of %d programs, %.0f s\n"):format(self.name, number, self.N, self:seconds()))
      io.flush()
    end
    number = number + 1
  end
end

--- Whether so many programs ran that counts say something.
function Fuzzer:ran(least) return not self.only and self.N >= least end

--- Something that must hold of the whole run; the text, formatted, says what, and is printed where it does not.
function Fuzzer:claim(ok, text, ...)
  local claims = self.claims
  if ok then
    claims.passed = claims.passed + 1
  else
    claims.failed = claims.failed + 1
    print("FAILED: " .. text:format(...))
  end
end

--- Counts the claims and leaves.
function Fuzzer:leave()
  local claims = self.claims
  print(("%d passed, %d failed"):format(claims.passed, claims.failed))
  os.exit(claims.failed == 0 and 0 or 1)
end

return M
