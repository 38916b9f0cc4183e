--- soft_gpu.lua -- the software GPU (spec/gpu) for specs: loaded through FFI, with short names for what they do most.
-- Out: {cu, load, launch, device, read, array, check, set, count, counted, report, ptx}. Environment: SOFT_GPU_... (context.c).

local ffi = require "ffi"

local module = require "spec.module"

ffi.cdef [[
typedef uint64_t CUdeviceptr;
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetCount(int *count);
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetAttribute(int *value, int which, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxReset_v2(int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);
int cuMemAllocHost_v2(void **p, size_t bytes);
int cuMemFreeHost(void *p);
int cuMemGetInfo_v2(size_t *rest, size_t *total);
int cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
int cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream);
int cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream);
int cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream);
int cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t n);
int cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, void *stream);
int cuMemAllocAsync(CUdeviceptr *address, size_t bytes, void *stream);
int cuMemFreeAsync(CUdeviceptr address, void *stream);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamQuery(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventQuery(void *event);
int cuEventSynchronize(void *event);
int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *names, void **values);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, void *module, const char *name);
int cuLibraryLoadData(void **library, const void *code, int *names, void **values, unsigned n, int *library_names,
  void **library_values, unsigned n_library);
int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryUnload(void *library);
int cuFuncGetAttribute(int *value, int which, void *function);
int cuFuncSetAttribute(void *function, int which, int value);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
  void *stream, void **params, void **extra);
int cuGetErrorName(int error, const char **text);
int cuGetErrorString(int error, const char **text);
int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int block, size_t dynamic);
int cuLinkCreate_v2(unsigned n, int *names, void **values, void **link);
int cuLinkAddData_v2(void *link, int type, void *data, size_t size, const char *name, unsigned n, int *names, void **values);
int cuLinkComplete(void *link, void **image, size_t *size);
int cuLinkDestroy(void *link);
typedef struct { void *function; unsigned grid[3], block[3], shared; void **params, **extra; void *kernel, *context; } KernelNode;
typedef struct { CUdeviceptr to; size_t pitch; unsigned value, element; size_t width, height; } MemsetNode;
int cuGraphCreate(void **graph, unsigned flags);
int cuGraphAddKernelNode_v2(void **node, void *graph, void **after, size_t n, const KernelNode *params);
int cuGraphAddMemsetNode(void **node, void *graph, void **after, size_t n, const MemsetNode *params, void *context);
int cuGraphInstantiateWithFlags(void **exec, void *graph, uint64_t flags);
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const KernelNode *params);
int cuGraphLaunch(void *exec, void *stream);
int cuGraphExecDestroy(void *exec);
int cuGraphDestroy(void *graph);
int soft_gpu_set(const char *name, uint64_t value);
const char *soft_gpu_report(void);
uint64_t soft_gpu_count(const char *name);
void soft_gpu_reset_counts(void);
void soft_gpu_lose(int error);
int soft_gpu_unmarked(void *function);
]]

local M = { path = module.root .. (os.getenv "TYCHO_BUILD" or "build") .. "/spec/libcuda.so" }
if not module.shell(("test -f '%s'"):format(M.path)) then
  assert(module.shell(("make -s -C '%s' gpu >/dev/null"):format(module.root == "" and "." or module.root)), "the software GPU is not built")
end
local cu = ffi.load(M.path)
M.cu = cu

--- Sets a setting by its name of the environment, without SOFT_GPU_.
function M.set(name, value) assert(cu.soft_gpu_set(name, value) == 0, name) end

function M.count(name) return tonumber(cu.soft_gpu_count(name)) end

--- The text of the last report, which is then forgotten.
function M.report() return ffi.string(cu.soft_gpu_report()) end

--- Raises with the name of an error, its text, and the device's report.
function M.check(status)
  if status == 0 then return end
  local text = ffi.new "const char *[1]"
  cu.cuGetErrorName(status, text)
  error(("%s: %s"):format(text[0] ~= nil and ffi.string(text[0]) or status, M.report()), 2)
