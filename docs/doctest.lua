--- doctest.lua -- the examples of the reference: reference.txt, read and run.
-- A line "# softmax log_softmax" names what the lines behind it are examples of; "> code" is code, the rest is what it
-- prints: an expression its values, a statement what it writes. Every example begins with ty, nn, optim and the seed 1;
-- its names are its own.

local M = {}

--- The examples in order: {names, code, out, line}.
function M.list(text)
  local list, current, number = {}, nil, 0
  for line in (text .. "\n"):gmatch "([^\n]*)\n" do
    number = number + 1
    local names, code = line:match "^# (.*)$", line:match "^> ?(.*)$"
    if names then
      current = { names = {}, lines = {}, line = number }
      for name in names:gmatch "%S+" do current.names[#current.names + 1] = name end
      list[#list + 1] = current
    elseif current and code then
      current.lines[#current.lines + 1] = { code = code, out = "" }
    elseif current and line ~= "" and #current.lines > 0 then
      local last = current.lines[#current.lines]
      last.out = last.out .. line .. "\n"
    end
  end
  return list
end

--- By name {code, out}: the code of all lines, then what they print.
function M.read(text)
  local by_name = {}
  for _, e in ipairs(M.list(text)) do
    local code, out = {}, {}
    for i, l in ipairs(e.lines) do code[i], out[i] = l.code, l.out end
    for _, name in ipairs(e.names) do
      by_name[name] = { code = table.concat(code, "\n"), out = table.concat(out), example = e }
    end
  end
  return by_name
end

--- A value as text: plain tables as their entries in order.
local function shown(v)
  if type(v) ~= "table" or getmetatable(v) and getmetatable(v).__tostring then
    return type(v) == "string" and ("%q"):format(v) or tostring(v)
  end
  local parts = {}
  for i, e in ipairs(v) do parts[i] = shown(e) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

--- Several values as a line of text; an error as its message.
local function line_of(ok, ...)
  if not ok then return (tostring((...)):gsub("^[^:]*:%d+: ", "")) .. "\n" end
  local n, parts = select("#", ...), { ... }
  for i = 1, n do parts[i] = shown(parts[i]) end
  return n > 0 and table.concat(parts, "\t") .. "\n" or ""
end

--- Runs an example: the text that each of its lines prints, and its names.
function M.run(example, ty)
  local written
  local function write(...)
    for _, text in ipairs { ... } do written[#written + 1] = tostring(text) end
  end
  local function print_line(...)
    local parts = { ... }
    for i = 1, select("#", ...) do parts[i] = tostring(parts[i]) end
    write(table.concat(parts, "\t"), "\n")
  end
  local environment = setmetatable({ ty = ty, nn = ty.nn, optim = ty.optim, print = print_line, io = { write = write } },
    { __index = _G })
  ty.manual_seed(1)
  local out = {}
  for i, l in ipairs(example.lines) do
    written = {}
    local chunk = loadstring("return " .. l.code, "=example") or assert(loadstring(l.code, "=example"))
    write(line_of(pcall(setfenv(chunk, environment))))
    out[i] = table.concat(written)
  end
  return out, environment
end

return M
