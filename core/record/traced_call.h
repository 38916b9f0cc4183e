/*
** traced_call.h -- a call that a trace answered, as one record of the tape.
** A TracedTape is what a captured function recorded on the tape, kept with its plan. Each call makes a CALL record over
** the values of that call, and a RESULT record for each storage that it gives and that needs a gradient.
*/
#ifndef TY_TRACED_CALL_H
#define TY_TRACED_CALL_H

#include "ir/patch.h"
#include "record/capture.h"
#include "record/grad.h"

/* Where contents came from: a record of the tape by its number, behind these a root; or nowhere. */
enum { FROM_NONE = -1 };

/* OUTSIDE: what a tensor from outside held before the call. TARGET: what the call's plan computes. REMADE: it is not kept,
** but computed again from others. */
typedef enum { VALUE_OUTSIDE, VALUE_TARGET, VALUE_CONSTANT, VALUE_REMADE } ValueKind;

/* A value that rules read. */
typedef struct TapeValue {
  u8 kind;
  bool shown; /* TARGET: others may write to its storage */
  bool own;   /* TARGET: a storage of its own, as it is shown, or one target is several values */
  bool apart; /* writes to the tensor that it came from do not reach it */
  i32 of;     /* number of the tensor from outside; of the target */
  i32 from;
  Storage *st; /* CONSTANT: held; TARGET: that of the capture, while it is open */
  Type type;   /* OUTSIDE: of the tensor, with strides; else a line */
  i64 strides[MAX_RANK];
} TapeValue;

typedef struct TapeEdge {
  Edge like;            /* holds nothing; OUTSIDE values: offset beyond the tensor's */
  i32 row, from, value; /* value: -1: none is read */
} TapeEdge;

typedef struct TapeRow {
  Tensor t;
  u32 dims;
  i32 site, dim, base, n,
      edge;      /* edge: number of the first one; behind those of ATTEND is what it keeps */
  Attention how; /* ATTEND */
  Owner
      owner; /* CUSTOM, pure: of its rule, held. Those of others come with each call: `dims` counts them */
  u16 kind;
  u8 cast;
  bool freed, keeps, pure;
} TapeRow;

/* A tensor from outside that leads to a root: the record that its storage holds. */
typedef struct TapeRoot {
  i32 outside, root, first; /* first: the first tensor from outside that leads there */
  i64 offset;
  Type all; /* of all of its storage */
} TapeRoot;

typedef struct TapeOutput {
  i32 from, target;
  Storage *st; /* that of the capture, while it is open */
  Type all;    /* of all of it */
} TapeOutput;

/* A tensor that a rule has, which sees a value that the call keeps. */
typedef struct TapeHandle {
  i32 made, value;
} TapeHandle;

/* Of a REMADE value: the values that it follows from, n of the tape's leaves. */
typedef struct TapeRemade {
  i32 value, first, n;
} TapeRemade;

/* Of a tape for a range of sizes. */
typedef struct TapeSizes {
  Patches patches;
  i64 now, last;      /* the tape is as it is for the sizes at `now` */
  RangeNumber *given; /* numbers that operations were given */
  i32 ngiven;
  const char *unfit; /* why a plan for a backward pass is none for the range; or NULL */
} TapeSizes;

typedef struct TracedTape {
  State *S;
  TapeSizes *sizes; /* NULL: it is for one set of sizes */
  i32 refs;
  i32 nrow, nedge, nvalue, noutput, nroot, nleading, nrule, nhandle, nremade,
      nnumber;  /* nnumber: of the trace's, 0: none are read */
  bool spent;   /* some rows were freed in the capture */
  TapeRow *row; /* in the order of recording */
  TapeEdge *edge;
  TapeValue *value;
  TapeOutput *output;
  TapeRoot *leading;
  TapeHandle *handle;
  TapeRemade *remade;
  i32 *leaf;
  Owner remake;      /* the engine's: what computes REMADE values */
  Owner plans;       /* the engine's, for the backward pass */
  Tensor *room;      /* and what it works in, while no pass does; or NULL */
  TracedCall *spare; /* memory of a call that is over, for the next one; or NULL */
} TracedTape;

