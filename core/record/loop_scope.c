/*
** loop_scope.c -- from a loop's first parameter until it is recorded: what was there, and what the tape meets.
** In: the open recording; operands of what is taped meanwhile. Out: a LoopScope. Fails out of memory only.
*/
#include "record/loop.h"
#include "record/vmap.h"

#define WHO "scan"

bool ty_loop_begin(State *S, LoopScope *l) {
  Recording *b = S->open;
  i32 n = 0;
  *l = (LoopScope){.S = S};
  if (!b) return ty_fail(S, WHO ": nothing is recorded");
  for (const Storage *st = b->waiting; st; st = st->next) n++;
  if (!(l->before = ty_mem_alloc(sizeof *l->before * (size_t)(n + 1))))
    return ty_fail_memory(S, WHO, 0);
  for (Storage *st = b->waiting; st; st = st->next)
    l->before[l->nbefore++] = (struct LoopBefore){ty_storage_hold(st), st->version};
  l->recording = b;
  b->refs++; /* no other recording is to be taken for it */
  l->first = b->g.n;
  l->stream = S->stream;
  l->seq = S->record_seq;
  l->outer = S->loop;
  S->loop = l;
  return true;
}

void ty_loop_end(LoopScope *l) {
  for (LoopScope **at = &l->S->loop; *at; at = &(*at)->outer)
    if (*at == l) {
      *at = l->outer;
      break;
    }
  if (l->recording) ty_recording_drop(l->S, l->recording);
  for (i32 i = 0; i < l->nbefore; i++) ty_storage_drop(l->before[i].st);
  for (i32 i = 0; i < l->ntaped; i++) ty_tensor_release(&l->taped[i]);
  ty_mem_free(l->before);
  ty_mem_free(l->taped);
  ty_mem_free(l->param);
  *l = (LoopScope){.S = l->S};
}

bool ty_loop_outside(const LoopScope *l, const Storage *st) {
  if (st->batched) return ty_loop_outside(l, st->batched->t.st);
  for (i32 i = 0; i < l->nbefore; i++)
    if (l->before[i].st == st) return true;
  return st->buf != NULL;
}

bool ty_loop_note(State *S, const Tensor *x) {
  LoopScope *l = S->loop;
  if (!ty_needs_grad(x) || x->st->tape->seq > l->seq) return true;
  for (i32 i = 0; i < l->ntaped; i++)
    if (l->taped[i].st->tape == x->st->tape) return true; /* the storage, or a snapshot of it */
  if (l->ntaped == l->taped_cap) {
    const i32 cap = l->taped_cap ? 2 * l->taped_cap : 8;
    Tensor *more = ty_mem_realloc(l->taped, sizeof *more * (size_t)cap);
    if (!more) return ty_fail_memory(S, WHO, 0);
    l->taped = more;
    l->taped_cap = cap;
  }
  l->taped[l->ntaped] = (Tensor){0};
  ty_tensor_alias(&l->taped[l->ntaped++], x);
  return true;
}
