--- fill.lua -- luajit docs/fill.lua: writes what the examples in reference.txt print behind them. What changed is for
--- the eye to judge: the specs demand what stands there.

local doctest = require "docs.doctest"
local ty = require "tycho"

local path = "docs/reference.txt"
local file = assert(io.open(path))
local text = file:read "*a"
file:close()

local out = { text:match "^(.-\n)\n# " }
for _, example in ipairs(doctest.list(text)) do
  out[#out + 1] = "\n# " .. table.concat(example.names, " ") .. "\n"
  local printed = doctest.run(example, ty)
  for i, line in ipairs(example.lines) do out[#out + 1] = "> " .. line.code .. "\n" .. printed[i] end
end
file = assert(io.open(path, "w"))
file:write(table.concat(out))
file:close()
