/*
** tile.c -- the portable machine: programs to steps.
** In:  a loop program.  Out: a kernel that runs it, by loops over tiles that stay in the
** first-level cache. Fails when memory runs out or the program is not well formed.
**
** A program is compiled to `Code`: steps over slots. A slot is a place for a value; a step is one
** loop of tile_prims.c, or one of a few that look at memory and rows. What it is run over is
** decided in tile_run.c. The rules:
**
**  1 Every value is UNIFORM (depends on constants and scalars alone: computed once a frame, read as a
**    scalar), ROW (one a row or column) or ELEM (one an element).
**  2 Reductions cut the element values into phases: a value is in phase p when p reductions stand
**    one behind another before it. A phase goes over a row tile by tile, its reductions are then
**    complete, row values follow. What a later phase needs again is kept for the whole row (a wide
**    slot), loads are made again. A map, a scan, a column program has one phase.
**  3 Loads stand where they are first needed. Element stores stand at the end of the last phase,
**    row stores at the end of all: an output may be an input's memory, access by the same strides.
**  4 A load of contiguous elements in their compute type is no copy, only an address. So while a
**    step is still to come that reads an operand, nothing may be written over it: a value is
**    computed straight in its output only where all operands that are read after it lie elsewhere
**    (checked by address when the program is run), and stores, by rule 3, come last.
**  5 Calls that follow one another become strands (tile_strand.c), so loads, fills and spreads are
**    moved before them and reductions behind. Registers are given out after that.
**  6 An index that gathers alone read is not loaded where they can read it in memory: its columns are one position,
**    and they copy runs of the operand, or follow one another.
**  7 Row values are scalars while one row is worked on (code[0]), and are spread over elements
**    where several rows share a tile (code[1], and columns).
**
** The order of sums (the same on every machine). A row: element i goes to block i / 4096 and lane
** i mod 64 (32 where the compute type has 8 bytes); each lane adds ascending, starting from its
** first element; lanes without an element count as -0, so that they change nothing; blocks are
** combined lane by lane, the first 2^k of n blocks (the largest power below n) with the rest, each
** so again; the lanes last: lane j takes lane j + 32 (16), then j + 16, ... j + 1. Columns: row r
** goes to block r / 256 and lane r mod 4, the same trees. An empty sum is +0. Products the same
** with 1. Extremes are total (NaN above all, -0 below +0), so their order does not show.
**
** The order of scans. Blocks of 4096 elements, groups of 16 within (the last may be short, what is
** missing is the identity, -0 or 1). In a group v[j] = v[j - s] + v[j] for j >= s, s = 1, 2, 4, 8
** one after another, all j at once. Then l[j] = carry + v[j]; carry, from the identity at the start
** of a block, becomes l[15]. Then y[j] = offset + l[j]; offset, from the identity at the start of
** the row, becomes offset + carry at the end of each block. For floats; integers and extremes are
** exact in any order. SLIN is s = fma(s, a[i], b[i]) in f64, one after another from +0; y[i] is s
** rounded.
**
** Positions (RARGMAX, RARGMIN): the first NaN, else the first element equal to the extreme, where
** -0 equals +0; 0 for an empty row.
*/
#include "device/cpu/tile.h"

#include <stdlib.h>

enum { DEAD, UNIFORM, ROW, ELEM };

/* A program on its way. Slots of values that are made anew in every phase (loads, and scalars or
** row values as vectors) are remembered with the stretch of steps they are good for. */
typedef struct Compile {
  const Program *p;
  const TileIsa *isa;
  Code *code;
  TileHook *hook;
  bool spread, failed;
  i32 nelem; /* element phases */
  i32 nstores;
  i32 stretch; /* number of the stretch of steps being made */
  i32 cap_step, cap_slot;
  u8 class[MAX_BODY];
  i16 phase[MAX_BODY];
  i16 same[MAX_BODY]; /* the value whose slot this one has: bits taken for floats */
  i32 slot[MAX_BODY]; /* -1: none */
  i32 made[MAX_BODY]; /* stretch that slot was made in, where it is good for one only */
  i32 vector[MAX_BODY], vector_made[MAX_BODY]; /* the value as a vector */
  bool stored[MAX_BODY];                       /* already computed in an output */
} Compile;

