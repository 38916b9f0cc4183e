/*
** store.c -- assembled kernels on disk, so that a later process need not assemble them again.
** In:  a key, code.  Out: the same code, whole, or nothing. Cannot fail: what cannot be read or written is not kept.
**
** The folder is $TYCHO_CACHE/cuda, else $XDG_CACHE_HOME/tycho/cuda, else ~/.cache/tycho/cuda; TYCHO_CACHE=off keeps
** nothing. An entry is a file, named by its key, that begins with a head which says how long it is and what its bytes add up to:
** what was cut or changed is not used, and is written again. A file is written beside its place and then renamed,
** so that other processes see all of it or nothing. TYCHO_CACHE_MB * 2^20 bytes are the most (256): beyond that the
** files go whose use lies furthest back, until three quarters are left.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "tycho cubin 1\n\0"
#define SUFFIX ".cubin"
enum { PATH_ROOM = 1024, ENTRIES_MOST = 1 << 16, CODE_MOST = 1 << 28 };

typedef struct Head {
  char magic[16];
  StoreKey key;
  u64 n, sum;
} Head;

static Once once = ONCE_INIT;
static Lock lock = LOCK_INIT;
static char folder[PATH_ROOM - 128];
static i64 most, total; /* total: bytes in the folder, as far as is known; -1: not looked at yet */
static StoreCounts counts;

/* All folders of a path are made that are not there. */
static bool make_folders(char *path) {
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    if (mkdir(path, 0700) && errno != EEXIST) return *p = '/', false;
    *p = '/';
  }
  return !mkdir(path, 0700) || errno == EEXIST;
}

static void choose(void) {
  const char *own = getenv("TYCHO_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"),
             *mb = getenv("TYCHO_CACHE_MB");
  double megabytes = 0;
  if (mb) ty_system_decimal(mb, &megabytes, NULL);
  most = (i64)((megabytes > 0 ? TY_MIN(megabytes, 1e7) : 256) * (1 << 20));
  total = -1;
  int n = 0;
  if (own && (!*own || !strcmp(own, "off") || !strcmp(own, "0"))) return;
  if (own) n = ty_system_format(folder, sizeof folder, "%s/cuda", own);
  else if (xdg && *xdg == '/') n = ty_system_format(folder, sizeof folder, "%s/tycho/cuda", xdg);
  else if (home && *home == '/')
    n = ty_system_format(folder, sizeof folder, "%s/.cache/tycho/cuda", home);
  if (n <= 0 || n >= (int)sizeof folder || !make_folders(folder)) *folder = 0;
}

const char *ty_store_folder(void) {
  ty_once(&once, choose);
  return *folder ? folder : NULL;
}

StoreKey ty_store_key(const Text *text, const char *with) {
  const u64 seed = ty_hash(with, strlen(with), 1);
  return (StoreKey){ty_hash(text->s, text->n, seed), ty_hash(text->s, text->n, ~seed)};
}

static void path_of(StoreKey k, char path[PATH_ROOM]) {
  ty_system_format(path, PATH_ROOM, "%s/%016llx%016llx" SUFFIX, folder, (unsigned long long)k.a,
                   (unsigned long long)k.b);
}

static bool read_all(int fd, void *to, size_t n) {
  for (char *p = to; n;) {
    const ssize_t got = read(fd, p, n);
    if (got <= 0 && !(got < 0 && errno == EINTR)) return false;
    if (got > 0) p += got, n -= (size_t)got;
  }
  return true;
}

static bool write_all(int fd, const void *from, size_t n) {
  for (const char *p = from; n;) {
    const ssize_t put = write(fd, p, n);
    if (put <= 0 && !(put < 0 && errno == EINTR)) return false;
    if (put > 0) p += put, n -= (size_t)put;
  }
  return true;
}

/* An open file's code, if it is what its name says. */
static bool read_entry(int fd, StoreKey k, char **code, size_t *n) {
  Head h;
  struct stat s;
  if (fstat(fd, &s) || !read_all(fd, &h, sizeof h) || memcmp(h.magic, MAGIC, sizeof h.magic) ||
      memcmp(&h.key, &k, sizeof k) || !h.n || h.n > CODE_MOST || (u64)s.st_size != sizeof h + h.n)
    return false;
  char *p = ty_mem_alloc((size_t)h.n);
  if (!p) return false;
  if (!read_all(fd, p, (size_t)h.n) || ty_hash(p, (size_t)h.n, h.n) != h.sum) {
    ty_mem_free(p);
    return false;
  }
  *code = p, *n = (size_t)h.n;
  return true;
}

