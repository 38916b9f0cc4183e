/*
** lua_linalg.c -- ty.linalg: solve, inv, det, slogdet, lu, cholesky, qr, svd, eigh, eig, eigvals, lstsq,
** by OpenBLAS's LAPACK.
** In: matrices in the last two dims, batched over the dims before. Out: new tensors of f32, or f64
** where an operand is f64; of c64 or c128 where one is complex. Values are computed on the CPU and copied column by column, as LAPACK
** wants them; results depend on OpenBLAS, its kernels and threads, alike in eager and compiled
** functions. Raises on shapes, on singular matrices and on what does not converge, and says what to
** install where the library is missing.
*/
#include <math.h>
#include <stdio.h>
#include "device/cpu/cpu.h"
#include "lua/lua_view.h"
#include "record/complex.h"
#include "record/record.h"

#define UPPER_LIMIT 46340 /* rows and columns: their product fits LAPACK's 32-bit integers */

/* LAPACK's Fortran symbols. Each char argument has a hidden length behind all others. */
typedef void Gesv(const int *n, const int *nrhs, void *a, const int *lda, int *ipiv, void *b,
                  const int *ldb, int *info);
typedef void Getrf(const int *m, const int *n, void *a, const int *lda, int *ipiv, int *info);
typedef void Trtrs(const char *uplo, const char *trans, const char *diag, const int *n,
                   const int *nrhs, const void *a, const int *lda, void *b, const int *ldb,
                   int *info, size_t, size_t, size_t);
