/*
** patch.c -- how numbers follow from a position of a range of sizes.
** In: what a number is at five samples. Out: a polynomial, or a form of one; later the number at any position. Fails
** where it follows in another way, and when out of memory.
*/
#include <math.h>
#include "ir/patch.h"

i64 ty_patch_at(const i64 *c, i64 t) {
  return (i64)((u64)c[0] + (u64)c[1] * (u64)t + (u64)c[2] * (u64)(t * (t - 1) / 2));
}

bool ty_patch_fit(const i64 *v, i64 last, i64 *c) {
  const i64 m = last / 2, pairs = m * (m - 1) / 2;
  c[0] = v[0];
  c[1] = (i64)((u64)v[1] - (u64)v[0]);
  c[2] = 0;
  const i64 rest = (i64)((u64)v[2] - (u64)ty_patch_at(c, m));
  if (rest % pairs) return false;
  c[2] = rest / pairs;
  return ty_patch_at(c, last - 1) == v[3] && ty_patch_at(c, last) == v[4];
}

static double of_form(int form, double n) {
  switch (form) {
  case FORM_EIGHTH: return n * 0.125;
  case FORM_RECIPROCAL: return 1 / n;
  case FORM_ROOT: return sqrt(n);
  case FORM_RECIPROCAL_ROOT: return 1 / sqrt(n);
  default: return n;
  }
}

static u64 bits_of(const Patch *p, i64 t) {
  return ty_elem_scalar(p->dtype, of_form(p->form, (double)ty_patch_at(p->c, t)));
}

bool ty_patch_gives(const Patch *p, const u64 *bits, i64 last) {
  for (i32 i = 0; i < RANGE_SAMPLES; i++)
    if (bits_of(p, ty_range_sample(i, last)) != bits[i]) return false;
  return true;
}

/* Whether numbers of these forms of whole numbers have bits of their own in the dtype. */
static bool are_told_apart(int dtype, const i64 *c, i64 last) {
  const int digits = dtype == T_BF16 ? 8 : dtype == T_F16 ? 11 : dtype == T_F32 ? 24 : 50;
  const i64 most = (i64)1 << (digits - 2);
  for (i64 t = 0; t <= last; t += last)
    if (ty_patch_at(c, t) <= -most || ty_patch_at(c, t) >= most) return false;
  return true;
}

bool ty_patch_fit_scalar(const u64 *bits, int dtype, const RangeNumbers *known, i64 last,
                         Patch *y) {
  i64 n[RANGE_SAMPLES];
  bool found = false;
  *y = (Patch){.at = y->at, .kind = PATCH_SCALAR, .dtype = (u8)dtype};
  for (i32 k = 0; k < known->ngiven; k++) {
    const RangeNumber *g = &known->given[k];
    const Patch p = {.at = y->at,
                     .kind = PATCH_SCALAR,
                     .form = g->form,
                     .dtype = (u8)dtype,
                     .c = {g->c[0], g->c[1], g->c[2]}};
    if (!ty_patch_gives(&p, bits, last)) continue;
    if (!are_told_apart(dtype, p.c, last)) return false;
    if (found && (p.form != y->form || memcmp(p.c, y->c, sizeof p.c) != 0))
      return false; /* which? */
    *y = p;
    found = true;
  }
  if (found) return true;
  const int own = ty_dtypes[dtype].ctype;
  const int wide = own == C_F32 ? T_F32 : own == C_F64 ? T_F64 : own == C_I64 ? T_I64 : T_I32;
  for (i32 i = 0; i < RANGE_SAMPLES; i++) {
    const double v = ty_elem_load(wide, &bits[i]);
    if (!(fabs(v) < 0x1p50)) return false;
    n[i] = (i64)v;
  }
  return ty_patch_fit(n, last, y->c) && (!y->c[2] || ty_patch_grows(y->c)) &&
         ty_patch_gives(y, bits, last);
}

bool ty_patch_add(Patches *y, const Patch *p) {
  if (y->n == y->cap) {
    const i32 cap = TY_MAX(64, 2 * y->cap);
    Patch *more = ty_mem_realloc(y->patch, sizeof *more * (size_t)cap);
    if (!more) return false;
    y->patch = more;
    y->cap = cap;
  }
  y->patch[y->n++] = *p;
  return true;
}

PatchWord ty_patch_word(char *const *block, size_t offset, i64 last, Patches *y) {
  i64 v[RANGE_SAMPLES];
  bool same = true;
  for (i32 k = 0; k < RANGE_SAMPLES; k++) {
    memcpy(&v[k], block[k] + offset, sizeof v[k]);
    same &= v[k] == v[0];
  }
  Patch p = {.at = block[RANGE_SAMPLES - 1] + offset, .kind = PATCH_WORD};
  if (same) return WORD_SAME;
  if (!ty_patch_fit(v, last, p.c)) return WORD_OWN_WAY;
  return ty_patch_add(y, &p) ? WORD_FOLLOWS : WORD_NO_MEMORY;
}

void ty_patch_apply(const Patch *p, i32 n, i64 t) {
  for (const Patch *end = p + n; p < end; p++) {
    const i64 v = ty_patch_at(p->c, t);
    const u64 bits = TY_LIKELY(p->kind == PATCH_WORD) ? (u64)v : bits_of(p, t);
    memcpy(p->at, &bits, sizeof bits);
  }
}
