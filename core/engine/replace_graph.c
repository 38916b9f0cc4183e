/*
** replace_graph.c -- what takes the place of a captured graph: a graph that passes left, a function that a
** backend made.
** In: the recording of a capture, the nodes that are wanted of it, a graph that Lua made. Out: what is
** wrong with the graph, or where it has the recording's inputs; for a function what it is given. Fails
** when out of memory.
**
** A parsed graph keeps the rules of graphs, so its kernels read and write inside of what they are
** given. What only the world can tell is checked here:
** 1. Inputs are those of the recording, with the layouts that guards have seen.
** 2. Scalar slots have the bits that the recording has there.
** 3. Positions are checked before a run (trace.c), as the captured graph needs them, or by the device (POSITIONS).
**    So whoever gathers or scatters does it by such an index, along a dim that is as long at least.
*/
#include "engine/trace.h"

static bool takes_index(int op) {
  return op == OP_GATHER || op == OP_SCATTER || op == OP_SCATTER_ADD;
}

/* The node of `old` with the same value as n, whose operands are known: of[operand], or -1. */
static i32 find_equal(const Graph *old, const Node *n, const i32 *of) {
  Node key = *n;
  for (int i = 0; i < MAX_SRC; i++) {
    if (n->src[i] < 0) continue;
    if ((key.src[i] = of[n->src[i]]) < 0) return -1;
  }
  for (i32 k = 0; k < old->n; k++)
    if (old->node[k].op == key.op && !memcmp(&old->node[k], &key, sizeof key)) return k;
  return -1;
}

static i64 indexed_size(const Graph *g, const Node *n) {
  return g->node[n->src[0]].type.dims[n->arg.k];
}

static bool is_checked(const Graph *old, const Graph *g, const Node *n, const i32 *of) {
  const Node *at = &g->node[n->src[1]];
  while (at->op == OP_VIEW) at = &g->node[at->src[0]]; /* has no elements of its own */
  if (at->op == OP_POSITIONS && (i64)at->arg.bits <= indexed_size(g, n)) return true;
  i32 index = of[n->src[1]];
  for (i32 k = 0; k < old->n && index >= 0; k++) {
    const Node *m = &old->node[k];
    if (takes_index(m->op) && m->src[1] == index && indexed_size(old, m) <= indexed_size(g, n))
      return true;
  }
  return false;
}

static bool same_slot(const Graph *old, const Node *n) {
  for (i32 k = 0; k < old->n; k++) {
    const Node *m = &old->node[k];
    if (m->op == n->op && m->arg.k == n->arg.k &&
        ty_dtypes[m->type.dtype].ctype == ty_dtypes[n->type.dtype].ctype)
      return true;
  }
  return false;
}

static const char *node_fault(const Recording *b, const Graph *g, i32 at, const i32 *of,
                              i32 *input) {
  const Node *n = &g->node[at];
  if (n->op == OP_INPUT) {
    for (i32 i = 0; i < b->ninput; i++)
      if (of[at] == b->input[i].node) {
        input[i] = at;
        return NULL;
      }
    return "it has an input that the function has not";
  }
  if ((n->op == OP_SCALAR || n->op == OP_RANDOM) && !same_slot(&b->g, n))
    return "it reads a scalar as something else";
  if (takes_index(n->op) && !is_checked(&b->g, g, n, of))
    return "it takes elements by an index that nobody checks";
  return NULL;
}

/* input: per input of the recording its node in the graph, filled in. */
const char *ty_replace_fault(const Recording *b, const i32 *wanted, i32 n, const Replacement *by,
                             i32 *input) {
  const Graph *g = by->g;
  if (by->n != n) return "it has not the outputs of the function";
  if (g->nscalar != b->g.nscalar) return "it has not the scalars of the function";
  i32 *of =
      ty_mem_alloc(sizeof *of * (size_t)(g->n + 1)); /* the recording's node with the same value */
  if (!of) return "out of memory";
  const char *fault = NULL;
  for (i32 i = 0; i < b->ninput; i++) input[i] = -1;
  for (i32 i = 0; i < g->n && !fault; i++) {
    of[i] = find_equal(&b->g, &g->node[i], of);
    fault = node_fault(b, g, i, of, input);
  }
  for (i32 i = 0; i < b->ninput && !fault; i++)
    if (input[i] < 0) fault = "it lacks an input of the function";
  for (i32 i = 0; i < n && !fault; i++)
    if (by->output[i] < 0 || by->output[i] >= g->n ||
        !ty_type_equal(&g->node[by->output[i]].type, &b->g.node[wanted[i]].type))
      fault = "an output has another type";
  ty_mem_free(of);
  return fault;
}

Foreign *ty_foreign_new(const Recording *b, const i32 *wanted, i32 n) {
  const Graph *g = &b->g;
  Foreign *f = ty_mem_zalloc(sizeof *f);
  if (!f) return NULL;
  f->input = ty_mem_zalloc(sizeof *f->input * (size_t)(b->ninput + 1));
  f->slot = ty_mem_zalloc((size_t)g->nscalar + 1);
  f->result = ty_mem_zalloc(sizeof *f->result * (size_t)(n + 1));
  if (!f->input || !f->slot || !f->result) {
    ty_foreign_free(f);
    return NULL;
  }
  for (i32 i = 0; i < b->ninput; i++) f->input[i] = g->node[b->input[i].node];
  for (i32 i = 0; i < n; i++) f->result[i] = g->node[wanted[i]].type;
  for (i32 i = 0; i < g->n; i++) {
    const Node *m = &g->node[i];
    if (m->op == OP_SCALAR) f->slot[m->arg.k] = m->type.dtype;
    if (m->op == OP_RANDOM) f->slot[m->arg.k] = f->slot[m->arg.k + 1] = T_I64;
  }
  return f;
}

void ty_foreign_free(Foreign *f) {
  if (!f) return;
  ty_mem_free(f->input);
  ty_mem_free(f->slot);
  ty_mem_free(f->result);
  ty_mem_free(f);
}
