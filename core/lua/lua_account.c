/*
** lua_account.c -- what a trace is about to do in a call, and what a capture of that call recorded, told alike: the
** oracle for missing guards (TYCHO_CHECK=capture), see lua/tycho/capture/oracle.lua.
** In: a trace whose guards hold, its instance and what the guards read; or the session of a capture. Out: a Lua table
**     made     per tensor that is made: a text that is equal where the tensor is computed in the same way from the same
**              memory, numbers, random streams and constants, and lies in the same way
**     written  by storage: the same of what is written to it, and how often
**     streams, checks    random streams taken; a sum over the indices whose range is checked
** and of a trace slots and numbers, by the numbers that its description has for them. Fails when out of memory.
**
** Memory is told by address, so both must be told before anything runs. Inputs and scalars have other numbers in
** another capture, and what is equal may be one node or two: so graphs are folded anew over one leaf for each place,
** and nodes are hashed from the leaves on, by what they are.
*/
#include <stdio.h>
#include "record/grad.h"
#include "lua/lua_guard.h"

typedef struct Print {
  u64 a, b;
} Print;

static void mix(Print *p, const void *bytes, size_t n) {
  p->a = ty_hash(bytes, n, p->a);
  p->b = ty_hash(bytes, n, p->b ^ 0x9e3779b97f4a7c15);
}

static void mix_type(Print *p, const Type *t) {
  mix(p, &t->dtype, sizeof t->dtype);
  mix(p, &t->rank, sizeof t->rank);
  mix(p, t->dims, sizeof *t->dims * t->rank);
}

static void mix_layout(Print *p, const Type *t, const i64 *strides) {
  mix_type(p, t);
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] > 1) mix(p, &strides[d], sizeof strides[d]);
}

/* The contents; without memory for a copy from another device the buffer itself. */
static void mix_buffer(Print *p, const Buffer *b) {
  const void *data = ty_buffer_read(b->S, b, 0, b->bytes);
  if (data) mix(p, data, (size_t)b->bytes);
  else mix(p, &b, sizeof b);
}

/* What a graph is bound to. */
typedef struct BoundGraph {
  const Node *node;
  i32 n;
  const struct RecordingInput *input;
  const u8 *constant; /* per input: it was made by the function, its bytes tell what it is */
  const u64 *scalar;
} BoundGraph;

static void print_leaf(const BoundGraph *g, const Node *n, Print *p) {
  if (n->op == OP_INPUT) {
    const struct RecordingInput *in = &g->input[n->arg.k2];
    if (g->constant[n->arg.k2]) mix_buffer(p, in->buf);
    else mix(p, &in->buf, sizeof in->buf);
    mix(p, &in->offset, sizeof in->offset);
    mix_layout(p, &n->type, n->arg.strides);
  } else if (n->op == OP_SCALAR) {
    mix(p, &g->scalar[n->arg.k], sizeof(u64));
  } else if (n->op == OP_RANDOM) {
    mix(p, &g->scalar[n->arg.k], 2 * sizeof(u64));
    mix(p, &n->arg.k2, sizeof n->arg.k2);
  } else {
    Arg arg = n->arg;
    if (n->op == OP_POSITIONS)
      arg.k2 = 0; /* a site is the line that an error names, and computes nothing */
    mix(p, &arg, sizeof arg);
  }
}

/* Which of two operands that may be swapped is the first one goes by the numbers of nodes: here by what they are. */
static bool swapped(const Node *n, const Print *y) {
  if (!(ty_ops[n->op].flags & F_COMM)) return false;
  const Print *p = &y[n->src[0]], *q = &y[n->src[1]];
  return p->a != q->a ? p->a > q->a : p->b > q->b;
}

static Print print_node(const BoundGraph *g, const Node *n, const Print *y) {
  Print p = {n->op, n->op};
  bool swap = swapped(n, y);
  mix_type(&p, &n->type);
  print_leaf(g, n, &p);
  for (int k = 0; k < ty_ops[n->op].arity; k++)
    mix(&p, &y[n->src[swap && k < 2 ? 1 - k : k]], sizeof p);
  return p;
}

/* The node of the graph that has this print, or -1. */
static i32 find_print(const Print *y, i32 n, const Print *p) {
  for (i32 i = 0; i < n; i++)
    if (y[i].a == p->a && y[i].b == p->b) return i;
  return -1;
}

/* Node n, whose operands are nodes of `to` already, in it. y: prints of the nodes of `to`. */
static i32 append(const BoundGraph *g, Graph *to, const Node *n, Print *y) {
  i32 had = to->n, at;
  if (ty_ops[n->op].class == LEAF) {
    Print p = print_node(g, n, y);
    at = find_print(y, had, &p);
    if (at < 0) at = ty_graph_append(to, n);
  } else {
    at = ty_fold_append(to, n);
  }
  for (i32 i = had; at >= 0 && i < to->n; i++) y[i] = print_node(g, &to->node[i], y);
  return at;
}

