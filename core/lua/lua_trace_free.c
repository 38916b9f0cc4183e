/*
** lua_trace_free.c -- the end of a trace.
** In: traces that nobody uses. Out: their memory. Cannot fail.
*/
#include "lua/lua_guard.h"
#include "lua/lua_turn.h"

void ty_trace_drop_samples(Trace *T) {
  for (int i = 0; i < RANGE_SAMPLES; i++) {
    if (T->sample[i]) ty_instance_free(T->sample[i]);
    T->sample[i] = NULL;
  }
}

static void trace_free(Trace *T) {
  for (i32 i = 0; i < T->nguards; i++) {
    Guard *g = &T->guard[i];
    if (g->op == G_TENSOR) ty_mem_free(g->tensor);
    if (g->op == G_CLOSURE && g->dump) {
      ty_mem_free(g->dump->bytes);
      ty_mem_free(g->dump);
    }
  }
  for (i32 i = 0; i < T->ninstance; i++) ty_instance_free(T->instance[i]);
  for (i32 i = 0; i < T->nranges; i++) ty_shape_range_free(T->range[i]);
  ty_trace_drop_samples(T);
  ty_mem_free(T->guard);
  ty_mem_free(T->result);
  ty_mem_free(T->meta);
  ty_mem_free(T->pair);
  ty_mem_free(T->effect);
  ty_mem_free(T->hidden);
  ty_mem_free(T->size);
  ty_mem_free(T->instance);
  ty_mem_free(T->hash);
  ty_mem_free(T->bound);
  ty_turn_free(T->turns);
  ty_mem_free(T);
}

/* Finalisers run in the middle of a call, and may drop any trace: the one that runs waits. */
void ty_trace_drop(Trace *T) {
  if (!--T->refs) trace_free(T);
}
