/*
** system.h -- what differs between operating systems: pages, threads, signals, clocks, shared libraries, the
** processor's features (processor.c). All of core asks here, but for files (file_system.c) and Ctrl-C (interrupt.c,
** loop_exit.c); another system is another system.c, and other types below: Windows has system_windows.c,
** file_system_windows.c, interrupt_windows.c.
** Locks are taken on hot paths: what is one call of the system's is inline, where its header is not a world of its own.
*/
#ifndef TY_SYSTEM_H
#define TY_SYSTEM_H

#include "base/base.h"

#include <stdarg.h>
#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

/* --- pages. Sizes are multiples of the system's page. Fresh ones hold zeros. */

typedef enum { ACCESS_NONE, ACCESS_WRITE } Access; /* WRITE: reading too */

void *ty_system_map(size_t bytes, Access access); /* NULL: the system has no memory */
/* The same to be written, at a multiple of a power of two. */
void *ty_system_map_aligned(size_t bytes, size_t align);
void *ty_system_reserve(size_t bytes, Access access); /* memory is found as it is touched */
/* Reserves pages of ours anew: their contents are gone. */
bool ty_system_renew(void *p, size_t bytes, Access access);
bool ty_system_protect(void *p, size_t bytes, Access access);
bool ty_system_unmap(void *p, size_t bytes);   /* false: too many mappings would be left */
bool ty_system_discard(void *p, size_t bytes); /* memory goes back, addresses stay */
void ty_system_huge(void *p, size_t bytes);    /* advice: huge pages */
extern bool ty_system_quiet;  /* nothing for users goes to stderr: the process is not Tycho's */
i64 ty_system_memory(void);   /* bytes of the machine; 0: unknown */
i64 ty_system_mappings(void); /* the most that a process may have; 0: unknown */

/* Pages that lie at two addresses: at *write they can be written, at *run executed. A child process shares
** them with its parent. False: the system lets no code be made. */
bool ty_system_map_code(size_t bytes, u8 **write, u8 **run);

/* --- locks, conditions, what runs once */

#ifdef _WIN32
/* One word of the system's each, which zeros begin and nothing ends. */
typedef struct {
  void *word;
} Lock, Condition, Once;
#define LOCK_INIT \
  { NULL }
#define CONDITION_INIT LOCK_INIT
#define ONCE_INIT LOCK_INIT

static inline void ty_lock_init(Lock *l) { l->word = NULL; }
static inline void ty_lock_free(Lock *l) { (void)l; }
void ty_lock(Lock *l);
void ty_unlock(Lock *l);

static inline void ty_condition_init(Condition *c) { c->word = NULL; }
static inline void ty_condition_free(Condition *c) { (void)c; }
void ty_condition_wait(Condition *c, Lock *l);
void ty_condition_signal(Condition *c);
void ty_condition_broadcast(Condition *c);
#else
typedef pthread_mutex_t Lock;
typedef pthread_cond_t Condition;
typedef pthread_once_t Once;
#define LOCK_INIT PTHREAD_MUTEX_INITIALIZER
#define CONDITION_INIT PTHREAD_COND_INITIALIZER
#define ONCE_INIT PTHREAD_ONCE_INIT

static inline void ty_lock_init(Lock *l) { pthread_mutex_init(l, NULL); }
static inline void ty_lock_free(Lock *l) { pthread_mutex_destroy(l); }
static inline void ty_lock(Lock *l) { pthread_mutex_lock(l); }
static inline void ty_unlock(Lock *l) { pthread_mutex_unlock(l); }

static inline void ty_condition_init(Condition *c) { pthread_cond_init(c, NULL); }
static inline void ty_condition_free(Condition *c) { pthread_cond_destroy(c); }
static inline void ty_condition_wait(Condition *c, Lock *l) { pthread_cond_wait(c, l); }
static inline void ty_condition_signal(Condition *c) { pthread_cond_signal(c); }
static inline void ty_condition_broadcast(Condition *c) { pthread_cond_broadcast(c); }
#endif

