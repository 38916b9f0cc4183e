/*
** ptx_gen.h -- a kernel of a loop program while it is generated: its state, and what the files ptx_body.c to
** ptx_program.c give each other.
*/
#ifndef TY_PTX_GEN_H
#define TY_PTX_GEN_H

#include "device/cuda/ptx_class.h"

enum { FOUR = 4 };

/* A reduction in progress. */
typedef struct Acc {
  i32 instr;
  u8 op, ctype, lanes; /* op: the primitive that joins, or RARGMAX, RARGMIN */
  Reg lane[COL_LANES];
  Reg at;       /* positions */
  i32 word;     /* of a node */
  bool product; /* SUM_OF_PRODUCTS */
} Acc;

typedef struct Scan {
  i32 instr;
  Reg carry, offset;
} Scan;

typedef struct Gen {
  Ptx E;
  const Program *p;
  Variant v;
  Layout l;
  Classes C;
  const char *index; /* type of an index */
  Reg reg[MAX_BODY];
  Reg coord[MAX_DIMS];
  Reg row_place[MAX_OPERANDS],
      place[MAX_OPERANDS]; /* addresses: of the row, of the element; 0: not made yet */
  bool need[MAX_BODY];
  Acc acc[MAX_BODY / 2];
  i32 nacc;
  Scan scan[MAX_BODY / 2];
  i32 nscan;
  i32 words;               /* of a node, of one thread */
  Reg lane, count, r_all;  /* of a warp; PARAM_COUNT; PARAM_R */
  Reg r;                   /* position within R */
  Reg one_lane;            /* predicate: row stores are this thread's */
  int part;                /* of neighbours the one at hand */
  Reg first[MAX_OPERANDS]; /* of a row's neighbours: the address of the first; 0: not made yet */
  Reg four[MAX_OPERANDS][FOUR]; /* values of flat operands: loaded, or to be stored */
  Reg there[FOUR], all;         /* predicates, of FOUR_TAIL: it is there; all four are */
} Gen;

/* --- indices: 32 bits wide where they fit */

static inline RegKind index_kind(const Gen *G) { return G->v.wide ? REG_64 : REG_32; }
static inline Reg index_reg(Gen *G) { return ty_ptx_reg(&G->E, index_kind(G)); }
static inline Reg index_param(Gen *G, i32 at) { return ty_ptx_param(&G->E, index_kind(G), at); }

static inline const char *index_bits(const Gen *G) { return G->v.wide ? "b64" : "b32"; }

static inline Reg index_op(Gen *G, const char *op, Reg a, Reg b) {
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "~.~ $, $, $", op, G->index, y, a, b);
  return y;
}

/* An index from 32 bits. */
static inline Reg index_of(Gen *G, Reg r32) {
  if (!G->v.wide) return r32;
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "cvt.u64.u32 $, $", y, r32);
  return y;
}

static inline void index_move(Gen *G, Reg to, Reg from) {
  ty_ptx(&G->E, "mov.~ $, $", index_bits(G), to, from);
}

static inline Reg zero_index(Gen *G) {
  const Reg y = index_reg(G);
  ty_ptx(&G->E, "mov.~ $, 0", index_bits(G), y);
  return y;
}

/* Jumps where a is below b, or not. */
static inline void jump(Gen *G, const char *how, Reg a, Reg b, int label) {
  const Reg p = ty_ptx_reg(&G->E, REG_PRED);
  ty_ptx(&G->E, "setp.~.~ $, $, $", how, G->index, p, a, b);
  ty_ptx(&G->E, "@$ bra @", p, label);
}

/* --- values */

static inline const char *bits_type(int ctype) { return ty_ptx_wide(ctype) ? "b64" : "b32"; }

static inline void move(Gen *G, int ctype, Reg to, Reg from) {
  ty_ptx(&G->E, "mov.~ $, $", bits_type(ctype), to, from);
}

