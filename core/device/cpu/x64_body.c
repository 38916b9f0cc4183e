/*
** x64_body.c -- machine code for one stretch of steps.
** In:  steps [first, end) of a tile kernel's code, all of them native.  Out: a function
** fn(p, begin, end, rows, choice) over elements of rows (tile.h), p[slot] being the address of each slot;
** bytes and constants go to the buffer. Fails when out of memory, or where a table is full.
**
** How it works. An element group is as many elements as make one vector of the widest value: 16 of 4
** bytes or 8 where any value has 8 bytes (AVX2: half of it). A value of either width is then one
** register, of full or half length. A body works on `unroll` groups side by side, operation by
** operation, so that one vector's latency is hidden by the others. It is emitted twice: for the main
** loop, and one group at a time under a mask for what is left.
**
**  1 Inputs are loaded where they are first used; values live in groups of registers until their last
**    use. When no group is free the one whose next use is farthest goes to the frame, once.
**  2 Constants and scalars that are used most have registers of their own for the whole function; of the
**    others constants are read from the pool behind the code, scalars from the frame.
**  3 Nothing is stored to an operand before everything that is stored has been loaded: an output may be
**    an input's memory. A load is never made again: it may have been overwritten.
**  4 No byte outside [begin, end) of any operand is touched.
**  5 A turn of the main loop takes a multiple of the lanes of all reductions of rows; their states are
**    kept in registers where these suffice. The tail works on them in memory.
**  6 A comparison that only selections read is not a value: each selection compares again, into a mask.
**  7 A call goes over any number of rows. From one to the next addresses move by what stands behind them in
**    p; row values are loaded anew. So short rows, rows apart from each other and operands that are the same
**    for all rows cost a few instructions each.
**  8 A short stretch of stores has its main loop twice: the caller chooses the one whose stores go past the
**    caches when outputs are large and lie at multiples of 64 bytes.
*/
#include "device/cpu/x64.h"

i32 ty_x64_root(const Emit *E, i32 slot) {
  while (E->val[slot].alias >= 0) slot = E->val[slot].alias;
  return slot;
}

