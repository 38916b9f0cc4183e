/*
** jobs_scatter.c -- scatters on the CUDA device, in one of the ways of ptx_move.h.
** In:  a job, addresses.  Out: kernels are launched. Fails when out of memory, and where the driver refuses a text.
*/
#include "device/cuda/jobs.h"
#include "device/cuda/ptx_move.h"
#include "device/cuda/ptx_sort.h"

enum {
  LINES_ENOUGH = 16384, /* threads that go down the scattered dim: so many keep a card busy */
  SERIAL_MOST = 256     /* elements that one thread may go down, however few there are */
};

typedef struct Scatter {
  int dtype, dims,
      lines; /* dims: others than the scattered one; lines: of these those that the index has */
  bool add;
  i64 block[SCATTER_DIMS / 8 + SCATTER_DIM / 8 * MAX_RANK];
  i64 of_index[SCATTER_DIM / 8 * MAX_RANK]; /* the same of the index's own dims */
  i64 n, count, index_lines;
} Scatter;

static void describe(const Job *j, void *const *buf, Stream *s, Scatter *y) {
  const Type *t = &j->type[0], *src = &j->type[2];
  const int dim = j->node->arg.k;
  const i64 size = ty_dtypes[t->dtype].bytes;
  i64 to[MAX_RANK], from[MAX_RANK], *at = &y->block[SCATTER_DIMS / 8];
  *y = (Scatter){.dtype = ty_dtype_stored(t->dtype), .dims = src->rank - 1};
  y->add = j->node->op == OP_SCATTER_ADD;
  y->n = src->dims[dim], y->count = y->index_lines = 1;
  ty_type_strides(t, to);
  ty_type_strides(src, from);
  for (int d = 0; d < src->rank; d++)
    if (d != dim && j->strides[d] && src->dims[d] > 1) y->index_lines *= src->dims[d];
  i64 line = y->index_lines, *own = y->of_index;
  for (int d = 0; d < src->rank; d++) {
    if (d == dim) continue;
    const bool has = j->strides[d] && src->dims[d] > 1;
    if (has) line /= TY_MAX(src->dims[d], 1);
    const i64 each[] = {src->dims[d], to[d] * size, from[d] * size, j->strides[d] * 8,
                        has ? line : 0};
    memcpy(at, each, sizeof each);
    at += TY_COUNT(each);
    if (has) memcpy(own, each, sizeof each), own += TY_COUNT(each), y->lines++;
    y->count *= src->dims[d];
  }
  i64 *block = y->block;
  block[SCATTER_WORD / 8] = (i64)ty_cuda_word(s);
  block[SCATTER_Y / 8] = ty_cuda_address(buf[2]), block[SCATTER_SRC / 8] = ty_cuda_address(buf[1]);
  block[SCATTER_INDEX / 8] = ty_cuda_address(buf[0]) + j->start[0];
  block[SCATTER_N / 8] = y->n, block[SCATTER_LINES / 8] = y->count;
  block[SCATTER_Y_STEP / 8] = to[dim] * size, block[SCATTER_SRC_STEP / 8] = from[dim] * size;
  block[SCATTER_INDEX_STEP / 8] = j->strides[dim] * 8;
}

static bool run(Scatter *y, ScatterWay way, i64 count) {
  const Key key = {.kind = OF_SCATTER,
                   .dtype = (u8)y->dtype,
                   .flag = y->add,
                   .dims = (u8)y->dims,
                   .way = (u8)way};
  y->block[SCATTER_COUNT / 8] = count;
  return ty_cuda_run_each(&key, count, MOVE_THREADS, y->block);
}

/* The index's lines are sorted, each by itself. size: of y along the scattered dim. */
static bool by_runs(Scatter *y, i64 size, Stream *s) {
  Scatter own = *y;
  Radix r;
  int bytes = 1;
  while (bytes < 4 && (size - 1) >> (8 * bytes)) bytes++;
  if (!ty_cuda_radix_begin(&r, y->index_lines, y->n, false, s)) return false;
  memcpy(&own.block[SCATTER_DIMS / 8], y->of_index, sizeof y->of_index);
  own.dims = y->lines, own.dtype = 0, own.add = false;
  own.block[SCATTER_KEY / 8] = r.block[RADIX_KEY / 8],
                          own.block[SCATTER_PLACE / 8] = r.block[RADIX_PLACE / 8];
  bool ok = run(&own, SCATTER_KEYS, y->index_lines * y->n) && ty_cuda_radix(&r, bytes);
  y->block[SCATTER_KEY / 8] = r.block[RADIX_KEY / 8],
                         y->block[SCATTER_PLACE / 8] = r.block[RADIX_PLACE / 8];
  ok = ok && run(y, SCATTER_RUNS, y->count * y->n);
  ty_cuda_radix_end(&r);
  return ok;
}

bool ty_cuda_scatter(const Job *j, void *const *buf, Stream *s) {
  Scatter y;
  describe(j, buf, s, &y);
  const i64 size = j->type[0].dims[j->node->arg.k];
  if (!y.count || !y.n) return true;
  if (y.add && (y.dtype == T_I32 || y.dtype == T_I64))
    return run(&y, SCATTER_ATOMIC, y.count * y.n);
  if (y.n <= SERIAL_MOST || y.count >= LINES_ENOUGH || y.n > UINT32_MAX || size > UINT32_MAX)
    return run(&y, SCATTER_SERIAL, y.count);
  return by_runs(&y, size, s);
}
