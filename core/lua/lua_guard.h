/*
** lua_guard.h -- what a trace consists of: guards over slots and numbers, recipes of values. Made by
** lua_capture.c, run by lua_guard_run.c and lua_trace.c, told by lua_account.c, known to no other file.
*/
#ifndef TY_LUA_GUARD_H
#define TY_LUA_GUARD_H

#include "record/grad.h"
#include "lua/lua_trace.h"

/* What an instruction does. */
typedef enum {
  GUARD_READ,   /* pushes a slot */
  GUARD_CHECK,  /* of a slot */
  GUARD_NUMBER, /* makes a number */
  GUARD_OUTCOME /* of numbers */
} GuardKind;

/* Operands, as they stand in a description behind the name. Slots and numbers fill a and b of a Guard, indices n and
** upvalue; the others have places of their own. */
typedef enum {
  ON_NONE,
  ON_SLOT,
  ON_LAST, /* a slot; the top of the stack where it was read by the instruction before */
  ON_INDEX,
  ON_KEY,    /* of a field; the reader chooses FIELD, KEYED or ELEMENT by it */
  ON_VALUE,  /* to be equal to; the reader chooses NIL to OBJECT by it */
  ON_TYPE,   /* name of a Lua type */
  ON_KEYS,   /* list */
  ON_TENSOR, /* example; a 4th column tells whether it must be detached */
  ON_CODE,   /* Lua function */
  ON_NUMBER,
  ON_MAYBE, /* a number or none */
  ON_CONST, /* value of a number */
  ON_SIZE,  /* of an instance */
  ON_BOUND, /* size that the number is, where an instance is for one value of it */
  ON_FUNCTION,
  ON_ARGUMENTS,
  ON_OUTCOME /* true or false */
} GuardOperand;

#define GUARD_OPERANDS 4

