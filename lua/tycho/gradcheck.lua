--- gradcheck.lua -- `ty.gradcheck`: gradients of a function beside differences of its values.
-- In: a function of tensors, its arguments, options. Out: true; an error that names the argument, the element, both
-- numbers and their difference. Everything is in f64: other floats are converted, integers stay.
--
-- The derivative by an element is (f(x + eps) - f(x - eps)) / (2 eps), of every element of every result, by every
-- element of every float argument: use small ones. Each evaluation begins at the same random numbers.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local abs, max = math.abs, math.max
local SHOWN = 4 -- differences in the text

local function pack(...) return { n = select("#", ...), ... } end

--- The float results of f as f64, flat.
local function results_of(f, args, state)
  ty.manual_seed(state)
  local got = pack(f(unpack(args, 1, args.n)))
  local list = {}
  for i = 1, got.n do
    local y = got[i]
    if ty.is_tensor(y) and y.dtype:find("f", 1, true) then list[#list + 1] = y:to "f64":reshape(-1) end
  end
  if #list == 0 then check.fail("gradcheck", "the function must give a float tensor, got %s", check.show(got[1])) end
  return list
end

--- Where element k (from 1, rows last) lies: "2, 3".
local function place(k, shape)
  local at, left = {}, k - 1
  for d = #shape, 1, -1 do
    at[d] = left % shape[d] + 1
    left = (left - at[d] + 1) / shape[d]
  end
  return table.concat(at, ", ")
end

--- By finite differences: of each result the derivative by element k of argument i, as lists.
local function differences(f, args, i, k, eps, state)
  local x = args[i]
  local moved = pack(unpack(args, 1, args.n))
  local function at(step)
    local flat = x:detach():clone():reshape(-1)
    flat:set(k, flat:get(k) + step)
    moved[i] = flat:reshape(x.shape)
    return ty.no_grad(results_of, f, moved, state)
  end
  local above, below, list = at(eps), at(-eps), {}
  for r, y in ipairs(above) do list[r] = ((y - below[r]) / (2 * eps)):totable() end
  return list
end

--- By backward passes: of result r, the derivative of its element e by all arguments, flat lists.
local function backward(f, args, tracked, r, e, state)
  for _, i in ipairs(tracked) do args[i].grad = nil end
  local y = ty.enable_grad(results_of, f, args, state)[r]
  if y.requires_grad then y[e]:backward() end
  local list = {}
  for _, i in ipairs(tracked) do
    local g = args[i].grad
    list[i] = (g or ty.zeros_like(args[i]:detach())):reshape(-1):totable()
  end
  return list
end

--- What the options may be; see below.
local function options_of(opts)
  opts = check.options("gradcheck", opts, { eps = "number", atol = "number", rtol = "number", raise = "boolean" })
  local eps, atol, rtol = opts.eps or 1e-6, opts.atol or 1e-5, opts.rtol or 1e-3
  if not (eps > 0 and eps < math.huge) then check.fail("gradcheck", "option eps must be positive, got %.14g", eps) end
  if not (atol >= 0 and rtol >= 0) then
    check.fail("gradcheck", "options atol and rtol must not be negative, got %.14g and %.14g", atol, rtol)
  end
  return eps, atol, rtol, opts.raise ~= false
end

--- The arguments in f64, floats among them as leaves; the numbers of those.
local function leaves_of(args)
  local tracked, own = {}, { n = args.n }
  for i = 1, args.n do
    local v = args[i]
    if ty.is_tensor(v) and v.dtype:find("f", 1, true) then
      own[i] = v:detach():to "f64":clone():requires_grad_()
      tracked[#tracked + 1] = i
    else
      own[i] = v
    end
  end
  if #tracked == 0 then check.fail("gradcheck", "argument 2 must hold a float tensor, got none") end
  return own, tracked
end

local function compare(f, args, tracked, eps, atol, rtol, state)
  local wrong, lines, worst = 0, {}, 0
  local first = ty.no_grad(results_of, f, args, state)
  local numeric = {} -- [argument][element][result][element]
  for _, i in ipairs(tracked) do
    numeric[i] = {}
    for k = 1, args[i]:numel() do numeric[i][k] = differences(f, args, i, k, eps, state) end
  end
  for r, y in ipairs(first) do
    for e = 1, y:numel() do
      local analytic = backward(f, args, tracked, r, e, state)
      for _, i in ipairs(tracked) do
        for k = 1, args[i]:numel() do
          local a, n = analytic[i][k], numeric[i][k][r][e]
          local near = abs(a - n) <= atol + rtol * abs(n) -- NaN is not
          if not near then
            wrong, worst = wrong + 1, max(worst, abs(a - n))
            if #lines < SHOWN then
              lines[#lines + 1] = ("  argument %d, element [%s], by result %d, element %d: backward gives %.9g, "
                .. "differences give %.9g"):format(i, place(k, args[i].shape), r, e, a, n)
            end
          end
        end
      end
    end
  end
  if wrong == 0 then return nil end
  if wrong > #lines then lines[#lines + 1] = ("  and %d more"):format(wrong - #lines) end
  return ("%d of the derivatives differ, by %.3g at most:\n%s"):format(wrong, worst, table.concat(lines, "\n"))
end

--- Compares the gradients of fn(...) with differences of its values, in f64. args: the list of arguments, or a tensor.
--- Options: eps = 1e-6, the step; atol = 1e-5 and rtol = 1e-3: the gradient a is right where |a - n| <= atol + rtol
--- |n|; raise = true, false gives false and the text. Every element is moved on its own: use tensors of some hundred
--- elements.
--- Raises where gradients differ from differences, unless raise = false; where there is no float tensor to go back to.
---@param fn fun(...): ...
---@param args any[]|tycho.Tensor
---@param opts? {eps: number?, atol: number?, rtol: number?, raise: boolean?}
---@return boolean, string?
return function(fn, args, opts)
  if type(fn) ~= "function" and not (type(fn) == "table" and getmetatable(fn)) then
    check.fail("gradcheck", "argument 1 must be a function, got %s", check.show(fn))
  end
  if ty.is_tensor(args) then args = { args } end
  if type(args) ~= "table" then
    check.fail("gradcheck", "argument 2 must be a list of arguments, got %s", check.show(args))
  end
  local eps, atol, rtol, raises = options_of(opts)
  local own, tracked = leaves_of({ n = args.n or #args, unpack(args, 1, args.n or #args) })
  local state = 1
  local why = compare(fn, own, tracked, eps, atol, rtol, state)
  if why and raises then check.fail("gradcheck", "%s", why) end
  if why then return false, why end
  return true
end
