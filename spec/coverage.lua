-- What specs and fuzzers never run, of core/ (gcov) and of lua/ (lines.c): `make coverage`.
--   luajit spec/coverage.lua BUILD
-- In: a build whose objects count, and what they and lines.c have counted. Out: lines and branches by folder, the longest
-- stretches that never ran, and each line of these in BUILD/never.txt. A line of a header counts as run where it ran in
-- any file.

local util = require "jit.util"
local run = require("spec.module").run

local BUILD, LONGEST = assert(arg[1], "spec/coverage.lua BUILD"), 25

--- By path: {[line] = whether it ran}, branches and those never taken.
local files = {}

local function file_of(path)
  files[path] = files[path] or { ran = {}, last = 0, branches = 0, never = 0 }
  return files[path]
end

local function note(file, line, ran)
  file.ran[line] = file.ran[line] or ran
  file.last = math.max(file.last, line)
end

-- --- C, as gcov writes it

local function read_gcov(object)
  local file
  for line in run(("gcov -t -b -c -o '%s' '%s' 2>/dev/null"):format(object:match "(.*)/", object)):gmatch "[^\n]+" do
    local count, number, text = line:match "^ *([^:]+): *(%d+):(.*)$"
    if number == "0" then
      local path = text:match "^Source:(.*)"
      if path then file = (path:find "^core/" or path:find "^kernels/") and file_of(path) or nil end
    elseif number and file and count ~= "-" then
      note(file, tonumber(number), not count:find "^[#=]")
    elseif file and line:find "^branch" then
      file.branches = file.branches + 1
      if line:find "never executed" or line:find "taken 0 " or line:find "taken 0$" then file.never = file.never + 1 end
    end
  end
end

-- --- Lua: lines that have instructions, and those that ran

local function add_lines(file, proto)
  local info = util.funcinfo(proto)
  for pc = 1, info.bytecodes - 1 do note(file, util.funcinfo(proto, pc).currentline, false) end
  local k = -1
  local constant = util.funck(proto, k)
  while constant ~= nil do
    if type(constant) == "proto" then add_lines(file, constant) end
    k = k - 1
    constant = util.funck(proto, k)
  end
end

local function read_lua()
  for path in run("ls lua/tycho/*.lua lua/tycho/*/*.lua"):gmatch "[^\n]+" do
    local runs = not path:find "annotations%.lua$" and not path:find "/meta%.lua$"
    if runs then add_lines(file_of(path), assert(loadfile(path))) end
  end
  for line in run(("cat '%s'/lines/*"):format(BUILD)):gmatch "[^\n]+" do
    local path, number = line:match "^(.*) (%d+)$"
    local file = files["lua/tycho/" .. path]
    number = tonumber(number)
    if file and file.ran[number] == false then file.ran[number] = true end
  end
end

-- --- the report

local function sorted(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  return keys
end

--- Lines of a file, those that never ran, and stretches of these that no line that ran parts.
local function measure(path, file, stretches)
  local lines, never, open = 0, 0, nil
  for i = 1, file.last do
    local ran = file.ran[i]
    if ran ~= nil then
      lines = lines + 1
      if ran then
        open = nil
      else
        never = never + 1
        open = open or { path = path, from = i, n = 0 }
        if open.n == 0 then stretches[#stretches + 1] = open end
        open.n, open.to = open.n + 1, i
      end
    end
  end
  return lines, never
end

local function print_row(name, row)
  local function share(n, never) return n > 0 and ("%6.1f %%"):format(100 * (n - never) / n) or "       -" end
  print(("%-24s %8d %8d %s %10d %8d %s"):format(name, row.lines, row.never, share(row.lines, row.never), row.branches,
    row.untaken, share(row.branches, row.untaken)))
end

local function new_row() return { lines = 0, never = 0, branches = 0, untaken = 0 } end

local function report()
  local folders, stretches, all = {}, {}, new_row()
  for _, path in ipairs(sorted(files)) do
    local file = files[path]
    local lines, never = measure(path, file, stretches)
    local folder = path:match "^(.*)/"
    folders[folder] = folders[folder] or new_row()
    for _, row in ipairs { folders[folder], all } do
      row.lines, row.never = row.lines + lines, row.never + never
      row.branches, row.untaken = row.branches + file.branches, row.untaken + file.never
    end
  end
  print(("%-24s %8s %8s %8s %10s %8s %8s"):format("folder", "lines", "never", "run", "branches", "never", "taken"))
  for _, folder in ipairs(sorted(folders)) do print_row(folder, folders[folder]) end
  print_row("all", all)
  table.sort(stretches, function(a, b)
    if a.n ~= b.n then return a.n > b.n end
    return a.path .. ("%6d"):format(a.from) < b.path .. ("%6d"):format(b.from)
  end)
  print "\nlongest stretches that never ran"
  for i = 1, math.min(LONGEST, #stretches) do
    local s = stretches[i]
    print(("%5d lines  %s:%d-%d"):format(s.n, s.path, s.from, s.to))
  end
end

--- Every line that never ran, with its text.
local function write_never(name)
  local out = assert(io.open(name, "w"))
  for _, path in ipairs(sorted(files)) do
    local ran, number = files[path].ran, 0
    for line in io.lines(path) do
      number = number + 1
      if ran[number] == false then out:write(path, ":", number, ": ", line, "\n") end
    end
  end
  out:close()
  print("\nall of them: " .. name)
end

-- Objects that nothing loaded have notes alone, of which gcov says that no line ran.
for object in run(("find '%s/obj' -name '*.gcno' | sort"):format(BUILD)):gmatch "[^\n]+" do read_gcov(object) end
read_lua()
report()
write_never(BUILD .. "/never.txt")
