/*
** system_windows.c -- the operating system: Windows 8 and later.
** In: what system.h asks for. Out: the same. Fails where the system refuses: false or NULL.
** There is no fork and there are no signals; a mapping goes as a whole.
*/
#include "base/system.h"

#ifdef _WIN32

#define WIN32_LEAN_AND_MEAN
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0602
#include <windows.h>

#include <io.h>
#include <locale.h>
#include <psapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ty_system_quiet;

/* ---- pages ------------------------------------------------------------------------------------- */

void *ty_system_map(size_t bytes, Access access) {
  DWORD type = access == ACCESS_WRITE ? MEM_RESERVE | MEM_COMMIT : MEM_RESERVE;
  return VirtualAlloc(NULL, bytes, type, PAGE_READWRITE);
}

/* Addresses are found in a larger range; by the time that it is given back they may be another thread's. */
void *ty_system_map_aligned(size_t bytes, size_t align) {
  enum { TRIES = 16 };
  u8 *p = ty_system_map(bytes, ACCESS_WRITE);
  if (!p || !((uintptr_t)p & (align - 1))) return p;
  VirtualFree(p, 0, MEM_RELEASE);
  for (int i = 0; i < TRIES; i++) {
    if (!(p = VirtualAlloc(NULL, bytes + align, MEM_RESERVE, PAGE_READWRITE))) return NULL;
    u8 *at = p + (-(uintptr_t)p & (align - 1));
    VirtualFree(p, 0, MEM_RELEASE);
    if ((p = VirtualAlloc(at, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE))) return p;
  }
  return NULL;
}

void *ty_system_reserve(size_t bytes, Access access) { return ty_system_map(bytes, access); }

bool ty_system_renew(void *p, size_t bytes, Access access) {
  if (!VirtualFree(p, bytes, MEM_DECOMMIT)) return false;
  return access == ACCESS_NONE || VirtualAlloc(p, bytes, MEM_COMMIT, PAGE_READWRITE);
}

bool ty_system_protect(void *p, size_t bytes, Access access) {
  DWORD before;
  if (access == ACCESS_NONE) return VirtualProtect(p, bytes, PAGE_NOACCESS, &before);
  return VirtualAlloc(p, bytes, MEM_COMMIT, PAGE_READWRITE) &&
         VirtualProtect(p, bytes, PAGE_READWRITE, &before);
}

bool ty_system_unmap(void *p, size_t bytes) {
  (void)bytes;
  return VirtualFree(p, 0, MEM_RELEASE);
}

bool ty_system_discard(void *p, size_t bytes) {
  return VirtualAlloc(p, bytes, MEM_RESET, PAGE_READWRITE) != NULL;
}

/* Large pages are a privilege here. */
void ty_system_huge(void *p, size_t bytes) { (void)p, (void)bytes; }

i64 ty_system_memory(void) {
  MEMORYSTATUSEX m = {.dwLength = sizeof m};
  return GlobalMemoryStatusEx(&m) ? (i64)m.ullTotalPhys : 0;
}

i64 ty_system_mappings(void) { return 0; }

bool ty_system_map_code(size_t bytes, u8 **write, u8 **run) {
  HANDLE section = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_EXECUTE_READWRITE,
                                      (DWORD)((u64)bytes >> 32), (DWORD)bytes, NULL);
  if (!section) return false;
  *write = MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, bytes);
  *run = MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_EXECUTE, 0, 0, bytes);
  CloseHandle(section); /* the views keep it */
  if (*write && *run) return true;
  if (*write) UnmapViewOfFile(*write);
  if (*run) UnmapViewOfFile(*run);
  return false;
}

/* ---- locks, conditions, what runs once --------------------------------------------------------- */

_Static_assert(sizeof(Lock) == sizeof(SRWLOCK) && sizeof(Condition) == sizeof(CONDITION_VARIABLE) &&
                   sizeof(Once) == sizeof(INIT_ONCE),
               "the words of system.h");

void ty_lock(Lock *l) { AcquireSRWLockExclusive((SRWLOCK *)l); }
void ty_unlock(Lock *l) { ReleaseSRWLockExclusive((SRWLOCK *)l); }

void ty_condition_wait(Condition *c, Lock *l) {
  SleepConditionVariableSRW((CONDITION_VARIABLE *)c, (SRWLOCK *)l, INFINITE, 0);
}
void ty_condition_signal(Condition *c) { WakeConditionVariable((CONDITION_VARIABLE *)c); }
void ty_condition_broadcast(Condition *c) { WakeAllConditionVariable((CONDITION_VARIABLE *)c); }

static BOOL CALLBACK run_once(INIT_ONCE *once, void *fn, void **context) {
  (void)once, (void)context;
  (*(OnceFn **)fn)();
  return TRUE;
}

void ty_once(Once *o, OnceFn *fn) {
  InitOnceExecuteOnce((INIT_ONCE *)o, run_once, (void *)&fn, NULL);
}

/* ---- threads, the process ---------------------------------------------------------------------- */

/* Threads and what they keep outlive the lua_State that loaded this library. */
__attribute__((constructor)) static void stay_loaded(void) {
  HMODULE self;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     (LPCWSTR)(void *)stay_loaded, &self);
}

Signals ty_signals_hold(void) { return (Signals){0}; }
void ty_signals_restore(const Signals *before) { (void)before; }

typedef struct Started {
  ThreadFn *fn;
  void *arg;
} Started;

static DWORD CALLBACK thread_main(void *p) {
  Started s = *(Started *)p;
  HeapFree(GetProcessHeap(), 0, p);
  s.fn(s.arg);
  return 0;
}

