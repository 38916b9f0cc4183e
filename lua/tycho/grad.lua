--- grad.lua -- gradients: backward, ty.grad and its relatives, functions with a gradient of their own.
-- In: tensors and functions of tensors. Out: gradients, in `grad` of leaves or as results.
-- The core keeps the tape and walks back along it (backward.c); where it meets a function of the user's it hands
-- that out, and it runs here, as ordinary Lua: it may raise, and yield.

local type, select, unpack, pcall, error, next, pairs = type, select, unpack, pcall, error, next, pairs
local ipairs, rawget = ipairs, rawget
local rawequal, getmetatable, setmetatable = rawequal, getmetatable, setmetatable
local max = math.max

local tree = require "tycho.tree"

---@param ty table the core module
---@param define fun(name: string, where: string, args: string, text: string, fn: function)
return function(ty, define)
  local check = require("tycho.arguments")(ty)
  local fail, show, text = check.fail, check.show, check.text
  local core, is_tensor = ty.internals.grad, ty.is_tensor
  local batch, random_state = ty.internals.vmap, ty.internals.check.random
  local map, recall, remember = tree.map, tree.recall, tree.remember
  local mode, modes = core.mode, ty.internals.modes
  local grad_mode, leave_mode = modes.grad, modes.leave
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  --- Functions around functions of the user's, for captures: what they close over is no part of the library.
  local around = setmetatable({}, { __mode = "k" })
  local function mark(f)
    around[f] = true
    return f
  end

  local function pack(...) return { n = select("#", ...), ... } end

  local is_live = ty.internals.is_live
  local function is_float(v) return is_live(v) and floats[v.dtype] or false end
  --- Whether v may have a gradient: floats, and complex numbers, which are pairs of them.
  local function is_smooth(v) return is_live(v) and (floats[v.dtype] or ty.is_complex(v)) or false end

  local function callable(who, i, f)
    local meta = getmetatable(f)
    if type(f) ~= "function" and not (type(meta) == "table" and meta.__call) then
      fail(who, "argument %d must be a function, got %s", i, show(f))
    end
  end

  ------------------------------------------------------------------------------------------------------------- modes

  --- What follows a call inside of a mode, which its coroutine leaves here: `scope` lies on its stack until then.
  local function restore(scope, ok, ...)
    leave_mode(scope)
    if not ok then error((...), 0) end
    return ...
  end

  --- Calls fn(...) while nothing is taped.
  --- Raises where fn is no function, and what fn raises.
  ---@param fn fun(...): ...
  ---@param ... any what fn is given
  ---@return any ... # what fn gives
  local function no_grad(fn, ...)
    callable("no_grad", 1, fn)
    return restore(grad_mode(false), pcall(fn, ...))
  end

  --- Calls fn(...) while operations are taped, also inside of no_grad.
  --- Raises where fn is no function, and what fn raises.
  ---@param fn fun(...): ...
  ---@param ... any what fn is given
  ---@return any ... # what fn gives
  local function enable_grad(fn, ...)
    callable("enable_grad", 1, fn)
    return restore(grad_mode(true), pcall(fn, ...))
  end

  ------------------------------------------------------------------------------------------------- the backward pass

  local BACKWARD = { retain_graph = "boolean", create_graph = "boolean" }

  --- Goes the whole way; `create`: what it computes is taped too. kept ...: where it stands, as step tells.
  local function run(back, create, kept, gradients, saved)
    if not kept then kept, gradients, saved = core.step(back) end
    while kept do
      restore(grad_mode(create), pcall(kept.back, back, gradients, saved, kept))
      core.pass(back)
      kept, gradients, saved = core.step(back)
    end
  end

  --- The gradient that y begins with.
  local function first(who, y, g, what)
    if g == nil then
      if y:numel() ~= 1 then
        fail(who, "only a tensor of one element has a gradient to begin with, got %s; give one of its shape", text(y))
      end
      if ty.is_complex(y) then
        fail(who, "a complex result has no gradient to begin with, got %s; take :real(), :abs(), or give one", text(y))
      end
      return ty.ones_like(y)
    end
    check.tensor(who, 2, g)
    local a, b = y.shape, g.shape
    local same = #a == #b and y.dtype == g.dtype
    for i = 1, #a do same = same and a[i] == b[i] end
    if not same then fail(who, "the %s must be %s, got %s", what or "gradient", text(y), text(g)) end
    return g
  end

  --- backward, without what is around it.
  local function descend(y, g, opts)
    if g == nil and opts == nil then
      local back, kept, gradients, saved = core.whole(y)
      if back == nil then return end
      if back ~= true then return run(back, false, kept, gradients, saved) end
    end
    check.tensor("backward", 1, y)
    if check.is_options(g) and opts == nil then g, opts = nil, g end
    opts = check.options("backward", opts, BACKWARD)
    if not y.requires_grad then
      fail("backward", "%s does not depend on a tensor that requires grad", text(y))
    end
    g = first("backward", y, g)
    local create = opts.create_graph or false
    local retain = opts.retain_graph
    if retain == nil then retain = create end
    local back = core.start(retain, create)
    core.seed(back, y, g)
    run(back, create)
  end

  --- Whether the gradient of a leaf can be read: a capture cannot follow those of tensors that it has not met.
  local function known(_) return true end

  local exchange -- {hold, finish} of dist/replicate.lua, where models are on several ranks

  --- Around every backward pass from now on: finish(what hold() gave, whether the pass went well). number: of this way
  --- to exchange, which is a part of every key; 0 where there is none.
  local function exchange_by(around_it, number)
    exchange = around_it
    core.exchanged(number)
  end

  --- Fills `grad` of every leaf that y was computed from with dy/dleaf times g; what is there is added to.
  --- Raises where y does not depend on a leaf that requires a gradient, g has other sizes, or what was kept has been
  --- overwritten or freed (retain_graph).
  ---@param y tycho.Tensor
  ---@param g? tycho.Tensor of y's shape; 1 where y has one element
  ---@param opts? {retain_graph: boolean?, create_graph: boolean?}
  local function backward(y, g, opts)
    if not exchange then return descend(y, g, opts) end
    local held = exchange.hold()
    local ok, message = pcall(descend, y, g, opts)
    exchange.finish(held, ok)
    if not ok then error(message, 0) end
  end

  -------------------------------------------------------------------------------------------- functions of functions

  --- Replaces the float tensors of v, in nested tables too, by watched ones, which are listed.
  local function watch(v, list, seen)
    return map(v, function(x)
      if not (is_tensor(x) and is_smooth(x)) then return nil end
      local w = recall(seen, x)
      if w then return w end
      w = core.watch(x)
      list[#list + 1] = w
      remember(seen, x, w)
      return w
    end, seen)
  end

  --- The gradients in the structure of v.
  local function gather(v, of, seen)
    if is_tensor(v) then return is_smooth(v) and of[v] or nil end
    if type(v) ~= "table" then return nil end
    if seen[v] then return seen[v] end
    local y = {}
    seen[v] = y
    for k, field in pairs(v) do y[k] = gather(field, of, seen) end
    return y
  end

  local function numbers_of(who, argnums)
    if argnums == nil then argnums = 1 end
    local list = type(argnums) == "table" and argnums or { argnums }
    if #list == 0 and next(list) ~= nil then
      fail(who, "argument 2 must be the number of an argument, or a list of them, got %s", show(argnums))
    end
    for _, n in ipairs(list) do
      if type(n) ~= "number" or n < 1 or n % 1 ~= 0 then
        fail(who, "argument 2 must be the number of an argument, or a list of them, got %s", show(n))
      end
    end
    return list
  end

  --- f's value and the gradients for the arguments whose numbers are in the list.
  local function differentiate(who, f, list, ...)
    local args = pack(...)
    local seq, watched, seen = core.seq(), {}, {}
    for _, n in ipairs(list) do
      if n > args.n then fail(who, "argument %d is asked for, the function was given %d", n, args.n) end
      args[n] = watch(args[n], watched, seen)
    end
    local back = core.start(false, false, watched, seq) -- now: f may write to what it was given
    local y = restore(grad_mode(true), pcall(f, unpack(args, 1, args.n)))
    local was = mode()
    if not is_tensor(y) or y:numel() ~= 1 or not is_float(y) then
      fail(who, "the function must give a float tensor of one element, got %s", show(y))
    end
    local outer = was and core.reaches(y, seq)
    for _, w in ipairs(watched) do outer = outer or (was and core.reaches(w, seq)) end
    if y.requires_grad then core.seed(back, y, ty.ones_like(y), outer) end
    run(back, outer)
    local of, results = {}, {}
    for k, w in ipairs(watched) do of[w] = core.got(back, k, w) or ty.zeros_like(w) end
    for i, n in ipairs(list) do results[i] = gather(args[n], of, {}) end
    return outer and y or y:detach(), unpack(results, 1, #list)
  end

  --- A function of f's arguments that gives f's value, then its gradient for argument `argnums` (or each of a list), in
  --- the structure of that argument: tables of tensors give tables of gradients.
  --- Raises where f is no function, or gives no float tensor of one element.
  ---@param f fun(...): tycho.Tensor gives a float tensor of one element
  ---@param argnums? integer|integer[] 1
  ---@return fun(...): tycho.Tensor, ...
  local function value_and_grad(f, argnums)
    callable("value_and_grad", 1, f)
    local list = numbers_of("value_and_grad", argnums)
    return mark(function(...) return differentiate("value_and_grad", f, list, ...) end)
  end

  --- The same without the value.
  --- Raises where f is no function, or gives no float tensor of one element.
  ---@param f fun(...): tycho.Tensor gives a float tensor of one element
  ---@param argnums? integer|integer[] 1
  ---@return fun(...): ... # of the same arguments: the gradient in the structure of that argument
  local function grad(f, argnums)
    callable("grad", 1, f)
    local list = numbers_of("grad", argnums)
    return mark(function(...) return select(2, differentiate("grad", f, list, ...)) end)
  end

  --- Pairs the watched tensors of w with those of v, in nested tables too; where v has none the direction is zero.
  local function directions(w, v, list)
    if is_tensor(w) then
      if v ~= nil and is_smooth(w) then
        first("jvp", w, check.tensor("jvp", 3, v), "direction")
        list[#list + 1] = { w, v }
      end
    elseif type(w) == "table" then
      if v ~= nil and (type(v) ~= "table" or is_tensor(v)) then
        fail("jvp", "argument 3 must be a table as argument 2 is, got %s", show(v))
      end
      for k, field in pairs(w) do
        if v ~= nil then directions(field, v[k], list) end
      end
    end
    return list
  end

  --- f(x) and its derivative along v: the gradient of the gradient's product with a vector, which is linear in that.
  --- Raises where x and v differ in structure or sizes.
  ---@param f fun(x): tycho.Tensor
  ---@param x tycho.Tensor|table nested tables of tensors, given to f as they are
  ---@param v tycho.Tensor|table the direction, in the structure of x
  ---@return tycho.Tensor value, tycho.Tensor derivative # both in the structure and sizes of f(x)
  local function jvp(f, x, v)
    callable("jvp", 1, f)
    if type(x) ~= "table" then check.float("jvp", 2, x) end
    if type(x) ~= "table" or is_tensor(v) then check.tensor("jvp", 3, v) end
    local was = mode()
    return enable_grad(function()
      local seq, watched = core.seq(), {}
      local w = watch(x, watched, {})
      local pairs_of = directions(w, v, {})
      local back = core.start(true, true, watched, seq) -- now: f may write to what it was given
      local y = f(w)
      check.float("jvp", 1, y)
      local outer = was and core.reaches(y, seq)
      for _, p in ipairs(pairs_of) do
        outer = outer or was and (core.reaches(p[1], seq) or batch.tracked(p[2]))
      end
      local u = core.watch(ty.zeros_like(y)) -- the product g -> J^T g is linear: its gradient is J v
      if y.requires_grad then core.seed(back, y, u) end
      run(back, true)
      local turn = core.start(outer, outer, { u }, seq)
      for k, t in ipairs(watched) do
        local g = core.got(back, k, t)
        for _, p in ipairs(pairs_of) do
          if g and g.requires_grad and rawequal(p[1], t) then core.seed(turn, g, p[2]) end
        end
      end
      run(turn, outer)
      local d = core.got(turn, 1, u) or ty.zeros_like(y)
      if outer then return y, d end
      return y:detach(), d:detach()
    end)
  end

  --- The derivatives of f's result by the watched tensors: lists over arguments of [result's dims, argument's dims].
  local function rows_of(f, list, args)
    local seq, watched = core.seq(), {}
    for i, n in ipairs(list) do
      args[n] = core.watch(check.float("jacobian", n, args[n]))
      watched[i] = core.same(args[n]) -- f may write to what it was given
    end
    local y = restore(grad_mode(true), pcall(f, unpack(args, 1, args.n)))
    local was = mode()
    if not is_tensor(y) or not is_float(y) then
      fail("jacobian", "the function must give a float tensor, got %s", show(y))
    end
    local outer = was and core.reaches(y, seq)
    for _, w in ipairs(watched) do outer = outer or (was and core.reaches(w, seq)) end
    local shape, count = y.shape, y:numel()
    local each = ty.vmap(function(g)
      local back = core.start(true, outer, watched, seq)
      if y.requires_grad then core.seed(back, y, g) end
      run(back, outer)
      local given = {}
      for k, w in ipairs(watched) do given[k] = core.got(back, k, w) or ty.zeros_like(w) end
      return unpack(given, 1, #watched)
    end)
    local rows = { each(ty.eye(count, { dtype = y.dtype, device = y.device }):reshape(count, unpack(shape))) }
    for k, w in ipairs(watched) do
      local dims = { unpack(shape) }
      for _, size in ipairs(w.shape) do dims[#dims + 1] = size end
      rows[k] = rows[k]:reshape(dims)
    end
    return rows
  end

  --- A function of f's arguments that gives the derivatives of f's result by argument `argnums` (or each of a list), a
  --- tensor: [result's dims, argument's dims]. All rows are computed at once, by vmap.
  --- Raises where f is no function, or gives no float tensor.
  ---@param f fun(...): tycho.Tensor gives a float tensor of any dims
  ---@param argnums? integer|integer[] 1
  ---@return fun(...): ...
  local function jacobian(f, argnums)
    callable("jacobian", 1, f)
    local list = numbers_of("jacobian", argnums)
    return mark(function(...)
      local args = pack(...)
      for _, n in ipairs(list) do
        if n > args.n then fail("jacobian", "argument %d is asked for, the function was given %d", n, args.n) end
      end
      return unpack(rows_of(f, list, args), 1, #list)
    end)
  end

  --- A function of f's arguments that gives the second derivatives of f's value by argument `argnum`, a tensor: the
  --- argument's dims twice.
  --- Raises where f is no function, or gives no float tensor of one element.
  ---@param f fun(...): tycho.Tensor gives a float tensor of one element
  ---@param argnum? integer 1
  ---@return fun(...): tycho.Tensor
  local function hessian(f, argnum)
    callable("hessian", 1, f)
    if argnum ~= nil and type(argnum) ~= "number" then
      fail("hessian", "argument 2 must be the number of an argument, got %s", show(argnum))
    end
    numbers_of("hessian", argnum)
    return jacobian(grad(f, argnum), argnum)
  end

  -------------------------------------------------------------------------------------- gradients of the user's own

  local function same(v)
    if is_tensor(v) then return core.same(v) end
    return nil
  end

  --- What is kept for the backward pass: tensors in storages that nobody writes to, in tables like those they came in.
  local function keep(v) return map(v, same, {}) end

  --- Makes kept.back (of the backward pass, gradients, saved, kept) what the results lead to, if an argument requires
  --- grad. saved: tensors that are kept beside; pure: see there.
  local function join(args, results, kept, saved, pure)
    local inputs, any = {}, false
    for i = 1, args.n do
      local v = args[i]
      inputs[i] = is_tensor(v) and v or 0
      any = any or (is_smooth(v) and v.requires_grad)
    end
    return any and mode() and core.join(kept, inputs, results, nil, saved, pure) or results
  end

  --- The same for a rule (of the results' gradients) that gives each argument's, or nil.
  local function ruled(args, results, rule)
    return join(args, results, { back = function(back, gradients)
      local given = rule(gradients, back)
      for i = 1, args.n do
        if given[i] ~= nil then core.give(back, i, given[i]) end
      end
    end })
  end

  --- The same of batched arguments, whose past only a gradient outside of the vmap follows: also for all examples.
  local function taped(args, results, rule)
    local id = 0
    for i = 1, args.n do id = max(id, batch.level(args[i])) end
    local beyond = false
    for i = 1, id > 0 and mode() and args.n or 0 do
      beyond = beyond or (is_smooth(args[i]) and batch.tracked(args[i]))
    end
    if beyond then results = batch.taped(taped, id, args, results, rule) end
    return ruled(args, results, rule)
  end

  --- What stands in the place of a tensor of a list, in tables like those that it came in: its number.
  local PLACE = {}

  --- v with the numbers of its tensors in their places; appends these to the list.
  local function take_out(v, list)
    return map(v, function(x)
      if not is_live(x) then return nil end
      list[#list + 1] = x
      return setmetatable({ #list }, PLACE)
    end, {})
  end

  --- The same with the tensors of a list.
  local function put_in(v, list)
    return map(v, function(x) return type(x) == "table" and getmetatable(x) == PLACE and list[x[1]] or nil end, {})
  end

  --- Which tensors of a list are results: {its number, the result's} each.
  local function results_among(list, results)
    local found = {}
    for k, v in ipairs(list) do
      for i, y in ipairs(results) do
        if rawequal(v, y) then found[#found + 1] = { k, i } end
      end
    end
    return found
  end

  --- The dims and dtypes of tensors.
  local function kinds_of(list)
    local y = {}
    for i, r in ipairs(list) do y[i] = { r.shape, { dtype = r.dtype, device = r.device } } end
    return y
  end

  local function call(f, ...) return f(...) end

  --- What calls f(...) in the backward pass: where a compiled function was called (what.again, a table that its calls
  --- share) a compiled one, which looks at what f closes over as any does.
  local function again(what)
    local kept = what.again
    if not kept or batch.level() > 0 then return call end
    if not kept.run then kept.run = ty.compile(function(f, ...) return f(...) end) end
    return kept.run
  end

  --- A rule's gradients of n inputs. what: {rule, like, saved, found}, see custom_grad; list: the tensors saved.
  --- Where the rule may be differentiated, results among them lead back to the function.
  local function by_rule(what, list, gradients, back, n)
    local kept, like = {}, what.like
    for k, v in ipairs(list) do kept[k] = same(v) end
    if back and mode() then
      for _, r in ipairs(what.found) do kept[r[1]] = core.result(back, r[2], kept[r[1]]) end
    end
    for i = 1, #like do gradients[i] = gradients[i] or ty.zeros(unpack(like[i])) end
    local calls = mode() and call or again(what)
    local given = pack(calls(what.rule, put_in(what.saved, kept), unpack(gradients, 1, #like)))
    for i = 1, n do
      if given[i] ~= nil then check.tensor("custom_grad", i, given[i]) end
    end
    return given
  end

  local function custom_back(back, gradients, list, what)
    local given = by_rule(what, list, gradients, back, what.n)
    for i = 1, what.n do
      if given[i] ~= nil then core.give(back, i, given[i]) end
    end
  end

  --- A function whose gradient is the user's: forward(...) gives the result (or a list of them) and what to save;
  --- rule(saved, g, ...) gives a gradient for each argument, nil for none.
  --- Raises where an argument is no function; in the backward pass where the rule gives another number of gradients, or
  --- other sizes.
  ---@param forward fun(...): tycho.Tensor|tycho.Tensor[], any
  ---@param rule fun(saved: any, ...: tycho.Tensor): ...
  ---@return fun(...): ...
  local function custom_grad(forward, rule)
    callable("custom_grad", 1, forward)
    callable("custom_grad", 2, rule)
    return mark(function(...)
      local args = pack(...)
      local y, saved = no_grad(forward, ...)
      local list = is_tensor(y) and { y } or y
      if type(list) ~= "table" or #list == 0 then
        fail("custom_grad", "forward must give a tensor or a list of tensors, got %s", show(y))
      end
      for i = 1, #list do check.tensor("custom_grad", i, list[i]) end
      local saved_list = {}
      local what = { back = custom_back, rule = rule, saved = take_out(saved, saved_list), like = kinds_of(list),
        n = args.n }
      what.found = results_among(saved_list, list)
      if core.shares() then return unpack(join(args, list, what, saved_list)) end
      local kept = keep(saved_list)
      return unpack(taped(args, list, function(gradients, back)
        return by_rule(what, kept, gradients, back, what.n)
      end))
    end)
  end

  --- The rule of what pure_grad made.
  local function pure_back(b, gradients, saved, kept)
    local given = pack(kept.rule(saved, gradients[1], kept.what))
    for i = 1, given.n do
      if given[i] ~= nil then core.give(b, i, given[i]) end
    end
  end

  --- As custom_grad, for the library's functions of one result: saved is a list of tensors that nobody writes to, and
  --- rule(saved, g, what) reads nothing else. rule is no closure of a call, and what, a table, holds none: calls of a
  --- compiled function share them.
  ---@param forward fun(...): tycho.Tensor, tycho.Tensor[]
  ---@param rule fun(saved: tycho.Tensor[], g: tycho.Tensor, what: table): ...
  ---@param what table
  ---@return fun(...): tycho.Tensor
  local function pure_grad(forward, rule, what)
    return function(...)
      if not core.shares() then
        return custom_grad(forward, function(saved, g) return rule(saved, g, what) end)(...)
      end
      local y, saved = no_grad(forward, ...)
      return join(pack(...), { y }, { back = pure_back, rule = rule, what = what }, saved, true)[1]
    end
  end

  --- The tensors of a list as they are now. Those that share memory go on to, so that f's writes to one are seen in the
  --- others. first: of each one the first with its memory.
  local function keep_together(list)
    local kept, firsts = {}, core.together(list)
    for k, v in ipairs(list) do kept[k] = core.same(v, kept[firsts[k]]) end
    return kept, firsts
  end

  --- The function's results once more; what.after: the random state that it must end with.
  local function repeated(what, args)
    local after, calls = what.after, again(what)
    local results = pack(ty.autocast(what.half, enable_grad, calls, what.f, unpack(args, 1, what.n)))
    if after and after ~= random_state() then
      fail("checkpoint", "random numbers were drawn outside while the function was suspended: it would draw others now")
    end
    return unpack(results, 1, results.n)
  end

  local function checkpoint_back(back, gradients, list, what)
    local given, first_with = {}, what.first
    for k, v in ipairs(list) do given[k] = core.same(v, given[first_with[k]]) end
    given = put_in(what.args, given)
    local results = pack(restore(modes.random(what.random), pcall(repeated, what, given)))
    for k, i in ipairs(what.at) do
      local y, g = results[i], gradients[k]
      if g and not (is_smooth(y) and y.requires_grad) then
        fail("checkpoint", "result %d is %s when the function runs again; it must do the same twice", i, show(y))
      end
      if g then core.seed(back, y, first("checkpoint", y, g)) end
    end
  end

  --- f(...) that keeps nothing for the backward pass but its arguments: it runs again there, and draws the
  --- same random numbers, under the same autocast. It is taped the first time too, as long as it runs: so what it
  --- writes to other tensors, or puts into tables, has its gradient without running again. The second run gets copies
  --- of the arguments, in tables too; what f closes over and writes to is written a second time.
  --- Raises where f is no function, and what f raises.
  ---@param f fun(...): ...
  ---@param ... any what f is given
  ---@return any ... # what f gives
  local function checkpoint(f, ...)
    callable("checkpoint", 1, f)
    -- gradients outside of a vmap would not see the backward pass
    if not mode() or batch.level() > 0 then return f(...) end
    local what = { back = checkpoint_back, f = f, n = select("#", ...), random = random_state(), half = ty._half(),
      at = {} }
    local saved, shares = {}, core.shares()
    what.args = take_out({ ... }, saved)
    saved, what.first = keep_together(saved) -- as they are before f, which may write to them
    local scope, list, seq = grad_mode(true), {}, core.seq()
    local results = pack(restore(scope, pcall(f, ...)))
    what.after = modes.parted(scope) and random_state() -- others may have drawn random numbers meanwhile
    for i = 1, results.n do
      if is_smooth(results[i]) and results[i].requires_grad then
        what.at[#what.at + 1], list[#list + 1] = i, results[i]
      end
    end
    if #list == 0 then return unpack(results, 1, results.n) end
    local kept = what
    if not shares then
      kept = { back = function(back, gradients) checkpoint_back(back, gradients, saved, what) end }
    end
    list = core.join(kept, {}, list, seq, shares and saved or nil)
    for k, i in ipairs(what.at) do results[i] = list[k] end
    return unpack(results, 1, results.n)
  end

  ------------------------------------------------------------------------------------------------------------ clipping

  --- of: parameters that dist/cut.lua knows as parts of others, as keys; stages: those of one stage of several
  --- (dist/pipeline.lua). Both nil where there are none.
  local slices = {}

  --- The gradients of a list of parameters, which norm_of, where there is one, takes by parameter.
  local function gradients_of(who, params)
    if is_tensor(params) then params = { params } end
    if type(params) ~= "table" then fail(who, "argument 1 must be a list of tensors, got %s", show(params)) end
    local list, of = {}, {}
    for i, p in ipairs(params) do
      local g = check.tensor(who, i, p).grad
      if g ~= nil then list[#list + 1], of[#of + 1] = g, p end
    end
    return list, of
  end

  --- A norm is that of all elements, and a part has some. instead: what to do; all: of all parameters, and a stage has
  --- some.
  local function whole_only(who, params, instead, all)
    local parts, stages = slices.of, all and slices.stages or nil
    if not parts and not stages then return end
    for i, p in ipairs(is_tensor(params) and { params } or type(params) == "table" and params or {}) do
      if parts and parts[p] then
        fail(who, "parameter %d, %s, is this rank's part of one that ty.dist has cut (%s)", i, text(p), instead)
      end
      if stages and stages[p] then
        fail(who, "parameter %d, %s, is one of a stage of a pipeline (%s)", i, text(p), instead)
      end
    end
  end

  --- A number that is not below 0.
  local function bound(who, v, what)
    check.number(who, 2, v, what)
    if v < 0 or v ~= v then fail(who, "argument 2 (%s) must not be negative, got %.14g", what, v) end
  end

  --- norm_of(p, g, kind): the norm of a parameter's gradient; all_of(norms): those of all that count. nil: as they are.
  local function clip_by(params, limit, p, norm_of, all_of)
    local list, of = gradients_of("clip_grad_norm_", params)
    bound("clip_grad_norm_", limit, "limit")
    p = check.number("clip_grad_norm_", 3, p, "p", 2)
    return no_grad(function()
      local norms = {}
      for i, g in ipairs(list) do norms[i] = norm_of and norm_of(of[i], g, p) or g:norm(p) end
      if #norms == 0 and not all_of then return ty.zeros({}) end
      local norm = (all_of and all_of(norms) or ty.stack(norms)):norm(p)
      local scale = (limit / (norm + 1e-6)):minimum(1)
      for _, g in ipairs(list) do g:mul_(scale) end
      return norm
    end)
  end

  --- Scales the gradients so that their p-norm together is at most `limit`. Gives the norm before.
  --- Raises where the parameters are no tensors, or a number is negative.
  ---@param params tycho.Tensor|tycho.Tensor[] those without a gradient are passed over
  ---@param limit number
  ---@param p? number 2
  ---@return tycho.Tensor # the norm before, no dims
  local function clip_grad_norm(params, limit, p)
    if slices.of or slices.stages then
      whole_only("clip_grad_norm_", params, "use that of ty.dist or of the pipeline", true)
    end
    return clip_by(params, limit, p)
  end

  --- Cuts each element of the gradients to -v .. v.
  --- Raises where the parameters are no tensors, or v is negative.
  ---@param params tycho.Tensor|tycho.Tensor[] those without a gradient are passed over
  ---@param v number
  local function clip_grad_value(params, v)
    local list = gradients_of("clip_grad_value_", params)
    bound("clip_grad_value_", v, "v")
    no_grad(function()
      for _, g in ipairs(list) do g:minimum_(v):maximum_(-v) end
    end)
  end

  local own = { restore = restore, taped = taped, keep = keep, no_grad = no_grad, mark = mark, pack = pack,
    callable = callable, run = run, ruled = ruled, join = join, call = call, again = again }
  local inline = require("tycho.vmap")(ty, define, own)
  local scans, scan_back = require("tycho.scan")(ty, define, own)
  if rawget(ty, "linalg") then require("tycho.linalg")(ty, own) end

  -- What captures need to know, see gradients.lua: what is evaluated although it is ours, since it calls functions of
  -- users or uses gradients; functions of the core that may be called; those that end a backward pass.
  core.around, core.pure, core.inline, core.captured = around, pure_grad, {}, {}
  core.fixed, core.pinned = {}, {} -- metatables of objects that never change; functions whose numbers are pinned
  core.exchange_by, core.known = exchange_by, known
  core.slices, slices.clip, slices.whole_only = slices, clip_by, whole_only
  core.ends = { [core.step] = true } -- with nil
  core.kept = { [core.join] = 1, [core.hooks] = 2 } -- the argument that step gives back
  core.again = { [custom_back] = true, [checkpoint_back] = true, [scan_back] = true } -- run a user's function
  core.memory = { [recall] = "recall", [remember] = "remember", [known] = "known" }
  for _, f in ipairs { pack, map, tree.said, tree.behind, tree.empty_like, first, run, descend, backward,
    directions, rows_of, jacobian, hessian, callable, no_grad, enable_grad, restore, watch, gather, differentiate,
    value_and_grad, grad, jvp, custom_grad, custom_back, by_rule, call, again, take_out, put_in, results_among,
    kinds_of, checkpoint, checkpoint_back, keep_together, repeated, taped, ruled, join, same, keep,
    gradients_of, whole_only, bound, clip_by, clip_grad_norm, clip_grad_value, mark, unpack(inline) } do
    core.inline[f] = true
  end
  for _, f in ipairs(scans) do core.inline[f] = true end
  for name, f in pairs(batch) do core.captured[f] = "vmap." .. name end
  for name, f in pairs(ty.internals.loop) do core.captured[f] = "loop." .. name end
  for name, f in pairs(ty.internals.composite) do core.captured[f] = "composite." .. name end
  for name, f in pairs(core) do
    if type(f) == "function" then core.captured[f] = "grad." .. name end
  end
  for name, f in pairs(modes) do core.captured[f] = "modes." .. name end
  core.captured[random_state] = "grad.random"
  for _, name in ipairs { "check_index", "power", "attend", "attend_node", "fft" } do
    core.captured[ty.internals[name]] = name
  end

  define("backward", "b", "y, g = 1, {retain_graph, create_graph}",
    "adds the gradient of y to grad of every leaf that y was computed from", backward)
  define("grad", "m", "f, argnums = 1", "a function that gives f's gradient for one or more of its arguments", grad)
  define("value_and_grad", "m", "f, argnums = 1", "a function that gives f's value, then its gradients", value_and_grad)
  define("jacobian", "m", "f, argnums = 1", "a function that gives all derivatives of f's result, [result, argument]",
    jacobian)
  define("hessian", "m", "f, argnum = 1", "a function that gives the second derivatives of f's value", hessian)
  define("jvp", "m", "f, x, v", "f(x), and its derivative along v; x and v are tensors, or nested tables of them", jvp)
  define("no_grad", "m", "fn, ...", "calls fn(...) while nothing is recorded for gradients", no_grad)
  define("enable_grad", "m", "fn, ...", "calls fn(...) while gradients are recorded, also inside no_grad", enable_grad)
  define("custom_grad", "m", "forward, rule",
    "a function with a gradient of its own: forward gives y and what rule(saved, g) gets", custom_grad)
  define("checkpoint", "m", "f, ...", "f(...), which keeps nothing for its gradient but runs again there", checkpoint)
  define("clip_grad_norm_", "m", "params, limit, p = 2",
    "scales gradients to a p-norm of at most the limit, gives the norm", clip_grad_norm)
  define("clip_grad_value_", "m", "params, v", "cuts gradients to -v .. v", clip_grad_value)
end
