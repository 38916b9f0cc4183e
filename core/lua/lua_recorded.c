/*
** lua_recorded.c -- jit.graph: the graphs that a call records.
** In: a function and its arguments. Out: a list of graphs as Lua tables, one for each point where the recording is cut.
** Nothing is computed: what the function writes to tensors from outside is put back. Fails by what the function raises,
** and when out of memory.
*/
#include <lua.h>
#include "lua/lua_compile.h"
#include "lua/lua_protect.h"
#include "lua/lua_trace.h"

/* What jit.graph heard: copies of the graphs, and the buffers of storages that were written, to put
 * back. */
typedef struct Heard {
  State *S;
  bool failed;
  i32 ngraph, graph_cap, nsaved, saved_cap;
  struct HeardGraph {
    Graph g;   /* nodes and scalars only */
    u8 *shown; /* per node: a tensor waits for it */
  } * graph;
  struct Saved {
    Storage *st;
    Buffer *buf;
  } * saved;
} Heard;

static bool grow(void *list, i32 n, i32 *cap, size_t size) {
  void *p, **at = list;
  if (n < *cap) return true;
  i32 more = *cap ? *cap * 2 : 8;
  if (!(p = ty_mem_realloc(*at, size * (size_t)more))) return false;
  *at = p;
  *cap = more;
  return true;
}

static bool save(Heard *h, Storage *st) {
  for (i32 i = 0; i < h->nsaved; i++)
    if (h->saved[i].st == st) return true;
  if (!grow(&h->saved, h->nsaved, &h->saved_cap, sizeof *h->saved)) return false;
  h->saved[h->nsaved++] = (struct Saved){ty_storage_hold(st), ty_buffer_hold(st->buf)};
  return true;
}

static bool hear_graph(Heard *h, const Recording *b) {
  if (b->g.n == 0) return true;
  if (!grow(&h->graph, h->ngraph, &h->graph_cap, sizeof *h->graph)) return false;
  struct HeardGraph *y = &h->graph[h->ngraph];
  memset(y, 0, sizeof *y);
  size_t bytes = sizeof(Node) * (size_t)b->g.n, scalars = sizeof(u64) * (size_t)b->g.nscalar;
  y->g.node = ty_mem_alloc(bytes);
  y->g.scalar = ty_mem_alloc(scalars + 1);
  y->shown = ty_mem_zalloc((size_t)b->g.n);
  if (!y->g.node || !y->g.scalar || !y->shown) {
    ty_mem_free(y->g.node);
    ty_mem_free(y->g.scalar);
    ty_mem_free(y->shown);
    return false;
  }
  memcpy(y->g.node, b->g.node, bytes);
  if (scalars) memcpy(y->g.scalar, b->g.scalar, scalars);
  y->g.n = b->g.n;
  y->g.nscalar = b->g.nscalar;
  for (const Storage *st = b->waiting; st; st = st->next) y->shown[st->node] = 1;
  h->ngraph++;
  return true;
}

static void hear(void *ctx, Recording *b) {
  Heard *h = ctx;
  if (!hear_graph(h, b)) h->failed = true;
  for (Storage *st = b->waiting, *next; st; st = next) {
    next = st->next;
    if (!st->buf || save(h, st)) continue;
    h->failed = true;
    ty_storage_settle(st, ty_buffer_hold(st->buf)); /* what cannot be put back is not written */
  }
}

/* What was written is as it was before the call. */
static void put_back(Heard *h) {
  for (i32 i = 0; i < h->nsaved; i++) {
    Storage *st = h->saved[i].st;
    ty_storage_settle(st, h->saved[i].buf);
    ty_storage_drop(st);
  }
  h->nsaved = 0;
}

