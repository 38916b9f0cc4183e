--- errors_spec.lua -- what is refused, by whole messages: options, arguments and sizes that functions do not take, each with
-- what was given, at the user's line. Errors that belong to a claim about something else stand with that.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local nn, optim, csv, data, image, linalg = ty.nn, ty.optim, ty.csv, ty.data, ty.image, ty.linalg

local path = os.tmpname()
teardown(function() os.remove(path) end)

--- fn(...) raises just this message, at this file's line.
local function raises(want, fn, ...)
  local ok, message = pcall(fn, ...)
  assert.is_false(ok, want)
  local place, text = tostring(message):match "^(%S+:%d+): (.*)$"
  assert.equal(want, text or message)
  assert.truthy(place:find "errors_spec%.lua", message)
end

local i64 = { dtype = "i64" }
local x = ty.ones(2, 3)
local wide = ty.ones(1, 1, 1, 1, 1, 1, 1, 1) -- as many dims as there are
local function long(...) return ty.tensor({ ... }, i64) end
local function leaf(...) return ty.ones({ ... }, { requires_grad = true }) end

describe("the error of a key", function()
  local function read(t, k) return t[k] end
  local function write(t, k, v) t[k] = v end

  it("tells which entry is wrong, and how", function()
    raises("index: a range is {from, to, step}, got 4 numbers (dim 1); a list of places is an index tensor", read, x, { { 1, 2, 1, 1 } })
    raises("index: the step of a range must be a number, got string \"a\" (dim 1)", read, x, { { 1, 2, "a" } })
    raises("index: entry 1 of the key: a list of places is {{i, j, ...}}", read, x, { { { 1 }, { 2 } } })
    raises("index: the key's table must be a list, it has the key string \"a\"", read, x, { 1, a = 2 })
    raises("index: \"new\" makes more than 8 dims", read, wide, { "new" })
    raises("index: index tensors do not broadcast, i64[2] and i64[3]", read, x, { long(1, 2), long(1, 2, 3) })
    raises("index: a 0-d tensor has no places; use item() for its number", read, ty.tensor(1), 1)
    raises("assign: f32[5] does not broadcast to f32[2,3]", write, x, { long(1, 2) }, ty.ones(5))
  end)
end)

describe("the error of a view or a move", function()
  it("names the sizes that do not go together", function()
    raises("reshape: at most 8 sizes, got 9", x.reshape, x, { 1, 1, 1, 1, 1, 1, 1, 1, 6 })
    raises("reshape: size -2 is out of range 0.. (-1, once: what is left)", x.reshape, x, -2, 3)
    raises("reshape: size -1 is out of range 0.. (-1, once: what is left)", x.reshape, x, -1, -1)
    raises("permute: at most 8 dims, got 9", x.permute, x, { 1, 1, 1, 1, 1, 1, 1, 1, 6 })
    raises("unsqueeze: f32[1,1,1,1,1,1,1,1] has the most dims there are, 8", wide.unsqueeze, wide, 1)
    raises("unflatten: 9 dims are more than 8", wide.unflatten, wide, 1, 1, 1)
    raises("view: the strides of f32[3,2] do not allow it; use reshape, which may copy", x.view, x:t(), 6)
    raises("view_as: f32 and f64 differ in size", x.view_as, x, "f64")
    raises("t: needs at most 2 dims, got f32[1,1,1,1,1,1,1,1]; use transpose(d1, d2)", wide.t, wide)
    local long_one = ty.ones(1):expand(2 ^ 20)
    raises("tile: f32[1048576] repeated 1125899906842624 times is too large", long_one.tile, long_one, 2 ^ 50)
    raises("repeat_interleave: f32[1048576] repeated 1125899906842624 times is too large",
      long_one.repeat_interleave, long_one, 2 ^ 50)
    raises("repeat_interleave: count -1 is out of range", x.repeat_interleave, x, long(-1, 2), 1)
    raises("cat: 0-d tensors have no dim to join along; use stack", ty.cat, { ty.tensor(1), ty.tensor(2) })
    raises("cat: sizes differ outside dim 1, f32[2,3] and f32[2,4]", ty.cat, { x, ty.ones(2, 4) })
    raises("pad: 3 entries for f32[2,3]; one a dim, from dim 1 on: {before, after}, or a number for both", x.pad, x, { 1, 1, 1 })
    raises("pad: 1.5 does not fit i64", ty.pad, long(1, 2), { 1 }, 1.5)
    raises("pad: the result is too large (dim 1)", x.pad, x, { { 2 ^ 52, 2 ^ 52 } })
    raises("rand: f32[1099511627776,1099511627776] is too large", ty.rand, 2 ^ 40, 2 ^ 40)
  end)

  it("names what an index, a mask or a source must be", function()
    raises("gather: the index must be of integers, got f32[2,3] (use :to(\"i64\"))", x.gather, x, 1, x)
    raises("f: the index must be of integers, got f32 (use :to(\"i64\"))", ty.internals.check_index, "f", x, 5, 0)
    raises("scatter: index and source differ in shape, i64[1,3] and f32[1,2]", x.scatter, x, 1, ty.ones({ 1, 3 }, i64), ty.ones(1, 2))
    raises("scatter: 1.5 does not fit i64", ty.scatter, long(1, 2), 1, long(1), 1.5)
    raises("masked_select: sizes do not broadcast, f32[2,3] and bool[4]", x.masked_select, x, ty.ones(4):gt(0))
    raises("masked_fill: the value must be a number or 0-d, got f32[2]", x.masked_fill, x, x:gt(0), ty.ones(2))
    raises("masked_fill: f32 values do not go into i64[2]", ty.masked_fill, long(1, 2), ty.ones(2):gt(0), ty.tensor(1.5))
    raises("index_add: the source must have sizes {1, 3}, got f32[2,3]", x.index_add, x, 1, long(1), ty.ones(2, 3))
    raises("where: sizes do not broadcast, f32[1,3] and f32[2,2]", ty.where, ty.ones(2, 1):gt(0), ty.ones(1, 3), ty.ones(2, 2))
  end)
end)

