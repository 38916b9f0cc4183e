--- graph_spec.lua -- graphs in Lua: what they say, run and print is what was recorded; changes keep the rules or raise.
-- Values are compared to the bit with the recorded function itself, run eagerly. Texts go through the core's own reader.

local H = require "spec.helper"
local gen = require "spec.fuzz_program"
local graph = require "tycho.graph"

local ty, probe, ffi = H.ty, H.probe, H.ffi

local function record(f, ...) return assert(graph.record(f, ...)) end

--- A value of a tensor alone: its memory is shared with none.
local function values(...)
  local list = { ... }
  for i = 1, select("#", ...) do list[i] = list[i]:clone() end
  return list
end

local function same_list(want, got, what)
  assert.equal(#want, #got, what)
  for i = 1, #want do H.same(want[i], got[i], ("%s, output %d"):format(what, i)) end
end

--- The graph gives these values in every way in which it can be run.
local function gives(g, want, ...)
  assert.is_nil(g:lint())
  same_list(want, { g:run(...) }, "run")
  local source = g:source()
  local chunk, wrong = loadstring(source, "=source")
  if not chunk then error(wrong .. "\n" .. source) end
  same_list(want, { chunk()(...) }, "source")
  local text = g:text()
  local back = graph.parse(text)
  assert.equal(text, back:text())
  assert.equal(source, back:source())
  local copy = g:clone()
  assert.equal(text, copy:text())
  copy:dce()
  same_list(want, { copy:run(...) }, "clone without dead nodes")
end

--- Records f, and compares its graph with f itself.
local function faithful(f, ...)
  local want = values(f(...))
  local g, inputs = record(f, ...)
  gives(g, want, unpack(inputs))
  return g, inputs
end

local function raises(text, fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, "no error: " .. text)
  assert.truthy(message:find("graph_spec.lua:%d+: "), "no place of the user's: " .. message)
  assert.truthy(message:find(text, 1, true), message)
end

local function ops_of(g)
  local list = {}
  for n in g:nodes() do list[#list + 1] = n.op end
  return table.concat(list, " ")
end

local function node(g, op)
  for n in g:nodes() do
    if n.op == op then return n end
  end
end

-- What is recorded --------------------------------------------------------------------------------------------------

describe("a recorded graph", function()
  local function model(x, w) return (x:matmul(w) + 1):maximum(0):sum(1) end

  it("has the operations in order, their types, operands and arguments by name", function()
    local g = record(model, ty.ones(2, 3), ty.ones(3, 4))
    assert.equal("input input matmul scalar add scalar maximum sum", ops_of(g))
    local sum = g[8]
    assert.same({ 1 }, sum.dims)
    assert.same({ 4 }, sum.shape)
    assert.equal("f32", sum.dtype)
    assert.equal(g[7], sum.inputs[1])
    assert.equal("exact", g[3].by)
    assert.same({ 3, 1 }, g[1].strides)
    assert.same({ 2, 1 }, { g[2].number, g[4].slot })
  end)

  it("prints as a table", function()
    local g = record(model, ty.ones(2, 3), ty.ones(3, 4))
    assert.equal([[
node       operation                                  operands            type      users
x1         input {buffer=1, number=1, strides=[3,1]}                      f32[2,3]  1
x2         input {buffer=2, number=2, strides=[4,1]}                      f32[3,4]  1
matmul_1   matmul {by=exact}                          x1, x2              f32[2,4]  1
scalar_1   scalar {slot=1}                                                f32[]     1
add_1      add                                        matmul_1, scalar_1  f32[2,4]  1
scalar_2   scalar {slot=2}                                                f32[]     1
maximum_1  maximum                                    add_1, scalar_2     f32[2,4]  1
sum_1      sum {dims=[1]}                             maximum_1           f32[4]    0, output 1]],
      tostring(g))
    assert.equal("add_1 = add(matmul_1, scalar_1) : f32[2,4]", tostring(g[5]))
  end)

  it("knows inputs, outputs, scalars and users", function()
    local x, w = ty.randn(2, 3), ty.randn(3, 4)
    local g, inputs, results = record(function(a, b)
      local y = a:matmul(b)
      return y * 2.5, y, a
    end, x, w)
    assert.same({ g[1], g[2] }, g:inputs())
    assert.same({ 2.5 }, g:scalars())
    local out = g:outputs()
    assert.same({ "mul", "matmul", "input" }, { out[1].op, out[2].op, out[3].op })
    assert.same({ out[1] }, g:users(out[2]))
    H.same(x, inputs[1])
    H.same(w, inputs[2])
    H.same(x:matmul(w), results[2])
  end)

  it("sees views of inputs as layouts, and gives tensors that have them", function()
    local x = ty.range(12):reshape(3, 4)
    local g, inputs = faithful(function(a) return a:t() + a[{ { 1, 3 }, 2 }], a[{ {}, { 4, 1, -1 } }] * 2 end, x)
    assert.equal(3, #inputs)
    assert.same({ 1, 4 }, g:inputs()[1].strides)
    assert.same({ 1, 1, 1 }, { g:inputs()[1].buffer, g:inputs()[2].buffer, g:inputs()[3].buffer })
    H.same(x[{ { 1, 3 }, 2 }], inputs[2])
    H.same(x:flip(2), inputs[3])
  end)

  it("does what f does, once", function()
    local x, calls = ty.zeros(3), 0
    local g = record(function(a)
      calls = calls + 1
      a:add_(1)
      return a * 2
    end, x)
    assert.equal(1, calls)
    H.same(ty.ones(3), x)
    assert.equal(1, #g:outputs())
  end)

  it("is none where a value was wanted, and says so", function()
    local g, why = graph.record(function(x)
      local y = x * 2
      return y + y:sum():item()
    end, ty.ones(3))
    assert.is_nil(g)
    assert.truthy(why:find("a value was wanted", 1, true))
  end)

  it("may be of hundreds of operations", function()
    local function long(x)
      for i = 1, 240 do x = x * 0.5 + i end
      return x
    end
    local g = faithful(long, ty.randn(7))
    assert.equal(961, #g)
  end)

  it("is of a module's forward, too", function()
    local module = { scale = ty.ones(2) * 3 }
    function module.forward(self, x) return x * self.scale end
    assert.equal("input input mul", ops_of(record(module, ty.ones(2))))
  end)

  it("raises what f raises, and what f returns besides tensors", function()
    raises("argument 1 must be a function", graph.record, 7)
    raises("result 2 must be a tensor, got number 5", graph.record, function(x) return x, 5 end, ty.ones(1))
    raises("sizes do not broadcast", graph.record, function(x) return x + ty.ones(3) end, ty.ones(2))
    raises("cannot be called inside a compiled function", H.lazy(function(x)
      local y = x * 2
      graph.record(function() return y end)
      return y
    end), ty.ones(4))
    local doubled = jit.compile(function(x) -- where it is captured, it runs between parts
      local y = x * 2
      graph.record(function() return y end)
      return y
    end)
    for _ = 1, 3 do assert.equal(8, doubled(ty.ones(4)):sum():item()) end
    assert.equal(4, record(function(x) return x:sum() end, ty.ones(4)):run(ty.ones(4)):item()) -- all is as before
  end)
end)

describe("jit.graph's tables", function()
  it("become graphs whose outputs are the live nodes", function()
    local kept
    local g = graph.from(jit.graph(function(x) kept = (x + 1):exp() end, ty.zeros(2)))
    assert.equal("input scalar add exp", ops_of(g))
    assert.equal(g[4], g:outputs()[#g:outputs()])
    H.same(ty.zeros(2):add(1):exp(), (select(#g:outputs(), g:run(ty.zeros(2)))))
    assert.truthy(kept)
  end)

  it("are of a module's forward, too", function()
    local m, x = ty.nn.Linear(3, 2), ty.randn(4, 3)
    local g = graph.from(jit.graph(m, x))
    H.same(m(x), (select(#g:outputs(), g:run(x, m.weight, m.bias))))
  end)

  it("are refused where the function was cut", function()
    local list = jit.graph(function(x)
      local y = x * 2
      return y:sum():item() + (y + 1):sum():item()
    end, ty.ones(3))
    raises("graphs, since the function was cut", graph.from, list)
    raises("a graph holds reals, result 1 is c64", graph.record, function(x) return ty.complex(x, x) end, ty.ones(2))
    raises("must be what jit.graph gives", graph.from, {})
    assert.truthy(graph.is_graph(graph.from(list[1])))
  end)
end)

-- Random programs -----------------------------------------------------------------------------------------------------

--- The first statements of a random program, so many that they record one graph; its inputs; what they give eagerly.
local function recorded_program(number)
  local program = gen.make(ty, number)
  local function execute(count)
    local vars = gen.inputs(ty, program)
    ty.manual_seed(program.seed)
    return vars, function()
      for i = 1, count do gen.execute(ty, vars, program[i]) end
      local list = {}
      for i = 1, 200 do
        local t = vars[i]
        if ty.is_tensor(t) then list[#list + 1] = t:is_complex() and t:view_as_real() or t end
      end
      return unpack(list)
    end
  end
  local count = #program
  for i, s in ipairs(program) do -- a graph to look at holds no scan
    if s.kind == "turns" then count = math.min(count, i - 1) end
  end
  while count >= 1 do
    local _, eager = execute(count)
    local want = { pcall(eager) }
    if want[1] then
      table.remove(want, 1)
      local _, body = execute(count)
      local g, inputs = graph.record(body)
      if g then return g, inputs, want end
    end
    count = math.floor(count * 0.6)
  end
end

--- The same nodes, each inserted with operands and arguments alone: types must follow.
local function rebuilt(g)
  local y = graph.parse ""
  local new, slots = {}, g:scalars()
  local typed = { input = true, const = true, scalar = true, cast = true, bitcast = true, empty = true }
  local shaped = { input = true, const = true, iota = true, empty = true, random = true, view = true,
    argsort = true, fft = true }
  local made = 0
  for n in g:nodes() do
    local inputs, args = {}, { dtype = typed[n.op] and n.dtype or nil, shape = shaped[n.op] and n.shape or nil }
    for i, a in ipairs(n.inputs) do inputs[i] = new[a] end
    for _, field in ipairs { "buffer", "number", "strides", "value", "bits", "word", "offset", "dims", "dim", "descending",
      "right", "by", "causal", "dropout", "kind" } do
      args[field] = n[field]
    end
    if n.op == "scalar" then
      if n.slot <= made then args.slot = n.slot else args.value, made = slots[n.slot], n.slot end
    elseif n.op == "random" then
      if n.slot <= made then args.slot = n.slot
      else args.stream, args.seed, made = slots[n.slot], slots[n.slot + 1], n.slot + 1 end
    end
    new[n] = y:insert(nil, n.op, inputs, args)
  end
  local outputs = {}
  for i, n in ipairs(g:outputs()) do outputs[i] = new[n] end
  y:set_outputs(outputs)
  return y
end

describe("graphs of random programs", function()
  it("run, as source, as text and copied, give the bits of eager", function()
    local graphs, said = 0, {}
    for number = 1, 250 do
      local g, inputs, want = recorded_program(7000 + number)
      if g then
        graphs = graphs + 1
        local ok, message = pcall(gives, g, want, unpack(inputs))
        if not ok then error(("program %d: %s\n%s"):format(7000 + number, message, tostring(g))) end
        for n in g:nodes() do said[n.op] = true end
      end
    end
    assert.truthy(graphs >= 200, graphs .. " graphs")
    for _, row in ipairs(probe.ops()) do -- indices are checked by value: they have tests of their own
      local alone = row.checks or row.name:find "^attend" or row.name == "fft" or row.name == "searchsorted" or row.name == "random"
        or row.name == "to" or row.name == "positions" -- which need a second device
        or row.name == "param" or row.name == "loop" -- of ty.scan, whose body is a graph of its own
        or row.name == "call" -- of ty.dist, which needs several processes
      assert.truthy(said[row.name] or alone, row.name .. " was never reached")
    end
  end)

  it("run where the first positions of a dim are wanted alone", function()
    for _, dim in ipairs { 1, 2 } do
      for _, largest in ipairs { true, false } do
        local x = ty.randn(6, 40)
        local g = graph.record(function(v) return v:topk(3, dim, largest) end, x)
        gives(g, { x:topk(3, dim, largest) }, x)
        gives(rebuilt(g), { x:topk(3, dim, largest) }, x)
      end
    end
  end)

  it("can be built again by insert, which finds all types", function()
    for number = 1, 100 do
      local g = recorded_program(9000 + number)
      local text = g and g:text()
      if g and not text:find("put", 1, true) then
        local y = rebuilt(g)
        assert.equal((text:gsub("%$[^\n]*\n", "")), (y:text():gsub("%$[^\n]*\n", "")))
      end
    end
  end)

  it("can be built again by insert where they run along a dim, search, write or attend", function()
    local matrix, row, heads = ty.randn(3, 4), ty.arange(4), ty.randn(2, 3, 4)
    for name, case in pairs {
      scan = { function(a) return a:cumsum(1), a:cumprod(2) end, matrix },
      ["scan of bytes"] = { function(a) return a:cumsum(1) end, matrix:to "u8" },
      search = { function(a, b) return a:searchsorted(b), a:searchsorted(b, true) end, row, matrix },
      write = { function(a, b)
        local y = a * 2
        y[2] = b
        y[{ {}, 1 }] = 0
        return y
      end, matrix, row },
      attend = { function(q) return ty.scaled_dot_product_attention(q, q, q, { causal = true }) end, heads },
      transform = { function(a) return ty.view_as_real(ty.fft.rfft(a)), ty.view_as_real(ty.fft.ifft(a, nil, 1, "ortho")) end, matrix },
      ["transform back"] = { function(a) return ty.fft.irfft(a, 5), ty.fft.hfft(a, 6) end, matrix },
    } do
      local g = record(unpack(case))
      local y = rebuilt(g)
      assert.is_nil(y:lint(), name)
      assert.equal(g:text(), y:text(), name)
    end
  end)
end)

-- Operations that random programs do not reach ---------------------------------------------------------------------------

describe("a graph says", function()
  it("gathers and scatters with 0-based indices", function()
    local x, index = ty.randn(3, 4), ty.tensor({ { 1, 2, 4, 1 }, { 3, 3, 2, -1 }, { 4, 4, 4, 4 } }, { dtype = "i64" })
    local g = faithful(function(a, i)
      return a:gather(2, i), a:scatter(2, i, a * 2), a:scatter_add(2, i, a), a:index_select(1, i[{ { 1, 2 }, 2 }])
    end, x, index)
    local said = ops_of(g)
    for _, op in ipairs { "gather", "scatter", "scatter_add" } do assert.truthy(said:find(op, 1, true), op) end
  end)

  it("searches and sorts", function()
    local x = ty.randn(2, 9)
    faithful(function(a, s)
      return s:searchsorted(a), s:searchsorted(a, true), a:argsort(1, true), a:argsort(2), a:argmin(2), a:argmax()
    end, x, (x:sort(2)))
  end)

  it("random numbers of every kind, with the recorded stream and seed", function()
    for _, seed in ipairs { 0, 7, -3, 2 ^ 40 + 5 } do
      local function draw()
        return ty.rand(40), ty.randn(3, 5), ty.rand({ 7 }, { dtype = "f64" }), ty.randint(-5, 5, { 4 }),
          ty.rand({ 6 }, { dtype = "bf16" }), ty.rand(), ty.rand(0)
      end
      ty.manual_seed(seed)
      local want = values(draw())
      ty.manual_seed(seed)
      gives(record(draw), want)
    end
    local g = record(function() return ty.rand(9) end)
    ty.manual_seed(11)
    ty.rand(1)
    local scalars = g:scalars()
    H.same(ty.rand(9), (g:run(1, 11, unpack(scalars, 3)))) -- another stream, another seed
  end)

  it("constants of every dtype to the bit", function()
    for _, dtype in ipairs(H.dtypes) do
      for _, v in ipairs { 0, 1, -1, 0.1, -0.0, 1 / 0, -1 / 0, 0 / 0, 3e-41, 100, 1e30 } do
        local want = ty.tensor({ v, v }, { dtype = "f64" }):to(dtype)
        local g = graph.parse ""
        local c = g:insert(nil, "const", {}, { value = want:to("f64"):get(1), dtype = dtype, shape = { 2 } })
        g:set_outputs { c }
        gives(g, { want })
      end
    end
    for text, parts in pairs { -- high and low half
      ["0x7fffffffffffffff"] = { 2147483647, 4294967295 }, ["0x8000000000000001"] = { -2147483648, 1 },
      ["0x20000000000001"] = { 2097152, 1 }, ["0xffffffffffffffff"] = { -1, 4294967295 },
    } do
      local g = graph.parse("%0 = const {bits=" .. text .. "} : i64[2]")
      gives(g, { ty.full({ 2 }, parts[1], { dtype = "i64" }):lshift(32):bitwise_or(parts[2]) })
      assert.truthy(g:text():find(text, 1, true))
    end
    local payload = graph.parse "%0 = const {bits=0x7ff8000000000123} : f64[]"
    assert.truthy(payload:text():find("0x7ff8000000000123", 1, true))
    gives(payload, { ty.full({}, 0 / 0, { dtype = "f64" }) })
  end)

  it("scalars of every dtype, which may be given anew", function()
    for _, dtype in ipairs(H.dtypes) do
      if dtype ~= "bool" then
        local x = ty.ones({ 3 }, { dtype = dtype })
        local g = faithful(function(a) return a + 3 end, x)
        assert.same({ 3 }, g:scalars())
        H.same(x + 5, (g:run(x, 5)))
        H.same(x + 5, (loadstring(g:source())()(x, 5)))
      end
    end
    local third = record(function(x) return x * (1 / 3) end, ty.ones({ 2 }, { dtype = "f64" }))
    assert.equal(1 / 3, third:scalars()[1])
  end)

  it("views of every form: windows, diagonals, steps, repeats, and writes through them", function()
    local x = ty.randn(6, 8)
    faithful(function(a)
      local y = a + 0
      return y:unfold(2, 3, 2), y:diagonal(), y:diagonal(2), y:t()[{ { 7, 1, -3 }, { 2, 5 } }], y:flatten()[{ { 5, 47, 7 } }],
        y:flatten()[{ { 47, 5, -6 } }], y:flatten()[{ { 20, 3, -1 } }],
        y:reshape(3, 2, 8):permute { 3, 1, 2 }, y[3]:unsqueeze(1):expand { 4, 8 }, y[{ 2, 3 }], y[{ { 3, 2 } }],
        y:reshape(2, 3, 2, 4):transpose(2, 3)[{ 2, {}, { 3, 1, -1 }, 4 }], y:sum():expand { 2, 2 }
    end, x)
    faithful(function(a)
      local y, z, w = a + 0, a + 1, a + 2
      y[{ { 2, 6, 2 }, { 8, 1, -1 } }] = a[{ { 1, 3 } }]
      z:diagonal():copy_(a[1][{ { 1, 6 } }])
      w:t()[{ { 1, 3 } }] = 5
      w:flatten()[{ { 1, 5 } }] = 7
      y[{ 1, 1 }] = 9
      return y, z, w
    end, x)
  end)

  it("empty tensors and tensors without dims", function()
    faithful(function(a, b)
      return a + 1, a:sum(2), a:t(), ty.cat({ a, a }, 1), b * 2, b:sum(), b:reshape(1, 1), b:argmax(), a:cumsum(1), a:matmul(a:t())
    end, ty.zeros(0, 3), ty.full({}, 2.5))
  end)

  it("products that settings would change, without being changed by settings", function()
    local x = ty.randn(64, 64)
    local g = record(function(a) return a:matmul(a) end, x)
    local want = x:matmul(x)
    if ty.blas(true) then
      local run, source = g:run(x), loadstring(g:source())()(x)
      local by_blas = x:matmul(x)
      local h = record(function(a) return a:matmul(a) end, x)
      assert.truthy(ty.blas())
      ty.blas(false)
      H.same(want, run)
      H.same(want, source)
      assert.equal("blas", node(h, "matmul").by)
      H.same(by_blas, (h:run(x)))
      H.same(by_blas, (loadstring(h:source())()(x)))
      assert.is_false(ty.blas())
    end
  end)

  it("hundreds of inputs, scalars and outputs in source that Lua takes", function()
    local list = {}
    for i = 1, 130 do list[i] = ty.full({ 2 }, i) end
    local function f(...)
      local out = {}
      for i = 1, select("#", ...) do out[i] = select(i, ...) * i end
      return unpack(out)
    end
    local g = faithful(f, unpack(list))
    assert.truthy(g:source():find("local v, given", 1, true))
  end)

  it("outputs that share memory with nothing", function()
    local x = ty.zeros(2, 3)
    local g, inputs = record(function(a)
      local y = a + 1
      return a, a:t(), y, y, y:t()
    end, x)
    for _, results in ipairs { { g:run(unpack(inputs)) }, { loadstring(g:source())()(unpack(inputs)) } } do
      for i = 1, #results do
        results[i]:fill_(i * 10)
        assert.equal(0, x:sum():item())
        for k = i + 1, #results do assert.equal(k > 2 and 6 or 0, results[k]:sum():item()) end
      end
    end
  end)

  it("nothing beyond public functions", function()
    local source = record(function(a) return a:unfold(1, 2, 1) + ty.rand(2), a:argsort() end, ty.ones(5)):source()
    assert.is_nil(source:find("internals", 1, true))
    local n = 0
    for name in source:gmatch("ty%.([%a_]+)") do
      assert.truthy(ty.help(name), name)
      n = n + 1
    end
    assert.truthy(n >= 4, source)
    local line = source:gsub("ty%.%a+", ""):match("[^\n]*_[%a]+:_[^\n]*")
    assert.is_nil(line)
  end)
end)

-- Text ----------------------------------------------------------------------------------------------------------------

local every_op = [[
$0 = 0x3fb999999999999a
$1 = 0xffffffffffffffff
$2 = 0x1fffffffffffff
%0 = input {k=3, k2=4, strides=[-4,1]} : f32[3,4]
%1 = input {k=3, k2=5, strides=[-4,1]} : f32[3,4]
%2 = scalar {k=0} : f64[]
%3 = const {bits=0x8000000000000001, value=-9223372036854775807} : i64[]
%4 = const {bits=0x7fc00001, value=nan} : f32[3,4]
%5 = iota : i64[3,4]
%6 = empty : bf16[0]
%7 = empty : bf16[0]
%8 = random {k=1, k2=3} : i32[2,2]
%9 = view %0 {offset=11, strides=[-1,0]} : f32[12,2]
%10 = put %0 %9 {offset=0, strides=[1,0]} : f32[3,4]
]]

describe("the text of a graph", function()
  it("is that of the core, whatever operation and argument", function()
    local text = every_op:gsub("%%10 = put[^\n]*\n", "")
    local canonical = assert(probe.graph(text))
    local g = graph.parse(canonical)
    assert.equal(canonical, (assert(probe.graph(g:text()))))
    for _, row in ipairs(probe.ops()) do
      if row.class == "map" then
        local dtype = (row.rule == "bits" or row.rule == "int") and "i16" or "f16"
        local result = row.rule == "cmp" and "bool" or dtype
        local lines = { "%0 = input {k=0, k2=0, strides=[1]} : " .. dtype .. "[5]" }
        lines[2] = "%1 = input {k=1, k2=1, strides=[1]} : " .. (row.rule == "where" and "bool" or dtype) .. "[5]"
        local operands = ({ "%0", "%0 %0", "%1 %0 %0" })[row.arity]
        if row.name == "bitcast" then result = "bf16" elseif row.name == "cast" then result = "i8" end
        lines[3] = ("%%2 = %s %s : %s[5]\n"):format(row.name, operands, result)
        local want = assert(probe.graph(table.concat(lines, "\n")))
        assert.equal(want, (assert(probe.graph(graph.parse(want):text()))))
      end
    end
  end)

  it("keeps the order of outputs, and one twice", function()
    local g = record(function(x) return x + 1, x, x + 1, x * 2 end, ty.ones(2))
    local back = graph.parse(g:text())
    local ops = {}
    for i, n in ipairs(back:outputs()) do ops[i] = n.op end
    assert.same({ "add", "input", "add", "mul" }, ops)
    assert.same(g:export(), back:export())
    assert.same(g:export(), graph.from(g:export()):export())
  end)

  it("says equal nodes once, but never two random ones", function()
    local g = record(function(x) return x + x end, ty.ones(2))
    local x = g[1]
    local a, b = g:insert(nil, "exp", { x }), g:insert(nil, "exp", { x })
    local stream = { shape = { 2 }, stream = 0, seed = 1 }
    local r = g:insert(nil, "random", {}, stream)
    local s = g:insert(nil, "random", {}, { shape = { 2 }, slot = r.slot, word = 0 })
    g:set_outputs { a, b, r, s }
    assert.is_nil(g:lint())
    local text = g:text()
    assert.equal(1, select(2, text:gsub("= exp", "")))
    assert.equal(2, select(2, text:gsub("= random", "")))
    local export = g:export()
    assert.equal(export.outputs[1], export.outputs[2])
    local y = { g:run(ty.ones(2)) }
    H.same(y[3], y[4])
  end)

  it("without a remark has the nodes that nobody reads as outputs", function()
    local g = graph.parse "%0 = iota : i64[3]\n%1 = neg %0 : i64[3]\n%2 = abs %0 : i64[3]\n"
    same_list({ ty.tensor({ 0, -1, -2 }, { dtype = "i64" }), ty.tensor({ 0, 1, 2 }, { dtype = "i64" }) }, { g:run() }, "run")
    assert.same({ "neg", "abs" }, { g:outputs()[1].op, g:outputs()[2].op })
  end)

  it("that is none raises with the core's reason", function()
    raises("no graph: unknown operation", graph.parse, "%0 = nonsense : f32[]")
    raises("no graph: map: operands do not broadcast", graph.parse,
      "%0 = iota : i64[2]\n%1 = iota : i64[3]\n%2 = add %0 %1 : i64[3]")
    raises("argument 1 must be a text", graph.parse, 5)
    raises("output %7 is no node", graph.parse, "%0 = iota : i64[2]\n# outputs: %7\n")
    raises("output 1: there is no node 9", graph.from, { text = "%0 = iota : i64[2]\n", outputs = { 9 } })
    assert.is_nil((H.internals.graph_check "%0 = "))
    assert.equal("%0 = iota : i64[2]\n", (H.internals.graph_check "  %0=iota:i64[ 2 ] # remark"))
  end)
end)

-- Changes -------------------------------------------------------------------------------------------------------------

local function small()
  local g = record(function(x, w) return (x:matmul(w) + 1):exp() end, ty.ones(2, 3), ty.ones(3, 4))
  return g, { x = g[1], w = g[2], matmul = g[3], scalar = g[4], add = g[5], exp = g[6] }
end

describe("insert", function()
  it("gives a node its type, wherever it stands, behind its operands", function()
    local g, n = small()
    local y = g:insert({ before = n.matmul }, "neg", { n.exp })
    assert.same({ "f32", { 2, 4 } }, { y.dtype, y.shape })
    g:set_outputs { y }
    assert.is_nil(g:lint())
    assert.equal("input input matmul scalar add exp neg", ops_of(g))
    local first = g:insert({ before = g[1] }, "iota", {}, { shape = { 3 } })
    assert.equal(first, g[1])
    local second = g:insert({ after = first }, "neg", { first })
    assert.equal(second, g[2])
    assert.equal("relu", g:insert(n.exp, "maximum", { n.exp, 0 }, { name = "relu" }).name)
    H.same(-(ty.ones(2, 3):matmul(ty.ones(3, 4)) + 1):exp(), (g:run(ty.ones(2, 3), ty.ones(3, 4))))
  end)

  it("takes numbers as constants of the others' dtype", function()
    local g, n = small()
    local y = g:insert(nil, "mul", { 2.5, n.exp })
    assert.same({ "const", 2.5, "f32" }, { y.inputs[1].op, y.inputs[1].value, y.inputs[1].dtype })
    local cond = g:insert(nil, "lt", { n.exp, 1 })
    local pick = g:insert(nil, "where", { cond, 0, n.exp })
    assert.equal("f32", pick.dtype)
    assert.equal("f32", pick.inputs[2].dtype)
    raises("0.5 does not fit i64", g.insert, g, nil, "add", { g:insert(nil, "iota", {}, { shape = { 2 } }), 0.5 })
    raises("at least one operand of add must be a node", g.insert, g, nil, "add", { 1, 2 })
  end)

  it("makes leaves, casts, views, reductions with defaults", function()
    local g = graph.parse ""
    local x = g:insert(nil, "input", {}, { dtype = "f16", shape = { 2, 6 } })
    assert.same({ 1, 1, { 6, 1 } }, { x.number, x.buffer, x.strides })
    local s = g:insert(nil, "scalar", {}, { dtype = "f16", value = 0.1 })
    local all = g:insert(nil, "amax", { g:insert(nil, "mul", { x, s }) })
    assert.same({}, all.shape)
    local wide = g:insert(nil, "cast", { x }, { dtype = "i8" })
    local total = g:insert(nil, "sum", { wide }, { dims = 2 })
    assert.same({ "i64", { 2 } }, { total.dtype, total.shape })
    local flat = g:insert(nil, "view", { x }, { shape = { 12 } })
    assert.same({ 0, { 1 } }, { flat.offset, flat.strides })
    local order = g:insert(nil, "argsort", { x })
    assert.same({ 2, false }, { order.dim, order.descending })
    g:set_outputs { all, total, flat, order }
    local t = ty.randn(2, 6):to("f16") * 9
    same_list({ (t * 0.1):max(), t:to("i8"):sum(2), t:flatten(), t:argsort(2) - 1 }, { g:run(t) }, "run")
  end)

  it("raises what is wrong, at the user's line, and leaves the graph as it was", function()
    local g, n = small()
    local other, m = small()
    local before = g:text()
    raises("there is no operation \"ad\", did you mean \"add\"?", g.insert, g, nil, "ad", { n.x, n.x })
    raises("add has 2 operands, got 1", g.insert, g, nil, "add", { n.x })
    raises("operand 2 must be a node or a number, got nothing", g.insert, g, nil, "where", { n.x, nil, n.x })
    raises("operand 1: node exp_1 belongs to another graph", g.insert, g, nil, "neg", { m.exp })
    raises("argument 1: node exp_1 belongs to another graph", g.insert, g, m.exp, "neg", { n.exp })
    raises("add(f32[2,3], f32[3,4]): map: operands do not broadcast", g.insert, g, nil, "add", { n.x, n.w })
    raises("map: an operand has another dtype", g.insert, g, nil, "add", { n.x, g:insert(n.x, "iota", {}, {}) })
    g:dce()
    raises("sum has no argument dim, did you mean dims?", g.insert, g, nil, "sum", { n.x }, { dim = 1 })
    raises("the run of dims is not within the rank", g.insert, g, nil, "sum", { n.x }, { dims = { 3 } })
    raises("dims must be adjacent", g.insert, g, nil, "sum", { n.x }, { dims = { 2, 1 } })
    raises("dims must be a list", g.insert, g, nil, "sum", { n.x }, { dims = "x" })
    raises("view: leaves its operand", g.insert, g, nil, "view", { n.x }, { shape = { 7 } })
    raises("there is no dtype \"f23\", did you mean f32?", g.insert, g, nil, "cast", { n.x }, { dtype = "f23" })
    raises("const needs a dtype", g.insert, g, nil, "const", {}, { value = 1 })
    raises("scalar needs a value", g.insert, g, nil, "scalar", {}, { dtype = "f32" })
    raises("there is no slot 9, the graph has 1", g.insert, g, nil, "scalar", {}, { dtype = "f32", slot = 9 })
    raises("random needs whole numbers", g.insert, g, nil, "random", {}, { shape = { 2 }, stream = 0.5, seed = 1 })
    raises("argument 3 must be a list of nodes, got node x1", g.insert, g, nil, "neg", n.x)
    raises("argument 1 must be a node", g.insert, g, 5, "neg", { n.x })
    raises("argument 4 must be a table", g.insert, g, nil, "neg", { n.x }, 5)
    raises("call it as graph:insert(...)", g.insert, nil, "neg", { n.x })
    local cond = g:insert(nil, "lt", { n.x, n.x })
    raises("map: operands do not broadcast", g.insert, g, nil, "where", { cond, 1, n.w })
    g:erase(cond)
    assert.equal(6, #g)
    assert.equal(before, g:text())
    assert.is_nil(other:lint())
  end)
end)

describe("replace, erase and dce", function()
  it("let users and outputs read another node", function()
    local g, n = small()
    local y = g:insert(n.add, "tanh", { n.add })
    g:replace(n.exp, y)
    assert.same({ y }, g:outputs())
    g:erase(n.exp)
    H.same((ty.ones(2, 3):matmul(ty.ones(3, 4)) + 1):tanh(), (g:run(ty.ones(2, 3), ty.ones(3, 4))))
  end)

  it("wrap a node without a cycle, its other readers changed", function()
    local g = record(function(x)
      local a = x + 1
      return a * 2, a:exp()
    end, ty.ones(3))
    local a = node(g, "add")
    local wrapped = g:insert(nil, "neg", { g:insert(nil, "abs", { a }) })
    g:replace(a, wrapped)
    assert.is_nil(g:lint())
    assert.same({ "abs" }, { g:users(a)[1].op, g:users(a)[2] })
    same_list({ ty.full({ 3 }, -4), ty.full({ 3 }, -2):exp() }, { g:run(ty.ones(3)) }, "run")
  end)

  it("keep types", function()
    local g, n = small()
    raises("replace: exp_1 is f32[2,4], but x1 is f32[2,3]", g.replace, g, n.exp, n.x)
    raises("argument 2 must be a node, got a graph", g.replace, g, n.exp, g)
    raises("argument 1 must be a node, got nothing", g.replace, g)
  end)

  it("raise for what is in use, erased or foreign", function()
    local g, n = small()
    local _, m = small()
    raises("erase: matmul_1 is read by add_1", g.erase, g, n.matmul)
    raises("erase: exp_1 is an output of the graph", g.erase, g, n.exp)
    raises("belongs to another graph", g.erase, g, m.exp)
    g:set_outputs { n.add }
    g:erase(n.exp)
    raises("node exp_1 was erased", g.erase, g, n.exp)
    raises("node exp_1 was erased", g.users, g, n.exp)
    raises("node exp_1 was erased", g.insert, g, nil, "neg", { n.exp })
    raises("node exp_1 was erased", g.set_outputs, g, { n.exp })
    raises("must be a list of nodes", g.set_outputs, g, n.add)
  end)

  it("dce erases what no output is made of, but inputs", function()
    local g, n = small()
    g:insert(nil, "neg", { g:insert(nil, "abs", { n.exp }) })
    assert.equal(2, g:dce())
    assert.equal(0, g:dce())
    g:set_outputs { n.x }
    assert.equal(4, g:dce())
    assert.equal("input input", ops_of(g))
  end)

  it("nodes may be erased during a walk over them", function()
    local g, n = small()
    local seen = {}
    g:set_outputs { n.matmul }
    for m in g:nodes() do
      seen[#seen + 1] = m.op
      if m == n.matmul then
        g:erase(n.exp)
        g:erase(n.add)
      end
    end
    assert.equal("input input matmul scalar", table.concat(seen, " "))
  end)
end)

describe("lint", function()
  local function spoiled(change)
    local g, n = small()
    change(g, n)
    local wrong = g:lint()
    assert.truthy(wrong)
    raises(wrong, g.run, g, ty.ones(2, 3), ty.ones(3, 4))
    raises(wrong, g.source, g)
    return wrong
  end

  local function says(text, change)
    local wrong = spoiled(change)
    assert.truthy(wrong:find(text, 1, true), wrong)
  end

  it("names what stands where it must not", function()
    local _, m = small()
    says("cycle: add_1 -> exp_1 -> add_1", function(_, n) n.add.inputs[1] = n.exp end)
    says("cycle: exp_1 -> exp_1", function(_, n) n.exp.inputs[1] = n.exp end)
    says("exp_1 reads add_1, which belongs to another graph", function(_, n) n.exp.inputs[1] = m.add end)
    says("exp_1 reads neg_1, which was erased", function(g, n)
      local neg = g:insert(nil, "neg", { n.add })
      g:erase(neg)
      n.exp.inputs[1] = neg
    end)
    says("node exp_1: operand 1 must be a node, got a number", function(_, n) n.exp.inputs[1] = 5 end)
    says("node exp_1: inputs must be a list", function(_, n) n.exp.inputs = 5 end)
    says("stands twice", function(g, n) g[#g + 1] = n.exp end)
    says("a number stands among the nodes", function(g) g[#g + 1] = 5 end)
  end)

  it("names nodes that break the core's rules", function()
    says("node exp_1: map: dims are not those", function(_, n) n.exp.shape = { 2, 5 } end)
    says("node add_1: map: an operand has another dtype", function(_, n) n.add.dtype = "f64" end)
    says("node exp_1: an operand is missing", function(_, n) n.exp.inputs = {} end)
    says("node exp_1: there is no operation", function(_, n) n.exp.op = "expo" end)
    says("node exp_1: dtype must be a name", function(_, n) n.exp.dtype = nil end)
    says("node exp_1: unknown dtype", function(_, n) n.exp.dtype = "f33" end)
    says("node exp_1: shape must be a list", function(_, n) n.exp.shape = nil end)
    says("node matmul_1: by must be", function(_, n) n.matmul.by = 3 end)
    says("node matmul_1: matmul: inner dims differ", function(_, n) n.matmul.inputs[2] = n.x end)
    says("node scalar_1: there is no slot 2, the graph has 1", function(_, n) n.scalar.slot = 2 end)
    says("node x1: the number of strides", function(_, n) n.x.strides = { 1 } end)
  end)

  it("is silent about changes by hand that are right, in whatever order nodes stand", function()
    local g, n = small()
    local late = g:insert(nil, "tanh", { n.matmul })
    n.add.inputs[1] = late
    assert.is_nil(g:lint())
    assert.equal("input input matmul scalar tanh add exp", ops_of(g))
    H.same((ty.ones(2, 3):matmul(ty.ones(3, 4)):tanh() + 1):exp(), (g:run(ty.ones(2, 3), ty.ones(3, 4))))
  end)

  it("says so where what runs a graph is given the wrong things", function()
    local g = small()
    local x, w = ty.ones(2, 3), ty.ones(3, 4)
    raises("run: argument 2 must be a tensor f32[3,4], got f32[2,3]", g.run, g, x, x)
    raises("run: argument 1 must be a tensor f32[2,3], got f64[2,3]", g.run, g, x:to("f64"), w)
    raises("run: argument 1 must be a tensor f32[2,3], got number", g.run, g, 5, w)
    raises("run: the graph takes 2 tensors and 1 numbers, got 1 arguments", g.run, g, x)
    raises("run: argument 3 must be a number, got a tensor", g.run, g, x, w, x)
  end)
end)

-- Patterns -----------------------------------------------------------------------------------------------------------

describe("match", function()
  local function mul_add()
    local g = record(function(x, y, z) return x * y + z, z - x * x end, ty.ones(3), ty.ones(3), ty.ones(3))
    return g, g:inputs()
  end

  it("finds operations with operands, in either order where they commute", function()
    local g, x = mul_add()
    local found = g:match "add(mul(?x, ?y), ?z)"
    assert.equal(1, #found)
    assert.same({ x[1], x[2], x[3], node(g, "add") }, { found[1].x, found[1].y, found[1].z, found[1].root })
    assert.equal(1, #g:match "add(?z, mul(?x, ?y))")
    assert.equal(1, #g:match "sub(?z, mul(?x, ?y))")
    assert.equal(0, #g:match "sub(mul(?x, ?y), ?z)")
  end)

  it("takes a name for one node, and takes choices back", function()
    local g, x = mul_add()
    local squares = g:match "mul(?a, ?a)"
    assert.equal(1, #squares)
    assert.equal(x[1], squares[1].a)
    -- a * b + b * c: the first operands that fit are not those that fit together
    local h = record(function(a, b, c) return a * b + b * c end, ty.ones(2), ty.ones(2), ty.ones(2))
    local found = h:match "add(mul(?p, ?q), mul(?r, ?p))"
    assert.equal(1, #found)
    assert.equal(h:inputs()[2], found[1].p)
    assert.same({}, h:match "add(mul(?p, ?q), mul(?p, ?q))")
  end)

  it("knows numbers, names for inner nodes, any node, operations without operands, tables and functions", function()
    local g = graph.parse "%0 = input {k=0, k2=0, strides=[1]} : f32[4]"
    local x = g[1]
    local y = g:insert(nil, "mul", { x, 2 })
    local s = g:insert(nil, "sum", { g:insert(nil, "exp", { y }) })
    assert.equal(1, #g:match "mul(_, 2)")
    assert.equal(0, #g:match "mul(_, 3)")
    assert.equal(1, #g:match " exp( ?m = mul( ?a , 2.0 ) ) ")
    assert.equal(y, g:match("exp(?m = mul(?a, 2))")[1].m)
    assert.equal(1, #g:match "sum(exp)")
    assert.equal(#g, #g:match "_")
    assert.equal(x, g:match({ "sum", { "exp", { "mul", "?a", 2 } } }, s).a)
    assert.equal(s, g:match({ "sum", as = "all", where = function(n) return #n.shape == 0 end }, s).all)
    assert.is_nil(g:match({ "sum", where = function(n) return #n.shape == 1 end }, s))
    assert.equal(0, #g:match { "exp", dtype = "f64" })
    assert.equal(4, #g:match(function(n) return #n.shape == 1 end) + 1)
    assert.is_nil(g:match("exp", s))
  end)

  it("raises for what is no pattern", function()
    local g = mul_add()
    raises("there is no operation \"ad\", did you mean \"add\"?", g.match, g, "ad(?x, ?y)")
    raises("add has 2 operands, the pattern gives 1", g.match, g, "add(?x)")
    raises("the end comes too early", g.match, g, "add(?x, ?y")
    raises("\"]\" is not understood", g.match, g, "add(?x, ?y)]")
    raises("the name root is that of the whole match", g.match, g, "add(?root, ?y)")
    raises("two names for one node", g.match, g, "?x = ?y = add")
    raises("a pattern is a text", g.match, g, true)
    raises("`where` of a pattern must be a function", g.match, g, { "add", where = 1 })
    raises("argument 2 must be a node", g.match, g, "add", 5)
  end)
end)

describe("rewrite", function()
  it("replaces until nothing new matches, and erases what is left over", function()
    local g = record(function(x) return -(-(-(-x + 0))) end, ty.randn(4))
    -- the core folds -(-x) itself: build it
    local x = g[1]
    local y = x
    for _ = 1, 5 do y = g:insert(nil, "neg", { y }) end
    g:set_outputs { y }
    assert.equal(2, g:rewrite("neg(neg(?x))", function(m) return m.x end))
    g:dce()
    assert.equal("input neg", ops_of(g))
  end)

  it("matches what replacements made", function()
    local g = graph.parse "%0 = input {k=0, k2=0, strides=[1]} : f64[4]"
    local y = g:insert(nil, "pow", { g[1], 8 })
    g:set_outputs { y }
    local count = g:rewrite("pow(?x, ?n = const)", function(m)
      if m.n.value == 1 then return m.x end
      local half = g:insert(nil, "pow", { m.x, m.n.value / 2 })
      return g:insert(nil, "mul", { half, half })
    end)
    assert.equal(4, count)
    g:dce()
    assert.equal("input mul mul mul", ops_of(g))
    local x = ty.rand({ 4 }, { dtype = "f64" })
    local square = x * x
    H.same((square * square) * (square * square), (g:run(x)))
  end)

  it("may keep its root, which it then leaves alone", function()
    local g, n = small()
    assert.equal(1, g:rewrite("exp(?x)", function(m) return g:insert(nil, "neg", { m.root }) end))
    assert.equal("neg", g:outputs()[1].op)
    assert.equal(n.exp, g:outputs()[1].inputs[1])
    assert.equal(0, g:rewrite("exp(?x)", function() return nil end))
  end)

  it("ends with an error where it would not end", function()
    local g, n = small()
    raises("rewrite: no end after", g.rewrite, g, "exp(?x)", function(m) return g:insert(nil, "exp", { m.x }) end)
    assert.truthy(n)
  end)

  it("raises for results that are no nodes of the graph", function()
    local g = small()
    local _, m = small()
    raises("must return a node of this graph or nil, got a number", g.rewrite, g, "exp", function() return 5 end)
    raises("must return a node of this graph or nil, got node exp_1", g.rewrite, g, "exp", function() return m.exp end)
    raises("argument 2 must be a function", g.rewrite, g, "exp")
  end)
end)

-- Passes and backends ---------------------------------------------------------------------------------------------------

describe("passes", function()
  local function exchange(f, ...)
    local g, inputs = record(f, ...)
    return g:export(), inputs
  end

  local function customize(options, ...) return graph.customize(assert(graph.options(options)), exchange(...)) end

  local function f(x) return (x + 1):exp() end

  it("run in order, by name or as functions, and change the graph or give another", function()
    local order = {}
    graph.pass("first", function(g, inputs)
      order[#order + 1] = "first"
      assert.same({ 3 }, inputs[1].shape)
      g:rewrite("exp(?x)", function(m) return g:insert(nil, "tanh", { m.x }) end)
    end)
    local function second(g)
      order[#order + 1] = "second"
      local copy = g:clone()
      copy:rewrite("tanh(?x)", function(m) return copy:insert(nil, "neg", { m.root }) end)
      return copy
    end
    local t = customize({ passes = { "first", second, "first" } }, f, ty.ones(3))
    assert.same({ "first", "second", "first" }, order)
    assert.equal("input scalar add tanh neg", ops_of(graph.from(t)))
    H.same(-(ty.ones(3) + 1):tanh(), (graph.from(t):run(ty.ones(3))))
  end)

  it("must keep outputs, inputs and slots", function()
    local function breaks(text, pass) raises(text, customize, { passes = { pass } }, f, ty.ones(3)) end
    breaks("compile: pass number 1: output 1 was f32[3] and became f32[]", function(g)
      g:set_outputs { g:insert(nil, "sum", { g:outputs()[1] }) }
    end)
    breaks("1 outputs became 0", function(g) g:set_outputs {} end)
    breaks("input 2 was added", function(g) g:insert(nil, "input", {}, { dtype = "f32", shape = {} }) end)
    breaks("input 1 was changed", function(g) g[1].buffer = 7 end)
    breaks("input 1 was erased", function(g)
      g:set_outputs { g:insert(nil, "view", { g:insert(nil, "const", {}, { dtype = "f32", value = 1 }) },
        { shape = { 3 }, strides = { 0 } }) }
      g:dce()
      g:erase(g:inputs()[1])
    end)
    breaks("scalar slots were added", function(g) g:insert(nil, "scalar", {}, { dtype = "f32", value = 1 }) end)
    breaks("cycle", function(g) g[3].inputs[1] = g[4] end)
    breaks("must return a graph or nil, got a number", function() return 5 end)
  end)

  it("are checked when a function is compiled", function()
    graph.pass("known", function() end)
    raises("compile: there is no pass \"knwon\", did you mean \"known\"?", graph.options, { passes = { "knwon" } })
    raises("compile: pass 2 must be a name or a function, got a number", graph.options, { passes = { "known", 5 } })
    raises("compile: option passes must be a list", graph.options, { passes = "known" })
    raises("compile: option backend must be a function", graph.options, { backend = 5 })
    raises("pass: argument 1 must be a name", graph.pass, 5, print)
    raises("pass: argument 2 must be a function", graph.pass, "x", 5)
    assert.is_nil(graph.options {})
    assert.is_nil(graph.options { passes = {} })
  end)

  it("have a key that is equal for the same functions in the same order alone", function()
    local function a() end
    local function b() end
    graph.pass("a", a)
    local function key(options) return graph.options(options).key end
    assert.equal(key { passes = { a, b } }, key { passes = { "a", b } })
    assert.not_equal(key { passes = { a, b } }, key { passes = { b, a } })
    assert.not_equal(key { passes = { a } }, key { backend = a })
    assert.not_equal(key { passes = { a } }, key { passes = { a }, backend = b })
    local old = key { passes = { "a" } }
    graph.pass("a", b)
    assert.not_equal(old, key { passes = { "a" } })
  end)

  it("come before a backend, which is given the graph and examples and answers with a function", function()
    local calls = 0
    local options = {
      passes = { function(g) g:rewrite("exp(?x)", function(m) return g:insert(nil, "tanh", { m.x }) end) end },
      backend = function(g, inputs)
        assert.same({ 3 }, inputs[1].shape)
        assert.truthy(node(g, "tanh"))
        return function(x, number)
          calls = calls + 1
          return (x + number):tanh()
        end
      end,
    }
    local run = customize(options, f, ty.ones(3))
    H.same((ty.zeros(3) + 4):tanh(), (run(ty.zeros(3), 4)))
    assert.equal(1, calls)
  end)

  it("guard what a backend gives", function()
    local function given(answer) return customize({ backend = function() return answer end }, f, ty.ones(3)) end
    raises("the backend must return a function, got nothing", given, nil)
    raises("backend: result 1 must be a tensor f32[3], got nothing", given(function() end), ty.ones(3), 1)
    raises("backend: result 1 must be a tensor f32[3], got f64[3]", given(function(x) return x:to("f64") end), ty.ones(3))
    raises("backend: result 1 must be a tensor f32[3], got f32[2]", given(function() return ty.ones(2) end), ty.ones(3))
    raises("backend: 2 results instead of 1", given(function(x) return x, x end), ty.ones(3))
    local callable = setmetatable({}, { __call = function(_, x) return x * 2 end })
    H.same(ty.ones(3) * 2, (given(callable)(ty.ones(3))))
  end)
end)

describe("a graph", function()
  it("is collected with all its nodes", function()
    local seen = setmetatable({}, { __mode = "k" })
    do
      local g = small()
      seen[g], seen[g[1]] = true, true
      g:clone()
      g:run(ty.ones(2, 3), ty.ones(3, 4))
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
  end)

  it("records what its run records, inside a compiled function", function()
    local g = small()
    local x, w = ty.randn(2, 3), ty.randn(3, 4)
    local compiled = jit.compile(function(a, b) return g:run(a, b):sum() end)
    H.same((x:matmul(w) + 1):exp():sum(), compiled(x, w))
    H.same((x:matmul(w) + 1):exp():sum(), compiled(x, w))
    assert.truthy(ffi)
  end)
end)
