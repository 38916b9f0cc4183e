/*
** lua_modes.c -- modes that hold for the extent of a function's call: whether operations are taped, autocast, vmap, a
** random state of its own, a profile, how compiled functions are run, until when.
** In: modes that are entered and left, and the coroutine that runs. Out: the State's words (grad_mode, cast, level,
** seed and stream, and whether compiled functions run plainly) as they hold for that coroutine. Raises when out of
** memory, and where one vmap would lie inside of a later one.
**
** A mode belongs to the coroutine that entered it. For code on a coroutine those modes hold that were entered by the
** coroutine itself, by the one that resumed it, by the one that resumed that ...: the innermost decides. The modes of
** coroutines that are suspended, dead or gone do not count; they count again when their coroutine goes on.
** 1. All open modes are in one list, the latest first. While it is empty nothing is asked.
** 2. Nobody tells when a coroutine is resumed or yields: each entry of ours asks (ty_lua_modes). The words are those of
**    `mode_of`. As long as all modes are its own, they are right whenever it asks; else they are found anew each time:
**    what the coroutine is resumed by may have changed though the same one asks.
** 3. Who has resumed another one, and waits for it, has status 0 as the running one has, and frames on its stack. Of
**    several, the innermost is found by their stacks: the argument of coroutine.resume, or the upvalue of what
**    coroutine.wrap gave. Where an embedder resumes by functions of its own, the later mode is the inner one.
** 4. A mode is held by a frame of the function that entered it, and holds its coroutine by its environment. So an
**    abandoned coroutine is garbage together with its modes, and stays in memory until their finalisers have taken
**    them off the list: no other coroutine gets its address before.
** 5. Leaving takes off that very mode, wherever it is in the list, and those that its coroutine entered later. It never
**    raises: it runs while errors are on their way.
** 6. An error may pass by whoever would leave a mode: a debug hook raises between any two instructions. So a mode holds
**    as long as the call is in progress that entered it, which each entry asks; a call has one mode at a time. What a
**    capture's evaluator enters has no such frame, and ends with the session.
** 7. The State's seed and stream belong to the innermost random mode that holds (`dice`), or to no mode; those of the
**    others are kept beside.
*/
#include "engine/entry.h"
#include "record/grad.h"
#include "lua/lua_modes.h"

#define CHAIN_MAX 10000 /* resumes inside of each other; the C stack allows fewer */

/* --- who resumed whom */

/* Whether the coroutine runs, or waits for one that it resumed. */
static bool is_resuming(lua_State *co) {
  lua_Debug ar;
  return lua_status(co) == 0 && lua_getstack(co, 0, &ar);
}

/* The coroutine that this one has resumed and waits for; NULL: its stack does not tell. */
static lua_State *resumed_by(lua_State *co) {
  lua_Debug ar;
  if (!lua_getstack(co, 0, &ar) || !lua_getinfo(co, "S", &ar) || *ar.what != 'C') return NULL;
  lua_State *next = lua_tothread(co, 1);
  return next ? next : lua_tothread(co, lua_upvalueindex(1));
}

/* How far out the coroutine is, seen from L: the resumes between. The walk ends at `met`, where that is known (NULL:
** of none). Where its chain breaks off before, it is further out than all others, by the resumes to there. */
static int distance(lua_State *co, const lua_State *L, const Mode *met) {
  int n = 0;
  for (; n < CHAIN_MAX && (co = resumed_by(co)); n++) {
    if (co == L) return n;
    if (met && co == met->owner) return n + 1 + met->far;
  }
  return CHAIN_MAX + n;
}

/* --- the words */

/* The State's random numbers go on where the mode's stopped; NULL: where those outside of any did. */
static void roll(Binding *B, Mode *m) {
  State *S = &B->S;
  if (m == B->dice) return;
  u64 *was = B->dice ? B->dice->random : B->random, *now = m ? m->random : B->random;
  was[0] = S->seed, was[1] = S->stream;
  S->seed = now[0], S->stream = now[1];
  B->dice = m;
}

/* Whether the call that entered the mode has ended, without leaving it. */
static bool is_left(lua_State *L, Mode *m) {
  return (m->owner == L || is_resuming(m->owner)) && !ty_lua_frame_lives(m->owner, &m->frame);
}

static void unlink_mode(Mode **at) {
  Mode *m = *at;
  *at = m->outer;
  m->owner = NULL;
}

/* Takes a mode off that nobody leaves. */
static void drop(Binding *B, Mode **at) {
  if ((*at)->kind == MODE_PROFILE) ty_profile_close(&B->S);
  unlink_mode(at);
}

/* Takes modes off that no one is in any more. Those around one that is in progress, on the same stack, are so too. */
static void drop_left(lua_State *L, Binding *B) {
  const lua_State *inside = NULL;
  for (Mode **p = &B->mode, *m = *p; m; m = *p)
    if (m->owner != inside && is_left(L, m)) {
      drop(B, p);
    } else {
      inside = m->owner;
      p = &m->outer;
    }
}

/* Marks the modes that hold for L, its own as the nearest. Whether several other coroutines have such modes. */
static bool mark(lua_State *L, Binding *B) {
  const lua_State *other = NULL;
  bool several = false;
  drop_left(L, B);
  B->mode_of = L;
  B->mixed = B->disordered = false;
  for (Mode *m = B->mode; m; m = m->outer) {
    const bool own = m->owner == L;
    m->holds = own || is_resuming(m->owner);
    m->parted |= !m->holds;
    m->far = own ? -1 : 0;
    B->mixed |= !own;
    if (own || !m->holds) continue;
    several |= other && other != m->owner;
    other = m->owner;
  }
  return several;
}

