/*
** launch.c -- PTX text to functions, and their launches.
** In:  a text with one entry named `kernel`, whose parameter is one block of bytes.  Out: what runs it. Fails where the
** driver refuses the text, and when memory runs out; a launch that fails ends the use of the device.
** TYCHO_CUDA_PTX names a folder into which every text is written that is assembled.
*/
#include "base/system.h"
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

static void keep_text(const Text *text) {
  const char *folder = getenv("TYCHO_CUDA_PTX");
  char path[512];
  if (!folder || !*folder) return;
  ty_system_format(path, sizeof path, "%.400s/%016llx.ptx", folder,
                   (unsigned long long)ty_hash(text->s, text->n, 0));
  FILE *f = fopen(path, "wb");
  if (!f) return;
  fwrite(text->s, 1, text->n, f);
  fclose(f);
}

static _Thread_local char refused[600]; /* the driver's log, of the thread's last load */

/* Of the text, not of the device: INVALID_IMAGE 200 up to the last error of sources, but INVALID_CONTEXT. */
static bool is_of_text(int e) { return e >= 200 && e < 400 && e != 201; }

const char *ty_cuda_refusal(const char *what) {
  static _Thread_local char text[900];
  if (!*refused) return NULL;
  ty_system_format(text, sizeof text, "%.200s: the CUDA driver %d.%d refuses its kernel: %.600s",
                   what, ty_cuda.driver / 1000, ty_cuda.driver % 1000 / 10, refused);
  return text;
}

bool ty_cuda_load(CudaCode *c, const Text *text) {
  char log[1024] = "";
  int option[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *value[] = {log, (void *)(uintptr_t)sizeof log};
  *refused = 0;
  if (text->failed || !ty_cuda_enter()) return false;
  keep_text(text);
  const int e = ty_cuda.module_load(&c->module, text->s, 2, option, value);
  if (e && getenv("TYCHO_DUMP"))
    fprintf(stderr, "cuda: the driver refuses a kernel: %s\n%s\n", log, text->s);
  if (is_of_text(e)) {
    const char *name = NULL;
    ty_cuda.error_name(e, &name);
    ty_system_format(refused, sizeof refused, "%.60s, %.500s", name ? name : "error", log);
    return false;
  }
  if (!ty_cuda_ok(e, "cuModuleLoadDataEx")) return false;
  c->bytes = text->n;
  if (ty_cuda_ok(ty_cuda.function_get(&c->function, c->module, "kernel"), "cuModuleGetFunction"))
    return true;
  ty_cuda.module_unload(c->module);
  c->module = NULL;
  return false;
}

void ty_cuda_unload(CudaCode *c) {
  if (!c->module || !ty_cuda_enter()) return;
  ty_cuda_ok(ty_cuda.stream_wait(ty_cuda.stream), "cuStreamSynchronize");
  ty_cuda_ok(ty_cuda.module_unload(c->module), "cuModuleUnload");
  c->module = NULL;
}

bool ty_cuda_launch(const CudaCode *c, i64 blocks, int threads, void *params) {
  void *list[] = {params};
  if (blocks <= 0 || !ty_cuda_enter()) return true;
  blocks = TY_MIN(blocks, INT32_MAX);
  return ty_cuda_ok(ty_cuda.launch(c->function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0,
                                   ty_cuda.stream, list, NULL),
                    "cuLaunchKernel");
}
