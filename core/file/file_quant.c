/*
** file_quant.c -- blocks of quantised numbers, as ggml writes them, to f32.
** In: whole blocks. Out: as many numbers as they hold, each the product and sum that ggml's own reader
** computes, in its order and rounded as there. Cannot fail: every bit pattern is some number.
**
** A block holds 32 numbers with one scale, or 256 with two levels of them: 8 or 16 groups, whose scales
** of few bits are multiples of the block's. Low nibbles come before high ones.
*/
#include "file/file.h"

static float half(const u8 *p) {
  u16 h;
  memcpy(&h, p, 2);
  u32 sign = (u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff, u;
  if (e == 31) u = 0x7f800000 | m << 13;
  else if (e) u = (e + 112) << 23 | m << 13;
  else if (!m) u = 0;
  else { /* a denormal: m * 2^-24, normal in f32 */ int k = __builtin_clz(m) - 21;
    u = (u32)(113 - k) << 23 | (m << k & 0x3ff) << 13;
  }
  u |= sign;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

static int nibble(const u8 *q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

/* 32 numbers: a scale, for _1 a least value, for Q5 a fifth bit of each, then 4 or 8 bits of each. */
static void small_block(int code, const u8 *p, float *y) {
  bool least = code == E_Q4_1 || code == E_Q5_1, five = code == E_Q5_0 || code == E_Q5_1;
  float d = half(p), m = least ? half(p + 2) : 0;
  const u8 *q = p + (least ? 4 : 2);
  u32 high = 0;
  if (five) {
    memcpy(&high, q, 4);
    q += 4;
  }
  for (int i = 0; i < 32; i++) {
    if (code == E_Q8_0) {
      y[i] = (float)(i8)q[i] * d;
      continue;
    }
    int v = nibble(q, i) | (int)(high >> i & 1) << 4;
    if (least) y[i] = d * (float)v + m;
    else y[i] = (float)(v - (five ? 16 : 8)) * d;
  }
}

/* Scale and least value of group j of 8: 6 bits each in 12 bytes. */
static void group_scales(const u8 *q, int j, int *scale, int *least) {
  if (j < 4) {
    *scale = q[j] & 63;
    *least = q[j + 4] & 63;
  } else {
    *scale = (q[j + 4] & 15) | q[j - 4] >> 6 << 4;
    *least = q[j + 4] >> 4 | q[j] >> 6 << 4;
  }
}

/* 8 groups of 32, scale and least value each; Q5_K has a fifth bit of each number before its nibbles. */
static void k_block(int code, const u8 *p, float *y) {
  float d = half(p), least = half(p + 2);
  const u8 *scales = p + 4, *high = p + 16, *q = high + (code == E_Q5_K ? 32 : 0);
  for (int j = 0; j < 8; j++) {
    int s, m;
    group_scales(scales, j, &s, &m);
    float scale = d * (float)s, low = least * (float)m;
    for (int i = 0; i < 32; i++) {
      int v = q[j / 2 * 32 + i] >> (j % 2 * 4) & 15;
      if (code == E_Q5_K) v |= (high[i] >> j & 1) << 4;
      *y++ = scale * (float)v - low;
    }
  }
}

/* 16 groups of 16: 4 low bits, 2 high bits, a signed byte of scale a group, the block's scale last. */
static void q6_block(const u8 *p, float *y) {
  const u8 *low = p, *high = p + 128;
  const i8 *scales = (const i8 *)(p + 192);
  float d = half(p + 208);
  for (int i = 0; i < 256; i++) {
    int part = i / 128, row = i % 128 / 32, at = i % 32; /* rows of a half share bytes of `high` */
    int l = low[part * 64 + row % 2 * 32 + at] >> (row / 2 * 4) & 15;
    int h = high[part * 32 + at] >> (row * 2) & 3;
    y[i] = d * (float)scales[i / 16] * (float)((l | h << 4) - 32);
  }
}

void ty_file_blocks(const FileCodeInfo *c, int code, const u8 *p, i64 n, float *y) {
  for (i64 b = 0; b < n / c->elements; b++, p += c->bytes, y += c->elements) {
    if (code == E_Q6_K) q6_block(p, y);
    else if (c->elements == 256) k_block(code, p, y);
    else small_block(code, p, y);
  }
}
