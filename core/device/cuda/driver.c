/*
** driver.c -- the CUDA driver API, found when it is first wanted.
** In:  libcuda.so.1, or the file that TYCHO_CUDA_DRIVER names.  Out: the table of its functions, the first device's
** context and a stream. Fails where there is no driver, no device, or one that is too old; *err then says what to do.
** An error that comes later ends the use of the device, not the process: what is asked for afterwards is not carried
** out, and each wait and copy says why. A child of a fork has no device.
*/
#include "base/system.h"
#include "device/cuda/cuda.h"

#include <stdlib.h>

Cuda ty_cuda;
CudaGather ty_cuda_gather;
static Once once = ONCE_INIT;
static char refusal[320], trouble[320];
static _Atomic bool failed;
static i64 process;

static void refuse(const char *what, int result) {
  const char *name = NULL, *text = NULL;
  if (ty_cuda.error_name) ty_cuda.error_name(result, &name);
  if (ty_cuda.error_string) ty_cuda.error_string(result, &text);
  ty_system_format(refusal, sizeof refusal, "%s (%s: %s)", what, name ? name : "error",
                   text ? text : "?");
}

static bool load_functions(void) {
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
  memcpy(&ty_cuda.field, &p, sizeof p); \
  if (!p) { \
    ty_system_format(refusal, sizeof refusal, "the CUDA driver is too old: it has no %s", symbol); \
    return false; \
  }
  CUDA_CALLS(_)
#undef _
  return true;
}

static bool take_device(void) {
  int n = 0, device = 0, e;
  if ((e = ty_cuda.init(0)) == CUDA_ERROR_NO_DEVICE)
    return refuse("there is no CUDA device", e), false;
  if (e) return refuse("the CUDA driver does not start", e), false;
  if ((e = ty_cuda.version(&ty_cuda.driver)))
    return refuse("the CUDA driver has no version", e), false;
  if ((e = ty_cuda.device_count(&n)) || !n)
    return refuse("there is no CUDA device", e ? e : CUDA_ERROR_NO_DEVICE), false;
  if ((e = ty_cuda.device_get(&device, 0)))
    return refuse("the CUDA device cannot be used", e), false;
  ty_cuda.device_name(ty_cuda.name, sizeof ty_cuda.name, device);
  if ((e = ty_cuda.device_attribute(&ty_cuda.major, ATTRIBUTE_MAJOR, device)) ||
      (e = ty_cuda.device_attribute(&ty_cuda.minor, ATTRIBUTE_MINOR, device)) ||
      (e = ty_cuda.device_attribute(&ty_cuda.processors, ATTRIBUTE_MULTIPROCESSORS, device)))
    return refuse("the CUDA device cannot be asked", e), false;
  if (ty_cuda.major * 10 + ty_cuda.minor < 75) {
    ty_system_format(refusal, sizeof refusal,
                     "%.100s is too old: it has compute capability %d.%d, 7.5 is needed",
                     ty_cuda.name, ty_cuda.major, ty_cuda.minor);
    return false;
  }
  if ((e = ty_cuda.retain(&ty_cuda.context, device)) ||
      (e = ty_cuda.set_current(ty_cuda.context)) || (e = ty_cuda.stream_create(&ty_cuda.stream, 0)))
    return refuse("the CUDA device cannot be used", e), false;
  return true;
}

static void child(void) {
  if (failed) return;
  ty_system_format(trouble, sizeof trouble,
                   "a child process cannot use the CUDA device of its parent: fork before \"cuda\" "
                   "is first used");
  failed = true;
}

static void open_driver(void) {
  if (!load_functions() || !take_device()) return;
  process = ty_system_process();
  ty_system_at_fork(NULL, NULL, child);
}

bool ty_cuda_open(const char **err) {
  ty_once(&once, open_driver);
  if (*refusal) *err = refusal;
  return !*refusal;
}

bool ty_cuda_enter(void) {
  static _Thread_local bool current;
  if (TY_UNLIKELY(failed)) return false;
  if (TY_UNLIKELY(!current))
    current = ty_cuda_ok(ty_cuda.set_current(ty_cuda.context), "cuCtxSetCurrent");
  return current;
}

bool ty_cuda_ok(int result, const char *call) {
  if (TY_LIKELY(!result)) return true;
  if (result == CUDA_ERROR_OUT_OF_MEMORY || failed) return false;
  const char *name = NULL, *text = NULL;
  ty_cuda.error_name(result, &name);
  ty_cuda.error_string(result, &text);
  ty_system_format(
      trouble, sizeof trouble,
      "the device %.100s has failed: %s gives %s (%s); it can be used again by a new process",
      ty_cuda.name, call, name ? name : "an unknown error", text ? text : "?");
  failed = true;
  return false;
}

const char *ty_cuda_trouble(void) { return failed ? trouble : NULL; }
