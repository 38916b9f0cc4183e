/*
** lua_ops.c -- methods, functions and operators that are rows of the table of operations.
** In: arguments on Lua's stack. Out: one new tensor, or the first argument for names that end in _.
** Raises what record.c has to say: dtypes and shapes that do not go together, and running out of memory.
** Positions and dims are 1-based here and 0-based below.
**
** Maps need no code of their own: a closure with the number of its row stands for each. An in-place
** form computes the row and writes the result through its first argument.
*/
#include <math.h>
#include "engine/entry.h"
#include "engine/remade.h"
#include "record/capture.h"
#include "record/complex.h"
#include "lua/lua_lifetime.h"
#include "lua/lua_calc.h"
#include "lua/lua_view.h"
#include "record/grad.h"
#include "record/vmap.h"

/* Numbers of a closure's upvalues behind the two that all have. */
#define UP_OP lua_upvalueindex(3)
#define UP_NAME lua_upvalueindex(4)

/* --- results */

/* A handle for what an operation on large operands makes. It is looked after, for it goes to the caller alone. */
static Tensor *push_large(lua_State *L, Binding *B, bool is_operator) {
  SiteFrame frame;
  const bool known = ty_lua_site(L, B, is_operator ? SITE_OPERATOR : SITE_C, &frame);
  Tensor *y = ty_lua_push_in(L, B);
  if (known) ty_lua_site_made(&frame, (Handle *)y);
  return y;
}

/* What the tape keeps is seldom let go of: it must be worth more. */
static inline bool is_large(const Binding *B, const Tensor *x) {
  const i64 from = ty_needs_grad(x) ? 4 * B->large : B->large;
  return x->st->numel * 4 >= from && ty_type_numel(&x->type) * 4 >= from;
}

static inline Tensor *push_result(lua_State *L, State *S, const Tensor *x) {
  Binding *B = (Binding *)S;
  return TY_UNLIKELY(is_large(B, x)) ? push_large(L, B, false) : ty_lua_push_in(L, B);
}

/* --- maps */

/* In eager mode one kernel, but where the tape keeps the square. */
static bool record_cube(State *S, const char *who, const Given *x, Tensor *y) {
  Tensor square = {0};
  const Given twice[2] = {*x, *x}, rest[2] = {{.kind = O_TENSOR, .t = &square}, *x};
  Recording *b = S->level || ty_needs_grad(x->t) ? NULL : ty_calc_open(S);
  bool ok = ty_record(S, who, OP_MUL, 2, twice, &square) && ty_record(S, who, OP_MUL, 2, rest, y);
  ty_tensor_release(&square);
  return ty_calc_close(S, b, ok, y);
}

/* Powers by plain numbers that have a faster and more exact form are defined to be that form, in
** every mode: x^2 is x*x, x^3 is x*x*x, x^0.5 the square root, x^-1 of a float 1/x. */
static bool record_power(State *S, const char *who, const Given *src, Tensor *y) {
  double p = src[1].kind == O_NUMBER ? src[1].v : 0;
  Given known = src[1], plain[2] = {src[0], known};
  if (TY_UNLIKELY(known.symbol)) { /* the value decides below */
    ty_capture_untake(S, known.symbol);
    plain[1].symbol = 0;
    src = plain;
  }
  if (src[0].kind == O_TENSOR) {
    Given twice[2] = {src[0], src[0]}, inverse[2] = {{.kind = O_NUMBER, .v = 1}, src[0]};
    if (p == 2) return ty_record(S, who, OP_MUL, 2, twice, y);
    if (p == 3) return record_cube(S, who, src, y);
    if (p == 0.5) return ty_record(S, who, OP_SQRT, 1, src, y);
    if (p == -1 && ty_is_float(src[0].t->type.dtype))
      return ty_record(S, who, OP_DIV, 2, inverse, y);
  }
  return ty_record(S, who, OP_POW, 2, src, y);
}

static inline bool record_map(State *S, const char *who, int op, int n, const Given *src,
                              Tensor *y) {
  if (op == OP_POW) return record_power(S, who, src, y);
  return ty_record(S, who, op, n, src, y);
}

