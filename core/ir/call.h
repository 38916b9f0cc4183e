/*
** call.h -- what other libraries do in a plan: a call begins at one step and ends at a later one, and may go on between
** them. Nodes name calls by number. Who registers one keeps it for ever.
*/
#ifndef TY_CALL_H
#define TY_CALL_H

#include "base/base.h"

typedef struct AsyncCall {
  const struct CallLibrary *library; /* device/call_library.h */
  i64 takes;   /* bytes that it is given; 0: it finds them in its result's memory */
  i64 gives;   /* bytes of its result */
  i32 channel; /* calls of one channel begin in the order in which they were recorded */
  u8 device;   /* where its result lies */
  bool gate;   /* calls that are recorded later begin when it has ended, but for such as it */
} AsyncCall;

i32 ty_call_register(const AsyncCall *c);  /* its number, from 1; 0: out of memory, or too many */
const AsyncCall *ty_call_find(i32 number); /* NULL: there is none */

#endif
