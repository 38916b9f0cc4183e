/*
** cusolver.c -- a stand-in of cuSOLVER for the software GPU: the calls that ty.linalg needs, written from cusolverDn.h.
** It checks handles, sizes, leading dimensions, types, workspaces and pointers, and computes by LAPACK when the stream comes to it,
** from memory as it is then. Environment: SOFT_CUSOLVER_CREATE, _FAIL = n: the nth creation, call fails (-1: all).
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../reach.h"

#define CALL __attribute__((visibility("default"))) int
#define EXPORT __attribute__((visibility("default")))

int cuLaunchHostFunc(void *stream, void (*call)(void *), void *user);
int cuCtxGetCurrent(void **context);

enum { SUCCESS, NOT_INITIALIZED = 1, INVALID_VALUE = 3, INTERNAL_ERROR = 7, NOT_SUPPORTED = 9 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { IS_HANDLE = 0x501, IS_PARAMS, MOST = 24, HOST_BYTES = 48 };

typedef struct Handle { /* of the device that was current when it was made */
  int magic;
  void *stream, *context;
} Handle;
typedef struct Params {
  int magic;
} Params;

static int routines;
EXPORT int soft_cusolver_routines(void) { return routines; }

static int fails(const char *name, int *count) {
  const char *text = getenv(name);
  const int n = text ? atoi(text) : 0;
  return n == -1 || (n > 0 && ++*count == n);
}

static Params defaults = {IS_PARAMS};

CALL cusolverDnCreate(Handle **h) {
  static int count;
  void *context = NULL;
  if (!h) return INVALID_VALUE;
  if (cuCtxGetCurrent(&context) || !context || fails("SOFT_CUSOLVER_CREATE", &count))
    return NOT_INITIALIZED;
  *h = calloc(1, sizeof **h);
  **h = (Handle){.magic = IS_HANDLE, .context = context};
  return SUCCESS;
}

static bool is_of_device(const Handle *h) {
  void *context = NULL;
  return h && h->magic == IS_HANDLE && !cuCtxGetCurrent(&context) && context == h->context;
}

CALL cusolverDnSetStream(Handle *h, void *stream) {
  if (!is_of_device(h)) return NOT_INITIALIZED;
  h->stream = stream;
  return SUCCESS;
}
CALL cusolverDnCreateParams(Params **p) {
  *p = &defaults;
  return SUCCESS;
}

/* --- LAPACK */

static void *routine(int type, const char *real, const char *complex) {
  static void *library;
  char name[24] = {type == R_32F ? 's' : type == R_64F ? 'd' : type == C_32F ? 'c' : 'z'};
  if (!library) library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) library = dlopen("liblapack.so.3", RTLD_NOW);
  strcat(strcat(name, type < C_32F ? real : complex), "_");
  void *p = library ? dlsym(library, name) : NULL;
  if (!p) {
    fprintf(stderr, "the stand-in of cuSOLVER needs LAPACK: %s\n", dlerror());
    abort();
  }
  return p;
}

static size_t size_of(int type) { return type == R_32F ? 4 : type == C_64F ? 16 : 8; }
static int real_of(int type) { return type == R_32F || type == C_32F ? R_32F : R_64F; }

/* --- a routine that waits for its turn */

typedef enum { POTRF, GETRF, GETRS, GEQRF, ORGQR, GESVD, SYEVD } Kind;

typedef struct Work {
  Kind kind;
  int type;
  int m, n, k, lda, ldb, ldv;
  uint64_t a, b, s, v, info, workspace;
  size_t bytes;
} Work;

static void *reach(uint64_t at, uint64_t bytes, bool write, const char *what) {
  return bytes ? soft_gpu_reach(at, bytes, write, what) : (void *)1;
}

/* Bytes from the first element of a matrix to the end of its last one. */
static uint64_t extent(int rows, int columns, int ld, size_t size) {
  return rows && columns ? ((uint64_t)(columns - 1) * (uint64_t)ld + (uint64_t)rows) * size : 0;
}

static int factor(const Work *w, void *a, void *pivots) {
  int info = 0, p[4096];
  typedef void Getrf(const int *, const int *, void *, const int *, int *, int *);
  ((Getrf *)routine(w->type, "getrf", "getrf"))(&w->m, &w->n, a, &w->lda, p, &info);
  for (int i = 0; i < w->m && i < w->n; i++) ((int64_t *)pivots)[i] = p[i];
  return info;
}

