-- What the training examples share: the digits, a loop over batches. Runs nothing by itself.

local ty = require "tycho"

local M = {}

--- The hand-written digits: pixels [1797, 64] in 0..1, labels i64 from 1 (of the digit 0) to 10.
function M.digits(path)
  local file = assert(io.open(path))
  local pixels, labels = {}, {}
  for line in file:lines() do
    local row = {}
    for v in line:gmatch("[^,]+") do row[#row + 1] = tonumber(v) end
    labels[#labels + 1] = table.remove(row) + 1
    pixels[#pixels + 1] = row
  end
  file:close()
  return ty.tensor(pixels) / 16, ty.tensor(labels, { dtype = "i64" })
end

--- Takes `--device NAME` (or --device=NAME) out of the arguments: what is made from then on lies there.
function M.device(arguments)
  for i, word in ipairs(arguments) do
    local name = word:match "^%-%-device=(.*)$"
    if name or word == "--device" then
      name = name or table.remove(arguments, i + 1)
      table.remove(arguments, i)
      local ok, why = ty.device(name or "")
      if ok then return end
      io.stderr:write(why, "\n")
      os.exit(1, true)
    end
  end
end

--- What the compiler made of a function, in a few lines.
function M.tell(title, compiled)
  local told = ty.explain(compiled)
  print(("\n%s: %d calls, %d of them without running its Lua code"):format(title, told.calls, told.skips))
  for _, t in ipairs(told.traces) do
    print(("  one plan: %d operations in %d kernels and %d other steps, %d guards"):format(t.operations, t.kernels,
      t.steps - t.kernels, #t.guards))
  end
  local said = {}
  for _, why in ipairs(told.aborts) do
    if not said[why.reason] then print("  its Lua code runs and is recorded: " .. why.reason) end
    said[why.reason] = true
  end
end

--- Trains on batches in random order. step(x, y) gives the loss; after each schedule:step() the rate is another one.
--- Shows a mean of the last losses, and gives the last one.
function M.fit(head, x, y, batch, epochs, step, schedule)
  local batches = math.floor(#x / batch)
  local bar = ty.progress(epochs * batches, { label = head, unit = "samples", per_step = batch, curve = "loss" })
  local mean
  for _ = 1, epochs do
    local order = ty.randperm(#x)
    for first = 1, batches * batch, batch do
      local rows = ty.dist.part(order:narrow(1, first, batch)) -- all of it, but with `tycho --ranks`
      local loss = step(x[rows], y[rows]):item()
      schedule:step()
      mean = mean and mean + (loss - mean) * 0.05 or loss
      bar:step { loss = mean }
    end
  end
  return mean
end

local TRAIN = 1437 -- of the 1,797 digits; the others are never trained on

--- Trains one model on the digits, in an order of the seed, and measures it on those that are held out.
--- opts: seed, epochs, batch, rate (the most in a cycle).
--- Gives the accuracy, the model, the compiled step, and what was held out: pixels, guesses, labels.
---@param pixels tycho.Tensor [n, 64]
---@param labels tycho.Tensor i64 [n]
---@param make fun(): tycho.nn.Module takes [batch, 64], gives [batch, 10]
function M.classify(pixels, labels, make, opts)
  ty.manual_seed(opts.seed)
  local order = ty.randperm(#pixels)
  local x, y = pixels[order], labels[order]
  local model = ty.dist.replicate(make())
  local opt = ty.optim.AdamW(model:parameters(), { lr = opts.rate })
  local steps = opts.epochs * math.floor(TRAIN / opts.batch)
  local schedule = ty.optim.OneCycleLR(opt, { steps = steps, most = opts.rate })

  local step = jit.compile(function(images, target)
    opt:zero_grad()
    local loss = ty.cross_entropy(model(images), target, { label_smoothing = 0.1 })
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  local first = { { 1, TRAIN } }
  M.fit(("seed %d"):format(opts.seed), x[first], y[first], opts.batch, opts.epochs, step, schedule)

  model:eval()
  local predict = jit.compile(function(images) return model(images):argmax(2) end)
  local held_out, truth = x[{ { TRAIN + 1, -1 } }], y[{ { TRAIN + 1, -1 } }]
  local guess = ty.no_grad(predict, held_out)
  local accuracy = guess:eq(truth):to("f32"):mean():item()
  print(("  held-out accuracy %.2f %%"):format(100 * accuracy))
  return accuracy, model, step, held_out, guess, truth
end

--- The same for seeds 1 to opts.seeds: prints the mean accuracy and the last model. Gives what the last gave.
function M.classify_all(path, make, opts)
  local pixels, labels = M.digits(path)
  print(("%d digits of %d pixels; %d train, %d are held out"):format(#pixels, pixels:size(2), TRAIN, #pixels - TRAIN))
  local sum, last = 0, nil
  for seed = 1, opts.seeds do
    opts.seed = seed
    last = { M.classify(pixels, labels, make, opts) }
    sum = sum + last[1]
  end
  print(("\nmean held-out accuracy of %d seeds: %.2f %%"):format(opts.seeds, 100 * sum / opts.seeds))
  print(("\n%s\n%d parameters"):format(tostring(last[2]), last[2]:num_parameters()))
  return unpack(last)
end

return M
