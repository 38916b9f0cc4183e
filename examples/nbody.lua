-- Gravity among n bodies: all pairs by broadcasting, leapfrog steps, the energy watched.
--   ./tycho examples/nbody.lua [bodies = 256] [steps = 200]

local ty = require "tycho"

local n, steps = tonumber(arg[1]) or 256, tonumber(arg[2]) or 200
local SOFT, DT = 0.05, 1e-3 -- softening length and time step, in units where G and the total mass are 1

local function pairs_of(x)
  local d = x:unsqueeze(1) - x:unsqueeze(2) -- [n, n, 3]: from body i to body j
  return d, (d * d):sum(3) + SOFT * SOFT    -- squared distances
end

local function accelerate(x, mass)
  local d, r2 = pairs_of(x)
  local weight = mass / (r2 * r2:sqrt())
  return (d * weight:unsqueeze(3)):sum(2)
end

local step = jit.compile(function(x, v, a, mass, dt)
  v = v + a * (dt / 2)
  x = x + v * dt
  a = accelerate(x, mass)
  return x, v + a * (dt / 2), a
end)

local energy = jit.compile(function(x, v, mass)
  local _, r2 = pairs_of(x)
  local kinetic = (mass:unsqueeze(2) * v * v):sum() * 0.5
  local pull = mass:unsqueeze(1) * mass:unsqueeze(2) / r2:sqrt()
  local own = (mass * mass / SOFT):sum()
  return kinetic - (pull:sum() - own) * 0.5
end)

ty.manual_seed(7)
local f64 = { dtype = "f64" }
local x, v = ty.randn({ n, 3 }, f64), ty.randn({ n, 3 }, f64) * 0.3
local mass = ty.full({ n }, 1 / n, f64)
local a = accelerate(x, mass)

local before = energy(x, v, mass):item()
local started = os.clock()
print(("%d bodies, energy %.6f"):format(n, before))
for s = 1, steps do
  x, v, a = step(x, v, a, mass, DT)
  if s % math.max(1, math.floor(steps / 5)) == 0 then
    local now = energy(x, v, mass):item()
    print(("step %4d  energy %.6f  relative drift %.1e"):format(s, now,
      math.abs((now - before) / before)))
  end
end
print(("%.0f million pairs a second of processor time"):format(n * n * steps / (os.clock() - started) / 1e6))