typedef void OnceFn(void);
#ifdef _WIN32
void ty_once(Once *o, OnceFn *fn);
#else
static inline void ty_once(Once *o, OnceFn *fn) { pthread_once(o, fn); }
#endif

/* --- numbers as text, with a '.' whatever the host's locale says */

int ty_system_vformat(char *to, size_t n, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
static inline int __attribute__((format(printf, 3, 4)))
ty_system_format(char *to, size_t n, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const int y = ty_system_vformat(to, n, fmt, ap);
  va_end(ap);
  return y;
}

/* --- threads */

#ifdef _WIN32
typedef void *Thread;
typedef u32 ThreadKey;
#else
typedef pthread_t Thread;
typedef pthread_key_t ThreadKey;
#endif
typedef void *ThreadFn(void *arg);
typedef void ThreadDrop(void *p);

/* Signals are for the host's threads: ours get none. thread: for join; NULL: nobody waits for its end. stack:
** bytes; 0: as the system has it. */
bool ty_thread_start(Thread *thread, size_t stack, ThreadFn *fn, void *arg);
void ty_thread_join(Thread thread);
void ty_thread_yield(void);
/* Where the calling thread's stack ends; NULL: nobody knows. */
const char *ty_thread_stack_end(void);
/* A value of each thread's, which `drop` gets at the thread's end. */
bool ty_thread_key(ThreadKey *key, ThreadDrop *drop);
bool ty_thread_keep(ThreadKey key, void *p);

/* The processor has others to serve: between two looks at a word that is to change. */
static inline void ty_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* --- the process */

/* Around a fork, in the parent's calling thread and in the child; each may be NULL. Windows has none. */
typedef void ForkFn(void);
bool ty_system_at_fork(ForkFn *before, ForkFn *parent, ForkFn *child);
i64 ty_system_process(void);    /* its number: another one in a child */
int ty_system_processors(void); /* that it may use; 0: unknown */
i64 ty_system_now(void);        /* nanoseconds of a clock that only goes forward */
/* The decimal number that a text begins with, whatever the locale, rounded once to each of what is not NULL. False:
** the system has no memory. */
bool ty_system_decimal(const char *text, double *y, float *single);
/* Whether a file's number is a terminal, and its size; 0: unknown. */
bool ty_system_terminal(int fd, int *columns, int *rows);

#ifdef _WIN32
typedef struct {
  char none;
} Signals;
#else
typedef sigset_t Signals;
#endif
Signals ty_signals_hold(void); /* all of them wait, for this thread; what was in force */
void ty_signals_restore(const Signals *before);

/* Called with the address of an access that is not allowed, in the signal's handler; then the signal has its way. */
typedef void FaultFn(const void *at);
void ty_system_on_fault(FaultFn *fn);
void ty_system_say(const char *text, size_t n); /* to stderr, from a handler too */
void ty_system_stop(void);                      /* ends the process as abort does */

/* --- shared libraries */

void *ty_library_open(const char *const *names); /* the first that is there; NULL ends the names */
void *ty_library_symbol(void *library, const char *name); /* functions too */
/* What of the process shows the name to all. False: nothing does. Where names are looked up for the program as a
** whole, it stands for all that is loaded. */
bool ty_library_with(const char *name, void **library);
void ty_library_close(void *library);

/* --- the processor: processor.c */

enum {
  CPU_SSSE3 = 1 << 0,
  CPU_AVX2 = 1 << 1, /* with FMA */
  CPU_F16C = 1 << 2,
  CPU_BMI2 = 1 << 3,
  CPU_AVX512 = 1 << 4, /* F, VL, BW */
  CPU_AVX512_DQ = 1 << 5,
  CPU_AVX512_BF16 = 1 << 6
};
bool ty_cpu_has(u32 features); /* all of them, and the system saves their registers */
/* Asks the system for AMX with bf16. NULL: it may be used; else why not. */
const char *ty_cpu_amx(void);

#endif
