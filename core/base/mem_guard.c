/*
** mem_guard.c -- memory that is checked: TYCHO_CHECK=memory, memory-exact or memory-before.
** In:  sizes.  Out: blocks of pages of their own, which end (memory-before: begin) where access does, so that
** the processor itself finds what reads or writes outside of them: C, generated code, other libraries. What is
** freed stays without access. Fails when the system has no memory. What is found wrong ends the process, with
** a line that says what and of which block: this is for tests.
**
** Alignment comes first: a block of 12 bytes that is promised to lie at a multiple of 64 ends 52 bytes before
** the page does. memory-exact promises tensors no more than views have anyway, a multiple of their elements'
** size, and so they all end with a page. Nobody may read behind a tensor's end, not even what is thrown away:
** vectors of what is left are loaded under masks, and a lane that is masked out cannot fault.
**
** One range of addresses without access is cut into chunks, and a chunk, from front to back, into blocks:
**   pages of the block | a page without access | pages of the next one ...
** A block is freed once its chunk has come round again, all others of which are free, too: until then its
** addresses are nobody's. Bytes between the block and the ends of its pages have a pattern, which is looked at
** when it is freed. Fresh blocks hold large numbers.
**
** The system bounds the number of mappings, of which a block is two. Beyond, blocks have pages of their own in
** an open chunk, where nothing but the pattern is checked; `crowded` counts them.
*/
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK ((size_t)1 << 30)
#define PAGES (CHUNK / PAGE)
#define FILL ((size_t)4 << 20)       /* bytes of a fresh block that get a pattern, at most */
#define LARGE (CHUNK / 8)            /* from here mappings of their own */
#define LARGE_KEPT ((size_t)8 << 40) /* addresses of freed ones that stay without access */

enum { PAGE = 4096, CHUNKS = 4096, CHUNKS_LEAST = 16, FRESH = 0xf7, MAPPINGS_FREE = 8192 };

typedef enum { GUARD_OFF, GUARD_AFTER, GUARD_EXACT, GUARD_BEFORE } GuardMode;

/* What is known of a block, by its first page. */
typedef struct Known {
  u64 n : 48, offset : 12; /* bytes; where in the page they begin */
  u64 live : 1, was : 1;
} Known;

typedef struct Big {
  struct Big *next;
  u8 *map, *p;
  size_t bytes, n;
} Big;

static struct {
  GuardMode mode;
  u8 *base;
  size_t nchunks, last; /* last: the chunk that was begun last */
  struct Cursor {
    size_t chunk, at; /* pages of it that are taken */
  } cursor[2];        /* at hand; [1]: the open one */
  i64 live[CHUNKS];   /* blocks of each chunk */
  bool open[CHUNKS];  /* all of it has access */
  Known *known;
  Big *big;
  size_t kept;
  i64 guarded, most; /* blocks with pages without access, and how many there may be */
  GuardStats stats;
  Lock lock;
} G = {.lock = LOCK_INIT};

bool ty_guarded;

/* Around a fork, too, of which each shared object that has this file hears: threads of the parent may hold the lock. */
static void lock(void) { ty_lock(&G.lock); }
static void unlock(void) { ty_unlock(&G.lock); }

/* ---- what is wrong ----------------------------------------------------------------------------- */

/* No part of stdio: it runs in a signal's handler too. */
static void say(const char *what, const void *p, size_t n) {
  char text[200];
  int k = snprintf(text, sizeof text, "tycho: memory: %s, block %p of %zu bytes\n", what, p, n);
  ty_system_say(text, (size_t)k);
}

static void stop(const char *what, const void *p, size_t n) {
  say(what, p, n);
  ty_system_stop();
}

/* The page of the block that an address is in, or next to; NULL: of none. */
static const Known *near(const u8 *p) {
  if (p < G.base || p >= G.base + G.nchunks * CHUNK) return NULL;
  size_t page = (size_t)(p - G.base) / PAGE;
  for (size_t back = 0; back <= page && back <= LARGE / PAGE; back++) {
    const Known *k = &G.known[page - back];
    if (k->live || k->was) return k;
  }
  return NULL;
}

/* Says which block it was. */
static void fault(const void *address) {
  const u8 *at = address;
  const Known *k = near(at), *next = k && (at - G.base) / PAGE + 1 < (i64)(G.nchunks * PAGES)
                                         ? &G.known[(at - G.base) / PAGE + 1]
                                         : NULL;
  if (k) {
    const u8 *p = G.base + (size_t)(k - G.known) * PAGE + k->offset;
    if (next->live && G.mode == GUARD_BEFORE) {
      k = next;
      say("access before it", G.base + (size_t)(k - G.known) * PAGE + k->offset, k->n);
    } else say(k->live ? "access behind it" : "access after it was freed", p, k->n);
  }
}

