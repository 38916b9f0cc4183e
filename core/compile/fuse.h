/*
** fuse.h -- what fuse leaves for lower: the values and the nest of each group.
** Private to fuse.c and lower.c; plan.h is what others see.
*/
#ifndef TY_FUSE_H
#define TY_FUSE_H

#include "ir/map.h"
#include "compile/plan.h"

#define FUSE_OPERANDS 20 /* of a program; below MAX_OPERANDS */
#define FUSE_SCALARS 40  /* below the room of Work.scalar */
#define FUSE_BODY 560    /* instructions by estimate; below MAX_BODY */

/* What a node is to fuse, and how a value of it is made. */
typedef enum {
  R_FILL,               /* one value known here: EMPTY, an empty sum; anything without elements */
  R_CONST,              /* one value in every element */
  R_SCALAR,             /* the same, known when it runs */
  R_UNIFORM = R_SCALAR, /* up to here: no map is needed */
  R_INDEX,              /* IOTA */
  R_RANDOM,
  R_INPUT,
  R_ALIAS, /* REDUCE and SCAN over one element: the operand itself */
  R_VIEW,
  R_MAP,
  R_REDUCE,
  R_SCAN,
  R_GATHER,
  R_PUT,
  R_GEMM, /* as a value: the product behind which the group is an epilogue */
  R_ROUTINE,
  R_LOAD /* values only: read from the buffer of a stored node or an INPUT */
} Role;

/* A node's value at one map of one group. Same node, group and map: same value. */
typedef struct Value {
  i32 node, group, map; /* map: -1 for what is uniform */
  union {
    i32 at[3];  /* maps at which the operands would be read: what `reach` prepares for `take` */
    i32 src[3]; /* taken: values of the operands; -1: none */
  };
  i32 load; /* LOAD: the map into the buffer; GATHER: the part that does not depend on the index */
  i32 same; /* next value of this node */
  i32 next; /* next value of this group, by ascending node */
  i32 val;  /* lower's: the instruction */
  u8 role;
  bool elem;    /* some L_ELEM value depends on it */
  bool scanned; /* some scan depends on it */
} Value;

typedef struct Fusion {
  Maps maps;
  Choices *choices; /* of a range of sizes, or NULL */
  Value *value;
  i32 nvalue, value_cap;
} Fusion;

/* An operand of a product or of attention: a domain over its dims, some of them split, and the positions of its
** elements among those of a node; and indices of which each must be in [0, extent), else the element is
** one of a border: it is zero, and its position is none. */
typedef struct Factor {
  i32 node;
  Domain domain;
  Map map;
  i32 borders;
  Map border[BORDERS];
  i64 extent[BORDERS];
} Factor;

/* What the values of one node would add to a group. */
typedef struct Need {
  i32 node, operands, scalars, cost;
} Need;

typedef struct LoopNest {
  Fusion *F;
  Domain domain;
  u8 kind;    /* GroupKind */
  bool empty; /* no element is computed */
  bool scan, fast;
  i32 id, root, base, product;
  i32 values; /* first of its list */
  i32 noperands, nscalars, cost;
  Need need;
  i32 spare; /* instructions that repeat work done elsewhere */
  i32 nout;
  struct {
    i32 node, value, map; /* map: where it is stored */
  } out[FUSE_OPERANDS];
  i32 operand[MAX_SRC];   /* GEMM, HOST: nodes */
  Factor factor[MAX_SRC]; /* GEMM, ATTEND*, the index of SCATTER* */
} LoopNest;

/* GATHER: the node whose buffer is read, when src is read through at most one view of a contiguous
** buffer; sets the strides of src's dims in it and the offset. */
i32 ty_fuse_gathered(const Graph *g, i32 src, i64 *strides, i64 *offset);
/* An INPUT without gaps and in order. */
bool ty_fuse_contiguous(const Node *n);

#endif
