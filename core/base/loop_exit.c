/*
** loop_exit.c -- a way out of a loop that LuaJIT has compiled, which asks for no debug hooks.
** In: the context of a signal that came while the loop ran. Out: the loop's next guard fails. Cannot fail: where
** nothing is recognised, nothing is changed.
**
** Compiled code is full of guards: comparisons whose branch leads to an exit stub, from which LuaJIT restores the
** interpreter's state and goes on there. Whether a guard holds is of no consequence for what is computed: the
** interpreter executes the same instruction again. So any guard may fail at any time.
**
** 1. The thread is traced instruction by instruction (the processor's trap flag, SIGTRAP) until a guard is next. Then
**    its branch is taken. No code is changed.
** 2. A guard is a conditional branch to an exit stub, or one that an unconditional jump to an exit stub follows: so
**    LuaJIT closes a loop. A stub is recognised by what LuaJIT writes there: `push number; jmp` to the group's last.
**    Where a side trace was compiled for an exit, the branch leads there: code that is right only if the guard did
**    fail. So the stub is taken that had its place, which LuaJIT tells when the trace is made.
** 3. Only anonymous executable memory is looked at: LuaJIT's, not our own kernels (a file's) nor the program's text.
**    Where a function is called from there, tracing ends, and begins again with the next signal.
** x86-64 and Linux. A loop without any guard is not left: repl/compiled_loops.lua has LuaJIT compile none.
*/
#include "base/loop_exit.h"

#if defined(__x86_64__) && defined(__linux__)

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { AREAS = 64, SIDES = 4096, TRAP_FLAG = 0x100, STEPS = 100000, READ_AHEAD = 24 };

static struct {
  struct sigaction before;
  bool open;
  int nareas, steps;
  struct {
    u64 begin, end;
  } area[AREAS];
  struct {
    u64 begin, stub;
  } side[SIDES]; /* by the number of the trace */
} state;

/* --- where compiled Lua lies */

static bool is_compiled(u64 at) {
  for (int i = 0; i < state.nareas; i++)
    if (at >= state.area[i].begin && at + READ_AHEAD <= state.area[i].end) return true;
  return false;
}

static u64 read_hex(const char **s) {
  u64 v = 0;
  for (;; (*s)++) {
    char c = **s;
    if (c >= '0' && c <= '9') v = v * 16 + (u64)(c - '0');
    else if (c >= 'a' && c <= 'f') v = v * 16 + (u64)(c - 'a' + 10);
    else return v;
  }
}

/* "begin-end r-xp 00000000 00:00 0 name": one of anonymous memory has neither inode nor name. */
static void take_line(const char *s) {
  u64 begin = read_hex(&s), end = *s++ == '-' ? read_hex(&s) : 0;
  if (s[0] != ' ' || s[1] != 'r' || s[3] != 'x' || state.nareas == AREAS) return;
  s += 6;
  for (int field = 0; field < 2; field++) {
    while (*s && *s != ' ') s++;
    while (*s == ' ') s++;
  }
  if (s[0] != '0' || s[1] != ' ') return;
  while (*++s == ' ') {}
  if (*s) return;
  state.area[state.nareas].begin = begin;
  state.area[state.nareas++].end = end;
}

/* In a handler: no allocation, nothing but system calls. */
static void find_areas(void) {
  char text[1024], line[128];
  size_t length = 0;
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  state.nareas = 0;
  if (file < 0) return;
  for (ssize_t n; (n = read(file, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < n; i++) {
      if (text[i] != '\n') {
        if (length < sizeof line - 1) line[length++] = text[i];
        continue;
      }
      line[length] = 0;
      take_line(line);
      length = 0;
    }
  }
  close(file);
}

/* --- guards */

static i32 distance(const u8 *p) {
  i32 d;
  memcpy(&d, p, sizeof d);
  return d;
}

static bool is_stub(u64 at) {
  enum { PUSH = 0x6a, JUMP = 0xeb };
  if (!is_compiled(at)) return false;
  const u8 *p = (const u8 *)at;
  if (p[0] != PUSH) return false;
  if (p[2] != JUMP) return p[2] == PUSH; /* the last of its group */
  return p[3] < 0x80 && is_compiled(at + 4 + p[3]) && p[4 + p[3]] == PUSH;
}

/* The stub that a branch to `at` stands for; 0: it is no exit. */
static u64 stub_of(u64 at) {
  if (is_stub(at)) return at;
  for (int i = 0; i < SIDES && is_compiled(at); i++)
    if (state.side[i].begin == at) return state.side[i].stub;
  return 0;
}

/* Where the guard at `at` leads when it fails; 0: there is none. */
static u64 exit_of(u64 at) {
  const u8 *p = (const u8 *)at;
  bool wide = p[0] == 0x0f && (p[1] & 0xf0) == 0x80;
  if (!wide && (p[0] & 0xf0) != 0x70) return 0;
  u64 next = at + (wide ? 6 : 2), stub = 0;
  if (wide) stub = stub_of(next + (u64)(i64)distance(p + 2));
  p = (const u8 *)next;
  if (!stub && *p == 0xe9) stub = stub_of(next + 5 + (u64)(i64)distance(p + 1));
  return stub;
}

/* Goes on by an instruction, or out. */
static void step(ucontext_t *c) {
  greg_t *r = c->uc_mcontext.gregs;
  u64 at = (u64)r[REG_RIP], out;
  r[REG_EFL] &= ~(greg_t)TRAP_FLAG;
  if (!is_compiled(at)) return;
  if ((out = exit_of(at))) r[REG_RIP] = (greg_t)out;
  else if (state.steps++ < STEPS) r[REG_EFL] |= TRAP_FLAG;
}

static void on_trap(int sig, siginfo_t *info, void *context) {
  (void)sig, (void)info;
  step(context);
}

void ty_loop_exit_open(void) {
  struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigfillset(&a.sa_mask);
  state.open = !sigaction(SIGTRAP, &a, &state.before);
}

void ty_loop_exit_close(void) {
  if (state.open) sigaction(SIGTRAP, &state.before, NULL);
  state.open = false;
}

void ty_loop_exit_side(int trace, u64 begin, u64 stub) {
  if (trace < 0 || trace >= SIDES) return;
  state.side[trace].begin = 0;
  state.side[trace].stub = stub;
  state.side[trace].begin = begin;
}

void ty_loop_exit_from(void *context) {
  if (!state.open) return;
  find_areas();
  state.steps = 0;
  step(context);
}

#else

void ty_loop_exit_open(void) {}
void ty_loop_exit_close(void) {}
void ty_loop_exit_from(void *context) { (void)context; }
void ty_loop_exit_side(int trace, u64 begin, u64 stub) { (void)trace, (void)begin, (void)stub; }

#endif
