--- starve.lua -- workloads while allocations fail: the n-th alone, then the n-th and all that follow, for every n of the
-- first, for one in five behind them: every second workload, by TEST_SEED which (TEST_LONG=1: all, for every n).
-- luajit spec/starve.lua [NUMBER [MOST]] prints one line a workload. Each try must end well or with an error that speaks of
-- memory; the next call must give the right result; when all is let go, memory must be as before.
-- A process of its own (memory_spec.lua starts it), so that a crash is seen as one.

local ty = require "tycho"
local probe = ty.internals.probe

local i64 = { dtype = "i64" }

--- Kernels differ with k, and so do sizes: nothing is found in a cache.
local function chain(x, k)
  for _ = 1, 6 do
    local choice = k % 4
    k = math.floor(k / 4)
    x = choice == 0 and x + 1 or choice == 1 and x:exp() or choice == 2 and x:abs() or x * x
  end
  return x
end

local workloads = {
  { "add", function(k, n) return ty.ones(n) + k end },
  { "chain", function(k, n) return chain(ty.ones(n), k) end },
  { "compiled chain", function(k, n) return ty.compile(function(x) return chain(x, k) end)(ty.ones(n)) end },
  { "reductions", function(k, n)
    local x = chain(ty.ones(n, 3), k)
    return x:sum(), x:sum(1), x:max(2), x:argmax(), x:mean(), x:std(1)
  end },
  { "compiled reductions", function(k, n)
    return ty.compile(function(x) return chain(x, k):sum(2), x:prod(1), x:argmin(2) end)(ty.ones(n, 5))
  end },
  { "long reduction", function(k, n) return ty.full({ 20000 + n }, k):sum() end },
  { "scans", function(k, n) local x = ty.full({ n, 4 }, k); return x:cumsum(1), x:cummax(2), x:logcumsumexp(1) end },
  { "softmax and norms", function(_, n) local x = ty.ones(3, n); return x:softmax(), x:layer_norm(), x:log_softmax(1) end },
  { "compiled softmax", function(k, n) return ty.compile(function(x) return chain(x, k):softmax():layer_norm() end)(ty.ones(3, n)) end },
  { "small product", function(_, n) return ty.ones(n, 5):matmul(ty.ones(5, n)) end },
  { "large product", function(_, n) return ty.ones(70 + n, 300):matmul(ty.ones(300, 90)) end },
  { "product of vectors", function(_, n) return ty.ones(9000 + n):dot(ty.ones(9000 + n)), ty.ones(n, 70):matmul(ty.ones(70)) end },
  { "half product", function(_, n) return ty.ones({ n, 40 }, { dtype = "f16" }):matmul(ty.ones({ 40, 6 }, { dtype = "f16" })) end },
  { "integer product", function(_, n) return ty.ones({ n, 40 }, i64):matmul(ty.ones({ 40, 6 }, i64)) end },
  { "batched product", function(_, n) return ty.ones(3, n, 4):matmul(ty.ones(4, 5)), ty.ones(2, n, 4):bmm(ty.ones(2, 4, 3)) end },
  { "compiled product with an epilogue", function(k, n)
    return ty.compile(function(a, b) return chain(a:matmul(b) + 1, k):gelu() end)(ty.ones(n, 8), ty.ones(8, 7))
  end },
  { "transposed product", function(_, n) return ty.ones(40, n):t():matmul(ty.ones(60, 40):t()) end },
  { "views", function(_, n)
    local x = ty.arange(n * 6):reshape(n, 2, 3)
    return x:transpose(1, 3):clone(), x:flip() + 0, x:permute({ 3, 1, 2 }):reshape(-1), x:unfold(1, 2):sum(4)
  end },
  { "cat and stack", function(_, n) local x = ty.ones(n, 2); return ty.cat { x, x, x:to("f64") }, ty.stack({ x, x }, 2) end },
  { "pad, roll, tile", function(_, n)
    local x = ty.ones(n, 2)
    return x:pad({ 1, { 0, 2 } }), x:roll(1), x:tile(2, 3), x:repeat_interleave(2)
  end },
  { "gather and scatter", function(_, n)
    local at = ty.ones({ n, 1 }, i64)
    local x = ty.ones(n, 3)
    return x:gather(2, at), x:scatter(2, at, 5), x:scatter_add(2, at, ty.ones(n, 1)), x:index_select(1, ty.range(n, i64))
  end },
  { "masks", function(_, n)
    local x = ty.arange(n)
    return x[x:gt(2)], x:masked_fill(x:gt(1), 0), x:nonzero(), x:masked_select(x:lt(3))
  end },
  { "index tensors", function(_, n)
    local x = ty.arange(n * 2):reshape(n, 2)
    x[ty.range(n, i64)] = 3
    x[x:gt(2)] = 1
    return x[{ { { 1, n } }, 1 }], x
  end },
  { "sorting", function(_, n)
    local x = -ty.arange(n)
    local a, b = x:sort()
    local c, d = x:topk(2)
    return a, b, c, d, (x:unique()), x:argsort(), x:searchsorted(ty.ones(3)), x:median()
  end },
  { "gradients", function(k, n)
    local x, w = ty.full({ n, 4 }, k):requires_grad_(), ty.ones(4, 3):requires_grad_()
    local y = x:matmul(w):gelu()
    y[1] = 2
    y:mul_(y)
    ty.cat({ y, y:cumprod(2), x }, 2):max(2):sum():backward()
    local twice = ty.custom_grad(function(v) return v * 2, v end, function(_, g) return g * 2 end)
    ty.checkpoint(twice, x):sum():backward()
    return x.grad, ty.grad(function(v) return (v * v):prod(2):sum() end)(x:detach())
  end },
  { "attention", function(k, n)
    ty.manual_seed(3)
    local x = ty.full({ 2, n, 4 }, k):requires_grad_()
    local y = ty.scaled_dot_product_attention(x, x, x, { causal = true, dropout = 0.1 })
    y:sum():backward()
    local twice = ty.grad(function(v) return (ty.scaled_dot_product_attention(v, v, v)):sum() end)
    return y:detach(), x.grad, ty.grad(function(v) return twice(v):sum() end)(x:detach())
  end },
  { "compiled forward pass", function(k, n)
    local x, w = ty.full({ n, 4 }, 0.5):requires_grad_(), ty.full({ 4, 3 }, 0.25):requires_grad_()
    local f = ty.compile(function(u, v)
      local h = chain(u:matmul(v), k):tanh()
      return h, h:softmax()
    end)
    local a, b = f(x * 2, w)
    b:sum():backward(nil, { retain_graph = true })
    local c, d = f(x, w)
    local sum = (a * c + d):sum()
    sum:backward()
    return x.grad, w.grad, b:detach()
  end },
  { "captured step", function(k, n)
    local w = ty.full({ n }, 0.5):requires_grad_()
    local step = ty.compile(function(x)
      local loss = chain(x * w, k):sum()
      loss:backward()
      ty.no_grad(function() w:sub_(w.grad * 0.1) end)
      return loss:detach()
    end)
    return step(ty.ones(n)), w.grad, w:detach()
  end },
  { "captured steps with gradients for leaves alone", function(k, n)
    local w, v = ty.full({ n, 4 }, 0.5):requires_grad_(), ty.full({ 4 }, 0.25):requires_grad_()
    local step = ty.compile(function(x)
      w.grad, v.grad = nil, nil
      local loss = (chain(x * w, k):tanh() * v):sum()
      loss:backward()
      ty.no_grad(function()
        w:sub_(w.grad * 0.1)
        v:sub_(v.grad * 0.1)
      end)
      return loss:detach()
    end)
    local x = ty.ones(n, 4)
    return step(x), step(x), step(x), w.grad, v.grad, w:detach()
  end },
  { "in place", function(k, n)
    local x = ty.ones(n, 3)
    x:add_(k):mul_(2)
    x[1]:zero_()
    x[{ {}, 2 }]:fill_(7)
    return x
  end },
  { "compiled in place", function(k, n)
    local x = ty.ones(n, 3)
    ty.compile(function(v)
      v:add_(k):sin_()
      v[{ { 2, n } }] = v[{ { 1, n - 1 } }]
      return v
    end)(x)
    return x
  end },
  { "set and get", function(k, n) local x = ty.zeros(n); x:set(1, k); x[2] = x:get(1) + 1; return x end },
  { "random", function(_, n)
    ty.manual_seed(4)
    return ty.rand(n), ty.randn(n), ty.randint(1, 6, { n }), ty.randperm(n), ty.bernoulli(0.5, { n }), ty.ones(n):multinomial(2)
  end },
  { "ranges", function(_, n) return ty.arange(n), ty.range(n), ty.linspace(0, 1, n), ty.eye(n), ty.tri(n), ty.full({ n }, 3) end },
  { "tables", function(_, n)
    local t = {}
    for i = 1, n do t[i] = { i, -i } end
    local x = ty.tensor(t)
    x:totable()
    tostring(x)
    return x
  end },
  { "casts", function(_, n)
    local x = ty.arange(n)
    return x:to("f16"):to("bf16"), x:to("u8"), x:to("f64"):view_as("i64"), x:to("bool")
  end },
  { "losses", function(_, n)
    local x, y = ty.ones(n, 4), ty.ones({ n }, i64)
    return x:cross_entropy(y), x:log_softmax():nll_loss(y), x:mse_loss(0.5)
  end },
  { "activations", function(_, n) local x = ty.ones(n); return x:gelu(), x:silu(), x:mish(), x:softplus(), x:elu(), x:leaky_relu() end },
  { "einsum", function(_, n) return ty.einsum("ij,jk->ik", ty.ones(n, 3), ty.ones(3, 2)), ty.ones(n, 3):tensordot(ty.ones(3, n), 1) end },
  { "demanded inside", function(k, n)
    return ty.compile(function(x)
      local a, b = x + k, x * k
      local s = (a * b):sum():item()
      return a - s, b:exp()
    end)(ty.ones(n))
  end },
  { "passed over", function(k, n)
    local kept
    ty.compile(function(x)
      kept = x * k
      return (kept + 1):sum():item()
    end)(ty.ones(n))
    return kept + 1, kept
  end },
  { "loop", function(_, n)
    return ty.compile(function(x)
      for i = 1, 100 do x = x + i end
      return x
    end)(ty.ones(n))
  end },
  { "nested compiled", function(k, n)
    local inner = ty.compile(function(x) return chain(x, k) end)
    return ty.compile(function(x) return inner(x) + inner(x + 1) end)(ty.ones(n))
  end },
  { "coroutines", function(k, n)
    local co = coroutine.wrap(ty.compile(function(x)
      local y = x + k
      coroutine.yield(y)
      return y * 2
    end))
    return co(ty.ones(n)), co()
  end },
  { "compiled cat and sort", function(k, n)
    return ty.compile(function(x) return ty.cat { chain(x, k), x }:sort(1) end)(ty.arange(n))
  end },
  { "compiled gather", function(k, n)
    return ty.compile(function(x) return chain(x, k):gather(1, ty.ones({ n }, i64)), x[x:argmax()] end)(ty.arange(n))
  end },
  { "graph and explain", function(k, n)
    local f = ty.compile(function(x) return chain(x, k) end)
    local y = f(ty.ones(n))
    assert(#ty.explain(f):full() > 10)
    assert(#ty.graph(function(x) x:add_(1); return chain(x, k) end, ty.ones(n)).text > 10)
    return y
  end },
  { "scope", function(k, n) return ty.scope(function() local x = ty.ones(n) + k; return x * 2 end) end },
  { "data", function(_, n)
    local x = ty.ones(n)
    local p = x:data()
    p[0] = 5
    return x + 1, ty.from_ptr(p, n, "f32", x):clone()
  end },
  { "many operands", function(_, n)
    local list = {}
    for i = 1, 40 do list[i] = ty.full({ n }, i) end
    return ty.compile(function()
      local s = list[1]
      for i = 2, 40 do s = s * 0.5 + list[i] end
      return s
    end)()
  end },
  { "layouts", function(k, n)
    local x = ty.ones(n, 6)
    return ty.compile(function(v) return chain(v:t(), k):flip(), v[{ {}, { 1, 6, 2 } }]:sum(1), v:unfold(2, 3):max(3) end)(x)
  end },
  { "where and comparisons", function(k, n)
    local x = ty.arange(n)
    return x:gt(k):where(x, -x), x:eq(1), x:isclose(x + 1e-9), ty.tensor(ty.equal(x, x))
  end },
  { "copies and aliases", function(_, n)
    local x = ty.ones(n, 2)
    local y, z = x:clone(), x:t()
    x:mul_(3)
    return x, y, z, z:contiguous()
  end },
  { "several outputs", function(k, n)
    return ty.compile(function(x)
      local a = chain(x, k)
      return a, a + 1, a:sum(), a:t():clone()
    end)(ty.ones(n, 4))
  end },
  { "convolutions", function(_, n)
    local x, w = ty.ones(2, 4, n, 20):requires_grad_(), ty.ones(6, 2, 3, 3):requires_grad_()
    local y = ty.conv2d(x, w, { padding = 1, groups = 2 })
    ty.max_pool2d(y, 2, { stride = 1 }):sum():backward()
    return y:detach(), x.grad, w.grad, ty.conv_transpose1d(ty.ones(3, n), ty.ones(3, 2, 4), { stride = 2 })
  end },
  { "compiled convolution", function(k, n)
    return ty.compile(function(x, w) return chain(ty.conv2d(x, w, { stride = 2 }), k) end)(ty.ones(3, 8, n, 33), ty.ones(12, 8, 3, 3))
  end },
  { "settings", function(k, n)
    ty.default_dtype("f64")
    local ok, y = pcall(function() return ty.compile(function(x) return x / 3 + k end)(ty.ones({ n }, i64)) end)
    ty.default_dtype("f32")
    if not ok then error(y, 0) end
    return y
  end },
  { "vmap", function(k, n)
    local w = ty.ones(3, 2)
    return ty.vmap(function(x)
      local y = ty.zeros(4)
      y[1] = chain(x, k):sum()
      y[{ { 2, 3 } }] = x:matmul(w)
      return y:softmax(), (x:sort()), ty.cat { x, y }:gather(1, ty.range(3, i64))
    end)(ty.ones(n, 3))
  end },
  { "vmap and gradients", function(_, n)
    local w = ty.ones(3, 2):requires_grad_()
    local function loss(x, v) return (x:matmul(v):tanh() * x[1]):sum() end
    ty.vmap(loss, { 1, false })(ty.ones(n, 3), w):sum():backward()
    return w.grad, ty.vmap(ty.grad(loss, { 1, 2 }), { 1, false })(ty.ones(n, 3), w:detach())
  end },
  { "hessian, compiled", function(k, n)
    local f = ty.hessian(function(x) return (chain(x, k % 3) * x):sum() end)
    return f(ty.ones(3)), ty.compile(ty.vmap(f))(ty.ones(n, 3))
  end },
  { "hooks", function(k, n)
    local w = ty.full({ n }, 0.5):requires_grad_()
    local calls = 0
    local handle = w:register_hook(function(g) calls = calls + 1 return g * 2 end)
    local y = chain(w * 2, k)
    y:register_hook(function(g) return g + 1 end)
    y:sum():backward()
    handle:remove()
    assert(calls == 1)
    return w.grad
  end },
  { "captured steps with hooks", function(k, n)
    local w, v = ty.full({ n }, 0.5):requires_grad_(), ty.full({ n }, 0.25):requires_grad_()
    local m = ty.nn.Module { forward = function(_, x) return chain(x * w, k) end }
    m:register_full_backward_hook(function(_, gi) return gi end)
    m:register_forward_hook(function(_, _, y) return y * 0.5 end)
    w:register_hook(function(g) return g * 2 end)
    local step = ty.compile(function(x)
      w.grad, v.grad = nil, nil
      local y = m(x) * v
      y:register_hook(function(g) return g:clamp(-1, 1) end)
      y:sum():backward()
      return y:detach()
    end)
    local x = ty.ones(n)
    return step(x), step(x), w.grad, v.grad
  end },
  { "profile by line", function(k, n)
    local f = ty.compile(function(x) return chain(x, k):sum() end)
    local report, y = jit.profile(function()
      local x = ty.ones(n) * 2
      return f(x) + f(x)
    end)
    assert(report.lines[1].seconds > 0 and #tostring(report) > 10)
    return y
  end },
  { "anomalies looked for", function(k, n)
    return ty.detect_anomaly(function()
      local x = ty.full({ n }, 0.5):requires_grad_()
      ;(chain((x * 0.01):sigmoid(), k % 64):sigmoid() * 2):sum():backward()
      return x.grad
    end)
  end },
  { "scan and its gradient", function(_, n)
    local w = ty.full({ n }, 0.5):requires_grad_()
    local ends, y = ty.scan(function(c, r)
      local following = {}
      for i = 1, 9 do following[i] = (c[i] * w + r[1]):tanh() end
      return following, following[9] * r[2]
    end, { ty.zeros(n), ty.ones(n), ty.zeros(n), ty.ones(n), ty.zeros(n), ty.ones(n), ty.zeros(n), ty.ones(n), ty.zeros(n) },
      { ty.ones(3, n), ty.ones(3, n) })
    ;(y:sum() + ends[1]:sum()):backward()
    return w.grad
  end },
  { "gradcheck", function(_, n)
    local x = ty.ones({ 2 }, { dtype = "f64" })
    assert(ty.gradcheck(function(v) return (v * n):tanh() end, x, { raise = false }))
    return x
  end },
  { "gradients of linear algebra", function(_, n)
    return ty.grad(function(a) return ty.linalg.inv(a + ty.eye(n % 5 + 1) * 3):sum() end)(ty.ones(n % 5 + 1, n % 5 + 1))
  end },
}


local function pack(...) return { n = select("#", ...), ... } end

--- Runs a workload, and has its results computed: true and the results, or false and the error.
local function run(work, k, n)
  return pcall(function()
    local results = pack(work(k, n))
    for i = 1, results.n do results[i]:contiguous():sum():item() end
    return unpack(results, 1, results.n)
  end)
end

local function settle()
  jit.flush() -- LuaJIT's traces hold closures that they have met
  collectgarbage()
  collectgarbage()
  return probe.memory()
end

local function texts_of(results)
  local texts = {}
  for i = 2, results.n do texts[i - 1] = tostring(results[i]) end
  return table.concat(texts, "\n")
end

--- One try: `times` allocations fail after `after`. True when none failed.
local function try(work, k, n, after, times)
  probe.fail(-1)
  probe.fail(after, times)
  local results = pack(run(work, k, n))
  local asked = tonumber(probe.fail(-1))
  if not results[1] then
    local message = results[2]
    assert(type(message) == "string" and message:find("memory"), "an error that does not speak of memory: " .. tostring(message))
  end
  local texts = results[1] and texts_of(results) -- of a call that did without
  results = nil -- luacheck: ignore 311 (lets the tensors go)
  local again = pack(run(work, k, n))
  assert(again[1], again[2])
  assert(not texts or texts == texts_of(again), "results differ where memory was short and no error was raised")
  return asked < after, again
end

local only = tonumber((...))
local most = tonumber((select(2, ...))) or 120 -- the last allocation that fails
local long, seed = os.getenv "TEST_LONG", tonumber(os.getenv "TEST_SEED") or 1
local step, share = long and 1 or 5, long and 1 or 2 -- behind the first 20 one of so many fails; one of so many workloads
local ran = 0

for index, w in ipairs(workloads) do
  if only == index or not only and (index + seed) % share == 0 then
    ran = ran + 1
    local name, work = w[1], w[2]
    run(work, 0, 5)
    local tries = 0
    for _, times in ipairs { 1, -1 } do
      local after = 0
      while after <= most do
        local k = index * 1000 + (times == 1 and 0 or 500) + after
        local n = 5 + after % 40
        local done, again = try(work, k, n, after, times)
        tries = tries + 1
        local fresh = pack(run(work, k, n)) -- once more, with everything found in caches
        for i = 2, again.n do
          local a, b = again[i], fresh[i]
          assert(ty.is_tensor(a) and tostring(a) == tostring(b), name .. ": results differ after a failure")
        end
        if done then break end
        after = after + (after < 20 and 1 or step)
      end
    end
    -- nothing leaked: after the same failures again, what is alive is what was alive before
    local function failures()
      for after = 0, 25 do
        probe.fail(after, 1)
        run(work, 1, 5)
        probe.fail(after, -1)
        run(work, 1, 5)
        probe.fail(-1)
      end
      run(work, 1, 5)
      return settle()
    end
    -- Bounded lists fill: spares; coroutines that failed and may still go on, as far as anyone knows. They stop growing,
    -- and which addresses the system gives decides when; a leak grows in every round.
    failures()
    local tensors, bytes, now = math.huge, math.huge, failures()
    for _ = 1, 14 do
      local before = now
      now = failures()
      tensors, bytes = math.min(tensors, now.used - before.used), math.min(bytes, now.general - before.general)
      if tensors <= 0 and bytes <= 4096 then break end
    end
    assert(tensors <= 0, ("%s: %d bytes of tensors leaked"):format(name, tensors))
    assert(bytes <= 4096, ("%s: %d bytes leaked"):format(name, bytes))
    print(("%-34s %3d tries"):format(name, tries))
    io.flush()
  end
end
print(ran .. " workloads")
