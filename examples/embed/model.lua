--- A small network for the C program beside it: 4 numbers of a game to 2 actions, and how sure it is.
-- `...` is what the weights' file holds, by name.

local weights = ...

local function layer(x, name) return x:matmul(weights[name .. ".weight"]) + weights[name .. ".bias"] end

local model = {}

function model.forward(_, x, temperature)
  local hidden = layer(x, "first"):tanh()
  local logits = layer(hidden, "second") / temperature
  local chance = logits:softmax()
  return { action = chance:argmax(-1), chance = chance }
end

return model
