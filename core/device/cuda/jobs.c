/*
** jobs.c -- what the CUDA device does that is no loop program of a plan: products, copies, checks; the rest by way of files of
** their own.
** In:  jobs and addresses.  Out: kernels are launched. Fails when out of memory, and where the driver refuses a text.
** Copies and products of one column are loop programs of our own. What is refused, the CPU does with copies:
** products that OpenBLAS was asked for.
*/
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"
#include "device/cuda/ptx_move.h"

/* --- products */

/* y of one column: a row of a sum for each row of a. */
static bool column(const Gemm *g, const char *a, const char *b, void *y, Stream *s) {
  const Key key = {.kind = OF_COLUMN, .dtype = (u8)g->dtype};
  Kernel *k = NULL;
  Launch l = {.no = (u8)(g->nlead + 1), .nr = 1};
  i64 rows = g->m;
  void *buf[] = {(void *)(uintptr_t)a, (void *)(uintptr_t)b, y};
  l.dims[g->nlead] = g->m, l.dims[g->nlead + 1] = g->k;
  l.strides[COLUMN_A][g->nlead] = g->ars, l.strides[COLUMN_A][g->nlead + 1] = g->acs;
  l.strides[COLUMN_B][g->nlead + 1] = g->brs;
  l.strides[COLUMN_Y][g->nlead] = 1;
  for (int d = g->nlead - 1; d >= 0; d--) {
    l.dims[d] = g->lead[d];
    l.strides[COLUMN_A][d] = g->abs[d], l.strides[COLUMN_B][d] = g->bbs[d],
    l.strides[COLUMN_Y][d] = rows;
    rows *= g->lead[d];
  }
  const Run r = {.launch = &l, .buf = buf, .stream = s};
  return ty_cuda_find(&key, NULL, &k) && ty_cuda_run(k, &r);
}

static Side side_of(const Im2col *p) {
  return p ? (Side){(u8)p->row.n, (u8)p->col.n, (u8)p->borders} : (Side){1, 1, 0};
}

static void bind_path(i64 *at, const Path *p, i64 size) {
  for (int d = 0; d < p->n; d++) at[d] = p->dims[d], at[p->n + d] = p->strides[d] * size;
}

static void bind_side(char *block, SideLayout l, const Im2col *p, i64 rs, i64 cs, i64 rows,
                      i64 cols, i64 size) {
  if (!p) {
    const i64 row[] = {rows, rs * size}, col[] = {cols, cs * size};
    memcpy(block + l.row, row, sizeof row);
    memcpy(block + l.col, col, sizeof col);
    return;
  }
  bind_path((i64 *)(void *)(block + l.row), &p->row, size);
  bind_path((i64 *)(void *)(block + l.col), &p->col, size);
  for (int b = 0; b < p->borders; b++) {
    i64 *at = (i64 *)(void *)(block + l.border + b * l.each);
    *at++ = p->start[b], *at++ = p->extent[b];
    for (int d = 0; d < p->row.n; d++) *at++ = p->row.steps[b][d];
    for (int d = 0; d < p->col.n; d++) *at++ = p->col.steps[b][d];
  }
}

/* Tiles of a product that is large enough for those of so many rows and columns; 0: it is not. */
static i64 tiles_of(const Gemm *g, i64 rows, i64 columns) {
  if (!ty_is_float(g->dtype) || g->a_im2col || g->b_im2col || !g->k || g->m < rows / 4 ||
      g->n < columns / 4)
    return 0;
  return g->batch * ((g->m - 1) / rows + 1) * ((g->n - 1) / columns + 1);
}

/* Rows and columns, or the elements of both, lie side by side. */
static bool is_dense(const Gemm *g) {
  return (g->ars == 1 || g->acs == 1) && (g->brs == 1 || g->bcs == 1);
}

/* How often each processor is given a tile. */
static i64 rounds_of(i64 tiles) { return (tiles - 1) / ty_cuda.processors + 1; }

/* Whether `extent` elements that are `across` apart, lines that are `along` apart, and items lie in aligned groups of 16
** bytes. */
static bool in_vectors(const void *p, i64 extent, i64 across, i64 along, const i64 *items, int n) {
  bool ok = across == 1 && !(extent % 4) && !(along % 4) && !((uintptr_t)p % 16);
  for (int d = 0; d < n; d++) ok &= !(items[d] % 4);
  return ok;
}

