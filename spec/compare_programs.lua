--- compare_programs.lua -- do programs do the same under the evaluator (evaluate_all.lua) as they do natively?
-- In: luajit spec/compare_programs.lua [--seconds N] [--verbose] FOLDER-OR-PROGRAM... Each program, a file .lua, runs in
-- its folder both ways. Out: a line for each that differs in what it writes to stdout, in its exit status or in the first
-- line that it writes to stderr; then how many there are, and the counters of evaluate_all.lua added up. Addresses count
-- as equal. Left out, and counted, are programs that take longer natively than a tenth of the time, and those whose
-- output is another each time.

local SECONDS, verbose, places = 60, false, {}
local at = 1
while arg[at] do
  if arg[at] == "--seconds" then
    at = at + 1
    SECONDS = tonumber(arg[at])
  elseif arg[at] == "--verbose" then
    verbose = true
  else
    places[#places + 1] = arg[at]
  end
  at = at + 1
end

local function output_of(command)
  local p = assert(io.popen(command))
  local text = p:read "*a"
  p:close()
  return text
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local ROOT = output_of("cd " .. quote(arg[0]:match("^(.*)spec/[^/]*$") or ".") .. " && pwd"):match("[^\n]+")
local errors = os.tmpname()

local function read(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

--- Runs a program; gives its output with its status, and what it wrote to stderr.
local function run(program, mode, seconds)
  local folder, file = program:match("^(.*)/([^/]*)$")
  local out = output_of(("cd %s && TYCHO_EVAL=%s timeout -k 2 %d %s/tycho %s 2>%s </dev/null; echo \"status $?\""):format(
    quote(folder), mode, seconds, quote(ROOT), quote(file), errors))
  return out, read(errors)
end

local function plain(text) return (text:gsub("0x%x+", "0x")) end

local function first_line(text) return text:match("^[^\n]*") end

local counters = { 0, 0, 0, 0 }

--- Takes the line of counters out of what a program wrote to stderr.
local function take_counters(text)
  return (text:gsub("evaluated (%d+) functions in (%d+) calls, aborted (%d+), skipped (%d+)\n", function(...)
    for k = 1, 4 do counters[k] = counters[k] + tonumber((select(k, ...))) end
    return ""
  end))
end

local function first_difference(a, b)
  local line = 0
  local other = b:gmatch("([^\n]*)\n")
  for text in a:gmatch("([^\n]*)\n") do
    line = line + 1
    local own = other()
    if own ~= text then return ("line %d: %s | %s"):format(line, text:sub(1, 100), own and own:sub(1, 100) or "(nothing)") end
  end
  return "more is written"
end

local total, differ, left_out = 0, 0, 0

local function compare(program)
  local want, want_errors = run(program, "", math.max(1, math.floor(SECONDS / 10)))
  local slow = want:find("status 124\n$") or want:find("status 137\n$")
  local again, again_errors
  if not slow then again, again_errors = run(program, "", SECONDS) end
  if slow or plain(want) ~= plain(again) or plain(first_line(want_errors)) ~= plain(first_line(again_errors)) then
    left_out = left_out + 1
    if verbose then print(("%s: %s"):format(program, slow and "takes too long" or "is another each time")) end
    return
  end
  total = total + 1
  local got, got_errors = run(program, "all", SECONDS)
  got_errors = take_counters(got_errors)
  want, got, want_errors, got_errors = plain(want), plain(got), plain(want_errors), plain(got_errors)
  local why
  if want ~= got then
    why = first_difference(want, got)
  elseif first_line(want_errors) ~= first_line(got_errors) then
    why = ("stderr: %s | %s"):format(first_line(want_errors), first_line(got_errors))
  end
  if why then
    differ = differ + 1
    print(("%s: %s"):format(program, why))
    if verbose then io.write(got_errors, "\n") end
    io.flush()
  end
end

for _, place in ipairs(places) do
  for program in output_of("find " .. quote(place) .. " -name '*.lua' | sort"):gmatch("[^\n]+") do compare(program) end
end
os.remove(errors)
print(("%d programs, %d differ, %d left out; evaluated %d functions in %d calls, aborted %d, skipped %d"):format(total, differ, left_out,
  unpack(counters)))
os.exit(differ == 0 and 0 or 1)
