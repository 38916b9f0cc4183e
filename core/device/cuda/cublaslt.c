/*
** cublaslt.c -- products on tensor cores, by cuBLASLt.
** In:  products that may be computed at reduced precision, how their operands lie.  Out: work on the stream. Its file is found by
** dlopen (TYCHO_CUBLASLT names another one, `off` does without); without it the caller's exact kernels go on, which a line says.
** Fails when out of memory, and with the library's status.
**
** The same bits in eager and compiled mode, from run to run:
** 1. The algorithm goes by sizes, dtype and how the operands lie for the user (PRODUCT_A_COLUMNS ...), which all modes record alike,
**    never by where an operand happens to lie now: the heuristic is asked for packed matrices at aligned addresses.
** 2. What lies otherwise (leading dimensions, steps between matrices) goes by the same algorithm, if the library says that it may;
**    else it is packed before.
** 3. Parts of split sums are added in f32: no scheme that goes through the results' dtype, nor by atomic additions.
** 4. The workspace's limit is fixed. A call without memory for it fails.
** Matrices are row-major here and column-major there: y^T = b^T a^T, so the library's first operand is b.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"
#include "ir/graph.h"

typedef struct Lt *LtHandle;
typedef struct LtDescriptor *LtDesc, *LtLayout, *LtPreference; /* opaque, and alike */
typedef struct LtAlgo {
  u64 data[8];
} LtAlgo;
typedef struct LtHeuristic {
  LtAlgo algo;
  size_t workspace;
  int status;
  float waves;
  int reserved[4];
} LtHeuristic;

/*  field    symbol    arguments */
#define LT_CALLS(_) \
  _(create, "cublasLtCreate", (LtHandle * h)) \
  _(desc_create, "cublasLtMatmulDescCreate", (LtDesc * d, int compute, int scale)) \
  _(desc_set, "cublasLtMatmulDescSetAttribute", \
    (LtDesc d, int attribute, const void *v, size_t n)) \
  _(desc_destroy, "cublasLtMatmulDescDestroy", (LtDesc d)) \
  _(layout_create, "cublasLtMatrixLayoutCreate", \
    (LtLayout * l, int type, u64 rows, u64 columns, i64 ld)) \
  _(layout_set, "cublasLtMatrixLayoutSetAttribute", \
    (LtLayout l, int attribute, const void *v, size_t n)) \
  _(layout_destroy, "cublasLtMatrixLayoutDestroy", (LtLayout l)) \
  _(preference_create, "cublasLtMatmulPreferenceCreate", (LtPreference * p)) \
  _(preference_set, "cublasLtMatmulPreferenceSetAttribute", \
    (LtPreference p, int attribute, const void *v, size_t n)) \
  _(preference_destroy, "cublasLtMatmulPreferenceDestroy", (LtPreference p)) \
  _(heuristic, "cublasLtMatmulAlgoGetHeuristic", \
    (LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c, LtLayout y, LtPreference p, int n, \
     LtHeuristic *result, int *found)) \
  _(check, "cublasLtMatmulAlgoCheck", \
    (LtHandle h, LtDesc d, LtLayout a, LtLayout b, LtLayout c, LtLayout y, const LtAlgo *algo, \
     LtHeuristic *result)) \
  _(matmul, "cublasLtMatmul", \
    (LtHandle h, LtDesc d, const void *alpha, const void *a, LtLayout la, const void *b, \
     LtLayout lb, const void *beta, const void *c, LtLayout lc, void *y, LtLayout ly, \
     const LtAlgo *algo, void *workspace, size_t bytes, CUstream stream))

enum { /* cublasLt.h, cublas_api.h, library_types.h */
       STATUS_ALLOC_FAILED = 3,
       STATUS_INVALID_VALUE = 7,
       STATUS_ARCH_MISMATCH = 8,
       STATUS_NOT_SUPPORTED = 15,
       COMPUTE_32F = 68,
       COMPUTE_32F_FAST_TF32 = 77,
       R_32F = 0,
       R_16F = 2,
       R_16BF = 14,
       OP_T = 1,
       DESC_TRANSA = 3,
       DESC_TRANSB = 4,
       LAYOUT_BATCH_COUNT = 5,
       LAYOUT_BATCH_OFFSET = 6,
       PREFERENCE_WORKSPACE = 1,
       PREFERENCE_REDUCTION = 3,
       PREFERENCE_ALIGNMENT = 5, /* of A, then of B, C, D */
       REDUCTION_COMPUTE_TYPE = 2
};