typedef void Potrf(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
typedef void Geqrf(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                   const int *lwork, int *info);
typedef void Orgqr(const int *m, const int *n, const int *k, void *a, const int *lda,
                   const void *tau, void *work, const int *lwork, int *info);
typedef void Gesdd(const char *job, const int *m, const int *n, void *a, const int *lda, void *s,
                   void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                   int *iwork, int *info, size_t);
typedef void Syevd(const char *job, const char *uplo, const int *n, void *a, const int *lda,
                   void *w, void *work, const int *lwork, int *iwork, const int *liwork, int *info,
                   size_t, size_t);
typedef void Gelsd(const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
                   const int *ldb, void *s, const void *rcond, int *rank, void *work,
                   const int *lwork, int *iwork, int *info);
typedef void Geev(const char *left, const char *right, const int *n, void *a, const int *lda,
                  void *re, void *im, void *l, const int *ldl, void *r, const int *ldr, void *work,
                  const int *lwork, int *info, size_t, size_t);
/* Of complex matrices, where these differ: one more workspace of reals. */
typedef void Heevd(const char *job, const char *uplo, const int *n, void *a, const int *lda,
                   void *w, void *work, const int *lwork, void *rwork, const int *lrwork,
                   int *iwork, const int *liwork, int *info, size_t, size_t);
typedef void CGesdd(const char *job, const int *m, const int *n, void *a, const int *lda, void *s,
                    void *u, const int *ldu, void *vt, const int *ldvt, void *work,
                    const int *lwork, void *rwork, int *iwork, int *info, size_t);
typedef void CGelsd(const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
                    const int *ldb, void *s, const void *rcond, int *rank, void *work,
                    const int *lwork, void *rwork, int *iwork, int *info);
typedef void CGeev(const char *left, const char *right, const int *n, void *a, const int *lda,
                   void *w, void *l, const int *ldl, void *r, const int *ldr, void *work,
                   const int *lwork, void *rwork, int *info, size_t, size_t);

/* The routine of that name for the dtype; raises where there is no library. */
static void *routine(lua_State *L, const char *who, int dtype, const char *name) {
  const char *err = NULL;
  char symbol[16];
  const char letter = dtype == T_C128 ? 'z' : dtype == T_C64 ? 'c' : dtype == T_F64 ? 'd' : 's';
  snprintf(symbol, sizeof symbol, "%c%s_", letter, name);
  void *fn = ty_blas_load(&err) ? ty_blas_symbol(symbol) : NULL;
  if (fn) return fn;
  ty_lua_error(L, "%s: needs LAPACK of OpenBLAS: %s", who, err ? err : "the library lacks it");
  return NULL;
}

/* --- matrices in and out */

/* A stack of matrices, column by column: matrix i begins at data + i * m * n elements. */
typedef struct Stack {
  Type lead; /* dims before the matrices */
  int dtype, m, n;
  i64 count;    /* of matrices */
  size_t bytes; /* of an element */
  char *data;   /* a userdata on the Lua stack */
} Stack;

static char *element(const Stack *s, i64 matrix, i64 elem) {
  return s->data + (size_t)(matrix * s->m * s->n + elem) * s->bytes;
}

/* The real parts, and the imaginary ones. */
static double at(const Stack *s, i64 matrix, i64 elem) {
  return ty_elem_load(ty_dtype_part(s->dtype), element(s, matrix, elem));
}

static double imaginary(const Stack *s, i64 matrix, i64 elem) {
  if (!ty_is_complex(s->dtype)) return 0;
  return ty_elem_load(ty_dtype_part(s->dtype), element(s, matrix, elem) + s->bytes / 2);
}

static void *matrix(const Stack *s, i64 i) { return element(s, i, 0); }

static void set(const Stack *s, i64 matrix, i64 elem, double v) {
  ty_elem_store(ty_dtype_part(s->dtype), element(s, matrix, elem), v);
}

static void set_imaginary(const Stack *s, i64 matrix, i64 elem, double v) {
  if (ty_is_complex(s->dtype))
    ty_elem_store(ty_dtype_part(s->dtype), element(s, matrix, elem) + s->bytes / 2, v);
}

static void move(const Stack *y, i64 to, const Stack *x, i64 from, i64 matrix) {
  memcpy(element(y, matrix, to), element(x, matrix, from), x->bytes);
}

enum { SIDE = 16 }; /* of what both matrices keep in the cache */

#define COPY(B) \
  for (i64 c0 = 0; c0 < n; c0 += SIDE) \
    for (i64 r0 = 0; r0 < m; r0 += SIDE) \
      for (i64 c = c0; c < TY_MIN(n, c0 + SIDE); c++) \
        for (i64 r = r0; r < TY_MIN(m, r0 + SIDE); r++) \
          memcpy((char *)y + (r * to[0] + c * to[1]), \
                 (const char *)x + (r * from[0] + c * from[1]), B);

/* m x n elements of 4, 8 or 16 bytes. from, to: bytes between rows, and between columns. */
static void copy_matrix(size_t bytes, i64 m, i64 n, void *y, const i64 *to, const void *x,
                        const i64 *from) {
  if (bytes == 4) COPY(4)
  else if (bytes == 8) COPY(8)
  else COPY(16)
}

/* Memory that Lua collects. LuaJIT has less than 2 GB for a userdata, whatever the system has. */
static void *room(lua_State *L, const char *who, i64 n, size_t bytes) {
  enum { MOST = 0x7fff0000 };
  if (n > (i64)(MOST / bytes))
    ty_lua_error(L, "%s: the matrices are too large (2 GB are the most)", who);
  return lua_newuserdata(L, (size_t)TY_MAX(n, 1) * bytes);
}

/* Room for as many m x n matrices as the lead counts, all zero. */
static Stack stack_new(lua_State *L, const char *who, const Type *lead, int dtype, int m, int n) {
  Stack s = {.lead = *lead, .dtype = dtype, .m = m, .n = n, .bytes = ty_dtypes[dtype].bytes};
  Type t = *lead;
  t.dtype = (u8)dtype;
  s.lead = t;
  s.count = ty_type_numel(&t);
  i64 size;
  if (!ty_mul(s.count, (i64)m * n, &size)) size = INT64_MAX;
  s.data = room(L, who, size, s.bytes);
  memset(s.data, 0, (size_t)size * s.bytes);
  return s;
}

/* x's matrices, repeated over `lead` where it has more. A vector is a matrix of one column. */
static Stack stack_read(lua_State *L, State *S, const char *who, const Tensor *x, const Type *lead,
                        int dtype) {
  Tensor *cast = ty_lua_push(L);
  if (S->tracks && x->st->tape && !x->detached)
    ty_lua_error(L, "%s: has no gradient (use detach)", who);
  if (ty_is_complex(x->type.dtype) && !ty_is_complex(dtype))
    ty_lua_error(L, "%s: needs reals, got %s (take :real(), :imag() or :abs())", who,
                 ty_lua_view_text(L, &x->type));
  TY_LUA_MUST(L, S, ty_record_cast(S, x, dtype, cast));
  bool vector = x->type.rank == 1;
  int rank = vector ? 0 : x->type.rank - 2;
  i64 m = x->type.dims[rank], n = vector ? 1 : x->type.dims[rank + 1];
  if (m > UPPER_LIMIT || n > UPPER_LIMIT)
    ty_lua_error(L, "%s: %s is too large", who, ty_lua_view_text(L, &x->type));
  Stack s = stack_new(L, who, lead, dtype, (int)m, (int)n);
  s.lead.device = x->type.device;
  const char *p = ty_tensor_bits(S, cast);
  if (!p) ty_lua_fail(L, S);
  const i64 real = (i64)s.bytes / ty_dtype_width(dtype); /* strides count these */
  i64 steps[MAX_RANK] = {0}, down = cast->strides[rank] * real,
      across = vector ? 0 : cast->strides[rank + 1] * real;
  for (int d = 0; d < rank; d++)
    if (x->type.dims[d] != 1) steps[lead->rank - rank + d] = cast->strides[d];
  const i64 from[2] = {down, across}, to[2] = {(i64)s.bytes, m * (i64)s.bytes};
  Walk w = {0};
  for (i64 i = 0; i < s.count; i++, ty_walk_next(&w, lead, steps))
    copy_matrix(s.bytes, m, n, matrix(&s, i), to, p + w.offset * real, from);
  return s;
}

/* Pushes the top left m x n corners as a tensor [lead, m, n]; vector: [lead, m]; scalar: [lead]. */
static void stack_push(lua_State *L, State *S, const Stack *s, int m, int n, int rank) {
  Type t = s->lead;
  if (rank > 0) t.dims[t.rank++] = m;
  if (rank > 1) t.dims[t.rank++] = n;
  char *rows = room(L, "linalg", s->count * m * n, s->bytes);
  const i64 bytes = (i64)s->bytes, from[2] = {bytes, s->m * bytes}, to[2] = {n * bytes, bytes};
  for (i64 i = 0; i < s->count; i++)
    copy_matrix(s->bytes, m, n, rows + (size_t)(i * m * n) * s->bytes, to, matrix(s, i), from);
  Tensor *x = ty_lua_push(L);
  const bool complex = ty_is_complex(t.dtype);
  if (complex) TY_LUA_MUST(L, S, ty_complex_type_of_reals(S, "linalg", &t, &t));
  TY_LUA_MUST(L, S, ty_tensor_from(S, x, &t, rows));
  if (complex) ty_complex_become(x);
  lua_replace(L, -2); /* results stand side by side */
}

/* --- arguments */

static int float_of(State *S, int dtype) {
  if (ty_is_complex(dtype)) return dtype;
  if (!ty_is_float(dtype)) dtype = S->default_dtype;
  return dtype == T_F64 ? T_F64 : T_F32;
}

static Type lead_of(const Tensor *x) {
  Type t = x->type;
  for (int i = 0; i < 2 && t.rank > 0; i++) t.dims[--t.rank] = 0;
  return t;
}

/* Argument 1 as matrices; square: they must be. */
static Stack matrices(lua_State *L, State **S, const char *who, bool square) {
  *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, who, 1);
  int r = x->type.rank;
  if (r < 2) ty_lua_error(L, "%s: needs a matrix, got %s", who, ty_lua_view_text(L, &x->type));
  if (square && x->type.dims[r - 1] != x->type.dims[r - 2])
    ty_lua_error(L, "%s: needs square matrices, got %s", who, ty_lua_view_text(L, &x->type));
  Type lead = lead_of(x);
  return stack_read(L, *S, who, x, &lead, float_of(*S, x->type.dtype));
}

