/*
** attend.c -- attention in blocks, whose scores are never in memory together; and the backward pass.
** In:  an Attend (shapes, strides, f32 or f64) and the addresses of its operands; y shares no memory
**      with them. Out: y, the same bits for any instruction set, number of threads, strides. Fails
**      when scratch memory runs out, before anything is written. The caller has entered the
**      floating-point environment of kernels.
**
** With q [.., n, d], k [.., m, d], v [.., m, dv]: y = softmax(scale q k^t + mask) v, a query to a row.
** Forward y holds the result; behind it the largest score of each query, 0 where no key is seen; then
** the sums of exp(score - largest). Backward y holds the gradients of q, k, v one behind the other.
** Results and gradients lie as [.., positions, last leading dim, features], so that heads, the last
** leading dim, are side by side, as the product behind them wants them. Maxima and sums lie as [.., n].
**
** The order, for every query (Dao and others 2022, arXiv:2205.14135; 2023, arXiv:2307.08691):
** 1. Queries go in blocks of QUERIES, keys in blocks of KEYS, ascending. Keys behind the last one that
**    a query of the block may see are left out. A query that sees no key gets zeros.
** 2. q is rounded once after the multiplication by scale. A score is the product of that and the key,
**    in the canonical order of products (gemm.c); the mask is added, or puts -inf in its place.
** 3. A block of keys with maximum b: m' = max(m, b), from -inf. Weights are p = exp(s - m'), where 0
**    stands for an m' of -inf. The sum of weights becomes l exp(m - m') + sum of p, ascending from +0;
**    the result o exp(m - m') + p v, p v a product of its own. At the end o (1 / l), or o 0 for an l of 0.
** 4. Back: g' = g (1 / l), or g 0, mean = the sum of g' y over
**    features, by fma, ascending, p = exp(s - m), dp = g' v^t, ds = p (dp - mean).
**      dv = sum of p^t g', dk = sum of ds^t (scale q), over blocks of queries, ascending
**      dq = (sum of ds k over blocks of keys, ascending) times scale
**    Each is a sum of products of blocks, from +0.
** 5. Dropout multiplies weights behind the sum, and dp, by 0 or 1 / (1 - chance): word j mod 4 of
**    Philox4x32-10 of the counter (j / 4, i, batch) decides for query i and key j.
** What is cut for threads does not show: nothing is summed across a cut.
**
** Scores lie with a row to a key, so that a vector holds queries: no lane meets another. Queries are
** transposed once a block; keys are then read as they lie, and values too where they are dense.
*/
#include "device/cpu/gemm.h"

#include <math.h>

enum {
  QUERIES = 64,           /* of a block */
  KEYS = 64,              /* not more */
  TASK_MICROSECONDS = 20, /* as in gemm.c */
  EACH = 4,               /* units a thread, to even out the load */
};

/* Scratch of a thread: lines of a number for each query, then blocks as wide as features or keys. */
enum { NONE, MAX, FROM, SUM, SHRINK, MEAN, LINES };
enum { QT, SCORES, B, Y, MASK, KEPT, FORWARD, GT = FORWARD, QR, GR, DP, BLOCKS };
#define LINE(i) (mem + (i)*QUERIES * 8)
#define PART(i) (mem + LINES * QUERIES * 8 + (i)*J->part)

typedef struct Portion {
  const Attend *d;
  const Kern *kern;
  PackFn *pack;
  const char *x[AT_OPERANDS];
  char *y;
  i64 es, heads, ahead; /* heads: the last leading dim; ahead: key i + ahead is the last seen */
  i64 part;             /* bytes of a block of scratch */
  i64 blocks, ranges;   /* units of a head: blocks of queries, ranges of keys */
  bool queries, keys;   /* back: whose gradients */
  Slot *slot;
  int nslots;
} Portion;

