/*
** machine.c -- the machine of the CUDA device: loop programs, made ready and launched.
** In:  a program; launches.  Out: a kernel, which is assembled for each kind of launch when that comes first. What the driver
** refuses is interpreted. A run fails where the interpreter was refused, too, and when out of memory.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"
#include "device/cuda/interpret.h"
#include "device/cuda/ptx_program.h"

enum {
  SECTOR = 32,      /* bytes */
  TURN_LEAST = 16,  /* elements along either dim of tiles */
  TURN_BLOCKS = 16, /* of tiles that a multiprocessor has at a time */
  FOURS = 4,        /* neighbours that a thread of a map has, */
  FOURS_MOST = 128, /* where its body is not longer */
  HELD_MOST = 64    /* and registers that hold what neighbours load and store are not more */
};

typedef struct Made {
  Variant v;
  CudaCode code;
  Assembly *late; /* not NULL: it is being assembled */
  bool refused;
} Made;

typedef enum { FOUND, LATER, REFUSED, NONE } Found;
static inline Found worse(Found a, Found b) { return a > b ? a : b; }

struct Kernel {
  Cuda *device;
  Program *p;
  bool split;
  i32 scans; /* that may be split */
  i32 each;  /* of a row's neighbours a thread may have */
  Lock lock;
  Made *made;
  i32 n, cap;
  size_t bytes;
};

Kernel *ty_cuda_make(const Program *p) {
  const size_t n = sizeof *p + p->nbody * sizeof *p->body;
  Kernel *k = ty_mem_zalloc(sizeof *k);
  if (!k || !(k->p = ty_mem_alloc(n))) {
    ty_mem_free(k);
    return NULL;
  }
  memcpy(k->p, p, n);
  k->device = ty_cuda_now;
  k->split = ty_ptx_is_split(p);
  k->scans = ty_ptx_split_scans(p);
  k->each = ty_ptx_row_each(p);
  k->bytes = sizeof *k + n;
  ty_lock_init(&k->lock);
  return k;
}

void ty_cuda_drop(Kernel *k) {
  if (!k) return;
  ty_cuda_use(k->device);
  for (i32 i = 0; i < k->n; i++) {
    if (k->made[i].late) ty_assembly_drop(k->made[i].late);
    ty_cuda_unload(&k->made[i].code);
  }
  ty_mem_free(k->made);
  ty_lock_free(&k->lock);
  ty_mem_free(k->p);
  ty_mem_free(k);
}

size_t ty_cuda_bytes(const Kernel *k) { return k->bytes; }

/* Takes what was assembled beside. */
static Found take_late(Made *m, bool wait) {
  size_t n;
  if (!ty_assembly_done(m->late, wait)) return LATER;
  const char *code = ty_assembly_code(m->late, &n);
  if (code && ty_cuda_load_code(&m->code, code, n))
    ty_cuda_keep_source(&m->code, ty_assembly_text(m->late));
  else if (!ty_cuda_load_new(&m->code, ty_assembly_text(m->late))) {
    if (!ty_cuda_refusal("")) return NONE;
    m->refused = true;
  }
  ty_assembly_drop(m->late);
  m->late = NULL;
  return m->refused ? REFUSED : FOUND;
}

/* A variant that was not asked for before. */
static Found begin(Kernel *k, const Variant *v, bool wait) {
  if (k->n == k->cap) {
    Made *more = ty_mem_realloc(k->made, (size_t)(k->cap + 4) * sizeof *more);
    if (!more) return NONE;
    k->made = more, k->cap += 4;
  }
  Text text = ty_ptx_program(k->p, v);
  Made *m = &k->made[k->n];
  *m = (Made){.v = *v};
  const size_t bytes = text.n;
  ty_cuda_show(&text);
  Found y = ty_cuda_load_kept(&m->code, &text) ? FOUND : NONE;
  if (y == NONE && !wait && !text.failed && (m->late = ty_assembly_begin(&text))) y = LATER;
  if (y == NONE) {
    y = ty_cuda_load_new(&m->code, &text) ? FOUND : ty_cuda_refusal("") ? REFUSED : NONE;
    m->refused = y == REFUSED;
  }
  if (y != NONE) k->n++, k->bytes += bytes;
  ty_text_free(&text);
  return y;
}

