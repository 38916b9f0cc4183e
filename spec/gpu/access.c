/*
** access.c -- loads, stores, atomics, asynchronous copies. Every access is checked: its allocation lives, it is aligned, what
** is read was written, and nobody else touched that shared memory since the last barrier between the two (races).
** Counted: sectors of 32 bytes that a request to global memory touches, and the passes that one to shared memory takes.
*/
#include <math.h>

#include "exec.h"

static const char *const kinds[] = {"read", "write"};

/* --- global memory */

static inline bool shadow_is(const uint8_t *shadow, uint32_t bytes, bool write) {
  uint64_t v = 0, w = 0, ones = 0x0101010101010101ull * (write ? ALLOCATED : WRITTEN);
  switch (bytes) {
  case 1: return (*shadow & ones & 0xff) == (ones & 0xff);
  case 2: memcpy(&v, shadow, 2); return (v & ones) == (ones & 0xffff);
  case 4: memcpy(&v, shadow, 4); return (v & ones) == (ones & 0xffffffff);
  case 16:
    memcpy(&w, shadow + 8, 8);
    memcpy(&v, shadow, 8);
    return (v & w & ones) == ones;
  default: memcpy(&v, shadow, 8); return (v & ones) == ones;
  }
}

static void global_fail(Warp *w, const Code *c, int lane, uint64_t address, uint32_t bytes,
                        bool write) {
  char where[128];
  memory_describe(address, where, sizeof where);
  Region *r = region_seen(address);
  bool live = r && address - r->base + bytes <= r->size;
  for (uint32_t i = 0; live && i < bytes; i++) live = r->shadow[address - r->base + i] != 0;
  if (live)
    fail(w, c, lane, LAUNCH_FAILED, "%u bytes at 0x%llx are read and were not written (%s)", bytes,
         (unsigned long long)address, where);
  else
    fail(w, c, lane, ILLEGAL_ADDRESS, "%s of %u bytes at 0x%llx: %s", kinds[write], bytes,
         (unsigned long long)address, where);
}

static inline uint8_t *global_at(Warp *w, const Code *c, int lane, uint64_t address, uint32_t bytes,
                                 bool write) {
  Region *r = region_seen(address);
  uint64_t at = r ? address - r->base : 0;
  if (__builtin_expect(!r || at + bytes > r->size, 0)) {
    global_fail(w, c, lane, address, bytes, write);
    return NULL;
  }
  if (__builtin_expect(!shadow_is(r->shadow + at, bytes, write), 0)) {
    if (write || settings.initialised || !shadow_is(r->shadow + at, bytes, true)) {
      global_fail(w, c, lane, address, bytes, write);
      return NULL;
    }
  }
  if (settings.blocks && !c->strong && bytes >= 4) blocks_touch(w, c, lane, r, at, bytes, write);
  if (write) memset(r->shadow + at, WRITTEN, bytes);
  return r->bytes + at;
}

static uint8_t *local_at(Warp *w, const Code *c, int lane, uint64_t at, uint32_t bytes) {
  uint32_t room = w->block->kernel->local_bytes;
  if (at + bytes <= room && at + bytes >= at) return w->local + (size_t)lane * room + at;
  fail(w, c, lane, ILLEGAL_ADDRESS,
       "local memory: %u bytes at 0x%llx are outside of the 0x%x that a thread has", bytes,
       (unsigned long long)at, room);
  return NULL;
}

static uint8_t *param_at(Warp *w, const Code *c, int lane, uint64_t at, uint32_t bytes) {
  const Launch *l = w->block->launch;
  if (at + bytes <= l->kernel->param_bytes && at + bytes >= at) return l->params + at;
  fail(w, c, lane, ILLEGAL_ADDRESS, "parameters: %u bytes at 0x%llx are outside of the %u", bytes,
       (unsigned long long)at, l->kernel->param_bytes);
  return NULL;
}

