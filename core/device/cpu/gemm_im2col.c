/*
** gemm_im2col.c -- implicit im2col: rows and columns of windows over an image, copied for kernels.
** In:  two walks, borders, which rows and which columns.  Out: a dense block in the compute type, zero
** in the borders and beyond the edge; or products that read without one. Cannot fail.
**
** An element lies where its row and its column say together: src[row(i) + col(j)], and each of the
** two is a sum over a few dims. So windows over an image, which share most of their elements, are
** read where the image lies, a block of them at a time.
**
** 1. Along the last dim of a walk the offsets go on evenly: columns fall into pieces, which kernels know
**    how to read.
** 2. An image that was padded has borders: an index of the image, which row and column make
**    together just as they make the offset, must be inside. Rows that add the same to all indices are
**    of one kind, for which pieces are clipped once; what is between pieces becomes zero, and is
**    multiplied like any other element. Nobody else needs to know of borders.
** 3. Windows slide: where a dim of the rows steps over the image as the columns do, some steps at a
**    time, its rows are the same row read a little later. So rows without that dim, their columns a
**    little longer, hold all of them. They are laid out in scratch that stays in L2, a third of what 3
**    by 3 windows read, and every row of the product is found there by where it begins.
** 4. If the dim slides along the lines of the image, what is laid out has no gaps between lines:
**    kernels read full vectors across their ends. If another one slides along a line as well, less is
**    copied, but vectors end with a line. Which is better depends on how many rows read it; or on none
**    at all, and the image is read where it lies, or panels are packed. plan_laid knows the costs, in
**    rows of a product that would take as long.
*/
#include "device/cpu/gemm.h"

enum {
  CHUNK = KC,             /* rows and columns that are looked at together */
  LAID_BYTES = 512 << 10, /* of what is laid out at a time: it stays in L2 */
  LAID_ITEMS = 16,        /* of a batch at a time, at most */
  UNITS_EACH = 4,         /* units of work a thread, to even out the load */
  /* What it costs to copy elements, as rows more of a product with so many: */
  LAY_ROWS = 12,  /* laid out ... */
  PANEL_ROWS = 10 /* or packed in panels */
};

static i64 ceil_div(i64 n, i64 by) { return (n + by - 1) / by; }
static i64 round_up(i64 n, i64 to) { return ceil_div(n, to) * to; }

/* The offsets of [begin, begin + *n) as pieces: neighbours along the last dim; *n becomes less when there
** are more than CHUNK. at: counted from begin. index: of the first of each towards `borders` of them. */
static i64 cut(const Path *w, i32 borders, i64 begin, i64 *n, Piece *y, Index *index) {
  i64 at[PATH_DIMS], rest = begin, count = 0, done = 0, off = 0;
  const int last = w->n - 1;
  for (int d = last; d > 0; d--) {
    at[d] = rest % w->dims[d], rest /= w->dims[d];
    off += at[d] * w->strides[d];
  }
  at[0] = rest;
  off += rest * w->strides[0];
  while (done < *n && count < CHUNK) {
    const i64 len = TY_MIN(w->dims[last] - at[last], *n - done);
    for (int b = 0; b < borders; b++) {
      i64 sum = 0;
      for (int d = 0; d <= last; d++) sum += at[d] * w->steps[b][d];
      index[count].at[b] = sum;
    }
    y[count++] = (Piece){off, done, len};
    done += len;
    off -= at[last] * w->strides[last];
    at[last] = 0;
    for (int d = last - 1; d >= 0; d--) {
      off += w->strides[d];
      if (++at[d] < w->dims[d] || !d) break;
      off -= at[d] * w->strides[d];
      at[d] = 0;
    }
  }
  *n = done;
  return count;
}

/* The kind of rows with this index; kinds mostly come round in turn, so this one is perhaps `next`. */
static i64 kind_of(Seen *y, const Index *x, i32 borders, i64 next) {
  for (i64 i = 0, k = next; i < y->n; i++, k++) {
    int b = 0;
    if (k >= y->n) k = 0;
    while (b < borders && y->index[k].at[b] == x->at[b]) b++;
    if (b == borders) return k;
  }
  y->index[y->n] = *x;
  return y->n++;
}

