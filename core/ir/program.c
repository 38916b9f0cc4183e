/*
** program.c -- loop programs as data: build, verify, print, parse.
** In:  the words of build.h, or text.  Out: bodies in SSA form; programs; text that parses back.
** Building fails when the body is full (the flag `failed`); parsing when memory runs out or the
** text is wrong; verifying and printing cannot fail.
*/
#include "base/system.h"
#include "ir/build.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* What verify, print and parse must know of a primitive. `sort` says how its types hang together;
** `on` the compute types it takes, as letters: f floats, i integers. */
typedef enum { LEAF, SAME, COMPARE, OTHER, REDUCE, SCAN } Sort;
typedef struct PrimInfo {
  u8 arity, sort;
  bool f, i;
} PrimInfo;

/* clang-format off */
static const PrimInfo prims[P_COUNT] = {
  [P_CONST]   = {0, LEAF, 1, 1},    [P_SCALAR]  = {0, LEAF, 1, 1},    [P_IOTA]   = {0, LEAF, 0, 1},
  [P_LOAD]    = {0, LEAF, 1, 1},    [P_GLOAD]   = {1, OTHER, 1, 1},   [P_STORE]  = {1, SAME, 1, 1},
  [P_ADD]     = {2, SAME, 1, 1},    [P_SUB]     = {2, SAME, 1, 1},    [P_MUL]    = {2, SAME, 1, 1},
  [P_DIV]     = {2, SAME, 1, 0},    [P_FMA]     = {3, SAME, 1, 0},    [P_SQRT]   = {1, SAME, 1, 0},
  [P_MIN]     = {2, SAME, 1, 1},    [P_MAX]     = {2, SAME, 1, 1},    [P_NEG]    = {1, SAME, 1, 1},
  [P_ABS]     = {1, SAME, 1, 1},    [P_FLOOR]   = {1, SAME, 1, 0},    [P_CEIL]   = {1, SAME, 1, 0},
  [P_TRUNC]   = {1, SAME, 1, 0},    [P_RINT]    = {1, SAME, 1, 0},    [P_DIVI]   = {2, SAME, 0, 1},
  [P_REMI]    = {2, SAME, 0, 1},    [P_AND]     = {2, SAME, 0, 1},    [P_OR]     = {2, SAME, 0, 1},
  [P_XOR]     = {2, SAME, 0, 1},    [P_SHL]     = {2, SAME, 0, 1},    [P_SHR]    = {2, SAME, 0, 1},
  [P_SHRU]    = {2, SAME, 0, 1},    [P_MULHI]   = {2, SAME, 0, 1},    [P_EQ]     = {2, COMPARE, 1, 1},
  [P_LT]      = {2, COMPARE, 1, 1}, [P_LE]      = {2, COMPARE, 1, 1}, [P_SEL]    = {3, OTHER, 1, 1},
  [P_CVT]     = {1, OTHER, 1, 1},   [P_BITS]    = {1, OTHER, 1, 1},   [P_LUT]    = {1, OTHER, 1, 1},
  [P_NARROW]  = {1, SAME, 1, 1},    [P_PHILOX]  = {3, OTHER, 0, 1},   [P_RSUM]   = {1, REDUCE, 1, 1},
  [P_RPROD]   = {1, REDUCE, 1, 1},  [P_RMAX]    = {1, REDUCE, 1, 1},  [P_RMIN]   = {1, REDUCE, 1, 1},
  [P_RARGMAX] = {1, REDUCE, 0, 1},  [P_RARGMIN] = {1, REDUCE, 0, 1},  [P_SSUM]   = {1, SCAN, 1, 1},
  [P_SPROD]   = {1, SCAN, 1, 1},    [P_SMAX]    = {1, SCAN, 1, 1},    [P_SMIN]   = {1, SCAN, 1, 1},
  [P_SMAXX]   = {1, SCAN, 1, 1},    [P_SLIN]    = {2, SCAN, 1, 0},
};
/* clang-format on */

const char *const ty_prims[P_COUNT] = {
#define _(NAME) [P_##NAME] = #NAME,
    TY_PRIMS(_)
#undef _
};

