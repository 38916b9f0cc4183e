-- Random Lua functions, plain against compiled: results, effects, errors, order of prints, over several calls.
--   luajit spec/fuzz_lua.lua [programs = 20000] [seed = another each time] [only this program]
-- A program (fuzz_world.lua) is source text. It is loaded twice, which gives two equal worlds; in one its `main` is
-- called as it is, in the other through jit.compile, several times, with the same changes of the world in between.
-- After each call everything is written down: results, bits of tensors, which tables and tensors are the same object, error
-- texts, the log, what was printed; after every second and the last one the whole outside world. Both accounts must be equal.
-- A failure is shrunk and printed with its number: the third argument repeats it.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, gen = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_world.lua")
local moment = dofile(here .. "/account.lua")(ty)
local account, image = moment.new, moment.image
local readable = frame.readable

-- --- running

local function pack(...) return { n = select("#", ...), ... } end

local function in_coroutine(f, ...)
  local co = coroutine.create(f)
  local results = pack(coroutine.resume(co, ...))
  while coroutine.status(co) == "suspended" do results = pack(coroutine.resume(co)) end
  return unpack(results, 1, results.n)
end

local counts = { parts = 0, linked = 0, calls = 0, raised = 0, wrong_steps = 0, captured = 0, captures = 0, skips = 0, skipping = 0,
  played = 0, bounded = 0, aborts = {} }

-- One call after its step. The results, or an error of either.
local function one_call(f, step, prev, mode, compiled)
  mode.thread = false
  local args = pack(pcall(step, prev))
  if not args[1] then
    counts.wrong_steps = counts.wrong_steps + (compiled and 1 or 0)
    return args
  end
  local call = mode.thread and in_coroutine or pcall
  local results = pack(call(f, unpack(args, 2, args.n)))
  if compiled and ty.device() == "cpu" then
    counts.calls = counts.calls + 1
    if not results[1] then counts.raised = counts.raised + 1 end
  end
  return results
end

local devices = frame.devices() -- on a second one too, where the environment names it (fuzz_frame.lua)

