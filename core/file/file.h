/*
** file.h -- reading files that may be hostile, and writing files that are whole or not there.
** The parsers (file_npy.c, file_safetensors.c ...) know nothing of Lua: they fill plain structs from
** a File, so that fuzzers run them alone. file_lua.c makes tensors of what they found.
**
** Rules for all parsers:
** 1. A size that a file states is compared with what the file holds before anything is allocated
**    for it, by arithmetic that sees overflow.
** 2. Nothing recurses by what a file says; depth and counts are bounded.
** 3. Every failure leaves one text in File.err: which file, what is wrong, where. No abort, no
**    assertion on contents. What fails has taken at most the file's size and 64 MB at its peak, the
**    work of libraries included; what grows by reading is looked through before it is stored.
** 4. Bytes are read by pread, or lie in memory. A file is mapped only where the user asks for it:
**    one that is cut short while it is mapped kills its reader.
*/
#ifndef TY_FILE_H
#define TY_FILE_H

#include "base/system.h"
#include "ir/type.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "formats are written as they lie here");

#define FILE_ERR 512
#define FILE_SPARE ((i64)64 << 20) /* memory that a file may cost beyond its own size */
#define FILE_LIMIT (FILE_SPARE - ((i64)6 << 20)) /* less what libraries take whatever the file */

/* --- memory: malloc with a failing hook for tests. */
void *ty_file_alloc(i64 n); /* NULL: no memory */
void *ty_file_grow(void *p, i64 n);
void ty_file_free(void *p);
/* Pages between `from` and `end`, memory of ours that nobody will read again, go back to the system;
** as whole huge pages, so that what is left is less than one. Where the next call begins. */
const void *ty_file_discard(const void *from, const void *end);
#define FILE_PAGE ((i64)2 << 20)
void ty_file_starve(i64 after); /* allocations after that many fail; < 0: none do */

/* --- bytes */

/* Bytes in memory that tensors share: a mapped file. */
typedef struct FileMap FileMap;
FileMap *ty_file_map_hold(FileMap *m);
void ty_file_map_drop(void *m);

typedef struct File {
  char *path;     /* as the user gave it: begins every message */
  int fd;         /* -1: none */
  const u8 *data; /* all bytes where they lie in memory, else NULL */
  FileMap *map;   /* data is this map's */
  i64 size;
  bool memory; /* it failed since memory ran out */
  char err[FILE_ERR];
} File;

/* Opens a regular file for reading; others (directories, pipes, devices) are refused, since their
** size says nothing. mapped: its bytes are mapped, private to this process. */
bool ty_file_open(File *f, const char *path, bool mapped);
/* A file that lies in memory, which stays the caller's. */
bool ty_file_memory(File *f, const char *name, const void *data, i64 size);
void ty_file_close(File *f);
/* Reading, parsing and writing of the calling thread fails between two pieces once `stops` says so; NULL: it does not. */
typedef bool FileStops(void *ctx);
void ty_file_watch(FileStops *stops, void *ctx);
bool ty_file_stops(void);
#define FILE_STOPPED "was left, since an end was asked for"
/* Exactly n bytes from `at`. */
bool ty_file_read(File *f, i64 at, void *to, i64 n);
char *ty_file_copy_text(const char *s); /* NULL: no memory */

