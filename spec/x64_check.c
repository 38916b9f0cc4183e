/*
** x64_check.c -- the native machine against the portable one.
** In:  "diff COUNT SEED": random programs over random layouts and sizes run on both, every operand
** between two pages that nobody may touch; or "encode": one line for each of many instructions, its
** bytes and its listing; "starve": allocations fail; "fork": two processes; "time": nanoseconds. Out: text; exit code 1 when anything differs.
** Linked by x64_spec.lua with the library's own objects.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device/cpu/x64.h"

enum {
  MACHINE_DTYPES = T_F64 + 1
}; /* what programs hold: unsigned integers are composed of these */

/* ---- chance ---------------------------------------------------------------------------------- */

static u64 seed;
static u64 next(void) {
  u64 z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static int below(int n) { return (int)(next() >> 33) % n; }
static bool chance(int percent) { return below(100) < percent; }

/* ---- programs -------------------------------------------------------------------------------- */

typedef struct Make {
  Program *p;
  int nin; /* operands read */
  bool tainted[MAX_BODY];
  int reduces, scans;
  bool gather[MAX_OPERANDS], index[MAX_OPERANDS]; /* index: of positions, all below 4 */
} Make;

static bool is_f(int t) { return t >= C_F32; }
static bool is_8(int t) { return t == C_I64 || t == C_F64; }

static int add(Make *M, Instr in) {
  M->p->body[M->p->nbody] = in;
  return M->p->nbody++;
}

static u64 special(int type) {
  static const float f[] = {0,     -0.0f,   1,  -1,   0.5f,  2,    -2.5f,
                            1e30f, -1e-30f, 88, 3e9f, -3e9f, 1e20f};
  static const i64 n[] = {0,     1,         -1,        2,         7,         255,
                          65535, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1000};
  u64 bits = 0;
  if (type == C_F32 && chance(10)) return 0x7fc00000u;
  if (type == C_F32 && chance(10)) return chance(50) ? 0x7f800000u : 0xff800000u;
  if (type == C_F32 || type == C_F64) {
    float x = f[below(TY_COUNT(f))];
    double y = x;
    if (type == C_F32) memcpy(&bits, &x, 4);
    else memcpy(&bits, &y, 8);
    return bits;
  }
  bits = (u64)n[below(TY_COUNT(n))];
  return type == C_I32 ? (u32)bits : bits;
}

static int constant(Make *M, int type, u64 bits) {
  return add(
      M,
      (Instr){
          .op = P_CONST, .type = (u8)type, .level = L_ROW, .a = -1, .b = -1, .c = -1, .imm = bits});
}

/* A value of the type, later ones more likely; -1: none. `row`: must be a row value. */
static int pick(Make *M, int type, bool row, bool clean) {
  for (int k = 0; k < 40; k++) {
    int i = M->p->nbody - 1 - below(chance(70) ? TY_MIN(M->p->nbody, 8) : M->p->nbody);
    const Instr *in = &M->p->body[i];
    bool uniform = in->op == P_CONST || in->op == P_SCALAR;
    if (in->op == P_STORE || (type >= 0 && in->type != type)) continue;
    if (row && in->level == L_ELEM && !uniform) continue;
    if (clean && M->tainted[i]) continue;
    return i;
  }
  return constant(M, type < 0 ? below(4) : type, special(type < 0 ? C_I32 : type));
}

/* In columns what hangs on a reduction may not meet elements: then constants stand in. */
static void untaint(Make *M, Instr *in) {
  i16 *const ops[3] = {&in->a, &in->b, &in->c};
  bool elem = false, tainted = false;
  for (int k = 0; k < 3; k++) {
    if (*ops[k] < 0) continue;
    elem |= M->p->body[*ops[k]].level == L_ELEM, tainted |= M->tainted[*ops[k]];
  }
  for (int k = 0; k < 3 && elem && tainted; k++) {
    if (*ops[k] < 0 || !M->tainted[*ops[k]]) continue;
    int type = M->p->body[*ops[k]].type;
    *ops[k] = (i16)constant(M, type, special(type));
  }
}

static int emit(Make *M, Instr in) {
  if (M->p->kind == K_COL) untaint(M, &in);
  in.level = L_ROW;
  const i16 ops[3] = {in.a, in.b, in.c};
  int i = M->p->nbody;
  M->tainted[i] = false;
  for (int k = 0; k < 3; k++) {
    if (ops[k] < 0) continue;
    if (M->p->body[ops[k]].level == L_ELEM) in.level = L_ELEM;
    M->tainted[i] |= M->tainted[ops[k]];
  }
  if (M->p->kind == K_MAP) in.level = L_ELEM;
  return add(M, in);
}

static void operation(Make *M, bool row, bool clean) {
  static const u8 both[] = {P_ADD, P_SUB, P_MUL, P_MIN, P_MAX},
                  floats[] = {P_DIV, P_FMA, P_FMA, P_MUL, P_ADD};
  static const u8 ints[] = {P_AND, P_OR, P_XOR, P_SHL, P_SHR, P_SHRU, P_DIVI, P_REMI};
  static const u8 f1[] = {P_SQRT, P_FLOOR, P_CEIL, P_TRUNC, P_RINT};
  int type = chance(60) ? C_F32 : below(4), a = pick(M, type, row, clean),
      b = pick(M, type, row, clean);
  Instr in = {.type = (u8)type, .a = (i16)a, .b = (i16)b, .c = -1};
  switch (below(10)) {
  case 0:
  case 1: in.op = both[below(TY_COUNT(both))]; break;
  case 2:
  case 3:
    if (is_f(type)) {
      in.op = floats[below(TY_COUNT(floats))];
      if (in.op == P_FMA) in.c = (i16)pick(M, type, row, clean);
    } else {
      in.op = ints[below(TY_COUNT(ints))];
      if (in.op >= P_SHL && in.op <= P_SHRU) {
        int mask = constant(M, type, is_8(type) ? 63 : 31);
        in.b = (i16)(chance(50) ? constant(M, type, (u64)below(is_8(type) ? 64 : 32))
                                : emit(M, (Instr){.op = P_AND,
                                                  .type = (u8)type,
                                                  .a = (i16)b,
                                                  .b = (i16)mask,
                                                  .c = -1}));
      } else if (type == C_I64 && chance(10)) in.op = P_MULHI;
    }
    break;
  case 4:
    in.b = -1;
    in.op = chance(30) ? P_NEG : chance(40) ? P_ABS : f1[below(TY_COUNT(f1))];
    if (!is_f(type) && in.op != P_NEG) in.op = P_ABS;
    break;
  case 5:
    in.op = (u8)(P_EQ + below(3)), in.from = (u8)type, in.type = C_I32;
    if (chance(60)) {
      int c = emit(M, in), t = chance(60) ? type : below(4);
      in = (Instr){.op = P_SEL,
                   .type = (u8)t,
                   .a = (i16)c,
                   .b = (i16)pick(M, t, row, clean),
                   .c = (i16)pick(M, t, row, clean)};
    }
    break;
  case 6:
    in = (Instr){.op = P_SEL,
                 .type = (u8)type,
                 .a = (i16)pick(M, C_I32, row, clean),
                 .b = (i16)a,
                 .c = (i16)b};
    break;
  case 7: {
    int to = below(4);
    in.b = -1, in.op = P_CVT, in.from = (u8)type, in.type = (u8)to;
    if (to == type || chance(30)) in.op = P_BITS, in.type = (u8)(type ^ 2);
    break;
  }
  case 8: {
    int d = below(MACHINE_DTYPES);
    in = (Instr){.op = P_NARROW, .type = ty_dtypes[d].ctype, .b = -1, .c = -1, .imm = (u64)d};
    in.a = (i16)pick(M, in.type, row, clean);
    break;
  }
  default:
    if (chance(50) && ty_nluts) {
      int l = below(ty_nluts), n = 1;
      while (n * 2 <= ty_luts[l].n) n *= 2;
      int i = emit(M, (Instr){.op = P_AND,
                              .type = C_I32,
                              .a = (i16)pick(M, C_I32, row, clean),
                              .b = (i16)constant(M, C_I32, (u64)(n - 1)),
                              .c = -1});
      in = (Instr){
          .op = P_LUT, .type = ty_luts[l].ctype, .a = (i16)i, .b = -1, .c = -1, .imm = (u64)l};
    } else if (chance(60))
      in = (Instr){.op = P_PHILOX,
                   .type = C_I32,
                   .a = (i16)pick(M, C_I64, row, clean),
                   .b = (i16)pick(M, C_I64, row, clean),
                   .c = (i16)pick(M, C_I64, row, clean),
                   .imm = (u64)below(4)};
    else in.op = P_ADD;
  }
  emit(M, in);
}

static void leaf(Make *M) {
  Program *p = M->p;
  int type = chance(60) ? C_F32 : below(4);
  if (chance(20)) {
    constant(M, type, special(type));
  } else if (chance(15)) {
    add(M, (Instr){.op = P_SCALAR,
                   .type = (u8)type,
                   .level = L_ROW,
                   .a = -1,
                   .b = -1,
                   .c = -1,
                   .imm = (u64)below(4)});
  } else if (p->noperands < 10) {
    int d = chance(50) ? T_F32 : below(MACHINE_DTYPES), o = p->noperands++,
        level = p->kind != K_MAP && chance(25) ? L_ROW : L_ELEM;
    bool iota = chance(7);
    p->operand[o] = (Operand){.dtype = (u8)(iota ? T_I64 : d), .level = (u8)level};
    Instr in = {.op = P_LOAD,
                .type = ty_dtypes[d].ctype,
                .level = (u8)level,
                .a = -1,
                .b = -1,
                .c = -1,
                .imm = (u64)o};
    if (iota) in.op = P_IOTA, in.type = C_I64;
    add(M, in);
  }
}

/* Positions that a gather may read where they lie; others read them too. */
static int loaded_index(Make *M) {
  Program *p = M->p;
  int o = p->noperands++;
  p->operand[o] = (Operand){.dtype = T_I64, .level = L_ELEM};
  M->index[o] = true;
  Instr in = {.op = P_LOAD, .type = C_I64, .level = L_ELEM, .a = -1, .b = -1, .c = -1};
  in.imm = (u64)o;
  return add(M, in);
}

static void gload(Make *M) {
  Program *p = M->p;
  if (p->noperands >= 9) return;
  int o = p->noperands++, d = below(MACHINE_DTYPES);
  p->operand[o] = (Operand){.dtype = (u8)d, .level = L_ELEM};
  M->gather[o] = true;
  int i = chance(50) ? loaded_index(M)
                     : emit(M, (Instr){.op = P_AND,
                                       .type = C_I64,
                                       .a = (i16)pick(M, C_I64, false, true),
                                       .b = (i16)constant(M, C_I64, 3),
                                       .c = -1});
  add(M, (Instr){.op = P_GLOAD,
                 .type = ty_dtypes[d].ctype,
                 .level = L_ELEM,
                 .a = (i16)i,
                 .b = -1,
                 .c = -1,
                 .imm = (u64)o});
}

static void store(Make *M, int v) {
  Program *p = M->p;
  int type = p->body[v].type, d;
  do d = below(MACHINE_DTYPES);
  while (ty_dtypes[d].ctype != type);
  int level = p->body[v].level;
  if (p->body[v].op == P_CONST || p->body[v].op == P_SCALAR)
    level = p->kind == K_MAP || chance(50) ? L_ELEM : L_ROW;
  if (p->kind == K_MAP) level = L_ELEM;
  int o = p->noperands++;
  p->operand[o] = (Operand){.dtype = (u8)d, .level = (u8)level, .write = 1};
  int n = v;
  if (d != T_F32 && d != T_F64 && d != T_I32 && d != T_I64)
    n = emit(
        M, (Instr){.op = P_NARROW, .type = (u8)type, .a = (i16)v, .b = -1, .c = -1, .imm = (u64)d});
  add(M, (Instr){.op = P_STORE,
                 .type = (u8)type,
                 .level = (u8)level,
                 .a = (i16)n,
                 .b = -1,
                 .c = -1,
                 .imm = (u64)o});
}

static void reduction(Make *M) {
  int type = chance(60) ? C_F32 : below(4), a = pick(M, type, false, true);
  if (M->p->kind == K_COL && M->tainted[a]) return;
  Instr in = {.op = (u8)(P_RSUM + below(4)),
              .type = (u8)type,
              .from = (u8)type,
              .level = L_ROW,
              .a = (i16)a,
              .b = -1,
              .c = -1};
  if (chance(15)) in.op = (u8)(P_RARGMAX + below(2)), in.type = C_I64;
  if (M->p->body[a].level != L_ELEM) return;
  M->tainted[M->p->nbody] = true;
  add(M, in), M->reduces++;
}

static void scan(Make *M) {
  static const u8 ops[] = {P_SSUM, P_SPROD, P_SMAX, P_SMIN, P_SMAXX};
  int type = chance(60) ? C_F32 : below(4);
  Instr in = {.op = ops[below(5)],
              .type = (u8)type,
              .level = L_ELEM,
              .a = (i16)pick(M, type, false, false),
              .b = -1,
              .c = -1};
  add(M, in), M->scans++;
}

static Program *program(Make *M, int size) {
  Program *p = M->p;
  memset(p, 0, sizeof *p + MAX_BODY * sizeof(Instr));
  memset(M->tainted, 0, sizeof M->tainted), memset(M->gather, 0, sizeof M->gather);
  memset(M->index, 0, sizeof M->index);
  M->reduces = M->scans = 0;
  p->kind = (u8)(chance(40) ? K_MAP : chance(60) ? K_ROW : K_COL);
  bool scans = p->kind == K_ROW && chance(20);
  for (int i = 0; i < 3 + below(3); i++) leaf(M);
  while (p->nbody < size) {
    if (chance(8)) leaf(M);
    else if (chance(3)) gload(M);
    else if (p->kind != K_MAP && chance(12)) {
      if (scans) scan(M);
      else if (M->reduces < 5) reduction(M);
    } else operation(M, p->kind != K_MAP && chance(20), false);
  }
  if (p->kind != K_MAP && !scans && !M->reduces) reduction(M);
  int n = p->nbody;
  for (int i = 0, k = 1 + below(3); i < k; i++) {
    int v = i ? below(n) : n - 1;
    if (p->body[v].op == P_STORE ||
        (p->kind == K_COL && M->tainted[v] && p->body[v].level == L_ELEM))
      continue;
    store(M, v);
  }
  return p;
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { AREA = 4 << 20, PAGE = 4096 };
typedef struct Area {
  u8 *base; /* AREA bytes between two pages without access */
} Area;
static Area areas[MAX_OPERANDS];

static void areas_open(void) {
  for (int i = 0; i < MAX_OPERANDS; i++) {
    u8 *p = mmap(NULL, AREA + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(3);
    mprotect(p, PAGE, PROT_NONE), mprotect(p + PAGE + AREA, PAGE, PROT_NONE);
    areas[i].base = p + PAGE;
  }
}

typedef struct Data {
  Launch L;
  void *buf[MAX_OPERANDS];
  u8 *low[MAX_OPERANDS];
  size_t bytes[MAX_OPERANDS];
  int shares[MAX_OPERANDS]; /* the input whose memory an output has, or -1 */
  u64 scalar[4];
  bool plain; /* all operands lie one element behind another */
} Data;

static i64 length(void) {
  switch (below(8)) {
  case 0: return below(3);
  case 1: return 15 + below(4);
  case 2: return 31 + below(35);
  case 3: return 100 + below(200);
  case 4:
    return chance(50) ? 1000 + below(60) : chance(50) ? 4080 + below(40) : 8000 + below(20000);
  default: return 1 + below(40);
  }
}

/* Strides of an operand over the dims it has: contiguous in some order, padded, reversed, repeated. */
static void layout(Data *D, const Program *p, int o) {
  Launch *L = &D->L;
  int nd = L->no + L->nr + L->ni, order[MAX_DIMS];
  bool write = p->operand[o].write, plain = D->plain || chance(50);
  for (int d = 0; d < nd; d++) order[d] = d;
  if (!plain && chance(50))
    for (int d = nd - 1; d > 0; d--) {
      int e = below(d + 1), t = order[d];
      order[d] = order[e], order[e] = t;
    }
  i64 s = 1, least = 0, most = 0;
  for (int i = nd - 1; i >= 0; i--) {
    int d = order[i];
    i64 *st = &L->strides[o][d];
    *st = 0;
    bool absent =
        p->kind != K_MAP && p->operand[o].level == L_ROW && d >= L->no && d < L->no + L->nr;
    if (absent || (!plain && !write && chance(25))) continue;
    if (!plain && chance(20)) s += 1 + below(3);
    *st = s;
    s *= TY_MAX(L->dims[d], 1);
    if (!plain && chance(10)) *st = -*st;
    i64 reach = *st * TY_MAX(L->dims[d] - 1, 0);
    least += TY_MIN(reach, 0), most += TY_MAX(reach, 0);
  }
  int size = ty_dtypes[p->operand[o].dtype].bytes;
  L->gstride[o] = chance(50);
  most += 3 * L->gstride[o];
  D->bytes[o] = (size_t)(most - least + 1) * (size_t)size;
  L->start[o] = -least;
  /* Against the page before or the one behind. */
  D->low[o] = chance(50) ? areas[o].base : areas[o].base + AREA - D->bytes[o];
  D->buf[o] = D->low[o];
}

static void fill(const Program *p, const Make *M, int o, u8 *at, size_t bytes) {
  int d = p->operand[o].dtype, size = ty_dtypes[d].bytes;
  for (size_t i = 0; i + (size_t)size <= bytes; i += (size_t)size) {
    u64 bits = next();
    if (M->index[o]) {
      bits &= 3;
      memcpy(at + i, &bits, sizeof bits);
      continue;
    }
    double v = chance(50) ? (double)(i64)(bits % 41) - 20 : (double)(i32)bits / 3e8;
    if (d == T_BOOL) at[i] = bits & 1;
    else if (chance(25)) memcpy(at + i, &bits, (size_t)size);
    else ty_elem_store(d, at + i, v);
  }
}

static bool prepare(Data *D, const Program *p, const Make *M) {
  Launch *L = &D->L;
  memset(L, 0, sizeof *L);
  bool map = p->kind == K_MAP;
  D->plain = chance(30); /* all of it: what goes by in one call must */
  L->no = (u8)(map ? 0 : below(3)), L->nr = (u8)(map ? 0 : 1 + chance(20));
  L->ni = (u8)(map ? 1 + below(3) : p->kind == K_COL ? 1 + chance(20) : 0);
  i64 n = 1;
  for (int d = 0; d < L->no + L->nr + L->ni; d++) {
    i64 k = length();
    while (n * TY_MAX(k, 1) > 30000) k = k / 8 + 1;
    L->dims[d] = k, n *= TY_MAX(k, 1);
  }
  i64 R = 1;
  for (int d = L->no; d < L->no + L->nr; d++) R *= L->dims[d];
  if (R > ROW_MAX) return false;
  for (int o = 0; o < p->noperands; o++) {
    layout(D, p, o);
    D->shares[o] = -1;
    if (D->bytes[o] > AREA) return false;
    fill(p, M, o, D->low[o], D->bytes[o]);
    if (!p->operand[o].write || !chance(30)) continue;
    for (int i = 0; i < o; i++) { /* in place of an input with the same layout */
      bool taken =
          p->operand[i].write || M->gather[i] || p->operand[i].level != p->operand[o].level;
      for (int k = 0; k < o; k++) taken |= D->shares[k] == i;
      for (int b = 0; b < p->nbody; b++)
        taken |= p->body[b].op == P_IOTA && p->body[b].imm == (u64)i;
      if (taken || ty_dtypes[p->operand[i].dtype].bytes != ty_dtypes[p->operand[o].dtype].bytes)
        continue;
      memcpy(L->strides[i], L->strides[o], sizeof L->strides[o]);
      L->start[i] = L->start[o], D->bytes[i] = D->bytes[o];
      D->low[i] = D->low[o], D->buf[i] = D->buf[o], D->shares[o] = i;
      fill(p, M, i, D->low[i], D->bytes[i]);
      break;
    }
  }
  for (int i = 0; i < 4; i++) D->scalar[i] = chance(50) ? special(C_F32) : next() >> below(60);
  return true;
}

/* Equal but for NaNs, which are one value. */
static i64 differs(int dtype, const u8 *a, const u8 *b, size_t bytes) {
  int size = ty_dtypes[dtype].bytes;
  for (size_t i = 0; i + (size_t)size <= bytes; i += (size_t)size) {
    if (!memcmp(a + i, b + i, (size_t)size)) continue;
    double x = ty_elem_load(dtype, a + i), y = ty_elem_load(dtype, b + i);
    if (ty_is_float(dtype) && x != x && y != y) continue;
    return (i64)(i / (size_t)size);
  }
  return -1;
}

static void show(const Program *p, const Data *D) {
  static char text[1 << 16];
  ty_program_print(p, text, sizeof text);
  printf("%s", text);
  for (int d = 0; d < D->L.no + D->L.nr + D->L.ni; d++)
    printf("dim %d: %" PRId64 "\n", d, D->L.dims[d]);
  for (int o = 0; o < p->noperands; o++) {
    printf("@%d start %" PRId64 " shares %d strides", o, D->L.start[o], D->shares[o]);
    for (int d = 0; d < D->L.no + D->L.nr + D->L.ni; d++) printf(" %" PRId64, D->L.strides[o][d]);
    printf("\n");
  }
}

static int natives;

static bool check(Make *M, int size) {
  static Data D;
  Program *p = program(M, size);
  const char *wrong = ty_program_verify(p);
  if (wrong) {
    printf("the generator: %s\n", wrong);
    return false;
  }
  Kernel *t = ty_machine_tile.make(p), *x = ty_machine_x64.make(p);
  bool ok = t != NULL;
  natives += x != NULL;
  static u8 *before[MAX_OPERANDS], *after[MAX_OPERANDS];
  for (int round = 0; round < 3 && ok && x; round++) {
    if (!prepare(&D, p, M)) continue;
    Run r = {.launch = &D.L, .buf = D.buf, .scalar = D.scalar};
    for (int o = 0; o < p->noperands; o++) {
      if (!before[o]) before[o] = malloc(AREA), after[o] = malloc(AREA);
      memcpy(before[o], D.low[o], D.bytes[o]);
    }
    ok = ty_machine_tile.run(t, &r);
    for (int o = 0; o < p->noperands; o++) memcpy(after[o], D.low[o], D.bytes[o]);
    for (int o = 0; o < p->noperands; o++) memcpy(D.low[o], before[o], D.bytes[o]);
    ty_tile_past = chance(50) ? 0 : (i64)1 << 40;
    ok = ok && ty_machine_x64.run(x, &r);
    for (int o = 0; o < p->noperands && ok; o++) {
      bool shared = false;
      for (int k = 0; k < p->noperands; k++) shared |= D.shares[k] == o;
      i64 at = shared ? -1 : differs(p->operand[o].dtype, after[o], D.low[o], D.bytes[o]);
      if (at < 0) continue;
      ok = false;
      int e = ty_dtypes[p->operand[o].dtype].bytes, d = p->operand[o].dtype;
      printf("operand %d, element %" PRId64 ": %.17g instead of %.17g\n", o, at,
             ty_elem_load(d, D.low[o] + at * e), ty_elem_load(d, after[o] + at * e));
      show(p, &D);
    }
  }
  if (t) ty_machine_tile.drop(t);
  if (x) ty_machine_x64.drop(x);
  return ok;
}

static int diff(int count, u64 from) {
  static Make M;
  M.p = malloc(sizeof *M.p + MAX_BODY * sizeof(Instr));
  areas_open();
  for (int i = 0; i < count; i++) {
    seed = from * 1000003 + (u64)i;
    ty_pool_threads(1 + i % 2);
    if (check(&M, chance(10) ? 60 + below(140) : 4 + below(30))) continue;
    printf("program %d of seed %" PRIu64 "\n", i, from);
    return 1;
  }
  printf("%d programs, %d native, no difference\n", count, natives);
  return natives * 2 < count;
}

/* ---- encodings -------------------------------------------------------------------------------- */

/* Bytes and text. The assembler is told not to prefer another form of the same. */
static void line(Asm *A) {
  for (size_t i = 0; i < A->n; i++) printf("%02x", A->p[i]);
  bool move = !strncmp(A->list, "vmov", 4) && !strchr(A->list, '[') && A->p[0] != 0x62;
  printf(" %s", A->p[0] == 0x62 ? "{evex} " : move ? "{load} " : "");
  printf("%.*s", (int)A->list_n, A->list);
  A->n = A->list_n = 0;
}

static X64Rm random_mem(bool vsib, int registers) {
  static const i32 disps[] = {0, 0, 4, 8, 64, 128, -64, 127, -128, 256, 1 << 20, 4096, -4};
  X64Rm m = x64_mem(below(16), RNONE, below(4), disps[below(TY_COUNT(disps))]);
  if (vsib) m.index = (i8)below(registers);
  else if (chance(60)) do
      m.index = (i8)below(16);
    while (m.index == RSP);
  return m;
}

static bool allowed(X64Ins ins, bool evex, int vl) {
  const X64Row *I = &x64_rows[ins];
  if (!(I->flags & (evex ? EVEX : VEX))) return false;
  switch (ins) {
  case I_vbroadcastsd:
  case I_vextracti128:
  case I_vperm2f128:
  case I_vpermd:
  case I_vpermq:
  case I_vshuff32x4: return vl == VL256 || (evex && vl == VL512 && ins != I_vextracti128);
  case I_vextractf32x8: return vl == VL512;
  case I_vmovd:
  case I_vmovq: return vl == VL128;
  default: return evex || vl < VL512;
  }
}

static void encode_one(Asm *A, X64Ins ins, int vl) {
  const X64Row *I = &x64_rows[ins];
  int registers = A->evex ? 32 : 16, reg = below(registers), v = below(registers), imm = -1, k = 0;
  bool mem = chance(50), z = false, store = false, vsib = I->flags & VSIB;
  bool dk = (I->flags & DK) && A->evex;
  if (dk) reg = 1 + below(7);
  if (I->map == M0F3A || (I->flags & IMMSHIFT) || ins == I_vcmpps || ins == I_vcmppd ||
      ins == I_vshufps)
    imm = below(8);
  if (ins == I_vblendvps || ins == I_vblendvpd) imm = below(16) << 4;
  if ((I->flags & IMMSHIFT) && !A->evex) mem = false;
  if (ins == I_vmaskmovps || ins == I_vmaskmovpd || vsib || ins == I_vmovd || ins == I_vmovq ||
      ins == I_vmovntps)
    mem = true;
  X64Rm rm = mem ? random_mem(vsib, registers) : x64_reg(below(registers));
  if (A->evex) {
    k = ins == I_vmovntps ? 0 : vsib ? 1 + below(7) : chance(30) ? 1 + below(7) : 0;
    z = k && !dk && !vsib && !(mem && (I->flags & STORES)) && chance(50);
    bool plain =
        I->tuple == T_FULL ||
        (I->tuple == T_HALF && (ins == I_vcvtdq2pd || ins == I_vcvtps2pd || ins == I_vcvttps2qq));
    bool whole = ins == I_vmovups || ins == I_vmovupd || ins == I_vmovaps || ins == I_vmovdqa32 ||
                 ins == I_vmovdqa64 || ins == I_vmovntps;
    if (mem && plain && !whole && chance(40)) rm.bcst = true;
  }
  store = mem &&
          (ins == I_vmovups || ins == I_vmovupd || ins == I_vmaskmovps || ins == I_vmaskmovpd) &&
          chance(50);
  if (store) z = false;
  if (vsib && !A->evex) { /* three registers, all different */
    reg = 1, v = 2;
    rm.index = 3;
  } else if (vsib && rm.index == reg) rm.index = (i8)(reg ^ 1);
  x64_vector(A, ins, vl, reg,
             I->flags & TWO && !vsib ? 0
             : vsib && A->evex       ? 0
                                     : v,
             rm, imm, k, z, store);
  line(A);
}

static int encode(void) {
  Asm A = {.listing = true};
  seed = 1;
  for (int evex = 0; evex < 2; evex++)
    for (int ins = 0; ins < I_COUNT; ins++)
      for (int vl = 0; vl < 3; vl++)
        for (int i = 0; i < 12 && allowed((X64Ins)ins, evex, vl); i++)
          A.evex = evex, encode_one(&A, (X64Ins)ins, vl);
  for (int r = 0; r < 16; r++) {
    x64_load(&A, r, random_mem(false, 16)), line(&A);
    x64_lea(&A, r, random_mem(false, 16)), line(&A);
    x64_prefetch(&A, random_mem(false, 16), 8 * r), line(&A);
    x64_add_load(&A, r, random_mem(false, 16)), line(&A);
    x64_add_save(&A, random_mem(false, 16), r), line(&A);
    x64_shr(&A, r, 8 + below(40)), line(&A);
    x64_rr(&A, G_ADD, r, below(16)), line(&A);
    x64_rr(&A, G_SUB, r, below(16)), line(&A);
    x64_rr(&A, G_CMP, r, below(16)), line(&A);
    x64_rr(&A, G_XOR, r, r), line(&A);
    x64_rr(&A, G_MOV, r, below(16)), line(&A);
    x64_ri(&A, 0, r, 64), line(&A);
    x64_ri(&A, 5, r, 100000), line(&A);
    x64_ri(&A, 4, r, -64), line(&A);
    x64_push(&A, r, false), line(&A);
    x64_push(&A, r, true), line(&A);
    x64_mov64(&A, r, 0x123456789abcdefu), line(&A);
    x64_mov32(&A, r, -1), line(&A);
  }
  x64_kmov(&A, 1, RAX), line(&A);
  x64_kcopy(&A, 2, 1), line(&A);
  x64_kones(&A, 3), line(&A);
  x64_bzhi(&A, RAX, RCX, RDX), line(&A);
  x64_bzhi64(&A, RAX, RCX, RDX), line(&A);
  for (int k = 1; k < 8; k++) x64_kmov(&A, k, RAX), line(&A);
  x64_vzeroupper(&A), line(&A);
  x64_ret(&A), line(&A);
  return A.failed;
}

/* ---- time --------------------------------------------------------------------------------------- */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* y = x, then k operations: half products with a constant, half sums with x. */
static Program *chain(int k) {
  Program *p = calloc(1, sizeof *p + MAX_BODY * sizeof(Instr));
  Make M = {.p = p};
  p->kind = K_MAP, p->noperands = 2;
  p->operand[0] = (Operand){.dtype = T_F32};
  p->operand[1] = (Operand){.dtype = T_F32, .write = 1};
  int x = add(&M, (Instr){.op = P_LOAD, .type = C_F32, .a = -1, .b = -1, .c = -1}), y = x;
  for (int i = 0; i < k; i++) {
    float f = 0.9f + 0.001f * (float)i;
    u64 bits = 0;
    memcpy(&bits, &f, 4);
    int c = i % 2 ? constant(&M, C_F32, bits) : x;
    y = emit(
        &M, (Instr){.op = i % 2 ? P_MUL : P_ADD, .type = C_F32, .a = (i16)y, .b = (i16)c, .c = -1});
  }
  add(&M, (Instr){.op = P_STORE, .type = C_F32, .a = (i16)y, .b = -1, .c = -1, .imm = 1});
  return p;
}

static void time_chain(int k, i64 n) {
  const Machine *machines[] = {&ty_machine_x64, &ty_machine_tile};
  Program *p = chain(k);
  float *x = ty_buf_alloc(n * 4), *y = ty_buf_alloc(n * 4);
  for (i64 i = 0; i < n; i++) x[i] = (float)i;
  Launch L = {.ni = 1, .dims = {n}, .strides = {{1}, {1}}};
  void *buf[] = {x, y};
  Run r = {.launch = &L, .buf = buf};
  for (int m = 0; m < 2; m++) {
    double best = 1e30, emit = 1e30;
    for (int i = 0; i < 20; i++) {
      double t = now();
      Kernel *q = machines[m]->make(p);
      emit = TY_MIN(emit, now() - t);
      if (q) machines[m]->drop(q);
    }
    Kernel *q = machines[m]->make(p);
    i64 times = TY_MAX(2000000 / n / (k / 10 + 1), 1);
    for (int i = 0; i < 9 && q; i++) {
      double t = now();
      for (i64 j = 0; j < times; j++) machines[m]->run(q, &r);
      best = TY_MIN(best, (now() - t) / (double)times);
    }
    printf("%-5s %3d operations, n = %-8" PRId64 " %10.3f us %8.3f ns/element; made in %.1f us\n",
           machines[m]->name, k, n, best / 1e3, best / (double)n, emit / 1e3);
    if (q) machines[m]->drop(q);
  }
  ty_buf_free(x, n * 4), ty_buf_free(y, n * 4), free(p);
}

/* ---- trouble ------------------------------------------------------------------------------------ */

/* Runs a chain of k operations over a few elements and compares with the portable machine. */
static bool chain_works(const Kernel *q, int k) {
  Program *p = chain(k);
  Kernel *t = ty_machine_tile.make(p);
  float x[100], y[100], z[100];
  Launch L = {.ni = 1, .dims = {100}, .strides = {{1}, {1}}};
  void *buf[] = {x, y}, *other[] = {x, z};
  for (int i = 0; i < 100; i++) x[i] = (float)(i - 50);
  bool ok = t && ty_machine_x64.run(q, &(Run){.launch = &L, .buf = buf}) &&
            ty_machine_tile.run(t, &(Run){.launch = &L, .buf = other}) && !memcmp(y, z, sizeof y);
  if (t) ty_machine_tile.drop(t);
  free(p);
  return ok;
}

/* Every allocation on the way to a kernel fails once: then there is none, or it is right. */
static int starve(void) {
  static Make M;
  M.p = malloc(sizeof *M.p + MAX_BODY * sizeof(Instr));
  int refused = 0;
  for (int i = 0; i < 60; i++) {
    seed = 77 + (u64)i;
    Program *p = program(&M, 20 + i);
    for (int after = 0; after < 40; after++) {
      ty_mem_fail(after, 1);
      Kernel *k = ty_machine_x64.make(p);
      ty_mem_fail(-1, 0);
      refused += !k;
      if (k) ty_machine_x64.drop(k);
    }
  }
  Program *p = chain(10);
  Kernel *k = ty_machine_x64.make(p);
  bool ok = k && chain_works(k, 10);
  printf("%d refused, then %s\n", refused, ok ? "right" : "wrong");
  return !ok || !refused;
}

/* A child and its parent make and drop kernels in memory that they were both born with. */
static int forks(void) {
  enum { N = 40 };
  Kernel *k[N];
  bool ok = true;
  for (int i = 0; i < N; i++) ok &= (k[i] = ty_machine_x64.make(chain(i + 1))) != NULL;
  int child = fork();
  for (int i = child ? 0 : 1; i < N; i += 2) { /* each drops others */
    ty_machine_x64.drop(k[i]);
    k[i] = NULL;
  }
  for (int round = 0; round < 20; round++)
    for (int i = 0; i < N; i++) {
      if (k[i] && round < 10) {
        ok &= chain_works(k[i], i + 1);
        continue;
      }
      if (k[i]) ty_machine_x64.drop(k[i]);
      ok &= (k[i] = ty_machine_x64.make(chain(i + 1))) != NULL;
      ok &= k[i] && chain_works(k[i], i + 1);
    }
  int status = 0;
  if (!child) _exit(!ok);
  waitpid(child, &status, 0);
  printf("parent %s, child %s\n", ok ? "right" : "wrong", status ? "wrong" : "right");
  return !ok || status;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "starve")) return starve();
  if (argc > 1 && !strcmp(argv[1], "fork")) return forks();
  if (argc > 1 && !strcmp(argv[1], "encode")) return encode();
  if (argc > 1 && !strcmp(argv[1], "time")) {
    static const int ks[] = {10, 30, 100};
    static const i64 ns[] = {100, 4096, 10000, 1000000};
    ty_pool_threads(1);
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 4; j++) time_chain(ks[i], ns[j]);
    return 0;
  }
  if (argc > 1 && !strcmp(argv[1], "can")) return ty_x64_refusal() != NULL;
  return diff(argc > 2 ? atoi(argv[2]) : 1000, argc > 3 ? (u64)atoll(argv[3]) : 1);
}
