/*
** tile_strands.h -- strands: loops of the tile machine joined end to end, for one instruction set.
** Included by tile_prims.c beside tile_loops.h, with ISA and VB (bytes of a vector) defined.
**
** A loop that reads and writes a tile is bound by the first-level cache. In a strand the running
** value stays in eight vector registers while it passes through one operation after another: each
** is a small function that takes the eight as arguments and jumps to the next. Other operands come
** from memory (M) or are one value (S); A is the running value. Every operation is the one of
** tile_loops.h, so the bits are the same.
*/
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* Vectors of one set, by letter of the element: and the same as it may lie in memory. */
#define VECTOR(K, T) \
  typedef T ID(V##K) __attribute__((vector_size(VB))); \
  typedef T ID(U##K) __attribute__((vector_size(VB), aligned(sizeof(T)), may_alias)); \
  typedef T ID(E##K) __attribute__((may_alias));
VECTOR(f, f32)
VECTOR(d, f64)
VECTOR(i, i32)
VECTOR(u, u32)
VECTOR(l, u64)

#define STATE \
  ID(Vf) \
  v0, ID(Vf) v1, ID(Vf) v2, ID(Vf) v3, ID(Vf) v4, ID(Vf) v5, ID(Vf) v6, ID(Vf) v7, const Micro *o, \
      i64 off
typedef void ID(MicroFn)(STATE);
#define NEXT ((ID(MicroFn) *)o[1].fn)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], o + 1, off)

/* One operation: where x, y and z come from, then the result out of them. */
#define A_(K) ((ID(V##K))v[k])
#define MP(K) (((const ID(U##K) *)(o->p + off))[k])
#define MQ(K) (((const ID(U##K) *)(o->q + off))[k])
#define SP(K) (*(const ID(E##K) *)o->p - (ID(V##K)){0})
#define SQ(K) (*(const ID(E##K) *)o->q - (ID(V##K)){0})
#define MICRO(NAME, K, X, Y, Z, EXPR) \
  static void ID(m_##NAME)(STATE) { \
    ID(Vf) v[8] = {v0, v1, v2, v3, v4, v5, v6, v7}; \
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) { \
      const ID(V##K) x = X(K), y UNUSED = Y(K), z UNUSED = Z(K); \
      v[k] = (ID(Vf))(EXPR); \
    } \
    NEXT; \
  }
#define UNARY(NAME, K, EXPR) MICRO(NAME##_a, K, A_, A_, A_, EXPR)
#define BINARY(NAME, K, EXPR) \
  MICRO(NAME##_am, K, A_, MP, A_, EXPR) \
  MICRO(NAME##_as, K, A_, SP, A_, EXPR) \
  MICRO(NAME##_aa, K, A_, A_, A_, EXPR)
#define TURNED(NAME, K, EXPR) \
  BINARY(NAME, K, EXPR) \
  MICRO(NAME##_ma, K, MP, A_, A_, EXPR) \
  MICRO(NAME##_sa, K, SP, A_, A_, EXPR)
#define TERNARY(NAME, K, EXPR) \
  MICRO(NAME##_amm, K, A_, MP, MQ, EXPR) \
  MICRO(NAME##_ams, K, A_, MP, SQ, EXPR) \
  MICRO(NAME##_asm, K, A_, SP, MQ, EXPR) \
  MICRO(NAME##_ass, K, A_, SP, SQ, EXPR) \
  MICRO(NAME##_mma, K, MP, MQ, A_, EXPR) \
  MICRO(NAME##_msa, K, MP, SQ, A_, EXPR)

/* ---- floats --------------------------------------------------------------------------------- */

/* Of equal values the bits differ for zeros alone: see MIN and MAX in tile_loops.h. */
#define PICK(K, m, a, b) ((ID(V##K))(((ID(Vi))(m) & (ID(Vi))(a)) | (~(ID(Vi))(m) & (ID(Vi))(b))))
#define EXTREME(K, U, LESS, BITS, NONE) \
  PICK(K, (x != x) | (y != y), NONE - (ID(V##U)){0}, \
       PICK(K, x == y, (ID(V##U))x BITS(ID(V##U)) y, PICK(K, x LESS y, x, y)))
#define FLOAT_MICROS(S, K, U, SIGN) \
  BINARY(add_##S, K, x + y) \
  TURNED(sub_##S, K, x - y) \
  BINARY(mul_##S, K, x *y) \
  TURNED(div_##S, K, x / y) \
  UNARY(neg_##S, K, (ID(V##U))x ^ SIGN) \
  UNARY(abs_##S, K, (ID(V##U))x & ~SIGN)
FLOAT_MICROS(f32, f, u, 0x80000000u)
FLOAT_MICROS(f64, d, l, SIGN64)

#ifdef HAS_F16C
#if VB == 64
/* Range knows that -0 is below +0; NaNs are left to see to. */
#define EXTREME_F32(range, min, bits) \
  _mm512_mask_mov_ps(_mm512_range_ps(x, y, range), _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q), \
                     _mm512_set1_ps(__builtin_nanf("")))
#define MM(name) PASTE(_mm512_, name)
#define ROUND_(S, x, mode) _mm512_roundscale_p##S(x, mode)
#define HALVES(x) _mm512_cvtph_ps(_mm512_cvtps_ph(x, 0))
#else
/* Of equal operands the instruction gives the second: both ways round, then as in EXTREME. */
#define EXTREME_F32(range, min, bits) \
  _mm256_blendv_ps(_mm256_##bits##_ps(_mm256_##min##_ps(x, y), _mm256_##min##_ps(y, x)), \
                   _mm256_set1_ps(__builtin_nanf("")), _mm256_cmp_ps(x, y, _CMP_UNORD_Q))
#define MM(name) PASTE(_mm256_, name)
#define ROUND_(S, x, mode) _mm256_round_p##S(x, mode)
#define HALVES(x) _mm256_cvtph_ps(_mm256_cvtps_ph(x, 0))
#endif
#define INTRINSIC_MICROS(S, K, P) \
  TERNARY(fma_##S, K, MM(fmadd_p##P)(x, y, z)) \
  MICRO(fma_##S##_aam, K, A_, A_, MP, MM(fmadd_p##P)(x, y, z)) \
  MICRO(fma_##S##_aas, K, A_, A_, SP, MM(fmadd_p##P)(x, y, z)) \
  UNARY(sqrt_##S, K, MM(sqrt_p##P)(x)) \
  UNARY(floor_##S, K, ROUND_(P, x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)) \
  UNARY(ceil_##S, K, ROUND_(P, x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)) \
  UNARY(trunc_##S, K, ROUND_(P, x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)) \
  UNARY(rint_##S, K, ROUND_(P, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
INTRINSIC_MICROS(f32, f, s)
INTRINSIC_MICROS(f64, d, d)
UNARY(narrow_f16, f, HALVES(PICK(f, x != x, NAN32 - (ID(Vu)){0}, x)))
BINARY(max_f32, f, EXTREME_F32(5, max, and))
BINARY(min_f32, f, EXTREME_F32(4, min, or))
#undef EXTREME_F32
#else
BINARY(max_f32, f, EXTREME(f, u, >, &, NAN32))
BINARY(min_f32, f, EXTREME(f, u, <, |, NAN32))
#endif

/* ---- integers, comparisons, conversions ----------------------------------------------------- */

BINARY(add_i32, u, x + y)
TURNED(sub_i32, u, x - y)
BINARY(mul_i32, u, x *y)
BINARY(and_i32, u, x &y)
BINARY(or_i32, u, x | y)
BINARY(xor_i32, u, x ^ y)
MICRO(shl_i32_as, u, A_, SP, A_, x << (y & 31))
MICRO(shr_i32_as, i, A_, SP, A_, x >> (y & 31))
MICRO(shru_i32_as, u, A_, SP, A_, x >> (y & 31))
BINARY(max_i32, i, PICK(i, x > y, x, y))
BINARY(min_i32, i, PICK(i, x < y, x, y))
#define COMPARE_MICROS(S, K) \
  BINARY(eq_##S, K, (ID(Vi))(x == y) & 1) \
  TURNED(lt_##S, K, (ID(Vi))(x < y) & 1) \
  TURNED(le_##S, K, (ID(Vi))(x <= y) & 1)
COMPARE_MICROS(f32, f)
COMPARE_MICROS(i32, i)
TERNARY(sel_4, i, PICK(i, x != 0, y, z))
MICRO(sel_4_mam, i, MP, A_, MQ, PICK(i, x != 0, y, z))
MICRO(sel_4_mas, i, MP, A_, SQ, PICK(i, x != 0, y, z))

#define TWO31 0x1p31f
#define INTO_RANGE(x) \
  PICK(f, (x < TWO31) & (x >= -TWO31), x, PICK(f, x < -TWO31, -TWO31 - (ID(Vf)){0}, (ID(Vi)){0}))
UNARY(cvt_f32_i32, f,
      PICK(i, x >= TWO31, INT32_MAX - (ID(Vi)){0}, __builtin_convertvector(INTO_RANGE(x), ID(Vi))))
UNARY(cvt_i32_f32, i, __builtin_convertvector(x, ID(Vf)))
UNARY(bits_f32, u, PICK(u, (x & 0x7fffffff) > 0x7f800000, NAN32 - (ID(Vu)){0}, x))
UNARY(narrow_bf16, u,
      PICK(u, (x & 0x7fffffff) > 0x7f800000, NAN32 - (ID(Vu)){0},
           (x + 0x7fff + (x >> 16 & 1)) & 0xffff0000u))
UNARY(narrow_bool, i, (ID(Vi))(x != 0) & 1)

/* ---- the ends ------------------------------------------------------------------------------- */

MICRO(load, f, MP, A_, A_, x)
static void ID(m_store)(STATE) {
  const ID(Vf) v[8] = {v0, v1, v2, v3, v4, v5, v6, v7};
  ID(Uf) *y = (ID(Uf) *)((uintptr_t)o->p + (uintptr_t)off);
  _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) y[k] = v[k];
  NEXT;
}
static void ID(m_end)(ID(Vf) v0 UNUSED, ID(Vf) v1 UNUSED, ID(Vf) v2 UNUSED, ID(Vf) v3 UNUSED,
                      ID(Vf) v4 UNUSED, ID(Vf) v5 UNUSED, ID(Vf) v6 UNUSED, ID(Vf) v7 UNUSED,
                      const Micro *o UNUSED, i64 off UNUSED) {}
static void ID(strand)(const Micro *o, i64 bytes) {
  const ID(Vf) z = {0};
  for (i64 off = 0; off < bytes; off += 8 * VB)
    ((ID(MicroFn) *)o->fn)(z, z, z, z, z, z, z, z, o, off);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define FN(name) ((MicroFn *)ID(m_##name))
#define R_(P, T, form, name) {P, T, form, FN(name)},
#define U_(P, T, name) R_(P, T, F_A, name##_a)
#define B_(P, T, name) R_(P, T, F_AM, name##_am) R_(P, T, F_AS, name##_as) R_(P, T, F_AA, name##_aa)
#define T_(P, T, name) B_(P, T, name) R_(P, T, F_MA, name##_ma) R_(P, T, F_SA, name##_sa)
#define X_(P, T, name) \
  R_(P, T, F_AMM, name##_amm) \
  R_(P, T, F_AMS, name##_ams) \
  R_(P, T, F_ASM, name##_asm) \
  R_(P, T, F_ASS, name##_ass) R_(P, T, F_MMA, name##_mma) R_(P, T, F_MSA, name##_msa)
#define FMA_(P, T, name) X_(P, T, name) R_(P, T, F_AAM, name##_aam) R_(P, T, F_AAS, name##_aas)
#define SEL_(P, T, name) X_(P, T, name) R_(P, T, F_MAM, name##_mam) R_(P, T, F_MAS, name##_mas)
#define BOTH(P, M, name) M(P, C_F32, name##_f32) M(P, C_F64, name##_f64)

/* clang-format off */
static const StrandRow ID(strand_rows)[] = {
  BOTH(P_ADD, B_, add) BOTH(P_SUB, T_, sub) BOTH(P_MUL, B_, mul) BOTH(P_DIV, T_, div)
  BOTH(P_NEG, U_, neg) BOTH(P_ABS, U_, abs) B_(P_MIN, C_F32, min_f32) B_(P_MAX, C_F32, max_f32)
#ifdef HAS_F16C
  BOTH(P_FMA, FMA_, fma) BOTH(P_SQRT, U_, sqrt) BOTH(P_FLOOR, U_, floor) BOTH(P_CEIL, U_, ceil)
  BOTH(P_TRUNC, U_, trunc) BOTH(P_RINT, U_, rint)
#endif
  B_(P_ADD, C_I32, add_i32) T_(P_SUB, C_I32, sub_i32) B_(P_MUL, C_I32, mul_i32)
  B_(P_AND, C_I32, and_i32) B_(P_OR, C_I32, or_i32) B_(P_XOR, C_I32, xor_i32)
  R_(P_SHL, C_I32, F_AS, shl_i32_as) R_(P_SHR, C_I32, F_AS, shr_i32_as)
  R_(P_SHRU, C_I32, F_AS, shru_i32_as) B_(P_MAX, C_I32, max_i32) B_(P_MIN, C_I32, min_i32)
  B_(P_EQ, C_F32, eq_f32) T_(P_LT, C_F32, lt_f32) T_(P_LE, C_F32, le_f32)
  B_(P_EQ, C_I32, eq_i32) T_(P_LT, C_I32, lt_i32) T_(P_LE, C_I32, le_i32)
  SEL_(P_SEL, C_I32, sel_4) SEL_(P_SEL, C_F32, sel_4) U_(P_CVT, C_F32, cvt_f32_i32)
  U_(P_CVT, C_I32, cvt_i32_f32) U_(P_BITS, C_F32, bits_f32)
};
/* clang-format on */

static const StrandIsa ID(strands) = {
    .strip = 8 * VB,
    .run = ID(strand),
    .load = FN(load),
    .store = FN(store),
    .end = FN(end),
    .rows = ID(strand_rows),
    .nrows = TY_COUNT(ID(strand_rows)),
    .narrow =
        {
            [T_BF16] = FN(narrow_bf16_a),
            [T_BOOL] = FN(narrow_bool_a),
#ifdef HAS_F16C
            [T_F16] = FN(narrow_f16_a),
#endif
        },
};
#undef MM
#undef ROUND_
#undef HALVES
