--- fourier.lua -- ty.fft: Fourier transforms; windows; transforms of short pieces of a signal (stft, istft).
-- In: the core's row FFT, which works along a dim of f32 or f64, complex numbers being pairs in the last dim; ty.pad,
-- ty.cat. Out: ty.fft.*, which take and give complex tensors; windows, stft and istft among the composites.
--
-- 1. Names, arguments and norms are PyTorch's. A transform of n numbers with "backward" is divided by n on the way
--    back alone, with "forward" on the way there, with "ortho" by the root of n both times.
-- 2. Real lengths go as halves: rfft computes n / 2 + 1 numbers, irfft reads no more.
-- 3. The gradient of a transform is the transposed one, of the same row: see graph.h.
-- Sources: Cooley and Tukey (1965); Stockham (1966); Bluestein (1970); Griffin and Lim (1984) for istft.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row)
  local fail = check.fail
  local reals, numbers, is_complex = ty.view_as_real, ty.view_as_complex, ty.is_complex
  local transform, describe = ty.internals.fft, ty.internals.describe
  local floor, min = math.floor, math.min
  local FORWARD, INVERSE, REAL, HALF = 0, 1, 2, 4
  local divided_there = { backward = 0, forward = 1, ortho = 2 } -- by nothing, n, its root
  local divided_back = { backward = 1, forward = 0, ortho = 2 }
  local M = {}

  --- A member of ty.fft with its line of help.
  local function define(name, args, help, fn)
    M[name] = fn
    describe("fft." .. name, args, help)
  end

  ---------------------------------------------------------------------------------------------------------- arguments

  --- The number of the table's norm.
  local function norm_of(who, norm, table)
    if norm == nil then norm = "backward" end
    local y = table[norm]
    if y then return y end
    return fail(who, "norm must be \"backward\", \"ortho\" or \"forward\", got %s", check.show(norm))
  end

  local known = { n = "number", dim = "number", norm = "string" }
  local known_many = { s = "any", dim = "any", norm = "string" }

  --- n, dim, norm, or a table of them by name.
  local function options(who, n, dim, norm, names)
    if type(n) ~= "table" or (names and not check.is_options(n)) then return n, dim, norm end
    local o = check.options(who, n, names or known)
    return o[names and "s" or "n"], o.dim, o.norm
  end

  local function length(who, n)
    if type(n) == "number" and n % 1 == 0 and n >= 1 and n < 2 ^ 40 then return n end
    return fail(who, "the length n must be a whole number from 1, got %s", check.show(n))
  end

  --- x as floats, or complex: f32 or f64.
  local function wide(who, x)
    check.tensor(who, 1, x)
    local dtype = x.dtype
    if dtype == "f32" or dtype == "f64" or is_complex(x) then return x end
    if dtype == "f16" or dtype == "bf16" then return x:to "f32" end
    local float = ty.default_dtype()
    return x:to(float == "f64" and "f64" or "f32")
  end

  local function real(who, x)
    x = wide(who, x)
    if is_complex(x) then fail(who, "argument 1 must be real, got %s", check.text(x)) end
    return x
  end

  --- x's numbers as pairs.
  local function pairs_of(who, x)
    x = wide(who, x)
    if is_complex(x) then return reals(x) end
    return ty.stack({ x, ty.zeros_like(x) }, -1)
  end

  --- Dim d of x cut to n places, or zeros added.
  local function sized(x, d, n)
    local have = x:size(d)
    if have == n then return x end
    if have > n then return x:narrow(d, 1, n) end
    local amounts = {}
    for i = 1, x.ndim do amounts[i] = { 0, i == d and n - have or 0 } end
    return x:pad(amounts)
  end

  local function filled(who, x, d)
    if x:size(d) == 0 then fail(who, "dim %d of %s is empty", d, check.text(x)) end
    return x:size(d)
  end

  --------------------------------------------------------------------------------------------------------- one dim

  --- Complex to complex along dim d of pairs; `last`: as numbers.
  local function complex_along(who, p, d, n, kind, norm, last)
    if n == nil then n = filled(who, p, d) end
    return transform(who, sized(p, d, n), d, kind, norm, nil, last)
  end

  local function complex_one(who, x, n, dim, norm, kind, norms)
    n, dim, norm = options(who, n, dim, norm)
    norm = norm_of(who, norm, norms)
    if n ~= nil then length(who, n) end
    check.tensor(who, 1, x)
    local d = check.dim(who, dim, x.ndim, -1)
    return complex_along(who, pairs_of(who, x), d, n, kind, norm, true)
  end

  --- The first half of a real x's transform, as pairs; `last`: as numbers.
  local function half_of(who, x, d, n, norm, last)
    if n == nil then n = filled(who, x, d) end
    return transform(who, sized(x, d, n), d, REAL, norm, nil, last)
  end

  --- The real numbers that a half, as pairs, is the transform of.
  local function from_half(who, p, d, n, norm)
    if n == nil then
      n = 2 * (filled(who, p, d) - 1)
      if n == 0 then fail(who, "a half of one number comes from none, or from one: give n = 1") end
    end
    return transform(who, sized(p, d, floor(n / 2) + 1), d, HALF, norm, n)
  end

  local function conjugate(p) return ty.stack({ p:select(-1, 1), -p:select(-1, 2) }, -1) end

  local function real_one(who, x, n, dim, norm, norms, last)
    n, dim, norm = options(who, n, dim, norm)
    norm = norm_of(who, norm, norms)
    if n ~= nil then length(who, n) end
    x = real(who, x)
    return half_of(who, x, check.dim(who, dim, x.ndim, -1), n, norm, last)
  end

  local function half_one(who, x, n, dim, norm, norms, turned)
    n, dim, norm = options(who, n, dim, norm)
    norm = norm_of(who, norm, norms)
    if n ~= nil then length(who, n) end
    check.tensor(who, 1, x)
    local d, p = check.dim(who, dim, x.ndim, -1), pairs_of(who, x)
    return from_half(who, turned and conjugate(p) or p, d, n, norm)
  end

  --- fft.fft(x, n = size, dim = -1, norm = "backward"): the discrete Fourier transform, sum over j of
  --- x_j exp(-2 pi i j k / n), along a dim that is first cut, or filled up with zeros, to n.
  --- Raises where x has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor real or complex
  ---@param n? integer|table the size, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by nothing, the root of n, n
  ---@return tycho.Tensor # complex; f16 and bf16 go by way of f32
  define("fft", "x, n = nil, dim = -1, norm = \"backward\"", "the discrete Fourier transform along a dim",
    function(x, n, dim, norm) return complex_one("fft.fft", x, n, dim, norm, FORWARD, divided_there) end)

  --- fft.ifft(x, n = size, dim = -1, norm = "backward"): the inverse of fft.fft along a dim.
  --- Raises where x has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor real or complex
  ---@param n? integer|table the size, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by n, its root, nothing
  ---@return tycho.Tensor # complex
  define("ifft", "x, n = nil, dim = -1, norm = \"backward\"", "the inverse of fft",
    function(x, n, dim, norm) return complex_one("fft.ifft", x, n, dim, norm, INVERSE, divided_back) end)

  --- fft.rfft(x, n = size, dim = -1, norm = "backward"): the first n / 2 + 1 numbers of the transform of a real x; the
  --- others are their conjugates.
  --- Raises where x is complex or has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor real
  ---@param n? integer|table the size, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by nothing, the root of n, n
  ---@return tycho.Tensor # complex, n / 2 + 1 in that dim
  define("rfft", "x, n = nil, dim = -1, norm = \"backward\"", "the first half of a real tensor's Fourier transform",
    function(x, n, dim, norm) return real_one("fft.rfft", x, n, dim, norm, divided_there, true) end)

  --- fft.irfft(x, n = 2 size - 2, dim = -1, norm = "backward"): the real tensor whose transform begins with x. The
  --- imaginary parts of the first number, and of the last for an even n, are not looked at.
  --- Raises where x has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor complex, or real
  ---@param n? integer|table the size of the result, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by n, its root, nothing
  ---@return tycho.Tensor # real, n in that dim
  define("irfft", "x, n = nil, dim = -1, norm = \"backward\"", "the inverse of rfft",
    function(x, n, dim, norm) return half_one("fft.irfft", x, n, dim, norm, divided_back) end)

  --- fft.hfft(x, n = 2 size - 2, dim = -1, norm = "backward"): the transform, which is real, of a Hermitian signal
  --- whose first half is x.
  --- Raises where x has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor complex, or real
  ---@param n? integer|table the size of the result, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by nothing, the root of n, n
  ---@return tycho.Tensor # real, n in that dim
  define("hfft", "x, n = nil, dim = -1, norm = \"backward\"", "the transform of a Hermitian signal by its half",
    function(x, n, dim, norm) return half_one("fft.hfft", x, n, dim, norm, divided_there, true) end)

  --- fft.ihfft(x, n = size, dim = -1, norm = "backward"): the inverse of fft.hfft: half of a Hermitian signal.
  --- Raises where x is complex or has no such dim, the dim is empty, or n is below 1.
  ---@param x tycho.Tensor real
  ---@param n? integer|table the size, or all arguments by name: {n, dim, norm}
  ---@param dim? integer -1
  ---@param norm? "backward"|"ortho"|"forward" divides by n, its root, nothing
  ---@return tycho.Tensor # complex, n / 2 + 1 in that dim
  define("ihfft", "x, n = nil, dim = -1, norm = \"backward\"", "the inverse of hfft",
    function(x, n, dim, norm)
      return numbers(conjugate(real_one("fft.ihfft", x, n, dim, norm, divided_back)))
    end)

  -------------------------------------------------------------------------------------------------------- many dims

  --- The dims to go along, in the order given, and their sizes or nil each.
  local function dims_of(who, rank, s, dims)
    local list, sizes = {}, {}
    if type(s) == "number" then s = { s } end
    if type(dims) == "number" then dims = { dims } end
    if s ~= nil and type(s) ~= "table" then fail(who, "s must be a list of sizes, got %s", check.show(s)) end
    if dims == nil then
      local count = s and #s or rank
      if count > rank then fail(who, "%d sizes for a tensor of %d dims", count, rank) end
      dims = {}
      for i = 1, count do dims[i] = rank - count + i end
    end
    local seen = {}
    for i = 1, #dims do
      local d = check.dim(who, dims[i], rank)
      if seen[d] then fail(who, "dim %d is given twice", d) end
      seen[d], list[i] = true, d
    end
    if #list == 0 then fail(who, "there is no dim to go along") end
    if s and #s ~= #list then fail(who, "%d sizes for %d dims", #s, #list) end
    for i = 1, s and #s or 0 do
      if s[i] ~= -1 then sizes[i] = length(who, s[i]) end
    end
    return list, sizes
  end

  local function complex_many(who, x, s, dims, norm, kind, norms)
    s, dims, norm = options(who, s, dims, norm, known_many)
    norm = norm_of(who, norm, norms)
    check.tensor(who, 1, x)
    local list, sizes = dims_of(who, x.ndim, s, dims)
    local p = pairs_of(who, x)
    for i = #list, 2, -1 do p = complex_along(who, p, list[i], sizes[i], kind, norm) end
    return complex_along(who, p, list[1], sizes[1], kind, norm, true)
  end

  local function real_many(who, x, s, dims, norm)
    s, dims, norm = options(who, s, dims, norm, known_many)
    norm = norm_of(who, norm, divided_there)
    x = real(who, x)
    local list, sizes = dims_of(who, x.ndim, s, dims)
    if #list == 1 then return half_of(who, x, list[1], sizes[1], norm, true) end
    local p = half_of(who, x, list[#list], sizes[#list], norm)
    for i = #list - 1, 2, -1 do p = complex_along(who, p, list[i], sizes[i], FORWARD, norm) end
    return complex_along(who, p, list[1], sizes[1], FORWARD, norm, true)
  end

  local function half_many(who, x, s, dims, norm)
    s, dims, norm = options(who, s, dims, norm, known_many)
    norm = norm_of(who, norm, divided_back)
    check.tensor(who, 1, x)
    local list, sizes = dims_of(who, x.ndim, s, dims)
    local p = pairs_of(who, x)
    for i = 1, #list - 1 do p = complex_along(who, p, list[i], sizes[i], INVERSE, norm) end
    return from_half(who, p, list[#list], sizes[#list], norm)
  end

  --- The same of two dims, the last ones.
  local function of_two(fn)
    return function(x, s, dims, norm)
      if check.is_options(s) then
        if s.dim == nil then
          local o = {}
          for k, v in pairs(s) do o[k] = v end
          o.dim = { -2, -1 }
          s = o
        end
        return fn(x, s)
      end
      return fn(x, s, dims or { -2, -1 }, norm)
    end
  end

  --- fft.fftn(x, s = sizes, dim = all, norm = "backward"): the Fourier transform along several dims, cut or filled up
  --- with zeros to the sizes s; of s alone the last dims.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real or complex
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] all
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex
  define("fftn", "x, s = nil, dim = nil, norm = \"backward\"", "the Fourier transform along several dims",
    function(x, s, dim, norm) return complex_many("fft.fftn", x, s, dim, norm, FORWARD, divided_there) end)

  --- fft.ifftn(x, s = sizes, dim = all, norm = "backward"): the inverse of fft.fftn.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real or complex
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] all
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex
  define("ifftn", "x, s = nil, dim = nil, norm = \"backward\"", "the inverse of fftn",
    function(x, s, dim, norm) return complex_many("fft.ifftn", x, s, dim, norm, INVERSE, divided_back) end)

  --- fft.rfftn(x, s = sizes, dim = all, norm = "backward"): fft.rfft along the last of the dims, then fft.fft along the
  --- others.
  --- Raises where x is complex, a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] all
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex, n / 2 + 1 in the last of the dims
  define("rfftn", "x, s = nil, dim = nil, norm = \"backward\"", "half of a real tensor's transform along several dims",
    function(x, s, dim, norm) return real_many("fft.rfftn", x, s, dim, norm) end)

  --- fft.irfftn(x, s = sizes, dim = all, norm = "backward"): the inverse of fft.rfftn; the last of the dims gets
  --- 2 (size - 1) places, or what s says.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor complex, or real
  ---@param s? integer[]|table sizes of the result, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] all
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # real
  define("irfftn", "x, s = nil, dim = nil, norm = \"backward\"", "the inverse of rfftn",
    function(x, s, dim, norm) return half_many("fft.irfftn", x, s, dim, norm) end)

  --- fft.fft2(x, s = sizes, dim = {-2, -1}, norm = "backward"): the Fourier transform along two dims: see ty.fft.fftn.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real or complex
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] the last two
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex
  define("fft2", "x, s = nil, dim = {-2, -1}, norm = \"backward\"", "the Fourier transform along two dims",
    of_two(function(x, s, dim, norm)
      return complex_many("fft.fft2", x, s, dim, norm, FORWARD, divided_there)
    end))

  --- fft.ifft2(x, s = sizes, dim = {-2, -1}, norm = "backward"): the inverse of fft.fft2.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real or complex
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] the last two
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex
  define("ifft2", "x, s = nil, dim = {-2, -1}, norm = \"backward\"", "the inverse of fft2",
    of_two(function(x, s, dim, norm)
      return complex_many("fft.ifft2", x, s, dim, norm, INVERSE, divided_back)
    end))

  --- fft.rfft2(x, s = sizes, dim = {-2, -1}, norm = "backward"): fft.rfft along the last of two dims, then fft.fft
  --- along the other.
  --- Raises where x is complex, a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor real
  ---@param s? integer[]|table sizes, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] the last two
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # complex, n / 2 + 1 in the last of the dims
  define("rfft2", "x, s = nil, dim = {-2, -1}, norm = \"backward\"",
    "half of a real tensor's Fourier transform along two dims",
    of_two(function(x, s, dim, norm) return real_many("fft.rfft2", x, s, dim, norm) end))

  --- fft.irfft2(x, s = sizes, dim = {-2, -1}, norm = "backward"): the inverse of fft.rfft2.
  --- Raises where a dim is given twice or is empty, or s and dim differ in number.
  ---@param x tycho.Tensor complex, or real
  ---@param s? integer[]|table sizes of the result, -1: as it is; or all arguments by name: {s, dim, norm}
  ---@param dim? integer|integer[] the last two
  ---@param norm? "backward"|"ortho"|"forward"
  ---@return tycho.Tensor # real
  define("irfft2", "x, s = nil, dim = {-2, -1}, norm = \"backward\"", "the inverse of rfft2",
    of_two(function(x, s, dim, norm) return half_many("fft.irfft2", x, s, dim, norm) end))

  ------------------------------------------------------------------------------------------------- frequencies, order

  --- Frequencies, whole numbers by n d.
  local function frequencies(who, n, d, opts, make)
    length(who, n)
    if type(d) == "table" and opts == nil then d, opts = nil, d end
    d = check.number(who, 2, d, "d", 1)
    opts = check.options(who, opts, { dtype = "string", device = "string" })
    local whole = make { dtype = "f64", device = opts.device }
    return (whole / (n * d)):to(opts.dtype or ty.default_dtype())
  end

  --- fft.fftfreq(n, d = 1, {dtype, device}): the frequencies of fft.fft's numbers: 0, 1, ... then the negative ones, by
  --- n d.
  --- Raises where n is no whole number from 1.
  ---@param n integer the length of the transform
  ---@param d? number the distance of samples
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n], cycles per unit of d
  define("fftfreq", "n, d = 1, {dtype, device}", "the frequencies of fft's numbers", function(n, d, opts)
    return frequencies("fft.fftfreq", n, d, opts, function(o)
      return ty.cat { ty.arange(0, floor((n + 1) / 2), o), ty.arange(-floor(n / 2), 0, o) }
    end)
  end)

  --- fft.rfftfreq(n, d = 1, {dtype, device}): the frequencies of fft.rfft's numbers: 0 to n / 2, by n d.
  --- Raises where n is no whole number from 1.
  ---@param n integer the length of the transform
  ---@param d? number the distance of samples
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n / 2 + 1], cycles per unit of d
  define("rfftfreq", "n, d = 1, {dtype, device}", "the frequencies of rfft's numbers", function(n, d, opts)
    return frequencies("fft.rfftfreq", n, d, opts, function(o) return ty.arange(0, floor(n / 2) + 1, o) end)
  end)

  --- Each dim turned by half of its size, rounded down or up.
  local function shifted(who, x, dims, sign)
    check.tensor(who, 1, x)
    local list, shifts = check.dims(who, dims, x.ndim), {}
    if not list then
      list = {}
      for d = 1, x.ndim do list[d] = d end
    end
    if #list == 0 then return x end
    for i, d in ipairs(list) do shifts[i] = sign * floor(x:size(d) / 2) end
    return ty.roll(x, shifts, list)
  end

  --- fft.fftshift(x, dim = all): the frequency 0 in the middle of each dim.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dim? integer|integer[] all
  ---@return tycho.Tensor # shape of x
  define("fftshift", "x, dim = nil", "the frequency 0 in the middle", function(x, dim)
    return shifted("fft.fftshift", x, dim, 1)
  end)

  --- fft.ifftshift(x, dim = all): the inverse of fft.fftshift.
  --- Raises where a dim is out of range or given twice.
  ---@param x tycho.Tensor
  ---@param dim? integer|integer[] all
  ---@return tycho.Tensor # shape of x
  define("ifftshift", "x, dim = nil", "the inverse of fftshift", function(x, dim)
    return shifted("fft.ifftshift", x, dim, -1)
  end)

  ty.fft = M

  ------------------------------------------------------------------------------------------------------------ windows

  --- A window of n numbers: make(k, m) of k = 0 .. n - 1, where it ends at m; computed in f64.
  local function window(who, n, periodic, opts, make)
    if type(periodic) == "table" and opts == nil then periodic, opts = nil, periodic end
    n = check.whole(who, 1, n, "n")
    if n < 0 or n >= 2 ^ 40 then fail(who, "the length must not be negative, got %.14g", n) end
    periodic = check.boolean(who, 2, periodic, "periodic", true)
    opts = check.options(who, opts, { dtype = "string", device = "string" })
    local dtype = opts.dtype or ty.default_dtype()
    local last = check.named(who, "ones", ty.ones, math.min(n, 1), { dtype = dtype, device = opts.device })
    if n < 2 then return last end
    return make(ty.arange(n, { dtype = "f64", device = opts.device }), periodic and n or n - 1):to(dtype)
  end

  --- c1 - c2 cos(t) + c3 cos(2 t), t one turn in m places.
  local function cosines(k, m, a, b, c)
    local t = k * (2 * math.pi / m)
    local y = a - b * ty.cos(t)
    return c and y + c * ty.cos(t * 2) or y
  end

  --- Hann's window, 0.5 - 0.5 cos(2 pi k / n).
  --- Raises where n is negative or no whole number.
  ---@param n integer its length
  ---@param periodic? boolean true: of period n, for transforms; false: symmetric
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n]
  local function hann_window(n, periodic, opts)
    return window("hann_window", n, periodic, opts, function(k, m) return cosines(k, m, 0.5, 0.5) end)
  end

  --- Hamming's window, 0.54 - 0.46 cos(2 pi k / n).
  --- Raises where n is negative or no whole number.
  ---@param n integer its length
  ---@param periodic? boolean true: of period n, for transforms; false: symmetric
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n]
  local function hamming_window(n, periodic, opts)
    return window("hamming_window", n, periodic, opts, function(k, m) return cosines(k, m, 0.54, 0.46) end)
  end

  --- Blackman's window, 0.42 - 0.5 cos(2 pi k / n) + 0.08 cos(4 pi k / n).
  --- Raises where n is negative or no whole number.
  ---@param n integer its length
  ---@param periodic? boolean true: of period n, for transforms; false: symmetric
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n]
  local function blackman_window(n, periodic, opts)
    return window("blackman_window", n, periodic, opts, function(k, m) return cosines(k, m, 0.42, 0.5, 0.08) end)
  end

  --- Bartlett's window, a triangle.
  --- Raises where n is negative or no whole number.
  ---@param n integer its length
  ---@param periodic? boolean true: of period n, for transforms; false: symmetric
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n]
  local function bartlett_window(n, periodic, opts)
    return window("bartlett_window", n, periodic, opts, function(k, m) return 1 - ty.abs(k * (2 / m) - 1) end)
  end

  --- Kaiser's window, i0(beta sqrt(1 - (2 k / n - 1)^2)) / i0(beta).
  --- Raises where n is negative or no whole number.
  ---@param n integer its length
  ---@param periodic? boolean true: of period n, for transforms; false: symmetric
  ---@param beta? number 12: how steep it is
  ---@param opts? {dtype: string?, device: string?}
  ---@return tycho.Tensor # [n]
  local function kaiser_window(n, periodic, beta, opts)
    if type(beta) == "table" and opts == nil then beta, opts = nil, beta end
    beta = check.number("kaiser_window", 3, beta, "beta", 12)
    return window("kaiser_window", n, periodic, opts, function(k, m)
      local r = k * (2 / m) - 1
      return ty.i0(ty.sqrt(1 - r * r) * beta) / ty.i0(ty.full({}, beta, { dtype = "f64", device = k.device }))
    end)
  end

  ------------------------------------------------------------------------------------------------- pieces of a signal

  local pieces = { hop_length = "number", win_length = "number", window = "any", center = "boolean",
    pad_mode = "string", normalized = "boolean", onesided = "boolean", return_complex = "boolean" }
  local pieces_back = { hop_length = "number", win_length = "number", window = "any", center = "boolean",
    normalized = "boolean", onesided = "boolean", length = "number", return_complex = "boolean" }

  --- hop_length, and the window in n places, nil: none.
  local function framing(who, n, o, like)
    length(who, n)
    local size = o.win_length or n
    local hop = o.hop_length or floor(n / 4)
    if hop % 1 ~= 0 or hop < 1 then fail(who, "hop_length must be a whole number from 1, got %.14g", hop) end
    if size % 1 ~= 0 or size < 1 or size > n then
      fail(who, "win_length must be a whole number from 1 to n_fft = %d, got %.14g", n, size)
    end
    local w = o.window
    if w == nil and size < n then w = ty.ones(size, { dtype = like.dtype, device = like.device }) end
    if w == nil then return hop, size end
    check.tensor(who, 3, w)
    if w.ndim ~= 1 or w:size(1) ~= size then
      fail(who, "the window must be [%d], as long as win_length, got %s", size, check.text(w))
    end
    if w.dtype ~= like.dtype then w = w:to(like.dtype) end
    local before = floor((n - size) / 2)
    if size < n then w = w:pad { { before, n - size - before } } end
    return hop, size, w
  end

  -- luacheck: push ignore 631

  --- Transforms of short pieces of a signal: piece t are n_fft places from t hop_length on, times the window. As
  --- torch.stft.
  --- Raises where x has not one or two dims or is shorter than a piece, or an option does not fit.
  ---@param x tycho.Tensor real or complex [places] or [batch, places]
  ---@param n_fft integer the places of a piece
  ---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, pad_mode: "reflect"|"replicate"|"circular"|"constant"|nil, normalized: boolean?, onesided: boolean?, return_complex: boolean?} n_fft / 4; n_fft; none; true: piece t has its middle at t hop_length, x is padded; "reflect"; false: divided by the root of n_fft; true for real x; true, false: pairs
  ---@return tycho.Tensor # complex [..., frequencies, pieces]
  local function stft(x, n_fft, opts)
    local who = "stft"
    x = wide(who, x)
    local o = check.options(who, opts, pieces)
    local complex = is_complex(x)
    if x.ndim ~= 1 and x.ndim ~= 2 then fail(who, "needs [places] or [batch, places], got %s", check.text(x)) end
    length(who, n_fft)
    local one = complex and x:real() or x
    local hop, _, w = framing(who, n_fft, o, one)
    local onesided = o.onesided
    if onesided == nil then onesided = not complex end
    if onesided and complex then fail(who, "a complex signal has no half of a transform (onesided = false)") end
    local flat = x.ndim == 1
    if flat then x = x:unsqueeze(1) end
    if o.center ~= false then
      local mode, by, size = o.pad_mode or "reflect", floor(n_fft / 2), x:size(2)
      local pad = mode == "constant" or ty.nn._padding_modes[mode]
      if not pad then
        fail(who, "pad_mode must be \"reflect\", \"replicate\", \"circular\" or \"constant\", got %s", check.show(mode))
      end
      local most = mode == "reflect" and size - 1 or mode == "circular" and size or size > 0 and by or 0
      if mode ~= "constant" and by > most then
        fail(who, "padding %d on both sides by %s needs more than %d places", by, mode, size)
      end
      x = mode == "constant" and x:pad { { 0, 0 }, { by, by } } or pad(x, 2, by, by)
    end
    if x:size(2) < n_fft then fail(who, "n_fft = %d is more than the %d places of the signal", n_fft, x:size(2)) end
    local norm = o.normalized and 2 or 0
    local p
    if complex then
      p = reals(x):unfold(2, n_fft, hop):transpose(-1, -2) -- [batch, pieces, n_fft, 2]
      if w then p = p * w:unsqueeze(-1) end
      p = transform(who, p, 3, FORWARD, norm)
    else
      p = x:unfold(2, n_fft, hop)
      if w then p = p * w end
      p = onesided and transform(who, p, 3, REAL, norm) or transform(who, pairs_of(who, p), 3, FORWARD, norm)
    end
    p = p:transpose(2, 3)
    if flat then p = p:squeeze(1) end
    if o.return_complex == false then return p end
    return numbers(p:contiguous())
  end

  --- The pieces [batch, pieces, n] added up where they lie: [batch, places].
  local function overlapped(x, hop)
    local batch, count, n = x:size(1), x:size(2), x:size(3)
    local whole = { dtype = "i64", device = x.device }
    local at = (ty.arange(count, whole) * hop):unsqueeze(2) + ty.arange(1, n + 1, whole)
    local zeros = ty.zeros({ batch, (count - 1) * hop + n }, { dtype = x.dtype, device = x.device })
    return zeros:scatter_add(2, at:reshape(1, -1):expand(batch, count * n), x:reshape(batch, -1))
  end

  --- The signal whose pieces have these transforms, in the sense of least squares: the inverse of ty.stft. As
  --- torch.istft; places that no window reaches are NaN, where PyTorch raises.
  --- Raises where x has not the frequencies of n_fft, or an option does not fit.
  ---@param x tycho.Tensor complex [..., frequencies, pieces], or pairs of reals in one more dim
  ---@param n_fft integer the places of a piece
  ---@param opts? {hop_length: integer?, win_length: integer?, window: tycho.Tensor?, center: boolean?, normalized: boolean?, onesided: boolean?, length: integer?, return_complex: boolean?} as ty.stft was given; length: the places of the result; return_complex: false
  ---@return tycho.Tensor # real [places] or [batch, places]
  local function istft(x, n_fft, opts)
    local who = "istft"
    x = wide(who, x)
    local o = check.options(who, opts, pieces_back)
    local p = is_complex(x) and reals(x) or x
    if (p.ndim ~= 3 and p.ndim ~= 4) or p:size(-1) ~= 2 then
      fail(who, "needs complex [frequencies, pieces] or [batch, frequencies, pieces], got %s", check.text(x))
    end
    local hop, size, w = framing(who, n_fft, o, p)
    if hop > size then fail(who, "hop_length %d leaves places between windows of %d", hop, size) end
    local flat = p.ndim == 3
    if flat then p = p:unsqueeze(1) end
    local complex = o.return_complex == true
    local onesided = o.onesided
    if onesided == nil then onesided = p:size(2) ~= n_fft end
    if onesided and complex then fail(who, "half of a transform is that of a real signal (return_complex = false)") end
    local want = onesided and floor(n_fft / 2) + 1 or n_fft
    if p:size(2) ~= want or p:size(3) == 0 then
      fail(who, "needs %d frequencies of some pieces for n_fft = %d, got %s", want, n_fft, check.text(x))
    end
    p = p:transpose(2, 3)
    local norm = o.normalized and 2 or 1
    local function signal(v)
      if w then v = v * w end
      return overlapped(v, hop)
    end
    local parts
    if complex then
      p = transform(who, p, 3, INVERSE, norm)
      parts = { signal(p:select(-1, 1)), signal(p:select(-1, 2)) }
    else
      parts = { signal(transform(who, p:narrow(3, 1, floor(n_fft / 2) + 1), 3, HALF, norm, n_fft)) }
    end
    local count = p:size(2)
    local square = w and w * w or ty.ones(n_fft, { dtype = p.dtype, device = p.device })
    local weight = overlapped(square:unsqueeze(1):expand(count, n_fft):unsqueeze(1), hop)
    local first = o.center ~= false and floor(n_fft / 2) or 0
    local have = (count - 1) * hop + n_fft
    local wanted = o.length or have - (o.center ~= false and 2 * first or 0)
    if wanted % 1 ~= 0 or wanted < 0 then fail(who, "length must be a whole number from 0, got %.14g", wanted) end
    local got = min(wanted, have - first)
    for i, v in ipairs(parts) do
      v = v:narrow(2, first + 1, got) / weight:narrow(2, first + 1, got)
      if got < wanted then v = v:pad { { 0, 0 }, { 0, wanted - got } } end
      parts[i] = flat and v:squeeze(1) or v
    end
    return complex and numbers(ty.stack(parts, -1)) or parts[1]
  end

  -- luacheck: pop

  local function made(name, fn, args, help)
    row { name, args, fn, help, shape = "[n]", dtype = "default float", only = "module", single = true }
  end
  made("hann_window", hann_window, "n, periodic = true, {dtype, device}", "Hann's window: one turn of a raised cosine")
  made("hamming_window", hamming_window, "n, periodic = true, {dtype, device}", "Hamming's window")
  made("blackman_window", blackman_window, "n, periodic = true, {dtype, device}", "Blackman's window")
  made("bartlett_window", bartlett_window, "n, periodic = true, {dtype, device}", "Bartlett's window: a triangle")
  made("kaiser_window", kaiser_window, "n, periodic = true, beta = 12, {dtype, device}", "Kaiser's window")
  row { "stft",
    "x, n_fft, {hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex}", stft,
    "Fourier transforms of short pieces of a signal", shape = "[..., frequencies, pieces]", dtype = "complex",
    single = true }
  row { "istft",
    "x, n_fft, {hop_length, win_length, window, center, normalized, onesided, length, return_complex}", istft,
    "the signal whose pieces have these transforms", shape = "[..., places]", dtype = "real", single = true }
end