/* Arguments 1 and 2 as matrices a and right sides b with equally many rows. */
static void system_of(lua_State *L, State **S, const char *who, bool square, Stack *a, Stack *b) {
  *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, who, 1), *y = ty_lua_check(L, who, 2);
  const Given both[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_TENSOR, .t = y}};
  int rx = x->type.rank, ry = y->type.rank;
  TY_LUA_MUST(L, *S, ty_record_same_device(*S, who, 2, both));
  const char *sx = ty_lua_view_text(L, &x->type), *sy = ty_lua_view_text(L, &y->type);
  if (rx < 2 || ry < 1) ty_lua_error(L, "%s: needs matrices, got %s and %s", who, sx, sy);
  if (square && x->type.dims[rx - 1] != x->type.dims[rx - 2])
    ty_lua_error(L, "%s: needs square matrices, got %s", who, sx);
  if (x->type.dims[rx - 2] != y->type.dims[ry == 1 ? 0 : ry - 2])
    ty_lua_error(L, "%s: rows differ, %s and %s", who, sx, sy);
  Type lead = lead_of(x), other = lead_of(y);
  if (!ty_type_broadcast(&lead, &other))
    ty_lua_error(L, "%s: leading sizes do not broadcast, %s and %s", who, sx, sy);
  int dtype = float_of(*S, ty_dtype_promote(x->type.dtype, y->type.dtype));
  *a = stack_read(L, *S, who, x, &lead, dtype);
  *b = stack_read(L, *S, who, y, &lead, dtype);
}

/* Iterations may not end on values that are not finite. */
static void must_be_finite(lua_State *L, const char *who, const Stack *s) {
  i64 n = s->count * s->m * s->n;
  for (i64 i = 0; i < n; i++)
    if (!isfinite(at(s, 0, i)) || !isfinite(imaginary(s, 0, i)))
      ty_lua_error(L, "%s: the matrix holds NaN or infinity", who);
}

/* The length that a workspace query left in its first element. */
static int asked(const Stack *s, const void *work) {
  return (int)ty_elem_load(ty_dtype_part(s->dtype), work) + 1;
}

/* --- calls */

