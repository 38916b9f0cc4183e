--- fuzz_seeds.lua -- writes the files of fixtures/files.lua to folders, one a format, from which the fuzzers begin.
--   luajit spec/fuzz_seeds.lua FOLDER

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local folder = assert(arg[1], "a folder is needed")
local fixtures = dofile(here .. "/fixtures/files.lua")

local function bytes_of(hex) return (hex:gsub("%x%x", function(h) return string.char(tonumber(h, 16)) end)) end

local function write(format, name, bytes)
  os.execute(("mkdir -p '%s/%s'"):format(folder, format))
  local f = assert(io.open(("%s/%s/%s"):format(folder, format, name), "wb"))
  f:write(bytes)
  f:close()
end

for i, f in ipairs(fixtures) do
  local bytes = bytes_of(f.bytes)
  write(f.format, ("seed%03d"):format(i), bytes)
  if f.format == "safetensors" and #bytes > 8 then write("json", ("seed%03d"):format(i), bytes:sub(9):match("^%b{}") or "{}") end
end
write("json", "index", fixtures.model.index)

-- Tables and pictures.
local data = dofile(here .. "/fixtures/data.lua")
write("csv", "truths", "a,b,c\nTrue,,1\n,true,0\nFALSE,1,NA\n") -- bools, with gaps and numbers among them
for i, f in ipairs(data.fields) do write("csv", ("field%03d"):format(i), f.text) end
for i, t in ipairs(data.tables) do write("csv", ("table%03d"):format(i), t.text) end
for i, p in ipairs(data.pictures) do write(p.format, ("seed%03d"):format(i), p.bytes) end
