/*
** gemm.c -- matrix products in the canonical order.
** In:  a Gemm (shapes, strides, dtype) and three addresses; y shares no memory with a or b. Perhaps
**      panels of b, packed before, and an epilogue that is shown every tile when it is done, or says
**      by a list what tiles do with their sums before they store them.
** Out: y, the same bits for any instruction set, number of threads, strides, batching.
** Fails only when scratch memory runs out, before anything is written, or when the epilogue does. The
** caller has entered the floating-point environment of kernels (ty_fp_enter), here as for every
** kernel.
**
** The order, for every element of y:
** 1. N > 1: k goes in blocks of KC. In a block, fma over ascending k from +0. The first block's
**    sum stands as it is, the sums of the others are added to it, ascending.
** 2. N = 1: k goes in blocks of BLOCK elements and, in each, in LANES lanes; in a lane, fma over
**    ascending k from +0. Blocks combine lane by lane in a tree that splits at the largest power
**    of two below the count. Then lanes join: j += j + 32, + 16, ... + 1. An empty lane is +0.
** 3. f16 and bf16 are computed in f32 and rounded once, at the end. Integers wrap.
** 4. K = 0 gives +0.
** Nothing else may show in the bits; where M and N are cut is free.
**
** Four ways through, by shape:
**   column  N = 1: dot products of rows of a with b; sums of columns when a lies that way
**   stream  few rows: b is read once, in the order in which it lies, rows or columns
**   direct  windows over an image, read where they lie or from a copy without gaps (gemm_im2col.c)
**   tiles   the rest: a register tile of up to ROWS x 2 vectors runs over one block of k; around
**           it loops over tiles that reuse panels of b in L1 and blocks of a in L2. Behind the last
**           block floats become what a list makes of them, f16 or bf16 too, in the registers
** Operands are packed only where that pays or must be (narrow types, strides). A large row-major b of
** floats is packed a panel at a time into L1 by the first tile that goes down it, which stores what it
** reads; any other b too when one block of rows is all that reads it, else whole. While a panel is at
** work, the next one is called into the cache. Small products are done on the caller. Larger batches of
** small products are spread over the pool by item, large products by tile.
*/
#include "device/cpu/gemm.h"

enum {
  SHORT_K = 64, /* a block of k up to this long is worth less than going along the rows of y */
  MC = 240,     /* rows of a block of a: MC * KC elements sit in L2 */
  DOT_ROWS = 4, /* rows that a column product does together */
  TRANSPOSE_ROWS = 16,        /* the same when a is column-major: a cache line of each column */
  EPILOGUE_BYTES = 256 << 10, /* of the product that an epilogue is shown at a time, about */
  SMALL = 4096,               /* elements of a, b and y up to which a product is not planned */
  STREAM_SHORT = 1 << 17,     /* elements of b up to which a stream is not */
  DEEP = 8,                   /* blocks of k from which threads may share a product by them */
  DEEP_BYTES = 1 << 20,       /* of sums of blocks at a time */
  PANEL_ROWS = 128,           /* rows up to which packing b is a noticeable share of the work */
  PACK_BYTES = 32 << 20,      /* most bytes of b packed at a time */
  B_DIRECT = 256 << 10,       /* bytes of b up to which a row-major b is read where it lies */
  B_DIRECT_FEW = 512 << 10,   /* the same ... */
  B_FEW = 12,                 /* for so few tiles below each other */
  A_DIRECT = 256 << 10,       /* bytes of a up to which it is read where it lies */
  TASK_MICROSECONDS = 20,     /* work below this is not worth waking a thread for */
  TILES_EACH = 4,             /* tiles a thread, to even out the load */
};

/* ---- What is to be done, and how ------------------------------------------------------------ */

typedef enum { COLUMN, STREAM, DIRECT, TILES } Way;

typedef struct Item { /* one product of the batch */
  const char *a, *b;
  char *y;
  i64 row;          /* its first row, counted through the batch */
  i64 k0;           /* im2col: where it begins along k */
  const char *laid; /* direct: it is laid out already; or NULL */
} Item;

typedef struct Portion {
  Gemm d;
  Item item; /* the item at hand, or the first */
  const Kern *kern;
  PackFn *pack;
  Way way;
  i64 es, cs, ys;    /* bytes of an element stored, computed, of y */
  bool apack, bpack; /* packed, for tiles and column; a and b then lie in the compute type */
  i64 apitch;        /* between rows of a packed by im2col; 0: it is not */
  bool side;         /* column: a lies column by column */
  bool now;          /* b is packed a panel at a time, where it is used */
  bool keeps;        /* and that by the first tile down the rows, as it reads them */
  bool narrow;       /* y needs a conversion */
  bool late;         /* the epilogue is shown whole items, not tiles */
  const GemmEpilogue *epilogue; /* is shown what is done */
  GemmList list;                /* or it is applied in registers, and there is none */
  _Atomic bool *failed;         /* the epilogue has */
  i64 nr;                       /* columns of a panel of b: two vectors */
  i64 mc, nc;                   /* rows and columns of a unit of work (column: rows of a unit) */
  i64 jc;                       /* columns for which b is packed at a time */
  i64 j0, jn;                   /* those columns */
  i64 units;                    /* of work, for these columns */
  i64 group;                    /* column: rows done together */
  i64 depth;                    /* column: levels of the tree of blocks */
  Direct direct;                /* direct: units, and what they read */
  i64 asize, bsize, ysize;      /* bytes of scratch: a block, packed b, sums of a narrow y */
  i64 psize, tsize;             /* and a panel of b, a tile that y cannot hold */
  i64 fsize;                    /* and a Finder, for an im2col operand */
  const char *bpacked;
  Slot *slot;
  int nslots;
} Portion;

