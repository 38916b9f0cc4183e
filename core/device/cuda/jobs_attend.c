/*
** jobs_attend.c -- attention on the CUDA device: its kernels' launches.
** In:  an Attend, addresses.  Out: kernels are launched. Fails when out of memory, and where the driver refuses a text.
*/
#include "device/cuda/jobs.h"
#include "device/cuda/library.h"

enum { BLOCK_WORDS = (ATTEND_LEAD + MAX_RANK * ATTEND_LEAD_EACH) / 8 };

bool ty_cuda_attend_takes(const Attend *d) { return d->d && d->dv; }

static bool has_tensor_cores(void) { return 10 * ty_cuda.major + ty_cuda.minor >= 80; }

/* Features or values as ty_ptx_flash has them; 0: there are too many. */
static u8 padded(i64 n) {
  i64 y = 16;
  while (y < n) y *= 2;
  return y <= FLASH_MOST ? (u8)y : 0;
}

/* Those that ty_ptx_flash has in registers. */
bool ty_cuda_attends_halves(i64 features, i64 values) {
  return has_tensor_cores() && features && values && padded(features) && padded(values);
}

static i64 bits_of(int dtype, double v) {
  const float f = (float)v;
  i64 bits = 0;
  if (dtype == T_F32) memcpy(&bits, &f, sizeof f);
  else memcpy(&bits, &v, sizeof v);
  return bits;
}

static void bind(const Attend *d, void *const *x, char *y, Stream *s, i64 *at) {
  static const u8 moving[] = {AT_Q, AT_K, AT_V, AT_MASK, AT_G};
  const i64 size = ty_dtypes[d->dtype].bytes, narrow = ty_dtypes[d->operands].bytes;
  at[ATTEND_WORD / 8] = (i64)ty_cuda_word(s);
  for (int i = 0; i < AT_OPERANDS; i++) {
    const i64 each = i == AT_MASK && d->bits ? 1 : i == AT_KEY ? 4 : i <= AT_V ? narrow : size;
    if (x[i]) at[ATTEND_X / 8 + i] = (i64)(uintptr_t)x[i] + d->start[i] * each;
    at[ATTEND_RS / 8 + i] = d->strides[i][d->nlead] * each;
    at[ATTEND_CS / 8 + i] = d->strides[i][d->nlead + 1] * each;
    for (int k = 0; k < (int)TY_COUNT(moving); k++)
      for (int l = 0; l < d->nlead && moving[k] == i; l++)
        at[(ATTEND_LEAD + l * ATTEND_LEAD_EACH) / 8 + 1 + k] = d->strides[i][l] * each;
  }
  for (int l = 0; l < d->nlead; l++) at[(ATTEND_LEAD + l * ATTEND_LEAD_EACH) / 8] = d->lead[l];
  const i64 heads = d->batch * d->n, result = (i64)(uintptr_t)(d->grad ? x[AT_R] : y);
  at[ATTEND_Y / 8] = (i64)(uintptr_t)y;
  at[ATTEND_DK / 8] = at[ATTEND_Y / 8] + heads * d->d * size;
  at[ATTEND_DV / 8] = at[ATTEND_DK / 8] + d->batch * d->m * d->d * size;
  at[ATTEND_MAX / 8] = result + (d->grad ? d->start[AT_R] * size : 0) + heads * d->dv * size;
  at[ATTEND_SUM / 8] = at[ATTEND_MAX / 8] + heads * size;
  at[ATTEND_N / 8] = d->n, at[ATTEND_M / 8] = d->m;
  at[ATTEND_FEATURES / 8] = d->d, at[ATTEND_VALUES / 8] = d->dv;
  at[ATTEND_HEADS / 8] = d->nlead ? d->lead[d->nlead - 1] : 1;
  at[ATTEND_SCALE / 8] = bits_of(d->dtype, d->scale);
  at[ATTEND_FACTOR / 8] = bits_of(d->dtype, d->drop < 1u << 30 ? 1 / (1 - d->drop * 0x1p-30) : 0);
  at[ATTEND_DROP / 8] = d->drop;
}

