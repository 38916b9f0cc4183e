/*
** ptx_sort.c -- sorts and searches as PTX.
** In:  dtypes.  Out: modules. Fails when out of memory alone. Results are those of the CPU's routines (sort.c): one total order by
** keys, which are unsigned; equal elements stay in the order in which they came.
*/
#include "device/cuda/ptx_sort.h"
#include "device/cuda/ptx_each.h"

enum { WARPS = RADIX_THREADS / 32, OF_WARP = RADIX_TILE / WARPS, ROUNDS = OF_WARP / 32 };

static bool is_wide(int dtype) { return ty_dtypes[dtype].bytes == 8; }
static const char *order(bool wide) { return wide ? "u64" : "u32"; }
static const char *bits_of(bool wide) { return wide ? "b64" : "b32"; }
static Reg key_reg(Ptx *E, bool wide) { return ty_ptx_reg(E, wide ? REG_64 : REG_32); }
static Reg constant(Ptx *E, bool wide, u64 v) { return ty_ptx_const(E, wide ? C_I64 : C_I32, v); }

/* --- keys */

/* Bits of a float, in u: negatives turned over, positives above them; -0 is +0, NaNs are above the rest. */
static Reg float_key(Ptx *E, int dtype, Reg u) {
  static const u64 infinity[T_COUNT] = {
      [T_F16] = 0x7c00, [T_BF16] = 0x7f80, [T_F32] = 0x7f800000, [T_F64] = 0x7ffull << 52};
  const bool wide = is_wide(dtype);
  const int width = 8 * ty_dtypes[dtype].bytes;
  const char *bits = bits_of(wide), *type = wide ? "u64" : "u32";
  const u64 all = ~0ull >> (64 - width), top = 1ull << (width - 1);
  const Reg sign = constant(E, wide, top), most = constant(E, wide, all),
            zero = constant(E, wide, 0), magnitude = key_reg(E, wide), up = key_reg(E, wide),
            flipped = key_reg(E, wide), y = key_reg(E, wide), minus = ty_ptx_reg(E, REG_PRED),
            p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "and.~ $, $, ^", bits, magnitude, u, all >> 1);
  ty_ptx(E, "setp.gt.~ $, $, $", type, minus, u, constant(E, wide, all >> 1));
  ty_ptx(E, "selp.~ $, $, $, $", bits, up, most, sign, minus);
  ty_ptx(E, "xor.~ $, $, $", bits, flipped, u, up);
  ty_ptx(E, "setp.eq.~ $, $, $", type, p, magnitude, zero);
  ty_ptx(E, "selp.~ $, $, $, $", bits, y, sign, flipped, p);
  ty_ptx(E, "setp.gt.~ $, $, $", type, p, magnitude, constant(E, wide, infinity[dtype]));
  ty_ptx(E, "selp.~ $, $, $, $", bits, y, most, y, p);
  return y;
}

/* The key of the element at an address. */
static Reg key(Ptx *E, int dtype, Reg address) {
  static const char *const as[] = {[1] = "u8", [2] = "u16", [4] = "b32", [8] = "b64"};
  const bool wide = is_wide(dtype);
  const int bytes = ty_dtypes[dtype].bytes;
  const Reg u = key_reg(E, wide);
  ty_ptx(E, "ld.global.~ $, [$]", as[bytes], u, address);
  if (ty_is_float(dtype)) return float_key(E, dtype, u);
  if (ty_dtypes[dtype].kind != 'i') return u;
  const Reg y = key_reg(E, wide);
  ty_ptx(E, "xor.~ $, $, ^", bits_of(wide), y, u, 1ull << (8 * bytes - 1));
  return y;
}

/* --- short rows */

