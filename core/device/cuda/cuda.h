/*
** cuda.h -- the CUDA device: the driver's functions, memory, what is launched.
** A shared object of its own. All work of a device goes to one stream, in the order of calls. There are as many devices as
** the driver has; each thread works for one at a time (ty_cuda).
*/
#ifndef TY_CUDA_H
#define TY_CUDA_H

#include "base/text.h"
#include "device/device.h"

/* --- driver.c: the driver API, by dlopen. Types and numbers as cuda.h of the toolkit has them. */

typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct KernelNode { /* CUDA_KERNEL_NODE_PARAMS_v1 */
  CUfunction function;
  unsigned grid[3], block[3], shared;
  void **params, **extra;
} KernelNode;
typedef u64 CUdeviceptr;

enum {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_PEER_ALREADY_ENABLED = 704,
  EVENT_WITH_TIME = 0,
  EVENT_WITHOUT_TIME = 2,
  STREAM_NON_BLOCKING = 1,
  ATTRIBUTE_MULTIPROCESSORS = 16,
  ATTRIBUTE_MAJOR = 75,
  ATTRIBUTE_MINOR = 76,
  ATTRIBUTE_SHARED_MOST = 97,
  FUNCTION_SHARED_MOST = 8,
  JIT_ERROR_LOG = 5,
  JIT_ERROR_LOG_BYTES = 6
};

/*  field    symbol    arguments */
#define CUDA_CALLS(_) \
  _(init, "cuInit", (unsigned flags)) \
  _(version, "cuDriverGetVersion", (int *version)) \
  _(error_name, "cuGetErrorName", (int error, const char **text)) \
  _(error_string, "cuGetErrorString", (int error, const char **text)) \
  _(device_count, "cuDeviceGetCount", (int *count)) \
  _(device_get, "cuDeviceGet", (int *device, int ordinal)) \
  _(device_name, "cuDeviceGetName", (char *name, int size, int device)) \
  _(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device)) \
  _(retain, "cuDevicePrimaryCtxRetain", (CUcontext * context, int device)) \
  _(set_current, "cuCtxSetCurrent", (CUcontext context)) \
  _(stream_create, "cuStreamCreate", (CUstream * stream, unsigned flags)) \
  _(stream_wait, "cuStreamSynchronize", (CUstream stream)) \
  _(stream_query, "cuStreamQuery", (CUstream stream)) \
  _(stream_await, "cuStreamWaitEvent", (CUstream stream, CUevent event, unsigned flags)) \
  _(event_create, "cuEventCreate", (CUevent * event, unsigned flags)) \
  _(event_record, "cuEventRecord", (CUevent event, CUstream stream)) \
  _(event_query, "cuEventQuery", (CUevent event)) \
  _(event_wait, "cuEventSynchronize", (CUevent event)) \
  _(event_elapsed, "cuEventElapsedTime", (float *milliseconds, CUevent from, CUevent to)) \
  _(peer_possible, "cuDeviceCanAccessPeer", (int *can, int device, int other)) \
  _(peer_enable, "cuCtxEnablePeerAccess", (CUcontext other, unsigned flags)) \
  _(copy_peer, "cuMemcpyPeerAsync", \
    (CUdeviceptr to, CUcontext of_to, CUdeviceptr from, CUcontext of_from, size_t n, CUstream s)) \
  _(memory_info, "cuMemGetInfo_v2", (size_t * free, size_t * total)) \
  _(memory_allocate, "cuMemAlloc_v2", (CUdeviceptr * p, size_t bytes)) \
  _(memory_free, "cuMemFree_v2", (CUdeviceptr p)) \
  _(host_allocate, "cuMemAllocHost_v2", (void **p, size_t bytes)) \
  _(copy_in, "cuMemcpyHtoDAsync_v2", (CUdeviceptr to, const void *from, size_t n, CUstream s)) \
  _(copy_out, "cuMemcpyDtoHAsync_v2", (void *to, CUdeviceptr from, size_t n, CUstream s)) \
  _(copy_across, "cuMemcpyDtoDAsync_v2", (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)) \
  _(fill, "cuMemsetD8Async", (CUdeviceptr to, unsigned char byte, size_t n, CUstream s)) \
  _(module_load, "cuModuleLoadDataEx", \
    (CUmodule * module, const void *text, unsigned n, int *options, void **values)) \
  _(link_create, "cuLinkCreate_v2", (unsigned n, int *options, void **values, CUlinkState *link)) \
  _(link_add, "cuLinkAddData_v2", \
    (CUlinkState link, int kind, void *data, size_t bytes, const char *name, unsigned n, \
     int *options, void **values)) \
  _(link_complete, "cuLinkComplete", (CUlinkState link, void **code, size_t *bytes)) \
  _(link_destroy, "cuLinkDestroy", (CUlinkState link)) \
  _(module_unload, "cuModuleUnload", (CUmodule module)) \
  _(function_get, "cuModuleGetFunction", (CUfunction * f, CUmodule module, const char *name)) \
  _(function_set, "cuFuncSetAttribute", (CUfunction f, int attribute, int value)) \
  _(launch, "cuLaunchKernel", \
    (CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, \
     unsigned shared, CUstream s, void **params, void **extra)) \
  _(graph_create, "cuGraphCreate", (CUgraph * graph, unsigned flags)) \
  _(graph_destroy, "cuGraphDestroy", (CUgraph graph)) \
  _(graph_add_kernel, "cuGraphAddKernelNode", \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode *after, size_t n, \
     const KernelNode *kernel)) \
  _(graph_instantiate, "cuGraphInstantiateWithFlags", \
    (CUgraphExec * exec, CUgraph graph, u64 flags)) \
  _(graph_set_kernel, "cuGraphExecKernelNodeSetParams", \
    (CUgraphExec exec, CUgraphNode node, const KernelNode *kernel)) \
  _(graph_launch, "cuGraphLaunch", (CUgraphExec exec, CUstream s)) \
  _(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec exec))

