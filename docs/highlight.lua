--- highlight.lua -- code in HTML with its words told apart: c comments, s strings, k keywords, n numbers, f what is called.

local M = {}

local function set(words)
  local t = {}
  for word in words:gmatch "%S+" do t[word] = true end
  return t
end

local keywords = {
  lua = set "and break do else elseif end false for function goto if in local nil not or repeat return then true until while",
  c = set [[break case char const continue default do double else enum float for if int long return sizeof static struct
    switch typedef unsigned void while]],
}

local function escape(text) return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" })) end

--- The end of what begins at a place: a comment, a string, a number, a word; and its class.
local function token(text, at, language)
  local function to(pattern)
    local _, last = text:find("^" .. pattern, at)
    return last
  end
  local last
  if language == "lua" then
    last = to "%-%-%[%[.-%]%]" or to "%-%-[^\n]*"
    if last then return last, "c" end
    last = to "%[%[.-%]%]"
    if last then return last, "s" end
  else
    last = to "/%*.-%*/" or to "//[^\n]*"
    if last then return last, "c" end
    last = to "#%s*%a+[^\n]*"
    if last then return last, "k" end
  end
  local quote = text:match("^[\"']", at)
  if quote then
    local k = at + 1
    while k <= #text and text:sub(k, k) ~= quote do k = k + (text:sub(k, k) == "\\" and 2 or 1) end
    return k, "s"
  end
  last = to "%d[%w.]*"
  if last then return last, "n" end
  last = to "[%a_][%w_]*"
  if last then
    if keywords[language][text:sub(at, last)] then return last, "k" end
    return last, text:find("^%s*[({\"]", last + 1) and "f" or nil
  end
  return at, nil
end

local function html(text, language)
  local out, at = {}, 1
  while at <= #text do
    local last, class = token(text, at, language)
    local piece = escape(text:sub(at, last))
    out[#out + 1] = class and ("<i class=%s>%s</i>"):format(class, piece) or piece
    at = last + 1
  end
  return table.concat(out)
end

function M.lua(text) return html(text, "lua") end
function M.c(text) return html(text, "c") end

return M