static int solve(const Work *w, void *a, const int64_t *pivots, void *b) {
  int info = 0, p[4096];
  typedef void Getrs(const char *, const int *, const int *, const void *, const int *, const int *,
                     void *, const int *, int *, size_t);
  for (int i = 0; i < w->n; i++) p[i] = (int)pivots[i];
  ((Getrs *)routine(w->type, "getrs", "getrs"))("N", &w->n, &w->k, a, &w->lda, p, b, &w->ldb, &info,
                                                1);
  return info;
}

static int decompose(const Work *w, void *a, void *tau) {
  int info = 0, length = 64 * (w->n + 64);
  void *work = malloc((size_t)length * 16);
  typedef void Geqrf(const int *, const int *, void *, const int *, void *, void *, const int *,
                     int *);
  typedef void Orgqr(const int *, const int *, const int *, void *, const int *, const void *,
                     void *, const int *, int *);
  if (w->kind == GEQRF)
    ((Geqrf *)routine(w->type, "geqrf", "geqrf"))(&w->m, &w->n, a, &w->lda, tau, work, &length,
                                                  &info);
  else
    ((Orgqr *)routine(w->type, "orgqr", "ungqr"))(&w->m, &w->n, &w->k, a, &w->lda, tau, work,
                                                  &length, &info);
  free(work);
  return info;
}

static int singular(const Work *w, void *a, void *s, void *u, void *v) {
  int info = 0, length = 64 * (w->m + w->n + 64);
  void *work = malloc((size_t)length * 16), *more = malloc((size_t)(w->n + 1) * 5 * 8);
  typedef void Gesvd(const char *, const char *, const int *, const int *, void *, const int *,
                     void *, void *, const int *, void *, const int *, void *, const int *, int *,
                     size_t, size_t);
  typedef void CGesvd(const char *, const char *, const int *, const int *, void *, const int *,
                      void *, void *, const int *, void *, const int *, void *, const int *, void *,
                      int *, size_t, size_t);
  void *f = routine(w->type, "gesvd", "gesvd");
  if (w->type < C_32F)
    ((Gesvd *)f)("S", "S", &w->m, &w->n, a, &w->lda, s, u, &w->ldb, v, &w->ldv, work, &length,
                 &info, 1, 1);
  else
    ((CGesvd *)f)("S", "S", &w->m, &w->n, a, &w->lda, s, u, &w->ldb, v, &w->ldv, work, &length,
                  more, &info, 1, 1);
  free(work);
  free(more);
  return info;
}

static int eigen(const Work *w, void *a, void *values) {
  int info = 0, length = 64 * (w->n + 64);
  void *work = malloc((size_t)length * 16), *more = malloc((size_t)(3 * w->n + 1) * 8);
  typedef void Syev(const char *, const char *, const int *, void *, const int *, void *, void *,
                    const int *, int *, size_t, size_t);
  typedef void Heev(const char *, const char *, const int *, void *, const int *, void *, void *,
                    const int *, void *, int *, size_t, size_t);
  void *f = routine(w->type, "syev", "heev");
  if (w->type < C_32F) ((Syev *)f)("V", "L", &w->n, a, &w->lda, values, work, &length, &info, 1, 1);
  else ((Heev *)f)("V", "L", &w->n, a, &w->lda, values, work, &length, more, &info, 1, 1);
  free(work);
  free(more);
  return info;
}

static int cholesky(const Work *w, void *a) {
  int info = 0;
  typedef void Potrf(const char *, const int *, void *, const int *, int *, size_t);
  ((Potrf *)routine(w->type, "potrf", "potrf"))("L", &w->n, a, &w->lda, &info, 1);
  return info;
}

