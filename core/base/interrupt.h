/*
** interrupt.h -- Ctrl-C as a function call, and a timer that goes on calling.
*/
#ifndef TY_INTERRUPT_H
#define TY_INTERRUPT_H

#include "base/base.h"

/* Called in a signal's handler: first for the signal, then for each tick of the timer. */
typedef void InterruptFn(bool tick);

/* From now on, and until the end, fn is called. What waits for input when the signal comes does not go on waiting. */
void ty_interrupt_open(InterruptFn *fn);
void ty_interrupt_close(void);
/* Ticks so many microseconds apart, until the end; 0: none. */
void ty_interrupt_ticks(int microseconds);
/* The signal has no effect any more but between open and close. Programs that are started end by it as they did. */
void ty_interrupt_ignore(void);
/* Writes a text. In a handler. */
void ty_interrupt_say(const char *text);
/* Writes a text, and ends the process as the signal would have. In a handler. */
void ty_interrupt_give_up(const char *text);

#endif
