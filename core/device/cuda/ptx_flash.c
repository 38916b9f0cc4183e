/*
** ptx_flash.c -- attention's forward pass on tensor cores, in registers: without mask and dropout, at reduced precision.
** In:  what is attended with.  Out: a module. Fails when out of memory alone.
**
** A block of four warps has 64 queries, each warp 16 of them, whose features stay in fragments of mma.m16n8k8, rounded to TF32 (half
** floats lose nothing). Keys and values come by 32 to shared memory, a line a position. For each 32 keys a warp has its scores in
** fragments of sums, 16 x 8 a key tile; lane 4 g + t has rows g and g + 8, columns 2 t and 2 t + 1: maxima and sums of a row are four
** lanes'. As a factor of the values a weight of column 2 t stands where the fragment wants column t, one of 2 t + 1 where it wants
** t + 4: the sum over keys is the same if the values' lines are taken in that order, and no weight changes lanes.
** Lines are padded by four words: the 32 lanes of a fragment find 32 banks.
** exp is the processor's own, good to two units in the last place: enough where factors have 10 bits.
*/
#include "device/cuda/ptx_address.h"
#include "device/cuda/ptx_attend.h"
#include "device/cuda/ptx_stage.h"

enum {
  KEYS = 32,
  TILES = KEYS / 8,
  WARP_ROWS = 16,
  PAD = 4,
  SUMS = 4, /* of a fragment */
  MOST = FLASH_MOST / 8
};
#define LOG2E 0x1.715476p+0f

typedef struct Flash {
  Ptx E;
  const AttendVariant *v;
  int nk, nv;               /* tiles of 8 features, of 8 values */
  i64 kpitch, vpitch;       /* bytes of a line */
  Reg memory, keys, values; /* shared; the thread's first elements of fragments */
  Reg lane_g, lane_t, warp, thread;
  Reg index, x[AT_OPERANDS];
  Reg row[2], end[2]; /* the thread's queries; where the keys end that they see */
  Reg q[MOST][4], sum[MOST][SUMS], score[TILES][SUMS];
  Reg most[2], total[2], shrink[2], scale;
} Flash;

static Reg constant(Flash *F, i64 v) { return ty_ptx_const(&F->E, C_I64, (u64)v); }
static Reg real(Flash *F) { return ty_ptx_reg(&F->E, REG_32); }
static Reg number(Flash *F, float v) {
  u32 bits;
  memcpy(&bits, &v, sizeof bits);
  return ty_ptx_const(&F->E, C_F32, bits);
}
static Reg below(Flash *F, Reg a, Reg b) {
  const Reg p = ty_ptx_reg(&F->E, REG_PRED);
  ty_ptx(&F->E, "setp.lt.s64 $, $, $", p, a, b);
  return p;
}
static Reg both(Flash *F, Reg p, Reg q) {
  const Reg y = ty_ptx_reg(&F->E, REG_PRED);
  ty_ptx(&F->E, "and.pred $, $, $", y, p, q);
  return y;
}
static Reg add(Flash *F, Reg a, i64 b) { return b ? op(&F->E, "add", a, constant(F, b)) : a; }
static Reg times(Flash *F, Reg a, i64 b) { return op(&F->E, "mul.lo", a, constant(F, b)); }
static void set(Flash *F, Reg to, Reg from) { ty_ptx(&F->E, "mov.b32 $, $", to, from); }

/* exp2 of x LOG2E - by */
static Reg power(Flash *F, Reg x, Reg by) {
  const Reg a = real(F), y = real(F);
  ty_ptx(&F->E, "fma.rn.f32 $, $, $, $", a, x, number(F, LOG2E), by);
  ty_ptx(&F->E, "ex2.approx.ftz.f32 $, $", y, a);
  return y;
}

static void multiply(Flash *F, const Reg c[SUMS], const Reg a[4], Reg b0, Reg b1) {
  ty_ptx(&F->E,
         "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {$, $, $, $}, {$, $, $, $}, {$, $}, "
         "{$, $, $, $}",
         c[0], c[1], c[2], c[3], a[0], a[1], a[2], a[3], b0, b1, c[0], c[1], c[2], c[3]);
}

