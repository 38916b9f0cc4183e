/*
** lua_tycho.h -- what the files of the Lua binding share.
** Lua 5.1's C API only. Rules: core functions answer false and leave a message in S->err; the binding
** raises it with ty_lua_fail when nothing is held or half built. A tensor userdata is pushed (with a NULL
** storage) before the core fills it, so that errors leak nothing.
*/
#ifndef TY_LUA_TYCHO_H
#define TY_LUA_TYCHO_H

#include <lua.h>
#include <lauxlib.h>
#include "engine/engine.h"
#include "lua/lua_frame.h"
#include "record/tensor.h"

/* A tensor's userdata. `mark` tells it from foreign userdata of the same size; see ty_lua_test. */
typedef struct Site Site; /* lua_lifetime.c */
typedef struct Handle {
  Tensor t;              /* first: a handle's address is its tensor's */
  struct Result *result; /* what is known of its life, or NULL */
  u64 mark;
  struct Scope *scope; /* in which it was made, NULL: in none */
  struct Handle *next, **prev;
} Handle;

/* A place in a scope's list, without a tensor and without a mark: what was made before it may be read again by a
** function that the tape keeps. */
typedef struct ScopePin {
  Handle place; /* first */
  u64 seq;      /* of the function's record */
} ScopePin;

/* One running ty.scope: the tensors that its coroutine makes. A userdata of its own. */
typedef struct Scope {
  struct Scope *outer;
  lua_State *L;
  Frame frame;  /* of the function that opened it */
  Handle *made; /* the latest first, with pins between them */
  i32 npins;
} Scope;

/* A tensor that a call has made for its caller alone; see lua_lifetime.c. */
typedef struct Result {
  Handle *handle; /* NULL: it is gone */
  const Site *site;
  const lua_State *thread;
  int slot; /* of the caller's frame */
} Result;

/* The State's userdata: what the binding keeps beside the State. */
/* Handles that parts of functions have made for each other; see lua_spare.c. */
#define SPARES 16
#define SPARES_ALL ((1u << SPARES) - 1)
typedef struct Spare {
  int list;        /* of handles, weak, in the registry; 0: not made */
  u64 link;        /* number of the last one that was followed */
  u64 made;        /* so many handles that were not spare, so far */
  u32 owned, dead; /* entries of the list, as bits */
  const void *handle[SPARES];
} Spare;

typedef struct Binding {
  State S;       /* first */
  lua_State *L;  /* a thread of our own, for work that begins outside of any call */
  lua_State *at; /* that entered last: where the user's code runs */
  int clear;     /* there, below this slot, no function of ours works on tensors; lua_release.c */
  lua_State *aside; /* the thread that runs finalisers, where the embedder has one for them */
  Scope *scope;     /* innermost */
  struct Protect *protect; /* the latest protected call in progress; see lua_protect.c */
  struct Session *session; /* of the capture in progress; see lua_session.c */
  i64 counted;             /* instructions in protected calls, of which no count hook was told */
  lua_Hook hook;           /* as the native function that runs has found it */
  lua_Hook yielder;        /* a user's hook that has tried to yield in a protected call */
  struct Mode *mode;       /* modes that were entered, the latest first; see lua_modes.c */
  u64 entered;             /* so many modes so far */
  struct Mode *dice;       /* whose random numbers the State draws, NULL: of no mode */
  lua_State *mode_of;      /* for whom the State's words stand */
  u64 random[2];           /* seed and stream outside of modes, while the State's are a mode's */
  int mode_meta;           /* modes' metatable, in the registry */
  i64 until; /* the earliest deadline, on the clock of ty_system_now; 0: there is none */
  bool mixed, disordered; /* modes: some are others'; one vmap lies inside of a later one */
  i64 handles;            /* tensors' userdata that were not collected, nor released */
  const void *released;   /* the metatable of those that were: the tensors', without a finaliser */
  i64 live;               /* bytes of tensors when the last cycle of Lua's collector ended */
  int back;  /* there, too: what a backward pass is made in, while none is; 0: nothing */
  int grads; /* the list of handles for gradients that no Lua code comes to see; 0: none yet */
  int dies, sites; /* in the registry: what tells when results die; places, by function */
  int located;     /* there, too: what names the module in which an error arises */
  int select;      /* and what does lua_select.c's work elsewhere */
  int opener;      /* and what opens a device that is first named */
  bool (*locate)(lua_State *L, struct Binding *B, const char *where,
                 const char *text); /* NULL: nothing does */
  int owners;                       /* functions that have places, so far */
  u32 results;                      /* so many so far */
  Result result[16];                /* the latest ones */
  Spare spare;
  struct Turns *turns;           /* lua_turn.c: room for them; or NULL */
  u64 turned;                    /* so many so far */
  struct Composites *composites; /* lua_composite.c: calls that are remembered; or NULL */
  i64 large, died; /* bytes of results that are looked after; how many were let go of */
  bool leaf;       /* the options that were read last have requires_grad = true */
  bool cycling;    /* a cycle that was begun for the sake of tensors has not ended */
  void (*watch)(lua_State *L, void *ctx); /* see ty_lua_runs; or NULL */
  void *watch_ctx;
  bool closing, closed;
  char home[512]; /* how the sources of our own Lua chunks begin, without / or \ */
} Binding;

