/*
** map.h -- index maps: which element of a node a group reads at each point of its domain.
** A map gives the row-major position among the elements of one node as an affine function of the
** domain's indices. Everything that views, broadcasts and layouts do to indices is one function,
** ty_map_through.
*/
#ifndef TY_MAP_H
#define TY_MAP_H

#include "ir/program.h"

typedef struct Map {
  i64 start;
  i64 coef[MAX_DIMS];
  i32 next; /* of the same domain; -1: the last */
} Map;

/* All maps of one compilation; those of a domain are a list, each there once: equal numbers mean
** equal maps. Maps move in memory when one is added: they are held by number. */
typedef struct Maps {
  Arena *A;
  Map *at;
  i32 n, cap;
  bool failed; /* out of memory; stays set */
} Maps;

/* The points over which a group computes. Dims of extent 1 are never there. As for a launch: first
** no dims of O, then nr of R, the rest is I. Dims may be split while the group grows; all maps of
** the domain go along.
*/
typedef struct Domain {
  u8 kind; /* ProgramKind */
  u8 nd, no, nr;
  bool fixed; /* dims may not be split */
  i64 dims[MAX_DIMS];
  i32 maps; /* first of its list */
} Domain;

void ty_domain_init(Domain *D, int kind);
void ty_domain_push(Domain *D, i64 extent);      /* one more dim behind all; extent 1 adds none */
i64 ty_domain_numel(const Domain *D, bool rows); /* points; rows: R counts as 1 */

/* Number of the map equal to m, which is added when new. -1: out of memory. */
i32 ty_map_intern(Maps *M, Domain *D, const Map *m);
/* The map that walks a row-major array of D's dims: the one of a group's root. */
i32 ty_map_identity(Maps *M, Domain *D);
/* From positions in a row-major array of dims to positions under other strides: the elements that
** `map` gives, found at offset + sum of index * stride. Splits dims of D where that helps. -1: not
** affine, or out of memory. */
i32 ty_map_through(Maps *M, Domain *D, i32 map, int n, const i64 *dims, const i64 *strides,
                   i64 offset);
/* A new dim in front of dim `at`, on which no map so far depends. The caller sees to room and to
 * no, nr. */
void ty_map_insert(Maps *M, Domain *D, int at, i64 extent);
/* Dim i becomes what was dim order[i]. */
void ty_map_permute(Maps *M, Domain *D, const u8 *order);
bool ty_map_touches_rows(const Maps *M, const Domain *D, i32 map); /* depends on a dim of R */
/* Gives each of the positions 0 .. numel - 1 once; rows: R is left out, as the map does. */
bool ty_map_covers(const Maps *M, const Domain *D, i32 map, i64 numel, bool rows);

#endif
