-- Several processes: what sums over ranks cost beside MPI's own, what data parallel steps cost beside processes that
-- exchange nothing, and what larger runs cost by a formula and by a simulation (dist_model.lua).
-- `make bench-dist`; on every rank:
--   tycho --ranks 2 -q bench/dist.lua [rounds = 15]
-- In: the ranks. Out: rows of the first rank. The sides of a row run in turn in each round; medians of the rounds'
-- times, of the processor's time, which other processes disturb less, and of the rounds' ratios.

local ffi = require "ffi"
local ty = require "tycho"
local dist, nn = ty.dist, ty.nn

ffi.cdef "typedef struct { long s, n; } dist_time; int clock_gettime(int id, dist_time *t);"
local function clock(id)
  local t = ffi.new "dist_time"
  ffi.C.clock_gettime(id, t)
  return tonumber(t.s) + tonumber(t.n) * 1e-9
end

local rank, size = dist.init()
local ROUNDS = tonumber(arg[1]) or 15

local function say(...)
  if rank == 0 then print(string.format(...)) end
end

local function median(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

--- Wall and processor time of each function in each round. They take turns; the first rounds are not counted. around:
--- {before, after}, what is called around the repeats of function i, untimed. A function that is false is others'.
local function measured(repeats, around, ...)
  local fns = { ... }
  local wall, cpu = {}, {}
  for i = 1, #fns do wall[i], cpu[i] = {}, {} end
  for round = -1, ROUNDS do
    for i, fn in ipairs(fns) do
      local before, after = unpack(around[i] or {})
      if before then before() end
      if fn then fn() end
      dist.barrier()
      local w, c = clock(1), clock(2)
      for _ = 1, fn and repeats or 0 do fn() end
      if round > 0 then wall[i][round], cpu[i][round] = (clock(1) - w) / repeats, (clock(2) - c) / repeats end
      dist.barrier()
      if after then after() end
    end
  end
  return wall, cpu
end

--- The median of the rounds' ratios.
local function ratio(a, b)
  local list = {}
  for i, t in ipairs(a) do list[i] = t / b[i] end
  return median(list)
end

--------------------------------------------------------------------------------------------------------- all_reduce

say("%d ranks, %s", size, (dist.library() or "alone"):match "[^\n,]*")
say("\nall_reduce of f32     bytes     ours ms     MPI's ms   ratio   processor: ours ms   MPI's ms   ratio")
local times = {}
for _, n in ipairs { 1, 250, 25e3, 100e3, 25e6 } do
  local x = ty.randn(n)
  local wall, cpu = measured(n < 1e6 and 20 or 1, {}, function() dist.all_reduce(x):release() end,
    function() dist.all_reduce(x, { fast = true }):release() end)
  local of_wall, of_cpu = ratio(wall[1], wall[2]), ratio(cpu[1], cpu[2])
  times[n] = median(wall[1])
  say("%27d %11.3f %12.3f %7.2f %20.3f %10.3f %7.2f", 4 * n, times[n] * 1e3, median(wall[2]) * 1e3, of_wall,
    median(cpu[1]) * 1e3, median(cpu[2]) * 1e3, of_cpu)
end

--------------------------------------------------------------------------------------------------------- training

--- A compiled step on so many rows.
local function step_of(model, opt, loss_of)
  return jit.compile(function(x, y)
    opt:zero_grad()
    local loss = loss_of(model, x, y)
    loss:backward()
    opt:step()
    return loss:detach()
  end)
end

local function mlp() return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)) end
local function mlp_loss(m, x, y) return ty.cross_entropy(m(x), y) end

local GPT = nn.class "GPT"
function GPT:init()
  self.embed = nn.Embedding(96, 128)
  self.blocks = nn.ModuleList()
  for i = 1, 3 do
    self.blocks[i] = nn.TransformerBlock(128, 4, { causal = true, rotary = true, norm = "rms", bias = false })
  end
  self.head = nn.Linear(128, 96, { bias = false })
end
function GPT:forward(x)
  local h = self.embed(x)
  for i = 1, #self.blocks do h = self.blocks[i](h) end
  return self.head(h)
end

--- So many texts of 64 tokens, and what is to be predicted.
local function texts(n)
  return function() return ty.randint(1, 96, { n, 64 }), ty.randint(1, 96, { n, 64 }) end
end

-- One process alone, while the others sleep; all at once, each for itself: what they share, caches and memory, slows
-- them down, and no exchange is quicker (the floor); all together.
say("\ntraining step             rows a rank   one ms   %d apart ms   together ms   exchange x, of the processor   " ..
  "samples a second x, apart   together", size)
