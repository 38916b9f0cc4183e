/*
** run.c -- runs a launch: its blocks in an order of the seed, the warps of a block in turn, each until it waits or ends.
**
** Lanes of a warp that are at one place are a split. The split with the lowest place runs first, until it comes to where
** another one is and joins it: for code whose loops and branches are laid out in order, that is where paths meet again. A
** split that comes to an instruction for several lanes (shuffle, vote, barrier) waits until all lanes that it needs are there;
** when all splits wait, lanes are missing, and that is reported.
**
** Barriers order memory accesses by vector clocks: a warp knows how far it has seen each other one (access.c).
*/
#include <stdarg.h>

#include "exec.h"

char report_text[2048];
Counts counts;
static uint32_t clock_base = 1, launch_serial;

/* --- reports */

void report(const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(report_text, sizeof report_text, format, list);
  va_end(list);
  if (settings.verbose) fprintf(stderr, "software GPU: %s\n", report_text);
}

void fail(Warp *w, const Code *c, int lane, int error, const char *format, ...) {
  Block *b = w->block;
  if (b->error) return; /* the first one counts */
  b->error = error;
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  const uint32_t *size = b->launch->block;
  uint32_t thread = (uint32_t)(w->index * WARP + (lane < 0 ? 0 : lane));
  report("kernel %s, line %d, block (%u, %u, %u), thread (%u, %u, %u): %s", b->kernel->name,
         c->line, b->id[0], b->id[1], b->id[2], thread % size[0], thread / size[0] % size[1],
         thread / size[0] / size[1], text);
}

/* --- splits */

static Split *split_add(Warp *w, int32_t pc, uint32_t mask) {
  Split *s = w->splits + w->n_splits++;
  *s = (Split){pc, mask, false};
  return s;
}

/* Splits at one place become one; gives the lowest that does not wait, and where it meets the next. */
static Split *split_pick(Warp *w, int32_t *meets) {
  int kept = 0;
  for (int i = 0; i < w->n_splits; i++) {
    Split s = w->splits[i];
    int at = 0;
    while (at < kept && w->splits[at].pc != s.pc) at++;
    if (!s.mask) continue;
    if (at == kept) w->splits[kept++] = s;
    else w->splits[at] = (Split){s.pc, w->splits[at].mask | s.mask, false};
  }
  w->n_splits = kept;
  Split *low = NULL;
  for (int i = 0; i < kept; i++)
    if (!w->splits[i].blocked && (!low || w->splits[i].pc < low->pc)) low = w->splits + i;
  *meets = INT32_MAX;
  for (int i = 0; low && i < kept; i++)
    if (w->splits[i].pc > low->pc && w->splits[i].pc < *meets) *meets = w->splits[i].pc;
  return low;
}

/* --- barriers */

static void clock_least(Warp *w) {
  w->known = w->clock[0];
  for (int i = 1; i < w->block->n_warps; i++)
    if (w->clock[i] < w->known) w->known = w->clock[i];
}

static void barrier_release(Block *b, Barrier *bar) {
  for (uint32_t rest = bar->waiting; rest; rest &= rest - 1) {
    Warp *w = b->warps + __builtin_ctz(rest);
    w->waits = false;
    for (int i = 0; i < b->n_warps; i++)
      if (bar->join[i] > w->clock[i]) w->clock[i] = bar->join[i];
    clock_least(w);
    const Code *red = w->reduces;
    w->reduces = NULL;
    if (!red) continue;
    uint32_t mask = w->live;
    bool result = red->op == 1 ? bar->holds == bar->threads : bar->holds > 0;
    if (red->op == 0) {
      uint32_t *d = SLOT32(w, red->o[0]);
      LANES(d[l] = (uint32_t)bar->holds;);
    } else w->preds[red->o[0]] = result ? ~(uint32_t)0 : 0;
  }
  *bar = (Barrier){0};
  counts.barriers++;
}

