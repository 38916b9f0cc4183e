--- view.lua -- `jit.view`: what became of a compiled function, as one page that a browser shows.
-- In: what jit.explain tells, with machine code; the function's source. Out: HTML as text, which needs nothing from
-- elsewhere. Cannot fail but when out of memory; a source that cannot be read is left out.

local ipairs, tostring, tonumber, type = ipairs, tostring, tonumber, type
local format, gsub, gmatch, match = string.format, string.gsub, string.gmatch, string.match
local sub, find, unpack, select = string.sub, string.find, unpack, select
local concat, max, sort = table.concat, math.max, table.sort

local plan_text = require "tycho.plan_text"

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
  if s < 1e-6 then return format("%.2f µs", s * 1e6) end
  return s < 1e-3 and format("%.1f µs", s * 1e6) or format("%.2f ms", s * 1e3)
end

-- Source --------------------------------------------------------------------------------------------------------------

--- The lines of a function's source, by number, the first and the last one's, the file; nil where they cannot be had.
local function source_of(fn)
  local info = debug and debug.getinfo and debug.getinfo(fn, "S")
  if not info or info.what == "C" then return nil end
  local whole, path = info.source, info.short_src
  if sub(whole, 1, 1) == "@" then
    path = sub(whole, 2)
    local file = io and io.open and io.open(sub(whole, 2), "r")
    whole = file and file:read "*a"
    if file then file:close() end
  elseif sub(whole, 1, 1) == "=" then
    whole = plan_text.texts[path]
  end
  if not whole then return nil end
  local lines, n = {}, 0
  for line in gmatch(whole .. "\n", "([^\n]*)\n") do
    n = n + 1
    if n >= info.linedefined and n <= info.lastlinedefined then lines[n] = line end
  end
  return lines, info.linedefined, info.lastlinedefined, path
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

