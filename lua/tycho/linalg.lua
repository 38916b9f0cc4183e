--- linalg.lua -- gradients of linear algebra: what LAPACK computes, differentiated by rules of matrices.
-- In: ty.linalg as the core fills it, which reads its operands; what grad.lua tapes functions of the user's with.
-- Out: the same functions, taped where an argument requires grad, batched by vmap. Raises what they raise.
--
-- A rule gets the results' gradients (nil: none came), the results and the arguments, all in the results' dtype, and
-- gives the gradient of each argument. G stands for the gradient of X; t(X) for the transpose of the last two dims, of
-- complex matrices the conjugate one: with it the rules of real matrices are those of complex ones.
-- 1. Rules are made of operations that have gradients themselves. While a gradient is to be differentiated again, the
--    results lead back to the function once more; inside of a vmap they are computed again from the arguments, since
--    those that were kept know no past there.
-- 2. Leading dims are stacks. What was broadcast is summed at the end.
-- 3. Decompositions are differentiable where they are unique up to signs: full rank, and for gradients of vectors
--    different singular values or eigenvalues. Elsewhere gradients are infinite or NaN, as they are in the limit.
-- 4. eigh and cholesky read one half of a symmetric matrix; their gradients are symmetric.
-- 5. Complex eigenvectors and singular vectors may be turned by any phase. A loss that depends on it has no gradient:
--    the rules raise.
-- Sources: Giles, An extended collection of matrix derivative results (2008); Walter and Lehmann, Algorithmic
-- differentiation of linear algebra functions (2010); Golub and Pereyra (1973) for the pseudo-inverse; Seeger and
-- others, Auto-differentiating linear algebra (2017); Boeddeker and others, On the computation of complex-valued
-- gradients (2017) for eig.

