/*
** ops.h -- the one table of operations. Whoever needs to know an operation reads its row.
**
** Columns
**   NAME   the enum OP_NAME, and lower-cased the name in dumps and in the parser
**   lua    the user's name: method and function of that name, start of error texts; 0: internal
**   class  LEAF MAP VIEW REDUCE SCAN DOT MOVE: what fuse, lower and the machines need to know
**   n      operands
**   type   how operand dtypes give the dtype of the result (TR_*, below); record casts the operands
**   flags  F_COMM operands may be exchanged; F_RANDOM never merged; F_CHECK can fail on data, so it
**          is checked when recorded; F_INPLACE has a form with a trailing _; F_ROUTINE a routine
**          of the device runs it
**   value  MAP only: the result in primitives, by the builder's words (build.h, kernels/scalar.def)
**   bound  error bound in ulp against the exact result, for tests; 0: exact or correctly rounded
**   help   one line: what it gives. Public documentation is made from it.
**   grad   the gradient of each operand (D1, D2, D3) by that of the result: g; a, b, c: the operands.
**          In words of grad_words.c, which keeps the operands that are mentioned. D0: constant, as far
**          as gradients go; NONE: so for one operand. ZERO: it has one, which is 0
**
** About 70 rows; some 200 user functions are compositions of these (lua/tycho/functions.lua).
*/
#ifndef TY_OPS_H
#define TY_OPS_H

/* Type rules. "promoted" is ty_dtype_promote over tensors, numbers being weak. */
typedef enum {
  TR_NONE,  /* the dtype is given with the operation */
  TR_ARITH, /* promoted; bool becomes i64 */
  TR_ANY,   /* promoted; bool stays */
  TR_FLOAT, /* promoted; integers and bool become the default float */
  TR_INT,   /* promoted; integers only */
  TR_BITS,  /* promoted; integers or bool */
  TR_CMP,   /* operands promoted, result bool */
  TR_WHERE, /* first operand bool, the others promoted; bool stays */
  TR_SUM,   /* bool and integers become i64, floats stay */
  TR_KEEP,  /* that of the first operand */
  TR_INDEX, /* i64 */
  TR_DOT    /* promoted; bool becomes i64 */
} TypeRule;

typedef enum { LEAF, MAP, VIEW, REDUCE, SCAN, DOT, MOVE } OpClass;

enum { F_COMM = 1, F_RANDOM = 2, F_CHECK = 4, F_INPLACE = 8, F_ROUTINE = 16 };
#define C F_COMM
#define I F_INPLACE

