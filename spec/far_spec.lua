-- far_spec.lua -- devices, by the second one: "far" (far.c), whose memory nobody else can touch and whose work is late.
local H = require "spec.helper"
local far = require "spec.far"
local ty = H.ty

local probe = far.loaded and it or pending
ty.device "cpu" -- also where FAR_DEFAULT says otherwise: here both are asked for by name

--- A process of its own on far: what it prints.
local function run(environment, program)
  local file = os.tmpname()
  local f = assert(io.open(file, "w"))
  f:write(program)
  f:close()
  local p = assert(io.popen(("cd '%s.' && %s env -u FAR_DEFAULT luajit -e 'package.path = \"./?.lua;\" .. package.path' '%s' 2>&1")
    :format(H.root, environment, file)))
  local text = p:read "*a"
  p:close()
  os.remove(file)
  return text
end

local function raises(pattern, f)
  local ok, message = pcall(f)
  assert.falsy(ok)
  assert.truthy(tostring(message):find(pattern), tostring(message))
end

local function same(want, got)
  assert.equal("far", got.device)
  H.same(want, got)
end

--- Finite numbers of either sign.
local function numbers(dtype, ...)
  local n = 1
  for _, size in ipairs { ... } do n = n * size end
  return ((ty.arange(n, { dtype = "f64" }) * 1.7 + 0.3):sin() * 2):to(dtype):reshape { ... }
end

describe("a tensor on another device", function()
  probe("tells where it lies, and comes back as it was", function()
    local x = H.mixed("f32", { 3, 5 }, 1)
    local y = x:to "far"
    assert.equal("far", y.device)
    assert.equal("cpu", y:to("cpu").device)
    assert.equal(y, y:to "far")
    same(x, y)
    assert.truthy(tostring(y):find("[f32 3x5 far]", 1, true))
  end)

  probe("is asked for as a device is, and by default", function()
    assert.equal("far", ty.zeros(2, { device = "far" }).device)
    assert.equal("far", ty.tensor({ 1, 2 }, { device = "far" }).device)
    same(ty.tensor({ 1, 2 }, { dtype = "i32" }), ty.tensor(ty.tensor { 1, 2 }, { dtype = "i32", device = "far" }))
    same(ty.ones(3, 2) * 2, ty.vmap(function(v) return v:to "far" * 2 end)(ty.ones(3, 2)))
    assert.equal("far", ty.zeros_like(ty.zeros(2, { device = "far" })).device)
    local was = ty.device()
    assert.equal("far", ty.device "far")
    local list = { ty.ones(2), ty.arange(3), ty.randn(2), ty.eye(2), ty.tensor { 1 }, ty.randperm(4), ty.full({ 2 }, 7) }
    ty.device(was)
    for i, t in ipairs(list) do assert.equal("far", t.device, tostring(i)) end
    assert.same({ nil, 'device: device "moon" is not available' }, { ty.device "moon" })
  end)

  probe("does not mix with one elsewhere: the error names both", function()
    local a, b = ty.ones(2, 2), ty.ones(2, 2, { device = "far" })
    for _, f in ipairs { function() return a + b end, function() return b:matmul(a) end, function() a:copy_(b) end,
      function() return ty.cat { a, b } end, function() return a:gather(1, b:to "i64") end,
      function() return a:where(b, b) end } do
      raises('lie on "%a+" and "%a+"', f)
    end
  end)

  probe("gives up its elements to whoever reads one", function()
    local x = H.mixed("f32", { 4, 6 }, 2)
    local y = x:to "far"
    assert.equal(x:get(2, 3), y:get(2, 3))
    assert.same(x:totable(), y:totable())
    assert.equal(x:sum():item(), y:sum():item())
    y:set(2, 3, 5)
    assert.equal(5, y:get(2, 3))
    assert.same(H.list(y:to("cpu"):t()[{ { 2, 3 } }]), H.list(y:t()[{ { 2, 3 } }]))
    same(x:clone():abs():gt(1):nonzero(), x:to("far"):abs():gt(1):nonzero())
    same(x[x:gt(0)], x:to("far")[x:to("far"):gt(0)])
    raises("far", function() y:data() end)
  end)

  probe("reads the elements that it has now, not those of a read before", function()
    local y = ty.zeros(3, { device = "far" })
    for i = 1, 20 do
      y:add_(1)
      assert.equal(i, y:get(2))
    end
  end)

end)

