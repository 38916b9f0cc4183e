/*
** cusolver.c -- linear algebra of ty.linalg, by cuSOLVER.
** In:  routines and stacks of matrices, column by column (ir/job.h).  Out: work on the stream, matrix by matrix. Its file is found by
** dlopen (TYCHO_CUSOLVER names another one, `off` does without); without it the CPU computes, which a line says. Fails when out of
** memory, and with the library's status; what is wrong with a matrix is in its `info`.
** The 64-bit calls of CUDA 11.1 and newer, which know all dtypes; there is none for orgqr. Results are the same from run to run:
** cuSOLVER's mode of deterministic results is its default.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"

typedef struct SolverHandle *SolverHandle;
typedef struct SolverParams *SolverParams;

/*  field    symbol    arguments */
#define ORGQR(_, field, symbol) \
  _(field##_size, symbol "_bufferSize", \
    (SolverHandle h, int m, int n, int k, const void *a, int lda, const void *tau, int *length)) \
  _(field, symbol, \
    (SolverHandle h, int m, int n, int k, void *a, int lda, const void *tau, void *work, \
     int length, int *info))
#define SOLVER_CALLS(_) \
  _(create, "cusolverDnCreate", (SolverHandle * h)) \
  _(set_stream, "cusolverDnSetStream", (SolverHandle h, CUstream s)) \
  _(params, "cusolverDnCreateParams", (SolverParams * p)) \
  _(potrf_size, "cusolverDnXpotrf_bufferSize", \
    (SolverHandle h, SolverParams p, int uplo, i64 n, int type, const void *a, i64 lda, \
     int compute, size_t *device, size_t *host)) \
  _(potrf, "cusolverDnXpotrf", \
    (SolverHandle h, SolverParams p, int uplo, i64 n, int type, void *a, i64 lda, int compute, \
     void *device, size_t ndevice, void *host, size_t nhost, int *info)) \
  _(getrf_size, "cusolverDnXgetrf_bufferSize", \
    (SolverHandle h, SolverParams p, i64 m, i64 n, int type, const void *a, i64 lda, int compute, \
     size_t *device, size_t *host)) \
  _(getrf, "cusolverDnXgetrf", \
    (SolverHandle h, SolverParams p, i64 m, i64 n, int type, void *a, i64 lda, i64 *pivots, \
     int compute, void *device, size_t ndevice, void *host, size_t nhost, int *info)) \
  _(getrs, "cusolverDnXgetrs", \
    (SolverHandle h, SolverParams p, int trans, i64 n, i64 columns, int type, const void *a, \
     i64 lda, const i64 *pivots, int btype, void *b, i64 ldb, int *info)) \
  _(geqrf_size, "cusolverDnXgeqrf_bufferSize", \
    (SolverHandle h, SolverParams p, i64 m, i64 n, int type, const void *a, i64 lda, int ttype, \
     const void *tau, int compute, size_t *device, size_t *host)) \
  _(geqrf, "cusolverDnXgeqrf", \
    (SolverHandle h, SolverParams p, i64 m, i64 n, int type, void *a, i64 lda, int ttype, \
     void *tau, int compute, void *device, size_t ndevice, void *host, size_t nhost, int *info)) \
  _(syevd_size, "cusolverDnXsyevd_bufferSize", \
    (SolverHandle h, SolverParams p, int job, int uplo, i64 n, int type, const void *a, i64 lda, \
     int wtype, const void *w, int compute, size_t *device, size_t *host)) \
  _(syevd, "cusolverDnXsyevd", \
    (SolverHandle h, SolverParams p, int job, int uplo, i64 n, int type, void *a, i64 lda, \
     int wtype, void *w, int compute, void *device, size_t ndevice, void *host, size_t nhost, \
     int *info)) \
  _(gesvd_size, "cusolverDnXgesvd_bufferSize", \
    (SolverHandle h, SolverParams p, signed char jobu, signed char jobv, i64 m, i64 n, int type, \
     const void *a, i64 lda, int stype, const void *s, int utype, const void *u, i64 ldu, \
     int vtype, const void *v, i64 ldv, int compute, size_t *device, size_t *host)) \
  _(gesvd, "cusolverDnXgesvd", \
    (SolverHandle h, SolverParams p, signed char jobu, signed char jobv, i64 m, i64 n, int type, \
     void *a, i64 lda, int stype, void *s, int utype, void *u, i64 ldu, int vtype, void *v, \
     i64 ldv, int compute, void *device, size_t ndevice, void *host, size_t nhost, int *info)) \
  ORGQR(_, sorgqr, "cusolverDnSorgqr") \
  ORGQR(_, dorgqr, "cusolverDnDorgqr") \
  ORGQR(_, cungqr, "cusolverDnCungqr") \
  ORGQR(_, zungqr, "cusolverDnZungqr")

