/*
** x64_ops.c -- machine code of one operation.
** In:  a step and where its operands are.  Out: instructions, for all groups side by side. Cannot fail
** but by the assembler's flag.
**
** Whatever a sequence still needs of its operands it reads before it writes the result: the result may
** take the registers of an operand that dies. Temporaries: T(0) to T(2) may hold operands a, b, c
** where these are constants or scalars without a register; T(3) is always free.
** Bits are those of tile_loops.h; all NaNs are one value.
*/
#include "device/cpu/x64.h"

#define T(k) (E->temp + (k))
#define NAN4 0x7fc00000u
#define NAN8 0x7ff8000000000000u
enum {
  CMP_EQ = 0,
  CMP_UNORD = 3,
  CMP_ORD = 7,
  CMP_LT = 17,
  CMP_LE = 18,
  CMP_NEQ = 4,
  CMP_NLT = 21,
  CMP_NLE = 22,
  CMP_GE = 29
};

#define TWO_FLOATS(a, b) \
  { 0, 0, I_##a + 1, I_##b + 1 }
#define TWO_INTS(a, b) \
  { I_##a + 1, I_##b + 1, 0, 0 }
#define ALL_FOUR(a, b, c, d) \
  { I_##a + 1, I_##b + 1, I_##c + 1, I_##d + 1 }
/* Operations that are one instruction with two operands, by type of operands; 1 more. */
static const i16 pairs[P_COUNT][4] = {
    [P_ADD] = ALL_FOUR(vpaddd, vpaddq, vaddps, vaddpd),
    [P_SUB] = ALL_FOUR(vpsubd, vpsubq, vsubps, vsubpd),
    [P_MUL] = ALL_FOUR(vpmulld, vpmullq, vmulps, vmulpd),
    [P_DIV] = TWO_FLOATS(vdivps, vdivpd),
    [P_MIN] = TWO_INTS(vpminsd, vpminsq),
    [P_MAX] = TWO_INTS(vpmaxsd, vpmaxsq),
    [P_AND] = TWO_INTS(vandps, vandpd),
    [P_OR] = TWO_INTS(vorps, vorpd),
    [P_XOR] = TWO_INTS(vxorps, vxorpd),
    [P_SHL] = TWO_INTS(vpsllvd, vpsllvq),
    [P_SHR] = TWO_INTS(vpsravd, vpsravq),
    [P_SHRU] = TWO_INTS(vpsrlvd, vpsrlvq),
};
static const i16 shifts[P_COUNT][2] = {[P_SHL] = {I_vpslld, I_vpsllq},
                                       [P_SHR] = {I_vpsrad, I_vpsraq},
                                       [P_SHRU] = {I_vpsrld, I_vpsrlq}};

X64_QUICK bool is_8(int type) { return type == C_I64 || type == C_F64; }
X64_QUICK bool is_f(int type) { return type >= C_F32; }
X64_QUICK int bytes_of(int type) { return is_8(type) ? 8 : 4; }
static bool commutes(int op) {
  return op == P_ADD || op == P_MUL || op == P_MIN || op == P_MAX || op == P_AND || op == P_OR ||
         op == P_XOR;
}
static bool has(int ins, bool wide) { return x64_rows[ins].flags & (wide ? EVEX : VEX); }

/* A number that is neither NaN nor zero. */
static bool is_plain(u64 bits, int size) {
  u64 a = size == 8 ? bits << 1 : (u64)(u32)bits << 33;
  u64 inf = size == 8 ? 0x7ff0000000000000u << 1 : (u64)0x7f800000 << 33;
  return a && a <= inf;
}
static const XVal *plain_const(const Emit *E, i32 slot, int size) {
  const XVal *v = &E->val[ty_x64_root(E, slot)];
  return v->kind == V_CONST && is_plain(v->bits, size) ? v : NULL;
}

bool ty_x64_can(const Step *s, bool wide) {
  int type = s->type, op = s->op;
  switch (op) {
  case P_FMA:
  case P_SQRT:
  case P_FLOOR:
  case P_CEIL:
  case P_TRUNC:
  case P_RINT: return is_f(type);
  case P_NEG:
  case P_ABS:
  case P_MIN:
  case P_MAX:
  case P_MUL:
  case P_SHR:
  case P_MULHI: return true;
  case P_EQ:
  case P_LT:
  case P_LE:
  case P_SEL: return true;
  case P_BITS: return is_f(type);
  case P_LUT:
  case P_PHILOX: return true;
  case P_NARROW:
  case P_CVT: return true;
  default: break;
  }
  return pairs[op][type] && has(pairs[op][type] - 1, wide);
}

i32 ty_x64_temps(const Step *s, bool wide) {
  if (s->kind != S_CALL) return TEMPS;
  bool long_cvt =
      s->op == P_CVT && !wide && ((s->type == C_I64 && s->to == C_F32) || s->to == C_I64);
  return s->op == P_PHILOX ? TEMPS_PHILOX : s->op == P_MULHI || long_cvt ? TEMPS_MORE : TEMPS;
}

static const u8 reduce_ops[] = {P_ADD, P_MUL, P_MAX, P_MIN};

bool ty_x64_can_reduce(const Step *s, bool wide) {
  Step call = *s;
  call.op = reduce_ops[s->op];
  return ty_x64_can(&call, wide);
}

bool ty_x64_wants_reg(const Emit *E, const Step *s, int k) {
  if (s->op == P_FMA) return k == 2;
  if (s->op == P_SEL) return false;
  if (s->op == P_MIN || s->op == P_MAX)
    return is_f(s->type) && plain_const(E, k ? s->b : s->a, bytes_of(s->type)) != NULL;
  if (commutes(s->op)) return false;
  return k == 0;
}

/* ---- small words ------------------------------------------------------------------------------ */

static void op3(Emit *E, int ins, int vl, int d, int a, X64Rm b) {
  ty_x64_v(E, (X64Ins)ins, vl, d, a, b, -1, 0, false);
}
static void op2(Emit *E, int ins, int vl, int d, X64Rm a) {
  ty_x64_v(E, (X64Ins)ins, vl, d, 0, a, -1, 0, false);
}
static void op2i(Emit *E, int ins, int vl, int d, X64Rm a, int imm) {
  ty_x64_v(E, (X64Ins)ins, vl, d, 0, a, imm, 0, false);
}
/* d = a shifted: the result stands in vvvv. */
static void shift(Emit *E, int ins, int vl, int d, X64Rm a, int n) {
  ty_x64_v(E, (X64Ins)ins, vl, 0, d, a, n, 0, false);
}
static void move(Emit *E, int size, int d, X64Rm a) {
  if (a.reg == d) return;
  int vl = ty_x64_vl(E, size);
  if (a.bcst) {
    a.bcst = false;
    op2(E, size == 8 ? I_vbroadcastsd : I_vbroadcastss, vl, d, a);
  } else op2(E, a.reg >= 0 ? I_vmovaps : size == 8 ? I_vmovupd : I_vmovups, vl, d, a);
}
static void zero(Emit *E, int size, int d) {
  op3(E, I_vxorps, ty_x64_vl(E, size), d, d, x64_reg(d));
}
/* AVX-512: lanes under mask k become the constant; `rest`: the others 0. */
static void set(Emit *E, int size, int d, u64 bits, int k, bool rest) {
  X64Rm m = ty_x64_k(E, bits, size);
  m.bcst = false;
  ty_x64_v(E, size == 8 ? I_vbroadcastsd : I_vbroadcastss, ty_x64_vl(E, size), d, 0, m, -1, k,
           rest);
}
static void compare(Emit *E, int size, int to, int a, X64Rm b, int imm) {
  ty_x64_v(E, size == 8 ? I_vcmppd : I_vcmpps, ty_x64_vl(E, size), to, a, b, imm, 0, false);
}
/* AVX2: y = mask ? b : c, by the sign of the lanes of mask. */
static void blend(Emit *E, int size, int d, int c, X64Rm b, int mask) {
  ty_x64_v(E, size == 8 ? I_vblendvpd : I_vblendvps, ty_x64_vl(E, size), d, c, b, mask << 4, 0,
           false);
}
/* AVX2: masks (or the low halves) of 8-byte lanes as 4-byte lanes; uses t. */
static void shrink(Emit *E, int d, int a, int t) {
  x64_vector(&E->A, I_vextracti128, VL256, a, 0, x64_reg(t), 1, 0, false, false);
  ty_x64_v(E, I_vshufps, VL128, d, a, x64_reg(t), 0x88, 0, false);
}

/* ---- 64-bit integers ---------------------------------------------------------------------------- */

/* The upper half of the unsigned product, by halves of 32 bits; uses T(2) to T(5). */
static void multiply_high(Emit *E, int d, int a, int b) {
  int vl = E->vl[1], high = T(2), mid = T(5), low = T(4), t = T(3);
  shift(E, I_vpsrlq, vl, high, x64_reg(a), 32);
  shift(E, I_vpsrlq, vl, t, x64_reg(b), 32);
  op3(E, I_vpmuludq, vl, low, a, x64_reg(b));
  op3(E, I_vpmuludq, vl, mid, high, x64_reg(b));
  shift(E, I_vpsrlq, vl, low, x64_reg(low), 32);
  op3(E, I_vpaddq, vl, mid, mid, x64_reg(low)); /* cannot overflow, nor the one below */
  op3(E, I_vpmuludq, vl, low, a, x64_reg(t));
  op3(E, I_vpmuludq, vl, high, high, x64_reg(t));
  op3(E, I_vandpd, vl, t, mid, ty_x64_k(E, 0xffffffffu, 8));
  op3(E, I_vpaddq, vl, low, low, x64_reg(t));
  shift(E, I_vpsrlq, vl, mid, x64_reg(mid), 32);
  shift(E, I_vpsrlq, vl, low, x64_reg(low), 32);
  op3(E, I_vpaddq, vl, high, high, x64_reg(mid));
  op3(E, I_vpaddq, vl, d, high, x64_reg(low));
}

/* What AVX2 has no instruction for; uses T(2) and T(3). */
static void long_pair(Emit *E, int op, int d, int a, int b) {
  int vl = E->vl[1], t = T(2), z = T(3);
  switch (op) {
  case P_MUL:
    shift(E, I_vpsrlq, vl, t, x64_reg(a), 32);
    shift(E, I_vpsrlq, vl, z, x64_reg(b), 32);
    op3(E, I_vpmuludq, vl, t, t, x64_reg(b));
    op3(E, I_vpmuludq, vl, z, z, x64_reg(a));
    op3(E, I_vpaddq, vl, t, t, x64_reg(z));
    shift(E, I_vpsllq, vl, t, x64_reg(t), 32);
    op3(E, I_vpmuludq, vl, z, a, x64_reg(b));
    op3(E, I_vpaddq, vl, d, t, x64_reg(z));
    break;
  case P_SHR: /* the sign bit goes along, and is subtracted where it was set */
    move(E, 8, z, ty_x64_k(E, (u64)1 << 63, 8));
    op3(E, I_vpsrlvq, vl, z, z, x64_reg(b));
    op3(E, I_vpsrlvq, vl, t, a, x64_reg(b));
    op3(E, I_vxorpd, vl, t, t, x64_reg(z));
    op3(E, I_vpsubq, vl, d, t, x64_reg(z));
    break;
  default:
    op3(E, I_vpcmpgtq, vl, z, a, x64_reg(b));
    blend(E, 8, d, op == P_MAX ? b : a, x64_reg(op == P_MAX ? a : b), z);
  }
}

/* The sign of x to all bits of T(3). */
static void long_sign(Emit *E, int x) {
  zero(E, 8, T(3));
  op3(E, I_vpcmpgtq, E->vl[1], T(3), T(3), x64_reg(x));
}

/* AVX2: halves become floats by their place in the fraction; one addition then rounds. */
static void long_to_f64(Emit *E, int d, int x) {
  int vl = E->vl[1];
  shift(E, I_vpsrlq, vl, T(3), x64_reg(x), 32);
  op3(E, I_vandpd, vl, T(2), x, ty_x64_k(E, 0xffffffffu, 8));
  op3(E, I_vxorpd, vl, T(3), T(3), ty_x64_k(E, 0x4530000080000000u, 8)); /* 2^84, 2^63 up */
  op3(E, I_vorpd, vl, T(2), T(2), ty_x64_k(E, 0x4330000000000000u, 8));  /* 2^52 */
  op3(E, I_vsubpd, vl, T(3), T(3), ty_x64_k(E, 0x4530000080100000u, 8));
  op3(E, I_vaddpd, vl, d, T(3), x64_reg(T(2)));
}

/* By way of f64; beyond 2^53 the bits that it has no room for become one, so that only the last step
** rounds. Uses T(2) to T(5). */
static void long_to_f32(Emit *E, int d, int x) {
  int vl = E->vl[1], cut = T(4), beyond = T(5);
  X64Rm low = ty_x64_k(E, 0x7ff, 8);
  op3(E, I_vandpd, vl, cut, x, low);
  op3(E, I_vpaddq, vl, cut, cut, low);
  op3(E, I_vorpd, vl, cut, cut, x64_reg(x));
  op3(E, I_vandpd, vl, cut, cut, ty_x64_k(E, ~(u64)0x7ff, 8));
  long_sign(E, x);
  op3(E, I_vxorpd, vl, beyond, x, x64_reg(T(3)));
  op3(E, I_vpcmpgtq, vl, beyond, beyond, ty_x64_k(E, (u64)1 << 53, 8));
  blend(E, 8, cut, x, x64_reg(cut), beyond);
  long_to_f64(E, cut, cut);
  op2(E, I_vcvtpd2ps, vl, d, x64_reg(cut));
}

/* Towards zero, saturating, NaN 0. Whole numbers are taken apart into halves. Uses T(2) to T(5). */
static void f64_to_long(Emit *E, int d, int x) {
  int vl = E->vl[1], low = T(2), high = T(3), t = T(4), top = T(5);
  op2i(E, I_vroundpd, vl, low, x64_reg(x), 11);
  compare(E, 8, top, x, ty_x64_k(E, 0x43e0000000000000u, 8), CMP_GE); /* 2^63 */
  op3(E, I_vmaxpd, vl, low, low, ty_x64_k(E, 0xc3e0000000000000u, 8));
  op3(E, I_vmulpd, vl, high, low, ty_x64_k(E, 0x3df0000000000000u, 8)); /* 2^-32 */
  op2i(E, I_vroundpd, vl, high, x64_reg(high), 9);
  op3(E, I_vmulpd, vl, t, high, ty_x64_k(E, 0x41f0000000000000u, 8)); /* 2^32 */
  op3(E, I_vsubpd, vl, low, low, x64_reg(t));
  op3(E, I_vaddpd, vl, high, high, ty_x64_k(E, 0x4338000000000000u, 8)); /* 1.5 * 2^52 */
  op3(E, I_vaddpd, vl, low, low, ty_x64_k(E, 0x4330000000000000u, 8));
  shift(E, I_vpsllq, vl, high, x64_reg(high), 32);
  op3(E, I_vandpd, vl, low, low, ty_x64_k(E, 0xffffffffu, 8));
  op3(E, I_vorpd, vl, low, low, x64_reg(high));
  blend(E, 8, low, low, ty_x64_k(E, INT64_MAX, 8), top);
  compare(E, 8, high, x, x64_reg(x), CMP_ORD);
  op3(E, I_vandpd, vl, d, low, x64_reg(high));
}

/* ---- minimum and maximum ---------------------------------------------------------------------- */

/* Floats: d = the extreme of a and b; uses T(2) and T(3). */
static void extreme(Emit *E, bool max, int size, int d, int a, X64Rm b) {
  int vl = ty_x64_vl(E, size);
  bool f8 = size == 8;
  if (E->wide) {
    compare(E, size, K_A, a, b, CMP_UNORD);
    ty_x64_v(E, f8 ? I_vrangepd : I_vrangeps, vl, d, a, b, 4 + max, 0, false);
    set(E, size, d, f8 ? NAN8 : NAN4, K_A, false);
    return;
  }
  int ins = max ? f8 ? I_vmaxpd : I_vmaxps : f8 ? I_vminpd : I_vminps;
  op3(E, ins, vl, T(2), a, b);
  op3(E, ins, vl, T(3), b.reg, x64_reg(a));
  op3(E, max ? I_vandps : I_vorps, vl, T(2), T(2), x64_reg(T(3)));
  compare(E, size, T(3), a, b, CMP_UNORD);
  blend(E, size, d, T(2), ty_x64_k(E, f8 ? NAN8 : NAN4, size), T(3));
}

static void emit_extreme(Emit *E, const Step *s) {
  int size = bytes_of(s->type), vl = ty_x64_vl(E, size);
  bool max = s->op == P_MAX, fa = plain_const(E, s->a, size) != NULL;
  if (fa || plain_const(E, s->b, size)) {
    /* Against a number that is no zero the instruction is right, its second operand passing NaNs. */
    XOpd k = ty_x64_operand(E, fa ? s->a : s->b, true, T(0)),
         x = ty_x64_operand(E, fa ? s->b : s->a, false, T(1));
    int ins = size == 8 ? max ? I_vmaxpd : I_vminpd : max ? I_vmaxps : I_vminps;
    ty_x64_done(E);
    int d = ty_x64_result(E, s->y);
    for (int u = 0; u < E->u; u++) op3(E, ins, vl, d + u, ty_x64_of(&k, u).reg, ty_x64_of(&x, u));
    return;
  }
  XOpd a = ty_x64_operand(E, s->a, true, T(0)), b = ty_x64_operand(E, s->b, !E->wide, T(1));
  ty_x64_done(E);
  int d = ty_x64_result(E, s->y);
  for (int u = 0; u < E->u; u++)
    extreme(E, max, size, d + u, ty_x64_of(&a, u).reg, ty_x64_of(&b, u));
}

/* ---- comparisons and selections ---------------------------------------------------------------- */

/* An integer comparison on AVX2 as a vector of ones; true when it came out inverted. */
static bool compare_ints(Emit *E, int op, int size, int d, int a, int b) {
  int vl = ty_x64_vl(E, size);
  if (op == P_EQ) op3(E, size == 8 ? I_vpcmpeqq : I_vpcmpeqd, vl, d, a, x64_reg(b));
  else if (op == P_LT) op3(E, size == 8 ? I_vpcmpgtq : I_vpcmpgtd, vl, d, b, x64_reg(a));
  else op3(E, size == 8 ? I_vpcmpgtq : I_vpcmpgtd, vl, d, a, x64_reg(b));
  return op == P_LE;
}

/* The comparison s of a and b: into mask register K_A, or as ones into T(3) (AVX2). Inverted where
** asked for (AVX-512); returns whether it is the wrong way round. */
static bool compare_step(Emit *E, const Step *s, int a, X64Rm b, bool invert) {
  static const u8 floats[2][3] = {{CMP_EQ, CMP_LT, CMP_LE}, {CMP_NEQ, CMP_NLT, CMP_NLE}};
  static const u8 ints[2][3] = {{0, 1, 2}, {4, 5, 6}};
  int size = bytes_of(s->type), which = s->op - P_EQ;
  if (is_f(s->type)) compare(E, size, E->wide ? K_A : T(3), a, b, floats[invert && E->wide][which]);
  else if (E->wide)
    ty_x64_v(E, size == 8 ? I_vpcmpq : I_vpcmpd, ty_x64_vl(E, size), K_A, a, b, ints[invert][which],
             0, false);
  else return compare_ints(E, s->op, size, T(3), a, b.reg);
  return false;
}

static void emit_compare(Emit *E, const Step *s) {
  bool regs = !E->wide && !is_f(s->type);
  XOpd a = ty_x64_operand(E, s->a, true, T(0)), b = ty_x64_operand(E, s->b, regs, T(1));
  ty_x64_done(E);
  int d = ty_x64_result(E, s->y), vl = E->vl[0];
  for (int u = 0; u < E->u; u++) {
    bool inverted = compare_step(E, s, ty_x64_of(&a, u).reg, ty_x64_of(&b, u), false);
    if (E->wide) {
      set(E, 4, d + u, 1, K_A, true);
      continue;
    }
    if (is_8(s->type)) shrink(E, T(3), T(3), T(2));
    op3(E, inverted ? I_vandnps : I_vandps, vl, d + u, T(3), ty_x64_k(E, 1, 4));
  }
}

static void emit_select(Emit *E, const Step *s) {
  int size = bytes_of(s->type), vl = ty_x64_vl(E, size);
  const XVal *cond = &E->val[ty_x64_root(E, s->a)];
  const Step *by = cond->kind == V_LAZY ? &E->code->step[cond->def] : NULL;
  i32 sb = s->b, sc = s->c;
  /* b may lie in memory, c may not. AVX-512 can turn the comparison round; on AVX2 some only come the
  ** wrong way. */
  bool turn = by && E->wide && ty_x64_uniform(E, sc) && !ty_x64_uniform(E, sb);
  bool wrong = !E->wide && (!by || (by->op == P_LE && !is_f(by->type)));
  if (turn || wrong) sb = s->c, sc = s->b;
  XOpd p = ty_x64_operand(E, by ? by->a : s->a, true, T(0)), q = {.step = 0};
  if (by) q = ty_x64_operand(E, by->b, !E->wide && !is_f(by->type), T(1));
  XOpd b = ty_x64_operand(E, sb, false, T(2)), c = ty_x64_operand(E, sc, true, T(2));
  ty_x64_done(E);
  int d = ty_x64_result(E, s->y);
  for (int u = 0; u < E->u; u++) {
    X64Rm pu = ty_x64_of(&p, u), bu = ty_x64_of(&b, u), cu = ty_x64_of(&c, u);
    if (E->wide) {
      if (by) compare_step(E, by, pu.reg, ty_x64_of(&q, u), turn);
      else ty_x64_v(E, I_vptestmd, E->vl[0], K_A, pu.reg, pu, -1, 0, false);
      ty_x64_v(E, size == 8 ? I_vpblendmq : I_vpblendmd, vl, d + u, cu.reg, bu, -1, K_A, false);
      continue;
    }
    int from = 4;
    if (by) compare_step(E, by, pu.reg, ty_x64_of(&q, u), false), from = bytes_of(by->type);
    else {
      zero(E, 4, T(3));
      op3(E, I_vpcmpeqd, E->vl[0], T(3), T(3), pu);
    }
    /* Masks of another width go by way of the second temporary, whose operand is compared already;
    ** where it is the same for all groups it is read again. */
    if (from == 8 && size == 4) {
      shrink(E, T(3), T(3), T(0));
      if (p.m.reg == T(0)) p = ty_x64_operand(E, by->a, true, T(0));
    } else if (from == 4 && size == 8) op2(E, I_vpmovsxdq, E->vl[1], T(3), x64_reg(T(3)));
    blend(E, size, d + u, cu.reg, bu, T(3));
  }
}

/* ---- fma ---------------------------------------------------------------------------------------- */

static void emit_fma(Emit *E, const Step *s) {
  int size = bytes_of(s->type), vl = ty_x64_vl(E, size), f8 = size == 8;
  XOpd a = ty_x64_operand(E, s->a, false, 0), b = ty_x64_operand(E, s->b, false, 0);
  XOpd c = ty_x64_operand(E, s->c, false, 0);
  i32 sa = s->a, sb = s->b;
  int d, ins;
  if (!c.dies && !a.dies && b.dies) {
    XOpd t = a;
    a = b, b = t, sa = s->b, sb = s->a;
  }
  if (!c.dies && a.dies) { /* in a's place: as factor */
    if (c.m.reg < 0 && b.m.reg < 0) b = ty_x64_operand(E, sb, true, T(1)); /* may load */
    bool c_mem = c.m.reg < 0;
    ty_x64_done(E);
    d = ty_x64_take(E, s->y, a.m.reg);
    ins = c_mem ? f8 ? I_vfmadd213pd : I_vfmadd213ps : f8 ? I_vfmadd132pd : I_vfmadd132ps;
    for (int u = 0; u < E->u; u++) {
      X64Rm bu = ty_x64_of(&b, u), cu = ty_x64_of(&c, u);
      if (c_mem) op3(E, ins, vl, d + u, bu.reg, cu);
      else op3(E, ins, vl, d + u, cu.reg, bu);
    }
    return;
  }
  if (a.m.reg < 0 && b.m.reg >= 0) {
    XOpd t = a;
    a = b, b = t, sa = s->b, sb = s->a;
  }
  if (a.m.reg < 0) a = ty_x64_operand(E, sa, true, T(0));
  ins = f8 ? I_vfmadd231pd : I_vfmadd231ps;
  if (c.dies) {
    ty_x64_done(E);
    d = ty_x64_take(E, s->y, c.m.reg);
  } else {
    d = ty_x64_result(E, s->y);
    for (int u = 0; u < E->u; u++) move(E, size, d + u, ty_x64_of(&c, u));
  }
  for (int u = 0; u < E->u; u++) op3(E, ins, vl, d + u, ty_x64_of(&a, u).reg, ty_x64_of(&b, u));
}

/* ---- one operand -------------------------------------------------------------------------------- */

static void to_bf16(Emit *E, int d, int x) { /* rounded, in the upper half; uses T(2), T(3) */
  int vl = E->vl[0], t = T(3);
  if (E->wide) compare(E, 4, K_A, x, x64_reg(x), CMP_UNORD);
  else compare(E, 4, T(2), x, x64_reg(x), CMP_UNORD);
  shift(E, I_vpsrld, vl, t, x64_reg(x), 16);
  op3(E, I_vandps, vl, t, t, ty_x64_k(E, 1, 4));
  op3(E, I_vpaddd, vl, t, t, x64_reg(x));
  op3(E, I_vpaddd, vl, t, t, ty_x64_k(E, 0x7fff, 4));
  op3(E, I_vandps, vl, E->wide ? d : t, t, ty_x64_k(E, 0xffff0000u, 4));
  if (E->wide) set(E, 4, d, NAN4, K_A, false);
  else blend(E, 4, d, t, ty_x64_k(E, NAN4, 4), T(2));
}

static void narrow(Emit *E, int dtype, int d, int x) {
  int vl = E->vl[0], n = dtype == T_I16 ? 16 : 24;
  switch (dtype) {
  case T_BOOL:
    if (E->wide) {
      ty_x64_v(E, I_vptestmd, vl, K_A, x, x64_reg(x), -1, 0, false);
      set(E, 4, d, 1, K_A, true);
    } else {
      zero(E, 4, T(3));
      op3(E, I_vpcmpeqd, vl, T(3), T(3), x64_reg(x));
      op3(E, I_vandnps, vl, d, T(3), ty_x64_k(E, 1, 4));
    }
    break;
  case T_U8: op3(E, I_vandps, vl, d, x, ty_x64_k(E, 255, 4)); break;
  case T_I8:
  case T_I16:
    shift(E, I_vpslld, vl, d, x64_reg(x), n);
    shift(E, I_vpsrad, vl, d, x64_reg(d), n);
    break;
  case T_F16:
    x64_vector(&E->A, I_vcvtps2ph, vl, x, 0, x64_reg(T(3)), 0, 0, false, false);
    op2(E, I_vcvtph2ps, vl, d, x64_reg(T(3)));
    break;
  case T_BF16: to_bf16(E, d, x); break;
  default: move(E, dtype == T_I64 || dtype == T_F64 ? 8 : 4, d, x64_reg(x));
  }
}

/* Towards zero, saturating, NaN 0: what does not fit comes out as the lowest number. */
static void float_to_int(Emit *E, int from, int to, int d, int x) {
  static const u64 high[4] = {0x4f000000u, 0x5f000000u, 0x41e0000000000000u, 0x43e0000000000000u};
  int size = bytes_of(from), out = bytes_of(to);
  X64Rm top = ty_x64_k(E, high[(size == 8) * 2 + (out == 8)], size);
  int ins = from == C_F32 ? to == C_I32 ? I_vcvttps2dq : I_vcvttps2qq
            : to == C_I32 ? I_vcvttpd2dq
                          : I_vcvttpd2qq;
  int vl = ty_x64_vl(E, TY_MAX(size, out));
  if (E->wide) {
    compare(E, size, K_A, x, top, CMP_GE);
    compare(E, size, K_B, x, x64_reg(x), CMP_UNORD);
    op2(E, ins, vl, d, x64_reg(x));
    set(E, out, d, out == 8 ? INT64_MAX : INT32_MAX, K_A, false);
    ty_x64_v(E, out == 8 ? I_vxorpd : I_vxorps, ty_x64_vl(E, out), d, d, x64_reg(d), -1, K_B,
             false);
    return;
  }
  compare(E, size, T(2), x, top, CMP_GE);
  compare(E, size, T(3), x, x64_reg(x), CMP_ORD);
  if (size == 8) shrink(E, T(2), T(2), T(1)), shrink(E, T(3), T(3), T(1));
  op2(E, ins, vl, d, x64_reg(x));
  op3(E, I_vxorps, E->vl[0], d, d, x64_reg(T(2)));
  op3(E, I_vandps, E->vl[0], d, d, x64_reg(T(3)));
}

static void convert(Emit *E, int from, int to, int d, int x) {
  static const i16 table[4][4] = {
      [C_I32] = {0, I_vpmovsxdq, I_vcvtdq2ps, I_vcvtdq2pd},
      [C_I64] = {0, 0, I_vcvtqq2ps, I_vcvtqq2pd},
      [C_F32] = {0, 0, 0, I_vcvtps2pd},
      [C_F64] = {0, 0, I_vcvtpd2ps, 0},
  };
  if (!E->wide && from == C_I64 && is_f(to)) {
    if (to == C_F64) long_to_f64(E, d, x);
    else long_to_f32(E, d, x);
  } else if (!E->wide && to == C_I64 && is_f(from)) {
    if (from == C_F32) op2(E, I_vcvtps2pd, E->vl[1], T(1), x64_reg(x));
    f64_to_long(E, d, from == C_F32 ? T(1) : x);
  } else if (is_f(from) && !is_f(to)) float_to_int(E, from, to, d, x);
  else if (from == C_I64 && to == C_I32) {
    if (E->wide) x64_vector(&E->A, I_vpmovqd, E->vl[1], x, 0, x64_reg(d), -1, 0, false, false);
    else shrink(E, d, x, T(3));
  } else op2(E, table[from][to], ty_x64_vl(E, is_8(from) || is_8(to) ? 8 : 4), d, x64_reg(x));
}

static void unary(Emit *E, const Step *s, int d, int x) {
  int type = s->type, size = bytes_of(type), vl = ty_x64_vl(E, size), f8 = size == 8;
  u64 sign = f8 ? (u64)1 << 63 : 0x80000000u;
  static const u8 modes[] = {9, 10, 11, 8}; /* floor, ceil, trunc, rint */
  switch (s->op) {
  case P_SQRT: op2(E, f8 ? I_vsqrtpd : I_vsqrtps, vl, d, x64_reg(x)); break;
  case P_FLOOR:
  case P_CEIL:
  case P_TRUNC:
  case P_RINT:
    op2i(E,
         E->wide ? f8 ? I_vrndscalepd : I_vrndscaleps
         : f8    ? I_vroundpd
                 : I_vroundps,
         vl, d, x64_reg(x), modes[s->op - P_FLOOR]);
    break;
  case P_NEG:
    if (is_f(type)) op3(E, f8 ? I_vxorpd : I_vxorps, vl, d, x, ty_x64_k(E, sign, size));
    else {
      zero(E, size, T(3));
      op3(E, f8 ? I_vpsubq : I_vpsubd, vl, d, T(3), x64_reg(x));
    }
    break;
  case P_ABS:
    if (is_f(type)) op3(E, f8 ? I_vandpd : I_vandps, vl, d, x, ty_x64_k(E, sign - 1, size));
    else if (f8 && !E->wide) {
      long_sign(E, x);
      op3(E, I_vxorpd, vl, T(2), x, x64_reg(T(3)));
      op3(E, I_vpsubq, vl, d, T(2), x64_reg(T(3)));
    } else op2(E, f8 ? I_vpabsq : I_vpabsd, vl, d, x64_reg(x));
    break;
  case P_BITS:
    if (E->wide) {
      compare(E, size, K_A, x, x64_reg(x), CMP_UNORD);
      move(E, size, d, x64_reg(x));
      set(E, size, d, f8 ? NAN8 : NAN4, K_A, false);
    } else {
      compare(E, size, T(3), x, x64_reg(x), CMP_UNORD);
      blend(E, size, d, x, ty_x64_k(E, f8 ? NAN8 : NAN4, size), T(3));
    }
    break;
  case P_NARROW: narrow(E, (int)s->imm, d, x); break;
  default: convert(E, type, s->to, d, x); break;
  }
}

static void emit_unary(Emit *E, const Step *s) {
  XOpd a = ty_x64_operand(E, s->a, true, T(0));
  ty_x64_done(E);
  int d = ty_x64_result(E, s->y);
  for (int u = 0; u < E->u; u++) unary(E, s, d + u, ty_x64_of(&a, u).reg);
}

static void emit_lut(Emit *E, const Step *s) {
  XOpd a = ty_x64_operand(E, s->a, true, T(0));
  int d = ty_x64_result(E, s->y); /* may not be the index */
  int size = E->code->slot[s->y].size, vl = ty_x64_vl(E, size);
  x64_mov64(&E->A, RAX, (u64)(uintptr_t)ty_luts[s->imm].data);
  for (int u = 0; u < E->u; u++) {
    X64Rm m = x64_mem(RAX, ty_x64_of(&a, u).reg, size == 8 ? 3 : 2, 0);
    if (E->wide) {
      if (E->tail) x64_kcopy(&E->A, K_A, ty_x64_mask(E, E->g0 + u));
      else x64_kones(&E->A, K_A);
    } else op3(E, I_vpcmpeqd, vl, T(3), T(3), x64_reg(T(3)));
    zero(E, size, d + u); /* it waits for the old value otherwise */
    ty_x64_v(E, size == 8 ? I_vgatherdpd : I_vgatherdps, vl, d + u, E->wide ? 0 : T(3), m, -1,
             E->wide ? K_A : 0, false);
  }
}

/* d ^= a ^ b, in 64-bit lanes; a is the one that comes late. */
static void xor3(Emit *E, int d, int a, X64Rm b) {
  enum { ODD = 0x96 }; /* the table of: one or three of three bits */
  int vl = E->vl[1];
  if (E->wide) {
    ty_x64_v(E, I_vpternlogd, vl, d, a, b, ODD, 0, false);
    return;
  }
  op3(E, I_vxorpd, vl, d, d, b);
  op3(E, I_vxorpd, vl, d, d, x64_reg(a));
}

/* From the keys of one round to those of the next. */
static void next_keys(Emit *E, int k0, int k1) {
  op3(E, I_vpaddq, E->vl[1], k0, k0, ty_x64_k(E, 0x9e3779b9u, 8));
  op3(E, I_vpaddq, E->vl[1], k1, k1, ty_x64_k(E, 0xbb67ae85u, 8));
}

void ty_x64_round_keys(Emit *E, int key, i32 at) {
  int k0 = T(0), k1 = T(1);
  move(E, 8, k0, x64_reg(key));
  shift(E, I_vpsrlq, E->vl[1], k1, x64_reg(k0), 32);
  for (i32 i = 0; i < PHILOX_ROUNDS; i++, at += 2 * E->vb) {
    if (i) next_keys(E, k0, k1);
    x64_vector(&E->A, I_vmovupd, E->vl[1], k0, 0, x64_mem(RSP, RNONE, 0, at), -1, 0, false, true);
    x64_vector(&E->A, I_vmovupd, E->vl[1], k1, 0, x64_mem(RSP, RNONE, 0, at + E->vb), -1, 0, false,
               true);
  }
}

/* Of four words, as bits, those that a round reads to make the words `made`: word 0 comes from words 1 and 2, word 1
** from 2, word 2 from 3 and 0, word 3 from 0. */
static u32 words_read(u32 made) {
  static const u8 read[4] = {1 << 1 | 1 << 2, 1 << 2, 1 << 3 | 1 << 0, 1 << 0};
  u32 m = 0;
  for (int i = 0; i < 4; i++) m |= made >> i & 1 ? read[i] : 0;
  return m;
}

/* Philox4x32-10 in 64-bit lanes, of which the low halves count: the product of two words is then one
** instruction. More temporaries than others: registers change roles instead of being copied. Each round waits for the
** one before, so two groups take turns where all registers are to be had, `keys` being where the round keys lie in the
** frame; -1: they are made here. The last rounds make what is read of them alone. */
static void philox(Emit *E, const Step *s, int nwords, const int *d, int u, int n, const XOpd *a,
                   const XOpd *b, const XOpd *c, i32 keys) {
  static const u8 temps[2][4] = {{4, 5, 6, 7}, {2, 8, 9, 10}};
  int vl = E->vl[1], w[2][4], k0 = T(8), k1 = T(9), t = T(3);
  u32 made[PHILOX_ROUNDS] = {0};
  for (int i = 0; i < nwords; i++) made[PHILOX_ROUNDS - 1] |= 1u << s[i].imm;
  for (int r = PHILOX_ROUNDS - 1; r > 0; r--) made[r - 1] = words_read(made[r]);
  for (int g = 0; g < n; g++) {
    for (int i = 0; i < 4; i++) w[g][i] = T(temps[g][i]);
    const int x = ty_x64_of(a, u + g).reg, y = ty_x64_of(b, u + g).reg;
    move(E, 8, w[g][0], x64_reg(x)), move(E, 8, w[g][2], x64_reg(y));
    shift(E, I_vpsrlq, vl, w[g][1], x64_reg(x), 32);
    shift(E, I_vpsrlq, vl, w[g][3], x64_reg(y), 32);
  }
  if (keys < 0) {
    const int key = ty_x64_of(c, u).reg;
    move(E, 8, k0, x64_reg(key)), shift(E, I_vpsrlq, vl, k1, x64_reg(key), 32);
  }
  for (int round = 0; round < PHILOX_ROUNDS; round++) {
    const i32 at = keys + 2 * round * E->vb;
    const X64Rm key[2] = {keys < 0 ? x64_reg(k0) : x64_mem(RSP, RNONE, 0, at),
                          keys < 0 ? x64_reg(k1) : x64_mem(RSP, RNONE, 0, at + E->vb)};
    if (keys < 0 && round) next_keys(E, k0, k1);
    for (int g = 0; g < n; g++) {
      int *v = w[g], p = v[0], q = v[2], x = v[1], y = v[3];
      const u32 m = made[round];
      if (m & 12) op3(E, I_vpmuludq, vl, p, p, ty_x64_k(E, 0xd2511f53u, 8));
      if (m & 3) op3(E, I_vpmuludq, vl, q, q, ty_x64_k(E, 0xcd9e8d57u, 8));
      if (m & 1) shift(E, I_vpsrlq, vl, t, x64_reg(q), 32), xor3(E, x, t, key[0]);
      if (m & 4) shift(E, I_vpsrlq, vl, t, x64_reg(p), 32), xor3(E, y, t, key[1]);
      v[0] = x, v[1] = q, v[2] = y, v[3] = p;
    }
  }
  for (int g = 0; g < n; g++)
    for (int i = 0; i < nwords; i++) {
      const int from = w[g][s[i].imm], to = d[i] + u + g;
      if (E->wide) x64_vector(&E->A, I_vpmovqd, vl, from, 0, x64_reg(to), -1, 0, false, false);
      else shrink(E, to, from, t);
    }
}

static bool is_made(const XVal *v) { return v->group >= 0 || v->spill >= 0; }

/* Words of the same bits that the next steps want are made at once, as far as there is room. */
static void emit_philox(Emit *E, const Step *s) {
  enum { WORDS = 4 };
  if (is_made(&E->val[s->y])) {
    ty_x64_reg(E, s->y, T(0));
    return;
  }
  XOpd a = ty_x64_operand(E, s->a, true, T(0)), b = ty_x64_operand(E, s->b, true, T(1));
  const i32 keys = E->val[ty_x64_root(E, s->c)].keys;
  XOpd c = keys < 0 ? ty_x64_operand(E, s->c, true, T(2)) : a;
  ty_x64_done(E);
  int d[WORDS] = {ty_x64_result(E, s->y)}, n = 1;
  for (const Step *t = s + 1, *end = E->code->step + E->end; n < WORDS && t < end; t++, n++) {
    const bool same =
        t->kind == S_CALL && t->op == P_PHILOX && t->a == s->a && t->b == s->b && t->c == s->c;
    const XVal *y = &E->val[t->y];
    if (!same || is_made(y) || !(y->uses || y->escapes) || !ty_x64_has_room(E)) break;
    d[n] = ty_x64_result(E, t->y);
  }
  const int turn = keys < 0 ? 1 : 2;
  for (int u = 0; u < E->u; u += turn)
    philox(E, s, n, d, u, TY_MIN(turn, E->u - u), &a, &b, &c, keys);
}

static bool lacks(const Emit *E, int op, int type) {
  int ins = pairs[op][type] - 1;
  return ins < 0 || !has(ins, E->wide);
}

/* d = a op b, b being a register where there is no such instruction. */
static void pair(Emit *E, int op, int type, int d, int a, X64Rm b) {
  if (op == P_MULHI) multiply_high(E, d, a, b.reg);
  else if (lacks(E, op, type)) long_pair(E, op, d, a, b.reg);
  else op3(E, pairs[op][type] - 1, ty_x64_vl(E, bytes_of(type)), d, a, b);
}

/* AVX2 has no shift that keeps the sign of 8 bytes: its bits come from a comparison. */
static void shift_by(Emit *E, int op, int size, int d, X64Rm a, int by) {
  int vl = ty_x64_vl(E, size);
  if (op != P_SHR || size == 4 || E->wide) {
    shift(E, shifts[op][size == 8], vl, d, a, by);
    return;
  }
  long_sign(E, a.reg);
  shift(E, I_vpsllq, vl, T(3), x64_reg(T(3)), 64 - by); /* 64: nothing is left */
  shift(E, I_vpsrlq, vl, T(2), a, by);
  op3(E, I_vorpd, vl, d, T(2), x64_reg(T(3)));
}

static void emit_pair(Emit *E, const Step *s) {
  int size = bytes_of(s->type);
  const XVal *k = &E->val[ty_x64_root(E, s->b)];
  i32 sa = s->a, sb = s->b;
  if (s->op >= P_SHL && s->op <= P_SHRU && k->kind == V_CONST) {
    int by = (int)(k->bits & (u64)(size * 8 - 1));
    XOpd a = ty_x64_operand(E, sa, true, T(0));
    ty_x64_done(E);
    int d = ty_x64_result(E, s->y);
    for (int u = 0; u < E->u; u++) shift_by(E, s->op, size, d + u, ty_x64_of(&a, u), by);
    return;
  }
  if (commutes(s->op) && ty_x64_uniform(E, sa)) sa = s->b, sb = s->a;
  XOpd a = ty_x64_operand(E, sa, true, T(0));
  XOpd b = ty_x64_operand(E, sb, lacks(E, s->op, s->type), T(1));
  ty_x64_done(E);
  int d = ty_x64_result(E, s->y);
  for (int u = 0; u < E->u; u++)
    pair(E, s->op, s->type, d + u, ty_x64_of(&a, u).reg, ty_x64_of(&b, u));
}

void ty_x64_call(Emit *E, const Step *s) {
  switch (s->op) {
  case P_FMA: emit_fma(E, s); break;
  case P_SEL: emit_select(E, s); break;
  case P_EQ:
  case P_LT:
  case P_LE: emit_compare(E, s); break;
  case P_LUT: emit_lut(E, s); break;
  case P_PHILOX: emit_philox(E, s); break;
  case P_MIN:
  case P_MAX:
    if (is_f(s->type)) emit_extreme(E, s);
    else emit_pair(E, s);
    break;
  default:
    if (pairs[s->op][s->type] || s->op == P_MULHI) emit_pair(E, s);
    else emit_unary(E, s);
  }
}

/* ---- memory ------------------------------------------------------------------------------------- */

/* AVX2, narrow elements of the tail: rcx of them, one by one between memory and the frame. */
static void copy_tail(Emit *E, X64Rm m, int bytes, bool out) {
  Asm *A = &E->A;
  X64Rm at = x64_mem(RSP, R14, bytes - 1, E->pad), there;
  x64_lea(A, RAX, m);
  x64_rr(A, G_XOR, R14, R14);
  there = x64_mem(RAX, R14, bytes - 1, 0);
  size_t head = A->n;
  x64_plain(A, false, bytes == 1 ? 0x0fb6 : 0x0fb7, R15, out ? at : there);
  x64_say(A, "movzx r15d, %s ptr ", bytes == 1 ? "byte" : "word");
  x64_say_mem(A, out ? &at : &there, NULL), x64_say(A, "\n");
  X64Rm to = out ? there : at;
  if (bytes == 2) {
    static const u8 prefix = 0x66;
    x64_bytes(A, &prefix, 1);
  }
  x64_plain(A, false, bytes == 1 ? 0x88 : 0x89, R15, to);
  x64_say(A, "mov %s ptr ", bytes == 1 ? "byte" : "word");
  x64_say_mem(A, &to, NULL), x64_say(A, ", r15%s\n", bytes == 1 ? "b" : "w");
  x64_ri(A, 0, R14, 1);
  x64_rr(A, G_CMP, R14, RCX);
  x64_jump(A, J_B, head);
}

static int load_ins(int dtype) {
  static const i16 table[T_COUNT] = {
      [T_BOOL] = I_vpmovzxbd, [T_U8] = I_vpmovzxbd,  [T_I8] = I_vpmovsxbd,
      [T_I16] = I_vpmovsxwd,  [T_F16] = I_vcvtph2ps, [T_BF16] = I_vpmovzxwd};
  return table[dtype];
}

void ty_x64_load(Emit *E, const XVal *v, i32 slot, int dst) {
  int bytes = v->dtype >= 0 ? ty_dtypes[v->dtype].bytes : v->size, vl = ty_x64_vl(E, v->size);
  X64Rm m = ty_x64_at(E, slot, bytes, E->g0);
  int ins = bytes == 8 ? I_vmovupd : I_vmovups;
  if (bytes < 4) ins = load_ins(v->dtype);
  if (!E->tail && E->ahead && E->g0 * E->lanes * bytes % 64 == 0) x64_prefetch(&E->A, m, AHEAD);
  if (!E->tail) op2(E, ins, vl, dst, m);
  else if (E->wide) ty_x64_v(E, (X64Ins)ins, vl, dst, 0, m, -1, ty_x64_mask(E, E->g0), true);
  else if (bytes < 4) {
    copy_tail(E, m, bytes, false);
    op2(E, ins, vl, dst, x64_mem(RSP, RNONE, 0, E->pad));
  } else {
    ty_x64_mask_to(E, bytes, dst, E->g0);
    x64_vector(&E->A, bytes == 8 ? I_vmaskmovpd : I_vmaskmovps, vl, dst, dst, m, -1, 0, false,
               false);
  }
  if (bytes == 2 && v->dtype == T_BF16) shift(E, I_vpslld, vl, dst, x64_reg(dst), 16);
}

/* Whole vectors to memory, elements under the mask in the tail. */
static void store_vector(Emit *E, int size, X64Rm m, int x, i32 group) {
  int vl = ty_x64_vl(E, size), ins = size == 8 ? I_vmovupd : I_vmovups;
  if (!E->tail || E->wide) {
    x64_vector(&E->A, (X64Ins)ins, vl, x, 0, m, -1, ty_x64_mask(E, group), false, true);
    return;
  }
  ty_x64_mask_to(E, size, T(3), group);
  x64_vector(&E->A, size == 8 ? I_vmaskmovpd : I_vmaskmovps, vl, x, T(3), m, -1, 0, false, true);
}

/* AVX2: the low bytes of 4-byte lanes, packed, to memory; spoils x, which is a temporary. */
static void pack(Emit *E, int bytes, X64Rm m, int x) {
  bool half = E->vl[0] == VL256;
  op3(E, I_vandps, E->vl[0], x, x, ty_x64_k(E, bytes == 1 ? 255 : 65535, 4));
  if (half) x64_vector(&E->A, I_vextracti128, VL256, x, 0, x64_reg(T(3)), 1, 0, false, false);
  op3(E, I_vpackusdw, VL128, x, x, x64_reg(half ? T(3) : x));
  if (bytes == 1) op3(E, I_vpackuswb, VL128, x, x, x64_reg(x));
  int size = bytes * E->lanes;
  if (size == 16) x64_vector(&E->A, I_vmovups, VL128, x, 0, m, -1, 0, false, true);
  else x64_vector(&E->A, size == 8 ? I_vmovq : I_vmovd, VL128, x, 0, m, -1, 0, false, false);
}

static void store_narrow(Emit *E, int dtype, X64Rm m, int x, i32 group) {
  int vl = E->vl[0], bytes = ty_dtypes[dtype].bytes, k = E->wide ? ty_x64_mask(E, group) : 0,
      t = T(1);
  bool aside = E->tail && !E->wide;
  X64Rm to = aside ? x64_mem(RSP, RNONE, 0, E->pad) : m;
  if (dtype == T_F16) {
    if (E->wide) {
      compare(E, 4, K_A, x, x64_reg(x), CMP_UNORD);
      move(E, 4, t, x64_reg(x));
      set(E, 4, t, NAN4, K_A, false);
    } else {
      compare(E, 4, T(3), x, x64_reg(x), CMP_UNORD);
      blend(E, 4, t, x, ty_x64_k(E, NAN4, 4), T(3));
    }
    x64_vector(&E->A, I_vcvtps2ph, vl, t, 0, to, 0, k, false, false);
  } else {
    if (dtype == T_BF16) {
      to_bf16(E, t, x);
      shift(E, I_vpsrld, vl, t, x64_reg(t), 16);
    } else if (!E->wide) move(E, 4, t, x64_reg(x));
    else t = x;
    if (E->wide)
      x64_vector(&E->A, bytes == 1 ? I_vpmovdb : I_vpmovdw, vl, t, 0, to, -1, k, false, false);
    else pack(E, bytes, to, t);
  }
  if (aside) copy_tail(E, m, bytes, true);
}

/* AVX2: bytes without a sign of four groups at once. Packing goes by halves of vectors, which then come in
** order. */
static void store_bytes(Emit *E, X64Rm m, const XOpd *a) {
  int vl = E->vl[0], x = T(1), y = T(2), order = T(3);
  op3(E, I_vpackssdw, vl, x, ty_x64_of(a, 0).reg, ty_x64_of(a, 1));
  op3(E, I_vpackssdw, vl, y, ty_x64_of(a, 2).reg, ty_x64_of(a, 3));
  op3(E, I_vpackuswb, vl, x, x, x64_reg(y));
  if (vl == VL256) {
    op2(E, I_vpmovzxbd, vl, order, ty_x64_k(E, 0x0703060205010400u, 8));
    op3(E, I_vpermd, vl, x, order, x64_reg(x));
  }
  x64_vector(&E->A, I_vmovups, vl, x, 0, m, -1, 0, false, true);
}

void ty_x64_store(Emit *E, const Step *s) {
  int dtype = E->p->operand[s->imm].dtype, bytes = ty_dtypes[dtype].bytes;
  XOpd a = ty_x64_operand(E, s->a, true, T(0));
  if (!E->wide && !E->tail && E->u == 4 && (dtype == T_BOOL || dtype == T_U8)) {
    store_bytes(E, ty_x64_at(E, s->y, bytes, E->g0), &a);
    return;
  }
  for (int u = 0; u < E->u; u++) {
    X64Rm m = ty_x64_at(E, s->y, bytes, E->g0 + u);
    int x = ty_x64_of(&a, u).reg;
    if (bytes < 4) store_narrow(E, dtype, m, x, E->g0 + u);
    else if (E->past && !E->tail)
      x64_vector(&E->A, I_vmovntps, ty_x64_vl(E, bytes), x, 0, m, -1, 0, false, false);
    else store_vector(E, bytes, m, x, E->g0 + u);
  }
}

/* ---- reductions --------------------------------------------------------------------------------- */

void ty_x64_fold(Emit *E, const Step *s, int d, int acc, int x) {
  int op = reduce_ops[s->op], size = bytes_of(s->type);
  if (is_f(s->type) && s->op >= R_MAX) extreme(E, s->op == R_MAX, size, d, acc, x64_reg(x));
  else pair(E, op, s->type, d, acc, x64_reg(x));
}

void ty_x64_reduce(Emit *E, const Step *s, i32 nth) {
  int size = bytes_of(s->type), vl = ty_x64_vl(E, size);
  i32 lanes = size == 8 ? 32 : 64, each = lanes / E->lanes, before = 0;
  XOpd a = ty_x64_operand(E, s->a, true, T(1));
  for (i32 i = E->first, k = 0; k < nth; i++) {
    const Step *r = &E->code->step[i];
    if (r->kind == S_REDUCE) before += (is_8(r->type) ? 32 : 64) / E->lanes, k++;
  }
  for (int u = 0; u < E->u; u++) {
    int x = ty_x64_of(&a, u).reg, t = T(0);
    i32 g = (E->g0 + u) % each;
    if (E->acc >= 0 && E->side) { /* lanes without an element stay as they are */
      i32 acc = E->acc + before + g;
      ty_x64_fold(E, s, t, acc, x);
      if (E->wide)
        ty_x64_v(E, size == 8 ? I_vmovdqa64 : I_vmovdqa32, vl, acc, 0, x64_reg(t), -1,
                 ty_x64_mask(E, E->g0 + u), false);
      else {
        ty_x64_mask_to(E, size, T(3), E->g0 + u);
        blend(E, size, acc, acc, x64_reg(t), T(3));
      }
      continue;
    }
    if (E->acc >= 0 && !E->tail) {
      ty_x64_fold(E, s, E->acc + before + g, E->acc + before + g, x);
      continue;
    }
    X64Rm m = ty_x64_at(E, s->b, size, E->g0 + u);
    if (!E->col) {
      m.index = E->tail ? TAIL_J : RNONE;
      m.disp = E->tail ? 0 : g * E->lanes * size;
    }
    int ins = size == 8 ? I_vmovupd : I_vmovups;
    if (!E->tail) op2(E, ins, vl, t, m);
    else if (E->wide) ty_x64_v(E, (X64Ins)ins, vl, t, 0, m, -1, K_TAIL, true);
    else {
      ty_x64_mask_to(E, size, T(3), E->g0 + u);
      x64_vector(&E->A, size == 8 ? I_vmaskmovpd : I_vmaskmovps, vl, t, T(3), m, -1, 0, false,
                 false);
    }
    ty_x64_fold(E, s, t, t, x);
    store_vector(E, size, m, t, E->g0 + u);
  }
}

/* The state of a reduction, in n registers from `base`, comes down to one value: lanes join j += j + s from
** s = half their number, registers first. The value goes to the row's slot, which ends at rax. */
void ty_x64_join(Emit *E, const Step *s, int base, i32 n) {
  int size = bytes_of(s->type), vl = ty_x64_vl(E, size), t = T(1);
  for (i32 h = n / 2; h >= 1; h /= 2)
    for (i32 i = 0; i < h; i++) ty_x64_fold(E, s, base + i, base + i, base + i + h);
  for (int at = vl; at >= VL128; at--) {
    if (at > VL128 && !E->wide)
      x64_vector(&E->A, I_vextracti128, VL256, base, 0, x64_reg(t), 1, 0, false, false);
    else if (at > VL128)
      ty_x64_v(E, I_vshuff32x4, at, t, base, x64_reg(base), at == VL512 ? 0x0e : 1, 0, false);
    else ty_x64_v(E, I_vshufps, vl, t, base, x64_reg(base), 0x4e, 0, false);
    ty_x64_fold(E, s, base, base, t);
  }
  if (size == 4) {
    ty_x64_v(E, I_vshufps, vl, t, base, x64_reg(base), 0xb1, 0, false);
    ty_x64_fold(E, s, base, base, t);
  }
  move(E, size, 0, x64_reg(base)); /* the store is of VEX, for low registers */
  x64_vector(&E->A, size == 8 ? I_vmovq : I_vmovd, VL128, 0, 0, x64_mem(RAX, RNONE, 0, -size), -1,
             0, false, false);
}