describe("an index that is out of range", function()
  local where = " %(" .. debug.getinfo(1, "S").short_src:gsub("%p", "%%%0") .. ":%d+%)"
  local here, good, bad
  if far.loaded then
    here, good = { device = "far" }, ty.tensor({ 1, 3, 2 }, { dtype = "i64", device = "far" })
    bad = ty.tensor({ 1, -4, 9 }, { dtype = "i64", device = "far" })
  end
  local message = "index %-4 at %(2%) is out of range 1%.%.3" .. where

  probe("is not waited for, and raised by the next read with its operation and line, then by each read of what it spoilt",
    function()
      local x = ty.ones(3, here)
      local before = far.waits()
      local y = x:gather(1, bad)
      local z = (y * 2):sum()
      x:scatter(1, good, y)
      assert.equal(before, far.waits())
      raises("gather: " .. message, function() return z:item() end)
      for _ = 1, 2 do
        raises("gather: " .. message, function() return y:get(1) end)
        raises("gather: " .. message, function() return (z + 1):item() end)
        raises("gather: " .. message, function() return (y:reshape(3, 1):matmul(ty.ones(1, 2, here))):to "cpu" end)
        raises("gather: " .. message, function() return ty.compile(function(v) return v + 1 end)(y) end)
      end
      y:fill_(2)
      assert.equal(6, y:sum():item())
      assert.equal(3, x:sum():item())
      assert.equal(6, x:gather(1, good):mul(2):sum():item())
    end)

  probe("is raised by synchronize, once", function()
    ty.ones(3, here):gather(1, bad)
    raises("gather: " .. message, ty.synchronize)
    ty.synchronize()
  end)

  probe("leaves what was there before as it is, whatever was asked for since, and every read of other results raises", function()
    local x, w = ty.ones(3, here), ty.zeros(3, here)
    w:add_(1)
    local y = x:gather(1, bad)
    w:add_(y)
    w:add_(5)
    local new = w * 2
    local moved, given = ty.ones(3):to "far", ty.tensor({ 1, 2 }, here)
    raises(message, ty.synchronize)
    same(ty.ones(3), w)
    same(ty.ones(3), moved)
    same(ty.tensor { 1, 2 }, given)
    raises(message, function() return new:get(1) end)
    w:add_(5)
    same(ty.full({ 3 }, 6), w)
  end)

  probe("gives more errors, each with its own", function()
    local list = {}
    for i = 1, 100 do
      local x = ty.full({ 3 }, i, here)
      list[i] = { x, x:gather(1, ty.tensor({ 3 + i }, { dtype = "i64", device = "far" })) }
      if i % 3 > 0 then assert.falsy(pcall(ty.synchronize)) end
    end
    for i, pair in ipairs(list) do
      local first = i % 3 == 1 and i > 1 and i - 1 or i -- two are told as one
      raises("index " .. 3 + first .. " at", function() return pair[2]:item() end)
      if first == i then assert.equal(3 * i, pair[1]:sum():item()) end
    end
  end)

  probe("is seen by compiled functions as by eager ones, which are not left for it", function()
    local function step(w, x, i)
      w:mul_(2)
      w:add_(x:index_select(1, i))
      return w:sum()
    end
    local c = ty.compile(step)
    local w, v, x = ty.ones(3, here), ty.ones(3, here), ty.ones(3, here)
    for _ = 1, 3 do
      c(w, x, good)
      step(v, x, good)
    end
    same(w:to "cpu", v)
    local before, skips = far.waits(), ty.explain(c).skips
    local y = c(w, x, bad)
    c(w, x, good)
    assert.equal(before, far.waits())
    assert.equal(skips + 2, ty.explain(c).skips)
    raises("index_select: " .. message, function() return y:item() end)
    same(v:to "cpu", w)
    c(w, x, good)
    step(v, x, good)
    same(v:to "cpu", w)
  end)

  probe("is an error at once where there are no places", function()
    raises("index 1 at %(1%) is out of range", function()
      return ty.zeros(0, here):gather(1, ty.tensor({ 1 }, { dtype = "i64", device = "far" }))
    end)
  end)

  probe("is found where the device refuses to look, by the CPU", function()
    assert.equal("false\tgather: index 9 at (1) is out of range 1..3\n", (run("FAR_REFUSES=positions", [[
      require "spec.far"
      local ty = require "tycho"
      ty.device "far"
      local ok, message = pcall(function()
        return ty.ones(3):gather(1, ty.tensor({ 9 }, { dtype = "i64" })):item()
      end)
      print(ok, (message:gsub("^.*: gather", "gather"):gsub(" %(/.*$", "")))]])))
  end)

  probe("is looked for anew by each part of a recording, which may want what the check reads", function()
    local ones, zero_based = ty.ones(5, { device = "far" }), ty.tensor({ 3, 1, 2, 4, 0 }, { dtype = "i64", device = "far" })
    ty.internals.capture.off = true
    local f = ty.compile(function(index, x)
      local positions = index + 1
      local scattered, doubled = x:scatter_add(1, positions, x), x * 2
      return positions, scattered, doubled, doubled + 1
    end)
    ty.internals.capture.off = false
    local positions, scattered, doubled = f(zero_based, ones)
    zero_based:release()
    H.same(ty.full({ 5 }, 2), scattered:to "cpu")
    H.same(ty.tensor({ 4, 2, 3, 5, 1 }, { dtype = "i64" }), positions:to "cpu") -- must not take over what it is computed from
    H.same(ty.full({ 5 }, 2), doubled:to "cpu")
  end)

  probe("leaves what a later part of the recording wants of a tensor that is written", function()
    local x, index = ty.arange(5, { device = "far" }), ty.tensor({ 3, 1, 2 }, { dtype = "i64", device = "far" })
    local w = ty.ones(3, { device = "far" })
    ty.internals.capture.off = true
    local f = ty.compile(function(at)
      local before = w + 1
      local rows = x:index_select(1, at + 1) * before
      w:sub_(0.5)
      return before, rows
    end)
    ty.internals.capture.off = false
    local before, rows = f(index)
    H.same(ty.tensor { 6, 2, 4 }, rows:to "cpu")
    H.same(ty.full({ 3 }, 0.5), w:to "cpu")
    H.same(ty.full({ 3 }, 2), before:to "cpu")
  end)

  probe("that a loss ignores is none", function()
    local labels = { 2, -100, 1 }
    local function loss(device)
      return ty.cross_entropy(ty.arange(9):reshape(3, 3):to(device):to "f32",
        ty.tensor(labels, { dtype = "i64", device = device }), { ignore_index = -100 })
    end
    assert.equal(loss("cpu"):item(), loss("far"):item())
    labels[2] = 4
    raises("index 4 at %(2, 1%) is out of range 1%.%.3", function() return loss("far"):item() end)
  end)
end)