static const char *const ctypes[] = {"i32", "i64", "f32", "f64"};
static const char *const kinds[] = {"map", "row", "col"};

static bool is_f(int ctype) { return ctype >= C_F32; }
static bool is_8(int ctype) { return ctype == C_I64 || ctype == C_F64; }
static bool has_operand(int op) {
  return op == P_LOAD || op == P_GLOAD || op == P_STORE || op == P_IOTA;
}
/* Values without a place in the domain: any level may read them. */
static bool is_uniform(const Instr *in) { return in->op == P_CONST || in->op == P_SCALAR; }

/* ---- building ------------------------------------------------------------------------------- */

static Val append(Build *B, const Instr *in) {
  if (B->failed) return 0;
  /* An equal instruction stands behind its operands: that is all there is to search. */
  i32 low = TY_MAX(TY_MAX(in->a, in->b), in->c) + 1;
  if (in->op != P_STORE)
    for (i32 i = B->n - 1; i >= low; i--)
      if (!memcmp(&B->body[i], in, sizeof *in)) return i;
  if (B->n == MAX_BODY) {
    B->failed = true;
    return 0;
  }
  B->body[B->n] = *in;
  return B->n++;
}

Val ty_emit(Build *B, int prim, int type, Val a, Val b, Val c, u64 imm) {
  if (B->failed) return 0;
  int from = VT(a);
  bool rounds = prim == P_FLOOR || prim == P_CEIL || prim == P_TRUNC || prim == P_RINT;
  if (rounds && !is_f(type)) return a;
  if ((prim == P_CVT || prim == P_BITS) && type == from) return a;
  Instr in = {.op = (u8)prim, .type = (u8)type, .level = L_ROW, .imm = imm};
  in.a = (i16)a, in.b = (i16)b, in.c = (i16)c;
  int sort = prims[prim].sort;
  if (sort == COMPARE || sort == REDUCE || prim == P_CVT || prim == P_BITS) in.from = (u8)from;
  if (sort == SCAN) in.level = L_ELEM;
  for (int k = 0; k < 3 && sort != REDUCE; k++) {
    Val v = k == 0 ? a : k == 1 ? b : c;
    if (v >= 0 && B->body[v].level == L_ELEM) in.level = L_ELEM;
  }
  return append(B, &in);
}

Val ty_emit_leaf(Build *B, int prim, int type, int level, Val a, u64 imm) {
  Instr in = {.op = (u8)prim, .type = (u8)type, .level = (u8)level, .imm = imm};
  in.a = (i16)a, in.b = in.c = -1;
  return append(B, &in);
}

Val ty_emit_bits(Build *B, int ctype, u64 bits) {
  return ty_emit_leaf(B, P_CONST, ctype, L_ROW, -1, bits);
}

Val ty_emit_const(Build *B, int ctype, double v) {
  u64 bits = 0;
  float f = (float)v;
  /* Beyond i64 saturate, NaN gives 0; i32 keeps the low bits so that masks may be written unsigned.
   */
  i64 whole = v >= 0x1p63 ? INT64_MAX : v < -0x1p63 ? INT64_MIN : v == v ? (i64)v : 0;
  switch (ctype) {
  case C_I32: bits = (u32)whole; break;
  case C_I64: bits = (u64)whole; break;
  case C_F32: memcpy(&bits, &f, 4); break;
  default: memcpy(&bits, &v, 8); break;
  }
  return ty_emit_bits(B, ctype, bits);
}

/* ---- verifying ------------------------------------------------------------------------------ */

size_t ty_program_bytes(const Program *p) { return sizeof *p + (size_t)p->nbody * sizeof(Instr); }