Text ty_ptx_sort(int dtype, bool descending) {
  Each e;
  Ptx *E = &e.E;
  const int bytes = ty_dtypes[dtype].bytes;
  const char *type = order(is_wide(dtype));
  each_begin(&e, SORT_COUNT, SORT_THREADS, false);
  const Reg n = param(E, SORT_N), inner = param(E, SORT_INNER), keep = param(E, SORT_KEEP),
            zero = number_of(E, 0);
  const Reg q = op(E, "div", e.number, inner),
            column = op(E, "sub", e.number, op(E, "mul.lo", q, inner)), outer = op(E, "div", q, n),
            own = op(E, "sub", q, op(E, "mul.lo", outer, n)), size = number_of(E, bytes),
            by = op(E, "mul.lo", inner, size),
            first = mad(E, op(E, "mul.lo", outer, n), inner, column);
  const Reg row = copy_of(E, at_element(E, param(E, SORT_X), first, bytes)),
            mine = key(E, dtype, mad(E, own, by, row)), j = copy_of(E, zero),
            rank = copy_of(E, zero);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E), skip = ty_ptx_label(E);
  ty_ptx_here(E, again);
  branch(E, "ge", j, n, done);
  const Reg other = key(E, dtype, row), before = ty_ptx_reg(E, REG_PRED),
            same = ty_ptx_reg(E, REG_PRED), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.~ $, $, $", descending ? "gt" : "lt", type, before, other, mine);
  ty_ptx(E, "setp.eq.~ $, $, $", type, same, other, mine);
  ty_ptx(E, "setp.lt.s64 $, $, $", p, j, own);
  ty_ptx(E, "and.pred $, $, $", p, p, same);
  ty_ptx(E, "or.pred $, $, $", p, p, before);
  ty_ptx(E, "@$ add.s64 $, $, 1", p, rank, rank);
  ty_ptx(E, "add.s64 $, $, $", row, row, by);
  ty_ptx(E, "add.s64 $, $, 1", j, j);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
  branch(E, "ge", rank, keep, skip);
  const Reg to = mad(E, op(E, "add", op(E, "mul.lo", outer, keep), rank), inner, column);
  ty_ptx_store(E, T_I64, at_element(E, param(E, SORT_Y), to, 8), own);
  ty_ptx_here(E, skip);
  return each_end(&e, SORT_BYTES);
}

/* --- long rows */

/* Elements lie as [outer][n][inner], rows are [outer][inner]: position `own` of row `row`, from the number of an element; n of
** a row. */
static void split_rows(Ptx *E, Reg number, Reg n, Reg *row, Reg *own) {
  const Reg inner = param(E, RADIX_INNER), q = op(E, "div", number, inner),
            column = op(E, "sub", number, op(E, "mul.lo", q, inner)), outer = op(E, "div", q, n);
  *own = op(E, "sub", q, op(E, "mul.lo", outer, n));
  *row = mad(E, outer, inner, column);
}

static Text keys_of(int dtype, bool descending) {
  Each e;
  Ptx *E = &e.E;
  const bool wide = is_wide(dtype);
  const int bytes = ty_dtypes[dtype].bytes;
  each_begin(&e, RADIX_COUNT, SORT_THREADS, false);
  const Reg n = param(E, RADIX_N);
  Reg row, own, k = key(E, dtype, at_element(E, param(E, RADIX_X), e.number, bytes));
  split_rows(E, e.number, n, &row, &own);
  if (descending) ty_ptx(E, "xor.~ $, $, ^", bits_of(wide), k, k, ~0ull >> (64 - 8 * bytes));
  const Reg to = mad(E, row, n, own), place = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "cvt.u32.u64 $, $", place, own);
  ty_ptx(E, "st.global.~ [$], $", bits_of(wide),
         at_element(E, param(E, RADIX_KEY), to, wide ? 8 : 4), k);
  ty_ptx(E, "st.global.b32 [$], $", at_element(E, param(E, RADIX_PLACE), to, 4), place);
  return each_end(&e, RADIX_BYTES);
}

static Text out_of(void) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, RADIX_COUNT, SORT_THREADS, false);
  Reg row, own;
  split_rows(E, e.number, param(E, RADIX_KEEP), &row, &own);
  const Reg from = mad(E, row, param(E, RADIX_N), own), place = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "ld.global.u32 $, [$]", place, at_element(E, param(E, RADIX_PLACE), from, 4));
  ty_ptx_store(E, T_I64, at_element(E, param(E, RADIX_Y), e.number, 8), place);
  return each_end(&e, RADIX_BYTES);
}