/* y[i]: the print of node i. The graph is folded anew, with one node for each place, number, constant: what was folded
** when it was recorded depends on which of these were known to be one. False: out of memory. */
static bool print_nodes(const BoundGraph *g, Print *y, Print *own, i32 *at) {
  Graph to = {0};
  bool ok = true;
  for (i32 i = 0; ok && i < g->n; i++) {
    Node n = g->node[i];
    for (int k = 0; k < ty_ops[n.op].arity; k++) n.src[k] = at[n.src[k]];
    ok = (at[i] = append(g, &to, &n, own)) >= 0;
    if (ok) y[i] = own[at[i]];
  }
  ty_graph_free(&to);
  return ok;
}

/* --- as Lua sees it */

static void *scratch(lua_State *L, i32 n, size_t size) {
  return memset(lua_newuserdata(L, (size_t)(n + 1) * size), 0, (size_t)(n + 1) * size);
}

/* Prints of all nodes. A node may be folded to a few new ones. */
static Print *push_prints(lua_State *L, const BoundGraph *g) {
  Print *y = scratch(L, g->n, sizeof *y), *own = scratch(L, 4 * g->n, sizeof *own);
  i32 *at = scratch(L, g->n, sizeof *at);
  if (!print_nodes(g, y, own, at)) luaL_error(L, "account: out of memory");
  return y;
}

static void push_print(lua_State *L, const Print *p) {
  char text[40];
  snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)p->a, (unsigned long long)p->b);
  lua_pushstring(L, text);
}

/* A tensor that is made: value of its storage, the first of those made that has it. */
static void add_made(lua_State *L, int list, i32 i, Print value, i32 first, const Type *t,
                     i64 offset, const i64 *strides) {
  mix(&value, &first, sizeof first);
  mix(&value, &offset, sizeof offset);
  mix_layout(&value, t, strides);
  push_print(L, &value);
  lua_rawseti(L, list, i + 1);
}

/* A view of a tensor from outside. */
static Print print_alias(const Storage *st, bool detached) {
  Print p = {1, 2};
  mix(&p, &st, sizeof st);
  mix(&p, &detached, sizeof detached);
  return p;
}

static void add_written(lua_State *L, int list, const Storage *st, Print value, u32 writes) {
  char key[24];
  snprintf(key, sizeof key, "%p", (const void *)st);
  mix(&value, &writes, sizeof writes);
  push_print(L, &value);
  lua_setfield(L, list, key);
}

static u64 print_check(const Storage *st, i64 offset, const Type *t, const i64 *strides, i64 size,
                       int base, const double *skip) {
  Print p = {3, 4};
  mix(&p, &st, sizeof st);
  mix(&p, &offset, sizeof offset);
  mix_layout(&p, t, strides);
  mix(&p, &size, sizeof size);
  mix(&p, &base, sizeof base);
  if (skip) mix(&p, skip, sizeof *skip);
  return p.a;
}

/* The sum of prints of which each counts once: sizes may come to be equal, and then a check is made twice or not. */
static u64 sum_of_different(const u64 *print, i32 n) {
  u64 sum = 0;
  for (i32 i = 0; i < n; i++) {
    i32 first = 0;
    while (print[first] != print[i]) first++;
    if (first == i) sum += print[i];
  }
  return sum;
}

static void set_numbers(lua_State *L, int y, u64 streams, u64 checks) {
  lua_pushnumber(L, (lua_Number)streams);
  lua_setfield(L, y, "streams");
  lua_pushnumber(L, (lua_Number)(checks >> 12));
  lua_setfield(L, y, "checks");
}

/* --- of a trace */

static void add_instance(lua_State *L, State *S, Instance *I, const Tensor *const *outside,
                         const double *number, int made, int written) {
  static const Source none;
  const Source *from = I->plan ? I->plan->source : &none;
  const i32 *out = (const i32 *)((const u64 *)(from->node + from->n) + from->nscalar);
  u8 *constant = scratch(L, I->ninput, 1);
  for (i32 i = 0; i < I->ninput; i++) constant[i] = I->input[i].outside < 0;
  ty_instance_bind(S, I, outside, number);
  I->recording.ninput = 0;
  BoundGraph g = {from->node, from->n, I->recording.input, constant, I->recording.g.scalar};
  const Print *p = push_prints(L, &g);
  i32 *first = scratch(L, I->ntarget, sizeof *first);
  for (i32 i = I->nmade - 1; i >= 0; i--)
    if (!I->made[i].alias) first[I->made[i].from] = i;
  for (i32 i = 0; i < I->nmade; i++) {
    const InstanceMade *m = &I->made[i];
    const Tensor *of = m->alias ? outside[m->from] : NULL;
    Print value = of ? print_alias(of->st, m->detached) : p[out[m->from]];
    add_made(L, made, i, value, of ? -1 : first[m->from], &m->type,
             m->offset + (of ? of->offset : 0), m->strides);
  }
  for (i32 k = 0; k < I->ntarget; k++)
    if (I->target[k].outside >= 0)
      add_written(L, written, outside[I->target[k].outside]->st, p[out[k]], I->target[k].writes);
}