/* Every C function of ours is a closure whose upvalue 1 is the State's userdata and upvalue 2 the tensors'
** metatable. ty_lua_enter polls Ctrl-C and says whether the lazy mode of this coroutine still holds (entry.c):
** the first call of every C function that records, demands or asks. */
State *ty_lua_enter(lua_State *L);
State *ty_lua_enter_in(lua_State *L, Binding *B); /* the same where it is known; NULL: it is gone */
/* lua_enter.c: the part of it that `release` asks for: that the running function works on tensors, which stay. For what
** holds one while user code may run (a finaliser, in any allocation) and does not enter. */
void ty_lua_works(lua_State *L, Binding *B);
/* lua_lazy.c: the same question where some coroutine records: sets S->open. */
void ty_lua_sync(lua_State *L, State *S);
/* "file:line" of the nearest Lua function that is not ours, or "". */
void ty_lua_line(lua_State *L, const Binding *B, char *text, size_t n);
int ty_lua_located(lua_State *L);
/* lua_session.c: the State's `where`. */
void ty_lua_where(State *S, char *text, size_t n);
/* What is recorded from now on is so at the line of the user's that runs; not while a capture records. */
void ty_lua_place(lua_State *L, Binding *B);
/* lua_modes.c: puts the State's words as they hold for L, where modes are open. */
void ty_lua_modes(lua_State *L, Binding *B);
static inline void ty_lua_follow(lua_State *L, Binding *B) {
  if (TY_UNLIKELY(B->mode != NULL)) ty_lua_modes(L, B);
}
/* lua_session.c: the same question while a capture is in progress; the first call where state is read or changed. */
void ty_lua_session_enter(lua_State *L, Binding *B);
static inline void ty_lua_apart(lua_State *L, Binding *B) {
  if (TY_UNLIKELY(B->session != NULL)) ty_lua_session_enter(L, B);
}
/* lua_hush.c: the capture in progress, or NULL. No finaliser runs until the C function that asks returns. */
Capture *ty_lua_capture(lua_State *L);
/* lua_lifetime.c: its memory is gone, or somebody else's. */
void ty_lua_result_forget(Handle *h);
/* lua_spare.c: before the first link; before a trace that leads to one, whose number it gives; pushes a dead handle, or
** nothing (NULL), and asks for no memory; as ty_lua_push_in, for what such traces make; of n values from a place on the
** stack, which alone go on unless others were kept. */
void ty_spare_open(lua_State *L, Binding *B);
u64 ty_spare_begin(Binding *B);
Tensor *ty_spare_take(lua_State *L, Binding *B);
Tensor *ty_spare_push(lua_State *L, Binding *B);
void ty_spare_hand_on(lua_State *L, Binding *B, u64 link, bool kept, int first, int n);
/* Whether a deadline is over, and what is said of it. */
#define TY_LUA_LATE "deadline: the time is over"
bool ty_lua_is_late(const Binding *B);
/* As State.interrupted; and what follows when a run was left undone: raises, unless the hook returns. */
bool ty_lua_interrupted(State *S);
void ty_lua_interrupt(lua_State *L, Binding *B);
/* A debug hook has run inside of a protected call. */
void ty_lua_hook_ran(lua_State *L, Binding *B);
static inline State *ty_lua_state(lua_State *L) {
  return (State *)lua_touserdata(L, lua_upvalueindex(1));
}

