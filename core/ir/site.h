/*
** site.h -- places in programs: of checks that a device makes later, what an error says when it comes; of operations,
** for profiles.
** In: the user's function that checks, "file:line". Out: a number, which nodes carry; one number for one place, as
** long as the process lives; 0 is none. Cannot fail: where there are too many, places are one.
*/
#ifndef TY_SITE_H
#define TY_SITE_H

#include "base/base.h"

#define SITE_BACK \
  (1 << 30) /* of an operation: it is part of a backward pass, for the operation at that site */

i32 ty_site(const char *who, const char *where);
const char *ty_site_who(i32 site);   /* of a number that ty_site gave, else "index" */
const char *ty_site_where(i32 site); /* "" when unknown */

#endif
