/*
** grad_words.h -- the rules of gradients as code.
** A rule is postfix code over a small stack: operands, numbers, operations of the table (which go the road
** as everything does: they run, are recorded, or are taped themselves), and a few words for what takes
** more than operations.
*/
#ifndef TY_GRAD_WORDS_H
#define TY_GRAD_WORDS_H

#include "ir/graph.h"

/* Codes below are operations. */
enum {
  I_G = OP_COUNT, /* the gradient of the result; reduced dims are kept as 1 */
  I_A,            /* operands, in the dtype of the gradient */
  I_B,
  I_C,
  I_DUP,
  I_SWAP,
  I_NUMBER,              /* ty_rule_numbers[code - I_NUMBER] */
  I_FLIP = I_NUMBER + 7, /* along the dim */
  I_SPREAD,              /* (index, x): x added up at the index's places, in a's dims */
  I_PLACE,               /* places along the dim, in a's dims */
  I_OTHERS,              /* of each element the product of the others, over the reduced dims */
  I_RUNNING,             /* of cumprod */
  I_DOT_A,               /* of matmul */
  I_DOT_B,
  I_REST,      /* of PUT: g but for what was written */
  I_UNDER,     /* and that */
  I_UNWRITTEN, /* g but for the index's places */
  I_ATTENDED,  /* of attend */
  I_TRANSPOSE, /* of fft */
  I_LAST,      /* whether an element of src is the one that stays */
  I_NONE,
  I_END,
  I_STOP,
  I_TIE
};
extern const double ty_rule_numbers[];

/* The code for operand i, up to I_END; NULL: it has no gradient. */
const u8 *ty_rule_of(int op, int i);

#endif
