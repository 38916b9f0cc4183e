--- export.lua -- jit.export: a function as one C file, which needs no library and gives Tycho's bits.
-- In: a function, example arguments, options. Out: model.c, model.h, perhaps a file of weights. A function that no
-- plan can hold, or whose plan has what cannot be written, raises and says what; nothing is written then. Files that
-- cannot be written give nil and a message.
--
-- The call is captured as jit.compile captures it (capture/init.lua), but no trace is installed: the core gives the
-- plan as tables (lua_export.c). Each step becomes a C function, and `model_run` calls them in order. Where:
--   export/model.lua      a plan on its way: parameters, memory, steps
--   export/dynamic.lua    one plan for any sizes; sizes.lua: numbers that follow from them
--   export/program.lua    loop programs: primitives.lua; rows.lua, abreast.lua, scans.lua, columns.lua
--   export/product.lua    matrix products
--   export/routines.lua   scatters, attention, copies; orders.lua: sorts, searches; fourier.lua
--   export/prelude.lua    what these stand on: primitives without libm; sums.lua: orders of summation
--   export/text.lua       the files
--
-- What is frozen: all that the function reads from outside, modules among the arguments, and arguments that are
-- neither tensors nor numbers. Tensors among the arguments, and in tables among them, are inputs; numbers are doubles.

local ty = require "tycho"
local arguments = require "tycho.export.arguments"
local dynamic = require "tycho.export.dynamic"
local files = require "tycho.export.text"
local models = require "tycho.export.model"

local type, pairs, ipairs, unpack = type, pairs, ipairs, unpack
local pcall, error, select, setmetatable, getmetatable = pcall, error, select, setmetatable, getmetatable
local format, gsub, match, find, lower = string.format, string.gsub, string.match, string.find, string.lower
local max = math.max

local M = {}

local internals = ty.internals
local fail = internals.error
local refuse, depends, c_name = models.refuse, models.depends, models.c_name

--- Whether an argument is a model, whose tensors are weights.
local function is_frozen(v, args) return type(v) == "table" and (v == args.model or ty.nn.is_module(v)) end

-- Capture -------------------------------------------------------------------------------------------------------------

--- Which arguments a function's slots are read from: by slot, the argument's number.
local function roots_of(core, d)
  local rows, root, k = core.internals.capture.guards, {}, d.narg + 1
  for i = 1, d.narg do root[i] = i end
  for _, instr in ipairs(d.program) do
    local row = rows[instr[1]]
    if row and row.kind == "read" then
      k = k + 1
      if row.operands[1] == "slot" then root[k] = root[instr[2]] end
    end
  end
  return root
end

--- Raises where the graph depends on what an argument is, beyond its type.
local function check_guards(w, d, root)
  local seen = {}
  for at, g in ipairs(d.program) do
    local kind, where = g[1], d.lines[at] and " (" .. d.lines[at] .. ")" or ""
    if kind == "lt" or kind == "le" or kind == "eq" then
      if depends(w.numbers, g[2], root, seen) or depends(w.numbers, g[3], root, seen) then
        refuse(format("the function is decided by a number among its arguments%s: `%s`", where, d.about[at] or kind))
      end
    elseif kind == "equal" and type(g[3]) == "number" and root[g[2]] and g[2] <= d.narg then
      refuse(format("the function needs the value of its argument %s when it is captured%s: give it by a variable "
        .. "outside, or as a tensor", d.paths[g[2]] or g[2], where))
    end
  end
  if #d.effects > 0 then
    local e = d.effects[1]
    refuse(format("the function writes %s", e.path or d.paths[e[2]] or "to what is outside of it"))
  end
end

--- Captures f(...) and gives its world, description and plan, and by slot which argument it was read from.
local function captured(core, f, args)
  local capture = internals.load "tycho.capture"
  local _, handle = core._entry(f, false)
  local y, raised
  local function dry(w, d)
    local ok, err = pcall(function()
      local root, given = {}, {}
      for slot, of in pairs(roots_of(core, d)) do
        root[slot] = not is_frozen(args[of], args) and of or nil
        given[slot] = root[slot] ~= nil
      end
      check_guards(w, d, root)
      local p, why = w.C.plan(d.tensors, given)
      if not p then refuse(why) end
      y = { w = w, d = d, p = p, root = root }
    end)
    if not ok then raised = err end
    return true
  end
  local ok, why = ty.no_grad(function()
    return capture.dry(core, handle, {}, dry, f, unpack(args, 1, args.n))
  end)
  if raised then return error(raised, 0) end
  if not ok then
    local where = why.file and format(" (%s%s)", why.file, why.line and ":" .. why.line or "") or ""
    refuse(format("the function cannot be captured whole: %s%s", why.reason, where))
  end
  return y
end

-- Sizes ---------------------------------------------------------------------------------------------------------------

local MOST = 1024 -- of a size, unless the option says another

