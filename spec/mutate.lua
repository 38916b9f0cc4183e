-- Plants faults one by one and tells which of them the tests catch: `make mutate`, or
--   luajit spec/mutate.lua [only mutants whose file or number fits this, or numbers from-to] [only these tests, in this order]
-- In: the table of mutants (mutants.lua), each an exact substitution. Out: a table of what caught each; fails when fewer
-- than nine in ten are caught, when a substitution no longer fits its file, when a mutant does not build, and when the
-- tests fail without any fault. All happens in a copy of the tree under build/mutate.

local mutants = dofile "spec/mutants.lua"

local ROOT, MARK = "build/mutate", 0.9

-- What is run, quickest first; the first that fails has caught the fault. A fault may hang: hence the limits of time.
local BUSTED = "busted --no-keep-going --lua=/usr/bin/luajit -o spec/report.lua --lpath='./?.lua' "
local tests = { { "fuzz_cells", "luajit spec/fuzz_cells.lua 300 1" }, { "fuzz_alias", "luajit spec/fuzz_alias.lua 300 1" },
  { "fuzz_lifetimes", "luajit spec/fuzz_lifetimes.lua 1000 1" }, { "fuzz_sizes", "luajit spec/fuzz_sizes.lua 600 1" },
  { "fuzz_lua", "luajit spec/fuzz_lua.lua 400 1" }, { "fuzz_grad", "luajit spec/fuzz_grad.lua 150 1" },
  { "fuzz_hooks", "luajit spec/fuzz_hooks.lua 300 1" }, { "fuzz_scan", "luajit spec/fuzz_scan.lua 60 1" },
  { "fuzz_forward", "luajit spec/fuzz_forward.lua 150 1" }, { "fuzz_keys", "luajit spec/fuzz_keys.lua 1500 1" },
  { "gpu_bits", "luajit spec/gpu_bits.lua maps conversions chains reductions scans moves random" } }

local function add_specs()
  local pipe = io.popen "ls spec"
  local there = {}
  for name in pipe:lines() do there[name] = true end
  pipe:close()
  for _, name in ipairs(mutants.specs) do
    local file = name .. "_spec.lua"
    if there[file] then tests[#tests + 1] = { name, BUSTED .. "spec/" .. file } end
  end
  tests[#tests + 1] = { "fuzz", "luajit spec/fuzz.lua 300 1" }
  tests[#tests + 1] = { "fuzz_grad, long", "luajit spec/fuzz_grad.lua 1000 2" }
  tests[#tests + 1] = { "fuzz_lua, long", "luajit spec/fuzz_lua.lua 4000 2" }
end

local function shell(command)
  local ok = os.execute(command)
  return ok == 0 or ok == true
end

local function read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

local function write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

local function occurrences(text, part)
  local n, at = 0, 1
  while true do
    local first, last = text:find(part, at, true)
    if not first then return n end
    n, at = n + 1, last + 1
  end
end

-- A copy of what is built and tested, with its objects, so that a mutant compiles one file.
local function copy_tree()
  assert(shell(("mkdir -p %s && cp -a Makefile core kernels lua spec examples bench docs README.md tycho %s/"):format(ROOT, ROOT)))
  assert(shell(("mkdir -p %s/build && cp -a build/obj build/tycho %s/build/"):format(ROOT, ROOT)))
  shell(("cp -a build/spec %s/build/ 2>/dev/null"):format(ROOT))
  assert(shell(("cd %s && make -s library >/dev/null"):format(ROOT)), "the copy does not build")
end

local log = ROOT .. "/last.log"

local function passes(test)
  return shell(([[cd %s && TYCHO_LOG=0 LUA_PATH="$PWD/build/?.lua;$PWD/build/?/init.lua;;" LUA_CPATH="$PWD/build/?.so;;" ]]
    .. [[timeout -k 2 120 %s >last.log 2>&1]]):format(ROOT, test[2]))
end

--- The name of the first test that fails, or nil.
local function caught_by()
  for _, test in ipairs(tests) do
    if not passes(test) then return test[1] end
  end
end

local function mutated(m, text)
  local first, last = text:find(m.from, 1, true)
  return text:sub(1, first - 1) .. m.to .. text:sub(last + 1)
end

local only = arg[1] ~= "" and arg[1] or nil

--- Whether a mutant is asked for.
local function asked(i, m)
  local from, to = (only or ""):match "^(%d+)%-(%d+)$"
  if from then return i >= tonumber(from) and i <= tonumber(to) end
  return not only or m.file:find(only, 1, true) or tonumber(only) == i
end

-- Every substitution that is asked for must fit exactly once, before anything is tried.
local function check_table()
  local wrong = 0
  for i, m in ipairs(mutants) do
    local n = occurrences(read(ROOT .. "/" .. m.file), m.from)
    if asked(i, m) and (n ~= 1 or m.from == m.to) then
      wrong = wrong + 1
      print(("mutant %d (%s: %s): found %d times, must be once:\n%s"):format(i, m.file, m.what, n, m.from))
    end
  end
  assert(wrong == 0, wrong .. " substitutions do not fit: bring spec/mutants.lua up to date")
end

-- Plants one fault, builds, tests, takes it back.
local function try(m)
  local path = ROOT .. "/" .. m.file
  local text = read(path) -- of the copy: the tree may go on meanwhile
  write(path, mutated(m, text))
  local built = shell(("cd %s && make -s library >last.log 2>&1"):format(ROOT))
  local by = built and caught_by()
  write(path, text)
  if not built then
    io.write(read(log))
    error("mutant does not build: " .. m.what)
  end
  return by
end

--- Of the tests those of these names, in their order.
local function choose(names)
  local by_name, chosen = {}, {}
  for _, test in ipairs(tests) do by_name[test[1]] = test end
  for name in names:gmatch "%S+" do chosen[#chosen + 1] = assert(by_name[name], "there is no test " .. name) end
  tests = chosen
end

copy_tree()
check_table()
add_specs()
if arg[2] then choose(arg[2]) end
local before = caught_by()
if before then
  io.write(read(log))
  error(("without any fault, %s fails"):format(before))
end

local started, caught, tried, missed = os.time(), 0, 0, {}
print(("%-4s %-26s %-16s %s"):format("", "file", "caught by", "fault"))
for i, m in ipairs(mutants) do
  if asked(i, m) then
    local by = try(m)
    tried = tried + 1
    if by then caught = caught + 1 else missed[#missed + 1] = i end
    print(("%-4d %-26s %-16s %s"):format(i, m.file, by or "NOTHING", m.what))
    io.flush()
  end
end
print(("mutate: %d of %d faults caught, %d s%s"):format(caught, tried, os.time() - started,
  #missed > 0 and "; not caught: " .. table.concat(missed, ", ") or ""))
local enough = caught >= MARK * tried and (only or #mutants >= 40)
print(("%d passed, %d failed"):format(caught, enough and 0 or #missed))
os.exit(enough and 0 or 1)
