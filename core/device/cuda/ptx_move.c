/*
** ptx_move.c -- scatters, checks of positions, sorts, searches as PTX.
** In:  dtypes.  Out: modules. Fails when out of memory alone. Results are those of the CPU's routines (routines.c, sort.c).
*/
#include "device/cuda/ptx_address.h"
#include "device/cuda/ptx_move.h"

/* A kernel whose threads share out numbers below the parameter at `count`. */
typedef struct Each {
  Ptx E;
  int end, next;
  Reg number, step;
} Each;

static Reg at_element(Ptx *E, Reg base, Reg number, int bytes) {
  const Reg size = ty_ptx_const(E, C_I64, (u64)bytes);
  return mad(E, number, size, base);
}
static Reg copy(Ptx *E, Reg from) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.b64 $, $", y, from);
  return y;
}
static void branch(Ptx *E, const char *how, Reg a, Reg b, int label) {
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.s64 $, $, $", how, p, a, b);
  ty_ptx(E, "@$ bra @", p, label);
}

static void each_begin(Each *e, i32 count) {
  memset(e, 0, sizeof *e);
  e->end = ty_ptx_begin(&e->E);
  e->next = ty_ptx_label(&e->E);
  e->number = ty_ptx_reg(&e->E, REG_64), e->step = ty_ptx_reg(&e->E, REG_64);
  const Reg n = param(&e->E, count);
  ty_ptx_number(&e->E, MOVE_THREADS, e->number, e->step);
  ty_ptx_here(&e->E, e->next);
  branch(&e->E, "ge", e->number, n, e->end);
}

static Text each_end(Each *e, i32 bytes) {
  ty_ptx(&e->E, "add.s64 $, $, $", e->number, e->number, e->step);
  ty_ptx(&e->E, "bra @", e->next);
  return ty_ptx_end(&e->E, e->end, bytes, MOVE_THREADS);
}

Text ty_ptx_scatter(int dtype, bool add, int dims) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, SCATTER_COUNT);
  Reg y = param(E, SCATTER_Y), src = param(E, SCATTER_SRC), index = param(E, SCATTER_INDEX),
      rest = e.number;
  for (int d = dims - 1; d >= 0; d--) {
    const i32 at = SCATTER_DIMS + 32 * d;
    const Reg n = param(E, at), q = op(E, "div", rest, n),
              c = op(E, "sub", rest, op(E, "mul.lo", q, n));
    y = mad(E, c, param(E, at + 8), y);
    src = mad(E, c, param(E, at + 16), src);
    index = mad(E, c, param(E, at + 24), index);
    rest = q;
  }
  const Reg from = copy(E, src), position = copy(E, index), j = ty_ptx_reg(E, REG_64),
            n = param(E, SCATTER_N);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E);
  ty_ptx(E, "mov.b64 $, 0", j);
  ty_ptx_here(E, again);
  branch(E, "ge", j, n, done);
  const Reg place = ty_ptx_load(E, T_I64, position),
            to = mad(E, place, param(E, SCATTER_Y_STEP), y);
  Reg v = ty_ptx_load(E, dtype, from);
  if (add) {
    const Reg was = ty_ptx_load(E, dtype, to);
    v = ty_ptx_binary(E, dtype == T_BOOL ? P_OR : P_ADD, ty_dtypes[dtype].ctype, was, v);
    v = ty_ptx_narrow(E, dtype, v);
  }
  ty_ptx_store(E, dtype, to, v);
  ty_ptx(E, "add.s64 $, $, $", from, from, param(E, SCATTER_SRC_STEP));
  ty_ptx(E, "add.s64 $, $, $", position, position, param(E, SCATTER_INDEX_STEP));
  ty_ptx(E, "add.s64 $, $, 1", j, j);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
  return each_end(&e, SCATTER_DIMS + 32 * dims);
}

Text ty_ptx_positions(void) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, POSITIONS_COUNT);
  const Reg v = ty_ptx_load(E, T_I64, at_element(E, param(E, POSITIONS_INDEX), e.number, 8)),
            size = param(E, POSITIONS_SIZE), from_end = op(E, "add", v, size),
            from_start = op(E, "sub", v, param(E, POSITIONS_BASE)), p = ty_ptx_reg(E, REG_PRED),
            y = ty_ptx_reg(E, REG_64);
  const int good = ty_ptx_label(E);
  ty_ptx(E, "setp.lt.s64 $, $, 0", p, v);
  ty_ptx(E, "selp.b64 $, $, $, $", y, from_end, from_start, p);
  ty_ptx(E, "setp.lt.u64 $, $, $", p, y, size); /* one below 0 is large */
  ty_ptx(E, "@$ bra @", p, good);
  const Reg most = ty_ptx_const(E, C_I64, FIRST_MOST), first = op(E, "sub", most, e.number),
            was = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "atom.global.max.u64 $, [$+24], $", was, param(E, POSITIONS_WORD), first);
  ty_ptx(E, "mov.b64 $, 0", y);
  ty_ptx_here(E, good);
  ty_ptx_store(E, T_I64, at_element(E, param(E, POSITIONS_Y), e.number, 8), y);
  return each_end(&e, POSITIONS_BYTES);
}

