/*
** handle.h -- handles of the C API: numbers in the place of addresses, whose use is always safe.
*/
#ifndef TY_HANDLE_H
#define TY_HANDLE_H

#include "base/base.h"
#include "tycho.h"

typedef enum { HANDLE_ENGINE = 1, HANDLE_MODEL, HANDLE_WEIGHTS } HandleKind;
typedef struct Slot Slot;

/* A new handle for p: an engine, what belongs to the engine whose lock that is, or, with NULL, what belongs to nobody.
** NULL: out of memory. */
void *ty_handle_new(HandleKind kind, void *p, Slot *engine);
/* It, and no other that will ever be made, stands for nothing from now on. Gives what it stood for, or NULL: it did for
** nothing. */
void *ty_handle_end(const void *handle, HandleKind kind);

/* What it stands for, in an engine that nobody else enters until ty_handle_leave(lock). NULL: *status says why, and
** ty_error; who: the function that asks. */
void *ty_handle_enter(const void *handle, HandleKind kind, const char *who, Slot **lock,
                      ty_status *status);
void ty_handle_leave(Slot *lock);
/* The same, for an answer (`what`) that is to go to `to`: TY_INVALID where that is NULL. */
void *ty_handle_ask(const void *handle, HandleKind kind, const char *who, const void *to,
                    const char *what, Slot **lock, ty_status *status);

/* What a handle that belongs to nobody stands for, after hold(p): it cannot end in between. NULL: for nothing. */
void *ty_handle_hold(const void *handle, HandleKind kind, void (*hold)(void *p));

/* error.c: what ty_error gives from now on, on this thread; gives the status. */
ty_status ty_failed(ty_status status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
