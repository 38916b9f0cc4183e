/*
** traced_plan.h -- a plan for a backward pass through a call that a trace answered, or for a part of the call.
*/
#ifndef TY_TRACED_PLAN_H
#define TY_TRACED_PLAN_H

#include "engine/entry.h"
#include "engine/shape_range.h"
#include "record/traced_call.h"

/* Where the pass leads to: roots, and behind them the rows of a call with parts. */
static inline i32 ty_tape_leads(const TracedTape *T) { return T->nroot + (T->nrule ? T->nrow : 0); }

/* By lead. BEGINS: of a row of the part, that a gradient is on its way to it as the part begins. */
enum { LEAD_ASKED = 1, LEAD_RUNNING = 2, LEAD_BEGINS = 4 };

/* What a plan is given has a number: that of a value; behind these outputs, whose gradients come; behind these leads, to
** which something is on its way. */
typedef struct BackPlan {
  struct BackPlan *next;
  Instance *I;                     /* NULL: none can be made, or ... */
  ShapeRange *range;               /* ... it is this one's */
  Instance *sample[RANGE_SAMPLES]; /* the last one is made first */
  Choices choices;                 /* of these */
  i32 nsample;
  bool made;      /* all that can be */
  bool part;      /* it is of one: values that are remade are given */
  u64 word;       /* of the settings that it was made under */
  i32 first;      /* rows before it are not passed */
  i32 nin, nread; /* nread: values, which stand first */
  i32 ngive;
  bool all; /* every row is reached */
  u8 *key;  /* by output, by lead */
  i32 *in;
  i32 *give; /* by result: the lead that gets it */
} BackPlan;

BackPlan *ty_back_plan_new(const TracedTape *T, const u8 *key, u64 word); /* NULL: no memory */
void ty_back_plan_free(BackPlan *p);
/* Makes it, or one more sample of a plan for a range, for the call c, whose tape is for its sizes, and whose rows are marked
** that the pass `by` reaches. False: S->err. */
bool ty_back_plan_make(State *S, const Back *by, TracedCall *c, BackPlan *p);
/* The instance for calls of these sizes; NULL: there is none. */
Instance *ty_back_plan_at(BackPlan *p, i64 t);
/* Of what it is given, which is no value: a gradient, flat. */
Type ty_back_plan_type(const TracedTape *T, i32 what);

#endif
