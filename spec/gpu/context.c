/*
** context.c -- settings, initialisation, devices, contexts, names of errors, addresses of functions, what specs ask.
*/
#include <dlfcn.h>
#include <unistd.h>

#include "driver.h"

Settings settings = {.capability = 80,
                     .devices = 2,
                     .peers = 1,
                     .initialised = 1,
                     .races = 1,
                     .blocks = 1,
                     .counting = 1,
                     .driver = 12040,
                     .memory = (uint64_t)4 << 30,
                     .steps = (uint64_t)1 << 32};
pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;

static pid_t owner;
static Context primary[MOST_DEVICES];
static Context *running;
static _Thread_local Context *stack[16];
static _Thread_local int depth;
static uint64_t random_state = 1;

void driver_unlock(int *held) {
  (void)held;
  pthread_mutex_unlock(&driver_lock);
}

/* --- settings */

static const struct {
  const char *name;
  void *value;
  bool wide;
} setting_names[] = {
    {"CAPABILITY", &settings.capability, false},
    {"DEVICES", &settings.devices, false},
    {"PEERS", &settings.peers, false},
    {"APPROXIMATE", &settings.approximate, false},
    {"INITIALISED", &settings.initialised, false},
    {"RACES", &settings.races, false},
    {"BLOCKS", &settings.blocks, false},
    {"COUNTING", &settings.counting, false},
    {"VERBOSE", &settings.verbose, false},
    {"DRIVER", &settings.driver, false},
    {"MEMORY", &settings.memory, true},
    {"SEED", &settings.seed, true},
    {"FAIL_ALLOC", &settings.fail_alloc, true},
    {"FAIL_LAUNCH", &settings.fail_launch, true},
    {"FAIL_LOAD", &settings.fail_load, true},
    {"LOSE_AFTER", &settings.lose_after, true},
    {"STEPS", &settings.steps, true},
};

static bool setting_put(const char *name, uint64_t value) {
  for (size_t i = 0; i < COUNT(setting_names); i++) {
    if (strcmp(setting_names[i].name, name) != 0) continue;
    if (setting_names[i].wide) *(uint64_t *)setting_names[i].value = value;
    else *(int *)setting_names[i].value = (int)value;
    if (strcmp(name, "SEED") == 0) random_state = value * 0x9e3779b97f4a7c15ull + 1;
    return true;
  }
  return false;
}

void settings_read(void) {
  for (size_t i = 0; i < COUNT(setting_names); i++) {
    char name[64];
    snprintf(name, sizeof name, "SOFT_GPU_%s", setting_names[i].name);
    const char *value = getenv(name);
    if (value && *value) setting_put(setting_names[i].name, strtoull(value, NULL, 0));
  }
  if (settings.devices > (int)COUNT(primary)) settings.devices = COUNT(primary);
}

/* xorshift64* */
uint32_t draw(uint32_t below) {
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  uint64_t v = random_state * 0x2545f4914f6cdd1dull >> 32;
  return (uint32_t)(v * below >> 32);
}

/* --- what specs ask */

/* Sets one of the settings by the name that the environment has behind SOFT_GPU_; 0, or 1 where there is no such name. */
CALL soft_gpu_set(const char *name, uint64_t value) {
  LOCKED;
  return setting_put(name, value) ? OK : INVALID_VALUE;
}

/* The text of the last report or syntax error; empty when there was none since it was asked. */
EXPORT const char *soft_gpu_report(void) {
  static char last[sizeof report_text];
  LOCKED;
  memcpy(last, report_text, sizeof last);
  report_text[0] = 0;
  return last;
}

static const struct {
  const char *name;
  const uint64_t *value;
} count_names[] = {
    {"launches", &counts.launches},
    {"blocks", &counts.blocks},
    {"warp_instructions", &counts.warp_instructions},
    {"lane_instructions", &counts.lane_instructions},
    {"global_requests", &counts.global_requests},
    {"global_sectors", &counts.global_sectors},
    {"global_ideal", &counts.global_ideal},
    {"global_bytes", &counts.global_bytes},
    {"shared_requests", &counts.shared_requests},
    {"shared_wavefronts", &counts.shared_wavefronts},
    {"shared_ideal", &counts.shared_ideal},
    {"copies", &counts.copies},
    {"copied_bytes", &counts.copied_bytes},
    {"allocations", &counts.allocations},
    {"graph_launches", &counts.graph_launches},
    {"barriers", &counts.barriers},
    {"unwritten_copied", &counts.unwritten_copied},
};