bool ty_store_get(StoreKey k, char **code, size_t *n) {
  char path[PATH_ROOM];
  if (!ty_store_folder()) return false;
  path_of(k, path);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && read_entry(fd, k, code, n);
  if (ok) futimens(fd, NULL); /* it was used now */
  if (fd >= 0) close(fd);
  ty_lock(&lock);
  if (ok) counts.found++;
  else counts.missed++;
  ty_unlock(&lock);
  return ok;
}

void ty_store_remove(StoreKey k) {
  char path[PATH_ROOM];
  if (!ty_store_folder()) return;
  path_of(k, path);
  unlink(path);
}

/* --- the cap */

typedef struct Entry {
  struct timespec used;
  i64 bytes;
  char name[80];
} Entry;

static int by_use(const void *a, const void *b) {
  const Entry *x = a, *y = b;
  if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  if (x->used.tv_nsec != y->used.tv_nsec) return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* What is in the folder: entries, and what was not written to its end. */
static Entry *look(int *count) {
  DIR *d = opendir(folder);
  Entry *e = NULL;
  int n = 0, cap = 0;
  for (struct dirent *f; d && n < ENTRIES_MOST && (f = readdir(d));) {
    char path[PATH_ROOM];
    struct stat s;
    if (strlen(f->d_name) >= sizeof e->name || !strstr(f->d_name, SUFFIX)) continue;
    ty_system_format(path, sizeof path, "%s/%s", folder, f->d_name);
    if (lstat(path, &s) || !S_ISREG(s.st_mode)) continue;
    if (n == cap) {
      Entry *more = ty_mem_realloc(e, (size_t)(cap * 2 + 64) * sizeof *more);
      if (!more) break;
      e = more, cap = cap * 2 + 64;
    }
    e[n] = (Entry){.used = s.st_mtim, .bytes = s.st_size};
    memcpy(e[n++].name, f->d_name, strlen(f->d_name) + 1);
  }
  if (d) closedir(d);
  *count = n;
  return e;
}

/* Under the lock. */
static void keep_below(void) {
  int n;
  Entry *e = look(&n);
  total = 0;
  for (int i = 0; i < n; i++) total += e[i].bytes;
  if (total > most) qsort(e, (size_t)n, sizeof *e, by_use);
  for (int i = 0; i < n && total > most / 4 * 3 && (i || total > most); i++) {
    char path[PATH_ROOM];
    ty_system_format(path, sizeof path, "%s/%s", folder, e[i].name);
    if (!unlink(path)) counts.removed++;
    total -= e[i].bytes;
  }
  ty_mem_free(e);
}

void ty_store_put(StoreKey k, const char *code, size_t n) {
  static _Atomic int serial;
  char path[PATH_ROOM], beside[PATH_ROOM + 32];
  Head h = {.key = k, .n = n, .sum = ty_hash(code, n, n)};
  if (!ty_store_folder() || !n || n > CODE_MOST || (i64)n > most) return;
  memcpy(h.magic, MAGIC, sizeof h.magic);
  path_of(k, path);
  ty_system_format(beside, sizeof beside, "%s.%llx.%x", path,
                   (unsigned long long)ty_system_process(), (unsigned)serial++);
  const int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  bool ok = write_all(fd, &h, sizeof h) && write_all(fd, code, n);
  ok = !close(fd) && ok;
  ok = ok && !rename(beside, path);
  if (!ok) unlink(beside);
  ty_lock(&lock);
  counts.written += ok;
  if (ok && total >= 0) total += (i64)(sizeof h + n);
  if (total < 0 || total > most) keep_below();
  ty_unlock(&lock);
}

StoreCounts ty_store_counts(void) {
  ty_lock(&lock);
  const StoreCounts c = counts;
  ty_unlock(&lock);
  return c;
}
