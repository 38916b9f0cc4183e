/*
** tile_strand.c -- the portable machine: steps that follow one another become strands.
** In:  steps in order.  Out: the first step of each strand is marked; the links say what to do.
** Fails when memory runs out.
**
** A strand is a run of calls whose values all have one width. Its running value is the result of
** the step before. A step takes the running value as one of its operands if there is a form for
** that, else it first loads one of its operands. A result goes to memory only if anyone but the
** next step's running value needs it. That is decided when the next step is seen, before anything
** else is linked.
*/
#include "base/system.h"
#include "device/cpu/tile.h"

typedef struct Plan {
  MicroFn *fn;
  i32 load;   /* slot to load first, or -1 */
  i32 p, q;   /* slots of the other operands */
  bool reads; /* the running value is also wanted from memory */
} Plan;

void ty_tile_lives(Code *code) {
  for (i32 i = 0; i < code->nslot; i++) code->slot[i].def = code->slot[i].last = -1;
  for (i32 i = 0; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    Slot *slot = code->slot;
    if (slot[s->y].def < 0) slot[s->y].def = i;
    slot[s->y].last = slot[s->a].last = slot[s->b].last = slot[s->c].last = i;
  }
}

enum { A = 1, M, S }; /* an operand: the running value, memory, a scalar; 0: absent */

/* The form for three operands, two bits each; -1: there is none. */
static int form_of(int kinds) {
#define KINDS(a, b, c) ((a) | (b) << 2 | (c) << 4)
  static const i8 forms[64] = {
      [KINDS(A, 0, 0)] = F_A + 1,   [KINDS(A, M, 0)] = F_AM + 1,  [KINDS(A, S, 0)] = F_AS + 1,
      [KINDS(A, A, 0)] = F_AA + 1,  [KINDS(M, A, 0)] = F_MA + 1,  [KINDS(S, A, 0)] = F_SA + 1,
      [KINDS(A, M, M)] = F_AMM + 1, [KINDS(A, M, S)] = F_AMS + 1, [KINDS(A, S, M)] = F_ASM + 1,
      [KINDS(A, S, S)] = F_ASS + 1, [KINDS(A, A, M)] = F_AAM + 1, [KINDS(A, A, S)] = F_AAS + 1,
      [KINDS(M, M, A)] = F_MMA + 1, [KINDS(M, S, A)] = F_MSA + 1, [KINDS(M, A, M)] = F_MAM + 1,
      [KINDS(M, A, S)] = F_MAS + 1};
#undef KINDS
  return forms[kinds] - 1;
}

static bool commutes(int op) {
  return op == P_ADD || op == P_MUL || op == P_MIN || op == P_MAX || op == P_AND || op == P_OR ||
         op == P_XOR || op == P_EQ || op == P_FMA;
}

/* Where the row of (op, type, form) stands among the rows, plus 1. */
static u8 row_of[P_COUNT][4][F_COUNT];
static Once index_once = ONCE_INIT;

static void index_rows(void) {
  const StrandIsa *isa = ty_tile_isa()->strands;
  for (i32 i = 0; i < isa->nrows; i++) {
    const StrandRow *r = &isa->rows[i];
    row_of[r->op][r->type][r->form] = (u8)(i + 1);
  }
}

static MicroFn *lookup(const StrandIsa *isa, const Step *s, int kinds) {
  int form = form_of(kinds);
  if (form < 0) return NULL;
  if (s->op == P_NARROW) return isa->narrow[s->imm];
  int row = row_of[s->op][s->type][form];
  return row ? isa->rows[row - 1].fn : NULL;
}

/* A way to do the step with slot `run` as the running value, where the operands `as` (bits) are
** it. */
static bool try(const StrandIsa *isa, const Step *s, i32 run, int as, bool swap, Plan *P) {
  i32 slot[3] = {s->a, s->b, s->c}, other[3] = {0, 0, 0};
  int n = 0, kinds = 0, scalars = s->scalars;
  if (swap) {
    slot[0] = s->b, slot[1] = s->a;
    scalars = (scalars & 4) | (scalars & 1) << 1 | (scalars >> 1 & 1);
  }
  P->reads = false;
  for (int k = 0; k < 3 && slot[k]; k++) {
    bool running = as >> k & 1;
    if (running && (slot[k] != run || scalars >> k & 1)) return false;
    kinds |= (running ? A : scalars >> k & 1 ? S : M) << 2 * k;
    if (!running) other[n++] = slot[k], P->reads |= slot[k] == run;
  }
  P->fn = lookup(isa, s, kinds);
  P->p = other[0], P->q = other[1];
  return P->fn != NULL;
}

