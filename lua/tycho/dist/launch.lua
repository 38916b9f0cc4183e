--- dist/launch.lua -- `tycho --ranks N script`: starts local ranks by mpirun, and sees to it that all of them end.
-- In: how many, the words that each rank runs. Out: their output; the exit code of the first rank that failed, 0 where
-- none did, 130 after Ctrl-C. Raises where no mpirun is found.
--
-- mpirun starts one supervisor for each rank (rank.lua), on this machine; what they tell each other lies in a
-- directory of this run's. mpirun's own words go to a file, and are shown where it could not start the ranks.

local P = require "tycho.dist.process"

local here = debug.getinfo(1, "S").source:match "^@(.*)launch%.lua$"

local MPIRUNS = { "mpirun", "mpirun.openmpi", "mpiexec.mpich", "mpiexec.hydra", "mpiexec" }

--- What a command prints.
local function told(command)
  local pipe = io.popen(command .. " 2>&1 </dev/null")
  local text = pipe:read "*a"
  pipe:close()
  return text
end

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

--- mpirun's words for n ranks of this machine that may be more than its processors, bound to none, run by anyone.
local function mpirun_words(n)
  local named = os.getenv "TYCHO_MPIRUN"
  local list = named and named ~= "" and { named } or MPIRUNS
  for _, name in ipairs(list) do
    local version = told(quoted(name) .. " --version")
    if version:find "Open MPI" or version:find "OpenRTE" then
      return { name, "-n", n, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--host",
        "localhost:" .. n }
    end
    if version:find "HYDRA" or version:find "[Ii]ntel" then return { name, "-n", n, "-launcher", "fork" } end
  end
  error(("%s was not found: --ranks needs Open MPI or MPICH (on Debian: openmpi-bin or mpich)"):format(list[1]), 0)
end

--- Reads both pipes until they are empty.
local function pour(pipes)
  for _, p in ipairs(pipes) do
    local text = P.read(p.fd)
    while text and text ~= "" do
      p.to:write(text)
      text = P.read(p.fd)
    end
    p.to:flush()
  end
end

local STOP = 15 -- seconds after a signal in which ranks end by themselves; then mpirun is ended

local function all_ended(dir, n)
  for r = 0, n - 1 do
    if not P.read_file(("%s/status.%d"):format(dir, r)) then return false end
  end
  return true
end

--- Waits for mpirun. Gives the signal that ended the run, if one did.
local function supervise(pid, dir, n, pipes, signals)
  local files, stopped, since = { signals, pipes[1].fd, pipes[2].fd }, nil, nil
  while true do
    local ready = P.wait(files, 0.5)
    pour(pipes)
    local signal = ready[signals] and P.next_signal(signals)
    while signal do
      if signal ~= P.CHLD then
        if stopped then P.kill(pid, P.KILL) end -- asked for twice
        stopped, since = stopped or signal, since or P.now()
        P.write_file(dir .. "/stop", ("%d"):format(signal), true)
      end
      signal = P.next_signal(signals)
    end
    if since and P.now() - since > STOP then P.kill(pid, P.KILL) end
    -- all ranks have ended, and mpirun waits for a machine that it cannot reach
    since = since or all_ended(dir, n) and P.now() or nil
    local code, by = P.ended(pid)
    if code or by then
      pour(pipes)
      return stopped
    end
  end
end

--- The exit code of the run, after what there is to say of it.
local function conclude(dir, n, stopped)
  local worst, missing = 0, 0
  for r = 0, n - 1 do
    local code = tonumber(P.read_file(("%s/status.%d"):format(dir, r)) or "")
    if not code then missing = missing + 1 elseif worst == 0 then worst = code end
  end
  local failed = P.read_file(dir .. "/failed")
  if stopped then return 128 + stopped end
  if failed then
    io.stderr:write("tycho: ", failed)
    local first = tonumber(failed:match "^rank (%d+)")
    local code = tonumber(P.read_file(("%s/status.%d"):format(dir, first or 0)) or "") or 0
    return code > 0 and code or math.max(worst, 1)
  end
  if missing == n then
    io.stderr:write("tycho: the ranks could not be started:\n", P.read_file(dir .. "/mpirun.log") or "")
    return 1
  end
  if missing > 0 then io.stderr:write(("tycho: %d of %d ranks did not end by themselves\n"):format(missing, n)) end
  return missing > 0 and 1 or worst
end

--- One run. Gives its exit code, and whether it was ended from outside.
local function run(command, n, words, opts)
  local dir = P.directory()
  local pipes = { { fd = P.fifo(dir .. "/out"), to = io.stdout }, { fd = P.fifo(dir .. "/err"), to = io.stderr } }
  P.set("TYCHO_DIST_DIR", dir)
  P.set("TYCHO_DIST_FAILED", dir .. "/failed")
  P.set("TYCHO_DIST_RANKS", ("%d"):format(n))
  P.set("TYCHO_DIST_ONLY", opts.only and "1" or "0")
  if not opts.threads then P.set("TYCHO_THREADS", ("%d"):format(math.max(1, math.floor(P.processors() / n)))) end
  local all = { unpack(command) }
  all[#all + 1] = arg and arg[-1] or "luajit"
  all[#all + 1] = here .. "rank.lua"
  for _, word in ipairs(words) do all[#all + 1] = word end
  local signals = P.signals { P.INT, P.TERM, P.HUP, P.CHLD }
  local log = dir .. "/mpirun.log"
  local pid = P.start(all, { [0] = "/dev/null", log, log }, P.TERM, true)
  local stopped = supervise(pid, dir, n, pipes, signals)
  local status = conclude(dir, n, stopped)
  for _, p in ipairs(pipes) do P.close(p.fd) end
  P.close(signals)
  local names = { "out", "err", "lock", "failed", "stop", "mpirun.log" }
  for r = 0, n - 1 do names[#names + 1] = ("status.%d"):format(r) end
  P.remove(dir, names)
  return status, stopped
end

--- Runs `words` on n ranks. only: the output of the first rank alone, as it is. restarts: so many times a run that has
--- failed begins anew, with one rank less as long as there are several; the program takes up its last checkpoint.
---@param n integer
---@param words string[]
---@param opts {only: boolean?, restarts: integer?}
---@return integer status
return function(n, words, opts)
  opts.threads = (os.getenv "TYCHO_THREADS" or "") ~= ""
  for left = opts.restarts or 0, 0, -1 do
    local status, stopped = run(mpirun_words(("%d"):format(n)), n, words, opts)
    if status == 0 or stopped or left == 0 then return status end
    n = math.max(1, n - 1)
    io.stderr:write(("tycho: starting again with %d rank%s\n"):format(n, n == 1 and "" or "s"))
  end
end
