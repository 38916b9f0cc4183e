/*
** call.h -- what other shared objects do in a plan: a call begins at one step and ends at a later one, and may go on
** between them. Nodes name calls by number. Who registers one keeps it for ever.
*/
#ifndef TY_CALL_H
#define TY_CALL_H

#include "base/base.h"

typedef enum {
  CALL_DONE,
  CALL_FAILED,  /* CallRun.err says why */
  CALL_AGAIN,   /* nothing was done: Lua runs the function in the plan's place */
  CALL_STOPPED, /* somebody wants an end of it */
} CallAnswer;

/* The run that it is a part of. */
typedef struct CallRun {
  u64 run; /* no other one has this number */
  bool (*interrupted)(void *ctx); /* or NULL */
  void *ctx;
  const char *err; /* good until the next call */
} CallRun;

typedef struct AsyncCall {
  i64 takes;   /* bytes that it is given; 0: it finds them in its result's memory */
  i64 gives;   /* bytes of its result */
  i32 channel; /* calls of one channel begin in the order in which they were recorded */
  bool gate;   /* calls that are recorded later begin when it has ended, but for such as it */
  /* y: its result's memory, which holds the base already; it and x stay as they are until the end, and belong to it. */
  CallAnswer (*begin)(const struct AsyncCall *c, const void *x, void *y, CallRun *r);
  CallAnswer (*end)(const struct AsyncCall *c, void *y, CallRun *r);
  /* Between steps, and within long ones: all that has begun goes on. */
  void (*go_on)(void);
  /* A run with such calls ends early, since of `why`. False: what has begun still uses its memory, which is kept. */
  bool (*leave)(const char *why);
} AsyncCall;

i32 ty_call_register(const AsyncCall *c); /* its number, from 1; 0: out of memory, or there are too many */
const AsyncCall *ty_call_find(i32 number);     /* NULL: there is none */

#endif
