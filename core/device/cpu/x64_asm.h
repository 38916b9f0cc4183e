/*
** x64_asm.h -- an encoder of x86-64 instructions: VEX, EVEX, and the few of the plain set that loops
** need.
** In:  rows of the table below and operands.  Out: bytes, and where it is wanted a listing in the
** syntax of the GNU assembler (Intel order), which must assemble to the same bytes. Fails when the
** buffer cannot grow: the flag `failed` stays set and nothing more is written.
*/
#ifndef TY_X64_ASM_H
#define TY_X64_ASM_H

#include "base/base.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, RNONE = -1 };
enum { PNP, P66, PF3, PF2 };               /* prefixes */
enum { M0F = 1, M0F38, M0F3A };            /* maps */
enum { VL128, VL256, VL512 };              /* vector lengths */
enum { T_FULL, T_HALF, T_QUARTER, T_ONE }; /* what of a vector lies in memory; ONE: an element */
/* Which sets have the instruction; VEX1: as EVEX it has W = 1, as VEX W = 0. Roles: DK: the result
** is a mask register (EVEX), STORES: reg is the source, IMMSHIFT: the result is in vvvv. */
enum {
  VEX = 1,
  EVEX = 2,
  BOTH = 3,
  VEX1 = 4,
  DK = 8,
  STORES = 16,
  IMMSHIFT = 32,
  TWO = 64,
  VSIB = 128
};

