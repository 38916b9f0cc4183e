-- Random programs, eager against compiled, bit for bit.
--   luajit spec/fuzz.lua [programs = 20000] [seed = another each time] [only this program]
-- A program is a list of statements over variables that hold tensors; it is made while it runs eagerly, so that
-- most of what it does is meant to work, then run twice compiled: captured where that is possible, and recorded.
-- With FUZZ_DEVICE=far all of that happens on a second device besides.
-- Everything that is alive at the end must agree, also the text of an error and what was alive when it came.
-- A failure is shrunk to the statements that matter and printed with its number: the third argument repeats it.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, gen = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_program.lua")

local function snapshot(vars)
  local out = {}
  for i, v in pairs(vars) do out[i] = gen.describe(ty, v) end
  return out
end

local function difference(a, b)
  for i, v in pairs(a) do
    if v ~= b[i] then return i end
  end
  for i in pairs(b) do
    if a[i] == nil then return i end
  end
end

local capture, captured = ty.internals.capture, 0

-- Compiled for one call: round 1 captures it, round 2 records while it runs.
local function compiled_for(round, body)
  capture.off = round == 2
  local f = jit.compile(body)
  capture.off = false
  return f
end

-- Runs the statements over fresh inputs, compiled where a round is given. Returns what is alive, the error's text, if any,
-- the variables, and whether the device told the error after the call: what came behind it is undone then, and the text names
-- an operation inside of the function that the CPU names.
local function run_here(program, round)
  local vars = gen.inputs(ty, program)
  ty.manual_seed(program.seed)
  local function body()
    for _, s in ipairs(program) do gen.execute(ty, vars, s) end
  end
  local f = round and compiled_for(round, body) or body
  local ok, message = pcall(f)
  local fine, seen = pcall(snapshot, vars)
  local late = ok and not fine
  if late and ty.device() == "cpu" then error(seen, 0) end
  if late then ok, message = false, seen end
  if round == 1 and ty.device() == "cpu" then captured = captured + jit.explain(f).captures end
  return fine and seen or {}, not ok and frame.anywhere(message) or nil, vars, late
end

local devices = frame.devices()

local function run(program, round, device) return frame.on(ty, device or "cpu", run_here, program, round) end

-- Text of what differs between eager and compiled runs of the program, or nil.
local function check(program)
  if program.wrong then return program.wrong end
  local want, want_error = run(program)
  for _, device in ipairs(devices) do
    for round = device == "cpu" and 1 or 0, 2 do
      local got, got_error, _, late = run(program, round > 0 and round or nil, device)
      local name = ("run %d on %s"):format(round, device)
      if late and want_error then got, got_error = want, want_error end
      if want_error ~= got_error then
        return ("%s: error %s, eagerly %s"):format(name, tostring(got_error), tostring(want_error))
      end
      local i = difference(want, got)
      if i then return ("%s: variable %s differs"):format(name, tostring(i)), i, round, device end
    end
  end
end

-- The values that differ.
local function told(program)
  local _, variable, round, device = check(program)
  if not variable then return end
  local _, _, eager = run(program)
  local _, _, compiled = run(program, round > 0 and round or nil, device)
  print(gen.difference(ty, eager[variable], compiled[variable]))
  print("eager:\n" .. tostring(eager[variable]))
  print("compiled:\n" .. tostring(compiled[variable]))
end

-- What was reached, counted on the graphs that the programs record.
local reached, pairs_reached = {}, {}

local function count_graph(g, class)
  for _, node in ipairs(g) do
    reached[node.op] = (reached[node.op] or 0) + 1
    for _, s in ipairs(node.src) do
      local key = class[g[s].op] .. " -> " .. class[node.op]
      pairs_reached[key] = (pairs_reached[key] or 0) + 1
    end
  end
end

local function count_program(program, class)
  local vars = gen.inputs(ty, program)
  ty.manual_seed(program.seed)
  local ok, list = pcall(jit.graph, function()
    for _, s in ipairs(program) do gen.execute(ty, vars, s) end
  end)
  local scans = not ok and tostring(list):find("scan: a graph", 1, true) -- a graph to look at holds none
  for _, s in ipairs(program) do
    if scans and s.kind == "turns" then reached.param, reached.loop = 1, 1 end
  end
  if not ok then return end
  if list.text then list = { list } end
  for _, g in ipairs(list) do count_graph(g, class) end
end

local function median(counts)
  table.sort(counts)
  return counts[math.ceil(#counts / 2)] or 0
end

local class = {}
for _, row in ipairs(ty.internals.probe.ops()) do class[row.name] = row.class end

local raised, lengths = 0, {}

require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

local fuzz = frame.fuzzer("fuzz", 20000, {
  make = function(seed)
    local program, message = gen.make(ty, seed)
    program.wrong = gen.wrong
    lengths[#lengths + 1] = gen.size(program)
    if message then raised = raised + 1 end
    return program
  end,
  check = check, show = gen.print, told = told,
  passed = function(program) frame.on(ty, devices[#devices], count_program, program, class) end,
})
fuzz:run(2000)

-- The counters that make the run worth something.
fuzz:claim(fuzz.failures == 0, "%d programs differ between eager and compiled", fuzz.failures)
if fuzz:ran(1000) then
  local N = fuzz.N
  fuzz:claim(median(lengths) >= 15, "median of %d operations, at least 15", median(lengths))
  fuzz:claim(captured >= 0.2 * N, "%d of %d programs are captured, at least a fifth", captured, N)
  fuzz:claim(raised < 0.2 * N, "%d of %d programs raise, fewer than a fifth", raised, N)
end
if fuzz:ran(4000) then
  for _, row in ipairs(ty.internals.probe.ops()) do
    local elsewhere = row.name == "to" or row.name == "positions" -- on a second device
    local alone = row.name == "attend_grad" or elsewhere and #devices == 1 -- the first: fuzz_grad.lua
    fuzz:claim(alone or (reached[row.name] or 0) > 0, "row %s is never reached", row.name)
  end
  -- The rarest pair is met by one program in six hundred: chance may leave it out of 4,000, but no other one besides.
  local missing, allowed = {}, fuzz:ran(10000) and 0 or 1
  for _, a in ipairs { "leaf", "map", "view", "reduce", "scan", "dot", "move" } do
    for _, b in ipairs { "map", "view", "reduce", "scan", "dot", "move" } do
      local key = a .. " -> " .. b
      if not pairs_reached[key] then missing[#missing + 1] = key end
    end
  end
  fuzz:claim(#missing <= allowed, "no %s", table.concat(missing, ", no "))
end
print(("fuzz: %d programs, median %d operations, %d captured, %d raise, seed %d, %.0f s"):format(#lengths,
  median(lengths), captured, raised, fuzz.seed, fuzz:seconds()))
fuzz:leave()
