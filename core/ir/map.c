/*
** map.c -- index maps: which element of a node a group reads at each point of its domain.
** In:  domains, maps, layouts.  Out: maps composed; dims split where a walk crosses a border.
** Composing fails when the result is not affine, or when memory runs out (then Maps.failed is set
** too).
**
** A map is one affine function into the row-major positions of a node. Reshapes are free in this
** form, and a stored node is read by the map as it stands. Only views, broadcasts and layouts that
** treat dims differently must know the index in every dim; `walk` finds it. The position at point 0
** and the position at the end of each dim of the domain, written as digits in the node's dims, say
** by how much each digit grows a step, if it grows evenly. If every digit then stays in range over
** the whole domain no carry ever happens, and since digits are unique these are the indices. If a
** digit does not grow evenly along a dim of the domain, that dim crosses a border: it is split
** where the first carry comes, and all maps of the domain go along (a split changes none of them).
** When the dim cannot be split evenly there is no affine form, and the caller stores the node.
*/
#include "ir/map.h"

void ty_domain_init(Domain *D, int kind) { *D = (Domain){.kind = (u8)kind, .maps = -1}; }

void ty_domain_push(Domain *D, i64 extent) {
  if (extent != 1) D->dims[D->nd++] = extent;
}

i64 ty_domain_numel(const Domain *D, bool rows) {
  i64 n = 1;
  for (int j = 0; j < D->nd; j++)
    if (!rows || j < D->no || j >= D->no + D->nr) n *= D->dims[j];
  return n;
}

static bool room(Maps *M) {
  if (M->n < M->cap) return true;
  i32 cap = M->cap ? 2 * M->cap : 16;
  Map *at = ty_arena_alloc(M->A, (size_t)cap * sizeof *at);
  if (!at) return !(M->failed = true);
  if (M->n) memcpy(at, M->at, (size_t)M->n * sizeof *at);
  M->at = at, M->cap = cap;
  return true;
}

i32 ty_map_intern(Maps *M, Domain *D, const Map *m) {
  for (i32 i = D->maps; i >= 0; i = M->at[i].next)
    if (M->at[i].start == m->start && !memcmp(M->at[i].coef, m->coef, sizeof(i64) * D->nd))
      return i;
  if (!room(M)) return -1;
  M->at[M->n] = *m;
  M->at[M->n].next = D->maps;
  return D->maps = M->n++;
}

i32 ty_map_identity(Maps *M, Domain *D) {
  Map m = {0};
  i64 step = 1;
  for (int j = D->nd - 1; j >= 0; j--) m.coef[j] = step, step *= D->dims[j];
  return ty_map_intern(M, D, &m);
}

void ty_map_insert(Maps *M, Domain *D, int at, i64 extent) {
  size_t behind = sizeof(i64) * (size_t)(D->nd - at);
  memmove(D->dims + at + 1, D->dims + at, behind);
  D->dims[at] = extent;
  for (i32 i = D->maps; i >= 0; i = M->at[i].next) {
    i64 *c = M->at[i].coef;
    memmove(c + at + 1, c + at, behind);
    c[at] = 0;
  }
  D->nd++;
}

void ty_map_permute(Maps *M, Domain *D, const u8 *order) {
  i64 old[MAX_DIMS];
  memcpy(old, D->dims, sizeof old);
  for (int j = 0; j < D->nd; j++) D->dims[j] = old[order[j]];
  for (i32 i = D->maps; i >= 0; i = M->at[i].next) {
    memcpy(old, M->at[i].coef, sizeof old);
    for (int j = 0; j < D->nd; j++) M->at[i].coef[j] = old[order[j]];
  }
}

/* Dim j becomes two: extent / lo, lo. */
static bool split(Maps *M, Domain *D, int j, i64 lo) {
  if (D->fixed || D->nd == MAX_DIMS) return false;
  i64 hi = D->dims[j] / lo;
  int in_o = j < D->no, in_r = !in_o && j < D->no + D->nr;
  ty_map_insert(M, D, j, hi);
  D->dims[j + 1] = lo;
  for (i32 i = D->maps; i >= 0; i = M->at[i].next) M->at[i].coef[j] = M->at[i].coef[j + 1] * lo;
  D->no = (u8)(D->no + in_o), D->nr = (u8)(D->nr + in_r);
  return true;
}

/* The layout that is walked: dims and strides, neighbours that walk as one made one. */
typedef struct Layout {
  int n;
  i64 dims[MAX_RANK], strides[MAX_RANK];
} Layout;

