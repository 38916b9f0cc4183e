/*
** lua_capture.c -- the end of a capture: its description becomes a trace.
** In: the session (lua_session.c), and what the evaluator tells at last: a table of instructions, recipes and effects,
** read here column by column. Out: a trace at the front of its entry. Fails by Lua errors, which end the session; then
** all is as it was.
*/
#include <math.h>
#include <stdio.h>
#include "engine/remade.h"
#include "record/traced_call.h"
#include "lua/lua_guard.h"
#include "lua/lua_session.h"

/* table(n_array, n_hash): an empty table of these sizes, such as a trace makes. */
static int capture_table(lua_State *L) {
  lua_createtable(L, (int)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 2));
  return 1;
}

/* sized(handle, i = 1) -> position, description of the first trace from i on that lacks the sizes of
** the last call; nothing if there is none */
static int capture_sized(lua_State *L) {
  ty_lua_enter(L);
  const Entry *e = luaL_checkudata(L, 1, ENTRY_META);
  i32 i = ty_trace_lacking(e, (i32)luaL_optinteger(L, 2, 1) - 1);
  if (i == e->ntrace) return 0;
  lua_pushinteger(L, i + 1);
  lua_getfenv(L, 1);
  lua_rawgeti(L, -1, e->trace[i]->anchor);
  lua_rawgeti(L, -1, 1);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return 2;
}

/* --- a description becomes a trace */

typedef struct Reader {
  lua_State *L;
  State *S;
  Trace *T;
  int d, anchors; /* stack: the description, the trace's table of anchors */
  int keys;       /* stack: by key of a field: its number, or false while it has been seen once */
  u8 *is_table;   /* by slot: a guard has seen to it */
  i32 slot;       /* that the next reading instruction makes */
  i32 grads;      /* gradients that instructions read so far */
} Reader;

static void *array(Reader *r, size_t n, size_t size) {
  void *p = ty_mem_zalloc((n + 1) * size);
  if (!p) luaL_error(r->L, "out of memory");
  return p;
}

/* The i-th value of the table on top of the stack, as a whole number. */
static i32 item(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  i32 v = (i32)lua_tointeger(r->L, -1);
  lua_pop(r->L, 1);
  return v;
}

/* Anchors the value on top of the stack and pops it. */
static i32 anchor(Reader *r) {
  i32 k = ++r->T->nanchors;
  lua_rawseti(r->L, r->anchors, k);
  return k;
}

static i32 anchor_item(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  return anchor(r);
}

static int keep_dump(lua_State *L, const void *p, size_t n, void *ud) {
  Dump *d = ud;
  (void)L;
  if (d->n + n > d->cap) {
    size_t cap = (d->n + n) * 2;
    char *more = ty_mem_realloc(d->bytes, cap);
    if (!more) return 1;
    d->bytes = more;
    d->cap = cap;
  }
  memcpy(d->bytes + d->n, p, n);
  d->n += n;
  return 0;
}

/* equal: by what the value is */
static void read_equal(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  int type = lua_type(L, -1);
  switch (type) {
  case LUA_TNIL: g->op = G_NIL; break;
  case LUA_TBOOLEAN:
    g->op = G_BOOLEAN;
    g->want = lua_toboolean(L, -1);
    break;
  case LUA_TNUMBER:
    g->op = G_BITS;
    g->v = lua_tonumber(L, -1);
    break;
  case LUA_TSTRING:
    g->op = G_STRING;
    g->p = lua_tostring(L, -1);
    break;
  default:
    g->op = G_OBJECT;
    g->p = lua_topointer(L, -1);
    g->b = type;
  }
  anchor(r);
}

/* Whether the value on top of the stack is a key for rawgeti. */
static bool is_small_key(lua_State *L) {
  double k = lua_tonumber(L, -1);
  return lua_type(L, -1) == LUA_TNUMBER && k == floor(k) && fabs(k) < 1e9;
}

static void read_field(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  if (is_small_key(L)) {
    g->op = G_ELEMENT;
    g->b = (i32)lua_tonumber(L, -1);
    lua_pop(L, 1);
    return;
  }
  lua_pushvalue(L, -1);
  lua_rawget(L, r->keys);
  g->op = lua_isnumber(L, -1) ? G_KEYED : G_FIELD;
  g->b = (i32)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (g->op == G_FIELD) g->b = anchor(r);
  else lua_pop(L, 1);
}

