--- repl/source.lua -- the words of Lua source that is being typed.
-- In: text. Out: its tokens; whether it is complete; the names that it declares; how far its next line is indented.
-- Text that is no Lua has tokens all the same: whether it is right is LuaJIT's to say.

local M = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true
  until while]]):gmatch "%S+" do KEYWORDS[word] = true end
M.KEYWORDS = KEYWORDS

--- Where the long bracket that begins at `at` ends, the end of the text if it does not; nil: none begins there.
local function long_bracket(text, at)
  local level = text:match("^%[(=*)%[", at)
  if not level then return nil end
  local _, stop = text:find("]" .. level .. "]", at, true)
  return stop or #text, stop ~= nil
end

--- Where a quoted string that begins at `at` ends, and whether it does.
local function quoted(text, at)
  local quote, i = text:sub(at, at), at + 1
  while i <= #text do
    local c = text:sub(i, i)
    if c == quote then return i, true end
    if c == "\n" then return i - 1, false end
    i = i + (c == "\\" and 2 or 1)
  end
  return #text, false
end

--- One token from `at` on: its kind ("name", "keyword", "number", "string", "comment", "symbol"), its last place, and
--- whether a string or comment is closed.
local function token(text, at)
  local c = text:sub(at, at)
  local _, stop = text:find("^[%a_\128-\255][%w_\128-\255]*", at)
  if stop then return KEYWORDS[text:sub(at, stop)] and "keyword" or "name", stop, true end
  _, stop = text:find("^%.?%d[%w_.]*", at)
  if stop then
    if text:find("^[eEpP][+-]", stop) then _, stop = text:find("^[+-]%w*", stop + 1) end
    return "number", stop, true
  end
  if c == '"' or c == "'" then
    local last, closed = quoted(text, at)
    return "string", last, closed
  end
  if text:find("^%-%-", at) then
    local last, closed = long_bracket(text, at + 2)
    if last then return "comment", last, closed end
    return "comment", (text:find("\n", at, true) or #text + 1) - 1, true
  end
  local last, closed = long_bracket(text, at)
  if last then return "string", last, closed end
  for _, symbol in ipairs { "...", "..", "==", "~=", "<=", ">=", "::" } do
    if text:sub(at, at + #symbol - 1) == symbol then return "symbol", at + #symbol - 1, true end
  end
  return "symbol", at, true
end

---@class tycho.Token
---@field kind string
---@field text string
---@field first integer
---@field last integer
---@field closed boolean

--- All tokens of a text.
---@param text string
---@return tycho.Token[]
function M.tokens(text)
  local list, at = {}, 1
  while true do
    at = text:find("%S", at)
    if not at then return list end
    local kind, last, closed = token(text, at)
    list[#list + 1] = { kind = kind, text = text:sub(at, last), first = at, last = last, closed = closed }
    at = last + 1
  end
end

local OPENS = { ["do"] = true, ["if"] = true, ["repeat"] = true, ["function"] = true }
local CLOSES = { ["end"] = true, ["until"] = true }

--- What the tokens declare outside of all blocks: names of locals in their order, each once; and all names that occur.
---@param tokens tycho.Token[]
---@return string[] locals, table<string, true> names
function M.names(tokens)
  local locals, names, seen, depth, i = {}, {}, {}, 0, 1
  local function declare(name)
    if not seen[name] then locals[#locals + 1] = name end
    seen[name] = true
  end
  while tokens[i] do
    local t = tokens[i]
    if t.kind == "name" then names[t.text] = true end
    if t.kind == "keyword" and OPENS[t.text] then depth = depth + 1 end
    if t.kind == "keyword" and CLOSES[t.text] then depth = depth - 1 end
    if depth == 0 and t.kind == "keyword" and t.text == "local" and tokens[i + 1] then
      local next_one = tokens[i + 1]
      if next_one.text == "function" and tokens[i + 2] then
        declare(tokens[i + 2].text)
      elseif next_one.kind == "name" then
        local k = i + 1
        declare(next_one.text)
        while tokens[k + 1] and tokens[k + 1].text == "," and tokens[k + 2] and tokens[k + 2].kind == "name" do
          declare(tokens[k + 2].text)
          k = k + 2
        end
      end
    end
    i = i + 1
  end
  return locals, names
end

--- The text without a semicolon at its end, and whether there was one.
---@param text string
---@return string, boolean
function M.without_semicolon(text)
  local last
  for _, t in ipairs(M.tokens(text)) do
    if t.kind ~= "comment" then last = t end
  end
  if last and last.text == ";" then return text:sub(1, last.first - 1), true end
  return text, false
end

local function ends_early(message) return message ~= nil and message:find "near '<eof>'$" ~= nil end

--- Whether more lines must follow before the text can be run.
---@param text string
---@return boolean
function M.is_incomplete(text)
  text = text:gsub("^%s*=", "")
  local statement, why = loadstring(text, "=")
  if statement then return false end
  local expression, other = loadstring("return " .. M.without_semicolon(text) .. "\n", "=")
  if expression then return false end
  return ends_early(why) or ends_early(other)
end

local STEP = "  "

--- The white space with which the line after this text begins, or nil: it goes on in a string or comment.
---@param text string
---@return string?
function M.indentation(text)
  local tokens = M.tokens(text)
  local final = tokens[#tokens]
  if final and not final.closed then return nil end
  local line = text:match "[^\n]*$"
  local depth = 0
  for _, t in ipairs(M.tokens(line)) do
    local word = t.text
    if t.kind == "keyword" and (OPENS[word] or word == "else") or word == "{" or word == "(" then depth = depth + 1 end
    if t.kind == "keyword" and (CLOSES[word] or word == "elseif" or word == "else") or word == "}" or word == ")" then
      depth = math.max(depth - 1, 0)
    end
    if t.kind == "keyword" and word == "elseif" then depth = 1 end
    if t.kind == "keyword" and word == "else" then depth = 1 end
  end
  return line:match "^[ \t]*" .. (depth > 0 and STEP or "")
end

--- The last line of a text as it should stand: one that closes a block is a step further left than the block's inside,
--- if it stands where it was put by `indentation`.
---@param text string
---@return string line as it is, string line as it should be
function M.dedented(text)
  local before, line = text:match "^(.*)\n([^\n]*)$"
  if not before then return text, text end
  local space, word = line:match "^([ \t]*)([%a}%)]+)"
  local closes = word and (CLOSES[word] or word == "else" or word == "elseif" or word:find "^[})]")
  if not closes or space ~= M.indentation(before) or space:sub(-#STEP) ~= STEP then return line, line end
  return line, line:sub(#STEP + 1)
end

return M
