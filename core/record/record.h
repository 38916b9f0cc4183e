/*
** record.h -- the words of record.c, record_move.c and record_write.c: recordings, nodes of operands.
**
** A record demands what it must (ty_record_settle), chooses a recording (ty_record_begin), appends nodes
** and ends (ty_record_finish). A demand may close the open recording: what was settled before
** ty_record_begin is settled again behind it, and no node number is held across one. A node number
** may be -1, no memory: the words pass it on, and ty_record_finish says so.
*/
#ifndef TY_RECORD_H
#define TY_RECORD_H

#include "record/tensor.h"

/* The user's name of a function, else the row's. */
static inline const char *ty_record_name(const char *who, int op) {
  return who ? who : ty_ops[op].lua;
}

#define SHOWN 160
/* A type as text, of SHOWN bytes. */
const char *ty_record_show(const Type *t, char *buf);

/* --- recordings */

/* The recording that the next nodes go to, whose leaves lie on the device: the open one, or a new one for a single operation. */
Recording *ty_record_begin(State *S, int device);
/* All tensors lie on one device. */
bool ty_record_same_device(State *S, const char *who, int n, const Given *src);
/* The same of a leaf, whose type must fit. */
Recording *ty_record_start_leaf(State *S, const char *who, const Type *t);
/* The same of a record with one operand, whose node is cast to dtype: its number, -1 after a failure
** that has been said. */
i32 ty_record_start(State *S, const char *who, const Tensor *x, int dtype, Recording **b);
/* Drops a recording of ty_record_begin after a failure, which is said or one of memory. Always false. */
bool ty_record_cancel(State *S, Recording *b);
bool ty_record_cancel_memory(State *S, Recording *b, const char *who);
/* Ends a record: eager recordings are cut. */
bool ty_record_commit(State *S, Recording *b);
/* The same with a new tensor y that waits for the node, of the node's type or one with other dims. y
** is empty again after a failure. */
bool ty_record_finish(State *S, Recording *b, i32 node, Tensor *y, const char *who);
bool ty_record_finish_as(State *S, Recording *b, i32 node, const Type *shown, Tensor *y,
                         const char *who);

/* Whether the CPU writes so few elements here and now, without a graph. */
static inline bool ty_record_is_few(const State *S, const Type *t) {
  return !S->open && !t->device && ty_type_fits(t) && ty_type_numel(t) < S->few;
}

/* --- operands */

/* Computes x when it waits for a recording that is not the open one. */
bool ty_record_settle(State *S, const Tensor *x);
bool ty_record_settle_all(State *S, int n, const Given *src);

static inline i32 ty_node_append(Recording *b, const Node *n) { return ty_fold_append(&b->g, n); }

static inline Node ty_node_new(int op, const Type *t, i32 a0, i32 a1, i32 a2) {
  Node n;
  memset(&n, 0, sizeof n);
  n.op = (u16)op;
  memset(n.src, -1, sizeof n.src);
  n.src[0] = a0;
  n.src[1] = a1;
  n.src[2] = a2;
  n.type = *t;
  return n;
}

i32 ty_node_cast(Recording *b, i32 a, int dtype);
/* A number as an operand of that dtype: a run-time scalar. symbol: a capture's name for it, or 0. */
i32 ty_node_symbol(Recording *b, int dtype, double v, i32 symbol);
static inline i32 ty_node_scalar(Recording *b, int dtype, double v) {
  return ty_node_symbol(b, dtype, v, 0);
}
/* Node a seen with the dims of t, which has as many elements. */
i32 ty_node_reshape(Recording *b, i32 a, const Type *t);
/* Node a seen with the dims of t, to which it broadcasts. */
i32 ty_node_expand(Recording *b, i32 a, const Type *t);

#endif
