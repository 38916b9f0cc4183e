/*
** grad.h -- reverse mode: the tape, and the backward pass along it.
** What is tracked is the value of a Storage, not a handle: `tape` of a storage tells where its present
** contents came from. A Record is one operation of the user's; its operands are Edges, which lead to the
** records of the storages that were read. Records hold earlier ones, never their own result: no cycles.
*/
#ifndef TY_GRAD_H
#define TY_GRAD_H

#include "record/tensor.h"

/* Kinds beyond the operations. WATCH is the start of a ty.grad, whose gradient is asked for by name. CALL and RESULT
** are those of traced_call.h. */
enum { K_LEAF = OP_COUNT, K_WATCH, K_CAT, K_CUSTOM, K_OUT, K_NONE, K_CALL, K_RESULT };
typedef struct TracedCall TracedCall;

typedef struct Edge {
  Record *from;   /* held; NULL: no gradient goes there */
  Storage *saved; /* held and frozen: the operand's value, where the rule reads it */
  Tensor t;       /* dims and layout of the operand; no storage */
  i64 numel;      /* of its storage */
  bool is_number;
  i32 symbol; /* a capture's name for the number */
  double number;
} Edge;

/* What the owner of a CUSTOM is: its rule, with the binding's data behind it. */
typedef struct Rule {
  i32 refs;
  bool (*alike)(const struct Rule *, const struct Rule *); /* whether both do the same */
} Rule;

/* A gradient on its way to a record. A record has one for each Back that has reached it. */
typedef struct Pending {
  struct Pending *next;
  struct Back *back;
  Record *r;
  Tensor g;     /* empty, or in any dims that hold the storage's elements in order */
  Tensor *part; /* CUSTOM and CALL: of each result */
  Tensor made;  /* ATTEND: the gradients of all operands */
} Pending;

struct Record {
  State *S;
  i32 refs;
  u16 kind;
  bool freed;   /* a backward pass has used it up */
  bool keeps;   /* CUSTOM: tensors that its rule reads stand behind its inputs */
  bool pure;    /* the same, and the rule reads nothing else */
  bool retains; /* of its hooks one keeps the gradient, as `grad` of the tensor, which is no leaf */
  u8 room;      /* for so many edges, see ty_record_alloc */
  u8 cast; /* autocast's dtype + 1 where it was recorded: its gradient's products are computed as it was */
  i32 n;    /* edges */
  i32 site; /* where it was recorded, see State.site */
  u64 seq;  /* ascends in the order of recording */
  Record *next_dead;
  Pending *pending;
  Tensor
      t; /* dims of the result; PUT: the view that was written; OUT: the result; LEAF: the gradient,
               with its storage */
  u32 dims; /* REDUCE: bit set; CUSTOM: which of the rules that its owner has, from 1; 0: there is one */
  i32 dim,
      base; /* dim of SCAN and MOVE and cat; CUSTOM, CALL: results; OUT, RESULT: which; base of its index; CUSTOM: inputs */
  u64 walk; /* a walk's own, see State */
  Owner *hook; /* of the user's: is handed its gradient, complete, before it goes on; or NULL */
  union {
    Owner owner; /* of what CUSTOM and ATTEND keep: told when it dies */
    struct {
      TracedCall *call;  /* CALL: its own; NULL: it was used up */
      const Storage *of; /* RESULT: that it was made for, NULL: it is gone */
    };
  };
  Edge edge[];
};

typedef enum { NEEDS_NOT, NEEDS_LEAF, NEEDS_TAPED } Needs;
static inline Needs ty_needs(const Tensor *t) {
  if (TY_LIKELY(!t->st->tape) || t->detached) return NEEDS_NOT;
  return t->st->tape->kind == K_LEAF ? NEEDS_LEAF : NEEDS_TAPED;
}
/* The record that holds x's gradient; NULL: x is no leaf. */
static inline Record *ty_grad_leaf(const Tensor *x) {
  return ty_needs(x) == NEEDS_LEAF ? x->st->tape : NULL;
}
static inline bool ty_needs_grad(const Tensor *t) { return t->st->tape && !t->detached; }
/* Whether x is taped for all examples of a vmap, seen from outside of it. */
bool ty_grad_beyond(const Tensor *x);
/* tensor.c, as storages and records hold each other. forget: lets go of what it leads to and keeps. */
void ty_record_drop(Record *r);
/* Memory for a record of n edges, of which `room` must be set to TY_MIN(n, UINT8_MAX); NULL: there is none. */
Record *ty_record_alloc(State *S, i32 n);
void ty_record_forget(Record *r);
static inline Record *ty_record_hold(Record *r) {
  r->refs++;
  return r;
}
void ty_grad_set_mode(State *S, bool on);
static inline void ty_grad_track(State *S) { S->tracks = S->grad_mode && S->records > 0; }

/* An operation that was recorded. */
typedef struct TapeEntry {
  int kind;
  i32 n;
  const Given *src;
  u32 dims;
  i32 dim, base;
} TapeEntry;
/* Called with the result where S->tracks: tapes it if an operand needs a gradient. False: y is let go of. */
bool ty_grad_note(State *S, const TapeEntry *k, Tensor *y);
/* A write of x to dst by `write`, and its tape. */
bool ty_grad_assign(State *S, const char *who, const Tensor *dst, const Given *x,
                    bool (*write)(State *S, const char *who, const Tensor *dst, const Given *x));
/* y: the contents of x in a storage of its own that starts (watch), or goes on as x's does. */
bool ty_grad_watch(State *S, const Tensor *x, bool watch, Tensor *y);
bool ty_grad_require(State *S, Tensor *x, bool on);
Record *ty_record_new(State *S, int kind, i32 n,
                      const Given *src); /* seq given; edges filled, nothing saved */