bool ty_thread_start(Thread *thread, size_t stack, ThreadFn *fn, void *arg) {
  Started *s = HeapAlloc(GetProcessHeap(), 0, sizeof *s);
  if (!s) return false;
  *s = (Started){fn, arg};
  HANDLE h = CreateThread(NULL, stack, thread_main, s, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (!h) HeapFree(GetProcessHeap(), 0, s);
  else if (thread) *thread = h;
  else CloseHandle(h);
  return h != NULL;
}

void ty_thread_join(Thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}

void ty_thread_yield(void) { SwitchToThread(); }

const char *ty_thread_stack_end(void) {
  ULONG_PTR low, high;
  GetCurrentThreadStackLimits(&low, &high);
  return (const char *)low;
}

bool ty_thread_key(ThreadKey *key, ThreadDrop *drop) {
  *key = FlsAlloc(drop);
  return *key != FLS_OUT_OF_INDEXES;
}

bool ty_thread_keep(ThreadKey key, void *p) { return FlsSetValue(key, p); }

bool ty_system_at_fork(ForkFn *before, ForkFn *parent, ForkFn *child) {
  (void)before, (void)parent, (void)child;
  return true;
}

i64 ty_system_process(void) { return GetCurrentProcessId(); }

int ty_system_processors(void) {
  DWORD_PTR own = 0, all;
  GetProcessAffinityMask(GetCurrentProcess(), &own, &all);
  return __builtin_popcountll(own);
}

i64 ty_system_now(void) {
  enum { SECOND = 1000000000 };
  LARGE_INTEGER t, f;
  QueryPerformanceCounter(&t);
  QueryPerformanceFrequency(&f);
  return t.QuadPart / f.QuadPart * SECOND + t.QuadPart % f.QuadPart * SECOND / f.QuadPart;
}

/* MinGW's own, which know no locale; those of Windows round more than once. */
bool ty_system_decimal(const char *text, double *y, float *single) {
  if (y) *y = __mingw_strtod(text, NULL);
  if (single) *single = __mingw_strtof(text, NULL);
  return true;
}

/* The thread's locale stands aside where it writes numbers in another way. */
int ty_system_vformat(char *to, size_t n, const char *fmt, va_list ap) {
  if (!strcmp(localeconv()->decimal_point, ".")) return vsnprintf(to, n, fmt, ap);
  const int mode = _configthreadlocale(_ENABLE_PER_THREAD_LOCALE);
  const char *now = setlocale(LC_NUMERIC, NULL);
  char *before = now ? _strdup(now) : NULL;
  if (before) setlocale(LC_NUMERIC, "C");
  const int y = vsnprintf(to, n, fmt, ap);
  if (before) setlocale(LC_NUMERIC, before);
  free(before);
  _configthreadlocale(mode);
  return y;
}

bool ty_system_terminal(int fd, int *columns, int *rows) {
  CONSOLE_SCREEN_BUFFER_INFO info;
  if (!_isatty(fd)) return false;
  *columns = *rows = 0;
  if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fd), &info)) return true;
  *columns = info.srWindow.Right - info.srWindow.Left + 1;
  *rows = info.srWindow.Bottom - info.srWindow.Top + 1;
  return true;
}

/* ---- faults ------------------------------------------------------------------------------------ */

static FaultFn *on_fault;

static LONG CALLBACK fault(EXCEPTION_POINTERS *e) {
  const EXCEPTION_RECORD *r = e->ExceptionRecord;
  if (r->ExceptionCode == EXCEPTION_ACCESS_VIOLATION)
    on_fault((const void *)r->ExceptionInformation[1]);
  return EXCEPTION_CONTINUE_SEARCH;
}

void ty_system_on_fault(FaultFn *fn) {
  on_fault = fn;
  AddVectoredExceptionHandler(1, fault);
}

void ty_system_say(const char *text, size_t n) {
  DWORD written;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)n, &written, NULL);
}

void ty_system_stop(void) {
  enum { ABORTED = 3 }; /* what abort answers with */
  TerminateProcess(GetCurrentProcess(), ABORTED);
}

/* ---- shared libraries -------------------------------------------------------------------------- */

/* Names are UTF-8. A window that says what is missing is none of ours to open. */
static void *open_one(const char *name) {
  wchar_t wide[MAX_PATH];
  DWORD mode;
  if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, name, -1, wide, TY_COUNT(wide)))
    return NULL;
  SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &mode);
  void *library = LoadLibraryW(wide);
  SetThreadErrorMode(mode, NULL);
  return library;
}

void *ty_library_open(const char *const *names) {
  void *library = NULL;
  for (; *names && !library; names++) library = open_one(*names);
  return library;
}

void *ty_library_symbol(void *library, const char *name) {
  return (void *)GetProcAddress(library, name);
}

/* Names are those of a module each: the program, or a DLL. */
bool ty_library_with(const char *name, void **library) {
  DWORD bytes = 0, room;
  HANDLE self = GetCurrentProcess();
  K32EnumProcessModules(self, NULL, 0, &bytes);
  HMODULE *all = HeapAlloc(GetProcessHeap(), 0, room = bytes);
  *library = NULL;
  if (all && K32EnumProcessModules(self, all, room, &bytes))
    for (DWORD i = 0; i < TY_MIN(bytes, room) / sizeof *all && !*library; i++)
      if (GetProcAddress(all[i], name)) *library = all[i];
  if (all) HeapFree(GetProcessHeap(), 0, all);
  return *library != NULL;
}

void ty_library_close(void *library) { FreeLibrary(library); }

#endif
