--- linalg_spec.lua -- linear algebra by OpenBLAS's LAPACK, and products by its BLAS where they are wished. Skipped without it.
-- Gradients against PyTorch's (fixtures/linalg.lua, made by fixtures/make_linalg.py) and against differences.

local H = require "spec.helper"
local ty = H.ty

local available = ty.blas(true)
ty.blas(false)

--- Largest difference of two tensors.
local function far(a, b) return (a - b):abs():max():item() end

local function random(dtype, ...)
  return ty.uniform(-1, 1, { ... }, { dtype = dtype })
end

local small = { f32 = 2e-5, f64 = 1e-12 }

describe("linalg", function()
  if not available then
    pending("is skipped: OpenBLAS is not here")
    return
  end
  local la = ty.linalg
  before_each(function() ty.manual_seed(17) end)
  after_each(function() ty.manual_seed() end)

  for _, dtype in ipairs { "f32", "f64" } do
    local eps = small[dtype]
    local function well(n) return random(dtype, n, n) + ty.eye(n, { dtype = dtype }) * (n / 2 + 1) end

    it("solve and inv undo the product, " .. dtype, function()
      for _, n in ipairs { 1, 2, 5, 33 } do
        local a, b = well(n), random(dtype, n, 3)
        local x = la.solve(a, b)
        assert.same({ dtype, { n, 3 } }, { x.dtype, x.shape })
        assert.truthy(far(a:matmul(x), b) < eps)
        assert.truthy(far(a:matmul(la.inv(a)), ty.eye(n, { dtype = dtype })) < eps)
        local v = b[{ {}, 1 }]
        assert.same({ n }, la.solve(a, v).shape)
        assert.truthy(far(a:matmul(la.solve(a, v)), v) < eps)
      end
    end)

    it("det is that of known matrices and multiplies, " .. dtype, function()
      assert.near(-2, la.det(ty.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = dtype })):item(), 1e-6)
      assert.near(24, la.det(ty.tensor({ { 2, 9, 9 }, { 0, 3, 9 }, { 0, 0, 4 } }, { dtype = dtype })):item(), 1e-5)
      assert.equal(0, la.det(ty.ones({ 3, 3 }, { dtype = dtype })):item())
      local a, b = well(4), well(4)
      local p = la.det(a) * la.det(b)
      assert.near(1, (la.det(a:matmul(b)) / p):item(), 1e-4)
    end)

    it("cholesky gives a lower triangle whose square is the matrix, " .. dtype, function()
      for _, n in ipairs { 1, 4, 20 } do
        local m = random(dtype, n, n)
        local a = m:matmul(m:t()) + ty.eye(n, { dtype = dtype })
        local l = la.cholesky(a)
        assert.truthy(far(l:matmul(l:t()), a) < eps * n)
        H.same(l:tril(), l)
        assert.truthy(l:diagonal():gt(0):all():item())
      end
    end)

    it("qr gives orthonormal columns and an upper triangle, " .. dtype, function()
      for _, s in ipairs { { 4, 4 }, { 7, 3 }, { 3, 7 } } do
        local a = random(dtype, s[1], s[2])
        local q, r = la.qr(a)
        assert.truthy(far(q:matmul(r), a) < eps)
        assert.truthy(far(q:t():matmul(q), ty.eye(q:size(2), { dtype = dtype })) < eps)
        H.same(r:triu(), r)
      end
    end)

    it("svd gives descending values and orthonormal factors, " .. dtype, function()
      for _, s in ipairs { { 5, 5 }, { 6, 3 }, { 3, 6 } } do
        local a = random(dtype, s[1], s[2])
        local u, v, w = la.svd(a)
        assert.truthy(far((u * v):matmul(w), a) < eps)
        assert.truthy(far(u:t():matmul(u), ty.eye(u:size(2), { dtype = dtype })) < eps)
        assert.truthy(far(w:matmul(w:t()), ty.eye(w:size(1), { dtype = dtype })) < eps)
        local list = v:totable()
        for i = 2, #list do assert.truthy(list[i] <= list[i - 1] and list[i] >= 0) end
      end
    end)

    it("eigh gives ascending values and vectors of a symmetric matrix, " .. dtype, function()
      local m = random(dtype, 9, 9)
      local a = m + m:t()
      local w, v = la.eigh(a)
      assert.truthy(far(a:matmul(v), v * w) < eps * 10)
      assert.truthy(far(v:t():matmul(v), ty.eye(9, { dtype = dtype })) < eps)
      H.same(w, (w:sort()))
    end)

    it("eig gives eigenvalues and vectors of any square matrix, " .. dtype, function()
      local complex = dtype == "f64" and "c128" or "c64"
      for _, n in ipairs { 1, 2, 3, 8, 21 } do
        for _, a in ipairs { random(dtype, n, n), ty.complex(random(dtype, n, n), random(dtype, n, n)) } do
          local w, v = la.eig(a)
          assert.same({ complex, complex, { n }, { n, n } }, { w.dtype, v.dtype, w.shape, v.shape })
          assert.truthy(far(a:to(complex):matmul(v), v * w) < eps * 10)
          assert.truthy(far(v:abs():pow(2):sum(-2), ty.ones({ n }, { dtype = dtype })) < eps)
          for j = 1, n do -- the largest component of each vector is real
            local column = v[{ {}, j }]
            assert.truthy(math.abs(column[column:abs():argmax()]:imag():item()) < eps)
          end
          assert.truthy(far(la.eigvals(a):sum(), a:to(complex):trace()) < eps * 10)
          local det = la.det(a):to(complex)
          assert.truthy(far(la.eigvals(a):prod(), det) < eps * 10 * (1 + det:abs():item()))
        end
      end
    end)

    it("eig gives conjugate pairs of a real matrix, and real eigenvalues as such, " .. dtype, function()
      local a = ty.tensor({ { 0, 2, 0 }, { -2, 0, 0 }, { 0, 0, 3 } }, { dtype = dtype })
      local w, v = la.eig(a)
      local list = H.list(ty.view_as_real(w))
      assert.near(2, list[2], eps)
      assert.same({ 0, list[2], 0, -list[2], 3, 0 }, list)
      H.same(v:real()[{ {}, 1 }], v:real()[{ {}, 2 }])
      H.same(-v:imag()[{ {}, 1 }], v:imag()[{ {}, 2 }])
      assert.same({ 0, 0, 0 }, H.list(v:imag()[{ {}, 3 }]))
    end)

    it("lstsq meets the normal equations, " .. dtype, function()
      local a, b = random(dtype, 12, 4), random(dtype, 12, 2)
      local x = la.lstsq(a, b)
      assert.same({ 4, 2 }, x.shape)
      assert.truthy(far(a:t():matmul(a:matmul(x)), a:t():matmul(b)) < eps * 10)
      local wide = random(dtype, 3, 8)
      local y = la.lstsq(wide, ty.ones({ 3 }, { dtype = dtype }))
      assert.truthy(far(wide:matmul(y), ty.ones({ 3 }, { dtype = dtype })) < eps * 10)
    end)
  end

  it("takes stacks of matrices, views, integers, and nothing", function()
    local a = random("f64", 2, 3, 4, 4) + ty.eye(4, { dtype = "f64" }) * 4
    local b = random("f64", 2, 3, 4, 2)
    local x = la.solve(a, b)
    for i = 1, 2 do
      for j = 1, 3 do H.same(la.solve(a[{ i, j }], b[{ i, j }]), x[{ i, j }]) end
    end
    assert.same({ 2, 3 }, la.det(a).shape)
    local t = a[{ 1, 1 }]:t()
    H.same(la.inv(t:clone()), la.inv(t))
    assert.near(-2, la.det(ty.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = "i32" })):item(), 1e-6)
    assert.same({ 0, 0 }, la.inv(ty.zeros(0, 0)).shape)
    local w, v = la.eig(ty.zeros(2, 0, 0))
    assert.same({ { 2, 0 }, { 2, 0, 0 }, "c64" }, { w.shape, v.shape, w.dtype })
    local vs, c = a[{ 1, {}, {}, {} }], ty.complex(a, a:flip(-1))
    for i = 1, 3 do
      H.same(ty.view_as_real(la.eigvals(vs[i])), ty.view_as_real(la.eigvals(vs)[i]))
      H.same(ty.view_as_real(la.inv(c[1][i])), ty.view_as_real(la.inv(c)[{ 1, i }]))
      H.same(ty.view_as_real(la.inv(c[1][i]:t():clone())), ty.view_as_real(la.inv(c[1][i]:t())))
    end
    assert.equal("c64", la.eigvals(ty.eye(2):to("bf16")).dtype)
    local pairs_apart = ty.view_as_complex(ty.randn(1 + 2 * 9 * 3):narrow(1, 2, 54):unfold(1, 2, 3):narrow(1, 1, 16):reshape(4, 4, 2))
    H.same(ty.view_as_real(la.det(pairs_apart:clone())), ty.view_as_real(la.det(pairs_apart)))
    assert.equal(1, la.det(ty.zeros(0, 0)):item())
    assert.same({ 0, 3, 3 }, la.inv(ty.zeros(0, 3, 3)).shape)
  end)

  it("is the same compiled", function()
    local a, b = random("f32", 6, 6) + ty.eye(6) * 3, random("f32", 6, 2)
    local f = function(m, v) return la.solve(m + 1, v * 2), la.det(m), la.inv(m):sum() end
    local p, q, r = f(a, b)
    local s, t, u = ty.compile(f)(a, b)
    H.same(p, s)
    H.same(q, t)
    H.same(r, u)
  end)

  it("raises for singular matrices and shapes that do not fit, with function and shapes", function()
    local one = ty.ones(3, 3)
    assert.truthy(H.raises(la.inv, one):find("^inv: .*singular"))
    assert.truthy(H.raises(la.solve, one, ty.ones(3)):find("^solve: .*singular"))
    assert.truthy(H.raises(la.cholesky, -ty.eye(2)):find("^cholesky: .*positive definite"))
    assert.truthy(H.raises(la.inv, ty.ones(2, 3)):find("^inv: .*f32%[2,3%]"))
    assert.truthy(H.raises(la.solve, ty.eye(3), ty.ones(4)):find("^solve: .*f32"))
    assert.truthy(H.raises(la.det, ty.ones(3)):find("^det: .*f32%[3%]"))
    for _, name in ipairs { "eig", "eigvals" } do
      assert.truthy(H.raises(la[name], ty.ones(2, 3)):find("^" .. name .. ": needs square matrices, got f32%[2,3%]"))
      assert.truthy(H.raises(la[name], ty.full({ 2, 2 }, 0 / 0)):find("^" .. name .. ": the matrix holds NaN or infinity"))
      local apart = ty.complex(ty.eye(2), ty.full({ 2, 2 }, math.huge))
      assert.truthy(H.raises(la[name], apart):find("^" .. name .. ": the matrix holds NaN or infinity"))
      assert.truthy(H.raises(la[name], ty.ones(2)):find("^" .. name .. ": needs a matrix"))
      assert.truthy(H.raises(la[name], 3):find("^" .. name .. ": "))
      local watched = ty.ones(2, 3):requires_grad_()
      assert.truthy(H.raises(la[name], watched):find("^" .. name .. ": needs square matrices"))
    end
    assert.truthy(H.raises(la.solve, ty.zeros({ 2, 2 }, { dtype = "c64" }), ty.ones(2)):find("^solve: matrix is singular"))
  end)