enum { /* cusolver_common.h, cublas_api.h, library_types.h */
       STATUS_ALLOC_FAILED = 2,
       FILL_LOWER = 0,
       OP_N = 0,
       EIG_VECTORS = 1,
       R_32F = 0,
       R_64F = 1,
       C_32F_TYPE = 4,
       C_64F_TYPE = 5
};
static const char *const statuses[] = {
    "SUCCESS",          "NOT_INITIALIZED", "ALLOC_FAILED",
    "INVALID_VALUE",    "ARCH_MISMATCH",   "MAPPING_ERROR",
    "EXECUTION_FAILED", "INTERNAL_ERROR",  "MATRIX_TYPE_NOT_SUPPORTED",
    "NOT_SUPPORTED",    "ZERO_PIVOT",      "INVALID_LICENSE"};

static struct {
#define _(field, symbol, args) int(*field) args;
  SOLVER_CALLS(_)
#undef _
} solver;
static bool present;
static SolverHandle handles[CUDA_MOST],
    handle; /* of devices, NULL: not yet; under the lock, of the one at hand */
static SolverParams params;
static Once once = ONCE_INIT;
static Lock lock = LOCK_INIT;

static bool take(void *library) {
  void *p;
#define _(field, symbol, args) \
  if (!(p = ty_library_symbol(library, symbol))) return false; \
  memcpy(&solver.field, &p, sizeof p);
  SOLVER_CALLS(_)
#undef _
  SolverHandle *h = &handles[ty_cuda.ordinal];
  return (!solver.create(h) && !solver.params(&params)) || (*h = NULL);
}

static void find_library(void) {
#ifdef _WIN32
  static const char *const usual[] = {"cusolver64_12.dll", "cusolver64_11.dll", NULL};
#else
  static const char *const usual[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so",
                                      NULL};
#endif
  if ((present = ty_cuda_library("TYCHO_CUSOLVER", usual, take))) return;
  ty_cuda_say("cuSOLVER was not found: ty.linalg moves its operands to the CPU. CUDA's toolkit and "
              "the package "
              "nvidia-cusolver have it; TYCHO_CUSOLVER names its file, `off` does without");
}

bool ty_cuda_solve_takes(const Job *j) {
  const Solve *d = j->solve;
  if (!ty_cuda_enter()) return true; /* the next wait says why */
  ty_once(&once, find_library);
  return present && (d->kind != SOLVE_QR_Q || TY_MAX(d->m, d->k) <= INT32_MAX);
}

/* --- calls */

/* What a routine is called with; at: of the matrix that is at hand. */
typedef struct Call {
  const Solve *d;
  int type, real;
  char *at[MAX_OPERANDS];
  void *device, *host;
  size_t ndevice, nhost;
} Call;

