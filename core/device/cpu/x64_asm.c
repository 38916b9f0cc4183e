/*
** x64_asm.c -- the encoder: see x64_asm.h.
** In:  instructions.  Out: bytes and a listing. Cannot fail but by the flag.
*/
#include "device/cpu/x64_asm.h"

#include <stdarg.h>
#include <stdio.h>

const X64Row x64_rows[I_COUNT] = {
#define _(name, p, m, op, w, t, f) {#name, p, m, op, w, t, f},
    X64_INS(_)
#undef _
};

static inline bool grow(void **p, size_t *cap, size_t want) {
  if (want <= *cap) return true;
  size_t cap2 = *cap ? *cap * 2 : 4096;
  while (cap2 < want) cap2 *= 2;
  void *q = ty_mem_realloc(*p, cap2);
  if (!q) return false;
  *p = q, *cap = cap2;
  return true;
}

void x64_bytes(Asm *A, const u8 *b, size_t n) {
  if (A->n + n > A->cap) {
    void *p = A->p;
    A->failed |= !grow(&p, &A->cap, A->n + n);
    A->p = p;
  }
  if (A->failed) return;
  memcpy(A->p + A->n, b, n);
  A->n += n;
}

enum { LONGEST = 16 }; /* bytes of an instruction */

/* n bytes of an instruction: all of b is copied, which is one move. */
static inline void put(Asm *A, const u8 b[LONGEST], int n) {
  if (TY_UNLIKELY(A->cap - A->n < LONGEST)) {
    x64_bytes(A, b, (size_t)n);
    return;
  }
  memcpy(A->p + A->n, b, LONGEST);
  A->n += (size_t)n;
}

/* ---- the listing ---------------------------------------------------------------------------- */

/* The bytes since the last line go before the text. */
static inline void hex(Asm *A) {
  char line[80];
  int n = snprintf(line, sizeof line, "%5zx  ", A->line_at);
  for (size_t i = A->line_at; i < A->n && n < 40; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, "%02x", A->p[i]);
  n += snprintf(line + n, sizeof line - (size_t)n, "%*s", n < 34 ? 34 - n : 1, "");
  char *text = A->list + A->line_text;
  memmove(text + n, text, A->list_n - A->line_text + 1);
  memcpy(text, line, (size_t)n);
  A->list_n += (size_t)n;
}

void x64_say(Asm *A, const char *fmt, ...) {
  va_list ap;
  void *p = A->list;
  if (!A->listing) return;
  if (!grow(&p, &A->list_cap, A->list_n + 512)) {
    A->failed = true;
    return;
  }
  A->list = p;
  va_start(ap, fmt);
  int k = vsnprintf(A->list + A->list_n, A->list_cap - A->list_n, fmt, ap);
  va_end(ap);
  if (k > 0) A->list_n += (size_t)k;
  if (!A->list_n || A->list[A->list_n - 1] != '\n') return;
  if (A->hex && A->line_at <= A->n && !A->failed) hex(A);
  A->line_at = A->n, A->line_text = A->list_n;
}

