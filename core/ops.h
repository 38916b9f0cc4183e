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
**          is checked when recorded; F_INPLACE has a form with a trailing _; F_HOST runs as a host
**          step
**   value  MAP only: the result in primitives, by the builder's words (build.h, kernels/scalar.def)
**   bound  error bound in ulp against the exact result, for tests; 0: exact or correctly rounded
**   help   one line: what it gives. Public documentation is made from it.
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

enum { F_COMM = 1, F_RANDOM = 2, F_CHECK = 4, F_INPLACE = 8, F_HOST = 16 };
#define C F_COMM
#define I F_INPLACE

/* clang-format off */
/*  NAME         lua              class   n  type      flags    value               bound help */
#define TY_OPS(_) \
_(INPUT,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "an existing buffer, by its layout") \
_(CONST,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "one value in every element") \
_(SCALAR,        0,               LEAF,   0, TR_NONE,  0,       0,                  0, "a number given at run time") \
_(IOTA,          0,               LEAF,   0, TR_NONE,  0,       0,                  0, "each element's row-major position, i64 from 0") \
_(EMPTY,         0,               LEAF,   0, TR_NONE,  0,       0,                  0, "elements of any value") \
_(RANDOM,        0,               LEAF,   0, TR_NONE,  F_RANDOM,0,                  0, "32 random bits an element, word 0-3 of Philox4x32-10") \
_(NEG,           "neg",           MAP,    1, TR_ARITH, I,       NEG(a),             0, "the negative, element by element") \
_(ABS,           "abs",           MAP,    1, TR_ARITH, I,       ABS(a),             0, "the magnitude, element by element") \
_(CEIL,          "ceil",          MAP,    1, TR_ARITH, I,       CEIL(a),            0, "the next whole number above") \
_(FLOOR,         "floor",         MAP,    1, TR_ARITH, I,       FLOOR(a),           0, "the next whole number below") \
_(ROUND,         "round",         MAP,    1, TR_ARITH, I,       ROUND(a),           0, "the nearest whole number, half to even") \
_(TRUNC,         "trunc",         MAP,    1, TR_ARITH, I,       TRUNC(a),           0, "the whole part, towards zero") \
_(SQRT,          "sqrt",          MAP,    1, TR_FLOAT, I,       SQRT(a),            0, "the square root; NaN below zero") \
_(EXP,           "exp",           MAP,    1, TR_FLOAT, I,       s_exp(B, a),        1, "e to the power x") \
_(EXP2,          "exp2",          MAP,    1, TR_FLOAT, I,       s_exp2(B, a),       2, "2 to the power x") \
_(EXPM1,         "expm1",         MAP,    1, TR_FLOAT, I,       s_expm1(B, a),      3, "exp(x) - 1, accurate near zero") \
_(LOG,           "log",           MAP,    1, TR_FLOAT, I,       s_log(B, a),        2, "the natural logarithm; -inf at zero, NaN below") \
_(LOG2,          "log2",          MAP,    1, TR_FLOAT, I,       s_log2(B, a),       3, "the logarithm to base 2") \
_(LOG10,         "log10",         MAP,    1, TR_FLOAT, I,       s_log10(B, a),      3, "the logarithm to base 10") \
_(LOG1P,         "log1p",         MAP,    1, TR_FLOAT, I,       s_log1p(B, a),      2, "log(1 + x), accurate near zero") \
_(SIN,           "sin",           MAP,    1, TR_FLOAT, I,       s_sin(B, a),        1, "the sine of x radians") \
_(COS,           "cos",           MAP,    1, TR_FLOAT, I,       s_cos(B, a),        1, "the cosine of x radians") \
_(TAN,           "tan",           MAP,    1, TR_FLOAT, I,       s_tan(B, a),        3, "the tangent of x radians") \
_(ASIN,          "asin",          MAP,    1, TR_FLOAT, I,       s_asin(B, a),       2, "the angle in radians whose sine is x") \
_(ACOS,          "acos",          MAP,    1, TR_FLOAT, I,       s_acos(B, a),       2, "the angle in radians whose cosine is x") \
_(ATAN,          "atan",          MAP,    1, TR_FLOAT, I,       s_atan(B, a),       3, "the angle in radians whose tangent is x") \
_(SINH,          "sinh",          MAP,    1, TR_FLOAT, I,       s_sinh(B, a),       3, "the hyperbolic sine") \
_(COSH,          "cosh",          MAP,    1, TR_FLOAT, I,       s_cosh(B, a),       2, "the hyperbolic cosine") \
_(TANH,          "tanh",          MAP,    1, TR_FLOAT, I,       s_tanh(B, a),       3, "the hyperbolic tangent") \
_(ASINH,         "asinh",         MAP,    1, TR_FLOAT, I,       s_asinh(B, a),      3, "the inverse hyperbolic sine") \
_(ACOSH,         "acosh",         MAP,    1, TR_FLOAT, I,       s_acosh(B, a),      3, "the inverse hyperbolic cosine; NaN below 1") \
_(ATANH,         "atanh",         MAP,    1, TR_FLOAT, I,       s_atanh(B, a),      3, "the inverse hyperbolic tangent") \
_(ERF,           "erf",           MAP,    1, TR_FLOAT, I,       s_erf(B, a),        3, "the error function") \
_(ERFINV,        "erfinv",        MAP,    1, TR_FLOAT, I,       s_erfinv(B, a),     3, "the inverse of the error function") \
_(SIGMOID,       "sigmoid",       MAP,    1, TR_FLOAT, I,       s_sigmoid(B, a),    3, "1 / (1 + exp(-x))") \
_(NOT,           "bitwise_not",   MAP,    1, TR_BITS,  I,       s_not(B, a, n),     0, "every bit turned over; for bool the opposite") \
_(CAST,          0,               MAP,    1, TR_NONE,  0,       0,                  0, "the value in another dtype") \
_(BITCAST,       0,               MAP,    1, TR_NONE,  0,       0,                  0, "the same bits read as another dtype of that size") \
_(ADD,           "add",           MAP,    2, TR_ARITH, C|I,     ADD(a, b),          0, "sum, element by element") \
_(SUB,           "sub",           MAP,    2, TR_ARITH, I,       SUB(a, b),          0, "difference, element by element") \
_(MUL,           "mul",           MAP,    2, TR_ARITH, C|I,     MUL(a, b),          0, "product, element by element") \
_(DIV,           "div",           MAP,    2, TR_FLOAT, I,       DIV(a, b),          0, "quotient; integers give a float") \
_(FLOOR_DIVIDE,  "floor_divide",  MAP,    2, TR_ARITH, I,       s_floor_divide(B, a, b), 1, "quotient rounded down; an integer by 0 gives 0") \
_(REMAINDER,     "remainder",     MAP,    2, TR_ARITH, I,       s_remainder(B, a, b),0, "remainder with the divisor's sign; an integer by 0 gives 0") \
_(FMOD,          "fmod",          MAP,    2, TR_ARITH, I,       s_fmod(B, a, b),    0, "remainder with the dividend's sign; an integer by 0 gives 0") \
_(POW,           "pow",           MAP,    2, TR_ARITH, I,       s_pow(B, a, b),     2, "a to the power b; integers wrap, a negative exponent truncates") \
_(MAXIMUM,       "maximum",       MAP,    2, TR_ANY,   C|I,     MAX(a, b),          0, "the larger; NaN wins, +0 above -0") \
_(MINIMUM,       "minimum",       MAP,    2, TR_ANY,   C|I,     MIN(a, b),          0, "the smaller; NaN wins, -0 below +0") \
_(ATAN2,         "atan2",         MAP,    2, TR_FLOAT, I,       s_atan2(B, a, b),   3, "the angle of the point (b, a) in radians") \
_(COPYSIGN,      "copysign",      MAP,    2, TR_FLOAT, I,       s_copysign(B, a, b),0, "the magnitude of a with the sign of b") \
_(LSHIFT,        "lshift",        MAP,    2, TR_INT,   I,       s_lshift(B, a, b, n),0, "bits moved up; 0 beyond the width or for a negative count") \
_(RSHIFT,        "rshift",        MAP,    2, TR_INT,   I,       s_rshift(B, a, b, n),0, "bits moved down, keeping the sign; all sign beyond the width or for a negative count") \
_(AND,           "bitwise_and",   MAP,    2, TR_BITS,  C|I,     AND(a, b),          0, "bits set in both") \
_(OR,            "bitwise_or",    MAP,    2, TR_BITS,  C|I,     OR(a, b),           0, "bits set in either") \
_(XOR,           "bitwise_xor",   MAP,    2, TR_BITS,  C|I,     XOR(a, b),          0, "bits set in one of the two") \
_(EQ,            "eq",            MAP,    2, TR_CMP,   C,       EQ(a, b),           0, "bool: equal; NaN equals nothing") \
_(NE,            "ne",            MAP,    2, TR_CMP,   C,       s_ne(B, a, b),      0, "bool: not equal; NaN differs from all") \
_(LT,            "lt",            MAP,    2, TR_CMP,   0,       LT(a, b),           0, "bool: a below b") \
_(LE,            "le",            MAP,    2, TR_CMP,   0,       LE(a, b),           0, "bool: a below or equal to b") \
_(WHERE,         "where",         MAP,    3, TR_WHERE, 0,       SEL(a, b, c),       0, "b where the condition holds, else c") \
_(VIEW,          0,               VIEW,   1, TR_KEEP,  0,       0,                  0, "other dims, strides and offset over the elements of a") \
_(SUM,           "sum",           REDUCE, 1, TR_SUM,   0,       0,                  0, "sum over dims") \
_(PROD,          "prod",          REDUCE, 1, TR_SUM,   0,       0,                  0, "product over dims") \
_(AMAX,          "max",           REDUCE, 1, TR_KEEP,  0,       0,                  0, "the largest element over dims; NaN wins") \
_(AMIN,          "min",           REDUCE, 1, TR_KEEP,  0,       0,                  0, "the smallest element over dims; NaN wins") \
_(ARGMAX,        "argmax",        REDUCE, 1, TR_INDEX, 0,       0,                  0, "position of the first largest element; NaN wins") \
_(ARGMIN,        "argmin",        REDUCE, 1, TR_INDEX, 0,       0,                  0, "position of the first smallest element; NaN wins") \
_(CUMSUM,        "cumsum",        SCAN,   1, TR_SUM,   0,       0,                  0, "running sum along a dim") \
_(CUMPROD,       "cumprod",       SCAN,   1, TR_SUM,   0,       0,                  0, "running product along a dim") \
_(CUMMAX,        "cummax",        SCAN,   1, TR_KEEP,  0,       0,                  0, "running maximum along a dim; NaN stays") \
_(CUMMIN,        "cummin",        SCAN,   1, TR_KEEP,  0,       0,                  0, "running minimum along a dim; NaN stays") \
_(LOGCUMSUMEXP,  "logcumsumexp",  SCAN,   1, TR_FLOAT, 0,       0,                  8, "logarithm of the running sum of exp(x) along a dim") \
_(MATMUL,        "matmul",        DOT,    2, TR_DOT,   0,       0,                  0, "matrix product, batched over leading dims") \
_(PUT,           0,               MOVE,   2, TR_KEEP,  0,       0,                  0, "a with the elements under a view replaced by b") \
_(GATHER,        "gather",        MOVE,   2, TR_KEEP,  F_CHECK, 0,                  0, "elements of a at the index's positions along a dim") \
_(SCATTER,       "scatter",       MOVE,   3, TR_KEEP,  F_CHECK|F_HOST|I, 0,         0, "a with elements of src written at the index's positions along a dim; the last wins") \
_(SCATTER_ADD,   "scatter_add",   MOVE,   3, TR_KEEP,  F_CHECK|F_HOST|I, 0,         0, "a with elements of src added in order at the index's positions along a dim") \
_(ARGSORT,       "argsort",       MOVE,   1, TR_INDEX, F_HOST,  0,                  0, "positions that sort a dim, stable; NaN counts as largest") \
_(SEARCHSORTED,  "searchsorted",  MOVE,   2, TR_INDEX, F_HOST,  0,                  0, "where values would go in sorted rows")
/* clang-format on */

typedef enum {
#define _(NAME, lua, class, n, type, flags, value, bound, help) OP_##NAME,
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