/* Keys that several fields have, from the program on top of the stack. */
static void find_keys(Reader *r, i32 n) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_newtable(L);
  r->keys = lua_gettop(L);
  T->key = T->nanchors + 1;
  for (i32 i = 1; i <= n; i++) {
    lua_rawgeti(L, r->keys - 1, i);
    lua_rawgeti(L, -1, 1);
    bool field = lua_isstring(L, -1) && !strcmp(lua_tostring(L, -1), ty_guards[G_FIELD].name);
    lua_rawgeti(L, -2, 3);
    if (field && lua_type(L, -1) == LUA_TSTRING) {
      lua_pushvalue(L, -1);
      lua_rawget(L, r->keys);
      bool again = lua_isboolean(L, -1), first = lua_isnil(L, -1);
      lua_pop(L, 1);
      if (again) {
        lua_pushvalue(L, -1);
        anchor(r);
        lua_pushvalue(L, -1);
        lua_pushinteger(L, ANCHORS_AT(T) + ++T->nkeys);
        lua_rawset(L, r->keys);
      } else if (first) {
        lua_pushvalue(L, -1);
        lua_pushboolean(L, false);
        lua_rawset(L, r->keys);
      }
    }
    lua_settop(L, r->keys);
  }
}

static void read_keys(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  g->n = (i32)lua_objlen(L, -1);
  g->b = r->T->nanchors + 1;
  for (i32 i = 1; i <= g->n; i++) anchor_item(r, i);
  lua_pop(L, 1);
}

static void read_arguments(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  g->a = (i32)lua_objlen(L, -1);
  g->b = r->T->nanchors + 1;
  for (i32 i = 1; i <= g->a; i++) anchor_item(r, i);
  lua_pop(L, 1);
}

/* The number under which the instance knows the tensor of that slot; where it does not, the one
** behind its last. */
static i32 outside_of(const Reader *r, i32 slot) {
  const Instance *I = r->T->instance[0];
  for (i32 i = 0; i < I->noutside; i++)
    if (I->outside[i].slot == slot) return i;
  return I->noutside;
}

static void read_tensor(Reader *r, Guard *g) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 3);
  const Tensor *t = ty_lua_test(L, -1);
  lua_pop(L, 1);
  if (!t || !t->st) luaL_error(L, "the guard's tensor is gone");
  g->tensor = array(r, 1, sizeof *g->tensor + t->type.rank * sizeof *g->tensor->dim);
  g->tensor->dtype = t->type.dtype;
  g->tensor->rank = t->type.rank;
  g->tensor->device = t->type.device;
  g->tensor->needs = ty_needs(t);
  g->tensor->loose = r->T->dynamic;
  g->tensor->detached = DETACHED_ANY;
  lua_rawgeti(L, -1, 4);
  if (!lua_isnil(L, -1)) g->tensor->detached = lua_toboolean(L, -1) ? DETACHED_YES : DETACHED_NO;
  lua_pop(L, 1);
  for (int d = 0; d < t->type.rank; d++) {
    g->tensor->dim[d].size = t->type.dims[d];
    g->tensor->dim[d].stride = t->strides[d];
  }
  g->b = outside_of(r, item(r, 2));
}

static void read_closure(Reader *r, Guard *g) {
  lua_State *L = r->L;
  g->dump = array(r, 1, sizeof *g->dump);
  lua_rawgeti(L, -1, 3);
  int status = lua_dump(L, keep_dump, g->dump);
  lua_pop(L, 1);
  if (status) luaL_error(L, "the function has no bytecode");
}

static void read_type(Reader *r, Guard *g) {
  lua_rawgeti(r->L, -1, 3);
  const char *name = lua_tostring(r->L, -1);
  g->b = LUA_TNONE;
  for (int type = LUA_TNIL; name && type <= LUA_TTHREAD + 2; type++)
    if (!strcmp(lua_typename(r->L, type), name) && type != LUA_TLIGHTUSERDATA) g->b = type;
  lua_pop(r->L, 1);
  if (g->b == LUA_TNONE) luaL_error(r->L, "unknown type in a guard");
}

static bool item_true(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  bool v = lua_toboolean(r->L, -1);
  lua_pop(r->L, 1);
  return v;
}

static i32 place_of(const Reader *r, i32 slot) { return ty_trace_place(r->T, slot); }

/* Operands must have been made before: a slot, a number. */
static i32 known_slot(Reader *r, int i) {
  i32 k = item(r, i);
  if (k < 1 || k >= r->slot) luaL_error(r->L, "a guard speaks of slot %d", (int)k);
  return place_of(r, k);
}

/* Where in the file of numbers the one is that a description calls k. */
static i32 number_place(const Trace *T, i32 k) {
  if (k > DRAWN_NUMBERS) return k - DRAWN_NUMBERS + T->late_numbers;
  return k > DEFERRED_NUMBERS ? k - DEFERRED_NUMBERS + T->early_numbers : k;
}

/* A slot that is asked about: where it was read last of all, it is the top of the stack. */
static i32 asked_slot(Reader *r, int i) {
  i32 k = known_slot(r, i);
  return r->slot > r->T->narg + 2 && k == place_of(r, r->slot - 1) ? -1 : k;
}

static i32 known_number(Reader *r, int i) {
  i32 k = number_place(r->T, item(r, i));
  if (k < 1 || k > r->T->nnumbers) luaL_error(r->L, "a guard speaks of number %d", (int)k);
  return k;
}

static i32 known_size(Reader *r, int i) {
  i32 k = item(r, i);
  if (k < 1 || k > r->T->nsizes) luaL_error(r->L, "a guard speaks of size %d", (int)k);
  return k - 1;
}