/* ---- patterns ---------------------------------------------------------------------------------- */

static u8 pattern(const u8 *p) { return (u8)(0xa7 ^ (uintptr_t)p); }

static void paint(u8 *p, const u8 *end) {
  for (; p < end; p++) *p = pattern(p);
}

static const u8 *damaged(const u8 *p, const u8 *end) {
  while (p < end && *p == pattern(p)) p++;
  return p < end ? p : NULL;
}

/* The bytes of a block's pages around it. */
static void paint_around(u8 *first, u8 *p, size_t n, u8 *end) {
  paint(first, p);
  paint(p + n, end);
}

static void look_around(const u8 *first, const u8 *p, size_t n, const u8 *end) {
  if (damaged(first, p)) stop("bytes before it were written", p, n);
  if (damaged(p + n, end)) stop("bytes behind it were written", p, n);
}

static void fill(u8 *p, size_t n) {
  memset(p, FRESH, TY_MIN(n, FILL / 2));
  if (n > FILL / 2)
    memset(p + n - TY_MIN(n - FILL / 2, FILL / 2), FRESH, TY_MIN(n - FILL / 2, FILL / 2));
}

/* ---- blocks ------------------------------------------------------------------------------------ */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Where in its pages a block begins. */
static size_t place(size_t n, size_t align, size_t bytes) {
  return G.mode == GUARD_BEFORE ? 0 : bytes - round_up(TY_MAX(n, 1), align);
}

/* Begins a chunk of which nothing lives, for the first time or again. Needs the lock. */
static bool chunk_next(bool open) {
  for (size_t i = 1; i <= G.nchunks; i++) {
    size_t c = (G.last + i) % G.nchunks;
    if (G.live[c] || c == G.cursor[!open].chunk) continue;
    if (!ty_system_renew(G.base + c * CHUNK, CHUNK, open ? ACCESS_WRITE : ACCESS_NONE))
      return false;
    if (!ty_system_renew(G.known + c * PAGES, PAGES * sizeof *G.known, ACCESS_WRITE)) return false;
    G.open[c] = open;
    G.last = c;
    G.cursor[open] = (struct Cursor){c, 0};
    return true;
  }
  return false;
}

/* Pages for a block, behind a page that is nobody's; NULL: there are none. */
static u8 *take(size_t pages, size_t n, size_t offset) {
  u8 *y = NULL;
  lock();
  bool open = G.guarded >= G.most;
  struct Cursor *at = &G.cursor[open];
  if (at->at + pages + 2 <= PAGES || chunk_next(open)) {
    size_t page = at->chunk * PAGES + at->at + 1;
    at->at += pages + 1;
    G.live[at->chunk]++;
    G.guarded += !open;
    G.stats.blocks++;
    G.stats.crowded += open;
    G.known[page] = (Known){.n = n, .offset = offset, .live = 1};
    y = G.base + page * PAGE;
  }
  unlock();
  return y;
}

static void give(size_t page) {
  size_t c = page / PAGES;
  lock();
  G.known[page].live = 0, G.known[page].was = 1;
  G.live[c]--;
  G.guarded -= !G.open[c];
  unlock();
}

static void *big_alloc(size_t n, size_t align) {
  size_t bytes = round_up(TY_MAX(n, 1), PAGE);
  Big *b = ty_guard_alloc(sizeof *b, 16);
  u8 *p = b ? ty_system_map(bytes + 2 * PAGE, ACCESS_NONE) : NULL;
  if (!p || !ty_system_protect(p + PAGE, bytes, ACCESS_WRITE)) {
    if (p) ty_system_unmap(p, bytes + 2 * PAGE);
    ty_guard_free(b);
    return NULL;
  }
  *b = (Big){.map = p, .bytes = bytes, .n = n, .p = p + PAGE + place(n, align, bytes)};
  paint_around(p + PAGE, b->p, n, p + PAGE + bytes);
  fill(b->p, n);
  lock();
  b->next = G.big;
  G.big = b;
  unlock();
  return b->p;
}

/* Takes the block at p off the list, or, with a size wanted, finds it. */
static Big *big_find(const void *p, bool take_off) {
  lock();
  Big **at = &G.big;
  while (*at && (*at)->p != p) at = &(*at)->next;
  Big *b = *at;
  if (b && take_off) *at = b->next;
  unlock();
  return b;
}

static void big_free(void *p) {
  Big *b = big_find(p, true);
  if (!b) {
    stop("freed twice, or never had", p, 0);
    return;
  }
  look_around(b->map + PAGE, b->p, b->n, b->map + PAGE + b->bytes);
  lock();
  bool keep = G.kept + b->bytes <= LARGE_KEPT;
  if (keep) G.kept += b->bytes;
  unlock();
  if (!keep || !ty_system_renew(b->map, b->bytes + 2 * PAGE, ACCESS_NONE))
    ty_system_unmap(b->map, b->bytes + 2 * PAGE);
  ty_guard_free(b);
}