static struct {
#define _(field, symbol, args) int(*field) args;
  LT_CALLS(_)
#undef _
} lt;
static const char *(*status_name)(int status), *(*status_string)(int status);
static bool present;
static LtHandle handles[CUDA_MOST]; /* of devices; NULL: not yet */
static Once once = ONCE_INIT, once_refused = ONCE_INIT, once_hinted = ONCE_INIT;
static Lock lock = LOCK_INIT;

static bool take(void *library) {
  void *p;
#define _(field, symbol, args) \
  if (!(p = ty_library_symbol(library, symbol))) return false; \
  memcpy(&lt.field, &p, sizeof p);
  LT_CALLS(_)
#undef _
  if (!(p = ty_library_symbol(library, "cublasLtGetStatusName"))) return false;
  memcpy(&status_name, &p, sizeof p);
  if (!(p = ty_library_symbol(library, "cublasLtGetStatusString"))) return false;
  memcpy(&status_string, &p, sizeof p);
  LtHandle *h = &handles[ty_cuda.ordinal];
  return !lt.create(h) || (*h = NULL);
}

static void find_library(void) {
#ifdef _WIN32
  static const char *const usual[] = {"cublasLt64_13.dll", "cublasLt64_12.dll", NULL};
#else
  static const char *const usual[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                      NULL};
#endif
  if ((present = ty_cuda_library("TYCHO_CUBLASLT", usual, take))) return;
  ty_cuda_say("cuBLASLt was not found: products at reduced precision are computed exactly, without "
              "tensor cores. "
              "CUDA's toolkit and the package nvidia-cublas have it; TYCHO_CUBLASLT names its "
              "file, `off` does without");
}

/* --- matrices as they lie */

enum { A, B, Y, ALIGNED = 16 };

typedef struct Matrix {
  const char *at;
  i64 rows, columns; /* as they lie: row by row */
  i64 ld, step;      /* elements between rows, between matrices */
  bool turned;       /* those are the operand's columns, and its rows */
  bool fits;         /* else it has to be packed */
  void *packed;
  i64 bytes;
} Matrix;

typedef struct Product {
  i64 m, n, k, batch;
  i64 size; /* of an element */
  u8 dtype;
  bool merged; /* leading dims of a are rows */
  Matrix x[2];
} Product;

static i64 alignment(i64 bytes) { return TY_MIN(bytes & -bytes, ALIGNED); }

static void lay(const Gemm *g, int i, const char *at, Product *p) {
  Matrix *x = &p->x[i];
  const i64 rs = i ? g->brs : g->ars, cs = i ? g->bcs : g->acs;
  x->at = at;
  x->turned = g->library & (i ? PRODUCT_B_COLUMNS : PRODUCT_A_COLUMNS);
  const i64 rows = i ? g->k : g->m, columns = i ? g->n : g->k;
  x->rows = x->turned ? columns : rows, x->columns = x->turned ? rows : columns;
  const i64 across = x->turned ? rs : cs, along = x->turned ? cs : rs;
  x->ld = x->rows == 1 ? x->columns : along;
  x->step = 0;
  x->fits = ty_cuda_one_step(g->nlead, g->lead, i ? g->bbs : g->abs, &x->step) &&
            (across == 1 || x->columns == 1);
  if (i == B && g->library & PRODUCT_B_SHARED) x->step = 0;
  if (i == A && p->merged && g->batch > 1) {
    if (x->rows == 1) x->ld = x->step;
    x->fits &= x->step == x->rows * x->ld;
    x->rows *= g->batch, x->step = 0;
  }
  if (p->batch == 1) x->step = 0;
  const i64 align = alignment(x->columns * p->size);
  x->fits &= x->ld >= x->columns && !(x->ld * p->size % align) && !(x->step * p->size % align) &&
             !((uintptr_t)at % ALIGNED) && x->step >= 0;
}

