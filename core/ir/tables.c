/*
** tables.c -- constant tables that loop programs read by LUT.
** In: kernels/scalar_tables.def.  Out: ty_luts, by the numbers of kernels/scalar_tables.h. Cannot fail.
*/
#include "ir/program.h"
#include "kernels/scalar_tables.h"

#include "kernels/scalar_tables.def"
