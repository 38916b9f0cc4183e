/*
** lua_guard.h -- what a trace consists of: guards over slots and numbers, recipes of values. Made by
** lua_capture.c, run by lua_trace.c, known to no other file.
*/
#ifndef TY_LUA_GUARD_H
#define TY_LUA_GUARD_H

#include "lua/lua_trace.h"

/* Columns: what stands in a description, operands that are slots or numbers. */
typedef enum {
  /* reading: each pushes a slot */
  G_UPVALUE,
  G_ENV,
  G_FIELD,
  G_KEYED,            /* a field whose key lies on the stack already */
  G_ELEMENT,          /* a field with a small whole number as its key */
  G_GRAD,             /* what a leaf's gradient is: not nil */
  G_STRING_METATABLE, /* of all strings */
  G_METATABLE,
  /* checking */
  G_TYPE,
  G_NIL,
  G_BOOLEAN,
  G_BITS,
  G_STRING,
  G_OBJECT,
  G_SAME,
  G_DISTINCT,
  G_LENGTH,
  G_KEYS,
  G_TENSOR,
  G_NO_GRAD, /* the tensor has no gradient now */
  G_CLOSURE,
  G_CELL, /* whether upvalues n of slot a and `upvalue` of slot b are one cell */
  /* numbers: each makes one */
  G_NUMBER,
  G_BOUND, /* a number that every instance has a value of its own for */
  G_CONST,
  G_SIZE, /* of an instance */
  G_ADD,
  G_SUB,
  G_MUL,
  G_DIV,
  G_UNM,
  G_ABS,
  G_FLOOR,
  G_CEIL,
  G_SQRT,
  G_CALL,
  /* outcomes */
  G_LT,
  G_LE,
  G_EQ,
  G_WHOLE
} GuardOp;

enum { DETACHED_NO, DETACHED_YES, DETACHED_ANY };

typedef struct TensorGuard {
  u8 dtype, rank, device, needs; /* grad */
  bool loose;                    /* any sizes of that rank */
  u8 detached; /* whether it must be: DETACHED_ANY where no result is a view of it */
  struct {
    i64 size, stride;
  } dim[];
} TensorGuard;

typedef struct Dump {
  size_t n, cap;
  char *bytes;
} Dump;

typedef struct Guard {
  u8 op;
  bool want;  /* of an outcome */
  bool doubt; /* of a read: no guard before it has seen that slot a is a table */
  bool asked; /* of a field's read: the next guard, of a tensor or a type, is about what it reads */
  i32 a, b;   /* slots (-1: the one that was read last), numbers, anchors */
  i32 n;
  union {
    double v;
    const void *p;
    i32 upvalue;
    TensorGuard *tensor;
    Dump *dump;
  };
} Guard;

typedef enum { R_SLOT, R_VALUE, R_NUMBER, R_TENSOR, R_TABLE } RecipeKind;
typedef struct Recipe {
  u8 kind;
  i32 k;
} Recipe;

/* A write. A key may have several: that of a table may have left its slot in between. */
typedef struct Pair {
  i32 owner; /* a table's number; of an effect: the slot of a table, or of a function */
  i32 index; /* of an effect on an upvalue: its number; -1: on a tensor's gradient; else 0 */
  Recipe key, value;
} Pair;

/* What lua_createtable is asked for: with it and the order of writes a table has its native layout. */
typedef struct TableSize {
  i32 array, hash;
} TableSize;

/* A number of the trace that must be what the instance's number `size` is. */
typedef struct Bound {
  i32 number, size;
} Bound;

struct Trace {
  i32 refs; /* the entry's, and one for each call that is running it */
  u32 word;
  i32 narg, nslots, nguards, nnumbers, noutside;
  i32 lead; /* handles and tables that are made before the guards: all if there are effects or gradients
               are read, else none */
  i32 ngrads;                 /* handles for gradients that are read, behind the others */
  i32 nsizes, nbounds;        /* numbers that each instance brings; those of them that it is for */
  i32 nearly, nearly_numbers; /* guards and numbers that need no sizes; the others stand behind */
  i32 key, nkeys; /* anchors of keys that several fields have: they lie behind the anchors */
  Guard *guard;
  i32 nresults, npairs, neffects, ntables;
  Recipe *result, *meta; /* meta: per table; R_SLOT 0 when it has none */
  Pair *pair, *effect;
  Bound *bound;
  bool *
      hidden; /* per tensor that is made: it is a leaf's gradient and nothing else, so that no handle is
                          made for it */
  TableSize *size;     /* per table */
  Instance **instance; /* most recently used first */
  u64 *hash;           /* per instance: of the sizes that it is for */
  i32 ninstance;
  bool gone;            /* the entry has dropped it; who runs it still has */
  bool dynamic;         /* made for each set of sizes */
  bool lacking;         /* its guards held for the last call, whose sizes it does not have */
  i32 backend;          /* anchor of the function that computes instead of a plan; 0: none */
  i32 wasted;           /* instances in a row that were not used again */
  i64 rest;             /* calls of new sizes to come that make no instance */
  i64 used;             /* hits when the last instance was made */
  i32 anchor, nanchors; /* where the entry's table has its own of so many; 1 is the description */
  i64 hits;
};

/* Of the values of bounds and the tensors' sizes that instance I is for. */
u64 ty_trace_hash(const Trace *T, const Instance *I);

#define LATE_NUMBERS 65536 /* a description counts numbers that need sizes from here on */

/* Where a run has the trace's table of anchors on the stack: behind arguments, what leads, and the function. */
#define ANCHORS_AT(T) ((T)->narg + (T)->lead + 2)

/* Where a slot of the description lies on the stack: what leads comes between the arguments and the function, anchors
** and keys between the function and what is read. */
static inline i32 ty_trace_place(const Trace *T, i32 slot) {
  return slot <= T->narg       ? slot
         : slot == T->narg + 1 ? slot + T->lead
                               : slot + T->lead + 1 + T->nkeys;
}

/* --- lua_account.c: pushes what the trace, whose guards hold, is about to do. */
void ty_account_push_trace(lua_State *L, State *S, const Trace *T, Instance *I,
                           const Tensor *const *outside, const double *number);
int ty_account_session(lua_State *L);

/* One use less; the last one frees. */
void ty_trace_drop(Trace *T);
/* The entry's i-th trace goes, with what it anchors. anchors: the entry's table. */
void ty_trace_remove(lua_State *L, Entry *e, i32 i, int anchors);
int ty_trace_list(lua_State *L); /* what explain tells of an entry's traces */

#endif
