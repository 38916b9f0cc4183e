/*
** cudnn.c -- attention of half floats on tensor cores, by cuDNN.
** In:  an Attend without mask and dropout at reduced precision, addresses.  Out: work on the stream. The library is
** found by dlopen (TYCHO_CUDNN names another file, `off` does without); without it the caller's own kernel goes on,
** which a line says. Fails when out of memory, and with the library's status.
**
** Attention is a graph of operations there (cudnn_graph.c), for which the library's heuristics name engines. Rules:
** 1. The engine and its knobs go by sizes, dtype and causal alone, for packed operands with a head of keys to each head
**    of queries; the first one that adds in a fixed order and gives a plan is taken. Operands that lie otherwise go by
**    the same engine, if it gives a plan for how they lie; else they are packed before. So eager and compiled mode have
**    the same bits.
** 2. Plans are of graphs whose sizes may change: those that differ in batch, heads and positions share kernels, which
**    the library compiles once, in about a second; a plan after that takes a few milliseconds. Plans are kept, so many.
** 3. Results are f32 and lie as ATTEND has them. Of each query the library gives the logarithm of its sum of
**    exponentials, which stands where the maximum does, with a sum of 1: exp(score - that) are the weights either way.
** 4. What the library is not asked for goes by shapes alone (asks): where a query may see no key; and few queries, as
**    of a text that grows by a word, where each step would be one more shape to plan.
*/
#include "base/system.h"
#include "device/cuda/cudnn.h"
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"

enum { OLDEST = 91002, HEADS_MOST = 65535, FEATURES_MOST = 128, QUERIES_LEAST = 16, ALIGNED = 16 };

static const char *(*status_string)(int status);
static void (*last_error)(char *text, size_t n);
static bool present;
static DnnHandle handles[CUDA_MOST]; /* of devices; NULL: not yet */
static Once once = ONCE_INIT, once_refused = ONCE_INIT;
static Lock lock = LOCK_INIT;

static int open_handle(DnnHandle *h) {
  const int e = *h ? 0 : ty_cuda_dnn.open(h);
  if (e) *h = NULL;
  return e ? e : ty_cuda_dnn.set_stream(*h, ty_cuda.stream);
}

static bool is_memory(int status) {
  return status == DNN_HOST_MEMORY || status == DNN_DEVICE_MEMORY;
}

static bool take(void *library) {
  size_t (*version)(void);
  void *p;
  if (!(p = ty_library_symbol(library, "cudnnGetVersion"))) return false;
  memcpy(&version, &p, sizeof p);
  if (version() < OLDEST || !ty_cuda_dnn_take(library)) return false;
  if (!(p = ty_library_symbol(library, "cudnnGetErrorString"))) return false;
  memcpy(&status_string, &p, sizeof p);
  if (!(p = ty_library_symbol(library, "cudnnGetLastErrorString"))) return false;
  memcpy(&last_error, &p, sizeof p);
  const int e = open_handle(&handles[ty_cuda.ordinal]);
  return !e || is_memory(e); /* who attends opens it, and fails for want of memory */
}

static void find_library(void) {
#ifdef _WIN32
  static const char *const usual[] = {"cudnn64_9.dll", NULL};
#else
  static const char *const usual[] = {"libcudnn.so.9", "libcudnn.so", NULL};
#endif
  if ((present = ty_cuda_library("TYCHO_CUDNN", usual, take))) return;
  ty_cuda_say("cuDNN 9.10.2 or newer was not found: attention of half floats at reduced precision "
              "runs by a kernel of Tycho's on tensor cores. The package nvidia-cudnn has it; "
              "TYCHO_CUDNN names its file, `off` does without");
}

/* --- operands as they lie */

typedef struct Operand4 {
  const char *at;
  i64 width, positions;
  i64 steps[3]; /* elements between items of the batch, heads, positions */
  bool fits;    /* else it has to be packed */
  void *packed;
  i64 bytes;
} Operand4;

static void pack_steps(const Attend *d, Operand4 *x) {
  x->steps[2] = x->width, x->steps[1] = x->positions * x->width;
  x->steps[0] = x->steps[1] * (d->nlead ? d->lead[d->nlead - 1] : 1);
}