/* The dims and strides that the operand has in order once it is packed. */
static bool pack(const Gemm *g, int i, Product *p, Stream *s) {
  Matrix *x = &p->x[i];
  const i64 rs = i ? g->brs : g->ars, cs = i ? g->bcs : g->acs, rows = i ? g->k : g->m,
            columns = i ? g->n : g->k;
  i64 dims[MAX_RANK], strides[MAX_RANK], n = 1;
  int rank = 0;
  const bool one = i == B && g->library & PRODUCT_B_SHARED;
  for (int d = 0; d < g->nlead && !one; d++)
    dims[rank] = g->lead[d], strides[rank++] = (i ? g->bbs : g->abs)[d];
  dims[rank] = x->turned ? columns : rows, strides[rank++] = x->turned ? cs : rs;
  dims[rank] = x->turned ? rows : columns, strides[rank++] = x->turned ? rs : cs;
  for (int d = 0; d < rank; d++) n *= dims[d];
  x->bytes = n * p->size;
  if (!(x->packed = ty_cuda_allocate(x->bytes))) return false;
  if (!ty_cuda_gather_elements(p->dtype, rank, dims, strides, x->at, x->packed, s)) return false;
  x->at = x->packed;
  x->ld = x->columns, x->step = one || p->batch == 1 ? 0 : x->rows * x->columns;
  x->fits = true;
  return true;
}

/* --- choices, kept by what they are for */

typedef struct LtKey { /* bytes of it are compared */
  i64 m, n, k, batch, ld[2], step[2];
  u8 dtype, turned[2], device, own[4];
} LtKey;

enum { SETS = 64, WAYS = 4 };

typedef struct Choice {
  LtKey key;
  bool refused; /* there is no algorithm */
  LtDesc desc;
  LtLayout layout[3];
  LtAlgo algo;
  size_t workspace;
  u64 used;
} Choice;
static Choice choices[SETS][WAYS];
static u64 clock_of_use;

static LtKey key_of(const Product *p, bool packed) {
  LtKey k = {.m = p->m,
             .n = p->n,
             .k = p->k,
             .batch = p->batch,
             .dtype = p->dtype,
             .device = (u8)ty_cuda.ordinal};
  for (int i = 0; i < 2; i++) {
    const Matrix *x = &p->x[i];
    k.turned[i] = x->turned;
    k.ld[i] = packed ? x->columns : x->ld;
    k.step[i] = packed && x->step ? x->rows * x->columns : x->step;
  }
  return k;
}

static void release(Choice *c) {
  if (c->desc) lt.desc_destroy(c->desc);
  for (int i = 0; i < 3; i++)
    if (c->layout[i]) lt.layout_destroy(c->layout[i]);
  *c = (Choice){.used = 0};
}

static int lay_out(LtLayout *y, int type, i64 rows, i64 columns, i64 ld, i64 batch, i64 step) {
  const i32 count = (i32)batch;
  int e = lt.layout_create(y, type, (u64)columns, (u64)rows, ld);
  if (e || batch == 1) return e;
  if ((e = lt.layout_set(*y, LAYOUT_BATCH_COUNT, &count, sizeof count))) return e;
  return lt.layout_set(*y, LAYOUT_BATCH_OFFSET, &step, sizeof step);
}

static int describe(Choice *c) {
  const LtKey *k = &c->key;
  const i32 turn = OP_T;
  const int type = k->dtype == T_F16 ? R_16F : k->dtype == T_BF16 ? R_16BF : R_32F;
  int e = lt.desc_create(&c->desc, type == R_32F ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F, R_32F);
  if (!e && k->turned[B]) e = lt.desc_set(c->desc, DESC_TRANSA, &turn, sizeof turn);
  if (!e && k->turned[A]) e = lt.desc_set(c->desc, DESC_TRANSB, &turn, sizeof turn);
  const i64 rows[] = {k->turned[A] ? k->k : k->m, k->turned[B] ? k->n : k->k},
            columns[] = {k->turned[A] ? k->m : k->k, k->turned[B] ? k->k : k->n};
  for (int i = 0; i < 2 && !e; i++)
    e = lay_out(&c->layout[i], type, rows[i], columns[i], k->ld[i], k->batch, k->step[i]);
  return e ? e : lay_out(&c->layout[Y], type, k->m, k->n, k->n, k->batch, k->m * k->n);
}

