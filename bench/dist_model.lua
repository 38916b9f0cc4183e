-- dist_model.lua -- what all_reduce costs on many ranks: a formula, and a simulation of its messages that checks it.
-- In: bytes, a number of ranks, a machine: {latencies: seconds from a send until it is there, some that were
-- measured, in order; each: seconds of the processor for a message, on either side; rate: bytes a second of a rank's
-- link, either way; fold: bytes a second that a rank adds up; block: bytes of a slice}. Out: seconds. bench/dist.lua
-- measures and prints.
--
-- all_reduce (lua/tycho/dist/init.lua): ranks tell each other what they call; then each block goes out in slices, is
-- summed where they arrive, and comes back. Few bytes go whole to all. All messages of a phase are posted at once; a
-- rank begins the next phase when it has its own.

local M = {}

local AGREE, SMALL, PAIR = 256, 65536, 2 ^ 20 -- bytes of a text, of what goes whole, of that between two ranks

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

--- The latency that so many draws stay below but once.
local function longest(m, draws)
  local n = #m.latencies
  return m.latencies[max(1, min(n, ceil(n * (1 - 1 / (draws + 1)))))]
end

--- Phases of an all_reduce, {bytes of a message, bytes that are added up behind it}.
local function phases(bytes, ranks, m)
  local list = { { AGREE, 0 } }
  if bytes * ranks <= SMALL or ranks == 2 and bytes <= PAIR then
    list[2] = { bytes, bytes * ranks }
    return list
  end
  for from = 0, bytes - 1, m.block * ranks do
    local slice = min(m.block * ranks, bytes - from) / ranks
    list[#list + 1] = { slice, slice * ranks }
    list[#list + 1] = { slice, 0 }
  end
  return list
end

--- By the formula: a phase lasts until the last message has left, by the link or the processor, and taken the longest
--- of the latencies; or as long as the processor has to do with those that leave and those that come, if that is
--- longer.
function M.formula(bytes, ranks, m)
  local t = 0
  for _, p in ipairs(phases(bytes, ranks, m)) do
    local others = ranks - 1
    local last = others * max(m.each, p[1] / m.rate) + longest(m, ranks * others) + m.each
    t = t + max(last, 2 * others * m.each) + p[2] / m.fold
  end
  return t
end

local SEEN = 24 -- ranks whose messages are simulated, of more

--- A generator of numbers from 0 to 1 that is the same in each run.
local function numbers(seed)
  local state = seed
  return function()
    state = (state * 16807) % 2147483647
    return state / 2147483647
  end
end

--- By a simulation: each message leaves behind those before it, draws a latency, and waits at its receiver for the
--- link and the processor. in_order: every rank sends to the first rank first, then to the second; else to the next
--- one first. Of more than SEEN ranks, the messages to SEEN of them are followed, and the others begin as one of
--- these does.
function M.simulate(bytes, ranks, m, in_order)
  local random = numbers(ranks)
  local seen, begins = {}, { 0 } -- when ranks begin a phase
  for i = 1, min(SEEN, ranks) do seen[i] = floor((i - 1) * ranks / min(SEEN, ranks)) end
  local last = 0
  for _, p in ipairs(phases(bytes, ranks, m)) do
    local pace, done = max(m.each, p[1] / m.rate), {}
    local starts = {}
    for i = 0, ranks - 1 do starts[i] = ranks <= SEEN and begins[i + 1] or begins[1 + floor(random() * #begins)] end
    for k, to in ipairs(seen) do
      local arrivals = {}
      for from = 0, ranks - 1 do
        if from ~= to then
          -- its place among the sender's messages
          local place = in_order and (to < from and to or to - 1) or (to - from - 1) % ranks
          arrivals[#arrivals + 1] = (starts[from] or 0) + m.each + place * pace +
            m.latencies[1 + floor(random() * #m.latencies)]
        end
      end
      table.sort(arrivals)
      local link, processor = 0, (starts[to] or 0) + (ranks - 1) * m.each -- which has sent its own
      for _, at in ipairs(arrivals) do
        link = max(link, at) + p[1] / m.rate
        processor = max(processor, link) + m.each
      end
      done[k] = processor + p[2] / m.fold
    end
    begins, last = done, 0
    for _, t in ipairs(done) do last = max(last, t) end
  end
  return last
end

return M
