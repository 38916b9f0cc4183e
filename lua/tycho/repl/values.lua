--- repl/values.lua -- values as a reader wants to see them.
-- In: any value. Out: text, bounded in depth, width and length; colours where they are asked for. An error in a
-- __tostring is shown in the place of what it should have given.

local ty = require "tycho"
local source = require "tycho.repl.source"

local M = {}

local DEPTH, LINES, TEXT = 3, 60, 400 -- of tables, of all, letters of a string in a table
local ITEMS = { [0] = 40, 12, 6 } -- in a table, by its depth

local COLORS = {
  number = "36", string = "32", boolean = "35", ["nil"] = "90", name = "33", dim = "90", error = "31", warning = "33",
}

--- Text in the colour of its kind.
---@param kind string
---@param text string
---@param colors boolean
function M.paint(kind, text, colors)
  local code = colors and COLORS[kind] or ""
  return code ~= "" and ("\27[%sm%s\27[0m"):format(code, text) or text
end

local function columns_of(text)
  text = text:gsub("\27%[[%d;]*m", "")
  local _, more = text:gsub("[\128-\191]", "")
  return #text - more
end

local function count_text(n, what) return ("%d %s%s"):format(n, what, n == 1 and "" or "s") end

--- "f32[2,3]", with the device where it is not the processor.
function M.tensor(x)
  local device = x.device
  return ("%s[%s]%s%s"):format(x.dtype, table.concat(x.shape, ","), device ~= "cpu" and " " .. device or "",
    x.requires_grad and " requires_grad" or "")
end

--- A string with quotes; its middle is left out where it is long.
local function quoted(s, limit)
  local more = limit and #s > limit and #s - limit
  local text = ("%q"):format(more and s:sub(1, limit) or s):gsub("\\\n", "\\n"):gsub("\r", "\\r"):gsub("\t", "\\t")
  text = text:gsub("[%z\1-\31\127]", function(c) return ("\\%d"):format(c:byte()) end)
  return more and ("%s .. (%s more)"):format(text, count_text(more, "byte")) or text
end

local HOME = debug.getinfo(ty.internals.load, "S").source:match "^@(.*)[/\\]" or "\0"

