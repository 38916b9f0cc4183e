/*
** file_head.c -- the front of a file, read as far as it was asked for.
** In: a file. Out: bytes, or false with a text in err. Fails when the file is shorter than it says, and when out
** of memory.
*/
#include "file/file.h"

enum { HEAD_FIRST = 64 << 10 };

void ty_head_open(Head *h, File *f) {
  *h = (Head){.f = f};
  if (f->fd >= 0) return; /* also of a mapped one: only tensors are looked at where they lie */
  h->data = (u8 *)(uintptr_t)f->data;
  h->have = f->size;
}

void ty_head_close(Head *h) {
  if (h->room) ty_file_free(h->data);
  *h = (Head){0};
}

/* Reads on until `need` bytes are there; need is within the file. */
static bool head_fill(Head *h, i64 need) {
  if (need > h->room) {
    i64 room = TY_MIN(TY_MAX(TY_MAX(need, 2 * h->room), HEAD_FIRST), h->f->size);
    u8 *data = ty_file_grow(h->data, room);
    if (!data) return ty_file_fail_memory(h->f, room);
    h->data = data;
    h->room = room;
  }
  i64 more = TY_MIN(TY_MAX(need, h->have + HEAD_FIRST), h->room) - h->have;
  if (!ty_file_read(h->f, h->have, h->data + h->have, more)) return false;
  h->have += more;
  return true;
}

const u8 *ty_head_take(Head *h, i64 n, const char *what) {
  if (n < 0 || n > h->f->size - h->at) {
    ty_file_fail(h->f, "ends at byte %lld, within %s", (long long)h->f->size, what);
    return NULL;
  }
  if (h->at + n > h->have && !head_fill(h, h->at + n)) return NULL;
  h->at += n;
  return h->data ? h->data + h->at - n : (const u8 *)"";
}

bool ty_head_u32(Head *h, u32 *v, const char *what) {
  const u8 *p = ty_head_take(h, 4, what);
  if (p) memcpy(v, p, 4);
  return p != NULL;
}

bool ty_head_u64(Head *h, u64 *v, const char *what) {
  const u8 *p = ty_head_take(h, 8, what);
  if (p) memcpy(v, p, 8);
  return p != NULL;
}
