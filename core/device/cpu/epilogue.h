/*
** epilogue.h -- a product with the maps behind it.
*/
#ifndef TY_EPILOGUE_H
#define TY_EPILOGUE_H

#include "device/cpu/cpu.h"

/* Runs a product with its epilogue, if it has one. buf: the epilogue's operands. */
bool ty_epilogue_gemm(const Job *s, const void *a, const void *b, const void *panels,
                      void *const *buf, const u64 *scalar, void *y);

#endif