static i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }
static i64 ceil_div(i64 n, i64 by) { return (n + by - 1) / by; }

static bool is_stream(const Gemm *d, bool narrow, i64 nr) {
  return d->m <= STREAM_ROWS && !narrow && !d->a_im2col && !d->b_im2col &&
         (d->bcs == 1 || (d->brs == 1 && ty_gemm_kern(d->dtype)->transposed)) && d->n >= nr;
}

/* A row-major b that is read from where it lies too slowly: so large that its panels, rows far
** apart, leave caches between the tiles below each other. */
static bool outgrows_caches(const Gemm *d, i64 rows, i64 bytes) {
  const i64 b = d->k * d->n * bytes;
  return d->m >= rows - 1 && b > (d->m > B_FEW * rows ? B_DIRECT : B_DIRECT_FEW);
}

/* Chooses the way, what is packed, and the cut for `threads` threads. `panels`: b's are there. */
static void job_plan(Portion *J, int threads, bool panels) {
  Gemm *d = &J->d;
  J->kern = ty_gemm_kern(d->dtype);
  J->pack = ty_gemm_packer(d->dtype);
  J->es = ty_dtypes[d->dtype].bytes;
  J->cs = J->kern->size;
  J->ys = J->es;
  J->narrow = J->es != J->cs;
  J->nr = 2 * J->kern->vl;
  J->jc = d->n;
  J->apitch = J->asize = J->bsize = J->ysize = J->psize = J->tsize = 0;
  J->now = J->keeps = false;
  J->fsize = d->a_im2col || d->b_im2col ? round_up(sizeof(Finder), 64) : 0;
  const bool aside = J->epilogue && J->epilogue->aside;
  if (d->n == 1) {
    J->way = COLUMN;
    J->side = !J->narrow && d->ars == 1 && d->m > 1 && d->acs != 1 && d->k > 1;
    J->apack = J->narrow || d->a_im2col || (!J->side && d->acs != 1 && d->k > 1);
    J->bpack = J->narrow || d->b_im2col || (d->brs != 1 && d->k > 1);
    J->depth = 0; /* bits of the count of blocks: sums of blocks wait on a binary counter */
    for (i64 n = ceil_div(d->k, BLOCK); n; n /= 2) J->depth++;
    J->group = J->apack && d->ars == 1 ? TRANSPOSE_ROWS : DOT_ROWS;
    if (J->apack) J->asize = J->group * (TY_MIN(d->k, BLOCK) * J->cs + 64);
    if (J->side) J->group = SIDE_BYTES / J->cs;
    J->asize += J->side ? (J->depth + 1) * (256 / J->cs) * SIDE_BYTES : J->group * J->depth * 256;
    J->bsize = J->bpack ? d->k * J->cs : 0;
    J->mc = round_up(ceil_div(d->m, TILES_EACH * threads), J->group);
    J->units = ceil_div(d->m, J->mc);
    J->tsize = aside ? round_up(J->mc * J->es, 64) : 0;
    return;
  }
  if (is_stream(d, J->narrow, J->nr)) {
    J->way = STREAM;
    J->apack = J->bpack = false;
    J->nc = round_up(ceil_div(d->n, TILES_EACH * threads), 8 * J->nr);
    J->units = ceil_div(d->n, J->nc);
    J->tsize = aside ? round_up(d->m * J->nc * J->es, 64) : 0;
    return;
  }
  /* Blocks of k, which begin amid of it, go another way (run_deep). */
  if (d->b_im2col && !d->kstep && ty_gemm_direct_plan(d, threads, &J->direct)) {
    J->way = DIRECT;
    J->apack = J->bpack = false;
    J->nc = TY_MIN(J->direct.chunk, J->direct.steps) * J->direct.line;
    J->units = ty_gemm_direct_units(&J->direct);
    J->psize = J->direct.items * J->direct.bytes;
    J->tsize = aside ? round_up(d->m * J->nc * J->es, 64) : 0;
    return;
  }
  J->way = TILES;
  const i64 rows = J->kern->rows, kc = TY_MIN(d->k, KC);
  J->bpack = J->narrow || d->b_im2col || d->bcs != 1 || outgrows_caches(d, rows, J->cs);
  J->apack = J->narrow || (d->n > 4 * J->nr && d->m * d->k * J->cs > A_DIRECT);
  if (d->a_im2col) J->apack = false, J->apitch = kc + 64 / J->cs; /* as in columns */
  J->mc = round_up(ceil_div(d->m, ceil_div(d->m, MC * 4 / J->cs)), rows);
  const i64 mt = ceil_div(d->m, J->mc);
  /* Threads are given blocks of rows first; columns are cut only as far as that does not do. */
  i64 nt = threads == 1 ? 1 : ceil_div(TILES_EACH * threads, mt);
  nt = TY_MAX(1, TY_MIN(nt, d->n / (4 * J->nr)));
  J->nc = round_up(ceil_div(d->n, nt), J->nr);
  if (J->narrow || aside) J->nc = TY_MIN(J->nc, 512); /* its sums are kept in scratch */
  J->keeps =
      J->bpack && !J->narrow && !d->b_im2col && d->bcs == 1 && J->kern->lists && d->m >= rows - 1;
  J->now = J->bpack && (mt == 1 || J->keeps) && !panels;
  J->bpack |= panels;
  if (J->now) J->psize = kc * J->nr * J->cs;
  else if (J->bpack && !panels) {
    const i64 most = TY_MAX(J->nc, PACK_BYTES / (d->k * J->cs) / J->nc * J->nc);
    J->jc = TY_MIN(d->n, most);
    J->bsize = d->k * round_up(J->jc, J->nr) * J->cs;
  }
  J->asize = J->mc * (J->apack ? kc : J->apitch) * J->cs;
  J->ysize = J->narrow || aside ? J->mc * J->nc * J->cs : 0;
  J->tsize = J->narrow && aside ? round_up(J->mc * J->nc * J->es, 64) : 0;
}