--- Runs a program over a fresh world. Returns the accounts of its calls, and the compiled function.
local function run_here(text, compiled)
  local accounts = {}
  local main, steps, roots, log, said, mode = gen.load(ty, text, compiled)
  local f = compiled and ty.compile(main) or main
  local prev, older
  for i, step in ipairs(steps) do
    for k = #log, 1, -1 do log[k] = nil end
    local results = one_call(f, step, prev, mode, compiled)
    if not compiled then gen.keep(results, log, said, roots()) end
    local a = account()
    a:list(unpack(results, 1, results.n))
    a:list(log)
    if i % 2 == 0 or i == #steps then a:list(roots()) end
    if prev then a:list(unpack(prev, 1, prev.n)) end
    if older then a:list(unpack(older, 1, older.n)) end
    a:add(table.concat(said, ";"))
    accounts[i] = devices[2] and frame.anywhere(a:text()) or a:text()
    prev, older = results, prev
  end
  accounts[#accounts + 1] = image(ty.rand(2), "f32") .. math.random() -- streams of random numbers stand where they must
  return accounts, f
end

local function run(text, compiled, device) return frame.on(ty, device, run_here, text, compiled) end

--- What differs between the plain run and the compiled one on each device: text, or nil.
local function check(text)
  local want, compiled = run(text, false, "cpu"), nil
  for _, device in ipairs(devices) do
    local got, f = run(text, true, device)
    for i = 1, math.max(#want, #got) do
      if want[i] ~= got[i] then
        return ("call %d on %s differs"):format(i, device), want[i] or "nothing", got[i] or "nothing"
      end
    end
    compiled = compiled or f
  end
  return nil, compiled
end

-- --- shrinking

-- Whether a tree still shows a difference; what does not load does not.
local function differs(tree)
  local text = gen.render(tree)
  if not loadstring(text) then return false end
  local ok, what = pcall(check, text)
  return ok and what ~= nil
end

local function position(list, node)
  for i, n in ipairs(list) do
    if n == node then return i end
  end
end

local function replace(list, i, n, with)
  for _ = 1, n do table.remove(list, i) end
  for k = #with, 1, -1 do table.insert(list, i, with[k]) end
end

-- Tries a smaller program: without the node, then with the statements inside it in its place.
local function shrink_at(tree, list, node)
  local i = position(list, node)
  if not i then return false end
  replace(list, i, 1, {})
  if differs(tree) then return true end
  replace(list, i, 0, { node })
  for _, part in ipairs(type(node) == "table" and node or {}) do
    if type(part) == "table" then
      replace(list, i, 1, part)
      if differs(tree) then return true end
      replace(list, i, #part, { node })
    end
  end
  return false
end

local function shrink(tree)
  local again, rounds = true, 0
  while again and rounds < 6 do
    again, rounds = false, rounds + 1
    for _, place in ipairs(gen.places(tree)) do
      if shrink_at(tree, place[1], place[2]) then again = true end
    end
  end
  return tree
end

--- want and got: the accounts that differed at first, for programs that do so once only.
local function report(tree, want, got)
  local text = gen.render(shrink(tree))
  print(text)
  local ok, now, plain, compiled = pcall(check, text)
  if not ok then return print(now) end
  if now then want, got = plain, compiled else print "it no longer differs; at first:" end
  if not want or not got then return end
  local at = 1
  while want:sub(at, at) == got:sub(at, at) do at = at + 1 end
  at = math.max(1, at - 60)
  print(("%s\nplain:    %s\ncompiled: %s"):format(now or "", readable(want:sub(at, at + 160), 1000),
    readable(got:sub(at, at + 160), 1000)))
end

-- --- counting

-- What jit.explain tells about captures.
local function count(f)
  local e = ty.explain(f)
  counts.captures = counts.captures + (e.captures or 0)
  counts.skips = counts.skips + (e.skips or 0)
  local instances = 0
  for _, t in ipairs(e.traces) do
    instances = instances + t.instances
    local bounded = table.concat(t.guards, "\n"):find("with a plan for each value", 1, true)
    if t.instances > 1 and bounded then counts.bounded = counts.bounded + 1 end
  end
  counts.played = counts.played + math.max(0, instances - e.captures) -- all others were evaluated
  if #e.parts > 0 then counts.parts = counts.parts + 1 end
  for _, part in ipairs(e.parts) do counts.linked = counts.linked + (part.linked or 0) end
  if (e.captures or 0) > 0 then counts.captured = counts.captured + 1 end
  if (e.skips or 0) > 0 then counts.skipping = counts.skipping + 1 end
  for _, a in ipairs(e.aborts or {}) do
    local reason = tostring(a.reason):gsub("%d+", "N")
    counts.aborts[reason] = (counts.aborts[reason] or 0) + (a.count or 1)
  end
end

local function print_aborts(most)
  local reasons = {}
  for reason in pairs(counts.aborts) do reasons[#reasons + 1] = reason end
  table.sort(reasons, function(a, b)
    local m, n = counts.aborts[a], counts.aborts[b]
    if m ~= n then return m > n end
    return a < b
  end)
  for i = 1, math.min(#reasons, most) do
    print(("%7d  %s"):format(counts.aborts[reasons[i]], reasons[i]))
  end
end

require("tycho.capture.parts").FEW = 0 -- all are kept, also where they do little

local fuzz = frame.fuzzer("fuzz_lua", 20000, {
  make = gen.make, show = gen.render, report = report,
  check = function(tree) return check(gen.render(tree)) end,
  passed = function(_, _, f) count(f) end,
})
fuzz:run(4000)

-- The counters that make the run worth something.
local programs, calls = fuzz.programs, counts.calls
fuzz:claim(fuzz.failures == 0, "%d programs differ between plain and compiled", fuzz.failures)
if fuzz:ran(1000) then
  fuzz:claim(counts.raised < 0.25 * calls, "%d of %d calls raise, fewer than a quarter", counts.raised, calls)
  fuzz:claim(counts.captured >= 0.5 * programs, "%d of %d programs were captured, at least half", counts.captured, programs)
  fuzz:claim(counts.skips >= 0.45 * calls, "%d of %d calls skipped Lua, at least 45 in 100", counts.skips, calls)
  fuzz:claim(counts.played >= 0.2 * programs, "%d sets of sizes were replayed, one for each five programs", counts.played)
  fuzz:claim(counts.bounded >= 0.01 * programs, "%d traces have numbers as sizes, one for each hundred programs", counts.bounded)
  fuzz:claim(counts.parts >= 0.06 * programs, "%d programs are in parts, 6 of a hundred", counts.parts)
  fuzz:claim(counts.linked >= 0.2 * programs, "%d parts were entered without Lua, one for each five programs", counts.linked)
  fuzz:claim(counts.wrong_steps < 0.02 * calls, "%d steps between calls raise", counts.wrong_steps)
end
print(("fuzz_lua: %d programs, seed %d: %d compiled calls, %d raise; captures %d, in %d programs; %d sets of sizes replayed, "
  .. "%d traces with numbers as sizes")
  :format(programs, fuzz.seed, calls, counts.raised, counts.captures, counts.captured, counts.played,
    counts.bounded)
  .. (", %d in parts, of which %d were entered without Lua"):format(counts.parts, counts.linked)
  .. ("; %d calls answered without Lua, in %d programs; %.0f s"):format(counts.skips, counts.skipping, fuzz:seconds()))
print_aborts(fuzz.only and 100 or 12)
fuzz:leave()
