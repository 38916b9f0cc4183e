/*
** gemm_pack.h -- copy a strided matrix into rows of the compute type; for one storage type.
** In:  S (element stored), W (bits of the compute type: u32 or u64), GET(s) (their conversion),
**      PACK (name of the function).  Out: static PackFn PACK. Cannot fail.
** Every operand that a kernel cannot read as it lies (transposed, narrow, any stride) comes
** through here; the copy is dense, zero beyond the edge, and only ever read by kernels.
*/

/* dst[i * ds + j] = src[i * ss + j * st] for i < ni, j < nj; zero for nj <= j < pad. */
static void PACK(void *dst, i64 ds, const void *src, i64 ss, i64 st, i64 ni, i64 nj, i64 pad) {
  typedef W Four __attribute__((vector_size(4 * sizeof(W)), aligned(sizeof(W)), may_alias));
  W *y = dst;
  const S *x = src;
  i64 i = 0;
  if (ss == 1 && st != 1) { /* the long way lies along i: transposed in squares of four */
    for (; i + 4 <= ni; i += 4) {
      W *t = y + i * ds;
      const S *s = x + i;
      i64 j = 0;
      for (; j + 4 <= nj; j += 4, s += 4 * st) {
        Four a = {GET(s[0]), GET(s[1]), GET(s[2]), GET(s[3])};
        Four b = {GET(s[st]), GET(s[st + 1]), GET(s[st + 2]), GET(s[st + 3])};
        Four c = {GET(s[2 * st]), GET(s[2 * st + 1]), GET(s[2 * st + 2]), GET(s[2 * st + 3])};
        Four d = {GET(s[3 * st]), GET(s[3 * st + 1]), GET(s[3 * st + 2]), GET(s[3 * st + 3])};
        typedef W Index __attribute__((vector_size(4 * sizeof(W))));
        Four ac = __builtin_shuffle(a, c, (Index){0, 4, 1, 5});
        Four bd = __builtin_shuffle(b, d, (Index){0, 4, 1, 5});
        Four ca = __builtin_shuffle(a, c, (Index){2, 6, 3, 7});
        Four db = __builtin_shuffle(b, d, (Index){2, 6, 3, 7});
        *(Four *)(t + j) = __builtin_shuffle(ac, bd, (Index){0, 4, 1, 5});
        *(Four *)(t + ds + j) = __builtin_shuffle(ac, bd, (Index){2, 6, 3, 7});
        *(Four *)(t + 2 * ds + j) = __builtin_shuffle(ca, db, (Index){0, 4, 1, 5});
        *(Four *)(t + 3 * ds + j) = __builtin_shuffle(ca, db, (Index){2, 6, 3, 7});
      }
      for (; j < pad; j++, s += st)
        for (int u = 0; u < 4; u++) t[u * ds + j] = j < nj ? GET(s[u]) : 0;
    }
  }
  for (; i < ni; i++) {
    W *t = y + i * ds;
    const S *s = x + i * ss;
    i64 j = 0;
    if (st == 1)
      for (; j + 4 <= nj; j += 4)
        *(Four *)(t + j) = (Four){GET(s[j]), GET(s[j + 1]), GET(s[j + 2]), GET(s[j + 3])};
    for (; j < nj; j++) t[j] = GET(s[j * st]);
    for (; j < pad; j++) t[j] = 0;
  }
}

#undef S
#undef W
#undef GET
#undef PACK