--- What the lines cost in kernels, seconds a call, those of steps that were timed: {file, line, seconds, backward}, by
--- place and as a list, the first lines first; the sum of all.
local function costs_of(e, parts)
  local by, list, total = {}, {}, 0
  for _, part in ipairs(parts) do
    for _, t in ipairs(part.traces) do
      local steps = t.seconds and M.steps(t.plan) or {}
      local groups, nodes = plan_text.groups(#steps > 0 and t.graph or "")
      for i, s in ipairs(steps) do
        local seconds = t.seconds[i] * t.hits / max(e.calls, 1)
        local shares = plan_text.shares(groups, nodes, s.root, t.sites)
        for _, share in ipairs(shares) do
          local c = share.site and by[share.site]
          if share.site and not c then
            c = { seconds = 0, backward = 0 }
            c.file, c.line = plan_text.place(share.site)
            c.line = tonumber(c.line)
            by[share.site], list[#list + 1] = c, c
          end
          total = total + seconds * share.share
          if c then
            c.seconds = c.seconds + seconds * share.share
            if share.back then c.backward = c.backward + seconds * share.share end
          end
        end
      end
    end
  end
  sort(list, function(a, b)
    if a.file ~= b.file then return a.file < b.file end
    return a.line < b.line
  end)
  return by, list, total
end

--- A cell with a time and a bar as long as its share of all is.
local function add_cost(add, c, total)
  if not c then return add "<td class=t>" end
  local back = c.backward > 0 and format(", %.0f %% of it in backward passes", 100 * c.backward / c.seconds) or ""
  add("<td class=t title='%.0f %% of the time in kernels%s'><i style='width:%.1f%%'></i>%s",
    100 * c.seconds / max(total, 1e-12), back, 88 * c.seconds / max(total, 1e-12), time_text(c.seconds))
end

--- Lines of other functions, which the source above does not have.
local function add_elsewhere(add, raw, costs, total, file, from, to)
  local others, sources = {}, {}
  for _, c in ipairs(costs) do
    if c.file ~= file or c.line < from or c.line > to then others[#others + 1] = c end
  end
  if #others == 0 then return end
  raw "<h3>Lines of other functions</h3><div class=scroll><table class=source>"
  for _, c in ipairs(others) do
    sources[c.file] = sources[c.file] or plan_text.read_lines(c.file)
    add("<tr><td class=n>%s:%d", match(c.file, "[^/\\]*$"), c.line)
    add_cost(add, c, total)
    add("<td><pre>%s</pre>", sources[c.file][c.line] or "")
  end
  raw "</table></div>"
end

local function add_source(add, raw, e, fn, parts)
  local lines, from, to, file = source_of(fn)
  local by, costs, total = costs_of(e, parts)
  if not lines then
    add("<p class=dim>The source cannot be read.</p>")
    return add_elsewhere(add, raw, costs, total, nil, 0, 0)
  end
  local marks = marks_of(e, parts)
  if total > 0 then
    raw("<p class=dim>Times are those in kernels, a call; a kernel that holds operations of several lines is shared "
      .. "among them. Gradients count where their operation stands.</p>")
  end
  raw "<div class=scroll><table class=source>"
  for n = from, to do
    local m = marks[n] or { guards = 0, notes = {} }
    local worst = ""
    for _, note in ipairs(m.notes) do
      if note[1] == "bad" or worst == "" or worst == "good" then worst = note[1] end
    end
    add("<tr class='%s'><td class=n>%d", worst, n)
    if total > 0 then add_cost(add, by[format("%s:%d", file, n)], total) end
    add("<td><pre>%s</pre><td class=g title='guards'>%s<td>", lines[n] or "",
      m.guards > 0 and plural(m.guards, "guard") or "")
    for _, note in ipairs(m.notes) do add("<span class='tag %s'>%s</span> ", note[1], note[2]) end
  end
  raw "</table></div>"
  add_elsewhere(add, raw, costs, total, file, from, to)
end

-- Plans ---------------------------------------------------------------------------------------------------------------

--- Adds a word of a step to a list, once; "-" is an operand that the step does not use.
local function add_word(list, word)
  if word == "-" then return end
  for _, other in ipairs(list) do
    if other == word then return end
  end
  list[#list + 1] = word
end

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
          add_word(list, word)
        end
        for word in gmatch(after, "%S+") do add_word(writes, word) end
        steps[#steps + 1] = { number = tonumber(number), kind = kind, what = concat(what, " "), reads = reads,
          writes = writes, bytes = tonumber(bytes), root = tonumber(match(before, "^%%(%d+)")) }
      end
    elseif name then
      size[name] = tonumber(n)
    end
  end
  return steps, size
end

--- The steps of a plan's text.
function M.steps(plan) return (read_plan(plan)) end

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

--- The lines of which a step holds operations: "5, 7", of other files with their names.
local function lines_text(shares, file)
  local list = {}
  for _, s in ipairs(shares) do
    local path, line = plan_text.place(s.site or "")
    if path then
      list[#list + 1] = (path == file and "" or match(path, "[^/\\]*$") .. ":") .. line .. (s.back and " back" or "")
    end
  end
  return concat(list, ", ")
end

local function add_plan(add, raw, plan, t, file)
  local steps, size = read_plan(plan)
  if #steps == 0 then return end
  local timed, total = t and t.seconds, 0
  local groups, nodes = plan_text.groups(t and t.graph or "")
  for i = 1, timed and #steps or 0 do total = total + t.seconds[i] end
  add("<h4>Plan%s</h4><div class=scroll><table><tr><th>step<th>kind<th>computes", timed
    and format(": %s in its steps, the mean of %s that were timed", time_text(total), plural(t.timed, "run")) or "")
  raw(timed and "<th>time<th>reads<th>writes<th>bytes moved<th>lines" or "<th>reads<th>writes<th>bytes moved<th>lines")
  for i, s in ipairs(steps) do
    local shares = t and plan_text.shares(groups, nodes, s.root, t.sites) or {}
    add("<tr><td class=n>%d<td>%s<td>%s", s.number, s.kind, s.what)
    if timed then add_cost(add, { seconds = t.seconds[i], backward = 0 }, total) end
    add("<td>%s<td>%s<td class=n>%s<td class=dim>%s", concat(s.reads, " "), concat(s.writes, " "), bytes_text(s.bytes),
      lines_text(shares, file))
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

--- What a group is, in a few words: "a kernel of 3 nodes that writes %5".
local function about_group(line)
  local kind, of, written = match(line, "^group %d+ ([^:]*):(.-) %->(.*)$")
  if not kind then return "" end
  local _, count = gsub(of, "%S+", "")
  return format(": a %s of %s that writes%s", gsub(kind, "^gemm", "product"), plural(count, "node"),
    gsub(gsub(written, " reads.*$", ""), " over.*$", ""))
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
    add("<details><summary>Group %d%s</summary><div class=pair><div><h5>loop program</h5><pre>%s</pre></div>",
      n, head and about_group(head) or "", concat(programs[n], "\n"))
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

local function add_trace(add, raw, i, t, file)
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
  if t.plan and #t.plan > 0 then add_plan(add, raw, t.plan, t, file) end
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
.scroll td { white-space: nowrap; } .scroll .source td:last-child { white-space: normal; } td.n { text-align: right; }
pre, code { font: 12.5px/1.45 ui-monospace, monospace; } pre { margin: 0; white-space: pre; }
.source { width: 100%; } .source td { border: 0; padding: 0 .7rem 0 0; }
td.t { position: relative; text-align: right; min-width: 5.5rem; padding-right: .7rem; }
td.t i { position: absolute; left: 0; top: .2em; height: 1.1em; border-radius: 2px;
  background: color-mix(in srgb, var(--t) 30%, transparent); }
.source td.n, .source td.t, .source td.g { width: 1%; } .source td.t { font-size: .8rem; }
.source td:last-child { min-width: 16rem; }
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

--- What a call takes: the median of those that were timed, of parts together.
local function time_of(e, parts)
  if #parts < 2 then return e.time end
  local seconds
  for _, p in ipairs(parts) do
    if p.time then seconds = (seconds or 0) + p.time * p.calls / max(e.calls, 1) end
  end
  return seconds
end

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
    { e.captures, "captures" }, { time_text(time_of(e, parts)), "a call, median" }, { #parts, "parts" } } do
    add("<div><b>%s</b>%s</div>", tostring(pair[1]), pair[2])
  end
  raw "</div>"
  raw "<h2>Source</h2>"
  local file = select(4, source_of(fn))
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
      for k, t in ipairs(p.traces) do add_trace(add, raw, k, t, file) end
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