/* What a routine works on, for all matrices. */
typedef struct Call {
  void *fn, *then; /* LAPACK's */
  const Stack *a, *x, *y, *z;
  void *work, *tau, *values;
  int length, *ints, ilength, rlength, k, info;
  bool upper, unit; /* of triangles */
} Call;

/* Runs it; gives the info that was left. */
static int call(lua_State *L, const char *who, void (*run)(void *), Call *c) {
  u32 fp = ty_fp_enter();
  bool ok = ty_blas_call(run, c);
  ty_fp_leave(fp);
  if (!ok) ty_lua_error(L, "%s: out of memory", who);
  return c->info;
}

/* --- systems of equations */

static void run_gesv(void *arg) {
  Call *c = arg;
  const Stack *a = c->a, *b = c->x;
  for (i64 i = 0; i < a->count && !c->info; i++)
    ((Gesv *)c->fn)(&a->n, &b->n, matrix(a, i), &a->n, c->ints, matrix(b, i), &a->n, &c->info);
}

/* a's matrices are factored, b's become the solutions. */
static void solve(lua_State *L, const char *who, const Stack *a, const Stack *b) {
  Call c = {.fn = routine(L, who, a->dtype, "gesv"), .a = a, .x = b};
  c.ints = room(L, who, a->n, sizeof(int));
  if (a->n == 0 || b->n == 0) return;
  int info = call(L, who, run_gesv, &c);
  if (info > 0) ty_lua_error(L, "%s: matrix is singular (pivot %d)", who, info);
}

static int l_solve(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "solve");
  if (results) return results;
  State *S;
  Stack a, b;
  system_of(L, &S, "solve", true, &a, &b);
  int rank = ty_lua_test(L, 2)->type.rank == 1 ? 1 : 2;
  solve(L, "solve", &a, &b);
  stack_push(L, S, &b, b.m, b.n, rank);
  return 1;
}

static int l_inv(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "inv");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "inv", true);
  Stack b = stack_new(L, "inv", &a.lead, a.dtype, a.m, a.n);
  for (i64 i = 0; i < b.count; i++)
    for (int d = 0; d < b.n; d++) set(&b, i, (i64)d * b.n + d, 1);
  solve(L, "inv", &a, &b);
  stack_push(L, S, &b, b.m, b.n, 2);
  return 1;
}

static void run_trtrs(void *arg) {
  Call *c = arg;
  const Stack *a = c->a, *b = c->x;
  for (i64 i = 0; i < a->count && !c->info; i++)
    ((Trtrs *)c->fn)(c->upper ? "U" : "L", "N", c->unit ? "U" : "N", &a->n, &b->n, matrix(a, i),
                     &a->n, matrix(b, i), &a->n, &c->info, 1, 1, 1);
}

/* _solve_triangular(a, b, upper, unit): the other triangle is not read, nor a unit's diagonal. */
static int l_solve_triangular(lua_State *L) {
  State *S;
  Stack a, b;
  const char *who = "solve_triangular";
  system_of(L, &S, who, true, &a, &b);
  Call c = {.fn = routine(L, who, a.dtype, "trtrs"), .a = &a, .x = &b};
  c.upper = lua_toboolean(L, 3), c.unit = lua_toboolean(L, 4);
  int info = a.n > 0 && b.n > 0 ? call(L, who, run_trtrs, &c) : 0;
  if (info > 0) return ty_lua_error(L, "%s: matrix is singular (pivot %d)", who, info);
  stack_push(L, S, &b, b.m, b.n, 2);
  return 1;
}

/* The product of the pivots of an LU decomposition, with the sign of its row exchanges; and where
** y is wanted the sign alone, and there the logarithm of the magnitude. */
static void run_getrf(void *arg) {
  Call *c = arg;
  const Stack *a = c->a;
  for (i64 i = 0; i < a->count; i++) {
    double re = 1, im = 0, sum = 0;
    if (a->n > 0) ((Getrf *)c->fn)(&a->n, &a->n, matrix(a, i), &a->n, c->ints, &c->info);
    for (int d = 0; d < a->n; d++) {
      double p = at(a, i, (i64)d * a->n + d), q = imaginary(a, i, (i64)d * a->n + d);
      const double size = hypot(p, q), kept = re;
      sum += log(size);
      if (c->y && q == 0 && p == p) p = (p > 0) - (p < 0);
      else if (c->y) p /= size, q /= size;
      if (c->ints[d] != d + 1) p = -p, q = -q;
      if (q == 0 && im == 0) { /* a real product has its own overflow and NaN */
        re *= p;
        continue;
      }
      re = re * p - im * q;
      im = kept * q + im * p;
    }
    set(c->x, i, 0, re);
    set_imaginary(c->x, i, 0, im);
    if (c->y) set(c->y, i, 0, sum);
  }
}

