/*
** ptx_interpret.c -- a kernel that interprets loop programs, in the time until their own kernels are assembled.
** In:  nothing.  Out: one module, for all programs. Fails when out of memory alone.
** One step a time: its operands are read, it branches by its op, the result is stored. Primitives are those of
** ptx_value.c, so the bits are.
*/
#include "base/system.h"
#include "device/cuda/ptx_interpret.h"

/* --- primitives, numbered */

typedef struct Kind {
  u8 op, type, from, imm;
} Kind;

enum { KINDS_MOST = 256 };
static Kind kinds[KINDS_MOST];
static int nkinds;
static Once once = ONCE_INIT;

static void add(int op, int type, int from, int imm) {
  kinds[nkinds++] = (Kind){(u8)op, (u8)type, (u8)from, (u8)imm};
}

static void number_kinds(void) {
  static const u8 any[] = {P_ADD, P_SUB, P_MUL, P_MIN, P_MAX, P_NEG, P_ABS},
                  floats[] = {P_DIV, P_FMA, P_SQRT, P_FLOOR, P_CEIL, P_TRUNC, P_RINT},
                  ints[] = {P_DIVI, P_REMI, P_SHL, P_SHR, P_SHRU},
                  narrow[] = {T_BOOL, T_U8, T_I8, T_I16, T_F16, T_BF16};
  for (int t = C_I32; t <= C_F64; t++) {
    for (size_t i = 0; i < sizeof any; i++) add(any[i], t, 0, 0);
    for (size_t i = 0; i < sizeof floats && t >= C_F32; i++) add(floats[i], t, 0, 0);
    for (size_t i = 0; i < sizeof ints && t < C_F32; i++) add(ints[i], t, 0, 0);
    for (int op = P_EQ; op <= P_LE; op++) add(op, C_I32, t, 0);
    for (int from = C_I32; from <= C_F64; from++)
      if (from != t) add(P_CVT, t, from, 0);
  }
  for (int op = P_AND; op <= P_XOR; op++) add(op, C_I64, 0, 0);
  add(P_SEL, C_I64, 0, 0);
  add(P_MULHI, C_I64, 0, 0);
  add(P_BITS, C_I32, C_F32, 0), add(P_BITS, C_I64, C_F64, 0);
  for (int i = 0; i < ty_nluts; i++) add(P_LUT, ty_luts[i].ctype, 0, i);
  for (size_t i = 0; i < sizeof narrow; i++)
    add(P_NARROW, narrow[i] >= T_F16 ? C_F32 : C_I32, 0, narrow[i]);
  for (int i = 0; i < 4; i++) add(P_PHILOX, C_I32, 0, i);
}

u32 ty_interpret_op(const Instr *in, int ta) {
  Kind k = {in->op, in->type, 0, 0};
  ty_once(&once, number_kinds);
  switch (in->op) {
  case P_AND:
  case P_OR:
  case P_XOR:
  case P_SEL: k.type = C_I64; break;
  case P_EQ:
  case P_LT:
  case P_LE:
  case P_CVT: k.from = in->from; break;
  case P_BITS:
    k.from = (u8)ta;
    if (in->imm) return S_MOVE;
    break;
  case P_LUT:
  case P_NARROW:
  case P_PHILOX: k.imm = (u8)in->imm; break;
  default: break;
  }
  for (int i = 0; i < nkinds; i++)
    if (!memcmp(&kinds[i], &k, sizeof k)) return S_PRIM + (u32)i;
  return S_MOVE; /* conversions that change no bits */
}

/* --- the kernel */

typedef struct Loop {
  Ptx E;
  Reg base, stride; /* words of the thread */
  Reg at, op, word, y, a, b, c, imm, guard, number, lane;
  int next, store;
} Loop;

static Reg wide(Loop *P) { return ty_ptx_reg(&P->E, REG_64); }

/* The address of a word. */
static Reg place(Loop *P, Reg word) {
  const Reg y = wide(P);
  ty_ptx(&P->E, "mad.wide.u32 $, $, $, $", y, word, P->stride, P->base);
  return y;
}

static Reg low(Loop *P, Reg v) {
  const Reg y = ty_ptx_reg(&P->E, REG_32);
  ty_ptx(&P->E, "cvt.u32.u64 $, $", y, v);
  return y;
}

