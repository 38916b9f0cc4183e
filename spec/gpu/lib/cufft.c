/*
** cufft.c -- a stand-in of cuFFT for the software GPU: the calls that ty.fft needs, written from cufft.h.
** It checks plans, lengths, strides, types, workspaces and pointers, and computes sums in double when the stream comes to it, from
** memory as it is then. Where real numbers come from a half it destroys that, as the manual says, and reads imaginary parts where a
** half of real numbers has none, as a library may. Environment: SOFT_CUFFT_FAIL = n: the nth plan is refused (-1: all).
*/
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../reach.h"

#define CALL __attribute__((visibility("default"))) int
#define EXPORT __attribute__((visibility("default")))

int cuLaunchHostFunc(void *stream, void (*call)(void *), void *user);
int cuCtxGetCurrent(void **context);

enum {
  SUCCESS,
  INVALID_PLAN,
  ALLOC_FAILED,
  INVALID_TYPE,
  INVALID_VALUE,
  INTERNAL_ERROR,
  EXEC_FAILED
};
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
enum { MOST = 256, WORKSPACE = 512 };

typedef struct Plan {
  bool made, own;
  void *stream, *context;
  uint64_t workspace;
  int type;
  int64_t n, lines, from_stride, from_line, to_stride, to_line;
} Plan;
static Plan *plans[MOST]; /* numbers from 1 */

static int transforms;
EXPORT int soft_cufft_transforms(void) { return transforms; }

static bool takes_real(int type) { return type == R2C || type == D2Z; }
static bool gives_real(int type) { return type == C2R || type == Z2D; }

static Plan *plan_of(int plan) {
  void *context = NULL;
  Plan *p = plan > 0 && plan < MOST ? plans[plan] : NULL;
  return p && !cuCtxGetCurrent(&context) && context == p->context ? p : NULL;
}

CALL cufftCreate(int *plan) {
  void *context = NULL;
  if (cuCtxGetCurrent(&context) || !context) return INTERNAL_ERROR;
  for (int i = 1; i < MOST; i++)
    if (!plans[i]) {
      plans[i] = calloc(1, sizeof *plans[i]);
      *plans[i] = (Plan){.own = true, .context = context};
      *plan = i;
      return SUCCESS;
    }
  return ALLOC_FAILED;
}

CALL cufftDestroy(int plan) {
  if (!plan_of(plan)) return INVALID_PLAN;
  free(plans[plan]);
  plans[plan] = NULL;
  return SUCCESS;
}

CALL cufftSetAutoAllocation(int plan, int on) {
  Plan *p = plan_of(plan);
  if (!p || p->made) return INVALID_PLAN;
  p->own = on;
  return SUCCESS;
}

CALL cufftMakePlanMany64(int plan, int rank, long long *n, long long *from, long long from_stride,
                         long long from_line, long long *to, long long to_stride, long long to_line,
                         int type, long long lines, size_t *workspace) {
  static int count;
  const char *fails = getenv("SOFT_CUFFT_FAIL");
  Plan *p = plan_of(plan);
  const bool takes = takes_real(type), gives = gives_real(type);
  if (!p || p->made) return INVALID_PLAN;
  if (type != C2C && type != Z2Z && !takes && !gives) return INVALID_TYPE;
  if (rank != 1 || !n || n[0] < 1 || !from || !to || from_stride < 1 || to_stride < 1 ||
      from_line < 1 || to_line < 1 || lines < 1 || !workspace ||
      from[0] != (gives ? n[0] / 2 + 1 : n[0]) || to[0] != (takes ? n[0] / 2 + 1 : n[0]))
    return INVALID_VALUE;
  if (fails && (atoi(fails) == -1 || ++count == atoi(fails))) return INTERNAL_ERROR;
  p->made = true, p->type = type, p->n = n[0], p->lines = lines;
  p->from_stride = from_stride, p->from_line = from_line, p->to_stride = to_stride,
  p->to_line = to_line;
  *workspace = WORKSPACE;
  return SUCCESS;
}

CALL cufftSetWorkArea(int plan, void *workspace) {
  Plan *p = plan_of(plan);
  if (!p) return INVALID_PLAN;
  p->workspace = (uint64_t)(uintptr_t)workspace;
  return SUCCESS;
}

CALL cufftSetStream(int plan, void *stream) {
  Plan *p = plan_of(plan);
  if (!p) return INVALID_PLAN;
  p->stream = stream;
  return SUCCESS;
}

/* --- a transform that waits for its turn */

typedef struct Work {
  Plan plan;
  uint64_t from, to;
  int direction;
} Work;

static bool is_wide(int type) { return type == D2Z || type == Z2Z || type == Z2D; }

