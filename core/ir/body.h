/*
** body.h -- what a loop repeats: the graph of one turn.
** In: carried values, a row of each sequence, constants. Out: the next carried values, a row of each result. Equal bodies
** are one; nodes name them by number. A body lives as long as a graph or a plan has such a node, and its number is not
** given again, so that what is known of a body by its number alone goes out of use with it. LOOP's operands hold them as elements of
** one dtype behind each other: the carried values, the sequences' rows, and in up to LOOP_CONSTANTS tensors constants.
*/
#ifndef TY_BODY_H
#define TY_BODY_H

#include "ir/graph.h"

enum { LOOP_CONSTANTS = MAX_SRC - 2, LOOP_STREAMS = 64 };
enum { LOOP_CARRIED, LOOP_ROWS, LOOP_CONSTANT }; /* operands: the first constant is operand 2 */

/* Rows come from the last to the first; and so come those of the loop that drew random numbers first, where this one
** goes back through it: a turn draws what it drew there. */
enum { LOOP_BACKWARDS = 1, LOOP_DRAWS_BACKWARDS = 2 };

/* Where INPUT k of the graph lies: from element `at` of the carried values, of a row, or of a constant operand. */
typedef struct BodyInput {
  i32 operand;
  i32 pad; /* zero */
  i64 at;
} BodyInput;

/* A node whose value goes to element `at` of the next carried values, or of a row of the results. */
typedef struct BodyOutput {
  i32 node;
  i32 is_row;
  i64 at;
} BodyOutput;

typedef struct Body {
  Graph g; /* scalars: of each stream of random numbers its number and the seed */
  i32 ninput, noutput;
  BodyInput *input;
  BodyOutput *output;
  i64 carried, row,
      made;    /* elements of the carried values, of a row of the sequences, of a row of results */
  i64 streams; /* that a turn takes: by which turn it was when it drew first */
  u8 dtype;    /* of the carried values and the results */
} Body;

/* What carried values and rows of so many elements begin at a multiple of: large ones at a cache line, small ones lie
** close, and in one line each. */
static inline i64 ty_body_unit(i64 numel, int dtype) {
  const i64 line = 64 / ty_dtypes[dtype].bytes;
  i64 unit = 1;
  while (unit < numel && unit < line) unit *= 2;
  return unit;
}

/* The number of a body like that one, held; 0: out of memory. *kept: its graph and lists are taken over. */
u64 ty_body_intern(const Body *b, bool *kept);
const Body *ty_body(u64 number); /* NULL: there is none, or there is none any more */
bool ty_body_hold(u64 number);   /* false: there is none */
/* ty_graph_drop_body for all but graph.c. True: nobody holds it any more, and the caller frees what is in *dead. */
bool ty_body_drop(u64 number, Body *dead);
i32 ty_body_scalars(
    u64 number); /* slots that its graph has; 0: there is none, as in what is kept to be shown */

#endif
