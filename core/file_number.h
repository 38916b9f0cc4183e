/*
** file_number.h -- decimal numbers in text, to the nearest double or float, and back.
** In: text that ends with a NUL or with a character that no number holds. Out: values, rounded once
** and half to even, whatever the host's locale. Nothing fails but for want of memory for the locale
** that the rarest numbers need.
*/
#ifndef TY_FILE_NUMBER_H
#define TY_FILE_NUMBER_H

#include "base.h"

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
