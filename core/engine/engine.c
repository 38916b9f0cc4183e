/*
** engine.c -- the State's engine: settings, and the cut: from a recording to
** computed storages.
** In: a recording and the storage whose value is demanded (NULL: no one in particular). Out: storages
** settled, the recording closed. Fails when out of memory: then nothing has changed and the recording can
** be cut again.
**
** What a cut computes. Lua collects late, so a live handle does not mean that its value matters.
** Computed are: the demanded node; sinks, which no recorded operation reads; values written to
** storages that existed before; nodes that were needed after an earlier cut of the same graph
** (learned); what whoever records asks for (Recording.wants); and everything if an input is exposed. The rest stays pending on the closed recording with
** its inputs pinned. If such a value is asked for later, it is computed from those inputs and the
** graph's entry learns to store it, so that loops do not recompute.
*/
#include <stdio.h>
#include <stdlib.h>
#include "record/capture.h"
#include "engine/entry.h"

/* --- what was learned */

static struct Learn *learn_slot(State *S, u64 hash) {
  return &S->engine->compiled->learn[hash & (LEARN_SLOTS - 1)];
}

static bool learned(State *S, u64 hash, i32 node) {
  const struct Learn *l = learn_slot(S, hash);
  if (node >= LEARN_NODES) return true; /* beyond the memory: better stored than computed again */
  return l->hash == hash && l->bits[node / 64] >> (node % 64) & 1;
}

static void learn(State *S, u64 hash, i32 node) {
  struct Learn *l = learn_slot(S, hash);
  if (node >= LEARN_NODES) return;
  if (l->hash != hash) {
    memset(l, 0, sizeof *l);
    l->hash = hash;
  }
  l->bits[node / 64] |= 1ull << (node % 64);
  S->engine->compiled->relearned++;
}

/* --- the cut */

static bool is_wanted(State *S, const Recording *b, const Storage *st, const Storage *demanded,
                      bool all) {
  if (all || st == demanded || (demanded && st->node == demanded->node)) return true;
  if (b->closed) return false;
  if (b->wants == WANT_SAVED && st->frozen) return true;
  return b->g.uses[st->node] == 0 || st->buf || learned(S, b->g.hash, st->node);
}

/* Which input of the recording is the buffer that st would be written to; see Output.write. */
static i32 written_input(const Recording *b, const Storage *st) {
  if (!st->buf) return -1;
  for (i32 i = 0; i < b->ninput; i++)
    if (b->input[i].buf == st->buf) return i;
  return -2;
}

/* The outputs of a cut and the storages that get them, by node: the order of the waiting list
** depends on when handles were made, a key may not. */
static i32 collect(State *S, const Recording *b, const Storage *demanded, Storage **target,
                   Output *out) {
  bool all = ty_recording_exposed(b) || (b->wants == WANT_ALL && !b->closed);
  i32 n = 0;
  for (Storage *st = b->waiting; st; st = st->next) {
    if (!is_wanted(S, b, st, demanded, all)) continue;
    i32 i = n++;
    i32 write = written_input(b, st);
    for (; i > 0; i--) {
      const Output *o = &out[i - 1];
      if (o->node < st->node || (o->node == st->node && o->write <= write)) break;
      out[i] = out[i - 1];
      target[i] = target[i - 1];
    }
    memset(&out[i], 0, sizeof out[i]);
    out[i].node = st->node;
    out[i].write = write;
    out[i].device = st->device;
    out[i].bytes = st->numel * ty_dtypes[st->dtype].bytes;
    target[i] = st;
  }
  return n;
}

/* Key of a plan: settings, outputs, nodes. Returns its length, 0 when out of memory. */
static size_t make_key(State *S, const Recording *b, const Output *out, i32 n) {
  struct Compiled *C = S->engine->compiled;
  size_t nodes = sizeof(Node) * (size_t)b->g.n, need = 16 + 8 * (size_t)n + nodes;
  if (need > C->key_cap) {
    void *p = ty_mem_realloc(C->key, need * 2);
    if (!p) return 0;
    C->key = p;
    C->key_cap = need * 2;
  }
  i32 head[4] = {b->g.n, n, S->fast, b->ninput};
  memcpy(C->key, head, 16);
  for (i32 i = 0; i < n; i++) {
    i32 pair[2] = {out[i].node, out[i].write};
    memcpy(C->key + 16 + 8 * i, pair, 8);
  }
  memcpy(C->key + 16 + 8 * n, b->g.node, nodes);
  return need;
}

