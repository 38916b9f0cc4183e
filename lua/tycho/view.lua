--- view.lua -- `jit.view`: a page that shows what a compiled function became.
-- In: what jit.explain tells, the function's source, the path of a file. Out: one HTML file that needs nothing else;
-- true, or nil and why it could not be written. Nothing is run; of compilations only the kernels' code is made again.
--
-- Source lines with what became of them; of each trace its guards, graph, steps with the lifetimes of buffers, and each
-- kernel as loop program beside its machine code; the parts; what missed and aborted; times of calls.

local ty = require "tycho"

local check = require("tycho.arguments")(ty)
local internals = ty.internals
local ipairs, tonumber, tostring, type, select = ipairs, tonumber, tostring, type, select
local concat, max, min = table.concat, math.max, math.min

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

--- Text as HTML has it; bytes that are no text become dots.
local function escape(v) return (tostring(v):gsub("[%z\1-\8\11-\31\127]", "."):gsub('[&<>"]', ENTITIES)) end

local STYLE = [[
:root{--bg:#fff;--fg:#1c2128;--dim:#656d76;--line:#d8dee4;--soft:#f6f8fa;--green:#1a7f37;--amber:#9a6700;
--bar:#54aeff} @media(prefers-color-scheme:dark){:root{--bg:#0d1117;--fg:#e6edf3;--dim:#8d96a0;--line:#30363d;
--soft:#161b22; --green:#3fb950;--amber:#d29922;--bar:#1f6feb}} *{box-sizing:border-box}body{margin:0 auto;
max-width:1280px;padding:24px;background:var(--bg);color:var(--fg); font:15px/1.5 system-ui,sans-serif}h1{margin:0}
h1 code{font-size:20px}h2{font-size:18px;margin:36px 0 8px; border-bottom:1px solid var(--line);padding-bottom:4px}
h3{font-size:15px;margin:20px 0 6px}p{margin:6px 0}.dim{color:var(--dim)}
code,pre,table.code,td.n{font:12.5px/1.45 ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--soft);border:1px solid var(--line);border-radius:6px;padding:10px;overflow:auto;margin:0;
max-height:520px} .facts{display:flex;flex-wrap:wrap;gap:10px;margin:16px 0}.fact{border:1px solid var(--line);
border-radius:6px; padding:6px 14px;background:var(--soft)}.fact b{display:block;font-size:18px}
.fact span{color:var(--dim);font-size:12px} table{border-collapse:collapse}.wide{overflow-x:auto}
td,th{padding:2px 10px;text-align:left;vertical-align:top} th{color:var(--dim);font-weight:500;font-size:12.5px}
table.grid{font-size:13.5px}table.grid td,table.grid th{white-space:nowrap;border-bottom:1px solid var(--line)}
table.code{width:100%;border:1px solid var(--line);border-radius:6px}table.code td{white-space:pre;padding:0 10px}
table.code td.no{color:var(--dim);text-align:right;border-right:3px solid transparent;user-select:none}
table.code td.note{white-space:normal;color:var(--dim);min-width:280px;font-family:system-ui,sans-serif}
tr.taken td.no{border-color:var(--green)}tr.native td.no{border-color:var(--amber)}
tr.abort{background:rgba(248,81,73,.13)} tr.cut{background:rgba(210,153,34,.13)}.side{display:grid;
grid-template-columns:minmax(0,1fr) minmax(0,1.4fr);gap:10px} @media(max-width:800px){body{padding:12px}
.side{grid-template-columns:minmax(0,1fr)}} .tag{display:inline-block;border-radius:4px;padding:0 7px;
font-size:12px;border:1px solid var(--line)} .bars{min-width:420px}.bar{display:grid;
grid-template-columns:170px 1fr;align-items:center;font-size:12px;margin:2px 0} .track{position:relative;
height:14px;background:var(--soft);border-radius:3px}.track i{position:absolute;top:0;bottom:0;
background:var(--bar);border-radius:3px;min-width:3px}summary{cursor:pointer;padding:3px 0}details{margin:4px 0}
ul{margin:4px 0;padding-left:22px}li{overflow-wrap:anywhere}
]]