describe("a compiled function", function()
  probe("is captured anew for another device, and gives the bits of eager", function()
    local f = ty.compile(function(x) return (x * 2 + 1):relu():sum(1) end)
    local x = H.mixed("f32", { 7, 9 }, 3)
    for _ = 1, 3 do
      assert.same(H.list(f(x)), H.list(f(x:to "far")))
      assert.equal("far", f(x:to "far").device)
      assert.equal("cpu", f(x).device)
    end
  end)

  probe("moves between devices as a step of its plan", function()
    local f = ty.compile(function(x)
      local y = (x * 2):to "cpu"
      return y + 1, (y:exp()):to("far") * x
    end)
    local x = H.mixed("f32", { 5 }, 4):clamp(-3, 3)
    local a, b
    for _ = 1, 4 do a, b = f(x:to "far") end
    assert.equal("cpu", a.device)
    assert.same(H.list(x * 2 + 1), H.list(a))
    same((x * 2):exp() * x, b)
    local text = ty.explain(f)
    assert.truthy(text:full():find("to %%%d+ : f32%[5%]@far"))
    assert.truthy(tonumber(tostring(text):match "(%d+) answered without running it") >= 3)
  end)

  probe("is captured with an index that it computes elsewhere: a move keeps what is known of it", function()
    local f = ty.compile(function(x) return x:gather(1, x:to("cpu"):argsort(1):to("far")) end)
    local x = numbers("f32", 6)
    for _ = 1, 3 do same((x:sort(1)), f(x:to "far")) end
    assert.truthy(ty.explain(f).skips >= 1)
  end)

  probe("has the gradient of a move: another move", function()
    local x = H.mixed("f32", { 4 }, 5):clamp(-2, 2):requires_grad_()
    local z = H.mixed("f32", { 4 }, 5):clamp(-2, 2):requires_grad_();
    (x:to("far"):exp():to("cpu") * 3):sum():backward();
    (z:exp() * 3):sum():backward()
    assert.equal("cpu", x.grad.device)
    assert.same(H.list(z.grad), H.list(x.grad))
  end)
end)