enum { CUDA_MOST = 8 }; /* devices that are used, those with the driver's first numbers */

typedef struct Cuda {
#define _(field, symbol, args) int(*field) args;
  CUDA_CALLS(_)
#undef _
  int ordinal;
  CUcontext context;
  CUstream stream, copies; /* copies from the CPU, beside: copies.c; NULL: none yet */
  CUevent event;           /* what other devices' streams wait for; or NULL */
  char name[128];
  int driver, major, minor, processors; /* driver: 12040 is 12.4 */
  int shared_most;                      /* bytes that a block may have */
  i64 launches;                         /* of kernels by themselves */
} Cuda;
/* The devices, by number; the one that the calling thread works for. What the device's functions are called with, and
** its kernels, say which that is. */
extern Cuda ty_cuda_all[CUDA_MOST];
extern _Thread_local Cuda *ty_cuda_now;
extern _Atomic u64 ty_cuda_marks[CUDA_MOST]; /* the number of each one's last mark: copies.c */
#define ty_cuda (*ty_cuda_now)
static inline Cuda *ty_cuda_use(Cuda *c) {
  Cuda *was = ty_cuda_now;
  ty_cuda_now = c;
  return was;
}

/* Loads the driver; how many devices there are. -1: *err says why there are none. */
int ty_cuda_count(const char **err);
/* Takes the device of that number, once. False: *err says why there is none. */
bool ty_cuda_open(int ordinal, const char **err);
/* To be asked before each call of the driver; the device's context is current then. False: the device has failed, as
** ty_cuda_trouble says. */
bool ty_cuda_enter(void);
extern _Thread_local u64 ty_cuda_entered; /* how often the thread has asked */
/* True where the call's result is no error. Else the device has failed for good, unless memory ran out. */
bool ty_cuda_ok(int result, const char *call);
const char *ty_cuda_trouble(void); /* NULL: none */

/* --- memory.c */

extern const Device *ty_cuda_host; /* the CPU's device */

void *ty_cuda_allocate(i64 bytes);
void ty_cuda_free(void *p, i64 bytes);
/* Of blocks that are given out again, for copies beside the device's stream: the number of the mark behind all who used
** one; see copies.c. */
#define MARK_NONE 0                           /* nobody did */
#define MARK_NOW UINT64_MAX                   /* all that was asked for so far */
u64 ty_cuda_handed(const void *p, i64 bytes); /* of a block that was just allocated, else NOW */

/* --- copies.c */

