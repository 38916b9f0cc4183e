/*
** calls.c -- exchanges and agreements: at once, or as calls of plans (ir/call.h).
** In:  who calls, a tag, what goes where; the memory, as a plan runs. Out: it has arrived, or an answer of call.h with the
** error that all ranks get. Equal exchanges are one; they stay for ever, up to a number of them.
**
** 1. On the wire a plan's exchanges are those that Lua makes: the same messages under the same tags in the same order. So
**    ranks need not all run a plan at the same step.
** 2. Ranks agree on what they call before they exchange anything. An agreement's texts lie here, not in a plan's memory: it
**    may begin long before it is asked, and it stays where the run that began it was left undone. Lua's call then takes it.
** 3. A run that finds at its first agreement that ranks do not agree has exchanged nothing: Lua runs in its place, comes to
**    the same agreement, and says or does what is due. Later ones raise, on all ranks.
** 4. A run that is left after it has agreed or exchanged something ends the exchange for all ranks: what it still owes
**    others is not exchanged any more, and what Lua would begin anew they have done.
*/
#include "base/system.h"
#include "dist/nccl.h"
#include "ir/type.h"

struct Agreeing {
  Agreeing *next;
  Flight *flight; /* NULL: all texts are here */
  u64 run;        /* of the plan that has begun it; 0: Lua has */
  const void *y;  /* its result's memory there */
  int tag, n, own;
  char all[][AGREE_TEXT];
};

static Agreeing *agreeing; /* that have begun and not ended, the first one first */

/* One of the tag that another run has begun. */
static Agreeing *find_left(int tag, u64 run) {
  Agreeing *a = agreeing;
  while (a && !(a->tag == tag && a->run != run)) a = a->next;
  return a;
}

void ty_agree_end(Agreeing *a) {
  Agreeing **at = &agreeing;
  while (*at != a) at = &(*at)->next;
  *at = a->next;
  ty_mem_free(a);
}

static Agreeing *agree_new(const char *who, int tag, const Message *ranks, int n, int own,
                           const char *text) {
  Agreeing *a = ty_mem_zalloc(sizeof *a + (size_t)n * AGREE_TEXT), **last = &agreeing;
  Message *m = ty_mem_alloc(2 * (size_t)n * sizeof *m);
  int count = 0;
  if (!a || !m) {
    ty_world_fail_here(who, "is out of memory");
    ty_mem_free(a);
    ty_mem_free(m);
    return NULL;
  }
  *a = (Agreeing){.tag = tag, .n = n, .own = own};
  ty_system_format(a->all[own], AGREE_TEXT, "%.255s", text);
  for (int i = 0; i < n; i++) {
    if (i == own) continue;
    m[count++] = (Message){a->all[own], AGREE_TEXT, ranks[i].rank, true};
    m[count++] = (Message){a->all[i], AGREE_TEXT, ranks[i].rank, false};
  }
  while (*last) last = &(*last)->next;
  *last = a;
  a->flight = ty_world_begin(who, m, count, tag);
  ty_mem_free(m);
  return a->flight ? a : NULL;
}

Agreeing *ty_agree_begin(const char *who, int tag, const Message *ranks, int n, int own,
                         const char *text, u64 run) {
  Agreeing *a = find_left(tag, run);
  char shown[AGREE_TEXT];
  if (ty_world.failure[0]) return NULL;
  ty_system_format(shown, sizeof shown, "%.255s", text);
  if (!a) a = agree_new(who, tag, ranks, n, own, text);
  else if (strcmp(a->all[own], shown)) {
    ty_world_fail_here(who, "calls something else than what it began, and left undone");
    return NULL;
  }
  if (a) a->run = run;
  return a;
}

bool ty_agree_wait(Agreeing *a, bool *same) {
  if (a->flight && !ty_world_end(a->flight)) return false;
  a->flight = NULL;
  *same = true;
  for (int i = 0; i < a->n; i++) *same = *same && !memcmp(a->all[i], a->all[a->own], AGREE_TEXT);
  return true;
}

const char *ty_agree_text(const Agreeing *a, int i) { return a->all[i]; }

