/*
** loop_exit.h -- a way out of a loop that LuaJIT has compiled, which asks for no debug hooks.
*/
#ifndef TY_LOOP_EXIT_H
#define TY_LOOP_EXIT_H

#include "base/base.h"

/* Once, outside of signal handlers, and its end. */
void ty_loop_exit_open(void);
void ty_loop_exit_close(void);
/* A trace begins at an address and was compiled for the exit of that stub; 0, 0: for none. */
void ty_loop_exit_side(int trace, u64 begin, u64 stub);
/* In a signal's handler, with the context that it was given: if compiled Lua was interrupted, it returns to the
** interpreter soon after the handler does. */
void ty_loop_exit_from(void *context);

#endif
