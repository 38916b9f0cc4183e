/*
** plan_calls.c -- when the calls of a plan (ir/call.h) begin and end.
** In:  groups.  Out: for each group the call that it is for, and how many calls must have begun before it. Fails when
** out of memory.
**
** A call works while other steps run. So it begins as soon as what it is given is there: groups run in the order of
** the calls that need them, and those that no call needs come last. Its end is waited for when nothing else is left to
** do for the next call.
**
** 1. A call that needs another one's result (by a chain of groups) begins after two more calls that do not, if there
**    are so many: the first of an exchange's two messages travels while the next gradients are computed.
** 2. Calls of a channel begin in the order of recording.
** 3. When a call is waited for, all that were recorded before it have begun. So a rank that waits has done for others
**    what they may wait for, whatever the order of their own plans: no circle of ranks waits for each other.
** 4. What may find an error in data (POSITIONS) comes before the first call that is no gate, as far as it can: the run then
**    ends with nothing under way, and others may go on.
*/
#include "compile/plan.h"
#include "ir/call.h"

enum { LATER = 3 }; /* places by which rule 1 puts a call off */

typedef struct Started {
  i32 key, channel;
  i32 place; /* in the order in which they begin */
  i32 need;  /* the last call whose end it waits for, or -1 */
  bool gate;
} Started;

typedef struct Calls {
  const Graph *g;
  const Groups *gs;
  CallOrder *y;
  Started *call; /* in the order of recording */
  i32 *
      number; /* per group: of the call that it begins, or that it or what it needs waits for; -1 */
} Calls;

static const Node *root_of(const Calls *C, i32 gi) { return &C->g->node[C->gs->group[gi].root]; }
static bool begins(const Calls *C, i32 gi) { return ty_node_begins(root_of(C, gi)); }
/* The call whose end the group waits for; -1: none. */
static i32 awaited(const Calls *C, i32 gi) {
  const Node *n = root_of(C, gi);
  return ty_node_awaits(n) ? C->number[C->gs->of[n->src[0]]] : -1;
}

/* The groups that a group needs, one after the other; -1: it is an input, or the group itself. False: no more. */
static bool maker(const Calls *C, i32 gi, i32 j, i32 *y) {
  const Group *gr = &C->gs->group[gi];
  if (j > gr->nin) return false;
  const i32 node = j < gr->nin ? gr->in[j] : gr->base;
  *y = node < 0 ? -1 : C->gs->of[node];
  if (*y == gi) *y = -1;
  return true;
}

/* Which calls each group waits for: those whose end it awaits, and what groups before it wait for. */
static void find_needs(Calls *C) {
  i32 n = 0;
  for (i32 gi = 0, m; gi < C->gs->n; gi++) {
    i32 need = -1;
    for (i32 j = 0; maker(C, gi, j, &m); j++)
      if (m >= 0 && !begins(C, m)) need = TY_MAX(need, C->number[m]);
    C->number[gi] = TY_MAX(need, awaited(C, gi));
    if (!begins(C, gi)) continue;
    const AsyncCall *c = ty_call_find(root_of(C, gi)->arg.k);
    C->call[n] = (Started){.need = need, .channel = c ? c->channel : 0, .gate = c && c->gate};
    C->number[gi] = n++;
  }
}

/* Rules 1 and 2: keys that ascend in a channel, and stay behind all calls that the end of a needed one waits for. */
static void give_places(Calls *C) {
  i32 n = C->y->n, most = 0;
  for (i32 i = 0; i < n; i++) {
    Started *s = &C->call[i];
    s->key = i;
    for (i32 k = 0; k < i; k++)
      if (C->call[k].channel == s->channel) s->key = TY_MAX(s->key, C->call[k].key);
    most = 0;
    for (i32 k = 0; k <= s->need; k++) most = TY_MAX(most, C->call[k].key);
    if (s->need >= 0) s->key = TY_MAX(s->key, most + LATER);
  }
  for (i32 i = 0; i < n; i++)
    for (i32 k = 0; k < n; k++)
      C->call[i].place +=
          C->call[k].key < C->call[i].key || (C->call[k].key == C->call[i].key && k < i);
}

/* The first call that is no gate. */
static i32 first_exchange(const Calls *C) {
  i32 i = 0;
  while (i < C->y->n && C->call[i].gate) i++;
  return i;
}

static void give_levels(Calls *C) {
  CallOrder *y = C->y;
  const i32 first = first_exchange(C);
  for (i32 gi = 0; gi < C->gs->n; gi++) y->level[gi] = y->n;
  for (i32 gi = C->gs->n, m; gi-- > 0;) {
    const bool checks = root_of(C, gi)->op == OP_POSITIONS && C->number[gi] < first;
    if (checks && first < y->n) y->level[gi] = TY_MIN(y->level[gi], C->call[first].place);
    if (begins(C, gi)) y->level[gi] = TY_MIN(y->level[gi], C->call[C->number[gi]].place);
    for (i32 j = 0; maker(C, gi, j, &m); j++)
      if (m >= 0) y->level[m] = TY_MIN(y->level[m], y->level[gi]);
  }
}

/* Rule 3, and that calls begin by their places. */
static void give_begun(Calls *C) {
  for (i32 gi = 0; gi < C->gs->n; gi++) {
    C->y->begun[gi] = begins(C, gi) ? C->call[C->number[gi]].place : 0;
    const i32 of = awaited(C, gi);
    for (i32 k = 0; k <= of; k++) C->y->begun[gi] = TY_MAX(C->y->begun[gi], C->call[k].place + 1);
  }
}

/* By level, then as they stand. */
static void sort_groups(Calls *C) {
  i32 at = 0;
  for (i32 level = 0; level <= C->y->n; level++)
    for (i32 gi = 0; gi < C->gs->n; gi++)
      if (C->y->level[gi] == level) C->y->group[at++] = gi;
}

bool ty_plan_calls(Arena *A, const Graph *g, const Groups *gs, CallOrder *y) {
  const size_t list = sizeof(i32) * (size_t)TY_MAX(gs->n, 1);
  *y = (CallOrder){0};
  for (i32 gi = 0; gi < gs->n; gi++) y->n += ty_node_begins(&g->node[gs->group[gi].root]);
  if (!y->n) return true;
  Calls C = {.g = g, .gs = gs, .y = y};
  C.call = ty_arena_alloc(A, sizeof *C.call * (size_t)y->n);
  C.number = ty_arena_alloc(A, list);
  y->level = ty_arena_alloc(A, list);
  y->begun = ty_arena_alloc(A, list);
  y->group = ty_arena_alloc(A, list);
  if (!C.call || !C.number || !y->level || !y->begun || !y->group) return false;
  find_needs(&C);
  give_places(&C);
  give_levels(&C);
  give_begun(&C);
  sort_groups(&C);
  return true;
}
