/*
** integer.c -- integer arithmetic, logic, shifts, bit fields, moves. Built with -fwrapv.
** What the manual leaves unspecified (division by zero, the lowest integer by -1) gives an odd constant, so that nobody relies
** on it.
*/
#include "exec.h"

#define UNSPECIFIED 0x5a5a5a5a5a5a5a5aull /* cut to the type */

#define F1(NAME, T, S, U, EXPR) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1); \
    LANES(T x = (T)a[l]; d[l] = (U)(EXPR);); \
  }
#define F2(NAME, T, S, U, EXPR) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1), *b = SLOT(S, 2); \
    LANES(T x = (T)a[l]; T y = (T)b[l]; d[l] = (U)(EXPR);); \
  }
#define F3(NAME, T, S, U, EXPR) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1), *b = SLOT(S, 2), *e = SLOT(S, 3); \
    LANES(T x = (T)a[l]; T y = (T)b[l]; T z = (T)e[l]; d[l] = (U)(EXPR);); \
  }

/* One function a type: F is F1, F2 or F3. */
#define SIX(F, NAME, EXPR) \
  F(NAME##_u16, uint16_t, uint32_t, uint16_t, EXPR) \
  F(NAME##_s16, int16_t, uint32_t, uint16_t, EXPR) \
  F(NAME##_u32, uint32_t, uint32_t, uint32_t, EXPR) \
  F(NAME##_s32, int32_t, uint32_t, uint32_t, EXPR) \
  F(NAME##_u64, uint64_t, uint64_t, uint64_t, EXPR) \
  F(NAME##_s64, int64_t, uint64_t, uint64_t, EXPR) \
  Run *const run_##NAME[T_COUNT] = { \
      [T_U16] = NAME##_u16, [T_S16] = NAME##_s16, [T_U32] = NAME##_u32, \
      [T_S32] = NAME##_s32, [T_U64] = NAME##_u64, [T_S64] = NAME##_s64};
#define BITS(F, NAME, EXPR) \
  F(NAME##_b16, uint16_t, uint32_t, uint16_t, EXPR) \
  F(NAME##_b32, uint32_t, uint32_t, uint32_t, EXPR) \
  F(NAME##_b64, uint64_t, uint64_t, uint64_t, EXPR) \
  Run *const run_##NAME[T_COUNT] = { \
      [T_B16] = NAME##_b16, [T_B32] = NAME##_b32, [T_B64] = NAME##_b64};

#define LOWEST(T) ((T)((T)1 << (sizeof(T) * 8 - 1)))
#define BAD_DIVISION(x, y) \
  ((y) == 0 || ((__typeof__(x))-1 < 1 && (x) == LOWEST(__typeof__(x)) && (y) == (__typeof__(x))-1))

SIX(F2, add, x + y)
SIX(F2, sub, x - y)
SIX(F2, mul_lo, (uint64_t)x *(uint64_t)y)
SIX(F3, mad_lo, (uint64_t)x *(uint64_t)y + (uint64_t)z)
SIX(F2, min, x < y ? x : y)
SIX(F2, max, x > y ? x : y)
SIX(F2, div, BAD_DIVISION(x, y) ? (__typeof__(x))UNSPECIFIED : x / y)
SIX(F2, rem, BAD_DIVISION(x, y) ? (__typeof__(x))UNSPECIFIED : x % y)
SIX(F1, abs, x < 1 ? 0 - x : x)
SIX(F1, neg, 0 - x)
SIX(F3, sad, z + (x < y ? y - x : x - y))
BITS(F2, and, x &y)
BITS(F2, or, x | y)
BITS(F2, xor, x ^ y)
BITS(F1, not, ~x)
BITS(F1, cnot, x == 0)
BITS(F1, mov, x)

/* --- products of twice the width */

#define MUL_HI(T, WIDE, BITS) (T)((WIDE)x * (WIDE)y >> BITS)
typedef __int128 s128;
typedef unsigned __int128 u128;

F2(mul_hi_u16, uint16_t, uint32_t, uint16_t, MUL_HI(uint16_t, uint32_t, 16))
F2(mul_hi_s16, int16_t, uint32_t, uint16_t, MUL_HI(int16_t, int32_t, 16))
F2(mul_hi_u32, uint32_t, uint32_t, uint32_t, MUL_HI(uint32_t, uint64_t, 32))
F2(mul_hi_s32, int32_t, uint32_t, uint32_t, MUL_HI(int32_t, int64_t, 32))
F2(mul_hi_u64, uint64_t, uint64_t, uint64_t, MUL_HI(uint64_t, u128, 64))
F2(mul_hi_s64, int64_t, uint64_t, uint64_t, MUL_HI(int64_t, s128, 64))
F3(mad_hi_u16, uint16_t, uint32_t, uint16_t, MUL_HI(uint16_t, uint32_t, 16) + z)
F3(mad_hi_s16, int16_t, uint32_t, uint16_t, MUL_HI(int16_t, int32_t, 16) + z)
F3(mad_hi_u32, uint32_t, uint32_t, uint32_t, MUL_HI(uint32_t, uint64_t, 32) + z)
F3(mad_hi_s32, int32_t, uint32_t, uint32_t, MUL_HI(int32_t, int64_t, 32) + z)
F3(mad_hi_u64, uint64_t, uint64_t, uint64_t, MUL_HI(uint64_t, u128, 64) + z)
F3(mad_hi_s64, int64_t, uint64_t, uint64_t, MUL_HI(int64_t, s128, 64) + z)

#define TABLE(NAME) \
  Run *const run_##NAME[T_COUNT] = { \
      [T_U16] = NAME##_u16, [T_S16] = NAME##_s16, [T_U32] = NAME##_u32, \
      [T_S32] = NAME##_s32, [T_U64] = NAME##_u64, [T_S64] = NAME##_s64};
TABLE(mul_hi)
TABLE(mad_hi)

#define WIDE2(NAME, T, R) \
  RUN(NAME) { \
    R *d = SLOT(R, 0); \
    const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2); \
    LANES(d[l] = (R)(T)a[l] * (R)(T)b[l];); \
  }
#define WIDE3(NAME, T, R) \
  RUN(NAME) { \
    R *d = SLOT(R, 0); \
    const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2); \
    const R *e = SLOT(R, 3); \
    LANES(d[l] = (R)(T)a[l] * (R)(T)b[l] + e[l];); \
  }

WIDE2(mul_wide_u16, uint16_t, uint32_t)
WIDE2(mul_wide_s16, int16_t, int32_t)
WIDE3(mad_wide_u16, uint16_t, uint32_t)
WIDE3(mad_wide_s16, int16_t, int32_t)
/* A 64-bit result may lie over a 32-bit operand only if it is the same register, which types forbid. */
WIDE2(mul_wide_u32, uint32_t, uint64_t)
WIDE2(mul_wide_s32, int32_t, int64_t)
WIDE3(mad_wide_u32, uint32_t, uint64_t)
WIDE3(mad_wide_s32, int32_t, int64_t)

Run *const run_mul_wide[T_COUNT] = {
    [T_U16] = mul_wide_u16, [T_S16] = mul_wide_s16, [T_U32] = mul_wide_u32, [T_S32] = mul_wide_s32};
Run *const run_mad_wide[T_COUNT] = {
    [T_U16] = mad_wide_u16, [T_S16] = mad_wide_s16, [T_U32] = mad_wide_u32, [T_S32] = mad_wide_s32};

/* Products of 24 bits: the low 32 of 48. */
F2(mul24_u32, uint32_t, uint32_t, uint32_t, (x & 0xffffff) * (y & 0xffffff))
F2(mul24_s32, int32_t, uint32_t, uint32_t, (x << 8 >> 8) * (y << 8 >> 8))
F3(mad24_u32, uint32_t, uint32_t, uint32_t, (x & 0xffffff) * (y & 0xffffff) + z)
F3(mad24_s32, int32_t, uint32_t, uint32_t, (x << 8 >> 8) * (y << 8 >> 8) + z)
Run *const run_mul24[T_COUNT] = {[T_U32] = mul24_u32, [T_S32] = mul24_s32};
Run *const run_mad24[T_COUNT] = {[T_U32] = mad24_u32, [T_S32] = mad24_s32};

/* --- shifts: the count is 32 bits wide, unsigned, and clamped */

#define SHIFT(NAME, T, S, U, EXPR) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1); \
    const uint32_t *b = SLOT(uint32_t, 2); \
    enum { WIDTH = sizeof(T) * 8 }; \
    LANES(T x = (T)a[l]; uint32_t n = b[l]; d[l] = (U)(EXPR);); \
  }
#define LEFT(T) (n >= WIDTH ? 0 : (uint64_t)x << (n & (WIDTH - 1)))
#define RIGHT (n >= WIDTH ? x >> (WIDTH - 1) >> 1 : x >> (n & (WIDTH - 1)))
#define RIGHT_SIGNED (n >= WIDTH ? x >> (WIDTH - 1) : x >> (n & (WIDTH - 1)))

SHIFT(shl_b16, uint16_t, uint32_t, uint16_t, LEFT(uint16_t))
SHIFT(shl_b32, uint32_t, uint32_t, uint32_t, LEFT(uint32_t))
SHIFT(shl_b64, uint64_t, uint64_t, uint64_t, LEFT(uint64_t))
SHIFT(shr_u16, uint16_t, uint32_t, uint16_t, RIGHT)
SHIFT(shr_u32, uint32_t, uint32_t, uint32_t, RIGHT)
SHIFT(shr_u64, uint64_t, uint64_t, uint64_t, RIGHT)
SHIFT(shr_s16, int16_t, uint32_t, uint16_t, RIGHT_SIGNED)
SHIFT(shr_s32, int32_t, uint32_t, uint32_t, RIGHT_SIGNED)
SHIFT(shr_s64, int64_t, uint64_t, uint64_t, RIGHT_SIGNED)
Run *const run_shl[T_COUNT] = {[T_B16] = shl_b16, [T_B32] = shl_b32, [T_B64] = shl_b64};
Run *const run_shr[T_COUNT] = {
    [T_B16] = shr_u16, [T_B32] = shr_u32, [T_B64] = shr_u64, [T_U16] = shr_u16, [T_U32] = shr_u32,
    [T_U64] = shr_u64, [T_S16] = shr_s16, [T_S32] = shr_s32, [T_S64] = shr_s64};

/* Funnel shift: op bit 0 is right, bit 1 is wrap. */
void run_shf(Warp *w, const Code *c, uint32_t mask) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2), *e = SLOT(uint32_t, 3);
  bool right = c->op & 1, wrap = c->op & 2;
  LANES(uint64_t both = (uint64_t)b[l] << 32 | a[l]; uint32_t n = wrap        ? e[l] & 31
                                                                  : e[l] > 32 ? 32
                                                                              : e[l];
        d[l] = right ? (uint32_t)(both >> n) : (uint32_t)(both << n >> 32););
}

/* --- bits of a word */

#define TO_U32(NAME, T, S, EXPR) \
  RUN(NAME) { \
    uint32_t *d = SLOT(uint32_t, 0); \
    const S *a = SLOT(S, 1); \
    LANES(T x = (T)a[l]; d[l] = (uint32_t)(EXPR);); \
  }

TO_U32(popc_b32, uint32_t, uint32_t, __builtin_popcount(x))
TO_U32(popc_b64, uint64_t, uint64_t, __builtin_popcountll(x))
TO_U32(clz_b32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
TO_U32(clz_b64, uint64_t, uint64_t, x ? __builtin_clzll(x) : 64)
Run *const run_popc[T_COUNT] = {[T_B32] = popc_b32, [T_B64] = popc_b64};
Run *const run_clz[T_COUNT] = {[T_B32] = clz_b32, [T_B64] = clz_b64};

static uint64_t reversed(uint64_t x, int width) {
  uint64_t r = 0;
  for (int i = 0; i < width; i++) r |= (x >> i & 1) << (width - 1 - i);
  return r;
}
F1(brev_b32, uint32_t, uint32_t, uint32_t, reversed(x, 32))
F1(brev_b64, uint64_t, uint64_t, uint64_t, reversed(x, 64))
Run *const run_brev[T_COUNT] = {[T_B32] = brev_b32, [T_B64] = brev_b64};

/* The place of the highest bit that is not the sign's, or how far it is from the top (op 1). */
static uint32_t found(uint64_t x, int width, bool amount) {
  if (!x) return ~(uint32_t)0;
  uint32_t at = 63 - (uint32_t)__builtin_clzll(x);
  return amount ? (uint32_t)width - 1 - at : at;
}
TO_U32(bfind_u32, uint32_t, uint32_t, found(x, 32, c->op))
TO_U32(bfind_s32, int32_t, uint32_t, found((uint32_t)(x < 0 ? ~x : x), 32, c->op))
TO_U32(bfind_u64, uint64_t, uint64_t, found(x, 64, c->op))
TO_U32(bfind_s64, int64_t, uint64_t, found((uint64_t)(x < 0 ? ~x : x), 64, c->op))
Run *const run_bfind[T_COUNT] = {
    [T_U32] = bfind_u32, [T_S32] = bfind_s32, [T_U64] = bfind_u64, [T_S64] = bfind_s64};

/* --- bit fields: position and length are the low 8 bits of 32-bit operands */

static uint64_t low_bits(uint32_t n) { return n >= 64 ? ~0ull : ((uint64_t)1 << n) - 1; }

static uint64_t extracted(uint64_t x, uint32_t pos, uint32_t len, int width, bool is_signed) {
  pos &= 0xff;
  len &= 0xff;
  uint32_t msb = (uint32_t)width - 1, last = pos + len - 1 < msb ? pos + len - 1 : msb;
  uint64_t field = pos > msb ? 0 : x >> pos & low_bits(len);
  if (!is_signed || !len || !(x >> last & 1)) return field;
  uint32_t held = pos > msb ? 0 : last - pos + 1;
  return field | ~low_bits(held);
}

static uint64_t inserted(uint64_t x, uint64_t base, uint32_t pos, uint32_t len, int width) {
  pos &= 0xff;
  len &= 0xff;
  if (pos >= (uint32_t)width) return base;
  uint64_t field = low_bits(len) << pos;
  return (base & ~field) | (x << pos & field);
}

#define BFE(NAME, S, WIDTH, SIGNED) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1); \
    const uint32_t *b = SLOT(uint32_t, 2), *e = SLOT(uint32_t, 3); \
    LANES(d[l] = (S)extracted(a[l], b[l], e[l], WIDTH, SIGNED);); \
  }
BFE(bfe_u32, uint32_t, 32, false)
BFE(bfe_s32, uint32_t, 32, true)
BFE(bfe_u64, uint64_t, 64, false)
BFE(bfe_s64, uint64_t, 64, true)
Run *const run_bfe[T_COUNT] = {
    [T_U32] = bfe_u32, [T_S32] = bfe_s32, [T_U64] = bfe_u64, [T_S64] = bfe_s64};

#define BFI(NAME, S, WIDTH) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1), *b = SLOT(S, 2); \
    const uint32_t *e = SLOT(uint32_t, 3), *f = SLOT(uint32_t, 4); \
    LANES(d[l] = (S)inserted(a[l], b[l], e[l], f[l], WIDTH);); \
  }
BFI(bfi_b32, uint32_t, 32)
BFI(bfi_b64, uint64_t, 64)
Run *const run_bfi[T_COUNT] = {[T_B32] = bfi_b32, [T_B64] = bfi_b64};

/* --- bytes and three-operand logic */

enum { PRMT, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16 };

static uint32_t permuted(uint32_t a, uint32_t b, uint32_t select, int mode) {
  uint64_t both = (uint64_t)b << 32 | a;
  uint32_t result = 0, n = select & 3;
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t nibble = select >> (4 * i) & 15;
    uint32_t at[] = {nibble & 7,    n + i,         (n - i) & 7,          n,
                     i > n ? i : n, i < n ? i : n, (n & 1) * 2 + (i & 1)};
    uint32_t byte = (uint32_t)(both >> (8 * at[mode])) & 0xff;
    if (mode == PRMT && nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

void run_prmt(Warp *w, const Code *c, uint32_t mask) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2), *e = SLOT(uint32_t, 3);
  LANES(d[l] = permuted(a[l], b[l], e[l], c->op););
}

void run_lop3(Warp *w, const Code *c, uint32_t mask) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2), *e = SLOT(uint32_t, 3);
  uint32_t term[8];
  for (int k = 0; k < 8; k++) term[k] = c->target >> k & 1 ? ~(uint32_t)0 : 0;
  LANES(uint32_t x = a[l]; uint32_t y = b[l]; uint32_t z = e[l];
        d[l] = (term[7] & x & y & z) | (term[6] & x & y & ~z) | (term[5] & x & ~y & z) |
               (term[4] & x & ~y & ~z) | (term[3] & ~x & y & z) | (term[2] & ~x & y & ~z) |
               (term[1] & ~x & ~y & z) | (term[0] & ~x & ~y & ~z););
}

/* Four products of bytes: op bit 0 says that a is signed, bit 1 that b is. */
void run_dp4a(Warp *w, const Code *c, uint32_t mask) {
  uint32_t *d = SLOT(uint32_t, 0);
  const uint32_t *a = SLOT(uint32_t, 1), *b = SLOT(uint32_t, 2), *e = SLOT(uint32_t, 3);
  LANES(uint32_t sum = e[l]; for (int i = 0; i < 4; i++) {
    int32_t x = c->op & 1 ? (int8_t)(a[l] >> (8 * i)) : (uint8_t)(a[l] >> (8 * i));
    int32_t y = c->op & 2 ? (int8_t)(b[l] >> (8 * i)) : (uint8_t)(b[l] >> (8 * i));
    sum += (uint32_t)(x * y);
  } d[l] = sum;);
}

/* --- saturation and carries */

static uint32_t clamped(int64_t v) {
  return (uint32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

#define SATURATED(NAME, EXPR) \
  void NAME(Warp *w, const Code *c, uint32_t mask) { \
    uint32_t *d = SLOT(uint32_t, 0); \
    const int32_t *a = SLOT(int32_t, 1), *b = SLOT(int32_t, 2), \
                  *e = SLOT(int32_t, c->n > 3 ? 3 : 2); \
    LANES(int64_t x = a[l]; int64_t y = b[l]; int64_t z = e[l]; (void)z; d[l] = clamped(EXPR);); \
  }
SATURATED(run_add_sat, x + y)
SATURATED(run_sub_sat, x - y)
SATURATED(run_mad_hi_sat, (x * y >> 32) + z)

/* add, sub, mad with the carry of a lane: in, out or both. Code.type says the width. */
void run_carry(Warp *w, const Code *c, uint32_t mask) {
  bool wide = type_size(c->type) == 8, sub = c->op & CARRY_SUB;
  int bits = wide ? 64 : 32;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    u128 x = wide ? SLOT(uint64_t, 1)[l] : SLOT(uint32_t, 1)[l],
         y = wide ? SLOT(uint64_t, 2)[l] : SLOT(uint32_t, 2)[l];
    if (c->op & (CARRY_MAD_LO | CARRY_MAD_HI)) {
      u128 product =
          type_is_signed(c->type) && c->op & CARRY_MAD_HI
              ? (u128)(wide ? (s128)(int64_t)x * (int64_t)y : (s128)(int32_t)x * (int32_t)y)
              : x * y;
      if (c->op & CARRY_MAD_HI) product >>= bits;
      x = wide ? (uint64_t)product : (uint32_t)product;
      y = wide ? SLOT(uint64_t, 3)[l] : SLOT(uint32_t, 3)[l];
    }
    uint32_t in = c->op & CARRY_IN ? w->carry >> l & 1 : 0;
    u128 sum = sub ? x - y - in : x + y + in;
    uint32_t out = (uint32_t)(sum >> bits) & 1;
    if (c->op & CARRY_OUT) w->carry = (w->carry & ~(1u << l)) | out << l;
    if (wide) SLOT(uint64_t, 0)[l] = (uint64_t)sum;
    else SLOT(uint32_t, 0)[l] = (uint32_t)sum;
  }
}

/* --- moves between a register and a vector of narrower ones: Code.width is the narrow one's bytes */

void run_pack(Warp *w, const Code *c, uint32_t mask) {
  int bits = c->width * 8;
  bool wide = bits * c->n_more == 64;
  LANES(uint64_t v = 0; for (int i = 0; i < c->n_more; i++) {
    uint64_t part = c->width == 8 ? SLOT64(w, c->more[i])[l] : SLOT32(w, c->more[i])[l];
    v |= part << (bits * i);
  } if (wide) SLOT(uint64_t, 0)[l] = v;
        else SLOT(uint32_t, 0)[l] = (uint32_t)v;);
}

void run_unpack(Warp *w, const Code *c, uint32_t mask) {
  int bits = c->width * 8;
  bool wide = bits * c->n_more == 64;
  LANES(uint64_t v = wide ? SLOT(uint64_t, 0)[l] : SLOT(uint32_t, 0)[l];
        for (int i = 0; i < c->n_more; i++) {
          uint32_t part = (uint32_t)(v >> (bits * i)) & (bits == 32 ? ~0u : (1u << bits) - 1);
          if (c->more[i] != NO_SLOT) SLOT32(w, c->more[i])[l] = part;
        });
}

/* --- selection by a predicate: operands d, a, b, and the predicate's number */

#define SELP(NAME, S) \
  RUN(NAME) { \
    S *d = SLOT(S, 0); \
    const S *a = SLOT(S, 1), *b = SLOT(S, 2); \
    uint32_t p = w->preds[c->o[3]] ^ (c->neg & 8 ? ~(uint32_t)0 : 0); \
    LANES(d[l] = p >> l & 1 ? a[l] : b[l];); \
  }
SELP(selp_32, uint32_t)
SELP(selp_64, uint64_t)
Run *const run_selp[T_COUNT] = {
    [T_B16] = selp_32, [T_U16] = selp_32, [T_S16] = selp_32, [T_F16] = selp_32,
    [T_B32] = selp_32, [T_U32] = selp_32, [T_S32] = selp_32, [T_F32] = selp_32,
    [T_B64] = selp_64, [T_U64] = selp_64, [T_S64] = selp_64, [T_F64] = selp_64};