static const char *const names64[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const names32[] = {"eax", "ecx", "edx",  "ebx",  "esp",  "ebp",  "esi",  "edi",
                                      "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d", "r15d"};

void x64_say_mem(Asm *A, const X64Rm *m, const char *index) {
  if (!A->listing) return;
  x64_say(A, "[");
  if (m->rip) x64_say(A, "rip");
  else if (m->base >= 0) x64_say(A, "%s", names64[m->base]);
  if (index) x64_say(A, "+%s*%d", index, 1 << m->scale);
  else if (m->index >= 0) x64_say(A, "+%s*%d", names64[m->index], 1 << m->scale);
  if (m->disp || m->rip) x64_say(A, "%+d", m->disp);
  x64_say(A, "]");
}

static inline const char *vec(char *buf, int vl, int r) {
  snprintf(buf, 8, "%cmm%d", "xyz"[vl], r & 31);
  return buf;
}

/* Vector lengths of the two sides, where they differ. */
static inline void lengths(X64Ins ins, int vl, int *reg, int *rm) {
  int half = vl ? vl - 1 : 0, quarter = vl > 1 ? vl - 2 : 0;
  *reg = *rm = vl;
  switch (ins) {
  case I_vbroadcastss:
  case I_vbroadcastsd: *rm = VL128; break;
  case I_vcvttpd2dq:
  case I_vcvtpd2ps:
  case I_vcvtqq2ps: *reg = half; break;
  default:
    if (x64_rows[ins].tuple == T_HALF) *rm = half;
    if (x64_rows[ins].tuple == T_QUARTER) *rm = quarter;
  }
}

static inline void list(Asm *A, X64Ins ins, int vl, int reg, int v, const X64Rm *rm, int imm, int k,
                        bool z) {
  const X64Row *I = &x64_rows[ins];
  static const char *const widths[] = {"xmmword", "ymmword", "zmmword"};
  char b[4][8], side[64];
  int lr, lm;
  if (!A->listing) return;
  lengths(ins, vl, &lr, &lm);
  x64_say(A, "%s", I->name);
  x64_say(A, " ");
  char memory[160] = "";
  bool scalar = ins == I_vmovd || ins == I_vmovq;
  if (rm->reg < 0) {
    size_t at = A->list_n;
    static const u8 sizes[] = {16, 32, 64};
    int bytes = I->tuple == T_ONE ? (I->w || ins == I_vmovq ? 8 : 4) : sizes[vl] >> I->tuple;
    const char *width = bytes == 4    ? "dword"
                        : bytes == 8  ? "qword"
                        : bytes == 64 ? widths[2]
                        : bytes == 32 ? widths[1]
                                      : widths[0];
    char index[8];
    bool vs = I->flags & VSIB;
    int il = ins == I_vgatherdpd ? (vl ? vl - 1 : 0) : vl;
    if (rm->bcst) x64_say(A, "%s ptr ", I->w ? "qword" : "dword");
    else x64_say(A, "%s ptr ", width);
    x64_say_mem(A, rm, vs ? vec(index, il, rm->index) : NULL);
    /* Lanes are those of the memory side: a half is widened. */
    int lanes = (sizes[vl] >> (I->tuple == T_HALF)) / (I->w ? 8 : 4);
    if (rm->bcst) x64_say(A, "{1to%d}", lanes);
    snprintf(memory, sizeof memory, "%s", A->list ? A->list + at : "");
    A->list_n = at;
  } else {
    if (scalar)
      snprintf(memory, sizeof memory, "%s",
               ins == I_vmovd ? names32[rm->reg] : vec(b[0], 0, rm->reg));
    else snprintf(memory, sizeof memory, "%s", vec(b[0], lm, rm->reg));
  }
  bool dk = (I->flags & DK) && A->evex;
  snprintf(side, sizeof side, "%s", dk ? "" : vec(b[1], scalar ? 0 : lr, reg));
  if (dk) snprintf(side, sizeof side, "k%d", reg);
  char mask[24] = "";
  if (k) snprintf(mask, sizeof mask, "{k%d}%s", k, z ? "{z}" : "");
  if (I->flags & IMMSHIFT) x64_say(A, "%s%s, %s", vec(b[2], vl, v), mask, memory);
  else if ((I->flags & STORES)) x64_say(A, "%s%s, %s", memory, mask, side);
  else if (I->flags & TWO) x64_say(A, "%s%s, %s", side, mask, memory);
  else x64_say(A, "%s%s, %s, %s", side, mask, vec(b[2], vl, v), memory);
  if ((I->flags & VSIB) && !A->evex) x64_say(A, ", %s", vec(b[3], vl, v));
  if (ins == I_vblendvps || ins == I_vblendvpd) x64_say(A, ", %s", vec(b[3], vl, imm >> 4));
  else if (imm >= 0) x64_say(A, ", %d", imm);
  x64_say(A, "\n");
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* ModRM, SIB, displacement; `unit`: what an 8-bit displacement counts in (EVEX), `tail`: bytes that
** follow, which a displacement from rip must jump over. */
static inline int modrm(u8 *b, int reg, const X64Rm *m, int unit) {
  int n = 0, r = (reg & 7) << 3;
  if (m->reg >= 0) {
    b[n++] = (u8)(0xc0 | r | (m->reg & 7));
    return n;
  }
  if (m->rip) {
    b[n++] = (u8)(r | 5);
    memcpy(b + n, &m->disp, 4);
    return n + 4;
  }
  bool sib = m->index >= 0 || (m->base & 7) == RSP;
  i32 units = m->disp / unit;
  int mod = m->disp || (m->base & 7) == RBP ? 2 : 0;
  if (mod && units * unit == m->disp && units >= -128 && units <= 127) mod = 1;
  b[n++] = (u8)(mod << 6 | r | (sib ? 4 : m->base & 7));
  if (sib) {
    int scaled = m->index >= 0 ? m->scale << 6 | (m->index & 7) << 3 : 4 << 3;
    b[n++] = (u8)(scaled | (m->base & 7));
  }
  if (mod == 1) b[n++] = (u8)(i8)units;
  if (mod == 2) memcpy(b + n, &m->disp, 4), n += 4;
  return n;
}

/* A vector instruction: reg, v (vvvv), rm as the manual names them; imm < 0: none; k: mask register,
** z: lanes without the mask become 0. `store`: rm is written (the opcode of moves is one more). */
void x64_vector(Asm *A, X64Ins ins, int vl, int reg, int v, X64Rm rm, int imm, int k, bool z,
                bool store) {
  const X64Row *I = &x64_rows[ins];
  u8 b[LONGEST] = {0};
  int n = 0, op = I->op & 255;
  bool evex = A->evex && (I->flags & EVEX);
  if (store && (ins == I_vmovups || ins == I_vmovupd)) op++;
  if (store && (ins == I_vmaskmovps || ins == I_vmaskmovpd)) op += 2;
  if (I->flags & IMMSHIFT) reg = I->op >> 8;
  int R = ~reg >> 3 & 1, X = 1, B = 1, R2 = ~reg >> 4 & 1, V2 = ~v >> 4 & 1;
  if (rm.reg >= 0) B = ~rm.reg >> 3 & 1, X = ~rm.reg >> 4 & 1;
  else {
    if (rm.base >= 0) B = ~rm.base >> 3 & 1;
    if (rm.index >= 0) X = ~rm.index >> 3 & 1;
    if (rm.index >= 0 && (I->flags & VSIB) && evex) V2 = ~rm.index >> 4 & 1;
  }
  if (evex) {
    static const u8 sizes[] = {16, 32, 64};
    int unit = rm.bcst || I->tuple == T_ONE ? (I->w ? 8 : 4) : sizes[vl] >> I->tuple;
    b[n++] = 0x62;
    b[n++] = (u8)(R << 7 | X << 6 | B << 5 | R2 << 4 | I->map);
    b[n++] = (u8)(I->w << 7 | (~v & 15) << 3 | 4 | I->pp);
    b[n++] = (u8)(z << 7 | vl << 5 | rm.bcst << 4 | V2 << 3 | k);
    b[n++] = (u8)op;
    n += modrm(b + n, reg, &rm, unit);
  } else {
    int w = I->w && !(I->flags & VEX1);
    if (rm.reg >= 0) X = 1;
    if (ins == I_vpermq) w = 1;
    if (X && B && !w && I->map == M0F) {
      b[n++] = 0xc5;
      b[n++] = (u8)(R << 7 | (~v & 15) << 3 | vl << 2 | I->pp);
    } else {
      b[n++] = 0xc4;
      b[n++] = (u8)(R << 7 | X << 6 | B << 5 | I->map);
      b[n++] = (u8)(w << 7 | (~v & 15) << 3 | vl << 2 | I->pp);
    }
    b[n++] = (u8)op;
    n += modrm(b + n, reg, &rm, 1);
  }
  if (imm >= 0) b[n++] = (u8)imm;
  put(A, b, n);
  if (A->listing) {
    if (store && !(I->flags & STORES)) { /* a move or masked move the other way round */
      char buf[8];
      static const char *const widths[] = {"xmmword", "ymmword", "zmmword"};
      x64_say(A, "%s %s ptr ", I->name, widths[vl]);
      x64_say_mem(A, &rm, NULL);
      if (k) x64_say(A, "{k%d}", k);
      if (!(I->flags & TWO)) x64_say(A, ", %s", vec(buf, vl, v));
      x64_say(A, ", %s\n", vec(buf, vl, reg));
    } else list(A, ins, vl, reg, v, &rm, imm, k, z);
  }
}

/* The plain set. op: opcode; with REX.W when wide. */
void x64_plain(Asm *A, bool wide, int op, int reg, X64Rm rm) {
  u8 b[LONGEST] = {0};
  int n = 0;
  int B = rm.reg >= 0 ? rm.reg >> 3 : rm.base >= 0 ? rm.base >> 3 : 0;
  int X = rm.reg < 0 && rm.index >= 0 ? rm.index >> 3 : 0;
  int rex = wide << 3 | (reg >> 3 & 1) << 2 | X << 1 | B;
  if (rex) b[n++] = (u8)(0x40 | rex);
  if (op > 255) b[n++] = (u8)(op >> 8);
  b[n++] = (u8)op;
  n += modrm(b + n, reg, &rm, 1);
  put(A, b, n);
}

void x64_load(Asm *A, int reg, X64Rm m) {
  x64_plain(A, true, 0x8b, reg, m);
  x64_say(A, "mov %s, ", names64[reg]), x64_say_mem(A, &m, NULL), x64_say(A, "\n");
}
void x64_save(Asm *A, X64Rm m, int reg) {
  x64_plain(A, true, 0x89, reg, m);
  x64_say(A, "mov qword ptr "), x64_say_mem(A, &m, NULL), x64_say(A, ", %s\n", names64[reg]);
}
/* add reg, [m]; add [m], reg */
void x64_add_load(Asm *A, int reg, X64Rm m) {
  x64_plain(A, true, 0x03, reg, m);
  x64_say(A, "add %s, ", names64[reg]), x64_say_mem(A, &m, NULL), x64_say(A, "\n");
}
void x64_add_save(Asm *A, X64Rm m, int reg) {
  x64_plain(A, true, 0x01, reg, m);
  x64_say(A, "add qword ptr "), x64_say_mem(A, &m, NULL), x64_say(A, ", %s\n", names64[reg]);
}
void x64_lea(Asm *A, int reg, X64Rm m) {
  x64_plain(A, true, 0x8d, reg, m);
  x64_say(A, "lea %s, ", names64[reg]), x64_say_mem(A, &m, NULL), x64_say(A, "\n");
}
void x64_prefetch(Asm *A, X64Rm m, i32 ahead) {
  m.disp += ahead;
  x64_plain(A, false, 0x0f18, 1, m);
  x64_say(A, "prefetcht0 byte ptr "), x64_say_mem(A, &m, NULL), x64_say(A, "\n");
}
void x64_rr(Asm *A, int op, int dst, int src) {
  x64_plain(A, true, op, src, x64_reg(dst));
  const char *name = op == G_ADD   ? "add"
                     : op == G_SUB ? "sub"
                     : op == G_CMP ? "cmp"
                     : op == G_XOR ? "xor"
                                   : "mov";
  x64_say(A, "%s %s, %s\n", name, names64[dst], names64[src]);
}
/* add, and, sub with a constant: what is /0, /4, /5 */
void x64_ri(Asm *A, int ext, int dst, i32 imm) {
  bool few = imm >= -128 && imm <= 127;
  static const char *const names[] = {"add", "or", "adc", "sbb", "and", "sub", "xor", "cmp"};
  if (!few && dst == RAX) {
    u8 op[2] = {0x48, (u8)(ext << 3 | 5)};
    x64_bytes(A, op, 2);
  } else x64_plain(A, true, few ? 0x83 : 0x81, ext, x64_reg(dst));
  x64_bytes(A, (const u8 *)&imm, few ? 1 : 4);
  x64_say(A, "%s %s, %d\n", names[ext], names64[dst], imm);
}
void x64_push(Asm *A, int r, bool pop) {
  u8 b[2] = {0x41, (u8)((pop ? 0x58 : 0x50) | (r & 7))};
  x64_bytes(A, r > 7 ? b : b + 1, r > 7 ? 2 : 1);
  x64_say(A, "%s %s\n", pop ? "pop" : "push", names64[r]);
}
void x64_mov64(Asm *A, int r, u64 imm) {
  u8 b[10] = {(u8)(0x48 | r >> 3), (u8)(0xb8 | (r & 7))};
  memcpy(b + 2, &imm, 8);
  x64_bytes(A, b, 10);
  x64_say(A, "movabs %s, %llu\n", names64[r], (unsigned long long)imm);
}
void x64_mov32(Asm *A, int r, i32 imm) {
  u8 b[6] = {0x41, (u8)(0xb8 | (r & 7))};
  memcpy(b + 2, &imm, 4);
  x64_bytes(A, r > 7 ? b : b + 1, r > 7 ? 6 : 5);
  x64_say(A, "mov %s, %d\n", names32[r], imm);
}

/* Jumps have 32 bits; forward ones are patched. The listing gives the distance. */
size_t x64_jump(Asm *A, int cc, size_t to) {
  static const char *const names[] = {[J_B] = "jb",   [J_AE] = "jae", [J_E] = "je",  [J_NE] = "jne",
                                      [J_BE] = "jbe", [J_A] = "ja",   [J_LE] = "jle"};
  int len = cc == J_ALWAYS ? 5 : 6;
  i32 d = (i32)((i64)to - (i64)(A->n + (size_t)len));
  u8 b[6] = {0x0f, (u8)(0x80 | cc)};
  if (cc == J_ALWAYS) b[1] = 0xe9;
  memcpy(b + 2, &d, 4);
  x64_bytes(A, cc == J_ALWAYS ? b + 1 : b, (size_t)len);
  x64_say(A, "{disp32} %s 0x%llx\n", cc == J_ALWAYS ? "jmp" : names[cc], (unsigned long long)to);
  return A->n - 4;
}
void x64_patch(Asm *A, size_t at) {
  i32 d = (i32)(A->n - (at + 4));
  if (!A->failed) memcpy(A->p + at, &d, 4);
  x64_say(A, "# 0x%llx: from 0x%llx\n", (unsigned long long)A->n, (unsigned long long)at);
}

/* Mask registers: kmovw/kmovd k, r32; all ones; and those of BMI2 and the like. */
void x64_kmov(Asm *A, int k, int r32) {
  u8 b[5] = {0xc5, (u8)((r32 > 7 ? 0 : 0xf8)), 0x92, (u8)(0xc0 | k << 3 | (r32 & 7))};
  if (r32 > 7) return; /* not needed */
  x64_bytes(A, b, 4);
  x64_say(A, "kmovw k%d, %s\n", k, names32[r32]);
}
void x64_kcopy(Asm *A, int k, int from) {
  u8 b[4] = {0xc5, 0xf8, 0x90, (u8)(0xc0 | k << 3 | from)};
  x64_bytes(A, b, 4);
  x64_say(A, "kmovw k%d, k%d\n", k, from);
}
void x64_kones(Asm *A, int k) {
  u8 b[4] = {0xc5, (u8)(0x80 | (~k & 15) << 3 | 4), 0x46, (u8)(0xc0 | k << 3 | k)};
  x64_bytes(A, b, 4);
  x64_say(A, "kxnorw k%d, k%d, k%d\n", k, k, k);
}
/* y = the low `count` bits of a (32 bits) */
void x64_bzhi(Asm *A, int y, int a, int count) {
  u8 b[5] = {0xc4, 0xe2, (u8)((~count & 15) << 3), 0xf5, (u8)(0xc0 | y << 3 | a)};
  x64_bytes(A, b, 5);
  x64_say(A, "bzhi %s, %s, %s\n", names32[y], names32[a], names32[count]);
}
/* the same of 64 bits */
void x64_bzhi64(Asm *A, int y, int a, int count) {
  u8 b[5] = {0xc4, 0xe2, (u8)(0x80 | (~count & 15) << 3), 0xf5, (u8)(0xc0 | y << 3 | a)};
  x64_bytes(A, b, 5);
  x64_say(A, "bzhi %s, %s, %s\n", names64[y], names64[a], names64[count]);
}
void x64_shr(Asm *A, int r, int n) {
  u8 by = (u8)n;
  x64_plain(A, true, 0xc1, 5, x64_reg(r));
  x64_bytes(A, &by, 1);
  x64_say(A, "shr %s, %d\n", names64[r], n);
}
void x64_vzeroupper(Asm *A) {
  static const u8 b[] = {0xc5, 0xf8, 0x77};
  x64_bytes(A, b, 3);
  x64_say(A, "vzeroupper\n");
}
void x64_ret(Asm *A) {
  static const u8 b[] = {0xc3};
  x64_bytes(A, b, 1);
  x64_say(A, "ret\n");
}
