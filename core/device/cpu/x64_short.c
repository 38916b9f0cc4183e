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
*/
#include "device/cpu/x64.h"

enum {
  FLAT_SLOTS = 192,
  FEW_ROWS = 16,
  LONG_ROW = 24
}; /* rows: a short one costs as much as a long one */
enum {
  ROW_SLOTS = 64,
  ROW_STATES = 4,
  ROW_VALUES = 16,
  ROW_UNIFORM = 8,
  ROW_LINE = 512,
  ROW_PARTS = 64
};

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
  i32 nline; /* values of all elements that go from phase to phase */
  struct RowPart {
    const Step *step;
    const Native *v; /* NULL: the step is done */
  } part[ROW_PARTS];
  ShortSlot from[];
} RowRun;

/* ---- making ------------------------------------------------------------------------------------- */

/* What step i asks for; false: it is none that a short run can do. slot -1: nothing. */
static bool step_of_stretch(const Kernel *k, const Native *v, i32 i, ShortSlot *y) {
  const Step *s = &k->code[0].step[i];
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
    ok = step_of_stretch(k, code->native, i, &y->from[y->nfrom]);
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
static bool add_stretch(RowRun *y, const Kernel *k, const Phase *phase) {
  const Code *code = &k->code[0];
  const Native *v = NULL;
  for (i32 i = phase->elem; i < phase->end; i++) {
    const i32 native = code->step[i].native;
    if (native && v) return false;
    if (native) v = &code->native[native - 1];
  }
  if (!v) return phase->elem == phase->end;
  for (i32 i = phase->elem; i < phase->end; i++) {
    if (!step_of_stretch(k, v, i, &y->from[y->nfrom])) return false;
    if (y->from[y->nfrom].slot >= 0) y->nfrom++;
  }
  return add_part(y, &code->step[v->first], v);
}

static void find_row(Kernel *k) {
  const Code *code = &k->code[0];
  if (!code->nnative || code->nslot > ROW_SLOTS || code->nrow > ROW_VALUES ||
      code->nuniform > ROW_UNIFORM || code->nreduce > ROW_STATES || code->nscan)
    return;
  const size_t bytes = sizeof(RowRun) + sizeof(ShortSlot) * (size_t)(code->nstep + code->nslot);
  RowRun *y = ty_mem_zalloc(bytes);
  bool ok = y && add_values(y, code, 0, code->uniform);
  for (i32 i = 0; i < code->nslot && ok; i++) y->nfrom += fixed_slot(code, i, &y->from[y->nfrom]);
  for (i32 i = 0; i <= code->nphase && ok; i++) {
    const Phase *p = &code->phase[i];
    ok = add_values(y, code, p->row, p->elem) && (i == code->nphase || add_stretch(y, k, p));
  }
  if (!ok) {
    ty_mem_free(y);
    return;
  }
  y->nslot = code->nslot, y->nline = code->nwide;
  k->row = y;
  k->bytes += bytes;
}

void ty_x64_find_short(Kernel *k) {
  if (k->p->kind == K_MAP) find_flat(k);
  else if (k->p->kind == K_ROW) find_row(k);
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
  if ((u64)k->row->nline * (((u64)n * (u64)k->word + 63) & ~(u64)63) > ROW_LINE) return 0;
  for (int i = 0; i < k->p->noperands; i++)
    if (k->p->operand[i].level == L_ELEM &&
        !ty_is_contiguous(L->nr, L->dims + L->no, L->strides[i] + L->no))
      return 0;
  return n;
}

/* A step over the row's values, which is one of each. */
static void run_value(const Kernel *k, const Run *r, const Step *s, void **p) {
  if (s->kind == S_CALL) {
    s->fn(p[s->y], p[s->a], p[s->b], p[s->c], 1, s->imm);
    return;
  }
  const int dtype = k->p->operand[s->imm].dtype, bytes = ty_dtypes[dtype].bytes;
  char *x = (char *)r->buf[s->imm] + r->launch->start[s->imm] * bytes;
  if (bytes < 4 && s->kind == S_LOAD) k->isa->load[dtype](p[s->y], x, 1, 1);
  else if (bytes < 4) k->isa->store[dtype](x, 1, p[s->a], 1);
  else if (s->kind == S_LOAD) memcpy(p[s->y], x, bytes == 8 ? 8 : 4);
  else memcpy(x, p[s->a], bytes == 8 ? 8 : 4);
}

bool ty_x64_run_row(const Kernel *k, const Run *r) {
  const Launch *L = r->launch;
  const RowRun *row = k->row;
  _Alignas(64) char state[ROW_STATES * NODE], value[ROW_VALUES * 64], line[ROW_LINE];
  u64 uniform[ROW_UNIFORM];
  void *p[2 * ROW_SLOTS];
  const i64 n = row_length(k, L);
  if (!n) return false;
  const i64 apart = (n * k->word + 63) & ~(i64)63;
  for (const ShortSlot *s = row->from, *end = s + row->nfrom; s < end; s++) {
    void **at = &p[s->slot];
    switch ((SlotOf)s->of) {
    case OF_OPERAND: *at = (char *)r->buf[s->operand] + L->start[s->operand] * s->bytes; break;
    case OF_SCALAR: *at = (void *)(uintptr_t)&r->scalar[s->number]; break;
    case OF_CONSTANT: *at = (void *)(uintptr_t)s->at; break;
    case OF_VALUE: *at = value + s->number * 64; break;
    case OF_UNIFORM: *at = &uniform[s->number]; break;
    case OF_LINE: *at = line + s->number * apart; break;
    case OF_STATE: *at = state + s->number * NODE; break;
    }
  }
  memset(p + row->nslot, 0, (size_t)row->nslot * sizeof *p);
  u32 fp = ty_fp_enter();
  for (const struct RowPart *part = row->part, *end = part + row->npart; part < end; part++)
    if (part->v) part->v->fn(p, 0, n, 1, part->v->reduces);
    else run_value(k, r, part->step, p);
  ty_fp_leave(fp);
  return true;
}