static Reg shared(Flash *F, Reg at, i64 offset) {
  const Reg y = real(F);
  ty_ptx(&F->E, "ld.shared.b32 $, [$+#]", y, at, offset);
  return y;
}

/* f32 is multiplied by the scale before it is rounded, as in the other kernels: where the scale is a number of later calls, queries come
** multiplied. Half floats times the scale would lose bits, so scores are multiplied. */
static bool scales_queries(const Flash *F) { return F->v->operands == T_F32; }

/* --- queries */

static void begin_queries(Flash *F, Reg block) {
  Ptx *E = &F->E;
  const Reg n = param(E, ATTEND_N), m = param(E, ATTEND_M), d = param(E, ATTEND_FEATURES),
            rs = param(E, ATTEND_RS + 8 * AT_Q), cs = param(E, ATTEND_CS + 8 * AT_Q),
            first = op(E, "add", times(F, block, ATTEND_SIDE), times(F, F->warp, WARP_ROWS));
  Reg line[2], there[2];
  for (int h = 0; h < 2; h++) {
    F->row[h] = add(F, op(E, "add", first, F->lane_g), 8 * h);
    F->end[h] = m;
    if (F->v->causal)
      F->end[h] = op(E, "min", m, add(F, op(E, "add", F->row[h], op(E, "sub", m, n)), 1));
    line[h] = mad(E, F->row[h], rs, F->x[AT_Q]);
    there[h] = below(F, F->row[h], n);
  }
  for (int k = 0; k < F->nk; k++)
    for (int i = 0; i < 4; i++) {
      const Reg c = add(F, F->lane_t, 8 * k + 4 * (i / 2));
      E->guard = both(F, there[i % 2], below(F, c, d));
      const Reg q = ty_ptx_load(E, F->v->operands, mad(E, c, cs, line[i % 2]));
      if (scales_queries(F)) ty_ptx(E, "mul.rn.f32 $, $, $", q, q, F->scale);
      F->q[k][i] = ty_ptx_tf32(E, q);
      E->guard = 0;
    }
  for (int i = 0; i < F->nv; i++)
    for (int c = 0; c < SUMS; c++) ty_ptx(E, "mov.b32 $, 0", F->sum[i][c]);
  for (int h = 0; h < 2; h++) {
    set(F, F->most[h], number(F, -__builtin_inff()));
    set(F, F->total[h], number(F, 0));
  }
}

/* --- keys and values, to shared memory */

/* Four elements that lie side by side, where p holds; else 0. */
static void load_four(Flash *F, Reg p, Reg at, Reg v[4]) {
  Ptx *E = &F->E;
  const int dtype = F->v->operands;
  const bool half = dtype != T_F32;
  for (int i = 0; i < 4; i++) {
    v[i] = ty_ptx_reg(E, half ? REG_16 : REG_32);
    ty_ptx(E, "mov.~ $, 0", half ? "b16" : "b32", v[i]);
  }
  ty_ptx(E, "@$ ld.global.v4.~ {$, $, $, $}, [$]", p, half ? "b16" : "b32", v[0], v[1], v[2], v[3],
         at);
  for (int i = 0; i < 4 && half; i++) {
    const Reg h = v[i];
    v[i] = real(F);
    ty_ptx(E, dtype == T_F16 ? "cvt.f32.f16 $, $" : "cvt.u32.u16 $, $", v[i], h);
    if (dtype == T_BF16) ty_ptx(E, "shl.b32 $, $, 16", v[i], v[i]);
  }
}

