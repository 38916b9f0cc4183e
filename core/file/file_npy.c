/*
** file_npy.c -- NumPy's .npy: a header in Python's syntax, then the elements.
** In: an open file. Out: one entry without a name. Format: numpy/lib/format.py, versions 1 to 3.
** Refused, with what to do: Python objects, records, text, dates. Bytes behind the elements are left alone, as
** by NumPy.
**
** The header is a dict literal with exactly the keys descr, fortran_order, shape. What is read here
** is what NumPy accepts in practice: strings in either quote, spaces anywhere, a trailing comma,
** and the L behind numbers that Python 2 wrote.
*/
#include "file/file.h"

typedef struct Text {
  File *f;
  const char *p, *end;
} Text;

static bool npy_fail(Text *t, const char *what) {
  return ty_file_fail(t->f, "the npy header: %s", what);
}

static void skip(Text *t) {
  while (t->p < t->end && (*t->p == ' ' || *t->p == '\t' || *t->p == '\n' || *t->p == '\r')) t->p++;
}

static bool have(Text *t, char c) {
  skip(t);
  if (t->p == t->end || *t->p != c) return false;
  t->p++;
  return true;
}

/* A string without escapes; false: there is none. */
static bool string(Text *t, const char **s, i64 *n) {
  skip(t);
  if (t->p == t->end || (*t->p != '\'' && *t->p != '"')) return false;
  char quote = *t->p++;
  for (*s = t->p; t->p < t->end && *t->p != quote && *t->p != '\\' && *t->p != '\n'; t->p++) {}
  *n = t->p - *s;
  if (t->p == t->end || *t->p != quote) return false;
  t->p++;
  return true;
}

static bool is(const char *s, i64 n, const char *word) {
  return n == (i64)strlen(word) && !memcmp(s, word, (size_t)n);
}

static bool word(Text *t, const char *w) {
  skip(t);
  i64 n = (i64)strlen(w);
  if (t->end - t->p < n || memcmp(t->p, w, (size_t)n)) return false;
  t->p += n;
  return true;
}

static bool size(Text *t, i64 *v) {
  skip(t);
  const char *begin = t->p;
  for (*v = 0; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
    if (!ty_mul(*v, 10, v) || !ty_add(*v, *t->p - '0', v)) return false;
  if (t->p == begin || (*begin == '0' && t->p > begin + 1)) return false;
  if (t->p < t->end && *t->p == 'L') t->p++;
  return true;
}

/* (), (3,), (3, 4), (3, 4,); one number in parentheses is no tuple. */
static bool shape(Text *t, Type *type) {
  bool comma = true;
  if (!have(t, '(')) return npy_fail(t, "shape must be a tuple");
  while (!have(t, ')')) {
    i64 v;
    if (!comma) return npy_fail(t, "shape must be a tuple");
    if (!size(t, &v)) return npy_fail(t, "shape must hold whole numbers that are not too large");
    if (type->rank == MAX_RANK) return npy_fail(t, "more than 8 dims");
    type->dims[type->rank++] = v;
    comma = have(t, ',');
  }
  return type->rank != 1 || comma || npy_fail(t, "shape must be a tuple");
}

/* The type string: order, kind, bytes. */
static bool element(Text *t, Entry *e, const char *s, i64 n) {
  static const struct {
    const char *name;
    u8 code;
  } known[] = {{"?", E_BOOL}, {"b1", E_BOOL}, {"u1", E_U8},  {"i1", E_I8},  {"u2", E_U16},
               {"i2", E_I16}, {"u4", E_U32},  {"i4", E_I32}, {"u8", E_U64}, {"i8", E_I64},
               {"f2", E_F16}, {"f4", E_F32},  {"f8", E_F64}, {"c8", E_C64}, {"c16", E_C128}};
  static const struct {
    char kind;
    const char *what;
  } strange[] = {{'O', "Python objects, which are not read: save numbers"},
                 {'U', "text, which is not read"},
                 {'S', "text, which is not read"},
                 {'a', "text, which is not read"},
                 {'T', "text, which is not read"},
                 {'V', "records or raw bytes, which are not read"},
                 {'c', "complex numbers of a width that there is no dtype for"},
                 {'M', "dates, which are not read: save numbers"},
                 {'m', "times, which are not read: save numbers"},
                 {'f', "floats of a width that there is no dtype for"}};
  char order = n ? *s : 0;
  if (order == '<' || order == '>' || order == '|' || order == '=') s++, n--;
  else order = '=';
  for (int i = 0; i < TY_COUNT(known); i++) {
    if (!is(s, n, known[i].name)) continue;
    e->code = known[i].code;
    e->swapped = order == '>' && ty_file_codes[e->code].bytes > 1;
    e->type.dtype = ty_file_codes[e->code].dtype;
    return true;
  }
  for (int i = 0; i < TY_COUNT(strange); i++)
    if (n && *s == strange[i].kind) return ty_file_fail(t->f, "holds %s", strange[i].what);
  return npy_fail(t, "descr is no type");
}

static bool entries(Text *t, Entry *e) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  int seen = 0;
  bool comma = true;
  if (!have(t, '{')) return npy_fail(t, "no dict");
  while (!have(t, '}')) {
    const char *key, *s;
    i64 n, m;
    if (!comma || !string(t, &key, &n) || !have(t, ':')) return npy_fail(t, "no dict");
    int which = is(key, n, "descr")           ? DESCR
                : is(key, n, "fortran_order") ? ORDER
                : is(key, n, "shape")         ? SHAPE
                                              : 0;
    if (!which) return npy_fail(t, "an unknown key");
    if (seen & which) return npy_fail(t, "a key stands there twice");
    seen |= which;
    if (which == SHAPE && !shape(t, &e->type)) return false;
    if (which == ORDER && !word(t, "True")) {
      if (!word(t, "False")) return npy_fail(t, "fortran_order must be True or False");
    } else if (which == ORDER) {
      e->turned = true;
    }
    if (which == DESCR && have(t, '['))
      return ty_file_fail(t->f, "holds records, which are not read: save their fields");
    if (which == DESCR) {
      if (!string(t, &s, &m)) return npy_fail(t, "descr is no type");
      if (!element(t, e, s, m)) return false;
    }
    comma = have(t, ',');
  }
  skip(t);
  if (t->p != t->end) return npy_fail(t, "something stands behind the dict");
  return seen == (DESCR | ORDER | SHAPE) || npy_fail(t, "descr, fortran_order or shape is missing");
}

