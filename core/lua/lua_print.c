/*
** lua_print.c -- tostring(x): aligned values, then a footer such as [f32 4x5 cpu].
** In: a tensor; its value is computed. Out: a string. Beyond SUMMARY elements each dim shows its
** first and last three places. One format serves the whole tensor: integers and bool as they are;
** floats with as many decimals (at most `precision`) as the shown values need, or in scientific
** notation where the largest needs nine digits or the smallest more than four decimals. Fails on
** memory only.
*/
#include <math.h>
#include <stdio.h>
#include "base/system.h"
#include "lua/lua_view.h"
#include "record/vmap.h"

#define SUMMARY 1000 /* elements; larger tensors are shown in part */
#define EDGE 3       /* places shown at each end then */
#define LINE 80      /* columns */
#define CELL 48      /* bytes of the longest element */
#define PRECISION 4  /* decimals unless ty.set_print says otherwise */
#define KEY_PRECISION "tycho.precision"

typedef struct Print {
  const Tensor *x;
  const char *data; /* first element */
  int bytes;        /* of an element of the storage */
  bool summary;
  bool scientific;
  int precision; /* decimals */
  int width;     /* of every element */
  Text text;
  int column;
} Print;

/* --- which places are shown */

/* The place behind i in a dim: over the gap in the middle of a summary. */
static i64 next_place(const Print *p, i64 i, i64 size) {
  return p->summary && size > 2 * EDGE && i == EDGE - 1 ? size - EDGE : i + 1;
}

/* Calls fn for each shown element. */
static void each_shown(Print *p, int d, i64 offset, void (*fn)(Print *p, const void *elem)) {
  const Type *t = &p->x->type;
  if (d == t->rank) {
    fn(p, p->data + offset * p->bytes);
    return;
  }
  for (i64 i = 0; i < t->dims[d]; i = next_place(p, i, t->dims[d]))
    each_shown(p, d + 1, offset + i * p->x->strides[d], fn);
}

/* --- one element */

static int print_float(const Print *p, double v, char *buf) {
  if (v != v) return snprintf(buf, CELL, "nan");
  if (isinf(v)) return snprintf(buf, CELL, v < 0 ? "-inf" : "inf");
  return ty_system_format(buf, CELL, p->scientific ? "%.*e" : "%.*f", p->precision, v);
}

/* 1+2j, each part in the common format. */
static int print_complex(const Print *p, const void *elem, char *buf) {
  const int part = ty_dtype_part(p->x->type.dtype);
  char im[CELL];
  int n = print_float(p, ty_elem_load(part, elem), buf);
  int m = print_float(p, ty_elem_load(part, (const char *)elem + p->bytes), im);
  n = TY_MIN(n, CELL / 2 - 1), m = TY_MIN(m, CELL / 2 - 2);
  if (im[0] != '-') buf[n++] = '+';
  memcpy(buf + n, im, (size_t)m);
  n += m;
  buf[n++] = 'j';
  buf[n] = 0;
  return n;
}

static int print_elem(const Print *p, const void *elem, char *buf) {
  int dtype = p->x->type.dtype;
  if (ty_is_complex(dtype)) return print_complex(p, elem, buf);
  if (ty_is_float(dtype)) return print_float(p, ty_elem_load(dtype, elem), buf);
  if (dtype == T_BOOL) return snprintf(buf, CELL, *(const u8 *)elem ? "true" : "false");
  i64 v;
  if (dtype == T_I64 || dtype == T_U64) memcpy(&v, elem, 8);
  else v = (i64)ty_elem_load(dtype, elem);
  if (dtype == T_U64) return snprintf(buf, CELL, "%llu", (unsigned long long)v);
  return snprintf(buf, CELL, "%lld", (long long)v);
}

/* --- the common format */

static void measure_range(Print *p, const void *elem) {
  for (int i = 0; i < ty_dtype_width(p->x->type.dtype); i++) {
    double v = fabs(ty_elem_load(p->x->st->dtype, (const char *)elem + i * p->bytes));
    if (v > 0 && isfinite(v) && (v >= 1e8 || v < 1e-4)) p->scientific = true;
  }
}

/* Decimals that v needs: the digits of the mantissa that are not zero at the end. */
static int decimals(const Print *p, double v, int most) {
  char buf[CELL + 320];
  if (v != v || isinf(v)) return 0;
  int n = ty_system_format(buf, sizeof buf, p->scientific ? "%.*e" : "%.*f", most, v);
  const char *point = strchr(buf, '.'), *end = buf + n;
  if (!point) return 0;
  if (p->scientific) end = strchr(point, 'e');
  while (end[-1] == '0') end--;
  return (int)(end - point) - 1;
}

static void measure_decimals(Print *p, const void *elem) {
  for (int i = 0; i < ty_dtype_width(p->x->type.dtype); i++) {
    int n = decimals(p, ty_elem_load(p->x->st->dtype, (const char *)elem + i * p->bytes), p->width);
    p->precision = TY_MAX(p->precision, n);
  }
}

static void measure_width(Print *p, const void *elem) {
  char buf[CELL];
  int n = print_elem(p, elem, buf);
  p->width = TY_MAX(p->width, TY_MIN(n, CELL - 1));
}

static void choose_format(Print *p, int precision) {
  if (ty_is_float(p->x->st->dtype)) {
    each_shown(p, 0, 0, measure_range);
    p->precision = 0;
    p->width = precision; /* the most decimals, while they are measured */
    each_shown(p, 0, 0, measure_decimals);
    p->width = 0;
  }
  each_shown(p, 0, 0, measure_width);
}

/* --- the layout */

static void put(Print *p, const char *s, int n) {
  ty_text_add(&p->text, s, (size_t)n);
  p->column += n;
}

