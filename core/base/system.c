/*
** system.c -- the operating system: Linux, and what POSIX has elsewhere (macOS: untested).
** In: what system.h asks for. Out: the same. Fails where the system refuses: false or NULL.
*/
#include "base/system.h"

#ifndef _WIN32

#include <dlfcn.h>
#include <locale.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

bool ty_system_quiet;

/* ---- pages ------------------------------------------------------------------------------------- */

static void *map(void *at, size_t bytes, Access access, int flags) {
  int protection = access == ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_NONE;
  void *p = mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

void *ty_system_map(size_t bytes, Access access) { return map(NULL, bytes, access, 0); }

/* Neighbours of aligned mappings usually are aligned themselves; else map more and cut. */
void *ty_system_map_aligned(size_t bytes, size_t align) {
  u8 *p = ty_system_map(bytes, ACCESS_WRITE);
  if (!p || !((uintptr_t)p & (align - 1))) return p;
  ty_system_unmap(p, bytes);
  if (!(p = ty_system_map(bytes + align, ACCESS_WRITE))) return NULL;
  size_t before = -(uintptr_t)p & (align - 1);
  if (before) ty_system_unmap(p, before);
  if (align > before) ty_system_unmap(p + before + bytes, align - before);
  return p + before;
}

void *ty_system_reserve(size_t bytes, Access access) {
  return map(NULL, bytes, access, MAP_NORESERVE);
}

bool ty_system_renew(void *p, size_t bytes, Access access) {
  return map(p, bytes, access, MAP_NORESERVE | MAP_FIXED) != NULL;
}

bool ty_system_protect(void *p, size_t bytes, Access access) {
  return !mprotect(p, bytes, access == ACCESS_WRITE ? PROT_READ | PROT_WRITE : PROT_NONE);
}

bool ty_system_unmap(void *p, size_t bytes) { return !munmap(p, bytes); }

bool ty_system_discard(void *p, size_t bytes) { return !madvise(p, bytes, MADV_DONTNEED); }

void ty_system_huge(void *p, size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(p, bytes, MADV_HUGEPAGE);
#else
  (void)p, (void)bytes;
#endif
}

i64 ty_system_memory(void) {
  i64 pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

i64 ty_system_mappings(void) {
  long n = 0;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
  if (f && fscanf(f, "%ld", &n) != 1) n = 0;
  if (f) fclose(f);
  return n;
}

/* A limit on the length of files holds for those in memory too, and going beyond it is a signal that kills. */
static bool within_limit(size_t bytes) {
  struct rlimit r;
  return getrlimit(RLIMIT_FSIZE, &r) || r.rlim_cur >= bytes;
}

/* One file in memory, mapped twice, so that no page is ever both. */
bool ty_system_map_code(size_t bytes, u8 **write, u8 **run) {
  int fd = within_limit(bytes) ? memfd_create("tycho", MFD_CLOEXEC) : -1;
  void *w = MAP_FAILED, *x = MAP_FAILED;
  if (fd >= 0 && !ftruncate(fd, (off_t)bytes)) {
    w = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    x = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
  }
  if (fd >= 0) close(fd);
  if (w != MAP_FAILED && x != MAP_FAILED) {
    *write = w, *run = x;
    return true;
  }
  if (w != MAP_FAILED) munmap(w, bytes);
  if (x != MAP_FAILED) munmap(x, bytes);
  return false;
}

/* ---- threads, the process ---------------------------------------------------------------------- */

Signals ty_signals_hold(void) {
  Signals all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

void ty_signals_restore(const Signals *before) { pthread_sigmask(SIG_SETMASK, before, NULL); }

/* A thread inherits the mask of the one that starts it. */
bool ty_thread_start(Thread *thread, size_t stack, ThreadFn *fn, void *arg) {
  pthread_attr_t attr;
  Thread id;
  if (pthread_attr_init(&attr)) return false;
  bool ok = !stack || !pthread_attr_setstacksize(&attr, stack);
  if (ok) {
    if (!thread) pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    Signals before = ty_signals_hold();
    ok = !pthread_create(thread ? thread : &id, &attr, fn, arg);
    ty_signals_restore(&before);
  }
  pthread_attr_destroy(&attr);
  return ok;
}

void ty_thread_join(Thread thread) { pthread_join(thread, NULL); }

void ty_thread_yield(void) { sched_yield(); }

const char *ty_thread_stack_end(void) {
  static _Thread_local const char *end;
  static _Thread_local bool known;
#ifdef __linux__
  pthread_attr_t attr;
  if (!known && !pthread_getattr_np(pthread_self(), &attr)) {
    void *low;
    size_t size;
    if (!pthread_attr_getstack(&attr, &low, &size)) end = low;
    pthread_attr_destroy(&attr);
  }
#endif
  known = true;
  return end;
}

bool ty_thread_key(ThreadKey *key, ThreadDrop *drop) { return !pthread_key_create(key, drop); }

bool ty_thread_keep(ThreadKey key, void *p) { return !pthread_setspecific(key, p); }

bool ty_system_at_fork(ForkFn *before, ForkFn *parent, ForkFn *child) {
  return !pthread_atfork(before, parent, child);
}

i64 ty_system_process(void) { return getpid(); }

int ty_system_processors(void) {
#ifdef __linux__
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) return CPU_COUNT(&set);
#endif
  return (int)TY_MAX(sysconf(_SC_NPROCESSORS_ONLN), 0);
}

i64 ty_system_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (i64)t.tv_sec * 1000000000 + t.tv_nsec;
}

bool ty_system_terminal(int fd, int *columns, int *rows) {
  struct winsize w = {0};
  if (!isatty(fd)) return false;
  ioctl(fd, TIOCGWINSZ, &w);
  *columns = w.ws_col, *rows = w.ws_row;
  return true;
}

/* ---- faults ------------------------------------------------------------------------------------ */

static FaultFn *on_fault;
static struct sigaction action_before;

/* The action from before stands again when the instruction is repeated. */
static void fault(int number, siginfo_t *info, void *context) {
  (void)number, (void)context;
  on_fault(info->si_addr);
  sigaction(SIGSEGV, &action_before, NULL);
}

void ty_system_on_fault(FaultFn *fn) {
  struct sigaction act = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
  on_fault = fn;
  sigaction(SIGSEGV, &act, &action_before);
}

void ty_system_say(const char *text, size_t n) {
  if (write(STDERR_FILENO, text, n) < 0) return;
}

void ty_system_stop(void) {
  signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
}

/* ---- shared libraries -------------------------------------------------------------------------- */

void *ty_library_open(const char *const *names) {
  void *library = NULL;
  for (; *names && !library; names++) library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
  return library;
}

void *ty_library_symbol(void *library, const char *name) { return dlsym(library, name); }

bool ty_library_with(const char *name, void **library) {
  *library = RTLD_DEFAULT;
  return dlsym(RTLD_DEFAULT, name) != NULL;
}

void ty_library_close(void *library) { dlclose(library); }

/* ---- numbers as text --------------------------------------------------------------------------- */

/* The C library has it ready: nothing is allocated. 0 where it is not so, and memory is short: the host's then. */
static locale_t plain_locale(void) {
  static _Atomic(locale_t) made;
  locale_t l = atomic_load(&made), none = (locale_t)0;
  if (l || !(l = newlocale(LC_ALL_MASK, "C", none))) return l;
  if (atomic_compare_exchange_strong(&made, &none, l)) return l;
  freelocale(l);
  return none;
}

int ty_system_vformat(char *to, size_t n, const char *fmt, va_list ap) {
  const locale_t before = uselocale(plain_locale()); /* the thread's, and no one else's */
  const int y = vsnprintf(to, n, fmt, ap);
  uselocale(before);
  return y;
}

bool ty_system_decimal(const char *text, double *y, float *single) {
  const locale_t plain = plain_locale();
  if (!plain) return false;
  if (y) *y = strtod_l(text, NULL, plain);
  if (single) *single = strtof_l(text, NULL, plain);
  return true;
}

#endif
