/*
** ptx_tiles_async.c -- products of f32 by large tiles, for sm_80 and newer, in the canonical order.
** In:  how the operands lie.  Out: a module. Fails when out of memory alone.
**
** A block of 256 threads has a tile of 128 x 128 of y, a thread 8 x 8 of it: rows 4 i .. 4 i + 3 and 64 on from there, columns so
** too. Of a wide tile, 128 x 256, a thread has 8 x 16. 16 of k at a time are copied to shared memory without passing through
** registers, two such chunks ahead of the one that is worked on: three stages, so that one barrier a chunk is enough. Sums of
** blocks of 256 of k are added to totals as in ptx_product.c; totals are in registers, those of a wide tile, which has no room for
** them, in shared memory: each thread's are its own. The last chunk of k, where it is not whole, is a loop of its own: nothing
** is added for what is not there.
**
** In shared memory an operand lies as [k][its side], and 16 bytes stand between lines. One whose neighbours lie along k is copied
** element by element, 8 of k by 4 of the others a warp: whole sectors are read, and all banks are written. Of the other kind a
** warp copies 32 neighbours of a line, 16 bytes each where they are aligned.
**
** What is not a multiply-add in the loop costs as much as one, so copies share addresses: two of k where neighbours lie along it,
** all of a line where they lie across. There what lies beyond the last row or column is not copied, and stands in shared memory as it was:
** nobody's sums have it. Along k the last one is copied in its place.
*/
#include "device/cuda/ptx_each.h"
#include "device/cuda/ptx_product.h"

enum {
  DEPTH = 16,
  STAGES = 3,
  K_BLOCK = 256,
  OWN = 8,           /* rows of a thread */
  OWN_MOST = 16,     /* columns */
  GAP = 16,          /* bytes between lines */
  HALF = 64,         /* rows or columns to a thread's next four */
  VECTOR = 16,       /* bytes */
  TILE_COLUMNS = 16, /* of threads, and rows of them */
  LANES = 32,        /* rows or columns of one copy by all threads, or vectors of them; */
  LINES = 8,         /* and lines */
  PARTS_MOST = TILES_WIDE_SIDE / LANES
};

/* How an operand is copied, and read again. A thread has two lines of k, and `parts` copies of each. */
typedef struct Copy {
  bool along_k, vectors; /* vectors: 16 bytes at a time */
  int side, line;        /* rows or columns of the tile; bytes of a line of shared memory */
  int parts, bytes;      /* bytes: of a copy */
  Reg at
      [PARTS_MOST]; /* addresses of the chunk before the next: along k of each part, else of both lines; */
  Reg step;         /* and to the next chunk */
  Reg k;            /* of the first line; the other is LINES on */
  Reg there;        /* bits of parts: they are there. 0: all are */
  Reg to;           /* the first copy's place in stage 0, 32 bits */
  Reg read;         /* the thread's first group */
} Copy;

typedef struct Large {
  Ptx E;
  const ProductVariant *v;
  ProductLayout l;
  int columns, stage;      /* of a thread; bytes */
  Reg thread, shared;      /* 64 bits; 32 bits */
  Reg stage_in, stage_out; /* offsets of the stages that are written, read; 32 bits */
  Copy a, b;
  Reg acc[OWN][OWN_MOST], total[OWN][OWN_MOST];
  Reg totals; /* of a wide tile: the address of the thread's first four */
} Large;

static bool is_wide(const ProductVariant *v) { return v->tiles & TILES_WIDE; }
static int columns_of(const ProductVariant *v) {
  return is_wide(v) ? TILES_WIDE_SIDE : TILES_LARGE_SIDE;
}
static int line_of(int side) { return 4 * side + GAP; }
static int stage_of(const ProductVariant *v) {
  return DEPTH * (line_of(TILES_LARGE_SIDE) + line_of(columns_of(v)));
}

i32 ty_ptx_tiles_shared(const ProductVariant *v) {
  return STAGES * stage_of(v) + (is_wide(v) ? 4 * TILES_LARGE_SIDE * TILES_WIDE_SIDE : 0);
}

static Reg word(Ptx *E) { return ty_ptx_reg(E, REG_32); }

