/*
** trace.h -- what a capture becomes: a plan bound to where later calls find its inputs.
** An Instance belongs to one set of sizes. It knows tensors from outside by number: the caller gives
** those of the present call in that order.
*/
#ifndef TY_TRACE_H
#define TY_TRACE_H

#include "engine/engine.h"
#include "record/capture.h"
#include "record/grad.h"

/* A tensor from outside, as the instance needs it. */
typedef struct InstanceOutside {
  i32 slot;   /* where the caller finds it */
  i32 first;  /* the first one that shares its storage; itself otherwise */
  i64 delta;  /* its offset beyond that one's */
  i64 offset; /* written storages: its own offset and the storage's size must be these */
  i64 numel;
  bool written;
  bool lone;  /* nothing else may share its memory if the instance is strict */
  bool bound; /* of a first one: those with its storage must lie in it as they did */
  Type type;  /* which the instance is for, with the strides */
  i64 strides[MAX_RANK];
} InstanceOutside;

/* Tensor `outside` lies in the storage of tensor `first`, delta elements behind it. */
typedef struct InstanceShared {
  i32 outside, first;
  i64 delta;
} InstanceShared;

typedef struct InstanceInput {
  i32 outside; /* -1: a constant */
  i64 delta;   /* elements beyond the tensor's offset */
  Buffer *constant;
} InstanceInput;

/* What a plan's output is given to. */
typedef struct InstanceTarget {
  i32 outside; /* the tensor whose storage is written; -1: a new storage */
  u8 dtype, device;
  i64 numel;
  u32 writes; /* how often the function wrote */
  bool spent; /* a backward pass has used the graph up that leads to it */
} InstanceTarget;

/* A tensor that the function makes, as its results and effects need it. */
typedef struct InstanceMade {
  bool
      alias; /* a view of tensor `from` from outside, offset beyond its own; else of target `from` */
  bool detached; /* as it was: a guard holds that `from` is, or is not */
  bool of_rule;  /* it sees value `from` of the tape */
  i32 from;
  Type type;
  i64 offset, strides[MAX_RANK];
} InstanceMade;

typedef struct InstanceCheck {
  i32 outside;
  i64 delta, strides[MAX_RANK], size;
  Type type;
  int base;
  bool skips;
  double skip;
} InstanceCheck;

/* What a function that takes the plan's place is given and must give, by position. Target i is its
** result i. */
typedef struct Foreign {
  Node *input;  /* per input: type and strides */
  u8 *slot;     /* per scalar: dtype of its bits */
  Type *result; /* per target */
} Foreign;

/* A graph that takes the place of the captured one; without a graph a function does. */
typedef struct Replacement {
  const Graph *g;
  const i32 *output; /* nodes, in the order of ty_instance_outputs */
  i32 n;
} Replacement;

typedef struct TracedTape TracedTape; /* traced_call.h */

typedef struct Instance {
  Plan *plan;          /* NULL: nothing to compute */
  Recording recording; /* inputs and scalars of a run; no graph */
  bool writes;
  bool strict; /* tensors share memory in runs just as they did */
  u64 streams; /* random streams that a run takes */
  i32 noutside, nshared, ninput, nscalar, ntarget, nmade, ncheck;
  InstanceOutside *outside; /* large: a run that writes nothing does not look at it */
  InstanceShared *shared;
  InstanceInput *input;
  ScalarFrom *scalar;
  InstanceTarget *target;
  InstanceMade *made;
  InstanceCheck *check;
  TracedTape *tape; /* of results that need a gradient; or NULL */
  i64 *decided;     /* of a sample of a range of sizes: Capture.decided, taken over */
  i32 ndecided;
  Owner rules;     /* of the call that is about to run, for its tape */
  double *size;    /* what numbers of the trace come to for these sizes; the caller's */
  Storage **fresh; /* per target, while it runs */
  Buffer **result;
  Record *call;     /* the same: on the tape of results that need a gradient, or NULL */
  Text graph;       /* without a plan, which has its own */
  Foreign *foreign; /* not NULL: no plan, a function of the user's computes the targets */
} Instance;

