/*
** file_csv_lua.c -- tables in text to tensors and lists, and back.
** In: a path or a text, options; columns of tensors and strings. Out: matrices by dtype, lists of
** strings, codes of categories. Trouble with the file: nil and a message. Misuse raises.
** Numbers of one dtype lie in one matrix, row by row, so that the parser writes where it has just
** written; columns are views of it.
*/
#include "file/file_lua.h"
#include "file/file_csv.h"
#include "file/file_number.h"

#include <math.h>
#include <stdio.h>

#define CSV "tycho.csv"

enum { LINE_ROOM = 1 << 16 };

typedef struct Table {
  File file;
  Csv csv;
} Table;

static int table_drop(lua_State *L) {
  Table *t = lua_touserdata(L, 1);
  ty_csv_close(&t->csv);
  ty_file_close(&t->file);
  return 0;
}

static int table_fail(lua_State *L, Table *t) {
  lua_pushnil(L);
  lua_pushstring(L, t->file.err);
  ty_csv_close(&t->csv);
  ty_file_close(&t->file);
  return 2;
}

/* ---- reading ------------------------------------------------------------------------------------ */

static char option_char(lua_State *L, int i, const char *name) {
  lua_getfield(L, i, name);
  const char *s = lua_tostring(L, -1);
  char c = s ? *s : 0;
  lua_pop(L, 1);
  return c;
}

static double option_number(lua_State *L, int i, const char *name, double otherwise) {
  lua_getfield(L, i, name);
  double v = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : otherwise;
  lua_pop(L, 1);
  return v;
}

/* csv_open(path, text, options) -> table: path names the text where that is given. options:
** {delimiter, decimal, comment, header = -1 0 1, skip, missing = "NA\0...", strict, fill, wide, plain} */
static int l_csv_open(lua_State *L) {
  ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_getfield(L, 3, "strict");
  lua_getfield(L, 3, "wide");
  lua_getfield(L, 3, "plain");
  lua_getfield(L, 3, "missing"); /* stays on the stack as long as it is used */
  CsvOptions o = {.delimiter = option_char(L, 3, "delimiter"),
                  .point = option_char(L, 3, "decimal"),
                  .comment = option_char(L, 3, "comment"),
                  .header = (i8)option_number(L, 3, "header", -1),
                  .skip = (i64)option_number(L, 3, "skip", 0),
                  .missing = lua_tostring(L, 7),
                  .strict = lua_toboolean(L, 4),
                  .fill = option_number(L, 3, "fill", (double)NAN),
                  .floats = lua_toboolean(L, 5) ? CSV_F64 : CSV_F32,
                  .plain = lua_toboolean(L, 6)};
  Table *t = ty_file_push_owner(L, sizeof *t, CSV, table_drop);
  t->file.fd = -1;
  lua_createtable(L, 1, 0); /* the spellings live as long as the table */
  lua_pushvalue(L, 7);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, 8);
  size_t n = 0;
  const char *text = lua_isnil(L, 2) ? NULL : luaL_checklstring(L, 2, &n);
  bool ok =
      text ? ty_file_memory(&t->file, path, text, (i64)n) : ty_file_open(&t->file, path, false);
  if (!ok || !ty_csv_open(&t->csv, &t->file, &o)) return table_fail(L, t);
  return 1;
}

static Table *check_table(lua_State *L) {
  Table *t = ty_file_check_owner(L, 1, CSV);
  if (!t->csv.text) luaL_error(L, "csv: it was closed");
  return t;
}

/* Pushes what stands in a field; the text stays as it is. */
static void push_field(lua_State *L, const CsvField *x) {
  if (!x->doubled) {
    lua_pushlstring(L, x->p, (size_t)x->n);
    return;
  }
  char *text = lua_newuserdata(L, (size_t)x->n);
  size_t n = 0;
  for (i64 k = 0; k < x->n; k++) {
    text[n++] = x->p[k];
    k += x->p[k] == '"';
  }
  lua_pushlstring(L, text, n);
  lua_remove(L, -2);
}

