/*
** entry.c -- the function-entry path: signatures, traces, the lazy mode of a call.
** In: what the binding read off Lua's stack. Out: the trace of a signature, open recordings of
** coroutines. Fails only when out of memory, and then the call runs eagerly with the same results.
**
** Every call runs in lazy mode: the Lua function itself runs, its operations are recorded, values
** are computed when demanded and at its end, by plans found by the hash of what was recorded. A
** trace is where a plan that skips Lua will hang: ty_entry_signature is the place where its guards are
** to be checked.
*/
#include <stdio.h>
#include "engine/entry.h"

/* --- signatures */

enum { TRIAL_CALLS = 16, REST_CALLS = 4096, COLD_MOST = 32 };

u64 ty_entry_word(const State *S) {
  return (u32)S->default_dtype | (u32)S->blas << 8 | (u32)S->fast << 9 |
         (u32)S->deterministic << 10 | (u32)S->amx << 11 | (u32)S->grad_mode << 12 |
         (u32)S->cast << 13 | (u32)S->reduced << 18 | (u32)S->default_device << 20 |
         (u32)(S->hooks > 0) << 31 | (u64)S->exchanged << 32;
}

static const char *const kind_names[] = {
    [A_NIL] = "nil",     [A_BOOL] = "boolean",      [A_NUMBER] = "number", [A_STRING] = "string",
    [A_TABLE] = "table", [A_FUNCTION] = "function", [A_TENSOR] = "tensor", [A_OTHER] = "userdata"};

void ty_entry_part(const SigPart *p, char *buf, size_t n) {
  if (p->kind != A_TENSOR) {
    snprintf(buf, n, "%s", kind_names[p->kind]);
    return;
  }
  int at = ty_type_print(&p->type, buf, n);
  if (!p->contiguous && at > 0 && (size_t)at < n) snprintf(buf + at, n - (size_t)at, " strided");
}

/* Notes which part of the key differs from the trace that hit last. */
static void explain_miss(Entry *e, const SigPart *part, i32 n, u64 word) {
  char now[64], was[64], *y = e->miss[e->misses % MISSES_MAX];
  const Signature *t = e->sig[0];
  size_t room = sizeof e->miss[0];
  if (t->nparts != n) {
    snprintf(y, room, "%d arguments, were %d", (int)n, (int)t->nparts);
    return;
  }
  for (i32 i = 0; i < n; i++) {
    if (!memcmp(&part[i], &t->part[i], sizeof *part)) continue;
    ty_entry_part(&part[i], now, sizeof now);
    ty_entry_part(&t->part[i], was, sizeof was);
    snprintf(y, room, "argument %d: %s, was %s", (int)i + 1, now, was);
    return;
  }
  snprintf(y, room, "engine settings: %llx, were %llx", (unsigned long long)word,
           (unsigned long long)t->word);
}

static void sig_free(Signature *t) {
  for (i32 i = 0; i < t->nseen; i++) ty_mem_free(t->seen[i].source);
  ty_mem_free(t->part);
  ty_mem_free(t);
}

/* Calls that still run under a trace that goes away are no longer counted. */
static void sig_drop(Entry *e, Signature *t) {
  for (Lazy *z = e->S->engine->compiled->lazy; z; z = z->next)
    if (z->sig == t) z->sig = NULL;
  sig_free(t);
}

static Signature *sig_new(const SigPart *part, i32 n, u64 word) {
  Signature *t = ty_mem_zalloc(sizeof *t);
  size_t bytes = sizeof *part * (size_t)n;
  if (t && n && !(t->part = ty_mem_alloc(bytes))) {
    ty_mem_free(t);
    return NULL;
  }
  if (!t) return NULL;
  if (n) memcpy(t->part, part, bytes);
  t->nparts = n;
  t->word = word;
  return t;
}