static int determinant(lua_State *L, const char *who, bool as_logarithm) {
  const int results = ty_lua_linalg_device(L, who);
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, who, true);
  Stack y = stack_new(L, who, &a.lead, a.dtype, 1, 1);
  Stack z = stack_new(L, who, &a.lead, ty_dtype_part(a.dtype), 1, 1);
  Call c = {
      .fn = routine(L, who, a.dtype, "getrf"), .a = &a, .x = &y, .y = as_logarithm ? &z : NULL};
  c.ints = room(L, who, a.n, sizeof(int));
  call(L, who, run_getrf, &c);
  stack_push(L, S, &y, 1, 1, 0);
  if (as_logarithm) stack_push(L, S, &z, 1, 1, 0);
  return as_logarithm ? 2 : 1;
}

static int l_det(lua_State *L) { return determinant(L, "det", false); }
static int l_slogdet(lua_State *L) { return determinant(L, "slogdet", true); }

/* a [m, n] is decomposed in place; x, y, z become p, l, u. */
static void run_lu(void *arg) {
  Call *c = arg;
  const Stack *a = c->a;
  const int m = a->m, n = a->n, k = c->k;
  int *row = c->ints + k; /* row[r]: the row of a that stands in row r */
  for (i64 i = 0; i < a->count; i++) {
    if (k > 0) ((Getrf *)c->fn)(&m, &n, matrix(a, i), &m, c->ints, &c->info);
    for (int r = 0; r < m; r++) row[r] = r;
    for (int d = 0; d < k; d++) {
      int other = c->ints[d] - 1, kept = row[d];
      row[d] = row[other], row[other] = kept;
    }
    for (int r = 0; r < m; r++) set(c->x, i, (i64)r * m + row[r], 1);
    for (int j = 0; j < k; j++) {
      set(c->y, i, (i64)j * m + j, 1);
      for (int r = j + 1; r < m; r++) move(c->y, (i64)j * m + r, a, (i64)j * m + r, i);
    }
    for (int j = 0; j < n; j++)
      for (int r = 0; r <= j && r < k; r++) move(c->z, (i64)j * k + r, a, (i64)j * m + r, i);
  }
}

static int l_lu(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "lu");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "lu", false);
  int k = TY_MIN(a.m, a.n);
  Stack p = stack_new(L, "lu", &a.lead, a.dtype, a.m, a.m);
  Stack l = stack_new(L, "lu", &a.lead, a.dtype, a.m, k);
  Stack u = stack_new(L, "lu", &a.lead, a.dtype, k, a.n);
  Call c = {.fn = routine(L, "lu", a.dtype, "getrf"), .a = &a, .x = &p, .y = &l, .z = &u, .k = k};
  c.ints = room(L, "lu", (i64)k + a.m, sizeof(int));
  call(L, "lu", run_lu, &c);
  stack_push(L, S, &p, a.m, a.m, 2);
  stack_push(L, S, &l, a.m, k, 2);
  stack_push(L, S, &u, k, a.n, 2);
  return 3;
}

/* k < 0: as in run_gesdd. */
static void run_gelsd(void *arg) {
  Call *c = arg;
  const Stack *a = c->a, *x = c->x;
  int found;
  u64 rcond = 0;
  ty_elem_store(ty_dtype_part(a->dtype), &rcond, -1); /* the machine's precision */
  for (i64 i = 0; i < (c->k < 0 ? 1 : a->count) && !c->info; i++) {
    void *m = matrix(a, i), *b = matrix(x, i);
    if (!ty_is_complex(a->dtype))
      ((Gelsd *)c->fn)(&a->m, &a->n, &x->n, m, &a->m, b, &x->m, c->values, &rcond, &found, c->work,
                       &c->length, c->ints, &c->info);
    else
      ((CGelsd *)c->fn)(&a->m, &a->n, &x->n, m, &a->m, b, &x->m, c->values, &rcond, &found, c->work,
                        &c->length, c->tau, c->ints, &c->info);
  }
}

/* Least squares of minimal norm by the singular values. */
static int l_lstsq(lua_State *L) {
  State *S;
  Stack a, b;
  const char *who = "lstsq";
  system_of(L, &S, who, false, &a, &b);
  int rank = ty_lua_test(L, 2)->type.rank == 1 ? 1 : 2;
  must_be_finite(L, who, &a);
  must_be_finite(L, who, &b);
  const int rows = TY_MAX(TY_MAX(a.m, a.n), 1); /* room for either side */
  Stack x = stack_new(L, who, &b.lead, b.dtype, rows, b.n);
  for (i64 i = 0; i < b.count; i++)
    for (int c = 0; c < b.n; c++)
      memcpy(element(&x, i, (i64)c * x.m), element(&b, i, (i64)c * b.m), (size_t)b.m * b.bytes);
  u64 first[2] = {0}, reals = 0;
  int ints = 0;
  Call c = {.fn = routine(L, who, a.dtype, "gelsd"), .a = &a, .x = &x};
  if (a.m > 0 && a.n > 0 && b.n > 0 && a.count > 0) {
    c.values = room(L, who, TY_MIN(a.m, a.n), a.bytes);
    c.k = c.length = -1, c.work = first, c.tau = &reals, c.ints = &ints;
    run_gelsd(&c);
    c.k = 0, c.length = asked(&a, first);
    c.work = room(L, who, c.length, a.bytes);
    c.tau = room(L, who, asked(&a, &reals), a.bytes);
    c.ints = room(L, who, ints, sizeof(int));
    call(L, who, run_gelsd, &c);
  }
  if (c.info) return ty_lua_error(L, "lstsq: the singular values did not converge");
  stack_push(L, S, &x, a.n, b.n, rank);
  return 1;
}

