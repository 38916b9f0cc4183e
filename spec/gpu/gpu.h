/*
** gpu.h -- what the files of the software GPU share: a library with the names of NVIDIA's driver API that executes PTX
** text on the CPU and checks what a device would not tell. It is written from the PTX manual and the driver's reference.
**   memory.c   device memory: one shadow byte a byte says what is allocated and what is written
**   lex.c, parse.c, forms.c   PTX text to instructions: words, declarations, one table of instruction forms
**   build.c    instructions to code: registers become slots, names become addresses
**   run.c      warps: divergence, barriers, calls for lanes of one another
**   integer.c, real.c, half.c, compare.c, convert.c, access.c, lanes.c, matrix.c   what instructions do
**   context.c, module.c, queue.c, graph.c   the driver
*/
#ifndef SOFT_GPU_H
#define SOFT_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define COUNT(a) (sizeof(a) / sizeof *(a))

enum {
  WARP = 32,
  MAX_THREADS = 1024,
  MAX_WARPS = MAX_THREADS / WARP,
  MAX_OPERANDS = 8,
  MAX_PARAMS = 32764
};

/* Results of the driver that are used here: numbers of cuda.h. */
enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  DEINITIALIZED = 4,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  PEER_ACCESS_UNSUPPORTED = 217,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  INVALID_SOURCE = 300,
  FILE_NOT_FOUND = 301,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_OUT_OF_RESOURCES = 701,
  PEER_ACCESS_ALREADY_ENABLED = 704,
  PRIMARY_CONTEXT_ACTIVE = 708,
  CONTEXT_IS_DESTROYED = 709,
  ILLEGAL_INSTRUCTION = 715,
  MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719,
  NOT_PERMITTED = 800,
  NOT_SUPPORTED = 801,
  GRAPH_EXEC_UPDATE_FAILURE = 910,
  UNKNOWN = 999
};

/* --- types of PTX */

typedef enum Type {
  T_NONE,
  T_PRED,
  T_B8,
  T_B16,
  T_B32,
  T_B64,
  T_B128,
  T_U8,
  T_U16,
  T_U32,
  T_U64,
  T_S8,
  T_S16,
  T_S32,
  T_S64,
  T_F16,
  T_F16X2,
  T_BF16,
  T_BF16X2,
  T_TF32,
  T_F32,
  T_F64,
  T_COUNT
} Type;

extern const char *const type_names[T_COUNT];
int type_size(Type t); /* bytes; 0 for a predicate */
Type type_find(const char *name, size_t length);
bool type_is_float(Type t);
bool type_is_signed(Type t);
bool type_is_bits(Type t);

/* --- a module */

typedef enum Space {
  S_NONE,
  S_REG,
  S_PARAM,
  S_SHARED,
  S_CONST,
  S_GLOBAL,
  S_LOCAL,
  S_GENERIC,
  S_LABEL,
  S_FUNC
} Space;

typedef struct Variable {
  char *name;
  Space space;
  Type type;
  uint64_t size, align;
  uint64_t address;      /* device address, or offset in its window */
  uint8_t *init;         /* size bytes, or null */
  bool external, placed; /* extern .shared: the launch says its size */
} Variable;

typedef struct Warp Warp;
typedef struct Block Block;
typedef struct Code Code;
typedef void Run(Warp *w, const Code *c, uint32_t mask);

typedef enum Flow { F_RUN, F_BRA, F_BRX, F_EXIT, F_BAR, F_SYNC, F_TRAP, F_CALL, F_RET } Flow;

/* One instruction, ready to run. Slots are units of 32 x 4 bytes in a warp's registers; 8-byte registers take two. */
struct Code {
  Run *run;
  uint16_t o[MAX_OPERANDS]; /* slots of operands; of predicates their numbers */
  uint8_t n, op, type, from, round, space, width;
  bool plain, strong;                     /* strong: .volatile and the like */
  uint8_t flow, guard_not, ftz, sat, neg; /* neg: bit i says operand i is a negated predicate */
  uint16_t guard;                         /* 1 + predicate, or 0 */
  int32_t target;                         /* of a branch; elsewhere what the instruction needs */
  int64_t offset;                         /* of an address, or an immediate */
  const uint16_t *more;                   /* slots of vectors: n_more of them */
  uint16_t n_more;
  uint16_t reads, writes, preds_read, preds_written; /* counts in `touched`, in this order */
  const uint16_t *touched;
  int line;
};