Signature *ty_entry_signature(Entry *e, const SigPart *part, i32 n, u64 word) {
  e->calls++;
  for (i32 i = 0; i < e->nsig; i++) {
    Signature *t = e->sig[i];
    if (t->nparts != n || t->word != word) continue;
    if (n && memcmp(t->part, part, sizeof *part * (size_t)n)) continue; /* no parts: no array */
    memmove(e->sig + 1, e->sig, sizeof *e->sig * (size_t)i);
    e->hits++;
    t->hits++;
    return e->sig[0] = t;
  }
  if (e->nsig && e->cold < COLD_MOST)
    explain_miss(e, part, n, word); /* the latest of thousands say no more */
  e->misses++;
  Signature *t = sig_new(part, n, word);
  if (!t) return NULL;
  if (e->nsig == SIGNATURES_MAX) {
    e->cold = e->sig[e->nsig - 1]->hits ? 0 : TY_MIN(e->cold + 1, COLD_MOST);
    sig_drop(e, e->sig[--e->nsig]);
    e->evicted++;
  }
  /* Where signatures do not come again, recording would make a plan for each call. */
  t->trial = TRIAL_CALLS;
  t->rest = e->cold == COLD_MOST ? TRIAL_CALLS : 0;
  memmove(e->sig + 1, e->sig, sizeof *e->sig * (size_t)e->nsig);
  e->nsig++;
  return e->sig[0] = t;
}

/*
** Calls that no trace answers cost a look at each of them. After many in a row the traces are left alone for a while,
** longer each time, and a few calls are tried between; as soon as one is answered all is as before. No pause is longer
** than the time until the next capture.
*/
enum { MISSED_MANY = 64, MISSED_TRIED = 4, AWAY_LEAST = 64, AWAY_MOST = 1024 };

void ty_entry_missed(Entry *e) {
  if (++e->missed < MISSED_MANY) return;
  e->missed = MISSED_MANY - MISSED_TRIED;
  e->pause = TY_MIN(TY_MAX(2 * e->pause, AWAY_LEAST), AWAY_MOST);
  e->away = e->captures_on ? TY_MIN(e->pause, e->rest) : e->pause;
  e->rest -= TY_MIN(e->rest, e->away);
}

/* Few calls are timed at first, and about each 64th later, so that others pay for a comparison alone: one as a whole,
** the next one step by step, since looking at the clock between steps takes time itself. */
enum { TIMED_EVERY = 64 };

void ty_entry_note_time(Entry *e, i64 ns) {
  if (e->by_step) e->next_timed = e->skips + TY_MIN(TY_MAX(e->skips, 1), TIMED_EVERY);
  else e->time[e->ntimes++ % ENTRY_TIMES] = ns;
  e->by_step = !e->by_step;
}

