/*
** embed.c -- claims about the C API, as a host sees it.
** In: the name of a claim; without it all names are told. Out: exit code 0 where it holds; else lines that say what did not.
** On Windows, built by MinGW-w64, those are left out that need signals, and the C library's locales of Linux.
*/
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tycho.h>
#include <unistd.h>
#ifdef _WIN32
#include <windows.h>
#endif

static atomic_int failures;

static void fail(int line, const char *what) {
  printf("line %d: %s; the last error: %s\n", line, what, ty_error());
  failures++;
}
#define CHECK(condition) \
  do { \
    if (!(condition)) fail(__LINE__, #condition); \
  } while (0)
#define IS(want, call) \
  do { \
    const ty_status status = (call); \
    if (status != (want)) fail(__LINE__, ty_status_name(status)), puts("  of " #call); \
  } while (0)
#define SAYS(text) CHECK(strstr(ty_error(), text))

static ty_engine *open_engine(void) {
  ty_engine *e = NULL;
  IS(TY_OK, ty_open(NULL, &e));
  return e;
}

static ty_model *load_text(ty_engine *e, const char *text) {
  ty_model *m = NULL;
  const ty_source source = {.text = text, .name = "spec"};
  IS(TY_OK, ty_load_source(e, &source, &m));
  return m;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static ty_array result(ty_model *m, int i) {
  ty_array a;
  memset(&a, 0, sizeof a);
  IS(TY_OK, ty_result(m, i, &a));
  return a;
}

static float f32_at(const ty_array *a, int i) {
  return a->data ? ((const float *)a->data)[i] : NAN;
}

static const char *weights_path;
enum { NO_LOCALE = 77 }; /* the exit code where the system has none with commas */

/* Writes weights a [64, 64], b [64] by an engine. */
static void write_weights(ty_engine *e) {
  char text[600];
  snprintf(text, sizeof text,
           "local ty = require 'tycho' ty.manual_seed(9) return function() assert(ty.save('%s', "
           "{ a = ty.randn(64, 64) * 0.1, b = ty.randn(64) })) end",
           weights_path);
  IS(TY_OK, ty_call(load_text(e, text), NULL, 0));
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Each dtype comes back as it went, of every rank, also without elements. */
static void arrays(void) {
  static const int sizes[] = {0, 1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 2, 4, 8, 8, 16};
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, "return function(x) return x, x.dtype, #x.shape end");
  unsigned char bytes[256];
  for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)(i % 2);
  for (int turn = 0; turn < 3; turn++)
    for (int d = TY_BOOL; d <= TY_C128; d++)
      for (int rank = 0; rank <= TY_RANK_MAX - (d >= TY_C64); rank++) {
        const int64_t shape[TY_RANK_MAX] = {2, 1, 2, 1, 2, 1, 1, 2},
                      none[TY_RANK_MAX] = {2, 0, 3, 1, 1, 1, 1, 1};
        size_t n = (size_t)sizes[d];
        ty_array in = ty_tensor((ty_dtype)d, bytes, rank, shape), out;
        for (int k = 0; k < rank; k++) n *= (size_t)shape[k];
        IS(TY_OK, ty_call(m, &in, 1));
        out = result(m, 0);
        CHECK(out.dtype == in.dtype && out.rank == rank && !memcmp(out.data, bytes, n));
        CHECK(!memcmp(out.shape, in.shape, sizeof out.shape));
        if (rank < 2) continue;
        in = ty_tensor((ty_dtype)d, NULL, rank, none);
        IS(TY_OK, ty_call(m, &in, 1));
        out = result(m, 0);
        CHECK(out.dtype == in.dtype && out.rank == rank && out.shape[1] == 0);
      }
  IS(TY_OK, ty_close(e));
}

/* Complex numbers are computed with, in rows or by strides, which count numbers. */
static void complex_numbers(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, "return function(x, k) return x * x + k, x:imag() end");
  const float x[6] = {1, 2, 3, -1, 0.5f, 0};
  for (int turn = 0; turn < 8; turn++) {
    ty_array in[2] = {ty_vector(TY_C64, x, 3), ty_number(turn)}, out;
    if (turn % 2) in[0].data = x + 4, in[0].strided = 1, in[0].strides[0] = -1;
    IS(TY_OK, ty_call(m, in, 2));
    out = result(m, 0);
    CHECK(out.dtype == TY_C64 && out.rank == 1 && out.shape[0] == 3 && out.strides[0] == 1);
    const int first = turn % 2 ? 4 : 0;
    CHECK(f32_at(&out, first) == -3 + (float)turn && f32_at(&out, first + 1) == 4);
    CHECK(f32_at(&out, 2) == 8 + (float)turn && f32_at(&out, 3) == -6);
    float y[6];
    IS(TY_OK, ty_result_copy(m, 0, TY_C64, y, sizeof y));
    IS(TY_INVALID, ty_result_copy(m, 0, TY_F32, y, sizeof y));
    SAYS("TY_C64, not TY_F32");
    out = result(m, 1);
    CHECK(out.dtype == TY_F32 && f32_at(&out, 1) == -1);
  }
  IS(TY_OK, ty_close(e));
}

/* Strides of any sign, and addresses that no element has. */
static void strides(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, "return function(x) return x * 1 end");
  float x[12];
  char odd[64];
  for (int i = 0; i < 12; i++) x[i] = (float)i;
  for (int turn = 0; turn < 16; turn++) {
    ty_array in = ty_matrix(TY_F32, x, 4, 3), out;
    in.strided = 1, in.strides[0] = 1, in.strides[1] = 4; /* transposed */
    in.copy = turn % 4 == 3;
    IS(TY_OK, ty_call(m, &in, 1));
    out = result(m, 0);
    CHECK(f32_at(&out, 1) == 4 && f32_at(&out, 3) == 1 && f32_at(&out, 11) == 11);
    in = ty_vector(TY_F32, x + 11, 6);
    in.strided = 1, in.strides[0] = -2;
    in.copy = turn % 4 == 3;
    IS(TY_OK, ty_call(m, &in, 1));
    out = result(m, 0);
    CHECK(f32_at(&out, 0) == 11 && f32_at(&out, 1) == 9 && f32_at(&out, 5) == 1);
    in = ty_matrix(TY_F32, x + 2, 3, 2);
    in.strided = 1, in.strides[0] = 0, in.strides[1] = 1; /* a row three times */
    IS(TY_OK, ty_call(m, &in, 1));
    out = result(m, 0);
    CHECK(f32_at(&out, 0) == 2 && f32_at(&out, 4) == 2 && f32_at(&out, 5) == 3);
    memcpy(odd + 1, x, 48);
    in = ty_vector(TY_F32, odd + 1, 12);
    IS(TY_OK, ty_call(m, &in, 1));
    out = result(m, 0);
    CHECK(!memcmp(out.data, x, 48));
  }
  int compiled = 0;
  IS(TY_OK, ty_was_compiled(m, &compiled));
  CHECK(compiled);
  IS(TY_OK, ty_close(e));
}