/* Sorts rows by kind. */
static void sort_kinds(Seen *y, const i64 *kind, const i64 *off) {
  i64 count[KC + 1] = {0};
  for (i64 i = 0; i < y->ni; i++) count[kind[i] + 1]++;
  for (i64 k = 0; k < y->n; k++) y->first[k] = count[k + 1] += count[k];
  y->first[y->n] = y->ni;
  for (i64 i = y->ni; i-- > 0;) {
    const i64 to = --y->first[kind[i]];
    y->off[to] = off[i];
    y->to[to] = i;
  }
}

/* The offsets of rows [i0, i0 + ni), kind by kind, unless they are there. */
static void look(const Im2col *p, i64 i0, i64 ni, Seen *y, Finder *F) {
  if (y->ni == ni && y->i0 == i0) return;
  const Path *w = &p->row;
  const int last = w->n - 1;
  Piece *piece = F->down;
  Index *index = F->row;
  i64 *off = F->off, *kind = F->kind, k = 0, *at = p->borders ? off : y->off;
  y->i0 = i0, y->ni = ni, y->n = 0;
  const i64 n = cut(w, p->borders, i0, &ni, piece, index);
  for (const Piece *q = piece; q < piece + n; q++)
    for (i64 i = 0; i < q->n; i++) *at++ = q->off + i * w->strides[last];
  if (!p->borders) { /* all are of one kind */
    y->n = 1, y->first[0] = 0, y->first[1] = ni;
    for (i64 i = 0; i < ni; i++) y->to[i] = i;
    return;
  }
  for (i64 u = 0; u < n; u++)
    for (i64 i = 0; i < piece[u].n; i++, k++) {
      Index x = {{0}};
      for (int b = 0; b < p->borders; b++)
        x.at[b] = p->start[b] + index[u].at[b] + i * w->steps[b][last];
      kind[piece[u].at + i] = k = kind_of(y, &x, p->borders, k);
    }
  sort_kinds(y, kind, off);
}

/* Pieces of columns as far as rows of a kind have them. */
static i64 clip(const Im2col *p, const Index *row, const Piece *a, const Index *col, i64 n,
                Piece *y) {
  const int last = p->col.n - 1;
  i64 count = 0;
  for (i64 i = 0; i < n; i++) {
    i64 lo = 0, hi = a[i].n;
    for (int b = 0; b < p->borders; b++) {
      const i64 step = p->col.steps[b][last], extent = p->extent[b];
      i64 at = row->at[b] + col[i].at[b], by = step;
      if (step < 0) at = extent - 1 - at, by = -step; /* the same in a mirror */
      if (at >= extent || (!by && at < 0)) hi = 0;
      else if (by) {
        if (at < 0) lo = TY_MAX(lo, by == 1 ? -at : ceil_div(-at, by));
        hi = TY_MIN(hi, by == 1 ? extent - at : ceil_div(extent - at, by));
      }
    }
    if (lo < hi) y[count++] = (Piece){a[i].off + lo * p->col.strides[last], a[i].at + lo, hi - lo};
  }
  return count;
}

/* Rows of a kind by pieces, zero elsewhere up to `end`: as many rows at a time as lie evenly. */
static void pack_kind(PackFn *pack, char *dst, i64 ds, i64 cs, const char *src, i64 es,
                      const i64 *to, const i64 *off, i64 n, const Piece *a, i64 pieces, i64 st,
                      i64 end) {
  for (i64 i = 0, h; i < n; i += h) {
    const i64 down = i + 1 < n ? to[i + 1] - to[i] : 1, ss = i + 1 < n ? off[i + 1] - off[i] : 0;
    for (h = 1; i + h < n && to[i + h] - to[i + h - 1] == down;) {
      if (off[i + h] - off[i + h - 1] != ss) break;
      h++;
    }
    char *y = dst + to[i] * ds * cs;
    const i64 before = pieces ? a->at : end;
    if (before) pack(y, down * ds, src, 0, 0, h, 0, before);
    for (const Piece *p = a; p < a + pieces; p++)
      pack(y + p->at * cs, down * ds, src + (off[i] + p->off) * es, ss, st, h, p->n,
           (p + 1 < a + pieces ? p[1].at : end) - p->at);
  }
}

