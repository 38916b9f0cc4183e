--- gpu_bits.lua -- results of the device "cuda" beside the CPU's, one by one:
--    luajit spec/gpu_bits.lua [GROUP ... | GROUP:NUMBER | list]
-- In: groups of results.lua, all unless named; the driver that TYCHO_CUDA_DRIVER names, else the software GPU. Out: a line for each
-- group; of each result that differs its number, both bits, the program. `list` prints the groups' names. Exit status 1 where one differs.
-- GROUP:NUMBER computes that result alone and prints its loop programs; with TYCHO_CUDA_PTX=FOLDER the PTX of its kernels is kept.

local ffi = require "ffi"
local group_asked, number_asked = (arg[1] or ""):match "^(.*):(%d+)$"
number_asked = tonumber(number_asked)
if number_asked then
  ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
  ffi.C.setenv("TYCHO_DUMP", "l", 1) -- read where the library is loaded
end
local H = require "spec.helper"
local ty = H.ty
local MOST = 5 -- of a group's differences that are told in full

local wanted, number, known -- of a group: the CPU's results by number, nil while they are made; the number of what comes next
local counted, differ

local function described(f, arguments)
  local ok, graph = pcall(jit.graph, f, unpack(arguments))
  if not ok then return "no graph: " .. tostring(graph) end
  return graph.text or graph[1] and graph[1].text or "no graph"
end

local function bad(text, f, arguments)
  differ = differ + 1
  if differ > MOST then return end
  print(("%s: %s"):format(known, text))
  if f then print("  program: " .. described(f, arguments):gsub("\n", "\n  ")) end
end

--- What comes next, told by that name: nil where it is not asked for.
local function next_number(way)
  number = number + 1
  known = ("%s, %s"):format(number, way)
  return not number_asked or number == number_asked
end

local function held(...) -- copies that later writes do not touch
  local list = { ... }
  for i, t in ipairs(list) do list[i] = t:to "cpu":clone() end
  return list
end

local function compare(got, f, arguments)
  if ty.device() == "cpu" then
    wanted[number] = got
    return
  end
  counted = counted + 1
  local want = wanted[number]
  if not want then return bad("the CPU has no such result", f, arguments) end
  for i = 1, math.max(#want, #got) do
    local what = not (want[i] and got[i]) and "it has another number of results" or H.difference(want[i], got[i])
    if what then return bad(("result %d, %s"):format(i, what), f, arguments) end
  end
end

local function add(...)
  if next_number "in order" then compare(held(...)) end
end

--- One result, of a seed that is its number: it is the same alone.
local function one_way(way, f, ...)
  if not next_number(way) then return end
  ty.manual_seed(number)
  local ok, got = pcall(function(...) return held(f(...)) end, ...)
  if ok then return compare(got, f, { ... }) end
  if ty.device() == "cpu" then error(got, 0) end
  counted = counted + 1
  bad("raises " .. tostring(got), f, { ... })
end

local function both(f, ...)
  one_way("eager", f, ...)
  one_way("compiled", ty.compile(f), ...)
end

local groups, order = dofile(H.root .. "spec/results.lua")(add, both)
if arg[1] == "list" then
  print(table.concat(order, "\n"))
  os.exit(0)
end
local cuda = require "spec.cuda"
if not cuda.loaded then
  io.stderr:write("spec/gpu_bits.lua: ", cuda.why, "\n")
  os.exit(1)
end

local failed = 0
for _, name in ipairs(number_asked and { group_asked } or arg[1] and arg or order) do
  assert(groups[name], ("spec/gpu_bits.lua: there is no group %s: luajit spec/gpu_bits.lua list"):format(name))
  wanted, counted, differ = {}, 0, 0
  for _, device in ipairs { "cpu", "cuda" } do
    number = 0
    assert(ty.device(device))
    local ok, why = pcall(groups[name])
    if not ok then bad(("%s: the group ends early: %s"):format(device, tostring(why))) end
  end
  if differ > MOST then print(("%d more"):format(differ - MOST)) end
  print(("%s: %d results, %d differ from the CPU's"):format(name, counted, differ))
  io.flush()
  failed = failed + differ
end
os.exit(failed == 0 and 0 or 1)
