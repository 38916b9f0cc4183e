/*
** build.h -- the words in which the body of a loop program is written (ops.h, kernels/scalar.def).
** A Val is the number of an instruction, its type is known; equal instructions are one;
** instructions on constants are NOT evaluated here. After an error (out of memory, body too long)
** every word gives 0 and B->failed stays set: callers check once, at the end.
*/
#ifndef TY_BUILD_H
#define TY_BUILD_H

#include "ir/program.h"

typedef i32 Val;

/* Too large for small stacks. */
typedef struct Build {
  Instr body[MAX_BODY];
  i32 n;
  bool failed;
} Build;

/* Level is L_ELEM when an operand is (leaves: as asked). `type` is the result's compute type. */
Val ty_emit(Build *B, int prim, int type, Val a, Val b, Val c, u64 imm);
Val ty_emit_leaf(Build *B, int prim, int type, int level, Val a, u64 imm);
Val ty_emit_const(Build *B, int ctype,
                  double v); /* v rounded to the type; integers exact below 2^53 */
Val ty_emit_bits(Build *B, int ctype, u64 bits);
static inline int ty_val_type(const Build *B, Val v) { return B->body[v].type; }

/* The words. In files that use them a variable `B` is the builder. Types follow the first operand.
 */
#define VT(a) ty_val_type(B, a)
#define K(ctype, v) ty_emit_const(B, ctype, v)
#define KL(a, v) ty_emit_const(B, VT(a), v) /* a constant of a's type */
#define W1(P, a) ty_emit(B, P_##P, VT(a), a, -1, -1, 0)
#define W2(P, a, b) ty_emit(B, P_##P, VT(a), a, b, -1, 0)
#define NEG(a) W1(NEG, a)
#define ABS(a) W1(ABS, a)
#define SQRT(a) W1(SQRT, a)
/* on integers these four are the identity; ty_emit sees to it */
#define FLOOR(a) W1(FLOOR, a)
#define CEIL(a) W1(CEIL, a)
#define TRUNC(a) W1(TRUNC, a)
#define ROUND(a) W1(RINT, a)
#define ADD(a, b) W2(ADD, a, b)
#define SUB(a, b) W2(SUB, a, b)
#define MUL(a, b) W2(MUL, a, b)
#define DIV(a, b) W2(DIV, a, b)
#define MIN(a, b) W2(MIN, a, b)
#define MAX(a, b) W2(MAX, a, b)
#define DIVI(a, b) W2(DIVI, a, b)
#define REMI(a, b) W2(REMI, a, b)
#define AND(a, b) W2(AND, a, b)
#define OR(a, b) W2(OR, a, b)
#define XOR(a, b) W2(XOR, a, b)
#define SHL(a, b) W2(SHL, a, b)
#define SHR(a, b) W2(SHR, a, b)
#define SHRU(a, b) W2(SHRU, a, b)
#define MULHI(a, b) W2(MULHI, a, b)
#define FMA(a, b, c) ty_emit(B, P_FMA, VT(a), a, b, c, 0) /* a * b + c, rounded once */
#define EQ(a, b) \
  ty_emit(B, P_EQ, C_I32, a, b, -1, 0) /* i32 0 or 1; `from` is the operands' type \
                                                       */
#define LT(a, b) ty_emit(B, P_LT, C_I32, a, b, -1, 0)
#define LE(a, b) ty_emit(B, P_LE, C_I32, a, b, -1, 0)
#define SEL(m, a, b) ty_emit(B, P_SEL, VT(a), m, a, b, 0)
#define CVT(ctype, a) \
  ty_emit(B, P_CVT, ctype, a, -1, -1, 0) /* identity when the type is the same */
#define BITS(ctype, a) ty_emit(B, P_BITS, ctype, a, -1, -1, 0)
#define RAW(ctype, a) ty_emit(B, P_BITS, ctype, a, -1, -1, 1) /* of a NaN any NaN's bits */
#define LUT(ctype, table, i) ty_emit(B, P_LUT, ctype, i, -1, -1, table)

#endif
