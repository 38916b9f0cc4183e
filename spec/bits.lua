--- bits.lua -- a hash of a fixed set of results (results.lua): the machine's name, then on 2 threads and on 1, or on as many as
-- the first argument says, a line "group hash" for each group.
-- The hash is FNV-1a, 64 bits, over dtype, sizes and elements of every result, where every NaN counts as one value.
-- All data come from the generator of helper.lua, so a hash changes only with what the library computes.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi

-- The hash ---------------------------------------------------------------------------------------------------------

local PRIME = 0x100000001b3ULL
local hash = ffi.new "uint64_t[1]" -- in memory: a number of its own would be an object for every byte

local function add_byte(b) hash[0] = bit.bxor(hash[0], b) * PRIME end

local function add_text(s)
  for i = 1, #s do add_byte(s:byte(i)) end
end

--- A float's bits above those of infinity, sign aside, are a NaN.
local nans = {
  f16 = { 0x7fffULL, 0x7c00ULL, 0x7e00ULL }, bf16 = { 0x7fffULL, 0x7f80ULL, 0x7fc0ULL },
  f32 = { 0x7fffffffULL, 0x7f800000ULL, 0x7fc00000ULL },
  f64 = { 0x7fffffffffffffffULL, 0x7ff0000000000000ULL, 0x7ff8000000000000ULL },
}
local words = { [1] = "const uint8_t *", [2] = "const uint16_t *", [4] = "const uint32_t *", [8] = "const uint64_t *" }

local function add_elements(dtype, bytes, n)
  local size = H.dtype[dtype].bytes
  local word = ffi.cast(words[size], bytes)
  local magnitude, infinity, nan = unpack(nans[dtype] or { 0ULL, 0ULL, 0ULL })
  for i = 0, n - 1 do
    local v = ffi.cast("uint64_t", word[i])
    if bit.band(v, magnitude) > infinity then v = nan end
    for _ = 1, size do
      hash[0] = bit.bxor(hash[0], bit.band(v, 0xffULL)) * PRIME
      v = bit.rshift(v, 8)
    end
  end
end

local function add(...)
  for i = 1, select("#", ...) do
    local t = select(i, ...)
    add_text(H.describe(t))
    add_elements(t.dtype, H.bytes(t))
  end
end

--- Adds f(...) eager and compiled: bits that belong to one hash are the same in both.
local function both(f, ...)
  add(f(...))
  add(ty.compile(f)(...))
end

local groups, order = dofile(H.root .. "spec/results.lua")(add, both)

print("machine " .. ty.stats().machine)
local only = tonumber(arg[1])
for threads = only or 2, only or 1, -1 do
  ty.threads(threads)
  print(threads == 1 and "1 thread" or threads .. " threads")
  for _, name in ipairs(order) do
    hash[0] = 0xcbf29ce484222325ULL
    groups[name]()
    print(("%s %s"):format(name, bit.tohex(hash[0])))
  end
end