/* The code for a variant, assembled where it is not there yet; unless its caller waits, LATER is an answer. Its address
** may change: a copy. */
static Found find(const Kernel *kernel, const Variant *v, bool wait, CudaCode *y) {
  Kernel *k = (Kernel *)(uintptr_t)kernel;
  Found found = NONE;
  i32 i = 0;
  ty_lock(&k->lock);
  while (i < k->n && memcmp(&k->made[i].v, v, sizeof *v)) i++;
  if (i == k->n) found = begin(k, v, wait);
  else if (k->made[i].late) found = take_late(&k->made[i], wait);
  else found = k->made[i].refused ? REFUSED : FOUND;
  if (found == FOUND) *y = k->made[i].code;
  ty_unlock(&k->lock);
  return found;
}

/* --- launches */

/* Adds dims [from, from + n) of l, but those of extent 1; one that all operands walk as the one before goes on is one
** with it. */
static void add_dims(Shape *s, const Program *p, const Launch *l, int factor, int from, int n) {
  int first = s->n[0] + (factor > 0 ? s->n[1] : 0) + (factor > 1 ? s->n[2] : 0), at = first;
  s->extent[factor] = 1;
  for (int d = from; d < from + n; d++) {
    const i64 e = l->dims[d];
    s->extent[factor] *= e;
    if (e == 1) continue;
    bool merge = at > first;
    for (int o = 0; o < p->noperands && merge; o++)
      merge = s->strides[o][at - 1] == l->strides[o][d] * e;
    if (!merge) s->dims[at++] = 1;
    s->dims[at - 1] *= e;
    for (int o = 0; o < p->noperands; o++) s->strides[o][at - 1] = l->strides[o][d];
  }
  s->n[factor] = at - first;
}

static i64 size_of(const Program *p, int operand) {
  for (int i = 0; i < p->nbody; i++)
    if (p->body[i].op == P_IOTA && (int)p->body[i].imm == operand) return 1;
  return ty_dtypes[p->operand[operand].dtype].bytes;
}

static void shape_of(const Program *p, const Launch *l, Shape *s, Variant *v) {
  memset(v, 0, sizeof *v);
  memset(s->n, 0, sizeof s->n);
  add_dims(s, p, l, 0, 0, l->no);
  add_dims(s, p, l, 1, l->no, l->nr);
  add_dims(s, p, l, 2, l->no + l->nr, l->ni);
  v->no = (u8)s->n[0], v->nr = (u8)s->n[1], v->ni = (u8)s->n[2];
  const int nd = v->no + v->nr + v->ni;
  const i64 most = INT32_MAX - (1 << 24);
  i64 all = 1;
  for (int d = 0; d < nd; d++)
    if (!ty_mul(all, TY_MAX(s->dims[d], 1), &all)) all = INT64_MAX;
  v->wide = all > most;
  for (int o = 0; o < p->noperands; o++) {
    const i64 size = size_of(p, o);
    for (int d = 0; d < nd; d++) {
      i64 *by = &s->strides[o][d];
      *by *= size;
      v->wide |= *by > most || *by < -most;
    }
  }
  v->one = p->kind == K_MAP || s->extent[1] <= (p->kind == K_ROW ? BLOCK : COL_BLOCK);
}

/* Whether the operand's elements lie side by side along a dim, in groups of `each` that are aligned. */
static bool in_groups(const Program *p, const Shape *s, int operand, int dim, int nd, i64 each,
                      const Run *r) {
  const i64 size = ty_dtypes[p->operand[operand].dtype].bytes, whole = TY_MIN(each * size, 16);
  const i64 at = (i64)(uintptr_t)r->buf[operand] + r->launch->start[operand] * size;
  bool ok = r->buf[operand] && s->strides[operand][dim] == size && whole >= 4 && !(at % whole);
  for (int d = 0; d < nd; d++) ok &= d == dim || !(s->strides[operand][d] % whole);
  return ok;
}

/* Registers that hold what so many neighbours load and store. */
static i32 held(const Program *p, const Variant *v, i32 each) {
  i32 n = 0;
  for (int o = 0; o < p->noperands; o++)
    if (v->flat >> o & 1) n += ty_ptx_wide(ty_dtypes[p->operand[o].dtype].ctype) ? 2 : 1;
  return n * each;
}

/* Rows by groups of `each` neighbours, so many threads a row: whether all that goes along the rows lies so. */
static bool in_parts(const Program *p, const Run *r, const Shape *s, Variant *v, i32 each,
                     i32 threads) {
  const int dim = v->no + v->nr - 1;
  v->flat = v->same = 0;
  for (int i = 0; i < p->nbody; i++) {
    const int op = p->body[i].op, operand = (int)p->body[i].imm;
    if ((op != P_LOAD && op != P_STORE) || p->body[i].level == L_ROW) continue;
    if (in_groups(p, s, operand, dim, v->no + v->nr, each, r)) v->flat |= 1u << operand;
    else if (op == P_LOAD && !s->strides[operand][dim]) v->same |= 1u << operand;
    else return false;
  }
  v->each = (u8)each, v->threads = (u8)threads;
  return v->flat != 0 && held(p, v, each) <= HELD_MOST;
}