size_t ty_guard_align(size_t n, size_t align) {
  const size_t own = n & -n; /* the largest power of two of which it is a multiple */
  return G.mode == GUARD_EXACT && own && own < align ? own : align;
}

void *ty_guard_alloc(size_t n, size_t align) {
  if (n > PTRDIFF_MAX / 2) return NULL;
  if (n >= LARGE) return big_alloc(n, align);
  size_t bytes = round_up(TY_MAX(n, 1), PAGE), offset = place(n, align, bytes);
  u8 *first = take(bytes / PAGE, n, offset);
  if (!first) return NULL;
  size_t page = (size_t)(first - G.base) / PAGE;
  if (!G.open[page / PAGES] && !ty_system_protect(first, bytes, ACCESS_WRITE)) {
    give(page);
    return NULL;
  }
  paint_around(first, first + offset, n, first + bytes);
  fill(first + offset, n);
  return first + offset;
}

static Known *known(const void *p) {
  const u8 *at = p;
  if (at < G.base || at >= G.base + G.nchunks * CHUNK) return NULL;
  Known *k = &G.known[(size_t)(at - G.base) / PAGE];
  return k->live && k->offset == (uintptr_t)p % PAGE ? k : NULL;
}

void *ty_guard_pieces(size_t n, size_t each, size_t align, size_t *step) {
  const size_t room = round_up(each, align), apart = round_up(TY_MAX(room, 1), PAGE) + PAGE;
  u8 *p = n < PTRDIFF_MAX / 2 / apart ? ty_guard_alloc((n - 1) * apart + room, align) : NULL;
  const Known *k = p ? known(p) : NULL;
  *step = apart;
  for (size_t i = 1; p && i < n && !(k && G.open[(k - G.known) / (i64)PAGES]); i++)
    ty_system_protect(p + i * apart - (G.mode == GUARD_BEFORE ? PAGE : apart - room), PAGE,
                      ACCESS_NONE);
  return p;
}

size_t ty_guard_size(const void *p) {
  const Known *k = known(p);
  const Big *b = k ? NULL : big_find(p, false);
  return k ? k->n : b ? b->n : 0;
}

void ty_guard_free(void *p) {
  if (!p) return;
  Known *k = known(p);
  if (!k) {
    big_free(p);
    return;
  }
  size_t page = (size_t)(k - G.known), bytes = round_up(TY_MAX(k->n, 1), PAGE);
  u8 *first = G.base + page * PAGE;
  look_around(first, p, k->n, first + bytes);
  if (G.open[page / PAGES]) ty_system_discard(first, bytes);
  else if (!ty_system_renew(first, bytes, ACCESS_NONE))
    ty_system_protect(first, bytes, ACCESS_NONE);
  give(page);
}

GuardStats ty_guard_stats(void) { return G.stats; }

/* ---- the beginning ----------------------------------------------------------------------------- */

static i64 mappings(void) {
  i64 n = ty_system_mappings();
  return n > 2 * MAPPINGS_FREE ? n : 2 * MAPPINGS_FREE;
}

/* Before the first allocation: blocks of both kinds cannot be told apart. */
__attribute__((constructor)) static void guard_open(void) {
  const char *check = getenv("TYCHO_CHECK");
  GuardMode mode = !check                            ? GUARD_OFF
                   : !strcmp(check, "memory")        ? GUARD_AFTER
                   : !strcmp(check, "memory-exact")  ? GUARD_EXACT
                   : !strcmp(check, "memory-before") ? GUARD_BEFORE
                                                     : GUARD_OFF;
  if (mode == GUARD_OFF) return;
  for (G.nchunks = CHUNKS; G.nchunks >= CHUNKS_LEAST && !G.base; G.nchunks /= 2)
    if ((G.base = ty_system_reserve(G.nchunks * CHUNK, ACCESS_NONE))) break;
  G.known = G.base ? ty_system_reserve(G.nchunks * PAGES * sizeof *G.known, ACCESS_WRITE) : NULL;
  if (!G.known) {
    stop("no addresses to check it", NULL, 0);
    return;
  }
  G.most = (mappings() - MAPPINGS_FREE) / 2;
  G.last = G.nchunks - 1;
  for (int i = 0; i < 2; i++) G.cursor[i] = (struct Cursor){G.nchunks, PAGES}; /* none yet */
  if (!ty_system_at_fork(lock, unlock, unlock)) return;
  G.mode = mode;
  ty_guarded = true;
  ty_system_on_fault(fault);
}