enum { NO_SLOT = 0xffff };

typedef struct Special {
  int kind;
  uint16_t slot;
} Special;

typedef struct Constant {
  uint64_t bits;
  uint16_t slot;
  bool wide, patched;
} Constant;

typedef struct Module Module;

typedef struct Kernel {
  char *name;
  Module *module;
  int line;
  Variable *params;
  int n_params;
  uint32_t param_bytes;
  Code *code;
  int n_code, max_code;
  int n_slots, n_preds, pred_true; /* pred_true: 1 + a predicate that always holds, or 0 */
  Constant *constants;
  int n_constants;
  Special *specials;
  int n_specials;
  int *targets; /* of brx.idx: counts and lists */
  int n_targets;
  uint32_t shared_static, local_bytes;
  int granule; /* the smallest access to shared memory, as a power of two */
  int max_threads, required[3];
  int max_dynamic; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
  int carveout, cache_config;
  int unmarked; /* float add, sub, mul without a rounding: ptxas may contract them */
  int registers;
} Kernel;

struct Module {
  int device;          /* that it was loaded on */
  int version, target; /* 63 for 6.3; 75 for sm_75 */
  bool target_exact;   /* sm_90a: runs nowhere else */
  int address_size;
  Kernel **kernels;
  int n_kernels;
  Variable **variables;
  int n_variables;
  struct Arena *arena;
  Module *next;
};

/* --- memory that lives as long as a module */

typedef struct Arena Arena;
Arena *arena_new(void);
void *arena_grow(Arena *a, void *list, int n, int *max, size_t size); /* room for one more */
void *arena_alloc(Arena *a, size_t size);                             /* zeroed */
char *arena_text(Arena *a, const char *text, size_t length);
void arena_free(Arena *a);

/* --- PTX text */

typedef struct Log {
  char *text;
  size_t size, length;
  int errors;
} Log;