describe("the error of a composite", function()
  it("begins with its name, whatever it is made of", function()
    local whole = ty.ones({ 2 }, { dtype = "i32" })
    for _, name in ipairs { "fmax", "fmin", "heaviside" } do
      raises(name .. ": 1.152921504606847e+18 does not fit i32", ty[name], whole, 2 ^ 60)
    end
    raises("lerp: 1.152921504606847e+18 does not fit i32", ty.lerp, whole, 2 ^ 60, whole)
    raises("addcmul: 1.152921504606847e+18 does not fit i32", ty.addcmul, whole, whole, 2 ^ 60)
    raises("polyval: argument 2 (x) must be a number, got true", ty.polyval, ty.ones(3), true)
    raises("bincount: 1152921504606846976 is too large to count all numbers up to it", ty.bincount,
      ty.full({ 1 }, 2 ^ 60, { dtype = "i64" }))
    raises("tensorsolve: the sizes of f32[0] do not make a square", linalg.tensorsolve, ty.ones(0), ty.ones(0))
    for _, name in ipairs { "hypot", "logaddexp", "logaddexp2" } do
      assert.equal(2 ^ 60, ty[name](whole, 2 ^ 60)[1]:item())
    end
    assert.same({ false, true }, { ty.isin(-1, ty.ones({ 2 }, { dtype = "u8" })):item(),
      ty.isin(1, ty.ones({ 2 }, { dtype = "bool" })):item() })
  end)
end)

describe("the error of a product", function()
  it("names the operands and the labels", function()
    raises("bmm: sizes do not fit, f32[2,3,4] x f32[2,3,4]", ty.bmm, ty.ones(2, 3, 4), ty.ones(2, 3, 4))
    raises("einsum: operand 1, f32[2], has 1 dims, its term \"ij\" has 2", ty.einsum, "ij->i", ty.ones(2))
    raises("einsum: label j has the sizes 3 and 4", ty.einsum, "ij,jk->ik", ty.ones(2, 3), ty.ones(4, 2))
    raises("solve: needs square matrices, got f32[2,3]", linalg.solve, x, ty.ones(2))
    raises("solve: leading sizes do not broadcast, f32[2,3,3] and f32[4,3,3]", linalg.solve, ty.ones(2, 3, 3), ty.ones(4, 3, 3))
    raises("qr: f32[1073741824,1] is too large", linalg.qr, ty.zeros(1, 1):expand(2 ^ 30, 1))
  end)

  it("says so where matrices take more than Lua keeps in one piece", function()
    local large = ty.zeros(1, 1):expand(2 ^ 15, 2 ^ 15)
    for name, fn in pairs { inv = linalg.inv, det = linalg.det, qr = linalg.qr, svd = linalg.svd, eigh = linalg.eigh } do
      raises(name .. ": the matrices are too large (2 GB are the most)", fn, large)
    end
    raises("inv: the matrices are too large (2 GB are the most)", linalg.inv, ty.zeros(1, 1, 1):expand(2 ^ 45, 1, 1))
  end)
end)

