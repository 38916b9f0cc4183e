-- Several processes: what sums over ranks cost beside MPI's own, what data parallel steps cost beside one process with
-- a rank's share of the batch, and a model of larger runs. `make bench-dist`; on every rank:
--   tycho --ranks 2 -q bench/dist.lua [rounds = 15]
-- In: the ranks. Out: rows of the first rank. Both sides of a row run in turn in each round; medians of the rounds'
-- times, and of the processor's time, which other processes disturb less.

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

--- Medians of wall and processor time of each function, which take turns; the first rounds are not counted. around:
--- {before, after}, what is called around the repeats of function i, untimed.
local function measured(repeats, around, ...)
  local fns = { ... }
  local wall, cpu = {}, {}
  for i = 1, #fns do wall[i], cpu[i] = {}, {} end
  for round = -1, ROUNDS do
    for i, fn in ipairs(fns) do
      local before, after = unpack(around[i] or {})
      if before then before() end
      fn()
      dist.barrier()
      local w, c = clock(1), clock(2)
      for _ = 1, repeats do fn() end
      if round > 0 then wall[i][round], cpu[i][round] = (clock(1) - w) / repeats, (clock(2) - c) / repeats end
      if after then after() end
    end
  end
  for i = 1, #fns do wall[i], cpu[i] = median(wall[i]), median(cpu[i]) end
  return wall, cpu
end

--------------------------------------------------------------------------------------------------------- all_reduce

say("%d ranks, %s", size, (dist.library() or "alone"):match "[^\n,]*")
say("\nall_reduce of f32     bytes     ours ms     MPI's ms   ratio   processor: ours ms   MPI's ms   ratio")
local times = {}
for _, n in ipairs { 1, 250, 25e3, 250e3, 25e6 } do
  local x = ty.randn(n)
  local wall, cpu = measured(n < 1e6 and 20 or 1, {}, function() dist.all_reduce(x):release() end,
    function() dist.all_reduce(x, { fast = true }):release() end)
  times[n] = wall[1]
  say("%27d %11.3f %12.3f %7.2f %20.3f %10.3f %7.2f", 4 * n, wall[1] * 1e3, wall[2] * 1e3, wall[1] / wall[2],
    cpu[1] * 1e3, cpu[2] * 1e3, cpu[1] / cpu[2])
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

say("\ntraining step              rows a rank   alone ms   %d ranks ms   ratio   samples a second, x   processor: ratio",
  size)
for _, case in ipairs {
  { "MLP 784-128-10", mlp, mlp_loss, function() return ty.randn(1024, 784), ty.randint(1, 10, { 1024 }) end, 1024 },
  { "GPT, 3 blocks of 128", GPT, mlp_loss,
    function() return ty.randint(1, 96, { 8, 64 }), ty.randint(1, 96, { 8, 64 }) end, 8 },
} do
  local name, make, loss_of, batch, rows = unpack(case)
  local x, y = batch()
  local one, many = make(), make()
  local alone = step_of(one, ty.optim.AdamW(one:parameters(), { lr = 1e-4 }), loss_of)
  local together = step_of(many, ty.optim.AdamW(many:parameters(), { lr = 1e-4 }), loss_of)
  local replicated = { function() dist.replicate(many) end, function() dist.release(many) end }
  local wall, cpu = measured(4, { [2] = replicated }, function() alone(x, y) end, function() together(x, y) end)
  say("%-26s %12d %10.2f %11.2f %7.2f %14.2f %25.2f", name, rows, wall[1] * 1e3, wall[2] * 1e3, wall[2] / wall[1],
    size * wall[1] / wall[2], cpu[2] / cpu[1])
end

--------------------------------------------------------------------------------------------------- larger runs

--- Seconds of all_reduce: ranks tell each other what they call, then each block goes out in slices, is folded and comes
--- back. start: of a message, until it is there; each: of every further message that a rank sends and receives; rate:
--- bytes a second of a rank's link; fold: bytes a second that are added up.
local function model(bytes, ranks, m)
  local block = math.min(bytes, 2 ^ 22 * ranks)
  local blocks = math.ceil(bytes / block)
  local message = m.start + (ranks - 1) * m.each
  if bytes * ranks <= 65536 then return message * 2 + bytes * (ranks - 1) / m.rate + bytes * ranks / m.fold end
  return message + blocks * 2 * message + 2 * bytes * (ranks - 1) / ranks / m.rate + bytes / m.fold
end

local here = { start = times[1] / 2, each = times[1] / 20 }
here.rate = 2 * (1 / 2) * 100e6 / (times[25e6] * 0.7)
here.fold = 100e6 / (times[25e6] * 0.3)
local network = { start = 5e-6, each = 0.5e-6, rate = 12.5e9, fold = 10e9 } -- 100 Gbit/s

say("\nmodel of all_reduce, ms: this machine (as if each rank had a core) and a network of 100 Gbit/s, 5 us a message")
say("   ranks      here, 400 KB   here, 100 MB   network, 4 KB   network, 400 KB   network, 100 MB   ring, 100 MB")
for _, n in ipairs { 2, 8, 64, 512, 4096 } do
  local ring = 2 * (n - 1) * (network.start + 100e6 / n / network.rate) + 100e6 / network.fold
  say("%8d %17.3f %14.3f %15.3f %17.3f %17.3f %14.3f", n, model(4e5, n, here) * 1e3, model(1e8, n, here) * 1e3,
    model(4096, n, network) * 1e3, model(4e5, n, network) * 1e3, model(1e8, n, network) * 1e3, ring * 1e3)
end
