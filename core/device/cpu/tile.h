/*
** tile.h -- the inside of the tile machine: compiled programs, and the loops of one instruction
** set. tile.c turns a program into steps over slots, tile_run.c runs them over a domain,
** tile_prims.c holds the loops that a step is.
*/
#ifndef TY_TILE_H
#define TY_TILE_H

#include "device/cpu/cpu.h"

/* Elements of a tile, at least; BLOCK at most, which is a multiple, as this is of the lanes and of COL_LANES. */
#define TILE_MIN 256
#define NODE 256 /* bytes of the lanes of a trailing run: 64 of 4 bytes or 32 of 8 */

/* y[i] = f(a[i], b[i], c[i]) for i < n. y may be an operand of the same width. In the forms for
** scalars an operand is one value. */
typedef void TileFn(void *y, const void *a, const void *b, const void *c, i64 n, u64 imm);
/* Memory, strides in elements: convert to the compute type, or from it. */
typedef void LoadFn(void *y, const void *x, i64 stride, i64 n);
typedef void StoreFn(void *x, i64 stride, const void *y, i64 n);
typedef void GloadFn(void *y, const void *x, i64 stride, const i64 *at, i64 gstride, i64 n);
/* y[r * ys + c] = x[c * xs + r], squares of 32 bytes. */
typedef void TurnFn(void *y, i64 ys, const void *x, i64 xs, i64 rows, i64 cols);
/* acc[i mod period] = acc[i mod period] op x[i]. */
typedef void FoldFn(void *acc, const void *x, i64 period, i64 n);
/* y[k] = the canonical reduction of row k, n elements each. */
typedef void RowsFn(void *y, const void *x, i64 rows, i64 n);
/* The extremes so far (best, at) of n columns go on with x, row number `row` of them. */
typedef void ArgColFn(void *best, i64 *at, const void *x, i64 row, i64 n);
/* The place of the extreme of n elements, one at least: of the first NaN, else of the first that no other exceeds. */
typedef i64 ArgFn(const void *x, i64 n);
/* A stretch of a scan inside one block; s[0] is the carry, s[1] the offset of the block, s[2] the identity. */
typedef void ScanFn(void *y, const void *a, const void *b, u64 *s, i64 n);

/* Sorts eight rows of n words, a multiple of 8, element i of row k at x[8 * i + k]. */
typedef void ColumnsFn(u64 *x, i64 n);
ColumnsFn ty_sort_columns; /* sort_columns.c: of AVX-512 */

enum { R_SUM, R_PROD, R_MAX, R_MIN, R_KINDS }; /* in the order of P_RSUM and P_SSUM */

/* Strands (tile_strands.h): operations on a running value. A form says where the operands come
** from: A the running value, M memory, S one value; what is not A lies at p, then q. */
enum {
  F_A,
  F_AM,
  F_AS,
  F_AA,
  F_MA,
  F_SA,
  F_AMM,
  F_AMS,
  F_ASM,
  F_ASS,
  F_AAM,
  F_AAS,
  F_MMA,
  F_MSA,
  F_MAM,
  F_MAS,
  F_COUNT
};
typedef void MicroFn(void); /* cast to what the set takes */
typedef struct Micro {
  MicroFn *fn;
  const char *p, *q;
} Micro;
typedef struct StrandRow {
  u8 op, type, form; /* type: of operands */
  MicroFn *fn;
} StrandRow;
typedef struct StrandIsa {
  i32 strip; /* bytes that one pass works on */
  void (*run)(const Micro *o, i64 bytes);
  MicroFn *load, *store, *end;
  const StrandRow *rows;
  i32 nrows;
  MicroFn *narrow[T_COUNT];
} StrandIsa;

