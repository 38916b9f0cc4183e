/*
** entry.h -- compiled functions: signatures, traces, and which coroutine records lazily.
** The binding tells what Lua's stack looks like in plain numbers; nothing here knows Lua.
*/
#ifndef TY_ENTRY_H
#define TY_ENTRY_H

#include "engine/engine.h"

/* What an argument is, as far as a plan depends on it. */
typedef enum { A_NIL, A_BOOL, A_NUMBER, A_STRING, A_TABLE, A_FUNCTION, A_TENSOR, A_OTHER } ArgKind;
typedef struct SigPart {
  u8 kind;
  u8 contiguous;
  u8 pad[6]; /* zero */
  Type type; /* tensors; zero otherwise */
} SigPart;

/* A graph that was cut while a trace ran. */
typedef struct Seen {
  u64 hash;
  i64 runs;
  i32 nkernels, nsteps;
  i64 nops, bytes_moved, bytes_saved;
  i64 gain;       /* ns that recording saves against eager, as estimated; may be negative */
  Source *source; /* NULL when there was no memory for it */
} Seen;

#define SEEN_MAX 16 /* graphs kept in a trace; later ones are counted only */
typedef struct Signature {
  i32 nparts;
  u64 word;
  SigPart *part;
  i64 hits;
  i32 nseen;
  i64 unseen;      /* cuts whose graph is not kept */
  i64 gain;        /* of all cuts since the last trial began */
  i64 trial, rest; /* calls left to judge whether recording pays; calls left to run eagerly */
  Seen seen[SEEN_MAX];
} Signature;

/* A compiled call that skips Lua: lua_trace.c's own. */
typedef struct Trace Trace;

/* Why no trace answered a call: of those traces that could have, the one most of whose guards held, in their order. */
struct Failed {
  const char *why; /* not a guard: static text */
  Trace *trace;
  i32 guard;
};

#define TRACES_MAX 16
#define SIGNATURES_MAX 64
#define MISSES_MAX 8
#define ENTRY_TIMES 31 /* of a compiled function that are kept */
typedef enum { STANCE_DEFAULT, STANCE_EAGER, STANCE_NO_RECOMPILE } Stance;

typedef struct Entry {
  State *S;
  Signature *sig[SIGNATURES_MAX]; /* most recent first */
  i32 nsig;
  i64 calls, nested, hits, misses, evicted;
  bool fast, ended;         /* ended: collected, though finalisers may still call its function */
  Trace *trace[TRACES_MAX]; /* most recent first */
  i32 ntrace, next_anchor;
  i64 skips, captures, evicted_traces;
  i64 linked;     /* calls among skips that came from the part before without Lua */
  i64 next_timed; /* of skips: the next one whose time is taken */
  bool by_step;   /* that of its steps, not of the call as a whole */
  i64 ntimes;     /* taken so far; time: the last ones, ns */
  i64 time[ENTRY_TIMES];
  Trace *building; /* not installed yet */
  struct Failed failed;
  bool noted; /* the present call was asked what failed; outcomes: their numbers */
  double compared[2];
  bool sizes_differ, closures_differ; /* what the next capture should allow for */
  bool captures_on;
  bool large;                  /* its last result was: places are asked for */
  i64 check_every, check_left; /* every so many calls one is checked; 0: none */
  bool recheck;                /* TYCHO_CHECK=capture: each call is captured anew */
  i32 unproductive;            /* failed captures in a row */
  i32 barren;                  /* captures in a row whose traces were not hit again */
  const Trace *newest;         /* the last one captured; compared only, it may be gone */
  i64 rest;                    /* calls until the next capture may be tried */
  i32 missed;                  /* calls in a row that no trace answered, nor was a capture due */
  i64 away, pause; /* calls left for which no trace is asked; how many the last such pause was */
  bool recorded;   /* the last call that no trace answered was recorded */
  i32 carried; /* the argument whose variables the function has that runs, see lua_instance.c; 0: it is the same in all calls */
  bool stands; /* another function answers its calls */
  i32 cold;    /* signatures in a row that made room for others and never came again */
  char miss[MISSES_MAX][160]; /* what differed at miss number 2, 3 ...: a ring */
} Entry;

/* A call of a compiled function that has not returned, as far as its coroutine's stack tells.
** Offsets count stack slots: the frame of the function lies above `caller` and below `wrapper`. */
typedef struct Lazy {
  const void *thread;
  const void *fn;      /* the function's identity */
  int caller, wrapper; /* caller: -1 at the bottom of a coroutine */
  int line;            /* the caller's line, -1 when it has none */
  int slot;            /* of the function's frame, once it was found; 0 before */
  const void *pinned;  /* the binding's call that ends it (a Protect); NULL: as the stack tells */
  Recording *open;
  Entry *entry; /* NULL once it was collected */
  Signature *sig;
  void (*on_cut)(void *ctx, Recording *b); /* jit.graph listens: before each cut */
  void *ctx;
  struct Lazy *next;
} Lazy;