/* What the operands beside a are: bytes, and whether they are read. */
static void run(void *user) {
  Work *w = user;
  const size_t size = size_of(w->type), real = size_of(real_of(w->type));
  const int few = w->m < w->n ? w->m : w->n;
  const bool changes = w->kind != GETRS;
  const uint64_t s_bytes = w->kind == GETRF || w->kind == GETRS   ? (uint64_t)few * 8
                           : w->kind == GEQRF                     ? (uint64_t)few * size
                           : w->kind == ORGQR                     ? (uint64_t)w->k * size
                           : w->kind == GESVD || w->kind == SYEVD ? (uint64_t)w->n * real
                                                                  : 0;
  const uint64_t a_bytes = extent(w->m, w->n, w->lda, size),
                 b_bytes = extent(w->m, w->k, w->ldb, size),
                 v_bytes = w->kind == GESVD ? extent(w->n, w->n, w->ldv, size) : 0;
  char *a = reach(w->a, a_bytes, false, "cuSOLVER's A");
  if (a && changes) a = reach(w->a, a_bytes, true, "cuSOLVER's A");
  void *s =
      a ? reach(w->s, s_bytes, w->kind != GETRS && w->kind != ORGQR, "cuSOLVER's vector") : NULL;
  void *b = (void *)1, *v = (void *)1;
  if (w->kind == GETRS) b = reach(w->b, b_bytes, false, "cuSOLVER's B");
  if (b && (w->kind == GETRS || w->kind == GESVD))
    b = reach(w->b, w->kind == GESVD ? extent(w->m, w->n, w->ldb, size) : b_bytes, true,
              "cuSOLVER's B");
  if (v_bytes) v = reach(w->v, v_bytes, true, "cuSOLVER's V");
  void *space = reach(w->workspace, w->bytes, true, "cuSOLVER's workspace");
  int32_t *info = reach(w->info, 4, true, "cuSOLVER's info");
  if (a && s && b && v && space && info) switch (w->kind) {
    case POTRF: *info = cholesky(w, a); break;
    case GETRF: *info = factor(w, a, s); break;
    case GETRS: *info = solve(w, a, s, b); break;
    case GEQRF:
    case ORGQR: *info = decompose(w, a, s); break;
    case GESVD: *info = singular(w, a, s, b, v); break;
    case SYEVD: *info = eigen(w, a, s); break;
    }
  free(w);
}

static int known(int type) {
  return type == R_32F || type == R_64F || type == C_32F || type == C_64F;
}

static int enqueue(const Handle *h, Work w) {
  static int count;
  if (!is_of_device(h) || !w.info) return INVALID_VALUE;
  if (fails("SOFT_CUSOLVER_FAIL", &count)) return INTERNAL_ERROR;
  Work *own = malloc(sizeof *own);
  *own = w;
  routines++;
  return cuLaunchHostFunc(h->stream, run, own) ? INTERNAL_ERROR : SUCCESS;
}

static int sizes(const Handle *h, const Params *p, int64_t m, int64_t n, int type, int64_t lda,
                 int compute) {
  if (!is_of_device(h) || p != &defaults || m < 0 || n < 0 || m > 4096 || n > 4096 || lda < m ||
      lda < 1)
    return INVALID_VALUE;
  return !known(type) || compute != type ? NOT_SUPPORTED : SUCCESS;
}

/* Different for each routine, so that one's is no other's. */
static size_t device_bytes(Kind kind, int64_t m, int64_t n, int type) {
  return (size_t)(m * n + 8 + 32 * (int)kind) * size_of(type);
}
static size_t host_bytes(Kind kind) { return kind == GESVD || kind == SYEVD ? HOST_BYTES : 0; }

static int needs(Kind kind, int64_t m, int64_t n, int type, size_t *device, size_t *host) {
  *device = device_bytes(kind, m, n, type), *host = host_bytes(kind);
  return SUCCESS;
}
static int given(Kind kind, int64_t m, int64_t n, int type, const void *device, size_t ndevice,
                 void *host, size_t nhost) {
  if (ndevice < device_bytes(kind, m, n, type) || nhost < host_bytes(kind)) return INVALID_VALUE;
  if (!soft_gpu_live((uint64_t)(uintptr_t)device, ndevice) || (uintptr_t)device % 16)
    return INVALID_VALUE;
  if (nhost) memset(host, 0xaa, nhost);
  return SUCCESS;
}

#define AT(p) ((uint64_t)(uintptr_t)(p))