i64 ty_entry_time(const Entry *e) {
  const i64 n = TY_MIN(e->ntimes, ENTRY_TIMES);
  i64 sorted[ENTRY_TIMES];
  for (i64 i = 0; i < n; i++) {
    i64 at = i;
    for (; at > 0 && sorted[at - 1] > e->time[i]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = e->time[i];
  }
  return n ? sorted[n / 2] : -1;
}

void ty_entry_reset(Entry *e) {
  while (e->nsig) sig_drop(e, e->sig[--e->nsig]);
  e->calls = e->nested = e->hits = e->misses = e->evicted = 0;
  e->away = e->pause = e->missed = e->cold = 0;
  memset(e->miss, 0, sizeof e->miss);
}

void ty_entry_free(Entry *e) {
  ty_entry_reset(e);
  for (Lazy *z = e->S->engine->compiled->lazy; z; z = z->next)
    if (z->entry == e) z->entry = NULL;
}

/*
** Recording costs more than eager calls where there is little to fuse: tiny tensors, a value demanded
** every few operations. Measured: a recorded map of equal shapes takes 60 ns longer than an eager one
** (quick.c), another operation 150 ns less, a cut 800 ns; fusion saves a ns for 60 bytes that are
** neither written nor read again.
*/

static bool is_quick(const Graph *g, const Node *n) {
  for (int i = 0; i < ty_ops[n->op].arity; i++) {
    const Node *a = &g->node[n->src[i]];
    if (a->op != OP_SCALAR && !ty_type_same_dims(&a->type, &n->type)) return false;
  }
  return ty_ops[n->op].class == MAP;
}

static i64 estimate_gain(const Plan *p, const Graph *g) {
  i64 ns = p->bytes_saved / 60 - 800;
  for (i32 i = 0; i < g->n; i++) {
    int class = ty_ops[g->node[i].op].class;
    if (class != LEAF && class != VIEW) ns += is_quick(g, &g->node[i]) ? -60 : 150;
  }
  return ns;
}

void ty_entry_note(Lazy *z, u64 hash, const Plan *p, const Graph *g) {
  Signature *t = z->sig;
  if (!t) return;
  for (i32 i = 0; i < t->nseen; i++) {
    if (t->seen[i].hash != hash) continue;
    t->seen[i].runs++;
    t->gain += t->seen[i].gain;
    return;
  }
  if (t->nseen == SEEN_MAX) {
    t->unseen++;
    return;
  }
  Seen *s = &t->seen[t->nseen++];
  *s = (Seen){.hash = hash,
              .runs = 1,
              .nkernels = p->nkernels,
              .nsteps = p->nsteps,
              .nops = p->nops,
              .bytes_moved = p->bytes_moved,
              .bytes_saved = p->bytes_saved,
              .gain = estimate_gain(p, g)};
  t->gain += s->gain;
  if ((s->source = ty_mem_alloc(p->source->bytes))) memcpy(s->source, p->source, p->source->bytes);
}

bool ty_entry_records(Signature *t) {
  if (t->rest > 0) {
    t->rest--;
    return false;
  }
  if (t->trial-- > 0) return true;
  t->rest = t->gain <= 0 ? REST_CALLS : 0; /* 0: there was nothing to record */
  t->trial = TRIAL_CALLS;
  t->gain = 0;
  return t->rest == 0;
}

/* --- lazy mode */

Lazy *ty_lazy_find(State *S, const void *thread) {
  Lazy *z = S->engine->compiled->lazy;
  while (z && z->thread != thread) z = z->next;
  return z;
}

Lazy *ty_lazy_open(State *S, const Lazy *like) {
  Lazy *oldest = NULL;
  int n = 0;
  for (Lazy *o = S->engine->compiled->lazy; o; o = o->next, n++)
    if (!o->pinned) oldest = o;
  if (n >= LAZY_MAX && oldest) ty_lazy_close(S, oldest);
  Lazy *z = ty_mem_alloc(sizeof *z);
  if (!z) return NULL;
  *z = *like;
  if (!(z->open = ty_recording_new(S))) {
    ty_mem_free(z);
    return NULL;
  }
  z->next = S->engine->compiled->lazy;
  S->engine->compiled->lazy = z;
  S->open = z->open;
  return z;
}

void ty_lazy_abandon(State *S, Lazy *z) {
  Lazy **p = &S->engine->compiled->lazy;
  if (S->open == z->open) S->open = NULL;
  z->open->closed = true;
  ty_recording_drop(S, z->open);
  while (*p != z) p = &(*p)->next;
  *p = z->next;
  ty_mem_free(z);
}

void ty_lazy_close(State *S, Lazy *z) {
  if (z->open->waiting) S->cut(S, z->open, NULL); /* opens another recording, unless it failed */
  ty_lazy_abandon(S, z);
}

/* --- operations that are one plan */

/* Its thread is none of Lua's: a hook that comes while the plan runs finds operations computed one by one. */
Lazy *ty_lazy_join(State *S, const Storage *written) {
  if (S->open || S->capture || S->level) return NULL;
  if (written && written->buf && written->buf->exposed) return NULL; /* it is written at once */
  Lazy *z = ty_lazy_open(S, &(Lazy){.thread = S, .pinned = S});
  if (z) z->open->body = true;
  return z;
}

bool ty_lazy_joined(State *S, Lazy *z, bool ok, Storage *written) {
  if (!z) return ok;
  Recording *b = z->open;
  b->body = false;
  b->wants = WANT_SAVED;
  ok = ok && (!(b->waiting || ty_graph_checks(&b->g)) || S->cut(S, b, NULL));
  if (!ok && written && written->recording == b) {
    ty_storage_settle(written, ty_buffer_hold(written->buf));
    written->version--;
  }
  ty_lazy_abandon(S, z);
  return ok;
}
