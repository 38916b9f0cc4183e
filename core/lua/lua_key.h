/*
** lua_key.h -- a key x[k] once it is read: a view of x, and what of it index tensors and masks name.
*/
#ifndef TY_LUA_KEY_H
#define TY_LUA_KEY_H

#include "lua/lua_view.h"

#define READ "index"
#define WRITE "assign"

typedef struct Adv { /* an index tensor, or a mask */
  const Tensor *t;   /* a mask becomes the places where it holds */
  const char *who;   /* for error texts */
  int dim;           /* its first dim in the view */
  int user;          /* its first dim in x, for error texts */
  int ndim;          /* dims of x that it stands for */
} Adv;

typedef struct Key {
  View v; /* numbers, ranges and new dims applied */
  int nadv;
  Adv adv[MAX_RANK];
  int at;     /* dim of the result where the dims of the index tensors begin */
  bool apart; /* they do not lie side by side: the dims come first */
  int run;    /* 0: none seen, 1: inside their run, 2: behind it */
  const char *who;
} Key;

/* lua_places.c: x[k], pushed, and x[k] = v, for a key with index tensors. */
int ty_lua_places_read(lua_State *L, State *S, const Tensor *x, Key *k);
void ty_lua_places_write(lua_State *L, State *S, const Tensor *x, Key *k, const Given *v);

#endif