/* Pushes row `op` of the first n arguments. is_operator: it is the metamethod of one. */
static inline int map(lua_State *L, int op, int n, bool is_operator) {
  const char *who = ty_ops[op].lua;
  Given src[3];
  bool large = false;
  State *S = ty_lua_enter(L);
  bool complex = false;
  for (int i = 0; i < n; i++) {
    Tensor *t = ty_lua_test_in(L, (Binding *)S, i + 1);
    if (TY_LIKELY(t && t->st)) {
      src[i] = (Given){.kind = O_TENSOR, .t = t};
      large |= is_large((Binding *)S, t);
      complex |= ty_tensor_is_complex(t);
    } else src[i] = ty_lua_operand(L, who, i + 1);
  }
  if (TY_UNLIKELY(complex) && !ty_complex_is_linear(op)) {
    ty_lua_complex(L, S, who, ty_ops[op].lua, n, src);
    return 1;
  }
  Tensor *y = TY_UNLIKELY(large) ? push_large(L, (Binding *)S, is_operator)
                                 : ty_lua_push_in(L, (Binding *)S);
  if (TY_LIKELY(TY_LUA_TRY(L, S, record_map(S, who, op, n, src, y)))) return 1;
  return ty_lua_fail(L, S);
}

static int l_map(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP);
  return map(L, op, ty_ops[op].arity, false);
}

/* Whether an in-place form of the first operand is one plan in eager mode: that writes where it lies, if nobody else
** holds it. Below so many elements a kernel that needs no plan, and memory that is in the cache, are faster. */
static bool is_over(const State *S, int n, const Given *src) {
  enum { LARGE = 1 << 16 };
  bool ok = ty_type_numel(&src->t->type) >= LARGE && !src->t->type.device && !S->level &&
            !src->t->st->batched;
  for (int i = 0; i < n; i++) ok = ok && (src[i].kind != O_TENSOR || !src[i].t->st->tape);
  return ok;
}

/* Computes into a tensor that lives only here, then writes: nothing may raise in between. */
static bool record_in_place(State *S, const char *who, int op, int n, const Given *src) {
  Tensor y = {0};
  Storage *st = src[0].t->st;
  Recording *b = is_over(S, n, src) ? ty_calc_open(S) : NULL;
  const Given value = {.kind = O_TENSOR, .t = &y, .dies = true};
  bool ok = record_map(S, who, op, n, src, &y) && ty_remade_assign(S, who, src[0].t, &value);
  ty_tensor_release(&y);
  if (!b) return ok;
  S->open = NULL;
  ok = ok && (st->recording != b || S->cut(S, b, st));
  if (!ok && st->recording == b && st->buf) ty_storage_settle(st, ty_buffer_hold(st->buf));
  ty_recording_drop(S, b);
  return ok;
}

static int l_map_in_place(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP), n = ty_ops[op].arity;
  const char *who = lua_tostring(L, UP_NAME);
  Given src[3];
  State *S = ty_lua_enter(L);
  ty_lua_check(L, who, 1);
  for (int i = 0; i < n; i++) src[i] = ty_lua_operand(L, who, i + 1);
  if (TY_UNLIKELY(ty_complex_among(n, src)) && !ty_complex_is_linear(op)) {
    lua_settop(L, n);
    ty_lua_complex(L, S, who, ty_ops[op].lua, n, src);
    const Given value = {.kind = O_TENSOR, .t = ty_lua_check(L, who, -1)};
    TY_LUA_MUST(L, S, ty_remade_assign(S, who, src[0].t, &value));
    lua_settop(L, 1);
    return 1;
  }
  if (!TY_LUA_TRY(L, S, record_in_place(S, who, op, n, src))) return ty_lua_fail(L, S);
  lua_settop(L, 1);
  return 1;
}

/* a > b is b < a. */
static int compare_exchanged(lua_State *L, const char *who, int op) {
  State *S = ty_lua_enter(L);
  Given a = ty_lua_operand(L, who, 1), src[2] = {ty_lua_operand(L, who, 2), a};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record(S, who, op, 2, src, y));
  return 1;
}

static int l_gt(lua_State *L) { return compare_exchanged(L, "gt", OP_LT); }
static int l_ge(lua_State *L) { return compare_exchanged(L, "ge", OP_LE); }

/* --- operators */

