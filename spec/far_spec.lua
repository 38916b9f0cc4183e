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
  assert.same(H.list(want), H.list(got))
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

  probe("names an index that is out of range", function()
    local x = ty.ones(3, { device = "far" })
    raises("index 4 at %(2%) is out of range", function()
      return x:gather(1, ty.tensor({ 1, 4 }, { dtype = "i64", device = "far" }))
    end)
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
    assert.truthy(tostring(text):find("to %%%d+ : f32%[5%]@far"))
    assert.truthy(tonumber(tostring(text):match "(%d+) answered without running it") >= 3)
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
print("equal", tostring(ty.explain(f)):match "far refuses" and "away" or "there")
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