#define STASH_MAX 64
#define ROOMS 16
#define LEARN_SLOTS 1024
#define LEARN_NODES 128
#define QUICK_PATTERNS 4 /* which of two operands are numbers */
typedef struct Quick Quick;
typedef struct QuickTable {
  Quick *of[OP_COUNT][T_COUNT][QUICK_PATTERNS]; /* made when first used */
} QuickTable;
/* What the last call that a trace was asked for gave: what pick answers with; a link and registers, for what goes on in
** the middle of the function; its arguments, where no trace answers. */
typedef enum { PART_ANSWERS, PART_GOES_ON, PART_MISSES } PartGives;
struct Compiled {
  Lazy *lazy;
  u8 *key; /* scratch for keys */
  size_t key_cap;
  struct Learn { /* by hash of a graph: nodes that turned out to be needed after its cut */
    u64 hash;
    u64 bits[LEARN_NODES / 64];
  } learn[LEARN_SLOTS];
  i64 cuts, relearned;
  void *
      fresh; /* the only tensor that the last answer of a trace made, given to the caller alone; or NULL */
  u8 stance;
  u8 part;  /* PartGives */
  u64 link; /* the number of the link that the last trace leads to; see lua_spare.c */
  bool
      kept; /* the trace that answered last may have put arguments or results where others find them */
  u64 own;    /* of a direct answer, as bits: results that are handles which the run has made */
  bool plain; /* whatever the stance is, for now they run eagerly */
  const void
      *slicer;   /* the coroutine whose calls run in slices of time, while it is resumed; or NULL */
  bool sliced;   /* the last call of a trace waits for its slices */
  i64 in_lua;    /* so many compiled functions, or rests of them, ran as Lua, or were captured */
  struct Stash { /* results that wait to be handed out, on the thread that made them */
    const void *thread;
    i32 base, n, slot; /* slot: of the frame that is to hand them out */
  } stash[STASH_MAX];
  i32 stashed;
  struct
      Room { /* memory of a call for its trace; calls that finalisers make meanwhile have the next */
    void *p;
    size_t n;
    uintptr_t frame; /* where the call stands on the stack of C */
    struct Trace *held;
    i32 grads; /* handles for gradients that this call and those below have of the list */
  } room[ROOMS];
  i32 nroom;                      /* of calls in progress, or that errors have ended */
  QuickTable *quick[DEVICES_MAX]; /* made when first used */
};

/* How long a call that a trace answers takes, ns: the median of those that were timed last; -1: none was. */
i64 ty_entry_time(const Entry *e);
void ty_entry_note_time(Entry *e, i64 ns);

/* --- engine.c */
bool ty_engine_open(State *S); /* of a zeroed State: settings, machine, hooks */
void ty_engine_close(State *S);

/* --- quick.c */
bool ty_quick(State *S, int op, int n, const Given *src, Tensor *y);
void ty_quick_clear(State *S);

/* --- entry.c */
/* The trace of this signature, moved to the front; made when new. NULL: out of memory. */
Signature *ty_entry_signature(Entry *e, const SigPart *part, i32 n, u64 word);
/* Whether this call is to record. Where fusion saves less than recording costs, calls run eagerly
** for a while. */
bool ty_entry_records(Signature *t);
void ty_entry_part(const SigPart *p, char *buf, size_t n); /* as text: f32[2,3], number ... */
/* No trace answered the call, and it is not captured: traces may be left alone for a while. */
void ty_entry_missed(Entry *e);
void ty_entry_reset(Entry *e);
void ty_entry_free(Entry *e);
void ty_entry_note(Lazy *z, u64 hash, const Plan *p, const Graph *g); /* a cut under z's trace */
u64 ty_entry_word(const State *S); /* the settings that enter a signature */

Lazy *ty_lazy_find(State *S, const void *thread);
/* NULL: no memory; the call then runs eagerly. Beyond LAZY_MAX the longest open one is closed: its
** coroutine may be gone, which nobody tells us. */
#define LAZY_MAX 64
Lazy *ty_lazy_open(State *S, const Lazy *like);
/* Cuts what is open and forgets z. What could not be computed stays pending. */
void ty_lazy_close(State *S, Lazy *z);
/* What is recorded between these two is cut once, into one plan; NULL: it is so already, or cannot be. No Lua code runs
** meanwhile. joined: ok, whether all was recorded; `written`, or NULL, is as it was where the plan fails. */
Lazy *ty_lazy_join(State *S, const Storage *written);
bool ty_lazy_joined(State *S, Lazy *z, bool ok, Storage *written);
void ty_lazy_abandon(State *S, Lazy *z); /* the same without the cut */

#endif
