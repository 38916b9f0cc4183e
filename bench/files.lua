-- files.lua -- rows of `make bench` about files: reading them beside what reading alone takes, and taking up training.
-- In: run.lua's row, and a folder for files of 400 MB, which go when the process ends. Out: rows.
-- The files lie in the system's cache of files: what is measured is the way from there to a tensor.

local ffi = require "ffi"
local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local ELEMENTS, PIECE = 100e6, 1e6

ffi.cdef [[
int open(const char *path, int flags, ...);
intptr_t pread(int fd, void *to, size_t n, intptr_t at);
int close(int fd);
]]

return function(row, folder)
  local function path_of(name) return folder .. "/" .. name end
  local made, guard = {}, newproxy(true)
  getmetatable(guard).__gc = function()
    for name in pairs(made) do os.remove(path_of(name)) end
  end
  --- The path of a file, which save(path) writes once and which goes with the guard.
  local function make(name, save)
    if not made[name] then save(path_of(name)) end
    made[name] = guard
    return path_of(name)
  end

  local function npy()
    return make("read.npy", function(path) assert(ty.save(path, ty.arange(ELEMENTS))) end)
  end
  local function safetensors()
    return make("read.safetensors", function(path)
      local t = {}
      for i = 1, ELEMENTS / PIECE do t[("layer%03d.weight"):format(i)] = ty.full({ PIECE }, i) end
      assert(ty.save(path, t))
    end)
  end

  --- The file into memory that is there already.
  local function read_only()
    local path, room = npy(), ffi.new("uint8_t[?]", 4 * ELEMENTS)
    ffi.fill(room, 4 * ELEMENTS)
    return function()
      local fd, at = ffi.C.open(path, 0), 0
      repeat
        local got = tonumber(ffi.C.pread(fd, room + at, 4 * ELEMENTS - at, 128 + at))
        at = at + got
      until got <= 0 or at == 4 * ELEMENTS
      ffi.C.close(fd)
    end
  end

  row { name = "npy of 400 MB, read", peer = "npy", what = "read into memory that is there", unit = "GB/s",
    work = 4 * ELEMENTS, most = 1.1, make_floor = true, floor = read_only,
    setup = function()
      local path = npy()
      return function() assert(ty.load(path)):release() end
    end }

  --- Opens the file and sums up the first tensor that it names.
  local function first(opts)
    return function()
      local path = safetensors()
      return function()
        local file = assert(ty.files.safetensors.open(path, opts))
        local t = file:get(file.names[1])
        local value = t:get(1)
        file:close()
        t:release()
        return value
      end
    end
  end
  row { name = "safetensors of 400 MB, first tensor", peer = "safetensors", what = "mapped", unit = "ms",
    beats = "numpy", setup = first(), make_floor = true, floor = first { mmap = true } }

  --- Ten steps of training, the parts that a checkpoint takes.
  local function learner()
    ty.manual_seed(3)
    local m = nn.Sequential(nn.Linear(784, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 10))
    local opt = optim.Adam(m:parameters(), { lr = 1e-3 })
    local schedule = optim.CosineLR(opt, { steps = 20 })
    local step = jit.compile(function(x, y)
      opt:zero_grad()
      local loss = ty.cross_entropy(m(x), y)
      loss:backward()
      opt:step()
    end)
    local parts = { model = m, optimizer = opt, schedule = schedule }
    return parts, function(n)
      for _ = 1, n do
        step(ty.randn(32, 784), ty.randint(1, 10, { 32 }))
        schedule:step()
      end
    end
  end

  local function same(a, b)
    for name, t in pairs(a.model:state_dict()) do
      if not ty.equal(t, b.model:state_dict()[name]) then return false end
    end
    for i, s in ipairs(a.optimizer.groups[1].state) do
      for k, v in pairs(s) do
        local w = b.optimizer.groups[1].state[i][k]
        if ty.is_tensor(v) and not ty.equal(v, w) or not ty.is_tensor(v) and v ~= w then return false end
      end
    end
    return true
  end

  local r
  r = row { name = "checkpoint taken up, 400,000 parameters, Adam", what = "written, on the disk", unit = "ms",
    by = 1, make_floor = true,
    setup = function()
      local whole, train = learner()
      train(20)
      local state = ty.random_state()
      local half, train_half = learner()
      train_half(10)
      half.step = 10
      local path = make("resume", function(path) assert(ty.save_checkpoint(path, half)) end)
      local again, train_again = learner()
      assert(ty.load_checkpoint(path, again))
      train_again(10)
      r.remark = same(whole, again) and state == ty.random_state() and "bits equal after 10 + 10 steps" or "BITS DIFFER"
      return function() assert(ty.load_checkpoint(path, again)) end
    end,
    floor = function()
      local parts = learner()
      local function save(path) assert(ty.save_checkpoint(path, parts)) end
      local path = make("written", save)
      return function() save(path) end
    end }
end