end)

describe("products by OpenBLAS", function()
  if not available then
    pending("are skipped: OpenBLAS is not here")
    return
  end
  after_each(function() ty.blas(false) end)

  it("are near ours, the same eager and compiled, and only where they are wished", function()
    local a, b = ty.rand(130, 150), ty.rand(150, 140)
    local own = a:matmul(b)
    local f = function(x, y) return x:matmul(y) + 1 end
    local compiled = ty.compile(f)
    local before = compiled(a, b)
    ty.blas(true)
    local by_blas = f(a, b)
    local compiled_blas = compiled(a, b)
    H.same(by_blas, compiled_blas)
    assert.truthy(far(own + 1, by_blas) < 1e-3)
    ty.blas(false)
    H.same(own, a:matmul(b))
    local after = compiled(a, b)
    H.same(before, after)
  end)

  it("leave operands right that lie in parts of others, and refuse dims that are too long for OpenBLAS", function()
    local a = ty.rand(150, 400)[{ {}, { 1, 400, 2 } }]
    local b = ty.rand({ 400, 300 }, { dtype = "f64" })[{ { 1, 400, 2 }, { 300, 1, -2 } }]
    ty.blas(true)
    local y, z = a:matmul(a:t()), b:t():matmul(b)
    local whole = { a:clone(), b:clone() }
    H.same(whole[1]:matmul(whole[1]:t():clone()), y)
    H.same(whole[2]:t():clone():matmul(whole[2]), z)
    local one, long = ty.ones(1, 1), 2 ^ 31 + 8
    local ok, why = pcall(one.matmul, one:expand(1, long), one:expand(long, 1))
    assert.is_false(ok)
    assert.truthy(why:find("run: a dim is too long for OpenBLAS (at most 2^31 - 1); switch ty.blas off", 1, true), why)
  end)

  it("leave transposed, batched and half operands right", function()
    ty.blas(true)
    for _, dtype in ipairs { "f32", "f64", "f16" } do
      local a, b = ty.rand({ 3, 90, 100 }, { dtype = dtype }), ty.rand({ 100, 80 }, { dtype = dtype })
      local y = a:matmul(b)
      local z = a:transpose(2, 3):clone():transpose(2, 3):matmul(b:t():clone():t())
      ty.blas(false)
      local want = a:matmul(b)
      ty.blas(true)
      assert.truthy(far(want:to("f64"), y:to("f64")) <= (dtype == "f16" and 0.05 or 1e-3))
      assert.truthy(far(want:to("f64"), z:to("f64")) <= (dtype == "f16" and 0.05 or 1e-3))
    end
  end)
end)

