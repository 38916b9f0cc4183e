--- schema.lua -- the messages of an ONNX file, for the decoder of files.so: fields that are read, by their numbers.
-- Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
-- A row is {name, kind, schema of the message or nil, whether it is repeated}; what has no row is passed over.

local M = {}

local pair = { { "key", "string" }, { "value", "string" } }

local tensor = {
  { "dims", "int", nil, true }, { "data_type", "int" }, [4] = { "float_data", "span" }, [5] = { "int32_data", "span" },
  [6] = { "string_data", "string", nil, true }, [7] = { "int64_data", "span" }, [8] = { "name", "string" },
  [9] = { "raw_data", "span" }, [10] = { "double_data", "span" }, [11] = { "uint64_data", "span" },
  [13] = { "external_data", "message", pair, true }, [14] = { "data_location", "int" },
}

local sparse = { { "values", "message", tensor }, { "indices", "message", tensor }, { "dims", "int", nil, true } }

local dimension = { { "value", "int" }, { "param", "string" } }
local shape = { { "dims", "message", dimension, true } }
local tensor_type = { { "elem_type", "int" }, { "shape", "message", shape } }
local type_of_value = { { "tensor", "message", tensor_type } }
local element = { { "elem", "message", type_of_value } }
type_of_value[4] = { "sequence", "message", element }
type_of_value[9] = { "optional", "message", element }
local value = { { "name", "string" }, { "type", "message", type_of_value } }

local attribute, node, graph = {}, {}, {}

local function fill(schema, rows)
  for field, row in pairs(rows) do schema[field] = row end
end

fill(attribute, {
  { "name", "string" }, { "f", "float" }, { "i", "int" }, { "s", "string" }, { "t", "message", tensor },
  { "g", "message", graph }, { "floats", "float", nil, true }, { "ints", "int", nil, true },
  { "strings", "string", nil, true }, { "tensors", "message", tensor, true }, { "graphs", "message", graph, true },
  [14] = { "tp", "message", type_of_value }, [20] = { "type", "int" }, [21] = { "ref_attr_name", "string" },
  [22] = { "sparse_tensor", "message", sparse },
})

fill(node, {
  { "input", "string", nil, true }, { "output", "string", nil, true }, { "name", "string" }, { "op_type", "string" },
  { "attribute", "message", attribute, true }, [7] = { "domain", "string" }, [8] = { "overload", "string" },
})

fill(graph, {
  { "node", "message", node, true }, { "name", "string" }, [5] = { "initializer", "message", tensor, true },
  [11] = { "input", "message", value, true }, [12] = { "output", "message", value, true },
  [15] = { "sparse_initializer", "message", sparse, true },
})

local opset = { { "domain", "string" }, { "version", "int" } }

local fn = {
  { "name", "string" }, [4] = { "input", "string", nil, true }, [5] = { "output", "string", nil, true },
  [6] = { "attribute", "string", nil, true }, [7] = { "node", "message", node, true },
  [9] = { "opset_import", "message", opset, true }, [10] = { "domain", "string" },
  [11] = { "attribute_proto", "message", attribute, true }, [13] = { "overload", "string" },
}

M.tensor = tensor
M.sequence = {
  { "name", "string" }, { "elem_type", "int" }, { "tensors", "message", tensor, true },
}
M.model = {
  { "ir_version", "int" }, { "producer_name", "string" }, [7] = { "graph", "message", graph },
  [8] = { "opset_import", "message", opset, true }, [14] = { "metadata_props", "message", pair, true },
  [25] = { "functions", "message", fn, true },
}

--- The element types by number: ours, and as they are written.
M.types = {
  { "f32", "f32" }, { "u8", "u8" }, { "i8", "i8" }, { "u16", "u16" }, { "i16", "i16" }, { "i32", "i32" },
  { "i64", "i64" }, nil, { "bool", "bool" }, { "f16", "f16" }, { "f64", "f64" }, { "u32", "u32" }, { "u64", "u64" },
  nil, nil,
  { "bf16", "bf16" },
}
M.type_names = {
  "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32",
  "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
  "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2",
}

return M
