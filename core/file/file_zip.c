/*
** file_zip.c -- npz: a zip archive of npy files, by libzip, which is loaded when it is first wanted.
** In: an open file, or named parts. Out: an entry for each member that ends in .npy; an archive.
** Fails without the library (the message says what to install), for damaged or encrypted members,
** and when all members together would unpack to more than Archive.limit: a zip of a few bytes can
** stand for any number of them.
**
** libzip reads through our File, so that what lies in memory is read by the same code. Of its
** headers nothing is needed but the few declarations below, which have been stable since 1.0.
*/
#include "file/file.h"

#include <stdio.h>
#include <stdlib.h>

/* --- of zip.h */

typedef struct zip Zip;
typedef struct zip_file Member;
typedef struct zip_source Source;
typedef struct ZipError {
  int zip, system;
  char *text;
} ZipError;
typedef struct ZipStat {
  u64 valid;
  const char *name;
  u64 index, size, packed;
  time_t time;
  u32 crc;
  u16 method, encryption;
  u32 flags;
} ZipStat;
typedef struct ZipSeek {
  i64 offset;
  int whence;
} ZipSeek;
typedef i64 ZipCallback(void *ctx, void *data, u64 n, int command);

enum { C_OPEN, C_READ, C_CLOSE, C_STAT, C_ERROR, C_FREE, C_SEEK, C_TELL, C_SUPPORTS = 14 };
enum { STAT_NAME = 1, STAT_SIZE = 4, STAT_PACKED = 8, STAT_METHOD = 64, STAT_ENCRYPTION = 128 };
enum { OPEN_CREATE = 1, OPEN_TRUNCATE = 8, OPEN_READ_ONLY = 16, NAME_UTF8 = 2048, NAME_RAW = 64 };
enum { METHOD_STORE = 0, METHOD_DEFLATE = 8, ERROR_READ = 5, ERROR_INVALID = 18 };

/* --- the library */

static struct {
  Once once;
  void *handle;
  const char *err;
  Source *(*source_new)(ZipCallback *, void *, ZipError *);
  Source *(*source_of)(Zip *, ZipCallback *, void *);
  void (*source_free)(Source *);
  Zip *(*open_source)(Source *, int, ZipError *);
  Zip *(*open_path)(const char *, int, int *);
  int (*close)(Zip *);
  void (*discard)(Zip *);
  i64 (*count)(Zip *, u32);
  int (*stat)(Zip *, u64, u32, ZipStat *);
  Member *(*member)(Zip *, u64, u32);
  i64 (*read)(Member *, void *, u64);
  int (*member_close)(Member *);
  i64 (*add)(Zip *, const char *, Source *, u32);
  int (*method)(Zip *, u64, i32, u32);
  int (*dos_time)(Zip *, u64, u16, u16, u32);
  const char *(*text)(Zip *);
  const char *(*member_text)(Member *);
  const char *(*error_text)(ZipError *);
  void (*error_free)(ZipError *);
  void (*error_code)(ZipError *, int);
} zip = {.once = ONCE_INIT};

static bool symbol(void *field, const char *name) {
  void *p = ty_library_symbol(zip.handle, name);
  memcpy(field, &p, sizeof p); /* the system promises that it can be called */
  return p != NULL;
}

static void load(void) {
  static const char *const names[] = {"libzip.so.4", "libzip.so.5", "libzip.so", NULL};
  zip.handle = ty_library_open(names);
  zip.err = "npz needs libzip: apt-get install libzip4";
  if (!zip.handle) return;
  const struct {
    void *field;
    const char *name;
  } wanted[] = {
      {&zip.source_new, "zip_source_function_create"},
      {&zip.source_of, "zip_source_function"},
      {&zip.source_free, "zip_source_free"},
      {&zip.open_source, "zip_open_from_source"},
      {&zip.open_path, "zip_open"},
      {&zip.close, "zip_close"},
      {&zip.discard, "zip_discard"},
      {&zip.count, "zip_get_num_entries"},
      {&zip.stat, "zip_stat_index"},
      {&zip.member, "zip_fopen_index"},
      {&zip.read, "zip_fread"},
      {&zip.member_close, "zip_fclose"},
      {&zip.add, "zip_file_add"},
      {&zip.method, "zip_set_file_compression"},
      {&zip.dos_time, "zip_file_set_dostime"},
      {&zip.text, "zip_strerror"},
      {&zip.member_text, "zip_file_strerror"},
      {&zip.error_text, "zip_error_strerror"},
      {&zip.error_free, "zip_error_fini"},
      {&zip.error_code, "zip_error_init_with_code"},
  };
  bool all = true;
  for (int i = 0; i < TY_COUNT(wanted); i++) all = symbol(wanted[i].field, wanted[i].name) && all;
  if (all) return;
  zip.err = "the libzip found is older than 1.0: apt-get install libzip4";
  ty_library_close(zip.handle);
  zip.handle = NULL;
}

