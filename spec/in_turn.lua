--- in_turn.lua -- commands one after another or some at a time, each with a limit, a line when it begins and one when it has ended; a
-- table of all at the end.
-- In: the folder where what they print is kept; what stands before each command (variables for env); options:
--   jobs     so many of the commands that are added run at a time, 1 unless said
--   limit    seconds after which a command has hung, and is ended: 600 unless said
--   minutes  what all may take together: what then runs is cut off, what has not begun is skipped. No limit unless said
--   alive    a command that is run where one has hung, 60 s at most: where it fails, all that has not begun is skipped
--   look     called with a row that has failed: list of {what, command} that tell more of it, run at once, 120 s each
-- Out: {step, skip, add, drain, share, finish}. A command that fails keeps no later one from running. FOLDER/results.txt has the lines
-- of what has ended so far.
-- Results: passed; FAILED, also where the limit was reached; cut off: of the time for all; skipped.

local ffi = require "ffi"
ffi.cdef [[
extern char **environ;
int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes, const char *const *words, char **environment);
int waitpid(int pid, int *status, int options);
int usleep(unsigned microseconds);
]]
local NO_WAIT, TOLD = 1, 30 -- what still runs is told of every so many seconds

-- A command ends with its parent, where util-linux has what sees to that.
local bound = os.execute "setpriv --pdeathsig TERM true 2>/dev/null"
bound = (bound == 0 or bound == true) and "setpriv --pdeathsig TERM " or ""

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

--- Begins `command`, with its output in a file; it is ended after so many seconds. Out: the process.
local function spawn(command, log, seconds)
  local line = ("exec %stimeout -k 5 %d sh -c %s >%s 2>&1 </dev/null"):format(bound, math.max(1, seconds), quoted(command), quoted(log))
  local pid, words = ffi.new "int[1]", ffi.new("const char *[4]", { "sh", "-c", line })
  assert(ffi.C.posix_spawn(pid, "/bin/sh", nil, nil, words, ffi.C.environ) == 0, "no process can be made")
  return pid[0]
end

--- nil while a process runs, then its exit status; 128 + n where signal n has ended it.
local function ended(pid)
  local status = ffi.new "int[1]"
  local gone = ffi.C.waitpid(pid, status, NO_WAIT)
  if gone == 0 then return nil end
  assert(gone == pid, "a process is not to be waited for: SIGCHLD is ignored here")
  local signal = bit.band(status[0], 127)
  return signal > 0 and 128 + signal or bit.rshift(status[0], 8)
end

local function wait_for(pid)
  local status = ended(pid)
  while not status do
    ffi.C.usleep(20000)
    status = ended(pid)
  end
  return status
end