/* clang-format off */
/* The one table of instructions. Enum, reader, checks of kinds, names in Lua and explain's lines are generated from it;
** switches over GuardOp and GuardOperand have no default, so that a row without its case does not compile.
**
**   op        G_op
**   name      in descriptions. 0: a variant that the reader chooses for a row with a name
**   kind      GUARD_kind
**   table     1: behind it slot a is known to be a table
**   operands  ON_operand
**   text      line of jit.explain; $2 to $5: operands as they stand in the description, x|y: true|false. 0: no line
*/
#define TY_GUARDS(_) \
/* op               name                kind    table operands                  text */ \
_(UPVALUE,          "upvalue",          READ,    0, O2(SLOT, INDEX),               0) \
_(ENV,              "env",              READ,    0, O1(SLOT),                      0) \
_(FIELD,            "field",            READ,    1, O2(SLOT, KEY),                 0) \
_(KEYED,            0,                  READ,    1, O2(SLOT, KEY),                 0) /* the key lies on the stack already */ \
_(ELEMENT,          0,                  READ,    1, O2(SLOT, KEY),                 0) /* the key is a small whole number */ \
_(AT,               "at",               READ,    1, O2(SLOT, NUMBER),              0) /* the key is a number of the call */ \
_(GRAD,             "grad",             READ,    0, O1(SLOT),                      0) /* gradient of a leaf: not nil */ \
_(HOOKS,            "hooks",            READ,    0, O1(SLOT),                      0) /* the list of a leaf's hooks, or nil */ \
_(STRING_METATABLE, "string_metatable", READ,    0, O0,                            0) /* of all strings */ \
_(LOADED,           "loaded",           READ,    0, O0,                            0) /* modules by name */ \
_(METATABLE,        "metatable",        READ,    0, O1(SLOT),                      0) \
_(TYPE,             "type",             CHECK,   0, O2(LAST, TYPE),                "is a $3") \
_(NIL,              0,                  CHECK,   0, O2(LAST, VALUE),               0) \
_(BOOLEAN,          0,                  CHECK,   0, O2(LAST, VALUE),               0) \
_(BITS,             0,                  CHECK,   0, O2(LAST, VALUE),               0) \
_(STRING,           0,                  CHECK,   0, O2(LAST, VALUE),               0) \
_(OBJECT,           "equal",            CHECK,   0, O2(LAST, VALUE),               "is $3") \
_(SAME,             "same",             CHECK,   0, O2(SLOT, SLOT),                "is the same as $3") \
_(DISTINCT,         "distinct",         CHECK,   0, O2(SLOT, SLOT),                "is not $3") \
_(LENGTH,           "length",           CHECK,   1, O2(LAST, INDEX),               "has length $3") \
_(LIST,             "list",             CHECK,   1, O1(LAST),                      "is a list without holes, of 64 at most") \
_(KEYS,             "keys",             CHECK,   1, O2(SLOT, KEYS),                "has $3 keys, in this order") \
_(TENSOR,           "tensor",           CHECK,   0, O2(LAST, TENSOR),              "$3") \
_(NO_GRAD,          "no_grad",          CHECK,   0, O1(SLOT),                      "is nil") /* the tensor's gradient */ \
_(CLOSURE,          "closure",          CHECK,   0, O2(SLOT, CODE),                "has the same code") \
_(CELL_SAME,        "cell_same",        CHECK,   0, O4(SLOT, SLOT, INDEX, INDEX),  "is one variable of two functions") \
_(CELL_DISTINCT,    "cell_distinct",    CHECK,   0, O4(SLOT, SLOT, INDEX, INDEX),  "is no variable of $3") \
_(UNSCOPED,         "unscoped",         CHECK,   0, O0,                            "lies in no ty.scope") \
_(NUMBER,           "number",           NUMBER,  0, O1(LAST),                      "a number, read in each call") \
_(BOUND,            "bound",            NUMBER,  0, O2(LAST, BOUND),               "a number, with a plan for each value") \
_(ENTRIES,          "entries",          NUMBER,  1, O1(SLOT),                      "a length, read in each call") \
_(CONST,            "const",            NUMBER,  0, O1(CONST),                     0) \
_(SIZE,             "size",             NUMBER,  0, O1(SIZE),                      0) \
_(ADD,              "add",              NUMBER,  0, O2(NUMBER, NUMBER),            0) \
_(SUB,              "sub",              NUMBER,  0, O2(NUMBER, NUMBER),            0) \
_(MUL,              "mul",              NUMBER,  0, O2(NUMBER, NUMBER),            0) \
_(DIV,              "div",              NUMBER,  0, O2(NUMBER, NUMBER),            0) \
_(UNM,              "unm",              NUMBER,  0, O1(NUMBER),                    0) \
_(ABS,              "abs",              NUMBER,  0, O1(NUMBER),                    0) \
_(FLOOR,            "floor",            NUMBER,  0, O1(NUMBER),                    0) \
_(CEIL,             "ceil",             NUMBER,  0, O1(NUMBER),                    0) \
_(SQRT,             "sqrt",             NUMBER,  0, O1(NUMBER),                    0) \
_(CALL,             "call",             NUMBER,  0, O3(FUNCTION, NUMBER, MAYBE),   0) \
_(DRAW,             "draw",             NUMBER,  0, O2(FUNCTION, ARGUMENTS),       "drawn in each call that all guards let pass") \
_(LT,               "lt",               OUTCOME, 0, O3(NUMBER, NUMBER, OUTCOME),   "true|false") \
_(LE,               "le",               OUTCOME, 0, O3(NUMBER, NUMBER, OUTCOME),   "true|false") \
_(EQ,               "eq",               OUTCOME, 0, O3(NUMBER, NUMBER, OUTCOME),   "true|false") \
_(KEY,              "key",              OUTCOME, 0, O2(NUMBER, OUTCOME),           "is a key of lists|is no key of lists") \
_(WHOLE,            "whole",            OUTCOME, 0, O2(NUMBER, OUTCOME),           "is a whole number|is no whole number")
/* clang-format on */

#define GUARD_ENUM(op, name, kind, table, operands, text) G_##op,
typedef enum { TY_GUARDS(GUARD_ENUM) G_COUNT } GuardOp;
#undef GUARD_ENUM

