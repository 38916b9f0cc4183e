/*
** run.c -- executes an operation graph, step by step, on a stream's turn: tensors are read from memory as it is then, intermediates
** are arrays of f32 that are rounded to the type that the graph gives them, what is not virtual is written where it was bound.
** It knows no patterns: what the graph says is what is computed.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

int64_t size_of(int type) {
  return type == D_HALF || type == D_BFLOAT16 ? 2 : type == D_BOOLEAN ? 1 : 4;
}

int64_t elements_of(const Tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dims[i];
  return n;
}

int64_t span_of(const Tensor *t) {
  int64_t last = 0;
  for (int i = 0; i < t->rank; i++) last += (t->dims[i] - 1) * t->strides[i];
  return (last + 1) * size_of(t->type);
}

/* --- memory */

static float rounded(float v, int type) {
  if (type == D_HALF || type == D_BFLOAT16)
    return soft_gpu_half(soft_gpu_round(v, type == D_BFLOAT16), type == D_BFLOAT16);
  return type == D_BOOLEAN ? v != 0 : v;
}

static float read_one(const char *p, int type) {
  float f;
  int32_t i;
  uint16_t h;
  switch (type) {
  case D_FLOAT: memcpy(&f, p, 4); return f;
  case D_INT32: memcpy(&i, p, 4); return (float)i;
  case D_BOOLEAN: return *p != 0;
  default: memcpy(&h, p, 2); return soft_gpu_half(h, type == D_BFLOAT16);
  }
}

static void write_one(char *p, int type, float v) {
  const int32_t i = type == D_INT32 ? (int32_t)v : 0;
  uint16_t h;
  switch (type) {
  case D_FLOAT: memcpy(p, &v, 4); break;
  case D_INT32: memcpy(p, &i, 4); break;
  case D_BOOLEAN: *p = v != 0; break;
  default: h = soft_gpu_round(v, type == D_BFLOAT16); memcpy(p, &h, 2);
  }
}

/* The dim whose elements lie beside one another; -1: none. */
static int run_dim(const Tensor *t) {
  for (int i = t->rank - 1; i >= 0; i--)
    if (t->strides[i] == 1 && t->dims[i] > 1) return i;
  return -1;
}

/* Moves between a tensor in device memory and its values in row-major order. False: memory was not there, the device is lost. */
static bool move(const Tensor *t, uint64_t at, float *values, bool write) {
  const int run = run_dim(t);
  const int64_t bytes = size_of(t->type), n = elements_of(t), length = run < 0 ? 1 : t->dims[run];
  int64_t step = 1, i[RANK] = {0};
  for (int k = run + 1; run >= 0 && k < t->rank; k++) step *= t->dims[k];
  for (int64_t e = 0; e < n; e++) {
    if (run < 0 || i[run] == 0) {
      int64_t offset = 0;
      for (int k = 0; k < t->rank; k++) offset += i[k] * t->strides[k];
      char *p =
          soft_gpu_reach(at + (uint64_t)(offset * bytes), (uint64_t)(length * bytes), write,
                         write ? "cudnnBackendExecute's result" : "cudnnBackendExecute's operand");
      if (!p) return false;
      for (int64_t r = 0; r < length; r++)
        if (write) write_one(p + r * bytes, t->type, values[e + r * step]);
        else values[e + r * step] = read_one(p + r * bytes, t->type);
    }
    for (int k = t->rank - 1; k >= 0 && ++i[k] == t->dims[k]; k--) i[k] = 0;
  }
  return true;
}

/* --- steps */

/* The element of an operand, which may be broadcast, at a place of a tensor of other dims. */
static int64_t place(const Tensor *t, const int64_t *i) {
  int64_t e = 0;
  for (int k = 0; k < t->rank; k++) e = e * t->dims[k] + (t->dims[k] == 1 ? 0 : i[k]);
  return e;
}

static float mapped(int mode, float x, float b, float t) {
  switch (mode) {
  case M_ADD: return x + b;
  case M_MUL: return x * b;
  case M_MIN: return fminf(x, b);
  case M_MAX: return fmaxf(x, b);
  case M_SQRT: return sqrtf(x);
  case M_DIV: return x / b;
  case M_SUB: return x - b;
  case M_ABS: return fabsf(x);
  case M_EXP: return expf(x);
  case M_LOG: return logf(x);
  case M_NEG: return -x;
  case M_RECIPROCAL: return 1 / x;
  case M_EQ: return x == b;
  case M_NEQ: return x != b;
  case M_GT: return x > b;
  case M_GE: return x >= b;
  case M_LT: return x < b;
  case M_LE: return x <= b;
  case M_AND: return x != 0 && b != 0;
  case M_OR: return x != 0 || b != 0;
  case M_NOT: return x == 0;
  case M_SELECT: return t != 0 ? x : b;
  default: return x; /* identity */
  }
}

static void map(const Graph *g, const Step *s, float **v) {
  const Tensor *y = &g->tensors[s->y];
  const int64_t n = elements_of(y);
  int64_t i[RANK] = {0};
  for (int64_t e = 0; e < n; e++) {
    const float x = v[s->x][place(&g->tensors[s->x], i)],
                b = s->b >= 0 ? v[s->b][place(&g->tensors[s->b], i)] : 0,
                t = s->t >= 0 ? v[s->t][place(&g->tensors[s->t], i)] : 0;
    v[s->y][e] = s->mode == M_INDEX ? (float)i[s->axis] : mapped(s->mode, x, b, t);
    for (int k = y->rank - 1; k >= 0 && ++i[k] == y->dims[k]; k--) i[k] = 0;
  }
}

