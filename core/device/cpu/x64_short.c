/*
** x64_short.c -- short runs of native kernels: maps and rows that one tile holds, and whose operands lie flat.
** In:  a kernel and a launch.  Out: the outputs are written; or it is not such a run, and the tile machine is to do it.
** Cannot fail.
**
** What tile_run.c works out for each run (how the domain is cut, where operands lie, a frame) is the same for all short
** ones. So it is worked out when the kernel is made: which slots are addresses of operands, and what is called. The calls
** are those of tile_run.c, over the same elements: so are the bits.
**   flat  a map that is one stretch between loads by address; where operands are broadcast, rows that lie flat
**   row   the only row of a launch, phase by phase: what is computed of its values, then one stretch over its elements
**   col   few columns, of one block of rows: the same, by turns of rows of all lanes
*/
#include "device/cpu/x64.h"

enum {
  FLAT_SLOTS = 192,
  FEW_ROWS = 16,
  LONG_ROW = 24
}; /* rows: a short one costs as much as a long one */
enum { ROW_SLOTS = 64, ROW_UNIFORM = 8, ROW_PARTS = 64, ROW_ROOM = 2560 }; /* ROOM: bytes */

/* The address of a slot. */
typedef enum { OF_OPERAND, OF_SCALAR, OF_CONSTANT, OF_VALUE, OF_UNIFORM, OF_LINE, OF_STATE } SlotOf;
typedef struct ShortSlot {
  u8 of;
  i16 operand, bytes; /* OPERAND: its elements' bytes */
  i32 slot;
  i32 number; /* of the run's scalar; among the values, states ... */
  const void *at;
} ShortSlot;

typedef struct FlatRun {
  NativeFn *fn;
  i32 nslot, nfixed, nfrom; /* `from` begins with what is no operand */
  ShortSlot from[];
} FlatRun;

typedef struct RowRun {
  i32 nslot, nfrom, npart;
  struct RowPart {
    const Step *step;
    const Native *v; /* NULL: the step is done */
  } part[ROW_PARTS];
  ShortSlot from[];
} RowRun; /* and of columns */

/* ---- making ------------------------------------------------------------------------------------- */

/* What step i asks for; false: it is none that a short run can do. slot -1: nothing. */
static bool step_of_stretch(const Kernel *k, const Code *code, const Native *v, i32 i,
                            ShortSlot *y) {
  const Step *s = &code->step[i];
  const bool inside = i >= v->first && i < v->end;
  *y = (ShortSlot){.slot = -1};
  if (inside && s->kind == S_REDUCE) {
    *y = (ShortSlot){.of = OF_STATE, .slot = s->b, .number = s->state};
    return true;
  }
  if (inside ? s->kind == S_CALL : s->kind == S_SKIP) return true;
  if (inside ? s->kind != S_STORE : s->kind != S_LOAD || !s->raw || s->row || s->copy) return false;
  *y = (ShortSlot){.of = OF_OPERAND,
                   .slot = s->y,
                   .operand = (i16)s->imm,
                   .bytes = (i16)ty_dtypes[k->p->operand[s->imm].dtype].bytes};
  return true;
}

/* Fills *y for a slot whose place is no operand; false: there is nothing to fill. */
static bool fixed_slot(const Code *code, i32 i, ShortSlot *y) {
  const Slot *s = &code->slot[i];
  *y = (ShortSlot){.slot = i, .number = s->number, .at = &s->imm};
  switch (s->place) {
  case AT_CONST: y->of = OF_CONSTANT; return true;
  case AT_SCALAR: y->of = OF_SCALAR, y->number = (i32)s->imm; return true;
  case AT_ROW: y->of = OF_VALUE; return true;
  case AT_UNIFORM: y->of = OF_UNIFORM; return true;
  case AT_WIDE: y->of = OF_LINE; return true;
  default: return false;
  }
}

/* Without memory kernels have no short runs. */
static void find_flat(Kernel *k) {
  const Code *code = &k->code[0];
  if (k->plain || code->uniform || code->nnative != 1 || code->nphase != 1 ||
      code->native->reduces || code->nslot > FLAT_SLOTS)
    return;
  const i32 begin = code->phase[0].elem, end = code->phase[0].end;
  const size_t bytes = sizeof(FlatRun) + sizeof(ShortSlot) * (size_t)(end - begin + code->nslot);
  FlatRun *y = ty_mem_zalloc(bytes);
  bool ok = y != NULL;
  if (ok) y->fn = code->native->fn, y->nslot = code->nslot;
  for (i32 i = 0; i < code->nslot && ok; i++)
    if (fixed_slot(code, i, &y->from[y->nfrom])) {
      const u8 of = y->from[y->nfrom].of;
      if (of == OF_CONSTANT || of == OF_SCALAR) y->nfixed = ++y->nfrom;
    }
  for (i32 i = begin; i < end && ok; i++) {
    ok = step_of_stretch(k, code, code->native, i, &y->from[y->nfrom]);
    if (ok && y->from[y->nfrom].slot >= 0) y->nfrom++;
  }
  if (!ok) {
    ty_mem_free(y);
    return;
  }
  k->flat = y;
  k->bytes += bytes;
}