describe("gradients of linear algebra", function()
  if not available then
    pending("are skipped: OpenBLAS is not here")
    return
  end
  local la, F64 = ty.linalg, { dtype = "f64" }
  local function t(x) return x:transpose(-2, -1) end
  local R = ty.view_as_real

  local function tensor(v)
    local data = { unpack(v) }
    return ty.tensor(data, F64):reshape(v.shape)
  end

  --- A scalar of any results: cos of each element's position times the element.
  local function weigh(...)
    local sum = 0
    for i = 1, select("#", ...) do
      local y = select(i, ...)
      sum = sum + (ty.arange(y:numel(), F64):cos():reshape(y.shape) * y):sum()
    end
    return sum
  end

  local function svd_free(a)
    local u, s, vt = la.svd(a)
    return u * u, s, (u * (s * s):unsqueeze(-2)):matmul(vt)
  end
  local function qr_free(a)
    local q, r = la.qr(a)
    return q * q, r * r
  end
  local functions = {
    inv = la.inv, det = la.det, solve = la.solve, solve_vector = la.solve, lstsq_tall = la.lstsq,
    lstsq_wide = la.lstsq, cholesky = function(a) return la.cholesky(a:matmul(t(a))) end,
    qr_square = qr_free, qr_tall = qr_free, qr_wide = qr_free,
    svd_square = svd_free, svd_tall = svd_free, svd_wide = svd_free,
    values = function(a) return (select(2, la.svd(a))) end,
    eigh = function(a)
      local w, v = la.eigh(a + t(a))
      return w, v * v * w:unsqueeze(-2)
    end,
    eig = function(a)
      local w, v = la.eig(a)
      return R((v:abs() ^ 2 * w:unsqueeze(-2)):sum(-1)), R(w:exp():sum(-1))
    end,
    eigvals = function(a) return R(la.eigvals(a):exp():sum(-1)) end,
  }
  local cases = dofile(H.root .. "spec/fixtures/linalg.lua")

  --- Central differences of f by argument k.
  local function numeric(f, args, k)
    local shape, n = args[k].shape, args[k]:numel()
    local function at(i, d)
      local list, moved = { unpack(args) }, args[k]:reshape(n):clone()
      moved:set(i, moved:get(i) + d)
      list[k] = moved:reshape(shape)
      return f(unpack(list)):item()
    end
    local g = {}
    for i = 1, n do g[i] = (at(i, 1e-6) - at(i, -1e-6)) / 2e-6 end
    return ty.tensor(g, F64):reshape(shape)
  end

  for name, f in pairs(functions) do
    local case = cases[name]
    local inputs, positions = {}, {}
    for i, v in ipairs(case.inputs) do inputs[i], positions[i] = tensor(v), i end
    local function scalar(...) return weigh(f(...)) end

    it(name .. " are PyTorch's", function()
      local got = { ty.grad(scalar, positions)(unpack(inputs)) }
      for i, g in ipairs(got) do
        local want = tensor(case.gradients[i])
        assert.truthy(far(want, g) < 1e-11 * (1 + want:abs():max():item()), name .. " by argument " .. i)
      end
    end)

    it(name .. ": the second order agrees with differences", function()
      for k = 1, #inputs do
        local function first(...) return weigh(ty.grad(scalar, k)(...)) end
        local want = numeric(first, inputs, k)
        local got = ty.grad(first, k)(unpack(inputs))
        assert.truthy(far(want, got) < 1e-6 * (1 + want:abs():max():item()), name .. " by argument " .. k)
      end
    end)
  end

  it("sum over what was broadcast, keep dtypes, reach leaves", function()
    local a = ty.tensor({ { 2, 1 }, { 0, 3 } }, { requires_grad = true })
    local b = ty.ones({ 4, 2, 1 }, { requires_grad = true })
    la.solve(a, b):sum():backward()
    assert.same({ { 2, 2 }, { 4, 2, 1 } }, { a.grad.shape, b.grad.shape })
    local x = la.solve(a:detach(), ty.ones(2, 1))
    local g = la.solve(a:detach():t(), ty.ones(2, 1))
    assert.truthy(far(-g:matmul(x:t()) * 4, a.grad) < 1e-5)
    assert.equal("bf16", ty.grad(function(v) return la.inv(v):sum() end)(ty.eye(2):to("bf16")).dtype)
  end)

  it("of complex vectors whose phases a loss depends on are refused", function()
    local z = ty.complex(random("f64", 3, 3), random("f64", 3, 3))
    local h = z:matmul(z:adjoint())
    for name, f in pairs {
      eig = function(a) return select(2, la.eig(a)):real():sum() end,
      eigh = function(a) return select(2, la.eigh(a)):imag():pow(2):sum() end,
      svd = function(a) return la.svd(a):real():sum() end,
    } do
      local why = H.raises(ty.grad(f), h)
      assert.truthy(why:find(name .. ": the loss depends on the phases of complex vectors", 1, true), why)
    end
    local g = ty.grad(function(a) return la.svd(a):abs():sum() end)(z)
    assert.truthy(g:isfinite():all():item())
  end)

  it("of eigenvalues that are equal are infinite or NaN, of the values alone they are there", function()
    local a = ty.eye(2, F64)
    local weights = ty.tensor({ { 1, 2 }, { 3, 5 } }, F64)
    local g = ty.grad(function(x) return (select(2, la.eig(x)):abs() * weights):sum() end)(a)
    assert.falsy(g:isfinite():all():item())
    H.same(a, ty.grad(function(x) return la.eigvals(x):real():sum() end)(a))
  end)

  it("of a determinant are the cofactors, also where there is no inverse", function()
    local a = ty.tensor({ { 1, 2, 3 }, { 2, 4, 6 }, { 1, 0, 1 } }, F64)
    local want = ty.tensor({ { 4, 4, -4 }, { -2, -2, 2 }, { 0, 0, 0 } }, F64)
    assert.truthy(far(want, ty.grad(la.det)(a)) < 1e-13)
    local function first(x) return weigh(ty.grad(la.det)(x)) end
    assert.truthy(far(numeric(first, { a }, 1), ty.grad(first)(a)) < 1e-6)
  end)

  it("of singular values alone stand equal ones", function()
    local g = ty.grad(function(a) return (select(2, la.svd(a))):sum() end)(ty.eye(3, F64))
    assert.truthy(far(ty.eye(3, F64), g) < 1e-12)
    g = ty.grad(function(a) return (la.eigh(a)):sum() end)(ty.eye(3, F64))
    assert.truthy(far(ty.eye(3, F64), g) < 1e-12)
  end)

  it("raise what the functions raise", function()
    local a = ty.zeros({ 2, 2 }, { requires_grad = true })
    assert.truthy(H.raises(la.inv, a):find("inv: matrix is singular", 1, true))
    assert.truthy(H.raises(la.solve, a):find("solve: argument 2 must be a tensor", 1, true))
    assert.truthy(H.raises(la.qr, ty.ones({ 2 }, { requires_grad = true })):find("qr: needs a matrix", 1, true))
  end)

  it("per example, Jacobians and Hessians of a model are PyTorch's", function()
    local w, x, y, each, jacobian, hessian = unpack(cases.model)
    w, x, y = tensor(w), tensor(x), tensor(y)
    local function loss(p, a, b) return ((a:matmul(p):tanh() - b) ^ 2):sum() end
    assert.truthy(far(tensor(each), ty.vmap(ty.grad(loss), { false, 1, 1 })(w, x, y)) < 1e-13)
    assert.truthy(far(tensor(jacobian), ty.jacobian(function(v) return v:matmul(w):tanh() end)(x[1])) < 1e-13)
    assert.truthy(far(tensor(hessian), ty.hessian(loss)(w, x, y)) < 1e-12)
  end)
end)