/* From the session S->capture and the tensors that results and effects mention. by: NULL, or what
** computes instead of the captured graph. NULL: S->err. */
Instance *ty_instance_make(State *S, const Tensor *const *made, i32 nmade, const Replacement *by);
/* The nodes of the session's graph that such an instance computes; room for nmade and for each
** tensor that is written. False: S->err. */
bool ty_instance_outputs(State *S, const Tensor *const *made, i32 nmade, i32 *node, i32 *n);
void ty_instance_free(Instance *I);

/* Of the tensors' sizes; an instance's own is that of its `outside`. */
u64 ty_instance_hash(const Tensor *const *outside, i32 n);
u64 ty_instance_hash_own(const Instance *I);
/* Whether the tensors have the sizes and strides of the instance. */
bool ty_instance_fits(const Instance *I, const Tensor *const *outside);

/* Whether they share memory as it needs it. */
bool ty_instance_shares(State *S, const Instance *I, const Tensor *const *outside);

bool ty_tensor_has_layout(const Tensor *t, const Type *type, const i64 *strides);

typedef enum { READY_YES, READY_NO, READY_FAILED } Ready;
/* Computes inputs that are pending; NO: the tensors share memory in another way than they did, or an
** index is out of range, which *why says. FAILED: S->err. */
Ready ty_instance_ready(State *S, Instance *I, const Tensor *const *outside, const double *number,
                        const char **why);
extern const char ty_instance_moved[]; /* the reason that another instance would mend */

/* --- replace.c */
const char *ty_replace_fault(const Recording *b, const i32 *wanted, i32 n, const Replacement *by,
                             i32 *input);
Foreign *ty_foreign_new(const Recording *b, const i32 *wanted, i32 n); /* NULL: no memory */
void ty_foreign_free(Foreign *f);                                      /* NULL is nothing */

/* Fills the inputs and scalars of I->recording, which are lent: whoever asks sets recording.ninput to 0 afterwards. */
void ty_instance_bind(State *S, Instance *I, const Tensor *const *outside, const double *number);
/* All that it computes stands where it is called this time, for profiles; out of memory it is not known. */
void ty_instance_place(const State *S, Instance *I);
/* Runs, writes, and fills the handles; takes I->rules over, or drops them. False: S->err, and nothing has changed. */
bool ty_instance_run(State *S, Instance *I, const Tensor *const *outside, const double *number,
                     Tensor *const *made);
/* The same in parts, around a run of I->plan on I->recording, which gives I->result. begin: false: S->err. Then either
** end, or leave: nothing has changed. */
bool ty_instance_begin(State *S, Instance *I, const Tensor *const *outside, const double *number);
void ty_instance_end(State *S, Instance *I, const Tensor *const *outside, Tensor *const *made);
void ty_instance_leave(Instance *I);
/* What such a run needs of an instance, whatever becomes of that meanwhile. NULL: S->err. */
Instance *ty_instance_copy(State *S, const Instance *I);
/* The same for results that were computed elsewhere, one buffer for each target, taken over. */
bool ty_instance_give(State *S, Instance *I, const Tensor *const *outside, Tensor *const *made,
                      Buffer *const *result);
/* The backward pass goes on through the call that it waits at (BACK_CALL). False: S->err, and it waits there still. */
bool ty_traced_back(State *S, Back *b);
/* What plans for backward passes through calls of the tape do, the last one first; without steps: there is none, and the
** call's operations are gone back through. Gives how many there are. */
enum { TRACED_PLANS = 16 };
typedef struct TracedPlan {
  i64 operations, kernels, steps;
} TracedPlan;
i32 ty_traced_plans(const TracedTape *T, TracedPlan *y);

#endif