/* How a product goes: by large tiles where they are enough to keep half of the card busy; by wide ones where these end sooner,
** though each takes 1.9 times as long. *tiles: how many; 0: by none. */
static u8 way_of(const Gemm *g, const char *a, const char *b, const void *y, i64 *tiles) {
  const u8 along = (g->acs == 1 ? TILES_A_K : 0) | (g->brs == 1 && g->bcs != 1 ? TILES_B_K : 0);
  const int capability = 10 * ty_cuda.major + ty_cuda.minor;
  const ProductVariant wide = {.tiles = TILES | TILES_LARGE | TILES_WIDE};
  const i64 of_wide = tiles_of(g, TILES_LARGE_SIDE, TILES_WIDE_SIDE);
  *tiles = tiles_of(g, TILES_LARGE_SIDE, TILES_LARGE_SIDE);
  if (g->dtype == T_F32 && capability >= 80 && 2 * *tiles >= ty_cuda.processors && is_dense(g)) {
    const bool va = !(along & TILES_A_K) && in_vectors(a, g->m, g->ars, g->acs, g->abs, g->nlead),
               vb = !(along & TILES_B_K) && in_vectors(b, g->n, g->bcs, g->brs, g->bbs, g->nlead),
               w = of_wide && ty_cuda.shared_most >= ty_ptx_tiles_shared(&wide) &&
                   19 * rounds_of(of_wide) <= 10 * rounds_of(*tiles);
    if (w) *tiles = of_wide;
    return (u8)(TILES | TILES_LARGE | along | (w ? TILES_WIDE : 0) | (va ? TILES_A_VECTORS : 0) |
                (vb ? TILES_B_VECTORS : 0) |
                (!(g->n % 4) && !((uintptr_t)y % 16) ? TILES_Y_VECTORS : 0));
  }
  *tiles = tiles_of(g, TILE_SIDE, TILE_SIDE);
  return *tiles ? (u8)(TILES | along) : 0;
}

static bool matrix(const Gemm *g, const char *a, const char *b, void *y, Stream *s) {
  Key key = {.kind = OF_PRODUCT};
  CudaCode code;
  i64 block[256], tiles;
  const i64 size = ty_dtypes[g->dtype].bytes;
  ProductVariant *v = &key.product;
  v->dtype = (u8)g->dtype, v->nlead = (u8)g->nlead;
  v->side[0] = side_of(g->a_im2col), v->side[1] = side_of(g->b_im2col);
  v->tiles = way_of(g, a, b, y, &tiles);
  const ProductLayout l = ty_ptx_product_layout(v);
  block[PRODUCT_WORD / 8] = (i64)ty_cuda_word(s);
  block[PRODUCT_A / 8] = ty_cuda_address(a), block[PRODUCT_B / 8] = ty_cuda_address(b),
                    block[PRODUCT_Y / 8] = ty_cuda_address(y);
  block[PRODUCT_M / 8] = g->m, block[PRODUCT_N / 8] = g->n, block[PRODUCT_K / 8] = g->k;
  block[PRODUCT_COUNT / 8] = tiles ? tiles : g->batch * g->m * g->n;
  for (int d = 0; d < g->nlead; d++) {
    i64 *at = &block[PRODUCT_LEAD / 8 + d];
    at[0] = g->lead[d], at[g->nlead] = g->abs[d] * size, at[2 * g->nlead] = g->bbs[d] * size;
  }
  bind_side((char *)block, l.side[0], g->a_im2col, g->ars, g->acs, g->m, g->k, size);
  bind_side((char *)block, l.side[1], g->b_im2col, g->brs, g->bcs, g->k, g->n, size);
  if (!ty_cuda_find(&key, &code, NULL)) return false;
  const int threads = tiles ? TILE_THREADS : PRODUCT_THREADS;
  return ty_cuda_launch(&code, ty_cuda_blocks(block[PRODUCT_COUNT / 8], tiles ? 1 : threads),
                        threads, block);
}

static bool sums_of(const Gemm *g, const char *a, const char *b, void *y, Stream *s,
                    const char **err) {
  const LibraryResult r = g->library ? ty_cuda_lt_product(g, a, b, y, s, err) : LIBRARY_NONE;
  if (r != LIBRARY_NONE) return r == LIBRARY_DONE;
  if (!g->library) ty_cuda_lt_hint(g);
  return g->n == 1 && !g->a_im2col && !g->b_im2col ? column(g, a, b, y, s) : matrix(g, a, b, y, s);
}

