/*
** handle.c -- handles of the C API: numbers in the place of addresses, whose use is always safe.
** In: what a handle is to stand for; handles of any age, and what never was one. Out: what they stand for, or why they
** stand for nothing. Fails when out of memory.
**
** A handle is a slot's position and the slot's turn, which grows with each use of the slot. Slots are never given back, so
** any thread may look at one at any time. Whoever works with an engine has its slot's lock; models have their engine's.
** The highest byte is one that no address has.
*/
#include "base/system.h"
#include "embed/handle.h"

#include <stdatomic.h>

enum { CHUNK = 256, CHUNKS = 4096, PLACE_BITS = 20, TURN_BITS = 36 };
_Static_assert(CHUNK *CHUNKS == 1 << PLACE_BITS, "every slot has a place");
#define TAG ((u64)0x7a << (PLACE_BITS + TURN_BITS))

struct Slot {
  _Atomic u64 handle; /* that stands for p now; 0: none */
  _Atomic u32 kind;
  _Atomic bool busy; /* of an engine: someone works with it */
  u32 place;
  u64 turn;
  _Atomic(Slot *) engine;
  _Atomic(void *) p;
  Slot *next; /* free ones */
};

static struct {
  Lock lock;
  _Atomic(Slot *) chunk[CHUNKS];
  u32 n; /* that were used at least once */
  Slot *free;
} slots = {.lock = LOCK_INIT};

static Slot *slot_at(u32 place) {
  Slot *chunk = atomic_load_explicit(&slots.chunk[place / CHUNK], memory_order_acquire);
  return chunk ? &chunk[place % CHUNK] : NULL;
}

static bool stands(const Slot *s, u64 handle, HandleKind kind) {
  return atomic_load_explicit(&s->handle, memory_order_acquire) == handle && s->kind == kind;
}

/* The slot of a handle that stands for something, or NULL. */
static Slot *find(const void *handle, HandleKind kind) {
  const u64 h = (u64)(uintptr_t)handle;
  if ((h & (u64)0xff << (PLACE_BITS + TURN_BITS)) != TAG) return NULL;
  Slot *s = slot_at((u32)(h & ((1u << PLACE_BITS) - 1)));
  return s && stands(s, h, kind) ? s : NULL;
}

/* A slot that stands for nothing. NULL: out of memory, or a million are in use. */
static Slot *take(void) {
  Slot *s = slots.free;
  if (s) {
    slots.free = s->next;
    return s;
  }
  const u32 place = slots.n;
  if (place == CHUNK * CHUNKS) return NULL;
  if (!slot_at(place)) {
    Slot *chunk = ty_mem_zalloc(CHUNK * sizeof *chunk);
    if (!chunk) return NULL;
    atomic_store_explicit(&slots.chunk[place / CHUNK], chunk, memory_order_release);
  }
  slots.n++;
  s = slot_at(place);
  s->place = place;
  return s;
}

void *ty_handle_new(HandleKind kind, void *p, Slot *engine) {
  u64 h = 0;
  ty_lock(&slots.lock);
  Slot *s = take();
  if (s) {
    s->turn = (s->turn + 1) & (((u64)1 << TURN_BITS) - 1);
    h = TAG | s->turn << PLACE_BITS | s->place;
    s->kind = kind;
    s->p = p;
    s->engine = kind == HANDLE_ENGINE ? s : engine;
    atomic_store_explicit(&s->handle, h, memory_order_release);
  }
  ty_unlock(&slots.lock);
  return (void *)(uintptr_t)h;
}

void *ty_handle_end(const void *handle, HandleKind kind) {
  void *p = NULL;
  ty_lock(&slots.lock);
  Slot *s = find(handle, kind);
  if (s) {
    p = s->p;
    atomic_store_explicit(&s->handle, 0, memory_order_release);
    s->next = slots.free;
    slots.free = s;
  }
  ty_unlock(&slots.lock);
  return p;
}

void *ty_handle_hold(const void *handle, HandleKind kind, void (*hold)(void *p)) {
  ty_lock(&slots.lock);
  Slot *s = find(handle, kind);
  void *p = s ? s->p : NULL;
  if (p) hold(p);
  ty_unlock(&slots.lock);
  return p;
}

static void *refuse(ty_status *status, const char *who, HandleKind kind, const void *handle) {
  static const char *const what[] = {
      [HANDLE_ENGINE] = "engine", [HANDLE_MODEL] = "model", [HANDLE_WEIGHTS] = "weights"};
  if (!handle) *status = ty_failed(TY_CLOSED, "%s: the %s is NULL", who, what[kind]);
  else *status = ty_failed(TY_CLOSED, "%s: this %s was closed, or never was one", who, what[kind]);
  return NULL;
}

void *ty_handle_enter(const void *handle, HandleKind kind, const char *who, Slot **lock,
                      ty_status *status) {
  Slot *s = find(handle, kind), *e = s ? atomic_load(&s->engine) : NULL;
  bool idle = false;
  if (!e) return refuse(status, who, kind, handle);
  if (!atomic_compare_exchange_strong_explicit(&e->busy, &idle, true, memory_order_acquire,
                                               memory_order_relaxed)) {
    *status = ty_failed(TY_BUSY,
                        "%s: the engine is at work in another call, on another thread or around "
                        "this one (an engine serves one call at a time)",
                        who);
    return NULL;
  }
  if (stands(s, (u64)(uintptr_t)handle, kind)) {
    *lock = e;
    return s->p;
  }
  ty_handle_leave(e); /* it was closed meanwhile */
  return refuse(status, who, kind, handle);
}

void ty_handle_leave(Slot *lock) {
  atomic_store_explicit(&lock->busy, false, memory_order_release);
}

void *ty_handle_ask(const void *handle, HandleKind kind, const char *who, const void *to,
                    const char *what, Slot **lock, ty_status *status) {
  if (to) return ty_handle_enter(handle, kind, who, lock, status);
  *status = ty_failed(TY_INVALID, "%s: where %s is to go is NULL", who, what);
  return NULL;
}
