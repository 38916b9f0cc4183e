/*
** lower_value.h -- what a node computes, in primitives.
*/
#ifndef TY_LOWER_VALUE_H
#define TY_LOWER_VALUE_H

#include "ir/build.h"
#include "ir/graph.h"

Val ty_lower_map(Build *B, const Graph *g, i32 n, const Val v[3]);
/* A REDUCE or SCAN of x. */
Val ty_lower_along(Build *B, const Node *N, Val x);
/* Instructions that node n adds to a body, at most. */
int ty_lower_cost(const Graph *g, i32 n);

#endif