/* Numbers, booleans, strings, nil; results of a table by position and by name. */
static void values(void) {
  ty_engine *e = open_engine();
  ty_model *m =
      load_text(e, "return function(n, b, s, none) return n + 1, not b, s .. '!', none, {} end");
  ty_array in[4] = {ty_number(2.5), ty_tensor(TY_LOGICAL, NULL, 0, NULL),
                    ty_vector(TY_TEXT, "a\0b", 3), ty_tensor(TY_NIL, NULL, 0, NULL)},
           out;
  int n = -1;
  for (int turn = 0; turn < 5; turn++) {
    IS(TY_OK, ty_call(m, in, 4));
    IS(TY_OK, ty_results(m, &n));
    CHECK(n == 5);
    out = result(m, 0);
    CHECK(out.dtype == TY_NUMBER && out.number == 3.5);
    out = result(m, 1);
    CHECK(out.dtype == TY_LOGICAL && out.number == 1);
    out = result(m, 2);
    CHECK(out.dtype == TY_TEXT && out.shape[0] == 4 && !memcmp(out.data, "a\0b!", 5));
    out = result(m, 3);
    CHECK(out.dtype == TY_NIL);
    IS(TY_INVALID, ty_result(m, 4, &out));
    IS(TY_INVALID, ty_result(m, 5, &out));
    SAYS("there is no result 5, the last call has 5");
  }
  m = load_text(e, "return function(x) return { x, x + 1, b = x + 2, a = 'text', [9] = 1 } end");
  const float x = 7;
  const ty_array one = ty_vector(TY_F32, &x, 1);
  for (int turn = 0; turn < 5; turn++) {
    IS(TY_OK, ty_call(m, &one, 1));
    IS(TY_OK, ty_results(m, &n));
    CHECK(n == 4);
    out = result(m, 1);
    CHECK(!out.name && f32_at(&out, 0) == 8);
    out = result(m, 2);
    CHECK(!strcmp(out.name, "a") && out.dtype == TY_TEXT);
    IS(TY_OK, ty_result_named(m, "b", &out));
    CHECK(f32_at(&out, 0) == 9);
    IS(TY_INVALID, ty_result_named(m, "c", &out));
  }
  float y = 0;
  IS(TY_OK, ty_result_copy(m, 0, TY_F32, &y, sizeof y));
  CHECK(y == 7);
  IS(TY_INVALID, ty_result_copy(m, 0, TY_F64, &y, sizeof y));
  SAYS("TY_F32, not TY_F64");
  IS(TY_INVALID, ty_result_copy(m, 0, (ty_dtype)99, &y, sizeof y));
  IS(TY_INVALID, ty_result_copy(m, 0, TY_F32, &y, 8));
  IS(TY_INVALID, ty_result_copy(m, 0, TY_F32, NULL, 4));
  IS(TY_OK, ty_close(e));
}

/* What a number is never causes another capture, NaN included. */
static void numbers(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, "local n = 0 return function(x, k) n = n + 1 return x * k end");
  const float x[3] = {1, 2, 3};
  ty_array in[2] = {ty_vector(TY_F32, x, 3), ty_number(0)}, out;
  int compiled = 0;
  for (int i = 0; i < 5; i++) IS(TY_OK, ty_call(m, in, 2));
  for (int i = 0; i < 50; i++) {
    in[1].number = i == 49 ? NAN : i * 0.25;
    IS(TY_OK, ty_call(m, in, 2));
    IS(TY_OK, ty_was_compiled(m, &compiled));
    CHECK(compiled);
    out = result(m, 0);
    CHECK(i == 49 ? isnan(f32_at(&out, 1)) : f32_at(&out, 1) == (float)(2 * i * 0.25));
  }
  IS(TY_OK, ty_close(e));
}

/* ---- whose memory it is ---------------------------------------------------------------------- */

static float first_of(ty_model *m) {
  const ty_array a = result(m, 0);
  return f32_at(&a, 0);
}

/* Nobody writes to what is borrowed, and nobody reads it after the call: it may be freed. */
static void borrowed(void) {
  static const char *const sources[] = {
      "return function(x) return x end",
      "return function(x) return x[{ { 2, 3 } }] end",
      "return function(x) x:add_(1) return x end",
      "local kept return function(x) local y = kept or x kept = x return y end",
      "local kept = {} return function(x) kept[#kept + 1] = x return kept[1] end",
      "local t = { } function t:forward(x) self.h = self.h and self.h + x or x return self.h end "
      "return t",
      "return function(x) return require('tycho').tensor { 1 } + x:sum() end",
      "local f = function(x) return x end return function(x) local y = f(x) print = nil return y, "
      "y:t() end",
      "return function(x) x:sum():item() return x end",
  };
  ty_engine *e = open_engine();
  for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
    ty_model *m = load_text(e, sources[s]), *copying = load_text(e, sources[s]);
    for (int turn = 0; turn < 12; turn++) {
      float *x = malloc(4096), y[4];
      for (int i = 0; i < 1024; i++) x[i] = (float)(turn + i);
      ty_array in = ty_matrix(TY_F32, x, 4, 256);
      if (s == 1) in = ty_vector(TY_F32, x, 1024);
      IS(TY_OK, ty_call(m, &in, 1));
      in.copy = 1;
      IS(TY_OK, ty_call(copying, &in, 1));
      CHECK(x[0] == (float)turn && x[1023] == (float)(turn + 1023));
      memset(x, 0xff, 4096);
      free(x);
      const ty_array a = result(m, 0), b = result(copying, 0);
      CHECK(a.shape[0] == b.shape[0] && !memcmp(a.data, b.data, 4));
      memcpy(y, a.data, 4);
      CHECK(!isnan(y[0]));
    }
  }
  IS(TY_OK, ty_close(e));
}

/* A result holds while other models of its engine write to what it is. */
static void results(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, "local ty = require 'tycho' local t = { h = ty.ones(4) } "
                             "function t:forward() return self.h end "
                             "function t:reset() self.h:zero_() return self.h end "
                             "function t:drop() self.h = nil collectgarbage() end return t");
  ty_model *reset, *drop, *none;
  IS(TY_OK, ty_method(m, "reset", &reset));
  IS(TY_OK, ty_method(m, "drop", &drop));
  IS(TY_FAILED, ty_method(m, "nothing", &none));
  SAYS("no function \"nothing\"");
  CHECK(!none);
  for (int turn = 0; turn < 3; turn++) {
    IS(TY_OK, ty_call(m, NULL, 0));
    const ty_array a = result(m, 0);
    const float before = f32_at(&a, 0);
    IS(TY_OK, ty_call(reset, NULL, 0));
    CHECK(first_of(reset) == 0);
    CHECK(f32_at(&a, 0) == before);
  }
  IS(TY_OK, ty_call(m, NULL, 0));
  const ty_array a = result(m, 0);
  IS(TY_OK, ty_call(drop, NULL, 0));
  CHECK(f32_at(&a, 0) == 0);
  IS(TY_OK, ty_close(e));
}

/* ---- wrong use ------------------------------------------------------------------------------- */