static inline uint8_t *place(Warp *w, const Code *c, int lane, uint64_t address, uint32_t bytes,
                             bool write) {
  int space = c->space;
  if (__builtin_expect(address & (bytes - 1), 0)) {
    fail(w, c, lane, MISALIGNED_ADDRESS, "%s of %u bytes at 0x%llx is not aligned", kinds[write],
         bytes, (unsigned long long)address);
    return NULL;
  }
  if (space == S_GENERIC) {
    uint64_t window = address & ~(WINDOW - 1);
    space = window == SHARED_WINDOW  ? S_SHARED
            : window == LOCAL_WINDOW ? S_LOCAL
            : window == PARAM_WINDOW ? S_PARAM
                                     : S_GLOBAL;
    if (space != S_GLOBAL) address -= window;
  }
  switch (space) {
  case S_SHARED: return shared_at(w, c, lane, address, bytes, write);
  case S_LOCAL: return local_at(w, c, lane, address, bytes);
  case S_PARAM: return param_at(w, c, lane, address, bytes);
  default: return global_at(w, c, lane, address, bytes, write);
  }
}

/* --- counts of a request */

static void count_global(const uint64_t *at, uint32_t mask, uint32_t bytes) {
  uint64_t seen[2 * WARP], asked = 0, previous = ~0ull;
  int n = 0;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    if (at[l] != previous) asked += bytes;
    previous = at[l];
    uint64_t sector = at[l] >> 5;
    if (n && seen[n - 1] == sector) continue;
    int i = 0;
    if (n && sector < seen[n - 1])
      while (i < n && seen[i] != sector) i++;
    else i = n;
    if (i == n) seen[n++] = sector;
  }
  counts.global_requests++;
  counts.global_sectors += (uint64_t)n;
  counts.global_bytes += asked;
  counts.global_ideal += (asked + 31) / 32;
}

/* Passes over the 32 banks of 4 bytes: 8-byte requests go by halves of a warp, 16-byte ones by quarters. */
/* Whether lanes of a request of one word each use a bank apiece, or all the same word. */
static bool without_conflict(const uint64_t *at, uint32_t mask) {
  uint32_t used = 0, twice = 0;
  uint64_t differ = 0, first = at[__builtin_ctz(mask)];
  for (int l = 0; l < WARP; l++) {
    uint32_t here = mask >> l & 1, bank = here << (at[l] / 4 % 32);
    twice |= used & bank;
    used |= bank;
    differ |= here ? at[l] ^ first : 0;
  }
  return !twice || differ < 4;
}

static void count_shared(const uint64_t *at, uint32_t mask, uint32_t bytes) {
  counts.shared_requests++;
  if (bytes <= 4 && without_conflict(at, mask)) {
    counts.shared_wavefronts++;
    counts.shared_ideal++;
    return;
  }
  int lanes = bytes > 8 ? 8 : bytes > 4 ? 16 : 32, words = bytes > 4 ? (int)bytes / 4 : 1;
  for (int from = 0; from < WARP; from += lanes) {
    uint32_t part = mask >> from & (lanes == 32 ? ~0u : (1u << lanes) - 1);
    if (!part) continue;
    uint64_t held[32][32];
    uint8_t n[32] = {0}, most = 1;
    for (int l = from; l < from + lanes; l++) {
      if (!(mask >> l & 1)) continue;
      for (int k = 0; k < words; k++) {
        uint64_t word = at[l] / 4 + (uint64_t)k;
        int bank = (int)(word % 32), i = 0;
        while (i < n[bank] && held[bank][i] != word) i++;
        if (i < n[bank]) continue;
        held[bank][n[bank]++] = word;
        if (n[bank] > most) most = n[bank];
      }
    }
    counts.shared_wavefronts += most;
    counts.shared_ideal++;
  }
}

static void count(const Code *c, const uint64_t *at, uint32_t mask, uint32_t bytes) {
  if (!settings.counting) return;
  if (c->space == S_GLOBAL || c->space == S_GENERIC) count_global(at, mask, bytes);
  if (c->space == S_SHARED) count_shared(at, mask, bytes);
}

static void addresses(const Warp *w, const Code *c, int operand, uint64_t *at) {
  if (c->o[operand] == NO_SLOT)
    for (int l = 0; l < WARP; l++) at[l] = (uint64_t)c->offset;
  else if (c->from == 8)
    for (int l = 0; l < WARP; l++) at[l] = SLOT64(w, c->o[operand])[l] + (uint64_t)c->offset;
  else
    for (int l = 0; l < WARP; l++)
      at[l] = (uint32_t)(SLOT32(w, c->o[operand])[l] + (uint32_t)c->offset);
}