/* A block's tile of a row. */
typedef struct Tile {
  Reg row, tile, thread; /* thread: of the block */
  Reg base, n;           /* the row's first element among all; elements of a row */
  Reg shared, shift;
} Tile;

static Tile tile_of(Each *e) {
  Ptx *E = &e->E;
  Tile t;
  const Reg tiles = param(E, RADIX_TILES);
  t.n = param(E, RADIX_N);
  t.row = op(E, "div", e->number, tiles);
  t.tile = op(E, "sub", e->number, op(E, "mul.lo", t.row, tiles));
  t.base = op(E, "mul.lo", t.row, t.n);
  t.thread = special_of(E, "tid.x");
  t.shared = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u64 $, tile", t.shared);
  t.shift = ty_ptx_param(E, REG_32, RADIX_SHIFT);
  return t;
}

/* The table's number for a value, in the thread's register, and the tile. */
static Reg in_table(Ptx *E, const Tile *t) {
  const Reg values = number_of(E, RADIX_VALUES),
            line = op(E, "add", op(E, "mul.lo", t->row, values), t->thread);
  return at_element(E, param(E, RADIX_TABLE), mad(E, line, param(E, RADIX_TILES), t->tile), 4);
}

/* Whether element i of the row is there, and its byte of the round; where it is not, one more than any. */
static Reg byte_of(Ptx *E, const Tile *t, bool wide, Reg i, Reg there, Reg *whole) {
  const Reg k = key_reg(E, wide), shifted = key_reg(E, wide), y = ty_ptx_reg(E, REG_32);
  Reg low = shifted;
  ty_ptx(E, "setp.lt.s64 $, $, $", there, i, t->n);
  ty_ptx(E, "mov.~ $, 0", bits_of(wide), k);
  ty_ptx(E, "@$ ld.global.~ $, [$]", there, bits_of(wide), k,
         at_element(E, param(E, RADIX_KEY), op(E, "add", t->base, i), wide ? 8 : 4));
  ty_ptx(E, "shr.~ $, $, $", order(wide), shifted, k, t->shift);
  if (wide) ty_ptx(E, "cvt.u32.u64 $, $", low = ty_ptx_reg(E, REG_32), shifted);
  ty_ptx(E, "and.b32 $, $, #", y, low, (i64)RADIX_VALUES - 1);
  ty_ptx(E, "selp.b32 $, $, #, $", y, y, (i64)RADIX_VALUES, there);
  if (whole) *whole = k;
  return y;
}

static Reg in_shared(Ptx *E, Reg base, Reg value) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mad.wide.u32 $, $, 4, $", y, value, base);
  return y;
}

static Text count_of(bool wide) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, RADIX_COUNT, RADIX_THREADS, true);
  E->shared = RADIX_VALUES * 4;
  const Tile t = tile_of(&e);
  const Reg own = at_element(E, t.shared, t.thread, 4), zero = ty_ptx_const(E, C_I32, 0),
            one = ty_ptx_const(E, C_I32, 1),
            first = mad(E, t.tile, number_of(E, RADIX_TILE), t.thread), sum = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "st.shared.b32 [$], $", own, zero);
  ty_ptx(E, "bar.sync 0");
  Reg there[RADIX_TILE / RADIX_THREADS], byte[RADIX_TILE / RADIX_THREADS];
  for (int r = 0; r < RADIX_TILE / RADIX_THREADS; r++)
    byte[r] = byte_of(E, &t, wide, op(E, "add", first, number_of(E, r * RADIX_THREADS)),
                      there[r] = ty_ptx_reg(E, REG_PRED), NULL);
  for (int r = 0; r < RADIX_TILE / RADIX_THREADS; r++)
    ty_ptx(E, "@$ red.shared.add.u32 [$], $", there[r], in_shared(E, t.shared, byte[r]), one);
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "ld.shared.b32 $, [$]", sum, own);
  ty_ptx(E, "st.global.b32 [$], $", in_table(E, &t), sum);
  return each_end(&e, RADIX_BYTES);
}