static const char *check_types(const Program *p, const Instr *in) {
  const PrimInfo *P = &prims[in->op];
  int ta = P->arity ? p->body[in->a].type : 0;
  if (in->type > C_F64 || in->from > C_F64) return "no such compute type";
  bool argument = in->op == P_RARGMAX || in->op == P_RARGMIN;
  int worked_on = P->sort == COMPARE ? in->from : in->type;
  if (!argument && !(is_f(worked_on) ? P->f : P->i)) return "primitive does not take this type";
  switch (P->sort) {
  case LEAF: break;
  case SAME:
  case SCAN:
    if (ta != in->type) return "operand of another type";
    if (P->arity > 1 && p->body[in->b].type != in->type) return "operand of another type";
    if (P->arity > 2 && p->body[in->c].type != in->type) return "operand of another type";
    break;
  case COMPARE:
    if (in->type != C_I32) return "a comparison gives i32";
    if (ta != in->from || p->body[in->b].type != in->from) return "operand of another type";
    break;
  case REDUCE:
    if (in->type != (argument ? C_I64 : ta)) return "reduction of another type";
    break;
  case OTHER: break;
  }
  switch (in->op) {
  case P_IOTA: return in->type == C_I64 ? NULL : "iota gives i64";
  case P_GLOAD: return ta == C_I64 ? NULL : "an index is i64";
  case P_MULHI: return in->type == C_I64 ? NULL : "mulhi is for i64";
  case P_SEL:
    if (ta != C_I32) return "a condition is i32";
    if (p->body[in->b].type != in->type || p->body[in->c].type != in->type)
      return "operand of another type";
    return NULL;
  case P_CVT: return in->from == ta ? NULL : "cvt from another type";
  case P_BITS:
    if (in->from != ta) return "bits from another type";
    if (in->imm > 1) return "bits are those of a number, or raw";
    return is_8(ta) == is_8(in->type) ? NULL : "bits of another width";
  case P_LUT:
    if (ta != C_I32) return "a table index is i32";
    if (in->imm >= (u64)ty_nluts) return "no such table";
    return ty_luts[in->imm].ctype == in->type ? NULL : "table of another type";
  case P_NARROW:
    if (in->imm >= T_COUNT) return "no such dtype";
    return ty_dtypes[in->imm].ctype == in->type ? NULL : "narrow to a dtype computed otherwise";
  case P_PHILOX:
    if (ta != C_I64 || p->body[in->b].type != C_I64 || p->body[in->c].type != C_I64)
      return "philox takes i64";
    return in->type == C_I32 && in->imm < 4 ? NULL : "philox gives words 0 to 3 of i32";
  default: return NULL;
  }
}

static const char *check_operand(const Program *p, const Instr *in) {
  if (in->imm >= p->noperands) return "no such operand";
  const Operand *o = &p->operand[in->imm];
  if (p->kind != K_MAP && in->level != o->level) return "operand of another level";
  if (in->op == P_IOTA) return NULL;
  if (o->dtype >= T_COUNT) return "no such dtype";
  if (ty_dtypes[o->dtype].ctype != in->type) return "operand computed in another type";
  if ((in->op == P_STORE) != (o->write != 0)) return "operand read and written";
  return NULL;
}

/* Levels: rows hold what every element of the row sees, so a row value never reads an element;
** `tainted` are the elements of a COL program that depend on a reduction, which it may not have. */
static const char *check_level(const Program *p, int i, bool *tainted) {
  const Instr *in = &p->body[i];
  int sort = prims[in->op].sort;
  if (in->level > L_ROW) return "no such level";
  if (p->kind == K_MAP) return sort == REDUCE || sort == SCAN ? "a map has no rows" : NULL;
  if (sort == REDUCE && in->level != L_ROW) return "a reduction gives a row value";
  if (sort == SCAN && (in->level != L_ELEM || p->kind != K_ROW)) return "a scan runs along a row";
  tainted[i] = sort == REDUCE;
  const i16 ops[3] = {in->a, in->b, in->c};
  for (int k = 0; k < prims[in->op].arity; k++) {
    const Instr *a = &p->body[ops[k]];
    bool elem = a->level == L_ELEM && !is_uniform(a);
    if (in->level == L_ROW && elem && sort != REDUCE) return "a row value reads an element";
    if (p->kind == K_COL && tainted[ops[k]]) {
      if (in->level == L_ELEM || sort == REDUCE) return "an element reads a column's reduction";
      tainted[i] = true;
    }
  }
  return NULL;
}