/* A head: addresses of its first elements, row and column strides. */
typedef struct Head {
  const char *x[AT_OPERANDS];
  i64 rs[AT_OPERANDS], cs[AT_OPERANDS], index, place; /* place: among positions times heads */
} Head;

/* A block of queries. */
typedef struct Rows {
  i64 i, n, width, last; /* keys from `last` on nobody sees */
} Rows;

static i64 ceil_div(i64 n, i64 by) { return (n + by - 1) / by; }

static Head head_at(const Portion *J, i64 index) {
  const Attend *d = J->d;
  Head h = {.index = index};
  for (int x = 0; x < AT_OPERANDS; x++) {
    const int size = x == AT_MASK && d->bits ? 1 : x == AT_KEY ? 4 : (int)J->es;
    const i64 *s = d->strides[x];
    i64 at = d->start[x], rest = index;
    for (int l = d->nlead; l-- > 0; rest /= d->lead[l]) at += rest % d->lead[l] * s[l];
    h.x[x] = J->x[x] ? J->x[x] + at * size : NULL;
    h.rs[x] = s[d->nlead];
    h.cs[x] = s[d->nlead + 1];
  }
  h.place = index / J->heads * J->heads * d->n + index % J->heads;
  return h;
}

/* y[m, n] = a b, or y + a b: sums of blocks of KC join what is there, ascending. */
static __attribute__((noinline)) void product(const Kern *K, i64 m, i64 n, i64 k, const char *a,
                                              i64 ars, i64 acs, const char *b, i64 brs, char *y,
                                              i64 yrs, bool fresh) {
  const i64 nr = 2 * K->vl, cs = K->size, rows = K->rows;
  if (!k && fresh)
    for (i64 i = 0; i < m; i++) memset(y + i * yrs * cs, 0, (size_t)(n * cs));
  for (i64 k0 = 0; k0 < k; k0 += KC)
    for (i64 j = 0; j < n; j += nr) {
      const i64 w = TY_MIN(nr, n - j);
      const int nv = w > K->vl ? 2 : 1;
      GemmTile t = {.k = TY_MIN(KC, k - k0), .ars = ars, .acs = acs, .brs = brs, .srs = yrs};
      t.yrs = yrs;
      t.ybytes = (int)cs;
      t.first = fresh && !k0;
      t.last = (int)(w - (nv - 1) * K->vl);
      t.a = a + k0 * acs * cs;
      t.b = b + (k0 * brs + j) * cs;
      t.y = y + j * cs;
      for (i64 left = m, h; left > 0; left -= h) {
        h = left <= rows ? left : left >= 2 * rows ? rows : 2 * ((left + 3) / 4);
        t.rows = (int)h;
        t.sums = t.y;
        K->tile[nv - 1][(h - 1) / 2](&t);
        t.a += h * ars * cs;
        t.y += h * yrs * cs;
      }
    }
}

/* ---- what both ways do ----------------------------------------------------------------------- */

static __attribute__((noinline)) void store(const Portion *J, void *p, i64 i, double v) {
  if (J->es == 4) ((float *)p)[i] = (float)v;
  else ((double *)p)[i] = v;
}

static __attribute__((noinline)) double load(const Portion *J, const void *p, i64 i) {
  return J->es == 4 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}

static Rows rows_at(const Portion *J, i64 block) {
  const Attend *d = J->d;
  Rows r = {.i = block * QUERIES};
  r.n = TY_MIN(QUERIES, d->n - r.i);
  r.width = ceil_div(r.n, J->kern->vl) * J->kern->vl;
  r.last = d->causal ? TY_MAX(0, TY_MIN(d->m, r.i + r.n + J->ahead)) : d->m;
  return r;
}

static const char *row(const Portion *J, const Head *h, int x, i64 i) {
  return h->x[x] + i * h->rs[x] * J->es;
}

static void scale_all(const Portion *J, char *x, i64 n) {
  double by;
  store(J, &by, 0, J->d->scale);
  J->kern->attend->scale(x, 0, x, 0, 1, n, &by, 0);
}

