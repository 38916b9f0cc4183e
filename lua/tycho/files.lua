--- files.lua -- tensors in files: `ty.load`, `ty.save`, `ty.files`.
-- In: paths. Out: tensors, tables of them by name, metadata. What the world does wrong (no such file, a file that is
-- damaged or hostile, a full disk) gives nil and a message that begins with the path; misuse raises.
--
-- A format is a table {load = fn(path, opts), save = fn(path, value, opts)} in ty.files under its name; `endings` says
-- which files it is for. The work is done in files.so, which is loaded with this file.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)

local type, ipairs = type, ipairs

local C, missing = require "tycho.native" "files"
if not C then error("tycho.files: " .. missing, 0) end

local M = {}

--- Which format a path's ending stands for.
local endings = {}

--- Adds a format: M[name] = {load = fn(path, opts), save = fn(path, value, opts)}, either may be missing.
local function add(name, list, format)
  M[name] = format
  for ending in list:gmatch("%S+") do endings[ending] = name end
end

local function check_path(who, path)
  if type(path) ~= "string" or path == "" then
    check.fail(who, "argument 1 must be a path, got %s", check.show(path))
  end
  if path:find("\0", 1, true) then check.fail(who, "the path holds a zero byte") end
  return path
end

--- The format of a path, which knows how to do `what`.
local function format_of(who, what, path)
  local ending = check_path(who, path):match("%.([%w_]+)$")
  local format = ending and M[endings[ending:lower()]]
  if format and format[what] then return format end
  local known = {}
  for e, name in pairs(endings) do
    if M[name][what] then known[#known + 1] = "." .. e end
  end
  table.sort(known)
  return check.fail(who, "%q does not end in one of %s", path, table.concat(known, " "))
end

--- What a file holds, by its ending: .npy .npz .safetensors .gguf .csv .tsv .png .jpg .jpeg .ppm .pgm .pnm. Options are
--- those of the format's own load: ty.csv.load, ty.image.load, ty.files.npy.load and so on.
--- Raises where the path is no string, its ending is no known format, or an option is not known. What cannot be read
--- gives nil and a message.
---@param path string
---@param opts? table
---@return any value, any more # a tensor, tensors by name, a table; nil and a message where the file cannot be read
function M.load(path, opts) return format_of("load", "load", path).load(path, opts) end

--- Writes a file, by its ending, as load has them but .gguf; the file is whole or, where that fails, as it was before.
--- Options are those of the format's own save.
--- Raises where the path is no string, its ending is no known format, or the value is not what the format takes. What
--- cannot be written gives nil and a message.
--- `ty.save("model.onnx", f, {x, ...})` writes what a function or module computes, see ty.onnx.save.
---@param path string
---@param value any a tensor, or tensors by name: what the format takes
---@param opts? table
---@return true? ok, string? message
function M.save(path, value, opts) return format_of("save", "save", path).save(path, value, opts) end

---------------------------------------------------------------------------------------------------------- npy

local npy_types = {
  bool = "|b1", u8 = "|u1", i8 = "|i1", i16 = "<i2", i32 = "<i4", i64 = "<i8", f16 = "<f2", f32 = "<f4", f64 = "<f8",
  c64 = "<c8", c128 = "<c16", u16 = "<u2", u32 = "<u4", u64 = "<u8",
}

--- The front of an npy file of such a tensor; elements begin at a multiple of 64 bytes.
local function npy_header(who, t)
  local descr, sizes = npy_types[t.dtype], t.shape
  if not descr then check.fail(who, "NumPy has no %s (use :to(\"f32\"))", t.dtype) end
  for i, n in ipairs(sizes) do sizes[i] = ("%d"):format(n) end
  local shape = table.concat(sizes, ", ") .. (#sizes == 1 and "," or "")
  local dict = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(descr, shape)
  dict = dict .. (" "):rep(-(10 + #dict + 1) % 64) .. "\n"
  return "\147NUMPY\1\0" .. string.char(#dict % 256, math.floor(#dict / 256)) .. dict
end

--- Reverses the dims where a file has them column by column.
local function turned(t, reversed)
  if not reversed then return t end
  local order = {}
  for d = t.ndim, 1, -1 do order[#order + 1] = d end
  return t:permute(order)
end

add("npy", "npy", {
  --- A tensor of a .npy file. Column-major files give a view with turned strides.
  --- Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
  ---@param path string
  ---@param opts? {mmap: boolean?} mmap: the elements stay in the file, which must not be cut short meanwhile
  ---@return tycho.Tensor? t, string? message
  load = function(path, opts)
    opts = check.options("npy.load", opts, { mmap = "boolean" })
    local file, why = C.open("npy", check_path("npy.load", path), opts.mmap)
    if not file then return nil, why end
    local t, reversed = C.read(file, 1)
    C.close(file)
    if not t then return nil, reversed end
    return turned(t, reversed)
  end,
  --- Writes a tensor as .npy.
  --- Raises where t is no tensor of a dtype that .npy has. What cannot be written gives nil and a message.
  ---@param path string
  ---@param t tycho.Tensor
  ---@param opts? table there are none
  ---@return true? ok, string? message
  save = function(path, t, opts)
    check_path("npy.save", path)
    check.options("npy.save", opts, {})
    check.tensor("npy.save", 2, t)
    return C.write(path, { npy_header("npy.save", t), t:detach() })
  end,
})

---------------------------------------------------------------------------------------------------------- archives

--- An open file of named tensors, of which each is read when it is asked for.
---@class tycho.TensorFile
---@field names string[] in the file's order
---@field metadata table
local File = {}
local file_methods = {}
M.TensorFile = file_methods

local loaders = { metadata = function(self) return C.metadata(self.handle) end }

function File:__index(key)
  local method = file_methods[key]
  if method then return method end
  local make = loaders[key]
  if not make then return nil end
  self[key] = make(self)
  return self[key]
end

local function place_of(self, who, name)
  if type(name) ~= "string" then check.fail(who, "argument 1 must be a name, got %s", check.show(name)) end
  return self.places[name]
end

--- Whether it holds a tensor of that name.
--- Raises where the name is no string.
---@param name string
---@return boolean
function file_methods:has(name) return place_of(self, "has", name) ~= nil end

--- The sizes and dtype of a tensor as get gives it, without reading it; a third value says why there can be none. nil
--- where it has none of that name.
--- Raises where the name is no string.
---@return integer[]? shape, string? dtype, string? why
---@param name string
function file_methods:info(name)
  local place = place_of(self, "info", name)
  if not place then return nil end
  return C.info(self.handle, place)
end

--- Reads one tensor.
--- Raises where the file has no tensor of that name; what cannot be read gives nil and a message.
---@param name string
---@return tycho.Tensor? t, string? message
function file_methods:get(name)
  local place = place_of(self, "get", name)
  if not place then return nil, ("%s: holds no tensor %q"):format(self.path, name) end
  local t, reversed = C.read(self.handle, place)
  if not t then return nil, reversed end
  return turned(t, reversed)
end

--- Closes the file; tensors that were read stay.
--- Raises never.
function file_methods:close() C.close(self.handle) end

local function open_file(format, path, opts)
  if opts.limit and (opts.limit < 0 or opts.limit ~= opts.limit) then
    check.fail(format, "option limit must be a number of bytes, got %g", opts.limit)
  end
  local handle, why = C.open(format, path, opts.mmap, opts.limit)
  if not handle then return nil, why end
  local self = { handle = handle, path = path, names = C.names(handle), places = {} }
  for i, name in ipairs(self.names) do self.places[name] = i end
  return setmetatable(self, File)
end

local function check_names(who, names)
  for i, name in ipairs(names) do
    if type(name) ~= "string" then check.fail(who, "option names must list texts, %d is %s", i, check.show(name)) end
  end
  return names
end

--- All tensors of a file, or those that names lists; convert(t) may change each. What can be seen to be wrong is seen
--- before the first is read.
local function load_all(who, format, path, opts, convert)
  check_path(who, path)
  local names = opts.names and check_names(who, opts.names)
  local file, why = open_file(format, path, opts)
  if not file then return nil, why end
  local function refuse(message)
    file:close()
    return nil, message
  end
  local tensors, places = {}, {}
  names = names or file.names
  for i, name in ipairs(names) do
    places[i] = file.places[name]
    if not places[i] then return refuse(select(2, file:get(name))) end
  end
  local good
  good, why = C.check(file.handle, places)
  if not good then
    local unread -- what can be no tensor of ours: who names the others gets them
    for _, name in ipairs(opts.names and {} or names) do unread = unread or select(3, file:info(name)) end
    return refuse(unread and #names > 1 and why .. " (option names = {...} reads the others)" or why)
  end
  for _, name in ipairs(names) do
    local t
    t, why = file:get(name)
    if not t then return refuse(why) end
    tensors[name] = convert and convert(t) or t
  end
  local metadata = file.metadata
  file:close()
  return tensors, metadata
end

local known_options = {
  npz = { names = "table", limit = "number" },
  safetensors = { names = "table", mmap = "boolean" },
  gguf = { names = "table", mmap = "boolean", dtype = "string" },
}

--- ty.files.npz.open and its relatives.
local function opener(format)
  local known = { mmap = known_options[format].mmap, limit = known_options[format].limit }
  --- An open file, of which tensors are read one by one: its names, info(name), get(name). Options as of load.
  --- Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
  ---@param path string
  ---@param opts? {mmap: boolean?, limit: number?}
  ---@return tycho.TensorFile? file, string? message
  return function(path, opts)
    local who = format .. ".open"
    return open_file(format, check_path(who, path), check.options(who, opts, known))
  end
end

--- The names of a table of tensors, sorted; raises for anything else.
local function names_of(who, tensors)
  local names = {}
  if type(tensors) ~= "table" then
    check.fail(who, "argument 2 must be tensors by name, got %s", check.show(tensors))
  end
  if type(tensors.state_dict) == "function" then
    check.fail(who, "argument 2 must be tensors by name, got a module; give module:state_dict()")
  end
  for name, t in pairs(tensors) do
    if type(name) ~= "string" then check.fail(who, "names must be texts, got %s", check.show(name)) end
    local bad = C.bad_name(name)
    if bad then check.fail(who, "the name %q %s", name, bad) end
    if not ty.is_tensor(t) then check.fail(who, "%s must be a tensor, got %s", name, check.show(t)) end
    check.tensor(who, 2, t)
    names[#names + 1] = name
  end
  table.sort(names)
  return names
end

---------------------------------------------------------------------------------------------------------- npz

add("npz", "npz", {
  --- The arrays of a .npz file by name, as numpy.load gives them. Compressed files that unpack to more than the file's
  --- size and 64 MB are refused unless `limit` allows it: a small file may stand for any number of bytes.
  --- Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
  ---@param path string
  ---@param opts? {names: string[]?, limit: number?}
  ---@return table<string, tycho.Tensor>? tensors, string? message
  load = function(path, opts)
    local tensors, why = load_all("npz.load", "npz", path, check.options("npz.load", opts, known_options.npz))
    if not tensors then return nil, why end
    return tensors
  end,
  open = opener "npz",
  --- Writes tensors by name, as numpy.savez does; compress: as numpy.savez_compressed.
  --- Raises where a name or a tensor is none. What cannot be written gives nil and a message.
  ---@param path string
  ---@param tensors table<string, tycho.Tensor>
  ---@param opts? {compress: boolean?}
  ---@return true? ok, string? message
  save = function(path, tensors, opts)
    local who = "npz.save"
    check_path(who, path)
    opts = check.options(who, opts, { compress = "boolean" })
    local names, fronts, list = names_of(who, tensors), {}, {}
    if #names == 0 then return C.write(path, { "PK\5\6" .. ("\0"):rep(18) }) end -- libzip writes none without members
    for i, name in ipairs(names) do
      fronts[i], list[i] = npy_header(who, tensors[name]), tensors[name]:detach()
      names[i] = name .. ".npy"
    end
    return C.zip(path, names, fronts, list, opts.compress)
  end,
})

---------------------------------------------------------------------------------------------------------- safetensors

--- As the reference implementation sorts: widest elements first, so that all are aligned, then by name.
local safe_types = {
  bool = "BOOL", u8 = "U8", i8 = "I8", i16 = "I16", f16 = "F16", bf16 = "BF16", i32 = "I32", f32 = "F32", f64 = "F64",
  i64 = "I64", c64 = "C64", u16 = "U16", u32 = "U32", u64 = "U64",
}
local safe_order, widths = {}, {}
for i, dtype in ipairs { "bool", "u8", "i8", "i16", "u16", "f16", "bf16", "i32", "u32", "f32", "c64", "f64", "i64",
  "u64" } do
  safe_order[dtype] = i
  widths[dtype] = i <= 3 and 1 or i <= 7 and 2 or i <= 10 and 4 or 8
end

local short = { ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ['"'] = '\\"',
  ["\\"] = "\\\\" }

--- A text in JSON.
local function quoted(s)
  return '"' .. s:gsub('[%z\1-\31"\\]', function(c) return short[c] or ("\\u%04x"):format(c:byte()) end) .. '"'
end

local function metadata_json(who, metadata)
  local keys, parts = {}, {}
  for k, v in pairs(metadata) do
    if type(k) ~= "string" or type(v) ~= "string" then
      check.fail(who, "metadata must be texts by name, got %s = %s", check.show(k), check.show(v))
    end
    keys[#keys + 1] = k
  end
  table.sort(keys)
  for i, k in ipairs(keys) do parts[i] = quoted(k) .. ":" .. quoted(metadata[k]) end
  return '"__metadata__":{' .. table.concat(parts, ",") .. "}"
end

--- Writes tensors by name. metadata: texts by name.
local function save_safetensors(who, path, tensors, metadata, durable)
  local names, header, parts, at = names_of(who, tensors), {}, { "" }, 0
  for _, name in ipairs(names) do
    local dtype = tensors[name].dtype
    if not safe_types[dtype] then
      check.fail(who, "safetensors have no %s, of which %s is (use ty.view_as_real, or .npz)", dtype, name)
    end
  end
  table.sort(names, function(a, b)
    local p, q = safe_order[tensors[a].dtype], safe_order[tensors[b].dtype]
    if p ~= q then return p > q end
    return a < b
  end)
  if metadata then header[1] = metadata_json(who, metadata) end
  for _, name in ipairs(names) do
    if name == "__metadata__" then check.fail(who, "no tensor can have the name __metadata__") end
    local t = tensors[name]
    local bytes, sizes = t:numel() * widths[t.dtype], t.shape
    for d, n in ipairs(sizes) do sizes[d] = ("%d"):format(n) end
    header[#header + 1] = ('%s:{"dtype":"%s","shape":[%s],"data_offsets":[%.0f,%.0f]}'):format(quoted(name),
      safe_types[t.dtype], table.concat(sizes, ","), at, at + bytes)
    at = at + bytes
    parts[#parts + 1] = t:detach()
  end
  local text = "{" .. table.concat(header, ",") .. "}"
  text = text .. (" "):rep(-#text % 8)
  local size = {}
  for i = 1, 8 do size[i] = string.char(math.floor(#text / 256 ^ (i - 1)) % 256) end
  parts[1] = table.concat(size) .. text
  return C.write(path, parts, durable)
end

add("safetensors", "safetensors", {
  --- The tensors of a .safetensors file by name, and its metadata. names: only these are read. mmap: the elements stay
  --- in the file until they are looked at; cutting the file short meanwhile ends the process.
  --- Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
  ---@param path string
  ---@param opts? {names: string[]?, mmap: boolean?}
  ---@return table<string, tycho.Tensor>? tensors, table<string, string>|string metadata or message
  load = function(path, opts)
    local who = "safetensors.load"
    return load_all(who, "safetensors", path, check.options(who, opts, known_options.safetensors))
  end,
  open = opener "safetensors",
  --- Writes tensors by name, byte for byte as the reference implementation does.
  --- Raises where a name or a tensor is none. What cannot be written gives nil and a message.
  ---@param path string
  ---@param tensors table<string, tycho.Tensor>
  ---@param opts? {metadata: table<string, string>?}
  ---@return true? ok, string? message
  save = function(path, tensors, opts)
    local who = "safetensors.save"
    opts = check.options(who, opts, { metadata = "table" })
    return save_safetensors(who, check_path(who, path), tensors, opts.metadata, false)
  end,
})

---------------------------------------------------------------------------------------------------------- onnx

add("onnx", "onnx", {
  --- The model of a .onnx file as a module: its parts are the weights, calling it runs the graph in ordinary
  --- operations, so that it is compiled, differentiated and moved like any other. `m(x, ...)` takes the inputs in the
  --- graph's order, `m{name = x}` by name, and gives a table of outputs by name.
  --- Raises where the path is no string. What cannot be read, or uses an operator, a type or an attribute that is not
  --- supported (named with its node), gives nil and a message.
  ---@param path string
  ---@return tycho.Module? model, string? message
  load = function(path) return require("tycho.onnx").format(C).load(check_path("onnx.load", path)) end,
  --- Writes what f(x, ...) computes as a model (operators of version 18): f runs once with the example arguments, and
  --- its operations become nodes. Tensors among the arguments are inputs, named as the function's parameters; weights
  --- have their names in the module; all else is frozen. Positions (indices) count as f counts them.
  --- given: example arguments and options: inputs, outputs = {names}; dynamic = {x = {1}} or {x = {[1] = "batch"}}: up
  --- to three sizes that may vary; weights = "beside": large ones go into model.onnx.data, as they must beyond 2 GB.
  --- Raises where f reads a value on its way, computes what ONNX has no operator for, is another graph at other sizes,
  --- or an option is none. What cannot be written gives nil and a message.
  ---@param path string
  ---@param f function|table a function, compiled or not, or a module
  ---@param given? table {x, 0.5, outputs = {"scores"}, dynamic = {x = {1}}}
  ---@return true? ok, string? message
  save = function(path, f, given)
    return require("tycho.onnx.save").save(C, check_path("onnx.save", path), f, given)
  end,
})

---------------------------------------------------------------------------------------------------------- gguf

add("gguf", "gguf", {
  --- The tensors of a .gguf file by name, and its metadata. Quantised numbers (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K,
  --- Q5_K, Q6_K) become f32, 4 to 7 bytes for each of the file, so that a model takes up to 7 times its size (names:
  --- only these are read); other types keep their dtype unless `dtype` names one. Whole numbers of the metadata
  --- beyond 2^53 are texts.
  --- Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
  ---@param path string
  ---@param opts? {names: string[]?, mmap: boolean?, dtype: string?}
  ---@return table<string, tycho.Tensor>? tensors, table|string metadata or message
  load = function(path, opts)
    local who = "gguf.load"
    opts = check.options(who, opts, known_options.gguf)
    local dtype = opts.dtype
    return load_all(who, "gguf", path, opts, dtype and function(t)
      local y = t:to(dtype)
      if y ~= t then t:release() end
      return y
    end)
  end,
  open = opener "gguf",
})

---------------------------------------------------------------------------------------------------------- directories

local INDEX_MOST = 2 ^ 24 -- bytes: JSON of more is not read
local SHARDS_MOST = 4096 -- files that an index names

local function exists(path) return C.file_size(path) ~= nil end

--- Which file of an index holds which names: {file = {names}}, and the files in order.
local function read_index(path)
  local text, why = C.text(path, INDEX_MOST)
  if not text then return nil, why end
  local index
  index, why = C.json(text)
  if index == nil then return nil, ("%s: %s"):format(path, why or "holds nothing") end
  local map = type(index) == "table" and index.weight_map
  if type(map) ~= "table" then return nil, ("%s: has no weight_map"):format(path) end
  local files, shards = {}, {}
  for name, file in pairs(map) do
    if type(name) ~= "string" or type(file) ~= "string" or file:find("[/\\%z]") or file == "" or file == ".." then
      return nil, ("%s: %q is in no file beside it"):format(path, tostring(name))
    end
    if not shards[file] then
      if #files == SHARDS_MOST then return nil, ("%s: names more than %d files"):format(path, SHARDS_MOST) end
      files[#files + 1], shards[file] = file, {}
    end
    table.insert(shards[file], name)
  end
  table.sort(files)
  return shards, files
end

local function load_shards(path, opts)
  local shards, files = read_index(path)
  if not shards then return nil, files end
  local folder, tensors = path:match("^(.*/)[^/]*$") or "", {}
  for _, file in ipairs(files) do
    local list, why = M.safetensors.load(folder .. file, { names = shards[file], mmap = opts.mmap })
    if not list then return nil, why end
    for name, t in pairs(list) do tensors[name] = t end
  end
  return tensors
end

--- The weights of a model as other libraries save them: a .safetensors file, a model.safetensors.index.json with the
--- files that it names, or a directory with one of these. For model:load_state_dict(weights, {from = "torch"}).
--- Raises where the path is no string, or an option is not known.
---@param path string
---@param opts? {mmap: boolean?}
---@return table<string, tycho.Tensor>? weights, string? message
function M.load_weights(path, opts)
  local who = "load_weights"
  check_path(who, path)
  opts = check.options(who, opts, { mmap = "boolean" })
  if path:find("%.json$") then return load_shards(path, opts) end
  if path:find("%.safetensors$") then
    local tensors, why = M.safetensors.load(path, opts)
    if not tensors then return nil, why end
    return tensors
  end
  for _, name in ipairs { "model", "diffusion_pytorch_model", "adapter_model" } do
    for _, ending in ipairs { ".safetensors.index.json", ".safetensors" } do
      local file = path:gsub("/*$", "") .. "/" .. name .. ending
      if exists(file) then return M.load_weights(file, opts) end
    end
  end
  return nil, ("%s: holds no model.safetensors and no model.safetensors.index.json"):format(path)
end

M.save_checkpoint, M.load_checkpoint = require("tycho.checkpoint")(ty, C, check, quoted, save_safetensors)
M._native = C
require("tycho.csv")(C, add, check)
require("tycho.image")(M, C, add, check)

return M
