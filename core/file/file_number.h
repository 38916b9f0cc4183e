/*
** file_number.h -- decimal numbers in text, to the nearest double or float, and back.
** In: text that ends with a NUL or with a character that no number holds. Out: values, rounded once
** and half to even, whatever the process's locale. Nothing fails except when out of memory, for the locale
** that the rarest numbers need.
*/
#ifndef TY_FILE_NUMBER_H
#define TY_FILE_NUMBER_H

#include "base/base.h"

/* A number as it is written: w * 10^e, and what w does not hold. */
typedef struct Decimal {
  u64 w;         /* the first 19 significant digits */
  i32 e;         /* power of ten of w's last digit */
  bool negative; /* a minus stands before it */
  bool whole;    /* neither a point nor an exponent */
  bool rest;     /* digits that are not zero follow behind w */
} Decimal;

/* [+-] digits [point digits] [e [+-] digits], at least one digit before the exponent. Returns where
** it ends, NULL when there is no number. */
const char *ty_number_scan(const char *p, char point, Decimal *d);
/* Powers of ten that a double holds. */
extern const double ty_number_tens[23];

/* The commonest numbers in one go: at most 18 digits, no exponent, w below 2^53. The same value as
** by the functions below; whole as in Decimal. NULL: take those. */
static inline const char *ty_number_quick(const char *p, char point, double *y, bool *whole) {
  u64 w = 0;
  bool negative = *p == '-';
  p += negative || *p == '+';
  const char *digits = p, *behind = NULL;
  for (; (u8)(*p - '0') < 10; p++) w = w * 10 + (u64)(*p - '0');
  if (*p == point) {
    behind = ++p;
    for (; (u8)(*p - '0') < 10; p++) w = w * 10 + (u64)(*p - '0');
  }
  i64 n = p - digits - (behind != NULL), after = behind ? p - behind : 0;
  if (n < 1 || n > 18 || w > (u64)1 << 53 || (*p | 32) == 'e') return NULL;
  double v = (double)w / ty_number_tens[after];
  *y = negative ? -v : v;
  *whole = !behind;
  return p;
}

/* The values of what ty_number_scan found at p; a number beyond the largest is infinite. False:
** no memory. The text is changed and put back on the way when the point is not a '.'. */
bool ty_number_double(char *p, const char *end, char point, const Decimal *d, double *y);
bool ty_number_float(char *p, const char *end, char point, const Decimal *d, float *y);
/* False when it is not a whole number that an i64 holds. */
bool ty_number_integer(const Decimal *d, i64 *y);

/* The shortest text that reads back as v; single: as the float v. At most 31 characters and NUL.
** Returns its length. NaN is written nan, infinities inf and -inf. */
int ty_number_print(char *to, double v, bool single);

#endif
