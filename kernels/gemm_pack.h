/*
** gemm_pack.h -- copy a strided matrix into rows of the compute type; for one storage type.
** In:  S (element stored), W (vector of four of the compute type), GET4(p) (four S at p, converted
**      to W), PACK (name of the function).  Out: static PackFn PACK. Cannot fail.
** Every operand that a kernel cannot read as it lies (transposed, narrow, any stride) comes
** through here; the copy is dense, zero beyond the edge, and only ever read by kernels.
*/

/* dst[i * ds + j] = src[i * ss + j * st] for i < ni, j < nj; zero for nj <= j < pad. */
static void PACK(void *dst, i64 ds, const void *src, i64 ss, i64 st, i64 ni, i64 nj, i64 pad) {
  typedef __typeof__(((W *)0)[0][0] + 0) E; /* element of W */
  E *y = dst;
  const S *x = src;
  i64 i = 0;
  if (ss == 1 && st != 1) {
    /* The long way lies along i: turned in squares of four. A cache line of src is used up before
    ** the next is touched, as lines a large stride apart drive each other out. */
    typedef E Index __attribute__((vector_size(sizeof(W))));
    const i64 line = 64 / sizeof(S), whole = ni / 4 * 4;
    for (; i < whole; i = TY_MIN(i + line, whole))
      for (i64 j = 0; j + 4 <= nj; j += 4)
        for (i64 u = i; u < TY_MIN(i + line, whole); u += 4) {
          const S *s = x + u + j * st;
          E *t = y + u * ds + j;
          W a = GET4(s), b = GET4(s + st), c = GET4(s + 2 * st), d = GET4(s + 3 * st);
          W ac = __builtin_shuffle(a, c, (Index){0, 4, 1, 5});
          W bd = __builtin_shuffle(b, d, (Index){0, 4, 1, 5});
          W ca = __builtin_shuffle(a, c, (Index){2, 6, 3, 7});
          W db = __builtin_shuffle(b, d, (Index){2, 6, 3, 7});
          *(W *)t = __builtin_shuffle(ac, bd, (Index){0, 4, 1, 5});
          *(W *)(t + ds) = __builtin_shuffle(ac, bd, (Index){2, 6, 3, 7});
          *(W *)(t + 2 * ds) = __builtin_shuffle(ca, db, (Index){0, 4, 1, 5});
          *(W *)(t + 3 * ds) = __builtin_shuffle(ca, db, (Index){2, 6, 3, 7});
        }
    for (i64 j = nj / 4 * 4; j < pad; j++)
      for (i64 u = 0; u < whole; u += 4) {
        W v = {0};
        if (j < nj) v = GET4(x + u + j * st);
        for (int r = 0; r < 4; r++) y[(u + r) * ds + j] = v[r];
      }
  }
  for (; i < ni; i++) {
    E *t = y + i * ds;
    const S *s = x + i * ss;
    i64 j = 0;
    if (st == 1)
      for (; j + 4 <= nj; j += 4) *(W *)(t + j) = GET4(s + j);
    for (; j < nj; j++) {
      S four[4] = {s[j * st]};
      t[j] = GET4(four)[0];
    }
    for (; j < pad; j++) t[j] = 0;
  }
}

#undef S
#undef W
#undef GET4
#undef PACK