bool ty_x64_uniform(const Emit *E, i32 slot) {
  const XVal *v = &E->val[ty_x64_root(E, slot)];
  return v->kind == V_CONST || v->kind == V_SCALAR;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static i32 frame_take(Emit *E, i32 bytes) {
  i32 at = E->frame;
  E->frame += (bytes + 63) & ~63;
  return at;
}

static bool fix_grow(Emit *E) {
  i32 cap = TY_MAX(2 * E->fix_cap, 64);
  void *p = ty_mem_realloc(E->fix, (size_t)cap * sizeof *E->fix);
  if (!p) return false;
  E->fix = p, E->fix_cap = cap;
  return true;
}

void ty_x64_v(Emit *E, X64Ins ins, int vl, int d, int a, X64Rm b, int imm, int k, bool z) {
  i32 entry = b.rip ? b.disp : -1;
  if (entry >= 0) b.disp = 0;
  x64_vector(&E->A, ins, vl, d, a, b, imm, k, z, false);
  if (entry < 0) return;
  if (E->nfix == E->fix_cap && !fix_grow(E)) {
    E->A.failed = true;
    return;
  }
  E->fix[E->nfix++] = (XFix){(u32)(E->A.n - 4 - (imm >= 0)), (u32)E->A.n, entry};
}

/* rip.disp holds the entry's number until the pool is placed. */
X64Rm ty_x64_k(Emit *E, u64 bits, int size) {
  i32 i = 0;
  if (size == 4) bits = (u32)bits;
  while (i < E->npool && (E->pool[i].bits != bits || E->pool[i].size != size)) i++;
  if (i == POOL_MAX) {
    E->A.failed = true;
    i = 0;
  } else if (i == E->npool) E->pool[E->npool++] = (XPool){bits, (u8)size};
  X64Rm m = x64_rip(i);
  m.bcst = E->wide;
  return m;
}

static int log2_of(int bytes) { return __builtin_ctz((unsigned)bytes); }

X64Rm ty_x64_at(Emit *E, i32 slot, int bytes, i32 group) {
  const XVal *v = &E->val[slot];
  int base = v->ptr;
  if (base < 0) {
    x64_load(&E->A, RAX, x64_mem(RSP, RNONE, 0, v->at));
    base = RAX;
  }
  return x64_mem(base, RSI, log2_of(bytes), group * E->lanes * bytes);
}

static X64Rm in_frame(const Emit *E, i32 at, int u) {
  return x64_mem(RSP, RNONE, 0, at + u * E->vb);
}

static void move(Emit *E, int size, int d, X64Rm from) {
  ty_x64_v(E,
           from.reg >= 0 ? I_vmovaps
           : size == 8   ? I_vmovupd
                         : I_vmovups,
           ty_x64_vl(E, size), d, 0, from, -1, 0, false);
}

static void put(Emit *E, int size, X64Rm to, int from) {
  x64_vector(&E->A, size == 8 ? I_vmovupd : I_vmovups, ty_x64_vl(E, size), from, 0, to, -1, 0,
             false, true);
}

static void broadcast(Emit *E, int size, int d, X64Rm from) {
  from.bcst = false;
  ty_x64_v(E, size == 8 ? I_vbroadcastsd : I_vbroadcastss, ty_x64_vl(E, size), d, 0, from, -1, 0,
           false);
}

/* ---- registers ------------------------------------------------------------------------------- */

/* The next step that uses the slot, `end` if none. */
static i32 next_use(const Emit *E, i32 slot) {
  for (i32 i = E->now + 1; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    const i32 ops[3] = {s->a, s->b, s->c};
    for (int k = 0; k < 3; k++) {
      if (!ops[k]) continue;
      i32 r = ty_x64_root(E, ops[k]);
      if (r == slot) return i;
      if (E->val[r].kind != V_LAZY) continue;
      const Step *c = &E->code->step[E->val[r].def];
      if (ty_x64_root(E, c->a) == slot || ty_x64_root(E, c->b) == slot) return i;
    }
  }
  return E->end;
}

static void give_up(Emit *E, i32 slot) {
  XVal *v = &E->val[slot];
  if (v->group >= 0) E->owner[v->group] = -1;
  if (v->spill >= 0 && E->nspill < MAX_BODY) E->spill_free[E->nspill++] = v->spill;
  v->group = v->spill = -1;
}

static void evict(Emit *E, i32 group) {
  i32 slot = E->owner[group];
  XVal *v = &E->val[slot];
  if (v->spill < 0) {
    v->spill = E->nspill ? E->spill_free[--E->nspill] : frame_take(E, E->unroll * E->vb);
    for (int u = 0; u < E->u; u++) put(E, v->size, in_frame(E, v->spill, u), group * E->u + u);
  }
  v->group = -1;
  E->owner[group] = -1;
}

static i32 take_group(Emit *E, i32 slot) {
  i32 best = -1, far = -1;
  for (i32 g = 0; g < E->ngroups; g++) {
    if (E->owner[g] < 0) {
      best = g;
      break;
    }
    if (E->busy >> g & 1) continue;
    i32 next = next_use(E, E->owner[g]);
    if (next > far) far = next, best = g;
  }
  if (best < 0) {
    E->A.failed = true;
    best = 0;
  } else if (E->owner[best] >= 0) evict(E, best);
  E->owner[best] = slot;
  E->val[slot].group = best;
  E->busy |= 1u << best;
  return best;
}

/* A stream that was not loaded yet, or a value that was evicted, comes into registers. */
static void bring(Emit *E, i32 slot) {
  XVal *v = &E->val[slot];
  if (v->group >= 0) {
    E->busy |= 1u << v->group;
    return;
  }
  i32 g = take_group(E, slot);
  for (int u = 0; u < E->u; u++)
    if (v->spill >= 0) move(E, v->size, g * E->u + u, in_frame(E, v->spill, u));
    else {
      i32 g0 = E->g0;
      E->g0 += u;
      ty_x64_load(E, v, slot, g * E->u + u);
      E->g0 = g0;
    }
}

int ty_x64_reg(Emit *E, i32 slot, int temp) {
  slot = ty_x64_root(E, slot);
  XVal *v = &E->val[slot];
  if (!ty_x64_uniform(E, slot)) {
    bring(E, slot);
    return v->group * E->u;
  }
  if (v->pin >= 0) return v->pin;
  if (v->kind == V_CONST) {
    X64Rm k = ty_x64_k(E, v->bits, v->size);
    if (E->wide) broadcast(E, v->size, temp, k);
    else move(E, v->size, temp, k);
  } else move(E, v->size, temp, in_frame(E, v->home, 0));
  return temp;
}

void ty_x64_done(Emit *E) {
  for (i32 g = 0; g < E->ngroups; g++) {
    i32 slot = E->owner[g];
    if (slot >= 0 && E->val[slot].last <= E->now) give_up(E, slot);
  }
}

int ty_x64_result(Emit *E, i32 slot) { return take_group(E, slot) * E->u; }

bool ty_x64_has_room(const Emit *E) { return (~(u64)E->busy & (((u64)1 << E->ngroups) - 1)) != 0; }

int ty_x64_take(Emit *E, i32 slot, int reg) {
  E->owner[reg / E->u] = slot;
  E->val[slot].group = reg / E->u;
  return reg;
}

XOpd ty_x64_operand(Emit *E, i32 slot, bool want_reg, int temp) {
  slot = ty_x64_root(E, slot);
  XVal *v = &E->val[slot];
  if (ty_x64_uniform(E, slot)) {
    if (want_reg) return (XOpd){.m = x64_reg(ty_x64_reg(E, slot, temp))};
    return (XOpd){.m = v->pin >= 0          ? x64_reg(v->pin)
                       : v->kind == V_CONST ? ty_x64_k(E, v->bits, v->size)
                                            : in_frame(E, v->home, 0)};
  }
  XOpd o = {.step = E->vb};
  if (v->group < 0 && v->spill >= 0 && !want_reg) {
    o.m = in_frame(E, v->spill, 0);
    return o;
  }
  bring(E, slot);
  o.m = x64_reg(v->group * E->u);
  o.dies = v->last <= E->now;
  return o;
}

/* ---- what the stretch needs ------------------------------------------------------------------- */

static void note_use(Emit *E, i32 slot, i32 at, bool reg) {
  XVal *v = &E->val[ty_x64_root(E, slot)];
  v->uses++, v->last = at, v->regs_wanted = (i16)(v->regs_wanted + reg);
  if (v->kind != V_LAZY) return;
  const Step *c = &E->code->step[v->def];
  note_use(E, c->a, at, true), note_use(E, c->b, at, false);
}

static void note_kind(Emit *E, i32 slot) {
  const Code *code = E->code;
  const Slot *s = &code->slot[slot];
  XVal *v = &E->val[slot];
  if (v->kind != V_NONE || v->alias >= 0) return;
  v->size = s->size;
  if (s->place == AT_CONST) v->kind = V_CONST, v->bits = s->imm;
  else if (s->place == AT_SCALAR || s->place == AT_UNIFORM || s->place == AT_ROW)
    v->kind = V_SCALAR, v->row = s->place == AT_ROW;
  else {
    v->kind = V_STREAM;
    const Step *def = s->def >= 0 ? &code->step[s->def] : NULL;
    if (def && def->kind == S_LOAD && def->raw) v->dtype = (i8)E->p->operand[def->imm].dtype;
  }
}

static bool is_compare(const Step *s) {
  return s->kind == S_CALL && (s->op == P_EQ || s->op == P_LT || s->op == P_LE);
}

/* A step whose result is its operand as it is. */
static bool is_alias(const Emit *E, const Step *s) {
  if (s->kind != S_CALL || s->op != P_NARROW) return false;
  if (s->imm == T_I32 || s->imm == T_I64 || s->imm == T_F32 || s->imm == T_F64) return true;
  const XVal *v = &E->val[ty_x64_root(E, s->a)];
  return s->imm == T_BOOL && v->def >= 0 && is_compare(&E->code->step[v->def]);
}

static void note_values(Emit *E) {
  const Code *code = E->code;
  for (i32 i = 0; i < code->nslot; i++) {
    i32 alias = E->val[i].alias; /* fills are known already */
    E->val[i] = (XVal){.dtype = -1,
                       .alias = alias,
                       .last = -1,
                       .def = -1,
                       .group = -1,
                       .spill = -1,
                       .ptr = -1,
                       .at = -1,
                       .pin = -1,
                       .home = -1,
                       .keys = -1};
  }
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    const i32 ops[3] = {s->a, s->kind == S_CALL ? s->b : 0, s->c};
    for (int k = 0; k < 3; k++)
      if (ops[k]) note_kind(E, ty_x64_root(E, ops[k]));
    if (s->kind != S_CALL) continue;
    XVal *y = &E->val[s->y];
    y->size = code->slot[s->y].size;
    y->escapes = code->slot[s->y].last >= E->end;
    if (is_alias(E, s) && !y->escapes && !ty_x64_uniform(E, s->a)) y->alias = ty_x64_root(E, s->a);
    else y->kind = V_LOCAL, y->def = i;
  }
  /* Comparisons become lazy when nothing but selections reads them. */
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    if (is_compare(s) && !E->val[s->y].escapes) E->val[s->y].kind = V_LAZY;
  }
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    const i32 ops[3] = {s->a, s->kind == S_CALL ? s->b : 0, s->c};
    if (s->kind == S_CALL && E->val[s->y].alias >= 0) continue;
    for (int k = 0; k < 3; k++) {
      XVal *v = &E->val[ty_x64_root(E, ops[k])];
      bool condition = s->kind == S_CALL && s->op == P_SEL && k == 0;
      if (ops[k] && v->kind == V_LAZY && !condition) v->kind = V_LOCAL;
    }
  }
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    const i32 ops[3] = {s->a, s->kind == S_CALL ? s->b : 0, s->c};
    if (s->kind == S_CALL && (E->val[s->y].alias >= 0 || E->val[s->y].kind == V_LAZY)) continue;
    for (int k = 0; k < 3; k++)
      if (ops[k]) note_use(E, ops[k], i, s->kind == S_CALL && ty_x64_wants_reg(E, s, k));
  }
}