static bool add_part(RowRun *y, const Step *s, const Native *v) {
  if (y->npart == ROW_PARTS) return false;
  y->part[y->npart++] = (struct RowPart){s, v};
  return true;
}

/* Steps over the row's values. */
static bool add_values(RowRun *y, const Code *code, i32 from, i32 to) {
  for (i32 i = from; i < to; i++) {
    const Step *s = &code->step[i];
    if (s->kind == S_SKIP) continue;
    if (s->native || (s->kind != S_CALL && s->kind != S_LOAD && s->kind != S_STORE)) return false;
    if ((s->kind == S_STORE && s->state >= 0) || s->raw || !add_part(y, s, NULL)) return false;
  }
  return true;
}

/* The steps over the elements of a phase: one stretch, which reads by address. */
static bool add_stretch(RowRun *y, const Kernel *k, const Code *code, const Phase *phase) {
  const Native *v = NULL;
  for (i32 i = phase->elem; i < phase->end; i++) {
    const i32 native = code->step[i].native;
    if (native && v) return false;
    if (native) v = &code->native[native - 1];
  }
  if (!v) return phase->elem == phase->end;
  for (i32 i = phase->elem; i < phase->end; i++) {
    if (!step_of_stretch(k, code, v, i, &y->from[y->nfrom])) return false;
    if (y->from[y->nfrom].slot >= 0) y->nfrom++;
  }
  return add_part(y, &code->step[v->first], v);
}

static void find_row(Kernel *k) {
  const bool col = k->p->kind == K_COL;
  const Code *code = &k->code[col];
  if (col && (code->nphase != 1 || code->nwide)) return;
  if (!code->nnative || code->nslot > ROW_SLOTS || code->nuniform > ROW_UNIFORM || code->nscan)
    return;
  const size_t bytes = sizeof(RowRun) + sizeof(ShortSlot) * (size_t)(code->nstep + code->nslot);
  RowRun *y = ty_mem_zalloc(bytes);
  bool ok = y && add_values(y, code, 0, code->uniform);
  for (i32 i = 0; i < code->nslot && ok; i++) y->nfrom += fixed_slot(code, i, &y->from[y->nfrom]);
  for (i32 i = 0; i <= code->nphase && ok; i++) {
    const Phase *p = &code->phase[i];
    ok = add_values(y, code, p->row, p->elem) && (i == code->nphase || add_stretch(y, k, code, p));
  }
  if (!ok) {
    ty_mem_free(y);
    return;
  }
  y->nslot = code->nslot;
  k->row = y;
  k->bytes += bytes;
}

void ty_x64_find_short(Kernel *k) {
  if (k->p->kind == K_MAP) find_flat(k);
  else find_row(k);
}

/* ---- running ------------------------------------------------------------------------------------ */

/* How many rows, along the first dim, and of which length; one where all lies flat. False: a tile does not hold them, or
** they do not lie so. */
static bool flat_rows(const Kernel *k, const Launch *L, i64 *rows, i64 *length) {
  i64 n = 1;
  for (int d = 0; d < L->ni; d++) n *= L->dims[d];
  *rows = 1, *length = n;
  if (n > k->tile || !n) return false;
  bool flat = true, by_rows = L->ni > 1;
  for (int i = 0; i < k->p->noperands && !L->flat; i++) {
    flat = flat && ty_is_contiguous(L->ni, L->dims, L->strides[i]);
    by_rows = by_rows && ty_is_contiguous(L->ni - 1, L->dims + 1, L->strides[i] + 1);
  }
  if (!flat && by_rows) *rows = L->dims[0], *length = n / L->dims[0];
  return flat || (by_rows && (*rows <= FEW_ROWS || *length >= LONG_ROW));
}

bool ty_x64_reserve(const Kernel *k, const Launch *l) {
  i64 rows, n;
  return (k->flat && flat_rows(k, l, &rows, &n)) || ty_tile_reserve(k, l);
}

