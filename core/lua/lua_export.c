/*
** lua_export.c -- the plan of a captured call as a Lua table: what lua/tycho/export.lua writes as C text.
** In: the session of a capture and the tensors that its description has made. Out: slots, steps with the texts of their
** loop programs, launches and jobs; where inputs, scalars and results come from. A call that no plan can hold gives nil
** and why. Fails when out of memory.
**
** Numbers of C that are bits go as hexadecimal text, all others as Lua numbers: sizes are below 2^53.
*/
#include <stdio.h>
#include "engine/trace.h"
#include "ir/body.h"
#include "lua/lua_fields.h"
#include "lua/lua_tycho.h"

static void push_bits(lua_State *L, u64 bits) {
  char text[24];
  snprintf(text, sizeof text, "%llx", (unsigned long long)bits);
  lua_pushstring(L, text);
}

/* key = {v[0], v[1], ...} */
static void set_list(lua_State *L, const char *key, const i64 *v, int n) {
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_pushnumber(L, (double)v[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, key);
}

static void set_type(lua_State *L, const Type *t) {
  set_string(L, "dtype", ty_dtypes[t->dtype].name);
  set_list(L, "shape", t->dims, t->rank);
}

/* Appends the table on top of the stack to the list below it. */
static void append(lua_State *L) { lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1); }

/* --- steps */

