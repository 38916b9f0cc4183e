/*
** arena.c -- memory that is freed at once: what belongs to a module.
*/
#include "gpu.h"

typedef struct Chunk {
  struct Chunk *next;
  size_t used, size;
} Chunk;

struct Arena {
  Chunk *chunk;
};

enum { CHUNK = 1 << 16 };

static void *checked(void *p) {
  if (p) return p;
  fputs("software GPU: out of memory\n", stderr);
  exit(1);
}

Arena *arena_new(void) { return checked(calloc(1, sizeof(Arena))); }

void *arena_alloc(Arena *a, size_t size) {
  size = (size + 15) & ~(size_t)15;
  if (!a->chunk || a->chunk->used + size > a->chunk->size) {
    size_t room = size > CHUNK ? size : CHUNK;
    Chunk *c = checked(calloc(1, sizeof *c + 16 + room));
    *c = (Chunk){a->chunk, 0, room};
    a->chunk = c;
  }
  void *p = (char *)a->chunk + sizeof(Chunk) + (16 - sizeof(Chunk) % 16) % 16 + a->chunk->used;
  a->chunk->used += size;
  return p;
}

void *arena_grow(Arena *a, void *list, int n, int *max, size_t size) {
  if (n < *max) return list;
  *max = *max ? 2 * *max : 16;
  void *grown = arena_alloc(a, (size_t)*max * size);
  if (n) memcpy(grown, list, (size_t)n * size);
  return grown;
}

char *arena_text(Arena *a, const char *text, size_t length) {
  char *copy = arena_alloc(a, length + 1);
  memcpy(copy, text, length);
  return copy;
}

void arena_free(Arena *a) {
  for (Chunk *c = a->chunk, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  free(a);
}
