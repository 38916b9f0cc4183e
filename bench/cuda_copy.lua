-- cuda_copy.lua -- the driver's own copy from device to device, what maps, rows and columns are held against.
-- In: the driver's file, bytes of the source. Out: bytes that are read and written in a second; nil and a text where
-- the driver fails.

local ffi = require "ffi"
ffi.cdef [[
typedef struct CopyEvent *CopyEvent;
int cuInit(unsigned flags);
int cuDeviceGet(int *device, int number);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemsetD32_v2(uint64_t to, unsigned value, size_t n);
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);
int cuEventCreate(CopyEvent *event, unsigned flags);
int cuEventRecord(CopyEvent event, void *stream);
int cuEventElapsedTime(float *milliseconds, CopyEvent from, CopyEvent to);
]]
local ROUNDS, COPIES = 15, 10

return function(driver, bytes)
  local cu = ffi.load(driver)
  local device, context, a, b = ffi.new "int[1]", ffi.new "void *[1]", ffi.new "uint64_t[1]", ffi.new "uint64_t[1]"
  local from, to, ms = ffi.new "CopyEvent[1]", ffi.new "CopyEvent[1]", ffi.new "float[1]"
  local function call(name, ...)
    local e = cu[name](...)
    if e ~= 0 then error(("%s gives %d"):format(name, e), 0) end
  end
  local ok, result = pcall(function()
    call("cuInit", 0)
    call("cuDeviceGet", device, 0)
    call("cuDevicePrimaryCtxRetain", context, device[0])
    call("cuCtxSetCurrent", context[0])
    call("cuMemAlloc_v2", a, bytes)
    call("cuMemAlloc_v2", b, bytes)
    call("cuMemsetD32_v2", a[0], 1, bytes / 4)
    call("cuEventCreate", from, 0)
    call("cuEventCreate", to, 0)
    local rates = {}
    for round = 1, ROUNDS do
      call("cuEventRecord", from[0], nil)
      for _ = 1, COPIES do call("cuMemcpyDtoDAsync_v2", b[0], a[0], bytes, nil) end
      call("cuEventRecord", to[0], nil)
      call("cuCtxSynchronize")
      call("cuEventElapsedTime", ms, from[0], to[0])
      rates[round] = 2 * bytes * COPIES / math.max(ms[0] * 1e-3, 1e-9)
    end
    table.sort(rates)
    return rates[math.ceil(ROUNDS / 2)]
  end)
  for _, p in ipairs { a, b } do
    if p[0] ~= 0 then cu.cuMemFree_v2(p[0]) end
  end
  if not ok then return nil, result end
  return result
end