typedef struct TileIsa {
  const StrandIsa *strands;
  /* Primitive, type of operands, form: which operands are scalars (none, a, b, c, b and c). */
  TileFn *fn[P_PHILOX - P_ADD + 1][4][5];
  TileFn *cvt[4][4]; /* from, to */
  TileFn *narrow[T_COUNT];
  LoadFn *load[T_COUNT];
  StoreFn *store[T_COUNT];
  GloadFn *gload[T_COUNT];
  TileFn *fill[2]; /* 4 and 8 bytes: y[i] = a[0] */
  void (*iota)(i64 *y, i64 first, i64 stride, i64 n);
  TurnFn *turn[2]; /* 4 and 8 bytes; NULL: none that is better than a loop */
  FoldFn *fold[R_KINDS][4];
  RowsFn *spread[2];        /* 4 and 8 bytes: row k of y, n elements, is a[k] */
  RowsFn *rows[R_KINDS][4]; /* those worth it; NULL: by fold */
  ArgColFn *argcol[2][4];
  ArgFn *arg[2][4];
  ScanFn *scan[6][4]; /* in the order of P_SSUM */
  ColumnsFn *columns; /* NULL: none */
} TileIsa;

/* The best that this processor has, or the one that TYCHO_ISA names: base, avx2, avx512. */
const TileIsa *ty_tile_isa(void);
static inline int ty_tile_size(int type) { return type == C_I64 || type == C_F64 ? 8 : 4; }
u64 ty_tile_identity(int kind, int type); /* changes nothing when reduced: -0, 1, -inf, +inf */
u64 ty_tile_empty(int kind, int type);    /* the value of nothing: +0, 1, -inf, +inf */

/* Where the value of a slot lies. CONST in the code, SCALAR in the run, the others in a frame. */
/* LOOSE: an address that is set when it is used. */
enum { AT_CONST, AT_SCALAR, AT_UNIFORM, AT_TILE, AT_WIDE, AT_ROW, AT_LOOSE };
typedef struct Slot {
  u8 place, size;
  bool direct; /* may be computed in an output: code->direct has it */
  i32 reg;
  i32 number;    /* among those of its place */
  i32 def, last; /* steps */
  u64 imm;
} Slot;

enum {
  S_CALL,
  S_STRAND,
  S_LOAD,
  S_GLOAD,
  S_IOTA,
  S_FILL,
  S_SPREAD,
  S_REDUCE,
  S_ARG,
  S_SCAN,
  S_STORE,
  S_SKIP /* a fill that nobody needs: native code takes the scalar */
};
typedef struct Step {
  TileFn *fn;        /* CALL and STRAND, which is the first call of one */
  u8 kind, type, op; /* type: of operands; op: primitive, or kind of reduction, scan, position */
  u8 row;            /* over rows, not elements */
  u8 copy;           /* a load that may not be an address only */
  u8 index;          /* a load that gathers alone read */
  u8 scalars;        /* operands that are one value, as bits */
  u8 to;             /* of a conversion: type of the result */
  u8 raw;            /* a load that native code alone reads: bytes as they are in memory */
  u8 truth;          /* a reduction that is settled by one truth value: all, any */
  i32 y, a, b, c;    /* slots; 0 when absent */
  u64 imm;           /* operand, or what the primitive takes */
  i32 state;         /* number of the reduction or scan; of a store: of its Direct, or -1;
                        of a strand: its number; of a gather: the operand that its index is, or -1 */
  i32 native;        /* number, from 1, of the native stretch that begins here */
} Step;

/* Row steps, then element steps; the last phase has row steps alone. */
typedef struct Phase {
  i32 row, elem, end;
  bool settles; /* nothing but truth values are reduced: the rest of a row may not matter */
} Phase;

/* A store of a contiguous output may be left out when the value is computed there. */
typedef struct Direct {
  i32 slot, operand, loaded; /* loaded: the operand that the value is a load of, or -1 */
  u32 readers; /* operands that are read after the value is made: must lie elsewhere */
} Direct;

/* Steps that pass one running value on, and the same as micro-operations over slots. */
typedef struct Link {
  MicroFn *fn;
  i32 p, q; /* slots */
} Link;
typedef struct Strand {
  i32 steps, first, end; /* how many; links [first, end) */
  i32 size;              /* of an element */
} Strand;

