/*
** file_ring.h -- images and records read from files ahead of who takes them, by threads that know
** nothing of Lua.
** In: a list of jobs. Out: their results, in the order of the jobs, one by one.
*/
#ifndef TY_FILE_RING_H
#define TY_FILE_RING_H

#include "file/file_image.h"

/* A job: an image file, or `bytes` of a file from `at`. */
typedef struct RingJob {
  const char *path; /* the ring's */
  i64 at;
} RingJob;

typedef struct RingItem {
  Image image; /* of a record: its bytes, one row of them */
  u8 *memory;  /* owned: where the image lies, if it is lent */
  i64 room;
  bool ok, done; /* done: it was read, or could not be */
  char err[FILE_ERR];
} RingItem;

typedef struct Ring Ring;

/* What all jobs have in common. */
typedef struct RingPlan {
  ImageWant want;
  i64 bytes;    /* of a record; 0: images */
  int workers;  /* 0: ty_ring_next reads itself */
  int capacity; /* items that are read and not taken, at most */
} RingPlan;

/* Takes over job and its text `names` (ty_file_alloc), and `old`, a ring whose memory is used again,
** or NULL; also when it fails. NULL: no memory. Threads start with the first ty_ring_next, as many
** as the system gives; none is no error. */
Ring *ty_ring_new(const RingPlan *plan, RingJob *job, i64 jobs, char *names, Ring *old);
/* Stops threads when they have done what they are at; nothing may be taken then. */
void ty_ring_stop(Ring *r);
/* Stops and frees everything. */
void ty_ring_close(Ring *r);
/* Jobs that were not taken. */
i64 ty_ring_left(const Ring *r);
/* Waits until the next n results (at most what the capacity holds) are there: optional. */
void ty_ring_wait(Ring *r, i64 n);
/* The next result, which the ring keeps until ty_ring_done; its pixels may be taken. There must be
** one. */
RingItem *ty_ring_next(Ring *r);
void ty_ring_done(Ring *r);

/* The four words of Philox4x32-10 for counter (element, stream) and key seed, as the engine's. */
void ty_ring_philox(u64 element, u64 stream, u64 seed, u32 *word);

#endif