/* Those that hold for L, the innermost first; where it cannot be told, the latest. In the list they mostly lie so: then
** each is put at the end, and all chains are walked once. */
static Mode *sorted(lua_State *L, Binding *B) {
  const bool several = mark(L, B);
  Mode *head = NULL, *tail = NULL, *met = NULL;
  for (Mode *m = B->mode; m; m = m->outer) {
    if (!m->holds) continue;
    if (several && m->owner != L) {
      m->far = met && met->owner == m->owner ? met->far : distance(m->owner, L, met);
      met = m;
    }
    Mode **p = tail && tail->far <= m->far ? &tail->inside_of : &head;
    while (*p && (*p)->far <= m->far) p = &(*p)->inside_of;
    m->inside_of = *p;
    *p = m;
    if (!m->inside_of) tail = m;
  }
  return head;
}

/* Puts the words as they hold for L: from the innermost mode outwards, the first of each kind decides. */
static void settle(lua_State *L, Binding *B) {
  State *S = &B->S;
  Mode *first[MODE_KINDS] = {NULL};
  Level **end = &S->level;
  u32 inner = UINT32_MAX;
  B->until = 0;
  for (Mode *m = sorted(L, B); m; m = m->inside_of) {
    if (!first[m->kind]) first[m->kind] = m;
    if (m->kind == MODE_DEADLINE && (!B->until || m->until < B->until)) B->until = m->until;
    if (m->kind != MODE_VMAP) continue;
    *end = &m->level;
    end = &m->level.outer;
    if (m->level.again) continue; /* has the id of an earlier one, on purpose */
    B->disordered |= m->level.id > inner;
    inner = m->level.id;
  }
  *end = NULL;
  ty_grad_set_mode(S, !first[MODE_GRAD] || first[MODE_GRAD]->on);
  S->cast = first[MODE_CAST] ? first[MODE_CAST]->cast : 0;
  roll(B, first[MODE_RANDOM]);
  S->engine->compiled->plain = first[MODE_PLAIN] != NULL;
}

void ty_lua_modes(lua_State *L, Binding *B) {
  if (L != B->mode_of || B->mixed || is_left(L, B->mode)) settle(L, B);
  /* Levels of batched tensors tell which vmap is the inner one. */
  if (TY_UNLIKELY(B->disordered))
    ty_lua_error(L, "vmap: a coroutine that was suspended inside of a vmap is resumed inside of a "
                    "later one");
}

/* --- entering and leaving */

Mode *ty_lua_mode_push(lua_State *L, ModeKind kind) {
  Mode *m = (Mode *)lua_newuserdata(L, sizeof *m);
  memset(m, 0, sizeof *m);
  m->kind = (u8)kind;
  lua_rawgeti(L, LUA_REGISTRYINDEX, ty_lua_binding(L)->mode_meta);
  lua_setmetatable(L, -2);
  if (lua_pushthread(L)) { /* the main one stays anyway */
    lua_pop(L, 1);
    return m;
  }
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  lua_setfenv(L, -2);
  return m;
}

void ty_lua_mode_open(lua_State *L, Mode *m) {
  Binding *B = ty_lua_binding(L);
  if (!B->S.capture) m->frame = ty_lua_frame(L, 1);
  for (Mode **p = &B->mode, *at = *p; at; at = *p) /* what lay there has ended */
    if (at->owner == L && m->frame.slot && at->frame.slot >= m->frame.slot) drop(B, p);
    else p = &at->outer;
  m->owner = L;
  m->number = ++B->entered;
  m->outer = B->mode;
  B->mode = m;
  settle(L, B);
}

/* Takes m off the list, and all before it that are of the same coroutine. */
static void take_off(Binding *B, Mode *m) {
  for (Mode **p = &B->mode, *at = *p; at; at = *p) {
    const bool last = at == m;
    if (at->owner != m->owner) {
      p = &at->outer;
      continue;
    }
    if (!last) drop(B, p);
    else {
      unlink_mode(p);
      break;
    }
  }
}

void ty_lua_mode_close(lua_State *L, Mode *m) {
  Binding *B = ty_lua_binding(L);
  if (!m->owner) return;
  take_off(B, m);
  settle(L, B);
}

void ty_lua_modes_cut(lua_State *L, Binding *B, u64 entered) {
  if (B->entered == entered) return;
  for (Mode **p = &B->mode, *m = *p; m; m = *p)
    if (m->number > entered) drop(B, p);
    else p = &m->outer;
  settle(L, B);
}

/* __gc: its coroutine was abandoned, or an error has passed it by. What others have open stays. */
static int mode_collect(lua_State *L) {
  Mode *m = (Mode *)lua_touserdata(L, 1);
  Binding *B = ty_lua_binding(L);
  if (!m->owner) return 0;
  Mode **p = &B->mode;
  while (*p != m) p = &(*p)->outer;
  drop(B, p);
  if (m->holds) settle(L, B); /* before m goes: words may lie in it */
  return 0;
}

bool ty_lua_mode_of(lua_State *L, Binding *B, ModeKind kind, const void *entry) {
  ty_lua_follow(L, B);
  for (const Mode *m = B->mode; m; m = m->outer)
    if (m->holds && m->kind == kind && m->of == entry) return true;
  return false;
}

void ty_lua_modes_meta(lua_State *L) {
  static const luaL_Reg gc[] = {{"__gc", mode_collect}, {NULL, NULL}};
  Binding *B = ty_lua_binding(L);
  if (B->mode_meta) return; /* the module may be opened again */
  lua_newtable(L);
  ty_lua_register(L, gc);
  B->mode_meta = luaL_ref(L, LUA_REGISTRYINDEX);
}