/* --- as calls of plans */

typedef struct Exchange Exchange;
struct Exchange {
  AsyncCall call;
  Exchange *like; /* in the chain by contents */
  i32 number;
  /* What makes it: */
  ExchangeHead head;
  Message m[]; /* p: an offset in what it is given, or in the result */
};

/* An exchange that has begun, by the memory of its result. */
typedef struct Going Going;
struct Going {
  Going *next;
  const void *y;
  Flight *flight; /* its messages */
  void *end;      /* of tensors of a device */
  const ExchangeHead *head;
  u8 came[AGREE_TEXT]; /* a message that is expected */
};

static Going *going;
static u64 run_of_first; /* the run that has exchanged something */

static CallAnswer failed(CallRun *r) {
  if (r->interrupted && r->interrupted(r->ctx)) return CALL_STOPPED;
  r->err = ty_world.failure;
  return CALL_FAILED;
}

static void enter(const CallRun *r) {
  ty_world.interrupted = r->interrupted;
  ty_world.ctx = r->ctx;
}

/* The messages of an exchange. */
static Flight *begin_messages(const Exchange *e, const u8 *from, u8 *to) {
  const ExchangeHead *h = &e->head;
  Message *m = ty_mem_alloc((size_t)(h->n + 1) * sizeof *m);
  if (!m) {
    ty_world_fail_here(h->who, "is out of memory");
    return NULL;
  }
  for (int i = 0; i < h->n; i++) {
    const i64 at = (i64)(uintptr_t)e->m[i].p;
    m[i] = e->m[i];
    m[i].p = m[i].sends ? (void *)(from + at) : to + at;
  }
  if (h->copies) memcpy(to + h->to, from + h->from, (size_t)h->copies);
  Flight *f = ty_world_begin(h->who, m, h->n, h->tag);
  ty_mem_free(m);
  return f;
}

static CallAnswer begin_exchange(const AsyncCall *c, const void *x, void *y, CallRun *r) {
  const Exchange *e = (const Exchange *)c;
  const ExchangeHead *h = &e->head;
  const void *from = c->takes ? x : y;
  Going *g = ty_mem_zalloc(sizeof *g);
  enter(r);
  run_of_first = r->run;
  if (!g) ty_world_fail_here(h->who, "is out of memory");
  else if (h->comm) g->end = ty_nccl_begin(h, e->m, from, y);
  else if (h->kind == REDUCES)
    g->flight = ty_world_reduce(h->who, x, y, c->gives / ty_dtypes[h->dtype].bytes, h->dtype,
                                (MpiOp)h->op, h->team);
  else g->flight = begin_messages(e, from, h->kind == EXPECTS ? g->came : y);
  if (!g || (!g->flight && !g->end))
    return failed(r); /* what was posted is still read and written */
  g->next = going, g->y = y, g->head = h;
  going = g;
  return CALL_DONE;
}

static bool end_going(const Going *g, const CallRun *r) {
  return g->end ? ty_nccl_end(g->head, g->end, r->stream) : ty_world_end(g->flight);
}

static CallAnswer end_exchange(const AsyncCall *c, const void *y, CallRun *r) {
  const Exchange *e = (const Exchange *)c;
  static char text[160];
  Going **at = &going;
  enter(r);
  while (*at && (*at)->y != y) at = &(*at)->next;
  Going *g = *at;
  if (!g || !end_going(g, r)) return failed(r);
  const bool same =
      e->head.kind != EXPECTS || !memcmp(g->came, e->head.text, (size_t)e->m[0].bytes);
  *at = g->next;
  ty_mem_free(g);
  if (same) return CALL_DONE;
  ty_system_format(text, sizeof text,
                   "%s: rank %d has sent another dtype or other sizes than option like has",
                   e->head.who, e->m[0].rank);
  r->err = text;
  return CALL_FAILED;
}

static CallAnswer begin_agreement(const AsyncCall *c, void *y, CallRun *r) {
  const ExchangeHead *h = &((const Exchange *)c)->head;
  enter(r);
  Agreeing *a =
      ty_agree_begin(h->who, h->tag, ((const Exchange *)c)->m, h->n, h->own, h->text, r->run);
  if (!a) return failed(r);
  a->y = y;
  return CALL_DONE;
}

