---@meta
--- annotations.lua -- what functions written in C take, give and raise: read as text by texts.lua.
-- It is never run. The one line that says what a function does stands beside it in core/ (ops.h, lua_*.c). Functions
-- that work element by element are not here: their rows say it all. Headings are parts of the reference.

-- luacheck: ignore
local ty, Tensor = {}, {}

------ Making tensors

---@alias tycho.dtype "bool"|"u8"|"i8"|"i16"|"i32"|"i64"|"f16"|"bf16"|"f32"|"f64"|"u16"|"u32"|"u64"|"c64"|"c128"

--- Data are copied. Numbers give the default dtype (f32), booleans bool; `{}` is an empty vector.
--- Raises where nested tables are ragged, hold something else, or a number does not fit the dtype.
---@param data number|boolean|table|tycho.Tensor nested tables, one level a dim
---@param opts? {dtype: tycho.dtype?, device: string?} by default f32 (bool of booleans) on ty.device()
---@return tycho.Tensor # the sizes of the nesting; of a number no dims
function ty.tensor(data, opts) end

--- Sizes may stand in a table, too: ty.zeros({2, 3}).
--- Raises where a size is no whole number from 0, or the dtype or device is not known.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes; none: one element without dims
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.zeros(...) end

--- Raises where a size is no whole number from 0, or the dtype or device is not known.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.ones(...) end

--- Nothing is written to the memory: read it only after writing. Raises where a size is no whole number from 0.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.empty(...) end

--- Raises where a size is no whole number from 0, or the value does not fit the dtype.
---@param sizes integer|integer[]
---@param value number|boolean a boolean gives bool
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32 of numbers
function ty.full(sizes, value, opts) end

--- Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.zeros_like(x, opts) end

--- Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.ones_like(x, opts) end

--- Raises where the first argument is no tensor.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.empty_like(x, opts) end

--- Raises where the first argument is no tensor, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param value number|boolean
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.full_like(x, value, opts) end

--- As NumPy's: the stop is left out. ty.range is Lua's for, with the stop. Raises where the step is 0.
---@param start? number 0
---@param stop number
---@param step? number 1; below 0 it counts down
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [ceil((stop - start) / step)]; f32
---@overload fun(stop: number, opts?: {dtype: tycho.dtype?, device: string?}): tycho.Tensor
function ty.arange(start, stop, step, opts) end

--- Raises where the step is 0.
---@param start? number 1
---@param stop number part of the result where a step hits it
---@param step? number 1; below 0 it counts down
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [floor((stop - start) / step) + 1]; f32
---@overload fun(stop: number, opts?: {dtype: tycho.dtype?, device: string?}): tycho.Tensor
function ty.range(start, stop, step, opts) end

--- Raises where the count is no whole number from 0.
---@param start number
---@param stop number
---@param count integer how many numbers; of one it is the start
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [count]; f32
function ty.linspace(start, stop, count, opts) end

--- Raises where n or m is no whole number from 0.
---@param n integer rows
---@param m? integer columns: n
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [n, m]; f32
function ty.eye(n, m, opts) end

--- Raises where the pointer is a number, or an array too small for the sizes. What the pointer leads to is not checked.
---@param pointer ffi.cdata*|userdata an FFI pointer or array, or light userdata
---@param sizes integer|integer[]
---@param dtype? tycho.dtype f32
---@param anchor? any what must live as long as the tensor: the pointer
---@return tycho.Tensor # these sizes, over that memory: writes are seen on both sides
function ty.from_ptr(pointer, sizes, dtype, anchor) end

------ Random numbers

--- Every call takes the next stream of the seed, compiled or not: the numbers are the same in both, on every machine.
--- Raises where the dtype is no float.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.rand(...) end

--- By Box and Muller's method. Raises where the dtype is no float.
---@param ... integer|integer[]|{dtype: tycho.dtype?, device: string?} the sizes, or a table of them; then options
---@return tycho.Tensor # these sizes; f32 unless opts.dtype says otherwise
function ty.randn(...) end

--- Raises where x is no tensor, or the dtype no float.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.rand_like(x, opts) end

--- Raises where x is no tensor, or the dtype no float.
---@param x tycho.Tensor
---@param opts? {dtype: tycho.dtype?, device: string?} by default those of x
---@return tycho.Tensor # the sizes of x
function ty.randn_like(x, opts) end