/* Half a warp a row, or fewer threads where rows are short; all threads of a warp must have one. An odd number of rows goes by
** whole warps. */
static void by_parts(const Kernel *k, const Run *r, const Shape *s, Variant *v) {
  const i64 rows = s->extent[0], n = s->extent[1], last = v->nr ? s->dims[v->no + v->nr - 1] : 0;
  i32 each = k->each, threads = 16;
  if (!each || k->p->nbody > FOURS_MOST || !last) return;
  while (threads > 1 && threads / 2 * each >= n) threads /= 2;
  while (threads < 16 && rows % (32 / threads)) threads *= 2;
  const Variant plain = *v;
  if (last % each || rows % (32 / threads) || !in_parts(k->p, r, s, v, each, threads)) {
    *v = plain;
    if (each != 4 || last % 2 || !in_parts(k->p, r, s, v, 2, 32)) *v = plain;
  }
}

/* A map by fours, where all that it stores lies so: the last dim is cut. */
static void by_fours(const Program *p, const Run *r, Shape *s, Variant *v) {
  const int nd = v->ni;
  const i64 last = nd ? s->dims[nd - 1] : 0;
  bool stores = false;
  if (p->kind != K_MAP || p->nbody > FOURS_MOST || nd >= MAX_DIMS || last < FOURS ||
      (last % FOURS && nd > 1))
    return;
  for (int i = 0; i < p->nbody; i++) {
    const int op = p->body[i].op, operand = (int)p->body[i].imm;
    if (op != P_LOAD && op != P_STORE) continue;
    if (in_groups(p, s, operand, nd - 1, nd, FOURS, r)) v->flat |= 1u << operand;
    else if (op == P_STORE) {
      v->flat = v->same = 0;
      return;
    }
    if (!s->strides[operand][nd - 1]) v->same |= 1u << operand;
    stores |= op == P_STORE;
  }
  if (!stores || held(p, v, FOURS) > HELD_MOST) {
    v->flat = v->same = 0;
    return;
  }
  v->four = last % FOURS ? FOUR_TAIL : FOUR_ALL;
  v->ni++;
  s->n[2]++;
  s->dims[nd - 1] = (last + FOURS - 1) / FOURS, s->dims[nd] = FOURS;
  for (int o = 0; o < p->noperands; o++) {
    s->strides[o][nd] = s->strides[o][nd - 1];
    s->strides[o][nd - 1] *= FOURS;
  }
}

/* A map that reads operands across what it stores: along the last dim they are a sector apart at least, along another side
** by side. The first such dim counts. */
static void by_turns(const Program *p, Shape *s, Variant *v) {
  const int last = v->ni - 1;
  i64 bytes = 0;
  if (p->kind != K_MAP || last < 1 || s->dims[last] < TURN_LEAST) return;
  for (int i = 0; i < p->nbody; i++) {
    const int op = p->body[i].op, o = (int)p->body[i].imm;
    if (op == P_STORE && s->strides[o][last] != size_of(p, o)) bytes = TURN_MOST; /* not so */
  }
  for (int i = 0; i < p->nbody; i++) {
    const int o = (int)p->body[i].imm;
    if (p->body[i].op != P_LOAD || v->flat >> o & 1) continue;
    const i64 size = size_of(p, o), by = s->strides[o][last],
              tile = TURN_BYTES(ty_ptx_wide(ty_dtypes[p->operand[o].dtype].ctype) ? 8 : 4);
    int d = v->turn ? v->turn - 1 : 0;
    while (!v->turn && d < last && (s->strides[o][d] != size || s->dims[d] < TURN_LEAST)) d++;
    if (d == last || s->strides[o][d] != size || (by < SECTOR && by > -SECTOR) ||
        bytes + tile > TURN_MOST)
      continue;
    v->turn = (u8)(d + 1), v->flat |= 1u << o, bytes += tile;
  }
}

static i64 turn_tiles(const Shape *s, const Variant *v) {
  i64 n = 1;
  for (int d = 0; d < v->ni; d++)
    n *= d == v->ni - 1 || d == v->turn - 1 ? (s->dims[d] - 1) / TURN_SIDE + 1 : s->dims[d];
  return n;
}