const char *ty_program_verify(const Program *p) {
  bool tainted[MAX_BODY] = {false}, reduces = false, scans = false;
  if (p->kind > K_COL) return "no such kind";
  if (p->noperands > MAX_OPERANDS || p->nbody > MAX_BODY) return "program too long";
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (in->op >= P_COUNT) return "no such primitive";
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++) {
      bool want = k < prims[in->op].arity;
      if (want ? ops[k] < 0 || ops[k] >= i : ops[k] != -1) return "operand out of place";
      if (want && p->body[ops[k]].op == P_STORE) return "a store has no value";
    }
    const char *err = check_types(p, in);
    if (!err && has_operand(in->op)) err = check_operand(p, in);
    if (!err) err = check_level(p, i, tainted);
    if (err) return err;
    reduces |= prims[in->op].sort == REDUCE, scans |= prims[in->op].sort == SCAN;
  }
  return reduces && scans ? "scans and reductions in one program" : NULL;
}

/* ---- text ----------------------------------------------------------------------------------- */

/*
** row fast
** @0 f32 elem
** @1 f32 elem write
** %0 load f32 elem @0
** %1 rmax f32 row from f32 %0
** %2 const f32 row #3f800000      ; 1
*/
typedef struct Out {
  char *p;
  size_t n, at;
} Out;

__attribute__((format(printf, 2, 3))) static void put(Out *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  size_t room = o->at < o->n ? o->n - o->at : 0;
  int k = ty_system_vformat(room ? o->p + o->at : NULL, room, fmt, ap);
  va_end(ap);
  if (k > 0) o->at += (size_t)k;
}

static void put_lower(Out *o, const char *s) {
  for (; *s; s++) put(o, "%c", *s >= 'A' && *s <= 'Z' ? *s + 32 : *s);
}

static void put_const(Out *o, const Instr *in) {
  float f;
  double d;
  memcpy(&f, &in->imm, 4), memcpy(&d, &in->imm, 8);
  switch (in->type) {
  case C_I32: put(o, " ; %" PRId32, (i32)in->imm); break;
  case C_I64: put(o, " ; %" PRId64, (i64)in->imm); break;
  case C_F32: put(o, " ; %.9g", (double)f); break;
  default: put(o, " ; %.17g", d); break;
  }
}

static void put_instr(Out *o, int i, const Instr *in) {
  put(o, "%%%d ", i);
  put_lower(o, ty_prims[in->op]);
  put(o, " %s %s", ctypes[in->type & 3], in->level ? "row" : "elem");
  if (in->from) put(o, " from %s", ctypes[in->from & 3]);
  const i16 ops[3] = {in->a, in->b, in->c};
  for (int k = 0; k < 3; k++)
    if (ops[k] >= 0) put(o, " %%%d", ops[k]);
  if (has_operand(in->op)) put(o, " @%" PRIu64, in->imm);
  else if (in->imm || in->op == P_CONST || in->op == P_SCALAR) put(o, " #%" PRIx64, in->imm);
  if (in->op == P_CONST) put_const(o, in);
  put(o, "\n");
}

size_t ty_program_print(const Program *p, char *buf, size_t n) {
  Out o = {buf, n, 0};
  put(&o, "%s%s\n", kinds[p->kind], p->fast ? " fast" : "");
  for (int i = 0; i < p->noperands; i++) {
    const Operand *a = &p->operand[i];
    put(&o, "@%d %s %s%s\n", i, ty_dtypes[a->dtype].name, a->level ? "row" : "elem",
        a->write ? " write" : "");
  }
  for (int i = 0; i < p->nbody; i++) put_instr(&o, i, &p->body[i]);
  return o.at;
}

/* One line, cut into words at blanks, up to a `;`. */
typedef struct Line {
  char text[256], *word[12];
  int n;
} Line;

static const char *next_line(const char *s, Line *L) {
  size_t k = 0;
  while (*s && *s != '\n') {
    if (k < sizeof L->text - 1) L->text[k++] = *s;
    s++;
  }
  L->text[k] = 0, L->n = 0;
  char *c = strchr(L->text, ';');
  if (c) *c = 0;
  char *save = NULL;
  for (char *w = strtok_r(L->text, " \t\r", &save); w && L->n < TY_COUNT(L->word);
       w = strtok_r(NULL, " \t\r", &save))
    L->word[L->n++] = w;
  return *s ? s + 1 : s;
}