--- Parameters of both that are the same: of a module on the CPU and one on far.
local function copied(make)
  ty.manual_seed(4)
  local here = make()
  ty.manual_seed(4)
  return here, make():to "far"
end

local function loss_of(y) return (type(y) == "table" and y[1] or y):to("f32"):sin():sum() end

--- Two modules, an input each: results and gradients of all parameters are the same.
local function same_module(make, x, call)
  local here, there = copied(make)
  for _ = 1, 3 do
    for _, m in ipairs { here, there } do
      for _, p in ipairs(m:parameters()) do p.grad = nil end
    end
    ty.manual_seed(9)
    local a = call(here, x)
    loss_of(a):backward()
    ty.manual_seed(9)
    local b = call(there, x:to "far")
    loss_of(b):backward()
    same(a, b)
    local q = there:parameters()
    for i, p in ipairs(here:parameters()) do
      if p.grad then same(p.grad, q[i].grad) end
    end
  end
end

describe("a model on another device", function()
  local nn = ty.nn
  local image, series = numbers("f32", 2, 4, 6, 6), numbers("f32", 3, 5, 8)
  local rows = {
    convolution = { function()
      return nn.Sequential(nn.Conv2d(4, 6, 3, { padding = 1 }), nn.BatchNorm2d(6), nn.GELU(), nn.MaxPool2d(3, { padding = 1, stride = 2 }),
        nn.Flatten(), nn.Linear(54, 3), nn.Dropout(0.3))
    end, image },
    transposed = { function() return nn.Sequential(nn.ConvTranspose2d(4, 3, 3, { stride = 2 }), nn.GroupNorm(3, 3)) end, image },
    pools = { function()
      return nn.Sequential(nn.Conv2d(4, 4, 1), nn.AvgPool2d(3, { padding = 1, stride = 2, ceil_mode = true, count_include_pad = false }),
        nn.Upsample { size = { 7, 5 }, mode = "bilinear" },
        nn.Upsample { size = { 9, 4 } }, nn.AdaptiveMaxPool2d(3), nn.AdaptiveAvgPool2d(2))
    end, image },
    transformer = { function() return nn.TransformerBlock(8, 2, { causal = true, rotary = true, dropout = 0.1 }) end, series },
    lstm = { function() return nn.LSTM(8, 4, { layers = 2 }) end, series },
    gru = { function() return nn.GRU(8, 4) end, series },
    norms = { function() return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8), nn.RMSNorm(8)) end, series },
  }
  for name, row in pairs(rows) do
    probe("gives the results and gradients of one on the CPU: " .. name, function()
      same_module(row[1], row[2], function(m, x) return (m(x)) end)
      local compiled = {}
      same_module(row[1], row[2], function(m, x)
        compiled[m] = compiled[m] or ty.compile(function(v) return (m(v)) end)
        return compiled[m](x)
      end)
    end)
  end

  probe("learns what one on the CPU learns, by each optimiser", function()
    local x, want = numbers("f32", 6, 3), numbers("f32", 6, 2)
    for _, name in ipairs { "SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion" } do
      local function train(device)
        ty.manual_seed(3)
        local m = ty.nn.Sequential(ty.nn.Linear(3, 4), ty.nn.Tanh(), ty.nn.Linear(4, 2)):to(device)
        local opt = ty.optim[name](m:parameters(), { lr = 0.01, weight_decay = 0.1 })
        local u, v, losses = x:to(device), want:to(device), {}
        local step = ty.compile(function(a, b)
          opt:zero_grad()
          local loss = (m(a) - b):pow(2):mean()
          loss:backward()
          opt:step()
          return loss:detach()
        end)
        for i = 1, 4 do losses[i] = step(u, v):item() end
        assert.truthy(ty.explain(step).skips > 0, name)
        return losses, m
      end
      local a, m = train "cpu"
      local b, n = train "far"
      assert.same(a, b, name)
      for i, p in ipairs(m:parameters()) do same(p, n:parameters()[i]) end
    end
  end)

  probe("trains with a scaler inside of a compiled step", function()
    local function train(device)
      ty.manual_seed(3)
      local m = ty.nn.Linear(3, 2):to(device)
      local opt, scaler = ty.optim.Adam(m:parameters(), { lr = 0.1 }), ty.optim.GradScaler { capturable = true }
      local step = ty.compile(function(x)
        opt:zero_grad()
        scaler:scale(m(x):pow(2):sum()):backward()
        scaler:step(opt)
      end)
      for i = 1, 4 do step((numbers("f32", 4, 3) / (i == 2 and 0 or 1)):to(device)) end
      return m.weight, scaler
    end
    local a, here = train "cpu"
    local b, there = train "far"
    same(a, b)
    assert.same(here:state_dict(), there:state_dict())
  end)

  probe("is saved with its optimiser, and loaded on either device", function()
    local function learner(device, seed)
      ty.manual_seed(seed)
      local m = ty.nn.Linear(3, 2):to(device)
      local opt = ty.optim.Adam(m:parameters(), { lr = 0.1 })
      local function step()
        opt:zero_grad()
        m(numbers("f32", 4, 3):to(device)):pow(2):sum():backward()
        opt:step()
      end
      step()
      return m, opt, step
    end
    local path = os.tmpname() .. ".safetensors"
    local m, opt, step = learner("far", 1)
    assert(ty.save_checkpoint(path, { model = m, optimizer = opt }))
    step()
    for _, device in ipairs { "cpu", "far" } do
      local other, its, again = learner(device, 2)
      assert(ty.load_checkpoint(path, { model = other, optimizer = its }))
      assert.equal(device, other.weight.device)
      again()
      H.same(m.weight, other.weight)
    end
    os.remove(path)
  end)

  probe("is fed by loaders: batches lie where the data do", function()
    local x, y = numbers("f32", 10, 3), ty.arange(10)
    local function batches(device)
      local list = {}
      local ds = ty.data.tensors(x:to(device), y:to(device))
      for a, b in ty.data.loader(ds, { batch = 4, shuffle = true, seed = 5 }) do
        assert.equal(device, a.device)
        assert.equal(device, b.device)
        list[#list + 1] = { H.list(a), H.list(b) }
      end
      return list
    end
    assert.same(batches "cpu", batches "far")
  end)

  probe("is where a loader's option puts batches, which transforms meet there", function()
    local ds = ty.data.tensors(numbers("f32", 10, 3), ty.arange(10))
    local n = 0
    for a, b in ds:loader { batch = 4, device = "far", transform = function(a, b) return a * 2, b, a.device end } do
      assert.equal("far", a.device)
      assert.equal("far", b.device)
      n = n + a:size(1)
    end
    assert.equal(10, n)
    raises("data.loader: .*\"nowhere\"", function() return ds:loader { device = "nowhere" } end)
  end)
end)