static bool loaded(void) {
  ty_once(&zip.once, load);
  return zip.handle != NULL;
}

/* --- reading */

/* What libzip reads from, and the archive that it made of it. */
typedef struct Inside {
  File *f;
  i64 at;
  bool failed;
  Zip *zip;
} Inside;

static i64 read_callback(void *ctx, void *data, u64 n, int command) {
  Inside *in = ctx;
  switch (command) {
  case C_OPEN: in->at = 0; return 0;
  case C_CLOSE:
  case C_FREE: return 0;
  case C_TELL: return in->at;
  case C_SUPPORTS:
    return 1 << C_OPEN | 1 << C_READ | 1 << C_CLOSE | 1 << C_STAT | 1 << C_ERROR | 1 << C_FREE |
           1 << C_SEEK | 1 << C_TELL | 1 << C_SUPPORTS;
  case C_READ: {
    i64 now = n > INT64_MAX ? INT64_MAX : (i64)n;
    now = TY_MIN(now, in->f->size - in->at);
    in->failed = !ty_file_read(in->f, in->at, data, now);
    if (in->failed) return -1;
    in->at += now;
    return now;
  }
  case C_SEEK: {
    ZipSeek s;
    i64 at;
    if (n < sizeof s) return -1;
    memcpy(&s, data, sizeof s);
    i64 from = s.whence == SEEK_SET ? 0 : s.whence == SEEK_CUR ? in->at : in->f->size;
    if (!ty_add(from, s.offset, &at) || at < 0 || at > in->f->size) return -1;
    in->at = at;
    return 0;
  }
  case C_STAT: {
    ZipStat s = {.valid = STAT_SIZE, .size = (u64)in->f->size};
    if (n < sizeof s) return -1;
    memcpy(data, &s, sizeof s);
    return sizeof s;
  }
  case C_ERROR: {
    int codes[2] = {in->failed ? ERROR_READ : ERROR_INVALID, 0};
    if (n < sizeof codes) return -1;
    memcpy(data, codes, sizeof codes);
    return sizeof codes;
  }
  default: return -1;
  }
}

static void npz_close(Archive *a) {
  Inside *in = a->inside;
  if (in && in->zip) zip.discard(in->zip);
  ty_file_free(in);
  a->inside = NULL;
}

/* Archives of more members than 2^16 say so in a record of their own, which is looked at before
** libzip makes room for them. It stands among the last bytes, before a comment. */
static bool check_count(File *f) {
  enum { TAIL = 65536 + 22 + 20, LOCATOR = 20, RECORD = 56 };
  i64 n = TY_MIN(f->size, TAIL), from = f->size - n;
  bool ok = true;
  u8 *p = ty_file_alloc(n), record[RECORD];
  if (!p) return ty_file_fail_memory(f, n);
  ok = ty_file_read(f, from, p, n);
  for (i64 i = 0; ok && i + LOCATOR <= n; i++) {
    u64 at, count;
    if (memcmp(p + i, "PK\6\7", 4)) continue;
    memcpy(&at, p + i + 8, 8);
    if (at > (u64)f->size || (i64)at > f->size - RECORD) continue;
    if (!(ok = ty_file_read(f, (i64)at, record, RECORD))) break;
    memcpy(&count, record + 32, 8);
    if (count > ENTRIES_MOST)
      ok = ty_file_fail(f, "states %llu members, at most %d are read", (unsigned long long)count,
                        ENTRIES_MOST);
  }
  ty_file_free(p);
  return ok;
}

static bool member_fail(Archive *a, const char *name, const char *what) {
  return ty_file_fail(&a->file, "%s: %s", ty_file_quote(name, (i64)strlen(name)), what);
}

/* Exactly n bytes of a member. */
typedef struct Reader {
  Archive *a;
  const char *name;
  Member *m;
} Reader;

static bool reader_next(void *ctx, void *to, i64 n) {
  Reader *r = ctx;
  while (n) {
    i64 got = zip.read(r->m, to, (u64)n);
    if (got < 0) return member_fail(r->a, r->name, zip.member_text(r->m));
    if (got == 0) return member_fail(r->a, r->name, "ends too early");
    to = (char *)to + got;
    n -= got;
  }
  return true;
}