/* 1 / x, but 0 of 0. */
static void invert(const Portion *J, char *y, const char *x, i64 n) {
  for (i64 i = 0; i < n; i++) {
    const double v = load(J, x, i);
    store(J, y, i, v == 0 ? 0 : J->es == 4 ? (double)(1 / (float)v) : 1 / v);
  }
}

/* Rows of operand x as rows without gaps: where they lie, or packed. */
static const char *dense(const Portion *J, const Head *h, int x, i64 at, i64 n, i64 cols,
                         char *mem) {
  const char *from = row(J, h, x, at);
  if (h->cs[x] == 1 && h->rs[x] == cols) return from;
  J->pack(mem, cols, from, h->rs[x], h->cs[x], n, cols, cols);
  return mem;
}

/* The queries of a block, scaled, features by queries. */
static void turn_queries(const Portion *J, const Head *h, const Rows *r, char *qt) {
  const i64 d = J->d->d;
  J->pack(qt, r->width, row(J, h, AT_Q, r->i), h->cs[AT_Q], h->rs[AT_Q], d, r->n, r->width);
  scale_all(J, qt, d * r->width);
}

/* Scores of keys [j, j + nk), masked. */
static void scores(const Portion *J, const Head *h, const Rows *r, i64 j, i64 nk, char *mem) {
  const Attend *d = J->d;
  char *s = PART(SCORES), *mask = PART(MASK);
  product(J->kern, nk, r->width, d->d, row(J, h, AT_K, j), h->rs[AT_K], h->cs[AT_K], PART(QT),
          r->width, s, r->width, true);
  if (d->mask) {
    const i64 at = r->i * h->rs[AT_MASK] + j * h->cs[AT_MASK], n = nk * r->width;
    PackFn *pack = d->bits ? ty_gemm_packer(T_BOOL) : J->pack;
    pack(mask, r->width, h->x[AT_MASK] + at * (d->bits ? 1 : J->es), h->cs[AT_MASK], h->rs[AT_MASK],
         nk, r->n, r->width);
    if (d->bits) J->kern->attend->mask(s, (const u32 *)mask, n);
    else J->kern->add(s, mask, n * J->es);
  }
  /* Key j + u is seen by queries from j + u - ahead on. */
  for (i64 u = 0; d->causal && u < nk; u++)
    if (j + u > J->ahead + r->i)
      memcpy(s + u * r->width * J->es, LINE(NONE),
             (size_t)(TY_MIN(r->n, j + u - J->ahead - r->i) * J->es));
}

/* Philox4x32-10 (Salmon and others 2011). */
static void dice(u32 c[4], u32 k0, u32 k1) {
  for (int round = 0; round < 10; round++, k0 += 0x9e3779b9, k1 += 0xbb67ae85) {
    const u64 p = (u64)c[0] * 0xd2511f53, q = (u64)c[2] * 0xcd9e8d57;
    const u32 y[4] = {(u32)(q >> 32) ^ c[1] ^ k0, (u32)q, (u32)(p >> 32) ^ c[3] ^ k1, (u32)p};
    memcpy(c, y, sizeof y);
  }
}

/* The factors of the weights of keys [j, j + nk); NULL: there is no dropout. */
static const char *keep(const Portion *J, const Head *h, const Rows *r, i64 j, i64 nk, char *mem) {
  const Attend *d = J->d;
  if (!d->key) return NULL;
  char *z = PART(KEPT);
  const u32 *key = (const u32 *)h->x[AT_KEY], one = (u32)1 << 30;
  const double factor = d->drop < one ? 1 / (1 - d->drop * 0x1p-30) : 0;
  for (i64 i = 0; i < r->n; i++)
    for (i64 u = 0; u < nk; u += 4) { /* j is a multiple of 4 */
      u32 c[4] = {(u32)((j + u) / 4), (u32)(r->i + i), (u32)h->index, (u32)(h->index >> 32)};
      dice(c, key[0], key[h->cs[AT_KEY]]);
      for (i64 w = 0; w < TY_MIN(4, nk - u); w++)
        store(J, z, (u + w) * r->width + i, c[w] >> 2 >= d->drop ? factor : 0);
    }
  return z;
}