--- As math.random: both ends may come. Raises where high lies below low.
---@param low integer
---@param high integer
---@param sizes? integer|integer[] without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; i64
function ty.randint(low, high, sizes, opts) end

--- Raises where n is negative.
---@param n integer
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # [n]; i64, each of 1 to n once
function ty.randperm(n, opts) end

--- Raises where high lies below low, or the dtype is no float.
---@param low number
---@param high number
---@param sizes? integer|integer[] without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32
function ty.uniform(low, high, sizes, opts) end

--- Raises where the deviation is negative, or the dtype no float.
---@param mean number
---@param std number the standard deviation
---@param sizes? integer|integer[] without: one element without dims
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes; f32
function ty.normal(mean, std, sizes, opts) end

--- Raises where a number p lies outside of 0 to 1.
---@param p number|tycho.Tensor a chance, or one for each element
---@param sizes? integer|integer[] left out where p is a tensor
---@param opts? {dtype: tycho.dtype?, device: string?}
---@return tycho.Tensor # these sizes, or those of p; f32
function ty.bernoulli(p, sizes, opts) end

--- Weights need not add up to 1. Raises where more are to be drawn than there are without replacement.
---@param weights tycho.Tensor floats from 0, [count] or [rows, count]
---@param n integer how many are drawn from each row
---@param replacement? boolean false: no position comes twice
---@return tycho.Tensor # [n] or [rows, n]; i64, positions from 1
function ty.multinomial(weights, n, replacement) end

--- Raises where x is no float tensor, or the deviation is negative.
---@param x tycho.Tensor floats
---@param mean? number 0
---@param std? number 1
---@return tycho.Tensor # x itself
function ty.normal_(x, mean, std) end

--- Raises where x is no float tensor, or high lies below low.
---@param x tycho.Tensor floats
---@param low? number 0
---@param high? number 1
---@return tycho.Tensor # x itself
function ty.uniform_(x, low, high) end

--- The generator is Philox4x32-10: its numbers depend on the seed and on how many draws came before, on nothing else.
--- Raises where the seed is no whole number.
---@param seed? integer
function ty.manual_seed(seed) end

--- Raises where the text is none that it gave.
---@param state? string 32 hexadecimal digits
---@return string # the state now
function ty.random_state(state) end

------ Looking at tensors

--- Raises never.
---@param v any
---@return boolean
function ty.is_tensor(v) end