/* One of the counts by name; all ones where there is no such name. */
EXPORT uint64_t soft_gpu_count(const char *name) {
  LOCKED;
  for (size_t i = 0; i < COUNT(count_names); i++)
    if (strcmp(count_names[i].name, name) == 0) return *count_names[i].value;
  return ~(uint64_t)0;
}

EXPORT void soft_gpu_reset_counts(void) {
  LOCKED;
  memset(&counts, 0, sizeof counts);
}

/* As if the device fell off the bus: every call answers this from now on. */
EXPORT void soft_gpu_lose(int error) {
  LOCKED;
  context_lose(error);
}

/* --- initialisation */

int driver_ready(void) { return owner == getpid() ? OK : NOT_INITIALIZED; }

CALL cuInit(unsigned flags) {
  LOCKED;
  if (flags) return INVALID_VALUE;
  if (owner && owner != getpid()) return NOT_INITIALIZED; /* a child of a process that used it */
  if (owner) return OK;
  settings_read();
  if (settings.devices < 1) return NO_DEVICE;
  if (!memory_start()) return OUT_OF_MEMORY;
  owner = getpid();
  return OK;
}

CALL cuDriverGetVersion(int *version) {
  LOCKED;
  if (!version) return INVALID_VALUE;
  if (!owner) settings_read();
  *version = settings.driver;
  return OK;
}

/* --- devices */

static int device_check(int device) {
  int ready = driver_ready();
  return ready ? ready : device < 0 || device >= settings.devices ? INVALID_DEVICE : OK;
}

CALL cuDeviceGetCount(int *count) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (!count) return INVALID_VALUE;
  *count = settings.devices;
  return OK;
}

CALL cuDeviceGet(int *device, int ordinal) {
  LOCKED;
  int bad = device_check(ordinal);
  if (bad) return bad;
  if (!device) return INVALID_VALUE;
  *device = ordinal;
  return OK;
}

CALL cuDeviceGetName(char *name, int length, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!name || length < 1) return INVALID_VALUE;
  snprintf(name, (size_t)length, "software GPU");
  return OK;
}

static int uuid(unsigned char *id, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!id) return INVALID_VALUE;
  memcpy(id, "software GPU   ", 16);
  id[15] = (unsigned char)device;
  return OK;
}
CALL cuDeviceGetUuid(unsigned char *id, int device) { return uuid(id, device); }
CALL cuDeviceGetUuid_v2(unsigned char *id, int device) { return uuid(id, device); }

CALL cuDeviceGetPCIBusId(char *text, int length, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!text || length < 13) return INVALID_VALUE;
  snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1);
  return OK;
}

CALL cuDeviceTotalMem_v2(size_t *bytes, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!bytes) return INVALID_VALUE;
  *bytes = settings.memory;
  return OK;
}

CALL cuDeviceComputeCapability(int *major, int *minor, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!major || !minor) return INVALID_VALUE;
  *major = settings.capability / 10;
  *minor = settings.capability % 10;
  return OK;
}

/* Of a multiprocessor, and what a block may ask for: the manual's table of compute capabilities. */
static int shared_of_processor(void) {
  int c = settings.capability;
  return (c == 75                          ? 64
          : c == 86 || c == 89 || c == 120 ? 100
          : c == 80 || c == 87             ? 164
                                           : 228)
         << 10;
}

int shared_limit(void) {
  return settings.capability == 75 ? 64 << 10 : shared_of_processor() - 1024;
}

static int threads_of_processor(void) {
  int c = settings.capability;
  return c == 75 ? 1024 : c == 86 || c == 89 || c == 120 ? 1536 : 2048;
}

static int blocks_of_processor(void) {
  int c = settings.capability;
  return c == 75 || c == 86 ? 16 : c == 89 || c == 120 ? 24 : 32;
}