local function lines_of(file)
  local lines, f = {}, io.open(file, "rb")
  for text in f and f:lines() or function() end do
    if text:find "%S" then lines[#lines + 1] = text end
  end
  if f then f:close() end
  return lines
end

return function(folder, environment, options)
  options = options or {}
  local M, rows, counts = {}, {}, { passed = 0, FAILED = 0, skipped = 0, ["cut off"] = 0 }
  local jobs, started = options.jobs or 1, os.time()
  local deadline = options.minutes and started + options.minutes * 60
  local share_end = deadline
  local waiting, running = {}, {}
  local dead = false
  os.execute(("mkdir -p '%s'"):format(folder))
  local results = assert(io.open(folder .. "/results.txt", "w"))
  results:setvbuf "no"

  local function say(text)
    print(text)
    io.stdout:flush()
  end

  local function row(what, result, seconds, said)
    counts[result] = counts[result] + 1
    rows[#rows + 1] = ("%-44s %-8s %6.0f s  %s"):format(what, result, seconds, said)
    results:write(rows[#rows], "\n")
    say(rows[#rows])
  end

  local function file_of(what) return ("%s/%s"):format(folder, (what:gsub("%W+", "_"))) end

  local function left() return dead and 0 or share_end and share_end - os.time() or math.huge end

  local function begin(job)
    local limit = job.limit or options.limit or 600
    job.from, job.told, job.seconds, job.cut = os.time(), os.time(), math.min(limit, left()), left() < limit
    job.log = file_of(job.what) .. ".txt"
    running[#running + 1] = job
    say(("%s %s"):format(os.date "%H:%M:%S", job.what))
    job.pid = spawn(("env %s %s"):format(environment, job.command), job.log, job.seconds)
  end

  --- What tells more of a failure, in a folder of its own.
  local function look(job, lines)
    for i, more in ipairs(options.look and left() >= 2 and options.look(job, lines) or {}) do
      local at = ("%s.failed/%d"):format(file_of(job.what), i)
      os.execute(("rm -rf '%s'; mkdir -p '%s'"):format(at, at))
      local pid = spawn(("env %s TYCHO_CACHE=off TYCHO_CUDA_PTX='%s' %s"):format(environment, at, more.command), at .. "/output.txt",
        math.min(120, left()))
      wait_for(pid)
      say(("    %s: %s/output.txt, and the PTX of its kernels beside it"):format(more.what, at))
    end
  end

  --- After a command that has hung: whether there is any use in others.
  local function see_whether_alive()
    if dead or not options.alive then return end
    dead = wait_for(spawn(("env %s %s"):format(environment, options.alive), file_of "alive" .. ".txt",
      math.min(60, math.max(5, left())))) ~= 0
    if dead then say(("    nothing answers any more, the rest is skipped: %s.txt"):format(file_of "alive")) end
  end

  local function finish_job(job, status)
    local lines = lines_of(job.log)
    local last, seconds = lines[#lines] or "", os.time() - job.from
    local hung = (status == 124 or status == 137) and seconds >= job.seconds - 1
    job.ok = status == 0
    if hung and job.cut then return row(job.what, "cut off", seconds, "no time was left; so far: " .. job.log) end
    if job.ok then return row(job.what, last:find(": skipped, ", 1, true) and "skipped" or "passed", seconds, last) end
    row(job.what, "FAILED", seconds, hung and ("no end within %d s: %s"):format(job.seconds, job.log)
      or ("status %d: %s"):format(status, job.log))
    for i = math.max(1, #lines - 15), #lines do say("    " .. lines[i]:sub(1, 400)) end
    if hung then see_whether_alive() else look(job, lines) end
  end

  local function watch()
    ffi.C.usleep(20000)
    for i = #running, 1, -1 do
      local job = running[i]
      local status = ended(job.pid)
      if status then
        table.remove(running, i)
        finish_job(job, status)
      elseif os.time() - job.told >= TOLD then
        job.told = os.time()
        say(("%s ... %s, %d s so far"):format(os.date "%H:%M:%S", job.what, os.time() - job.from))
      end
    end
  end

  --- A command that runs with others when `drain` is called. limit: its own, in seconds.
  function M.add(what, command, limit) waiting[#waiting + 1] = { what = what, command = command, limit = limit } end

  --- Runs what was added, until all of it has ended.
  function M.drain()
    while waiting[1] or running[1] do
      while waiting[1] and #running < jobs do
        local job = table.remove(waiting, 1)
        if left() >= 2 then begin(job) else row(job.what, "skipped", 0, dead and "nothing answers" or "no time was left") end
      end
      if running[1] then watch() end
    end
  end

  --- Runs a command alone. Its last line is told, where it fails the last ones; ": skipped, " in the last one says that nothing was done.
  --- Out: whether it passed.
  function M.step(what, command, limit)
    M.drain()
    M.add(what, command, limit)
    local job = waiting[1]
    M.drain()
    return job.ok or false
  end

  function M.skip(what, why) row(what, "skipped", 0, why) end

  --- What begins from here on ends at that part of the minutes, so that later steps have theirs; 1: all of them.
  function M.share(part) share_end = deadline and started + options.minutes * 60 * part end

  --- The table, the counts; ends the process, with status 1 where a step has failed.
  function M.finish()
    M.drain()
    say("\n" .. table.concat(rows, "\n"))
    local text = ("%d passed, %d failed, %d skipped"):format(counts.passed, counts.FAILED, counts.skipped + counts["cut off"])
    if counts["cut off"] > 0 then say(counts["cut off"] .. " of what was skipped had begun, and was cut off when the minutes were over") end
    results:write(text, "\n")
    say(text)
    os.exit(counts.FAILED == 0 and 0 or 1)
  end
  return M
end
