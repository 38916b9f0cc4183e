/*
** base.h -- integers, checked size arithmetic, hashing, arenas, the buffer allocator.
** Everything in core/ includes this first. Level 0: it knows nothing of tensors.
** All allocation goes through mem.c, so that one failing hook reaches every caller; NULL is always
** possible and never fatal.
*/
#ifndef TY_BASE_H
#define TY_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TY_VERSION "0.1.0"

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* What a shared object shows. */
#ifdef _WIN32
#define TY_EXPORT __declspec(dllexport)
#else
#define TY_EXPORT __attribute__((visibility("default")))
#endif

#define TY_COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))
#define TY_MIN(a, b) ((a) < (b) ? (a) : (b))
#define TY_MAX(a, b) ((a) > (b) ? (a) : (b))
#define TY_LIKELY(x) __builtin_expect(!!(x), 1)
#define TY_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Size arithmetic that says whether it overflowed. */
static inline bool ty_mul(i64 a, i64 b, i64 *y) { return !__builtin_mul_overflow(a, b, y); }
static inline bool ty_add(i64 a, i64 b, i64 *y) { return !__builtin_add_overflow(a, b, y); }

/* A 64-bit hash of bytes; never used as proof of equality, bytes are compared too. */
u64 ty_hash(const void *p, size_t n, u64 seed);

/* General memory: malloc with accounting and the failing hook. Freed with ty_mem_free only. */
void *ty_mem_alloc(size_t n);
void *ty_mem_zalloc(size_t n);
void *ty_mem_realloc(void *p, size_t n);
void ty_mem_free(void *p);

/* Memory of the embedder's in place of the system's, for all of the above and buffers; before the first allocation. Its
** functions may be called by any thread; allocate answers NULL where there is none. */
typedef void *HostAllocate(void *ctx, size_t n, size_t align);
typedef void HostRelease(void *ctx, void *p, size_t n);
typedef struct HostMemory {
  void *ctx;
  HostAllocate *allocate;
  HostRelease *release;
} HostMemory;
void ty_mem_host(const HostMemory *memory);

/* For tests: after `after` further allocations fail `times` times (times < 0: for ever); after < 0:
** off. Covers general memory, arenas and buffers. Returns the allocations counted since the last
** call.
 */
u64 ty_mem_fail(i64 after, i64 times);

/* From now on a fork waits for who holds the allocator, so that the child finds it whole. Not to be
** called by two threads at once. False when the system has no memory for that. */
bool ty_mem_guard(void);

/* Buffers: tensor bytes, 64-byte aligned, cached by size class, huge pages from 2 MB. Thread-safe.
** ty_buf_free takes the size that was asked for. Contents of a fresh buffer are undefined. */
void *ty_buf_alloc(i64 bytes);
void *ty_buf_alloc_data(i64 bytes); /* the same for elements; see guard.c */
void ty_buf_free(void *p, i64 bytes);
void ty_buf_trim(i64 keep); /* give cached buffers back until at most `keep` bytes are cached */

typedef struct MemStats {
  i64 buf_used, buf_cached, buf_peak; /* bytes in live buffers, in the cache, the most ever live */
  i64 general;                        /* bytes of general memory */
} MemStats;
MemStats ty_mem_stats(void);

/* n blocks of `each` bytes one behind the other, *step apart, by one allocation: ty_buf_free(p, n * each). */
void *ty_buf_pieces(i64 n, i64 each, i64 *step);

/* Whether memory is checked, by guard.c or a sanitizer: then nothing is kept for another use, and what
** has a life of its own has a block of its own. */
bool ty_mem_checked(void);

/* --- guard.c: the allocator where TYCHO_CHECK=memory or memory-before asks for it; fixed before the first
** allocation. Blocks lie beside a page without access. */
extern bool ty_guarded;
typedef struct GuardStats {
  i64 blocks,
      crowded; /* had so far; of these, without such a page: the system has no more of them */
} GuardStats;
void *ty_guard_alloc(size_t n, size_t align);
size_t ty_guard_align(size_t n, size_t align); /* what a tensor of n bytes is promised */
void *ty_guard_pieces(size_t n, size_t each, size_t align, size_t *step);
void ty_guard_free(
    void *p); /* ends the process where bytes around p were written, or p is no block */
size_t ty_guard_size(const void *p);
GuardStats ty_guard_stats(void);

/* Arena: scratch of one compilation; dropped whole. Alloc returns NULL on failure, 16-byte aligned,
** zeroed. */
typedef struct ArenaChunk ArenaChunk;
typedef struct Arena {
  ArenaChunk *chunk;
  size_t total; /* bytes asked for so far */
} Arena;
void *ty_arena_alloc(Arena *A, size_t n);
void ty_arena_reset(Arena *A); /* keeps one chunk for the next use */
void ty_arena_free(Arena *A);

/* pool.c: run fn over [0, n) in chunks of at least `grain`; the caller works too. fn must not fail.
** Nested calls run on the caller. Results may not depend on how the range was cut. */
typedef void PoolFn(void *arg, i64 begin, i64 end);
void ty_pool_run(i64 n, i64 grain, PoolFn *fn, void *arg);
int ty_pool_threads(int n); /* n > 0 sets; returns the number in force, at most ... */
enum { POOL_MOST = 64 };
/* Threads of the embedder's in place of the pool's, before the first run: `run` calls job(arg, i) for each i below n, on
** whichever threads, and returns when all have returned. */
typedef void PoolJob(void *arg, int i);
typedef void PoolHost(void *ctx, int n, PoolJob *job, void *arg);
void ty_pool_host(PoolHost *run, void *ctx);

/* Work that may be left undone. `ask` is called every so many nanoseconds, on the thread that watches; once it says so,
** what that thread and the pool run for it ends soon, and what they write is undefined. It may take its time. */
enum { STOP_LOOKS = 2000000, SLICE_LOOKS = 20000 };
typedef bool WatchFn(void *ctx);
typedef struct Watch {
  WatchFn *ask;
  void *ctx;
  i64 every;
  _Atomic bool stopped;
  i64 next; /* when it is asked again */
  const void *owner;
} Watch;
void ty_watch(Watch *w); /* of what the calling thread runs from now on; NULL: it runs to its end */
bool ty_watch_stops(void); /* between pieces of work: whether to leave the rest undone */

/* The floating-point environment of kernels: round to nearest, no flush to zero. */
u32 ty_fp_enter(void);
void ty_fp_leave(u32 saved);

#endif