static inline Binding *ty_lua_binding(lua_State *L) {
  return (Binding *)lua_touserdata(L, lua_upvalueindex(1));
}

/* Pushes fn as such a closure. */
void ty_lua_push_function(lua_State *L, lua_CFunction fn);

/* Registers functions {name, fn} as such closures in the table on top of the stack. */
void ty_lua_register(lua_State *L, const luaL_Reg *fns);

/* A function with its documentation: ty.help and the reference page are made from these rows.
** where: 'm' in the module, 't' a method, 'b' both. args: what stands in the parentheses, such as
** "x, dim = 1". help: one line. The list ends with a row whose name is NULL. */
typedef struct LuaFunction {
  const char *name;
  lua_CFunction fn;
  char where;
  const char *args, *help;
} LuaFunction;
#define LUA_HELP "tycho.help" /* in the registry: texts by name */
void ty_lua_define(lua_State *L, int m, int t, const LuaFunction *fns);
void ty_lua_describe(lua_State *L, const char *name, const char *args, const char *help);

/* lua_composite.c: how many results, which a call like this one that came before has left on top; 0: the running function
** is to do its work. who: its name, of which no other function has the address. */
int ty_lua_answered(lua_State *L, State *S, const char *who);
/* What a function in C that records several operations does first, when it has entered. */
#define TY_LUA_ANSWERED(L, S, who) \
  do { \
    const int results = ty_lua_answered(L, S, who); \
    if (results) return results; \
  } while (0)

/* lua_index.c: x[k] and x[k] = v with (x, k) and (x, k, v) on the stack, for keys that are not strings. */
int ty_lua_index(lua_State *L);
int ty_lua_newindex(lua_State *L);

/* After a call of the core that failed as memory ran out: collects what Lua no longer holds and says whether it is
** worth trying again. Not while the script has stopped the collector. TY_LUA_TRY does both. */
bool ty_lua_reclaim(lua_State *L, State *S);
#define TY_LUA_TRY(L, S, call) ((call) || (ty_lua_reclaim(L, S) && (call)))

