/*
** floor.c -- what this machine can do at best: the floors that bench/run.lua puts beside our rows.
** In: plain arrays, by FFI, or Lua's stack for add4. Out: results, or seconds. Hand-written, compiled
** for this very CPU, one thread. Cannot fail; memory is the caller's.
*/
#include <lua.h>
#include <lauxlib.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define API __attribute__((visibility("default")))
#if defined __AVX512F__ /* bytes of this machine's vectors, and sums that its registers hold beside two factors */
#define WIDE 64
#define SUMS 16
#elif defined __AVX__
#define WIDE 32
#define SUMS 12
#else
#define WIDE 16
#define SUMS 12
#endif

typedef float Vec __attribute__((vector_size(WIDE), may_alias));
#define LANES (WIDE / (int)sizeof(float))

/* Time that this process computed: rivals for the processor do not count. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- memory and arithmetic. Buffers start at a multiple of 64 bytes, n is a multiple of 8 vectors. */

/* Keeps a value alive that nobody reads. */
static void keep(Vec v) { __asm__ volatile("" : : "m"(v) : "memory"); }

/* Bytes per second of reading n floats, over and over. */
API double floor_read(const float *x, long n, long times) {
  const Vec *v = (const Vec *)x;
  Vec s[8] = {0};
  double start = now();
  for (long t = 0; t < times; t++) {
    for (long i = 0; i < n / LANES; i += 8)
      for (int j = 0; j < 8; j++) s[j] += v[i + j];
    keep(s[0]); /* each pass reads anew */
  }
  double seconds = now() - start;
  for (int j = 0; j < 8; j++) keep(s[j]);
  return (double)n * sizeof *x * (double)times / seconds;
}

/* Bytes per second of writing n floats over lines that are already in use. */
API double floor_write(float *x, long n, long times) {
  Vec *v = (Vec *)x, one = 1.0f - (Vec){0};
  double start = now();
  for (long t = 0; t < times; t++)
    for (long i = 0; i < n / LANES; i++) {
      v[i] = one;
      __asm__ volatile("" : : : "memory"); /* else it becomes a call of memset */
    }
  return (double)n * sizeof *x * (double)times / (now() - start);
}

/* Operations per second of fused multiply-adds that wait for nothing: SUMS independent sums. */
API double floor_fma(long rounds) {
  Vec s[SUMS], a = 0.999f - (Vec){0}, b = 1e-3f - (Vec){0};
  for (int j = 0; j < SUMS; j++) s[j] = a * (float)j;
  double start = now();
  for (long r = 0; r < rounds; r++)
    for (int j = 0; j < SUMS; j++) {
      for (int k = 0; k < LANES; k++) s[j][k] = __builtin_fmaf(s[j][k], a[k], b[k]);
    }
  double seconds = now() - start;
  for (int j = 0; j < SUMS; j++) keep(s[j]);
  return 2.0 * SUMS * LANES * (double)rounds / seconds;
}

static void *spin(void *unused) {
  Vec s = 1.0f - (Vec){0};
  for (long i = 0; i < 4000000; i++) {
    s = s * 0.999f;
    __asm__ volatile("" : "+x"(s));
  }
  keep(s);
  return unused;
}