static bool is_8(int type) { return type == C_I64 || type == C_F64; }
static int width(int type) { return is_8(type) ? 8 : 4; }
static bool is_reduce(int op) { return op >= P_RSUM && op <= P_RARGMIN; }
static bool is_scan(int op) { return op >= P_SSUM && op <= P_SLIN; }
static bool is_load(int op) { return op == P_LOAD || op == P_IOTA; }

static bool grow(void **array, i32 *cap, i32 n, size_t size) {
  if (n < *cap) return true;
  i32 want = *cap ? *cap * 2 : 64;
  void *q = ty_mem_realloc(*array, (size_t)want * size);
  if (!q) return false;
  *array = q, *cap = want;
  return true;
}

static i32 push_slot(Compile *C, int place, int size) {
  Code *code = C->code;
  void *array = code->slot;
  if (!grow(&array, &C->cap_slot, code->nslot, sizeof(Slot))) {
    C->failed = true;
    return 0;
  }
  code->slot = array;
  code->slot[code->nslot] = (Slot){.place = (u8)place, .size = (u8)size, .def = -1, .last = -1};
  return code->nslot++;
}

static void push_step(Compile *C, Step s) {
  Code *code = C->code;
  void *array = code->step;
  if (C->failed || !grow(&array, &C->cap_step, code->nstep, sizeof(Step))) {
    C->failed = true;
    return;
  }
  code->step = array;
  Slot *y = &code->slot[s.y];
  if (y->def < 0) y->def = code->nstep;
  code->step[code->nstep++] = s;
}

/* ---- rules 1 and 2: classes and phases ------------------------------------------------------ */

static void classify(Compile *C) {
  const Program *p = C->p;
  for (int i = p->nbody - 1; i >= 0; i--) {
    const Instr *in = &p->body[i];
    if (in->op == P_STORE) C->class[i] = ELEM, C->nstores++;
    if (C->class[i] == DEAD) continue;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++)
      if (ops[k] >= 0) C->class[ops[k]] = ELEM; /* read: settled below */
  }
  C->nelem = 1;
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (C->class[i] == DEAD) continue;
    C->same[i] = (i16)i;
    bool uniform = in->op == P_CONST || in->op == P_SCALAR;
    bool placed = is_load(in->op) || in->op == P_GLOAD || in->op == P_STORE || is_scan(in->op);
    int phase = 0, low = UNIFORM;
    const i16 ops[3] = {in->a, in->b, in->c};
    for (int k = 0; k < 3; k++) {
      if (ops[k] < 0) continue;
      phase = TY_MAX(phase, C->phase[ops[k]]);
      low = TY_MAX(low, C->class[ops[k]]);
    }
    C->class[i] = (u8)low;
    if (uniform) C->class[i] = UNIFORM;
    else if (placed) C->class[i] = p->kind != K_MAP && in->level == L_ROW ? ROW : ELEM;
    else if (p->kind == K_MAP && low == ROW) C->class[i] = ELEM;
    if (is_reduce(in->op)) C->class[i] = ROW, phase++;
    C->phase[i] = (i16)phase;
    C->nelem = TY_MAX(C->nelem, is_reduce(in->op) ? phase : C->class[i] == ELEM ? phase + 1 : 0);
    if (in->op == P_BITS && (in->type >= C_F32 || in->imm)) C->same[i] = C->same[in->a];
  }
}

/* ---- slots of operands ---------------------------------------------------------------------- */

static int type_of(const Compile *C, i32 v) { return C->p->body[v].type; }

/* The value as it is: a slot that may be a scalar's. `to`: class of the reader. */
static i32 operand(Compile *C, i32 v, int to) {
  v = C->same[v];
  const Instr *in = &C->p->body[v];
  if (is_load(in->op) && C->class[v] == ELEM && C->made[v] != C->stretch) {
    i32 y = push_slot(C, AT_TILE, width(in->type));
    push_step(C, (Step){.kind = in->op == P_LOAD ? S_LOAD : S_IOTA, .y = y, .imm = in->imm});
    C->slot[v] = y, C->made[v] = C->stretch;
  }
  i32 s = C->slot[v];
  /* A value that another phase made must have been kept. */
  if (!C->failed && to == ELEM && C->class[v] == ELEM && !is_load(in->op) &&
      C->made[v] != C->stretch)
    C->code->slot[s].place = AT_WIDE;
  return s;
}