/* Vectors that are live at once, at most. */
static i32 pressure(Emit *E) {
  i32 live = 0, most = 0;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind == S_CALL && (E->val[s->y].alias >= 0 || E->val[s->y].kind == V_LAZY)) continue;
    i32 ops[5] = {s->a, s->kind == S_CALL ? s->b : 0, s->c, 0, 0};
    const XVal *c = &E->val[ty_x64_root(E, s->a)];
    if (c->kind == V_LAZY) ops[3] = E->code->step[c->def].a, ops[4] = E->code->step[c->def].b;
    i32 dying = 0;
    for (int k = 0; k < 5; k++) {
      if (!ops[k]) continue;
      i32 r = ty_x64_root(E, ops[k]);
      bool seen = false;
      for (int j = 0; j < k; j++) seen |= ops[j] && ty_x64_root(E, ops[j]) == r;
      XVal *v = &E->val[r];
      if (seen || (v->kind != V_STREAM && v->kind != V_LOCAL)) continue;
      if (v->group < 0) v->group = 1, live++; /* a mark, taken away below */
      dying += v->last <= i;
    }
    most = TY_MAX(most, live);
    live -= dying;
    if (s->kind == S_CALL) {
      XVal *y = &E->val[s->y];
      if (y->kind == V_LOCAL) most = TY_MAX(most, live + 1), y->group = 1;
      if (y->last > i) live++;
    }
  }
  for (i32 i = 0; i < E->code->nslot; i++) E->val[i].group = -1;
  return TY_MAX(most, 1);
}

static i32 reduce_lanes(const Step *s) { return s->type == C_I64 || s->type == C_F64 ? 32 : 64; }