Text ty_ptx_positions_end(void) {
  Ptx E = {0};
  const int end = ty_ptx_begin(&E);
  const Reg word = param(&E, POSITIONS_WORD), first = ty_ptx_reg(&E, REG_64),
            p = ty_ptx_reg(&E, REG_PRED), t = ty_ptx_reg(&E, REG_32);
  ty_ptx(&E, "mov.u32 $, %tid.x", t);
  ty_ptx(&E, "setp.ne.u32 $, $, 0", p, t);
  ty_ptx(&E, "@$ bra @", p, end);
  ty_ptx(&E, "ld.global.b64 $, [$+24]", first, word);
  ty_ptx(&E, "setp.eq.s64 $, $, 0", p, first);
  ty_ptx(&E, "@$ bra @", p, end);
  const Reg most = ty_ptx_const(&E, C_I64, FIRST_MOST), at = op(&E, "sub", most, first),
            v = ty_ptx_load(&E, T_I64, at_element(&E, param(&E, POSITIONS_INDEX), at, 8)),
            zero = ty_ptx_const(&E, C_I64, 0);
  ty_ptx(&E, "st.global.b64 [$+8], $", word, v);
  ty_ptx(&E, "st.global.b64 [$+16], $", word, at);
  ty_ptx(&E, "st.global.b64 [$+24], $", word, zero);
  ty_ptx(&E, "st.global.b64 [$], $", word, param(&E, POSITIONS_CHECK));
  return ty_ptx_end(&E, end, POSITIONS_BYTES, MOVE_THREADS);
}

/* An integer whose order is that of the values: -0 is +0, NaNs are above the rest. */
static Reg key(Ptx *E, int dtype, Reg v) {
  const int ctype = ty_dtypes[dtype].ctype;
  const bool wide = ty_ptx_wide(ctype);
  if (ctype < C_F32) return v;
  const char *type = wide ? "f64" : "f32", *bits = wide ? "b64" : "b32";
  const Reg sum = ty_ptx_value(E, ctype), sign = ty_ptx_value(E, ctype), y = ty_ptx_value(E, ctype),
            p = ty_ptx_reg(E, REG_PRED),
            most = ty_ptx_const(E, ctype, wide ? INT64_MAX : INT32_MAX);
  ty_ptx(E, "add.rn.~ $, $, $", type, sum, v, ty_ptx_const(E, ctype, 0));
  ty_ptx(E, "shr.~ $, $, #", wide ? "s64" : "s32", sign, sum, (i64)(wide ? 63 : 31));
  ty_ptx(E, "and.~ $, $, $", bits, sign, sign, most);
  ty_ptx(E, "xor.~ $, $, $", bits, y, sum, sign);
  ty_ptx(E, "setp.nan.~ $, $, $", type, p, v, v);
  ty_ptx(E, "selp.~ $, $, $, $", bits, y, most, y, p);
  return y;
}

static const char *order(int dtype) { return ty_ptx_wide(ty_dtypes[dtype].ctype) ? "s64" : "s32"; }

Text ty_ptx_sort(int dtype, bool descending) {
  Each e;
  Ptx *E = &e.E;
  const int bytes = ty_dtypes[dtype].bytes;
  each_begin(&e, SORT_COUNT);
  const Reg n = param(E, SORT_N), inner = param(E, SORT_INNER), keep = param(E, SORT_KEEP),
            zero = ty_ptx_const(E, C_I64, 0);
  const Reg q = op(E, "div", e.number, inner),
            column = op(E, "sub", e.number, op(E, "mul.lo", q, inner)), outer = op(E, "div", q, n),
            own = op(E, "sub", q, op(E, "mul.lo", outer, n)),
            size = ty_ptx_const(E, C_I64, (u64)bytes), by = op(E, "mul.lo", inner, size),
            first = mad(E, op(E, "mul.lo", outer, n), inner, column);
  const Reg row = copy(E, at_element(E, param(E, SORT_X), first, bytes)),
            mine = key(E, dtype, ty_ptx_load(E, dtype, mad(E, own, by, row))), j = copy(E, zero),
            rank = copy(E, zero);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E), skip = ty_ptx_label(E);
  ty_ptx_here(E, again);
  branch(E, "ge", j, n, done);
  const Reg other = key(E, dtype, ty_ptx_load(E, dtype, row)), before = ty_ptx_reg(E, REG_PRED),
            same = ty_ptx_reg(E, REG_PRED), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.~ $, $, $", descending ? "gt" : "lt", order(dtype), before, other, mine);
  ty_ptx(E, "setp.eq.~ $, $, $", order(dtype), same, other, mine);
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

Text ty_ptx_search(int dtype, bool right) {
  Each e;
  Ptx *E = &e.E;
  const int bytes = ty_dtypes[dtype].bytes;
  each_begin(&e, SEARCH_COUNT);
  const Reg n = copy(E, param(E, SEARCH_N)), row = op(E, "div", e.number, param(E, SEARCH_M)),
            first = at_element(E, param(E, SEARCH_SORTED), op(E, "mul.lo", row, n), bytes),
            mine = key(E, dtype,
                       ty_ptx_load(E, dtype, at_element(E, param(E, SEARCH_V), e.number, bytes))),
            zero = ty_ptx_const(E, C_I64, 0), low = copy(E, zero), one = ty_ptx_const(E, C_I64, 1);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E);
  ty_ptx_here(E, again);
  branch(E, "le", n, zero, done);
  const Reg half = ty_ptx_reg(E, REG_64), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "shr.s64 $, $, 1", half, n);
  const Reg middle = op(E, "add", low, half), next = op(E, "add", middle, one),
            left = op(E, "sub", op(E, "sub", n, half), one),
            k = key(E, dtype, ty_ptx_load(E, dtype, at_element(E, first, middle, bytes)));
  ty_ptx(E, "setp.~.~ $, $, $", right ? "le" : "lt", order(dtype), p, k, mine);
  ty_ptx(E, "selp.b64 $, $, $, $", low, next, low, p);
  ty_ptx(E, "selp.b64 $, $, $, $", n, left, half, p);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
  ty_ptx_store(E, T_I64, at_element(E, param(E, SEARCH_Y), e.number, 8), low);
  return each_end(&e, SEARCH_BYTES);
}
