/*
** jobs_sort.c -- sorts and searches on the CUDA device.
** In:  jobs, addresses.  Out: kernels are launched. Fails when out of memory, and where the driver refuses a text.
** Short rows take one kernel, in which each element counts those before it; long ones go by the bytes of their keys.
*/
#include "device/cuda/jobs.h"
#include "device/cuda/ptx_sort.h"

bool ty_cuda_sort_takes(const Job *j) { return j->type->dims[j->node->arg.k] <= UINT32_MAX; }

/* --- long rows */

enum { KEYS_COUNT = 2, ALIGN = 256 };

static i64 aligned(i64 n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

bool ty_cuda_radix_begin(Radix *r, i64 rows, i64 n, bool wide, Stream *s) {
  const i64 tiles = (n + RADIX_TILE - 1) / RADIX_TILE, keys = aligned(rows * n * (wide ? 8 : 4)),
            places = aligned(rows * n * 4), table = rows * RADIX_VALUES * tiles * 4;
  *r = (Radix){.wide = wide, .rows = rows, .n = n, .bytes = 2 * (keys + places) + table};
  if (!(r->memory = ty_cuda_allocate(r->bytes))) return false;
  r->block[RADIX_WORD / 8] = (i64)ty_cuda_word(s);
  r->block[RADIX_KEY / 8] = ty_cuda_address(r->memory);
  r->block[RADIX_TO_KEY / 8] = r->block[RADIX_KEY / 8] + keys;
  r->block[RADIX_PLACE / 8] = r->block[RADIX_TO_KEY / 8] + keys;
  r->block[RADIX_TO_PLACE / 8] = r->block[RADIX_PLACE / 8] + places;
  r->block[RADIX_TABLE / 8] = r->block[RADIX_TO_PLACE / 8] + places;
  r->block[RADIX_N / 8] = n, r->block[RADIX_TILES / 8] = tiles;
  return true;
}

void ty_cuda_radix_end(Radix *r) {
  if (r->memory) ty_cuda_free(r->memory, r->bytes);
}

/* units: of blocks of threads. */
static bool step(Radix *r, RadixStep which, i64 units) {
  const Key key = {.kind = OF_RADIX, .way = (u8)which, .flag = r->wide ? 2 : 0};
  CudaCode code;
  r->block[RADIX_COUNT / 8] = units;
  return ty_cuda_find(&key, &code, NULL) &&
         ty_cuda_launch(&code, TY_MIN(units, 32768), RADIX_THREADS, r->block);
}

static void exchange(i64 *a, i64 *b) {
  const i64 t = *a;
  *a = *b, *b = t;
}

bool ty_cuda_radix(Radix *r, int bytes) {
  const i64 tiles = r->rows * r->block[RADIX_TILES / 8];
  for (int b = 0; b < bytes; b++) {
    r->block[RADIX_SHIFT / 8] = 8 * b;
    if (!step(r, RADIX_COUNT_OF, tiles) || !step(r, RADIX_ADD, r->rows) ||
        !step(r, RADIX_MOVE, tiles))
      return false;
    exchange(&r->block[RADIX_KEY / 8], &r->block[RADIX_TO_KEY / 8]);
    exchange(&r->block[RADIX_PLACE / 8], &r->block[RADIX_TO_PLACE / 8]);
  }
  return true;
}

/* --- jobs */

static bool sort_long(const Job *j, void *const *buf, i64 inner, Stream *s) {
  const Type *t = j->type;
  const int dim = j->node->arg.k, bytes = ty_dtypes[t->dtype].bytes;
  const bool descending = j->node->arg.k2 == SORT_DESCENDING;
  const i64 count = ty_type_numel(t), n = t->dims[dim], keep = j->node->type.dims[dim];
  const Key keys = {.kind = OF_RADIX, .dtype = t->dtype, .way = RADIX_KEYS_OF, .flag = descending},
            out = {.kind = OF_RADIX, .way = RADIX_OUT};
  Radix r;
  if (!ty_cuda_radix_begin(&r, count / n, n, bytes == 8, s)) return false;
  r.block[RADIX_X / 8] = ty_cuda_address(buf[0]), r.block[RADIX_Y / 8] = ty_cuda_address(buf[1]);
  r.block[RADIX_INNER / 8] = inner, r.block[RADIX_KEEP / 8] = keep;
  r.block[RADIX_COUNT / 8] = count;
  bool ok = ty_cuda_run_each(&keys, count, SORT_THREADS, r.block) && ty_cuda_radix(&r, bytes);
  r.block[RADIX_COUNT / 8] = count / n * keep;
  ok = ok && ty_cuda_run_each(&out, count / n * keep, SORT_THREADS, r.block);
  ty_cuda_radix_end(&r);
  return ok;
}

bool ty_cuda_sort(const Job *j, void *const *buf, Stream *s) {
  const Type *t = j->type;
  const int dim = j->node->arg.k;
  const i64 n = t->dims[dim], keep = j->node->type.dims[dim], count = ty_type_numel(t);
  const Key key = {.kind = OF_SORT, .dtype = t->dtype, .flag = j->node->arg.k2 == SORT_DESCENDING};
  i64 inner = 1;
  for (int d = dim + 1; d < t->rank; d++) inner *= t->dims[d];
  if (!count || !keep) return true;
  if (n > SORT_SHORT) return sort_long(j, buf, inner, s);
  i64 block[] = {(i64)ty_cuda_word(s),
                 ty_cuda_address(buf[0]),
                 ty_cuda_address(buf[1]),
                 count,
                 n,
                 keep,
                 inner};
  return ty_cuda_run_each(&key, count, SORT_THREADS, block);
}

bool ty_cuda_search(const Job *j, void *const *buf, Stream *s) {
  const Type *t = j->type;
  const Key key = {.kind = OF_SEARCH, .dtype = t->dtype, .flag = j->node->arg.k == SIDE_RIGHT};
  const i64 count = ty_type_numel(&t[1]);
  i64 block[] = {(i64)ty_cuda_word(s),
                 ty_cuda_address(buf[0]),
                 ty_cuda_address(buf[1]),
                 ty_cuda_address(buf[2]),
                 count,
                 t[0].dims[t[0].rank - 1],
                 t[1].dims[t[1].rank - 1]};
  return ty_cuda_run_each(&key, count, SORT_THREADS, block);
}
