/*
** plan_memory.c -- where the temporaries of a plan lie: pieces of one arena, or of outputs not yet written.
** In:  pieces with their lifetimes.  Out: owner and offset of each guest, the bytes of the arena.
** Fails when out of memory, or where bytes are beyond counting.
**
** Two guests share bytes if they do not live together. An owner is the buffer of a fresh output: before
** its first write it is memory like any other (in a training step gradients are large and come late).
** One guest after another is placed, where the first of these has room: the smallest gap of the arena as
** it is, an owner, the arena's end. Those that no owner takes come first; of the others those that live
** longest, or the largest ones: both orders are tried, and the one with the smaller arena stays.
*/
#include "compile/plan.h"

enum { OWNER_MIN = 1024, OWNER_TRIES = 16 }; /* bytes of an owner that is worth looking at */

typedef struct Layout {
  Piece *piece;
  i32 *order, n;        /* guests */
  i32 *owner, nowners;  /* the smallest first */
  i32 *placed, nplaced; /* by offset */
  i64 total;
} Layout;

static i64 whole_lines(i64 bytes) { return (bytes + 63) & ~(i64)63; }

/* Where in the owner (-1: the arena) the guest has its place; -1: nowhere. */
static i64 place_in(const Layout *Y, const Piece *g, i32 owner, i64 room) {
  i64 bytes = whole_lines(g->bytes), end = 0, best = -1, best_gap = INT64_MAX;
  for (i32 i = 0; i < Y->nplaced; i++) {
    const Piece *q = &Y->piece[Y->placed[i]];
    if (q->owner != owner || q->last < g->first || g->last < q->first) continue;
    i64 gap = q->offset - end;
    if (gap >= bytes && gap < best_gap) best = end, best_gap = gap;
    end = TY_MAX(end, q->offset + whole_lines(q->bytes));
  }
  return best >= 0 || room - end < g->bytes ? best : end;
}

static bool may_own(const Piece *h, const Piece *g) {
  return g->kind == PIECE_GUEST && h->bytes >= g->bytes && h->first > g->last;
}

static bool has_host(const Layout *Y, const Piece *g) {
  for (i32 i = 0; i < Y->nowners; i++)
    if (may_own(&Y->piece[Y->owner[i]], g)) return true;
  return false;
}

static bool find_host(const Layout *Y, Piece *g) {
  for (i32 i = 0, tries = 0; i < Y->nowners && tries < OWNER_TRIES; i++) {
    const Piece *h = &Y->piece[Y->owner[i]];
    if (!may_own(h, g)) continue;
    tries++;
    if ((g->offset = place_in(Y, g, Y->owner[i], h->bytes)) < 0) continue;
    g->owner = Y->owner[i];
    return true;
  }
  return false;
}

static bool place(Layout *Y, i32 k) {
  Piece *g = &Y->piece[k];
  i64 end;
  g->owner = -1;
  g->offset = place_in(Y, g, -1, Y->total);
  if (g->offset < 0 && !find_host(Y, g)) {
    g->offset = place_in(Y, g, -1, INT64_MAX);
    if (!ty_add(g->offset, whole_lines(g->bytes), &end)) return false;
    Y->total = TY_MAX(Y->total, end);
  }
  i32 i = Y->nplaced++;
  for (; i > 0 && Y->piece[Y->placed[i - 1]].offset > g->offset; i--)
    Y->placed[i] = Y->placed[i - 1];
  Y->placed[i] = k;
  return true;
}

static bool comes_before(const Piece *a, const Piece *b, bool longest) {
  return longest ? a->last - a->first > b->last - b->first : a->bytes > b->bytes;
}

static bool arrange(Layout *Y, bool longest) {
  for (i32 k = 1; k < Y->n; k++) {
    i32 g = Y->order[k], i = k;
    for (; i > 0 && comes_before(&Y->piece[g], &Y->piece[Y->order[i - 1]], longest); i--)
      Y->order[i] = Y->order[i - 1];
    Y->order[i] = g;
  }
  Y->nplaced = 0;
  Y->total = 0;
  for (int hosted = 0; hosted < 2; hosted++)
    for (i32 i = 0; i < Y->n; i++)
      if (has_host(Y, &Y->piece[Y->order[i]]) == hosted && !place(Y, Y->order[i])) return false;
  return true;
}

bool ty_layout(Arena *A, Piece *piece, i32 n, i64 *total) {
  i32 *space = ty_arena_alloc(A, sizeof(i32) * 3 * (size_t)TY_MAX(n, 1));
  if (!space) return false;
  Layout Y = {.piece = piece, .order = space, .owner = space + n, .placed = space + 2 * n};
  for (i32 k = 0; k < n; k++) {
    piece[k].owner = -1;
    if (piece[k].kind == PIECE_GUEST || piece[k].kind == PIECE_ARENA) Y.order[Y.n++] = k;
    if (piece[k].kind != PIECE_OWNER || piece[k].bytes < OWNER_MIN) continue;
    i32 i = Y.nowners++;
    for (; i > 0 && piece[Y.owner[i - 1]].bytes > piece[k].bytes; i--) Y.owner[i] = Y.owner[i - 1];
    Y.owner[i] = k;
  }
  if (!arrange(&Y, true)) return false;
  i64 longest = Y.total;
  if (!arrange(&Y, false) || (Y.total > longest && !arrange(&Y, true))) return false;
  *total = Y.total;
  return true;
}
