/*
** lanes.c -- instructions among the lanes of a warp: shuffles, votes, matches, reductions.
** run.c calls them when all lanes that the member mask names have come to the instruction. Code.width is the operand that
** holds this mask. What comes from a lane that is not there is undefined, and reported.
*/
#include "exec.h"

uint32_t sync_mask(const Warp *w, const Code *c, uint32_t mask) {
  return SLOT32(w, c->o[c->width])[__builtin_ctz(mask)];
}

static void put(Warp *w, int predicate, uint32_t value, uint32_t mask) {
  if (predicate != NO_SLOT) w->preds[predicate] = (w->preds[predicate] & ~mask) | (value & mask);
}

/* d, p, a, b, c, membermask; Code.op is 0 up, 1 down, 2 bfly, 3 idx */
void run_shfl(Warp *w, const Code *c, uint32_t mask) {
  const uint32_t *a = SLOT(uint32_t, 2), *b = SLOT(uint32_t, 3), *e = SLOT(uint32_t, 4);
  uint32_t result[WARP], inside = 0;
  for (uint32_t l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    uint32_t by = b[l] & 31, clamp = e[l] & 31, segment = e[l] >> 8 & 31;
    int low = (int)(l & segment), most = (int)((l & segment) | (clamp & ~segment));
    int from[] = {(int)l - (int)by, (int)(l + by), (int)(l ^ by), low | (int)(by & ~segment)};
    int j = from[c->op];
    bool valid = c->op == 0 ? j >= most : j <= most;
    if (!valid) j = (int)l;
    inside |= (uint32_t)valid << l;
    if (!(mask >> j & 1)) {
      fail(w, c, (int)l, LAUNCH_FAILED, "shfl reads lane %d, which does not take part", j);
      return;
    }
    result[l] = a[j];
  }
  uint32_t *d = SLOT(uint32_t, 0);
  LANES(d[l] = result[l];);
  put(w, c->o[1], inside, mask);
}

/* d, a, membermask; Code.op is 0 all, 1 any, 2 uni, 3 ballot */
void run_vote(Warp *w, const Code *c, uint32_t mask) {
  uint32_t votes = (w->preds[c->o[1]] ^ (c->neg & 2 ? ~(uint32_t)0 : 0)) & mask;
  if (c->op == 3) {
    uint32_t *d = SLOT(uint32_t, 0);
    LANES(d[l] = votes;);
    return;
  }
  bool all = votes == mask, any = votes != 0;
  bool result = c->op == 0 ? all : c->op == 1 ? any : all || !any;
  put(w, c->o[0], result ? ~(uint32_t)0 : 0, mask);
}

static uint64_t matched(const Warp *w, const Code *c, int lane) {
  return type_size((Type)c->type) == 8 ? SLOT(uint64_t, 2)[lane] : SLOT(uint32_t, 2)[lane];
}

/* d, p, a, membermask; Code.op is 0 any, 1 all */
void run_match(Warp *w, const Code *c, uint32_t mask) {
  uint32_t result[WARP], whole = ~(uint32_t)0;
  for (int l = 0; l < WARP; l++) {
    result[l] = 0;
    for (int k = 0; k < WARP && mask >> l & 1; k++)
      if (mask >> k & 1 && matched(w, c, k) == matched(w, c, l)) result[l] |= 1u << k;
    if (mask >> l & 1 && result[l] != mask) whole = 0;
  }
  uint32_t *d = SLOT(uint32_t, 0);
  LANES(d[l] = c->op ? mask & whole : result[l];);
  put(w, c->o[1], whole, mask);
}

void run_activemask(Warp *w, const Code *c, uint32_t mask) {
  uint32_t *d = SLOT(uint32_t, 0);
  LANES(d[l] = mask;);
}

void run_bar_warp(Warp *w, const Code *c, uint32_t mask) {
  (void)c;
  (void)mask;
  w->sync++;
}

/* d, a, membermask; Code.op is 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor */
void run_redux(Warp *w, const Code *c, uint32_t mask) {
  const uint32_t *a = SLOT(uint32_t, 1);
  bool is_signed = c->type == T_S32, first = true;
  uint32_t r = 0;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    uint32_t v = a[l];
    bool less = is_signed ? (int32_t)v < (int32_t)r : v < r;
    uint32_t next[] = {r + v, less ? v : r, less ? r : v, r & v, r | v, r ^ v};
    r = first ? v : next[c->op];
    first = false;
  }
  uint32_t *d = SLOT(uint32_t, 0);
  LANES(d[l] = r;);
}

/* d, p, membermask: the lowest lane is chosen */
void run_elect(Warp *w, const Code *c, uint32_t mask) {
  uint32_t lane = (uint32_t)__builtin_ctz(mask);
  if (c->o[0] != NO_SLOT) LANES(SLOT(uint32_t, 0)[l] = lane;);
  put(w, c->o[1], 1u << lane, mask);
}
