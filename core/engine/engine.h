/*
** engine.h -- the engine behind a State: plans made, kept and run; text of all that can be looked
** at.
** plan.c makes plans, cache.c keeps kernels and plans, exec.c runs a plan, dump.c prints,
** engine.c decides.
*/
#ifndef TY_ENGINE_H
#define TY_ENGINE_H

#include "base/text.h"
#include "compile/plan.h"
#include "device/device.h"
#include "record/tensor.h"

/* --- cache.c: kernels by program, for the whole process; plans by key, for one State. */
typedef struct CacheStats {
  i64 entries, bytes, hits, misses, evictions;
} CacheStats;

/* The kernel of the program on this machine, made when it is not there; NULL: out of memory, or
** not a program for the machine. Held until dropped; kernels that nobody holds stay until their
** memory is wanted. */
KernelEntry *ty_kernel_get(const Machine *m, const Program *p);
bool ty_kernel_guard(void); /* forks leave all of this whole; false: no memory */
const Kernel *ty_kernel_code(const KernelEntry *e);
const Program *ty_kernel_program(const KernelEntry *e);
void ty_kernel_drop(KernelEntry *e); /* NULL is nothing */
CacheStats ty_kernel_stats(void);

typedef struct PlanEntry PlanEntry;
typedef struct PlanCache {
  PlanEntry **bucket; /* a power of two of chains, or NULL */
  i32 nbuckets;
  i32 max; /* entries; 0: the default */
  i64 cap; /* bytes of plans and keys; 0: the default */
  PlanEntry *newest, *oldest;
  CacheStats stats;
} PlanCache;

/* The plan under the key, or NULL. Borrowed: hold it across whatever may put another plan. */
Plan *ty_cache_find(State *S, const void *key, size_t n, u64 hash);
/* Keeps the plan, which it holds, in place of the least recently used ones. False when it cannot
** be kept: the caller's own reference is as good as before. */
bool ty_cache_put(State *S, const void *key, size_t n, u64 hash, Plan *p);
void ty_cache_clear(State *S);
static inline Plan *ty_plan_hold(Plan *p) {
  p->refs++;
  return p;
}
void ty_plan_drop(Plan *p);

/* --- the State's engine; engine.c makes it, zeroed but for the device. */
typedef struct Engine {
  const Device *device; /* the CPU */
  PlanCache plans;
  Arena scratch;    /* of the compilation in progress */
  LowerRoom *room;  /* of the kernel that is lowered */
  bool tells_code;  /* ty_compile_text: machine code, too */
  u32 dump;         /* letters of TYCHO_DUMP: bit 0 is 'a' */
  bool check;       /* TYCHO_CHECK: verify after each pass */
  Choices *choices; /* of plans that are samples of a range of sizes (shape_range.c); else NULL */
  void (*say)(void *ctx, const char *s, size_t n); /* where dumps go; NULL: nowhere */
  void *say_ctx;
  struct Compiled *compiled; /* engine.c: its own */
  struct Panels *panels;     /* panels.c: packed weights */
  CacheStats panel_stats;
  i64 making; /* nanoseconds that plans and their kernels were made in */
} Engine;

#define DUMP_PROFILE (1u << 31) /* of Engine.dump: steps are noted */
static inline bool ty_dumps(const Engine *E, char letter) { return E->dump >> (letter - 'a') & 1; }

/* --- profile.c; see its head. False: another profile runs; none of this State does. */
bool ty_profile_start(State *S, bool sites);
bool ty_profile_stop(State *S); /* what was noted can then be read, until ... */
void ty_profile_leave(void);
void ty_profile_close(State *S); /* what is left of one of this State */
i32 ty_profile_plan(Plan *p);    /* the number under which it is held; -1: too many */
/* The number under which the sites of a plan's nodes are kept, as the recording that it runs has them; 0: none. */
i32 ty_profile_sites(i32 plan, const Recording *b);
/* Those of number k, NULL where there are none; false: there are no more numbers. */
bool ty_profile_sites_of(i32 k, i32 *n, const i32 **site);
const Plan *ty_profile_held(i32 i);

/* --- compile.c */

/* A plan that computes the outputs' nodes from the graph, refs 1, with its kernels. Nodes that no output needs do
** not count. out: node and write of each; one for every storage that gets a value. Input k is the
** k-th INPUT of the recording, input_node[k] its node; all inputs of the recording are given, also those
** that nobody reads. NULL: S->err. */
Plan *ty_compile_graph(State *S, const Graph *g, const Output *out, i32 nout, i32 ninputs,
                       const i32 *input_node);
/* Adds the graph, its groups and their programs, by the passes that made the plan. */
void ty_compile_text(State *S, const Source *from, Text *t);

/* --- engine.c: the plan of these outputs of the recording, held: found, or made and kept. NULL: S->err.
 */
Plan *ty_engine_plan(State *S, const Recording *b, Output *out, i32 n);

/* --- panels.c */

/* Panels (`bytes` of them, by ty_gemm_panels) of b, which lies in buf, held; NULL when there are none. */
typedef struct Panel Panel;
Panel *ty_panels_find(Engine *E, Buffer *buf, const Gemm *d, const void *b, i64 bytes);
const void *ty_panel_data(const Panel *p);
void ty_panel_drop(Panel *p);
void ty_panels_forget(State *S, Buffer *buf); /* as State.forget */
void ty_panels_clear(Engine *E);

/* --- exec.c */

/* Runs the plan on the recording's inputs and scalars. outbuf[k]: on entry the current
** buffer of the storage that output k is written to (borrowed), or NULL; on success the buffer
** with the result, one reference passed on: the same buffer where it could be written in place.
** In place needs that nobody but the storage and this recording's inputs (each holds one reference)
** has the buffer, that it is neither foreign nor exposed, and that no storage waiting for other
** nodes of the recording still needs its contents. Each storage that waits for an output's node must
** have an output of its own. False: S->err is set, and no buffer that anybody knows has changed. */
bool ty_exec_run(State *S, Plan *p, Recording *b, Buffer **outbuf);

/* --- dump.c: text of everything. */
size_t ty_dump_dot(const Graph *g, char *buf, size_t n); /* returns the length it wanted */
void ty_dump_graph(Text *t, const Graph *g);
void ty_dump_groups(Text *t, const Graph *g, const Groups *gs);
void ty_dump_program(Text *t, const Program *p);
void ty_dump_plan(Text *t, const Plan *p);
/* Gives the text to Engine.say under a title, and frees it. */
void ty_dump_say(State *S, const char *title, Text *t);
/* The bits of TYCHO_DUMP's letters. Appends the list of them for "help", and where there is none of that name. */
u32 ty_dump_letters(const char *given, Text *t);

#endif