/* The number that the instruction on top of the stack makes is one that instances are for. */
static void add_bound(Reader *r, i32 size) {
  Trace *T = r->T;
  if (!T->bound) T->bound = array(r, (size_t)T->nsizes, sizeof *T->bound);
  if (T->nbounds == T->nsizes) luaL_error(r->L, "a guard speaks of a size again");
  T->bound[T->nbounds++] = (Bound){T->nnumbers + 1, size};
}

/* How many operands of these kinds an instruction has had so far. */
typedef struct Operands {
  int places, indices;
} Operands;

/* A slot, number or size: the first is a, the second b. */
static void set_place(Guard *g, Operands *had, i32 place) {
  *(had->places++ ? &g->b : &g->a) = place;
}

/* The operand in column i of the instruction on top of the stack. */
static void read_operand(Reader *r, Guard *g, GuardOperand operand, int i, Operands *had) {
  lua_State *L = r->L;
  switch (operand) {
  case ON_NONE: break;
  case ON_LAST:
  case ON_SLOT:
    set_place(g, had, operand == ON_LAST ? asked_slot(r, i) : known_slot(r, i));
    if (had->places == 1) g->doubt = !r->is_table[item(r, i)];
    break;
  case ON_INDEX: *(had->indices++ ? &g->upvalue : &g->n) = item(r, i); break;
  case ON_KEY: read_field(r, g); break;
  case ON_VALUE: read_equal(r, g); break;
  case ON_TYPE: read_type(r, g); break;
  case ON_KEYS: read_keys(r, g); break;
  case ON_TENSOR: read_tensor(r, g); break;
  case ON_CODE: read_closure(r, g); break;
  case ON_MAYBE:
    if ((int)lua_objlen(L, -1) >= i) set_place(g, had, known_number(r, i));
    break;
  case ON_NUMBER: set_place(g, had, known_number(r, i)); break;
  case ON_CONST:
    lua_rawgeti(L, -1, i);
    g->v = lua_tonumber(L, -1);
    lua_pop(L, 1);
    break;
  case ON_SIZE: set_place(g, had, known_size(r, i)); break;
  case ON_BOUND: add_bound(r, known_size(r, i)); break;
  case ON_FUNCTION: g->n = anchor_item(r, i); break;
  case ON_ARGUMENTS: read_arguments(r, g); break;
  case ON_OUTCOME: g->want = item_true(r, i); break;
  }
}

/* The opcode of the instruction on top of the stack. */
static GuardOp read_op(Reader *r) {
  lua_State *L = r->L;
  lua_rawgeti(L, -1, 1);
  const char *name = lua_tostring(L, -1);
  for (int op = 0; op < G_COUNT && name; op++) {
    const char *is = ty_guards[op].name;
    if (!is || is[0] != name[0] || strcmp(is, name) != 0) continue;
    lua_pop(L, 1);
    return (GuardOp)op;
  }
  luaL_error(L, "unknown guard %s", name ? name : "?");
  return G_COUNT;
}

/* The instruction on top of the stack. */
static void read_guard(Reader *r, Guard *g) {
  GuardOp op = read_op(r);
  const GuardRow *row = &ty_guards[op];
  Operands had = {0, 0};
  *g = (Guard){.op = (u8)op};
  for (int i = 0; i < GUARD_OPERANDS; i++)
    read_operand(r, g, (GuardOperand)row->operand[i], i + 2, &had);
  if (g->op == G_GRAD) g->b = r->T->narg + r->T->lead - r->T->ngrads + ++r->grads;
  if (g->op == G_CELL_SAME) g->want = true;
  if (row->table || (g->op == G_TYPE && g->b == LUA_TTABLE)) r->is_table[item(r, 2)] = 1;
  if (row->kind == GUARD_READ) r->slot++;
  if (row->kind == GUARD_NUMBER) r->T->nnumbers++;
}

static i32 count_of(const Reader *r, const char *list) {
  lua_getfield(r->L, r->d, list);
  i32 n = (i32)lua_objlen(r->L, -1);
  lua_pop(r->L, 1);
  return n;
}

/* Marks fields that the next guard asks about, which is then checked with the read. */
static void find_asked(Trace *T) {
  for (Guard *g = T->guard; g + 1 < T->guard + T->nguards; g++) {
    bool field = g->op == G_FIELD || g->op == G_KEYED || g->op == G_ELEMENT || g->op == G_AT;
    g->asked = field && g[1].a == -1 && (g[1].op == G_TENSOR || g[1].op == G_TYPE);
  }
}

