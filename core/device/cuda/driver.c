/*
** driver.c -- the CUDA driver API, found when it is first wanted.
** In:  libcuda.so.1, or the file that TYCHO_CUDA_DRIVER names.  Out: the table of its functions; of each device its
** context and a stream. Fails where there is no driver, no device, or one that is too old; *err then says what to do.
** An error that comes later ends the use of its device, not of others, nor the process: what is asked for afterwards is
** not carried out, and each wait and copy says why. A child of a fork has no device.
*/
#include "base/system.h"
#include "device/cuda/cuda.h"

#include <stdlib.h>

Cuda ty_cuda_all[CUDA_MOST];
_Thread_local Cuda *ty_cuda_now = ty_cuda_all;
_Thread_local u64 ty_cuda_entered;
_Atomic u64 ty_cuda_marks[CUDA_MOST];
CudaGather ty_cuda_gather;

static Once once = ONCE_INIT;
static Lock lock = LOCK_INIT;
static char refusal[320]; /* of the driver; empty: it is there */
static int count;
static _Thread_local CUcontext current; /* of the thread, as this file has set it */

static struct Opened { /* by number */
  bool tried;
  char refusal[320], trouble[320]; /* empty: it is there; it works */
  _Atomic bool failed;
} opened[CUDA_MOST];

static struct Opened *own(void) { return &opened[ty_cuda.ordinal]; }

static void refuse(char *to, const char *what, int result) {
  const char *name = NULL, *text = NULL;
  if (ty_cuda.error_name) ty_cuda.error_name(result, &name);
  if (ty_cuda.error_string) ty_cuda.error_string(result, &text);
  ty_system_format(to, sizeof refusal, "%s (%s: %s)", what, name ? name : "error",
                   text ? text : "?");
}

/* The first driver that has all functions. */
enum { OLDEST = 11040 };
#define NEEDED "11.4 or newer is needed"

static bool load_functions(Cuda *c) {
  const char *named = getenv("TYCHO_CUDA_DRIVER");
#ifdef _WIN32
  const char *const names[] = {named && *named ? named : "nvcuda.dll", NULL};
#else
  const char *const names[] = {named && *named ? named : "libcuda.so.1", "libcuda.so", NULL};
#endif
  void *library = ty_library_open(names), *p;
  if (!library) {
    ty_system_format(
        refusal, sizeof refusal,
        "there is no CUDA driver: %.200s was not found (it comes with NVIDIA's driver)", names[0]);
    return false;
  }
#define _(field, symbol, args) \
  p = ty_library_symbol(library, symbol); \
  memcpy(&c->field, &p, sizeof p); \
  if (!p) { \
    ty_system_format(refusal, sizeof refusal, "the CUDA driver is too old: it has no %s, " NEEDED, \
                     symbol); \
    return false; \
  }
  CUDA_CALLS(_)
#undef _
  return true;
}

static void child(void) {
  for (int i = 0; i < CUDA_MOST; i++) {
    struct Opened *o = &opened[i];
    if (o->failed) continue;
    ty_system_format(o->trouble, sizeof o->trouble,
                     "a child process cannot use the CUDA device of its parent: fork before "
                     "\"cuda\" is first used");
    o->failed = true;
  }
}

static bool start(Cuda *c) {
  int e;
  if ((e = c->init(0)) == CUDA_ERROR_NO_DEVICE)
    return refuse(refusal, "there is no CUDA device", e), false;
  if (e) return refuse(refusal, "the CUDA driver does not start", e), false;
  if ((e = c->version(&c->driver)))
    return refuse(refusal, "the CUDA driver has no version", e), false;
  if (c->driver < OLDEST) {
    ty_system_format(refusal, sizeof refusal,
                     "the CUDA driver is too old: it is of CUDA %d.%d, " NEEDED, c->driver / 1000,
                     c->driver % 1000 / 10);
    return false;
  }
  if ((e = c->device_count(&count)) || !count)
    return refuse(refusal, "there is no CUDA device", e ? e : CUDA_ERROR_NO_DEVICE), false;
  return true;
}

