/*
** shared.c -- shared memory: bounds, what is written, races.
** For each granule (the smallest access that the kernel makes) it is known who wrote it last and who read it since: the clock of
** the warp, which barriers advance, its bar.warp.sync count, the lane. An access races with one of another warp whose clock
** this warp has not seen pass, and with one of another lane of its own warp since the last bar.warp.sync.
** Words of a whole warp are tested at once; who finds anything unusual goes lane by lane.
*/
#include "exec.h"

#define IN_FLIGHT UINT32_MAX /* a write clock: a cp.async that nobody waited for */
#define AT(sync, warp, lane) ((uint32_t)(sync) << 16 | (uint32_t)(warp) << 8 | (uint32_t)(lane))

bool tags_new(Tags *t, size_t n) {
  t->n = n;
  t->write_clock = calloc(6 * n, sizeof(uint32_t));
  if (!t->write_clock) return false;
  t->write_at = t->write_clock + n;
  t->serial = t->write_at + n;
  t->read_clock = t->serial + n;
  t->read_at = t->read_clock + n;
  t->readers = t->read_at + n;
  return true;
}

void tags_clear(Tags *t) { memset(t->write_clock, 0, 6 * t->n * sizeof(uint32_t)); }
void tags_free(Tags *t) { free(t->write_clock); }

/* --- one granule */

static void race(Warp *w, const Code *c, int lane, uint32_t g, const char *what, const char *other,
                 uint32_t at) {
  char who[32] = "several lanes";
  if ((at & 0xff) != MANY) snprintf(who, sizeof who, "lane %u", at & 0xff);
  fail(w, c, lane, LAUNCH_FAILED,
       "race in shared memory: this %s of byte 0x%x meets a %s by %s of warp %u with no barrier "
       "between",
       what, g << w->block->kernel->granule, other, who, at >> 8 & 0xff);
}

/* Whether what was done at a clock and a place (AT) is unordered with this lane's access. */
static bool unordered(const Warp *w, int lane, uint32_t clock, uint32_t at) {
  uint32_t warp = at >> 8 & 0xff;
  if (warp != (uint32_t)w->index) return clock >= w->clock[warp];
  return (int)(at & 0xff) != lane && clock == w->clock[warp] && at >> 16 == w->sync;
}

static bool landed(Warp *w, const Code *c, int lane, uint32_t g, const char *what) {
  if (w->block->tags.write_clock[g] != IN_FLIGHT) return true;
  fail(w, c, lane, LAUNCH_FAILED,
       "byte 0x%x of shared memory is %s before its cp.async was waited for",
       g << w->block->kernel->granule, what);
  return false;
}

static void read_granule(Warp *w, const Code *c, int lane, uint32_t g) {
  Tags *t = &w->block->tags;
  if (!landed(w, c, lane, g, "read")) return;
  if (unordered(w, lane, t->write_clock[g], t->write_at[g]))
    race(w, c, lane, g, "read", "write", t->write_at[g]);
  uint32_t own = w->clock[w->index], bit = 1u << w->index;
  if (t->read_clock[g] != own) t->readers[g] = 0;
  bool again = t->readers[g] & bit && (t->read_at[g] & 0xff) != (uint32_t)lane;
  t->readers[g] |= bit;
  t->read_clock[g] = own;
  t->read_at[g] = AT(w->sync, w->index, again ? MANY : lane);
}

/* Of several warps that read, the lane is known of the last one alone. */
static bool read_conflict(const Warp *w, int lane, uint32_t g, uint32_t *at) {
  const Tags *t = &w->block->tags;
  for (uint32_t rest = t->readers[g]; rest; rest &= rest - 1) {
    uint32_t warp = (uint32_t)__builtin_ctz(rest), last = t->read_at[g];
    *at = warp == (last >> 8 & 0xff) ? last : AT(last >> 16, warp, MANY);
    if (warp == (uint32_t)w->index && *at != last) continue;
    if (unordered(w, lane, t->read_clock[g], *at)) return true;
  }
  return false;
}