/* KEYS lines of operand x from `key` on, of 8 `tiles` elements; what is not there is 0. */
static void bring(Flash *F, int x, bool vectors, int tiles, i32 features, i64 pitch, i64 to,
                  Reg key) {
  Ptx *E = &F->E;
  const int units = tiles * 2, lines = FLASH_THREADS / units; /* units of four elements */
  Reg line0;
  const Reg unit = ty_ptx_cut(E, F->thread, units, &line0), column = times(F, unit, 4),
            all = param(E, features), m = param(E, ATTEND_M), rs = param(E, ATTEND_RS + 8 * x),
            cs = param(E, ATTEND_CS + 8 * x),
            own = op(E, "add", times(F, line0, pitch), op(E, "add", times(F, unit, 16), F->memory));
  for (int l = 0; l < KEYS; l += lines) {
    const Reg line = add(F, op(E, "add", key, line0), l), there = below(F, line, m),
              at = mad(E, column, cs, mad(E, line, rs, F->x[x]));
    Reg v[4];
    if (vectors) load_four(F, both(F, there, below(F, column, all)), at, v);
    for (int i = 0; i < 4; i++) {
      const Reg c = add(F, column, i);
      E->guard = both(F, there, below(F, c, all));
      if (!vectors) v[i] = ty_ptx_load(E, F->v->operands, i ? mad(E, constant(F, i), cs, at) : at);
      E->guard = 0;
      v[i] = ty_ptx_tf32(E, v[i]);
    }
    ty_ptx_put_four(E, C_F32, own, to + l * pitch, v);
  }
}

/* --- a step of 32 keys */

static void scores(Flash *F) {
  Ptx *E = &F->E;
  for (int n = 0; n < TILES; n++) {
    for (int c = 0; c < SUMS; c++) ty_ptx(E, "mov.b32 $, 0", F->score[n][c]);
    for (int k = 0; k < F->nk; k++) {
      const i64 at = 8 * n * F->kpitch + 32 * k;
      multiply(F, F->score[n], F->q[k], shared(F, F->keys, at), shared(F, F->keys, at + 16));
    }
    for (int c = 0; c < SUMS && !scales_queries(F); c++)
      ty_ptx(E, "mul.rn.f32 $, $, $", F->score[n][c], F->score[n][c], F->scale);
  }
}

/* -inf for keys that a query does not see; whole: all queries of the block see all keys before it. */
static void hide(Flash *F, Reg key, Reg whole) {
  Ptx *E = &F->E;
  const int skip = ty_ptx_label(E);
  const Reg none = number(F, -__builtin_inff()), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.le.s64 $, $, $", p, add(F, key, KEYS), whole);
  ty_ptx(E, "@$ bra @", p, skip);
  const Reg own = op(E, "add", key, times(F, F->lane_t, 2));
  for (int n = 0; n < TILES; n++)
    for (int c = 0; c < SUMS; c++)
      ty_ptx(E, "selp.b32 $, $, $, $", F->score[n][c], F->score[n][c], none,
             below(F, add(F, own, 8 * n + c % 2), F->end[c / 2]));
  ty_ptx_here(E, skip);
}

/* What four lanes have of a row, by `how`. */
static Reg of_row(Flash *F, const char *how, Reg v) {
  for (int by = 1; by <= 2; by++) {
    const Reg y = real(F), other = ty_ptx_shuffle(&F->E, "bfly", C_F32, v,
                                                  ty_ptx_const(&F->E, C_I32, (u64)by), 32);
    ty_ptx(&F->E, "~.f32 $, $, $", how, y, v, other);
    v = y;
  }
  return v;
}

/* What scores count from: the maximum, or 0 where there is none. */
static Reg origin(Flash *F, int h) {
  const Reg p = ty_ptx_reg(&F->E, REG_PRED), y = real(F);
  ty_ptx(&F->E, "setp.eq.f32 $, $, $", p, F->most[h], number(F, -__builtin_inff()));
  ty_ptx(&F->E, "selp.b32 $, $, $, $", y, number(F, 0), F->most[h], p);
  return y;
}

