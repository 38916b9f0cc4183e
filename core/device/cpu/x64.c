/*
** x64.c -- the native machine: loop programs as x86-64 machine code.
** In:  a loop program.  Out: a kernel. Fails when out of memory, where the system lets no code be made, and
** for programs of which nothing can be native: the caller then takes the portable machine.
**
** The portable machine (tile.c) already decides what runs over what: rows, columns, tiles, threads,
** phases, and in which order sums are made. This machine takes a kernel of it and replaces stretches of
** steps by functions: every stretch of element steps that stand together and are native becomes one
** function, with loads, conversions, reductions and stores in it. What is not native stays a loop in C
** between two functions, on tiles. So any program runs, to the same bits, and the rules of tile.c hold:
**
**  1 A stretch lies within one run of element steps, and has at least one call or reduction, or a store of
**    what was loaded or is one value.
**  2 A load that only native steps read is raw: the function reads the operand itself and converts.
**    Where its columns are apart a tile is filled with its elements as they are.
**  3 A fill (a scalar as a vector) that only native steps read is left out.
**  4 Stores of a stretch write straight to an output whose columns are contiguous, else to a tile that is
**    copied out. All loads of an element come before its first store, and nothing is read behind the last
**    stretch.
**  5 A function goes over the rows of a rectangle (tile_place.c) in one call.
**  6 A vector of a stretch has as many elements as one of its widest values. On AVX2, where that leaves four, and few
**    registers to hide how long a chain takes, long runs of 4-byte steps in a map stand apart: normal numbers
**    go from random words of 8 bytes through a logarithm in f32 to a cosine in f64.
**
** Loops in C, since code of its own would gain little or nothing. Measured on a Zen 5, nanoseconds an element
** in L2, beside a plain sum of the same types, which is what memory allows:
**    gather     0.24-0.41; the processor's gathers of 8 take 0.33-0.43, on older ones thrice that. Rows of one index
**               are copied, at the speed of a copy
**    divi, remi i32 0.14 of 0.06; i64 0.16 of 0.10 where numbers are below 2^51, else 1.6: the divider's
**    iota       0.11 of 0.10
**    scans      f32 0.13, f64 and i64 0.16, extremes 0.15-0.21: four steps and a carry each 16 elements
**    positions  f32 0.19: the extremes of rows, then one look for each
*/
#include "base/system.h"
#include "device/cpu/x64.h"

#include <stdlib.h>

typedef struct Hook {
  TileHook base; /* first: the same address */
  Emit *E;
} Hook;

/* 0: the processor is not for this machine; 1: AVX2, 2: AVX-512. */
static int level(void) {
#ifdef __x86_64__
  const char *want = getenv("TYCHO_ISA");
  bool avx2 = ty_cpu_has(CPU_AVX2 | CPU_BMI2); /* F16C comes with them */
  bool wide = ty_cpu_has(CPU_AVX512 | CPU_AVX512_DQ);
  if (!avx2 || (want && !strcmp(want, "base"))) return 0;
  return wide && !(want && !strcmp(want, "avx2")) ? 2 : 1;
#else
  return 0;
#endif
}

/* ---- which steps are native --------------------------------------------------------------------- */

static bool can(const Emit *E, const Step *s, bool reduces) {
  if (s->row) return false;
  if (s->kind == S_CALL) return ty_x64_can(s, E->wide);
  if (s->kind == S_REDUCE) return reduces && ty_x64_can_reduce(s, E->wide);
  return s->kind == S_STORE;
}

/* Slots that a step which is not native reads, as bits. */
typedef struct Bits {
  u64 *w;
} Bits;
static bool bit(const Bits *b, i32 i) { return b->w[i / 64] >> (i % 64) & 1; }
static void bit_set(Bits *b, i32 i) { b->w[i / 64] |= (u64)1 << (i % 64); }

enum { LONG_RUN = 24 }; /* steps that pay for values between two stretches */

/* Whether a call reads or makes a value of 8 bytes. */
static bool is_long(const Code *code, const Step *s) {
  const i32 slots[4] = {s->y, s->a, s->b, s->c};
  for (int k = 0; k < 4; k++)
    if (slots[k] && code->slot[slots[k]].size == 8) return true;
  return false;
}

/* How many steps from i on are calls of 4-byte values alone. */
static i32 short_run(const Code *code, i32 i, i32 end) {
  i32 n = 0;
  while (i + n < end && code->step[i + n].kind == S_CALL && !is_long(code, &code->step[i + n])) n++;
  return n;
}

