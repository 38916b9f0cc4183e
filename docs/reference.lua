--- reference.lua -- the pages of the reference: every public name with what tycho.texts knows of it.
-- In: the library. Out: pages {id, title, intro, entries}, each entry as HTML; the address of each name.
-- Which page a function stands on follows from where it is defined; `moved` says otherwise for some.

local ty = require "tycho"
local texts = require "tycho.texts"
local markdown = require "docs.markdown"

local escape = markdown.escape
local help = ty.internals.help

local M = {}

--- Pages in their order: {id, title, one line about it, sections, a group that it holds, the group's title beside sections}.
local plan = {
  { "making", "Making tensors", "Numbers, tables, ranges, memory of others.", { "Making tensors" } },
  { "random", "Random numbers", "The same numbers for a seed on every machine, compiled or not.", { "Random numbers" } },
  { "tensors", "Looking at tensors", "What a tensor is, and its elements as Lua values. Properties: `x.shape` (a fresh table), "
    .. "`x.dtype`, `x.device`, `x.ndim`, `x.requires_grad`, `x.grad`, `x.is_leaf`, `x.nbytes`, `x.T`, `x.mT`. `#x` is the size of dim 1.",
    { "Looking at tensors", "Copies, dtypes, memory" } },
  { "shapes", "Shapes, joining, indexing", "Dims and positions count from 1, negative ones from the end; views share memory. "
    .. "`x[i]`, `x[{ {}, { 1, -1, 2 } }]`, `x[mask]`, `x[index]` read and write by the same rules.",
    { "Shapes and views", "Joining, repeating, moving" } },
  { "maths", "Mathematics", "Element by element; sizes broadcast, dtypes promote, plain numbers are weak: `f16 + 1` stays f16. "
    .. "`+ - * / % ^` are operators, and so is unary minus. Values are rounded where eager rounds, on every machine.",
    { "Mathematics" } },
  { "compare", "Comparison and bits", "Comparisons give tensors of bool: Lua's `<` and `==` cannot.", { "Comparison and bits" } },
  { "reductions", "Reductions and scans", "Over all dims, one or a list of them; sums have one order on every machine.",
    { "Reductions", "Sorting and searching" } },
  { "products", "Products and linear algebra", "Matrix products are Tycho's own; `ty.linalg` stands on LAPACK.",
    { "Products" }, "linalg" },
  { "fft", "Fourier transforms", "`ty.fft` for any length, with gradients; windows, and transforms of pieces of a signal.",
    { "Signals" }, "fft" },
  { "complex", "Complex numbers", "The dtypes `c64` and `c128` are pairs of `f32` and `f64`, and views of them: "
    .. "`ty.view_as_real(z)` shares memory and gradient with `z`. Operators, powers, `exp log sqrt sin cos tan` and their "
    .. "like, `abs`, sums, products, norms, moves and indexing take them; what needs an order raises. A gradient is "
    .. "`dL/dre + i dL/dim`, as PyTorch's. `z:item()` gives two numbers, `z:totable()` pairs.", { "Complex numbers" } },
  { "functions", "Functions of networks", "Activations, norms, attention, convolutions, losses, as functions; "
    .. "`ty.nn` has most of them as modules.", { "Activations and norms", "Losses", "Convolution and pooling" } },
  { "gradients", "Gradients", "`loss:backward()` fills `x.grad`; the rest are functions of functions.",
    { "Gradients" } },
  { "jit", "jit: compiled functions", "Each also a function of ty, but `jit.view` and `jit.profile`. `jit.log = false` silences "
    .. "the lines on stderr, `jit.log = fn` gives fn the text.", { "Compilation" }, "run", "Calls in slices: what jit.start gives" },
  { "nn", "ty.nn: modules", "Modules are tables; parts are found by walking their fields.", nil, "nn" },
  { "optim", "ty.optim: optimisers, schedules", "Optimisers write parameters in place by their `grad`.", nil, "optim" },
  { "data", "ty.data: datasets and loaders", "Samples, batches, files read on threads of their own.", nil, "data" },
  { "dist", "ty.dist: several processes", "`tycho --ranks 4 script.lua` starts them; ranks count from 0, as MPI numbers them. All "
    .. "ranks call the same functions in the same order.", nil, "dist" },
  { "files", "Files", "`ty.load` and `ty.save` know formats by the path's ending. Trouble with files gives nil and a message, wrong "
    .. "use raises.", { "Files" }, "files" },
  { "csv", "ty.csv: tables", "Text files with columns.", nil, "csv" },
  { "image", "ty.image: images", "PNG, JPEG, PPM and PGM.", nil, "image" },
  { "plot", "ty.plot: charts", "Curves, bars, heat maps, images to SVG and PNG, without a display or a library.", { "Charts" }, "plot" },
  { "progress", "Progress, terminal, help", "What a loop, a terminal, a prompt show.", { "Looking at work" }, "progress" },
  { "settings", "Settings and devices", "For the whole process or state; without an argument they tell and change nothing.",
    { "Settings and devices" } },
  { "graph", "tycho.graph: graphs as tables", "`require \"tycho.graph\"`: captured graphs that Lua reads, rewrites and runs.", nil,
    "graph" },
}

--- Sections of files, where they are called otherwise.
local files = {
  maths = "Mathematics", reductions = "Reductions", products = "Products", neural = "Activations and norms",
  activations = "Activations and norms", losses = "Losses", ctc = "Losses", convolution = "Convolution and pooling",
  pooling = "Convolution and pooling", blocks = "Convolution and pooling", dims_in_place = "Shapes and views",
  resample = "Convolution and pooling",
  attention = "Activations and norms", grad = "Gradients", vmap = "Gradients",
  scan = "Gradients", hooks = "Gradients", anomaly = "Gradients", gradcheck = "Gradients", compile = "Compilation",
  graph_passes = "Compilation", files = "Files", checkpoint = "Files", profile = "Looking at work", progress = "Looking at work",
  show = "Looking at work", help = "Looking at work", autocast = "Gradients", init = "Settings and devices",
  arrangement = "Joining, repeating, moving", special = "Mathematics", statistics = "Reductions",
  places = "Joining, repeating, moving", draws = "Random numbers", fourier = "Signals",
  dtypes = "Copies, dtypes, memory", complex_rows = "Complex numbers",
}
local moved = {
  masked_fill = "Joining, repeating, moving", index_add = "Joining, repeating, moving", one_hot = "Making tensors",
  tri = "Making tensors", tril = "Shapes and views", triu = "Shapes and views", meshgrid = "Making tensors",
  equal = "Comparison and bits", allclose = "Comparison and bits", isclose = "Comparison and bits",
  logical_and = "Comparison and bits", logical_or = "Comparison and bits", logical_xor = "Comparison and bits",
  logical_not = "Comparison and bits", isnan = "Comparison and bits", isinf = "Comparison and bits",
  isfinite = "Comparison and bits", signbit = "Comparison and bits", logspace = "Making tensors",
  tril_indices = "Making tensors", triu_indices = "Making tensors", vander = "Making tensors", diag = "Shapes and views",
  trace = "Products", kron = "Products", rot90 = "Shapes and views", fliplr = "Shapes and views",
  flipud = "Shapes and views", bucketize = "Sorting and searching", isin = "Sorting and searching",
  msort = "Sorting and searching", kthvalue = "Sorting and searching", mode = "Sorting and searching",
  bincount = "Reductions", unique = "Sorting and searching", select = "Shapes and views", interp = "Mathematics", polyval = "Mathematics",
  polyfit = "Products", convolve = "Convolution and pooling", new_zeros = "Making tensors", new_ones = "Making tensors",
  new_full = "Making tensors", new_empty = "Making tensors", new_tensor = "Making tensors", data = "Looking at tensors", plot = "Charts",
}

--- Words that others use: NumPy, PyTorch, Torch7.
M.also = {
  cat = "concatenate concat hstack vstack", to = "cast astype type dtype convert float half cuda", matmul = "mm mv @ gemm",
  permute = "transpose axes", unsqueeze = "newaxis expand_dims", reshape = "view resize", nonzero = "argwhere",
  masked_select = "boolean_mask", clamp = "clip", neg = "negative", remainder = "mod", pow = "power", mul = "multiply",
  sub = "subtract", div = "divide", abs = "absolute", max = "amax maximum", min = "amin minimum", totable = "tolist numpy",
  stack = "vstack", tile = "repeat", repeat_interleave = "repeat", roll = "shift", std = "deviation", sigmoid = "logistic",
  silu = "swish", cross_entropy = "categorical loss classification", bce_with_logits = "binary cross entropy loss",
  mse_loss = "squared error loss", l1_loss = "absolute error mae loss", nll_loss = "negative log likelihood",
  scaled_dot_product_attention = "sdpa flash attention", interpolate = "upsample resize", manual_seed = "seed",
  tensor = "array from table", from_ptr = "from_blob frombuffer numpy memory", range = "sequence", detach = "stop_gradient",
  checkpoint = "remat rematerialisation", scan = "loop rnn fold", vmap = "batch map", grad = "autograd derivative",
  jvp = "forward mode derivative", detect_anomaly = "nan infinity debug", deadline = "timeout", scope = "memory free",
  release = "free delete memory", threads = "set_num_threads cores", blas = "mkl openblas", save = "write dump",
  load = "read open", save_checkpoint = "state", profile = "profiler timing trace", show = "imshow terminal", plot = "chart matplotlib",
  ["nn.Module.parameters"] = "weights", ["nn.Module.state_dict"] = "weights save", ["nn.Linear"] = "dense fully connected",
  ["nn.TransformerBlock"] = "gpt", ["jit.explain"] = "why slow recompile", ["jit.view"] = "html page source",
  ["jit.profile"] = "profiler line timing hot", ["jit.start"] = "frame slice time budget resume games async",
  ["jit.export"] = "ahead of time aot c source code generate onnx embed",
  ["jit.warmup"] = "compile ahead", ["jit.budget"] = "games frame", ["data.loader"] = "dataloader minibatch",
  ["data.tensors"] = "tensordataset",
  ["data.collate"] = "default_collate collate_fn", ["image.load"] = "imread png jpeg", ["csv.load"] = "pandas read_csv table",
  ["optim.GradScaler"] = "amp mixed precision", ["optim.AveragedModel"] = "ema swa exponential moving average",
  binary_cross_entropy = "bce loss", ["optim.LBFGS"] = "quasi newton closure", autocast = "amp mixed precision half",
  ["files.safetensors.load"] = "hugging face weights", ["files.gguf.load"] = "llama quantised weights",
}
for _, name in ipairs { "StepLR", "MultiStepLR", "ExponentialLR", "CosineLR", "WarmupLR", "WarmupCosineLR", "OneCycleLR", "LambdaLR",
  "ReduceLROnPlateau", "LinearLR", "ConstantLR", "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
  "MultiplicativeLR", "SequentialLR", "ChainedScheduler", "SWALR" } do
  M.also["optim." .. name] = "learning rate scheduler schedule"
end

local classes = { ["nn.Module"] = true, ["optim.Optimizer"] = true, ["data.Dataset"] = true, ["data.Loader"] = true }

--- Whether a name of a group is public: classes of layers have methods that calling them calls.
local function is_public(group, name)
  local owner, method = name:match "^(.*)%.([^.]*)$"
  if owner == group or classes[owner] then return method ~= "parent" end
  return texts.of(name) ~= nil and texts.of(name) ~= false
end

local function sorted(list)
  table.sort(list, function(a, b)
    local x, y = a:lower(), b:lower()
    return x == y and a < b or x ~= y and x < y
  end)
  return list
end

--- Public names of the module and methods, without the forms that write in place, by section.
local function by_section()
  local sections = {}
  for name in pairs(help) do
    if not texts.in_place(name) and not name:find(".", 1, true) then
      local entry = texts.of(name)
      local section = moved[name] or files[entry.section] or entry.section
      sections[section] = sections[section] or {}
      table.insert(sections[section], name)
    end
  end
  return sections
end

--- Every public name: {name, page} in the order of the pages.
function M.names()
  local list, sections = {}, by_section()
  for _, page in ipairs(plan) do
    for _, section in ipairs(page[4] or {}) do
      for _, name in ipairs(sorted(assert(sections[section], section))) do
        list[#list + 1] = { name = section == "Compilation" and "jit." .. name or name, page = page, section = section }
      end
      for _, name in ipairs(section == "Compilation" and texts.jit_names() or {}) do
        if help["jit." .. name] then list[#list + 1] = { name = "jit." .. name, page = page, section = section } end
      end
      sections[section] = nil
    end
    if page[5] then
      local names = {}
      for name in pairs((texts.members(page[5]))) do
        if is_public(page[5], name) then names[#names + 1] = name end
      end
      for _, name in ipairs(sorted(names)) do
        list[#list + 1] = { name = name, page = page, section = page[4] and (page[6] or "ty." .. page[5]) or nil }
      end
    end
  end
  local left = next(sections)
  assert(left == nil, "no page has the section " .. tostring(left))
  return list
end

------------------------------------------------------------------------------------------------------------- an entry

--- How a name is called: ty.softmax(x, dim = -1) or x:softmax(dim = -1).
local function calls_of(entry)
  local calls, args = {}, entry.call
  if entry.in_module then calls[1] = "ty." .. entry.name .. args end
  if entry.is_method then
    local rest = args:match "^%([^,()]+,%s*(.*)%)$" or args:match "^%([%w_]+%)$" and ""
    if rest then calls[#calls + 1] = "x:" .. entry.name .. "(" .. rest .. ")" end
  end
  if #calls == 0 then
    local name = entry.method and entry.name:gsub("%.([^.]*)$", ":%1") or entry.name
    local of = name:match "^(%l+)[.:]"
    if of ~= "jit" and of ~= "plot" and of ~= "progress" and of ~= "run" and of ~= "graph" then name = "ty." .. name end
    calls[1] = name .. args
  end
  return calls
end

--- What stands for an entry's id in an address; names of the module and of groups share a page here and there.
local function anchor(name) return name end

local function add_rows(add, entry, link)
  if #entry.params == 0 and #entry.returns == 0 then return end
  add "<div class=scroll><table class=args>"
  for _, p in ipairs(entry.params) do
    add(("<tr><td><code>%s</code><td class=type>%s%s<td>%s"):format(escape(p.name), escape((p.type:gsub("tycho%.", ""))),
      p.optional and " <span class=opt>optional</span>" or "", markdown.inline(texts.about(p), link)))
  end
  for _, r in ipairs(entry.returns) do
    add(("<tr class=gives><td>gives%s<td class=type>%s<td>%s"):format(r.name and " <code>" .. escape(r.name) .. "</code>" or "",
      escape((r.type:gsub("tycho%.", ""))), markdown.inline(r.text, link)))
  end
  add "</table></div>"
end

--- Addresses in a text become links.
local function with_sources(html)
  return (html:gsub("arXiv:(%d+%.%d+)", "<a href=\"https://arxiv.org/abs/%1\">arXiv:%1</a>"))
end

--- Names of functions in a text, such as ty.cross_entropy, as code.
local function marked(text)
  return (text:gsub("%f[%w`](ty%.[%a_][%w_.]*[%w_])", "`%1`"):gsub("\n  (%S[^\n]*)", "\n`%1`"))
end

--- An entry as HTML. example: {code, out}, nil: none.
---@param name string
---@param link fun(code: string): string?
function M.entry(name, link, example)
  local entry, out = texts.of(name), {}
  local function add(html) out[#out + 1] = html end
  add(("<section class=entry id=\"%s\"><h3><a href=\"#%s\">%s</a></h3>"):format(escape(anchor(name)), escape(anchor(name)),
    escape(name)))
  add("<pre class=\"code lua call\">" .. escape(table.concat(calls_of(entry), "\n")) .. "</pre>")
  local text, other = entry.text, entry.see and texts.of(entry.see)
  if other and text:find "^see%s+[%w_.]+%.?$" then -- a module around a function: what that does, and gives
    text = ("`ty.%s` as a module: %s"):format(entry.see, other.summary or other.text)
  end
  if text:find "^%l%l+[%s,:;.]" then text = text:sub(1, 1):upper() .. text:sub(2) end -- no formula
  if not text:find "[.:;!?]$" then text = text .. "." end
  add("<p>" .. with_sources(markdown.inline(marked(text), link)) .. "</p>")
  add_rows(add, { params = entry.params, returns = #entry.returns == 0 and other and other.returns or entry.returns }, link)
  local raises = texts.raises(entry)
  if raises then add("<p class=raises>" .. markdown.inline(raises, link) .. "</p>") end
  local notes = {}
  if texts.in_place(name .. "_") then
    notes[#notes + 1] = ("<code>x:%s_(...)</code> writes the result to x."):format(escape(name))
  end
  if entry.constant then notes[#notes + 1] = "No gradient goes through it." end
  if entry.accuracy then notes[#notes + 1] = "Accuracy: " .. escape(entry.accuracy) .. "." end
  if entry.formula and not entry.text:find(entry.formula, 1, true) then
    notes[#notes + 1] = "Formula: " .. with_sources(escape(entry.formula)) .. "."
  end
  if #notes > 0 then add("<p class=notes>" .. table.concat(notes, " ") .. "</p>") end
  if example then
    add(markdown.code("lua", example.code) .. (example.out ~= "" and markdown.code("text", (example.out:gsub("\n$", ""))) or ""))
    if example.picture then
      add(("<figure><img src=\"%s\" alt=\"what the example of %s draws\" loading=lazy></figure>"):format(example.picture, escape(name)))
    end
  end
  add "</section>"
  return table.concat(out, "\n")
end

--- One line of an entry for the search: its text's first sentence.
function M.summary(name)
  local entry = texts.of(name)
  local line = entry.summary or entry.text
  line = line:gsub("%s+", " ")
  return #line > 110 and line:sub(1, 107):gsub("[^%w]*%w*$", "") .. " ..." or line
end

function M.pages() return plan end

return M
