/*
** compile.c -- from a graph to a plan that runs: the page of calls.
** In: a verified graph, the outputs that are wanted.  Out: a plan that holds its kernels in the cache.
** Fails when memory is exhausted only (S->err): then nothing is left behind. With TYCHO_CHECK what each pass
** made is verified; with TYCHO_DUMP it is shown.
*/
#include "base/events.h"
#include "device/cpu/cpu.h"
#include "engine/engine.h"
#include "ir/body.h"
#include "ir/call.h"

/* --- kernels */

static bool kernel_on(Step *s, const Device *d) {
  s->machine = d->machine;
  s->entry = ty_kernel_get(d->machine, s->program);
  if (!s->entry && d->portable && d->portable != d->machine) {
    s->machine = d->portable;
    s->entry = ty_kernel_get(d->portable, s->program);
  }
  if (!s->entry) return false;
  s->kernel = ty_kernel_code(s->entry);
  if (s->job) s->job->machine = s->machine, s->job->kernel = s->kernel;
  return true;
}

/* Who does the step: its device, or where that refuses the CPU. */
static bool attach_step(Step *s) {
  const Device *d = ty_devices[s->device];
  const bool own = s->job && s->job->kind >= JOB_TO; /* the engine's */
  s->away = d != ty_cpu && s->job && !own && !d->takes(s->job);
  if (s->program && (s->away || !kernel_on(s, d))) {
    s->away = d != ty_cpu;
    if (!s->away || !kernel_on(s, ty_cpu)) return false;
  }
  s->program = NULL;
  return true;
}

/* A step that runs away takes memory and copies, which may fail: planning did not know it, so what an output would take
** over at that step or before stays as it is. */
static void keep_written(Plan *p, i32 away) {
  for (i32 k = 0; k < p->noutputs; k++)
    if (p->output[k].first <= away) p->output[k].inplace = false;
}

/* The plan of a loop's turn, held: found, or made and kept. NULL: S->err. */
static Plan *body_plan(State *S, i64 number) {
  struct {
    char what[8];
    i64 number, fast;
  } key = {"loop", number, S->fast};
  const Body *b = ty_body((u64)number);
  const u64 hash = ty_hash(&key, sizeof key, 0);
  Plan *p = ty_cache_find(S, &key, sizeof key, hash);
  if (p) return ty_plan_hold(p);
  Output *out = ty_mem_zalloc((size_t)(b->noutput + 1) * sizeof *out);
  i32 *input = ty_mem_zalloc((size_t)(b->ninput + 1) * sizeof *input);
  const Arena outer = S->engine->scratch; /* of the compilation in progress */
  S->engine->scratch = (Arena){0};
  for (i32 i = 0; out && i < b->noutput; i++) {
    const Type *t = &b->g.node[b->output[i].node].type;
    out[i] = (Output){.node = b->output[i].node, .write = -1, .device = t->device, .own = true};
    out[i].bytes = ty_type_bytes(t);
  }
  for (i32 i = 0; input && i < b->g.n; i++)
    if (b->g.node[i].op == OP_INPUT) input[b->g.node[i].arg.k2] = i;
  if (out && input) p = ty_compile_graph(S, &b->g, out, b->noutput, b->ninput, input);
  else ty_fail_memory(S, "compile", 0);
  ty_arena_free(&S->engine->scratch);
  S->engine->scratch = outer;
  ty_mem_free(out);
  ty_mem_free(input);
  if (p) ty_cache_put(S, &key, sizeof key, hash, p);
  return p;
}

static bool attach_loop(State *S, Plan *p, Step *s) {
  if (!(s->body = body_plan(S, s->job->node->arg.offset))) return false;
  p->checks |= s->body->checks;
  return true;
}

/* Nanoseconds of a step on one thread, roughly: what is computed, and what is moved. */
static double step_time(const Plan *p, const Step *s) {
  const double sum = 0.03, item = 10, byte = 0.1; /* nanoseconds each, on a slow machine */
  double t = 0;
  const bool places = s->job && s->job->kind == JOB_SCATTER; /* it writes as much as it reads */
  for (int i = 0; i < s->noperands - places; i++) {
    const Slot *slot = &p->slot[s->slot[i]];
    if (slot->kind != SLOT_NONE) t += byte * (double)slot->bytes;
  }
  if (s->kernel && s->launch && s->machine->time) t += s->machine->time(s->kernel, s->launch);
  if (!s->job) return t;
  if (s->body) return t + s->body->time * (double)s->job->type[LOOP_ROWS].dims[0];
  const Gemm *g = s->job->kind == JOB_PRODUCT ? s->job->gemm : NULL;
  if (g) return t + sum * (double)g->batch * (double)g->m * (double)g->n * (double)g->k;
  const Attend *a = s->job->kind == JOB_ATTEND ? s->job->attend : NULL;
  if (a)
    return t + 4 * sum * (double)a->batch * (double)a->n * (double)a->m * (double)(a->d + a->dv);
  return s->job->kind < JOB_COPY ? t * item : t;
}

/* How long the plan takes, and what is left of it where outputs are written. */
static void estimate(Plan *p) {
  enum { WAIT = 60000000 }; /* nanoseconds */
  for (i32 i = p->nsteps; i-- > 0;) {
    if (!ty_devices[p->step[i].device]->machine->time) continue;
    p->time += step_time(p, &p->step[i]);
    for (i32 k = 0; k < p->noutputs; k++)
      if (p->output[k].first == i && p->time > WAIT) p->output[k].long_after = true;
  }
}