/* Lengths of vectors, how many side by side, and which registers are whose. */
static void shape(Emit *E) {
  const Code *code = E->code;
  i32 word = 4, nreduce = 0, lanes = 0, registers = E->wide ? 32 : 16, temps = TEMPS;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    const i32 ops[4] = {s->a, s->kind == S_CALL ? s->b : 0, s->c, s->kind == S_CALL ? s->y : 0};
    for (int k = 0; k < 4; k++)
      if (ops[k]) word = TY_MAX(word, code->slot[ty_x64_root(E, ops[k])].size);
    temps = TY_MAX(temps, ty_x64_temps(s, E->wide));
    if (s->kind == S_REDUCE) nreduce++, lanes = TY_MAX(lanes, reduce_lanes(s));
  }
  E->reduces = nreduce > 0;
  E->vb = E->wide ? 64 : 32;
  E->lanes = E->vb / word;
  E->vl[1] = E->wide ? VL512 : VL256;
  E->vl[0] = word == 8 ? E->vl[1] - 1 : E->vl[1];
  i32 free = registers - temps, live = pressure(E);
  bool rows = nreduce && !E->col;
  i32 round = rows ? lanes / E->lanes : 0;
  E->acc = -1, E->acc_n = 0;
  if (rows && nreduce * round <= (E->wide ? 16 : 8) && free - nreduce * round >= 2 * live) {
    E->acc_n = nreduce * round;
    free -= E->acc_n;
  }
  /* Long chains wait for each other: the more of them side by side the better. */
  E->unroll = E->wide && !rows && E->end - E->first > 40 && 8 * live <= free - 4 ? 8 : 4;
  while (E->unroll > 2 && E->unroll * live > free) E->unroll /= 2;
  while (free / E->unroll < 5 && E->unroll > 1 && E->unroll * live > free) E->unroll /= 2;
  E->round = rows ? TY_MAX(round, E->unroll) : E->unroll;
  /* From the top: temporaries, accumulators, pins; groups from below. */
  i32 top = registers - temps;
  E->temp = top;
  if (E->acc_n) top -= E->acc_n, E->acc = top;
  i32 groups = TY_MIN(TY_MAX(live, 1), top / E->unroll);
  groups = TY_MAX(groups, TY_MIN(5, top / E->unroll)); /* what one step may want */
  E->ngroups = groups;
  for (i32 left = top - groups * E->unroll; left > 0; left--) {
    XVal *best = NULL;
    for (i32 i = 0; i < code->nslot; i++) {
      XVal *v = &E->val[i];
      if ((v->kind != V_CONST && v->kind != V_SCALAR) || !v->uses || v->pin >= 0) continue;
      if (!best || v->regs_wanted * 4 + v->uses > best->regs_wanted * 4 + best->uses) best = v;
    }
    if (!best) break;
    best->pin = --top;
  }
}

/* ---- the function ----------------------------------------------------------------------------- */

/* Rows that are left, what the caller gave, and the mask of what a main loop left. */
enum { KEPT_ROWS, KEPT_CHOICE, KEPT_BEGIN, KEPT_MASK, KEPT };
static X64Rm kept(const Emit *E, int which) { return x64_mem(RSP, RNONE, 0, E->kept + which * 8); }

static const u8 pointers[] = {R8, R9, R10, R11, R12, R13, R14, R15};

/* Addresses of all that is read or written, and of row values: the first ones of streams have registers,
** the others places in the frame. */
static i32 give_pointers(Emit *E, i32 n) {
  i32 used = 0, room = 0, left = 0;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    const i32 ops[5] = {s->a, s->kind == S_CALL ? s->b : 0, s->c, 0,
                        s->kind == S_REDUCE ? s->b : 0};
    for (int k = 0; k < 5; k++) {
      i32 r = ops[k] ? k < 4 ? ty_x64_root(E, ops[k]) : ops[k] : -1;
      bool row = k == 3 && s->kind == S_REDUCE && !E->col;
      if (k == 3 && (s->kind == S_STORE || row)) r = s->y;
      if (k == 3 && s->kind == S_CALL && E->val[s->y].escapes) r = s->y;
      if (r < 0) continue;
      XVal *v = &E->val[r];
      bool memory = v->kind == V_STREAM || k >= 3;
      if (row) v->row = true, v->size = E->code->slot[r].size;
      if (k == 4) v->still = !E->col;
      if ((!memory && !v->row) || v->ptr >= 0 || v->at >= 0) continue;
      if (!v->row && used < n) {
        v->ptr = pointers[used++];
        continue;
      }
      if (!left) room = frame_take(E, 512), left = 512;
      v->at = room, room += 8, left -= 8;
    }
  }
  return used;
}

static void load_pointers(Emit *E) {
  for (i32 i = 0; i < E->code->nslot; i++) {
    const XVal *v = &E->val[i];
    if (v->ptr >= 0) x64_load(&E->A, v->ptr, x64_mem(RDI, RNONE, 0, i * 8));
    if (v->at < 0) continue;
    x64_load(&E->A, RAX, x64_mem(RDI, RNONE, 0, i * 8));
    x64_save(&E->A, x64_mem(RSP, RNONE, 0, v->at), RAX);
  }
}

/* On to the next row. Row values went on when they were read or written. */
static void move_pointers(Emit *E) {
  for (i32 i = 0; i < E->code->nslot; i++) {
    const XVal *v = &E->val[i];
    X64Rm step = x64_mem(RDI, RNONE, 0, (E->code->nslot + i) * 8);
    if (v->still || v->row || (v->ptr < 0 && v->at < 0)) continue;
    if (v->ptr >= 0) {
      x64_add_load(&E->A, v->ptr, step);
      continue;
    }
    x64_load(&E->A, RAX, step);
    x64_add_save(&E->A, x64_mem(RSP, RNONE, 0, v->at), RAX);
  }
}