static void drop(const Portion *J, char *x, const char *kept, i64 n) {
  for (i64 i = 0; kept && i < n; i++) store(J, x, i, load(J, x, i) * load(J, kept, i));
}

/* ---- forward ---------------------------------------------------------------------------------- */

static void forward(const Portion *J, const Head *h, i64 block, char *mem) {
  const Attend *d = J->d;
  const Kern *K = J->kern;
  const Rows r = rows_at(J, block);
  char *s = PART(SCORES), *y = PART(Y);
  char *max = LINE(MAX), *sum = LINE(SUM);
  char *from = LINE(FROM), *shrink = LINE(SHRINK);
  char *b = PART(B);
  turn_queries(J, h, &r, PART(QT));
  memcpy(max, LINE(NONE), (size_t)(r.width * J->es));
  memset(from, 0, (size_t)(r.width * J->es));
  memset(sum, 0, (size_t)(r.width * J->es));
  memset(y, 0, (size_t)(r.n * d->dv * J->es));
  for (i64 j = 0, nk; j < r.last; j += nk) {
    nk = TY_MIN(KEYS, r.last - j);
    scores(J, h, &r, j, nk, mem);
    K->attend->max(nk, r.width, s, max, from, shrink);
    K->attend->exp(1, r.width, shrink, from, NULL, NULL);
    K->attend->exp(nk, r.width, s, from, sum, shrink);
    drop(J, s, keep(J, h, &r, j, nk, mem), nk * r.width);
    if (j) K->attend->scale(y, d->dv, y, d->dv, r.n, d->dv, shrink, 1);
    const char *v = dense(J, h, AT_V, j, nk, d->dv, b);
    product(K, r.n, d->dv, nk, s, 1, r.width, v, d->dv, y, d->dv, !j);
  }
  char *m = J->y + (d->batch * d->n * d->dv + h->index * d->n + r.i) * J->es;
  char *l = m + d->batch * d->n * J->es;
  memcpy(m, from, (size_t)(r.n * J->es));
  memcpy(l, sum, (size_t)(r.n * J->es));
  invert(J, sum, sum, r.n);
  K->attend->scale(J->y + (h->place + r.i * J->heads) * d->dv * J->es, J->heads * d->dv, y, d->dv,
                   r.n, d->dv, sum, 1);
}

static void forward_units(const Portion *J, i64 begin, i64 end, char *mem) {
  Head h = {.index = -1};
  for (i64 u = begin; u < end; u++) {
    if (h.index != u / J->blocks) h = head_at(J, u / J->blocks);
    forward(J, &h, u % J->blocks, mem);
  }
}

/* ---- backward --------------------------------------------------------------------------------- */

