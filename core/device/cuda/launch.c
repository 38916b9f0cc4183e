/*
** launch.c -- PTX text to functions, and their launches.
** In:  a text with one entry named `kernel`, whose parameter is one block of bytes.  Out: what runs it. Fails where the
** driver refuses the text, and when memory runs out; a launch that fails ends the use of the device.
** TYCHO_CUDA_PTX names a folder into which every text is written that is assembled; TYCHO_DUMP=a prints those of kernels
** when they are first wanted.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"
#include "device/cuda/cuda.h"
#include "device/cuda/ptx.h"

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

void ty_cuda_show(const Text *text) {
  const char *letters = getenv("TYCHO_DUMP");
  if (!text->failed && letters && strcmp(letters, "help") && strchr(letters, 'a'))
    fprintf(stderr, "-- PTX\n%s", text->s);
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

void ty_cuda_forget_refusal(void) { *refused = 0; }

static i32 number_behind(const char *text, const char *mark) {
  const char *at = strstr(text, mark);
  return at ? (i32)strtol(at + strlen(mark), NULL, 10) : 0;
}

void ty_cuda_describe(CudaCode *c, const Text *text) {
  c->params = number_behind(text->s, CODE_ENTRY);
  c->shared = number_behind(text->s, CODE_SHARED);
  if (c->shared)
    ty_cuda_ok(ty_cuda.function_set(c->function, FUNCTION_SHARED_MOST, c->shared),
               "cuFuncSetAttribute");
}

bool ty_cuda_keep_source(CudaCode *c, const Text *text) {
  const char *entry = strstr(text->s, CODE_ENTRY);
  ty_cuda_describe(c, text);
  c->source = entry ? ty_mem_zalloc(sizeof *c->source) : NULL;
  if (!c->source) return false;
  ty_text_add(&c->source->text, text->s, text->n);
  return true;
}

void ty_cuda_drop_source(CudaCode *c) {
  if (!c->source) return;
  if (c->source->late) ty_assembly_drop(c->source->late);
  ty_cuda_unload(&c->source->twin);
  ty_text_free(&c->source->text);
  ty_mem_free(c->source);
  c->source = NULL;
}

/* A module of an image, text or assembled. */
static int load_image(CudaCode *c, const void *image, char *log, size_t room) {
  int option[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *value[] = {log, (void *)(uintptr_t)room};
  return ty_cuda.module_load(&c->module, image, 2, option, value);
}

static bool take_function(CudaCode *c, size_t bytes) {
  c->bytes = bytes, c->source = NULL;
  if (ty_cuda_ok(ty_cuda.function_get(&c->function, c->module, "kernel"), "cuModuleGetFunction"))
    return true;
  ty_cuda.module_unload(c->module);
  c->module = NULL;
  return false;
}

bool ty_cuda_load_code(CudaCode *c, const char *code, size_t n) {
  char log[256] = "";
  const int e = load_image(c, code, log, sizeof log);
  return !is_of_text(e) && ty_cuda_ok(e, "cuModuleLoadDataEx") && take_function(c, n);
}

bool ty_cuda_load_kept(CudaCode *c, const Text *text) {
  char *code;
  size_t n;
  if (text->failed || !ty_cuda_enter() || !ty_store_folder()) return false;
  const StoreKey key = ty_store_key(text, ty_cuda_assembler());
  if (!ty_store_get(key, &code, &n)) return false;
  const bool ok = ty_cuda_load_code(c, code, n);
  ty_mem_free(code);
  if (ok) keep_text(text), ty_cuda_keep_source(c, text);
  else ty_store_remove(key);
  return ok;
}

/* Assembled here, and kept. A newer nvJitLink may make what this driver does not load: it assembles the text itself. */
static bool load_assembled(CudaCode *c, const Text *text) {
  char log[256] = "", *code;
  size_t n;
  if (!ty_store_folder() || !ty_cuda_assemble(text, &code, &n, log, sizeof log)) return false;
  const bool ok = ty_cuda_load_code(c, code, n);
  if (ok)
    ty_store_put(ty_store_key(text, ty_cuda_assembler()), code, n), ty_cuda_keep_source(c, text);
  ty_mem_free(code);
  return ok;
}

bool ty_cuda_load(CudaCode *c, const Text *text) {
  ty_cuda_show(text);
  return ty_cuda_load_kept(c, text) || ty_cuda_load_new(c, text);
}

bool ty_cuda_load_new(CudaCode *c, const Text *text) {
  char log[1024] = "";
  ty_cuda_forget_refusal();
  if (text->failed || !ty_cuda_enter()) return false;
  keep_text(text);
  if (load_assembled(c, text)) return true;
  if (!ty_cuda_enter()) return false;
  const int e = load_image(c, text->s, log, sizeof log);
  if (e && getenv("TYCHO_DUMP"))
    fprintf(stderr, "cuda: the driver refuses a kernel: %s\n%s\n", log, text->s);
  if (is_of_text(e)) {
    const char *name = NULL;
    ty_cuda.error_name(e, &name);
    ty_system_format(refused, sizeof refused, "%.60s, %.500s", name ? name : "error", log);
    return false;
  }
  if (!ty_cuda_ok(e, "cuModuleLoadDataEx") || !take_function(c, text->n)) return false;
  ty_cuda_keep_source(c, text);
  return true;
}

void ty_cuda_unload(CudaCode *c) {
  if (!c->module || !ty_cuda_enter()) return;
  ty_cuda_flush();
  if (ty_cuda_gather.forget) ty_cuda_gather.forget(c->function);
  ty_cuda_settle();
  ty_cuda_drop_source(c);
  ty_cuda_ok(ty_cuda.module_unload(c->module), "cuModuleUnload");
  c->module = NULL;
}

bool ty_cuda_launch(const CudaCode *c, i64 blocks, int threads, void *params) {
  void *list[] = {params};
  if (blocks <= 0 || !ty_cuda_enter()) return true;
  blocks = TY_MIN(blocks, INT32_MAX);
  if (ty_cuda_gather.take && ty_cuda_gather.take(c, blocks, threads, params, (size_t)c->params))
    return true;
  ty_cuda.launches++, ty_cuda_run_now.launches++;
  const i32 span = ty_cuda_span(SPAN_KERNEL, &ty_cuda_label, 1);
  const bool ok = ty_cuda_ok(ty_cuda.launch(c->function, (unsigned)blocks, 1, 1, (unsigned)threads,
                                            1, 1, (unsigned)c->shared, ty_cuda.stream, list, NULL),
                             "cuLaunchKernel");
  ty_cuda_spanned(span);
  return ok;
}
