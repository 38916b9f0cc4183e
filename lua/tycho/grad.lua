--- grad.lua -- gradients: backward, ty.grad and its relatives, functions with a gradient of their own.
-- In: tensors and functions of tensors. Out: gradients, in `grad` of leaves or as results.
-- The core keeps the tape and walks back along it (grad.c); where it meets a function of the user's it hands
-- that out, and it runs here, as ordinary Lua: it may raise, and yield.

---@param ty table the core module
---@param define fun(name: string, where: string, args: string, text: string, fn: function)
return function(ty, define)
  local check = require("tycho.check")(ty)
  local fail, show, text = check.fail, check.show, check.text
  local core, is_tensor = ty.internals.grad, ty.is_tensor
  local mode = core.mode
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

  local function callable(who, i, f)
    if type(f) ~= "function" and not (getmetatable(f) or {}).__call then
      fail(who, "argument %d must be a function, got %s", i, show(f))
    end
  end

  ------------------------------------------------------------------------------------------------------------- modes

  local function restore(was, ok, ...)
    mode(was)
    if not ok then error((...), 0) end
    return ...
  end

  --- Calls fn(...) while nothing is taped.
  local function no_grad(fn, ...)
    callable("no_grad", 1, fn)
    return restore(mode(false), pcall(fn, ...))
  end

  local function enable_grad(fn, ...)
    callable("enable_grad", 1, fn)
    return restore(mode(true), pcall(fn, ...))
  end

  ----------------------------------------------------------------------------------------------------- the way back

  --- Goes the whole way; `create`: what it computes is taped too.
  local function run(back, create)
    while true do
      local kept, gradients = core.step(back)
      if not kept then return end
      local was = mode(create)
      local ok, err = pcall(kept.back, back, gradients)
      mode(was)
      if not ok then error(err, 0) end
      core.pass(back)
    end
  end

  --- The gradient that y begins with.
  local function first(who, y, g)
    if g == nil then
      if y:numel() ~= 1 then
        fail(who, "only a tensor of one element has a gradient to begin with, got %s; give one of its shape", text(y))
      end
      return ty.ones_like(y)
    end
    check.tensor(who, 2, g)
    local a, b = y.shape, g.shape
    local same = #a == #b and y.dtype == g.dtype
    for i = 1, #a do same = same and a[i] == b[i] end
    if not same then fail(who, "the gradient must be %s, got %s", text(y), text(g)) end
    return g
  end

  --- Fills `grad` of every leaf that y was computed from with dy/dleaf times g; what is there is added to.
  ---@param y tycho.Tensor
  ---@param g? tycho.Tensor of y's shape; 1 where y has one element
  ---@param opts? {retain_graph: boolean?, create_graph: boolean?}
  local function backward(y, g, opts)
    check.tensor("backward", 1, y)
    if check.is_options(g) and opts == nil then g, opts = nil, g end
    opts = check.options("backward", opts, { retain_graph = "boolean", create_graph = "boolean" })
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

  -------------------------------------------------------------------------------------------- functions of functions

  -- What was met already. A capture has its own memory: objects from outside are no keys there.
  local function recall(seen, v) return seen[v] end
  local function remember(seen, v, y) seen[v] = y end

  --- Replaces the float tensors of v, in nested tables too, by watched ones, which are listed.
  local function watch(v, list, seen)
    if is_tensor(v) then
      if not is_float(v) then return v end
      local w = recall(seen, v)
      if w then return w end
      w = core.watch(v)
      list[#list + 1] = w
      remember(seen, v, w)
      return w
    end
    if type(v) ~= "table" then return v end
    local y = recall(seen, v)
    if y then return y end
    y = setmetatable({}, getmetatable(v))
    remember(seen, v, y)
    for k, field in pairs(v) do rawset(y, k, watch(field, list, seen)) end
    return y
  end

  --- The gradients in the structure of v.
  local function gather(v, of, seen)
    if is_tensor(v) then return is_float(v) and of[v] or nil end
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
    local was = mode(true)
    local ok, y = pcall(f, unpack(args, 1, args.n))
    mode(was)
    if not ok then error(y, 0) end
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
  ---@param f fun(...): tycho.Tensor gives a float tensor of one element
  ---@param argnums? integer|integer[] 1
  ---@return fun(...): tycho.Tensor, ...
  local function value_and_grad(f, argnums)
    callable("value_and_grad", 1, f)
    local list = numbers_of("value_and_grad", argnums)
    return mark(function(...) return differentiate("value_and_grad", f, list, ...) end)
  end

  --- The same without the value.
  local function grad(f, argnums)
    callable("grad", 1, f)
    local list = numbers_of("grad", argnums)
    return mark(function(...) return select(2, differentiate("grad", f, list, ...)) end)
  end

  --- f(x) and its derivative along v, for tensors: the gradient of the gradient's product with v.
  ---@return tycho.Tensor value, tycho.Tensor derivative
  local function jvp(f, x, v)
    callable("jvp", 1, f)
    check.float("jvp", 2, x)
    first("jvp", x, check.tensor("jvp", 3, v))
    return enable_grad(function()
      local seq, w = core.seq(), core.watch(x)
      local back = core.start(true, true, { w }, seq)
      local y = f(w)
      check.float("jvp", 1, y)
      local u = core.watch(ty.zeros_like(y)) -- the product g -> J^T g is linear: its gradient is J v
      if y.requires_grad then core.seed(back, y, u) end
      run(back, true)
      local g = core.got(back, 1, w)
      local turn = core.start(false, false, { u }, seq)
      if g and g.requires_grad then core.seed(turn, g, v) end
      run(turn, false)
      return y:detach(), (core.got(turn, 1, u) or ty.zeros_like(y)):detach()
    end)
  end

  -------------------------------------------------------------------------------------- gradients of the user's own

  --- What is kept for the way back: tensors in storages that nobody writes to.
  local function keep(v)
    if is_tensor(v) then return core.same(v) end
    if type(v) ~= "table" then return v end
    local y = {}
    for k, field in pairs(v) do y[k] = keep(field) end
    return y
  end

  --- Runs `forward` untaped on the arguments; `back` (of the way back, gradients) is what its results lead to.
  local function taped(args, results, back)
    local inputs, outputs, any = {}, {}, false
    for i = 1, args.n do
      local v = args[i]
      inputs[i] = is_tensor(v) and v or 0
      any = any or (is_float(v) and v.requires_grad)
    end
    if not any or not mode() then return results end
    for i, y in ipairs(results) do outputs[i] = y end
    local joined = core.join({ back = back }, inputs, outputs)
    return joined
  end

  --- A function whose gradient is the user's: forward(...) gives the result (or a list of them) and what to save;
  --- backward(saved, g, ...) gives a gradient for each argument, nil for none.
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
      local kept, like = keep(saved), {}
      for i, r in ipairs(list) do like[i] = { r.shape, { dtype = r.dtype } } end
      local results = taped(args, list, function(back, gradients)
        for i = 1, #like do gradients[i] = gradients[i] or ty.zeros(unpack(like[i])) end
        local given = pack(rule(kept, unpack(gradients, 1, #like)))
        for i = 1, args.n do
          if given[i] ~= nil then core.give(back, i, check.tensor("custom_grad", i, given[i])) end
        end
      end)
      return unpack(results)
    end)
  end

  --- f(...) that keeps nothing for the way back but its arguments: it runs again there, and draws the same random
  --- numbers.
  ---@param f fun(...): ...
  local function checkpoint(f, ...)
    callable("checkpoint", 1, f)
    if not mode() then return f(...) end
    local args, draws = pack(...), core.draws()
    local inputs = { n = args.n + 1, ty.zeros(1):requires_grad_() } -- so that it is taped for what f closes over
    local kept = {} -- as they are before f, which may write to them
    for i = 1, args.n do
      kept[i], inputs[i + 1] = keep(args[i]), args[i]
    end
    local results = { no_grad(f, ...) }
    for i = 1, #results do check.tensor("checkpoint", i, results[i]) end
    results = taped(inputs, results, function(back, gradients)
      local now, given = core.draws(draws), {}
      for i = 1, args.n do given[i] = keep(kept[i]) end
      local again = pack(pcall(enable_grad, f, unpack(given, 1, args.n)))
      core.draws(now)
      if not again[1] then error(again[2], 0) end
      table.remove(again, 1)
      for i = 1, again.n - 1 do
        if gradients[i] and again[i].requires_grad then core.seed(back, again[i], gradients[i]) end
      end
    end)
    return unpack(results)
  end

  ------------------------------------------------------------------------------------------------------------ clipping

  local function gradients_of(who, params)
    if is_tensor(params) then params = { params } end
    if type(params) ~= "table" then fail(who, "argument 1 must be a list of tensors, got %s", show(params)) end
    local list = {}
    for i, p in ipairs(params) do list[#list + 1] = check.tensor(who, i, p).grad end
    return list
  end

  --- Scales the gradients so that their norm together is at most `max`. Gives the norm before.
  local function clip_grad_norm(params, max)
    local list = gradients_of("clip_grad_norm_", params)
    check.number("clip_grad_norm_", 2, max, "max")
    return no_grad(function()
      local squares = {}
      for i, g in ipairs(list) do squares[i] = g:norm() end
      if #squares == 0 then return ty.zeros({}) end
      local norm = ty.stack(squares):norm()
      local scale = (max / (norm + 1e-6)):minimum(1)
      for _, g in ipairs(list) do g:mul_(scale) end
      return norm
    end)
  end

  local function clip_grad_value(params, v)
    local list = gradients_of("clip_grad_value_", params)
    check.number("clip_grad_value_", 2, v, "value")
    no_grad(function()
      for _, g in ipairs(list) do g:minimum_(v):maximum_(-v) end
    end)
  end

  ------------------------------------------------------------------------------------------- linear algebra by LAPACK

  local linalg = rawget(ty, "linalg")
  local function own(name, rule)
    local fn = linalg and linalg[name]
    if not fn then return end
    local ruled = custom_grad(function(...)
      local y = fn(...)
      return y, { y, ... }
    end, rule)
    linalg[name] = function(a, ...)
      local b = ...
      if mode() and ((is_float(a) and a.requires_grad) or (is_float(b) and b.requires_grad)) then
        return ruled(a, ...)
      end
      return fn(a, ...)
    end
  end
  local function turned(x) return x:transpose(-2, -1) end
  own("inv", function(s, g)
    local t = turned(ty.linalg.inv(s[2]))
    return -(t:matmul(g):matmul(t))
  end)
  own("det", function(s, g)
    local t = turned(ty.linalg.inv(s[2]))
    return t * (g * ty.linalg.det(s[2])):unsqueeze(-1):unsqueeze(-1)
  end)

  -- What captures need to know, see gradients.lua: what is evaluated although it is ours, since it calls functions of
  -- users or uses gradients; functions of the core that may be called; those that end a way back.
  core.around, core.inline, core.captured = around, {}, {}
  core.ends = { [backward] = true, [run] = true }
  core.memory = { [recall] = "recall", [remember] = "remember" }
  for _, f in ipairs { callable, no_grad, enable_grad, restore, watch, gather, differentiate, value_and_grad, grad, jvp,
    custom_grad, checkpoint, taped, keep, gradients_of, clip_grad_norm, clip_grad_value, mark } do
    core.inline[f] = true
  end
  for _, name in ipairs { "mode", "start", "seed", "got", "watch", "seq", "reaches" } do
    core.captured[core[name]] = name
  end

  define("backward", "b", "x, g = 1, {retain_graph, create_graph}",
    "adds the gradient of x to grad of every leaf that x was computed from", backward)
  define("grad", "m", "f, argnums = 1", "a function that gives f's gradient for one or more of its arguments", grad)
  define("value_and_grad", "m", "f, argnums = 1", "a function that gives f's value, then its gradients", value_and_grad)
  define("jvp", "m", "f, x, v", "f(x), and its derivative along v", jvp)
  define("no_grad", "m", "fn, ...", "calls fn(...) while nothing is recorded for gradients", no_grad)
  define("enable_grad", "m", "fn, ...", "calls fn(...) while gradients are recorded, also inside no_grad", enable_grad)
  define("custom_grad", "m", "forward, backward",
    "a function with a gradient of its own: forward gives y and what backward(saved, g) gets", custom_grad)
  define("checkpoint", "m", "f, ...", "f(...), which keeps nothing for its gradient but runs again there", checkpoint)
  define("clip_grad_norm_", "m", "params, max", "scales gradients to a norm of at most max, gives the norm",
    clip_grad_norm)
  define("clip_grad_value_", "m", "params, value", "cuts gradients to -value .. value", clip_grad_value)
end