/* --- loads and stores: Code.more are the registers, Code.width their bytes, Code.type what memory holds */

static inline __attribute__((always_inline)) void take(Warp *w, const Code *c, int lane,
                                                       const uint8_t *from, int size, int n) {
  if (c->plain) { /* registers of the memory's own width, and no sink */
    for (int i = 0; i < n; i++)
      if (size == 8) memcpy(SLOT64(w, c->more[i]) + lane, from + i * 8, 8);
      else memcpy(SLOT32(w, c->more[i]) + lane, from + i * 4, 4);
    return;
  }
  for (int i = 0; i < n; i++) {
    uint64_t v = 0;
    memcpy(&v, from + i * size, (size_t)size);
    if (c->sat) { /* signed, to a wider register */
      int shift = 64 - 8 * size;
      v = (uint64_t)((int64_t)(v << shift) >> shift);
    }
    if (c->more[i] == NO_SLOT) continue;
    if (c->width == 8) SLOT64(w, c->more[i])[lane] = v;
    else SLOT32(w, c->more[i])[lane] = c->width == 2 ? (uint16_t)v : (uint32_t)v;
  }
}

static inline __attribute__((always_inline)) void give(const Warp *w, const Code *c, int lane,
                                                       uint8_t *to, int size, int n) {
  for (int i = 0; i < n; i++) {
    uint64_t v = c->width == 8 ? SLOT64(w, c->more[i])[lane] : SLOT32(w, c->more[i])[lane];
    memcpy(to + i * size, &v, (size_t)size);
  }
}

/* Whether all lanes are there, each behind the one before it. */
static inline bool in_order(const uint64_t *at, uint32_t mask, uint32_t bytes) {
  uint64_t differ = 0;
  if (mask != ~(uint32_t)0) return false;
  for (uint32_t l = 0; l < WARP; l++) differ |= at[l] ^ (at[0] + l * bytes);
  return !differ;
}

static void count_in_order(uint64_t at, uint32_t bytes) {
  if (!settings.counting) return;
  counts.global_requests++;
  counts.global_sectors += ((at + WARP * bytes - 1) >> 5) - (at >> 5) + 1;
  counts.global_bytes += WARP * bytes;
  counts.global_ideal += bytes;
}

/* The bytes of all lanes, if they lie in global memory one behind the other and may be read or written; else null. */
static inline uint8_t *together(const Warp *w, const Code *c, uint32_t mask, const uint64_t *at,
                                uint32_t bytes, bool write) {
  if (c->space != S_GLOBAL || !in_order(at, mask, bytes) || at[0] & (bytes - 1)) return NULL;
  Region *r = region_seen(at[0]);
  if (!r || at[0] - r->base + WARP * bytes > r->size) return NULL;
  uint8_t *shadow = r->shadow + (at[0] - r->base), all = 0xff;
  for (uint32_t i = 0; i < WARP * bytes; i++) all &= shadow[i];
  if (write ? !(all & ALLOCATED) : all != WRITTEN) return NULL;
  bool compared = settings.blocks && !c->strong && bytes >= 4;
  if (compared && !blocks_touch_all(w->block, r, at[0] - r->base, WARP * bytes, write)) return NULL;
  if (write) memset(shadow, WRITTEN, WARP * bytes);
  count_in_order(at[0], bytes);
  return r->bytes + (at[0] - r->base);
}

static inline __attribute__((always_inline)) void load(Warp *w, const Code *c, uint32_t mask,
                                                       int size, int n) {
  uint64_t at[WARP];
  addresses(w, c, 0, at);
  const uint8_t *all = together(w, c, mask, at, (uint32_t)(size * n), false);
  if (all) {
    for (int l = 0; l < WARP; l++) take(w, c, l, all + l * size * n, size, n);
    return;
  }
  count(c, at, mask, (uint32_t)(size * n));
  if (c->space == S_SHARED && shared_load(w, c, mask, at)) return;
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int l = __builtin_ctz(rest);
    const uint8_t *from = place(w, c, l, at[l], (uint32_t)(size * n), false);
    if (!from) return;
    take(w, c, l, from, size, n);
  }
}