--- The properties x.shape, x.dtype, x.device, x.ndim say the rest. Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer 1-based, negative from the end
---@return integer|integer[]
function ty.size(x, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer 1-based, negative from the end
---@return integer|integer[] # in elements, not bytes
function ty.stride(x, dim) end

--- The same as x.ndim. Raises where x is no tensor.
---@param x tycho.Tensor
---@return integer
function ty.dim(x) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return integer # the product of the sizes; 1 without dims
function ty.numel(x) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return boolean
function ty.is_contiguous(x) end

--- Waits for what computes x. Within a compiled function it ends a part. Raises where x has another number of elements
--- than one, or an i64 is no Lua number exactly. A complex number gives its real and its imaginary part.
---@param x tycho.Tensor of one element
---@return number|boolean value, number? imaginary
function ty.item(x) end

--- Raises where there is not one index for each dim, or one is out of range.
---@param x tycho.Tensor
---@param ... integer one index for each dim, 1-based, negative from the end
---@return number|boolean value, number? imaginary # of a complex number both parts
function ty.get(x, ...) end

--- Raises where there is not one index for each dim, one is out of range, or the value does not fit the dtype.
---@param x tycho.Tensor
---@param ... integer|number|boolean one index for each dim, then the value; of a complex number one part or both
---@return tycho.Tensor # x itself
function ty.set(x, ...) end

--- Raises where x is no tensor, or an i64 is no Lua number exactly.
---@param x tycho.Tensor
---@return table|number|boolean # nested tables, one level a dim; complex numbers are {real, imaginary}
function ty.totable(x) end

--- for i, row in x:rows() do ... end. Rows are views. Raises where x has no dims.
---@param x tycho.Tensor
---@return fun(): integer, tycho.Tensor
function ty.rows(x) end

--- Raises where the precision is no whole number from 0 to 17.
---@param opts {precision: integer?} decimals at most: 4
function ty.set_print(opts) end

--- A pointer that left makes the tensor's memory visible to others for ever: it is read at once, never deferred.
--- PyTorch's x.data, the values without their gradient, is x:detach().
--- Raises where x is on another device than the CPU. Without FFI it gives light userdata.
---@param x tycho.Tensor
---@return ffi.cdata* # to the first element; x:stride() tells where the others lie
function Tensor:data() end

------ Shapes and views

--- Raises where the sizes do not hold as many elements.
---@param x tycho.Tensor
---@param sizes integer|integer[] one by one, or in a table; one may be -1
---@param ... integer the others
---@return tycho.Tensor # these sizes; the dtype of x
function ty.reshape(x, sizes, ...) end

--- Raises where the sizes do not hold as many elements, or the strides need a copy.
---@param x tycho.Tensor
---@param sizes integer|integer[] one by one, or in a table; one may be -1
---@param ... integer the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function ty.view(x, sizes, ...) end

--- Raises where both dtypes have different widths.
---@param x tycho.Tensor
---@param dtype tycho.dtype as wide as that of x
---@return tycho.Tensor # the sizes of x, in that dtype
function ty.view_as(x, dtype) end

--- Raises where a dim that is not 1 would change.
---@param x tycho.Tensor
---@param sizes integer|integer[] one by one, or in a table; new dims stand in front
---@param ... integer the others
---@return tycho.Tensor # these sizes, sharing the memory of x
function ty.expand(x, sizes, ...) end

--- Raises where a dim is missing, given twice or out of range.
---@param x tycho.Tensor
---@param dims integer|integer[] every dim once, one by one or in a table
---@param ... integer the others
---@return tycho.Tensor # a view
function ty.permute(x, dims, ...) end

--- Raises where a dim is given twice or out of range, or the lists differ in length.
---@param x tycho.Tensor
---@param from integer|integer[]
---@param to integer|integer[] where those dims are in the result
---@return tycho.Tensor # a view
function ty.movedim(x, from, to) end

--- Raises where a dim is out of range.
---@param x tycho.Tensor
---@param dim1 integer
---@param dim2 integer
---@return tycho.Tensor # a view
function ty.transpose(x, dim1, dim2) end

--- Raises where x has more than two dims.
---@param x tycho.Tensor [n, m]; a vector stays as it is
---@return tycho.Tensor # [m, n], a view
function ty.t(x) end

--- Raises where the places are out of range.
---@param x tycho.Tensor
---@param dim integer
---@param start integer the first place, 1-based
---@param length integer how many places, from 0
---@return tycho.Tensor # a view with `length` places in that dim
function ty.narrow(x, dim, start, length) end

--- The same as x[{ ..., {first, last, step}, ... }]. Raises where a place is out of range or the step is 0.
---@param x tycho.Tensor
---@param dim integer
---@param first integer negative from the end
---@param last integer included where a step hits it; negative from the end
---@param step? integer 1; below 0 it goes down
---@return tycho.Tensor # a view
function ty.slice(x, dim, first, last, step) end

--- Raises where a dim that is named is not of size 1.
---@param x tycho.Tensor
---@param dims? integer|integer[] all of size 1
---@param ... integer the others, where they stand one by one
---@return tycho.Tensor # a view
function ty.squeeze(x, dims, ...) end

--- Raises where the place is out of range.
---@param x tycho.Tensor
---@param dim integer where the new dim will be, 1 to ndim + 1; negative from the end
---@return tycho.Tensor # a view
function ty.unsqueeze(x, dim) end

--- Raises where a dim is out of range, or the first lies behind the last.
---@param x tycho.Tensor
---@param first? integer 1
---@param last? integer the last
---@return tycho.Tensor # a view where strides allow it, else a copy
function ty.flatten(x, first, last) end

--- Raises where the sizes do not make up the dim.
---@param x tycho.Tensor
---@param dim integer
---@param sizes integer|integer[] one by one, or in a table; one may be -1
---@param ... integer the others
---@return tycho.Tensor # a view
function ty.unflatten(x, dim, sizes, ...) end

--- Raises where the size is larger than the dim, or the step below 1.
---@param x tycho.Tensor
---@param dim integer
---@param size integer places of a window
---@param step? integer from one window to the next: 1
---@return tycho.Tensor # a view: floor((n - size) / step) + 1 windows in that dim, `size` in a new last one
function ty.unfold(x, dim, size, step) end

--- Raises where the sizes do not add up to the dim, or one is negative.
---@param x tycho.Tensor
---@param size integer|integer[]
---@param dim? integer 1
---@return tycho.Tensor[] # views
function ty.split(x, size, dim) end

--- Raises where n is below 1.
---@param x tycho.Tensor
---@param n integer at most so many
---@param dim? integer 1
---@return tycho.Tensor[] # views of ceil(size / n) places, the last one of what is left
function ty.chunk(x, n, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer 1
---@return tycho.Tensor[] # views, one for each place
function ty.unbind(x, dim) end

--- Raises where a dim is out of range, or both are the same.
---@param x tycho.Tensor at least two dims
---@param offset? integer 0; above 0: above the main diagonal
---@param dim1? integer 1
---@param dim2? integer 2
---@return tycho.Tensor # a view; the diagonal is the last dim
function ty.diagonal(x, offset, dim1, dim2) end

--- Raises where a dim is out of range or given twice.
---@param x tycho.Tensor
---@param dims? integer|integer[] all
---@param ... integer the others, where they stand one by one
---@return tycho.Tensor # a view
function ty.flip(x, dims, ...) end

------ Complex numbers

--- Memory and gradient are the same: what is written to one is seen in the other.
--- Raises where x is of reals, or has 8 dims.
---@param x tycho.Tensor c64 or c128
---@return tycho.Tensor # [..., 2], f32 or f64: the real and the imaginary part
function ty.view_as_real(x) end

--- Memory and gradient are the same: what is written to one is seen in the other.
--- Raises where x is neither f32 nor f64, its last dim is not 2, or the two do not lie side by side.
---@param x tycho.Tensor [..., 2], f32 or f64
---@return tycho.Tensor # without the last dim; c64 or c128
function ty.view_as_complex(x) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function ty.real(x) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes of x; f32 of c64, f64 of c128
function ty.imag(x) end

--- Raises nothing: what is no tensor is not.
---@param x any
---@return boolean
function ty.is_complex(x) end

------ Joining, repeating, moving

--- Dtypes are promoted. Raises where the list is empty, or sizes differ in another dim.
---@param list tycho.Tensor[]
---@param dim? integer 1
---@return tycho.Tensor # the sizes of that dim added up
function ty.cat(list, dim) end

--- Raises where the list is empty, or sizes differ.
---@param list tycho.Tensor[]
---@param dim? integer where the new dim will be: 1
---@return tycho.Tensor # one dim more, as long as the list
function ty.stack(list, dim) end

--- A number stands for a pair of it: {1, 2} is {{1, 1}, {2, 2}}. That is not PyTorch's list, which begins with the last
--- dim: its F.pad(x, (1, 2)) is x:pad({..., {1, 2}}) here, with {0, 0} for each dim before the last.
--- Raises where there are more pairs than dims, or a number is negative.
---@param x tycho.Tensor
---@param pairs (integer|{[1]: integer, [2]: integer})[] {before, after} of dim 1, 2, ...
---@param value? number 0
---@return tycho.Tensor # each dim longer by before + after
function ty.pad(x, pairs, value) end

--- Raises where shifts and dims differ in number, or a dim is out of range.
---@param x tycho.Tensor
---@param shifts integer|integer[]
---@param dims? integer|integer[] flattened, and back
---@return tycho.Tensor # the sizes of x
function ty.roll(x, shifts, dims) end

--- Raises where a count is negative.
---@param x tycho.Tensor
---@param counts integer|integer[] more of them than dims: new dims in front
---@return tycho.Tensor # each size times its count
function ty.tile(x, counts) end

--- Raises where a count is negative, or counts are not as many as places.
---@param x tycho.Tensor
---@param count integer|tycho.Tensor one for all, or an integer tensor of one for each place
---@param dim? integer flattened
---@return tycho.Tensor # that dim as long as the counts add up to
function ty.repeat_interleave(x, count, dim) end

--- Raises where an index is no integer tensor, or out of range (named with its place).
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] integers from 1, negative from the end; as many dims as x
---@return tycho.Tensor # the sizes of the index; y[i][j] = x[index[i][j]][j] for dim 1
function ty.gather(x, dim, index) end

--- Raises where an index is no integer tensor, or out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] integers from 1; as many dims as x
---@param src tycho.Tensor|number at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function ty.scatter(x, dim, index, src) end