/* Raises S->err (or the text) at the user's file:line. The text starts with the function's name, as in
** "matmul: inner sizes differ, f32[2,3] x f32[4,5]". Position: the nearest Lua function that is not Tycho's own. */
int ty_lua_fail(lua_State *L, State *S);
int ty_lua_error(lua_State *L, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Whether a chunk is one of the library's. */
bool ty_lua_is_ours(const Binding *B, const char *source);

/* What an argument is, for error texts: tensor f32[2,3], number 2.5, string "abc", nil. Pushes the text. */
const char *ty_lua_show(lua_State *L, int i);
/* The known name that is nearest to `name`, from the string keys of the table at index t; NULL when none is near. */
const char *ty_lua_nearest(lua_State *L, const char *name, int t);

/* Whether the function calls others of the user's, which may release what they like. */
bool ty_lua_is_caller(lua_CFunction fn);
/* Another one of these, of an embedder's; set once for the process. */
void ty_lua_add_caller(lua_CFunction fn);

/* lua_scope.c: a new tensor belongs to the innermost scope; one that is released to none. */
void ty_lua_scope_add(lua_State *L, Binding *B, Handle *h);
/* So many scopes are open; and a pin for each of them, behind `first`, which was made later: while a pin is there the
** end of its scope frees nothing that was made before. */
i32 ty_lua_scope_count(const Binding *B);
void ty_lua_scope_pin(Binding *B, ScopePin *pin, u64 seq, Handle *first);
void ty_lua_scope_unpin(ScopePin *pin);
static inline void ty_lua_scope_forget(Handle *h) {
  if (!h->scope) return;
  *h->prev = h->next;
  if (h->next) h->next->prev = h->prev;
  h->scope = NULL;
}

/* Tensors on the stack. push: a new userdata with __gc and no storage yet; also lets Lua's collector work off
** the debt of bytes. test: NULL when not a tensor. check: raises "who: argument i must be a tensor, got string"
** or "who: tensor was released". */
Tensor *ty_lua_push(lua_State *L);
Tensor *ty_lua_push_in(lua_State *L, Binding *B);
static inline u64 ty_lua_mark(const Binding *B) {
  return (u64)(uintptr_t)B ^ (u64)0x74796368 << 32;
}
/* lua_released.c: a released handle is told by its metatable. It keeps its other mark when its memory is given back. */
bool ty_lua_is_released(lua_State *L, const Binding *B, int i);
static inline Tensor *ty_lua_test_in(lua_State *L, const Binding *B, int i) {
  Handle *h = (Handle *)lua_touserdata(L, i);
  /* A light userdata has length 0; foreign userdata of this size does not hold the mark, since a
  ** handle loses it before its memory is given back. */
  if (!h || lua_objlen(L, i) != sizeof(Handle)) return NULL;
  if (TY_LIKELY(h->mark == ty_lua_mark(B))) return &h->t;
  return TY_UNLIKELY(h->mark == ~ty_lua_mark(B)) && ty_lua_is_released(L, B, i) ? &h->t : NULL;
}
Tensor *ty_lua_test(lua_State *L, int i);
Tensor *ty_lua_check(lua_State *L, const char *who, int i);
/* A tensor, number or boolean as operand. */
Given ty_lua_given(lua_State *L, const char *who, int i);
/* The same for a number that only kernels will look at: in a capture it may differ in later calls. */
Given ty_lua_operand(lua_State *L, const char *who, int i);

/* Arguments. All raise with the function's name, the argument, and what was given. */
i64 ty_lua_int(lua_State *L, const char *who, int i, const char *what); /* a whole number */
double ty_lua_number(lua_State *L, const char *who, int i, const char *what);
int ty_lua_dtype(lua_State *L, const char *who, int i); /* a dtype's name */
/* A dim, 1-based or negative from the end, to 0-based. nil gives def (0-based) unless def < 0, then it raises. */
int ty_lua_dim(lua_State *L, const char *who, int i, int rank, int def);
/* nil or none: 0. A number or a table of dims, each once: bit set of 0-based dims. An empty table raises. */
u32 ty_lua_dims(lua_State *L, const char *who, int i, int rank);
/* Sizes by position or as one table, from argument i on; an options table (any string key) may follow. Returns the
** index of the options table or 0. */
int ty_lua_sizes(lua_State *L, const char *who, int i, Type *t);
/* One argument: a size or a table of sizes. */
void ty_lua_shape(lua_State *L, const char *who, int i, Type *t);
/* A table with a string key. */
bool ty_lua_is_options(lua_State *L, int i);
/* Options: {dtype =, device =, requires_grad =} of the table at index opts (0: none). dtype stays when absent.
** Unknown keys raise with the known ones listed in `known` ("dtype device"). */
void ty_lua_options(lua_State *L, const char *who, int opts, Type *t, const char *known);
/* The device that a name stands for: "cuda" is loaded when it is first named. -1: there is none; why is pushed. */
int ty_lua_device(lua_State *L, const char *name);
#define TY_LUA_CREATION "dtype device requires_grad"
/* Ends a function that makes the tensor on top of the stack, with such options: 1. A leaf, if they asked for one. */
int ty_lua_created(lua_State *L, const char *who);

/* lua_grad.c: properties of x; each pushes one value. set: x.grad = the value at index 3. */
int ty_lua_grad_required(lua_State *L, const Tensor *x);
int ty_lua_grad_is_leaf(lua_State *L, const Tensor *x);
int ty_lua_grad_get(lua_State *L, const Tensor *x);
int ty_lua_grad_set(lua_State *L, const Tensor *x);
/* For captures; see gradients.lua. */
int ty_lua_leaf_gradient(lua_State *L);
int ty_lua_leaf_gradients(lua_State *L);
int ty_lua_leaf_lone(lua_State *L);
int ty_lua_leaf_whole(lua_State *L);
/* What the rules of a call have, a list on top of the stack, which it pops; first: the first handle of what the call makes,
** or NULL. False: out of memory. */
bool ty_lua_rules(lua_State *L, State *S, Handle *first, Owner *y);
void ty_lua_push_version(lua_State *L, int i); /* of the tensor at index i; -1: it is none */
void ty_lua_rules_push(lua_State *L, const Record *r); /* what a CUSTOM was made with */
int ty_lua_leaf_seen(lua_State *L);
int ty_lua_leaf_hooked(lua_State *L);
int ty_lua_leaf_hooks(lua_State *L);
void ty_lua_push_hooks(lua_State *L, const Tensor *t); /* the list of a leaf's hooks, or nil */

bool ty_lua_is_item(lua_CFunction fn); /* lua_tensor.c */
/* lua_tensor.c: pushes a tensor of the nested tables, number or boolean at index i. dtype < 0: by what they hold.
** Ragged and mixed data raise with the path. */
Tensor *ty_lua_nested(lua_State *L, State *S, const char *who, int i, int dtype);

/* Groups of functions, each in a file of its own: fills the module table (m) and the methods table (t), both given as
** absolute stack indices. */
void ty_lua_open_scope(lua_State *L, int m);          /* scopes */
void ty_lua_open_release(lua_State *L, int m, int t); /* release */
void ty_lua_open_ops(lua_State *L, int m, int t);     /* rows of the table, operators */
void ty_lua_open_tensor(lua_State *L, int m, int t);  /* creation, leaving, copies */
void ty_lua_open_view(lua_State *L, int m, int t);    /* views, indexing, assignment */
void ty_lua_open_print(lua_State *L, int m, int t);   /* tostring */
void ty_lua_open_complex(lua_State *L, int m, int t); /* complex numbers as views */
/* lua_complex.c: pushes what the function of lua/tycho/complex.lua of that name gives of the arguments on the stack, the
** first n of which are the operands src; raises where there is none. who: as it was called. */
void ty_lua_complex(lua_State *L, State *S, const char *who, const char *name, int n,
                    const Given *src);
/* The reals [.., 2] of a complex x, pushed; x itself where it is real. */
const Tensor *ty_lua_complex_reals(lua_State *L, State *S, const char *who, const Tensor *x);
void ty_lua_open_select(lua_State *L, int m, int t); /* shapes that depend on data; sorting */
int ty_lua_select_with(lua_State *L);
void ty_lua_open_random(lua_State *L, int m, int t); /* random numbers */
void ty_lua_open_linalg(lua_State *L, int m, int t); /* ty.linalg by LAPACK */
void ty_lua_open_solve(lua_State *L, int m);
/* lua_solve.c: linalg.`who` of tensors on a device by the device: so many results, pushed; 0: the caller computes. */
int ty_lua_linalg_device(lua_State *L, const char *who);
void ty_lua_open_settings(lua_State *L, int m, int t); /* threads, precision, stats ... */
void ty_lua_open_protect(lua_State *L, int m);         /* protected calls */
void ty_lua_open_evaluator(lua_State *L, int m);       /* what captures are made by */
void ty_lua_open_trace(lua_State *L, int m);           /* their ends: traces */
void ty_lua_open_range(lua_State *L, int m);           /* traces for ranges of sizes */
void ty_lua_open_custom(lua_State *L, int m);          /* passes and backends over captures */
void ty_lua_open_export(lua_State *L, int m);          /* plans for jit.export */
void ty_lua_open_check(lua_State *L, int m);           /* what jit.check needs */
void ty_lua_open_instance(lua_State *L, int m); /* functions that go on in the middle of closures */
void ty_lua_open_compile(lua_State *L, int m, int t); /* compile, explain, graph */
void ty_lua_open_graph(lua_State *L, int m);          /* what graph.lua needs */
void ty_lua_open_grad(lua_State *L, int m, int t);    /* gradients */
void ty_lua_open_attend(lua_State *L, int m);         /* attention */
void ty_lua_open_fft(lua_State *L, int m);            /* Fourier transforms */
void ty_lua_open_modes(lua_State *L, int m);          /* modes of a call's extent */
void ty_lua_open_vmap(lua_State *L, int m);           /* what vmap.lua needs */
void ty_lua_open_lifetimes(lua_State *L, int m);      /* what lifetimes.lua needs */
void ty_lua_open_loop(lua_State *L, int m);           /* what scan.lua needs */
void ty_lua_open_composite(lua_State *L, int m);      /* what functions.lua needs */
void ty_lua_open_args(lua_State *L, int m);           /* what opens devices */
void ty_lua_composites_close(struct Composites *C);
void ty_lua_open_probe(lua_State *L, int m);   /* what proofs need */
void ty_lua_open_profile(lua_State *L, int m); /* profiles; clock, terminal */
void ty_lua_open_signal(lua_State *L, int m);  /* Ctrl-C at a prompt */
void ty_lua_open_seam(lua_State *L);           /* what other shared objects of ours need */

#endif