static bool is_fast(const Attend *d) { return d->fast && d->dtype == T_F32 && has_tensor_cores(); }

/* Whether an operand's lines lie in aligned groups of four elements. at: the block. */
static bool in_vectors(const Attend *d, int x, i64 width, const i64 *at) {
  bool ok = !(width % 4) && d->strides[x][d->nlead + 1] == 1 && !(d->strides[x][d->nlead] % 4) &&
            !(at[ATTEND_X / 8 + x] % (4 * ty_dtypes[d->operands].bytes));
  for (int l = 0; l < d->nlead; l++) ok &= !(d->strides[x][l] % 4);
  return ok;
}

/* In registers, on tensor cores. */
static void by_flash(const Attend *d, const i64 *at, AttendVariant *v) {
  if (v->pass != ATTEND_FORWARD || !v->fast || v->mask || v->drop || !padded(d->d) ||
      !padded(d->dv))
    return;
  v->features = padded(d->d), v->values = padded(d->dv);
  v->vectors[0] = in_vectors(d, AT_K, d->d, at);
  v->vectors[1] = in_vectors(d, AT_V, d->dv, at);
}

/* One kernel over the positions of all heads, so many to a unit. */
static bool pass(const Attend *d, AttendPass which, i64 positions, i64 each, i64 *at) {
  const bool prepares = which == ATTEND_PREPARE;
  Key key = {.kind = OF_ATTEND,
             .attend = {.pass = (u8)which,
                        .dtype = (u8)d->dtype,
                        .operands = (u8)(prepares ? d->dtype : d->operands),
                        .nlead = (u8)d->nlead,
                        .causal = !prepares && d->causal,
                        .mask = !prepares && d->mask,
                        .bits = !prepares && d->mask && d->bits,
                        .drop = !prepares && d->key,
                        .fast = !prepares && is_fast(d)}};
  by_flash(d, at, &key.attend);
  const int threads = prepares              ? ATTEND_PREPARE_THREADS
                      : key.attend.features ? FLASH_THREADS
                                            : ATTEND_THREADS;
  CudaCode code;
  at[ATTEND_BLOCKS / 8] = (positions + each - 1) / each;
  at[ATTEND_COUNT / 8] = d->batch * at[ATTEND_BLOCKS / 8];
  const i64 count = at[ATTEND_COUNT / 8];
  return !count ||
         (ty_cuda_find(&key, &code, NULL) &&
          ty_cuda_launch(&code, ty_cuda_blocks(count, prepares ? threads : 1), threads, at));
}

bool ty_cuda_attend(const Attend *d, void *const *x, char *y, Stream *s, const char **err) {
  i64 at[BLOCK_WORDS] = {0};
  const i64 size = ty_dtypes[d->dtype].bytes, bytes = 2 * d->batch * d->n * size;
  const LibraryResult r = ty_cuda_dnn_attention(d, x, y, s, err);
  if (r != LIBRARY_NONE) return r == LIBRARY_DONE;
  bind(d, x, y, s, at);
  if (!d->grad) return pass(d, ATTEND_FORWARD, d->n, ATTEND_SIDE, at);
  void *scratch = bytes ? ty_cuda_allocate(bytes) : NULL;
  if (bytes && !scratch) return false;
  at[ATTEND_INV / 8] = (i64)(uintptr_t)scratch;
  at[ATTEND_MEAN / 8] = at[ATTEND_INV / 8] + bytes / 2;
  const bool ok = pass(d, ATTEND_PREPARE, d->n, 1, at) &&
                  pass(d, ATTEND_QUERIES, d->n, ATTEND_SIDE, at) &&
                  pass(d, ATTEND_KEYS, d->m, ATTEND_SIDE, at);
  if (scratch) ty_cuda_free(scratch, bytes);
  return ok;
}
