--- types.lua -- types of what is written in C or made in loops, where no annotation can stand above the function.
-- `arguments`: by name, and by function and name where that differs, `take.dim`; a ? at the end: it may be left out, as what
-- has a default may. `results`: by function; all others give one tensor. `options`: of tables of options, by name.

local M = {}

local TENSOR, DIMS = "tycho.Tensor", "integer|integer[]"
local VALUE = "tycho.Tensor|number"

M.arguments = {
  -- tensors
  x = TENSOR, a = VALUE, b = VALUE, y = VALUE, index = "tycho.Tensor|integer[]", mask = TENSOR, src = VALUE, sorted = TENSOR,
  values = VALUE, list = "tycho.Tensor[]", condition = "tycho.Tensor|boolean", weights = TENSOR, t = TENSOR, q = TENSOR,
  v = "any", _ = "any", g = "tycho.Tensor|number", ["matmul.a"] = TENSOR, ["matmul.b"] = TENSOR,
  -- counts, dims, places
  dim = "integer", dim1 = "integer", dim2 = "integer", dims = DIMS, n = "integer", m = "integer", k = "integer",
  i = "integer", j = "integer", count = "integer", counts = DIMS, length = "integer", first = "integer",
  last = "integer", offset = "integer",
  from = DIMS, to = DIMS, shifts = DIMS, sizes = DIMS, size = DIMS, seed = "integer", argnums = DIMS, argnum = "integer",
  lead = "integer", summed = "integer", keepdim = "boolean", descending = "boolean", largest = "boolean",
  replacement = "boolean", right = "boolean", on = "boolean", in_dims = "integer|table", out_dims = "integer|table",
  batch = "integer", positions = "integer", p = "number",
  -- numbers
  start = "number", stop = "number", step = "number", low = "number", high = "number", mean = "number", std = "number",
  value = "number|boolean", max = "number", ms = "number", alpha = "number", beta = "number", slope = "number", gain = "number",
  -- texts, functions, others
  name = "string", dtype = "tycho.Dtype", data = "any", state = "string", equation = "string", path = "string",
  f = "function|table", fn = "function", pointer = "ffi.cdata*|lightuserdata", anchor = "any",
  args = "any[]", what = "any", opts = "table?",
  into = "table", parts = "table<string, any>", params = "tycho.Tensor[]", init = "any", xs = "any", forward = "function",
  backward = "function", approximate = '"none"|"tanh"', model = "tycho.Module", where = "tycho.Dtype|string",

  -- where a function differs
  ["take.dim"] = "integer?", ["repeat_interleave.dim"] = "integer?", ["repeat_interleave.count"] = "integer|tycho.Tensor",
  ["roll.dims"] = DIMS .. "?", ["flip.dims"] = DIMS .. "?", ["squeeze.dims"] = DIMS .. "?", ["threads.n"] = "integer?",
  ["bernoulli.p"] = VALUE, ["bernoulli.sizes"] = DIMS .. "?", ["normal.sizes"] = DIMS .. "?", ["uniform.sizes"] = DIMS .. "?",
  ["randint.sizes"] = DIMS .. "?", ["tensor.data"] = "number|boolean|table|tycho.Tensor", ["slice.step"] = "integer",
  ["narrow.start"] = "integer", ["unfold.step"] = "integer", ["unfold.size"] = "integer", ["split.size"] = DIMS,
  ["pad.padding"] = "integer[][]", ["manual_seed.seed"] = "integer?", ["fill_.value"] = VALUE, ["full_like.value"] = "number|boolean",
  ["precision.name"] = '"exact"|"fast"', ["default_dtype.name"] = '"f16"|"bf16"|"f32"|"f64"',
  ["stance.name"] = '"default"|"eager"|"no_recompile"',
  ["set.x"] = TENSOR, ["to.target"] = "tycho.Dtype|string|tycho.Tensor", ["copy_.y"] = "tycho.Tensor|number|boolean",
  ["progress.n"] = "integer|table|function", ["warmup.f"] = "function|table", ["show.x"] = "tycho.Tensor|table",
  ["randperm.n"] = "integer", ["where.a"] = VALUE, ["where.b"] = VALUE, ["jit.pass.fn"] = "fun(g: tycho.GraphObject)",
  ["jit.view.path"] = "string", ["jvp.x"] = "any", ["jvp.v"] = "any", ["save.value"] = "any",
  ["register_hook.fn"] = "fun(g: tycho.Tensor): tycho.Tensor?", ["searchsorted.values"] = VALUE, ["profile.path"] = "string",

  -- modules
  inputs = "integer", outputs = "integer", kernel = DIMS, channels = "integer", groups = "integer", entries = "integer",
  features = "integer", hidden = "integer", width = "integer", heads = "integer", part = "tycho.Module",
  ["nn.Dropout.p"] = "number", ["nn.LayerNorm.sizes"] = DIMS, ["nn.init.constant_.v"] = "number", ["nn.class.parent"] = "table?",
  ["nn.TransformerBlock.norm"] = "string", ["nn.Parameter.t"] = TENSOR, ["nn.Module.forward.x"] = "any",
  ["optim.LambdaLR.fn"] = "fun(step: integer): number", opt = "tycho.Optimizer", group = "table", sd = "table", loss = TENSOR,
}
for _, name in ipairs { "solve", "lstsq", "inv", "det", "cholesky", "qr", "eigh", "svd" } do
  M.arguments["linalg." .. name .. ".a"], M.arguments["linalg." .. name .. ".b"] = TENSOR, TENSOR