/* The address of the row's value goes to rax, and on to that of the next row. */
static void next_row_value(Emit *E, i32 slot) {
  const XVal *v = &E->val[slot];
  X64Rm m = x64_mem(RSP, RNONE, 0, v->at);
  x64_load(&E->A, RAX, m);
  x64_ri(&E->A, 0, RAX, v->size);
  x64_save(&E->A, m, RAX);
}

/* Constants and scalars in their registers or places; `row`: those that each row has its own of. */
static void load_uniforms(Emit *E, bool row) {
  for (i32 i = 0; i < E->code->nslot; i++) {
    XVal *v = &E->val[i];
    if (!v->uses || (v->kind != V_CONST && v->kind != V_SCALAR) || v->row != row) continue;
    if (v->kind == V_CONST) {
      if (v->pin < 0) continue;
      X64Rm k = ty_x64_k(E, v->bits, v->size);
      if (E->wide) broadcast(E, v->size, v->pin, k);
      else move(E, v->size, v->pin, k);
      continue;
    }
    int r = v->pin >= 0 ? v->pin : E->temp;
    if (row) next_row_value(E, i);
    else x64_load(&E->A, RAX, x64_mem(RDI, RNONE, 0, i * 8));
    broadcast(E, v->size, r, x64_mem(RAX, RNONE, 0, row ? -v->size : 0));
    if (v->pin >= 0) continue;
    if (v->home < 0) v->home = frame_take(E, E->vb);
    put(E, v->size, in_frame(E, v->home, 0), r);
  }
}

/* The round keys of random bits whose key is the same for all elements. */
static void make_keys(Emit *E) {
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind != S_CALL || s->op != P_PHILOX) continue;
    XVal *v = &E->val[ty_x64_root(E, s->c)];
    if (v->keys >= 0 || v->row || (v->kind != V_CONST && v->kind != V_SCALAR)) continue;
    v->keys = frame_take(E, 2 * PHILOX_ROUNDS * E->vb);
    ty_x64_round_keys(E, ty_x64_reg(E, s->c, E->temp), v->keys);
  }
}

/* The register with the address of a reduction's state: its own, or rax. */
static int state_of(Emit *E, const Step *s) {
  const XVal *v = &E->val[s->b];
  if (v->ptr >= 0) return v->ptr;
  x64_load(&E->A, RAX, x64_mem(RSP, RNONE, 0, v->at));
  return RAX;
}

/* States of rows' reductions between memory and their registers. */
static void move_accumulators(Emit *E, bool out) {
  i32 reg = E->acc;
  if (reg < 0) return;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind != S_REDUCE) continue;
    int size = E->code->slot[s->a].size;
    i32 n = reduce_lanes(s) / E->lanes, base = state_of(E, s);
    for (i32 g = 0; g < n; g++) {
      X64Rm m = x64_mem(base, RNONE, 0, g * E->lanes * size);
      if (out) put(E, size, m, reg + g);
      else move(E, size, reg + g, m);
    }
    reg += n;
  }
}

/* States as they are before the first element. */
static void begin_accumulators(Emit *E) {
  i32 reg = E->acc;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind != S_REDUCE) continue;
    int size = E->code->slot[s->a].size, r = reg < 0 ? 0 : reg;
    i32 n = reduce_lanes(s) / E->lanes;
    X64Rm k = ty_x64_k(E, ty_tile_identity(s->op, s->type), size);
    int base = reg < 0 ? state_of(E, s) : RNONE;
    for (i32 g = 0; g < n; g++)
      if (reg < 0) {
        if (!g) broadcast(E, size, r, k);
        put(E, size, x64_mem(base, RNONE, 0, g * E->lanes * size), r);
      } else if (!g) broadcast(E, size, r, k);
      else move(E, size, r + g, x64_reg(r));
    if (reg >= 0) reg += n;
  }
}

/* The states of a part of a row go to memory; the next ones, if these are of blocks, lie behind them. */
static void leave_states(Emit *E, bool out) {
  move_accumulators(E, out);
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind != S_REDUCE) continue;
    int base = state_of(E, s);
    x64_ri(&E->A, 0, base, NODE);
    if (base == RAX) x64_save(&E->A, x64_mem(RSP, RNONE, 0, E->val[s->b].at), RAX);
  }
}

/* The states of a whole row come down to its values. */
static void join_accumulators(Emit *E) {
  i32 reg = E->acc;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    if (s->kind != S_REDUCE) continue;
    int size = E->code->slot[s->a].size;
    i32 n = reduce_lanes(s) / E->lanes;
    if (reg < 0) x64_load(&E->A, RAX, x64_mem(RDI, RNONE, 0, s->b * 8));
    i32 vector = E->lanes * size, few = E->temp >= 8 ? 8 : 4; /* registers below the temporaries */
    for (i32 h = n / 2; h >= few && reg < 0; h /= 2)
      for (i32 g = 0; g < h; g++) {
        move(E, size, E->temp, x64_mem(RAX, RNONE, 0, g * vector));
        move(E, size, E->temp + 1, x64_mem(RAX, RNONE, 0, (g + h) * vector));
        ty_x64_fold(E, s, E->temp, E->temp, E->temp + 1);
        put(E, size, x64_mem(RAX, RNONE, 0, g * vector), E->temp);
      }
    few = reg < 0 ? TY_MIN(n, few) : n;
    for (i32 g = 0; g < few && reg < 0; g++) move(E, size, g, x64_mem(RAX, RNONE, 0, g * vector));
    next_row_value(E, s->y);
    ty_x64_join(E, s, reg < 0 ? 0 : reg, few);
    if (reg >= 0) reg += n;
  }
}