/* Scores become weights. */
static void soften(Flash *F) {
  Ptx *E = &F->E;
  for (int h = 0; h < 2; h++) {
    Reg most = F->most[h];
    for (int n = 0; n < TILES; n++)
      for (int c = 2 * h; c < 2 * h + 2; c++) {
        const Reg y = real(F);
        ty_ptx(E, "max.f32 $, $, $", y, most, F->score[n][c]);
        most = y;
      }
    const Reg before = real(F), by = real(F);
    set(F, before, F->most[h]);
    set(F, F->most[h], of_row(F, "max", most));
    ty_ptx(E, "mul.rn.f32 $, $, $", by, origin(F, h), number(F, -LOG2E));
    set(F, F->shrink[h], power(F, before, by));
    ty_ptx(E, "mul.rn.f32 $, $, $", F->total[h], F->total[h], F->shrink[h]);
    for (int n = 0; n < TILES; n++)
      for (int c = 2 * h; c < 2 * h + 2; c++) {
        const Reg p = power(F, F->score[n][c], by);
        ty_ptx(E, "add.rn.f32 $, $, $", F->total[h], F->total[h], p);
        set(F, F->score[n][c], ty_ptx_tf32(E, p));
      }
  }
}

static void weigh(Flash *F) {
  Ptx *E = &F->E;
  for (int i = 0; i < F->nv; i++)
    for (int c = 0; c < SUMS; c++)
      ty_ptx(E, "mul.rn.f32 $, $, $", F->sum[i][c], F->sum[i][c], F->shrink[c / 2]);
  for (int n = 0; n < TILES; n++) {
    const Reg *s = F->score[n], a[] = {s[0], s[2], s[1], s[3]};
    for (int i = 0; i < F->nv; i++) {
      const i64 at = 8 * n * F->vpitch + 32 * i;
      multiply(F, F->sum[i], a, shared(F, F->values, at), shared(F, F->values, at + F->vpitch));
    }
  }
}

/* --- results */

static void store(Flash *F) {
  Ptx *E = &F->E;
  const Reg n = param(E, ATTEND_N), width = param(E, ATTEND_VALUES), zero = number(F, 0),
            first = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.eq.s64 $, $, 0", first, F->lane_t);
  for (int h = 0; h < 2; h++) {
    const Reg total = of_row(F, "add.rn", F->total[h]), inverse = real(F),
              none = ty_ptx_reg(E, REG_PRED), there = below(F, F->row[h], n),
              y = ty_ptx_attend_place(E, F->index, param(E, ATTEND_Y), n, width, F->row[h], 4),
              line = times(F, mad(E, F->index, n, F->row[h]), 4);
    ty_ptx(E, "rcp.rn.f32 $, $", inverse, total);
    ty_ptx(E, "setp.eq.f32 $, $, $", none, total, zero);
    ty_ptx(E, "selp.b32 $, $, $, $", inverse, zero, inverse, none);
    for (int i = 0; i < F->nv; i++)
      for (int c = 0; c < 2; c++) {
        const Reg column = add(F, times(F, F->lane_t, 2), 8 * i + c), v = real(F);
        ty_ptx(E, "mul.rn.f32 $, $, $", v, F->sum[i][2 * h + c], inverse);
        E->guard = both(F, there, below(F, column, width));
        ty_ptx_store(E, T_F32, mad(E, column, constant(F, 4), y), v);
      }
    E->guard = both(F, there, first);
    ty_ptx_store(E, T_F32, op(E, "add", param(E, ATTEND_MAX), line), origin(F, h));
    ty_ptx_store(E, T_F32, op(E, "add", param(E, ATTEND_SUM), line), total);
    E->guard = 0;
  }
}

/* --- the kernel */