end

--- Of a function with no fixed arguments: what its `...` stands for.
M.variadic = {
  sizes = DIMS, operands = TENSOR, axes = TENSOR, part = "tycho.Module", ["get"] = "integer", ["set"] = "integer|number|boolean",
}

--- How an argument that is more than a word is named.
M.renamed = { ["dtype or device or tensor"] = "target", ["{{before, after}, ...}"] = "padding" }

--- Whose dims or sizes may follow each other instead of standing in a table.
M.listed = {
  reshape = true, view = true, expand = true, permute = true, flip = true, squeeze = true, tile = true, unflatten = true,
}

--- What a function with a place for the first or last of two numbers takes: LuaLS knows it as another form.
M.overloads = {
  arange = { "fun(stop: number, opts?: {dtype?: tycho.Dtype, device?: string}): tycho.Tensor" },
  range = { "fun(stop: number, opts?: {dtype?: tycho.Dtype, device?: string}): tycho.Tensor" },
}

M.options = {
  dtype = "tycho.Dtype", device = "string", stride = DIMS, padding = DIMS, dilation = DIMS, output_padding = DIMS, groups = "integer",
  layers = "integer", steps = "integer", every = "integer", warmup = "integer", at = "integer[]", gamma = "number", dim = "integer",
  ignore_index = "integer", reduction = '"mean"|"sum"|"none"', betas = "number[]", weight = TENSOR, pos_weight = TENSOR,
  size = DIMS, scale = "number|number[]", mode = "string", patience = "integer", cooldown = "integer", most = "number", inner = "integer",
  nonlinearity = '"tanh"|"relu"', norm = '"layer"|"rms"', activation = "string", indexing = '"ij"|"xy"', precision = "integer",
  randomness = '"error"|"different"|"same"', fast = "boolean", fullgraph = "boolean", parts = "boolean",
  dynamic = "boolean|table", passes = "(string|function)[]",
  backend = "function", retain_graph = "boolean", create_graph = "boolean", raise = "boolean", length = "integer", correction = "number",
  title = "string", xlabel = "string", ylabel = "string", xscale = '"linear"|"log"', yscale = '"linear"|"log"', xlim = "number[]",
  ylim = "number[]", width = "number", height = "number", legend = "boolean|string", grid = "boolean", theme = "string",
  axes = "boolean", label = "string", unit = "string", per_step = "number", total = "integer", curve = "string", map = "string",
  lim = "number[]", columns = "integer", text = "boolean", eps = "number", atol = "number", rtol = "number", mask = TENSOR,
}

