/*
** work.c -- what items of streams and nodes of graphs do: launches, copies, sets; and the checks that a call makes before.
*/
#include <time.h>

#include "driver.h"

#include <fenv.h>

/* --- launches */

int launch_check(const Launch *l) {
  const Kernel *k = l->kernel;
  uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
  if (!l->grid[0] || !l->grid[1] || !l->grid[2] || !threads) return INVALID_VALUE;
  if (l->grid[0] > INT32_MAX || l->grid[1] > 65535 || l->grid[2] > 65535) return INVALID_VALUE;
  if (threads > MAX_THREADS || l->block[2] > 64) return INVALID_VALUE;
  if (threads > (uint64_t)k->max_threads) return LAUNCH_OUT_OF_RESOURCES;
  for (int i = 0; i < 3; i++)
    if (k->required[0] && l->block[i] != (uint32_t)k->required[i]) return INVALID_VALUE;
  if (l->dynamic > (uint32_t)k->max_dynamic) return INVALID_VALUE;
  if (k->shared_static + l->dynamic > (uint32_t)shared_limit()) return INVALID_VALUE;
  return OK;
}

/* Copies parameters: pointers to each, or one buffer by `extra`. */
int launch_params(Launch *l, void **params, void **extra) {
  const Kernel *k = l->kernel;
  l->params = calloc(1, k->param_bytes + 16u);
  if (!k->n_params) return OK;
  if (params && extra) return INVALID_VALUE;
  if (params) {
    for (int i = 0; i < k->n_params; i++) {
      if (!params[i]) return INVALID_VALUE;
      memcpy(l->params + k->params[i].address, params[i], k->params[i].size);
    }
    return OK;
  }
  const void *buffer = NULL;
  size_t size = 0;
  for (void **e = extra; e && *e; e += 2) /* CU_LAUNCH_PARAM_BUFFER_POINTER 1, _SIZE 2 */
    if ((uintptr_t)*e == 1) buffer = e[1];
    else if ((uintptr_t)*e == 2) size = *(size_t *)e[1];
    else return INVALID_VALUE;
  if (!buffer || size < k->param_bytes) return INVALID_VALUE;
  memcpy(l->params, buffer, k->param_bytes);
  return OK;
}

bool injected(uint64_t *countdown) { return *countdown && --*countdown == 0; }

static void kernel_run(const Launch *l) {
  fenv_t host; /* how the host rounds and what it flushes is nothing to a device */
  fegetenv(&host);
  fesetenv(FE_DFL_ENV);
  int error = injected(&settings.fail_launch) ? LAUNCH_FAILED : launch_run(l);
  fesetenv(&host);
  if (injected(&settings.lose_after)) error = ILLEGAL_ADDRESS;
  if (error) context_lose(error);
}

CALL cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  ENTER;
  Stream *s = stream_of(stream);
  Kernel *k = kernel_of(function);
  if (!k || !s) return INVALID_HANDLE;
  Work w = {.kind = I_KERNEL, .launch = {k, {gx, gy, gz}, {bx, by, bz}, shared, NULL}};
  int bad = launch_check(&w.launch);
  if (bad) return bad;
  bad = launch_params(&w.launch, params, extra);
  if (bad) {
    free(w.launch.params);
    return bad;
  }
  stream_add(s, &w);
  return OK;
}

typedef struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned n_attributes;
} LaunchConfig;

CALL cuLaunchKernelEx(const LaunchConfig *c, void *function, void **params, void **extra) {
  if (!c) return INVALID_VALUE;
  if (c->n_attributes) return NOT_SUPPORTED;
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                        c->block[2], c->shared, c->stream, params, extra);
}

/* --- copies */

static uint64_t extent(uint64_t rows, uint64_t pitch, uint64_t bytes) {
  return rows ? (rows - 1) * pitch + bytes : 0;
}

int copy_check(const Work *w) {
  if (w->to.device && !memory_live(w->to.address, extent(w->rows, w->to_pitch, w->bytes)))
    return INVALID_VALUE;
  if (w->from.device && !memory_live(w->from.address, extent(w->rows, w->from_pitch, w->bytes)))
    return INVALID_VALUE;
  bool nowhere = !w->to.address || (!w->from.address && !w->staged && w->kind == I_COPY);
  return nowhere && w->bytes && w->rows ? INVALID_VALUE : OK;
}

static void copy_row(const Work *w, uint64_t to, uint64_t from) {
  Region *r = region_of(to), *q = region_of(from);
  uint8_t *target = r ? r->bytes + (to - r->base) : (uint8_t *)(uintptr_t)to;
  const uint8_t *source = q ? q->bytes + (from - q->base) : (const uint8_t *)(uintptr_t)from;
  memmove(target, source, w->bytes);
  if (r && q) memmove(r->shadow + (to - r->base), q->shadow + (from - q->base), w->bytes);
  else if (r) memset(r->shadow + (to - r->base), WRITTEN, w->bytes);
  else if (q)
    for (uint64_t i = 0; i < w->bytes; i++)
      counts.unwritten_copied += q->shadow[from - q->base + i] != WRITTEN;
}

