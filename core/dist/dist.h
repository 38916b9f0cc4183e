/*
** dist.h -- messages between the ranks of a run: what the files of dist.so share.
** A shared object of its own, loaded by `ty.dist`. One thread at a time calls it.
*/
#ifndef TY_DIST_H
#define TY_DIST_H

#include <setjmp.h>
#include "base/base.h"
#include "dist/mpi.h"
#include "ir/call.h"

/* --- dist_system.c: what is of the operating system */

/* The first of these libraries that is there, its symbols shown to libraries that it loads itself. */
void *ty_dist_library(const char *const *names);
void ty_dist_sleep(i64 nanoseconds);
/* Calls fn(status) when the process exits, the last one first; not in a child of a fork. */
void ty_dist_at_exit(void (*fn)(int status));
/* From now on abort() between arm and disarm, on their thread, goes on at the point instead. */
void ty_dist_catch_abort(void);
sigjmp_buf *ty_dist_arm(void);
int ty_dist_disarm(int y); /* gives y */

/* --- exchange.c */

/* Bytes to or from another rank. */
typedef struct Message {
  void *p;
  i64 bytes;
  int rank;
  bool sends;
} Message;

typedef bool InterruptedFn(void *ctx);

typedef struct World {
  const Mpi *mpi; /* NULL: one rank alone, and no MPI */
  int rank, size;
  bool crowded;      /* more ranks than processors on this machine */
  i64 piece;         /* bytes of a message: MPI counts them by an int, and more go in several */
  i64 patience;      /* nanoseconds without any progress after which a wait fails */
  char file[512];    /* where the launcher says that a rank has failed; "": there is none */
  char failure[400]; /* why no message can be exchanged any more; "": all is well */
  InterruptedFn *interrupted;
  void *ctx;
} World;
extern World ty_world;

/* Starts MPI. False: *err says why not. */
bool ty_world_open(const char *const *names, const char **err);
/* Messages under way. Those of one tag between two ranks keep their order. NULL or false: ty_world.failure says why not, and
** memory of the messages may still be read and written. end: waits, and frees it. */
typedef struct Flight Flight;
Flight *ty_world_begin(const char *who, const Message *m, int n, int tag);
bool ty_world_end(Flight *f);
void ty_world_go_on(void);
/* Exchanges all messages of one tag at once. False: ty_world.failure says why not, on this rank and soon on all others;
** memory of the messages may still be read and written then. */
bool ty_world_exchange(const char *who, const Message *m, int n, int tag);
/* MPI's own reduction of n elements over a team's ranks, which begin theirs in one order. */
Flight *ty_world_reduce(const char *who, const void *x, void *y, i64 n, int dtype, MpiOp op,
                        int team);
/* Waits until done(ctx), for which these ranks have to do their part. */
bool ty_world_until(const char *who, const int *ranks, int n, bool (*done)(void *), void *ctx);
/* Every wait ends, on all ranks: "who: text"; "who: rank <this one> what"; the same for an error of MPI's. Nothing where
** there is a failure already. */
void ty_world_fail(const char *who, const char *text);
void ty_world_fail_here(const char *who, const char *what);
void ty_world_fail_mpi(const char *who, int code);

/* --- calls.c */

/* A text of each rank of a list, which all of them get. */
enum { AGREE_TEXT = 256 };
typedef struct Agreeing Agreeing;
/* ranks: of the list, own: this one's place. run: of the plan that it is a part of, or 0. NULL or false: ty_world.failure. */
Agreeing *ty_agree_begin(const char *who, int tag, const Message *ranks, int n, int own,
                         const char *text, u64 run);
bool ty_agree_wait(Agreeing *a, bool *same); /* whether all gave the same text */
const char *ty_agree_text(const Agreeing *a, int i);
void ty_agree_end(Agreeing *a);

/* What a call of a plan does. EXPECTS: takes a message that is the head's text, or fails. GATHERS, SHOWS: of NCCL alone, a part of
** each rank on all of them, and one rank's. */
typedef enum { EXCHANGES, AGREES, EXPECTS, REDUCES, GATHERS, SHOWS } ExchangeKind;

/* What an exchange is, beside its messages; no byte of it is left to chance. */
typedef struct ExchangeHead {
  char who[32], text[AGREE_TEXT];
  i32 kind, tag, n,
      own;              /* n messages; of an agreement, ranks, and the own one's place among them */
  i32 dtype, op, team;  /* of a reduction: an MpiOp, or NcclOp */
  i32 comm;             /* of tensors of a device: its number + 1 (nccl.h); 0: of the CPU */
  i64 from, to, copies; /* so many bytes go from the rank to itself */
  /* Of a device, where messages' ranks are places among the communicator's. */
  i64 count;        /* from `from` to `to`: bytes of each rank's part; elements of a reduction */
  i32 device, root; /* root: the place of who shows */
} ExchangeHead;
/* The number of the call of a plan, which `add` registers; 0: out of memory, or there are too many. takes: bytes that
** it is given, 0: it sends what its result's memory holds. p of messages: an offset; none of their bytes is left to
** chance. */
i32 ty_exchange_call(const ExchangeHead *h, const Message *m, i64 takes, i64 gives,
                     i32 (*add)(const AsyncCall *c));

#endif
