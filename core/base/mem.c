/*
** mem.c -- general memory, arenas, the buffer allocator, hashing.
** In: sizes.  Out: memory, or NULL, which every caller must expect.  Nothing else can fail.
**
** Buffers. A size belongs to a class (four steps between powers of two), and a class to a kind:
**   slabs   classes up to SLAB_MAX are slots of slabs. A slab is aligned to its size, so a slot
**           finds its slab by masking; slots that were never used are not resident. A slab in
**           which nothing lives stays with its class, but any class of the same kind may take it
**           over before fresh memory is mapped: what is held follows the most that was ever live
**           at once, not the number of distinct sizes.
**   large   mappings of their own, with huge pages from about HUGE; freed ones wait in their class.
** What waits (large buffers, empty slabs) is `spare`. It is bounded by the cap and by twice what
** was lately in use, so that sizes that went out of fashion do not stay for ever; the least
** recently used goes first, large ones before slabs. Live or half-empty slabs never move.
**
** One spin lock guards all of it and is held for a few instructions; system calls are made
** outside of it. A pair of alloc and free in a slab costs about as much as its two exchanges.
*/
#include "base/system.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Under AddressSanitizer freed slots and the bytes behind a buffer's end are out of bounds. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
#endif

/* ---- hashing --------------------------------------------------------------------------------- */

#define H0 0x9e3779b97f4a7c15ull /* odd, dense constants: the golden ratio and roots of primes */
#define H1 0xbb67ae8584caa73bull
#define H2 0x3c6ef372fe94f82bull
#define H3 0xa54ff53a5f1d36f1ull

static inline u64 hash_mix(u64 a, u64 b) {
  unsigned __int128 m = (unsigned __int128)a * b;
  return (u64)m ^ (u64)(m >> 64);
}

static inline u64 load64(const u8 *p) {
  u64 v;
  memcpy(&v, p, 8);
  return v;
}

static inline u64 load32(const u8 *p) {
  u32 v;
  memcpy(&v, p, 4);
  return v;
}

/* Sixteen bytes a multiplication; three independent chains, since the latency is what costs. */
u64 ty_hash(const void *data, size_t n, u64 seed) {
  const u8 *p = data;
  u64 a = 0, b = 0, h = seed ^ H0;
  size_t left = n;
  if (left > 48) {
    u64 h1 = h, h2 = h;
    do {
      h = hash_mix(load64(p) ^ H1, load64(p + 8) ^ h);
      h1 = hash_mix(load64(p + 16) ^ H2, load64(p + 24) ^ h1);
      h2 = hash_mix(load64(p + 32) ^ H3, load64(p + 40) ^ h2);
      p += 48, left -= 48;
    } while (left > 48);
    h ^= h1 + (h2 << 1);
  }
  for (; left > 16; p += 16, left -= 16) h = hash_mix(load64(p) ^ H1, load64(p + 8) ^ h);
  if (left >= 8) { /* the two loads overlap: no loop over the last bytes */
    a = load64(p), b = load64(p + left - 8);
  } else if (left >= 4) {
    a = load32(p), b = load32(p + left - 4);
  } else if (left) {
    a = (u64)p[0] << 16 | (u64)p[left >> 1] << 8 | p[left - 1];
  }
  return hash_mix(H2 ^ n, hash_mix(a ^ H1, b ^ h));
}

/* ---- the failing hook, general memory -------------------------------------------------------- */

static struct {
  _Atomic bool armed;
  _Atomic i64 after, times;
} hook;
static _Atomic u64 counted; /* general allocations; those of buffers are counted in `pool` */
static _Atomic i64 general; /* bytes */

/* True when this allocation is to fail. Each call takes one of `after`, then one of `times`. */
static bool hook_fails(void) {
  if (TY_LIKELY(!atomic_load_explicit(&hook.armed, memory_order_acquire))) return false;
  if (atomic_load(&hook.after) > 0 && atomic_fetch_sub(&hook.after, 1) > 0) return false;
  i64 left = atomic_load(&hook.times);
  while (left > 0 && !atomic_compare_exchange_weak(&hook.times, &left, left - 1)) {}
  return left != 0;
}