/* The value of operand j as it was kept, in that dtype (bool and indices: as they are). */
bool ty_grad_operand(State *S, const Record *r, int j, int dtype, Tensor *y);

/* A frozen storage with st's contents, refs 1: later writes to st do not reach it. */
Storage *ty_grad_freeze(State *S, Storage *st);
/* The same, which is let go of when st is written; held. */
Storage *ty_grad_snapshot(State *S, Storage *st);

/* One backward pass. */
typedef struct Back {
  State *S;
  Pending **heap; /* by seq, the latest first */
  i32 n, cap;
  Pending *spare;     /* of records that are done */
  Pending *at;        /* in work */
  i32 i;              /* its next edge */
  bool hooks, hooked; /* its hooks are being called; they were */
  bool retain, create;
  /* Runs the rule of the CUSTOM at hand, a pure one, under a Lazy of `thread` and `pinned`. */
  bool (*custom)(struct Back *b);
  void *thread, *pinned;
  Record *in;      /* held: a CALL that was expanded, which it goes through part by part; or NULL */
  bool calls_only; /* it stops before rules that would be recorded */
  bool at_once;    /* what is open was opened for it: it is cut before leaves change */
  u64 floor;       /* records before this one are asked for where they are wanted, and not passed */
  i32 nwanted;
  struct Wanted {
    Record *r; /* held */
    Tensor g;
  } * wanted; /* not NULL: leaves are left alone */
  i32 nleaf, leaf_cap;
  struct Wanted *leaf; /* gradients to be given when all is done */
} Back;

bool ty_back_seed(Back *b, const Tensor *y, const Tensor *g); /* g in y's dims */
typedef enum { BACK_DONE, BACK_CUSTOM, BACK_CALL, BACK_RULE, BACK_HOOK, BACK_FAILED } BackState;
/* Goes on; may be called again after running out of memory. CUSTOM: b->at waits for ty_back_give, and
** then ty_back_pass. CALL: for ty_back_expand, or ty_back_lead for its roots and then ty_back_pass; or, of a row of b->in, for ty_back_leave, or the same and ty_back_skip. RULE: for the next call,
** without calls_only. HOOK: b->at->g may be another one after it, and then ty_back_pass. */
BackState ty_back_step(Back *b);
bool ty_back_give(Back *b, i32 edge, const Tensor *g);
void ty_back_pass(Back *b);
/* Whether the call at hand may be left to a plan; else it is expanded. */
bool ty_back_may_plan(const Back *b);
/* Marks the rows of the call at hand that the pass reaches; false: an earlier one has freed some. */
bool ty_back_reach(const Back *b);
/* The call at hand goes on as the records that it stands for; in_parts: those between rules may be left to plans. */
bool ty_back_expand(Back *b, bool in_parts);
/* The call in b->in goes on along its records. */
void ty_back_leave(Back *b);
/* What is on its way to records behind number seq is done. */
void ty_back_skip(Back *b, u64 seq);
/* Whether something is on its way to r: a gradient, or of a CUSTOM's results. */
bool ty_back_is_due(const Back *b, const Record *r);
/* Whether r has hooks, or its gradient is asked for by name. */
bool ty_back_is_wanted(const Back *b, const Record *r);
/* Adds g, flat, to what is on its way to r. */
bool ty_back_add(Back *b, Record *r, const Tensor *g);
/* What is on its way to r so far; NULL: nothing. asked: whether the pass goes there. */
const Tensor *ty_back_running(const Back *b, const Record *r, bool *asked);
/* What is on its way to r[i] is g[i] from now on, which is what was with what comes from the call at hand. False: S->err,
** and none is. */
bool ty_back_lead(Back *b, Record *const *r, Tensor *g, i32 n);
void ty_back_free(Back *b);
/* Begins another pass in the memory of one that is done. */
void ty_back_again(Back *b, State *S);
/* Whether y depends on a leaf, or on a watch before seq. What is taped for all examples of a vmap counts. */
bool ty_back_reaches(State *S, const Tensor *y, u64 seq, bool *yes);
/* The leaves, and the records before seq, that n tensors were made from: held, in a list that is the caller's. */
bool ty_back_roots(State *S, const Tensor *const *y, int n, u64 seq, Record ***list, i32 *count);

/* --- grad_words.c */
/* Whether the rule for operand i reads operand j; i goes without gradient. */
bool ty_rule_reads(int op, int i, int j);
bool ty_rule_none(int op, int i);

/* --- grad_rules.c */
/* Adds the gradient of edge i to y, in the dims of its storage's elements. y may be empty, and stays so for a
** gradient of zero. */
bool ty_rule_apply(State *S, const Record *r, const Tensor *g, int i, Tensor *y);
/* grad_attend.c: the gradient of operand i of ATTEND; g: flat, as its result. */
bool ty_attend_rule(State *S, const Record *r, const Tensor *given, const Tensor *g, int i,
                    Tensor *y);
/* What a record of ATTEND keeps besides its operands: its result, flat, which has no storage in a vmap. */
const Tensor *ty_attend_kept(const Record *r, Attention *how);
bool ty_attend_keep(State *S, Record *r, const Tensor *flat, const Attention *how);
bool ty_rule_join(State *S, Tensor *sum, const Tensor *g); /* sum = sum + g */
/* Adds g, the gradient of a view, to y, that of its storage, which may be empty. */
bool ty_rule_unview(State *S, const Edge *e, const Tensor *g, Tensor *y);
/* Of g, the gradient of a storage with so many elements, what belongs to the view x of it. */
bool ty_rule_see(State *S, const Tensor *g, const Tensor *x, i64 numel, Tensor *y);
#endif