enum { FRONT = NPY_HEADER_MOST + 12 };

/* The header of member i, as an entry. Its first bytes are read to `front`, which has room for FRONT. */
static bool read_member_header(Archive *a, i64 i, const ZipStat *st, u8 *front) {
  Inside *in = a->inside;
  i64 length = (i64)strlen(st->name), size = (i64)st->size, n = TY_MIN(size, FRONT);
  Reader r = {a, st->name, zip.member(in->zip, (u64)i, 0)};
  if (!r.m) return member_fail(a, st->name, zip.text(in->zip));
  bool ok = reader_next(&r, front, n);
  zip.member_close(r.m);
  if (!ok) return false;
  File f;
  Head h;
  Entry *e = ty_archive_add(a, st->name, length - 4);
  if (!e) return false;
  if (!ty_file_memory(&f, st->name, front, n)) return ty_file_fail_memory(&a->file, 0);
  ty_head_open(&h, &f);
  /* As in NumPy, a member that cannot be read leaves the others readable. */
  if (!ty_npy_header(&h, e, size)) {
    ok = !f.memory;
    const char *why = f.err + TY_MIN(strlen(f.err), strlen(f.path) + 2); /* behind the name */
    snprintf(e->why, sizeof e->why, "%.*s", (int)sizeof e->why - 1, why);
    if (!ok) ty_file_fail_memory(&a->file, 0);
  }
  e->at = h.at;
  ty_head_close(&h);
  ty_file_close(&f);
  return ok;
}

static bool read_members(Archive *a, u8 *front) {
  Inside *in = a->inside;
  i64 count = zip.count(in->zip, 0), total = 0;
  if (count > ENTRIES_MOST)
    return ty_file_fail(&a->file, "holds %lld members, at most %d are read", (long long)count,
                        ENTRIES_MOST);
  for (i64 i = 0; i < count; i++) {
    ZipStat st = {0};
    if (zip.stat(in->zip, (u64)i, NAME_RAW, &st))
      return ty_file_fail(&a->file, "%s", zip.text(in->zip));
    if (!(st.valid & STAT_NAME) || !(st.valid & STAT_SIZE)) continue;
    i64 n = (i64)strlen(st.name);
    if (n < 4 || strcmp(st.name + n - 4, ".npy")) continue;
    const char *bad = ty_file_bad_name(st.name, n);
    if (bad) return ty_file_fail(&a->file, "the name %s %s", ty_file_quote(st.name, n), bad);
    if ((st.valid & STAT_ENCRYPTION) && st.encryption)
      return member_fail(a, st.name, "is encrypted");
    if (st.size > (u64)INT64_MAX || !ty_add(total, (i64)st.size, &total) || total > a->limit)
      return ty_file_fail(&a->file,
                          "would unpack to more than %lld bytes (allow that by {limit = bytes})",
                          (long long)a->limit);
    if (!read_member_header(a, i, &st, front)) return false;
    a->entry[a->count - 1].bytes = i; /* which member it is */
  }
  return ty_archive_unique(a);
}

/* The elements, then what is left of the member: at its end libzip compares the checksum. */
static bool npz_read(Archive *a, const Entry *e, void *to) {
  Inside *in = a->inside;
  u8 rest[2048];
  ZipStat st = {0};
  if (zip.stat(in->zip, (u64)e->bytes, NAME_RAW, &st))
    return ty_file_fail(&a->file, "%s", zip.text(in->zip));
  Reader r = {a, st.name, zip.member(in->zip, (u64)e->bytes, 0)};
  if (!r.m) return member_fail(a, st.name, zip.text(in->zip));
  bool ok = true;
  for (i64 left = e->at; ok && left; left -= TY_MIN(left, (i64)sizeof rest))
    ok = reader_next(&r, rest, TY_MIN(left, (i64)sizeof rest));
  ok = ok && ty_archive_decode(a, e, reader_next, &r, to);
  for (i64 got = 1; ok && got > 0;) {
    got = zip.read(r.m, rest, sizeof rest);
    if (got < 0) ok = member_fail(a, st.name, zip.member_text(r.m));
  }
  zip.member_close(r.m);
  return ok;
}

