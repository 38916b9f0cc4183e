--- arguments.lua -- what jit.export and ty.save "model.onnx" are given: example arguments, options, sizes that vary.
-- In: a function or a module, a table of arguments and options. Out: these apart. Wrong ones raise with the caller's
-- name.

local ty = require "tycho"

local type, pairs, next, tostring = type, pairs, next, tostring
local format = string.format
local max = math.max
local getlocal = type(debug) == "table" and debug.getlocal

local M = {}

local MOST = 200 -- arguments

local internals = ty.internals
local fail = internals.error

--- The arguments and the options of a call: the list part of a table, and the rest of it, whose names are known.
function M.read(who, given, known, example)
  if given == nil then given = {} end
  if type(given) ~= "table" or ty.is_tensor(given) then
    fail(format("%s: argument 3 must be a table of example arguments and options, %s", who, example))
  end
  local function is_count(v) return type(v) == "number" and v >= 0 and v <= MOST and v % 1 == 0 end
  if given.n ~= nil and not is_count(given.n) then
    fail(format("%s: n, the number of arguments, must be a whole number up to %d", who, MOST))
  end
  local args, opts = { n = given.n or #given }, {}
  for k, v in pairs(given) do
    if type(k) == "number" then
      if not is_count(k) or k == 0 then
        fail(format("%s: there is no argument [%s]: arguments count from 1 to %d", who, tostring(k), MOST))
      end
      args[k] = v
      args.n = max(args.n, k)
    elseif not known[k] then
      local near = internals.nearest(tostring(k), known)
      fail(format("%s: unknown option %s%s", who, tostring(k), near and ", did you mean " .. near .. "?" or ""))
    else opts[k] = v end
  end
  if opts.weights ~= nil and opts.weights ~= "inside" and opts.weights ~= "beside" then
    fail(format("%s: option weights must be \"inside\" or \"beside\"", who))
  end
  local outputs = opts.outputs
  for k, v in pairs(outputs ~= nil and (type(outputs) == "table" and not ty.is_tensor(outputs) and outputs or { 0 })
    or {}) do
    if type(v) ~= "string" or not is_count(k) then
      fail(format("%s: option outputs must be a list of names, {\"chance\"}", who))
    end
  end
  for i = 1, args.n do
    local v = args[i]
    if ty.is_tensor(v) then
      if not internals.is_live(v) then fail(format("%s: argument %d is a tensor that was released", who, i)) end
      if ty.is_complex(v) then
        fail(format("%s: argument %d is complex, it must be real (take ty.view_as_real of it, and ty.view_as_complex "
          .. "inside)", who, i))
      end
      args[i] = v:detach():contiguous()
    end
  end
  return args, opts
end

--- The function itself and its parameters' names; of a module its `forward`, whose first argument it is then.
--- origin: the function or module that a compiled one was made of.
function M.plain(who, f, args, origin, example)
  local fn, names = origin(f) or f, {}
  if type(f) == "table" and type(f.forward) == "function" then
    for i = args.n, 1, -1 do args[i + 1] = args[i] end
    args[1], args.model, args.n = f, f, args.n + 1
    fn = f.forward
  end
  if type(fn) ~= "function" then
    fail(format("%s: argument 1 must be a function or a module with `forward`, got %s; the call is %s", who,
      ty.is_tensor(f) and "a tensor" or type(f), example))
  end
  for i = 1, args.n do names[i] = getlocal and getlocal(fn, i) or "x" .. i end
  return fn, names
end

--- Where each size stands: a list of names in the order of the arguments; by argument, its dims with their names; by
--- size, what it is in the example.
function M.sizes(who, args, argument_names, given)
  if type(given) ~= "table" then fail(who .. ": option dynamic must be a table such as {x = {1}}") end
  local names, by_argument, examples, left = {}, {}, {}, {}
  for path in pairs(given) do left[path] = true end
  for i = 1, args.n do
    local path, v = argument_names[i], args[i]
    local list = path and given[path]
    if list ~= nil then
      left[path] = nil
      if type(list) ~= "table" then fail(format("%s: option dynamic: %s must be a list of dims", who, path)) end
      if not ty.is_tensor(v) then fail(format("%s: option dynamic: argument %s is no tensor", who, path)) end
      by_argument[i] = {}
      for key, value in pairs(list) do
        local dim = type(value) == "number" and value or key
        if type(dim) ~= "number" or dim % 1 ~= 0 or dim < 1 or dim > v.ndim then
          fail(format("%s: option dynamic: %s has no dim %s", who, path, tostring(dim)))
        end
        by_argument[i][dim] = type(value) == "string" and value or path .. "_" .. dim
      end
    end
  end
  if next(left) ~= nil then
    fail(format("%s: option dynamic: there is no argument %s", who, tostring((next(left)))))
  end
  for i = 1, args.n do
    for dim = 1, by_argument[i] and args[i].ndim or 0 do
      local size = by_argument[i][dim]
      if size and not examples[size] then names[#names + 1] = size end
      if size and examples[size] and examples[size] ~= args[i].shape[dim] then
        fail(format("%s: option dynamic: size %s is %d and %d", who, size, examples[size], args[i].shape[dim]))
      end
      if size then examples[size] = args[i].shape[dim] end
    end
  end
  if #names == 0 or #names > 3 then fail(who .. ": option dynamic: there may be one to three sizes") end
  return names, by_argument, examples
end

--- The arguments of an example with other sizes.
function M.resized(args, by_argument, values)
  local y = {}
  for key, v in pairs(args) do y[key] = v end
  for i, dims in pairs(by_argument) do
    local shape = args[i].shape
    for dim, size in pairs(dims) do shape[dim] = values[size] end
    y[i] = ty.ones(shape, { dtype = args[i].dtype, device = args[i].device }) -- also a place of an index
  end
  return y
end

M.PRIMES = { 11, 13, 17 } -- sizes that are no others of a model, and no multiples of each other

return M
