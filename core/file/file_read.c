/*
** file_read.c -- files that are open: read within bounds, mapped, or in memory.
** In: paths, bytes. Out: bytes; or false with a text in err that begins with the path.
** Fails when the system does (file_system.c), where a file is shorter than it was, and when memory runs out.
*/
#include "file/file.h"

#include <errno.h>
#include <stdatomic.h>

struct FileMap {
  _Atomic i64 refs;
  void *data;
  i64 size;
};

FileMap *ty_file_map_hold(FileMap *m) {
  atomic_fetch_add(&m->refs, 1);
  return m;
}

void ty_file_map_drop(void *ctx) {
  FileMap *m = ctx;
  if (!m || atomic_fetch_sub(&m->refs, 1) > 1) return;
  if (m->data) ty_file_unmap_pages(m->data, m->size);
  ty_file_free(m);
}

/* All of an open file. */
static bool map(File *f) {
  FileMap *m = ty_file_alloc(sizeof *m);
  if (!m) return ty_file_fail_memory(f, 0);
  *m = (FileMap){.size = f->size};
  atomic_init(&m->refs, 1);
  f->map = m;
  if (f->size && !(m->data = ty_file_map_pages(f->fd, f->size)))
    return ty_file_fail(f, "cannot be mapped: %s", strerror(errno));
  f->data = m->data ? m->data : (const u8 *)"";
  return true;
}

bool ty_file_open(File *f, const char *path, bool mapped) {
  *f = (File){.fd = -1, .path = ty_file_copy_text(path)};
  if (!f->path) return ty_file_fail_memory(f, 0);
  return ty_file_open_regular(f) && (!mapped || map(f));
}

bool ty_file_memory(File *f, const char *name, const void *data, i64 size) {
  *f = (File){.fd = -1, .path = ty_file_copy_text(name), .data = data, .size = size};
  return f->path || ty_file_fail_memory(f, 0);
}

void ty_file_close(File *f) {
  if (f->fd >= 0) ty_file_close_number(f->fd);
  ty_file_map_drop(f->map);
  ty_file_free(f->path);
  f->fd = -1;
  f->map = NULL;
  f->data = NULL;
  f->path = NULL;
}

bool ty_file_read(File *f, i64 at, void *to, i64 n) {
  if (at < 0 || n < 0 || at > f->size || n > f->size - at)
    return ty_file_fail(f, "ends at byte %lld, where bytes %lld to %lld were wanted",
                        (long long)f->size, (long long)at, (long long)at + (long long)n);
  if (f->fd < 0) {
    if (n) memcpy(to, f->data + at, (size_t)n);
    return true;
  }
  for (i64 done = 0; done < n;) {
    if (done && ty_file_stops()) return ty_file_fail(f, FILE_STOPPED);
    const i64 most = TY_MIN(n - done, FILE_IO_MOST);
    const i64 got = ty_file_read_some(f->fd, at + done, (char *)to + done, most);
    if (got < 0) return ty_file_fail(f, "cannot be read: %s", strerror(errno));
    if (got == 0) return ty_file_fail(f, "became shorter while it was read");
    done += got;
  }
  return true;
}
