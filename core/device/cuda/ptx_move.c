/*
** ptx_move.c -- scatters, checks of positions and of exchanges as PTX.
** In:  dtypes.  Out: modules. Fails when out of memory alone. Results are those of the CPU's routines (routines.c).
*/
#include "device/cuda/ptx_each.h"
#include "device/cuda/ptx_move.h"

/* Addresses of a place in the other dims, and the number of its line. */
typedef struct Place {
  Reg y, src, index, line;
} Place;

static Place place_of(Ptx *E, Reg number, int dims) {
  Place p = {param(E, SCATTER_Y), param(E, SCATTER_SRC), param(E, SCATTER_INDEX), number_of(E, 0)};
  for (int d = dims - 1; d >= 0; d--) {
    const i32 at = SCATTER_DIMS + SCATTER_DIM * d;
    const Reg n = param(E, at), q = d ? op(E, "div", number, n) : 0,
              c = d ? op(E, "sub", number, op(E, "mul.lo", q, n)) : number;
    p.y = mad(E, c, param(E, at + 8), p.y);
    p.src = mad(E, c, param(E, at + 16), p.src);
    p.index = mad(E, c, param(E, at + 24), p.index);
    p.line = mad(E, c, param(E, at + 32), p.line);
    number = q;
  }
  return p;
}

static Reg added(Ptx *E, int dtype, Reg a, Reg b) {
  const int prim = dtype == T_BOOL ? P_OR : P_ADD;
  return ty_ptx_narrow(E, dtype, ty_ptx_binary(E, prim, ty_dtypes[dtype].ctype, a, b));
}

static void serial(Each *e, int dtype, bool add, int dims) {
  Ptx *E = &e->E;
  const Place p = place_of(E, e->number, dims);
  const Reg from = copy_of(E, p.src), position = copy_of(E, p.index), j = ty_ptx_reg(E, REG_64),
            n = param(E, SCATTER_N);
  const int again = ty_ptx_label(E), done = ty_ptx_label(E);
  ty_ptx(E, "mov.b64 $, 0", j);
  ty_ptx_here(E, again);
  branch(E, "ge", j, n, done);
  const Reg to = mad(E, ty_ptx_load(E, T_I64, position), param(E, SCATTER_Y_STEP), p.y);
  Reg v = ty_ptx_load(E, dtype, from);
  if (add) v = added(E, dtype, ty_ptx_load(E, dtype, to), v);
  ty_ptx_store(E, dtype, to, v);
  ty_ptx(E, "add.s64 $, $, $", from, from, param(E, SCATTER_SRC_STEP));
  ty_ptx(E, "add.s64 $, $, $", position, position, param(E, SCATTER_INDEX_STEP));
  ty_ptx(E, "add.s64 $, $, 1", j, j);
  ty_ptx(E, "bra @", again);
  ty_ptx_here(E, done);
}

/* The number's place along the scattered dim; the other dims go faster: neighbours are side by side there. */
static Reg along(Ptx *E, Reg number, Reg *rest) {
  const Reg n = param(E, SCATTER_LINES), j = op(E, "div", number, n);
  *rest = op(E, "sub", number, op(E, "mul.lo", j, n));
  return j;
}

static void atomic(Each *e, int dtype, int dims) {
  Ptx *E = &e->E;
  Reg rest;
  const Reg j = along(E, e->number, &rest);
  const Place p = place_of(E, rest, dims);
  const Reg place = ty_ptx_load(E, T_I64, mad(E, j, param(E, SCATTER_INDEX_STEP), p.index)),
            v = ty_ptx_load(E, dtype, mad(E, j, param(E, SCATTER_SRC_STEP), p.src));
  ty_ptx(E, "red.global.add.~ [$], $", dtype == T_I64 ? "u64" : "u32",
         mad(E, place, param(E, SCATTER_Y_STEP), p.y), v);
}

static void keys(Each *e, int dims) {
  Ptx *E = &e->E;
  const Reg n = param(E, SCATTER_N), line = op(E, "div", e->number, n),
            j = op(E, "sub", e->number, op(E, "mul.lo", line, n)), place = ty_ptx_reg(E, REG_32),
            own = ty_ptx_reg(E, REG_32);
  const Place p = place_of(E, line, dims);
  ty_ptx(E, "cvt.u32.u64 $, $", place,
         ty_ptx_load(E, T_I64, mad(E, j, param(E, SCATTER_INDEX_STEP), p.index)));
  ty_ptx(E, "cvt.u32.u64 $, $", own, j);
  ty_ptx(E, "st.global.b32 [$], $", at_element(E, param(E, SCATTER_KEY), e->number, 4), place);
  ty_ptx(E, "st.global.b32 [$], $", at_element(E, param(E, SCATTER_PLACE), e->number, 4), own);
}

