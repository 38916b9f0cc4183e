--- graph_ops.lua -- what a graph in Lua knows of each operation: its arguments by name, and the type that it gives.
-- In: nodes and operands of graph.lua. Out: the line of a node in the text of graphs, a node's fields from such a line,
-- dtype and sizes of a new node. What cannot be gives nil and the reason.
--
-- The core's graphs have two small numbers k and k2, an offset, strides and bits (core/graph.h); nodes in Lua have
-- fields with names, which count from 1 where they name dims, slots or inputs:
--   input                   buffer, number, strides   inputs that share memory share a buffer
--   const                   value                     and bits where no Lua number is as exact
--   scalar                  slot
--   random                  slot, word                the stream's number; the seed is in the next slot; word 0 to 3
--   view, put               offset, strides           in elements of operand 1, which is taken to be contiguous
--   reductions, arg*        dims                      a list of adjacent dims
--   scans, gather, scatter* dim
--   argsort                 dim, descending; a shape that has less of the dim asks for the first ones alone
--   searchsorted            right
--   fft                     dim, kind                 "forward", "inverse", "real" ..., "/n", "/root" behind; "half"
--                                                     and "real_back" take the dim's size of a shape that is given
--   positions               base, places, site        of an index that counts from base; site: the core's own number
--   attend*                 causal, dropout, value    dropout in 2^-30; value: the scale; fast: on a device, by its
--                                                     tensor cores
--   matmul                  by                        "exact", "blas", "amx" or, on a device, "library"
-- The rules that a node keeps are those of the core: this file proposes a type, and the core's verifier decides.

