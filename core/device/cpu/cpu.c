/*
** cpu.c -- the CPU as a device.
** In:  jobs and addresses.  Out: they are done when a function returns. Fails when out of memory, and where
** OpenBLAS was asked for and is not there.
*/
#include "base/system.h"
#include "device/cpu/epilogue.h"
#include "device/cpu/fft.h"

#include <stdio.h>
#include <stdlib.h>
#include "ir/site.h"

/* --- copies */

typedef struct Copy {
  char *to;
  const char *from;
} Copy;

static void copy_piece(void *arg, i64 begin, i64 end) {
  const Copy *c = arg;
  memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static void copy_bytes(void *to, const void *from, i64 bytes) {
  enum { GRAIN = 256 << 10 };
  Copy c = {to, from};
  if (bytes <= GRAIN) memcpy(to, from, (size_t)bytes);
  else ty_pool_run(bytes, GRAIN, copy_piece, &c);
}

static bool copy(void *to, const void *from, i64 bytes, const char **err) {
  (void)err;
  if (bytes > 0) copy_bytes(to, from, bytes);
  return true;
}

static bool copy_out(void *to, const void *from, i64 bytes, Stream *s, const char **err) {
  (void)s;
  return copy(to, from, bytes, err);
}

/* The elements of a layout in row-major order. */
static void copy_layout(char *to, const char *from, const Node *n) {
  i64 esize = ty_dtypes[n->type.dtype].bytes, at[MAX_RANK] = {0}, left = ty_type_numel(&n->type);
  int last = n->type.rank - 1;
  i64 run = last < 0 ? 1 : n->type.dims[last], step = last < 0 ? 0 : n->arg.strides[last] * esize;
  while (left > 0) {
    for (i64 i = 0; i < run; i++, to += esize) memcpy(to, from + i * step, (size_t)esize);
    left -= run;
    for (int d = last - 1; d >= 0; d--) {
      from += n->arg.strides[d] * esize;
      if (++at[d] < n->type.dims[d]) break;
      from -= at[d] * n->arg.strides[d] * esize;
      at[d] = 0;
    }
  }
}

/* --- jobs */

static bool product(const Job *j, void *const *buf, const u64 *scalar, const void *panels,
                    const char **err) {
  const char *a = (char *)buf[0] + j->start[0], *b = (char *)buf[1] + j->start[1];
  if (j->blas) return ty_gemm_blas(j->gemm, a, b, buf[2], err);
  return ty_epilogue_gemm(j, a, b, panels, buf + 3, scalar, buf[2]);
}

static bool attend(const Job *j, void *const *buf) {
  const void *x[AT_OPERANDS] = {NULL};
  const int n = j->noperands - 1;
  for (int i = 0; i < n; i++) x[i] = buf[i];
  return ty_attend(j->attend, x, buf[n]);
}

static bool sort(const Job *j, void *const *buf) {
  const Type *t = j->type;
  const Arg *arg = &j->node->arg;
  i64 rows = 1, inner = 1;
  for (int d = 0; d < arg->k; d++) rows *= t->dims[d];
  for (int d = arg->k + 1; d < t->rank; d++) inner *= t->dims[d];
  return ty_routine_argsort(t->dtype, buf[0], buf[1], rows, t->dims[arg->k],
                            j->node->type.dims[arg->k], inner, arg->k2 == SORT_DESCENDING);
}

static bool fft(const Job *j, void *const *buf) {
  const FftShape s = ty_fft_shape(j);
  return ty_fft(s.dtype, s.kind, s.norm, buf[0], buf[1], s.outer, s.n, s.inner);
}

static void search(const Job *j, void *const *buf) {
  const Type *t = j->type;
  i64 rows = 1;
  for (int d = 0; d < t[0].rank - 1; d++) rows *= t[0].dims[d];
  ty_routine_searchsorted(t->dtype, buf[0], buf[1], buf[2], rows, t[0].dims[t[0].rank - 1],
                          t[1].dims[t[1].rank - 1], j->node->arg.k == SIDE_RIGHT);
}

/* What an error says of the first index that names no place. */
static const char *position_error(const Node *n, i64 v, i64 at) {
  static _Thread_local char text[512];
  i64 strides[MAX_RANK] = {0};
  int used =
      snprintf(text, sizeof text, "%s: index %lld at (", ty_site_who(n->arg.k2), (long long)v);
  ty_type_strides(&n->type, strides);
  for (int d = 0; d < n->type.rank; d++)
    used += snprintf(text + used, sizeof text - (size_t)used, d ? ", %lld" : "%lld",
                     (long long)(at / strides[d] % n->type.dims[d] + 1));
  const char *where = ty_site_where(n->arg.k2);
  snprintf(text + used, sizeof text - (size_t)used, ") is out of range %d..%lld%s%s%s", n->arg.k,
           (long long)n->arg.bits + n->arg.k - 1, *where ? " (" : "", where, *where ? ")" : "");
  return text;
}

static bool positions(const Job *j, void *const *buf, const char **err) {
  const Node *n = j->node;
  const i64 *index = buf[0], size = (i64)n->arg.bits, base = n->arg.k,
            all = ty_type_numel(&n->type);
  i64 *y = buf[1], bad = -1;
  for (i64 i = 0; i < all; i++) {
    i64 v = index[i], p = v < 0 ? v + size : v - base;
    bool in = p >= 0 && p < size;
    if (!in && bad < 0) bad = i;
    y[i] = in ? p : 0;
  }
  if (bad >= 0) *err = position_error(n, index[bad], bad);
  return bad < 0;
}

static bool perform(const Job *j, void *const *buf, const u64 *scalar, const void *panels,
                    Stream *s, const char **err) {
  (void)s;
  const u32 saved = ty_fp_enter();
  bool ok = true;
  switch (j->kind) {
  case JOB_PRODUCT: ok = product(j, buf, scalar, panels, err); break;
  case JOB_ATTEND: ok = attend(j, buf); break;
  case JOB_SORT: ok = sort(j, buf); break;
  case JOB_FFT: ok = fft(j, buf); break;
  case JOB_SEARCH: search(j, buf); break;
  case JOB_POSITIONS: ok = positions(j, buf, err); break;
  case JOB_SCATTER:
    ty_routine_scatter(j->type->dtype, buf[2], &j->type[0],
                       (const i64 *)buf[0] + j->start[0] / (i64)sizeof(i64), j->strides, buf[1],
                       &j->type[2], j->node->arg.k, j->node->op == OP_SCATTER_ADD);
    break;
  default:
    if (buf[0] == buf[1]) break; /* the base of what is written in place */
    if (j->node) copy_layout(buf[1], buf[0], j->node);
    else copy_bytes(buf[1], buf[0], j->bytes);
  }
  ty_fp_leave(saved);
  return ok;
}

static bool wait(Stream *s, const char **err) {
  (void)s, (void)err;
  return true;
}

/* --- the device */

static Device cpu = {.name = "cpu",
                     .portable = &ty_machine_tile,
                     .allocate = ty_buf_alloc_data,
                     .free = ty_buf_free,
                     .in = copy,
                     .out = copy_out,
                     .across = copy,
                     .wait = wait,
                     .perform = perform,
                     .panels = ty_gemm_panels,
                     .pack = ty_gemm_pack,
                     .fft_plan = ty_fft_plan,
                     .fft_drop = ty_fft_drop};

const Device *ty_devices[DEVICES_MAX] = {&cpu};

static void choose(void) {
  const char *machine = getenv("TYCHO_MACHINE");
  bool native = !(machine && !strcmp(machine, "tile")) && !ty_x64_refusal();
  cpu.machine = native ? &ty_machine_x64 : &ty_machine_tile;
}

void ty_cpu_open(void) {
  static Once once = ONCE_INIT;
  ty_once(&once, choose);
}
