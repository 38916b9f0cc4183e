/*
** file_csv.c -- tables in text: fields between delimiters, rows between line ends (RFC 4180).
** In: an open file and options. Out: see file_csv.h.
** Fails on: a file that cannot be read or is no text (zero bytes, UTF-16), rows that are longer or shorter than the header, quotes that
** are not closed or have text behind them, fields that a fixed column cannot hold.
**
** The whole text lies in memory, with a NUL behind it and none within. Rules that a change must keep:
** 1. Rows are counted before anything is allocated for them, and a row of n columns has at least
**    n - 1 delimiters: columns x rows is at most the size of the text and its rows.
** 2. Numbers are read where they stand and stored where they belong, without looking for the end
**    of their field first: that is what makes it fast. What does not end at a delimiter there is
**    read again as a field (spaces, quotes, missing values, text).
** 3. A guessed column widens, I64 to F32 to F64 to TEXT, while the pass goes on to its end; the
**    second pass then knows kinds that hold for all rows. There is no third. It begins as BOOL, and
**    is that as long as there are true, false and gaps alone; what the gaps need (NaN is no bool)
**    is settled when all rows have been looked at. True and false among numbers are text.
** 4. Nothing is rounded silently where it was guessed: a whole number that F32 cannot hold, or a
**    number beyond its range, makes the column F64.
** 5. What is refused has taken little beside the text: CSV_STORED bytes are stored, and as many as
**    the text gives back that was read; the rows behind them are looked at first and then read
**    again. Nothing fails after that but for memory, or when the file changes.
** 6. \n, \r\n and \r end lines. Lines without characters, and those that begin with the comment
**    character, are no rows. A quote counts at the beginning of a field alone.
*/
#include "file/file_csv.h"
#include "file/file_number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { SAMPLE = 100, SNIFF = 10 }; /* rows that guesses are made from; lines for the delimiter */

/* ---- fields ------------------------------------------------------------------------------------- */

/* As ty_file_fail, with the line behind the path. */
__attribute__((format(printf, 3, 4))) static bool fail_at(const Csv *c, i64 line, const char *fmt,
                                                          ...) {
  File *f = c->f;
  va_list ap;
  const char *path = f->path ? f->path : "text";
  int n = snprintf(f->err, FILE_ERR, "%.200s:%lld: ", path, (long long)line);
  va_start(ap, fmt);
  vsnprintf(f->err + n, (size_t)(FILE_ERR - n), fmt, ap);
  va_end(ap);
  return false;
}

bool ty_csv_fail(const Csv *c, i64 line, int j, const CsvField *x, const char *what) {
  CsvCursor at = c->head;
  CsvField name = {0};
  bool named = c->o.header == 1 && ty_csv_next(c, &at);
  for (int i = 0; named && i <= j; i++)
    if (ty_csv_field(c, &at, &name) < (i < j)) named = false;
  return fail_at(c, line, "column %d%s%s%s: %s %s", j + 1, named ? " (" : "",
                 named ? ty_file_quote(name.p, name.n) : "", named ? ")" : "",
                 x->n ? ty_file_quote(x->p, x->n) : "an empty field", what);
}

/* Whether p stands where an unquoted field ends: at a delimiter, a line end, or the NUL. */
static inline bool at_stop(const Csv *c, const char *p) { return c->stops[(u8)*p]; }

/* Behind the end of the line that p stands at. */
static inline char *line_end(const Csv *c, char *p) {
  if (p == c->end) return p;
  return p + 1 + (*p == '\r' && p[1] == '\n');
}

static i64 count_lines(const char *p, const char *end) {
  i64 n = 0;
  for (; p < end; p++) n += *p == '\n' || (*p == '\r' && p[1] != '\n');
  return n;
}