/*  name  prefix map opcode W tuple flags; TWO: two operands, no vvvv */
#define X64_INS(_) \
  _(vmovups, PNP, M0F, 0x10, 0, T_FULL, BOTH | TWO) \
  _(vmovupd, P66, M0F, 0x10, 1, T_FULL, BOTH | VEX1 | TWO) \
  _(vmovaps, PNP, M0F, 0x28, 0, T_FULL, BOTH | TWO) \
  _(vbroadcastss, P66, M0F38, 0x18, 0, T_ONE, BOTH | TWO) \
  _(vbroadcastsd, P66, M0F38, 0x19, 1, T_ONE, BOTH | VEX1 | TWO) \
  _(vaddps, PNP, M0F, 0x58, 0, T_FULL, BOTH) \
  _(vaddpd, P66, M0F, 0x58, 1, T_FULL, BOTH | VEX1) \
  _(vsubps, PNP, M0F, 0x5c, 0, T_FULL, BOTH) \
  _(vsubpd, P66, M0F, 0x5c, 1, T_FULL, BOTH | VEX1) \
  _(vmulps, PNP, M0F, 0x59, 0, T_FULL, BOTH) \
  _(vmulpd, P66, M0F, 0x59, 1, T_FULL, BOTH | VEX1) \
  _(vdivps, PNP, M0F, 0x5e, 0, T_FULL, BOTH) \
  _(vdivpd, P66, M0F, 0x5e, 1, T_FULL, BOTH | VEX1) \
  _(vminps, PNP, M0F, 0x5d, 0, T_FULL, BOTH) \
  _(vminpd, P66, M0F, 0x5d, 1, T_FULL, BOTH | VEX1) \
  _(vmaxps, PNP, M0F, 0x5f, 0, T_FULL, BOTH) \
  _(vmaxpd, P66, M0F, 0x5f, 1, T_FULL, BOTH | VEX1) \
  _(vsqrtps, PNP, M0F, 0x51, 0, T_FULL, BOTH | TWO) \
  _(vsqrtpd, P66, M0F, 0x51, 1, T_FULL, BOTH | VEX1 | TWO) \
  _(vandps, PNP, M0F, 0x54, 0, T_FULL, BOTH) \
  _(vandpd, P66, M0F, 0x54, 1, T_FULL, BOTH | VEX1) \
  _(vandnps, PNP, M0F, 0x55, 0, T_FULL, BOTH) \
  _(vandnpd, P66, M0F, 0x55, 1, T_FULL, BOTH | VEX1) \
  _(vorps, PNP, M0F, 0x56, 0, T_FULL, BOTH) \
  _(vorpd, P66, M0F, 0x56, 1, T_FULL, BOTH | VEX1) \
  _(vxorps, PNP, M0F, 0x57, 0, T_FULL, BOTH) \
  _(vxorpd, P66, M0F, 0x57, 1, T_FULL, BOTH | VEX1) \
  _(vpternlogd, P66, M0F3A, 0x25, 0, T_FULL, EVEX) \
  _(vrndscaleps, P66, M0F3A, 0x08, 0, T_FULL, EVEX | TWO) \
  _(vrndscalepd, P66, M0F3A, 0x09, 1, T_FULL, EVEX | TWO) \
  _(vroundps, P66, M0F3A, 0x08, 0, T_FULL, VEX | TWO) \
  _(vroundpd, P66, M0F3A, 0x09, 0, T_FULL, VEX | TWO) \
  _(vrangeps, P66, M0F3A, 0x50, 0, T_FULL, EVEX) \
  _(vrangepd, P66, M0F3A, 0x50, 1, T_FULL, EVEX) \
  _(vfmadd132ps, P66, M0F38, 0x98, 0, T_FULL, BOTH) \
  _(vfmadd132pd, P66, M0F38, 0x98, 1, T_FULL, BOTH) \
  _(vfmadd213ps, P66, M0F38, 0xa8, 0, T_FULL, BOTH) \
  _(vfmadd213pd, P66, M0F38, 0xa8, 1, T_FULL, BOTH) \
  _(vfmadd231ps, P66, M0F38, 0xb8, 0, T_FULL, BOTH) \
  _(vfmadd231pd, P66, M0F38, 0xb8, 1, T_FULL, BOTH) \
  _(vpaddd, P66, M0F, 0xfe, 0, T_FULL, BOTH) \
  _(vpaddq, P66, M0F, 0xd4, 1, T_FULL, BOTH | VEX1) \
  _(vpsubd, P66, M0F, 0xfa, 0, T_FULL, BOTH) \
  _(vpsubq, P66, M0F, 0xfb, 1, T_FULL, BOTH | VEX1) \
  _(vpmulld, P66, M0F38, 0x40, 0, T_FULL, BOTH) \
  _(vpmullq, P66, M0F38, 0x40, 1, T_FULL, EVEX) \
  _(vpmuludq, P66, M0F, 0xf4, 1, T_FULL, BOTH | VEX1) \
  _(vpminsd, P66, M0F38, 0x39, 0, T_FULL, BOTH) \
  _(vpminsq, P66, M0F38, 0x39, 1, T_FULL, EVEX) \
  _(vpmaxsd, P66, M0F38, 0x3d, 0, T_FULL, BOTH) \
  _(vpmaxsq, P66, M0F38, 0x3d, 1, T_FULL, EVEX) \
  _(vpabsd, P66, M0F38, 0x1e, 0, T_FULL, BOTH | TWO) \
  _(vpabsq, P66, M0F38, 0x1f, 1, T_FULL, EVEX | TWO) \
  _(vpsllvd, P66, M0F38, 0x47, 0, T_FULL, BOTH) \
  _(vpsllvq, P66, M0F38, 0x47, 1, T_FULL, BOTH) \
  _(vpsrlvd, P66, M0F38, 0x45, 0, T_FULL, BOTH) \
  _(vpsrlvq, P66, M0F38, 0x45, 1, T_FULL, BOTH) \
  _(vpsravd, P66, M0F38, 0x46, 0, T_FULL, BOTH) \
  _(vpsravq, P66, M0F38, 0x46, 1, T_FULL, EVEX) \
  _(vpslld, P66, M0F, 0x72 | 6 << 8, 0, T_FULL, BOTH | IMMSHIFT) \
  _(vpsrld, P66, M0F, 0x72 | 2 << 8, 0, T_FULL, BOTH | IMMSHIFT) \
  _(vpsrad, P66, M0F, 0x72 | 4 << 8, 0, T_FULL, BOTH | IMMSHIFT) \
  _(vpsllq, P66, M0F, 0x73 | 6 << 8, 1, T_FULL, BOTH | VEX1 | IMMSHIFT) \
  _(vpsrlq, P66, M0F, 0x73 | 2 << 8, 1, T_FULL, BOTH | VEX1 | IMMSHIFT) \
  _(vpsraq, P66, M0F, 0x72 | 4 << 8, 1, T_FULL, EVEX | IMMSHIFT) \
  _(vcmpps, PNP, M0F, 0xc2, 0, T_FULL, BOTH | DK) \
  _(vcmppd, P66, M0F, 0xc2, 1, T_FULL, BOTH | VEX1 | DK) \
  _(vpcmpd, P66, M0F3A, 0x1f, 0, T_FULL, EVEX | DK) \
  _(vpcmpq, P66, M0F3A, 0x1f, 1, T_FULL, EVEX | DK) \
  _(vptestmd, P66, M0F38, 0x27, 0, T_FULL, EVEX | DK) \
  _(vptestmq, P66, M0F38, 0x27, 1, T_FULL, EVEX | DK) \
  _(vpblendmd, P66, M0F38, 0x64, 0, T_FULL, EVEX) \
  _(vpblendmq, P66, M0F38, 0x64, 1, T_FULL, EVEX) \
  _(vmovdqa32, P66, M0F, 0x6f, 0, T_FULL, EVEX | TWO) \
  _(vmovdqa64, P66, M0F, 0x6f, 1, T_FULL, EVEX | TWO) \
  _(vpcmpeqd, P66, M0F, 0x76, 0, T_FULL, VEX) \
  _(vpcmpgtd, P66, M0F, 0x66, 0, T_FULL, VEX) \
  _(vpcmpeqq, P66, M0F38, 0x29, 0, T_FULL, VEX) \
  _(vpcmpgtq, P66, M0F38, 0x37, 0, T_FULL, VEX) \
  _(vblendvps, P66, M0F3A, 0x4a, 0, T_FULL, VEX) \
  _(vblendvpd, P66, M0F3A, 0x4b, 0, T_FULL, VEX) \
  _(vmaskmovps, P66, M0F38, 0x2c, 0, T_FULL, VEX) \
  _(vmaskmovpd, P66, M0F38, 0x2d, 0, T_FULL, VEX) \
  _(vcvtdq2ps, PNP, M0F, 0x5b, 0, T_FULL, BOTH | TWO) \
  _(vcvtdq2pd, PF3, M0F, 0xe6, 0, T_HALF, BOTH | TWO) \
  _(vcvttps2dq, PF3, M0F, 0x5b, 0, T_FULL, BOTH | TWO) \
  _(vcvttpd2dq, P66, M0F, 0xe6, 1, T_FULL, BOTH | VEX1 | TWO) \
  _(vcvtps2pd, PNP, M0F, 0x5a, 0, T_HALF, BOTH | TWO) \
  _(vcvtpd2ps, P66, M0F, 0x5a, 1, T_FULL, BOTH | VEX1 | TWO) \
  _(vcvtqq2pd, PF3, M0F, 0xe6, 1, T_FULL, EVEX | TWO) \
  _(vcvtqq2ps, PNP, M0F, 0x5b, 1, T_FULL, EVEX | TWO) \
  _(vcvttps2qq, P66, M0F, 0x7a, 0, T_HALF, EVEX | TWO) \
  _(vcvttpd2qq, P66, M0F, 0x7a, 1, T_FULL, EVEX | TWO) \
  _(vpmovsxdq, P66, M0F38, 0x25, 0, T_HALF, BOTH | TWO) \
  _(vpmovzxbd, P66, M0F38, 0x31, 0, T_QUARTER, BOTH | TWO) \
  _(vpmovsxbd, P66, M0F38, 0x21, 0, T_QUARTER, BOTH | TWO) \
  _(vpmovzxwd, P66, M0F38, 0x33, 0, T_HALF, BOTH | TWO) \
  _(vpmovsxwd, P66, M0F38, 0x23, 0, T_HALF, BOTH | TWO) \
  _(vcvtph2ps, P66, M0F38, 0x13, 0, T_HALF, BOTH | TWO) \
  _(vmovntps, PNP, M0F, 0x2b, 0, T_FULL, BOTH | TWO | STORES) \
  _(vcvtps2ph, P66, M0F3A, 0x1d, 0, T_HALF, BOTH | TWO | STORES) \
  _(vpmovdb, PF3, M0F38, 0x31, 0, T_QUARTER, EVEX | TWO | STORES) \
  _(vpmovdw, PF3, M0F38, 0x33, 0, T_HALF, EVEX | TWO | STORES) \
  _(vpmovqd, PF3, M0F38, 0x35, 0, T_HALF, EVEX | TWO | STORES) \
  _(vgatherdps, P66, M0F38, 0x92, 0, T_ONE, BOTH | TWO | VSIB) \
  _(vgatherdpd, P66, M0F38, 0x92, 1, T_ONE, BOTH | TWO | VSIB) \
  _(vpackssdw, P66, M0F, 0x6b, 0, T_FULL, VEX) \
  _(vpackusdw, P66, M0F38, 0x2b, 0, T_FULL, VEX) \
  _(vpackuswb, P66, M0F, 0x67, 0, T_FULL, VEX) \
  _(vextracti128, P66, M0F3A, 0x39, 0, T_HALF, VEX | TWO | STORES) \
  _(vextractf32x8, P66, M0F3A, 0x1b, 0, T_HALF, EVEX | TWO | STORES) \
  _(vshuff32x4, P66, M0F3A, 0x23, 0, T_FULL, EVEX) \
  _(vperm2f128, P66, M0F3A, 0x06, 0, T_FULL, VEX) \
  _(vshufps, PNP, M0F, 0xc6, 0, T_FULL, BOTH) \
  _(vpermq, P66, M0F3A, 0x00, 1, T_FULL, BOTH | TWO) \
  _(vpermd, P66, M0F38, 0x36, 0, T_FULL, VEX) \
  _(vmovd, P66, M0F, 0x7e, 0, T_ONE, VEX | TWO | STORES) \
  _(vmovq, P66, M0F, 0xd6, 0, T_ONE, VEX | TWO | STORES)