static void read_program(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_getfield(L, r->d, "gradients");
  T->ngrads = (i32)lua_tointeger(L, -1);
  lua_pop(L, 1);
  if (T->ngrads || count_of(r, "effects"))
    T->lead = T->instance[0]->nmade + count_of(r, "tables") + T->ngrads;
  lua_getfield(L, r->d, "early");
  lua_getfield(L, r->d, "late");
  T->early_guards = (i32)lua_tointeger(L, -2);
  T->late_guards = (i32)lua_tointeger(L, -1);
  lua_pop(L, 2);
  lua_getfield(L, r->d, "program");
  i32 n = (i32)lua_objlen(L, -1);
  T->guard = array(r, (size_t)n, sizeof *T->guard);
  r->slot = T->narg + 2;
  find_keys(r, n);
  size_t slots = (size_t)(T->narg + n + 2);
  r->is_table = memset(lua_newuserdata(L, slots), 0, slots);
  lua_pushvalue(L, r->keys - 1);
  for (i32 i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    T->nguards = i;
    read_guard(r, &T->guard[i - 1]);
    if (i <= T->early_guards) T->early_numbers = T->nnumbers;
    if (i <= T->late_guards) T->late_numbers = T->nnumbers;
    lua_pop(L, 1);
  }
  find_asked(T);
  lua_settop(L, r->keys - 2);
  T->nslots = place_of(r, r->slot);
}

/* The recipe on top of the stack, which it pops; nil gives the recipe of nothing. */
static Recipe read_recipe(Reader *r) {
  static const char *const kinds[] = {"slot",  "value",  "number", "tensor",
                                      "table", "behind", "random", "version"};
  lua_State *L = r->L;
  Recipe y = {R_SLOT, 0};
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, -1, 1);
    const char *name = lua_tostring(L, -1);
    int kind = 0;
    while (kind < TY_COUNT(kinds) && strcmp(kinds[kind], name)) kind++;
    lua_pop(L, 1);
    y.kind = (u8)kind;
    if (kind == R_VALUE) y.k = anchor_item(r, 2);
    else y.k = item(r, 2);
    const i32 most[] = {
        r->T->nslots - 1, r->T->nanchors,   r->T->nnumbers, r->T->instance[0]->nmade,
        r->T->ntables,    r->T->nslots - 1, INT32_MAX,      r->T->nslots - 1};
    if (kind == R_SLOT || kind == R_BEHIND || kind == R_VERSION) y.k = place_of(r, y.k);
    if (kind == R_NUMBER) y.k = number_place(r->T, y.k);
    if (kind == TY_COUNT(kinds) || y.k < 1 || y.k > most[kind]) luaL_error(L, "unknown recipe");
  }
  lua_pop(L, 1);
  return y;
}

static Recipe item_recipe(Reader *r, int i) {
  lua_rawgeti(r->L, -1, i);
  return read_recipe(r);
}