/* True when the reader sees one value where it works on many. */
static bool is_scalar(const Compile *C, i32 v, int to) {
  int class = C->class[C->same[v]];
  return to != UNIFORM && (class == UNIFORM || (class == ROW && to == ELEM && !C->spread));
}

/* The value as a vector of what the reader works on. */
static i32 vector(Compile *C, i32 v, int to) {
  v = C->same[v];
  int class = C->class[v];
  bool scalar = is_scalar(C, v, to);
  if (!scalar && !(class == ROW && to == ELEM)) return operand(C, v, to);
  if (C->vector_made[v] == C->stretch) return C->vector[v];
  int size = width(type_of(C, v));
  i32 a = C->slot[v], y = push_slot(C, to == ROW ? AT_ROW : AT_TILE, size);
  push_step(C, (Step){.fn = C->isa->fill[size == 8],
                      .kind = scalar ? S_FILL : S_SPREAD,
                      .type = (u8)type_of(C, v),
                      .row = to == ROW,
                      .y = y,
                      .a = a});
  C->vector[v] = y, C->vector_made[v] = C->stretch;
  return y;
}

/* ---- instructions --------------------------------------------------------------------------- */

static TileFn *plain_fn(const TileIsa *isa, const Instr *in, int ta, int mask) {
  if (in->op == P_CVT) return mask ? NULL : isa->cvt[in->from][in->type];
  if (in->op == P_NARROW) return mask ? NULL : isa->narrow[in->imm];
  if (in->op == P_LUT || in->op == P_SEL) ta = in->type;
  static const i8 forms[8] = {0, 1, 2, -1, 3, -1, 4, -1};
  return forms[mask] < 0 ? NULL : isa->fn[in->op - P_ADD][ta][forms[mask]];
}

/* The form that reads most scalars as scalars. Operands of what commutes may be exchanged for it.
 */
static TileFn *choose(const Compile *C, const Instr *in, int ta, int *mask, bool *swap) {
  static const u8 commutes[P_COUNT] = {
      [P_ADD] = 1, [P_MUL] = 1, [P_MIN] = 1, [P_MAX] = 1, [P_AND] = 1,
      [P_OR] = 1,  [P_XOR] = 1, [P_EQ] = 1,  [P_FMA] = 1};
  *swap = commutes[in->op] && (*mask & 3) == 1;
  if (*swap) *mask += 1;
  for (int m = *mask;; m = (m - 1) & *mask) {
    TileFn *fn = plain_fn(C->isa, in, ta, m);
    if (fn || !m) {
      *mask = m;
      return fn;
    }
  }
}

static void call(Compile *C, i32 v, int to) {
  const Instr *in = &C->p->body[v];
  i16 ops[3] = {in->a, in->b, in->c};
  i32 at[3] = {0, 0, 0};
  int mask = 0;
  bool swap;
  for (int k = 0; k < 3; k++)
    if (ops[k] >= 0 && is_scalar(C, ops[k], to)) mask |= 1 << k;
  TileFn *fn = choose(C, in, type_of(C, in->a), &mask, &swap);
  if (!fn) {
    C->failed = true;
    return;
  }
  if (swap) ops[0] = in->b, ops[1] = in->a;
  for (int k = 0; k < 3; k++)
    if (ops[k] >= 0) at[k] = mask >> k & 1 ? operand(C, ops[k], to) : vector(C, ops[k], to);
  static const u8 places[] = {[UNIFORM] = AT_UNIFORM, [ROW] = AT_ROW, [ELEM] = AT_TILE};
  i32 y = push_slot(C, places[to], width(in->type));
  push_step(C, (Step){.fn = fn,
                      .kind = S_CALL,
                      .type = in->op == P_SEL ? in->type : (u8)type_of(C, in->a),
                      .op = in->op,
                      .scalars = (u8)mask,
                      .to = in->type,
                      .row = to == ROW,
                      .y = y,
                      .a = at[0],
                      .b = at[1],
                      .c = at[2],
                      .imm = in->imm});
  C->slot[v] = y;
}

