/*
** text.h -- a string that grows. Without memory it is empty and stays so: only who must know looks at `failed`.
*/
#ifndef TY_TEXT_H
#define TY_TEXT_H

#include "base/base.h"

typedef struct Text {
  char *s;
  size_t n, cap;
  bool failed;
} Text;

void ty_text_add(Text *t, const char *s, size_t n);
void ty_text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *ty_text_room(Text *t,
                   size_t n); /* room for n more bytes and a zero, or NULL; n is not counted yet */
const char *ty_text_str(const Text *t); /* never NULL */
void ty_text_free(Text *t);

/* Edits (insert, drop, change, swap of neighbours) from a to b, at most `most` + 1; capitals are no edits. */
int ty_text_distance(const char *a, const char *b, int most);
/* Keeps the candidate where it is nearer to a name than *found, at most *best edits; equal ones by the alphabet. */
void ty_text_nearer(const char *name, const char *candidate, int *best, const char **found);
static inline int ty_text_edits(const char *name) {
  size_t n = strlen(name);
  return n < 2 ? 0 : n < 6 ? 1 : 2;
} /* of slips of the pen: fewer than half of the letters */

#endif