static Reg word_of(Ptx *E, Reg wide) {
  const Reg y = word(E);
  ty_ptx(E, "cvt.u32.u64 $, $", y, wide);
  return y;
}

/* x mod n, x / n, n a power of two. */
static Reg low_part(Ptx *E, Reg x, i64 n) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "and.b64 $, $, #", y, x, n - 1);
  return y;
}
static Reg high_part(Ptx *E, Reg x, i64 n) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "shr.u64 $, $, #", y, x, (i64)__builtin_ctzll((u64)n));
  return y;
}

static int addresses_of(const Copy *c) { return c->along_k ? c->parts : 2; }

/* Bits of parts whose first element, `first`, lies below `left`. */
static Reg bits_of_parts(Ptx *E, const Copy *c, Reg first, Reg left) {
  const Reg y = word(E), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "mov.b32 $, 0", y);
  for (int part = 0; part < c->parts; part++) {
    const Reg i = op(E, "add", first, number_of(E, part * LANES * c->bytes / 4));
    ty_ptx(E, "setp.lt.s64 $, $, $", p, i, left);
    ty_ptx(E, "@$ or.b32 $, $, #", p, y, y, (i64)1 << part);
  }
  return y;
}

/* base: the tile's first element; left: rows or columns from there on; shared: bytes of a stage before the operand's. */
static void copy_begin(Large *T, Copy *c, Reg base, Reg left, Reg along, Reg across, int shared) {
  Ptx *E = &T->E;
  const int many = c->along_k ? LINES : LANES;
  const Reg quick = low_part(E, T->thread, many), slow = high_part(E, T->thread, many),
            i = op(E, "mul.lo", c->along_k ? slow : quick, number_of(E, c->bytes / 4)),
            last = op(E, "sub", left, number_of(E, 1));
  c->k = c->along_k ? quick : slow;
  if (c->along_k) along = number_of(E, 4);
  c->step = op(E, "mul.lo", along, number_of(E, DEPTH));
  c->there = c->along_k ? 0 : bits_of_parts(E, c, i, left);
  const Reg line = mad(E, c->k, along, op(E, "sub", base, c->step));
  for (int q = 0; q < addresses_of(c); q++) {
    const Reg row = op(E, "min", op(E, "add", i, number_of(E, q * LANES)), last);
    c->at[q] =
        copy_of(E, c->along_k ? mad(E, row, across, line)
                              : mad(E, along, number_of(E, q * LINES), at_element(E, line, i, 4)));
  }
  const Reg to = mad(E, c->k, number_of(E, c->line), at_element(E, number_of(E, shared), i, 4));
  ty_ptx(E, "add.u32 $, $, $", c->to = word(E), word_of(E, to), T->shared);
}

/* group: of the thread's first four, 0 .. 15. */
static void read_begin(Large *T, Copy *c, Reg group, int shared) {
  Ptx *E = &T->E;
  const Reg base = word(E);
  ty_ptx(E, "add.u32 $, $, #", base, T->shared, (i64)shared);
  ty_ptx(E, "mad.lo.u32 $, $, #, $", c->read = word(E), group, (i64)VECTOR, base);
}

/* A part of a line of the chunk whose addresses these are, where p holds. */
static void copy_one(Ptx *E, const Copy *c, int part, int line, Reg p, Reg to, const Reg *at) {
  const i64 behind = (i64)part * LANES * c->bytes, /* in shared memory */
      from = c->along_k ? line * LINES * 4 : behind;
  ty_ptx(E, "@$ cp.async.~.shared.global [$+#], [$+#], #", p, c->vectors ? "cg" : "ca", to,
         behind + (i64)line * LINES * c->line, at[c->along_k ? part : line], from, (i64)c->bytes);
}

static Reg has_part(Ptx *E, Reg there, int part) {
  const Reg bit = word(E), p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "and.b32 $, $, #", bit, there, (i64)1 << part);
  ty_ptx(E, "setp.ne.u32 $, $, 0", p, bit);
  return p;
}

