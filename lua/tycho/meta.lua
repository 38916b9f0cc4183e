---@meta tycho
-- luacheck: ignore
-- Made by `make meta` from the texts of ty.help: not to be edited. Language servers read it, nothing runs it.

---@alias tycho.dtype "bool"|"u8"|"i8"|"i16"|"i32"|"i64"|"f16"|"bf16"|"f32"|"f64"|"u16"|"u32"|"u64"|"c64"|"c128"

---a tensor; its functions are also methods
---@class tycho.Tensor
---@field shape integer[] a fresh table of sizes
---@field dtype string
---@field device string
---@field ndim integer
---@field requires_grad boolean
---@field grad tycho.Tensor?
---@field is_leaf boolean
---@field nbytes integer bytes of all elements
---@field T tycho.Tensor a view with all dims in reverse
---@field mT tycho.Tensor a view with the last two dims exchanged
---@field [integer] tycho.Tensor
---@operator add(tycho.Tensor|number): tycho.Tensor
---@operator sub(tycho.Tensor|number): tycho.Tensor
---@operator mul(tycho.Tensor|number): tycho.Tensor
---@operator div(tycho.Tensor|number): tycho.Tensor
---@operator mod(tycho.Tensor|number): tycho.Tensor
---@operator pow(tycho.Tensor|number): tycho.Tensor
---@operator unm: tycho.Tensor
---@operator len: integer
local Tensor = {}

---the magnitude, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:abs() end

---the magnitude, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:abs_() end

---the same as abs: the magnitude, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:absolute() end

---the same as abs: the magnitude, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:absolute_() end

---the angle in radians whose cosine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:acos() end

---the angle in radians whose cosine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:acos_() end

---the inverse hyperbolic cosine; NaN below 1
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:acosh() end

---the inverse hyperbolic cosine; NaN below 1; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:acosh_() end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or the size is not above 0.
---@param size integer
---@return tycho.Tensor # [batch, channels, size]
function Tensor:adaptive_avg_pool1d(size) end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, rows, columns]
function Tensor:adaptive_avg_pool2d(size) end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, planes, rows, columns]
function Tensor:adaptive_avg_pool3d(size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or the size is not above 0.
---@param size integer
---@return tycho.Tensor # [batch, channels, size]
function Tensor:adaptive_max_pool1d(size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, rows, columns]
function Tensor:adaptive_max_pool2d(size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, planes, rows, columns]
function Tensor:adaptive_max_pool3d(size) end

---sum, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:add(b) end

---sum, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:add_(b) end

---x + value * a / b, element by element.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # the broadcast shape
function Tensor:addcdiv(a, b, opts) end

---x + value * a / b; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:addcdiv_(a, b, opts) end

---x + value * a * b, element by element.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # the broadcast shape
function Tensor:addcmul(a, b, opts) end

---x + value * a * b; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:addcmul_(a, b, opts) end

---beta * c + alpha * (a x b).
---Shape of the result: [n, m]
---Raises where inner sizes differ, or c does not broadcast to the product.
---@param a tycho.Tensor # [n, k]
---@param b tycho.Tensor # [k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n, m]
function Tensor:addmm(a, b, opts) end

---beta * c + alpha * (a x b); written to the first argument
---Shape of the result: [n, m]
---Raises where inner sizes differ, or c does not broadcast to the product; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor # [n, k]
---@param b tycho.Tensor # [k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:addmm_(a, b, opts) end

---beta * c + alpha * (a x v).
---Shape of the result: [n]
---Raises where inner sizes differ, or c does not broadcast to the product.
---@param a tycho.Tensor # [n, k]
---@param v tycho.Tensor # [k]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n]
function Tensor:addmv(a, v, opts) end

---beta * c + alpha * (all products of an element of a with one of b).
---Shape of the result: [n, m]
---Raises where a or b is no vector, or c does not broadcast to the products.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n, m]
function Tensor:addr(a, b, opts) end

---beta * c + alpha * (a outer b); written to the first argument
---Shape of the result: [n, m]
---Raises where a or b is no vector, or c does not broadcast to the products; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:addr_(a, b, opts) end

---The conjugate transposes of matrices. A real x as a view.
---Shape of the result: [.., m, n]
---Raises where x has fewer than two dims.
---@return tycho.Tensor # [.., m, n]
function Tensor:adjoint() end

---The grid of an affine map of the places of an image: for each place of the result, theta times its coordinates
---{x, y, 1} or {x, y, z, 1}.
---Options: align_corners = false, as of grid_sample.
---Shape of the result: [batch, height, width, 2]
---Formula: theta times {x, y, 1} of each place
---Raises where theta or size is not of an image.
---@param size integer[] # {batch, channels, height, width} or {batch, channels, depth, height, width}
---@param opts? {align_corners: boolean?}
---@return tycho.Tensor # [batch, height, width, 2] or [batch, depth, height, width, 3]
function Tensor:affine_grid(size, opts) end

---Whether all elements are not zero; NaN is not.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # bool, x without the dims; true of nothing
function Tensor:all(dims, keepdim) end

---Whether all elements are close, see isclose. Computes: gives a Lua boolean.
---Shape of the result: a Lua boolean
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
---@return boolean
function Tensor:allclose(b, opts) end

---the same as max: the largest element over dims; NaN wins
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmax.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function Tensor:amax(dims, keepdim) end

---the same as min: the smallest element over dims; NaN wins
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmin.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function Tensor:amin(dims, keepdim) end

---two results: the smallest and the largest element
---Shape of the result: x without the dims
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor least
---@return tycho.Tensor largest # x without the dims; the dtype of x
function Tensor:aminmax(dims, keepdim) end

---The angles in radians, from -pi to pi: atan2(im, re). Of reals 0, or pi below zero; NaN stays.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x; f32 or f64
function Tensor:angle() end

---Whether any element is not zero.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # bool, x without the dims; false of nothing
function Tensor:any(dims, keepdim) end

---the same as acos: the angle in radians whose cosine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arccos() end

---the same as acos: the angle in radians whose cosine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arccos_() end

---the same as acosh: the inverse hyperbolic cosine; NaN below 1
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arccosh() end

---the same as acosh: the inverse hyperbolic cosine; NaN below 1; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arccosh_() end

---the same as asin: the angle in radians whose sine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arcsin() end

---the same as asin: the angle in radians whose sine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arcsin_() end

---the same as asinh: the inverse hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arcsinh() end

---the same as asinh: the inverse hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arcsinh_() end

---the same as atan: the angle in radians whose tangent is x
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arctan() end

---the same as atan2: the angle of the point (b, a) in radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:arctan2(b) end

---the same as atan2: the angle of the point (b, a) in radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arctan2_(b) end

---the same as atan: the angle in radians whose tangent is x; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arctan_() end

---the same as atanh: the inverse hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:arctanh() end

---the same as atanh: the inverse hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:arctanh_() end

---position of the first largest element; NaN wins
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dim? integer # flattened
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; i64, from 1
function Tensor:argmax(dim, keepdim) end

---position of the first smallest element; NaN wins
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dim? integer # flattened
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; i64, from 1
function Tensor:argmin(dim, keepdim) end

---positions that sort a dim, stable; NaN counts as largest
---Raises where the dim is out of range.
---@param dim? integer # the last
---@param descending? boolean # false
---@return tycho.Tensor # the sizes of x; i64, positions from 1
function Tensor:argsort(dim, descending) end

---the same as nonzero: positions of the elements that are not zero, one row each: i64 [count, ndim]
---Raises where x is no tensor.
---@return tycho.Tensor # [count, ndim]; i64, positions from 1
function Tensor:argwhere() end

---the same as round: the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:around() end

---The elements of x, in row-major order, that stand at offset + sum of (index - 1) * stride.
---As PyTorch's of a contiguous tensor, but a copy: elements may come more than once.
---Shape of the result: the sizes
---Raises where an element lies outside of x, or a size or stride is negative.
---@param sizes integer[]
---@param strides integer[] # one a dim, in elements
---@param offset? integer # the first element, 1
---@return tycho.Tensor # these sizes, the dtype of x
function Tensor:as_strided(sizes, strides, offset) end

---the angle in radians whose sine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:asin() end

---the angle in radians whose sine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:asin_() end

---the inverse hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:asinh() end

---the inverse hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:asinh_() end

---the angle in radians whose tangent is x
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:atan() end

---the angle of the point (b, a) in radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:atan2(b) end

---the angle of the point (b, a) in radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:atan2_(b) end

---the angle in radians whose tangent is x; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:atan_() end

---the inverse hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:atanh() end

---the inverse hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:atanh_() end

---x, a number as one element.
---Shape of the result: x, or [1]
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x, [1] of no dims
function Tensor:atleast_1d() end

---x with two dims at least; a vector is a row
---Shape of the result: x, or [1, n]
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x, [1, n] of a vector
function Tensor:atleast_2d() end

---x with three dims at least: a vector is [1, n, 1], a matrix [n, m, 1].
---Shape of the result: x, [1, n, 1] or [n, m, 1]
---Raises where x is no tensor.
---@return tycho.Tensor # at least three dims
function Tensor:atleast_3d() end

---The mean with a weight for each element, as NumPy's.
---Shape of the result: x without the dim
---Raises where the weights have other sizes than x, or than its dim.
---@param dim? integer # all
---@param weights? tycho.Tensor # sizes of x, or a vector along dim
---@return tycho.Tensor # x without the dim; floats
function Tensor:average(dim, weights) end

---The mean of each window.
---Options: stride = kernel, padding = 0 (of zeros), dilation = 1, ceil_mode = false, count_include_pad = true;
---divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows]
function Tensor:avg_pool1d(kernel, opts) end

---The mean of each window.
---Options, a number or {rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1; ceil_mode = false,
---count_include_pad = true; divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows down, windows across]
function Tensor:avg_pool2d(kernel, opts) end

---The mean of each window.
---Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1;
---ceil_mode = false, count_include_pad = true; divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows of each dim]
function Tensor:avg_pool3d(kernel, opts) end

---Fills `grad` of every leaf that y was computed from with dy/dleaf times g; what is there is added to.
---Raises where y does not depend on a leaf that requires a gradient, g has other sizes, or what was kept has been overwritten or freed (retain_graph).
---@param g? tycho.Tensor # of y's shape; 1 where y has one element
---@param opts? {retain_graph: boolean?, create_graph: boolean?}
function Tensor:backward(g, opts) end

---beta * c + alpha * (a x b), for stacks of matrices.
---Shape of the result: [batch, n, m]
---Raises where the sizes do not fit, or c does not broadcast to the products.
---@param a tycho.Tensor # [batch, n, k]
---@param b tycho.Tensor # [batch, k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [batch, n, m]
function Tensor:baddbmm(a, b, opts) end

---Of logits and chances in 0..1: -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow.
---Options: reduction; weight, which multiplies the losses; pos_weight, which multiplies those of y.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: max(x, 0) - x y + log(1 + exp(-|x|))
---Raises where sizes do not fit each other, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil, pos_weight: tycho.Tensor|number|nil} # tensors or numbers that broadcast with x
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:bce_with_logits(y, opts) end

---1 with probability p, else 0; p may be a tensor, which gives the sizes
---Raises where a number p lies outside of 0 to 1.
---@param sizes? integer|integer[] # left out where p is a tensor
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes, or those of p; f32
function Tensor:bernoulli(sizes, opts) end

---writes 1 with probability p, else 0, to x, returns it
---Shape of the result: x
---Raises where p lies outside of 0 to 1, or x is a leaf that requires a gradient.
---@param p? number|tycho.Tensor # 0.5; a tensor broadcasts to x
---@return tycho.Tensor # x itself
function Tensor:bernoulli_(p) end

---x converted to bf16
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:bfloat16() end

---Of chances x and y in 0..1: -(y log x + (1 - y) log(1 - x)), logarithms of at least -100. Of logits:
---ty.bce_with_logits, which is exact where chances round to 0 or 1. Outside of 0..1 the loss is NaN.
---Options: reduction; weight, which multiplies the losses.
---Shape of the result: 0-d, or x
---Formula: -(y log(x) + (1 - y) log(1 - x))
---Raises where x and y have not the same sizes, or the reduction is not known.
---@param y tycho.Tensor # the sizes of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil} # weight: broadcasts with x
---@return tycho.Tensor # 0-d, or the sizes of x
function Tensor:binary_cross_entropy(y, opts) end

---the same as bce_with_logits: cross entropy of chances y under sigmoid(x)
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: max(x, 0) - x y + log(1 + exp(-|x|))
---Raises where sizes do not fit each other, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil, pos_weight: tycho.Tensor|number|nil} # tensors or numbers that broadcast with x
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:binary_cross_entropy_with_logits(y, opts) end

---How often each of the numbers 1, 2, ... comes, or the sums of their weights. Reads the largest number.
---Shape of the result: [the largest number]
---Raises where x is no vector of integers, or a number is below 1.
---@param weights? tycho.Tensor # [n]
---@param minlength? integer # 0: how long the result is at least
---@return tycho.Tensor # [the largest number, or minlength]; i64, or the dtype of the weights
function Tensor:bincount(weights, minlength) end

---bits set in both
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:bitwise_and(b) end

---bits set in both; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:bitwise_and_(b) end

---the same as lshift: bits moved up; 0 beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:bitwise_left_shift(b) end

---every bit turned over; for bool the opposite
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted
function Tensor:bitwise_not() end

---every bit turned over; for bool the opposite; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:bitwise_not_() end

---bits set in either
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:bitwise_or(b) end

---bits set in either; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:bitwise_or_(b) end

---the same as rshift: bits moved down, keeping the sign; all sign beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:bitwise_right_shift(b) end

---bits set in one of the two
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:bitwise_xor(b) end

---bits set in one of the two; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:bitwise_xor_(b) end

---The matrix products of two stacks of matrices.
---Shape of the result: [batch, n, m]
---Raises where an argument has not three dims, or the sizes do not fit.
---@param b tycho.Tensor # [batch, k, m]
---@return tycho.Tensor # [batch, n, m]
function Tensor:bmm(b) end

---Whether each element is not zero.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x, bool
function Tensor:bool() end

---the same as expand: dims of size 1 repeated without a copy; -1 keeps a size
---Raises where a dim that is not 1 would change.
---@param sizes integer|integer[] # one by one, or in a table; new dims stand in front
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function Tensor:broadcast_to(sizes, ...) end

---In which of the intervals between ascending boundaries each element lies, as searchsorted.
---Shape of the result: x
---Raises where the boundaries are no vector.
---@param boundaries tycho.Tensor # [n], ascending; that is not checked
---@param right? boolean # false: before an equal boundary; true: behind it
---@return tycho.Tensor # shape of x; i64, from 1 (below all) to n + 1
function Tensor:bucketize(boundaries, right) end

---x converted to u8
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:byte() end

---writes Cauchy's numbers to x, returns it
---Shape of the result: x
---Raises where x is no float tensor, sigma is not above 0, or x is a leaf that requires a gradient.
---@param median? number # 0
---@param sigma? number # 1: half of the width at half of the height
---@return tycho.Tensor # x itself
function Tensor:cauchy_(median, sigma) end

---The cube root, of the sign of x.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:cbrt() end

---the cube root, of the sign of x; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:cbrt_() end

---The p-norms of the differences of all pairs of rows.
---Shape of the result: [.., n, m]
---Raises where rows differ in length, or leading dims do not broadcast.
---@param b tycho.Tensor # [.., m, k]
---@param p? number # 2; also 0, 1, math.huge
---@return tycho.Tensor # [.., n, m]; floats
function Tensor:cdist(b, p) end

---x converted to c128
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:cdouble() end

---the next whole number above
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:ceil() end

---the next whole number above; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:ceil_() end

---x above zero, else alpha * (exp(x / alpha) - 1): an elu of one slope at 0. Barron 2017, arXiv:1704.07483.
---Shape of the result: x
---Raises where x is not floating, or alpha is 0.
---@param alpha? number # 1
---@return tycho.Tensor # shape and dtype of x
function Tensor:celu(alpha) end

---x above zero, else alpha * (exp(x / alpha) - 1); written to the first argument
---Shape of the result: x
---Formula: Barron 2017, arXiv:1704.07483
---Raises where x is not floating, or alpha is 0; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param alpha? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:celu_(alpha) end

---x converted to c64
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:cfloat() end

---x converted to i8
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:char() end

---a table of at most n views of about equal size
---Raises where n is below 1.
---@param n integer # at most so many
---@param dim? integer # 1
---@return tycho.Tensor[] # views of ceil(size / n) places, the last one of what is left
function Tensor:chunk(n, dim) end

---x, not below `min` and not above `max`; where these cross, `max` holds. Either may be nil. NaN stays.
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast.
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function Tensor:clamp(min, max) end

---x, not below min and not above max; either may be nil; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:clamp_(min, max) end

---the same as minimum: the smaller; NaN wins, -0 below +0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:clamp_max(b) end

---the same as maximum: the larger; NaN wins, +0 above -0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:clamp_min(b) end

---the same as clamp: x, not below min and not above max; either may be nil
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast.
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function Tensor:clip(min, max) end

---the same as clamp: x, not below min and not above max; either may be nil; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:clip_(min, max) end

---a copy with memory of its own
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes and dtype of x; gradients flow through
function Tensor:clone() end

---All choices of r elements of a vector, by their places in ascending order.
---Shape of the result: [count, r]
---Raises where x is no vector, or r is negative.
---@param r? integer # 2
---@param with_replacement? boolean # false; true: an element may come more than once
---@return tycho.Tensor # [count, r]
function Tensor:combinations(r, with_replacement) end

---The conjugates: the imaginary parts negative. A real x as it is.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape and dtype of x
function Tensor:conj() end

---the conjugates: imaginary parts negative; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:conj_() end

---the same as conj: the conjugates: imaginary parts negative
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape and dtype of x
function Tensor:conj_physical() end

---the same as conj: the conjugates: imaginary parts negative; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:conj_physical_() end

---the same as conj: the conjugates: imaginary parts negative
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape and dtype of x
function Tensor:conjugate() end

---x if its elements lie row by row, else such a copy
---Raises where x is no tensor.
---@return tycho.Tensor # x itself, or a copy
function Tensor:contiguous() end

---Convolution over one dim, as in networks: the weight is not turned around.
---Options: stride = 1, padding = 0, or "same", dilation = 1, groups = 1.
---Shape of the result: [batch, out, length]
---Formula: y[n, o, t] = bias[o] + sum over c, i of weight[o, c, i] x[n, c, t stride + i dilation - padding]
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param weight tycho.Tensor # [out, channels / groups, size]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, floor((length + 2 padding - dilation (size - 1) - 1) / stride) + 1]
function Tensor:conv1d(weight, bias, opts) end

---Convolution over two dims, as in networks: the weight is not turned around.
---Options, a number or {rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
---Shape of the result: [batch, out, height, width]
---Formula: as conv1d, over two dims
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param weight tycho.Tensor # [out, channels / groups, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
function Tensor:conv2d(weight, bias, opts) end

---Convolution over three dims, as in networks: the weight is not turned around.
---Options, a number or {planes, rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
---Shape of the result: [batch, out, depth, height, width]
---Formula: as conv1d, over three dims
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param weight tycho.Tensor # [out, channels / groups, planes, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
function Tensor:conv3d(weight, bias, opts) end

---The transpose of conv1d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added behind), dilation = 1,
---groups = 1.
---Shape of the result: [batch, out, length]
---Formula: the gradient of conv1d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param weight tycho.Tensor # [channels, out / groups, size]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer?, padding: integer?, output_padding: integer?, dilation: integer?, groups: integer?}
---@return tycho.Tensor # [batch, out, (length - 1) stride - 2 padding + dilation (size - 1) + output_padding + 1]
function Tensor:conv_transpose1d(weight, bias, opts) end

---The transpose of conv2d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options, a number or {rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added
---behind), dilation = 1; groups = 1.
---Shape of the result: [batch, out, height, width]
---Formula: the gradient of conv2d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param weight tycho.Tensor # [channels, out / groups, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
function Tensor:conv_transpose2d(weight, bias, opts) end

---The transpose of conv3d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options, a number or {planes, rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0
---(added behind), dilation = 1; groups = 1.
---Shape of the result: [batch, out, depth, height, width]
---Formula: the gradient of conv3d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param weight tycho.Tensor # [channels, out / groups, planes, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
function Tensor:conv_transpose3d(weight, bias, opts) end

---The convolution of two vectors: sums of a[i] * v[k - i]. As NumPy's.
---Shape of the result: [n + m - 1]
---Raises where an argument is no vector or empty, or the mode is not known.
---@param v tycho.Tensor # [m]
---@param mode? "full"|"same"|"valid" # "full": all that overlaps; "same": the middle; "valid": where all overlaps
---@return tycho.Tensor # [n + m - 1], [max(n, m)] or [max(n, m) - min(n, m) + 1]; floats
function Tensor:convolve(v, mode) end

---the same as clone: a copy with memory of its own
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes and dtype of x; gradients flow through
function Tensor:copy() end

---writes y, broadcast and cast, to the elements of x
---Raises where y does not broadcast to x, or x is a leaf that requires a gradient.
---@param y tycho.Tensor|number|boolean
---@return tycho.Tensor # x itself
function Tensor:copy_(y) end

---the magnitude of a with the sign of b
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:copysign(b) end

---the magnitude of a with the sign of b; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:copysign_(b) end

---The correlations of variables, rows of x: covariances divided by the deviations, from -1 to 1.
---Shape of the result: [variables, variables]
---Raises where x has more than two dims.
---@return tycho.Tensor # [variables, variables], 0-d of one; floats
function Tensor:corrcoef() end

---the cosine of x radians
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:cos() end

---the cosine of x radians; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:cos_() end

---the hyperbolic cosine
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:cosh() end

---the hyperbolic cosine; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:cosh_() end

---1 - cos(a, b) where y is 1, max(0, cos(a, b) - margin) where it is -1, of vectors in the last dim.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where sizes do not broadcast, or the reduction is not known.
---@param b tycho.Tensor # floats [..., features]
---@param y tycho.Tensor # 1 or -1, [...]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.Tensor # 0-d, or the sizes of y
function Tensor:cosine_embedding_loss(b, y, opts) end

---The cosine of the angle between vectors in one dim: sum(a b) / (max(|a|, eps) max(|b|, eps)).
---Options: dim = -1 (PyTorch's is the second); eps = 1e-8.
---Shape of the result: the broadcast of a and b without the dim
---Raises where sizes do not broadcast, or dim is out of range.
---@param b tycho.Tensor # floats, broadcasts to a, or a to it
---@param opts? {dim: integer?, eps: number?}
---@return tycho.Tensor # the broadcast sizes without the dim
function Tensor:cosine_similarity(b, opts) end

---How many elements are not zero.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # i64, x without the dims
function Tensor:count_nonzero(dims, keepdim) end

---The covariances of variables: rows of x, observations are columns.
---Shape of the result: [variables, variables]
---Raises where x has more than two dims, or weights do not fit.
---@param opts? {correction: number?, fweights: tycho.Tensor?, aweights: tycho.Tensor?} # correction = 1; how often each observation comes, and how much it weighs
---@return tycho.Tensor # [variables, variables], 0-d of one; floats
function Tensor:cov(opts) end

---x on the CPU: the same tensor where it is there.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:cpu() end

---The cross product of vectors of three elements along a dim.
---Shape of the result: broadcast of a and b
---Raises where sizes do not broadcast, or the dim has not three places.
---@param b tycho.Tensor # broadcasts with a
---@param dim? integer # the last
---@return tycho.Tensor # the broadcast shape
function Tensor:cross(b, dim) end

---Minus the log-probability of each label under softmax(x); or of probabilities: -sum(target * log_softmax(x)).
---Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
---nothing; label_smoothing = 0, the share that is spread over all classes; weight [classes], which multiplies the
---losses of each class: of labels a mean divides by those of the labels.
---Shape of the result: 0-d, or the labels'
---Formula: nll_loss(log_softmax(x), target)
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where probabilities have other sizes than x, or weights are not one for each class.
---@param target tycho.Tensor # integer labels from 1, sizes of x without the class dim; or floats, shape of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, label_smoothing: number?, weight: tycho.Tensor?}
---@return tycho.Tensor # 0-d, or the sizes of x without the class dim
function Tensor:cross_entropy(target, opts) end

---Minus the logarithm of the chance that the labels are spelled by any path through the times. Graves and others
---2006.
---Options: blank = 1, the class between labels; reduction = "mean": each loss divided by its number of labels,
---then their mean, "sum" or "none"; zero_infinity = false: infinite losses, of more labels than times, count as 0.
---Shape of the result: 0-d, or [batch]
---Formula: Graves and others 2006
---Raises where sizes do not fit each other, or the blank is no class.
---@param target tycho.Tensor # integer labels from 1 [batch, labels]
---@param times integer[]|tycho.Tensor # how many times each sequence has
---@param lengths integer[]|tycho.Tensor # how many labels each has
---@param opts? {blank: integer?, reduction: "mean"|"sum"|"none"|nil, zero_infinity: boolean?}
---@return tycho.Tensor # 0-d, or [batch]
function Tensor:ctc_loss(target, times, lengths, opts) end

---x on a CUDA card: the same tensor where it is there; nil and a message where there is no such card.
---Shape of the result: x
---Raises where x is no tensor, or the number is none.
---@param card? integer # 0: the driver's ordinal
---@return tycho.Tensor? y
---@return string? message # the sizes of x
function Tensor:cuda(card) end

---running maximum along a dim; NaN stays
---Raises where the dim is out of range.
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function Tensor:cummax(dim) end

---running minimum along a dim; NaN stays
---Raises where the dim is out of range.
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function Tensor:cummin(dim) end

---running product along a dim
---Raises where the dim is out of range.
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function Tensor:cumprod(dim) end

---running sum along a dim
---Raises where the dim is out of range.
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function Tensor:cumsum(dim) end

---The integral up to each place behind the first, by the trapezoidal rule.
---Shape of the result: y with one place less
---Raises where x has another number of places than y along the dim.
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y with one place less along dim; floats
function Tensor:cumulative_trapezoid(x, opts) end

---an FFI pointer to the first element, float * for f32; valid while x or a view of it lives.
---A pointer that left makes the tensor's memory visible to others for ever: it is read at once, never deferred.
---PyTorch's x.data, the values without their gradient, is x:detach().
---Raises where x is on another device than the CPU. Without FFI it gives light userdata.
---@return ffi.cdata* # to the first element; x:stride() tells where the others lie
function Tensor:data() end

---Degrees as radians.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats
function Tensor:deg2rad() end

---degrees as radians; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:deg2rad_() end

---the same as rad2deg: radians as degrees
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats
function Tensor:degrees() end

---x without its past: no gradient goes through this view
---Raises where x is no tensor.
---@return tycho.Tensor # a view of x
function Tensor:detach() end

---Of a vector the matrix with that diagonal, of a matrix its diagonal.
---Shape of the result: [n, n] or [n]
---Raises where x has another number of dims.
---@param offset? integer # 0; above zero: above the main diagonal
---@return tycho.Tensor # [n + |offset|, n + |offset|], or the diagonal as a view
function Tensor:diag(offset) end

---A new matrix, or stack of them, whose diagonals are the vectors along the last dim of x.
---Shape of the result: x with two dims for the last
---Raises where the dims are the same or out of range.
---@param offset? integer # 0; above zero: above the main diagonal
---@param dim1? integer # where the rows are in the result, -2
---@param dim2? integer # where the columns are, -1
---@return tycho.Tensor # x with two dims of n + |offset| in place of the last
function Tensor:diag_embed(offset, dim1, dim2) end

---The matrix whose diagonal are all elements of x in row-major order.
---Shape of the result: [n, n]
---Raises where x is no tensor.
---@param offset? integer # 0; above zero: above the main diagonal
---@return tycho.Tensor # [n + |offset|, n + |offset|]
function Tensor:diagflat(offset) end

---the diagonal of two dims as the last dim, a view; offset > 0: above the main one
---Raises where a dim is out of range, or both are the same.
---@param offset? integer # 0; above 0: above the main diagonal
---@param dim1? integer # 1
---@param dim2? integer # 2
---@return tycho.Tensor # a view; the diagonal is the last dim
function Tensor:diagonal(offset, dim1, dim2) end

---x with src on a diagonal.
---Shape of the result: x
---Raises where the dims are out of range or the same, or src has other sizes than the diagonal.
---@param src tycho.Tensor
---@param offset? integer # 0; above zero: above the main diagonal
---@param dim1? integer # 1
---@param dim2? integer # 2
---@return tycho.Tensor # shape and dtype of x
function Tensor:diagonal_scatter(src, offset, dim1, dim2) end

---The differences of neighbours along a dim, n times.
---Shape of the result: x with n places less
---Raises where n is negative, or what stands before or behind has other sizes.
---@param n? integer # 1
---@param dim? integer # the last
---@param opts? {prepend: tycho.Tensor?, append: tycho.Tensor?} # what stands before and behind x along dim
---@return tycho.Tensor # x with n places less along dim
function Tensor:diff(n, dim, opts) end

---The logarithmic derivative of the gamma function; NaN at -1, -2 ..., of infinite magnitude at 0.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:digamma() end

---the logarithmic derivative of the gamma function; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:digamma_() end

---the number of dims.
---The same as x.ndim.
---Raises where x is no tensor.
---@return integer
function Tensor:dim() end

---quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:div(b) end

---quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:div_(b) end

---the same as div: quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:divide(b) end

---the same as div: quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:divide_(b) end

---The sum of the products of two vectors.
---Shape of the result: 0-d
---Raises where an argument is no vector, or the sizes differ.
---@param b tycho.Tensor # [n]
---@return tycho.Tensor # 0-d
function Tensor:dot(b) end

---x converted to f64
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:double() end

---Elements zeroed by chance p, the others divided by 1 - p; takes a stream of random numbers when training.
---Srivastava and others 2014, JMLR 15.
---Shape of the result: x
---Raises where x is not floating, or p lies outside of 0 to 1.
---@param p? number # 0.5, in 0..1
---@param training? boolean # true; false gives x
---@return tycho.Tensor # shape and dtype of x
function Tensor:dropout(p, training) end

---elements zeroed by chance p, the others divided by 1 - p; written to the first argument
---Shape of the result: x
---Formula: Srivastava and others 2014, JMLR 15
---Raises where x is not floating, or p lies outside of 0 to 1; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param p? number # 0.5, in 0..1
---@param training? boolean # true; false gives x
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:dropout_(p, training) end

---Parts of equal size along dim 3, or those between places.
---Shape of the result: a table
---Raises where x has fewer than 3 dims, or they do not divide.
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function Tensor:dsplit(parts) end

---Bytes of an element.
---Shape of the result: a number
---Raises where x is no tensor.
---@return integer
function Tensor:element_size() end

---x above zero, else alpha * (exp(x) - 1).
---Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.
---Shape of the result: x
---Raises where x is not floating.
---@param alpha? number # 1
---@return tycho.Tensor # shape and dtype of x
function Tensor:elu(alpha) end

---x above zero, else alpha * (exp(x) - 1); written to the first argument
---Shape of the result: x
---Formula: Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param alpha? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:elu_(alpha) end

---elements of any value in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:empty_like(opts) end

---bool: equal; NaN equals nothing
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:eq(b) end

---Whether shapes and all elements are equal; NaN equals nothing. Computes: gives a Lua boolean.
---Shape of the result: a Lua boolean
---Raises where an argument is not a tensor.
---@param b tycho.Tensor
---@return boolean
function Tensor:equal(b) end

---the error function
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:erf() end

---the error function; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:erf_() end

---1 - erf(x), accurate where that is near zero.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:erfc() end

---1 - erf(x), accurate where that is near zero; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:erfc_() end

---the inverse of the error function
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:erfinv() end

---the inverse of the error function; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:erfinv_() end

---e to the power x
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:exp() end

---2 to the power x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:exp2() end

---2 to the power x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:exp2_() end

---e to the power x; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:exp_() end

---dims of size 1 repeated without a copy; -1 keeps a size
---Raises where a dim that is not 1 would change.
---@param sizes integer|integer[] # one by one, or in a table; new dims stand in front
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function Tensor:expand(sizes, ...) end

---x with the sizes of another tensor, as a view that repeats.
---Shape of the result: other
---Raises where it does not broadcast to them.
---@param other tycho.Tensor
---@return tycho.Tensor # the sizes of other
function Tensor:expand_as(other) end

---the same as unsqueeze: a new dim of size 1 at that place
---Raises where the place is out of range.
---@param dim integer # where the new dim will be, 1 to ndim + 1; negative from the end
---@return tycho.Tensor # a view
function Tensor:expand_dims(dim) end

---the same as sigmoid: 1 / (1 + exp(-x))
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:expit() end

---exp(x) - 1, accurate near zero
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:expm1() end

---exp(x) - 1, accurate near zero; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:expm1_() end

---Writes exponential numbers, of mean 1 / lambda.
---Shape of the result: x
---Raises where x is no float tensor, lambda is not above 0, or x is a leaf that requires a gradient.
---@param lambda? number # 1
---@return tycho.Tensor # x itself
function Tensor:exponential_(lambda) end

---writes a value to every element of x
---Raises where the value does not fit the dtype, or x is a leaf that requires a gradient.
---@param value number|boolean|tycho.Tensor # a tensor: of one element
---@return tycho.Tensor # x itself
function Tensor:fill_(value) end

---Writes a number to the diagonal of x: the elements whose positions are the same in all dims.
---Shape of the result: x
---Raises where x has fewer than 2 dims, or more than 2 of different sizes, or is a leaf that requires a gradient.
---@param value number
---@return tycho.Tensor # x itself
function Tensor:fill_diagonal_(value) end

---the same as trunc: the whole part, towards zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:fix() end

---the same as trunc: the whole part, towards zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:fix_() end

---dims first to last as one
---Raises where a dim is out of range, or the first lies behind the last.
---@param first? integer # 1
---@param last? integer # the last
---@return tycho.Tensor # a view where strides allow it, else a copy
function Tensor:flatten(first, last) end

---dims reversed, as a view; none: all
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param ... integer # the others, where they stand one by one
---@return tycho.Tensor # a view
function Tensor:flip(dims, ...) end

---Columns in reverse order: along the second dim.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@return tycho.Tensor # the sizes of x, a view
function Tensor:fliplr() end

---Rows in reverse order: along the first dim.
---Shape of the result: x
---Raises where x has no dims.
---@return tycho.Tensor # the sizes of x, a view
function Tensor:flipud() end

---x converted to f32
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:float() end

---a^b in f64; of complex numbers in c128.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, f64 or c128
function Tensor:float_power(b) end

---the next whole number below
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:floor() end

---the next whole number below; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:floor_() end

---quotient rounded down; an integer by 0 gives 0
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:floor_divide(b) end

---quotient rounded down; an integer by 0 gives 0; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:floor_divide_(b) end

---The larger; a number is larger than NaN.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function Tensor:fmax(b) end

---The smaller; a number is smaller than NaN.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function Tensor:fmin(b) end

---remainder with the dividend's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:fmod(b) end

---remainder with the dividend's sign; an integer by 0 gives 0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:fmod_(b) end

---Columns as windows of an image, which are added up where they overlap: the transpose of nn.Unfold.
---Shape of the result: [batch, channels, height, width]
---Raises where x has not so many columns, or an option is out of range.
---@param size integer|integer[] # height and width of the image
---@param kernel integer|integer[] # rows and columns
---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
---@return tycho.Tensor # [batch, channels, height, width]
function Tensor:fold(size, kernel, opts) end

---What stands behind the point: x - trunc(x), of the sign of x.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape and dtype of x
function Tensor:frac() end

---what stands behind the point, of the sign of x; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:frac_() end

---one number in the shape and dtype of x
---Raises where the first argument is no tensor, or the value does not fit the dtype.
---@param value number|boolean
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:full_like(value, opts) end

---the same as lgamma: the logarithm of the magnitude of the gamma function
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:gammaln() end

---elements of a at the index's positions along a dim
---Raises where an index is no integer tensor, or out of range (named with its place).
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end; as many dims as x
---@return tycho.Tensor # the sizes of the index; y[i][j] = x[index[i][j]][j] for dim 1
function Tensor:gather(dim, index) end

---Minus the log-likelihood of target under a normal distribution: (log(var) + (x - target)^2 / var) / 2. Nix,
---Weigend 1994.
---Options: full = false: with the constant log(2 pi) / 2; eps = 1e-6: variances below count as eps; reduction.
---Shape of the result: 0-d, or the broadcast of all
---Formula: (log(var) + (x - target)^2 / var) / 2, Nix, Weigend 1994
---Raises where sizes do not broadcast, eps is not above 0, or the reduction is not known.
---@param target tycho.Tensor # floats
---@param var tycho.Tensor|number # variances, which broadcast to x; or the sizes of x without its last dim
---@param opts? {reduction: "mean"|"sum"|"none"|nil, full: boolean?, eps: number?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:gaussian_nll_loss(target, var, opts) end

---bool: a above or equal to b
---Raises where sizes do not broadcast.
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:ge(b) end

---x times the chance that a normal variable lies below x. Hendrycks, Gimpel 2016, arXiv:1606.08415.
---Shape of the result: x
---Formula: x / 2 * (1 + erf(x / sqrt(2)))
---Raises where x is not floating, or for another form.
---@param opts? {approximate: "none"|"tanh"|nil} # "tanh": the paper's faster form
---@return tycho.Tensor # shape and dtype of x
function Tensor:gelu(opts) end

---x times the chance that a normal variable lies below x; written to the first argument
---Shape of the result: x
---Formula: x / 2 * (1 + erf(x / sqrt(2))), Hendrycks, Gimpel 2016, arXiv:1606.08415
---Raises where x is not floating, or for another form; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param opts? {approximate: "none"|"tanh"|nil} # "tanh": the paper's faster form
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:gelu_(opts) end

---Writes geometric numbers: how many draws of probability p it takes until one succeeds, from 1.
---Shape of the result: x
---Raises where p does not lie between 0 and 1, or x is a leaf that requires a gradient.
---@param p number # above 0, below 1
---@return tycho.Tensor # x itself
function Tensor:geometric_(p) end

---the same as outer: all products of an element of a with one of b
---Shape of the result: [n, m]
---Raises where an argument is no vector.
---@param b tycho.Tensor # [m]
---@return tycho.Tensor # [n, m]
function Tensor:ger(b) end

---one element as a number or boolean
---Raises where there is not one index for each dim, or one is out of range.
---@param ... integer # one index for each dim, 1-based, negative from the end
---@return number|boolean value
---@return number? imaginary # of a complex number both parts
function Tensor:get(...) end

---The first half of a dim times the sigmoid of the second. Dauphin and others 2016, arXiv:1612.08083.
---Shape of the result: x, half of the dim
---Raises where x is not floating, or the dim is out of range or of an odd size.
---@param dim? integer # the last
---@return tycho.Tensor # the dim has half the size
function Tensor:glu(dim) end

---the same as gt: bool: a above b
---Raises where sizes do not broadcast.
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:greater(b) end

---the same as ge: bool: a above or equal to b
---Raises where sizes do not broadcast.
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:greater_equal(b) end

---The values of an image at the coordinates of a grid, which are in -1..1 from border to border; the last dim's
---comes first: {x, y} or {x, y, z}. Jaderberg and others 2015, arXiv:1506.02025.
---Options: mode = "bilinear" (between neighbours, in three dims too), "bicubic" (four neighbours a dim, by Keys'
---kernel of -0.75), or "nearest"; padding_mode = "zeros": what lies outside, "border": the places at the borders,
---"reflection": the image turned around there; align_corners = false: whether -1 and 1 are the middles of the
---outer places.
---Shape of the result: [batch, channels, rows, columns]
---Raises where the sizes do not fit each other, or an option is not known.
---@param grid tycho.Tensor # floats [batch, rows, columns, 2] or [batch, planes, rows, columns, 3]
---@param opts? {mode: "bilinear"|"bicubic"|"nearest"|nil, padding_mode: "zeros"|"border"|"reflection"|nil, align_corners: boolean?}
---@return tycho.Tensor # [batch, channels, rows, columns], or with planes
function Tensor:grid_sample(grid, opts) end

---bool: a above b.
---Operators such as < give Lua booleans, so comparisons are methods.
---Raises where sizes do not broadcast.
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:gt(b) end

---The softmax of (x + noise of Gumbel's distribution) / tau: a sample of classes by their logits, with a gradient;
---takes a stream of random numbers. Jang, Gu, Poole 2016, arXiv:1611.01144.
---Options: tau = 1, the temperature; hard = false: 1 for the chosen class and 0 elsewhere, with the gradient of the
---soft sample; dim = -1.
---Shape of the result: x
---Formula: softmax((x - log(-log(u))) / tau), u uniform
---Raises where x is not floating, dim is out of range, or tau is not above 0.
---@param opts? {tau: number?, hard: boolean?, dim: integer?}
---@return tycho.Tensor # shape and dtype of x
function Tensor:gumbel_softmax(opts) end

---x converted to f16
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:half() end

---0 within -lambda..lambda, else x. NaN stays.
---Shape of the result: x
---Raises where x is not floating.
---@param lambda? number # 0.5
---@return tycho.Tensor # shape and dtype of x
function Tensor:hardshrink(lambda) end

---0 within -lambda..lambda, else x; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param lambda? number # 0.5
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:hardshrink_(lambda) end

---relu6(x + 3) / 6: a sigmoid of three straight lines.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:hardsigmoid() end

---relu6(x + 3) / 6; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:hardsigmoid_() end

---x * relu6(x + 3) / 6. Howard and others 2019, arXiv:1905.02244.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:hardswish() end

---x * relu6(x + 3) / 6; written to the first argument
---Shape of the result: x
---Formula: Howard and others 2019, arXiv:1905.02244
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:hardswish_() end

---x within low..high; NaN stays.
---Shape of the result: x
---Formula: min(max(x, low), high)
---Raises where x is not floating, or low lies above high.
---@param low? number # -1
---@param high? number # 1
---@return tycho.Tensor # shape and dtype of x
function Tensor:hardtanh(low, high) end

---x within low..high; written to the first argument
---Shape of the result: x
---Formula: min(max(x, low), high)
---Raises where x is not floating, or low lies above high; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param low? number # -1
---@param high? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:hardtanh_(low, high) end

---0 below zero, 1 above, `value` at zero.
---Shape of the result: broadcast of x and value
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param value tycho.Tensor|number # broadcasts with x
---@return tycho.Tensor # the broadcast shape
function Tensor:heaviside(value) end

---x where y is 1, max(0, margin - x) where it is -1: x is a distance.
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes do not fit each other, or the reduction is not known.
---@param y tycho.Tensor|number # 1 or -1, broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:hinge_embedding_loss(y, opts) end

---How many elements lie in each of equally wide intervals; the last one holds its end. Others are not counted.
---Shape of the result: [bins]
---Raises where bins is below 1, or min above max.
---@param bins? integer # 100
---@param min? number # 0
---@param max? number # 0; where both are equal, those of the elements
---@return tycho.Tensor # [bins]; floats
function Tensor:histc(bins, min, max) end

---How many elements lie between edges, and the edges. The last interval holds its end.
---Shape of the result: [bins] and [bins + 1]
---Raises where bins is below 1, or the edges are no vector of at least two.
---@param bins? integer|tycho.Tensor # 10, of equal width; or the edges, ascending
---@param opts? {range: number[]?, weight: tycho.Tensor?, density: boolean?} # range: {low, high}, by default those of the elements; density: divided by their sum and the widths
---@return tycho.Tensor counts
---@return tycho.Tensor edges # [bins] and [bins + 1]; floats
function Tensor:histogram(bins, opts) end

---Parts of equal size along dim 2, of a vector along its only one; or those between places, each beginning behind
---the place before.
---Shape of the result: a table
---Raises where x has no dims, or they do not divide.
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function Tensor:hsplit(parts) end

---Half the squared difference up to delta, beyond it delta * (|difference| - delta / 2). Huber 1964.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: d <= delta: d^2 / 2, else delta (d - delta / 2), d = |x - y|, Huber 1964
---Raises where sizes do not fit each other, delta is not above 0, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, delta: number?} # delta: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:huber_loss(y, opts) end

---sqrt(a^2 + b^2) without overflow on the way.
---Shape of the result: broadcast of a and b
---Formula: m * sqrt(1 + (n / m)^2), m the larger, n the smaller magnitude
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:hypot(b) end

---sqrt(a^2 + b^2) without overflow on the way; written to the first argument
---Shape of the result: broadcast of a and b
---Formula: m * sqrt(1 + (n / m)^2), m the larger, n the smaller magnitude
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:hypot_(b) end

---The modified Bessel function of the first kind and order 0.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:i0() end

---the modified Bessel function of the first kind, order 0; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:i0_() end

---The modified Bessel function of the first kind and order 1.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:i1() end

---the modified Bessel function of the first kind, order 1; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:i1_() end

---the imaginary parts of complex numbers, a view; 0 where x is real
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function Tensor:imag() end

---x with src's places added at the positions of a dim that the index names, one after the other.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes.
---@param dim integer
---@param index tycho.Tensor # integers [n], from 1, negative from the end
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # shape and dtype of x
function Tensor:index_add(dim, index, src) end

---x with src's places added at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor # integers [n], from 1, negative from the end
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:index_add_(dim, index, src) end

---x with src's places written at the positions of a dim that the index names; the last of equal ones wins.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes.
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # shape and dtype of x
function Tensor:index_copy(dim, index, src) end

---x with src's places written at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:index_copy_(dim, index, src) end

---x with a number at the positions of a dim that the index names.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the value does not fit the dtype.
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param value number|tycho.Tensor # a number or 0-d tensor
---@return tycho.Tensor # shape and dtype of x
function Tensor:index_fill(dim, index, value) end

---x with a number at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the value does not fit the dtype; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param value number|tycho.Tensor # a number or 0-d tensor
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:index_fill_(dim, index, value) end

---x with values written where the tensors of positions meet, one for each of the first dims; their sizes broadcast.
---A bool tensor names the places where it holds, which reads it. With accumulate values are added, in order; else
---the last of equal ones wins.
---Shape of the result: x
---Raises where positions are out of range, there are more of them than dims, or the values do not broadcast.
---@param indices tycho.Tensor[] # integers or bool
---@param values tycho.Tensor|number # broadcasts to the positions and the other dims of x
---@param accumulate? boolean # false
---@return tycho.Tensor # shape and dtype of x
function Tensor:index_put(indices, values, accumulate) end

---x with values written where tensors of positions meet; written to the first argument
---Shape of the result: x
---Raises where positions are out of range, there are more of them than dims, or the values do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param indices tycho.Tensor[] # integers or bool
---@param values tycho.Tensor|number # broadcasts to the positions and the other dims of x
---@param accumulate? boolean # false
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:index_put_(indices, values, accumulate) end

---the places of a dim that a 1-d index names
---Raises where an index is no integer, or out of range.
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end; one dim
---@return tycho.Tensor # that dim as long as the index
function Tensor:index_select(dim, index) end

---Sums of products over the last dims.
---Shape of the result: other dims of a, then of b
---Raises where the last sizes differ.
---@param b tycho.Tensor # [.., k]
---@return tycho.Tensor # the other dims of a, then those of b
function Tensor:inner(b) end

---x converted to i32
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:int() end

---Values between points, on straight lines; those of the first and the last point beyond them. As NumPy's.
---Shape of the result: x
---Raises where the points are no two vectors of the same size, or none.
---@param xp tycho.Tensor # [n], ascending; that is not checked
---@param fp tycho.Tensor # [n], the values there
---@param opts? {left: number?, right: number?} # the values below the first and above the last point
---@return tycho.Tensor # shape of x; floats
function Tensor:interp(xp, fp, opts) end

---Another number of places in each dim behind batch and channels.
---Options: size, a number or a list; or scale (scale_factor), likewise; mode = "nearest" (of the place's corner),
---"nearest-exact" (of its middle), "linear" (also "bilinear", "trilinear"): between neighbours, "bicubic": of four
---a dim, "area": means; align_corners = false: whether the outer places keep their values; antialias = false: of
---linear and cubic modes, whether all places count that an output covers; recompute_scale_factor = false: whether
---places lie as with the size that follows from the scale, not with the scale, where that gives no whole number.
---Shape of the result: [batch, channels, size...]
---Formula: as PyTorch's interpolate
---Raises where x has other dims than 3 to 5, not one of size and scale is given, or the mode is not known.
---@param opts {size: integer|integer[]|nil, scale: number|number[]|nil, scale_factor: number|number[]|nil, mode: string?, align_corners: boolean?, antialias: boolean?, recompute_scale_factor: boolean?}
---@return tycho.Tensor # [batch, channels, size...]
function Tensor:interpolate(opts) end

---the same as bitwise_not: every bit turned over; for bool the opposite
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted
function Tensor:invert() end

---whether x is a tensor of complex numbers
---Raises nothing: what is no tensor is not.
---@return boolean
function Tensor:is_complex() end

---whether the elements lie row by row
---Raises where x is no tensor.
---@return boolean
function Tensor:is_contiguous() end

---Whether its elements are real floats.
---Shape of the result: a boolean
---Raises where x is no tensor.
---@return boolean
function Tensor:is_floating_point() end

---Whether |a - b| <= atol + rtol * |b|, or a equals b; infinities are close to themselves alone.
---Options: rtol = 1e-5, atol = 1e-8, equal_nan = false.
---Shape of the result: broadcast of a and b
---Formula: as NumPy's isclose
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
---@return tycho.Tensor # bool, the broadcast shape
function Tensor:isclose(b, opts) end

---Whether the imaginary part is not 0.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # bool, shape of x
function Tensor:iscomplex() end

---Whether x is neither infinite nor NaN.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # bool, shape of x
function Tensor:isfinite() end

---Whether each element is one of the values; NaN is none of them.
---Shape of the result: x
---Raises where neither is a tensor.
---@param values tycho.Tensor|number # any shape
---@param opts? {invert: boolean?} # false; true: whether it is none of them
---@return tycho.Tensor # bool, shape of x
function Tensor:isin(values, opts) end

---Whether x is infinite, of either sign.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # bool, shape of x
function Tensor:isinf() end

---Whether x is not a number.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # bool, shape of x
function Tensor:isnan() end

---Whether the imaginary part is 0; so of all reals.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # bool, shape of x
function Tensor:isreal() end

---The signal whose pieces have these transforms, in the sense of least squares: the inverse of ty.stft. As
---torch.istft; places that no window reaches are NaN, where PyTorch raises.
---Shape of the result: [..., places]
---Raises where x has not the frequencies of n_fft, or an option does not fit.
---@param n_fft integer # the places of a piece
---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, normalized: boolean?, onesided: boolean?, length: integer?, return_complex: boolean?} # as ty.stft was given; length: the places of the result; return_complex: false
---@return tycho.Tensor # real [places] or [batch, places]
function Tensor:istft(n_fft, opts) end

---the only element as a number or boolean.
---Waits for what computes x. Within a compiled function it ends a part.
---Raises where x has another number of elements than one, or an i64 is no Lua number exactly. A complex number gives its real and its imaginary part.
---@return number|boolean value
---@return number? imaginary
function Tensor:item() end

---How far target, a distribution, is from x, logarithms of one: target * (log(target) - x); 0 where target is.
---Options: reduction, also "batchmean": the sum divided by the size of dim 1; log_target = false: target holds
---logarithms too. Kullback, Leibler 1951.
---Shape of the result: 0-d, or the broadcast of x and target
---Formula: target (log(target) - x), Kullback, Leibler 1951
---Raises where sizes do not fit each other, or the reduction is not known.
---@param target tycho.Tensor # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_target: boolean?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:kl_div(target, opts) end

---Kronecker's product: every element of a times all of b, as blocks.
---Shape of the result: each size the product of the two
---Raises where an argument is no tensor, or the result has more than 8 dims on the way.
---@param b tycho.Tensor # at most 4 dims, as a
---@return tycho.Tensor # each size the product of the two
function Tensor:kron(b) end

---The k-th smallest element along a dim, and its position; of equal ones the first.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or k outside of 1 to its size.
---@param k integer # from 1
---@param dim? integer # the last
---@param keepdim? boolean # false
---@return tycho.Tensor values
---@return tycho.Tensor positions # x without the dim; positions are i64 from 1
function Tensor:kthvalue(k, dim, keepdim) end

---the magnitudes of the differences, their mean by default
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:l1_loss(y, opts) end

---Over the last dim (or dims): (x - mean) / sqrt(var + eps) * weight + bias, the variance with correction 0.
---Ba, Kiros, Hinton 2016, arXiv:1607.06450.
---Shape of the result: x
---Raises where x is not floating, a dim is out of range, or weight or bias does not broadcast to x.
---@param weight? tycho.Tensor # broadcasts to x
---@param bias? tycho.Tensor # broadcasts to x
---@param opts? {dims: integer|integer[]|nil, eps: number?} # the last dim, 1e-5
---@return tycho.Tensor # shape and dtype of x
function Tensor:layer_norm(weight, bias, opts) end

---x times 2 to the power n
---Shape of the result: broadcast of x and n
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param n tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:ldexp(n) end

---bool: a below or equal to b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:le(b) end

---x above zero, else slope * x.
---Shape of the result: x
---Raises where x is not floating.
---@param slope? number # 0.01
---@return tycho.Tensor # shape and dtype of x
function Tensor:leaky_relu(slope) end

---x above zero, else slope * x; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param slope? number # 0.01
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:leaky_relu_(slope) end

---a + weight * (b - a): a at weight 0, b at weight 1.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number
---@param weight tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape
function Tensor:lerp(b, weight) end

---a + weight * (b - a); written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number
---@param weight tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:lerp_(b, weight) end

---the same as lt: bool: a below b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:less(b) end

---the same as le: bool: a below or equal to b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:less_equal(b) end

---The logarithm of the magnitude of the gamma function; inf at 0, -1, -2 ...
---Near its zeros below 0 the error is absolute, some 1e-16.
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:lgamma() end

---the logarithm of the magnitude of the gamma function; written to the first argument
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:lgamma_() end

---the natural logarithm; -inf at zero, NaN below
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:log() end

---the logarithm to base 10
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:log10() end

---the logarithm to base 10; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:log10_() end

---log(1 + x), accurate near zero
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:log1p() end

---log(1 + x), accurate near zero; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:log1p_() end

---the logarithm to base 2
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:log2() end

---the logarithm to base 2; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:log2_() end

---the natural logarithm; -inf at zero, NaN below; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:log_() end

---writes numbers with normal logarithms to x, returns it
---Shape of the result: x
---Raises where x is no float tensor, std is not above 0, or x is a leaf that requires a gradient.
---@param mean? number # 1: of the logarithms
---@param std? number # 2: of the logarithms
---@return tycho.Tensor # x itself
function Tensor:log_normal_(mean, std) end

---The logarithm of softmax over one dim, exact for small probabilities.
---Shape of the result: x
---Formula: z - log(sum(exp(z))), z = x - max(x)
---Raises where x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function Tensor:log_softmax(dim) end

---the logarithm of softmax over a dim; written to the first argument
---Shape of the result: x
---Formula: z - log(sum(exp(z))), z = x - max(x)
---Raises where x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:log_softmax_(dim) end

---log(exp(a) + exp(b)) without overflow.
---Shape of the result: broadcast of a and b
---Formula: max(a, b) + log1p(exp(-|a - b|))
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:logaddexp(b) end

---log2(2^a + 2^b) without overflow.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:logaddexp2(b) end

---log(exp(a) + exp(b)) without overflow; written to the first argument
---Shape of the result: broadcast of a and b
---Formula: max(a, b) + log1p(exp(-|a - b|))
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logaddexp_(b) end

---logarithm of the running sum of exp(x) along a dim
---Raises where the dim is out of range.
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers give the default float
function Tensor:logcumsumexp(dim) end

---Whether both are true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function Tensor:logical_and(b) end

---bool: both are true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logical_and_(b) end

---Whether it is false, that is zero.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # bool, shape of x
function Tensor:logical_not() end

---bool: false, that is zero; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logical_not_() end

---Whether either is true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function Tensor:logical_or(b) end

---bool: either is true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logical_or_(b) end

---Whether one alone is true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function Tensor:logical_xor(b) end

---bool: one alone is true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logical_xor_(b) end

---log(x / (1 - x)), the inverse of sigmoid; NaN outside of 0 to 1.
---Shape of the result: x
---Raises where x is no tensor.
---@param eps? number # x is kept from eps to 1 - eps; without it nothing is
---@return tycho.Tensor # shape of x, floats
function Tensor:logit(eps) end

---log(x / (1 - x)), the inverse of sigmoid; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param eps? number # x is kept from eps to 1 - eps; without it nothing is
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logit_(eps) end

---log(sigmoid(x)), without overflow.
---Shape of the result: x
---Formula: -softplus(-x)
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:logsigmoid() end

---log(sigmoid(x)); written to the first argument
---Shape of the result: x
---Formula: -softplus(-x)
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:logsigmoid_() end

---log(sum(exp(x))) without overflow; -inf of nothing.
---Shape of the result: x without the dims
---Formula: m + log(sum(exp(x - m))), m = max(x), or 0 where that is infinite
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function Tensor:logsumexp(dims, keepdim) end

---x converted to i64
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:long() end

---The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
---Shape of the result: the places become windows
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param p number
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
---@return tycho.Tensor # [batch, channels, windows]
function Tensor:lp_pool1d(p, kernel, opts) end

---The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
---Shape of the result: the places become windows
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param p number
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
---@return tycho.Tensor # [batch, channels, windows down, windows across]
function Tensor:lp_pool2d(p, kernel, opts) end

---bits moved up; 0 beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:lshift(b) end

---bits moved up; 0 beyond the width or for a negative count; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:lshift_(b) end

---bool: a below b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:lt(b) end

---max(0, margin - y (a - b)): a is to lie above b where y is 1, below where it is -1.
---Shape of the result: 0-d, or the broadcast of all
---Raises where sizes do not broadcast, or the reduction is not known.
---@param b tycho.Tensor # floats
---@param y tycho.Tensor # floats: 1 or -1
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:margin_ranking_loss(b, y, opts) end

---x with value where the bool mask holds
---Shape of the result: broadcast of x and mask
---Raises where the mask is not bool or does not broadcast to x, or the value does not fit the dtype.
---@param mask tycho.Tensor # bool, broadcasts with x
---@param value tycho.Tensor|number|boolean # a number or 0-d tensor, cast to x's dtype
---@return tycho.Tensor # the broadcast shape, dtype of x
function Tensor:masked_fill(mask, value) end

---x with value where the bool mask holds; written to the first argument
---Shape of the result: broadcast of x and mask
---Raises where the mask is not bool or does not broadcast to x, or the value does not fit the dtype; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param mask tycho.Tensor # bool, broadcasts with x
---@param value tycho.Tensor|number|boolean # a number or 0-d tensor, cast to x's dtype
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:masked_fill_(mask, value) end

---x with the elements of src, in order, where the mask holds.
---Shape of the result: x
---Raises where the mask is not bool or does not broadcast to x, or src has fewer elements than the mask has places.
---@param mask tycho.Tensor # bool, broadcasts to x
---@param src tycho.Tensor # at least as many elements as the mask holds
---@return tycho.Tensor # shape and dtype of x
function Tensor:masked_scatter(mask, src) end

---x with the elements of src, in order, where the mask holds; written to the first argument
---Shape of the result: x
---Raises where the mask is not bool or does not broadcast to x, or src has fewer elements than the mask has places; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param mask tycho.Tensor # bool, broadcasts to x
---@param src tycho.Tensor # at least as many elements as the mask holds
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:masked_scatter_(mask, src) end

---elements where the bool mask holds, as one row.
---The same as x[mask]. Reads data: a compiled function goes on in another part behind it.
---Raises where the mask is not bool, or does not broadcast to x.
---@param mask tycho.Tensor # bool, broadcasts to x
---@return tycho.Tensor # [count]
function Tensor:masked_select(mask) end

---matrix product, batched over leading dims.
---Sums go in blocks of 256 by fused multiply-add: the bits are the same for any machine and number of threads.
---Raises where inner sizes differ or leading dims do not broadcast.
---@param b tycho.Tensor # [..., k, m], or a vector [k]
---@return tycho.Tensor # [..., n, m]; a vector's dim is left out; dtypes promoted, half floats are added in f32
function Tensor:matmul(b) end

---the largest element over dims; NaN wins.
---The gradient is shared equally by those that are largest.
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmax.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function Tensor:max(dims, keepdim) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options: stride = kernel, padding = 0 (of -inf), dilation = 1, ceil_mode = false; return_indices = false: where
---the elements lie, as a second result (for ty.max_unpool1d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows]; the same in i64, places from 1
function Tensor:max_pool1d(kernel, opts) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options, a number or {rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1; ceil_mode = false;
---return_indices = false: where the elements lie, row after row, as a second result (for ty.max_unpool2d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows down, windows across]; the same in i64, places from 1
function Tensor:max_pool2d(kernel, opts) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1;
---ceil_mode = false; return_indices = false: where the elements lie, as a second result (for ty.max_unpool3d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows of each dim]; the same in i64, places from 1
function Tensor:max_pool3d(kernel, opts) end

---The inverse of max_pool1d, as far as there is one: elements at their places, zeros elsewhere.
---Options: stride = kernel, padding = 0, as of the pooling; output_size: a list, where the sizes that follow from
---these are not those that were pooled.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param places tycho.Tensor # integers from 1, as max_pool1d gives them with return_indices
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, length]
function Tensor:max_unpool1d(places, kernel, opts) end

---The inverse of max_pool2d, as far as there is one: elements at their places, zeros elsewhere. Options as of
---max_unpool1d.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param places tycho.Tensor # integers from 1, as max_pool2d gives them with return_indices
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, height, width]
function Tensor:max_unpool2d(places, kernel, opts) end

---The inverse of max_pool3d, as far as there is one: elements at their places, zeros elsewhere. Options as of
---max_unpool1d.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param places tycho.Tensor # integers from 1, as max_pool3d gives them with return_indices
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, depth, height, width]
function Tensor:max_unpool3d(places, kernel, opts) end

---the larger; NaN wins, +0 above -0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:maximum(b) end

---the larger; NaN wins, +0 above -0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:maximum_(b) end

---The arithmetic mean: the sum divided by the count; NaN of nothing.
---Shape of the result: x without the dims
---Formula: sum(x) / n
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats, integers give the default float
function Tensor:mean(dims, keepdim) end

---The middle element in order; of an even count the lower one. NaN wins.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dim? integer # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim, dtype of x
function Tensor:median(dim, keepdim) end

---the smallest element over dims; NaN wins.
---The gradient is shared equally by those that are smallest.
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmin.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function Tensor:min(dims, keepdim) end

---the smaller; NaN wins, -0 below +0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:minimum(b) end

---the smaller; NaN wins, -0 below +0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:minimum_(b) end

---x * tanh(softplus(x)). Misra 2019, arXiv:1908.08681.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:mish() end

---x * tanh(softplus(x)); written to the first argument
---Shape of the result: x
---Formula: Misra 2019, arXiv:1908.08681
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:mish_() end

---The product of two matrices.
---Shape of the result: [n, m]
---Raises where an argument is no matrix, or inner sizes differ.
---@param b tycho.Tensor # [k, m]
---@return tycho.Tensor # [n, m]
function Tensor:mm(b) end

---the same as remainder: remainder with the divisor's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:mod(b) end

---The element that comes most often along a dim, the smallest of several; and the last position where it stands.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dim? integer # the last
---@param keepdim? boolean # false
---@return tycho.Tensor values
---@return tycho.Tensor positions # x without the dim; positions are i64 from 1
function Tensor:mode(dim, keepdim) end

---the same as movedim: dims moved to other places, the rest in order; a view
---Raises where a dim is given twice or out of range, or the lists differ in length.
---@param from integer|integer[]
---@param to integer|integer[] # where those dims are in the result
---@return tycho.Tensor # a view
function Tensor:moveaxis(from, to) end

---dims moved to other places, the rest in order; a view
---Raises where a dim is given twice or out of range, or the lists differ in length.
---@param from integer|integer[]
---@param to integer|integer[] # where those dims are in the result
---@return tycho.Tensor # a view
function Tensor:movedim(from, to) end

---the squared differences, their mean by default
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:mse_loss(y, opts) end

---The elements in ascending order along the first dim.
---Shape of the result: x
---Raises where x has no dims.
---@return tycho.Tensor # shape and dtype of x
function Tensor:msort() end

---product, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:mul(b) end

---product, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:mul_(b) end

---The mean over classes of max(0, margin - x[label] + x[class])^p, the label's own left out.
---Options: p = 1, or 2; margin = 1; weight, of the labels' classes; reduction.
---Shape of the result: 0-d, or the labels'
---Raises where labels do not fit x or lie outside of its classes, p is not 1 or 2, or the reduction is not known.
---@param target tycho.Tensor # integer labels from 1, [...]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, p: 1|2|nil, margin: number?, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.Tensor # 0-d, or the sizes of the labels
function Tensor:multi_margin_loss(target, opts) end

---Several labels a sample: the sum of max(0, 1 - x[label] + x[class]) over labels, and over classes that are no
---label, divided by the number of classes.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where labels have not the sizes of x, or the reduction is not known.
---@param target tycho.Tensor # integer labels from 1, [..., classes]: those before the first 0 count
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the sizes of x without classes
function Tensor:multilabel_margin_loss(target, opts) end

---The mean over classes of bce_with_logits: several labels a sample.
---Options: reduction, over the samples; weight, of the classes.
---Shape of the result: 0-d, or the sizes without the last dim
---Formula: mean over classes of y softplus(-x) + (1 - y) softplus(x)
---Raises where sizes do not fit each other, or the reduction is not known.
---@param y tycho.Tensor # 0 or 1, the sizes of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.Tensor # 0-d, or the sizes of x without the last dim
function Tensor:multilabel_soft_margin_loss(y, opts) end

---n positions along the last dim, drawn by weight; weights at least 0, not all 0.
---Weights need not add up to 1.
---Raises where more are to be drawn than there are without replacement.
---@param n integer # how many are drawn from each row
---@param replacement? boolean # false: no position comes twice
---@return tycho.Tensor # [n] or [rows, n]; i64, positions from 1
function Tensor:multinomial(n, replacement) end

---the same as mul: product, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:multiply(b) end

---the same as mul: product, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:multiply_(b) end

---The product of a matrix and a vector.
---Shape of the result: [n]
---Raises where the arguments are no matrix and vector, or inner sizes differ.
---@param v tycho.Tensor # [k]
---@return tycho.Tensor # [n]
function Tensor:mv(v) end

---numbers in place of NaN and infinities; the dtype's largest by default
---Shape of the result: x
---Raises where x is not a tensor or a number given is none.
---@param nan? number # for NaN, 0
---@param posinf? number # for inf, the dtype's largest
---@param neginf? number # for -inf, the dtype's lowest
---@return tycho.Tensor # shape and dtype of x
function Tensor:nan_to_num(nan, posinf, neginf) end

---numbers in place of NaN and infinities; the dtype's largest by default; written to the first argument
---Shape of the result: x
---Raises where x is not a tensor or a number given is none; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param nan? number # for NaN, 0
---@param posinf? number # for inf, the dtype's largest
---@param neginf? number # for -inf, the dtype's lowest
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:nan_to_num_(nan, posinf, neginf) end

---The largest of all that is no NaN; NaN where all is.
---Shape of the result: x without the dims
---Raises where a dim is out of range, or nothing is to be chosen from.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function Tensor:nanmax(dims, keepdim) end

---The mean of all that is no NaN; NaN of nothing.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function Tensor:nanmean(dims, keepdim) end

---The middle of all that is no NaN; of an even count the lower one.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dim? integer # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; floats
function Tensor:nanmedian(dim, keepdim) end

---The smallest of all that is no NaN; NaN where all is.
---Shape of the result: x without the dims
---Raises where a dim is out of range, or nothing is to be chosen from.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function Tensor:nanmin(dims, keepdim) end

---As quantile, of all that is no NaN.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
---@param q number|tycho.Tensor # 0 to 1, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear"
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function Tensor:nanquantile(q, dim, keepdim, opts) end

---The sum of all that is no NaN.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
function Tensor:nansum(dims, keepdim) end

---length places of a dim from start on, as a view
---Raises where the places are out of range.
---@param dim integer
---@param start integer # the first place, 1-based
---@param length integer # how many places, from 0
---@return tycho.Tensor # a view with `length` places in that dim
function Tensor:narrow(dim, start, length) end

---bool: not equal; NaN differs from all
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:ne(b) end

---the negative, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:neg() end

---the negative, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:neg_() end

---the same as neg: the negative, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:negative() end

---the same as neg: the negative, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:negative_() end

---the same as numel: the number of elements
---Raises where x is no tensor.
---@return integer # the product of the sizes; 1 without dims
function Tensor:nelement() end

---Elements of any value in the dtype and on the device of x.
---Shape of the result: the sizes
---Raises where x is no tensor, or a size is no whole number from 0.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes
function Tensor:new_empty(...) end

---One value in every element, in the dtype and on the device of x.
---Shape of the result: the sizes
---Raises where x is no tensor, or the value does not fit the dtype.
---@param sizes integer|integer[]
---@param value number|boolean
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # these sizes
function Tensor:new_full(sizes, value, opts) end

---Ones in the dtype and on the device of x.
---Shape of the result: the sizes
---Raises where x is no tensor, or a size is no whole number from 0.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes
function Tensor:new_ones(...) end

---A copy of data in the dtype and on the device of x.
---Shape of the result: the sizes
---Raises where x is no tensor, nested tables are ragged, or a number does not fit.
---@param data number|boolean|table|tycho.Tensor # nested tables, one level a dim
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of the nesting
function Tensor:new_tensor(data, opts) end

---Zeros in the dtype and on the device of x.
---Shape of the result: the sizes
---Raises where x is no tensor, or a size is no whole number from 0.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes
function Tensor:new_zeros(...) end

---Minus the log-probability of each label.
---Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
---nothing; weight [classes], which multiplies the losses of each class: a mean divides by those of the labels.
---Shape of the result: 0-d, or the labels'
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where weights are not one for each class.
---@param target tycho.Tensor # integer labels from 1, sizes of x without the class dim
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, weight: tycho.Tensor?}
---@return tycho.Tensor # 0-d, or the sizes of the labels
function Tensor:nll_loss(target, opts) end

---positions of the elements that are not zero, one row each: i64 [count, ndim].
---Reads data: a compiled function goes on in another part behind it.
---Raises where x is no tensor.
---@return tycho.Tensor # [count, ndim]; i64, positions from 1
function Tensor:nonzero() end

---The p-norm of the elements: the p-th root of the sum of |x|^p. p = inf: the largest magnitude, -inf: the smallest,
---0: how many are not zero.
---Shape of the result: x without the dims
---Formula: sum(|x|^p)^(1/p)
---Raises where a dim is out of range or given twice, or the largest of nothing is asked for.
---@param p? number # 2
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function Tensor:norm(p, dims, keepdim) end

---writes normal numbers to x, returns it
---Raises where x is no float tensor, or the deviation is negative.
---@param mean? number # 0
---@param std? number # 1
---@return tycho.Tensor # x itself
function Tensor:normal_(mean, std) end

---x / max(|x|, eps), the norm over one dim: vectors of norm 1.
---Options: p = 2, of the norm; dim = -1 (PyTorch's is the second); eps = 1e-12.
---Shape of the result: x
---Raises where x is not floating, or dim is out of range.
---@param opts? {p: number?, dim: integer?, eps: number?}
---@return tycho.Tensor # shape and dtype of x
function Tensor:normalize(opts) end

---the same as ne: bool: not equal; NaN differs from all
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function Tensor:not_equal(b) end

---the number of elements
---Raises where x is no tensor.
---@return integer # the product of the sizes; 1 without dims
function Tensor:numel() end

---1 at the class's place of a new last dim, else 0.
---Shape of the result: index, then classes
---Raises where the index is not of integers, or one lies outside of 1 to the number of classes.
---@param classes? integer # how many; by default the largest class, which computes the index
---@return tycho.Tensor # i64, shape of the index and `classes` behind
function Tensor:one_hot(classes) end

---1 in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:ones_like(opts) end

---All products of an element of a with one of b.
---Shape of the result: [n, m]
---Raises where an argument is no vector.
---@param b tycho.Tensor # [m]
---@return tycho.Tensor # [n, m]
function Tensor:outer(b) end

---places of value around x, from dim 1 on.
---A number stands for a pair of it: {1, 2} is {{1, 1}, {2, 2}}. That is not PyTorch's list, which begins with the last
---dim: its F.pad(x, (1, 2)) is x:pad({..., {1, 2}}) here, with {0, 0} for each dim before the last.
---Raises where there are more pairs than dims, or a number is negative.
---@param pairs (integer|{[1]: integer, [2]: integer})[] # {before, after} of dim 1, 2, ...
---@param value? number # 0
---@return tycho.Tensor # each dim longer by before + after
function Tensor:pad(pairs, value) end

---The norm of a - b + eps over the last dim.
---Options: p = 2, of the norm; eps = 1e-6; keepdim = false.
---Shape of the result: the broadcast of a and b without the last dim
---Raises where sizes do not broadcast.
---@param b tycho.Tensor # floats [..., features]
---@param opts? {p: number?, eps: number?, keepdim: boolean?}
---@return tycho.Tensor # the broadcast sizes without the last dim
function Tensor:pairwise_distance(b, opts) end

---The p-norms of the differences of each row with those behind it.
---Shape of the result: [n (n - 1) / 2]
---Raises where x is no matrix.
---@param p? number # 2; also 0, 1, math.huge
---@return tycho.Tensor # [n (n - 1) / 2]; floats
function Tensor:pdist(p) end

---As quantile, with q in per cent, as NumPy's.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 100, or nothing is to be chosen from.
---@param q number|tycho.Tensor # 0 to 100, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear"
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function Tensor:percentile(q, dim, keepdim, opts) end

---the dims in another order, as a view
---Raises where a dim is missing, given twice or out of range.
---@param dims integer|integer[] # every dim once, one by one or in a table
---@param ... integer # the others
---@return tycho.Tensor # a view
function Tensor:permute(dims, ...) end

---the same as permute: the dims in another order, as a view
---Raises where a dim is missing, given twice or out of range.
---@param dims integer|integer[] # every dim once, one by one or in a table
---@param ... integer # the others
---@return tycho.Tensor # a view
function Tensor:permute_dims(dims, ...) end

---Channels moved into blocks of r x r places.
---Shape of the result: [..., c, h r, w r]
---Raises where x has fewer than three dims, or r^2 does not divide the channels.
---@param factor integer # r
---@return tycho.Tensor # [..., c, h r, w r]
function Tensor:pixel_shuffle(factor) end

---Blocks of r x r places moved into channels.
---Shape of the result: [..., c r^2, h, w]
---Raises where x has fewer than three dims, or r does not divide the places.
---@param factor integer # r
---@return tycho.Tensor # [..., c r^2, h, w]
function Tensor:pixel_unshuffle(factor) end

---Numbers of events, of Poisson's distribution with that mean: one for each element. Reads the largest mean.
---By inversion, in f64: the probabilities of 0, 1, 2, ... are added up until they exceed a uniform number. A large
---mean is a sum of several draws.
---Shape of the result: rate
---Formula: the least k with u < sum of exp(-rate) rate^i / i!, i = 0 to k
---Raises where a mean is negative, not finite, or above 1e6.
---@return tycho.Tensor # shape and dtype of rate
function Tensor:poisson() end

---Minus the log-likelihood of counts under a Poisson distribution: exp(x) - target * x.
---Options: log_input = true; false: x is the mean itself, x - target * log(x + eps); full = false: with Stirling's
---approximation of log(target!) for targets above 1; eps = 1e-8; reduction.
---Shape of the result: 0-d, or the broadcast of x and target
---Formula: exp(x) - target x
---Raises where sizes do not fit each other, or the reduction is not known.
---@param target tycho.Tensor|number # counts, broadcast to x, or x to them
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_input: boolean?, full: boolean?, eps: number?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:poisson_nll_loss(target, opts) end

---The coefficients of the polynomial of that degree that fits points best, in the sense of least squares; the
---highest power's first. As NumPy's. Stands on LAPACK.
---Shape of the result: [degree + 1]
---Raises where x and y differ in size, or the degree is negative.
---@param y tycho.Tensor # [n] or [n, curves]
---@param degree integer
---@return tycho.Tensor # [degree + 1] or [degree + 1, curves]; floats
function Tensor:polyfit(y, degree) end

---The value of a polynomial, the highest power's coefficient first. As NumPy's.
---Shape of the result: x
---Raises where the coefficients are no vector.
---@param x tycho.Tensor|number # where
---@return tycho.Tensor # shape of x
function Tensor:polyval(x) end

---a to the power b; integers wrap, a negative exponent truncates
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:pow(b) end

---a to the power b; integers wrap, a negative exponent truncates; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:pow_(b) end

---the same as pow: a to the power b; integers wrap, a negative exponent truncates
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:power(b) end

---x above zero, else weight * x, of one weight for all or one a channel. He and others 2015, arXiv:1502.01852.
---Shape of the result: x
---Raises where x is not floating, or the weight is neither one number nor one a channel.
---@param weight tycho.Tensor # floats [1] or [channels]
---@return tycho.Tensor # shape of x
function Tensor:prelu(weight) end

---x above zero, else weight * x; written to the first argument
---Shape of the result: x
---Formula: He and others 2015, arXiv:1502.01852
---Raises where x is not floating, or the weight is neither one number nor one a channel; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param weight tycho.Tensor # floats [1] or [channels]
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:prelu_(weight) end

---product over dims
---Raises where a dim is out of range or given twice, or the list is empty.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; integers and bool give i64; 1 of nothing
function Tensor:prod(dims, keepdim) end

---the same as digamma: the logarithmic derivative of the gamma function
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:psi() end

---The largest element less the smallest.
---Shape of the result: x without the dims
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims
function Tensor:ptp(dims, keepdim) end

---What of the elements in order lies at the part q of the way from the first to the last; NaN where one is.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
---@param q number|tycho.Tensor # 0 to 1, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear": between two elements
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function Tensor:quantile(q, dim, keepdim, opts) end

---Radians as degrees.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats
function Tensor:rad2deg() end

---radians as degrees; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:rad2deg_() end

---the same as deg2rad: degrees as radians
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats
function Tensor:radians() end

---uniform numbers from 0 to below 1 in the shape and dtype of x
---Raises where x is no tensor, or the dtype no float.
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:rand_like(opts) end

---normal numbers in the shape and dtype of x
---Raises where x is no tensor, or the dtype no float.
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:randn_like(opts) end

---Writes whole numbers from `from` to `to`, both of them among these, each as likely. Without them: from 0 to the
---largest that the dtype holds together with all below it (2^53 - 1 at most).
---Shape of the result: x
---Raises where only one bound is given, from is above to, or x is complex or a leaf that requires a gradient.
---@param from? integer # 0
---@param to? integer # the dtype's largest; it is drawn, too, as by math.random
---@return tycho.Tensor # x itself
function Tensor:random_(from, to) end

---the same as flatten: dims first to last as one
---Raises where a dim is out of range, or the first lies behind the last.
---@param first? integer # 1
---@param last? integer # the last
---@return tycho.Tensor # a view where strides allow it, else a copy
function Tensor:ravel(first, last) end

---the real parts of complex numbers, a view; x itself if it is real
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function Tensor:real() end

---1 / x, element by element; inf at zero.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:reciprocal() end

---1 / x, element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:reciprocal_() end

---Calls fn(g) in each backward pass with the tensor's complete gradient. What fn gives, a tensor of the same dims
---and dtype, goes on in its place; nil changes nothing. Several are called in order, each with what the one before
---gave.
---Raises where x requires no grad, or is a view of part of another tensor.
---@param fn fun(g: tycho.Tensor): tycho.Tensor?
---@return tycho.HookHandle
function Tensor:register_hook(fn) end

---frees the memory of x at once, unless others share it; x cannot be used afterwards.
---The collector is told of a tensor's bytes and frees it in time; this frees it now.
---Raises where x is no tensor; using x afterwards raises, too.
function Tensor:release() end

---The larger of x and 0. NaN stays.
---Shape of the result: x
---Formula: max(x, 0)
---Raises where x is not a tensor.
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function Tensor:relu() end

---min(max(x, 0), 6). Krizhevsky 2010. NaN stays.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:relu6() end

---x within 0..6; written to the first argument
---Shape of the result: x
---Formula: min(max(x, 0), 6)
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:relu6_() end

---the larger of x and 0; written to the first argument
---Shape of the result: x
---Formula: max(x, 0)
---Raises where x is not a tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:relu_() end

---remainder with the divisor's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:remainder(b) end

---remainder with the divisor's sign; an integer by 0 gives 0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:remainder_(b) end

---each element repeated; a count for all or a tensor of counts; no dim: flattened
---Raises where a count is negative, or counts are not as many as places.
---@param count integer|tycho.Tensor # one for all, or an integer tensor of one for each place
---@param dim? integer # flattened
---@return tycho.Tensor # that dim as long as the counts add up to
function Tensor:repeat_interleave(count, dim) end

---makes x a leaf: operations on it are taped, and backward fills x.grad.
---As PyTorch's.
---Raises where x is not of floats, or on = false and x is the result of an operation.
---@param on? boolean # true
---@return tycho.Tensor # x itself
function Tensor:requires_grad_(on) end

---x with other sizes, one of them -1 for what is left; a view where strides allow it, else a copy
---Raises where the sizes do not hold as many elements.
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # these sizes; the dtype of x
function Tensor:reshape(sizes, ...) end

---x with the sizes of another tensor of as many elements.
---Shape of the result: other
---Raises where it has others.
---@param other tycho.Tensor
---@return tycho.Tensor # the sizes of other
function Tensor:reshape_as(other) end

---Keeps the gradient of a tensor that is no leaf: backward passes fill its grad, adding to what is there, after all
---of its hooks. A leaf has it anyway. Writes to x keep it: it is the gradient of what x holds then.
---Raises where x requires no grad, or is a view of part of another tensor.
---@return tycho.Tensor # the same tensor x
function Tensor:retain_grad() end

---the same as round: the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:rint() end

---Over the last dim (or dims): x / sqrt(mean(x^2) + eps) * weight. Zhang, Sennrich 2019, arXiv:1910.07467.
---Shape of the result: x
---Raises where x is not floating, a dim is out of range, or the weight does not broadcast to x.
---@param weight? tycho.Tensor # broadcasts to x
---@param opts? {dims: integer|integer[]|nil, eps: number?} # the last dim, 1e-5
---@return tycho.Tensor # shape and dtype of x
function Tensor:rms_norm(weight, opts) end

---places moved up along dims, coming in again below; no dims: flattened
---Raises where shifts and dims differ in number, or a dim is out of range.
---@param shifts integer|integer[]
---@param dims? integer|integer[] # flattened, and back
---@return tycho.Tensor # the sizes of x
function Tensor:roll(shifts, dims) end

---x turned by k quarters in the plane of two dims, from the first to the second.
---Shape of the result: x, two sizes exchanged
---Raises where there are not two different dims.
---@param k? integer # 1; below zero it turns back
---@param dims? integer[] # {1, 2}
---@return tycho.Tensor # a view; the two sizes are exchanged for an odd k
function Tensor:rot90(k, dims) end

---the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:round() end

---the nearest whole number, half to even; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:round_() end

---an iterator over i, x[i] along dim 1.
---for i, row in x:rows() do ... end. Rows are views.
---Raises where x has no dims.
---@return fun(): integer, tycho.Tensor
function Tensor:rows() end

---bits moved down, keeping the sign; all sign beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function Tensor:rshift(b) end

---bits moved down, keeping the sign; all sign beyond the width or for a negative count; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:rshift_(b) end

---1 / sqrt(x), element by element; inf at zero, NaN below.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # shape of x, floats; integers give the default float
function Tensor:rsqrt() end

---1 / sqrt(x), element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:rsqrt_() end

---What the values give to each query, by softmax(q k^t scale + mask).
---Options: mask, of bools (true: seen) or of floats (added to the scores), which broadcasts to [..., queries, keys];
---causal = false: the last query sees all keys, each one before it one key less; dropout = 0, of the weights;
---training = true, else there is no dropout; scale = 1 / sqrt(features).
---Keys and values may have fewer heads (dim -3) than queries: each serves as many that stand side by side.
---Vaswani and others 2017, arXiv:1706.03762. Memory grows with queries + keys, not with their product.
---Shape of the result: [..., queries, width of v]
---Raises where features, positions, dtypes or leading sizes do not fit each other, or the mask does not broadcast to the scores.
---@param k tycho.Tensor # floats [..., keys, features]
---@param v tycho.Tensor # floats [..., keys, width]
---@param opts? {mask: tycho.Tensor?, causal: boolean?, dropout: number?, training: boolean?, scale: number?}
---@return tycho.Tensor # [..., queries, width], dtype of q
function Tensor:scaled_dot_product_attention(k, v, opts) end

---a with elements of src written at the index's positions along a dim; the last wins
---Raises where an index is no integer tensor, or out of range.
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function Tensor:scatter(dim, index, src) end

---a with elements of src written at the index's positions along a dim; the last wins; written to the first argument
---Raises where an index is no integer tensor, or out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:scatter_(dim, index, src) end

---a with elements of src added in order at the index's positions along a dim.
---The order of the sums is that of the index, on every machine.
---Raises where an index is no integer tensor, or out of range.
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function Tensor:scatter_add(dim, index, src) end

---a with elements of src added in order at the index's positions along a dim; written to the first argument
---Raises where an index is no integer tensor, or out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:scatter_add_(dim, index, src) end

---x with elements of src joined at the index's positions along a dim: by sum, prod, mean, amax or amin.
---Shape of the result: x
---Raises where an index is not of integers or out of range, or the kind is not known.
---@param dim integer
---@param index tycho.Tensor # integers, as many dims as x
---@param src tycho.Tensor # at least as large as the index
---@param reduce "sum"|"prod"|"mean"|"amax"|"amin" # also "mul", "max", "min"
---@param opts? {include_self: boolean?} # true: the element of x is one of those joined
---@return tycho.Tensor # shape and dtype of x
function Tensor:scatter_reduce(dim, index, src, reduce, opts) end

---x with elements of src joined at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where an index is not of integers or out of range, or the kind is not known; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim integer
---@param index tycho.Tensor # integers, as many dims as x
---@param src tycho.Tensor # at least as large as the index
---@param reduce "sum"|"prod"|"mean"|"amax"|"amin" # also "mul", "max", "min"
---@param opts? {include_self: boolean?} # true: the element of x is one of those joined
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:scatter_reduce_(dim, index, src, reduce, opts) end

---where values would go in sorted rows.
---Rows must be in ascending order; that is not checked.
---Raises where leading sizes differ.
---@param values tycho.Tensor|number # any shape for [n], else [..., m]
---@param right? boolean # false: before equal elements; true: behind them
---@return tycho.Tensor # the sizes of values; i64, places from 1 to n + 1
function Tensor:searchsorted(values, right) end

---The places of a dim at one position, without that dim.
---Shape of the result: x without the dim
---Raises where the dim or the position is out of range.
---@param dim integer
---@param index integer # from 1, negative from the end
---@return tycho.Tensor # a view without the dim
function Tensor:select(dim, index) end

---x with src at one position of a dim.
---Shape of the result: x
---Raises where the position is out of range, or src has other sizes than the places there.
---@param src tycho.Tensor # sizes of x without the dim
---@param dim integer
---@param index integer # from 1, negative from the end
---@return tycho.Tensor # shape and dtype of x
function Tensor:select_scatter(src, dim, index) end

---An elu of fixed alpha and scale, which keeps mean 0 and variance 1. Klambauer and others 2017, arXiv:1706.02515.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:selu() end

---an elu of fixed alpha and scale, which keeps mean 0 and variance 1; written to the first argument
---Shape of the result: x
---Formula: Klambauer and others 2017, arXiv:1706.02515
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:selu_() end

---writes one element, returns x
---Raises where there is not one index for each dim, one is out of range, or the value does not fit the dtype.
---@param ... integer|number|boolean # one index for each dim, then the value; of a complex number one part or both
---@return tycho.Tensor # x itself
function Tensor:set(...) end

---the same as sign: -1, 0 or 1 as x is below, at or above zero; NaN stays
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function Tensor:sgn() end

---x converted to i16
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # the sizes of x
function Tensor:short() end

---1 / (1 + exp(-x))
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:sigmoid() end

---1 / (1 + exp(-x)); written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sigmoid_() end

--- -1, 0 or 1 as x is below, equal to or above zero; NaN stays, and so does the sign of zero. Of complex numbers
---x / |x|, and 0 at 0.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function Tensor:sign() end

----1, 0 or 1 as x is below, at or above zero; NaN stays; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sign_() end

---Whether the sign is that of -1: -0 has it.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # bool, shape of x
function Tensor:signbit() end

---x * sigmoid(x), also called swish. Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:silu() end

---x * sigmoid(x); written to the first argument
---Shape of the result: x
---Formula: Elfwing, Uchibe, Doya 2017, arXiv:1702.03118
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:silu_() end

---the sine of x radians
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:sin() end

---the sine of x radians; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sin_() end

---sin(pi x) / (pi x), 1 at zero.
---Shape of the result: x
---Raises where x is no tensor.
---@return tycho.Tensor # shape of x, floats
function Tensor:sinc() end

---sin(pi x) / (pi x), 1 at zero; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sinc_() end

---the hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:sinh() end

---the hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sinh_() end

---the size of a dim, or a table of all.
---The properties x.shape, x.dtype, x.device, x.ndim say the rest.
---Raises where the dim is out of range.
---@param dim? integer # 1-based, negative from the end
---@return integer|integer[]
function Tensor:size(dim) end

---places first to last of a dim in steps, both included; a view.
---The same as x[{ ..., {first, last, step}, ... }].
---Raises where a place is out of range or the step is 0.
---@param dim integer
---@param first integer # negative from the end
---@param last integer # included where a step hits it; negative from the end
---@param step? integer # 1; below 0 it goes down
---@return tycho.Tensor # a view
function Tensor:slice(dim, first, last, step) end

---x with src at places of a dim, as x:slice(dim, first, last, step) reads them.
---Shape of the result: x
---Raises where the places are out of range, or src has other sizes than they.
---@param src tycho.Tensor
---@param dim? integer # 1
---@param first? integer # 1
---@param last? integer # the last, included where a step hits it
---@param step? integer # 1
---@return tycho.Tensor # shape and dtype of x
function Tensor:slice_scatter(src, dim, first, last, step) end

---Huber's loss divided by beta: half the squared difference over beta, beyond beta the difference less beta / 2.
---Girshick 2015, arXiv:1504.08083.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: d < beta: d^2 / (2 beta), else d - beta / 2, d = |x - y|
---Raises where sizes do not fit each other, beta is negative, or the reduction is not known.
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, beta: number?} # beta: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:smooth_l1_loss(y, opts) end

---log(1 + exp(-y x)) of targets 1 and -1.
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes do not fit each other, or the reduction is not known.
---@param y tycho.Tensor|number # 1 or -1, broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function Tensor:soft_margin_loss(y, opts) end

---Softmax over one dim: exp(x - max) / sum(exp(x - max)).
---Shape of the result: x
---Raises when x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function Tensor:softmax(dim) end

---exp(x - max) / sum(exp(x - max)) over a dim; written to the first argument
---Shape of the result: x
---Raises when x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:softmax_(dim) end

---The softmax of -x over one dim.
---Shape of the result: x
---Raises where x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function Tensor:softmin(dim) end

---the softmax of -x over a dim; written to the first argument
---Shape of the result: x
---Raises where x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:softmin_(dim) end

---log(1 + exp(beta * x)) / beta: a smooth relu.
---Shape of the result: x
---Raises where x is not floating.
---@param beta? number # 1
---@return tycho.Tensor # shape and dtype of x
function Tensor:softplus(beta) end

---log(1 + exp(beta * x)) / beta; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param beta? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:softplus_(beta) end

---x moved towards 0 by lambda, 0 where it would pass it. NaN stays.
---Shape of the result: x
---Raises where x is not floating, or lambda is negative.
---@param lambda? number # 0.5
---@return tycho.Tensor # shape and dtype of x
function Tensor:softshrink(lambda) end

---x moved towards 0 by lambda; written to the first argument
---Shape of the result: x
---Raises where x is not floating, or lambda is negative; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param lambda? number # 0.5
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:softshrink_(lambda) end

---x / (1 + |x|).
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:softsign() end

---x / (1 + |x|); written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:softsign_() end

---two results: the elements of a dim in order, stable, NaN counts as largest; and their positions
---Raises where the dim is out of range.
---@param dim? integer # the last
---@param descending? boolean # false; equal elements keep their order in both
---@return tycho.Tensor values
---@return tycho.Tensor positions # the sizes of x; positions are i64 from 1
function Tensor:sort(dim, descending) end

---a table of views of that size, the last one smaller; or of the sizes in a table
---Raises where the sizes do not add up to the dim, or one is negative.
---@param size integer|integer[]
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function Tensor:split(size, dim) end

---the same as split: a table of views of that size, the last one smaller; or of the sizes in a table
---Raises where the sizes do not add up to the dim, or one is negative.
---@param size integer|integer[]
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function Tensor:split_with_sizes(size, dim) end

---the square root; NaN below zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:sqrt() end

---the square root; NaN below zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sqrt_() end

---x * x, element by element.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function Tensor:square() end

---x * x, element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:square_() end

---without the dims of size 1, or without the given ones
---Raises where a dim that is named is not of size 1.
---@param dims? integer|integer[] # all of size 1
---@param ... integer # the others, where they stand one by one
---@return tycho.Tensor # a view
function Tensor:squeeze(dims, ...) end

---Removes dims of size 1 from x itself: those that are given, without any all of them.
---Shape of the result: as of squeeze
---Raises where a given dim is not of size 1, or x is a leaf that requires a gradient.
---@param dims? integer|integer[] # all
---@return tycho.Tensor # x itself
function Tensor:squeeze_(dims) end

---The standard deviation: the square root of the variance.
---Shape of the result: x without the dims
---Formula: sqrt(var(x))
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1: of a sample; 0: of a population
---@return tycho.Tensor # x without the dims; floats
function Tensor:std(dims, keepdim, opts) end

---two results: the standard deviation and the mean
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1
---@return tycho.Tensor deviation
---@return tycho.Tensor mean # x without the dims; floats
function Tensor:std_mean(dims, keepdim, opts) end

---Transforms of short pieces of a signal: piece t are n_fft places from t hop_length on, times the window. As
---torch.stft.
---Shape of the result: [..., frequencies, pieces]
---Raises where x has not one or two dims or is shorter than a piece, or an option does not fit.
---@param n_fft integer # the places of a piece
---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, pad_mode: "reflect"|"replicate"|"circular"|"constant"|nil, normalized: boolean?, onesided: boolean?, return_complex: boolean?} # n_fft / 4; n_fft; none; true: piece t has its middle at t hop_length, x is padded; "reflect"; false: divided by the root of n_fft; true for real x; true, false: pairs
---@return tycho.Tensor # complex [..., frequencies, pieces]
function Tensor:stft(n_fft, opts) end

---elements in memory from one place of a dim to the next, or a table of all; where the size is 1, as in a contiguous tensor
---Raises where the dim is out of range.
---@param dim? integer # 1-based, negative from the end
---@return integer|integer[] # in elements, not bytes
function Tensor:stride(dim) end

---difference, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:sub(b) end

---difference, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:sub_(b) end

---the same as sub: difference, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function Tensor:subtract(b) end

---the same as sub: difference, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:subtract_(b) end

---sum over dims.
---The order of the sum depends on the shape alone: the bits are the same for any layout, machine and number of threads.
---Raises where a dim is out of range or given twice, or the list is empty.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false: the dims go; true: they stay with size 1
---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
function Tensor:sum(dims, keepdim) end

---the same as transpose: two dims exchanged, as a view
---Raises where a dim is out of range.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function Tensor:swapaxes(dim1, dim2) end

---the same as transpose_: exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function Tensor:swapaxes_(dim1, dim2) end

---the same as transpose: two dims exchanged, as a view
---Raises where a dim is out of range.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function Tensor:swapdims(dim1, dim2) end

---the same as transpose_: exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function Tensor:swapdims_(dim1, dim2) end

---the transpose of a matrix, as a view
---Raises where x has more than two dims.
---@return tycho.Tensor # [m, n], a view
function Tensor:t() end

---makes a matrix its own transpose, returns it
---Shape of the result: as of t
---Raises where x has more than 2 dims, or is a leaf that requires a gradient.
---@return tycho.Tensor # x itself, [m, n]
function Tensor:t_() end

---elements of the flattened x, in the index's shape; with a dim its places
---Raises where an index is no integer, or out of range.
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end
---@param dim? integer # flattened; with it the same as index_select
---@return tycho.Tensor # the sizes of the index
function Tensor:take(index, dim) end

---the same as take_along_dim: elements at the index's positions along a dim
---Shape of the result: index
---Raises where the index is not of integers or out of range, or sizes do not broadcast.
---@param index tycho.Tensor # integers, as many dims as x
---@param dim? integer # flattened
---@return tycho.Tensor # the broadcast shape, that of the index along dim
function Tensor:take_along_axis(index, dim) end

---Elements of x at the index's positions along a dim; the other sizes broadcast. Without a dim x is flattened.
---Shape of the result: index
---Raises where the index is not of integers or out of range, or sizes do not broadcast.
---@param index tycho.Tensor # integers, as many dims as x
---@param dim? integer # flattened
---@return tycho.Tensor # the broadcast shape, that of the index along dim
function Tensor:take_along_dim(index, dim) end

---the tangent of x radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:tan() end

---the tangent of x radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:tan_() end

---the hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function Tensor:tanh() end

---the hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:tanh_() end

---x - tanh(x).
---Shape of the result: x
---Raises where x is not floating.
---@return tycho.Tensor # shape and dtype of x
function Tensor:tanhshrink() end

---x - tanh(x); written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:tanhshrink_() end

---x cut along a dim: into so many parts, of which the first ones are longer by one where it does not divide, or
---behind the places that are listed.
---Shape of the result: x cut along the dim
---Raises where the number is below 1, or a place is out of order or range.
---@param parts integer|integer[] # how many; or how many places stand before each cut
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function Tensor:tensor_split(parts, dim) end

---Sums products over pairs of dims: the last `dims` of a with the first of b, or the listed ones.
---Shape of the result: other dims of a, then of b
---Raises where the dims that are summed differ in number or size.
---@param b tycho.Tensor
---@param dims? integer|integer[][] # 2; or {dims of a, dims of b}
---@return tycho.Tensor # the other dims of a, then those of b
function Tensor:tensordot(b, dims) end

---x above the threshold, else the value. NaN stays.
---Shape of the result: x
---Raises where x is not floating, or threshold or value is no number.
---@param threshold number
---@param value number
---@return tycho.Tensor # shape and dtype of x
function Tensor:threshold(threshold, value) end

---x above the threshold, else the value; written to the first argument
---Shape of the result: x
---Raises where x is not floating, or threshold or value is no number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param threshold number
---@param value number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:threshold_(threshold, value) end

---the whole of x repeated along each dim; counts are right-aligned
---Raises where a count is negative.
---@param counts integer|integer[] # more of them than dims: new dims in front
---@return tycho.Tensor # each size times its count
function Tensor:tile(counts) end

---x in another dtype or on another device; x itself when nothing changes; nil and a message when the device is not there.
---Conversion of floats to integers cuts off and keeps within the range; NaN gives 0. Gives nil and a message where the
---device is not there.
---Raises where the dtype is not known.
---@param where tycho.dtype|string|tycho.Tensor # "f16", "cuda:0", or a tensor whose dtype and device are taken
---@return tycho.Tensor? x
---@return string? message # the sizes of x
function Tensor:to(where) end

---the same as totable: the elements in nested tables; a number when x has no dims
---Raises where x is no tensor, or an i64 is no Lua number exactly.
---@return table|number|boolean # nested tables, one level a dim; complex numbers are {real, imaginary}
function Tensor:tolist() end

---two results: the k largest (or smallest) elements of a dim in order; and their positions
---Raises where k is larger than the dim.
---@param k integer
---@param dim? integer # the last
---@param largest? boolean # true
---@return tycho.Tensor values
---@return tycho.Tensor positions # k places in that dim; positions are i64 from 1
function Tensor:topk(k, dim, largest) end

---the elements in nested tables; a number when x has no dims
---Raises where x is no tensor, or an i64 is no Lua number exactly.
---@return table|number|boolean # nested tables, one level a dim; complex numbers are {real, imaginary}
function Tensor:totable() end

---The sum of a matrix's main diagonal.
---Shape of the result: 0-d
---Raises where x is no matrix.
---@return tycho.Tensor # 0-d; integers and bool give i64
function Tensor:trace() end

---two dims exchanged, as a view
---Raises where a dim is out of range.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function Tensor:transpose(dim1, dim2) end

---exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function Tensor:transpose_(dim1, dim2) end

---The integral along a dim by the trapezoidal rule.
---Shape of the result: y without the dim
---Raises where x has another number of places than y along the dim.
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y without the dim; floats
function Tensor:trapezoid(x, opts) end

---the same as trapezoid: the integral by the trapezoidal rule
---Shape of the result: y without the dim
---Raises where x has another number of places than y along the dim.
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y without the dim; floats
function Tensor:trapz(x, opts) end

---The matrices in the last two dims, with zeros above the k-th diagonal.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # shape and dtype of x
function Tensor:tril(k) end

---zeros above the k-th diagonal of the last two dims; written to the first argument
---Shape of the result: x
---Raises where x has fewer than two dims; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:tril_(k) end

---max(0, margin + |anchor - positive| - |anchor - negative|) of vectors in the last dim.
---Options: margin = 1; p = 2, of the norm; eps = 1e-6, added to the differences; swap = false: the distance of
---positive and negative where it is the smaller one (Balntas and others 2016); reduction.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where sizes do not broadcast, margin is not above 0, or the reduction is not known.
---@param positive tycho.Tensor # floats [..., features]
---@param negative tycho.Tensor # floats [..., features]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?, p: number?, eps: number?, swap: boolean?}
---@return tycho.Tensor # 0-d, or the sizes without features
function Tensor:triplet_margin_loss(positive, negative, opts) end

---The matrices in the last two dims, with zeros below the k-th diagonal.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # shape and dtype of x
function Tensor:triu(k) end

---zeros below the k-th diagonal of the last two dims; written to the first argument
---Shape of the result: x
---Raises where x has fewer than two dims; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:triu_(k) end

---the same as div: quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function Tensor:true_divide(b) end

---the same as div: quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:true_divide_(b) end

---the whole part, towards zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function Tensor:trunc() end

---the whole part, towards zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:trunc_() end

---x in the dtype of another tensor
---Shape of the result: x
---Raises where an argument is no tensor.
---@param other tycho.Tensor
---@return tycho.Tensor # the sizes of x
function Tensor:type_as(other) end

---a table of views, one for each place of a dim, without that dim
---Raises where the dim is out of range.
---@param dim? integer # 1
---@return tycho.Tensor[] # views, one for each place
function Tensor:unbind(dim) end

---one dim as several; one size may be -1
---Raises where the sizes do not make up the dim.
---@param dim integer
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # a view
function Tensor:unflatten(dim, sizes, ...) end

---windows of a dim as a new last dim, a view
---Raises where the size is larger than the dim, or the step below 1.
---@param dim integer
---@param size integer # places of a window
---@param step? integer # from one window to the next: 1
---@return tycho.Tensor # a view: floor((n - size) / step) + 1 windows in that dim, `size` in a new last one
function Tensor:unfold(dim, size, step) end

---writes uniform numbers to x, returns it
---Raises where x is no float tensor, or high lies below low.
---@param low? number # 0
---@param high? number # 1
---@return tycho.Tensor # x itself
function Tensor:uniform_(low, high) end

---two results: the different elements, and for each one its place among them; counts as a third.
---Without options the elements of the whole of x, in ascending order.
---Options: dim: the different places of it; sorted = true: in ascending (lexicographic) order, false: in the order in
---which they come; counts = false: a third result, how often each comes. Reads data: a compiled function goes on in
---another part behind it.
---Raises where x is no tensor or the dim is out of range.
---@param opts? {dim: integer?, sorted: boolean?, counts: boolean?}
---@return tycho.Tensor values
---@return tycho.Tensor positions
---@return tycho.Tensor? counts # [count], or x with `count` places along dim; and in the shape of x, or of the dim, the place of each among them, i64
function Tensor:unique(opts) end

---a new dim of size 1 at that place
---Raises where the place is out of range.
---@param dim integer # where the new dim will be, 1 to ndim + 1; negative from the end
---@return tycho.Tensor # a view
function Tensor:unsqueeze(dim) end

---gives x itself a new dim of size 1, returns it
---Shape of the result: as of unsqueeze
---Raises where the dim is out of range, or x is a leaf that requires a gradient.
---@param dim integer # its place among the dims of the result
---@return tycho.Tensor # x itself
function Tensor:unsqueeze_(dim) end

---Powers of the elements of a vector, as columns.
---Shape of the result: [n, columns]
---Raises where x is no vector, or a number is negative.
---@param columns? integer # n
---@param increasing? boolean # false: the highest power first
---@return tycho.Tensor # [n, columns]
function Tensor:vander(columns, increasing) end

---The variance, in two passes: the squares of what differs from the mean, divided by count - correction; of complex
---numbers those of the magnitudes.
---Shape of the result: x without the dims
---Formula: sum((x - mean(x))^2) / (n - correction)
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1: of a sample; 0: of a population
---@return tycho.Tensor # x without the dims; floats
function Tensor:var(dims, keepdim, opts) end

---two results: the variance and the mean
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1
---@return tycho.Tensor variance
---@return tycho.Tensor mean # x without the dims; floats
function Tensor:var_mean(dims, keepdim, opts) end

---The inner product of two vectors: the sum of the products of a's conjugates with b.
---Shape of the result: 0-d
---Raises where an argument is no vector, or the sizes differ.
---@param b tycho.Tensor # [n]
---@return tycho.Tensor # 0-d
function Tensor:vdot(b) end

---Sums of products along a dim; of complex numbers with the conjugates of a.
---Shape of the result: broadcast without the dim
---Raises where sizes do not broadcast.
---@param b tycho.Tensor # broadcasts with a
---@param dim? integer # the last
---@return tycho.Tensor # the broadcast shape without the dim
function Tensor:vecdot(b, dim) end

---x with other sizes and the same storage; raises where only a copy would do
---Raises where the sizes do not hold as many elements, or the strides need a copy.
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function Tensor:view(sizes, ...) end

---the same bits read as another dtype of that size; a copy
---Raises where both dtypes have different widths.
---@param dtype tycho.dtype # as wide as that of x
---@return tycho.Tensor # the sizes of x, in that dtype
function Tensor:view_as(dtype) end

---a view of f32 or f64 [..., 2] as complex numbers; the pairs must lie side by side.
---Memory and gradient are the same: what is written to one is seen in the other.
---Raises where x is neither f32 nor f64, its last dim is not 2, or the two do not lie side by side.
---@return tycho.Tensor # without the last dim; c64 or c128
function Tensor:view_as_complex() end

---a view of complex numbers as f32 or f64 [..., 2], the real and the imaginary part.
---Memory and gradient are the same: what is written to one is seen in the other.
---Raises where x is of reals, or has 8 dims.
---@return tycho.Tensor # [..., 2], f32 or f64: the real and the imaginary part
function Tensor:view_as_real() end

---Parts of equal size along dim 1, or those between places.
---Shape of the result: a table
---Raises where x has fewer than 2 dims, or they do not divide.
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function Tensor:vsplit(parts) end

---b where the condition holds, else c.
---An element of a where the condition holds, of b elsewhere.
---Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of all three, broadcast; the dtypes of a and b, promoted
function Tensor:where(a, b) end

---a * log(1 + b), 0 where a is 0.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:xlog1py(b) end

---a * log(b), 0 where a is 0 though b be 0, too.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function Tensor:xlogy(b) end

---a * log(b), 0 where a is 0; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function Tensor:xlogy_(b) end

---writes 0 to every element of x
---Raises where x is a leaf that requires a gradient.
---@return tycho.Tensor # x itself
function Tensor:zero_() end

---0 in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function Tensor:zeros_like(opts) end

---Tensors for LuaJIT.
---@class tycho
---@field version string
local ty, objects = {}, {}

---the magnitude, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.abs(x) end

---the magnitude, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.abs_(x) end

---the same as abs: the magnitude, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.absolute(x) end

---the same as abs: the magnitude, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.absolute_(x) end

---the angle in radians whose cosine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.acos(x) end

---the angle in radians whose cosine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.acos_(x) end

---the inverse hyperbolic cosine; NaN below 1
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.acosh(x) end

---the inverse hyperbolic cosine; NaN below 1; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.acosh_(x) end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or the size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, length] or [channels, length]
---@param size integer
---@return tycho.Tensor # [batch, channels, size]
function ty.adaptive_avg_pool1d(x, size) end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, height, width] or [channels, height, width]
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, rows, columns]
function ty.adaptive_avg_pool2d(x, size) end

---Means of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, planes, rows, columns]
function ty.adaptive_avg_pool3d(x, size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or the size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, length] or [channels, length]
---@param size integer
---@return tycho.Tensor # [batch, channels, size]
function ty.adaptive_max_pool1d(x, size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, height, width] or [channels, height, width]
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, rows, columns]
function ty.adaptive_max_pool2d(x, size) end

---The largest of as many windows as asked for, which cover each dim evenly.
---Shape of the result: the places become windows
---Raises where x has other dims, or a size is not above 0.
---@param x tycho.Tensor # floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param size integer|integer[]
---@return tycho.Tensor # [batch, channels, planes, rows, columns]
function ty.adaptive_max_pool3d(x, size) end

---sum, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.add(a, b) end

---sum, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.add_(a, b) end

---x + value * a / b, element by element.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param x tycho.Tensor
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # the broadcast shape
function ty.addcdiv(x, a, b, opts) end

---x + value * a / b; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.addcdiv_(x, a, b, opts) end

---x + value * a * b, element by element.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param x tycho.Tensor
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # the broadcast shape
function ty.addcmul(x, a, b, opts) end

---x + value * a * b; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@param opts? {value: number?} # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.addcmul_(x, a, b, opts) end

---beta * c + alpha * (a x b).
---Shape of the result: [n, m]
---Raises where inner sizes differ, or c does not broadcast to the product.
---@param c tycho.Tensor # broadcasts with [n, m]
---@param a tycho.Tensor # [n, k]
---@param b tycho.Tensor # [k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n, m]
function ty.addmm(c, a, b, opts) end

---beta * c + alpha * (a x b); written to the first argument
---Shape of the result: [n, m]
---Raises where inner sizes differ, or c does not broadcast to the product; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param c tycho.Tensor # broadcasts with [n, m]
---@param a tycho.Tensor # [n, k]
---@param b tycho.Tensor # [k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.addmm_(c, a, b, opts) end

---beta * c + alpha * (a x v).
---Shape of the result: [n]
---Raises where inner sizes differ, or c does not broadcast to the product.
---@param c tycho.Tensor # broadcasts to [n]
---@param a tycho.Tensor # [n, k]
---@param v tycho.Tensor # [k]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n]
function ty.addmv(c, a, v, opts) end

---beta * c + alpha * (all products of an element of a with one of b).
---Shape of the result: [n, m]
---Raises where a or b is no vector, or c does not broadcast to the products.
---@param c tycho.Tensor # broadcasts to [n, m]
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [n, m]
function ty.addr(c, a, b, opts) end

---beta * c + alpha * (a outer b); written to the first argument
---Shape of the result: [n, m]
---Raises where a or b is no vector, or c does not broadcast to the products; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param c tycho.Tensor # broadcasts to [n, m]
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.addr_(c, a, b, opts) end

---The conjugate transposes of matrices. A real x as a view.
---Shape of the result: [.., m, n]
---Raises where x has fewer than two dims.
---@param x tycho.Tensor # [.., n, m]
---@return tycho.Tensor # [.., m, n]
function ty.adjoint(x) end

---The grid of an affine map of the places of an image: for each place of the result, theta times its coordinates
---{x, y, 1} or {x, y, z, 1}.
---Options: align_corners = false, as of grid_sample.
---Shape of the result: [batch, height, width, 2]
---Formula: theta times {x, y, 1} of each place
---Raises where theta or size is not of an image.
---@param theta tycho.Tensor # floats [batch, 2, 3] or [batch, 3, 4]
---@param size integer[] # {batch, channels, height, width} or {batch, channels, depth, height, width}
---@param opts? {align_corners: boolean?}
---@return tycho.Tensor # [batch, height, width, 2] or [batch, depth, height, width, 3]
function ty.affine_grid(theta, size, opts) end

---Whether all elements are not zero; NaN is not.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # bool, x without the dims; true of nothing
function ty.all(x, dims, keepdim) end

---Whether all elements are close, see isclose. Computes: gives a Lua boolean.
---Shape of the result: a Lua boolean
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
---@return boolean
function ty.allclose(a, b, opts) end

---the same as max: the largest element over dims; NaN wins
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmax.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.amax(x, dims, keepdim) end

---the same as min: the smallest element over dims; NaN wins
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmin.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.amin(x, dims, keepdim) end

---two results: the smallest and the largest element
---Shape of the result: x without the dims
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor least
---@return tycho.Tensor largest # x without the dims; the dtype of x
function ty.aminmax(x, dims, keepdim) end

---The angles in radians, from -pi to pi: atan2(im, re). Of reals 0, or pi below zero; NaN stays.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # shape of x; f32 or f64
function ty.angle(x) end

---Whether any element is not zero.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # bool, x without the dims; false of nothing
function ty.any(x, dims, keepdim) end

---numbers from start up to, not including, stop; arange(n) is 0 to n-1.
---As NumPy's: the stop is left out. ty.range is Lua's for, with the stop.
---Raises where the step is 0.
---@param start? number # 0
---@param stop number
---@param step? number # 1; below 0 it counts down
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [ceil((stop - start) / step)]; f32
---@overload fun(stop: number, opts?: {dtype: tycho.dtype?, device: string?}): tycho.Tensor
function ty.arange(start, stop, step, opts) end

---the same as acos: the angle in radians whose cosine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arccos(x) end

---the same as acos: the angle in radians whose cosine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arccos_(x) end

---the same as acosh: the inverse hyperbolic cosine; NaN below 1
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arccosh(x) end

---the same as acosh: the inverse hyperbolic cosine; NaN below 1; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arccosh_(x) end

---the same as asin: the angle in radians whose sine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arcsin(x) end

---the same as asin: the angle in radians whose sine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arcsin_(x) end

---the same as asinh: the inverse hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arcsinh(x) end

---the same as asinh: the inverse hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arcsinh_(x) end

---the same as atan: the angle in radians whose tangent is x
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arctan(x) end

---the same as atan2: the angle of the point (b, a) in radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.arctan2(a, b) end

---the same as atan2: the angle of the point (b, a) in radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arctan2_(a, b) end

---the same as atan: the angle in radians whose tangent is x; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arctan_(x) end

---the same as atanh: the inverse hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.arctanh(x) end

---the same as atanh: the inverse hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.arctanh_(x) end

---position of the first largest element; NaN wins
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer # flattened
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; i64, from 1
function ty.argmax(x, dim, keepdim) end

---position of the first smallest element; NaN wins
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer # flattened
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; i64, from 1
function ty.argmin(x, dim, keepdim) end

---positions that sort a dim, stable; NaN counts as largest
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer # the last
---@param descending? boolean # false
---@return tycho.Tensor # the sizes of x; i64, positions from 1
function ty.argsort(x, dim, descending) end

---the same as nonzero: positions of the elements that are not zero, one row each: i64 [count, ndim]
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # [count, ndim]; i64, positions from 1
function ty.argwhere(x) end

---the same as round: the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.around(x) end

---the same as tensor: a tensor of the numbers or booleans of nested tables; a copy of a tensor
---Raises where nested tables are ragged, hold something else, or a number does not fit the dtype.
---@param data number|boolean|table|tycho.Tensor # nested tables, one level a dim
---@param opts? {dtype: tycho.dtype?, device: string?} # by default f32 (bool of booleans) on ty.device()
---@return tycho.Tensor # the sizes of the nesting; of a number no dims
function ty.array(data, opts) end

---The elements of x, in row-major order, that stand at offset + sum of (index - 1) * stride.
---As PyTorch's of a contiguous tensor, but a copy: elements may come more than once.
---Shape of the result: the sizes
---Raises where an element lies outside of x, or a size or stride is negative.
---@param x tycho.Tensor
---@param sizes integer[]
---@param strides integer[] # one a dim, in elements
---@param offset? integer # the first element, 1
---@return tycho.Tensor # these sizes, the dtype of x
function ty.as_strided(x, sizes, strides, offset) end

---the same as tensor: a tensor of the numbers or booleans of nested tables; a copy of a tensor
---Raises where nested tables are ragged, hold something else, or a number does not fit the dtype.
---@param data number|boolean|table|tycho.Tensor # nested tables, one level a dim
---@param opts? {dtype: tycho.dtype?, device: string?} # by default f32 (bool of booleans) on ty.device()
---@return tycho.Tensor # the sizes of the nesting; of a number no dims
function ty.as_tensor(data, opts) end

---the angle in radians whose sine is x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.asin(x) end

---the angle in radians whose sine is x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.asin_(x) end

---the inverse hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.asinh(x) end

---the inverse hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.asinh_(x) end

---the angle in radians whose tangent is x
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.atan(x) end

---the angle of the point (b, a) in radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.atan2(a, b) end

---the angle of the point (b, a) in radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.atan2_(a, b) end

---the angle in radians whose tangent is x; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.atan_(x) end

---the inverse hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.atanh(x) end

---the inverse hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.atanh_(x) end

---x, a number as one element.
---Shape of the result: x, or [1]
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x, [1] of no dims
function ty.atleast_1d(x) end

---x with two dims at least; a vector is a row
---Shape of the result: x, or [1, n]
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x, [1, n] of a vector
function ty.atleast_2d(x) end

---x with three dims at least: a vector is [1, n, 1], a matrix [n, m, 1].
---Shape of the result: x, [1, n, 1] or [n, m, 1]
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # at least three dims
function ty.atleast_3d(x) end

---calls fn(...) with the products of layers in that half float; sums, softmax, norms, losses give f32
---Raises where the dtype is no half float, or fn no function; and what fn raises.
---@param dtype "bf16"|"f16"|"f32"|false # false: as without
---@param fn function
---@param ... any # what fn is given
---@return any ... # what fn gives
function ty.autocast(dtype, fn, ...) end

---The mean with a weight for each element, as NumPy's.
---Shape of the result: x without the dim
---Raises where the weights have other sizes than x, or than its dim.
---@param x tycho.Tensor
---@param dim? integer # all
---@param weights? tycho.Tensor # sizes of x, or a vector along dim
---@return tycho.Tensor # x without the dim; floats
function ty.average(x, dim, weights) end

---The mean of each window.
---Options: stride = kernel, padding = 0 (of zeros), dilation = 1, ceil_mode = false, count_include_pad = true;
---divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, length] or [channels, length]
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows]
function ty.avg_pool1d(x, kernel, opts) end

---The mean of each window.
---Options, a number or {rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1; ceil_mode = false,
---count_include_pad = true; divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, height, width] or [channels, height, width]
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows down, windows across]
function ty.avg_pool2d(x, kernel, opts) end

---The mean of each window.
---Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of zeros), dilation = 1;
---ceil_mode = false, count_include_pad = true; divisor_override: what the sums are divided by.
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?, divisor_override: number?}
---@return tycho.Tensor # [batch, channels, windows of each dim]
function ty.avg_pool3d(x, kernel, opts) end

---Fills `grad` of every leaf that y was computed from with dy/dleaf times g; what is there is added to.
---Raises where y does not depend on a leaf that requires a gradient, g has other sizes, or what was kept has been overwritten or freed (retain_graph).
---@param y tycho.Tensor
---@param g? tycho.Tensor # of y's shape; 1 where y has one element
---@param opts? {retain_graph: boolean?, create_graph: boolean?}
function ty.backward(y, g, opts) end

---beta * c + alpha * (a x b), for stacks of matrices.
---Shape of the result: [batch, n, m]
---Raises where the sizes do not fit, or c does not broadcast to the products.
---@param c tycho.Tensor # broadcasts to [batch, n, m]
---@param a tycho.Tensor # [batch, n, k]
---@param b tycho.Tensor # [batch, k, m]
---@param opts? {alpha: number?, beta: number?} # both 1
---@return tycho.Tensor # [batch, n, m]
function ty.baddbmm(c, a, b, opts) end

---Bartlett's window, a triangle.
---Shape of the result: [n]
---Raises where n is negative or no whole number.
---@param n integer # its length
---@param periodic? boolean # true: of period n, for transforms; false: symmetric
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n]
function ty.bartlett_window(n, periodic, opts) end

---Of logits and chances in 0..1: -(y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))), without overflow.
---Options: reduction; weight, which multiplies the losses; pos_weight, which multiplies those of y.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: max(x, 0) - x y + log(1 + exp(-|x|))
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # logits
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil, pos_weight: tycho.Tensor|number|nil} # tensors or numbers that broadcast with x
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.bce_with_logits(x, y, opts) end

---1 with probability p, else 0; p may be a tensor, which gives the sizes
---Raises where a number p lies outside of 0 to 1.
---@param p number|tycho.Tensor # a chance, or one for each element
---@param sizes? integer|integer[] # left out where p is a tensor
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes, or those of p; f32
function ty.bernoulli(p, sizes, opts) end

---writes 1 with probability p, else 0, to x, returns it
---Shape of the result: x
---Raises where p lies outside of 0 to 1, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param p? number|tycho.Tensor # 0.5; a tensor broadcasts to x
---@return tycho.Tensor # x itself
function ty.bernoulli_(x, p) end

---Of chances x and y in 0..1: -(y log x + (1 - y) log(1 - x)), logarithms of at least -100. Of logits:
---ty.bce_with_logits, which is exact where chances round to 0 or 1. Outside of 0..1 the loss is NaN.
---Options: reduction; weight, which multiplies the losses.
---Shape of the result: 0-d, or x
---Formula: -(y log(x) + (1 - y) log(1 - x))
---Raises where x and y have not the same sizes, or the reduction is not known.
---@param x tycho.Tensor # chances
---@param y tycho.Tensor # the sizes of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil} # weight: broadcasts with x
---@return tycho.Tensor # 0-d, or the sizes of x
function ty.binary_cross_entropy(x, y, opts) end

---the same as bce_with_logits: cross entropy of chances y under sigmoid(x)
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: max(x, 0) - x y + log(1 + exp(-|x|))
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # logits
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil, pos_weight: tycho.Tensor|number|nil} # tensors or numbers that broadcast with x
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.binary_cross_entropy_with_logits(x, y, opts) end

---How often each of the numbers 1, 2, ... comes, or the sums of their weights. Reads the largest number.
---Shape of the result: [the largest number]
---Raises where x is no vector of integers, or a number is below 1.
---@param x tycho.Tensor # integers [n], from 1
---@param weights? tycho.Tensor # [n]
---@param minlength? integer # 0: how long the result is at least
---@return tycho.Tensor # [the largest number, or minlength]; i64, or the dtype of the weights
function ty.bincount(x, weights, minlength) end

---bits set in both
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.bitwise_and(a, b) end

---bits set in both; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.bitwise_and_(a, b) end

---the same as lshift: bits moved up; 0 beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.bitwise_left_shift(a, b) end

---every bit turned over; for bool the opposite
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats.
---@param x tycho.Tensor|number # integers or bool, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted
function ty.bitwise_not(x) end

---every bit turned over; for bool the opposite; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # integers or bool, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.bitwise_not_(x) end

---bits set in either
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.bitwise_or(a, b) end

---bits set in either; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.bitwise_or_(a, b) end

---the same as rshift: bits moved down, keeping the sign; all sign beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.bitwise_right_shift(a, b) end

---bits set in one of the two
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.bitwise_xor(a, b) end

---bits set in one of the two; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # integers or bool, any shape that broadcasts
---@param b tycho.Tensor|number # integers or bool, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.bitwise_xor_(a, b) end

---Blackman's window, 0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n).
---Shape of the result: [n]
---Raises where n is negative or no whole number.
---@param n integer # its length
---@param periodic? boolean # true: of period n, for transforms; false: symmetric
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n]
function ty.blackman_window(n, periodic, opts) end

---whether OpenBLAS computes large f32 and f64 products, whose last bits may then differ from machine to machine; nil and a message when it is not there.
---Compiled equals eager in both; without it products are Tycho's own, the same on every machine. Gives nil and a
---message where OpenBLAS is not there.
---Raises where the argument is no boolean.
---@param on? boolean
---@return boolean? on
---@return string? message
function ty.blas(on) end

---The matrices as blocks along a diagonal, zeros elsewhere; a vector is a row.
---Shape of the result: [rows added up, columns added up]
---Raises where a tensor has more than two dims, or none is given.
---@param ... tycho.Tensor|tycho.Tensor[] # the blocks; or one table of them
---@return tycho.Tensor # [rows added up, columns added up], the promoted dtype
function ty.block_diag(...) end

---The matrix products of two stacks of matrices.
---Shape of the result: [batch, n, m]
---Raises where an argument has not three dims, or the sizes do not fit.
---@param a tycho.Tensor # [batch, n, k]
---@param b tycho.Tensor # [batch, k, m]
---@return tycho.Tensor # [batch, n, m]
function ty.bmm(a, b) end

---a table of the tensors broadcast to the sizes of all
---Shape of the result: broadcast of all
---Raises where sizes do not broadcast, or none is given.
---@param ... tycho.Tensor|tycho.Tensor[] # the tensors; or one table of them
---@return tycho.Tensor[] # views of the same sizes
function ty.broadcast_tensors(...) end

---the same as expand: dims of size 1 repeated without a copy; -1 keeps a size
---Raises where a dim that is not 1 would change.
---@param x tycho.Tensor
---@param sizes integer|integer[] # one by one, or in a table; new dims stand in front
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function ty.broadcast_to(x, sizes, ...) end

---In which of the intervals between ascending boundaries each element lies, as searchsorted.
---Shape of the result: x
---Raises where the boundaries are no vector.
---@param x tycho.Tensor|number
---@param boundaries tycho.Tensor # [n], ascending; that is not checked
---@param right? boolean # false: before an equal boundary; true: behind it
---@return tycho.Tensor # shape of x; i64, from 1 (below all) to n + 1
function ty.bucketize(x, boundaries, right) end

---How many milliseconds a capture may take inside a call; one that needs more is given up, and waits for warmup.
---math.huge, as it is at first: as many as it needs. Without an argument nothing changes. Gives the budget so far.
---Raises where it is no number from 0.
---@param ms? number
---@return number
function ty.budget(ms) end

---All choices of one element of each vector, the last one changing first.
---Shape of the result: [product of the sizes, vectors]
---Raises where an argument is no vector, or none is given.
---@param ... tycho.Tensor|tycho.Tensor[] # vectors; or one table of them
---@return tycho.Tensor # [product of the sizes, vectors]; of one vector it is that
function ty.cartesian_prod(...) end

---the tensors of a list behind each other along a dim.
---Dtypes are promoted.
---Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@param dim? integer # 1
---@return tycho.Tensor # the sizes of that dim added up
function ty.cat(list, dim) end

---writes Cauchy's numbers to x, returns it
---Shape of the result: x
---Raises where x is no float tensor, sigma is not above 0, or x is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param median? number # 0
---@param sigma? number # 1: half of the width at half of the height
---@return tycho.Tensor # x itself
function ty.cauchy_(x, median, sigma) end

---The cube root, of the sign of x.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.cbrt(x) end

---the cube root, of the sign of x; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.cbrt_(x) end

---The p-norms of the differences of all pairs of rows.
---Shape of the result: [.., n, m]
---Raises where rows differ in length, or leading dims do not broadcast.
---@param a tycho.Tensor # [.., n, k]
---@param b tycho.Tensor # [.., m, k]
---@param p? number # 2; also 0, 1, math.huge
---@return tycho.Tensor # [.., n, m]; floats
function ty.cdist(a, b, p) end

---the next whole number above
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.ceil(x) end

---the next whole number above; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.ceil_(x) end

---x above zero, else alpha * (exp(x / alpha) - 1): an elu of one slope at 0. Barron 2017, arXiv:1704.07483.
---Shape of the result: x
---Raises where x is not floating, or alpha is 0.
---@param x tycho.Tensor # floats
---@param alpha? number # 1
---@return tycho.Tensor # shape and dtype of x
function ty.celu(x, alpha) end

---x above zero, else alpha * (exp(x / alpha) - 1); written to the first argument
---Shape of the result: x
---Formula: Barron 2017, arXiv:1704.07483
---Raises where x is not floating, or alpha is 0; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param alpha? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.celu_(x, alpha) end

---Runs f as it is written beside every n-th call of the compiled function, and raises where a bit differs: of
---results, of what was written, of the random state. What the plain run changes is put back, but output and what C
---libraries keep: they happen twice. n = 0 or nil ends it. Not for functions compiled with {fast = true}, whose bits
---may differ.
---Raises where f is no compiled function, n no count, or f was compiled with {fast = true}; in calls where a bit differs.
---@param f function # a compiled function
---@param n? integer
function ty.check(f, n) end

---f(...) that keeps nothing for the backward pass but its arguments: it runs again there, and draws the
---same random numbers, under the same autocast. It is taped the first time too, as long as it runs: so what it
---writes to other tensors, or puts into tables, has its gradient without running again. The second run gets copies
---of the arguments, in tables too; what f closes over and writes to is written a second time.
---Raises where f is no function, and what f raises.
---@param f fun(...): ...
---@param ... any # what f is given
---@return any ... # what f gives
function ty.checkpoint(f, ...) end

---a table of at most n views of about equal size
---Raises where n is below 1.
---@param x tycho.Tensor
---@param n integer # at most so many
---@param dim? integer # 1
---@return tycho.Tensor[] # views of ceil(size / n) places, the last one of what is left
function ty.chunk(x, n, dim) end

---x, not below `min` and not above `max`; where these cross, `max` holds. Either may be nil. NaN stays.
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast.
---@param x tycho.Tensor # any shape
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function ty.clamp(x, min, max) end

---x, not below min and not above max; either may be nil; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.clamp_(x, min, max) end

---the same as minimum: the smaller; NaN wins, -0 below +0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.clamp_max(a, b) end

---the same as maximum: the larger; NaN wins, +0 above -0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.clamp_min(a, b) end

---the same as clamp: x, not below min and not above max; either may be nil
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast.
---@param x tycho.Tensor # any shape
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function ty.clip(x, min, max) end

---the same as clamp: x, not below min and not above max; either may be nil; written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where neither bound is given, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@param min? tycho.Tensor|number
---@param max? tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.clip_(x, min, max) end

---Scales the gradients so that their p-norm together is at most `limit`. Gives the norm before.
---Raises where the parameters are no tensors, or a number is negative.
---@param params tycho.Tensor|tycho.Tensor[] # those without a gradient are passed over
---@param limit number
---@param p? number # 2
---@return tycho.Tensor # the norm before, no dims
function ty.clip_grad_norm_(params, limit, p) end

---Cuts each element of the gradients to -v .. v.
---Raises where the parameters are no tensors, or v is negative.
---@param params tycho.Tensor|tycho.Tensor[] # those without a gradient are passed over
---@param v number
function ty.clip_grad_value_(params, v) end

---a copy with memory of its own
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes and dtype of x; gradients flow through
function ty.clone(x) end

---Vectors as columns, matrices beside them.
---Shape of the result: [n, columns]
---Raises where the list is empty, or the numbers of rows differ.
---@param list tycho.Tensor[]
---@return tycho.Tensor # [n, columns]
function ty.column_stack(list) end

---All choices of r elements of a vector, by their places in ascending order.
---Shape of the result: [count, r]
---Raises where x is no vector, or r is negative.
---@param x tycho.Tensor # [n]
---@param r? integer # 2
---@param with_replacement? boolean # false; true: an element may come more than once
---@return tycho.Tensor # [count, r]
function ty.combinations(x, r, with_replacement) end

---A function that runs f's tensor operations in fused kernels, with the results of f to the bit. Compiling twice
---gives the same function. Options: fast = true lets the engine contract and re-associate for this function:
---results may then differ from eager in the last bits. fullgraph = true: a call that cannot be captured whole
---raises, and names the line. parts = false: what no trace holds whole runs as it is, instead of in parts. dynamic
---= true: a trace for any size from the start, or {x = {1}}: for these dims of an argument; false: sizes stay
---fixed. passes = {fn or name, ...} change each captured graph before it is compiled; backend = fn makes a
---function of it, to run instead.
---Raises where f is neither a function nor a module, an option is not known, or as fullgraph says.
---@param f function|table # a function, or a module, which gives a callable table whose fields read and write through
---@param opts? tycho.CompileOptions
---@return function|table # of the same arguments and results
function ty.compile(f, opts) end

---complex numbers of real and imaginary parts: tensors, numbers, nested tables
---Shape of the result: broadcast of both
---Raises where sizes do not broadcast, or a part is complex itself.
---@param re tycho.Tensor|number|table # the real parts: a tensor, a number, nested tables
---@param im? tycho.Tensor|number|table # the imaginary parts; 0
---@param opts? {dtype: tycho.dtype?, device: string?, requires_grad: boolean?} # dtype: c128 for f64, else c64
---@return tycho.Tensor # the broadcast shape, c64 or c128
function ty.complex(re, im, opts) end

---the same as cat: the tensors of a list behind each other along a dim
---Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@param dim? integer # 1
---@return tycho.Tensor # the sizes of that dim added up
function ty.concat(list, dim) end

---the same as cat: the tensors of a list behind each other along a dim
---Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@param dim? integer # 1
---@return tycho.Tensor # the sizes of that dim added up
function ty.concatenate(list, dim) end

---The conjugates: the imaginary parts negative. A real x as it is.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # shape and dtype of x
function ty.conj(x) end

---the conjugates: imaginary parts negative; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.conj_(x) end

---the same as conj: the conjugates: imaginary parts negative
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # shape and dtype of x
function ty.conj_physical(x) end

---the same as conj: the conjugates: imaginary parts negative; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.conj_physical_(x) end

---the same as conj: the conjugates: imaginary parts negative
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # shape and dtype of x
function ty.conjugate(x) end

---x if its elements lie row by row, else such a copy
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself, or a copy
function ty.contiguous(x) end

---sums products over the last dims of a and those of b behind the leading ones.
---What matmul, einsum and tensordot stand on.
---Raises where the dims do not fit each other.
---@param a tycho.Tensor # [lead..., rows..., summed...]
---@param b tycho.Tensor # [lead..., summed..., columns...]
---@param lead integer # how many leading dims both share
---@param summed integer # how many dims are summed
---@return tycho.Tensor # [lead..., rows..., columns...]
function ty.contract(a, b, lead, summed) end

---Convolution over one dim, as in networks: the weight is not turned around.
---Options: stride = 1, padding = 0, or "same", dilation = 1, groups = 1.
---Shape of the result: [batch, out, length]
---Formula: y[n, o, t] = bias[o] + sum over c, i of weight[o, c, i] x[n, c, t stride + i dilation - padding]
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param x tycho.Tensor # [batch, channels, length] or [channels, length]
---@param weight tycho.Tensor # [out, channels / groups, size]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, floor((length + 2 padding - dilation (size - 1) - 1) / stride) + 1]
function ty.conv1d(x, weight, bias, opts) end

---Convolution over two dims, as in networks: the weight is not turned around.
---Options, a number or {rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
---Shape of the result: [batch, out, height, width]
---Formula: as conv1d, over two dims
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param x tycho.Tensor # [batch, channels, height, width] or [channels, height, width]
---@param weight tycho.Tensor # [out, channels / groups, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
function ty.conv2d(x, weight, bias, opts) end

---Convolution over three dims, as in networks: the weight is not turned around.
---Options, a number or {planes, rows, columns}: stride = 1, padding = 0, or "same", dilation = 1; groups = 1.
---Shape of the result: [batch, out, depth, height, width]
---Formula: as conv1d, over three dims
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param x tycho.Tensor # [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param weight tycho.Tensor # [out, channels / groups, planes, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 a dim
function ty.conv3d(x, weight, bias, opts) end

---The transpose of conv1d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added behind), dilation = 1,
---groups = 1.
---Shape of the result: [batch, out, length]
---Formula: the gradient of conv1d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param x tycho.Tensor # [batch, channels, length] or [channels, length]
---@param weight tycho.Tensor # [channels, out / groups, size]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer?, padding: integer?, output_padding: integer?, dilation: integer?, groups: integer?}
---@return tycho.Tensor # [batch, out, (length - 1) stride - 2 padding + dilation (size - 1) + output_padding + 1]
function ty.conv_transpose1d(x, weight, bias, opts) end

---The transpose of conv2d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options, a number or {rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0 (added
---behind), dilation = 1; groups = 1.
---Shape of the result: [batch, out, height, width]
---Formula: the gradient of conv2d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param x tycho.Tensor # [batch, channels, height, width] or [channels, height, width]
---@param weight tycho.Tensor # [channels, out / groups, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
function ty.conv_transpose2d(x, weight, bias, opts) end

---The transpose of conv3d, which is its gradient by x: each place adds its multiple of the weight to the output.
---Options, a number or {planes, rows, columns}: stride = 1, padding = 0 (cut from the output), output_padding = 0
---(added behind), dilation = 1; groups = 1.
---Shape of the result: [batch, out, depth, height, width]
---Formula: the gradient of conv3d by its x
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param x tycho.Tensor # [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param weight tycho.Tensor # [channels, out / groups, planes, rows, columns]
---@param bias? tycho.Tensor # [out]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?}
---@return tycho.Tensor # [batch, out, ...], of sizes as in one dim
function ty.conv_transpose3d(x, weight, bias, opts) end

---The convolution of two vectors: sums of a[i] * v[k - i]. As NumPy's.
---Shape of the result: [n + m - 1]
---Raises where an argument is no vector or empty, or the mode is not known.
---@param a tycho.Tensor # [n]
---@param v tycho.Tensor # [m]
---@param mode? "full"|"same"|"valid" # "full": all that overlaps; "same": the middle; "valid": where all overlaps
---@return tycho.Tensor # [n + m - 1], [max(n, m)] or [max(n, m) - min(n, m) + 1]; floats
function ty.convolve(a, v, mode) end

---the same as clone: a copy with memory of its own
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes and dtype of x; gradients flow through
function ty.copy(x) end

---writes y, broadcast and cast, to the elements of x
---Raises where y does not broadcast to x, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param y tycho.Tensor|number|boolean
---@return tycho.Tensor # x itself
function ty.copy_(x, y) end

---the magnitude of a with the sign of b
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.copysign(a, b) end

---the magnitude of a with the sign of b; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.copysign_(a, b) end

---The correlations of variables, rows of x: covariances divided by the deviations, from -1 to 1.
---Shape of the result: [variables, variables]
---Raises where x has more than two dims.
---@param x tycho.Tensor # [variables, observations], or one variable
---@return tycho.Tensor # [variables, variables], 0-d of one; floats
function ty.corrcoef(x) end

---the cosine of x radians
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.cos(x) end

---the cosine of x radians; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.cos_(x) end

---the hyperbolic cosine
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.cosh(x) end

---the hyperbolic cosine; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.cosh_(x) end

---1 - cos(a, b) where y is 1, max(0, cos(a, b) - margin) where it is -1, of vectors in the last dim.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where sizes do not broadcast, or the reduction is not known.
---@param a tycho.Tensor # floats [..., features]
---@param b tycho.Tensor # floats [..., features]
---@param y tycho.Tensor # 1 or -1, [...]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.Tensor # 0-d, or the sizes of y
function ty.cosine_embedding_loss(a, b, y, opts) end

---The cosine of the angle between vectors in one dim: sum(a b) / (max(|a|, eps) max(|b|, eps)).
---Options: dim = -1 (PyTorch's is the second); eps = 1e-8.
---Shape of the result: the broadcast of a and b without the dim
---Raises where sizes do not broadcast, or dim is out of range.
---@param a tycho.Tensor # floats
---@param b tycho.Tensor # floats, broadcasts to a, or a to it
---@param opts? {dim: integer?, eps: number?}
---@return tycho.Tensor # the broadcast sizes without the dim
function ty.cosine_similarity(a, b, opts) end

---How many elements are not zero.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # i64, x without the dims
function ty.count_nonzero(x, dims, keepdim) end

---The covariances of variables: rows of x, observations are columns.
---Shape of the result: [variables, variables]
---Raises where x has more than two dims, or weights do not fit.
---@param x tycho.Tensor # [variables, observations], or one variable
---@param opts? {correction: number?, fweights: tycho.Tensor?, aweights: tycho.Tensor?} # correction = 1; how often each observation comes, and how much it weighs
---@return tycho.Tensor # [variables, variables], 0-d of one; floats
function ty.cov(x, opts) end

---The cross product of vectors of three elements along a dim.
---Shape of the result: broadcast of a and b
---Raises where sizes do not broadcast, or the dim has not three places.
---@param a tycho.Tensor
---@param b tycho.Tensor # broadcasts with a
---@param dim? integer # the last
---@return tycho.Tensor # the broadcast shape
function ty.cross(a, b, dim) end

---Minus the log-probability of each label under softmax(x); or of probabilities: -sum(target * log_softmax(x)).
---Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
---nothing; label_smoothing = 0, the share that is spread over all classes; weight [classes], which multiplies the
---losses of each class: of labels a mean divides by those of the labels.
---Shape of the result: 0-d, or the labels'
---Formula: nll_loss(log_softmax(x), target)
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where probabilities have other sizes than x, or weights are not one for each class.
---@param x tycho.Tensor # floats: logits, the classes in the last dim
---@param target tycho.Tensor # integer labels from 1, sizes of x without the class dim; or floats, shape of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, label_smoothing: number?, weight: tycho.Tensor?}
---@return tycho.Tensor # 0-d, or the sizes of x without the class dim
function ty.cross_entropy(x, target, opts) end

---Minus the logarithm of the chance that the labels are spelled by any path through the times. Graves and others
---2006.
---Options: blank = 1, the class between labels; reduction = "mean": each loss divided by its number of labels,
---then their mean, "sum" or "none"; zero_infinity = false: infinite losses, of more labels than times, count as 0.
---Shape of the result: 0-d, or [batch]
---Formula: Graves and others 2006
---Raises where sizes do not fit each other, or the blank is no class.
---@param x tycho.Tensor # floats: log-probabilities [time, batch, classes]
---@param target tycho.Tensor # integer labels from 1 [batch, labels]
---@param times integer[]|tycho.Tensor # how many times each sequence has
---@param lengths integer[]|tycho.Tensor # how many labels each has
---@param opts? {blank: integer?, reduction: "mean"|"sum"|"none"|nil, zero_infinity: boolean?}
---@return tycho.Tensor # 0-d, or [batch]
function ty.ctc_loss(x, target, times, lengths, opts) end

---running maximum along a dim; NaN stays
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function ty.cummax(x, dim) end

---running minimum along a dim; NaN stays
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function ty.cummin(x, dim) end

---running product along a dim
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function ty.cumprod(x, dim) end

---running sum along a dim
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function ty.cumsum(x, dim) end

---The integral up to each place behind the first, by the trapezoidal rule.
---Shape of the result: y with one place less
---Raises where x has another number of places than y along the dim.
---@param y tycho.Tensor
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y with one place less along dim; floats
function ty.cumulative_trapezoid(y, x, opts) end

---A function whose gradient is the user's: forward(...) gives the result (or a list of them) and what to save;
---rule(saved, g, ...) gives a gradient for each argument, nil for none.
---Raises where an argument is no function; in the backward pass where the rule gives another number of gradients, or other sizes.
---@param forward fun(...): tycho.Tensor|tycho.Tensor[], any
---@param rule fun(saved: any, ...: tycho.Tensor): ...
---@return fun(...): ...
function ty.custom_grad(forward, rule) end

---fn(...), in which operations raise when so many milliseconds are over: at their beginning, and within those that
---take their time, of which nothing is seen then. Of deadlines inside of each other the earliest holds. Lua code
---between operations, LAPACK and files are not looked at.
---Raises where ms is no number from 0 or fn no function; in operations when the time is over; and what fn raises.
---@param ms number
---@param fn function
---@param ... any # what fn is given
---@return any ... # what fn gives
function ty.deadline(ms, fn, ...) end

---the float dtype of numbers, and of integers that become floats.
---Without an argument nothing changes.
---Raises where it is no float dtype.
---@param name? "f16"|"bf16"|"f32"|"f64"
---@return tycho.dtype # the default so far
function ty.default_dtype(name) end

---Degrees as radians.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats
function ty.deg2rad(x) end

---degrees as radians; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.deg2rad_(x) end

---the same as rad2deg: radians as degrees
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats
function ty.degrees(x) end

---x without its past: no gradient goes through this view
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # a view of x
function ty.detach(x) end

---Calls fn(...) and gives its results; raises at the first operation that makes a NaN or an infinity, in it or in
---the backward passes that it runs: the error names the operation, the element, the module, and the line of the call.
---Compiled functions run as they are written meanwhile. Or true: from now on, and false: no more; it gives whether it
---was on.
---Raises at that operation, and what fn raises.
---@param fn function|boolean
---@param ... any # what fn is given
---@return any ...
function ty.detect_anomaly(fn, ...) end

---whether only operations whose results repeat exactly are used; they all do on the CPU
---Raises where the argument is no boolean.
---@param on? boolean
---@return boolean # whether it is on
function ty.deterministic(on) end

---the device of tensors that are made without one; nil and a message when it is not there.
---Gives nil and a message where the device is not there.
---@param name? string # "cpu", "cuda:0"
---@return string? name
---@return string? message
function ty.device(name) end

---Of a vector the matrix with that diagonal, of a matrix its diagonal.
---Shape of the result: [n, n] or [n]
---Raises where x has another number of dims.
---@param x tycho.Tensor # [n], or [n, m]
---@param offset? integer # 0; above zero: above the main diagonal
---@return tycho.Tensor # [n + |offset|, n + |offset|], or the diagonal as a view
function ty.diag(x, offset) end

---A new matrix, or stack of them, whose diagonals are the vectors along the last dim of x.
---Shape of the result: x with two dims for the last
---Raises where the dims are the same or out of range.
---@param x tycho.Tensor # [..., n]
---@param offset? integer # 0; above zero: above the main diagonal
---@param dim1? integer # where the rows are in the result, -2
---@param dim2? integer # where the columns are, -1
---@return tycho.Tensor # x with two dims of n + |offset| in place of the last
function ty.diag_embed(x, offset, dim1, dim2) end

---The matrix whose diagonal are all elements of x in row-major order.
---Shape of the result: [n, n]
---Raises where x is no tensor.
---@param x tycho.Tensor
---@param offset? integer # 0; above zero: above the main diagonal
---@return tycho.Tensor # [n + |offset|, n + |offset|]
function ty.diagflat(x, offset) end

---the diagonal of two dims as the last dim, a view; offset > 0: above the main one
---Raises where a dim is out of range, or both are the same.
---@param x tycho.Tensor # at least two dims
---@param offset? integer # 0; above 0: above the main diagonal
---@param dim1? integer # 1
---@param dim2? integer # 2
---@return tycho.Tensor # a view; the diagonal is the last dim
function ty.diagonal(x, offset, dim1, dim2) end

---x with src on a diagonal.
---Shape of the result: x
---Raises where the dims are out of range or the same, or src has other sizes than the diagonal.
---@param x tycho.Tensor # at least two dims
---@param src tycho.Tensor
---@param offset? integer # 0; above zero: above the main diagonal
---@param dim1? integer # 1
---@param dim2? integer # 2
---@return tycho.Tensor # shape and dtype of x
function ty.diagonal_scatter(x, src, offset, dim1, dim2) end

---The differences of neighbours along a dim, n times.
---Shape of the result: x with n places less
---Raises where n is negative, or what stands before or behind has other sizes.
---@param x tycho.Tensor # at least one dim
---@param n? integer # 1
---@param dim? integer # the last
---@param opts? {prepend: tycho.Tensor?, append: tycho.Tensor?} # what stands before and behind x along dim
---@return tycho.Tensor # x with n places less along dim
function ty.diff(x, n, dim, opts) end

---The logarithmic derivative of the gamma function; NaN at -1, -2 ..., of infinite magnitude at 0.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.digamma(x) end

---the logarithmic derivative of the gamma function; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.digamma_(x) end

---the number of dims.
---The same as x.ndim.
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return integer
function ty.dim(x) end

---Keeps a function from being captured: compiled functions that call it run as they are, recording what they do.
---Gives the function.
---Raises where f is no function.
---@param f function
---@return function
function ty.disable(f) end

---quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.div(a, b) end

---quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.div_(a, b) end

---the same as div: quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.divide(a, b) end

---the same as div: quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.divide_(a, b) end

---The sum of the products of two vectors.
---Shape of the result: 0-d
---Raises where an argument is no vector, or the sizes differ.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [n]
---@return tycho.Tensor # 0-d
function ty.dot(a, b) end

---Elements zeroed by chance p, the others divided by 1 - p; takes a stream of random numbers when training.
---Srivastava and others 2014, JMLR 15.
---Shape of the result: x
---Raises where x is not floating, or p lies outside of 0 to 1.
---@param x tycho.Tensor # floats
---@param p? number # 0.5, in 0..1
---@param training? boolean # true; false gives x
---@return tycho.Tensor # shape and dtype of x
function ty.dropout(x, p, training) end

---elements zeroed by chance p, the others divided by 1 - p; written to the first argument
---Shape of the result: x
---Formula: Srivastava and others 2014, JMLR 15
---Raises where x is not floating, or p lies outside of 0 to 1; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param p? number # 0.5, in 0..1
---@param training? boolean # true; false gives x
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.dropout_(x, p, training) end

---Parts of equal size along dim 3, or those between places.
---Shape of the result: a table
---Raises where x has fewer than 3 dims, or they do not divide.
---@param x tycho.Tensor
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function ty.dsplit(x, parts) end

---Tensors one behind the other along the third dim: vectors are [1, n, 1].
---Shape of the result: the third sizes added up
---Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@return tycho.Tensor # at least three dims
function ty.dstack(list) end

---Sums of products by Einstein's convention, as NumPy's einsum: one letter a dim; letters that the output lacks are
---summed; "..." stands for broadcast dims; without "->" the output has the letters that stand once, in alphabetical
---order.
---Operands are taken from left to right.
---Shape of the result: the output's letters
---Raises where the equation is malformed, does not fit the operands, or a label has two sizes.
---@param equation string # such as "ij,jk->ik"
---@param ... tycho.Tensor # the operands; or one table of them
---@return tycho.Tensor # the output's dims
function ty.einsum(equation, ...) end

---x above zero, else alpha * (exp(x) - 1).
---Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@param alpha? number # 1
---@return tycho.Tensor # shape and dtype of x
function ty.elu(x, alpha) end

---x above zero, else alpha * (exp(x) - 1); written to the first argument
---Shape of the result: x
---Formula: Clevert, Unterthiner, Hochreiter 2015, arXiv:1511.07289
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param alpha? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.elu_(x, alpha) end

---elements of any value.
---Nothing is written to the memory: read it only after writing.
---Raises where a size is no whole number from 0.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.empty(...) end

---elements of any value in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.empty_like(x, opts) end

---Calls fn(...) while operations are taped, also inside of no_grad.
---Raises where fn is no function, and what fn raises.
---@param fn fun(...): ...
---@param ... any # what fn is given
---@return any ... # what fn gives
function ty.enable_grad(fn, ...) end

---bool: equal; NaN equals nothing
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.eq(a, b) end

---Whether shapes and all elements are equal; NaN equals nothing. Computes: gives a Lua boolean.
---Shape of the result: a Lua boolean
---Raises where an argument is not a tensor.
---@param a tycho.Tensor
---@param b tycho.Tensor
---@return boolean
function ty.equal(a, b) end

---the error function
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.erf(x) end

---the error function; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.erf_(x) end

---1 - erf(x), accurate where that is near zero.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.erfc(x) end

---1 - erf(x), accurate where that is near zero; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.erfc_(x) end

---the inverse of the error function
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.erfinv(x) end

---the inverse of the error function; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.erfinv_(x) end

---e to the power x
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.exp(x) end

---2 to the power x
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.exp2(x) end

---2 to the power x; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.exp2_(x) end

---e to the power x; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.exp_(x) end

---dims of size 1 repeated without a copy; -1 keeps a size
---Raises where a dim that is not 1 would change.
---@param x tycho.Tensor
---@param sizes integer|integer[] # one by one, or in a table; new dims stand in front
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function ty.expand(x, sizes, ...) end

---the same as unsqueeze: a new dim of size 1 at that place
---Raises where the place is out of range.
---@param x tycho.Tensor
---@param dim integer # where the new dim will be, 1 to ndim + 1; negative from the end
---@return tycho.Tensor # a view
function ty.expand_dims(x, dim) end

---the same as sigmoid: 1 / (1 + exp(-x))
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.expit(x) end

---What a compiled function did: a table that prints in 25 lines at most; e:full() is the whole text, with guards,
---graphs and programs, e:table() a plain table. calls; nested (calls inside of other compiled functions); skips
---(calls that a trace answered: the function did not run); captures; timed (how many of these calls were timed,
---about one of 64), time (seconds that such a call took: the median of the last ones); traces, most recently used
---first: {key, guards, sizes (what was decided about them), effects, hits, dynamic, instances (sets of sizes),
---ranges (of sizes), no_range (why there is none), graph, plan (steps, outputs, pieces of the arena), sites (of
---the graph's nodes: "file:line", behind "<" in a backward pass, or false), seconds (of the plan's steps, the mean
---of so many runs: timed; nil where none was)}, and where a
---result needs a gradient: kept (what a call keeps for its backward pass: {what = "result", "input" or "constant",
---path, type, bytes, by (the operation whose gradient reads it)}), backward (its plans: {operations, kernels,
---steps, range (whether it is for a range of sizes)}); parts, where it is captured in parts, in the order of its
---code: {begins = "file:line", line, native (runs as it is), calls, skips, linked (skips that came straight from
---the part before), captures, timed, time, traces, aborts, ends[i] = {at = "file:line", line, reason, hint, where
---(the reason's "file:line")}, or {} for the function's end}; most_parts (at how many places it is cut, where there
---may not be more); misses, the last of them: {text, guard, path, was, now, line}, each compared with the trace
---whose guards agreed longest; aborts, the last of them: {text, file, line, reason, hint, cost in ms}. Of calls
---that ran and were recorded: signature_hits, signature_misses, evicted, differences, signatures[i] = {signature,
---hits, rests (runs eagerly for now, since recording does not pay), graphs = {{runs, text}}}. Traces and graphs
---tell their work: operations, operations_saved (that take no step of their own), kernels, steps, bytes_moved,
---bytes_saved.
---Raises where f is no compiled function.
---@param f function
---@return tycho.Explanation
function ty.explain(f) end

---exp(x) - 1, accurate near zero
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.expm1(x) end

---exp(x) - 1, accurate near zero; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.expm1_(x) end

---Writes exponential numbers, of mean 1 / lambda.
---Shape of the result: x
---Raises where x is no float tensor, lambda is not above 0, or x is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param lambda? number # 1
---@return tycho.Tensor # x itself
function ty.exponential_(x, lambda) end

---Writes f as one C11 file and its header, which need no library: the same bits, in programs without Lua.
---Tensors among the arguments become pointers, numbers doubles; all else that f reads is frozen, weights too.
---Options, by name beside the arguments: weights = "inside" (the C file, as it is without) or "beside" (model.bin);
---name: of the functions, else the file's; outputs = {"y", ...}: names of results; dynamic = {x = {1}}: dims of
---arguments that callers of the C function give, or {x = {[1] = "rows"}} with their names; most = 1024: the
---largest of these sizes, 128 at least.
---Gives {source, header, weights (paths), inputs, outputs, workspace (bytes)}; nil and a message where a file cannot
---be written.
---Raises where f cannot be captured whole, writes to what is outside of it, is decided by a number among its arguments, or needs what C cannot be written for, and says what; where an option is not known or stands in another argument; nothing is written then.
---@param f function|table # a function, compiled or not, or a module
---@param path string # "model.c"; beside it stand model.h and perhaps model.bin
---@param given? table # example arguments and options: {x, 0.5, weights = "beside"}
---@return table? written
---@return string? message
function ty.export(f, path, given) end

---1 on the main diagonal, 0 elsewhere
---Raises where n or m is no whole number from 0.
---@param n integer # rows
---@param m? integer # columns: n
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [n, m]; f32
function ty.eye(n, m, opts) end

---writes a value to every element of x
---Raises where the value does not fit the dtype, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param value number|boolean|tycho.Tensor # a tensor: of one element
---@return tycho.Tensor # x itself
function ty.fill_(x, value) end

---The limits of a float dtype: bits, max, min, eps (from 1 to the next number), tiny (the smallest normal number),
---smallest_subnormal, resolution. Of a complex dtype those of its parts.
---Shape of the result: a table
---Raises where the dtype is no float.
---@param dtype tycho.dtype
---@return table<string, number>
function ty.finfo(dtype) end

---the same as trunc: the whole part, towards zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.fix(x) end

---the same as trunc: the whole part, towards zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.fix_(x) end

---dims first to last as one
---Raises where a dim is out of range, or the first lies behind the last.
---@param x tycho.Tensor
---@param first? integer # 1
---@param last? integer # the last
---@return tycho.Tensor # a view where strides allow it, else a copy
function ty.flatten(x, first, last) end

---dims reversed, as a view; none: all
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param ... integer # the others, where they stand one by one
---@return tycho.Tensor # a view
function ty.flip(x, dims, ...) end

---Columns in reverse order: along the second dim.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@param x tycho.Tensor # at least two dims
---@return tycho.Tensor # the sizes of x, a view
function ty.fliplr(x) end

---Rows in reverse order: along the first dim.
---Shape of the result: x
---Raises where x has no dims.
---@param x tycho.Tensor # at least one dim
---@return tycho.Tensor # the sizes of x, a view
function ty.flipud(x) end

---a^b in f64; of complex numbers in c128.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, f64 or c128
function ty.float_power(a, b) end

---the next whole number below
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.floor(x) end

---the next whole number below; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.floor_(x) end

---quotient rounded down; an integer by 0 gives 0
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.floor_divide(a, b) end

---quotient rounded down; an integer by 0 gives 0; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.floor_divide_(a, b) end

---The larger; a number is larger than NaN.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function ty.fmax(a, b) end

---The smaller; a number is smaller than NaN.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, the promoted dtype
function ty.fmin(a, b) end

---remainder with the dividend's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.fmod(a, b) end

---remainder with the dividend's sign; an integer by 0 gives 0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.fmod_(a, b) end

---Columns as windows of an image, which are added up where they overlap: the transpose of nn.Unfold.
---Shape of the result: [batch, channels, height, width]
---Raises where x has not so many columns, or an option is out of range.
---@param x tycho.Tensor # [batch, channels rows columns, blocks], or without the batch
---@param size integer|integer[] # height and width of the image
---@param kernel integer|integer[] # rows and columns
---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
---@return tycho.Tensor # [batch, channels, height, width]
function ty.fold(x, size, kernel, opts) end

---What stands behind the point: x - trunc(x), of the sign of x.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape and dtype of x
function ty.frac(x) end

---what stands behind the point, of the sign of x; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.frac_(x) end

---a tensor over memory of others, which the anchor keeps alive
---Raises where the pointer is a number, or an array too small for the sizes. What the pointer leads to is not checked.
---@param pointer ffi.cdata*|userdata # an FFI pointer or array, or light userdata
---@param sizes integer|integer[]
---@param dtype? tycho.dtype # f32
---@param anchor? any # what must live as long as the tensor: the pointer
---@return tycho.Tensor # these sizes, over that memory: writes are seen on both sides
function ty.from_ptr(pointer, sizes, dtype, anchor) end

---one number or boolean in every element
---Raises where a size is no whole number from 0, or the value does not fit the dtype.
---@param sizes integer|integer[]
---@param value number|boolean # a boolean gives bool
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32 of numbers
function ty.full(sizes, value, opts) end

---one number in the shape and dtype of x
---Raises where the first argument is no tensor, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param value number|boolean
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.full_like(x, value, opts) end

---the same as lgamma: the logarithm of the magnitude of the gamma function
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.gammaln(x) end

---elements of a at the index's positions along a dim
---Raises where an index is no integer tensor, or out of range (named with its place).
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end; as many dims as x
---@return tycho.Tensor # the sizes of the index; y[i][j] = x[index[i][j]][j] for dim 1
function ty.gather(x, dim, index) end

---Minus the log-likelihood of target under a normal distribution: (log(var) + (x - target)^2 / var) / 2. Nix,
---Weigend 1994.
---Options: full = false: with the constant log(2 pi) / 2; eps = 1e-6: variances below count as eps; reduction.
---Shape of the result: 0-d, or the broadcast of all
---Formula: (log(var) + (x - target)^2 / var) / 2, Nix, Weigend 1994
---Raises where sizes do not broadcast, eps is not above 0, or the reduction is not known.
---@param x tycho.Tensor # floats: means
---@param target tycho.Tensor # floats
---@param var tycho.Tensor|number # variances, which broadcast to x; or the sizes of x without its last dim
---@param opts? {reduction: "mean"|"sum"|"none"|nil, full: boolean?, eps: number?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.gaussian_nll_loss(x, target, var, opts) end

---bool: a above or equal to b
---Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.ge(a, b) end

---x times the chance that a normal variable lies below x. Hendrycks, Gimpel 2016, arXiv:1606.08415.
---Shape of the result: x
---Formula: x / 2 * (1 + erf(x / sqrt(2)))
---Raises where x is not floating, or for another form.
---@param x tycho.Tensor # floats
---@param opts? {approximate: "none"|"tanh"|nil} # "tanh": the paper's faster form
---@return tycho.Tensor # shape and dtype of x
function ty.gelu(x, opts) end

---x times the chance that a normal variable lies below x; written to the first argument
---Shape of the result: x
---Formula: x / 2 * (1 + erf(x / sqrt(2))), Hendrycks, Gimpel 2016, arXiv:1606.08415
---Raises where x is not floating, or for another form; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param opts? {approximate: "none"|"tanh"|nil} # "tanh": the paper's faster form
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.gelu_(x, opts) end

---Writes geometric numbers: how many draws of probability p it takes until one succeeds, from 1.
---Shape of the result: x
---Raises where p does not lie between 0 and 1, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param p number # above 0, below 1
---@return tycho.Tensor # x itself
function ty.geometric_(x, p) end

---the same as outer: all products of an element of a with one of b
---Shape of the result: [n, m]
---Raises where an argument is no vector.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@return tycho.Tensor # [n, m]
function ty.ger(a, b) end

---one element as a number or boolean
---Raises where there is not one index for each dim, or one is out of range.
---@param x tycho.Tensor
---@param ... integer # one index for each dim, 1-based, negative from the end
---@return number|boolean value
---@return number? imaginary # of a complex number both parts
function ty.get(x, ...) end

---The first half of a dim times the sigmoid of the second. Dauphin and others 2016, arXiv:1612.08083.
---Shape of the result: x, half of the dim
---Raises where x is not floating, or the dim is out of range or of an odd size.
---@param x tycho.Tensor # floats
---@param dim? integer # the last
---@return tycho.Tensor # the dim has half the size
function ty.glu(x, dim) end

---a function that gives f's gradient for one or more of its arguments
---Raises where f is no function, or gives no float tensor of one element.
---@param f fun(...): tycho.Tensor # gives a float tensor of one element
---@param argnums? integer|integer[] # 1
---@return fun(...): ... # of the same arguments: the gradient in the structure of that argument
function ty.grad(f, argnums) end

---Compares the gradients of fn(...) with differences of its values, in f64. args: the list of arguments, or a tensor.
---Options: eps = 1e-6, the step; atol = 1e-5 and rtol = 1e-3: the gradient a is right where |a - n| <= atol + rtol
---|n|; raise = true, false gives false and the text. Every element is moved on its own: use tensors of some hundred
---elements.
---Raises where gradients differ from differences, unless raise = false; where there is no float tensor to go back to.
---@param fn fun(...): ...
---@param args any[]|tycho.Tensor
---@param opts? {eps: number?, atol: number?, rtol: number?, raise: boolean?}
---@return boolean
---@return string?
function ty.gradcheck(fn, args, opts) end

---The graph that f(...) records: a table of nodes {op, dtype, shape, src, live} with `text` and
---`dot`, printed as text. Where f demands a value there are several graphs, and a list of them is
---returned. f runs once; tensors that it writes to are put back, but not what it writes by set() or to
---memory whose address was taken.
---Raises where f is no function, and what f raises.
---@param f function
---@param ... any # what f is given
---@return tycho.Graph
function ty.graph(f, ...) end

---the same as gt: bool: a above b
---Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.greater(a, b) end

---the same as ge: bool: a above or equal to b
---Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.greater_equal(a, b) end

---The values of an image at the coordinates of a grid, which are in -1..1 from border to border; the last dim's
---comes first: {x, y} or {x, y, z}. Jaderberg and others 2015, arXiv:1506.02025.
---Options: mode = "bilinear" (between neighbours, in three dims too), "bicubic" (four neighbours a dim, by Keys'
---kernel of -0.75), or "nearest"; padding_mode = "zeros": what lies outside, "border": the places at the borders,
---"reflection": the image turned around there; align_corners = false: whether -1 and 1 are the middles of the
---outer places.
---Shape of the result: [batch, channels, rows, columns]
---Raises where the sizes do not fit each other, or an option is not known.
---@param x tycho.Tensor # floats [batch, channels, height, width] or [batch, channels, depth, height, width]
---@param grid tycho.Tensor # floats [batch, rows, columns, 2] or [batch, planes, rows, columns, 3]
---@param opts? {mode: "bilinear"|"bicubic"|"nearest"|nil, padding_mode: "zeros"|"border"|"reflection"|nil, align_corners: boolean?}
---@return tycho.Tensor # [batch, channels, rows, columns], or with planes
function ty.grid_sample(x, grid, opts) end

---bool: a above b.
---Operators such as < give Lua booleans, so comparisons are methods.
---Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.gt(a, b) end

---The softmax of (x + noise of Gumbel's distribution) / tau: a sample of classes by their logits, with a gradient;
---takes a stream of random numbers. Jang, Gu, Poole 2016, arXiv:1611.01144.
---Options: tau = 1, the temperature; hard = false: 1 for the chosen class and 0 elsewhere, with the gradient of the
---soft sample; dim = -1.
---Shape of the result: x
---Formula: softmax((x - log(-log(u))) / tau), u uniform
---Raises where x is not floating, dim is out of range, or tau is not above 0.
---@param x tycho.Tensor # floats: logits
---@param opts? {tau: number?, hard: boolean?, dim: integer?}
---@return tycho.Tensor # shape and dtype of x
function ty.gumbel_softmax(x, opts) end

---Hamming's window, 0.54 - 0.46 cos(2 pi k / n).
---Shape of the result: [n]
---Raises where n is negative or no whole number.
---@param n integer # its length
---@param periodic? boolean # true: of period n, for transforms; false: symmetric
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n]
function ty.hamming_window(n, periodic, opts) end

---Hann's window: one turn of a raised cosine
---Shape of the result: [n]
---Raises where n is negative or no whole number.
---@param n integer # its length
---@param periodic? boolean # true: of period n, for transforms; false: symmetric
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n]
function ty.hann_window(n, periodic, opts) end

---0 within -lambda..lambda, else x. NaN stays.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@param lambda? number # 0.5
---@return tycho.Tensor # shape and dtype of x
function ty.hardshrink(x, lambda) end

---0 within -lambda..lambda, else x; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param lambda? number # 0.5
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.hardshrink_(x, lambda) end

---relu6(x + 3) / 6: a sigmoid of three straight lines.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.hardsigmoid(x) end

---relu6(x + 3) / 6; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.hardsigmoid_(x) end

---x * relu6(x + 3) / 6. Howard and others 2019, arXiv:1905.02244.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.hardswish(x) end

---x * relu6(x + 3) / 6; written to the first argument
---Shape of the result: x
---Formula: Howard and others 2019, arXiv:1905.02244
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.hardswish_(x) end

---x within low..high; NaN stays.
---Shape of the result: x
---Formula: min(max(x, low), high)
---Raises where x is not floating, or low lies above high.
---@param x tycho.Tensor # floats
---@param low? number # -1
---@param high? number # 1
---@return tycho.Tensor # shape and dtype of x
function ty.hardtanh(x, low, high) end

---x within low..high; written to the first argument
---Shape of the result: x
---Formula: min(max(x, low), high)
---Raises where x is not floating, or low lies above high; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param low? number # -1
---@param high? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.hardtanh_(x, low, high) end

---0 below zero, 1 above, `value` at zero.
---Shape of the result: broadcast of x and value
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param x tycho.Tensor
---@param value tycho.Tensor|number # broadcasts with x
---@return tycho.Tensor # the broadcast shape
function ty.heaviside(x, value) end

---The help of a function as text; of a group the calls in it. Without an argument all names are printed; a list of
---them is given, groups as "nn.*".
---Raises for a name that is not known, and names the nearest.
---@param what? string|function # "softmax", "nn.Linear", "nn", "jit", ty.softmax
---@return string|string[]
function ty.help(what) end

---A function of f's arguments that gives the second derivatives of f's value by argument `argnum`, a tensor: the
---argument's dims twice.
---Raises where f is no function, or gives no float tensor of one element.
---@param f fun(...): tycho.Tensor # gives a float tensor of one element
---@param argnum? integer # 1
---@return fun(...): tycho.Tensor
function ty.hessian(f, argnum) end

---x where y is 1, max(0, margin - x) where it is -1: x is a distance.
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # floats
---@param y tycho.Tensor|number # 1 or -1, broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.hinge_embedding_loss(x, y, opts) end

---How many elements lie in each of equally wide intervals; the last one holds its end. Others are not counted.
---Shape of the result: [bins]
---Raises where bins is below 1, or min above max.
---@param x tycho.Tensor
---@param bins? integer # 100
---@param min? number # 0
---@param max? number # 0; where both are equal, those of the elements
---@return tycho.Tensor # [bins]; floats
function ty.histc(x, bins, min, max) end

---How many elements lie between edges, and the edges. The last interval holds its end.
---Shape of the result: [bins] and [bins + 1]
---Raises where bins is below 1, or the edges are no vector of at least two.
---@param x tycho.Tensor
---@param bins? integer|tycho.Tensor # 10, of equal width; or the edges, ascending
---@param opts? {range: number[]?, weight: tycho.Tensor?, density: boolean?} # range: {low, high}, by default those of the elements; density: divided by their sum and the widths
---@return tycho.Tensor counts
---@return tycho.Tensor edges # [bins] and [bins + 1]; floats
function ty.histogram(x, bins, opts) end

---Parts of equal size along dim 2, of a vector along its only one; or those between places, each beginning behind
---the place before.
---Shape of the result: a table
---Raises where x has no dims, or they do not divide.
---@param x tycho.Tensor
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function ty.hsplit(x, parts) end

---Tensors side by side: along the second dim, vectors along their only one.
---Shape of the result: the second sizes added up
---Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@return tycho.Tensor # at least one dim
function ty.hstack(list) end

---Half the squared difference up to delta, beyond it delta * (|difference| - delta / 2). Huber 1964.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: d <= delta: d^2 / 2, else delta (d - delta / 2), d = |x - y|, Huber 1964
---Raises where sizes do not fit each other, delta is not above 0, or the reduction is not known.
---@param x tycho.Tensor
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, delta: number?} # delta: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.huber_loss(x, y, opts) end

---sqrt(a^2 + b^2) without overflow on the way.
---Shape of the result: broadcast of a and b
---Formula: m * sqrt(1 + (n / m)^2), m the larger, n the smaller magnitude
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function ty.hypot(a, b) end

---sqrt(a^2 + b^2) without overflow on the way; written to the first argument
---Shape of the result: broadcast of a and b
---Formula: m * sqrt(1 + (n / m)^2), m the larger, n the smaller magnitude
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.hypot_(a, b) end

---The modified Bessel function of the first kind and order 0.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.i0(x) end

---the modified Bessel function of the first kind, order 0; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.i0_(x) end

---The modified Bessel function of the first kind and order 1.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.i1(x) end

---the modified Bessel function of the first kind, order 1; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.i1_(x) end

---The limits of an integer dtype: bits, min, max. The largest of i64 is 2^63 - 1, which Lua's numbers round to 2^63,
---that of u64 2^64 - 1, rounded to 2^64.
---Shape of the result: a table
---Raises where the dtype is no integer.
---@param dtype tycho.dtype
---@return table<string, number>
function ty.iinfo(dtype) end

---the imaginary parts of complex numbers, a view; 0 where x is real
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function ty.imag(x) end

---x with src's places added at the positions of a dim that the index names, one after the other.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n], from 1, negative from the end
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # shape and dtype of x
function ty.index_add(x, dim, index, src) end

---x with src's places added at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n], from 1, negative from the end
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.index_add_(x, dim, index, src) end

---x with src's places written at the positions of a dim that the index names; the last of equal ones wins.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # shape and dtype of x
function ty.index_copy(x, dim, index, src) end

---x with src's places written at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the source has other sizes; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param src tycho.Tensor # sizes of x, but n along dim
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.index_copy_(x, dim, index, src) end

---x with a number at the positions of a dim that the index names.
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param value number|tycho.Tensor # a number or 0-d tensor
---@return tycho.Tensor # shape and dtype of x
function ty.index_fill(x, dim, index, value) end

---x with a number at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where the index is not of integers or out of range, or the value does not fit the dtype; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers [n]
---@param value number|tycho.Tensor # a number or 0-d tensor
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.index_fill_(x, dim, index, value) end

---x with values written where the tensors of positions meet, one for each of the first dims; their sizes broadcast.
---A bool tensor names the places where it holds, which reads it. With accumulate values are added, in order; else
---the last of equal ones wins.
---Shape of the result: x
---Raises where positions are out of range, there are more of them than dims, or the values do not broadcast.
---@param x tycho.Tensor
---@param indices tycho.Tensor[] # integers or bool
---@param values tycho.Tensor|number # broadcasts to the positions and the other dims of x
---@param accumulate? boolean # false
---@return tycho.Tensor # shape and dtype of x
function ty.index_put(x, indices, values, accumulate) end

---x with values written where tensors of positions meet; written to the first argument
---Shape of the result: x
---Raises where positions are out of range, there are more of them than dims, or the values do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param indices tycho.Tensor[] # integers or bool
---@param values tycho.Tensor|number # broadcasts to the positions and the other dims of x
---@param accumulate? boolean # false
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.index_put_(x, indices, values, accumulate) end

---the places of a dim that a 1-d index names
---Raises where an index is no integer, or out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end; one dim
---@return tycho.Tensor # that dim as long as the index
function ty.index_select(x, dim, index) end

---Sums of products over the last dims.
---Shape of the result: other dims of a, then of b
---Raises where the last sizes differ.
---@param a tycho.Tensor # [.., k]
---@param b tycho.Tensor # [.., k]
---@return tycho.Tensor # the other dims of a, then those of b
function ty.inner(a, b) end

---Values between points, on straight lines; those of the first and the last point beyond them. As NumPy's.
---Shape of the result: x
---Raises where the points are no two vectors of the same size, or none.
---@param x tycho.Tensor # where
---@param xp tycho.Tensor # [n], ascending; that is not checked
---@param fp tycho.Tensor # [n], the values there
---@param opts? {left: number?, right: number?} # the values below the first and above the last point
---@return tycho.Tensor # shape of x; floats
function ty.interp(x, xp, fp, opts) end

---Another number of places in each dim behind batch and channels.
---Options: size, a number or a list; or scale (scale_factor), likewise; mode = "nearest" (of the place's corner),
---"nearest-exact" (of its middle), "linear" (also "bilinear", "trilinear"): between neighbours, "bicubic": of four
---a dim, "area": means; align_corners = false: whether the outer places keep their values; antialias = false: of
---linear and cubic modes, whether all places count that an output covers; recompute_scale_factor = false: whether
---places lie as with the size that follows from the scale, not with the scale, where that gives no whole number.
---Shape of the result: [batch, channels, size...]
---Formula: as PyTorch's interpolate
---Raises where x has other dims than 3 to 5, not one of size and scale is given, or the mode is not known.
---@param x tycho.Tensor # [batch, channels, length], [batch, channels, height, width] or with a depth
---@param opts {size: integer|integer[]|nil, scale: number|number[]|nil, scale_factor: number|number[]|nil, mode: string?, align_corners: boolean?, antialias: boolean?, recompute_scale_factor: boolean?}
---@return tycho.Tensor # [batch, channels, size...]
function ty.interpolate(x, opts) end

---the same as bitwise_not: every bit turned over; for bool the opposite
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or of floats.
---@param x tycho.Tensor|number # integers or bool, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted
function ty.invert(x) end

---whether x is a tensor of complex numbers
---Raises nothing: what is no tensor is not.
---@param x any
---@return boolean
function ty.is_complex(x) end

---whether the elements lie row by row
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return boolean
function ty.is_contiguous(x) end

---Whether its elements are real floats.
---Shape of the result: a boolean
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return boolean
function ty.is_floating_point(x) end

---whether v is a tensor
---Raises never.
---@param v any
---@return boolean
function ty.is_tensor(v) end

---Whether |a - b| <= atol + rtol * |b|, or a equals b; infinities are close to themselves alone.
---Options: rtol = 1e-5, atol = 1e-8, equal_nan = false.
---Shape of the result: broadcast of a and b
---Formula: as NumPy's isclose
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@param opts? {rtol: number?, atol: number?, equal_nan: boolean?}
---@return tycho.Tensor # bool, the broadcast shape
function ty.isclose(a, b, opts) end

---Whether the imaginary part is not 0.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # bool, shape of x
function ty.iscomplex(x) end

---Whether x is neither infinite nor NaN.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # bool, shape of x
function ty.isfinite(x) end

---Whether each element is one of the values; NaN is none of them.
---Shape of the result: x
---Raises where neither is a tensor.
---@param x tycho.Tensor|number
---@param values tycho.Tensor|number # any shape
---@param opts? {invert: boolean?} # false; true: whether it is none of them
---@return tycho.Tensor # bool, shape of x
function ty.isin(x, values, opts) end

---Whether x is infinite, of either sign.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # bool, shape of x
function ty.isinf(x) end

---Whether x is not a number.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # bool, shape of x
function ty.isnan(x) end

---Whether the imaginary part is 0; so of all reals.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # bool, shape of x
function ty.isreal(x) end

---The signal whose pieces have these transforms, in the sense of least squares: the inverse of ty.stft. As
---torch.istft; places that no window reaches are NaN, where PyTorch raises.
---Shape of the result: [..., places]
---Raises where x has not the frequencies of n_fft, or an option does not fit.
---@param x tycho.Tensor # complex [..., frequencies, pieces], or pairs of reals in one more dim
---@param n_fft integer # the places of a piece
---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, normalized: boolean?, onesided: boolean?, length: integer?, return_complex: boolean?} # as ty.stft was given; length: the places of the result; return_complex: false
---@return tycho.Tensor # real [places] or [batch, places]
function ty.istft(x, n_fft, opts) end

---the only element as a number or boolean.
---Waits for what computes x. Within a compiled function it ends a part.
---Raises where x has another number of elements than one, or an i64 is no Lua number exactly. A complex number gives its real and its imaginary part.
---@param x tycho.Tensor # of one element
---@return number|boolean value
---@return number? imaginary
function ty.item(x) end

---A function of f's arguments that gives the derivatives of f's result by argument `argnums` (or each of a list), a
---tensor: [result's dims, argument's dims]. All rows are computed at once, by vmap.
---Raises where f is no function, or gives no float tensor.
---@param f fun(...): tycho.Tensor # gives a float tensor of any dims
---@param argnums? integer|integer[] # 1
---@return fun(...): ...
function ty.jacobian(f, argnums) end

---f(x) and its derivative along v: the gradient of the gradient's product with a vector, which is linear in that.
---Raises where x and v differ in structure or sizes.
---@param f fun(x): tycho.Tensor
---@param x tycho.Tensor|table # nested tables of tensors, given to f as they are
---@param v tycho.Tensor|table # the direction, in the structure of x
---@return tycho.Tensor value
---@return tycho.Tensor derivative # both in the structure and sizes of f(x)
function ty.jvp(f, x, v) end

---Kaiser's window, i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta).
---Shape of the result: [n]
---Raises where n is negative or no whole number.
---@param n integer # its length
---@param periodic? boolean # true: of period n, for transforms; false: symmetric
---@param beta? number # 12: how steep it is
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n]
function ty.kaiser_window(n, periodic, beta, opts) end

---How far target, a distribution, is from x, logarithms of one: target * (log(target) - x); 0 where target is.
---Options: reduction, also "batchmean": the sum divided by the size of dim 1; log_target = false: target holds
---logarithms too. Kullback, Leibler 1951.
---Shape of the result: 0-d, or the broadcast of x and target
---Formula: target (log(target) - x), Kullback, Leibler 1951
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # log-probabilities
---@param target tycho.Tensor # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_target: boolean?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.kl_div(x, target, opts) end

---Kronecker's product: every element of a times all of b, as blocks.
---Shape of the result: each size the product of the two
---Raises where an argument is no tensor, or the result has more than 8 dims on the way.
---@param a tycho.Tensor
---@param b tycho.Tensor # at most 4 dims, as a
---@return tycho.Tensor # each size the product of the two
function ty.kron(a, b) end

---The k-th smallest element along a dim, and its position; of equal ones the first.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or k outside of 1 to its size.
---@param x tycho.Tensor
---@param k integer # from 1
---@param dim? integer # the last
---@param keepdim? boolean # false
---@return tycho.Tensor values
---@return tycho.Tensor positions # x without the dim; positions are i64 from 1
function ty.kthvalue(x, k, dim, keepdim) end

---the magnitudes of the differences, their mean by default
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param x tycho.Tensor
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.l1_loss(x, y, opts) end

---Over the last dim (or dims): (x - mean) / sqrt(var + eps) * weight + bias, the variance with correction 0.
---Ba, Kiros, Hinton 2016, arXiv:1607.06450.
---Shape of the result: x
---Raises where x is not floating, a dim is out of range, or weight or bias does not broadcast to x.
---@param x tycho.Tensor # floats
---@param weight? tycho.Tensor # broadcasts to x
---@param bias? tycho.Tensor # broadcasts to x
---@param opts? {dims: integer|integer[]|nil, eps: number?} # the last dim, 1e-5
---@return tycho.Tensor # shape and dtype of x
function ty.layer_norm(x, weight, bias, opts) end

---x times 2 to the power n
---Shape of the result: broadcast of x and n
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param x tycho.Tensor|number
---@param n tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape, floats
function ty.ldexp(x, n) end

---bool: a below or equal to b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.le(a, b) end

---x above zero, else slope * x.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@param slope? number # 0.01
---@return tycho.Tensor # shape and dtype of x
function ty.leaky_relu(x, slope) end

---x above zero, else slope * x; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param slope? number # 0.01
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.leaky_relu_(x, slope) end

---a + weight * (b - a): a at weight 0, b at weight 1.
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor
---@param b tycho.Tensor|number
---@param weight tycho.Tensor|number
---@return tycho.Tensor # the broadcast shape
function ty.lerp(a, b, weight) end

---a + weight * (b - a); written to the first argument
---Shape of the result: broadcast of the arguments
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor
---@param b tycho.Tensor|number
---@param weight tycho.Tensor|number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.lerp_(a, b, weight) end

---the same as lt: bool: a below b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.less(a, b) end

---the same as le: bool: a below or equal to b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.less_equal(a, b) end

---The logarithm of the magnitude of the gamma function; inf at 0, -1, -2 ...
---Near its zeros below 0 the error is absolute, some 1e-16.
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.lgamma(x) end

---the logarithm of the magnitude of the gamma function; written to the first argument
---Shape of the result: x
---Formula: Stirling's series, a polynomial near 1 and 2, reflection below 0
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.lgamma_(x) end

---count numbers in equal steps, both ends included
---Raises where the count is no whole number from 0.
---@param start number
---@param stop number
---@param count integer # how many numbers; of one it is the start
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [count]; f32
function ty.linspace(start, stop, count, opts) end

---What a file holds, by its ending: .npy .npz .safetensors .gguf .csv .tsv .png .jpg .jpeg .ppm .pgm .pnm. Options are
---those of the format's own load: ty.csv.load, ty.image.load, ty.files.npy.load and so on.
---Raises where the path is no string, its ending is no known format, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? table
---@return any value
---@return any more # a tensor, tensors by name, a table; nil and a message where the file cannot be read
function ty.load(path, opts) end

---Reads a checkpoint. The parts of `into` that have load_state_dict take up what was saved under their names, and
---random numbers go on where they stood; the rest is in what it gives. Without `into` states come as tables and the
---random numbers stay as they are.
---Raises where a part does not fit what was saved; then all are as they were.
---@param path string
---@param into? table<string, any> # such as {model = m, optimizer = opt}
---@param opts? {random: boolean?} # random = false: random numbers stay as they are
---@return table<string, any>? parts
---@return string? message
function ty.load_checkpoint(path, into, opts) end

---The weights of a model as other libraries save them: a .safetensors file, a model.safetensors.index.json with the
---files that it names, or a directory with one of these. For model:load_state_dict(weights, {from = "torch"}).
---Raises where the path is no string, or an option is not known.
---@param path string
---@param opts? {mmap: boolean?}
---@return table<string, tycho.Tensor>? weights
---@return string? message
function ty.load_weights(path, opts) end

---the natural logarithm; -inf at zero, NaN below
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.log(x) end

---the logarithm to base 10
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.log10(x) end

---the logarithm to base 10; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.log10_(x) end

---log(1 + x), accurate near zero
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.log1p(x) end

---log(1 + x), accurate near zero; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.log1p_(x) end

---the logarithm to base 2
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.log2(x) end

---the logarithm to base 2; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.log2_(x) end

---the natural logarithm; -inf at zero, NaN below; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.log_(x) end

---writes numbers with normal logarithms to x, returns it
---Shape of the result: x
---Raises where x is no float tensor, std is not above 0, or x is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param mean? number # 1: of the logarithms
---@param std? number # 2: of the logarithms
---@return tycho.Tensor # x itself
function ty.log_normal_(x, mean, std) end

---The logarithm of softmax over one dim, exact for small probabilities.
---Shape of the result: x
---Formula: z - log(sum(exp(z))), z = x - max(x)
---Raises where x is not floating or dim is out of range.
---@param x tycho.Tensor # floats, any shape
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function ty.log_softmax(x, dim) end

---the logarithm of softmax over a dim; written to the first argument
---Shape of the result: x
---Formula: z - log(sum(exp(z))), z = x - max(x)
---Raises where x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats, any shape
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.log_softmax_(x, dim) end

---log(exp(a) + exp(b)) without overflow.
---Shape of the result: broadcast of a and b
---Formula: max(a, b) + log1p(exp(-|a - b|))
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function ty.logaddexp(a, b) end

---log2(2^a + 2^b) without overflow.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function ty.logaddexp2(a, b) end

---log(exp(a) + exp(b)) without overflow; written to the first argument
---Shape of the result: broadcast of a and b
---Formula: max(a, b) + log1p(exp(-|a - b|))
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logaddexp_(a, b) end

---logarithm of the running sum of exp(x) along a dim
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer # may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers give the default float
function ty.logcumsumexp(x, dim) end

---Whether both are true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function ty.logical_and(a, b) end

---bool: both are true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logical_and_(a, b) end

---Whether it is false, that is zero.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # bool, shape of x
function ty.logical_not(x) end

---bool: false, that is zero; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logical_not_(x) end

---Whether either is true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function ty.logical_or(a, b) end

---bool: either is true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logical_or_(a, b) end

---Whether one alone is true; what is not zero is.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # bool, the broadcast shape
function ty.logical_xor(a, b) end

---bool: one alone is true; what is not zero is; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logical_xor_(a, b) end

---log(x / (1 - x)), the inverse of sigmoid; NaN outside of 0 to 1.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@param eps? number # x is kept from eps to 1 - eps; without it nothing is
---@return tycho.Tensor # shape of x, floats
function ty.logit(x, eps) end

---log(x / (1 - x)), the inverse of sigmoid; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@param eps? number # x is kept from eps to 1 - eps; without it nothing is
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logit_(x, eps) end

---log(sigmoid(x)), without overflow.
---Shape of the result: x
---Formula: -softplus(-x)
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.logsigmoid(x) end

---log(sigmoid(x)); written to the first argument
---Shape of the result: x
---Formula: -softplus(-x)
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.logsigmoid_(x) end

---Numbers whose logarithms are evenly spaced: base^start to base^stop.
---Shape of the result: [count]
---Raises where the count is no whole number from 0.
---@param start number # exponent of the first
---@param stop number # exponent of the last
---@param count integer # how many
---@param base? number # 10
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [count]; f32
function ty.logspace(start, stop, count, base, opts) end

---log(sum(exp(x))) without overflow; -inf of nothing.
---Shape of the result: x without the dims
---Formula: m + log(sum(exp(x - m))), m = max(x), or 0 where that is infinite
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function ty.logsumexp(x, dims, keepdim) end

---The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
---Shape of the result: the places become windows
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, length] or [channels, length]
---@param p number
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
---@return tycho.Tensor # [batch, channels, windows]
function ty.lp_pool1d(x, p, kernel, opts) end

---The p-th root of the sum of p-th powers of each window. Options: stride = kernel, ceil_mode = false.
---Shape of the result: the places become windows
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, height, width] or [channels, height, width]
---@param p number
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
---@return tycho.Tensor # [batch, channels, windows down, windows across]
function ty.lp_pool2d(x, p, kernel, opts) end

---bits moved up; 0 beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.lshift(a, b) end

---bits moved up; 0 beyond the width or for a negative count; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.lshift_(a, b) end

---bool: a below b
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.lt(a, b) end

---begins the random numbers of that seed; without one those of a fresh start.
---The generator is Philox4x32-10: its numbers depend on the seed and on how many draws came before, on nothing else.
---Raises where the seed is no whole number.
---@param seed? integer
function ty.manual_seed(seed) end

---max(0, margin - y (a - b)): a is to lie above b where y is 1, below where it is -1.
---Shape of the result: 0-d, or the broadcast of all
---Raises where sizes do not broadcast, or the reduction is not known.
---@param a tycho.Tensor # floats
---@param b tycho.Tensor # floats
---@param y tycho.Tensor # floats: 1 or -1
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.margin_ranking_loss(a, b, y, opts) end

---x with value where the bool mask holds
---Shape of the result: broadcast of x and mask
---Raises where the mask is not bool or does not broadcast to x, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param mask tycho.Tensor # bool, broadcasts with x
---@param value tycho.Tensor|number|boolean # a number or 0-d tensor, cast to x's dtype
---@return tycho.Tensor # the broadcast shape, dtype of x
function ty.masked_fill(x, mask, value) end

---x with value where the bool mask holds; written to the first argument
---Shape of the result: broadcast of x and mask
---Raises where the mask is not bool or does not broadcast to x, or the value does not fit the dtype; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param mask tycho.Tensor # bool, broadcasts with x
---@param value tycho.Tensor|number|boolean # a number or 0-d tensor, cast to x's dtype
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.masked_fill_(x, mask, value) end

---x with the elements of src, in order, where the mask holds.
---Shape of the result: x
---Raises where the mask is not bool or does not broadcast to x, or src has fewer elements than the mask has places.
---@param x tycho.Tensor
---@param mask tycho.Tensor # bool, broadcasts to x
---@param src tycho.Tensor # at least as many elements as the mask holds
---@return tycho.Tensor # shape and dtype of x
function ty.masked_scatter(x, mask, src) end

---x with the elements of src, in order, where the mask holds; written to the first argument
---Shape of the result: x
---Raises where the mask is not bool or does not broadcast to x, or src has fewer elements than the mask has places; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param mask tycho.Tensor # bool, broadcasts to x
---@param src tycho.Tensor # at least as many elements as the mask holds
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.masked_scatter_(x, mask, src) end

---elements where the bool mask holds, as one row.
---The same as x[mask]. Reads data: a compiled function goes on in another part behind it.
---Raises where the mask is not bool, or does not broadcast to x.
---@param x tycho.Tensor
---@param mask tycho.Tensor # bool, broadcasts to x
---@return tycho.Tensor # [count]
function ty.masked_select(x, mask) end

---matrix product, batched over leading dims.
---Sums go in blocks of 256 by fused multiply-add: the bits are the same for any machine and number of threads.
---Raises where inner sizes differ or leading dims do not broadcast.
---@param a tycho.Tensor # [..., n, k], or a vector [k]
---@param b tycho.Tensor # [..., k, m], or a vector [k]
---@return tycho.Tensor # [..., n, m]; a vector's dim is left out; dtypes promoted, half floats are added in f32
function ty.matmul(a, b) end

---the largest element over dims; NaN wins.
---The gradient is shared equally by those that are largest.
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmax.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.max(x, dims, keepdim) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options: stride = kernel, padding = 0 (of -inf), dilation = 1, ceil_mode = false; return_indices = false: where
---the elements lie, as a second result (for ty.max_unpool1d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, length] or [channels, length]
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows]; the same in i64, places from 1
function ty.max_pool1d(x, kernel, opts) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options, a number or {rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1; ceil_mode = false;
---return_indices = false: where the elements lie, row after row, as a second result (for ty.max_unpool2d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, height, width] or [channels, height, width]
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows down, windows across]; the same in i64, places from 1
function ty.max_pool2d(x, kernel, opts) end

---The largest element of each window. NaN wins. Of equals, and of NaNs, the first has the gradient; padding never.
---Options, a number or {planes, rows, columns}: stride = kernel, padding = 0 (of -inf), dilation = 1;
---ceil_mode = false; return_indices = false: where the elements lie, as a second result (for ty.max_unpool3d).
---Shape of the result: the places become windows
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param x tycho.Tensor # floats, [batch, channels, depth, height, width] or [channels, depth, height, width]
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.Tensor y
---@return tycho.Tensor? places # [batch, channels, windows of each dim]; the same in i64, places from 1
function ty.max_pool3d(x, kernel, opts) end

---The inverse of max_pool1d, as far as there is one: elements at their places, zeros elsewhere.
---Options: stride = kernel, padding = 0, as of the pooling; output_size: a list, where the sizes that follow from
---these are not those that were pooled.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param x tycho.Tensor # floats, [batch, channels, windows] or [channels, windows]
---@param places tycho.Tensor # integers from 1, as max_pool1d gives them with return_indices
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, length]
function ty.max_unpool1d(x, places, kernel, opts) end

---The inverse of max_pool2d, as far as there is one: elements at their places, zeros elsewhere. Options as of
---max_unpool1d.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param x tycho.Tensor # floats, [batch, channels, rows, columns] or [channels, rows, columns]
---@param places tycho.Tensor # integers from 1, as max_pool2d gives them with return_indices
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, height, width]
function ty.max_unpool2d(x, places, kernel, opts) end

---The inverse of max_pool3d, as far as there is one: elements at their places, zeros elsewhere. Options as of
---max_unpool1d.
---Shape of the result: windows become places
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param x tycho.Tensor # floats, [batch, channels, planes, rows, columns] or without the batch
---@param places tycho.Tensor # integers from 1, as max_pool3d gives them with return_indices
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_size: integer[]?}
---@return tycho.Tensor # [batch, channels, depth, height, width]
function ty.max_unpool3d(x, places, kernel, opts) end

---the larger; NaN wins, +0 above -0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.maximum(a, b) end

---the larger; NaN wins, +0 above -0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.maximum_(a, b) end

---The arithmetic mean: the sum divided by the count; NaN of nothing.
---Shape of the result: x without the dims
---Formula: sum(x) / n
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats, integers give the default float
function ty.mean(x, dims, keepdim) end

---The middle element in order; of an even count the lower one. NaN wins.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim, dtype of x
function ty.median(x, dim, keepdim) end

---Coordinates of a grid: one tensor for each axis, all of the grid's shape, as views.
---Options: indexing = "ij", the first axis is the first dim; "xy": it is the second one.
---Shape of the result: the sizes of the axes
---Raises where an axis has not one dim, or there are none or more than 8.
---@param ... tycho.Tensor|tycho.Tensor[]|{indexing: "ij"|"xy"|nil} # one dim each; or one table of them; then options
---@return tycho.Tensor[] # one tensor an axis, of the sizes of all axes
function ty.meshgrid(...) end

---the smallest element over dims; NaN wins.
---The gradient is shared equally by those that are smallest.
---Raises where a dim is out of range, or nothing is to be chosen from. One result: positions are argmin.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.min(x, dims, keepdim) end

---the smaller; NaN wins, -0 below +0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.minimum(a, b) end

---the smaller; NaN wins, -0 below +0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.minimum_(a, b) end

---x * tanh(softplus(x)). Misra 2019, arXiv:1908.08681.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.mish(x) end

---x * tanh(softplus(x)); written to the first argument
---Shape of the result: x
---Formula: Misra 2019, arXiv:1908.08681
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.mish_(x) end

---The product of two matrices.
---Shape of the result: [n, m]
---Raises where an argument is no matrix, or inner sizes differ.
---@param a tycho.Tensor # [n, k]
---@param b tycho.Tensor # [k, m]
---@return tycho.Tensor # [n, m]
function ty.mm(a, b) end

---the same as remainder: remainder with the divisor's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.mod(a, b) end

---The element that comes most often along a dim, the smallest of several; and the last position where it stands.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer # the last
---@param keepdim? boolean # false
---@return tycho.Tensor values
---@return tycho.Tensor positions # x without the dim; positions are i64 from 1
function ty.mode(x, dim, keepdim) end

---the same as movedim: dims moved to other places, the rest in order; a view
---Raises where a dim is given twice or out of range, or the lists differ in length.
---@param x tycho.Tensor
---@param from integer|integer[]
---@param to integer|integer[] # where those dims are in the result
---@return tycho.Tensor # a view
function ty.moveaxis(x, from, to) end

---dims moved to other places, the rest in order; a view
---Raises where a dim is given twice or out of range, or the lists differ in length.
---@param x tycho.Tensor
---@param from integer|integer[]
---@param to integer|integer[] # where those dims are in the result
---@return tycho.Tensor # a view
function ty.movedim(x, from, to) end

---the squared differences, their mean by default
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param x tycho.Tensor
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.mse_loss(x, y, opts) end

---The elements in ascending order along the first dim.
---Shape of the result: x
---Raises where x has no dims.
---@param x tycho.Tensor
---@return tycho.Tensor # shape and dtype of x
function ty.msort(x) end

---product, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.mul(a, b) end

---product, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.mul_(a, b) end

---The mean over classes of max(0, margin - x[label] + x[class])^p, the label's own left out.
---Options: p = 1, or 2; margin = 1; weight, of the labels' classes; reduction.
---Shape of the result: 0-d, or the labels'
---Raises where labels do not fit x or lie outside of its classes, p is not 1 or 2, or the reduction is not known.
---@param x tycho.Tensor # floats [..., classes]
---@param target tycho.Tensor # integer labels from 1, [...]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, p: 1|2|nil, margin: number?, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.Tensor # 0-d, or the sizes of the labels
function ty.multi_margin_loss(x, target, opts) end

---Several labels a sample: the sum of max(0, 1 - x[label] + x[class]) over labels, and over classes that are no
---label, divided by the number of classes.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where labels have not the sizes of x, or the reduction is not known.
---@param x tycho.Tensor # floats [..., classes]
---@param target tycho.Tensor # integer labels from 1, [..., classes]: those before the first 0 count
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the sizes of x without classes
function ty.multilabel_margin_loss(x, target, opts) end

---The mean over classes of bce_with_logits: several labels a sample.
---Options: reduction, over the samples; weight, of the classes.
---Shape of the result: 0-d, or the sizes without the last dim
---Formula: mean over classes of y softplus(-x) + (1 - y) softplus(x)
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # logits [..., classes]
---@param y tycho.Tensor # 0 or 1, the sizes of x
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.Tensor # 0-d, or the sizes of x without the last dim
function ty.multilabel_soft_margin_loss(x, y, opts) end

---n positions along the last dim, drawn by weight; weights at least 0, not all 0.
---Weights need not add up to 1.
---Raises where more are to be drawn than there are without replacement.
---@param weights tycho.Tensor # floats from 0, [count] or [rows, count]
---@param n integer # how many are drawn from each row
---@param replacement? boolean # false: no position comes twice
---@return tycho.Tensor # [n] or [rows, n]; i64, positions from 1
function ty.multinomial(weights, n, replacement) end

---the same as mul: product, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.multiply(a, b) end

---the same as mul: product, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.multiply_(a, b) end

---The product of a matrix and a vector.
---Shape of the result: [n]
---Raises where the arguments are no matrix and vector, or inner sizes differ.
---@param a tycho.Tensor # [n, k]
---@param v tycho.Tensor # [k]
---@return tycho.Tensor # [n]
function ty.mv(a, v) end

---numbers in place of NaN and infinities; the dtype's largest by default
---Shape of the result: x
---Raises where x is not a tensor or a number given is none.
---@param x tycho.Tensor # any shape
---@param nan? number # for NaN, 0
---@param posinf? number # for inf, the dtype's largest
---@param neginf? number # for -inf, the dtype's lowest
---@return tycho.Tensor # shape and dtype of x
function ty.nan_to_num(x, nan, posinf, neginf) end

---numbers in place of NaN and infinities; the dtype's largest by default; written to the first argument
---Shape of the result: x
---Raises where x is not a tensor or a number given is none; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@param nan? number # for NaN, 0
---@param posinf? number # for inf, the dtype's largest
---@param neginf? number # for -inf, the dtype's lowest
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.nan_to_num_(x, nan, posinf, neginf) end

---The largest of all that is no NaN; NaN where all is.
---Shape of the result: x without the dims
---Raises where a dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function ty.nanmax(x, dims, keepdim) end

---The mean of all that is no NaN; NaN of nothing.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function ty.nanmean(x, dims, keepdim) end

---The middle of all that is no NaN; of an even count the lower one.
---Shape of the result: x without the dim
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dim; floats
function ty.nanmedian(x, dim, keepdim) end

---The smallest of all that is no NaN; NaN where all is.
---Shape of the result: x without the dims
---Raises where a dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function ty.nanmin(x, dims, keepdim) end

---As quantile, of all that is no NaN.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param q number|tycho.Tensor # 0 to 1, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear"
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function ty.nanquantile(x, q, dim, keepdim, opts) end

---The sum of all that is no NaN.
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
function ty.nansum(x, dims, keepdim) end

---length places of a dim from start on, as a view
---Raises where the places are out of range.
---@param x tycho.Tensor
---@param dim integer
---@param start integer # the first place, 1-based
---@param length integer # how many places, from 0
---@return tycho.Tensor # a view with `length` places in that dim
function ty.narrow(x, dim, start, length) end

---bool: not equal; NaN differs from all
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.ne(a, b) end

---the negative, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.neg(x) end

---the negative, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.neg_(x) end

---the same as neg: the negative, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.negative(x) end

---the same as neg: the negative, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.negative_(x) end

---the same as numel: the number of elements
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return integer # the product of the sizes; 1 without dims
function ty.nelement(x) end

---Minus the log-probability of each label.
---Options: reduction = "mean", "sum" or "none"; dim = -1, of the classes; ignore_index, a label that counts for
---nothing; weight [classes], which multiplies the losses of each class: a mean divides by those of the labels.
---Shape of the result: 0-d, or the labels'
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where weights are not one for each class.
---@param x tycho.Tensor # floats: log-probabilities, the classes in the last dim
---@param target tycho.Tensor # integer labels from 1, sizes of x without the class dim
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, weight: tycho.Tensor?}
---@return tycho.Tensor # 0-d, or the sizes of the labels
function ty.nll_loss(x, target, opts) end

---calls fn(...) while nothing is recorded for gradients
---Raises where fn is no function, and what fn raises.
---@param fn fun(...): ...
---@param ... any # what fn is given
---@return any ... # what fn gives
function ty.no_grad(fn, ...) end

---positions of the elements that are not zero, one row each: i64 [count, ndim].
---Reads data: a compiled function goes on in another part behind it.
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # [count, ndim]; i64, positions from 1
function ty.nonzero(x) end

---The p-norm of the elements: the p-th root of the sum of |x|^p. p = inf: the largest magnitude, -inf: the smallest,
---0: how many are not zero.
---Shape of the result: x without the dims
---Formula: sum(|x|^p)^(1/p)
---Raises where a dim is out of range or given twice, or the largest of nothing is asked for.
---@param x tycho.Tensor
---@param p? number # 2
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function ty.norm(x, p, dims, keepdim) end

---normal numbers of that mean and deviation
---Raises where the deviation is negative, or the dtype no float.
---@param mean number
---@param std number # the standard deviation
---@param sizes? integer|integer[] # without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32
function ty.normal(mean, std, sizes, opts) end

---writes normal numbers to x, returns it
---Raises where x is no float tensor, or the deviation is negative.
---@param x tycho.Tensor # floats
---@param mean? number # 0
---@param std? number # 1
---@return tycho.Tensor # x itself
function ty.normal_(x, mean, std) end

---x / max(|x|, eps), the norm over one dim: vectors of norm 1.
---Options: p = 2, of the norm; dim = -1 (PyTorch's is the second); eps = 1e-12.
---Shape of the result: x
---Raises where x is not floating, or dim is out of range.
---@param x tycho.Tensor # floats
---@param opts? {p: number?, dim: integer?, eps: number?}
---@return tycho.Tensor # shape and dtype of x
function ty.normalize(x, opts) end

---the same as ne: bool: not equal; NaN differs from all
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.not_equal(a, b) end

---the number of elements
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return integer # the product of the sizes; 1 without dims
function ty.numel(x) end

---1 at the class's place of a new last dim, else 0.
---Shape of the result: index, then classes
---Raises where the index is not of integers, or one lies outside of 1 to the number of classes.
---@param index tycho.Tensor # integers, classes from 1
---@param classes? integer # how many; by default the largest class, which computes the index
---@return tycho.Tensor # i64, shape of the index and `classes` behind
function ty.one_hot(index, classes) end

---1 in every element
---Raises where a size is no whole number from 0, or the dtype or device is not known.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.ones(...) end

---1 in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.ones_like(x, opts) end

---All products of an element of a with one of b.
---Shape of the result: [n, m]
---Raises where an argument is no vector.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [m]
---@return tycho.Tensor # [n, m]
function ty.outer(a, b) end

---places of value around x, from dim 1 on.
---A number stands for a pair of it: {1, 2} is {{1, 1}, {2, 2}}. That is not PyTorch's list, which begins with the last
---dim: its F.pad(x, (1, 2)) is x:pad({..., {1, 2}}) here, with {0, 0} for each dim before the last.
---Raises where there are more pairs than dims, or a number is negative.
---@param x tycho.Tensor
---@param pairs (integer|{[1]: integer, [2]: integer})[] # {before, after} of dim 1, 2, ...
---@param value? number # 0
---@return tycho.Tensor # each dim longer by before + after
function ty.pad(x, pairs, value) end

---The norm of a - b + eps over the last dim.
---Options: p = 2, of the norm; eps = 1e-6; keepdim = false.
---Shape of the result: the broadcast of a and b without the last dim
---Raises where sizes do not broadcast.
---@param a tycho.Tensor # floats [..., features]
---@param b tycho.Tensor # floats [..., features]
---@param opts? {p: number?, eps: number?, keepdim: boolean?}
---@return tycho.Tensor # the broadcast sizes without the last dim
function ty.pairwise_distance(a, b, opts) end

---Registers a pass under a name: {passes = {name}} of jit.compile runs it. fn(graph, example_inputs) changes the
---graph or returns another one. A name may be given anew: functions that are compiled later get the new pass.
---Raises where the name is no string, or fn no function.
---@param name string
---@param fn fun(graph: tycho.GraphObject, inputs: tycho.Tensor[]): tycho.GraphObject?
function ty.pass(name, fn) end

---The p-norms of the differences of each row with those behind it.
---Shape of the result: [n (n - 1) / 2]
---Raises where x is no matrix.
---@param x tycho.Tensor # [n, k]
---@param p? number # 2; also 0, 1, math.huge
---@return tycho.Tensor # [n (n - 1) / 2]; floats
function ty.pdist(x, p) end

---As quantile, with q in per cent, as NumPy's.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 100, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param q number|tycho.Tensor # 0 to 100, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear"
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function ty.percentile(x, q, dim, keepdim, opts) end

---the dims in another order, as a view
---Raises where a dim is missing, given twice or out of range.
---@param x tycho.Tensor
---@param dims integer|integer[] # every dim once, one by one or in a table
---@param ... integer # the others
---@return tycho.Tensor # a view
function ty.permute(x, dims, ...) end

---the same as permute: the dims in another order, as a view
---Raises where a dim is missing, given twice or out of range.
---@param x tycho.Tensor
---@param dims integer|integer[] # every dim once, one by one or in a table
---@param ... integer # the others
---@return tycho.Tensor # a view
function ty.permute_dims(x, dims, ...) end

---Channels moved into blocks of r x r places.
---Shape of the result: [..., c, h r, w r]
---Raises where x has fewer than three dims, or r^2 does not divide the channels.
---@param x tycho.Tensor # [..., c r^2, h, w]
---@param factor integer # r
---@return tycho.Tensor # [..., c, h r, w r]
function ty.pixel_shuffle(x, factor) end

---Blocks of r x r places moved into channels.
---Shape of the result: [..., c r^2, h, w]
---Raises where x has fewer than three dims, or r does not divide the places.
---@param x tycho.Tensor # [..., c, h r, w r]
---@param factor integer # r
---@return tycho.Tensor # [..., c r^2, h, w]
function ty.pixel_unshuffle(x, factor) end

---A plot, still empty; or rows of plots as one. Options: title, xlabel, ylabel; xscale, yscale = "log"; xlim, ylim =
---{low, high}; width, height in pixels, beside others in proportion; legend = false or a corner such as "top left" (by
---default where there is
---room); grid = false; axes = false; theme = "dark", or "auto": an SVG follows its reader's light or dark scheme.
---Raises where an option is not known, or a row holds something else than plots.
---@param opts? {title: string?, xlabel: string?, ylabel: string?, xscale: "linear"|"log"|nil, yscale: "linear"|"log"|nil, xlim: number[]?, ylim: number[]?, width: number?, height: number?, legend: boolean|string|nil, grid: boolean?, theme: string?, axes: boolean?, [integer]: tycho.Plot[]}
---@return tycho.Plot
function ty.plot(opts) end

---Numbers of events, of Poisson's distribution with that mean: one for each element. Reads the largest mean.
---By inversion, in f64: the probabilities of 0, 1, 2, ... are added up until they exceed a uniform number. A large
---mean is a sum of several draws.
---Shape of the result: rate
---Formula: the least k with u < sum of exp(-rate) rate^i / i!, i = 0 to k
---Raises where a mean is negative, not finite, or above 1e6.
---@param rate tycho.Tensor # floats from 0
---@return tycho.Tensor # shape and dtype of rate
function ty.poisson(rate) end

---Minus the log-likelihood of counts under a Poisson distribution: exp(x) - target * x.
---Options: log_input = true; false: x is the mean itself, x - target * log(x + eps); full = false: with Stirling's
---approximation of log(target!) for targets above 1; eps = 1e-8; reduction.
---Shape of the result: 0-d, or the broadcast of x and target
---Formula: exp(x) - target x
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # floats
---@param target tycho.Tensor|number # counts, broadcast to x, or x to them
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_input: boolean?, full: boolean?, eps: number?}
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.poisson_nll_loss(x, target, opts) end

---Complex numbers of magnitudes and angles: abs * (cos(angle) + i sin(angle)).
---Shape of the result: broadcast of both
---Raises where sizes do not broadcast, or an argument is complex.
---@param abs tycho.Tensor|number|table # the magnitudes
---@param angle tycho.Tensor|number|table # in radians
---@param opts? {dtype: tycho.dtype?, device: string?, requires_grad: boolean?} # dtype: c128 for f64, else c64
---@return tycho.Tensor # the broadcast shape, c64 or c128
function ty.polar(abs, angle, opts) end

---The coefficients of the polynomial of that degree that fits points best, in the sense of least squares; the
---highest power's first. As NumPy's. Stands on LAPACK.
---Shape of the result: [degree + 1]
---Raises where x and y differ in size, or the degree is negative.
---@param x tycho.Tensor # [n]
---@param y tycho.Tensor # [n] or [n, curves]
---@param degree integer
---@return tycho.Tensor # [degree + 1] or [degree + 1, curves]; floats
function ty.polyfit(x, y, degree) end

---The n-th derivative of digamma. Below zero only of n = 0 and 1, NaN for others.
---Shape of the result: x
---Formula: (-1)^(n + 1) n! zeta(n + 1, x)
---Raises where n is no whole number from 0, or x no tensor.
---@param n integer
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.polygamma(n, x) end

---The value of a polynomial, the highest power's coefficient first. As NumPy's.
---Shape of the result: x
---Raises where the coefficients are no vector.
---@param p tycho.Tensor # [degree + 1]
---@param x tycho.Tensor|number # where
---@return tycho.Tensor # shape of x
function ty.polyval(p, x) end

---a to the power b; integers wrap, a negative exponent truncates
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.pow(a, b) end

---a to the power b; integers wrap, a negative exponent truncates; written to the first argument
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.pow_(a, b) end

---the same as pow: a to the power b; integers wrap, a negative exponent truncates
---Accuracy: within 2 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.power(a, b) end

---"exact", the default: every operation rounds once; "fast": products of bf16 may run on the processor's matrix unit (AMX) or by its dot products (AVX512-BF16), which flush denormals, and those of half floats on a CUDA device's tensor cores, by cuBLASLt, attention of theirs by cuDNN, Fourier transforms there by cuFFT; "tf32": there those of f32 too, whose operands keep 10 bits; compiled equals eager in all
---Raises for other names.
---@param name? "exact"|"fast"|"tf32"
---@return string # the precision so far
function ty.precision(name) end

---x above zero, else weight * x, of one weight for all or one a channel. He and others 2015, arXiv:1502.01852.
---Shape of the result: x
---Raises where x is not floating, or the weight is neither one number nor one a channel.
---@param x tycho.Tensor # floats: [batch, channels, ...], or any shape with one weight
---@param weight tycho.Tensor # floats [1] or [channels]
---@return tycho.Tensor # shape of x
function ty.prelu(x, weight) end

---x above zero, else weight * x; written to the first argument
---Shape of the result: x
---Formula: He and others 2015, arXiv:1502.01852
---Raises where x is not floating, or the weight is neither one number nor one a channel; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats: [batch, channels, ...], or any shape with one weight
---@param weight tycho.Tensor # floats [1] or [channels]
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.prelu_(x, weight) end

---product over dims
---Raises where a dim is out of range or given twice, or the list is empty.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; integers and bool give i64; 1 of nothing
function ty.prod(x, dims, keepdim) end

---Runs fn() and tells where its time went: a table that prints well, then fn's results. path: a trace is written
---there, which chrome://tracing and ui.perfetto.dev show. The machine's limits are measured the first time, which
---takes about a tenth of a second.
---Raises where fn is no function, and what fn raises.
---@param fn function
---@param path? string
---@return tycho.Profile?
---@return ...
function ty.profile(fn, path) end

---A progress bar over n steps, a list or an iterator (nil: of unknown length). Options: label; unit and per_step, for
---the rate ("step", 1); total, of an iterator; curve: the value or values drawn as curves; height: their rows, 8.
---Raises where it is no count, list or iterator, or an option is not known.
---@param what? integer|table|function
---@param opts? {label: string?, unit: string?, per_step: number?, total: integer?, curve: string|string[]|nil, height: integer?}
---@return tycho.Progress
function ty.progress(what, opts) end

---The dtype in which two meet, as in a sum of tensors of both: the larger of a kind, the float of a float and an
---integer; i16 for u8 and i8, f32 for f16 and bf16; of unsigned and signed integers the smallest that holds both,
---f64 for u64 and a signed one. ty.help "promotion" shows all pairs.
---Shape of the result: a dtype
---Raises where a name is no dtype.
---@param a tycho.dtype
---@param b tycho.dtype
---@return tycho.dtype
function ty.promote_types(a, b) end

---the same as digamma: the logarithmic derivative of the gamma function
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.psi(x) end

---The largest element less the smallest.
---Shape of the result: x without the dims
---Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims
function ty.ptp(x, dims, keepdim) end

---What of the elements in order lies at the part q of the way from the first to the last; NaN where one is.
---Shape of the result: x without the dim
---Raises where q lies outside of 0 to 1, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param q number|tycho.Tensor # 0 to 1, or a vector of such
---@param dim? integer # all
---@param keepdim? boolean # false
---@param opts? {interpolation: "linear"|"lower"|"higher"|"nearest"|"midpoint"|nil} # "linear": between two elements
---@return tycho.Tensor # x without the dim; for a vector q its size before that; floats
function ty.quantile(x, q, dim, keepdim, opts) end

---Radians as degrees.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats
function ty.rad2deg(x) end

---radians as degrees; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.rad2deg_(x) end

---the same as deg2rad: degrees as radians
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats
function ty.radians(x) end

---uniform numbers from 0 to below 1.
---Every call takes the next stream of the seed, compiled or not: the numbers are the same in both, on every machine.
---Raises where the dtype is no float.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.rand(...) end

---uniform numbers from 0 to below 1 in the shape and dtype of x
---Raises where x is no tensor, or the dtype no float.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.rand_like(x, opts) end

---whole numbers from low to high, both included; i64.
---As math.random: both ends may come.
---Raises where high lies below low.
---@param low integer
---@param high integer
---@param sizes? integer|integer[] # without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; i64
function ty.randint(low, high, sizes, opts) end

---normal numbers of mean 0 and deviation 1.
---By Box and Muller's method.
---Raises where the dtype is no float.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.randn(...) end

---normal numbers in the shape and dtype of x
---Raises where x is no tensor, or the dtype no float.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.randn_like(x, opts) end

---Writes whole numbers from `from` to `to`, both of them among these, each as likely. Without them: from 0 to the
---largest that the dtype holds together with all below it (2^53 - 1 at most).
---Shape of the result: x
---Raises where only one bound is given, from is above to, or x is complex or a leaf that requires a gradient.
---@param x tycho.Tensor
---@param from? integer # 0
---@param to? integer # the dtype's largest; it is drawn, too, as by math.random
---@return tycho.Tensor # x itself
function ty.random_(x, from, to) end

---where the random numbers stand, as text; given such a text, goes on from there
---Raises where the text is none that it gave.
---@param state? string # 32 hexadecimal digits
---@return string # the state now
function ty.random_state(state) end

---1 to n in random order; i64
---Raises where n is negative.
---@param n integer
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [n]; i64, each of 1 to n once
function ty.randperm(n, opts) end

---numbers as of Lua's for, with the stop; range(n) is 1 to n
---Raises where the step is 0.
---@param start? number # 1
---@param stop number # part of the result where a step hits it
---@param step? number # 1; below 0 it counts down
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [floor((stop - start) / step) + 1]; f32
---@overload fun(stop: number, opts?: {dtype: tycho.dtype?, device: string?}): tycho.Tensor
function ty.range(start, stop, step, opts) end

---the same as flatten: dims first to last as one
---Raises where a dim is out of range, or the first lies behind the last.
---@param x tycho.Tensor
---@param first? integer # 1
---@param last? integer # the last
---@return tycho.Tensor # a view where strides allow it, else a copy
function ty.ravel(x, first, last) end

---the real parts of complex numbers, a view; x itself if it is real
---Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function ty.real(x) end

---1 / x, element by element; inf at zero.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.reciprocal(x) end

---1 / x, element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.reciprocal_(x) end

---frees the memory of x at once, unless others share it; x cannot be used afterwards.
---The collector is told of a tensor's bytes and frees it in time; this frees it now.
---Raises where x is no tensor; using x afterwards raises, too.
---@param x tycho.Tensor
function ty.release(x) end

---The larger of x and 0. NaN stays.
---Shape of the result: x
---Formula: max(x, 0)
---Raises where x is not a tensor.
---@param x tycho.Tensor # any shape and dtype
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function ty.relu(x) end

---min(max(x, 0), 6). Krizhevsky 2010. NaN stays.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.relu6(x) end

---x within 0..6; written to the first argument
---Shape of the result: x
---Formula: min(max(x, 0), 6)
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.relu6_(x) end

---the larger of x and 0; written to the first argument
---Shape of the result: x
---Formula: max(x, 0)
---Raises where x is not a tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape and dtype
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.relu_(x) end

---remainder with the divisor's sign; an integer by 0 gives 0
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.remainder(a, b) end

---remainder with the divisor's sign; an integer by 0 gives 0; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.remainder_(a, b) end

---each element repeated; a count for all or a tensor of counts; no dim: flattened
---Raises where a count is negative, or counts are not as many as places.
---@param x tycho.Tensor
---@param count integer|tycho.Tensor # one for all, or an integer tensor of one for each place
---@param dim? integer # flattened
---@return tycho.Tensor # that dim as long as the counts add up to
function ty.repeat_interleave(x, count, dim) end

---makes x a leaf: operations on it are taped, and backward fills x.grad.
---As PyTorch's.
---Raises where x is not of floats, or on = false and x is the result of an operation.
---@param x tycho.Tensor # floats
---@param on? boolean # true
---@return tycho.Tensor # x itself
function ty.requires_grad_(x, on) end

---Forgets the signatures and counters of a compiled function.
---Raises where f is no compiled function.
---@param f function
function ty.reset(f) end

---x with other sizes, one of them -1 for what is left; a view where strides allow it, else a copy
---Raises where the sizes do not hold as many elements.
---@param x tycho.Tensor
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # these sizes; the dtype of x
function ty.reshape(x, sizes, ...) end

---The dtype of what an operation makes of two tensors or numbers; numbers are weak: they do not widen a float.
---Shape of the result: a dtype
---Raises where neither is a tensor.
---@param a tycho.Tensor|number|boolean
---@param b tycho.Tensor|number|boolean
---@return tycho.dtype
function ty.result_type(a, b) end

---the same as round: the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.rint(x) end

---Over the last dim (or dims): x / sqrt(mean(x^2) + eps) * weight. Zhang, Sennrich 2019, arXiv:1910.07467.
---Shape of the result: x
---Raises where x is not floating, a dim is out of range, or the weight does not broadcast to x.
---@param x tycho.Tensor # floats
---@param weight? tycho.Tensor # broadcasts to x
---@param opts? {dims: integer|integer[]|nil, eps: number?} # the last dim, 1e-5
---@return tycho.Tensor # shape and dtype of x
function ty.rms_norm(x, weight, opts) end

---places moved up along dims, coming in again below; no dims: flattened
---Raises where shifts and dims differ in number, or a dim is out of range.
---@param x tycho.Tensor
---@param shifts integer|integer[]
---@param dims? integer|integer[] # flattened, and back
---@return tycho.Tensor # the sizes of x
function ty.roll(x, shifts, dims) end

---x turned by k quarters in the plane of two dims, from the first to the second.
---Shape of the result: x, two sizes exchanged
---Raises where there are not two different dims.
---@param x tycho.Tensor
---@param k? integer # 1; below zero it turns back
---@param dims? integer[] # {1, 2}
---@return tycho.Tensor # a view; the two sizes are exchanged for an odd k
function ty.rot90(x, k, dims) end

---the nearest whole number, half to even
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.round(x) end

---the nearest whole number, half to even; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.round_(x) end

---the same as vstack: tensors one below the other; vectors are rows
---Shape of the result: the first sizes added up
---Raises where the list is empty, or sizes differ in another dim than the first.
---@param list tycho.Tensor[]
---@return tycho.Tensor # at least two dims; the first sizes added up
function ty.row_stack(list) end

---an iterator over i, x[i] along dim 1.
---for i, row in x:rows() do ... end. Rows are views.
---Raises where x has no dims.
---@param x tycho.Tensor
---@return fun(): integer, tycho.Tensor
function ty.rows(x) end

---bits moved down, keeping the sign; all sign beyond the width or for a negative count
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted
function ty.rshift(a, b) end

---bits moved down, keeping the sign; all sign beyond the width or for a negative count; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or not of integers, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # integers, any shape that broadcasts
---@param b tycho.Tensor|number # integers, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.rshift_(a, b) end

---1 / sqrt(x), element by element; inf at zero, NaN below.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats; integers give the default float
function ty.rsqrt(x) end

---1 / sqrt(x), element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.rsqrt_(x) end

---Writes a file, by its ending, as load has them but .gguf; the file is whole or, where that fails, as it was before.
---Options are those of the format's own save.
---Raises where the path is no string, its ending is no known format, or the value is not what the format takes. What cannot be written gives nil and a message. `ty.save("model.onnx", f, {x, ...})` writes what a function or module computes, see ty.onnx.save.
---@param path string
---@param value any # a tensor, or tensors by name: what the format takes
---@param opts? table
---@return true? ok
---@return string? message
function ty.save(path, value, opts) end

---writes models, optimisers, schedules, numbers, texts by name; true, or nil and a message
---Raises where the path is no string, or a part is neither savable nor has state_dict.
---@param path string
---@param parts table<string, any> # such as {model = m, optimizer = opt, schedule = s, step = 100}
---@return true? ok
---@return string? message
function ty.save_checkpoint(path, parts) end

---What the values give to each query, by softmax(q k^t scale + mask).
---Options: mask, of bools (true: seen) or of floats (added to the scores), which broadcasts to [..., queries, keys];
---causal = false: the last query sees all keys, each one before it one key less; dropout = 0, of the weights;
---training = true, else there is no dropout; scale = 1 / sqrt(features).
---Keys and values may have fewer heads (dim -3) than queries: each serves as many that stand side by side.
---Vaswani and others 2017, arXiv:1706.03762. Memory grows with queries + keys, not with their product.
---Shape of the result: [..., queries, width of v]
---Raises where features, positions, dtypes or leading sizes do not fit each other, or the mask does not broadcast to the scores.
---@param q tycho.Tensor # floats [..., queries, features]
---@param k tycho.Tensor # floats [..., keys, features]
---@param v tycho.Tensor # floats [..., keys, width]
---@param opts? {mask: tycho.Tensor?, causal: boolean?, dropout: number?, training: boolean?, scale: number?}
---@return tycho.Tensor # [..., queries, width], dtype of q
function ty.scaled_dot_product_attention(q, k, v, opts) end

---carry, y = f(carry, x) for each x = xs[1], xs[2], ... in turn, beginning with init. Gives the last carry, and
---the y of all turns, stacked. What is carried, xs and y are tensors, or nested tables of them; what is carried
---keeps its types and shapes. f runs once, or a few times where gradients are asked for: it must not read elements
---of tensors, nor write to tensors from outside; what it is given is its own. It draws the random numbers that the
---loop would. A result needs a gradient where it may need one in some turn. y has 7 dims at most.
---reverse: from the last row to the first; length: how many turns, where xs is nil; checkpoint: for gradients only
---what about sqrt(turns) turns were given is kept (a number: every so many), and the others run again.
---Raises where what is carried changes its type or sizes, sequences differ in length, or f reads elements.
---@param f fun(carry: any, x: any): any, any
---@param init any
---@param xs any
---@param opts? {reverse: boolean?, length: integer?, checkpoint: boolean|integer|nil}
---@return any carry
---@return any ys
function ty.scan(f, init, xs, opts) end

---a with elements of src written at the index's positions along a dim; the last wins
---Raises where an index is no integer tensor, or out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function ty.scatter(x, dim, index, src) end

---a with elements of src written at the index's positions along a dim; the last wins; written to the first argument
---Raises where an index is no integer tensor, or out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.scatter_(x, dim, index, src) end

---a with elements of src added in order at the index's positions along a dim.
---The order of the sums is that of the index, on every machine.
---Raises where an index is no integer tensor, or out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function ty.scatter_add(x, dim, index, src) end

---a with elements of src added in order at the index's positions along a dim; written to the first argument
---Raises where an index is no integer tensor, or out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] # integers from 1; as many dims as x
---@param src tycho.Tensor|number # at least as large as the index
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.scatter_add_(x, dim, index, src) end

---x with elements of src joined at the index's positions along a dim: by sum, prod, mean, amax or amin.
---Shape of the result: x
---Raises where an index is not of integers or out of range, or the kind is not known.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers, as many dims as x
---@param src tycho.Tensor # at least as large as the index
---@param reduce "sum"|"prod"|"mean"|"amax"|"amin" # also "mul", "max", "min"
---@param opts? {include_self: boolean?} # true: the element of x is one of those joined
---@return tycho.Tensor # shape and dtype of x
function ty.scatter_reduce(x, dim, index, src, reduce, opts) end

---x with elements of src joined at the index's positions along a dim; written to the first argument
---Shape of the result: x
---Raises where an index is not of integers or out of range, or the kind is not known; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor # integers, as many dims as x
---@param src tycho.Tensor # at least as large as the index
---@param reduce "sum"|"prod"|"mean"|"amax"|"amin" # also "mul", "max", "min"
---@param opts? {include_self: boolean?} # true: the element of x is one of those joined
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.scatter_reduce_(x, dim, index, src, reduce, opts) end

---calls fn(...) and frees the tensors made meanwhile, but those that it returns, also in tables
---Raises where fn is no function, and what fn raises.
---@param fn fun(...): ...
---@param ... any
---@return any ... # what fn gives
function ty.scope(fn, ...) end

---where values would go in sorted rows.
---Rows must be in ascending order; that is not checked.
---Raises where leading sizes differ.
---@param sorted tycho.Tensor # [n] or [..., n]
---@param values tycho.Tensor|number # any shape for [n], else [..., m]
---@param right? boolean # false: before equal elements; true: behind them
---@return tycho.Tensor # the sizes of values; i64, places from 1 to n + 1
function ty.searchsorted(sorted, values, right) end

---The places of a dim at one position, without that dim.
---Shape of the result: x without the dim
---Raises where the dim or the position is out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index integer # from 1, negative from the end
---@return tycho.Tensor # a view without the dim
function ty.select(x, dim, index) end

---x with src at one position of a dim.
---Shape of the result: x
---Raises where the position is out of range, or src has other sizes than the places there.
---@param x tycho.Tensor
---@param src tycho.Tensor # sizes of x without the dim
---@param dim integer
---@param index integer # from 1, negative from the end
---@return tycho.Tensor # shape and dtype of x
function ty.select_scatter(x, src, dim, index) end

---An elu of fixed alpha and scale, which keeps mean 0 and variance 1. Klambauer and others 2017, arXiv:1706.02515.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.selu(x) end

---an elu of fixed alpha and scale, which keeps mean 0 and variance 1; written to the first argument
---Shape of the result: x
---Formula: Klambauer and others 2017, arXiv:1706.02515
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.selu_(x) end

---writes one element, returns x
---Raises where there is not one index for each dim, one is out of range, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param ... integer|number|boolean # one index for each dim, then the value; of a complex number one part or both
---@return tycho.Tensor # x itself
function ty.set(x, ...) end

---how many decimals tensors are shown with at most
---Raises where the precision is no whole number from 0 to 17.
---@param opts {precision: integer?} # decimals at most: 4
function ty.set_print(opts) end

---the same as sign: -1, 0 or 1 as x is below, at or above zero; NaN stays
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function ty.sgn(x) end

---Shows a vector as small bars; a matrix, an image [3, h, w] or a sheet of images [n, h, w], [n, c, h, w] in
---colours. Options: mode = "kitty", "sixel", "24bit", "256" or "plain", instead of what the terminal has; width in
---columns; map and lim as in plots; columns, of a sheet; text = true gives the text and writes nothing.
---Raises where x is no tensor or list of numbers, has more than 4 dims, or an option is not known.
---@param x tycho.Tensor|number[]|number[][]
---@param opts? {mode: string?, width: integer?, map: string?, lim: number[]?, columns: integer?, text: boolean?}
---@return string? text
function ty.show(x, opts) end

---1 / (1 + exp(-x))
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.sigmoid(x) end

---1 / (1 + exp(-x)); written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sigmoid_(x) end

--- -1, 0 or 1 as x is below, equal to or above zero; NaN stays, and so does the sign of zero. Of complex numbers
---x / |x|, and 0 at 0.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function ty.sign(x) end

----1, 0 or 1 as x is below, at or above zero; NaN stays; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sign_(x) end

---Whether the sign is that of -1: -0 has it.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # bool, shape of x
function ty.signbit(x) end

---x * sigmoid(x), also called swish. Elfwing, Uchibe, Doya 2017, arXiv:1702.03118.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.silu(x) end

---x * sigmoid(x); written to the first argument
---Shape of the result: x
---Formula: Elfwing, Uchibe, Doya 2017, arXiv:1702.03118
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.silu_(x) end

---the sine of x radians
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.sin(x) end

---the sine of x radians; written to the first argument
---Accuracy: within 1 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sin_(x) end

---sin(pi x) / (pi x), 1 at zero.
---Shape of the result: x
---Raises where x is no tensor.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape of x, floats
function ty.sinc(x) end

---sin(pi x) / (pi x), 1 at zero; written to the first argument
---Shape of the result: x
---Raises where x is no tensor; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sinc_(x) end

---the hyperbolic sine
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.sinh(x) end

---the hyperbolic sine; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sinh_(x) end

---the size of a dim, or a table of all.
---The properties x.shape, x.dtype, x.device, x.ndim say the rest.
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer # 1-based, negative from the end
---@return integer|integer[]
function ty.size(x, dim) end

---places first to last of a dim in steps, both included; a view.
---The same as x[{ ..., {first, last, step}, ... }].
---Raises where a place is out of range or the step is 0.
---@param x tycho.Tensor
---@param dim integer
---@param first integer # negative from the end
---@param last integer # included where a step hits it; negative from the end
---@param step? integer # 1; below 0 it goes down
---@return tycho.Tensor # a view
function ty.slice(x, dim, first, last, step) end

---x with src at places of a dim, as x:slice(dim, first, last, step) reads them.
---Shape of the result: x
---Raises where the places are out of range, or src has other sizes than they.
---@param x tycho.Tensor
---@param src tycho.Tensor
---@param dim? integer # 1
---@param first? integer # 1
---@param last? integer # the last, included where a step hits it
---@param step? integer # 1
---@return tycho.Tensor # shape and dtype of x
function ty.slice_scatter(x, src, dim, first, last, step) end

---Huber's loss divided by beta: half the squared difference over beta, beyond beta the difference less beta / 2.
---Girshick 2015, arXiv:1504.08083.
---Shape of the result: 0-d, or the broadcast of x and y
---Formula: d < beta: d^2 / (2 beta), else d - beta / 2, d = |x - y|
---Raises where sizes do not fit each other, beta is negative, or the reduction is not known.
---@param x tycho.Tensor
---@param y tycho.Tensor|number # broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil, beta: number?} # beta: 1
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.smooth_l1_loss(x, y, opts) end

---log(1 + exp(-y x)) of targets 1 and -1.
---Shape of the result: 0-d, or the broadcast of x and y
---Raises where sizes do not fit each other, or the reduction is not known.
---@param x tycho.Tensor # floats
---@param y tycho.Tensor|number # 1 or -1, broadcasts to x, or x to it
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.Tensor # 0-d, or the broadcast shape
function ty.soft_margin_loss(x, y, opts) end

---Softmax over one dim: exp(x - max) / sum(exp(x - max)).
---Shape of the result: x
---Raises when x is not floating or dim is out of range.
---@param x tycho.Tensor # floats, any shape
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function ty.softmax(x, dim) end

---exp(x - max) / sum(exp(x - max)) over a dim; written to the first argument
---Shape of the result: x
---Raises when x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats, any shape
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.softmax_(x, dim) end

---The softmax of -x over one dim.
---Shape of the result: x
---Raises where x is not floating or dim is out of range.
---@param x tycho.Tensor # floats
---@param dim? integer # the last
---@return tycho.Tensor # shape and dtype of x
function ty.softmin(x, dim) end

---the softmax of -x over a dim; written to the first argument
---Shape of the result: x
---Raises where x is not floating or dim is out of range; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param dim? integer # the last
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.softmin_(x, dim) end

---log(1 + exp(beta * x)) / beta: a smooth relu.
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@param beta? number # 1
---@return tycho.Tensor # shape and dtype of x
function ty.softplus(x, beta) end

---log(1 + exp(beta * x)) / beta; written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param beta? number # 1
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.softplus_(x, beta) end

---x moved towards 0 by lambda, 0 where it would pass it. NaN stays.
---Shape of the result: x
---Raises where x is not floating, or lambda is negative.
---@param x tycho.Tensor # floats
---@param lambda? number # 0.5
---@return tycho.Tensor # shape and dtype of x
function ty.softshrink(x, lambda) end

---x moved towards 0 by lambda; written to the first argument
---Shape of the result: x
---Raises where x is not floating, or lambda is negative; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param lambda? number # 0.5
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.softshrink_(x, lambda) end

---x / (1 + |x|).
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.softsign(x) end

---x / (1 + |x|); written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.softsign_(x) end

---two results: the elements of a dim in order, stable, NaN counts as largest; and their positions
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer # the last
---@param descending? boolean # false; equal elements keep their order in both
---@return tycho.Tensor values
---@return tycho.Tensor positions # the sizes of x; positions are i64 from 1
function ty.sort(x, dim, descending) end

---a table of views of that size, the last one smaller; or of the sizes in a table
---Raises where the sizes do not add up to the dim, or one is negative.
---@param x tycho.Tensor
---@param size integer|integer[]
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function ty.split(x, size, dim) end

---the same as split: a table of views of that size, the last one smaller; or of the sizes in a table
---Raises where the sizes do not add up to the dim, or one is negative.
---@param x tycho.Tensor
---@param size integer|integer[]
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function ty.split_with_sizes(x, size, dim) end

---the square root; NaN below zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.sqrt(x) end

---the square root; NaN below zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sqrt_(x) end

---x * x, element by element.
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # shape and dtype of x; bool gives i64
function ty.square(x) end

---x * x, element by element; written to the first argument
---Shape of the result: x
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.square_(x) end

---without the dims of size 1, or without the given ones
---Raises where a dim that is named is not of size 1.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all of size 1
---@param ... integer # the others, where they stand one by one
---@return tycho.Tensor # a view
function ty.squeeze(x, dims, ...) end

---Removes dims of size 1 from x itself: those that are given, without any all of them.
---Shape of the result: as of squeeze
---Raises where a given dim is not of size 1, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@return tycho.Tensor # x itself
function ty.squeeze_(x, dims) end

---the tensors of a list, of equal shape, along a new dim
---Raises where the list is empty, or sizes differ.
---@param list tycho.Tensor[]
---@param dim? integer # where the new dim will be: 1
---@return tycho.Tensor # one dim more, as long as the list
function ty.stack(list, dim) end

---How compiled functions are run: "default"; "eager": as if they were not compiled; "no_recompile": a call that
---would be captured again raises and says why. Without an argument nothing changes. Gives the stance so far.
---Raises for other names.
---@param name? "default"|"eager"|"no_recompile"
---@return string
function ty.stance(name) end

---The call f(...) in slices of time, for frame loops: nothing has run yet. `run:step(microseconds)` goes on for so
---long and tells whether the call has ended (raises what it raises), `run:results()` gives its results then; results
---and effects of a plan appear together when it is done. What the call reads is as it was when it read it; where a
---tensor, field or variable that it writes has changed meanwhile, it raises and writes nothing. Compile f, and warm
---it up (jit.warmup): plans are stopped between tiles, Lua code and captures are not.
---Raises where f is neither a function nor a module; what f raises comes out of run:step.
---@param f function|table # a compiled function, or one that calls such
---@param ... any # what f is given
---@return tycho.Run # run.done tells whether the call has ended; methods: run:step, run:results, run:cancel
function ty.start(f, ...) end

---a table: memory in bytes, caches of kernels, plans, packed weights and transforms' tables (fft: entries, bytes of at most limit), operations counted
---Raises never. A table that prints well.
---@return table # what is allocated, cached, compiled, run; bytes and counts
function ty.stats() end

---The standard deviation: the square root of the variance.
---Shape of the result: x without the dims
---Formula: sqrt(var(x))
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1: of a sample; 0: of a population
---@return tycho.Tensor # x without the dims; floats
function ty.std(x, dims, keepdim, opts) end

---two results: the standard deviation and the mean
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1
---@return tycho.Tensor deviation
---@return tycho.Tensor mean # x without the dims; floats
function ty.std_mean(x, dims, keepdim, opts) end

---Transforms of short pieces of a signal: piece t are n_fft places from t hop_length on, times the window. As
---torch.stft.
---Shape of the result: [..., frequencies, pieces]
---Raises where x has not one or two dims or is shorter than a piece, or an option does not fit.
---@param x tycho.Tensor # real or complex [places] or [batch, places]
---@param n_fft integer # the places of a piece
---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, pad_mode: "reflect"|"replicate"|"circular"|"constant"|nil, normalized: boolean?, onesided: boolean?, return_complex: boolean?} # n_fft / 4; n_fft; none; true: piece t has its middle at t hop_length, x is padded; "reflect"; false: divided by the root of n_fft; true for real x; true, false: pairs
---@return tycho.Tensor # complex [..., frequencies, pieces]
function ty.stft(x, n_fft, opts) end

---elements in memory from one place of a dim to the next, or a table of all; where the size is 1, as in a contiguous tensor
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer # 1-based, negative from the end
---@return integer|integer[] # in elements, not bytes
function ty.stride(x, dim) end

---difference, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.sub(a, b) end

---difference, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.sub_(a, b) end

---the same as sub: difference, element by element
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; the dtype of the operands, promoted; bool gives i64
function ty.subtract(a, b) end

---the same as sub: difference, element by element; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.subtract_(a, b) end

---sum over dims.
---The order of the sum depends on the shape alone: the bits are the same for any layout, machine and number of threads.
---Raises where a dim is out of range or given twice, or the list is empty.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false: the dims go; true: they stay with size 1
---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
function ty.sum(x, dims, keepdim) end

---the same as transpose: two dims exchanged, as a view
---Raises where a dim is out of range.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function ty.swapaxes(x, dim1, dim2) end

---the same as transpose_: exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function ty.swapaxes_(x, dim1, dim2) end

---the same as transpose: two dims exchanged, as a view
---Raises where a dim is out of range.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function ty.swapdims(x, dim1, dim2) end

---the same as transpose_: exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function ty.swapdims_(x, dim1, dim2) end

---waits until devices have done what they were asked for; raises what went wrong there.
---On the CPU there is nothing to wait for.
---Raises what went wrong on a device.
function ty.synchronize() end

---the transpose of a matrix, as a view
---Raises where x has more than two dims.
---@param x tycho.Tensor # [n, m]; a vector stays as it is
---@return tycho.Tensor # [m, n], a view
function ty.t(x) end

---makes a matrix its own transpose, returns it
---Shape of the result: as of t
---Raises where x has more than 2 dims, or is a leaf that requires a gradient.
---@param x tycho.Tensor # [n, m]
---@return tycho.Tensor # x itself, [m, n]
function ty.t_(x) end

---elements of the flattened x, in the index's shape; with a dim its places
---Raises where an index is no integer, or out of range.
---@param x tycho.Tensor
---@param index tycho.Tensor|integer[] # integers from 1, negative from the end
---@param dim? integer # flattened; with it the same as index_select
---@return tycho.Tensor # the sizes of the index
function ty.take(x, index, dim) end

---the same as take_along_dim: elements at the index's positions along a dim
---Shape of the result: index
---Raises where the index is not of integers or out of range, or sizes do not broadcast.
---@param x tycho.Tensor
---@param index tycho.Tensor # integers, as many dims as x
---@param dim? integer # flattened
---@return tycho.Tensor # the broadcast shape, that of the index along dim
function ty.take_along_axis(x, index, dim) end

---Elements of x at the index's positions along a dim; the other sizes broadcast. Without a dim x is flattened.
---Shape of the result: index
---Raises where the index is not of integers or out of range, or sizes do not broadcast.
---@param x tycho.Tensor
---@param index tycho.Tensor # integers, as many dims as x
---@param dim? integer # flattened
---@return tycho.Tensor # the broadcast shape, that of the index along dim
function ty.take_along_dim(x, index, dim) end

---the tangent of x radians
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.tan(x) end

---the tangent of x radians; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.tan_(x) end

---the hyperbolic tangent
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; a float dtype stays; integers and bool give the default float
function ty.tanh(x) end

---the hyperbolic tangent; written to the first argument
---Accuracy: within 3 ulp of the exact result.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.tanh_(x) end

---x - tanh(x).
---Shape of the result: x
---Raises where x is not floating.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # shape and dtype of x
function ty.tanhshrink(x) end

---x - tanh(x); written to the first argument
---Shape of the result: x
---Raises where x is not floating; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.tanhshrink_(x) end

---a tensor of the numbers or booleans of nested tables; a copy of a tensor.
---Data are copied. Numbers give the default dtype (f32), booleans bool; `{}` is an empty vector.
---Raises where nested tables are ragged, hold something else, or a number does not fit the dtype.
---@param data number|boolean|table|tycho.Tensor # nested tables, one level a dim
---@param opts? {dtype: tycho.dtype?, device: string?} # by default f32 (bool of booleans) on ty.device()
---@return tycho.Tensor # the sizes of the nesting; of a number no dims
function ty.tensor(data, opts) end

---x cut along a dim: into so many parts, of which the first ones are longer by one where it does not divide, or
---behind the places that are listed.
---Shape of the result: x cut along the dim
---Raises where the number is below 1, or a place is out of order or range.
---@param x tycho.Tensor
---@param parts integer|integer[] # how many; or how many places stand before each cut
---@param dim? integer # 1
---@return tycho.Tensor[] # views
function ty.tensor_split(x, parts, dim) end

---Sums products over pairs of dims: the last `dims` of a with the first of b, or the listed ones.
---Shape of the result: other dims of a, then of b
---Raises where the dims that are summed differ in number or size.
---@param a tycho.Tensor
---@param b tycho.Tensor
---@param dims? integer|integer[][] # 2; or {dims of a, dims of b}
---@return tycho.Tensor # the other dims of a, then those of b
function ty.tensordot(a, b, dims) end

---sets the number of threads; gives it.
---Results do not depend on it.
---Raises where n lies outside of 1 to 1024.
---@param n? integer # by default as many as the process may use
---@return integer # how many there are now
function ty.threads(n) end

---x above the threshold, else the value. NaN stays.
---Shape of the result: x
---Raises where x is not floating, or threshold or value is no number.
---@param x tycho.Tensor # floats
---@param threshold number
---@param value number
---@return tycho.Tensor # shape and dtype of x
function ty.threshold(x, threshold, value) end

---x above the threshold, else the value; written to the first argument
---Shape of the result: x
---Raises where x is not floating, or threshold or value is no number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # floats
---@param threshold number
---@param value number
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.threshold_(x, threshold, value) end

---the whole of x repeated along each dim; counts are right-aligned
---Raises where a count is negative.
---@param x tycho.Tensor
---@param counts integer|integer[] # more of them than dims: new dims in front
---@return tycho.Tensor # each size times its count
function ty.tile(x, counts) end

---x in another dtype or on another device; x itself when nothing changes; nil and a message when the device is not there.
---Conversion of floats to integers cuts off and keeps within the range; NaN gives 0. Gives nil and a message where the
---device is not there.
---Raises where the dtype is not known.
---@param x tycho.Tensor
---@param where tycho.dtype|string|tycho.Tensor # "f16", "cuda:0", or a tensor whose dtype and device are taken
---@return tycho.Tensor? x
---@return string? message # the sizes of x
function ty.to(x, where) end

---the same as totable: the elements in nested tables; a number when x has no dims
---Raises where x is no tensor, or an i64 is no Lua number exactly.
---@param x tycho.Tensor
---@return table|number|boolean # nested tables, one level a dim; complex numbers are {real, imaginary}
function ty.tolist(x) end

---two results: the k largest (or smallest) elements of a dim in order; and their positions
---Raises where k is larger than the dim.
---@param x tycho.Tensor
---@param k integer
---@param dim? integer # the last
---@param largest? boolean # true
---@return tycho.Tensor values
---@return tycho.Tensor positions # k places in that dim; positions are i64 from 1
function ty.topk(x, k, dim, largest) end

---the elements in nested tables; a number when x has no dims
---Raises where x is no tensor, or an i64 is no Lua number exactly.
---@param x tycho.Tensor
---@return table|number|boolean # nested tables, one level a dim; complex numbers are {real, imaginary}
function ty.totable(x) end

---The sum of a matrix's main diagonal.
---Shape of the result: 0-d
---Raises where x is no matrix.
---@param x tycho.Tensor # [n, m]
---@return tycho.Tensor # 0-d; integers and bool give i64
function ty.trace(x) end

---two dims exchanged, as a view
---Raises where a dim is out of range.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function ty.transpose(x, dim1, dim2) end

---exchanges two dims of x itself, returns it
---Shape of the result: as of transpose
---Raises where a dim is out of range, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # x itself
function ty.transpose_(x, dim1, dim2) end

---The integral along a dim by the trapezoidal rule.
---Shape of the result: y without the dim
---Raises where x has another number of places than y along the dim.
---@param y tycho.Tensor
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y without the dim; floats
function ty.trapezoid(y, x, opts) end

---the same as trapezoid: the integral by the trapezoidal rule
---Shape of the result: y without the dim
---Raises where x has another number of places than y along the dim.
---@param y tycho.Tensor
---@param x? tycho.Tensor # where the values stand: a vector, or sizes of y; without it dx apart
---@param opts? {dx: number?, dim: integer?} # dx = 1, dim = -1
---@return tycho.Tensor # y without the dim; floats
function ty.trapz(y, x, opts) end

---Ones on and below the k-th diagonal, zeros above.
---Shape of the result: [n, m]
---Raises where a size is negative.
---@param n integer # rows
---@param m? integer # columns, n
---@param k? integer # the diagonal, 0; above zero: higher
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n, m], f32
function ty.tri(n, m, k, opts) end

---The matrices in the last two dims, with zeros above the k-th diagonal.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@param x tycho.Tensor # [.., n, m]
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # shape and dtype of x
function ty.tril(x, k) end

---zeros above the k-th diagonal of the last two dims; written to the first argument
---Shape of the result: x
---Raises where x has fewer than two dims; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # [.., n, m]
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.tril_(x, k) end

---Rows and columns of the elements on and below the k-th diagonal, row by row.
---Shape of the result: [2, count]
---Raises where a size is negative.
---@param n integer # rows
---@param m? integer # columns, n
---@param k? integer # the diagonal, 0; above zero: higher
---@param opts? {device: string?}
---@return tycho.Tensor # [2, count], i64, from 1
function ty.tril_indices(n, m, k, opts) end

---max(0, margin + |anchor - positive| - |anchor - negative|) of vectors in the last dim.
---Options: margin = 1; p = 2, of the norm; eps = 1e-6, added to the differences; swap = false: the distance of
---positive and negative where it is the smaller one (Balntas and others 2016); reduction.
---Shape of the result: 0-d, or the sizes without the last dim
---Raises where sizes do not broadcast, margin is not above 0, or the reduction is not known.
---@param anchor tycho.Tensor # floats [..., features]
---@param positive tycho.Tensor # floats [..., features]
---@param negative tycho.Tensor # floats [..., features]
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?, p: number?, eps: number?, swap: boolean?}
---@return tycho.Tensor # 0-d, or the sizes without features
function ty.triplet_margin_loss(anchor, positive, negative, opts) end

---The matrices in the last two dims, with zeros below the k-th diagonal.
---Shape of the result: x
---Raises where x has fewer than two dims.
---@param x tycho.Tensor # [.., n, m]
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # shape and dtype of x
function ty.triu(x, k) end

---zeros below the k-th diagonal of the last two dims; written to the first argument
---Shape of the result: x
---Raises where x has fewer than two dims; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor # [.., n, m]
---@param k? integer # 0; above zero: higher
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.triu_(x, k) end

---Rows and columns of the elements on and above the k-th diagonal, row by row.
---Shape of the result: [2, count]
---Raises where a size is negative.
---@param n integer # rows
---@param m? integer # columns, n
---@param k? integer # the diagonal, 0; above zero: higher
---@param opts? {device: string?}
---@return tycho.Tensor # [2, count], i64, from 1
function ty.triu_indices(n, m, k, opts) end

---the same as div: quotient; integers give a float
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # the sizes of a and b, broadcast; a float dtype stays; integers and bool give the default float
function ty.true_divide(a, b) end

---the same as div: quotient; integers give a float; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number, or where the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number # any dtype, any shape that broadcasts
---@param b tycho.Tensor|number # any dtype, any shape that broadcasts
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.true_divide_(a, b) end

---the whole part, towards zero
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # the sizes of x; the dtype of the operands, promoted; bool gives i64
function ty.trunc(x) end

---the whole part, towards zero; written to the first argument
---Accuracy: exact, or rounded once.
---Raises where an argument is neither a tensor nor a number; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param x tycho.Tensor|number # any dtype, any shape
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.trunc_(x) end

---a table of views, one for each place of a dim, without that dim
---Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer # 1
---@return tycho.Tensor[] # views, one for each place
function ty.unbind(x, dim) end

---one dim as several; one size may be -1
---Raises where the sizes do not make up the dim.
---@param x tycho.Tensor
---@param dim integer
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # a view
function ty.unflatten(x, dim, sizes, ...) end

---windows of a dim as a new last dim, a view
---Raises where the size is larger than the dim, or the step below 1.
---@param x tycho.Tensor
---@param dim integer
---@param size integer # places of a window
---@param step? integer # from one window to the next: 1
---@return tycho.Tensor # a view: floor((n - size) / step) + 1 windows in that dim, `size` in a new last one
function ty.unfold(x, dim, size, step) end

---uniform numbers from low to high
---Raises where high lies below low, or the dtype is no float.
---@param low number
---@param high number
---@param sizes? integer|integer[] # without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32
function ty.uniform(low, high, sizes, opts) end

---writes uniform numbers to x, returns it
---Raises where x is no float tensor, or high lies below low.
---@param x tycho.Tensor # floats
---@param low? number # 0
---@param high? number # 1
---@return tycho.Tensor # x itself
function ty.uniform_(x, low, high) end

---two results: the different elements, and for each one its place among them; counts as a third.
---Without options the elements of the whole of x, in ascending order.
---Options: dim: the different places of it; sorted = true: in ascending (lexicographic) order, false: in the order in
---which they come; counts = false: a third result, how often each comes. Reads data: a compiled function goes on in
---another part behind it.
---Raises where x is no tensor or the dim is out of range.
---@param x tycho.Tensor # flattened, without a dim
---@param opts? {dim: integer?, sorted: boolean?, counts: boolean?}
---@return tycho.Tensor values
---@return tycho.Tensor positions
---@return tycho.Tensor? counts # [count], or x with `count` places along dim; and in the shape of x, or of the dim, the place of each among them, i64
function ty.unique(x, opts) end

---a new dim of size 1 at that place
---Raises where the place is out of range.
---@param x tycho.Tensor
---@param dim integer # where the new dim will be, 1 to ndim + 1; negative from the end
---@return tycho.Tensor # a view
function ty.unsqueeze(x, dim) end

---gives x itself a new dim of size 1, returns it
---Shape of the result: as of unsqueeze
---Raises where the dim is out of range, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param dim integer # its place among the dims of the result
---@return tycho.Tensor # x itself
function ty.unsqueeze_(x, dim) end

---A function of f's arguments that gives f's value, then its gradient for argument `argnums` (or each of a list), in
---the structure of that argument: tables of tensors give tables of gradients.
---Raises where f is no function, or gives no float tensor of one element.
---@param f fun(...): tycho.Tensor # gives a float tensor of one element
---@param argnums? integer|integer[] # 1
---@return fun(...): tycho.Tensor, ...
function ty.value_and_grad(f, argnums) end

---Powers of the elements of a vector, as columns.
---Shape of the result: [n, columns]
---Raises where x is no vector, or a number is negative.
---@param x tycho.Tensor # [n]
---@param columns? integer # n
---@param increasing? boolean # false: the highest power first
---@return tycho.Tensor # [n, columns]
function ty.vander(x, columns, increasing) end

---The variance, in two passes: the squares of what differs from the mean, divided by count - correction; of complex
---numbers those of the magnitudes.
---Shape of the result: x without the dims
---Formula: sum((x - mean(x))^2) / (n - correction)
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1: of a sample; 0: of a population
---@return tycho.Tensor # x without the dims; floats
function ty.var(x, dims, keepdim, opts) end

---two results: the variance and the mean
---Shape of the result: x without the dims
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@param opts? {correction: number?} # 1
---@return tycho.Tensor variance
---@return tycho.Tensor mean # x without the dims; floats
function ty.var_mean(x, dims, keepdim, opts) end

---The inner product of two vectors: the sum of the products of a's conjugates with b.
---Shape of the result: 0-d
---Raises where an argument is no vector, or the sizes differ.
---@param a tycho.Tensor # [n]
---@param b tycho.Tensor # [n]
---@return tycho.Tensor # 0-d
function ty.vdot(a, b) end

---Sums of products along a dim; of complex numbers with the conjugates of a.
---Shape of the result: broadcast without the dim
---Raises where sizes do not broadcast.
---@param a tycho.Tensor
---@param b tycho.Tensor # broadcasts with a
---@param dim? integer # the last
---@return tycho.Tensor # the broadcast shape without the dim
function ty.vecdot(a, b, dim) end

---x with other sizes and the same storage; raises where only a copy would do
---Raises where the sizes do not hold as many elements, or the strides need a copy.
---@param x tycho.Tensor
---@param sizes integer|integer[] # one by one, or in a table; one may be -1
---@param ... integer # the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function ty.view(x, sizes, ...) end

---the same bits read as another dtype of that size; a copy
---Raises where both dtypes have different widths.
---@param x tycho.Tensor
---@param dtype tycho.dtype # as wide as that of x
---@return tycho.Tensor # the sizes of x, in that dtype
function ty.view_as(x, dtype) end

---a view of f32 or f64 [..., 2] as complex numbers; the pairs must lie side by side.
---Memory and gradient are the same: what is written to one is seen in the other.
---Raises where x is neither f32 nor f64, its last dim is not 2, or the two do not lie side by side.
---@param x tycho.Tensor # [..., 2], f32 or f64
---@return tycho.Tensor # without the last dim; c64 or c128
function ty.view_as_complex(x) end

---a view of complex numbers as f32 or f64 [..., 2], the real and the imaginary part.
---Memory and gradient are the same: what is written to one is seen in the other.
---Raises where x is of reals, or has 8 dims.
---@param x tycho.Tensor # c64 or c128
---@return tycho.Tensor # [..., 2], f32 or f64: the real and the imaginary part
function ty.view_as_real(x) end

---A function that computes f for all examples at once, as a loop over them would: f sees tensors without the dim of
---the examples, which in_dims tells for each argument and out_dims for each result: one for all, or tables of them,
---nested as arguments and results are; false or nil: the same for all. What is no tensor is the same for all.
---randomness: "error", or "different" random numbers for each example, or the "same".
---Raises where f is no function, the numbers of examples differ, or f draws random numbers and nothing is said of them.
---@param f fun(...): ...
---@param in_dims? integer|table|false # 1
---@param out_dims? integer|table|false # 1
---@param opts? {randomness: string?}
---@return fun(...): ...
function ty.vmap(f, in_dims, out_dims, opts) end

---Parts of equal size along dim 1, or those between places.
---Shape of the result: a table
---Raises where x has fewer than 2 dims, or they do not divide.
---@param x tycho.Tensor
---@param parts integer|integer[]
---@return tycho.Tensor[] # views
function ty.vsplit(x, parts) end

---Tensors one below the other: vectors are rows.
---Shape of the result: the first sizes added up
---Raises where the list is empty, or sizes differ in another dim than the first.
---@param list tycho.Tensor[]
---@return tycho.Tensor # at least two dims; the first sizes added up
function ty.vstack(list) end

---Calls f once so that later calls find their trace: no budget applies, and a capture that waits for its turn is
---tried; kernels that a device's driver assembles are waited for. Gives f's results; what f writes is written.
---Raises where f is no compiled function, and what f raises.
---@param f function # a compiled function
---@param ... any # what f is given
---@return any ... # what f gives
function ty.warmup(f, ...) end

---b where the condition holds, else c.
---An element of a where the condition holds, of b elsewhere.
---Raises where sizes do not broadcast.
---@param condition tycho.Tensor|boolean # bool; of another dtype: not zero
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of all three, broadcast; the dtypes of a and b, promoted
function ty.where(condition, a, b) end

---a * log(1 + b), 0 where a is 0.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function ty.xlog1py(a, b) end

---a * log(b), 0 where a is 0 though b be 0, too.
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # the broadcast shape, floats
function ty.xlogy(a, b) end

---a * log(b), 0 where a is 0; written to the first argument
---Shape of the result: broadcast of a and b
---Raises where an argument is neither a tensor nor a number, or the sizes do not broadcast; also where the result does not fit into the first argument, or that is a leaf that requires a gradient.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number # broadcasts with a
---@return tycho.Tensor # x itself; the sizes of the result must be those of x
function ty.xlogy_(a, b) end

---writes 0 to every element of x
---Raises where x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself
function ty.zero_(x) end

---0 in every element.
---Sizes may stand in a table, too: ty.zeros({2, 3}).
---Raises where a size is no whole number from 0, or the dtype or device is not known.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} # the sizes; none: one element without dims
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.zeros(...) end

---0 in the shape and dtype of x
---Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} # by default those of x
---@return tycho.Tensor # the sizes of x
function ty.zeros_like(x, opts) end

---LuaJIT's table, to which the library adds.
---@class jitlib
---@field log boolean|fun(text: string)
local jitlib = {}

---How many milliseconds a capture may take inside a call; one that needs more is given up, and waits for warmup.
---math.huge, as it is at first: as many as it needs. Without an argument nothing changes. Gives the budget so far.
---Raises where it is no number from 0.
---@param ms? number
---@return number
function jitlib.budget(ms) end

---Runs f as it is written beside every n-th call of the compiled function, and raises where a bit differs: of
---results, of what was written, of the random state. What the plain run changes is put back, but output and what C
---libraries keep: they happen twice. n = 0 or nil ends it. Not for functions compiled with {fast = true}, whose bits
---may differ.
---Raises where f is no compiled function, n no count, or f was compiled with {fast = true}; in calls where a bit differs.
---@param f function # a compiled function
---@param n? integer
function jitlib.check(f, n) end

---A function that runs f's tensor operations in fused kernels, with the results of f to the bit. Compiling twice
---gives the same function. Options: fast = true lets the engine contract and re-associate for this function:
---results may then differ from eager in the last bits. fullgraph = true: a call that cannot be captured whole
---raises, and names the line. parts = false: what no trace holds whole runs as it is, instead of in parts. dynamic
---= true: a trace for any size from the start, or {x = {1}}: for these dims of an argument; false: sizes stay
---fixed. passes = {fn or name, ...} change each captured graph before it is compiled; backend = fn makes a
---function of it, to run instead.
---Raises where f is neither a function nor a module, an option is not known, or as fullgraph says.
---@param f function|table # a function, or a module, which gives a callable table whose fields read and write through
---@param opts? tycho.CompileOptions
---@return function|table # of the same arguments and results
function jitlib.compile(f, opts) end

---fn(...), in which operations raise when so many milliseconds are over: at their beginning, and within those that
---take their time, of which nothing is seen then. Of deadlines inside of each other the earliest holds. Lua code
---between operations, LAPACK and files are not looked at.
---Raises where ms is no number from 0 or fn no function; in operations when the time is over; and what fn raises.
---@param ms number
---@param fn function
---@param ... any # what fn is given
---@return any ... # what fn gives
function jitlib.deadline(ms, fn, ...) end

---Keeps a function from being captured: compiled functions that call it run as they are, recording what they do.
---Gives the function.
---Raises where f is no function.
---@param f function
---@return function
function jitlib.disable(f) end

---What a compiled function did: a table that prints in 25 lines at most; e:full() is the whole text, with guards,
---graphs and programs, e:table() a plain table. calls; nested (calls inside of other compiled functions); skips
---(calls that a trace answered: the function did not run); captures; timed (how many of these calls were timed,
---about one of 64), time (seconds that such a call took: the median of the last ones); traces, most recently used
---first: {key, guards, sizes (what was decided about them), effects, hits, dynamic, instances (sets of sizes),
---ranges (of sizes), no_range (why there is none), graph, plan (steps, outputs, pieces of the arena), sites (of
---the graph's nodes: "file:line", behind "<" in a backward pass, or false), seconds (of the plan's steps, the mean
---of so many runs: timed; nil where none was)}, and where a
---result needs a gradient: kept (what a call keeps for its backward pass: {what = "result", "input" or "constant",
---path, type, bytes, by (the operation whose gradient reads it)}), backward (its plans: {operations, kernels,
---steps, range (whether it is for a range of sizes)}); parts, where it is captured in parts, in the order of its
---code: {begins = "file:line", line, native (runs as it is), calls, skips, linked (skips that came straight from
---the part before), captures, timed, time, traces, aborts, ends[i] = {at = "file:line", line, reason, hint, where
---(the reason's "file:line")}, or {} for the function's end}; most_parts (at how many places it is cut, where there
---may not be more); misses, the last of them: {text, guard, path, was, now, line}, each compared with the trace
---whose guards agreed longest; aborts, the last of them: {text, file, line, reason, hint, cost in ms}. Of calls
---that ran and were recorded: signature_hits, signature_misses, evicted, differences, signatures[i] = {signature,
---hits, rests (runs eagerly for now, since recording does not pay), graphs = {{runs, text}}}. Traces and graphs
---tell their work: operations, operations_saved (that take no step of their own), kernels, steps, bytes_moved,
---bytes_saved.
---Raises where f is no compiled function.
---@param f function
---@return tycho.Explanation
function jitlib.explain(f) end

---Writes f as one C11 file and its header, which need no library: the same bits, in programs without Lua.
---Tensors among the arguments become pointers, numbers doubles; all else that f reads is frozen, weights too.
---Options, by name beside the arguments: weights = "inside" (the C file, as it is without) or "beside" (model.bin);
---name: of the functions, else the file's; outputs = {"y", ...}: names of results; dynamic = {x = {1}}: dims of
---arguments that callers of the C function give, or {x = {[1] = "rows"}} with their names; most = 1024: the
---largest of these sizes, 128 at least.
---Gives {source, header, weights (paths), inputs, outputs, workspace (bytes)}; nil and a message where a file cannot
---be written.
---Raises where f cannot be captured whole, writes to what is outside of it, is decided by a number among its arguments, or needs what C cannot be written for, and says what; where an option is not known or stands in another argument; nothing is written then.
---@param f function|table # a function, compiled or not, or a module
---@param path string # "model.c"; beside it stand model.h and perhaps model.bin
---@param given? table # example arguments and options: {x, 0.5, weights = "beside"}
---@return table? written
---@return string? message
function jitlib.export(f, path, given) end

---The graph that f(...) records: a table of nodes {op, dtype, shape, src, live} with `text` and
---`dot`, printed as text. Where f demands a value there are several graphs, and a list of them is
---returned. f runs once; tensors that it writes to are put back, but not what it writes by set() or to
---memory whose address was taken.
---Raises where f is no function, and what f raises.
---@param f function
---@param ... any # what f is given
---@return tycho.Graph
function jitlib.graph(f, ...) end

---Registers a pass under a name: {passes = {name}} of jit.compile runs it. fn(graph, example_inputs) changes the
---graph or returns another one. A name may be given anew: functions that are compiled later get the new pass.
---Raises where the name is no string, or fn no function.
---@param name string
---@param fn fun(graph: tycho.GraphObject, inputs: tycho.Tensor[]): tycho.GraphObject?
function jitlib.pass(name, fn) end

---Runs fn() and tells what each line of the user's source cost in kernels, of compiled functions as of eager
---operations: a table that prints well, hottest line first, then fn's results. A kernel that holds operations of
---several lines is shared among them, by what each costs, roughly; gradients count where their operation stands.
---A field `lines` has them as tables: {file, line, source, seconds, backward, runs, bytes, flops, share}. Where the
---trace cannot be written: nil and a message.
---Raises where fn is no function, and what fn raises, after the trace was written.
---@param fn function
---@param path? string # of a trace to write for chrome://tracing or Perfetto, "trace.json", as ty.profile does
---@return tycho.LineProfile?
---@return ...
function jitlib.profile(fn, path) end

---Forgets the signatures and counters of a compiled function.
---Raises where f is no compiled function.
---@param f function
function jitlib.reset(f) end

---How compiled functions are run: "default"; "eager": as if they were not compiled; "no_recompile": a call that
---would be captured again raises and says why. Without an argument nothing changes. Gives the stance so far.
---Raises for other names.
---@param name? "default"|"eager"|"no_recompile"
---@return string
function jitlib.stance(name) end

---The call f(...) in slices of time, for frame loops: nothing has run yet. `run:step(microseconds)` goes on for so
---long and tells whether the call has ended (raises what it raises), `run:results()` gives its results then; results
---and effects of a plan appear together when it is done. What the call reads is as it was when it read it; where a
---tensor, field or variable that it writes has changed meanwhile, it raises and writes nothing. Compile f, and warm
---it up (jit.warmup): plans are stopped between tiles, Lua code and captures are not.
---Raises where f is neither a function nor a module; what f raises comes out of run:step.
---@param f function|table # a compiled function, or one that calls such
---@param ... any # what f is given
---@return tycho.Run # run.done tells whether the call has ended; methods: run:step, run:results, run:cancel
function jitlib.start(f, ...) end

---Writes one page for a browser, which needs nothing else: the source's lines with what became of them, parts,
---guards, graphs, plans with the lifetimes of buffers, kernels as loop programs beside their machine code, times.
---Raises where f is no compiled function, or the path no string.
---@param f function # compiled, and called at least once
---@param path string # "f.html"
---@return true? written
---@return string? message
function jitlib.view(f, path) end

---Calls f once so that later calls find their trace: no budget applies, and a capture that waits for its turn is
---tried; kernels that a device's driver assembles are waited for. Gives f's results; what f writes is written.
---Raises where f is no compiled function, and what f raises.
---@param f function # a compiled function
---@param ... any # what f is given
---@return any ... # what f gives
function jitlib.warmup(f, ...) end

---@class tycho.csv
local csv = {}

---@class tycho.csv.Table
---@field rows integer
---@field names string[] of the columns, in their order
---@field columns table<string, tycho.Tensor|string[]> by name; also :column(i)
---@field types table<string, string> "bool" "i64" "f32" "f64" "text" "category"
---@field classes table<string, string[]> of categories: the names that the codes stand for
csv.Table = {}

---A column by name or number: numbers and categories as a tensor [rows], text as a list.
---Raises where there is no such column.
---@param key string|integer
---@return tycho.Tensor|string[]
function csv.Table:column(key) end

---Statistics of the columns of numbers, in f64: how many there are, mean, deviation, least, quartiles, largest.
---What is missing (NaN) is passed over.
---Raises where no column holds numbers.
---@return tycho.csv.Table # a row for each statistic, named in the first column
function csv.Table:describe() end

---The first n rows, as a table whose tensors are views.
---Raises where n is negative.
---@param n? integer # 5
---@return tycho.csv.Table
function csv.Table:head(n) end

---The last n rows, as a table whose tensors are views.
---Raises where n is negative.
---@param n? integer # 5
---@return tycho.csv.Table
function csv.Table:tail(n) end

---Columns side by side, [rows, number of columns]: those of the list, or all that hold numbers or bools. A view
---where they lie together already.
---Raises when one of them is text.
---@param keys? (string|integer)[]
---@param dtype? string # default: the floats' where there are floats, else i64, bool of bools alone
---@return tycho.Tensor
function csv.Table:tensor(keys, dtype) end

---A table of a text file. Options: header = "auto" | true | false; delimiter = "auto" | a character; decimal =
---"."; comment = a character that begins lines to be passed over; skip = lines before the header; columns = which
---are read, by name or number, in this order; names = instead of the header's; types = {name = "bool" |
---"i64" | "f32" | "f64" | "text" | "category"}, or one for all (bool takes 0 and 1 too); dtype = "f32" | "f64" for
---all numbers; missing = more spellings of what is missing, such as {"-"}, beside NA, NaN, null and their kin;
---fill = what missing numbers become, or "error"; classes = {name = list}: names whose positions are the codes.
---Raises where the path is no string, or an option is not known.
---@param path string
---@param opts? table
---@return tycho.csv.Table? t
---@return string? message
function csv.load(path, opts) end

---The same of a text.
---Raises where the text is no string, or an option is not known.
---@param text string
---@param opts? table
---@return tycho.csv.Table? t
---@return string? message
function csv.parse(text, opts) end

---Writes a table of csv.load, columns by name ({x = tensor, label = {"a", "b"}}), or a tensor [rows] or
---[rows, columns]. Numbers and bools read back as they are. Options: names = the columns' names and order; header =
---false; delimiter; missing = how NaN is written, by default as an empty field.
---Raises where columns differ in length, or an option is not known.
---@param path string
---@param value tycho.csv.Table|tycho.Tensor|table<string, tycho.Tensor|string[]>
---@param opts? table
---@return true? ok
---@return string? message
function csv.save(path, value, opts) end

ty.csv = csv

---@class tycho.data
local data = {}

---the samples of a sampler in batches, for the loader's
---option batch_sampler.
---Raises where sampler is none, or the size is no count.
---@param sampler tycho.data.Sampler
---@param batch_size integer
---@param drop_last? boolean # whether a last batch that is smaller is left out
---@return tycho.data.BatchSampler
function data.BatchSampler(sampler, batch_size, drop_last) end

---@class tycho.data.BatchSampler
objects.data_BatchSampler = {}

---The batches of an epoch.
---Raises never.
---@param epoch? integer # 1
---@return integer[][] # lists of sample numbers
function objects.data_BatchSampler:batches(epoch) end

---How many batches an epoch has.
---Raises never.
---@return integer
function objects.data_BatchSampler:count() end

---the samples of several datasets, one after the other.
---Raises where the argument is no list of datasets.
---@param datasets tycho.data.Dataset[]
---@return tycho.data.Dataset # the samples of all
function data.ConcatDataset(datasets) end

---@class tycho.data.Dataset
---@field size integer how many samples there are, as count() says; Lua's # sees no metamethod of a table
---@field classes string[]? names of the labels, where the dataset knows them
data.Dataset = {}

---How many samples there are, as the field `size` says; # of a dataset is 0, as Lua counts a table without a list.
---Raises never.
---@return integer
function data.Dataset:count() end

---The values of sample i; a file that cannot be read gives nil and a message.
---Raises where i is out of range.
---@param i integer # 1-based, negative from the end
---@return any ... # the values of the sample
function data.Dataset:get(i) end

---Its batches, with the options of data.loader.
---Raises where an option is not known or out of range.
---@param opts? table
---@return tycho.data.Loader
function data.Dataset:loader(opts) end

---Samples fn(sample): the values that fn returns for those of each sample, when it is asked for.
---Raises where fn is no function, and in a loop where it gives nothing.
---@param fn fun(...): ...
---@return tycho.data.Dataset
function data.Dataset:map(fn) end

---Several datasets, of these shares of the samples, which share none: train, test = ds:split({0.8, 0.2}, 1). With a
---seed they are drawn at random, without one they lie one behind the other.
---Raises where fractions are no list, or add up to more than 1.
---@param fractions number[] # together at most 1
---@param seed? integer
---@return tycho.data.Dataset ...
function data.Dataset:split(fractions, seed) end

---The samples whose numbers are given, in that order.
---Raises where a number is out of range.
---@param indices integer[]|tycho.Tensor # 1-based
---@return tycho.data.Dataset
function data.Dataset:subset(indices) end

---@class tycho.data.Loader
---@field dataset tycho.data.Dataset
---@field batch integer
data.Loader = {}

---Ends the reading in the background; the collector does so too. The loader can be used again.
---Raises never.
function data.Loader:close() end

---How many batches an epoch has.
---Raises never.
---@return integer
function data.Loader:count() end

---One epoch: for x, y, i in loader:epoch() do; the batch's number is the last value. The next epoch begins where
---this is called again, unless restore has set where to go on. A loader walks through one epoch at a time.
---Raises in the loop where another epoch of the loader has begun, or a file cannot be read.
---@return fun(): ...
function data.Loader:epoch() end

---Goes on where a loader stood that gave this state.
---Raises where it is no state of such a loader.
---@param state {epoch: integer, position: integer, seed: integer}
function data.Loader:load_state_dict(state) end

---Ends an epoch's reading; the memory that it was read into waits for the next.
---Raises never.
function data.Loader:rest() end

---Goes on where a loader stood that gave this state.
---Raises where it is no state of such a loader.
---@param state {epoch: integer, position: integer, seed: integer}
function data.Loader:restore(state) end

---Where the loader stands: plain numbers for a checkpoint. A loader over the same data, with the same options, that
---is given them by restore goes on with the batch that would have come next.
---Raises never.
---@return {epoch: integer, position: integer, seed: integer}
function data.Loader:state() end

---Where the loader stands: plain numbers for a checkpoint. A loader over the same data, with the same options, that
---is given them by restore goes on with the batch that would have come next.
---Raises never.
---@return {epoch: integer, position: integer, seed: integer}
function data.Loader:state_dict() end

---samples in a random order, another in
---each epoch; with replacement each is drawn from all.
---Raises where source is neither a dataset nor a count, or an option is not known or out of range.
---@param source tycho.data.Dataset|integer
---@param opts? {replacement: boolean?, num_samples: integer?, seed: integer?} # num_samples: as many as there are
---@return tycho.data.Sampler # as the loader's option sampler
function data.RandomSampler(source, opts) end

---@class tycho.data.Sampler
objects.data_Sampler = {}

---How many samples an epoch takes.
---Raises never.
---@return integer
function objects.data_Sampler:count() end

---The samples of an epoch, in their order.
---Raises never.
---@param epoch? integer # 1
---@return tycho.Tensor # i64 [count], numbers from 1
function objects.data_Sampler:order(epoch) end

---all samples as they lie.
---Raises where source is neither a dataset nor a count.
---@param source tycho.data.Dataset|integer
---@return tycho.data.Sampler # as the loader's option sampler
function data.SequentialSampler(source) end

---the samples whose numbers are given, in that order: dataset:subset(indices).
---Raises where the first argument is no dataset, or a number is out of range.
---@param source tycho.data.Dataset
---@param indices integer[]|tycho.Tensor # 1-based
---@return tycho.data.Dataset
function data.Subset(source, indices) end

---these samples in a random order, another in each epoch.
---Raises where indices are no list of whole numbers from 1.
---@param indices integer[]|tycho.Tensor
---@param opts? {seed: integer?}
---@return tycho.data.Sampler # as the loader's option sampler
function data.SubsetRandomSampler(indices, opts) end

---samples drawn by chances in
---proportion to weights, others in each epoch. Without replacement each comes once at most (Efraimidis, Spirakis
---2006).
---Raises where weights are negative or all 0, or more are asked for than have a weight, without replacement.
---@param weights number[]|tycho.Tensor # one a sample
---@param num_samples integer
---@param opts? {replacement: boolean?, seed: integer?}
---@return tycho.data.Sampler # as the loader's option sampler
function data.WeightedRandomSampler(weights, num_samples, opts) end

---values side by side, as batches are made of samples: tensors stacked, numbers as f32, booleans
---as bool, strings as a list, tables field by field.
---Raises where the list is empty, or its entries are not alike.
---@param list any[]
---@return tycho.Tensor|table # one dim more than the entries
function data.collate(list) end

---Rows of a CSV file: (inputs, target), or inputs alone. Options: inputs = names or numbers of columns, default all
---that hold numbers but the target; target = a column: text counts as categories (ds.classes), true and
---false too but where types say "bool"; dtype of the inputs, default f32; all else as csv.load takes it. ds.table is
---the table.
---Raises where an option is not known; a file that cannot be read gives nil and a message.
---@param path string
---@param opts? table
---@return tycho.data.Dataset? ds
---@return string? message
function data.csv(path, opts) end

---Images of a folder: (image, label) where it has sub-folders, one for each class, whose sorted names the labels
---count from 1 (ds.classes); else single images. Options as of image.load: channels, size, dtype, limit (for each
---image: what is over it is refused when its turn comes).
---Raises where an option is not known; a folder that cannot be read gives nil and a message.
---@param dir string
---@param opts? {channels: integer?, size: integer[]?, dtype: string?, limit: integer?}
---@return tycho.data.Dataset? ds
---@return string? message
function data.images(dir, opts) end

---n samples, each made by fn(i) when it is asked for.
---Raises where n is no count, or fn no function.
---@param n integer
---@param fn fun(i: integer): any, any
---@return tycho.data.Dataset # n samples
function data.lazy(n, fn) end

---The entries of a list: a list among them is several values, anything else is one.
---Raises where the argument is no list.
---@param list any[]
---@return tycho.data.Dataset # a sample for each entry
function data.list(list) end

---Batches of a dataset. Options: batch (1) samples each; shuffle (false) by seed (0), in another order each epoch;
---last = "keep" | "drop" (or drop_last = true): a last batch that is smaller; device: where tensors of a batch go;
---transform = fn(values of a batch), what it returns is the batch; collate = fn(list of samples), a sample of
---several values as a list: what it returns is the batch instead of the values side by side (data.collate); sampler,
---such as data.WeightedRandomSampler: which samples an epoch takes; batch_sampler: these in batches of its own;
---workers (1) threads that read files in the background, the result does not depend on them; ahead (2): batches that
---are read before they are asked for; shard (false): the ranks of ty.dist share each batch, in equal parts in their
---order, so that `batch` counts the samples of all ranks, the batches are the same for any number of ranks, and a
---state is taken up by another number of them. A last batch that is smaller loses what is left over.
---Raises where ds is no dataset, or an option is not known or out of range, or excludes another one; where a batch does not divide by the number of ranks.
---@param ds tycho.data.Dataset
---@param opts? table
---@return tycho.data.Loader
function data.loader(ds, opts) end

---Several datasets of so many samples each, drawn at random: train, test = random_split(ds, {800, 200}). Lengths
---may be fractions that add up to 1; ds:split({0.8}) takes those of less.
---Raises where ds is no dataset, or the lengths do not add up to its size.
---@param ds tycho.data.Dataset
---@param lengths number[] # numbers of samples, or fractions
---@param seed? integer # 0
---@return tycho.data.Dataset ... # one for each length
function data.random_split(ds, lengths, seed) end

---Records of one size, one behind the other in a file, as tensors. Options: shape (a list of sizes), dtype (u8),
---offset (bytes before the first), count (as many as there are).
---Raises where the shape is missing or a number is out of range; a file that cannot be read gives nil and a message.
---@param path string
---@param opts {shape: integer[], dtype: string?, offset: integer?, count: integer?}
---@return tycho.data.Dataset? ds
---@return string? message
function data.records(path, opts) end

---The rows of tensors or lists: tensors(x, y) gives samples of two values, tensors{x = a, y = b} tables, and so does
---a table of csv.load. Entries of lists are put side by side: numbers as f32, strings as a list.
---Raises where columns have not the same number of rows.
---@param first tycho.Tensor|table|tycho.csv.Table
---@param ... tycho.Tensor|table # further columns
---@return tycho.data.Dataset # a sample for each row
function data.tensors(first, ...) end

ty.data = data

---@class tycho.dist
local dist = {}

---@class tycho.dist.Pipeline
objects.dist_Pipeline = {}

---Takes a batch through all stages and back: the gradients of this rank's parameters are added to `grad`. Their bits
---are those of one process that goes through the micro-batches one by one, (loss / micro):backward(). All ranks call
---it; the first one reads the batch, the last one the targets.
---Raises where a first dim does not divide by the micro-batches, the loss is none, or the ranks do not agree.
---@param x? tycho.Tensor # [batch, ...], on the first rank
---@param target? tycho.Tensor # [batch, ...], on the last rank
---@return tycho.Tensor # the mean of the micro-batches' losses, on all ranks
function objects.dist_Pipeline:backward(x, target) end

---The norm of the gradients of all stages, which are scaled so that it is at most `limit`, as ty.clip_grad_norm_ of
---the whole model does, to the bit. All ranks call it.
---Raises where a number is negative.
---@param limit number
---@param kind? number # 2
---@return tycho.Tensor # the norm before, no dims
function objects.dist_Pipeline:clip_grad_norm_(limit, kind) end

---The model's result, on all ranks, which all call it; the first one reads the input. Nothing is taped.
---Raises as the modules do.
---@param x? tycho.Tensor # on the first rank
---@return tycho.Tensor
function objects.dist_Pipeline:forward(x) end

---Takes this rank's part of a whole state_dict. Options are those of other modules.
---Raises where names or sizes do not fit.
---@param sd table<string, tycho.Tensor>
---@param opts? {from: "torch"|nil, strict: boolean?}
---@return string[] missing
---@return string[] unexpected
function objects.dist_Pipeline:load_state_dict(sd, opts) end

---Parameters and buffers of all stages by name, the same on all ranks, which all call it. Names are those of the
---list that the pipeline was made of.
---Raises where the ranks do not agree.
---@return table<string, tycho.Tensor>
function objects.dist_Pipeline:state_dict() end

---The tensors of all ranks, stacked along a new first dim in the order of ranks.
---Raises where ranks do not agree on dtype and sizes, x requires grad or is on neither the CPU nor CUDA, or a rank is gone.
---@param x tycho.Tensor # of any dtype and shape
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # [ranks, ...]; y:flatten(1, 2) joins them along the first dim of x
function dist.all_gather(x, opts) end

---What the ranks' tensors add up to, element by element, on all ranks: in the order of ranks, by Tycho's operations
---(f16 rounds after each, integers wrap), so that the bits are those of one process that adds them. op: "sum", "mean"
---(the sum over the number of ranks), "max", "min", "prod". fast: MPI, or NCCL, sums in an order of its own, which may
---change with sizes and machines; dtypes that it does not know are summed here.
---Raises where ranks do not agree on op, dtype and sizes, x requires grad or is on neither the CPU nor CUDA, for sums of bool and means of integers, or where a rank is gone.
---@param x tycho.Tensor # of any shape
---@param opts? {op: string?, fast: boolean?, group: tycho.dist.Group?}
---@return tycho.Tensor # of x's dtype and shape
function dist.all_reduce(x, opts) end

---all_reduce into x itself.
---Raises what all_reduce raises.
---@param x tycho.Tensor # of any shape; a leaf that requires grad inside of ty.no_grad
---@param opts? {op: string?, fast: boolean?, group: tycho.dist.Group?}
---@return tycho.Tensor # x itself
function dist.all_reduce_(x, opts) end

---Waits until all ranks have come here.
---Raises where one of them calls something else, has ended, or does not answer.
---@param opts? {group: tycho.dist.Group?}
function dist.barrier(opts) end

---The elements of rank `from` on all ranks; the others give a tensor of the same dtype and sizes.
---Raises where ranks do not agree on these, x requires grad or is on neither the CPU nor CUDA, or a rank is gone.
---@param x tycho.Tensor # of any dtype and shape
---@param from? integer # a rank of the world, the first at first
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # of x's dtype and shape
function dist.broadcast(x, from, opts) end

---broadcast into x itself.
---Raises what broadcast raises.
---@param x tycho.Tensor # of any dtype and shape; a leaf that requires grad inside of ty.no_grad
---@param from? integer # a rank of the world, the first at first
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # x itself
function dist.broadcast_(x, from, opts) end

---ty.clip_grad_norm_ where each rank has a part of the parameters (dist.fully_shard, dist.tensor_parallel): scales
---the gradients so that the p-norm of all of them, on all ranks, is at most `limit`. Each gradient is gathered,
---one at a time, so the norm has the bits of one process. Other parameters count as the same on all ranks. All
---ranks call it alike.
---Raises where the parameters are no tensors, a number is negative, or the ranks do not agree.
---@param params tycho.Tensor|tycho.Tensor[] # those without a gradient are passed over
---@param limit number
---@param p? number # 2
---@return tycho.Tensor # the norm before, no dims
function dist.clip_grad_norm_(params, limit, p) end

---Cross entropy of scores whose classes are cut over ranks (a head of style "classes"): the mean over all
---positions, the same on all ranks. Sums of exponentials are made of each rank's classes, and added in the order
---of ranks. In one process it is ty.cross_entropy with the classes in the last dim.
---Raises where scores are no floats, labels no integers of the other dims or out of range, or the ranks do not agree.
---@param scores tycho.Tensor # floats [..., classes / ranks]
---@param labels tycho.Tensor # integers [...], from 1 to classes; the same on all ranks
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # no dims
function dist.cross_entropy(scores, labels, opts) end

---Cuts a module's parameters, their gradients and with them the states of optimisers in slices, one a rank
---(Rajbhandari and others 2020, arXiv:1910.02054). It gets the first rank's numbers. Its forward gathers the
---parameters; a backward pass gives each slice the mean of the ranks' gradients, summed in the order of ranks: to
---the bit that of one process which goes through the ranks' parts of the batch one after the other, and divides,
---where a forward runs once a pass.
---
---A unit is gathered as a whole: call it for each block of a model first, then for the model, whose other
---parameters are a unit too. By default a block's parameters are freed after its forward, which runs once more in
---the backward pass (ZeRO 3); those of a module that has other units in it, or where keep = true, stay until the
---backward pass has used them (ZeRO 2). Optimisers are made afterwards; dist.shard makes their state_dict whole.
---All ranks call forward and backward alike, and state_dict and load_state_dict of the module that was cut last:
---both of whole tensors, so a checkpoint loads on any number of ranks. Frozen parameters and buffers stay whole.
---In one process it gives the module.
---Raises where the argument is no module, the ranks' modules differ, or a parameter is one of another unit, too.
---@param model tycho.Module # the same on all ranks, whatever its numbers are
---@param opts? {keep: boolean?, group: tycho.dist.Group?}
---@return tycho.Module # model itself
function dist.fully_shard(model, opts) end

---A group of some ranks, for the option `group` of other functions. All of them call this with the same ranks; others
---need not. Order does not matter: sums are in that of the world's ranks.
---Raises where a rank is out of range or given twice, or the ranks do not agree.
---@param ranks integer[] # from 0
---@return tycho.dist.Group? group # nil on ranks that are not in it
function dist.group(ranks) end

---Finds this process among the ranks of its run: where mpirun, srun or `tycho --ranks` started it, MPI is loaded and
---started. Where none of them did, and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set, ranks find each other at
---that address of the first one's, by TCP, and MPICH starts (Open MPI's processes join by its mpirun alone);
---LOCAL_WORLD_SIZE: how many share a machine. Else it is rank 0 of 1. Every other function of ty.dist does so, too.
---timeout: after so many seconds without progress a call raises, and names the ranks that it waits for (300;
---TYCHO_TIMEOUT). TYCHO_MPI names the MPI library, where it is not found.
---Raises where several processes were started, and MPI is not found or does not start, or the first rank does not answer.
---@param opts? {timeout: number?} # in seconds
---@return integer rank
---@return integer size # from 0; how many there are
function dist.init(opts) end

---The MPI library that carries messages, in its own words; nil where the process is alone.
---Raises as dist.init.
---@return string?
function dist.library() end

---The place of this process among those of its machine, from 0: which of the machine's CUDA devices is its own, as in
---ty.device("cuda:" .. dist.local_rank()). 0 where the launcher does not tell.
---Raises nothing.
---@return integer
function dist.local_rank() end

---This rank's part of a batch: the first dim, or another one, in as many equal parts as there are ranks.
---Raises where the dim does not divide by the number of ranks.
---@param x tycho.Tensor # any shape with a dim
---@param dim? integer # 1-based, negative from the end; 1
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Tensor # a view: [n / ranks, ...]; x itself in one process
function dist.part(x, dim, opts) end

---Cuts a list of modules that run one after the other in stages, one a rank (see the schedules 1f1b and gpipe,
---arXiv:1806.03377, arXiv:1811.06965). It gets the first rank's numbers; each rank keeps its own modules, and the
---list is emptied. The pipeline is a module: its parameters are those of this rank, for an optimiser; its
---state_dict is whole, and dist.shard makes that of its optimiser whole: checkpoints load on any number of ranks.
---It is not for models that dist.replicate has taken. One process is one stage.
---Raises where the argument is no list of modules, there are fewer of them than ranks, a tensor is one of two stages, or the ranks do not agree.
---@param model tycho.Module # an nn.Sequential, or a list of modules, each of one tensor to one tensor
---@param opts? {micro: integer?, loss: (fun(y: tycho.Tensor, target: tycho.Tensor): tycho.Tensor)?, parts: integer[]?, schedule: "1f1b"|"gpipe"|nil, compile: boolean?, group: tycho.dist.Group?} # micro: micro-batches of a batch, 4; loss: the mean over its rows; parts: modules of each rank, by default balanced by parameters; compile: whether stages are compiled
---@return tycho.dist.Pipeline
function dist.pipeline(model, opts) end

---The rank of this process, from 0.
---Raises where the group is none, and as dist.init.
---@param group? tycho.dist.Group
---@return integer # its place in the group, from 0
function dist.rank(group) end

---Takes the next tensor that another rank sends to this one. A compiled function has to know what will come: with
---`like`, a message is a step of its plan; without, the function is cut there.
---Raises where `from` is no other rank, or where the rank is gone, sends nothing in time, or something else than `like`.
---@param from integer # a rank of the world
---@param opts? {tag: integer?, like: tycho.Tensor?} # tag: 0 to 255; like: a tensor of the dtype and sizes that will come, whose elements are not read
---@return tycho.Tensor # of the sender's dtype and shape
function dist.recv(from, opts) end

---The rank's own part of all_reduce: the first dim is cut in as many equal parts as there are ranks.
---Raises where the first dim does not divide by the number of ranks, and what all_reduce raises.
---@param x tycho.Tensor # [ranks * n, ...]
---@param opts? {op: string?, group: tycho.dist.Group?}
---@return tycho.Tensor # [n, ...], part `rank` of the sum
function dist.reduce_scatter(x, opts) end

---Ends what replicate began: the gradients of the module's parameters stay on their rank from now on.
---Raises where the module is not replicated.
---@param model tycho.Module
function dist.release(model) end

---Makes a module one that all ranks train together: it gets the first rank's parameters and buffers, and from now on
---each backward pass gives its parameters the mean of the ranks' gradients, summed in the order of ranks: to the bit
---those of one process that goes through the ranks' parts of the batch one after the other, and divides. All ranks
---make the same backward passes from then on. Buffers, such as the statistics of a batch norm, are each rank's own;
---calling it once more makes them the first rank's again. In one process it gives the module, and does nothing.
---group: the ranks that train it, where others have other models or other parts of this one.
---Raises where the argument is no module, or the ranks' modules differ in names, dtypes or sizes.
---@param model tycho.Module # the same on all ranks, whatever its numbers are
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Module # model itself
function dist.replicate(model, opts) end

---ty.save_checkpoint on several ranks: all of them call it with parts of the same names, the first one writes the
---file, and all get its answer. What sharded optimisers keep is collected. ty.load_checkpoint reads the file, on
---any number of ranks.
---Raises where ranks do not agree on path and names, and what ty.save_checkpoint raises.
---@param path string
---@param parts table<string, any> # such as {model = m, optimizer = opt, loader = l, step = 100}
---@return true? ok
---@return string? message
function dist.save_checkpoint(path, parts) end

---Gives a tensor to another rank, which calls recv. Returns when it has been taken, or MPI keeps a copy.
---Raises where `to` is no other rank, x requires grad or is on neither the CPU nor CUDA, or the rank is gone.
---@param x tycho.Tensor # of any dtype and shape
---@param to integer # a rank of the world
---@param opts? {tag: integer?} # 0 to 255: recv takes messages of the same tag, in the order in which they were sent; those of CUDA tensors in that order whatever their tags
function dist.send(x, to, opts) end

---Cuts an optimiser's states in shards (ZeRO 1; Rajbhandari and others 2020, arXiv:1910.02054): each rank keeps
---those of its share of the parameters, updates these, and gets the others from their ranks, to the bits of an
---optimiser that is not cut. Gradients must be the same on all ranks, as those of dist.replicate are. step,
---state_dict and load_state_dict are called by all ranks from then on; a state_dict is whole, so a checkpoint
---loads on any number of ranks. Where the parameters are parts that dist.fully_shard or dist.tensor_parallel made,
---or those of a stage of dist.pipeline, states are, too, and this makes state_dict whole. In one process it gives
---the optimiser, and does nothing.
---Raises where the argument is no optimiser, or one whose state is that of all parameters (LBFGS); where the ranks' parameters differ.
---@param opt tycho.Optimizer
---@return tycho.Optimizer # opt itself
function dist.shard(opt) end

---How many ranks there are.
---Raises where the group is none, and as dist.init.
---@param group? tycho.dist.Group
---@return integer
function dist.size(group) end

---Cuts a model's layers over ranks, which compute on one batch together (Shoeybi and others 2019,
---arXiv:1909.08053). It gets the first rank's numbers. Each nn.TransformerBlock and nn.MultiHeadAttention is cut;
---other layers are where the plan names them, by path: "columns" and "rows", of an nn.Linear: parts of its outputs
---or of its inputs; "entries" of an nn.Embedding; "classes" of an nn.Linear whose outputs stay cut, for
---dist.cross_entropy; "heads" of an nn.MultiHeadAttention; "block". All ranks give it the same input, of the same
---random numbers. Its output has the bits of one process that makes each rank's products by itself and sums them
---in the order of ranks.
---
---Optimisers are made afterwards; dist.shard makes their state_dict whole. The model's own is whole, too:
---checkpoints load on any number of ranks, and into a model that is not cut. In one process it gives the model.
---Raises where the argument is no module, sizes do not divide by the ranks, a path or style is not known, a parameter is shared, or the ranks do not agree.
---@param model tycho.Module
---@param plan? table<string, string> # such as {embed = "entries", head = "classes"}
---@param opts? {group: tycho.dist.Group?}
---@return tycho.Module # model itself
function dist.tensor_parallel(model, plan, opts) end

ty.dist = dist

---@class tycho.fft
local fft = {}

---the discrete Fourier transform, sum over j of
---x_j exp(-2 pi i j k / n), along a dim that is first cut, or filled up with zeros, to n.
---Raises where x has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # real or complex
---@param n? integer|table # the size, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by nothing, the root of n, n
---@return tycho.Tensor # complex; f16 and bf16 go by way of f32
function fft.fft(x, n, dim, norm) end

---the Fourier transform along two dims: see ty.fft.fftn.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real or complex
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # the last two
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex
function fft.fft2(x, s, dim, norm) end

---the frequencies of fft.fft's numbers: 0, 1, ... then the negative ones, by
---n d.
---Raises where n is no whole number from 1.
---@param n integer # the length of the transform
---@param d? number # the distance of samples
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n], cycles per unit of d
function fft.fftfreq(n, d, opts) end

---the Fourier transform along several dims, cut or filled up
---with zeros to the sizes s; of s alone the last dims.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real or complex
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # all
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex
function fft.fftn(x, s, dim, norm) end

---the frequency 0 in the middle of each dim.
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dim? integer|integer[] # all
---@return tycho.Tensor # shape of x
function fft.fftshift(x, dim) end

---the transform, which is real, of a Hermitian signal
---whose first half is x.
---Raises where x has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # complex, or real
---@param n? integer|table # the size of the result, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by nothing, the root of n, n
---@return tycho.Tensor # real, n in that dim
function fft.hfft(x, n, dim, norm) end

---the inverse of fft.fft along a dim.
---Raises where x has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # real or complex
---@param n? integer|table # the size, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by n, its root, nothing
---@return tycho.Tensor # complex
function fft.ifft(x, n, dim, norm) end

---the inverse of fft.fft2.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real or complex
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # the last two
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex
function fft.ifft2(x, s, dim, norm) end

---the inverse of fft.fftn.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real or complex
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # all
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex
function fft.ifftn(x, s, dim, norm) end

---the inverse of fft.fftshift.
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dim? integer|integer[] # all
---@return tycho.Tensor # shape of x
function fft.ifftshift(x, dim) end

---the inverse of fft.hfft: half of a Hermitian signal.
---Raises where x is complex or has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # real
---@param n? integer|table # the size, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by n, its root, nothing
---@return tycho.Tensor # complex, n / 2 + 1 in that dim
function fft.ihfft(x, n, dim, norm) end

---the real tensor whose transform begins with x. The
---imaginary parts of the first number, and of the last for an even n, are not looked at.
---Raises where x has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # complex, or real
---@param n? integer|table # the size of the result, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by n, its root, nothing
---@return tycho.Tensor # real, n in that dim
function fft.irfft(x, n, dim, norm) end

---the inverse of fft.rfft2.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # complex, or real
---@param s? integer[]|table # sizes of the result, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # the last two
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # real
function fft.irfft2(x, s, dim, norm) end

---the inverse of fft.rfftn; the last of the dims gets
---2 (size - 1) places, or what s says.
---Raises where a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # complex, or real
---@param s? integer[]|table # sizes of the result, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # all
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # real
function fft.irfftn(x, s, dim, norm) end

---the first n / 2 + 1 numbers of the transform of a real x; the
---others are their conjugates.
---Raises where x is complex or has no such dim, the dim is empty, or n is below 1.
---@param x tycho.Tensor # real
---@param n? integer|table # the size, or all arguments by name: {n, dim, norm}
---@param dim? integer # -1
---@param norm? "backward"|"ortho"|"forward" # divides by nothing, the root of n, n
---@return tycho.Tensor # complex, n / 2 + 1 in that dim
function fft.rfft(x, n, dim, norm) end

---fft.rfft along the last of two dims, then fft.fft
---along the other.
---Raises where x is complex, a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # the last two
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex, n / 2 + 1 in the last of the dims
function fft.rfft2(x, s, dim, norm) end

---the frequencies of fft.rfft's numbers: 0 to n / 2, by n d.
---Raises where n is no whole number from 1.
---@param n integer # the length of the transform
---@param d? number # the distance of samples
---@param opts? {dtype: string?, device: string?}
---@return tycho.Tensor # [n / 2 + 1], cycles per unit of d
function fft.rfftfreq(n, d, opts) end

---fft.rfft along the last of the dims, then fft.fft along the
---others.
---Raises where x is complex, a dim is given twice or is empty, or s and dim differ in number.
---@param x tycho.Tensor # real
---@param s? integer[]|table # sizes, -1: as it is; or all arguments by name: {s, dim, norm}
---@param dim? integer|integer[] # all
---@param norm? "backward"|"ortho"|"forward"
---@return tycho.Tensor # complex, n / 2 + 1 in the last of the dims
function fft.rfftn(x, s, dim, norm) end

ty.fft = fft

---@class tycho.files
local files = {}

---@class tycho.TensorFile
---@field names string[] in the file's order
---@field metadata table
files.TensorFile = {}

---Closes the file; tensors that were read stay.
---Raises never.
function files.TensorFile:close() end

---Reads one tensor.
---Raises where the file has no tensor of that name; what cannot be read gives nil and a message.
---@param name string
---@return tycho.Tensor? t
---@return string? message
function files.TensorFile:get(name) end

---Whether it holds a tensor of that name.
---Raises where the name is no string.
---@param name string
---@return boolean
function files.TensorFile:has(name) end

---The sizes and dtype of a tensor as get gives it, without reading it; a third value says why there can be none. nil
---where it has none of that name.
---Raises where the name is no string.
---@param name string
---@return integer[]? shape
---@return string? dtype
---@return string? why
function files.TensorFile:info(name) end

---@class tycho.files.gguf
files.gguf = {}

---The tensors of a .gguf file by name, and its metadata. Quantised numbers (Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K,
---Q5_K, Q6_K) become f32, 4 to 7 bytes for each of the file, so that a model takes up to 7 times its size (names:
---only these are read); other types keep their dtype unless `dtype` names one. Whole numbers of the metadata
---beyond 2^53 are texts.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {names: string[]?, mmap: boolean?, dtype: string?}
---@return table<string, tycho.Tensor>? tensors
---@return table|string # metadata or message
function files.gguf.load(path, opts) end

---An open file, of which tensors are read one by one: its names, info(name), get(name). Options as of load.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {mmap: boolean?, limit: number?}
---@return tycho.TensorFile? file
---@return string? message
function files.gguf.open(path, opts) end

---What a file holds, by its ending: .npy .npz .safetensors .gguf .csv .tsv .png .jpg .jpeg .ppm .pgm .pnm. Options are
---those of the format's own load: ty.csv.load, ty.image.load, ty.files.npy.load and so on.
---Raises where the path is no string, its ending is no known format, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? table
---@return any value
---@return any more # a tensor, tensors by name, a table; nil and a message where the file cannot be read
function files.load(path, opts) end

---Reads a checkpoint. The parts of `into` that have load_state_dict take up what was saved under their names, and
---random numbers go on where they stood; the rest is in what it gives. Without `into` states come as tables and the
---random numbers stay as they are.
---Raises where a part does not fit what was saved; then all are as they were.
---@param path string
---@param into? table<string, any> # such as {model = m, optimizer = opt}
---@param opts? {random: boolean?} # random = false: random numbers stay as they are
---@return table<string, any>? parts
---@return string? message
function files.load_checkpoint(path, into, opts) end

---The weights of a model as other libraries save them: a .safetensors file, a model.safetensors.index.json with the
---files that it names, or a directory with one of these. For model:load_state_dict(weights, {from = "torch"}).
---Raises where the path is no string, or an option is not known.
---@param path string
---@param opts? {mmap: boolean?}
---@return table<string, tycho.Tensor>? weights
---@return string? message
function files.load_weights(path, opts) end

---@class tycho.files.npy
files.npy = {}

---A tensor of a .npy file. Column-major files give a view with turned strides.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {mmap: boolean?} # mmap: the elements stay in the file, which must not be cut short meanwhile
---@return tycho.Tensor? t
---@return string? message
function files.npy.load(path, opts) end

---Writes a tensor as .npy.
---Raises where t is no tensor of a dtype that .npy has. What cannot be written gives nil and a message.
---@param path string
---@param t tycho.Tensor
---@param opts? table # there are none
---@return true? ok
---@return string? message
function files.npy.save(path, t, opts) end

---@class tycho.files.npz
files.npz = {}

---The arrays of a .npz file by name, as numpy.load gives them. Compressed files that unpack to more than the file's
---size and 64 MB are refused unless `limit` allows it: a small file may stand for any number of bytes.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {names: string[]?, limit: number?}
---@return table<string, tycho.Tensor>? tensors
---@return string? message
function files.npz.load(path, opts) end

---An open file, of which tensors are read one by one: its names, info(name), get(name). Options as of load.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {mmap: boolean?, limit: number?}
---@return tycho.TensorFile? file
---@return string? message
function files.npz.open(path, opts) end

---Writes tensors by name, as numpy.savez does; compress: as numpy.savez_compressed.
---Raises where a name or a tensor is none. What cannot be written gives nil and a message.
---@param path string
---@param tensors table<string, tycho.Tensor>
---@param opts? {compress: boolean?}
---@return true? ok
---@return string? message
function files.npz.save(path, tensors, opts) end

---@class tycho.files.onnx
files.onnx = {}

---The model of a .onnx file as a module: its parts are the weights, calling it runs the graph in ordinary
---operations, so that it is compiled, differentiated and moved like any other. `m(x, ...)` takes the inputs in the
---graph's order, `m{name = x}` by name, and gives a table of outputs by name.
---Raises where the path is no string. What cannot be read, or uses an operator, a type or an attribute that is not supported (named with its node), gives nil and a message.
---@param path string
---@return tycho.Module? model
---@return string? message
function files.onnx.load(path) end

---Writes what f(x, ...) computes as a model (operators of version 18): f runs once with the example arguments, and
---its operations become nodes. Tensors among the arguments are inputs, named as the function's parameters; weights
---have their names in the module; all else is frozen. Positions (indices) count as f counts them.
---given: example arguments and options: inputs, outputs = {names}; dynamic = {x = {1}} or {x = {[1] = "batch"}}: up
---to three sizes that may vary; weights = "beside": large ones go into model.onnx.data, as they must beyond 2 GB.
---Raises where f reads a value on its way, computes what ONNX has no operator for, is another graph at other sizes, or an option is none. What cannot be written gives nil and a message.
---@param path string
---@param f function|table # a function, compiled or not, or a module
---@param given? table # {x, 0.5, outputs = {"scores"}, dynamic = {x = {1}}}
---@return true? ok
---@return string? message
function files.onnx.save(path, f, given) end

---@class tycho.files.safetensors
files.safetensors = {}

---The tensors of a .safetensors file by name, and its metadata. names: only these are read. mmap: the elements stay
---in the file until they are looked at; cutting the file short meanwhile ends the process.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {names: string[]?, mmap: boolean?}
---@return table<string, tycho.Tensor>? tensors
---@return table<string, string>|string # metadata or message
function files.safetensors.load(path, opts) end

---An open file, of which tensors are read one by one: its names, info(name), get(name). Options as of load.
---Raises where the path is no string, or an option is not known. What cannot be read gives nil and a message.
---@param path string
---@param opts? {mmap: boolean?, limit: number?}
---@return tycho.TensorFile? file
---@return string? message
function files.safetensors.open(path, opts) end

---Writes tensors by name, byte for byte as the reference implementation does.
---Raises where a name or a tensor is none. What cannot be written gives nil and a message.
---@param path string
---@param tensors table<string, tycho.Tensor>
---@param opts? {metadata: table<string, string>?}
---@return true? ok
---@return string? message
function files.safetensors.save(path, tensors, opts) end

---Writes a file, by its ending, as load has them but .gguf; the file is whole or, where that fails, as it was before.
---Options are those of the format's own save.
---Raises where the path is no string, its ending is no known format, or the value is not what the format takes. What cannot be written gives nil and a message. `ty.save("model.onnx", f, {x, ...})` writes what a function or module computes, see ty.onnx.save.
---@param path string
---@param value any # a tensor, or tensors by name: what the format takes
---@param opts? table
---@return true? ok
---@return string? message
function files.save(path, value, opts) end

---Writes a checkpoint: the parts, and the state of the random numbers.
---Raises where the path is no string, or a part is neither savable nor has state_dict.
---@param path string
---@param parts table<string, any> # such as {model = m, optimizer = opt, schedule = s, step = 100}
---@return true? ok
---@return string? message
function files.save_checkpoint(path, parts) end

ty.files = files

---@class tycho.graph
local graph = {}

---@class tycho.GraphObject
graph.Graph = {}

---A graph of its own with the same nodes, and a table from the old nodes to the new ones.
---Raises where the graph breaks a rule: see lint.
---@return tycho.GraphObject
---@return table<tycho.GraphNode, tycho.GraphNode>
function graph.Graph:clone() end

---Erases what no output is made of, but the inputs: their number stays. Returns how many nodes went.
---Raises where the graph breaks a rule: see lint.
---@return integer
function graph.Graph:dce() end

---Takes a node out.
---Raises while it has users or is an output.
---@param node tycho.GraphNode
function graph.Graph:erase(node) end

---The exchange table of a graph: what the core takes back.
---Raises where the graph breaks a rule: see lint.
---@return {text: string, outputs: integer[]}
function graph.Graph:export() end

---The nodes `input` in the order in which tensors are given for them.
---Raises never.
---@return tycho.GraphNode[]
function graph.Graph:inputs() end

---A new node: its type follows from operands and arguments.
---where: nil for the end, a node for right behind it, {before = node}, {after = node}; operands come first always.
---op: a row of the table of operations. inputs: nodes; a number stands for a constant of the others' dtype.
---args: the operation's arguments by name; `dtype` of casts and leaves, `shape` of views and leaves; `name`.
---Raises where the operation is not known, or operands or arguments do not fit it.
---@param where? tycho.GraphNode|{before?: tycho.GraphNode, after?: tycho.GraphNode}
---@param op string
---@param inputs (tycho.GraphNode|number)[]
---@param args? table
---@return tycho.GraphNode
function graph.Graph:insert(where, op, inputs, args) end

---nil when the graph keeps all rules, else what is wrong, with the node's name.
---Raises never.
---@return string?
function graph.Graph:lint() end

---Where a pattern holds: with a node the table of the pattern's names, and `root`, or nil; without one a list of such
---tables, in the order of nodes. What patterns look like: graph_match.lua; for instance "add(mul(?x, ?y), ?z)".
---Raises where the pattern is malformed.
---@param pattern string|table|function
---@param node? tycho.GraphNode
---@return table?
function graph.Graph:match(pattern, node) end

---The nodes in an order in which operands come first. The walk is over those that there were when it began, without
---those that were erased meanwhile.
---Raises in the walk where the graph has a cycle.
---@return fun(): tycho.GraphNode?
function graph.Graph:nodes() end

---The nodes whose values are the graph's results, in order.
---Raises never.
---@return tycho.GraphNode[]
function graph.Graph:outputs() end

---Lets all who read `node`, and the graph's outputs, read `with` in its place. Where `with` is itself made of `node`,
---what lies between the two keeps reading it. `node` stays, without users, until it is erased.
---Raises where a node is none of the graph.
---@param node tycho.GraphNode
---@param with tycho.GraphNode # of the same dtype and shape
---@return tycho.GraphNode with
function graph.Graph:replace(node, with) end

---Replaces the root of each match by the node that fn(match, graph) returns, until nothing new matches; what no longer
---has readers is erased. fn may return nil to leave a match as it is. A node is asked about once for each time that it
---matches as it stands, so a rule may keep its root: wrap it, for instance. Returns how many were replaced.
---Raises where the pattern is malformed, or fn gives something else than a node.
---@param pattern string|table|function
---@param fn fun(match: table, graph: tycho.GraphObject): tycho.GraphNode?
---@return integer
function graph.Graph:rewrite(pattern, fn) end

---Computes the outputs for the given inputs, node by node, by public functions. Takes what the source's function does.
---Raises where inputs do not have the types of the graph.
---@param ... tycho.Tensor|number # one tensor for each input, then a number for each scalar slot
---@return tycho.Tensor # the outputs
function graph.Graph:run(...) end

---Numbers recorded for the scalar slots: defaults of what is given behind the inputs.
---Raises never.
---@return number[]
function graph.Graph:scalars() end

---Says which nodes are the results.
---Raises where a node is none of the graph.
---@param list tycho.GraphNode[]
function graph.Graph:set_outputs(list) end

---Lua source of the graph: `local ty = require "tycho"` ... `return function(x1, x2, s1) ... end`, which takes tensors
---for the inputs, then numbers for the scalar slots (nil: what was recorded), and returns the outputs. Only public
---functions are called, and the bits are those of the graph.
---Raises where the graph breaks a rule: see lint.
---@return string
function graph.Graph:source() end

---The graph as text, which graph.parse and the core read back. Equal nodes are one there. A remark names the outputs.
---Raises where the graph breaks a rule: see lint.
---@return string
function graph.Graph:text() end

---The nodes that read a node, each once; outputs of the graph are not among them.
---Raises where a node is none of the graph.
---@param node tycho.GraphNode
---@return tycho.GraphNode[]
function graph.Graph:users(node) end

---What a compiled function with passes or a backend does with a captured graph.
---options: what P.options gave. t: an exchange table or a graph. inputs: an example tensor for each of its inputs.
---Returns the exchange table of the graph that the passes left, or with a backend the function that it gave.
---Raises where a pass leaves no sound graph, or the backend gives no function.
---@param options {passes: table[], backend?: function}
---@param t table
---@param inputs tycho.Tensor[]
---@return {text: string, outputs: integer[]}|function
function graph.customize(options, t, inputs) end

---The graph of an exchange table (see above), or of what jit.graph gives. A graph is given back as it is.
---Raises where it is no graph.
---@param t table
---@return tycho.GraphObject
function graph.from(t) end

---Whether a value is a graph.
---Raises never.
---@param v any
---@return boolean
function graph.is_graph(v) end

---Checks {passes =, backend =} of jit.compile, and finds named passes. Returns nil when there is neither, else what
---customize takes, with `key`: a text that is equal where the same functions run in the same order.
---Raises where a pass or the backend is none.
---@param options table
---@return {passes: table[], backend?: function, key: string}?
function graph.options(options) end

---The graph of a text. Its outputs are those that a remark `# outputs: %3 %5` names, else the nodes that nobody reads.
---Raises where the text is none of a graph; it names the line.
---@param text string
---@return tycho.GraphObject
function graph.parse(text) end

---Registers a pass under a name: {passes = {name}} of jit.compile runs it. fn(graph, example_inputs) changes the
---graph or returns another one. A name may be given anew: functions that are compiled later get the new pass.
---Raises where the name is no string, or fn no function.
---@param name string
---@param fn fun(graph: tycho.GraphObject, inputs: tycho.Tensor[]): tycho.GraphObject?
function graph.pass(name, fn) end

---Runs f(...) once and gives the graph of what it computed, the tensors that were its inputs, and the results of f.
---All results must be tensors of reals: they are the outputs. What f writes to is written, but is no part of the
---graph. nil and the reason where f wanted a value on the way, or recorded more than one graph takes.
---Raises where f is no function, and what f raises.
---@param f function
---@param ... any # what f is given
---@return tycho.GraphObject?
---@return tycho.Tensor[]|string
---@return tycho.Tensor[]? # what the graph takes and gives
function graph.record(f, ...) end

---@class tycho.image
local image = {}

---The same of a file's bytes.
---Raises where the bytes are no string, or an option is out of range.
---@param bytes string
---@param opts? table
---@return tycho.Tensor? image
---@return string? message
function image.decode(bytes, opts) end

---The bytes of such a file.
---Raises where x is no image, or the format is not known.
---@param x tycho.Tensor
---@param format "png"|"jpg"|"ppm"|"pgm"
---@param opts? table
---@return string? bytes
---@return string? message
function image.encode(x, format, opts) end

---Images of one size side by side, as one sheet. Options: columns (about as many as rows), padding (2
---pixels), value (0) between.
---Raises where the images are none, or differ in size.
---@param list tycho.Tensor|tycho.Tensor[] # [n,c,h,w], [n,h,w] or a list of [c,h,w] or [h,w]
---@param opts? {columns: integer?, padding: integer?, value: number?}
---@return tycho.Tensor # [c, height, width]
function image.grid(list, opts) end

---An image, u8 [channels, height, width]. Options: channels = 1 | 3 | 4, default the file's own; size =
---{height, width}: resized, bilinear; dtype = a float: from 0 to 1; limit = bytes that reading may take beside the
---file's own, at its peak, as the header has it: pixels, the decoder's work, conversions. The default of 58 MB
---keeps every file, also a hostile one, within its size and 64 MB; it holds photographs of 16 megapixels (of 6 as
---progressive JPEG, of 3 as f32), and a limit of 16 bytes a pixel holds any as bytes.
---Raises where an option is not known or out of range. What cannot be read gives nil and a message.
---@param path string
---@param opts? {channels: integer?, size: integer[]?, dtype: string?, limit: integer?}
---@return tycho.Tensor? image
---@return string? message
function image.load(path, opts) end

---Images of another size, u8 or f32 [..., height, width], as Pillow's resize with antialiasing (for bytes the
---same bits). Without gradients: see ty.interpolate.
---Raises where x is not u8 or f32, has no pixels, or the mode is not known.
---@param x tycho.Tensor
---@param size integer[] # {height, width}
---@param mode? "bilinear"|"nearest"|"box"|"bicubic"
---@return tycho.Tensor
function image.resize(x, size, mode) end

---Writes an image by the path's ending: u8, or floats from 0 to 1, or bool; [h,w] or [c,h,w]. Options: quality of
---JPEG, 1 to 100, 90; level of PNG's compression, 0 to 9, 6.
---Raises where x is no image, or the ending no format that is written.
---@param path string
---@param x tycho.Tensor
---@param opts? {quality: integer?, level: integer?}
---@return true? ok
---@return string? message
function image.save(path, x, opts) end

ty.image = image

---@class tycho.linalg
local linalg = {}

---the lower triangle l with l l^t = a, for positive definite matrices.
---Only the lower triangle is read.
---Raises where a matrix is not positive definite, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [..., n, n]
function linalg.cholesky(a) end

---the condition number: the largest singular value by the smallest; with another p than 2
---the norm of a times that of its inverse.
---Raises where a has fewer than two dims, with a norm that needs the inverse where a is not square or singular, or where OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@param p? "fro"|"nuc"|number # 2
---@return tycho.Tensor # [...]
function linalg.cond(a, p) end

---the determinant of square matrices
---Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [...]; 0 of a singular matrix
function linalg.det(a) end

---two results: eigenvalues and eigenvectors as columns, complex, of any square matrices.
---Of a real matrix, too, the results are complex; eigenvalues that are not real come in conjugate pairs. Each vector
---has length 1, and its largest component is real. In no order. The gradient needs eigenvalues that differ.
---Raises where a matrix is not square, holds NaN or infinities, or OpenBLAS is missing; in the backward pass where the loss depends on the vectors' phases, which are arbitrary.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor values
---@return tycho.Tensor vectors # [..., n] and [..., n, n], a column for each value; c64 or c128
function linalg.eig(a) end

---two results: eigenvalues in ascending order and eigenvectors as columns, symmetric matrices.
---Only the lower triangle is read.
---Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n], symmetric; complex ones Hermitian
---@return tycho.Tensor values
---@return tycho.Tensor vectors # reals [..., n] and [..., n, n], a column for each value
function linalg.eigh(a) end

---the eigenvalues of square matrices, complex.
---In no order.
---Raises where a matrix is not square, holds NaN or infinities, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [..., n]; c64 or c128
function linalg.eigvals(a) end

---the eigenvalues of symmetric matrices, in ascending order; the lower triangle is read.
---Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [..., n]
function linalg.eigvalsh(a) end

---the inverse of square matrices
---Raises where a matrix is not square, or singular, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [..., n, n]
function linalg.inv(a) end

---the x of least norm that makes |a x - b| least
---Raises where rows differ, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m], of any rank
---@param b tycho.Tensor # [..., n] or [..., n, k]
---@return tycho.Tensor # [..., m] or [..., m, k]
function linalg.lstsq(a, b) end

---three results: a permutation p, triangles l, with ones on the diagonal, and u; a = p l u
---Raises where a has fewer than two dims, or OpenBLAS is missing; in the backward pass where matrices are not square.
---@param a tycho.Tensor # [..., n, m]
---@return tycho.Tensor p
---@return tycho.Tensor l
---@return tycho.Tensor u # [..., n, n], [..., n, k] and [..., k, m], k = min(n, m)
function linalg.lu(a) end

---the exponential of matrices: the sum of a^k / k!. Reads the largest norm.
---By scaling to a norm of 1, a Taylor polynomial, and squaring.
---Raises where a matrix is not square.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor # [..., n, n]
function linalg.matrix_exp(a) end

---a norm of matrices: "fro" of all elements,
---"nuc" the sum of singular values, 2 and -2 the largest and smallest of these, 1 and -1 of the columns' sums of
---magnitudes, math.huge and -math.huge of the rows'.
---Raises where a has fewer than two dims, p is another, or for singular values OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@param p? "fro"|"nuc"|number # "fro"
---@param dims? integer[] # {-2, -1}
---@param keepdim? boolean # false
---@return tycho.Tensor # a without the dims; floats
function linalg.matrix_norm(a, p, dims, keepdim) end

---the product of n matrices a; of the inverse for a negative n.
---Raises where a matrix is not square, n is no whole number, or for a negative n where it is singular.
---@param a tycho.Tensor # [..., k, k]
---@param n integer
---@return tycho.Tensor # [..., k, k]
function linalg.matrix_power(a, n) end

---how many singular values exceed max(atol, rtol * the largest).
---Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@param opts? {rtol: number?, atol: number?} # rtol = max(n, m) * eps of the dtype, 0 where atol is given; atol = 0
---@return tycho.Tensor # [...]; i64
function linalg.matrix_rank(a, opts) end

---the product of matrices, in the order that takes the fewest multiplications. The first and
---the last may be vectors.
---Raises where there are fewer than two, one has more than two dims, or inner sizes differ.
---@param list tycho.Tensor[]
---@return tycho.Tensor # [rows of the first, columns of the last]; a vector's dim is left out
function linalg.multi_dot(list) end

---a norm of vectors (one dim) or of matrices (two dims): see
---ty.linalg.vector_norm and ty.linalg.matrix_norm. Without p the square root of the sum of squares.
---Raises where x has more than two dims, p is given and dims are not.
---@param x tycho.Tensor
---@param p? number|"fro"|"nuc"
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function linalg.norm(x, p, dims, keepdim) end

---the pseudo-inverse, by singular values. Those at most max(atol, rtol * the largest)
---count as 0.
---Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@param opts? {rtol: number?, atol: number?} # rtol = max(n, m) * eps of the dtype, 0 where atol is given; atol = 0
---@return tycho.Tensor # [..., m, n]
function linalg.pinv(a, opts) end

---two results: q with orthonormal columns and an upper triangle r, a = q r
---Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@return tycho.Tensor q
---@return tycho.Tensor r # [..., n, k] and [..., k, m], k = min(n, m)
function linalg.qr(a) end

---two results: the sign of the determinant, and the logarithm of its magnitude.
---Less in danger of overflow than the determinant.
---Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@return tycho.Tensor sign
---@return tycho.Tensor logarithm # [...] each; 0 and -inf of a singular matrix
function linalg.slogdet(a) end

---x with a x = b, for square matrices a; b: a vector or columns.
---Stands on OpenBLAS's LAPACK: `make deps` installs it. All of ty.linalg takes complex matrices, too; a transpose is
---the conjugate one there.
---Raises where the library is missing, sizes do not fit, or a matrix is singular.
---@param a tycho.Tensor # [..., n, n]
---@param b tycho.Tensor # [..., n] or [..., n, m]
---@return tycho.Tensor # the sizes of b; floats, half floats by way of f32
function linalg.solve(a, b) end

---x with a x = b, or x a = b where
---left is false. Of a the other triangle is not read.
---Raises where upper is not told, sizes do not fit, a matrix is singular, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, n]
---@param b tycho.Tensor # [..., n, m]; [..., m, n] where left is false
---@param opts {upper: boolean, left: boolean?, unitriangular: boolean?} # unitriangular: the diagonal is taken for ones
---@return tycho.Tensor # the sizes of b
function linalg.solve_triangular(a, b, opts) end

---three results: u, the singular values in descending order, v^t; a = u diag(s) v^t
---Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@return tycho.Tensor u
---@return tycho.Tensor s
---@return tycho.Tensor vt # [..., n, k], [..., k], [..., k, m], k = min(n, m)
function linalg.svd(a) end

---the singular values of matrices, in descending order.
---Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor # [..., n, m]
---@return tycho.Tensor # [..., min(n, m)]
function linalg.svdvals(a) end

---the inverse of a as a map from its last dims to its first n.
---Raises where the products of the first n sizes and of the others differ, or a is singular.
---@param a tycho.Tensor
---@param n? integer # 2
---@return tycho.Tensor # the other sizes, then the first n
function linalg.tensorinv(a, n) end

---x with a x = b, summed over the last dims of a.
---Raises where the sizes of b are not the first ones of a, the others have another product, or a is singular.
---@param a tycho.Tensor # the sizes of b, then those of x
---@param b tycho.Tensor
---@return tycho.Tensor # the last sizes of a
function linalg.tensorsolve(a, b) end

---the p-norm of the elements over dims, as ty.norm.
---Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param p? number # 2; also math.huge, -math.huge, 0
---@param dims? integer|integer[] # all
---@param keepdim? boolean # false
---@return tycho.Tensor # x without the dims; floats
function linalg.vector_norm(x, p, dims, keepdim) end

ty.linalg = linalg

---@class tycho.nn
local nn = {}

---as many windows as asked for, see ty.adaptive_avg_pool1d.
---Raises where x has other dims, or the size is not above 0.
---@param size integer
---@return tycho.nn.AdaptiveAvgPool1d
function nn.AdaptiveAvgPool1d(size) end

---@class tycho.nn.AdaptiveAvgPool1d: tycho.Module
objects.nn_AdaptiveAvgPool1d = {}

---as many windows as asked for, see ty.adaptive_avg_pool2d.
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.nn.AdaptiveAvgPool2d
function nn.AdaptiveAvgPool2d(size) end

---@class tycho.nn.AdaptiveAvgPool2d: tycho.Module
objects.nn_AdaptiveAvgPool2d = {}

---as many windows as asked for, see ty.adaptive_avg_pool3d.
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.nn.AdaptiveAvgPool3d
function nn.AdaptiveAvgPool3d(size) end

---@class tycho.nn.AdaptiveAvgPool3d: tycho.Module
objects.nn_AdaptiveAvgPool3d = {}

---as many windows as asked for, see ty.adaptive_max_pool1d.
---Raises where x has other dims, or the size is not above 0.
---@param size integer
---@return tycho.nn.AdaptiveMaxPool1d
function nn.AdaptiveMaxPool1d(size) end

---@class tycho.nn.AdaptiveMaxPool1d: tycho.Module
objects.nn_AdaptiveMaxPool1d = {}

---as many windows as asked for, see ty.adaptive_max_pool2d.
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.nn.AdaptiveMaxPool2d
function nn.AdaptiveMaxPool2d(size) end

---@class tycho.nn.AdaptiveMaxPool2d: tycho.Module
objects.nn_AdaptiveMaxPool2d = {}

---as many windows as asked for, see ty.adaptive_max_pool3d.
---Raises where x has other dims, or a size is not above 0.
---@param size integer|integer[]
---@return tycho.nn.AdaptiveMaxPool3d
function nn.AdaptiveMaxPool3d(size) end

---@class tycho.nn.AdaptiveMaxPool3d: tycho.Module
objects.nn_AdaptiveMaxPool3d = {}

---sets elements to the lower limit of a selu by chance p when training, and scales so
---that mean and variance stay. Klambauer and others 2017, arXiv:1706.02515.
---Raises where p lies outside of 0 to 1, or the input is not floating.
---@param p? number
---@return tycho.nn.AlphaDropout # the sizes of the input
function nn.AlphaDropout(p) end

---@class tycho.nn.AlphaDropout: tycho.Module
objects.nn_AlphaDropout = {}

---see
---ty.avg_pool1d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer # places of the window
---@param opts? {stride: integer?, padding: integer?, ceil_mode: boolean?, count_include_pad: boolean?} # as of ty.avg_pool1d
---@return tycho.nn.AvgPool1d
function nn.AvgPool1d(kernel, opts) end

---@class tycho.nn.AvgPool1d: tycho.Module
objects.nn_AvgPool1d = {}

---see
---ty.avg_pool2d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[] # places of the window, or {rows, columns}
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?} # as of ty.avg_pool2d
---@return tycho.nn.AvgPool2d
function nn.AvgPool2d(kernel, opts) end

---@class tycho.nn.AvgPool2d: tycho.Module
objects.nn_AvgPool2d = {}

---see
---ty.avg_pool3d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[] # places of the window, or {planes, rows, columns}
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, ceil_mode: boolean?, count_include_pad: boolean?} # as of ty.avg_pool3d
---@return tycho.nn.AvgPool3d
function nn.AvgPool3d(kernel, opts) end

---@class tycho.nn.AvgPool3d: tycho.Module
objects.nn_AvgPool3d = {}

---see ty.binary_cross_entropy.
---Raises where x and y have not the same sizes, or the reduction is not known.
---@param opts? {weight: tycho.Tensor|number|nil, reduction: "mean"|"sum"|"none"|nil}
---@return tycho.nn.BCELoss # chances x and y to a 0-d tensor
function nn.BCELoss(opts) end

---@class tycho.nn.BCELoss: tycho.Module
objects.nn_BCELoss = {}

---see ty.bce_with_logits.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor|number|nil, pos_weight: tycho.Tensor|number|nil} # tensors or numbers that broadcast with x
---@return tycho.nn.BCEWithLogitsLoss
function nn.BCEWithLogitsLoss(opts) end

---@class tycho.nn.BCEWithLogitsLoss: tycho.Module
objects.nn_BCEWithLogitsLoss = {}

---each channel of [batch,
---channels] or [batch, channels, length] to mean 0 and variance 1, times weight plus bias: over the batch when
---training, else by the running means, in which momentum is the share of a new batch.
---Raises where the input has other sizes, or one value a channel when training.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.BatchNorm1d # the sizes of the input
function nn.BatchNorm1d(channels, opts) end

---@class tycho.nn.BatchNorm1d: tycho.Module
objects.nn_BatchNorm1d = {}

---the same of [batch,
---channels, height, width].
---Raises where the input has other sizes, or one value a channel when training.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.BatchNorm2d # the sizes of the input
function nn.BatchNorm2d(channels, opts) end

---@class tycho.nn.BatchNorm2d: tycho.Module
objects.nn_BatchNorm2d = {}

---the same of [batch,
---channels, depth, height, width].
---Raises where the input has other sizes, or one value a channel when training.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.BatchNorm3d # the sizes of the input
function nn.BatchNorm3d(channels, opts) end

---@class tycho.nn.BatchNorm3d: tycho.Module
objects.nn_BatchNorm3d = {}

---a W b + bias for each output, m(a, b); weight [outputs,
---inputs1, inputs2].
---Raises where a count is not whole, or the inputs do not end with these sizes.
---@param inputs1 integer
---@param inputs2 integer
---@param outputs integer
---@param opts? {bias: boolean?}
---@return tycho.nn.Bilinear # [..., inputs1] and [..., inputs2] to [..., outputs]
function nn.Bilinear(inputs1, inputs2, outputs, opts) end

---@class tycho.nn.Bilinear: tycho.Module
objects.nn_Bilinear = {}

---[..., inputs1] and [..., inputs2] to [..., outputs].
---@param a tycho.Tensor
---@param b tycho.Tensor
---@return tycho.Tensor
function objects.nn_Bilinear:forward(a, b) end

---see ty.celu.
---Raises where x is not floating, or alpha is 0.
---@param alpha? number # 1
---@return tycho.nn.CELU
function nn.CELU(alpha) end

---@class tycho.nn.CELU: tycho.Module
objects.nn_CELU = {}

---loss(x, target, times, lengths), see
---ty.ctc_loss.
---Raises where sizes do not fit each other, or the blank is no class.
---@param opts? {blank: integer?, reduction: "mean"|"sum"|"none"|nil, zero_infinity: boolean?}
---@return tycho.nn.CTCLoss # log-probabilities [time, batch, classes] and labels [batch, labels] to a 0-d tensor
function nn.CTCLoss(opts) end

---@class tycho.nn.CTCLoss: tycho.Module
objects.nn_CTCLoss = {}

---the first channels of all groups, then the second ones, and so on. Zhang and others
---2017, arXiv:1707.01083.
---Raises where channels do not divide into the groups.
---@param groups integer
---@return tycho.nn.ChannelShuffle # [batch, channels, ...] to the same
function nn.ChannelShuffle(groups) end

---@class tycho.nn.ChannelShuffle: tycho.Module
objects.nn_ChannelShuffle = {}

---the places of the other end.
---Raises where the padding is no number and no list of 2 of no more than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right}
---@return tycho.nn.CircularPad1d # [batch, channels, length], more of it
function nn.CircularPad1d(padding) end

---@class tycho.nn.CircularPad1d: tycho.Module
objects.nn_CircularPad1d = {}

---the places of the other end.
---Raises where the padding is no number and no list of 4 of no more than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom}
---@return tycho.nn.CircularPad2d # [batch, channels, height, width], more of them
function nn.CircularPad2d(padding) end

---@class tycho.nn.CircularPad2d: tycho.Module
objects.nn_CircularPad2d = {}

---the places of the other end.
---Raises where the padding is no number and no list of 6 of no more than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom, front, back}
---@return tycho.nn.CircularPad3d # [batch, channels, depth, height, width], more of them
function nn.CircularPad3d(padding) end

---@class tycho.nn.CircularPad3d: tycho.Module
objects.nn_CircularPad3d = {}

---one value around the places.
---Raises where the padding is no number and no list of 2, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right}
---@param value number
---@return tycho.nn.ConstantPad1d # [batch, channels, length], more of it
function nn.ConstantPad1d(padding, value) end

---@class tycho.nn.ConstantPad1d: tycho.Module
objects.nn_ConstantPad1d = {}

---one value around the places.
---Raises where the padding is no number and no list of 4, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom}
---@param value number
---@return tycho.nn.ConstantPad2d # [batch, channels, height, width], more of them
function nn.ConstantPad2d(padding, value) end

---@class tycho.nn.ConstantPad2d: tycho.Module
objects.nn_ConstantPad2d = {}

---one value around the places.
---Raises where the padding is no number and no list of 6, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom, front, back}
---@param value number
---@return tycho.nn.ConstantPad3d # [batch, channels, depth, height, width], more of them
function nn.ConstantPad3d(padding, value) end

---@class tycho.nn.ConstantPad3d: tycho.Module
objects.nn_ConstantPad3d = {}

---see ty.conv1d. padding_mode: also "reflect", "replicate" or "circular".
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer?, groups: integer?, bias: boolean?, padding_mode: string?} # as of ty.conv1d
---@return tycho.nn.Conv1d # [batch, inputs, n] to [batch, outputs, m]
function nn.Conv1d(inputs, outputs, kernel, opts) end

---@class tycho.nn.Conv1d: tycho.Module
objects.nn_Conv1d = {}

---sizes are a number or {rows, columns}; see ty.conv2d. padding_mode: also "reflect",
---"replicate" or "circular".
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer|integer[] # rows and columns
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?, bias: boolean?, padding_mode: string?} # as of ty.conv2d
---@return tycho.nn.Conv2d # [batch, inputs, h, w] to [batch, outputs, h2, w2]
function nn.Conv2d(inputs, outputs, kernel, opts) end

---@class tycho.nn.Conv2d: tycho.Module
objects.nn_Conv2d = {}

---sizes are a number or {planes, rows, columns}; see ty.conv3d. padding_mode: also
---"reflect", "replicate" or "circular".
---Raises where channels, groups or bias do not fit the weight, or the kernel does not fit into the padded input.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer|integer[] # planes, rows and columns
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|"same"|"valid"|nil, dilation: integer|integer[]|nil, groups: integer?, bias: boolean?, padding_mode: string?} # as of ty.conv3d
---@return tycho.nn.Conv3d # [batch, inputs, d, h, w] to [batch, outputs, d2, h2, w2]
function nn.Conv3d(inputs, outputs, kernel, opts) end

---@class tycho.nn.Conv3d: tycho.Module
objects.nn_Conv3d = {}

---see ty.conv_transpose1d.
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer
---@param opts? {stride: integer?, padding: integer?, output_padding: integer?, dilation: integer?, groups: integer?, bias: boolean?} # as of ty.conv_transpose1d
---@return tycho.nn.ConvTranspose1d # [batch, inputs, n] to [batch, outputs, m]
function nn.ConvTranspose1d(inputs, outputs, kernel, opts) end

---@class tycho.nn.ConvTranspose1d: tycho.Module
objects.nn_ConvTranspose1d = {}

---sizes are a number or {rows, columns}; see ty.conv_transpose2d.
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer|integer[] # rows and columns
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?, bias: boolean?} # as of ty.conv_transpose2d
---@return tycho.nn.ConvTranspose2d # [batch, inputs, h, w] to [batch, outputs, h2, w2]
function nn.ConvTranspose2d(inputs, outputs, kernel, opts) end

---@class tycho.nn.ConvTranspose2d: tycho.Module
objects.nn_ConvTranspose2d = {}

---sizes are a number or {planes, rows, columns}; see ty.conv_transpose3d.
---Raises where channels, groups or bias do not fit the weight, or nothing is left of the result.
---@param inputs integer # channels of the input
---@param outputs integer # channels of the result
---@param kernel integer|integer[] # planes, rows and columns
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, output_padding: integer|integer[]|nil, dilation: integer|integer[]|nil, groups: integer?, bias: boolean?} # as of ty.conv_transpose3d
---@return tycho.nn.ConvTranspose3d # [batch, inputs, d, h, w] to [batch, outputs, d2, h2, w2]
function nn.ConvTranspose3d(inputs, outputs, kernel, opts) end

---@class tycho.nn.ConvTranspose3d: tycho.Module
objects.nn_ConvTranspose3d = {}

---loss(a, b, y), see ty.cosine_embedding_loss.
---Raises where sizes do not broadcast, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.nn.CosineEmbeddingLoss
function nn.CosineEmbeddingLoss(opts) end

---@class tycho.nn.CosineEmbeddingLoss: tycho.Module
objects.nn_CosineEmbeddingLoss = {}

---m(a, b), see ty.cosine_similarity.
---Raises where sizes do not broadcast, or dim is out of range.
---@param opts? {dim: integer?, eps: number?}
---@return tycho.nn.CosineSimilarity # the broadcast sizes of both inputs without the dim
function nn.CosineSimilarity(opts) end

---@class tycho.nn.CosineSimilarity: tycho.Module
objects.nn_CosineSimilarity = {}

---see
---ty.cross_entropy.
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where probabilities have other sizes than x, or weights are not one for each class.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, label_smoothing: number?, weight: tycho.Tensor?}
---@return tycho.nn.CrossEntropyLoss
function nn.CrossEntropyLoss(opts) end

---@class tycho.nn.CrossEntropyLoss: tycho.Module
objects.nn_CrossEntropyLoss = {}

---zeroes elements by chance p when training.
---Raises where p lies outside of 0 to 1.
---@param p? number
---@return tycho.nn.Dropout # the sizes of the input
function nn.Dropout(p) end

---@class tycho.nn.Dropout: tycho.Module
objects.nn_Dropout = {}

---zeroes whole channels by chance p when training. Tompson and others 2014,
---arXiv:1411.4280.
---Raises where p lies outside of 0 to 1, or the input has other dims.
---@param p? number
---@return tycho.nn.Dropout1d # [batch, channels, length] or without the batch, to the same
function nn.Dropout1d(p) end

---@class tycho.nn.Dropout1d: tycho.Module
objects.nn_Dropout1d = {}

---zeroes whole channels by chance p when training. Tompson and others 2014,
---arXiv:1411.4280.
---Raises where p lies outside of 0 to 1, or the input has other dims.
---@param p? number
---@return tycho.nn.Dropout2d # [batch, channels, height, width] or without the batch, to the same
function nn.Dropout2d(p) end

---@class tycho.nn.Dropout2d: tycho.Module
objects.nn_Dropout2d = {}

---zeroes whole channels by chance p when training. Tompson and others 2014,
---arXiv:1411.4280.
---Raises where p lies outside of 0 to 1, or the input has other dims.
---@param p? number
---@return tycho.nn.Dropout3d # [batch, channels, depth, height, width] or without the batch, to the same
function nn.Dropout3d(p) end

---@class tycho.nn.Dropout3d: tycho.Module
objects.nn_Dropout3d = {}

---see ty.elu.
---Raises where x is not floating.
---@param alpha? number # 1
---@return tycho.nn.ELU
function nn.ELU(alpha) end

---@class tycho.nn.ELU: tycho.Module
objects.nn_ELU = {}

---one row of the weight for each index; indices count from 1.
---padding_idx: an index whose row begins as zeros and gets no gradient.
---Raises where a count is not whole, or an index is no integer or out of range.
---@param entries integer
---@param features integer
---@param opts? {padding_idx: integer?}
---@return tycho.nn.Embedding # integers [...] to [..., features]
function nn.Embedding(entries, features, opts) end

---@class tycho.nn.Embedding: tycho.Module
objects.nn_Embedding = {}

---Integers of any shape [...] to [..., features].
---@param index tycho.Tensor
---@return tycho.Tensor
function objects.nn_Embedding:forward(index) end

---the mean, sum or largest of the rows of the weight that a
---bag of indices names; indices count from 1. m(index [bags, length]), or m(index [n], offsets [bags]): bag i
---begins at offsets[i], the first at 1. {weights = w}, of the sizes of index, multiplies the rows where mode is
---"sum".
---Raises where a count is not whole, the mode is not known, or an index is no integer or out of range.
---@param entries integer
---@param features integer
---@param opts? {mode: "mean"|"sum"|"max"|nil}
---@return tycho.nn.EmbeddingBag # integers [bags, length] to [bags, features]; an empty bag gives zeros
function nn.EmbeddingBag(entries, features, opts) end

---@class tycho.nn.EmbeddingBag: tycho.Module
objects.nn_EmbeddingBag = {}

---integers [bags, length] or [n] with offsets to [bags, features].
---@param index tycho.Tensor
---@param offsets? tycho.Tensor|table # integers [bags]; or the options
---@param opts? {weights: tycho.Tensor?}
---@return tycho.Tensor
function objects.nn_EmbeddingBag:forward(index, offsets, opts) end

---those dims as one.
---Raises where a dim of the input is out of range.
---@param first? integer # 2: the batch stays
---@param last? integer # the last
---@return tycho.nn.Flatten # [batch, ...] to [batch, the product of the rest]
function nn.Flatten(first, last) end

---@class tycho.nn.Flatten: tycho.Module
objects.nn_Flatten = {}

---columns as windows of an image, which are added
---up where they overlap: the transpose of nn.Unfold.
---Raises where the input has not so many columns, or an option is out of range.
---@param size integer|integer[] # height and width of the image
---@param kernel integer|integer[] # rows and columns
---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
---@return tycho.nn.Fold # [batch, channels rows columns, blocks] to [batch, channels, h, w], or without the batch
function nn.Fold(size, kernel, opts) end

---@class tycho.nn.Fold: tycho.Module
objects.nn_Fold = {}

---see ty.gelu.
---Raises where x is not floating, or for another form.
---@param approximate? "none"|"tanh" # "none"
---@return tycho.nn.GELU # the sizes of the input
function nn.GELU(approximate) end

---@class tycho.nn.GELU: tycho.Module
objects.nn_GELU = {}

---see ty.glu.
---Raises where x is not floating, or the dim is out of range or of an odd size.
---@param dim? integer # the last
---@return tycho.nn.GLU
function nn.GLU(dim) end

---@class tycho.nn.GLU: tycho.Module
objects.nn_GLU = {}

---h' = (1 - z) * n + z * h, n = tanh(x + r * (h wh + bh)). Cho and others 2014, arXiv:1406.1078.
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?} # dropout: between layers
---@return tycho.nn.GRU # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions, batch, hidden]
function nn.GRU(inputs, hidden, opts) end

---@class tycho.nn.GRU: tycho.Module
objects.nn_GRU = {}

---one step of nn.GRU, h = m(x, h).
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {bias: boolean?}
---@return tycho.nn.GRUCell # [batch, inputs] and [batch, hidden] (zeros by default) to [batch, hidden]
function nn.GRUCell(inputs, hidden, opts) end

---@class tycho.nn.GRUCell: tycho.Module
objects.nn_GRUCell = {}

---loss(x, target, var), see
---ty.gaussian_nll_loss.
---Raises where sizes do not broadcast, eps is not above 0, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, full: boolean?, eps: number?}
---@return tycho.nn.GaussianNLLLoss
function nn.GaussianNLLLoss(opts) end

---@class tycho.nn.GaussianNLLLoss: tycho.Module
objects.nn_GaussianNLLLoss = {}

---over groups of channels of each sample.
---Wu, He 2018, arXiv:1803.08494.
---Raises where channels do not divide into groups, or the input has other ones.
---@param groups integer
---@param channels integer
---@param opts? {eps: number?, affine: boolean?}
---@return tycho.nn.GroupNorm # the sizes of the input
function nn.GroupNorm(groups, channels, opts) end

---@class tycho.nn.GroupNorm: tycho.Module
objects.nn_GroupNorm = {}

---[batch, channels, ...] to the same shape.
---Raises where x has other channels.
---@param x tycho.Tensor # [batch, channels, ...]
---@return tycho.Tensor # the sizes of x
function objects.nn_GroupNorm:forward(x) end

---see ty.hardshrink.
---Raises where x is not floating.
---@param lambda? number # 0.5
---@return tycho.nn.Hardshrink
function nn.Hardshrink(lambda) end

---@class tycho.nn.Hardshrink: tycho.Module
objects.nn_Hardshrink = {}

---relu6(x + 3) / 6, see ty.hardsigmoid.
---Raises where x is not floating.
---@return tycho.nn.Hardsigmoid
function nn.Hardsigmoid() end

---@class tycho.nn.Hardsigmoid: tycho.Module
objects.nn_Hardsigmoid = {}

---x * relu6(x + 3) / 6, see ty.hardswish.
---Raises where x is not floating.
---@return tycho.nn.Hardswish
function nn.Hardswish() end

---@class tycho.nn.Hardswish: tycho.Module
objects.nn_Hardswish = {}

---x within low..high, see ty.hardtanh.
---Raises where x is not floating, or low lies above high.
---@param low? number # -1
---@param high? number # 1
---@return tycho.nn.Hardtanh
function nn.Hardtanh(low, high) end

---@class tycho.nn.Hardtanh: tycho.Module
objects.nn_Hardtanh = {}

---see ty.hinge_embedding_loss.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 1
---@return tycho.nn.HingeEmbeddingLoss
function nn.HingeEmbeddingLoss(opts) end

---@class tycho.nn.HingeEmbeddingLoss: tycho.Module
objects.nn_HingeEmbeddingLoss = {}

---see ty.huber_loss.
---Raises where sizes do not fit each other, delta is not above 0, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, delta: number?} # delta: 1
---@return tycho.nn.HuberLoss
function nn.HuberLoss(opts) end

---@class tycho.nn.HuberLoss: tycho.Module
objects.nn_HuberLoss = {}

---gives what it is given.
---Raises never.
---@return tycho.nn.Identity # the input itself
function nn.Identity() end

---@class tycho.nn.Identity: tycho.Module
objects.nn_Identity = {}

---each channel of each
---sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
---Raises where the input has other sizes, or one value a channel.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.InstanceNorm1d # [batch, channels, length] or without the batch, to the same
function nn.InstanceNorm1d(channels, opts) end

---@class tycho.nn.InstanceNorm1d: tycho.Module
objects.nn_InstanceNorm1d = {}

---each channel of each
---sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
---Raises where the input has other sizes, or one value a channel.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.InstanceNorm2d # [batch, channels, height, width] or without the batch, to the same
function nn.InstanceNorm2d(channels, opts) end

---@class tycho.nn.InstanceNorm2d: tycho.Module
objects.nn_InstanceNorm2d = {}

---each channel of each
---sample to mean 0 and variance 1 over its places. Ulyanov and others 2016, arXiv:1607.08022.
---Raises where the input has other sizes, or one value a channel.
---@param channels integer
---@param opts? {eps: number?, momentum: number?, affine: boolean?, track: boolean?} # track: keep running means
---@return tycho.nn.InstanceNorm3d # [batch, channels, depth, height, width] or without the batch, to the same
function nn.InstanceNorm3d(channels, opts) end

---@class tycho.nn.InstanceNorm3d: tycho.Module
objects.nn_InstanceNorm3d = {}

---see ty.kl_div.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_target: boolean?}
---@return tycho.nn.KLDivLoss
function nn.KLDivLoss(opts) end

---@class tycho.nn.KLDivLoss: tycho.Module
objects.nn_KLDivLoss = {}

---see ty.l1_loss.
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.nn.L1Loss
function nn.L1Loss(opts) end

---@class tycho.nn.L1Loss: tycho.Module
objects.nn_L1Loss = {}

---see ty.lp_pool1d.
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param p number
---@param kernel integer
---@param opts? {stride: integer?, ceil_mode: boolean?}
---@return tycho.nn.LPPool1d
function nn.LPPool1d(p, kernel, opts) end

---@class tycho.nn.LPPool1d: tycho.Module
objects.nn_LPPool1d = {}

---see ty.lp_pool2d.
---Raises where x has other dims, p is 0, a window does not fit, or an option is out of range.
---@param p number
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, ceil_mode: boolean?}
---@return tycho.nn.LPPool2d
function nn.LPPool2d(p, kernel, opts) end

---@class tycho.nn.LPPool2d: tycho.Module
objects.nn_LPPool2d = {}

---c' = f * c + i * g, h' = o * tanh(c'). Hochreiter, Schmidhuber 1997.
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?} # dropout: between layers
---@return tycho.nn.LSTM # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions, batch, hidden], twice: h and c
function nn.LSTM(inputs, hidden, opts) end

---@class tycho.nn.LSTM: tycho.Module
objects.nn_LSTM = {}

---one step of nn.LSTM, h, c = m(x, h, c).
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {bias: boolean?}
---@return tycho.nn.LSTMCell # [batch, inputs] and two of [batch, hidden] (zeros by default) to two of [batch, hidden]
function nn.LSTMCell(inputs, hidden, opts) end

---@class tycho.nn.LSTMCell: tycho.Module
objects.nn_LSTMCell = {}

---over the last dims, which have these sizes.
---Ba, Kiros, Hinton 2016, arXiv:1607.06450.
---Raises where the input does not end with the sizes.
---@param sizes integer|integer[]
---@param opts? {eps: number?, affine: boolean?, bias: boolean?}
---@return tycho.nn.LayerNorm # the sizes of the input
function nn.LayerNorm(sizes, opts) end

---@class tycho.nn.LayerNorm: tycho.Module
objects.nn_LayerNorm = {}

---see ty.leaky_relu.
---Raises where x is not floating.
---@param slope? number # 0.01
---@return tycho.nn.LeakyReLU
function nn.LeakyReLU(slope) end

---@class tycho.nn.LeakyReLU: tycho.Module
objects.nn_LeakyReLU = {}

---x weight + bias over the last dim; weight [inputs, outputs].
---Raises where a count is not whole, or the input does not end with `inputs`.
---@param inputs integer
---@param outputs integer
---@param opts? {bias: boolean?}
---@return tycho.nn.Linear # [..., inputs] to [..., outputs]
function nn.Linear(inputs, outputs, opts) end

---@class tycho.nn.Linear: tycho.Module
objects.nn_Linear = {}

---[..., inputs] to [..., outputs].
---@param x tycho.Tensor
---@return tycho.Tensor
function objects.nn_Linear:forward(x) end

---x / (k + alpha * mean of x^2 over `size`
---channels around each)^beta. Krizhevsky and others 2012.
---Raises where the size is not whole, or the input has no channels.
---@param size integer
---@param opts? {alpha: number?, beta: number?, k: number?}
---@return tycho.nn.LocalResponseNorm # [batch, channels, ...] to the same
function nn.LocalResponseNorm(size, opts) end

---@class tycho.nn.LocalResponseNorm: tycho.Module
objects.nn_LocalResponseNorm = {}

---log(sigmoid(x)), see ty.logsigmoid.
---Raises where x is not floating.
---@return tycho.nn.LogSigmoid
function nn.LogSigmoid() end

---@class tycho.nn.LogSigmoid: tycho.Module
objects.nn_LogSigmoid = {}

---see ty.log_softmax.
---Raises where x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.nn.LogSoftmax
function nn.LogSoftmax(dim) end

---@class tycho.nn.LogSoftmax: tycho.Module
objects.nn_LogSoftmax = {}

---see ty.mse_loss.
---Raises where sizes differ so that each would be repeated to fit the other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.nn.MSELoss
function nn.MSELoss(opts) end

---@class tycho.nn.MSELoss: tycho.Module
objects.nn_MSELoss = {}

---loss(a, b, y), see ty.margin_ranking_loss.
---Raises where sizes do not broadcast, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?} # margin: 0
---@return tycho.nn.MarginRankingLoss
function nn.MarginRankingLoss(opts) end

---@class tycho.nn.MarginRankingLoss: tycho.Module
objects.nn_MarginRankingLoss = {}

---see ty.max_pool1d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.nn.MaxPool1d
function nn.MaxPool1d(kernel, opts) end

---@class tycho.nn.MaxPool1d: tycho.Module
objects.nn_MaxPool1d = {}

---see ty.max_pool2d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.nn.MaxPool2d
function nn.MaxPool2d(kernel, opts) end

---@class tycho.nn.MaxPool2d: tycho.Module
objects.nn_MaxPool2d = {}

---see ty.max_pool3d.
---Raises where x has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil, dilation: integer|integer[]|nil, ceil_mode: boolean?, return_indices: boolean?}
---@return tycho.nn.MaxPool3d
function nn.MaxPool3d(kernel, opts) end

---@class tycho.nn.MaxPool3d: tycho.Module
objects.nn_MaxPool3d = {}

---m(x, places, output_size), see ty.max_unpool1d.
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param kernel integer
---@param opts? {stride: integer?, padding: integer?} # as of ty.max_pool1d
---@return tycho.nn.MaxUnpool1d
function nn.MaxUnpool1d(kernel, opts) end

---@class tycho.nn.MaxUnpool1d: tycho.Module
objects.nn_MaxUnpool1d = {}

---m(x, places, output_size), see ty.max_unpool2d.
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil} # as of ty.max_pool2d
---@return tycho.nn.MaxUnpool2d
function nn.MaxUnpool2d(kernel, opts) end

---@class tycho.nn.MaxUnpool2d: tycho.Module
objects.nn_MaxUnpool2d = {}

---m(x, places, output_size), see ty.max_unpool3d.
---Raises where places have other sizes than x or lie outside of the result, or the size is not one that is pooled so.
---@param kernel integer|integer[]
---@param opts? {stride: integer|integer[]|nil, padding: integer|integer[]|nil} # as of ty.max_pool3d
---@return tycho.nn.MaxUnpool3d
function nn.MaxUnpool3d(kernel, opts) end

---@class tycho.nn.MaxUnpool3d: tycho.Module
objects.nn_MaxUnpool3d = {}

---x * tanh(softplus(x)), see ty.mish.
---Raises where x is not floating.
---@return tycho.nn.Mish
function nn.Mish() end

---@class tycho.nn.Mish: tycho.Module
objects.nn_Mish = {}

---a module without a class of its own.
---Raises where the argument is no table.
---@param fields table<string, any> # parts, settings, and the function forward
---@return tycho.Module # what forward gives
function nn.Module(fields) end

---@class tycho.Module
---@field training boolean true at first; train() and eval() set it
---@overload fun(...): tycho.Tensor
objects.nn_Module = {}

---A module as a part: m.name. Gives the module.
---Raises where the name has a dot or is a method's, or part is no module.
---@param name string
---@param part tycho.Module
---@return tycho.Module # the module itself
function objects.nn_Module:add_module(name, part) end

---Calls fn with each module, inner ones first. Gives the module.
---Raises where fn is no function.
---@param fn fun(m: tycho.Module)
---@return tycho.Module # the module itself
function objects.nn_Module:apply(fn) end

---The same as to("bf16"). Gives the module.
---Raises never.
---@return tycho.Module # the module itself
function objects.nn_Module:bfloat16() end

---The tensors that are no parameters, such as running means.
---Raises where it is called on what is no module.
---@return tycho.Tensor[] # the tensors themselves
function objects.nn_Module:buffers() end

---The modules right in it.
---Raises where it is called on what is no module.
---@return tycho.Module[]
function objects.nn_Module:children() end

---The same as to("cpu"). Gives the module.
---Raises never.
---@return tycho.Module # the module itself
function objects.nn_Module:cpu() end

---The same as to("cuda:0"), or another card's number. Gives the module; nil and a message where there is none.
---Raises where the number is none.
---@param card? integer # 0: the driver's ordinal
---@return tycho.Module? m
---@return string? message # the module itself
function objects.nn_Module:cuda(card) end

---What a class adds to its name in print, such as "in = 2, out = 3".
---Raises never.
---@param _ tycho.Module
---@return string
function objects.nn_Module.describe(_) end

---The same as to("f64"). Gives the module.
---Raises never.
---@return tycho.Module # the module itself
function objects.nn_Module:double() end

---train(false).
---Raises where it is called on what is no module.
---@return tycho.Module # the module itself
function objects.nn_Module:eval() end

---The same as to("f32"). Gives the module.
---Raises never.
---@return tycho.Module # the module itself
function objects.nn_Module:float() end

---What the module computes: each class has its own. Calling the module calls it.
---Raises where the class has none.
---@return any # what the class says
function objects.nn_Module:forward() end

---The buffer at a path of names joined by dots.
---Raises where there is none.
---@param path string # such as "norm.running_mean"
---@return tycho.Tensor # the buffer itself
function objects.nn_Module:get_buffer(path) end

---The parameter at a path of names joined by dots.
---Raises where there is none.
---@param path string # such as "layers.1.weight"
---@return tycho.Tensor # the parameter itself
function objects.nn_Module:get_parameter(path) end

---The module at a path of names joined by dots; "" is the module itself.
---Raises where there is none.
---@param path string # such as "layers.1"
---@return tycho.Module # the part
function objects.nn_Module:get_submodule(path) end

---The same as to("f16"). Gives the module.
---Raises never.
---@return tycho.Module # the module itself
function objects.nn_Module:half() end

---Writes the tensors of a state_dict into the module's own, cast to their dtypes. Nothing is written unless all
---fits. Options: from = "torch": names count lists from 0, and layouts that differ are turned (weights of linear
---and recurrent layers are [in, out] here); strict = true: missing and unexpected names raise.
---Raises where names or sizes do not fit.
---@param sd table<string, tycho.Tensor>
---@param opts? {from: "torch"|nil, strict: boolean?}
---@return string[] missing
---@return string[] unexpected
function objects.nn_Module:load_state_dict(sd, opts) end

---The module itself and all modules in it.
---Raises where it is called on what is no module.
---@return tycho.Module[]
function objects.nn_Module:modules() end

---for name, b in m:named_buffers() do ... end
---Raises where it is called on what is no module.
---@return fun(): string, tycho.Tensor # path and tensor: "1.running_mean"
function objects.nn_Module:named_buffers() end

---for name, part in m:named_children() do ... end
---Raises where it is called on what is no module.
---@return fun(): string, tycho.Module
function objects.nn_Module:named_children() end

---for name, part in m:named_modules() do ... end; the module itself is named "".
---Raises where it is called on what is no module.
---@return fun(): string, tycho.Module
function objects.nn_Module:named_modules() end

---for name, p in m:named_parameters() do ... end
---Raises where it is called on what is no module.
---@return fun(): string, tycho.Tensor # path and tensor: "1.weight"
function objects.nn_Module:named_parameters() end

---How many numbers its parameters hold.
---Raises where it is called on what is no module.
---@return integer
function objects.nn_Module:num_parameters() end

---The tensors that require gradients, in the order of the walk.
---Raises where it is called on what is no module.
---@return tycho.Tensor[] # the tensors themselves, each once
function objects.nn_Module:parameters() end

---A tensor as a part that is no parameter and never becomes one: m.name. Where persistent is false, states do not
---have it. Gives the module.
---Raises where the name has a dot or is a method's, or t is no tensor.
---@param name string
---@param t? tycho.Tensor # nil: it is taken away
---@param persistent? boolean # true
---@return tycho.Module # the module itself
function objects.nn_Module:register_buffer(name, t, persistent) end

---Calls fn(m, inputs, output) after the module was called: inputs are the list of its arguments, output is its
---result, or the list of them where there are several. What fn gives replaces the output, nil does not. Gives a
---handle.
---Raises where fn is no function, and in the call where it gives another number of results.
---@param fn fun(m: tycho.Module, inputs: any[], output: any): any
---@return tycho.HookHandle
function objects.nn_Module:register_forward_hook(fn) end

---Calls fn(m, ...) before the module is called with these arguments. What fn gives replaces all of them, unless it
---gives nothing or nil first. Gives a handle; handle:remove() takes it off.
---Raises where fn is no function.
---@param fn fun(m: tycho.Module, ...): ...
---@return tycho.HookHandle
function objects.nn_Module:register_forward_pre_hook(fn) end

---Calls fn(m, grad_inputs, grad_outputs) in the backward pass, when the gradients of the module's inputs are
---complete: lists of the gradients of those arguments and results that require grad, in order. What fn gives, such
---a list or one tensor, replaces grad_inputs; nil does not. Where no input requires grad, grad_inputs is empty.
---Gives a handle.
---Raises where fn is no function, and in the backward pass where it gives another number of gradients.
---@param fn fun(m: tycho.Module, grad_inputs: tycho.Tensor[], grad_outputs: tycho.Tensor[]): any
---@return tycho.HookHandle
function objects.nn_Module:register_full_backward_hook(fn) end

---A tensor as a parameter: m.name, which requires gradients. Gives the module.
---Raises where the name has a dot or is a method's, or t is no float tensor.
---@param name string
---@param t? tycho.Tensor # nil: it is taken away
---@return tycho.Module # the module itself
function objects.nn_Module:register_parameter(name, t) end

---Whether its parameters, or what could be some, require gradients. Frozen ones count as buffers. Gives the
---module.
---Raises where the argument is no boolean.
---@param on? boolean # true
---@return tycho.Module # the module itself
function objects.nn_Module:requires_grad_(on) end

---Parameters and buffers by name: the tensors themselves, without gradients, not copies.
---Raises where two parts have the same name.
---@return table<string, tycho.Tensor>
function objects.nn_Module:state_dict() end

---What it is made of, and what one call costs: nn.summary(self, inputs ...).
---Raises what its forward raises.
---@param ... any # inputs of its forward
---@return tycho.Summary
function objects.nn_Module:summary(...) end

---Its floats in another dtype, or all on another device. The tensors are new ones, so optimisers are made
---afterwards. Gives the module.
---Raises where it is no dtype and no device.
---@param where string # a dtype or a device
---@return tycho.Module? m
---@return string? message # the module itself; nil and a message where the device is not there
function objects.nn_Module:to(where) end

---Whether dropout, batch norms and their like behave as in training. Gives the module.
---Raises where the argument is no boolean.
---@param on? boolean # true
---@return tycho.Module # the module itself
function objects.nn_Module:train(on) end

---Forgets the gradients of its parameters.
---Raises where it is called on what is no module.
function objects.nn_Module:zero_grad() end

---modules by name; calling them is the owner's doing. d.name or d[name] is a
---part, d:update(name, module) adds or replaces one, d:keys() lists the names in order, for name, m in d:items()
---goes through them.
---Raises where a part is no module, or its name is that of a method.
---@param parts? table<string, tycho.Module>
---@return tycho.nn.ModuleDict # d[name] is that part
function nn.ModuleDict(parts) end

---@class tycho.nn.ModuleDict: tycho.Module
objects.nn_ModuleDict = {}

---a list of modules, list[1] to list[#list]; calling them is the owner's doing.
---Raises where a part is no module.
---@param ... tycho.Module # the parts, or one list of them
---@return tycho.nn.ModuleList # list[i] is part i
function nn.ModuleList(...) end

---@class tycho.nn.ModuleList: tycho.Module
objects.nn_ModuleList = {}

---Adds a part at the end. Gives the module.
---Raises where the part is no module.
---@param part tycho.Module # a further part
---@return tycho.nn.ModuleList # the module itself
function objects.nn_ModuleList:append(part) end

---each head attends with its share of the features. in_proj_weight [width, 3 width] makes queries, keys
---and values. Vaswani and others 2017, arXiv:1706.03762. kv_heads: so many heads of keys and values, each for
---heads / kv_heads of the queries (Ainslie and others 2023, arXiv:2305.13245); in_proj_weight has as many columns
---fewer.
---Raises where the width does not divide into the heads, these not into kv_heads, or features a head are odd with rotary.
---@param width integer
---@param heads integer
---@param opts? {bias: boolean?, dropout: number?, causal: boolean?, rotary: boolean|number|nil, kv_heads: integer?} # rotary: or its base
---@return tycho.nn.MultiHeadAttention # [batch, time, width] to [batch, time, width]
function nn.MultiHeadAttention(width, heads, opts) end

---@class tycho.nn.MultiHeadAttention: tycho.Module
objects.nn_MultiHeadAttention = {}

---Room for the keys and values of `positions` positions.
---Raises where a number is not whole.
---@param batch integer
---@param positions integer
---@return table # cache {k, v: [batch, heads, positions, features], length: how many are there}
function objects.nn_MultiHeadAttention:cache(batch, positions) end

---Attention of q over k and v; of x to itself when k and v are left out. Options: mask, of bools (true: seen) or
---floats (added), which broadcasts to [batch, heads, queries, keys]; causal, the module's own by default; cache.
---Raises where an input is not [batch, time, width], the mask does not broadcast, or the cache is full.
---@param q tycho.Tensor # [batch, time, width]
---@param k? tycho.Tensor|table # [batch, keys, width]; or the options
---@param v? tycho.Tensor
---@param opts? {mask: tycho.Tensor?, causal: boolean?, cache: table?}
---@return tycho.Tensor # [batch, time, width]
function objects.nn_MultiHeadAttention:forward(q, k, v, opts) end

---see ty.multilabel_margin_loss.
---Raises where labels have not the sizes of x, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.nn.MultiLabelMarginLoss
function nn.MultiLabelMarginLoss(opts) end

---@class tycho.nn.MultiLabelMarginLoss: tycho.Module
objects.nn_MultiLabelMarginLoss = {}

---see ty.multilabel_soft_margin_loss.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.nn.MultiLabelSoftMarginLoss
function nn.MultiLabelSoftMarginLoss(opts) end

---@class tycho.nn.MultiLabelSoftMarginLoss: tycho.Module
objects.nn_MultiLabelSoftMarginLoss = {}

---see ty.multi_margin_loss.
---Raises where labels do not fit x or lie outside of its classes, p is not 1 or 2, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, p: 1|2|nil, margin: number?, weight: tycho.Tensor?} # weight: [classes]
---@return tycho.nn.MultiMarginLoss
function nn.MultiMarginLoss(opts) end

---@class tycho.nn.MultiMarginLoss: tycho.Module
objects.nn_MultiMarginLoss = {}

---each head attends with its share of the features. Vaswani and others 2017, arXiv:1706.03762. Its call is
---m(query, key, value, {key_padding_mask, attn_mask, need_weights = true, average_attn_weights = true,
---is_causal = false}), and gives the result and the weights of the keys [batch, queries, keys]; with
---need_weights = false no weights, which is faster. These masks are PyTorch's: where one of bools is true, a key is
---not seen; floats are added.
---Raises where the width does not divide into the heads, or an option is not known or out of range.
---@param width integer
---@param heads integer
---@param opts? {dropout: number?, bias: boolean?, kdim: integer?, vdim: integer?, batch_first: boolean?} # kdim, vdim: features of keys and values
---@return tycho.nn.MultiheadAttention # [batch, queries, width], [batch, keys, kdim], [batch, keys, vdim] to [batch, queries, width]
function nn.MultiheadAttention(width, heads, opts) end

---@class tycho.nn.MultiheadAttention: tycho.Module
objects.nn_MultiheadAttention = {}

---Attention of the query over the keys. Options: key_padding_mask [batch, keys] and attn_mask [queries, keys] or
---[batch heads, queries, keys], of bools (true: not seen) or floats (added); need_weights = true;
---average_attn_weights = true, over the heads; is_causal = false.
---Raises where an input or a mask has other sizes.
---@param query tycho.Tensor # [batch, queries, width]
---@param key? tycho.Tensor # [batch, keys, kdim], the query
---@param value? tycho.Tensor # [batch, keys, vdim], the key
---@param opts? {key_padding_mask: tycho.Tensor?, attn_mask: tycho.Tensor?, need_weights: boolean?, average_attn_weights: boolean?, is_causal: boolean?}
---@return tycho.Tensor # [batch, queries, width]
---@return tycho.Tensor? # weights [batch, queries, keys], or [batch, heads, queries, keys] of each head
function objects.nn_MultiheadAttention:forward(query, key, value, opts) end

---see ty.nll_loss.
---Raises where labels are no integers, do not have the sizes of x without the dim of classes, or lie outside of 1 to the number of classes; where weights are not one for each class.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, dim: integer?, ignore_index: integer?, weight: tycho.Tensor?}
---@return tycho.nn.NLLLoss
function nn.NLLLoss(opts) end

---@class tycho.nn.NLLLoss: tycho.Module
objects.nn_NLLLoss = {}

---x above zero, else weight * x; see ty.prelu.
---Raises where the count is not whole, or the input has other channels.
---@param channels? integer # 1: one weight for all
---@param start? number # what weights begin with
---@return tycho.nn.PReLU # the sizes of the input
function nn.PReLU(channels, start) end

---@class tycho.nn.PReLU: tycho.Module
objects.nn_PReLU = {}

---m(a, b), see ty.pairwise_distance.
---Raises where sizes do not broadcast.
---@param opts? {p: number?, eps: number?, keepdim: boolean?}
---@return tycho.nn.PairwiseDistance # the broadcast sizes of both inputs without the last dim
function nn.PairwiseDistance(opts) end

---@class tycho.nn.PairwiseDistance: tycho.Module
objects.nn_PairwiseDistance = {}

---A parameter: the tensor itself, which requires gradients from now on.
---Raises where t is neither of floats nor complex.
---@param t tycho.Tensor # floats, or complex numbers
---@return tycho.Tensor # t itself
function nn.Parameter(t) end

---parameters by name; as nn.ModuleDict. Tensors become parameters.
---Raises where a part is no float tensor, or its name is that of a method.
---@param parts? table<string, tycho.Tensor>
---@return tycho.nn.ParameterDict # d[name] is that parameter
function nn.ParameterDict(parts) end

---@class tycho.nn.ParameterDict: tycho.Module
objects.nn_ParameterDict = {}

---a list of parameters, list[1] to list[#list]. Tensors become parameters.
---Raises where an entry is no float tensor.
---@param list? tycho.Tensor[]
---@return tycho.nn.ParameterList # list[i] is parameter i
function nn.ParameterList(list) end

---@class tycho.nn.ParameterList: tycho.Module
objects.nn_ParameterList = {}

---Adds a parameter at the end. Gives the module.
---Raises where it is no float tensor.
---@param p tycho.Tensor
---@return tycho.nn.ParameterList # the module itself
function objects.nn_ParameterList:append(p) end

---channels become places, factor times as many in each of two dims. Shi and others 2016,
---arXiv:1609.05158.
---Raises where channels do not divide by the square of the factor.
---@param factor integer
---@return tycho.nn.PixelShuffle # [..., channels factor^2, h, w] to [..., channels, h factor, w factor]
function nn.PixelShuffle(factor) end

---@class tycho.nn.PixelShuffle: tycho.Module
objects.nn_PixelShuffle = {}

---the inverse of nn.PixelShuffle: places become channels.
---Raises where height or width does not divide by the factor.
---@param factor integer
---@return tycho.nn.PixelUnshuffle # [..., channels, h factor, w factor] to [..., channels factor^2, h, w]
function nn.PixelUnshuffle(factor) end

---@class tycho.nn.PixelUnshuffle: tycho.Module
objects.nn_PixelUnshuffle = {}

---see ty.poisson_nll_loss.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, log_input: boolean?, full: boolean?, eps: number?}
---@return tycho.nn.PoissonNLLLoss
function nn.PoissonNLLLoss(opts) end

---@class tycho.nn.PoissonNLLLoss: tycho.Module
objects.nn_PoissonNLLLoss = {}

---x / sqrt(mean(x^2) + eps) * weight over the last dims.
---Zhang, Sennrich 2019, arXiv:1910.07467.
---Raises where the input does not end with the sizes.
---@param sizes integer|integer[]
---@param opts? {eps: number?, affine: boolean?}
---@return tycho.nn.RMSNorm # the sizes of the input
function nn.RMSNorm(sizes, opts) end

---@class tycho.nn.RMSNorm: tycho.Module
objects.nn_RMSNorm = {}

---h' = tanh(x wi + bi + h wh + bh), or relu of it. Elman 1990.
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {layers: integer?, bias: boolean?, batch_first: boolean?, dropout: number?, bidirectional: boolean?, nonlinearity: "tanh"|"relu"|nil} # dropout: between layers
---@return tycho.nn.RNN # [batch, time, inputs] to [batch, time, hidden] and the last state [layers * directions, batch, hidden]
function nn.RNN(inputs, hidden, opts) end

---@class tycho.nn.RNN: tycho.Module
objects.nn_RNN = {}

---one step of nn.RNN, h = m(x, h).
---Raises where a count is not whole, an option is not known, or input or state has other sizes.
---@param inputs integer # features of the input
---@param hidden integer # features of the state
---@param opts? {bias: boolean?, nonlinearity: "tanh"|"relu"|nil}
---@return tycho.nn.RNNCell # [batch, inputs] and [batch, hidden] (zeros by default) to [batch, hidden]
function nn.RNNCell(inputs, hidden, opts) end

---@class tycho.nn.RNNCell: tycho.Module
objects.nn_RNNCell = {}

---x above zero, else a slope times x: of uniform random slopes when training,
---else their mean. Xu and others 2015, arXiv:1505.00853.
---Raises where low lies above high, or the input is not floating.
---@param low? number
---@param high? number
---@return tycho.nn.RReLU # the sizes of the input
function nn.RReLU(low, high) end

---@class tycho.nn.RReLU: tycho.Module
objects.nn_RReLU = {}

---max(x, 0), ty.relu as a module.
---Raises where the input is not a tensor.
---@return tycho.nn.ReLU # the sizes of the input
function nn.ReLU() end

---@class tycho.nn.ReLU: tycho.Module
objects.nn_ReLU = {}

---x within 0..6, see ty.relu6.
---Raises where x is not floating.
---@return tycho.nn.ReLU6
function nn.ReLU6() end

---@class tycho.nn.ReLU6: tycho.Module
objects.nn_ReLU6 = {}

---the places turned around at the ends, which are not repeated.
---Raises where the padding is no number and no list of 2 of less than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right}
---@return tycho.nn.ReflectionPad1d # [batch, channels, length], more of it
function nn.ReflectionPad1d(padding) end

---@class tycho.nn.ReflectionPad1d: tycho.Module
objects.nn_ReflectionPad1d = {}

---the places turned around at the ends, which are not repeated.
---Raises where the padding is no number and no list of 4 of less than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom}
---@return tycho.nn.ReflectionPad2d # [batch, channels, height, width], more of them
function nn.ReflectionPad2d(padding) end

---@class tycho.nn.ReflectionPad2d: tycho.Module
objects.nn_ReflectionPad2d = {}

---the places turned around at the ends, which are not repeated.
---Raises where the padding is no number and no list of 6 of less than there are places, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom, front, back}
---@return tycho.nn.ReflectionPad3d # [batch, channels, depth, height, width], more of them
function nn.ReflectionPad3d(padding) end

---@class tycho.nn.ReflectionPad3d: tycho.Module
objects.nn_ReflectionPad3d = {}

---the places at the ends repeated.
---Raises where the padding is no number and no list of 2, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right}
---@return tycho.nn.ReplicationPad1d # [batch, channels, length], more of it
function nn.ReplicationPad1d(padding) end

---@class tycho.nn.ReplicationPad1d: tycho.Module
objects.nn_ReplicationPad1d = {}

---the places at the ends repeated.
---Raises where the padding is no number and no list of 4, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom}
---@return tycho.nn.ReplicationPad2d # [batch, channels, height, width], more of them
function nn.ReplicationPad2d(padding) end

---@class tycho.nn.ReplicationPad2d: tycho.Module
objects.nn_ReplicationPad2d = {}

---the places at the ends repeated.
---Raises where the padding is no number and no list of 6, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom, front, back}
---@return tycho.nn.ReplicationPad3d # [batch, channels, depth, height, width], more of them
function nn.ReplicationPad3d(padding) end

---@class tycho.nn.ReplicationPad3d: tycho.Module
objects.nn_ReplicationPad3d = {}

---an elu of fixed alpha and scale, see ty.selu.
---Raises where x is not floating.
---@return tycho.nn.SELU
function nn.SELU() end

---@class tycho.nn.SELU: tycho.Module
objects.nn_SELU = {}

---each part takes what the one before it gives; functions are parts too.
---Raises where a part is neither a module nor a function.
---@param ... tycho.Module|function # the parts, or one list of them
---@return tycho.nn.Sequential # what the last part gives; m[i] is part i, #m how many
function nn.Sequential(...) end

---@class tycho.nn.Sequential: tycho.Module
objects.nn_Sequential = {}

---Adds a part at the end. Gives the module.
---Raises where the part is neither a module nor a function.
---@param part tycho.Module|function # a further part
---@return tycho.nn.Sequential # the module itself
function objects.nn_Sequential:append(part) end

---x * sigmoid(x), see ty.silu.
---Raises where x is not floating.
---@return tycho.nn.SiLU
function nn.SiLU() end

---@class tycho.nn.SiLU: tycho.Module
objects.nn_SiLU = {}

---1 / (1 + exp(-x)), see ty.sigmoid.
---Raises where an argument is neither a tensor nor a number.
---@return tycho.nn.Sigmoid
function nn.Sigmoid() end

---@class tycho.nn.Sigmoid: tycho.Module
objects.nn_Sigmoid = {}

---see ty.smooth_l1_loss.
---Raises where sizes do not fit each other, beta is negative, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, beta: number?} # beta: 1
---@return tycho.nn.SmoothL1Loss
function nn.SmoothL1Loss(opts) end

---@class tycho.nn.SmoothL1Loss: tycho.Module
objects.nn_SmoothL1Loss = {}

---see ty.soft_margin_loss.
---Raises where sizes do not fit each other, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil} # "mean"
---@return tycho.nn.SoftMarginLoss
function nn.SoftMarginLoss(opts) end

---@class tycho.nn.SoftMarginLoss: tycho.Module
objects.nn_SoftMarginLoss = {}

---see ty.softmax.
---Raises when x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.nn.Softmax
function nn.Softmax(dim) end

---@class tycho.nn.Softmax: tycho.Module
objects.nn_Softmax = {}

---the softmax over the channels of [batch, channels, height, width] or [channels, height, width].
---Raises where the input has other dims.
---@return tycho.nn.Softmax2d # the sizes of the input
function nn.Softmax2d() end

---@class tycho.nn.Softmax2d: tycho.Module
objects.nn_Softmax2d = {}

---see ty.softmin.
---Raises where x is not floating or dim is out of range.
---@param dim? integer # the last
---@return tycho.nn.Softmin
function nn.Softmin(dim) end

---@class tycho.nn.Softmin: tycho.Module
objects.nn_Softmin = {}

---see ty.softplus.
---Raises where x is not floating.
---@param beta? number # 1
---@return tycho.nn.Softplus
function nn.Softplus(beta) end

---@class tycho.nn.Softplus: tycho.Module
objects.nn_Softplus = {}

---see ty.softshrink.
---Raises where x is not floating, or lambda is negative.
---@param lambda? number # 0.5
---@return tycho.nn.Softshrink
function nn.Softshrink(lambda) end

---@class tycho.nn.Softshrink: tycho.Module
objects.nn_Softshrink = {}

---x / (1 + |x|), see ty.softsign.
---Raises where x is not floating.
---@return tycho.nn.Softsign
function nn.Softsign() end

---@class tycho.nn.Softsign: tycho.Module
objects.nn_Softsign = {}

---ty.tanh as a module.
---Raises where the input is not a tensor.
---@return tycho.nn.Tanh # the sizes of the input
function nn.Tanh() end

---@class tycho.nn.Tanh: tycho.Module
objects.nn_Tanh = {}

---x - tanh(x), see ty.tanhshrink.
---Raises where x is not floating.
---@return tycho.nn.Tanhshrink
function nn.Tanhshrink() end

---@class tycho.nn.Tanhshrink: tycho.Module
objects.nn_Tanhshrink = {}

---x above the threshold, else the value; see ty.threshold.
---Raises where x is not floating, or threshold or value is no number.
---@param threshold number
---@param value number
---@return tycho.nn.Threshold # the sizes of the input
function nn.Threshold(threshold, value) end

---@class tycho.nn.Threshold: tycho.Module
objects.nn_Threshold = {}

---an encoder of
---the source and a decoder of the target, each with a norm at its end. m(source, target, {mask, padding, causal =
---false, source_mask, source_padding, memory_mask, memory_padding}): mask, padding and causal are the target's.
---Vaswani and others 2017, arXiv:1706.03762.
---Raises where the width does not divide into the heads, an option is not known, or an input has other sizes.
---@param width integer
---@param heads integer
---@param opts? {encoder_layers: integer?, decoder_layers: integer?, inner: integer?, dropout: number?, activation: string|function|nil, layer_norm_eps: number?, batch_first: boolean?, norm_first: boolean?, bias: boolean?}
---@return tycho.nn.Transformer # [batch, source, width] and [batch, target, width] to [batch, target, width]
function nn.Transformer(width, heads, opts) end

---@class tycho.nn.Transformer: tycho.Module
objects.nn_Transformer = {}

---y = x + attention(norm(x)), y +
---linear2(gelu(linear1(norm(y)))). Norms come first (Xiong and others 2020, arXiv:2002.04745). norm = "rms":
---RMSNorm.
---Raises where the width does not divide into the heads, or norm or activation is not known.
---@param width integer
---@param heads integer
---@param opts? {inner: integer?, dropout: number?, causal: boolean?, rotary: boolean|number|nil, norm: "layer"|"rms"|nil, activation: string?, bias: boolean?, eps: number?}
---@return tycho.nn.TransformerBlock # [batch, time, width] to [batch, time, width]
function nn.TransformerBlock(width, heads, opts) end

---@class tycho.nn.TransformerBlock: tycho.Module
objects.nn_TransformerBlock = {}

---Room for the keys and values of `positions` positions.
---Raises where a number is not whole.
---@param batch integer
---@param positions integer
---@return table # what the option cache of the call takes
function objects.nn_TransformerBlock:cache(batch, positions) end

---[batch, time, width] to the same shape. Options: mask, causal, cache, as of the attention.
---Raises where the input is not [batch, time, width].
---@param x tycho.Tensor
---@param opts? {mask: tycho.Tensor?, causal: boolean?, cache: table?}
---@return tycho.Tensor # [batch, time, width]
function objects.nn_TransformerBlock:forward(x, opts) end

---so many copies of a layer, one after the other, then the norm.
---m(x, memory, {mask, padding, causal, memory_mask, memory_padding}) as of the layer.
---Raises where layer or norm is no module, or the count is not whole.
---@param layer tycho.Module # such as nn.TransformerDecoderLayer
---@param layers integer
---@param opts? {norm: tycho.Module?}
---@return tycho.nn.TransformerDecoder # [batch, time, width] and [batch, memory, width] to [batch, time, width]
function nn.TransformerDecoder(layer, layers, opts) end

---@class tycho.nn.TransformerDecoder: tycho.Module
objects.nn_TransformerDecoder = {}

---attention of the sequence to
---itself, to the memory that an encoder gives, then two linear layers; each is added to its input and normalised.
---m(x, memory, {mask, padding, causal = false, memory_mask, memory_padding}): masks [queries, keys], paddings
---[batch, keys].
---Raises where the width does not divide into the heads, an option is not known, or an input has other sizes.
---@param width integer
---@param heads integer
---@param opts? {inner: integer?, dropout: number?, activation: string|function|nil, layer_norm_eps: number?, batch_first: boolean?, norm_first: boolean?, bias: boolean?, kv_heads: integer?}
---@return tycho.nn.TransformerDecoderLayer # [batch, time, width] and [batch, memory, width] to [batch, time, width]
function nn.TransformerDecoderLayer(width, heads, opts) end

---@class tycho.nn.TransformerDecoderLayer: tycho.Module
objects.nn_TransformerDecoderLayer = {}

---so many copies of a layer, one after the other, then the norm.
---m(x, {mask, padding, causal}) as of the layer.
---Raises where layer or norm is no module, or the count is not whole.
---@param layer tycho.Module # such as nn.TransformerEncoderLayer
---@param layers integer
---@param opts? {norm: tycho.Module?}
---@return tycho.nn.TransformerEncoder # [batch, time, width] to [batch, time, width]
function nn.TransformerEncoder(layer, layers, opts) end

---@class tycho.nn.TransformerEncoder: tycho.Module
objects.nn_TransformerEncoder = {}

---attention of the sequence to
---itself, then two linear layers; each is added to its input and normalised. norm_first: inputs are normalised
---instead. m(x, {mask, padding, causal = false}): a mask [queries, keys], a padding [batch, keys]. Vaswani and
---others 2017, arXiv:1706.03762.
---Raises where the width does not divide into the heads, an option is not known, or the input has other sizes.
---@param width integer
---@param heads integer
---@param opts? {inner: integer?, dropout: number?, activation: string|function|nil, layer_norm_eps: number?, batch_first: boolean?, norm_first: boolean?, bias: boolean?, kv_heads: integer?}
---@return tycho.nn.TransformerEncoderLayer # [batch, time, width] to [batch, time, width]
function nn.TransformerEncoderLayer(width, heads, opts) end

---@class tycho.nn.TransformerEncoderLayer: tycho.Module
objects.nn_TransformerEncoderLayer = {}

---loss(anchor, positive,
---negative), see ty.triplet_margin_loss.
---Raises where sizes do not broadcast, margin is not above 0, or the reduction is not known.
---@param opts? {reduction: "mean"|"sum"|"none"|nil, margin: number?, p: number?, eps: number?, swap: boolean?}
---@return tycho.nn.TripletMarginLoss
function nn.TripletMarginLoss(opts) end

---@class tycho.nn.TripletMarginLoss: tycho.Module
objects.nn_TripletMarginLoss = {}

---a dim as several of these sizes, one of which may be -1.
---Raises where the dim is no number or sizes no list; where they do not fit the input.
---@param dim integer
---@param sizes integer[]
---@return tycho.nn.Unflatten # [..., the product, ...] to [..., sizes..., ...]
function nn.Unflatten(dim, sizes) end

---@class tycho.nn.Unflatten: tycho.Module
objects.nn_Unflatten = {}

---the windows of an image as columns.
---Raises where the input has other dims, a window does not fit, or an option is out of range.
---@param kernel integer|integer[] # rows and columns
---@param opts? {dilation: integer|integer[]|nil, padding: integer|integer[]|nil, stride: integer|integer[]|nil}
---@return tycho.nn.Unfold # [batch, channels, h, w] to [batch, channels rows columns, blocks], or without the batch
function nn.Unfold(kernel, opts) end

---@class tycho.nn.Unfold: tycho.Module
objects.nn_Unfold = {}

---see ty.interpolate.
---Raises where x has other dims than 3 to 5, not one of size and scale is given, or the mode is not known.
---@param opts {size: integer|integer[]|nil, scale: number|number[]|nil, scale_factor: number|number[]|nil, mode: string?, align_corners: boolean?, antialias: boolean?, recompute_scale_factor: boolean?}
---@return tycho.nn.Upsample
function nn.Upsample(opts) end

---@class tycho.nn.Upsample: tycho.Module
objects.nn_Upsample = {}

---zeros around the places.
---Raises where the padding is no number and no list of 2, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right}
---@return tycho.nn.ZeroPad1d # [batch, channels, length], more of it
function nn.ZeroPad1d(padding) end

---@class tycho.nn.ZeroPad1d: tycho.Module
objects.nn_ZeroPad1d = {}

---zeros around the places.
---Raises where the padding is no number and no list of 4, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom}
---@return tycho.nn.ZeroPad2d # [batch, channels, height, width], more of them
function nn.ZeroPad2d(padding) end

---@class tycho.nn.ZeroPad2d: tycho.Module
objects.nn_ZeroPad2d = {}

---zeros around the places.
---Raises where the padding is no number and no list of 6, or the input has other dims.
---@param padding integer|integer[] # for all sides, or {left, right, top, bottom, front, back}
---@return tycho.nn.ZeroPad3d # [batch, channels, depth, height, width], more of them
function nn.ZeroPad3d(padding) end

---@class tycho.nn.ZeroPad3d: tycho.Module
objects.nn_ZeroPad3d = {}

---A new class. Its `init(self, ...)` fills a new module, its `forward(self, ...)` computes.
---Raises where the name is no string, or the parent no class.
---@param name string # how modules of it print
---@param parent? table # a class, nn.Module
---@return table # class calling it makes a module
function nn.class(name, parent) end

---@class tycho.nn.init
nn.init = {}

---What keeps the variance through a nonlinearity.
---Raises for other names.
---@param name string # linear, conv..., sigmoid, tanh, relu, leaky_relu, selu
---@param slope? number # 0.01, of leaky_relu
---@return number
function nn.init.calculate_gain(name, slope) end

---One value in every element.
---Raises where t is no tensor, or v no number.
---@param t tycho.Tensor # floats
---@param v number
---@return tycho.Tensor # t itself
function nn.init.constant_(t, v) end

---The identity matrix.
---Raises where t has not two dims.
---@param t tycho.Tensor # floats [n, m]
---@return tycho.Tensor # t itself
function nn.init.eye_(t) end

---He and others 2015: normal of deviation gain / sqrt(in). Options as of kaiming_uniform_.
---Raises where t is no float tensor of at least two dims.
---@param t tycho.Tensor # floats
---@param opts? {a: number?, mode: string?, nonlinearity: string?}
---@return tycho.Tensor # t itself
function nn.init.kaiming_normal_(t, opts) end

---He and others 2015: uniform within sqrt(3) * gain / sqrt(in).
---Options: a = 0, the slope of leaky_relu; mode = "fan_in" or "fan_out"; nonlinearity = "leaky_relu".
---Raises where t is no float tensor of at least two dims.
---@param t tycho.Tensor # floats
---@param opts? {a: number?, mode: string?, nonlinearity: string?}
---@return tycho.Tensor # t itself
function nn.init.kaiming_uniform_(t, opts) end

---Normal numbers.
---Raises where t is no float tensor.
---@param t tycho.Tensor
---@param mean? number # 0
---@param std? number # 1
---@return tycho.Tensor # t itself
function nn.init.normal_(t, mean, std) end

---1 in every element.
---Raises where t is no tensor.
---@param t tycho.Tensor # floats
---@return tycho.Tensor # t itself
function nn.init.ones_(t) end

---Rows, or columns where these are fewer, that are orthogonal and of length gain. Saxe and others 2013,
---arXiv:1312.6120. Needs OpenBLAS.
---Raises where t is no float tensor of at least two dims.
---@param t tycho.Tensor # floats
---@param gain? number # 1
---@return tycho.Tensor # t itself
function nn.init.orthogonal_(t, gain) end

---Normal numbers, those outside of low..high drawn anew. By the inverse of the distribution function.
---Raises where t is no float tensor.
---@param t tycho.Tensor
---@param mean? number # 0
---@param std? number # 1
---@param low? number # -2
---@param high? number # 2
---@return tycho.Tensor # t itself
function nn.init.trunc_normal_(t, mean, std, low, high) end

---Uniform numbers.
---Raises where t is no float tensor.
---@param t tycho.Tensor
---@param low? number # 0
---@param high? number # 1
---@return tycho.Tensor # t itself
function nn.init.uniform_(t, low, high) end

---Glorot, Bengio 2010: normal of deviation gain * sqrt(2 / (in + out)).
---Raises where t is no float tensor of at least two dims.
---@param t tycho.Tensor # floats
---@param gain? number # 1
---@return tycho.Tensor # t itself
function nn.init.xavier_normal_(t, gain) end

---Glorot, Bengio 2010: uniform within gain * sqrt(6 / (in + out)).
---Raises where t is no float tensor of at least two dims.
---@param t tycho.Tensor # floats
---@param gain? number # 1
---@return tycho.Tensor # t itself
function nn.init.xavier_uniform_(t, gain) end

---0 in every element.
---Raises where t is no tensor.
---@param t tycho.Tensor # floats
---@return tycho.Tensor # t itself
function nn.init.zeros_(t) end

---whether a value is a module or a class of modules.
---Raises never.
---@param v any
---@return boolean
function nn.is_module(v) end

---Turns pairs of features by angles that grow with the position: feature i with feature i + n / 2, by
---position * base^(-2 (i - 1) / n). Su and others 2021, arXiv:2104.09864.
---Raises where features are odd, or the base is not positive.
---@param x tycho.Tensor # floats [..., time, features], features even
---@param offset? integer # the position of the first time, 0
---@param base? number # 10000
---@return tycho.Tensor # shape and dtype of x
function nn.rotary(x, offset, base) end

---What a model is made of: a table that prints well. rows: path, class, depth, shape (of the output), parameters
---(its own, without those of its parts), called (how often), multiply_adds (of all its calls, its parts included).
---Further parameters, buffers, multiply_adds, parameter_bytes, output_bytes of the whole.
---Raises where the model is no module, and what its forward raises.
---@param model tycho.Module
---@param ... any # inputs of its forward
---@return tycho.Summary
function nn.summary(model, ...) end

---@class tycho.nn.utils
nn.utils = {}

---Sequences filled up at their ends, with their lengths, as recurrent layers take them: each stops at its end, what
---lies behind is not read. They need no order (enforce_sorted of PyTorch is taken and does nothing).
---Raises where lengths are not one a sequence, or, given as a list, not in 1..time.
---@param x tycho.Tensor # [batch, time, ...]
---@param lengths integer[]|tycho.Tensor # one a sequence; of a tensor the values are not looked at
---@param opts? {batch_first: boolean?, enforce_sorted: boolean?} # batch_first: true (PyTorch's is false)
---@return tycho.nn.PackedSequence
function nn.utils.pack_padded_sequence(x, lengths, opts) end

---Sequences side by side as recurrent layers take them: pad_sequence, then pack_padded_sequence.
---Raises where the list is empty, or sequences differ in other dims than the first.
---@param list tycho.Tensor[] # each [time, ...]
---@param opts? {enforce_sorted: boolean?} # taken as PyTorch has it; it does nothing
---@return tycho.nn.PackedSequence
function nn.utils.pack_sequence(list, opts) end

---What pack_padded_sequence put together, or a recurrent layer gave for such: 0 behind the ends. The time is that of
---what was packed, not the longest length.
---Raises where p is no packed sequence.
---@param p tycho.nn.PackedSequence
---@param opts? {batch_first: boolean?} # true
---@return tycho.Tensor x
---@return tycho.Tensor lengths # [batch, time, ...], i64 [batch]
function nn.utils.pad_packed_sequence(p, opts) end

---Sequences of unlike lengths side by side, filled up at their ends.
---Options: batch_first = true (PyTorch's is false); padding_value = 0.
---Raises where the list is empty, or sequences differ in other dims than the first.
---@param list tycho.Tensor[] # each [time, ...]
---@param opts? {batch_first: boolean?, padding_value: number?}
---@return tycho.Tensor # [batch, the longest time, ...]
function nn.utils.pad_sequence(list, opts) end

---Tensors side by side as one vector.
---Raises where the list is empty or holds other than tensors.
---@param list tycho.Tensor[] # such as m:parameters()
---@return tycho.Tensor # [all elements]
function nn.utils.parameters_to_vector(list) end

---Takes a weight or spectral norm off: the weight is a parameter again, as the module computes it in evaluation.
---Gives the module.
---Raises where there is none.
---@param m tycho.Module
---@return tycho.Module # m itself
function nn.utils.remove_norm(m) end

---the weight divided by
---its largest singular value, which is followed by steps of the power method while training. m.weight is there
---only while the module computes; weight_orig is the parameter, weight_u and weight_v are buffers. Gives the
---module. Miyato and others 2018, arXiv:1802.05957.
---Raises where m is no module, has no parameter of that name, or an option is not known or out of range.
---@param m tycho.Module # such as nn.Linear, nn.Conv2d
---@param name? string # "weight"
---@param opts? {n_power_iterations: integer?, eps: number?, dim: integer?} # dim: that of the outputs
---@return tycho.Module # m itself
function nn.utils.spectral_norm(m, name, opts) end

---The sequences that pad_sequence put side by side.
---Raises where lengths are not one a sequence, from 0 to the time.
---@param x tycho.Tensor # [batch, time, ...]
---@param lengths integer[]|tycho.Tensor # one a sequence
---@param opts? {batch_first: boolean?} # true
---@return tycho.Tensor[] # each [length, ...]
function nn.utils.unpad_sequence(x, lengths, opts) end

---Writes a vector into tensors, piece by piece.
---Raises where it has not as many elements as they.
---@param vector tycho.Tensor # [all elements]
---@param list tycho.Tensor[] # such as m:parameters()
function nn.utils.vector_to_parameters(vector, list) end

---the weight as magnitudes times directions, weight_g * weight_v /
---|weight_v|, norms over all dims but that of the outputs. m.weight is there only while the module computes. Gives
---the module. Salimans, Kingma 2016, arXiv:1602.07868.
---Raises where m is no module, or has no parameter of that name.
---@param m tycho.Module # such as nn.Linear, nn.Conv2d
---@param name? string # "weight"
---@param dim? integer # that of the outputs
---@return tycho.Module # m itself
function nn.utils.weight_norm(m, name, dim) end

ty.nn = nn

---@class tycho.optim
local optim = {}

---gradient descent of a
---falling rate; state.ax holds the average of the parameter from step t0 on. Polyak, Juditsky 1992.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, lambd: number?, alpha: number?, t0: number?, weight_decay: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.ASGD
function optim.ASGD(params, opts) end

---@class tycho.optim.ASGD: tycho.Optimizer
objects.optim_ASGD = {}

---Zeiler 2012, arXiv:1212.5701.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, rho: number?, eps: number?, weight_decay: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.Adadelta
function optim.Adadelta(params, opts) end

---@class tycho.optim.Adadelta: tycho.Optimizer
objects.optim_Adadelta = {}

---mean
---squares of rows and columns instead of one an element; the rate is relative to the parameter's size. Shazeer,
---Stern 2018, arXiv:1804.04235. eps: the least size of a parameter; eps1: the least mean square, the dtype's
---epsilon by default (PyTorch has both in one pair); d: what larger moves are cut to.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or out of range.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, beta2_decay: number?, eps: number?, eps1: number?, d: number?, weight_decay: number?} # lr: the largest relative rate, which opt.lr changes later
---@return tycho.optim.Adafactor
function optim.Adafactor(params, opts) end

---@class tycho.optim.Adafactor: tycho.Optimizer
objects.optim_Adafactor = {}

---Duchi, Hazan, Singer 2011, JMLR 12.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, lr_decay: number?, eps: number?, weight_decay: number?, initial_accumulator: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.Adagrad
function optim.Adagrad(params, opts) end

---@class tycho.optim.Adagrad: tycho.Optimizer
objects.optim_Adagrad = {}

---Kingma, Ba 2014, arXiv:1412.6980; weight decay is added to the gradient. amsgrad: Reddi and others 2018,
---arXiv:1904.09237.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.Adam
function optim.Adam(params, opts) end

---@class tycho.optim.Adam: tycho.Optimizer
objects.optim_Adam = {}

---Loshchilov, Hutter 2017, arXiv:1711.05101: p shrinks by lr * weight_decay before Adam's step.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, amsgrad: boolean?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.AdamW
function optim.AdamW(params, opts) end

---@class tycho.optim.AdamW: tycho.Optimizer
objects.optim_AdamW = {}

---Adam by the largest
---gradient instead of the mean square. Kingma, Ba 2014, arXiv:1412.6980.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.Adamax
function optim.Adamax(params, opts) end

---@class tycho.optim.Adamax: tycho.Optimizer
objects.optim_Adamax = {}

---a copy of the model, whose parameters are the means of
---the model's at each update_parameters(model) (SWA, Izmailov and others 2018, arXiv:1803.05407), or with decay
---running means in which a new one has the share 1 - decay (EMA). Buffers are copied, or averaged too.
---avg:update_parameters(m) after each step or epoch; avg(x) computes; avg.module is the copy; avg:eval() and
---avg:state_dict() as any module's.
---Raises where model is no module, or the decay lies outside of 0 to 1.
---@param model tycho.Module
---@param opts? {decay: number?, use_buffers: boolean?} # decay: such as 0.999
---@return tycho.optim.AveragedModel # what the model gives
function optim.AveragedModel(model, opts) end

---@class tycho.optim.AveragedModel: tycho.Optimizer
objects.optim_AveragedModel = {}

---Takes the model's parameters into the means: the first ones as they are.
---Raises where the model has other parameters than the copy.
---@param model tycho.Module
function objects.optim_AveragedModel:update_parameters(model) end

---the first rate times the factors of all of them.
---Raises where the schedules are not of one optimiser.
---@param schedules tycho.Schedule[]
---@return tycho.Schedule # s:step() after each step or epoch
function optim.ChainedScheduler(schedules) end

---the first rate times factor for so many steps, then
---the first rate.
---Raises where the first argument is no optimiser, or an option is out of range.
---@param opt tycho.Optimizer
---@param opts? {factor: number?, total_iters: integer?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.ConstantLR(opt, opts) end

---half a cosine from the first rate down to eta_min at step
---T_max, then up again, and so on. One that stays there: CosineLR. Loshchilov, Hutter 2016, arXiv:1608.03983.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {T_max: integer, eta_min: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.CosineAnnealingLR(opt, opts) end

---half a cosine from the first rate down
---to eta_min in T_0 steps, then from the first rate again, each time in T_mult times as many steps. Loshchilov,
---Hutter 2016, arXiv:1608.03983.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {T_0: integer, T_mult: integer?, eta_min: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.CosineAnnealingWarmRestarts(opt, opts) end

---half a cosine from the first rate down to `least` at `steps`, where it
---stays. Loshchilov, Hutter 2016, arXiv:1608.03983.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {steps: integer, least: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.CosineLR(opt, opts) end

---from base_lr in equal steps up to
---max_lr, down again, and so on. mode = "triangular2": each cycle is half as high as the one before; "exp_range":
---heights shrink by gamma a step. The momentum (or the first of betas) goes the other way. Smith 2015,
---arXiv:1506.01186.
---Raises where the first argument is no optimiser, has no momentum that could be cycled, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {base_lr: number, max_lr: number, step_size_up: integer?, step_size_down: integer?, mode: string?, gamma: number?, cycle_momentum: boolean?, base_momentum: number?, max_momentum: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step
function optim.CyclicLR(opt, opts) end

---times gamma at each step.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {gamma: number} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.ExponentialLR(opt, opts) end

---Loss scaling for gradients in f16, which would vanish: optim.GradScaler{init_scale = 65536, growth_factor = 2,
---backoff_factor = 0.5, growth_interval = 2000, capturable = false}.
---  scaler:scale(loss):backward(); scaler:step(opt)
---A step with gradients that are not finite is left out and the factor shrinks; after growth_interval good ones it
---grows. Micikevicius and others 2017, arXiv:1710.03740.
---The steps of several optimisers behind one scale() are one: all divide by the factor that the loss was
---multiplied by, and it grows if all were good.
---capturable: no value is read, so that a compiled function captures all of it: factor and counts are 0-d tensors,
---a step is made and taken back where it may not be, and step() says nothing.
---Raises where an option is not known or out of range.
---@param opts? {init_scale: number?, growth_factor: number?, backoff_factor: number?, growth_interval: integer?, capturable: boolean?}
---@return tycho.GradScaler
function optim.GradScaler(opts) end

---@class tycho.GradScaler
---@field factor number|tycho.Tensor what losses are multiplied by
objects.optim_GradScaler = {}

---What losses are multiplied by.
---Raises never.
---@return number # reads it where it is a tensor
function objects.optim_GradScaler:get_scale() end

---Takes a state.
---Raises where it is no such state.
---@param sd table # what state_dict gave
function objects.optim_GradScaler:load_state_dict(sd) end

---The loss times the factor.
---Raises where the loss is no float tensor.
---@param loss tycho.Tensor
---@return tycho.Tensor # the sizes of the loss
function objects.optim_GradScaler:scale(loss) end

---What must be saved.
---Raises never.
---@return table
function objects.optim_GradScaler:state_dict() end

---opt:step(), unless a gradient is not finite; then the factor follows. Whether the step was made.
---Raises where the argument is no optimiser.
---@param opt tycho.Optimizer
---@return boolean? made # nil where the scaler is capturable
function objects.optim_GradScaler:step(opt) end

---Makes the gradients their true size, once a step, so that they can be clipped; step() does it else.
---Raises where the argument is no optimiser.
---@param opt tycho.Optimizer
function objects.optim_GradScaler:unscale_(opt) end

---Does nothing: step() has made the factor fit already. It is there since loops that others wrote call it.
---Raises never.
function objects.optim_GradScaler:update() end

---opt:step(fn) calls fn, which forgets the gradients, computes the
---loss, calls its backward and gives it, several times; it gives the loss of the first call. line_search_fn =
---"strong_wolfe": the length of each step is looked for. Nocedal, Wright 2006, chapter 7.
---Raises where parameters are not leaves that require gradients or are in several groups, an option is not known or out of range, or fn gives no loss.
---@param params tycho.Tensor[]|table[] # leaves, or one group of them
---@param opts? {lr: number?, max_iter: integer?, max_eval: integer?, tolerance_grad: number?, tolerance_change: number?, history_size: integer?, line_search_fn: "strong_wolfe"|nil}
---@return tycho.optim.LBFGS
function optim.LBFGS(params, opts) end

---@class tycho.optim.LBFGS: tycho.Optimizer
objects.optim_LBFGS = {}

---the first rate times fn(step).
---Raises where fn is no function, or gives no number.
---@param opt tycho.Optimizer
---@param fn fun(step: integer): number
---@return tycho.Schedule # s:step() after each step or epoch
function optim.LambdaLR(opt, fn) end

---the first rate times a factor that
---goes from the one to the other in equal steps, and stays there.
---Raises where the first argument is no optimiser, or an option is out of range.
---@param opt tycho.Optimizer
---@param opts? {start_factor: number?, end_factor: number?, total_iters: integer?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.LinearLR(opt, opts) end

---Chen and others 2023, arXiv:2302.06675:
---p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, weight_decay: number?} # lr: the rate, opt.lr afterwards
---@return tycho.optim.Lion
function optim.Lion(params, opts) end

---@class tycho.optim.Lion: tycho.Optimizer
objects.optim_Lion = {}

---times gamma at each of these steps (or milestones).
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {at: integer[], gamma: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.MultiStepLR(opt, opts) end

---the rate times fn(step) at each step.
---Raises where fn is no function, or gives no number.
---@param opt tycho.Optimizer
---@param fn fun(step: integer): number
---@return tycho.Schedule # s:step() after each step or epoch
function optim.MultiplicativeLR(opt, fn) end

---momentum made orthogonal by Newton and
---Schulz's iteration, for the weights of hidden linear layers; other parameters go to another optimiser. Jordan
---and others 2024. The rate is multiplied by sqrt(max(1, outputs / inputs)) of a weight [inputs, outputs], or by
---0.2 sqrt(max(outputs, inputs)) where adjust_lr_fn = "match_rms_adamw" (Liu and others 2025, arXiv:2502.16982).
---The products are computed in the dtype of the parameter, not in bf16.
---Raises where a parameter has other than two dims, and as all optimisers do.
---@param params tycho.Tensor[]|table[] # leaves of two dims, or groups {params = list, lr = ...}
---@param opts? {lr: number?, weight_decay: number?, momentum: number?, nesterov: boolean?, ns_coefficients: number[]?, eps: number?, ns_steps: integer?, adjust_lr_fn: "original"|"match_rms_adamw"|nil} # lr is the rate, which opt.lr changes later
---@return tycho.optim.Muon
function optim.Muon(params, opts) end

---@class tycho.optim.Muon: tycho.Optimizer
objects.optim_Muon = {}

---Adam with Nesterov's momentum. Dozat 2016.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, momentum_decay: number?, decoupled_weight_decay: boolean?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.NAdam
function optim.NAdam(params, opts) end

---@class tycho.optim.NAdam: tycho.Optimizer
objects.optim_NAdam = {}

---half a
---cosine from most / div up to `most` at the share `rise` of the steps, then down to most / div / final_div.
---Smith, Topin 2017, arXiv:1708.07120; phases as PyTorch's, whose names of the options (total_steps, max_lr,
---pct_start, div_factor, final_div_factor) are known too.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {steps: integer, most: number?, rise: number?, div: number?, final_div: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.OneCycleLR(opt, opts) end

---@class tycho.Optimizer
---@field groups table[] each {params, state, settings...}
optim.Optimizer = {}

---Adds a group, {params = list, lr = ...}: its settings over those that the optimiser was made with.
---Raises where the group is no table, or its parameters are not leaves that require gradients.
---@param group table # {params = list, lr = ...}
function optim.Optimizer:add_group(group) end

---Takes settings and state of a state_dict. Nothing is taken unless all fits.
---Raises where groups, parameters or sizes do not fit.
---@param sd table # what state_dict gave
function optim.Optimizer:load_state_dict(sd) end

---Settings and state as tables that can be saved: {groups = {{lr = ..., state = {{step = ..., ...}}}}}. Its
---tensors are the optimiser's own, not copies.
---Raises never.
---@return table
function optim.Optimizer:state_dict() end

---Updates the parameters by their gradients.
---Raises where a gradient does not fit its parameter.
function optim.Optimizer:step() end

---Forgets the gradients.
---Raises never.
function optim.Optimizer:zero_grad() end

---@class tycho.Plateau
objects.optim_Plateau = {}

---The same as rates, under PyTorch's name.
---Raises never.
---@return number[]
function objects.optim_Plateau:get_last_lr() end

---Takes a state.
---Raises where it is no state of a schedule.
---@param sd table # what state_dict gave
function objects.optim_Plateau:load_state_dict(sd) end

---The rates in force, one a group.
---Raises never.
---@return number[]
function objects.optim_Plateau:rates() end

---What must be saved.
---Raises never.
---@return table
function objects.optim_Plateau:state_dict() end

---Takes the metric of an epoch; the rates follow.
---Raises where it is no number.
---@param metric number
function objects.optim_Plateau:step(metric) end

---the first rate times (1 - step / total_iters)^power, down
---to 0.
---Raises where the first argument is no optimiser, or an option is out of range.
---@param opt tycho.Optimizer
---@param opts? {total_iters: integer?, power: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.PolynomialLR(opt, opts) end

---Adam whose first steps, while the variance is little known, do not adapt. Liu
---and others 2019, arXiv:1908.03265.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, betas: number[]?, eps: number?, weight_decay: number?, decoupled_weight_decay: boolean?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.RAdam
function optim.RAdam(params, opts) end

---@class tycho.optim.RAdam: tycho.Optimizer
objects.optim_RAdam = {}

---Tieleman, Hinton 2012; centered: Graves 2013, arXiv:1308.0850.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, alpha: number?, eps: number?, momentum: number?, centered: boolean?, weight_decay: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.RMSprop
function optim.RMSprop(params, opts) end

---@class tycho.optim.RMSprop: tycho.Optimizer
objects.optim_RMSprop = {}

---s:step(metric) multiplies the rates by factor when the metric has not become better, by the share
---`threshold`, for more than `patience` steps; then `cooldown` steps do not count. least (or min_lr): of the
---rates.
---Raises where the first argument is no optimiser, or an option is out of range.
---@param opt tycho.Optimizer
---@param opts? {mode: "min"|"max"|nil, factor: number?, patience: integer?, threshold: number?, cooldown: integer?, least: number?}
---@return tycho.Plateau # s:step(metric)
function optim.ReduceLROnPlateau(opt, opts) end

---steps by the gradient's sign,
---whose size shrinks where that changes and grows where it stays; for gradients of all data. Riedmiller, Braun
---1993.
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, etas: number[]?, step_sizes: number[]?} # lr: the first size of steps
---@return tycho.optim.Rprop
function optim.Rprop(params, opts) end

---@class tycho.optim.Rprop: tycho.Optimizer
objects.optim_Rprop = {}

---Sutskever and others 2013. buf = momentum buf + (1 - dampening) g, the first one g; p = p - lr buf, or with
---nesterov p - lr (g + momentum buf).
---Raises where parameters are not leaves that require gradients, or come twice; where an option is not known or negative.
---@param params tycho.Tensor[]|table[] # leaves, or groups {params = list, lr = ...}
---@param opts? {lr: number?, momentum: number?, dampening: number?, nesterov: boolean?, weight_decay: number?} # lr is the rate, which opt.lr changes later
---@return tycho.optim.SGD
function optim.SGD(params, opts) end

---@class tycho.optim.SGD: tycho.Optimizer
objects.optim_SGD = {}

---from the first rate to swa_lr in so
---many steps, by half a cosine or, with "linear", in equal steps; there it stays. For averages,
---optim.AveragedModel. Izmailov and others 2018, arXiv:1803.05407.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {swa_lr: number, anneal_epochs: integer?, anneal_strategy: "cos"|"linear"|nil} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each epoch
function optim.SWALR(opt, opts) end

---@class tycho.Schedule
---@field last integer the number of steps so far
objects.optim_Schedule = {}

---The same as rates, under PyTorch's name.
---Raises never.
---@return number[]
function objects.optim_Schedule:get_last_lr() end

---Takes a state and sets the rates.
---Raises where it is no state of a schedule.
---@param sd table # what state_dict gave
function objects.optim_Schedule:load_state_dict(sd) end

---The rates in force, one a group.
---Raises never.
---@return number[]
function objects.optim_Schedule:rates() end

---What must be saved.
---Raises never.
---@return table
function objects.optim_Schedule:state_dict() end

---Goes on by one step and sets the groups' rates.
---Raises what the function of a LambdaLR raises.
function objects.optim_Schedule:step() end

---the first schedule up to the first of the steps, from
---there the second one from its beginning, and so on. The steps may be given as {milestones = list}.
---Raises where the schedules are not of that optimiser, or the steps are not one fewer, in ascending order.
---@param opt tycho.Optimizer
---@param schedules tycho.Schedule[]
---@param milestones integer[]|{milestones: integer[]} # where the next one begins, counted in steps of this schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.SequentialLR(opt, schedules, milestones) end

---times gamma after each `every` (or step_size) steps.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {every: integer, gamma: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.StepLR(opt, opts) end

---WarmupLR, then CosineLR down to `least`
---at `steps`.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {warmup: integer, steps: integer, start: number?, least: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.WarmupCosineLR(opt, opts) end

---in equal steps from start * rate up to the rate at step `warmup`.
---Raises where the first argument is no optimiser, or an option is missing or out of range.
---@param opt tycho.Optimizer
---@param opts {warmup: integer, start: number?} # counted in steps of the schedule
---@return tycho.Schedule # s:step() after each step or epoch
function optim.WarmupLR(opt, opts) end

---the running means of the model's batch norms anew, as the means over the batches
---of an iterator; a batch's first value is what the model is given. After parameters were averaged.
---Raises where model is no module.
---@param loader function|tycho.data.Loader # what `for x in loader do` goes through
---@param model tycho.Module
function optim.update_bn(loader, model) end

ty.optim = optim

---@class tycho.Plot
local plot = {}

---The area between two curves, behind what is drawn in the same colour: a range of errors. Without a colour it has
---that of the curve drawn last.
---Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param low tycho.Tensor|number[]
---@param high tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?}
---@return tycho.Plot
function plot:band(x, low, high, opts) end

---Bars with names: bars({"a", "b"}, {3, 4}); several calls with the same names stand beside each other. base: where
---they begin.
---Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param names (string|number)[]
---@param values tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, base: number?, horizontal: boolean?}
---@return tycho.Plot
function plot:bars(names, values, opts) end

---A matrix as colours, row 1 on top, with a bar that explains them. x and y: {low, high} of what the axes show; with y
---the last row is on top.
---Raises where the matrix has other dims than two or no elements, or an option is not known.
---@param matrix tycho.Tensor|number[][]
---@param opts? {map: string?, lim: number[]?, bar: boolean?, label: string?, x: number[]?, y: number[]?}
---@return tycho.Plot
function plot:heat(matrix, opts) end

---How many values fall into each of equal bins: `bins` of them, or by the rule of Freedman and Diaconis.
---Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param values tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, bins: integer?, density: boolean?, lim: number[]?}
---@return tycho.Plot
function plot:hist(values, opts) end

---A straight line over the whole plot at this y.
---Raises where it is no number.
---@param at number
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?}
---@return tycho.Plot
function plot:hline(at, opts) end

---Images without axes: [h, w], [3, h, w] in colour, [n, h, w] or [n, c, h, w] as a sheet. Values go from black at
---lim[1] to white at lim[2], or through a map; by default u8 from 0 to 255, others from the least to the greatest.
---columns: of the sheet. sheet = true: [3, h, w] is three images.
---Raises where it has other dims or channels, or an option is not known.
---@param t tycho.Tensor|number[][]
---@param opts? {columns: integer?, gap: integer?, lim: number[]?, map: string?, sheet: boolean?}
---@return tycho.Plot
function plot:image(t, opts) end

---A curve through points. line(y) counts x from 1. A point that is not finite breaks it.
---Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param y? tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?, marker: string?}
---@return tycho.Plot
function plot:line(x, y, opts) end

---Words at a point of the data.
---Raises where the place is no number, or the text no string.
---@param x number
---@param y number
---@param text string
---@param opts? {color: any, anchor: "start"|"middle"|"end"|nil, size: number?}
---@return tycho.Plot
function plot:note(x, y, text, opts) end

---The plot as the bytes of a PNG, `scale` pixels for each unit of its size: 2, unless told otherwise.
---Raises where the scale lies outside of 0 to 16.
---@param scale? number
---@return string
function plot:png(scale) end

---Writes a file, SVG or PNG by its name.
---Raises where the path ends in neither .svg nor .png. What cannot be written gives nil and a message.
---@param path string
---@return true? ok
---@return string? message
function plot:save(path) end

---Points. values gives each a colour from a map, with a bar that explains it.
---Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param y? tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, size: number?, marker: string?, values: any, map: string?, lim: number[]?}
---@return tycho.Plot
function plot:scatter(x, y, opts) end

---The plot as SVG.
---Raises never.
---@return string
function plot:svg() end

---A straight line over the whole plot at this x.
---Raises where it is no number.
---@param at number
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?}
---@return tycho.Plot
function plot:vline(at, opts) end

---@class tycho.Progress
local progress = {}

---It is over: draws the last time. A bar that has all its steps is done by itself.
---Raises never.
---@return tycho.Progress
function progress:done() end

---Writes a line of text above the bar.
---Raises never.
---@param text string
function progress:print(text) end

---New values, such as {loss = 0.3}; those not named stay.
---Raises where a value is no number, tensor of one element or string.
---@param values table<string, number|string|tycho.Tensor>
---@return tycho.Progress
function progress:set(values) end

---One step more, or n of them, with new values perhaps: step(), step(n), step{loss = 0.3}.
---Raises where n is no count, or a value is none.
---@param n? integer|table
---@param values? table
---@return tycho.Progress
function progress:step(n, values) end

---a call in slices of time
---@class tycho.Run
---@field done boolean whether it has ended, with results or by an error
local run = {}

---Leaves undone what has not run: of the plan under way nothing is seen. A call that has ended stays as it is.
---Raises inside of the call itself.
function run:cancel() end

---The results of a call that has ended.
---Raises while it has not, where it was cancelled, and what the call raised.
---@return any # what the function gave
function run:results() end

---Goes on with a call that jit.start has begun, and tells whether it has ended. A plan stops between tiles; Lua code
---of the function, and what is not captured, is not stopped.
---Raises what the call raises, then and whenever it is asked again; where it was cancelled, or goes on inside of itself; where microseconds is no number from 0.
---@param microseconds? number # how long; without: to the end
---@return boolean # whether it has ended: run.done
function run:step(microseconds) end

---@class tycho.CompileOptions
---@field fast? boolean results may differ from eager in the last bits
---@field fullgraph? boolean a call that cannot be captured whole raises
---@field dynamic? boolean|table whether sizes are symbolic from the first call on, or of which arguments and dims
---@field parts? boolean true: what no trace holds whole is compiled in parts
---@field passes? (string|function)[] change each captured graph
---@field backend? function makes of each captured graph the function that runs instead of the plan

---what jit.explain tells; prints well, briefly
---@class tycho.Explanation
---@field place string where the function is defined
---@field calls integer
---@field skips integer calls that did not run it
---@field captures integer
---@field traces table[] {guards, operations, kernels, steps, hits, effects, graph, plan, ...} each
---@field misses table[] why traces did not answer
---@field aborts table[] {reason, hint, text, ...}: why it was not captured
---@field parts table[] where it is held in parts
---@field full fun(self: tycho.Explanation): string with guards, graphs and programs
---@field table fun(self: tycho.Explanation): table all of it as plain tables

---one recorded graph: nodes by position, each {op, dtype, shape, src, live}
---@class tycho.Graph
---@field text string
---@field dot string for Graphviz

---@class tycho.GraphNode
---@field op string
---@field dtype string
---@field device? string nil: the CPU
---@field shape integer[]
---@field inputs tycho.GraphNode[]
---@field name string unique when the graph made it
---@field graph tycho.GraphObject|false false once it was erased

---@class tycho.HookHandle
---@field remove fun(self: tycho.HookHandle) takes the hook off; once more does nothing
local HookHandle = {}

---Takes the hook off.
function HookHandle:remove() end

---@class tycho.LineProfile
---@field seconds number from the begin to the end of the function
---@field busy number of them, in kernels
---@field lines table[] {file, line, source, seconds, backward, runs, bytes, flops, share}; the hottest first
---@field kernels table[] as those of ty.profile
---@field lost integer events that had no room
local LineProfile = {}

---The same without what makes it print.
---@return table
function LineProfile:table() end

---@class tycho.Profile
---@field seconds number from the begin to the end of the function
---@field busy number of them, in kernels
---@field kernels table[] {name, kind, calls, seconds, bytes, flops} hottest first
---@field machine? {bandwidth: number, flops: number} of the CPU; nil of devices
---@field lost integer events that had no room

---@class tycho.Summary
---@field rows table[]
---@field parameters integer each once
---@field buffers integer numbers in tensors that are not trained
---@field multiply_adds integer of one call
---@field parameter_bytes integer
---@field output_bytes integer what the modules without parts give

---@class tycho.dist.Group
---@field ranks integer[] of the world, ascending
---@field index integer of this process among them, from 1
---@field team integer? by which MPI knows the group, for its own sums; nil: it can know no more of them

---@class tycho.nn.PackedSequence
---@field x tycho.Tensor
---@field lengths tycho.Tensor
---@field batch_first boolean whether x is [batch, time, ...] or [time, batch, ...]

return ty