static void copy_run(const Work *w) {
  if (copy_check(w)) {
    report("a copy of %llu bytes touches memory that was freed before it ran",
           (unsigned long long)(w->bytes * w->rows));
    context_lose(ILLEGAL_ADDRESS);
    return;
  }
  counts.copies++;
  counts.copied_bytes += w->bytes * w->rows;
  uint64_t from = w->staged ? (uintptr_t)w->staged : w->from.address;
  for (uint64_t i = 0; i < w->rows; i++)
    copy_row(w, w->to.address + i * w->to_pitch, from + i * w->from_pitch);
}

static void set_run(const Work *w) {
  if (copy_check(w)) {
    report("a memset of %llu bytes touches memory that was freed before it ran",
           (unsigned long long)(w->bytes * w->rows));
    context_lose(ILLEGAL_ADDRESS);
    return;
  }
  for (uint64_t row = 0; row < w->rows; row++) {
    uint64_t to = w->to.address + row * w->to_pitch;
    Region *r = region_of(to);
    if (!r) continue;
    for (uint64_t i = 0; i < w->bytes; i += w->element)
      memcpy(r->bytes + (to - r->base) + i, &w->value, w->element);
    memset(r->shadow + (to - r->base), WRITTEN, w->bytes);
  }
}

static void event_run(Event *e) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  e->time = (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void work_run(Work *w) {
  switch (w->kind) {
  case I_KERNEL: kernel_run(&w->launch); break;
  case I_COPY: copy_run(w); break;
  case I_SET: set_run(w); break;
  case I_EVENT: event_run(w->event); break;
  case I_HOST: w->call(w->user); break;
  case I_FREE: memory_free(w->to.address); break;
  case I_GRAPH: graph_run(w->graph); break;
  default: break;
  }
}

void work_free(Work *w) {
  if (w->kind == I_KERNEL) free(w->launch.params);
  if (w->kind == I_GRAPH) graph_release(w->graph);
  free(w->staged);
}

/* --- calls that copy: at once, or when the stream gets there. Memory of another device is refused, though a driver with one
** range of addresses for all would copy: who names it so has mistaken it. */

static bool is_device(uint64_t address) { return memory_device(address) >= 0; }

static bool is_own(const Bytes *b) {
  return !b->device || memory_device(b->address) == device_current();
}

/* Memory that the driver does not know is staged (to the device) or waited for (from it). */
static int copy_bytes(uint64_t to, uint64_t from, uint64_t bytes, bool to_device, bool from_device,
                      void *stream, bool wait, bool peers) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  Work w = {.kind = I_COPY,
            .to = {to, to_device},
            .from = {from, from_device},
            .bytes = bytes,
            .rows = bytes > 0};
  if (!bytes) return OK;
  int bad = copy_check(&w);
  if (bad) return bad;
  if (!peers && (!is_own(&w.to) || !is_own(&w.from))) return INVALID_VALUE;
  if (!wait && !from_device && !memory_is_pinned((void *)(uintptr_t)from)) {
    w.staged = malloc(bytes);
    if (!w.staged) return OUT_OF_MEMORY;
    memcpy(w.staged, (void *)(uintptr_t)from, bytes);
  }
  if (!to_device && !memory_is_pinned((void *)(uintptr_t)to)) wait = true;
  stream_add(s, &w);
  if (wait) stream_finish(s, s->queued);
  return context_current()->error;
}

static int copy_call(uint64_t to, uint64_t from, uint64_t bytes, bool to_device, bool from_device,
                     void *stream, bool wait) {
  return copy_bytes(to, from, bytes, to_device, from_device, stream, wait, false);
}

static bool lies_in(const Context *c, uint64_t address) {
  return c && c->magic == IS_CONTEXT && memory_device(address) == c->device;
}

CALL cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t n) {
  return copy_call(to, (uintptr_t)from, n, true, false, NULL, true);
}
CALL cuMemcpyDtoH_v2(void *to, uint64_t from, size_t n) {
  return copy_call((uintptr_t)to, from, n, false, true, NULL, true);
}
CALL cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t n) {
  return copy_call(to, from, n, true, true, NULL, false);
}
CALL cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream) {
  return copy_call(to, (uintptr_t)from, n, true, false, stream, false);
}
CALL cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream) {
  return copy_call((uintptr_t)to, from, n, false, true, stream, false);
}
CALL cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream) {
  return copy_call(to, from, n, true, true, stream, false);
}
CALL cuMemcpy(uint64_t to, uint64_t from, size_t n) {
  return copy_call(to, from, n, is_device(to), is_device(from), NULL, true);
}
CALL cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void *stream) {
  return copy_call(to, from, n, is_device(to), is_device(from), stream, false);
}
CALL cuMemcpyPeer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t n) {
  if (!lies_in(to_context, to) || !lies_in(from_context, from)) return INVALID_CONTEXT;
  return copy_bytes(to, from, n, true, true, NULL, false, true);
}
CALL cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t n,
                       void *stream) {
  if (!lies_in(to_context, to) || !lies_in(from_context, from)) return INVALID_CONTEXT;
  return copy_bytes(to, from, n, true, true, stream, false, true);
}