/* Copies the next chunk to the stage at hand where `whole` holds, */
static void copy_chunk(Large *T, Copy *c, Reg whole) {
  Ptx *E = &T->E;
  const Reg to = word(E), there = c->there ? word(E) : 0;
  if (there) ty_ptx(E, "selp.b32 $, $, 0, $", there, c->there, whole);
  ty_ptx(E, "add.u32 $, $, $", to, c->to, T->stage_in);
  for (int q = 0; q < addresses_of(c); q++)
    ty_ptx(E, "add.s64 $, $, $", c->at[q], c->at[q], c->step);
  for (int part = 0; part < c->parts; part++) {
    const Reg p = there ? has_part(E, there, part) : whole;
    for (int line = 0; line < 2; line++) copy_one(E, c, part, line, p, to, c->at);
  }
}

/* or `left` of k of the last one, behind which addresses are a chunk already. */
static void copy_rest(Large *T, const Copy *c, Reg left) {
  Ptx *E = &T->E;
  const Reg to = word(E), back = op(E, "mul.lo", c->step, number_of(E, STAGES - 2));
  Reg at[PARTS_MOST], in[2];
  ty_ptx(E, "add.u32 $, $, $", to, c->to, T->stage_in);
  for (int q = 0; q < addresses_of(c); q++) at[q] = op(E, "sub", c->at[q], back);
  for (int line = 0; line < 2; line++)
    ty_ptx(E, "setp.lt.s64 $, $, $", in[line] = ty_ptx_reg(E, REG_PRED),
           op(E, "add", c->k, number_of(E, line * LINES)), left);
  for (int part = 0; part < c->parts; part++)
    for (int line = 0; line < 2; line++) {
      const Reg p = c->there ? has_part(E, c->there, part) : in[line];
      if (c->there) ty_ptx(E, "and.pred $, $, $", p, p, in[line]);
      copy_one(E, c, part, line, p, to, at);
    }
}

static void next_stage(const Large *T, Reg stage) {
  Ptx *E = (Ptx *)&T->E;
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "add.u32 $, $, #", stage, stage, (i64)T->stage);
  ty_ptx(E, "setp.eq.u32 $, $, #", p, stage, (i64)STAGES * T->stage);
  ty_ptx(E, "selp.b32 $, 0, $, $", stage, stage, p);
}

/* Both operands' next chunk, as one group of copies; there is none where `whole` does not hold. */
static void copy_next(Large *T, Reg whole) {
  copy_chunk(T, &T->a, whole);
  copy_chunk(T, &T->b, whole);
  ty_ptx(&T->E, "cp.async.commit_group");
  next_stage(T, T->stage_in);
}

/* n values of a line, four and HALF on. */
static void read_line(Ptx *E, Reg at, i64 offset, int n, Reg *y) {
  for (int i = 0; i < n; i++) y[i] = word(E);
  for (int i = 0; i < n; i += 4)
    ty_ptx(E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[i], y[i + 1], y[i + 2], y[i + 3], at,
           offset + i / 4 * HALF * 4);
}

/* Line k of the chunk whose lines begin so. */
static void add_products(Large *T, Reg a, Reg b, int k) {
  Ptx *E = &T->E;
  Reg x[OWN], y[OWN_MOST];
  read_line(E, a, (i64)k * T->a.line, OWN, x);
  read_line(E, b, (i64)k * T->b.line, T->columns, y);
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < T->columns; j++)
      ty_ptx(E, "fma.rn.f32 $, $, $, $", T->acc[i][j], x[i], y[j], T->acc[i][j]);
}

/* A whole chunk. */
static void work(Large *T) {
  Ptx *E = &T->E;
  const Reg a = word(E), b = word(E);
  ty_ptx(E, "add.u32 $, $, $", a, T->a.read, T->stage_out);
  ty_ptx(E, "add.u32 $, $, $", b, T->b.read, T->stage_out);
  for (int k = 0; k < DEPTH; k++) add_products(T, a, b, k);
}