/* A module, or null with the log's text as ptxas writes it and *status the driver's result. */
Module *ptx_parse(const char *text, int device, Log *log, int *status);
void log_add(Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
Kernel *module_kernel(const Module *m, const char *name);
void module_free(Module *m);

/* --- launches */

typedef struct Launch {
  Kernel *kernel;
  uint32_t grid[3], block[3], dynamic;
  uint8_t *params; /* kernel->param_bytes */
} Launch;

/* Runs all blocks; gives the driver's result, with its report in `report_text`. */
int launch_run(const Launch *launch);

/* --- a running block */

typedef struct Tags { /* who used each granule of shared memory last (shared.c) */
  size_t n;
  uint32_t *write_clock, *write_at, *serial, *read_clock, *read_at, *readers;
} Tags;

enum { MANY = 0xff };

typedef struct Split { /* lanes of a warp that are at one place */
  int32_t pc;
  uint32_t mask;
  bool blocked;
} Split;

typedef struct Copy { /* of cp.async, not yet there */
  uint32_t to, size;
  uint32_t group; /* of its lane */
  uint8_t lane, bytes[16];
} Copy;

struct Warp {
  uint32_t *regs;    /* slots */
  uint32_t *preds;   /* a bit a lane */
  uint32_t *written; /* a bit a lane, by slot */
  uint32_t *preds_written;
  Block *block;
  int index;
  uint32_t lanes, live; /* that exist; that have not exited */
  uint32_t carry;
  Split splits[WARP];
  int n_splits;
  bool waits; /* at a barrier */
  int barrier;
  const Code *waits_at, *reduces;
  uint32_t serial; /* stores of this warp */
  uint32_t known;  /* the least of clock: what happened before is ordered */
  uint32_t
      clock[MAX_WARPS]; /* what this warp knows of the others' barriers; its own is what it is in */
  uint16_t sync;        /* bar.warp.sync that it passed */
  Copy *copies;
  int n_copies, max_copies;
  uint32_t commits[WARP]; /* groups that each lane committed */
  uint8_t *local;
};

typedef struct Barrier {
  int arrived, expected;
  uint32_t waiting;         /* warps */
  int threads, holds;       /* that came, and whose predicate holds (bar.red) */
  uint32_t join[MAX_WARPS]; /* what those that came know */
} Barrier;

struct Block {
  const Launch *launch;
  const Kernel *kernel;
  uint32_t id[3];
  uint64_t number;
  uint32_t serial; /* of the launch */
  int n_threads, n_warps;
  Warp warps[MAX_WARPS];
  uint8_t *shared, *shared_written;
  Tags tags;
  uint32_t shared_bytes;
  uint8_t *memory; /* registers, shared memory */
  size_t memory_bytes;
  Barrier barriers[16];
  int error; /* of the driver; what ends the launch */
  uint64_t steps;
};

/* Generic addresses of what is not global memory: windows that no allocation reaches. */
#define WINDOW ((uint64_t)1 << 32)
#define SHARED_WINDOW ((uint64_t)0xfd << 48)
#define LOCAL_WINDOW ((uint64_t)0xfc << 48)
#define PARAM_WINDOW ((uint64_t)0xfb << 48)

#define SLOT32(w, s) ((w)->regs + (size_t)(s)*WARP)
#define SLOT64(w, s) ((uint64_t *)((w)->regs + (size_t)(s)*WARP))

void special_fill(int kind, const Warp *w, uint32_t *out);

/* Ends the launch with a report that names kernel, line, block and thread. */
void fail(Warp *w, const Code *c, int lane, int error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* --- counts */

typedef struct Counts {
  uint64_t launches, blocks, warp_instructions, lane_instructions;
  uint64_t global_requests, global_sectors, global_ideal, global_bytes;
  uint64_t shared_requests, shared_wavefronts, shared_ideal;
  uint64_t copies, copied_bytes, allocations, graph_launches, barriers;
  uint64_t unwritten_copied; /* bytes that a copy to the host took and nobody had written */
} Counts;
extern Counts counts;

/* --- settings: SOFT_GPU_... of the environment, or set by soft_gpu_set */

typedef struct Settings {
  int capability;     /* 75, 80, 90 */
  int devices, peers; /* peers: devices may read one another's memory */
  int approximate;    /* allow .approx */
  int initialised;    /* report reads of what was not written */
  int races, blocks;
  int counting;
  int verbose; /* reports to stderr */
  int driver;  /* cuDriverGetVersion */
  uint64_t memory, seed;
  uint64_t fail_alloc, fail_launch, fail_load,
      lose_after; /* the nth of each from now, 0 is never */
  uint64_t steps; /* warp instructions of a block, after which it hangs */
} Settings;
extern Settings settings;
void settings_read(void);
bool injected(uint64_t *countdown); /* one of these comes to its end now */
uint32_t draw(uint32_t below);      /* a number by the seed */

extern char report_text[2048];
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- device memory */

enum { ALLOCATED = 1, WRITTEN = 3 }; /* values of a shadow byte; 0: nothing lives there */
enum { MOST_DEVICES = 8 };           /* each has a slice of the region */

typedef struct Region { /* device addresses, where they lie in this process, their shadow */
  uint64_t base, size;
  uint8_t *bytes, *shadow;
  uint64_t *writers; /* a word's last writer: launch and block (blocks.c) */
} Region;
extern Region device_region, pinned_region;

bool memory_start(void);
uint64_t memory_alloc(uint64_t size);   /* of the current device; 0: no room */
uint64_t memory_free(uint64_t address); /* gives its size, 0: not the start of one */
void *memory_alloc_pinned(size_t size);
bool memory_free_pinned(void *p);
bool memory_is_pinned(const void *p);
uint64_t memory_used(void);
int memory_device(uint64_t address); /* whose memory it is; -1: no device's */
int device_current(void);            /* of the context that is current */
bool memory_find(uint64_t address, uint64_t *base, uint64_t *size);
void memory_describe(uint64_t address, char *text, size_t size); /* where an address lies */
bool memory_live(uint64_t address, uint64_t size);               /* all of it is allocated */
void memory_reset(int device);
/* What the kernels see that run next: a device's memory, or those of all, its peers. */
void memory_see(int device, bool peers);
extern uint64_t seen_base, seen_size;

/* The region of an address, or null. */
static inline Region *region_of(uint64_t address) {
  if (address - device_region.base < device_region.size) return &device_region;
  if (address - pinned_region.base < pinned_region.size) return &pinned_region;
  return NULL;
}

/* The same for a kernel. */
static inline Region *region_seen(uint64_t address) {
  if (address - seen_base < seen_size) return &device_region;
  if (address - pinned_region.base < pinned_region.size) return &pinned_region;
  return NULL;
}

#endif