enum { COPY_BESIDE = 64 << 10 }; /* bytes: more goes by the stream of copies */
typedef struct CopyCounts {
  i64 beside, ahead; /* copies by that stream; of them those that did not wait for all before */
} CopyCounts;
CopyCounts ty_cuda_copies(void);
bool ty_cuda_in(void *to, const void *from, i64 bytes, const char **err);
bool ty_cuda_out(void *to, const void *from, i64 bytes, Stream *s, const char **err);
bool ty_cuda_across(void *to, const void *from, i64 bytes, const char **err);
/* From another device's memory. Both streams go on; what runs there later finds the bytes. */
bool ty_cuda_receive(Cuda *other, void *to, const void *from, i64 bytes, Stream *s,
                     const char **err);
bool ty_cuda_wait(Stream *s, const char **err);
typedef struct CudaMemory {
  i64 used, cached, peak;
} CudaMemory;
CudaMemory ty_cuda_memory(void);
i64 ty_cuda_limit(
    i64 bytes); /* the most of used and cached bytes from now on, but for negative ones; gives what it was */
void ty_cuda_trim(void); /* gives cached blocks back to the driver */

/* Error words: a stream's kernels do nothing while its word is set. Kernels get the word's address first. A check says
** what the error will be: of an index that names no place. */
typedef struct ErrorWord {
  u64 check; /* its number, 0: no error */
  i64 value, at;
  u64 first; /* of the check in progress: see ptx_move.h */
} ErrorWord;
CUdeviceptr ty_cuda_word(const Stream *s);         /* 0: out of memory */
u64 ty_cuda_check(const Stream *s, const Node *n); /* the number of a check to come; 0: no memory */
/* The same of the stream's exchange with others, one for each run, whose text is that of ty_cuda_sides.fail. */
u64 ty_cuda_check_side(const Stream *s);
bool ty_cuda_checks(const Stream *s); /* one may have failed, and not been told */
/* As Device says; false: a wait for all that the stream was asked for tells. */
void ty_cuda_note(const Stream *s);
bool ty_cuda_passed(const Stream *s);
/* What the stream's word says once all was done that was asked for; its checks are over. False: one has failed. */
bool ty_cuda_judge(Stream *s, const ErrorWord *e, const char **err);
/* The stream fails with that text, which is copied: as where a check fails, its kernels do nothing until that is told. False: out
** of memory. */
bool ty_cuda_fail(const Stream *s, const char *text);

/* --- sides.c: as sides.h says */

extern const Sides ty_cuda_sides;

/* --- wait.c */

enum { SIDE_TEXT = 400 };

/* Until all that the device was asked for is done: every wait for it is this one, but for short ones behind it under a lock. And,
** where that may wait for a side, until it does not any more: before calls of the driver that may wait. */
bool ty_cuda_settle(void);
void ty_cuda_wait_sides(void);
bool ty_cuda_settle_event(CUevent e); /* the same, up to the event */
/* Of sides: the device's stream may wait for one from now on; who waits for them, as Sides.watch; why they failed. */
void ty_cuda_may_wait(void);
void ty_cuda_watch(int n, void (*wait)(int n, int (*idle)(int n)));
char *ty_cuda_side_text(void);
/* A stream, an event without a time, if it is not made yet; the device's stream that waits for nobody, or NULL; what stands there now, by that one. */
bool ty_cuda_make_stream(CUstream *s);
bool ty_cuda_make_event(CUevent *e);
CUstream ty_cuda_apart(void);
bool ty_cuda_look_apart(CUdeviceptr p, void *y, i64 n);

/* --- launch.c: PTX text to a function, and its launches */

typedef struct CodeSource CodeSource; /* launch.c, twin.c */
typedef struct CudaCode {
  CUmodule module;
  CUfunction function;
  size_t bytes;
  i32 params,
      shared; /* bytes; shared: of memory that launches ask for, beside what the kernel has */
  CodeSource *source; /* of its twin; or NULL */
} CudaCode;
/* Assembles text, which has one entry named `kernel`. False: the driver has refused it, or no memory. */
bool ty_cuda_load(CudaCode *c, const Text *text);
/* The same of a text that is not on disk, and of code that is there: assembled, or kept on disk. False too where there is none. */
bool ty_cuda_load_new(CudaCode *c, const Text *text);
bool ty_cuda_load_code(CudaCode *c, const char *code, size_t n);
bool ty_cuda_load_kept(CudaCode *c, const Text *text);
void ty_cuda_show(const Text *text); /* prints it under TYCHO_DUMP=a */
/* What the text says of launches. */
void ty_cuda_describe(CudaCode *c, const Text *text);
/* Where this thread's last ty_cuda_load was refused: why its kernel, of what is named, cannot run, good until the next call; else
** NULL. */
const char *ty_cuda_refusal(const char *what);
void ty_cuda_forget_refusal(void);
void ty_cuda_unload(CudaCode *c);
bool ty_cuda_launch(const CudaCode *c, i64 blocks, int threads, void *params);

