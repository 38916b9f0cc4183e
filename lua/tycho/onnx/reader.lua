--- reader.lua -- ONNX files decoded: the model's tables, and the tensors that lie in the file or beside it.
-- In: a path, or bytes. Out: tables as schema.lua names their fields; tensors. nil and a message for what is damaged or
-- hostile; a tensor whose elements are no numbers of ours is named.

local schema = require "tycho.onnx.schema"
local values = require "tycho.onnx.values"

local ty = require "tycho"

local format, concat = string.format, table.concat
local ipairs = ipairs

return function(C)
  local M = {}

  --- A reader of one file: what it decodes, and where its tensors lie.
  function M.open(path, text)
    local message, why = C.message(path, text)
    if not message then return nil, why end
    return { message = message, path = path, beside = {}, dir = path and path:match "^(.*[/\\])" or "" }
  end

  function M.decode(file, kind) return C.decode(file.message, schema[kind]) end

  --- The file that a tensor's elements lie in, and where: {location, offset, length} of a file beside the model's.
  local function external(file, t)
    local about = {}
    for _, e in ipairs(t.external_data or {}) do
      if e.key then about[e.key] = e.value end
    end
    local name = about.location
    if not name then return nil, "its elements lie elsewhere, no file is named" end
    if name:find("^[/\\]") or name:find("%.%.") or name:find("[%z:]") then
      return nil, format("its elements lie in %q, which is not within the model's folder", name)
    end
    local other = file.beside[name]
    if not other then
      local why
      other, why = C.message(file.dir .. name)
      if not other then return nil, why end
      file.beside[name] = other
    end
    local at = tonumber(about.offset or 0) or -1
    return other, { at = at, bytes = tonumber(about.length) or C.message_size(other) - at }
  end

  local empty = { at = 0, bytes = 0 }

  --- A tensor; nil and what is wrong with it.
  function M.tensor(file, t)
    local number = t.data_type or 0
    local kind = schema.types[number]
    local shape = t.dims or {}
    if not kind then
      local name = schema.type_names[number] or tostring(number)
      if name == "string" and t.string_data then return nil, "its elements are strings" end
      return nil, format("its elements are of the type %s, which is not supported", name)
    end
    if t.data_location == 1 then
      local other, span = external(file, t)
      if not other then return nil, span end
      return C.elements(other, shape, kind[2], span.at, span.bytes)
    end
    if t.raw_data then return C.elements(file.message, shape, kind[2], t.raw_data.at, t.raw_data.bytes) end
    local written = kind[2]
    if written == "f32" then
      local span = t.float_data or empty
      return C.elements(file.message, shape, written, span.at, span.bytes)
    elseif written == "f64" then
      local span = t.double_data or empty
      return C.elements(file.message, shape, written, span.at, span.bytes)
    end
    local span = (written == "i64" and t.int64_data) or (written == "u32" or written == "u64") and t.uint64_data
      or t.int32_data or empty
    return C.elements(file.message, shape, written, span.at, span.bytes, true)
  end

  --- A tensor that is given by the elements that are not 0, and where they stand.
  function M.sparse(file, t)
    local elements, why = M.tensor(file, t.values or {})
    if not elements then return nil, why end
    local places
    places, why = M.tensor(file, t.indices or {})
    if not places then return nil, why end
    local sizes, n = t.dims or {}, 1
    for _, d in ipairs(sizes) do n = n * d end
    local at = places
    if places.ndim == 2 then
      at = ty.zeros({ places:size(1) }, { dtype = "i64", device = places.device })
      for d, size in ipairs(sizes) do at = at * size + places[{ {}, d }] end
    end
    for _, p in ipairs(values.numbers(at)) do
      if p < 0 or p >= n then return nil, "a place of it is out of range" end
    end
    local y = ty.zeros({ n }, { dtype = elements.dtype, device = elements.device })
    return y:scatter(1, at + 1, elements):reshape(sizes)
  end

  --- What a type says, for people: "float[batch, 3]".
  function M.type_text(t)
    local tensor = t and t.tensor
    if not tensor then return t and t.sequence and "a sequence" or t and t.optional and "an optional" or "any" end
    local sizes = {}
    for i, d in ipairs(tensor.shape and tensor.shape.dims or {}) do
      sizes[i] = d.param and d.param ~= "" and d.param or d.value and format("%d", d.value) or "?"
    end
    local name = schema.type_names[tensor.elem_type or 0] or "any"
    return tensor.shape and format("%s[%s]", name, concat(sizes, ", ")) or name
  end

  return M
end
