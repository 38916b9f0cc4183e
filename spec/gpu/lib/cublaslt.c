/*
** cublaslt.c -- a stand-in of cuBLASLt for the software GPU: the calls that products need, written from cublasLt.h.
** It checks handles, sizes of attributes, that matrices fit one another, pointers, alignment, workspace; the product itself is
** computed when the stream comes to it, from memory as it is then. Sums go in an order that depends on the algorithm, and the
** algorithm on all that the heuristic is told: who asks it differently gets other bits.
** Environment: SOFT_CUBLASLT_CREATE, _NONE, _FAIL, _CHECK = n: the nth creation, heuristic, product, check fails (0: never; -1: all).
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../reach.h"

#define CALL __attribute__((visibility("default"))) int
#define EXPORT __attribute__((visibility("default")))

int cuLaunchHostFunc(void *stream, void (*call)(void *), void *user);
int cuCtxGetCurrent(void **context);
int cuStreamQuery(void *stream);

enum {
  SUCCESS,
  NOT_INITIALIZED = 1,
  ALLOC_FAILED = 3,
  INVALID_VALUE = 7,
  INTERNAL_ERROR = 14,
  NOT_SUPPORTED = 15
};
enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68, COMPUTE_TF32 = 77 };
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };
enum { IS_HANDLE = 0x17aa, IS_DESC, IS_LAYOUT, IS_PREFERENCE };

typedef struct Handle { /* of the device that was current when it was made */
  int magic;
  void *context;
} Handle;
typedef struct Desc {
  int magic, compute, scale, turn[2];
  uint32_t epilogue;
  const void *bias;
  int bias_type;
} Desc;
typedef struct Layout {
  int magic, type;
  uint64_t rows, columns;
  int64_t ld;
  int batch;
  int64_t offset;
} Layout;
typedef struct Preference {
  int magic;
  uint64_t workspace;
  uint32_t reduction, aligned[4];
} Preference;
typedef struct Algo {
  uint64_t magic, block, parts, align, epilogue, turn, through,
      own; /* through: parts are of y's dtype */
} Algo;
typedef struct Result {
  Algo algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Result;
_Static_assert(sizeof(Algo) == 64 && sizeof(Result) == 96, "as in cublasLt.h");

static int products, packed_algorithms;
EXPORT int soft_cublaslt_products(void) { return products; }
EXPORT int soft_cublaslt_asked(void) { return packed_algorithms; }

static int fails(const char *name, int *count) {
  const char *text = getenv(name);
  const int n = text ? atoi(text) : 0;
  return n == -1 || (n > 0 && ++*count == n);
}

CALL cublasLtCreate(Handle **h) {
  static int count;
  void *context = NULL;
  if (!h) return INVALID_VALUE;
  if (cuCtxGetCurrent(&context) || !context || fails("SOFT_CUBLASLT_CREATE", &count))
    return NOT_INITIALIZED;
  *h = malloc(sizeof **h);
  **h = (Handle){IS_HANDLE, context};
  return SUCCESS;
}

static bool is_of_device(const Handle *h) {
  void *context = NULL;
  return h && h->magic == IS_HANDLE && !cuCtxGetCurrent(&context) && context == h->context;
}

EXPORT const char *cublasLtGetStatusName(int status) {
  return status == INTERNAL_ERROR  ? "CUBLAS_STATUS_INTERNAL_ERROR"
         : status == INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                   : "CUBLAS_STATUS_OTHER";
}
EXPORT const char *cublasLtGetStatusString(int status) {
  return status == INTERNAL_ERROR ? "an internal operation failed" : "something failed";
}

/* --- descriptors */

CALL cublasLtMatmulDescCreate(Desc **d, int compute, int scale) {
  if (!d) return INVALID_VALUE;
  *d = calloc(1, sizeof **d);
  **d = (Desc){IS_DESC, compute, scale, {0, 0}, EPILOGUE_DEFAULT, NULL, -1};
  return SUCCESS;
}
CALL cublasLtMatmulDescDestroy(Desc *d) {
  if (!d || d->magic != IS_DESC) return INVALID_VALUE;
  d->magic = 0;
  free(d);
  return SUCCESS;
}

static int put(void *to, size_t size, const void *v, size_t n) {
  if (!v || n != size) return INVALID_VALUE;
  memcpy(to, v, n);
  return SUCCESS;
}

CALL cublasLtMatmulDescSetAttribute(Desc *d, int attribute, const void *v, size_t n) {
  if (!d || d->magic != IS_DESC) return INVALID_VALUE;
  switch (attribute) {
  case 3: return put(&d->turn[0], 4, v, n);
  case 4: return put(&d->turn[1], 4, v, n);
  case 7: return put(&d->epilogue, 4, v, n);
  case 8: return put(&d->bias, 8, v, n);
  case 26: return put(&d->bias_type, 4, v, n);
  default: return INVALID_VALUE;
  }
}

CALL cublasLtMatrixLayoutCreate(Layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  if (!l) return INVALID_VALUE;
  *l = calloc(1, sizeof **l);
  **l = (Layout){IS_LAYOUT, type, rows, columns, ld, 1, 0};
  return SUCCESS;
}
CALL cublasLtMatrixLayoutDestroy(Layout *l) {
  if (!l || l->magic != IS_LAYOUT) return INVALID_VALUE;
  l->magic = 0;
  free(l);
  return SUCCESS;
}
CALL cublasLtMatrixLayoutSetAttribute(Layout *l, int attribute, const void *v, size_t n) {
  if (!l || l->magic != IS_LAYOUT) return INVALID_VALUE;
  switch (attribute) {
  case 4: return put(&l->ld, 8, v, n);
  case 5: return put(&l->batch, 4, v, n);
  case 6: return put(&l->offset, 8, v, n);
  default: return INVALID_VALUE;
  }
}

CALL cublasLtMatmulPreferenceCreate(Preference **p) {
  if (!p) return INVALID_VALUE;
  *p = calloc(1, sizeof **p);
  **p = (Preference){IS_PREFERENCE, 0, 7, {256, 256, 256, 256}};
  return SUCCESS;
}
CALL cublasLtMatmulPreferenceDestroy(Preference *p) {
  if (!p || p->magic != IS_PREFERENCE) return INVALID_VALUE;
  p->magic = 0;
  free(p);
  return SUCCESS;
}
CALL cublasLtMatmulPreferenceSetAttribute(Preference *p, int attribute, const void *v, size_t n) {
  if (!p || p->magic != IS_PREFERENCE) return INVALID_VALUE;
  switch (attribute) {
  case 1: return put(&p->workspace, 8, v, n);
  case 3: return put(&p->reduction, 4, v, n);
  case 5:
  case 6:
  case 7:
  case 8: return put(&p->aligned[attribute - 5], 4, v, n);
  default: return INVALID_VALUE;
  }
}

/* --- what goes together */

static size_t size_of(int type) { return type == R_32F ? 4 : 2; }

typedef struct Sizes {
  uint64_t m, n, k; /* as the library counts: y is m x n, column by column */
} Sizes;

static int layout_ok(const Layout *l) {
  return l && l->magic == IS_LAYOUT && l->rows && l->columns && l->ld >= (int64_t)l->rows &&
         l->batch >= 1 && l->offset >= 0;
}

static int fit(const Desc *d, const Layout *a, const Layout *b, const Layout *c, const Layout *y,
               Sizes *s) {
  if (!d || d->magic != IS_DESC || !layout_ok(a) || !layout_ok(b) || !layout_ok(c) || !layout_ok(y))
    return INVALID_VALUE;
  if (d->turn[0] & ~1 || d->turn[1] & ~1) return INVALID_VALUE;
  const uint64_t m = d->turn[0] ? a->columns : a->rows, k = d->turn[0] ? a->rows : a->columns,
                 n = d->turn[1] ? b->rows : b->columns, kb = d->turn[1] ? b->columns : b->rows;
  if (k != kb || y->rows != m || y->columns != n || c->rows != m || c->columns != n ||
      c->type != y->type)
    return INVALID_VALUE;
  if (a->batch != b->batch || a->batch != y->batch || c->batch != y->batch) return INVALID_VALUE;
  if (y->batch > 1 && y->offset < (int64_t)n * y->ld) return INVALID_VALUE;
  const bool half = a->type == R_16F || a->type == R_16BF;
  if (a->type != b->type || a->type != y->type || d->scale != R_32F) return NOT_SUPPORTED;
  if (half ? d->compute != COMPUTE_32F : a->type != R_32F || d->compute != COMPUTE_TF32)
    return NOT_SUPPORTED;
  if (a->type == R_16BF && soft_gpu_capability() < 80) return NOT_SUPPORTED;
  if (d->epilogue & ~(unsigned)(EPILOGUE_DEFAULT | EPILOGUE_RELU | EPILOGUE_BIAS | EPILOGUE_GELU))
    return NOT_SUPPORTED;
  *s = (Sizes){m, n, k};
  return SUCCESS;
}

static uint64_t lowest(uint64_t v) {
  const uint64_t low = v & -v;
  return low < 16 ? low : 16;
}

/* How lines of a matrix are aligned, in bytes. */
static uint64_t aligned(const Layout *l) {
  uint64_t y = lowest((uint64_t)l->ld * size_of(l->type));
  if (l->batch > 1 && l->offset && lowest((uint64_t)l->offset * size_of(l->type)) < y)
    y = lowest((uint64_t)l->offset * size_of(l->type));
  return y;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static size_t workspace_of(const Algo *algo, const Sizes *s, int batch) {
  return algo->parts > 1 ? (size_t)(algo->parts * s->m * s->n * (uint64_t)batch * 4) : 0;
}

CALL cublasLtMatmulAlgoGetHeuristic(Handle *h, Desc *d, Layout *a, Layout *b, Layout *c, Layout *y,
                                    Preference *p, int wanted, Result *result, int *found) {
  static int count;
  Sizes s;
  if (!is_of_device(h) || !p || p->magic != IS_PREFERENCE || wanted < 1 || !result || !found)
    return INVALID_VALUE;
  *found = 0;
  packed_algorithms++;
  const int e = fit(d, a, b, c, y, &s);
  if (e) return e;
  if (fails("SOFT_CUBLASLT_NONE", &count)) return NOT_SUPPORTED;
  Algo algo = {.magic = 0xa190,
               .parts = 1,
               .epilogue = d->epilogue,
               .turn = (uint64_t)(d->turn[0] + 2 * d->turn[1])};
  algo.align = least(least(aligned(a), aligned(b)), aligned(y));
  for (int i = 0; i < 4; i++) algo.align = least(algo.align, p->aligned[i]);
  const bool odd = a->ld != (int64_t)a->rows, other = b->ld != (int64_t)b->rows;
  algo.block = 3 + (algo.align >= 8) + 2u * (unsigned)(d->turn[0] != d->turn[1]) +
               4u * (y->batch > 1) + 8u * odd + 16u * other;
  algo.through = p->reduction >> 2 & 1;
  if (s.k >= 96 && p->reduction & 6) algo.parts = 2 + (s.k >= 400);
  if (workspace_of(&algo, &s, y->batch) > p->workspace) algo.parts = 1;
  memset(result, 0, sizeof *result);
  result->algo = algo;
  result->workspace = workspace_of(&algo, &s, y->batch);
  result->waves = 1;
  *found = 1;
  return SUCCESS;
}

static int check(const Desc *d, const Layout *a, const Layout *b, const Layout *c, const Layout *y,
                 const Algo *algo, Result *result) {
  Sizes s;
  if (!algo || algo->magic != 0xa190) return INVALID_VALUE;
  const int e = fit(d, a, b, c, y, &s);
  if (e) return e;
  if (algo->turn != (uint64_t)(d->turn[0] + 2 * d->turn[1]) || algo->epilogue != d->epilogue)
    return INVALID_VALUE;
  *result = (Result){.algo = *algo, .workspace = workspace_of(algo, &s, y->batch)};
  return SUCCESS;
}

CALL cublasLtMatmulAlgoCheck(Handle *h, Desc *d, Layout *a, Layout *b, Layout *c, Layout *y,
                             const Algo *algo, Result *result) {
  static int count;
  if (!is_of_device(h) || !result) return INVALID_VALUE;
  if (fails("SOFT_CUBLASLT_CHECK", &count)) return NOT_SUPPORTED;
  return check(d, a, b, c, y, algo, result);
}

/* --- the product, when the stream comes to it */

typedef struct Product {
  Desc d;
  Layout a, b, y;
  Sizes s;
  Algo algo;
  uint64_t at[3], workspace, bias;
  size_t bytes;
  float alpha, beta;
} Product;

static float tf32(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
  memcpy(&v, &bits, 4);
  return v;
}

static float element(const Layout *l, const char *column, uint64_t row) {
  const char *p = column + row * size_of(l->type);
  uint16_t h;
  float f;
  if (l->type == R_32F) {
    memcpy(&f, p, 4);
    return tf32(f);
  }
  memcpy(&h, p, 2);
  return soft_gpu_half(h, l->type == R_16BF);
}

/* The matrix of item i as m x k values, row by row; NULL: it cannot be reached. */
static float *values(const Layout *l, uint64_t at, int item, bool turned, uint64_t m, uint64_t k,
                     const char *what) {
  float *v = malloc((size_t)(m * k) * sizeof *v);
  at += (uint64_t)item * (uint64_t)l->offset * size_of(l->type);
  for (uint64_t c = 0; c < l->columns; c++) {
    const char *p = soft_gpu_reach(at + c * (uint64_t)l->ld * size_of(l->type),
                                   l->rows * size_of(l->type), false, what);
    if (!p) {
      free(v);
      return NULL;
    }
    for (uint64_t r = 0; r < l->rows; r++) v[turned ? c * k + r : r * k + c] = element(l, p, r);
  }
  return v;
}

/* Part `part` of the sum: blocks are summed exactly, as tensor cores nearly do, and added in f32. */
static float sum(const Product *p, const float *a, const float *b, uint64_t part) {
  const uint64_t each = (p->s.k + p->algo.parts - 1) / p->algo.parts, from = part * each,
                 to = least(p->s.k, from + each);
  float y = 0;
  for (uint64_t k = from; k < to; k += p->algo.block) {
    double block = 0;
    for (uint64_t i = k; i < to && i < k + p->algo.block; i++) block += (double)a[i] * b[i];
    y += (float)block;
  }
  return y;
}

/* A part of a sum as the scheme keeps it. */
static float passed(const Product *p, float v) {
  if (!p->algo.through || p->y.type == R_32F) return v;
  return soft_gpu_half(soft_gpu_round(v, p->y.type == R_16BF), p->y.type == R_16BF);
}

static float finish(const Product *p, float v, uint64_t row, const char *bias) {
  if (p->d.epilogue & EPILOGUE_BIAS) v += element(&(Layout){.type = p->d.bias_type}, bias, row);
  if (p->d.epilogue & EPILOGUE_RELU) v = v > 0 ? v : 0;
  if (p->d.epilogue & EPILOGUE_GELU)
    v = 0.5f * v * (1 + tanhf(0.797884561f * (v + 0.044715f * v * v * v)));
  return v;
}

static void item(const Product *p, int i) {
  const uint64_t m = p->s.m, n = p->s.n, k = p->s.k;
  float *a = values(&p->a, p->at[0], i, p->d.turn[0], m, k, "cublasLtMatmul's A");
  float *b = a ? values(&p->b, p->at[1], i, !p->d.turn[1], n, k, "cublasLtMatmul's B") : NULL;
  const char *bias = NULL;
  if (b && p->d.epilogue & EPILOGUE_BIAS)
    bias = soft_gpu_reach((uint64_t)(uintptr_t)p->d.bias, m * size_of(p->d.bias_type), false,
                          "cublasLtMatmul's bias");
  const uint64_t at = p->at[2] + (uint64_t)i * (uint64_t)p->y.offset * size_of(p->y.type);
  for (uint64_t c = 0; b && c < n; c++) {
    float *parts = NULL;
    if (p->algo.parts > 1)
      parts = soft_gpu_reach(p->workspace + ((uint64_t)i * n + c) * m * p->algo.parts * 4,
                             m * p->algo.parts * 4, true, "cublasLtMatmul's workspace");
    char *y = soft_gpu_reach(at + c * (uint64_t)p->y.ld * size_of(p->y.type),
                             m * size_of(p->y.type), true, "cublasLtMatmul's D");
    if (!y || (p->algo.parts > 1 && !parts)) break;
    for (uint64_t r = 0; r < m; r++) {
      float v = parts ? 0 : sum(p, a + r * k, b + c * k, 0);
      for (uint64_t q = 0; q < p->algo.parts && parts; q++) {
        float *part = &parts[r * p->algo.parts + q];
        *part = passed(p, sum(p, a + r * k, b + c * k, q));
        v = q ? v + *part : *part;
      }
      v = finish(p, p->alpha * v, r, bias);
      if (p->y.type == R_32F) memcpy(y + r * 4, &v, 4);
      else {
        const uint16_t h = soft_gpu_round(v, p->y.type == R_16BF);
        memcpy(y + r * 2, &h, 2);
      }
    }
  }
  free(a);
  free(b);
}

static void run(void *user) {
  Product *p = user;
  for (int i = 0; i < p->y.batch; i++) item(p, i);
  free(p);
}

CALL cublasLtMatmul(Handle *h, Desc *d, const float *alpha, const void *A, Layout *a, const void *B,
                    Layout *b, const float *beta, const void *C, Layout *c, void *Y, Layout *y,
                    const Algo *algo, void *workspace, size_t bytes, void *stream) {
  static int count;
  Result result;
  Sizes s;
  int e = fit(d, a, b, c, y, &s);
  if (!is_of_device(h) || e || !alpha || !beta || *beta != 0 || !A || !B || !C || !Y || !algo)
    return INVALID_VALUE;
  if (fails("SOFT_CUBLASLT_FAIL", &count)) return INTERNAL_ERROR;
  if ((e = check(d, a, b, c, y, algo, &result)) || result.workspace > bytes) return INVALID_VALUE;
  const uint64_t need = algo->align; /* of which the check says nothing */
  if (least(least(aligned(a), aligned(b)), aligned(y)) < need) return INVALID_VALUE;
  if ((uintptr_t)A % need || (uintptr_t)B % need || (uintptr_t)Y % need ||
      (uintptr_t)workspace % 16)
    return INVALID_VALUE;
  if (result.workspace && !soft_gpu_live((uint64_t)(uintptr_t)workspace, result.workspace))
    return INVALID_VALUE;
  Product *p = calloc(1, sizeof *p);
  *p = (Product){*d,
                 *a,
                 *b,
                 *y,
                 s,
                 *algo,
                 {(uint64_t)(uintptr_t)A, (uint64_t)(uintptr_t)B, (uint64_t)(uintptr_t)Y},
                 (uint64_t)(uintptr_t)workspace,
                 (uint64_t)(uintptr_t)d->bias,
                 bytes,
                 *alpha,
                 *beta};
  if (p->d.bias_type < 0) p->d.bias_type = y->type;
  products++;
  if (!cuLaunchHostFunc(stream, run, p)) return SUCCESS;
  free(p);
  return INVALID_VALUE;
}