---@param ty table the core module
---@param grad table of grad.lua: taped, keep, no_grad
return function(ty, grad)
  local linalg, core = ty.linalg, ty.internals.grad
  setmetatable(ty.internals.linalg, { __index = function(own, name) -- when a tensor on a device first comes
    setmetatable(own, nil)
    require("tycho.linalg_device")(ty, own)
    return own[name]
  end })
  local mode = core.mode
  local no_grad, taped, keep, all_examples = grad.no_grad, grad.taped, grad.keep, grad.all_examples
  local is_live, tracked = ty.internals.is_live, ty.internals.vmap.tracked

  local is_complex, check = ty.is_complex, require("tycho.arguments")(ty)

  local function t(x)
    x = x:transpose(-2, -1)
    return is_complex(x) and x:conj() or x
  end
  local function sum(a, b) return a and b and a + b or a or b end
  local function half_symmetric(x) return (x + t(x)) * 0.5 end
  local function eye(n, like) return ty.eye(n, { dtype = like.dtype, device = like.device }) end

  --- The strictly lower triangle, and half of the diagonal.
  local function half_lower(x) return (x:tril() + x:tril(-1)) * 0.5 end

  --- x made of the dims and dtype of `like`: what was broadcast is summed. Of a real argument the gradient is real.
  local function fit(x, like)
    if is_complex(x) and not is_complex(like) then x = x:real() end
    local have, want = x.shape, like.shape
    local gap, dims = #have - #want, {}
    for d = 1, #have do
      if d <= gap or (want[d - gap] == 1 and have[d] ~= 1) then dims[#dims + 1] = d end
    end
    if #dims > 0 then x = x:sum(dims, true) end
    return x:reshape(want):to(like.dtype)
  end

  --- b as columns: a vector is one.
  local function columns(b) return b.ndim == 1 and b:unsqueeze(-1) or b end

  --- 1 / (w_j - w_i), 0 on the diagonal.
  local function inverse_gaps(w)
    local one = eye(w:size(-1), w)
    return (1 - one) / (w:unsqueeze(-2) - w:unsqueeze(-1) + one)
  end

  --- a^-T
  local function inverse_of_transpose(a) return t(linalg.inv(a)) end

  --- conj(det(a)) a^-T by products of all singular values but one: right where a has no inverse, or nearly none. To be
  --- differentiated again it is made of the inverse, if there is one, since singular values may be equal.
  local function cofactors(det, a)
    if mode() then
      local ok, inverse = ty.internals.protect(inverse_of_transpose, a)
      if ok then return inverse * ty.conj(det):unsqueeze(-1):unsqueeze(-1) end
      if not tostring(inverse):find("singular", 1, true) then error(inverse, 0) end
    end
    local u, s, vt = linalg.svd(a)
    local n = s:size(-1)
    local others = (s:unsqueeze(-2) * (1 - eye(n, s)) + eye(n, s)):prod(-1)
    local sign = (linalg.det(u) * linalg.det(vt)):unsqueeze(-1):unsqueeze(-1)
    return (u * others:unsqueeze(-2)):matmul(vt) * ty.conj(sign)
  end

  --- The pseudo-inverse p of a [m, n]: the gradient of a for the gradient g of p.
  local function pinv_rule(g, p, a)
    local gt, pt = t(g), t(p)
    if a:size(-2) <= a:size(-1) then
      local k = gt:matmul(p)
      local kp = k:matmul(pt)
      return kp - t(p:matmul(k)) - a:matmul(p):matmul(kp) + pt:matmul(p):matmul(gt - k:matmul(a))
    end
    local k = p:matmul(gt)
    local pk = pt:matmul(k)
    return pk - t(k:matmul(p)) + (gt - a:matmul(k)):matmul(p):matmul(pt) - pk:matmul(p):matmul(a)
  end

  --- Of a = q r with as many rows as columns, or more: r is square.
  local function tall_qr_rule(gq, gr, q, r)
    local m = half_lower(sum(gr and r:matmul(t(gr)), gq and -t(gq):matmul(q)))
    local g = q:matmul(m + t(m))
    if gq then g = g + gq end
    return t(linalg.solve(r, t(g)))
  end

  --- Raises unless the imaginary part of a diagonal is 0, nearly: the way that a phase turns.
  local function phase_free(who, x)
    if not is_complex(x) or ty.internals.vmap.level() > 0 then return end
    local turn = x:detach():diagonal(0, -2, -1):imag():abs()
    if turn:numel() > 0 and turn:max():item() > 1e-2 then
      ty.internals.error(who .. ": the loss depends on the phases of complex vectors, which are arbitrary: it has no "
        .. "gradient (use their magnitudes, or products in which phases cancel)")
    end
  end

  local rules = {}

  function rules.inv(g, x)
    return -(t(x):matmul(g[1]):matmul(t(x)))
  end

  function rules.det(g, det, a)
    return cofactors(det, a) * g[1]:unsqueeze(-1):unsqueeze(-1)
  end

  --- a x = b: the gradient of b is a^-T G, that of a is -(a^-T G) x^T.
  function rules.solve(g, x, a, b)
    local vector = b.ndim == 1
    local gb = linalg.solve(t(a), vector and g[1]:unsqueeze(-1) or g[1])
    local ga = -gb:matmul(t(vector and x:unsqueeze(-1) or x))
    return ga, vector and gb:squeeze(-1) or gb
  end

  --- x = p b with the pseudo-inverse p of a.
  function rules.lstsq(g, _, a, b)
    local vector, rows = b.ndim == 1, eye(a:size(-2), a)
    local gx, p = vector and g[1]:unsqueeze(-1) or g[1], linalg.lstsq(a, rows)
    local gb = t(p):matmul(gx)
    return pinv_rule(gx:matmul(t(columns(b))), p, a), vector and gb:squeeze(-1) or gb
  end

  function rules.cholesky(g, l)
    local lt = t(l)
    local s = linalg.solve(lt, half_lower(lt:matmul(g[1])))
    return half_symmetric(t(linalg.solve(lt, t(s))))
  end

  function rules.qr(g, q, r, a)
    local m, n = a:size(-2), a:size(-1)
    if m >= n then return tall_qr_rule(g[1], g[2], q, r) end
    -- a = [x, y] with x square: x = q u, y = q v
    local y = a:narrow(-1, m + 1, n - m)
    local gu = g[2] and g[2]:narrow(-1, 1, m)
    local gv = g[2] and g[2]:narrow(-1, m + 1, n - m)
    local gq = sum(g[1], gv and y:matmul(t(gv)))
    local gx = tall_qr_rule(gq, gu, q, r:narrow(-1, 1, m))
    return ty.cat({ gx, gv and q:matmul(gv) or ty.zeros_like(y) }, -1)
  end

  function rules.svd(g, u, s, vt)
    local gu, gs, gvt = g[1], g[2], g[3]
    local v, row, column = t(vt), s:unsqueeze(-2), s:unsqueeze(-1)
    if not (gu or gvt) then return (u * (gs * 1):unsqueeze(-2)):matmul(vt) end
    local gaps, k = inverse_gaps(s * s), s:size(-1)
    local inner, turn = gs and eye(k, s) * gs:unsqueeze(-2), nil
    if gu then
      local x = t(u):matmul(gu)
      inner, turn = sum(inner, (x - t(x)) * gaps * row), x
    end
    if gvt then
      local x = vt:matmul(t(gvt))
      inner, turn = sum(inner, column * ((x - t(x)) * gaps)), sum(turn, x)
    end
    phase_free("svd", turn)
    if gu and gvt and is_complex(u) then -- both may turn, each against the other
      local x = t(u):matmul(gu)
      inner = inner + eye(k, s) * ((x - t(x)) / (2 * row))
    end
    local y = u:matmul(inner):matmul(vt)
    if gu and u:size(-2) > k then
      local w = gu / row
      y = y + (w - u:matmul(t(u):matmul(w))):matmul(vt)
    end
    if gvt and v:size(-2) > k then
      local w = gvt / column
      y = y + u:matmul(w - w:matmul(v):matmul(vt))
    end
    return y
  end

  function rules.eigh(g, w, v)
    local gw, gv = g[1], g[2]
    local inner = gw and eye(w:size(-1), w) * gw:unsqueeze(-2)
    if gv then
      local x = t(v):matmul(gv)
      phase_free("eigh", x)
      inner = sum(inner, x * inverse_gaps(w))
    end
    return half_symmetric(v:matmul(inner):matmul(t(v)))
  end

  --- Of different eigenvalues. The eigenvectors have length 1, which takes a part of their gradient away.
  function rules.eig(g, w, v)
    local gw, gv, vt = g[1], g[2], t(v)
    local one = eye(w:size(-1), w)
    local inner = gw and one * gw:unsqueeze(-2)
    if gv then
      local x = vt:matmul(gv)
      phase_free("eig", x)
      local own = x - vt:matmul(v * x:diagonal(0, -2, -1):real():unsqueeze(-2))
      local gaps = (w:unsqueeze(-2) - w:unsqueeze(-1) + one):conj()
      inner = sum(inner, own * (1 - one) / gaps)
    end
    return linalg.solve(vt, inner:matmul(vt))
  end

  --- The sign of a real determinant is constant, that of a complex one turns with the logarithm's imaginary part.
  function rules.slogdet(g, sign, _, a)
    local gl = g[2]
    if is_complex(a) then
      local turn = g[1] and (g[1]:conj() * sign):imag()
      gl = ty.complex(gl or ty.zeros_like(turn), turn and -turn or 0)
    end
    return gl and t(linalg.inv(a)) * gl:unsqueeze(-1):unsqueeze(-1)
  end

  --- Of square matrices: a = p l u.
  function rules.lu(g, p, l, u, a)
    local gl, gu = g[2], g[3]
    if not (gl or gu) then return nil end
    if a:size(-2) ~= a:size(-1) then
      ty.internals.error("lu: the gradient needs square matrices")
    end
    local inner = sum(gl and t(l):matmul(gl):tril(-1), gu and gu:matmul(t(u)):triu())
    local left = linalg._solve_triangular(t(l), inner, true, true) -- l^-T inner u^-T
    return p:matmul(t(linalg._solve_triangular(u, t(left), true, false)))
  end

  --- a x = b with a triangle.
  function rules._solve_triangular(g, x, a, _, upper, unit)
    local gb = linalg._solve_triangular(t(a), g[1], not upper, unit)
    local ga = -gb:matmul(t(x))
    if unit then return upper and ga:triu(1) or not upper and ga:tril(-1) or nil, gb end
    return upper and ga:triu() or not upper and ga:tril() or nil, gb
  end

  --- The arguments of a rule: results, then arguments, cast to the results' dtype, then what the function was given
  --- beside them.
  local function operands(fn, kept, results, more, back)
    if mode() and back then
      local past = {}
      for i, y in ipairs(results) do past[i] = core.result(back, i, y) end
      results = past
    elseif mode() then
      local args = { unpack(kept, 1, kept.n) }
      for i = 1, more.n do args[kept.n + i] = more[i] end
      results = { fn(unpack(args, 1, kept.n + more.n)) }
    end
    local list, n = {}, #results
    for i = 1, n do list[i] = results[i] end
    for i = 1, kept.n do
      local x = kept[i]
      list[n + i] = (is_complex(x) and not is_complex(results[1])) and x or x:to(results[1].dtype)
    end
    n = n + kept.n
    for i = 1, more.n do list[n + i] = more[i] end
    return list, n + more.n
  end

  local function needs(x) return is_live(x) and tracked(x) end

  --- Makes fn, whose first `wants` arguments are tensors, ty.linalg[name] with a rule for its gradient.
  local function ruled(name, fn, rule, wants)
    local again
    function again(...)
      local a, b = ...
      if wants == 1 then b = nil end
      if not (mode() and (needs(a) or needs(b))) then return all_examples(name, fn, ...) end
      local args = { n = math.min(select("#", ...), wants), a, b }
      local more = { n = math.max(0, select("#", ...) - wants), select(wants + 1, ...) }
      local results = { no_grad(all_examples, name, fn, ...) }
      local kept, known = keep(args), keep(results)
      return unpack(taped(args, results, function(gradients, back)
        local list, n = operands(again, kept, known, more, back)
        local given = { rule(gradients, unpack(list, 1, n)) }
        for i = 1, kept.n do given[i] = given[i] and needs(kept[i]) and fit(given[i], kept[i]) or nil end
        return given
      end))
    end
    linalg[name] = again
  end

  -- By eig where a gradient may be wanted, since it is made of the vectors.
  local eigvals = linalg.eigvals
  function linalg.eigvals(a)
    if not (is_live(a) and mode() and tracked(a)) then return all_examples("eigvals", eigvals, a) end
    local w = check.named("eigvals", "eig", linalg.eig, a)
    return w
  end

  for name, rule in pairs(rules) do
    local two = name == "solve" or name == "lstsq" or name == "_solve_triangular"
    ruled(name, linalg[name], rule, two and 2 or 1)
  end
  require("tycho.matrices")(ty, ruled, pinv_rule)
end
