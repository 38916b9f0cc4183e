--- The model of nginx.conf: a small network that reads digits, trained when the worker starts.

local ty = require "tycho"
local nn = ty.nn

ty.threads(1) -- a worker is one of several
ty.manual_seed(1)

local here = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" or "."
local rows = assert(ty.load(here .. "/../data/digits.csv")):tensor(nil, "f32")
local pixels, labels = rows[{ {}, { 1, 64 } }] / 16, rows[{ {}, 65 }]:to "i64" + 1

local model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
local opt = ty.optim.AdamW(model:parameters(), { lr = 0.005 })

local step = ty.compile(function(at)
  opt:zero_grad()
  local loss = ty.cross_entropy(model(pixels:index_select(1, at)), labels:index_select(1, at))
  loss:backward()
  opt:step()
  return loss:detach()
end)
for _ = 1, 600 do step(ty.randint(1, #pixels, { 64 })) end

local read = ty.compile(function(x)
  return ty.no_grad(function()
    local p = model(x / 16):softmax()
    return p:argmax(), p:max()
  end)
end)
read(pixels[1]) -- captured before the first request

local M = {}

--- 64 numbers from 0 to 16 as text; gives the answer and the HTTP status.
function M.answer(text)
  local values = {}
  for v in text:gmatch "[^,%s]+" do values[#values + 1] = tonumber(v) end
  if #values ~= 64 then return "64 numbers, please: 8 rows of 8 gray values from 0 to 16", 400 end
  local digit, sure = read(ty.tensor(values))
  return ("%d %.3f"):format(digit:item() - 1, sure:item()), 200
end

return M