typedef struct GuardRow {
  const char *name, *text;
  u8 kind;
  bool table;
  u8 operand[GUARD_OPERANDS];
} GuardRow;

extern const GuardRow ty_guards[G_COUNT];

static inline GuardKind ty_guard_kind(int op) { return (GuardKind)ty_guards[op].kind; }

/* Pushes the rows as Lua knows them: {name = {kind =, operands = {...}, text =}}. */
void ty_guard_push_rows(lua_State *L);

enum { DETACHED_NO, DETACHED_YES, DETACHED_ANY };

typedef struct TensorGuard {
  u8 dtype, rank, device, needs; /* grad */
  bool loose;                    /* any sizes of that rank */
  u8 detached; /* whether it must be: DETACHED_ANY where no result is a view of it */
  struct {
    i64 size, stride;
  } dim[];
} TensorGuard;

static inline bool ty_guard_tensor(const Tensor *t, const TensorGuard *g) {
  if (!t->st || t->type.dtype != g->dtype || t->type.rank != g->rank || t->type.device != g->device)
    return false;
  if (TY_UNLIKELY(ty_needs(t) != g->needs)) return false;
  if (TY_UNLIKELY(g->detached != DETACHED_ANY) && t->detached != g->detached) return false;
  if (TY_UNLIKELY(g->loose)) return true;
  for (int d = 0; d < g->rank; d++) {
    if (t->type.dims[d] != g->dim[d].size) return false;
    if (TY_UNLIKELY(t->strides[d] != g->dim[d].stride) && g->dim[d].size != 1) return false;
  }
  return true;
}

typedef struct Dump {
  size_t n, cap;
  char *bytes;
} Dump;

typedef struct Guard {
  u8 op;
  bool want;  /* of an outcome, of cells: one or not */
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

/* BEHIND: of an effect's key: the position behind the last one of the table in slot k, when the effect comes. RANDOM: the
** random state when the call has taken so many streams. VERSION: how often the tensor there was written. */
typedef enum {
  R_SLOT,
  R_VALUE,
  R_NUMBER,
  R_TENSOR,
  R_TABLE,
  R_BEHIND,
  R_RANDOM,
  R_VERSION
} RecipeKind;
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
  i32 maker,
      nvalues; /* the anchor of what makes a closure in the table's place, of so many pairs' values; or 0 */
} TableSize;

/* A number of the trace that must be what the instance's number `size` is. */
typedef struct Bound {
  i32 number, size;
} Bound;

enum { RANGES_MAX = 8 };

struct Trace {
  i32 refs; /* the entry's, and one for each call that is running it */
  u64 word;
  i32 narg, nslots, nguards, nnumbers, noutside;
  i32 lead; /* handles and tables that are made before the guards: all if there are effects or gradients
               are read, else none */
  i32 ngrads;          /* handles for gradients that are read, behind the others */
  bool shows_grads;    /* a result or an effect is one of them */
  i32 nsizes, nbounds; /* numbers that each instance brings; those of them that it is for */
  i32 early_guards,
      early_numbers; /* guards and numbers that need no sizes; the others stand behind */
  i32 late_guards,
      late_numbers; /* behind these come numbers that are drawn when nothing can miss any more */
  i32 key, nkeys;   /* anchors of keys that several fields have: they lie behind the anchors */
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
  ShapeRange *range[RANGES_MAX]; /* most recently made first */
  i32 nranges;
  Instance *sample[RANGE_SAMPLES]; /* of the range that is being made, the last one first */
  Choices choices;                 /* of these */
  struct TurnGuards *turns;        /* of lua_turn.c; NULL until it takes some */
  u32 straight;                    /* calls in a row that its link did not lead back from */
  bool gone;                       /* the entry has dropped it; who runs it still has */
  bool dynamic;                    /* made for each set of sizes */
  bool lacking; /* its guards held for the last call, whose sizes it does not have */
  i32 rules; /* of its tables the list of what rules of users' have, of which results lead back to; 0: there are none */
  i32 backend; /* anchor of the function that computes instead of a plan; 0: none */
  i32 resume;  /* anchor of the function that goes on with the results; 0: they are the call's */
  i32 link;    /* anchor of what does the same without Lua, or 0 */
  i32 owner,
      nowners; /* anchors of functions whose variables its closures share, behind each what is known of those (Shared) */
  bool makes_closures;
  i32 wasted;           /* instances in a row that were not used again */
  i64 rest;             /* calls of new sizes to come that make no instance */
  i64 used;             /* hits when the last instance was made */
  i32 anchor, nanchors; /* where the entry's table has its own of so many; 1 is the description */
  i64 hits;
};