describe("transformations on another device", function()
  local x = numbers("f64", 4, 3)
  local function rows(f)
    probe("give what they give on the CPU: " .. debug.getinfo(f).linedefined, function()
      local a, b = { f(x) }, { f(x:to "far") }
      for i = 1, #a do same(a[i], b[i]) end
    end)
  end
  local function g(v) return (v * v:sum()):sin() end
  rows(function(v) return ty.vmap(g)(v) end)
  rows(function(v) return ty.jacobian(g)(v[1]), ty.hessian(function(u) return g(u):sum() end)(v[1]) end)
  rows(function(v) return ty.jvp(g, v[1], v[2]) end)
  rows(function(v) return ty.vmap(ty.grad(function(u) return g(u):sum() end))(v) end)
  rows(function(v) return ty.grad(function(u) return ty.checkpoint(g, u):sum() end)(v) end)
  rows(function(v)
    local a = v:t():matmul(v) + ty.eye(3, { dtype = "f64", device = v.device })
    return ty.linalg.inv(a), ty.linalg.cholesky(a), ty.linalg.solve(a, v:t()), (ty.linalg.qr(v)), ty.linalg.det(a)
  end)
  rows(function(v)
    return ty.grad(function(u) return ty.linalg.det(u:t():matmul(u)) + (select(2, ty.linalg.svd(u))):sum() end)(v)
  end)
  rows(function(v)
    return ty.one_hot(v:abs():to("i64") + 1, 4), v:abs():mul(2):to("i64"):unique(), (v:topk(2, 1)), v:roll(1, 2), v:tril()
  end)
end)

