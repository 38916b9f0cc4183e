--- explain.lua -- what jit.explain tells: what answers calls of a compiled function, in which parts, and why not.
-- In: the core, the record of a compiled function (compile.lua). Out: a table that prints in MOST lines at most; all of
-- it as text; a plain table for programs. Cannot fail but when out of memory.

local type, tostring, tonumber, ipairs, setmetatable, pairs = type, tostring, tonumber, ipairs, setmetatable, pairs
local format, gsub, gmatch, match = string.format, string.gsub, string.gmatch, string.match
local sub, rep = string.sub, string.rep
local concat, insert, max, min = table.concat, table.insert, math.max, math.min

local words = require "tycho.capture.words"

local M = {}

local MOST, WIDEST = 25, 160 -- lines that are printed, bytes of a line

---@class tycho.Explanation what jit.explain tells; prints well, briefly
---@field place string where the function is defined
---@field calls integer
---@field skips integer calls that did not run it
---@field captures integer
---@field traces table[] {guards, operations, kernels, steps, hits, effects, graph, plan, ...} each
---@field misses table[] why traces did not answer
---@field aborts table[] {reason, hint, text, ...}: why it was not captured
---@field parts table[] where it is held in parts
---@field full fun(self: tycho.Explanation): string with guards, graphs and programs
---@field table fun(self: tycho.Explanation): table all of it as plain tables

-- Words ---------------------------------------------------------------------------------------------------------------

local function megabytes(n)
  if n < 1e3 then return format("%d B", n) end
  if n < 1e6 then return format("%.1f KB", n / 1e3) end
  return format("%.1f MB", n / 1e6)
end

local function plural(n, word) return format("%d %s%s", n, word, n == 1 and "" or "s") end

local function indent(text, by) return (by .. gsub(text, "\n(.)", "\n" .. by .. "%1")) end