/* What there is of the last chunk, `rest` of k, which nothing was copied of. */
static void last_chunk(Large *T, Reg rest) {
  Ptx *E = &T->E;
  const int next = ty_ptx_label(E);
  const Reg k = ty_ptx_reg(E, REG_64), a = word(E), b = word(E);
  ty_ptx(E, "bar.sync 0");
  copy_rest(T, &T->a, rest);
  copy_rest(T, &T->b, rest);
  ty_ptx(E, "cp.async.commit_group");
  ty_ptx(E, "cp.async.wait_group 0");
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "mov.b64 $, 0", k);
  ty_ptx(E, "add.u32 $, $, $", a, T->a.read, T->stage_in);
  ty_ptx(E, "add.u32 $, $, $", b, T->b.read, T->stage_in);
  ty_ptx_here(E, next);
  add_products(T, a, b, 0);
  ty_ptx(E, "add.u32 $, $, #", a, a, (i64)T->a.line);
  ty_ptx(E, "add.u32 $, $, #", b, b, (i64)T->b.line);
  ty_ptx(E, "add.s64 $, $, 1", k, k);
  branch(E, "lt", k, rest, next);
}

/* --- totals */

/* Four of a wide tile's, from shared memory or to it. */
static void four_of(Large *T, bool load, int i, int j, const Reg y[4]) {
  const i64 at = (i64)(i * T->columns + j) / 4 * TILE_THREADS * VECTOR;
  if (load)
    ty_ptx(&T->E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[0], y[1], y[2], y[3], T->totals, at);
  else ty_ptx(&T->E, "st.shared.v4.b32 [$+#], {$, $, $, $}", T->totals, at, y[0], y[1], y[2], y[3]);
}

static void add_block(Large *T) {
  Ptx *E = &T->E;
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < T->columns; j += 4) {
      Reg *total = T->total[i] + j, *acc = T->acc[i] + j;
      if (is_wide(T->v)) four_of(T, true, i, j, total);
      for (int k = 0; k < 4; k++) {
        ty_ptx(E, "add.rn.f32 $, $, $", total[k], total[k], acc[k]);
        ty_ptx(E, "mov.b32 $, 0", acc[k]);
      }
      if (is_wide(T->v)) four_of(T, false, i, j, total);
    }
}

static void totals_begin(Large *T) {
  Ptx *E = &T->E;
  if (is_wide(T->v)) {
    const Reg own = op(E, "mul.lo", T->thread, number_of(E, VECTOR)),
              first = op(E, "add", own, number_of(E, (i64)STAGES * T->stage));
    ty_ptx(E, "add.u32 $, $, $", T->totals = word(E), T->shared, word_of(E, first));
  }
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < T->columns; j++) {
      ty_ptx(E, "mov.b32 $, 0", T->acc[i][j] = word(E));
      ty_ptx(E, "mov.b32 $, 0x80000000", T->total[i][j] = word(E));
      if (is_wide(T->v) && j % 4 == 3) four_of(T, false, i, j - 3, T->total[i] + j - 3);
    }
}

/* --- sums over k */

static void word_branch(Ptx *E, const char *how, Reg a, i64 b, int label) {
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "setp.~.s32 $, $, #", how, p, a, b);
  ty_ptx(E, "@$ bra @", p, label);
}

/* The next chunk is copied where there is one; ahead: how many there are. */
static void copy_ahead(Large *T, Reg ahead) {
  const Reg p = ty_ptx_reg(&T->E, REG_PRED);
  ty_ptx(&T->E, "setp.gt.s32 $, $, 0", p, ahead);
  copy_next(T, p);
  ty_ptx(&T->E, "sub.s32 $, $, 1", ahead, ahead);
}