/* A row's table, added up: each number becomes the sum of those before it. Four numbers a thread, by warps, by the block. */
static Text add_up(void) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, RADIX_COUNT, RADIX_THREADS, true);
  E->shared = WARPS * 4;
  const Reg thread = special_of(E, "tid.x"),
            all = op(E, "mul.lo", param(E, RADIX_TILES), number_of(E, RADIX_VALUES)),
            start = at_element(E, param(E, RADIX_TABLE), op(E, "mul.lo", e.number, all), 4),
            i = ty_ptx_reg(E, REG_64), carry = ty_ptx_reg(E, REG_32), lane = ty_ptx_reg(E, REG_32),
            warp = ty_ptx_reg(E, REG_32), t32 = ty_ptx_reg(E, REG_32), p = ty_ptx_reg(E, REG_PRED),
            last = ty_ptx_reg(E, REG_PRED), there = ty_ptx_reg(E, REG_PRED),
            shared = ty_ptx_reg(E, REG_64), base = ty_ptx_reg(E, REG_64);
  const int next = ty_ptx_label(E), out = ty_ptx_label(E);
  ty_ptx(E, "mov.u64 $, tile", shared);
  ty_ptx(E, "cvt.u32.u64 $, $", t32, thread);
  ty_ptx(E, "and.b32 $, $, 31", lane, t32);
  ty_ptx(E, "shr.u32 $, $, 5", warp, t32);
  ty_ptx(E, "setp.eq.u32 $, $, 31", last, lane);
  ty_ptx(E, "mov.b32 $, 0", carry);
  ty_ptx(E, "mov.b64 $, 0", base);
  ty_ptx_here(E, next);
  branch(E, "ge", base, all, out);
  Reg v[4], sum = ty_ptx_reg(E, REG_32);
  for (int k = 0; k < 4; k++) ty_ptx(E, "mov.b32 $, 0", v[k] = ty_ptx_reg(E, REG_32));
  ty_ptx(E, "shl.b64 $, $, 2", i, thread);
  ty_ptx(E, "add.s64 $, $, $", i, i, base);
  ty_ptx(E, "setp.lt.s64 $, $, $", there, i, all);
  const Reg at = at_element(E, start, i, 4);
  ty_ptx(E, "@$ ld.global.v4.b32 {$, $, $, $}, [$]", there, v[0], v[1], v[2], v[3], at);
  ty_ptx(E, "add.u32 $, $, $", sum, v[0], v[1]);
  ty_ptx(E, "add.u32 $, $, $", sum, sum, v[2]);
  ty_ptx(E, "add.u32 $, $, $", sum, sum, v[3]);
  Reg inclusive = sum;
  for (u64 by = 1; by < 32; by *= 2) {
    const Reg step = ty_ptx_const(E, C_I32, by),
              up = ty_ptx_shuffle(E, "up", C_I32, inclusive, step, 32), y = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "setp.ge.u32 $, $, $", p, lane, step);
    ty_ptx(E, "selp.b32 $, $, 0, $", y, up, p);
    ty_ptx(E, "add.u32 $, $, $", y, y, inclusive);
    inclusive = y;
  }
  ty_ptx(E, "@$ st.shared.b32 [$], $", last, in_shared(E, shared, warp), inclusive);
  ty_ptx(E, "bar.sync 0");
  const Reg before = ty_ptx_reg(E, REG_32), total = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "sub.u32 $, $, $", before, inclusive, sum);
  ty_ptx(E, "add.u32 $, $, $", before, before, carry);
  ty_ptx(E, "mov.b32 $, 0", total);
  for (int w = 0; w < WARPS; w++) {
    const Reg x = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "ld.shared.b32 $, [$+#]", x, shared, (i64)4 * w);
    ty_ptx(E, "add.u32 $, $, $", total, total, x);
    ty_ptx(E, "setp.gt.u32 $, $, #", p, warp, (i64)w);
    ty_ptx(E, "@$ add.u32 $, $, $", p, before, before, x);
  }
  for (int k = 0; k < 4; k++) {
    const Reg own = v[k], sums = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "mov.b32 $, $", sums, before);
    ty_ptx(E, "add.u32 $, $, $", before, before, own);
    v[k] = sums;
  }
  ty_ptx(E, "@$ st.global.v4.b32 [$], {$, $, $, $}", there, at, v[0], v[1], v[2], v[3]);
  ty_ptx(E, "add.u32 $, $, $", carry, carry, total);
  ty_ptx(E, "add.s64 $, $, #", base, base, (i64)4 * RADIX_THREADS);
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "bra @", next);
  ty_ptx_here(E, out);
  return each_end(&e, RADIX_BYTES);
}