--- The order of the sums is that of the index, on every machine. Raises where an index is no integer tensor, or out of
--- range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] integers from 1; as many dims as x
---@param src tycho.Tensor|number at least as large as the index
---@return tycho.Tensor # the sizes and dtype of x
function ty.scatter_add(x, dim, index, src) end

--- Raises where an index is no integer, or out of range.
---@param x tycho.Tensor
---@param dim integer
---@param index tycho.Tensor|integer[] integers from 1, negative from the end; one dim
---@return tycho.Tensor # that dim as long as the index
function ty.index_select(x, dim, index) end

--- Raises where an index is no integer, or out of range.
---@param x tycho.Tensor
---@param index tycho.Tensor|integer[] integers from 1, negative from the end
---@param dim? integer flattened; with it the same as index_select
---@return tycho.Tensor # the sizes of the index
function ty.take(x, index, dim) end

--- The same as x[mask]. Reads data: a compiled function goes on in another part behind it. Raises where the mask is not
--- bool, or does not broadcast to x.
---@param x tycho.Tensor
---@param mask tycho.Tensor bool, broadcasts to x
---@return tycho.Tensor # [count]
function ty.masked_select(x, mask) end

--- Reads data: a compiled function goes on in another part behind it. Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # [count, ndim]; i64, positions from 1
function ty.nonzero(x) end