static double wall(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What two threads take for work that one does alone: 0.5 where two cores are free. Wall time, the best of
** three. */
API double floor_two_cores(void) {
  double best = 10.0;
  for (int i = 0; i < 3; i++) {
    pthread_t other;
    double start = wall();
    spin(NULL);
    spin(NULL);
    double one = wall() - start;
    start = wall();
    if (pthread_create(&other, NULL, spin, NULL)) return 1.0;
    spin(NULL);
    pthread_join(other, NULL);
    double ratio = (wall() - start) / one;
    if (ratio < best) best = ratio;
  }
  return best;
}

/* --- fused loops */

/* The ten operations of the chain in run.lua, one after the other, in one pass. */
API void floor_chain(const float *restrict x, float *restrict y, long n) {
  for (long i = 0; i < n; i++) {
    float v = x[i], a = v * 1.01f + 0.5f;
    a = a * v - v;
    a = fabsf(a) * 0.25f + v;
    a = a > 0.1f ? a : 0.1f;
    a = a * a;
    y[i] = a < 6.0f ? a : 6.0f;
  }
}

/* `rounds` times five operations that cannot be contracted, eight vectors side by side, so that none waits
** for another. n is a multiple of eight vectors. */
API void floor_rounds(const float *restrict x, float *restrict y, long n, long rounds) {
  enum { SIDE = 8 };
  for (long i = 0; i < n; i += SIDE * LANES) {
    Vec a[SIDE], v[SIDE];
    memcpy(v, x + i, sizeof v);
    memcpy(a, v, sizeof a);
    for (long r = 0; r < rounds; r++)
      for (int j = 0; j < SIDE; j++) {
        a[j] = a[j] * 0.9f;
        for (int k = 0; k < LANES; k++) a[j][k] = a[j][k] > 0.5f ? a[j][k] : 0.5f;
        a[j] = a[j] + v[j];
        for (int k = 0; k < LANES; k++) a[j][k] = fabsf(a[j][k]);
        for (int k = 0; k < LANES; k++) a[j][k] = a[j][k] < 3.0f ? a[j][k] : 3.0f;
      }
    memcpy(y + i, a, sizeof a);
  }
}

/* exp of v <= 0, within some 2 ulp: 2^n times a polynomial of the rest. Below -87: 0. */
static inline float exp_negative(float v) {
  const float log2e = 1.44269504f, high = 0.693145752f, low = 1.42860677e-6f;
  float c = v < -87.0f ? -87.0f : v;
  float shifted = c * log2e + 12582912.0f; /* rounds to the nearest integer */
  float n = shifted - 12582912.0f, r = c - n * high - n * low;
  float p = 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int bits;
  float scale;
  memcpy(&bits, &shifted, 4);
  bits = (int)((unsigned)(bits - 0x4b400000 + 127) << 23);
  memcpy(&scale, &bits, 4);
  return v < -87.0f ? 0.0f : p * scale;
}

/* exp(x / 2) tanh(x) + x. */
API void floor_exp_tanh(const float *restrict x, float *restrict y, long n) {
  for (long i = 0; i < n; i++) {
    float v = x[i], h = 0.5f * v, e = exp_negative(-fabsf(h)), f = exp_negative(-2.0f * fabsf(v));
    float t = (1.0f - f) / (1.0f + f);
    y[i] = (h > 0.0f ? 1.0f / e : e) * copysignf(t, v) + v;
  }
}

/* x (1 + erf(x / sqrt 2)) / 2, erf within 2e-7 (Abramowitz and Stegun 7.1.26). */
API void floor_gelu(const float *restrict x, float *restrict y, long n) {
  for (long i = 0; i < n; i++) {
    float v = x[i], z = fabsf(v) * 0.70710678f, t = 1.0f / (1.0f + 0.3275911f * z);
    float p = 1.061405429f;
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    float erf = 1.0f - p * t * exp_negative(-z * z);
    y[i] = 0.5f * v * (1.0f + copysignf(erf, v));
  }
}

/* A row's sum, or its maximum, in LANES partial results, so that it is done by vectors. */
#define FOLD(result, init, step) \
  do { \
    float part[LANES]; \
    for (int l = 0; l < LANES; l++) part[l] = init; \
    for (long i = 0; i + LANES <= n; i += LANES) \
      for (int l = 0; l < LANES; l++) { \
        float e = at[i + l], s = part[l]; \
        part[l] = step; \
      } \
    result = part[0]; \
    for (int l = 1; l < LANES; l++) { \
      float e = part[l], s = result; \
      result = JOIN; \
    } \
  } while (0)

/* Softmax of each row; n is a multiple of a vector's length. */
API void floor_softmax(const float *restrict x, float *restrict y, long rows, long n) {
  for (long r = 0; r < rows; r++, x += n, y += n) {
    const float *at = x;
    float max, sum;
#define JOIN (e > s ? e : s)
    FOLD(max, -INFINITY, e > s ? e : s);
#undef JOIN
    for (long i = 0; i < n; i++) y[i] = exp_negative(x[i] - max);
    at = y;
#define JOIN (s + e)
    FOLD(sum, 0.0f, s + e);
    float scale = 1.0f / sum;
    for (long i = 0; i < n; i++) y[i] *= scale;
  }
}

/* Layer norm of each row without weights: mean 0, variance 1. */
API void floor_layer_norm(const float *restrict x, float *restrict y, long rows, long n) {
  for (long r = 0; r < rows; r++, x += n, y += n) {
    const float *at = x;
    float sum, squares;
    FOLD(sum, 0.0f, s + e);
    float mean = sum / (float)n;
    FOLD(squares, 0.0f, s + (e - mean) * (e - mean));
#undef JOIN
    float scale = 1.0f / sqrtf(squares / (float)n + 1e-5f);
    for (long i = 0; i < n; i++) y[i] = (x[i] - mean) * scale;
  }
}

/* --- the least that a Lua function in C must do to add two vectors of four */

#define META "floor.vector"

static int add4(lua_State *L) {
  const float *a = luaL_checkudata(L, 1, META), *b = luaL_checkudata(L, 2, META);
  float *y = lua_newuserdata(L, 4 * sizeof *y);
  for (int i = 0; i < 4; i++) y[i] = a[i] + b[i];
  luaL_getmetatable(L, META);
  lua_setmetatable(L, -2);
  return 1;
}

static int vector4(lua_State *L) {
  float *y = lua_newuserdata(L, 4 * sizeof *y);
  for (int i = 0; i < 4; i++) y[i] = (float)luaL_checknumber(L, i + 1);
  luaL_getmetatable(L, META);
  lua_setmetatable(L, -2);
  return 1;
}

static int finalise(lua_State *L) { return (void)L, 0; }

API int luaopen_floor(lua_State *L);
API int luaopen_floor(lua_State *L) {
  luaL_newmetatable(L, META);
  lua_pushcfunction(L, finalise);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, add4);
  lua_pushcfunction(L, vector4);
  lua_createtable(L, 0, 2);
  lua_insert(L, -3);
  lua_setfield(L, -3, "vector4");
  lua_setfield(L, -2, "add4");
  return 1;
}
