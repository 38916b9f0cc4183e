/*
** module.c -- modules, libraries and functions: PTX text is parsed when it is loaded, as the driver's compiler would.
** A linked image (cuLinkComplete) stands for a cubin: it names the capability that it was made for, and loads on devices of the
** same major number alone.
*/
#include "driver.h"

const char image_mark[] = "\177ELF software GPU, sm_";

typedef struct Loaded { /* CUmodule and CUlibrary */
  Magic magic;
  Module *module;
  int references;
} Loaded;

enum { MAX_KERNELS = 1 << 16 };
static Kernel **known; /* kernels of loaded modules: what a handle may be */
static int n_known, max_known;

Kernel *kernel_of(void *handle) {
  for (int i = 0; i < n_known; i++)
    if (known[i] == handle) return known[i]->module->device == device_current() ? handle : NULL;
  return NULL;
}

static void kernels_know(const Module *m) {
  for (int i = 0; i < m->n_kernels; i++) {
    if (n_known == max_known) {
      max_known = max_known ? 2 * max_known : 256;
      known = realloc(known, (size_t)max_known * sizeof *known);
    }
    known[n_known++] = m->kernels[i];
  }
}

static void kernels_forget(const Module *m) {
  int kept = 0;
  for (int i = 0; i < n_known; i++)
    if (known[i]->module != m) known[kept++] = known[i];
  n_known = kept;
}

/* --- options of the compiler */

enum { J_WALL_TIME = 2, J_INFO_LOG, J_INFO_SIZE, J_ERROR_LOG, J_ERROR_SIZE };

static void **option(unsigned n, const int *names, void **values, int which) {
  for (unsigned i = 0; i < n; i++)
    if (names[i] == which) return values + i;
  return NULL;
}

static Log log_of(unsigned n, const int *names, void **values) {
  void **text = option(n, names, values, J_ERROR_LOG),
       **size = option(n, names, values, J_ERROR_SIZE);
  Log log = {0};
  if (text && size) {
    log.text = *text;
    log.size = (size_t)(uintptr_t)*size;
    if (log.size) log.text[0] = 0;
  }
  return log;
}

static void log_close(const Log *log, unsigned n, const int *names, void **values) {
  void **size = option(n, names, values, J_ERROR_SIZE),
       **info = option(n, names, values, J_INFO_SIZE);
  void **text = option(n, names, values, J_INFO_LOG),
       **wall = option(n, names, values, J_WALL_TIME);
  if (info && text && *info) *(char *)*text = 0;
  if (size) *size = (void *)(uintptr_t)log->length;
  if (info) *info = NULL;
  if (wall) *wall = NULL;
}

/* --- loading */

static int image_load(const char *image, Log *log, Loaded **loaded) {
  if (!image) return INVALID_VALUE;
  size_t mark = strlen(image_mark);
  if (memcmp(image, image_mark, 4) == 0) {
    if (strncmp(image, image_mark, mark) != 0) return INVALID_IMAGE;
    int made = atoi(image + mark), own = settings.capability;
    if (made / 10 != own / 10 || made > own) return NO_BINARY_FOR_GPU;
    image = strchr(image, '\n') + 1;
  }
  int status;
  Module *m = ptx_parse(image, settings.capability, log, &status);
  if (!m) return status;
  Loaded *l = calloc(1, sizeof *l);
  *l = (Loaded){IS_MODULE, m, 1};
  m->device = device_current();
  kernels_know(m);
  *loaded = l;
  return OK;
}

CALL cuModuleLoadDataEx(Loaded **module, const void *image, unsigned n, int *names, void **values) {
  ENTER;
  if (!module || (n && (!names || !values))) return INVALID_VALUE;
  Log log = log_of(n, names, values);
  const bool refused = injected(&settings.fail_load);
  if (refused) log_add(&log, "refused, as was asked for");
  int status = refused ? INVALID_PTX : image_load(image, &log, module);
  log_close(&log, n, names, values);
  return status;
}

