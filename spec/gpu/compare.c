/*
** compare.c -- comparisons, predicates, copies of signs.
** setp: operands are the predicates p and q (NO_SLOT: none), a, b, and, with a boolean operation, a predicate c.
*/
#include <math.h>

#include "exec.h"

#define COMPARED(NAME, T, S) \
  static uint32_t NAME(const void *va, const void *vb, int op) { \
    const S *a = va, *b = vb; \
    uint32_t r = 0; \
    switch (op) { \
    case C_EQ: WHERE(x == y, T) \
    case C_NE: WHERE(x != y, T) \
    case C_LT: WHERE(x < y, T) \
    case C_LE: WHERE(x <= y, T) \
    case C_GT: WHERE(x > y, T) \
    case C_GE: WHERE(x >= y, T) \
    case C_EQU: WHERE(x == y || x != x || y != y, T) \
    case C_NEU: WHERE(x != y || x != x || y != y, T) \
    case C_LTU: WHERE(!(x >= y), T) \
    case C_LEU: WHERE(!(x > y), T) \
    case C_GTU: WHERE(!(x <= y), T) \
    case C_GEU: WHERE(!(x < y), T) \
    case C_NUM: WHERE(x == x && y == y, T) \
    default: WHERE(x != x || y != y, T) \
    } \
    return r; \
  }
#define WHERE(EXPR, T) \
  for (int l = 0; l < WARP; l++) { \
    T x = (T)a[l], y = (T)b[l]; \
    r |= (uint32_t)(EXPR) << l; \
  } \
  break;

COMPARED(compare_u16, uint16_t, uint32_t)
COMPARED(compare_s16, int16_t, uint32_t)
COMPARED(compare_u32, uint32_t, uint32_t)
COMPARED(compare_s32, int32_t, uint32_t)
COMPARED(compare_u64, uint64_t, uint64_t)
COMPARED(compare_s64, int64_t, uint64_t)
COMPARED(compare_f32, float, float)
COMPARED(compare_f64, double, double)

static uint32_t (*const comparisons[T_COUNT])(const void *, const void *, int) = {
    [T_B16] = compare_u16, [T_U16] = compare_u16, [T_S16] = compare_s16, [T_B32] = compare_u32,
    [T_U32] = compare_u32, [T_S32] = compare_s32, [T_B64] = compare_u64, [T_U64] = compare_u64,
    [T_S64] = compare_s64, [T_F32] = compare_f32, [T_F64] = compare_f64};

/* Halves, and floats with flushed denormals, as floats. */
static const void *widened(const uint32_t *from, Type type, int part, bool ftz, float *to) {
  for (int l = 0; l < WARP; l++) {
    uint16_t h = (uint16_t)(from[l] >> (16 * part));
    if (type == T_F32) memcpy(to + l, from + l, 4);
    else to[l] = type == T_BF16 || type == T_BF16X2 ? bf16_value(h) : f16_value(h);
    float least = type == T_F32 ? 0x1p-126f : 0x1p-14f;
    if (ftz && fabsf(to[l]) < least) to[l] = copysignf(0, to[l]);
  }
  return to;
}

static uint32_t compared(Warp *w, const Code *c, int a, int b, int part) {
  Type type = (Type)c->type;
  const uint32_t *x = SLOT32(w, c->o[a]), *y = SLOT32(w, c->o[b]);
  bool half = type == T_F16 || type == T_BF16 || type == T_F16X2 || type == T_BF16X2;
  if (!half && !(c->ftz && type == T_F32)) return comparisons[type](x, y, c->op);
  float fx[WARP], fy[WARP];
  return compare_f32(widened(x, type, part, c->ftz, fx), widened(y, type, part, c->ftz, fy), c->op);
}

enum { B_NONE, B_AND, B_OR, B_XOR };

static uint32_t combined(int how, uint32_t r, uint32_t p) {
  return how == B_AND ? r & p : how == B_OR ? r | p : how == B_XOR ? r ^ p : r;
}

static void put(Warp *w, int predicate, uint32_t value, uint32_t mask) {
  if (predicate != NO_SLOT) w->preds[predicate] = (w->preds[predicate] & ~mask) | (value & mask);
}

