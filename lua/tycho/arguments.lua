--- arguments.lua -- arguments of the functions written in Lua.
-- In: the name of the function, the argument's number, the value. Out: the value, or its default.
-- Everything raises at the user's file:line with a text that begins with the function's name, before anything is
-- recorded.

local type, tostring, select, pcall, error, pairs = type, tostring, select, pcall, error, pairs
local format, find, sub = string.format, string.find, string.sub
local concat, sort, min = table.concat, table.sort, math.min

---@param ty table the core module
return function(ty)
  local M = {}

  local is_tensor, is_live = ty.is_tensor, ty.internals.is_live
  local raise, nearest = ty.internals.error, ty.internals.nearest
  local HUGE = 2 ^ 53
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true, c64 = true, c128 = true }

  --- Raises `who: text`.
  ---@param who string
  ---@param fmt string
  function M.fail(who, fmt, ...)
    return raise(who .. ": " .. format(fmt, ...))
  end

  local fail = M.fail

  --- The text f32[2,3] of a tensor.
  function M.text(x) return format("%s[%s]", x.dtype, concat(x.shape, ",")) end

  --- What a value is, for error texts.
  function M.show(v)
    if is_live(v) then return "tensor " .. M.text(v) end
    if is_tensor(v) then return "released tensor" end
    if type(v) == "number" then return format("number %.14g", v) end
    if type(v) == "string" then return format("string %q", sub(v, 1, 40)) end
    return v == nil and "nil" or type(v) == "boolean" and tostring(v) or type(v)
  end

  local show = M.show

  --- The same where a tensor is expected: its dtype and sizes alone.
  function M.got(v) return is_live(v) and M.text(v) or show(v) end

  function M.tensor(who, i, x)
    if is_live(x) then return x end
    if is_tensor(x) then fail(who, "tensor was released") end
    return fail(who, "argument %d must be a tensor, got %s", i, show(x))
  end

  --- Raises where two tensors lie on different devices.
  function M.same_device(who, x, y)
    if x.device == y.device then return end
    fail(who, "operands lie on %q and %q (move one with :to)", x.device, y.device)
  end

  --- A tensor of other numbers than complex ones.
  function M.real(who, i, x)
    M.tensor(who, i, x)
    if not ty.is_complex(x) then return x end
    local hint = "not for complex numbers: take :real(), :imag() or :abs()"
    return fail(who, "argument %d must be real, got %s (%s)", i, M.text(x), hint)
  end

  --- A tensor of so many dims.
  function M.rank(who, i, x, want)
    M.tensor(who, i, x)
    if x.ndim ~= want then
      fail(who, "argument %d must have %d dim%s, got %s", i, want, want == 1 and "" or "s", M.text(x))
    end
    return x
  end

  --- A tensor of floats; other dtypes raise with a hint.
  function M.float(who, i, x)
    M.tensor(who, i, x)
    local dtype = x.dtype
    if dtype == "f32" or dtype == "f64" or dtype == "f16" or dtype == "bf16" then return x end
    local hint = ty.is_complex(x) and "not for complex numbers: take :real(), :imag() or :abs()" or "use :to(\"f32\")"
    return fail(who, "argument %d must be of floats, got %s (%s)", i, M.text(x), hint)
  end

  --- A tensor, number or boolean.
  function M.operand(who, i, x)
    if is_live(x) or type(x) == "number" or type(x) == "boolean" then return x end
    if is_tensor(x) then fail(who, "tensor was released") end
    return fail(who, "argument %d must be a tensor or a number, got %s", i, show(x))
  end

  --- Whether the shapes broadcast to each other.
  local function broadcasts(a, b)
    local sa, sb = a.shape, b.shape
    for i = 0, min(#sa, #sb) - 1 do
      local p, q = sa[#sa - i], sb[#sb - i]
      if p ~= q and p ~= 1 and q ~= 1 then return false end
    end
    return true
  end

  --- Two operands, at least one a tensor, whose shapes broadcast.
  function M.pair(who, a, b)
    M.operand(who, 1, a)
    M.operand(who, 2, b)
    local ta, tb = is_tensor(a), is_tensor(b)
    if not (ta or tb) then fail(who, "one argument must be a tensor, got %s and %s", show(a), show(b)) end
    if ta and tb and not broadcasts(a, b) then
      fail(who, "sizes do not broadcast, %s and %s", M.text(a), M.text(b))
    end
  end

  --- As pair, without booleans.
  function M.numbers(who, a, b)
    for i, v in pairs { a, b } do
      if type(v) == "boolean" then fail(who, "argument %d must be a tensor or a number, got %s", i, show(v)) end
    end
    return M.pair(who, a, b)
  end

  --- The same of numbers that have an order.
  function M.reals(who, a, b)
    M.numbers(who, a, b)
    for i, v in pairs { a, b } do
      if is_tensor(v) then M.real(who, i, v) end
    end
  end

  --- Two operands of a function of floats: integers in the dtype of the other one, or the default.
  function M.floats(a, b)
    local dtype
    for _, v in pairs { a, b } do
      if is_tensor(v) and floats[v.dtype] then dtype = v.dtype end
    end
    dtype = dtype or ty.default_dtype()
    if is_tensor(a) and not floats[a.dtype] then a = a:to(dtype) end
    if is_tensor(b) and not floats[b.dtype] then b = b:to(dtype) end
    return a, b
  end

  --- Argument i broadcasts with the tensor x.
  function M.fits(who, i, x, v)
    M.operand(who, i, v)
    if is_tensor(v) and not broadcasts(x, v) then
      fail(who, "sizes do not broadcast, %s and %s", M.text(x), M.text(v))
    end
    return v
  end

  --- Arguments whose shapes broadcast all together; what is not a tensor does.
  function M.together(who, ...)
    local joint, first = {}, nil -- sizes from the last dim on
    for i = 1, select("#", ...) do
      local v = select(i, ...)
      if is_tensor(v) then
        first = first or v
        local own = v.shape
        for k = 1, #own do
          local size = own[#own - k + 1]
          if joint[k] == nil or joint[k] == 1 then joint[k] = size
          elseif size ~= 1 and size ~= joint[k] then
            fail(who, "sizes do not broadcast, %s and %s", M.text(first), M.text(v))
          end
        end
      end
    end
  end

  function M.number(who, i, v, what, default)
    if v == nil then v = default end
    if type(v) == "number" then return v end
    return fail(who, "argument %d (%s) must be a number, got %s", i, what, show(v))
  end

  function M.whole(who, i, v, what, default)
    v = M.number(who, i, v, what, default)
    if v % 1 == 0 and v > -HUGE and v < HUGE then return v end
    return fail(who, "argument %d (%s) must be a whole number, got %s", i, what, show(v))
  end

  function M.boolean(who, i, v, what, default)
    if v == nil then return default end
    if type(v) == "boolean" then return v end
    return fail(who, "argument %d (%s) must be true or false, got %s", i, what, show(v))
  end

  --- A dim, 1-based or negative, to 1-based.
  function M.dim(who, d, rank, default)
    if d == nil then d = default end
    if type(d) ~= "number" or d % 1 ~= 0 then fail(who, "a dim must be a whole number, got %s", show(d)) end
    if d >= 1 and d <= rank then return d end
    if d <= -1 and d >= -rank then return d + rank + 1 end
    if rank == 0 then return fail(who, "dim %g is out of range, the tensor has no dims", d) end
    return fail(who, "dim %g is out of range 1..%d, or -%d..-1 from the end", d, rank, rank)
  end

  --- A dim or a list of dims, each once, as an ascending list; nil gives nil: all dims.
  function M.dims(who, dims, rank)
    if dims == nil then return nil end
    if type(dims) ~= "table" then return { M.dim(who, dims, rank) } end
    local list, seen = {}, {}
    for i = 1, #dims do
      local d = M.dim(who, dims[i], rank)
      if seen[d] then fail(who, "dim %d is given twice", d) end
      seen[d], list[i] = true, d
    end
    if #list == 0 then fail(who, "an empty list of dims (leave it out for all)") end
    sort(list)
    return list
  end

  --- A table with a string key.
  function M.is_options(v)
    if type(v) ~= "table" then return false end
    for k in pairs(v) do
      if type(k) == "string" then return true end
    end
    return false
  end

  --- PyTorch's and NumPy's names of options: what they are called here.
  local others = {
    axis = "dim", batch_size = "batch", collate_fn = "collate", dim_feedforward = "inner",
    elementwise_affine = "affine", initial_accumulator_value = "initial_accumulator", keepdims = "keepdim",
    kernel_size = "kernel", negative_slope = "slope", num_decoder_layers = "decoder_layers",
    num_encoder_layers = "encoder_layers", num_layers = "layers", num_workers = "workers", prefetch_factor = "ahead",
    scale_factor = "scale", track_running_stats = "track",
  }

  M.others = others

  --- Options under the names that they have here, where some have others'.
  local function own_names(opts, known)
    local list
    for k in pairs(opts) do
      local own = others[k]
      if own and not known[k] and known[own] and opts[own] == nil then
        if not list then
          list = {}
          for key, v in pairs(opts) do list[key] = v end
        end
        list[own], list[k] = opts[k], nil
      end
    end
    return list or opts
  end

  --- Options: each key must stand in `known` (name to type), each value be of that type. A name that others have for
  --- one of them is that one.
  function M.options(who, opts, known)
    if opts == nil then return {} end
    if type(opts) ~= "table" then fail(who, "the options must be a table, got %s", show(opts)) end
    opts = own_names(opts, known)
    for k, v in pairs(opts) do
      local want = known[k]
      if not want then
        local near = type(k) == "string" and nearest(k, known)
        local names = {}
        for name in pairs(known) do names[#names + 1] = name end
        sort(names)
        fail(who, "unknown option %s%s; %s", tostring(k), near and format(", did you mean %s?", near) or "",
          #names > 0 and "known: " .. concat(names, " ") or "there are none")
      end
      if want ~= "any" and type(v) ~= want then fail(who, "option %s must be a %s, got %s", k, want, show(v)) end
    end
    return opts
  end

  --- What a call of pcall gave; an error under the name `who`. inner: the name that it has; nil: any.
  local function renamed(who, inner, ok, ...)
    if ok then return ... end
    local y = ...
    if type(y) == "string" then
      local from, to
      if inner then from, to = find(y, inner .. ": ", 1, true)
      else
        local _, place = find(y, "^[^\n]-:%d+: ")
        from, to = find(y, "^[%w_%.]+: ", (place or 0) + 1)
      end
      if from then y = sub(y, 1, from - 1) .. who .. ": " .. sub(y, to + 1) end
    end
    return error(y, 0)
  end

  --- Calls fn, whose errors begin with `inner`, and raises them under the name `who`: for checks of data, which only
  --- the inner function can do, and for the form with a trailing _.
  function M.named(who, inner, fn, ...) return renamed(who, inner, pcall(fn, ...)) end

  --- The same of a function that calls several: its errors begin with the name of any.
  function M.under(who, fn, ...) return renamed(who, nil, pcall(fn, ...)) end

  return M
end
