-- Heat spreading on a plate: a 2-D five-point stencil written with views, one fused kernel a step.
--   ./tycho examples/heat.lua [size = 129] [steps = 20000]
-- The upper edge is kept at 100 degrees, the others at 0. A plate turned four times and added up is 100 degrees
-- everywhere, so in the end the centre of one must be at 25.

local ty = require "tycho"

local n, steps = tonumber(arg[1]) or 129, tonumber(arg[2]) or 20000
local inner, all = { 2, -2 }, {}
local before, behind = { 1, -3 }, { 3, -1 }

-- du/dt = laplacian(u), explicit Euler; k = dt / dx^2 must stay at or below 1/4.
local step = jit.compile(function(u, k)
  local centre = u[{ inner, inner }]
  local around = u[{ before, inner }] + u[{ behind, inner }] + u[{ inner, before }] + u[{ inner, behind }]
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
u[{ 1, all }] = 100
local middle = math.ceil(n / 2)
local started = os.clock()
for s = 1, steps do
  step(u, 0.25)
  if s % math.max(1, math.floor(steps / 5)) == 0 then
    print(("after %5d steps: mean %6.3f, centre %6.3f degrees"):format(s, u:mean():item(), u:get(middle, middle)))
  end
end
local seconds = os.clock() - started
draw(u)
print(("%.0f million cells a second of processor time"):format((n - 2) ^ 2 * steps / seconds / 1e6))