static int op_add(lua_State *L) { return map(L, OP_ADD, 2, true); }
static int op_sub(lua_State *L) { return map(L, OP_SUB, 2, true); }
static int op_mul(lua_State *L) { return map(L, OP_MUL, 2, true); }
static int op_div(lua_State *L) { return map(L, OP_DIV, 2, true); }
static int op_mod(lua_State *L) { return map(L, OP_REMAINDER, 2, true); }
static int op_pow(lua_State *L) { return map(L, OP_POW, 2, true); }
static int op_unm(lua_State *L) { return map(L, OP_NEG, 1, true); }

static int op_lt(lua_State *L) {
  return ty_lua_error(L, "lt: `<` and `>` give one boolean in Lua; use a:lt(b) or a:gt(b)");
}

static int op_le(lua_State *L) {
  return ty_lua_error(L, "le: `<=` and `>=` give one boolean in Lua; use a:le(b) or a:ge(b)");
}

static int op_concat(lua_State *L) {
  return ty_lua_error(L,
                      "concat: a tensor is not text; use tostring(x), or ty.cat to join tensors");
}

static int op_len(lua_State *L) {
  Tensor *x = ty_lua_check(L, "len", 1);
  if (x->type.rank == 0) return ty_lua_error(L, "len: a tensor without dims has no length");
  lua_pushnumber(L, (lua_Number)x->type.dims[0]);
  return 1;
}

/* --- reductions and scans */

/* A flag: nil, a boolean, or a table of options that has it alone. */
static bool flag(lua_State *L, const char *who, int i, const char *name) {
  if (lua_isnoneornil(L, i)) return false;
  if (lua_isboolean(L, i)) return lua_toboolean(L, i);
  if (!lua_istable(L, i))
    ty_lua_error(L, "%s: argument %d (%s) must be a boolean, got %s", who, i, name,
                 ty_lua_show(L, i));
  for (lua_pushnil(L); lua_next(L, i); lua_pop(L, 1))
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), name))
      ty_lua_error(L, "%s: unknown option %s; known: %s", who, ty_lua_show(L, -2), name);
  lua_getfield(L, i, name);
  bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

/* What is added up or multiplied over a dim, by its type rule: within autocast half floats go on in f32. */
static bool is_summed(const State *S, int op, const Tensor *x) {
  const int dtype = x->type.dtype, rule = ty_ops[op].rule;
  return TY_UNLIKELY(S->cast) && (dtype == T_F16 || dtype == T_BF16) &&
         (rule == TR_SUM || rule == TR_FLOAT);
}

/* dims: of a reduction; dim: of a scan. */
static bool record_over(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                        int dim, Tensor *y) {
  Tensor own = {0};
  if (is_summed(S, op, x)) {
    if (!ty_record_cast(S, x, T_F32, &own)) return false;
    x = &own;
  }
  const bool ok = ty_ops[op].class == SCAN ? ty_record_scan(S, who, op, x, dim, y)
                                           : ty_record_reduce(S, who, op, x, dims, keep, y);
  ty_tensor_release(&own);
  return ok;
}

static int l_reduce(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP);
  const char *who = ty_ops[op].lua;
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  if (TY_UNLIKELY(ty_tensor_is_complex(x)) && op != OP_SUM) {
    ty_lua_complex(L, S, who, who, 1, &(Given){.kind = O_TENSOR, .t = x});
    return 1;
  }
  u32 dims = ty_lua_dims(L, who, 2, x->type.rank);
  bool keep = flag(L, who, 3, "keepdim");
  Tensor *y = push_result(L, S, x);
  TY_LUA_MUST(L, S, record_over(S, who, op, x, dims, keep, 0, y));
  return 1;
}

/* Moves 0-based positions to 1-based ones: *y = *x + 1, and x is let go. */
static bool one_based(State *S, const char *who, Tensor *x, Tensor *y) {
  Given src[2] = {{.kind = O_TENSOR, .t = x}, {.kind = O_NUMBER, .v = 1}};
  bool ok = ty_record(S, who, OP_ADD, 2, src, y);
  ty_tensor_release(x);
  return ok;
}

static bool record_arg(State *S, const char *who, int op, const Tensor *x, u32 dims, bool keep,
                       Tensor *y) {
  Tensor zero_based = {0};
  return ty_record_reduce(S, who, op, x, dims, keep, &zero_based) &&
         one_based(S, who, &zero_based, y);
}