static int find(const char *const *names, int n, const char *word) {
  for (int i = 0; i < n; i++) {
    const char *a = names[i], *b = word;
    while (*a && (*a | 32) == (*b | 32)) a++, b++;
    if (!*a && !*b) return i;
  }
  return -1;
}

static int find_level(const char *w) {
  static const char *const levels[] = {"elem", "row"};
  return find(levels, 2, w);
}

/* The number behind a sign ('%', '@', '#'), -1 when the word is another. */
static i64 number(const char *w, char sign, int base) {
  char *end;
  if (w[0] != sign || !w[1]) return -1;
  i64 v = (i64)strtoull(w + 1, &end, base);
  return *end ? -1 : v;
}

static const char *parse_operand(Program *p, const Line *L) {
  if (L->n < 3 || number(L->word[0], '@', 10) != p->noperands) return "operands out of order";
  if (p->noperands == MAX_OPERANDS) return "too many operands";
  int dtype = ty_dtype_find(L->word[1]), level = find_level(L->word[2]);
  if (dtype < 0) return "no such dtype";
  if (level < 0) return "no such level";
  Operand *o = &p->operand[p->noperands++];
  o->dtype = (u8)dtype, o->level = (u8)level;
  o->write = L->n > 3 && !strcmp(L->word[3], "write");
  return NULL;
}

static const char *parse_instr(Program *p, const Line *L) {
  if (L->n < 4 || number(L->word[0], '%', 10) != p->nbody) return "instructions out of order";
  if (p->nbody == MAX_BODY) return "body too long";
  int op = find(ty_prims, P_COUNT, L->word[1]), type = find(ctypes, 4, L->word[2]);
  int level = find_level(L->word[3]);
  if (op < 0) return "no such primitive";
  if (type < 0) return "no such compute type";
  if (level < 0) return "no such level";
  Instr in = {.op = (u8)op, .type = (u8)type, .level = (u8)level};
  i16 ops[3] = {-1, -1, -1};
  int k = 4, n = 0;
  if (k + 1 < L->n && !strcmp(L->word[k], "from")) {
    int from = find(ctypes, 4, L->word[k + 1]);
    if (from < 0) return "no such compute type";
    in.from = (u8)from, k += 2;
  }
  for (; k < L->n; k++) {
    const char *w = L->word[k];
    char *end;
    if (*w == '%') {
      i64 v = number(w, '%', 10);
      if (n == 3 || v < 0 || v >= p->nbody) return "operand out of place";
      ops[n++] = (i16)v;
    } else if (*w == '@' || *w == '#') {
      in.imm = strtoull(w + 1, &end, *w == '@' ? 10 : 16);
      if (*end || !w[1]) return "not a number";
    } else return "unexpected word";
  }
  in.a = ops[0], in.b = ops[1], in.c = ops[2];
  p->body[p->nbody++] = in;
  return NULL;
}

Program *ty_program_parse(const char *text, const char **err) {
  Program *p = ty_mem_zalloc(sizeof *p + MAX_BODY * sizeof(Instr));
  *err = p ? NULL : "out of memory";
  Line L;
  bool head = false;
  while (*text && !*err) {
    text = next_line(text, &L);
    if (!L.n) continue;
    if (!head) {
      int kind = find(kinds, 3, L.word[0]);
      if (kind < 0) *err = "a program starts with its kind";
      p->kind = (u8)TY_MAX(kind, 0), head = true;
      p->fast = L.n > 1 && !strcmp(L.word[1], "fast");
    } else if (L.word[0][0] == '@') *err = parse_operand(p, &L);
    else *err = parse_instr(p, &L);
  }
  if (!*err && !head) *err = "no program";
  if (!*err) *err = ty_program_verify(p);
  if (!*err) return p;
  ty_mem_free(p);
  return NULL;
}