static void lay(const Attend *d, int i, const char *at, Operand4 *x) {
  const i64 *strides = d->strides[i];
  const int l = d->nlead, size = ty_dtypes[d->operands].bytes;
  *x = (Operand4){.at = at + d->start[i] * size,
                  .width = i == AT_V ? d->dv : d->d,
                  .positions = i == AT_Q ? d->n : d->m};
  pack_steps(d, x);
  x->fits = ty_cuda_one_step(l - 1, d->lead, strides, &x->steps[0]) && strides[l + 1] == 1;
  if (l && d->lead[l - 1] > 1) x->steps[1] = strides[l - 1];
  if (x->positions > 1) x->steps[2] = strides[l];
  for (int k = 0; k < 3; k++) x->fits &= !(x->steps[k] * size % ALIGNED);
  x->fits &= x->steps[2] >= x->width && x->steps[0] > 0 && x->steps[1] >= 0 &&
             !((uintptr_t)x->at % ALIGNED);
}

static bool pack(const Attend *d, int i, Operand4 *x, Stream *s) {
  i64 dims[MAX_RANK];
  const int rank = d->nlead + 2;
  memcpy(dims, d->lead, sizeof dims);
  dims[rank - 2] = x->positions, dims[rank - 1] = x->width;
  x->bytes = d->batch * x->positions * x->width * ty_dtypes[d->operands].bytes;
  if (!(x->packed = ty_cuda_allocate(x->bytes))) return false;
  if (!ty_cuda_gather_elements(d->operands, rank, dims, d->strides[i], x->at, x->packed, s))
    return false;
  x->at = x->packed, x->fits = true;
  pack_steps(d, x);
  return true;
}

/* --- plans, kept by what they are for */

enum { SETS = 32, WAYS = 4 };

typedef struct Choice {
  DnnKey key;
  bool refused; /* there is no plan */
  DnnPlan plan;
  u64 used;
} Choice;
static Choice choices[SETS][WAYS];
static u64 clock_of_use;

static DnnKey key_of(const Attend *d, const Operand4 *x, bool packed) {
  DnnKey k = {.heads = d->nlead ? d->lead[d->nlead - 1] : 1,
              .n = d->n,
              .m = d->m,
              .d = d->d,
              .dv = d->dv,
              .dtype = (u8)d->operands,
              .causal = d->causal,
              .device = (u8)ty_cuda.ordinal};
  k.batch = d->batch / k.heads;
  for (int i = 0; i < 3; i++) {
    Operand4 own = x[i];
    if (packed) pack_steps(d, &own);
    memcpy(k.steps[i], own.steps, sizeof own.steps);
  }
  k.shared = k.heads > 1 && !k.steps[AT_K][1] && !k.steps[AT_V][1];
  return k;
}

/* Under the lock: the key's plan. packed: of the same attention, packed; NULL: it is that. NULL: *status says why. */
static Choice *choose(const DnnKey *key, const Choice *packed, int *status) {
  Choice *set = choices[ty_hash(key, sizeof *key, 0) % SETS], *c = NULL;
  *status = 0;
  for (int i = 0; i < WAYS; i++) {
    if (set[i].used && !memcmp(&set[i].key, key, sizeof *key)) {
      set[i].used = ++clock_of_use;
      return &set[i];
    }
    if (&set[i] != packed && (!c || set[i].used < c->used)) c = &set[i];
  }
  ty_cuda_dnn_drop(&c->plan);
  *c = (Choice){.key = *key};
  const int e =
      ty_cuda_dnn_plan(handles[key->device], key, packed ? &packed->plan.engine : NULL, &c->plan);
  c->refused = ty_cuda_dnn_refuses(e);
  if (e) ty_cuda_dnn_drop(&c->plan);
  c->used = e && !c->refused ? 0 : ++clock_of_use;
  *status = c->used ? 0 : e;
  return c->used ? c : NULL;
}

/* --- calls */

static LibraryResult fail(int status, const char **err) {
  static _Thread_local char text[400];
  char last[200] = "";
  if (is_memory(status)) return LIBRARY_FAILED;
  last_error(last, sizeof last);
  last[sizeof last - 1] = 0;
  for (char *p = last; *p; p++)
    if ((u8)*p < ' ') *p = ' ';
  ty_system_format(text, sizeof text, "scaled_dot_product_attention: cuDNN fails: %.80s (%.190s)",
                   status_string(status), last);
  *err = text;
  return LIBRARY_FAILED;
}

static void say_refused(void) {
  ty_cuda_say("cuDNN has no engine for some attention at reduced precision, which runs by a kernel "
              "of Tycho's (without NVRTC, libnvrtc.so, it has none at all)");
}