CALL cusolverDnXpotrf_bufferSize(Handle *h, Params *p, int uplo, int64_t n, int type, const void *a,
                                 int64_t lda, int compute, size_t *device, size_t *host) {
  const int e = sizes(h, p, n, n, type, lda, compute);
  return e || uplo != 0 || !a ? INVALID_VALUE : needs(POTRF, n, n, type, device, host);
}
CALL cusolverDnXpotrf(Handle *h, Params *p, int uplo, int64_t n, int type, void *a, int64_t lda,
                      int compute, void *device, size_t ndevice, void *host, size_t nhost,
                      int *info) {
  const int e = sizes(h, p, n, n, type, lda, compute);
  if (e || uplo != 0 || given(POTRF, n, n, type, device, ndevice, host, nhost))
    return INVALID_VALUE;
  return enqueue(h, (Work){POTRF, type, (int)n, (int)n, 0, (int)lda, 1, 1, AT(a), 0, 0, 0, AT(info),
                           AT(device), ndevice});
}

CALL cusolverDnXgetrf_bufferSize(Handle *h, Params *p, int64_t m, int64_t n, int type,
                                 const void *a, int64_t lda, int compute, size_t *device,
                                 size_t *host) {
  const int e = sizes(h, p, m, n, type, lda, compute);
  return e || !a ? INVALID_VALUE : needs(GETRF, m, n, type, device, host);
}
CALL cusolverDnXgetrf(Handle *h, Params *p, int64_t m, int64_t n, int type, void *a, int64_t lda,
                      int64_t *pivots, int compute, void *device, size_t ndevice, void *host,
                      size_t nhost, int *info) {
  const int e = sizes(h, p, m, n, type, lda, compute);
  if (e || !pivots || given(GETRF, m, n, type, device, ndevice, host, nhost)) return INVALID_VALUE;
  return enqueue(h, (Work){GETRF, type, (int)m, (int)n, 0, (int)lda, 1, 1, AT(a), 0, AT(pivots), 0,
                           AT(info), AT(device), ndevice});
}

CALL cusolverDnXgetrs(Handle *h, Params *p, int trans, int64_t n, int64_t columns, int type,
                      const void *a, int64_t lda, const int64_t *pivots, int btype, void *b,
                      int64_t ldb, int *info) {
  const int e = sizes(h, p, n, n, type, lda, type);
  if (e || trans != 0 || btype != type || columns < 1 || ldb < n || !pivots || !b)
    return INVALID_VALUE;
  return enqueue(h, (Work){GETRS, type, (int)n, (int)n, (int)columns, (int)lda, (int)ldb, 1, AT(a),
                           AT(b), AT(pivots), 0, AT(info), 0, 0});
}

CALL cusolverDnXgeqrf_bufferSize(Handle *h, Params *p, int64_t m, int64_t n, int type,
                                 const void *a, int64_t lda, int ttype, const void *tau,
                                 int compute, size_t *device, size_t *host) {
  const int e = sizes(h, p, m, n, type, lda, compute);
  return e || ttype != type || !tau || !a ? INVALID_VALUE : needs(GEQRF, m, n, type, device, host);
}
CALL cusolverDnXgeqrf(Handle *h, Params *p, int64_t m, int64_t n, int type, void *a, int64_t lda,
                      int ttype, void *tau, int compute, void *device, size_t ndevice, void *host,
                      size_t nhost, int *info) {
  const int e = sizes(h, p, m, n, type, lda, compute);
  if (e || ttype != type || given(GEQRF, m, n, type, device, ndevice, host, nhost))
    return INVALID_VALUE;
  return enqueue(h, (Work){GEQRF, type, (int)m, (int)n, 0, (int)lda, 1, 1, AT(a), 0, AT(tau), 0,
                           AT(info), AT(device), ndevice});
}

static int orgqr_size(const Handle *h, int m, int n, int k, const void *a, int lda, const void *tau,
                      int *length) {
  if (!is_of_device(h) || m < n || n < k || k < 0 || lda < m || !a || !tau) return INVALID_VALUE;
  *length = m * n + 8 + 32 * ORGQR;
  return SUCCESS;
}
static int orgqr(const Handle *h, int type, int m, int n, int k, void *a, int lda, const void *tau,
                 void *work, int length, int *info) {
  int need;
  if (orgqr_size(h, m, n, k, a, lda, tau, &need) || length < need) return INVALID_VALUE;
  const size_t bytes = (size_t)length * size_of(type);
  if (!soft_gpu_live(AT(work), bytes)) return INVALID_VALUE;
  return enqueue(
      h, (Work){ORGQR, type, m, n, k, lda, 1, 1, AT(a), 0, AT(tau), 0, AT(info), AT(work), bytes});
}
#define ORGQR_OF(name, type) \
  CALL name##_bufferSize(Handle *h, int m, int n, int k, const void *a, int lda, const void *tau, \
                         int *length) { \
    return orgqr_size(h, m, n, k, a, lda, tau, length); \
  } \
  CALL name(Handle *h, int m, int n, int k, void *a, int lda, const void *tau, void *work, \
            int length, int *info) { \
    return orgqr(h, type, m, n, k, a, lda, tau, work, length, info); \
  }
