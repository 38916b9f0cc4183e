/*
** devices.c -- the CUDA devices as the engine knows them: for each number a Device, whose functions say which one is meant.
** In:  a number.  Out: its Device. The functions of a Device have no argument for it: DEVICE writes them once for each number.
*/
#include "device/cuda/batch.h"
#include "device/cuda/cuda.h"

static const Device *const devices[CUDA_MOST];

/* The CUDA device that is behind a Device; NULL: another one. */
static Cuda *behind(const Device *d) {
  for (int i = 0; i < CUDA_MOST; i++)
    if (devices[i] == d) return &ty_cuda_all[i];
  return NULL;
}

static Receipt receive(const Device *from, void *to, const void *x, i64 bytes, Stream *s,
                       const char **err) {
  Cuda *other = behind(from);
  if (!other) return RECEIPT_NONE;
  return ty_cuda_receive(other, to, x, bytes, s, err) ? RECEIPT_OK : RECEIPT_FAILED;
}

#define ON(n) ty_cuda_use(&ty_cuda_all[n])
#define DEVICE(n, text) \
  static Kernel *make_##n(const Program *p) { return ON(n), ty_cuda_make(p); } \
  static void *allocate_##n(i64 bytes) { return ON(n), ty_cuda_allocate(bytes); } \
  static void free_##n(void *p, i64 bytes) { ON(n), ty_cuda_free(p, bytes); } \
  static bool in_##n(void *to, const void *from, i64 bytes, const char **err) { \
    return ON(n), ty_cuda_in(to, from, bytes, err); \
  } \
  static bool out_##n(void *to, const void *from, i64 bytes, Stream *s, const char **err) { \
    return ON(n), ty_cuda_out(to, from, bytes, s, err); \
  } \
  static bool across_##n(void *to, const void *from, i64 bytes, const char **err) { \
    return ON(n), ty_cuda_across(to, from, bytes, err); \
  } \
  static Receipt receive_##n(const Device *from, void *to, const void *x, i64 bytes, Stream *s, \
                             const char **err) { \
    return ON(n), receive(from, to, x, bytes, s, err); \
  } \
  static bool wait_##n(Stream *s, const char **err) { return ON(n), ty_cuda_wait(s, err); } \
  static bool takes_##n(const Job *j) { return ON(n), ty_cuda_takes(j); } \
  static bool perform_##n(const Job *j, void *const *buf, const u64 *scalar, const void *panels, \
                          Stream *s, const char **err) { \
    return ON(n), ty_cuda_perform(j, buf, scalar, panels, s, err); \
  } \
  static bool halves_##n(i64 d, i64 dv) { return ON(n), ty_cuda_attends_halves(d, dv); } \
  static void note_##n(const Stream *s) { ON(n), ty_cuda_note(s); } \
  static bool passed_##n(Stream *s, const char **err) { \
    return ON(n), ty_cuda_passed(s) || ty_cuda_wait(s, err); \
  } \
  static void begin_##n(void) { ON(n), ty_batch_begin(); } \
  static void end_##n(DeviceRun *run) { ON(n), ty_batch_end(run); } \
  static const Machine machine_##n = {.name = "cuda", \
                                      .make = make_##n, \
                                      .run = ty_cuda_run, \
                                      .reserve = ty_cuda_reserve, \
                                      .drop = ty_cuda_drop, \
                                      .bytes = ty_cuda_bytes}; \
  static const Device device_##n = {.name = text, \
                                    .machine = &machine_##n, \
                                    .allocate = allocate_##n, \
                                    .free = free_##n, \
                                    .in = in_##n, \
                                    .out = out_##n, \
                                    .across = across_##n, \
                                    .receive = receive_##n, \
                                    .wait = wait_##n, \
                                    .takes = takes_##n, \
                                    .perform = perform_##n, \
                                    .begin = begin_##n, \
                                    .end = end_##n, \
                                    .label = ty_cuda_span_label, \
                                    .note = note_##n, \
                                    .passed = passed_##n, \
                                    .sides = &ty_cuda_sides, \
                                    .number = n, \
                                    .halves = halves_##n};

DEVICE(0, "cuda")
DEVICE(1, "cuda:1")
DEVICE(2, "cuda:2")
DEVICE(3, "cuda:3")
DEVICE(4, "cuda:4")
DEVICE(5, "cuda:5")
DEVICE(6, "cuda:6")
DEVICE(7, "cuda:7")

static const Device *const devices[CUDA_MOST] = {&device_0, &device_1, &device_2, &device_3,
                                                 &device_4, &device_5, &device_6, &device_7};

const Device *ty_cuda_device(int ordinal) { return devices[ordinal]; }