bool ty_x64_run_flat(const Kernel *k, const Run *r) {
  const Launch *L = r->launch;
  const FlatRun *flat = k->flat;
  void *p[2 * FLAT_SLOTS]; /* behind the addresses: how far rows lie apart */
  i64 rows, n;
  if (!flat_rows(k, L, &rows, &n)) return false;
  const ShortSlot *s = flat->from, *fixed = s + flat->nfixed, *end = s + flat->nfrom;
  void **apart = p + flat->nslot;
  for (; s < fixed; s++) {
    p[s->slot] =
        (void *)(uintptr_t)(s->of == OF_SCALAR ? (const void *)&r->scalar[s->number] : s->at);
    apart[s->slot] = NULL;
  }
  for (; s < end; s++) {
    p[s->slot] = (char *)r->buf[s->operand] + L->start[s->operand] * s->bytes;
    const i64 bytes = rows == 1 ? 0 : L->strides[s->operand][0] * s->bytes;
    apart[s->slot] = (void *)(uintptr_t)bytes;
  }
  u32 fp = ty_fp_enter();
  flat->fn(p, 0, n, rows, 0);
  ty_fp_leave(fp);
  return true;
}

/* The length of the launch's only row, of which a tile has room for all; 0: it is no such launch. */
static i64 row_length(const Kernel *k, const Launch *L) {
  i64 n = 1, others = 1;
  for (int d = 0; d < L->no + L->nr + L->ni; d++)
    if (d >= L->no && d < L->no + L->nr) n *= L->dims[d];
    else others *= L->dims[d];
  if (others != 1 || n > k->tile || n < 1) return 0;
  for (int i = 0; i < k->p->noperands; i++)
    if (k->p->operand[i].level == L_ELEM &&
        !ty_is_contiguous(L->nr, L->dims + L->no, L->strides[i] + L->no))
      return 0;
  return n;
}

/* A step over the values of n columns, or of a row, which has one of each. */
static void run_value(const Kernel *k, const Run *r, const Step *s, void **p, i64 n) {
  if (s->kind == S_CALL) {
    s->fn(p[s->y], p[s->a], p[s->b], p[s->c], n, s->imm);
    return;
  }
  const int dtype = k->p->operand[s->imm].dtype, bytes = ty_dtypes[dtype].bytes;
  char *x = (char *)r->buf[s->imm] + r->launch->start[s->imm] * bytes;
  if (bytes < 4 && s->kind == S_LOAD) k->isa->load[dtype](p[s->y], x, 1, n);
  else if (bytes < 4) k->isa->store[dtype](x, 1, p[s->a], n);
  else if (s->kind == S_LOAD) memcpy(p[s->y], x, (size_t)(n * bytes));
  else memcpy(x, p[s->a], (size_t)(n * bytes));
}

/* Where slots lie. `room` holds the values, then the states, then lines; so many bytes each. */
typedef struct Places {
  char *room;
  i64 value, state, line;
  u64 *uniform;
} Places;

static void place_slots(const Kernel *k, const Run *r, const Code *code, const Places *at,
                        void **p) {
  const Launch *L = r->launch;
  char *states = at->room + code->nrow * at->value, *lines = states + code->nreduce * at->state;
  for (const ShortSlot *s = k->row->from, *end = s + k->row->nfrom; s < end; s++) {
    void **y = &p[s->slot];
    switch ((SlotOf)s->of) {
    case OF_OPERAND: *y = (char *)r->buf[s->operand] + L->start[s->operand] * s->bytes; break;
    case OF_SCALAR: *y = (void *)(uintptr_t)&r->scalar[s->number]; break;
    case OF_CONSTANT: *y = (void *)(uintptr_t)s->at; break;
    case OF_VALUE: *y = at->room + s->number * at->value; break;
    case OF_UNIFORM: *y = &at->uniform[s->number]; break;
    case OF_LINE: *y = lines + s->number * at->line; break;
    case OF_STATE: *y = states + s->number * at->state; break;
    }
  }
  memset(p + k->row->nslot, 0, (size_t)k->row->nslot * sizeof *p);
}

static i64 align64(i64 n) { return (n + 63) & ~(i64)63; }

static bool run_row(const Kernel *k, const Run *r) {
  const Code *code = &k->code[0];
  const RowRun *row = k->row;
  _Alignas(64) char room[ROW_ROOM];
  u64 uniform[ROW_UNIFORM];
  void *p[2 * ROW_SLOTS];
  const i64 n = row_length(k, r->launch);
  const Places at = {room, 64, NODE, align64(n * k->word), uniform};
  if (!n || code->nrow * at.value + code->nreduce * at.state + code->nwide * at.line > ROW_ROOM)
    return false;
  place_slots(k, r, code, &at, p);
  u32 fp = ty_fp_enter();
  for (const struct RowPart *part = row->part, *end = part + row->npart; part < end; part++)
    if (part->v) part->v->fn(p, 0, n, 1, part->v->reduces);
    else run_value(k, r, part->step, p, 1);
  ty_fp_leave(fp);
  return true;
}

