--- correlation.lua -- the products of convolutions: forward, by input, by weight; each has the others as gradients.
-- In: x [batch, channels, places...], w [out, channels / groups, sizes...], g of the result's dims. Out: a tensor.
--
-- A window is a view: `unfold` gives each output's window as new last dims, a step over them is the dilation. All three
-- are one matrix product of which an operand is such a view: the core reads it where the image lies (ty.contract).
--   forward   y[b, o, p] = sum over c, k of w[o, c, k] x[b, c, p stride + k dilation - before]
--   input     x[b, c, i] = the same read the other way: what each y gives to the x's in its window
--   weight    w[o, c, k] = sum over b, p of y[b, o, p] x[b, c, p stride + k dilation - before]
-- Each is linear in both operands, and the sum of y * g = forward(x, w) * g = x * input(g, w) = w * weight(x, g). So
-- the gradients of each are the other two, and theirs are again these three: derivatives of any order cost one product
-- each. Of complex numbers, the operand that a gradient is made with is its conjugate.
--
-- `input` is a forward product too. At stride 1 its weight is turned around. A longer stride cuts the places of x into
-- as many phases, and each phase meets only every stride-th place of the weight: a product a phase, no zeros between
-- the places of g. Only where places are also dilated the zeros are written.
--
-- What a product knows (o) holds no sizes of tensors: gradients are the same function at all of them.