--- An element of a where the condition holds, of b elsewhere. Raises where sizes do not broadcast.
---@param condition tycho.Tensor|boolean bool; of another dtype: not zero
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of all three, broadcast; the dtypes of a and b, promoted
function ty.where(condition, a, b) end

------ Sorting and searching

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer the last
---@param descending? boolean false; equal elements keep their order in both
---@return tycho.Tensor values, tycho.Tensor positions # the sizes of x; positions are i64 from 1
function ty.sort(x, dim, descending) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim? integer the last
---@param descending? boolean false
---@return tycho.Tensor # the sizes of x; i64, positions from 1
function ty.argsort(x, dim, descending) end

--- Raises where k is larger than the dim.
---@param x tycho.Tensor
---@param k integer
---@param dim? integer the last
---@param largest? boolean true
---@return tycho.Tensor values, tycho.Tensor positions # k places in that dim; positions are i64 from 1
function ty.topk(x, k, dim, largest) end

--- Without options the elements of the whole of x, in ascending order.
--- Options: dim: the different places of it; sorted = true: in ascending (lexicographic) order, false: in the order in
--- which they come; counts = false: a third result, how often each comes. Reads data: a compiled function goes on in
--- another part behind it. Raises where x is no tensor or the dim is out of range.
---@param x tycho.Tensor flattened, without a dim
---@param opts? {dim: integer?, sorted: boolean?, counts: boolean?}
---@return tycho.Tensor values, tycho.Tensor positions, tycho.Tensor? counts # [count], or x with `count` places along
--- dim; and in the shape of x, or of the dim, the place of each among them, i64
function ty.unique(x, opts) end

--- Rows must be in ascending order; that is not checked. Raises where leading sizes differ.
---@param sorted tycho.Tensor [n] or [..., n]
---@param values tycho.Tensor|number any shape for [n], else [..., m]
---@param right? boolean false: before equal elements; true: behind them
---@return tycho.Tensor # the sizes of values; i64, places from 1 to n + 1
function ty.searchsorted(sorted, values, right) end

------ Reductions

--- The order of the sum depends on the shape alone: the bits are the same for any layout, machine and number of threads.
--- Raises where a dim is out of range or given twice, or the list is empty.
---@param x tycho.Tensor
---@param dims? integer|integer[] all
---@param keepdim? boolean false: the dims go; true: they stay with size 1
---@return tycho.Tensor # x without the dims; integers and bool give i64; 0 of nothing
function ty.sum(x, dims, keepdim) end

--- Raises where a dim is out of range or given twice, or the list is empty.
---@param x tycho.Tensor
---@param dims? integer|integer[] all
---@param keepdim? boolean false
---@return tycho.Tensor # x without the dims; integers and bool give i64; 1 of nothing
function ty.prod(x, dims, keepdim) end

--- The gradient is shared equally by those that are largest. Raises where a dim is out of range, or nothing is to be
--- chosen from. One result: positions are argmax.
---@param x tycho.Tensor
---@param dims? integer|integer[] all
---@param keepdim? boolean false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.max(x, dims, keepdim) end

