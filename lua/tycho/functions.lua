--- functions.lua -- the one table of composites: functions made of rows of the table of operations.
-- In: the core module. Out: every composite as a function of the module and, where its first argument is a tensor, as a
-- method; and the list of rows, from which help, the reference page and the specs are made.
--
-- A row is {name, arguments, function, help, shape, ...}:
--   shape    the result's sizes
--   dtype    the result's dtype where it is not that of the operands
--   formula  what is computed, or where it was published
--   inplace  there is a form with a trailing _ that writes the result through its first argument
--   only     "module": no method, "method": no function of the module
--   single   it is one operation, or reads values: there is nothing to fuse
--   alias    the function that it is another name of, which has the arguments, the text and the checks
-- Rules for a composite: it checks its arguments first, under its own name; it records operations and reads no values,
-- but where its result is not a tensor; plain numbers stay operands, so that another value needs no other kernel; f16
-- and bf16 go through f32 where more than one operation rounds.

---@class tycho.Tensor

---@class tycho.Composite
---@field name string
---@field args string
---@field fn function
---@field help string
---@field shape string
---@field dtype? string
---@field formula? string
---@field inplace? boolean
---@field only? "module"|"method"
---@field alias? string

---@param ty table the core module
---@return tycho.Composite[]
local assert, ipairs = assert, ipairs
return function(ty)
  local composite = ty.internals.composite
  local eager, try, run, take = composite.eager, composite.try, composite.run, composite.take
  local check = require("tycho.arguments")(ty)
  local methods, describe = ty.internals.methods, ty.internals.describe
  local mode, tracked = ty.internals.grad.mode, ty.internals.vmap.tracked
  local rows = {}
  local written = setmetatable({}, { __mode = "k" }) -- what is called -> the function that does the work
  ty.internals.written = written

  --- fn, of at most six arguments and one or two results, as one plan where that pays. Not of `...`: the frame of such
  --- a function would hide that its caller records.
  local function as_one(fn)
    local function wrapper(x, a, b, c, d, e)
      if not eager() then return fn(x, a, b, c, d, e) end
      local done, y, z = try(fn, x, a, b, c, d, e)
      if done == 1 then return y end
      if done == 2 then return y, z end
      if done then return run(fn, x, a, b, c, d, e) end
      return fn(x, a, b, c, d, e)
    end
    written[wrapper] = fn
    return wrapper
  end

  local function install(name, fn, row, help)
    if row.only ~= "method" then ty[name] = fn end
    if row.only ~= "module" then methods[name] = fn end
    describe(name, row.args, help)
  end

  local function same_shape(a, b)
    local p, q = a.shape, b.shape
    if #p ~= #q then return false end
    for i = 1, #p do
      if p[i] ~= q[i] then return false end
    end
    return true
  end

  --- The form that writes through its first argument what fn gives. What gradients of fn read of it is kept in a copy.
  local function in_place(row, fn)
    local name = row.name .. "_"
    return function(x, ...)
      check.tensor(name, 1, x)
      local y = check.named(name, row.name, fn, mode() and tracked(x) and x:clone() or x, ...)
      if not same_shape(x, y) then
        check.fail(name, "the result %s does not fit into %s", check.text(y), check.text(x))
      end
      return check.named(name, "copy_", eager() and take or methods.copy_, x, y)
    end
  end

  --- Adds a row: row{name, args, fn, help, shape = ...}.
  local function row(r)
    r.name, r.args, r.fn, r.help = r[1], r[2], r[3], r[4]
    assert(not ty[r.name] or r.only == "method", r.name)
    rows[#rows + 1] = r
    local fn = r.single and r.fn or as_one(r.fn)
    install(r.name, fn, r, r.help)
    if r.inplace then
      local writes = as_one(in_place(r, fn))
      written[writes] = r.fn
      install(r.name .. "_", writes, r, r.help .. "; written to the first argument")
    end
  end

  --- Adds another name of a function, under which it raises. only: "module", "method"; inplace: of `of`_, too.
  local function alias(name, of, only, inplace)
    local fn = ty[of] or methods[of]
    local call = assert(ty.internals.help[of], of):match "%(([^\n]*)%)\n"
    only = only or not ty[of] and "method" or not methods[of] and "module" or nil
    row { name, call, function(...) return check.named(name, of, fn, ...) end,
      "the same as " .. of .. ": " .. ty.internals.help[of]:match "\n  ([^\n]*)$", shape = "as " .. of, only = only,
      single = true, inplace = inplace, alias = of }
  end

  local complex = require("tycho.complex")(ty, check, as_one)

  for _, group in ipairs { "maths", "reductions", "products", "neural", "activations", "losses", "ctc",
    "convolution", "pooling", "blocks", "resample", "attention", "arrangement", "dims_in_place", "special", "dtypes",
    "complex_rows", "places", "statistics", "draws", "fourier" } do
    require("tycho." .. group)(ty, check, row, complex, as_one)
  end
  require("tycho.aliases")(alias)
  return rows
end
