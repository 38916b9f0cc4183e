/*
** interrupt.c -- Ctrl-C as a function call, and a timer that goes on calling.
** In: SIGINT, SIGALRM. Out: calls of a function in their handlers; compiled Lua that they interrupted is left (loop_exit.c).
** Cannot fail. Signals have no room for a context: there is one function at a time.
*/
#include "base/interrupt.h"

#ifndef _WIN32

#include "base/loop_exit.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static struct {
  InterruptFn *volatile fn;
  struct sigaction interrupt, alarm; /* what was there before */
} state;

static void on_signal(int sig, siginfo_t *info, void *context) {
  InterruptFn *fn = state.fn;
  (void)info;
  if (!fn) return;
  fn(sig == SIGALRM);
  ty_loop_exit_from(context);
}

static void install(int sig, int flags, struct sigaction *before) {
  struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
  sigfillset(&a.sa_mask);
  sigaction(sig, &a, before);
}

void ty_interrupt_ticks(int microseconds) {
  struct itimerval t = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &t, NULL);
}

void ty_interrupt_open(InterruptFn *fn) {
  ty_loop_exit_open();
  install(SIGALRM, SA_RESTART, &state.alarm);
  install(SIGINT, 0, &state.interrupt);
  state.fn = fn;
}

void ty_interrupt_close(void) {
  ty_interrupt_ticks(0); /* first: what was there before may end the process */
  state.fn = NULL;
  sigaction(SIGINT, &state.interrupt, NULL);
  sigaction(SIGALRM, &state.alarm, NULL);
  ty_loop_exit_close();
}

void ty_interrupt_ignore(void) { install(SIGINT, 0, &state.interrupt); }

void ty_interrupt_say(const char *text) {
  ssize_t n = write(STDERR_FILENO, text, strlen(text));
  (void)n;
}

void ty_interrupt_give_up(const char *text) {
  ty_interrupt_say(text);
  signal(SIGINT, SIG_DFL);
  raise(SIGINT);
}

#endif