/* Bytes of a thread's scratch before a packed b. The finder comes last of them. */
static i64 front(const Portion *J) {
  return round_up(J->asize, 64) + round_up(J->ysize, 64) + J->tsize + round_up(J->psize, 64) +
         J->fsize;
}

static Finder *finder(const Portion *J, char *scratch) {
  return J->fsize ? (Finder *)(scratch + front(J) - J->fsize) : NULL;
}

/* A tile of the item at hand is done. */
static void done(const Portion *J, void *y, i64 stride, i64 i, i64 rows, i64 j, i64 cols) {
  if (!J->epilogue->tile(J->epilogue, y, stride, J->item.row + i, rows, j, cols))
    atomic_store_explicit(J->failed, true, memory_order_relaxed);
}

/* ---- Tiles ---------------------------------------------------------------------------------- */

/* A panel of nr columns, counted from J->j0, for one block of k. */
static void pack_panel(const Portion *J, char *to, i64 k0, i64 j, Finder *F) {
  const Gemm *d = &J->d;
  const i64 kc = TY_MIN(KC, d->k - k0), w = TY_MIN(J->nr, J->jn - j);
  if (d->b_im2col)
    ty_gemm_im2col(d->dtype, to, J->nr, J->item.b, d->b_im2col, J->item.k0 + k0, kc, J->j0 + j, w,
                   J->nr, &F->b, F);
  else
    J->pack(to, J->nr, J->item.b + (k0 * d->brs + (J->j0 + j) * d->bcs) * J->es, d->brs, d->bcs, kc,
            w, J->nr);
}

/* Packs panels [begin, end) of b. Blocks of k follow each other, in each the panels, in each its
** rows. */
static void pack_b(const Portion *J, i64 begin, i64 end, char *scratch) {
  const i64 panels = ceil_div(J->jn, J->nr), wide = panels * J->nr;
  Finder *F = J->d.b_im2col ? finder(J, scratch) : NULL;
  if (F) F->b.ni = 0;
  for (i64 u = begin; u < end; u++) {
    const i64 k0 = u / panels * KC, j = u % panels * J->nr, kc = TY_MIN(KC, J->d.k - k0);
    pack_panel(J, (char *)(uintptr_t)J->bpacked + (k0 * wide + j * kc) * J->cs, k0, j, F);
  }
}

static void pool_pack(void *arg, i64 begin, i64 end) {
  const Portion *J = arg;
  Slot *s = ty_slot_take(J->slot, J->nslots);
  pack_b(J, begin, end, s->mem);
  ty_slot_leave(s);
}

/* The panel that comes next. While the one at hand goes down the rows, a share of it is called into
** the cache before each tile: the hardware guesses neither rows so far apart nor where one panel
** follows another. */
typedef struct Ahead {
  const char *at;
  i64 rows, rs, cs, w; /* left to call; strides in bytes, columns */
  bool down;           /* cache lines lie along columns; rs is an element */
} Ahead;

/* A share of what is left, when so many tiles are. GCC takes functions that only prefetch for such
** as do nothing, and leaves out calls of them: inlined. */
static inline __attribute__((always_inline)) void call_ahead(Ahead *A, i64 tiles) {
  i64 rows = ceil_div(A->rows, tiles);
  if (A->down) rows = TY_MIN(A->rows, round_up(rows, 64 / A->rs));
  const i64 n = A->down ? A->w : rows, pitch = A->down ? A->cs : A->rs;
  const i64 bytes = A->down ? rows * A->rs : A->w * A->cs;
  const char *p = A->at;
  for (i64 i = 0; i < n; i++, p += pitch) {
    for (i64 at = 0; at < bytes; at += 64) __builtin_prefetch(p + at);
    if ((uintptr_t)p % 64) __builtin_prefetch(p + bytes - 1);
  }
  A->at += rows * A->rs;
  A->rows -= rows;
}

/* Rows [0, m) by w columns, for one block of k, in tiles as high as registers allow. t: of the
** first of them; it is changed. next: what to call meanwhile. */
static void panel(const Kern *K, GemmTile *t, i64 m, i64 w, bool apack, Ahead *next) {
  const int nv = w > K->vl ? 2 : 1;
  const i64 arow = (apack ? t->k : t->ars) * K->size;
  const i64 srow = t->srs * K->size, yrow = t->yrs * t->ybytes;
  const i64 rows = K->rows;
  t->last = (int)(w - (nv - 1) * K->vl);
  for (i64 left = m, h; left > 0; left -= h) {
    /* 10 rows go as 6 and 4, not as 8 and 2. Of a packed a whole blocks come first. */
    h = left <= rows ? left : left >= 2 * rows || apack || t->keep ? rows : 2 * ((left + 3) / 4);
    t->rows = (int)h;
    /* y has left L1 since the last block of k: called back while the sums are made. */
    for (i64 r = 0; r < h && !t->first; r++) {
      __builtin_prefetch(t->sums + r * srow, 1);
      __builtin_prefetch(t->sums + r * srow + w * K->size - 1, 1);
    }
    if (next->rows > 0) call_ahead(next, ceil_div(left, rows));
    K->tile[nv - 1][(h - 1) / 2](t);
    if (t->keep) {
      t->b = t->keep;
      t->brs = 2 * K->vl;
      t->keep = NULL;
    }
    t->a += h * arow;
    t->y += h * yrow;
    t->sums += h * srow;
    t->row += h;
  }
}