/* The field between quotes at `at`: behind the closing one; NULL: there is none. */
static char *quoted_field(const Csv *c, CsvCursor *at, CsvField *y) {
  char *p = at->p + 1, *q;
  *y = (CsvField){.p = p, .quoted = true};
  for (;; p = q + 2, y->doubled = true) {
    q = memchr(p, '"', (size_t)(c->end - p));
    if (!q) {
      fail_at(c, at->line, "a quote is opened and never closed");
      return NULL;
    }
    if (q[1] != '"') break;
  }
  y->n = q - y->p;
  if (!at_stop(c, q + 1)) {
    fail_at(c, at->line, "text behind a closing quote");
    return NULL;
  }
  at->line += count_lines(y->p, q);
  return q + 1;
}

int ty_csv_field(const Csv *c, CsvCursor *at, CsvField *y) {
  char *p = at->p;
  if (*p == '"') {
    if (!(p = quoted_field(c, at, y))) return -1;
  } else {
    while (!at_stop(c, p)) p++;
    *y = (CsvField){.p = at->p, .n = p - at->p};
  }
  if (p < c->end && *p == c->o.delimiter) {
    at->p = p + 1;
    return 1;
  }
  at->p = line_end(c, p);
  at->line++;
  return 0;
}

/* Passes over lines that are no rows. */
bool ty_csv_next(const Csv *c, CsvCursor *at) {
  for (; at->p < c->end; at->line++) {
    char *p = at->p;
    if (c->o.comment && *p == c->o.comment) {
      while (p < c->end && *p != '\n' && *p != '\r') p++;
    } else if (*p != '\n' && *p != '\r') {
      return true;
    }
    at->p = line_end(c, p);
  }
  return false;
}

void ty_csv_unquote(CsvField *x) {
  if (!x->doubled) return;
  char *to = x->p;
  for (char *p = x->p, *end = x->p + x->n; p < end; p++) {
    *to++ = *p;
    p += *p == '"';
  }
  x->n = to - x->p;
  x->doubled = false;
}

/* ---- numbers ------------------------------------------------------------------------------------ */

static bool is_missing(const Csv *c, const CsvField *x) {
  if (!x->n) return true;
  for (const char *m = c->o.missing; m && *m; m += strlen(m) + 1)
    if ((i64)strlen(m) == x->n && !memcmp(m, x->p, (size_t)x->n)) return true;
  return false;
}

static void trim(CsvField *x) {
  while (x->n && (*x->p == ' ' || *x->p == '\t')) x->p++, x->n--;
  while (x->n && (x->p[x->n - 1] == ' ' || x->p[x->n - 1] == '\t')) x->n--;
}

