--- view.lua -- `jit.view`: what became of a compiled function, as one page that a browser shows.
-- In: what jit.explain tells, with machine code; the function's source. Out: HTML as text, which needs nothing from
-- elsewhere. Cannot fail but when out of memory; a source that cannot be read is left out.

local ipairs, tostring, tonumber, type = ipairs, tostring, tonumber, type
local format, gsub, gmatch, match = string.format, string.gsub, string.gmatch, string.match
local sub, find, unpack = string.sub, string.find, unpack
local concat, max, sort = table.concat, math.max, table.sort

local M = {}

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }

local function text(v) return (gsub(tostring(v), '[&<>"]', entities)) end

--- Lines of HTML: add(format, ...), whose %s are texts as they are; `raw` adds HTML.
local function writer()
  local out = {}
  local function raw(s) out[#out + 1] = s end
  local function add(form, ...)
    local list = { ... }
    for i, v in ipairs(list) do list[i] = type(v) == "string" and text(v) or v end
    raw(format(form, unpack(list)))
  end
  return add, raw, out
end

local function bytes_text(n)
  if n < 1e3 then return format("%d B", n) end
  if n < 1e6 then return format("%.1f KB", n / 1e3) end
  return format("%.1f MB", n / 1e6)
end

local function plural(n, word) return format("%d %s%s", n, word, n == 1 and "" or "s") end

local function time_text(s)
  if not s then return "-" end
  return s < 1e-3 and format("%.1f µs", s * 1e6) or format("%.2f ms", s * 1e3)
end

-- Source --------------------------------------------------------------------------------------------------------------

--- The lines of a function's source, by number; nil where they cannot be had.
local function source_of(fn)
  local info = debug and debug.getinfo and debug.getinfo(fn, "S")
  if not info or info.what == "C" then return nil end
  local whole = info.source
  if sub(whole, 1, 1) == "@" then
    local file = io and io.open and io.open(sub(whole, 2), "r")
    whole = file and file:read "*a"
    if file then file:close() end
  elseif sub(whole, 1, 1) == "=" then
    whole = nil
  end
  if not whole then return nil end
  local lines, n = {}, 0
  for line in gmatch(whole .. "\n", "([^\n]*)\n") do
    n = n + 1
    if n >= info.linedefined and n <= info.lastlinedefined then lines[n] = line end
  end
  return lines, info.linedefined, info.lastlinedefined
end

--- What is to be said of each line: {guards, notes = {{kind, text}, ...}}.
local function marks_of(e, parts)
  local file, marks = match(e.place, "^(.*):%d+$"), {}
  local function mark(line)
    marks[line] = marks[line] or { guards = 0, notes = {} }
    return marks[line]
  end
  local function note(line, kind, form, ...)
    if not line then return end
    local notes = mark(line).notes
    notes[#notes + 1] = { kind, format(form, ...) }
  end
  for i, part in ipairs(parts) do
    if #parts > 1 then
      if part.native then note(part.line, "bad", "part %d begins: it runs as it is", i)
      else note(part.line, "good", "part %d begins", i) end
    end
    for _, to in ipairs(part.ends) do
      if to.reason then note(to.line, "warn", "part %d ends: %s", i, to.reason) end
    end
    for _, t in ipairs(part.traces) do
      for _, g in ipairs(t.guards) do
        local at, line = match(g, "%(([^()]*):(%d+)%)$")
        if at == file then
          local m = mark(tonumber(line))
          m.guards = m.guards + 1
        end
      end
    end
  end
  local said = {}
  for _, why in ipairs(e.aborts) do
    if why.file == file and why.line and not said[why.line .. why.reason] then
      said[why.line .. why.reason] = true
      local whole = #parts > 1
      note(why.line, whole and "warn" or "bad", "not captured%s: %s", whole and " as a whole" or "", why.reason)
    end
  end
  return marks
end

local function add_source(add, raw, e, fn, parts)
  local lines, from, to = source_of(fn)
  if not lines then return add("<p class=dim>The source cannot be read.</p>") end
  local marks = marks_of(e, parts)
  raw "<div class=scroll><table class=source>"
  for n = from, to do
    local m = marks[n] or { guards = 0, notes = {} }
    local worst = ""
    for _, note in ipairs(m.notes) do
      if note[1] == "bad" or worst == "" or worst == "good" then worst = note[1] end
    end
    add("<tr class='%s'><td class=n>%d<td class=g title='guards'>%s<td><pre>%s</pre><td>", worst, n,
      m.guards > 0 and plural(m.guards, "guard") or "", lines[n] or "")
    for _, note in ipairs(m.notes) do add("<span class='tag %s'>%s</span> ", note[1], note[2]) end
  end
  raw "</table></div>"
end

-- Plans ---------------------------------------------------------------------------------------------------------------

--- The parts of a plan's text: steps {number, kind, what, reads, writes, bytes}, and bytes by buffer.
local function read_plan(plan)
  local steps, size, section = {}, {}, nil
  for line in gmatch(plan, "[^\n]+") do
    local number, kind, rest = match(line, "^%s+(%d+)%s+(%S+)%s+(.*)$")
    local name, n = match(line, "^%s+(%a+%d+)%s+.-(%d+) bytes")
    if find(line, "^%a") then section = match(line, "^%a+")
    elseif section == "steps" and number then
      local before, after, bytes = match(rest, "^(.-)%s*%->%s*(.-)%s+(%d+)%s*$")
      if before then
        local reads, writes, what = {}, {}, {}
        for word in gmatch(before, "%S+") do
          local list = (match(word, "^in%d+$") or match(word, "^out%d+$") or match(word, "^t%d+$")) and reads or what
          list[#list + 1] = word
        end
        for word in gmatch(after, "%S+") do writes[#writes + 1] = word end
        steps[#steps + 1] = { number = tonumber(number), kind = kind, what = concat(what, " "), reads = reads,
          writes = writes, bytes = tonumber(bytes) }
      end
    elseif name then
      size[name] = tonumber(n)
    end
  end
  return steps, size
end

--- From which step to which one each buffer is in use.
local function lifetimes_of(steps)
  local life, order = {}, {}
  local function use(name, at, writes)
    local l = life[name]
    if not l then
      l = { name = name, from = at, to = at }
      life[name], order[#order + 1] = l, l
    end
    l.to = max(l.to, at)
    l.made = l.made or writes
  end
  for i, s in ipairs(steps) do
    for _, name in ipairs(s.reads) do use(name, i, false) end
    for _, name in ipairs(s.writes) do use(name, i, true) end
  end
  for _, l in ipairs(order) do
    if match(l.name, "^out") then l.to = #steps end
    if match(l.name, "^in") then l.from = 1 end
  end
  sort(order, function(a, b)
    if a.from ~= b.from then return a.from < b.from end
    return a.name < b.name
  end)
  return order
end

local MOST_BARS = 60

local function add_plan(add, raw, plan)
  local steps, size = read_plan(plan)
  if #steps == 0 then return end
  raw "<h4>Plan</h4><div class=scroll><table><tr><th>step<th>kind<th>computes<th>reads<th>writes<th>bytes moved"
  for _, s in ipairs(steps) do
    add("<tr><td class=n>%d<td>%s<td>%s<td>%s<td>%s<td class=n>%s", s.number, s.kind, s.what, concat(s.reads, " "),
      concat(s.writes, " "), bytes_text(s.bytes))
  end
  raw "</table></div>"
  local order = lifetimes_of(steps)
  local width, height = 560 / #steps, 16
  local shown = math.min(#order, MOST_BARS)
  add("<h4>Buffers, from the step that writes them to the last that reads them</h4><div class=scroll>"
    .. "<svg width=760 height=%d viewBox='0 0 760 %d'>", shown * height + 20, shown * height + 20)
  for i = 1, shown do
    local l, y = order[i], i * height
    local kind = match(l.name, "^%a+")
    add("<text x=0 y=%d>%s</text><text x=60 y=%d class=dim>%s</text>", y, l.name, y,
      size[l.name] and bytes_text(size[l.name]) or "")
    add("<rect class='%s' x=%.1f y=%d width=%.1f height=11 rx=2><title>%s: steps %d to %d</title></rect>", kind,
      140 + (l.from - 1) * width, y - 10, max(3, (l.to - l.from + 1) * width - 2), l.name, steps[l.from].number,
      steps[l.to].number)
  end
  add("</svg></div><p class=dim>%sin: given; t: in the arena, whose places are used again; out: results.</p>",
    #order > shown and format("The first %d of %d. ", shown, #order) or "")
end

--- A graph's text in pieces: nodes, groups, and by group its loop program and machine code.
local function read_graph(graph)
  local nodes, groups, programs, codes, order = {}, {}, {}, {}, {}
  local into = nodes
  for line in gmatch(graph, "([^\n]*)\n?") do
    local kind, n = match(line, "^(%a+) of group (%d+)$")
    if kind then
      n = tonumber(n)
      into = {}
      if kind == "program" then programs[n], order[#order + 1] = into, n else codes[n] = into end
    elseif find(line, "^group %d+ ") then
      groups[#groups + 1] = line
    elseif line ~= "" then
      into[#into + 1] = line
    end
  end
  return nodes, groups, programs, codes, order
end

local function add_graph(add, graph, what)
  local nodes, groups, programs, codes, order = read_graph(graph)
  add("<details><summary>%s: %s in %s</summary><div class=scroll><pre>%s</pre></div></details>", what,
    plural(#nodes, "node"), plural(#groups, "group"), concat(nodes, "\n") .. "\n\n" .. concat(groups, "\n"))
  for _, n in ipairs(order) do
    local head
    for _, g in ipairs(groups) do
      if match(g, "^group (%d+) ") == tostring(n) then head = g end
    end
    add("<details><summary>Kernel of %s</summary><div class=pair><div><h5>loop program</h5><pre>%s</pre></div>",
      head or format("group %d", n), concat(programs[n], "\n"))
    local code = codes[n] and #codes[n] > 0 and concat(codes[n], "\n")
      or "no machine code of its own: loops over tiles that are compiled ahead"
    add("<div><h5>machine code</h5><pre>%s</pre></div></div></details>", code)
  end
end

local function add_list(add, title, list)
  if #list == 0 then return end
  add("<details><summary>%s: %d</summary><ol>", title, #list)
  for _, line in ipairs(list) do add("<li><code>%s</code>", line) end
  add("</ol></details>")
end

local function add_trace(add, raw, i, t)
  add("<section><h3>Trace %d <code>%s</code></h3><p>%s; %s in %s and %s; %s moved; fusion saved %s and %s.</p>", i,
    t.key, plural(t.hits, "hit"), plural(t.operations, "operation"), plural(t.kernels, "kernel"),
    plural(t.steps - t.kernels, "other step"), bytes_text(t.bytes_moved), plural(t.operations_saved, "operation"),
    bytes_text(t.bytes_saved))
  add_list(add, "Guards, in the order in which they are asked", t.guards)
  add_list(add, "Effects", t.effects)
  local kept = {}
  for k, v in ipairs(t.kept or {}) do
    kept[k] = format("%s %s%s, %s, read by the gradient of %s", v.what, v.type, v.path and " " .. v.path or "",
      bytes_text(v.bytes), v.by or "?")
  end
  add_list(add, "Kept for the backward pass", kept)
  if t.plan and #t.plan > 0 then add_plan(add, raw, t.plan) end
  if t.graph and #t.graph > 0 then add_graph(add, t.graph, "Graph") end
  for k, b in ipairs(t.backward or {}) do
    if type(b) == "table" and type(b.graph) == "string" then
      add("<h4>Backward pass %d</h4>", k)
      if type(b.plan) == "string" then add_plan(add, raw, b.plan) end
      add_graph(add, b.graph, "Its graph")
    end
  end
  raw "</section>"
end

-- The page ------------------------------------------------------------------------------------------------------------

local STYLE = [[
:root { color-scheme: light dark; --bg: #fff; --fg: #1c1e21; --dim: #6a7078; --line: #dfe3e8; --soft: #f5f7f9;
  --good: #1a7f4b; --warn: #a15c00; --bad: #b3261e; --in: #7a8ba0; --t: #3b82c4; --out: #2a9d6a; }
@media (prefers-color-scheme: dark) { :root { --bg: #15181c; --fg: #e4e7eb; --dim: #98a1ab; --line: #30363d;
  --soft: #1c2126; --good: #4cc38a; --warn: #e5a445; --bad: #f2746b; --in: #8b9db3; --t: #5ba3e0; --out: #4cc38a; } }
body { margin: 0 auto; max-width: 1200px; padding: 1.5rem 1rem 4rem; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 .2rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; } h4 { margin: 1.1rem 0 .4rem; font-size: .92rem; }
h5 { margin: .4rem 0; color: var(--dim); font-weight: 600; }
.dim { color: var(--dim); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; } th { text-align: left; color: var(--dim); font-weight: 600; }
th, td { padding: .15rem .7rem .15rem 0; vertical-align: top; border-bottom: 1px solid var(--line); }
td.n { text-align: right; white-space: nowrap; }
pre, code { font: 12.5px/1.45 ui-monospace, monospace; } pre { margin: 0; white-space: pre; }
.source { width: 100%; } .source td { border: 0; padding: 0 .7rem 0 0; }
.source td.n, .source td.g { color: var(--dim); font-size: .8rem; white-space: nowrap; }
.source tr.good { background: color-mix(in srgb, var(--good) 9%, transparent); }
.source tr.warn { background: color-mix(in srgb, var(--warn) 11%, transparent); }
.source tr.bad { background: color-mix(in srgb, var(--bad) 12%, transparent); }
.tag { font-size: .8rem; }
.tag.good { color: var(--good); } .tag.warn { color: var(--warn); } .tag.bad { color: var(--bad); }
.numbers { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.numbers div { background: var(--soft); padding: .5rem .9rem; border-radius: 6px; }
.numbers b { display: block; font-size: 1.15rem; }
section { border: 1px solid var(--line); border-radius: 8px; padding: .9rem 1rem; margin: .8rem 0; }
summary { cursor: pointer; padding: .2rem 0; overflow-wrap: anywhere; } details > div { margin: .4rem 0 .8rem; }
ol { margin: .3rem 0 .8rem; }
.pair { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.pair > div { overflow: auto; max-height: 40rem; background: var(--soft); border-radius: 6px;
  padding: .3rem .8rem .8rem; }
svg text { font: 11px ui-monospace, monospace; fill: var(--fg); } svg text.dim { fill: var(--dim); }
rect.in { fill: var(--in); } rect.t { fill: var(--t); } rect.out { fill: var(--out); }
]]

--- The page.
---@param e tycho.Explanation
---@param fn function the function that was compiled
---@return string html
function M.page(e, fn)
  local add, raw, out = writer()
  local parts = #e.parts > 0 and e.parts or { { ends = {}, traces = e.traces } }
  add("<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>")
  add("<title>%s</title>", e.place)
  raw("<style>" .. STYLE .. "</style>")
  add("<h1>%s</h1><div class=dim>%s</div>", e.place,
    e.fast and "compiled with fast: bits may differ from eager" or "compiled function")
  raw "<div class=numbers>"
  for _, pair in ipairs { { e.calls, "calls" }, { e.skips, "answered without its Lua code" },
    { e.captures, "captures" }, { time_text(e.time), "a call, median" }, { #parts, "parts" } } do
    add("<div><b>%s</b>%s</div>", tostring(pair[1]), pair[2])
  end
  raw "</div>"
  raw "<h2>Source</h2>"
  add_source(add, raw, e, fn, parts)
  if #parts > 1 then
    raw "<h2>Parts</h2><div class=scroll><table>"
    raw "<tr><th>part<th>begins<th>calls<th>hits<th>linked<th>captures<th>each<th>ends at"
    for i, p in ipairs(parts) do
      local ends = {}
      for k, to in ipairs(p.ends) do ends[k] = to.reason and format("%s: %s", to.at or "", to.reason) or "the end" end
      if p.native then
        add("<tr><td class=n>%d<td>%s<td colspan=6>runs as it is", i, p.begins)
      else
        add("<tr><td class=n>%d<td>%s", i, p.begins)
        for _, n in ipairs { p.calls, p.skips, p.linked, p.captures } do add("<td class=n>%d", n) end
        add("<td class=n>%s<td>%s", time_text(p.time), concat(ends, "; "))
      end
    end
    raw "</table></div>"
  end
  for i, p in ipairs(parts) do
    if #p.traces > 0 then
      if #parts > 1 then add("<h2>Part %d, from %s</h2>", i, p.begins) else raw "<h2>Traces</h2>" end
      for k, t in ipairs(p.traces) do add_trace(add, raw, k, t) end
    end
  end
  if #e.misses + #e.aborts > 0 then
    raw "<h2>Calls that no trace answered</h2>"
    local misses, aborts = {}, {}
    for k, m in ipairs(e.misses) do misses[k] = m.text or tostring(m) end
    for k, why in ipairs(e.aborts) do aborts[k] = why.text or why.reason end
    add_list(add, "Differences from the calls before", misses)
    add_list(add, "What could not be captured", aborts)
  end
  raw "</html>"
  return concat(out, "\n")
end

return M
