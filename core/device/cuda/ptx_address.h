/*
** ptx_address.h -- whole numbers of 64 bits in PTX: parameters, sums, products, as addresses and places are made of them.
*/
#ifndef TY_PTX_ADDRESS_H
#define TY_PTX_ADDRESS_H

#include "device/cuda/ptx.h"

/* The parameter at a byte. */
static inline Reg param(Ptx *E, i32 at) { return ty_ptx_param(E, REG_64, at); }

/* A special register, as 64 bits. */
static inline Reg special_of(Ptx *E, const char *name) {
  const Reg a = ty_ptx_reg(E, REG_32), y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u32 $, %~", a, name);
  ty_ptx(E, "cvt.u64.u32 $, $", y, a);
  return y;
}

/* a op b; name: the instruction without its type. */
static inline Reg op(Ptx *E, const char *name, Reg a, Reg b) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "~.s64 $, $, $", name, y, a, b);
  return y;
}

/* a b + c */
static inline Reg mad(Ptx *E, Reg a, Reg b, Reg c) {
  const Reg y = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mad.lo.s64 $, $, $, $", y, a, b, c);
  return y;
}

#endif