static bool general_fails(void) {
  atomic_fetch_add_explicit(&counted, 1, memory_order_relaxed);
  return hook_fails();
}

enum { ALIGN = 16 }; /* malloc's */

/* --- memory of the system, or of the embedder; see ty_mem_host */

static HostMemory host;

void ty_mem_host(const HostMemory *memory) { host = *memory; }

static void *system_alloc(size_t n, bool zero) {
  if (TY_LIKELY(!host.allocate)) return zero ? calloc(1, n) : malloc(n);
  void *p = host.allocate(host.ctx, n, ALIGN);
  return p && zero ? memset(p, 0, n) : p;
}

static void system_free(void *p, size_t n) {
  if (TY_LIKELY(!host.release)) free(p);
  else host.release(host.ctx, p, n);
}

static void *system_realloc(void *p, size_t old, size_t n) {
  if (TY_LIKELY(!host.allocate)) return realloc(p, n);
  void *y = host.allocate(host.ctx, n, ALIGN);
  if (!y) return NULL;
  memcpy(y, p, TY_MIN(old, n));
  host.release(host.ctx, p, old);
  return y;
}

bool ty_mem_checked(void) {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return ty_guarded;
#endif
}

/* Before every block of general memory stands its size; 16 bytes keep malloc's alignment. */
typedef union Head {
  size_t n;
  max_align_t align;
} Head;

static void *general_return(Head *h, size_t n) {
  if (!h) return NULL;
  h->n = n;
  atomic_fetch_add_explicit(&general, (i64)n, memory_order_relaxed);
  return h + 1;
}

#define COLD __attribute__((cold, noinline)) /* small, and out of the way */

/* Where memory is checked, nothing stands before a block. */
static COLD void *checked_return(void *p, size_t n) {
  if (p) atomic_fetch_add_explicit(&general, (i64)n, memory_order_relaxed);
  return p;
}

void *ty_mem_alloc(size_t n) {
  if (general_fails() || n > PTRDIFF_MAX - sizeof(Head)) return NULL;
  if (TY_UNLIKELY(ty_guarded)) return checked_return(ty_guard_alloc(n, ALIGN), n);
  return general_return(system_alloc(sizeof(Head) + n, false), n);
}

/* glibc's calloc does not look into the thread's list of free blocks, which has those up to this size. */
#define ZEROED_BY_HAND 1000

void *ty_mem_zalloc(size_t n) {
  if (general_fails() || n > PTRDIFF_MAX - sizeof(Head)) return NULL;
  if (TY_UNLIKELY(ty_guarded)) {
    void *p = ty_guard_alloc(n, ALIGN);
    return checked_return(p ? memset(p, 0, n) : NULL, n);
  }
  if (n > ZEROED_BY_HAND) return general_return(system_alloc(sizeof(Head) + n, true), n);
  Head *h = system_alloc(sizeof(Head) + n, false);
  if (h) memset(h + 1, 0, n); /* all of the block would be a calloc to the compiler */
  return general_return(h, n);
}

/* Always another place: who kept the old one is found. */
static COLD void *checked_realloc(void *p, size_t n) {
  size_t old = ty_guard_size(p);
  void *y = ty_guard_alloc(n, ALIGN);
  if (!y) return NULL;
  memcpy(y, p, TY_MIN(n, old));
  atomic_fetch_sub_explicit(&general, (i64)old, memory_order_relaxed);
  ty_guard_free(p);
  return checked_return(y, n);
}

