--- native.lua -- parts of the library that are shared objects of their own, beside core.so.
-- In: "files", "cuda". Out: what its luaopen gives, once more each time; nil and a message where it was not found.
-- libtycho has some of them inside. `require` would find the Lua file of that name.

local SEPARATOR = package.config:sub(1, 1)
local ENDING = SEPARATOR == "\\" and ".dll" or ".so"

return function(name)
  local inside = package.preload["tycho." .. name .. ".native"]
  if inside then return inside() end
  local places, why = {}, nil
  local path = "tycho" .. SEPARATOR .. name
  for template in package.cpath:gmatch("[^;]+") do places[#places + 1] = template:gsub("%?", path) end
  local dir = type(debug) == "table" and debug.getinfo(1, "S").source:match("^@(.*[/\\])")
  places[#places + 1] = dir and dir .. name .. ENDING
  for _, place in ipairs(places) do
    local open, message = package.loadlib(place, "luaopen_tycho_" .. name)
    if open then return open() end
    if not why or not message:find("No such file", 1, true) then why = message end
  end
  return nil, ("%s%s was not found: %s"):format(name, ENDING, tostring(why))
end