/* An item that is read as it lies. Its first row is `row` of the batch. */
static void bare(const Kern *K, const Gemm *d, const char *a, const char *b, char *y, i64 row,
                 const GemmList *list) {
  const i64 nr = 2 * K->vl, cs = K->size, ys = list->store ? 2 : cs;
  GemmTile t = {.ars = d->ars, .acs = d->acs, .brs = d->brs, .srs = d->n, .yrs = d->n};
  Ahead none = {0};
  t.op = list->op;
  t.ybytes = (int)ys;
  for (i64 k0 = 0; k0 < d->k; k0 += KC) {
    t.k = TY_MIN(KC, d->k - k0);
    t.first = k0 == 0;
    const bool last = k0 + t.k == d->k;
    t.nops = last ? list->n : 0;
    t.store = last ? list->store : 0;
    for (i64 j = 0; j < d->n; j += nr) {
      t.a = a + k0 * d->acs * cs;
      t.b = b + (k0 * d->brs + j) * cs;
      t.y = y + j * ys;
      t.sums = t.y;
      t.row = row;
      t.col = j;
      panel(K, &t, d->m, TY_MIN(nr, d->n - j), false, &none);
    }
  }
}

/* Columns [j, j1) of the block of k at k0, the first panel of them. */
static void ahead_of(const Portion *J, Ahead *A, i64 k0, i64 j, i64 j1) {
  const Gemm *d = &J->d;
  A->rows = TY_MIN(KC, d->k - k0);
  A->w = TY_MIN(J->nr, j1 - j);
  A->down = false;
  if (J->bpack && !J->now) {
    A->at = J->bpacked + (k0 * round_up(J->jn, J->nr) + j * A->rows) * J->cs;
    A->rs = J->nr * J->cs;
    A->cs = J->cs;
  } else {
    A->at = J->item.b + (k0 * d->brs + (J->j0 + j) * d->bcs) * J->es;
    A->rs = d->brs * J->es;
    A->cs = d->bcs * J->es;
    A->down = d->bcs != 1;
    if (A->down && d->brs != 1) A->rows = 0; /* every element has a line of its own */
  }
}

/* Rows [i0, i1) by columns [j0, j1), counted from J->j0, over all of k. */
static void tile(const Portion *J, i64 i0, i64 i1, i64 j0, i64 j1, char *scratch) {
  const Gemm *d = &J->d;
  const i64 m = i1 - i0, cs = J->cs, rows = J->kern->rows, wide = round_up(J->jn, J->nr);
  const bool epilogue = J->epilogue && !J->late, aside = epilogue && J->epilogue->aside;
  char *sums = scratch + round_up(J->asize, 64);
  char *side = sums + round_up(J->ysize, 64), *packed = side + J->tsize;
  char *out = aside ? (J->narrow ? side : sums) : J->item.y + (i0 * d->n + J->j0 + j0) * J->ys;
  const int store = J->list.store;
  char *y = J->narrow || store ? sums : out;
  const i64 yrs = J->ysize ? J->nc : d->n, ors = aside ? J->nc : d->n;
  /* Columns that an epilogue is shown together. */
  const bool whole = J->narrow || m * (j1 - j0) * cs <= 2 * EPILOGUE_BYTES;
  const i64 show = whole ? j1 - j0 : round_up(EPILOGUE_BYTES / (m * cs) + 1, J->nr);
  const i64 ars = J->apitch ? J->apitch : d->ars;
  GemmTile t = {.ars = J->apack ? 1 : ars,
                .acs = J->apack    ? rows
                       : J->apitch ? 1
                                   : d->acs,
                .brs = J->bpack ? J->nr : d->brs,
                .srs = yrs,
                .op = J->list.op};
  Finder *F = finder(J, scratch);
  if (F) F->a.ni = F->b.ni = 0;
  Ahead next;
  const bool calls = J->bpack && !d->b_im2col;
  for (i64 k0 = 0; k0 < d->k; k0 += KC) {
    const i64 kc = TY_MIN(KC, d->k - k0);
    t.k = kc;
    t.first = k0 == 0;
    t.nops = k0 + kc == d->k ? J->list.n : 0;
    t.store = k0 + kc == d->k ? store : 0;
    t.yrs = t.store ? ors : yrs;
    t.ybytes = (int)(t.store ? J->ys : cs);
    const char *a = J->item.a + (i0 * d->ars + k0 * d->acs) * J->es;
    if (J->apack) {
      for (i64 i = 0; i < m; i += rows)
        J->pack(scratch + i * kc * cs, rows, a + i * d->ars * J->es, d->acs, d->ars, kc,
                TY_MIN(rows, m - i), rows);
      a = scratch;
    } else if (J->apitch) {
      ty_gemm_im2col(d->dtype, scratch, ars, J->item.a, d->a_im2col, i0, m, J->item.k0 + k0, kc, kc,
                     &F->a, F);
      a = scratch;
    }
    /* Down a panel of b while it sits in L1. When k is short, y is what costs: along its rows. */
    const i64 step = kc <= SHORT_K && j1 - j0 > J->nr && !J->now ? 2 * rows : m;
    const bool last = epilogue && !J->narrow && k0 + kc == d->k;
    for (i64 i = 0; i < m; i += step)
      for (i64 j = j0, shown = j0; j < j1; j += J->nr) {
        const i64 h = TY_MIN(step, m - i), w = TY_MIN(J->nr, j1 - j);
        if (ty_watch_stops()) return;
        t.a = a + i * (J->apack ? kc : ars) * cs;
        if (J->now && !(J->keeps && w > J->kern->vl && m >= rows - 1)) {
          pack_panel(J, packed, k0, j, F);
          t.b = packed;
          t.brs = J->nr;
        } else if (J->bpack && !J->now) {
          t.b = J->bpacked + (k0 * wide + j * kc) * cs;
        } else {
          t.b = J->item.b + (k0 * d->brs + J->j0 + j) * cs;
          t.brs = d->brs;
          t.keep = J->now ? packed : NULL;
        }
        next.rows = 0;
        if (calls && h == m && j + J->nr < j1) ahead_of(J, &next, k0, j + J->nr, j1);
        else if (calls && h == m && k0 + KC < d->k) ahead_of(J, &next, k0 + KC, j0, j1);
        t.sums = y + (i * yrs + j - j0) * cs;
        t.y = (t.store ? out : y) + (i * t.yrs + j - j0) * t.ybytes;
        t.row = J->item.row + i0 + i;
        t.col = J->j0 + j;
        panel(J->kern, &t, h, w, J->apack, &next);
        if (!last || (j + w < j1 && j + w - shown < show)) continue;
        done(J, y + (i * yrs + shown - j0) * cs, yrs, i0 + i, h, J->j0 + shown, j + w - shown);
        shown = j + w;
      }
  }
  if (!J->narrow) return;
  if (!store) ty_gemm_narrow(d->dtype, out, ors, sums, yrs, m, j1 - j0);
  if (epilogue) done(J, out, ors, i0, m, J->j0 + j0, j1 - j0);
}