describe("the graph of a function on another device", function()
  local graph = require "tycho.graph"
  local there = { device = "far" }
  for name, f in pairs {
    ["a move"] = function(v) return (v * 2 + 1):to "cpu" end,
    ["a move back"] = function(v) return v:to("cpu"):exp():to "far" end,
    numbers = function(v) return v + ty.rand(3, there) end,
    constants = function(v) return ty.full({ 3 }, 1 / 3, there) * v + ty.arange(3, there) end,
    windows = function(v) return (v + 1):unfold(1, 2, 1) * 2 end,
    ["an index"] = function(v) return v:index_select(1, (v:sum(2) * 10):to "i64" % 4 + 1) end,
    ["an index from the end"] = function(v) return v:gather(1, -((v:abs() * 10):to "i64" % 4 + 1)) end,
  } do
    probe("gives source and text that do the same there: " .. name, function()
      local x, kept = numbers("f32", 4, 3):to "far", nil
      ty.manual_seed(5)
      local want = f(x)
      ty.manual_seed(5)
      local g = graph.from(jit.graph(function(v) kept = f(v) end, x))
      assert.is_nil(g:lint())
      local back = graph.parse(g:text())
      assert.equal(g:text(), back:text())
      for _, call in ipairs { function(v) return g:run(v) end, assert(loadstring(g:source()))(),
        function(v) return back:run(v) end } do
        local got = { call(x) }
        assert.equal(want.device, got[#got].device)
        H.same(want, got[#got])
      end
      assert.truthy(kept)
    end)
  end
end)

describe("the graph of a function on another device, given an index that is out of range,", function()
  local graph = require "tycho.graph"
  probe("raises in each of its forms", function()
    local x, at = ty.ones(3, { device = "far" }), ty.tensor({ 1, 2 }, { dtype = "i64", device = "far" })
    local kept
    local g = graph.from(jit.graph(function(v, i) kept = v:gather(1, i) end, x, at))
    assert.truthy(g:text():find("positions", 1, true))
    for _, v in ipairs { 4, 0, -4, 2 ^ 62 } do
      at:copy_(ty.tensor({ 1, v }, { dtype = "i64" }):to "far")
      for _, call in ipairs { function(...) return g:run(...) end, assert(loadstring(g:source()))() } do
        raises(("index %.0f at %%(2%%) is out of range"):format(v):gsub("%-", "%%-"), function() return (call(x, at)):sum():item() end)
      end
    end
    assert.truthy(kept)
  end)
end)

describe("memory that others made", function()
  probe("is the CPU's, whatever the device of what is made", function()
    local room = H.ffi.new("float[4]", 1, 2, 3, 4)
    ty.device "far"
    local t = ty.from_ptr(room, { 4 }, "f32")
    local index = ty.data.tensors(ty.arange(5)):subset { 2, 3 }
    ty.device "cpu"
    assert.equal("cpu", t.device)
    assert.same({ 1, 2, 3, 4 }, H.list(t))
    assert.equal(2, index:count())
  end)
end)

local steps = [[
local H = require "spec.helper"
local far = require "spec.far"
local ty = H.ty
local x, y = H.mixed("f32", { 12, 12 }, 1):clamp(-4, 4), H.mixed("f32", { 12, 12 }, 2):clamp(-4, 4)
local index = ty.arange(144):reshape(12, 12):remainder(12):add(1):to "i64"
local function all(x, y, index)
  return (x:matmul(y) + y):relu(), x:sort(2), x:argsort(1), x:scatter(2, index, y), x:scatter_add(1, index, y),
    ty.searchsorted(x:sort(2), y), ty.scaled_dot_product_attention(x, y, x),
    x:t():clone(), x:softmax(1), x:exp():cumsum(1), x:clone():put_diagonal and x or x
end
local f = ty.compile(all)
for _ = 1, 3 do
  local want, got = { all(x, y, index) }, { f(x:to "far", y:to "far", index:to "far") }
  for i = 1, #want do
    assert(got[i].device == "far", i)
    local a, b = H.list(want[i]), H.list(got[i])
    for k = 1, #a do assert(a[k] == b[k] or a[k] ~= a[k] and b[k] ~= b[k], i .. " differs at " .. k) end
  end
end
print("equal", ty.explain(f):full():match "far refuses" and "away" or "there")
]]
steps = steps:gsub("x:clone%(%):put_diagonal and x or x", "x * y")

describe("a step that a device refuses", function()
  probe("runs on the CPU with copies, to the bit", function()
    assert.equal("equal\tthere\n", run("FAR_REFUSES=", steps))
    for _, kind in ipairs { "product", "attend", "sort", "search", "scatter", "copy", "kernel",
      "product attend sort search scatter copy kernel" } do
      assert.equal("equal\taway\n", run(("FAR_REFUSES='%s'"):format(kind), steps), kind)
    end
  end)

  probe("leaves tensors as they were where there is no memory for it", function()
    assert.equal("some failed, 0 written by half\n", run("FAR_REFUSES=kernel", [[
      require "spec.far"
      local ty = require "tycho"
      local fail = ty.internals.probe.fail
      ty.device "far"
      local f = ty.compile(function(x, y)
        x:mul_(2)
        local z = x:cumsum(1)
        return (z * x):cumsum(1), z:sum() + y
      end)
      local y = ty.full({ 40 }, 3)
      for _ = 1, 3 do f(ty.ones(40), y) end
      assert(ty.explain(f):full():find "far refuses")
      local failed, half = 0, 0
      for after = 0, 40 do
        local x = ty.ones(40)
        collectgarbage()
        ty.synchronize()
        fail(after)
        local ok = pcall(f, x, y)
        fail(-1)
        if not ok then failed = failed + 1 end
        ok = pcall(ty.synchronize) and ok -- the device may tell it later
        if x:get(1) ~= (ok and 2 or 1) then half = half + 1 end
      end
      print((failed > 0 and "some" or "none") .. " failed, " .. half .. " written by half")]]))
  end)
end)

describe("a queue", function()
  probe("may be as late and in whatever order it promises", function()
    for seed = 1, 6 do assert.equal("equal\tthere\n", run("FAR_SEED=" .. seed, steps)) end
  end)

  probe("kills whoever touches its memory from elsewhere", function()
    local text = run("", [[
      local far, ty = require "spec.far", require "tycho"
      print(ty.zeros(2, { device = "far" }):get(1))
      io.stdout:flush()
      far.touch()
      print "alive"]])
    assert.truthy(text:find "^0\n", text)
    assert.falsy(text:find "alive", text)
  end)
end)

describe("complex numbers on a device", function()
  probe("meet numbers there: in arithmetic, writes, choices, functions", function()
    local z = ty.complex({ 1, -2, 0.5 }, { 3, 0.25, -1 })
    local mask = ty.tensor { true, false, true }
    local function results(device)
      local x, m = z:to(device), mask:to(device)
      local w = x * 1
      w[1] = 2
      w[{ { 2, 3 } }] = -0.5
      return { x + 1, 2 - x, x / 3, ty.where(m, x, 0.5), x:pow(-1.25), x:log1p(), w, x:masked_fill(m, 7), x:conj() }
    end
    local want, got = results "cpu", results "far"
    for i, y in ipairs(want) do
      assert.equal("far", got[i].device)
      H.same(y:view_as_real(), got[i]:view_as_real())
    end
  end)
end)
