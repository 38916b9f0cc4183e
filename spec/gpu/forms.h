/*
** forms.h -- how instructions become code: a form says what it accepts, its pick function what it becomes.
*/
#ifndef SOFT_GPU_FORMS_H
#define SOFT_GPU_FORMS_H

#include "exec.h"
#include "ptx.h"

typedef void Pick(Parser *p, const Form *f, const Inst *i, Code *c);
/* pick_values.c, pick_memory.c */
Pick pick_approx, pick_atom, pick_bar, pick_bfind, pick_carry, pick_cp_async, pick_cp_wait,
    pick_cvt, pick_cvt_pack, pick_cvta, pick_dp4a, pick_elect, pick_flow, pick_half, pick_isspacep,
    pick_ld, pick_ldmatrix, pick_logic, pick_match, pick_mma, pick_mov, pick_nothing, pick_real,
    pick_red, pick_run, pick_set, pick_setp, pick_shf, pick_shfl, pick_slct, pick_st, pick_sync,
    pick_table, pick_testp, pick_word;

/* forms.c */
int inst_which(const Inst *i, const char *const *list,
               int n); /* number of the word that is there, or -1 */
void need(Parser *p, const Inst *i, bool used, const char *what, int version, int target);

/* push.c */
_Noreturn void mismatch(Parser *p, const Inst *i);
int source_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide);
int dest_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide);
void push(Code *c, int slot);
void push_pred_source(Parser *p, const Inst *i, Code *c, const Operand *o);
void push_pred_dest(Parser *p, const Inst *i, Code *c, const Operand *o);
void push_address(Parser *p, const Inst *i, Code *c, const Operand *o);
void push_registers(Parser *p, const Inst *i, Code *c, const Operand *o, Type type, bool written);
void push_number(Parser *p, const Inst *i, Code *c, const Operand *o);
void push_operands(Parser *p, const Form *f, const Inst *i, Code *c);
bool operands_count(const char *letters, int n);

#endif
