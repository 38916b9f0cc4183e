/*
** driver.h -- what the files of the driver share: contexts, streams, work that waits to be done.
** A call takes the lock, asks whether the driver lives, and gives a CUresult.
*/
#ifndef SOFT_GPU_DRIVER_H
#define SOFT_GPU_DRIVER_H

#include <pthread.h>

#include "gpu.h"

#define CALL EXPORT int

typedef enum Magic {
  IS_CONTEXT = 0x11c0de,
  IS_MODULE,
  IS_STREAM,
  IS_EVENT,
  IS_GRAPH,
  IS_NODE,
  IS_EXEC,
  IS_LINK,
  IS_KERNEL
} Magic;

typedef struct Context {
  Magic magic;
  int device, references,
      error;             /* error: the context is lost, and this is what every call answers */
  unsigned flags, peers; /* peers: bit d says that device d's memory is seen */
  bool primary;
} Context;

extern pthread_mutex_t driver_lock;
void driver_unlock(int *held);

/* Holds the lock to the end of the function. */
#define LOCKED \
  int held __attribute__((cleanup(driver_unlock))) = 1; \
  pthread_mutex_lock(&driver_lock)

int driver_ready(void);  /* initialised, in this process */
int context_ready(void); /* and a context is current that is not lost */
Context *context_current(void);
void context_lose(int error);
/* Work of a context runs from now on, or null: what is lost is that one. Gives what ran before. */
Context *context_run(Context *c);
void context_forget_work(void);

/* Begins a call that needs a context. */
#define ENTER \
  LOCKED; \
  int entered = context_ready(); \
  if (entered) return entered

/* --- work */

typedef struct Stream Stream;

typedef struct Wait { /* for the first `number` items of a stream */
  Stream *stream;
  uint64_t number;
} Wait;

typedef struct Bytes { /* host or device memory */
  uint64_t address;
  bool device;
} Bytes;

typedef enum ItemKind {
  I_NOTHING,
  I_KERNEL,
  I_COPY,
  I_SET,
  I_EVENT,
  I_HOST,
  I_POLL, /* waits until poll(user) is not 0, asking from time to time */
  I_FREE,
  I_GRAPH
} ItemKind;

typedef struct Event {
  Magic magic;
  Context *context;
  bool recorded, timing;
  Wait at;
  double time;       /* when it happened, in milliseconds */
  uint64_t happened; /* number of the item that set time */
} Event;

typedef struct Work { /* what an item, or a node of a graph, does */
  ItemKind kind;
  Launch launch; /* owns launch.params */
  Bytes to, from;
  uint64_t bytes, rows, to_pitch, from_pitch; /* of copies and sets: rows of so many bytes */
  uint32_t value, element;
  uint8_t *staged; /* of a copy from pageable memory */
  Event *event;
  void (*call)(void *);
  int (*poll)(void *);
  void *user;
  struct Exec *graph;
} Work;

typedef struct Item {
  Work work;
  Wait *waits;
  int n_waits;
  struct Item *next;
} Item;

struct Stream {
  Magic magic;
  Context *context; /* null: of the legacy stream */
  unsigned flags;
  int priority;
  Item *first, *last;
  uint64_t queued, done; /* items ever added, carried out */
  Wait *pending;         /* waits for the next item */
  int n_pending, max_pending;
  Stream *next;
};

Stream *stream_of(void *handle); /* null: not a stream */
void stream_add(Stream *s, Work *w);
void stream_finish(Stream *s, uint64_t number);
void work_run(Work *w);
void work_free(Work *w);
void streams_finish(void);
void streams_drop(Context *c);
int launch_check(const Launch *l);
int launch_params(Launch *l, void **params, void **extra);
int copy_check(const Work *w);
void graph_run(struct Exec *g);
void graph_release(struct Exec *g);
int shared_limit(void); /* bytes of shared memory that a block may ask for */
Kernel *kernel_of(void *handle);
extern const char
    image_mark[]; /* what stands for a cubin begins with it; then the capability, and a line */

#endif
