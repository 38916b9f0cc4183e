/*
** file_system_windows.c -- the system's files: what file_system.c does, on Windows.
** In: paths in UTF-8, memory. Out: bytes, files; or false with a text in err that begins with the path.
** Fails when the system does, and when memory runs out.
** Files that are read may meanwhile be renamed and removed; one that is mapped cannot be replaced.
*/
#include "file/file.h"

#ifdef _WIN32

#define WIN32_LEAN_AND_MEAN
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0602
#include <windows.h>

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdatomic.h>
#include <stdio.h>

enum { SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

/* What is not UTF-8 came from the command line, in the system's code page. To be freed; NULL: errno. */
static wchar_t *wide(const char *s) {
  UINT page = CP_UTF8;
  int n = MultiByteToWideChar(page, MB_ERR_INVALID_CHARS, s, -1, NULL, 0);
  if (!n) n = MultiByteToWideChar(page = CP_ACP, 0, s, -1, NULL, 0);
  wchar_t *y = ty_file_alloc((i64)n * (i64)sizeof *y);
  if (y) MultiByteToWideChar(page, 0, s, -1, y, n);
  else errno = ENOMEM;
  return y;
}

/* The system's last error as C has it; its own texts are in the user's language. */
static int last_error(void) {
  static const struct {
    DWORD code;
    int number;
  } known[] = {{ERROR_FILE_NOT_FOUND, ENOENT},
               {ERROR_PATH_NOT_FOUND, ENOENT},
               {ERROR_INVALID_NAME, ENOENT},
               {ERROR_BAD_NETPATH, ENOENT},
               {ERROR_BAD_PATHNAME, ENOENT},
               {ERROR_DIRECTORY, ENOTDIR},
               {ERROR_ACCESS_DENIED, EACCES},
               {ERROR_SHARING_VIOLATION, EACCES},
               {ERROR_LOCK_VIOLATION, EACCES},
               {ERROR_USER_MAPPED_FILE, EACCES},
               {ERROR_WRITE_PROTECT, EROFS},
               {ERROR_FILE_EXISTS, EEXIST},
               {ERROR_ALREADY_EXISTS, EEXIST},
               {ERROR_DISK_FULL, ENOSPC},
               {ERROR_HANDLE_DISK_FULL, ENOSPC},
               {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
               {ERROR_COMMITMENT_LIMIT, ENOMEM},
               {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
               {ERROR_BROKEN_PIPE, EPIPE},
               {ERROR_NO_DATA, EPIPE},
               {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG}};
  const DWORD code = GetLastError();
  for (int i = 0; i < TY_COUNT(known); i++)
    if (known[i].code == code) return known[i].number;
  return EIO;
}

static HANDLE handle_of(int fd) { return (HANDLE)_get_osfhandle(fd); }

/* A file's number, -1: errno. */
static int open_file(const char *path, DWORD access, DWORD share, DWORD how) {
  wchar_t *name = wide(path);
  if (!name) return -1;
  HANDLE h = CreateFileW(name, access, share, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
  if (h == INVALID_HANDLE_VALUE) errno = last_error();
  ty_file_free(name);
  if (h == INVALID_HANDLE_VALUE) return -1;
  int fd = _open_osfhandle((intptr_t)h, _O_BINARY | _O_NOINHERIT);
  if (fd < 0) CloseHandle(h);
  return fd;
}

static bool is_folder_path(const char *path) {
  wchar_t *name = wide(path);
  DWORD a = name ? GetFileAttributesW(name) : INVALID_FILE_ATTRIBUTES;
  ty_file_free(name);
  return a != INVALID_FILE_ATTRIBUTES && a & FILE_ATTRIBUTE_DIRECTORY;
}

/* --- files */

void *ty_file_map_pages(int fd, i64 size) {
  void *p = NULL;
  HANDLE section = CreateFileMappingW(handle_of(fd), NULL, PAGE_WRITECOPY, 0, 0, NULL);
  if (section) p = MapViewOfFile(section, FILE_MAP_COPY, 0, 0, (size_t)size);
  const int why = p ? 0 : last_error();
  if (section) CloseHandle(section);
  errno = why;
  return p;
}

void ty_file_unmap_pages(void *p, i64 size) {
  (void)size;
  UnmapViewOfFile(p);
}

i64 ty_file_read_some(int fd, i64 at, void *to, i64 n) {
  OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((u64)at >> 32)};
  DWORD got = 0;
  if (ReadFile(handle_of(fd), to, (DWORD)n, &got, &place) || GetLastError() == ERROR_HANDLE_EOF)
    return got;
  errno = last_error();
  return -1;
}

void ty_file_close_number(int fd) { _close(fd); }

bool ty_file_open_regular(File *f) {
  LARGE_INTEGER size;
  if (is_folder_path(f->path)) return ty_file_fail(f, "is a directory");
  f->fd = open_file(f->path, GENERIC_READ, SHARED, OPEN_EXISTING);
  if (f->fd < 0) return ty_file_fail(f, "cannot be opened: %s", strerror(errno));
  if (GetFileType(handle_of(f->fd)) != FILE_TYPE_DISK)
    return ty_file_fail(f, "is not a regular file");
  if (!GetFileSizeEx(handle_of(f->fd), &size))
    return ty_file_fail(f, "cannot be opened: %s", strerror(last_error()));
  f->size = size.QuadPart;
  return true;
}

/* --- signals of writes: there are none */

void ty_file_calm(FileCalm *c) { *c = (FileCalm){0}; }
void ty_file_calm_end(const FileCalm *c) { (void)c; }

/* --- drafts
** A draft lies beside `path` under a name of its own. While it is written it is doomed: what is killed
** meanwhile leaves nothing behind. */

/* False: the file system cannot do that; then it is removed where the draft is dropped. */
static bool doom(int fd, bool doomed) {
  FILE_DISPOSITION_INFO info = {doomed};
  return SetFileInformationByHandle(handle_of(fd), FileDispositionInfo, &info, sizeof info);
}

/* Makes a file beside `path` that no one else has. */
static bool draft_create(Draft *d) {
  static _Atomic unsigned count;
  enum { ACCESS = GENERIC_READ | GENERIC_WRITE | DELETE };
  size_t room = strlen(d->path) + 48;
  if (!(d->name = ty_file_alloc((i64)room))) return ty_draft_fail_memory(d, d->given);
  for (int tries = 0; tries < 100; tries++) {
    snprintf(d->name, room, "%s.%lld-%u.new", d->path, (long long)ty_system_process(),
             atomic_fetch_add(&count, 1));
    d->fd = open_file(d->name, (DWORD)ACCESS, FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_NEW);
    if (d->fd >= 0) {
      doom(d->fd, true);
      return true;
    }
    if (errno != EEXIST) break;
  }
  ty_draft_fail(d, "cannot be written", errno);
  ty_file_free(d->name);
  d->name = NULL; /* nothing to remove */
  return false;
}

/* Where a link leads, in UTF-8, to be freed; NULL: the path is no link, or memory ran out. */
static char *link_target(const char *path) {
  wchar_t *name = wide(path), *target = NULL;
  char *y = NULL;
  DWORD a = name ? GetFileAttributesW(name) : INVALID_FILE_ATTRIBUTES, n = 0;
  if (a != INVALID_FILE_ATTRIBUTES && a & FILE_ATTRIBUTE_REPARSE_POINT) {
    HANDLE h = CreateFileW(name, 0, SHARED, NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (h != INVALID_HANDLE_VALUE) {
      n = GetFinalPathNameByHandleW(h, NULL, 0, 0);
      target = n ? ty_file_alloc((i64)n * (i64)sizeof *target) : NULL;
      if (target && GetFinalPathNameByHandleW(h, target, n, 0) >= n) target[0] = 0;
      CloseHandle(h);
    }
  }
  int bytes =
      target && *target ? WideCharToMultiByte(CP_UTF8, 0, target, -1, NULL, 0, NULL, NULL) : 0;
  if (bytes && (y = ty_file_alloc(bytes)))
    WideCharToMultiByte(CP_UTF8, 0, target, -1, y, bytes, NULL, NULL);
  ty_file_free(target);
  ty_file_free(name);
  return y;
}

/* A device or a pipe is written to as it is. */
static bool open_direct(Draft *d) {
  int fd = open_file(d->path, GENERIC_WRITE, SHARED, OPEN_EXISTING);
  if (fd < 0) return false;
  if (GetFileType(handle_of(fd)) == FILE_TYPE_DISK) {
    _close(fd);
    return false;
  }
  d->direct = true;
  d->fd = fd;
  return true;
}

bool ty_draft_open(Draft *d, const char *path) {
  *d = (Draft){.fd = -1};
  if (!(d->given = ty_file_copy_text(path))) return ty_draft_fail_memory(d, path);
  if (is_folder_path(path)) return ty_draft_fail(d, "cannot be written", EISDIR);
  if (!(d->path = link_target(path))) d->path = ty_file_copy_text(path);
  if (!d->path) return ty_draft_fail_memory(d, path);
  return open_direct(d) || draft_create(d);
}

bool ty_draft_write(Draft *d, const void *data, i64 n) {
  for (i64 done = 0; done < n;) {
    DWORD put = 0;
    if (done && !d->direct && ty_file_stops()) return ty_draft_fail(d, "cannot be written", EINTR);
    if (!WriteFile(handle_of(d->fd), (const char *)data + done,
                   (DWORD)TY_MIN(n - done, FILE_IO_MOST), &put, NULL))
      return ty_draft_fail(d, "cannot be written", last_error());
    done += put;
  }
  return true;
}

static bool replace(const Draft *d, bool durable) {
  wchar_t *from = wide(d->name), *to = wide(d->path);
  DWORD flags = MOVEFILE_REPLACE_EXISTING | (durable ? MOVEFILE_WRITE_THROUGH : 0);
  bool ok = from && to && MoveFileExW(from, to, flags);
  if (!ok) errno = from && to ? last_error() : ENOMEM;
  ty_file_free(from);
  ty_file_free(to);
  return ok;
}

bool ty_draft_close(Draft *d, bool durable) {
  if (durable && !d->direct && !FlushFileBuffers(handle_of(d->fd)))
    return ty_draft_fail(d, "cannot be written", last_error());
  if (!d->direct) doom(d->fd, false);
  int fd = d->fd;
  d->fd = -1;
  if (_close(fd)) return ty_draft_fail(d, "cannot be written", errno);
  if (!d->direct) {
    if (!replace(d, durable)) return ty_draft_fail(d, "cannot be replaced", errno);
    ty_file_free(d->name);
    d->name = NULL;
  }
  return true;
}

void ty_draft_drop(Draft *d) {
  if (d->fd >= 0) _close(d->fd);
  wchar_t *name = d->name ? wide(d->name) : NULL;
  if (name) DeleteFileW(name);
  ty_file_free(name);
  ty_file_free(d->name);
  ty_file_free(d->path);
  ty_file_free(d->given);
  d->fd = -1;
  d->name = d->path = d->given = NULL;
}

/* --- folders */

typedef struct Folder {
  HANDLE find;
  bool first; /* what was found when it was opened */
  WIN32_FIND_DATAW entry;
  char name[4 * MAX_PATH];
} Folder;

void *ty_folder_open(const char *path) {
  size_t n = strlen(path);
  char *all = ty_file_alloc((i64)n + 3);
  Folder *f = ty_file_alloc(sizeof *f);
  wchar_t *name = NULL;
  if (all && f) {
    memcpy(all, path, n);
    memcpy(all + n, "/*", 3);
    name = wide(all);
  } else errno = ENOMEM;
  if (name) {
    f->first = true;
    f->find = FindFirstFileW(name, &f->entry);
    if (f->find == INVALID_HANDLE_VALUE) errno = last_error();
  }
  if (f && (!name || f->find == INVALID_HANDLE_VALUE)) {
    ty_file_free(f);
    f = NULL;
  }
  ty_file_free(name);
  ty_file_free(all);
  return f;
}

const char *ty_folder_next(void *folder, bool *is_folder) {
  Folder *f = folder;
  for (; f->first || FindNextFileW(f->find, &f->entry); f->first = false) {
    const WIN32_FIND_DATAW *e = &f->entry;
    if (e->cFileName[0] == '.' || e->dwFileAttributes & FILE_ATTRIBUTE_DEVICE) continue;
    if (!WideCharToMultiByte(CP_UTF8, 0, e->cFileName, -1, f->name, sizeof f->name, NULL, NULL))
      continue;
    *is_folder = e->dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    f->first = false;
    return f->name;
  }
  return NULL;
}

void ty_folder_close(void *folder) {
  Folder *f = folder;
  if (!f) return;
  FindClose(f->find);
  ty_file_free(f);
}

#endif
