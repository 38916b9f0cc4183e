/*
** x64.h -- the inside of the native machine.
** x64.c finds the stretches of a tile kernel that can be machine code, x64_body.c emits one stretch,
** x64_ops.c its operations, x64_code.c holds the memory.
*/
#ifndef TY_X64_H
#define TY_X64_H

#include "device/cpu/tile.h"
#include "device/cpu/x64_asm.h"

/* --- x64_code.c */
bool ty_x64_code_can(void);                     /* whether the system lets code be made */
void *ty_x64_code_put(const void *p, size_t n); /* a copy that can be executed, or NULL */
void ty_x64_code_free(void *p, size_t n);

/* --- one stretch on its way */
enum { V_NONE, V_STREAM, V_CONST, V_SCALAR, V_LOCAL, V_LAZY };

/* A value, by slot. A group is a set of registers, one for each vector worked on side by side. */
typedef struct XVal {
  u8 kind, size;
  i8 dtype;     /* of a stream: what lies in memory; -1: the compute type */
  bool escapes; /* is read behind the stretch, from memory */
  i16 uses;
  i16 regs_wanted; /* uses where memory will not do */
  i32 alias;       /* another value that this one is, or -1 */
  i32 last;        /* step of the last use */
  i32 def;         /* step, of V_LOCAL and V_LAZY */
  i32 group;       /* -1: in no register */
  i32 spill;       /* offset in the frame, -1: none */
  i32 ptr;         /* register with the address, -1: none */
  i32 at;          /* offset in the frame of the address, -1: none */
  bool still;      /* the address is the same for all rows */
  bool row;        /* V_SCALAR: another one for each row */
  i32 pin;         /* register of a uniform value, -1: none */
  i32 home;        /* offset in the frame of a broadcast scalar, -1: none */
  i32 keys;        /* offset in the frame of the round keys that it gives, -1: none */
  u64 bits;        /* V_CONST */
} XVal;

typedef struct XFix {
  u32 at, end; /* of the displacement, of the instruction */
  i32 entry;   /* of the pool */
} XFix;
typedef struct XPool {
  u64 bits;
  u8 size;
} XPool;

enum { POOL_MAX = 400, GROUPS = 32, FRAME_MAX = 48 << 10 };

typedef struct Emit {
  Asm A;
  const Code *code;
  const Program *p;
  bool wide; /* AVX-512 */
  bool reduces;
  bool ahead;   /* what is read is called for ahead */
  bool streams; /* has a second main loop, whose stores go past the caches */
  bool col;     /* reductions run along columns: their states lie beside the elements */
  i32 first, end;
  XVal *val;  /* by slot */
  i32 lanes;  /* elements of a group: one vector for each value */
  i32 unroll; /* groups side by side */
  i32 round;  /* groups that one turn of the main loop takes */
  i32 vb;     /* bytes of the longest vector */
  int vl[2];  /* vector length of 4-byte and of 8-byte values */
  /* while a body is emitted */
  i32 u, g0; /* groups side by side, and the first one's number */
  bool tail; /* under masks: one group, or as many as the main loop (`side`) */
  bool side;
  i32 base;  /* the first group's number of the body */
  bool past; /* stores go past the caches */
  i32 now;   /* step */
  i32 ngroups;
  i32 owner[GROUPS]; /* slot, or -1 */
  u32 busy;          /* groups that operands of this step are in */
  i32 temp;          /* the first of TEMPS registers for everyone */
  i32 acc;           /* the first register of accumulators, -1: they stay in memory */
  i32 acc_n;
  i32 frame;             /* bytes used */
  i32 mask4, mask8, pad; /* AVX2: places in the frame */
  i32 kept;              /* where what is true of all rows is kept */
  bool narrow_tail;
  XFix *fix;
  i32 nspill, npool, nfix, fix_cap;
  /* from here on nothing need be zero at first */
  i32 spill_free[MAX_BODY];
  XPool pool[POOL_MAX];
} Emit;