--- Where a function was defined: "input[3]:1", "model.lua:14".
function M.place(f)
  local info = debug.getinfo(f, "S")
  if info.what == "C" or info.linedefined < 1 and info.what ~= "main" then return "built in" end
  local path = info.source:gsub("^[@=]", "")
  if path:sub(1, #HOME) == HOME and path:find("^[/\\]", #HOME + 1) then path = "tycho/" .. path:sub(#HOME + 2) end
  return ("%s:%d"):format(#path <= 60 and path or info.short_src, info.linedefined)
end

--- The function whose source says what f does: that behind a composite, or a compiled function.
function M.written(f) return ty.internals.original(f) or ty.internals.written[f] or f end

local function function_text(f)
  local compiled = ty.internals.original(f)
  if compiled then return "compiled " .. function_text(compiled) end
  f = M.written(f)
  local info = debug.getinfo(f, "Su")
  local names = {}
  for i = 1, info.nparams or 0 do names[i] = debug.getlocal(f, i) end
  if info.isvararg and info.what ~= "C" then names[#names + 1] = "..." end
  return ("function(%s) %s"):format(info.what == "C" and "..." or table.concat(names, ", "), M.place(f))
end

local function sort_key(a, b)
  local x, y = type(a), type(b)
  if x ~= y then return x == "number" or y ~= "number" and x < y end
  if x == "number" or x == "string" then return a < b end
  return tostring(a) < tostring(b)
end

--- The keys of a table behind its list part, in order.
local function other_keys(t, length)
  local keys = {}
  for k in next, t do
    local in_list = type(k) == "number" and k >= 1 and k <= length and k % 1 == 0
    if not in_list and not (type(k) == "string" and k:find "^__") then keys[#keys + 1] = k end
  end
  table.sort(keys, sort_key)
  return keys
end

local function own_tostring(v)
  local meta = debug.getmetatable(v)
  return type(meta) == "table" and rawget(meta, "__tostring") ~= nil or type(v) == "userdata"
end

local show -- (state, value, depth, indent) -> text

local function key_text(k, state)
  if type(k) == "string" then
    if k:find "^[%a_][%w_]*$" and not source.KEYWORDS[k] then return k end
    return "[" .. quoted(k, 60) .. "]"
  end
  return "[" .. show(state, k, DEPTH, 0) .. "]"
end

--- A table's name, in front of its braces: the class of an object.
local function class_name(t)
  local meta = getmetatable(t)
  local name = type(meta) == "table" and (rawget(meta, "class_name") or rawget(meta, "__name"))
  return type(name) == "string" and name .. " " or ""
end

local function table_text(state, t, depth, indent)
  local paint, colors = M.paint, state.colors
  if state.above[t] then return paint("dim", "{ itself }", colors) end
  if depth > 0 and type(rawget(t, "class_name")) == "string" and rawget(t, "__index") then
    return paint("name", "class " .. rawget(t, "class_name"), colors)
  end
  local length = #t
  local keys = other_keys(t, length)
  local name = paint("name", class_name(t), colors)
  if length == 0 and #keys == 0 then return name .. "{}" end
  if depth >= DEPTH or state.lines > LINES then
    return name .. paint("dim", ("{ %s }"):format(count_text(length + #keys, "item")), colors)
  end
  state.above[t] = true
  local parts, shown = {}, 0
  for i = 1, math.min(length, ITEMS[depth]) do
    parts[#parts + 1] = show(state, rawget(t, i), depth + 1, indent + 2)
    shown = shown + 1
  end
  for _, k in ipairs(keys) do
    if shown >= ITEMS[depth] then break end
    local head = key_text(k, state)
    parts[#parts + 1] = head .. " = " .. show(state, rawget(t, k), depth + 1, indent + 2)
    shown = shown + 1
  end
  state.above[t] = nil
  local left = length + #keys - shown
  if left > 0 then parts[#parts + 1] = paint("dim", ("... %d more"):format(left), colors) end
  local line, multiline = table.concat(parts, ", "), false
  for _, p in ipairs(parts) do multiline = multiline or p:find("\n", 1, true) ~= nil end
  if not multiline and columns_of(line) + indent + columns_of(name) + 4 <= state.width then
    return name .. "{ " .. line .. " }"
  end
  state.lines = state.lines + #parts
  local space = (" "):rep(indent + 2)
  if #keys == 0 and not multiline then -- a list fills lines
    local lines, current = {}, ""
    for i, p in ipairs(parts) do
      local piece = p .. (i < #parts and "," or "")
      if current ~= "" and columns_of(current) + columns_of(piece) + indent + 3 > state.width then
        lines[#lines + 1] = current
        current = piece
      else
        current = current == "" and piece or current .. " " .. piece
      end
    end
    lines[#lines + 1] = current
    return name .. "{\n" .. space .. table.concat(lines, "\n" .. space) .. "\n" .. (" "):rep(indent) .. "}"
  end
  return name .. "{\n" .. space .. table.concat(parts, ",\n" .. space) .. "\n" .. (" "):rep(indent) .. "}"
end

--- What an object says of itself.
local function tostring_text(state, v, depth, indent)
  local ok, text = ty.internals.protect(tostring, v)
  if not ok then return M.paint("error", "error in __tostring: " .. tostring(text), state.colors) end
  if depth > 0 then
    local first, more = text:match "^([^\n]*)(\n?)"
    if more ~= "" then
      return depth < DEPTH and #text < 2000 and text:gsub("\n", "\n" .. (" "):rep(indent)) or first .. " ..."
    end
  end
  return text
end

function show(state, v, depth, indent)
  local kind, colors = type(v), state.colors
  if kind == "number" then return M.paint("number", tostring(v), colors) end
  if kind == "string" and depth == 0 and v:find "\n." and not v:find "[%z\1-\8\11-\31]" then return v end -- as it reads
  if kind == "string" then return M.paint("string", quoted(v, depth > 0 and TEXT or nil), colors) end
  if kind == "boolean" or kind == "nil" then return M.paint(kind, tostring(v), colors) end
  if kind == "function" then return M.paint("name", function_text(v), colors) end
  if ty.is_tensor(v) then
    local ok, text = ty.internals.protect(depth == 0 and tostring or M.tensor, v)
    return ok and text or M.paint("error", tostring(text), colors)
  end
  if own_tostring(v) then return tostring_text(state, v, depth, indent) end
  if kind == "table" then return table_text(state, v, depth, indent) end
  return M.paint("name", tostring(v), colors)
end

--- A value as text.
---@param v any
---@param opts? { colors: boolean?, width: integer? }
---@return string
function M.show(v, opts)
  local state = { colors = opts and opts.colors or false, width = opts and opts.width or 80, above = {}, lines = 0 }
  return show(state, v, 0, 0)
end

return M
