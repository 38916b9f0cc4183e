--- graph_source.lua -- a graph said in public functions: as Lua source, and run node by node.
-- In: a graph whose lint is clean. Out: a text that gives a function when it is loaded; or the outputs for given
-- inputs. The bits of both are those of the graph. Fails where an input is not of the node's type.
--
-- There is one description of every operation here, an expression in Lua over the names of its operands; the source is
-- those expressions behind one another, a run evaluates them one by one. What public functions do not offer as such:
--   views    are taken apart into a range of each dim, an order of dims, and repeats. First the operand's own sizes are
--            tried, then sizes that the strides suggest; views that are neither (windows, diagonals) take elements by
--            their computed positions.
--   put      writes through such a view of a copy, or scatters to computed positions
--   random   is Philox4x32-10 in integers of 64 bits
--   attend*, fft  are functions for sources alone
--   products say by which code they run where a setting could change that
-- Positions are 0-based in graphs and 1-based in Lua, hence the ones that are added and subtracted.

---@param ty table the core module
---@param ops table what graph_ops.lua gives
return function(ty, ops)
  local M = {}

  local internals = ty.internals
  local fail, value_of = internals.error, internals.graph_value
  local graph_views = require("tycho.graph_views")(ops)
  local concat = table.concat

  -- Literals -------------------------------------------------------------------------------------------------------

  local function sizes_text(list) return "{" .. ops.list_text(list):gsub(",", ", ") .. "}" end

  local function number_text(v)
    if v ~= v then return "0 / 0" end
    if v == math.huge then return "math.huge" end
    if v == -math.huge then return "-math.huge" end
    if v == 0 then return 1 / v < 0 and "-0.0" or "0" end
    if v % 1 == 0 and math.abs(v) < 1e15 then return ("%.0f"):format(v) end
    for digits = 6, 17 do
      local text = ("%." .. digits .. "g"):format(v):gsub(",", ".")
      if tonumber(text) == v then return text end
    end
  end

  M.number_text = number_text

  --- Where the node lies, nil where that need not be said: on the CPU, which is the default.
  local function named_device(n) return n.device or ty.device() ~= "cpu" and "cpu" or nil end

  --- The options with which a leaf is made where the node lies.
  local function options(n, dtype)
    local device = named_device(n)
    return ("{dtype = %q%s}"):format(dtype, device and (", device = %q"):format(device) or "")
  end

  --- What moves there a tensor that the source makes without a device.
  local function there(n)
    local device = named_device(n)
    return device and (":to(%q)"):format(device) or ""
  end

  local function fill(n, shape, value, dtype)
    return ("ty.full(%s, %s, %s)"):format(sizes_text(shape), value, options(n, dtype))
  end

  local carriers = { f16 = "i16", bf16 = "i16", f32 = "i32", f64 = "i64" }

  -- An element that no number gives back, from the two halves of its bits.
  local function const_text(n)
    if not n.bits then return fill(n, n.shape, number_text(n.value), n.dtype) end
    local digits = n.bits:sub(3)
    digits = ("0"):rep(16 - #digits) .. digits
    local high, low = tonumber(digits:sub(1, 8), 16), tonumber(digits:sub(9), 16)
    if high >= 2 ^ 31 then high = high - 2 ^ 32 end
    local whole = fill(n, n.shape, number_text(high), "i64") .. (":mul(4294967296):add(%s)"):format(number_text(low))
    local carrier = carriers[n.dtype]
    if not carrier then return whole end
    return ("%s:to(%q):view_as(%q)"):format(whole, carrier, n.dtype)
  end

  -- Views -----------------------------------------------------------------------------------------------------------

  local function index_text(sizes, shape, strides, place, taken, own)
    local parts, all = {}, true
    for d = 1, #sizes do
      local v, first = taken[d], place[d] + 1
      if not v then
        if sizes[d] == 1 then parts[d] = "1" else parts[d] = number_text(first) end
        all = false
      else
        local step = strides[v] / own[d]
        local last = first + step * (shape[v] - 1)
        local whole = first == 1 and step == 1 and last == sizes[d]
        parts[d] = whole and "{}" or ("{ %.0f, %.0f%s }"):format(first, last, step == 1 and ""
          or (", %.0f"):format(step))
        all = all and whole
      end
    end
    return all and "" or "[{ " .. concat(parts, ", ") .. " }]"
  end

  local function order_text(sizes, taken)
    local place_of, order, sorted, at = {}, {}, true, 0
    for d = 1, #sizes do
      if taken[d] then
        at = at + 1
        place_of[taken[d]] = at
      end
    end
    local views = {}
    for v in pairs(place_of) do views[#views + 1] = v end
    table.sort(views)
    for i, v in ipairs(views) do
      order[i] = place_of[v]
      sorted = sorted and order[i] == i
    end
    return sorted and "" or (":permute(%s)"):format(sizes_text(order)), place_of
  end

  local function same(a, b)
    if #a ~= #b then return false end
    for i = 1, #a do
      if a[i] ~= b[i] then return false end
    end
    return true
  end

  -- What follows the operand's name to give the view of it; nil where only positions do.
  local function view_text(from, n, shape)
    local v = graph_views.ranges(from, shape, n.strides, n.offset)
    if not v then return nil end
    if v.whole then return same(from, shape) and "" or (":reshape(%s)"):format(sizes_text(shape)) end
    if v.run then
      return (":flatten():narrow(1, %.0f, %.0f):reshape(%s)"):format(n.offset + 1, ops.numel(shape), sizes_text(shape))
    end
    local sizes, place, taken, steps = v.sizes, v.place, v.taken, v.own
    local start = sizes == from and "" or (":reshape(%s)"):format(sizes_text(sizes))
    local order, place_of = order_text(sizes, taken)
    local words, repeats = { start, index_text(sizes, shape, n.strides, place, taken, steps), order }, false
    for d = 1, #shape do
      if not place_of[d] then
        words[#words + 1] = (":unsqueeze(%d)"):format(d)
        repeats = repeats or shape[d] > 1
      end
    end
    if repeats then words[#words + 1] = (":expand(%s)"):format(sizes_text(shape)) end
    return concat(words)
  end

  local function positions_text(shape, n)
    return ("positions(%s, %s, %s)"):format(sizes_text(shape), number_text(n.offset), sizes_text(n.strides))
      .. there(n)
  end

  -- Expressions ------------------------------------------------------------------------------------------------------

  -- Products of fewer multiplications than this are ours under every setting.
  local SMALL_PRODUCT = 32 * 32 * 32

  local function product_text(n, a, b)
    local work = ops.numel(n.shape) * n.inputs[1].shape[#n.inputs[1].shape]
    local open = (n.dtype == "f32" or n.dtype == "f64" or n.dtype == "bf16") and work >= SMALL_PRODUCT
    if n.by == "exact" and not open then return ("%s:matmul(%s)"):format(a, b) end
    return ("product(%s, %s, %q)"):format(a, b, n.by)
  end

  local infix = { add = "+", sub = "-", mul = "*", div = "/" }

  local say = {} -- by operation or class: (node, names of operands) -> expression

  function say.const(n) return const_text(n) end

  function say.iota(n)
    local text = ("ty.arange(%s, %s)"):format(number_text(ops.numel(n.shape)), options(n, "i64"))
    return #n.shape == 1 and text or ("%s:reshape(%s)"):format(text, sizes_text(n.shape))
  end

  function say.empty(n) return ("ty.empty(%s, %s)"):format(sizes_text(n.shape), options(n, n.dtype)) end

  function say.map(n, a, b, c)
    if infix[n.op] then return ("%s %s %s"):format(a, infix[n.op], b) end
    local name = ops.row[n.op].lua
    if c then return ("ty.%s(%s, %s, %s)"):format(name, a, b, c) end
    return b and ("%s:%s(%s)"):format(a, name, b) or ("%s:%s()"):format(a, name)
  end

  function say.neg(_, a) return "-" .. a end

  function say.cast(n, a) return ("%s:to(%q)"):format(a, n.dtype) end

  function say.bitcast(n, a) return ("%s:view_as(%q)"):format(a, n.dtype) end

  function say.view(n, a)
    if ops.numel(n.shape) == 0 then return fill(n, n.shape, 0, n.dtype) end
    local text = view_text(n.inputs[1].shape, n, n.shape)
    return text and a .. text or ("%s:take(%s:add(1))"):format(a, positions_text(n.shape, n))
  end

  function say.reduce(n, a)
    local name, first, count = ops.row[n.op].lua, n.dims[1], #n.dims
    local at = count == 1 and tostring(first) or sizes_text(n.dims)
    if ops.row[n.op].rule ~= "index" then return ("%s:%s(%s)"):format(a, name, at) end
    local flat = count == 1 and a or ("%s:flatten(%d, %d)"):format(a, first, n.dims[count])
    return ("%s:%s(%d) - 1"):format(flat, name, first)
  end

  function say.scan(n, a) return ("%s:%s(%d)"):format(a, ops.row[n.op].lua, n.dim) end

  say.matmul = product_text

  function say.put(n, a, b)
    local whole, part = n.inputs[1].shape, n.inputs[2].shape
    if ops.numel(part) == 0 then return a .. ":clone()" end
    local text = view_text(whole, n, part)
    if text then return ("put(%s, %s, function(y) return y%s end)"):format(a, b, text) end
    return ("%s:flatten():scatter(1, %s:flatten():add(1), %s:flatten()):reshape(%s)"):format(a,
      positions_text(part, n), b, sizes_text(whole))
  end

  function say.gather(n, a, index) return ("%s:gather(%d, %s + 1)"):format(a, n.dim, index) end

  function say.scatter(n, a, index, src)
    return ("%s:%s(%d, %s + 1, %s)"):format(a, n.op, n.dim, index, src)
  end

  say.scatter_add = say.scatter

  function say.argsort(n, a)
    local keep = n.shape[n.dim]
    if keep ~= n.inputs[1].shape[n.dim] then
      return ("select(2, %s:topk(%d, %d, %s)) - 1"):format(a, keep, n.dim, tostring(n.descending))
    end
    return ("%s:argsort(%d%s) - 1"):format(a, n.dim, n.descending and ", true" or "")
  end

  function say.searchsorted(n, a, b)
    return ("%s:searchsorted(%s%s) - 1"):format(a, b, n.right and ", true" or "")
  end

  --- Those that count from 0 are counted from 1; gather raises for what names no place.
  function say.positions(n, a)
    if n.base == 0 then a = ("ty.where(%s:lt(0), %s, %s + 1)"):format(a, a, a) end
    return ("ty.arange(%s, %s):gather(1, %s:flatten()):reshape(%s)"):format(number_text(n.places), options(n, "i64"), a,
      sizes_text(n.shape))
  end

  function say.attend(n, ...)
    local how = n.fast and tostring(n.causal and 3 or 2) or tostring(n.causal)
    return ("ty.internals.attend_node(%.0f, %s, %.0f, %s, %s)"):format(n.shape[1], how, n.dropout,
      number_text(n.value), concat({ ... }, ", ", 1, #n.inputs))
  end

  say.attend_grad = say.attend

  function say.fft(n, a)
    local number = ops.transforms[n.kind]
    return ("ty.internals.fft(\"fft\", %s, %d, %d, %d, %.0f)"):format(a, n.dim, number % 8, math.floor(number / 8) % 4,
      n.shape[n.dim])
  end

  function say.to(n, a) return ("%s:to(%q)"):format(a, n.device or "cpu") end

  --- The node's value as an expression; scalars: the name of the value of a slot.
  local function expression(n, names, slot_name)
    if n.op == "scalar" then return fill(n, {}, slot_name(n.slot) .. (n.dtype == "bool" and " ~= 0" or ""), n.dtype) end
    if n.op == "random" then
      return ("random(%s, %s, %s, %d)"):format(sizes_text(n.shape), slot_name(n.slot), slot_name(n.slot + 1), n.word)
        .. there(n)
    end
    return (say[n.op] or say[ops.row[n.op].class])(n, unpack(names))
  end

  -- What the expressions call beside public functions, as source.
  local helpers = {
    { "put", [[
-- a with what the view of it shows replaced by b
local function put(a, b, view)
  local y = a:clone()
  view(y):copy_(b)
  return y
end
]] },
    { "positions", [[
-- for every element of a view its place, from 0, in the tensor that it shows
local function positions(sizes, offset, strides)
  local y = ty.full(sizes, offset, {dtype = "i64"})
  for d = 1, #sizes do
    if sizes[d] > 1 and strides[d] ~= 0 then
      local along = {}
      for i = 1, #sizes do along[i] = i == d and sizes[d] or 1 end
      y = y + ty.arange(sizes[d], {dtype = "i64"}):mul(strides[d]):reshape(along)
    end
  end
  return y
end
]] },
    { "product", [[
-- a matrix product by the code named, whatever the settings
local function product(a, b, by)
  local blas, precision = ty.blas(), ty.precision()
  ty.blas(by == "blas")
  ty.precision((by == "amx" and "fast") or (by:find "^library" and "tf32") or "exact")
  local ok, y = pcall(ty.matmul, a, b)
  ty.blas(blas)
  ty.precision(precision)
  if not ok then error(y, 0) end
  return y
end
]] },
    { "random", [[
-- 32 random bits an element: word 0 to 3 of Philox4x32-10 with counter (element, stream) and key seed
local function random(sizes, stream, seed, word)
  local low = 2 ^ 32 - 1
  local function halves(v) return v % 2 ^ 32, math.floor(v / 2 ^ 32) % 2 ^ 32 end
  local n = 1
  for d = 1, #sizes do n = n * sizes[d] end
  local s0, s1 = halves(stream)
  local k0, k1 = halves(seed)
  local at = ty.arange(n, {dtype = "i64"})
  local a, b = at:bitwise_and(low), at:rshift(32)
  local c, d = ty.full({n}, s0, {dtype = "i64"}), ty.full({n}, s1, {dtype = "i64"})
  for _ = 1, 10 do
    local p, q = a:mul(0xd2511f53), c:mul(0xcd9e8d57)
    a = q:rshift(32):bitwise_and(low):bitwise_xor(b):bitwise_xor(k0)
    c = p:rshift(32):bitwise_and(low):bitwise_xor(d):bitwise_xor(k1)
    b, d = q:bitwise_and(low), p:bitwise_and(low)
    k0, k1 = (k0 + 0x9e3779b9) % 2 ^ 32, (k1 + 0xbb67ae85) % 2 ^ 32
  end
  local words = { [0] = a, b, c, d }
  return words[word]:to("i32"):reshape(sizes)
end
]] },
  }

  -- Outputs own their memory: what may show that of another tensor is copied.
  local shows = { input = true, view = true, cast = true }

  local function is_shared(n, before)
    return shows[n.op] or before[n] or false
  end

  -- Source ----------------------------------------------------------------------------------------------------------

  local LOCALS = 150 -- more names than this live in a table: a function has at most 200

  --- Names for the nodes that Lua can say, each once.
  local function spell(nodes, reserved)
    local names, taken = {}, { ty = true, v = true, put = true, positions = true, product = true, random = true }
    for word in reserved:gmatch("%S+") do taken[word] = true end
    for _, n in ipairs(nodes) do
      local base = type(n.name) == "string" and n.name:gsub("[^%w_]", "_") or "v"
      if not base:find("^[%a_]") then base = "v" .. base end
      local name, k = base, 1
      while taken[name] do
        k = k + 1
        name = base .. "_" .. k
      end
      taken[name], names[n] = true, name
    end
    return names
  end

  local keywords = "and break do else elseif end false for function goto if in local nil not or repeat return then "
    .. "true until while math unpack error pcall given"

  local function comment(n) return ("%s"):format(ops.type_text(n.dtype, n.shape)) end

  --- Lua source of the graph; nodes: in order. slots: {number that was recorded, ...}.
  function M.source(nodes, inputs, outputs, slots)
    local slot_names = {}
    for k = 1, #slots do slot_names[k] = "s" .. k end
    local names = spell(nodes, keywords .. " " .. concat(slot_names, " "))
    local many = #nodes + #slots > LOCALS
    local function name_of(n) return (many and "v." or "") .. names[n] end
    local function slot_name(k) return (many and "v." or "") .. slot_names[k] end

    local body, params, is_input = {}, {}, {}
    for i, n in ipairs(inputs) do
      params[i], is_input[n] = names[n], true
    end
    for k = 1, #slots do params[#params + 1] = slot_names[k] end
    if many then
      body[1] = "  local v, given = {}, { ... }"
      for i, name in ipairs(params) do body[#body + 1] = ("  v.%s = given[%d]"):format(name, i) end
    end
    for k, value in ipairs(slots) do
      local name = slot_name(k)
      body[#body + 1] = ("  if %s == nil then %s = %s end"):format(name, name, number_text(value))
    end
    for _, n in ipairs(nodes) do
      if not is_input[n] then
        local operands = {}
        for i, a in ipairs(n.inputs) do operands[i] = name_of(a) end
        body[#body + 1] = ("  %s%s = %s -- %s"):format(many and "" or "local ", name_of(n),
          expression(n, operands, slot_name), comment(n))
      end
    end
    local results, before = {}, {}
    for i, n in ipairs(outputs) do
      results[i] = name_of(n) .. (is_shared(n, before) and ":clone()" or "")
      before[n] = true
    end
    body[#body + 1] = #outputs <= 100 and "  return " .. concat(results, ", ")
      or ("  return unpack({ %s })"):format(concat(results, ", "))

    local text, out = concat(body, "\n"), { "local ty = require \"tycho\"\n" }
    for _, helper in ipairs(helpers) do
      if text:find("%f[%w_]" .. helper[1] .. "%(") then out[#out + 1] = helper[2] end
    end
    for _, n in ipairs(inputs) do out[#out + 1] = ("-- %s: %s"):format(names[n], comment(n)) end
    out[#out + 1] = ("return function(%s)"):format(many and "..." or concat(params, ", "))
    out[#out + 1] = text
    out[#out + 1] = "end\n"
    return concat(out, "\n")
  end

  -- Running ---------------------------------------------------------------------------------------------------------

  local chunk_head
  local function head()
    if chunk_head then return chunk_head end
    local words = { "local ty = ...\n" }
    for _, helper in ipairs(helpers) do words[#words + 1] = helper[2] end
    chunk_head = concat(words)
    return chunk_head
  end

  local compiled, ncompiled = {}, 0 -- by expression
  local COMPILED_MAX = 2000

  local function evaluator(text)
    local fn = compiled[text]
    if fn then return fn end
    if ncompiled >= COMPILED_MAX then compiled, ncompiled = {}, 0 end
    local source = ("%sreturn function(s, a, b, c, d, e, f, g) return %s end"):format(head(), text)
    local chunk = assert(loadstring(source, "=(tycho)"))
    fn = chunk(ty)
    compiled[text], ncompiled = fn, ncompiled + 1
    return fn
  end

  local operand_names = { "a", "b", "c", "d", "e", "f", "g" }
  local function slot_in_run(k) return ("s[%d]"):format(k) end

  --- Steps of a run: {node, evaluator, operands}, in order, and for each the nodes that nobody needs behind it.
  local function steps_of(nodes, outputs)
    local steps, last = {}, {}
    for i, n in ipairs(nodes) do
      for _, a in ipairs(n.inputs) do last[a] = i end
      if n.op ~= "input" then
        steps[#steps + 1] = { node = n, fn = evaluator(expression(n, operand_names, slot_in_run)), at = i }
      end
    end
    for _, n in ipairs(outputs) do last[n] = nil end
    local dead = {}
    for n, i in pairs(last) do
      dead[i] = dead[i] or {}
      table.insert(dead[i], n)
    end
    return steps, dead
  end

  --- Outputs of the graph as a list. values: tensors by node for the inputs; slots: numbers.
  function M.run(nodes, outputs, values, slots)
    local steps, dead = steps_of(nodes, outputs)
    for _, step in ipairs(steps) do
      local list, n, given = step.node.inputs, step.node, {}
      for i = 1, #list do given[i] = values[list[i]] end
      values[n] = step.fn(slots, unpack(given))
      for _, gone in ipairs(dead[step.at] or {}) do values[gone] = nil end
    end
    local results, before = {}, {}
    for i, n in ipairs(outputs) do
      local y = values[n]
      results[i] = is_shared(n, before) and y:clone() or y
      before[n] = true
    end
    return results
  end

  --- The number in a slot from its bits; nodes: those that read slots. Slots that nobody reads hold 0.
  function M.slot_values(nodes, bits)
    local values = {}
    for k = 1, #bits do values[k] = 0 end
    for _, n in ipairs(nodes) do
      if n.op == "scalar" then values[n.slot] = value_of(n.dtype, bits[n.slot], true) end
      if n.op == "random" then
        values[n.slot], values[n.slot + 1] = value_of("i64", bits[n.slot]), value_of("i64", bits[n.slot + 1])
      end
    end
    return values
  end

  --- Whether a tensor can be given for an input.
  function M.check_input(who, i, n, x)
    if not internals.is_live(x) then
      fail(("%s: argument %d must be a tensor %s, got %s"):format(who, i, ops.type_text(n.dtype, n.shape),
        ty.is_tensor(x) and "a released tensor" or type(x)))
    end
    if x.dtype ~= n.dtype or not same(x.shape, n.shape) then
      fail(("%s: argument %d must be a tensor %s, got %s"):format(who, i, ops.type_text(n.dtype, n.shape),
        ops.type_text(x.dtype, x.shape)))
    end
  end

  return M
end
