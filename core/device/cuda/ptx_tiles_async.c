/*
** ptx_tiles_async.c -- products of f32 by large tiles, for sm_80 and newer, in the canonical order.
** In:  how the operands lie.  Out: a module. Fails when out of memory alone.
**
** A block of 256 threads has a tile of 128 x 128 of y, a thread 8 x 8 of it: rows 4 i .. 4 i + 3 and 64 on from there, columns so
** too. 16 of k at a time are copied to shared memory without passing through registers, two such chunks ahead of the one that
** is worked on: three stages, so that one barrier a chunk is enough. Sums of blocks of 256 of k are added to totals as in
** ptx_product.c. The last chunk of k, where it is not whole, is a loop of its own: nothing is added for what is not there.
**
** In shared memory an operand lies as [k][128], in groups of four. One whose neighbours lie along k is copied element by
** element, 8 of k by 4 of the others a warp: whole sectors are read, and as group g of line k lies where group g xor (k mod 8)
** would, all banks are written. The other kind is copied 16 bytes at a time where it is aligned.
*/
#include "device/cuda/ptx_each.h"
#include "device/cuda/ptx_product.h"

enum {
  SIDE = TILES_LARGE_SIDE,
  DEPTH = 16,
  STAGES = 3,
  K_BLOCK = 256,
  OWN = 8,
  LINE = SIDE * 4,        /* bytes of a line of shared memory */
  OPERAND = DEPTH * LINE, /* of an operand's chunk */
  STAGE = 2 * OPERAND,
  COPIES = SIDE * DEPTH / TILE_THREADS
};

/* How an operand is copied, and read again. */
typedef struct Copy {
  bool along_k, vectors;            /* vectors: 16 bytes at a time */
  int n;                            /* copies of a thread */
  Reg at[COPIES];                   /* addresses */
  Reg step;                         /* to the next chunk */
  Reg k;                            /* of the first copy; */
  int lines[COPIES];                /* the others are so many lines on */
  int from[COPIES], shared[COPIES]; /* bytes behind the address; where they go, from the first */
  Reg to;                           /* that one's place in stage 0, 32 bits */
  Reg read[8];                      /* the thread's groups, by k mod 8 */
} Copy;

typedef struct Large {
  Ptx E;
  const ProductVariant *v;
  ProductLayout l;
  Reg thread, shared;      /* 64 bits; 32 bits */
  Reg stage_in, stage_out; /* offsets of the stages that are written, read; 32 bits */
  Copy a, b;
  Reg acc[OWN][OWN], total[OWN][OWN];
} Large;

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

/* left: rows or columns from the tile's first on; what lies beyond is nobody's, and the last one is copied in its place.
** base: the tile's first element. */
static void copy_begin(Large *T, Copy *c, Reg base, Reg left, Reg along, Reg across, int shared) {
  Ptx *E = &T->E;
  const int fast = c->along_k ? 8 : c->vectors ? SIDE / 4 : SIDE, each = c->vectors ? 4 : 1;
  const Reg first = low_part(E, T->thread, fast), rest = high_part(E, T->thread, fast),
            last = op(E, "sub", left, number_of(E, each));
  c->n = COPIES / each;
  c->step = op(E, "mul.lo", along, number_of(E, DEPTH));
  c->k = c->along_k ? first : rest;
  for (int q = 0; q < c->n; q++) {
    const int half = c->along_k ? q % 2 : 0, part = c->along_k ? q / 2 : q;
    c->lines[q] = c->along_k ? 8 * half : TILE_THREADS / fast * part;
    c->shared[q] = c->along_k ? 8 * half * LINE + 32 * 4 * part : c->lines[q] * LINE;
    c->from[q] = 8 * half * 4; /* elements lie side by side */
    c->at[q] = half ? c->at[q - 1] : ty_ptx_reg(E, REG_64);
    if (half) continue;
    Reg i = c->along_k ? op(E, "add", rest, number_of(E, 32 * part)) : first;
    if (c->vectors) i = op(E, "mul.lo", i, number_of(E, each));
    const Reg k = op(E, "add", c->k, number_of(E, c->lines[q]));
    ty_ptx(E, "mov.b64 $, $", c->at[q],
           mad(E, op(E, "min", i, last), across, mad(E, k, along, base)));
  }
  Reg to = op(E, "mul.lo", first, number_of(E, 4 * each));
  if (c->along_k) { /* group (rest / 4) xor k */
    const Reg group = ty_ptx_reg(E, REG_64);
    ty_ptx(E, "xor.b64 $, $, $", group, high_part(E, rest, 4), first);
    to = mad(E, group, number_of(E, 16), op(E, "mul.lo", low_part(E, rest, 4), number_of(E, 4)));
  }
  to = mad(E, c->k, number_of(E, LINE), to);
  ty_ptx(E, "add.u32 $, $, $", c->to = word(E), word_of(E, op(E, "add", to, number_of(E, shared))),
         T->shared);
}

