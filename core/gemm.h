/*
** gemm.h -- what the files of matrix products share; private to them.
*/
#ifndef TY_GEMM_H
#define TY_GEMM_H

#include "machine.h"

#include <stdatomic.h>

typedef struct Slot { /* scratch of one thread at work */
  _Atomic int busy;
  char *mem;
} Slot;

/* There are more slots than threads that can be here at once, so one is free. */
static inline Slot *ty_slot_take(Slot *slot, int n) {
  for (;;)
    for (int i = 0; i < n; i++)
      if (!atomic_exchange_explicit(&slot[i].busy, 1, memory_order_acquire)) return &slot[i];
}

static inline void ty_slot_leave(Slot *s) {
  atomic_store_explicit(&s->busy, 0, memory_order_release);
}

/* Leading dims whose rows of a simply go on, with one b, become rows of one larger product. */
void ty_gemm_merge(Gemm *d);

/* gemm_amx.c: as ty_gemm, ty_gemm_panels and ty_gemm_pack, for d->amx. K > 0, y has elements. */
bool ty_amx_gemm(const Gemm *d, const void *a, const void *b, const void *panels, void *y,
                 const GemmTail *tail);
i64 ty_amx_panels(const Gemm *d);
void ty_amx_pack(const Gemm *d, const void *b, void *panels);

#endif
