--- repl/warnings.lua -- names that an input reads and that are nothing: globals, and fields of modules.
-- In: a compiled input before it runs. Out: once it has run, a line for each such name, with the nearest one that is
-- there. What functions read may be defined later: of that only what looks like a slip is told, once. Cannot fail.

local ty = require "tycho"
local problems = require "tycho.repl.problems"
local source = require "tycho.repl.source"

--- Globals that a function reads and writes: name -> "here" where it does itself, "inside" in functions of it.
local function globals_of(fn)
  local found, util = pcall(require, "jit.util")
  local named, vmdef = pcall(require, "jit.vmdef")
  local reads, writes = {}, {}
  if not (found and named) then return reads, writes end
  local shift, band = bit.rshift, bit.band
  local function visit(proto, kind)
    for pc = 1, math.huge do
      local ins = util.funcbc(proto, pc)
      if not ins then break end
      local at = 6 * band(ins, 0xff)
      local op = vmdef.bcnames:sub(at + 1, at + 6)
      if op == "GGET  " or op == "GSET  " then
        local name = util.funck(proto, -shift(ins, 16) - 1)
        local set = op == "GGET  " and reads or writes
        if set[name] ~= "here" then set[name] = kind end
      end
    end
    for i = 1, math.huge do
      local k = util.funck(proto, -i)
      if k == nil then break end
      if type(k) == "proto" then visit(k, "inside") end
    end
  end
  visit(fn, "here")
  return reads, writes
end

--- The names that an input reads as globals and that nobody has: name -> "here" or "inside".
local function missing_globals(session, fn)
  local ok, reads, writes = pcall(globals_of, fn)
  local missing = {}
  if not ok then return missing end
  for name, where in pairs(reads) do
    if rawget(_G, name) == nil and not writes[name] and not session.fresh[name] and not name:find "^_%d*$" then
      missing[name] = where
    end
  end
  for name in pairs(writes) do session.fresh[name] = true end
  return missing
end

local OPENS = { ["function"] = true, ["do"] = true, ["if"] = true, ["repeat"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }

--- The paths that a text reads, `ty.nn.Linear`: path -> "here" or "inside", as above.
local function paths_of(text)
  local tokens, found, blocks, functions, i = source.tokens(text), {}, {}, 0, 1
  local function at(k) return tokens[k] and tokens[k].text end
  while tokens[i] do
    local word = at(i)
    if OPENS[word] then
      blocks[#blocks + 1] = word
      functions = functions + (word == "function" and 1 or 0)
    elseif CLOSES[word] then
      functions = functions - (table.remove(blocks) == "function" and 1 or 0)
    elseif tokens[i].kind == "name" and at(i - 1) ~= "." and at(i - 1) ~= ":" then
      local path = word
      while at(i + 1) == "." and tokens[i + 2] and tokens[i + 2].kind == "name" do
        i = i + 2
        path = path .. "." .. at(i)
      end
      if path ~= word and at(i + 1) ~= "=" and found[path] ~= "here" then
        found[path] = functions > 0 and "inside" or "here"
      end
    end
    i = i + 1
  end
  return found
end

--- Whether a table is a module: one that was loaded, or a part of the library.
local function is_module(t)
  if type(t) ~= "table" or t == _G then return false end
  for _, loaded in pairs(package.loaded) do
    if loaded == t then return true end
  end
  for _, part in next, ty do
    if part == t then return true end
  end
  return false
end

--- The module that a path leads through, and the field that it has not; nil: it has it, or it is no module's.
local function missing_field(session, path)
  local owner, name = path:match "^(.*)%.([^.]*)$"
  local t = problems.resolve(session, owner)
  if is_module(t) and problems.resolve(session, path) == nil then return owner, name, t end
end

local function meant(text) return text and (", did you mean `%s`?"):format(text) or "" end

--- To be asked when the input has run: its warnings.
---@param session table
---@param input tycho.Input
---@return fun(): string[]
return function(session, input)
  local globals, paths = missing_globals(session, input.fn), paths_of(session.texts[input.name])
  return function()
    local list = {}
    local function warn(key, where, near, line)
      if session.fresh[key] or where == "inside" and not near then return end
      list[#list + 1] = line
      if where == "inside" then session.fresh[key] = true end
    end
    for name, where in pairs(globals) do
      if rawget(_G, name) == nil then
        local near = problems.nearest(name, problems.names(session))
        warn(name, where, near, ("warning: no global `%s`%s"):format(name, meant(near)))
      end
    end
    for path, where in pairs(paths) do
      local owner, name, t = missing_field(session, path)
      if owner then
        local near = problems.nearest(name, problems.keys_of(t, {}))
        warn(path, where, near, ("warning: no field `%s` in `%s`%s"):format(name, owner,
          meant(near and owner .. "." .. near)))
      end
    end
    table.sort(list)
    return list
  end
end
