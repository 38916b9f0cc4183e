/*
** file_number.c -- decimal numbers in text, to the nearest double or float, and back.
** In: text. Out: values rounded once, half to even, on every system and in every locale.
** What fails: road 3, when out of memory at its first use.
**
** Three roads, each taken when the one before cannot be sure:
** 1. w below 2^53 and a power of ten that a double holds: one exact operation (Clinger 1990).
** 2. w times a power of five in 128 bits, unless the product lies too near to a midpoint (Lemire
**    2021, "Number parsing at a gigabyte per second"; the power is exact or rounded as there).
**    Its table is computed at first use, with long integers: 20 microseconds instead of 10 KB.
** 3. The C library, in the C locale: 20 digits and more, and the few products that road 2 gives back.
** A float is the double rounded again, which is wrong only where the double is a midpoint between
** two floats and is not the number itself, or among subnormal floats: there the C library decides.
*/
#include "file/file_number.h"
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>

enum { POWER_MIN = -342, POWER_MAX = 308, POWERS = POWER_MAX - POWER_MIN + 1 };

static u64 powers[POWERS][2]; /* of five: high and low word, the highest bit set */
static Once once = ONCE_INIT;

/* ---- the table ---------------------------------------------------------------------------------- */

enum { LONG_WORDS = 40 }; /* 32 bits each: 5^308 has 716 bits; 2^1279 over 5^342 keeps 484 */

/* The 128 bits from the highest set one down. */
static void long_top(const u32 *x, u64 *to) {
  int n = LONG_WORDS;
  while (n > 1 && !x[n - 1]) n--;
  int shift = __builtin_clz(x[n - 1]);
  u32 w[5] = {0};
  for (int i = 0; i < 5 && n - 1 - i >= 0; i++) w[i] = x[n - 1 - i];
  for (int i = 0; i < 2; i++) {
    u64 high = (u64)w[2 * i] << 32 | w[2 * i + 1];
    to[i] = shift ? high << shift | w[2 * i + 2] >> (32 - shift) : high;
  }
}

/* 5^n exactly, then its top; 1/5^n from 2^1279 divided by five n times, each time rounded down,
** which is the same as dividing once. */
static void powers_make(void) {
  u32 x[LONG_WORDS] = {1};
  for (int q = 0; q <= POWER_MAX; q++) {
    long_top(x, powers[q - POWER_MIN]);
    u64 carry = 0;
    for (int i = 0; i < LONG_WORDS; i++) {
      carry += (u64)x[i] * 5;
      x[i] = (u32)carry, carry >>= 32;
    }
  }
  memset(x, 0, sizeof x);
  x[LONG_WORDS - 1] = 0x80000000u;
  for (int q = -1; q >= POWER_MIN; q--) {
    u64 rest = 0;
    for (int i = LONG_WORDS - 1; i >= 0; i--) {
      rest = rest << 32 | x[i];
      x[i] = (u32)(rest / 5), rest %= 5;
    }
    u64 *to = powers[q - POWER_MIN];
    long_top(x, to);
    if (q >= -27 && ++to[1] == 0) to[0]++; /* there the reciprocal is rounded up */
  }
}

/* ---- reading ------------------------------------------------------------------------------------ */

static inline bool is_digit(char c) { return (u8)(c - '0') < 10; }

/* Digits from p on into d while it has room; those behind count in `rest` and `dropped`. */
static const char *scan_digits(const char *p, Decimal *d, i64 *dropped) {
  u64 w = d->w;
  for (; is_digit(*p); p++) {
    if (TY_LIKELY(w < 1000000000000000000u)) { /* fewer than 19 digits */
      w = w * 10 + (u64)(*p - '0');
    } else {
      ++*dropped;
      d->rest |= *p != '0';
    }
  }
  d->w = w;
  return p;
}

const char *ty_number_scan(const char *p, char point, Decimal *d) {
  i64 dropped = 0, behind = 0;
  *d = (Decimal){.negative = *p == '-', .whole = true};
  p += *p == '-' || *p == '+';
  const char *from = p;
  p = scan_digits(p, d, &dropped);
  i64 digits = p - from;
  if (*p == point) {
    i64 before = dropped;
    from = ++p;
    p = scan_digits(p, d, &dropped);
    d->whole = false;
    digits += p - from;
    behind = p - from - (dropped - before); /* of them stand in w */
    dropped = before;
  }
  if (!digits) return NULL;
  i64 e = dropped - behind;
  if (*p == 'e' || *p == 'E') {
    const char *q = p + 1;
    bool minus = *q == '-';
    q += *q == '-' || *q == '+';
    if (is_digit(*q)) {
      i64 n = 0;
      for (; is_digit(*q); q++)
        if (n < 100000000) n = n * 10 + (*q - '0');
      e += minus ? -n : n;
      d->whole = false;
      p = q;
    }
  }
  d->e = (i32)(e < -1000000000 ? -1000000000 : e > 1000000000 ? 1000000000 : e);
  return p;
}

