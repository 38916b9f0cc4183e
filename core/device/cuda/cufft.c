/*
** cufft.c -- Fourier transforms under ty.precision "fast", by cuFFT.
** In:  lines of complex numbers, there or back, and of real ones.  Out: work on the stream. Its file is found by dlopen (TYCHO_CUFFT
** names another one, `off` does without). NONE where there is none, or it refuses a plan: the caller computes it.
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
  _(d2z, "cufftExecD2Z", (int plan, void *from, void *to))

enum { /* cufft.h */
       R2C = 0x2a,
       C2C = 0x29,
       D2Z = 0x6a,
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

/* The transform of a line of n numbers that are `stride` apart; lines lie behind each other, or side by side. */
static bool make(struct Made *m) {
  const PlanKey *k = &m->key;
  const bool real = k->type == R2C || k->type == D2Z, side = k->stride > 1;
  long long n = k->n, to = real ? k->n / 2 + 1 : k->n;
  if (cufft.create(&m->plan)) return false;
  if (!cufft.allocates(m->plan, 0) &&
      !cufft.make(m->plan, 1, &n, &n, k->stride, side ? 1 : n, &to, k->stride, side ? 1 : to,
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
  default: return cufft.d2z(m->plan, from, to);
  }
}

/* Under the lock. */
static LibraryResult transform(const PlanKey *key, const FftShape *f, char *from, char *to) {
  const i64 size = ty_dtypes[f->dtype].bytes, calls = key->stride > 1 ? f->outer : 1;
  const bool real = key->type == R2C || key->type == D2Z;
  const i64 line = f->n * key->stride * size * (real ? 1 : 2),
            made = (real ? f->n / 2 + 1 : f->n) * key->stride * size * 2;
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

LibraryResult ty_cuda_fft_by_library(const FftShape *f, void *from, void *to, Stream *s) {
  const bool real = f->kind == FFT_REAL, wide = f->dtype == T_F64;
  const i64 size = ty_dtypes[f->dtype].bytes, numbers = real ? f->n / 2 + 1 : f->n;
  if (((uintptr_t)from | (uintptr_t)to) % (2 * (u64)size)) return LIBRARY_NONE;
  if (f->inner > 1 && f->outer > CALLS_MOST) return LIBRARY_NONE;
  if (real && f->inner > 1 && f->n * f->inner % 2) return LIBRARY_NONE; /* lines are aligned */
  ty_once(&once, find_library);
  if (!present) return LIBRARY_NONE;
  const PlanKey key = {.n = f->n,
                       .stride = f->inner,
                       .lines = f->inner > 1 ? f->inner : f->outer,
                       .type = real   ? (wide ? D2Z : R2C)
                               : wide ? Z2Z
                                      : C2C,
                       .device = ty_cuda.ordinal};
  ty_cuda_flush();                           /* what is gathered comes before */
  if (!ty_cuda_enter()) return LIBRARY_DONE; /* the next wait says why */
  ty_lock(&lock);
  LibraryResult y = transform(&key, f, from, to);
  ty_unlock(&lock);
  const double scale = ty_fft_scale(f->norm, f->n);
  if (y == LIBRARY_DONE && scale != 1 &&
      !ty_cuda_scale_elements(f->dtype, 2 * f->outer * numbers * f->inner, scale, to, s))
    y = LIBRARY_FAILED;
  return y;
}