/* ---- Columns -------------------------------------------------------------------------------- */

/* Rows [i0, i1) of a column product to out; b is contiguous in the compute type. */
static void column(const Portion *J, i64 i0, i64 i1, const char *b, char *out, char *scratch) {
  const Gemm *d = &J->d;
  const Kern *K = J->kern;
  const i64 cs = J->cs, lrs = J->depth * (256 / cs); /* a row's stack of lanes, 256 bytes a level */
  char *lanes = scratch, *packed = scratch + J->group * J->depth * 256;
  Finder *F = finder(J, scratch);
  if (F) F->a.ni = 0;
  for (i64 i = i0; i < i1; i += J->group) {
    const i64 nr = TY_MIN(J->group, i1 - i);
    i64 top = 0, block = 0;
    for (i64 k0 = 0; k0 < d->k; k0 += BLOCK, block++) {
      const i64 n = TY_MIN(BLOCK, d->k - k0);
      const char *a = J->item.a + (i * d->ars + k0 * d->acs) * J->es; /* 0 by im2col */
      i64 ars = d->ars;
      if (J->apack) {
        /* Packed as the transpose, so that a column-major a is transposed in squares. */
        ars = n + 64 / cs; /* a line more, or rows a power of two apart share a set of L1 */
        if (d->a_im2col)
          ty_gemm_im2col(d->dtype, packed, ars, J->item.a, d->a_im2col, i, nr, k0, n, n, &F->a, F);
        else J->pack(packed, ars, a, d->ars, d->acs, nr, n, n);
        a = packed;
      }
      K->dot(nr, n, a, ars, b + k0 * cs, lanes + top++ * 256, lrs);
      /* Blocks 2j and 2j + 1 join at once, then pairs of pairs: the tree, without its depth. */
      for (i64 c = block; c & 1; c >>= 1, top--)
        for (i64 r = 0; r < nr; r++) {
          char *l = lanes + r * lrs * cs + (top - 2) * 256;
          K->add(l, l + 256, 256);
        }
    }
    for (; top > 1; top--)
      for (i64 r = 0; r < nr; r++) {
        char *l = lanes + r * lrs * cs + (top - 2) * 256;
        K->add(l, l + 256, 256);
      }
    for (i64 r = 0; r < nr; r++) {
      char *l = lanes + r * lrs * cs;
      u64 y;
      K->join(l, &y);
      if (J->narrow) ty_gemm_narrow(d->dtype, out + (i + r - i0) * J->es, 1, &y, 1, 1, 1);
      else memcpy(out + (i + r - i0) * J->es, &y, (size_t)cs);
    }
  }
}

/* The same where a lies column by column: lanes are as many elements as rows are done together, and
** nothing is transposed. */
static void column_side(const Portion *J, i64 i0, i64 i1, const char *b, char *out, char *scratch) {
  const Gemm *d = &J->d;
  const Kern *K = J->kern;
  const i64 cs = J->cs, lanes = 256 / cs, level = lanes * SIDE_BYTES;
  for (i64 i = i0; i < i1; i += J->group) {
    const i64 nr = TY_MIN(J->group, i1 - i);
    i64 block = 0;
    char *top = scratch;
    for (i64 k0 = 0; k0 < d->k; k0 += BLOCK, block++, top += level) {
      K->side(nr, TY_MIN(BLOCK, d->k - k0), J->item.a + (i + k0 * d->acs) * cs, d->acs, b + k0 * cs,
              top);
      for (i64 c = block; c & 1; c >>= 1, top -= level) K->add(top - level, top, level);
    }
    for (top -= level; top > scratch; top -= level) K->add(top - level, top, level);
    for (i64 h = lanes / 2; h; h /= 2) K->add(top, top + h * SIDE_BYTES, h * SIDE_BYTES);
    memcpy(out + (i - i0) * cs, top, (size_t)(nr * cs));
  }
}

/* ---- Running -------------------------------------------------------------------------------- */

