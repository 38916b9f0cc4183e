/*
** grad_words.c -- the words of the table's last column, and the rules that they spell.
** In: an operation, the number of an operand. Out: the rule as code; which operands it reads. All of it is constants of
** a kilobyte. Cannot fail.
*/
#include "record/grad.h"
#include "record/grad_words.h"

const double ty_rule_numbers[] = {0,
                                  1,
                                  2,
                                  0.69314718055994530942,
                                  2.30258509299404568402,
                                  1.12837916709551257390,
                                  0.88622692545275801365};

#define D0 I_STOP
#define D1(x) x, I_END, I_STOP
#define D2(x, y) x, I_END, y, I_END, I_STOP
#define D3(x, y, z) x, I_END, y, I_END, z, I_END, I_STOP
#define NONE I_NONE
#define ZERO I_NUMBER
#define ONE I_NUMBER + 1
#define TWO I_NUMBER + 2
#define LN2 I_NUMBER + 3
#define LN10 I_NUMBER + 4
#define TWO_RSQRT_PI I_NUMBER + 5
#define HALF_SQRT_PI I_NUMBER + 6
#define NEG(x) x, OP_NEG
#define ABS(x) x, OP_ABS
#define FLOOR(x) x, OP_FLOOR
#define TRUNC(x) x, OP_TRUNC
#define SQRT(x) x, OP_SQRT
#define EXP(x) x, OP_EXP
#define EXP2(x) x, OP_EXP2
#define LOG(x) x, OP_LOG
#define SIN(x) x, OP_SIN
#define COS(x) x, OP_COS
#define TAN(x) x, OP_TAN
#define SINH(x) x, OP_SINH
#define COSH(x) x, OP_COSH
#define TANH(x) x, OP_TANH
#define ERFINV(x) x, OP_ERFINV
#define SIGMOID(x) x, OP_SIGMOID
#define AMAX(x) x, OP_AMAX
#define AMIN(x) x, OP_AMIN
#define SUM(x) x, OP_SUM
#define CUMSUM(x) x, OP_CUMSUM
#define CUMMAX(x) x, OP_CUMMAX
#define CUMMIN(x) x, OP_CUMMIN
#define LOGCUMSUMEXP(x) x, OP_LOGCUMSUMEXP
#define ADD(x, y) x, y, OP_ADD
#define SUB(x, y) x, y, OP_SUB
#define MUL(x, y) x, y, OP_MUL
#define DIV(x, y) x, y, OP_DIV
#define POW(x, y) x, y, OP_POW
#define AND(x, y) x, y, OP_AND
#define OR(x, y) x, y, OP_OR
#define EQ(x, y) x, y, OP_EQ
#define NE(x, y) x, y, OP_NE
#define LT(x, y) x, y, OP_LT
#define LE(x, y) x, y, OP_LE
#define COPYSIGN(x, y) x, y, OP_COPYSIGN
#define WHERE(x, y, z) x, y, z, OP_WHERE
#define GATHER(x, y) x, y, OP_GATHER
#define SQUARE(x) x, I_DUP, OP_MUL
#define SIGN(x) SUB(LT(ZERO, x), LT(x, ZERO))
#define FLIP(x) x, I_FLIP
#define SPREAD(x, y) x, y, I_SPREAD
#define PLACE I_PLACE
#define OTHERS I_OTHERS
#define RUNNING I_RUNNING
#define DOT_A I_DOT_A
#define DOT_B I_DOT_B
#define REST I_REST
#define UNDER I_UNDER
#define UNWRITTEN I_UNWRITTEN
#define LAST I_LAST
#define ATTENDED I_ATTENDED
#define TRANSPOSE I_TRANSPOSE
/* 0 where the other operand was chosen; equal tensors share; of a tensor and a number the first has all. */
#define CHOICE(other, x, y) other, ZERO, EQ(x, y), MUL(g, I_TIE), g, OP_WHERE, OP_WHERE
/* The elements that m holds for share g evenly. */
#define SHARE(m) m, I_DUP, OP_SUM, g, I_SWAP, OP_DIV, OP_MUL
/* Of logcumsumexp, for the elements of g that m holds for: in logarithms, all that comes later. */
#define LATER(m) \
  a, m, LOG(ABS(g)), LOG(ZERO), OP_WHERE, LOGCUMSUMEXP(a), OP_SUB, I_FLIP, OP_LOGCUMSUMEXP, \
      I_FLIP, OP_ADD, OP_EXP
enum { g = I_G, a = I_A, b = I_B };

struct Code {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) u8 NAME[sizeof((u8[]){grad})];
  TY_OPS(_)
#undef _
};
static const struct Code code = {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) .NAME = {grad},
    TY_OPS(_)
#undef _
};
static const u16 code_at[OP_COUNT] = {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) offsetof(struct Code, NAME),
    TY_OPS(_)
#undef _
};
static const u8 pass[] = {I_G, I_END};

const u8 *ty_rule_of(int op, int i) {
  if (op >= OP_COUNT) return pass;
  const u8 *p = (const u8 *)&code + code_at[op];
  for (; i > 0 && *p != I_STOP; i--)
    while (*p++ != I_END) {}
  return *p == I_STOP || *p == I_NONE ? NULL : p;
}

bool ty_rule_none(int op, int i) { return !ty_rule_of(op, i); }

bool ty_rule_reads(int op, int i, int j) {
  static const u8 reads[] = {[I_A - I_G] = 1,        [I_B - I_G] = 2,         [I_C - I_G] = 4,
                             [I_OTHERS - I_G] = 1,   [I_RUNNING - I_G] = 1,   [I_DOT_A - I_G] = 2,
                             [I_DOT_B - I_G] = 1,    [I_UNWRITTEN - I_G] = 2, [I_LAST - I_G] = 2,
                             [I_ATTENDED - I_G] = 31};
  const u8 *p = ty_rule_of(op, i);
  for (; p && *p != I_END; p++)
    if (*p >= I_G && *p - I_G < TY_COUNT(reads) && reads[*p - I_G] >> j & 1) return true;
  return false;
}