/* An operand as the compute type. */
static Reg as(Loop *P, int ctype, Reg v) { return ty_ptx_wide(ctype) ? v : low(P, v); }

static void give(Loop *P, int ctype, Reg v) {
  if (ty_ptx_wide(ctype)) ty_ptx(&P->E, "mov.b64 $, $", P->y, v);
  else ty_ptx(&P->E, "cvt.u64.u32 $, $", P->y, v);
  ty_ptx(&P->E, "bra @", P->store);
}

static void begin(Loop *P) {
  Ptx *E = &P->E;
  const Reg n = wide(P), zero = wide(P);
  P->number = wide(P), P->y = wide(P), P->imm = wide(P), P->stride = ty_ptx_reg(E, REG_32);
  P->op = ty_ptx_reg(E, REG_32), P->word = ty_ptx_reg(E, REG_32);
  P->a = wide(P), P->b = wide(P), P->c = wide(P), P->guard = ty_ptx_reg(E, REG_PRED);
  ty_ptx_number(E, INTERPRET_THREADS, P->number, n);
  const Reg by = low(P, n), t = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "shl.b32 $, $, 3", P->stride, by);
  P->base = ty_ptx_param(E, REG_64, 8 * INTERPRET_SCRATCH);
  ty_ptx(E, "mad.lo.s64 $, $, 8, $", P->base, P->number, P->base);
  P->at = ty_ptx_param(E, REG_64, 8 * INTERPRET_CODE);
  ty_ptx(E, "mov.u32 $, %tid.x", t);
  ty_ptx(E, "and.b32 $, $, 31", P->lane = ty_ptx_reg(E, REG_32), t);
  ty_ptx(E, "setp.eq.u32 $, $, $", P->guard, t, t);
  ty_ptx(E, "mov.b64 $, 0", zero);
  ty_ptx(E, "st.global.b64 [$], $", P->base, zero);
}

/* Reads a step and branches. */
static void fetch(Loop *P, const int *label, int n) {
  Ptx *E = &P->E;
  Reg w[3];
  for (int i = 0; i < 3; i++) w[i] = ty_ptx_reg(E, REG_32);
  ty_ptx_here(E, P->next);
  ty_ptx(E, "ld.global.v4.b32 {$, $, $, $}, [$]", P->op, P->word, w[0], w[1], P->at);
  ty_ptx(E, "ld.global.b32 $, [$+16]", w[2], P->at);
  ty_ptx(E, "ld.global.b64 $, [$+24]", P->imm, P->at);
  ty_ptx(E, "add.s64 $, $, 32", P->at, P->at);
  const Reg to[] = {P->a, P->b, P->c};
  for (int i = 0; i < 3; i++) ty_ptx(E, "ld.global.b64 $, [$]", to[i], place(P, w[i]));
  ty_text_printf(&E->text, "steps: .branchtargets L%d", label[0]);
  for (int i = 1; i < n; i++) ty_text_printf(&E->text, ", L%d", label[i]);
  ty_text_printf(&E->text, ";\n");
  ty_ptx(E, "brx.idx $, steps", P->op);
  ty_ptx_here(E, P->store);
  ty_ptx(E, "st.global.b64 [$], $", place(P, P->word), P->y);
  ty_ptx(E, "bra @", P->next);
}

static void jump(Loop *P) {
  ty_ptx(&P->E, "mad.lo.s64 $, $, 32, $", P->at, P->imm,
         ty_ptx_param(&P->E, REG_64, 8 * INTERPRET_CODE));
  ty_ptx(&P->E, "bra @", P->next);
}

static void shuffle(Loop *P, const char *how, int width) {
  const Reg by = low(P, how[0] == 'i' ? P->b : P->imm);
  give(P, C_I64, ty_ptx_shuffle(&P->E, how, C_I64, P->a, by, width));
}

