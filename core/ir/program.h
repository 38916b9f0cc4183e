/*
** program.h -- loop programs: the only thing that a machine sees.
**
** A program runs over a domain of elements, seen as three factors [O, R, I] in row-major order:
**   MAP  only I: every element alone (O = R = 1)
**   ROW  O rows of R elements (I = 1): reductions and scans run along R, the trailing run
**   COL  for each O: R rows of I elements: reductions run along R, "other runs"
** Each factor is a run of dims; a launch gives the dims and, for every operand, a stride in
** elements for every dim and a start. Extents are never part of a program: a program's bytes are
** its identity.
**
** The body is a list of instructions in SSA form: operands are lower instruction numbers. Each has
** a level: L_ELEM values exist for every element of the domain, L_ROW values once for each (O, I),
** that is for each row or column. Reductions take an L_ELEM value and give an L_ROW value; an L_ROW
** value used by an L_ELEM instruction is the same for all of R. In a MAP program everything is
** L_ELEM. A ROW program may use a reduction's result in elements again (softmax); a COL program may
** not. A program that has a scan has no reduction. Values that need no element (CONST, SCALAR, what
** is computed from them alone) fit either level. In a MAP program the levels mean nothing.
*/
#ifndef TY_PROGRAM_H
#define TY_PROGRAM_H

#include "ir/type.h"

#define MAX_DIMS 12 /* dims of a domain after refinement, before collapse */
#define MAX_OPERANDS 24
#define MAX_BODY 640 /* instructions; fuse keeps groups below it */
#define ROW_MAX \
  8192 /* longest row of a ROW program with more than one level of reductions, or whose \
          reductions are read by L_ELEM instructions */
#define LANES(csize) \
  ((csize) == 8 ? 32 : 64) /* lanes of a trailing run, by bytes of the compute type */
#define BLOCK 4096         /* elements of a block of a trailing run, and of a scan */
#define COL_BLOCK 256      /* rows of a block of another run; COL_LANES lanes */
#define COL_LANES 4

/*
** Primitives. Types: the instruction's `type` is the compute type of the result; for comparisons
** and conversions `from` is the type of the operands. Every float operation rounds once, to nearest
** even. Semantics that C leaves open are fixed here:
**   MIN MAX   a NaN operand gives NaN; -0 is below +0
**   integers  wrap; DIVI truncates, x / 0 = 0, lowest / -1 = lowest; REMI goes with it: x rem 0 = 0
**   SHL SHR SHRU  the count is in 0 .. width - 1 (the builder sees to it)
**   CVT       float to integer: towards zero, saturating, NaN gives 0; integer to float: to nearest
**             even; f64 to f32 rounds; i64 to i32 keeps the low bits
**   BITS      the same bits, f32 with i32, f64 with i64; a NaN is 0x7fc00000 / 0x7ff8000000000000
**             first; with imm 1 it stays any NaN, and machines differ: only for what is NaN whatever
**             comes of these bits
**   MULHI     the high 64 bits of the unsigned product of two i64
**   LUT       element `a` (i32, in range) of constant table number imm (ty_luts), of type `type`
**   NARROW    wraps or rounds to the dtype imm: i8 u8 i16 (in i32), bool (a != 0), f16 bf16 (in
**             f32)
**   PHILOX    word imm of Philox4x32-10, counter = (low a, high a, low b, high b) with a the
**             element (i64) and b the stream (i64), key = c (i64 seed); result i32
** and the others:
**   CONST     imm: bits of the compute type      SCALAR  launch->scalar[imm], bits of the compute
**             type
**   IOTA      i64: launch start + sum of index * stride of operand imm (an operand without buffer)
**   LOAD      operand imm at the element, converted to the compute type
**   GLOAD     operand imm at the element's place + a * launch gstride of that operand; a is i64
**   STORE     a to operand imm, converted to its dtype (a is narrowed already)
**   RSUM RPROD RMAX RMIN  reduction of a (L_ELEM), result L_ROW; sums and products in canonical
**   order RARGMAX RARGMIN       i64: position within R of the first extreme; NaN wins
**   SSUM SPROD SMAX SMIN  inclusive scan of a along R (ROW programs), sums in canonical order
**   SMAXX     exclusive running maximum: element i is the maximum of those before it; the first is
**             -inf or the lowest integer
**   SLIN      s = fma(s, a[i], b[i]) in f64, in strict order from 0; y[i] is s rounded (floats).
**             With m = SMAX(x), k = m where finite else 0:
**             logcumsumexp = k + log(SLIN(exp(SMAXX(x) - k), exp(x - k)))
*/
/* clang-format off */
#define TY_PRIMS(_) \
  _(CONST) _(SCALAR) _(IOTA) _(LOAD) _(GLOAD) _(STORE) _(ADD) _(SUB) _(MUL) _(DIV) _(FMA) \
  _(SQRT) _(MIN) _(MAX) _(NEG) _(ABS) _(FLOOR) _(CEIL) _(TRUNC) _(RINT) _(DIVI) _(REMI) _(AND) \
  _(OR) _(XOR) _(SHL) _(SHR) _(SHRU) _(MULHI) _(EQ) _(LT) _(LE) _(SEL) _(CVT) _(BITS) _(LUT) \
  _(NARROW) _(PHILOX) _(RSUM) _(RPROD) _(RMAX) _(RMIN) _(RARGMAX) _(RARGMIN) _(SSUM) _(SPROD) \
  _(SMAX) _(SMIN) _(SMAXX) _(SLIN)