/* Whether a long run of 4-byte steps begins with step i, or ended before it. */
static bool is_border(const Code *code, i32 first, i32 i, i32 end) {
  if (code->step[i].kind != S_CALL) return false;
  if (is_long(code, &code->step[i - 1])) return short_run(code, i, end) >= LONG_RUN;
  if (!is_long(code, &code->step[i])) return false;
  i32 from = i;
  while (from > first && !is_long(code, &code->step[from - 1])) from--;
  return i - from >= LONG_RUN;
}

/* The reductions of a stretch have one number of lanes: the tail counts them once. AVX2: where many steps with values of
** 4 bytes stand beside some of 8, they are a stretch of their own (rule 6). */
static i32 stretch_end(const Emit *E, const Code *code, i32 i, i32 end, bool reduces, bool *worth) {
  int size = 0;
  const i32 first = i;
  const bool parts = !E->wide && E->p->kind == K_MAP;
  *worth = false;
  for (; i < end && can(E, &code->step[i], reduces); i++) {
    const Step *s = &code->step[i];
    if (parts && i > first && is_border(code, first, i, end)) break;
    int own = s->kind == S_REDUCE ? code->slot[s->a].size : 0;
    if (size && own && own != size) break;
    if (own) size = own;
    i32 def = code->slot[s->a].def;
    const int from = def >= 0 ? code->step[def].kind : S_CALL;
    *worth |= s->kind != S_STORE || from == S_LOAD || from == S_FILL;
  }
  return i;
}

/* Rule 1. Phases bound the stretches: another phase's steps run over other elements. */
static i32 find_stretches(Emit *E, Code *code, bool reduces, Native *out) {
  i32 n = 0;
  for (i32 p = 0; p < code->nphase; p++)
    for (i32 i = code->phase[p].elem, next; i < code->phase[p].end; i = next) {
      bool worth;
      i32 end = stretch_end(E, code, i, code->phase[p].end, reduces, &worth);
      next = TY_MAX(end, i + 1);
      if (!worth) continue;
      if (out) out[n] = (Native){.first = i, .end = end};
      n++;
    }
  return n;
}

/* Rules 2 and 3. */
static void mark(Code *code, Bits *others, const Native *native, i32 n) {
  for (i32 i = 0, k = 0; i < code->nstep; i++) {
    while (k < n && i >= native[k].end) k++;
    if (k < n && i >= native[k].first) {
      code->step[i].raw = code->step[i].kind == S_STORE;
      continue;
    }
    const Step *s = &code->step[i];
    bit_set(others, s->a), bit_set(others, s->b), bit_set(others, s->c);
  }
  bool whole = true; /* all stores are in one stretch: nobody's load can be overwritten too early */
  for (i32 i = 0, in = -1; i < code->nstep; i++) {
    const Step *s = &code->step[i];
    if (s->kind != S_STORE || s->row) continue;
    i32 k = 0;
    while (k < n && !(i >= native[k].first && i < native[k].end)) k++;
    whole &= k < n && (in < 0 || in == k), in = k;
  }
  for (i32 i = 0; i < code->nstep; i++) {
    Step *s = &code->step[i];
    if (s->row || bit(others, s->y)) continue;
    if (s->kind == S_LOAD) s->raw = 1, s->copy &= !whole;
    else if (s->kind == S_FILL) s->kind = S_SKIP;
  }
}

static bool emit_stretch(Emit *E, Code *code, Native *v) {
  x64_say(&E->A, "; steps %d to %d\n", v->first, v->end - 1);
  E->first = v->first, E->end = v->end;
  v->at = E->A.n, v->special = v->end;
  for (i32 i = v->end - 1; i >= v->first; i--)
    if (code->step[i].kind != S_CALL) v->special = i, v->reduces |= code->step[i].kind == S_REDUCE;
  return ty_x64_emit(E);
}

static bool hook(TileHook *H, Code *code, const Program *p, bool spread) {
  Emit *E = ((Hook *)H)->E;
  bool reduces = p->kind == K_COL || !spread;
  E->code = code, E->p = p, E->col = p->kind == K_COL;
  i32 n = find_stretches(E, code, reduces, NULL);
  if (!n) return true;
  Bits others = {ty_mem_zalloc((size_t)(code->nslot / 64 + 1) * 8)};
  code->native = ty_mem_zalloc((size_t)n * sizeof(Native));
  E->val = ty_mem_alloc((size_t)code->nslot * sizeof(XVal));
  bool ok = others.w && code->native && E->val;
  if (ok) {
    code->nnative = find_stretches(E, code, reduces, code->native);
    mark(code, &others, code->native, n);
    for (i32 i = 0; i < code->nslot; i++) E->val[i].alias = -1;
    for (i32 i = 0; i < code->nstep; i++) {
      const Step *s = &code->step[i];
      if (s->kind != S_SKIP) continue;
      E->val[s->y].alias = s->a; /* which then lives as long as what it stands for */
      code->slot[s->a].last = TY_MAX(code->slot[s->a].last, code->slot[s->y].last);
    }
  }
  for (i32 i = 0; i < n && ok; i++) {
    ok = emit_stretch(E, code, &code->native[i]);
    code->step[code->native[i].first].native = i + 1;
  }
  ty_mem_free(others.w), ty_mem_free(E->val);
  E->val = NULL;
  return ok;
}