/* On failure the old block stays as it was. */
void *ty_mem_realloc(void *p, size_t n) {
  if (!p) return ty_mem_alloc(n);
  if (general_fails() || n > PTRDIFF_MAX - sizeof(Head)) return NULL;
  if (TY_UNLIKELY(ty_guarded)) return checked_realloc(p, n);
  size_t old = ((Head *)p - 1)->n;
  Head *h = system_realloc((Head *)p - 1, sizeof(Head) + old, sizeof(Head) + n);
  if (h) atomic_fetch_sub_explicit(&general, (i64)old, memory_order_relaxed);
  return general_return(h, n);
}

void ty_mem_free(void *p) {
  if (!p) return;
  if (TY_UNLIKELY(ty_guarded)) {
    atomic_fetch_sub_explicit(&general, (i64)ty_guard_size(p), memory_order_relaxed);
    ty_guard_free(p);
    return;
  }
  Head *h = (Head *)p - 1;
  atomic_fetch_sub_explicit(&general, (i64)h->n, memory_order_relaxed);
  system_free(h, sizeof(Head) + h->n);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

struct ArenaChunk {
  ArenaChunk *next;
  size_t size, used; /* of data */
  size_t pad;
  u8 data[];
};

enum { CHUNK_MIN = 4096, CHUNK_MAX = 65536 }; /* chunks with their heads */

static ArenaChunk *chunk_new(size_t size) {
  ArenaChunk *c = ty_mem_alloc(sizeof *c + size);
  if (c) *c = (ArenaChunk){.size = size};
  return c;
}

void *ty_arena_alloc(Arena *A, size_t n) {
  if (n > PTRDIFF_MAX / 2) return NULL;
  size_t room = (n + 15) & ~(size_t)15;
  ArenaChunk *c = A->chunk;
  if (TY_UNLIKELY(ty_mem_checked())) { /* each piece ends where its memory does */
    if (!(c = chunk_new(n))) return NULL;
    c->next = A->chunk;
    A->chunk = c;
    room = n;
  } else if (!c || c->size - c->used < room) {
    size_t size = c ? 2 * (c->size + sizeof *c) : CHUNK_MIN;
    size = TY_MIN(size, CHUNK_MAX) - sizeof *c;
    ArenaChunk *fresh = chunk_new(TY_MAX(size, room));
    if (!fresh) return NULL;
    if (c && room > size) { /* an outsize chunk is full at once: the current one stays in front */
      fresh->next = c->next;
      c->next = fresh;
    } else {
      fresh->next = c;
      A->chunk = fresh;
    }
    c = fresh;
  }
  void *p = c->data + c->used;
  c->used += room;
  A->total += n;
  return memset(p, 0, n);
}

void ty_arena_reset(Arena *A) {
  ArenaChunk *keep = A->chunk;
  if (!keep) return;
  if (keep->size > CHUNK_MAX || ty_mem_checked()) { /* an outsize one would be hoarded */
    ty_arena_free(A);
    return;
  }
  Arena rest = {.chunk = keep->next};
  ty_arena_free(&rest);
  keep->next = NULL;
  keep->used = 0;
  A->total = 0;
}

void ty_arena_free(Arena *A) {
  for (ArenaChunk *c = A->chunk, *next; c; c = next) {
    next = c->next;
    ty_mem_free(c);
  }
  *A = (Arena){0};
}

/* ---- buffers: classes, lists ----------------------------------------------------------------- */

#define KB ((i64)1 << 10)
#define MB ((i64)1 << 20)
#define SMALL_MAX (16 * KB) /* slots of slabs of SMALL_SLAB bytes */
#define SLAB_MAX MB         /* slots of slabs of MEDIUM_SLAB bytes; above: large */
#define SMALL_SLAB (256 * KB)
#define MEDIUM_SLAB (4 * MB)
#define HUGE (2 * MB)       /* of a huge page; sizes from three quarters on are made of them */
#define SPARE_MIN (16 * MB) /* never give memory back below this */
#define BUF_MAX ((i64)1 << 47)

enum { SLAB_CLASSES = 52, CLASSES = 160, LINE = 64 };

/* 64, 128, 192, 256, then four steps to each power of two: all multiples of a cache line. */
static inline int class_of(i64 bytes) {
  if (bytes <= 4 * LINE) return bytes ? (int)((bytes - 1) / LINE) : 0;
  u64 top = (u64)bytes - 1;
  int e = 63 - __builtin_clzll(top);
  return 4 + (e - 8) * 4 + (int)(top >> (e - 2) & 3);
}

static inline i64 class_bytes(int c) {
  if (c < 4) return (c + 1) * LINE;
  int e = 8 + (c - 4) / 4;
  return ((i64)1 << e) + (((c - 4) % 4 + 1) * ((i64)1 << (e - 2)));
}

typedef struct Link {
  struct Link *next, *prev;
} Link;

static inline void link_init(Link *h) { h->next = h->prev = h; }

static inline void link_push(Link *h, Link *l) {
  l->next = h->next, l->prev = h;
  h->next->prev = l;
  h->next = l;
}

static inline void link_remove(Link *l) {
  l->prev->next = l->next;
  l->next->prev = l->prev;
}

static inline bool link_empty(const Link *h) { return h->next == h; }

/* The head of a slab; slots begin behind it. */
typedef struct Slab {
  Link mates; /* first: the slabs of its class with a free slot; self-linked while full */
  Link empty; /* empty slabs of its kind, the latest first */
  void *free; /* freed slots, the latest first; the link is in the slot */
  u32 carved; /* slots that were in use at least once since the class was given */
  u32 slots, live;
  u32 touched; /* the most bytes ever carved: resident */
  i32 class;
  i32 pad;
} Slab;
_Static_assert(sizeof(Slab) <= LINE, "slots begin at the second line");

/* The head of a large buffer that waits. */
typedef struct Spare {
  Link lru; /* first: of all large ones */
  Link mates;
  i64 bytes;
} Spare;

static struct {
  _Atomic bool lock;
  bool ready;
  Link slabs[SLAB_CLASSES]; /* with a free slot */
  Link empty[2];            /* kinds: small, medium */
  Link large[CLASSES];
  Link lru;
  i64 used, peak, held; /* held: resident at most, live or not */
  i64 spare, cap;       /* bytes that could be given back, and may wait at most */
  i64 recent;           /* the most used lately: forgotten slowly, as buffers and slabs come free */
  u64 counted;
} pool;

/* The holder never waits for anything, so spinning is short; yield in case it lost its core. */
static inline void pool_lock(void) {
  int spins = 0;
  while (TY_UNLIKELY(atomic_exchange_explicit(&pool.lock, true, memory_order_acquire))) {
    while (atomic_load_explicit(&pool.lock, memory_order_relaxed)) {
      if (++spins > 100) ty_thread_yield();
      else ty_relax();
    }
  }
}

static inline void pool_unlock(void) {
  atomic_store_explicit(&pool.lock, false, memory_order_release);
}

bool ty_mem_guard(void) {
  static bool done;
  if (!done) done = ty_system_at_fork(pool_lock, pool_unlock, pool_unlock);
  return done;
}

static void pool_start(void) {
  for (int c = 0; c < SLAB_CLASSES; c++) link_init(&pool.slabs[c]);
  for (int c = 0; c < CLASSES; c++) link_init(&pool.large[c]);
  link_init(&pool.empty[0]);
  link_init(&pool.empty[1]);
  link_init(&pool.lru);
  i64 memory = ty_system_memory();
  pool.cap = TY_MIN((memory ? memory : 4096 * MB) / 4, 1024 * MB);
  pool.ready = true;
}

static inline void pool_use(i64 bytes) {
  pool.counted++;
  pool.used += bytes;
  if (pool.used > pool.peak) pool.peak = pool.used;
  if (pool.used > pool.recent) pool.recent = pool.used;
}

/* ---- buffers: memory of the system ----------------------------------------------------------- */

static void unmap(void *p, i64 bytes) {
  UNPOISON(p, (size_t)bytes);
  if (TY_UNLIKELY(host.release != NULL)) {
    host.release(host.ctx, p, (size_t)bytes);
    return;
  }
  /* Unmapping a middle can run out of map entries: then the pages go, and addresses are lost. */
  if (!ty_system_unmap(p, (size_t)bytes)) ty_system_discard(p, (size_t)bytes);
}

/* Takes spare memory out, the least recently used first, until `keep` bytes are left; what was
** taken is chained through its first word, its size in the second. Needs the lock. */
typedef struct Gone {
  struct Gone *next;
  i64 bytes;
} Gone;

static Gone *pool_take(i64 keep) {
  Gone *all = NULL;
  while (pool.spare > keep && !link_empty(&pool.lru)) {
    Spare *s = (Spare *)pool.lru.prev;
    i64 bytes = s->bytes;
    link_remove(&s->lru);
    link_remove(&s->mates);
    pool.spare -= bytes;
    pool.held -= bytes;
    Gone *g = (Gone *)s;
    *g = (Gone){all, bytes};
    all = g;
  }
  for (int kind = 1; kind >= 0; kind--) {
    while (pool.spare > keep && !link_empty(&pool.empty[kind])) {
      Slab *s = (Slab *)((u8 *)pool.empty[kind].prev - offsetof(Slab, empty));
      link_remove(&s->mates);
      link_remove(&s->empty);
      pool.spare -= s->touched;
      pool.held -= s->touched;
      Gone *g = (Gone *)s;
      *g = (Gone){all, kind ? MEDIUM_SLAB : SMALL_SLAB};
      all = g;
    }
  }
  return all;
}

static void gone_unmap(Gone *g) {
  for (Gone *next; g; g = next) {
    next = g->next;
    unmap(g, g->bytes);
  }
}

/* Fresh memory; when there is none, again after giving back all that waits. Without the lock. */
static void *map_memory(i64 bytes, i64 align) {
  for (int again = 0;; again++) {
    void *p;
    if (TY_UNLIKELY(host.allocate != NULL))
      p = host.allocate(host.ctx, (size_t)bytes, (size_t)TY_MAX(align, LINE));
    else if (align) p = ty_system_map_aligned((size_t)bytes, (size_t)align);
    else p = ty_system_map((size_t)bytes, ACCESS_WRITE);
    if (p || again) return p;
    ty_buf_trim(0);
  }
}

/* ---- buffers: slabs -------------------------------------------------------------------------- */

static inline int kind_of(int class) { return class > 27; } /* 27: the class of SMALL_MAX */

static inline Slab *slab_of(void *p, int class) {
  i64 size = kind_of(class) ? MEDIUM_SLAB : SMALL_SLAB;
  return (Slab *)((uintptr_t)p & ~(uintptr_t)(size - 1));
}

/* Gives an empty slab to a class. It keeps its place among the empty ones. */
static void slab_give(Slab *s, int class) {
  i64 size = kind_of(class) ? MEDIUM_SLAB : SMALL_SLAB;
  s->free = NULL;
  s->carved = s->live = 0;
  s->slots = (u32)((size - LINE) / class_bytes(class));
  s->class = class;
  link_push(&pool.slabs[class], &s->mates);
}

/* A slab with a free slot, first in its class: the longest empty of the kind, else a fresh one.
** Leaves and takes the lock while it maps. False when there is no memory. */
static bool slab_find(int class) {
  int kind = kind_of(class);
  if (!link_empty(&pool.empty[kind])) {
    Slab *s = (Slab *)((u8 *)pool.empty[kind].prev - offsetof(Slab, empty));
    link_remove(&s->mates);
    slab_give(s, class);
    return true;
  }
  pool_unlock();
  i64 size = kind ? MEDIUM_SLAB : SMALL_SLAB;
  Slab *s = map_memory(size, size);
  pool_lock();
  if (!s) return !link_empty(&pool.slabs[class]); /* another thread may have brought one */
  s->touched = LINE;
  pool.held += LINE;
  pool.spare += LINE;
  link_push(&pool.empty[kind], &s->empty);
  slab_give(s, class);
  return true;
}

/* A slot from the first slab of the class, which has one. */
static inline void *slab_take(int class, i64 size) {
  Slab *s = (Slab *)pool.slabs[class].next;
  if (s->live++ == 0) {
    link_remove(&s->empty);
    pool.spare -= s->touched;
  }
  void *p = s->free;
  if (TY_LIKELY(p != NULL)) {
    memcpy(&s->free, p, sizeof p);
  } else {
    p = (u8 *)s + LINE + s->carved++ * size;
    i64 touched = LINE + s->carved * size;
    if (touched > s->touched) {
      pool.held += touched - s->touched;
      s->touched = (u32)touched;
    }
  }
  if (s->live == s->slots) {
    link_remove(&s->mates);
    link_init(&s->mates);
  }
  return p;
}

static void *slab_alloc(int class, i64 bytes) {
  i64 size = class_bytes(class);
  pool_lock();
  if (TY_UNLIKELY(!pool.ready)) pool_start();
  if (TY_UNLIKELY(link_empty(&pool.slabs[class]))) {
    if (!slab_find(class)) {
      pool_unlock();
      return NULL;
    }
  }
  void *p = slab_take(class, size);
  pool_use(size);
  pool_unlock();
  UNPOISON(p, (size_t)size);
  POISON((u8 *)p + bytes, (size_t)(size - bytes));
  return p;
}

/* What may wait: the cap, or less when less than that was in use lately. */
static i64 spare_limit(void) {
  return TY_MIN(pool.cap, TY_MAX(2 * TY_MAX(pool.recent, pool.used), SPARE_MIN));
}

static void slab_free(void *p, int class) {
  Slab *s = slab_of(p, class);
  Gone *gone = NULL;
  i64 size = class_bytes(class);
  UNPOISON(p, sizeof(void *));
  POISON((u8 *)p + sizeof(void *), (size_t)size - sizeof(void *));
  pool_lock();
  memcpy(p, &s->free, sizeof p);
  s->free = p;
  if (s->live == s->slots) link_push(&pool.slabs[class], &s->mates);
  pool.used -= size;
  if (--s->live == 0) {
    link_push(&pool.empty[kind_of(class)], &s->empty);
    pool.spare += s->touched;
    if (pool.recent > pool.used) pool.recent -= (pool.recent - pool.used) >> 10;
    if (TY_UNLIKELY(pool.spare > SPARE_MIN)) gone = pool_take(spare_limit());
  }
  pool_unlock();
  gone_unmap(gone);
}

/* ---- buffers: large, and the door ------------------------------------------------------------ */

/* Of a class: whole huge pages, rather than nearly one. */
static i64 large_bytes(int class) {
  i64 size = class_bytes(class);
  return size >= HUGE / 4 * 3 ? TY_MAX(size, HUGE) : size;
}

static void *large_alloc(int class, i64 bytes) {
  i64 size = large_bytes(class);
  Spare *s = NULL;
  pool_lock();
  if (!pool.ready) pool_start();
  if (!link_empty(&pool.large[class])) {
    s = (Spare *)((u8 *)pool.large[class].next - offsetof(Spare, mates));
    link_remove(&s->lru);
    link_remove(&s->mates);
    pool.spare -= size;
    pool_use(size);
  }
  pool_unlock();
  if (!s) {
    if (!(s = map_memory(size, size >= HUGE && !host.allocate ? HUGE : 0))) return NULL;
    if (size >= HUGE && !host.allocate) ty_system_huge(s, (size_t)size);
    pool_lock();
    pool.held += size;
    pool_use(size);
    pool_unlock();
  }
  UNPOISON(s, (size_t)size);
  POISON((u8 *)s + bytes, (size_t)(size - bytes));
  return s;
}

static void large_free(void *p, int class) {
  Spare *s = p;
  i64 size = large_bytes(class);
  UNPOISON(p, sizeof *s);
  POISON(s + 1, (size_t)size - sizeof *s);
  pool_lock();
  if (pool.recent > pool.used) pool.recent -= (pool.recent - pool.used) >> 10;
  pool.used -= size;
  pool.spare += size;
  s->bytes = size;
  link_push(&pool.lru, &s->lru);
  link_push(&pool.large[class], &s->mates);
  Gone *gone = pool_take(spare_limit());
  pool_unlock();
  gone_unmap(gone);
}

/* What memory that is checked takes: pages. */
static i64 in_pages(i64 bytes) { return (bytes + 2 * 4096 - 1) & ~(i64)4095; }

static COLD void *checked_alloc(void *p, i64 bytes) {
  if (!p) return NULL;
  pool_lock();
  pool_use(in_pages(bytes));
  pool.held = pool.used;
  pool_unlock();
  return p;
}

static COLD void checked_free(void *p) {
  i64 bytes = (i64)ty_guard_size(p);
  ty_guard_free(p);
  pool_lock();
  pool.used -= in_pages(bytes);
  pool.held = pool.used;
  pool_unlock();
}

void *ty_buf_alloc(i64 bytes) {
  if (TY_UNLIKELY(bytes < 0 || bytes > BUF_MAX) || hook_fails()) return NULL;
  if (TY_UNLIKELY(ty_guarded)) return checked_alloc(ty_guard_alloc((size_t)bytes, LINE), bytes);
  int class = class_of(bytes);
  return class < SLAB_CLASSES ? slab_alloc(class, bytes) : large_alloc(class, bytes);
}

void *ty_buf_alloc_data(i64 bytes) {
  if (TY_LIKELY(!ty_guarded) || bytes < 0 || bytes > BUF_MAX) return ty_buf_alloc(bytes);
  if (hook_fails()) return NULL;
  return checked_alloc(ty_guard_alloc((size_t)bytes, ty_guard_align((size_t)bytes, LINE)), bytes);
}

void ty_buf_free(void *p, i64 bytes) {
  if (!p) return;
  if (TY_UNLIKELY(ty_guarded)) {
    checked_free(p);
    return;
  }
  int class = class_of(bytes);
  if (class < SLAB_CLASSES) slab_free(p, class);
  else large_free(p, class);
}

void *ty_buf_pieces(i64 n, i64 each, i64 *step) {
  i64 all;
  *step = each;
  if (TY_LIKELY(!ty_guarded)) return ty_mul(n, each, &all) ? ty_buf_alloc(all) : NULL;
  if (hook_fails()) return NULL;
  size_t apart;
  void *p = ty_guard_pieces((size_t)n, (size_t)each, LINE, &apart);
  *step = (i64)apart;
  return checked_alloc(p, p ? (i64)ty_guard_size(p) : 0);
}

void ty_buf_trim(i64 keep) {
  pool_lock();
  Gone *gone = pool.ready ? pool_take(TY_MAX(keep, 0)) : NULL;
  pool_unlock();
  gone_unmap(gone);
}

/* ---- figures --------------------------------------------------------------------------------- */

MemStats ty_mem_stats(void) {
  pool_lock();
  MemStats m = {.buf_used = pool.used, .buf_cached = pool.held - pool.used, .buf_peak = pool.peak};
  pool_unlock();
  m.general = atomic_load_explicit(&general, memory_order_relaxed);
  return m;
}

u64 ty_mem_fail(i64 after, i64 times) {
  atomic_store(&hook.armed, false);
  atomic_store(&hook.after, after);
  atomic_store(&hook.times, times);
  atomic_store(&hook.armed, after >= 0 && times != 0);
  pool_lock();
  u64 n = pool.counted;
  pool.counted = 0;
  pool_unlock();
  return n + atomic_exchange(&counted, 0);
}
