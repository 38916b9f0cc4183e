/*
** site.c -- see site.h. A table by hash whose entries never go, so that any thread reads it without a lock.
*/
#include <stdatomic.h>
#include "ir/site.h"

enum { SITES = 1 << 14, TRIES = 64 };

typedef struct Site {
  const char *where;
  char who[]; /* both end with 0, where behind who */
} Site;

static Site *_Atomic sites[SITES]; /* site k is sites[k - 1] */

static u32 hash(u32 h, const char *text) {
  while (*text) h = (h ^ (u8)*text++) * 16777619u;
  return h * 16777619u;
}

static Site *site_new(const char *who, const char *where) {
  size_t n = strlen(who) + 1, m = strlen(where) + 1;
  Site *s = ty_mem_alloc(sizeof *s + n + m);
  if (!s) return NULL;
  memcpy(s->who, who, n);
  s->where = memcpy(s->who + n, where, m);
  return s;
}

i32 ty_site(const char *who, const char *where) {
  u32 at = hash(hash(2166136261u, who), where);
  for (int i = 0; i < TRIES; i++, at++) {
    Site *_Atomic *slot = &sites[at % SITES];
    Site *s = *slot, *fresh = NULL;
    if (!s) {
      if (!(fresh = site_new(who, where))) return 0;
      if (atomic_compare_exchange_strong(slot, &s, fresh)) s = fresh;
      else ty_mem_free(fresh); /* another thread was first: s is its */
    }
    if (!strcmp(s->who, who) && !strcmp(s->where, where)) return (i32)(at % SITES) + 1;
  }
  return 0;
}

static const Site *site_of(i32 k) { return k > 0 && k <= SITES ? sites[k - 1] : NULL; }

const char *ty_site_who(i32 site) {
  const Site *s = site_of(site);
  return s ? s->who : "index";
}

const char *ty_site_where(i32 site) {
  const Site *s = site_of(site);
  return s ? s->where : "";
}