--- A model for any sizes. First by sizes that have nothing in common with others; where the function does not take
--- these, by multiples of the example's, and then it takes multiples alone.
local function build_for_sizes(core, model, fn, given, most)
  local names, by_argument, examples = arguments.sizes("export", model.args, model.names, given)
  for _, size in ipairs(names) do
    if not find(size, "^%a[%w_]*$") then fail(format("export: option dynamic: %q is no name for C", size)) end
  end
  local free, small, own, one = {}, {}, {}, {}
  --- A plan out of multiples of some sizes; `planned`: others that must have the same plan; `least`: such that must
  --- have the same graph, as must the largest.
  local function attempt(bases, planned, least)
    local list, points = dynamic.samples(names, bases)
    list[#list + 1] = planned
    local plans, inner, samples = #list, {}, {}
    list[#list + 1] = least
    for k, size in ipairs(names) do
      inner[k] = "dim_" .. size
      local edge = {}
      for name, v in pairs(bases) do edge[name] = name == size and most - most % v or v end
      list[#list + 1] = edge
    end
    for i, values in ipairs(list) do
      local of = captured(core, fn, arguments.resized(model.args, by_argument, values))
      of.p.results, of.p.tables = of.d.results, of.d.tables
      for _, slot in ipairs(of.p.slots or {}) do
        if slot.kind == "temp" then slot.k = nil end -- in which output it would lie: here in none
      end
      samples[i] = { plan = of.p, sizes = {}, of = of, small = i > plans }
      for k, size in ipairs(names) do samples[i].sizes[inner[k]] = values[size] end
    end
    return samples[1].of, dynamic.unify(samples, inner, points, refuse)
  end
  for k, size in ipairs(names) do
    free[size], small[size], own[size], one[size] = arguments.PRIMES[k], k + 1, max(examples[size], 2), 1
  end
  local least, ok, of, p = 1, pcall(attempt, free, one, small)
  if not ok then least, ok, of, p = 2, pcall(attempt, free, nil, small) end
  local multiples = not ok
  if multiples then of, p = attempt(own) end
  model.sizes = {}
  for i, size in ipairs(names) do
    local c = c_name(size, model.taken)
    if c ~= size then fail(format("export: option dynamic: %s cannot be a name in C", size)) end
    local unit = multiples and own[size] or 1
    model.sizes[i] = { name = size, least = multiples and unit or least, multiple = unit, most = most - most % unit }
    model.size_arguments = model.size_arguments .. ", dim_" .. size
  end
  if least == 2 and ok and #names == 1 then
    local done, alone = pcall(captured, core, fn, arguments.resized(model.args, by_argument, one))
    if done then
      model.one = setmetatable({ used = model.used, weight_list = model.weight_list, weight_of = model.weight_of,
        weight_names = model.weight_names, functions = model.functions, prefix = "single_",
        taken = { [names[1]] = true },
        run = {}, dynamic = {}, size_arguments = "", name = model.name, upper = model.upper, args = model.args,
        names = model.names, output_names = model.output_names, weights_beside = model.weights_beside,
        scalar_prefix = "" }, getmetatable(model))
      model.one:build(alone, alone.p)
      model.sizes[1].least = 1
    end
  end
  for i, dims in pairs(by_argument) do model.dynamic[i] = dims end
  model:build(of, p)
end

local known = { weights = true, dynamic = true, most = true, name = true, outputs = true, n = true }

--- Writes f(...) as C.
---@param core table
---@param origin fun(f): any the function or module that a compiled one was made of
function M.export(core, origin, f, path, given, ...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if v ~= nil then
      fail(format("export: there is no argument %d (%s): example arguments and options stand together in argument 3, "
        .. "{x, 0.5, weights = \"beside\"}", i + 3, ty.is_tensor(v) and "a tensor" or "a " .. type(v)))
    end
  end
  local args, opts = arguments.read("export", given, known, "{x, 0.5, weights = \"beside\"}")
  if opts.most ~= nil and not (type(opts.most) == "number" and opts.most >= 128 and opts.most < 2 ^ 31
    and opts.most % 1 == 0) then
    fail "export: option most must be a whole number from 128 on"
  end
  local fn, names = arguments.plain("export", f, args, origin, "jit.export(model, \"model.c\", {example arguments})")
  if type(path) ~= "string" or not find(path, "%.c$") then
    fail("export: argument 2 must be the path of a C file, \"model.c\"")
  end
  local name = opts.name or lower(gsub(match(path, "([^/\\]*)%.c$"), "[^%w]+", "_"))
  if type(name) ~= "string" or not find(name, "^%a[%w_]*$") then
    fail(format("export: option name must be a name for C, got %s", tostring(name)))
  end
  local model = models.new(name, args, names, opts)
  if opts.dynamic then build_for_sizes(core, model, fn, opts.dynamic, opts.most or MOST)
  else
    local of = captured(core, fn, args)
    model:build(of, of.p)
  end
  return files.write(model, path, core)
end

return M