/* Who calls what, as Lua says it (world.lua), of a few ranks. */
static const char *disagree(const Exchange *e, const Agreeing *a) {
  const ExchangeHead *h = &e->head;
  static char text[1100];
  size_t at = (size_t)ty_system_format(text, sizeof text, "%s: the ranks do not agree", h->who);
  for (int i = 0, told = 0; i < a->n && told < 4 && at < sizeof text; i++) {
    if (i && !memcmp(a->all[i], a->all[0], AGREE_TEXT)) continue;
    at += (size_t)ty_system_format(text + at, sizeof text - at, "%s rank %d calls %.250s",
                                   told++ ? "," : ":", e->m[i].rank, a->all[i]);
  }
  return text;
}

/* Other ranks have come as far: what this one began ends. */
static bool end_all(const CallRun *r) {
  while (going) {
    Going *g = going;
    if (!end_going(g, r)) return false;
    going = g->next;
    ty_mem_free(g);
  }
  return true;
}

static CallAnswer end_agreement(const AsyncCall *c, void *y, CallRun *r) {
  Agreeing *a = agreeing;
  bool same;
  enter(r);
  while (a && !(a->y == y && a->run == r->run)) a = a->next;
  if (!a || !ty_agree_wait(a, &same)) return failed(r);
  *(u8 *)y = 1;
  r->err = "ranks do not agree";
  if (!same && run_of_first != r->run) return CALL_AGAIN;
  if (!same && !end_all(r)) return failed(r);
  if (!same) r->err = disagree((const Exchange *)c, a);
  ty_agree_end(a);
  run_of_first = same ? r->run : 0; /* all ranks know it, and leave what they do */
  return same ? CALL_DONE : CALL_FAILED;
}

static bool leave(u64 run, const char *why) {
  char text[200];
  if (run_of_first != run) return true;
  ty_system_format(text, sizeof text, "has left a step undone: %.150s", why ? why : "");
  ty_world_fail_here("exchange", why ? text : "was interrupted");
  return !going;
}

static CallAnswer begin(const AsyncCall *c, const void *x, void *y, CallRun *r) {
  return c->gate ? begin_agreement(c, y, r) : begin_exchange(c, x, y, r);
}

static CallAnswer end(const AsyncCall *c, void *y, CallRun *r) {
  return c->gate ? end_agreement(c, y, r) : end_exchange(c, y, r);
}

static const CallLibrary library = {begin, end, ty_world_go_on, leave};

/* --- equal ones are one */

enum { CHAINS = 256 };
static Exchange *chain[CHAINS];

static bool is_same(const Exchange *a, const Exchange *b) {
  return !memcmp(&a->head, &b->head, sizeof a->head) && a->call.takes == b->call.takes &&
         a->call.gives == b->call.gives && !memcmp(a->m, b->m, (size_t)a->head.n * sizeof *a->m);
}

i32 ty_exchange_call(const ExchangeHead *h, const Message *m, i64 takes, i64 gives,
                     i32 (*add)(const AsyncCall *c)) {
  const size_t list = (size_t)h->n * sizeof *m;
  Exchange *e = ty_mem_zalloc(sizeof *e + list);
  if (!e) return 0;
  memcpy(&e->head, h, sizeof *h);
  memcpy(e->m, m, list);
  e->call = (AsyncCall){.takes = takes,
                        .gives = gives,
                        .channel = h->comm ? -h->comm : h->tag, /* rule 1 of nccl.c */
                        .device = (u8)h->device,
                        .gate = h->kind == AGREES,
                        .library = &library};
  const u64 hash = ty_hash(e->m, list, ty_hash(h, sizeof *h, (u64)takes ^ (u64)gives << 20));
  Exchange **at = &chain[hash % CHAINS], *f = *at;
  while (f && !is_same(e, f)) f = f->like;
  if (!f && (e->number = add(&e->call))) {
    e->like = *at;
    return (*at = e)->number;
  }
  ty_mem_free(e);
  return f ? f->number : 0;
}