static void write_granule(Warp *w, const Code *c, int lane, uint32_t g) {
  Tags *t = &w->block->tags;
  uint32_t own = w->clock[w->index], at = t->write_at[g];
  if (!landed(w, c, lane, g, "written")) return;
  bool same = (at >> 8 & 0xff) == (uint32_t)w->index && t->serial[g] == w->serial &&
              t->write_clock[g] == own;
  if (same) return; /* lanes of one store, whose values are compared */
  if (unordered(w, lane, t->write_clock[g], at)) race(w, c, lane, g, "write", "write", at);
  else if (read_conflict(w, lane, g, &at)) race(w, c, lane, g, "write", "read", at);
  t->write_clock[g] = own;
  t->write_at[g] = AT(w->sync, w->index, lane);
  t->serial[g] = w->serial;
  t->readers[g] = 0;
}

void shared_touch(Warp *w, const Code *c, int lane, uint32_t at, uint32_t bytes, bool write) {
  int granule = w->block->kernel->granule;
  if (!settings.races) return;
  for (uint32_t g = at >> granule; g <= (at + bytes - 1) >> granule; g++)
    if (write) write_granule(w, c, lane, g);
    else read_granule(w, c, lane, g);
}

/* A cp.async is under way to these bytes, or has arrived. */
void shared_fly(Warp *w, uint32_t at, uint32_t bytes, bool under_way) {
  int granule = w->block->kernel->granule;
  if (settings.races)
    for (uint32_t g = at >> granule; g <= (at + bytes - 1) >> granule; g++)
      w->block->tags.write_clock[g] = under_way ? IN_FLIGHT : 0;
}

/* --- one lane */

static bool all_written(const uint8_t *shadow, uint32_t bytes) {
  bool all = true;
  for (uint32_t i = 0; i < bytes; i++) all &= shadow[i] == WRITTEN;
  return all;
}

uint8_t *shared_at(Warp *w, const Code *c, int lane, uint64_t at, uint32_t bytes, bool write) {
  Block *b = w->block;
  if (at + bytes > b->shared_bytes || at + bytes < at) {
    fail(w, c, lane, ILLEGAL_ADDRESS,
         "shared memory: %u bytes at 0x%llx are outside of the 0x%x that the block has", bytes,
         (unsigned long long)at, b->shared_bytes);
    return NULL;
  }
  shared_touch(w, c, lane, (uint32_t)at, bytes, write);
  if (write) memset(b->shared_written + at, WRITTEN, bytes);
  else if (settings.initialised && !all_written(b->shared_written + at, bytes))
    fail(w, c, lane, LAUNCH_FAILED,
         "shared memory: %u bytes at 0x%llx are read and were not written", bytes,
         (unsigned long long)at);
  return b->shared + at;
}

/* --- a whole warp: lanes that are not there do as the first one that is */

typedef struct Words {
  uint32_t index[WARP], lane[WARP];
} Words;

static bool words_of(const Warp *w, uint32_t mask, const uint64_t *at, uint32_t bytes,
                     Words *words) {
  uint32_t first = (uint32_t)__builtin_ctz(mask);
  uint64_t bad = 0;
  for (uint32_t l = 0; l < WARP; l++) {
    uint64_t a = mask >> l & 1 ? at[l] : at[first];
    words->lane[l] = mask >> l & 1 ? l : first;
    words->index[l] = (uint32_t)(a >> 2);
    bad |= (a & (bytes - 1)) | (a + bytes > w->block->shared_bytes) | a >> 32;
  }
  return !bad && w->block->kernel->granule == 2;
}

