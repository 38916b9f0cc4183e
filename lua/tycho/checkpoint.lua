--- checkpoint.lua -- training that stops and goes on to the bit: `ty.save_checkpoint`, `ty.load_checkpoint`.
-- In: parts by name: whatever has state_dict and load_state_dict (models, optimisers, schedules), tensors, plain tables
-- of them, numbers, texts, booleans. Out: one safetensors file, which other tools read too.
--
-- The tensors are the file's tensors, under readable names such as model.layers.1.weight. The rest is one tree in the
-- metadata under "tycho.tree", as JSON: numbers with 17 digits (so their bits return), {"$tensor": name} where a tensor
-- stands. What JSON cannot say is said by objects of one key that begins with $: $number (nan, inf), $bytes (texts that
-- are not UTF-8, in hexadecimal), $pairs (tables whose keys are not all names or 1..n). "tycho.random" is the state of
-- the random numbers. The file is written beside the old one, brought to the disk, and renamed.

local type, pairs, ipairs, tostring = type, pairs, ipairs, tostring

local map = require("tycho.tree").map

local TREE, RANDOM = "tycho.tree", "tycho.random"
local DEEPEST = 50 -- levels of tables; the reader of JSON has 128, and a table may take two

return function(ty, C, check, quoted, save_safetensors)
  local SAVE, LOAD = "save_checkpoint", "load_checkpoint"

  ---------------------------------------------------------------------------------------------------------- to a tree

  local function has_state(v) return type(v) == "table" and type(v.state_dict) == "function" end

  local function number_text(v)
    if v ~= v then return '{"$number":"nan"}' end
    if v == math.huge or v == -math.huge then return v > 0 and '{"$number":"inf"}' or '{"$number":"-inf"}' end
    if v == 0 then return 1 / v < 0 and "-0" or "0" end
    return ("%.17g"):format(v)
  end

  local function string_text(s)
    local visible = s:gsub("[%z\1-\31\127]", " ") -- control characters are escaped, so they do no harm
    if not C.bad_name(visible) then return quoted(s) end
    return '{"$bytes":"' .. s:gsub(".", function(c) return ("%02x"):format(c:byte()) end) .. '"}'
  end

  --- Whether the keys are 1..n, and whether all are texts that need no escape.
  local function keys_of(t)
    local keys, named = {}, true
    for k in pairs(t) do
      keys[#keys + 1] = k
      named = named and type(k) == "string" and k:sub(1, 1) ~= "$" and not C.bad_name(k)
    end
    return keys, #keys == #t, named
  end

  local function by_key(a, b)
    if type(a) ~= type(b) then return type(a) < type(b) end
    if type(a) == "boolean" then return a and not b end
    return a < b
  end

  --- The name of a tensor at that path: no other tensor's.
  local function name_tensor(out, t, path)
    local name = out.names[t]
    if name then return name end
    name = C.bad_name(path) and "tensor" or path
    local first, n = name, 1
    while out.tensors[name] do
      n = n + 1
      name = ("%s#%d"):format(first, n)
    end
    out.names[t], out.tensors[name] = name, t:detach()
    return name
  end

  local encode

  local function encode_table(out, t, path, depth)
    if depth > DEEPEST then check.fail(SAVE, "%s: tables within tables without end", path:sub(1, 60)) end
    local keys, list, named = keys_of(t)
    local parts = {}
    if list then
      for i, v in ipairs(t) do parts[i] = encode(out, v, ("%s.%d"):format(path, i), depth) end
      return "[" .. table.concat(parts, ",") .. "]"
    end
    for _, k in ipairs(keys) do
      local kind = type(k)
      if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
        check.fail(SAVE, "%s: keys must be texts, numbers or booleans, got %s", path, check.show(k))
      end
    end
    table.sort(keys, by_key)
    for i, k in ipairs(keys) do
      local v = encode(out, t[k], ("%s.%s"):format(path, tostring(k)), depth)
      if named then parts[i] = quoted(k) .. ":" .. v
      else parts[i] = "[" .. encode(out, k, path, depth) .. "," .. v .. "]" end
    end
    if named then return "{" .. table.concat(parts, ",") .. "}" end
    return '{"$pairs":[' .. table.concat(parts, ",") .. "]}"
  end

  function encode(out, v, path, depth)
    local kind = type(v)
    if kind == "number" then return number_text(v) end
    if kind == "string" then return string_text(v) end
    if kind == "boolean" then return tostring(v) end
    if ty.is_tensor(v) then
      check.tensor(SAVE, 2, v)
      return '{"$tensor":' .. quoted(name_tensor(out, v, path)) .. "}"
    end
    if has_state(v) then return encode(out, v:state_dict(), path, depth + 1) end
    if kind == "table" then return encode_table(out, v, path, depth + 1) end
    return check.fail(SAVE, "%s cannot be saved: it is %s", path, check.show(v))
  end

  --- Writes a checkpoint: the parts, and the state of the random numbers.
  --- Raises where the path is no string, or a part is neither savable nor has state_dict.
  ---@param path string
  ---@param parts table<string, any> such as {model = m, optimizer = opt, schedule = s, step = 100}
  ---@return true? ok, string? message
  local function save(path, parts)
    if type(path) ~= "string" or path == "" then
      check.fail(SAVE, "argument 1 must be a path, got %s", check.show(path))
    end
    if type(parts) ~= "table" or ty.is_tensor(parts) or has_state(parts) then
      check.fail(SAVE, "argument 2 must be a table of parts by name, got %s", check.show(parts))
    end
    local out, tree, names = { names = {}, tensors = {} }, {}, {}
    for name in pairs(parts) do
      if type(name) ~= "string" or name:sub(1, 1) == "$" or C.bad_name(name) then
        check.fail(SAVE, "the names of parts must be texts, got %s", check.show(name))
      end
      names[#names + 1] = name
    end
    table.sort(names)
    for i, name in ipairs(names) do tree[i] = quoted(name) .. ":" .. encode(out, parts[name], name, 0) end
    local text = "{" .. table.concat(tree, ",") .. "}"
    local readable, why = C.json(text) -- its reader has limits: seen now, not when it is needed
    if readable == nil then check.fail(SAVE, "%s (long lists are saved as tensors)", why) end
    local metadata = { [TREE] = text, [RANDOM] = ty.random_state() }
    return save_safetensors(SAVE, path, out.tensors, metadata, true)
  end

  ---------------------------------------------------------------------------------------------------------- from a tree

  local numbers = { nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge }

  --- Objects of one key that begins with $. Gives nil where it is none.
  local special = {
    ["$tensor"] = function(v, tensors) return tensors[v] end,
    ["$number"] = function(v) return numbers[v] end,
    ["$bytes"] = function(v)
      if type(v) ~= "string" or v:find("%X") or #v % 2 == 1 then return nil end
      return (v:gsub("..", function(h) return string.char(tonumber(h, 16)) end))
    end,
  }

  local decode

  local function decode_pairs(list, tensors)
    local t = {}
    if type(list) ~= "table" then return nil end
    for _, pair in ipairs(list) do
      local k = type(pair) == "table" and decode(pair[1], tensors)
      local v = type(pair) == "table" and decode(pair[2], tensors)
      if k == nil or v == nil or k ~= k then return nil end
      t[k] = v
    end
    return t
  end

  --- The value that a part of the tree stands for; nil where it stands for none.
  function decode(v, tensors)
    if type(v) ~= "table" then return v end
    local key = next(v)
    if type(key) == "string" and key:sub(1, 1) == "$" then
      if key == "$pairs" then return decode_pairs(v[key], tensors) end
      local make = special[key]
      return make and make(v[key], tensors)
    end
    for k, part in pairs(v) do -- where it stands: a tree may be large, two of them twice that
      local value = decode(part, tensors)
      if value == nil then return nil end
      v[k] = value
    end
    return v
  end

  local function read(path)
    local tensors, metadata = ty.internals.load("tycho.files").safetensors.load(path)
    if not tensors then return nil, metadata end
    if not metadata[TREE] then return nil, ("%s: is no checkpoint (use ty.load)"):format(path) end
    local tree, why = C.json(metadata[TREE])
    if type(tree) ~= "table" then return nil, ("%s: %s: %s"):format(path, TREE, why or "is no object") end
    local parts = decode(tree, tensors)
    if not parts then return nil, ("%s: %s names what is not there"):format(path, TREE) end
    local random = metadata[RANDOM]
    if random and not (#random == 32 and random:find("^[0-9a-f]+$")) then
      return nil, ("%s: %s is damaged"):format(path, RANDOM)
    end
    return parts, random
  end

  --- A copy of what a part holds now.
  local function snapshot(part)
    return map(part:state_dict(), function(v)
      if ty.is_tensor(v) then return v:detach():clone() end
    end, {})
  end

  --- Gives each part what was saved of it; where one raises, those before it get back what they held.
  local function take_up(into, parts)
    local held, names = {}, {}
    for name in pairs(into) do names[#names + 1] = name end
    table.sort(names, by_key) -- the same on all ranks of a run
    for i, name in ipairs(names) do
      local part = into[name]
      if i < #names then held[name] = snapshot(part) end -- nothing comes behind the last
      local ok, message = pcall(part.load_state_dict, part, parts[name])
      if not ok then
        held[name] = nil -- a part that raises has changed nothing
        for other, state in pairs(held) do into[other]:load_state_dict(state) end
        error(message, 0)
      end
    end
    for name, part in pairs(into) do parts[name] = part end
  end

  --- Reads a checkpoint. The parts of `into` that have load_state_dict take up what was saved under their names, and
  --- random numbers go on where they stood; the rest is in what it gives. Without `into` states come as tables and the
  --- random numbers stay as they are. Raises where a part does not fit what was saved; then all are as they were.
  ---@param path string
  ---@param into? table<string, any> such as {model = m, optimizer = opt}
  ---@param opts? {random: boolean?} random = false: random numbers stay as they are
  ---@return table<string, any>? parts, string? message
  local function load(path, into, opts)
    if type(path) ~= "string" or path == "" then
      check.fail(LOAD, "argument 1 must be a path, got %s", check.show(path))
    end
    opts = check.options(LOAD, opts, { random = "boolean" })
    if into ~= nil and (type(into) ~= "table" or ty.is_tensor(into) or has_state(into)) then
      check.fail(LOAD, "argument 2 must be a table of parts by name, got %s", check.show(into))
    end
    for name, part in pairs(into or {}) do
      if not has_state(part) or type(part.load_state_dict) ~= "function" then
        check.fail(LOAD, "%s must have state_dict and load_state_dict, got %s", tostring(name), check.show(part))
      end
    end
    local parts, random = read(path)
    if not parts then return nil, random end
    for name in pairs(into or {}) do
      if type(parts[name]) ~= "table" then
        return nil, ("%s: holds no state of %s"):format(path, tostring(name))
      end
    end
    take_up(into or {}, parts)
    if into and random and opts.random ~= false then ty.random_state(random) end
    return parts
  end

  return save, load
end