static void block_begin(Flash *F) {
  Ptx *E = &F->E;
  const i64 of_values = KEYS * F->kpitch;
  Reg lane;
  E->shared = (i32)(of_values + KEYS * F->vpitch);
  F->thread = special_of(&F->E, "tid.x");
  lane = ty_ptx_cut(E, F->thread, 32, &F->warp);
  F->lane_t = ty_ptx_cut(E, lane, 4, &F->lane_g);
  ty_ptx(E, "mov.u64 $, tile", F->memory = ty_ptx_reg(E, REG_64));
  F->keys =
      op(E, "add", F->memory, op(E, "add", times(F, F->lane_g, F->kpitch), times(F, F->lane_t, 4)));
  F->values = op(E, "add", add(F, F->memory, of_values),
                 op(E, "add", times(F, F->lane_t, 2 * F->vpitch), times(F, F->lane_g, 4)));
  F->scale = ty_ptx_param(E, REG_32, ATTEND_SCALE);
  for (int i = 0; i < F->nv; i++)
    for (int c = 0; c < SUMS; c++) F->sum[i][c] = real(F);
  for (int n = 0; n < TILES; n++)
    for (int c = 0; c < SUMS; c++) F->score[n][c] = real(F);
  for (int h = 0; h < 2; h++) F->most[h] = real(F), F->total[h] = real(F), F->shrink[h] = real(F);
}

/* The keys that the block's last query sees end there; up to *whole all its queries see them. */
static Reg seen(Flash *F, Reg block, Reg *whole) {
  Ptx *E = &F->E;
  const Reg n = param(E, ATTEND_N), m = param(E, ATTEND_M), first = times(F, block, ATTEND_SIDE),
            ahead = op(E, "sub", m, n);
  *whole = m;
  if (!F->v->causal) return m;
  *whole = op(E, "min", m, add(F, op(E, "add", first, ahead), 1));
  const Reg last = op(E, "min", add(F, first, ATTEND_SIDE), n);
  return op(E, "min", m, op(E, "add", last, ahead));
}

static void queries(Flash *F, Reg block) {
  Ptx *E = &F->E;
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  const Reg key = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  Reg whole;
  begin_queries(F, block);
  const Reg end = seen(F, block, &whole);
  ty_ptx(E, "mov.b64 $, 0", key);
  ty_ptx_here(E, next);
  ty_ptx(E, "setp.ge.s64 $, $, $", p, key, end);
  ty_ptx(E, "@$ bra @", p, out);
  ty_ptx(E, "bar.sync 0");
  bring(F, AT_K, F->v->vectors[0], F->nk, ATTEND_FEATURES, F->kpitch, 0, key);
  bring(F, AT_V, F->v->vectors[1], F->nv, ATTEND_VALUES, F->vpitch, KEYS * F->kpitch, key);
  ty_ptx(E, "bar.sync 0");
  scores(F);
  hide(F, key, whole);
  soften(F);
  weigh(F);
  ty_ptx(E, "add.s64 $, $, #", key, key, (i64)KEYS);
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
  store(F);
}

Text ty_ptx_flash(const AttendVariant *v) {
  Flash *F = ty_mem_zalloc(sizeof *F);
  if (!F) return (Text){.failed = true};
  Ptx *E = &F->E;
  const int end = ty_ptx_begin(E), next = ty_ptx_label(E);
  const Reg unit = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  E->target = 80;
  F->v = v, F->nk = v->features / 8, F->nv = v->values / 8;
  F->kpitch = (v->features + PAD) * 4, F->vpitch = (v->values + PAD) * 4;
  block_begin(F);
  const Reg count = param(E, ATTEND_COUNT), blocks = param(E, ATTEND_BLOCKS),
            step = special_of(&F->E, "nctaid.x");
  ty_ptx(E, "mov.b64 $, $", unit, special_of(&F->E, "ctaid.x"));
  ty_ptx_here(E, next);
  ty_ptx(E, "setp.ge.s64 $, $, $", p, unit, count);
  ty_ptx(E, "@$ bra @", p, end);
  F->index = op(E, "div", unit, blocks);
  ty_ptx_attend_head(E, v->nlead, F->index, F->x);
  queries(F, op(E, "sub", unit, op(E, "mul.lo", F->index, blocks)));
  ty_ptx(E, "add.s64 $, $, $", unit, unit, step);
  ty_ptx(E, "bra @", next);
  const Text t = ty_ptx_end(E, end, ATTEND_LEAD + v->nlead * ATTEND_LEAD_EACH, FLASH_THREADS);
  ty_mem_free(F);
  return t;
}