--- The gradient is shared equally by those that are smallest. Raises where a dim is out of range, or nothing is to be
--- chosen from. One result: positions are argmin.
---@param x tycho.Tensor
---@param dims? integer|integer[] all
---@param keepdim? boolean false
---@return tycho.Tensor # x without the dims; the dtype of x
function ty.min(x, dims, keepdim) end

--- Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer flattened
---@param keepdim? boolean false
---@return tycho.Tensor # x without the dim; i64, from 1
function ty.argmax(x, dim, keepdim) end

--- Raises where the dim is out of range, or nothing is to be chosen from.
---@param x tycho.Tensor
---@param dim? integer flattened
---@param keepdim? boolean false
---@return tycho.Tensor # x without the dim; i64, from 1
function ty.argmin(x, dim, keepdim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function ty.cumsum(x, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers and bool give i64
function ty.cumprod(x, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function ty.cummax(x, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer may be left out for a vector
---@return tycho.Tensor # the sizes and dtype of x
function ty.cummin(x, dim) end

--- Raises where the dim is out of range.
---@param x tycho.Tensor
---@param dim integer may be left out for a vector
---@return tycho.Tensor # the sizes of x; integers give the default float
function ty.logcumsumexp(x, dim) end

------ Products

--- Sums go in blocks of 256 by fused multiply-add: the bits are the same for any machine and number of threads.
--- Raises where inner sizes differ or leading dims do not broadcast.
---@param a tycho.Tensor [..., n, k], or a vector [k]
---@param b tycho.Tensor [..., k, m], or a vector [k]
---@return tycho.Tensor # [..., n, m]; a vector's dim is left out; dtypes promoted, half floats are added in f32
function ty.matmul(a, b) end

--- What matmul, einsum and tensordot stand on. Raises where the dims do not fit each other.
---@param a tycho.Tensor [lead..., rows..., summed...]
---@param b tycho.Tensor [lead..., summed..., columns...]
---@param lead integer how many leading dims both share
---@param summed integer how many dims are summed
---@return tycho.Tensor # [lead..., rows..., columns...]
function ty.contract(a, b, lead, summed) end

------ Comparison and bits

--- Operators such as < give Lua booleans, so comparisons are methods. Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.gt(a, b) end

--- Raises where sizes do not broadcast.
---@param a tycho.Tensor|number
---@param b tycho.Tensor|number
---@return tycho.Tensor # the sizes of a and b, broadcast; bool
function ty.ge(a, b) end

------ Copies, dtypes, memory

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # the sizes and dtype of x; gradients flow through
function ty.clone(x) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself, or a copy
function ty.contiguous(x) end

--- Conversion of floats to integers cuts off and keeps within the range; NaN gives 0. Gives nil and a message where the
--- device is not there. Raises where the dtype is not known.
---@param x tycho.Tensor
---@param where tycho.dtype|string|tycho.Tensor "f16", "cuda:0", or a tensor whose dtype and device are taken
---@return tycho.Tensor? x, string? message # the sizes of x
function ty.to(x, where) end

--- Raises where y does not broadcast to x, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param y tycho.Tensor|number|boolean
---@return tycho.Tensor # x itself
function ty.copy_(x, y) end

--- Raises where the value does not fit the dtype, or x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@param value number|boolean|tycho.Tensor a tensor: of one element
---@return tycho.Tensor # x itself
function ty.fill_(x, value) end

--- Raises where x is a leaf that requires a gradient.
---@param x tycho.Tensor
---@return tycho.Tensor # x itself
function ty.zero_(x) end

--- The collector is told of a tensor's bytes and frees it in time; this frees it now. Raises where x is no tensor; using
--- x afterwards raises, too.
---@param x tycho.Tensor
function ty.release(x) end

--- Raises where fn is no function, and what fn raises.
---@param fn fun(...): ...
---@param ... any
---@return any ... # what fn gives
function ty.scope(fn, ...) end

------ Gradients

--- As PyTorch's. Raises where x is not of floats, or on = false and x is the result of an operation.
---@param x tycho.Tensor floats
---@param on? boolean true
---@return tycho.Tensor # x itself
function ty.requires_grad_(x, on) end

--- Raises where x is no tensor.
---@param x tycho.Tensor
---@return tycho.Tensor # a view of x
function ty.detach(x) end

------ Settings and devices

--- Without an argument nothing changes. Raises where it is no float dtype.
---@param name? "f16"|"bf16"|"f32"|"f64"
---@return tycho.dtype # the default so far
function ty.default_dtype(name) end

--- Results do not depend on it. Raises where n lies outside of 1 to 1024.
---@param n? integer by default as many as the process may use
---@return integer # how many there are now
function ty.threads(n) end

--- Compiled equals eager in both; without it products are Tycho's own, the same on every machine. Gives nil and a
--- message where OpenBLAS is not there. Raises where the argument is no boolean.
---@param on? boolean
---@return boolean? on, string? message
function ty.blas(on) end

--- Raises for other names.
---@param name? "exact"|"fast"|"tf32"
---@return string # the precision so far
function ty.precision(name) end

--- Raises where the argument is no boolean.
---@param on? boolean
---@return boolean # whether it is on
function ty.deterministic(on) end

--- Gives nil and a message where the device is not there.
---@param name? string "cpu", "cuda:0"
---@return string? name, string? message
function ty.device(name) end

--- On the CPU there is nothing to wait for. Raises what went wrong on a device.
function ty.synchronize() end

--- Raises never. A table that prints well.
---@return table # what is allocated, cached, compiled, run; bytes and counts
function ty.stats() end

------ Linear algebra

--- Stands on OpenBLAS's LAPACK: `make deps` installs it. All of ty.linalg takes complex matrices, too; a transpose is
--- the conjugate one there. Raises where the library is missing, sizes do not fit, or a matrix is singular.
---@param a tycho.Tensor [..., n, n]
---@param b tycho.Tensor [..., n] or [..., n, m]
---@return tycho.Tensor # the sizes of b; floats, half floats by way of f32
function ty.linalg.solve(a, b) end

--- Raises where a matrix is not square, or singular, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor # [..., n, n]
function ty.linalg.inv(a) end

--- Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor # [...]; 0 of a singular matrix
function ty.linalg.det(a) end

--- Less in danger of overflow than the determinant. Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor sign, tycho.Tensor logarithm # [...] each; 0 and -inf of a singular matrix
function ty.linalg.slogdet(a) end

--- Raises where a has fewer than two dims, or OpenBLAS is missing; in the backward pass where matrices are not square.
---@param a tycho.Tensor [..., n, m]
---@return tycho.Tensor p, tycho.Tensor l, tycho.Tensor u # [..., n, n], [..., n, k] and [..., k, m], k = min(n, m)
function ty.linalg.lu(a) end

--- Only the lower triangle is read. Raises where a matrix is not positive definite, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor # [..., n, n]
function ty.linalg.cholesky(a) end

--- Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, m]
---@return tycho.Tensor q, tycho.Tensor r # [..., n, k] and [..., k, m], k = min(n, m)
function ty.linalg.qr(a) end

--- Raises where a has fewer than two dims, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, m]
---@return tycho.Tensor u, tycho.Tensor s, tycho.Tensor vt # [..., n, k], [..., k], [..., k, m], k = min(n, m)
function ty.linalg.svd(a) end

--- Only the lower triangle is read. Raises where a matrix is not square, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n], symmetric; complex ones Hermitian
---@return tycho.Tensor values, tycho.Tensor vectors # reals [..., n] and [..., n, n], a column for each value
function ty.linalg.eigh(a) end

--- Of a real matrix, too, the results are complex; eigenvalues that are not real come in conjugate pairs. Each vector
--- has length 1, and its largest component is real. In no order. The gradient needs eigenvalues that differ.
--- Raises where a matrix is not square, holds NaN or infinities, or OpenBLAS is missing; in the backward pass where the
--- loss depends on the vectors' phases, which are arbitrary.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor values, tycho.Tensor vectors # [..., n] and [..., n, n], a column for each value; c64 or c128
function ty.linalg.eig(a) end

--- In no order. Raises where a matrix is not square, holds NaN or infinities, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, n]
---@return tycho.Tensor # [..., n]; c64 or c128
function ty.linalg.eigvals(a) end

--- Raises where rows differ, or OpenBLAS is missing.
---@param a tycho.Tensor [..., n, m], of any rank
---@param b tycho.Tensor [..., n] or [..., n, k]
---@return tycho.Tensor # [..., m] or [..., m, k]
function ty.linalg.lstsq(a, b) end
