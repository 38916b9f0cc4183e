-- account.lua -- what fuzzers see of a moment, as text: values, bits of tensors, which objects are the same.
-- In: ty. Out: new() gives an account: a:list(...) writes values down, a:text() is all of it. image(t, dtype) are a
-- tensor's bits. Two accounts of equal worlds are equal.

local ffi = require "ffi"

return function(ty)
  local buffer = ffi.new("uint8_t[65536]")
  local bytes_of = { bool = 1, u8 = 1, i8 = 1, i16 = 2, u16 = 2, i32 = 4, u32 = 4, i64 = 8, u64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }
  local part_of = { c64 = "f32", c128 = "f64" }
  local bits_of = { [2] = ffi.typeof "uint16_t *", [4] = ffi.typeof "uint32_t *", [8] = ffi.typeof "uint64_t *" }
  local sign_of = { f16 = 0x8000, bf16 = 0x8000, f32 = 0x80000000, f64 = 0x8000000000000000ULL }
  local nan_above = { f16 = 0x7c00, bf16 = 0x7f80, f32 = 0x7f800000, f64 = 0x7ff0000000000000ULL }

  local address = ty.internals.address

  -- Bits of a tensor as a Lua string, every NaN the same. Reads a copy: an address that left would change what is tested.
  local function image(t, dtype)
    local c = (t.requires_grad and t:detach() or t):clone():to "cpu"
    if part_of[dtype] then c, dtype = c:view_as_real(), part_of[dtype] end
    local size = bytes_of[dtype]
    local bytes = c:numel() * size
    if bytes == 0 or bytes > 65536 then return tostring(bytes) end
    ffi.copy(buffer, ffi.cast("void *", (address(c))), bytes)
    c:release()
    local sign, limit = sign_of[dtype], nan_above[dtype]
    if limit then
      local p = ffi.cast(bits_of[size], buffer)
      for i = 0, bytes / size - 1 do
        local v = p[i]
        if v >= sign then v = v - sign end
        if v > limit then p[i] = limit + 1 end
      end
    end
    return ffi.string(buffer, bytes)
  end

  -- What never changes about a tensor.
  local kinds = setmetatable({}, { __mode = "k" })

  local function kind_of(t)
    local kind = kinds[t]
    if not kind then
      kind = { t.dtype, t.dtype .. " " .. table.concat(t.shape, "x") .. " " }
      kinds[t] = kind
    end
    return kind
  end

  local number_text, texts = {}, 0

  local function plain_number(v)
    if v ~= v then return "nan" end
    if v == 0 then return 1 / v > 0 and "0" or "-0" end
    local text = number_text[v]
    if not text then
      text = ("%.17g"):format(v)
      if texts > 4000 then number_text, texts = {}, 0 end
      number_text[v], texts = text, texts + 1
    end
    return text
  end

  local Account = {} -- what is known about one moment: out = pieces of text, seen = object -> its number
  Account.__index = Account

  -- Keys in the table's own order: equal strings have equal hashes in both worlds. Where objects are keys their
  -- addresses decide: then in an order that does not depend on the table.
  local function keys_of(t)
    local own, numbers, names, others = {}, {}, {}, {}
    for k in pairs(t) do
      local list = type(k) == "number" and numbers or type(k) == "string" and names or others
      list[#list + 1], own[#own + 1] = k, k
      if type(k) ~= "number" and type(k) ~= "string" and type(k) ~= "boolean" then own.addresses = true end
    end
    if not own.addresses then return own end
    table.sort(numbers)
    table.sort(names)
    table.sort(others, function(a, b) return tostring(a) < tostring(b) end)
    for _, k in ipairs(names) do numbers[#numbers + 1] = k end
    for _, k in ipairs(others) do numbers[#numbers + 1] = k end
    return numbers
  end

  function Account:add(text) self.out[#self.out + 1] = text end

  function Account:table(v)
    self:add("{" .. #v .. ":")
    for _, k in ipairs(keys_of(v)) do
      self:value(k)
      self:add "="
      self:value(v[k])
    end
    self:add "|"
    self:value(getmetatable(v))
    self:add "}"
  end

  --- Writes a value down; objects by number, so that two mentions of one are told from two equal ones.
  function Account:value(v)
    local kind = type(v)
    if kind == "number" then return self:add(plain_number(v)) end
    if kind == "string" then return self:add((("%q"):format(v):gsub("-nan", "nan"):gsub("0x%x+", "0x"))) end
    if kind == "nil" or kind == "boolean" then return self:add(tostring(v)) end
    local id = self.seen[v]
    if id then return self:add("#" .. id) end
    self.count = self.count + 1
    self.seen[v] = self.count
    if kind == "table" then return self:table(v) end
    if ty.is_tensor(v) then
      local known = kind_of(v)
      self:add(known[2])
      self:add(image(v, known[1]))
      if not v.requires_grad then return end
      self:add(v.is_leaf and " leaf, " or " with a past")
      if v.is_leaf then self:value(v.grad) end
      return
    end
    self:add(kind)
  end

  function Account:list(...)
    for i = 1, select("#", ...) do
      self:value((select(i, ...)))
      self:add ", "
    end
  end

  function Account:text() return table.concat(self.out) end

  return {
    image = image,
      new = function() return setmetatable({ out = {}, seen = {}, count = 0 }, Account) end,
  }
end