/* All that is stored is at hand before the first store writes (rule 4). */
static void stores(Compile *C, int to) {
  const Program *p = C->p;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < p->nbody; i++) {
      const Instr *in = &p->body[i];
      if (in->op != P_STORE || C->class[i] != to) continue;
      i32 a = vector(C, in->a, to);
      if (C->failed || !pass) continue;
      Step *def = &C->code->step[C->code->slot[a].def];
      if (def->kind == S_LOAD && C->nstores > 1) def->copy = 1;
      Step s = {.kind = S_STORE, .row = to == ROW, .y = a, .a = a, .imm = in->imm, .state = -1};
      if (C->hook) s.y = push_slot(C, AT_TILE, width(type_of(C, in->a)));
      push_step(C, s);
    }
}

/* Whether a value is seen to be 0 or 1, in so many steps. */
static bool is_truth(const Program *p, i32 v, int steps) {
  const Instr *in = &p->body[v];
  if (in->op == P_LOAD) return p->operand[in->imm].dtype == T_BOOL;
  if (in->op == P_AND || in->op == P_OR)
    return steps > 0 && is_truth(p, in->a, steps - 1) && is_truth(p, in->b, steps - 1);
  return in->op == P_EQ || in->op == P_LT || in->op == P_LE;
}

static void instruction(Compile *C, i32 v, int to) {
  const Instr *in = &C->p->body[v];
  Step s = {.type = in->type, .row = to == ROW, .imm = in->imm};
  if (C->same[v] != v) return;
  if (in->op == P_GLOAD) {
    s.kind = S_GLOAD, s.scalars = is_scalar(C, in->a, to);
    s.a = s.scalars ? operand(C, in->a, to) : vector(C, in->a, to);
    s.y = push_slot(C, to == ROW ? AT_ROW : AT_TILE, width(in->type));
  } else if (is_load(in->op)) {
    s.kind = in->op == P_LOAD ? S_LOAD : S_IOTA; /* of a row: elements load when they need it */
    s.y = push_slot(C, AT_ROW, width(in->type));
  } else if (is_reduce(in->op)) {
    bool arg = in->op >= P_RARGMAX;
    s.kind = arg ? S_ARG : S_REDUCE, s.row = 0;
    s.op = (u8)(in->op - (arg ? P_RARGMAX : P_RSUM)), s.type = (u8)type_of(C, in->a);
    s.a = vector(C, in->a, ELEM), s.state = C->code->nreduce++;
    s.truth = !arg && (s.op == R_MAX || s.op == R_MIN) && is_truth(C->p, in->a, 3);
    s.y = push_slot(C, AT_ROW, width(in->type));
    if (C->hook) s.b = push_slot(C, AT_LOOSE, width(in->type));
  } else if (is_scan(in->op)) {
    s.kind = S_SCAN, s.op = (u8)(in->op - P_SSUM), s.state = C->code->nscan++;
    s.a = vector(C, in->a, to), s.b = in->b >= 0 ? vector(C, in->b, to) : 0;
    s.y = push_slot(C, AT_TILE, width(in->type));
  } else {
    call(C, v, to);
    C->made[v] = C->stretch;
    return;
  }
  push_step(C, s);
  C->slot[v] = s.y, C->made[v] = C->stretch;
}

/* ---- the order of steps --------------------------------------------------------------------- */

static void uniforms(Compile *C) {
  const Program *p = C->p;
  for (int i = 0; i < p->nbody; i++) {
    const Instr *in = &p->body[i];
    if (C->class[i] != UNIFORM) continue;
    if (in->op == P_CONST || in->op == P_SCALAR) {
      C->slot[i] = push_slot(C, in->op == P_CONST ? AT_CONST : AT_SCALAR, width(in->type));
      if (!C->failed) C->code->slot[C->slot[i]].imm = in->imm;
    } else instruction(C, i, UNIFORM);
  }
  C->code->uniform = C->code->nstep;
}