static void errors(void) {
  ty_engine *e = NULL;
  ty_model *m = NULL;
  ty_weights *w = NULL;
  ty_array a;
  const char *text;
  int64_t bytes;
  int n;
  const ty_options negative = {.memory = -1};
  CHECK(!*ty_error());
  IS(TY_INVALID, ty_open(NULL, NULL));
  IS(TY_INVALID, ty_open(&negative, &e));
  CHECK(!e);
  IS(TY_CLOSED, ty_close(NULL));
  SAYS("ty_close: the engine is NULL");
  IS(TY_CLOSED, ty_close((ty_engine *)&n));
  SAYS("was closed, or never was one");
  IS(TY_CLOSED, ty_load(NULL, "x", NULL, &m));
  IS(TY_CLOSED, ty_call(NULL, NULL, 0));
  IS(TY_CLOSED, ty_call((ty_model *)&n, NULL, 0));
  e = open_engine();
  IS(TY_INVALID, ty_load(e, NULL, NULL, &m));
  IS(TY_INVALID, ty_load(e, "x.lua", NULL, NULL));
  IS(TY_FAILED, ty_load(e, "/no/such.lua", NULL, &m));
  SAYS("/no/such.lua");
  CHECK(!m);
  static const char *const bad[] = {
      "return 1",     "return {}",     "return",    "return {forward = 1}",
      "syntax error", "error('mine')", "error({})", "local x <",
      "return nil"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const ty_source source = {.text = bad[i], .name = "bad"};
    IS(TY_FAILED, ty_load_source(e, &source, &m));
    CHECK(!m);
  }
  const ty_source options = {.text = "return function() end", .options = "fullgraph = 1"},
                  options2 = {.text = "return function() end", .options = "} os.exit() {"},
                  options3 = {.text = "return function() end", .options = "fullgraph"},
                  both = {.text = "x", .path = "x"},
                  weights = {.text = "return function() end", .file = "/no/such.npz"};
  IS(TY_FAILED, ty_load_source(e, &options, &m));
  SAYS("option fullgraph must be a boolean");
  IS(TY_FAILED, ty_load_source(e, &options2, &m));
  IS(TY_FAILED, ty_load_source(e, &options3, &m));
  SAYS("fullgraph is no value");
  IS(TY_INVALID, ty_load_source(e, &both, &m));
  IS(TY_FAILED, ty_load_source(e, &weights, &m));
  SAYS("/no/such.npz");
  IS(TY_INVALID, ty_load_source(e, NULL, &m));
  IS(TY_INVALID, ty_weights_load(e, NULL, &w));
  IS(TY_FAILED, ty_weights_load(e, "/no/such.safetensors", &w));
  IS(TY_INVALID, ty_weights_load(e, "x", NULL));
  IS(TY_CLOSED, ty_weights_free(NULL));
  IS(TY_INVALID, ty_luajit(e, NULL));
  IS(TY_INVALID, ty_memory(e, NULL));
  IS(TY_INVALID, ty_limit(e, -1, 0));
  IS(TY_OK, ty_memory(e, &bytes));
  m = load_text(e,
                "return function(x, y) if x == 'raise' then error('mine', 0) end return x + y end");
  const float x[6] = {1, 2, 3, 4, 5, 6};
  const ty_array good[2] = {ty_vector(TY_F32, x, 3), ty_vector(TY_F32, x, 3)};
  ty_array in[2];
#define REFUSED(change, says) \
  memcpy(in, good, sizeof in); \
  change; \
  IS(TY_INVALID, ty_call(m, in, 2)); \
  SAYS(says)
  for (int turn = 0; turn < 4; turn++) {
    IS(TY_OK, ty_call(m, good, 2));
    a = result(m, 0);
    REFUSED(in[1].dtype = (ty_dtype)77, "argument 1: there is no dtype 77");
    REFUSED(in[1].dtype = (ty_dtype)-1, "argument 1: there is no dtype -1");
    REFUSED(in[0].rank = 9, "argument 0: rank 9 is not from 0 to 8");
    REFUSED(in[0].rank = -1, "argument 0: rank -1");
    REFUSED(in[0].shape[0] = -3, "size 0 is negative, -3");
    REFUSED(in[0].shape[0] = INT64_MAX, "too large for any memory");
    REFUSED((in[0].rank = 2, in[0].shape[0] = in[0].shape[1] = (int64_t)1 << 40),
            "too large for any memory");
    REFUSED(in[0].data = NULL, "argument 0: its data is NULL");
    REFUSED(in[0].name = "x", "by position");
    REFUSED((in[0].strided = 1, in[0].strides[0] = INT64_MAX), "strides lead out of any memory");
    REFUSED((in[0].strided = 1, in[0].strides[0] = INT64_MIN), "strides lead out of any memory");
    REFUSED((in[0] = ty_vector(TY_TEXT, NULL, 5)), "a text of 5 bytes at NULL");
    REFUSED((in[0] = ty_vector(TY_TEXT, "x", -1)), "a text of -1 bytes");
    CHECK(f32_at(&a, 1) == 4); /* of the last good call */
    IS(TY_INVALID, ty_call(m, good, -1));
    IS(TY_INVALID, ty_call(m, good, TY_ARGUMENTS_MAX + 1));
    IS(TY_INVALID, ty_call(m, NULL, 1));
    memcpy(in, good, sizeof in);
    in[1].shape[0] = 2;
    IS(TY_FAILED, ty_call(m, in, 2));
    SAYS("spec:1: add: sizes do not broadcast, f32[3] and f32[2]");
    IS(TY_OK, ty_results(m, &n));
    CHECK(n == 0);
    in[0] = ty_vector(TY_TEXT, "raise", 5);
    IS(TY_FAILED, ty_call(m, in, 2));
    CHECK(!strcmp(ty_error(), "mine"));
    IS(TY_OK, ty_call(m, good, 2));
    CHECK(first_of(m) == 2);
  }
  IS(TY_INVALID, ty_result(m, -1, &a));
  IS(TY_INVALID, ty_result(m, 0, NULL));
  IS(TY_INVALID, ty_results(m, NULL));
  IS(TY_INVALID, ty_result_named(m, NULL, &a));
  IS(TY_INVALID, ty_method(m, NULL, &m));
  m = load_text(e, "return function() end");
  IS(TY_OK, ty_unload(m));
  IS(TY_CLOSED, ty_unload(m));
  IS(TY_CLOSED, ty_call(m, NULL, 0));
  IS(TY_CLOSED, ty_result(m, 0, &a));
  ty_model *other = load_text(e, "return function() end");
  IS(TY_CLOSED, ty_call(m, NULL, 0)); /* its place is another's now */
  IS(TY_OK, ty_close(e));
  IS(TY_CLOSED, ty_close(e));
  IS(TY_CLOSED, ty_call(other, NULL, 0));
  IS(TY_CLOSED, ty_luajit(e, &text));
  CHECK(!strcmp(ty_status_name((ty_status)99), "unknown") && *ty_version());
}

static FILE *open_to_write(const char *path) {
#ifdef _WIN32
  wchar_t wide[MAX_PATH];
  return MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, MAX_PATH) ? _wfopen(wide, L"wb") : NULL;
#else
  return fopen(path, "wb");
#endif
}

/* Files' names are UTF-8, also on Windows, and may have spaces. */
static void paths(void) {
  char path[600];
  ty_engine *e = open_engine();
  ty_model *m = NULL;
  ty_weights *w = NULL;
  write_weights(e);
  snprintf(path, sizeof path, "%s \xd0\xb6 \xe6\x97\xa5 \xc3\xa9.lua", weights_path);
  FILE *file = open_to_write(path);
  CHECK(file && fputs("#!/usr/bin/env luajit\nlocal w = ... "
                      "return function(x) return x + w.b[1], #x.shape + nil end\n",
                      file) >= 0);
  if (!file || fclose(file)) return;
  const float x = 2;
  const ty_array in = ty_vector(TY_F32, &x, 1);
  IS(TY_OK, ty_load(e, path, weights_path, &m));
  IS(TY_FAILED, ty_call(m, &in, 1));
  SAYS(".lua:2: attempt to perform arithmetic on a nil value");
  IS(TY_OK, ty_weights_load(e, weights_path, &w));
  IS(TY_OK, ty_weights_free(w));
  strcat(path, "s");
  IS(TY_FAILED, ty_load(e, path, NULL, &m));
  SAYS("\xe6\x97\xa5 \xc3\xa9.luas: cannot be opened: ");
  IS(TY_FAILED, ty_load(e, ".", NULL, &m));
  SAYS(".: is a directory");
  IS(TY_OK, ty_close(e));
}

/* Deep recursion, garbage, coroutines, an own error handler: what Lua may do, models may. */
static void wild(void) {
  static const char *const fine[] = {
      "return function() return (coroutine.wrap(function() "
      "coroutine.yield(require('tycho').ones(2) * 3) end)()) end",
      "return function() local t = {} for i = 1, 1e4 do t[i] = {} end collectgarbage() return "
      "require('tycho').ones(2) * 3 end",
      "return function() return (select(2, pcall(error, require('tycho').ones(2) * 3))) end",
  };
  static const char *const bad[] = {
      "local function f() return 1 + f() end return function() return f() end",
      "return function() coroutine.yield(1) end",
      "return function() return ('x'):rep(1e6):rep(1e9) end",
      "return function() return require('tycho').zeros(1e12, 1e12) end",
      "return function() error() end",
      "return function() error(setmetatable({}, { __tostring = error })) end",
      "return function() require('tycho').ones(2):release():sum() end",
      "return function() local t = require('tycho').ones(2) t:release() return t end",
  };
  ty_engine *e = open_engine();
  for (int turn = 0; turn < 3; turn++) {
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
      ty_model *m = load_text(e, fine[i]);
      for (int k = 0; k < 3; k++) IS(TY_OK, ty_call(m, NULL, 0));
      CHECK(first_of(m) == 3);
      IS(TY_OK, ty_unload(m));
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      ty_model *m = load_text(e, bad[i]);
      for (int k = 0; k < 3; k++) CHECK(ty_call(m, NULL, 0) >= TY_NO_MEMORY && *ty_error());
      IS(TY_OK, ty_unload(m));
    }
  }
  IS(TY_OK, ty_close(e));
}

/* ---- calls in slices of time ------------------------------------------------------------------ */

