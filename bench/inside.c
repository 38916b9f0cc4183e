/*
** inside.c -- products as the engine runs them, without the call from Lua.
** In:  sizes, arrays of floats, seconds to spend.  Out: seconds of one product. Cannot fail.
**
** Linked with the library's own objects. What is timed is what a step of a plan calls: from the
** description of the product, with its epilogue as a list, to the last store.
*/
#include "device/cpu/cpu.h"

#include <time.h>

#define API __attribute__((visibility("default")))

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* No tile is ever shown of products that take operations in registers; these all do. */
static bool no_tile(const GemmEpilogue *t, void *tile, i64 stride, i64 row, i64 rows, i64 col,
                    i64 cols) {
  return (void)t, (void)tile, (void)stride, (void)row, (void)rows, (void)col, (void)cols, false;
}

/* y = a[m, k] b[k, n], and with a bias relu(y + bias). */
API double inside_product(long m, long n, long k, const float *a, const float *b, const float *bias,
                          float *y, double seconds);
API double inside_product(long m, long n, long k, const float *a, const float *b, const float *bias,
                          float *y, double seconds) {
  const float zero = 0;
  const Gemm d = {
      .dtype = T_F32, .m = m, .n = n, .k = k, .batch = 1, .ars = k, .acs = 1, .brs = n, .bcs = 1};
  const GemmOp op[2] = {{GEMM_ADD, 1, 0, bias}, {GEMM_RELU, 0, 0, &zero}};
  const GemmList list = {op, 2, 0};
  const GemmEpilogue epilogue = {no_tile, false, &list};
  const long each = 1 + (long)(5e7 / (double)(m * n * k)); /* some milliseconds */
  long times = 0;
  double begin = now(), end;
  const u32 fp = ty_fp_enter();
  do {
    for (long i = 0; i < each; i++) ty_gemm(&d, a, b, NULL, y, bias ? &epilogue : NULL);
    times += each;
    end = now();
  } while (end - begin < seconds);
  ty_fp_leave(fp);
  return (end - begin) / (double)times;
}
