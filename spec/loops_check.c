/*
** loops_check.c -- single operations of both machines against plain C that says what they are.
** In:  nothing; TYCHO_ISA chooses the loops and the code.  Out: text; exit code 1 when anything differs.
** Operations on numbers take all pairs of edge values and random ones; scans, positions, iotas and copies between
** layouts take many lengths and shapes. Linked by x64_spec.lua with the library's own objects.
*/
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cpu/x64.h"

static u64 seed = 1;
static u64 next(void) {
  u64 z = (seed += 0x9e3779b97f4a7c15u);
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u, z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
static int below(int n) { return (int)((next() >> 33) % (u64)n); }

static const char *const names[] = {"i32", "i64", "f32", "f64"};
static int size_of(int type) { return type == C_I32 || type == C_F32 ? 4 : 8; }

typedef union Value {
  i32 i;
  i64 l;
  float f;
  double d;
  u64 bits;
} Value;

/* ---- running --------------------------------------------------------------------------------- */

static int failures;

/* One operand goes over `dims` with each of the strides given; the last is written. */
typedef struct Layout {
  i64 start, strides[3];
} Layout;

static bool run(const Machine *m, const char *text, int no, int nr, int ni, const i64 *dims,
                const Layout *lay, void *const *buf) {
  const char *err;
  Program *p = ty_program_parse(text, &err);
  if (!p) {
    printf("%s\n%s\n", err, text);
    exit(2);
  }
  Launch L = {.no = (u8)no, .nr = (u8)nr, .ni = (u8)ni};
  for (int d = 0; d < no + nr + ni; d++) L.dims[d] = dims[d];
  for (int o = 0; o < p->noperands; o++) {
    L.start[o] = lay[o].start;
    for (int d = 0; d < no + nr + ni; d++) L.strides[o][d] = lay[o].strides[d];
  }
  Kernel *k = m->make(p);
  bool ok = k && m->run(k, &(Run){.launch = &L, .buf = buf});
  if (k) m->drop(k);
  ty_mem_free(p);
  return ok;
}

static bool same(int type, const void *a, const void *b) {
  Value x = {.bits = 0}, y = {.bits = 0};
  memcpy(&x, a, (size_t)size_of(type)), memcpy(&y, b, (size_t)size_of(type));
  if (type == C_F32 && x.f != x.f) return y.f != y.f;
  if (type == C_F64 && x.d != x.d) return y.d != y.d;
  return x.bits == y.bits;
}

static void compare(const char *what, int type, const void *want, const void *got, i64 n) {
  for (i64 i = 0; i < n; i++) {
    const char *a = (const char *)want + i * size_of(type),
               *b = (const char *)got + i * size_of(type);
    if (same(type, a, b)) continue;
    Value x = {.bits = 0}, y = {.bits = 0};
    memcpy(&x, a, (size_t)size_of(type)), memcpy(&y, b, (size_t)size_of(type));
    printf("%s: element %" PRId64 " of %" PRId64 ": %016" PRIx64 " instead of %016" PRIx64 "\n",
           what, i, n, y.bits, x.bits);
    failures++;
    return;
  }
}

static const Machine *const machines[] = {&ty_machine_tile, &ty_machine_x64};

/* Both machines; the native one may refuse what it has nothing for. */
static void check(const char *what, const char *text, int no, int nr, int ni, const i64 *dims,
                  const Layout *lay, void *const *buf, int nbuf, int type, const void *want,
                  i64 n) {
  for (int m = 0; m < 2; m++) {
    char name[96];
    memset(buf[nbuf - 1], 0x55, (size_t)(n * size_of(type)));
    if (!run(machines[m], text, no, nr, ni, dims, lay, buf)) {
      failures += m == 0;
      continue;
    }
    snprintf(name, sizeof name, "%s (%s)", what, machines[m]->name);
    compare(name, type, want, buf[nbuf - 1], n);
  }
}

/* ---- values ---------------------------------------------------------------------------------- */

static Value edge(int type) {
  static const double d[] = {0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             -2.5,
                             1e30,
                             -1e-30,
                             0x1p31,
                             -0x1p31,
                             0x1p63,
                             -0x1p63,
                             0x1p52,
                             0x1p53,
                             0x1p-1074,
                             1e308,
                             2147483647.5,
                             -2147483648.9,
                             9223372036854774784.0,
                             INFINITY,
                             -INFINITY,
                             NAN};
  Value v = {.bits = 0};
  int k = below(100);
  if (type >= C_F32) {
    double x = k < 40 ? d[below(TY_COUNT(d))] : (double)(i64)next() * pow(2, -below(70));
    if (type == C_F32) v.f = (float)x;
    else v.d = x;
    if (k > 95) v.bits = next();
    return v;
  }
  i64 x = (i64)(next() >> below(64));
  if (k < 60) x = (i64)(((u64)1 << below(64)) + (u64)below(5) - 2); /* around powers of two */
  if (k < 20) x = below(9) - 4;
  if (k % 2) x = (i64)(0 - (u64)x);
  if (type == C_I32) v.i = (i32)x;
  else v.l = x;
  return v;
}

static void edges(int type, void *p, i64 n) {
  for (i64 i = 0; i < n; i++) {
    Value v = edge(type);
    memcpy((char *)p + i * size_of(type), &v, (size_t)size_of(type));
  }
}

/* ---- operations on numbers ------------------------------------------------------------------- */

static i64 cut(double x, double high, i64 low, i64 top) {
  if (x != x) return 0;
  return x >= high ? top : x < -high ? low : (i64)x;
}

static Value pair(int op, int type, Value a, Value b) {
  Value y = {.bits = 0};
  bool l = type == C_I64;
  i64 p = l ? a.l : a.i, q = l ? b.l : b.i, r = 0;
  int w = l ? 63 : 31;
  switch (op) {
  case P_MUL: r = (i64)((u64)p * (u64)q); break;
  case P_MIN: r = p < q ? p : q; break;
  case P_MAX: r = p > q ? p : q; break;
  case P_DIVI: r = !q ? 0 : q == -1 ? (i64)(0 - (u64)p) : p / q; break;
  case P_REMI: r = !q || q == -1 ? 0 : p % q; break;
  case P_SHR: r = p >> (q & w); break;
  case P_ABS: r = p < 0 ? (i64)(0 - (u64)p) : p; break;
  default: r = (i64)((unsigned __int128)(u64)p * (u64)q >> 64); break;
  }
  if (l) y.l = r;
  else y.i = (i32)r;
  return y;
}

static Value convert(int from, int to, Value a) {
  Value y = {.bits = 0};
  i64 n = from == C_I32 ? a.i : a.l;
  double x = from == C_F32 ? (double)a.f : a.d;
  if (from <= C_I64) { /* each rounds once */
    if (to == C_I32) y.i = (i32)n;
    else if (to == C_I64) y.l = n;
    else if (to == C_F32) y.f = (float)n;
    else y.d = (double)n;
  } else if (to == C_I32) y.i = (i32)cut(x, 0x1p31, INT32_MIN, INT32_MAX);
  else if (to == C_I64) y.l = cut(x, 0x1p63, INT64_MIN, INT64_MAX);
  else if (to == C_F32) y.f = (float)x;
  else y.d = x;
  return y;
}

enum { N = 5003 };
static char a[N * 8], b[N * 8], y[N * 8], want[N * 8];

static void numbers(void) {
  static const u8 ops[] = {P_MUL, P_MIN, P_MAX, P_DIVI, P_REMI, P_SHR, P_ABS, P_MULHI};
  const i64 dims[] = {N};
  const Layout lay[] = {{0, {1}}, {0, {1}}, {0, {1}}};
  char text[400], what[64];
  for (int round = 0; round < 4; round++)
    for (int k = 0; k < TY_COUNT(ops); k++)
      for (int type = C_I32; type <= C_I64; type++) {
        if (ops[k] == P_MULHI && type == C_I32) continue;
        bool one = ops[k] == P_ABS;
        edges(type, a, N), edges(type, b, N);
        int size = size_of(type);
        for (int i = 0; i < N; i++) {
          Value p = {.bits = 0}, q = {.bits = 0};
          memcpy(&p, a + i * size, (size_t)size);
          if (round % 2 && ops[k] <= P_REMI) { /* small numbers, as most are */
            q.l = below(2000) - 1000;
            memcpy(b + i * size, &q, (size_t)size), q.bits = 0;
          }
          memcpy(&q, b + i * size, (size_t)size);
          if (ops[k] == P_SHR) {
            q.l = type == C_I64 ? q.l & 63 : q.i & 31;
            memcpy(b + i * size, &q, (size_t)size);
          }
          Value r = pair(ops[k], type, p, q);
          memcpy(want + i * size, &r, (size_t)size);
        }
        const char *t = names[type], *name = ty_prims[ops[k]];
        snprintf(what, sizeof what, "%s %s", name, t);
        snprintf(text, sizeof text,
                 "map\n@0 %s elem\n@1 %s elem\n@2 %s elem write\n%%0 load %s elem @0\n%%1 load %s "
                 "elem @1\n"
                 "%%2 %s %s elem %%0%s\n%%3 store %s elem %%2 @2\n",
                 t, t, t, t, t, name, t, one ? "" : " %1", t);
        check(what, text, 0, 0, 1, dims, lay, (void *[]){a, b, y}, 3, type, want, N);
      }
}

static void conversions(void) {
  const i64 dims[] = {N};
  const Layout lay[] = {{0, {1}}, {0, {1}}};
  char text[300], what[64];
  for (int round = 0; round < 4; round++)
    for (int from = 0; from < 4; from++)
      for (int to = 0; to < 4; to++) {
        if (from == to) continue;
        edges(from, a, N);
        for (int i = 0; i < N; i++) {
          Value p = {.bits = 0};
          memcpy(&p, a + i * size_of(from), (size_t)size_of(from));
          Value r = convert(from, to, p);
          memcpy(want + i * size_of(to), &r, (size_t)size_of(to));
        }
        snprintf(what, sizeof what, "%s to %s", names[from], names[to]);
        snprintf(
            text, sizeof text,
            "map\n@0 %s elem\n@1 %s elem write\n%%0 load %s elem @0\n%%1 cvt %s elem from %s %%0\n"
            "%%2 store %s elem %%1 @1\n",
            names[from], names[to], names[from], names[to], names[from], names[to]);
        check(what, text, 0, 0, 1, dims, lay, (void *[]){a, y}, 2, to, want, N);
      }
}

/* ---- scans ----------------------------------------------------------------------------------- */

static Value larger(int type, Value p, Value q, bool less) {
  switch (type) {
  case C_I32: return (less ? p.i < q.i : p.i > q.i) ? p : q;
  case C_I64: return (less ? p.l < q.l : p.l > q.l) ? p : q;
  case C_F32:
    if (p.f != p.f || q.f != q.f) return (Value){.bits = 0x7fc00000u};
    if (p.f == q.f) return (signbit(p.f) != 0) == less ? p : q;
    return (less ? p.f < q.f : p.f > q.f) ? p : q;
  default:
    if (p.d != p.d || q.d != q.d) return (Value){.bits = 0x7ff8000000000000u};
    if (p.d == q.d) return (signbit(p.d) != 0) == less ? p : q;
    return (less ? p.d < q.d : p.d > q.d) ? p : q;
  }
}

static Value combine(int kind, int type, Value p, Value q) {
  Value r = {.bits = 0};
  if (kind >= R_MAX) return larger(type, p, q, kind == R_MIN);
  bool sum = kind == R_SUM;
  switch (type) {
  case C_I32: r.i = (i32)(sum ? (u32)p.i + (u32)q.i : (u32)p.i * (u32)q.i); break;
  case C_I64: r.l = (i64)(sum ? (u64)p.l + (u64)q.l : (u64)p.l * (u64)q.l); break;
  case C_F32: r.f = sum ? p.f + q.f : p.f * q.f; break;
  default: r.d = sum ? p.d + q.d : p.d * q.d; break;
  }
  return r;
}

static Value at(int type, const char *p, i64 i) {
  Value v = {.bits = 0};
  memcpy(&v, p + i * size_of(type), (size_t)size_of(type));
  return v;
}

/* The order as tile.c states it, element by element. */
static void scan_row(int kind, int type, bool early, const char *x, char *to, i64 n) {
  const Value none = {.bits = ty_tile_identity(kind, type)};
  Value offset = none, carry = none, before = none;
  bool blocks = type >= C_F32 && kind <= R_PROD;
  for (i64 i = 0; i < n; i += 16) {
    Value v[16];
    if (blocks && i && i % 4096 == 0) offset = combine(kind, type, offset, carry), carry = none;
    for (int j = 0; j < 16; j++) v[j] = i + j < n ? at(type, x, i + j) : none;
    for (int s = 1; s < 16; s *= 2)
      for (int j = 15; j >= s; j--) v[j] = combine(kind, type, v[j - s], v[j]);
    for (int j = 0; j < 16; j++) v[j] = combine(kind, type, carry, v[j]);
    carry = v[15];
    for (int j = 0; j < 16 && i + j < n; j++) {
      Value r = blocks ? combine(kind, type, offset, v[j]) : v[j];
      memcpy(to + (i + j) * size_of(type), early ? &before : &r, (size_t)size_of(type));
      before = v[j];
    }
  }
}

/* The first of the extremes, where a NaN is one and zeros are equal. */
static i64 position(int type, bool less, const char *x, i64 n) {
  i64 best = 0;
  for (i64 i = 1; i < n; i++) {
    Value p = at(type, x, i), q = at(type, x, best);
    double u = type == C_F32 ? (double)p.f : p.d, v = type == C_F32 ? (double)q.f : q.d;
    bool wins = type == C_I32   ? less ? p.i < q.i : p.i > q.i
                : type == C_I64 ? less ? p.l < q.l : p.l > q.l
                                : (u != u && v == v) || (less ? u < v : u > v);
    if (wins) best = i;
  }
  return best;
}

/* Small whole numbers, zeros of both signs among them. */
static void few(int type, char *x, i64 n) {
  for (i64 i = 0; i < n; i++) {
    i64 k = below(6) - 3;
    double d = k || below(2) ? (double)k : -0.0;
    float f = (float)d;
    i32 w = (i32)k;
    if (type == C_F32) memcpy(x + i * 4, &f, 4);
    else if (type == C_F64) memcpy(x + i * 8, &d, 8);
    else if (type == C_I32) memcpy(x + i * 4, &w, 4);
    else memcpy(x + i * 8, &k, 8);
  }
}

static void rows(void) {
  static const i64 lengths[] = {1,  2,  7,   15,  16,   17,   31,   33,   47,   63,   64,  65,
                                80, 97, 128, 257, 1000, 4095, 4096, 4097, 4100, 4999, 9001};
  static char x[10240 * 8], to[10240 * 8], ref[10240 * 8];
  char text[300], what[64];
  for (int l = 0; l < TY_COUNT(lengths); l++)
    for (int type = 0; type < 4; type++) {
      i64 R = lengths[l], O = TY_MAX(1, TY_MIN(40, 10240 / R)), n = O * R;
      const i64 dims[] = {O, R};
      const Layout lay[] = {{0, {R, 1}}, {0, {R, 1}}}, row[] = {{0, {R, 1}}, {0, {1, 0}}};
      const char *t = names[type];
      for (int op = P_SSUM; op <= P_SMAXX; op++) {
        int kind = op == P_SMAXX ? R_MAX : op - P_SSUM;
        edges(type, x, n);
        for (i64 i = 0; i < n && (l % 2 || type < C_F32); i++) { /* or all is infinite soon */
          float f = (float)(below(2000) - 1000) / 512;
          double d = f;
          if (type == C_F32) memcpy(x + i * 4, &f, 4);
          if (type == C_F64) memcpy(x + i * 8, &d, 8);
        }
        for (i64 o = 0; o < O; o++)
          scan_row(kind, type, op == P_SMAXX, x + o * R * size_of(type),
                   ref + o * R * size_of(type), R);
        snprintf(what, sizeof what, "%s %s of %d", ty_prims[op], t, (int)R);
        snprintf(text, sizeof text,
                 "row\n@0 %s elem\n@1 %s elem write\n%%0 load %s elem @0\n%%1 %s %s elem %%0\n"
                 "%%2 store %s elem %%1 @1\n",
                 t, t, t, ty_prims[op], t, t);
        check(what, text, 1, 1, 0, dims, lay, (void *[]){x, to}, 2, type, ref, n);
      }
      for (int k = 0; k < 4;
           k++) { /* among edges, where a NaN wins, and among few numbers, where the first does */
        const int op = P_RARGMAX + k % 2;
        if (k < 2) edges(type, x, n);
        else few(type, x, n);
        for (i64 o = 0; o < O; o++) {
          i64 k = position(type, op == P_RARGMIN, x + o * R * size_of(type), R);
          memcpy(ref + o * 8, &k, 8);
        }
        snprintf(what, sizeof what, "%s %s of %d", ty_prims[op], t, (int)R);
        snprintf(
            text, sizeof text,
            "row\n@0 %s elem\n@1 i64 row write\n%%0 load %s elem @0\n%%1 %s i64 row from %s %%0\n"
            "%%2 store i64 row %%1 @1\n",
            t, t, ty_prims[op], t);
        check(what, text, 1, 1, 0, dims, row, (void *[]){x, to}, 2, C_I64, ref, O);
      }
    }
}

/* ---- layouts --------------------------------------------------------------------------------- */

/* Strides of three dims, in any order, with gaps, or none at all; what they reach. */
static i64 stride(Layout *lay, const i64 *dims, bool write) {
  int order[] = {0, 1, 2};
  i64 s = 1, most = 0, least = 0;
  for (int d = 2; d > 0; d--) {
    int e = below(3) ? d : below(d + 1), t = order[d];
    order[d] = order[e], order[e] = t;
  }
  for (int i = 2; i >= 0; i--) {
    int d = order[i];
    if (!write && !below(5)) {
      lay->strides[d] = 0;
      continue;
    }
    if (!below(5)) s += 1 + below(2) * below(20);
    lay->strides[d] = !write && !below(8) ? -s : s;
    i64 reach = lay->strides[d] * (dims[d] - 1);
    most += TY_MAX(reach, 0), least += TY_MIN(reach, 0);
    s *= dims[d];
  }
  lay->start = -least;
  return most - least + 1;
}

/* y = x + z of any layouts, larger than the random programs of x64_check.c have them; in u8 too. */
static void layouts(int count) {
  enum { ROOM = 1 << 20 };
  static u8 x[ROOM * 8], z[ROOM * 8], to[ROOM * 8], ref[ROOM * 8];
  static const i64 some[] = {1, 2, 3, 7, 8, 9, 16, 23, 24, 25, 31, 64, 65, 70, 100, 130, 250};
  static const u8 dtypes[] = {T_U8, T_I16, T_I32, T_I64};
  for (u64 i = 0; i < sizeof x; i++) x[i] = (u8)next(), z[i] = (u8)next();
  for (int k = 0; k < count; k++) {
    int dtype = dtypes[below(4)], size = ty_dtypes[dtype].bytes;
    i64 dims[3], n = 1, reach[3];
    Layout lay[3];
    char text[300];
    for (int d = 0; d < 3; d++) {
      dims[d] = some[below(TY_COUNT(some))];
      while (n * dims[d] > 60000) dims[d] = dims[d] / 3 + 1;
      n *= dims[d];
    }
    for (int o = 0; o < 3; o++) reach[o] = stride(&lay[o], dims, o == 2);
    if (reach[0] > ROOM || reach[1] > ROOM || reach[2] > ROOM) continue;
    memset(ref, 0x55, (size_t)(reach[2] * size));
    for (i64 e = 0; e < n; e++) {
      i64 i[3] = {e / (dims[1] * dims[2]), e / dims[2] % dims[1], e % dims[2]}, p[3];
      u64 u = 0, v = 0;
      for (int o = 0; o < 3; o++)
        p[o] = lay[o].start + i[0] * lay[o].strides[0] + i[1] * lay[o].strides[1] +
               i[2] * lay[o].strides[2];
      memcpy(&u, x + p[0] * size, (size_t)size), memcpy(&v, z + p[1] * size, (size_t)size);
      u += v;
      memcpy(ref + p[2] * size, &u, (size_t)size);
    }
    const char *t = ty_dtypes[dtype].name, *c = names[ty_dtypes[dtype].ctype];
    bool narrow = size < 4;
    snprintf(
        text, sizeof text,
        "map\n@0 %s elem\n@1 %s elem\n@2 %s elem write\n%%0 load %s elem @0\n%%1 load %s elem @1\n"
        "%%2 add %s elem %%0 %%1\n%%3 narrow %s elem %%2 #%x\n%%4 store %s elem %%%d @2\n",
        t, t, t, c, c, c, c, dtype, c, narrow ? 3 : 2);
    for (int m = 0; m < 2; m++) {
      memset(to, 0x55, (size_t)(reach[2] * size));
      bool ok = run(machines[m], text, 0, 0, 3, dims, lay, (void *[]){x, z, to});
      if (!ok && m) continue;
      if (ok && !memcmp(ref, to, (size_t)(reach[2] * size))) continue;
      printf("layout %d (%s): %s over %" PRId64 " %" PRId64 " %" PRId64 "\n", k, machines[m]->name,
             t, dims[0], dims[1], dims[2]);
      for (int o = 0; o < 3; o++)
        printf("  strides %" PRId64 " %" PRId64 " %" PRId64 "\n", lay[o].strides[0],
               lay[o].strides[1], lay[o].strides[2]);
      failures++;
      return;
    }
  }
}

int main(void) {
  numbers(), conversions(), rows(), layouts(1500);
  ty_pool_threads(2);
  layouts(500);
  printf("%d failures\n", failures);
  return failures != 0;
}