CALL cuModuleLoadData(Loaded **module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

static char *file_read(const char *name) {
  FILE *f = name ? fopen(name, "rb") : NULL;
  if (!f) return NULL;
  fseek(f, 0, SEEK_END);
  long size = ftell(f);
  rewind(f);
  char *text = calloc(1, (size_t)size + 1);
  size_t got = fread(text, 1, (size_t)size, f);
  text[got] = 0;
  fclose(f);
  return text;
}

CALL cuModuleLoad(Loaded **module, const char *name) {
  char *text = file_read(name);
  if (!text) return FILE_NOT_FOUND;
  int status = cuModuleLoadData(module, text);
  free(text);
  return status;
}

static int unload(Loaded *l) {
  ENTER;
  if (!l || l->magic != IS_MODULE) return INVALID_HANDLE;
  streams_finish(); /* its kernels may be on their way */
  kernels_forget(l->module);
  module_free(l->module);
  l->magic = 0;
  return OK;
}
CALL cuModuleUnload(Loaded *module) { return unload(module); }
CALL cuLibraryUnload(Loaded *library) { return unload(library); }

CALL cuLibraryLoadData(Loaded **library, const void *code, int *names, void **values, unsigned n,
                       int *library_names, void **library_values, unsigned n_library) {
  (void)library_names, (void)library_values, (void)n_library;
  LOCKED; /* no context is needed */
  if (driver_ready()) return NOT_INITIALIZED;
  if (!library || (n && (!names || !values))) return INVALID_VALUE;
  Log log = log_of(n, names, values);
  int status = image_load(code, &log, library);
  log_close(&log, n, names, values);
  return status;
}

static int find_kernel(Kernel **kernel, Loaded *l, const char *name) {
  if (!l || l->magic != IS_MODULE) return INVALID_HANDLE;
  if (!kernel || !name) return INVALID_VALUE;
  *kernel = module_kernel(l->module, name);
  return *kernel ? OK : NOT_FOUND;
}

CALL cuModuleGetFunction(Kernel **function, Loaded *module, const char *name) {
  ENTER;
  return find_kernel(function, module, name);
}

CALL cuLibraryGetKernel(Kernel **kernel, Loaded *library, const char *name) {
  LOCKED;
  return find_kernel(kernel, library, name);
}

CALL cuKernelGetFunction(Kernel **function, Kernel *kernel) {
  ENTER;
  if (!kernel_of(kernel)) return INVALID_HANDLE;
  *function = kernel;
  return OK;
}

CALL cuLibraryGetModule(Loaded **module, Loaded *library) {
  ENTER;
  if (!library || library->magic != IS_MODULE) return INVALID_HANDLE;
  *module = library;
  return OK;
}

CALL cuLibraryGetKernelCount(unsigned *n, Loaded *library) {
  LOCKED;
  if (!library || library->magic != IS_MODULE) return INVALID_HANDLE;
  *n = (unsigned)library->module->n_kernels;
  return OK;
}

CALL cuModuleGetFunctionCount(unsigned *n, Loaded *module) {
  return cuLibraryGetKernelCount(n, module);
}

static int find_global(uint64_t *address, size_t *bytes, Loaded *l, const char *name) {
  ENTER;
  if (!l || l->magic != IS_MODULE) return INVALID_HANDLE;
  if (!name) return INVALID_VALUE;
  for (int i = 0; i < l->module->n_variables; i++) {
    const Variable *v = l->module->variables[i];
    if (strcmp(v->name, name) != 0) continue;
    if (address) *address = v->address;
    if (bytes) *bytes = v->size;
    return OK;
  }
  return NOT_FOUND;
}
CALL cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, Loaded *module, const char *name) {
  return find_global(address, bytes, module, name);
}
CALL cuLibraryGetGlobal(uint64_t *address, size_t *bytes, Loaded *library, const char *name) {
  return find_global(address, bytes, library, name);
}

/* --- functions */

static int attribute_get(int *value, int which, const Kernel *k) {
  switch (which) {
  case 0: *value = k->max_threads; break;
  case 1: *value = (int)k->shared_static; break;
  case 2: *value = 0; break;
  case 3: *value = (int)k->local_bytes; break;
  case 4: *value = 32; break; /* registers: nobody assigned any */
  case 5: *value = k->module->version; break;
  case 6: *value = settings.capability; break;
  case 7: *value = 0; break;
  case 8: *value = k->max_dynamic; break;
  case 9: *value = k->carveout; break;
  default: return INVALID_VALUE;
  }
  return OK;
}

static int attribute_set(Kernel *k, int which, int value) {
  if (which == 8) {
    if (value < 0 || value + (int)k->shared_static > shared_limit()) return INVALID_VALUE;
    k->max_dynamic = value;
  } else if (which == 9) {
    if (value < -1 || value > 100) return INVALID_VALUE;
    k->carveout = value;
  } else return INVALID_VALUE;
  return OK;
}

CALL cuFuncGetAttribute(int *value, int which, Kernel *k) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  return value ? attribute_get(value, which, k) : INVALID_VALUE;
}

CALL cuFuncSetAttribute(Kernel *k, int which, int value) {
  ENTER;
  return kernel_of(k) ? attribute_set(k, which, value) : INVALID_HANDLE;
}

CALL cuKernelGetAttribute(int *value, int which, Kernel *k, int device) {
  ENTER;
  (void)device;
  if (!kernel_of(k)) return INVALID_HANDLE;
  return value ? attribute_get(value, which, k) : INVALID_VALUE;
}

