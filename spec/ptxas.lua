-- ptxas.lua -- assembles what the CUDA device has made: luajit spec/ptxas.lua FOLDER 75 80 90 ...
-- In: a folder of PTX texts, processors as numbers. Out: how many texts, the most registers of a thread; it fails where ptxas
-- refuses one, where registers are spilled, or where there are more of them than MOST has for how many blocks of the kernel a
-- multiprocessor must hold: 1 where shared memory has no room for more, 3 for the longest loop programs (ptx_program.h). A text for a
-- later processor is left out. Without ptxas it says so.
-- Texts go to ptxas in batches, as kernels of one module: a process costs more than most of them. PTXAS_TEXTS=3000 in the
-- environment is how many of them at most, spread over all, besides those with barriers, which no loop program has.
local MOST, BATCH = { 255, 128, 168, 128 }, 64

local folder = assert(arg[1], "spec/ptxas.lua: FOLDER ARCHITECTURES")

local ptxas, lines_of = dofile "spec/ptxas_path.lua"

--- A text as {name, target, head, tables, body, blocks}: its entry has the file's name.
local function read(file)
  local name = "k" .. file:match "([^/]*)%.ptx$"
  local f = assert(io.open(file, "rb"))
  local text = f:read "*a"
  f:close()
  local head, tables, body = text:match "^(.-%.address_size 64\n)(.-)(%.visible .*)$"
  return { name = name, target = tonumber(head:match "sm_(%d+)"), head = head, tables = tables,
    body = (body:gsub("%.entry kernel%(", ".entry " .. name .. "(", 1)), blocks = tonumber(body:match "%.minnctapersm (%d+)") }
end

local files = lines_of(("find '%s' -name '*.ptx' | sort"):format(folder)) -- names are hashes: in no order
local texts, step = {}, math.max(1, #files / (tonumber(os.getenv "PTXAS_TEXTS") or #files))
for i, file in ipairs(files) do
  local t = read(file)
  if math.floor(i / step) > math.floor((i - 1) / step) or t.body:find("bar.sync", 1, true) then texts[#texts + 1] = t end
end

--- The texts of a list as modules of BATCH kernels of one target each: files, constant tables once.
local function batches(list, folder_of)
  local modules, of = {}, {}
  for _, t in ipairs(list) do
    local b = of[t.head]
    if not b or b.n == BATCH then
      b = { n = 0, tables = {}, parts = { t.head } }
      of[t.head], modules[#modules + 1] = b, b
    end
    b.n = b.n + 1
    for line in t.tables:gmatch "[^\n]+\n" do
      if not b.tables[line] then b.tables[line], b.parts[#b.parts + 1] = true, line end
    end
    b.parts[#b.parts + 1] = t.body
  end
  for i, b in ipairs(modules) do
    b.file = ("%s/%d.ptx"):format(folder_of, i)
    local f = assert(io.open(b.file, "wb"))
    f:write(table.concat(b.parts))
    f:close()
  end
end

local scratch = os.tmpname()
os.remove(scratch)
os.execute(("mkdir '%s'"):format(scratch))

local bad = 0
for i = 2, #arg do
  local arch, list, by_name, most, failed, seen = tonumber(arg[i]), {}, {}, 0, {}, 0
  for _, t in ipairs(texts) do
    if t.target <= arch then list[#list + 1], by_name[t.name] = t, t end
  end
  os.execute(("rm -f '%s'/*.ptx"):format(scratch))
  batches(list, scratch)
  local at = by_name
  local each = ("\"%s\" -arch sm_%d -v {} -o /dev/null >{}.log 2>&1"):format(ptxas, arch)
  local command = ("cd '%s' && ls *.ptx | xargs -P 2 -I{} sh -c '%s'; cat *.log; rm -f *.log"):format(scratch, each)
  for _, line in ipairs(lines_of(command)) do
    at = by_name[line:match "Compiling entry function '([^']*)'"] or at
    local used = tonumber(line:match "Used (%d+) registers")
    local spilled = line:match "(%d+) bytes spill"
    if used then
      seen, most = seen + 1, math.max(most, used)
      if used > MOST[at.blocks or 2] then failed[#failed + 1] = at.name .. ": " .. line end
    end
    if line:find("error", 1, true) or line:find("fatal", 1, true) or (spilled and spilled ~= "0") then
      failed[#failed + 1] = ("%s: %s"):format(at.name or "", line)
    end
  end
  if seen < #list then failed[#failed + 1] = ("%d texts were not assembled"):format(#list - seen) end
  for k = 1, math.min(#failed, 10) do print(failed[k]) end
  bad = bad + #failed
  print(("ptxas: sm_%d: %d of %d texts, at most %d registers, %d bad"):format(arch, seen, #files, most, #failed))
end
os.execute(("rm -r '%s'"):format(scratch))
os.exit(bad == 0 and 0 or 1)
