/*
** ptx_value.c -- primitives as PTX: the bits of the other machines.
** In:  an instruction and registers.  Out: a register. Cannot fail, but for memory.
**
** Rules. Every float operation says `.rn` (or how it rounds), never `.ftz`: unmarked ones may be contracted, and
** denormals count. min and max put -0 below +0 but drop a NaN: it is put back. Signs are bits. Division of integers is
** not defined by 0, nor of the lowest by -1: the divisor is 1 then, and the result selected. Conversions to integers
** saturate, and give 0 for a NaN where that is selected. A shift's count is in range, as the builder promises.
*/
#include "device/cuda/ptx.h"

#define NAN32 0x7fc00000ull
#define NAN64 0x7ff8000000000000ull

static const char *const signed_name[] = {"s32", "s64", "f32", "f64"};
static const char *const bits_name[] = {"b32", "b64", "b32", "b64"};
static bool is_float(int ctype) { return ctype >= C_F32; }

static Reg pred(Ptx *E) { return ty_ptx_reg(E, REG_PRED); }

/* y = a where p holds, else b. */
static Reg pick(Ptx *E, int ctype, Reg p, Reg a, Reg b) {
  const Reg y = ty_ptx_value(E, ctype);
  ty_ptx(E, "selp.~ $, $, $, $", bits_name[ctype], y, a, b, p);
  return y;
}

static Reg is_nan(Ptx *E, int ctype, Reg a, Reg b) {
  const Reg p = pred(E);
  ty_ptx(E, "setp.nan.~ $, $, $", signed_name[ctype], p, a, b);
  return p;
}

static Reg unary(Ptx *E, const char *op, int ctype, Reg a) {
  const Reg y = ty_ptx_value(E, ctype);
  ty_ptx(E, "~ $, $", op, y, a);
  return y;
}

static Reg typed(Ptx *E, const char *op, const char *type, int ctype, Reg a, Reg b) {
  const Reg y = ty_ptx_value(E, ctype);
  ty_ptx(E, "~.~ $, $, $", op, type, y, a, b);
  return y;
}

static Reg extreme(Ptx *E, const char *op, int ctype, Reg a, Reg b) {
  const Reg y = typed(E, op, signed_name[ctype], ctype, a, b);
  if (!is_float(ctype)) return y;
  const Reg none = ty_ptx_const(E, ctype, ctype == C_F32 ? NAN32 : NAN64);
  return pick(E, ctype, is_nan(E, ctype, a, b), none, y);
}

Reg ty_ptx_binary(Ptx *E, int prim, int ctype, Reg a, Reg b) {
  switch (prim) {
  case P_ADD: return typed(E, is_float(ctype) ? "add.rn" : "add", signed_name[ctype], ctype, a, b);
  case P_SUB: return typed(E, is_float(ctype) ? "sub.rn" : "sub", signed_name[ctype], ctype, a, b);
  case P_MUL:
    return typed(E, is_float(ctype) ? "mul.rn" : "mul.lo", signed_name[ctype], ctype, a, b);
  case P_DIV: return typed(E, "div.rn", signed_name[ctype], ctype, a, b);
  case P_MIN: return extreme(E, "min", ctype, a, b);
  case P_MAX: return extreme(E, "max", ctype, a, b);
  case P_AND: return typed(E, "and", bits_name[ctype], ctype, a, b);
  case P_OR: return typed(E, "or", bits_name[ctype], ctype, a, b);
  default: return typed(E, "xor", bits_name[ctype], ctype, a, b);
  }
}

/* The sign bit of floats; integers wrap. */
static Reg sign(Ptx *E, int prim, int ctype, Reg a) {
  const u64 top = ctype == C_F32 ? 1ull << 31 : 1ull << 63;
  if (is_float(ctype)) {
    const Reg mask = ty_ptx_const(E, ctype, prim == P_NEG ? top : top - 1);
    return typed(E, prim == P_NEG ? "xor" : "and", bits_name[ctype], ctype, a, mask);
  }
  const Reg zero = ty_ptx_const(E, ctype, 0),
            y = typed(E, "sub", signed_name[ctype], ctype, zero, a);
  return prim == P_NEG ? y : typed(E, "max", signed_name[ctype], ctype, a, y);
}

