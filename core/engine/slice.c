/*
** slice.c -- a plan's run in slices of time, for callers with a frame to keep.
** In: a plan, a recording with its inputs, until when to go on. Out: whether the run is done; then the outputs' buffers.
** Fails when out of memory, or of threads.
**
** The run has a thread of its own, which works while the caller waits for it, and waits while the caller goes about
** other things: one of the two at a time. So everything that a thread has for itself (scratch memory, the floating-point
** environment, what it watches) stays as it is in the middle of a kernel, and no lock is held there. The run looks at the
** clock wherever work may be left undone (Watch, base.h): between tiles, between steps.
**
** Rules.
** 1. What the State keeps for the run in progress (`runs` and what goes with it) changes hands with the turn.
** 2. Inputs are held, so nobody writes to their buffers: who writes to such a tensor meanwhile gets a new one, and the
**    run writes nothing in place.
** 3. Weights that were packed once are held by the product that works with them, which may stop while others let go of
**    them; what it packs itself is for others when it is packed to the end.
** 4. A forked child has no such thread: the run fails there.
*/
#include "base/system.h"
#include "engine/slice.h"

#define STACK (1 << 20)

typedef struct Turn {
  Stream runs;
  bool out_of_range, stopped;
} Turn;

struct SlicedRun {
  State *S;
  Plan *plan;
  Recording *b;
  Buffer **outbuf;
  Buffer **held; /* the inputs, of which the recording may know nothing any more */
  i32 nheld;
  Thread thread;
  Lock lock;
  Condition begins, ends; /* of a turn */
  Watch watch;
  Turn turn;   /* the State's words while the caller has the turn */
  i64 process; /* in which the thread is; 0: it was not started, or has ended */
  i64 until;
  bool going; /* the thread has the turn */
  bool leaves, done, ok;
};

static void save(const State *S, Turn *t) {
  *t = (Turn){.runs = S->runs, .out_of_range = S->out_of_range, .stopped = S->stopped};
}

static void restore(State *S, const Turn *t) {
  S->runs = t->runs, S->out_of_range = t->out_of_range, S->stopped = t->stopped;
}

/* On the run's thread: the caller's turn, until it gives it back. */
static bool ask(void *ctx) {
  SlicedRun *r = ctx;
  if (ty_system_now() < r->until) return false;
  ty_lock(&r->lock);
  r->going = false;
  ty_condition_signal(&r->ends);
  while (!r->going) ty_condition_wait(&r->begins, &r->lock);
  ty_unlock(&r->lock);
  return r->leaves;
}

static void *run(void *arg) {
  SlicedRun *r = arg;
  ty_lock(&r->lock);
  while (!r->going) ty_condition_wait(&r->begins, &r->lock);
  ty_unlock(&r->lock);
  r->ok = !r->leaves && ty_exec_run(r->S, r->plan, r->b, r->outbuf);
  ty_lock(&r->lock);
  r->done = true, r->going = false;
  ty_condition_signal(&r->ends);
  ty_unlock(&r->lock);
  return NULL;
}

/* The thread's turn, for as long as it takes it. */
static void give_turn(SlicedRun *r, i64 until) {
  State *S = r->S;
  Turn mine;
  save(S, &mine);
  restore(S, &r->turn);
  S->slicing = &r->watch;
  r->until = until;
  ty_lock(&r->lock);
  r->going = true;
  ty_condition_signal(&r->begins);
  while (r->going) ty_condition_wait(&r->ends, &r->lock);
  ty_unlock(&r->lock);
  S->slicing = NULL;
  save(S, &r->turn);
  restore(S, &mine);
}

SlicedRun *ty_slice_new(State *S, Plan *p, Recording *b, Buffer **outbuf) {
  SlicedRun *r = ty_mem_zalloc(sizeof *r);
  Buffer **held = r ? ty_mem_alloc(sizeof *held * (size_t)(b->ninput + 1)) : NULL;
  if (!held) {
    ty_mem_free(r);
    ty_fail_memory(S, "run", 0);
    return NULL;
  }
  for (i32 i = 0; i < b->ninput; i++) held[i] = ty_buffer_hold(b->input[i].buf);
  r->nheld = b->ninput;
  ty_plan_hold(p);
  r->S = S, r->plan = p, r->b = b, r->outbuf = outbuf, r->held = held;
  r->watch = (Watch){.ask = ask, .ctx = r, .every = SLICE_LOOKS};
  ty_lock_init(&r->lock);
  ty_condition_init(&r->begins);
  ty_condition_init(&r->ends);
  if (ty_thread_start(&r->thread, STACK, run, r)) {
    r->process = ty_system_process();
    return r;
  }
  ty_slice_free(r);
  ty_fail(S, "run: the system has no thread for it");
  return NULL;
}

SliceState ty_slice_run(SlicedRun *r, i64 until) {
  if (r->process != ty_system_process()) {
    ty_fail(r->S, "run: it was begun in another process");
    return SLICE_FAILED;
  }
  give_turn(r, until);
  if (!r->done) return SLICE_PAUSED;
  if (r->ok) return SLICE_DONE;
  /* what the failed run left in the State, for who asks why */
  r->S->out_of_range = r->turn.out_of_range;
  return SLICE_FAILED;
}

void ty_slice_free(SlicedRun *r) {
  if (!r) return;
  if (r->process == ty_system_process()) {
    r->leaves = true;
    if (!r->done) give_turn(r, 0);
    ty_thread_join(r->thread);
  }
  for (i32 i = 0; i < r->nheld; i++) ty_buffer_drop(r->held[i]);
  ty_plan_drop(r->plan);
  ty_lock_free(&r->lock);
  ty_condition_free(&r->begins);
  ty_condition_free(&r->ends);
  ty_mem_free(r->held);
  ty_mem_free(r);
}
