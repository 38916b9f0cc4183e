/*
** late.c -- texts that are assembled on a thread of their own.
** In:  texts.  Out: code, later; it is on disk then, too. Fails where threads cannot be had, and where TYCHO_CUDA_LATE is 0:
** who asks assembles by itself then. The thread begins with the first text, and ends before the process does: nothing
** is assembled while libraries are torn down. A child of a fork has no device, and asks for nothing.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"
#include "device/cuda/cuda.h"

#include <stdlib.h>

enum { QUEUED, WORKING, DONE };

struct Assembly {
  Cuda *device;
  Text text;
  char *code; /* NULL: refused */
  size_t n;
  int state;
  bool dropped; /* nobody wants it */
  Assembly *next;
};

static Once once = ONCE_INIT;
static Lock lock = LOCK_INIT;
static Condition changed;
static Assembly *first, **last = &first;
static bool running, ending;
static int working;
static Thread thread;

static void release(Assembly *a) {
  ty_text_free(&a->text);
  ty_mem_free(a->code);
  ty_mem_free(a);
}

static void assemble(Assembly *a) {
  char log[256] = "";
  ty_cuda_use(a->device);
  if (!ty_cuda_enter() || !ty_cuda_assemble(&a->text, &a->code, &a->n, log, sizeof log))
    a->code = NULL;
  else ty_store_put(ty_store_key(&a->text, ty_cuda_assembler()), a->code, a->n);
}

static void *work(void *none) {
  ty_lock(&lock);
  while (!ending) {
    Assembly *a = first;
    if (!a) {
      ty_condition_wait(&changed, &lock);
      continue;
    }
    if (!(first = a->next)) last = &first;
    a->state = WORKING, working++;
    const bool wanted = !a->dropped;
    ty_unlock(&lock);
    if (wanted) assemble(a);
    ty_lock(&lock);
    a->state = DONE, working--;
    if (a->dropped) release(a);
    ty_condition_broadcast(&changed);
  }
  ty_unlock(&lock);
  return none;
}

static void end(void) {
  ty_lock(&lock);
  const bool join = running;
  ending = true, running = false;
  ty_condition_broadcast(&changed);
  ty_unlock(&lock);
  if (join) ty_thread_join(thread);
}

/* Around a fork the lock is the calling thread's; a child has no thread. */
static void before_fork(void) { ty_lock(&lock); }
static void in_parent(void) { ty_unlock(&lock); }
static void in_child(void) {
  running = false;
  ty_unlock(&lock);
}

static void begin(void) {
  const char *late = getenv("TYCHO_CUDA_LATE");
  if (late && !strcmp(late, "0")) return;
  ty_condition_init(&changed);
  ty_cuda_assembler(); /* its library ends after the thread */
  running = ty_system_at_fork(before_fork, in_parent, in_child) && !atexit(end) &&
            ty_thread_start(&thread, 0, work, NULL);
}

Assembly *ty_assembly_begin(Text *text) {
  ty_once(&once, begin);
  if (!running) return NULL;
  Assembly *a = ty_mem_zalloc(sizeof *a);
  if (!a) return NULL;
  a->text = *text, *text = (Text){0}, a->device = ty_cuda_now;
  ty_lock(&lock);
  *last = a, last = &a->next;
  ty_condition_broadcast(&changed);
  ty_unlock(&lock);
  return a;
}

bool ty_assembly_done(Assembly *a, bool wait) {
  ty_lock(&lock);
  while (wait && running && a->state != DONE) ty_condition_wait(&changed, &lock);
  const bool done = a->state == DONE;
  ty_unlock(&lock);
  return done;
}

const char *ty_assembly_code(const Assembly *a, size_t *n) {
  *n = a->n;
  return a->code;
}

const Text *ty_assembly_text(const Assembly *a) { return &a->text; }

void ty_assembly_drop(Assembly *a) {
  ty_lock(&lock);
  a->dropped = true;
  if (a->state == DONE) release(a);
  ty_unlock(&lock);
}

void ty_assembly_settle(void) {
  ty_lock(&lock);
  while (running && (first || working)) ty_condition_wait(&changed, &lock);
  ty_unlock(&lock);
}
