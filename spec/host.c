/*
** host.c -- a program with many Lua states, as games and servers have them.
** In:  what to do, a script and a count. "states": that many threads, each with a state of its own, run the
** script at the same time; "forks": one thread runs it again and again while another forks that many
** children, each of which runs it in a new state; "stack": one thread whose stack has that many KB. The
** script returns a text.
** Out: the text of a run with nothing beside it, and how many others gave it; exit code 1 when any
** gave another or did not end.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST = 4000, MOST = 256, CHILD_SECONDS = 30 };

static const char *script;
static char want[LONGEST];
static atomic_bool over;

/* hash(text): so that scripts need no fast loops. */
static int hash(lua_State *L) {
  size_t n;
  const unsigned char *p = (const unsigned char *)luaL_checklstring(L, 1, &n);
  unsigned long long h = 5381;
  char text[20];
  for (size_t i = 0; i < n; i++) h = h * 33 ^ p[i];
  snprintf(text, sizeof text, "%016llx", h);
  lua_pushstring(L, text);
  return 1;
}

/* The script's text, or what it raised, from a state that lives as long as this call. */
static void run(char *text) {
  lua_State *L = luaL_newstate();
  snprintf(text, LONGEST, "no state");
  if (!L) return;
  luaL_openlibs(L);
  lua_register(L, "hash", hash);
  if (luaL_loadfile(L, script) || lua_pcall(L, 0, 1, 0))
    snprintf(text, LONGEST, "error: %s", lua_tostring(L, -1));
  else snprintf(text, LONGEST, "%s", luaL_checkstring(L, -1));
  lua_close(L);
}

/* Nobody begins before all can. */
static pthread_barrier_t gate;

static void *state(void *arg) {
  char *text = arg;
  pthread_barrier_wait(&gate);
  run(text);
  return NULL;
}

static int states(int n) {
  static char text[MOST][LONGEST];
  pthread_t id[MOST];
  int same = 0;
  pthread_barrier_init(&gate, NULL, (unsigned)n);
  for (int i = 0; i < n; i++)
    if (pthread_create(&id[i], NULL, state, text[i])) {
      printf("only %d threads can be had\n", i);
      return 1;
    }
  for (int i = 0; i < n; i++) pthread_join(id[i], NULL);
  for (int i = 0; i < n; i++) {
    if (!strcmp(text[i], want)) same++;
    else printf("thread %d: %s\n", i, text[i]);
  }
  printf("%d of %d the same\n", same, n);
  return same < n;
}

static void *work(void *arg) {
  char text[LONGEST];
  int *wrong = arg;
  while (!over) {
    run(text);
    *wrong += strcmp(text, want) != 0;
  }
  return NULL;
}

static int forks(int n) {
  pthread_t id;
  int wrong = 0, same = 0;
  if (pthread_create(&id, NULL, work, &wrong)) return 1;
  for (int i = 0; i < n; i++) {
    usleep((useconds_t)(500 + i * 1733 % 9000)); /* another place of the work each time */
    pid_t child = fork();
    if (!child) { /* a lock that nobody will open would hold the child until the alarm */
      char text[LONGEST];
      alarm(CHILD_SECONDS);
      run(text);
      if (strcmp(text, want)) fprintf(stderr, "child %d: %s\n", i, text);
      _exit(strcmp(text, want) != 0);
    }
    int status = 1;
    if (child > 0) waitpid(child, &status, 0);
    if (status) printf("child %d: status %d\n", i, status);
    same += !status;
  }
  over = true;
  pthread_join(id, NULL);
  printf("%d of %d the same, %d wrong in the parent\n", same, n, wrong);
  return same < n || wrong;
}

/* Nothing runs before in another thread, where what is made once could be made on a larger stack. */
static int stack(int kb) {
  static char text[LONGEST];
  pthread_attr_t attr;
  pthread_t id;
  pthread_barrier_init(&gate, NULL, 1);
  if (pthread_attr_init(&attr) || pthread_attr_setstacksize(&attr, (size_t)kb << 10) ||
      pthread_create(&id, &attr, state, text))
    return 1;
  pthread_join(id, NULL);
  printf("%s\n", text);
  return !strncmp(text, "error", 5);
}

int main(int argc, char **argv) {
  int n = argc > 3 ? atoi(argv[3]) : 0;
  if (n < 1 || n > MOST) return 2;
  script = argv[2];
  if (!strcmp(argv[1], "stack")) return stack(n);
  run(want);
  printf("%s\n", want);
  if (!strncmp(want, "error", 5)) return 1;
  return strcmp(argv[1], "forks") ? states(n) : forks(n);
}