bool ty_npz_open(Archive *a) {
  ZipError err = {0};
  if (!loaded()) return ty_file_fail(&a->file, "%s", zip.err);
  if (a->file.size < 22) return ty_file_fail(&a->file, "is no zip file"); /* libzip: an empty one */
  Inside *in = ty_file_alloc(sizeof *in);
  if (!in) return ty_file_fail_memory(&a->file, 0);
  *in = (Inside){.f = &a->file};
  a->inside = in;
  a->close = npz_close;
  a->read = npz_read;
  if (!check_count(&a->file)) return false;
  Source *s = zip.source_new(read_callback, in, &err);
  if (!s) return ty_file_fail(&a->file, "%s", zip.error_text(&err));
  in->zip = zip.open_source(s, OPEN_READ_ONLY, &err);
  if (!in->zip) {
    ty_file_fail(&a->file, "%s", zip.error_text(&err));
    zip.error_free(&err);
    zip.source_free(s);
    return false;
  }
  u8 *front = ty_file_alloc(FRONT);
  bool ok = front ? read_members(a, front) : ty_file_fail_memory(&a->file, FRONT);
  ty_file_free(front);
  return ok;
}

/* --- writing */

/* A part on its way into the archive. */
typedef struct Feed {
  const ZipPart *part;
  i64 at;
} Feed;

static i64 write_callback(void *ctx, void *data, u64 n, int command) {
  Feed *feed = ctx;
  const ZipPart *p = feed->part;
  switch (command) {
  case C_OPEN: feed->at = 0; return 0;
  case C_CLOSE: return 0;
  case C_FREE: ty_file_free(feed); return 0;
  case C_SUPPORTS:
    return 1 << C_OPEN | 1 << C_READ | 1 << C_CLOSE | 1 << C_STAT | 1 << C_ERROR | 1 << C_FREE |
           1 << C_SUPPORTS;
  case C_READ: {
    bool front = feed->at < p->nfront;
    i64 done = front ? feed->at : feed->at - p->nfront;
    i64 now = (front ? p->nfront : p->nrest) - done;
    if (n < (u64)now) now = (i64)n;
    if (now) memcpy(data, (const char *)(front ? p->front : p->rest) + done, (size_t)now);
    feed->at += now;
    return now;
  }
  case C_STAT: {
    ZipStat s = {.valid = STAT_SIZE, .size = (u64)(p->nfront + p->nrest)};
    if (n < sizeof s) return -1;
    memcpy(data, &s, sizeof s);
    return sizeof s;
  }
  case C_ERROR: memset(data, 0, (size_t)TY_MIN(n, 2 * sizeof(int))); return 2 * sizeof(int);
  default: return -1;
  }
}

static bool write_part(Zip *z, const ZipPart *p, bool compress, const char **why) {
  Feed *feed = ty_file_alloc(sizeof *feed);
  if (!feed) {
    *why = "out of memory";
    return false;
  }
  *feed = (Feed){.part = p};
  Source *s = zip.source_of(z, write_callback, feed);
  if (!s) {
    ty_file_free(feed);
    return false;
  }
  i64 i = zip.add(z, p->name, s, NAME_UTF8);
  if (i < 0) {
    zip.source_free(s); /* and the feed with it */
    return false;
  }
  /* 1980-01-01, so that the same tensors make the same bytes. */
  return !zip.method(z, (u64)i, compress ? METHOD_DEFLATE : METHOD_STORE, 0) &&
         !zip.dos_time(z, (u64)i, 0, 0x21, 0);
}

bool ty_zip_write(const char *path, const ZipPart *parts, i64 n, bool compress,
                  char err[FILE_ERR]) {
  int code = 0;
  if (!loaded()) {
    snprintf(err, FILE_ERR, "%.250s: %s", path, zip.err);
    return false;
  }
  Zip *z = zip.open_path(path, OPEN_CREATE | OPEN_TRUNCATE, &code);
  if (!z) {
    ZipError e;
    zip.error_code(&e, code);
    snprintf(err, FILE_ERR, "%.250s: cannot be written: %.200s", path, zip.error_text(&e));
    zip.error_free(&e);
    return false;
  }
  FileCalm calm;
  const char *why = NULL; /* where it is not libzip's */
  bool ok = true;
  for (i64 i = 0; i < n && ok; i++) ok = write_part(z, &parts[i], compress, &why);
  ty_file_calm(&calm);
  ok = ok && zip.close(z) == 0;
  ty_file_calm_end(&calm);
  if (ok) return true;
  snprintf(err, FILE_ERR, "%.250s: cannot be written: %.200s", path, why ? why : zip.text(z));
  zip.discard(z);
  return false;
}
