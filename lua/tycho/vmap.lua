--- vmap.lua -- functions of one example made functions of many: ty.vmap; Jacobians and Hessians by it.
-- In: a function of tensors, which dims of its arguments are those of examples. Out: a function that computes it for
-- all examples at once. Raises where sizes differ, a dim is out of range, or the function needs to know values.
--
-- The function runs once. What it gets are batched tensors (vmap.h): they look like those of one example, and every
-- operation on them works on all examples, whoever calls it: layers, gradients, writes in place, another vmap.
-- 1. The results are those of a loop over the examples, stacked. They have the same bits too, since the order of a sum
--    depends on the summed dims alone; all of ty.linalg works matrix by matrix. Only random numbers are others, what
--    settings let go to other kernels (ty.blas, ty.precision), and the gradient of attention for each example, which is
--    made of products and maps (grad_attend.c): equal but for rounding. So are gradients that are added up where a
--    result of convolutions is seen by several views: there it is contiguous, and flatten does not copy it.
-- 2. Every example is contiguous. Arguments are seen in place where they lie so, else in a copy; what the function
--    writes to them is copied back, as a loop over slices would do. Where another argument shares that memory so that
--    a loop would see other values, the write is refused; what is nested in arguments without a dim is not looked at.
-- 3. Results share no memory with what was there before.
-- 4. A gradient inside of the function is for each example. A gradient outside goes through the operations on all
--    examples. A function with a rule of its own (custom_grad, ty.linalg) has both: `taped` below.

local type, select, unpack, pcall, pairs, ipairs = type, select, unpack, pcall, pairs, ipairs
local max = math.max

local tree = require "tycho.tree"

