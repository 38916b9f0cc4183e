--- profile.lua -- `ty.profile`: where the time of a function goes.
-- In: a function, the path of a file. Out: a table of the hottest kernels beside what the machine can do; a trace for
-- chrome://tracing or ui.perfetto.dev. An error in the function is passed on, after the trace was written; a file that
-- cannot be written gives nil and why.
--
-- The engine notes spans of time (core/profile.c): runs of plans, their steps, eager maps and products, each thread's
-- chunks, plans that are made. Here they get names and numbers, from the text of their plan: the operations that a
-- kernel computes; bytes, every element of an operand that it touches once; floating-point operations, those of the
-- loop program.

local ty = require "tycho"

local check = require("tycho.arguments")(ty)
local fail, show = check.fail, check.show
local internals = ty.internals
local plan_text = require "tycho.plan_text"

local RUN, STEP, MAP, PRODUCT, CHUNK, MAKE = 0, 1, 2, 3, 4, 5 -- EventKind of core/profile.h
local GRAPH, LIBRARY, IN, OUT, WITHIN = 1, 2, 3, 4, 5 -- SpanKind of device/cuda/cuda.h
local SPAN_FIELDS = 11
local FIELDS = 8
local DTYPES = {} -- by number
for i, d in ipairs(internals.probe.dtypes()) do DTYPES[i - 1], DTYPES[d.name] = d, d end

---------------------------------------------------------------------------------------------------------- the machine

local limits

--- The best of some tries, seconds.
local function best_of(tries, fn)
  local best = math.huge
  for _ = 1, tries do
    local start = internals.clock()
    fn()
    best = math.min(best, internals.clock() - start)
  end
  return best
end

--- What memory and arithmetic can do here, measured once: bytes and floating-point operations (f32) a second. A kernel
--- whose operands lie in caches may do more than memory.
---@return {bandwidth: number, flops: number}
local function machine()
  if limits then return limits end
  limits = ty.no_grad(function()
    return ty.scope(function()
      local n, m = 2 ^ 24, 512 -- 64 MB: more than caches hold; a product that fits in them
      local x, a = ty.ones(n), ty.ones(m, m)
      local y = ty.zeros(n)
      local copied = best_of(6, function() y:copy_(x) end)
      local multiplied = best_of(24, function() a:matmul(a):get(1, 1) end)
      return { bandwidth = 8 * n / copied, flops = 2 * m ^ 3 / multiplied }
    end)
  end)
  return limits
end

--------------------------------------------------------------------------------------------------------- what plans say

-- Instructions that give floats without computing any; the others count as one operation, fma as two.
local MOVES = {}
for name in ("load gload store lut const scalar sel cvt bits narrow"):gmatch "%S+" do MOVES[name] = true end

--- Operations an element and a row, bytes an element of flat operands, and bytes gathered an element.
local function count_program(text)
  local y = { element = 0, row = 0, bytes = 0, gathered = 0 }
  local sizes = {}
  for line in text:gmatch "[^\n]+" do
    local operand, dtype = line:match "^@(%d+) (%w+)"
    local op, kind, level, rest = line:match "^%%%d+ (%w+) (%w+) (%w+)(.*)"
    if operand then
      sizes[operand] = DTYPES[dtype].bytes
      y.bytes = y.bytes + sizes[operand]
    elseif op == "gload" then
      y.gathered = y.gathered + (sizes[rest:match "@(%d+)"] or 0)
    elseif op and not MOVES[op] and (kind == "f32" or kind == "f64") then
      local reduces = op:match "^r" and op ~= "rint" -- gives a row, but looks at each element
      local at = level == "row" and not reduces and "row" or "element"
      y[at] = y[at] + (op == "fma" and 2 or 1)
    end
  end
  return y
end