static void read_tables(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  size_t npairs = 0;
  lua_getfield(L, r->d, "tables");
  T->ntables = (i32)lua_objlen(L, -1);
  for (i32 i = 1; i <= T->ntables; i++) {
    lua_rawgeti(L, -1, i);
    npairs += lua_objlen(L, -1);
    lua_pop(L, 1);
  }
  T->meta = array(r, (size_t)T->ntables, sizeof *T->meta);
  T->size = array(r, (size_t)T->ntables, sizeof *T->size);
  T->pair = array(r, npairs, sizeof *T->pair);
  for (i32 i = 1; i <= T->ntables; i++) {
    lua_rawgeti(L, -1, i);
    lua_getfield(L, -1, "meta");
    T->meta[i - 1] = read_recipe(r);
    lua_getfield(L, -1, "n_array");
    lua_getfield(L, -2, "n_hash");
    i32 n = (i32)lua_objlen(L, -3);
    T->size[i - 1] = (TableSize){(i32)lua_tointeger(L, -2), (i32)lua_tointeger(L, -1), 0, n};
    lua_pop(L, 2);
    lua_getfield(L, -1, "maker");
    if (lua_isnil(L, -1)) lua_pop(L, 1);
    else T->size[i - 1].maker = anchor(r);
    for (i32 k = 1; k <= n; k++) {
      lua_rawgeti(L, -1, k);
      Pair *p = &T->pair[T->npairs++];
      p->owner = i;
      p->key = item_recipe(r, 1);
      p->value = item_recipe(r, 2);
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The rules of the instance's tape are those that the description lists. */
static void read_rules(Reader *r) {
  const TracedTape *tape = r->T->instance[0]->tape;
  lua_getfield(r->L, r->d, "rules");
  if (!lua_isnil(r->L, -1)) {
    const i32 n = item(r, 2);
    r->T->rules = item(r, 1);
    if (!tape || tape->nrule != n || r->T->rules > r->T->ntables)
      luaL_error(r->L, "its results lead to other functions than they did");
  } else if (tape && tape->nrule) luaL_error(r->L, "its results lead to functions");
  lua_pop(r->L, 1);
}

/* What a leaf gets lies as its storage does: it is taken over as it is. */
static void check_gradient(Reader *r, i32 slot, Recipe value) {
  const Instance *I = r->T->instance[0];
  if (value.kind == R_VALUE) return; /* nil */
  const InstanceOutside *leaf = &I->outside[outside_of(r, slot)];
  const InstanceMade *m = &I->made[value.k - 1];
  Tensor t = {.type = m->type};
  memcpy(t.strides, m->strides, sizeof t.strides);
  bool fits = value.kind == R_TENSOR && leaf < I->outside + I->noutside && !m->alias &&
              !m->offset && m->type.dtype == leaf->type.dtype &&
              leaf->numel == ty_type_numel(&m->type) && I->target[m->from].numel == leaf->numel &&
              ty_tensor_is_contiguous(&t);
  if (!fits) luaL_error(r->L, "a gradient is a part of another tensor");
}

static void read_effects(Reader *r) {
  lua_State *L = r->L;
  Trace *T = r->T;
  lua_getfield(L, r->d, "effects");
  T->neffects = (i32)lua_objlen(L, -1);
  T->effect = array(r, (size_t)T->neffects, sizeof *T->effect);
  for (i32 i = 1; i <= T->neffects; i++) {
    Pair *p = &T->effect[i - 1];
    lua_rawgeti(L, -1, i);
    lua_rawgeti(L, -1, 1);
    const char *kind = lua_tostring(L, -1);
    bool upvalue = !strcmp(kind, "upvalue"), grad = !strcmp(kind, "grad");
    lua_pop(L, 1);
    p->owner = known_slot(r, 2);
    if (grad) p->index = -1;
    else if (upvalue) p->index = item(r, 3);
    else p->key = item_recipe(r, 3);
    p->value = item_recipe(r, 4);
    if (grad) check_gradient(r, item(r, 2), p->value);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

static void read_results(Reader *r) {
  Trace *T = r->T;
  lua_getfield(r->L, r->d, "nresults");
  T->nresults = (i32)lua_tointeger(r->L, -1);
  lua_pop(r->L, 1);
  lua_getfield(r->L, r->d, "results");
  T->result = array(r, (size_t)T->nresults, sizeof *T->result);
  for (i32 i = 1; i <= T->nresults; i++) T->result[i - 1] = item_recipe(r, i);
  lua_pop(r->L, 1);
}

static void see(Trace *T, Recipe r) {
  if (r.kind == R_TENSOR) T->hidden[r.k - 1] = false;
}

/* Whether a recipe gives what is read at that place. */
static bool gives_place(const Trace *T, i32 place) {
  bool gives = false;
  for (i32 i = 0; i < T->nresults; i++)
    gives |= T->result[i].kind == R_SLOT && T->result[i].k == place;
  for (i32 i = 0; i < T->neffects; i++)
    gives |= T->effect[i].value.kind == R_SLOT && T->effect[i].value.k == place;
  for (i32 i = 0; i < T->npairs; i++)
    gives |= T->pair[i].value.kind == R_SLOT && T->pair[i].value.k == place;
  return gives;
}

/* Whether Lua comes to see a gradient that the trace reads. */
static bool shows_gradients(const Reader *r) {
  const Trace *T = r->T;
  i32 slot = T->narg + 2;
  for (i32 i = 0; T->ngrads && i < T->nguards; i++) {
    if (T->guard[i].op == G_GRAD && gives_place(T, place_of(r, slot))) return true;
    slot += ty_guard_kind(T->guard[i].op) == GUARD_READ;
  }
  return false;
}

/* Tensors that nobody but leaves will hold. */
static void find_hidden(Reader *r) {
  Trace *T = r->T;
  T->hidden = array(r, (size_t)T->instance[0]->nmade, sizeof *T->hidden);
  for (i32 i = 0; i < T->neffects; i++)
    if (T->effect[i].index < 0 && T->effect[i].value.kind == R_TENSOR)
      T->hidden[T->effect[i].value.k - 1] = true;
  for (i32 i = 0; i < T->neffects; i++) {
    if (T->effect[i].index < 0) continue;
    see(T, T->effect[i].key);
    see(T, T->effect[i].value);
  }
  for (i32 i = 0; i < T->npairs; i++) {
    see(T, T->pair[i].key);
    see(T, T->pair[i].value);
  }
  for (i32 i = 0; i < T->ntables; i++) see(T, T->meta[i]);
  for (i32 i = 0; i < T->nresults; i++) see(T, T->result[i]);
}

/* The instance of the session's graph for the tensors of the description. */
static Instance *read_instance(lua_State *L, State *S, int d, const Entry *e) {
  lua_getfield(L, d, "tensors");
  i32 n = (i32)lua_objlen(L, -1);
  const Tensor **made = lua_newuserdata(L, sizeof *made * (size_t)(n + 1));
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, -2, i + 1);
    made[i] = ty_lua_test(L, -1);
    lua_pop(L, 1);
    if (!made[i] || !made[i]->st) luaL_error(L, "a result is a tensor that was released");
  }
  u8 *of_rule = memset(lua_newuserdata(L, (size_t)n + 1), 0, (size_t)n + 1);
  lua_getfield(L, d, "of_rules"); /* positions */
  for (i32 i = 1, k; lua_istable(L, -1) && i <= (i32)lua_objlen(L, -1); i++) {
    lua_rawgeti(L, -1, i);
    k = (i32)lua_tointeger(L, -1);
    lua_pop(L, 1);
    if (k >= 1 && k <= n) of_rule[k - 1] = 1;
  }
  lua_pop(L, 1);
  lua_getfield(L, d, "custom");
  bool custom = !lua_isnil(L, -1);
  lua_pop(L, 1);
  Graph g = {0};
  Replacement by;
  const char *fault = NULL;
  int top = lua_gettop(L);
  if (custom && !ty_custom_read(L, d, &g, &by, &fault)) ty_capture_refuse(S, fault);
  u8 fast = S->fast;
  S->fast = e->fast;
  S->capture->of_rule = of_rule;
  Instance *I = fault ? NULL : ty_instance_make(S, made, n, custom ? &by : NULL);
  S->fast = fast;
  S->capture->of_rule = NULL;
  ty_graph_free(&g);
  lua_settop(L, top - 3);
  return I;
}

/* The numbers that an instance brings, from the description at index 1: so many, or false. */
static bool read_sizes(lua_State *L, Instance *I, i32 n) {
  lua_getfield(L, 1, "sizes");
  if ((i32)lua_objlen(L, -1) != n) return false;
  if (n && !(I->size = ty_mem_alloc((size_t)n * sizeof *I->size))) return false;
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, -1, i + 1);
    I->size[i] = lua_tonumber(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return true;
}

/* Run-time scalars find their numbers in the trace's file. */
static void place_scalars(const Trace *T, Instance *I) {
  for (i32 i = 0; i < I->nscalar; i++)
    if (I->scalar[i].kind == SC_NUMBER) I->scalar[i].id = number_place(T, I->scalar[i].id);
  TracedTape *tape = I->tape;
  if (!tape || !tape->nnumber) return;
  i32 n;
  ScalarFrom *remade = ty_remade_scalars(tape, &n);
  for (i32 i = 0; i < n; i++)
    if (remade[i].kind == SC_NUMBER) remade[i].id = number_place(T, remade[i].id);
  tape->nnumber = T->nnumbers + 1;
  for (i32 i = 0; i < tape->nedge; i++) {
    i32 *symbol = &tape->edge[i].like.symbol;
    if (*symbol) *symbol = number_place(T, *symbol);
  }
}

/* Drops the least recently used trace. */
static void evict(lua_State *L, Entry *e, int anchors) {
  ty_trace_remove(L, e, e->ntrace - 1, anchors);
  e->evicted_traces++;
}

#define WASTED_FREE \
  256 /* sizes that come once: so many, then calls run without, ever more of them */
#define WASTED_PAID \
  1024 /* uses that gain what an evaluation of one operation costs; of many WASTED_LEAST */
#define WASTED_LEAST 8
#define INSTANCES_MAX 512 /* of one trace; beyond, the one that was used least recently goes */

static int refused(lua_State *L, const State *S) {
  lua_pushnil(L);
  lua_pushstring(L, S->capture->refused ? S->capture->why : S->err);
  return 2;
}

/* Whether the session's graph, an instance now, can serve trace T beside those that it has. */
static bool is_like(const Trace *T, const Instance *I) {
  const Instance *like = T->instance[0];
  bool same = I->noutside == like->noutside && I->nmade == like->nmade &&
              (I->tape ? I->tape->nrule : 0) == (like->tape ? like->tape->nrule : 0);
  for (i32 i = 0; same && i < I->noutside; i++) same = I->outside[i].slot == like->outside[i].slot;
  bool busy = T->refs > 1 && T->ninstance == INSTANCES_MAX; /* what must go may be running */
  return same && T->dynamic && !busy && !I->foreign;
}

/* An evaluation for each set of sizes pays where they come again; one for sizes that come once does
** not, and neither does a replay for each of many numbers. Both cost and gain grow with the operations, but what a
** call gains has a part that does not, and its operations may be large. */
static void count_wasted(Trace *T) {
  const Plan *p = T->instance[0]->plan;
  const i64 pays = TY_MAX(WASTED_PAID / TY_MAX(p ? p->nops : 1, 1), WASTED_LEAST);
  const i64 again = TY_MAX(T->hits - T->used - 1, 0); /* one use is the call that it was made for */
  const i64 wasted = T->wasted + 1 - again / pays;
  T->wasted = (i32)TY_MIN(TY_MAX(wasted, 0), WASTED_FREE + 12);
  T->used = T->hits;
  T->rest = T->wasted > WASTED_FREE ? (i64)1 << (T->wasted - WASTED_FREE) : 0;
}

/* Where a run may stop at an index that only itself computes, the function would draw a second time. */
static bool draws_and_checks(const Trace *T, const State *S) {
  return T->late_guards < T->nguards && ty_graph_checks(&S->capture->recording->g);
}

/* Answers for finish: true, how many operations the instance has, about how many nanoseconds they take, how many bytes
** their fusion saves. */
static int installed(lua_State *L, const Instance *I) {
  ty_lua_session_done(L, (Binding *)ty_lua_state(L));
  lua_pushboolean(L, true);
  lua_pushinteger(L, I->plan ? I->plan->nops : 0);
  lua_pushnumber(L, I->plan ? I->plan->time : 0);
  lua_pushnumber(L, I->plan ? (lua_Number)I->plan->bytes_saved : 0);
  return 4;
}

/* The session's graph becomes one more instance of a trace: the function was evaluated and its
** description is the same but for sizes, or a tape was replayed. Instances know tensors by the same
** numbers. sample: from 1, of a range of sizes. */
static int extend(lua_State *L, State *S, Entry *e, Trace *T, int sample) {
  if (sample >= 1) {
    ty_choices_begin(&T->choices, sample == RANGE_SAMPLES);
    S->engine->choices = &T->choices;
  }
  Instance *I = read_instance(L, S, 1, e);
  S->engine->choices = NULL;
  if (!I) return refused(L, S);
  if (!is_like(T, I) || draws_and_checks(T, S) || !read_sizes(L, I, T->nsizes)) {
    ty_instance_free(I);
    return luaL_error(L, "the trace is another one");
  }
  if (sample >= 1 && sample <= RANGE_SAMPLES) {
    if (T->sample[sample - 1]) ty_instance_free(T->sample[sample - 1]);
    T->sample[sample - 1] = I;
    place_scalars(T, I);
    return installed(L, I);
  }
  if (T->ninstance == INSTANCES_MAX) ty_instance_free(T->instance[--T->ninstance]);
  memmove(T->instance + 1, T->instance, sizeof *T->instance * (size_t)T->ninstance);
  memmove(T->hash + 1, T->hash, sizeof *T->hash * (size_t)T->ninstance);
  T->instance[0] = I;
  T->hash[0] = ty_trace_hash(T, I);
  T->ninstance++;
  place_scalars(T, I);
  lua_getfield(L, 1, "program");
  bool captured = !lua_isnil(L, -1);
  e->captures += captured;
  if (captured || T->nbounds)
    count_wasted(T); /* numbers count on and never come back, sizes seldom do so */
  else T->used++;    /* the call itself is no use of what was replayed for it */
  return installed(L, I);
}

/* frozen(x, other = nil) -> what x holds now, in a storage of its own that leads where x's does; other: what that gave for
** another tensor of its storage, then in the same one */
static int capture_frozen(lua_State *L) {
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, "capture", 1);
  const Tensor *other = lua_isnoneornil(L, 2) ? NULL : ty_lua_check(L, "capture", 2);
  Tensor *y = ty_lua_push(L);
  Storage *st = other ? ty_storage_hold(other->st) : ty_grad_freeze(S, x->st);
  if (!st) return ty_lua_fail(L, S);
  if (x->st->tape && !st->tape) st->tape = ty_record_hold(x->st->tape);
  *y = *x;
  y->st = st;
  return 1;
}

/* streams() -> how many random streams the capture has taken */
static int capture_streams(lua_State *L) {
  State *S = ty_lua_state(L);
  const Capture *c = ty_lua_capture(L);
  lua_pushnumber(L, c ? (lua_Number)(S->stream - c->stream) : 0);
  return 1;
}

/* rules(tensors) -> a list of what those functions with gradients of their own were made with that the tensors lead to, in
** the order of recording, beside those that later calls need nothing of; nil: they cannot be told */
static int capture_rules(lua_State *L) {
  State *S = ty_lua_state(L);
  if (!ty_lua_capture(L)) return luaL_error(L, "no capture is open");
  const i32 n = (i32)lua_objlen(L, 1);
  const Tensor **made = lua_newuserdata(L, sizeof *made * (size_t)(n + 1));
  for (i32 i = 0; i < n; i++) {
    lua_rawgeti(L, 1, i + 1);
    made[i] = ty_lua_test(L, -1);
    lua_pop(L, 1);
    if (!made[i] || !made[i]->st) return luaL_error(L, "a result is a tensor that was released");
  }
  const Record **list;
  i32 count;
  lua_newtable(L);
  if (!ty_traced_tape_rules(S, made, n, &list, &count)) lua_pushnil(L);
  for (i32 i = 0; i < count; i++) {
    ty_lua_rules_push(L, list[i]);
    lua_rawseti(L, -2, i + 1);
  }
  ty_mem_free(list);
  return 1;
}

/* Functions whose variables closures share that the trace makes. */
static void read_owners(Reader *r) {
  Trace *T = r->T;
  lua_getfield(r->L, r->d, "owners");
  T->makes_closures = lua_istable(r->L, -1);
  const i32 n = T->makes_closures ? (i32)lua_objlen(r->L, -1) : 0;
  T->owner = T->nanchors + 1;
  T->nowners = n / 2;
  for (i32 i = 1; i <= n; i++) anchor_item(r, i);
  lua_pop(r->L, 1);
}

/* finish(description, position or nil, handle, sample or nil) -> true, operations, time | nil, reason. position: of the trace in the list
** that traces() gives that is to serve these sizes too; then tensors and sizes are all that is looked at,
** and whether there is a program: a capture is counted. sample: these sizes are that one of a range (lua_range.c). */
static int capture_finish(lua_State *L) {
  State *S = ty_lua_state(L);
  Entry *e = luaL_checkudata(L, 3, ENTRY_META);
  luaL_checktype(L, 1, LUA_TTABLE);
  if (!ty_lua_capture(L)) return luaL_error(L, "no capture is open");
  int position = (int)lua_tointeger(L, 2);
  if (S->capture->nleaf) return luaL_error(L, "a gradient was given that nobody has taken");
  if (position >= 1 && position <= e->ntrace)
    return extend(L, S, e, e->trace[position - 1], (int)lua_tointeger(L, 4));
  lua_getfenv(L, 3);
  lua_replace(L, 2);
  lua_settop(L, 2);
  if (e->building) ty_trace_drop(e->building);
  Trace *T = e->building = ty_mem_zalloc(sizeof *T);
  Reader r = {.L = L, .S = S, .T = T, .d = 1, .anchors = 3};
  if (!T) return luaL_error(L, "out of memory");
  T->refs = 1;
  T->word = ty_entry_word(S);
  lua_getfield(L, 1, "narg");
  T->narg = (i32)lua_tointeger(L, -1);
  lua_getfield(L, 1, "dynamic");
  T->dynamic = lua_toboolean(L, -1);
  lua_pop(L, 2);
  lua_newtable(L);
  lua_pushvalue(L, 1);
  anchor(&r);
  i32 most = T->dynamic ? INSTANCES_MAX : 1;
  T->instance = array(&r, most, sizeof *T->instance);
  T->hash = array(&r, most, sizeof *T->hash);
  if (!(T->instance[0] = read_instance(L, S, 1, e))) return refused(L, S);
  T->ninstance = 1;
  lua_getfield(L, 1, "sizes");
  T->nsizes = (i32)lua_objlen(L, -1);
  lua_pop(L, 1);
  if (!read_sizes(L, T->instance[0], T->nsizes)) return luaL_error(L, "out of memory");
  T->noutside = T->instance[0]->noutside;
  if (T->instance[0]->foreign) {
    lua_getfield(L, 1, "custom");
    T->backend = anchor(&r);
  }
  lua_getfield(L, 1, "resume");
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  else T->resume = anchor(&r);
  lua_getfield(L, 1, "link");
  if (lua_isnil(L, -1)) lua_pop(L, 1);
  else T->link = anchor(&r);
  read_program(&r);
  T->hash[0] = ty_trace_hash(T, T->instance[0]);
  place_scalars(T, T->instance[0]);
  read_owners(&r);
  read_tables(&r);
  read_rules(&r);
  read_effects(&r);
  read_results(&r);
  find_hidden(&r);
  T->shows_grads = shows_gradients(&r);
  if (draws_and_checks(T, S)) {
    ty_capture_refuse(S, "draws a number, and goes by an index that it computes");
    return refused(L, S);
  }
  i32 stack = ty_trace_stack(T) + T->narg;
  if (stack > STACK_MOST || T->nnumbers >= DEFERRED_NUMBERS)
    return luaL_error(L, "it reads and makes %d values, and a trace may %d",
                      TY_MAX(stack, T->nnumbers), STACK_MOST);
  T->anchor = e->next_anchor++;
  lua_pushvalue(L, r.anchors);
  lua_rawseti(L, 2, T->anchor);
  if (e->ntrace == TRACES_MAX) evict(L, e, 2);
  memmove(e->trace + 1, e->trace, sizeof *e->trace * (size_t)e->ntrace);
  e->trace[0] = T;
  e->ntrace++;
  e->captures++;
  e->building = NULL;
  return installed(L, T->instance[0]);
}

void ty_lua_open_trace(lua_State *L, int m) {
  static const luaL_Reg fns[] = {{"finish", capture_finish},      {"table", capture_table},
                                 {"sized", capture_sized},        {"traces", ty_trace_list},
                                 {"rules", capture_rules},        {"streams", capture_streams},
                                 {"frozen", capture_frozen},      {"measured", ty_trace_measured},
                                 {"account", ty_account_session}, {NULL, NULL}};
  lua_getfield(L, m, "internals");
  lua_getfield(L, -1, "capture");
  ty_lua_register(L, fns);
  lua_pushinteger(L, DEFERRED_NUMBERS);
  lua_setfield(L, -2, "DEFERRED");
  lua_pushinteger(L, DRAWN_NUMBERS);
  lua_setfield(L, -2, "DRAWN");
  lua_pushinteger(L, LIST_MOST);
  lua_setfield(L, -2, "LIST_MOST");
  lua_pushnumber(L, DRAWN_UNKNOWN);
  lua_setfield(L, -2, "UNKNOWN");
  ty_guard_push_rows(L);
  lua_setfield(L, -2, "guards");
  lua_pop(L, 2);
}