/* The sums over k, block by block: so many whole chunks, and the rest, if there is one. */
static void sums(Large *T) {
  enum { EACH = K_BLOCK / DEPTH };
  Ptx *E = &T->E;
  const Reg k = param(E, PRODUCT_K), rest = copy_of(E, low_part(E, k, DEPTH)),
            zero = number_of(E, 0), chunks = word(E), ahead = word(E), block = word(E),
            todo = word(E);
  const int outer = ty_ptx_label(E), inner = ty_ptx_label(E), out = ty_ptx_label(E),
            add = ty_ptx_label(E);
  totals_begin(T);
  ty_ptx(E, "mov.b32 $, 0", T->stage_in = word(E));
  ty_ptx(E, "mov.b32 $, 0", T->stage_out = word(E));
  ty_ptx(E, "mov.b32 $, $", chunks, word_of(E, high_part(E, k, DEPTH)));
  ty_ptx(E, "mov.b32 $, $", ahead, chunks);
  for (int s = 1; s < STAGES; s++) copy_ahead(T, ahead);
  ty_ptx_here(E, outer);
  ty_ptx(E, "min.s32 $, $, #", block, chunks, (i64)EACH);
  ty_ptx(E, "mov.b32 $, $", todo, block);
  word_branch(E, "le", todo, 0, out);
  ty_ptx_here(E, inner);
  ty_ptx(E, "cp.async.wait_group #", (i64)STAGES - 2);
  ty_ptx(E, "bar.sync 0");
  copy_ahead(T, ahead);
  work(T);
  next_stage(T, T->stage_out);
  ty_ptx(E, "sub.s32 $, $, 1", todo, todo);
  word_branch(E, "gt", todo, 0, inner);
  ty_ptx_here(E, out);
  ty_ptx(E, "sub.s32 $, $, $", chunks, chunks, block);
  word_branch(E, "gt", chunks, 0, add);
  branch(E, "le", rest, zero, add);
  word_branch(E, "eq", block, EACH, add); /* the rest is of the next block */
  last_chunk(T, rest);
  ty_ptx(E, "mov.b64 $, 0", rest);
  ty_ptx_here(E, add);
  add_block(T);
  word_branch(E, "gt", chunks, 0, outer);
  branch(E, "gt", rest, zero, outer);
  ty_ptx(E, "cp.async.wait_all");
  ty_ptx(E, "bar.sync 0"); /* the next tile writes where others read */
}

/* --- tiles */

/* y: of the item; row, column: of the thread's first. */
static void store(Large *T, Reg y, Reg row, Reg column, Reg m, Reg n) {
  Ptx *E = &T->E;
  const bool vectors = T->v->tiles & TILES_Y_VECTORS;
  for (int i = 0; i < OWN; i++) {
    const Reg r = op(E, "add", row, number_of(E, i % 4 + i / 4 * HALF)),
              in_row = ty_ptx_reg(E, REG_PRED), start = at_element(E, y, op(E, "mul.lo", r, n), 4);
    ty_ptx(E, "setp.lt.s64 $, $, $", in_row, r, m);
    for (int j = 0; j < T->columns; j += vectors ? 4 : 1) {
      if (is_wide(T->v) && !(j % 4)) four_of(T, true, i, j, T->total[i] + j);
      const Reg c = op(E, "add", column, number_of(E, j % 4 + j / 4 * HALF)),
                p = ty_ptx_reg(E, REG_PRED), at = at_element(E, start, c, 4), *v = T->total[i] + j;
      ty_ptx(E, "setp.lt.s64 $, $, $", p, c, n);
      ty_ptx(E, "and.pred $, $, $", p, p, in_row);
      if (vectors)
        ty_ptx(E, "@$ st.global.v4.b32 [$], {$, $, $, $}", p, at, v[0], v[1], v[2], v[3]);
      else ty_ptx(E, "@$ st.global.b32 [$], $", p, at, v[0]);
    }
  }
}

