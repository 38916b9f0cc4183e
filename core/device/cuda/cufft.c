/*
** cufft.c -- Fourier transforms under ty.precision "fast", by cuFFT.
** In:  lines of complex numbers, there or back, of real ones and halves.  Out: work on the stream. Its file is found by dlopen
** (TYCHO_CUFFT names another one, `off` does without). NONE where it refuses a plan: the caller computes it. Nothing is scaled; a half
** that real numbers come from is destroyed.
** A plan belongs to a length, where numbers lie, and how many lines there are; its workspace is the device's, for each call.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"

/*  field    symbol    arguments */
#define CUFFT_CALLS(_) \
  _(create, "cufftCreate", (int *plan)) \
  _(allocates, "cufftSetAutoAllocation", (int plan, int on)) \
  _(make, "cufftMakePlanMany64", \
    (int plan, int rank, long long *n, long long *from, long long from_stride, \
     long long from_line, long long *to, long long to_stride, long long to_line, int type, \
     long long lines, size_t *workspace)) \
  _(set_workspace, "cufftSetWorkArea", (int plan, void *workspace)) \
  _(set_stream, "cufftSetStream", (int plan, CUstream s)) \
  _(destroy, "cufftDestroy", (int plan)) \
  _(c2c, "cufftExecC2C", (int plan, void *from, void *to, int direction)) \
  _(z2z, "cufftExecZ2Z", (int plan, void *from, void *to, int direction)) \
  _(r2c, "cufftExecR2C", (int plan, void *from, void *to)) \
  _(d2z, "cufftExecD2Z", (int plan, void *from, void *to)) \
  _(c2r, "cufftExecC2R", (int plan, void *from, void *to)) \
  _(z2d, "cufftExecZ2D", (int plan, void *from, void *to))

enum { /* cufft.h */
       R2C = 0x2a,
       C2R = 0x2c,
       C2C = 0x29,
       D2Z = 0x6a,
       Z2D = 0x6c,
       Z2Z = 0x69,
       FORWARD = -1,
       INVERSE = 1,
       ALLOC_FAILED = 2
};
enum { PLANS = 32, CALLS_MOST = 64 /* of one transform, line by line of what is in front */ };

static struct {
#define _(field, symbol, args) int(*field) args;
  CUFFT_CALLS(_)
#undef _
} cufft;
static bool present;
static Once once = ONCE_INIT;
static Lock lock = LOCK_INIT;

typedef struct PlanKey {
  i64 n, stride, lines;
  i64 type, device;
} PlanKey;
static struct Made {
  PlanKey key;
  int plan;
  size_t workspace;
  u64 used; /* 0: nothing stands here */
} plans[PLANS];
static u64 clock_of_use;

static bool take(void *library) {
  void *p;
#define _(field, symbol, args) \
  if (!(p = ty_library_symbol(library, symbol))) return false; \
  memcpy(&cufft.field, &p, sizeof p);
  CUFFT_CALLS(_)
#undef _
  return true;
}

static void find_library(void) {
#ifdef _WIN32
  static const char *const usual[] = {"cufft64_12.dll", "cufft64_11.dll", NULL};
#else
  static const char *const usual[] = {"libcufft.so.12", "libcufft.so.11", "libcufft.so", NULL};
#endif
  if ((present = ty_cuda_library("TYCHO_CUFFT", usual, take))) return;
  ty_cuda_say("cuFFT was not found: ty.fft is exact under ty.precision(\"fast\"), too. CUDA's "
              "toolkit and the package nvidia-cufft have it; TYCHO_CUFFT names its file, `off` "
              "does without");
}

static void drop(struct Made *m) {
  if (!m->used) return;
  ty_cuda_settle();
  cufft.destroy(m->plan);
  m->used = 0;
}

static bool takes_real(const PlanKey *k) { return k->type == R2C || k->type == D2Z; }
static bool gives_real(const PlanKey *k) { return k->type == C2R || k->type == Z2D; }

/* The transform of a line of n numbers that are `stride` apart; lines lie behind each other, or side by side. */
static bool make(struct Made *m) {
  const PlanKey *k = &m->key;
  const bool side = k->stride > 1;
  long long n = k->n, half = k->n / 2 + 1, from = gives_real(k) ? half : n,
            to = takes_real(k) ? half : n;
  if (cufft.create(&m->plan)) return false;
  if (!cufft.allocates(m->plan, 0) &&
      !cufft.make(m->plan, 1, &n, &from, k->stride, side ? 1 : from, &to, k->stride, side ? 1 : to,
                  (int)k->type, k->lines, &m->workspace) &&
      !cufft.set_stream(m->plan, ty_cuda.stream))
    return true;
  cufft.destroy(m->plan);
  return false;
}