static void run_units(Portion *J, i64 begin, i64 end, char *scratch) {
  const Gemm *d = &J->d;
  const i64 across = J->way == TILES ? ceil_div(J->jn, J->nc) : 1;
  const bool epilogue = J->epilogue && !J->late;
  for (i64 u = begin; u < end; u++) {
    if (u > begin && ty_watch_stops()) return;
    if (J->way == COLUMN) {
      const i64 i = u * J->mc, m = TY_MIN(J->mc, d->m - i);
      char *y = J->tsize ? scratch + round_up(J->asize, 64) : J->item.y + i * J->es;
      (J->side ? column_side : column)(J, i, i + m, J->bpack ? J->bpacked : J->item.b, y, scratch);
      if (epilogue) done(J, y, 1, i, m, 0, 1);
    } else if (J->way == STREAM) {
      const i64 j = u * J->nc, n = TY_MIN(J->nc, d->n - j), yrs = J->tsize ? J->nc : d->n;
      char *y = J->tsize ? scratch : J->item.y + j * J->es;
      const bool transposed = d->bcs != 1;
      (transposed ? J->kern->transposed : J->kern->stream)(d->m, n, d->k, J->item.a, d->ars, d->acs,
                                                           J->item.b + j * d->bcs * J->es,
                                                           transposed ? d->bcs : d->brs, y, yrs);
      if (epilogue) done(J, y, yrs, 0, d->m, j, n);
    } else if (J->way == DIRECT) {
      i64 n, j = ty_gemm_direct_columns(&J->direct, u, &n), yrs = J->tsize ? J->nc : d->n;
      char *y = J->tsize ? scratch : J->item.y + j * J->es;
      ty_gemm_direct(d, &J->direct, J->item.a, J->item.b, J->item.laid, u, y, yrs,
                     scratch + J->tsize, finder(J, scratch));
      if (epilogue) done(J, y, yrs, 0, d->m, j, n);
    } else {
      const i64 i = u / across * J->mc, j = u % across * J->nc;
      tile(J, i, TY_MIN(d->m, i + J->mc), j, TY_MIN(J->jn, j + J->nc), scratch);
    }
  }
}

static void pool_units(void *arg, i64 begin, i64 end) {
  const Portion *J = arg;
  Slot *s = ty_slot_take(J->slot, J->nslots);
  run_units(arg, begin, end, s->mem);
  ty_slot_leave(s);
}

/* A column of im2col: as a row. */
static void pack_column(const Portion *J, char *scratch) {
  const Gemm *d = &J->d;
  Finder *F = finder(J, scratch);
  Im2col transposed = *d->b_im2col;
  transposed.row = d->b_im2col->col, transposed.col = d->b_im2col->row;
  F->b.ni = 0;
  ty_gemm_im2col(d->dtype, (char *)(uintptr_t)J->bpacked, d->k, J->item.b, &transposed, 0, 1, 0,
                 d->k, d->k, &F->b, F);
}

/* One item; over the pool, or on this thread with the scratch of `alone`. */
static void run_item(Portion *J, Slot *alone) {
  const Gemm *d = &J->d;
  for (J->j0 = 0; J->j0 < d->n; J->j0 += J->jc) {
    J->jn = TY_MIN(J->jc, d->n - J->j0);
    if (J->way == TILES) J->units = ceil_div(d->m, J->mc) * ceil_div(J->jn, J->nc);
    if (J->bsize && J->way == COLUMN && d->b_im2col) {
      Slot *own = alone ? alone : ty_slot_take(J->slot, J->nslots);
      pack_column(J, own->mem);
      if (!alone) ty_slot_leave(own);
    } else if (J->bsize && J->way == COLUMN) {
      J->pack((char *)(uintptr_t)J->bpacked, d->k, J->item.b, 0, d->brs, 1, d->k, d->k);
    } else if (J->bsize) {
      const i64 n = ceil_div(J->jn, J->nr) * ceil_div(d->k, KC);
      if (alone) pack_b(J, 0, n, alone->mem);
      else ty_pool_run(n, TY_MAX(1, (64 << 10) / (J->nr * KC)), pool_pack, J);
    }
    if (alone) run_units(J, 0, J->units, alone->mem);
    else ty_pool_run(J->units, 1, pool_units, J);
  }
}

/* The item at batch index i. */
static Item item_at(const Portion *J, const Item *base, i64 i) {
  const Gemm *d = &J->d;
  i64 a = 0, b = 0, rest = i;
  for (int l = d->nlead; l-- > 0;) {
    const i64 x = l ? rest % d->lead[l] : rest;
    rest = l ? rest / d->lead[l] : 0;
    a += x * d->abs[l];
    b += x * d->bbs[l];
  }
  return (Item){base->a + a * J->es,
                base->b + b * J->es,
                base->y + i * d->m * d->n * J->ys,
                i * d->m,
                d->k0 + i * d->kstep,
                NULL};
}

/* An item that is one unit and is read as it lies: tiles without the questions. */
static bool reads_bare(const Portion *J) {
  if (J->list.store && J->d.k > KC) return false; /* y cannot hold sums */
  return J->way == TILES && !J->apack && !J->apitch && !J->bpack && !J->narrow &&
         (!J->epilogue || J->late) && J->mc >= J->d.m && J->nc >= J->d.n;
}