/* A library does not look at the stream's error word: what it writes after an error is of no value, and what the engine keeps
** from before it lies elsewhere. It wants results that are aligned. */
static bool product(const Job *j, void *const *buf, const u64 *scalar, Stream *s,
                    const char **err) {
  const Gemm *g = j->gemm;
  const char *a = (char *)buf[0] + j->start[0], *b = (char *)buf[1] + j->start[1];
  const i64 n = g->batch * g->m * g->n, one = 1, bytes = n * ty_dtypes[g->dtype].bytes;
  if (!bytes) return true;
  const bool aside = j->aside || (g->library && (uintptr_t)buf[2] % 16);
  void *sums = aside ? ty_cuda_allocate(bytes) : buf[2];
  if (!sums) return false;
  bool ok = sums_of(g, a, b, sums, s, err);
  if (ok && j->kernel) {
    void *own[MAX_OPERANDS];
    memcpy(own, buf + 3, sizeof *own * (size_t)(j->noperands - 3));
    own[j->product] = sums;
    const Run r = {.launch = j->launch, .buf = own, .scalar = scalar, .stream = s};
    ok = j->machine->run(j->kernel, &r);
  } else if (ok && aside) ok = ty_cuda_gather_elements(g->dtype, 1, &n, &one, sums, buf[2], s);
  if (aside) ty_cuda_free(sums, bytes);
  return ok;
}

static bool attend(const Job *j, void *const *buf, Stream *s, const char **err) {
  void *x[AT_OPERANDS] = {NULL};
  const int n = j->noperands - 1;
  memcpy(x, buf, (size_t)n * sizeof *x);
  return ty_cuda_attend(j->attend, x, buf[n], s, err);
}

/* --- moves */

static bool positions(const Job *j, void *const *buf, Stream *s, const char **err) {
  const Node *n = j->node;
  const i64 count = ty_type_numel(&n->type);
  const Key key = {.kind = OF_POSITIONS}, key_end = {.kind = OF_POSITIONS_END};
  CudaCode code, code_end;
  if (!count) return true;
  if (!ty_cuda_find(&key, &code, NULL) || !ty_cuda_find(&key_end, &code_end, NULL)) return false;
  i64 block[] = {(i64)ty_cuda_word(s),    ty_cuda_address(buf[0]),
                 ty_cuda_address(buf[1]), count,
                 (i64)n->arg.bits,        n->arg.k,
                 (i64)ty_cuda_check(s, n)};
  if (!block[POSITIONS_CHECK / 8]) {
    if (!ty_cuda_trouble()) return false;
    *err = ty_cuda_trouble();
    return true;
  }
  return ty_cuda_launch(&code, ty_cuda_blocks(count, MOVE_THREADS), MOVE_THREADS, block) &&
         ty_cuda_launch(&code_end, 1, 32, block);
}

/* --- the device's */

bool ty_cuda_takes(const Job *j) {
  const Gemm *g = j->gemm;
  switch (j->kind) {
  case JOB_PRODUCT:
    return !j->blas && !g->k0 && !g->kstep && !(g->n == 1 && (g->a_im2col || g->b_im2col));
  case JOB_SORT: return ty_cuda_sort_takes(j);
  case JOB_ATTEND: return ty_cuda_attend_takes(j->attend);
  case JOB_FFT: return ty_cuda_fft_takes(j);
  case JOB_SOLVE: return ty_cuda_solve_takes(j);
  default: return true;
  }
}

static const char *name_of(const Job *j) {
  static const char *const names[JOB_COUNT] = {
      [JOB_PRODUCT] = "matmul",  [JOB_ATTEND] = "attention",
      [JOB_SORT] = "sort",       [JOB_SEARCH] = "searchsorted",
      [JOB_SCATTER] = "scatter", [JOB_POSITIONS] = "check of positions",
      [JOB_COPY] = "copy",       [JOB_FFT] = "fft"};
  return names[j->kind] ? names[j->kind] : "job";
}

bool ty_cuda_perform(const Job *j, void *const *buf, const u64 *scalar, const void *panels,
                     Stream *s, const char **err) {
  (void)panels;
  if (!ty_cuda_enter()) return true; /* the next wait says why */
  *err = "out of memory";
  bool ok = false;
  ty_cuda_forget_refusal();
  switch (j->kind) {
  case JOB_PRODUCT: ok = product(j, buf, scalar, s, err); break;
  case JOB_ATTEND: ok = attend(j, buf, s, err); break;
  case JOB_SORT: ok = ty_cuda_sort(j, buf, s); break;
  case JOB_FFT: ok = ty_cuda_fft(j, buf, s); break;
  case JOB_SEARCH: ok = ty_cuda_search(j, buf, s); break;
  case JOB_SCATTER: ok = ty_cuda_scatter(j, buf, s); break;
  case JOB_POSITIONS: ok = positions(j, buf, s, err); break;
  case JOB_SOLVE: ok = ty_cuda_solve(j, buf, err); break;
  case JOB_COPY: ok = ty_cuda_copy(j, buf, s, err); break;
  default: break;
  }
  if (ok || ty_cuda_trouble()) return true;
  const char *refusal = ty_cuda_refusal(name_of(j));
  if (refusal) *err = refusal;
  return false;
}
