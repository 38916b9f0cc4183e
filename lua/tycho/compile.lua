--- jit.compile, jit.explain, jit.graph: compiled functions as Lua sees them.
-- The wrapper below must stay two tail calls: the user's function then runs in its place, so that error levels,
-- yields and depth are those of plain Lua.

local M = {}

---@class tycho.Graph one recorded graph: nodes by position, each {op, dtype, shape, src, live}
---@class tycho.Explanation what jit.explain tells; prints well

local known_options = { fast = "boolean" }
local fail -- raises at the user's line

--- Everything about compiled functions that is not needed to call them; gone with them.
local handle_of = setmetatable({}, { __mode = "k" })
local forward_of = setmetatable({}, { __mode = "k" }) -- of compiled modules: what gives their function
--- Compiled by function and options. Both weak: a compiled function holds its function.
local by_function = setmetatable({}, { __mode = "kv" })
local by_function_fast = setmetatable({}, { __mode = "kv" })

local function place(f)
  local info = debug and debug.getinfo(f, "S")
  if not info or info.what == "C" then return "a C function" end
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

local function check_options(opts)
  if opts == nil then return {} end
  if type(opts) ~= "table" then
    fail("compile: argument 2 must be a table of options, got " .. type(opts))
  end
  for k, v in pairs(opts) do
    local want = known_options[k]
    if not want then fail(("compile: unknown option %s (known: fast)"):format(tostring(k))) end
    if type(v) ~= want then
      fail(("compile: option %s must be a %s, got %s"):format(k, want, type(v)))
    end
  end
  return opts
end

--- A module (a table with `forward`) stays a table: fields read and write through, forward among them.
local function compile_module(core, m, opts)
  local compiled, source
  local function forward()
    if source ~= m.forward then
      if type(m.forward) ~= "function" then
        fail("compile: the module's `forward` became a " .. type(m.forward))
      end
      source, compiled = m.forward, M.compile_function(core, m.forward, opts)
    end
    return compiled
  end
  local proxy = setmetatable({}, {
    __call = function(_, ...) return forward()(m, ...) end,
    __index = m,
    __newindex = m,
  })
  forward_of[proxy] = forward
  return proxy
end

function M.compile_function(core, f, opts)
  if handle_of[f] then return f end
  local cache = opts.fast and by_function_fast or by_function
  if cache[f] then return cache[f] end
  local pick, handle = core._entry(f, opts.fast or false)
  local function compiled(...) return pick(...)(...) end
  handle_of[compiled] = { handle = handle, place = place(f), fast = opts.fast }
  cache[f] = compiled
  return compiled
end

local function megabytes(n)
  if n < 1e3 then return ("%d B"):format(n) end
  if n < 1e6 then return ("%.1f KB"):format(n / 1e3) end
  return ("%.1f MB"):format(n / 1e6)
end

local function plural(n, word) return ("%d %s%s"):format(n, word, n == 1 and "" or "s") end

local function indent(text, by) return (by .. text:gsub("\n(.)", "\n" .. by .. "%1")) end

local explanation = {}