/* The block of parameters; false: out of memory. */
static bool bind(const Program *p, const Variant *v, const Shape *s, const Run *r, i64 *at) {
  const Layout l = ty_ptx_layout(p, v);
  memset(at, 0, PARAM_OPERANDS);
  at[PARAM_WORD / 8] = (i64)ty_cuda_word(r->stream);
  at[PARAM_COUNT / 8] = s->extent[0] * s->extent[2];
  at[PARAM_R / 8] = s->extent[1];
  if (v->four)
    at[PARAM_R / 8] = s->extent[2], at[PARAM_COUNT / 8] = (s->extent[2] + FOURS - 1) / FOURS;
  if (v->turn) at[PARAM_COUNT / 8] = turn_tiles(s, v);
  at[PARAM_I / 8] = s->extent[2];
  for (int o = 0; o < p->noperands; o++) {
    const i64 size = size_of(p, o), start = r->launch->start[o];
    at[PARAM_OPERANDS / 8 + o] = r->buf[o] ? (i64)(uintptr_t)r->buf[o] + start * size : start;
    for (int d = 0; d < l.nd; d++) at[l.strides / 8 + o * l.nd + d] = s->strides[o][d];
    at[l.gstrides / 8 + o] = r->launch->gstride[o] * size;
  }
  for (int d = 0; d < l.nd; d++) at[l.dims / 8 + d] = s->dims[d];
  for (int i = 0; i < l.nscalar; i++) at[l.scalars / 8 + i] = (i64)r->scalar[i];
  return at[0] != 0;
}

/* Groups of blocks of each row, where rows are few and long; 0: rows are not cut. *each: blocks of a group. */
static i64 groups_of(const Kernel *k, const Shape *s, const Variant *v, i64 *each) {
  const bool row = k->p->kind == K_ROW;
  const i64 units = s->extent[0] * s->extent[2], enough = row ? 2048 : 32768, most = 1024;
  if (!k->split || v->one || units >= enough) return 0;
  const i64 size = row ? BLOCK : COL_BLOCK, n = (s->extent[1] + size - 1) / size;
  *each = 1;
  while ((n + *each - 1) / *each > most || units * ((n + *each - 1) / *each) > 4 * enough)
    *each *= 2;
  return n > *each ? (n + *each - 1) / *each : 0;
}

static i64 grid(const Program *p, const Variant *v, i64 units) {
  if (v->turn) return TY_MIN(units, (i64)TURN_BLOCKS * ty_cuda.processors);
  const i64 row = v->each ? v->threads : 32,
            each = p->kind == K_ROW ? PROGRAM_THREADS / row : PROGRAM_THREADS;
  return TY_MIN((units - 1) / each + 1, 32768);
}

/* As two kernels. NONE: no memory for it; unless it is FOUND nothing was launched. */
static Found run_split(const Kernel *k, Variant v, i64 groups, i64 each, bool wait, i64 *at) {
  CudaCode part, finish;
  const i64 units = at[PARAM_COUNT / 8], bytes = units * groups * ty_ptx_node_words(k->p) * 8;
  v.mode = MODE_FINISH;
  Found y = find(k, &v, wait, &finish);
  v.mode = MODE_PART;
  if (y < REFUSED) y = worse(y, find(k, &v, wait, &part));
  if (y != FOUND) return y;
  void *scratch = ty_cuda_allocate(bytes);
  if (!scratch) return NONE;
  at[PARAM_SCRATCH / 8] = (i64)(uintptr_t)scratch;
  at[PARAM_GROUPS / 8] = groups;
  at[PARAM_GROUP / 8] = each;
  ty_cuda_launch(&part, grid(k->p, &v, units * groups), PROGRAM_THREADS, at);
  ty_cuda_launch(&finish, grid(k->p, &v, units), PROGRAM_THREADS, at);
  ty_cuda_free(scratch, bytes);
  return FOUND;
}