struct TracedCall {
  TracedTape *tape; /* held */
  i64 t;            /* its sizes, where the tape is for a range */
  u64 seq;          /* before the first row's */
  Record **root;    /* held */
  Storage **saved;  /* by value; NULL: let go of */
  i64 *offset;      /* OUTSIDE values: of the tensor */
  double *number;
  u64 seed, stream; /* of random numbers, when the call began */
  bool restored;    /* REMADE values are among `saved` */
  bool partly;      /* some rows are freed */
  bool all;         /* the pass at hand reaches every row; `row` may be of an earlier one */
  bool in_parts;    /* a pass goes through it in parts: it keeps `saved` and `root` meanwhile */
  Owner rules;      /* of the call's rules; drop NULL: there are none */
  u8 *freed;        /* by row */
  u8 *row, *given, *read; /* of a walk: rows that are reached; outputs with gradients; values */
  Record **made;          /* by row, held, where the call was expanded; else NULL */
  Record **result;        /* until the call has run: held */
};

/* What the capture recorded and made[] lead to; *y NULL where no gradient is needed. False: refused, or S->err. */
bool ty_traced_tape_new(State *S, const Tensor *const *made, i32 n, TracedTape **y);
/* The CUSTOM records among that whose rules later calls bring: a list of the caller's, in the order of their rows. False:
** refused, or S->err. */
bool ty_traced_tape_rules(State *S, const Tensor *const *made, i32 n, const Record ***list,
                          i32 *count);
void ty_traced_tape_drop(TracedTape *T);
void ty_traced_sizes_free(TapeSizes *s);
/* Makes it what it is for the sizes at t of its range. Cannot fail. Calls of all sizes use it in turn: whoever reads dims,
** layouts or numbers of it for a call asks for the call's sizes first. */
void ty_traced_tape_set(TracedTape *T, i64 t);
static inline void ty_traced_tape_at(TracedTape *T, i64 t) {
  if (TY_UNLIKELY(T->sizes != NULL) && T->sizes->now != t) ty_traced_tape_set(T, t);
}
/* The tensor from outside with that number as one that leads to a root; NULL: it does not. */
const TapeRoot *ty_traced_tape_leading(const TracedTape *T, i32 outside);
/* Whether the tensors lead to as many roots as they did. */
bool ty_traced_tape_fits(State *S, const TracedTape *T, const Tensor *const *outside);

/* What calls keep as value i: of which type the operation `by` reads it, and how many bytes are kept that those before it
** do not keep already; of a REMADE one how many are not. */
typedef struct TapeKept {
  Type type;
  i64 bytes;
  const char *by;
} TapeKept;
void ty_traced_tape_kept(const TracedTape *T, i32 i, TapeKept *y);

/* The CALL record of a call that is about to run; NULL: out of memory. rules: of T->nrule rules, taken over. */
Record *ty_traced_call_new(State *S, TracedTape *T, const Tensor *const *outside,
                           const double *number, Owner *rules);
/* The call has run: target[] are its storages, whose tapes lead to it now. Cannot fail. */
void ty_traced_call_settle(Record *r, Storage *const *target);
/* Lets go of all that the call keeps. */
void ty_traced_call_forget(Record *r);
/* The storage of a RESULT is about to be written. */
void ty_traced_call_touch(const Record *result, const Storage *st);

/* Marks in c->row what outputs whose c->given is not 0 lead to. false: a backward pass has freed some. */
bool ty_traced_call_reach(const TracedCall *c);
/* Marks in c->read the values that those rows read; freed: that others may read yet. */
void ty_traced_call_reads(const TracedCall *c, bool freed);
/* Those rows are freed; true: nothing is left. */
bool ty_traced_call_free(TracedCall *c);
/* Makes a record of each row, over these values and roots; `made` holds them. */
bool ty_traced_rows(State *S, const TracedTape *T, u64 seq, Storage *const *saved,
                    Record *const *root, const i64 *offset, const double *number, const u8 *freed,
                    const Owner *rules, Record **made);
/* Whether rules that calls bring are among the rows that are reached. */
bool ty_traced_call_has_rules(const TracedCall *c);
/* The same for the call itself, which holds them from then on; its REMADE values are restored. */
bool ty_traced_call_expand(State *S, TracedCall *c);
/* The pass that goes through it part by part is done with it: its records hold what they need. */
void ty_traced_call_leave(TracedCall *c);
/* Whether row i is where such a part ends: a rule that each call brings, or a result of it. */
bool ty_traced_tape_breaks(const TracedTape *T, i32 i);
/* Whether the engine is to restore REMADE values before it can be expanded. */
static inline bool ty_traced_call_lacks(const TracedCall *c) {
  return c && !c->made && !c->restored && c->tape->nremade;
}
/* What a record stands for: of a RESULT whose call was expanded, the record of that row. */
Record *ty_traced_call_real(Record *r);

#endif