typedef enum {
#define _(name, p, m, op, w, t, f) I_##name,
  X64_INS(_)
#undef _
      I_COUNT,
  I_NONE = -1
} X64Ins;

typedef struct X64Row {
  char name[14];
  u8 pp, map;
  u16 op;
  u8 w, tuple, flags;
} X64Row;

extern const X64Row x64_rows[I_COUNT];

/* A place in memory, or a register. */
typedef struct X64Rm {
  i8 reg;                /* >= 0: a register */
  i8 base, index, scale; /* scale: log2 */
  bool rip, bcst;        /* bcst: one element for all lanes */
  i32 disp;
} X64Rm;

typedef struct Asm {
  u8 *p;
  size_t n, cap;
  bool evex; /* vectors as EVEX; else VEX */
  bool failed;
  char *list; /* the listing, or NULL */
  size_t list_n, list_cap;
  bool listing, hex;         /* hex: each line begins with its offset and bytes */
  size_t line_at, line_text; /* where the line being said begins: of bytes, of text */
} Asm;

#define X64_QUICK \
  static inline __attribute__((always_inline)) /* though the rest is built for size */
X64_QUICK X64Rm x64_reg(int r) { return (X64Rm){.reg = (i8)r, .base = RNONE, .index = RNONE}; }
static inline X64Rm x64_mem(int base, int index, int scale, i32 disp) {
  return (X64Rm){.reg = -1, .base = (i8)base, .index = (i8)index, .scale = (i8)scale, .disp = disp};
}
static inline X64Rm x64_rip(i32 disp) {
  return (X64Rm){.reg = -1, .base = RNONE, .index = RNONE, .rip = true, .disp = disp};
}

