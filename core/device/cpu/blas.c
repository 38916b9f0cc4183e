/*
** blas.c -- OpenBLAS, found when it is first wanted.
** In:  products of f32 or f64 with any strides; names of cblas and LAPACK functions.
** Out: y as OpenBLAS rounds it (which depends on the CPU, the threads and the batch), or a pointer.
** Fails when the library is absent, memory is short, or a dim does not fit an int; *err then says
** what to do, and y is not written. Nothing here is linked: a machine without OpenBLAS loses
** only what asks for it by name.
*/
#include "base/system.h"
#include "device/cpu/cpu.h"

#include <limits.h>
#include <stdatomic.h>

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* of cblas.h */

typedef void Sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                   int lda, const float *b, int ldb, float beta, float *y, int ldy);
typedef void Dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a,
                   int lda, const double *b, int ldb, double beta, double *y, int ldy);

static struct {
  Once once;
  void *handle; /* NULL: err says why */
  const char *err;
  Sgemm *sgemm;
  Dgemm *dgemm;
  void (*set_threads)(int);
  _Atomic int threads; /* as last set */
} blas = {.once = ONCE_INIT};

#ifdef _WIN32
#define LIBRARIES "libopenblas.dll"
#define MISSING "there is no libopenblas.dll beside the program or on PATH"
#else
#define LIBRARIES "libopenblas.so.0", "libopenblas.so", "libopenblasp.so.0", "libopenblaso.so.0"
#define MISSING \
  "OpenBLAS is not installed: libopenblas.so.0 was not found (Debian, Ubuntu: apt-get install " \
  "libopenblas0-pthread)"
#endif

/* A symbol is a data pointer, which the system promises can be called. */
#define SYMBOL(field, name) \
  do { \
    void *p_ = ty_library_symbol(blas.handle, name); \
    memcpy(&blas.field, &p_, sizeof p_); \
  } while (0)

static void load(void) {
  static const char *const names[] = {LIBRARIES, NULL};
  blas.handle = ty_library_open(names);
  if (!blas.handle) {
    blas.err = MISSING;
    return;
  }
  SYMBOL(sgemm, "cblas_sgemm");
  SYMBOL(dgemm, "cblas_dgemm");
  SYMBOL(set_threads, "openblas_set_num_threads");
  if (blas.sgemm && blas.dgemm) return;
  blas.err = "the OpenBLAS that was found has no cblas_sgemm";
  ty_library_close(blas.handle);
  blas.handle = NULL;
}

bool ty_blas_load(const char **err) {
  ty_once(&blas.once, load);
  if (!blas.handle && err) *err = blas.err;
  return blas.handle != NULL;
}

void *ty_blas_symbol(const char *name) {
  return ty_blas_load(NULL) ? ty_library_symbol(blas.handle, name) : NULL;
}

/* Its routines take several times half a megabyte of stack: LU decomposition at each of its levels, for one.
** Where the caller's has less they run on a thread of their own. */
enum { STACK_WANTED = 3 << 20, STACK_OWN = 16 << 20 };

typedef struct Errand {
  void (*fn)(void *);
  void *arg;
} Errand;

static void *run_errand(void *arg) {
  const Errand *e = arg;
  ty_fp_enter();
  e->fn(e->arg);
  return NULL;
}

/* OpenBLAS follows the pool's number of threads; setting it is not free, so only when it changed.
 */
static void follow_threads(void) {
  const int n = ty_pool_threads(0);
  if (blas.set_threads && atomic_exchange(&blas.threads, n) != n) blas.set_threads(n);
}

bool ty_blas_call(void (*fn)(void *), void *arg) {
  const char *end = ty_thread_stack_end(), *here = __builtin_frame_address(0);
  follow_threads();
  if (!end || here - end >= STACK_WANTED) {
    fn(arg);
    return true;
  }
  Errand e = {fn, arg};
  Thread thread;
  if (!ty_thread_start(&thread, STACK_OWN, run_errand, &e)) return false;
  ty_thread_join(thread);
  return true;
}

