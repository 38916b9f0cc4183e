/*
** modules.h -- the library's Lua files, inside of the library; modules.lua writes them as C.
*/
#ifndef TY_MODULES_H
#define TY_MODULES_H

#include <stddef.h>

typedef struct EmbeddedModule {
  const char *name, *chunk; /* "tycho.nn", "@[tycho]/nn/init.lua" */
  size_t n;
  const char *text;
} EmbeddedModule;

extern const EmbeddedModule ty_modules[]; /* sorted by name */
extern const int ty_modules_count;

#endif
