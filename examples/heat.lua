-- Heat spreading on a plate: a 2-D five-point stencil written with views, one fused kernel a step.
--   ./tycho examples/heat.lua [size = 256] [steps = 2000]

local ty = require "tycho"

local n, steps = tonumber(arg[1]) or 256, tonumber(arg[2]) or 2000
local inner, all = { 2, -2 }, {}

-- du/dt = laplacian(u), explicit Euler; k = dt / dx^2 must stay at or below 1/4.
local step = jit.compile(function(u, k)
  local centre = u[{ inner, inner }]
  local around = u[{ { 1, -3 }, inner }] + u[{ { 3, -1 }, inner }] + u[{ inner, { 1, -3 } }]
    + u[{ inner, { 3, -1 } }]
  u[{ inner, inner }] = centre + (around - centre * 4) * k
end)

local function draw(u)
  local shades = { " ", ".", ":", "-", "=", "+", "*", "#", "%", "@" }
  local rows, columns = 16, 48
  for r = 1, rows do
    local line = {}
    for c = 1, columns do
      local i, j = math.ceil((r - 0.5) * n / rows), math.ceil((c - 0.5) * n / columns)
      line[c] = shades[math.min(10, math.floor(u:get(i, j) / 100 * 10) + 1)]
    end
    print("  " .. table.concat(line))
  end
end

local u = ty.zeros(n, n)
u[{ 1, all }] = 100 -- the upper edge is kept at 100 degrees, the others at 0
local started = os.clock()
for s = 1, steps do
  step(u, 0.25)
  if s % math.max(1, math.floor(steps / 4)) == 0 then
    print(("after %d steps: mean %.3f, centre %.3f degrees"):format(s, u:mean():item(),
      u:get(math.ceil(n / 2), math.ceil(n / 2))))
    draw(u)
  end
end
print(("%.1f million cells a second"):format(n * n * steps / (os.clock() - started) / 1e6))
