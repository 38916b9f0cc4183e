/*
** plan.c -- engines of the stand-in, what the heuristics list of them, plans, and caches of kernels that plans of one topology share.
*/
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

static int asked, plans, compiled;
EXPORT int soft_cudnn_asked(void) { return asked; }
EXPORT int soft_cudnn_plans(void) { return plans; }
EXPORT int soft_cudnn_compiled(void) { return compiled; }

/* In the order of the heuristics' list, with their knobs. */
static const Config engines[] = {{5, 2, {24, 14}, {10, 2}}, {1, 1, {24}, {7}}, {0, 0, {0}, {0}}};
enum { LISTED = sizeof engines / sizeof *engines };

/* The place of an engine in that list. */
int rank_of(int64_t engine) {
  for (int i = 0; i < LISTED; i++)
    if (engines[i].engine == engine) return i;
  return LISTED;
}

int finalize_heuristics(Descriptor *d) {
  static int count;
  const int64_t mode = number_of(d, HEUR_MODE, 0);
  asked++;
  if (mode < 0 || mode > 3) return fail(BAD_PARAM, "heuristics of mode %d", (int)mode);
  hold(d, descriptor_of(d, HEUR_GRAPH)->graph);
  /* the library says what is wrong by an empty list */
  if (injected("SOFT_CUDNN_NONE", &count, NOT_SUPPORTED) || graph_supported(&d->graph->graph))
    d->config.engine = -1;
  return SUCCESS;
}

int finalize_engine(Descriptor *d) {
  const int64_t engine = number_of(d, ENGINE_INDEX, 0);
  hold(d, descriptor_of(d, ENGINE_GRAPH)->graph);
  if (engine < 0 || engine >= ENGINES)
    return fail(NOT_SUPPORTED, "no engine of number %lld", (long long)engine);
  d->config.engine = engine;
  return graph_supported(&d->graph->graph);
}

int finalize_config(Descriptor *d) {
  const Descriptor *engine = descriptor_of(d, CFG_ENGINE);
  const Value *knobs = value_of(d, CFG_KNOBS);
  hold(d, engine->graph);
  d->config = (Config){.engine = engine->config.engine};
  for (int64_t i = 0; knobs && i < knobs->n; i++) {
    const Descriptor *k = ((Descriptor **)knobs->data)[i];
    const int64_t type = number_of(k, KNOB_TYPE, 0), value = number_of(k, KNOB_VALUE, 0);
    const bool known = type == 24 || (type == 14 && d->config.engine == 5);
    if (!known || value < 0 || value > 31 || i >= KNOBS)
      return fail(NOT_SUPPORTED, "knob %d of %lld", (int)type, (long long)value);
    for (int64_t j = 0; j < i; j++)
      if (d->config.type[j] == type) return fail(DUPLICATED_ENTRIES, "knob %d twice", (int)type);
    d->config.type[i] = (int)type, d->config.value[i] = value;
    d->config.knobs++;
  }
  return SUCCESS;
}

/* --- kernels of one topology, for plans of any sizes */

/* Whether two graphs differ in sizes and strides alone. */
static bool is_like(const Graph *a, const Graph *b) {
  if (a->n != b->n || a->steps != b->steps || memcmp(a->step, b->step, sizeof a->step))
    return false;
  for (int i = 0; i < a->n; i++) {
    const Tensor *x = &a->tensors[i], *y = &b->tensors[i];
    if (x->type != y->type || x->rank != y->rank || x->virtual != y->virtual ||
        x->by_value != y->by_value || x->alignment != y->alignment)
      return false;
  }
  return true;
}

int finalize_cache(Descriptor *d) {
  hold(d, descriptor_of(d, CACHE_GRAPH)->graph);
  return d->graph->graph.dynamic ? SUCCESS : fail(BAD_PARAM, "kernels are kept for dynamic shapes");
}

/* A plan's kernel: from its cache, or made. */
static int take_kernel(const Descriptor *plan) {
  const Value *v = value_of(plan, PLAN_CACHE);
  Descriptor *cache = v ? *(Descriptor **)v->data : NULL;
  const uint64_t bit = 1ull << plan->config.engine;
  if (cache && !plan->graph->graph.dynamic)
    return fail(BAD_PARAM, "a cache of kernels for a graph without dynamic shapes");
  if (cache && !is_like(&cache->graph->graph, &plan->graph->graph))
    return fail(BAD_PARAM, "a cache of kernels for a graph of another topology");
  compiled += !cache || !(cache->kernels & bit);
  if (cache) cache->kernels |= bit;
  return SUCCESS;
}

int finalize_plan(Descriptor *d) {
  static int count;
  const Descriptor *cfg = descriptor_of(d, PLAN_CFG);
  int e = injected("SOFT_CUDNN_PLAN", &count, NOT_SUPPORTED);
  if (e) return e;
  hold(d, cfg->graph);
  d->config = cfg->config;
  if (rank_of(d->config.engine) < setting("SOFT_CUDNN_REFUSE", 0))
    return fail(UNSUPPORTED_SHAPE, "engine %d has no plan for it", (int)d->config.engine);
  if (setting("SOFT_CUDNN_STRIDED", 0) && !graph_packed(&d->graph->graph))
    return fail(UNSUPPORTED_LAYOUT, "engine %d takes what is packed", (int)d->config.engine);
  d->workspace = setting("SOFT_CUDNN_WORKSPACE", d->config.engine == 5 ? 1024 : 0);
  e = take_kernel(d);
  plans += !e;
  return e;
}

/* --- what a caller's descriptors are filled with */

/* The nth descriptor that a caller gives to be filled in; NULL: it is not one of that kind, or is in use. */
static Descriptor *fresh(void *values, int64_t i, int kind) {
  Descriptor *d = ((Descriptor **)values)[i];
  return is_live(d) && d->kind == kind && !d->final ? d : NULL;
}

int give_engine(const Descriptor *cfg, int64_t n, int64_t *found, void *values) {
  *found = 1;
  if (n < 1) return SUCCESS;
  Descriptor *d = fresh(values, 0, ENGINE);
  if (!d) return fail(BAD_PARAM, "an engine goes to a descriptor of its kind, not finalized");
  put(d, ENGINE_INDEX, 1, &cfg->config.engine);
  d->config.engine = cfg->config.engine;
  hold(d, cfg->graph);
  d->final = true;
  return SUCCESS;
}

int give_knobs(const Descriptor *cfg, int64_t n, int64_t *found, void *values) {
  *found = cfg->config.knobs;
  for (int i = 0; i < cfg->config.knobs && i < n; i++) {
    Descriptor *d = fresh(values, i, KNOB_CHOICE);
    if (!d) return fail(BAD_PARAM, "a knob goes to a descriptor of its kind, not finalized");
    put(d, KNOB_TYPE, 1, &cfg->config.type[i]);
    put(d, KNOB_VALUE, 1, &cfg->config.value[i]);
    d->final = true;
  }
  return SUCCESS;
}

int give_results(const Descriptor *heur, int64_t n, int64_t *found, void *values) {
  const int from = number_of(heur, HEUR_MODE, 0) == 2 ? LISTED - 1 : 0;
  *found = heur->config.engine < 0 ? 0 : LISTED - from;
  if (n == 0) return SUCCESS;
  *found = *found < n ? *found : n;
  for (int64_t i = 0; i < *found; i++) {
    Descriptor *d = fresh(values, i, ENGINECFG);
    if (!d) return fail(BAD_PARAM, "a result goes to a descriptor of its kind, not finalized");
    d->config = engines[from + i];
    hold(d, heur->graph);
    d->final = true;
  }
  return SUCCESS;
}