/* Lanes that store different values to one place in one instruction: which of them stays is not defined. */
static void store_clash(Warp *w, const Code *c, uint32_t mask, const uint64_t *at) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) {
    int l = __builtin_ctz(rest);
    for (uint32_t later = rest & (rest - 1); later; later &= later - 1) {
      int m = __builtin_ctz(later);
      if (at[l] != at[m]) continue;
      bool same = true;
      for (int i = 0; i < c->n_more; i++)
        same &= c->width == 8 ? SLOT64(w, c->more[i])[l] == SLOT64(w, c->more[i])[m]
                              : SLOT32(w, c->more[i])[l] == SLOT32(w, c->more[i])[m];
      if (!same)
        fail(w, c, l, LAUNCH_FAILED, "lanes %d and %d store different values at 0x%llx", l, m,
             (unsigned long long)at[l]);
    }
  }
}

static bool ascending(const uint64_t *at, uint32_t mask) {
  bool yes = true;
  if (mask != ~(uint32_t)0) return false;
  for (int l = 1; l < WARP; l++) yes &= at[l] > at[l - 1];
  return yes;
}

static inline __attribute__((always_inline)) void store(Warp *w, const Code *c, uint32_t mask,
                                                        int size, int n) {
  uint64_t at[WARP];
  w->serial++;
  addresses(w, c, 0, at);
  uint8_t *all = together(w, c, mask, at, (uint32_t)(size * n), true);
  if (all) {
    for (int l = 0; l < WARP; l++) give(w, c, l, all + l * size * n, size, n);
    return;
  }
  count(c, at, mask, (uint32_t)(size * n));
  bool done = c->space == S_SHARED && shared_store(w, c, mask, at);
  for (uint32_t rest = done ? 0 : mask; rest; rest &= rest - 1) {
    int l = __builtin_ctz(rest);
    uint8_t *to = place(w, c, l, at[l], (uint32_t)(size * n), true);
    if (!to) return;
    give(w, c, l, to, size, n);
  }
  if (c->space != S_LOCAL && !ascending(at, mask)) store_clash(w, c, mask, at);
}

#define BY_SHAPE(CALL) \
  switch (type_size((Type)c->type) * 16 + c->n_more) { \
  case 16 + 1: CALL(w, c, mask, 1, 1); break; \
  case 32 + 1: CALL(w, c, mask, 2, 1); break; \
  case 64 + 1: CALL(w, c, mask, 4, 1); break; \
  case 64 + 2: CALL(w, c, mask, 4, 2); break; \
  case 64 + 4: CALL(w, c, mask, 4, 4); break; \
  case 128 + 1: CALL(w, c, mask, 8, 1); break; \
  case 128 + 2: CALL(w, c, mask, 8, 2); break; \
  default: CALL(w, c, mask, type_size((Type)c->type), c->n_more); \
  }

void run_ld(Warp *w, const Code *c, uint32_t mask) { BY_SHAPE(load) }
void run_st(Warp *w, const Code *c, uint32_t mask) { BY_SHAPE(store) }

/* A parameter is the same for all lanes. */
void run_ld_param(Warp *w, const Code *c, uint32_t mask) {
  int size = type_size((Type)c->type), first = __builtin_ctz(mask);
  uint32_t bytes = (uint32_t)(size * c->n_more);
  if (c->offset & (bytes - 1)) {
    fail(w, c, first, MISALIGNED_ADDRESS, "a parameter of %u bytes at %lld is not aligned", bytes,
         (long long)c->offset);
    return;
  }
  const uint8_t *from = param_at(w, c, first, (uint64_t)c->offset, bytes);
  if (from) LANES(take(w, c, l, from, size, c->n_more););
}

/* --- atomics: d (NO_SLOT: red), [a], b, and c of cas */

typedef enum AtomOp { A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCH, A_CAS, A_INC, A_DEC } AtomOp;

static float flushed(float f) { return fabsf(f) < 0x1p-126f ? copysignf(0, f) : f; }