struct CodeSource {
  Text text; /* of the kernel */
  int state;
  CudaCode twin;
  struct Assembly *late;
};

/* Where launches are gathered: batch.c says by these what it takes. NULL: it takes nothing yet. */
typedef struct CudaGather {
  bool (*take)(const CudaCode *c, i64 blocks, int threads, const void *params, size_t n);
  void (*flush)(void);
  bool (*frees)(void *p, i64 bytes);
  void (*forget)(CUfunction f);
} CudaGather;
extern CudaGather ty_cuda_gather;
static inline void ty_cuda_flush(void) {
  if (ty_cuda_gather.flush) ty_cuda_gather.flush();
}

/* twin.c: what graphs run. keep: c's text, from which its twin is made. */
bool ty_cuda_keep_source(CudaCode *c, const Text *text);
void ty_cuda_drop_source(CudaCode *c);
int ty_cuda_twin(const CudaCode *c,
                 CudaCode *twin); /* 1: it is there; 0: it comes later; -1: it never does */
bool ty_cuda_writer(CudaCode *c); /* what writes tables of parameters */

/* --- spans.c: what a profile notes of the devices, and what each plan's run was */

/* What a launch belongs to; see Device.label. */
typedef struct SpanLabel {
  i32 kind, plan, step, site;
  bool interpreted; /* by the interpreter of loop programs */
} SpanLabel;
typedef enum { SPAN_KERNEL, SPAN_GRAPH, SPAN_LIBRARY, SPAN_IN, SPAN_OUT, SPAN_ACROSS } SpanKind;
typedef struct Span {
  int device;
  SpanKind kind;
  SpanLabel label;
  i64 n;             /* bytes of copies; kernels of a graph */
  double begin, end; /* nanoseconds of ty_system_now */
  CUstream stream;
  bool ended;
  CUevent event[2]; /* until their times are read */
} Span;
extern _Thread_local SpanLabel ty_cuda_label;
extern _Thread_local DeviceRun ty_cuda_run_now; /* of the thread's plan, so far */
extern _Atomic bool ty_cuda_noting;             /* a profile runs */
void ty_cuda_span_label(i32 kind, i32 plan, i32 step, i32 site);
/* Around what goes to the device's stream, whose context is current: the place of a span, or -1 for none. */
i32 ty_cuda_span_begin(CUstream s, SpanKind kind, const SpanLabel *label, i64 n);
void ty_cuda_span_end(i32 span);
static inline i32 ty_cuda_span_on(CUstream s, SpanKind kind, const SpanLabel *label, i64 n) {
  return TY_UNLIKELY(ty_cuda_noting) ? ty_cuda_span_begin(s, kind, label, n) : -1;
}
static inline i32 ty_cuda_span(SpanKind kind, const SpanLabel *label, i64 n) {
  return ty_cuda_span_on(ty_cuda.stream, kind, label, n);
}
static inline void ty_cuda_spanned(i32 span) {
  if (TY_UNLIKELY(span >= 0)) ty_cuda_span_end(span);
}
void ty_cuda_spans_start(void);
/* Waits until all is done that was noted, and ends it: the spans, good until the next profile, and how many had no room. */
const Span *ty_cuda_spans_stop(i32 *n, i64 *lost);

/* --- machine.c, jobs.c */

/* As Machine says. make: a kernel of the thread's device. */
Kernel *ty_cuda_make(const Program *p);
bool ty_cuda_run(const Kernel *k, const Run *r);
bool ty_cuda_reserve(const Kernel *k, const Launch *l);
void ty_cuda_drop(Kernel *k);
size_t ty_cuda_bytes(const Kernel *k);
bool ty_cuda_takes(const Job *j);
bool ty_cuda_attends_halves(i64 features, i64 values);
bool ty_cuda_perform(const Job *j, void *const *buf, const u64 *scalar, const void *panels,
                     Stream *s, const char **err);

/* --- devices.c */

const Device *ty_cuda_device(int ordinal);

#endif
