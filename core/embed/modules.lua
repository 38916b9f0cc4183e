-- modules.lua -- writes the library's Lua files as a C table: luajit modules.lua lua/tycho/a.lua ... > modules.c
-- In: paths below lua/. Out: for each the module's name, how its chunk is called, its text; sorted by name.

local rows = {}
for i = 1, #arg do
  local inside = assert(arg[i]:match "^lua/(.*)%.lua$", arg[i])
  local f = assert(io.open(arg[i], "rb"))
  rows[i] = { name = inside:gsub("/init$", ""):gsub("/", "."), chunk = "@[tycho]" .. inside:sub(6) .. ".lua", text = f:read "*a" }
  f:close()
end
table.sort(rows, function(a, b) return a.name < b.name end)

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = '\\n"\n"', ["?"] = "\\?" }
local function quoted(text)
  return (text:gsub("[%z\1-\31\"\\?\127-\255]", function(c) return short[c] or ("\\%03o"):format(c:byte()) end))
end

local write = function(...) io.write(...) end
write "/* Made by core/embed/modules.lua. */\n#include \"embed/modules.h\"\n\nconst EmbeddedModule ty_modules[] = {\n"
for _, r in ipairs(rows) do
  write('{"', r.name, '", "', r.chunk, '", ', tostring(#r.text), ',\n"', quoted(r.text), '"},\n')
end
write("};\nconst int ty_modules_count = ", tostring(#rows), ";\n")