/* What a block of queries brings: g' by rows and transposed, mean, maxima; scaled queries by rows. */
static void gather_rows(const Portion *J, const Head *h, const Rows *r, char *mem) {
  const Attend *d = J->d;
  const Kern *K = J->kern;
  char *g = PART(GR), *q = PART(QR);
  char *by = LINE(SUM), *max = LINE(MAX);
  char *mean = LINE(MEAN), *b = PART(B);
  const char *m = h->x[AT_R], *l; /* R is flat: the same for all heads */
  const char *o = m + (h->place + r->i * J->heads) * d->dv * J->es;
  m += (d->batch * d->n * d->dv + h->index * d->n + r->i) * J->es;
  l = m + d->batch * d->n * J->es;
  memset(max, 0, (size_t)(r->width * J->es));
  memcpy(max, m, (size_t)(r->n * J->es));
  invert(J, by, l, r->n);
  J->pack(g, d->dv, row(J, h, AT_G, r->i), h->rs[AT_G], h->cs[AT_G], r->n, d->dv, d->dv);
  K->attend->scale(g, d->dv, g, d->dv, r->n, d->dv, by, 1);
  J->pack(PART(GT), r->width, g, 1, d->dv, d->dv, r->n, r->width);
  J->pack(b, r->width, o, 1, J->heads * d->dv, d->dv, r->n, r->width);
  K->attend->dot(d->dv, r->width, PART(GT), b, mean);
  turn_queries(J, h, r, PART(QT));
  if (!J->keys) return;
  J->pack(q, d->d, row(J, h, AT_Q, r->i), h->rs[AT_Q], h->cs[AT_Q], r->n, d->d, d->d);
  scale_all(J, q, r->n * d->d);
}

/* Blocks of queries [b0, b1) with keys [j0, j1). */
static void backward(const Portion *J, const Head *h, i64 b0, i64 b1, i64 j0, i64 j1, char *mem) {
  const Attend *d = J->d;
  const Kern *K = J->kern;
  const i64 kplace = h->index / J->heads * J->heads * d->m + h->index % J->heads;
  const i64 krow = J->heads * d->d, vrow = J->heads * d->dv;
  char *s = PART(SCORES), *dp = PART(DP);
  char *sum = PART(Y), *b = PART(B), *dq = J->y;
  char *dk = dq + (d->batch * d->n + kplace) * d->d * J->es;
  char *dv = dq + (d->batch * (d->n + d->m) * d->d + kplace * d->dv) * J->es;
  dq += h->place * d->d * J->es;
  for (i64 j = j0; J->keys && j < j1; j++) {
    memset(dk + j * krow * J->es, 0, (size_t)(d->d * J->es));
    memset(dv + j * vrow * J->es, 0, (size_t)(d->dv * J->es));
  }
  for (i64 u = b0; u < b1; u++) {
    const Rows r = rows_at(J, u);
    const i64 w = r.width;
    if (u > b0 && ty_watch_stops()) return;
    if (j0 >= r.last && !J->queries) continue;
    gather_rows(J, h, &r, mem);
    memset(sum, 0, (size_t)(r.n * d->d * J->es));
    for (i64 j = j0, nk; j < TY_MIN(j1, r.last); j += nk) {
      nk = TY_MIN(KEYS, r.last - j);
      scores(J, h, &r, j, nk, mem);
      product(K, nk, w, d->dv, row(J, h, AT_V, j), h->rs[AT_V], h->cs[AT_V], PART(GT), w, dp, w,
              true);
      K->attend->exp(nk, w, s, LINE(MAX), NULL, NULL);
      const char *z = keep(J, h, &r, j, nk, mem);
      drop(J, dp, z, nk * w);
      K->attend->grad(nk, w, dp, s, LINE(MEAN));
      drop(J, s, z, nk * w);
      if (J->keys) {
        product(K, nk, d->dv, r.n, s, w, 1, PART(GR), d->dv, dv + j * vrow * J->es, vrow, false);
        product(K, nk, d->d, r.n, dp, w, 1, PART(QR), d->d, dk + j * krow * J->es, krow, false);
      }
      if (J->queries)
        product(K, r.n, d->d, nk, dp, 1, w, dense(J, h, AT_K, j, nk, d->d, b), d->d, sum, d->d,
                false);
    }
    double by;
    store(J, &by, 0, d->scale);
    if (J->queries) K->attend->scale(dq + r.i * krow * J->es, krow, sum, d->d, r.n, d->d, &by, 0);
  }
}