/* The listing: text of one's own, and a place in memory. */
__attribute__((format(printf, 2, 3))) void x64_say(Asm *A, const char *fmt, ...);

enum { G_ADD = 0x01, G_SUB = 0x29, G_CMP = 0x39, G_XOR = 0x31, G_MOV = 0x89 }; /* of x64_rr */
/* Jumps have 32 bits; forward ones are patched. */
enum {
  J_B = 2,
  J_AE = 3,
  J_E = 4,
  J_NE = 5,
  J_BE = 6,
  J_A = 7,
  J_LE = 14, /* of numbers with a sign */
  J_ALWAYS = 16
};
void x64_bytes(Asm *A, const u8 *b, size_t n);
void x64_say_mem(Asm *A, const X64Rm *m, const char *index);
void x64_vector(Asm *A, X64Ins ins, int vl, int reg, int v, X64Rm rm, int imm, int k, bool z,
                bool store);
void x64_plain(Asm *A, bool wide, int op, int reg, X64Rm rm);
void x64_load(Asm *A, int reg, X64Rm m);
void x64_save(Asm *A, X64Rm m, int reg);
void x64_add_load(Asm *A, int reg, X64Rm m);
void x64_add_save(Asm *A, X64Rm m, int reg);
void x64_lea(Asm *A, int reg, X64Rm m);
/* What lies `ahead` bytes behind m comes into the first-level cache, if it is there at all. */
void x64_prefetch(Asm *A, X64Rm m, i32 ahead);
void x64_rr(Asm *A, int op, int dst, int src);
void x64_ri(Asm *A, int ext, int dst, i32 imm);
void x64_push(Asm *A, int r, bool pop);
void x64_mov64(Asm *A, int r, u64 imm);
void x64_mov32(Asm *A, int r, i32 imm);
size_t x64_jump(Asm *A, int cc, size_t to);
void x64_patch(Asm *A, size_t at);
void x64_kmov(Asm *A, int k, int r32);
void x64_kcopy(Asm *A, int k, int from);
void x64_kones(Asm *A, int k);
void x64_bzhi(Asm *A, int y, int a, int count);
void x64_bzhi64(Asm *A, int y, int a, int count);
void x64_shr(Asm *A, int r, int n);
void x64_vzeroupper(Asm *A);
void x64_ret(Asm *A);

#endif
