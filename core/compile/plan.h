/*
** plan.h -- from a graph to a plan: groups (fuse.c), loop programs (lower.c), steps (plan.c).
** All three take a verified graph and cannot fail but for memory. They know no kernels and no device: who asks for a
** plan makes its programs run (engine/compile.c).
*/
#ifndef TY_PLAN_H
#define TY_PLAN_H

#include "ir/job.h"

/*
** Groups. Every node that must exist as a buffer ("stored") belongs to exactly one group, which
** computes it: by a kernel, a product, or a routine. Other nodes are recomputed inside the
** groups that read them. Groups stand in an order in which they can run.
*/
typedef enum { G_KERNEL, G_GEMM, G_ROUTINE } GroupKind;

typedef struct Group {
  u8 kind;
  i32 root;    /* the stored node with the highest number */
  i32 product; /* G_GEMM: the product; another node than the root when an epilogue follows, a chain of
                  maps that reads it element by element. -1: none */
  i32 nout;
  i32 *out; /* all stored nodes, root first; always one for G_ROUTINE, PUT, a product alone */
  i32 nin;
  i32 *in;    /* stored nodes and INPUTs it reads, each once, ascending */
  i32 base;   /* PUT, SCATTER*: the node (stored, or an INPUT of any layout) whose contents the
                 output's buffer must hold first; it is in `in` only if it is read besides. -1:
                 none (EMPTY, or all of it is overwritten) */
  i32 nnodes; /* nodes of the graph it computes, for explain and dumps */
  i32 *nodes;
  void *detail; /* fuse's and lower's own */
} Group;

typedef struct Groups {
  Group *group;
  i32 n;
  u8 *stored; /* per node: it has a buffer (INPUTs: 1) */
  i32 *of;    /* per node: its group when stored by one, else -1. An INPUT with a group has a
                 contiguous copy: that group reads the input's buffer and writes the copy, every
                 other reads the copy */
} Groups;

/* What the plans of one range of sizes choose by sizes, in order, where either way is right: as the first of them did. */
typedef struct Choices {
  u32 made[32];
  i32 n, at;
  bool first; /* of the plans */
} Choices;
void ty_choices_begin(Choices *c, bool first); /* of a plan */
bool ty_choose(Choices *c, bool here);         /* here: what these sizes suggest; c NULL: that */

/* want[i]: node i must be stored (an output of the graph; may be a leaf, a view, an INPUT: then
** a group copies it). fast: contraction allowed. choices: or NULL. False: out of memory. Everything lives in A. */
bool ty_fuse(Arena *A, const Graph *g, const u8 *want, bool fast, Choices *choices, Groups *y);

/* Work: what one group does. Operand i of the program is the buffer of node operand[i] (-1:
** none, for IOTA and the product before an epilogue). A stored node's buffer is contiguous and row-major in the node's dims (PUT and
** SCATTER*: in dims of operand 0); an INPUT's buffer has the layout of its Arg, the run adding
** the input's own offset. */
typedef struct Work {
  Program *program; /* G_KERNEL; G_GEMM: the epilogue, or NULL */
  Launch launch;
  i32 operand[MAX_OPERANDS];
  bool donate[MAX_OPERANDS]; /* reads it element by element just as the first output is written, and
                                only so: the output may take its memory */
  i32 scalar[MAX_OPERANDS * 2], nscalar; /* SCALAR imm n of the program is graph slot scalar[n] */
  Gemm gemm; /* G_GEMM: a and b are the buffers of nodes factor[0] and [1] from start[0], [1] */
  i32 factor[2];
  i64 start[2];
  i64 strides[MAX_RANK]; /* SCATTER*: of the index in its buffer, from start[0] on */
  i32 product; /* epilogue: the operand that is the product, laid out row-major in the launch */
  i32 nrows;   /* epilogue: so many dims of the launch are rows of the product, the rest columns */
  ListOp list[LIST_MOST]; /* epilogue: the program again, where it is such a list */
  i32 nlist, store;       /* store: as in GemmList */
  bool listed;
  i32 packed
      [MAX_SRC]; /* G_ROUTINE: the buffers of its node's operands, whose elements lie there row-major
                        without gaps from the buffer's start (packed[0] of SCATTER* is Group.base); but
                        those of ATTEND* as `attend` says, the index of SCATTER* as `strides` do;
                        -1: none */
  Attend attend;
} Work;
/* room: what it works in, made when first used and for any number of calls; the caller's to free. */
typedef struct LowerRoom LowerRoom;
bool ty_lower(Arena *A, LowerRoom **room, const Graph *g, const Groups *gs, i32 group, Work *y);
/* list.c: fills list, nlist, store, listed. */
void ty_list_find(Work *w);

