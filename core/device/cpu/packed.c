/*
** packed.c -- maps of bytes that go four to a word.
** In:  a map that combines elements of one or two bytes bit by bit.  Out: the same program over words of four bytes, and
** launches of it. Making fails when out of memory: the map then goes element by element.
**
** Elements are computed in 32 bits, so a mask of bools would fill a vector with zeros for three quarters. Where nothing
** but AND, OR and XOR is done to them, no bit meets another: a word may as well hold several elements. Constants are
** repeated. This needs elements that lie one after another from a multiple of four bytes on; the last ones that are no
** whole word, and other layouts, go by the map as it was.
*/
#include "device/cpu/tile.h"

enum { WORD = 4, PACKED_LEAST = 2048 }; /* elements from which a second launch pays */

/* Bytes of all operands, where the map can be packed; else 0. */
static int packable(const Program *p) {
  int bytes = 0;
  if (p->kind != K_MAP) return 0;
  for (int i = 0; i < p->noperands; i++) {
    const int own = ty_dtypes[p->operand[i].dtype].bytes;
    if (own >= WORD || (bytes && own != bytes)) return 0;
    bytes = own;
  }
  for (int i = 0; i < p->nbody; i++) {
    const int op = p->body[i].op;
    const bool moves = op == P_LOAD || op == P_STORE || op == P_CONST;
    if ((!moves && op != P_AND && op != P_OR && op != P_XOR) || p->body[i].type != C_I32) return 0;
  }
  return bytes;
}

Program *ty_packed_program(const Program *p) {
  const int bytes = packable(p);
  Program *y = bytes ? ty_mem_alloc(ty_program_bytes(p)) : NULL;
  if (!y) return NULL;
  memcpy(y, p, ty_program_bytes(p));
  for (int i = 0; i < y->noperands; i++) y->operand[i].dtype = T_I32;
  for (int i = 0; i < y->nbody; i++) {
    Instr *in = &y->body[i];
    if (in->op != P_CONST) continue;
    in->imm = bytes == 1 ? (in->imm & 0xff) * 0x01010101u : (in->imm & 0xffff) * 0x00010001u;
  }
  return y;
}

/* Reserves memory for n elements of k, or runs them: what lies at element `from` of the map on. */
static bool line(const Kernel *k, const Run *r, i64 from, int bytes, i64 n, bool run) {
  void *at[MAX_OPERANDS];
  Launch L = {.ni = 1, .flat = true, .dims = {n}};
  for (int i = 0; i < k->p->noperands; i++) {
    L.strides[i][0] = 1;
    at[i] = (char *)r->buf[i] + (r->launch->start[i] + from) * bytes;
  }
  return run ? ty_tile_run(k, &(Run){&L, at, r->scalar, r->stream}) : ty_tile_reserve(k, &L);
}

bool ty_packed_run(const Kernel *k, const Run *r) {
  const Launch *L = r->launch;
  const int bytes = ty_dtypes[k->p->operand[0].dtype].bytes;
  i64 all = 1;
  for (int d = 0; d < L->ni; d++) all *= L->dims[d];
  if (all < PACKED_LEAST) return false;
  for (int i = 0; i < k->p->noperands; i++) {
    if (((uintptr_t)r->buf[i] + (uintptr_t)(L->start[i] * bytes)) % WORD) return false;
    if (!L->flat && !ty_is_contiguous(L->ni, L->dims, L->strides[i])) return false;
  }
  const i64 left = all % (WORD / bytes), words = (all - left) * bytes / WORD;
  /* Of the map as it was memory is reserved already. */
  if (!line(k->packed, r, 0, bytes, words, false)) return false;
  if (left && !line(k, r, all - left, bytes, left, false)) return false;
  if (!line(k->packed, r, 0, bytes, words, true)) return false;
  return !left || line(k, r, all - left, bytes, left, true);
}
