/*
** ptx_vector.c -- two or four neighbours in memory by one access, where they are aligned as a whole (16 bytes at most).
** In:  a dtype, an address.  Out: registers of the compute type, or a store. Cannot fail, but for memory.
*/
#include "device/cuda/ptx.h"

/* n words of 32 bits, or of 64 in pairs. */
static void load_words(Ptx *E, Reg at, int n, Reg *y) {
  for (int i = 0; i < n; i++) y[i] = ty_ptx_reg(E, REG_32);
  if (n == 1) ty_ptx(E, "ld.global.b32 $, [$]", y[0], at);
  else if (n == 2) ty_ptx(E, "ld.global.v2.b32 {$, $}, [$]", y[0], y[1], at);
  else ty_ptx(E, "ld.global.v4.b32 {$, $, $, $}, [$]", y[0], y[1], y[2], y[3], at);
}

static void store_words(Ptx *E, Reg at, int n, const Reg *v) {
  if (n == 1) ty_ptx(E, "st.global.b32 [$], $", at, v[0]);
  else if (n == 2) ty_ptx(E, "st.global.v2.b32 [$], {$, $}", at, v[0], v[1]);
  else ty_ptx(E, "st.global.v4.b32 [$], {$, $, $, $}", at, v[0], v[1], v[2], v[3]);
}

/* Element i of a word that holds 4 / bytes of them. */
static Reg part_of(Ptx *E, int dtype, Reg word, int i) {
  const Reg y = ty_ptx_reg(E, REG_32);
  switch (dtype) {
  case T_I8: ty_ptx(E, "bfe.s32 $, $, #, 8", y, word, (i64)8 * i); break;
  case T_I16: ty_ptx(E, "bfe.s32 $, $, #, 16", y, word, (i64)16 * i); break;
  case T_BF16:
    if (i) ty_ptx(E, "and.b32 $, $, 0xffff0000", y, word);
    else ty_ptx(E, "shl.b32 $, $, 16", y, word);
    break;
  case T_F16: {
    const Reg low = ty_ptx_reg(E, REG_16), high = ty_ptx_reg(E, REG_16);
    ty_ptx(E, "mov.b32 {$, $}, $", low, high, word);
    ty_ptx(E, "cvt.f32.f16 $, $", y, i ? high : low);
    break;
  }
  default: ty_ptx(E, "bfe.u32 $, $, #, 8", y, word, (i64)8 * i);
  }
  return y;
}

void ty_ptx_load_vector(Ptx *E, int dtype, Reg address, int n, Reg *y) {
  const int bytes = ty_dtypes[dtype].bytes, each = 4 / bytes;
  if (bytes == 8) {
    for (int i = 0; i < n; i += 2) {
      y[i] = ty_ptx_reg(E, REG_64), y[i + 1] = ty_ptx_reg(E, REG_64);
      ty_ptx(E, "ld.global.v2.b64 {$, $}, [$+#]", y[i], y[i + 1], address, (i64)8 * i);
    }
    return;
  }
  if (bytes == 4) {
    load_words(E, address, n, y);
    return;
  }
  Reg word[2];
  load_words(E, address, n / each, word);
  for (int i = 0; i < n; i++) y[i] = part_of(E, dtype, word[i / each], i % each);
}

/* Two elements of 2 bytes as a word. */
static Reg pair_of(Ptx *E, int dtype, Reg low, Reg high) {
  const Reg y = ty_ptx_reg(E, REG_32);
  if (dtype != T_F16) {
    ty_ptx(E, "prmt.b32 $, $, $, ^", y, low, high, (u64)(dtype == T_BF16 ? 0x7632 : 0x5410));
    return y;
  }
  const Reg l = ty_ptx_reg(E, REG_16), h = ty_ptx_reg(E, REG_16);
  ty_ptx(E, "cvt.rn.f16.f32 $, $", l, low);
  ty_ptx(E, "cvt.rn.f16.f32 $, $", h, high);
  ty_ptx(E, "mov.b32 $, {$, $}", y, l, h);
  return y;
}

void ty_ptx_store_vector(Ptx *E, int dtype, Reg address, int n, const Reg *v) {
  const int bytes = ty_dtypes[dtype].bytes;
  Reg word[2];
  if (bytes == 8) {
    for (int i = 0; i < n; i += 2)
      ty_ptx(E, "st.global.v2.b64 [$+#], {$, $}", address, (i64)8 * i, v[i], v[i + 1]);
    return;
  }
  if (bytes == 4) {
    store_words(E, address, n, v);
    return;
  }
  if (bytes == 2) {
    for (int i = 0; i < n; i += 2) word[i / 2] = pair_of(E, dtype, v[i], v[i + 1]);
    store_words(E, address, n / 2, word);
    return;
  }
  Reg half[2];
  for (int i = 0; i < 4; i += 2) {
    half[i / 2] = ty_ptx_reg(E, REG_32);
    ty_ptx(E, "prmt.b32 $, $, $, 0x40", half[i / 2], v[i], v[i + 1]);
  }
  word[0] = ty_ptx_reg(E, REG_32);
  ty_ptx(E, "prmt.b32 $, $, $, 0x5410", word[0], half[0], half[1]);
  store_words(E, address, 1, word);
}