static void backward_units(const Portion *J, i64 begin, i64 end, char *mem) {
  const i64 m = J->d->m, blocks = ceil_div(J->d->n, QUERIES);
  const i64 step = ceil_div(ceil_div(m, KEYS), J->ranges) * KEYS, each = J->blocks * J->ranges;
  for (i64 u = begin; u < end; u++) {
    const Head h = head_at(J, u / each);
    const i64 b = u % each / J->ranges, j = u % J->ranges * step;
    const bool all = J->blocks == 1;
    if (j < m || !j)
      backward(J, &h, all ? 0 : b, all ? blocks : b + 1, j, TY_MIN(m, j + step), mem);
  }
}

/* ---- running ---------------------------------------------------------------------------------- */

static void pool_units(void *arg, i64 begin, i64 end) {
  const Portion *J = arg;
  Slot *s = ty_slot_take(J->slot, J->nslots);
  (J->d->grad ? backward_units : forward_units)(J, begin, end, s->mem);
  ty_slot_leave(s);
}

/* Units over the pool. cost: microseconds of a head. */
static void run_units(Portion *J, double cost) {
  const i64 each = J->blocks * J->ranges, n = J->d->batch * each;
  const i64 grain = (i64)TY_MIN(TASK_MICROSECONDS * (double)each / (cost + 0.01), 1e9) + 1;
  ty_pool_run(n, J->nslots == 1 ? n : grain, pool_units, J);
}

/* The backward pass: heads side by side where there are enough of them, else first the gradients of
** queries, by blocks of them, then those of keys and values, by ranges of them. */
static void run(Portion *J, double cost) {
  const i64 want = EACH * J->nslots, batch = J->d->batch;
  J->queries = J->keys = true;
  if (J->d->grad && J->nslots > 1 && batch < want) {
    J->keys = false;
    run_units(J, cost);
    J->queries = false, J->keys = true;
    J->ranges = TY_MIN(TY_MAX(1, ceil_div(J->d->m, KEYS)), ceil_div(want, batch));
  }
  if (J->d->grad) J->blocks = 1;
  run_units(J, cost);
}

bool ty_attend(const Attend *d, const void *const *x, void *y) {
  const Kern *K = ty_gemm_kern(d->dtype);
  Portion J = {.d = d, .kern = K, .pack = ty_gemm_packer(d->dtype), .y = y, .es = K->size};
  Slot slot[POOL_MOST + 1];
  J.heads = d->nlead ? d->lead[d->nlead - 1] : 1;
  J.ahead = d->m - d->n;
  J.blocks = ceil_div(d->n, QUERIES);
  J.ranges = 1;
  for (int i = 0; i < AT_OPERANDS; i++) J.x[i] = x[i];
  J.part = QUERIES * TY_MAX(KEYS, TY_MAX(d->d, d->dv)) * J.es;
  const double pairs = (double)d->n * (double)d->m * (d->causal ? 0.5 : 1);
  const double cost = pairs * (double)(d->d + d->dv + 16) * (d->grad ? 3 : 1) / K->speed;
  const int threads = cost * (double)d->batch < 2 * TASK_MICROSECONDS ? 1 : ty_pool_threads(0);
  const i64 each = LINES * QUERIES * 8 + (d->grad ? BLOCKS : FORWARD) * J.part;
  J.nslots = threads == 1 ? 1 : TY_MIN(threads, POOL_MOST) + 1;
  i64 apart;
  char *mem = ty_buf_pieces(J.nslots, each, &apart);
  if (!mem) return false;
  for (int i = 0; i < J.nslots; i++) {
    atomic_init(&slot[i].busy, 0);
    char *own = slot[i].mem = mem + i * apart;
    memset(own + MAX * QUERIES * 8, 0, QUERIES * sizeof(u32)); /* unseen: all -inf */
    K->attend->mask(own + NONE * QUERIES * 8, (u32 *)(own + MAX * QUERIES * 8), QUERIES);
  }
  J.slot = slot;
  if (d->batch && (d->n || d->grad)) run(&J, cost);
  ty_buf_free(mem, each * J.nslots);
  return true;
}