describe("the error of a random number", function()
  it("names what does not fit", function()
    raises("randint: 300 does not fit u8", ty.randint, 1, 300, { 2 }, { dtype = "u8" })
    raises("multinomial: known options: replacement", ty.multinomial, ty.ones(3), 5, { replace = true })
    raises("vmap: a tensor of 8 dims has no room for the batch",
      ty.vmap(function() return ty.rand(1, 1, 1, 1, 1, 1, 1, 1) end, { randomness = "different" }), ty.ones(2))
  end)
end)

describe("the error of a gradient", function()
  it("says what it must be", function()
    raises("grad: must be f32[3], got f32[4]", function() leaf(3).grad = ty.ones(4) end)
    raises("custom_grad: the gradient of input 1 must be f32[3], got f32[5]", function()
      ty.custom_grad(function(v) return v * 2 end, function() return ty.ones(5) end)(leaf(3)):sum():backward()
    end)
    raises("custom_grad: forward must give a tensor or a list of tensors, got number 5",
      ty.custom_grad(function() return 5 end, function() end), x)
    raises("grad: the function must give a float tensor of one element, got tensor f32[2,3]", ty.grad(function(v) return v * 2 end), x)
    raises("hessian: argument 2 must be the number of an argument, got string \"a\"", ty.hessian, function(v) return v end, "a")
    raises("checkpoint: result 1 is number 5 when the function runs again; it must do the same twice", function()
      local n = 0
      ty.checkpoint(function(v)
        n = n + 1
        return n > 1 and 5 or v * 2
      end, leaf(3)):sum():backward()
    end)
    local y = leaf(3) * 2
    raises("requires_grad_: only a leaf can be told not to (use detach)", y.requires_grad_, y, false)
  end)
end)