void ty_gemm_im2col(int dtype, void *dst, i64 ds, const void *src, const Im2col *p, i64 i0, i64 ni,
                    i64 j0, i64 nj, i64 pad, Seen *seen, Finder *F) {
  const Kern *K = ty_gemm_kern(dtype);
  PackFn *pack = ty_gemm_packer(dtype);
  const i64 es = ty_dtypes[dtype].bytes, cs = K->size, st = p->col.strides[p->col.n - 1];
  const bool lay = (st == 1 || st == 2) && K->lay && es == cs;
  Piece *across = F->across, *part = F->part;
  Index *index = F->index;
  for (i64 j = 0, w; j < nj; j += w) {
    w = nj - j;
    const i64 all = cut(&p->col, p->borders, j0 + j, &w, across, index);
    const i64 end = j + w < nj ? w : pad - j;
    for (i64 i = 0; i < ni; i += CHUNK) {
      look(p, i0 + i, TY_MIN(CHUNK, ni - i), seen, F);
      char *to = (char *)dst + (i * ds + j) * cs;
      for (i64 k = 0; k < seen->n; k++) {
        const i64 first = seen->first[k], n = seen->first[k + 1] - first;
        const Piece *a = across;
        i64 pieces = all;
        if (p->borders) pieces = clip(p, &seen->index[k], across, index, all, part), a = part;
        if (lay)
          K->lay(to, ds, seen->to + first, src, seen->off + first, n, a, pieces, st, end, F->lay);
        else
          pack_kind(pack, to, ds, cs, src, es, seen->to + first, seen->off + first, n, a, pieces,
                    st, end);
      }
    }
  }
}

/* ---- Direct: products without panels ---------------------------------------------------------------- */

/* The rows' dim of which most is shared when it slides along the columns' dim c; -1: none. */
static int sliding(const Im2col *p, int c) {
  const i64 steps = p->col.dims[c], stride = p->col.strides[c];
  int best = -1;
  double most = 1;
  for (int r = 0; r < p->row.n && stride; r++) {
    const i64 slide = p->row.strides[r] / stride, n = p->row.dims[r];
    bool even = slide > 0 && p->row.strides[r] % stride == 0;
    for (int b = 0; b < p->borders; b++) even &= p->row.steps[b][r] == slide * p->col.steps[b][c];
    if (!even) continue;
    const double share = (double)n * (double)steps / (double)(steps + (n - 1) * slide);
    if (share > most) best = r, most = share;
  }
  return best;
}

/* Rows' dim r becomes part of columns' dim c, where it slides: its extent becomes 1. Returns by how
** much c is longer. */
static i64 absorb(Direct *y, const Im2col *b, int r, int c) {
  if (r < 0) return 0;
  const i64 slide = b->row.strides[r] / b->col.strides[c], more = (b->row.dims[r] - 1) * slide;
  y->row.strides[r] = slide;
  y->p.row.dims[r] = 1;
  y->p.col.dims[c] += more;
  return more;
}

/* Where the product finds its rows; `first` is the first of the rows' dims that slide. */
static void plan_rows(Direct *y, int first) {
  i64 rows = 1;
  y->group = y->inner = 1;
  for (int i = y->row.n - 1; i >= 0; i--) {
    if (i >= first) y->group *= y->row.dims[i], y->inner *= y->p.row.dims[i];
    if (y->row.strides[i] < 0) y->row.strides[i] = rows * y->pitch, rows *= y->p.row.dims[i];
  }
}

/* Rows that are laid out for so many of the k rows of b, at most. */
static i64 laid_rows(const Direct *w, i64 k, i64 some) {
  return TY_MIN(ceil_div(k, w->group), ceil_div(TY_MIN(k, some) - 1, w->group) + 1) * w->inner;
}

