/*
** remade.h -- values that calls of a trace do not keep for the backward pass: they are computed again.
*/
#ifndef TY_REMADE_H
#define TY_REMADE_H

#include "engine/engine.h"
#include "record/traced_call.h"

/* Chooses among the tape's values, of which *given (by node of the capture's graph) are kept in any case: those become
** VALUE_REMADE. False: S->err. */
bool ty_remade_choose(State *S, TracedTape *T, const u8 *given);
/* The run-time scalars that computing them takes, n of them. */
ScalarFrom *ty_remade_scalars(const TracedTape *T, i32 *n);
/* What it takes of the last tape is made for a range, of which these are the samples. NULL, or why it cannot. */
const char *ty_remade_range(TracedTape *const *sample, i64 last, const RangeNumbers *known);
/* All values that the call's rows may read are there; before it is expanded. False: S->err. */
bool ty_remade_restore(State *S, TracedCall *c);
/* As ty_record_assign. Where x was made by a call that keeps what dst holds, it leads to its own operation from then on: as in
** plain Lua, that one may keep it beyond the write, and those before it may not. */
bool ty_remade_assign(State *S, const char *who, const Tensor *dst, const Given *x);
/* In a capture over stand-ins, saved[v] at offset[v]: storages for the values that are marked in read[], held in saved[].
** False: S->err. */
bool ty_remade_record(State *S, const TracedTape *T, const u8 *read, const i64 *offset,
                      Storage **saved);

#endif