/* Whether all columns of one block of rows are all that there is, flat: so many rows and columns. */
static bool is_block(const Kernel *k, const Launch *L, i64 *rows, i64 *cols) {
  const int first = L->no, behind = first + L->nr, end = behind + L->ni;
  i64 others = 1;
  *rows = *cols = 1;
  for (int d = 0; d < end; d++)
    if (d < first) others *= L->dims[d];
    else if (d < behind) *rows *= L->dims[d];
    else *cols *= L->dims[d];
  if (others != 1 || *rows > COL_BLOCK || *rows < 1 || *cols < 1) return false;
  for (int i = 0; i < k->p->noperands; i++) {
    const int from = k->p->operand[i].level == L_ELEM ? first : behind;
    if (!ty_is_contiguous(end - from, L->dims + from, L->strides[i] + from)) return false;
  }
  return true;
}

/* The stretch over all elements: turns of one row for each lane, then the rows that are left. */
static void run_columns(const Kernel *k, const Code *code, const Native *v, void **p, i64 rows,
                        i64 cols) {
  const i64 turn = cols * COL_LANES, n = rows * cols, turns = n / turn, rest = turns * turn;
  for (i32 i = v->special; i < v->end; i++) {
    const Step *s = &code->step[i];
    const u64 identity = s->kind == S_REDUCE ? ty_tile_identity(s->op, s->type) : 0;
    if (s->kind == S_REDUCE)
      k->isa->fill[ty_tile_size(s->type) == 8](p[s->b], &identity, NULL, NULL, turn, 0);
  }
  for (const ShortSlot *s = k->row->from, *end = s + k->row->nfrom; s < end; s++)
    if (s->of == OF_OPERAND) p[code->nslot + s->slot] = (void *)(uintptr_t)(turn * s->bytes);
  if (turns) v->fn(p, 0, turn, turns, 0);
  for (i32 i = v->special; i < v->end; i++) {
    const Step *s = &code->step[i];
    if (s->kind == S_REDUCE)
      p[s->b] = (void *)((uintptr_t)p[s->b] - (uintptr_t)(rest * ty_tile_size(s->type)));
  }
  if (rest < n) v->fn(p, rest, n, 1, 0);
  for (i32 i = v->special; i < v->end; i++) { /* lanes join */
    static const u8 ops[R_KINDS] = {P_ADD, P_MUL, P_MAX, P_MIN};
    const Step *s = &code->step[i];
    if (s->kind != S_REDUCE) continue;
    TileFn *fn = k->isa->fn[ops[s->op] - P_ADD][s->type][0];
    const i64 size = ty_tile_size(s->type);
    char *state = (char *)((uintptr_t)p[s->b] + (uintptr_t)(rest * size));
    fn(state, state, state + 2 * cols * size, NULL, 2 * cols, 0);
    fn(p[s->y], state, state + cols * size, NULL, cols, 0);
  }
}

static bool run_col(const Kernel *k, const Run *r) {
  const Code *code = &k->code[1];
  const RowRun *row = k->row;
  _Alignas(64) char room[ROW_ROOM];
  u64 uniform[ROW_UNIFORM];
  void *p[2 * ROW_SLOTS];
  i64 rows, cols;
  if (!is_block(k, r->launch, &rows, &cols)) return false;
  const Places at = {room, align64(cols * k->word), align64(COL_LANES * cols * k->word), 0,
                     uniform};
  if (cols > ROW_ROOM || code->nrow * at.value + code->nreduce * at.state > ROW_ROOM) return false;
  place_slots(k, r, code, &at, p);
  u32 fp = ty_fp_enter();
  i64 n = 1; /* uniform steps come first */
  for (const struct RowPart *part = row->part, *end = part + row->npart; part < end; part++) {
    if (part->step >= code->step + code->uniform) n = cols;
    if (part->v) run_columns(k, code, part->v, p, rows, cols);
    else run_value(k, r, part->step, p, n);
  }
  ty_fp_leave(fp);
  return true;
}

bool ty_x64_run_row(const Kernel *k, const Run *r) {
  return k->p->kind == K_ROW ? run_row(k, r) : run_col(k, r);
}
