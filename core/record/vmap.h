/*
** vmap.h -- batched tensors: one Storage that stands for one storage of each example of a vmap.
** A batched storage has no buffer and waits for nothing. Its Batched holds the tensor with the values of
** all examples: dims [examples, elements of the storage], so that a view of the batched storage is a view of
** that tensor with one more dim in front. That tensor may be batched itself, by an outer vmap.
*/
#ifndef TY_VMAP_H
#define TY_VMAP_H

#include "record/tensor.h"

typedef enum { RANDOM_ERROR, RANDOM_DIFFERENT, RANDOM_SAME } RandomRule;

/* A vmap that runs. Ids ascend: an inner vmap has a higher one. */
struct Level {
  Level *outer;
  u32 id;
  RandomRule random;
  i64 count;  /* of examples */
  u64 seq;    /* of the State's records when it began */
  u64 born;   /* storages that were made in a vmap until then */
  bool again; /* it has ended before: the backward pass through it runs */
};

struct Batched {
  u32 level;
  Tensor t; /* [count, numel], or [1, numel] while it is the same for all; elements side by side */
};

Level ty_vmap_begin(State *S, u32 id, i64 count, RandomRule random); /* id 0: a new one */
Level ty_vmap_outside(const State *S); /* of id 0: within it no vmap runs */
bool ty_vmap_is_open(const State *S, u32 id);
/* Whether the record with that number was made inside of a vmap that runs. */
bool ty_vmap_is_inside(const State *S, u32 id, u64 seq);
/* The same of a storage. Ids do not tell: a vmap may be entered again within one that began later. */
bool ty_vmap_has_made(const State *S, u32 id, const Storage *st);
/* elements.c: values of all examples are asked for as if they were one. Always NULL. */
void *ty_vmap_refuse(State *S);

static inline u32 ty_vmap_level(const Tensor *x) {
  return x->st->batched ? x->st->batched->level : 0;
}
/* The highest level of the operands; 0: no one is batched. */
u32 ty_vmap_level_of(int n, const Given *src);

void ty_batched_free(Batched *m); /* tensor.c */
/* A storage of the innermost vmap that is the same for all its examples as f, which is taken over: what tapes
** know of it they know for one example. */
Storage *ty_vmap_above(State *S, Storage *f, bool detached);
i64 ty_vmap_count(const State *S, u32 id); /* examples of a vmap that runs, else -1 */
RandomRule ty_vmap_randomness(const State *S, u32 id);
/* A storage as `like`, which is batched, with its values in `all`, which is taken over; NULL is passed on. */
Storage *ty_batched_like(State *S, const Storage *like, Storage *all);

/* y, of dims t, stands for the examples of x [count, elements of t]. x is let go of. */
bool ty_vmap_wrap(State *S, Tensor *x, u32 level, const Type *t, Tensor *y);
/* y: x for all examples, with their dim in front. Where x is the same for all it is repeated count times; for
** count -1 the dim is 1, or not there where x is not batched at that level. rank > 0: dims of 1 make the rest so
** many. */
bool ty_vmap_lift(State *S, const Tensor *x, u32 level, i64 count, int rank, Tensor *y);

/* What an operation needs beside its operands. */
typedef struct VmapArg {
  u32 dims; /* REDUCE */
  i32 dim;  /* SCAN, FFT, ARGSORT, GATHER, SCATTER: dim; CAST: the dtype, -1 for a copy */
  i32 base; /* FFT: kind; GATHER, SCATTER, POSITIONS: of the index; ARGSORT: descending; SEARCHSORTED: right */
  i64 keep; /* ARGSORT; FFT: n; POSITIONS: how many there are */
  i32 norm; /* FFT */
} VmapArg;

/* What record.c does where an operand is batched: by its own functions, for all examples at once. t: dims of the
** result for one example. Errors of the user's have been found before. */
bool ty_vmap_record(State *S, const char *who, int op, int n, const Given *src, VmapArg arg,
                    const Type *t, Tensor *y);
bool ty_vmap_contract(State *S, const char *who, const Tensor *a, const Tensor *b, int lead,
                      int summed, const Type *t, Tensor *y);
bool ty_vmap_cat(State *S, const char *who, int n, const Given *src, int dim, const Type *t,
                 Tensor *y);
/* Whether x may be written to dst: it is batched no deeper, or dst is of this vmap and can become so. */
bool ty_vmap_may_write(const State *S, const Tensor *dst, const Tensor *x);
/* Makes dst ready for x, which is batched: a storage that was the same for all examples is one for each. */
bool ty_vmap_open_to(State *S, const char *who, const Tensor *dst, const Given *x);
bool ty_vmap_write(State *S, const char *who, const Tensor *dst, const Given *x);
bool ty_vmap_random(State *S, const Level *at, const Type *dims, u64 stream, int word, Tensor *y);
#endif
