/*
** packed_weights.c -- weights that stay are packed once.
** In:  the right operand of a product, by buffer and place.  Out: its panels as ty_gemm_pack made
** them, when the buffer has served SEEN products with its contents unchanged; else NULL, and the
** product packs for itself. Without memory nothing is kept. Cannot fail.
**
** Contents are known by the buffer's stamp, which no other contents ever have (tensor.h): an entry
** is right or is never found again. Panels go with the contents, and the least recently used go
** when their place or their bytes are wanted; who works with them holds them, and a run in slices may stop meanwhile.
** Exposed buffers may change unseen: they are never kept.
*/
#include "engine/engine.h"

enum {
  WAYS = 4, /* places for one hash */
  SETS = 64,
  SEEN = 3,             /* uses from which contents count as lasting */
  PANEL_CAP = 32 << 20, /* bytes */
  PANEL_MOST = 12 << 20 /* bytes of one entry */
};

struct Panel {
  i32 refs;
  const Device *device;
  i64 bytes;
  void *data;
};

typedef struct Entry {
  u64 stamp; /* 0: free */
  u64 used;  /* when it was asked for last */
  u64 since; /* and first */
  const void *b;
  i64 k, n, brs, bcs;
  Panel *panel; /* held; NULL: only counted so far */
  i32 dtype, seen;
  bool amx; /* laid out for the matrix unit */
} Entry;

struct Panels {
  Entry entry[SETS * WAYS]; /* sets one behind the other */
  u64 clock;
};

void ty_panel_drop(Panel *p) {
  if (--p->refs) return;
  p->device->free(p->data, p->bytes);
  ty_mem_free(p);
}

static Panel *panel_new(const Device *d, i64 bytes) {
  Panel *p = ty_mem_alloc(sizeof *p);
  void *data = p ? d->allocate(bytes) : NULL;
  if (data) {
    *p = (Panel){.refs = 1, .device = d, .bytes = bytes, .data = data};
    return p;
  }
  ty_mem_free(p);
  return NULL;
}

const void *ty_panel_data(const Panel *p) { return p->data; }

static Panel *panel_hold(Panel *p) {
  p->refs++;
  return p;
}

static void entry_free(Engine *E, Entry *e) {
  if (e->panel) {
    E->panel_stats.bytes -= e->panel->bytes;
    E->panel_stats.entries--;
    ty_panel_drop(e->panel);
  }
  *e = (Entry){0};
}

/* Makes room for e's bytes: the least recently used entries go, but none that was asked for since e
** was first. Weights that are used in turn and do not all fit would drive each other out for ever:
** so those that came first stay. */
static bool make_room(Engine *E, const Entry *e, i64 bytes) {
  while (E->panel_stats.bytes + bytes > PANEL_CAP) {
    Entry *all = E->panels->entry, *oldest = NULL;
    for (i32 i = 0; i < SETS * WAYS; i++)
      if (all[i].panel && (!oldest || all[i].used < oldest->used)) oldest = &all[i];
    if (!oldest || oldest->used > e->since) return false;
    entry_free(E, oldest);
    E->panel_stats.evictions++;
  }
  return true;
}

static bool is_of(const Entry *e, u64 stamp, const Gemm *d, const void *b) {
  return e->stamp == stamp && e->b == b && e->dtype == d->dtype && e->amx == d->amx &&
         e->k == d->k && e->n == d->n && e->brs == d->brs && e->bcs == d->bcs;
}

/* The entry, or a new one in the place that was least used; NULL when out of memory. */
static Entry *find(Engine *E, u64 stamp, const Gemm *d, const void *b) {
  u64 key[2] = {stamp, (u64)(uintptr_t)b};
  if (!E->panels && !(E->panels = ty_mem_zalloc(sizeof *E->panels))) return NULL;
  Entry *set = &E->panels->entry[ty_hash(key, sizeof key, 0) % SETS * WAYS], *e = set;
  for (i32 i = 0; i < WAYS; i++) {
    if (is_of(&set[i], stamp, d, b)) return &set[i];
    if (set[i].used < e->used) e = &set[i];
  }
  E->panel_stats.evictions += e->panel != NULL;
  entry_free(E, e);
  *e = (Entry){.stamp = stamp,
               .since = E->panels->clock + 1,
               .b = b,
               .k = d->k,
               .n = d->n,
               .brs = d->brs,
               .bcs = d->bcs,
               .dtype = d->dtype,
               .amx = d->amx};
  return e;
}

/* Packs, which may take several turns of a run in slices: what is packed to the end becomes the entry's, if that is still
** without, and is the caller's. */
static Panel *pack(Engine *E, Buffer *buf, const Gemm *d, const void *b, i64 bytes) {
  Panel *p = panel_new(buf->device, bytes);
  if (!p) return NULL;
  p->device->pack(d, b, p->data);
  if (ty_watch_stops()) {
    ty_panel_drop(p);
    return NULL;
  }
  Entry *e = find(E, buf->stamp, d, b);
  if (!e || e->panel) return p;
  e->panel = panel_hold(p);
  e->used = E->panels->clock;
  E->panel_stats.bytes += bytes;
  E->panel_stats.entries++;
  buf->kept = true;
  return p;
}

Panel *ty_panels_find(Engine *E, Buffer *buf, const Gemm *d, const void *b, i64 bytes) {
  if (buf->exposed || bytes > PANEL_MOST) return NULL;
  Entry *e = find(E, buf->stamp, d, b);
  if (!e) return NULL;
  e->used = ++E->panels->clock;
  if (e->panel) {
    E->panel_stats.hits++;
    return panel_hold(e->panel);
  }
  E->panel_stats.misses++;
  if (++e->seen < SEEN) return NULL;
  if (make_room(E, e, bytes)) return pack(E, buf, d, b, bytes);
  e->seen = 0; /* again when others were not asked for in a while */
  e->since = e->used;
  return NULL;
}

void ty_panels_forget(State *S, Buffer *buf) {
  Engine *E = S->engine;
  for (i32 i = 0; E && E->panels && i < SETS * WAYS; i++)
    if (E->panels->entry[i].stamp == buf->stamp) entry_free(E, &E->panels->entry[i]);
}

void ty_panels_clear(Engine *E) {
  for (i32 i = 0; E->panels && i < SETS * WAYS; i++) entry_free(E, &E->panels->entry[i]);
  ty_mem_free(E->panels);
  E->panels = NULL;
}