enum {
  TEMPS = 4,
  TEMPS_MORE = 6,
  TEMPS_PHILOX = 11,
  PHILOX_ROUNDS = 10,
  TAIL_J = RBX,
  K_TAIL = 1,
  K_A = 2,
  K_B = 3,
  K_SIDE = 4
};
enum { AHEAD = 2048 }; /* bytes: measured, from the third level */
enum { SIDES = 4 };    /* groups under a mask each; where there are more, one by one */

/* --- x64_ops.c */
bool ty_x64_can(const Step *s, bool wide);  /* whether a call is native */
i32 ty_x64_temps(const Step *s, bool wide); /* temporaries that it takes */
bool ty_x64_can_reduce(const Step *s, bool wide);
bool ty_x64_can_store(int dtype, bool wide);
void ty_x64_call(Emit *E, const Step *s);
void ty_x64_round_keys(Emit *E, int key, i32 at); /* of PHILOX, to 2 vectors a round in the frame */
void ty_x64_load(Emit *E, const XVal *v, i32 slot, int dst); /* one group of a stream */
void ty_x64_store(Emit *E, const Step *s);
void ty_x64_reduce(Emit *E, const Step *s, i32 nth);
void ty_x64_fold(Emit *E, const Step *s, int d, int acc, int x);
void ty_x64_join(Emit *E, const Step *s, int base, i32 n);
bool ty_x64_wants_reg(const Emit *E, const Step *s,
                      int k); /* whether operand k must be a register */

/* --- x64_short.c */
void ty_x64_find_short(Kernel *k); /* fills flat or row, where it has short runs */
bool ty_x64_run_flat(const Kernel *k, const Run *r); /* false: the run is not short */
bool ty_x64_run_row(const Kernel *k, const Run *r);
bool ty_x64_reserve(const Kernel *k, const Launch *l); /* memory for the run, unless it is flat */

/* --- x64_body.c */
bool ty_x64_emit(Emit *E); /* false: out of memory, or too much of something */
i32 ty_x64_root(const Emit *E, i32 slot);
int ty_x64_reg(Emit *E, i32 slot,
               int temp); /* sees to it that the value is in registers: the first;
                                                stays the same for all groups if uniform */
/* An operand of a step, resolved: what it is for the first group; `step`: bytes from one group to the
** next in memory, 0 when it is the same for all. */
typedef struct XOpd {
  X64Rm m;
  i32 step;
  bool dies; /* in registers that are free after this step */
} XOpd;
XOpd ty_x64_operand(Emit *E, i32 slot, bool want_reg, int temp);
X64_QUICK X64Rm ty_x64_of(const XOpd *o, int u) {
  X64Rm m = o->m;
  if (!o->step) return m;
  if (m.reg >= 0) m.reg = (i8)(m.reg + u);
  else m.disp += u * o->step;
  return m;
}
int ty_x64_take(Emit *E, i32 slot, int reg); /* the result goes where an operand was */
bool ty_x64_uniform(const Emit *E, i32 slot);
int ty_x64_result(Emit *E, i32 slot); /* registers for the step's result */
bool ty_x64_has_room(const Emit *E);  /* for one more, that the step does not read or make itself */
void ty_x64_mask_to(Emit *E, int size, int reg, i32 group);
void ty_x64_done(Emit *E); /* operands whose last use this is give up their registers */
X64Rm ty_x64_k(Emit *E, u64 bits, int size);              /* a constant in memory */
X64Rm ty_x64_at(Emit *E, i32 slot, int bytes, i32 group); /* element of a stream or state */
void ty_x64_v(Emit *E, X64Ins ins, int vl, int d, int a, X64Rm b, int imm, int k, bool z);
X64_QUICK int ty_x64_vl(const Emit *E, int size) { return E->vl[size == 8]; }
/* The mask register of a group (AVX-512), 0: all of it. */
static inline int ty_x64_mask(const Emit *E, i32 group) {
  return !E->tail ? 0 : E->side ? K_SIDE + group - E->base : K_TAIL;
}

#endif
