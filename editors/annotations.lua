--- annotations.lua -- what the sources say of types: `---@` lines above functions, and classes.
-- In: the folder of the sources. Out: `above(fn)`, the annotations of a function; `classes`, all `---@class` blocks by
-- name, each with its fields and, where a local table follows it, the methods that the file gives to it.

--- A type at the begin of a text, and what comes behind it: `fun(x: T): U # words` ends before the words. Blanks end a
--- type, but within brackets and beside | : and commas.
local function cut_type(text)
  local depth, i = 0, 1
  while i <= #text do
    local c = text:sub(i, i)
    if c:find "[%(%[{<]" then depth = depth + 1
    elseif c:find "[%)%]}>]" then depth = depth - 1
    elseif c == '"' then i = text:find('"', i + 1, true) or #text
    elseif c == " " and depth == 0 and not text:sub(1, i - 1):find "[|:,]$" and not text:find("^ +[|]", i) then break
    elseif c == "," and depth == 0 then break
    end
    i = i + 1
  end
  return text:sub(1, i - 1), text:sub(i)
end

local function param(line)
  local name, optional, rest = line:match "^@param%s+([%w_.]+)(%??)%s+(.*)$"
  if not name then return nil end
  local of, words = cut_type(rest)
  return { name = name, optional = optional == "?", type = of, text = words:match "^%s*#?%s*(.-)%s*$" }
end

--- The results of a line: `@return T name, U # words`.
local function results(line, list)
  local rest = line:match "^@return%s+(.*)$"
  while rest do
    local of, words = cut_type(rest)
    local name, more = words:match "^%s*([%a_][%w_]*)%s*,%s*(.+)$"
    if not more then more = words:match "^%s*,%s*(.+)$" end
    local last, behind = words:match "^%s*([%a_][%w_]*)%s*(.*)$"
    if more or last and behind ~= "" and behind:sub(1, 1) ~= "#" then last = nil end
    list[#list + 1] = { type = of, name = name or last,
      text = not more and (last and behind or words):match "^%s*#?%s*(.-)%s*$" or nil }
    rest = more
  end
end

local function read_lines(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

--- Whether brackets are open at the end of an annotation, which then goes on in the next line.
local function goes_on(text)
  return select(2, text:gsub("[%({]", "")) > select(2, text:gsub("[%)}]", ""))
end

--- The comment that ends before line n: its words, its annotations, and the parameters of the code in line n.
local function comment(lines, n)
  local y = { text = {}, params = {}, returns = {} }
  local first = n
  while first > 1 and lines[first - 1]:find "^%s*%-%-%-" do first = first - 1 end
  local i = first
  while i < n do
    local text = lines[i]:match "^%s*%-%-%- ?(.*)$"
    while text:sub(1, 1) == "@" and goes_on(text) and i + 1 < n do
      i = i + 1
      text = text .. " " .. lines[i]:match "^%s*%-%-%-%s*(.*)$"
    end
    i = i + 1
    local p = param(text)
    if p then y.params[#y.params + 1] = p
    elseif text:find "^@return" then results(text, y.returns)
    elseif text:sub(1, 1) ~= "@" and text:sub(1, 1) ~= "-" then y.text[#y.text + 1] = text end
  end
  y.list = {}
  for name in (lines[n]:match "function[^(]*(%b())" or ""):gmatch "[%w_.]+" do y.list[#y.list + 1] = name end
  return y
end

return function(root, paths)
  local M, files = { classes = {} }, {}

  local function lines_of(path)
    files[path] = files[path] or read_lines(path)
    return files[path]
  end

  --- The annotations of a Lua function, nil of one in C.
  function M.above(fn)
    local info = debug.getinfo(fn, "S")
    local path = info.source:match "^@(.*)$"
    if info.what == "C" or not path then return nil end
    local lines = lines_of(path)
    return lines[info.linedefined]:find("function", 1, true) and comment(lines, info.linedefined) or nil
  end

  --- A class: its fields, then what stands in the same file as NAME:method where `local NAME = ` follows.
  local function read_class(lines, n)
    local name, rest = lines[n]:match "^%s*%-%-%-@class%s+([%w_.]+)(.*)$"
    local parent, words = rest:match "^%s*:%s*([%w_.]+)%s*(.*)$"
    words = words or rest:match "^%s*(.*)$"
    local c = M.classes[name] or { name = name, fields = {}, methods = {} }
    M.classes[name] = c
    c.parent = parent or c.parent
    c.text = words ~= "" and words or c.text
    n = n + 1
    while lines[n] and lines[n]:find "^%s*%-%-%-@field" do
      local field = lines[n]:match "@field%s+(.*)$"
      if field:sub(1, 1) ~= "_" then c.fields[#c.fields + 1] = field end
      n = n + 1
    end
    local own = lines[n] and lines[n]:match "^%s*local%s+([%w_]+)%s*="
    for at = own and n or #lines + 1, #lines do
      local method = lines[at]:match("^%s*function%s+" .. (own or "") .. ":([%a][%w_]*)%(")
      if method then
        c.methods[method] = comment(lines, at)
        c.methods[#c.methods + 1] = method
      end
    end
  end

  for _, path in ipairs(paths) do
    local lines = lines_of(root .. path)
    for n, line in ipairs(lines) do
      if line:find "^%s*%-%-%-@class" then read_class(lines, n) end
    end
  end
  return M
end