void ty_account_push_trace(lua_State *L, State *S, const Trace *T, Instance *I,
                           const Tensor *const *outside, const double *number) {
  i32 last = T->nslots - T->lead - T->nkeys - 2;
  luaL_checkstack(L, 24, "account");
  lua_createtable(L, 0, 8);
  int y = lua_gettop(L);
  lua_newtable(L);
  for (i32 k = 1; k <= last; k++) {
    lua_pushvalue(L, ty_trace_place(T, k));
    lua_rawseti(L, -2, k);
  }
  lua_setfield(L, y, "slots");
  lua_newtable(L);
  for (i32 k = 1; k <= T->nnumbers; k++) {
    const i32 id = k > T->late_numbers    ? DRAWN_NUMBERS + k - T->late_numbers
                   : k > T->early_numbers ? DEFERRED_NUMBERS + k - T->early_numbers
                                          : k;
    lua_pushnumber(L, number[k]);
    lua_rawseti(L, -2, id);
  }
  lua_setfield(L, y, "numbers");
  lua_newtable(L);
  lua_newtable(L);
  add_instance(L, S, I, outside, number, y + 1, y + 2);
  lua_settop(L, y + 2);
  u64 *check = scratch(L, I->ncheck, sizeof *check);
  lua_insert(L, y + 1);
  for (i32 i = 0; i < I->ncheck; i++) {
    const InstanceCheck *k = &I->check[i];
    const Tensor *t = outside[k->outside];
    check[i] = print_check(t->st, t->offset + k->delta, &k->type, k->strides, k->size, k->base,
                           k->skips ? &k->skip : NULL);
  }
  set_numbers(L, y, I->streams, sum_of_different(check, I->ncheck));
  lua_setfield(L, y, "written");
  lua_setfield(L, y, "made");
  lua_settop(L, y);
}

/* --- of a capture */

static bool is_outside(const Capture *c, const Buffer *buf) {
  for (i32 i = 0; i < c->noutside; i++)
    if (c->outside[i].t.st->buf == buf) return true;
  for (i32 i = 0; i < c->nwritten; i++)
    if (c->written[i].buf == buf) return true;
  return false;
}

/* The value of a storage that the function made: of its node, or as it is. */
static Print print_storage(const Capture *c, const Storage *st, const Print *p) {
  Type t = ty_type_line(st->dtype, st->device, st->numel);
  Print y = {OP_INPUT, OP_INPUT};
  i64 offset = 0, strides[MAX_RANK] = {1};
  if (st->recording == c->recording) return p[st->node];
  mix_type(&y, &t);
  mix_buffer(&y, st->buf);
  mix(&y, &offset, sizeof offset);
  mix_layout(&y, &t, strides);
  return y;
}

/* account(tensors) of the open session */
int ty_account_session(lua_State *L) {
  State *S = ty_lua_state(L);
  const Capture *c = ty_lua_capture(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  if (!c) return luaL_error(L, "no capture is open");
  lua_settop(L, 1);
  lua_createtable(L, 0, 4);
  lua_newtable(L);
  lua_newtable(L);
  const Recording *b = c->recording;
  u8 *constant = scratch(L, b->ninput, 1);
  for (i32 i = 0; i < b->ninput; i++) constant[i] = !is_outside(c, b->input[i].buf);
  const Print *p =
      push_prints(L, &(BoundGraph){b->g.node, b->g.n, b->input, constant, b->g.scalar});
  i32 n = (i32)lua_objlen(L, 1);
  const Tensor **made = scratch(L, n, sizeof *made);
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    const Tensor *t = made[i] = ty_lua_check(L, "account", -1);
    lua_pop(L, 1);
    i32 from = ty_capture_from(c, t), first = 0;
    bool alias = from >= 0 && c->outside[from].t.st == t->st;
    while (made[first]->st != t->st) first++;
    add_made(L, 3, i, alias ? print_alias(t->st, t->detached) : print_storage(c, t->st, p),
             alias ? -1 : first, &t->type, t->offset, t->strides);
  }
  for (i32 i = 0; i < c->nwritten; i++) {
    const Written *w = &c->written[i];
    add_written(L, 4, w->st, print_storage(c, w->st, p), w->st->version - w->version);
  }
  u64 *check = scratch(L, c->ncheck, sizeof *check);
  for (i32 i = 0; i < c->ncheck; i++) {
    const IndexCheck *k = &c->check[i];
    check[i] = print_check(k->t.st, k->t.offset, &k->t.type, k->t.strides, k->size, k->base,
                           k->skips ? &k->skip : NULL);
  }
  set_numbers(L, 2, S->stream - c->stream, sum_of_different(check, c->ncheck));
  lua_settop(L, 4);
  lua_setfield(L, 2, "written");
  lua_setfield(L, 2, "made");
  return 1;
}