/* What the system does for these, file_system.c or file_system_windows.c; where it fails errno says why. */
#define FILE_IO_MOST ((i64)8 << 20) /* bytes between two looks at whether to stop */
bool ty_file_open_regular(File *f); /* f->path: its number and size; false: said */
/* Private and writable: tensors over them may be written, the file stays as it is. NULL: failed. */
void *ty_file_map_pages(int fd, i64 size);
void ty_file_unmap_pages(void *p, i64 size);
i64 ty_file_read_some(int fd, i64 at, void *to, i64 n); /* < 0: failed, 0: the file is over */
void ty_file_close_number(int fd);
/* Says what is wrong, with the path in front; always false. */
bool ty_file_fail(File *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool ty_file_fail_memory(File *f, i64 bytes);
/* A name of the file's for a message: quoted, cut, what cannot be printed escaped. Good until the
** fourth call after this one in this thread. */
const char *ty_file_quote(const char *s, i64 n);
/* Names are UTF-8 without control characters. NULL, or what is wrong. */
const char *ty_file_bad_name(const char *s, i64 n);
/* The length of the well-formed UTF-8 sequence at s, of which n bytes are there; 0: it is none. */
int ty_file_utf8(const u8 *s, i64 n);

/* The files and folders in a folder, in no order, without those whose names begin with a point. NULL: errno
** says why; it is over. A name holds until the next call. */
void *ty_folder_open(const char *path);
const char *ty_folder_next(void *folder, bool *is_folder);
void ty_folder_close(void *folder);

/* The front of a file, read as far as it was asked for. */
typedef struct Head {
  File *f;
  u8 *data;     /* f->data where that is all there is, or owned */
  i64 have, at; /* bytes that are there; the cursor */
  i64 room;
} Head;
void ty_head_open(Head *h, File *f);
void ty_head_close(Head *h);
/* The next n bytes, or NULL: the file ends before (`what` names them in the message), or there is
** no memory. The address holds until the next call. */
const u8 *ty_head_take(Head *h, i64 n, const char *what);
bool ty_head_u32(Head *h, u32 *v, const char *what);
bool ty_head_u64(Head *h, u64 *v, const char *what);

/* --- JSON, read strictly (RFC 8259): token by token, no recursion, at most JSON_DEPTH levels. */
enum { JSON_DEPTH = 128 };

typedef enum {
  J_ERROR, /* err says why and where */
  J_END,   /* all was read, only spaces were left */
  J_OBJECT,
  J_OBJECT_END,
  J_ARRAY,
  J_ARRAY_END,
  J_KEY, /* the text is in s, n */
  J_STRING,
  J_NUMBER, /* as it is written */
  J_TRUE,
  J_FALSE,
  J_NULL
} JsonToken;

typedef struct Json {
  char *begin, *p, *end; /* strings are decoded where they lie */
  const char *s;         /* text of the last key, string or number */
  i64 n;
  int depth;
  u8 state;
  bool object[JSON_DEPTH]; /* by level: it is an object */
  char err[96];
} Json;

void ty_json_open(Json *j, char *text, i64 n);
JsonToken ty_json_next(Json *j);
/* Reads to the end of the value of which `token` is the first. false: err. */
bool ty_json_skip(Json *j, JsonToken token);
/* The last number as a whole one, at least 0; false: it is none, or too large. */
bool ty_json_whole(const Json *j, i64 *v);

/* --- tensors in files */

/* How elements are written. Blocks of quantised numbers become f32.
**  name  elements a block, bytes a block, becomes */
#define FILE_CODES(_) \
  _(BOOL, 1, 1, T_BOOL) \
  _(U8, 1, 1, T_U8) \
  _(I8, 1, 1, T_I8) \
  _(U16, 1, 2, T_U16) \
  _(I16, 1, 2, T_I16) \
  _(U32, 1, 4, T_U32) \
  _(I32, 1, 4, T_I32) \
  _(U64, 1, 8, T_U64) \
  _(I64, 1, 8, T_I64) \
  _(F16, 1, 2, T_F16) \
  _(BF16, 1, 2, T_BF16) \
  _(F32, 1, 4, T_F32) \
  _(F64, 1, 8, T_F64) \
  _(C64, 1, 8, T_C64) \
  _(C128, 1, 16, T_C128) \
  _(Q8_0, 32, 34, T_F32) \
  _(Q4_0, 32, 18, T_F32) \
  _(Q4_1, 32, 20, T_F32) \
  _(Q5_0, 32, 22, T_F32) \
  _(Q5_1, 32, 24, T_F32) \
  _(Q4_K, 256, 144, T_F32) \
  _(Q5_K, 256, 176, T_F32) \
  _(Q6_K, 256, 210, T_F32)

typedef enum {
#define _(NAME, n, bytes, dtype) E_##NAME,
  FILE_CODES(_)
#undef _
      E_COUNT
} FileCode;

typedef struct FileCodeInfo {
  u16 elements, bytes;
  u8 dtype;
} FileCodeInfo;
extern const FileCodeInfo ty_file_codes[E_COUNT];

/* n numbers of whole blocks at p, as the row of this code describes them, to f32. */
void ty_file_blocks(const FileCodeInfo *c, int code, const u8 *p, i64 n, float *y);

typedef struct Entry {
  const char *name; /* not ended by 0 */
  i64 length;
  Type type;     /* of the tensor that it becomes */
  u8 code;       /* how its elements are written */
  bool swapped;  /* most significant byte first */
  bool turned;   /* its dims lie in reverse order: `type` has them so */
  i64 at, bytes; /* where it lies */
  char why[80];  /* not "": it can be no tensor of ours, and why */
} Entry;

/* Elements and bytes of an array of this type and code; false: too large for any memory, or no
** whole number of blocks in a row. */
bool ty_entry_size(const Type *t, int code, i64 *numel, i64 *bytes);

/* A pair of texts, not ended by 0. */
typedef struct Metadata {
  const char *key, *value;
  i64 n, m;
} Metadata;

/* A file of named tensors. */
typedef struct Archive Archive;
struct Archive {
  File file;
  Head head; /* names and metadata point into it */
  Entry *entry;
  i64 count, room;
  i64 limit;    /* bytes that compressed entries may unpack to, and that a bad file may take */
  void *inside; /* what the format needs besides */
  bool (*read)(Archive *a, const Entry *e, void *to); /* NULL: as it lies in the file */
  void (*close)(Archive *a);                          /* frees `inside`; or NULL */
  i64 meta_at, meta_count;                            /* metadata, in `head`: see the format */
};

/* Of one file: what they cost stays within FILE_SPARE. */
#define ENTRIES_MOST 65536
#define TEXT_MOST ((i64)16 << 20) /* bytes of names and metadata of safetensors, of JSON */

/* The code of elements as our dtype has them. */
int ty_entry_code(int dtype);

/* A new entry, zeroed, with a name that stays where it is; NULL: no memory or too many, said. */
Entry *ty_archive_add(Archive *a, const char *name, i64 length);
/* Fails when two entries have one name. */
bool ty_archive_unique(Archive *a);
/* The elements of an entry, as its type lies in memory: e's numel times dtype's size bytes. `to`
** NULL: only looked through. */
bool ty_archive_read(Archive *a, const Entry *e, void *to);
/* Before these are read: whether all can be tensors; and, where together they will take more than
** Archive.limit, whether their bytes are good, so that what is refused has not cost that much. */
bool ty_archive_check(Archive *a, const Entry *const *list, i64 count);
void ty_archive_close(Archive *a);

/* Elements from a stream of bytes. next: exactly n bytes, or false with the message said. */
typedef bool StreamNext(void *ctx, void *to, i64 n);
bool ty_archive_decode(Archive *a, const Entry *e, StreamNext *next, void *ctx, void *to);

/* The formats: a->file is open, all else zero. false: a->file.err says why. */
bool ty_npy_open(Archive *a);
bool ty_safetensors_open(Archive *a); /* inside: meta_count Metadata */
bool ty_gguf_open(Archive *a);        /* meta_count pairs from meta_at on: key, type, value */
bool ty_npz_open(Archive *a);
/* The header at the cursor of h, into e; it and its elements have so many bytes. */
enum { NPY_HEADER_MOST = 10000 }; /* NumPy's own limit for files of strangers */
bool ty_npy_header(Head *h, Entry *e, i64 bytes_in_all);

/* One member of an archive to be: a front, then the rest. */
typedef struct ZipPart {
  const char *name;
  const void *front, *rest;
  i64 nfront, nrest;
} ZipPart;
/* Writes a zip file whole or not at all. false: err. */
bool ty_zip_write(const char *path, const ZipPart *parts, i64 n, bool compress, char err[FILE_ERR]);

/* Metadata of GGUF: types by number, and one value. */
enum {
  GGUF_U8,
  GGUF_I8,
  GGUF_U16,
  GGUF_I16,
  GGUF_U32,
  GGUF_I32,
  GGUF_F32,
  GGUF_BOOL,
  GGUF_STRING,
  GGUF_ARRAY,
  GGUF_U64,
  GGUF_I64,
  GGUF_F64,
  GGUF_TYPES,
  GGUF_DEPTH = 8 /* arrays within arrays */
};

typedef struct GgufValue {
  u32 type, element; /* element: of an array */
  const u8 *bytes;   /* of a number or a string */
  i64 n;             /* bytes of a string, elements of an array, which follow */
} GgufValue;
bool ty_gguf_value(Head *h, u32 type, GgufValue *v);

/* --- writing: whole or not at all */

/* A file that reaches the limit of its length, and a pipe without a reader, send the writer a signal
** that ends the process. Between these two calls the thread does not get them: writes just fail. */
typedef struct FileCalm {
  Signals before, held; /* empty on Windows, which has no such signals */
} FileCalm;
void ty_file_calm(FileCalm *c);
void ty_file_calm_end(const FileCalm *c);

/* A file in the same folder without a name, or under another, which becomes `path` at the end. */
typedef struct Draft {
  char *given, *path; /* as the user gave it: begins messages; of the file to be, links followed */
  char *name;         /* where it is written; NULL: it has no name yet */
  int fd;
  bool direct; /* path is a device or a pipe: written to as it is */
  char err[FILE_ERR];
} Draft;
bool ty_draft_open(Draft *d, const char *path);
bool ty_draft_fail(Draft *d, const char *what, int why); /* why: of errno. Always false */
bool ty_draft_fail_memory(Draft *d, const char *path);
bool ty_draft_write(Draft *d, const void *data, i64 n);
/* Makes it the file. durable: it is on the disk when this returns. */
bool ty_draft_close(Draft *d, bool durable);
void ty_draft_drop(Draft *d); /* gives it up, after a failure too; harmless after close */

#endif