static void escape(Emit *E, const Step *s) {
  const XVal *v = &E->val[s->y];
  if (!v->escapes) return;
  X64Ins ins = v->size == 8 ? I_vmovupd : I_vmovups;
  int vl = ty_x64_vl(E, v->size);
  for (int u = 0; u < E->u; u++) {
    X64Rm m = ty_x64_at(E, s->y, v->size, E->g0 + u);
    int r = v->group * E->u + u;
    if (!E->tail) x64_vector(&E->A, ins, vl, r, 0, m, -1, 0, false, true);
    else if (E->wide)
      x64_vector(&E->A, ins, vl, r, 0, m, -1, ty_x64_mask(E, E->g0 + u), false, true);
    else {
      ty_x64_mask_to(E, v->size, E->temp, E->g0 + u);
      x64_vector(&E->A, v->size == 8 ? I_vmaskmovpd : I_vmaskmovps, vl, r, E->temp, m, -1, 0, false,
                 true);
    }
  }
}

static void body(Emit *E, i32 u, i32 g0, bool tail) {
  const Code *code = E->code;
  i32 ngroups = E->ngroups, nth = 0;
  bool storing = false;
  E->u = u, E->g0 = E->base = g0, E->tail = tail;
  if (tail && !E->side) E->ngroups = TY_MIN(ngroups * E->unroll, GROUPS);
  for (i32 g = 0; g < GROUPS; g++) E->owner[g] = -1;
  for (i32 i = 0; i < code->nslot; i++)
    if (E->val[i].spill >= 0 || E->val[i].group >= 0) give_up(E, i);
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &code->step[i];
    E->now = i, E->busy = 0;
    if (s->kind == S_CALL) {
      XVal *y = &E->val[s->y];
      if (y->alias >= 0 || y->kind == V_LAZY) continue;
      if (!y->uses && !y->escapes) continue;
      ty_x64_call(E, s);
      escape(E, s);
      if (y->last <= i) give_up(E, s->y);
    } else if (s->kind == S_REDUCE) {
      ty_x64_reduce(E, s, nth++);
    } else {
      for (i32 k = i; !storing && k < E->end; k++) { /* rule 3 */
        const XVal *v = &E->val[ty_x64_root(E, code->step[k].a)];
        E->busy = 0;
        if (code->step[k].kind == S_STORE && v->kind == V_STREAM && v->spill < 0)
          ty_x64_reg(E, code->step[k].a, E->temp);
      }
      storing = true, E->busy = 0;
      ty_x64_store(E, s);
    }
    ty_x64_done(E);
  }
  E->ngroups = ngroups;
}

#define EIGHT -1, -1, -1, -1, -1, -1, -1, -1
static const i32 ones[128] = {EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};

/* AVX2: the mask of a group; where all groups are done at once, rcx is where the first one's stands. */
void ty_x64_mask_to(Emit *E, int size, int reg, i32 group) {
  X64Rm m = x64_mem(RCX, RNONE, 0, group * E->lanes * 4);
  if (!E->side) move(E, size, reg, in_frame(E, size == 8 ? E->mask8 : E->mask4, 0));
  else if (size == 4) move(E, 4, reg, m);
  else ty_x64_v(E, I_vpmovsxdq, E->vl[1], reg, 0, m, -1, 0, false);
}

/* The mask of the elements that are left: rcx of them. */
static void tail_mask(Emit *E) {
  x64_rr(&E->A, G_MOV, RCX, RDX), x64_rr(&E->A, G_SUB, RCX, RSI);
  if (E->wide) {
    x64_mov32(&E->A, RAX, -1);
    x64_bzhi(&E->A, RAX, RAX, RCX);
    x64_kmov(&E->A, K_TAIL, RAX);
    return;
  }
  /* Ones, then zeros: read from as far in as elements are missing. */
  size_t few;
  x64_mov32(&E->A, RAX, E->lanes);
  x64_rr(&E->A, G_CMP, RCX, RAX);
  few = x64_jump(&E->A, J_BE, 0);
  x64_rr(&E->A, G_MOV, RCX, RAX);
  x64_patch(&E->A, few);
  x64_mov64(&E->A, RAX, (u64)(uintptr_t)(ones + 64));
  for (int i = 0; i < 4; i++) x64_rr(&E->A, G_SUB, RAX, RCX);
  move(E, 4, E->temp, x64_mem(RAX, RNONE, 0, 0));
  put(E, 4, in_frame(E, E->mask4, 0), E->temp);
  if (E->lanes * 8 == E->vb) {
    ty_x64_v(E, I_vpmovsxdq, E->vl[1], E->temp, 0, x64_reg(E->temp), -1, 0, false);
    put(E, 8, in_frame(E, E->mask8, 0), E->temp);
  }
}

static void main_loop(Emit *E, bool past) {
  Asm *A = &E->A;
  i32 turn = E->round * E->lanes;
  E->past = past;
  x64_lea(A, RAX, x64_mem(RSI, RNONE, 0, turn));
  x64_rr(A, G_CMP, RAX, RDX);
  size_t skip = x64_jump(A, J_A, 0), head = A->n;
  for (i32 g = 0; g < E->round; g += E->unroll) body(E, E->unroll, g, false);
  x64_ri(A, 0, RSI, turn);
  x64_lea(A, RAX, x64_mem(RSI, RNONE, 0, turn));
  x64_rr(A, G_CMP, RAX, RDX);
  x64_jump(A, J_BE, head);
  x64_patch(A, skip);
}