static const char
    *const layered = /* some ten milliseconds, a state that it changes, and another function */
    "local ty = require 'tycho' ty.manual_seed(4) local N = 384 local w = ty.randn(N, N) * 0.05 "
    "local t = { n = 0, w = ty.ones(N) } "
    "function t:forward(x, k) for _ = 1, 6 do x = x:matmul(w):tanh() end self.n = self.n + 1 "
    "self.w:add_(x[1]) return { y = x * k, n = self.n } end "
    "function t:peek() return self.n, self.w end return t";

static float *filled(int seed) {
  float *x = malloc(384 * 384 * sizeof *x);
  for (int i = 0; i < 384 * 384; i++) x[i] = (float)((i * 37 + seed) % 101) * 0.01f - 0.5f;
  return x;
}

static double peeked(ty_model *peek, float *w) {
  IS(TY_OK, ty_call(peek, NULL, 0));
  const ty_array n = result(peek, 0), a = result(peek, 1);
  *w = f32_at(&a, 7);
  return n.number;
}

/* A call in slices has the results of a plain one, all at once, when it is done; meanwhile those of the call before hold,
** and other functions of the model's go on. */
static void steps(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, layered), *plain = load_text(e, layered), *peek, *plain_peek;
  ty_array y, want;
  float w, was;
  int done = 0, compiled = 0, taken = 0;
  IS(TY_OK, ty_method(m, "peek", &peek));
  IS(TY_OK, ty_method(plain, "peek", &plain_peek));
  for (int turn = 0; turn < 5; turn++) {
    float *x = filled(turn);
    const ty_array in[2] = {ty_matrix(TY_F32, x, 384, 384), ty_number(2 + turn)};
    if (turn < 3) IS(TY_OK, ty_call(m, in, 2));
    IS(TY_OK, ty_call(plain, in, 2));
    if (turn < 3) continue;
    IS(TY_OK, ty_result_named(m, "y", &y));
    const float before = f32_at(&y, 5);
    const double n = peeked(peek, &was);
    IS(TY_OK, ty_start(m, in, 2));
    IS(TY_BUSY, ty_start(m, in, 2));
    IS(TY_BUSY, ty_call(m, in, 2));
    SAYS("a call that ty_start began is under way");
    IS(TY_BUSY, ty_warmup(m, in, 2));
    memset(x, 0xff, 384 * 384 * sizeof *x);
    free(x); /* it was copied */
    for (taken = done = 0; !done && taken < 100000; taken++) {
      CHECK(f32_at(&y, 5) == before);
      CHECK(peeked(peek, &w) == n && w == was);
      IS(TY_OK, ty_step(m, 0, &done));
    }
    CHECK(done && taken > 5);
    IS(TY_OK, ty_was_compiled(m, &compiled));
    CHECK(compiled);
    IS(TY_OK, ty_result_named(m, "y", &y));
    IS(TY_OK, ty_result_named(plain, "y", &want));
    CHECK(!memcmp(y.data, want.data, 384 * 384 * sizeof *x));
    CHECK(peeked(peek, &w) == peeked(plain_peek, &was) && w == was);
    CHECK(peeked(peek, &w) == n + 1);
    IS(TY_INVALID, ty_step(m, 0, &done));
    SAYS("no call is under way");
  }
  IS(TY_OK, ty_close(e));
}

/* Cancelled, closed and unloaded while it is under way: nothing is seen of it. */
static void cancels(void) {
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, layered), *peek, *other = load_text(e, layered);
  float *x = filled(1), w, was;
  const ty_array in[2] = {ty_matrix(TY_F32, x, 384, 384), ty_number(2)};
  ty_array y;
  int done = 1;
  IS(TY_OK, ty_method(m, "peek", &peek));
  for (int i = 0; i < 3; i++) IS(TY_OK, ty_call(m, in, 2));
  const double n = peeked(peek, &was);
  IS(TY_OK, ty_result_named(m, "y", &y));
  const float before = f32_at(&y, 5);
  IS(TY_OK, ty_cancel(m)); /* none is under way */
  for (int steps = 0; steps < 3; steps++) {
    IS(TY_OK, ty_start(m, in, 2));
    for (int i = 0; i < steps; i++) IS(TY_OK, ty_step(m, 0, &done));
    CHECK(!steps || !done);
    IS(TY_OK, ty_cancel(m));
    IS(TY_INVALID, ty_step(m, 0, &done));
    CHECK(peeked(peek, &w) == n && w == was);
    IS(TY_OK, ty_result_named(m, "y", &y));
    CHECK(f32_at(&y, 5) == before);
  }
  IS(TY_OK, ty_start(m, in, 2));
  IS(TY_OK, ty_step(m, -1, &done));
  CHECK(done && peeked(peek, &w) == n + 1);
  IS(TY_OK, ty_start(m, in, 2));
  IS(TY_OK, ty_step(m, 0, &done));
  CHECK(!done);
  IS(TY_OK, ty_unload(m));
  IS(TY_CLOSED, ty_step(m, 0, &done));
  for (int i = 0; i < 3; i++) IS(TY_OK, ty_call(other, in, 2));
  IS(TY_OK, ty_start(other, in, 2));
  IS(TY_OK, ty_step(other, 0, &done));
  CHECK(!done);
  IS(TY_OK, ty_close(e));
  IS(TY_CLOSED, ty_cancel(other));
  free(x);
}

/* What ends a call in slices by an error: what the model raises, wrong use, limits. It has ended then, and the next goes well. */
static void step_errors(void) {
  static const char *const endless[] = {
      "local first = true return function(x) while first do first = x and first end return x end",
      "return function(x) while true do x = x * 1 end end",
      "return function(x) local y = require('tycho').ones(300, 300) for i = 1, 1e9 do y = "
      "y:matmul(y):tanh() end return y end",
      "return function(x) while true do pcall(function() while true do end end) end end",
      "return function(x) coroutine.wrap(function() while true do end end)() end",
      "return function(x) coroutine.yield() while true do end end",
  };
  ty_engine *e = open_engine();
  const float x[6] = {1, 2, 3, 4, 5, 6};
  ty_array in[2] = {ty_vector(TY_F32, x, 3), ty_vector(TY_F32, x, 3)};
  int64_t bytes = 0;
  int done = 1, n = -1;
  ty_model *m = load_text(e, "return function(x, y) local z = x + y return z:sum() end");
  IS(TY_INVALID, ty_step(m, 5, &done));
  CHECK(!done);
  IS(TY_INVALID, ty_step(m, 5, NULL));
  IS(TY_CLOSED, ty_step(NULL, 5, &done));
  IS(TY_CLOSED, ty_start(NULL, in, 2));
  IS(TY_CLOSED, ty_cancel(NULL));
  IS(TY_INVALID, ty_start(m, in, -1));
  IS(TY_INVALID, ty_start(m, NULL, 1));
  in[1].dtype = (ty_dtype)77;
  IS(TY_INVALID, ty_start(m, in, 2));
  SAYS("ty_start: argument 1: there is no dtype 77");
  in[1].dtype = TY_F32;
  for (int turn = 0; turn < 4; turn++) {
    in[1].shape[0] = 2;
    IS(TY_OK, ty_start(m, in, 2));
    IS(TY_FAILED, ty_step(m, -1, &done));
    SAYS("spec:1: add: sizes do not broadcast, f32[3] and f32[2]");
    CHECK(!done);
    IS(TY_OK, ty_results(m, &n));
    CHECK(n == 0);
    in[1].shape[0] = 3;
    IS(TY_OK, ty_start(m, in, 2));
    IS(TY_OK, ty_step(m, -1, &done));
    CHECK(done && first_of(m) == 12);
  }
  ty_model *quick = load_text(e, "return function(x) return x + 1 end");
  IS(TY_OK, ty_limit(e, 0, 30000));
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
    ty_model *slow = load_text(e, endless[i]);
    for (int turn = 0; turn < 3; turn++) {
      const double start = seconds();
      IS(TY_OK, ty_start(slow, in, 1));
      ty_status s = TY_OK;
      for (done = 0; !s && !done;) s = ty_step(slow, 1000, &done);
      IS(TY_TIMEOUT, s);
      CHECK(seconds() - start < 2);
      IS(TY_INVALID, ty_step(slow, 1000, &done));
      IS(TY_OK, ty_limit(e, 0, 0));
      IS(TY_OK, ty_start(quick, in, 1));
      IS(TY_OK, ty_step(quick, -1, &done));
      CHECK(done && first_of(quick) == 2);
      IS(TY_OK, ty_limit(e, 0, 30000));
    }
  }
  IS(TY_OK, ty_close(e));
  e = open_engine();
  float *big = filled(1);
  const ty_array all[2] = {ty_matrix(TY_F32, big, 384, 384), ty_number(2)};
  m = load_text(e, "return function(x, k) return x * k end");
  IS(TY_OK, ty_memory(e, &bytes));
  IS(TY_OK, ty_limit(e, bytes + (300 << 10), 0));
  IS(TY_NO_MEMORY, ty_start(m, all, 2)); /* the copy of its argument is too much */
  IS(TY_OK, ty_limit(e, bytes + (800 << 10), 0));
  IS(TY_OK, ty_start(m, all, 2));
  IS(TY_NO_MEMORY, ty_step(m, -1, &done)); /* and its result */
  CHECK(!done);
  IS(TY_OK, ty_limit(e, 0, 0));
  IS(TY_OK, ty_start(m, all, 2));
  IS(TY_OK, ty_step(m, -1, &done));
  CHECK(done && first_of(m) == 2 * big[0]);
  free(big);
  IS(TY_OK, ty_close(e));
}