/* Code.op: 0 popc, 1 and, 2 or of bar.red; Code.sat: 0 sync, 1 arrive, 2 red. Operands: d of red, barrier, count, predicate. */
static void barrier_arrive(Warp *w, const Code *c, uint32_t mask) {
  Block *b = w->block;
  int lane = __builtin_ctz(mask), first = c->sat == 2;
  uint32_t id = SLOT(uint32_t, first)[lane],
           count = c->o[first + 1] == NO_SLOT ? 0 : SLOT(uint32_t, first + 1)[lane];
  if (id > 15) {
    fail(w, c, lane, LAUNCH_FAILED, "barrier %u: there are 16", id);
    return;
  }
  if (w->live != w->lanes) {
    fail(w, c, lane, LAUNCH_FAILED, "barrier divergence: lanes 0x%x of the warp have exited",
         w->lanes & ~w->live);
    return;
  }
  Barrier *bar = b->barriers + id;
  int expected = count ? (int)count : b->n_warps * WARP;
  if (count % WARP || (bar->arrived && bar->expected != expected)) {
    fail(w, c, lane, LAUNCH_FAILED, "barrier %u for %d threads, where %d are expected", id,
         expected, bar->expected);
    return;
  }
  bar->expected = expected;
  bar->arrived += WARP;
  bar->threads += __builtin_popcount(mask);
  if (c->sat == 2) {
    uint32_t p = w->preds[c->o[3]] ^ (c->neg & 8 ? ~(uint32_t)0 : 0);
    bar->holds += __builtin_popcount(p & mask);
    w->reduces = c;
  }
  w->clock[w->index]++;
  for (int i = 0; i < b->n_warps; i++)
    if (w->clock[i] > bar->join[i]) bar->join[i] = w->clock[i];
  if (c->sat != 1) {
    w->waits = true;
    w->barrier = (int)id;
    w->waits_at = c;
    bar->waiting |= 1u << w->index;
  }
  if (bar->arrived >= expected) barrier_release(b, bar);
}

/* --- one warp */

static void check_reads(Warp *w, const Code *c, uint32_t mask) {
  const uint16_t *t = c->touched;
  for (int i = 0; i < c->reads; i++) {
    uint32_t missing = mask & ~w->written[t[i]];
    if (missing)
      fail(w, c, __builtin_ctz(missing), LAUNCH_FAILED, "a register is read that was not written");
  }
  t += c->reads + c->writes;
  for (int i = 0; i < c->preds_read; i++) {
    uint32_t missing = mask & ~w->preds_written[t[i]];
    if (missing)
      fail(w, c, __builtin_ctz(missing), LAUNCH_FAILED, "a predicate is read that was not written");
  }
}

static void mark_writes(Warp *w, const Code *c, uint32_t mask) {
  const uint16_t *t = c->touched + c->reads;
  for (int i = 0; i < c->writes; i++) w->written[t[i]] |= mask;
  t += c->writes + c->preds_read;
  for (int i = 0; i < c->preds_written; i++) w->preds_written[t[i]] |= mask;
}

static void split_branch(Warp *w, Split *s, const Code *c, int32_t pc, uint32_t mask) {
  uint32_t rest = s->mask & ~mask;
  if (c->flow == F_BRX) { /* by lanes: Code.target is a list of labels, operand 0 an index */
    const int *list = w->block->kernel->targets + c->target;
    s->mask = rest;
    s->pc = pc + 1;
    for (int l = 0; l < WARP; l++) {
      if (!(mask >> l & 1)) continue;
      uint32_t index = SLOT(uint32_t, 0)[l];
      if (index >= (uint32_t)list[0]) {
        fail(w, c, l, ILLEGAL_INSTRUCTION, "brx.idx: index %u of a list of %d", index, list[0]);
        return;
      }
      int i = 0;
      while (i < w->n_splits && (w->splits[i].pc != list[1 + index] || !w->splits[i].mask)) i++;
      if (i < w->n_splits) w->splits[i].mask |= 1u << l, w->splits[i].blocked = false;
      else {
        for (i = 0; i < w->n_splits && w->splits[i].mask; i++) {}
        if (i == w->n_splits) w->n_splits++;
        w->splits[i] = (Split){list[1 + index], 1u << l, false};
      }
    }
    return;
  }
  s->mask = mask;
  s->pc = c->target;
  if (rest) split_add(w, pc + 1, rest);
}

