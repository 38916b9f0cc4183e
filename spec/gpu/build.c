/*
** build.c -- instructions to code: slots for registers and constants, addresses of variables, targets of branches.
*/
#include "ptx.h"

Code *code_add(Parser *p, int line) {
  Kernel *k = p->kernel;
  k->code = arena_grow(p->arena, k->code, k->n_code, &k->max_code, sizeof *k->code);
  Code *c = k->code + k->n_code++;
  *c = (Code){.line = line, .target = -1};
  memset(&p->touched, 0, sizeof p->touched);
  return c;
}

int slots_take(Parser *p, Type type) {
  Kernel *k = p->kernel;
  int n = type_size(type) > 8 ? 4 : type_size(type) == 8 ? 2 : 1;
  int slot = k->n_slots;
  k->n_slots += n;
  if (k->n_slots >= NO_SLOT) ptx_error(p, p->line, "too many registers");
  return slot;
}

int constant_slot(Parser *p, uint64_t bits, bool wide) {
  Kernel *k = p->kernel;
  for (int i = 0; i < k->n_constants; i++)
    if (k->constants[i].bits == bits && k->constants[i].wide == wide && !k->constants[i].patched)
      return k->constants[i].slot;
  k->constants =
      arena_grow(p->arena, k->constants, k->n_constants, &p->max_constants, sizeof *k->constants);
  Constant *c = k->constants + k->n_constants++;
  *c = (Constant){bits, (uint16_t)slots_take(p, wide ? T_B64 : T_B32), wide, false};
  return c->slot;
}

int special_slot(Parser *p, int kind, bool wide) {
  Kernel *k = p->kernel;
  for (int i = 0; i < k->n_specials; i++)
    if (k->specials[i].kind == kind) return k->specials[i].slot;
  k->specials =
      arena_grow(p->arena, k->specials, k->n_specials, &p->max_specials, sizeof *k->specials);
  Special *s = k->specials + k->n_specials++;
  *s = (Special){kind, (uint16_t)slots_take(p, wide ? T_B64 : T_B32)};
  return s->slot;
}

/* Where a variable begins in its own space, or in the generic one. Dynamic shared memory begins at 0: a patch adds the rest. */
uint64_t variable_address(Parser *p, Variable *v, bool generic) {
  Kernel *k = p->kernel;
  if (v->space == S_SHARED && v->external) {
    if (v->align > p->dynamic_align) p->dynamic_align = v->align;
    return generic ? SHARED_WINDOW : 0;
  }
  if (v->space == S_SHARED && !v->placed) {
    v->address = (k->shared_static + v->align - 1) / v->align * v->align;
    k->shared_static = (uint32_t)(v->address + v->size);
    v->placed = true;
  }
  if (!generic || v->space == S_GLOBAL || v->space == S_CONST) return v->address;
  return v->address + (v->space == S_SHARED  ? SHARED_WINDOW
                       : v->space == S_LOCAL ? LOCAL_WINDOW
                                             : PARAM_WINDOW);
}

void patch_add(Parser *p, int code, int constant) {
  p->patches = arena_grow(p->arena, p->patches, p->n_patches, &p->max_patches, sizeof *p->patches);
  p->patches[p->n_patches++] = (Patch){code, constant};
}

/* --- what an instruction reads and writes */

void touch_read(Parser *p, int slot, Type type) {
  Touched *t = &p->touched;
  if (type == T_PRED) t->preds_read[t->n_preds_read++] = (uint16_t)slot;
  else t->reads[t->n_reads++] = (uint16_t)slot;
}

void touch_write(Parser *p, int slot, Type type) {
  Touched *t = &p->touched;
  if (type == T_PRED) t->preds_written[t->n_preds_written++] = (uint16_t)slot;
  else t->writes[t->n_writes++] = (uint16_t)slot;
}

static uint16_t *put(uint16_t *to, const uint16_t *from, int n) {
  memcpy(to, from, (size_t)n * sizeof *to);
  return to + n;
}

void touch_close(Parser *p, Code *c) {
  const Touched *t = &p->touched;
  int n = t->n_reads + t->n_writes + t->n_preds_read + t->n_preds_written;
  uint16_t *to = arena_alloc(p->arena, (size_t)(n + 1) * sizeof *to);
  c->touched = to;
  c->reads = (uint16_t)t->n_reads;
  c->writes = (uint16_t)t->n_writes;
  c->preds_read = (uint16_t)t->n_preds_read;
  c->preds_written = (uint16_t)t->n_preds_written;
  put(put(put(put(to, t->reads, t->n_reads), t->writes, t->n_writes), t->preds_read,
          t->n_preds_read),
      t->preds_written, t->n_preds_written);
}

/* --- the end of a body */

static int label_at(Parser *p, int label) {
  const Label *l = p->body.labels + label;
  if (l->at < 0) ptx_error(p, l->line, "Unknown symbol '%s'", l->name);
  return l->at;
}

static void targets_close(Parser *p) {
  Kernel *k = p->kernel;
  const Body *b = &p->body;
  k->targets = arena_alloc(p->arena, (size_t)(b->n_lists + 1) * sizeof *k->targets);
  for (int i = 0; i < b->n_lists; i += 1 + b->lists[i]) {
    k->targets[i] = b->lists[i];
    for (int j = 1; j <= b->lists[i]; j++) k->targets[i + j] = label_at(p, b->lists[i + j]);
  }
  k->n_targets = b->n_lists;
}

void build_finish(Parser *p) {
  Kernel *k = p->kernel;
  Code *end = code_add(p, p->line);
  end->flow = F_EXIT;
  touch_close(p, end);
  for (int i = 0; i < p->body.n_labels; i++) label_at(p, i);
  for (int i = 0; i < k->n_code; i++) {
    Code *c = k->code + i;
    if (c->flow == F_BRA) c->target = label_at(p, c->target);
  }
  targets_close(p);
  uint64_t align = p->dynamic_align > 16 ? p->dynamic_align : 16;
  if (p->n_patches) k->shared_static = (uint32_t)((k->shared_static + align - 1) / align * align);
  for (int i = 0; i < p->n_patches; i++) {
    const Patch *at = p->patches + i;
    if (at->code >= 0) k->code[at->code].offset += k->shared_static;
    else k->constants[at->constant].bits += k->shared_static;
  }
  p->patches = NULL;
  p->n_patches = p->max_patches = p->max_constants = p->max_specials = 0;
  p->dynamic_align = 0;
  if (k->shared_static > 48 << 10)
    ptx_error(p, k->line, "Entry function '%s' uses too much shared data (0x%x bytes, 0xc000 max)",
              k->name, k->shared_static);
}