/* Column-major data are the row-major data of the dims in reverse order. */
static void turn(Type *t) {
  for (int i = 0, j = t->rank - 1; i < j; i++, j--) {
    i64 d = t->dims[i];
    t->dims[i] = t->dims[j];
    t->dims[j] = d;
  }
}

bool ty_npy_header(Head *h, Entry *e, i64 bytes_in_all) {
  static const char magic[] = "\x93NUMPY";
  i64 begin = h->at, n, bytes;
  const u8 *p = ty_head_take(h, 8, "the npy header");
  if (!p) return false;
  if (memcmp(p, magic, 6)) return ty_file_fail(h->f, "is no npy file (its first bytes differ)");
  u8 major = p[6], minor = p[7];
  if (major < 1 || major > 3 || minor)
    return ty_file_fail(h->f, "npy version %d.%d is not known", major, minor);
  if (!(p = ty_head_take(h, major == 1 ? 2 : 4, "the npy header"))) return false;
  u32 length = major == 1 ? (u32)(p[0] | p[1] << 8)
                          : p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
  if (length > NPY_HEADER_MOST)
    return ty_file_fail(h->f, "the npy header: %u bytes, at most %d are read", length,
                        NPY_HEADER_MOST);
  if (!(p = ty_head_take(h, length, "the npy header"))) return false;
  Text t = {h->f, (const char *)p, (const char *)p + length};
  if (!entries(&t, e)) return false;
  if (e->turned && e->type.rank > 1) turn(&e->type);
  else e->turned = false;
  if (!ty_entry_size(&e->type, e->code, &n, &bytes))
    return ty_file_fail(h->f, "its shape is larger than any memory");
  e->at = h->at;
  e->bytes = bytes;
  i64 rest = bytes_in_all - (h->at - begin);
  if (bytes > rest)
    return ty_file_fail(h->f, "holds %lld bytes of elements, its shape needs %lld",
                        (long long)TY_MAX(rest, 0), (long long)bytes);
  return true;
}

bool ty_npy_open(Archive *a) {
  ty_head_open(&a->head, &a->file);
  Entry *e = ty_archive_add(a, "", 0);
  return e && ty_npy_header(&a->head, e, a->file.size);
}
