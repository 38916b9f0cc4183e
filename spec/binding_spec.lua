--- binding_spec.lua -- what the Lua surface promises: arguments, errors at the user's line, values in and out, random
-- numbers, memory, the end of a state.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

local function values(t) return ty.is_tensor(t) and t:totable() or t end

local function is(want, got) assert.same(want, values(got)) end

--- The error of fn(...) names this file and begins as `text` does.
local function raises(text, fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok, text)
  local place, message = tostring(err):match("^(.-:%d+): (.*)$")
  assert.truthy(message, tostring(err))
  assert.equal(text, message:sub(1, #text))
  return place
end

local x = ty.tensor { { 1, 2 }, { 3, 4 } }

describe("operators", function()
  it("take tensors and numbers on either side", function()
    is({ { 2, 3 }, { 4, 5 } }, x + 1)
    is({ { 0, -1 }, { -2, -3 } }, 1 - x)
    is({ { 1, 4 }, { 9, 16 } }, x * x)
    is({ { 0.5, 1 }, { 1.5, 2 } }, x / 2)
    is({ { 1, 0 }, { 1, 0 } }, x % 2)
    is({ { 2, 4 }, { 8, 16 } }, 2 ^ x)
    is({ { -1, -2 }, { -3, -4 } }, -x)
    assert.equal(2, #x)
  end)

  it("define powers by 2, a half and -1 as product, root and quotient, to the bit", function()
    local r = ty.rand(33)
    is(values(r * r), r ^ 2)
    is(values(r:sqrt()), r ^ 0.5)
    is(values(1 / r), r ^ -1)
    is({ 4, 9 }, ty.tensor({ 2, 3 }, { dtype = "i32" }) ^ 2)
  end)

  it("compare by identity, and say which methods compare elements", function()
    assert.is_true(x == x and x ~= ty.zeros(2, 2))
    raises("lt: ", function() return x < x end)
    raises("le: ", function() return x >= x end)
    raises("concat: ", function() return x .. "" end)
    is({ { false, false }, { true, true } }, x:gt(2))
    is({ { true, true }, { false, false } }, ty.ge(2, x))
  end)

  it("raise with the name of the function and the shapes", function()
    raises("add: sizes do not broadcast, f32[2,2] and f32[3]", function() return x + ty.zeros(3) end)
    raises("mul: argument 2 must be a tensor or a number, got string \"a\"", function() return x * "a" end)
    raises("add_: ", function() return ty.zeros(2):add_(ty.ones(3, 2)) end)
    raises("add_: ", function() return ty.zeros(2, { dtype = "i32" }):add_(1.5) end)
    raises("matmul: inner sizes differ, f32[2,2] x f32[3,2]", x.matmul, x, ty.zeros(3, 2))
  end)
end)

describe("in-place forms", function()
  it("write through every alias and return their first argument", function()
    local y = ty.zeros(2, 2)
    local row = y[2]
    assert.is_true(y:add_(x):mul_(2) == y)
    is({ 6, 8 }, row)
    row:sub_(1)
    is({ { 2, 4 }, { 5, 7 } }, y)
  end)
end)

describe("fields", function()
  it("are properties and methods; unknown ones raise with the nearest name", function()
    is({ 2, 2 }, x.shape)
    assert.same({ "f32", "cpu", 2, false }, { x.dtype, x.device, x.ndim, x.requires_grad })
    raises('tensor: no field "shap"; did you mean "shape"?', function() return x.shap end)
    raises('tensor: no field "matmull"; did you mean "matmul"?', function() return x.matmull end)
    raises('tensor: no field "mt"; did you mean "mT"?', function() return x.mt end)
    raises("tensor: ", function() x.foo = 1 end)
  end)

  it("give a fresh shape each time", function()
    local shape = x.shape
    shape[1] = 7
    is({ 2, 2 }, x.shape)
  end)
end)

describe("dims", function()
  it("count from 1, or from the end with a minus", function()
    is({ 4, 6 }, x:sum(1))
    is({ 3, 7 }, x:sum(-1))
    is(10, x:sum())
    is({ { 10 } }, x:sum(nil, true))
    is(10, x:sum { 1, 2 })
  end)

  it("raise when 0, out of range, fractional, repeated or none", function()
    raises("sum: dim 0 is out of range 1..2, or -2..-1 from the end of f32[2,2]", x.sum, x, 0)
    raises("sum: dim 3 is out of range", x.sum, x, 3)
    raises("sum: a dim must be a whole number, got number 1.5", x.sum, x, 1.5)
    raises("sum: dim 1 is given twice", x.sum, x, { 1, -2 })
    raises("sum: an empty list of dims", x.sum, x, {})
    raises("cumsum: argument 2 (dim of f32[2,2]) is missing", x.cumsum, x)
    raises("max: a dim must be a whole number, got tensor f32[2,2]; maximum", x.max, x, x)
  end)
end)

describe("positions", function()
  it("are 1-based: argmax, argsort, gather, scatter, searchsorted", function()
    is(4, x:argmax())
    is({ 2, 2 }, x:argmax(1))
    is({ 2, 3, 1 }, ty.tensor { 3, 1, 2 }:argsort())
    is({ 1, 3, 2 }, ty.tensor { 3, 1, 2 }:argsort { descending = true })
    is({ 30, 10 }, ty.tensor { 10, 20, 30 }:gather(1, { 3, 1 }))
    is({ 0, 5, 0 }, ty.zeros(3):scatter(1, { 2 }, 5))
    is({ { 1, 4 }, { 3, 1 } }, ty.tensor { 1, 2, 3 }:searchsorted(ty.tensor { { 0, 5 }, { 2.5, 1 } }))
    raises("gather: index 3 at (1, 1) is out of range 1..2", x.gather, x, 1, ty.tensor({ { 3, 1 } }, { dtype = "i64" }))
  end)
end)

describe("creation", function()
  it("takes sizes by position or in a table, options in a table with keys", function()
    is({ 0, 0 }, ty.zeros(2))
    is({ { 1 }, { 1 } }, ty.ones({ 2, 1 }, { dtype = "i8" }))
    is(0, ty.zeros())
    is({ true, true }, ty.full(2, true))
    is({ 3, 3 }, ty.full({ 2 }, 3))
    assert.equal("f64", ty.empty(2, { dtype = "f64" }).dtype)
    raises('zeros: unknown option string "dtyp"; known: dtype device', ty.zeros, 2, { dtyp = "f32" })
    raises("zeros: a size must be a whole number from 0, got number -1", ty.zeros, 2, -1)
    raises("zeros: at most 8 dims", ty.zeros, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    raises("zeros: f32[1099511627776,1099511627776] is too large", ty.zeros, 2 ^ 40, 2 ^ 40)
  end)

  it("has a half-open arange and an inclusive range", function()
    is({ 0, 1, 2 }, ty.arange(3))
    is({ 1, 2, 3 }, ty.range(3))
    is({ 1, 1.25, 1.5, 1.75 }, ty.arange(1, 2, 0.25))
    is({ 3, 2, 1 }, ty.range(3, 1, -1))
    is({}, ty.arange(3, 1))
    raises("arange: start 0 and step 0.5 must be whole for i32", ty.arange, 0, 1, 0.5, { dtype = "i32" })
    raises("arange: the step is 0", ty.arange, 0, 1, 0)
  end)

  it("meets both ends in linspace", function()
    is({ 0, 0.25, 0.5, 0.75, 1 }, ty.linspace(0, 1, 5))
    local l = ty.linspace(0.1, 0.7, 1001, { dtype = "f64" })
    assert.equal(0.1, l:get(1))
    assert.equal(0.7, l:get(-1))
    is({ { 1, 0 }, { 0, 1 }, { 0, 0 } }, ty.eye(3, 2))
  end)
end)

describe("tensor data", function()
  it("gives f32 for numbers and bool for booleans", function()
    assert.equal("f32", ty.tensor({ 1 }).dtype)
    assert.equal("bool", ty.tensor({ true }).dtype)
    is({ 0 }, ty.tensor({}).shape)
    is({ 2, 0 }, ty.tensor({ {}, {} }).shape)
    is(5, ty.tensor(5))
  end)

  it("raises with the path where it is ragged, mixed, or does not fit", function()
    raises("tensor: ragged data, [2] has 1 elements where 2 were expected", ty.tensor, { { 1, 2 }, { 3 } })
    raises("tensor: ragged data, [1][2] is table where a number was expected", ty.tensor, { { 1, {} } })
    raises("tensor: mixed data, [2] is true among numbers", ty.tensor, { 1, true })
    raises("tensor: 300 at [2] does not fit u8", ty.tensor, { 1, 300 }, { dtype = "u8" })
    raises("tensor: data must be a list", ty.tensor, { 1, dtype = "f64" })
  end)
end)

describe("leaving", function()
  it("gives numbers, booleans and nested tables", function()
    assert.equal(10, x:sum():item())
    assert.equal(true, ty.tensor(true):item())
    assert.equal(4, x:get(-1, -1))
    is({ { 1, 3 }, { 2, 4 } }, x:t())
    raises("item: needs a tensor of one element, got f32[2,2]", x.item, x)
    raises("get: index 3 of dim 1 is out of range 1..2 of f32[2,2]", x.get, x, 3, 1)
    raises("get: needs 2 indices for f32[2,2], got 1", x.get, x, 1)
  end)

  it("lets i64 out as numbers only when they are exact", function()
    local big = ty.tensor(2 ^ 53, { dtype = "i64" })
    assert.equal(2 ^ 53, big:item())
    assert.equal(2 ^ 54, (big + big):item())
    raises("item: i64 9007199254740993 is not exact", (big + 1).item, big + 1)
  end)

  it("writes single elements, and refuses what does not fit", function()
    local y = ty.zeros(2, { dtype = "i32" })
    is({ 0, 7 }, y:set(2, 7))
    raises("set: 1.5 does not fit i32", y.set, y, 1, 1.5)
  end)

  it("iterates over rows", function()
    local seen = {}
    for i, row in x:rows() do seen[i] = row:totable() end
    assert.same({ { 1, 2 }, { 3, 4 } }, seen)
  end)

  it("returns the same tensor where nothing changes", function()
    assert.is_true(x:to("f32") == x and x:to("cpu") == x and x:contiguous() == x)
    assert.equal("i64", x:to("i64").dtype)
    local there, why = x:to("cuda:9")
    assert.is_nil(there)
    assert.equal('to: device "cuda:9" is not available: ', why:sub(1, 38))
  end)
end)

describe("memory of others", function()
  it("is shared both ways", function()
    local a = ffi.new("double[6]", 1, 2, 3, 4, 5, 6)
    local t = ty.from_ptr(a, { 2, 3 }, "f64")
    a[0] = 9
    assert.equal(9, t:get(1, 1))
    t:add_(1)
    assert.equal(7, a[5])
    local y = ty.zeros(3)
    y:data()[1] = 5
    is({ 0, 5, 0 }, y + 0)
  end)

  it("is kept alive by the anchor, and let go with the tensor", function()
    local weak = setmetatable({}, { __mode = "v" })
    local function make()
      weak[1] = ffi.new("float[4]")
      return ty.from_ptr(weak[1], 4)
    end
    local function use()
      local t = make()
      collectgarbage()
      assert.is_true(weak[1] ~= nil)
      is({ 0, 0, 0, 0 }, t)
    end
    use()
    for _ = 1, 4 do collectgarbage() end
    assert.is_true(weak[1] == nil)
  end)

  it("must be a pointer", function()
    raises("from_ptr: ", ty.from_ptr, 5, { 2 })
    raises("from_ptr: ", ty.from_ptr, 5LL, { 2 })
    raises("from_ptr: an array of 16 bytes is too small for f64[3]", ty.from_ptr, ffi.new("float[4]"), 3, "f64")
    raises("from_ptr: the pointer is NULL", ty.from_ptr, ffi.cast("void *", 0), { 2 })
  end)
end)

describe("random numbers", function()
  it("repeat with the seed, and differ from call to call", function()
    ty.manual_seed(7)
    local a, b = values(ty.rand(3, 4)), values(ty.rand(3, 4))
    ty.manual_seed(7)
    is(a, ty.rand(3, 4))
    is(b, ty.rand(3, 4))
    assert.are_not.same(a, b)
  end)

  it("are those of Philox4x32-10", function()
    ty.manual_seed(0)
    local counter, key, y = ffi.new "uint32_t[4]", ffi.new "uint32_t[2]", ffi.new "uint32_t[4]"
    local u = ty.rand(5)
    for i = 0, 4 do
      counter[0] = i
      H.oracle.oracle_philox(counter, key, y)
      assert.equal(math.floor(y[0] / 256) / 2 ^ 24, u:get(i + 1))
    end
  end)

  it("are the same in compiled functions", function()
    local function draw()
      return ty.rand(5), ty.randn(7, { dtype = "f64" }), ty.randint(1, 6, { 9 }), ty.randperm(11),
        ty.normal(1, 2, { 3 })
    end
    ty.manual_seed(3)
    local eager = { draw() }
    ty.manual_seed(3)
    local compiled = { ty.compile(draw)() }
    for i = 1, #eager do is(values(eager[i]), compiled[i]) end
  end)

  it("have their distributions", function()
    ty.manual_seed(1)
    for _, dtype in ipairs { "f16", "bf16", "f32", "f64" } do
      local u = ty.rand(4096, { dtype = dtype })
      assert.is_true(u:max():item() < 1 and u:min():item() >= 0)
      assert.near(0.5, u:to("f64"):sum():item() / 4096, 0.03)
    end
    local n = ty.randn(10000, { dtype = "f64" })
    assert.near(0, n:sum():item() / 1e4, 0.05)
    assert.near(1, (n * n):sum():item() / 1e4, 0.06)
    local dice = ty.randint(1, 6, { 1000 })
    assert.same({ 1, 6, "i64" }, { dice:min():item(), dice:max():item(), dice.dtype })
    assert.near(0.3, ty.bernoulli(0.3, { 10000 }):sum():item() / 1e4, 0.03)
  end)

  it("permute and choose 1-based positions", function()
    local p = ty.randperm(100):totable()
    table.sort(p)
    for i = 1, 100 do assert.equal(i, p[i]) end
    local drawn = ty.tensor { 0, 1, 3 }:multinomial(4000, true)
    assert.same({ 2, 3 }, { drawn:min():item(), drawn:max():item() })
    assert.near(0.75, drawn:eq(3):sum():item() / 4000, 0.04)
    local pair = ty.tensor { 0, 1, 3 }:multinomial(2):totable()
    table.sort(pair)
    assert.same({ 2, 3 }, pair)
    raises("multinomial: cannot draw 9 of f32[3] without replacement", ty.multinomial, ty.ones(3), 9)
  end)
end)

describe("lifetime", function()
  it("ends with release, after which every use raises", function()
    local y = ty.zeros(2)
    local view = y:reshape(1, 2)
    y:release()
    raises("exp: tensor was released", y.exp, y)
    raises("shape: tensor was released", function() return y.shape end)
    is({ { 0, 0 } }, view)
  end)

  it("ends once, and what is left is a tensor that says so", function()
    local y, z = ty.ones(2), ty.ones(2)
    collectgarbage()
    collectgarbage "stop"
    local before = ty.stats().memory.tensors
    for _ = 1, 3 do y:release() end
    assert.equal(before - 1, ty.stats().memory.tensors)
    collectgarbage "restart"
    assert.is_true(ty.is_tensor(y))
    assert.equal("tensor", getmetatable(y))
    raises("add: tensor was released", function() return z + y end)
    raises("mul: tensor was released", function() return y * 2 end)
    raises("shape: tensor was released", function() return y.shape end)
    raises("index: tensor was released", function() return y[1] end)
    y = nil
    for _ = 1, 3 do collectgarbage() end
    assert.equal(before - 1, ty.stats().memory.tensors)
    is({ 1, 1 }, z)
  end)

  it("ends with the scope for what the scope does not return", function()
    local inner
    local kept, sum = ty.scope(function(v)
      inner = ty.zeros(3)
      return { { ty.ones(2) } }, v + 1
    end, x)
    is({ 1, 1 }, kept[1][1])
    is({ { 2, 3 }, { 4, 5 } }, sum)
    raises("add: tensor was released", function() return inner + 1 end)
    raises("boom", ty.scope, function()
      inner = ty.zeros(1)
      error("boom")
    end)
    raises("add: tensor was released", function() return inner + 1 end)
  end)

  it("of a nested scope's result belongs to the scope around", function()
    local inner
    is({ 2 }, ty.scope(function()
      inner = ty.scope(function() return ty.ones(1) end)
      return inner + 1
    end))
    raises("add: tensor was released", function() return inner + 1 end)
  end)

  it("of a scope spans yields, and leaves other coroutines alone", function()
    local inner
    local co = coroutine.wrap(function()
      return ty.scope(function()
        inner = ty.ones(2)
        coroutine.yield()
        return 1
      end)
    end)
    ty.scope(co)
    is({ 2, 2 }, inner + 1)
    co()
    raises("add: tensor was released", function() return inner + 1 end)
  end)

  it("survives metamethods that release what is in use, however deep others were released", function()
    local function released(depth) -- not by a tail call: each has a frame of its own
      if depth == 0 then ty.ones(2):release() else released(depth - 1) end
      return depth
    end
    for depth = 0, 60, 20 do
      released(60)
      released(depth)
      local y = ty.ones(4)
      local trap = setmetatable({}, { __index = function() y:release() end })
      is(4, y:sum(1, trap))
      y:release()
      raises("exp: tensor was released", y.exp, y)
    end
  end)

  it("survives finalisers that release what is in use", function()
    local y, hits, armed = ty.ones(16), 0, true
    local function arm()
      getmetatable(newproxy(true)).__gc = function()
        hits = hits + 1
        y:release()
        if not armed then return end
        y = ty.ones(16)
        arm()
      end
    end
    for _ = 1, 20 do arm() end
    for i = 1, 4000 do
      is(32, (y + y):sum())
      if i % 400 == 0 then collectgarbage() end
    end
    armed = false
    collectgarbage()
    assert.is_true(hits > 0)
  end)
end)

describe("Lua's collector", function()
  local script = [[
    local ty = require "tycho"
    local objects = {}
    for i = 1, 200000 do objects[i] = { i } end
    local a = ty.ones(262144)
    for i = 1, 20000 do local b = a + i end
    for line in io.lines "/proc/self/status" do
      local kb = line:match "VmHWM:%s+(%d+)"
      if kb then io.write(kb) end
    end
  ]]

  it("frees 20,000 temporaries of 1 MB beside 200,000 objects within 256 MB", function()
    local path = os.tmpname()
    local f = assert(io.open(path, "w"))
    f:write(script)
    f:close()
    local pipe = io.popen(("LUA_PATH='%s' LUA_CPATH='%s' luajit '%s'"):format(package.path, package.cpath, path))
    local kb = tonumber(pipe:read "*a")
    pipe:close()
    os.remove(path)
    assert.is_true(kb < 256 * 1024, kb .. " KB")
  end)

  it("stays stopped when the host has stopped it", function()
    collectgarbage()
    collectgarbage "stop"
    local weak = setmetatable({}, { __mode = "k" })
    weak[{}] = true
    local a = ty.ones(262144)
    for i = 1, 400 do (a + i):release() end
    for i = 1, 150 do local _ = a + i end
    local kept = next(weak) ~= nil
    collectgarbage "restart"
    collectgarbage()
    assert.is_true(kept)
    assert.is_true(next(weak) == nil)
  end)
end)

describe("settings", function()
  it("say what is in force, and refuse what they do not know", function()
    assert.same({ "exact", true, "f32", false }, { ty.precision(), ty.deterministic(), ty.default_dtype(), ty.blas() })
    local n = ty.threads()
    assert.equal(1, ty.threads(1))
    assert.equal(n, ty.threads(n))
    raises("precision: ", ty.precision, "quick")
    raises("threads: ", ty.threads, 0)
    raises("default_dtype: ", ty.default_dtype, "i32")
  end)

  it("count in stats", function()
    local before = ty.stats().operations
    local _ = x + x
    assert.equal(before + 1, ty.stats().operations)
    assert.is_true(ty.stats().memory.used > 0)
  end)
end)