/* csv_names(table) -> count, names; names is nil without a header. */
static int l_csv_names(lua_State *L) {
  Csv *c = &check_table(L)->csv;
  CsvCursor at = c->head;
  CsvField x;
  lua_pushnumber(L, c->columns);
  if (c->o.header != 1) return 1;
  lua_createtable(L, c->columns, 0);
  ty_csv_next(c, &at);
  for (int i = 1; i <= c->columns; i++) {
    ty_csv_field(c, &at, &x);
    push_field(L, &x);
    if (!x.quoted) { /* spaces around a name do not count without quotes */
      size_t n;
      const char *s = lua_tolstring(L, -1, &n), *e = s + n;
      while (s < e && (*s == ' ' || *s == '\t')) s++;
      while (s < e && (e[-1] == ' ' || e[-1] == '\t')) e--;
      lua_pushlstring(L, s, (size_t)(e - s));
      lua_remove(L, -2);
    }
    lua_rawseti(L, -2, i);
  }
  return 2;
}

static const char *const kind_names[] = {"auto", "bool", "i64", "f32", "f64", "text", "skip", NULL};
static const u8 kind_dtypes[] = {
    [CSV_BOOL] = T_BOOL, [CSV_I64] = T_I64, [CSV_F32] = T_F32, [CSV_F64] = T_F64};

/* One matrix for each dtype: pushes {bool =, i64 =, f32 =, f64 =} and tells columns where they
** are. False: no memory, nothing pushed. */
static bool push_matrices(lua_State *L, const Seam *seam, Csv *c) {
  int top = lua_gettop(L);
  lua_newtable(L);
  for (int kind = CSV_BOOL; kind <= CSV_F64; kind++) {
    Type t = {.dtype = kind_dtypes[kind], .rank = 2, .dims = {c->rows, 0}};
    for (int j = 0; j < c->columns; j++) t.dims[1] += c->column[j].kind == kind;
    if (!t.dims[1]) continue;
    char *to = seam->make(L, &t);
    if (!to) {
      lua_settop(L, top);
      ty_file_fail_memory(c->f, c->rows * t.dims[1] * 8);
      return false;
    }
    i64 bytes = kind == CSV_BOOL ? 1 : kind == CSV_F32 ? 4 : 8;
    for (int j = 0; j < c->columns; j++) {
      if (c->column[j].kind != kind) continue;
      c->column[j].to = to;
      c->column[j].stride = t.dims[1] * bytes;
      to += bytes;
    }
    lua_setfield(L, -2, kind_names[kind]);
  }
  return true;
}

/* Gives the memory of the matrices in the table at index i back at once: they are of no use. */
static void release_matrices(lua_State *L, int i) {
  for (int kind = CSV_BOOL; kind <= CSV_F64; kind++) {
    lua_getfield(L, i, kind_names[kind]);
    if (lua_isuserdata(L, -1)) {
      lua_getfield(L, -1, "release");
      lua_pushvalue(L, -2);
      lua_call(L, 1, 0);
    }
    lua_pop(L, 1);
  }
}