---@param ty table the core module
---@param complex table complex.lua
return function(ty, complex)
  local ceil, max, min = math.ceil, math.max, math.min
  local contract, is_complex = ty.contract, ty.is_complex
  local C = {}

  --- Pads the last n dims, before[i] and after[i] places; negative counts cut.
  function C.pad(x, n, before, after, value)
    local rank, amounts, any = x.ndim, {}, false
    for d = 1, rank do amounts[d] = { 0, 0 } end
    for i = 1, n do
      local d = rank - n + i
      if before[i] < 0 or after[i] < 0 then
        local first, last, length = max(0, -before[i]), max(0, -after[i]), x:size(d)
        x = x:narrow(d, 1 + min(first, length), max(length - first - last, 0))
      end
      amounts[d] = { max(0, before[i]), max(0, after[i]) }
      any = any or before[i] > 0 or after[i] > 0
    end
    return any and x:pad(amounts, value) or x
  end
  local pad = C.pad

  --- The windows of the last n dims as a view [..., out1, out2, k1, k2].
  function C.windows(x, n, kernel, stride, dilation)
    local first = x.ndim - n
    for i = 1, n do
      x = x:unfold(first + i, (kernel[i] - 1) * dilation[i] + 1, stride[i])
      if dilation[i] > 1 then x = x:slice(-1, 1, -1, dilation[i]) end
    end
    return x
  end

  local function range(list, from, count)
    for i = from, from + count - 1 do list[#list + 1] = i end
    return list
  end

  --- The windows of x [batch, channels, places...]: [batch, (group,) channels, out..., k...]; and the first dim of out.
  local function grouped(x, kernel, o)
    local view = C.windows(x, o.n, kernel, o.stride, o.dilation)
    if o.groups == 1 then return view, 3 end
    return view:unflatten(2, { o.groups, x:size(2) / o.groups }), 4
  end

  --- w [(group,) out, channels, k...] with the windows of x, which is padded: [batch, groups * out, out...].
  local function correlate(w, x, kernel, o)
    local n = o.n
    local view, at = grouped(x, kernel, o)
    local order = range(range(range({}, 1, at - 1), at + n, n), at, n)
    local y = contract(w:unsqueeze(1), view:permute(order), at - 2, 1 + n)
    return at == 3 and y or y:flatten(2, 3)
  end

  --- w [out, channels, k...] in groups of outputs.
  local function cut(w, groups) return groups == 1 and w or w:unflatten(1, { groups, w:size(1) / groups }) end

  local function forward(x, w, o)
    return correlate(cut(w, o.groups), pad(x, o.n, o.before, o.after, 0), o.kernel, o)
  end

  local function product(list)
    local n = 1
    for i = 1, #list do n = n * list[i] end
    return n
  end
  C.product = product

  --- The columns of a product are turned to lie side by side: so they are the fewer ones, of g or of the windows.
  local function weight(x, g, o)
    local n = o.n
    local view, at = grouped(pad(x, n, o.before, o.after, 0), o.kernel, o)
    local lead = {}
    if at == 4 then g, lead = g:unflatten(2, { o.groups, g:size(2) / o.groups }), { 2 } end
    local function order(...) -- behind the group: first dim and count of each run
      local list = { unpack(lead) }
      for i = 1, select("#", ...), 2 do range(list, (select(i, ...)), (select(i + 1, ...))) end
      return list
    end
    local c = at - 1 -- of channels
    local y
    if g:size(c) > view:size(c) * product(o.kernel) then
      local columns = view:permute(order(1, 1, at, n, c, 1, at + n, n))
      y = contract(g:permute(order(c, 1, 1, 1, at, n)), columns, at - 3, 1 + n)
    else
      local rows = view:permute(order(c, 1, at + n, n, 1, 1, at, n))
      local turned = contract(rows, g:permute(order(1, 1, at, n, c, 1)), at - 3, 1 + n)
      lead = range({}, 1, at - 3)
      y = turned:permute(order(c + n, 1, c - 1, 1 + n))
    end
    return at == 3 and y or y:flatten(1, 2)
  end

  --- Zeros between the places of the last n dims: n places become (n - 1) * stride + 1.
  function C.spread(x, n, stride)
    local rank = x.ndim
    for i = 1, n do
      local d, s = rank - n + i, stride[i]
      local length = x:size(d)
      if s > 1 and length > 0 then
        local amounts = {}
        for k = 1, rank + 1 do amounts[k] = { 0, k == d + 1 and s - 1 or 0 } end
        x = x:unsqueeze(d + 1):pad(amounts):flatten(d, d + 1):narrow(d, 1, (length - 1) * s + 1)
      end
    end
    return x
  end

  --- The places of one phase: those that are `phase` (from 0, a dim) behind a multiple of the stride.
  local function phase_of(g, w, o, phase, first, count)
    local n, kernel, before, after, ones, rank = o.n, {}, {}, {}, {}, w.ndim
    for i = 1, n do
      local d, s = rank - n + i, o.stride[i]
      if s > 1 then
        if phase[i] >= o.kernel[i] then return nil end
        w = w:slice(d, phase[i] + 1, -1, s)
      end
      kernel[i], ones[i] = w:size(d), 1
      before[i] = (kernel[i] - 1) * o.dilation[i] - first[i]
      after[i] = first[i] + count[i] - g:size(2 + i)
    end
    local turn = {}
    for i = 1, n do turn[i] = rank - n + i end
    return correlate(w:flip(turn), pad(g, n, before, after, 0), kernel,
      { n = n, groups = o.groups, stride = ones, dilation = o.dilation })
  end

  --- size: of the places of the result.
  local function input(g, w, o, size)
    local n, first, count, phases = o.n, {}, {}, {}
    local wide, dilated = product(o.stride) > 1, product(o.dilation) > 1
    w = cut(w, o.groups)
    w = w:transpose(-n - 2, -n - 1)
    if wide and dilated then
      g, wide = C.spread(g, n, o.stride), false
      local ones = {}
      for i = 1, n do ones[i] = 1 end
      o = { n = n, groups = o.groups, kernel = o.kernel, before = o.before, stride = ones, dilation = o.dilation }
    end
    for i = 1, n do
      local s = o.stride[i]
      first[i] = s == 1 and o.before[i] or 0
      count[i] = s == 1 and size[i] or ceil((size[i] + o.before[i]) / s)
    end
    if not wide then return phase_of(g, w, o, {}, first, count) end
    local zeros
    for k = 0, product(o.stride) - 1 do
      local phase, rest = {}, k
      for i = n, 1, -1 do
        phase[i] = rest % o.stride[i]
        rest = (rest - phase[i]) / o.stride[i]
      end
      phases[k + 1] = phase_of(g, w, o, phase, first, count) or false
      zeros = zeros or phases[k + 1] and ty.zeros_like(phases[k + 1])
    end
    for k = 1, #phases do phases[k] = phases[k] or zeros end
    local y = ty.stack(phases, -1):unflatten(-1, o.stride) -- [batch, channels, places..., phases...]
    local order = { 1, 2 }
    for i = 1, n do order[1 + 2 * i], order[2 + 2 * i] = 2 + i, 2 + n + i end
    y = y:permute(order)
    for i = 1, n do
      y = y:flatten(2 + i, 3 + i)
      if o.stride[i] > 1 then y = y:narrow(2 + i, o.before[i] + 1, size[i]) end
    end
    return y
  end

  ---------------------------------------------------------------------------------------------------------- gradients

  local core = ty.internals.grad
  local mode, tracked = core.mode, ty.internals.vmap.tracked

  local function like(y, x)
    if y.dtype == x.dtype then return y end
    if is_complex(y) and not is_complex(x) then y = y:real() end -- an imaginary part changes nothing of a real number's
    return y:to(x.dtype)
  end

  --- The sizes of the last n dims.
  local function last_sizes(x, n)
    local sizes = {}
    for i = 1, n do sizes[i] = x:size(x.ndim - n + i) end
    return sizes
  end
  C.last_sizes = last_sizes

  local function conjugate(x) return is_complex(x) and complex.conjugate(x) or x end

  --- fn(a, b, o, size), whose gradients are left(a, b, g, o) and right(a, b, g, o).
  local function ruled(fn, left, right)
    local function rule(saved, g, w)
      local p, q = saved[1], saved[2]
      local a, b = conjugate(p), conjugate(q)
      return w.left and like(left(a, b, g, w.o), p) or nil, w.right and like(right(a, b, g, w.o), q) or nil
    end
    return function(a, b, o, size)
      local na, nb = tracked(a), tracked(b)
      if not (na or nb) or not mode() then return fn(a, b, o, size) end
      local function forward_of(p, q) return fn(p, q, o, size), { p, q } end
      return core.pure(forward_of, rule, { left = na, right = nb, o = o })(a, b)
    end
  end

  C.forward = ruled(forward, function(x, w, g, o) return C.input(g, w, o, last_sizes(x, o.n)) end,
    function(x, _, g, o) return C.weight(x, g, o) end)
  C.input = ruled(input, function(_, w, u, o) return C.forward(u, w, o) end,
    function(g, _, u, o) return C.weight(u, g, o) end)
  C.weight = ruled(weight, function(x, g, u, o) return C.input(g, u, o, last_sizes(x, o.n)) end,
    function(x, _, u, o) return C.forward(x, u, o) end)

  return C
end
