--- image.lua -- images: `ty.image`, and .png .jpg .jpeg .ppm .pgm of `ty.load` and `ty.save`.
-- In: paths, bytes, tensors. Out: tensors u8 [channels, height, width] (1 grey, 3 RGB, 4 RGBA), or floats from 0 to 1.
-- What the world does wrong (no such file, a damaged file, a library that is not there) gives nil and a message that
-- begins with the path; misuse raises. PNG needs libpng, JPEG libturbojpeg; they are loaded when first used.

---@param M table ty.files
---@param C table the functions of files.so
---@param add fun(name: string, endings: string, format: table)
---@param check table
return function(M, C, add, check)
  local ty = require "tycho"
  local type, ipairs = type, ipairs
  local fail, show, text = check.fail, check.show, check.text

  local FLOATS = { f32 = 4, f64 = 8, f16 = 2, bf16 = 2 } -- bytes of an element
  local PART = 2 ^ 17 -- elements that are made floats at a time
  local MODES = { nearest = true, box = true, bilinear = true, bicubic = true }
  local FORMATS = { png = "png", jpg = "jpeg", jpeg = "jpeg", ppm = "pnm", pgm = "pnm", pnm = "pnm" }

  --- {height, width} as two numbers.
  local function sizes(who, size)
    if type(size) ~= "table" or #size ~= 2 then fail(who, "size must be {height, width}, got %s", show(size)) end
    for i = 1, 2 do
      local n = size[i]
      if type(n) ~= "number" or n < 1 or n % 1 ~= 0 or n > 2 ^ 20 then
        fail(who, "size must be {height, width} of whole numbers from 1 to 2^20, got %s", show(n))
      end
    end
    return size[1], size[2]
  end

  local known = { channels = "number", size = "table", dtype = "string", limit = "number" }

  --- The options of load for files.so: channels, height, width, limit, bytes of a float; 0 for what was not given.
  function M._image_wants(who, opts)
    local channels, limit, height, width = opts.channels or 0, opts.limit or 0, 0, 0
    if channels ~= 0 and channels ~= 1 and channels ~= 3 and channels ~= 4 then
      fail(who, "option channels must be 1, 3 or 4, got %.14g", channels)
    end
    if limit < 0 or limit % 1 ~= 0 or limit > 2 ^ 53 then fail(who, "option limit must be a number of bytes") end
    if opts.size then height, width = sizes(who, opts.size) end
    if opts.dtype and opts.dtype ~= "u8" and not FLOATS[opts.dtype] then
      fail(who, "option dtype must be u8 or a float, got %q", opts.dtype)
    end
    return channels, height, width, limit, FLOATS[opts.dtype] or 0
  end

  --- Bytes as the dtype that was asked for: floats from 0 to 1. Large ones part by part, since each operation makes a
  --- tensor of its own, and the limit reckons with x and y alone.
  function M._image_as(x, dtype)
    if not FLOATS[dtype] then return x end
    local n = x:numel()
    if n <= PART then return x:to(dtype) / 255 end
    local y, flat = ty.zeros(x.shape, { dtype = dtype, device = x.device }), x:reshape(n)
    local to = y:reshape(n)
    for i = 1, n, PART do
      local bytes = flat:narrow(1, i, math.min(PART, n + 1 - i)):to(dtype)
      local part = bytes / 255
      to[{ { i, i + part:numel() - 1 } }] = part
      bytes:release()
      part:release()
    end
    return y
  end

  local function read(who, path, bytes, opts)
    opts = check.options(who, opts, known)
    local x, why = C.image_read(path, bytes, M._image_wants(who, opts))
    if not x then return nil, why end
    return M._image_as(x, opts.dtype)
  end

  --- The tensor as bytes [channels, height, width]; floats are taken from 0..1, what lies beyond is cut.
  local function bytes_of(who, i, x)
    check.tensor(who, i, x)
    x = x:detach()
    if x.ndim == 2 then x = x:reshape(1, x:size(1), x:size(2)) end
    local c = x.ndim == 3 and x:size(1)
    if not c or c < 1 or c > 4 or x:numel() == 0 then
      local turned = x.ndim == 3 and x:numel() > 0 and x:size(3) <= 4
      fail(who, "argument %d must be an image, [h,w] or [c,h,w] of 1 to 4 channels, got %s%s", i, text(x),
        turned and " (x:permute(3, 1, 2) has the channels first)" or "")
    end
    if FLOATS[x.dtype] then return (x:to("f32") * 255 + 0.5):floor():clamp(0, 255):to("u8") end
    if x.dtype == "bool" then return x:to("u8") * 255 end
    if x.dtype ~= "u8" then fail(who, "argument %d must be of u8, floats from 0 to 1, or bool, got %s", i, text(x)) end
    return x
  end

  local function encode(who, i, x, format, opts)
    opts = check.options(who, opts, { quality = "number", level = "number" })
    local kind = FORMATS[format]
    if not kind then fail(who, "%q is no format that is written: png jpg ppm pgm", tostring(format)) end
    local quality, level = opts.quality or 90, opts.level or 6
    if quality < 1 or quality > 100 or quality % 1 ~= 0 then fail(who, "option quality must be from 1 to 100") end
    if level < 0 or level > 9 or level % 1 ~= 0 then fail(who, "option level must be from 0 to 9") end
    x = bytes_of(who, i, x)
    local c = x:size(1)
    if c == 1 and format == "ppm" then x = ty.cat({ x, x, x }, 1) end -- a grey that is red, green and blue alike
    local most = kind == "png" and 4 or format == "pgm" and 1 or 3
    if c > most or most == 3 and c == 2 then
      fail(who, "%s has %s, got %s%s", format, most == 1 and "1 channel" or "1 or 3 channels", text(x),
        most == 1 and c == 3 and " (.ppm has 3)" or c == 4 and " (.png keeps the fourth)" or "")
    end
    return C.image_encode(kind, x, kind == "jpeg" and quality or level)
  end

  local function check_path(who, path)
    if type(path) ~= "string" or path == "" or path:find("\0", 1, true) then
      fail(who, "argument 1 must be a path, got %s", show(path))
    end
  end

  --- Images of one size side by side, as one sheet. Options: columns (about as many as rows), padding (2
  --- pixels), value (0) between.
  --- Raises where the images are none, or differ in size.
  ---@param list tycho.Tensor|tycho.Tensor[] [n,c,h,w], [n,h,w] or a list of [c,h,w] or [h,w]
  ---@param opts? {columns: integer?, padding: integer?, value: number?}
  ---@return tycho.Tensor # [c, height, width]
  local function grid(list, opts)
    local who = "image.grid"
    opts = check.options(who, opts, { columns = "number", padding = "number", value = "number" })
    if type(list) == "table" then
      for i, x in ipairs(list) do
        if not ty.is_tensor(x) then fail(who, "entry %d must be a tensor, got %s", i, show(x)) end
        if table.concat(x.shape, ",") ~= table.concat(list[1].shape, ",") then
          fail(who, "entry %d is %s, the first %s", i, text(x), text(list[1]))
        end
      end
      list = #list > 0 and ty.stack(list, 1) or list
    end
    if not ty.is_tensor(list) or (list.ndim ~= 3 and list.ndim ~= 4) or list:numel() == 0 then
      fail(who, "argument 1 must be [n,c,h,w], [n,h,w] or a list of images, got %s", show(list))
    end
    local x = list:detach()
    if x.ndim == 3 then x = x:reshape(x:size(1), 1, x:size(2), x:size(3)) end
    local n, c, h, w = x:size(1), x:size(2), x:size(3), x:size(4)
    local columns = math.min(opts.columns or math.ceil(math.sqrt(n)), n)
    local pad = opts.padding or 2
    if columns < 1 or columns % 1 ~= 0 then fail(who, "option columns must be a whole number from 1") end
    if pad < 0 or pad % 1 ~= 0 then fail(who, "option padding must be a whole number from 0") end
    local rows = math.ceil(n / columns)
    local height, width = rows * (h + pad) + pad, columns * (w + pad) + pad
    local sheet = ty.full({ c, height, width }, opts.value or 0, { dtype = x.dtype, device = x.device })
    for i = 1, n do
      local top = math.floor((i - 1) / columns) * (h + pad) + pad
      local left = (i - 1) % columns * (w + pad) + pad
      sheet[{ {}, { top + 1, top + h }, { left + 1, left + w } }] = x[i]
    end
    return sheet
  end

  add("image", "png jpg jpeg ppm pgm pnm", {
    --- An image, u8 [channels, height, width]. Options: channels = 1 | 3 | 4, default the file's own; size =
    --- {height, width}: resized, bilinear; dtype = a float: from 0 to 1; limit = bytes that reading may take beside the
    --- file's own, at its peak, as the header has it: pixels, the decoder's work, conversions. The default of 58 MB
    --- keeps every file, also a hostile one, within its size and 64 MB; it holds photographs of 16 megapixels (of 6 as
    --- progressive JPEG, of 3 as f32), and a limit of 16 bytes a pixel holds any as bytes.
    --- Raises where an option is not known or out of range. What cannot be read gives nil and a message.
    ---@param path string
    ---@param opts? {channels: integer?, size: integer[]?, dtype: string?, limit: integer?}
    ---@return tycho.Tensor? image, string? message
    load = function(path, opts)
      check_path("image.load", path)
      return read("image.load", path, nil, opts)
    end,
    --- The same of a file's bytes.
    --- Raises where the bytes are no string, or an option is out of range.
    ---@param bytes string
    ---@param opts? table
    ---@return tycho.Tensor? image, string? message
    decode = function(bytes, opts)
      if type(bytes) ~= "string" then fail("image.decode", "argument 1 must be a string, got %s", show(bytes)) end
      return read("image.decode", "image", bytes, opts)
    end,
    --- Writes an image by the path's ending: u8, or floats from 0 to 1, or bool; [h,w] or [c,h,w]. Options: quality of
    --- JPEG, 1 to 100, 90; level of PNG's compression, 0 to 9, 6.
    --- Raises where x is no image, or the ending no format that is written.
    ---@param path string
    ---@param x tycho.Tensor
    ---@param opts? {quality: integer?, level: integer?}
    ---@return true? ok, string? message
    save = function(path, x, opts)
      check_path("image.save", path)
      local bytes, why = encode("image.save", 2, x, (path:match("%.([%w]+)$") or ""):lower(), opts)
      if not bytes then return nil, path .. ": " .. why end
      return C.write(path, { bytes }, false)
    end,
    --- The bytes of such a file.
    --- Raises where x is no image, or the format is not known.
    ---@param x tycho.Tensor
    ---@param format "png"|"jpg"|"ppm"|"pgm"
    ---@param opts? table
    ---@return string? bytes, string? message
    encode = function(x, format, opts) return encode("image.encode", 1, x, format, opts) end,
    --- Images of another size, u8 or f32 [..., height, width], as Pillow's resize with antialiasing (for bytes the
    --- same bits). Without gradients: see ty.interpolate.
    --- Raises where x is not u8 or f32, has no pixels, or the mode is not known.
    ---@param x tycho.Tensor
    ---@param size integer[] {height, width}
    ---@param mode? "bilinear"|"nearest"|"box"|"bicubic"
    ---@return tycho.Tensor
    resize = function(x, size, mode)
      local who = "image.resize"
      check.tensor(who, 1, x)
      local h, w = sizes(who, size)
      if mode ~= nil and not MODES[mode] then
        fail(who, "argument 3 must be bilinear, nearest, box or bicubic, got %s", show(mode))
      end
      if x.dtype ~= "u8" and x.dtype ~= "f32" then fail(who, "argument 1 must be u8 or f32, got %s", text(x)) end
      if x.ndim < 2 or x:numel() == 0 then fail(who, "argument 1 must have pixels, got %s", text(x)) end
      local shape = x.shape
      local n, planes = #shape, 1
      for d = 1, n - 2 do planes = planes * shape[d] end
      local y = C.image_resize(x:detach():reshape(planes, shape[n - 1], shape[n]), h, w, mode or "bilinear")
      shape[n - 1], shape[n] = h, w
      return y:reshape(shape):to(x.device)
    end,
    grid = grid,
  })
end
