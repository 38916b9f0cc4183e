/*
** body.c -- see body.h. Entries in chains by contents and by number, under a lock. An entry that nobody holds is freed.
*/
#include "ir/body.h"
#include "base/system.h"

typedef struct Entry {
  Body body;
  u64 hash, number;
  i64 refs;
  struct Entry *like, *next; /* in the chains by hash and by number */
} Entry;

enum { CHAINS = 1024 };

static struct {
  Lock lock;
  u64 last; /* number */
  Entry *like[CHAINS], *chain[CHAINS];
} bodies = {.lock = LOCK_INIT};

static size_t input_bytes(const Body *b) { return (size_t)b->ninput * sizeof *b->input; }
static size_t output_bytes(const Body *b) { return (size_t)b->noutput * sizeof *b->output; }

static bool is_same(const Body *a, const Body *b) {
  return a->g.n == b->g.n && a->ninput == b->ninput && a->noutput == b->noutput &&
         a->carried == b->carried && a->row == b->row && a->made == b->made &&
         a->streams == b->streams && a->dtype == b->dtype &&
         !memcmp(a->g.node, b->g.node, (size_t)a->g.n * sizeof(Node)) &&
         !memcmp(a->input, b->input, input_bytes(a)) &&
         !memcmp(a->output, b->output, output_bytes(a));
}

/* Under the lock, as the next ones. */
static Entry *entry_of(u64 number) {
  Entry *e = bodies.chain[number % CHAINS];
  while (e && e->number != number) e = e->next;
  return e;
}

static Entry *find(const Body *b, u64 hash) {
  Entry *e = bodies.like[hash % CHAINS];
  while (e && !(e->hash == hash && is_same(&e->body, b))) e = e->like;
  return e;
}

static Entry *add(const Body *b, u64 hash) {
  Entry *e = ty_mem_alloc(sizeof *e);
  if (!e) return NULL;
  const u64 number = ++bodies.last;
  Entry **like = &bodies.like[hash % CHAINS], **chain = &bodies.chain[number % CHAINS];
  *e = (Entry){*b, hash, number, 0, *like, *chain};
  return *like = *chain = e;
}

static void take_out(Entry *e) {
  Entry **like = &bodies.like[e->hash % CHAINS], **chain = &bodies.chain[e->number % CHAINS];
  while (*like != e) like = &(*like)->like;
  while (*chain != e) chain = &(*chain)->next;
  *like = e->like;
  *chain = e->next;
}

u64 ty_body_intern(const Body *b, bool *kept) {
  u64 hash =
      ty_hash(b->g.node, (size_t)b->g.n * sizeof(Node), (u64)b->carried ^ (u64)b->made << 20);
  hash = ty_hash(b->output, output_bytes(b), hash);
  ty_lock(&bodies.lock);
  Entry *e = find(b, hash);
  *kept = !e && (e = add(b, hash)) != NULL;
  if (e) e->refs++;
  ty_unlock(&bodies.lock);
  return e ? e->number : 0;
}

bool ty_body_hold(u64 number) {
  ty_lock(&bodies.lock);
  Entry *e = entry_of(number);
  if (e) e->refs++;
  ty_unlock(&bodies.lock);
  return e != NULL;
}

bool ty_body_drop(u64 number, Body *dead) {
  ty_lock(&bodies.lock);
  Entry *e = entry_of(number);
  const bool dies = e && !--e->refs;
  if (dies) take_out(e);
  ty_unlock(&bodies.lock);
  if (!dies) return false;
  *dead = e->body;
  ty_mem_free(e);
  return true;
}

const Body *ty_body(u64 number) {
  ty_lock(&bodies.lock);
  const Entry *e = entry_of(number);
  ty_unlock(&bodies.lock);
  return e ? &e->body : NULL;
}

i32 ty_body_scalars(u64 number) {
  const Body *b = ty_body(number);
  return b ? b->g.nscalar : 0;
}