end

M.check(cu.cuInit(0))
local context = ffi.new "void *[1]"
M.check(cu.cuDevicePrimaryCtxRetain(context, 0))
M.check(cu.cuCtxSetCurrent(context[0]))

--- After an error that lost the context: everything on the device is gone.
function M.reset()
  M.check(cu.cuDevicePrimaryCtxReset_v2(0))
  M.report()
end

--- A module's text from bodies of kernels: header, then what stands there.
function M.ptx(text, target, version)
  return (".version %s\n.target sm_%d\n.address_size 64\n"):format(version or (target or 80) >= 90 and "7.8" or "7.0", target or 80) .. text
end

--- A module of PTX text; raises with the compiler's log.
function M.load(text)
  local size = 4096
  local log, handle = ffi.new("char[?]", size), ffi.new "void *[1]"
  local names = ffi.new("int[2]", 5, 6)
  local values = ffi.new("void *[2]", ffi.cast("void *", log), ffi.cast("void *", ffi.cast("uintptr_t", size)))
  local status = cu.cuModuleLoadDataEx(handle, text, 2, names, values)
  if status ~= 0 then error(("%d: %s"):format(status, ffi.string(log)), 2) end
  return handle[0]
end

function M.kernel(loaded, name)
  local f = ffi.new "void *[1]"
  M.check(cu.cuModuleGetFunction(f, loaded, name))
  return f[0]
end

--- Device memory: n elements of a C type, from a table, a function of the index from 0, or not written.
function M.array(ctype, n, fill)
  local address = ffi.new "CUdeviceptr[1]"
  local size = ffi.sizeof(ctype) * n
  M.check(cu.cuMemAlloc_v2(address, size))
  local host = ffi.new(("%s[?]"):format(ctype), n)
  if fill ~= nil then
    for i = 0, n - 1 do
      if type(fill) == "table" then host[i] = fill[i + 1] elseif type(fill) == "function" then host[i] = fill(i) else host[i] = fill end
    end
    M.check(cu.cuMemcpyHtoD_v2(address[0], host, size))
  end
  return { address = address[0], ctype = ctype, n = n, host = host }
end

--- What an array holds now, as a C array.
function M.read(array)
  local host = ffi.new(("%s[?]"):format(array.ctype), array.n)
  M.check(cu.cuMemcpyDtoH_v2(host, array.address, ffi.sizeof(array.ctype) * array.n))
  return host
end

--- Parameters: arrays are their addresses, numbers 32-bit integers, {ctype, value} anything else. Keeps what it points to.
function M.params(list)
  local values = ffi.new("void *[?]", #list + 1)
  local kept = {}
  for i, v in ipairs(list) do
    local ctype, value = "int32_t", v
    if type(v) == "table" then
      if v.address then ctype, value = "CUdeviceptr", v.address else ctype, value = v[1], v[2] end
    end
    kept[i] = ffi.new(("%s[1]"):format(ctype), value)
    values[i - 1] = ffi.cast("void *", kept[i])
  end
  return values, kept
end

local function three(v) return type(v) == "table" and { v[1] or 1, v[2] or 1, v[3] or 1 } or { v, 1, 1 } end

--- Launches, waits, and gives the driver's result and the report.
function M.try(f, grid, block, list, shared, stream)
  local values, kept = M.params(list)
  local g, b = three(grid), three(block)
  local status = cu.cuLaunchKernel(f, g[1], g[2], g[3], b[1], b[2], b[3], shared or 0, stream, values, nil)
  if status == 0 then status = cu.cuCtxSynchronize() end
  return status, M.report(), kept
end

function M.launch(f, grid, block, list, shared, stream)
  local status, text = M.try(f, grid, block, list, shared, stream)
  if status ~= 0 then error(("%d: %s"):format(status, text), 2) end
end

return M