CALL cuKernelSetAttribute(int which, int value, Kernel *k, int device) {
  ENTER;
  (void)device;
  return kernel_of(k) ? attribute_set(k, which, value) : INVALID_HANDLE;
}

CALL cuFuncSetCacheConfig(Kernel *k, int config) {
  ENTER;
  (void)config;
  return kernel_of(k) ? OK : INVALID_HANDLE;
}

CALL cuFuncLoad(Kernel *k) {
  ENTER;
  return kernel_of(k) ? OK : INVALID_HANDLE;
}

CALL cuFuncIsLoaded(int *state, Kernel *k) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  *state = 1;
  return OK;
}

CALL cuFuncGetName(const char **name, Kernel *k) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  *name = k->name;
  return OK;
}

CALL cuFuncGetParamInfo(Kernel *k, size_t index, size_t *offset, size_t *size) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  if (index >= (size_t)k->n_params) return INVALID_VALUE;
  if (offset) *offset = k->params[index].address;
  if (size) *size = k->params[index].size;
  return OK;
}

/* How many float additions and products of a kernel have no rounding: ptxas may contract them. -1: not a kernel. */
EXPORT int soft_gpu_unmarked(Kernel *k) {
  LOCKED;
  return kernel_of(k) ? k->unmarked : -1;
}

/* --- occupancy: threads, blocks, shared memory; registers are not known */

static int occupancy(const Kernel *k, int block, size_t dynamic) {
  int threads = settings.capability == 75                                 ? 1024
                : settings.capability == 86 || settings.capability >= 120 ? 1536
                                                                          : 2048;
  int warps = (block + WARP - 1) / WARP * WARP, most = threads / warps;
  int limit = settings.capability == 75 || settings.capability == 86 ? 16 : 32;
  if (most > limit) most = limit;
  size_t shared = k->shared_static + dynamic, whole = (size_t)shared_limit();
  if (shared && (size_t)most > whole / shared) most = (int)(whole / shared);
  return most;
}

CALL cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *k, int block,
                                                 size_t dynamic) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  if (!blocks || block < 1 || block > MAX_THREADS) return INVALID_VALUE;
  *blocks = occupancy(k, block, dynamic);
  return OK;
}

CALL cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Kernel *k, int block,
                                                          size_t dynamic, unsigned flags) {
  (void)flags;
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, k, block, dynamic);
}

CALL cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Kernel *k, size_t (*shared)(int),
                                      size_t dynamic, int limit) {
  ENTER;
  if (!kernel_of(k)) return INVALID_HANDLE;
  if (!grid || !block) return INVALID_VALUE;
  int best = 0;
  for (int size = WARP; size <= k->max_threads && (!limit || size <= limit); size += WARP) {
    int threads = size * occupancy(k, size, shared ? shared(size) : dynamic);
    if (threads >= best) best = threads, *block = size;
  }
  *grid = 16 * (best / *block);
  return OK;
}

/* --- linking: the image is the text behind a mark */

typedef struct Link {
  Magic magic;
  char *image;
  unsigned n;
  int *names;
  void **values;
} Link;

CALL cuLinkCreate_v2(unsigned n, int *names, void **values, Link **link) {
  ENTER;
  if (!link) return INVALID_VALUE;
  *link = calloc(1, sizeof **link);
  **link = (Link){.magic = IS_LINK, .n = n, .names = names, .values = values};
  return OK;
}

CALL cuLinkAddData_v2(Link *link, int type, void *data, size_t size, const char *name, unsigned n,
                      int *names, void **values) {
  ENTER;
  (void)name, (void)n, (void)names, (void)values;
  if (!link || link->magic != IS_LINK) return INVALID_HANDLE;
  if (type != 1 || link->image || !data) return NOT_SUPPORTED; /* one text of PTX */
  char *text = calloc(1, size + 64);
  int at = snprintf(text, 64, "%s%d\n", image_mark, settings.capability);
  memcpy(text + at, data, size);
  Log log = log_of(link->n, link->names, link->values);
  int status;
  Module *m = ptx_parse(text + at, settings.capability, &log, &status);
  log_close(&log, link->n, link->names, link->values);
  if (m) module_free(m);
  if (!m) free(text);
  else link->image = text;
  return status;
}

CALL cuLinkComplete(Link *link, void **image, size_t *size) {
  ENTER;
  if (!link || link->magic != IS_LINK || !link->image) return INVALID_HANDLE;
  if (image) *image = link->image;
  if (size) *size = strlen(link->image) + 1;
  return OK;
}

CALL cuLinkDestroy(Link *link) {
  ENTER;
  if (!link || link->magic != IS_LINK) return INVALID_HANDLE;
  free(link->image);
  link->magic = 0;
  free(link);
  return OK;
}
