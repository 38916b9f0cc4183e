/*
** ptx.h -- text of PTX: registers, lines, the frame of a kernel.
** Registers have no type but their width: .b32, .b64, .pred, .b16; instructions give them one. Each is written in few
** places, by straight code; ptxas allocates.
*/
#ifndef TY_PTX_H
#define TY_PTX_H

#include "base/text.h"
#include "ir/program.h"

typedef int Reg; /* 0: none */
typedef enum { REG_32, REG_64, REG_PRED, REG_16 } RegKind;

enum { SHARED_OWN = 48 << 10 };
/* In texts, before the bytes of parameters; before those of shared memory that launches ask for. */
#define CODE_ENTRY "kernel(.param .align 8 .b8 block["
#define CODE_SHARED "// shared "

typedef struct Ptx {
  Text text;  /* of the body */
  i32 n[4];   /* registers so far, by kind */
  i32 labels; /* given so far */
  Reg guard;  /* not 0: memory is accessed under this predicate, and what is not read is 0 */
  i32 local;  /* bytes of local memory, aligned to 8 */
  i32 shared; /* bytes of shared memory, aligned to 16; more than SHARED_OWN are asked for by launches (CODE_SHARED) */
  i32 target; /* the processor from which on the text is for; 0: 75 */
  i32 blocks; /* that a multiprocessor must hold; 0: 2 */
  u32 luts;   /* constant tables that are read, as bits */
} Ptx;

Reg ty_ptx_reg(Ptx *E, RegKind kind);
static inline bool ty_ptx_wide(int ctype) { return ctype == C_I64 || ctype == C_F64; }
static inline Reg ty_ptx_value(Ptx *E, int ctype) {
  return ty_ptx_reg(E, ty_ptx_wide(ctype) ? REG_64 : REG_32);
}
/* A line of code. In its text $ stands for a register (Reg), # for a number (i64), ^ for bits (u64, hexadecimal), @ for
** a label (int), ~ for a string. */
void ty_ptx(Ptx *E, const char *line, ...);
int ty_ptx_label(Ptx *E);
void ty_ptx_here(Ptx *E, int label); /* the label stands here */

/* Registers with a number, or with what a parameter holds, `at` bytes into the block. */
Reg ty_ptx_const(Ptx *E, int ctype, u64 bits);
Reg ty_ptx_param(Ptx *E, RegKind kind, i32 at);

/* What every kernel begins with: it ends at once where its stream's error word is set, whose address is the first
** parameter. Out: a label at the kernel's end. */
int ty_ptx_begin(Ptx *E);
/* Into two registers of 64 bits: the thread's number in the grid, whose blocks have so many, and how many there are. */
void ty_ptx_number(Ptx *E, int threads, Reg number, Reg step);
/* The whole module, with `params` bytes of parameters; E's memory goes. threads: of a block, at most. */
Text ty_ptx_end(Ptx *E, int end, i32 params, int threads);

/* Primitives, element by element: the instruction's value from those of its operands. */
Reg ty_ptx_primitive(Ptx *E, const Instr *in, int ta, Reg a, Reg b, Reg c);
/* a op b of a reduction or scan: P_ADD, P_MUL, P_MAX, P_MIN. */
Reg ty_ptx_binary(Ptx *E, int prim, int ctype, Reg a, Reg b);
/* Philox4x32-10: the counter's four words become the random ones. low, high: the key. */
void ty_ptx_philox(Ptx *E, Reg w[4], Reg low, Reg high);
/* A value as a dtype holds it, in the compute type: wrapped or rounded. */
Reg ty_ptx_narrow(Ptx *E, int dtype, Reg a);
/* Memory: an element of a dtype at an address, as the compute type; and back, narrowed already. */
Reg ty_ptx_load(Ptx *E, int dtype, Reg address);
void ty_ptx_store(Ptx *E, int dtype, Reg address, Reg v);
/* n neighbours at once, 2 or 4, of elements of 1 byte 4; the address is aligned to all of them, at most to 16. No guard. */
void ty_ptx_load_vector(Ptx *E, int dtype, Reg address, int n, Reg *y);
void ty_ptx_store_vector(Ptx *E, int dtype, Reg address, int n, const Reg *v);
/* Lane values: v of the lane that `how` (up, down, bfly, idx) and `by` say, among `width` lanes. */
Reg ty_ptx_shuffle(Ptx *E, const char *how, int ctype, Reg v, Reg by, int width);

#endif