static int set_call(uint64_t to, uint32_t value, uint32_t element, size_t n, void *stream) {
  ENTER;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  if (!n) return OK;
  Work w = {.kind = I_SET,
            .to = {to, true},
            .bytes = n * element,
            .rows = 1,
            .value = value,
            .element = element};
  if (to % element || !is_own(&w.to)) return INVALID_VALUE;
  int bad = copy_check(&w);
  if (bad) return bad;
  stream_add(s, &w);
  return OK;
}

CALL cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n) {
  return set_call(to, value, 1, n, NULL);
}
CALL cuMemsetD16_v2(uint64_t to, unsigned short value, size_t n) {
  return set_call(to, value, 2, n, NULL);
}
CALL cuMemsetD32_v2(uint64_t to, unsigned value, size_t n) {
  return set_call(to, value, 4, n, NULL);
}
CALL cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void *stream) {
  return set_call(to, value, 1, n, stream);
}
CALL cuMemsetD16Async(uint64_t to, unsigned short value, size_t n, void *stream) {
  return set_call(to, value, 2, n, stream);
}
CALL cuMemsetD32Async(uint64_t to, unsigned value, size_t n, void *stream) {
  return set_call(to, value, 4, n, stream);
}

/* --- memory */

static int alloc(uint64_t *address, size_t bytes) {
  if (!address || !bytes) return INVALID_VALUE;
  counts.allocations++;
  if (injected(&settings.fail_alloc)) return OUT_OF_MEMORY;
  *address = memory_alloc(bytes);
  return *address ? OK : OUT_OF_MEMORY;
}

CALL cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER;
  return alloc(address, bytes);
}

/* Frees at once, though work may wait that uses it: that work then fails. */
CALL cuMemFree_v2(uint64_t address) {
  ENTER;
  if (!address) return OK;
  if (memory_device(address) != device_current()) return INVALID_VALUE;
  return memory_free(address) ? OK : INVALID_VALUE;
}

CALL cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) {
  ENTER;
  return stream_of(stream) ? alloc(address, bytes) : INVALID_HANDLE;
}

CALL cuMemFreeAsync(uint64_t address, void *stream) {
  ENTER;
  uint64_t base, size;
  Stream *s = stream_of(stream);
  if (!s) return INVALID_HANDLE;
  if (!address) return OK;
  if (!memory_find(address, &base, &size) || base != address) return INVALID_VALUE;
  stream_add(s, &(Work){.kind = I_FREE, .to = {address, true}});
  return OK;
}

static char default_pool;
CALL cuDeviceGetDefaultMemPool(void **pool, int device) {
  LOCKED;
  if (driver_ready()) return NOT_INITIALIZED;
  if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
  *pool = &default_pool;
  return OK;
}
CALL cuDeviceGetMemPool(void **pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }
CALL cuMemPoolTrimTo(void *pool, size_t keep) {
  (void)keep;
  return pool == &default_pool ? OK : INVALID_VALUE;
}
CALL cuMemPoolSetAttribute(void *pool, int which, void *value) {
  return pool == &default_pool && value && which > 0 ? OK : INVALID_VALUE;
}

CALL cuMemAllocHost_v2(void **p, size_t bytes) {
  ENTER;
  if (!p || !bytes) return INVALID_VALUE;
  *p = memory_alloc_pinned(bytes);
  return *p ? OK : OUT_OF_MEMORY;
}

CALL cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
  return flags > 7 ? INVALID_VALUE : cuMemAllocHost_v2(p, bytes);
}

CALL cuMemFreeHost(void *p) {
  ENTER;
  return memory_free_pinned(p) ? OK : INVALID_VALUE;
}

CALL cuMemHostGetDevicePointer_v2(uint64_t *address, void *p, unsigned flags) {
  ENTER;
  if (!address || flags || !memory_is_pinned(p)) return INVALID_VALUE;
  *address = (uintptr_t)p;
  return OK;
}

CALL cuMemGetInfo_v2(size_t *rest, size_t *total) {
  ENTER;
  if (rest) *rest = settings.memory - memory_used();
  if (total) *total = settings.memory;
  return OK;
}

CALL cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t address) {
  ENTER;
  uint64_t b, n;
  if (!memory_find(address, &b, &n)) return INVALID_VALUE;
  if (base) *base = b;
  if (size) *size = n;
  return OK;
}

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE and CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */
CALL cuPointerGetAttribute(void *data, int which, uint64_t address) {
  ENTER;
  uint64_t b, n;
  if (!data || !memory_find(address, &b, &n)) return INVALID_VALUE;
  if (which == 2) *(unsigned *)data = is_device(address) ? 2 : 1;
  else if (which == 9)
    *(int *)data = is_device(address) ? memory_device(address) : context_current()->device;
  else return INVALID_VALUE;
  return OK;
}