/* Whether an instruction for several lanes may go on; else the split waits. */
static bool lanes_here(Warp *w, Split *s, const Code *c, uint32_t mask) {
  if (c->flow == F_BAR) {
    if (mask == w->live) return true;
    s->blocked = true;
    return false;
  }
  uint32_t named = sync_mask(w, c, mask);
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int l = __builtin_ctz(rest);
    uint32_t own = SLOT32(w, c->o[c->width])[l];
    if (own == named && own >> l & 1) continue;
    fail(w, c, l, LAUNCH_FAILED,
         own == named ? "the lane is not in its member mask 0x%x"
                      : "lanes have different member masks, 0x%x",
         own);
    return false;
  }
  if (!(named & w->live & ~mask)) {
    if (named & w->lanes & ~w->live && c->run != run_bar_warp)
      fail(w, c, __builtin_ctz(mask), LAUNCH_FAILED,
           "lanes 0x%x of the member mask 0x%x have exited", named & w->lanes & ~w->live, named);
    return !w->block->error;
  }
  s->blocked = true;
  return false;
}

static void lanes_exit(Warp *w, Split *s, uint32_t mask) {
  w->live &= ~mask;
  s->mask &= ~mask;
  for (int i = 0; i < w->n_splits; i++)
    w->splits[i].blocked = false; /* they may wait for fewer now */
}

/* Runs a split to where it meets another one, waits, branches apart, or ends. */
static void split_run(Warp *w, Split *s, int32_t meets) {
  const Code *code = w->block->kernel->code;
  int32_t pc = s->pc;
  uint32_t active = s->mask;
  uint64_t steps = 0, lanes = 0;
  Block *b = w->block;
  for (bool first = true; (first || pc != meets) && !b->error; first = false) {
    const Code *c = code + pc;
    uint32_t mask = active;
    if (c->guard) {
      uint32_t p = w->preds[c->guard - 1];
      mask &= c->guard_not ? ~p : p;
      uint32_t missing = active & ~w->preds_written[c->guard - 1];
      if (missing)
        fail(w, c, __builtin_ctz(missing), LAUNCH_FAILED,
             "a predicate is read that was not written");
    }
    steps++;
    lanes += (uint64_t)__builtin_popcount(mask);
    if (!mask) {
      pc++;
      continue;
    }
    check_reads(w, c, mask);
    if (b->error) break;
    if (c->flow == F_RUN) {
      c->run(w, c, mask);
      mark_writes(w, c, mask);
      pc++;
      continue;
    }
    if (c->flow == F_BRA && mask == active) {
      pc = c->target;
      if (pc <= meets && w->n_splits == 1) {
        if (steps > settings.steps) break;
        continue;
      }
      break;
    }
    s->pc = pc;
    if (c->flow == F_BRA || c->flow == F_BRX) {
      split_branch(w, s, c, pc, mask);
      goto out;
    }
    if (c->flow == F_EXIT) {
      s->pc = pc + 1;
      lanes_exit(w, s, mask);
      goto out;
    }
    if (c->flow == F_TRAP) {
      fail(w, c, __builtin_ctz(mask), LAUNCH_FAILED, "trap");
      goto out;
    }
    if (!lanes_here(w, s, c, mask)) goto out;
    if (c->flow == F_BAR) {
      barrier_arrive(w, c, mask);
      mark_writes(w, c, mask);
      s->pc = pc + 1;
      goto out;
    }
    c->run(w, c, mask);
    mark_writes(w, c, mask);
    pc++;
  }
  s->pc = pc;
out:
  counts.warp_instructions += steps;
  counts.lane_instructions += lanes;
  b->steps += steps;
  if (b->steps > settings.steps) fail(w, code + pc, 0, LAUNCH_FAILED, "the block does not end");
}