/* Other words of the random bits that v is one of follow it: a machine may make them together. */
static void other_words(Compile *C, i32 v, int to) {
  const Instr *body = C->p->body, *in = &body[v];
  for (i32 i = v + 1; i < C->p->nbody; i++)
    if (body[i].op == P_PHILOX && C->class[i] != DEAD && body[i].a == in->a && body[i].b == in->b &&
        body[i].c == in->c)
      instruction(C, i, to);
}

/* One stretch of steps: the row values or the elements of a phase. A reduction belongs to the
** elements before the phase that it opens. */
static void stretch(Compile *C, int to, int phase) {
  const Program *p = C->p;
  int last = to == ROW ? C->nelem : C->nelem - 1;
  C->stretch++;
  for (int pass = 0; pass < 2; pass++) /* reductions last: nothing here waits for them */
    for (int i = 0; i < p->nbody; i++) {
      const Instr *in = &p->body[i];
      bool reduce = is_reduce(in->op);
      if (C->class[i] == DEAD || in->op == P_STORE || C->class[i] == UNIFORM) continue;
      if ((reduce ? ELEM : C->class[i]) != to || C->phase[i] - reduce != phase) continue;
      if (reduce != pass || (to == ELEM && is_load(in->op))) continue;
      if (in->op == P_PHILOX && C->made[i] == C->stretch) continue;
      instruction(C, i, to);
      if (in->op == P_PHILOX) other_words(C, i, to);
    }
  if (phase == last) stores(C, to);
}

/* Between two calls (or reductions) of a stretch a load, fill or spread waits for neither: it goes
** before them, so that calls stand together (and an operand's memory is read early). */
static bool passes(const Step *s) { return !s->row && (s->kind == S_CALL || s->kind == S_REDUCE); }

static void gather(Code *code) {
  for (i32 p = 0; p < code->nphase; p++)
    for (i32 i = code->phase[p].elem + 1; i < code->phase[p].end; i++) {
      Step s = code->step[i];
      if (s.kind != S_LOAD && s.kind != S_IOTA && s.kind != S_FILL && s.kind != S_SPREAD) continue;
      i32 k = i;
      for (; k > code->phase[p].elem && passes(&code->step[k - 1]); k--)
        code->step[k] = code->step[k - 1];
      code->step[k] = s;
    }
  ty_tile_lives(code);
}

/* Gathers whose index is a load may read it where it lies; a load that only they read is then none. */
static void find_indices(Code *code) {
  for (i32 i = 0; i < code->nstep; i++) {
    Step *s = &code->step[i];
    if (s->kind != S_GLOAD) continue;
    Step *def = code->slot[s->a].def < 0 ? s : &code->step[code->slot[s->a].def];
    const bool loaded = !s->scalars && def->kind == S_LOAD && def->row == s->row;
    s->state = loaded ? (i32)def->imm : -1;
    if (loaded) def->index = 1;
  }
  for (i32 i = 0; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    const i32 ops[3] = {s->a, s->b, s->c};
    for (int k = 0; k < 3 && s->kind != S_GLOAD; k++)
      if (code->slot[ops[k]].def >= 0) code->step[code->slot[ops[k]].def].index = 0;
  }
}

/* ---- rule 4: values that may be computed in an output --------------------------------------- */

static u32 reads(const Code *code, const Step *s) {
  u32 mask = 0;
  if (s->kind == S_LOAD || s->kind == S_GLOAD) mask |= 1u << s->imm;
  const i32 ops[3] = {s->a, s->b, s->c};
  for (int k = 0; k < 3; k++) {
    i32 def = code->slot[ops[k]].def;
    if (def >= 0 && code->step[def].kind == S_LOAD) mask |= 1u << code->step[def].imm;
  }
  return mask;
}