for _, case in ipairs {
  { "MLP 784-128-10", mlp, mlp_loss, function() return ty.randn(1024, 784), ty.randint(1, 10, { 1024 }) end, 1024, 4 },
  { "GPT, 3 blocks of 128", GPT, mlp_loss, texts(8), 8, 2 },
  { "GPT, 3 blocks of 128", GPT, mlp_loss, texts(16), 16, 2 },
} do
  local name, make, loss_of, batch, rows, repeats = unpack(case)
  local x, y = batch()
  local one, many = make(), make()
  local alone = step_of(one, ty.optim.AdamW(one:parameters(), { lr = 1e-4 }), loss_of)
  local together = step_of(many, ty.optim.AdamW(many:parameters(), { lr = 1e-4 }), loss_of)
  local replicated = { function() dist.replicate(many) end, function() dist.release(many) end }
  local function apart() alone(x, y) end
  local wall, cpu = measured(repeats, { [3] = replicated }, rank == 0 and apart, apart, function() together(x, y) end)
  local of_wall, of_cpu = ratio(wall[3], wall[2]), ratio(cpu[3], cpu[2])
  local floor, got = size * ratio(wall[1], wall[2]), size * ratio(wall[1], wall[3])
  say("%-25s %11d %8.2f %12.2f %13.2f %12.2f %18.2f %27.2f %10.2f", name, rows, median(wall[1]) * 1e3,
    median(wall[2]) * 1e3, median(wall[3]) * 1e3, of_wall, of_cpu, floor, got)
end

--------------------------------------------------------------------------------------------------- larger runs

local W = require "tycho.dist.world"
local cost = dofile((arg[0]:match "^(.*)/[^/]*$" or ".") .. "/dist_model.lua")

--- Bytes of a slice that all_reduce exchanges before the next.
local function block_of()
  local f = io.open "lua/tycho/dist/init.lua"
  local power = f and f:read("*a"):match "\nlocal BLOCK = 2 %^ (%d+)"
  if f then f:close() end
  return 2 ^ (tonumber(power) or 20)
end

--- Seconds of messages of so many bytes, `count` at once, between the first two ranks: half of there and back.
local function message_times(bytes, count, rounds)
  local other, list = 1 - rank, {}
  local two = { ranks = {}, index = 0, number = 0 }
  local x, at = ty.zeros({ bytes }, { dtype = "u8" }), {}
  for i = 1, count do two.ranks[i], at[2 * i - 1], at[2 * i] = other, 0, bytes end
  local function send() W.exchange("bench", two, "data", x, at) end
  local function receive() W.exchange("bench", two, "data", nil, nil, "u8", { bytes }, at):release() end
  for i = 1, rounds do
    local t = clock(1)
    if rank == 0 then send() receive() else receive() send() end
    list[i] = (clock(1) - t) / 2
  end
  table.sort(list)
  return list
end

--- Times that other processes have not disturbed: the quickest eighth.
local function quick(list) return list[math.ceil(#list / 8)] end

--- This machine for dist_model.lua, as the first two ranks measure it.
local function measured_machine()
  local m = { block = block_of(), latencies = message_times(8, 1, 400) }
  local one, many = quick(m.latencies), quick(message_times(8, 33, 400))
  m.each = math.max((many - one) / 32 / 2, 1e-8) -- half of it is the sender's
  local small, large = quick(message_times(2 ^ 20, 1, 40)), quick(message_times(2 ^ 24, 1, 40))
  m.rate = (2 ^ 24 - 2 ^ 20) / (large - small)
  local a, b, y = ty.randn(2 ^ 18), ty.randn(2 ^ 18), ty.empty(2 ^ 18)
  local fold = jit.compile(function(to, p, q) to:copy_(p + q) end)
  local wall = {}
  for i = 1, 60 do
    local t = clock(1)
    fold(y, a, b)
    wall[i] = clock(1) - t
  end
  table.sort(wall)
  m.fold = 2 ^ 21 / quick(wall)
  for _ = 1, 200 do table.remove(m.latencies) end -- the slower half is that of a busy machine
  return m
end

if size > 1 then
  local here = rank < 2 and measured_machine() or nil
  dist.barrier()
  if rank == 0 then
    say("\nmessages here: %.2f us (the slower half %.2f and more), %.2f us of the processor, %.1f GB/s; %.1f GB/s" ..
      " added", quick(here.latencies) * 1e6, here.latencies[#here.latencies] * 1e6, here.each * 1e6, here.rate / 1e9,
      here.fold / 1e9)
    say("all_reduce on %d ranks, ms: measured %.2f of 400 KB, %.2f of 100 MB; by the formula %.2f, %.2f", size,
      times[100e3] * 1e3, times[25e6] * 1e3, cost.formula(4e5, size, here) * 1e3, cost.formula(1e8, size, here) * 1e3)
    local network = { latencies = {}, each = 0.3e-6, rate = 12.5e9, fold = 10e9, block = here.block }
    for i, t in ipairs(here.latencies) do -- 5 us, spread as here
      network.latencies[i] = 5e-6 * t / quick(here.latencies)
    end
    say("\nall_reduce on more ranks, ms by the formula (by a simulation of each message); a core and a link a rank")
    say("   ranks          here, 400 KB          here, 100 MB   100 Gbit/s, 400 KB   100 Gbit/s, 100 MB   ring, 100 MB")
    for _, n in ipairs { 8, 64, 512, 4096 } do
      local cells = {}
      for _, m in ipairs { here, network } do
        for _, bytes in ipairs { 4e5, 1e8 } do
          cells[#cells + 1] = ("%9.2f (%9.2f)"):format(cost.formula(bytes, n, m) * 1e3,
            cost.simulate(bytes, n, m) * 1e3)
        end
      end
      local ring = 2 * (n - 1) * (5e-6 + 1e8 / n / network.rate) + 1e8 / network.fold
      say("%8d %s %14.2f", n, table.concat(cells, " "), ring * 1e3)
    end
  end
  dist.barrier()
end
