--- markdown.lua -- Markdown, as much of it as the pages use, to HTML.
-- In: a page, and what links words to the reference. Out: HTML, and its headings for the table of contents.
-- Headings, paragraphs, lists, tables, fenced code, pictures alone in a paragraph; within text `code`, **bold**,
-- *emphasis*, [links](to).

local highlight = require "docs.highlight"

local M = {}

local function escape(text) return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["\""] = "&quot;" })) end
M.escape = escape

--- A heading as the end of an address.
local function slug(text) return (text:lower():gsub("[^%w]+", "-"):gsub("^%-", ""):gsub("%-$", "")) end
M.slug = slug

--- Text within a paragraph. link(code): the address of what stands in backquotes, nil: none.
local function inline(text, link)
  local kept = {}
  local function keep(html)
    kept[#kept + 1] = html
    return "\1" .. #kept .. "\2"
  end
  text = text:gsub("``%s?(.-)%s?``", function(code) return keep("<code>" .. escape(code) .. "</code>") end)
  text = text:gsub("`([^`]+)`", function(code)
    local to = link and link(code)
    local html = "<code>" .. escape(code) .. "</code>"
    return keep(to and ("<a class=ref href=\"%s\">%s</a>"):format(escape(to), html) or html)
  end)
  text = escape(text)
  text = text:gsub("%[([^%]]+)%]%(([^)]+)%)", function(words, to) return ("<a href=\"%s\">%s</a>"):format(to, words) end)
  text = text:gsub("%*%*(.-)%*%*", "<strong>%1</strong>"):gsub("%f[%*%w]%*([^%s*][^*]*)%*", "<em>%1</em>")
  return (text:gsub("\1(%d+)\2", function(i) return kept[tonumber(i)] end))
end
M.inline = inline

local function cells(line)
  local list = {}
  for cell in line:gsub("\\|", "\3"):gsub("^%s*|", ""):gsub("|%s*$", ""):gmatch "([^|]*)|?" do
    list[#list + 1] = cell:match "^%s*(.-)%s*$":gsub("\3", "|")
  end
  if list[#list] == "" then list[#list] = nil end
  return list
end

local function add_table(add, lines, link)
  add "<div class=scroll><table>"
  for i, line in ipairs(lines) do
    if not line:match "^%s*|[%s|:-]+$" then
      local row = cells(line)
      local empty = table.concat(row) == ""
      if not (i == 1 and empty) then
        add "<tr>"
        for _, cell in ipairs(row) do add(("<%s>%s"):format(i == 1 and "th" or "td", inline(cell, link))) end
      end
    end
  end
  add "</table></div>"
end

local function add_list(add, items, link)
  add(items.ordered and "<ol>" or "<ul>")
  for _, item in ipairs(items) do add("<li>" .. inline(item, link)) end
  add(items.ordered and "</ol>" or "</ul>")
end

--- A block of code. What it prints is set off from it.
function M.code(language, code)
  local html = language == "lua" and highlight.lua(code) or (language == "c" or language == "cpp") and highlight.c(code) or escape(code)
  return ("<pre class=\"code %s\">%s</pre>"):format(language == "" and "text" or language, html)
end

--- The page as HTML and its headings {level, text, id}.
---@param page string
---@param link fun(code: string): string? the address of what stands in backquotes
---@return string html, table headings
function M.html(page, link)
  local out, headings, lines = {}, {}, {}
  local function add(html) out[#out + 1] = html end
  for line in (page .. "\n"):gmatch "([^\n]*)\n" do lines[#lines + 1] = line end
  local i = 1
  while i <= #lines do
    local line = lines[i]
    local level, text = line:match "^(#+) (.*)$"
    local fence = line:match "^```(%w*)$"
    local alt, src = line:match "^!%[(.-)%]%((.-)%)$"
    if fence then
      local code = {}
      i = i + 1
      while lines[i] and lines[i] ~= "```" do
        code[#code + 1] = lines[i]
        i = i + 1
      end
      add(M.code(fence, table.concat(code, "\n")))
    elseif level then
      local id = slug(text)
      headings[#headings + 1] = { level = #level, text = text, id = id }
      add(("<h%d id=\"%s\">%s</h%d>"):format(#level, id, inline(text, link), #level))
    elseif alt then
      add(("<figure><img src=\"%s\" alt=\"%s\" loading=lazy><figcaption>%s</figcaption></figure>"):format(src, escape(alt),
        inline(alt, link)))
    elseif line:match "^%s*|" then
      local rows = {}
      while lines[i] and lines[i]:match "^%s*|" do
        rows[#rows + 1] = lines[i]
        i = i + 1
      end
      i = i - 1
      add_table(add, rows, link)
    elseif line:match "^%- " or line:match "^%d+%. " then
      local items = { ordered = line:match "^%d" ~= nil }
      while lines[i] and lines[i] ~= "" and not lines[i]:match "^```" do
        local item = lines[i]:match "^%- (.*)$" or lines[i]:match "^%d+%. (.*)$"
        if item then items[#items + 1] = item else items[#items] = items[#items] .. "\n" .. lines[i]:match "^%s*(.*)$" end
        i = i + 1
      end
      i = i - 1
      add_list(add, items, link)
    elseif line ~= "" then
      local words = {}
      while lines[i] and lines[i] ~= "" and not lines[i]:match "^```" and not lines[i]:match "^#" do
        words[#words + 1] = lines[i]
        i = i + 1
      end
      i = i - 1
      add("<p>" .. inline(table.concat(words, "\n"), link) .. "</p>")
    end
    i = i + 1
  end
  return table.concat(out, "\n"), headings
end

return M
