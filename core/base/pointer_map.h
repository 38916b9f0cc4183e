/*
** pointer_map.h -- numbers by address, for passes over many objects that ask which one an address was.
** Room for all keys is taken at the start, so that only that can fail. Keys are not NULL; the first number that a key
** was given stays.
*/
#ifndef TY_POINTER_MAP_H
#define TY_POINTER_MAP_H

#include "base/base.h"

typedef struct PointerMap {
  struct PointerEntry {
    const void *key; /* NULL: free */
    i32 value;
  } * entry;
  u32 mask; /* entries less one; a power of two of them, at most half in use */
} PointerMap;

bool ty_pointer_map_open(PointerMap *m, i32 n); /* n: keys at most; false when out of memory */
void ty_pointer_map_close(PointerMap *m);
void ty_pointer_map_add(PointerMap *m, const void *key, i32 value);
i32 ty_pointer_map_get(const PointerMap *m, const void *key); /* -1: it has none */

#endif