/* --- decompositions */

static void run_potrf(void *arg) {
  Call *c = arg;
  const Stack *a = c->a;
  for (i64 i = 0; i < a->count && !c->info && a->n > 0; i++) {
    ((Potrf *)c->fn)("L", &a->n, matrix(a, i), &a->n, &c->info, 1);
    for (i64 j = 1; j < a->n; j++) /* LAPACK leaves the other half as it was */
      memset(element(a, i, j * a->n), 0, (size_t)j * a->bytes);
  }
}

static int l_cholesky(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "cholesky");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "cholesky", true);
  Call c = {.fn = routine(L, "cholesky", a.dtype, "potrf"), .a = &a};
  int info = call(L, "cholesky", run_potrf, &c);
  if (info > 0)
    return ty_lua_error(L, "cholesky: matrix is not positive definite (minor %d)", info);
  stack_push(L, S, &a, a.m, a.n, 2);
  return 1;
}

static void run_geqrf(void *arg) {
  Call *c = arg;
  const Stack *a = c->a, *r = c->x;
  const int k = c->k;
  for (i64 i = 0; i < a->count; i++) {
    ((Geqrf *)c->fn)(&a->m, &a->n, matrix(a, i), &a->m, c->tau, c->work, &c->length, &c->info);
    for (i64 j = 0; j < a->n; j++)
      for (i64 d = 0; d <= j && d < k; d++) move(r, j * k + d, a, j * a->m + d, i);
    ((Orgqr *)c->then)(&a->m, &k, &k, matrix(a, i), &a->m, c->tau, c->work, &c->length, &c->info);
  }
}

static int l_qr(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "qr");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "qr", false);
  Geqrf *geqrf = (Geqrf *)routine(L, "qr", a.dtype, "geqrf");
  Orgqr *orgqr = (Orgqr *)routine(L, "qr", a.dtype, ty_is_complex(a.dtype) ? "ungqr" : "orgqr");
  int k = TY_MIN(a.m, a.n), info = 0, query = -1;
  Stack r = stack_new(L, "qr", &a.lead, a.dtype, TY_MAX(k, 1), a.n);
  if (k > 0 && a.count > 0) {
    u64 one[2] = {0}, two[2] = {0};
    void *tau = room(L, "qr", k, a.bytes);
    geqrf(&a.m, &a.n, a.data, &a.m, tau, one, &query, &info);
    orgqr(&a.m, &k, &k, a.data, &a.m, tau, two, &query, &info);
    Call c = {.fn = (void *)geqrf, .then = (void *)orgqr, .a = &a, .x = &r, .tau = tau, .k = k};
    c.length = TY_MAX(asked(&a, one), asked(&a, two));
    c.work = room(L, "qr", c.length, a.bytes);
    call(L, "qr", run_geqrf, &c);
  }
  stack_push(L, S, &a, a.m, k, 2);
  stack_push(L, S, &r, k, a.n, 2);
  return 2;
}

/* Once for each matrix; k < 0: the lengths of the workspaces alone, which are their first elements then. */
static void run_gesdd(void *arg) {
  Call *c = arg;
  const Stack *a = c->a, *v = c->z;
  for (i64 i = 0; i < (c->k < 0 ? 1 : a->count) && !c->info; i++) {
    void *m = matrix(a, i), *s = matrix(c->y, i), *u = matrix(c->x, i), *vt = matrix(v, i);
    if (!ty_is_complex(a->dtype))
      ((Gesdd *)c->fn)("S", &a->m, &a->n, m, &a->m, s, u, &a->m, vt, &v->m, c->work, &c->length,
                       c->ints, &c->info, 1);
    else
      ((CGesdd *)c->fn)("S", &a->m, &a->n, m, &a->m, s, u, &a->m, vt, &v->m, c->work, &c->length,
                        c->values, c->ints, &c->info, 1);
  }
}

