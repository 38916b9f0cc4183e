/*
** host.c -- what the host does in the library's place: memory, jobs.
** In: its functions, before the first engine. Out: the same for the process. Fails where they do not go together, and once
** an engine was opened: memory goes back to where it came from.
*/
#include <stdatomic.h>
#include <stdlib.h>
#include "embed/embed.h"

static _Atomic bool settled; /* an engine was opened: nothing changes any more */
static HostMemory memory;    /* as the host gave it, or zero */

ty_status ty_setup(const ty_host *host) {
  if (!host) return ty_failed(TY_INVALID, "ty_setup: the host is NULL");
  if (!host->allocate != !host->release)
    return ty_failed(TY_INVALID, "ty_setup: allocate and release go together");
  if (host->threads < 0 || (host->run_jobs && !host->threads))
    return ty_failed(TY_INVALID, "ty_setup: %d threads%s", host->threads,
                     host->run_jobs ? " beside run_jobs" : "");
  if (atomic_load(&settled))
    return ty_failed(TY_BUSY, "ty_setup: an engine was opened before; it comes first");
  memory = (HostMemory){host->ctx, host->allocate, host->release};
  ty_mem_host(&memory);
  ty_pool_host(host->run_jobs, host->ctx);
  if (host->threads) ty_pool_threads(host->threads);
  return TY_OK;
}

/* --- Lua states in the host's memory. lua_newstate and the opening of LuaJIT's libraries do not survive that there is none:
** meanwhile the C library steps in, and the state is closed then. */

typedef struct LuaMemory {
  bool opening;
  int n;
  void **lent; /* by the C library; n of them */
} LuaMemory;

static void *lend(LuaMemory *m, size_t n) {
  void **lent = realloc(m->lent, sizeof *lent * (size_t)(m->n + 1));
  if (!lent) return NULL;
  m->lent = lent;
  return lent[m->n++] = malloc(n);
}

static void give_back(LuaMemory *m, void *p, size_t n) {
  for (int i = 0; i < m->n; i++)
    if (m->lent[i] == p) {
      m->lent[i] = NULL;
      free(p);
      return;
    }
  memory.release(memory.ctx, p, n);
}

/* As lua_newstate asks for memory. */
static void *allocate(void *ctx, void *p, size_t old, size_t n) {
  LuaMemory *m = ctx;
  void *y = n ? memory.allocate(memory.ctx, n, 16) : NULL;
  if (n && !y && m->opening) y = lend(m, n);
  if (p && y) memcpy(y, p, TY_MIN(old, n));
  if (p && (y || !n)) give_back(m, p, old);
  return y;
}

lua_State *ty_embed_new_state(void **ctx) {
  *ctx = NULL;
  if (!memory.allocate) return luaL_newstate();
  LuaMemory *m = *ctx = ty_mem_zalloc(sizeof *m);
  if (m) m->opening = true;
  return m ? lua_newstate(allocate, m) : NULL;
}

bool ty_embed_opened(void *ctx) {
  LuaMemory *m = ctx;
  if (m) m->opening = false;
  return !m || !m->n;
}

void ty_embed_end_state(lua_State *L, void *ctx) {
  LuaMemory *m = ctx;
  if (L) lua_close(L);
  if (m) free(m->lent);
  ty_mem_free(m);
}

void ty_embed_settle(void) { atomic_store(&settled, true); }
