/*
** ptx.c -- text of PTX: registers, lines, the frame of a kernel.
** In:  lines.  Out: a module for sm_75, or a later target, which drivers assemble for that processor and all later ones. Fails when memory
** runs out alone: the text has `failed` set.
*/
#include "device/cuda/ptx.h"

#include <stdarg.h>

static const char *const prefix[] = {"%r", "%d", "%p", "%h"};
static const char *const types[] = {".b32", ".b64", ".pred", ".b16"};

Reg ty_ptx_reg(Ptx *E, RegKind kind) { return (++E->n[kind] << 2) | (int)kind; }

static void put_reg(Text *t, Reg r) { ty_text_printf(t, "%s%d", prefix[r & 3], r >> 2); }

void ty_ptx(Ptx *E, const char *line, ...) {
  Text *t = &E->text;
  va_list ap;
  va_start(ap, line);
  ty_text_add(t, "\t", 1);
  for (const char *s = line; *s; s++) switch (*s) {
    case '$': put_reg(t, va_arg(ap, Reg)); break;
    case '#': ty_text_printf(t, "%lld", (long long)va_arg(ap, i64)); break;
    case '^': ty_text_printf(t, "0x%llx", (unsigned long long)va_arg(ap, u64)); break;
    case '@':
      if (s == line) ty_text_add(t, "@", 1); /* a predicate */
      else ty_text_printf(t, "L%d", va_arg(ap, int));
      break;
    case '~': {
      const char *text = va_arg(ap, const char *);
      ty_text_add(t, text, strlen(text));
      break;
    }
    default: ty_text_add(t, s, 1);
    }
  ty_text_add(t, ";\n", 2);
  va_end(ap);
}

int ty_ptx_label(Ptx *E) { return ++E->labels; }
void ty_ptx_here(Ptx *E, int label) { ty_text_printf(&E->text, "L%d:\n", label); }

Reg ty_ptx_const(Ptx *E, int ctype, u64 bits) {
  const Reg y = ty_ptx_value(E, ctype);
  if (ty_ptx_wide(ctype)) ty_ptx(E, "mov.b64 $, ^", y, bits);
  else ty_ptx(E, "mov.b32 $, ^", y, bits & 0xffffffff);
  return y;
}

Reg ty_ptx_param(Ptx *E, RegKind kind, i32 at) {
  const Reg y = ty_ptx_reg(E, kind);
  ty_ptx(E, "ld.param.~ $, [block+#]", kind == REG_64 ? "b64" : "b32", y, (i64)at);
  return y;
}

int ty_ptx_begin(Ptx *E) {
  const int end = ty_ptx_label(E);
  const Reg word = ty_ptx_param(E, REG_64, 0), v = ty_ptx_reg(E, REG_64),
            p = ty_ptx_reg(E, REG_PRED);
  ty_ptx(E, "ld.global.b64 $, [$]", v, word);
  ty_ptx(E, "setp.ne.s64 $, $, 0", p, v);
  ty_ptx(E, "@$ bra @", p, end);
  return end;
}

void ty_ptx_number(Ptx *E, int threads, Reg number, Reg step) {
  const Reg t = ty_ptx_reg(E, REG_32), b = ty_ptx_reg(E, REG_32), n = ty_ptx_reg(E, REG_32),
            own = ty_ptx_reg(E, REG_64);
  ty_ptx(E, "mov.u32 $, %tid.x", t);
  ty_ptx(E, "mov.u32 $, %ctaid.x", b);
  ty_ptx(E, "mov.u32 $, %nctaid.x", n);
  ty_ptx(E, "cvt.u64.u32 $, $", own, t);
  ty_ptx(E, "mul.wide.u32 $, $, #", number, b, (i64)threads);
  ty_ptx(E, "add.s64 $, $, $", number, number, own);
  ty_ptx(E, "mul.wide.u32 $, $, #", step, n, (i64)threads);
}

static void put_lut(Text *t, int number) {
  const Lut *l = &ty_luts[number];
  const bool wide = ty_ptx_wide(l->ctype);
  ty_text_printf(t, ".global .align 8 .b%d lut%d[%d] = {", wide ? 64 : 32, number, l->n);
  for (i32 i = 0; i < l->n; i++)
    ty_text_printf(t, "%s0x%llx", i ? ", " : "",
                   wide ? (unsigned long long)((const u64 *)l->data)[i]
                        : (unsigned long long)((const u32 *)l->data)[i]);
  ty_text_add(t, "};\n", 3);
}

Text ty_ptx_end(Ptx *E, int end, i32 params, int threads) {
  Text t = {0};
  ty_ptx_here(E, end);
  ty_ptx(E, "ret");
  ty_text_printf(&t, ".version %s\n.target sm_%d\n.address_size 64\n", E->target ? "7.0" : "6.3",
                 E->target ? E->target : 75);
  for (int i = 0; i < ty_nluts; i++)
    if (E->luts >> i & 1) put_lut(&t, i);
  const bool asked = E->shared > SHARED_OWN;
  if (asked)
    ty_text_printf(&t, CODE_SHARED "%d\n.extern .shared .align 16 .b8 tile[];\n", E->shared);
  ty_text_printf(&t,
                 ".visible .entry " CODE_ENTRY "%d])\n.maxntid %d, 1, "
                 "1\n.minnctapersm %d\n{\n",
                 params, threads, E->blocks ? E->blocks : 2);
  for (int k = 0; k < 4; k++)
    if (E->n[k]) ty_text_printf(&t, "\t.reg %s %s<%d>;\n", types[k], prefix[k], E->n[k] + 1);
  if (E->local) ty_text_printf(&t, "\t.local .align 8 .b8 waiting[%d];\n", E->local);
  if (E->shared && !asked) ty_text_printf(&t, "\t.shared .align 16 .b8 tile[%d];\n", E->shared);
  ty_text_add(&t, E->text.s ? E->text.s : "", E->text.n);
  ty_text_add(&t, "}\n", 2);
  t.failed |= E->text.failed;
  ty_text_free(&E->text);
  return t;
}
