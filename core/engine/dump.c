/*
** dump.c -- text of all that can be looked at: graphs (also as dot), groups, loop programs, plans.
** In:  what a pass has made.  Out: text in a string that grows; TYCHO_DUMP and explain show the
** same.  Cannot fail: when out of memory a text is empty.
*/
#include "device/cpu/cpu.h"
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>

void ty_dump_say(State *S, const char *title, Text *t) {
  Engine *E = S->engine;
  if (E->say && t->n) {
    Text head = {0};
    ty_text_printf(&head, "-- %s\n", title);
    E->say(E->say_ctx, ty_text_str(&head), head.n);
    E->say(E->say_ctx, t->s, t->n);
    ty_text_free(&head);
  }
  ty_text_free(t);
}

/* TYCHO_DUMP: a letter for each kind of text. */
static const struct Letter {
  char letter;
  const char *text;
} letters[] = {
    {'c', "captures, and why they are given up"},
    {'r', "operations, as they are recorded"},
    {'g', "graphs that are compiled"},
    {'f', "which of their nodes share a kernel"},
    {'l', "loop programs of the kernels"},
    {'a', "machine code of the kernels, PTX for CUDA"},
    {'p', "plans: steps, outputs, memory"},
    {'t', "the time of each step as it runs"},
};

static bool is_letter(char c) {
  for (int i = 0; i < TY_COUNT(letters); i++)
    if (letters[i].letter == c) return true;
  return false;
}

u32 ty_dump_letters(const char *given, Text *t) {
  u32 bits = 0;
  const bool help = !strcmp(given, "help");
  for (const char *c = given; *c && !help; c++) {
    if (is_letter(*c)) bits |= 1u << (*c - 'a');
    else ty_text_printf(t, "TYCHO_DUMP: there is no letter '%c'\n", *c);
  }
  if (!help && !t->n) return bits;
  ty_text_printf(t, "TYCHO_DUMP=letters prints to stderr:\n");
  for (int i = 0; i < TY_COUNT(letters); i++)
    ty_text_printf(t, "  %c  %s\n", letters[i].letter, letters[i].text);
  return bits;
}

/* Appends what a printer of the form `length wanted = f(x, buf, n)` has to say. */
#define TEXT_PRINTER(t, f, x) \
  do { \
    size_t want_ = f(x, NULL, 0); \
    char *at_ = ty_text_room(t, want_); \
    if (at_) { \
      f(x, at_, want_ + 1); \
      (t)->n += want_; \
    } \
  } while (0)

/* --- graphs */

void ty_dump_graph(Text *t, const Graph *g) { TEXT_PRINTER(t, ty_graph_print, g); }

/* Leaves are boxes, what no node reads is doubled. */
static void dot_node(Text *t, const Graph *g, i32 i) {
  const Node *n = &g->node[i];
  char type[160];
  ty_type_print(&n->type, type, sizeof type);
  const char *shape = ty_ops[n->op].class == LEAF ? "box" : "ellipse";
  ty_text_printf(t, "  n%d [label=\"%%%d %s\\n%s\", shape=%s%s];\n", i, i, ty_ops[n->op].name, type,
                 shape, g->uses && g->uses[i] == 0 ? ", peripheries=2" : "");
  int arity = ty_ops[n->op].arity;
  for (int j = 0; j < arity; j++) {
    ty_text_printf(t, "  n%d -> n%d", n->src[j], i);
    if (arity > 1) ty_text_printf(t, " [label=\"%c\"]", 'a' + j);
    ty_text_add(t, ";\n", 2);
  }
}

size_t ty_dump_dot(const Graph *g, char *buf, size_t n) {
  Text t = {0};
  ty_text_printf(&t, "digraph tycho {\n  rankdir=TB;\n  node [fontname=\"monospace\"];\n");
  for (i32 i = 0; i < g->n; i++) dot_node(&t, g, i);
  ty_text_printf(&t, "}\n");
  size_t want = t.n;
  if (n) {
    size_t take = TY_MIN(want, n - 1);
    memcpy(buf, ty_text_str(&t), take);
    buf[take] = 0;
  }
  ty_text_free(&t);
  return want;
}

/* --- groups: which nodes each computes, what it stores, what it reads */

static void node_list(Text *t, const i32 *list, i32 n) {
  for (i32 i = 0; i < n; i++) ty_text_printf(t, " %%%d", list[i]);
}

/* Which code runs a product, where it is not ours. */
static const char *by_whom(const Node *n) {
  if (n->arg.k2 == PRODUCT_BLAS) return " by OpenBLAS";
  if (n->arg.k2 & PRODUCT_LIBRARY) return " by the device's library";
  if (n->arg.k2 != PRODUCT_BF16 || !ty_bf16_unit()) return "";
  return ty_amx_refusal() ? " by AVX512-BF16" : " by AMX";
}

void ty_dump_groups(Text *t, const Graph *g, const Groups *gs) {
  static const char *const kinds[] = {"kernel", "gemm", "host"};
  for (i32 i = 0; i < gs->n; i++) {
    const Group *gr = &gs->group[i];
    bool epilogue = gr->kind == G_GEMM && gr->product != gr->root;
    ty_text_printf(t, "group %d %s%s:", i, epilogue ? "product with epilogue" : kinds[gr->kind],
                   gr->kind == G_GEMM ? by_whom(&g->node[gr->product]) : "");
    node_list(t, gr->nodes, gr->nnodes);
    ty_text_printf(t, " ->");
    node_list(t, gr->out, gr->nout);
    if (gr->nin) ty_text_printf(t, " reads");
    node_list(t, gr->in, gr->nin);
    if (gr->base >= 0) ty_text_printf(t, " over %%%d", gr->base);
    ty_text_add(t, "\n", 1);
  }
}