static double number(const void *p, bool wide, int64_t i) {
  return wide ? ((const double *)p)[i] : (double)((const float *)p)[i];
}
static void put(void *p, bool wide, int64_t i, double v) {
  if (wide) ((double *)p)[i] = v;
  else ((float *)p)[i] = (float)v;
}

static void line(const Work *w, void *from, void *to, double complex *x) {
  const Plan *p = &w->plan;
  const bool wide = is_wide(p->type), takes = takes_real(p->type), gives = gives_real(p->type);
  const int64_t n = p->n, made = takes ? n / 2 + 1 : n, given = gives ? n / 2 + 1 : n;
  for (int64_t i = 0; i < given; i++) {
    const int64_t at = i * p->from_stride;
    x[i] = takes ? number(from, wide, at)
                 : number(from, wide, 2 * at) + I * number(from, wide, 2 * at + 1);
    if (gives) put(from, wide, 2 * at, NAN), put(from, wide, 2 * at + 1, NAN);
  }
  for (int64_t i = given; i < n; i++) x[i] = conj(x[n - i]);
  for (int64_t k = 0; k < made; k++) {
    double complex sum = 0;
    for (int64_t i = 0; i < n; i++)
      sum += x[i] * cexp(I * w->direction * 2 * M_PI * (double)(i * k % n) / (double)n);
    if (gives) {
      put(to, wide, k * p->to_stride, creal(sum) + cimag(sum)); /* of a whole half this is 0 */
      continue;
    }
    put(to, wide, 2 * k * p->to_stride, creal(sum));
    put(to, wide, 2 * k * p->to_stride + 1, cimag(sum));
  }
}

static void run(void *user) {
  Work *w = user;
  const Plan *p = &w->plan;
  const bool takes = takes_real(p->type), gives = gives_real(p->type);
  const uint64_t size = is_wide(p->type) ? 8 : 4, half = (uint64_t)(p->n / 2 + 1),
                 made = takes ? half : (uint64_t)p->n, given = gives ? half : (uint64_t)p->n;
  const uint64_t read = size * (takes ? 1 : 2), written = size * (gives ? 1 : 2);
  const uint64_t reads =
      ((given - 1) * (uint64_t)p->from_stride + (uint64_t)((p->lines - 1) * p->from_line) + 1) *
      read;
  const uint64_t writes =
      ((made - 1) * (uint64_t)p->to_stride + (uint64_t)((p->lines - 1) * p->to_line) + 1) * written;
  char *from = soft_gpu_reach(w->from, reads, false, "cuFFT");
  if (from && gives) from = soft_gpu_reach(w->from, reads, true, "cuFFT");
  char *to = from ? soft_gpu_reach(w->to, writes, true, "cuFFT") : NULL;
  void *workspace = to ? soft_gpu_reach(p->workspace, WORKSPACE, true, "cuFFT") : NULL;
  double complex *x = malloc(sizeof *x * (size_t)p->n);
  if (workspace) memset(workspace, 0x77, WORKSPACE);
  for (int64_t l = 0; l < p->lines && workspace; l++)
    line(w, from + (uint64_t)(l * p->from_line) * read, to + (uint64_t)(l * p->to_line) * written,
         x);
  free(x);
  free(w);
}

static int ask(int plan, void *from, void *to, int direction, int type) {
  Plan *p = plan_of(plan);
  if (!p || !p->made) return INVALID_PLAN;
  if (p->type != type) return INVALID_TYPE;
  const uint64_t pair = is_wide(type) ? 16 : 8;
  if (!p->own && !soft_gpu_live(p->workspace, WORKSPACE)) return INVALID_VALUE;
  if (!from || !to || (uintptr_t)from % pair || (uintptr_t)to % pair ||
      (direction != 1 && direction != -1))
    return INVALID_VALUE;
  Work *w = malloc(sizeof *w);
  *w = (Work){*p, (uint64_t)(uintptr_t)from, (uint64_t)(uintptr_t)to, direction};
  transforms++;
  return cuLaunchHostFunc(p->stream, run, w) ? EXEC_FAILED : SUCCESS;
}

CALL cufftExecC2C(int plan, void *from, void *to, int way) { return ask(plan, from, to, way, C2C); }
CALL cufftExecZ2Z(int plan, void *from, void *to, int way) { return ask(plan, from, to, way, Z2Z); }
CALL cufftExecR2C(int plan, void *from, void *to) { return ask(plan, from, to, -1, R2C); }
CALL cufftExecD2Z(int plan, void *from, void *to) { return ask(plan, from, to, -1, D2Z); }
CALL cufftExecC2R(int plan, void *from, void *to) { return ask(plan, from, to, 1, C2R); }
CALL cufftExecZ2D(int plan, void *from, void *to) { return ask(plan, from, to, 1, Z2D); }