describe("the error of an option", function()
  it("of tensors and elementwise functions names what it may be", function()
    raises("zeros: device must be a name such as \"cpu\", got number 5", ty.zeros, 2, { device = 5 })
    raises("set_print: precision must be a whole number in 0..17, got 1.5", ty.set_print, { precision = 1.5 })
    raises("meshgrid: option indexing must be \"ij\" or \"xy\", got string \"yx\"", ty.meshgrid, ty.ones(2), { indexing = "yx" })
    raises("gelu: option approximate must be \"none\" or \"tanh\", got string \"erf\"", ty.gelu, x, { approximate = "erf" })
    raises("mse_loss: option reduction must be \"mean\", \"sum\" or \"none\", got string \"max\"", ty.mse_loss, x, x, { reduction = "max" })
    raises("interpolate: option scale must be above 0, got number -1", ty.interpolate, ty.ones(1, 1, 3, 3), { scale = -1 })
    raises("show: option width must be from 1 to 10000, got 0", ty.show, x, { width = 0 })
    raises("progress: option curve must be a name or a list of names, got number 5", ty.progress, 3, { curve = 5 })
    local bytes = ffi.new "char[64]"
    local odd = ffi.cast("char *", tonumber(ffi.cast("intptr_t", bytes)) + 1)
    raises("from_ptr: the pointer is not aligned for f32", ty.from_ptr, odd, { 2 }, "f32")
  end)

  it("of a compiled function or module names what it must be", function()
    raises("compile: argument 2 must be a table of options, got number", ty.compile, function() end, 5)
    local m = nn.Linear(3, 2)
    local f = ty.compile(m)
    f(x)
    m.forward = 5
    raises("compile: the module's `forward` became a number", f, x)
  end)

  it("of a module names what it may be", function()
    raises("Module: argument 1 must be a table of parts, got number 5", nn.Module, 5)
    raises("ModuleList: a part must be a module, got number 5", function() nn.ModuleList {}:append(5) end)
    raises("LeakyReLU: argument 1 (slope) must be a number, got string \"x\"", nn.LeakyReLU, "x")
    raises("LayerNorm: argument 1 (sizes) must be a number or a list, got string \"x\"", nn.LayerNorm, "x")
    raises("GroupNorm: the input must be [batch, 4, ...], got f32[2,3]", nn.GroupNorm(2, 4), x)
    raises("RNN: option nonlinearity must be \"tanh\" or \"relu\", got \"gelu\"", nn.RNN, 2, 3, { nonlinearity = "gelu" })
    raises("LSTM: option nonlinearity must be left out, got \"relu\"", nn.LSTM, 2, 3, { nonlinearity = "relu" })
    raises("rotary: argument 1 must be [..., time, features], features even, got f32[2,3]", nn.rotary, x)
    raises("TransformerBlock: option norm must be \"layer\" or \"rms\", got \"batch\"", nn.TransformerBlock, 8, 2, { norm = "batch" })
    raises("TransformerBlock: option activation must be \"gelu\", \"relu\" or \"silu\", got \"tanh\"",
      nn.TransformerBlock, 8, 2, { activation = "tanh" })
    raises("kaiming_uniform_: option mode must be \"fan_in\" or \"fan_out\", got string \"fan\"",
      nn.init.kaiming_uniform_, ty.ones(2, 3), { mode = "fan" })
  end)

  it("of an optimiser or a state that is loaded names what it must be", function()
    local opt = optim.SGD({ nn.Parameter(ty.zeros(2)) }, { lr = 1 })
    local sd = opt:state_dict()
    sd.groups[1].state = {}
    raises("load_state_dict: group 1 must have the state of 1 parameters", opt.load_state_dict, opt, sd)
    local scaler, schedule = optim.GradScaler(), optim.StepLR(opt, { every = 1 })
    raises("load_state_dict: argument 1 must be the state of a GradScaler, got table", scaler.load_state_dict, scaler, {})
    raises("load_state_dict: argument 1 must be the state of a schedule, got table", schedule.load_state_dict, schedule, {})
  end)

  it("of tables in text names columns and what they may be", function()
    local t = csv.parse "a\n1"
    raises("column: there is no column 2, it has 1", t.column, t, 2)
    raises("tensor: argument 1 must be a list of columns, got true", t.tensor, t, true)
    raises("csv.parse: option header must be true, false or \"auto\", got string \"yes\"", csv.parse, "a\n1", { header = "yes" })
    raises("csv.parse: option fill must be a number or \"error\", got table", csv.parse, "a\n1", { fill = {} })
    raises("csv.parse: option dtype must be \"f32\" or \"f64\", got \"f16\"", csv.parse, "a\n1", { dtype = "f16" })
    raises("csv.save: argument 2 must have one or two dims, got f32[2,2,2]", csv.save, path, ty.ones(2, 2, 2))
    raises("csv.save: column \"a\" must be a tensor or a list, got number 5", csv.save, path, { a = 5 })
    raises("csv.save: column \"a\", row 1 must be a string, a number or a boolean, got table", csv.save, path, { a = { {} } })
  end)

  it("of data sets and loaders names what it must be", function()
    local ds = data.tensors(x)
    raises("data.tensors: argument 1 must be a tensor, got nil", data.tensors)
    raises("data.tensors: argument 2 must be a tensor or a list, got number 5", data.tensors, x, 5)
    raises("data.tensors: argument a must be a tensor or a list, got number 5", data.tensors, { a = 5 })
    raises("split: argument 1 must be a list of fractions, got number 5", ds.split, ds, 5)
    raises("split: the seed must be a whole number, got number 1.5", ds.split, ds, { 0.5, 0.5 }, 1.5)
    raises("split: fraction 2 is string \"a\"", ds.split, ds, { 0.5, "a" })
    raises("data.loader: argument 1 must be a dataset, got number 5", data.loader, 5)
    raises("data.loader: option workers must be from 0 to 16, got 17", data.loader, ds, { workers = 17 })
  end)

  it("of images and plots names what it may be", function()
    raises("image.resize: size must be {height, width} of whole numbers from 1 to 2^20, got number 0",
      image.resize, ty.ones(1, 3, 3), { 0, 2 })
    raises("image.load: option dtype must be u8 or a float, got \"i32\"", image.load, "x", { dtype = "i32" })
    raises("image.load: argument 1 must be a path, got number 5", image.load, 5)
    raises("image.grid: argument 1 must be [n,c,h,w], [n,h,w] or a list of images, got number 5", image.grid, 5)
    local p = ty.plot()
    raises("line: argument 1 (y) must be a tensor or a list of numbers, got number 5", p.line, p, 5)
    raises("line: option width must be positive, got 0", p.line, p, { 1 }, { width = 0 })
    raises("bars: argument 1: name 1 is table", p.bars, p, { {} }, { 1 })
    raises("image: option columns must be a whole number, got 1.5", p.image, p, ty.ones(3, 3), { columns = 1.5 })
    raises("plot: option legend must be true, false or a corner such as \"top left\", got string \"middle\"",
      ty.plot, { legend = "middle" })
    raises("plot: option xlim must be above 0 on a log axis, got 0", ty.plot, { xscale = "log", xlim = { 0, 1 } })
    raises("plot: option width must be from 40 to 8000, got 10", ty.plot, { width = 10 })
  end)
end)