static void fixed(Loop *P, int op, int end) {
  Ptx *E = &P->E;
  switch (op) {
  case S_EXIT: ty_ptx(E, "bra @", end); return;
  case S_MOVE: give(P, C_I64, P->a); return;
  case S_CONST: give(P, C_I64, P->imm); return;
  case S_NUMBER: give(P, C_I64, P->number); return;
  case S_LANE: give(P, C_I32, P->lane); return;
  case S_GUARD:
    ty_ptx(E, "setp.lt.s64 $, $, $", P->guard, P->a, P->b);
    ty_ptx(E, "bra @", P->next);
    return;
  case S_GUARDED: {
    const Reg y = wide(P);
    ty_ptx(E, "selp.b64 $, $, $, $", y, P->a, P->b, P->guard);
    give(P, C_I64, y);
    return;
  }
  case S_LESS: {
    const Reg p = ty_ptx_reg(E, REG_PRED);
    ty_ptx(E, "setp.ge.s64 $, $, $", p, P->a, P->b);
    ty_ptx(E, "@$ bra @", p, P->next);
    jump(P);
    return;
  }
  case S_JUMP: jump(P); return;
  case S_MAD: {
    const Reg y = wide(P);
    ty_ptx(E, "mad.lo.s64 $, $, $, $", y, P->a, P->b, P->c);
    give(P, C_I64, y);
    return;
  }
  case S_GET:
  case S_PUT: {
    const Reg word = wide(P), v = wide(P);
    ty_ptx(E, "add.s64 $, $, $", word, P->imm, P->a);
    const Reg at = place(P, low(P, word));
    if (op == S_GET) {
      ty_ptx(E, "ld.global.b64 $, [$]", v, at);
      give(P, C_I64, v);
    } else {
      ty_ptx(E, "st.global.b64 [$], $", at, P->b);
      ty_ptx(E, "bra @", P->next);
    }
    return;
  }
  case S_BUTTERFLY: shuffle(P, "bfly", 32); return;
  case S_OF: shuffle(P, "idx", 32); return;
  case S_UP: shuffle(P, "up", 32); return;
  default: shuffle(P, "up", 16); return;
  }
}

static bool has_memory(int dtype) { return dtype <= T_F64; }

static void memory(Loop *P, int op) {
  const int dtype = op < S_STORE ? op - S_LOAD : op - S_STORE, ctype = ty_dtypes[dtype].ctype;
  if (!has_memory(dtype)) {
    ty_ptx(&P->E, "bra @", P->next);
    return;
  }
  P->E.guard = P->guard;
  if (op < S_STORE) give(P, ctype, ty_ptx_load(&P->E, dtype, P->a));
  else {
    ty_ptx_store(&P->E, dtype, P->a, as(P, ctype, P->b));
    ty_ptx(&P->E, "bra @", P->next);
  }
  P->E.guard = 0;
}

static void primitive(Loop *P, const Kind *k) {
  const Instr in = {.op = k->op, .type = k->type, .from = k->from, .imm = k->imm};
  int ta = k->type, tb = k->type;
  if (k->op == P_SEL || k->op == P_LUT) ta = C_I32;
  if (k->op >= P_EQ && k->op <= P_LE) ta = tb = k->from;
  if (k->op == P_CVT || k->op == P_BITS) ta = k->from;
  if (k->op == P_PHILOX) ta = tb = C_I64;
  const bool two = k->op != P_CVT && k->op != P_BITS && k->op != P_LUT && k->op != P_NARROW;
  const bool three = k->op == P_FMA || k->op == P_SEL || k->op == P_PHILOX;
  const Reg a = as(P, ta, P->a), b = two ? as(P, tb, P->b) : 0, c = three ? as(P, tb, P->c) : 0;
  P->E.guard = P->guard; /* tables are memory */
  give(P, k->type, ty_ptx_primitive(&P->E, &in, ta, a, b, c));
  P->E.guard = 0;
}

Text ty_ptx_interpret(void) {
  Loop *P = ty_mem_zalloc(sizeof *P);
  int label[S_PRIM + KINDS_MOST];
  ty_once(&once, number_kinds);
  if (!P) return (Text){.failed = true};
  const int n = S_PRIM + nkinds, end = ty_ptx_begin(&P->E);
  begin(P);
  P->next = ty_ptx_label(&P->E), P->store = ty_ptx_label(&P->E);
  for (int i = 0; i < n; i++) label[i] = ty_ptx_label(&P->E);
  fetch(P, label, n);
  for (int i = 0; i < n; i++) {
    ty_ptx_here(&P->E, label[i]);
    if (i < S_FIXED) fixed(P, i, end);
    else if (i < S_PRIM) memory(P, i);
    else primitive(P, &kinds[i - S_PRIM]);
  }
  const Text t = ty_ptx_end(&P->E, end, 8 * INTERPRET_PARAMS, INTERPRET_THREADS);
  ty_mem_free(P);
  return t;
}