/* Code.from is the boolean operation. Pairs give p for the low half and q for the high one. */
void run_setp(Warp *w, const Code *c, uint32_t mask) {
  uint32_t third = c->n > 4 ? w->preds[c->o[4]] ^ (c->neg & 16 ? ~(uint32_t)0 : 0) : 0;
  uint32_t r = compared(w, c, 2, 3, 0), q = ~r;
  if (c->type == T_F16X2 || c->type == T_BF16X2) q = compared(w, c, 2, 3, 1);
  put(w, c->o[0], combined(c->from, r, third), mask);
  put(w, c->o[1], combined(c->from, q, third), mask);
}

/* set: all ones or zeros, or 1.0f (Code.width 4) or the halves' 1.0 */
void run_set(Warp *w, const Code *c, uint32_t mask) {
  uint32_t third = c->n > 3 ? w->preds[c->o[3]] ^ (c->neg & 8 ? ~(uint32_t)0 : 0) : 0;
  uint32_t r = combined(c->from, compared(w, c, 1, 2, 0), third), one = (uint32_t)c->target;
  uint32_t *d = SLOT(uint32_t, 0);
  bool pair = c->type == T_F16X2 || c->type == T_BF16X2;
  uint32_t high = pair ? combined(c->from, compared(w, c, 1, 2, 1), third) : 0;
  LANES(d[l] = (r >> l & 1 ? one : 0) | (pair && high >> l & 1 ? one << 16 : 0););
}

/* slct d, a, b, c: a where c >= 0. Code.from is the type of c. */
void run_slct(Warp *w, const Code *c, uint32_t mask) {
  bool wide = type_size((Type)c->type) == 8;
  for (int l = 0; l < WARP; l++) {
    if (!(mask >> l & 1)) continue;
    float f = SLOT(float, 3)[l];
    if (c->ftz && fabsf(f) < 0x1p-126f) f = 0;
    bool first = c->from == T_F32 ? f >= 0 : SLOT(int32_t, 3)[l] >= 0;
    if (wide) SLOT(uint64_t, 0)[l] = SLOT(uint64_t, first ? 1 : 2)[l];
    else SLOT(uint32_t, 0)[l] = SLOT(uint32_t, first ? 1 : 2)[l];
  }
}

/* testp: Code.op is 0 finite, 1 infinite, 2 number, 3 notanumber, 4 normal, 5 subnormal */
void run_testp(Warp *w, const Code *c, uint32_t mask) {
  uint32_t r = 0;
  for (int l = 0; l < WARP; l++) {
    int k = c->type == T_F64 ? fpclassify(SLOT(double, 1)[l]) : fpclassify(SLOT(float, 1)[l]);
    bool is[] = {k != FP_NAN && k != FP_INFINITE,
                 k == FP_INFINITE,
                 k != FP_NAN,
                 k == FP_NAN,
                 k == FP_NORMAL,
                 k == FP_SUBNORMAL};
    r |= (uint32_t)is[c->op] << l;
  }
  put(w, c->o[0], r, mask);
}

/* The sign of a on the magnitude of b. */
void run_copysign(Warp *w, const Code *c, uint32_t mask) {
  uint64_t top = c->type == T_F64 ? (uint64_t)1 << 63 : 1u << 31;
  LANES(if (c->type == T_F64) SLOT(uint64_t, 0)[l] =
            (SLOT(uint64_t, 1)[l] & top) | (SLOT(uint64_t, 2)[l] & ~top);
        else SLOT(uint32_t, 0)[l] =
            (uint32_t)((SLOT(uint32_t, 1)[l] & top) | (SLOT(uint32_t, 2)[l] & ~top)););
}

static uint32_t predicate(const Warp *w, const Code *c, int i) {
  return w->preds[c->o[i]] ^ (c->neg >> i & 1 ? ~(uint32_t)0 : 0);
}

/* and, or, xor, not of predicates: Code.op is 0 to 3 */
void run_pred_logic(Warp *w, const Code *c, uint32_t mask) {
  uint32_t a = predicate(w, c, 1), b = c->n > 2 ? predicate(w, c, 2) : 0;
  put(w, c->o[0], c->op == 0 ? a & b : c->op == 1 ? a | b : c->op == 2 ? a ^ b : ~a, mask);
}

void run_mov_pred(Warp *w, const Code *c, uint32_t mask) {
  put(w, c->o[0], predicate(w, c, 1), mask);
}