/* A limit is one of all steps together: a tenth of what the call takes ends it, though each step takes less. Where plans answer,
** it costs LuaJIT none of the code that it has compiled. */
static void step_limits(void) {
  static const char *const source =
      "local ty, t = require 'tycho', {} local w = ty.randn(384, 384) * 0.05 "
      "function t:forward(x) for _ = 1, 90 do x = x:matmul(w):tanh() end return x end "
      "function t:compiled() return require('jit.util').traceinfo(1) ~= nil end "
      "local n = 0 for i = 1, 1e5 do n = n + i end return t";
  ty_engine *e = open_engine();
  ty_model *m = load_text(e, source), *compiled;
  float *x = filled(1);
  const ty_array in = ty_matrix(TY_F32, x, 384, 384);
  int done = 0, n = 0, most = 0;
  double took = 1e9;
  IS(TY_OK, ty_method(m, "compiled", &compiled));
  IS(TY_OK, ty_warmup(m, &in, 1));
  for (int i = 0; i < 3; i++) {
    const double start = seconds();
    IS(TY_OK, ty_call(m, &in, 1));
    if (seconds() - start < took) took = seconds() - start;
  }
  const int64_t limit = (int64_t)(took * 1e5);
  IS(TY_OK, ty_limit(e, 0, limit));
  for (int turn = 0; turn < 10; turn++) {
    IS(TY_OK, ty_start(m, &in, 1));
    ty_status s = TY_OK;
    for (done = n = 0; !s && !done; n++) s = ty_step(m, limit / 20, &done);
    IS(TY_TIMEOUT, s);
    if (n > most) most = n;
  }
  CHECK(most > 1);
  IS(TY_OK, ty_limit(e, 0, 0));
  IS(TY_OK, ty_call(compiled, NULL, 0));
  CHECK(result(compiled, 0).number == 1);
  IS(TY_OK, ty_limit(e, 0, 60000000)); /* time enough */
  IS(TY_OK, ty_start(m, &in, 1));
  for (done = 0; !done;) IS(TY_OK, ty_step(m, 1000, &done));
  IS(TY_OK, ty_call(m, &in, 1));
  IS(TY_OK, ty_limit(e, 0, 0));
  IS(TY_OK, ty_call(compiled, NULL, 0));
  CHECK(result(compiled, 0).number == 1);
  free(x);
  IS(TY_OK, ty_close(e));
}

/* ---- limits, what the host is told ----------------------------------------------------------- */

static void limits(void) {
  ty_engine *e = open_engine();
  ty_model *small = load_text(e, "return function(x) return x + 1 end");
  ty_model *large =
      load_text(e, "return function(x) local y = x:reshape(-1, 1) + x return y:sum(), y end");
  static float x[2000];
  const ty_array one = ty_vector(TY_F32, x, 100), all = ty_vector(TY_F32, x, 2000);
  int64_t before = 0, after = 0;
  for (int turn = 0; turn < 3; turn++) {
    IS(TY_OK, ty_call(small, &one, 1));
    IS(TY_OK, ty_call(large, &all, 1)); /* 16 MB */
    IS(TY_OK, ty_call(large, &one, 1));
    IS(TY_OK, ty_memory(e, &before));
    IS(TY_OK, ty_limit(e, 4 << 20, 0));
    IS(TY_NO_MEMORY, ty_call(large, &all, 1));
    SAYS("out of memory");
    for (int i = 0; i < 200; i++) IS(TY_OK, ty_call(large, &one, 1));
    IS(TY_OK, ty_call(small, &one, 1));
    IS(TY_OK, ty_memory(e, &after));
    CHECK(after <= 4 << 20);
    IS(TY_OK, ty_limit(e, 0, 0));
  }
  IS(TY_OK, ty_close(e));
}

static void deadlines(void) {
  static const char *const endless[] = {
      "return function(x) while true do end end",
      "return function(x) while true do x = x * 1 end end",
      "return function(x) local y = 0 for i = 1, 1e12 do y = y + i % 7 end return y end",
      "return function(x) local y = require('tycho').ones(300, 300) for i = 1, 1e9 do y = "
      "y:matmul(y):tanh() end return y end",
      "local f f = function(n) if n > 0 then return f(n) end return 1 end return function() return "
      "f(1) end",
      "return function(x) while true do pcall(function() while true do end end) end end",
  };
  ty_engine *e = open_engine();
  const float x[3] = {1, 2, 3};
  const ty_array in = ty_vector(TY_F32, x, 3);
  ty_model *quick = load_text(e, "return function(x) return x + 1 end");
  IS(TY_OK, ty_limit(e, 0, 30000));
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
    ty_model *m = load_text(e, endless[i]);
    for (int turn = 0; turn < 3; turn++) {
      const double start = seconds();
      IS(TY_TIMEOUT, ty_call(m, &in, 1));
      if (seconds() - start > 2)
        printf("endless %d: %.3f s\n", (int)i, seconds() - start), failures++;
      IS(TY_OK, ty_limit(e, 0, 5000000)); /* the machine may be busy */
      IS(TY_OK, ty_call(quick, &in, 1));
      CHECK(first_of(quick) == 2);
      IS(TY_OK, ty_limit(e, 0, 30000));
    }
  }
  IS(TY_OK, ty_limit(e, 0, 5000000)); /* time enough: it is compiled all the same */
  ty_model *m = load_text(
      e, "return function(x) local y = x for i = 1, 20 do y = (y * 2 - 1):tanh() end return y end");
  int compiled = 0;
  for (int i = 0; i < 4; i++) IS(TY_OK, ty_call(m, &in, 1));
  IS(TY_OK, ty_was_compiled(m, &compiled));
  CHECK(compiled);
  IS(TY_OK, ty_limit(e, 0, 0));
  IS(TY_OK, ty_close(e));
}

static ty_model *inner;
static int lines;
static ty_status inside;

static void log_line(void *ctx, const char *text) {
  CHECK(ctx == &lines && strstr(text, "spec:1"));
  lines++;
  inside = ty_call(inner, NULL, 0);
}

/* One line for a function that is not compiled; inside of it the engine is busy. */
static void logs(void) {
  const ty_options options = {.log = log_line, .log_ctx = &lines};
  ty_engine *e;
  IS(TY_OK, ty_open(&options, &e));
  inner = load_text(e, "return function() end");
  ty_model *m = load_text(e, "return function(x) local y = {} for k in pairs(_G) do y[k] = "
                             "io.write('') end return x + 1 end");
  const float x = 1;
  const ty_array in = ty_vector(TY_F32, &x, 1);
  for (int i = 0; i < 20; i++) IS(TY_OK, ty_call(m, &in, 1));
  CHECK(lines == 1 && inside == TY_BUSY);
  IS(TY_OK, ty_call(inner, NULL, 0));
  IS(TY_OK, ty_close(e));
}