/* inf, infinity and nan, with a sign, in any case. */
static bool is_word(const CsvField *x, double *y) {
  static const char *const words[] = {"inf", "infinity", "nan"};
  i64 sign = x->n && (*x->p == '-' || *x->p == '+');
  for (int i = 0; i < TY_COUNT(words); i++) {
    i64 n = (i64)strlen(words[i]), k = 0;
    if (x->n - sign != n) continue;
    while (k < n && (x->p[sign + k] | 32) == words[i][k]) k++;
    if (k < n) continue;
    *y = i == 2 ? (double)NAN : sign && *x->p == '-' ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  return false;
}

/* True and false, spelled as Python, C and spreadsheets do. */
static bool is_truth(const CsvField *x, double *y) {
  static const char *const words[] = {"false", "true", "False", "True", "FALSE", "TRUE"};
  if (x->n != 4 && x->n != 5) return false;
  for (int i = 0; i < TY_COUNT(words); i++) {
    if ((i64)strlen(words[i]) != x->n || memcmp(words[i], x->p, (size_t)x->n)) continue;
    *y = i & 1;
    return true;
  }
  return false;
}

/* A number that fills the field; spaces around it do not count. */
static bool field_number(const Csv *c, CsvField *x, Decimal *d) {
  const char *end = x->n ? ty_number_scan(x->p, c->o.point, d) : NULL;
  return end && end == x->p + x->n;
}

static inline void store(const CsvColumn *k, i64 row, const void *v, size_t n) {
  if (k->to) memcpy(k->to + row * k->stride, v, n);
}

/* Stores the number d, which stands from p to end, if the column's kind holds it. The answer: the
** kind that holds it; CSV_SKIP: there is no memory. */
static inline int store_number(const Csv *c, const CsvColumn *k, i64 row, char *p, const char *end,
                               const Decimal *d) {
  int kind = k->kind;
  i64 i;
  double v;
  float f;
  if (kind == CSV_I64) {
    if (TY_LIKELY(ty_number_integer(d, &i))) {
      store(k, row, &i, 8);
      return CSV_I64;
    }
    kind = c->o.floats;
  }
  if (kind == CSV_F32) {
    if (!ty_number_float(p, end, c->o.point, d, &f)) return CSV_SKIP;
    bool lost = d->whole && d->w > 1 << 24 && !k->fixed && !c->o.plain && /* rule 4 */
                (d->rest || d->e || fabsf(f) >= 0x1p63f || (u64)fabsf(f) != d->w);
    if (TY_LIKELY(!isinf(f) && !lost)) {
      if (k->kind == CSV_F32) store(k, row, &f, 4);
      return CSV_F32;
    }
    return CSV_F64;
  }
  if (!ty_number_double(p, end, c->o.point, d, &v)) return CSV_SKIP;
  if (k->kind == CSV_F64) store(k, row, &v, 8);
  return CSV_F64;
}

static void store_value(const CsvColumn *k, i64 row, double v) {
  float f = (float)v;
  i64 i = k->kind == CSV_I64 ? (i64)v : 0;
  u8 b = v != 0;
  if (k->kind == CSV_BOOL) store(k, row, &b, 1);
  else if (k->kind == CSV_I64) store(k, row, &i, 8);
  else if (k->kind == CSV_F32) store(k, row, &f, 4);
  else if (k->kind == CSV_F64) store(k, row, &v, 8);
}

/* The kind that holds what stands for a missing value, which is stored if it is the column's. */
static int missing_value(const Csv *c, CsvColumn *k, i64 row) {
  double v = c->o.fill;
  bool whole = v >= -0x1p53 && v <= 0x1p53 && v == (double)(i64)v;
  int least = v == 0 || v == 1 ? CSV_BOOL : whole ? CSV_I64 : c->o.floats;
  if (k->kind > CSV_I64) least = k->kind;
  if (least <= k->kind) store_value(k, row, v);
  else if (k->kind == CSV_BOOL && !k->fixed) {
    k->least = (u8)TY_MAX(k->least, least); /* see settle */
    return CSV_BOOL;
  }
  return least;
}

/* The same of true or false: a column of them is of numbers where its gaps want that. */
static int truth_value(CsvColumn *k, i64 row, double v) {
  if (k->kind != CSV_BOOL && !k->words) return CSV_TEXT;
  k->words = true;
  store_value(k, row, v);
  return k->kind;
}

/* The same of the number d in the field x. CSV_SKIP: there is no memory. */
static int number_value(const Csv *c, CsvColumn *k, i64 row, const CsvField *x, const Decimal *d) {
  if (k->kind != CSV_BOOL) return store_number(c, k, row, x->p, x->p + x->n, d);
  i64 i;
  if (k->fixed) {
    if (!ty_number_integer(d, &i) || (i != 0 && i != 1)) return CSV_TEXT;
    store_value(k, row, (double)i);
    return CSV_BOOL;
  }
  if (k->words) return CSV_TEXT;
  CsvColumn wider = {.kind = c->o.plain ? c->o.floats : CSV_I64};
  int need = store_number(c, &wider, row, x->p, x->p + x->n, d);
  return TY_MAX(need, k->least);
}

/* The same of inf and nan. */
static int word_value(const Csv *c, const CsvColumn *k, i64 row, double v) {
  if (k->kind == CSV_BOOL && (k->words || k->fixed)) return CSV_TEXT;
  if (k->kind <= CSV_I64) return c->o.floats;
  store_value(k, row, v);
  return k->kind;
}

/* A field that is no plain number of a numeric column. Widens the column. */
static bool odd_field(Csv *c, CsvColumn *k, i64 row, i64 line, CsvField x) {
  int j = (int)(k - c->column), need = CSV_TEXT;
  CsvField whole = x;
  Decimal d;
  double v;
  trim(&x);
  if (is_missing(c, &x)) {
    if (c->o.strict)
      return ty_csv_fail(c, line, j, &whole,
                         k->kind == CSV_BOOL && (k->words || k->fixed)
                             ? "where true or false is needed"
                             : "where a number is needed");
    need = missing_value(c, k, row);
  } else if (is_truth(&x, &v)) {
    need = truth_value(k, row, v);
  } else if (!x.doubled && field_number(c, &x, &d)) {
    need = number_value(c, k, row, &x, &d);
    if (need == CSV_SKIP) return ty_file_fail_memory(c->f, 0);
  } else if (is_word(&x, &v)) {
    need = word_value(c, k, row, v);
  }
  if (need <= k->kind) return true;
  if (k->fixed || (c->o.plain && need == CSV_F64 && c->o.floats == CSV_F32))
    return ty_csv_fail(c, line, j, &whole,
                       k->fixed && k->kind == CSV_BOOL ? "is neither true nor false"
                       : k->kind == CSV_I64            ? "is no whole number of an i64"
                       : need == CSV_F64               ? "is too large for an f32"
                                                       : "is no number");
  k->kind = (u8)need;
  k->to = NULL; /* from now on only looked at */
  return true;
}

/* ---- the text ------------------------------------------------------------------------------------ */

/* The text, piece by piece: each is looked through while it lies in the cache. */
static bool read_text(Csv *c) {
  enum { PIECE = 256 << 10 };
  File *f = c->f;
  for (i64 at = 0; at < f->size; at += PIECE) {
    char *p = c->text + at;
    i64 n = TY_MIN(f->size - at, PIECE);
    if (!ty_file_read(f, at, p, n)) return false;
    if (!at && n > 1 && ((u8)p[0] ^ (u8)p[1]) == 1 && (u8)TY_MIN((u8)p[0], (u8)p[1]) == 0xfe)
      return fail_at(c, 1, "the text is UTF-16 (write it as UTF-8)");
    char *zero = memchr(p, 0, (size_t)n);
    if (zero)
      return fail_at(c, 1 + count_lines(c->text, zero),
                     "a zero byte: this is no text, or UTF-16 (write it as UTF-8)");
    c->quotes = c->quotes || memchr(p, '"', (size_t)n);
  }
  return true;
}

/* ---- rows --------------------------------------------------------------------------------------- */

static bool ragged(const Csv *c, CsvCursor at) {
  i64 n = 0, line = at.line;
  int more;
  CsvField x;
  do n++;
  while ((more = ty_csv_field(c, &at, &x)) > 0);
  if (more < 0) return false;
  return fail_at(c, line, "%lld field%s where the %s %d", (long long)n, n == 1 ? "" : "s",
                 c->o.header ? "header has" : "first row has", c->columns);
}

/* Stores the number at p when it is one of the commonest and the column is of floats: behind it;
** NULL: nothing was done. */
static inline char *quick_number(const Csv *c, const CsvColumn *k, i64 row, char *p) {
  double v;
  bool whole;
  if (k->kind != CSV_F32 && k->kind != CSV_F64) return NULL;
  const char *end = ty_number_quick(p, c->o.point, &v, &whole);
  if (TY_UNLIKELY(!end || *end != c->o.delimiter)) return NULL;
  if (k->kind == CSV_F32) {
    u64 bits;
    float f = (float)v;
    memcpy(&bits, &v, 8);
    if (TY_UNLIKELY((bits & 0x1fffffff) == 0x10000000)) return NULL; /* rounding twice */
    if (TY_UNLIKELY(whole && fabs(v) > 0x1p24)) return NULL;         /* rule 4 */
    store(k, row, &f, 4);
  } else {
    store(k, row, &v, 8);
  }
  return (char *)(uintptr_t)end;
}

/* One row from `at` on. */
static bool parse_row(Csv *c, CsvCursor *at, CsvResult *result) {
  CsvCursor begin = *at;
  CsvField x;
  i64 row = at->row;
  int more = 1, j = 0;
  for (; more > 0; j++) {
    if (j == c->columns) return ragged(c, begin);
    CsvColumn *k = &c->column[j];
    char *p = at->p;
    if (TY_LIKELY(k->kind >= CSV_I64 && k->kind <= CSV_F64)) { /* rule 2 */
      Decimal d;
      char *end = quick_number(c, k, row, p);
      if (TY_LIKELY(end != NULL)) {
        at->p = end + 1;
        continue;
      }
      end = (char *)(uintptr_t)ty_number_scan(p, c->o.point, &d);
      if (TY_LIKELY(end && at_stop(c, end))) {
        int need = store_number(c, k, row, p, end, &d);
        if (TY_LIKELY(need == k->kind) && TY_LIKELY(*end == c->o.delimiter)) {
          at->p = end + 1;
          continue;
        }
        /* the general way finds the same again where the row ends or the column widens */
      }
    }
    i64 line = at->line;
    if ((more = ty_csv_field(c, at, &x)) < 0) return false;
    if (k->kind > CSV_F64) continue;
    u8 kind = k->kind;
    if (!odd_field(c, k, row, line, x)) return false;
    if (k->kind != kind) *result = CSV_AGAIN;
  }
  return j == c->columns || ragged(c, begin);
}

/* Rows from `at` on, before row `until`. */
/* Whether to go on behind row n; where not, why is said. */
static bool goes_on(const Csv *c, i64 n) {
  enum { ROWS = 1024 };
  return n % ROWS || !n || !ty_file_stops() || ty_file_fail(c->f, FILE_STOPPED);
}

static bool parse_rows(Csv *c, CsvCursor *at, i64 until, CsvResult *result) {
  for (; at->row < until && ty_csv_next(c, at); at->row++)
    if (!goes_on(c, at->row) || !parse_row(c, at, result)) return false;
  return true;
}

bool ty_csv_texts_fit(const Csv *c) {
  bool texts = false;
  for (int j = 0; j < c->columns; j++) texts |= c->column[j].kind == CSV_TEXT;
  return !texts || c->rows <= CSV_TEXTS ||
         ty_file_fail(c->f, "has more rows than a list of texts holds");
}

/* What a row takes where it is stored. */
static i64 row_bytes(const Csv *c) {
  static const u8 bytes[] = {
      [CSV_BOOL] = 1, [CSV_I64] = 8, [CSV_F32] = 4, [CSV_F64] = 8, [CSV_SKIP] = 0};
  i64 n = 0;
  for (int j = 0; j < c->columns; j++) n += bytes[c->column[j].kind];
  return TY_MAX(n, 1);
}

/* All rows have been looked at: guessed columns of bools become what their gaps need, those of gaps
** alone what numbers would be. */
static CsvResult settle(Csv *c, CsvResult result) {
  for (int j = 0; j < c->columns; j++) {
    CsvColumn *k = &c->column[j];
    if (k->kind != CSV_BOOL || k->fixed) continue;
    int kind = TY_MAX(k->least, k->words ? CSV_BOOL : CSV_I64);
    if (kind == CSV_I64 && c->o.plain) kind = c->o.floats;
    if (kind == CSV_BOOL) continue;
    k->kind = (u8)kind;
    result = CSV_AGAIN;
  }
  return result;
}

/* Stores rows as long as CSV_STORED bytes beside the text hold them. Of numbers alone the text is
** not needed again, but where a column widens: its place counts too, since it is given back. */
static bool parse_few(Csv *c, CsvCursor *at, CsvResult *result) {
  bool numbers = true;
  const char *from = at->p;
  i64 row = row_bytes(c), until = CSV_STORED / row, gone = 0, begun;
  for (int j = 0; j < c->columns; j++) numbers &= c->column[j].kind != CSV_TEXT;
  do {
    if (!parse_rows(c, at, until, result)) return false;
    if (!numbers || *result == CSV_AGAIN || at->row == c->rows) return true;
    const char *next = ty_file_discard(from, at->p);
    begun = until;
    gone += next - from;
    from = next;
    c->gone |= gone > 0;
    until = (CSV_STORED + gone) / row;
  } while ((until - begun) * row > CSV_STORED / 8);
  return true;
}

/* Rows that were counted, and no others, or the file has changed meanwhile. */
static bool check_end(const Csv *c, CsvCursor *at) {
  return (at->row == c->rows && !ty_csv_next(c, at)) ||
         ty_file_fail(c->f, "was changed while it was read");
}

CsvResult ty_csv_parse(Csv *c) {
  CsvResult result = CSV_DONE;
  CsvCursor at = c->body, rest;
  if (c->gone && !read_text(c)) return CSV_FAILED;
  c->gone = false;
  at.row = 0;
  if (!c->known) {
    if (!parse_few(c, &at, &result)) return CSV_FAILED;
    rest = at; /* rule 5: only looked at */
    for (int j = 0; j < c->columns; j++) {
      c->column[j].kept = c->column[j].to;
      c->column[j].to = NULL;
    }
    if (!parse_rows(c, &at, c->rows, &result) || !check_end(c, &at)) return CSV_FAILED;
    if (!ty_csv_texts_fit(c)) return CSV_FAILED;
    result = settle(c, result);
    c->known = true;
    if (result == CSV_AGAIN) return result;
    for (int j = 0; j < c->columns; j++) c->column[j].to = c->column[j].kept;
    at = rest;
  }
  return parse_rows(c, &at, c->rows, &result) && check_end(c, &at) ? result : CSV_FAILED;
}

bool ty_csv_rows(Csv *c) {
  CsvCursor at = c->body;
  CsvField x;
  char *end = at.p; /* the next \n */
  int more;
  c->rows = 0;
  for (; ty_csv_next(c, &at); c->rows++) {
    if (!goes_on(c, c->rows)) return false;
    if (!c->quotes) { /* no line end is part of a field */
      if (end <= at.p) end = memchr(at.p, '\n', (size_t)(c->end - at.p));
      if (!end) end = c->end;
      char *r = memchr(at.p, '\r', (size_t)(end - at.p));
      at.p = line_end(c, r ? r : end);
      continue;
    }
    while ((more = ty_csv_field(c, &at, &x)) > 0) {}
    if (more < 0) return false;
  }
  if (c->columns - 1 <= (c->end - c->text) / TY_MAX(c->rows, 1)) return true;
  for (at = c->body; ty_csv_next(c, &at);) { /* rule 1: one of them is too short */
    CsvCursor begin = at;
    int n = 1;
    while ((more = ty_csv_field(c, &at, &x)) > 0) n++;
    if (more < 0 || n != c->columns) return ragged(c, begin);
  }
  return true;
}

bool ty_csv_guess(Csv *c) {
  CsvCursor at = c->body;
  CsvResult result = CSV_DONE;
  for (int j = 0; j < c->columns; j++)
    if (c->column[j].kind == CSV_AUTO) c->column[j].kind = CSV_BOOL;
  for (at.row = 0; at.row < SAMPLE && ty_csv_next(c, &at); at.row++)
    if (!parse_row(c, &at, &result)) return false;
  for (int j = 0; j < c->columns && !at.row; j++)
    if (c->column[j].kind == CSV_BOOL && !c->column[j].fixed) c->column[j].kind = c->o.floats;
  return true;
}

/* ---- the front ---------------------------------------------------------------------------------- */

/* Fields of a row with that delimiter; -1: none can be told apart. */
static int fields_with(Csv *c, char delimiter, CsvCursor *at) {
  CsvField x;
  int n = 1, more;
  char kept = c->o.delimiter;
  c->o.delimiter = delimiter;
  c->stops[(u8)delimiter] = true;
  while ((more = ty_csv_field(c, at, &x)) > 0) n++;
  c->stops[(u8)delimiter] = false;
  c->o.delimiter = kept;
  return more < 0 ? -1 : n;
}

/* The delimiter that cuts the first lines into equally many fields, more than one; the comma last,
** since it also stands in numbers. None does: the one that cuts the first line most. */
static char sniff(Csv *c) {
  static const char candidates[] = {'\t', ';', '|', ','};
  char best = ',';
  int most = 1;
  for (int i = 0; i < TY_COUNT(candidates); i++) {
    CsvCursor at = c->head;
    if (candidates[i] == c->o.comment || !ty_csv_next(c, &at)) continue;
    int n = fields_with(c, candidates[i], &at), same = n > 1;
    if (n > most) most = n, best = candidates[i];
    for (int k = 1; k < SNIFF && same && ty_csv_next(c, &at); k++)
      same = fields_with(c, candidates[i], &at) == n;
    if (same && !(candidates[i] == ',' && c->o.point == ',')) return candidates[i];
  }
  c->f->err[0] = 0;
  return best;
}

/* Whether the row at `at` holds numbers; words: nothing but true and false (and gaps). -1: f->err. */
static int look_at_row(Csv *c, CsvCursor *at, bool *words, i64 *fields) {
  CsvField x;
  Decimal d;
  double v;
  int more = 1;
  bool numbers = false, others = false, truths = false;
  for (*fields = 0; more > 0; ++*fields) {
    if ((more = ty_csv_field(c, at, &x)) < 0) return -1;
    trim(&x);
    bool truth = is_truth(&x, &v);
    truths |= truth;
    others |= !truth && !is_missing(c, &x);
    numbers |= !x.doubled && (field_number(c, &x, &d) || (x.n && is_word(&x, &v)));
  }
  *words = truths && !others;
  return numbers;
}

/* Columns from the first row; whether it is a header: none of its fields is a number, and they are
** not all true or false as those of the next row are. */
static bool look_at_header(Csv *c) {
  CsvCursor at = c->head;
  i64 fields, ignored;
  bool words;
  if (!ty_csv_next(c, &at)) return ty_file_fail(c->f, "holds no rows");
  int numbers = look_at_row(c, &at, &words, &fields);
  if (numbers < 0) return false;
  if (fields > CSV_COLUMNS) return ty_file_fail(c->f, "has more than %d columns", CSV_COLUMNS);
  c->columns = (int)fields;
  CsvCursor next = at;
  if (words && c->o.header < 0 && ty_csv_next(c, &next) &&
      look_at_row(c, &next, &words, &ignored) < 0)
    return false;
  if (c->o.header < 0) c->o.header = !numbers && !words;
  c->body = c->o.header ? at : c->head;
  return true;
}

bool ty_csv_open(Csv *c, File *f, const CsvOptions *o) {
  *c = (Csv){.f = f, .o = *o};
  if (!c->o.point) c->o.point = '.';
  if (!(c->text = ty_file_alloc(f->size + 1))) return ty_file_fail_memory(f, f->size);
  c->end = c->text + f->size;
  *c->end = 0;
  if (!read_text(c)) return false;
  c->stops[0] = c->stops['\n'] = c->stops['\r'] = true;
  bool mark = f->size >= 3 && !memcmp(c->text, "\xef\xbb\xbf", 3);
  c->head = (CsvCursor){.p = c->text + 3 * mark, .line = 1};
  for (i64 i = 0; i < c->o.skip && c->head.p < c->end; i++, c->head.line++) {
    while (c->head.p < c->end && *c->head.p != '\n' && *c->head.p != '\r') c->head.p++;
    c->head.p = line_end(c, c->head.p);
  }
  if (!c->o.delimiter) c->o.delimiter = sniff(c);
  c->stops[(u8)c->o.delimiter] = true;
  if (!look_at_header(c)) return false;
  i64 bytes = (i64)sizeof(CsvColumn) * c->columns;
  if (!(c->column = ty_file_alloc(bytes))) return ty_file_fail_memory(f, bytes);
  memset(c->column, 0, (size_t)bytes);
  return true;
}

void ty_csv_close(Csv *c) {
  ty_file_free(c->text);
  ty_file_free(c->column);
  *c = (Csv){0};
}