/* Scans of few long rows as three kernels, likewise. */
static Found run_scans(const Kernel *k, Variant v, bool wait, i64 *at) {
  static const u8 mode[] = {MODE_TOTALS, MODE_OFFSETS, MODE_SCAN};
  enum { N = TY_COUNT(mode) };
  CudaCode code[N];
  const i64 units = at[PARAM_COUNT / 8], groups = (at[PARAM_R / 8] + BLOCK - 1) / BLOCK,
            bytes = units * groups * k->scans * 8;
  Found y = FOUND;
  for (int i = 0; i < N && y < REFUSED; i++) {
    v.mode = mode[i];
    y = worse(y, find(k, &v, wait, &code[i]));
  }
  if (y != FOUND) return y;
  void *scratch = ty_cuda_allocate(bytes);
  if (!scratch) return NONE;
  at[PARAM_SCRATCH / 8] = (i64)(uintptr_t)scratch;
  at[PARAM_GROUPS / 8] = groups;
  ty_cuda_launch(&code[0], grid(k->p, &v, units * groups), PROGRAM_THREADS, at);
  ty_cuda_launch(&code[1], (units - 1) / PROGRAM_THREADS + 1, PROGRAM_THREADS, at);
  ty_cuda_launch(&code[2], grid(k->p, &v, units * groups), PROGRAM_THREADS, at);
  ty_cuda_free(scratch, bytes);
  return FOUND;
}

/* What the program computes, by its primitives, for errors. */
static void name_of(const Program *p, char *y, size_t room) {
  static const char *const kinds[] = {"a map", "rows", "columns"};
  size_t n = (size_t)ty_system_format(y, room, "%s", kinds[p->kind]);
  for (int i = 0; i < p->nbody && n + 24 < room; i++) {
    const int op = p->body[i].op;
    if (op > P_STORE && op != P_NARROW && (!i || op != p->body[i - 1].op))
      n += (size_t)ty_system_format(y + n, room - n, "%s %s", strchr(y, ':') ? "" : ":",
                                    ty_prims[op]);
  }
}

/* What a run says whose code is not there, nor the interpreter's: an error that is told later where the driver has refused
** it, else no memory. */
static bool not_found(const Kernel *k, const Run *r, bool refused) {
  char name[160];
  if (ty_cuda_trouble()) return true;
  name_of(k->p, name, sizeof name);
  const char *text = refused ? ty_cuda_refusal(name) : NULL;
  if (!text && refused) text = "the CUDA driver refuses a kernel";
  return text && ty_cuda_fail(r->stream, text);
}

/* By the program's own kernels. */
static Found run_own(const Kernel *k, const Run *r, bool wait) {
  static _Thread_local i64 at[BLOCK_MOST / 8]; /* stacks are small */
  Shape s;
  Variant v;
  CudaCode code;
  Found y = NONE;
  i64 each;
  shape_of(k->p, r->launch, &s, &v);
  const i64 units = s.extent[0] * s.extent[2];
  by_turns(k->p, &s, &v);
  if (!v.turn) by_fours(k->p, r, &s, &v);
  by_parts(k, r, &s, &v);
  if ((v.four || v.each || v.turn) && find(k, &v, wait, &code) >= REFUSED)
    shape_of(k->p, r->launch, &s, &v); /* what was reserved */
  if (!bind(k->p, &v, &s, r, at)) return NONE;
  const i64 groups = groups_of(k, &s, &v, &each);
  if (groups) y = run_split(k, v, groups, each, wait, at);
  if (y >= REFUSED && k->scans && !v.one && units < 2048) y = run_scans(k, v, wait, at);
  if (y < REFUSED) return y;
  if ((y = find(k, &v, wait, &code)) != FOUND) return y;
  ty_cuda_launch(&code, grid(k->p, &v, at[PARAM_COUNT / 8]), PROGRAM_THREADS, at);
  return FOUND;
}

bool ty_cuda_run(const Kernel *k, const Run *r) {
  Shape s;
  Variant v;
  ty_cuda_use(k->device);
  if (!ty_cuda_enter()) return true; /* the next wait says why */
  shape_of(k->p, r->launch, &s, &v);
  if (!s.extent[0] || !s.extent[2]) return true;
  if (ty_cuda_interprets_all() && ty_cuda_interpret(k->p, &s, r)) return true;
  Found y = run_own(k, r, false);
  if (y == LATER && ty_cuda_interpret(k->p, &s, r)) return true;
  if (y == LATER) y = run_own(k, r, true);
  if (y == REFUSED && ty_cuda_interpret(k->p, &s, r)) return true;
  return y == FOUND || not_found(k, r, y == REFUSED);
}

bool ty_cuda_reserve(const Kernel *k, const Launch *l) {
  Shape s;
  Variant v;
  CudaCode code;
  ty_cuda_use(k->device);
  if (!ty_cuda_enter()) return true;
  shape_of(k->p, l, &s, &v);
  return !s.extent[0] || !s.extent[2] || find(k, &v, false, &code) != NONE;
}