/* The masks of groups [g, g + unroll); rest: where the jump goes if there is nothing for them. */
static void side_masks(Emit *E, i32 g, size_t *rest) {
  Asm *A = &E->A;
  if (!g || !E->wide) x64_rr(A, G_MOV, RCX, RDX), x64_rr(A, G_SUB, RCX, RSI);
  if (!E->wide) {
    if (g) x64_ri(A, 7, RCX, g * E->lanes), *rest = x64_jump(A, J_BE, 0);
    x64_mov64(A, RAX, (u64)(uintptr_t)(ones + 64));
    for (int i = 0; i < 4; i++) x64_rr(A, G_SUB, RAX, RCX);
    x64_rr(A, G_MOV, RCX, RAX);
    return;
  }
  if (g) {
    x64_load(A, RAX, kept(E, KEPT_MASK));
    x64_shr(A, RAX, g * E->lanes);
    *rest = x64_jump(A, J_E, 0);
  } else {
    x64_mov64(A, RAX, ~(u64)0);
    x64_bzhi64(A, RAX, RAX, RCX);
    if (E->round > E->unroll) x64_save(A, kept(E, KEPT_MASK), RAX);
  }
  for (i32 u = 0; u < E->unroll; u++) {
    if (u) x64_shr(A, RAX, E->lanes);
    x64_kmov(A, K_SIDE + u, RAX);
  }
}

/* What is left after the main loop, all of it at once: as in the main loop, a mask for each group. */
static void side(Emit *E) {
  size_t rest[64];
  i32 n = 0;
  E->side = true;
  for (i32 g = 0; g < E->round; g += E->unroll) {
    side_masks(E, g, &rest[n]);
    n += g > 0;
    body(E, E->unroll, g, true);
  }
  while (n) x64_patch(&E->A, rest[--n]);
  E->side = false;
}

/* For reductions, whose states then stay in registers. Else a group goes by the next one: a masked access
** where nothing is left may lie in a page that nobody touched, which costs some hundred nanoseconds. */
static bool has_side(const Emit *E) {
  bool fits = E->wide ? E->unroll <= SIDES : !E->narrow_tail;
  if (!fits || E->round * E->lanes > 64) return false;
  return E->reduces && E->acc >= 0;
}

static void loops(Emit *E) {
  Asm *A = &E->A;
  if (E->streams) {
    x64_load(A, RAX, kept(E, KEPT_CHOICE));
    x64_ri(A, 7, RAX, 0);
    size_t plain = x64_jump(A, J_E, 0);
    main_loop(E, true);
    size_t end = x64_jump(A, J_ALWAYS, 0);
    x64_patch(A, plain);
    main_loop(E, false);
    x64_patch(A, end);
  } else main_loop(E, false);
  x64_rr(A, G_CMP, RSI, RDX);
  size_t done = x64_jump(A, J_AE, 0), head;
  if (has_side(E)) {
    side(E);
    x64_patch(A, done);
    return;
  }
  move_accumulators(E, true);
  x64_rr(A, G_XOR, TAIL_J, TAIL_J);
  head = A->n;
  tail_mask(E);
  body(E, 1, 0, true);
  x64_ri(A, 0, TAIL_J, E->lanes);
  x64_ri(A, 0, RSI, E->lanes);
  x64_rr(A, G_CMP, RSI, RDX);
  x64_jump(A, J_B, head);
  move_accumulators(E, false);
  x64_patch(A, done);
}

/* Takes one of two ways by the caller's choice; returns what is to be patched where the other begins. */
static size_t unless_chosen(Emit *E, int other) {
  x64_load(&E->A, RAX, kept(E, KEPT_CHOICE));
  x64_ri(&E->A, 7, RAX, 0);
  return x64_jump(&E->A, other, 0);
}
static void otherwise(Emit *E, size_t jump, void (*way)(Emit *E, bool out), bool out) {
  size_t end = x64_jump(&E->A, J_ALWAYS, 0);
  x64_patch(&E->A, jump);
  way(E, out);
  x64_patch(&E->A, end);
}

/* Row by row. Where rows with reductions are whole, states begin and are finished here; of blocks they
** begin. */
static void rows(Emit *E) {
  Asm *A = &E->A;
  bool reduces = E->reduces && !E->col;
  size_t next = A->n;
  load_uniforms(E, true);
  size_t block = A->n; /* of the same row */
  if (reduces) {
    size_t part = unless_chosen(E, J_E);
    begin_accumulators(E);
    otherwise(E, part, move_accumulators, false);
  }
  loops(E);
  if (reduces) {
    size_t part = unless_chosen(E, J_LE);
    join_accumulators(E);
    otherwise(E, part, leave_states, true);
  }
  x64_load(A, RAX, kept(E, KEPT_ROWS));
  x64_ri(A, 0, RAX, -1);
  x64_save(A, kept(E, KEPT_ROWS), RAX);
  size_t done = x64_jump(A, J_E, 0);
  move_pointers(E);
  x64_load(A, RSI, kept(E, KEPT_BEGIN));
  if (reduces) {
    x64_load(A, RAX, kept(E, KEPT_CHOICE));
    x64_ri(A, 7, RAX, 0);
    x64_jump(A, J_LE, block);
  }
  x64_jump(A, J_ALWAYS, next);
  x64_patch(A, done);
}

