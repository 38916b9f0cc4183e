/*
** pointer_map.c -- see pointer_map.h: open addressing, probes one by one.
*/
#include "base/pointer_map.h"

bool ty_pointer_map_open(PointerMap *m, i32 n) {
  u32 size = 4;
  while (size < 2 * (u32)n) size *= 2;
  m->mask = size - 1;
  m->entry = ty_mem_zalloc(sizeof *m->entry * size);
  return m->entry != NULL;
}

void ty_pointer_map_close(PointerMap *m) {
  ty_mem_free(m->entry);
  m->entry = NULL;
}

static struct PointerEntry *find(const PointerMap *m, const void *key) {
  u32 at = (u32)(((u64)(uintptr_t)key * 0x9e3779b97f4a7c15u) >> 32) & m->mask;
  while (m->entry[at].key && m->entry[at].key != key) at = (at + 1) & m->mask;
  return &m->entry[at];
}

void ty_pointer_map_add(PointerMap *m, const void *key, i32 value) {
  struct PointerEntry *e = find(m, key);
  if (!e->key) *e = (struct PointerEntry){key, value};
}

i32 ty_pointer_map_get(const PointerMap *m, const void *key) {
  const struct PointerEntry *e = find(m, key);
  return e->key ? e->value : -1;
}