static int heard_gc(lua_State *L) {
  Heard *h = lua_touserdata(L, 1);
  put_back(h);
  for (i32 i = 0; i < h->ngraph; i++) {
    ty_mem_free(h->graph[i].g.node);
    ty_mem_free(h->graph[i].g.scalar);
    ty_mem_free(h->graph[i].shown);
  }
  ty_mem_free(h->graph);
  ty_mem_free(h->saved);
  memset(h, 0, sizeof *h);
  return 0;
}

static void push_shape(lua_State *L, const Type *t) {
  lua_createtable(L, t->rank, 0);
  for (int d = 0; d < t->rank; d++) {
    lua_pushnumber(L, (double)t->dims[d]);
    lua_rawseti(L, -2, d + 1);
  }
}

static void push_node(lua_State *L, const Node *n, bool shown) {
  lua_createtable(L, 0, 5);
  lua_pushstring(L, ty_ops[n->op].name);
  lua_setfield(L, -2, "op");
  lua_pushstring(L, ty_dtypes[n->type.dtype].name);
  lua_setfield(L, -2, "dtype");
  push_shape(L, &n->type);
  lua_setfield(L, -2, "shape");
  lua_createtable(L, 3, 0);
  for (int i = 0; i < MAX_SRC && n->src[i] >= 0; i++) {
    lua_pushnumber(L, n->src[i] + 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "src");
  lua_pushboolean(L, shown);
  lua_setfield(L, -2, "live");
}

static void push_text(lua_State *L, const Graph *g,
                      size_t (*print)(const Graph *, char *, size_t)) {
  size_t n = print(g, NULL, 0) + 1;
  char *buf = lua_newuserdata(L, n);
  print(g, buf, n);
  lua_pushstring(L, buf);
  lua_remove(L, -2);
}

static void push_graph(lua_State *L, const struct HeardGraph *h) {
  lua_createtable(L, h->g.n, 2);
  for (i32 i = 0; i < h->g.n; i++) {
    push_node(L, &h->g.node[i], h->shown[i]);
    lua_rawseti(L, -2, i + 1);
  }
  push_text(L, &h->g, ty_graph_print);
  lua_setfield(L, -2, "text");
  push_text(L, &h->g, ty_dump_dot);
  lua_setfield(L, -2, "dot");
}

/* graph(f, ...) -> list of {nodes..., text, dot} */
int ty_recorded_list(lua_State *L) {
  State *S = ty_lua_enter(L);
  luaL_checktype(L, 1, LUA_TFUNCTION);
  if (S->open) return ty_lua_error(L, "graph: cannot be called inside a compiled function");
  Heard *h = lua_newuserdata(L, sizeof *h);
  memset(h, 0, sizeof *h);
  h->S = S;
  lua_insert(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, heard_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, 1);
  Protect p;
  bool hooked, collects = lua_gc(L, LUA_GCISRUNNING, 0) != 0;
  Lazy like = {.thread = L, .pinned = &p, .on_cut = hear, .ctx = h};
  Lazy *z = ty_lazy_open(S, &like);
  if (!z) return ty_lua_error(L, "graph: out of memory");
  if (collects) lua_gc(L, LUA_GCSTOP, 0); /* what finalisers write would be put back */
  int status = ty_lua_protect(L, (Binding *)S, &p, lua_gettop(L) - 2, 0, &hooked);
  if (collects) lua_gc(L, LUA_GCRESTART, 0);
  hear(h, z->open);
  z->on_cut = NULL;
  for (i32 i = 0; i < h->nsaved;
       i++) { /* writes that still wait are dropped, nothing is run for them */
    Storage *st = h->saved[i].st;
    if (st->recording == z->open) ty_storage_settle(st, ty_buffer_hold(st->buf));
  }
  z->open->closed = true;
  ty_lazy_abandon(S, z);
  put_back(h); /* now, not when the collector comes */
  if (status) return lua_error(L);
  if (h->failed) return ty_lua_error(L, "graph: out of memory");
  lua_createtable(L, h->ngraph, 0);
  for (i32 i = 0; i < h->ngraph; i++) {
    push_graph(L, &h->graph[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}
