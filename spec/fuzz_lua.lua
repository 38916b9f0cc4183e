-- Random Lua functions, plain against compiled: results, effects, errors, order of prints, over several calls.
--   luajit spec/fuzz_lua.lua [programs = 20000] [seed = another each time] [only this program]
-- A program (fuzz_world.lua) is source text. It is loaded twice, which gives two equal worlds; in one its `main` is
-- called as it is, in the other through jit.compile, several times, with the same changes of the world in between.
-- After each call everything is written down: results, bits of tensors, which tables and tensors are the same object, error
-- texts, the log, what was printed; after every second and the last one the whole outside world. Both accounts must be equal.
-- A failure is shrunk and printed with its number: the third argument repeats it.

local ty = require "tycho"
local ffi = require "ffi"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, gen = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_world.lua")
local readable = frame.readable

-- --- writing down what is seen

local buffer = ffi.new("uint8_t[65536]")
local bytes_of = { bool = 1, u8 = 1, i8 = 1, i16 = 2, i32 = 4, i64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }
local bits_of = { [2] = ffi.typeof "uint16_t *", [4] = ffi.typeof "uint32_t *", [8] = ffi.typeof "uint64_t *" }
local sign_of = { f16 = 0x8000, bf16 = 0x8000, f32 = 0x80000000, f64 = 0x8000000000000000ULL }
local nan_above = { f16 = 0x7c00, bf16 = 0x7f80, f32 = 0x7f800000, f64 = 0x7ff0000000000000ULL }

local address = ty.internals.address

-- Bits of a tensor as a Lua string, every NaN the same. Reads a copy: an address that left would change what is tested.
local function image(t, dtype)
  local c = (t.requires_grad and t:detach() or t):clone()
  local size = bytes_of[dtype]
  local bytes = c:numel() * size
  if bytes == 0 or bytes > 65536 then return tostring(bytes) end
  ffi.copy(buffer, ffi.cast("void *", (address(c))), bytes)
  c:release()
  local sign, limit = sign_of[dtype], nan_above[dtype]
  if limit then
    local p = ffi.cast(bits_of[size], buffer)
    for i = 0, bytes / size - 1 do
      local v = p[i]
      if v >= sign then v = v - sign end
      if v > limit then p[i] = limit + 1 end
    end
  end
  return ffi.string(buffer, bytes)
end

-- What never changes about a tensor.
local kinds = setmetatable({}, { __mode = "k" })

local function kind_of(t)
  local kind = kinds[t]
  if not kind then
    kind = { t.dtype, t.dtype .. " " .. table.concat(t.shape, "x") .. " " }
    kinds[t] = kind
  end
  return kind
end

local number_text, texts = {}, 0

local function plain_number(v)
  if v ~= v then return "nan" end
  if v == 0 then return 1 / v > 0 and "0" or "-0" end
  local text = number_text[v]
  if not text then
    text = ("%.17g"):format(v)
    if texts > 4000 then number_text, texts = {}, 0 end
    number_text[v], texts = text, texts + 1
  end
  return text
end

local Account = {} -- what is known about one moment: out = pieces of text, seen = object -> its number
Account.__index = Account