---@param ty table the core module
---@param define fun(name: string, where: string, args: string, text: string, fn: function)
---@param own table of grad.lua
---@return function[] inline what captures evaluate
return function(ty, define, own)
  local check = require("tycho.arguments")(ty)
  local fail, show, text = check.fail, check.show, check.text
  local V, is_live, is_tensor = ty.internals.vmap, ty.internals.is_live, ty.is_tensor
  local pack = own.pack
  local map, dims_at, recall, remember = tree.map, tree.said, tree.recall, tree.remember
  local randomness = { error = true, different = true, same = true }

  --------------------------------------------------------------------------------------------------------------- dims

  local function is_dim(v) return type(v) == "number" and v % 1 == 0 and v ~= 0 end

  local function check_dims(i, name, dims)
    if dims == nil or dims == false or is_dim(dims) then return end
    if type(dims) ~= "table" or is_tensor(dims) then
      fail("vmap", "argument %d (%s) must be a dim, false, or a table of them, got %s", i, name, show(dims))
    end
    for _, d in pairs(dims) do check_dims(i, name, d) end
  end

  --- The dim from 1 on, of rank dims; x: whose they are.
  local function place(x, dim, rank, name)
    if dim > rank or -dim > rank then
      fail("vmap", "%s: dim %d of %s is out of range (%d dims)", name, dim, text(x), rank)
    end
    return dim < 0 and rank + 1 + dim or dim
  end

  ---------------------------------------------------------------------------------------------------------- the way in

  --- Finds how many examples there are: in found.count.
  local function measure(v, dims, found, seen)
    if not dims then return end
    if is_live(v) then
      if type(dims) == "table" then fail("vmap", "in_dims has a table for %s", show(v)) end
      local size = v:size(place(v, dims, v.ndim, "in_dims"))
      if not found.count then
        found.count, found.by, found.dim = size, v, dims
      elseif found.count ~= size then
        fail("vmap", "sizes differ: %d along dim %d of %s, %d along dim %d of %s", found.count, found.dim,
          text(found.by), size, dims, text(v))
      end
    elseif type(v) == "table" and not recall(seen, v) then
      remember(seen, v, true)
      for k, field in pairs(v) do measure(field, dims_at(dims, k), found, seen) end
    end
  end

  --- v with batched tensors; given: what was met, {x, y that stands for it, dim, copied} where it is batched, else
  --- {x, y = x, version}. Where a tensor is given twice, writes to the one are seen in the other.
  local function enter(v, dims, id, given)
    return map(v, function(x, at)
      if not at then
        if is_live(x) then given[#given + 1] = { x = x, y = x, version = select(2, V.written(x)) } end
        return x
      end
      if not is_tensor(x) then return nil end
      local dim = place(x, at, x.ndim, "in_dims")
      local of = recall(given.of, x) or {}
      if of[dim] then return of[dim]:unsqueeze(1):squeeze(1) end
      local y, copied = V.wrap(x, dim, id)
      if copied then
        of[dim] = y
        remember(given.of, x, of)
      end
      given[#given + 1] = { x = x, y = y, dim = dim, copied = copied }
      return y
    end, {}, dims)
  end

  --- Whether no example of the one shares an element with another example of the other.
  local function is_aligned(a, b, count)
    if a.copied or b.copied or not (a.dim and b.dim) then return false end
    if a.x:stride(a.dim) ~= b.x:stride(b.dim) then return false end
    if count < 2 then return true end
    return not V.overlap(a.x:narrow(a.dim, 1, 1), b.x:narrow(b.dim, 2, count - 1))
      and not V.overlap(b.x:narrow(b.dim, 1, 1), a.x:narrow(a.dim, 2, count - 1))
  end

  --- Finds what the function wrote to. Raises where other arguments share its memory so that a loop over the examples
  --- would show them something else.
  local function check_writes(given, count)
    for _, a in ipairs(given) do
      local touched, version = V.written(a.y)
      if a.dim then a.written = touched else a.written = version ~= a.version end
      given.written = given.written or a.written
    end
    for i = 2, given.written and #given or 0 do
      local a = given[i]
      for k = 1, i - 1 do
        local b = given[k]
        if (a.written or b.written) and (a.dim or b.dim) and V.overlap(a.x, b.x) and not is_aligned(a, b, count) then
          fail("vmap", "the function writes to an argument, %s, that shares memory with another one, %s (clone one)",
            text(a.written and a.x or b.x), text(a.written and b.x or a.x))
        end
      end
    end
  end

  ------------------------------------------------------------------------------------------------------- the way out

  --- y for each of the examples.
  local function repeated(y, count)
    return y:unsqueeze(1):expand({ count, unpack(y.shape) }):clone()
  end

  --- v with the results of all examples.
  local function leave(v, dims, id, count)
    return map(v, function(x, at)
      if not is_tensor(x) then return nil end
      local y, shares = V.unwrap(x, id)
      if not at then
        if y then fail("vmap", "out_dims has no dim for %s, which differs from example to example", text(x)) end
        return x
      end
      if type(at) == "table" then fail("vmap", "out_dims has a table for %s", show(x)) end
      local dim = place(x, at, x.ndim + 1, "out_dims")
      if not y then y = repeated(x, count) elseif shares then y = y:clone() end
      return dim == 1 and y or y:movedim(1, dim)
    end, {}, dims)
  end

  --- The whole way, while the level is open.
  local function through(f, in_dims, out_dims, id, count, args)
    local given, inputs = { of = {} }, {}
    for i = 1, args.n do inputs[i] = enter(args[i], dims_at(in_dims, i), id, given) end
    local results = pack(f(unpack(inputs, 1, args.n)))
    check_writes(given, count)
    for _, a in ipairs(given) do
      if a.copied and a.written then a.x:movedim(a.dim, 1):copy_((V.unwrap(a.y, id))) end
    end
    for i = 1, results.n do results[i] = leave(results[i], dims_at(out_dims, i), id, count) end
    return results
  end

  local function run(f, in_dims, out_dims, rule, ...)
    local args, found = pack(...), {}
    for i = 1, args.n do measure(args[i], dims_at(in_dims, i), found, {}) end
    if not found.count then fail("vmap", "no argument has a dim of examples") end
    local scope, id = V.open(found.count, rule)
    local results = own.restore(scope, pcall(through, f, in_dims, out_dims, id, found.count, args))
    return unpack(results, 1, results.n)
  end

  --- A function that computes f for all examples at once, as a loop over them would: f sees tensors without the dim of
  --- the examples, which in_dims tells for each argument and out_dims for each result: one for all, or tables of them,
  --- nested as arguments and results are; false or nil: the same for all. What is no tensor is the same for all.
  --- randomness: "error", or "different" random numbers for each example, or the "same".
  --- Raises where f is no function, the numbers of examples differ, or f draws random numbers and nothing is said of
  --- them.
  ---@param f fun(...): ...
  ---@param in_dims? integer|table|false 1
  ---@param out_dims? integer|table|false 1
  ---@param opts? {randomness: string?}
  ---@return fun(...): ...
  local function vmap(f, in_dims, out_dims, opts)
    own.callable("vmap", 1, f)
    if check.is_options(in_dims) and out_dims == nil and opts == nil then in_dims, opts = nil, in_dims end
    if check.is_options(out_dims) and opts == nil and out_dims.randomness ~= nil then out_dims, opts = nil, out_dims end
    opts = check.options("vmap", opts, { randomness = "string" })
    local rule = opts.randomness or "error"
    if not randomness[rule] then
      fail("vmap", "randomness must be \"error\", \"different\" or \"same\", got %s", show(rule))
    end
    check_dims(2, "in_dims", in_dims)
    check_dims(3, "out_dims", out_dims)
    if in_dims == nil then in_dims = 1 end
    if out_dims == nil then out_dims = 1 end
    return own.mark(function(...) return run(f, in_dims, out_dims, rule, ...) end)
  end

  ------------------------------------------------------------------------------------------------ rules of gradients

  --- v for all examples of level id, or as it is.
  local function all_of(v, id)
    if is_live(v) and V.level(v) == id then return (V.unwrap(v, id)) end
    return v
  end

  --- A rule for the gradients of one example, applied to those of all: runs in the level of the forward pass once more.
  local function rule_of_all(rule, id, count, args)
    return function(gradients)
      local scope = V.open(count, "error", id)
      return own.restore(scope, pcall(function()
        for i, g in pairs(gradients) do gradients[i] = (V.wrap(g, 1, id)) end
        local list = rule(gradients)
        for i = 1, args.n do
          local g = list[i]
          if g ~= nil then
            local all = V.unwrap(g, id)
            if args.batched[i] then list[i] = all or repeated(g, count)
            else list[i] = all and all:sum(1):to(all.dtype) or g * count end
          end
        end
        return list
      end))
    end
  end

  --- Results of level id that lead back also outside of it, by grad.lua's taped.
  function V.taped(taped, id, args, results, rule)
    local outer, inner, count = { n = args.n, batched = {} }, {}, nil
    for i = 1, args.n do
      local v = args[i]
      outer[i] = all_of(v, id)
      outer.batched[i] = outer[i] ~= v
      if outer.batched[i] then count = outer[i]:size(1) end
    end
    local shape = { n = args.n, batched = outer.batched } -- no tensor that could lead back here
    for i, y in ipairs(results) do
      local all = V.unwrap(y, id)
      if all and count > 1 and all:stride(1) == 0 then all = all:clone() end -- one for all, which may be written to
      inner[i] = all or repeated(y, count)
    end
    local joined = taped(outer, inner, rule_of_all(rule, id, count, shape))
    for i, y in ipairs(joined) do joined[i] = (V.wrap(y, 1, id)) end
    return joined
  end

  ---------------------------------------------------------------------------------------------------- linear algebra

  --- With `rank` dims before the last two, but for those of the examples.
  local function with_lead(x, rank)
    while x.ndim < rank + 2 do x = x:unsqueeze(1) end
    return x
  end

  --- fn, known as ty.linalg[name], on matrices for one example; on those of all if one is batched.
  function own.all_examples(name, fn, a, b, ...)
    local id = max(V.level(a), V.level(b))
    if id == 0 then return fn(a, b, ...) end
    local again = ty.linalg[name]
    if not is_tensor(b) then
      local results = pack(again((V.unwrap(a, id)), b, ...))
      for i = 1, results.n do results[i] = (V.wrap(results[i], 1, id)) end
      return unpack(results, 1, results.n)
    end
    check.tensor(name, 1, a)
    local column = check.tensor(name, 2, b).ndim == 1
    if column then b = b:unsqueeze(-1) end
    local rank = max(a.ndim, b.ndim) - 2
    local x = again(all_of(with_lead(a, rank), id), all_of(with_lead(b, rank), id), ...)
    x = V.wrap(x, 1, id)
    return column and x:squeeze(-1) or x
  end

  define("vmap", "m", "f, in_dims = 1, out_dims = 1, {randomness = \"error\"}",
    "a function that computes f for all places of a dim at once, as a loop over them would", vmap)

  return { vmap, run, through, leave, enter, is_aligned, check_writes, measure, place, check_dims, is_dim, repeated,
    V.taped, rule_of_all, all_of }
end