/* The plan of the cut, held: found, or made and kept. NULL: S->err. */
static Plan *plan_of(State *S, const Recording *b, Output *out, i32 n, u64 *hash) {
  struct Compiled *C = S->engine->compiled;
  size_t len = make_key(S, b, out, n);
  if (!len) {
    ty_fail_memory(S, "compile", 0);
    return NULL;
  }
  *hash = ty_hash(C->key, 16 + 8 * (size_t)n, b->g.hash);
  const bool ranged = S->engine->choices != NULL;
  Plan *p = ranged ? NULL : ty_cache_find(S, C->key, len, *hash);
  if (p) return ty_plan_hold(p);
  i32 *input = ty_mem_alloc(sizeof(i32) * (size_t)TY_MAX(b->ninput, 1));
  if (!input) {
    ty_fail_memory(S, "compile", 0);
    return NULL;
  }
  for (i32 i = 0; i < b->ninput; i++) input[i] = b->input[i].node;
  p = ty_compile_graph(S, &b->g, out, n, b->ninput, input);
  ty_mem_free(input);
  if (p && !ranged) ty_cache_put(S, C->key, len, *hash, p);
  return p;
}

/* Gives the results to their storages. An exposed buffer keeps its address and gets the bytes;
 * cannot fail. */
static void settle(Storage **target, Buffer **result, i32 n) {
  for (i32 i = 0; i < n; i++) {
    Buffer *own = target[i]->buf;
    if (own && own->exposed && own != result[i]) {
      memcpy(own->data, result[i]->data, (size_t)own->bytes);
      ty_buffer_drop(result[i]);
      result[i] = ty_buffer_hold(own);
    }
    ty_storage_settle(target[i], result[i]);
  }
}

/* Outputs of a cut that need no memory of their own. */
#define FEW 8

Plan *ty_engine_plan(State *S, const Recording *b, Output *out, i32 n) {
  u64 hash;
  return plan_of(S, b, out, n, &hash);
}

static bool run(State *S, Recording *b, const Storage *demanded, Lazy *z, i32 room) {
  Storage *target_few[FEW];
  Output out_few[FEW];
  Buffer *result_few[FEW];
  Storage **target = target_few;
  Output *out = out_few;
  Buffer **result = result_few;
  u64 hash;
  if (room > FEW) {
    target = ty_mem_alloc((sizeof *target + sizeof *out + sizeof *result) * (size_t)room);
    if (!target) return ty_fail_memory(S, "compile", 0);
    result = (Buffer **)(target + room);
    out = (Output *)(result + room);
  }
  i32 n = collect(S, b, demanded, target, out);
  const bool runs = n || ty_graph_checks(&b->g);
  Plan *p = runs ? plan_of(S, b, out, n, &hash) : NULL;
  for (i32 i = 0; i < n; i++) result[i] = target[i]->buf;
  bool ok = !runs || (p && ty_exec_run(S, p, b, result));
  if (ok && runs) {
    if (z) ty_entry_note(z, hash, p, &b->g);
    settle(target, result, n);
  }
  if (p) ty_plan_drop(p);
  if (target != target_few) ty_mem_free(target);
  return ok;
}

static Lazy *lazy_of(State *S, const Recording *b) {
  Lazy *z = S->engine->compiled->lazy;
  while (z && z->open != b) z = z->next;
  return z;
}