static Reg divide(Ptx *E, int prim, int ctype, Reg a, Reg b) {
  const char *type = signed_name[ctype];
  const Reg zero = pred(E), minus = pred(E), one = ty_ptx_const(E, ctype, 1),
            none = ty_ptx_const(E, ctype, 0);
  ty_ptx(E, "setp.eq.~ $, $, 0", type, zero, b);
  ty_ptx(E, "setp.eq.~ $, $, -1", type, minus, b);
  const Reg by = pick(E, ctype, minus, one, pick(E, ctype, zero, one, b));
  Reg q = typed(E, "div", type, ctype, a, by);
  q = pick(E, ctype, minus, typed(E, "sub", type, ctype, none, a), q);
  if (prim == P_REMI) q = typed(E, "sub", type, ctype, a, typed(E, "mul.lo", type, ctype, q, b));
  return pick(E, ctype, zero, none, q);
}

static Reg shift(Ptx *E, int prim, int ctype, Reg a, Reg b) {
  const bool wide = ctype == C_I64;
  Reg count = b;
  if (wide) ty_ptx(E, "cvt.u32.u64 $, $", count = ty_ptx_reg(E, REG_32), b);
  return typed(E, prim == P_SHL ? "shl" : "shr",
               prim == P_SHL   ? bits_name[ctype]
               : prim == P_SHR ? signed_name[ctype]
               : wide          ? "u64"
                               : "u32",
               ctype, a, count);
}

static Reg compare(Ptx *E, const char *how, int ctype, Reg a, Reg b) {
  const Reg p = pred(E), y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "setp.~.~ $, $, $", how, signed_name[ctype], p, a, b);
  ty_ptx(E, "selp.b32 $, 1, 0, $", y, p);
  return y;
}

static Reg convert(Ptx *E, int from, int to, Reg a) {
  static const char *const how[4][4] = {
      [C_I32] = {[C_I64] = "cvt.s64.s32", [C_F32] = "cvt.rn.f32.s32", [C_F64] = "cvt.rn.f64.s32"},
      [C_I64] = {[C_I32] = "cvt.u32.u64", [C_F32] = "cvt.rn.f32.s64", [C_F64] = "cvt.rn.f64.s64"},
      [C_F32] = {[C_I32] = "cvt.rzi.s32.f32", [C_I64] = "cvt.rzi.s64.f32", [C_F64] = "cvt.f64.f32"},
      [C_F64] = {
          [C_I32] = "cvt.rzi.s32.f64", [C_I64] = "cvt.rzi.s64.f64", [C_F32] = "cvt.rn.f32.f64"}};
  if (from == to) return a;
  const Reg y = unary(E, how[from][to], to, a);
  if (!is_float(from) || is_float(to)) return y;
  return pick(E, to, is_nan(E, from, a, a), ty_ptx_const(E, to, 0), y);
}

static Reg bits_of(Ptx *E, const Instr *in, int ta, Reg a) {
  if (is_float(in->type) || !is_float(ta) || in->imm) return a;
  return pick(E, ta, is_nan(E, ta, a, a), ty_ptx_const(E, ta, ta == C_F32 ? NAN32 : NAN64), a);
}

/* An f32 to the upper half that a bf16 is, rounded to even. */
static Reg round_bf16(Ptx *E, Reg a) {
  const Reg odd = ty_ptx_reg(E, REG_32), up = ty_ptx_reg(E, REG_32), y = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "bfe.u32 $, $, 16, 1", odd, a);
  ty_ptx(E, "add.u32 $, $, 32767", up, a);
  ty_ptx(E, "add.u32 $, $, $", up, up, odd);
  ty_ptx(E, "and.b32 $, $, 0xffff0000", y, up);
  return pick(E, C_F32, is_nan(E, C_F32, a, a), ty_ptx_const(E, C_F32, NAN32), y);
}

Reg ty_ptx_narrow(Ptx *E, int dtype, Reg a) {
  Reg y = ty_ptx_reg(E, REG_32);
  switch (dtype) {
  case T_BOOL: return compare(E, "ne", C_I32, a, ty_ptx_const(E, C_I32, 0));
  case T_U8: ty_ptx(E, "and.b32 $, $, 255", y, a); break;
  case T_I8: ty_ptx(E, "bfe.s32 $, $, 0, 8", y, a); break;
  case T_I16: ty_ptx(E, "bfe.s32 $, $, 0, 16", y, a); break;
  case T_BF16: return round_bf16(E, a);
  case T_F16: {
    const Reg h = ty_ptx_reg(E, REG_16);
    ty_ptx(E, "cvt.rn.f16.f32 $, $", h, a);
    ty_ptx(E, "cvt.f32.f16 $, $", y, h);
    break;
  }
  default: return a;
  }
  return y;
}