-- Keys in the table's own order: equal strings have equal hashes in both worlds. Where objects are keys their addresses
-- decide: then in an order that does not depend on the table.
local function keys_of(t)
  local own, numbers, names, others = {}, {}, {}, {}
  for k in pairs(t) do
    local list = type(k) == "number" and numbers or type(k) == "string" and names or others
    list[#list + 1], own[#own + 1] = k, k
    if type(k) ~= "number" and type(k) ~= "string" and type(k) ~= "boolean" then own.addresses = true end
  end
  if not own.addresses then return own end
  table.sort(numbers)
  table.sort(names)
  table.sort(others, function(a, b) return tostring(a) < tostring(b) end)
  for _, k in ipairs(names) do numbers[#numbers + 1] = k end
  for _, k in ipairs(others) do numbers[#numbers + 1] = k end
  return numbers
end

function Account:add(text) self.out[#self.out + 1] = text end

function Account:table(v)
  self:add("{" .. #v .. ":")
  for _, k in ipairs(keys_of(v)) do
    self:value(k)
    self:add "="
    self:value(v[k])
  end
  self:add "|"
  self:value(getmetatable(v))
  self:add "}"
end

--- Writes a value down; objects by number, so that two mentions of one are told from two equal ones.
function Account:value(v)
  local kind = type(v)
  if kind == "number" then return self:add(plain_number(v)) end
  if kind == "string" then return self:add((("%q"):format(v):gsub("-nan", "nan"):gsub("0x%x+", "0x"))) end
  if kind == "nil" or kind == "boolean" then return self:add(tostring(v)) end
  local id = self.seen[v]
  if id then return self:add("#" .. id) end
  self.count = self.count + 1
  self.seen[v] = self.count
  if kind == "table" then return self:table(v) end
  if ty.is_tensor(v) then
    local known = kind_of(v)
    self:add(known[2])
    self:add(image(v, known[1]))
    if not v.requires_grad then return end
    self:add(v.is_leaf and " leaf, " or " with a past")
    if v.is_leaf then self:value(v.grad) end
    return
  end
  self:add(kind)
end

function Account:list(...)
  for i = 1, select("#", ...) do
    self:value((select(i, ...)))
    self:add ", "
  end
end

local function account() return setmetatable({ out = {}, seen = {}, count = 0 }, Account) end

-- --- running

local function pack(...) return { n = select("#", ...), ... } end

--- A small tensor of quarters that depends on the seed alone.
local function fresh(seed, ...)
  local n = 1
  for i = 1, select("#", ...) do n = n * select(i, ...) end
  local data = {}
  for i = 1, n do data[i] = ((seed * 37 + i * 53) % 29 - 14) / 4 end
  return ty.tensor(data):reshape(...)
end

local libraries = { "math", "string", "table", "bit", "coroutine", "debug", "type", "tostring", "tonumber", "pairs", "ipairs",
  "next", "select", "pcall", "error", "rawget", "rawset", "rawequal", "setmetatable", "getmetatable", "unpack", "assert",
  "collectgarbage", "loadstring", "getfenv", "setfenv" }

local function environment()
  local env = { ty = ty }
  for _, name in ipairs(libraries) do env[name] = _G[name] end
  return env
end

local function itself(f) return f end

-- A C function that nothing knows: what it is given goes to a list.
local function recorder(list)
  local say = coroutine.wrap(function(...)
    local v = ...
    while true do
      list[#list + 1] = plain_number(tonumber(v) or 0) .. tostring(v)
      v = coroutine.yield()
    end
  end)
  return say
end

local function in_coroutine(f, ...)
  local co = coroutine.create(f)
  local results = pack(coroutine.resume(co, ...))
  while coroutine.status(co) == "suspended" do results = pack(coroutine.resume(co)) end
  return unpack(results, 1, results.n)
end

local counts = { calls = 0, raised = 0, wrong_steps = 0, captured = 0, captures = 0, skips = 0, skipping = 0,
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
  if compiled then
    counts.calls = counts.calls + 1
    if not results[1] then counts.raised = counts.raised + 1 end
  end
  return results
end

--- Runs a program over a fresh world. Returns the accounts of its calls, and the compiled function.
local function run(text, compiled)
  local chunk = assert(loadstring(text, "=program"))
  setfenv(chunk, environment())
  if jit.off then jit.off(chunk, true) end -- LuaJIT 2.1.0-beta3 miscompiles `(...)` in some traces
  local said, mode, accounts = {}, {}, {}
  ty.manual_seed(7)
  local main, steps, roots, log = chunk(ty, compiled and ty.compile or itself, recorder(said), mode, fresh)
  assert(type(main) == "function", "no program: what is left after shrinking has no main")
  local f = compiled and ty.compile(main) or main
  local prev, older
  for i, step in ipairs(steps) do
    for k = #log, 1, -1 do log[k] = nil end
    local results = one_call(f, step, prev, mode, compiled)
    local a = account()
    a:list(unpack(results, 1, results.n))
    a:list(log)
    if i % 2 == 0 or i == #steps then a:list(roots()) end
    if prev then a:list(unpack(prev, 1, prev.n)) end
    if older then a:list(unpack(older, 1, older.n)) end
    a:add(table.concat(said, ";"))
    accounts[i] = table.concat(a.out)
    prev, older = results, prev
  end
  accounts[#accounts + 1] = image(ty.rand(2), "f32") -- the stream of random numbers stands where it must
  return accounts, f
end

--- What differs between both runs: text, or nil.
local function check(text)
  local want = run(text, false)
  local got, f = run(text, true)
  for i = 1, math.max(#want, #got) do
    if want[i] ~= got[i] then
      return ("call %d differs"):format(i), want[i] or "nothing", got[i] or "nothing"
    end
  end
  return nil, f
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

local function report(tree)
  local text = gen.render(shrink(tree))
  print(text)
  local ok, now, want, got = pcall(check, text)
  if not ok or not now then return print(ok and "it no longer differs" or now) end
  local at = 1
  while want:sub(at, at) == got:sub(at, at) do at = at + 1 end
  at = math.max(1, at - 60)
  print(("%s\nplain:    %s\ncompiled: %s"):format(now, readable(want:sub(at, at + 160), 1000),
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
    if t.instances > 1 and table.concat(t.guards, "\n"):find("is one more size", 1, true) then counts.bounded = counts.bounded + 1 end
  end
  counts.played = counts.played + math.max(0, instances - e.captures) -- all others were evaluated
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
  fuzz:claim(counts.skips >= 0.5 * calls, "%d of %d calls skipped Lua, at least half", counts.skips, calls)
  fuzz:claim(counts.played >= 0.2 * programs, "%d sets of sizes were played, one for each five programs", counts.played)
  fuzz:claim(counts.bounded >= 0.02 * programs, "%d traces have numbers as sizes, one for each fifty programs", counts.bounded)
  fuzz:claim(counts.wrong_steps < 0.02 * calls, "%d steps between calls raise", counts.wrong_steps)
end
print(("fuzz_lua: %d programs, seed %d: %d compiled calls, %d raise; captures %d, in %d programs; %d sets of sizes played, "
  .. "%d traces with numbers as sizes")
  :format(programs, fuzz.seed, calls, counts.raised, counts.captures, counts.captured, counts.played,
    counts.bounded)
  .. ("; %d calls answered without Lua, in %d programs; %.0f s"):format(counts.skips, counts.skipping, fuzz:seconds()))
print_aborts(fuzz.only and 100 or 12)
fuzz:leave()