/* Bytes of workspace. */
static int ask(Call *c) {
  const Solve *d = c->d;
  int length = 0, e = 0;
  switch (d->kind) {
  case SOLVE_CHOLESKY:
    return solver.potrf_size(handle, params, FILL_LOWER, d->n, c->type, c->at[0], d->n, c->type,
                             &c->ndevice, &c->nhost);
  case SOLVE_LU:
    return solver.getrf_size(handle, params, d->m, d->n, c->type, c->at[0], d->m, c->type,
                             &c->ndevice, &c->nhost);
  case SOLVE_QR:
    return solver.geqrf_size(handle, params, d->m, d->n, c->type, c->at[0], d->m, c->type, c->at[1],
                             c->type, &c->ndevice, &c->nhost);
  case SOLVE_SVD:
    return solver.gesvd_size(handle, params, 'S', 'S', d->m, d->n, c->type, c->at[0], d->m, c->real,
                             c->at[1], c->type, c->at[2], d->m, c->type, c->at[3], d->n, c->type,
                             &c->ndevice, &c->nhost);
  case SOLVE_EIGH:
    return solver.syevd_size(handle, params, EIG_VECTORS, FILL_LOWER, d->n, c->type, c->at[0], d->n,
                             c->real, c->at[1], c->type, &c->ndevice, &c->nhost);
  case SOLVE_QR_Q:
    e = (c->type == R_32F        ? solver.sorgqr_size
         : c->type == R_64F      ? solver.dorgqr_size
         : c->type == C_32F_TYPE ? solver.cungqr_size
                                 : solver.zungqr_size)(handle, (int)d->m, (int)d->k, (int)d->k,
                                                       c->at[0], (int)d->m, c->at[1], &length);
    c->ndevice = (size_t)length * ty_dtypes[d->dtype].bytes;
    return e;
  default: return 0; /* LU_SOLVE needs none */
  }
}

static int run(const Call *c) {
  const Solve *d = c->d;
  switch (d->kind) {
  case SOLVE_CHOLESKY:
    return solver.potrf(handle, params, FILL_LOWER, d->n, c->type, c->at[0], d->n, c->type,
                        c->device, c->ndevice, c->host, c->nhost, (int *)(void *)c->at[1]);
  case SOLVE_LU:
    return solver.getrf(handle, params, d->m, d->n, c->type, c->at[0], d->m,
                        (i64 *)(void *)c->at[1], c->type, c->device, c->ndevice, c->host, c->nhost,
                        (int *)(void *)c->at[2]);
  case SOLVE_LU_SOLVE:
    return solver.getrs(handle, params, OP_N, d->n, d->k, c->type, c->at[0], d->n,
                        (const i64 *)(void *)c->at[1], c->type, c->at[2], d->n,
                        (int *)(void *)c->at[3]);
  case SOLVE_QR:
    return solver.geqrf(handle, params, d->m, d->n, c->type, c->at[0], d->m, c->type, c->at[1],
                        c->type, c->device, c->ndevice, c->host, c->nhost, (int *)(void *)c->at[2]);
  case SOLVE_QR_Q:
    return (c->type == R_32F        ? solver.sorgqr
            : c->type == R_64F      ? solver.dorgqr
            : c->type == C_32F_TYPE ? solver.cungqr
                                    : solver.zungqr)(
        handle, (int)d->m, (int)d->k, (int)d->k, c->at[0], (int)d->m, c->at[1], c->device,
        (int)(c->ndevice / ty_dtypes[d->dtype].bytes), (int *)(void *)c->at[2]);
  case SOLVE_SVD:
    return solver.gesvd(handle, params, 'S', 'S', d->m, d->n, c->type, c->at[0], d->m, c->real,
                        c->at[1], c->type, c->at[2], d->m, c->type, c->at[3], d->n, c->type,
                        c->device, c->ndevice, c->host, c->nhost, (int *)(void *)c->at[4]);
  default:
    return solver.syevd(handle, params, EIG_VECTORS, FILL_LOWER, d->n, c->type, c->at[0], d->n,
                        c->real, c->at[1], c->type, c->device, c->ndevice, c->host, c->nhost,
                        (int *)(void *)c->at[2]);
  }
}