function explanation.__tostring(e)
  local out = {}
  local function add(...) out[#out + 1] = (...):format(select(2, ...)) end
  add("compiled function at %s%s", e.place, e.fast and " (fast: bits may differ from eager)" or "")
  add("%s, %d inside other compiled functions; signatures: %s, %s", plural(e.calls, "call"), e.nested,
    plural(e.hits, "hit"), e.misses == 1 and "1 miss" or e.misses .. " misses")
  for _, miss in ipairs(e.differences) do add("miss: %s", miss) end
  for i, t in ipairs(e.traces) do
    add("signature %d: (%s), %s", i, table.concat(t.signature, ", "), plural(t.hits, "hit"))
    if t.rests then add("  runs eagerly for now: there is too little to fuse for recording to pay") end
    for k, g in ipairs(t.graphs) do
      add("  graph %d: %s in %s and %s, run %s; %s moved; fusion saved %s and %s", k,
        plural(g.operations, "operation"), plural(g.kernels, "kernel"),
        plural(g.steps - g.kernels, "other step"), g.runs == 1 and "once" or g.runs .. " times",
        megabytes(g.bytes_moved), plural(g.operations_saved, "operation"),
        megabytes(g.bytes_saved))
      if g.text then add("%s", indent(g.text, "    ")) end
    end
    if t.unseen > 0 then add("  and %s more that are not kept", plural(t.unseen, "cut")) end
  end
  return table.concat(out, "\n")
end

local graph_meta = {}

function graph_meta.__tostring(g) return g.text end

local graphs_meta = {}

function graphs_meta.__tostring(list)
  local out = {}
  for i, g in ipairs(list) do
    out[i] = (#list > 1 and ("-- graph %d\n"):format(i) or "") .. g.text
  end
  return table.concat(out, "\n")
end

--- The functions of this file over the C module.
function M.open(core)
  local api = {}
  fail = core.internals.error

  --- A function that runs f's tensor operations in fused kernels, with the results of f to the bit.
  --- f: a function, or a module (a table with `forward`), which gives a callable table whose fields
  --- read and write through. opts: {fast = true} lets the engine contract and re-associate for this
  --- function: results may then differ from eager in the last bits. Compiling twice gives the same
  --- function. Raises when f is neither.
  ---@param f function|table
  ---@param opts? {fast?: boolean}
  ---@return function|table
  function api.compile(f, opts)
    opts = check_options(opts)
    if type(f) == "function" then return M.compile_function(core, f, opts) end
    if type(f) == "table" then
      if forward_of[f] then return f end
      if type(f.forward) == "function" then return compile_module(core, f, opts) end
    end
    fail(("compile: argument 1 must be a function or a module with `forward`, got %s"):format(
      type(f)))
  end

  local function handle(who, f)
    local h = handle_of[forward_of[f] and forward_of[f]() or f]
    if not h then
      fail(("%s: argument 1 must be a compiled function, got %s"):format(who,
        type(f) == "function" and "a function that is not compiled (use jit.compile)" or type(f)))
    end
    return h
  end

  --- What a compiled function did: a table that prints well. calls, nested, hits, misses, evicted,
  --- differences (of the last misses: the part of the signature that differed), traces[i] =
  --- {signature, hits, rests (runs eagerly for now, since recording does not pay), graphs}, most recent
  --- first; graphs[k] = {operations, operations_saved (that take no step of
  --- their own), kernels, steps, runs, bytes_moved, bytes_saved, text}.
  ---@param f function
  ---@return tycho.Explanation
  function api.explain(f)
    local h = handle("explain", f)
    local e = core._info(h.handle)
    e.place, e.fast = h.place, h.fast
    return setmetatable(e, explanation)
  end

  --- Forgets the signatures and counters of a compiled function.
  ---@param f function
  function api.reset(f) core._reset(handle("reset", f).handle) end

  --- The graph that f(...) records: a table of nodes {op, dtype, shape, src, live} with `text` and
  --- `dot`, printed as text. Where f demands a value there are several graphs, and a list of them is
  --- returned. f runs once; tensors that it writes to are put back, but not what it writes by set() or to
  --- memory whose address was taken.
  ---@param f function
  ---@return tycho.Graph
  function api.graph(f, ...)
    if type(f) == "table" and type(f.forward) == "function" then
      return api.graph(f.forward, f, ...)
    end
    if type(f) ~= "function" then
      fail("graph: argument 1 must be a function, got " .. type(f))
    end
    local list = core._graph(f, ...)
    for _, g in ipairs(list) do setmetatable(g, graph_meta) end
    if #list == 1 then return list[1] end
    return setmetatable(list, graphs_meta)
  end

  return api
end

return M
