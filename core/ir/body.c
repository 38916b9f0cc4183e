/*
** body.c -- see body.h. A list by number, and chains by hash; bodies never go.
*/
#include "ir/body.h"
#include "base/system.h"

typedef struct Entry {
  Body body;
  u64 hash;
  i32 next; /* number of the next one in the chain, or 0 */
} Entry;

enum { CHAINS = 1024 };

static struct {
  Lock lock;
  Entry **entry; /* body k is entry[k - 1] */
  i32 n, cap;
  i32 chain[CHAINS];
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

static i32 find(const Body *b, u64 hash) {
  for (i32 k = bodies.chain[hash % CHAINS]; k; k = bodies.entry[k - 1]->next)
    if (bodies.entry[k - 1]->hash == hash && is_same(&bodies.entry[k - 1]->body, b)) return k;
  return 0;
}

static i32 add(const Body *b, u64 hash) {
  if (bodies.n == bodies.cap) {
    const i32 cap = bodies.cap ? bodies.cap * 2 : 16;
    Entry **more = ty_mem_realloc(bodies.entry, (size_t)cap * sizeof *more);
    if (!more) return 0;
    bodies.entry = more;
    bodies.cap = cap;
  }
  Entry *e = ty_mem_alloc(sizeof *e);
  if (!e) return 0;
  *e = (Entry){*b, hash, bodies.chain[hash % CHAINS]};
  bodies.entry[bodies.n++] = e;
  return bodies.chain[hash % CHAINS] = bodies.n;
}

i32 ty_body_intern(const Body *b, bool *kept) {
  u64 hash =
      ty_hash(b->g.node, (size_t)b->g.n * sizeof(Node), (u64)b->carried ^ (u64)b->made << 20);
  hash = ty_hash(b->output, output_bytes(b), hash);
  ty_lock(&bodies.lock);
  const i32 known = find(b, hash), fresh = known ? 0 : add(b, hash);
  ty_unlock(&bodies.lock);
  *kept = fresh != 0;
  return known ? known : fresh;
}

const Body *ty_body(u64 number) {
  const Body *b = NULL;
  ty_lock(&bodies.lock);
  if (number && number <= (u64)bodies.n) b = &bodies.entry[number - 1]->body;
  ty_unlock(&bodies.lock);
  return b;
}
