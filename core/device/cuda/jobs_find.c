/*
** jobs_find.c -- kernels of jobs, by what they are made for.
** In:  keys.  Out: kernels, made once and kept. Fails when out of memory, and where the driver refuses a text.
*/
#include "base/system.h"
#include "device/cuda/jobs.h"
#include "device/cuda/ptx_fft.h"
#include "device/cuda/ptx_move.h"
#include "device/cuda/ptx_program.h"
#include "device/cuda/ptx_sort.h"

static struct {
  Lock lock;
  struct Found {
    Key key;
    const Cuda *device;
    CudaCode code;
    Kernel *kernel; /* a loop program */
  } * at;
  i32 n, cap;
} found = {.lock = LOCK_INIT};

static Text text_of(const Key *k) {
  switch (k->kind) {
  case OF_PRODUCT:
    if (k->product.tiles & TILES_LARGE) return ty_ptx_tiles_large(&k->product);
    return k->product.tiles ? ty_ptx_tiles(&k->product) : ty_ptx_product(&k->product);
  case OF_ATTEND: return k->attend.features ? ty_ptx_flash(&k->attend) : ty_ptx_attend(&k->attend);
  case OF_SCATTER: return ty_ptx_scatter((ScatterWay)k->way, k->dtype, k->flag, k->dims);
  case OF_FFT: return ty_ptx_fft((FftStep)k->way, k->dtype, k->dims, k->flag);
  case OF_RADIX: return ty_ptx_radix((RadixStep)k->way, k->dtype, k->flag & 1, k->flag & 2);
  case OF_POSITIONS: return ty_ptx_positions();
  case OF_POSITIONS_END: return ty_ptx_positions_end();
  case OF_SIDE_CHECK: return ty_ptx_side_check();
  case OF_SORT: return ty_ptx_sort(k->dtype, k->flag);
  default: return ty_ptx_search(k->dtype, k->flag);
  }
}

/* Elements of so many bytes, as they are. */
static Kernel *make_copy(const Key *k) {
  union {
    Program p;
    char room[sizeof(Program) + 2 * sizeof(Instr)];
  } u = {.p = {.kind = K_MAP, .noperands = 2, .nbody = 2}};
  const u8 ctype = ty_dtypes[k->dtype].ctype;
  u.p.operand[COPY_FROM].dtype = u.p.operand[COPY_TO].dtype = k->dtype;
  u.p.operand[COPY_TO].write = 1;
  u.p.body[0] = (Instr){.op = P_LOAD, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = COPY_FROM};
  u.p.body[1] = (Instr){.op = P_STORE, .type = ctype, .a = 0, .b = -1, .c = -1, .imm = COPY_TO};
  return ty_cuda_make(&u.p);
}

/* Scalar 0. */
static Kernel *make_fill(const Key *k) {
  union {
    Program p;
    char room[sizeof(Program) + 2 * sizeof(Instr)];
  } u = {.p = {.kind = K_MAP, .noperands = 1, .nbody = 2}};
  const u8 ctype = ty_dtypes[k->dtype].ctype;
  u.p.operand[0].dtype = k->dtype, u.p.operand[0].write = 1;
  u.p.body[0] = (Instr){.op = P_SCALAR, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = 0};
  u.p.body[1] = (Instr){.op = P_STORE, .type = ctype, .a = 0, .b = -1, .c = -1, .imm = 0};
  return ty_cuda_make(&u.p);
}

/* Floats times scalar 0. */
static Kernel *make_scale(const Key *k) {
  union {
    Program p;
    char room[sizeof(Program) + 4 * sizeof(Instr)];
  } u = {.p = {.kind = K_MAP, .noperands = 2, .nbody = 4}};
  const u8 ctype = ty_dtypes[k->dtype].ctype;
  u.p.operand[COPY_FROM].dtype = u.p.operand[COPY_TO].dtype = k->dtype;
  u.p.operand[COPY_TO].write = 1;
  u.p.body[0] = (Instr){.op = P_LOAD, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = COPY_FROM};
  u.p.body[1] = (Instr){.op = P_SCALAR, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = 0};
  u.p.body[2] = (Instr){.op = P_MUL, .type = ctype, .a = 0, .b = 1, .c = -1};
  u.p.body[3] = (Instr){.op = P_STORE, .type = ctype, .a = 2, .b = -1, .c = -1, .imm = COPY_TO};
  return ty_cuda_make(&u.p);
}

/* A product of one column: rows, whose sums take products by fma. */
static Kernel *make_column(const Key *k) {
  union {
    Program p;
    char room[sizeof(Program) + 6 * sizeof(Instr)];
  } u = {.p = {.kind = K_ROW, .noperands = 3, .nbody = 6}};
  const u8 ctype = ty_dtypes[k->dtype].ctype;
  for (int i = 0; i < 3; i++) u.p.operand[i] = (Operand){.dtype = k->dtype};
  u.p.operand[COLUMN_Y].level = L_ROW, u.p.operand[COLUMN_Y].write = 1;
  u.p.body[0] = (Instr){.op = P_LOAD, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = COLUMN_A};
  u.p.body[1] = (Instr){.op = P_LOAD, .type = ctype, .a = -1, .b = -1, .c = -1, .imm = COLUMN_B};
  u.p.body[2] = (Instr){.op = P_MUL, .type = ctype, .a = 0, .b = 1, .c = -1};
  u.p.body[3] = (Instr){.op = P_RSUM,
                        .type = ctype,
                        .from = ctype,
                        .level = L_ROW,
                        .a = 2,
                        .b = -1,
                        .c = -1,
                        .imm = SUM_OF_PRODUCTS};
  u.p.body[4] = (Instr){
      .op = P_NARROW, .type = ctype, .level = L_ROW, .a = 3, .b = -1, .c = -1, .imm = k->dtype};
  u.p.body[5] = (Instr){
      .op = P_STORE, .type = ctype, .level = L_ROW, .a = 4, .b = -1, .c = -1, .imm = COLUMN_Y};
  return ty_cuda_make(&u.p);
}

bool ty_cuda_find(const Key *key, CudaCode *code, Kernel **kernel) {
  bool ok = false;
  ty_lock(&found.lock);
  for (i32 i = 0; i < found.n && !ok; i++)
    if (found.at[i].device == ty_cuda_now && !memcmp(&found.at[i].key, key, sizeof *key)) {
      if (code) *code = found.at[i].code;
      else *kernel = found.at[i].kernel;
      ok = true;
    }
  if (!ok && found.n == found.cap) {
    struct Found *more = ty_mem_realloc(found.at, (size_t)(found.cap + 16) * sizeof *more);
    if (more) found.at = more, found.cap += 16;
  }
  if (!ok && found.n < found.cap) {
    struct Found *f = &found.at[found.n];
    *f = (struct Found){.key = *key, .device = ty_cuda_now};
    if (code) {
      Text text = text_of(key);
      ok = ty_cuda_load(&f->code, &text);
      *code = f->code;
      ty_text_free(&text);
    } else {
      *kernel = f->kernel = key->kind == OF_COPY    ? make_copy(key)
                            : key->kind == OF_SCALE ? make_scale(key)
                            : key->kind == OF_FILL  ? make_fill(key)
                                                    : make_column(key);
      ok = *kernel != NULL;
    }
    found.n += ok;
  }
  ty_unlock(&found.lock);
  return ok;
}

bool ty_cuda_run_each(const Key *key, i64 count, int threads, i64 *block) {
  CudaCode code;
  return !count || (ty_cuda_find(key, &code, NULL) &&
                    ty_cuda_launch(&code, ty_cuda_blocks(count, threads), threads, block));
}