static int l_svd(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "svd");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "svd", false);
  must_be_finite(L, "svd", &a);
  int k = TY_MIN(a.m, a.n), ldv = TY_MAX(k, 1);
  Stack u = stack_new(L, "svd", &a.lead, a.dtype, a.m, k);
  Stack s = stack_new(L, "svd", &a.lead, ty_dtype_part(a.dtype), k, 1);
  Stack v = stack_new(L, "svd", &a.lead, a.dtype, ldv, a.n);
  u64 first[2] = {0};
  Call c = {.fn = routine(L, "svd", a.dtype, "gesdd"), .a = &a, .x = &u, .y = &s, .z = &v};
  if (k > 0 && a.count > 0) {
    c.ints = room(L, "svd", 8 * (i64)k, sizeof(int));
    if (ty_is_complex(a.dtype))
      c.values = room(L, "svd", k * (5 * (i64)k + 2 * (i64)TY_MAX(a.m, a.n) + 7), s.bytes);
    c.k = c.length = -1, c.work = first;
    run_gesdd(&c);
    c.k = 0, c.length = asked(&a, first);
    c.work = room(L, "svd", c.length, a.bytes);
    call(L, "svd", run_gesdd, &c);
  }
  if (c.info) return ty_lua_error(L, "svd: the singular values did not converge");
  stack_push(L, S, &u, a.m, k, 2);
  stack_push(L, S, &s, k, 1, 1);
  stack_push(L, S, &v, k, a.n, 2);
  return 3;
}

/* k < 0: as in run_gesdd. */
static void run_syevd(void *arg) {
  Call *c = arg;
  const Stack *a = c->a;
  for (i64 i = 0; i < (c->k < 0 ? 1 : a->count) && !c->info; i++) {
    void *m = matrix(a, i), *w = matrix(c->x, i);
    if (!ty_is_complex(a->dtype))
      ((Syevd *)c->fn)("V", "L", &a->n, m, &a->n, w, c->work, &c->length, c->ints, &c->ilength,
                       &c->info, 1, 1);
    else
      ((Heevd *)c->fn)("V", "L", &a->n, m, &a->n, w, c->work, &c->length, c->values, &c->rlength,
                       c->ints, &c->ilength, &c->info, 1, 1);
  }
}

/* Eigenvalues, ascending, and eigenvectors as columns; the lower half of each matrix is read. */
static int l_eigh(lua_State *L) {
  const int results = ty_lua_linalg_device(L, "eigh");
  if (results) return results;
  State *S;
  Stack a = matrices(L, &S, "eigh", true);
  must_be_finite(L, "eigh", &a);
  const bool complex = ty_is_complex(a.dtype);
  Stack w = stack_new(L, "eigh", &a.lead, ty_dtype_part(a.dtype), a.n, 1);
  u64 first[2] = {0}, values = 0;
  int ints = 0;
  Call c = {.fn = routine(L, "eigh", a.dtype, complex ? "heevd" : "syevd"), .a = &a, .x = &w};
  c.k = c.length = c.rlength = c.ilength = -1;
  c.work = first, c.values = &values, c.ints = &ints;
  if (a.n > 0 && a.count > 0) {
    run_syevd(&c);
    c.k = 0, c.length = asked(&a, first), c.rlength = asked(&a, &values), c.ilength = ints;
    c.work = room(L, "eigh", c.length, a.bytes);
    c.values = room(L, "eigh", c.rlength, w.bytes);
    c.ints = room(L, "eigh", c.ilength, sizeof(int));
    call(L, "eigh", run_syevd, &c);
  }
  if (c.info) return ty_lua_error(L, "eigh: the eigenvalues did not converge");
  stack_push(L, S, &w, a.n, 1, 1);
  stack_push(L, S, &a, a.m, a.n, 2);
  return 2;
}

/* Column j of matrix i, and of a pair of eigenvalues the next one, the conjugate, of the real columns in c->tau. */
static void join_columns(const Call *c, i64 i, int j, bool paired) {
  const Stack *a = c->a, *v = c->y;
  const i64 n = a->n, part = (i64)a->bytes;
  const char *re = (const char *)c->tau + j * n * part, *im = re + n * part;
  for (i64 r = 0; r < n; r++) {
    char *to = element(v, i, j * n + r), *next = to + n * 2 * part;
    memcpy(to, re + r * part, a->bytes);
    if (!paired) continue;
    memcpy(next, re + r * part, a->bytes);
    memcpy(to + part, im + r * part, a->bytes);
    ty_elem_store(a->dtype, next + part, -ty_elem_load(a->dtype, im + r * part));
  }
}

/* A real matrix's eigenvalues and vectors as complex numbers; values: of one matrix real parts, then imaginary ones. */
static void join_real(const Call *c, i64 i) {
  const Stack *a = c->a;
  const char *re = c->values, *im = re + (size_t)a->n * a->bytes;
  for (int j = 0; j < a->n; j++) {
    const double size = ty_elem_load(a->dtype, im + (size_t)j * a->bytes);
    set(c->x, i, j, ty_elem_load(a->dtype, re + (size_t)j * a->bytes));
    set_imaginary(c->x, i, j, size);
    if (c->y && size >= 0) join_columns(c, i, j, size > 0);
  }
}

