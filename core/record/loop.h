/*
** loop.h -- loops whose body is recorded once: what ty.scan stands on.
** A turn's function runs once, on parameters in the open recording. What it made of them becomes the body of one LOOP;
** what it made of other things is computed once, and constant in the body.
*/
#ifndef TY_LOOP_H
#define TY_LOOP_H

#include "record/grad.h"

/* From the first parameter until the loop is recorded. Loops nest. */
typedef struct LoopScope {
  State *S;
  struct LoopScope *outer;
  Recording *recording; /* held while it is open */
  i32 first;            /* node of it that was recorded since */
  u64 stream, seq;      /* of the State when it began; seq: of records */
  struct LoopBefore {
    Storage *st; /* waited for the recording then; held */
    u32 version;
  } * before;
  Tensor *taped; /* tensors from before that need gradients and were used, one for each record */
  i32 *param;    /* nodes of the parameters, in the order of their making */
  i32 nbefore, ntaped, taped_cap, nparam, param_cap;
} LoopScope;

/* The open recording is to take a body: false: there is none, or no memory. */
bool ty_loop_begin(State *S, LoopScope *l);
void ty_loop_end(LoopScope *l); /* may be called again */
/* Whether operations are recorded for it now: its function may have ended by an error. */
static inline bool ty_loop_records(const State *S) {
  return S->loop && S->open && S->loop->recording == S->open;
}
/* Whether it was there before the turn. */
bool ty_loop_outside(const LoopScope *l, const Storage *st);
/* An operand of a tape's record. False: out of memory. */
bool ty_loop_note(State *S, const Tensor *x);
/* y: of that type, with a value in each turn. */
bool ty_loop_param(LoopScope *l, const Type *t, Tensor *y);

typedef struct LoopCall {
  i32 ncarried, nrows, nmade;
  const Tensor *const *init, *const *next;
  const Tensor *const *sequence; /* a row lacks the first dim */
  const Tensor *const *made;
  i64 turns;
  i32 order; /* bits, as LOOP has them */
} LoopCall;
/* The parameters are those of carried values, then of rows. y: ncarried last values, then nmade results with a dim of
** turns in front. The scope has ended then. False: S->err. */
bool ty_loop_record(LoopScope *l, const LoopCall *c, Tensor *const *y);
/* A hash of what the turn makes of its parameters, and of the very values that are constant in it. 0: no memory. */
u64 ty_loop_hash(LoopScope *l, const Tensor *const *x, i32 n);
/* Marks in outside[], by number, the tensors from outside of the capture whose elements the turn reads to make these. False:
** out of memory. */
bool ty_loop_reads(LoopScope *l, const Tensor *const *x, i32 n, u8 *outside);
/* The function has failed: what it made of parameters has no value, and what it wrote of them is undone. */
void ty_loop_forget(State *S, Recording *b);

#endif
