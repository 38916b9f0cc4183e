/*
** tensor.h -- Buffer, Storage, Tensor; the State; recording.
**
** A Buffer is bytes. A Storage is what tensors share: it points to a buffer, or is pending: a node
** of a recording gives its contents. A Tensor is an affine view of a storage.
** Writing to a storage never disturbs who pinned its buffer: the storage moves on to another buffer
** unless it is the only owner (copy on write). Only an exposed storage keeps its address.
**
** A Recording is a graph and what belongs to it: pinned input buffers and the storages that wait for
** its nodes. In eager mode a recording holds one operation and is cut (compiled and run) at once. In
** lazy mode it is open until a value is demanded. After the cut it is closed: storages that were
** not computed stay pending on it and are computed, with what they need, if they are demanded
** later.
*/
#ifndef TY_TENSOR_H
#define TY_TENSOR_H

#include "device/device.h"
#include "ir/graph.h"

typedef struct Recording Recording;
typedef struct State State;
typedef struct Capture Capture; /* capture.h */
typedef struct Record Record;   /* grad.h */
typedef struct Batched Batched; /* vmap.h */
typedef struct Level Level;
typedef struct LoopScope LoopScope; /* loop.h */

/* Who is told when something is no longer used; drop NULL: nobody. */
typedef struct Owner {
  void (*drop)(void *ctx);
  void *ctx;
} Owner;

typedef struct Buffer {
  State *S;
  i32 refs;
  bool foreign; /* not ours: never freed, the owner is told */
  bool
      exposed; /* its address left: contents may change or be read at any time; a foreign one that is
                ** not is lent: nobody writes to it */
  bool kept;   /* the engine keeps something made from the contents */
  u64 stamp;   /* of its contents: no others of the State's buffers ever have it */
  u64 born;    /* the stamp that it had first, 0 where its contents came from the CPU: see Fault */
  u64 seen;    /* a walk's own: see trace.c */
  i64 bytes;
  const Device *device;
  void *data; /* the device's */
  Owner owner;
} Buffer;

typedef struct Storage {
  State *S;
  i32 refs;
  u8 dtype, device;
  bool frozen; /* holds what another storage held, for gradients: nobody writes to it */
  bool stale;  /* frozen, and let go of when that other storage was written */
  u32 version; /* counts writes */
  u64 born;    /* number among the storages that were made in a vmap, 0: it was made in none */
  i64 numel;
  Buffer *buf;          /* NULL: never computed yet */
  Recording *recording; /* not NULL: pending; the contents are node `node` of this recording */
  i32 node;
  struct Storage *next, **prev; /* the others that wait for the same recording */
  Record *tape;             /* where the contents came from, held; NULL: nothing to differentiate */
  struct Storage *snapshot; /* frozen, of these contents; of a snapshot: the storage it is of */
  Batched *batched; /* not NULL: stands for one of each example of a vmap; no buf, no recording */
} Storage;

typedef struct Tensor {
  Storage *st; /* NULL after release */
  Type type;
  i64 offset;
  i64 strides[MAX_RANK]; /* in elements */
  bool detached;         /* no gradient goes through this view */
  u32 origin; /* a capture's number of the tensor from outside that it is, or is a view of */
} Tensor;

enum { WANT_SINKS, WANT_SAVED, WANT_ALL }; /* nothing; what is frozen; all that waits */

struct Recording {
  Graph g;
  struct State *S;
  i32 refs; /* storages pending on it, plus one while it is open */
  bool closed;
  bool dead; /* nothing of it can be computed any more */
  bool body; /* a loop's body is recorded: it cannot be computed yet */
  bool kept; /* a backward function of Lua's may ask for any of what waits */
  u8 wants;  /* what a cut computes besides sinks: WANT_ */
  i32 ninput, input_cap;
  struct RecordingInput { /* by INPUT node, in order of appearance */
    i32 node;
    Buffer *buf; /* pinned */
    i64 offset;  /* in elements */
    u32 origin;  /* of the tensor that was read; 0 outside of captures */
  } * input;
  struct RecordedLoop { /* by LOOP node, in their order: the turn that it was made of */
    i32 node, depth, nparam, nroot;
    i32 *param, *root; /* parameters, and what was made of them; one allocation */
  } * loop;
  i32 nloop;
  i32 *site; /* by node: where it was recorded, if that was known; of the first nsite */
  i32 nsite, site_cap;
  i64 *
      took; /* of an instance's: nanoseconds of each step, summed over the runs that were timed; or NULL */
  i64 ntook;              /* of so many runs */
  bool timed;             /* this run is to be */
  Storage *waiting;       /* storages pending on this recording */
  i64 pinned;             /* bytes of inputs */
  bool lent;              /* inputs are held by others, as long as it runs: not pinned */
  void *learn;            /* engine: what its cut learned to store */
  struct Recording *next; /* in the list of spares */
};