/* The code of the string on top of the stack, which is popped, in column j; 0: it is none of a closed
** list. texts[j] = {names = list, index = {name = code}, closed =} at index `texts`. */
static i64 category_code(lua_State *L, int texts, int j) {
  i64 code = 0;
  lua_rawgeti(L, texts, j + 1);
  lua_getfield(L, -1, "index");
  lua_pushvalue(L, -3);
  lua_rawget(L, -2);
  if (!lua_isnil(L, -1)) {
    code = (i64)lua_tonumber(L, -1);
  } else {
    lua_getfield(L, -3, "closed");
    if (!lua_toboolean(L, -1)) {
      lua_getfield(L, -4, "names"); /* string entry index nil closed names */
      code = (i64)lua_objlen(L, -1) + 1;
      lua_pushvalue(L, -6);
      lua_rawseti(L, -2, (int)code);
      lua_pop(L, 1);
      lua_pushvalue(L, -5);
      lua_pushnumber(L, (lua_Number)code);
      lua_rawset(L, -5);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 4);
  return code;
}

/* Fills the lists and codes of text columns: texts[j] is a list, or a category's table. */
static bool read_texts(lua_State *L, Csv *c, int texts) {
  CsvCursor at = c->body;
  for (at.row = 0; ty_csv_next(c, &at); at.row++)
    for (int j = 0; j < c->columns; j++) {
      CsvField x;
      i64 line = at.line, code;
      ty_csv_field(c, &at, &x);
      CsvColumn *k = &c->column[j];
      if (k->kind != CSV_TEXT) continue;
      ty_csv_unquote(&x); /* the last pass over the text */
      lua_pushlstring(L, x.p, (size_t)x.n);
      if (k->to) {
        if (!(code = category_code(L, texts, j)))
          return ty_csv_fail(c, line, j, &x, "is none of the classes");
        memcpy(k->to + at.row * 8, &code, 8);
      } else {
        lua_rawgeti(L, texts, j + 1);
        lua_insert(L, -2);
        lua_rawseti(L, -2, (int)at.row + 1);
        lua_pop(L, 1);
      }
    }
  return true;
}

/* What texts[j] is at the beginning; classes[j]: nil: a list; true: a category; a list: its names. */
static bool push_texts(lua_State *L, const Seam *seam, Csv *c, int classes) {
  lua_newtable(L);
  int texts = lua_gettop(L);
  for (int j = 0; j < c->columns; j++) {
    if (c->column[j].kind != CSV_TEXT) continue;
    c->column[j].to = NULL;
    lua_rawgeti(L, classes, j + 1);
    if (!lua_toboolean(L, -1)) {
      lua_createtable(L, (int)TY_MIN(c->rows, 1 << 20), 0);
      lua_rawseti(L, texts, j + 1);
      lua_pop(L, 1);
      continue;
    }
    lua_newtable(L);
    lua_newtable(L); /* classes[j], entry, index */
    bool closed = lua_istable(L, -3);
    for (int i = 1; closed && i <= (int)lua_objlen(L, -3); i++) {
      lua_rawgeti(L, -3, i);
      lua_pushnumber(L, i);
      lua_rawset(L, -3);
    }
    lua_setfield(L, -2, "index");
    if (closed) lua_pushvalue(L, -2);
    else lua_newtable(L);
    lua_setfield(L, -2, "names");
    lua_pushboolean(L, closed);
    lua_setfield(L, -2, "closed");
    Type t = {.dtype = T_I64, .rank = 1, .dims = {c->rows}};
    if (!(c->column[j].to = seam->make(L, &t))) return ty_file_fail_memory(c->f, c->rows * 8);
    lua_setfield(L, -2, "codes");
    lua_rawseti(L, texts, j + 1);
    lua_pop(L, 1);
  }
  return read_texts(L, c, texts);
}

/* Whether all fields of columns with closed lists stand in them: before anything is stored. */
static bool check_classes(lua_State *L, Csv *c, int classes) {
  CsvCursor at = c->body;
  CsvField x;
  bool closed = false, ok = true;
  int top = lua_gettop(L), sets = top + 1;
  lua_newtable(L);
  for (int j = 1; j <= c->columns; j++) {
    lua_rawgeti(L, classes, j);
    if (lua_istable(L, -1)) {
      closed = true;
      lua_newtable(L);
      for (int i = 1; i <= (int)lua_objlen(L, -2); i++) {
        lua_rawgeti(L, -2, i);
        lua_pushboolean(L, true);
        lua_rawset(L, -3);
      }
      lua_rawseti(L, sets, j);
    }
    lua_pop(L, 1);
  }
  for (; closed && ok && ty_csv_next(c, &at); lua_settop(L, sets)) {
    for (int j = 0, more = 1; ok && more > 0 && j < c->columns; j++, lua_settop(L, sets)) {
      i64 line = at.line;
      more = ty_csv_field(c, &at, &x);
      lua_rawgeti(L, sets, j + 1);
      if (more < 0 || lua_isnil(L, -1)) continue;
      push_field(L, &x);
      lua_rawget(L, -2);
      ok = !lua_isnil(L, -1) || ty_csv_fail(c, line, j, &x, "is none of the classes");
    }
  }
  lua_settop(L, top);
  return ok;
}

/* csv_load(table, kinds, classes) -> rows, kinds, matrices, texts. kinds[j]: "auto" or what must be;
** in the answer what is. */
static int l_csv_load(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  Table *t = check_table(L);
  Csv *c = &t->csv;
  lua_settop(L, 3);
  for (int j = 0; j < c->columns; j++) {
    lua_rawgeti(L, 2, j + 1);
    c->column[j].kind = (u8)luaL_checkoption(L, -1, NULL, kind_names);
    c->column[j].fixed = c->column[j].kind != CSV_AUTO;
    lua_pop(L, 1);
  }
  CsvResult result = CSV_AGAIN;
  if (!ty_csv_rows(c) || !ty_csv_guess(c) || !check_classes(L, c, 3)) return table_fail(L, t);
  while (result == CSV_AGAIN) {
    if (lua_istable(L, 4)) release_matrices(L, 4);
    lua_settop(L, 3);
    if (!ty_csv_texts_fit(c) || !push_matrices(L, seam, c)) return table_fail(L, t);
    result = ty_csv_parse(c);
  }
  if (result == CSV_FAILED) {
    release_matrices(L, 4);
    return table_fail(L, t);
  }
  lua_pushnumber(L, (lua_Number)c->rows);
  lua_createtable(L, c->columns, 0);
  bool texts = false;
  for (int j = 0; j < c->columns; j++) {
    texts |= c->column[j].kind == CSV_TEXT;
    lua_pushstring(L, kind_names[c->column[j].kind]);
    lua_rawseti(L, -2, j + 1);
  }
  lua_pushvalue(L, 4);
  if (texts && !push_texts(L, seam, c, 3)) return table_fail(L, t);
  if (!texts) lua_newtable(L);
  ty_csv_close(c);
  ty_file_close(&t->file);
  return 4;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* What is written, column by column; a matrix stands for as many columns as it has. */
typedef struct Part {
  const char *data; /* NULL: a list of strings */
  int dtype, columns, index;
} Part;

typedef struct Writer {
  Draft draft;
  char *line; /* owned: what is to be written next */
  i64 n, room;
  Part *part; /* owned */
  char delimiter;
  const char *missing;
} Writer;

static int writer_drop(lua_State *L) {
  Writer *w = lua_touserdata(L, 1);
  ty_draft_drop(&w->draft);
  ty_file_free(w->line);
  ty_file_free(w->part);
  w->line = NULL, w->part = NULL;
  return 0;
}

static bool writer_flush(Writer *w, i64 more) {
  if (w->n + more <= w->room) return true;
  if (!ty_draft_write(&w->draft, w->line, w->n)) return false;
  w->n = 0;
  return true;
}

static bool put(Writer *w, const char *s, i64 n) {
  if (!writer_flush(w, n)) return false;
  if (n > w->room) return ty_draft_write(&w->draft, s, n);
  memcpy(w->line + w->n, s, (size_t)n);
  w->n += n;
  return true;
}

/* Quotes where they are needed; `lone`: an empty field alone in its row would make an empty line. */
static bool put_text(Writer *w, const char *s, i64 n, bool lone) {
  bool quote = (lone && !n) || (n && (s[0] == ' ' || s[n - 1] == ' ' || s[0] == '\t'));
  for (i64 i = 0; i < n && !quote; i++)
    quote = s[i] == w->delimiter || s[i] == '"' || s[i] == '\n' || s[i] == '\r';
  if (!quote) return put(w, s, n);
  if (!put(w, "\"", 1)) return false;
  for (const char *q, *end = s + n; (q = memchr(s, '"', (size_t)(end - s)));
       n = end - q - 1, s = q + 1)
    if (!put(w, s, q - s) || !put(w, "\"\"", 2)) return false;
  return put(w, s, n) && put(w, "\"", 1);
}

static bool put_number(Writer *w, const Part *p, i64 i) {
  char text[40];
  int n = 0;
  switch (p->dtype) {
  case T_BOOL: return p->data[i] ? put(w, "true", 4) : put(w, "false", 5);
#define INTEGER(T, type) \
  case T: n = snprintf(text, sizeof text, "%lld", (long long)((const type *)p->data)[i]); break;
    INTEGER(T_U8, u8)
    INTEGER(T_I8, i8)
    INTEGER(T_I16, i16)
    INTEGER(T_I32, i32)
    INTEGER(T_I64, i64)
#undef INTEGER
  default: {
    double v =
        p->dtype == T_F32 ? (double)((const float *)p->data)[i] : ((const double *)p->data)[i];
    if (v != v) return put(w, w->missing, (i64)strlen(w->missing));
    n = ty_number_print(text, v, p->dtype == T_F32);
  }
  }
  return put(w, text, n);
}

static bool put_row(lua_State *L, Writer *w, int parts, i64 row) {
  bool lone = parts == 1 && w->part[0].columns == 1;
  for (int i = 0; i < parts; i++) {
    const Part *p = &w->part[i];
    for (int j = 0; j < p->columns; j++) {
      bool ok = i + j == 0 || put(w, &w->delimiter, 1);
      if (p->data) {
        ok = ok && put_number(w, p, row * p->columns + j);
      } else {
        size_t n;
        lua_rawgeti(L, p->index, (int)row + 1);
        const char *s = lua_tolstring(L, -1, &n);
        ok = ok && put_text(w, s ? s : "", s ? (i64)n : 0, lone);
        lua_pop(L, 1);
      }
      if (!ok) return false;
    }
  }
  return put(w, "\n", 1);
}

/* csv_save(path, rows, parts, header, delimiter, missing, durable) -> true: parts are matrices of
** bool, integers, f32 or f64 with that many rows, and lists of strings; header a list of names. */
static int l_csv_save(lua_State *L) {
  const Seam *seam = ty_file_enter(L);
  const char *path = luaL_checkstring(L, 1);
  i64 rows = (i64)luaL_checknumber(L, 2);
  luaL_checktype(L, 3, LUA_TTABLE);
  int parts = (int)lua_objlen(L, 3), names = lua_istable(L, 4) ? (int)lua_objlen(L, 4) : 0;
  const char *delimiter = luaL_checkstring(L, 5), *missing = luaL_checkstring(L, 6);
  bool durable = lua_toboolean(L, 7);
  lua_settop(L, 7);
  luaL_checkstack(L, parts + 8, "too many columns");
  Writer *w = ty_file_push_owner(L, sizeof *w, "tycho.csv.writer", writer_drop);
  w->draft.fd = -1;
  w->delimiter = *delimiter;
  w->missing = missing;
  w->room = LINE_ROOM;
  if (!(w->line = ty_file_alloc(w->room)) ||
      !(w->part = ty_file_alloc((i64)sizeof *w->part * TY_MAX(parts, 1))))
    return ty_file_answer(L, "out of memory");
  for (int i = 0; i < parts; i++) {
    lua_rawgeti(L, 3, i + 1);
    w->part[i] = (Part){.columns = 1, .index = lua_gettop(L)};
    if (!seam->is_tensor(L, w->part[i].index)) continue;
    Type t;
    const void *p = seam->read(L, "csv.save", w->part[i].index, &t);
    w->part[i] = (Part){p, t.dtype, (int)t.dims[1], w->part[i].index};
  }
  bool ok = ty_draft_open(&w->draft, path);
  for (int i = 1; ok && i <= names; i++) {
    size_t n;
    lua_rawgeti(L, 4, i);
    const char *s = lua_tolstring(L, -1, &n);
    ok =
        (i == 1 || put(w, &w->delimiter, 1)) && put_text(w, s ? s : "", s ? (i64)n : 0, names == 1);
    lua_pop(L, 1);
  }
  ok = ok && (!names || put(w, "\n", 1));
  for (i64 row = 0; ok && row < rows; row++) ok = put_row(L, w, parts, row);
  ok = ok && ty_draft_write(&w->draft, w->line, w->n) && ty_draft_close(&w->draft, durable);
  ty_draft_drop(&w->draft);
  if (!ok) return ty_file_answer(L, w->draft.err);
  lua_pushboolean(L, true);
  return 1;
}

const luaL_Reg ty_file_csv[] = {{"csv_open", l_csv_open},
                                {"csv_names", l_csv_names},
                                {"csv_load", l_csv_load},
                                {"csv_save", l_csv_save},
                                {NULL, NULL}};