/* Under the lock; NULL: the library refuses it. */
static struct Made *find(const PlanKey *key) {
  struct Made *m = plans;
  for (int i = 0; i < PLANS; i++) {
    if (plans[i].used && !memcmp(&plans[i].key, key, sizeof *key)) {
      plans[i].used = ++clock_of_use;
      return &plans[i];
    }
    if (plans[i].used < m->used) m = &plans[i];
  }
  Cuda *was = ty_cuda_use(&ty_cuda_all[m->used ? m->key.device : ty_cuda.ordinal]);
  if (ty_cuda_enter()) drop(m);
  ty_cuda_use(was);
  if (!ty_cuda_enter()) return NULL;
  *m = (struct Made){.key = *key};
  if (!make(m)) return NULL;
  m->used = ++clock_of_use;
  return m;
}

static int run(const struct Made *m, void *from, void *to, int direction) {
  switch (m->key.type) {
  case C2C: return cufft.c2c(m->plan, from, to, direction);
  case Z2Z: return cufft.z2z(m->plan, from, to, direction);
  case R2C: return cufft.r2c(m->plan, from, to);
  case C2R: return cufft.c2r(m->plan, from, to);
  case Z2D: return cufft.z2d(m->plan, from, to);
  default: return cufft.d2z(m->plan, from, to);
  }
}

/* Under the lock. */
static LibraryResult transform(const PlanKey *key, const FftShape *f, char *from, char *to) {
  const i64 size = ty_dtypes[f->dtype].bytes, calls = key->stride > 1 ? f->outer : 1;
  const i64 real = f->n * key->stride * size, whole = 2 * real,
            half = (f->n / 2 + 1) * key->stride * size * 2;
  const i64 line = takes_real(key)   ? real
                   : gives_real(key) ? half
                                     : whole,
            made = takes_real(key)   ? half
                   : gives_real(key) ? real
                                     : whole;
  void *workspace = NULL;
  const struct Made *m = find(key);
  if (!m) return LIBRARY_NONE;
  if (m->workspace && !(workspace = ty_cuda_allocate((i64)m->workspace))) return LIBRARY_FAILED;
  int e = cufft.set_workspace(m->plan, workspace);
  const i32 span = ty_cuda_span(SPAN_LIBRARY, &ty_cuda_label, calls);
  for (i64 i = 0; i < calls && !e; i++)
    e = run(m, from + i * line, to + i * made, f->kind == FFT_INVERSE ? INVERSE : FORWARD);
  ty_cuda_spanned(span);
  if (workspace) ty_cuda_free(workspace, (i64)m->workspace);
  ty_cuda_run_now.libraries += !e;
  return !e ? LIBRARY_DONE : e == ALLOC_FAILED ? LIBRARY_FAILED : LIBRARY_NONE;
}

bool ty_cuda_fft_library_takes(const FftShape *f, const void *from, const void *to) {
  const bool real = f->kind != FFT_FORWARD && f->kind != FFT_INVERSE, side = f->inner > 1;
  const u64 number = 2 * (u64)ty_dtypes[f->dtype].bytes;
  if (((uintptr_t)from | (uintptr_t)to) % number || (side && f->outer > CALLS_MOST)) return false;
  if (real && side && f->n * f->inner % 2) return false; /* lines are aligned */
  if (real && f->outer * (f->n / 2 + 1) * f->inner > INT32_MAX) return false;
  ty_once(&once, find_library);
  return present;
}

LibraryResult ty_cuda_fft_by_library(const FftShape *f, void *from, void *to) {
  const bool takes = ty_fft_takes_real(f->kind), gives = ty_fft_gives_real(f->kind),
             wide = f->dtype == T_F64;
  const PlanKey key = {.n = f->n,
                       .stride = f->inner,
                       .lines = f->inner > 1 ? f->inner : f->outer,
                       .type = takes   ? (wide ? D2Z : R2C)
                               : gives ? (wide ? Z2D : C2R)
                               : wide  ? Z2Z
                                       : C2C,
                       .device = ty_cuda.ordinal};
  ty_cuda_flush();                           /* what is gathered comes before */
  if (!ty_cuda_enter()) return LIBRARY_DONE; /* the next wait says why */
  ty_lock(&lock);
  const LibraryResult y = transform(&key, f, from, to);
  ty_unlock(&lock);
  return y;
}
