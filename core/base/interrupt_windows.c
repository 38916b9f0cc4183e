/*
** interrupt_windows.c -- Ctrl-C as a function call, and a timer that goes on calling: Windows.
** In: events of the console. Out: calls of a function, on threads of the system's, one at a time. Cannot fail.
** What waits for input goes on waiting; loops that LuaJIT has compiled are not left.
*/
#include "base/interrupt.h"

#ifdef _WIN32

#include "base/system.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

static struct {
  Lock lock; /* while fn is called */
  InterruptFn *fn;
  HANDLE timer;
  bool installed;
} state = {.lock = LOCK_INIT};

static void call(bool tick) {
  ty_lock(&state.lock);
  if (state.fn) state.fn(tick);
  ty_unlock(&state.lock);
}

static BOOL CALLBACK on_event(DWORD event) {
  if (event != CTRL_C_EVENT) return FALSE;
  call(false);
  return TRUE;
}

static void CALLBACK on_timer(void *context, BOOLEAN fired) {
  (void)context, (void)fired;
  call(true);
}

static void install(void) {
  if (!state.installed) state.installed = SetConsoleCtrlHandler(on_event, TRUE);
}

void ty_interrupt_ticks(int microseconds) {
  DWORD period = (DWORD)TY_MAX(microseconds / 1000, 1);
  if (state.timer) DeleteTimerQueueTimer(NULL, state.timer, NULL);
  state.timer = NULL;
  if (microseconds)
    CreateTimerQueueTimer(&state.timer, NULL, on_timer, NULL, period, period, WT_EXECUTEDEFAULT);
}

void ty_interrupt_open(InterruptFn *fn) {
  install();
  ty_lock(&state.lock);
  state.fn = fn;
  ty_unlock(&state.lock);
}

void ty_interrupt_close(void) {
  ty_lock(&state.lock);
  state.fn = NULL;
  ty_unlock(&state.lock);
  ty_interrupt_ticks(0);
}

void ty_interrupt_ignore(void) { install(); }

void ty_interrupt_say(const char *text) { ty_system_say(text, strlen(text)); }

void ty_interrupt_give_up(const char *text) {
  ty_interrupt_say(text);
  TerminateProcess(GetCurrentProcess(), (UINT)STATUS_CONTROL_C_EXIT);
}

#endif
