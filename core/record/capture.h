/*
** capture.h -- what is noted while a capture records: where numbers, tensors and random streams come
** from, what data must be checked in later runs, what was written.
** Nothing is computed during a capture: whoever asks for a value ends it.
*/
#ifndef TY_CAPTURE_H
#define TY_CAPTURE_H

#include "record/tensor.h"

/* What a scalar of the graph is in later runs. */
typedef enum { SC_CONST, SC_NUMBER, SC_STREAM, SC_SEED } ScalarKind;
typedef struct ScalarFrom {
  u8 kind, dtype;
  i32 id;   /* NUMBER: of the expression */
  u64 bits; /* CONST: as they are; STREAM: how many streams were taken before */
} ScalarFrom;

/* A tensor from outside, by the number that the trace knows it by. Each is here as it was when it
** was seen first. */
typedef struct Outside {
  i32 slot;
  bool lone;  /* has a gradient of its own: another one in later calls must not share its memory */
  bool first; /* of those with this storage */
  Storage *snapshot; /* first: what the storage's snapshot was, held; see tape.c */
  Tensor t;          /* holds its storage */
} Outside;

/* An index whose elements a run must find in range before anything else happens. */
typedef struct IndexCheck {
  Tensor t; /* holds its storage */
  i64 size;
  int base;
  bool skips; /* elements that are `skip` name nothing */
  double skip;
} IndexCheck;

/* A storage from outside that the function writes to; `buf` is what it held. */
typedef struct Written {
  Storage *st;
  Buffer *buf;
  u32 version;
  Record *tape; /* held */
} Written;

/* What a backward pass gave to a leaf from outside, which stays as it is. */
typedef struct LeafGradient {
  i32 slot;
  Tensor g; /* as the leaf's storage lies */
} LeafGradient;

/* Numbers from here on are drawn by functions such as math.random, when nothing can stop the run any more: what they
** are decides nothing. */
#define DRAWN_NUMBERS 131072

#define SYMBOLS_MAX 8
struct Capture {
  Recording *recording;
  bool refused;
  char why[ERR_MAX];
  u64 stream, stamp, seq; /* of the State when it began; seq: of records */
  u32 origins;            /* likewise: tensor i from outside is origin `origins` + i + 1 */
  ScalarFrom *scalar;
  Outside *outside;
  IndexCheck *check;
  Written *written;
  LeafGradient *leaf;
  i32 nscalar, noutside, ncheck, nwritten, nleaf;
  i32 scalar_cap, outside_cap, check_cap, written_cap, leaf_cap;
  i32 symbol[SYMBOLS_MAX]; /* of the call in progress: argument i + 1 is this number expression */
  u32 taken;               /* bit i: symbol[i] became a run-time scalar */
  i32 whole
      [SYMBOLS_MAX]; /* expressions whose wholeness decided about a dtype; negative: not whole */
  i32 nwhole;
  i64 *
      decided; /* {a, b, kind} of sizes and strides, in threes. kind 0: whether they are equal decides between a view
                   and a copy; 1: which is greater decides whether elements share memory */
  i32 ndecided, decided_cap;
  i32 hooked; /* slot of the leaf from outside whose hooks were handed out last, or 0 */
  const u8 *
      of_rule; /* by tensor that is made: whether a rule alone has it, see TapeHandle; lent, or NULL */
  bool ranged; /* a sample of a range of sizes: what an interval tells holds for its sizes alone */
};

bool ty_capture_begin(State *S, Recording *b);
/* Puts back all that was written, and lets go of everything. The recording keeps no tensor alive. */
void ty_capture_end(State *S);
/* A value is needed now, or something would change: the capture is over. Always false. */
bool ty_capture_refuse(State *S, const char *why);
/* Whether the storage was made by the function itself, out of constants. */
bool ty_capture_is_fresh(const State *S, const Storage *st);

/* The expression that argument i (from 1) of the call is, or 0; it counts as taken. */
i32 ty_capture_take(State *S, int i);
void ty_capture_untake(State *S, i32 id); /* its value was looked at after all */
bool ty_capture_whole(State *S, i32 id, bool whole);
bool ty_capture_scalar(State *S, i32 slot, ScalarFrom from);
bool ty_capture_check(State *S, const Tensor *index, i64 size, int base, const double *skip);
/* y: elements of a tensor from outside, of whose copy x is a view; false: it is none. */
bool ty_capture_copied(const State *S, const Tensor *x, Tensor *y);
/* Whether x is contiguous, or a view of it has the dims of t (NULL: the first alone), is about to decide. */
bool ty_capture_decide(State *S, const Tensor *x, const Type *t);
/* Whether elements of a view share memory is about to decide. */
bool ty_capture_decide_distinct(State *S, const Type *t, const i64 *strides);
bool ty_capture_write(State *S, Storage *st); /* st is about to be written */
bool ty_capture_outside(State *S, Tensor *t, i32 slot);
/* Which tensor from outside t is, or was made of by views alone; -1: not known. */
static inline i32 ty_capture_from(const Capture *c, const Tensor *t) {
  u32 i = t->origin - c->origins - 1;
  return i < (u32)c->noutside ? (i32)i : -1;
}
/* The same as a number that is right while the capture lasts; 0: not known. */
static inline u32 ty_capture_origin(const State *S, const Tensor *t) {
  return ty_capture_from(S->capture, t) >= 0 ? t->origin : 0;
}
/* Whether a record is from before the capture: then only a leaf may be led to. */
bool ty_capture_is_old(const State *S, const Record *r);
bool ty_capture_holds(const State *S, const Storage *st); /* of a tensor from outside */
void ty_capture_lone(State *S, const Storage *st);
/* The first tensor from outside with the storage of number i; -1: it is not lone. */
i32 ty_capture_shares(const Capture *c, i32 i);
/* The tensor from outside that is a leaf with this record; NULL: refused, its origin is not known. */
const Outside *ty_capture_leaf_of(State *S, const Record *r);
/* A leaf from outside would get g, which is taken over. */
bool ty_capture_leaf(State *S, const Record *r, Tensor *g);

#endif
