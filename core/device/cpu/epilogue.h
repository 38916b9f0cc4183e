/*
** epilogue.h -- a product's step with the maps behind it.
*/
#ifndef TY_EPILOGUE_H
#define TY_EPILOGUE_H

#include "compile/plan.h"
#include "device/machine.h"

/* Runs a product's step with its epilogue, if it has one. buf: the epilogue's operands. */
bool ty_epilogue_gemm(const Step *s, const void *a, const void *b, const void *panels,
                      void *const *buf, const u64 *scalar, void *y);

#endif