static bool engine_cut(State *S, Recording *b, Storage *demanded) {
  if (TY_UNLIKELY(b->dead)) return ty_fail(S, "run: the tensor belongs to a capture that is over");
  if (TY_UNLIKELY(S->capture != NULL) && S->capture->recording == b)
    return ty_capture_refuse(S, "needs the value of a tensor while it runs");
  if (TY_UNLIKELY(b->body))
    return ty_fail(
        S, "scan: the function reads the elements of a tensor, or goes on with it in a coroutine");
  Lazy *z = b->closed ? NULL : lazy_of(S, b);
  Recording *fresh = NULL;
  i32 waiting = 0;
  for (const Storage *st = b->waiting; st; st = st->next) waiting++;
  if (b->closed && demanded) learn(S, b->g.hash, demanded->node);
  if (z && !(fresh = ty_recording_new(S))) return false;
  if (z && z->on_cut) z->on_cut(z->ctx, b);
  u8 fast = S->fast;
  S->fast = z && z->entry && z->entry->fast;
  S->engine->compiled->cuts++;
  b->refs++; /* settling the last storage must not drop it under us */
  bool ok = run(S, b, demanded, z, waiting);
  S->fast = fast;
  if (ok) b->closed = true;
  if (z && ok) {
    if (S->open == b) S->open = fresh;
    z->open = fresh;
    ty_recording_drop(S, b); /* the opener's */
  } else if (fresh) {
    ty_recording_drop(S, fresh);
  }
  ty_recording_drop(S, b);
  return ok;
}

/* TYCHO_DUMP=r: a line for each result as it is recorded. */
static void say_recorded(State *S, const Recording *b, i32 node) {
  const Node *n = &b->g.node[node];
  char type[160];
  Text t = {0};
  ty_type_print(&n->type, type, sizeof type);
  ty_text_printf(&t, "  %s %%%d = %s", b == S->open ? "lazy " : "eager", (int)node,
                 ty_ops[n->op].name);
  for (int i = 0; i < MAX_SRC && n->src[i] >= 0; i++) ty_text_printf(&t, " %%%d", (int)n->src[i]);
  ty_text_printf(&t, " : %s\n", type);
  ty_dump_say(S, "record", &t);
}

/* --- life */

bool ty_engine_open(State *S) {
  const char *dump = getenv("TYCHO_DUMP");
  const char *check = getenv("TYCHO_CHECK");
  Engine *E = ty_kernel_guard() ? ty_mem_zalloc(sizeof *E) : NULL;
  if (!E || !(E->compiled = ty_mem_zalloc(sizeof *E->compiled))) {
    ty_mem_free(E);
    return ty_fail_memory(S, "tycho", 0);
  }
  ty_cpu_open();
  E->device = ty_cpu;
  if (dump) {
    Text said = {0};
    E->dump = ty_dump_letters(dump, &said);
    if (said.n) fputs(ty_text_str(&said), stderr);
    ty_text_free(&said);
  }
  if (ty_dumps(E, 'r')) S->recorded = say_recorded;
  E->check = check && *check == '1';
  ty_tensor_open(S);
  S->engine = E;
  S->cut = engine_cut;
  S->quick = ty_quick;
  S->few = E->dump ? 0 : 4096;
  S->forget = ty_panels_forget;
  S->default_dtype = T_F32;
  S->deterministic = S->grad_mode = true;
  S->seed = 0x7963686f; /* a fixed default: runs repeat unless manual_seed says otherwise */
  return true;
}

void ty_engine_close(State *S) {
  Engine *E = S->engine;
  if (!E) return;
  while (E->compiled->lazy) {
    Lazy *z = E->compiled->lazy;
    z->open->closed = true; /* nobody will ask any more */
    E->compiled->lazy = z->next;
    ty_recording_drop(S, z->open);
    ty_mem_free(z);
  }
  S->open = NULL;
  ty_tensor_close(S);
  ty_profile_close(S);
  ty_quick_clear(S);
  ty_cache_clear(S);
  ty_panels_clear(E);
  ty_arena_free(&E->scratch);
  ty_mem_free(E->room);
  for (int i = 0; i < ROOMS; i++) ty_mem_free(E->compiled->room[i].p);
  ty_mem_free(E->compiled->key);
  ty_mem_free(E->compiled);
  ty_mem_free(E);
  S->engine = NULL;
}