---@param ty table the core module
return function(ty)
  local M = {}

  local internals = ty.internals
  local check, element, value_of = internals.graph_check, internals.graph_element, internals.graph_value
  local concat = table.concat

  --- Rows of the table of operations by name.
  M.row = {}
  for _, row in ipairs(internals.probe.ops()) do M.row[row.name] = row end

  --- Whether a name is a dtype's.
  M.dtype = {}
  for _, d in ipairs(internals.probe.dtypes()) do M.dtype[d.name] = true end

  local MAX = 2 ^ 53

  function M.is_whole(v) return type(v) == "number" and v % 1 == 0 and v > -MAX and v < MAX end

  local is_whole = M.is_whole

  local function whole_text(v) return ("%.0f"):format(v) end

  --- {2,3} of a list.
  function M.list_text(list)
    local out = {}
    for i = 1, #list do out[i] = whole_text(list[i]) end
    return concat(out, ",")
  end

  function M.type_text(dtype, shape, device)
    return ("%s[%s]%s"):format(dtype, M.list_text(shape), device and device ~= "cpu" and "@" .. device or "")
  end

  --- Strides of a contiguous tensor, in elements.
  function M.row_major(shape)
    local strides, n = {}, 1
    for d = #shape, 1, -1 do
      strides[d] = n
      n = n * math.max(shape[d], 1)
    end
    return strides
  end

  function M.numel(shape)
    local n = 1
    for d = 1, #shape do n = n * shape[d] end
    return n
  end

  -- Arguments ---------------------------------------------------------------------------------------------------------

  -- A kind of argument writes a node's field as the core's, and reads it back. What does not fit raises a plain text,
  -- which M.line turns into its answer.
  local function refuse(field, want) error({ field .. " must be " .. want }, 0) end

  local function number(key, field, base)
    return {
      field = field,
      write = function(n)
        if not is_whole(n[field]) then refuse(field, "a whole number") end
        return key .. "=" .. whole_text(n[field] - base)
      end,
      read = function(n, given) n[field] = tonumber(given[key]) + base end,
    }
  end

  local function flag(key, field)
    return {
      field = field,
      write = function(n)
        if type(n[field]) ~= "boolean" then refuse(field, "true or false") end
        return key .. (n[field] and "=1" or "=0")
      end,
      read = function(n, given) n[field] = given[key] == "1" end,
    }
  end

  local function check_list(list, field)
    if type(list) ~= "table" then refuse(field, "a list of whole numbers") end
    for i = 1, #list do
      if not is_whole(list[i]) then refuse(field, "a list of whole numbers") end
    end
  end

  local strides = {
    field = "strides",
    write = function(n)
      check_list(n.strides, "strides")
      return "strides=[" .. M.list_text(n.strides) .. "]"
    end,
    read = function(n, given)
      n.strides = {}
      for v in given.strides:gmatch("[^,]+") do n.strides[#n.strides + 1] = tonumber(v) end
    end,
  }

  local dims = {
    field = "dims",
    write = function(n)
      check_list(n.dims, "dims")
      local first = n.dims[1]
      if not first then refuse("dims", "a list of at least one dim") end
      for i, d in ipairs(n.dims) do
        if d ~= first + i - 1 then refuse("dims", "adjacent dims in ascending order") end
      end
      return ("k=%d, k2=%d"):format(first - 1, n.dims[#n.dims] - 1)
    end,
    read = function(n, given)
      n.dims = {}
      for d = tonumber(given.k), tonumber(given.k2) do n.dims[#n.dims + 1] = d + 1 end
    end,
  }

  --- Bits are kept where the number does not give them back: i64 beyond 2^53, NaNs with a payload.
  local bits = {
    field = "value",
    write = function(n)
      if n.bits ~= nil then
        local good = type(n.bits) == "string" and n.bits:find("^0x%x+$")
        if not good then refuse("bits", "a text such as \"0x3f800000\"") end
        return "bits=" .. n.bits
      end
      if type(n.value) ~= "number" then refuse("value", "a number") end
      return "bits=" .. element(n.dtype, n.value)
    end,
    read = function(n, given)
      n.value = value_of(n.dtype, given.bits)
      local exact = element(n.dtype, n.value) == given.bits and (n.dtype ~= "i64" or math.abs(n.value) < MAX)
      if not exact then n.bits = given.bits end
    end,
  }

  local ways = { [0] = "exact", "blas", "amx" }
  local way_number = { exact = 0, blas = 1, amx = 2 }
  for i = 0, 7 do -- a device's library, and how operands lie
    local name, way = i == 0 and "library" or "library " .. i, 4 + 8 * i
    ways[way], way_number[name] = name, way
  end
  local by = {
    field = "by",
    write = function(n)
      if not way_number[n.by] then refuse("by", "\"exact\", \"blas\", \"amx\" or \"library\"") end
      return "k2=" .. way_number[n.by]
    end,
    read = function(n, given) n.by = ways[tonumber(given.k2)] end,
  }

  local kinds = { "forward", "inverse", "real", "real_back", "half", "half_back" }
  local kind_number, kind_name = {}, {}
  for i, kind in ipairs(kinds) do
    for norm, end_of in ipairs { "", "/n", "/root" } do
      local number_of = i - 1 + 8 * (norm - 1)
      for way, fast in ipairs { "", ", fast" } do -- of the first three kinds also by a device's library
        local name, k2 = kind .. end_of .. fast, number_of + 32 * (way - 1)
        if way == 1 or i <= 3 then kind_number[name], kind_name[k2] = k2, name end
      end
    end
  end
  M.transforms = kind_number

  local transform = {
    field = "kind",
    write = function(n)
      if not kind_number[n.kind] then refuse("kind", "a transform, such as \"forward\" or \"half/n\"") end
      return "k2=" .. kind_number[n.kind]
    end,
    read = function(n, given) n.kind = kind_name[tonumber(given.k2)] end,
  }

  local places = {
    field = "places",
    write = function(n)
      if not is_whole(n.places) then refuse("places", "a whole number") end
      return ("bits=0x%x"):format(n.places)
    end,
    read = function(n, given) n.places = tonumber(given.bits) end,
  }

  local attended = {
    field = "causal",
    write = function(n)
      if type(n.causal) ~= "boolean" then refuse("causal", "true or false") end
      return ("k=%d"):format((n.causal and 1 or 0) + (n.fast and 2 or 0))
    end,
    read = function(n, given)
      local k = tonumber(given.k) or 0
      n.causal, n.fast = k % 2 == 1, k >= 2
    end,
  }

  local dim = number("k", "dim", 1)
  local of_op = {
    input = { number("k", "buffer", 1), number("k2", "number", 1), strides },
    const = { bits },
    scalar = { number("k", "slot", 1) },
    random = { number("k", "slot", 1), number("k2", "word", 0) },
    view = { number("offset", "offset", 0), strides },
    put = { number("offset", "offset", 0), strides },
    gather = { dim },
    scatter = { dim },
    scatter_add = { dim },
    argsort = { dim, flag("k2", "descending") },
    searchsorted = { flag("k", "right") },
    fft = { dim, transform },
    positions = { number("k", "base", 0), number("k2", "site", 0), places },
    attend = { attended, number("k2", "dropout", 0), bits },
    attend_grad = { attended, number("k2", "dropout", 0), bits },
    matmul = { by },
  }
  local of_class = { reduce = { dims }, scan = { dim } }

  --- Gives a constant the value that its dtype makes of it.
  function M.round_constant(n)
    if n.bits == nil and type(n.value) == "number" then bits.read(n, { bits = element(n.dtype, n.value) }) end
  end

  --- The arguments of an operation, as kinds with a field each.
  function M.arguments(op) return of_op[op] or of_class[M.row[op].class] or {} end

  -- Lines of text ----------------------------------------------------------------------------------------------------

  local function write_line(n, number_of)
    local words = { n.op }
    for i = 1, #n.inputs do words[i + 1] = "%" .. number_of[n.inputs[i]] end
    local parts = {}
    for i, kind in ipairs(M.arguments(n.op)) do parts[i] = kind.write(n) end
    if #parts > 0 then words[#words + 1] = "{" .. concat(parts, ", ") .. "}" end
    check_list(n.shape, "shape")
    words[#words + 1] = ": " .. M.type_text(n.dtype, n.shape, n.device)
    return concat(words, " ")
  end

  --- A node without its number, as graphs are written: `add %1 %2 : f32[3]`. nil and what is wrong with its fields.
  function M.line(n, number_of)
    if not M.row[n.op] then return nil, ("there is no operation %q"):format(tostring(n.op)) end
    if type(n.dtype) ~= "string" then return nil, "dtype must be a name" end
    local ok, text = internals.protect(write_line, n, number_of)
    if ok then return text end
    return nil, type(text) == "table" and text[1] or tostring(text)
  end

  --- The fields of a node from the text behind its number, which the core wrote: op, dtype, shape, arguments; and the
  --- numbers of its operands.
  function M.read(text)
    local head, dtype, sizes, device = text:match("^(.*) : (%w+)%[([^%]]*)%](.*)$")
    local n, given, operands = { op = head:match("^[%w_]+"), dtype = dtype, shape = {} }, {}, {}
    n.device = device:match "^@(.+)$" -- nil: the CPU
    for v in sizes:gmatch("%d+") do n.shape[#n.shape + 1] = tonumber(v) end
    local words, args = head:match("^([^{]*){(.*)}$")
    for v in (words or head):gmatch("%%(%d+)") do operands[#operands + 1] = tonumber(v) end
    if args then
      for key, v in args:gmatch("(%w+)=(%-?%w+)") do given[key] = v end
      given.strides = args:match("strides=%[(.-)%]")
      for _, kind in ipairs(M.arguments(n.op)) do kind.read(n, given) end
    end
    return n, operands
  end

  --- nil when the node keeps the rules over the types of its operands, else what is wrong.
  function M.wrong(n)
    local lines, number_of = {}, {}
    for i = 1, #n.inputs do
      local a = n.inputs[i]
      if not number_of[a] then
        number_of[a] = #lines
        lines[#lines + 1] = ("%%%d = input {k=%d, k2=%d, strides=[%s]} : %s"):format(#lines, #lines, #lines,
          M.list_text(M.row_major(a.shape)), M.type_text(a.dtype, a.shape, a.device))
      end
    end
    if n.op == "input" and #n.inputs > 0 then return "an input has no operands" end
    local line, reason = M.line(n, number_of)
    if not line then return reason end
    lines[#lines + 1] = ("%%%d = %s"):format(#lines, line)
    local ok, wrong = check(concat(lines, "\n"))
    return not ok and wrong or nil
  end

  -- Types ------------------------------------------------------------------------------------------------------------

  local function copy(list)
    local y = {}
    for i = 1, #list do y[i] = list[i] end
    return y
  end

  M.copy = copy

  --- The sizes that operands broadcast to; where they do not, the verifier says so.
  local function broadcast(shapes)
    local y = {}
    for _, shape in ipairs(shapes) do
      local gap = #shape - #y
      for _ = 1, gap do table.insert(y, 1, 1) end
      for i = 0, #shape - 1 do
        local at = #y - i
        if y[at] == 1 then y[at] = shape[#shape - i] end
      end
    end
    return y
  end

  local function without(shape, gone)
    local y, set = {}, {}
    for _, d in ipairs(gone) do set[d] = true end
    for d = 1, #shape do
      if not set[d] then y[#y + 1] = shape[d] end
    end
    return y
  end

  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }
  M.floats = floats

  local infer = {} -- by class: (row, node) -> dtype, shape

  function infer.map(row, n)
    local shapes, first = {}, n.inputs[1].dtype
    for i, a in ipairs(n.inputs) do shapes[i] = a.shape end
    local dtype = first
    if row.rule == "cmp" then dtype = "bool"
    elseif row.rule == "where" then dtype = n.inputs[2].dtype
    elseif row.rule == "none" then dtype = n.dtype end -- casts
    return dtype, broadcast(shapes)
  end

  function infer.view(_, n) return n.inputs[1].dtype, n.shape end

  function infer.reduce(row, n)
    local a = n.inputs[1]
    if n.dims == nil then
      n.dims = {}
      for d = 1, #a.shape do n.dims[d] = d end
    elseif type(n.dims) == "number" then
      n.dims = { n.dims }
    end
    local dtype = row.rule == "index" and "i64" or row.rule == "sum" and not floats[a.dtype] and "i64" or a.dtype
    return dtype, type(n.dims) == "table" and without(a.shape, n.dims) or {}
  end

  function infer.scan(row, n)
    local a = n.inputs[1]
    return row.rule == "sum" and not floats[a.dtype] and "i64" or a.dtype, copy(a.shape)
  end

  function infer.dot(_, n)
    local a, b = n.inputs[1], n.inputs[2]
    n.by = n.by or "exact"
    local ra, rb = #a.shape, #b.shape
    local shape = broadcast { without(a.shape, { ra - 1, ra }), without(b.shape, { rb - 1, rb }) }
    shape[#shape + 1], shape[#shape + 2] = a.shape[ra - 1], b.shape[rb]
    return a.dtype, shape
  end

  function infer.move(row, n)
    local a, b = n.inputs[1], n.inputs[2]
    if n.op == "gather" then return a.dtype, copy(b.shape) end
    if n.op:find("^attend") then
      local q, v = a.shape, n.inputs[3].shape
      local rows = M.numel(q) / math.max(q[#q], 1)
      local all = n.op == "attend" and rows * (v[#v] + 2) or M.numel(q) + M.numel(b.shape) + M.numel(v)
      n.causal, n.dropout = n.causal or false, n.dropout or 0
      return a.dtype == "f64" and "f64" or "f32", { all }
    end
    if n.op == "searchsorted" then
      n.right = n.right or false
      return "i64", copy(b.shape)
    end
    if n.op == "fft" then
      local shape, rank, kind = copy(a.shape), #a.shape, (n.kind or "forward"):match "^[^/]*"
      n.kind, n.dim = n.kind or kind, n.dim or rank - (kind == "real" and 0 or 1)
      if kind == "real" or kind == "half_back" then
        shape[n.dim], shape[rank + 1] = (shape[n.dim] - shape[n.dim] % 2) / 2 + 1, 2
      elseif kind == "half" or kind == "real_back" then
        shape[n.dim], shape[rank] = 2 * ((shape[n.dim] or 1) - 1), nil
      end
      return a.dtype, shape
    end
    if n.op == "positions" then n.base, n.site = n.base or 1, n.site or 0 end
    if n.op == "argsort" then
      n.dim, n.descending = n.dim or #a.shape, n.descending or false
    elseif n.op == "put" then
      n.offset = n.offset or 0
      n.strides = n.strides or #b.shape == #a.shape and M.row_major(a.shape) or nil
    end
    return row.rule == "index" and "i64" or a.dtype, copy(a.shape)
  end

  function infer.leaf(_, n)
    local dtype = n.op == "iota" and "i64" or n.op == "random" and "i32" or n.dtype
    return dtype, n.shape or {}
  end

  --- Gives a new node the type that follows from its operands and arguments, and defaults to arguments.
  function M.infer(n)
    local row = M.row[n.op]
    if row.class == "view" and type(n.shape) == "table" then
      n.offset = n.offset or 0
      n.strides = n.strides or M.row_major(n.shape)
    end
    local dtype, shape = infer[row.class](row, n)
    n.dtype, n.shape = n.dtype or dtype, n.shape or shape
  end

  return M
end