void ty_dump_program(Text *t, const Program *p) { TEXT_PRINTER(t, ty_program_print, p); }

/* --- plans */

static const char *const step_kinds[] = {"kernel", "gemm", "host", "copy"};

static int slot_name(const Plan *p, i32 i, char *buf, size_t n) {
  const Slot *s = &p->slot[i];
  switch (s->kind) {
  case SLOT_INPUT: return snprintf(buf, n, "in%d", s->k);
  case SLOT_OUTPUT: return snprintf(buf, n, "out%d", s->k);
  case SLOT_TEMP: return snprintf(buf, n, "t%d", i);
  default: return snprintf(buf, n, "-");
  }
}

/* The names of the slots that a step reads or writes. */
static void slot_names(const Plan *p, const Step *s, bool writes, char *buf, size_t n) {
  size_t at = 0;
  buf[0] = 0;
  for (i32 j = 0; j < s->noperands && at + 16 < n; j++) {
    if ((s->writes >> j & 1) != writes) continue;
    if (at) buf[at++] = ' ';
    at += (size_t)slot_name(p, s->slot[j], buf + at, n - at);
  }
}

static void plan_step(Text *t, const Plan *p, i32 i) {
  const Step *s = &p->step[i];
  char reads[320], writes[320], node[40];
  i64 bytes = 0;
  slot_names(p, s, false, reads, sizeof reads);
  slot_names(p, s, true, writes, sizeof writes);
  const bool awaits = s->job && s->job->kind == JOB_AWAIT;
  snprintf(node, sizeof node, "%%%d %s%s", s->node,
           s->op == OP_INPUT ? "copy"
           : awaits          ? "await"
                             : ty_ops[s->op].name,
           s->kind == STEP_GEMM && s->job->blas        ? " (blas)"
           : s->kind == STEP_GEMM && s->job->gemm->amx ? s->kernel ? " (bf16), epilogue" : " (bf16)"
           : s->kind == STEP_GEMM && s->job->gemm->library
               ? s->kernel ? " (fast), epilogue" : " (fast)"
           : s->kind == STEP_GEMM && s->kernel ? ", epilogue"
                                               : "");
  for (i32 j = 0; j < s->noperands; j++) bytes += p->slot[s->slot[j]].bytes;
  ty_text_printf(t, "  %-4d %-6s  %-18s %-24s -> %-14s %12" PRId64, i, step_kinds[s->kind], node,
                 reads, writes, bytes);
  if (s->device) ty_text_printf(t, "  %s", ty_device_names[s->device]);
  if (s->away) ty_text_printf(t, " refuses it: on the cpu, with copies");
  ty_text_add(t, "\n", 1);
}

static void plan_output(Text *t, const Plan *p, i32 k) {
  const Output *o = &p->output[k];
  char name[16];
  snprintf(name, sizeof name, "out%d", k);
  ty_text_printf(t, "  %-6s %%%-4d %12" PRId64 " bytes", name, o->node, o->bytes);
  if (o->write >= 0) ty_text_printf(t, "  written to the storage of in%d", o->write);
  if (o->write == -2) ty_text_printf(t, "  written to a storage that is not read");
  if (o->same >= 0) ty_text_printf(t, "  the buffer of out%d", o->same);
  if (o->inplace && o->write != -1) ty_text_printf(t, ", in place");
  if (o->inplace && o->write == -1) ty_text_printf(t, "  takes in%d if it dies here", o->donor);
  ty_text_add(t, "\n", 1);
}

/* A piece of the arena or of an output, and the steps between which it lives. */
static void plan_slot(Text *t, const Plan *p, i32 i) {
  const Slot *s = &p->slot[i];
  char name[16], where[32] = "";
  i32 first = -1, last = -1;
  for (i32 k = 0; k < p->nsteps; k++)
    for (i32 j = 0; j < p->step[k].noperands; j++) {
      if (p->step[k].slot[j] != i) continue;
      if (first < 0) first = k;
      last = k;
    }
  slot_name(p, i, name, sizeof name);
  if (s->k >= 0) snprintf(where, sizeof where, "  in out%d", s->k);
  ty_text_printf(t, "  %-6s at %-10" PRId64 " %12" PRId64 " bytes  steps %d-%d%s\n", name,
                 s->offset, s->bytes, first, last, where);
}

static const char *plural(i64 n) { return n == 1 ? "" : "s"; }

void ty_dump_plan(Text *t, const Plan *p) {
  ty_text_printf(t, "plan: %" PRId64 " operation%s in %d kernel%s, %d step%s\n", p->nops,
                 plural(p->nops), p->nkernels, plural(p->nkernels), p->nsteps, plural(p->nsteps));
  ty_text_printf(
      t, "bytes: %" PRId64 " moved, %" PRId64 " saved by fusion, %" PRId64 " in the arena\n",
      p->bytes_moved, p->bytes_saved, p->arena);
  if (p->nsteps) ty_text_printf(t, "steps\n");
  for (i32 i = 0; i < p->nsteps; i++) plan_step(t, p, i);
  if (p->noutputs) ty_text_printf(t, "outputs\n");
  for (i32 k = 0; k < p->noutputs; k++) plan_output(t, p, k);
  bool any = false;
  for (i32 i = 0; i < p->nslots; i++) {
    if (p->slot[i].kind != SLOT_TEMP) continue;
    if (!any) ty_text_printf(t, "arena\n");
    any = true;
    plan_slot(t, p, i);
  }
}
