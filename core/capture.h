/*
** capture.h -- what is noted while a capture records: where numbers, tensors and random streams come
** from, what data must be checked in later runs, what was written.
** Nothing is computed during a capture: whoever asks for a value ends it.
*/
#ifndef TY_CAPTURE_H
#define TY_CAPTURE_H

#include "tensor.h"

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
  Tensor t; /* holds its storage */
} Outside;

/* An index whose elements a run must find in range before anything else happens. */
typedef struct IndexCheck {
  Tensor t; /* holds its storage */
  i64 size;
  int base;
} IndexCheck;

/* A storage from outside that the function writes to; `buf` is what it held. */
typedef struct Written {
  Storage *st;
  Buffer *buf;
  u32 version;
} Written;

#define SYMBOLS_MAX 8
struct Capture {
  Batch *batch;
  bool refused;
  char why[ERR_MAX];
  u64 stream, stamp; /* of the State when it began */
  ScalarFrom *scalar;
  Outside *outside;
  IndexCheck *check;
  Written *written;
  i32 nscalar, noutside, ncheck, nwritten;
  i32 scalar_cap, outside_cap, check_cap, written_cap;
  i32 symbol[SYMBOLS_MAX]; /* of the call in progress: argument i + 1 is this number expression */
  u32 taken;               /* bit i: symbol[i] became a run-time scalar */
  i32 whole
      [SYMBOLS_MAX]; /* expressions whose wholeness decided about a dtype; negative: not whole */
  i32 nwhole;
};

bool ty_capture_begin(State *S, Batch *b);
/* Puts back all that was written, and lets go of everything. The batch keeps no tensor alive. */
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
bool ty_capture_check(State *S, const Tensor *index, i64 size, int base);
bool ty_capture_write(State *S, Storage *st); /* st is about to be written */
bool ty_capture_outside(State *S, const Tensor *t, i32 slot);

#endif