/* Items [begin, end) of the batch, each on this thread alone. A slot's scratch then holds the
** packed b as well, behind the rest. */
static void run_items(Portion *shared, i64 begin, i64 end, Slot *s) {
  Portion J = *shared;
  const i64 rows = J.d.m, bytes = rows * J.d.n * J.es;
  const bool is_bare = reads_bare(&J);
  const i64 together = J.way == DIRECT ? J.direct.items : 1;
  if (J.bsize) J.bpacked = s->mem + front(&J);
  for (i64 i = begin, shown = begin; i < end; i++) {
    if ((i & 63) == 63 && ty_watch_stops()) return;
    J.item = item_at(&J, &shared->item, i);
    if (together > 1) {
      char *laid = s->mem + J.tsize;
      const i64 at = (i - begin) % together;
      if (!at)
        ty_gemm_direct_lay(&J.d, &J.direct, J.item.b, TY_MIN(together, end - i), laid,
                           finder(&J, s->mem));
      J.item.laid = laid + at * J.direct.bytes;
    }
    if (is_bare) bare(J.kern, &J.d, J.item.a, J.item.b, J.item.y, J.item.row, &J.list);
    else run_item(&J, s);
    if (!J.late || (i + 1 < end && (i + 2 - shown) * bytes <= EPILOGUE_BYTES)) continue;
    J.item.row = shown * rows;
    done(&J, shared->item.y + shown * bytes, J.d.n, 0, (i + 1 - shown) * rows, 0, J.d.n);
    shown = i + 1;
  }
}

static void pool_items(void *arg, i64 begin, i64 end) {
  const Portion *J = arg;
  Slot *s = ty_slot_take(J->slot, J->nslots);
  run_items(arg, begin, end, s);
  ty_slot_leave(s);
}

/* Everything on the caller. */
static bool run_alone(Portion *J) {
  const i64 need = front(J) + J->bsize;
  Slot s = {.mem = need ? ty_buf_alloc(need) : NULL};
  if (need && !s.mem) return false;
  run_items(J, 0, J->d.batch, &s);
  ty_buf_free(s.mem, need);
  return true;
}

/* Over the pool: by items, or inside each item. */
static bool run_pool(Portion *J, int threads, bool by_items, i64 grain) {
  Slot slot[POOL_MOST + 1];
  const int n = TY_MIN(threads, POOL_MOST) + 1;
  const i64 each = round_up(front(J) + (by_items ? J->bsize : 0), 64);
  const i64 shared = by_items ? 0 : J->bsize;
  i64 apart;
  char *mem = ty_buf_pieces(n, each, &apart), *packed = shared ? ty_buf_alloc(shared) : NULL;
  if (!mem || (shared && !packed)) {
    ty_buf_free(mem, n * each);
    return false;
  }
  for (int i = 0; i < n; i++) {
    atomic_init(&slot[i].busy, 0);
    slot[i].mem = mem + i * apart;
  }
  J->slot = slot;
  J->nslots = n;
  if (J->bsize) J->bpacked = packed;
  if (by_items) {
    ty_pool_run(J->d.batch, grain, pool_items, J);
  } else {
    const Item base = J->item;
    for (i64 i = 0; i < J->d.batch; i++) {
      J->item = item_at(J, &base, i);
      run_item(J, NULL);
    }
  }
  ty_buf_free(mem, n * each);
  ty_buf_free(packed, shared);
  return true;
}

/* Threads that the product is worth, and the microseconds of one item: its sums, or reading b (8
** elements a nanosecond), whichever is more. */
static int worth_threads(const Gemm *d, double *item) {
  const double macs = (double)d->m * (double)d->n * (double)d->k;
  *item = TY_MAX(macs / ty_gemm_kern(d->dtype)->speed, (double)d->k * (double)(d->m + d->n) / 8000);
  return *item * (double)d->batch < 2 * TASK_MICROSECONDS ? 1 : ty_pool_threads(0);
}

/* Products so small that planning them would show: on the caller, a and b read as they lie. False:
** not one of them. *ok: whether it went well. */
static inline __attribute__((always_inline)) bool
run_small(const Gemm *d, const void *a, const void *b, void *y, const GemmEpilogue *e, bool *ok) {
  const Kern *K = ty_gemm_kern(d->dtype);
  if (d->batch != 1 || d->n <= 1 || K->size != ty_dtypes[d->dtype].bytes) return false;
  static const GemmList nothing;
  const GemmList *list = e && K->lists ? e->list : NULL;
  if (e && e->aside && (!list || d->m <= STREAM_ROWS || d->k > KC)) return false;
  if (d->m <= STREAM_ROWS) { /* a stream of all columns */
    if (d->k * d->n > STREAM_SHORT || (d->bcs != 1 && (d->brs != 1 || !K->transposed)))
      return false;
    if (d->bcs == 1) K->stream(d->m, d->n, d->k, a, d->ars, d->acs, b, d->brs, y, d->n);
    else K->transposed(d->m, d->n, d->k, a, d->ars, d->acs, b, d->bcs, y, d->n);
    list = NULL;
  } else {
    if (d->bcs != 1 || d->m * d->n > SMALL || d->k * d->n > SMALL || d->m * d->k > SMALL)
      return false;
    bare(K, d, a, b, y, 0, list ? list : &nothing);
  }
  *ok = list || !e || e->tile(e, y, d->n, 0, d->m, 0, d->n);
  return true;
}

/* ---- Many blocks of k, few tiles: threads are given blocks, whose sums are added afterwards ---- */

typedef struct Deep {
  const Kern *kern;
  char *y;
  const char *sums; /* of the blocks at hand, one behind the other */
  i64 blocks, bytes;
  bool first;
} Deep;

/* Bytes [begin, end) of y; in units of a cache line. */
static void add_blocks(void *arg, i64 begin, i64 end) {
  const Deep *D = arg;
  const i64 from = begin * 64, n = TY_MIN(end * 64, D->bytes) - from;
  for (i64 u = 0; u < D->blocks; u++) {
    const char *sums = D->sums + u * D->bytes + from;
    if (D->first && u == 0) memcpy(D->y + from, sums, (size_t)n);
    else D->kern->add(D->y + from, sums, n);
  }
}

static bool is_deep(const Portion *J) {
  return J->way == TILES && J->d.batch == 1 && !J->narrow && J->d.k >= DEEP * KC &&
         J->mc >= J->d.m && J->nc >= J->d.n && !(J->epilogue && J->epilogue->aside);
}