local NONE, TABLE, OK = {}, { "tycho.Tensor[]" }, { "true?", "string?" }
local ANY = { "any", "..." }
M.results = {
  -- one value that is no tensor
  numel = { "integer" }, dim = { "integer" }, item = { "number|boolean" }, get = { "number|boolean" }, totable = { "number|boolean|table" },
  size = { "integer|integer[]" }, stride = { "integer|integer[]" }, is_contiguous = { "boolean" }, is_tensor = { "boolean" },
  equal = { "boolean" }, allclose = { "boolean" }, rows = { "fun(): integer?, tycho.Tensor?" }, data = { "ffi.cdata*" },
  threads = { "integer" }, blas = { "boolean?", "string?" }, precision = { "string" }, deterministic = { "boolean" },
  default_dtype = { "tycho.Dtype" }, device = { "string?", "string?" }, random_state = { "string" }, stats = { "table" },
  budget = { "number" }, stance = { "string" }, help = { "string|string[]" }, register_hook = { "tycho.HookHandle" },
  -- several, or a list
  sort = { TENSOR, TENSOR }, topk = { TENSOR, TENSOR }, unique = { TENSOR, TENSOR }, to = { "tycho.Tensor", "string?" },
  split = TABLE, chunk = TABLE, unbind = TABLE, meshgrid = TABLE, ["linalg.qr"] = { TENSOR, TENSOR },
  ["linalg.eigh"] = { TENSOR, TENSOR }, ["linalg.svd"] = { TENSOR, TENSOR, TENSOR },
  -- none
  manual_seed = NONE, synchronize = NONE, set_print = NONE, release = NONE, backward = NONE, reset = NONE, check = NONE, pass = NONE,
  clip_grad_value_ = NONE, show = NONE,
  -- what the function given gives, or another one
  scope = ANY, autocast = ANY, no_grad = ANY, enable_grad = ANY, checkpoint = ANY, deadline = ANY, detect_anomaly = ANY, warmup = ANY,
  compile = { "function" }, disable = { "function" }, grad = { "function" }, value_and_grad = { "function" }, vmap = { "function" },
  jacobian = { "function" }, hessian = { "function" }, custom_grad = { "function" }, jvp = { "any", "any" }, scan = { "any", "any" },
  gradcheck = { "boolean", "string?" }, explain = { "tycho.Explanation" }, profile = { "tycho.Profile" }, plot = { "tycho.Plot" },
  progress = { "tycho.Progress" },
  -- files
  load = { "any", "string?" }, load_weights = { "table<string, tycho.Tensor>?", "string?" }, load_checkpoint = { "table?", "string?" },
  save = OK, save_checkpoint = OK, ["jit.view"] = OK,
  -- groups
  ["nn.is_module"] = { "boolean" }, ["graph.is_graph"] = { "boolean" }, ["nn.Module.summary"] = { "tycho.Summary" },
  ["nn.Module.named_parameters"] = { "fun(): string?, tycho.Tensor?" }, ["nn.Module.named_buffers"] = { "fun(): string?, tycho.Tensor?" },
  ["nn.Module.named_modules"] = { "fun(): string?, tycho.Module?" }, ["nn.Module.named_children"] = { "fun(): string?, tycho.Module?" },
  ["nn.Module.describe"] = { "string" }, ["nn.Module.zero_grad"] = NONE, ["nn.Module.forward"] = { "any" },
  ["nn.Module.eval"] = { "tycho.Module" }, ["nn.Module.train"] = { "tycho.Module" }, ["nn.Module.apply"] = { "tycho.Module" },
  ["nn.Module.to"] = { "tycho.Module" }, ["nn.Module.requires_grad_"] = { "tycho.Module" },
  ["nn.ModuleList.append"] = { "tycho.nn.ModuleList" }, ["nn.Sequential.append"] = { "tycho.nn.Sequential" },
  ["nn.TransformerBlock.cache"] = { "table" }, ["nn.MultiHeadAttention.cache"] = { "table" }, ["nn.class"] = { "table" },
  ["optim.Optimizer.add_group"] = NONE, ["optim.Optimizer.step"] = NONE, ["optim.Optimizer.zero_grad"] = NONE,
  ["optim.Optimizer.load_state_dict"] = NONE, ["optim.Optimizer.state_dict"] = { "table" },
  ["optim.ReduceLROnPlateau"] = { "tycho.Plateau" },
  ["optim.LambdaLR"] = { "tycho.Schedule" }, ["optim.CosineLR"] = { "tycho.Schedule" }, ["optim.ExponentialLR"] = { "tycho.Schedule" },
  ["optim.MultiStepLR"] = { "tycho.Schedule" }, ["optim.OneCycleLR"] = { "tycho.Schedule" }, ["optim.StepLR"] = { "tycho.Schedule" },
  ["optim.WarmupCosineLR"] = { "tycho.Schedule" }, ["optim.WarmupLR"] = { "tycho.Schedule" },
  ["data.Dataset.get"] = { "any", "..." }, ["data.Loader.load_state_dict"] = NONE, ["data.Loader.restore"] = NONE,
  ["data.Loader.rest"] = NONE, ["graph.Graph.erase"] = NONE, ["graph.Graph.set_outputs"] = NONE, ["graph.pass"] = NONE,
  ["run.cancel"] = NONE,
  ["image.grid"] = { "tycho.Tensor" }, ["nn.GroupNorm.forward"] = { "tycho.Tensor" },
  ["data.Loader.close"] = NONE, ["files.TensorFile.close"] = NONE, ["files.TensorFile.has"] = { "boolean" },
}

return M