static int l_arg(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP);
  const char *who = ty_ops[op].lua;
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  bool all = lua_isnoneornil(L, 2);
  u32 dims = all ? 0 : 1u << ty_lua_dim(L, who, 2, x->type.rank, -1);
  bool keep = flag(L, who, 3, "keepdim");
  Tensor *y = push_result(L, S, x);
  TY_LUA_MUST(L, S, record_arg(S, who, op, x, dims, keep, y));
  return 1;
}

static int l_scan(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP);
  const char *who = ty_ops[op].lua;
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  if (TY_UNLIKELY(ty_tensor_is_complex(x)) && op != OP_CUMSUM) {
    ty_lua_complex(L, S, who, who, 1, &(Given){.kind = O_TENSOR, .t = x});
    return 1;
  }
  int dim = ty_lua_dim(L, who, 2, x->type.rank, x->type.rank == 1 ? 0 : -1);
  Tensor *y = push_result(L, S, x);
  TY_LUA_MUST(L, S, record_over(S, who, op, x, 0, false, dim, y));
  return 1;
}

/* --- products and moves */

static int l_matmul(lua_State *L) {
  const Tensor *a = ty_lua_test(L, 1), *b = ty_lua_test(L, 2);
  if (a && b && (a->type.rank != 2 || b->type.rank != 2)) { /* else it is run as it is: quick.c */
    State *S = ty_lua_enter(L);
    TY_LUA_ANSWERED(L, S, "matmul");
  }
  return map(L, OP_MATMUL, 2, false);
}

static int l_contract(lua_State *L) {
  const char *who = "contract";
  State *S = ty_lua_enter(L);
  Tensor *a = ty_lua_check(L, who, 1), *b = ty_lua_check(L, who, 2);
  i64 n[2] = {ty_lua_int(L, who, 3, "lead"), ty_lua_int(L, who, 4, "summed")};
  for (int i = 0; i < 2; i++) n[i] = TY_MAX(-1, TY_MIN(n[i], MAX_RANK + 1)); /* refused */
  const Given both[2] = {{.kind = O_TENSOR, .t = a}, {.kind = O_TENSOR, .t = b}};
  if (TY_UNLIKELY(ty_complex_among(2, both))) {
    ty_lua_complex(L, S, who, who, 2, both);
    return 1;
  }
  Tensor *y = push_result(L, S, a);
  TY_LUA_MUST(L, S, ty_record_contract(S, who, a, b, (int)n[0], (int)n[1], y));
  return 1;
}

static int l_gather(lua_State *L) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, "gather");
  Tensor *x = ty_lua_check(L, "gather", 1);
  int dim = ty_lua_dim(L, "gather", 2, x->type.rank, -1);
  const Tensor *index = ty_lua_view_indices(L, S, "gather", 3, x->type.device);
  Tensor *y = push_result(L, S, x);
  TY_LUA_MUST(L, S, ty_record_gather(S, "gather", x, dim, index, 1, y));
  return 1;
}

/* The source of a scatter: a tensor, or a number for every place. Pushed when it is made here. */
static const Tensor *scatter_source(lua_State *L, State *S, const char *who, const Tensor *x,
                                    const Tensor *index) {
  Given src = ty_lua_operand(L, who, 4);
  if (src.kind == O_TENSOR) return src.t;
  Type t = index->type;
  t.dtype = x->type.dtype;
  if (!ty_is_float(t.dtype) && !ty_is_complex(t.dtype) && src.v != floor(src.v))
    ty_lua_error(L, "%s: %.14g does not fit %s", who, src.v, ty_dtypes[t.dtype].name);
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_number(S, &t, &src, y));
  return y;
}

static bool record_scatter_in_place(State *S, const char *who, int op, const Tensor *x, int dim,
                                    const Tensor *index, const Tensor *src) {
  Lazy *z = ty_needs_grad(x) || ty_needs_grad(src) ? NULL : ty_lazy_join(S, x->st);
  Tensor y = {0};
  bool ok = ty_record_scatter(S, who, op, x, dim, index, 1, src, &y);
  ok = ok && ty_remade_assign(S, who, x, &(Given){.kind = O_TENSOR, .t = &y, .dies = true});
  ty_tensor_release(&y);
  return ty_lazy_joined(S, z, ok, x->st);
}