static void warp_stuck(Warp *w) {
  const Split *s = w->splits;
  const Code *c = w->block->kernel->code + s->pc;
  int lane = __builtin_ctz(s->mask);
  if (c->flow == F_BAR)
    fail(w, c, lane, LAUNCH_FAILED, "barrier divergence: lanes 0x%x are here, lanes 0x%x are not",
         s->mask, w->live & ~s->mask);
  else {
    uint32_t named = sync_mask(w, c, s->mask);
    fail(w, c, lane, LAUNCH_FAILED, "lanes 0x%x of the member mask 0x%x do not come",
         named & ~s->mask, named);
  }
}

static void warp_run(Warp *w) {
  while (w->live && !w->waits && !w->block->error) {
    int32_t meets;
    Split *s = split_pick(w, &meets);
    if (s) split_run(w, s, meets);
    else warp_stuck(w);
  }
}

/* --- one block */

/* Slots of constants stay from block to block. */
static void warp_start(Warp *w, Block *b, int index) {
  const Kernel *k = b->kernel;
  w->block = b;
  w->index = index;
  int threads = b->n_threads - index * WARP;
  w->lanes = w->live = threads >= WARP ? ~(uint32_t)0 : (1u << threads) - 1;
  memset(w->written, 0, (size_t)k->n_slots * sizeof *w->written);
  memset(w->preds_written, 0, (size_t)k->n_preds * sizeof *w->preds_written);
  w->n_splits = 0;
  split_add(w, 0, w->live);
  w->waits = false;
  w->reduces = NULL;
  w->n_copies = 0;
  w->sync = 0;
  w->carry = 0;
  memset(w->commits, 0, sizeof w->commits);
  for (int i = 0; i < MAX_WARPS; i++) w->clock[i] = clock_base;
  w->known = clock_base;
  for (int i = 0; i < k->n_specials; i++)
    special_fill(k->specials[i].kind, w, SLOT32(w, k->specials[i].slot));
  if (k->pred_true) w->preds[k->pred_true - 1] = w->preds_written[k->pred_true - 1] = ~(uint32_t)0;
}

/* No warp can go on: who waits for whom. */
static void block_stuck(Block *b) {
  for (int i = 0; i < b->n_warps && !b->error; i++) {
    Warp *w = b->warps + i;
    if (!w->live || !w->waits) continue;
    const Barrier *bar = b->barriers + w->barrier;
    fail(w, w->waits_at, 0, LAUNCH_FAILED,
         "barrier %d: %d of %d threads came, the others have exited or wait elsewhere", w->barrier,
         bar->arrived, bar->expected);
  }
}

static void block_run(Block *b) {
  memset(b->shared_written, 0, b->shared_bytes);
  memset(b->shared, 0xcb, b->shared_bytes);
  memset(b->barriers, 0, sizeof b->barriers);
  b->steps = 0;
  for (int i = 0; i < b->n_warps; i++) warp_start(b->warps + i, b, i);
  int turn = settings.seed ? (int)draw((uint32_t)b->n_warps) : 0;
  for (bool progress = true; progress && !b->error;) {
    progress = false;
    for (int i = 0; i < b->n_warps && !b->error; i++) {
      Warp *w = b->warps + (i + turn) % b->n_warps;
      if (!w->live || w->waits) continue;
      warp_run(w);
      progress = true;
    }
  }
  if (!b->error) block_stuck(b);
  uint32_t most = clock_base;
  bool flying = false;
  for (int i = 0; i < b->n_warps; i++) {
    if (b->warps[i].clock[i] > most) most = b->warps[i].clock[i];
    flying |= b->warps[i].n_copies > 0;
  }
  clock_base = most + 1;
  if (flying || clock_base > 1u << 30) {
    tags_clear(&b->tags);
    clock_base = clock_base > 1u << 30 ? 1 : clock_base;
  }
}