/* group: of the thread's first four, 0 .. 15. */
static void read_begin(Large *T, Copy *c, Reg group, int shared) {
  Ptx *E = &T->E;
  const Reg base = word(E);
  ty_ptx(E, "add.u32 $, $, #", base, T->shared, (i64)shared);
  for (int k = 0; k < (c->along_k ? 8 : 1); k++) {
    const Reg g = word(E), y = word(E);
    ty_ptx(E, "xor.b32 $, $, #", g, group, (i64)k);
    ty_ptx(E, "mad.lo.u32 $, $, 16, $", y, g, base);
    c->read[k] = y;
  }
}

/* Copies the next chunk to the stage at hand where `whole` holds, */
static void copy_chunk(Large *T, Copy *c, Reg whole) {
  Ptx *E = &T->E;
  const Reg to = word(E);
  ty_ptx(E, "add.u32 $, $, $", to, c->to, T->stage_in);
  for (int q = 0; q < c->n; q++)
    ty_ptx(E, "@$ cp.async.~.shared.global [$+#], [$+#], #", whole, c->vectors ? "cg" : "ca", to,
           (i64)c->shared[q], c->at[q], (i64)c->from[q], (i64)(c->vectors ? 16 : 4));
  for (int q = 0; q < c->n; q++)
    if (!c->from[q]) ty_ptx(E, "add.s64 $, $, $", c->at[q], c->at[q], c->step);
}

/* or `left` of k of the last one, behind which addresses are two chunks already. */
static void copy_rest(Large *T, const Copy *c, Reg left) {
  Ptx *E = &T->E;
  const Reg to = word(E), back = op(E, "mul.lo", c->step, number_of(E, STAGES - 1));
  ty_ptx(E, "add.u32 $, $, $", to, c->to, T->stage_in);
  for (int q = 0; q < c->n; q++) {
    const Reg p = ty_ptx_reg(E, REG_PRED), at = op(E, "sub", c->at[q], back);
    ty_ptx(E, "setp.lt.s64 $, $, $", p, op(E, "add", c->k, number_of(E, c->lines[q])), left);
    ty_ptx(E, "@$ cp.async.~.shared.global [$+#], [$+#], #", p, c->vectors ? "cg" : "ca", to,
           (i64)c->shared[q], at, (i64)c->from[q], (i64)(c->vectors ? 16 : 4));
  }
}

static void next_stage(Ptx *E, Reg stage) {
  const Reg p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "add.u32 $, $, #", stage, stage, (i64)STAGE);
  ty_ptx(E, "setp.eq.u32 $, $, #", p, stage, (i64)STAGES * STAGE);
  ty_ptx(E, "selp.b32 $, 0, $, $", stage, stage, p);
}

/* Both operands' next chunk, as one group of copies; there is none where `whole` does not hold. */
static void copy_next(Large *T, Reg whole) {
  copy_chunk(T, &T->a, whole);
  copy_chunk(T, &T->b, whole);
  ty_ptx(&T->E, "cp.async.commit_group");
  next_stage(&T->E, T->stage_in);
}

