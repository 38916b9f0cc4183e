/*
** assemble.c -- PTX text to machine code.
** In:  a text.  Out: a cubin for the device's processor. Fails where the text is refused, and when out of memory.
** nvJitLink does it where it is found (TYCHO_NVJITLINK names its file, `off` does without); else the driver's own linker,
** also where nvJitLink is of a later major version than the driver, which may refuse what it makes.
** Both may be asked by several threads at once.
*/
#include "base/system.h"
#include "device/cuda/library.h"
#include "device/cuda/assemble.h"
#include "device/cuda/cuda.h"

#include <stdlib.h>

enum { INPUT_PTX = 2, LINK_PTX = 1 };

typedef struct Link *LinkHandle;
/*  field    symbol    arguments */
#define JIT_CALLS(_) \
  _(create, "nvJitLinkCreate", (LinkHandle * h, u32 n, const char **options)) \
  _(destroy, "nvJitLinkDestroy", (LinkHandle * h)) \
  _(add, "nvJitLinkAddData", \
    (LinkHandle h, int kind, const void *data, size_t n, const char *name)) \
  _(complete, "nvJitLinkComplete", (LinkHandle h)) \
  _(size, "nvJitLinkGetLinkedCubinSize", (LinkHandle h, size_t * n)) \
  _(get, "nvJitLinkGetLinkedCubin", (LinkHandle h, void *code)) \
  _(log_size, "nvJitLinkGetErrorLogSize", (LinkHandle h, size_t * n)) \
  _(log, "nvJitLinkGetErrorLog", (LinkHandle h, char *log)) \
  _(version, "nvJitLinkVersion", (u32 * major, u32 * minor))

static struct {
#define _(field, symbol, args) int(*field) args;
  JIT_CALLS(_)
#undef _
} jit;
static bool has_jit;
static char names[CUDA_MOST][160]; /* empty: not made yet */
static Lock lock = LOCK_INIT;
static u32 version[2];
static Once once = ONCE_INIT;

static bool take(void *library) {
  void *p;
#define _(field, symbol, args) \
  if (!(p = ty_library_symbol(library, symbol))) return false; \
  memcpy(&jit.field, &p, sizeof p);
  JIT_CALLS(_)
#undef _
  return !jit.version(&version[0], &version[1]) && (int)version[0] <= ty_cuda.driver / 1000;
}

static void choose(void) {
  static const char *const usual[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so",
                                      NULL};
  has_jit = ty_cuda_library("TYCHO_NVJITLINK", usual, take);
  if (!has_jit) version[0] = version[1] = 0;
}

const char *ty_cuda_assembler(void) {
  ty_once(&once, choose);
  char *name = names[ty_cuda.ordinal];
  ty_lock(&lock);
  if (!*name)
    ty_system_format(name, sizeof names[0], "%s %u.%u sm_%d%d driver %d",
                     has_jit ? "nvJitLink" : "driver", version[0], version[1], ty_cuda.major,
                     ty_cuda.minor, ty_cuda.driver);
  ty_unlock(&lock);
  return name;
}

static bool by_jit(const Text *text, char **code, size_t *n, char *log, size_t room) {
  char arch[24];
  const char *options[] = {arch};
  LinkHandle h = NULL;
  size_t size = 0;
  char *p = NULL;
  ty_system_format(arch, sizeof arch, "-arch=sm_%d%d", ty_cuda.major, ty_cuda.minor);
  if (jit.create(&h, 1, options)) return false;
  bool ok = !jit.add(h, INPUT_PTX, text->s, text->n + 1, "kernel") && !jit.complete(h);
  if (!ok && !jit.log_size(h, &size) && size && (p = ty_mem_zalloc(size + 1))) {
    if (!jit.log(h, p)) ty_system_format(log, room, "%s", p);
    ty_mem_free(p);
  }
  p = NULL;
  ok = ok && !jit.size(h, &size) && size && (p = ty_mem_alloc(size)) && !jit.get(h, p);
  jit.destroy(&h);
  if (ok) *code = p, *n = size;
  else ty_mem_free(p);
  return ok;
}

static bool by_driver(const Text *text, char **code, size_t *n, char *log, size_t room) {
  int option[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
  void *value[] = {log, (void *)(uintptr_t)room};
  CUlinkState l = NULL;
  void *image = NULL;
  size_t size = 0;
  if (ty_cuda.link_create(2, option, value, &l)) return false;
  bool ok = !ty_cuda.link_add(l, LINK_PTX, text->s, text->n + 1, "kernel", 0, NULL, NULL) &&
            !ty_cuda.link_complete(l, &image, &size) && size;
  char *p = ok ? ty_mem_alloc(size) : NULL;
  if (p) memcpy(p, image, size), *code = p, *n = size;
  ty_cuda.link_destroy(l);
  return p != NULL;
}

bool ty_cuda_assemble(const Text *text, char **code, size_t *n, char *log, size_t room) {
  ty_cuda_assembler();
  return has_jit ? by_jit(text, code, n, log, room) : by_driver(text, code, n, log, room);
}
