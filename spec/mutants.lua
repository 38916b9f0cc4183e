-- The faults that mutate.lua plants: each replaces `from`, which stands once in its file, by `to`; `what` says what breaks.
-- A change of a file may move a fault elsewhere: keep what it breaks, find the place again.

local M = {
  specs = { "capture", "evaluate", "road", "compile", "matrix", "relatives" }, -- of these, what exists, in this order

  { file = "core/fold.c", what = "x + 0 is taken for x: -0 stays",
    from = "if (is_const(g, n, 0, is_float ? -0.0 : 0.0)) return n->src[1];",
    to = "if (is_const(g, n, 0, 0.0)) return n->src[1];" },
  { file = "core/fold.c", what = "x * 0 is taken for x",
    from = "case OP_MUL:\n    if (is_const(g, n, 0, 1)) return n->src[1];",
    to = "case OP_MUL:\n    if (is_const(g, n, 0, 0)) return n->src[1];" },
  { file = "core/fold.c", what = "bf16 by way of f16 loses no range",
    from = "if (fa && a != T_F16 && b == T_F16) return false;", to = "" },
  { file = "core/fold.c", what = "integers by way of a float wrap instead of saturating",
    from = "return ty_is_float(by) && !ty_is_float(a)", to = "return ty_is_float(by) && ty_is_float(a)" },
  { file = "core/fold.c", what = "where with a true condition gives the other side",
    from = "is_const(g, n, 0, 1)) return n->src[1];\n    return is_const(g, n, 0, 0)",
    to = "is_const(g, n, 0, 1)) return n->src[2];\n    return is_const(g, n, 0, 0)" },
  { file = "core/fold.c", what = "a transposed view is taken for a reshape",
    from = "if (n->type.dims[d] != 1 && n->arg.strides[d] != want[d]) return false;",
    to = "if (n->type.dims[d] != 1 && n->arg.strides[d] < 0) return false;" },
  { file = "core/fold.c", what = "abs of a negation is the negation",
    from = "case OP_ABS: return a->op == OP_ABS ? n->src[0] : -1;",
    to = "case OP_ABS: return a->op == OP_NEG ? n->src[0] : -1;" },
  { file = "core/fold.c", what = "operands of every operation are swapped",
    from = "if ((op->flags & F_COMM) && m.src[0] > m.src[1])", to = "if (op->arity == 2 && m.src[0] > m.src[1])" },
}

return M