static int scatter(lua_State *L, const char *who, int op, bool in_place) {
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  lua_settop(L, 4);
  int dim = ty_lua_dim(L, who, 2, x->type.rank, -1);
  const Tensor *index = ty_lua_view_indices(L, S, who, 3, x->type.device);
  const Tensor *src = scatter_source(L, S, who, x, index);
  if (in_place) {
    TY_LUA_MUST(L, S, record_scatter_in_place(S, who, op, x, dim, index, src));
    lua_settop(L, 1);
    return 1;
  }
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record_scatter(S, who, op, x, dim, index, 1, src, y));
  return 1;
}

static int l_scatter(lua_State *L) {
  int op = (int)lua_tointeger(L, UP_OP);
  return scatter(L, ty_ops[op].lua, op, false);
}

static int l_scatter_in_place(lua_State *L) {
  return scatter(L, lua_tostring(L, UP_NAME), (int)lua_tointeger(L, UP_OP), true);
}

static bool record_argsort(State *S, const Tensor *x, int dim, bool descending, Tensor *y) {
  Tensor zero_based = {0};
  return ty_record_argsort(S, x, dim, descending, -1, &zero_based) &&
         one_based(S, "argsort", &zero_based, y);
}

static int l_argsort(lua_State *L) {
  const char *who = "argsort";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *x = ty_lua_check(L, who, 1);
  if (lua_istable(L, 2)) { /* the options came without a dim */
    lua_pushnil(L);
    lua_insert(L, 2);
  }
  int dim = ty_lua_dim(L, who, 2, x->type.rank, TY_MAX(x->type.rank - 1, 0));
  bool descending = flag(L, who, 3, "descending");
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_argsort(S, x, dim, descending, y));
  return 1;
}

static bool record_searchsorted(State *S, const Tensor *sorted, const Tensor *v, bool right,
                                Tensor *y) {
  Tensor zero_based = {0};
  return ty_record_searchsorted(S, sorted, v, right, &zero_based) &&
         one_based(S, "searchsorted", &zero_based, y);
}

/* searchsorted(sorted, values, right): one sorted row serves values of any shape. */
static int l_searchsorted(lua_State *L) {
  const char *who = "searchsorted";
  State *S = ty_lua_enter(L);
  TY_LUA_ANSWERED(L, S, who);
  Tensor *sorted = ty_lua_check(L, who, 1);
  Given given = ty_lua_operand(L, who, 2);
  const Tensor *v = given.t;
  bool right = flag(L, who, 3, "right");
  if (given.kind != O_TENSOR) {
    bool whole = isfinite(given.v) && given.v == floor(given.v);
    if (given.symbol) TY_LUA_MUST(L, S, ty_capture_whole(S, given.symbol, whole));
    Type t = {.dtype = whole ? sorted->type.dtype : (u8)T_F64, .device = sorted->type.device};
    Tensor *number = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_record_number(S, &t, &given, number));
    v = number;
  }
  Type shape = v->type;
  bool flatten = sorted->type.rank == 1 && shape.rank != 1;
  if (flatten) {
    Type flat = ty_type_line(shape.dtype, shape.device, ty_type_numel(&shape));
    v = ty_lua_view_reshape(L, S, v, &flat);
  }
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, record_searchsorted(S, sorted, v, right, y));
  shape.dtype = T_I64;
  if (flatten) ty_lua_view_reshape(L, S, y, &shape);
  return 1;
}

/* --- registration */

/* How rows are called from Lua: by their class, but for those that have arguments of their own. */
typedef struct Call {
  lua_CFunction fn;
  const char *args; /* NULL: operands, named by their number */
} Call;

static const Call by_class[] = {
    [LEAF] = {NULL, NULL},       [MAP] = {l_map, NULL},
    [VIEW] = {NULL, NULL},       [REDUCE] = {l_reduce, "x, dims = nil, keepdim = false"},
    [SCAN] = {l_scan, "x, dim"}, [DOT] = {l_matmul, NULL},
    [MOVE] = {NULL, NULL}};

static const Call by_row[OP_COUNT] = {
    [OP_ARGMAX] = {l_arg, "x, dim = nil, keepdim = false"},
    [OP_ARGMIN] = {l_arg, "x, dim = nil, keepdim = false"},
    [OP_GATHER] = {l_gather, "x, dim, index"},
    [OP_SCATTER] = {l_scatter, "x, dim, index, src"},
    [OP_SCATTER_ADD] = {l_scatter, "x, dim, index, src"},
    [OP_ARGSORT] = {l_argsort, "x, dim = -1, descending = false"},
    [OP_SEARCHSORTED] = {l_searchsorted, "sorted, values, right = false"}};