static bool plan_with(const StrandIsa *isa, const Step *s, i32 run, Plan *P) {
  static const u8 order[] = {3, 1, 2, 4}; /* as two operands, else as one */
  for (int swap = 0; swap <= commutes(s->op); swap++)
    for (int i = 0; i < TY_COUNT(order); i++)
      if (try(isa, s, run, order[i], swap, P)) return true;
  return false;
}

/* `run`: slot of the running value, or -1. */
static bool plan(const StrandIsa *isa, const Step *s, i32 run, Plan *P) {
  P->load = -1;
  if (run >= 0 && plan_with(isa, s, run, P)) return true;
  const i32 slot[3] = {s->a, s->b, s->c};
  for (int k = 0; k < 3; k++) {
    if (!slot[k] || s->scalars >> k & 1 || !plan_with(isa, s, slot[k], P)) continue;
    /* Loaded from memory, so the running value must be there if it is one of the operands. */
    P->load = slot[k];
    P->reads = slot[0] == run || slot[1] == run || slot[2] == run;
    return true;
  }
  return false;
}

/* Slot 0 and scalars have no width of their own. */
static bool has_width(const Code *code, const Step *s, int size) {
  const i32 slot[3] = {s->a, s->b, s->c};
  for (int k = 0; k < 3; k++)
    if (slot[k] && !(s->scalars >> k & 1) && code->slot[slot[k]].size != size) return false;
  return code->slot[s->y].size == size;
}

static i32 strand_length(const Code *code, const StrandIsa *isa, i32 i) {
  int size = code->slot[code->step[i].y].size;
  Plan P;
  i32 n = 0;
  for (; i + n < code->nstep; n++) {
    const Step *s = &code->step[i + n];
    if (s->kind != S_CALL || s->row || !has_width(code, s, size) || !plan(isa, s, -1, &P)) break;
  }
  return n;
}

static void link_strand(Code *code, const StrandIsa *isa, i32 first, i32 n) {
  Strand *st = &code->strand[code->nstrand];
  i32 run = -1;
  *st = (Strand){.steps = n, .first = code->nlink, .size = code->slot[code->step[first].y].size};
  for (i32 i = first; i < first + n; i++) {
    const Step *s = &code->step[i];
    Plan P;
    plan(isa, s, run, &P);
    if (run >= 0 && (P.reads || code->slot[run].last > i))
      code->link[code->nlink++] = (Link){isa->store, run, 0};
    if (P.load >= 0) code->link[code->nlink++] = (Link){isa->load, P.load, 0};
    code->link[code->nlink++] = (Link){P.fn, P.p, P.q};
    run = s->y;
  }
  code->link[code->nlink++] = (Link){isa->store, run, 0};
  code->link[code->nlink++] = (Link){isa->end, 0, 0};
  st->end = code->nlink;
  code->longest = TY_MAX(code->longest, st->end - st->first);
  code->step[first].kind = S_STRAND;
  code->step[first].state = code->nstrand++;
}

bool ty_tile_strands(Code *code, const StrandIsa *isa) {
  if (!isa) return true;
  ty_once(&index_once, index_rows);
  /* A step takes three links at most: the last value stored, a load, itself. */
  code->link = ty_mem_alloc((size_t)(4 * code->nstep + 2) * sizeof(Link));
  code->strand = ty_mem_alloc((size_t)(code->nstep / 2 + 1) * sizeof(Strand));
  if (!code->link || !code->strand) return false;
  /* Strands do not cross from rows to elements or from one phase to the next: there `row` differs,
  ** or a reduction stands between. */
  for (i32 i = code->uniform; i < code->nstep; i++) {
    i32 n = strand_length(code, isa, i);
    if (n < 2) continue;
    link_strand(code, isa, i, n);
    i += n - 1;
  }
  return true;
}