/* The first place of each value for each warp of the block, from the counts of the warps before. */
static void first_places(Ptx *E, const Tile *t) {
  const Reg own = at_element(E, t->shared, t->thread, 4), place = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "ld.global.b32 $, [$]", place, in_table(E, t));
  for (int w = 0; w < WARPS; w++) {
    const Reg n = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "ld.shared.b32 $, [$+#]", n, own, (i64)w * RADIX_VALUES * 4);
    ty_ptx(E, "st.shared.b32 [$+#], $", own, (i64)w * RADIX_VALUES * 4, place);
    ty_ptx(E, "add.u32 $, $, $", place, place, n);
  }
}

/* Among lanes with the same byte the lowest takes places for all; each has its own by how many are below it. */
static Reg place_among(Ptx *E, Reg byte, Reg there, Reg counts) {
  const Reg mask = ty_ptx_reg(E, REG_32), below = ty_ptx_reg(E, REG_32), lt = ty_ptx_reg(E, REG_32),
            rank = ty_ptx_reg(E, REG_32), n = ty_ptx_reg(E, REG_32), lowest = ty_ptx_reg(E, REG_32),
            first = ty_ptx_reg(E, REG_PRED), y = ty_ptx_reg(E, REG_32),
            leader = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "match.any.sync.b32 $, $, 0xffffffff", mask, byte);
  ty_ptx(E, "mov.u32 $, %lanemask_lt", lt);
  ty_ptx(E, "and.b32 $, $, $", below, mask, lt);
  ty_ptx(E, "popc.b32 $, $", rank, below);
  ty_ptx(E, "popc.b32 $, $", n, mask);
  ty_ptx(E, "setp.eq.u32 $, $, 0", first, rank);
  ty_ptx(E, "and.pred $, $, $", first, first, there);
  ty_ptx(E, "brev.b32 $, $", lowest, mask);
  ty_ptx(E, "clz.b32 $, $", leader, lowest);
  ty_ptx(E, "mov.b32 $, 0", y);
  ty_ptx(E, "@$ atom.shared.add.u32 $, [$], $", first, y, in_shared(E, counts, byte), n);
  const Reg base = ty_ptx_shuffle(E, "idx", C_I32, y, leader, 32), place = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "add.u32 $, $, $", place, base, rank);
  return place;
}

