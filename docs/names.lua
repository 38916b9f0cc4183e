--- names.lua -- public names of PyTorch and NumPy beside ours: names.txt read and checked; a page of it as Markdown.
-- In: names.txt, the library. Out: lists; the page. Raises for a name that is said to be ours and is not, one that is left
-- out although it is there, one that refers to nothing, and a reason that is not told. `luajit docs/names.lua` prints the page.

local ty = require "tycho"

local check = require("tycho.arguments")(ty)

local M = {}

--- Fields of tensors.
local fields = {}
for name in ("shape dtype device ndim requires_grad grad is_leaf nbytes T mT"):gmatch "%S+" do fields[name] = true end

--- What holds the names of a section; the others are functions of the module or methods.
local holders = {
  ["torch.linalg"] = ty.linalg, ["numpy.linalg"] = ty.linalg, ["torch.fft"] = ty.fft, ["numpy.fft"] = ty.fft,
  ["torch.nn"] = ty.nn, ["torch.nn.init"] = ty.nn.init, ["torch.nn.utils"] = ty.nn.utils, ["torch.optim"] = ty.optim,
  ["torch.optim.lr_scheduler"] = ty.optim, ["torch.utils.data"] = ty.data,
}

--- Whether there is such a function, method or field: "softmax", "linalg.pinv", "nn.Linear".
local function is_ours(name, section)
  local group, last = name:match "^(%a+)%.(.*)$"
  if group then
    local at = ty[group]
    for part in last:gmatch "[^.]+" do at = type(at) == "table" and at[part] or nil end
    return at ~= nil
  end
  local own = section and holders[section]
  if own and own[name] ~= nil then return true end
  local of_layers = section == "torch.nn" or section == "torch.optim" or section == "torch.utils.data"
  return not of_layers and (rawget(ty, name) ~= nil or ty.internals.methods[name] ~= nil or fields[name] == true)
end

--- Sections {title, names = {{name, instead, reason}}} in their order, and the reasons' texts in theirs.
function M.read(text)
  local sections, reasons, order = {}, {}, {}
  for line in text:gmatch "[^\n]+" do
    local key, why = line:match "^= (%a+): (.*)$"
    local title = line:match "^# (.*)$"
    local current = sections[#sections]
    if key then
      reasons[key], order[#order + 1] = why, key
    elseif title then
      sections[#sections + 1] = { title = title, names = {} }
    elseif current then
      local name, mark, rest = line:match "^([%w_]+) ?([>-]?) ?(.*)$"
      local entry = { name = name, instead = mark == ">" and rest or nil, reason = mark == "-" and rest or nil }
      local where = ("docs/names.txt, %s.%s: "):format(current.title, name)
      if entry.reason then
        if not reasons[rest] then error(where .. "no reason " .. rest, 0) end
        if is_ours(name, current.title) then error(where .. "it is there", 0) end
      elseif entry.instead then
        if not is_ours(rest) then error(where .. "there is no " .. rest, 0) end
      elseif not is_ours(name, current.title) then
        error(where .. "it is not there", 0)
      end
      current.names[#current.names + 1] = entry
    end
  end
  return sections, reasons, order
end

--- The page as Markdown.
function M.page(text)
  local sections, reasons, order = M.read(text)
  local out = { "# Names of PyTorch and NumPy", "", "Which of their public functions there are under the same name, what is "
    .. "used instead of others, and why some are left out. Dims and positions count from 1 here." }
  local options = {}
  for theirs, own in pairs(check.others) do options[#options + 1] = ("`%s` (%s)"):format(theirs, own) end
  table.sort(options)
  out[#out + 1] = "\nOptions are taken under these names, too: " .. table.concat(options, ", ") .. "."
  local function add(...) out[#out + 1] = string.format(...) end
  for _, section in ipairs(sections) do
    local same, instead, left = {}, {}, {}
    for _, e in ipairs(section.names) do
      if e.instead then instead[#instead + 1] = ("`%s` (%s)"):format(e.name, e.instead)
      elseif e.reason then
        left[e.reason] = left[e.reason] or {}
        table.insert(left[e.reason], "`" .. e.name .. "`")
      else same[#same + 1] = "`" .. e.name .. "`" end
    end
    add("\n## %s\n", section.title)
    add("%d of %d under the same name: %s.", #same, #section.names, table.concat(same, ", "))
    if #instead > 0 then add("\nUnder another name, or by what stands in brackets: %s.", table.concat(instead, ", ")) end
    for _, key in ipairs(order) do
      if left[key] then add("\nLeft out, since %s: %s.", reasons[key], table.concat(left[key], ", ")) end
    end
  end
  return table.concat(out, "\n") .. "\n"
end

function M.load()
  local file = assert(io.open(debug.getinfo(1, "S").source:match "^@(.*)lua$" .. "txt"))
  local text = file:read "*a"
  file:close()
  return text
end

if arg and arg[0] and arg[0]:find "names%.lua$" then io.write(M.page(M.load())) end

return M