static bool run(const Kernel *k, const Run *r) {
  return (k->flat && ty_x64_run_flat(k, r)) || (k->row && ty_x64_run_row(k, r)) ||
         (k->packed && ty_packed_run(k, r)) || ty_tile_run(k, r);
}

/* ---- kernels -------------------------------------------------------------------------------------- */

static void drop(Kernel *k) {
  if (!k) return;
  drop(k->packed), k->packed = NULL;
  ty_x64_code_free(k->native, k->native_bytes), ty_mem_free(k->flat), ty_mem_free(k->row);
  ty_tile_drop(k);
}

/* Whether a C loop can have its part of a grid. It works on what has elements: row values are taken one by one
** by native code alone; and columns may lie apart from the next row's. */
static bool fits_grid(const Code *code, const Step *s, bool col) {
  const i32 ops[3] = {s->a, s->kind == S_REDUCE ? 0 : s->b, s->c};
  if (col) return s->kind != S_REDUCE && s->kind != S_ARG;
  for (int j = 0; j < 3 && s->kind != S_SKIP; j++)
    if (code->slot[ops[j]].place == AT_ROW) return false;
  return true;
}

/* Whether several rows, or pieces of rows, can go side by side, phase by phase. */
static bool can_batch(const Kernel *k) {
  bool col = k->p->kind == K_COL;
  const Code *code = &k->code[col];
  if (k->p->kind == K_MAP) return false;
  for (i32 p = 0; p < code->nphase; p++)
    for (i32 i = code->phase[p].elem; i < code->phase[p].end; i++) {
      const Step *s = &code->step[i];
      if (s->native) i = code->native[s->native - 1].end - 1;
      else if (!fits_grid(code, s, col)) return false;
    }
  return true;
}

static bool place(Kernel *k, const Asm *A) {
  if (A->failed || !A->n || !(k->native = ty_x64_code_put(A->p, A->n))) return false;
  k->native_bytes = A->n;
  k->batch = can_batch(k);
  for (int c = 0; c < 2; c++)
    for (i32 i = 0; i < k->code[c].nnative; i++) {
      Native *v = &k->code[c].native[i];
      v->fn = (NativeFn *)(uintptr_t)((char *)k->native + v->at);
    }
  ty_x64_find_short(k);
  return true;
}

static Kernel *make_native(const Program *p, bool listing) {
  Hook h = {.base = {hook}};
  int isa = level();
  if (!isa || !ty_x64_code_can()) return NULL;
  if (!(h.E = ty_mem_alloc(sizeof *h.E))) return NULL;
  memset(h.E, 0, offsetof(Emit, spill_free));
  h.E->wide = isa == 2;
  h.E->A.listing = h.E->A.hex = listing;
  Kernel *k = ty_tile_make(p, &h.base);
  if (k && !place(k, &h.E->A)) {
    drop(k);
    k = NULL;
  }
  if (k) k->listing = h.E->A.list;
  else ty_mem_free(h.E->A.list);
  ty_mem_free(h.E->A.p), ty_mem_free(h.E->fix), ty_mem_free(h.E);
  return k;
}

static Kernel *make(const Program *p) {
  const char *dump = getenv("TYCHO_DUMP");
  const bool listing = dump && strchr(dump, 'a');
  Kernel *k = make_native(p, listing);
  Program *packed = k ? ty_packed_program(p) : NULL;
  if (packed) k->packed = make_native(packed, listing);
  ty_mem_free(packed);
  return k;
}

static size_t bytes(const Kernel *k) {
  return k ? ty_tile_bytes(k) + k->native_bytes + bytes(k->packed) : 0;
}

const char *ty_x64_refusal(void) {
  if (!level()) return "native code needs AVX2 with FMA and F16C, or TYCHO_ISA forbids it";
  return ty_x64_code_can() ? NULL : "the system lets no native code be made";
}

const char *ty_x64_listing(const Kernel *k) { return k->listing; }

void ty_x64_list(const Program *p, Text *t) {
  Kernel *k = make_native(p, true);
  if (k && k->listing) ty_text_printf(t, "%s", k->listing);
  if (k) drop(k);
}

const Machine ty_machine_x64 = {"x64", make, run, ty_x64_reserve, drop, bytes, ty_tile_time};