static const char *const operands[] = {"", "x", "a, b", "condition, a, b"};

/* Pushes a closure over the row and the name, and puts it into module and methods. */
static void define_row(lua_State *L, int m, int t, lua_CFunction fn, int op, const char *name) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, lua_upvalueindex(2));
  lua_pushinteger(L, op);
  lua_pushstring(L, name);
  lua_pushcclosure(L, fn, 4);
  lua_pushvalue(L, -1);
  lua_setfield(L, t, name);
  lua_setfield(L, m, name);
}

static void open_row(lua_State *L, int m, int t, int op) {
  const OpInfo *row = &ty_ops[op];
  Call call = by_row[op].fn ? by_row[op] : by_class[row->class];
  if (!row->lua || !call.fn) return;
  const char *args = call.args ? call.args : operands[row->arity];
  define_row(L, m, t, call.fn, op, row->lua);
  ty_lua_describe(L, row->lua, args, row->help);
  if (!(row->flags & F_INPLACE)) return;
  const char *name = lua_pushfstring(L, "%s_", row->lua);
  const char *help = lua_pushfstring(L, "%s; written to the first argument", row->help);
  define_row(L, m, t, row->class == MAP ? l_map_in_place : l_scatter_in_place, op, name);
  ty_lua_describe(L, name, args, help);
  lua_pop(L, 2);
}

/* power(x, p): the row itself, for numbers that have no other form. */
static int power(lua_State *L) {
  State *S = ty_lua_enter(L);
  Given src[2] = {ty_lua_operand(L, "pow", 1), ty_lua_operand(L, "pow", 2)};
  Tensor *y = ty_lua_push(L);
  TY_LUA_MUST(L, S, ty_record(S, "pow", OP_POW, 2, src, y));
  return 1;
}

/* check_index(who, index, size, skip) -> later: raises where an element is no position among `size` ones, nor `skip`;
** later: that is seen by the operation that goes by the index */
static int check_index(lua_State *L) {
  const char *who = luaL_checkstring(L, 1);
  State *S = ty_lua_enter(L);
  const Tensor *x = ty_lua_check(L, who, 2);
  const double skip = luaL_checknumber(L, 4);
  Tensor *all = ty_lua_push(L);
  ty_tensor_alias(all, x);
  for (u32 level; (level = ty_vmap_level(all)) != 0;) { /* of all examples */
    Tensor *outer = ty_lua_push(L);
    TY_LUA_MUST(L, S, ty_vmap_lift(S, all, level, -1, 0, outer));
    all = outer;
  }
  const i64 size = (i64)luaL_checknumber(L, 3);
  bool later;
  TY_LUA_MUST(L, S, ty_record_check_index(S, who, all, size, 1, &skip, &later));
  lua_pushboolean(L, later);
  return 1;
}

void ty_lua_open_ops(lua_State *L, int m, int t) {
  static const luaL_Reg operators[] = {
      {"__add", op_add}, {"__sub", op_sub}, {"__mul", op_mul},       {"__div", op_div},
      {"__mod", op_mod}, {"__pow", op_pow}, {"__unm", op_unm},       {"__lt", op_lt},
      {"__le", op_le},   {"__len", op_len}, {"__concat", op_concat}, {NULL, NULL}};
  static const LuaFunction exchanged[] = {{"gt", l_gt, 'b', "a, b", "bool: a above b"},
                                          {"ge", l_ge, 'b', "a, b", "bool: a above or equal to b"},
                                          {"contract", l_contract, 'm', "a, b, lead, summed",
                                           "sums products over the last dims of a and those of b "
                                           "behind the leading ones"},
                                          {NULL, NULL, 0, NULL, NULL}};
  static const luaL_Reg internals[] = {
      {"check_index", check_index}, {"power", power}, {NULL, NULL}};
  for (int op = 0; op < OP_COUNT; op++) open_row(L, m, t, op);
  ty_lua_define(L, m, t, exchanged);
  lua_pushvalue(L, lua_upvalueindex(2));
  ty_lua_register(L, operators);
  lua_getfield(L, m, "internals");
  ty_lua_register(L, internals);
  lua_pop(L, 2);
}
