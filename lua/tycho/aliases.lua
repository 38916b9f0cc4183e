--- aliases.lua -- other names of functions, as PyTorch and NumPy call them: arguments, texts and checks are the
-- function's.

--- {name, the function's}; inplace: there is a form with a trailing _, too.
local rows = {
  { "concat", "cat" }, { "concatenate", "cat" }, { "clip", "clamp", inplace = true }, { "amax", "max" },
  { "amin", "min" }, { "tolist", "totable" }, { "broadcast_to", "expand" }, { "absolute", "abs", inplace = true },
  { "negative", "neg", inplace = true }, { "subtract", "sub", inplace = true },
  { "multiply", "mul", inplace = true }, { "divide", "div", inplace = true },
  { "true_divide", "div", inplace = true }, { "greater", "gt" }, { "greater_equal", "ge" }, { "less", "lt" },
  { "less_equal", "le" }, { "not_equal", "ne" }, { "swapaxes", "transpose" }, { "swapdims", "transpose" },
  { "swapaxes_", "transpose_" }, { "swapdims_", "transpose_" },
  { "moveaxis", "movedim" }, { "arcsin", "asin", inplace = true }, { "arccos", "acos", inplace = true },
  { "arctan", "atan", inplace = true }, { "arctan2", "atan2", inplace = true },
  { "arcsinh", "asinh", inplace = true }, { "arccosh", "acosh", inplace = true },
  { "arctanh", "atanh", inplace = true }, { "fix", "trunc", inplace = true }, { "argwhere", "nonzero" },
  { "row_stack", "vstack" }, { "ger", "outer" }, { "ravel", "flatten" },
  { "binary_cross_entropy_with_logits", "bce_with_logits" },
  { "bitwise_left_shift", "lshift" }, { "bitwise_right_shift", "rshift" }, { "sgn", "sign" }, { "mod", "remainder" },
  { "power", "pow" }, { "around", "round" }, { "rint", "round" }, { "invert", "bitwise_not" }, { "gammaln", "lgamma" },
  { "psi", "digamma" }, { "expit", "sigmoid" }, { "copy", "clone" }, { "nelement", "numel" }, { "array", "tensor" },
  { "as_tensor", "tensor" }, { "split_with_sizes", "split" }, { "permute_dims", "permute" }, { "degrees", "rad2deg" },
  { "radians", "deg2rad" }, { "expand_dims", "unsqueeze" }, { "take_along_axis", "take_along_dim" },
  { "clamp_min", "maximum" }, { "clamp_max", "minimum" }, { "trapz", "trapezoid" },
  { "conjugate", "conj" }, { "conj_physical", "conj", inplace = true },
}

---@param alias fun(name: string, of: string, only: string?, inplace: boolean?) see functions.lua
return function(alias)
  for _, r in ipairs(rows) do alias(r[1], r[2], nil, r.inplace) end
end