#ifndef _WIN32

/* Nobody's locale changes what numbers are, as text and as values, also of files; nobody changes the locale. */
static void locales(void) {
  static const char *const source =
      "local ty = require 'tycho' local weights = ... local path = '%s.csv' "
      "local function why(f, ...) return (select(2, pcall(f, ...))) end "
      "ty.csv.save(path, ty.tensor { { 1.5, 2.25 }, { -3e-7, 4e20 } }) "
      "local file = io.open(path) local csv = file:read '*a' file:close() "
      "local f = jit.compile(function(x) return x * 1.5 + 0.25 end) f(ty.ones(2)) "
      "local graph = tostring(jit.graph(f, ty.ones(2))) "
      "return function(x) return tostring(x * 1.5), 0.5 .. '', tonumber '2.25', csv, "
      "ty.csv.load(path):tensor(), graph, why(ty.full, { 2 }, 1.5, { dtype = 'i64' }), "
      "tostring(ty.tensor { 1e-9, 1.5, 1e10 }), why(ty.tensor { 1, 2 }.narrow, ty.ones(2), 1, 1.5, "
      "1), "
      "weights.a:sum() end";
  char text[1400], said[2][10][400] = {{{0}}};
  const char *const names[2] = {"C", "de_DE.UTF-8"};
  ty_engine *e = open_engine();
  write_weights(e);
  IS(TY_OK, ty_close(e));
  snprintf(text, sizeof text, source, weights_path);
  for (int turn = 0; turn < 2; turn++) {
    if (!setlocale(LC_ALL, names[turn])) exit(NO_LOCALE);
    CHECK(*localeconv()->decimal_point == (turn ? ',' : '.'));
    e = open_engine();
    ty_model *m = NULL;
    const ty_source with = {.text = text, .file = weights_path, .name = "spec"};
    const float x = 1.25f;
    const ty_array in = ty_vector(TY_F32, &x, 1);
    IS(TY_OK, ty_load_source(e, &with, &m));
    IS(TY_OK, ty_call(m, &in, 1));
    for (int i = 0; i < 10; i++) {
      const ty_array a = result(m, i);
      const size_t n = a.dtype == TY_TEXT ? (size_t)a.shape[0] : a.dtype == TY_F32 ? 4 : 8;
      memcpy(said[turn][i], a.dtype == TY_NUMBER ? (const void *)&a.number : a.data,
             n < 399 ? n : 399);
    }
    IS(TY_OK, ty_close(e));
    CHECK(!strcmp(setlocale(LC_ALL, NULL), names[turn]));
  }
  CHECK(!strcmp(said[0][0], "{1.875} [f32 1 cpu]"));
  for (int i = 0; i < 10; i++)
    if (memcmp(said[0][i], said[1][i], sizeof said[0][i]))
      printf("result %d: %s, in C it is %s\n", i, said[1][i], said[0][i]), failures++;
}

/* No output and no handler of signals' is the library's, whatever goes well or fails. */
static void quiet(void) {
  static const char *const sources[] = {
      "return function(x) return (x + 1):sum() end",
      "return function(x) io.write('') for k in pairs(_G) do io.write('') end return x * 2 end",
      "return function(x) return x:matmul(x) end",
      "return function(x) error 'mine' end",
      "return 5",
      "return function(x) return require('tycho').zeros(1e6, 1e6) end",
      "return function(x) if x then return x end end"};
  enum { SIGNALS = 32 };
  struct sigaction before[SIGNALS], after;
  char path[] = "/tmp/embed-quiet-XXXXXX";
  const int file = mkstemp(path), out = dup(1), err = dup(2);
  CHECK(file >= 0 && !unlink(path));
  for (int i = 1; i < SIGNALS; i++) sigaction(i, NULL, &before[i]);
  fflush(stdout);
  dup2(file, 1), dup2(file, 2);
  const float x[3] = {1, 2, 3};
  const ty_array in = ty_vector(TY_F32, x, 3);
  ty_engine *e = open_engine();
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    const ty_source source = {.text = sources[i]};
    ty_model *m;
    int done = 0;
    if (ty_load_source(e, &source, &m)) continue;
    for (int k = 0; k < 6; k++) ty_call(m, &in, 1);
    if (!ty_start(m, &in, 1)) ty_step(m, -1, &done);
  }
  for (int i = 1; i < SIGNALS; i++) {
    sigaction(i, NULL, &after);
    CHECK(after.sa_handler == before[i].sa_handler && after.sa_flags == before[i].sa_flags);
  }
  ty_call(NULL, NULL, 0);
  IS(TY_OK, ty_close(e));
  fflush(stdout);
  dup2(out, 1), dup2(err, 2);
  CHECK(lseek(file, 0, SEEK_END) == 0);
  close(file);
}

#endif

/* ---- what the host does in the library's place ------------------------------------------------ */

static struct {
  pthread_mutex_t lock;
  int64_t live, blocks, asked, fail_from, fail_times; /* fail_from < 0: never */
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_from = -1};

#ifdef _WIN32
static void *aligned(size_t align, size_t n) { return _aligned_malloc(n, align); }
static void free_aligned(void *p) { _aligned_free(p); }
#else
static void *aligned(size_t align, size_t n) {
  void *p;
  return posix_memalign(&p, align, n) ? NULL : p;
}
static void free_aligned(void *p) { free(p); }
#endif

/* Each block tells its size, so that what is given back is checked. */
static void *allocate(void *ctx, size_t n, size_t align) {
  void *p = NULL;
  CHECK(ctx == &memory && (align & (align - 1)) == 0 && align <= (size_t)4 << 20);
  pthread_mutex_lock(&memory.lock);
  const int64_t at = memory.asked++;
  const int fails =
      memory.fail_from >= 0 && at >= memory.fail_from && at < memory.fail_from + memory.fail_times;
  if (!fails) p = aligned(align < sizeof p ? sizeof p : align, n);
  if (p) memset(p, 0xcd, n < 4096 ? n : 4096), memory.live += (int64_t)n, memory.blocks++;
  pthread_mutex_unlock(&memory.lock);
  return p;
}

static void release(void *ctx, void *p, size_t n) {
  CHECK(ctx == &memory && p);
  pthread_mutex_lock(&memory.lock);
  memory.live -= (int64_t)n, memory.blocks--;
  pthread_mutex_unlock(&memory.lock);
  free_aligned(p);
}

static const char *const worker = /* trains, keeps state, returns several things */
    "local ty = require 'tycho' local weights = ... ty.manual_seed(3) "
    "local w = ty.randn(8, 8) local t = { h = ty.zeros(8) } "
    "function t:forward(x, k) self.h = (self.h * 0.5 + x:matmul(w)):tanh() "
    "return { h = self.h, y = self.h * k, n = k } end "
    "function t:learn(x) local a = ty.value_and_grad(function(v) return "
    "(x:matmul(v)):square():mean() end)(w) "
    "return a end return t";

/* Everything once, where any allocation may fail; whether it went to its end. */
static int use_all(float *sum) {
  ty_engine *e = NULL;
  ty_model *m = NULL, *learn = NULL;
  ty_array y;
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const ty_array in[2] = {ty_vector(TY_F32, x, 8), ty_number(2)};
  const ty_source source = {.text = worker, .name = "worker"};
  ty_status s = ty_open(NULL, &e);
  if (!s) s = ty_load_source(e, &source, &m);
  if (!s) s = ty_method(m, "learn", &learn);
  for (int i = 0; i < 4 && !s; i++) s = ty_call(m, in, 2);
  if (!s) s = ty_result_named(m, "y", &y);
  if (!s) *sum = f32_at(&y, 0);
  for (int i = 0; i < 2 && !s; i++) s = ty_call(learn, in, 1);
  for (int i = 0, done; i < 3 && !s; i++)
    for (s = ty_start(m, in, 2), done = 0; !s && !done;) s = ty_step(m, 0, &done);
  if (!s) s = ty_result_named(m, "y", &y);
  if (!s) *sum += f32_at(&y, 0);
  if (e) IS(TY_OK, ty_close(e));
  if (s && s != TY_NO_MEMORY) fail(__LINE__, ty_status_name(s));
  return !s;
}

