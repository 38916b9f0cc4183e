/*
** gemm_amx.h -- bf16 products on tiles; included once for each kind of tiles.
** In:  UNIT (suffix of names), ATTR (target attribute), TILES (what a function declares to have
**      eight tiles of 16 rows of 64 bytes), and on them, t and the like being literal numbers:
**      ZERO(t), LOAD(t, p, stride), STORE(t, p, stride), DOT(c, a, b); CONFIGURE, RELEASE. INLINE:
**      whether a block is worth a copy for each number of tiles. NARROW, PAIR_ROWS: of the Unit.
** Out: static const Unit unit_<UNIT>. Cannot fail.
**
** The first operand lies in tiles of 16 rows by 32 elements of k, the second in tiles of 16 pairs
** of k by 16 columns, the two elements of a pair side by side; edges are filled with zeros. Any
** whole number of tiles gives the same bits: an element of the product sees its k in steps of 32,
** ascending, and its sum is kept as it is between calls.
*/
#define GLUE2(a, b) a##_##b
#define GLUE(a, b) GLUE2(a, b)
#define NAME(a) GLUE(a, UNIT)

static ATTR void NAME(configure)(void) { CONFIGURE; }
static ATTR void NAME(release)(void) { RELEASE; }

/* Adds `steps` of k for rows x cols tiles. a: a row of tiles behind the other; b: pairs of tiles,
** step by step. Each tile that is loaded is used twice. */
static INLINE ATTR void NAME(block)(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs,
                                    const int rows, const int cols, bool first) {
  const u16 *a1 = a + steps * TILE;
  float *y1 = y + TILE_ROWS * yrs;
  const i64 stride = yrs * (i64)sizeof *y;
  TILES;
  FENCE;
  if (first) {
    ZERO(0);
    if (cols == 2) ZERO(1);
    if (rows == 2) ZERO(2);
    if (rows == 2 && cols == 2) ZERO(3);
  } else {
    LOAD(0, y, stride);
    if (cols == 2) LOAD(1, y + TILE_COLS, stride);
    if (rows == 2) LOAD(2, y1, stride);
    if (rows == 2 && cols == 2) LOAD(3, y1 + TILE_COLS, stride);
  }
  for (i64 s = 0; s < steps; s++, a += TILE, a1 += TILE, b += 2 * TILE) {
    LOAD(4, a, 64);
    LOAD(6, b, 64);
    DOT(0, 4, 6);
    if (cols == 2) {
      LOAD(7, b + TILE, 64);
      DOT(1, 4, 7);
    }
    if (rows == 2) {
      LOAD(5, a1, 64);
      DOT(2, 5, 6);
    }
    if (rows == 2 && cols == 2) DOT(3, 5, 7);
  }
  STORE(0, y, stride);
  if (cols == 2) STORE(1, y + TILE_COLS, stride);
  if (rows == 2) STORE(2, y1, stride);
  if (rows == 2 && cols == 2) STORE(3, y1 + TILE_COLS, stride);
  FENCE;
}

static ATTR void NAME(any_block)(i64 steps, const u16 *a, const u16 *b, float *y, i64 yrs, int rows,
                                 int cols, bool first, const char *next, i64 lines) {
  for (; lines > 0; lines--, next += 64) __builtin_prefetch(next);
  if (rows == 2 && cols == 2) NAME(block)(steps, a, b, y, yrs, 2, 2, first);
  else if (rows == 2) NAME(block)(steps, a, b, y, yrs, 2, 1, first);
  else if (cols == 2) NAME(block)(steps, a, b, y, yrs, 1, 2, first);
  else NAME(block)(steps, a, b, y, yrs, 1, 1, first);
}

static const Unit NAME(unit) = {NAME(configure), NAME(release), NAME(any_block), NARROW, PAIR_ROWS};

#undef GLUE2
#undef GLUE
#undef NAME
#undef UNIT
#undef ATTR
#undef TILES
#undef ZERO
#undef LOAD
#undef STORE
#undef DOT
#undef CONFIGURE
#undef RELEASE
#undef FENCE
#undef INLINE