static int attribute(int which) {
  switch (which) {
  case 1:
  case 2:
  case 3: return MAX_THREADS; /* of a block, and of its x and y */
  case 4: return 64;
  case 5: return INT32_MAX; /* of a grid's x */
  case 6:
  case 7: return 65535;
  case 8: return 48 << 10; /* shared memory of a block */
  case 9: return 64 << 10; /* constant memory */
  case 10: return WARP;
  case 11: return INT32_MAX;
  case 12:
  case 82: return 65536; /* registers */
  case 13: return 1000000;
  case 14: return 512;
  case 15:
  case 19: /* can map host memory */
  case 31: /* concurrent kernels */
  case 41: /* unified addressing */
  case 78: /* priorities of streams */
  case 79:
  case 80:
  case 90:
  case 91:
  case 115: /* memory pools */ return 1;
  case 16: return 16; /* multiprocessors */
  case 33: return 1;
  case 36: return 1000000;
  case 37: return 256;
  case 38: return 4 << 20; /* second-level cache */
  case 39: return threads_of_processor();
  case 40: return 2; /* copy engines */
  case 75: return settings.capability / 10;
  case 76: return settings.capability % 10;
  case 81: return shared_of_processor();
  case 87: return 2;
  case 97: return shared_limit();
  case 106: return blocks_of_processor();
  case 111: return settings.capability == 75 ? 0 : 1024;
  default: return 0;
  }
}

CALL cuDeviceGetAttribute(int *value, int which, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!value || which < 1 || which > 160) return INVALID_VALUE;
  *value = attribute(which);
  return OK;
}

CALL cuDeviceCanAccessPeer(int *can, int device, int other) {
  LOCKED;
  int bad = device_check(device);
  if (!bad) bad = device_check(other);
  if (bad) return bad;
  if (!can) return INVALID_VALUE;
  *can = settings.peers && device != other;
  return OK;
}

/* --- contexts */

/* Kernels of the current context may read and write memory of the other's device. */
CALL cuCtxEnablePeerAccess(Context *other, unsigned flags) {
  ENTER;
  Context *own = context_current();
  if (!other || other->magic != IS_CONTEXT || flags) return INVALID_VALUE;
  if (other->device == own->device || !settings.peers) return PEER_ACCESS_UNSUPPORTED;
  if (own->peers >> other->device & 1) return PEER_ACCESS_ALREADY_ENABLED;
  own->peers |= 1u << other->device;
  return OK;
}

Context *context_current(void) { return depth ? stack[depth - 1] : NULL; }
int device_current(void) { return depth ? stack[depth - 1]->device : 0; }

Context *context_run(Context *c) {
  Context *before = running;
  running = c;
  if (c) memory_see(c->device, c->peers != 0);
  return before;
}

int context_ready(void) {
  int ready = driver_ready();
  if (ready) return ready;
  Context *c = context_current();
  if (!c || c->magic != IS_CONTEXT) return INVALID_CONTEXT;
  return c->error;
}

void context_lose(int error) {
  Context *c = running ? running : context_current();
  if (!c) c = primary;
  if (!c->error) c->error = error;
  if (settings.verbose) fprintf(stderr, "software GPU: the context is lost, error %d\n", error);
}

static void context_end(Context *c) {
  streams_drop(c);
  memory_reset(c->device);
  c->error = 0;
}

CALL cuDevicePrimaryCtxRetain(Context **context, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!context) return INVALID_VALUE;
  Context *c = primary + device;
  if (!c->references++) {
    c->magic = IS_CONTEXT;
    c->device = device;
    c->primary = true;
  }
  *context = c;
  return OK;
}

static int primary_release(int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  Context *c = primary + device;
  if (!c->references) return INVALID_CONTEXT;
  if (--c->references) return OK;
  context_end(c);
  c->magic = 0;
  return OK;
}
CALL cuDevicePrimaryCtxRelease(int device) { return primary_release(device); }
CALL cuDevicePrimaryCtxRelease_v2(int device) { return primary_release(device); }

static int primary_reset(int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  context_end(primary + device);
  return OK;
}
CALL cuDevicePrimaryCtxReset(int device) { return primary_reset(device); }
CALL cuDevicePrimaryCtxReset_v2(int device) { return primary_reset(device); }

CALL cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (flags) *flags = primary[device].flags;
  if (active) *active = primary[device].references > 0;
  return OK;
}

static int primary_flags(int device, unsigned flags) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  primary[device].flags = flags;
  return OK;
}
CALL cuDevicePrimaryCtxSetFlags(int device, unsigned flags) { return primary_flags(device, flags); }
CALL cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return primary_flags(device, flags);
}

CALL cuCtxCreate_v2(Context **context, unsigned flags, int device) {
  LOCKED;
  int bad = device_check(device);
  if (bad) return bad;
  if (!context || depth == COUNT(stack)) return INVALID_VALUE;
  Context *c = calloc(1, sizeof *c);
  if (!c) return OUT_OF_MEMORY;
  *c = (Context){.magic = IS_CONTEXT, .device = device, .references = 1, .flags = flags};
  *context = stack[depth++] = c;
  return OK;
}