ORGQR_OF(cusolverDnSorgqr, R_32F)
ORGQR_OF(cusolverDnDorgqr, R_64F)
ORGQR_OF(cusolverDnCungqr, C_32F)
ORGQR_OF(cusolverDnZungqr, C_64F)

CALL cusolverDnXsyevd_bufferSize(Handle *h, Params *p, int job, int uplo, int64_t n, int type,
                                 const void *a, int64_t lda, int wtype, const void *w, int compute,
                                 size_t *device, size_t *host) {
  const int e = sizes(h, p, n, n, type, lda, compute);
  if (e || job != 1 || uplo != 0 || wtype != real_of(type) || !a || !w) return INVALID_VALUE;
  return needs(SYEVD, n, n, type, device, host);
}
CALL cusolverDnXsyevd(Handle *h, Params *p, int job, int uplo, int64_t n, int type, void *a,
                      int64_t lda, int wtype, void *w, int compute, void *device, size_t ndevice,
                      void *host, size_t nhost, int *info) {
  const int e = sizes(h, p, n, n, type, lda, compute);
  if (e || job != 1 || uplo != 0 || wtype != real_of(type) ||
      given(SYEVD, n, n, type, device, ndevice, host, nhost))
    return INVALID_VALUE;
  return enqueue(h, (Work){SYEVD, type, (int)n, (int)n, 0, (int)lda, 1, 1, AT(a), 0, AT(w), 0,
                           AT(info), AT(device), ndevice});
}

/* m < n is not supported, as the manual says. */
static int svd_sizes(const Handle *h, const Params *p, char jobu, char jobv, int64_t m, int64_t n,
                     int type, int64_t lda, int stype, int utype, int64_t ldu, int vtype,
                     int64_t ldv, int compute) {
  const int e = sizes(h, p, m, n, type, lda, compute);
  if (e || jobu != 'S' || jobv != 'S' || m < n || ldu < m || ldv < n) return INVALID_VALUE;
  return stype != real_of(type) || utype != type || vtype != type ? INVALID_VALUE : SUCCESS;
}
CALL cusolverDnXgesvd_bufferSize(Handle *h, Params *p, signed char jobu, signed char jobv,
                                 int64_t m, int64_t n, int type, const void *a, int64_t lda,
                                 int stype, const void *s, int utype, const void *u, int64_t ldu,
                                 int vtype, const void *v, int64_t ldv, int compute, size_t *device,
                                 size_t *host) {
  if (svd_sizes(h, p, jobu, jobv, m, n, type, lda, stype, utype, ldu, vtype, ldv, compute) || !a ||
      !s || !u || !v)
    return INVALID_VALUE;
  return needs(GESVD, m, n, type, device, host);
}
CALL cusolverDnXgesvd(Handle *h, Params *p, signed char jobu, signed char jobv, int64_t m,
                      int64_t n, int type, void *a, int64_t lda, int stype, void *s, int utype,
                      void *u, int64_t ldu, int vtype, void *v, int64_t ldv, int compute,
                      void *device, size_t ndevice, void *host, size_t nhost, int *info) {
  if (svd_sizes(h, p, jobu, jobv, m, n, type, lda, stype, utype, ldu, vtype, ldv, compute) ||
      given(GESVD, m, n, type, device, ndevice, host, nhost))
    return INVALID_VALUE;
  return enqueue(h, (Work){GESVD, type, (int)m, (int)n, 0, (int)lda, (int)ldu, (int)ldv, AT(a),
                           AT(u), AT(s), AT(v), AT(info), AT(device), ndevice});
}
