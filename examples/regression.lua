-- How far a car goes on a gallon, from a table of 398 cars: a CSV in, predictions and a plot out.
--   ./tycho examples/regression.lua [table.csv] [image = regression.png] [epochs = 200] [seed = 1]
-- The table has gaps and a column of names for the origin, as real tables do. A straight line is fitted by least
-- squares, and a network learns what the line leaves over. A fifth of the cars is never trained on.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local TABLE, DRAWING = arg[1] or here .. "/data/cars.csv", arg[2] or "regression.png"
local EPOCHS, SEED = tonumber(arg[3]) or 200, tonumber(arg[4]) or 1
local NUMBERS = { "cylinders", "displacement", "horsepower", "weight", "acceleration", "year" }
local BATCH, RATE = 32, 3e-3

local cars = assert(ty.load(TABLE, { types = { origin = "category" } }))
print(cars)

--- Columns [n, 6 numbers, then one a origin, then 1] with mean 0 and deviation 1; a gap becomes the mean of its column.
local function columns(t)
  local x = t:tensor(NUMBERS, "f32")
  local known = x:isfinite()
  local counts = known:to("f32"):sum(1)
  local filled = known:where(x, 0)
  local mean = filled:sum(1) / counts
  local centred = known:where(x - mean, 0)
  print(("%d numbers are missing and taken as the mean of their column"):format(x:numel() - counts:sum():item()))
  local origin = ty.one_hot(t.columns.origin, #t.classes.origin):to("f32")
  return ty.cat({ centred / ((centred * centred):sum(1) / counts):sqrt(), origin, ty.ones(t.rows, 1) }, 2)
end

local function rmse(a, b) return ((a - b) ^ 2):mean():sqrt():item() end

ty.manual_seed(SEED)
local x, mpg = columns(cars), cars.columns.mpg:to("f32")
local order = ty.randperm(#x)
local train = math.floor(0.8 * #x)
local rows, held_out = order:narrow(1, 1, train), order:narrow(1, train + 1, #x - train)

-- The straight line. With a column for each origin it would not be unique: the last is left out.
local line = ty.cat({ x:narrow(2, 1, x:size(2) - 2), ty.ones(#x, 1) }, 2)
local weights = ty.linalg.lstsq(line[rows], mpg[rows]:unsqueeze(2))
local by_line = line:matmul(weights):squeeze(2)
local rest = mpg - by_line
local spread = rest[rows]:std()

local model = nn.Sequential(nn.Linear(x:size(2), 32), nn.SiLU(), nn.Dropout(0.1),
  nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 1))
local opt = optim.AdamW(model:parameters(), { lr = RATE, weight_decay = 0.05 })
local residuals = ty.data.tensors(x[rows], rest[rows] / spread)
local loader = residuals:loader { batch = BATCH, shuffle = true, seed = SEED, last = "drop" }
local schedule = optim.OneCycleLR(opt, { steps = EPOCHS * loader:count(), most = RATE })

local step = jit.compile(function(input, target)
  opt:zero_grad()
  local loss = ((model(input):squeeze(2) - target) ^ 2):mean()
  loss:backward()
  opt:step()
  return loss:detach()
end)
local predict = jit.compile(function(input) return model(input):squeeze(2) end)
local function predicted() return by_line + ty.no_grad(predict, x) * spread end

local bar = ty.progress(EPOCHS * loader:count(), { label = "train", unit = "cars", per_step = BATCH, curve = "error" })
local learnt, unseen = {}, {}
for epoch = 1, EPOCHS do
  model:train()
  for input, target in loader:epoch() do
    step(input, target)
    schedule:step()
    bar:step { error = unseen[epoch - 1] or rmse(by_line[held_out], mpg[held_out]) }
  end
  model:eval()
  local y = predicted()
  learnt[epoch], unseen[epoch] = rmse(y[rows], mpg[rows]), rmse(y[held_out], mpg[held_out])
end

local y = predicted()
local truth, guess = mpg[held_out], y[held_out]
print(("\n%d cars that it never saw: root mean square error in miles a gallon, share of variance"):format(#truth))
local function tell(name, v)
  local share = 1 - ((v - truth) ^ 2):sum():item() / ((truth - truth:mean()) ^ 2):sum():item()
  print(("  %-20s %6.2f %6.1f %%"):format(name, rmse(v, truth), 100 * share))
end
tell("the mean of all", mpg[rows]:mean():expand(#truth))
tell("the straight line", by_line[held_out])
tell("line and network", guess)


print(("%-28s %4s %9s %6s %10s"):format("car", "year", "truth", "line", "predicted"))
local names, years = cars.columns.name, cars.columns.year
for i = 1, 8 do
  local car = held_out:get(i)
  print(("%-28s %4d %9.1f %6.1f %10.1f"):format(names[car], years:get(car), mpg:get(car), by_line:get(car), y:get(car)))
end

local reach = { 5, 50 }
local cloud = ty.plot { title = "cars it never saw", xlabel = "miles a gallon", ylabel = "predicted" }
  :line(reach, reach, { dash = "dashed", color = "gray" })
  :scatter(truth, by_line[held_out], { label = "straight line", alpha = 0.5 })
  :scatter(truth, guess, { label = "line and network", alpha = 0.8 })
local curves = ty.plot { title = "root mean square error", xlabel = "epoch", ylabel = "miles a gallon" }
  :line(learnt, { label = "trained on" }):line(unseen, { label = "held out" })
assert(ty.plot { { cloud, curves } }:save(DRAWING))
print("\ndrawn to " .. DRAWING)