/* y: the vectors are wanted. k < 0: as in run_gesdd. */
static void run_geev(void *arg) {
  Call *c = arg;
  const Stack *a = c->a;
  const int n = a->n, one = 1;
  const char *job = c->y ? "V" : "N";
  for (i64 i = 0; i < (c->k < 0 ? 1 : a->count) && !c->info; i++) {
    void *m = matrix(a, i), *v = c->tau;
    char *re = c->values, *im = re + (size_t)n * a->bytes;
    if (ty_is_complex(a->dtype)) {
      if (c->y) v = matrix(c->y, i);
      ((CGeev *)c->fn)("N", job, &n, m, &n, matrix(c->x, i), NULL, &one, v, &n, c->work, &c->length,
                       re, &c->info, 1, 1);
      continue;
    }
    ((Geev *)c->fn)("N", job, &n, m, &n, re, im, NULL, &one, v, &n, c->work, &c->length, &c->info,
                    1, 1);
    if (c->k >= 0 && !c->info) join_real(c, i);
  }
}

static int eigenvalues(lua_State *L, const char *who, bool vectors) {
  State *S;
  Stack a = matrices(L, &S, who, true);
  must_be_finite(L, who, &a);
  const int dtype = ty_dtype_complex(a.dtype);
  Stack w = stack_new(L, who, &a.lead, dtype, a.n, 1), v = {0};
  if (vectors) v = stack_new(L, who, &a.lead, dtype, a.n, a.n);
  u64 first[2] = {0};
  Call c = {.fn = routine(L, who, a.dtype, "geev"), .a = &a, .x = &w, .y = vectors ? &v : NULL};
  c.values = room(L, who, 2 * (i64)a.n, a.bytes);
  c.tau = room(L, who, vectors ? (i64)a.n * a.n : 1, a.bytes);
  if (a.n > 0 && a.count > 0) {
    c.k = c.length = -1, c.work = first;
    run_geev(&c);
    c.k = 0, c.length = asked(&a, first);
    c.work = room(L, who, c.length, a.bytes);
    call(L, who, run_geev, &c);
  }
  if (c.info) return ty_lua_error(L, "%s: the eigenvalues did not converge", who);
  stack_push(L, S, &w, a.n, 1, 1);
  if (vectors) stack_push(L, S, &v, a.n, a.n, 2);
  return vectors ? 2 : 1;
}

static int l_eig(lua_State *L) { return eigenvalues(L, "eig", true); }
static int l_eigvals(lua_State *L) { return eigenvalues(L, "eigvals", false); }

void ty_lua_open_linalg(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {
      {"linalg.solve", l_solve, 'm', "a, b",
       "x with a x = b, for square matrices a; b: a vector or columns"},
      {"linalg.inv", l_inv, 'm', "a", "the inverse of square matrices"},
      {"linalg.det", l_det, 'm', "a", "the determinant of square matrices"},
      {"linalg.slogdet", l_slogdet, 'm', "a",
       "two results: the sign of the determinant, and the logarithm of its magnitude"},
      {"linalg.lu", l_lu, 'm', "a",
       "three results: a permutation p, triangles l, with ones on the diagonal, and u; a = p l u"},
      {"linalg.cholesky", l_cholesky, 'm', "a",
       "the lower triangle l with l l^t = a, for positive definite matrices"},
      {"linalg.qr", l_qr, 'm', "a",
       "two results: q with orthonormal columns and an upper triangle r, a = q r"},
      {"linalg.svd", l_svd, 'm', "a",
       "three results: u, the singular values in descending order, v^t; a = u diag(s) v^t"},
      {"linalg.eigh", l_eigh, 'm', "a",
       "two results: eigenvalues in ascending order and eigenvectors as columns, symmetric "
       "matrices"},
      {"linalg.eig", l_eig, 'm', "a",
       "two results: eigenvalues and eigenvectors as columns, complex, of any square matrices"},
      {"linalg.eigvals", l_eigvals, 'm', "a", "the eigenvalues of square matrices, complex"},
      {"linalg.lstsq", l_lstsq, 'm', "a, b", "the x of least norm that makes |a x - b| least"},
      {NULL, NULL, 0, NULL, NULL}};
  lua_createtable(L, 0, TY_COUNT(rows));
  ty_lua_define(L, lua_gettop(L), t, rows);
  ty_lua_push_function(L, l_solve_triangular); /* linalg.lua makes the public one of it */
  lua_setfield(L, -2, "_solve_triangular");
  lua_setfield(L, m, "linalg");
}
