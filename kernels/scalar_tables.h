/*
** scalar_tables.h -- numbers of the constant tables that scalar functions read (scalar_tables.def).
*/
#ifndef TY_SCALAR_TABLES_H
#define TY_SCALAR_TABLES_H

enum {
  L_HALF_HI,
  L_HALF_LO,
  L_TURN0, /* three words in a row of lut_turn, one table each so that one index serves */
  L_TURN1,
  L_TURN2,
  L_POW_INV,
  L_POW_LOG,
  L_POW_TAIL,
  L_ERF,
  L_ERF_SLOPE,
  L_ERFINV, /* ERFINV_TERMS tables */
  L_COUNT = L_ERFINV + 11
};
#define ERFINV_TERMS (L_COUNT - L_ERFINV)
#define ERFINV_PIECES 25
#define TURN_FIRST 120 /* exponent field / 8 of the first word of lut_turn */

#endif
