/*
** lower_value.h -- what a node computes, in primitives.
*/
#ifndef TY_LOWER_VALUE_H
#define TY_LOWER_VALUE_H

#include "ir/build.h"
#include "ir/graph.h"

Val ty_lower_map(Build *B, const Graph *g, i32 n, const Val v[3]);
/* A REDUCE or SCAN of x, of dtype `from`. */
Val ty_lower_along(Build *B, const Node *N, int from, Val x);
/* An element of that dtype as it was loaded, in its compute type; and back. */
Val ty_lower_loaded(Build *B, int dtype, Val x);
Val ty_lower_stored(Build *B, int dtype, Val x);
/* Instructions that node n adds to a body, at most. */
int ty_lower_cost(const Graph *g, i32 n);

#endif