/* clang-format off */
/*  NAME         lua              class   n  type      flags    value               bound help, gradient */
#define TY_OPS(_) \
_(INPUT,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "an existing buffer, by its layout", D0) \
_(CONST,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "one value in every element", D0) \
_(SCALAR,        0,               LEAF,   0, TR_NONE,  0,       0,                  0, "a number given at run time", D0) \
_(IOTA,          0,               LEAF,   0, TR_NONE,  0,       0,                  0, "each element's row-major position, i64 from 0", D0) \
_(EMPTY,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "elements of any value", D0) \
_(RANDOM,        0,               LEAF,   0, TR_NONE,  F_RANDOM,0,                  0, "32 random bits an element, word 0-3 of Philox4x32-10", D0) \
_(PARAM,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "what a loop's body will be given; it has no value", D0) \
_(NEG,           "neg",           MAP,    1, TR_ARITH, I,       NEG(a),             0, "the negative, element by element", D1(NEG(g))) \
_(ABS,           "abs",           MAP,    1, TR_ARITH, I,       ABS(a),             0, "the magnitude, element by element", D1(MUL(g, SIGN(a)))) \
_(CEIL,          "ceil",          MAP,    1, TR_ARITH, I,       CEIL(a),            0, "the next whole number above", D1(ZERO)) \
_(FLOOR,         "floor",         MAP,    1, TR_ARITH, I,       FLOOR(a),           0, "the next whole number below", D1(ZERO)) \
_(ROUND,         "round",         MAP,    1, TR_ARITH, I,       ROUND(a),           0, "the nearest whole number, half to even", D1(ZERO)) \
_(TRUNC,         "trunc",         MAP,    1, TR_ARITH, I,       TRUNC(a),           0, "the whole part, towards zero", D1(ZERO)) \
_(SQRT,          "sqrt",          MAP,    1, TR_FLOAT, I,       SQRT(a),            0, "the square root; NaN below zero", D1(DIV(g, MUL(TWO, SQRT(a))))) \
_(EXP,           "exp",           MAP,    1, TR_FLOAT, I,       s_exp(B, a),        1, "e to the power x", D1(MUL(g, EXP(a)))) \
_(EXP2,          "exp2",          MAP,    1, TR_FLOAT, I,       s_exp2(B, a),       2, "2 to the power x", D1(MUL(g, MUL(EXP2(a), LN2)))) \
_(EXPM1,         "expm1",         MAP,    1, TR_FLOAT, I,       s_expm1(B, a),      3, "exp(x) - 1, accurate near zero", D1(MUL(g, EXP(a)))) \
_(LOG,           "log",           MAP,    1, TR_FLOAT, I,       s_log(B, a),        2, "the natural logarithm; -inf at zero, NaN below", D1(DIV(g, a))) \
_(LOG2,          "log2",          MAP,    1, TR_FLOAT, I,       s_log2(B, a),       3, "the logarithm to base 2", D1(DIV(g, MUL(a, LN2)))) \
_(LOG10,         "log10",         MAP,    1, TR_FLOAT, I,       s_log10(B, a),      3, "the logarithm to base 10", D1(DIV(g, MUL(a, LN10)))) \
_(LOG1P,         "log1p",         MAP,    1, TR_FLOAT, I,       s_log1p(B, a),      2, "log(1 + x), accurate near zero", D1(DIV(g, ADD(a, ONE)))) \
_(SIN,           "sin",           MAP,    1, TR_FLOAT, I,       s_sin(B, a),        1, "the sine of x radians", D1(MUL(g, COS(a)))) \
_(COS,           "cos",           MAP,    1, TR_FLOAT, I,       s_cos(B, a),        1, "the cosine of x radians", D1(NEG(MUL(g, SIN(a))))) \
_(TAN,           "tan",           MAP,    1, TR_FLOAT, I,       s_tan(B, a),        3, "the tangent of x radians", D1(MUL(g, ADD(SQUARE(TAN(a)), ONE)))) \
_(ASIN,          "asin",          MAP,    1, TR_FLOAT, I,       s_asin(B, a),       2, "the angle in radians whose sine is x", D1(DIV(g, SQRT(SUB(ONE, SQUARE(a)))))) \
_(ACOS,          "acos",          MAP,    1, TR_FLOAT, I,       s_acos(B, a),       2, "the angle in radians whose cosine is x", D1(NEG(DIV(g, SQRT(SUB(ONE, SQUARE(a))))))) \
_(ATAN,          "atan",          MAP,    1, TR_FLOAT, I,       s_atan(B, a),       3, "the angle in radians whose tangent is x", D1(DIV(g, ADD(SQUARE(a), ONE)))) \
_(SINH,          "sinh",          MAP,    1, TR_FLOAT, I,       s_sinh(B, a),       3, "the hyperbolic sine", D1(MUL(g, COSH(a)))) \
_(COSH,          "cosh",          MAP,    1, TR_FLOAT, I,       s_cosh(B, a),       2, "the hyperbolic cosine", D1(MUL(g, SINH(a)))) \
_(TANH,          "tanh",          MAP,    1, TR_FLOAT, I,       s_tanh(B, a),       3, "the hyperbolic tangent", D1(MUL(g, SUB(ONE, SQUARE(TANH(a)))))) \
_(ASINH,         "asinh",         MAP,    1, TR_FLOAT, I,       s_asinh(B, a),      3, "the inverse hyperbolic sine", D1(DIV(g, SQRT(ADD(SQUARE(a), ONE))))) \
_(ACOSH,         "acosh",         MAP,    1, TR_FLOAT, I,       s_acosh(B, a),      3, "the inverse hyperbolic cosine; NaN below 1", D1(DIV(g, SQRT(SUB(SQUARE(a), ONE))))) \
_(ATANH,         "atanh",         MAP,    1, TR_FLOAT, I,       s_atanh(B, a),      3, "the inverse hyperbolic tangent", D1(DIV(g, SUB(ONE, SQUARE(a))))) \
_(ERF,           "erf",           MAP,    1, TR_FLOAT, I,       s_erf(B, a),        3, "the error function", D1(MUL(g, MUL(EXP(NEG(SQUARE(a))), TWO_RSQRT_PI)))) \
_(ERFINV,        "erfinv",        MAP,    1, TR_FLOAT, I,       s_erfinv(B, a),     3, "the inverse of the error function", D1(MUL(g, MUL(EXP(SQUARE(ERFINV(a))), HALF_SQRT_PI)))) \
_(SIGMOID,       "sigmoid",       MAP,    1, TR_FLOAT, I,       s_sigmoid(B, a),    3, "1 / (1 + exp(-x))", D1(MUL(g, MUL(SIGMOID(a), SIGMOID(NEG(a)))))) \
_(NOT,           "bitwise_not",   MAP,    1, TR_BITS,  I,       s_not(B, a, n),     0, "every bit turned over; for bool the opposite", D0) \
_(CAST,          0,               MAP,    1, TR_NONE,  0,       0,                  0, "the value in another dtype", D1(g)) \
_(BITCAST,       0,               MAP,    1, TR_NONE,  0,       0,                  0, "the same bits read as another dtype of that size", D0) \
_(ADD,           "add",           MAP,    2, TR_ARITH, C|I,     ADD(a, b),          0, "sum, element by element", D2(g, g)) \
_(SUB,           "sub",           MAP,    2, TR_ARITH, I,       SUB(a, b),          0, "difference, element by element", D2(g, NEG(g))) \
_(MUL,           "mul",           MAP,    2, TR_ARITH, C|I,     MUL(a, b),          0, "product, element by element", D2(MUL(g, b), MUL(g, a))) \
_(DIV,           "div",           MAP,    2, TR_FLOAT, I,       DIV(a, b),          0, "quotient; integers give a float", D2(DIV(g, b), NEG(MUL(g, DIV(DIV(a, b), b))))) \
_(FLOOR_DIVIDE,  "floor_divide",  MAP,    2, TR_ARITH, I,       s_floor_divide(B, a, b), 1, "quotient rounded down; an integer by 0 gives 0", D2(ZERO, ZERO)) \
_(REMAINDER,     "remainder",     MAP,    2, TR_ARITH, I,       s_remainder(B, a, b),0, "remainder with the divisor's sign; an integer by 0 gives 0", D2(g, NEG(MUL(g, FLOOR(DIV(a, b)))))) \
_(FMOD,          "fmod",          MAP,    2, TR_ARITH, I,       s_fmod(B, a, b),    0, "remainder with the dividend's sign; an integer by 0 gives 0", D2(g, NEG(MUL(g, TRUNC(DIV(a, b)))))) \
_(POW,           "pow",           MAP,    2, TR_ARITH, I,       s_pow(B, a, b),     2, "a to the power b; integers wrap, a negative exponent truncates", D2(WHERE(EQ(b, ZERO), ZERO, MUL(g, MUL(b, POW(a, SUB(b, ONE))))), WHERE(AND(EQ(a, ZERO), LE(ZERO, b)), ZERO, MUL(g, MUL(POW(a, b), LOG(a)))))) \
_(MAXIMUM,       "maximum",       MAP,    2, TR_ANY,   C|I,     MAX(a, b),          0, "the larger; NaN wins, +0 above -0", D2(CHOICE(LT(a, b), a, b), CHOICE(LT(b, a), a, b))) \
_(MINIMUM,       "minimum",       MAP,    2, TR_ANY,   C|I,     MIN(a, b),          0, "the smaller; NaN wins, -0 below +0", D2(CHOICE(LT(b, a), a, b), CHOICE(LT(a, b), a, b))) \
_(ATAN2,         "atan2",         MAP,    2, TR_FLOAT, I,       s_atan2(B, a, b),   3, "the angle of the point (b, a) in radians", D2(DIV(MUL(g, b), ADD(SQUARE(a), SQUARE(b))), NEG(DIV(MUL(g, a), ADD(SQUARE(a), SQUARE(b)))))) \
_(COPYSIGN,      "copysign",      MAP,    2, TR_FLOAT, I,       s_copysign(B, a, b),0, "the magnitude of a with the sign of b", D2(MUL(g, MUL(SIGN(a), COPYSIGN(ONE, b))), ZERO)) \
_(LSHIFT,        "lshift",        MAP,    2, TR_INT,   I,       s_lshift(B, a, b, n),0, "bits moved up; 0 beyond the width or for a negative count", D0) \
_(RSHIFT,        "rshift",        MAP,    2, TR_INT,   I,       s_rshift(B, a, b, n),0, "bits moved down, keeping the sign; all sign beyond the width or for a negative count", D0) \
_(AND,           "bitwise_and",   MAP,    2, TR_BITS,  C|I,     AND(a, b),          0, "bits set in both", D0) \
_(OR,            "bitwise_or",    MAP,    2, TR_BITS,  C|I,     OR(a, b),           0, "bits set in either", D0) \
_(XOR,           "bitwise_xor",   MAP,    2, TR_BITS,  C|I,     XOR(a, b),          0, "bits set in one of the two", D0) \
_(EQ,            "eq",            MAP,    2, TR_CMP,   C,       EQ(a, b),           0, "bool: equal; NaN equals nothing", D0) \
_(NE,            "ne",            MAP,    2, TR_CMP,   C,       s_ne(B, a, b),      0, "bool: not equal; NaN differs from all", D0) \
_(LT,            "lt",            MAP,    2, TR_CMP,   0,       LT(a, b),           0, "bool: a below b", D0) \
_(LE,            "le",            MAP,    2, TR_CMP,   0,       LE(a, b),           0, "bool: a below or equal to b", D0) \
_(WHERE,         "where",         MAP,    3, TR_WHERE, 0,       SEL(a, b, c),       0, "b where the condition holds, else c", D3(NONE, WHERE(a, g, ZERO), WHERE(a, ZERO, g))) \
_(VIEW,          0,               VIEW,   1, TR_KEEP,  0,       0,                  0, "other dims, strides and offset over the elements of a", D1(g)) \
_(SUM,           "sum",           REDUCE, 1, TR_SUM,   0,       0,                  0, "sum over dims", D1(g)) \
_(PROD,          "prod",          REDUCE, 1, TR_SUM,   0,       0,                  0, "product over dims", D1(MUL(g, OTHERS))) \
_(AMAX,          "max",           REDUCE, 1, TR_KEEP,  0,       0,                  0, "the largest element over dims; NaN wins", D1(SHARE(EQ(a, AMAX(a))))) \
_(AMIN,          "min",           REDUCE, 1, TR_KEEP,  0,       0,                  0, "the smallest element over dims; NaN wins", D1(SHARE(EQ(a, AMIN(a))))) \
_(ARGMAX,        "argmax",        REDUCE, 1, TR_INDEX, 0,       0,                  0, "position of the first largest element; NaN wins", D0) \
_(ARGMIN,        "argmin",        REDUCE, 1, TR_INDEX, 0,       0,                  0, "position of the first smallest element; NaN wins", D0) \
_(CUMSUM,        "cumsum",        SCAN,   1, TR_SUM,   0,       0,                  0, "running sum along a dim", D1(FLIP(CUMSUM(FLIP(g))))) \
_(CUMPROD,       "cumprod",       SCAN,   1, TR_SUM,   0,       0,                  0, "running product along a dim", D1(RUNNING)) \
_(CUMMAX,        "cummax",        SCAN,   1, TR_KEEP,  0,       0,                  0, "running maximum along a dim; NaN stays", D1(SPREAD(CUMMAX(WHERE(OR(EQ(a, CUMMAX(a)), NE(a, a)), PLACE, ZERO)), g))) \
_(CUMMIN,        "cummin",        SCAN,   1, TR_KEEP,  0,       0,                  0, "running minimum along a dim; NaN stays", D1(SPREAD(CUMMAX(WHERE(OR(EQ(a, CUMMIN(a)), NE(a, a)), PLACE, ZERO)), g))) \
_(LOGCUMSUMEXP,  "logcumsumexp",  SCAN,   1, TR_FLOAT, 0,       0,                  8, "logarithm of the running sum of exp(x) along a dim", D1(SUB(LATER(LT(ZERO, g)), LATER(LT(g, ZERO))))) \
_(MATMUL,        "matmul",        DOT,    2, TR_DOT,   0,       0,                  0, "matrix product, batched over leading dims", D2(DOT_A, DOT_B)) \
_(PUT,           0,               MOVE,   2, TR_KEEP,  0,       0,                  0, "a with the elements under a view replaced by b", D2(REST, UNDER)) \
_(GATHER,        "gather",        MOVE,   2, TR_KEEP,  F_CHECK, 0,                  0, "elements of a at the index's positions along a dim", D1(SPREAD(b, g))) \
_(SCATTER,       "scatter",       MOVE,   3, TR_KEEP,  F_CHECK|F_ROUTINE|I, 0,         0, "a with elements of src written at the index's positions along a dim; the last wins", D3(UNWRITTEN, NONE, WHERE(LAST, GATHER(g, b), ZERO))) \
_(SCATTER_ADD,   "scatter_add",   MOVE,   3, TR_KEEP,  F_CHECK|F_ROUTINE|I, 0,         0, "a with elements of src added in order at the index's positions along a dim", D3(g, NONE, GATHER(g, b))) \
_(ARGSORT,       "argsort",       MOVE,   1, TR_INDEX, F_ROUTINE,  0,                  0, "positions that sort a dim, stable; NaN counts as largest", D0) \
_(SEARCHSORTED,  "searchsorted",  MOVE,   2, TR_INDEX, F_ROUTINE,  0,                  0, "where values would go in sorted rows", D0) \
_(FFT,           0,               MOVE,   1, TR_KEEP,  F_ROUTINE,  0,                  0, "the Fourier transform along a dim of complex numbers as pairs, or of real ones to half of it, or back", D1(TRANSPOSE)) \
_(POSITIONS,     0,               MOVE,   1, TR_INDEX, F_ROUTINE,  0,                  0, "positions, counted from 0, of an index; one out of range is the device's error", D0) \
_(TO,            0,               MOVE,   1, TR_KEEP,  F_ROUTINE,  0,                  0, "the elements on another device", D1(g)) \
_(ATTEND,        0,               MOVE,   5, TR_KEEP,  F_ROUTINE,  0,                  0, "attention in blocks; then maxima and sums of its scores", D3(ATTENDED, ATTENDED, ATTENDED)) \
_(ATTEND_GRAD,   0,               MOVE,   7, TR_KEEP,  F_ROUTINE,  0,                  0, "the gradients of attention's queries, keys and values", D0) \
_(LOOP,          0,               MOVE,   7, TR_NONE,  F_ROUTINE,  0,                  0, "a body for each row of sequences in turn: the last carried values, then rows of results", D0) \
_(CALL,          0,               MOVE,   3, TR_KEEP,  F_ROUTINE,  0,                  0, "what another library makes of its first operand: as it begins, and when it has ended", D0)
/* clang-format on */

typedef enum {
#define _(NAME, lua, class, n, type, flags, value, bound, help, grad) OP_##NAME,
  TY_OPS(_)
#undef _
      OP_COUNT
} Op;

typedef struct OpInfo {
  const char *name, *lua, *help; /* name: lower case */
  unsigned char class, arity, rule, flags, bound;
} OpInfo;
extern const OpInfo ty_ops[OP_COUNT]; /* in graph.c */

#undef C
#undef I
#endif