/* How cblas is to read a matrix of rows x cols; false when it cannot, for lack of a unit stride or
** for a leading dim that is negative, too short or too long. */
static bool layout(i64 rows, i64 cols, i64 rs, i64 cs, int *trans, int *ld) {
  const i64 rld = rows == 1 ? cols : rs; /* a stride that is never stepped may be any */
  if ((cs == 1 || cols == 1) && rld >= cols && rld <= INT_MAX) {
    *trans = NO_TRANS;
    *ld = (int)rld;
    return true;
  }
  if ((rs == 1 || rows == 1) && cs >= rows && cs <= INT_MAX) {
    *trans = TRANS;
    *ld = (int)cs;
    return true;
  }
  return false;
}

/* A dense row-major copy, in squares so that either stride may be the long one. */
static void dense(int size, void *dst, const void *src, i64 rows, i64 cols, i64 rs, i64 cs) {
  enum { SQUARE = 16 };
  for (i64 i0 = 0; i0 < rows; i0 += SQUARE)
    for (i64 j0 = 0; j0 < cols; j0 += SQUARE)
      for (i64 i = i0; i < TY_MIN(i0 + SQUARE, rows); i++)
        for (i64 j = j0; j < TY_MIN(j0 + SQUARE, cols); j++) {
          if (size == 4) ((u32 *)dst)[i * cols + j] = ((const u32 *)src)[i * rs + j * cs];
          else ((u64 *)dst)[i * cols + j] = ((const u64 *)src)[i * rs + j * cs];
        }
}

typedef struct Products {
  const Gemm *d;
  const char *a, *b;
  char *y, *own_a, *own_b; /* own: a dense copy of one item's, or NULL */
  int ta, tb, lda, ldb, size;
} Products;

static void run_products(void *arg) {
  const Products *p = arg;
  const Gemm *d = p->d;
  const int m = (int)d->m, n = (int)d->n, k = (int)d->k, ta = p->ta, tb = p->tb;
  const void *copied = NULL; /* the b that the copy holds: often one for the whole batch */
  for (i64 i = 0; i < d->batch; i++) {
    i64 ao = 0, bo = 0, rest = i;
    for (int l = d->nlead; l-- > 0; rest /= d->lead[l]) {
      ao += rest % d->lead[l] * d->abs[l];
      bo += rest % d->lead[l] * d->bbs[l];
    }
    const void *pa = p->a + ao * p->size, *pb = p->b + bo * p->size;
    char *py = p->y + i * d->m * d->n * p->size;
    if (p->own_a) dense(p->size, p->own_a, pa, d->m, d->k, d->ars, d->acs);
    if (p->own_b && pb != copied) dense(p->size, p->own_b, pb, d->k, d->n, d->brs, d->bcs);
    copied = pb;
    if (p->own_a) pa = p->own_a;
    if (p->own_b) pb = p->own_b;
    if (p->size == 4)
      blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0f, pa, p->lda, pb, p->ldb, 0.0f, (float *)py, n);
    else blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0, pa, p->lda, pb, p->ldb, 0.0, (double *)py, n);
  }
}

bool ty_gemm_blas(const Gemm *d, const void *a, const void *b, void *y, const char **err) {
  Products p = {.d = d, .a = a, .b = b, .y = y, .size = d->dtype == T_F64 ? 8 : 4};
  if (!ty_blas_load(err)) return false;
  if (!d->batch || !d->m || !d->n) return true;
  if (d->m > INT_MAX || d->n > INT_MAX || d->k > INT_MAX) {
    *err = "a dim is too long for OpenBLAS (at most 2^31 - 1); switch ty.blas off";
    return false;
  }
  p.ta = p.tb = NO_TRANS, p.lda = (int)d->k, p.ldb = (int)d->n;
  const bool copy_a = !layout(d->m, d->k, d->ars, d->acs, &p.ta, &p.lda);
  const bool copy_b = !layout(d->k, d->n, d->brs, d->bcs, &p.tb, &p.ldb);
  const i64 na = d->m * d->k * p.size, nb = d->k * d->n * p.size;
  if (copy_a) p.own_a = ty_buf_alloc(na);
  if (copy_b) p.own_b = ty_buf_alloc(nb);
  follow_threads();
  bool ok = (p.own_a || !copy_a) && (p.own_b || !copy_b) && ty_blas_call(run_products, &p);
  if (!ok) *err = "out of memory";
  ty_buf_free(p.own_a, na);
  ty_buf_free(p.own_b, nb);
  return ok;
}