/* Whichever allocation fails: a code, a sentence, and nothing is lost. */
static void starved(void) {
  const ty_host host = {.ctx = &memory, .allocate = allocate, .release = release, .threads = 1};
  float want = 0, got = 0;
  IS(TY_OK, ty_setup(&host));
  CHECK(use_all(&want));
  const int64_t start = memory.asked;
  CHECK(use_all(&got) && got == want);
  const int64_t needs = memory.asked - start;
  int done = 0, tries = 0;
  int64_t blocks[3];
  for (int round = 0; round < 3; round++) {
    for (int kind = 0; kind < 2;
         kind++) /* each of the first ones, then ever rarer; one fails, or all that follow */
      for (int64_t after = 0; after < needs + 10; after += 1 + after / 12) {
        memory.fail_from = memory.asked + after, memory.fail_times = kind ? INT64_MAX / 2 : 1;
        done += use_all(&got);
        memory.fail_from = -1;
        tries++;
      }
    CHECK(use_all(&got) && got == want);
    blocks[round] = memory.blocks;
  }
  CHECK(done < tries);
  if (blocks[2] > blocks[1]) { /* caches of the process fill in the first round */
    printf("%lld blocks are live, %lld were\n", (long long)blocks[2], (long long)blocks[1]);
    failures++;
  }
  printf("%d tries, %d of them went well, %lld allocations each\n", tries, done, (long long)needs);
}

/* The same for each allocation of a call in slices, of a trace whose results nobody takes then. */
static void starved_steps(void) {
  const ty_host host = {.ctx = &memory, .allocate = allocate, .release = release, .threads = 1};
  const ty_source source = {.text = worker, .name = "worker"};
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const ty_array in[2] = {ty_vector(TY_F32, x, 8), ty_number(2)};
  int64_t blocks[4];
  int starts = 0;
  IS(TY_OK, ty_setup(&host));
  for (int round = 0; round < 4; round++) {
    ty_engine *e = NULL;
    ty_model *m = NULL;
    IS(TY_OK, ty_open(NULL, &e));
    IS(TY_OK, ty_load_source(e, &source, &m));
    for (int i = 0; i < 4; i++) IS(TY_OK, ty_call(m, in, 2));
    for (int after = 0, done; after < 300; after++) {
      memory.fail_from = memory.asked + after % 100, memory.fail_times = 1;
      ty_status s = ty_start(m, in, 2);
      for (done = 0; !s && !done;) s = ty_step(m, 0, &done);
      memory.fail_from = -1;
      CHECK(!s || s == TY_NO_MEMORY);
      starts += !!s;
    }
    IS(TY_OK, ty_call(m, in, 2));
    IS(TY_OK, ty_close(e));
    blocks[round] = memory.blocks;
  }
  CHECK(starts > 100);
  if (blocks[3] > blocks[1]) { /* caches of the process fill in the first round */
    printf("%lld blocks are live, %lld were\n", (long long)blocks[3], (long long)blocks[1]);
    failures++;
  }
}

typedef struct Share {
  void (*job)(void *arg, int i);
  void *arg;
  atomic_int *next;
  int n;
} Share;

static void *take_jobs(void *p) {
  const Share *s = p;
  for (int i; (i = atomic_fetch_add(s->next, 1)) < s->n;) s->job(s->arg, i);
  return NULL;
}

static atomic_int jobs_run;

static void run_jobs(void *ctx, int n, void (*job)(void *arg, int i), void *arg) {
  pthread_t id[3];
  atomic_int next = 0;
  Share s = {job, arg, &next, n};
  int started = 0;
  CHECK(ctx == &memory && n > 0);
  jobs_run += n;
  while (started < 3 && !pthread_create(&id[started], NULL, take_jobs, &s)) started++;
  take_jobs(&s);
  for (int i = 0; i < started; i++) pthread_join(id[i], NULL);
}

static const char *const heavy =
    "local ty = require 'tycho' return function() ty.manual_seed(5) local x = ty.randn(400, 400) "
    "local y = x:matmul(x):tanh():softmax() return y, y:sum(1), (x:sort(2)), "
    "ty.randn(300000):exp():cumsum(1) end";

static void use_jobs(int with) {
  const ty_host host = {
      .ctx = &memory, .run_jobs = with ? run_jobs : NULL, .threads = with ? 4 : 1};
  IS(TY_OK, ty_setup(&host));
  ty_engine *e = open_engine();
  IS(TY_BUSY, ty_setup(&host));
  ty_model *m = load_text(e, heavy);
  for (int turn = 0; turn < 4; turn++) IS(TY_OK, ty_call(m, NULL, 0));
  for (int i = 0; i < 4; i++) {
    const ty_array a = result(m, i);
    uint64_t h = 5381;
    size_t n = a.dtype == TY_I64 ? 8 : 4;
    for (int d = 0; d < a.rank; d++) n *= (size_t)a.shape[d];
    for (size_t k = 0; k < n; k++) h = h * 33 ^ ((const unsigned char *)a.data)[k];
    printf("%016llx\n", (unsigned long long)h);
  }
  CHECK(with ? jobs_run > 8 : jobs_run == 0);
  IS(TY_OK, ty_close(e));
}

static void jobs(void) { use_jobs(1); }
static void no_jobs(void) { use_jobs(0); }

static void setups(void) {
  const ty_host half = {.allocate = allocate}, none = {.threads = -1},
                lone = {.run_jobs = run_jobs}, plain = {0};
  IS(TY_INVALID, ty_setup(NULL));
  IS(TY_INVALID, ty_setup(&half));
  IS(TY_INVALID, ty_setup(&none));
  IS(TY_INVALID, ty_setup(&lone));
  IS(TY_OK, ty_setup(&plain));
}

/* ---- threads --------------------------------------------------------------------------------- */

#define THREADS 16
static ty_weights *shared;
static float want[64];
static pthread_barrier_t gate;
static int rounds = 60;

/* With work for the threads that all engines share. */
static const char *const reader =
    "local ty = require 'tycho' local w, much = ..., ty.ones(512, 256) "
    "return function(x, k) return (x:matmul(w.a) * k + w.b):tanh():matmul(w.a) + (much * "
    "k):exp():sum() * 1e-6 end";

static void *infer(void *arg) {
  const ty_source source = {.text = reader, .weights = shared, .name = "reader"};
  ty_engine *e = open_engine();
  ty_model *m = NULL;
  float x[64];
  for (int i = 0; i < 64; i++) x[i] = (float)i * 0.01f;
  pthread_barrier_wait(&gate);
  IS(TY_OK, ty_load_source(e, &source, &m));
  for (int i = 0; i < rounds; i++) {
    const ty_array in[2] = {ty_matrix(TY_F32, x, 1, 64), ty_number(0.5)};
    IS(TY_OK, ty_call(m, in, 2));
    const ty_array a = result(m, 0);
    if (!arg) memcpy(want, a.data, sizeof want);
    CHECK(!memcmp(a.data, want, sizeof want));
  }
  IS(TY_OK, ty_close(e));
  return NULL;
}

static void threads(void) {
  pthread_t id[THREADS];
  ty_engine *e = open_engine();
  write_weights(e);
  IS(TY_OK, ty_weights_load(e, weights_path, &shared));
  IS(TY_OK, ty_close(e)); /* they outlive it */
  pthread_barrier_init(&gate, NULL, 1);
  infer(NULL);
  pthread_barrier_init(&gate, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&id[i], NULL, infer, &gate));
  for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
  IS(TY_OK, ty_weights_free(shared));
  IS(TY_CLOSED, ty_weights_free(shared));
}

