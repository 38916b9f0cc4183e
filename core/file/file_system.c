/*
** file_system.c -- the system's files: reading within bounds, drafts that become files at the end, folders.
** In: paths, memory. Out: bytes, files; or false with a text in err that begins with the path.
** Fails when the system does, and when memory runs out. Besides base/system.c the one place that asks the system.
*/
#include "file/file.h"

#ifndef _WIN32

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- files */

void *ty_file_map_pages(int fd, i64 size) {
  void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  return p == MAP_FAILED ? NULL : p;
}

void ty_file_unmap_pages(void *p, i64 size) { munmap(p, (size_t)size); }

i64 ty_file_read_some(int fd, i64 at, void *to, i64 n) {
  ssize_t got;
  do got = pread(fd, to, (size_t)n, at);
  while (got < 0 && errno == EINTR);
  return got;
}

void ty_file_close_number(int fd) { close(fd); }

bool ty_file_open_regular(File *f) {
  struct stat st;
  /* Not to wait for the other end of a pipe, should it be one. */
  f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (f->fd < 0) return ty_file_fail(f, "cannot be opened: %s", strerror(errno));
  if (fstat(f->fd, &st)) return ty_file_fail(f, "cannot be opened: %s", strerror(errno));
  if (S_ISDIR(st.st_mode)) return ty_file_fail(f, "is a directory");
  if (!S_ISREG(st.st_mode)) return ty_file_fail(f, "is not a regular file");
  f->size = (i64)st.st_size;
  return true;
}

/* --- signals of writes */

static const int write_signals[] = {SIGXFSZ, SIGPIPE};

/* What waits already was sent by someone else, who shall have it. */
void ty_file_calm(FileCalm *c) {
  sigset_t waiting;
  sigemptyset(&c->held);
  sigpending(&waiting);
  for (int i = 0; i < TY_COUNT(write_signals); i++)
    if (!sigismember(&waiting, write_signals[i])) sigaddset(&c->held, write_signals[i]);
  pthread_sigmask(SIG_BLOCK, &c->held, &c->before);
}

void ty_file_calm_end(const FileCalm *c) {
  int err = errno;
  while (sigtimedwait(&c->held, NULL, &(struct timespec){0}) > 0) {}
  ty_signals_restore(&c->before);
  errno = err;
}

/* --- drafts
** Where the system can, a draft has no name while it is written: what is killed meanwhile leaves
** nothing behind. It gets one beside `path` for the moment between link and rename, since a link
** cannot replace a file. Elsewhere it has that name from the beginning. */

