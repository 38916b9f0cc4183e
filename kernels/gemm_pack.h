/*
** gemm_pack.h -- copy a strided matrix into rows of the compute type; for one storage type.
** In:  S (element stored), W (vector of 16 bytes of the compute type), GET(p) (as many S at p,
**      converted to W), PACK (name), ATTR (target),
**      SQUARE (elements of W: 2 or 4).  Out: static PackFn PACK. Cannot fail.
** Every operand that a kernel cannot read as it lies (transposed, narrow, any stride) comes
** through here; the copy is dense, zero beyond the edge, and only ever read by kernels.
*/

/* dst[i * ds + j] = src[i * ss + j * st] for i < ni, j < nj; zero for nj <= j < pad. */
static ATTR void PACK(void *dst, i64 ds, const void *src, i64 ss, i64 st, i64 ni, i64 nj, i64 pad) {
  typedef __typeof__(((W *)0)[0][0] + 0) E; /* element of W */
  E *y = dst;
  const S *x = src;
  i64 i = 0;
  enum { SIDE = SQUARE };
  if (ss == 1 && st != 1) {
    /* The long way lies along i: transposed in squares of SIDE. A cache line of src is used up before
    ** the next is touched, as lines a large stride apart drive each other out. */
    typedef E Index __attribute__((vector_size(sizeof(W))));
    const i64 line = 64 / sizeof(S), whole = ni / SIDE * SIDE;
    for (; i < whole; i = TY_MIN(i + line, whole))
      for (i64 j = 0; j + SIDE <= nj; j += SIDE)
        for (i64 u = i; u < TY_MIN(i + line, whole); u += SIDE) {
          const S *s = x + u + j * st;
          E *t = y + u * ds + j;
          W a = GET(s), b = GET(s + st);
#if SQUARE == 2
          *(W *)t = __builtin_shuffle(a, b, (Index){0, 2});
          *(W *)(t + ds) = __builtin_shuffle(a, b, (Index){1, 3});
#else
          W c = GET(s + 2 * st), d = GET(s + 3 * st);
          W ac = __builtin_shuffle(a, c, (Index){0, 4, 1, 5});
          W bd = __builtin_shuffle(b, d, (Index){0, 4, 1, 5});
          W ca = __builtin_shuffle(a, c, (Index){2, 6, 3, 7});
          W db = __builtin_shuffle(b, d, (Index){2, 6, 3, 7});
          *(W *)t = __builtin_shuffle(ac, bd, (Index){0, 4, 1, 5});
          *(W *)(t + ds) = __builtin_shuffle(ac, bd, (Index){2, 6, 3, 7});
          *(W *)(t + 2 * ds) = __builtin_shuffle(ca, db, (Index){0, 4, 1, 5});
          *(W *)(t + 3 * ds) = __builtin_shuffle(ca, db, (Index){2, 6, 3, 7});
#endif
        }
    for (i64 j = nj / SIDE * SIDE; j < pad; j++)
      for (i64 u = 0; u < whole; u += SIDE) {
        W v = {0};
        if (j < nj) v = GET(x + u + j * st);
        for (int r = 0; r < SIDE; r++) y[(u + r) * ds + j] = v[r];
      }
  }
  for (; i < ni; i++) {
    E *t = y + i * ds;
    const S *s = x + i * ss;
    i64 j = 0;
    if (st == 1)
      for (; j + SIDE <= nj; j += SIDE) *(W *)(t + j) = GET(s + j);
    for (; j < nj; j++) {
      S one[SIDE] = {s[j * st]};
      t[j] = GET(one)[0];
    }
    for (; j < pad; j++) t[j] = 0;
  }
}

#undef S
#undef W
#undef GET
#undef SQUARE
#undef ATTR
#undef PACK
