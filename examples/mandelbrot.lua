-- The Mandelbrot set, four steps of the iteration one fused kernel. Writes a PPM image that any viewer opens.
--   ./tycho examples/mandelbrot.lua [file = build/mandelbrot.ppm] [width = 800] [steps = 200]

local ty = require "tycho"
local ffi = require "ffi"

local path = arg[1] or "build/mandelbrot.ppm"
local width, steps = tonumber(arg[2]) or 800, tonumber(arg[3]) or 200
local height = math.floor(width * 3 / 4)
local RADIUS = 16 -- beyond it a point has escaped; 2 would do, but colours are smoother far out

-- z := z^2 + c four times; z stays where it escaped, and `age` counts the steps before.
local iterate = jit.compile(function(zr, zi, cr, ci, age)
  for _ = 1, 4 do
    local rr, ii = zr * zr, zi * zi
    local inside = (rr + ii):le(RADIUS ^ 2)
    zr, zi = inside:where(rr - ii + cr, zr), inside:where(zr * zi * 2 + ci, zi)
    age = age + inside:to("f32")
  end
  return zr, zi, age
end)

local cr = ty.linspace(-2.2, 0.8, width):reshape(1, width):expand(height, width)
local ci = ty.linspace(-1.125, 1.125, height):reshape(height, 1):expand(height, width)
local zr, zi, age = ty.zeros(height, width), ty.zeros(height, width), ty.zeros(height, width)

local started = os.clock()
for step = 4, steps, 4 do
  zr, zi, age = iterate(zr, zi, cr, ci, age)
  if step % 40 == 0 or step + 4 > steps then
    print(("step %3d of %d: %.1f %% of the points still inside"):format(step, steps,
      100 * age:ge(step):to("f32"):mean():item()))
  end
end
print(("%d x %d points, %.0f million point steps a second of processor time"):format(width, height,
  width * height * steps / (os.clock() - started) / 1e6))

-- How far z jumped beyond the radius makes the whole number of steps a smooth one. The inside is black.
local paint = jit.compile(function(x, y, n)
  local beyond = ((x * x + y * y):log2() / (math.log(RADIUS ^ 2) / math.log(2))):log2()
  local t = (n - beyond + 1):clamp(1, steps):log2()
  local outside = n:lt(steps)
  local function channel(phase)
    return outside:where(127.5 - ((t * 0.22 + phase) * 2 * math.pi):cos() * 127.5, 0)
  end
  return ty.stack({ channel(-0.28), channel(-0.16), channel(0.02) }, 3):to("u8")
end)

local image = paint(zr, zi, age)
local file = assert(io.open(path, "wb"))
file:write(("P6\n%d %d\n255\n"):format(width, height), ffi.string(image:data(), image:numel()))
file:close()
print("wrote " .. path)