/* Blocks of k are the items of a batch, a chunk of them at a time. */
static bool run_deep(Portion *J) {
  const Gemm *d = &J->d;
  const i64 bytes = d->m * d->n * J->cs, all = ceil_div(d->k, KC);
  const i64 chunk = TY_MIN(all, TY_MAX(DEEP, DEEP_BYTES / bytes));
  char *sums = ty_buf_alloc(chunk * bytes);
  Deep D = {J->kern, J->item.y, sums, 0, bytes, true};
  bool ok = sums != NULL;
  for (i64 u = 0; u < all && ok; u += D.blocks) {
    const bool rest = (u + 1) * KC > d->k; /* the last block, which is shorter */
    Gemm part = *d;
    D.blocks = rest ? 1 : TY_MIN(chunk, d->k / KC - u);
    part.k = rest ? d->k - u * KC : KC;
    part.k0 = u * KC;
    part.kstep = KC;
    part.nlead = 1;
    part.batch = part.lead[0] = D.blocks;
    part.abs[0] = KC * d->acs; /* 0 by im2col */
    part.bbs[0] = KC * d->brs;
    ok = ty_gemm(&part, J->item.a + u * KC * d->acs * J->es, J->item.b + u * KC * d->brs * J->es,
                 NULL, sums, NULL);
    if (ok) ty_pool_run(ceil_div(bytes, 64), 256, add_blocks, &D);
    D.first = false;
  }
  if (sums) ty_buf_free(sums, chunk * bytes);
  return ok && (!J->epilogue || J->epilogue->tile(J->epilogue, J->item.y, d->n, 0, d->m, 0, d->n));
}

/* What is worth a plan. Apart from ty_gemm, whose small products pay for no more than they use. */
static __attribute__((noinline)) bool run_planned(const Gemm *d, const void *a, const void *b,
                                                  const void *panels, void *y,
                                                  const GemmEpilogue *epilogue) {
  Portion J;
  double item;
  bool ok;
  _Atomic bool failed;
  atomic_init(&failed, false);
  J.d = *d;
  J.item = (Item){a, b, y, 0, 0, NULL};
  J.epilogue = epilogue;
  J.list = (GemmList){0};
  J.failed = &failed;
  J.bpacked = panels;
  ty_gemm_merge(&J.d);
  if (J.d.m != d->m && !d->b_im2col && run_small(&J.d, a, b, y, epilogue, &ok)) return ok;
  const int threads = worth_threads(&J.d, &item);
  const bool alone = threads <= 1;
  const bool by_items = alone || J.d.batch >= TILES_EACH * threads || item < 2 * TASK_MICROSECONDS;
  const i64 grain = item < TASK_MICROSECONDS ? (i64)(TASK_MICROSECONDS / item) + 1 : 1;
  job_plan(&J, by_items ? 1 : threads, panels != NULL);
  if (!by_items && is_deep(&J)) return run_deep(&J);
  if (J.way == TILES && J.kern->lists) {
    if (d->dtype == T_F16 || d->dtype == T_BF16) J.list.store = d->dtype;
    if (epilogue && epilogue->list && !J.narrow) {
      J.list = *epilogue->list;
      J.ys = J.list.store ? 2 : J.es;
      J.epilogue = NULL;
    }
  }
  J.late = J.epilogue && !epilogue->aside && by_items && J.d.m * J.d.n * J.es <= EPILOGUE_BYTES;
  if (!(alone ? run_alone(&J) : run_pool(&J, threads, by_items, grain))) return false;
  return !epilogue || !atomic_load(&failed);
}

bool ty_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
             const GemmEpilogue *epilogue) {
  const i64 elems = d->batch * d->m * d->n;
  bool ok;
  if (!elems) return true;
  if (!d->k) {
    memset(y, 0, (size_t)(elems * ty_dtypes[d->dtype].bytes));
    return true;
  }
  if (d->amx) return ty_amx_gemm(d, a, b, panels, y, epilogue);
  if (!d->a_im2col && !d->b_im2col && run_small(d, a, b, y, epilogue, &ok)) return ok;
  return run_planned(d, a, b, panels, y, epilogue);
}

/* ---- Panels made ahead ----------------------------------------------------------------------- */

/* As job_plan lays them out when b is packed whole. */
static void panels_plan(Portion *J, const Gemm *d) {
  J->d = *d;
  J->epilogue = NULL;
  ty_gemm_merge(&J->d);
  job_plan(J, 1, false);
  J->j0 = 0;
  J->jn = J->d.n;
}

i64 ty_gemm_panels(const Gemm *d) {
  if (d->amx) return ty_amx_panels(d);
  Portion J;
  if (!d->batch || !d->m || !d->n || !d->k || d->b_im2col) return 0;
  for (int l = 0; l < d->nlead; l++)
    if (d->lead[l] != 1 && d->bbs[l]) return 0; /* not one b */
  panels_plan(&J, d);
  if (J.way != TILES || (!J.bpack && d->k * d->n * J.cs <= B_DIRECT_FEW) || J.d.m > PANEL_ROWS)
    return 0;
  return J.d.k * round_up(J.d.n, J.nr) * J.cs;
}

void ty_gemm_pack(const Gemm *d, const void *b, void *panels) {
  if (d->amx) {
    ty_amx_pack(d, b, panels);
    return;
  }
  Portion J;
  panels_plan(&J, d);
  J.item.b = b;
  J.bpacked = panels;
  pack_b(&J, 0, ceil_div(J.d.n, J.nr) * ceil_div(J.d.k, KC), NULL); /* b is not im2col */
}
