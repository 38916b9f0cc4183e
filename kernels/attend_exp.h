/*
** attend_exp.h -- the numbers of exp for arguments up to 0, as s_exp of scalar.def has them: a polynomial from x^2 / 2 on, and ln 2
** in two parts, less than 0.
*/
#ifndef TY_ATTEND_EXP_H
#define TY_ATTEND_EXP_H

#define EXP_F32 0.5, 0.166665196, 0.0416663848, 0.00836884882, 0.00139422144
#define EXP_F32_LN2 -0x1.62e430p-1
#define EXP_F32_REST 0x1.05c610p-29
#define EXP_F64 \
  0x1.0000000000007p-1, 0x1.55555555554fbp-3, 0x1.55555555514b6p-5, 0x1.1111111128290p-7, \
      0x1.6c16c1821e6a3p-10, 0x1.a01a012578457p-13, 0x1.a0199e856e37ap-16, 0x1.71df33f25626cp-19, \
      0x1.28aa01afc03a2p-22, 0x1.ad6473426ac4ep-26
#define EXP_F64_LN2 -0x1.62e42fefa39efp-1
#define EXP_F64_REST -0x1.abc9e3b39803fp-56

#endif