static float joined(int op, float y, float v) {
  switch (op) {
  case R_ADD: return y + v;
  case R_MUL: return y * v;
  case R_MIN: return v < y || v != v ? v : y;
  default: return v > y || v != v ? v : y;
  }
}

/* How many elements of a matmul are summed at once, exactly, as tensor cores nearly do, and how many sums a reduction keeps: engines and
** their knobs differ in it. */
static int64_t block_of(const Config *c) {
  int64_t block = 4 + c->engine;
  for (int i = 0; i < c->knobs; i++) block += c->value[i] % 7;
  return block;
}

/* Elements go to the sums in turn, which are joined at the end. */
static void reduce(const Graph *g, const Step *s, const Config *c, float **v) {
  const Tensor *x = &g->tensors[s->x], *y = &g->tensors[s->y];
  const float none[] = {[R_ADD] = 0, [R_MUL] = 1, [R_MIN] = INFINITY, [R_MAX] = -INFINITY};
  const int64_t n = elements_of(x), m = elements_of(y), sums = block_of(c);
  float *sum = malloc((size_t)(m * sums) * sizeof *sum);
  int64_t *count = calloc((size_t)m, sizeof *count), i[RANK] = {0};
  for (int64_t e = 0; e < m * sums; e++) sum[e] = none[s->mode];
  for (int64_t e = 0; e < n; e++) {
    const int64_t to = place(y, i);
    float *part = &sum[to * sums + count[to]++ % sums];
    *part = joined(s->mode, *part, v[s->x][e]);
    for (int k = x->rank - 1; k >= 0 && ++i[k] == x->dims[k]; k--) i[k] = 0;
  }
  for (int64_t e = 0; e < m; e++) {
    v[s->y][e] = none[s->mode];
    for (int64_t k = 0; k < sums; k++) v[s->y][e] = joined(s->mode, v[s->y][e], sum[e * sums + k]);
  }
  free(sum);
  free(count);
}

/* The matrix of b that goes with matrix i of the result: b may have one for several heads in a row. */
static int64_t matrix_of(const Tensor *b, const Tensor *y, int64_t i) {
  int64_t e = 0, step = 1;
  for (int k = b->rank - 3; k >= 0; k--) {
    e += i % y->dims[k] / (y->dims[k] / b->dims[k]) * step;
    step *= b->dims[k];
    i /= y->dims[k];
  }
  return e;
}

static void product(const Graph *g, const Step *s, const Config *c, float **v) {
  const Tensor *a = &g->tensors[s->x], *b = &g->tensors[s->b], *y = &g->tensors[s->y];
  const int64_t m = y->dims[y->rank - 2], n = y->dims[y->rank - 1], k = a->dims[a->rank - 1],
                block = block_of(c);
  const int64_t batch = elements_of(y) / (m * n);
  for (int64_t i = 0; i < batch; i++) {
    const float *left = v[s->x] + matrix_of(a, y, i) * m * k,
                *right = v[s->b] + matrix_of(b, y, i) * k * n;
    for (int64_t r = 0; r < m; r++)
      for (int64_t q = 0; q < n; q++) {
        float sum = 0;
        for (int64_t from = 0; from < k; from += block) {
          double part = 0;
          for (int64_t e = from; e < k && e < from + block; e++)
            part += (double)left[r * k + e] * right[e * n + q];
          sum += (float)part;
        }
        v[s->y][(i * m + r) * n + q] = sum;
      }
  }
}

/* One step, and its result rounded to its type and written where it is bound. */
static bool step_run(const Work *w, const Step *s, float **v) {
  const Tensor *y = &w->graph.tensors[s->y];
  const int64_t n = elements_of(y);
  v[s->y] = malloc((size_t)n * sizeof(float));
  if (s->kind == OP_MATMUL) product(&w->graph, s, &w->config, v);
  else if (s->kind == OP_REDUCTION) reduce(&w->graph, s, &w->config, v);
  else map(&w->graph, s, v);
  for (int64_t i = 0; i < n; i++) v[s->y][i] = rounded(v[s->y][i], y->type);
  return y->virtual || move(y, w->at[s->y], v[s->y], true);
}

static bool is_made(const Graph *g, int tensor) {
  for (int i = 0; i < g->steps; i++)
    if (g->step[i].y == tensor) return true;
  return false;
}

void work_run(void *user) {
  Work *w = user;
  const Graph *g = &w->graph;
  float *v[TENSORS] = {NULL};
  bool ok = true;
  for (int i = 0; ok && i < g->n; i++) {
    if (is_made(g, i)) continue;
    v[i] = malloc((size_t)elements_of(&g->tensors[i]) * sizeof(float));
    if (g->tensors[i].by_value) *v[i] = w->number[i];
    else ok = move(&g->tensors[i], w->at[i], v[i], false);
  }
  if (ok && w->workspace_bytes) { /* what lies there is lost, as an engine would have it */
    char *p = soft_gpu_reach(w->workspace, (uint64_t)w->workspace_bytes, true,
                             "cudnnBackendExecute's workspace");
    ok = p != NULL;
    if (ok) memset(p, 0xa5, (size_t)w->workspace_bytes);
  }
  for (int i = 0; ok && i < g->steps; i++) ok = step_run(w, &g->step[i], v);
  for (int i = 0; i < g->n; i++) free(v[i]);
  free(w);
}