static void open_driver(void) {
  Cuda *c = &ty_cuda_all[0], *was = ty_cuda_use(c);
  if (load_functions(c) && start(c)) {
    for (int i = 1; i < CUDA_MOST; i++) ty_cuda_all[i] = *c, ty_cuda_all[i].ordinal = i;
    count = TY_MIN(count, CUDA_MOST);
    ty_system_at_fork(NULL, NULL, child);
  }
  ty_cuda_use(was);
}

int ty_cuda_count(const char **err) {
  ty_once(&once, open_driver);
  if (*refusal) *err = refusal;
  return *refusal ? -1 : count;
}

/* The device that this thread works for. */
static void take_device(char *why) {
  int device = 0, e;
  if ((e = ty_cuda.device_get(&device, ty_cuda.ordinal))) {
    refuse(why, "the CUDA device cannot be used", e);
    return;
  }
  ty_cuda.device_name(ty_cuda.name, sizeof ty_cuda.name, device);
  if ((e = ty_cuda.device_attribute(&ty_cuda.major, ATTRIBUTE_MAJOR, device)) ||
      (e = ty_cuda.device_attribute(&ty_cuda.minor, ATTRIBUTE_MINOR, device)) ||
      (e = ty_cuda.device_attribute(&ty_cuda.processors, ATTRIBUTE_MULTIPROCESSORS, device)) ||
      (e = ty_cuda.device_attribute(&ty_cuda.shared_most, ATTRIBUTE_SHARED_MOST, device)))
    refuse(why, "the CUDA device cannot be asked", e);
  else if (ty_cuda.major * 10 + ty_cuda.minor < 75)
    ty_system_format(why, sizeof refusal,
                     "%.100s is too old: it has compute capability %d.%d, 7.5 is needed",
                     ty_cuda.name, ty_cuda.major, ty_cuda.minor);
  else if ((e = ty_cuda.retain(&ty_cuda.context, device)) ||
           (e = ty_cuda.set_current(ty_cuda.context)) ||
           (e = ty_cuda.stream_create(&ty_cuda.stream, 0)))
    refuse(why, "the CUDA device cannot be used", e);
  current = NULL;
}

bool ty_cuda_open(int ordinal, const char **err) {
  static _Thread_local char none[80];
  const int n = ty_cuda_count(err);
  if (n < 0) return false;
  if (ordinal < 0 || ordinal >= n) {
    ty_system_format(none, sizeof none, "there %s %d CUDA device%s, and numbers begin at 0",
                     n == 1 ? "is" : "are", n, n == 1 ? "" : "s");
    *err = none;
    return false;
  }
  struct Opened *o = &opened[ordinal];
  Cuda *was = ty_cuda_use(&ty_cuda_all[ordinal]);
  ty_lock(&lock);
  if (!o->tried) take_device(o->refusal);
  o->tried = true;
  ty_unlock(&lock);
  ty_cuda_use(was);
  if (*o->refusal) *err = o->refusal;
  return !*o->refusal;
}

bool ty_cuda_enter(void) {
  ty_cuda_entered++;
  if (TY_UNLIKELY(own()->failed)) return false;
  if (TY_UNLIKELY(current != ty_cuda.context)) {
    const bool ok = ty_cuda_ok(ty_cuda.set_current(ty_cuda.context), "cuCtxSetCurrent");
    current = ok ? ty_cuda.context : NULL;
  }
  return current != NULL;
}

bool ty_cuda_ok(int result, const char *call) {
  struct Opened *o = own();
  if (TY_LIKELY(!result)) return true;
  if (result == CUDA_ERROR_OUT_OF_MEMORY || o->failed) return false;
  const char *name = NULL, *text = NULL;
  ty_cuda.error_name(result, &name);
  ty_cuda.error_string(result, &text);
  char device[16] = "cuda";
  if (ty_cuda.ordinal) ty_system_format(device, sizeof device, "cuda:%d", ty_cuda.ordinal);
  ty_system_format(o->trouble, sizeof o->trouble,
                   "the device \"%s\" (%.100s) has failed: %s gives %s (%s); it can be used again "
                   "by a new process",
                   device, ty_cuda.name, call, name ? name : "an unknown error", text ? text : "?");
  o->failed = true;
  return false;
}

const char *ty_cuda_trouble(void) { return own()->failed ? own()->trouble : NULL; }
