--- help.lua -- `ty.help`: what functions are for, from the texts that stand beside them.
-- In: a name, such as "softmax", "nn.Linear", "data.Loader.epoch", "jit.compile", or a function. Out: the help as text:
-- the call, then what it does; of a group ("nn", "jit") the calls in it. Without an argument all groups and names are
-- printed. A name that is not known raises and names one that is near it.
--
-- What is said stands beside the functions: texts.lua. Where sources cannot be read, names are known still. Names that
-- begin with _ are no help's business.

local ty = require "tycho"

local internals = ty.internals
local texts = internals.load "tycho.texts"
local groups = texts.groups
local fail, nearest, help = internals.error, internals.nearest, internals.help

---------------------------------------------------------------------------------------------------------- as text

--- Words in lines of at most `width` letters behind an indent.
local function filled(text, indent, width)
  local lines, line = {}, ""
  for word in text:gmatch "%S+" do
    if line ~= "" and #indent + #line + 1 + #word > width then
      lines[#lines + 1] = indent .. line
      line = ""
    end
    line = line == "" and word or line .. " " .. word
  end
  lines[#lines + 1] = indent .. line
  return table.concat(lines, "\n")
end

--- What an entry says behind its call: description, arguments, results, errors, sources.
local function described(entry)
  local parts = { "  " .. entry.text:gsub("\n", "\n  ") }
  for _, p in ipairs(entry.params) do
    local kind = p.type:gsub("tycho%.", "") .. (p.optional and ", optional" or "")
    local about = texts.about(p)
    parts[#parts + 1] = filled(("%s: %s%s"):format(p.name, kind, about ~= "" and ": " .. about or ""), "    ", 110)
  end
  for _, r in ipairs(entry.returns) do
    local kind = r.type:gsub("tycho%.", "") .. (r.name and " " .. r.name or "")
    parts[#parts + 1] = filled(("gives %s%s"):format(kind, r.text ~= "" and ": " .. r.text or ""), "    ", 110)
  end
  local raises = texts.raises(entry)
  if raises then parts[#parts + 1] = filled(raises, "  ", 110) end
  if entry.accuracy then parts[#parts + 1] = "  Accuracy: " .. entry.accuracy .. "." end
  if entry.formula and not entry.text:find(entry.formula, 1, true) then
    parts[#parts + 1] = filled("Formula: " .. entry.formula, "  ", 110)
  end
  return table.concat(parts, "\n")
end

--- The name as it is called: plot:line, nn.Linear.
local function called(entry) return entry.method and entry.name:gsub("%.([^.]*)$", ":%1") or entry.name end

--- Everything that is said of a name, nil where it is not known; false where no source can be read.
local function text_of_entry(name)
  local entry = texts.of(name)
  return entry and ("%s%s\n%s"):format(called(entry), entry.call, described(entry)) or entry
end

--- The functions of a group by name, with their calls; false where no source of theirs can be read.
local function entries(group)
  local y = {}
  for name in pairs((texts.members(group))) do
    local entry = texts.of(name)
    y[name] = entry and called(entry) .. entry.call or entry
  end
  return y
end

local function sorted(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list)
  return list
end

--- A group: its own help if it is a function too, then the calls in it.
local function overview(group)
  local of, lines = entries(group), { help[group] and text_of_entry(group) }
  for _, name in ipairs(sorted(of)) do
    if of[name] then lines[#lines + 1] = of[name] end
  end
  return table.concat(lines, "\n")
end

------------------------------------------------------------------------------------------------------ what is asked

local function last_of(name) return name:match "[^.]*$" end

--- Raises for a name that nobody has: which may have been meant.
local function unknown(name)
  local all, by_last = {}, {}
  for known in pairs(help) do all[known] = true end
  for group in pairs(groups) do
    all[group] = true
    for known in pairs(entries(group)) do all[known] = true end
  end
  for known in pairs(all) do
    local last = last_of(known)
    if not by_last[last] or known < by_last[last] then by_last[last] = known end
  end
  local near = by_last[name] or nearest(name, all) or by_last[nearest(last_of(name), by_last)]
  fail(("help: no function %q%s"):format(name, near and (", did you mean %q?"):format(near) or ""))
end

--- The name under which a function or class is known, nil: it is none of the library's.
local function name_of(f)
  for name in pairs(help) do
    if rawget(ty, name) == f or internals.methods[name] == f then return name end
  end
  local jit_table = rawget(_G, "jit")
  for _, name in ipairs(type(jit_table) == "table" and texts.jit_names() or {}) do
    if jit_table[name] == f then return "jit." .. name end
  end
  for group in pairs(groups) do
    local found, t = texts.members(group)
    for name, value in pairs(found) do
      if value == f then return name end
    end
    if t ~= nil and t == f then return group end
  end
end

--- What Lua does with tensors otherwise than may be expected, and what fields of tensors are.
local of_lua = {
  ["=="] = "a == b\n  Whether both are the same tensor: x == 1 is false, whatever x holds, since Lua compares values "
    .. "of different types without asking them.\n  x:eq(1) compares each element, ty.equal(a, b) all of two tensors, "
    .. "x:item() == 1 the one element of x.",
  ["<"] = "a < b\n  Raises: Lua makes a boolean of what a comparison gives. x:lt(1) compares each element, "
    .. "x:item() < 1 the one element of x.",
  tonumber = "tonumber(x)\n  nil for a tensor: Lua's function knows numbers and texts alone.\n  x:item() is the "
    .. "number of a tensor of one element, x:get(i, j) that of an element, x:totable() all as tables.",
}
for _, name in ipairs { "permute", "reshape", "expand", "as_strided", "resize" } do
  local instead = help[name] and "x = x:" .. name .. "(...) is a view of the same memory: writes to it are writes to x."
    or "x = x:reshape(...) has others, ty.cat and x:pad more elements."
  of_lua[name .. "_"] = "x:" .. name .. "_()\n  There is none.\n  " .. instead
end
for name, text in pairs {
  shape = "The sizes of its dims, in a table of its own: writing to that changes nothing.",
  dtype = "The name of its elements' type, such as \"f32\"; ty.help \"promotion\" names all.",
  ndim = "How many dims it has; x:dim() is the same.",
  requires_grad = "Whether backward computes its gradient, or goes through it. x:requires_grad_() asks for one.",
  is_leaf = "Whether it was made by no operation that gradients go through.",
  nbytes = "How many bytes its elements take: x:numel() * x:element_size().",
  T = "A view with its dims in reverse order, as in NumPy.",
  mT = "A view with its last two dims exchanged: the transposes of matrices [..., n, m].",
} do
  if not help[name] then of_lua[name] = "x." .. name .. "\n  " .. text end
end
of_lua["~="], of_lua[">"], of_lua["<="], of_lua[">="] = of_lua["=="], of_lua["<"], of_lua["<"], of_lua["<"]

local DTYPES = { "bool", "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "c64",
  "c128" }

--- What two dtypes make, of all pairs.
local function promotion()
  local lines = { [[
promotion
  The dtype in which two tensors meet, in a + b, ty.where, ty.cat ... (ty.promote_types):
  - bool and another: the other; sums and products of two bools count, in i64
  - two integers: the smallest integer that holds both; f64 for u64 and a signed one (NumPy's rule)
  - an integer and a float, real or complex: the float's, however wide the integer is (PyTorch's rule; NumPy
    goes to f64 and c128 where the integer has more digits)
  - two floats: the larger; f32 for f16 and bf16
  - c64 and f64: c128
  A number of Lua is weak: it takes the tensor's dtype, but a fraction beside an integer gives the default float, as
  do quotients and functions of integers (sqrt, mean). A whole number that an integer dtype does not hold raises.
]], "  " .. (" "):rep(5) .. table.concat(DTYPES, " "):gsub("%S+ ?", function(name) return ("%-5s"):format(name) end) }
  for _, a in ipairs(DTYPES) do
    local row = { ("%-4s"):format(a) }
    for _, b in ipairs(DTYPES) do row[#row + 1] = ("%-4s"):format(ty.promote_types(a, b)) end
    lines[#lines + 1] = "  " .. table.concat(row, " ")
  end
  return (table.concat(lines, "\n"):gsub(" +\n", "\n"):gsub(" +$", ""))
end

--- The help of a name or of what stands under it.
---@param asked any
---@return string
local function text_of(asked)
  if of_lua[asked] or asked == tonumber then return of_lua[asked] or of_lua.tonumber end
  if type(asked) == "function" or type(asked) == "table" then
    local name = name_of(asked)
    if not name then fail("help: that is no function of the library") end
    return text_of(name)
  end
  if type(asked) ~= "string" then fail("help: argument 1 must be a name or a function, got " .. type(asked)) end
  local key = asked:gsub(":", "."):gsub("%.%*$", ""):gsub("^ty%.", ""):gsub("^[Tt]ensor%.", "")
  if key == "jit" then
    local lines = {}
    for _, name in ipairs(texts.jit_names()) do
      lines[#lines + 1] = "jit." .. name .. texts.of("jit." .. name).call
    end
    return table.concat(lines, "\n")
  end
  if key == "promotion" then return promotion() end
  if groups[key] then return overview(key) end
  local text = text_of_entry(key)
  if text == false then return asked .. "\n  its help stands in the sources, which cannot be read here" end
  return text or unknown(key)
end
internals.help_text = text_of

--- Words in lines of at most `width` letters.
local function wrapped(words, width)
  local lines, line = {}, " "
  for _, word in ipairs(words) do
    if #line + #word + 1 > width then
      lines[#lines + 1] = line
      line = " "
    end
    line = line .. " " .. word
  end
  lines[#lines + 1] = line
  return table.concat(lines, "\n")
end

--- All names: functions of the module and methods of tensors, then the groups.
local function everything()
  local names = {}
  for _, name in ipairs(sorted(help)) do
    local in_place = name:sub(-1) == "_" and help[name:sub(1, -2)]
    if not in_place and not name:find(".", 1, true) then names[#names + 1] = name end
  end
  local parts = {
    "functions of ty, most of them methods of tensors, too; with _ at the end many write to their first argument",
    wrapped(names, 100), "jit", wrapped(texts.jit_names(), 100),
  }
  for _, group in ipairs(sorted(groups)) do
    local of_group = {}
    for name in pairs(entries(group)) do
      if not name:find("%..*%.") then of_group[#of_group + 1] = name:sub(#group + 2) end
    end
    table.sort(of_group)
    parts[#parts + 1] = group
    parts[#parts + 1] = wrapped(of_group, 100)
  end
  parts[#parts + 1] = 'ty.help "softmax", ty.help(ty.softmax), ty.help "nn.Linear" explain one, ty.help "nn" a group'
  return table.concat(parts, "\n")
end

--- The list of all names, which shows nothing at the prompt: it has been printed.
local printed = { __tostring = function() return "" end }

--- The help of a function as text; of a group the calls in it. Without an argument all names are printed; a list of
--- them is given, groups as "nn.*".
--- Raises for a name that is not known, and names the nearest.
---@param what? string|function "softmax", "nn.Linear", "nn", "jit", ty.softmax
---@return string|string[]
return function(what)
  if what ~= nil then return text_of(what) end
  io.write(everything(), "\n")
  local list = sorted(help)
  for group in pairs(groups) do list[#list + 1] = group .. ".*" end
  table.sort(list)
  return setmetatable(list, printed)
end