/* Nobody wrote these words since all warps last met. */
static bool reads_quickly(const Warp *w, const uint32_t *index, const uint32_t *lane) {
  const Tags *t = &w->block->tags;
  uint32_t *read_clock = t->read_clock, *readers = t->readers, *read_at = t->read_at;
  const uint32_t *write_clock = t->write_clock;
  uint32_t own = w->clock[w->index], bit = 1u << w->index, known = w->known, late = 0;
  for (int l = 0; l < WARP; l++) late |= write_clock[index[l]] >= known;
  if (late) return false;
  uint32_t was[WARP], at[WARP], here = AT(w->sync, w->index, 0), twice = 0;
  for (int l = 0; l < WARP; l++) {
    was[l] = read_clock[index[l]] == own ? readers[index[l]] : 0;
    at[l] = was[l] & bit && (read_at[index[l]] & 0xff) != lane[l] ? here | MANY : here | lane[l];
  }
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) readers[index[l]] = was[l] | bit;
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) read_clock[index[l]] = own;
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) read_at[index[l]] = at[l];
  for (int l = 0; l < WARP; l++) twice |= read_at[index[l]] ^ at[l];
  if (twice)
    for (int l = 0; l < WARP; l++) /* lanes that read the same word */
      if (read_at[index[l]] != at[l]) read_at[index[l]] = here | MANY;
  return true;
}

static bool writes_quickly(const Warp *w, const uint32_t *index, const uint32_t *lane) {
  const Tags *t = &w->block->tags;
  uint32_t *write_clock = t->write_clock, *write_at = t->write_at, *serial = t->serial,
           *readers = t->readers;
  const uint32_t *read_clock = t->read_clock;
  uint32_t own = w->clock[w->index], known = w->known, late = 0, here = AT(w->sync, w->index, 0);
  for (int l = 0; l < WARP; l++)
    late |= (write_clock[index[l]] >= known) | (read_clock[index[l]] >= known);
  if (late) return false;
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) write_clock[index[l]] = own;
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) write_at[index[l]] = here | lane[l];
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) serial[index[l]] = w->serial;
#pragma GCC ivdep
  for (int l = 0; l < WARP; l++) readers[index[l]] = 0;
  return true;
}

/* Loads of n registers of one word each; false: nothing is done. */
bool shared_load(Warp *w, const Code *c, uint32_t mask, const uint64_t *at) {
  Words words;
  uint32_t n = c->n_more;
  if (!c->plain || c->width != 4 || !words_of(w, mask, at, 4 * n, &words)) return false;
  const uint32_t *bytes = (const uint32_t *)(const void *)w->block->shared;
  const uint32_t *shadow = (const uint32_t *)(const void *)w->block->shared_written;
  for (uint32_t i = 0; i < n; i++, bytes++, shadow++) {
    uint32_t index[WARP], all = ~(uint32_t)0;
    for (int l = 0; l < WARP; l++) all &= shadow[words.index[l]];
    if (settings.initialised && all != 0x01010101u * WRITTEN) return false;
    for (int l = 0; l < WARP; l++) index[l] = words.index[l] + i;
    if (settings.races && !reads_quickly(w, index, words.lane)) return false;
  }
  bytes -= n;
  for (uint32_t i = 0; i < n; i++, bytes++) {
    uint32_t *d = SLOT32(w, c->more[i]);
    LANES(d[l] = bytes[words.index[l]];);
  }
  return true;
}

bool shared_store(Warp *w, const Code *c, uint32_t mask, const uint64_t *at) {
  Words words;
  uint32_t n = c->n_more;
  if (!c->plain || c->width != 4 || !words_of(w, mask, at, 4 * n, &words)) return false;
  uint32_t *bytes = (uint32_t *)(void *)w->block->shared,
           *shadow = (uint32_t *)(void *)w->block->shared_written;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t index[WARP];
    for (int l = 0; l < WARP; l++) index[l] = words.index[l] + i;
    if (settings.races && !writes_quickly(w, index, words.lane))
      return false; /* earlier words have this store's serial */
  }
  for (uint32_t i = 0; i < n; i++, bytes++, shadow++) {
    const uint32_t *a = SLOT32(w, c->more[i]);
    for (int l = 0; l < WARP; l++)
      if (mask >> l & 1)
        bytes[words.index[l]] = a[l], shadow[words.index[l]] = 0x01010101u * WRITTEN;
  }
  return true;
}
