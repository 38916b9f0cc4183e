/*
** call_library.h -- who carries out calls of plans (ir/call.h): a shared object that is loaded when it is first asked for.
** A plan's steps ask for them one by one, in its order, on the thread that runs it.
*/
#ifndef TY_CALL_LIBRARY_H
#define TY_CALL_LIBRARY_H

#include "ir/call.h"
#include "ir/program.h"

typedef enum {
  CALL_DONE,
  CALL_FAILED,  /* CallRun.err says why */
  CALL_AGAIN,   /* nothing was done: Lua runs the function in the plan's place */
  CALL_STOPPED, /* somebody wants an end of it */
} CallAnswer;

/* The run that it is a part of. */
typedef struct CallRun {
  u64 run;                        /* no other one has this number */
  const Stream *stream;           /* which errors are told to that come later (device/sides.h) */
  bool (*interrupted)(void *ctx); /* or NULL */
  void *ctx;
  const char *err; /* good until the next call */
} CallRun;

typedef struct CallLibrary {
  /* y: its result's memory, which holds the base already; it and x stay as they are until the end, and belong to it. On a device
  ** begin and end say what its queue does, and wait for nothing of it. */
  CallAnswer (*begin)(const AsyncCall *c, const void *x, void *y, CallRun *r);
  CallAnswer (*end)(const AsyncCall *c, void *y, CallRun *r);
  /* Between steps, and within long ones: all that has begun goes on. */
  void (*go_on)(void);
  /* A run with such calls ends early, since of `why`; NULL: since somebody wants an end of it. False: what has begun still
  ** uses its memory, which is kept. */
  bool (*leave)(u64 run, const char *why);
} CallLibrary;

#endif