static void coalesce(Layout *L, int n, const i64 *dims, const i64 *strides) {
  L->n = 0;
  for (int d = 0; d < n; d++) {
    if (dims[d] == 1) continue;
    if (L->n && L->strides[L->n - 1] == strides[d] * dims[d]) L->dims[L->n - 1] *= dims[d], L->n--;
    else L->dims[L->n] = dims[d];
    L->strides[L->n++] = strides[d];
  }
}

static void digits(i64 at, const Layout *L, i64 *y) {
  for (int d = L->n - 1; d > 0; d--) y[d] = at % L->dims[d], at /= L->dims[d];
  y[0] = at;
}

enum { WALKED = -1, CROSSED = -2 };

/* Digits at the start, and by how much each grows a step along each dim of D. WALKED; the dim of D
** along which a digit does not grow evenly; or CROSSED when together they leave a digit's range. */
static int walk(const Domain *D, const Map *m, const Layout *L, i64 *s, i64 q[MAX_DIMS][MAX_RANK]) {
  i64 t[MAX_RANK], lo[MAX_RANK], hi[MAX_RANK];
  digits(m->start, L, s);
  memcpy(lo, s, sizeof lo), memcpy(hi, s, sizeof hi);
  for (int j = 0; j < D->nd; j++) {
    i64 last = D->dims[j] - 1;
    memset(q[j], 0, sizeof q[j]);
    if (!m->coef[j] || !last) continue;
    digits(m->start + m->coef[j] * last, L, t);
    for (int d = 0; d < L->n; d++) {
      i64 delta = t[d] - s[d];
      if (delta % last) return j;
      q[j][d] = delta / last;
      *(delta < 0 ? &lo[d] : &hi[d]) += delta;
    }
  }
  for (int d = 0; d < L->n; d++)
    if (lo[d] < 0 || hi[d] >= L->dims[d]) return CROSSED;
  return WALKED;
}

/* Steps along dim j of D until the first carry; the extent when there is none. */
static i64 first_carry(const Domain *D, const Map *m, const Layout *L, const i64 *s, int j) {
  i64 t[MAX_RANK], n = D->dims[j];
  digits(m->start + m->coef[j], L, t);
  for (int d = 0; d < L->n; d++) {
    i64 q = t[d] - s[d];
    if (q > 0) n = TY_MIN(n, (L->dims[d] - 1 - s[d]) / q + 1);
    if (q < 0) n = TY_MIN(n, s[d] / -q + 1);
  }
  return n;
}

i32 ty_map_through(Maps *M, Domain *D, i32 map, int n, const i64 *dims, const i64 *strides,
                   i64 offset) {
  Layout L;
  Map y = {.start = offset};
  coalesce(&L, n, dims, strides);
  if (L.n == 1) { /* one stride: no digits needed */
    y.start += L.strides[0] * M->at[map].start;
    for (int j = 0; j < D->nd; j++) y.coef[j] = L.strides[0] * M->at[map].coef[j];
  } else if (L.n) {
    i64 s[MAX_RANK], q[MAX_DIMS][MAX_RANK];
    int j;
    while ((j = walk(D, &M->at[map], &L, s, q)) != WALKED) {
      if (j == CROSSED) return -1;
      i64 lo = first_carry(D, &M->at[map], &L, s, j);
      if (lo < 2 || lo == D->dims[j] || D->dims[j] % lo || !split(M, D, j, lo)) return -1;
    }
    for (int d = 0; d < L.n; d++) {
      y.start += s[d] * L.strides[d];
      for (j = 0; j < D->nd; j++) y.coef[j] += q[j][d] * L.strides[d];
    }
  }
  return ty_map_intern(M, D, &y);
}

bool ty_map_touches_rows(const Maps *M, const Domain *D, i32 map) {
  for (int j = D->no; j < D->no + D->nr; j++)
    if (M->at[map].coef[j]) return true;
  return false;
}

bool ty_map_covers(const Maps *M, const Domain *D, i32 map, i64 numel, bool rows) {
  const Map *m = &M->at[map];
  if (m->start || ty_domain_numel(D, rows) != numel) return false;
  /* The strides must be those of a row-major array in some order of dims: each found from the
   * smallest up. */
  for (i64 step = 1; step < numel;) {
    int j = 0;
    while (j < D->nd && m->coef[j] != step) j++;
    if (j == D->nd) return false;
    step *= D->dims[j];
  }
  return true;
}