static uint64_t atom_float(const Code *c, uint64_t old, uint64_t b) {
  float x, y;
  double p, q;
  switch (c->type) {
  case T_F32:
    memcpy(&x, &old, 4);
    memcpy(&y, &b, 4);
    return f32_canonical(c->space == S_SHARED ? x + y : flushed(flushed(x) + flushed(y)));
  case T_F64:
    memcpy(&p, &old, 8);
    memcpy(&q, &b, 8);
    p += q;
    memcpy(&old, &p, 8);
    return old;
  default:
    return f16_round(round_odd_sum(f16_value((uint16_t)old), f16_value((uint16_t)b)), ROUND_RN);
  }
}

static uint64_t atom_value(const Code *c, uint64_t old, uint64_t b, uint64_t e) {
  bool is_signed = type_is_signed((Type)c->type);
  int64_t x = type_size((Type)c->type) == 4 ? (int32_t)old : (int64_t)old,
          y = type_size((Type)c->type) == 4 ? (int32_t)b : (int64_t)b;
  switch (c->op) {
  case A_ADD: return type_is_float((Type)c->type) ? atom_float(c, old, b) : old + b;
  case A_MIN: return is_signed ? (uint64_t)(x < y ? x : y) : old < b ? old : b;
  case A_MAX: return is_signed ? (uint64_t)(x > y ? x : y) : old > b ? old : b;
  case A_AND: return old & b;
  case A_OR: return old | b;
  case A_XOR: return old ^ b;
  case A_EXCH: return b;
  case A_CAS: return old == b ? e : old;
  case A_INC: return old >= b ? 0 : old + 1;
  default: return old == 0 || old > b ? b : old - 1;
  }
}

void run_atom(Warp *w, const Code *c, uint32_t mask) {
  int size = type_size((Type)c->type);
  bool races = settings.races;
  settings.races = 0; /* atomics do not race with one another */
  uint64_t at[WARP];
  addresses(w, c, 1, at);
  count(c, at, mask, (uint32_t)size);
  int turn = settings.seed ? (int)draw(WARP) : 0; /* the order among lanes is not defined */
  for (int i = 0; i < WARP; i++) {
    int l = (i + turn) % WARP;
    if (!(mask >> l & 1)) continue;
    uint8_t *to = place(w, c, l, at[l], (uint32_t)size, false);
    if (!to || !place(w, c, l, at[l], (uint32_t)size, true)) break;
    uint64_t old = 0, b = size == 8 ? SLOT(uint64_t, 2)[l] : SLOT(uint32_t, 2)[l];
    uint64_t e = c->n < 4 ? 0 : size == 8 ? SLOT(uint64_t, 3)[l] : SLOT(uint32_t, 3)[l];
    memcpy(&old, to, (size_t)size);
    uint64_t v = atom_value(c, old, b, e);
    memcpy(to, &v, (size_t)size);
    if (c->o[0] == NO_SLOT) continue;
    if (size == 8) SLOT(uint64_t, 0)[l] = old;
    else SLOT(uint32_t, 0)[l] = (uint32_t)old;
  }
  settings.races = races;
}

/* --- asynchronous copies: [shared], [global], Code.width bytes; operand 2 is how many of them are read, or a predicate that
   says that none is (Code.op). They are carried out when they are waited for: who reads too early gets a report. */

static void copy_issue(Warp *w, const Code *c, int l, uint64_t to, uint64_t from, uint32_t bytes) {
  Code part = *c;
  part.space = S_GLOBAL;
  uint32_t read = bytes;
  if (c->op == 1) read = SLOT(uint32_t, 2)[l];
  if (c->op == 2 && (w->preds[c->o[2]] ^ (c->neg & 4 ? ~0u : 0)) >> l & 1) read = 0;
  if (read > bytes) {
    fail(w, c, l, LAUNCH_FAILED, "cp.async reads %u of %u bytes", read, bytes);
    return;
  }
  if ((from | to) & (bytes - 1)) {
    fail(w, c, l, MISALIGNED_ADDRESS, "cp.async of %u bytes from 0x%llx to 0x%llx is not aligned",
         bytes, (unsigned long long)from, (unsigned long long)to);
    return;
  }
  Copy copy = {.to = (uint32_t)to, .size = bytes, .group = w->commits[l], .lane = (uint8_t)l};
  uint32_t done = 0;
  while (done < read) {
    uint32_t n = read - done >= 16  ? 16
                 : read - done >= 8 ? 8
                 : read - done >= 4 ? 4
                 : read - done >= 2 ? 2
                                    : 1;
    const uint8_t *source = global_at(w, &part, l, from + done, n, false);
    if (!source) return;
    memcpy(copy.bytes + done, source, n);
    done += n;
  }
  if (!shared_at(w, c, l, to, bytes, true)) return;
  shared_fly(w, copy.to, bytes, true);
  if (w->n_copies == w->max_copies) {
    w->max_copies = w->max_copies ? 2 * w->max_copies : 256;
    w->copies = realloc(w->copies, (size_t)w->max_copies * sizeof *w->copies);
  }
  w->copies[w->n_copies++] = copy;
}