static bool find_direct(Compile *C) {
  Code *code = C->code;
  i32 from = code->phase[code->nphase - 1].elem, end = code->phase[code->nphase - 1].end, n = 0;
  for (i32 i = from; i < end; i++) n += code->step[i].kind == S_STORE;
  if (!n) return true;
  code->direct = ty_mem_alloc((size_t)n * sizeof(Direct));
  if (!code->direct) return false;
  for (i32 i = from; i < end; i++) {
    const Step *s = &code->step[i];
    if (s->kind != S_STORE || s->raw) continue;
    Slot *slot = &code->slot[s->a];
    int dtype = C->p->operand[s->imm].dtype;
    if (slot->place != AT_TILE || slot->direct || ty_dtypes[dtype].bytes != slot->size) continue;
    Direct d = {.slot = s->a, .operand = (i32)s->imm, .loaded = -1};
    const Step *def = &code->step[slot->def];
    if (def->kind == S_SPREAD) continue; /* over a single row it is an address, no copy */
    if (def->kind == S_LOAD) d.loaded = (i32)def->imm;
    /* The stores themselves read too: one that copies a load must still find it. */
    for (i32 k = slot->def + 1; k < end; k++)
      if (k != i) d.readers |= reads(code, &code->step[k]);
    slot->direct = true;
    code->step[i].state = code->ndirect;
    code->direct[code->ndirect++] = d;
    if (code->ndirect == 32) break; /* as many as the run has bits for */
  }
  return true;
}

/* ---- registers ------------------------------------------------------------------------------ */

/* Linear scan over the steps: a register is free again behind the last reader. The result of a loop
** may take a register that one of its operands gives up, if the widths are the same: element i is
** read before it is written. Wide slots each have their own. */
typedef struct Pool {
  i32 n, nfree;
  i32 *free;
} Pool;

static i32 pool_take(Pool *P) { return P->nfree ? P->free[--P->nfree] : P->n++; }

static void release(Code *code, Pool *pools, i32 slot, i32 step) {
  Slot *s = &code->slot[slot];
  if (s->place != AT_TILE && s->place != AT_ROW) return;
  if (s->last != step || s->reg < 0) return;
  Pool *P = &pools[s->place == AT_ROW];
  P->free[P->nfree++] = s->reg;
  s->last = -1; /* once only, though it may be several operands */
}

/* A native stretch is one step: what it makes for others is taken before what it reads is released. */
static void assign_native(Code *code, Pool *pools, const Native *v) {
  for (i32 i = v->first; i < v->end; i++) {
    const Step *s = &code->step[i];
    Slot *y = &code->slot[s->y];
    bool made = y->def == i && (y->last >= v->end || s->kind != S_CALL);
    if (!made) continue;
    if (y->place == AT_TILE || y->place == AT_ROW) y->reg = pool_take(&pools[y->place == AT_ROW]);
    if (y->place == AT_WIDE) y->reg = code->nwide++;
  }
  for (i32 i = v->first; i < v->end; i++) {
    const Step *s = &code->step[i];
    const i32 ops[4] = {s->a, s->b, s->c, s->y};
    for (int k = 0; k < 4; k++) {
      i32 last = code->slot[ops[k]].last;
      if (last >= v->first && last < v->end) release(code, pools, ops[k], last);
    }
  }
}

static bool assign_registers(Code *code) {
  i32 *space = ty_mem_alloc((size_t)(2 * code->nslot + 2) * sizeof(i32));
  if (!space) return false;
  Pool pools[2] = {{.free = space}, {.free = space + code->nslot + 1}};
  for (i32 i = 0; i < code->nslot; i++) code->slot[i].reg = -1;
  for (i32 i = 0; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    Slot *y = &code->slot[s->y];
    const i32 ops[3] = {s->a, s->b, s->c};
    bool early = s->kind == S_CALL || s->kind == S_STRAND;
    if (s->native) {
      assign_native(code, pools, &code->native[s->native - 1]);
      i = code->native[s->native - 1].end - 1;
      continue;
    }
    for (int k = 0; k < 3 && early; k++)
      if (code->slot[ops[k]].size == y->size && ops[k] != s->y) release(code, pools, ops[k], i);
    if (y->def == i) switch (y->place) {
      case AT_TILE:
      case AT_ROW: y->reg = pool_take(&pools[y->place == AT_ROW]); break;
      case AT_WIDE: y->reg = code->nwide++; break;
      case AT_UNIFORM: y->reg = code->nuniform++; break;
      default: break;
      }
    for (int k = 0; k < 3; k++) release(code, pools, ops[k], i);
    release(code, pools, s->y, i);
  }
  code->ntile = pools[0].n, code->nrow = pools[1].n;
  for (i32 i = 0; i < code->nslot; i++) {
    Slot *y = &code->slot[i];
    y->number = y->place == AT_CONST ? i : y->place == AT_SCALAR ? (i32)y->imm : TY_MAX(y->reg, 0);
  }
  ty_mem_free(space);
  return true;
}

