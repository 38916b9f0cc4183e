/*
** record_call.c -- calls of other libraries (ir/call.h) as part of a capture.
** In:  a call, what its result holds before, what it is given. Out: its result, a tensor of the capture. Fails as record.c
** does, and where the capture records the turn of a scan.
*/
#include "ir/call.h"
#include "record/capture.h"
#include "record/record.h"

i32 ty_record_calls(const State *S) {
  const Capture *c = S->capture;
  i32 n = 0;
  if (!c) return -1;
  for (i32 i = 0; i < c->recording->g.n; i++) n += ty_node_begins(&c->recording->g.node[i]);
  return n;
}

/* The end of the last call that all others wait for; -1: there is none. */
static i32 last_gate(const Graph *g) {
  for (i32 i = g->n; i-- > 0;)
    if (ty_node_awaits(&g->node[i]) && ty_call_find(g->node[i].arg.k)->gate) return i;
  return -1;
}

bool ty_record_call(State *S, const char *who, i32 number, const Type *t, const Tensor *base,
                    const Tensor *x, Tensor *y) {
  const AsyncCall *c = ty_call_find(number);
  if (S->open && S->open->body) return ty_capture_refuse(S, "exchanges tensors inside of a scan");
  if ((base && !ty_record_settle(S, base)) || (x && !ty_record_settle(S, x))) return false;
  Recording *b = ty_record_begin(S, 0);
  if (!b) return false;
  Node empty = ty_node_new(OP_EMPTY, t, -1, -1, -1);
  const i32 from = base ? ty_record_node(S, b, base) : ty_node_append(b, &empty);
  const i32 given = x ? ty_record_node(S, b, x) : from;
  if (from < 0 || given < 0) return ty_record_cancel_memory(S, b, who);
  const i32 gate = c->gate ? -1 : last_gate(&b->g);
  Node call = ty_node_new(OP_CALL, &b->g.node[from].type, from, given, gate < 0 ? from : gate);
  call.arg.k = number;
  const i32 begun = ty_node_append(b, &call);
  if (begun < 0) return ty_record_cancel_memory(S, b, who);
  Node await = ty_node_new(OP_CALL, &call.type, begun, x ? given : begun, begun);
  await.arg.k = number;
  await.arg.k2 = CALL_AWAITED;
  return ty_record_finish(S, b, ty_node_append(b, &await), y, who);
}