/* plan_calls.c: the order of groups where there are calls of other libraries. */
typedef struct CallOrder {
  i32 n;      /* calls; where there are none the rest is NULL */
  i32 *group; /* groups in the order in which they are taken, if they can run */
  i32 *
      level; /* per group: which call, by the order in which they begin, needs it first; n: none does */
  i32 *begun; /* per group: so many calls begin before it */
} CallOrder;
bool ty_plan_calls(Arena *A, const Graph *g, const Groups *gs, CallOrder *y);

/* layout.c: pieces of memory by their lifetimes. */
typedef enum { PIECE_NONE, PIECE_GUEST, PIECE_ARENA, PIECE_OWNER } PieceKind;
typedef struct Piece {
  u8 kind; /* GUEST: needs a place. ARENA: one in the arena. OWNER: memory of its own, free before `first` */
  i32 first, last; /* positions: first write, last use */
  i32 owner;       /* out: the piece that a guest lies in, or -1: the arena */
  i64 bytes, offset;
} Piece;
/* Fills owner and offset of guests, and the bytes of the arena; false when out of memory. */
bool ty_layout(Arena *A, Piece *piece, i32 n, i64 *total);

/*
** Plan: steps over slots. Slots are input buffers, outputs, and pieces of one arena or of outputs
** that come later; slot 0 is none. A plan is one block of memory beside the kernels that it holds in the cache.
*/
typedef enum { SLOT_NONE, SLOT_INPUT, SLOT_OUTPUT, SLOT_TEMP } SlotKind;

typedef struct Slot {
  u8 kind;
  u8 esize; /* INPUT: bytes of an element, by which the input's offset counts */
  u8 device;
  u8 zero;    /* no byte is left to chance: plans are compared (engine/shape_range.c) */
  i32 k;      /* INPUT: number of the recording's input; OUTPUT: number of the output; TEMP: that of
              the output, not yet written, whose memory it lies in; -1: the arena's; -2: none's,
              a block of its own */
  i64 offset; /* TEMP: byte offset there */
  i64 bytes;
} Slot;

typedef enum { STEP_KERNEL, STEP_GEMM, STEP_ROUTINE, STEP_COPY } StepKind;

typedef struct KernelEntry KernelEntry; /* of the kernel cache */

typedef struct Plan Plan;
typedef struct Step {
  u8 kind;
  u8 noperands;
  u8 device;              /* where it is done */
  bool away;              /* attached: the device refuses it, the CPU does it with copies */
  u16 op;                 /* of the root, for dumps */
  i32 node;               /* root */
  u32 writes;             /* operands that are written, as bits */
  i32 slot[MAX_OPERANDS]; /* KERNEL: operands; others: those of the job */
  /* KERNEL; GEMM: the epilogue, or NULL when there is none. What runs it is attached by the engine, after which
  ** `program` is no more: it lies in the arena of the compilation. */
  const Program *program;
  const Machine *machine;
  KernelEntry *entry; /* holds the kernel */
  const Kernel *kernel;
  Launch *launch;
  i32 *scalar; /* SCALAR n of the program is slot scalar[n] of the graph's scalars */
  i32 nscalar;
  Job *job;   /* of what is no KERNEL */
  Plan *body; /* attached to a LOOP: the plan of a turn, held */
  bool packs; /* GEMM: b is an input, which may serve many runs: it may be packed ahead */
  i64 panels; /* attached: bytes of b's panels, where that is worth it; or 0 */
} Step;