static void read_eight(Ptx *E, Reg at, i64 offset, Reg y[OWN]) {
  for (int i = 0; i < OWN; i++) y[i] = word(E);
  ty_ptx(E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[0], y[1], y[2], y[3], at, offset);
  ty_ptx(E, "ld.shared.v4.b32 {$, $, $, $}, [$+#]", y[4], y[5], y[6], y[7], at, offset + SIDE * 2);
}

static void add_products(Large *T, const Reg x[OWN], const Reg y[OWN]) {
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++)
      ty_ptx(&T->E, "fma.rn.f32 $, $, $, $", T->acc[i][j], x[i], y[j], T->acc[i][j]);
}

/* A whole chunk. */
static void work(Large *T) {
  Ptx *E = &T->E;
  Reg a[8], b[8], x[OWN], y[OWN];
  for (int k = 0; k < 8; k++) {
    if (!k || T->a.along_k)
      ty_ptx(E, "add.u32 $, $, $", a[k] = word(E), T->a.read[k], T->stage_out);
    if (!k || T->b.along_k)
      ty_ptx(E, "add.u32 $, $, $", b[k] = word(E), T->b.read[k], T->stage_out);
  }
  for (int k = 0; k < DEPTH; k++) {
    read_eight(E, a[T->a.along_k ? k % 8 : 0], k * LINE, x);
    read_eight(E, b[T->b.along_k ? k % 8 : 0], k * LINE, y);
    add_products(T, x, y);
  }
}

/* What there is of the last chunk, `rest` of k, which nothing was copied of. */
static void last_chunk(Large *T, Reg rest) {
  Ptx *E = &T->E;
  const int next = ty_ptx_label(E);
  const Reg k = ty_ptx_reg(E, REG_64), a = word(E), b = word(E), line = word(E);
  Reg x[OWN], y[OWN];
  ty_ptx(E, "bar.sync 0");
  copy_rest(T, &T->a, rest);
  copy_rest(T, &T->b, rest);
  ty_ptx(E, "cp.async.commit_group");
  ty_ptx(E, "cp.async.wait_group 0");
  ty_ptx(E, "bar.sync 0");
  ty_ptx(E, "mov.b64 $, 0", k);
  ty_ptx(E, "mov.b32 $, $", line, T->stage_in);
  ty_ptx_here(E, next);
  const Reg swizzle = word(E);
  ty_ptx(E, "shl.b32 $, $, 4", swizzle, word_of(E, low_part(E, k, 8)));
  for (int i = 0; i < 2; i++) {
    const Copy *c = i ? &T->b : &T->a;
    const Reg at = i ? b : a;
    if (c->along_k) ty_ptx(E, "xor.b32 $, $, $", at, c->read[0], swizzle);
    else ty_ptx(E, "mov.b32 $, $", at, c->read[0]);
    ty_ptx(E, "add.u32 $, $, $", at, at, line);
  }
  read_eight(E, a, 0, x);
  read_eight(E, b, 0, y);
  add_products(T, x, y);
  ty_ptx(E, "add.u32 $, $, #", line, line, (i64)LINE);
  ty_ptx(E, "add.s64 $, $, 1", k, k);
  branch(E, "lt", k, rest, next);
}

static void add_block(Large *T) {
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      ty_ptx(&T->E, "add.rn.f32 $, $, $", T->total[i][j], T->total[i][j], T->acc[i][j]);
      ty_ptx(&T->E, "mov.b32 $, 0", T->acc[i][j]);
    }
}