/* clang-format on */

typedef enum {
#define _(NAME) P_##NAME,
  TY_PRIMS(_)
#undef _
      P_COUNT
} Prim;
extern const char *const ty_prims[P_COUNT]; /* the names, in capitals as in the enum */

/* ABS and NEG of floats work on the sign bit. On i32 and i64: ADD SUB MUL MIN MAX NEG ABS
** (wrapping), DIVI REMI AND OR XOR SHL SHR SHRU EQ LT LE SEL. SEL: a is i32, not 0 takes b, else
** c. */

enum { L_ELEM, L_ROW };

typedef struct Instr {
  u8 op, type, from, level;
  i16 a, b, c; /* -1 when absent */
  i16 pad;
  u64 imm;
} Instr;

typedef struct Operand {
  u8 dtype, level;
  u8 write;
  u8 pad;
} Operand;

typedef enum { K_MAP, K_ROW, K_COL } ProgramKind;

typedef struct Program {
  u8 kind, noperands;
  u16 nbody;
  u8 fast; /* contraction is allowed */
  u8 pad[3];
  Operand operand[MAX_OPERANDS];
  Instr body[]; /* nbody */
} Program;

/* One run of a program. Strides of dims that an operand does not have are 0. dims: first the no
** dims of O, then nr of R, then ni of I. An L_ROW operand has stride 0 in the dims of R. */
typedef struct Launch {
  u8 no, nr, ni;
  bool flat; /* it is known that all operands lie row-major without gaps */
  u8 pad[4];
  i64 dims[MAX_DIMS];
  i64 strides[MAX_OPERANDS][MAX_DIMS]; /* in elements */
  i64 start[MAX_OPERANDS];             /* in elements; for IOTA the first value */
  i64 gstride[MAX_OPERANDS];           /* GLOAD: elements an index step moves */
} Launch;

/* Whose work it is that devices do: an error that a device finds later is told to its stream alone. */
typedef struct Stream {
  u64 run;    /* the number of the run in progress, which grows; an error of it is told with it */
  u64 failed; /* of an error that is being told: the run, 0 where it is unknown */
} Stream;

typedef struct Run {
  const Launch *launch;
  void *const *buf; /* an address for every operand (NULL for IOTA) */
  const u64 *scalar;
  Stream *stream;
} Run;

/* What a plan's last run was on a device that works later. */
typedef struct DeviceRun {
  i32 launches;           /* of kernels one by one */
  i32 graphs, nodes;      /* launches of graphs, and the kernels that those held */
  i32 interpreted;        /* loop programs that the device's interpreter ran, a kernel each */
  i32 libraries;          /* calls of its maker's */
  i64 in, out, across;    /* bytes copied from the CPU, to it, within the device or from another */
  const char *one_by_one; /* why kernels were not in a graph, text that stays; or NULL */
} DeviceRun;

/* Constant tables for LUT, of kernels/scalar_tables.def. */
typedef struct Lut {
  const void *data;
  i32 n;
  u8 ctype;
} Lut;
extern const Lut ty_luts[];
extern const int ty_nluts;

size_t ty_program_bytes(const Program *p);
const char *ty_program_verify(const Program *p); /* NULL or what is wrong */
size_t ty_program_print(const Program *p, char *buf, size_t n);
Program *ty_program_parse(const char *text, const char **err); /* ty_mem_free it */

/* What executes programs (device/device.h), and a program made ready for it. */
typedef struct Machine Machine;
typedef struct Kernel Kernel;

#endif