/* Sums begin at the first of a run of equal ones; of what is set the last of them stands. */
static void runs(Each *e, int dtype, bool add, int dims) {
  Ptx *E = &e->E;
  Reg rest;
  const Reg j = along(E, e->number, &rest), n = param(E, SCATTER_N);
  const Place p = place_of(E, rest, dims);
  const Reg start = op(E, "mul.lo", p.line, n), at = op(E, "add", start, j),
            key = copy_of(E, at_element(E, param(E, SCATTER_KEY), at, 4)),
            place = copy_of(E, at_element(E, param(E, SCATTER_PLACE), at, 4)),
            own = ty_ptx_reg(E, REG_32), other = ty_ptx_reg(E, REG_32), q = ty_ptx_reg(E, REG_PRED),
            wide = ty_ptx_reg(E, REG_64), from = ty_ptx_reg(E, REG_64), i = copy_of(E, j),
            one = number_of(E, 1), last = op(E, "sub", n, one);
  const int alone = ty_ptx_label(E), skip = ty_ptx_label(E), again = ty_ptx_label(E),
            done = ty_ptx_label(E);
  ty_ptx(E, "ld.global.b32 $, [$]", own, key);
  branch(E, "eq", j, add ? number_of(E, 0) : last, alone);
  ty_ptx(E, "ld.global.b32 $, [$+#]", other, key, (i64)(add ? -4 : 4));
  ty_ptx(E, "setp.eq.u32 $, $, $", q, own, other);
  ty_ptx(E, "@$ bra @", q, skip);
  ty_ptx_here(E, alone);
  ty_ptx(E, "cvt.u64.u32 $, $", wide, own);
  const Reg to = mad(E, wide, param(E, SCATTER_Y_STEP), p.y), step = param(E, SCATTER_SRC_STEP),
            sum = ty_ptx_value(E, ty_dtypes[dtype].ctype);
  const char *bits = ty_ptx_wide(ty_dtypes[dtype].ctype) ? "b64" : "b32";
  if (add) ty_ptx(E, "mov.~ $, $", bits, sum, ty_ptx_load(E, dtype, to));
  ty_ptx_here(E, again);
  ty_ptx(E, "ld.global.u32 $, [$]", from, place);
  const Reg v = ty_ptx_load(E, dtype, mad(E, from, step, p.src));
  ty_ptx(E, "mov.~ $, $", bits, sum, add ? added(E, dtype, sum, v) : v);
  if (add) {
    branch(E, "ge", i, last, done);
    ty_ptx(E, "add.s64 $, $, 1", i, i);
    ty_ptx(E, "add.s64 $, $, 4", place, place);
    ty_ptx(E, "add.s64 $, $, 4", key, key);
    ty_ptx(E, "ld.global.b32 $, [$]", other, key);
    ty_ptx(E, "setp.eq.u32 $, $, $", q, own, other);
    ty_ptx(E, "@$ bra @", q, again);
  }
  ty_ptx_here(E, done);
  ty_ptx_store(E, dtype, to, sum);
  ty_ptx_here(E, skip);
}

Text ty_ptx_scatter(ScatterWay way, int dtype, bool add, int dims) {
  Each e;
  each_begin(&e, SCATTER_COUNT, MOVE_THREADS, false);
  switch (way) {
  case SCATTER_SERIAL: serial(&e, dtype, add, dims); break;
  case SCATTER_ATOMIC: atomic(&e, dtype, dims); break;
  case SCATTER_KEYS: keys(&e, dims); break;
  case SCATTER_RUNS: runs(&e, dtype, add, dims); break;
  }
  return each_end(&e, SCATTER_DIMS + SCATTER_DIM * dims);
}

Text ty_ptx_positions(void) {
  Each e;
  Ptx *E = &e.E;
  each_begin(&e, POSITIONS_COUNT, MOVE_THREADS, false);
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

Text ty_ptx_side_check(void) {
  Ptx E = {0};
  const int end = ty_ptx_begin(&E);
  const Reg broken = ty_ptx_reg(&E, REG_64), p = ty_ptx_reg(&E, REG_PRED),
            t = ty_ptx_reg(&E, REG_32);
  ty_ptx(&E, "mov.u32 $, %tid.x", t);
  ty_ptx(&E, "setp.ne.u32 $, $, 0", p, t);
  ty_ptx(&E, "@$ bra @", p, end);
  ty_ptx(&E, "ld.global.b64 $, [$]", broken, param(&E, SIDE_BROKEN));
  ty_ptx(&E, "setp.eq.s64 $, $, 0", p, broken);
  ty_ptx(&E, "@$ bra @", p, end);
  ty_ptx(&E, "st.global.b64 [$], $", param(&E, SIDE_WORD), param(&E, SIDE_CHECK));
  return ty_ptx_end(&E, end, SIDE_BYTES, SIDE_THREADS);
}