static void new_line(Print *p, int indent) {
  ty_text_add(&p->text, "\n", 1);
  p->column = 0;
  while (p->column < indent) put(p, " ", 1);
}

/* The innermost dim: elements, broken at LINE. */
static void print_row(Print *p, int depth, i64 offset, i64 size, i64 step) {
  char buf[CELL];
  for (i64 i = 0; i < size;) {
    i64 next = next_place(p, i, size);
    int n = print_elem(p, p->data + (offset + i * step) * p->bytes, buf);
    n = TY_MIN(n, CELL - 1);
    if (i > 0 && p->column + 1 + p->width + 1 > LINE) new_line(p, depth + 1);
    else if (i > 0) put(p, " ", 1);
    for (int k = n; k < p->width; k++) put(p, " ", 1);
    put(p, buf, n);
    if (next < size) put(p, ",", 1);
    if (next > i + 1) put(p, " ...,", 5);
    i = next;
  }
}

static void print_dim(Print *p, int d, i64 offset) {
  const Type *t = &p->x->type;
  i64 size = t->dims[d], step = p->x->strides[d];
  put(p, "{", 1);
  if (d == t->rank - 1) {
    print_row(p, d, offset, size, step);
  } else {
    for (i64 i = 0; i < size;) {
      i64 next = next_place(p, i, size);
      print_dim(p, d + 1, offset + i * step);
      if (next < size) {
        put(p, ",", 1);
        if (next > i + 1) {
          new_line(p, d + 1);
          put(p, "...,", 4);
        }
        for (int k = d + 2; k < t->rank; k++) ty_text_add(&p->text, "\n", 1); /* between blocks */
        new_line(p, d + 1);
      }
      i = next;
    }
  }
  put(p, "}", 1);
}

static void print_footer(Print *p) {
  const Type *t = &p->x->type;
  ty_text_printf(&p->text, "[%s", ty_dtypes[t->dtype].name);
  for (int d = 0; d < t->rank; d++)
    ty_text_printf(&p->text, d ? "x%lld" : " %lld", (long long)t->dims[d]);
  ty_text_printf(&p->text, " %s]", ty_device_names[t->device]);
}

static void print_all(Print *p, int precision) {
  const Type *t = &p->x->type;
  char buf[CELL];
  if (ty_type_numel(t) == 0) {
    ty_text_add(&p->text, "{} ", 3);
  } else if (t->rank == 0) {
    choose_format(p, precision);
    put(p, buf, TY_MIN(print_elem(p, p->data, buf), CELL - 1));
    ty_text_add(&p->text, " ", 1);
  } else {
    choose_format(p, precision);
    print_dim(p, 0, 0);
    ty_text_add(&p->text, t->rank > 1 || p->column > LINE - 20 ? "\n" : " ", 1);
  }
  print_footer(p);
}

static int l_tostring(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_test(L, 1);
  if (x && !x->st) {
    lua_pushliteral(L, "[released tensor]");
    return 1;
  }
  x = ty_lua_check(L, "tostring", 1);
  bool batched = x->st->batched != NULL;
  while (x->st->batched) { /* values of all examples, outer vmaps first */
    Tensor *all = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_vmap_lift(S, x, ty_vmap_level(x), -1, 0, all));
    x = all;
  }
  Print p = {
      .x = x, .bytes = ty_dtypes[x->st->dtype].bytes, .summary = ty_type_numel(&x->type) > SUMMARY};
  lua_getfield(L, LUA_REGISTRYINDEX, KEY_PRECISION);
  int precision = lua_isnil(L, -1) ? PRECISION : (int)lua_tonumber(L, -1);
  if (ty_type_numel(&x->type) > 0 && !(p.data = ty_tensor_bits(S, x))) return ty_lua_fail(L, S);
  print_all(&p, precision);
  if (batched) ty_text_add(&p.text, " of all examples", 16);
  if (p.text.failed) {
    ty_text_free(&p.text);
    return ty_lua_error(L, "tostring: out of memory");
  }
  lua_pushlstring(L, ty_text_str(&p.text), p.text.n);
  ty_text_free(&p.text);
  return 1;
}

/* set_print{precision = n}: the most decimals that tensors are shown with. */
static int l_set_print(lua_State *L) {
  if (lua_type(L, 1) != LUA_TTABLE)
    return ty_lua_error(L, "set_print: argument 1 must be a table {precision = n}, got %s",
                        ty_lua_show(L, 1));
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1))
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "precision"))
      return ty_lua_error(L, "set_print: unknown option %s; known: precision",
                          ty_lua_show(L, lua_gettop(L) - 1));
  lua_settop(L, 1);
  lua_getfield(L, 1, "precision");
  double n = lua_isnil(L, -1) ? PRECISION : ty_lua_number(L, "set_print", 2, "precision");
  if (!(n >= 0 && n <= 17 && floor(n) == n))
    return ty_lua_error(L, "set_print: precision must be a whole number in 0..17, got %.17g", n);
  lua_pushnumber(L, n);
  lua_setfield(L, LUA_REGISTRYINDEX, KEY_PRECISION);
  return 0;
}

void ty_lua_open_print(lua_State *L, int m, int t) {
  static const LuaFunction rows[] = {{"set_print", l_set_print, 'm', "{precision = 4}",
                                      "how many decimals tensors are shown with at most"},
                                     {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg meta[] = {{"__tostring", l_tostring}, {NULL, NULL}};
  ty_lua_define(L, m, t, rows);
  lua_pushvalue(L, lua_upvalueindex(2)); /* the tensors' metatable */
  ty_lua_register(L, meta);
  lua_pop(L, 1);
}