/* Steps [first, end) as one function over `rows` rows, one at least, of elements [begin, end) each. p holds
** the addresses of slots for the first row, then for each slot the bytes from one row to the next; row
** values lie side by side. Stores and reductions among the steps have their own place: Step.y of a store is
** a tile for what an output that is not contiguous gets, Step.b of a reduction is set to its state.
** `choice`: with reductions of rows, 1: rows are whole, their states begin here and give their values; -1:
** they are blocks of a row, whose states begin here and come out one NODE behind another. Without, that
** stores of 4 and 8 bytes go past the caches: all rows of outputs must then begin at multiples of 64 bytes.
** States of columns are the same for all rows. Its calling convention is System V's on every system. */
#ifdef __x86_64__
#define NATIVE_CALL __attribute__((sysv_abi))
#else
#define NATIVE_CALL
#endif
typedef NATIVE_CALL void NativeFn(void **p, i64 begin, i64 end, i64 rows, i64 choice);
typedef struct Native {
  NativeFn *fn;
  size_t at; /* in the code, until that has a place */
  i32 first, end;
  i32 special; /* the first step that is a store or reduction */
  bool reduces;
} Native;

typedef struct Code {
  Step *step;
  Link *link;
  Strand *strand;
  Slot *slot;
  Phase *phase;
  Direct *direct;
  i32 nstep, nslot, nphase, ndirect; /* nphase counts element phases: phase[nphase] is the last */
  i32 uniform;                       /* steps [0, uniform) run once a frame */
  i32 ntile, nwide, nrow, nuniform;  /* registers */
  i32 nreduce, nscan;
  i32 nlink, nstrand, longest; /* longest: links of the longest strand */
  Native *native;
  i32 nnative;
} Code;

/* A map that is one call between memory and memory needs no frame where it is short and flat. */
typedef struct Single {
  TileFn *fn; /* NULL: it is more */
  u64 imm;
  i32 y;         /* operand */
  i32 x[3];      /* operand, or -1: at where, or the run's scalar */
  i32 scalar[3]; /* number of the run's scalar, or -1 */
  const void *where[3];
} Single;

/* From so many bytes of outputs stores go past the caches. A spec may set it. */
extern i64 ty_tile_past;

struct Kernel {
  Code code[2]; /* one row at a time: row values are scalars; several: they are spread */
  Single single;
  Kernel *
      plain; /* of a native map that is a single call: its portable form, for short runs; or NULL */
  Kernel *packed; /* the same over words that hold several elements (packed.c), or NULL */
  const TileIsa *isa;
  i32 tile;     /* elements */
  i32 word;     /* 8 when any value is 8 bytes wide, else 4 */
  bool has_arg; /* a state then holds positions too */
  bool
      batch; /* native: rows side by side, their values worked on together; columns in pieces of rows */
  bool long_split; /* reductions of one level: a long row may be cut among workers */
  double cost;     /* nanoseconds an element */
  size_t bytes;
  Program *p;
  void *native;         /* machine code, or NULL */
  struct FlatRun *flat; /* x64_short.c: short runs of a map, */
  struct RowRun *row;   /* of a row; or NULL */
  size_t native_bytes;
  char *listing; /* of the code, where TYCHO_DUMP asks for it, or NULL */
};

/* Makes stretches of steps native: fills code->native, and sets Step.native, raw and SKIP. False: out
** of memory. `spread`: several rows share a tile, or columns. */
typedef struct TileHook TileHook;
struct TileHook {
  bool (*fn)(TileHook *H, Code *code, const Program *p, bool spread);
};
Kernel *ty_tile_make(const Program *p, TileHook *hook); /* hook: NULL for loops alone */
void ty_tile_drop(Kernel *k);
size_t ty_tile_bytes(const Kernel *k);

/* packed.c: the program over words that hold several elements, to be freed; NULL: there is none. A run by it; false: it is
** not for this launch, or out of memory, and the program itself is to run. */
Program *ty_packed_program(const Program *p);
bool ty_packed_run(const Kernel *k, const Run *r);

/* tile_strand.c: joins loops where that saves memory traffic. False: out of memory. */
bool ty_tile_strands(Code *code, const StrandIsa *isa);
void ty_tile_lives(Code *code); /* def and last of all slots, after steps were moved */
bool ty_tile_run(const Kernel *k, const Run *r);
bool ty_tile_reserve(const Kernel *k, const Launch *l);
double ty_tile_time(const Kernel *k, const Launch *l);

#endif