/* What is laid out when columns go on along dim c of their walk, in `units` units or more; full: their
** last dim slides as well, so that columns keep the gaps between lines of the image. Returns what it
** costs, as rows of a product that would take as long as this one. */
static double plan_laid(const Gemm *d, const Kern *K, int c, bool full, i64 units, Direct *y) {
  const Im2col *b = d->b_im2col;
  const int last = b->col.n - 1, r = sliding(b, c), x = full ? sliding(b, last) : -1;
  i64 line = c < last ? b->col.dims[last] : 1;
  *y = (Direct){.laid = true, .p = *b, .items = 1, .row = b->row, .line = line};
  for (int i = 0; i < b->row.n; i++) y->row.strides[i] = -1; /* not known yet */
  y->steps = b->col.dims[c];
  y->runs = d->n / (y->steps * line);
  y->longer = absorb(y, b, r, c);
  y->wide = line + absorb(y, b, x, last);
  if (r >= 0) y->row.strides[r] *= y->wide;
  const int first = r < 0 ? x < 0 ? b->row.n : x : x < 0 ? r : TY_MIN(r, x);
  plan_rows(y, first); /* for their counts: there is no pitch yet */
  const i64 step = y->wide * K->size;
  y->depth = d->k;
  if (laid_rows(y, d->k, d->k) * (y->steps + y->longer) * step > LAID_BYTES) y->depth = KC;
  y->rows = laid_rows(y, d->k, y->depth);
  const i64 fit = LAID_BYTES / (y->rows * step) - y->longer, share = ceil_div(d->n, units * line);
  y->chunk = TY_MAX(1, TY_MIN(TY_MIN(y->steps, share), fit));
  /* Full vectors, if it can be. */
  if (y->chunk < y->steps && y->chunk >= K->vl) y->chunk = y->chunk / K->vl * K->vl;
  const i64 n = y->chunk * line, all = (y->chunk + y->longer) * y->wide;
  y->pitch = (ceil_div(all, K->vl) | 1) * K->vl; /* rows lie in all sets of L1 */
  y->bytes = y->rows * y->pitch * K->size;
  for (int i = 0; i < b->row.n; i++)
    if (i != r && i != x) y->row.strides[i] = -1;
  plan_rows(y, first);
  y->col = (Path){.n = 1, .dims = {n}, .strides = {1}};
  if (x >= 0) y->col = (Path){.n = 2, .dims = {y->chunk, line}, .strides = {y->wide, 1}};
  const i64 even = x >= 0 ? line : n;
  const double copied = (double)y->rows * (double)all / ((double)y->depth * (double)n);
  return ((double)d->m + LAY_ROWS * copied) * (double)round_up(even, K->vl) / (double)even;
}

/* Items of the batch are laid out together where one does not fill the scratch: they are one more dim
** of the rows. */
static void plan_items(const Gemm *d, Direct *y) {
  const int n = y->p.row.n;
  int lead = -1, count = 0;
  for (int i = 0; i < d->nlead; i++)
    if (d->lead[i] > 1) lead = i, count++;
  if (count != 1 || n == PATH_DIMS || y->depth < d->k || ty_gemm_direct_units(y) > 1) return;
  y->items = TY_MIN(TY_MIN(LAID_ITEMS, d->batch), TY_MAX(1, LAID_BYTES / y->bytes));
  if (y->items == 1) return;
  Path *w = &y->p.row, one = *w;
  w->n++;
  w->dims[0] = y->items, w->strides[0] = d->bbs[lead];
  memcpy(w->dims + 1, one.dims, sizeof(i64) * (size_t)n);
  memcpy(w->strides + 1, one.strides, sizeof(i64) * (size_t)n);
  for (int b = 0; b < BORDERS; b++) {
    w->steps[b][0] = 0;
    memcpy(w->steps[b] + 1, one.steps[b], sizeof(i64) * (size_t)n);
  }
}

bool ty_gemm_direct_plan(const Gemm *d, int threads, Direct *y) {
  const Kern *K = ty_gemm_kern(d->dtype);
  const Path *col = &d->b_im2col->col;
  const i64 len = col->dims[col->n - 1], step = col->strides[col->n - 1], m = d->m;
  if (d->a_im2col || !K->direct || ty_dtypes[d->dtype].bytes != K->size || (step != 1 && step != 2))
    return false;
  const i64 units = threads == 1 ? 1 : UNITS_EACH * threads;
  double best = (double)(m + PANEL_ROWS) * (double)round_up(d->n, 2 * K->vl) / (double)d->n;
  bool found = false;
  if (step == 1 && !d->b_im2col->borders) {
    /* A tenth more: lines of the cache are met in no order. */
    const double here = 1.1 * (double)m * (double)round_up(len, K->vl) / (double)len;
    if (here < best) {
      *y = (Direct){
          .runs = 1, .line = 1, .steps = d->n, .items = 1, .row = d->b_im2col->row, .col = *col};
      y->chunk = round_up(ceil_div(d->n, units), 16 * K->vl);
      best = here, found = true;
    }
  }
  for (int way = 0; way < 3; way++) {
    Direct laid;
    const bool along = way == 2 || col->n == 1; /* the last dim itself */
    if (way && step > 1) break;
    if (way < 2 && along) continue;
    const double rows = plan_laid(d, K, col->n - 1 - !along, way == 1, units, &laid);
    if (rows < best && laid.bytes <= 2 * LAID_BYTES) *y = laid, best = rows, found = true;
  }
  if (found && y->laid && threads == 1) plan_items(d, y);
  return found;
}

