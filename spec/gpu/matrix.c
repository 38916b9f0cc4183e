/*
** matrix.c -- mma of a warp: d = a b + c of 16 x k by k x 8, with the fragments of the manual, and ldmatrix.
** A device's sums are not defined bit for bit (neither order nor rounding): here they are taken in f64 and rounded once. Who wants
** bits must not use mma.
** Code.more holds the registers of d, a, b, c, one after the other; Code.type is the type of a and b, Code.from that of c and d,
** Code.target is k.
*/
#include "exec.h"

enum { ROWS = 16, COLUMNS = 8, DEPTH = 16 };

typedef struct Matrices {
  double a[ROWS][DEPTH], b[DEPTH][COLUMNS], c[ROWS][COLUMNS];
} Matrices;

static double half_of(uint32_t pair, int i, int type) {
  uint16_t h = (uint16_t)(pair >> (16 * i));
  return type == T_BF16 ? bf16_value(h) : f16_value(h);
}

/* Of tf32 the low 13 bits are not read. */
static double tf32_of(uint32_t bits) {
  float f;
  bits &= ~(uint32_t)0x1fff;
  memcpy(&f, &bits, 4);
  return f;
}

/* Register r of a holds row g + 8 (r & 1); of b, column g. Halves lie two in a register, side by side along k. */
static void gather_inputs(const Warp *w, const Code *c, const uint16_t *a, int n_a,
                          const uint16_t *b, int n_b, Matrices *m) {
  for (int l = 0; l < WARP; l++) {
    int g = l / 4, t = l % 4;
    for (int r = 0; r < n_a; r++) {
      uint32_t v = SLOT32(w, a[r])[l];
      int row = g + 8 * (r & 1);
      if (c->type == T_TF32) m->a[row][t + 4 * (r >> 1)] = tf32_of(v);
      else
        for (int i = 0; i < 2; i++) m->a[row][2 * t + i + 8 * (r >> 1)] = half_of(v, i, c->type);
    }
    for (int r = 0; r < n_b; r++) {
      uint32_t v = SLOT32(w, b[r])[l];
      if (c->type == T_TF32) m->b[t + 4 * r][g] = tf32_of(v);
      else
        for (int i = 0; i < 2; i++) m->b[2 * t + i + 8 * r][g] = half_of(v, i, c->type);
    }
  }
}

static void gather_sums(const Warp *w, const Code *c, const uint16_t *slots, Matrices *m) {
  for (int l = 0; l < WARP; l++)
    for (int i = 0; i < 4; i++) {
      double *to = &m->c[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
      if (c->from == T_F32) {
        float f;
        memcpy(&f, SLOT32(w, slots[i]) + l, 4);
        *to = f;
      } else *to = half_of(SLOT32(w, slots[i / 2])[l], i % 2, T_F16);
    }
}

static void scatter_sums(Warp *w, const Code *c, const uint16_t *slots, Matrices *m) {
  for (int l = 0; l < WARP; l++)
    for (int i = 0; i < 4; i++) {
      double v = m->c[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
      if (c->from == T_F32) {
        SLOT32(w, slots[i])[l] = f32_canonical((float)v);
        continue;
      }
      uint32_t *to = SLOT32(w, slots[i / 2]) + l, half = f16_round(v, ROUND_RN);
      *to = i % 2 ? (*to & 0xffff) | half << 16 : half;
    }
}

void run_mma(Warp *w, const Code *c, uint32_t mask) {
  static Matrices m;
  (void)mask;
  int per = c->type == T_TF32 ? 4 : 8, n_a = c->target / per * 2, n_b = c->target / per,
      n_d = c->from == T_F32 ? 4 : 2;
  const uint16_t *d = c->more, *a = d + n_d, *b = a + n_a, *sum = b + n_b;
  gather_inputs(w, c, a, n_a, b, n_b, &m);
  gather_sums(w, c, sum, &m);
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < COLUMNS; j++)
      for (int k = 0; k < c->target; k++) m.c[i][j] += m.a[i][k] * m.b[k][j];
  scatter_sums(w, c, d, &m);
}

/* Lane 8 i + r has the address of row r of matrix i: 8 rows of 8 halves. Code.op says that they are transposed. */
void run_ldmatrix(Warp *w, const Code *c, uint32_t mask) {
  (void)mask;
  for (int i = 0; i < c->n_more; i++) {
    uint16_t rows[8][8];
    for (int r = 0; r < 8; r++) {
      int lane = 8 * i + r;
      uint64_t base = c->o[0] == NO_SLOT ? 0
                      : c->from == 8     ? SLOT64(w, c->o[0])[lane]
                                         : SLOT32(w, c->o[0])[lane];
      uint64_t at = base + (uint64_t)c->offset;
      if (at & 15) {
        fail(w, c, lane, MISALIGNED_ADDRESS, "ldmatrix: a row at 0x%llx is not aligned",
             (unsigned long long)at);
        return;
      }
      const uint8_t *from = shared_at(w, c, lane, at, 16, false);
      if (!from) return;
      memcpy(rows[r], from, 16);
    }
    for (int l = 0; l < WARP; l++) {
      int r = l / 4, k = l % 4 * 2;
      uint32_t low = c->op ? rows[k][r] : rows[r][k],
               high = c->op ? rows[k + 1][r] : rows[r][k + 1];
      SLOT32(w, c->more[i])[l] = low | high << 16;
    }
  }
}