const double ty_number_tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Road 2. True when y is certain; w has not been cut. */
static bool product_double(u64 w, i32 q, bool negative, double *y) {
  u64 bits = 0;
  if (q > POWER_MAX && w) {
    bits = 0x7ff0000000000000u;
  } else if (w && q >= POWER_MIN) {
    int zeros = __builtin_clzll(w);
    const u64 *power = powers[q - POWER_MIN];
    w <<= zeros;
    unsigned __int128 first = (unsigned __int128)w * power[0];
    u64 high = (u64)(first >> 64), low = (u64)first;
    if ((high & 0x1ff) == 0x1ff) { /* the lower word may carry into what is rounded */
      u64 second = (u64)((unsigned __int128)w * power[1] >> 64);
      low += second;
      high += second > low;
    }
    if (low == ~(u64)0 && (q < -27 || q > 55)) return false;
    int upper = (int)(high >> 63);
    u64 m = high >> (upper + 9);
    i32 e = ((217706 * q) >> 16) + 63 + upper - zeros + 1023; /* 217706 / 65536: log2 of ten */
    if (e <= 0) { /* subnormal, or it becomes normal by rounding */
      if (e <= -63) {
        m = 0;
      } else {
        m >>= -e + 1;
        m += m & 1;
        m >>= 1;
      }
      bits = m; /* a carry into bit 52 is the exponent's 1 */
    } else {
      /* exactly between two doubles, which only these powers can be: to the even one */
      if (low <= 1 && q >= -4 && q <= 23 && (m & 3) == 1 && m << (upper + 9) == high) m &= ~(u64)1;
      m += m & 1;
      m >>= 1;
      if (m >> 53) m >>= 1, e++;
      bits = e >= 0x7ff ? 0x7ff0000000000000u : (m & 0xfffffffffffffu) | (u64)e << 52;
    }
  }
  bits |= (u64)negative << 63;
  memcpy(y, &bits, 8);
  return true;
}

/* Road 3. The point becomes the C locale's for as long as it takes. */
static bool text_value(char *p, const char *end, char point, double *y, float *single) {
  char *at = point == '.' ? NULL : memchr(p, point, (size_t)(end - p));
  if (at) *at = '.';
  const bool known = ty_system_decimal(p, y, single);
  if (at) *at = point;
  return known;
}

bool ty_number_double(char *p, const char *end, char point, const Decimal *d, double *y) {
  if (TY_LIKELY(d->w <= (u64)1 << 53 && d->e >= -22 && d->e <= 22 && !d->rest)) {
    double v = (double)d->w;
    v = d->e < 0 ? v / ty_number_tens[-d->e] : v * ty_number_tens[d->e];
    *y = d->negative ? -v : v;
    return true;
  }
  ty_once(&once, powers_make);
  if (!d->rest && product_double(d->w, d->e, d->negative, y)) return true;
  return text_value(p, end, point, y, NULL);
}

bool ty_number_float(char *p, const char *end, char point, const Decimal *d, float *y) {
  double v;
  u64 bits;
  if (!ty_number_double(p, end, point, d, &v)) return false;
  memcpy(&bits, &v, 8);
  *y = (float)v;
  bool midpoint = (bits & 0x1fffffff) == 0x10000000, exact = v == 0 && !d->w;
  bool tiny = (bits & ~((u64)1 << 63)) < 0x3810000000000000u; /* below 2^-126 */
  if (TY_LIKELY(!midpoint && (!tiny || exact))) return true;
  ty_once(&once, powers_make);
  return text_value(p, end, point, NULL, y);
}

bool ty_number_integer(const Decimal *d, i64 *y) {
  if (!d->whole || d->e || d->rest || d->w > (u64)INT64_MAX + d->negative) return false;
  *y = (i64)(d->negative ? -d->w : d->w);
  return true;
}

/* ---- writing ------------------------------------------------------------------------------------ */

static int print_digits(char *to, double v, int digits) {
  return ty_system_format(to, 32, "%.*g", digits, v);
}

static bool reads_back(char *text, int n, double v, bool single) {
  Decimal d;
  double y;
  float f;
  if (!ty_number_scan(text, '.', &d)) return false;
  if (single) return ty_number_float(text, text + n, '.', &d, &f) && f == (float)v;
  return ty_number_double(text, text + n, '.', &d, &y) && y == v;
}

int ty_number_print(char *to, double v, bool single) {
  if (v != v || v - v != 0) return snprintf(to, 32, "%s", v != v ? "nan" : v > 0 ? "inf" : "-inf");
  if (v >= -1e15 && v <= 1e15 && v == (double)(i64)v && (v != 0 || 1 / v > 0))
    return snprintf(to, 32, "%lld", (long long)v);
  /* Most numbers need one digit less than the most that can be needed, or that many. */
  int least = single ? 6 : 15, digits = single ? 8 : 16;
  int n = print_digits(to, v, digits);
  if (!reads_back(to, n, v, single)) return print_digits(to, v, digits + 1);
  while (digits > least) {
    char shorter[40];
    int m = print_digits(shorter, v, --digits);
    if (!reads_back(shorter, m, v, single)) break;
    memcpy(to, shorter, (size_t)m + 1);
    n = m;
  }
  return n;
}