/* Tile number `number`, counted through the batch. A warp has 4 x 8 threads of the tile's 16 x 16. */
static void one_tile(Large *T, Reg number) {
  Ptx *E = &T->E;
  const ProductVariant *v = T->v;
  const SideLayout *sa = &T->l.side[0], *sb = &T->l.side[1];
  const int down = TILES_LARGE_SIDE, across = columns_of(v), of_b = DEPTH * T->a.line;
  const Reg m = param(E, PRODUCT_M), n = param(E, PRODUCT_N);
  const Reg wide = high_part(E, op(E, "add", n, number_of(E, across - 1)), across),
            row = op(E, "div", number, wide), tn = op(E, "sub", number, op(E, "mul.lo", row, wide)),
            high = high_part(E, op(E, "add", m, number_of(E, down - 1)), down),
            item = op(E, "div", row, high), tm = op(E, "sub", row, op(E, "mul.lo", item, high)),
            m0 = op(E, "mul.lo", tm, number_of(E, down)),
            n0 = op(E, "mul.lo", tn, number_of(E, across));
  Reg a, b;
  ty_ptx_product_item(E, v, item, &a, &b);
  const Reg a_across = param(E, sa->row + 8), b_across = param(E, sb->col + 8);
  copy_begin(T, &T->a, mad(E, m0, a_across, a), op(E, "sub", m, m0), param(E, sa->col + 8),
             a_across, 0);
  copy_begin(T, &T->b, mad(E, n0, b_across, b), op(E, "sub", n, n0), param(E, sb->row + 8),
             b_across, of_b);
  const Reg warp = high_part(E, T->thread, 32), lane = low_part(E, T->thread, 32),
            i = mad(E, high_part(E, warp, 2), number_of(E, 4), high_part(E, lane, 8)),
            j = mad(E, low_part(E, warp, 2), number_of(E, 8), low_part(E, lane, 8)),
            four = number_of(E, 4);
  read_begin(T, &T->a, word_of(E, i), 0);
  read_begin(T, &T->b, word_of(E, j), of_b);
  sums(T);
  const Reg bytes = op(E, "mul.lo", op(E, "mul.lo", m, n), four);
  store(T, mad(E, item, bytes, param(E, PRODUCT_Y)), mad(E, i, four, m0), mad(E, j, four, n0), m,
        n);
}

static Copy copy_of_side(bool along_k, bool vectors, int side) {
  const int bytes = vectors ? VECTOR : 4;
  return (Copy){.along_k = along_k,
                .vectors = vectors,
                .side = side,
                .line = line_of(side),
                .parts = side * 4 / (LANES * bytes),
                .bytes = bytes};
}

/* What is not copied is read, too. */
static void clear_stages(Large *T) {
  Ptx *E = &T->E;
  const Reg zero = ty_ptx_const(E, C_I32, 0), at = word(E), end = word(E),
            p = ty_ptx_reg(E, REG_PRED);
  const int next = ty_ptx_label(E);
  ty_ptx(E, "mad.lo.u32 $, $, #, $", at, word_of(E, T->thread), (i64)VECTOR, T->shared);
  ty_ptx(E, "add.u32 $, $, #", end, T->shared, (i64)STAGES * T->stage);
  ty_ptx_here(E, next);
  ty_ptx(E, "st.shared.v4.b32 [$], {$, $, $, $}", at, zero, zero, zero, zero);
  ty_ptx(E, "add.u32 $, $, #", at, at, (i64)TILE_THREADS * VECTOR);
  ty_ptx(E, "setp.lt.u32 $, $, $", p, at, end);
  ty_ptx(E, "@$ bra @", p, next);
  ty_ptx(E, "bar.sync 0");
}

Text ty_ptx_tiles_large(const ProductVariant *v) {
  Large *T = ty_mem_zalloc(sizeof *T);
  if (!T) return (Text){.failed = true};
  Ptx *E = &T->E;
  T->v = v, T->l = ty_ptx_product_layout(v);
  T->columns = columns_of(v) / TILE_COLUMNS, T->stage = stage_of(v);
  T->a = copy_of_side(v->tiles & TILES_A_K, v->tiles & TILES_A_VECTORS, TILES_LARGE_SIDE);
  T->b = copy_of_side(v->tiles & TILES_B_K, v->tiles & TILES_B_VECTORS, columns_of(v));
  const int end = ty_ptx_begin(E), next = ty_ptx_label(E);
  E->shared = ty_ptx_tiles_shared(v), E->blocks = 1, E->target = 80;
  const Reg count = param(E, PRODUCT_COUNT), number = copy_of(E, special_of(E, "ctaid.x")),
            step = special_of(E, "nctaid.x"), start = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u64 $, tile", start);
  T->shared = word_of(E, start);
  T->thread = special_of(E, "tid.x");
  clear_stages(T);
  ty_ptx_here(E, next);
  branch(E, "ge", number, count, end);
  one_tile(T, number);
  ty_ptx(E, "add.s64 $, $, $", number, number, step);
  ty_ptx(E, "bra @", next);
  const Text t = ty_ptx_end(E, end, T->l.bytes, TILE_THREADS);
  ty_mem_free(T);
  return t;
}