static void sums_begin(Large *T) {
  Ptx *E = &T->E;
  for (int i = 0; i < OWN; i++)
    for (int j = 0; j < OWN; j++) {
      ty_ptx(E, "mov.b32 $, 0", T->acc[i][j] = word(E));
      ty_ptx(E, "mov.b32 $, 0x80000000", T->total[i][j] = word(E));
    }
  ty_ptx(E, "mov.b32 $, 0", T->stage_in = word(E));
  ty_ptx(E, "mov.b32 $, 0", T->stage_out = word(E));
}

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
  sums_begin(T);
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
  next_stage(E, T->stage_out);
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
    const Reg r = op(E, "add", row, number_of(E, i % 4 + i / 4 * SIDE / 2)),
              in_row = ty_ptx_reg(E, REG_PRED), start = at_element(E, y, op(E, "mul.lo", r, n), 4);
    ty_ptx(E, "setp.lt.s64 $, $, $", in_row, r, m);
    for (int j = 0; j < OWN; j += vectors ? 4 : 1) {
      const Reg c = op(E, "add", column, number_of(E, j % 4 + j / 4 * SIDE / 2)),
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
  const Reg m = param(E, PRODUCT_M), n = param(E, PRODUCT_N), most = number_of(E, SIDE - 1),
            side = number_of(E, SIDE);
  const Reg across = high_part(E, op(E, "add", n, most), SIDE), row = op(E, "div", number, across),
            tn = op(E, "sub", number, op(E, "mul.lo", row, across)),
            down = high_part(E, op(E, "add", m, most), SIDE), item = op(E, "div", row, down),
            tm = op(E, "sub", row, op(E, "mul.lo", item, down)), m0 = op(E, "mul.lo", tm, side),
            n0 = op(E, "mul.lo", tn, side);
  Reg a, b;
  ty_ptx_product_item(E, v, item, &a, &b);
  const Reg a_across = param(E, sa->row + 8), b_across = param(E, sb->col + 8);
  copy_begin(T, &T->a, mad(E, m0, a_across, a), op(E, "sub", m, m0), param(E, sa->col + 8),
             a_across, 0);
  copy_begin(T, &T->b, mad(E, n0, b_across, b), op(E, "sub", n, n0), param(E, sb->row + 8),
             b_across, OPERAND);
  const Reg warp = high_part(E, T->thread, 32), lane = low_part(E, T->thread, 32),
            i = mad(E, high_part(E, warp, 2), number_of(E, 4), high_part(E, lane, 8)),
            j = mad(E, low_part(E, warp, 2), number_of(E, 8), low_part(E, lane, 8)),
            four = number_of(E, 4);
  read_begin(T, &T->a, word_of(E, i), 0);
  read_begin(T, &T->b, word_of(E, j), OPERAND);
  sums(T);
  const Reg bytes = op(E, "mul.lo", op(E, "mul.lo", m, n), four);
  store(T, mad(E, item, bytes, param(E, PRODUCT_Y)), mad(E, i, four, m0), mad(E, j, four, n0), m,
        n);
}

Text ty_ptx_tiles_large(const ProductVariant *v) {
  Large *T = ty_mem_zalloc(sizeof *T);
  if (!T) return (Text){.failed = true};
  Ptx *E = &T->E;
  T->v = v, T->l = ty_ptx_product_layout(v);
  T->a = (Copy){.along_k = v->tiles & TILES_A_K, .vectors = v->tiles & TILES_A_VECTORS};
  T->b = (Copy){.along_k = v->tiles & TILES_B_K, .vectors = v->tiles & TILES_B_VECTORS};
  const int end = ty_ptx_begin(E), next = ty_ptx_label(E);
  E->shared = STAGES * STAGE, E->blocks = 1, E->target = 80;
  const Reg count = param(E, PRODUCT_COUNT), number = copy_of(E, special_of(E, "ctaid.x")),
            step = special_of(E, "nctaid.x"), start = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u64 $, tile", start);
  T->shared = word_of(E, start);
  T->thread = special_of(E, "tid.x");
  ty_ptx_here(E, next);
  branch(E, "ge", number, count, end);
  one_tile(T, number);
  ty_ptx(E, "add.s64 $, $, $", number, number, step);
  ty_ptx(E, "bra @", next);
  const Text t = ty_ptx_end(E, end, T->l.bytes, TILE_THREADS);
  ty_mem_free(T);
  return t;
}