CALL cuCtxDestroy_v2(Context *c) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (!c || c->magic != IS_CONTEXT || c->primary) return INVALID_CONTEXT;
  context_end(c);
  c->magic = 0; /* the struct stays: another thread may hold it */
  if (depth && stack[depth - 1] == c) depth--;
  return OK;
}

CALL cuCtxSetCurrent(Context *c) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (c && c->magic != IS_CONTEXT) return INVALID_CONTEXT;
  if (!c) depth = depth ? depth - 1 : 0;
  else if (depth) stack[depth - 1] = c;
  else stack[depth++] = c;
  return OK;
}

CALL cuCtxGetCurrent(Context **c) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (!c) return INVALID_VALUE;
  *c = context_current();
  return OK;
}

CALL cuCtxPushCurrent_v2(Context *c) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (!c || c->magic != IS_CONTEXT || depth == COUNT(stack)) return INVALID_CONTEXT;
  stack[depth++] = c;
  return OK;
}

CALL cuCtxPopCurrent_v2(Context **c) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (!depth) return INVALID_CONTEXT;
  depth--;
  if (c) *c = stack[depth];
  return OK;
}

CALL cuCtxGetDevice(int *device) {
  LOCKED;
  Context *c = context_current();
  if (driver_ready()) return NOT_INITIALIZED;
  if (!c) return INVALID_CONTEXT;
  if (!device) return INVALID_VALUE;
  *device = c->device;
  return OK;
}

CALL cuCtxGetApiVersion(Context *c, unsigned *version) {
  LOCKED;
  (void)c;
  if (!version) return INVALID_VALUE;
  *version = 3020;
  return OK;
}

CALL cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return OK;
}

CALL cuCtxSetLimit(int limit, size_t value) {
  ENTER;
  (void)limit;
  (void)value;
  return OK;
}

CALL cuCtxGetLimit(size_t *value, int limit) {
  ENTER;
  (void)limit;
  if (!value) return INVALID_VALUE;
  *value = 1024;
  return OK;
}

CALL cuCtxSetCacheConfig(int config) {
  ENTER;
  (void)config;
  return OK;
}

CALL cuCtxSynchronize(void) {
  ENTER;
  streams_finish();
  return context_current()->error;
}

CALL cuProfilerStart(void) { return OK; }
CALL cuProfilerStop(void) { return OK; }

/* --- errors */

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {INVALID_SOURCE, "CUDA_ERROR_INVALID_SOURCE", "device kernel image is invalid"},
    {FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {PRIMARY_CONTEXT_ACTIVE, "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE",
     "cannot set while device is active in this process"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION",
     "an illegal instruction was encountered"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {GRAPH_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
     "the graph update was not performed because it included changes which violated constraints "
     "specific to instantiated graph update"},
    {UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CALL cuGetErrorName(int error, const char **text) {
  if (!text) return INVALID_VALUE;
  *text = NULL;
  for (size_t i = 0; i < COUNT(errors); i++)
    if (errors[i].code == error) *text = errors[i].name;
  return *text ? OK : INVALID_VALUE;
}

CALL cuGetErrorString(int error, const char **text) {
  if (!text) return INVALID_VALUE;
  *text = NULL;
  for (size_t i = 0; i < COUNT(errors); i++)
    if (errors[i].code == error) *text = errors[i].text;
  return *text ? OK : INVALID_VALUE;
}

/* --- addresses of functions: the newest variant of a name that a version of CUDA has */

static void *own_symbol(const char *name) {
  static void *self;
  Dl_info info;
  if (!self && dladdr((void *)(uintptr_t)cuInit, &info))
    self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return self ? dlsym(self, name) : NULL;
}

CALL cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                         int *status) {
  (void)flags;
  if (!symbol || !function) return INVALID_VALUE;
  static const char *const suffixes[] = {"_v2", ""};
  char name[128];
  *function = NULL;
  for (size_t i = version < 3020; i < COUNT(suffixes) && !*function; i++) {
    bool newer = strcmp(suffixes[i], "_v2") == 0 && strcmp(symbol, "cuGraphAddKernelNode") == 0 &&
                 version < 12000;
    snprintf(name, sizeof name, "%s%s", symbol, suffixes[i]);
    if (!newer) *function = own_symbol(name);
  }
  if (status) *status = *function ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
  return *function ? OK : NOT_FOUND;
}

CALL cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