--- Repeated operations once, with how often.
local function ops_text(ops)
  local parts, last, n = {}, nil, 0
  local function close()
    if last then parts[#parts + 1] = n > 1 and ("%s x%d"):format(last, n) or last end
  end
  for _, op in ipairs(ops) do
    if op == last then n = n + 1
    else
      close()
      last, n = op, 1
    end
  end
  close()
  if #parts > 6 then parts = { parts[1], parts[2], parts[3], "..", parts[#parts - 1], parts[#parts] } end
  return table.concat(parts, " ")
end

--- Fills in a step: name, flops, bytes; count: what its program says of an element.
local function describe(step, group)
  step.name = step.op
  step.flops = 0
  if step.m then step.flops = 2 * step.m * step.n * step.k * step.batch end
  if group and #group.ops > 0 then step.name = ops_text(group.ops) end
  if group and group.program then
    group.count = group.count or count_program(group.program)
    local c = group.count
    step.count = c
    step.flops = step.flops + c.element * (step.elements or 0) + c.row * (step.rows or 0)
    step.bytes = step.bytes + c.gathered * (step.elements or 0)
  end
  if step.m then
    local times = step.batch > 1 and ("%g of "):format(step.batch) or ""
    step.name = ("%s [%s%g x %g x %g %s]"):format(step.name, times, step.m, step.k, step.n, step.dtype)
  end
end

local function describe_plans(plans)
  for _, plan in ipairs(plans) do
    plan.groups, plan.nodes = {}, {}
    if plan.text then plan.groups, plan.nodes = plan_text.groups(plan.text) end
    for _, step in ipairs(plan) do describe(step, plan.groups[step.node]) end
    plan.name = plan.operations == 1 and plan[1] and plan[1].name or ("plan: %d operations"):format(plan.operations)
  end
end

---------------------------------------------------------------------------------------------------------- events

--- {name, kind, thread, begin, stop, bytes?, flops?} of the engine's numbers.
local function read_events(raw, plans)
  local list = {}
  for i = 1, #raw, FIELDS do
    local kind, n = raw[i], raw[i + 6]
    local e = { thread = raw[i + 1], begin = raw[i + 2], stop = raw[i + 3] }
    local plan = plans[raw[i + 4]]
    local step = plan and plan[raw[i + 5]]
    if kind == STEP and step then
      e.name, e.kind, e.bytes, e.flops, e.elements = step.name, step.kind, step.bytes, step.flops, step.elements
      e.plan, e.step, e.sites = plan, step, raw[i + 7]
    elseif kind == MAP and step then
      e.name, e.kind, e.elements = step.name, "kernel", n
      if step.count then e.bytes, e.flops = n * step.count.bytes, n * step.count.element end
      e.site = raw[i + 7]
    elseif kind == PRODUCT then
      local m, c, k = n % 2 ^ 20, math.floor(n / 2 ^ 20) % 2 ^ 20, math.floor(n / 2 ^ 40)
      local dtype = DTYPES[raw[i + 5] - 1]
      e.name, e.kind = ("matmul [%d x %d x %d %s]"):format(m, k, c, dtype.name), "product"
      e.bytes, e.flops, e.site = (m * k + k * c + m * c) * dtype.bytes, 2 * m * k * c, raw[i + 7]
    elseif kind == RUN then
      e.name, e.kind = plan and plan.name or "plan", "run"
    elseif kind == MAKE then
      e.name, e.kind = plan and "make " .. plan.name or "make plan", "make"
    elseif kind == CHUNK then
      e.name, e.kind, e.elements = "chunk", "chunk", n
    end
    if e.name then list[#list + 1] = e end
  end
  return list
end

local COPIES = { [IN] = "copy from the cpu", [OUT] = "copy to the cpu", [WITHIN] = "copy" }

--- Where a step's operations stand, most of what they cost: "model.lua:12"; nil where that is unknown.
local function line_of(plan, step, sites)
  local best
  for _, s in ipairs(plan_text.shares(plan.groups, plan.nodes, step.node, sites or {})) do
    if s.site and not (best and best.share >= s.share) then best = s end
  end
  return best and best.site
end

--- Spans of devices as events: named by their operation and line.
local function read_spans(raw, plans, sites)
  local list = {}
  for i = 1, #raw, SPAN_FIELDS do
    local kind, of, n = raw[i + 2], raw[i + 5], raw[i + 10]
    local plan = plans[raw[i + 6]]
    local step = plan and plan[raw[i + 7]]
    local e = { thread = raw[i], device = raw[i + 1], begin = raw[i + 3], stop = raw[i + 4] }
    local name = step and step.name or of == PRODUCT and "matmul" or "kernel"
    if COPIES[kind] then
      e.name, e.kind, e.bytes = COPIES[kind], "copy", n
    elseif kind == GRAPH then
      e.name, e.kind, e.kernels = ("graph of %d kernels: %s"):format(n, plan and plan.name or "?"), "graph", n
    else
      e.name, e.kind = name, kind == LIBRARY and "library" or raw[i + 9] == 1 and "interpreted" or "kernel"
      if of == STEP and step then e.line = line_of(plan, step, sites[raw[i + 8]])
      elseif of == MAP or of == PRODUCT then e.line = internals.profile_site(raw[i + 8]) end
      if e.line then
        e.line = e.line:gsub("^<", "")
        e.name = ("%s (%s)"):format(name, (e.line:gsub("^.*[/\\]", "")))
      end
    end
    list[#list + 1] = e
  end
  return list
end

local WORK = { kernel = true, product = true, host = true, copy = true }

--- By begin; what holds others comes before them.
local function in_order(a, b)
  if a.begin ~= b.begin then return a.begin < b.begin end
  return a.stop > b.stop
end

--- Chunks are called as the step in whose time they were run.
local function name_chunks(list)
  table.sort(list, in_order)
  local step
  for _, e in ipairs(list) do
    if WORK[e.kind] then step = e
    elseif e.kind == "chunk" and step and e.begin < step.stop then e.name = step.name end
  end
end

local ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function json_string(s)
  return '"' .. s:gsub('[%c"\\]', function(c) return ESCAPES[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

--- The trace as JSON; microseconds from the first event on.
local function trace_text(list)
  local out, threads, devices = {}, {}, {}
  local zero = list[1] and list[1].begin or 0
  for _, e in ipairs(list) do
    if e.device then devices[e.device] = true else threads[e.thread] = true end
    local args = {}
    for _, key in ipairs { "bytes", "flops", "elements", "kernels" } do
      if e[key] then args[#args + 1] = ('"%s":%.0f'):format(key, e[key]) end
    end
    if e.line then args[#args + 1] = '"line":' .. json_string(e.line) end
    out[#out + 1] = ('{"name":%s,"cat":%s,"ph":"X","pid":%d,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{%s}}'):format(
      json_string(e.name), json_string(e.kind), e.device and e.device + 2 or 1, e.thread, (e.begin - zero) * 1e6,
      (e.stop - e.begin) * 1e6, table.concat(args, ","))
  end
  for device in pairs(devices) do
    out[#out + 1] = ('{"name":"process_name","ph":"M","pid":%d,"tid":0,"args":{"name":"cuda:%d"}}'):format(device + 2,
      device)
    for thread, name in pairs { [0] = "computes", "copies from the CPU" } do
      out[#out + 1] = ('{"name":"thread_name","ph":"M","pid":%d,"tid":%d,"args":{"name":"%s"}}'):format(device + 2,
        thread, name)
    end
  end
  for thread in pairs(threads) do
    out[#out + 1] = ('{"name":"thread_name","ph":"M","pid":1,"tid":%d,"args":{"name":"%s"}}'):format(thread,
      thread == list.main and "Lua" or "worker " .. thread)
  end
  return '{"displayTimeUnit":"ms","traceEvents":[\n' .. table.concat(out, ",\n") .. "\n]}\n"
end

---------------------------------------------------------------------------------------------------------- the table

---@class tycho.Profile
---@field seconds number from the begin to the end of the function
---@field busy number of them, in kernels
---@field kernels table[] {name, kind, calls, seconds, bytes, flops} hottest first
---@field machine? {bandwidth: number, flops: number} of the CPU; nil of devices
---@field lost integer events that had no room
local Profile = {}
Profile.__index = Profile

--- Rows of the work, and how long it took in all. Of devices' spans all is work; the machine's limits are not theirs.
local function summarize(list, spans)
  local rows, by_name, busy = {}, {}, 0
  for _, e in ipairs(spans or list) do
    if spans or WORK[e.kind] then
      local key = e.kind .. "\0" .. e.name
      local row = by_name[key]
      if not row then
        row = { name = e.name, kind = e.kind, calls = 0, seconds = 0, bytes = 0, flops = 0 }
        by_name[key] = row
        rows[#rows + 1] = row
      end
      row.calls, row.seconds = row.calls + 1, row.seconds + e.stop - e.begin
      row.bytes, row.flops = row.bytes + (e.bytes or 0), row.flops + (e.flops or 0)
      busy = busy + e.stop - e.begin
    end
  end
  local m = spans and { flops = 0 } or machine()
  for _, row in ipairs(rows) do m.flops = math.max(m.flops, row.flops / row.seconds) end -- it can do what it did
  table.sort(rows, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return a.name < b.name
  end)
  return rows, busy
end

local function time_text(s)
  if s < 1e-3 then return ("%.1f us"):format(s * 1e6) end
  if s < 1 then return ("%.2f ms"):format(s * 1e3) end
  return ("%.2f s"):format(s)
end

local SHOWN = 16

function Profile:__tostring()
  local m = self.machine
  local out = {}
  local function add(...) out[#out + 1] = ((...):format(select(2, ...)):gsub("%s+$", "")) end
  add("%s, of them %.0f %% in %s", time_text(self.seconds), 100 * self.busy / math.max(self.seconds, 1e-12),
    m and ("kernels; this machine: %.1f GB/s, %.0f GFLOP/s (f32)"):format(m.bandwidth / 1e9, m.flops / 1e9)
    or "kernels and copies of devices")
  if self.lost > 0 then add("%d events had no room: the oldest are missing", self.lost) end
  add("%-44s %7s %10s %10s %6s %13s %15s", "kernel", "calls", "time", "each", "share", "GB/s  (limit)",
    "GFLOP/s (limit)")
  for i = 1, math.min(#self.kernels, SHOWN) do
    local r = self.kernels[i]
    local bytes, flops = r.bytes / r.seconds, r.flops / r.seconds
    local function beside(v, limit)
      local share = m and ("%3.0f %%"):format(100 * v / m[limit]) or ""
      return v > 0 and ("%.1f %s"):format(v / 1e9, share) or "-    "
    end
    add("%-44s %7d %10s %10s %4.0f %% %13s %15s", #r.name > 44 and r.name:sub(1, 42) .. ".." or r.name,
      r.calls, time_text(r.seconds), time_text(r.seconds / r.calls), 100 * r.seconds / math.max(self.busy, 1e-12),
      beside(bytes, "bandwidth"), beside(flops, "flops"))
  end
  if #self.kernels > SHOWN then add("and %d more", #self.kernels - SHOWN) end
  return table.concat(out, "\n")
end

-------------------------------------------------------------------------------------------------------- what users call

local function pack(...) return { n = select("#", ...), ... } end

--- Spans that Lua code of the library tells: a function that begins one and gives the function that ends it. Nil once
--- an error has ended the profile.
local function listen(list)
  return function(name)
    if not internals.profile_runs() then
      internals.span = nil
      return nil
    end
    local e = { name = name, kind = "capture", thread = 0, begin = internals.clock() }
    list[#list + 1] = e
    return function() e.stop = internals.clock() end
  end
end

--- Stops, names and writes everything.
local function finish(spans, begin, path, by_line, devices)
  local stop = internals.clock()
  internals.span = nil
  local noted, missed = {}, 0
  if devices then noted, missed = devices.spans_stop() end
  local raw, plans, lost, sites = internals.profile_stop()
  describe_plans(plans)
  local list = read_events(raw, plans)
  -- the thread of this Lua is the one that ran plans
  local main = 0
  for _, e in ipairs(list) do
    if e.kind ~= "chunk" then main = e.thread end
  end
  for _, e in ipairs(spans) do
    e.thread, e.stop = main, e.stop or stop
    list[#list + 1] = e
  end
  list[#list + 1] = { name = "profile", kind = "function", thread = main, begin = begin, stop = stop }
  list.main = main
  name_chunks(list)
  local on_devices = devices and read_spans(noted, plans, sites)
  local rows, busy = summarize(list, on_devices)
  local y = { seconds = stop - begin, busy = busy, kernels = rows, machine = not devices and machine() or nil,
    lost = lost + missed }
  for _, e in ipairs(on_devices or {}) do list[#list + 1] = e end
  if devices then table.sort(list, in_order) end
  if path then
    local ok, why = internals.load("tycho.files")._native.write(path, { trace_text(list) })
    if not ok then return nil, why end
  end
  if by_line then return internals.load("tycho.profile_lines").of(y, list, sites) end
  return setmetatable(y, Profile)
end

local function run(who, by_line, fn, path, devices)
  if type(fn) ~= "function" then fail(who, "argument 1 must be a function, got %s", show(fn)) end
  if path ~= nil and type(path) ~= "string" then fail(who, "argument 2 must be a path, got %s", show(path)) end
  if not devices then machine() end
  local mode, why = internals.profile_start(by_line or devices ~= nil)
  if not mode then fail(who, "%s", why) end
  if devices then devices.spans_start() end
  local spans = {}
  internals.span = listen(spans)
  local begin = internals.clock()
  local results = pack(pcall(fn))
  local y, problem = finish(spans, begin, path, by_line, devices)
  internals.modes.leave(mode)
  if not results[1] then error(results[2], 0) end
  if not y then return nil, problem end
  return y, unpack(results, 2, results.n)
end

--- The same as below, by line: what each line of the user's cost in kernels, of eager operations and of compiled
--- functions. A kernel that holds operations of several lines is shared among them, by what each costs, roughly.
---@param fn function
---@param path? string
---@return tycho.LineProfile?, ...
function internals.profile_lines(fn, path) return run("profile", true, fn, path) end

--- The same of devices (cuda.lua), whose spans `devices` notes.
---@param devices table {spans_start =, spans_stop =}
---@param fn function
---@param path? string
---@return tycho.Profile?, ...
function internals.profile_devices(devices, fn, path) return run("cuda.profile", false, fn, path, devices) end

--- Runs fn() and tells where its time went: a table that prints well, then fn's results. path: a trace is written
--- there, which chrome://tracing and ui.perfetto.dev show. The machine's limits are measured the first time, which
--- takes about a tenth of a second.
--- Raises where fn is no function, and what fn raises.
---@param fn function
---@param path? string
---@return tycho.Profile?, ...
return function(fn, path) return run("profile", false, fn, path) end