static int prefer(LtPreference p) {
  const u64 workspace = (u64)(ty_cuda.major >= 9 ? 32 : 4) << 20;
  const u32 reduction = REDUCTION_COMPUTE_TYPE, aligned = ALIGNED;
  int e = lt.preference_set(p, PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
  if (!e) e = lt.preference_set(p, PREFERENCE_REDUCTION, &reduction, sizeof reduction);
  for (int i = 0; i < 4 && !e; i++)
    e = lt.preference_set(p, PREFERENCE_ALIGNMENT + i, &aligned, sizeof aligned);
  return e;
}

/* What the library has no algorithm for, whatever it says so by. */
static bool is_refusal(int status) {
  return status == STATUS_NOT_SUPPORTED || status == STATUS_INVALID_VALUE ||
         status == STATUS_ARCH_MISMATCH;
}

static int ask(Choice *c) {
  LtPreference p = NULL;
  LtHeuristic h = {.status = STATUS_NOT_SUPPORTED};
  int found = 0, e = lt.preference_create(&p);
  if (!e) e = prefer(p);
  if (!e)
    e = lt.heuristic(handles[c->key.device], c->desc, c->layout[B], c->layout[A], c->layout[Y],
                     c->layout[Y], p, 1, &h, &found);
  if (p) lt.preference_destroy(p);
  if (!e) e = found > 0 ? h.status : STATUS_NOT_SUPPORTED;
  c->algo = h.algo, c->workspace = h.workspace;
  return e;
}

/* Rule 2: the algorithm of the packed matrices. */
static int adopt(Choice *c, const Choice *packed) {
  LtHeuristic h = {.status = 0};
  if (packed->refused) return STATUS_NOT_SUPPORTED;
  int e = lt.check(handles[c->key.device], c->desc, c->layout[B], c->layout[A], c->layout[Y],
                   c->layout[Y], &packed->algo, &h);
  c->algo = packed->algo, c->workspace = TY_MAX(packed->workspace, h.workspace);
  return e ? e : h.workspace > packed->workspace ? STATUS_NOT_SUPPORTED : 0;
}

/* Under the lock: the key's choice. packed: of the same product, packed; NULL: it is that. NULL: *status says why. */
static Choice *choose(const LtKey *key, const Choice *packed, int *status) {
  Choice *set = choices[ty_hash(key, sizeof *key, 0) % SETS], *c = NULL;
  *status = 0;
  for (int i = 0; i < WAYS; i++) {
    if (set[i].used && !memcmp(&set[i].key, key, sizeof *key)) {
      set[i].used = ++clock_of_use;
      return &set[i];
    }
    if (&set[i] != packed && (!c || set[i].used < c->used)) c = &set[i];
  }
  release(c);
  c->key = *key;
  int e = describe(c);
  if (!e) e = packed ? adopt(c, packed) : ask(c);
  c->refused = is_refusal(e);
  if (e && !c->refused) {
    release(c);
    *status = e;
    return NULL;
  }
  c->used = ++clock_of_use;
  return c;
}

/* --- calls */

static LibraryResult fail(int status, const char **err) {
  static _Thread_local char text[300];
  if (status == STATUS_ALLOC_FAILED) return LIBRARY_FAILED;
  ty_system_format(text, sizeof text, "matmul: cuBLASLt fails: %.80s (%.160s)", status_name(status),
                   status_string(status));
  *err = text;
  return LIBRARY_FAILED;
}

static void say_refused(void) {
  ty_cuda_say("cuBLASLt has no algorithm for some products at reduced precision, which are "
              "computed exactly");
}

/* Under the lock. */
static LibraryResult multiply(const Choice *c, const Product *p, void *y, const char **err) {
  const float one = 1, zero = 0;
  void *workspace = NULL;
  if (c->workspace && !(workspace = ty_cuda_allocate((i64)c->workspace))) return LIBRARY_FAILED;
  ty_cuda_flush(); /* what is gathered comes before */
  const bool ready = ty_cuda_enter();
  const i32 span = ready ? ty_cuda_span(SPAN_LIBRARY, &ty_cuda_label, 1) : -1;
  const int e = ready ? lt.matmul(handles[c->key.device], c->desc, &one, p->x[B].at, c->layout[B],
                                  p->x[A].at, c->layout[A], &zero, y, c->layout[Y], y, c->layout[Y],
                                  &c->algo, workspace, c->workspace, ty_cuda.stream)
                      : 0;
  ty_cuda_spanned(span);
  ty_cuda_run_now.libraries++;
  if (workspace) ty_cuda_free(workspace, (i64)c->workspace);
  return e ? fail(e, err) : LIBRARY_DONE;
}

/* Under the lock. *fits: false where what is not packed must be. */
static LibraryResult attempt(const Product *p, void *y, bool *fits, const char **err) {
  const LtKey key = key_of(p, false), packed = key_of(p, true);
  LtHandle *handle = &handles[ty_cuda.ordinal];
  int status;
  *fits = true;
  if (!*handle && (status = lt.create(handle))) return *handle = NULL, fail(status, err);
  const Choice *c = choose(&packed, NULL, &status);
  if (!c) return fail(status, err);
  if (c->refused) {
    ty_once(&once_refused, say_refused);
    return LIBRARY_NONE;
  }
  if (memcmp(&key, &packed, sizeof key) && !(c = choose(&key, c, &status)))
    return fail(status, err);
  *fits = !c->refused;
  return *fits ? multiply(c, p, y, err) : LIBRARY_NONE;
}

LibraryResult ty_cuda_lt_product(const Gemm *g, const char *a, const char *b, void *y, Stream *s,
                                 const char **err) {
  Product p = {.m = g->m,
               .n = g->n,
               .k = g->k,
               .batch = g->batch,
               .size = ty_dtypes[g->dtype].bytes,
               .dtype = (u8)g->dtype};
  bool fits = false, ok = true;
  ty_once(&once, find_library);
  if (!present || !g->k || g->a_im2col || g->b_im2col) return LIBRARY_NONE;
  p.merged = g->library & PRODUCT_B_SHARED && !(g->library & PRODUCT_A_COLUMNS);
  if (p.merged) p.m *= p.batch, p.batch = 1;
  if (p.batch > INT32_MAX) return LIBRARY_NONE;
  lay(g, A, a, &p), lay(g, B, b, &p);
  LibraryResult r = LIBRARY_NONE;
  for (int i = 0; i < 2 && ok; i++)
    if (!p.x[i].fits) ok = pack(g, i, &p, s);
  for (int again = 0; again < 2 && ok && !fits; again++) {
    for (int i = 0; i < 2 && ok && again; i++)
      if (!p.x[i].packed) ok = pack(g, i, &p, s);
    if (!ok) break;
    ty_lock(&lock);
    r = attempt(&p, y, &fits, err);
    ty_unlock(&lock);
  }
  for (int i = 0; i < 2; i++)
    if (p.x[i].packed) ty_cuda_free(p.x[i].packed, p.x[i].bytes);
  return ok ? r : LIBRARY_FAILED;
}

static void hint(void) {
  ty_cuda_say("exact products of half floats run on CUDA cores, at about a fifteenth of what "
              "tensor cores give: "
              "ty.precision \"fast\" or ty.autocast sends them to cuBLASLt");
}

void ty_cuda_lt_hint(const Gemm *g) {
  enum { LARGE = 1 << 27 };
  const double work = (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
  if ((g->dtype == T_F16 || g->dtype == T_BF16) && work >= LARGE) ty_once(&once_hinted, hint);
}