/* An output of a plan: one for each storage that gets a value. A node is computed once: a fresh output shares the buffer
** of another one of its node (writes to a storage copy what others hold), a written one gets a copy. */
typedef struct Output {
  i32 node;
  i32 write; /* -1: a fresh buffer. Else: the number of the recording's input that is the written
                storage's buffer, or -2 when the graph does not read that storage: its own buffer
                may be taken */
  i64 bytes;
  u8 device;
  bool own; /* a buffer of its own, whatever it holds: a turn of a loop writes to given memory */
  /* Filled by plan.c. */
  bool inplace; /* every reader of the buffer is done before, or reads as it is written, and no step
                   that can fail follows: where nobody else holds the buffer, it may be the output
                   itself. With write = -1 that is the buffer of input `donor`, when it dies here */
  i32 donor;    /* the recording's input that is read as it is overwritten, or -1 ... */
  i64 at;    /* ... which is in place only where the input begins at this element of its buffer */
  i32 pins;  /* references that the recording's inputs hold to the buffer */
  i32 same;  /* the output whose buffer it shares, or -1 */
  i32 first; /* step that writes it first; a copy that is skipped in place does not count */
  bool
      long_after; /* attached: from there on the steps take longer than somebody should wait who wants them stopped */
} Output;

/* What a plan was made from, one block that can be copied: enough to make the text of its passes when
** somebody asks for it. */
typedef struct Source {
  size_t bytes;
  i32 n, nscalar, nout;
  bool fast;
  Node node[]; /* behind them: the scalars, as they were then; the outputs' nodes */
} Source;

struct Plan {
  i32 refs;
  i32 nsteps, nslots, noutputs, ninputs, nscalars;
  i32 nloops; /* LOOP nodes of the source, whose bodies it holds */
  Step *step;
  Slot *slot;
  Output *output;
  u8 device;   /* the arena's: other devices' temporaries are blocks of their own */
  bool apart;  /* there are such */
  bool checks; /* a device may find an error as it runs: JOB_POSITIONS */
  const struct CallLibrary *library; /* attached: who carries out its calls, or NULL */
  i64 arena;                         /* bytes of temporaries that lie in no output */
  i32 nkernels;                      /* kernel steps */
  i64 bytes_moved;                   /* read and written by the steps */
  i64 bytes_saved;                   /* by unfused operations beyond that */
  i64 nops;                          /* operations the user wrote, as nodes */
  double time;                       /* attached: nanoseconds of the steps on one thread, roughly */
  i64 bytes;                         /* of the plan itself */
  DeviceRun ran;                     /* as its device tells */
  Source *source;
};

/* What is to be planned. Input k is the k-th INPUT, input_node[k] its node. */
typedef struct Task {
  const Graph *g;
  const Output *out; /* node and write of each, one for every storage that gets a value */
  i32 nout, nin;
  const i32 *input_node;
  bool fast;     /* contraction allowed */
  bool reserves; /* kernels cannot fail once their launches are reserved */
  Choices
      *choices; /* of a plan for a range of sizes, whose temporaries lie in no output; else NULL */
} Task;

/* What the passes before the plan made of it. */
typedef struct Passes {
  Groups gs;
  Work *work; /* per group */
} Passes;

/* fuse, then lower every group. All lies in A. room: see ty_lower. */
bool ty_plan_passes(Arena *A, LowerRoom **room, const Task *task, Passes *y);
/* The plan, refs 1, whose programs lie in A; or NULL. */
Plan *ty_plan_make(Arena *A, const Task *task, const Passes *passes);
/* NULL when no two live temporaries overlap and every read follows a write, else what is wrong. */
const char *ty_plan_check(const Plan *p);

#endif