/* Weights take no memory of an engine's; who writes to them has others, alone. */
static void weights(void) {
  ty_engine *e = open_engine(), *f = open_engine();
  ty_model *m = NULL, *n = NULL;
  int64_t before, after;
  write_weights(e);
  IS(TY_OK, ty_weights_load(e, weights_path, &shared));
  const ty_source source = {.text =
                                "local w = ... local t = {} function t:forward() return w.a end "
                                "function t:write() w.a:set(2, 1, 8) w.a:add_(1) w.a[1] = 7 "
                                "return w.a end return t",
                            .weights = shared},
                  module = {
                      .text =
                          "local ty = require 'tycho' local L = ty.nn.class 'L' "
                          "function L:init() for _, k in ipairs { 'a', 'b' } do self[k] = "
                          "ty.nn.Parameter(k == 'a' and ty.zeros(64, 64) or ty.zeros(64)) end end "
                          "function L:forward() return self.a end return L()",
                      .weights = shared};
  IS(TY_OK, ty_memory(f, &before));
  IS(TY_OK, ty_load_source(e, &source, &m));
  IS(TY_OK, ty_load_source(f, &source, &n));
  IS(TY_OK, ty_memory(f, &after));
  CHECK(after - before < 64 * 64 * 4);
  ty_model *k = NULL, *q = NULL;
  IS(TY_OK, ty_load_source(e, &module, &k));
  IS(TY_OK, ty_call(m, NULL, 0));
  IS(TY_OK, ty_call(n, NULL, 0));
  const ty_array a = result(m, 0), b = result(n, 0);
  CHECK(a.data == b.data);
  IS(TY_OK, ty_call(k, NULL, 0));
  const ty_array d = result(k, 0);
  CHECK(d.data == b.data);
  float copy[64 * 64];
  memcpy(copy, b.data, sizeof copy);
  ty_model *write;
  IS(TY_OK, ty_load_source(f, &source, &q)); /* no result of q's holds what it writes to */
  IS(TY_OK, ty_method(q, "write", &write));
  IS(TY_OK, ty_call(write, NULL, 0));
  CHECK(!memcmp(b.data, copy, sizeof copy));
  IS(TY_OK, ty_weights_free(shared)); /* models hold them */
  IS(TY_OK, ty_method(m, "write", &write));
  for (int i = 0; i < 3; i++) IS(TY_OK, ty_call(write, NULL, 0));
  CHECK(first_of(write) == 7);
  IS(TY_OK, ty_call(n, NULL, 0));
  const ty_array c = result(n, 0);
  CHECK(c.data == b.data && !memcmp(c.data, copy, sizeof copy));
  IS(TY_OK, ty_close(e));
  IS(TY_OK, ty_call(n, NULL, 0));
  IS(TY_OK, ty_close(f));
}

/* ---- a device -------------------------------------------------------------------------------- */

static const char *const learner =
    "local ty = require 'tycho' ty.manual_seed(4) local w = ... "
    "local m = ty.nn.Sequential(ty.nn.Linear(64, 8), ty.nn.Tanh(), ty.nn.Linear(8, 3)) "
    "local opt, t = ty.optim.Adam(m:parameters(), { lr = 0.05 }), {} "
    "function t:forward(x, k) return m(x:matmul(w.a)) * k, ty.arange(3) + k, x.device, w.a.device "
    "end "
    "function t:learn(x) opt:zero_grad() local e = m(x):square():sum() e:backward() opt:step() "
    "return e:detach() end return t";

static void *on_device(void *device) {
  const ty_options options = {.device = device};
  const ty_source source = {.text = learner, .weights = shared, .name = "learner"};
  const char *lies = device ? device : "cpu";
  float x[128], *y = calloc(64, sizeof *y);
  ty_engine *e = NULL;
  ty_model *m = NULL, *learn = NULL;
  int compiled = 0, done = 0;
  for (int i = 0; i < 128; i++) x[i] = (float)(i % 17) * 0.1f - 0.5f;
  const ty_array in[2] = {ty_matrix(TY_F32, x, 2, 64), ty_number(0.5)};
  IS(TY_OK, ty_open(&options, &e));
  IS(TY_OK, ty_load_source(e, &source, &m));
  IS(TY_OK, ty_method(m, "learn", &learn));
  for (int turn = 0; turn < 6; turn++) {
    IS(TY_OK, ty_call(learn, in, 1));
    y[turn] = first_of(learn);
    IS(TY_OK, ty_call(m, in, 2));
    memcpy(y + 6 + 6 * turn, result(m, 0).data, 6 * sizeof *y);
    memcpy(y + 42, result(m, 1).data, 3 * sizeof *y);
    for (int k = 2; k < 4; k++)
      CHECK(result(m, k).dtype == TY_TEXT && !strcmp(result(m, k).data, lies));
  }
  IS(TY_OK, ty_was_compiled(m, &compiled));
  CHECK(compiled);
  IS(TY_OK, ty_was_compiled(learn, &compiled));
  CHECK(compiled);
  IS(TY_OK, ty_start(m, in, 2));
  while (!done) IS(TY_OK, ty_step(m, 1000, &done));
  memcpy(y + 45, result(m, 0).data, 6 * sizeof *y);
  IS(TY_OK, ty_close(e));
  return y;
}

static void device(void) {
  static char first[] = "cuda", second[] = "cuda:1";
  char *const names[4] = {first, first, second, NULL};
  const ty_options none = {.device = "cuda:7"}, unknown = {.device = "gpu"};
  pthread_t id[4];
  ty_engine *e = open_engine();
  void *want, *got;
  write_weights(e);
  IS(TY_OK, ty_weights_load(e, weights_path, &shared));
  want = on_device(NULL);
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&id[i], NULL, on_device, names[i]));
  for (int i = 0; i < 4; i++) {
    pthread_join(id[i], &got);
    CHECK(!memcmp(got, want, 64 * sizeof(float)));
    free(got);
  }
  free(want);
  IS(TY_FAILED, ty_open(&none, &e));
  SAYS("device \"cuda:7\" is not available: there are 2 CUDA devices");
  IS(TY_FAILED, ty_open(&unknown, &e));
  SAYS("device \"gpu\" is not available");
  IS(TY_OK, ty_weights_free(shared));
}

static ty_engine *contested;
static ty_model *slow;
static atomic_int turns, busy;

static void *contend(void *arg) {
  (void)arg;
  for (int i = 0; i < 300; i++) {
    const ty_status s = ty_call(slow, NULL, 0);
    if (s == TY_OK) turns++;
    else if (s == TY_BUSY) busy++;
    else IS(TY_OK, s);
  }
  return NULL;
}

/* Threads that use one engine at the same time are told; one after the other they work. */
static void contention(void) {
  pthread_t id[4];
  contested = open_engine();
  slow = load_text(
      contested,
      "local ty = require 'tycho' return function() return ty.ones(200, 200):exp():sum() end");
  IS(TY_OK, ty_call(slow, NULL, 0));
  for (int i = 0; i < 4; i++) CHECK(!pthread_create(&id[i], NULL, contend, NULL));
  for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
  CHECK(turns > 0 && turns + busy == 1200);
  IS(TY_OK, ty_call(slow, NULL, 0));
  IS(TY_OK, ty_close(contested));
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*fn)(void);
  } claims[] = {{"arrays", arrays},
                {"strides", strides},
                {"device", device},
                {"complex", complex_numbers},
                {"values", values},
                {"numbers", numbers},
                {"borrowed", borrowed},
                {"results", results},
                {"errors", errors},
                {"paths", paths},
                {"wild", wild},
                {"limits", limits},
                {"deadlines", deadlines},
                {"logs", logs},
                {"starved", starved},
                {"starved_steps", starved_steps},
                {"jobs", jobs},
                {"no_jobs", no_jobs},
                {"setups", setups},
                {"threads", threads},
                {"weights", weights},
                {"contention", contention},
                {"steps", steps},
                {"cancels", cancels},
                {"step_errors", step_errors},
#ifndef _WIN32
                {"locales", locales},
                {"quiet", quiet},
#endif
                {"step_limits", step_limits}};
  weights_path = argc > 2 ? argv[2] : "embed \xd0\xb6.safetensors";
  if (argc > 3) rounds = atoi(argv[3]);
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
    if (argc > 1 && !strcmp(argv[1], claims[i].name)) {
      claims[i].fn();
      return failures != 0;
    }
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) puts(claims[i].name);
  return 2;
}
