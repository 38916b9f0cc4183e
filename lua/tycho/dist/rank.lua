--- dist/rank.lua -- supervises one rank, between mpirun and the program: `tycho --ranks` starts it.
-- In: a command; in the environment the launcher's directory and the rank. Out: the command runs; its output as whole
-- lines, each behind its rank, to the launcher's pipes; its end as a file. The process itself ends with 0 and after all
-- ranks: mpirun would end the others at once where one fails, before they could tell of it.
--
-- Files in the directory: status.R, the exit code of rank R, 128 + signal; failed, a sentence on the first rank that
-- has failed, which all others raise (exchange.c); stop, a signal for all ranks. Where there is one of the last two,
-- a rank that has not ended after a while is ended.

local here = debug.getinfo(1, "S").source:match "^@(.*)rank%.lua$"
local P = dofile(here .. "process.lua")

local dir, ranks = os.getenv "TYCHO_DIST_DIR", tonumber(os.getenv "TYCHO_DIST_RANKS")
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or os.getenv "PMI_RANK" or os.getenv "PMIX_RANK")
-- Seconds: to end by itself where another rank has failed; to end after a signal.
local GRACE, HARD = tonumber(os.getenv "TYCHO_DIST_GRACE") or 10, 3
local only = os.getenv "TYCHO_DIST_ONLY" == "1" -- of the first rank's output

P.die_with_parent(P.KILL)
local signals = P.signals { P.CHLD, P.TERM, P.INT, P.HUP }
local lock = P.open_lock(dir .. "/lock")

--- Takes what a pipe gives and writes whole lines; the rest when it ends.
local function stream(fd, name, silent)
  local to, rest, prefix = P.open_fifo(dir .. "/" .. name), "", only and rank == 0 and "" or ("[%d] "):format(rank)
  local s = { fd = fd }
  local function put(lines)
    if not silent and lines ~= "" then P.write(to, (lines:gsub("[^\n]*\n", prefix .. "%0")), lock) end
  end
  --- False: it has ended.
  function s.take()
    local text = P.read(fd)
    if text == nil then return true end
    if text == "" then
      if rest ~= "" then put(rest .. "\n") end
      P.close(fd)
      return false
    end
    text = rest .. text
    local whole = text:match "^.*\n" or ""
    rest = text:sub(#whole + 1)
    put(whole)
    return true
  end
  return s
end

local out_read, out_write = P.pipe()
local err_read, err_write = P.pipe()
local pid = P.start(arg, { [0] = "/dev/null", out_write, err_write }, P.KILL)
P.close(out_write)
P.close(err_write)
local streams = { stream(out_read, "out", only and rank > 0), stream(err_read, "err") }

--- How the rank has ended: an exit code, and a sentence where it has failed.
local function judged(code, signal)
  if signal then
    return 128 + signal, ("rank %d was ended by signal %d, %s"):format(rank, signal, P.signal_name(signal))
  end
  if code == 127 then return code, ("rank %d could not be started: %s"):format(rank, arg[1]) end
  return code, code ~= 0 and ("rank %d has exited with status %d"):format(rank, code) or nil
end

local ended, since, told, hard

--- Ends the program where the run is to end, and it does not.
local function insist(now)
  local stop = P.read_file(dir .. "/stop")
  if not (stop or P.read_file(dir .. "/failed")) then return end
  since = since or now
  if stop and not told then
    P.kill(pid, tonumber(stop) or P.TERM)
    told = true
  elseif not hard and now - since > (stop and HARD or GRACE) then
    P.kill(pid, P.TERM)
    hard = now
  elseif hard and now - hard > HARD then
    P.kill(pid, P.KILL)
  end
end

local function is_all_over()
  for r = 0, ranks - 1 do
    if not P.read_file(("%s/status.%d"):format(dir, r)) then return false end
  end
  return true
end

--- Looks whether the program has ended; then tells the launcher and the other ranks.
local function look()
  local code, signal = P.ended(pid)
  if not (code or signal) then return end
  ended = true
  local status, sentence = judged(code, signal)
  if sentence then P.write_file(dir .. "/failed", sentence .. "\n", true) end
  return status
end

local status
while true do
  local files = { signals }
  for _, s in ipairs(streams) do files[#files + 1] = s.fd end
  local ready = P.wait(files, 0.1)
  for s = #streams, 1, -1 do
    if ready[streams[s].fd] and not streams[s].take() then table.remove(streams, s) end
  end
  local signal = ready[signals] and P.next_signal(signals)
  while signal do
    if signal ~= P.CHLD and not ended then P.kill(pid, signal) end
    signal = P.next_signal(signals)
  end
  if not ended then
    status = look()
    if not ended then insist(P.now()) end
    since = ended and P.now() or since
  end
  if ended and (#streams == 0 or P.now() - since > 1) then break end -- a child of the program may hold its pipes
end
P.write_file(("%s/status.%d"):format(dir, rank), ("%d"):format(status))
while not is_all_over() do P.wait({}, 0.02) end
os.exit(0)