/* Constants stand behind the code: on AVX2 as whole vectors. */
static void place_pool(Emit *E) {
  static const u8 zero[64];
  Asm *A = &E->A;
  u32 at[POOL_MAX];
  size_t align = A->n & 31;
  if (E->npool && align) x64_bytes(A, zero, 32 - align);
  for (int wide = 1; wide >= 0; wide--)
    for (i32 i = 0; i < E->npool; i++) {
      if ((E->pool[i].size == 8) != wide) continue;
      int times = E->wide ? 1 : 32 / E->pool[i].size;
      at[i] = (u32)A->n;
      for (int k = 0; k < times; k++) x64_bytes(A, (const u8 *)&E->pool[i].bits, E->pool[i].size);
    }
  for (i32 f = 0; f < E->nfix && !A->failed; f++) {
    i32 d = (i32)(at[E->fix[f].entry] - E->fix[f].end);
    memcpy(A->p + E->fix[f].at, &d, 4);
  }
  x64_bytes(A, zero, (64 - (A->n & 63)) & 63);
}

/* In a long stretch memory waits for the operations, not they for it. */
static bool has_past(const Emit *E) {
  bool any = false;
  for (i32 i = E->first; i < E->end; i++) {
    const Step *s = &E->code->step[i];
    any |= s->kind == S_STORE && ty_dtypes[E->p->operand[s->imm].dtype].bytes >= 4;
  }
  return any && !E->reduces && E->end - E->first <= 64;
}

/* Windows makes a stack's pages as they are touched, each after the one before. */
#ifdef _WIN32
enum { PROBED = 1 };
#else
enum { PROBED = 0 };
#endif

/* Where the size of the frame is to be patched; PROBED: negative. */
static size_t take_frame(Asm *A) {
  enum { UNKNOWN = 0x10000, PAGE = 4096 };
  size_t room = A->n + 3;
  if (PROBED) {
    x64_lea(A, RAX, x64_mem(RSP, RNONE, 0, -UNKNOWN));
    room = A->n - 4;
    size_t page = A->n;
    x64_ri(A, 5, RSP, PAGE);
    x64_save(A, x64_mem(RSP, RNONE, 0, 0), RBX);
    x64_rr(A, G_CMP, RSP, RAX);
    x64_jump(A, J_A, page);
    x64_rr(A, G_MOV, RSP, RAX);
  } else x64_ri(A, 5, RSP, UNKNOWN);
  x64_ri(A, 4, RSP, -64);
  return room;
}

bool ty_x64_emit(Emit *E) {
  Asm *A = &E->A;
  E->npool = E->nfix = E->nspill = E->frame = 0;
  E->A.evex = E->wide;
  note_values(E);
  shape(E);
  E->narrow_tail = false;
  E->streams = has_past(E);
  /* A few operations wait for memory: rows are read faster than it guesses where they go on. */
  E->ahead = E->reduces && !E->col && E->end - E->first <= 4;
  for (i32 i = E->first; i < E->end && !E->wide; i++) {
    const Step *s = &E->code->step[i];
    const i32 ops[3] = {s->a, s->kind == S_CALL ? s->b : 0, s->c};
    for (int k = 0; k < 3; k++) {
      const XVal *v = &E->val[ty_x64_root(E, ops[k])];
      if (ops[k] && v->kind == V_STREAM && v->dtype >= 0 && ty_dtypes[v->dtype].bytes < 4)
        E->narrow_tail = true;
    }
    if (s->kind == S_STORE && ty_dtypes[E->p->operand[s->imm].dtype].bytes < 4)
      E->narrow_tail = true;
  }
  /* The last two move elements of narrow tails. */
  i32 used = give_pointers(E, TY_COUNT(pointers) - (E->narrow_tail ? 2 : 0));
  if (E->narrow_tail) used = TY_COUNT(pointers);
  E->mask4 = frame_take(E, 64), E->mask8 = frame_take(E, 64), E->pad = frame_take(E, 64);
  x64_push(A, RBP, false);
  x64_rr(A, G_MOV, RBP, RSP);
  x64_push(A, RBX, false);
  for (i32 i = 4; i < used; i++) x64_push(A, pointers[i], false);
  size_t room = take_frame(A);
  E->kept = frame_take(E, KEPT * 8);
  x64_save(A, kept(E, KEPT_ROWS), RCX);
  x64_save(A, kept(E, KEPT_CHOICE), R8);
  x64_save(A, kept(E, KEPT_BEGIN), RSI);
  load_pointers(E);
  load_uniforms(E, false);
  make_keys(E);
  rows(E);
  x64_lea(A, RSP, x64_mem(RBP, RNONE, 0, -8 * (1 + TY_MAX(used - 4, 0))));
  for (i32 i = used - 1; i >= 4; i--) x64_push(A, pointers[i], true);
  x64_push(A, RBX, true);
  x64_push(A, RBP, true);
  x64_vzeroupper(A);
  x64_ret(A);
  /* Threads may have small stacks, and nobody probes the pages of this one. */
  if (E->frame > FRAME_MAX) A->failed = true;
  if (!A->failed) memcpy(A->p + room, &(i32){PROBED ? -E->frame : E->frame}, 4);
  place_pool(E);
  return !A->failed;
}
