-- data.lua -- rows of `make bench` about data: a CSV file into a tensor, pictures read beside a training step.
-- In: run.lua's row, and a folder for the files, which go when the process ends. Out: rows.
-- The files lie in the system's cache of files: what is measured is the way from there to a tensor.

local ffi = require "ffi"
local ty = require "tycho"

local COLUMNS, PICTURES, SIDE, EPOCH = 65, 64, 256, 512
local WALL = 1 -- work of two threads is timed by the clock on the wall

ffi.cdef [[
void *tjInitDecompress(void);
int tjDecompress2(void *handle, const unsigned char *data, unsigned long size, unsigned char *to, int width,
                  int pitch, int height, int format, int flags);
]]

return function(row, folder)
  local made, guard = {}, newproxy(true)
  getmetatable(guard).__gc = function()
    for name in pairs(made) do os.execute(("rm -rf '%s/%s'"):format(folder, name)) end
  end

  local function csv(rows)
    local name = ("read%d.csv"):format(rows)
    local path = folder .. "/" .. name
    if not made[name] then
      local names = {}
      for i = 1, COLUMNS do names[i] = "c" .. i end
      ty.manual_seed(1)
      assert(ty.save(path, (ty.randn(rows, COLUMNS) * 1e6):round() / 1e6, { names = names }))
      made[name] = guard
    end
    return path
  end

  local function slurp(path)
    local f = assert(io.open(path, "rb"))
    local text = f:read "*a"
    f:close()
    return text
  end

  for rows, peer in pairs { [100000] = "csv", [10000] = "loadtxt" } do
    row { name = ("CSV of %d x %d numbers"):format(rows, COLUMNS), peer = peer, unit = "ms", make_floor = true,
      what = "read, not parsed", beats = "numpy", floor = function()
        local path = csv(rows)
        return function() return #slurp(path) end
      end,
      setup = function()
        local path = csv(rows)
        return function() ty.csv.load(path):tensor():release() end
      end }
  end

  --- Pictures with as much in them as photographs have: about a bit for each pixel.
  local function pictures()
    local dir = folder .. "/pictures"
    if not made.pictures then
      os.execute(("mkdir -p '%s'"):format(dir))
      made.pictures = guard
      local at = ty.arange(SIDE) / SIDE
      for i = 1, PICTURES do
        local x = (at * (6 + i)):sin():reshape(1, SIDE) * (at * 9):cos():reshape(SIDE, 1)
        x = ty.stack({ x, x * x, x * 0.5 }, 1) * 0.4 + 0.5 + ty.randn(3, SIDE, SIDE) * 0.03
        assert(ty.image.save(("%s/%02d.jpg"):format(dir, i), x))
      end
    end
    return dir
  end

  local has, tj = pcall(ffi.load, "libturbojpeg.so.0")
  if not has then return end

  --- The pictures again and again, so that an epoch is as long as one of a small real set.
  local function dataset()
    local list = {}
    for i = 1, EPOCH do list[i] = (i - 1) % PICTURES + 1 end
    return assert(ty.data.images(pictures(), { channels = 3 })):subset(list)
  end

  --- The library alone on the same bytes.
  local function decode_only()
    local dir, texts = pictures(), {}
    for i = 1, PICTURES do texts[i] = slurp(("%s/%02d.jpg"):format(dir, i)) end
    local handle, to = tj.tjInitDecompress(), ffi.new("uint8_t[?]", SIDE * SIDE * 3)
    return function()
      for i = 1, EPOCH do
        local text = texts[(i - 1) % PICTURES + 1]
        assert(tj.tjDecompress2(handle, text, #text, to, SIDE, 0, SIDE, 0, 0) == 0)
      end
    end
  end

  row { name = ("loader, %d JPEG of %d x %d"):format(EPOCH, SIDE, SIDE), unit = "ms", make_floor = true, by = WALL,
    what = "the library decodes them", most = 1.1, floor = decode_only,
    setup = function()
      local loader = dataset():loader { batch = 16, shuffle = true }
      return function()
        for x in loader do x:release() end
      end
    end }

  --- A step that takes about twice as long as a batch is decoded, on one thread.
  local function make_step()
    local a = ty.randn(512, 512)
    return function()
      for _ = 1, 20 do
        local y = a:matmul(a)
        y:get(1, 1)
        y:release()
      end
    end
  end
  row { name = "the same beside 4 steps", unit = "ms", make_floor = true, by = WALL, what = "the steps alone",
    most = 1.1, floor = function()
      local step = make_step()
      return function()
        for _ = 1, 4 do step() end
      end
    end,
    setup = function()
      local loader, step = dataset():loader { batch = 16, shuffle = true }, make_step()
      local walk = loader:epoch()
      return function()
        for _ = 1, 4 do
          local x = walk()
          if not x then
            walk = loader:epoch()
            x = walk()
          end
          step()
          x:release()
        end
      end
    end }
end
