/*
** lua_trace.h -- traces of compiled functions, as lua_compile.c asks for them.
*/
#ifndef TY_LUA_TRACE_H
#define TY_LUA_TRACE_H

#include <lua.h>
#include "engine/entry.h"
#include "lua/lua_tycho.h"
#include "engine/shape_range.h"

#define ENTRY_META "tycho.entry"
/* Place in an entry's table: the value that failed its guard, for compile_due alone. */
#define ANCHOR_FAILED -3
/* The function that answers the calls of an entry that stands aside. */
#define ANCHOR_STANDS -4

/* SIZES: the guards of some trace hold, but it has no plan for these sizes; REST: nor is one worth it, or an
** index is out of range, at which Lua raises. */
typedef enum {
  TRACE_HIT,
  TRACE_MISS,
  TRACE_SIZES,
  TRACE_REST,
  TRACE_FAILED,
  TRACE_RAISED
} TraceAnswer;

typedef enum {
  TRACE_RUN,
  TRACE_LINKED,
  TRACE_SLICED,
  TRACE_TELL,
  TRACE_DIRECT,
  TRACE_BORROWED
} TraceUse;

/* Called by pick, whose upvalues it uses, with the arguments alone on the stack, which a miss leaves
** there. HIT: what pick answers is on top, so many values; or a link and registers (PartGives). LINKED: by a link, whose
** parts alone see what is made. SLICED: a call in slices of time: where its plan waits to be run, the call and the
** function that ends it (lua_slice.c), and S->engine->compiled->sliced is set. TELL: what the trace would do, nothing is run.
** DIRECT: by C, which gets all results, of traces of the whole function alone; Compiled.own says which the run has made.
** BORROWED: the same, of traces that put neither arguments nor results where others find them than who gets the results. */
TraceAnswer ty_trace_call(lua_State *L, State *S, Entry *e, TraceUse use, int *answers);
void ty_trace_diagnose(lua_State *L, State *S, Entry *e, int narg);
bool ty_trace_push_miss(lua_State *L, Entry *e, int anchors);
/* lua_explain.c: pushes the text of a plan; "" when out of memory. */
void ty_lua_plan_text(lua_State *L, const Source *from);
/* The name of a site as Lua has it: "file:line", behind a '<' where it is part of a backward pass; false: unknown. Of many: a
** list. */
void ty_lua_push_site(lua_State *L, i32 site);
void ty_lua_push_run(lua_State *L, const DeviceRun *r);
void ty_lua_push_sites(lua_State *L, const i32 *site, i32 n);
/* From here on the user's code runs: a compiled function, or the rest of one. */
static inline void ty_lua_runs(lua_State *L, State *S) {
  const Binding *B = (Binding *)S;
  S->engine->compiled->in_lua++;
  if (TY_UNLIKELY(B->watch != NULL)) B->watch(L, B->watch_ctx);
}
i64 ty_trace_hits(const Trace *T);
/* Whether calls of new sizes run without a plan for a while, since none of those made lately was used twice. */
bool ty_trace_rests(const Trace *T);
/* The position of the first trace from i on that lacks the sizes of the last call, or ntrace. */
i32 ty_trace_lacking(const Entry *e, i32 i);
void ty_trace_free_all(Entry *e);
void ty_trace_leave_all(
    State *S); /* of a State that ends: what calls that errors ended still hold */
void ty_trace_forget(lua_State *L, Entry *e, int anchors); /* the same, and what they anchor */
/* Those behind which a function goes on. */
void ty_trace_forget_parts(lua_State *L, Entry *e, int anchors);

/* Pushes the modules by name, as require finds them. */
void ty_lua_push_loaded(lua_State *L);

/* --- lua_custom.c */
bool ty_custom_read(lua_State *L, int d, Graph *g, Replacement *by, const char **fault);
bool ty_custom_run(lua_State *L, State *S, Instance *I, const Tensor *const *outside,
                   const double *number, Tensor *const *made);

#endif
