--- measure.lua -- what the benches share: time, medians, peers in Python, progress, aligned tables.

local ffi = require "ffi"

ffi.cdef [[
  typedef struct { long seconds, nanoseconds; } timespec;
  int clock_gettime(int clock, timespec *t);
]]

local M = { WALL = 1, OWN = 2 } -- CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID

local tick = ffi.new("timespec")

function M.now(clock)
  ffi.C.clock_gettime(clock, tick)
  return tonumber(tick.seconds) + 1e-9 * tonumber(tick.nanoseconds)
end
local now = M.now

function M.median(list)
  local sorted = { unpack(list) }
  table.sort(sorted)
  local n = #sorted
  if n == 0 then return nil end
  return (sorted[math.floor((n + 1) / 2)] + sorted[math.floor(n / 2) + 1]) / 2
end

--- Seconds that one call of fn takes: as many calls as fill a batch (seconds, about), the best of three batches, since
--- what disturbs a measurement only ever makes it longer. Collections that fn's own garbage causes count.
function M.seconds_of(fn, batch, clock)
  clock = clock or M.OWN
  collectgarbage() -- no row pays for another
  local count, taken = 1
  while true do
    local started = now(clock)
    for _ = 1, count do fn() end
    taken = now(clock) - started
    if taken > batch / 4 then break end
    count = count * (taken > batch / 100 and 2 or 8)
  end
  count = math.max(1, math.floor(count * batch / 3 / taken))
  local best = math.huge
  for _ = 1, 3 do
    local started = now(clock)
    for _ = 1, count do fn() end
    best = math.min(best, now(clock) - started)
  end
  return best / count
end

--- Starts `script` in TYCHO_PEERS_PYTHON, else python3: its first line, which names versions, and a function that
--- sends it a line and gives the answer's line; nil when there is nothing to compare with.
function M.peers(script, build)
  local python = os.getenv("TYCHO_PEERS_PYTHON") or "python3"
  local fifo = build .. "/answers"
  os.remove(fifo)
  if os.execute(("command -v %q >/dev/null && mkfifo %q"):format(python, fifo)) ~= 0 then return end
  local questions = io.popen(("%q -B %q 2>/dev/null >%q"):format(python, script, fifo), "w")
  local answers = io.open(fifo)
  os.remove(fifo)
  local versions = answers:read("*l")
  return versions, versions and function(question)
    questions:write(question, "\n")
    questions:flush()
    return answers:read("*l") or ""
  end
end

local terminal = os.execute("test -t 2") == 0

function M.progress(text)
  if not terminal then return end
  io.stderr:write("\r", text, (" "):rep(60 - #text), text == "" and "\r" or "")
  io.stderr:flush()
end

--- Lines of cells as columns; to the left go those of which words[i] is true.
function M.print_table(lines, words)
  local width = {}
  for _, line in ipairs(lines) do
    for i, cell in ipairs(line) do width[i] = math.max(width[i] or 0, #cell) end
  end
  for _, line in ipairs(lines) do
    local out = {}
    for i, cell in ipairs(line) do
      out[i] = ("%" .. (words[i] and "-" or "") .. math.max(width[i], 1) .. "s"):format(cell)
    end
    print((table.concat(out, "  "):gsub("%s+$", "")))
  end
end

return M
