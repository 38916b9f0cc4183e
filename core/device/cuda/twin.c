/*
** twin.c -- kernels that read their parameters from memory, for graphs.
** In:  code whose text is known.  Out: the same kernel with one parameter, the address of the block that the first one is
** given by value. Fails where the driver refuses the text, and when out of memory. Calls come from one thread at a time.
*/
#include "base/system.h"
#include "device/cuda/assemble.h"
#include "device/cuda/cuda.h"
#include "device/cuda/ptx.h"

#include <stdlib.h>

enum { TWIN_NONE, TWIN_LATE, TWIN_READY, TWIN_NEVER };

#define ENTRY CODE_ENTRY
#define READ "ld.param."
#define BLOCK_AT "[block+"

/* Reads of the block become reads of memory at %table, which no kernel that reads it writes: where registers are few, the assembler
** may then read once more what it would spill. */
static Text text_of(const Text *text) {
  Text t = {0};
  const char *s = text->s, *entry = strstr(s, ENTRY), *close = strchr(entry, ')'),
             *body = strstr(close, "{\n") + 2;
  ty_text_add(&t, s, (size_t)(entry - s));
  ty_text_printf(&t, "kernel(.param .b64 table");
  ty_text_add(&t, close, (size_t)(body - close));
  ty_text_printf(&t, "\t.reg .b64 %%table;\n\tld.param.b64 %%table, [table];\n");
  for (const char *at; (at = strstr(body, READ)); body = at) {
    const char *block = strstr(at, BLOCK_AT), *end = strchr(at, '\n');
    ty_text_add(&t, body, (size_t)(at - body));
    at += strlen(READ);
    if (!block || block > end) {
      ty_text_printf(&t, READ);
      continue;
    }
    ty_text_printf(&t, "ld.global.nc.");
    ty_text_add(&t, at, (size_t)(block - at));
    ty_text_printf(&t, "[%%table+");
    at = block + strlen(BLOCK_AT);
  }
  ty_text_add(&t, body, strlen(body));
  return t;
}

static void begin(CodeSource *s) {
  Text t = text_of(&s->text);
  s->state = TWIN_NEVER;
  if (t.failed) {
  } else if (ty_cuda_load_kept(&s->twin, &t)) s->state = TWIN_READY;
  else if ((s->late = ty_assembly_begin(&t))) s->state = TWIN_LATE;
  else if (ty_cuda_load_new(&s->twin, &t)) s->state = TWIN_READY;
  ty_text_free(&t);
}

static void take_late(CodeSource *s) {
  size_t n;
  if (!ty_assembly_done(s->late, false)) return;
  const char *code = ty_assembly_code(s->late, &n);
  const bool there = code && ty_cuda_load_code(&s->twin, code, n),
             ok = there || ty_cuda_load_new(&s->twin, ty_assembly_text(s->late));
  if (there) ty_cuda_describe(&s->twin, ty_assembly_text(s->late));
  s->state = ok ? TWIN_READY : TWIN_NEVER;
  ty_assembly_drop(s->late);
  s->late = NULL;
}

int ty_cuda_twin(const CudaCode *c, CudaCode *twin) {
  CodeSource *s = c->source;
  if (!s) return -1;
  if (s->state == TWIN_NONE) begin(s);
  if (s->state == TWIN_LATE) take_late(s);
  *twin = s->twin;
  return s->state == TWIN_READY ? 1 : s->state == TWIN_LATE ? 0 : -1;
}

/* Parameters: where to write, how many words, the words. */
static const char writer_text[] =
    ".version 6.3\n.target sm_75\n.address_size 64\n"
    ".visible .entry kernel(.param .align 8 .b8 values[4112])\n.maxntid 128, 1, 1\n{\n"
    "\t.reg .b32 %r<3>;\n\t.reg .b64 %d<8>;\n\t.reg .pred %p<2>;\n"
    "\tld.param.b64 %d1, [values];\n\tld.param.b32 %r1, [values+8];\n\tmov.u32 %r2, "
    "%tid.x;\n\tmov.b64 %d2, values;\n"
    "NEXT:\n\tsetp.ge.u32 %p1, %r2, %r1;\n\t@%p1 bra END;\n"
    "\tmad.wide.u32 %d3, %r2, 8, %d2;\n\tld.param.b64 %d4, [%d3+16];\n"
    "\tmad.wide.u32 %d5, %r2, 8, %d1;\n\tst.global.b64 [%d5], %d4;\n\tadd.u32 %r2, %r2, "
    "128;\n\tbra NEXT;\n"
    "END:\n\tret;\n}\n";

bool ty_cuda_writer(CudaCode *c) {
  if (!c->function) {
    Text t = {.s = (char *)(uintptr_t)writer_text, .n = sizeof writer_text - 1};
    ty_cuda_load(c, &t);
  }
  return c->function != NULL;
}