static Reg lut(Ptx *E, const Instr *in, Reg a) {
  const Reg base = ty_ptx_reg(E, REG_64), at = ty_ptx_reg(E, REG_64), y = ty_ptx_value(E, in->type);
  const bool wide = ty_ptx_wide(in->type);
  E->luts |= 1u << in->imm;
  ty_ptx(E, "mov.u64 $, lut#", base, (i64)in->imm);
  ty_ptx(E, "mad.wide.s32 $, $, #, $", at, a, (i64)(wide ? 8 : 4), base);
  if (!E->guard) {
    ty_ptx(E, "ld.global.~ $, [$]", bits_name[in->type], y, at);
    return y;
  }
  ty_ptx(E, "mov.~ $, 0", bits_name[in->type], y);
  ty_ptx(E, "@$ ld.global.~ $, [$]", E->guard, bits_name[in->type], y, at);
  return y;
}

static void split(Ptx *E, Reg v, Reg *low, Reg *high) {
  *low = ty_ptx_reg(E, REG_32), *high = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "mov.b64 {$, $}, $", *low, *high, v);
}

void ty_ptx_philox(Ptx *E, Reg w[4], Reg low, Reg high) {
  const Reg m0 = ty_ptx_const(E, C_I32, 0xd2511f53), m1 = ty_ptx_const(E, C_I32, 0xcd9e8d57);
  Reg key[2] = {low, high};
  for (int round = 0; round < 10; round++) {
    Reg v[4];
    for (int i = 0; i < 4; i++) v[i] = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "mul.hi.u32 $, $, $", v[0], w[2], m1);
    ty_ptx(E, "xor.b32 $, $, $", v[0], v[0], w[1]);
    ty_ptx(E, "xor.b32 $, $, $", v[0], v[0], key[0]);
    ty_ptx(E, "mul.lo.u32 $, $, $", v[1], w[2], m1);
    ty_ptx(E, "mul.hi.u32 $, $, $", v[2], w[0], m0);
    ty_ptx(E, "xor.b32 $, $, $", v[2], v[2], w[3]);
    ty_ptx(E, "xor.b32 $, $, $", v[2], v[2], key[1]);
    ty_ptx(E, "mul.lo.u32 $, $, $", v[3], w[0], m0);
    memcpy(w, v, sizeof v);
    const Reg next[2] = {ty_ptx_reg(E, REG_32), ty_ptx_reg(E, REG_32)};
    ty_ptx(E, "add.u32 $, $, ^", next[0], key[0], (u64)0x9e3779b9);
    ty_ptx(E, "add.u32 $, $, ^", next[1], key[1], (u64)0xbb67ae85);
    memcpy(key, next, sizeof key);
  }
}

static Reg philox(Ptx *E, const Instr *in, Reg a, Reg b, Reg c) {
  Reg w[4], key[2];
  split(E, a, &w[0], &w[1]);
  split(E, b, &w[2], &w[3]);
  split(E, c, &key[0], &key[1]);
  ty_ptx_philox(E, w, key[0], key[1]);
  return w[in->imm];
}

static Reg fma_of(Ptx *E, int ctype, Reg a, Reg b, Reg c) {
  const Reg y = ty_ptx_value(E, ctype);
  ty_ptx(E, "fma.rn.~ $, $, $, $", signed_name[ctype], y, a, b, c);
  return y;
}

static Reg select_of(Ptx *E, int ctype, Reg a, Reg b, Reg c) {
  const Reg p = pred(E);
  ty_ptx(E, "setp.ne.s32 $, $, 0", p, a);
  return pick(E, ctype, p, b, c);
}

