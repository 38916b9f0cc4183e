/*
** exec.h -- what instructions do, for 32 lanes: functions by type, that the table of forms names.
** A register has a 32-bit word a lane, or a 64-bit one; 8- and 16-bit values lie zero-extended in it. A predicate is a bit a
** lane. Where all lanes are active, loops have no mask: the compiler makes vector code of them.
*/
#ifndef SOFT_GPU_EXEC_H
#define SOFT_GPU_EXEC_H

#include "gpu.h"

/* Runs a statement for each active lane l; lanes are independent. */
#define LANES(...) \
  do { \
    if (mask == ~(uint32_t)0) { \
      _Pragma("GCC ivdep") for (int l = 0; l < WARP; l++) { __VA_ARGS__ } \
    } else { \
      for (int l = 0; l < WARP; l++) \
        if (mask >> l & 1) { __VA_ARGS__ } \
    } \
  } while (0)

#define RUN(name) static void name(Warp *w, const Code *c, uint32_t mask)
#define SLOT(type, i) ((type *)(void *)SLOT32(w, c->o[i]))

/* integer.c */
extern Run *const run_add[T_COUNT],
    *const run_sub[T_COUNT],
        *const run_mul_lo[T_COUNT],
            *const run_mul_hi[T_COUNT],
                *const run_mul_wide[T_COUNT],
                    *const run_mad_lo[T_COUNT],
                        *const run_mad_hi[T_COUNT],
                            *const run_mad_wide[T_COUNT],
                                *const run_div[T_COUNT],
                                    *const run_rem[T_COUNT],
                                        *const run_abs[T_COUNT],
                                            *const run_neg[T_COUNT],
                                                *const run_min[T_COUNT],
                                                    *const run_max[T_COUNT],
                                                        *const run_and[T_COUNT],
                                                            *const run_or[T_COUNT],
                                                                *const run_xor[T_COUNT],
                                                                    *const run_not[T_COUNT],
                                                                        *const run_cnot[T_COUNT],
                                                                            *const run_shl[T_COUNT],
                                                                                *const run_shr[T_COUNT],
                                                                                    *const run_sad[T_COUNT],
                                                                                        *const run_popc[T_COUNT],
                                                                                            *const run_clz[T_COUNT],
                                                                                                *const run_brev[T_COUNT],
                                                                                                    *const run_bfind[T_COUNT],
                                                                                                        *const run_bfe[T_COUNT],
                                                                                                            *const run_bfi[T_COUNT],
                                                                                                                *const run_mov[T_COUNT],
                                                                                                                    *const run_selp[T_COUNT],
                                                                                                                        *const run_mul24
                                                                                                                            [T_COUNT],
                                                                                                                                *const run_mad24
                                                                                                                                    [T_COUNT];
Run run_add_sat, run_sub_sat, run_mad_hi_sat, run_shf, run_prmt, run_lop3, run_dp4a, run_carry,
    run_pack, run_unpack;
enum { CARRY_IN = 1, CARRY_OUT = 2, CARRY_SUB = 4, CARRY_MAD_LO = 8, CARRY_MAD_HI = 16 };

/* real.c: f32 and f64 */
typedef enum RealOp {
  R_ADD,
  R_SUB,
  R_MUL,
  R_FMA,
  R_DIV,
  R_SQRT,
  R_RCP,
  R_MIN,
  R_MAX,
  R_ABS,
  R_NEG,
  R_EX2,
  R_LG2,
  R_SIN,
  R_COS,
  R_RSQRT,
  R_TANH,
  R_COUNT
} RealOp;
enum { ROUND_RN, ROUND_RZ, ROUND_RM, ROUND_RP, ROUND_RNA };
enum { SAT_ONE = 1, SAT_RELU };         /* Code.sat */
enum { NAN_PASSES = 1, XOR_SIGN = 2 };  /* Code.from of min and max */
extern Run *const run_real[R_COUNT][2]; /* [1] is f64; rounded to nearest, without .ftz and .sat */
Run run_real_slow;
double round_odd_sum(double a, double b);
uint32_t f32_canonical(float f);

/* half.c: f16, bf16 and pairs of them; Code.op is a RealOp */
Run run_half;
float f16_value(uint16_t h);
float bf16_value(uint16_t h);
uint16_t f16_round(double d, int round); /* of an exact value, or one rounded to odd */
uint16_t bf16_round(double d, int round);
float f32_round(double d, int round);
float tf32_round(float f, int round);

/* compare.c */
typedef enum CompareOp {
  C_EQ,
  C_NE,
  C_LT,
  C_LE,
  C_GT,
  C_GE,
  C_EQU,
  C_NEU,
  C_LTU,
  C_LEU,
  C_GTU,
  C_GEU,
  C_NUM,
  C_NAN,
  C_COUNT
} CompareOp;
Run run_setp, run_set, run_slct, run_testp, run_copysign, run_pred_logic, run_mov_pred,
    run_selp_pred;
uint32_t compare_lanes(Warp *w, const Code *c, uint32_t mask, int op, Type type, int a, int b,
                       bool ftz);

/* convert.c */
Run run_cvt, run_cvt_pack;
Run *convert_fast(Type to, Type from, int round, bool sat, bool ftz); /* null: run_cvt */

/* access.c */
Run run_ld, run_st, run_atom, run_cp_async, run_cp_commit, run_cp_wait, run_cvta, run_isspacep,
    run_ld_param, run_nothing, run_prefetch;

/* shared.c */
uint8_t *shared_at(Warp *w, const Code *c, int lane, uint64_t at, uint32_t bytes, bool write);
bool shared_load(Warp *w, const Code *c, uint32_t mask, const uint64_t *at);
bool shared_store(Warp *w, const Code *c, uint32_t mask, const uint64_t *at);
void shared_touch(Warp *w, const Code *c, int lane, uint32_t at, uint32_t bytes, bool write);
void shared_fly(Warp *w, uint32_t at, uint32_t bytes, bool under_way);
bool tags_new(Tags *t, size_t n);
void tags_clear(Tags *t);
void tags_free(Tags *t);

/* blocks.c */
void blocks_touch(Warp *w, const Code *c, int lane, const Region *r, uint64_t at, uint32_t bytes,
                  bool write);
bool blocks_touch_all(const Block *b, const Region *r, uint64_t at, uint32_t bytes, bool write);

/* lanes.c: among the lanes of a warp, called when all lanes named by the mask are there */
Run run_shfl, run_vote, run_match, run_activemask, run_bar_warp, run_redux, run_elect;
uint32_t sync_mask(const Warp *w, const Code *c, uint32_t mask); /* who must be there */

/* matrix.c */
Run run_mma, run_ldmatrix;

#endif