/* Bytes from one matrix to the next, of each operand; gives how many there are. */
static int steps_of(const Solve *d, i64 *step) {
  const i64 size = ty_dtypes[d->dtype].bytes, real = d->dtype == T_F32 || d->dtype == T_C64 ? 4 : 8,
            few = TY_MIN(d->m, d->n);
  const i64 all[][5] = {
      [SOLVE_CHOLESKY] = {d->n * d->n * size, 4},
      [SOLVE_LU] = {d->m * d->n * size, few * 8, 4},
      [SOLVE_LU_SOLVE] = {d->n * d->n * size, d->n * 8, d->n * d->k * size, 4},
      [SOLVE_QR] = {d->m * d->n * size, few * size, 4},
      [SOLVE_QR_Q] = {d->m * d->k * size, d->k * size, 4},
      [SOLVE_SVD] = {d->m * d->n * size, d->n * real, d->m * d->n * size, d->n * d->n * size, 4},
      [SOLVE_EIGH] = {d->n * d->n * size, d->n * real, 4}};
  int n = 0;
  while (n < 5 && all[d->kind][n]) step[n] = all[d->kind][n], n++;
  return n;
}

static bool fail(int status, const char **err) {
  static _Thread_local char text[160];
  if (status == STATUS_ALLOC_FAILED) return false;
  ty_system_format(text, sizeof text, "cuSOLVER fails: CUSOLVER_STATUS_%s (%d)",
                   status >= 0 && status < TY_COUNT(statuses) ? statuses[status] : "UNKNOWN",
                   status);
  *err = text;
  return false;
}

/* Under the lock, with its workspace. */
static bool run_all(Call *c, const i64 *step, int n, const char **err) {
  int e = solver.set_stream(handle, ty_cuda.stream);
  const i32 span = ty_cuda_span(SPAN_LIBRARY, &ty_cuda_label, c->d->count);
  for (i64 i = 0; i < c->d->count && !e; i++) {
    e = run(c);
    for (int o = 0; o < n; o++) c->at[o] += step[o];
  }
  ty_cuda_spanned(span);
  ty_cuda_run_now.libraries++;
  return e ? fail(e, err) : true;
}

bool ty_cuda_solve(const Job *j, void *const *buf, const char **err) {
  static const u8 types[] = {
      [T_F32] = R_32F, [T_F64] = R_64F, [T_C64] = C_32F_TYPE, [T_C128] = C_64F_TYPE};
  i64 step[MAX_OPERANDS];
  const int n = steps_of(j->solve, step);
  Call c = {.d = j->solve, .type = types[j->solve->dtype]};
  c.real = c.type == R_32F || c.type == C_32F_TYPE ? R_32F : R_64F;
  if (n != j->noperands) {
    *err = "the routine has other operands";
    return false;
  }
  for (int i = 0; i < n; i++) c.at[i] = buf[i];
  ty_lock(&lock);
  handle = handles[ty_cuda.ordinal];
  int e = handle ? 0 : solver.create(&handles[ty_cuda.ordinal]);
  handle = e ? NULL : handles[ty_cuda.ordinal];
  if (!e) e = ask(&c);
  bool ok = e ? fail(e, err) : true;
  if (ok && c.ndevice) ok = (c.device = ty_cuda_allocate((i64)c.ndevice)) != NULL;
  if (ok && c.nhost) ok = (c.host = ty_mem_alloc(c.nhost)) != NULL;
  ty_cuda_flush(); /* what is gathered comes before */
  if (ok && ty_cuda_enter()) ok = run_all(&c, step, n, err);
  if (c.nhost && ty_cuda_enter()) /* which the library may still read */
    ty_cuda_settle();
  ty_mem_free(c.host);
  if (c.device) ty_cuda_free(c.device, (i64)c.ndevice);
  ty_unlock(&lock);
  return ok;
}