Reg ty_ptx_primitive(Ptx *E, const Instr *in, int ta, Reg a, Reg b, Reg c) {
  const bool f4 = in->type == C_F32;
  switch (in->op) {
  case P_FMA: return fma_of(E, in->type, a, b, c);
  case P_SQRT: return unary(E, f4 ? "sqrt.rn.f32" : "sqrt.rn.f64", in->type, a);
  case P_NEG:
  case P_ABS: return sign(E, in->op, in->type, a);
  case P_FLOOR: return unary(E, f4 ? "cvt.rmi.f32.f32" : "cvt.rmi.f64.f64", in->type, a);
  case P_CEIL: return unary(E, f4 ? "cvt.rpi.f32.f32" : "cvt.rpi.f64.f64", in->type, a);
  case P_TRUNC: return unary(E, f4 ? "cvt.rzi.f32.f32" : "cvt.rzi.f64.f64", in->type, a);
  case P_RINT: return unary(E, f4 ? "cvt.rni.f32.f32" : "cvt.rni.f64.f64", in->type, a);
  case P_DIVI:
  case P_REMI: return divide(E, in->op, in->type, a, b);
  case P_SHL:
  case P_SHR:
  case P_SHRU: return shift(E, in->op, in->type, a, b);
  case P_MULHI: return typed(E, "mul.hi", "u64", C_I64, a, b);
  case P_EQ: return compare(E, "eq", in->from, a, b);
  case P_LT: return compare(E, "lt", in->from, a, b);
  case P_LE: return compare(E, "le", in->from, a, b);
  case P_SEL: return select_of(E, in->type, a, b, c);
  case P_CVT: return convert(E, in->from, in->type, a);
  case P_BITS: return bits_of(E, in, ta, a);
  case P_LUT: return lut(E, in, a);
  case P_NARROW: return ty_ptx_narrow(E, (int)in->imm, a);
  case P_PHILOX: return philox(E, in, a, b, c);
  default: return ty_ptx_binary(E, in->op, in->type, a, b);
  }
}

/* --- memory */

static const char *const load_as[T_COUNT] = {
    [T_BOOL] = "u8", [T_U8] = "u8",   [T_I8] = "s8",    [T_I16] = "s16", [T_I32] = "b32",
    [T_I64] = "b64", [T_F16] = "b16", [T_BF16] = "u16", [T_F32] = "b32", [T_F64] = "b64"};

Reg ty_ptx_load(Ptx *E, int dtype, Reg address) {
  const int ctype = ty_dtypes[dtype].ctype;
  const bool half = dtype == T_F16;
  const Reg y = ty_ptx_value(E, ctype), at = half ? ty_ptx_reg(E, REG_16) : y;
  if (E->guard) {
    ty_ptx(E, "mov.~ $, 0", half ? "b16" : bits_name[ctype], at);
    ty_ptx(E, "@$ ld.global.~ $, [$]", E->guard, load_as[dtype], at, address);
  } else {
    ty_ptx(E, "ld.global.~ $, [$]", load_as[dtype], at, address);
  }
  if (half) ty_ptx(E, "cvt.f32.f16 $, $", y, at);
  if (dtype == T_BF16) ty_ptx(E, "shl.b32 $, $, 16", y, y);
  return y;
}

void ty_ptx_store(Ptx *E, int dtype, Reg address, Reg v) {
  static const char *const as[] = {[1] = "b8", [2] = "b16", [4] = "b32", [8] = "b64"};
  Reg from = v;
  if (dtype == T_F16) ty_ptx(E, "cvt.rn.f16.f32 $, $", from = ty_ptx_reg(E, REG_16), v);
  if (dtype == T_BF16) ty_ptx(E, "shr.u32 $, $, 16", from = ty_ptx_reg(E, REG_32), v);
  if (dtype == T_I16 || dtype == T_BF16) {
    const Reg h = ty_ptx_reg(E, REG_16);
    ty_ptx(E, "cvt.u16.u32 $, $", h, from);
    from = h;
  }
  if (E->guard)
    ty_ptx(E, "@$ st.global.~ [$], $", E->guard, as[ty_dtypes[dtype].bytes], address, from);
  else ty_ptx(E, "st.global.~ [$], $", as[ty_dtypes[dtype].bytes], address, from);
}

Reg ty_ptx_shuffle(Ptx *E, const char *how, int ctype, Reg v, Reg by, int width) {
  const u64 bound = (u64)(32 - width) << 8 | (*how == 'u' ? 0 : 31);
  if (!ty_ptx_wide(ctype)) {
    const Reg y = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "shfl.sync.~.b32 $, $, $, ^, 0xffffffff", how, y, v, by, bound);
    return y;
  }
  Reg low, high;
  split(E, v, &low, &high);
  const Reg l = ty_ptx_shuffle(E, how, C_I32, low, by, width),
            h = ty_ptx_shuffle(E, how, C_I32, high, by, width);
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.b64 $, {$, $}", y, l, h);
  return y;
}
