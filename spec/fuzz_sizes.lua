-- Random functions of tensors whose sizes change from call to call, compiled against plain: what one plan gives for a
-- range of sizes is what a call gives at each of them.
--   luajit spec/fuzz_sizes.lua [programs = 2000] [seed = another each time] [only this program]
-- A program (fuzz_sized.lua) is called with sizes on a line, so that ranges come to be, and then with others in mixed order:
-- at some of them dims that differ elsewhere are equal, and at some the program raises.

local ty = require "tycho"
jit.log = false -- programs raise, and are not captured then

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")
local describe = dofile(here .. "/fuzz_program.lua").describe
local sized = dofile(here .. "/fuzz_sized.lua")

local counts = { ranges = 0, calls = 0, raised = 0, served = 0 }

local function world(program) return sized.load(program, sized.weights()) end

local function outcome(f, o, n, how)
  ty.manual_seed(n)
  local out = {}
  local args = { sized.arguments(n, how) }
  local results = { pcall(f, unpack(args)) }
  if not results[1] then
    counts.raised = counts.raised + 1
    out[1] = tostring(results[2]):gsub("^[^ ]*: ", "")
  end
  for k = 2, results[1] and 6 or 0 do out[#out + 1] = describe(ty, results[k]) end
  if results[1] then out[#out + 1] = describe(ty, args[1]) .. describe(ty, args[2]) .. describe(ty, o) end
  return table.concat(out, "; "), results[1]
end

--- Statements that raise at the first size are left out.
local function make(seed)
  local r = frame.random(seed, 1)
  local program = { how = r(5) }
  local divides = r(12) == 1
  for i = 1, 4 + r(9) do
    program[#program + 1] = sized.line(r, divides and i < 3)
    local f, o = world(program)
    local _, ok = outcome(f, o, 20, program.how)
    if not ok then program[#program] = nil end
  end
  program.sizes = sized.sizes(r)
  return program
end

local function check(program)
  local plain, plain_o = world(program)
  local f, o = world(program)
  f = ty.compile(f)
  for _, n in ipairs(program.sizes) do
    local want, got = outcome(plain, plain_o, n, program.how), outcome(f, o, n, program.how)
    counts.calls = counts.calls + 1
    if want ~= got then
      local at = 1
      while want:byte(at) == got:byte(at) do at = at + 1 end
      at = math.max(1, at - 60)
      return ("size %d\nplain    ..%s\ncompiled ..%s"):format(n, want:sub(at, at + 200), got:sub(at, at + 200))
    end
  end
  local e, ranged = ty.explain(f), false
  for _, t in ipairs(e.traces) do ranged = ranged or t.ranges > 0 end
  counts.ranges = counts.ranges + (ranged and 1 or 0)
  counts.served = counts.served + e.skips
end

local fuzz = frame.fuzzer("fuzz_sizes", 2000, { make = make, check = check,
  show = function(program) return ("-- how = %s\n%s"):format(tostring(program.how), sized.text(program)) end })
fuzz:run(500)
fuzz:claim(fuzz.failures == 0, "%d programs differ at some size", fuzz.failures)
if fuzz:ran(100) then
  fuzz:claim(counts.ranges >= 0.1 * fuzz.programs, "%d programs of %d came to a range of sizes", counts.ranges, fuzz.programs)
  fuzz:claim(counts.raised <= 0.5 * counts.calls, "%d of %d calls raised", counts.raised / 2, counts.calls)
end
print(("fuzz_sizes: %d programs, seed %d, %.0f s: %d with ranges, %d calls, %d answered without Lua, %d raised"):format(fuzz.programs,
  fuzz.seed, fuzz:seconds(), counts.ranges, counts.calls, counts.served, counts.raised / 2))
fuzz:leave()