static inline void set(Gen *G, int ctype, Reg to, u64 bits) {
  ty_ptx(&G->E, "mov.~ $, ^", bits_type(ctype), to, ty_ptx_wide(ctype) ? bits : bits & 0xffffffff);
}

static inline bool by_parts(const Gen *G) { return G->v.four || G->v.each; }
static inline bool is_flat(const Gen *G, int operand) {
  return (by_parts(G) || G->v.turn) && G->v.flat >> operand & 1;
}
static inline int row_threads(const Gen *G) { return G->v.each ? G->v.threads : 32; }
/* Rows of R that a block of the canonical order has. */
static inline i64 block_size(const Gen *G) { return G->p->kind == K_ROW ? BLOCK : COL_BLOCK; }

/* --- ptx_body.c: places and values of the body */

/* The thread's number in the grid, and how many there are: `shift` 5 counts warps, and so on. */
void ty_gen_number(Gen *G, int shift, Reg *first, Reg *step);

/* Coordinates along dims [from, to) of a number that counts over them. */
void ty_gen_decompose(Gen *G, Reg number, int from, int to);
/* Addresses of an operand: of the unit's first element; of the neighbour at hand. */
Reg ty_gen_row_place(Gen *G, int operand);
Reg ty_gen_part_place(Gen *G, int operand);
/* What is new for each unit of work, whose coordinates are there: all of it, before anything branches. */
void ty_gen_begin_unit(Gen *G);
void ty_gen_emit(Gen *G, int i);
void ty_gen_emit_class(Gen *G, int class, int phase);
/* What a pass must compute of each element: for its reductions and, in the last one, for stores. Of scans: their
** operands alone. */
void ty_gen_need(Gen *G, int phase);
void ty_gen_need_of_scans(Gen *G);
/* One element: its coordinates are there. sub: the lane that its thread adds it to. */
void ty_gen_element(Gen *G, int sub);
/* The stores of a row or column, by one thread. */
void ty_gen_row_stores(Gen *G);

/* --- ptx_reduce.c */

void ty_gen_begin_accs(Gen *G, int phase); /* the reductions of a pass */
void ty_gen_clear_accs(Gen *G, bool at);   /* at: of positions too */
bool ty_gen_is_fused(const Gen *G, int i); /* a product that is added by fma */
void ty_gen_fold(Gen *G, int sub);         /* an element's values go into the accumulators */
void ty_gen_push_node(Gen *G, Reg n); /* a node is complete, and waits; n nodes were before it */
void ty_gen_pop_nodes(Gen *G, Reg n); /* the last node takes in all that waits */
/* Lanes join, those that are farthest apart first; the values are those of the instructions. */
void ty_gen_finish_accs(Gen *G);
/* Nodes by way of scratch: of group `group` of unit `unit`. */
void ty_gen_store_node(Gen *G, Reg unit, Reg group);
void ty_gen_load_node(Gen *G, Reg unit, Reg group);

/* --- ptx_scan_step.c */

void ty_gen_emit_scan(Gen *G, int i);

/* --- ptx_scan.c */

void ty_gen_begin_scans(Gen *G);
void ty_gen_scan_elements(Gen *G, Reg from, Reg to);
/* TOTALS and SCAN: a block of a row; OFFSETS: a row. */
void ty_gen_scan_unit(Gen *G, Reg unit, Reg group);
void ty_gen_offsets_unit(Gen *G, Reg unit);

/* --- ptx_row.c */

void ty_gen_whole_unit(Gen *G);                     /* passes over a row or column */
void ty_gen_part_unit(Gen *G, Reg unit, Reg group); /* the group's part of R, from its number */
void ty_gen_finish_unit(Gen *G, Reg unit);

/* --- ptx_map.c */

void ty_gen_map_kernel(Gen *G);

/* --- ptx_turn.c */

void ty_gen_turn_kernel(Gen *G);

#endif