static int create_exclusive(Draft *d) {
  return d->fd = open(d->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* Makes a file beside `path` that no one else has, by `make`, which answers < 0 and errno. */
static bool draft_name(Draft *d, int (*make)(Draft *d)) {
  static _Atomic unsigned count;
  size_t room = strlen(d->path) + 48;
  if (!(d->name = ty_file_alloc((i64)room))) return ty_draft_fail_memory(d, d->given);
  for (int tries = 0; tries < 100; tries++) {
    snprintf(d->name, room, "%s.%ld-%u.new", d->path, (long)ty_system_process(),
             atomic_fetch_add(&count, 1));
    if (make(d) >= 0) return true;
    if (errno != EEXIST) break;
  }
  ty_draft_fail(d, "cannot be written", errno);
  ty_file_free(d->name);
  d->name = NULL; /* nothing to remove */
  return false;
}

/* The folder that a path lies in, to be freed; NULL: no memory. */
static char *folder_of(const char *path) {
  const char *end = strrchr(path, '/');
  size_t n = end ? (size_t)(end - path) + 1 : 1;
  char *folder = ty_file_alloc((i64)n + 1);
  if (!folder) return NULL;
  memcpy(folder, end ? path : ".", n);
  folder[n] = 0;
  return folder;
}

enum { PROC_ROOM = 40 };
static const char *proc_path(int fd, char text[PROC_ROOM]) {
  snprintf(text, PROC_ROOM, "/proc/self/fd/%d", fd);
  return text;
}

/* Opens a file without a name in the folder of `path`; false: there are none here. */
static bool draft_nameless(Draft *d) {
#ifdef O_TMPFILE
  char proc[PROC_ROOM], *folder = folder_of(d->path);
  d->fd = folder ? open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666) : -1;
  ty_file_free(folder);
  if (d->fd < 0) return false;
  if (access(proc_path(d->fd, proc), F_OK) == 0) return true;
  close(d->fd); /* it could not be named */
  d->fd = -1;
#endif
  return false;
}

static int link_nameless(Draft *d) {
  char proc[PROC_ROOM];
  return linkat(AT_FDCWD, proc_path(d->fd, proc), AT_FDCWD, d->name, AT_SYMLINK_FOLLOW);
}

/* Gives a draft its name; where links are forbidden, to a copy. */
static bool draft_land(Draft *d, bool durable) {
  struct stat st;
  if (d->name || d->direct || draft_name(d, link_nameless)) return true;
  int from = d->fd;
  off_t at = 0;
  ssize_t n = 1;
  bool ok = fstat(from, &st) == 0 && draft_name(d, create_exclusive);
  if (!ok) d->fd = -1;
  while (ok && n > 0) {
    FileCalm calm;
    ty_file_calm(&calm);
    n = sendfile(d->fd, from, &at, FILE_IO_MOST);
    ty_file_calm_end(&calm);
  }
  if (ok && (n < 0 || fchmod(d->fd, st.st_mode & 07777) || (durable && fsync(d->fd))))
    ok = ty_draft_fail(d, "cannot be written", errno);
  close(from);
  return ok;
}

bool ty_draft_open(Draft *d, const char *path) {
  struct stat st;
  *d = (Draft){.fd = -1};
  bool there = stat(path, &st) == 0;
  if (!(d->given = ty_file_copy_text(path))) return ty_draft_fail_memory(d, path);
  if (there && S_ISDIR(st.st_mode)) {
    errno = EISDIR;
    return ty_draft_fail(d, "cannot be written", errno);
  }
  char *real = there ? realpath(path, NULL) : NULL; /* a link goes on leading there */
  d->path = ty_file_copy_text(real ? real : path);
  free(real);
  if (!d->path) return ty_draft_fail_memory(d, path);
  if (there && !S_ISREG(st.st_mode)) {
    d->direct = true;
    d->fd = open(d->path, O_WRONLY | O_CLOEXEC);
    return d->fd >= 0 || ty_draft_fail(d, "cannot be written", errno);
  }
  if (!draft_nameless(d) && !draft_name(d, create_exclusive)) return false;
  if (there && fchmod(d->fd, st.st_mode & 07777))
    return ty_draft_fail(d, "cannot be written", errno);
  return true;
}

bool ty_draft_write(Draft *d, const void *data, i64 n) {
  for (i64 done = 0; done < n;) {
    FileCalm calm;
    if (done && !d->direct && ty_file_stops()) {
      errno = EINTR;
      return ty_draft_fail(d, "cannot be written", errno);
    }
    ty_file_calm(&calm);
    ssize_t put = write(d->fd, (const char *)data + done, (size_t)TY_MIN(n - done, FILE_IO_MOST));
    ty_file_calm_end(&calm);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return ty_draft_fail(d, "cannot be written", errno);
    done += put;
  }
  return true;
}

/* The folder's own entry goes to the disk too. Systems that cannot do that are not asked twice. */
static void sync_folder(const char *path) {
  char *folder = folder_of(path);
  int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  ty_file_free(folder);
  if (fd < 0) return;
  (void)fsync(fd);
  close(fd);
}

bool ty_draft_close(Draft *d, bool durable) {
  if (durable && !d->direct && fsync(d->fd)) return ty_draft_fail(d, "cannot be written", errno);
  if (!draft_land(d, durable)) return false;
  int fd = d->fd;
  d->fd = -1;
  if (close(fd)) return ty_draft_fail(d, "cannot be written", errno);
  if (!d->direct) {
    if (rename(d->name, d->path)) return ty_draft_fail(d, "cannot be replaced", errno);
    if (durable) sync_folder(d->path);
    ty_file_free(d->name);
    d->name = NULL;
  }
  return true;
}

void ty_draft_drop(Draft *d) {
  if (d->fd >= 0) close(d->fd);
  if (d->name) unlink(d->name);
  ty_file_free(d->name);
  ty_file_free(d->path);
  ty_file_free(d->given);
  d->fd = -1;
  d->name = d->path = d->given = NULL;
}

/* --- folders */

void *ty_folder_open(const char *path) { return opendir(path); }

const char *ty_folder_next(void *folder, bool *is_folder) {
  for (struct dirent *e; (e = readdir(folder));) {
    struct stat st;
    if (e->d_name[0] == '.' || fstatat(dirfd(folder), e->d_name, &st, 0)) continue;
    *is_folder = S_ISDIR(st.st_mode);
    if (*is_folder || S_ISREG(st.st_mode)) return e->d_name;
  }
  return NULL;
}

void ty_folder_close(void *folder) {
  if (folder) closedir(folder);
}

#endif