--- On which devices the steps of a plan are, but for the CPU's: "; 5 steps on cuda, of which the cpu does 1".
local function devices_text(p)
  local steps, away, order = {}, {}, {}
  for device, rest in gmatch(p.plan or "", "%->[^\n]-%d  (%a[%w:]*)([^\n]*)") do
    if not steps[device] then steps[device], away[device], order[#order + 1] = 0, 0, device end
    steps[device] = steps[device] + 1
    if match(rest, "refuses it") then away[device] = away[device] + 1 end
  end
  local out = {}
  for i, device in ipairs(order) do
    local left = away[device] > 0 and format(", of which the cpu does %d", away[device]) or ""
    out[i] = format("; %s on %s%s", plural(steps[device], "step"), device, left)
  end
  return concat(out)
end

--- How the last call ran on a device that works later: launches, graphs, copies, what was interpreted; a list of lines.
local function run_lines(p)
  local r, list = p.device_run, {}
  if not r then return list end
  local what = {}
  local function add(n, ...) if n > 0 then what[#what + 1] = format(...) end end
  add(r.graphs, "%s of %s", plural(r.graphs, "graph"), plural(r.graph_kernels, "kernel"))
  add(r.launches, "%s one by one", plural(r.launches, "kernel"))
  add(r.library_calls, "%s of libraries", plural(r.library_calls, "call"))
  add(r.bytes_in, "%s from the cpu", megabytes(r.bytes_in))
  add(r.bytes_out, "%s to the cpu", megabytes(r.bytes_out))
  add(r.bytes_within, "%s copied", megabytes(r.bytes_within))
  if #what == 0 then return list end
  list[1] = format("last run on %s: %s launched; %s", p.device, plural(r.graphs + r.launches + r.library_calls, "time"),
    concat(what, ", "))
  if r.launches > r.interpreted and r.no_graph then list[#list + 1] = "one by one, since " .. r.no_graph end
  if r.interpreted > 0 then
    list[#list + 1] = format("%s interpreted: %s (jit.warmup waits)",
      plural(r.interpreted, "loop program") .. (r.interpreted == 1 and " was" or " were"),
      "code is still being assembled, or the driver refuses it")
  end
  return list
end

--- How many exchanges with other ranks go on while steps run: each begins at one of them, and ends at another.
local function exchanges_text(p)
  local _, n = gsub(p.plan or "", "\n  %d+ +host +%%%d+ call ", "")
  return n > 0 and format("; %s with other ranks", plural(n, "exchange")) or ""
end

--- What a plan does, of a trace or a graph.
local function work_text(p)
  return format("%s in %s and %s%s%s; %s moved; fusion saved %s and %s", plural(p.operations, "operation"),
    plural(p.kernels, "kernel"), plural(p.steps - p.kernels, "other step"), devices_text(p), exchanges_text(p),
    megabytes(p.bytes_moved), plural(p.operations_saved, "operation"), megabytes(p.bytes_saved))
end

local Explanation = {}
local explanation = { __index = Explanation }

--- Lines of text.
local function writer()
  local out = {}
  return function(...) out[#out + 1] = format(...) end, out
end

local function add_head(add, e)
  add("compiled function at %s%s", e.place, e.fast and " (fast: bits may differ from eager)" or "")
  add("%s, %d inside other compiled functions; %s answered without running it; %s", plural(e.calls, "call"), e.nested,
    e.skips, plural(e.captures, "capture"))
end

--- Why each size has a plan of its own, where ranges were tried.
local function why_no_range(d, t)
  for _, tape in ipairs(t.ranges == 0 and d.tapes or {}) do
    if tape.stretched and tape.stretched.why then return tape.stretched.why end
  end
end

local function sets_text(t)
  if not t.dynamic then return "" end
  local ranges = t.ranges > 0 and " and " .. plural(t.ranges, "range") or ""
  return format(", any sizes: %s%s so far", plural(t.instances, "set"), ranges)
end

local function trace_text(i, t, key)
  return format("trace %d%s: %s, %s, %s%s", i, key, plural(t.hits, "hit"), plural(#t.guards, "guard"),
    plural(#t.effects, "effect"), sets_text(t))
end

--- Steps that a device leaves to the CPU.
local function refused(t)
  local list = {}
  for line in gmatch(t.plan or "", "[^\n]*refuses it[^\n]*") do list[#list + 1] = "step " .. gsub(line, "^ +", "") end
  return list
end

local function signatures_text(e)
  return format("recorded while it ran: signatures: %s, %s", plural(e.signature_hits, "hit"),
    e.signature_misses == 1 and "1 miss" or e.signature_misses .. " misses")
end

--- Different texts of a list's items, the latest first, each with how often it is there.
local function latest(list, text)
  local out, times = {}, {}
  for i = #list, 1, -1 do
    local line = text(list[i])
    if not times[line] then out[#out + 1] = line end
    times[line] = (times[line] or 0) + 1
  end
  for i, line in ipairs(out) do
    if times[line] > 1 then out[i] = format("%s (%d times)", line, times[line]) end
  end
  return out
end

--- A line that is not too wide.
local function cut(text)
  local line = gsub(text, "\n.*", " ...")
  return #line <= WIDEST and line or sub(line, 1, WIDEST - 4) .. " ..."
end

local function shown(section) return min(section.most, #section) end

--- Lines that a section of items (lists of lines) takes, with one that tells how many there are more.
local function height(section)
  local n = shown(section) < #section and 1 or 0
  for i = 1, shown(section) do n = n + #section[i] end
  return n
end

--- The first items of each section, in so many lines at most: the longest gives way.
local function add_sections(add, sections, room)
  while true do
    local total, longest = 0, sections[1]
    for _, section in ipairs(sections) do
      total = total + height(section)
      if section.most > 1 and (longest.most <= 1 or height(section) > height(longest)) then longest = section end
    end
    if total <= room or longest.most <= 1 then break end
    longest.most = shown(longest) - 1
  end
  for _, section in ipairs(sections) do
    for i = 1, shown(section) do
      for _, line in ipairs(section[i]) do add("%s", cut(line)) end
    end
    if #section > section.most then
      local left = #section - section.most
      add("  and %d more%s", left, section.of and " " .. section.of .. (left == 1 and "" or "s") or "")
    end
  end
end

-- Parts ---------------------------------------------------------------------------------------------------------------

local function time_text(s)
  if not s then return "-" end
  if s < 1e-3 then return format("%.1f us", s * 1e6) end
  if s < 1 then return format("%.1f ms", s * 1e3) end
  return format("%.2f s", s)
end

--- The last part of a path.
local function base(place) return match(place, "^%[") and place or match(place, "[^/\\]*$") end

local END = "the end"

--- Where a part ends, and why. remedy: with what to do about it.
local function end_text(at, remedy)
  if not at.at then return END end
  local elsewhere = at.where and at.where ~= at.at and " (" .. base(at.where) .. ")" or ""
  return format("%s: %s%s%s", base(at.at), at.reason, elsewhere, remedy and at.hint and "; " .. at.hint or "")
end

local function ends_text(part, remedy)
  local list = {}
  for i, at in ipairs(part.ends) do list[i] = end_text(at, remedy) end
  return concat(list, " | ")
end

local NATIVE = "runs as it is, since a part would do too little"
local HEADS = { "part", "calls", "hits", "linked", "captures", "each", "up to" }

--- The parts of a function as the rows of a table, each a list of lines; the first row are the heads of its columns.
---@param parts table[]
---@param remedy? boolean
local function part_rows(parts, remedy)
  local rows, widths = { HEADS }, {}
  for i, p in ipairs(parts) do
    local linked = i == 1 and "-" or p.linked
    rows[i + 1] = p.native and { base(p.begins), "-", "-", "-", "-", "-", NATIVE }
      or { base(p.begins), p.calls, p.skips, linked, p.captures, time_text(p.time), ends_text(p, remedy) }
  end
  for _, row in ipairs(rows) do
    for k = 1, #HEADS - 1 do widths[k] = max(widths[k] or 0, #tostring(row[k])) end
  end
  local list = {}
  for i, row in ipairs(rows) do
    local cells = {}
    for k = 1, #HEADS - 1 do
      local text = tostring(row[k])
      local room = rep(" ", widths[k] - #text)
      cells[k] = k == 1 and text .. room or room .. text
    end
    list[i] = { concat(cells, "  ") .. "  " .. row[#HEADS] }
    local last = i > 1 and parts[i - 1].aborts[1]
    if last and i > 2 then list[i][2] = "  abort: " .. last.text end -- the first one's are the function's
  end
  return list
end

--- That no more places are cut.
local function bound_text(n)
  return format("cut at %d places, which is the most: what comes behind runs as it is, and is tried again seldom", n)
end

-- Gradients -----------------------------------------------------------------------------------------------------------

local KINDS = { "result", "input", "constant" }

--- What a call keeps for its backward pass, and whether that has plans; nil where no result needs a gradient.
local function kept_text(t)
  if not t.kept then return nil end
  local count, bytes, list = {}, {}, {}
  for _, v in ipairs(t.kept) do
    count[v.what], bytes[v.what] = (count[v.what] or 0) + 1, (bytes[v.what] or 0) + v.bytes
  end
  for _, kind in ipairs(KINDS) do
    if count[kind] then list[#list + 1] = format("%s (%s)", plural(count[kind], kind), megabytes(bytes[kind])) end
  end
  local again = count.again
    and format(" and computes %s (%s) again", plural(count.again, "value"), megabytes(bytes.again))
  return format("gradients: a call keeps %s%s; %s", #list > 0 and concat(list, ", ") or "nothing", again or "",
    #t.backward == 0 and "no backward plan yet" or plural(#t.backward, "backward plan"))
end

--- Each value that is kept, and each plan, as lines.
local function kept_lines(t)
  local list = {}
  for _, v in ipairs(t.kept or {}) do
    local what = v.what == "input" and "input " .. v.path or v.what
    local bytes = v.bytes > 0 and megabytes(v.bytes) or "memory of one above"
    list[#list + 1] = format("%s: %s, %s%s", v.what == "again" and "computes again" or "keeps " .. what, v.type, bytes,
      #v.by > 0 and ", for " .. v.by or "")
  end
  for i, p in ipairs(t.backward or {}) do
    local name = format("backward plan %d%s", i, p.range and ", for a range of sizes" or "")
    list[#list + 1] = p.steps == 0 and name .. ": none can be made, goes along the operations"
      or format("%s: %s in %s and %s", name, plural(p.operations, "operation"), plural(p.kernels, "kernel"),
        plural(p.steps - p.kernels, "other step"))
  end
  return list
end

-- Texts ---------------------------------------------------------------------------------------------------------------

--- At most MOST lines: what was called, what answers, in which parts, the last misses, and what could not be captured.
function explanation.__tostring(e)
  local add, out = writer()
  local work, away, bound, recorded = { most = 4, of = "trace" }, { most = 1 }, { most = 1 }, { most = 2 }
  local function list(items, most)
    local section = { most = most }
    for i, text in ipairs(items) do section[i] = { text } end
    return section
  end
  add_head(add, e)
  for i, t in ipairs(e.traces) do
    work[i] = { trace_text(i, t, " " .. t.key), "  " .. work_text(t) }
    for _, line in ipairs(run_lines(t)) do insert(work[i], "  " .. line) end
    if t.kept then insert(work[i], "  " .. kept_text(t)) end
    for _, line in ipairs(refused(t)) do away[#away + 1] = { "  " .. line } end
  end
  local parts = #e.parts > 0 and part_rows(e.parts) or {}
  parts.most, parts.of = 13, "part"
  if e.most_parts then bound[1] = { bound_text(e.most_parts) } end
  if #e.signatures > 0 then
    recorded[1] = { signatures_text(e) }
    for _, line in ipairs(latest(e.differences, function(text) return "miss: " .. text end)) do
      recorded[#recorded + 1] = { line }
    end
  end
  add_sections(add, { work, away, parts, bound,
    list(latest(e.misses, function(m) return "miss: " .. m.text end), 3),
    list(latest(e.aborts, function(why) return "abort: " .. why.text end), 3), recorded }, MOST - #out - 1)
  add("guards, graphs and programs: jit.explain(f):full()")
  return concat(out, "\n")
end

--- The same without what makes it print.
---@return table
function Explanation.table(e)
  local y = {}
  for k, v in pairs(e) do y[k] = v end
  return y
end

--- All that a trace does, as lines.
local function add_trace(add, i, t)
  add("%s", trace_text(i, t, ""))
  add("  %s", work_text(t))
  for _, line in ipairs(run_lines(t)) do add("  %s", line) end
  if t.kept then add("  %s", kept_text(t)) end
  for _, line in ipairs(kept_lines(t)) do add("    %s", line) end
  for _, line in ipairs(refused(t)) do add("  %s", line) end
  for _, g in ipairs(t.guards) do add("  guard %s", g) end
  for _, g in ipairs(t.sizes) do add("  sizes %s", g) end
  if t.no_range then add("  no range of sizes: %s", t.no_range) end
  for _, g in ipairs(t.effects) do add("  effect %s", g) end
  if t.backend then add("  computed by the backend's function") end
  if #t.graph > 0 then add("%s", indent((gsub(t.graph, "\n$", "")), "    ")) end
end

--- All there is to tell, as text.
---@return string
function Explanation.full(e)
  local add, out = writer()
  add_head(add, e)
  for i, t in ipairs(e.traces) do add_trace(add, i, t) end
  for _, row in ipairs(#e.parts > 0 and part_rows(e.parts, true) or {}) do
    for _, line in ipairs(row) do add("%s", line) end
  end
  if e.most_parts then add("%s", bound_text(e.most_parts)) end
  for k = 2, #e.parts do
    if #e.parts[k].traces > 0 then add("part %s:", base(e.parts[k].begins)) end
    for i, t in ipairs(e.parts[k].traces) do add_trace(function(...) add("%s", indent(format(...), "  ")) end, i, t) end
  end
  for _, m in ipairs(e.misses) do add("miss: %s", m.text) end
  for _, why in ipairs(e.aborts) do add("abort: %s [%.2f ms]", why.text, why.cost) end
  if #e.signatures > 0 then add("%s", signatures_text(e)) end
  for _, miss in ipairs(e.differences) do add("miss: %s", miss) end
  for i, t in ipairs(e.signatures) do
    add("signature %d: (%s), %s", i, concat(t.signature, ", "), plural(t.hits, "hit"))
    if t.rests then add("  runs eagerly for now: there is too little to fuse for recording to pay") end
    for k, g in ipairs(t.graphs) do
      add("  graph %d, run %s: %s", k, g.runs == 1 and "once" or g.runs .. " times", work_text(g))
      if g.text then add("%s", indent(g.text, "    ")) end
    end
    if t.unseen > 0 then add("  and %s more that are not kept", plural(t.unseen, "cut")) end
  end
  return concat(out, "\n")
end

--- Guards of a description, as lines.
local function guard_lines(core, d)
  local rows, list = core.internals.capture.guards, {}
  for at, g in ipairs(d.program) do
    local text = words.guard(core, g, d)
    if text then
      local path = d.about[at] or rows[g[1]].operands[1] == "slot" and d.paths[g[2]] or "a number"
      local line = format("%s: %s", path, text)
      list[#list + 1] = d.lines[at] and format("%s  (%s)", line, d.lines[at]) or line
    end
  end
  return list
end

--- What was decided about sizes, for each way through the function that the trace serves.
local function size_lines(d)
  local list = {}
  for _, tape in ipairs(d.tapes) do
    local claims = {}
    for _, e in ipairs(tape.entries) do
      if e[1] == "claim" then
        local line = format("%s: %s", e.text or "a size", tostring(e[5]))
        claims[#claims + 1] = e.line and format("%s  (%s)", line, e.line) or line
      end
    end
    if #claims > 0 then list[#list + 1] = concat(claims, "; ") end
  end
  return list
end

--- What the arguments are, as far as the trace depends on them: (x: f32[2,3], rate: a number, ...).
local function key_lines(core, d)
  local parts = {}
  for i = 1, d.narg do parts[i] = (d.paths[i] or "argument " .. i) .. ": anything" end
  local told = { tensor = true, equal = true, type = true, number = true, bound = true }
  for _, g in ipairs(d.program) do
    local i = g[2]
    if told[g[1]] and type(i) == "number" and i <= d.narg then
      local text = gsub(gsub(words.guard(core, g, d), "^is ", ""), ", read in each call$", "")
      parts[i] = format("%s: %s", d.paths[i] or "argument " .. i, text)
    end
  end
  return "(" .. concat(parts, ", ") .. ")"
end

--- Fields and upvalues that are set, tensors that are written in place, random numbers that are drawn.
local function effect_lines(d, t)
  local list, told = {}, {}
  for _, e in ipairs(d.effects) do -- a field that goes and comes again is written more than once
    local line = format("writes %s", e.path or d.paths[e[2]] or "a field")
    if not told[line] then list[#list + 1], told[line] = line, true end
  end
  for _, slot in ipairs(t.written) do list[#list + 1] = format("writes %s in place", d.paths[slot] or "a tensor") end
  if t.streams > 0 then list[#list + 1] = "draws random numbers: " .. plural(t.streams, "stream") end
  return list
end

-- What is told -------------------------------------------------------------------------------------------------------

local function traces_of(core, h)
  local list = {}
  for i, t in ipairs(core.internals.capture.traces(h.handle)) do
    local d = t.description
    for _, v in ipairs(t.kept or {}) do
      v.what = v.slot == 0 and "result" or v.slot == -1 and "constant" or v.slot == -2 and "again" or "input"
      v.path = v.slot > 0 and (d.paths[v.slot] or "of unknown path") or nil
      v.slot = nil
    end
    list[i] = {
      key = key_lines(core, d), guards = guard_lines(core, d), sizes = size_lines(d), effects = effect_lines(d, t),
      graph = t.text, kernels = t.kernels, steps = t.steps, operations = t.operations, hits = t.hits,
      operations_saved = t.operations_saved, bytes_moved = t.bytes_moved, bytes_saved = t.bytes_saved, plan = t.plan,
      dynamic = t.dynamic, instances = t.instances, backend = t.backend, ranges = t.ranges,
      no_range = why_no_range(d, t), kept = t.kept, backward = t.backward, device_run = t.device_run, device = t.device,
    }
    list[i].sites, list[i].seconds, list[i].timed = core.internals.capture.measured(h.handle, i)
  end
  return list
end

--- Where the traces of a compiled function end: {at, line, reason, ...} before its end, {} at it. Most recent first.
local function ends_of(core, h, file)
  local list, known = {}, {}
  for _, t in ipairs(core.internals.capture.traces(h.handle)) do
    local ends, at = t.description.ends, {}
    local why = ends and ends.why
    if ends then
      at = { at = format("%s:%s", file, ends.line or "?"), line = ends.line, reason = "the loop's next turn" }
    end
    if why then
      at.reason, at.hint = why.reason, why.hint
      at.where = why.file and (why.line and format("%s:%s", why.file, why.line) or why.file)
    end
    local text = end_text(at)
    if not known[text] then list[#list + 1], known[text] = at, true end
  end
  return list
end

--- The parts in which a function is captured; none where it is whole.
local function parts_of(core, h, e, handle_of)
  if not h.parts or h.parts.begins then return {} end
  local file, line = match(h.place, "^(.*):(%d+)$")
  local list = {}
  local function add(begins, of)
    local part = { begins = format("%s:%s", file, begins or "?"), line = begins, native = not of or nil, ends = {},
      traces = {}, aborts = {} }
    list[#list + 1] = part
    if not of then return end
    local told = (of == h or of == h.stands) and e or core._info(of.handle)
    part.calls, part.skips, part.linked, part.captures = told.calls, told.skips, told.linked, told.captures
    part.timed, part.time, part.ends = told.timed, told.time, ends_of(core, of, file)
    part.traces = (of == h or of == h.stands) and e.traces or traces_of(core, of)
    for i = #of.aborts, 1, -1 do part.aborts[#part.aborts + 1] = of.aborts[i] end
  end
  add(tonumber(line), h.stands or h)
  for _, part in ipairs(h.parts:list()) do add(part.line, part.run and handle_of[part.run]) end
  local ends = list[1].ends
  if #list == 1 and (#ends == 0 or #ends == 1 and not ends[1].at) then return {} end
  return list
end

--- What jit.explain gives.
---@param core table
---@param h table the record of the compiled function
---@param handle_of table records by compiled functions
---@return tycho.Explanation
function M.of(core, h, handle_of)
  local of = h.stands or h -- what answers its calls
  local e = core._info(of.handle)
  e.place, e.fast = h.place, h.fast
  e.signature_hits, e.signature_misses = e.hits, e.misses
  e.misses, e.aborts = {}, {}
  for i, m in ipairs(h.misses) do e.misses[i] = m end
  for i, why in ipairs(h.aborts) do e.aborts[i] = why end
  e.traces = traces_of(core, of)
  e.parts = parts_of(core, h, e, handle_of)
  e.most_parts = #e.parts > 0 and h.parts:most() or nil
  return setmetatable(e, explanation)
end

return M