/* An operand as the user gave it. */
typedef enum { O_TENSOR, O_NUMBER, O_BOOL } OperandKind;
typedef struct Given {
  OperandKind kind;
  const Tensor *t;
  double v;
  i32 symbol; /* a capture's name for the number, 0: it is a constant */
  bool dies;  /* nobody reads the tensor after: what is written may share its buffer */
} Given;

#define ERR_MAX 512

/* An error that a device told later. Buffers that were born between the run and that hold nothing; what is older holds
** what it held, since the device left undone what followed. */
#define FAULTS_MAX 1024
typedef struct Fault {
  const Device *device; /* NULL: any */
  u64 from, to;
  char text[ERR_MAX];
} Fault;

/* Bytes of a buffer of another device, copied to be read here. The stamp tells their contents. */
#define WINDOWS 8
typedef struct Window {
  u64 stamp;
  i64 from, bytes;
  void *data;
} Window;

enum { REDUCED_NONE, REDUCED_HALF, REDUCED_TF32 }; /* half floats; f32 too */
enum { RECORD_SPARES = 3 };                        /* records of fewer edges are kept for reuse */

struct State {
  char err[ERR_MAX]; /* what the last call that answered false has to say; no position */
  bool memory;       /* it failed since memory ran out: collecting garbage may help */
  Recording *open;   /* lazy mode: where operations are appended; NULL: eager */
  Recording *spare;  /* dropped recordings for reuse */
  i32 nspare;
  void *spare_block; /* dropped storages and buffers, linked by their first word */
  i32 nspare_block;
  Record *spare_record[RECORD_SPARES]; /* dropped records, by their edges, linked by next_dead */
  i32 nspare_record;
  bool closed; /* the engine is gone: what is dropped now is freed at once */
  /* settings; `word` of them enters every key */
  u8 default_device; /* of leaves that are asked for without one */
  u8 default_dtype;  /* of numbers and of integers that become floats: f32 */
  u8 blas, fast, deterministic;
  u8 amx;           /* precision is fast and the processor has a unit for bf16 */
  u8 reduced;       /* REDUCED_*: what products a device's library may compute at less precision */
  u64 seed, stream; /* Philox key; next stream number */
  u64 nops, nviews, nlazy; /* counters */
  u64 stamps;              /* given to buffers so far */
  u32 origins;             /* given to tensors by captures that have ended */
  u64 walks;               /* over buffers, which mark what they have seen */
  i32 recording_nodes;     /* an open recording is cut when it has so many; 0: as many as pay */
  i64 held, limit;         /* bytes of buffers of ours; the most that there may be, 0: any number */
  i64 debt;                /* bytes allocated for tensors since Lua's collector last stepped */
  bool grad_mode, tracks;  /* operations may be taped; and there is a tape to go on */
  u8 cast;                 /* autocast's dtype + 1, 0: none */
  i64 records;             /* live ones, of all tapes */
  i64 hooks;               /* leaves outside of captures that have hooks: a part of every key */
  u32 exchanged;           /* which gradients go to other ranks; 0: none. A part of every key */
  u64 record_seq;
  Record *dead_records; /* being freed */
  i32 site;             /* where operations are recorded now (ir/site.h), 0: unknown */
  bool sites;           /* a profile by line: native functions look where they are called */
  Capture *capture;     /* not NULL: operations are recorded for later calls, nothing is computed */
  Stream runs;
  Watch *slicing; /* of a run in slices of time, while it has the turn: slice.c; or NULL */
  Fault *fault;
  i32 nfaults;
  bool owed;         /* the last of them, of a check in an earlier run, was not raised yet */
  bool out_of_range; /* an index is, as the last run has met on the CPU, before it wrote */
  Window window[WINDOWS];
  u32 windows;     /* opened so far */
  LoopScope *loop; /* the innermost loop whose body is recorded */
  Level *level;    /* the innermost vmap that runs */
  u32 levels;      /* so many were opened */
  u64 born;        /* so many storages were made in one */
  /* engine.c fills these in: level 2 calls upward through them */
  bool (*cut)(State *S, Recording *b,
              Storage *demanded); /* computes; the recording is closed then */
  /* Told of every operation as its result is recorded; NULL: no one listens. */
  void (*recorded)(State *S, const Recording *b, i32 node);
  /* An eager map or product that needs no graph: true with the result in y; false: take the road. */
  bool (*quick)(State *S, int op, int n, const Given *src, Tensor *y);
  i64 few; /* fewer elements than this are filled without a graph; 0: dumps show them all */
  /* "file:line" of the user's code that runs, "" when unknown. */
  void (*where)(State *S, char *text, size_t n);
  /* The contents of a buffer of which something is kept are no more. */
  void (*forget)(State *S, Buffer *b);
  /* Whether the host wants an end of what runs: Ctrl-C. */
  bool (*interrupted)(State *S);
  bool stopped; /* the last call failed since a run was left undone for that */
  struct Engine *engine;
};