i64 ty_gemm_direct_units(const Direct *w) { return w->runs * ceil_div(w->steps, w->chunk); }

i64 ty_gemm_direct_columns(const Direct *w, i64 unit, i64 *n) {
  const i64 each = ceil_div(w->steps, w->chunk), at = unit % each * w->chunk;
  *n = TY_MIN(w->chunk, w->steps - at) * w->line;
  return (unit / each * w->steps + at) * w->line;
}

/* Lays out what a unit reads of w->depth rows of b from k0 on. Returns the first row laid out. */
static i64 lay_out(const Gemm *d, const Direct *w, i64 k0, i64 unit, const char *b, char *to,
                   Finder *F) {
  const i64 end = ceil_div(TY_MIN(k0 + w->depth, d->k), w->group) * w->inner;
  const i64 first = k0 / w->group * w->inner;
  const i64 each = ceil_div(w->steps, w->chunk), at = unit % each * w->chunk;
  const i64 j0 = (unit / each * (w->steps + w->longer) + at) * w->wide;
  const i64 n = (TY_MIN(w->chunk, w->steps - at) + w->longer) * w->wide;
  F->b.ni = 0;
  ty_gemm_im2col(d->dtype, to, w->pitch, b, &w->p, first, end - first, j0, n, n, &F->b, F);
  return first;
}

/* Pieces of at most `most` elements. */
static i64 shred(const Piece *p, i64 n, i64 most, Piece *y) {
  i64 count = 0;
  for (; n > 0; n--, p++)
    for (i64 i = 0; i < p->n; i += most)
      y[count++] = (Piece){p->off + i, p->at + i, TY_MIN(most, p->n - i)};
  return count;
}

void ty_gemm_direct_lay(const Gemm *d, const Direct *w, const char *b, i64 n, char *scratch,
                        Finder *F) {
  const i64 all = (w->steps + w->longer) * w->wide;
  F->b.ni = 0;
  ty_gemm_im2col(d->dtype, scratch, w->pitch, b, &w->p, 0, n * w->rows, 0, all, all, &F->b, F);
}

void ty_gemm_direct(const Gemm *d, const Direct *u, const char *a, const char *b, const char *laid,
                    i64 unit, char *y, i64 yrs, char *scratch, Finder *F) {
  const Kern *K = ty_gemm_kern(d->dtype);
  const Im2col found = {.row = u->row}; /* no borders here */
  const char *from = laid ? laid : u->laid ? scratch : b;
  Piece *across = F->across, *part = F->part;
  i64 n, first = 0, j0 = ty_gemm_direct_columns(u, unit, &n);
  if (u->laid) j0 = 0;
  F->a.ni = 0;
  for (i64 k0 = 0; k0 < d->k; k0 += KC) {
    const i64 kc = TY_MIN(KC, d->k - k0);
    if (u->laid && !laid && k0 % u->depth == 0) first = lay_out(d, u, k0, unit, b, scratch, F);
    look(&found, k0, kc, &F->a, F);
    for (i64 j = 0, w; j < n; j += w) {
      w = TY_MIN(CHUNK, n - j);
      const i64 count = shred(across, cut(&u->col, 0, j0 + j, &w, across, NULL), K->vl, part);
      for (i64 i = 0; i < count; i += 2) /* two at a time keep the multiplier busy */
        K->direct(d->m, kc, a + k0 * d->acs * K->size, d->ars, d->acs,
                  from - first * u->pitch * K->size, F->a.off, part + i, TY_MIN(2, count - i),
                  i + 2 < count ? part[i + 2].off - part[i].off : 0, y + j * K->size, yrs, k0 == 0);
    }
  }
}