/* Also what products run on here, since a graph may come from another machine. */
static bool attach(State *S, Plan *p) {
  for (i32 i = 0; i < p->nsteps; i++) {
    Step *s = &p->step[i];
    if (!attach_step(s)) return false;
    if (s->away) keep_written(p, i);
    if (s->job && s->job->kind == JOB_LOOP && !attach_loop(S, p, s)) return false;
    if (s->job && s->job->kind == JOB_POSITIONS) p->checks = true;
    if (s->job && s->job->kind == JOB_CALL) {
      p->library = ty_call_find(s->job->node->arg.k)->library;
      p->checks |= s->device != 0; /* device/sides.h */
    }
    if (s->kind != STEP_GEMM) continue;
    s->job->gemm->amx = s->job->gemm->amx && ty_bf16_unit();
    i64 (*panels)(const Gemm *) = s->away ? NULL : ty_devices[s->device]->panels;
    if (s->packs && panels) s->panels = panels(s->job->gemm);
  }
  estimate(p);
  return true;
}

/* Whether all devices of the graph promise that kernels run once they were reserved. */
static bool reserves(const Graph *g) {
  for (i32 i = 0; i < g->n; i++)
    if (!ty_devices[g->node[i].type.device]->machine->reserve) return false;
  return true;
}

/* --- looking at it */

static void dump_passes(const Task *task, const Passes *passes, Text *t, bool graph, bool groups,
                        bool loops) {
  if (graph) ty_dump_graph(t, task->g);
  if (groups) ty_dump_groups(t, task->g, &passes->gs);
  for (i32 i = 0; loops && i < passes->gs.n; i++) {
    if (!passes->work[i].program) continue;
    ty_text_printf(t, "program of group %d\n", i);
    ty_dump_program(t, passes->work[i].program);
  }
}

static void show(State *S, const Task *task, const Passes *passes, const Plan *p) {
  Engine *E = S->engine;
  Text t = {0};
  bool graph = ty_dumps(E, 'g'), groups = ty_dumps(E, 'f'), loops = ty_dumps(E, 'l');
  if (graph || groups || loops) {
    dump_passes(task, passes, &t, graph, groups, loops);
    ty_dump_say(S, "compile", &t);
  }
  if (ty_dumps(E, 'p')) {
    ty_dump_plan(&t, p);
    ty_dump_say(S, "plan", &t);
  }
  for (i32 i = 0; ty_dumps(E, 'a') && i < p->nsteps; i++) {
    const Step *s = &p->step[i];
    if (s->kind != STEP_KERNEL || s->machine != &ty_machine_x64) continue;
    ty_text_printf(&t, "kernel of step %d\n%s", i, ty_x64_listing(s->kernel));
    ty_dump_say(S, "code", &t);
  }
}

static void dump_code(const Passes *passes, Text *t) {
  for (i32 i = 0; i < passes->gs.n; i++) {
    if (!passes->work[i].program) continue;
    ty_text_printf(t, "code of group %d\n", i);
    ty_x64_list(passes->work[i].program, t);
  }
}

void ty_compile_text(State *S, const Source *from, Text *t) {
  Arena A = {0};                   /* a compilation may be in progress */
  Node *node = (Node *)from->node; /* passes only read the graph */
  u64 *scalar = (u64 *)(node + from->n);
  const i32 *wanted = (i32 *)(scalar + from->nscalar);
  Graph g = {.node = node, .n = from->n, .scalar = scalar, .nscalar = from->nscalar};
  Output *out = ty_arena_alloc(&A, (size_t)TY_MAX(from->nout, 1) * sizeof *out);
  Task task = {.g = &g, .out = out, .nout = from->nout, .fast = from->fast};
  Passes passes;
  for (i32 i = 0; out && i < from->nout; i++) out[i] = (Output){.node = wanted[i]};
  if (out && ty_plan_passes(&A, &S->engine->room, &task, &passes)) {
    dump_passes(&task, &passes, t, true, true, true);
    if (S->engine->tells_code) dump_code(&passes, t);
  }
  ty_arena_free(&A);
}

/* What TYCHO_CHECK finds wrong with the passes before the plan, or NULL. */
static const char *check_passes(const Task *task, const Passes *passes) {
  const char *err = ty_graph_verify(task->g);
  for (i32 i = 0; i < passes->gs.n && !err; i++)
    if (passes->work[i].program) err = ty_program_verify(passes->work[i].program);
  return err;
}

/* --- the page of calls */

Plan *ty_compile_graph(State *S, const Graph *g, const Output *out, i32 nout, i32 ninputs,
                       const i32 *input_node) {
  Engine *E = S->engine;
  const Task task = {.g = g,
                     .out = out,
                     .nout = nout,
                     .nin = ninputs,
                     .input_node = input_node,
                     .fast = S->fast,
                     .reserves = reserves(g),
                     .choices = E->choices};
  Passes passes;
  Plan *p = NULL;
  const char *err = NULL;
  const i64 begin = ty_event_now(), made = E->making;
  bool ok = ty_plan_passes(&E->scratch, &E->room, &task, &passes);
  if (ok && E->check) err = check_passes(&task, &passes);
  if (ok && !err) p = ty_plan_make(&E->scratch, &task, &passes);
  if (p && E->check) err = ty_plan_check(p);
  if (p && (err || !attach(S, p))) {
    ty_plan_drop(p);
    p = NULL;
  }
  E->making = made + ty_event_now() - begin; /* plans of loops' bodies are within */
  if (E->dump & DUMP_PROFILE && p) ty_event_note(EV_MAKE, begin, ty_profile_plan(p), 0, 0, 0);
  if (p) show(S, &task, &passes, p);
  else if (err) ty_fail(S, "compile: %s", err);
  else ty_fail_memory(S, "compile", 0);
  ty_arena_reset(&E->scratch);
  return p;
}
