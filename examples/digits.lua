-- Hand-written digits by multinomial logistic regression, the gradient written out by hand.
--   ./tycho examples/digits.lua [epochs = 40] [seeds = 5]
-- 1,437 samples train, 360 that are never trained on measure. One step (forward, loss, gradient, update) is one
-- compiled function.

local ty = require "tycho"

local EPOCHS, SEEDS = tonumber(arg[1]) or 40, tonumber(arg[2]) or 5
local TRAIN, BATCH, RATE, CLASSES = 1437, 32, 0.5, 10
local here = arg[0]:match("^(.*)/[^/]*$") or "."

local function load_csv(path)
  local file = assert(io.open(path))
  local pixels, labels = {}, {}
  for line in file:lines() do
    local row = {}
    for v in line:gmatch("[^,]+") do row[#row + 1] = tonumber(v) end
    labels[#labels + 1] = table.remove(row) + 1 -- classes are 1-based
    pixels[#pixels + 1] = row
  end
  file:close()
  return ty.tensor(pixels) / 16, ty.tensor(labels, { dtype = "i64" })
end

local function softmax_loss_and_gradient(x, target, w, b)
  local scores = x:matmul(w) + b
  local loss = -(scores:log_softmax() * target):sum(2):mean()
  return loss, (scores:softmax() - target) / #x
end

local step = jit.compile(function(x, target, w, b, rate)
  local loss, g = softmax_loss_and_gradient(x, target, w, b)
  w:sub_(x:t():matmul(g) * rate)
  b:sub_(g:sum(1) * rate)
  return loss
end)

local predict = jit.compile(function(x, w, b) return (x:matmul(w) + b):argmax(2) end)

local function train(pixels, labels, seed)
  ty.manual_seed(seed)
  local order = ty.randperm(#pixels)
  local x, y = pixels[order], labels[order]
  local target = y:one_hot(CLASSES):to("f32")
  local w, b = ty.zeros(x:size(2), CLASSES), ty.zeros(CLASSES)
  local bar = ty.progress(EPOCHS, { label = ("seed %d"):format(seed), unit = "samples", per_step = TRAIN })
  for _ in bar do
    local total, batches = 0, 0
    for first = 1, TRAIN - BATCH + 1, BATCH do
      local rows = { { first, first + BATCH - 1 } }
      total = total + step(x[rows], target[rows], w, b, RATE):item()
      batches = batches + 1
    end
    bar:set { loss = total / batches }
  end
  local held_out = { { TRAIN + 1, -1 } }
  local guess, truth = predict(x[held_out], w, b), y[held_out]
  local accuracy = guess:eq(truth):to("f32"):mean():item()
  print(("  held-out accuracy %.1f %%"):format(100 * accuracy))
  return accuracy, guess, truth, x[held_out]
end

local function confusion(guess, truth)
  local count = {}
  local g, t = guess:totable(), truth:totable()
  for i = 1, #g do
    local key = t[i] * CLASSES + g[i]
    count[key] = (count[key] or 0) + 1
  end
  print("\nconfusion (rows: written, columns: read)")
  io.write("     ")
  for c = 1, CLASSES do io.write(("%4d"):format(c - 1)) end
  print()
  for r = 1, CLASSES do
    io.write(("%4d "):format(r - 1))
    for c = 1, CLASSES do
      local n = count[r * CLASSES + c]
      io.write(n and ("%4d"):format(n) or "   .")
    end
    print()
  end
end

local function images(x, guess, truth, first, n)
  local shades = { " ", "░", "▒", "▓", "█" }
  print("\nsome of them")
  for row = 0, 7 do
    local line = {}
    for i = first, first + n - 1 do
      for column = 1, 8 do
        local level = math.floor(x:get(i, row * 8 + column) * 4 + 0.5) + 1
        line[#line + 1] = shades[level]:rep(2)
      end
      line[#line + 1] = "  "
    end
    print(table.concat(line))
  end
  for i = first, first + n - 1 do
    io.write((" %d read as %d     "):format(truth:get(i) - 1, guess:get(i) - 1))
  end
  print()
end

local pixels, labels = load_csv(here .. "/data/digits.csv")
print(("%d digits of %d pixels; %d train, %d are held out"):format(#pixels, pixels:size(2), TRAIN,
  #pixels - TRAIN))

local sum, guess, truth, x = 0, nil, nil, nil
for seed = 1, SEEDS do
  local accuracy
  accuracy, guess, truth, x = train(pixels, labels, seed)
  sum = sum + accuracy
end
print(("\nmean held-out accuracy of %d seeds: %.2f %%"):format(SEEDS, 100 * sum / SEEDS))

confusion(guess, truth)
images(x, guess, truth, 1, 4)

print("\nwhat the compiler did with the training step")
local told = jit.explain(step)
print(("  %d calls, %d of them answered without running its Lua code, by %d capture%s"):format(told.calls, told.skips,
  told.captures, told.captures == 1 and "" or "s"))
for _, t in ipairs(told.traces) do
  print(("  %2d operations in %d kernels and %d other steps; fusion saved %.0f of %.0f KB of traffic a step"):format(
    t.operations, t.kernels, t.steps - t.kernels, t.bytes_saved / 1e3, (t.bytes_saved + t.bytes_moved) / 1e3))
  for _, guard in ipairs(t.guards) do print("  as long as  " .. guard:gsub("  %(.*", "")) end
  for _, effect in ipairs(t.effects) do print("  each call " .. effect) end
end