static Text move_of(bool wide) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, RADIX_COUNT, RADIX_THREADS, true);
  E->shared = WARPS * RADIX_VALUES * 4;
  const Tile t = tile_of(&e);
  const Reg zero = ty_ptx_const(E, C_I32, 0), one = ty_ptx_const(E, C_I32, 1),
            own = at_element(E, t.shared, t.thread, 4), warp = ty_ptx_reg(E, REG_64),
            lane = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "shr.u64 $, $, 5", warp, t.thread);
  ty_ptx(E, "and.b64 $, $, 31", lane, t.thread);
  const Reg counts = mad(E, warp, number_of(E, RADIX_VALUES * 4), t.shared),
            first = op(E, "add", mad(E, t.tile, number_of(E, RADIX_TILE), lane),
                       op(E, "mul.lo", warp, number_of(E, OF_WARP)));
  for (int w = 0; w < WARPS; w++)
    ty_ptx(E, "st.shared.b32 [$+#], $", own, (i64)w * RADIX_VALUES * 4, zero);
  ty_ptx(E, "bar.sync 0");
  Reg there[ROUNDS], byte[ROUNDS], whole[ROUNDS], place[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    const Reg i = op(E, "add", first, number_of(E, r * 32));
    byte[r] = byte_of(E, &t, wide, i, there[r] = ty_ptx_reg(E, REG_PRED), &whole[r]);
    ty_ptx(E, "mov.b32 $, 0", place[r] = ty_ptx_reg(E, REG_32));
    ty_ptx(E, "@$ ld.global.b32 $, [$]", there[r], place[r],
           at_element(E, param(E, RADIX_PLACE), op(E, "add", t.base, i), 4));
  }
  for (int r = 0; r < ROUNDS; r++)
    ty_ptx(E, "@$ red.shared.add.u32 [$], $", there[r], in_shared(E, counts, byte[r]), one);
  ty_ptx(E, "bar.sync 0");
  first_places(E, &t);
  ty_ptx(E, "bar.sync 0");
  for (int r = 0; r < ROUNDS; r++) {
    const Reg at = place_among(E, byte[r], there[r], counts), wider = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "cvt.u64.u32 $, $", wider, at);
    const Reg to = op(E, "add", t.base, wider);
    ty_ptx(E, "@$ st.global.~ [$], $", there[r], bits_of(wide),
           at_element(E, param(E, RADIX_TO_KEY), to, wide ? 8 : 4), whole[r]);
    ty_ptx(E, "@$ st.global.b32 [$], $", there[r], at_element(E, param(E, RADIX_TO_PLACE), to, 4),
           place[r]);
  }
  ty_ptx(E, "bar.sync 0");
  return each_end(&e, RADIX_BYTES);
}

Text ty_ptx_radix(RadixStep step, int dtype, bool descending, bool wide) {
  switch (step) {
  case RADIX_KEYS_OF: return keys_of(dtype, descending);
  case RADIX_COUNT_OF: return count_of(wide);
  case RADIX_ADD: return add_up();
  case RADIX_MOVE: return move_of(wide);
  default: return out_of();
  }
}

/* --- searches */

/* They look where the CPU's do: rows that are not quite sorted, as running sums that were rounded, give its positions. */
Text ty_ptx_search(int dtype, bool right) {
  Each e;
  Ptx *E = &e.E;
  const int bytes = ty_dtypes[dtype].bytes;
  each_begin(&e, SEARCH_COUNT, SORT_THREADS, false);
  const Reg n = copy_of(E, param(E, SEARCH_N)), row = op(E, "div", e.number, param(E, SEARCH_M)),
            first = at_element(E, param(E, SEARCH_SORTED), op(E, "mul.lo", row, n), bytes),
            mine = key(E, dtype, at_element(E, param(E, SEARCH_V), e.number, bytes)),
            zero = number_of(E, 0), low = copy_of(E, zero), one = number_of(E, 1);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E);
  ty_ptx_here(E, again);
  branch(E, "le", n, zero, done);
  const Reg half = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "shr.s64 $, $, 1", half, op(E, "add", n, one));
  const Reg next = op(E, "add", low, half),
            k = key(E, dtype, at_element(E, first, op(E, "sub", next, one), bytes));
  ty_ptx(E, "setp.~.~ $, $, $", right ? "le" : "lt", order(is_wide(dtype)), p, k, mine);
  ty_ptx(E, "selp.b64 $, $, $, $", low, next, low, p);
  ty_ptx(E, "sub.s64 $, $, $", n, n, half);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
  ty_ptx_store(E, T_I64, at_element(E, param(E, SEARCH_Y), e.number, 8), low);
  return each_end(&e, SEARCH_BYTES);
}
