/*
** host.c -- what the host does in the library's place: memory, jobs.
** In: its functions, before the first engine. Out: the same for the process. Fails where they do not go together, and once
** an engine was opened: memory goes back to where it came from.
*/
#include <stdatomic.h>
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

/* As lua_newstate asks for memory. */
static void *allocate(void *ctx, void *p, size_t old, size_t n) {
  (void)ctx;
  if (!n) {
    if (p) memory.release(memory.ctx, p, old);
    return NULL;
  }
  void *y = memory.allocate(memory.ctx, n, 16);
  if (p && y) memcpy(y, p, TY_MIN(old, n)), memory.release(memory.ctx, p, old);
  return y;
}

lua_State *ty_embed_new_state(void) {
  lua_State *L = memory.allocate ? lua_newstate(allocate, NULL) : NULL;
  return L || memory.allocate ? L : luaL_newstate();
}

void ty_embed_settle(void) { atomic_store(&settled, true); }
