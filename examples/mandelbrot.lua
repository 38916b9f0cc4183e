-- The Mandelbrot set, each step of the iteration one fused kernel. Writes a PPM image that any viewer opens.
--   ./tycho examples/mandelbrot.lua [file = build/mandelbrot.ppm] [width = 800] [steps = 100]

local ty = require "tycho"

local path = arg[1] or "build/mandelbrot.ppm"
local width, steps = tonumber(arg[2]) or 800, tonumber(arg[3]) or 100
local height = math.floor(width * 3 / 4)

-- z := z^2 + c for four steps at once; `age` counts the steps before |z| passes 2.
local iterate = jit.compile(function(zr, zi, cr, ci, age)
  for _ = 1, 4 do
    local rr, ii = zr * zr, zi * zi
    local inside = (rr + ii):le(4)
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
  if step % 20 == 0 or step + 4 > steps then
    io.write(("\rstep %d of %d, %.0f %% still inside"):format(step, steps,
      100 * age:ge(step):to("f32"):mean():item()))
    io.flush()
  end
end
local seconds = os.clock() - started
print(("\n%d x %d points, %.1f million point steps a second"):format(width, height,
  width * height * steps / seconds / 1e6))

-- Smooth colours from the age; the inside is black.
local paint = jit.compile(function(a)
  local t = a / steps
  local outside = a:lt(steps):to("f32")
  local red = (t * 9 * (1 - t) * t * t) * 255 * outside
  local green = (t * t * 15 * (1 - t) * (1 - t)) * 255 * outside
  local blue = (t * 8.5 * (1 - t) * (1 - t) * (1 - t)) * 255 * outside
  return ty.stack({ red, green, blue }, 3):clamp(0, 255):to("u8")
end)

local image = paint(age)
local bytes, flat = {}, image:flatten():totable()
for i = 1, #flat do bytes[i] = string.char(flat[i]) end
local file = assert(io.open(path, "wb"))
file:write(("P6\n%d %d\n255\n"):format(width, height), table.concat(bytes))
file:close()
print("wrote " .. path)