void run_cp_async(Warp *w, const Code *c, uint32_t mask) {
  uint64_t to[WARP], from[WARP];
  w->serial++;
  for (int l = 0; l < WARP; l++) {
    to[l] = (c->from & 8   ? SLOT64(w, c->o[0])[l]
             : c->from & 4 ? SLOT32(w, c->o[0])[l]
                           : 0) +
            (uint64_t)c->offset;
    from[l] = c->o[1] == NO_SLOT ? (uint64_t)c->target
                                 : SLOT64(w, c->o[1])[l] + (uint64_t)(int64_t)c->target;
  }
  if (settings.counting) {
    count_global(from, mask, c->width);
    count_shared(to, mask, c->width);
  }
  for (int l = 0; l < WARP && !w->block->error; l++)
    if (mask >> l & 1) copy_issue(w, c, l, to[l], from[l], c->width);
}

void run_cp_commit(Warp *w, const Code *c, uint32_t mask) {
  (void)c;
  for (int l = 0; l < WARP; l++) w->commits[l] += mask >> l & 1;
}

static void copy_land(Warp *w, const Code *c, const Copy *copy) {
  memcpy(w->block->shared + copy->to, copy->bytes, copy->size);
  w->serial++;
  shared_fly(w, copy->to, copy->size, false);
  shared_touch(w, c, copy->lane, copy->to, copy->size, true);
}

/* All groups of a lane but its Code.target last ones; -1: everything, committed or not. */
void run_cp_wait(Warp *w, const Code *c, uint32_t mask) {
  int kept = 0;
  for (int i = 0; i < w->n_copies; i++) {
    const Copy *copy = w->copies + i;
    int64_t limit = c->target < 0 ? INT64_MAX : (int64_t)w->commits[copy->lane] - c->target;
    if (mask >> copy->lane & 1 && copy->group < limit) copy_land(w, c, copy);
    else w->copies[kept++] = *copy;
  }
  w->n_copies = kept;
}

/* --- address spaces */

static uint64_t window_of(int space) {
  return space == S_SHARED  ? SHARED_WINDOW
         : space == S_LOCAL ? LOCAL_WINDOW
         : space == S_PARAM ? PARAM_WINDOW
                            : 0;
}

/* Code.op: 1 is from generic to the space, 0 the other way. */
void run_cvta(Warp *w, const Code *c, uint32_t mask) {
  uint64_t add = c->op ? 0 - window_of(c->space) : window_of(c->space);
  uint64_t *d = SLOT(uint64_t, 0);
  const uint64_t *a = SLOT(uint64_t, 1);
  LANES(d[l] = a[l] + add;);
}

void run_isspacep(Warp *w, const Code *c, uint32_t mask) {
  uint32_t r = 0;
  for (int l = 0; l < WARP; l++) {
    uint64_t window = SLOT(uint64_t, 1)[l] & ~(WINDOW - 1), own = window_of(c->space);
    bool other = window == SHARED_WINDOW || window == LOCAL_WINDOW || window == PARAM_WINDOW;
    r |= (uint32_t)(own ? window == own : !other) << l;
  }
  w->preds[c->o[0]] = (w->preds[c->o[0]] & ~mask) | (r & mask);
}

void run_nothing(Warp *w, const Code *c, uint32_t mask) {
  (void)w;
  (void)c;
  (void)mask;
}