/* Under the lock. at: of q, k, v, the result and its sums. */
static LibraryResult run(const Choice *c, double scale, void *const at[5], const char **err) {
  const DnnPlan *p = &c->plan;
  void *workspace = NULL;
  if (p->workspace && !(workspace = ty_cuda_allocate(p->workspace))) return LIBRARY_FAILED;
  ty_cuda_flush(); /* what is gathered comes before */
  const bool ready = ty_cuda_enter();
  const i32 span = ready ? ty_cuda_span(SPAN_LIBRARY, &ty_cuda_label, 1) : -1;
  const int e =
      ready ? ty_cuda_dnn_run(handles[c->key.device], &c->key, p, (float)scale, at, workspace) : 0;
  ty_cuda_spanned(span);
  ty_cuda_run_now.libraries++;
  if (workspace) ty_cuda_free(workspace, p->workspace);
  return e ? fail(e, err) : LIBRARY_DONE;
}

/* Under the lock. *fits: false where what is not packed must be. */
static LibraryResult attempt(const Attend *d, const Operand4 *x, void *const result[2], bool *fits,
                             const char **err) {
  const DnnKey key = key_of(d, x, false), packed = key_of(d, x, true);
  int status = open_handle(&handles[ty_cuda.ordinal]);
  *fits = true;
  if (status) return fail(status, err);
  const Choice *c = choose(&packed, NULL, &status);
  if (!c) return fail(status, err);
  if (c->refused) {
    ty_once(&once_refused, say_refused);
    return LIBRARY_NONE;
  }
  if (memcmp(&key, &packed, sizeof key) && !(c = choose(&key, c, &status)))
    return fail(status, err);
  *fits = !c->refused;
  if (!*fits) return LIBRARY_NONE;
  void *const at[] = {(void *)(uintptr_t)x[0].at, (void *)(uintptr_t)x[1].at,
                      (void *)(uintptr_t)x[2].at, result[0], result[1]};
  return run(c, d->scale, at, err);
}

/* Rule 4. */
static bool asks(const Attend *d) {
  const i64 heads = d->nlead ? d->lead[d->nlead - 1] : 1;
  return d->fast && d->operands != d->dtype && !d->grad && !d->mask && !d->key && d->batch &&
         d->n >= QUERIES_LEAST && d->m && d->d && d->dv && !(d->d % 8) && !(d->dv % 8) &&
         d->d <= FEATURES_MOST && d->dv <= FEATURES_MOST && heads <= HEADS_MOST &&
         d->batch / heads <= HEADS_MOST && d->n <= INT32_MAX && d->m <= INT32_MAX &&
         !(d->causal && d->n > d->m);
}

LibraryResult ty_cuda_dnn_attention(const Attend *d, void *const *operands, char *y, Stream *s,
                                    const char **err) {
  Operand4 x[3];
  bool fits = false, ok = true;
  if (!asks(d)) return LIBRARY_NONE;
  ty_once(&once, find_library);
  if (!present) return LIBRARY_NONE;
  for (int i = 0; i < 3; i++) lay(d, i, operands[i], &x[i]);
  const bool shared = !x[AT_K].steps[1] && !x[AT_V].steps[1];
  for (int i = 0; i < 3; i++) x[i].fits &= x[i].steps[1] > 0 || (shared && i != AT_Q);
  if (shared && x[AT_K].fits != x[AT_V].fits) x[AT_K].fits = x[AT_V].fits = false;
  const i64 rows = d->batch * d->n, bytes = rows * (d->dv + 2) * (i64)sizeof(float), one = 1;
  char *to = (uintptr_t)y % ALIGNED ? ty_cuda_allocate(bytes) : y, *sums = to;
  if (!to) return LIBRARY_FAILED;
  sums += rows * d->dv * (i64)sizeof(float);
  void *const result[] = {to, sums};
  LibraryResult r = LIBRARY_NONE;
  for (int i = 0; i < 3 && ok; i++)
    if (!x[i].fits) ok = pack(d, i, &x[i], s);
  for (int again = 0; again < 2 && ok && !fits; again++) {
    for (int i = 0; i < 3 && ok && again; i++)
      if (!x[i].packed) ok = pack(d, i, &x[i], s);
    if (!ok) break;
    ty_lock(&lock);
    r = attempt(d, x, result, &fits, err);
    ty_unlock(&lock);
  }
  for (int i = 0; i < 3; i++)
    if (x[i].packed) ty_cuda_free(x[i].packed, x[i].bytes);
  if (ok && r == LIBRARY_DONE) {
    const i64 n = bytes / (i64)sizeof(float);
    ok = ty_cuda_fill_elements(rows, 1, sums + rows * (i64)sizeof(float), s) &&
         (to == y || ty_cuda_gather_elements(T_F32, 1, &n, &one, to, y, s));
  }
  if (to != y) ty_cuda_free(to, bytes);
  return ok ? r : LIBRARY_FAILED;
}