local function writer()
  local out = {}
  return function(fmt, ...) out[#out + 1] = select("#", ...) > 0 and fmt:format(...) or fmt end, out
end

local function time_text(s)
  if not s then return "not timed" end
  if s < 1e-3 then return ("%.1f µs"):format(s * 1e6) end
  if s < 1 then return ("%.1f ms"):format(s * 1e3) end
  return ("%.2f s"):format(s)
end

local function bytes_text(n)
  if n >= 2 ^ 20 then return ("%.1f MB"):format(n / 2 ^ 20) end
  if n >= 2 ^ 10 then return ("%.1f KB"):format(n / 2 ^ 10) end
  return ("%d bytes"):format(n)
end

------------------------------------------------------------------------------------------------------------ the source

--- The lines of a function: first number, list; nil where its file cannot be read.
local function lines_of(fn)
  local info = type(debug) == "table" and debug.getinfo(fn, "S")
  if not info or info.source:sub(1, 1) ~= "@" or not io then return nil end
  local file = io.open(info.source:sub(2), "r")
  if not file then return nil end
  local list, number = {}, 0
  for line in file:lines() do
    number = number + 1
    if number >= info.linedefined and number <= info.lastlinedefined then list[#list + 1] = line end
    if number > info.lastlinedefined then break end
  end
  file:close()
  return info.linedefined, list
end

--- What became of each line: {notes, class}.
local function fates(e, first, last)
  local of = {}
  local function at(line, text, class)
    line = tonumber(line)
    if not line or line < first or line > last then return end
    of[line] = of[line] or { notes = {} }
    for _, known in ipairs(of[line].notes) do
      if known == text then return end
    end
    table.insert(of[line].notes, text)
    of[line].class = class or of[line].class
  end
  local function guards(traces)
    for _, t in ipairs(traces) do
      for _, list in ipairs { t.guards, t.sizes } do
        for _, g in ipairs(list) do
          local text, line = g:match "^(.*)  %(.-:(%d+)%)$"
          if line then at(line, "guard: " .. text) end
        end
      end
    end
  end
  guards(e.traces)
  local file = e.place:match "^(.*):%d+$"
  for _, p in ipairs(e.parts) do
    guards(p.traces)
    at(p.line, p.native and "runs as it is: a part would do too little" or "a part begins", p.native and "cut" or nil)
    for _, ending in ipairs(p.ends) do
      if ending.at then at(ending.line, "the part ends: " .. ending.reason, "cut") end
    end
  end
  for _, why in ipairs(e.aborts) do
    if not why.file or file and why.file == file or (file or ""):find(why.file, 1, true) then
      at(why.line, "not captured: " .. why.reason .. (why.hint and " (" .. why.hint .. ")" or ""), "abort")
    end
  end
  return of
end

--- Which lines traces answer: function(line) -> "taken", "native" or "".
local function covers(e)
  local parts = {}
  for _, p in ipairs(e.parts) do
    if p.line then parts[#parts + 1] = p end
  end
  table.sort(parts, function(a, b) return a.line < b.line end)
  return function(line)
    local class = #e.traces > 0 and "taken" or ""
    for _, p in ipairs(parts) do
      if p.line <= line then class = (p.native or #p.traces == 0 and p.line ~= parts[1].line) and "native" or class end
    end
    return class
  end
end

local function add_source(add, e, fn)
  add "<h2>Source</h2>"
  local first, lines = lines_of(fn)
  if not first then return add("<p class=dim>%s cannot be read.</p>", escape(e.place)) end
  local of, cover = fates(e, first, first + #lines - 1), covers(e)
  add "<div class=wide><table class=code>"
  for i, line in ipairs(lines) do
    local n = first + i - 1
    local fate = of[n] or { notes = {} }
    local notes = {}
    for k, text in ipairs(fate.notes) do notes[k] = escape(text) end
    add("<tr class=\"%s %s\"><td class=no>%d</td><td>%s</td><td class=note>%s</td></tr>", cover(n), fate.class or "", n,
      line == "" and " " or escape(line), concat(notes, "<br>"))
  end
  add "</table></div><p class=dim>Green: traces answer; amber: runs as it is.</p>"
end

----------------------------------------------------------------------------------------------------------- the traces

local function add_list(add, title, list)
  if #list == 0 then return end
  add("<details%s><summary>%s <span class=dim>(%d)</span></summary><ul>", #list <= 8 and " open" or "", title, #list)
  for _, text in ipairs(list) do add("<li><code>%s</code></li>", escape(text)) end
  add "</ul></details>"
end

--- The steps of a plan's text and the pieces of memory, each with the first and last step that uses it.
local function read_plan(text)
  local steps, pieces, seen = {}, {}, {}
  local section
  for line in text:gmatch "[^\n]+" do
    section = line:match "^(%a+)$" or section
    local number, kind, rest = line:match "^  (%d+)%s+(%a+)%s+(.*)$"
    local reads, writes, bytes
    if section == "steps" and number then
      rest, reads, writes, bytes = rest:match "^(.-)%s%s+([%w%s%-]-)%s*%->%s*([%w%s%-]-)%s+(%d+)"
    end
    if reads then
      local step = { number = tonumber(number), kind = kind, name = rest, reads = reads, writes = writes,
        bytes = tonumber(bytes) }
      steps[#steps + 1] = step
      for name in (reads .. " " .. writes):gmatch "%a+%d+" do
        local piece = seen[name]
        if not piece then
          piece = { name = name, first = step.number }
          seen[name], pieces[#pieces + 1] = piece, piece
        end
        piece.last = step.number
      end
    end
    local name, size = line:match "^  (%a+%d+)%s.-(%d+) bytes"
    if name and seen[name] then
      seen[name].bytes = tonumber(size)
      seen[name].at = line:match " at (%d+)"
    end
  end
  return steps, pieces
end

local function add_plan(add, t)
  add "<h3>Plan</h3>"
  local steps, pieces = read_plan(t.plan or "")
  if #steps == 0 then return add("<pre>%s</pre>", escape(t.plan or "computed elsewhere")) end
  add "<div class=wide><table class=grid><tr><th>step<th>kind<th>root<th>reads<th>writes<th>bytes</tr>"
  for _, s in ipairs(steps) do
    add("<tr><td class=n>%d<td>%s<td><code>%s</code><td><code>%s</code><td><code>%s</code><td>%s</tr>", s.number,
      escape(s.kind), escape(s.name), escape(s.reads), escape(s.writes), bytes_text(s.bytes))
  end
  add "</table></div><h3>Lifetimes of buffers <span class=dim>(first to last step)</span></h3>"
  add "<div class=wide><div class=bars>"
  local n = #steps
  for _, p in ipairs(pieces) do
    local kind = p.name:match "^%a+"
    local note = p.bytes and bytes_text(p.bytes) or kind == "in" and "input" or ""
    if p.at then note = note .. " at " .. p.at end
    add("<div class=bar><span><code>%s</code> <span class=dim>%s</span></span>"
      .. "<span class=track title=\"steps %d to %d\"><i style=\"left:%.2f%%;width:%.2f%%\"></i></span></div>",
      escape(p.name), note, p.first, p.last,
      100 * p.first / n, 100 * (p.last - p.first + 1) / n)
  end
  add "</div></div>"
  add("<details><summary>as text</summary><pre>%s</pre></details>", escape(t.plan))
end

--- The loop programs in the text of a trace: {name, program}, and the graph before them.
local function read_programs(text)
  local list, graph, at = {}, {}, nil
  for line in text:gmatch "[^\n]+" do
    local number = line:match "^program of group (%d+)"
    if number then
      at = { name = "group " .. number, lines = {} }
      list[#list + 1] = at
    elseif at then
      at.lines[#at.lines + 1] = line
    else
      graph[#graph + 1] = line
    end
  end
  for _, p in ipairs(list) do p.program = concat(p.lines, "\n") .. "\n" end
  return list, concat(graph, "\n")
end

local function add_kernels(add, programs)
  for _, p in ipairs(programs) do
    local code, why = internals.probe.code(p.program)
    local count = 0
    for _ in (code or ""):gmatch "\n" do count = count + 1 end
    add("<details%s><summary>kernel of %s <span class=dim>%d lines of loop program, %s</span></summary>"
      .. "<div class=side><pre>%s</pre><pre>%s</pre></div></details>",
      #programs <= 2 and " open" or "", p.name, #p.lines,
      code and count .. " of machine code" or "no machine code", escape(p.program), escape(code or why))
  end
end

local function add_trace(add, title, t)
  add("<h2>%s <code>%s</code></h2>", title, escape(t.key))
  add("<p><span class=tag>%d hits</span> <span class=tag>%s operations</span> <span class=tag>%s kernels</span> "
    .. "<span class=tag>%s steps</span> <span class=tag>%s moved</span> "
    .. "<span class=tag>%s saved by fusion</span>%s</p>",
    t.hits or 0, t.operations or 0, t.kernels or 0, t.steps or 0, bytes_text(t.bytes_moved or 0),
    bytes_text(t.bytes_saved or 0), t.dynamic and " <span class=tag>sizes vary</span>" or "")
  add_list(add, "Guards", t.guards)
  add_list(add, "Sizes", t.sizes)
  add_list(add, "Effects", t.effects)
  local programs, graph = read_programs(t.graph or "")
  if graph ~= "" then add("<h3>Graph</h3><pre>%s</pre>", escape(graph)) end
  add_plan(add, t)
  if #programs > 0 then
    add "<h3>Kernels <span class=dim>(loop program, machine code)</span></h3>"
    add_kernels(add, programs)
  end
end

------------------------------------------------------------------------------------------------------------- the page

local function add_head(add, e)
  add("<!doctype html><html lang=en><meta charset=utf-8>"
    .. "<meta name=viewport content=\"width=device-width,initial-scale=1\"><title>%s</title>"
    .. "<style>%s</style><body><h1><code>%s</code></h1>", escape(e.place), STYLE, escape(e.place))
  add "<div class=facts>"
  local share = e.calls > 0 and ("%.0f %%"):format(100 * e.skips / e.calls) or "-"
  for _, fact in ipairs { { e.calls, "calls" }, { share, "answered by traces" }, { e.captures, "captures" },
    { #e.traces, "traces" }, { max(#e.parts, min(#e.traces, 1)), "parts" }, { time_text(e.time), "a call, median" } } do
    add("<div class=fact><b>%s</b><span>%s</span></div>", escape(fact[1]), fact[2])
  end
  add "</div>"
end

local function add_parts(add, e)
  if #e.parts == 0 then return end
  add "<h2>Parts</h2><div class=wide><table class=grid>"
  add "<tr><th>begins<th>calls<th>hits<th>linked<th>captures<th>each<th>up to</tr>"
  for _, p in ipairs(e.parts) do
    local ends = {}
    for i, ending in ipairs(p.ends) do
      ends[i] = escape(ending.at and ending.at:match "[^/\\]*$" .. ": " .. ending.reason or "the end")
    end
    add("<tr><td><code>%s</code><td class=n>%s<td class=n>%s<td class=n>%s<td class=n>%s<td>%s<td>%s</tr>",
      escape(p.begins:match "[^/\\]*$"), p.calls or "-", p.skips or "-", p.linked or "-", p.captures or "-",
      p.native and "-" or time_text(p.time), p.native and "runs as it is" or concat(ends, "<br>"))
  end
  add "</table></div>"
end

local function page_of(e, fn)
  local add, out = writer()
  add_head(add, e)
  add_source(add, e, fn)
  add_parts(add, e)
  local texts = {}
  for i, m in ipairs(e.misses) do texts[i] = m.text end
  local aborts = {}
  for i, why in ipairs(e.aborts) do aborts[i] = why.text end
  if #texts + #aborts > 0 then add "<h2>What was captured again, and what could not be</h2>" end
  add_list(add, "Misses", texts)
  add_list(add, "Aborts", aborts)
  for i, t in ipairs(e.traces) do add_trace(add, "Trace " .. i, t) end
  for k = 2, #e.parts do
    for i, t in ipairs(e.parts[k].traces) do
      add_trace(add, ("Part %s, trace %d"):format(escape(e.parts[k].begins:match "[^/\\]*$"), i), t)
    end
  end
  for i, s in ipairs(e.signatures) do
    add("<h2>Recorded calls %d <code>(%s)</code></h2><p>%d hits</p>", i, escape(concat(s.signature, ", ")), s.hits)
    for _, g in ipairs(s.graphs) do
      local programs, graph = read_programs(g.text or "")
      add("<details><summary>graph, run %d times, %d kernels</summary><pre>%s</pre></details>", g.runs, g.kernels,
        escape(graph))
      add_kernels(add, programs)
    end
  end
  add "</body></html>"
  return concat(out, "\n") .. "\n"
end

--- What jit.view does, see compile.lua.
---@param e table what jit.explain(f) gives
---@param fn function f as it was written
---@param path string
---@return true?, string?
return function(e, fn, path)
  if type(path) ~= "string" then check.fail("view", "argument 2 must be a path, got %s", check.show(path)) end
  return internals.load("tycho.files")._native.write(path, { page_of(e, fn) })
end