/* Slots of Lua's stack that a call takes, of which a host gives a C function STACK_MOST. */
#define STACK_MOST 8000
static inline i32 ty_trace_stack(const Trace *T) {
  return T->nslots + T->instance[0]->nmade + T->ntables + T->ngrads + T->nresults + 256;
}

/* Of the values of bounds and the tensors' sizes that instance I is for. */
u64 ty_trace_hash(const Trace *T, const Instance *I);
void ty_trace_drop_samples(Trace *T);

#define KEY_MOST \
  2147483647.0 /* the largest key that a guard takes for one, and that calls have as a number */
#define LIST_MOST 64           /* entries of a list that a guard walks over */
#define DEFERRED_NUMBERS 65536 /* a description counts numbers that need sizes from here on */
#define DRAWN_UNKNOWN 0.5      /* what numbers that are drawn are to captures, which draw none */

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

/* Where on the stack the tensors and tables of a run lie, below their first, and its anchors. */
typedef struct Made {
  int anchors, tensors, tables;
  const double *number;
} Made;

/* --- lua_answer.c: pushes what a recipe stands for. */
void ty_trace_push_value(lua_State *L, Recipe r, const Made *m);
/* Whether the value in the slot is a function with such a dump. */
bool ty_guard_same_code(lua_State *L, int slot, const Dump *want);
/* Whether closures that share variables with the function can be made now; they, and tables, with what they hold. */
bool ty_trace_may_make_closures(lua_State *L, const Trace *T, int anchors);
void ty_trace_fill_tables(lua_State *L, const Trace *T, const Made *m);
/* The run of a call has ended: its effects. made: nmade tensors; those in `hidden` have no handle. */
void ty_trace_effects(lua_State *L, const Trace *T, Tensor *const *made, Tensor *hidden, i32 nmade,
                      const Made *m);
/* Pushes what pick answers: nil and the only result, or a function; gives their number. goes_on: by the trace's link,
** and that and the registers are the answer. Called by pick, or with its upvalues. */
int ty_trace_answer(lua_State *L, State *S, const Trace *T, const Made *m, bool goes_on);
/* lua_slice.c: the run is to be done in slices: the stack is taken, and the call and the function that ends it are on it.
** False: S->err, and nothing has changed. */
bool ty_slice_begin(lua_State *L, State *S, const Trace *T, const Instance *I, const Made *m,
                    const Tensor *const *outside, Tensor *const *made, const Tensor *hidden);
bool ty_slice_may(const Instance *I);
/* --- lua_guard_run.c */
/* Runs instructions [from, to) of the program, before which so many numbers were made. Gives the
** number of the instruction that failed, or `to`. Where `outside` is NULL nothing is drawn. */
i32 ty_guards_check(lua_State *L, const Binding *B, const Trace *T, i32 from, i32 to,
                    const double *size, double *number, i32 made, const Tensor **outside);
/* Whether the instance is one for these tensors and numbers. */
bool ty_guards_fit(State *S, const Trace *T, const Instance *I, const double *number,
                   const Tensor *const *outside);

/* One use less; the last one frees. */
void ty_trace_drop(Trace *T);
/* The entry's i-th trace goes, with what it anchors. anchors: the entry's table. */
void ty_trace_remove(lua_State *L, Entry *e, i32 i, int anchors);
int ty_trace_list(lua_State *L);     /* what explain tells of an entry's traces */
int ty_trace_measured(lua_State *L); /* and what was measured of one */

#endif