static void set_launch(lua_State *L, const Launch *l, int noperands) {
  const int n = l->no + l->nr + l->ni;
  lua_createtable(L, 0, 7);
  set_number(L, "no", l->no);
  set_number(L, "nr", l->nr);
  set_number(L, "ni", l->ni);
  set_list(L, "dims", l->dims, n);
  set_list(L, "start", l->start, noperands);
  set_list(L, "gstride", l->gstride, noperands);
  lua_createtable(L, noperands, 0);
  for (int i = 0; i < noperands; i++) {
    lua_createtable(L, n, 0);
    for (int d = 0; d < n; d++) {
      lua_pushnumber(L, (double)l->strides[i][d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "strides");
  lua_setfield(L, -2, "launch");
}

static void set_program(lua_State *L, const Program *p) {
  const size_t n = ty_program_print(p, NULL, 0);
  char *text = ty_mem_alloc(n + 1);
  if (!text) luaL_error(L, "export: out of memory");
  ty_program_print(p, text, n + 1);
  const bool room = lua_checkstack(L, 4);
  if (room) lua_pushlstring(L, text, n);
  ty_mem_free(text);
  if (!room) luaL_error(L, "export: out of memory");
  lua_setfield(L, -2, "program");
}

static void set_path(lua_State *L, const char *key, const Path *p) {
  lua_createtable(L, 0, 3);
  set_list(L, "dims", p->dims, p->n);
  set_list(L, "strides", p->strides, p->n);
  lua_createtable(L, BORDERS, 0);
  for (int b = 0; b < BORDERS; b++) {
    lua_createtable(L, p->n, 0);
    for (int d = 0; d < p->n; d++) {
      lua_pushnumber(L, (double)p->steps[b][d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_rawseti(L, -2, b + 1);
  }
  lua_setfield(L, -2, "steps");
  lua_setfield(L, -2, key);
}

static void set_im2col(lua_State *L, const char *key, const Im2col *x) {
  if (!x) return;
  lua_createtable(L, 0, 4);
  set_path(L, "row", &x->row);
  set_path(L, "col", &x->col);
  set_list(L, "start", x->start, x->borders);
  set_list(L, "extent", x->extent, x->borders);
  lua_setfield(L, -2, key);
}

static void set_gemm(lua_State *L, const Job *j) {
  const Gemm *g = j->gemm;
  lua_createtable(L, 0, 20);
  set_string(L, "dtype", ty_dtypes[g->dtype].name);
  set_number(L, "m", (double)g->m);
  set_number(L, "n", (double)g->n);
  set_number(L, "k", (double)g->k);
  set_number(L, "batch", (double)g->batch);
  set_list(L, "lead", g->lead, g->nlead);
  set_list(L, "abs", g->abs, g->nlead);
  set_list(L, "bbs", g->bbs, g->nlead);
  set_number(L, "ars", (double)g->ars);
  set_number(L, "acs", (double)g->acs);
  set_number(L, "brs", (double)g->brs);
  set_number(L, "bcs", (double)g->bcs);
  set_number(L, "k0", (double)g->k0);
  set_number(L, "kstep", (double)g->kstep);
  set_im2col(L, "a_im2col", g->a_im2col);
  set_im2col(L, "b_im2col", g->b_im2col);
  set_flag(L, "blas", j->blas);
  set_flag(L, "amx", g->amx || g->library);
  set_list(L, "start", j->start, 2);
  set_number(L, "product", j->product);
  set_number(L, "nrows", j->nrows);
  set_flag(L, "aside", j->aside);
  lua_setfield(L, -2, "gemm");
}

static void set_attend(lua_State *L, const Attend *a) {
  lua_createtable(L, 0, 20);
  set_string(L, "dtype", ty_dtypes[a->dtype].name);
  set_flag(L, "grad", a->grad);
  set_flag(L, "causal", a->causal);
  set_flag(L, "mask", a->mask);
  set_flag(L, "bits", a->bits);
  set_flag(L, "key", a->key);
  set_number(L, "drop", a->drop);
  set_list(L, "lead", a->lead, a->nlead);
  set_number(L, "batch", (double)a->batch);
  set_number(L, "n", (double)a->n);
  set_number(L, "m", (double)a->m);
  set_number(L, "d", (double)a->d);
  set_number(L, "dv", (double)a->dv);
  set_list(L, "start", a->start, AT_OPERANDS);
  lua_createtable(L, AT_OPERANDS, 0);
  for (int i = 0; i < AT_OPERANDS; i++) {
    lua_createtable(L, a->nlead + 2, 0);
    for (int d = 0; d < a->nlead + 2; d++) {
      lua_pushnumber(L, (double)a->strides[i][d]);
      lua_rawseti(L, -2, d + 1);
    }
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "strides");
  set_number(L, "scale", a->scale);
  lua_setfield(L, -2, "attend");
}

/* The node of a routine, and the types of its operands. */
static void set_node(lua_State *L, const Step *s) {
  const Node *n = s->job->node;
  if (!n) return;
  lua_createtable(L, 0, 8);
  set_type(L, &n->type);
  set_number(L, "k", n->arg.k);
  set_number(L, "k2", n->arg.k2);
  set_list(L, "strides", n->arg.strides, n->type.rank);
  push_bits(L, n->arg.bits);
  lua_setfield(L, -2, "bits");
  set_list(L, "by", s->job->strides, MAX_RANK);
  set_number(L, "start", (double)s->job->start[0]);
  lua_newtable(L);
  for (int i = 0; s->job->type && i < ty_ops[n->op].arity; i++) {
    lua_createtable(L, 0, 2);
    set_type(L, &s->job->type[i]);
    append(L);
  }
  lua_setfield(L, -2, "operands");
  lua_setfield(L, -2, "node");
}

static void push_plan(lua_State *L, const Plan *p);

static void set_body(lua_State *L, const Step *s) {
  const Body *b = ty_body(s->job->node->arg.bits);
  if (!b) luaL_error(L, "export: a loop's body is gone");
  push_plan(L, s->body);
  lua_createtable(L, b->ninput, 0);
  for (i32 i = 0; i < b->ninput; i++) {
    lua_createtable(L, 0, 2);
    set_number(L, "operand", b->input[i].operand);
    set_number(L, "at", (double)b->input[i].at);
    append(L);
  }
  lua_setfield(L, -2, "reads");
  lua_createtable(L, b->noutput, 0);
  for (i32 i = 0; i < b->noutput; i++) {
    lua_createtable(L, 0, 2);
    set_flag(L, "row", b->output[i].is_row != 0);
    set_number(L, "at", (double)b->output[i].at);
    append(L);
  }
  lua_setfield(L, -2, "gives");
  set_number(L, "carried", (double)b->carried);
  set_number(L, "row", (double)b->row);
  set_number(L, "made", (double)b->made);
  set_number(L, "streams", (double)b->streams);
  set_string(L, "dtype", ty_dtypes[b->dtype].name);
  lua_setfield(L, -2, "body");
}

static void push_step(lua_State *L, const Step *s) {
  static const char *const kinds[] = {
      [JOB_PRODUCT] = "product", [JOB_ATTEND] = "attend",   [JOB_SORT] = "sort",
      [JOB_SEARCH] = "search",   [JOB_SCATTER] = "scatter", [JOB_POSITIONS] = "positions",
      [JOB_FFT] = "fft",         [JOB_COPY] = "copy",       [JOB_TO] = "to",
      [JOB_LOOP] = "loop"};
  luaL_checkstack(L, 16, "export");
  lua_createtable(L, 0, 12);
  set_string(L, "kind", s->job ? kinds[s->job->kind] : "kernel");
  set_string(L, "op", ty_ops[s->op].name);
  lua_createtable(L, s->noperands, 0);
  lua_createtable(L, s->noperands, 0);
  for (int i = 0; i < s->noperands; i++) {
    lua_pushnumber(L, s->slot[i]);
    lua_rawseti(L, -3, i + 1);
    lua_pushboolean(L, s->writes >> i & 1);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -3, "writes");
  lua_setfield(L, -2, "slots");
  lua_createtable(L, s->nscalar, 0);
  for (int i = 0; i < s->nscalar; i++) {
    lua_pushnumber(L, s->scalar[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "scalars");
  if (s->entry) {
    const Program *p = ty_kernel_program(s->entry);
    set_program(L, p);
    set_launch(L, s->launch, p->noperands);
  }
  if (!s->job) return;
  set_number(L, "bytes", (double)s->job->bytes);
  if (s->job->gemm) set_gemm(L, s->job);
  else if (s->job->attend) set_attend(L, s->job->attend);
  else set_node(L, s);
  if (s->job->kind == JOB_LOOP) set_body(L, s);
}

/* --- plans */

static void push_plan(lua_State *L, const Plan *p) {
  static const char *const kinds[] = {"none", "input", "output", "temp"};
  luaL_checkstack(L, 16, "export");
  lua_createtable(L, 0, 10);
  lua_createtable(L, p->nslots, 0);
  for (i32 i = 0; i < p->nslots; i++) {
    const Slot *s = &p->slot[i];
    lua_createtable(L, 0, 4);
    set_string(L, "kind", kinds[s->kind]);
    set_number(L, "k", s->k);
    set_number(L, "bytes", (double)s->bytes);
    lua_rawseti(L, -2, i); /* from 0, as steps name them */
  }
  lua_setfield(L, -2, "slots");
  lua_createtable(L, p->noutputs, 0);
  for (i32 i = 0; i < p->noutputs; i++) {
    lua_createtable(L, 0, 3);
    set_number(L, "bytes", (double)p->output[i].bytes);
    set_number(L, "same", p->output[i].same);
    append(L);
  }
  lua_setfield(L, -2, "outputs");
  lua_createtable(L, p->nsteps, 0);
  for (i32 i = 0; i < p->nsteps; i++) {
    push_step(L, &p->step[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "steps");
}

/* --- what a plan is bound to */

/* The bytes of a buffer between two elements, as a string. */
static void set_bytes(lua_State *L, State *S, const Buffer *buf, i64 size, i64 from, i64 to) {
  const i64 bytes = TY_MAX(to - from, 0) * size;
  const char *at = bytes ? ty_buffer_read(S, buf, from * size, bytes) : "";
  if (!at) luaL_error(L, "export: a tensor cannot be read");
  lua_pushlstring(L, at, (size_t)bytes);
  lua_setfield(L, -2, "data");
}

/* The elements of a buffer that its inputs from i on read, from the first to behind the last. */
static void span_of(const Recording *b, i32 i, i64 *from, i64 *to) {
  *from = INT64_MAX, *to = 0;
  for (i32 k = i; k < b->ninput; k++) {
    const Node *n = &b->g.node[b->input[k].node];
    i64 lo, hi;
    if (b->input[k].buf != b->input[i].buf) continue;
    if (!ty_view_span(&n->type, b->input[k].offset, n->arg.strides, &lo, &hi)) continue;
    *from = TY_MIN(*from, lo), *to = TY_MAX(*to, hi + 1);
  }
  if (*from > *to) *from = *to;
}

/* Inputs that share a buffer name the first of these. Its contents come along unless it is found through an argument
** (by slot, in the table at `arguments`). */
static void push_inputs(lua_State *L, State *S, const Instance *I, int arguments) {
  const Recording *b = S->capture->recording;
  lua_createtable(L, I->ninput, 0);
  for (i32 i = 0; i < I->ninput; i++) {
    const InstanceInput *in = &I->input[i];
    const Node *n = &b->g.node[b->input[i].node];
    const i64 size = ty_dtypes[n->type.dtype].bytes;
    bool given = false;
    i32 first = 0;
    i64 from, to;
    while (b->input[first].buf != b->input[i].buf) first++;
    lua_createtable(L, 0, 8);
    set_type(L, &n->type);
    set_list(L, "strides", n->arg.strides, n->type.rank);
    set_number(L, "delta", (double)in->delta);
    set_number(L, "buffer", first + 1);
    if (in->outside >= 0) {
      set_number(L, "slot", I->outside[in->outside].slot);
      lua_rawgeti(L, arguments, I->outside[in->outside].slot);
      given = lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
    span_of(b, first, &from, &to);
    set_number(L, "at", (double)(b->input[i].offset - from));
    if (!given && first == i) set_bytes(L, S, b->input[i].buf, size, from, to);
    append(L);
  }
}

static void push_scalars(lua_State *L, const Instance *I) {
  static const char *const kinds[] = {
      [SC_CONST] = "const", [SC_NUMBER] = "number", [SC_STREAM] = "stream", [SC_SEED] = "seed"};
  lua_createtable(L, I->nscalar, 0);
  for (i32 i = 0; i < I->nscalar; i++) {
    const ScalarFrom *from = &I->scalar[i];
    lua_createtable(L, 0, 4);
    set_string(L, "kind", kinds[from->kind]);
    set_string(L, "dtype", ty_dtypes[from->dtype].name);
    set_number(L, "id", from->id);
    push_bits(L, from->bits);
    lua_setfield(L, -2, "bits");
    append(L);
  }
}

/* Results, each a view of a target or of a tensor from outside. */
static void push_made(lua_State *L, const Instance *I) {
  lua_createtable(L, I->nmade, 0);
  for (i32 i = 0; i < I->nmade; i++) {
    const InstanceMade *m = &I->made[i];
    lua_createtable(L, 0, 6);
    set_type(L, &m->type);
    set_list(L, "strides", m->strides, m->type.rank);
    set_number(L, "offset", (double)m->offset);
    if (m->alias) set_number(L, "slot", I->outside[m->from].slot);
    else set_number(L, "target", m->from + 1);
    append(L);
  }
}

static void push_targets(lua_State *L, const Instance *I) {
  lua_createtable(L, I->ntarget, 0);
  for (i32 i = 0; i < I->ntarget; i++) {
    const InstanceTarget *t = &I->target[i];
    lua_createtable(L, 0, 3);
    set_string(L, "dtype", ty_dtypes[t->dtype].name);
    set_number(L, "numel", (double)t->numel);
    if (t->outside >= 0) set_number(L, "slot", I->outside[t->outside].slot);
    append(L);
  }
}

/* Indices that are checked before a run. */
static void push_checks(lua_State *L, const Instance *I) {
  lua_createtable(L, I->ncheck, 0);
  for (i32 i = 0; i < I->ncheck; i++) {
    const InstanceCheck *k = &I->check[i];
    lua_createtable(L, 0, 8);
    set_type(L, &k->type);
    set_list(L, "strides", k->strides, k->type.rank);
    set_number(L, "slot", I->outside[k->outside].slot);
    set_number(L, "delta", (double)k->delta);
    set_number(L, "size", (double)k->size);
    set_number(L, "base", k->base);
    if (k->skips) set_number(L, "skip", k->skip);
    append(L);
  }
}

static void set_graph(lua_State *L, const Graph *g) {
  Text t = {0};
  ty_dump_graph(&t, g);
  lua_pushlstring(L, ty_text_str(&t), t.n);
  ty_text_free(&t);
  lua_setfield(L, -2, "graph");
}

static int push_all(lua_State *L) {
  State *S = ty_lua_state(L);
  const Instance *I = lua_touserdata(L, 1);
  if (I->plan) push_plan(L, I->plan);
  else lua_newtable(L);
  set_graph(L, &S->capture->recording->g);
  set_number(L, "streams", (double)I->streams);
  push_inputs(L, S, I, 2);
  lua_setfield(L, -2, "inputs");
  push_scalars(L, I);
  lua_setfield(L, -2, "numbers");
  push_targets(L, I);
  lua_setfield(L, -2, "targets");
  push_made(L, I);
  lua_setfield(L, -2, "made");
  push_checks(L, I);
  lua_setfield(L, -2, "checks");
  return 1;
}

/* lut(number) -> a list of the elements of a constant table of the primitive LUT, as bits; their compute type */
static int capture_lut(lua_State *L) {
  static const char *const types[] = {"i32", "i64", "f32", "f64"};
  const i32 i = (i32)luaL_checkinteger(L, 1);
  luaL_argcheck(L, i >= 0 && i < ty_nluts, 1, "no such table");
  const Lut *t = &ty_luts[i];
  const bool wide = t->ctype == C_I64 || t->ctype == C_F64;
  lua_createtable(L, t->n, 0);
  for (i32 k = 0; k < t->n; k++) {
    push_bits(L, wide ? ((const u64 *)t->data)[k] : ((const u32 *)t->data)[k]);
    lua_rawseti(L, -2, k + 1);
  }
  lua_pushstring(L, types[t->ctype]);
  return 2;
}

/* plan(tensors, arguments) -> table; nil, reason. arguments: by slot, true where a tensor is the caller's */
static int capture_plan(lua_State *L) {
  State *S = ty_lua_state(L);
  if (!ty_lua_capture(L)) return luaL_error(L, "no capture is open");
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  const i32 n = (i32)lua_objlen(L, 1);
  const Tensor **made = lua_newuserdata(L, sizeof(void *) * (size_t)(n + 1));
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    made[i] = ty_lua_test(L, -1);
    lua_pop(L, 1);
    if (!made[i] || !made[i]->st) return luaL_error(L, "a result is a tensor that was released");
  }
  Instance *I = S->capture->refused ? NULL : ty_instance_make(S, made, n, NULL);
  if (!I) {
    lua_pushnil(L);
    lua_pushstring(L, S->capture->refused ? S->capture->why : S->err);
    return 2;
  }
  ty_lua_push_function(L, push_all);
  lua_pushlightuserdata(L, I);
  lua_pushvalue(L, 2);
  const int status = lua_pcall(L, 2, 1, 0);
  ty_instance_free(I);
  return status ? lua_error(L) : 1;
}

void ty_lua_open_export(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"plan", capture_plan}, {"lut", capture_lut}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_getfield(L, -1, "capture");
  ty_lua_register(L, fns);
  lua_pop(L, 2);
}