/* Notes and says what a device told, ty_cpu: one of them: always false. What runs since then have made there is of no value. */
bool ty_device_failed(State *S, const Device *d, const char *err);
/* Whether the buffer holds what a device could not compute; S->err says why. */
bool ty_buffer_is_faulty(State *S, const Buffer *b);

/* Says what went wrong in S->err; always false, so `return ty_fail(...)`. */
bool ty_fail(State *S, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool ty_fail_memory(State *S, const char *who, i64 bytes);
bool ty_fail_room(State *S, const char *who, const Device *d, i64 bytes); /* the memory of d */

/* Whether so many bytes more may be in use. */
static inline bool ty_within_limit(const State *S, i64 bytes) {
  return TY_LIKELY(!S->limit) || (bytes <= S->limit && S->held <= S->limit - bytes);
}

/* Whether a device's tensor cores may compute with half floats. */
static inline bool ty_reduces_halves(const State *S) {
  return S->reduced || S->cast == T_F16 + 1 || S->cast == T_BF16 + 1;
}

#define BLOCK_BYTES 104 /* room for a Storage or a Buffer */
_Static_assert(sizeof(Storage) <= BLOCK_BYTES && sizeof(Buffer) <= BLOCK_BYTES, "block");

/* --- tensor.c: lifetimes and views. Functions that make a tensor fill *y, which holds no storage
 * before. */
Buffer *ty_buffer_new(State *S, const Device *d, i64 bytes);
Buffer *ty_buffer_copy(State *S, const Buffer *b); /* the same contents; NULL: S->err */
/* Those bytes of the contents where the CPU reads them: good until WINDOWS other reads, or until they change. NULL:
** S->err. */
const void *ty_buffer_read(State *S, const Buffer *b, i64 from, i64 bytes);
void ty_buffer_drop(Buffer *b);
static inline Buffer *ty_buffer_hold(Buffer *b) {
  b->refs++;
  return b;
}
void ty_buffer_changed(Buffer *b); /* its contents are no longer what they were */
Storage *ty_storage_new(State *S, int dtype, int device,
                        i64 numel); /* refs 1, no buffer, not pending */
void ty_storage_drop(Storage *st);
void ty_storage_wait(Storage *st, Recording *b,
                     i32 node); /* becomes pending there (leaves its old recording) */
void ty_storage_settle(Storage *st, Buffer *buf); /* pending no more: takes over the reference */
static inline Storage *ty_storage_hold(Storage *st) {
  st->refs++;
  return st;
}
void ty_storage_touch(Storage *st); /* its contents change: lets go of the snapshot */
void ty_storage_leave_snapshot(Storage *st);
void ty_recording_drop(State *S, Recording *b);
/* Its nodes that have no site yet were recorded at S->site. Out of memory they stay without. */
void ty_recording_place(State *S, Recording *b);
/* Nothing of it will be computed any more; it pins nothing. */
void ty_recording_end(Recording *b);
/* Reads an exposed buffer, which may change at any time: what is recorded must be computed now. */
bool ty_recording_exposed(const Recording *b);
void ty_tensor_open(State *S);
void ty_tensor_close(State *S); /* gives the spares back; tensors may outlive the engine */
Recording *
ty_recording_new(State *S); /* refs 1: the opener's; NULL when out of memory, said in S->err */

bool ty_tensor_from(State *S, Tensor *y, const Type *t,
                    const void *bytes); /* contiguous; NULL: undefined */
bool ty_tensor_foreign(State *S, Tensor *y, const Type *t, void *data, Owner owner);
/* The same over memory that nobody writes to as long as the tensor lives. */
bool ty_tensor_lent(State *S, Tensor *y, const Type *t, const void *data, Owner owner);
void ty_tensor_alias(Tensor *y, const Tensor *x); /* the same storage and view */
void ty_tensor_release(Tensor *t);
bool ty_tensor_is_contiguous(const Tensor *t); /* row-major without gaps, any offset */
/* A view of x; the caller vouches that it lies inside. */
void ty_tensor_view(Tensor *y, const Tensor *x, const Type *t, i64 offset, const i64 *strides);
/* Strides under which x can be seen with dims t without a copy; false when there are none. */
bool ty_tensor_reshape(const Tensor *x, const Type *t, i64 *strides);

/* --- elements.c */
/* Computes x if it is pending, and gives the address of its first element (its view's offset
 * added). */
const void *ty_tensor_read(State *S, const Tensor *x);
/* The same of complex numbers, too, for who moves whole elements. */
const void *ty_tensor_bits(State *S, const Tensor *x);
/* The same on x's own device. */
const void *ty_tensor_place(State *S, const Tensor *x);
/* The same for writing there, outside the engine: the storage owns its buffer alone afterwards. */
void *ty_tensor_own(State *S, const Tensor *x);
/* The same on the CPU; fails elsewhere. */
void *ty_tensor_write(State *S, const Tensor *x);
/* As ty_tensor_write, and the address stays valid and live for ever. */
void *ty_tensor_expose(State *S, const Tensor *x);

/* --- record.c, record_move.c, record_write.c: the road's entrance. y holds no storage before. Errors start with `who`, the
** user's name of the function (NULL: the row's lua name). All of them: check, infer, append, then
** cut in eager mode.
 */
bool ty_record(State *S, const char *who, int op, int n, const Given *src,
               Tensor *y); /* MAP and MATMUL */
/* Products of a [lead.., M.., K..] and b [lead.., K.., N..], summed over the K dims: [lead.., M.., N..].
** lead, summed: how many dims there are of the first and of K. Leading dims broadcast. */
bool ty_record_contract(State *S, const char *who, const Tensor *a, const Tensor *b, int lead,
                        int summed, Tensor *y);
bool ty_record_cast(State *S, const Tensor *x, int dtype,
                    Tensor *y); /* same tensor when nothing changes */
bool ty_record_to(State *S, const Tensor *x, int device,
                  Tensor *y); /* the same tensor when it lies there */
bool ty_record_bitcast(State *S, const Tensor *x, int dtype, Tensor *y);
/* REDUCE over the dims in the bit set; none: over all. keep: reduced dims stay as 1. ARGMAX and
** ARGMIN take all dims or one. Results of ARG* are 0-based. */
bool ty_record_reduce(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                      Tensor *y);
bool ty_record_scan(State *S, const char *who, int op, const Tensor *x, int dim, Tensor *y);
/* index: any integer dtype; base: what the first position is called (1 for users); negative counts
** from the end. Checks every index, which demands its value, unless range.c knows that all are in
** range. POSITIONS_KNOWN: it is made of what ty_record_positions gave, i64 from 0, and no check is due. */
enum { POSITIONS_KNOWN = -1 };
bool ty_record_gather(State *S, const char *who, const Tensor *x, int dim, const Tensor *index,
                      int base, Tensor *y);
/* The positions among `size` ones that an index names, as gather checks them: i64 from 0. */
bool ty_record_positions(State *S, const char *who, const Tensor *index, i64 size, int base,
                         Tensor *y);
/* The first element that is no position among `size` ones, in row-major order; -1: none. p: its
 * address. skip, or NULL: what names nothing and is right anywhere. */
i64 ty_record_bad_index(const Tensor *index, const char *p, i64 size, int base, const double *skip);
/* Every element of an integer tensor names one of `size` places, or is *skip. As gather asks. *later: that was not looked
** at, and is when the operation that goes by it runs. */
bool ty_record_check_index(State *S, const char *who, const Tensor *index, i64 size, int base,
                           const double *skip, bool *later);
/* Whether no two elements of such a view share memory: else it is not written. */
bool ty_record_distinct(State *S, const char *who, const Type *t, const i64 *strides);
bool ty_record_scatter(State *S, const char *who, int op, const Tensor *x, int dim,
                       const Tensor *index, int base, const Tensor *src, Tensor *y);
/* keep: how many of the dim are wanted, -1: all. */
bool ty_record_argsort(State *S, const Tensor *x, int dim, bool descending, i64 keep, Tensor *y);
bool ty_record_searchsorted(State *S, const Tensor *sorted, const Tensor *v, bool right, Tensor *y);
/* FFT of x, f32 or f64, along a dim; n: the numbers that HALF and REAL_BACK give there. */
bool ty_record_fft(State *S, const char *who, const Tensor *x, int dim, int kind, int norm, i64 n,
                   Tensor *y);
/* ATTEND and ATTEND_GRAD of operands cast and broadcast to the types; NULL: there is none. */
bool ty_record_attend(State *S, const char *who, int op, const Tensor *const *x, const Type *as,
                      const Arg *arg, i64 numel, Tensor *y);
/* grad_attend.c: attention of queries, keys, values under a mask with dropout by a key, which may be NULL; taped. x: of
** f32 or f64, at least 2 dims, sizes that go together. */
typedef struct Attention {
  bool causal, fast;  /* fast: by a device's tensor cores */
  double scale, drop; /* drop: the chance that a weight is dropped */
} Attention;
bool ty_attention(State *S, const char *who, const Tensor *const *x, const Attention *how,
                  Tensor *y);
/* Leaves. v is stored exactly as ty_elem_store does; i gives integers exactly. */
bool ty_record_full(State *S, const Type *t, double v, Tensor *y);
bool ty_record_number(State *S, const Type *t, const Given *x,
                      Tensor *y); /* the same, of a number that may be a symbol */
bool ty_record_iota(State *S, const Type *dims, Tensor *y); /* i64 */
bool ty_record_empty(State *S, const Type *t, Tensor *y);
/* 32 random bits an element, i32, word 0-3 of stream `stream`; ty_stream_next takes a stream
 * number. */
bool ty_record_random(State *S, const Type *dims, u64 stream, int word, Tensor *y);
u64 ty_stream_next(State *S);
/* A contiguous copy with a storage of its own. */
bool ty_record_copy(State *S, const Tensor *x, Tensor *y);
/* x with the dims of t, of its own dtype: a view where strides allow it, else a copy. */
bool ty_record_reshape(State *S, const Tensor *x, const Type *t, Tensor *y);
/* Writes x, cast and broadcast to dst's dims, to the elements of dst, seen through every alias. The
** right thing happens when x and dst overlap. */
bool ty_record_assign(State *S, const char *who, const Tensor *dst, const Given *x);
/* Copies of the list one behind the other along dim: the fused form of cat. All of one dtype and
 * rank. */
bool ty_record_cat(State *S, const char *who, int n, const Tensor *const *x, int dim, Tensor *y);
/* record_call.c: how many calls (ir/call.h) the capture in progress has; -1: there is none. */
i32 ty_record_calls(const State *S);
/* The result of a call in a capture, of type t, over what `base` holds, or anything; x: what it is given. NULL: nothing. */
bool ty_record_call(State *S, const char *who, i32 number, const Type *t, const Tensor *base,
                    const Tensor *x, Tensor *y);
/* The node of x in the open recording (INPUT, a pending node, or a VIEW of one), or -1. */
i32 ty_record_node(State *S, Recording *b, const Tensor *x);

/* --- range.c: between what the elements of an integer node of an open recording lie, both included. */
typedef struct Range {
  i64 lo, hi;
} Range;
Range ty_range_of(const Recording *b, i32 node);

/* --- fold.c: algebra while appending. The number of a node that equals n, or appends it. -1: no
 * memory. */
i32 ty_fold_append(Graph *g, const Node *n);

#endif
