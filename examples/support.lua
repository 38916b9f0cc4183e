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
      local rows = order:narrow(1, first, batch)
      local loss = step(x[rows], y[rows]):item()
      schedule:step()
      mean = mean and mean + (loss - mean) * 0.05 or loss
      bar:step { loss = mean }
    end
  end
  return mean
end

return M