/* --- one launch */

static bool block_new(Block *b, const Launch *l) {
  const Kernel *k = l->kernel;
  b->launch = l;
  b->serial = ++launch_serial;
  b->kernel = k;
  b->n_threads = (int)(l->block[0] * l->block[1] * l->block[2]);
  b->n_warps = (b->n_threads + WARP - 1) / WARP;
  b->shared_bytes = k->shared_static + l->dynamic;
  size_t regs = ((size_t)k->n_slots + 2) * WARP * sizeof(uint32_t),
         masks = ((size_t)k->n_slots + 2) * sizeof(uint32_t);
  size_t preds = ((size_t)k->n_preds + 2) * sizeof(uint32_t),
         local = ((size_t)k->local_bytes + 15) / 16 * 16 * WARP;
  size_t warp = (regs + masks + 2 * preds + local + 63) / 64 * 64;
  size_t shared = ((size_t)b->shared_bytes + 127) / 64 * 64;
  b->memory_bytes = warp * (size_t)b->n_warps + 2 * shared;
  b->memory = aligned_alloc(64, b->memory_bytes);
  if (!tags_new(&b->tags, (b->shared_bytes >> k->granule) + 2) || !b->memory) return false;
  memset(b->memory, 0, b->memory_bytes);
  b->shared = b->memory + warp * (size_t)b->n_warps;
  b->shared_written = b->shared + shared;
  for (int i = 0; i < b->n_warps; i++) {
    Warp *w = b->warps + i;
    uint8_t *at = b->memory + warp * (size_t)i;
    w->regs = (uint32_t *)(void *)at;
    w->written = (uint32_t *)(void *)(at + regs);
    w->preds = (uint32_t *)(void *)(at + regs + masks);
    w->preds_written = (uint32_t *)(void *)(at + regs + masks + preds);
    w->local = at + regs + masks + 2 * preds;
    for (int j = 0; j < k->n_constants; j++)
      for (int lane = 0; lane < WARP; lane++)
        if (k->constants[j].wide) SLOT64(w, k->constants[j].slot)[lane] = k->constants[j].bits;
        else SLOT32(w, k->constants[j].slot)[lane] = (uint32_t)k->constants[j].bits;
  }
  return true;
}

static uint64_t gcd(uint64_t a, uint64_t b) { return b ? gcd(b, a % b) : a; }

int launch_run(const Launch *l) {
  Block *b = calloc(1, sizeof *b);
  int error = OUT_OF_MEMORY;
  if (b && block_new(b, l)) {
    uint64_t n = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], step = 1, from = 0;
    if (settings.seed && n > 1) {
      from = draw((uint32_t)(n < UINT32_MAX ? n : UINT32_MAX));
      do step = 1 + draw((uint32_t)(n < UINT32_MAX ? n : UINT32_MAX));
      while (gcd(step, n) != 1);
    }
    for (uint64_t i = 0; i < n && !b->error; i++) {
      uint64_t at = (from + i * step) % n;
      b->number = at;
      b->id[0] = (uint32_t)(at % l->grid[0]);
      b->id[1] = (uint32_t)(at / l->grid[0] % l->grid[1]);
      b->id[2] = (uint32_t)(at / l->grid[0] / l->grid[1]);
      block_run(b);
    }
    counts.blocks += n;
    error = b->error;
  }
  counts.launches++;
  if (b)
    for (int i = 0; i < MAX_WARPS; i++) free(b->warps[i].copies);
  if (b) free(b->memory), tags_free(&b->tags);
  free(b);
  return error;
}
