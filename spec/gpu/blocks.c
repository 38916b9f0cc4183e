/*
** blocks.c -- global memory between blocks of one launch, which no barrier orders: a word that one block wrote and another reads
** or writes is reported. (A read that comes before the other block's write here is found in another order, by a seed.) Atomics
** and accesses that say how strong they are (.volatile, .relaxed, .acquire, .release) are how blocks may speak to each other:
** they are left alone, and so are accesses of less than a word.
*/
#include "exec.h"

static inline uint64_t stamp(const Block *b) {
  return (uint64_t)b->serial << 32 | (uint32_t)b->number;
}

static bool others(uint64_t writer, uint64_t own) {
  return writer >> 32 == own >> 32 && writer != own;
}

static void clash(Warp *w, const Code *c, int lane, uint64_t address, uint64_t writer, bool write) {
  fail(w, c, lane, LAUNCH_FAILED,
       "race between blocks: this %s at 0x%llx meets a write by block %u of the same launch",
       write ? "write" : "read", (unsigned long long)address, (uint32_t)writer);
}

void blocks_touch(Warp *w, const Code *c, int lane, const Region *r, uint64_t at, uint32_t bytes,
                  bool write) {
  uint64_t own = stamp(w->block), *writer = r->writers + at / 4;
  for (uint32_t i = 0; i < bytes / 4; i++) {
    if (others(writer[i], own)) {
      clash(w, c, lane, r->base + at, writer[i], write);
      return;
    }
    if (write) writer[i] = own;
  }
}

/* The same for the words of a whole warp; false: there is a clash, and nothing is done. */
bool blocks_touch_all(const Block *b, const Region *r, uint64_t at, uint32_t bytes, bool write) {
  uint64_t own = stamp(b), *writer = r->writers + at / 4, any = 0;
  for (uint32_t i = 0; i < bytes / 4; i++) any |= others(writer[i], own);
  if (any) return false;
  for (uint32_t i = 0; write && i < bytes / 4; i++) writer[i] = own;
  return true;
}