/* Phases that reduce nothing but truth values, and do nothing else that shows. */
static void find_settling(Code *code) {
  for (i32 p = 0; p <= code->nphase; p++) {
    Phase *ph = &code->phase[p];
    bool truths = false, more = false;
    for (i32 i = ph->elem; i < ph->end; i++) {
      const Step *s = &code->step[i];
      truths |= s->truth;
      more |= s->kind == S_ARG || s->kind == S_SCAN || s->kind == S_STORE ||
              (s->kind == S_REDUCE ? !s->truth : code->slot[s->y].place == AT_WIDE);
    }
    ph->settles = truths && !more;
  }
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void code_free(Code *code) {
  ty_mem_free(code->step), ty_mem_free(code->slot);
  ty_mem_free(code->phase), ty_mem_free(code->direct);
  ty_mem_free(code->link), ty_mem_free(code->strand), ty_mem_free(code->native);
}

static bool compile(Compile *C) {
  Code *code = C->code;
  push_slot(C, AT_UNIFORM, 8); /* slot 0: what absent operands point to */
  if (C->failed) return false;
  classify(C);
  code->nphase = C->nelem;
  code->phase = ty_mem_alloc((size_t)(C->nelem + 1) * sizeof(Phase));
  if (!code->phase) return false;
  uniforms(C);
  for (i32 p = 0; p <= C->nelem && !C->failed; p++) {
    Phase *ph = &code->phase[p];
    ph->row = code->nstep;
    stretch(C, ROW, p);
    ph->elem = code->nstep;
    if (p < C->nelem) stretch(C, ELEM, p);
    ph->end = code->nstep;
  }
  if (C->failed) return false;
  gather(code);
  find_indices(code);
  find_settling(code);
  if (C->hook && !C->hook->fn(C->hook, code, C->p, C->spread)) return false;
  if (!find_direct(C)) return false;
  return (C->hook || ty_tile_strands(code, C->isa->strands)) && assign_registers(code);
}

/* What an element costs, for the decision whether other threads are worth waking. Rough on purpose.
 */
static double cost(const Kernel *k) {
  static const float dear[P_COUNT] = {
      [P_DIVI] = 2,  [P_REMI] = 2,    [P_PHILOX] = 2,  [P_DIV] = .2f,   [P_SQRT] = .2f,
      [P_LUT] = .4f, [P_GLOAD] = .6f, [P_SSUM] = .5f,  [P_SPROD] = .5f, [P_SMAX] = 2,
      [P_SMIN] = 2,  [P_SMAXX] = 2,   [P_SLIN] = 1.5f, [P_RPROD] = .1f};
  double sum = 0.02;
  for (int i = 0; i < k->p->nbody; i++) {
    const Instr *in = &k->p->body[i];
    if (in->op == P_CONST || in->op == P_SCALAR) continue;
    sum += (dear[in->op] + 0.04) * (is_8(in->type) ? 2 : 1);
  }
  return sum;
}

void ty_tile_drop(Kernel *k) {
  if (!k) return;
  ty_tile_drop(k->plain), ty_tile_drop(k->packed);
  code_free(&k->code[0]), code_free(&k->code[1]);
  ty_mem_free(k->p), ty_mem_free(k->listing), ty_mem_free(k);
}

static void measure(Kernel *k, bool native) {
  k->cost = cost(k), k->word = 4;
  i32 live = 1;
  k->bytes = sizeof *k + ty_program_bytes(k->p);
  for (int c = 0; c < 2; c++) {
    const Code *code = &k->code[c];
    for (i32 i = 1; i < code->nslot; i++)
      if (code->slot[i].size == 8 && code->slot[i].place > AT_SCALAR) k->word = 8;
    live = TY_MAX(live, code->ntile);
    k->bytes += (size_t)code->nstep * sizeof(Step) + (size_t)code->nslot * sizeof(Slot);
  }
  for (int i = 0; i < k->p->nbody; i++) {
    const Instr *in = &k->p->body[i];
    k->has_arg |= in->op == P_RARGMAX || in->op == P_RARGMIN;
    if (is_scan(in->op)) k->long_split = false;
  }
  /* The registers share the first-level cache with what streams by. Native code needs them only for
  ** what does not lie contiguously, and has more to do before its first element. */
  k->tile = BLOCK;
  i64 room = native ? 48 * 1024 : 24 * 1024;
  while (k->tile > TILE_MIN && (i64)live * k->word * k->tile > room) k->tile /= 2;
}

#define SINGLE_BODY 6 /* instructions of a map that may be a single call */

/* Fills k->single where all that the code does is loads by address, one call, and its store. */
static void find_single(Kernel *k) {
  const Code *code = &k->code[0];
  const Step *call = NULL, *store = NULL;
  if (k->p->kind != K_MAP || code->uniform || code->nphase != 1) return;
  for (i32 i = 0; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    bool native = s->kind == S_CALL || ty_dtypes[k->p->operand[s->imm].dtype].bytes >= 4;
    if (s->kind == S_CALL && !call) call = s;
    else if (s->kind == S_STORE && call && !store && s->a == call->y && s->state >= 0) store = s;
    else if (s->kind != S_LOAD || s->copy) return;
    if (!native) return;
  }
  if (!store) return;
  Single one = {.fn = call->fn, .imm = call->imm, .y = (i32)store->imm};
  const i32 ops[3] = {call->a, call->b, call->c};
  for (int i = 0; i < 3; i++) {
    const Slot *slot = &code->slot[ops[i]];
    one.x[i] = one.scalar[i] = -1;
    if (slot->place == AT_CONST) one.where[i] = &slot->imm;
    else if (slot->place == AT_SCALAR) one.scalar[i] = (i32)slot->imm;
    else if (ops[i]) one.x[i] = (i32)code->step[slot->def].imm;
  }
  k->single = one;
}

/* A map of loads, one call and a store; NULL for others and when out of memory. */
static Kernel *portable_form(const Program *p) {
  Kernel *k = ty_tile_make(p, NULL);
  if (!k || k->single.fn) return k;
  ty_tile_drop(k);
  return NULL;
}

Kernel *ty_tile_make(const Program *p, TileHook *hook) {
  if (ty_program_verify(p)) return NULL;
  Kernel *k = ty_mem_zalloc(sizeof *k);
  Compile *C = ty_mem_alloc(sizeof *C);
  bool ok = k && C;
  if (ok) k->p = ty_mem_alloc(ty_program_bytes(p)), ok = k->p;
  if (ok) {
    memcpy(k->p, p, ty_program_bytes(p));
    k->isa = ty_tile_isa();
  }
  for (int c = 0; c < 2 && ok; c++) {
    if (p->kind != K_ROW && c != (p->kind == K_COL)) continue;
    memset(C, 0, sizeof *C);
    memset(C->slot, -1, sizeof C->slot);
    C->p = k->p, C->isa = k->isa, C->code = &k->code[c], C->spread = c;
    C->hook = hook;
    ok = compile(C);
  }
  ty_mem_free(C);
  if (ok) {
    k->long_split = p->kind != K_MAP && k->code[p->kind == K_COL].nphase == 1;
    measure(k, hook != NULL);
    find_single(k);
    if (hook && p->kind == K_MAP && p->nbody <= SINGLE_BODY) k->plain = portable_form(p);
    if (k->plain) k->bytes += k->plain->bytes;
    return k;
  }
  ty_tile_drop(k);
  return NULL;
}

static Kernel *make(const Program *p) {
  Kernel *k = ty_tile_make(p, NULL);
  Program *packed = k ? ty_packed_program(p) : NULL;
  if (packed) k->packed = ty_tile_make(packed, NULL);
  ty_mem_free(packed);
  return k;
}

static bool run(const Kernel *k, const Run *r) {
  return (k->packed && ty_packed_run(k, r)) || ty_tile_run(k, r);
}

size_t ty_tile_bytes(const Kernel *k) { return k->bytes; }
static size_t bytes(const Kernel *k) { return k ? k->bytes + bytes(k->packed) : 0; }

const Machine ty_machine_tile = {"tile",       make,  run,         ty_tile_reserve,
                                 ty_tile_drop, bytes, ty_tile_time};
