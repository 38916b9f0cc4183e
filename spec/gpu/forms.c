/*
** forms.c -- the table of instruction forms: name, modifiers in their order, operands, the first version of PTX and the first
** target that know it, what it becomes.
** Modifiers: words apart by spaces; a|b is a choice, a trailing ? says it may be left out. Types among them are numbered.
** Operands, a letter each:
**   D E   destination of type 0, 1           a b   source of type 0, 1 (register, literal, name)
**   W w   destination, source of twice type 0   U u   destination, source of 32 bits
**   R r   as D and b, in a register that may be wider
**   S T   destination of type 0, of 32 bits, with |p    P Q   predicate, one with |q    p   predicate that is read
**   V v   registers of a load, of a store    M     address       m   member mask
**   L     label        i   whole number      *     the form's own function reads all of them
** Letters after a ? may be left out.
*/
#include "exec.h"
#include "ptx.h"

#define INT ".u16|.u32|.u64|.s16|.s32|.s64"
#define BITS ".b16|.b32|.b64"
#define RND ".rn|.rz|.rm|.rp"
#define HALF ".f16|.f16x2"
#define BRAIN ".bf16|.bf16x2"
#define ANY ".b8|.b16|.b32|.b64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f32|.f64"
#define VALUE ".b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64"
#define SPACE ".const|.global|.local|.param|.param::entry|.shared|.shared::cta"
#define STORED ".global|.local|.param|.shared|.shared::cta"
#define SCOPE ".cta|.gpu|.sys|.cluster"
#define HINTS \
  ".L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate? " \
  ".L2::64B|.L2::128B|.L2::256B?"
#define CMP_INT ".eq|.ne|.lt|.le|.gt|.ge"
#define CMP_REAL ".eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan"
#define BOOL ".and|.or|.xor"

typedef void Pick(Parser *p, const Form *f, const Inst *i, Code *c);
static Pick pick_table, pick_run, pick_real, pick_half, pick_approx, pick_carry, pick_setp,
    pick_set, pick_logic, pick_mov, pick_cvt, pick_cvt_pack, pick_ld, pick_st, pick_cvta, pick_atom,
    pick_red, pick_bar, pick_flow, pick_shf, pick_word, pick_sync, pick_shfl, pick_cp_async,
    pick_cp_wait, pick_slct, pick_bfind, pick_nothing, pick_dp4a, pick_match, pick_elect,
    pick_isspacep, pick_testp;

static const Form forms[] = {
    /* name, modifiers, operands, version, target, pick, table, op */
    {"add", INT, "Daa", 0, 0, pick_table, run_add, 0},
    {"add", ".sat .s32", "Daa", 0, 0, pick_run, run_add_sat, 0},
    {"add", RND "? .ftz? .sat? .f32", "Daa", 0, 0, pick_real, NULL, R_ADD},
    {"add", RND "? .f64", "Daa", 0, 0, pick_real, NULL, R_ADD},
    {"add", ".rn? .ftz? .sat? " HALF, "Daa", 42, 53, pick_half, NULL, R_ADD},
    {"add", ".rn? " BRAIN, "Daa", 78, 90, pick_half, NULL, R_ADD},
    {"add", ".cc .u32|.s32|.u64|.s64", "Daa", 0, 0, pick_carry, NULL, CARRY_OUT},
    {"addc", ".cc? .u32|.s32|.u64|.s64", "Daa", 0, 0, pick_carry, NULL, CARRY_IN},
    {"sub", INT, "Daa", 0, 0, pick_table, run_sub, 0},
    {"sub", ".sat .s32", "Daa", 0, 0, pick_run, run_sub_sat, 0},
    {"sub", RND "? .ftz? .sat? .f32", "Daa", 0, 0, pick_real, NULL, R_SUB},
    {"sub", RND "? .f64", "Daa", 0, 0, pick_real, NULL, R_SUB},
    {"sub", ".rn? .ftz? .sat? " HALF, "Daa", 42, 53, pick_half, NULL, R_SUB},
    {"sub", ".rn? " BRAIN, "Daa", 78, 90, pick_half, NULL, R_SUB},
    {"sub", ".cc .u32|.s32|.u64|.s64", "Daa", 0, 0, pick_carry, NULL, CARRY_OUT | CARRY_SUB},
    {"subc", ".cc? .u32|.s32|.u64|.s64", "Daa", 0, 0, pick_carry, NULL, CARRY_IN | CARRY_SUB},
    {"mul", ".lo " INT, "Daa", 0, 0, pick_table, run_mul_lo, 0},
    {"mul", ".hi " INT, "Daa", 0, 0, pick_table, run_mul_hi, 0},
    {"mul", ".wide .u16|.u32|.s16|.s32", "Waa", 0, 0, pick_table, run_mul_wide, 0},
    {"mul", RND "? .ftz? .sat? .f32", "Daa", 0, 0, pick_real, NULL, R_MUL},
    {"mul", RND "? .f64", "Daa", 0, 0, pick_real, NULL, R_MUL},
    {"mul", ".rn? .ftz? .sat? " HALF, "Daa", 42, 53, pick_half, NULL, R_MUL},
    {"mul", ".rn? " BRAIN, "Daa", 78, 90, pick_half, NULL, R_MUL},
    {"mul24", ".lo .u32|.s32", "Daa", 0, 0, pick_table, run_mul24, 0},
    {"mad24", ".lo .u32|.s32", "Daaa", 0, 0, pick_table, run_mad24, 0},
    {"mad", ".lo " INT, "Daaa", 0, 0, pick_table, run_mad_lo, 0},
    {"mad", ".hi " INT, "Daaa", 0, 0, pick_table, run_mad_hi, 0},
    {"mad", ".hi .sat .s32", "Daaa", 0, 0, pick_run, run_mad_hi_sat, 0},
    {"mad", ".wide .u16|.u32|.s16|.s32", "Waaw", 0, 0, pick_table, run_mad_wide, 0},
    {"mad", ".lo .cc .u32|.s32|.u64|.s64", "Daaa", 0, 0, pick_carry, NULL,
     CARRY_OUT | CARRY_MAD_LO},
    {"mad", ".hi .cc .u32|.s32|.u64|.s64", "Daaa", 0, 0, pick_carry, NULL,
     CARRY_OUT | CARRY_MAD_HI},
    {"madc", ".lo .cc? .u32|.s32|.u64|.s64", "Daaa", 0, 0, pick_carry, NULL,
     CARRY_IN | CARRY_MAD_LO},
    {"madc", ".hi .cc? .u32|.s32|.u64|.s64", "Daaa", 0, 0, pick_carry, NULL,
     CARRY_IN | CARRY_MAD_HI},
    {"mad", RND " .ftz? .sat? .f32", "Daaa", 0, 0, pick_real, NULL, R_FMA},
    {"mad", RND " .f64", "Daaa", 0, 0, pick_real, NULL, R_FMA},
    {"fma", RND " .ftz? .sat? .f32", "Daaa", 0, 0, pick_real, NULL, R_FMA},
    {"fma", RND " .f64", "Daaa", 0, 0, pick_real, NULL, R_FMA},
    {"fma", ".rn .ftz? .sat? " HALF, "Daaa", 42, 53, pick_half, NULL, R_FMA},
    {"fma", ".rn .ftz? .relu " HALF, "Daaa", 70, 80, pick_half, NULL, R_FMA},
    {"fma", ".rn .relu? " BRAIN, "Daaa", 70, 80, pick_half, NULL, R_FMA},
    {"div", INT, "Daa", 0, 0, pick_table, run_div, 0},
    {"div", RND " .ftz? .f32", "Daa", 0, 0, pick_real, NULL, R_DIV},
    {"div", RND " .f64", "Daa", 0, 0, pick_real, NULL, R_DIV},
    {"div", ".approx|.full .ftz? .f32", "Daa", 0, 0, pick_approx, NULL, R_DIV},
    {"rem", INT, "Daa", 0, 0, pick_table, run_rem, 0},
    {"sqrt", RND " .ftz? .f32", "Da", 0, 0, pick_real, NULL, R_SQRT},
    {"sqrt", RND " .f64", "Da", 0, 0, pick_real, NULL, R_SQRT},
    {"sqrt", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_SQRT},
    {"rcp", RND " .ftz? .f32", "Da", 0, 0, pick_real, NULL, R_RCP},
    {"rcp", RND " .f64", "Da", 0, 0, pick_real, NULL, R_RCP},
    {"rcp", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_RCP},
    {"rcp", ".approx .ftz .f64", "Da", 0, 0, pick_approx, NULL, R_RCP},
    {"rsqrt", ".approx .ftz? .f32|.f64", "Da", 0, 0, pick_approx, NULL, R_RSQRT},
    {"sin", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_SIN},
    {"cos", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_COS},
    {"lg2", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_LG2},
    {"ex2", ".approx .ftz? .f32", "Da", 0, 0, pick_approx, NULL, R_EX2},
    {"tanh", ".approx .f32", "Da", 70, 75, pick_approx, NULL, R_TANH},
    {"min", INT, "Daa", 0, 0, pick_table, run_min, 0},
    {"min", ".ftz? .f32", "Daa", 0, 0, pick_real, NULL, R_MIN},
    {"min", ".ftz? .NaN .f32", "Daa", 70, 80, pick_real, NULL, R_MIN},
    {"min", ".f64", "Daa", 0, 0, pick_real, NULL, R_MIN},
    {"min", ".ftz? .NaN? " HALF, "Daa", 70, 80, pick_half, NULL, R_MIN},
    {"min", ".NaN? " BRAIN, "Daa", 70, 80, pick_half, NULL, R_MIN},
    {"max", INT, "Daa", 0, 0, pick_table, run_max, 0},
    {"max", ".ftz? .f32", "Daa", 0, 0, pick_real, NULL, R_MAX},
    {"max", ".ftz? .NaN .f32", "Daa", 70, 80, pick_real, NULL, R_MAX},
    {"max", ".f64", "Daa", 0, 0, pick_real, NULL, R_MAX},
    {"max", ".ftz? .NaN? " HALF, "Daa", 70, 80, pick_half, NULL, R_MAX},
    {"max", ".NaN? " BRAIN, "Daa", 70, 80, pick_half, NULL, R_MAX},
    {"abs", ".s16|.s32|.s64", "Da", 0, 0, pick_table, run_abs, 0},
    {"abs", ".ftz? .f32", "Da", 0, 0, pick_real, NULL, R_ABS},
    {"abs", ".f64", "Da", 0, 0, pick_real, NULL, R_ABS},
    {"abs", ".ftz? " HALF, "Da", 65, 53, pick_half, NULL, R_ABS},
    {"abs", BRAIN, "Da", 70, 80, pick_half, NULL, R_ABS},
    {"neg", ".s16|.s32|.s64", "Da", 0, 0, pick_table, run_neg, 0},
    {"neg", ".ftz? .f32", "Da", 0, 0, pick_real, NULL, R_NEG},
    {"neg", ".f64", "Da", 0, 0, pick_real, NULL, R_NEG},
    {"neg", ".ftz? " HALF, "Da", 60, 53, pick_half, NULL, R_NEG},
    {"neg", BRAIN, "Da", 70, 80, pick_half, NULL, R_NEG},
    {"sad", INT, "Daaa", 0, 0, pick_table, run_sad, 0},
    {"and", BITS, "Daa", 0, 0, pick_table, run_and, 0},
    {"or", BITS, "Daa", 0, 0, pick_table, run_or, 0},
    {"xor", BITS, "Daa", 0, 0, pick_table, run_xor, 0},
    {"not", BITS, "Da", 0, 0, pick_table, run_not, 0},
    {"cnot", BITS, "Da", 0, 0, pick_table, run_cnot, 0},
    {"and", ".pred", "Ppp", 0, 0, pick_logic, NULL, 0},
    {"or", ".pred", "Ppp", 0, 0, pick_logic, NULL, 1},
    {"xor", ".pred", "Ppp", 0, 0, pick_logic, NULL, 2},
    {"not", ".pred", "Pp", 0, 0, pick_logic, NULL, 3},
    {"shl", BITS, "Dau", 0, 0, pick_table, run_shl, 0},
    {"shr", BITS "|" INT, "Dau", 0, 0, pick_table, run_shr, 0},
    {"shf", ".l|.r .clamp|.wrap .b32", "Daau", 0, 0, pick_shf, run_shf, 0},
    {"popc", ".b32|.b64", "Ua", 0, 0, pick_table, run_popc, 0},
    {"clz", ".b32|.b64", "Ua", 0, 0, pick_table, run_clz, 0},
    {"brev", ".b32|.b64", "Da", 0, 0, pick_table, run_brev, 0},
    {"bfind", ".shiftamt? .u32|.u64|.s32|.s64", "Ua", 0, 0, pick_bfind, run_bfind, 0},
    {"bfe", ".u32|.u64|.s32|.s64", "Dauu", 0, 0, pick_table, run_bfe, 0},
    {"bfi", ".b32|.b64", "Daauu", 0, 0, pick_table, run_bfi, 0},
    {"prmt", ".b32 .f4e|.b4e|.rc8|.ecl|.ecr|.rc16?", "Daaa", 0, 0, pick_word, run_prmt, 0},
    {"lop3", ".b32", "Daaai", 0, 0, pick_run, run_lop3, 0},
    {"dp4a", ".u32|.s32 .u32|.s32", "Uabu", 0, 61, pick_dp4a, run_dp4a, 0},
    {"setp", CMP_INT " " INT, "Qaa", 0, 0, pick_setp, NULL, 0},
    {"setp", ".lo|.ls|.hi|.hs .u16|.u32|.u64", "Qaa", 0, 0, pick_setp, NULL, 0},
    {"setp", ".eq|.ne " BITS, "Qaa", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " .ftz? .f32|.f16|.f16x2", "Qaa", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " .f64", "Qaa", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " " BRAIN, "Qaa", 78, 90, pick_setp, NULL, 0},
    {"setp", CMP_INT " " BOOL " " INT, "Qaap", 0, 0, pick_setp, NULL, 0},
    {"setp", ".lo|.ls|.hi|.hs " BOOL " .u16|.u32|.u64", "Qaap", 0, 0, pick_setp, NULL, 0},
    {"setp", ".eq|.ne " BOOL " " BITS, "Qaap", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " " BOOL " .ftz? .f32|.f16|.f16x2", "Qaap", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " " BOOL " .f64", "Qaap", 0, 0, pick_setp, NULL, 0},
    {"setp", CMP_REAL " " BOOL " " BRAIN, "Qaap", 78, 90, pick_setp, NULL, 0},
    {"set", CMP_INT "|.lo|.ls|.hi|.hs .u32|.s32|.f32 " INT "|" BITS, "Dbb", 0, 0, pick_set, NULL,
     0},
    {"set", CMP_REAL " .ftz? .u32|.s32|.f32 .f32|.f64", "Dbb", 0, 0, pick_set, NULL, 0},
    {"set", CMP_INT "|.lo|.ls|.hi|.hs " BOOL " .u32|.s32|.f32 " INT "|" BITS, "Dbbp", 0, 0,
     pick_set, NULL, 0},
    {"set", CMP_REAL " " BOOL " .ftz? .u32|.s32|.f32 .f32|.f64", "Dbbp", 0, 0, pick_set, NULL, 0},
    {"selp", VALUE, "Daap", 0, 0, pick_table, run_selp, 0},
    {"slct", ".ftz? " VALUE " .s32|.f32", "Daab", 0, 0, pick_slct, run_slct, 0},
    {"testp", ".finite|.infinite|.number|.notanumber|.normal|.subnormal .f32|.f64", "Pa", 0, 0,
     pick_testp, run_testp, 0},
    {"copysign", ".f32|.f64", "Daa", 0, 0, pick_run, run_copysign, 0},
    {"mov", ".pred", "Pp", 0, 0, pick_run, run_mov_pred, 0},
    {"mov", VALUE, "*", 0, 0, pick_mov, NULL, 0},
    {"cvt", RND "|.rni|.rzi|.rmi|.rpi? .ftz? .sat? " ANY "|.f16|.bf16 " ANY "|.f16|.bf16", "Rr", 0,
     0, pick_cvt, NULL, 0},
    {"cvt", ".rn|.rz .relu .f16|.bf16 .f32", "Rr", 70, 80, pick_cvt, NULL, 0},
    {"cvt", ".rn|.rz .relu? .f16x2|.bf16x2 .f32", "Dbb", 70, 80, pick_cvt_pack, NULL, 0},
    {"cvt", ".rna .tf32 .f32", "Rr", 70, 80, pick_cvt, NULL, 0},
    {"cvt", ".rn|.rz .relu? .tf32 .f32", "Rr", 78, 90, pick_cvt, NULL, 0},
    {"ld", ".weak? " SPACE "? .ca|.cg|.cs|.lu|.cv? " HINTS " .v2|.v4? " ANY, "VM", 0, 0, pick_ld,
     NULL, 0},
    {"ld", ".volatile " SPACE "? .v2|.v4? " ANY, "VM", 0, 0, pick_ld, NULL, 0},
    {"ld", ".relaxed|.acquire " SCOPE " .global|.shared|.shared::cta? " HINTS " .v2|.v4? " ANY,
     "VM", 60, 70, pick_ld, NULL, 0},
    {"ld", ".global .ca|.cg|.cs? .nc " HINTS " .v2|.v4? " ANY, "VM", 0, 0, pick_ld, NULL, 0},
    {"st", ".weak? " STORED "? .wb|.cg|.cs|.wt? " HINTS " .v2|.v4? " ANY, "Mv", 0, 0, pick_st, NULL,
     0},
    {"st", ".volatile " STORED "? .v2|.v4? " ANY, "Mv", 0, 0, pick_st, NULL, 0},
    {"st", ".relaxed|.release " SCOPE " .global|.shared|.shared::cta? " HINTS " .v2|.v4? " ANY,
     "Mv", 60, 70, pick_st, NULL, 0},
    {"prefetch", ".global|.local? .L1|.L2", "M", 0, 0, pick_nothing, NULL, 0},
    {"cvta", ".to? .const|.global|.local|.shared|.shared::cta|.param .u64", "Da", 0, 0, pick_cvta,
     run_cvta, 0},
    {"isspacep", ".const|.global|.local|.shared|.shared::cta|.param", "P*", 0, 0, pick_isspacep,
     run_isspacep, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE
     "? .global|.shared|.shared::cta? .add .u32|.s32|.u64|.f32|.f64",
     "DMa", 0, 0, pick_atom, NULL, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE
     "? .global|.shared|.shared::cta? .add .noftz .f16",
     "DMa", 63, 70, pick_atom, NULL, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE
     "? .global|.shared|.shared::cta? .min|.max .u32|.s32|.u64|.s64",
     "DMa", 0, 0, pick_atom, NULL, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE
     "? .global|.shared|.shared::cta? .and|.or|.xor|.exch .b32|.b64",
     "DMa", 0, 0, pick_atom, NULL, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE "? .global|.shared|.shared::cta? .inc|.dec .u32",
     "DMa", 0, 0, pick_atom, NULL, 0},
    {"atom",
     ".relaxed|.acquire|.release|.acq_rel? " SCOPE "? .global|.shared|.shared::cta? .cas .b32|.b64",
     "DMaa", 0, 0, pick_atom, NULL, 0},
    {"red",
     ".relaxed|.release? " SCOPE "? .global|.shared|.shared::cta? .add .u32|.s32|.u64|.f32|.f64",
     "Ma", 0, 0, pick_red, NULL, 0},
    {"red",
     ".relaxed|.release? " SCOPE "? .global|.shared|.shared::cta? .min|.max .u32|.s32|.u64|.s64",
     "Ma", 0, 0, pick_red, NULL, 0},
    {"red", ".relaxed|.release? " SCOPE "? .global|.shared|.shared::cta? .and|.or|.xor .b32|.b64",
     "Ma", 0, 0, pick_red, NULL, 0},
    {"red", ".relaxed|.release? " SCOPE "? .global|.shared|.shared::cta? .inc|.dec .u32", "Ma", 0,
     0, pick_red, NULL, 0},
    {"bar", ".cta? .sync", "u?u", 0, 0, pick_bar, NULL, 0},
    {"barrier", ".cta? .sync .aligned?", "u?u", 0, 0, pick_bar, NULL, 0},
    {"bar", ".cta? .arrive", "uu", 0, 0, pick_bar, NULL, 1},
    {"barrier", ".cta? .arrive .aligned?", "uu", 0, 0, pick_bar, NULL, 1},
    {"bar", ".cta? .red .popc .u32", "*", 0, 0, pick_bar, NULL, 2},
    {"bar", ".cta? .red .and|.or .pred", "*", 0, 0, pick_bar, NULL, 2},
    {"barrier", ".cta? .red .popc .aligned? .u32", "*", 0, 0, pick_bar, NULL, 2},
    {"barrier", ".cta? .red .and|.or .aligned? .pred", "*", 0, 0, pick_bar, NULL, 2},
    {"bar", ".warp .sync", "m", 60, 0, pick_sync, run_bar_warp, 0},
    {"membar", ".cta|.gl|.sys", "", 0, 0, pick_nothing, NULL, 0},
    {"fence", ".sc|.acq_rel? " SCOPE, "", 60, 70, pick_nothing, NULL, 0},
    {"shfl", ".sync .up|.down|.bfly|.idx .b32", "Sauum", 60, 0, pick_shfl, run_shfl, 0},
    {"vote", ".sync .all|.any|.uni .pred", "Ppm", 60, 0, pick_sync, run_vote, 0},
    {"vote", ".sync .ballot .b32", "Dpm", 60, 0, pick_sync, run_vote, 3},
    {"match", ".any|.all .sync .b32|.b64", "Tam", 60, 70, pick_match, run_match, 0},
    {"activemask", ".b32", "D", 62, 0, pick_run, run_activemask, 0},
    {"redux", ".sync .add|.min|.max .u32|.s32", "Dam", 70, 80, pick_sync, run_redux, 0},
    {"redux", ".sync .and|.or|.xor .b32", "Dam", 70, 80, pick_sync, run_redux, 0},
    {"elect", ".sync", "Tm", 80, 90, pick_elect, run_elect, 0},
    {"cp", ".async .ca|.cg .shared|.shared::cta .global .L2::64B|.L2::128B|.L2::256B?", "*", 70, 80,
     pick_cp_async, NULL, 0},
    {"cp", ".async .commit_group", "", 70, 80, pick_run, run_cp_commit, 0},
    {"cp", ".async .wait_group", "i", 70, 80, pick_run, run_cp_wait, 0},
    {"cp", ".async .wait_all", "", 70, 80, pick_cp_wait, run_cp_wait, 0},
    {"bra", ".uni?", "L", 0, 0, pick_flow, NULL, F_BRA},
    {"brx", ".idx .uni?", "uL", 60, 0, pick_flow, NULL, F_BRX},
    {"ret", ".uni?", "", 0, 0, pick_flow, NULL, F_EXIT},
    {"exit", "", "", 0, 0, pick_flow, NULL, F_EXIT},
    {"trap", "", "", 0, 0, pick_flow, NULL, F_TRAP},
    {"nanosleep", ".u32", "u", 63, 70, pick_nothing, NULL, 0},
    {"griddepcontrol", ".launch_dependents|.wait", "", 78, 90, pick_nothing, NULL, 0},
};

/* --- modifiers */

bool inst_has(const Inst *i, const char *mod) {
  for (int m = 0; m < i->n_mods; m++)
    if (strcmp(i->mods[m], mod) == 0) return true;
  return false;
}

/* Which of a list of words is there: its number, or -1. */
static int inst_which(const Inst *i, const char *const *list, int n) {
  for (int k = 0; k < n; k++)
    if (inst_has(i, list[k])) return k;
  return -1;
}

/* Whether a modifier is one of the choices of a word of the pattern, which goes on to the next word. */
static bool word_has(const char *pattern, size_t length, const char *mod) {
  size_t n = strlen(mod);
  for (size_t at = 0; at < length;) {
    size_t end = at;
    while (end < length && pattern[end] != '|') end++;
    if (end - at == n && memcmp(pattern + at, mod, n) == 0) return true;
    at = end + 1;
  }
  return false;
}

static bool mods_match(const char *pattern, Inst *i) {
  int m = 0;
  i->n_types = 0;
  while (*pattern) {
    size_t n = strcspn(pattern, " ");
    bool optional = pattern[n - 1] == '?';
    if (m < i->n_mods && word_has(pattern, optional ? n - 1 : n, i->mods[m])) {
      Type t = type_find(i->mods[m], strlen(i->mods[m]));
      if (t && i->n_types < MAX_TYPES) i->types[i->n_types++] = t;
      m++;
    } else if (!optional) return false;
    pattern += n + (pattern[n] == ' ');
  }
  return m == i->n_mods;
}

/* --- operands */

static _Noreturn void mismatch(Parser *p, const Inst *i) {
  ptx_error(p, i->line, "Arguments mismatch for instruction '%s'", i->name);
}

/* Where something is used that not every version and target has. */
static void need(Parser *p, const Inst *i, bool used, const char *what, int version, int target) {
  if (used && p->module->version < version)
    ptx_error(p, i->line, "Feature '%s' requires PTX ISA .version %d.%d or later", what,
              version / 10, version % 10);
  if (used && p->module->target < target)
    ptx_error(p, i->line, "Feature '%s' requires .target sm_%d or higher", what, target);
}

/* Whether a register of a type may stand where an instruction has another one. */
static bool type_fits(Type want, Type reg) {
  if (reg == T_PRED || type_size(want) != type_size(reg)) return false;
  if (type_is_bits(want) || type_is_bits(reg)) return true;
  if (type_is_float(want)) return want == reg;
  return !type_is_float(reg);
}

/* The same for loads, stores and conversions, where the register may be wider. */
static bool type_fits_wide(Type want, Type reg) {
  if (type_size(reg) == type_size(want)) return type_fits(want, reg);
  if (type_size(reg) < type_size(want) || reg == T_PRED) return false;
  return type_is_bits(reg) || (!type_is_float(reg) && !type_is_float(want));
}

static Type wide_of(Type t) {
  return t == T_U16 ? T_U32 : t == T_S16 ? T_S32 : t == T_U32 ? T_U64 : T_S64;
}

static uint64_t literal(Parser *p, const Inst *i, Type want, const Operand *o) {
  bool real = type_is_float(o->type);
  if (type_is_float(want) ? !real : real && !type_is_bits(want)) mismatch(p, i);
  if (want == T_F16 || want == T_BF16 || want == T_F16X2 || want == T_BF16X2) mismatch(p, i);
  uint64_t bits = o->bits;
  if (real && o->type == T_F64 && type_size(want) == 4) {
    double d;
    memcpy(&d, &bits, 8);
    float f = (float)d;
    bits = 0;
    memcpy(&bits, &f, 4);
  } else if (real && o->type == T_F32 && type_size(want) == 8) {
    float f;
    memcpy(&f, &bits, 4);
    double d = f;
    memcpy(&bits, &d, 8);
  } else if (real && type_size(want) < 4) mismatch(p, i);
  int size = type_size(want);
  return size < 8 ? bits & (((uint64_t)1 << (8 * size)) - 1) : bits;
}

static int source_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide) {
  Kernel *k = p->kernel;
  int size = type_size(want);
  switch (o->kind) {
  case O_REG:
    if (wide ? !type_fits_wide(want, o->type) : !type_fits(want, o->type)) mismatch(p, i);
    if (o->negated) mismatch(p, i);
    touch_read(p, o->slot, o->type);
    return o->slot;
  case O_NUMBER: return constant_slot(p, literal(p, i, want, o), size == 8);
  case O_SPECIAL:
    if (strcmp(i->name, "mov") != 0 && strcmp(i->name, "cvt") != 0)
      ptx_error(p, i->line, "Special register argument not allowed for instruction '%s'", i->name);
    if (!type_fits(want, o->type) && !(size == 2 && type_size(o->type) == 4)) mismatch(p, i);
    return special_slot(p, o->special, type_size(o->type) == 8);
  case O_NAME: {
    if (!o->symbol->variable) mismatch(p, i);
    if (size < 4 || type_is_float(want)) mismatch(p, i);
    Variable *v = o->symbol->variable;
    uint64_t at = variable_address(p, v, false) + (uint64_t)o->offset;
    if (size == 4 && v->space != S_SHARED && v->space != S_LOCAL && v->space != S_PARAM)
      mismatch(p, i);
    if (!(v->space == S_SHARED && v->external)) return constant_slot(p, at, size == 8);
    int slot =
        constant_slot(p, at | (uint64_t)k->n_constants << 40, size == 8); /* one of its own */
    Constant *c = k->constants + k->n_constants - 1;
    c->bits = at;
    c->patched = true;
    patch_add(p, -1, k->n_constants - 1);
    return slot;
  }
  default: mismatch(p, i);
  }
}

static int dest_slot(Parser *p, const Inst *i, const Operand *o, Type want, bool wide) {
  if (o->kind != O_REG || o->negated) mismatch(p, i);
  if (wide ? !type_fits_wide(want, o->type) : !type_fits(want, o->type)) mismatch(p, i);
  touch_write(p, o->slot, o->type);
  return o->slot;
}

static void push(Code *c, int slot) { c->o[c->n++] = (uint16_t)slot; }

static void push_pred_source(Parser *p, const Inst *i, Code *c, const Operand *o) {
  Kernel *k = p->kernel;
  if (o->kind == O_NUMBER) { /* mov.pred p, -1 */
    if (!k->pred_true) k->pred_true = 1 + k->n_preds++;
    if (!o->bits) c->neg |= (uint8_t)(1 << c->n);
    push(c, k->pred_true - 1);
    return;
  }
  if (o->kind != O_REG || o->type != T_PRED) mismatch(p, i);
  if (o->negated) c->neg |= (uint8_t)(1 << c->n);
  touch_read(p, o->slot, T_PRED);
  push(c, o->slot);
}

static void push_pred_dest(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind == O_SINK) {
    push(c, NO_SLOT);
    return;
  }
  if (o->kind != O_REG || o->type != T_PRED || o->negated) mismatch(p, i);
  touch_write(p, o->slot, T_PRED);
  push(c, o->slot);
}

/* d|p or d alone; d of a type, or a predicate when the type is T_PRED. */
static void push_pair(Parser *p, const Inst *i, Code *c, const Operand *o, Type type) {
  const Operand *first = o->kind == O_PAIR ? o->list : o;
  if (type == T_PRED) push_pred_dest(p, i, c, first);
  else push(c, first->kind == O_SINK ? NO_SLOT : dest_slot(p, i, first, type, false));
  if (o->kind == O_PAIR) push_pred_dest(p, i, c, o->list + 1);
  else push(c, NO_SLOT);
}

static void push_address(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_ADDRESS) mismatch(p, i);
  c->offset = o->offset;
  c->from = 8;
  if (o->has_base) {
    if (type_is_float(o->type) || type_size(o->type) < 4) mismatch(p, i);
    c->from = (uint8_t)type_size(o->type);
    touch_read(p, o->slot, o->type);
    push(c, o->slot);
    return;
  }
  push(c, NO_SLOT);
  if (!o->symbol) return;
  Variable *v = o->symbol->variable;
  if (!v) ptx_error(p, i->line, "Unknown symbol '%s'", o->symbol->name);
  c->offset += (int64_t)variable_address(p, v, false);
  if (v->space == S_SHARED && v->external) patch_add(p, p->kernel->n_code - 1, -1);
}

static void push_registers(Parser *p, const Inst *i, Code *c, const Operand *o, Type type,
                           bool written) {
  const Operand *list = o->kind == O_VECTOR ? o->list : o;
  int n = o->kind == O_VECTOR ? o->n : 1;
  uint16_t *more = arena_alloc(p->arena, (size_t)n * sizeof *more);
  int width = 0;
  for (int k = 0; k < n; k++) {
    const Operand *e = list + k;
    int size = e->kind == O_REG || e->kind == O_SPECIAL ? type_size(e->type)
               : type_size(type) < 4                    ? 4
                                                        : type_size(type);
    if (e->kind == O_SINK && written) {
      more[k] = NO_SLOT;
      continue;
    }
    more[k] =
        (uint16_t)(written ? dest_slot(p, i, e, type, true) : source_slot(p, i, e, type, true));
    if (width && size != width && type_size(type) == 8) mismatch(p, i);
    width = size > width ? size : width;
  }
  for (int k = 0; k < n; k++) /* registers of different widths in one vector */
    if (list[k].kind == O_REG && type_size(list[k].type) != width &&
        (width == 8 || type_size(list[k].type) == 8))
      mismatch(p, i);
  c->more = more;
  c->n_more = (uint16_t)n;
  c->width = (uint8_t)(width ? width : 4);
}

static void push_number(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_NUMBER || type_is_float(o->type)) mismatch(p, i);
  c->target = (int32_t)o->bits;
}

static void push_label(Parser *p, const Inst *i, Code *c, const Operand *o) {
  if (o->kind != O_NAME || o->symbol->space != S_LABEL) mismatch(p, i);
  c->target = o->symbol->label;
}

static void push_operand(Parser *p, const Inst *i, Code *c, char letter, const Operand *o) {
  Type t = i->types[0], u = i->types[1];
  switch (letter) {
  case 'D':
    push(c, o->kind == O_SINK && strcmp(i->name, "atom") == 0 ? NO_SLOT
                                                              : dest_slot(p, i, o, t, false));
    break;
  case 'E': push(c, dest_slot(p, i, o, u, false)); break;
  case 'W': push(c, dest_slot(p, i, o, wide_of(t), false)); break;
  case 'U': push(c, dest_slot(p, i, o, T_B32, false)); break;
  case 'R':
    if (t == T_TF32 && type_is_float(o->type)) mismatch(p, i);
    push(c, dest_slot(p, i, o, t == T_TF32 ? T_B32 : t, true));
    c->width = (uint8_t)type_size(o->type);
    break;
  case 'a': push(c, source_slot(p, i, o, t, false)); break;
  case 'b': push(c, source_slot(p, i, o, u, false)); break;
  case 'w': push(c, source_slot(p, i, o, wide_of(t), false)); break;
  case 'u': push(c, source_slot(p, i, o, T_B32, false)); break;
  case 'r':
    push(c, source_slot(p, i, o, u, true));
    c->n_more =
        (uint16_t)(o->kind == O_REG || o->kind == O_SPECIAL ? type_size(o->type) : type_size(u));
    break;
  case 'm':
    c->width = c->n;
    push(c, source_slot(p, i, o, T_B32, false));
    break;
  case 'S': push_pair(p, i, c, o, t); break;
  case 'T': push_pair(p, i, c, o, T_B32); break;
  case 'Q': push_pair(p, i, c, o, T_PRED); break;
  case 'P': push_pred_dest(p, i, c, o); break;
  case 'p': push_pred_source(p, i, c, o); break;
  case 'V': push_registers(p, i, c, o, t, true); break;
  case 'v': push_registers(p, i, c, o, t, false); break;
  case 'M': push_address(p, i, c, o); break;
  case 'i': push_number(p, i, c, o); break;
  default: push_label(p, i, c, o); break;
  }
}

static bool operands_count(const char *letters, int n) {
  if (strchr(letters, '*')) return true;
  const char *optional = strchr(letters, '?');
  int least = optional ? (int)(optional - letters) : (int)strlen(letters),
      most = (int)strlen(letters) - (optional != NULL);
  return n >= least && n <= most;
}

static void push_operands(Parser *p, const Form *f, const Inst *i, Code *c) {
  int at = 0;
  for (const char *letter = f->operands; *letter && *letter != '*'; letter++)
    if (*letter != '?' && at < i->n_ops) push_operand(p, i, c, *letter, i->ops + at++);
}

/* --- what forms become */

static int rounding(const Inst *i) {
  static const char *const words[] = {".rn", ".rz", ".rm", ".rp", ".rna"};
  int r = inst_which(i, words, 5);
  return r < 0 ? ROUND_RN : r;
}

static void pick_table(Parser *p, const Form *f, const Inst *i, Code *c) {
  Run *const *table = f->table;
  c->run = table[i->types[0]];
  if (!c->run) mismatch(p, i);
}

static void pick_run(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)i;
  c->run = (Run *)f->table;
}

static void set_float(const Form *f, const Inst *i, Code *c) {
  c->op = (uint8_t)f->op;
  c->round = (uint8_t)rounding(i);
  c->ftz = inst_has(i, ".ftz");
  c->sat = inst_has(i, ".sat") ? SAT_ONE : inst_has(i, ".relu") ? SAT_RELU : 0;
  c->from = inst_has(i, ".NaN") ? NAN_PASSES : 0;
}

static void pick_real(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".rn", ".rz", ".rm", ".rp"};
  set_float(f, i, c);
  bool usual = c->round == ROUND_RN && !c->ftz && !c->sat && !c->from;
  c->run = usual ? run_real[f->op][i->types[0] == T_F64] : run_real_slow;
  if (f->op <= R_MUL && inst_which(i, words, 4) < 0) p->kernel->unmarked++;
}

static void pick_half(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".rn"};
  set_float(f, i, c);
  c->run = run_half;
  if (f->op <= R_MUL && inst_which(i, words, 1) < 0) p->kernel->unmarked++;
}

static void pick_approx(Parser *p, const Form *f, const Inst *i, Code *c) {
  if (!settings.approximate)
    ptx_error(p, i->line,
              "'%s' is approximate: its bits are not defined (SOFT_GPU_APPROXIMATE=1 allows it)",
              i->name);
  set_float(f, i, c);
  c->run = run_real_slow;
}

static void pick_carry(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p;
  c->op = (uint8_t)(f->op | (inst_has(i, ".cc") ? CARRY_OUT : 0));
  c->run = run_carry;
}

static int comparison(const Inst *i, bool real) {
  static const char *const words[] = {".eq",  ".ne",  ".lt",  ".le",  ".gt",  ".ge",
                                      ".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu",
                                      ".num", ".nan", ".lo",  ".ls",  ".hi",  ".hs"};
  int op = inst_which(i, words, 18);
  if (op >= 14) op -= 12;
  (void)real;
  return op;
}

static int boolean(const Inst *i) {
  static const char *const words[] = {".and", ".or", ".xor"};
  return 1 + inst_which(i, words, 3);
}

static void pick_setp(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)comparison(i, false);
  c->from = (uint8_t)boolean(i);
  c->ftz = inst_has(i, ".ftz");
  c->run = run_setp;
}

static void pick_set(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)comparison(i, false);
  c->from = (uint8_t)boolean(i);
  c->ftz = inst_has(i, ".ftz");
  c->type = (uint8_t)i->types[1];
  c->target = i->types[0] == T_F32 ? 0x3f800000 : -1;
  c->run = run_set;
}

static void pick_logic(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)i;
  c->op = (uint8_t)f->op;
  c->run = run_pred_logic;
}

static void pick_shf(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = (uint8_t)(inst_has(i, ".r") | inst_has(i, ".wrap") << 1);
  c->run = run_shf;
}

static void pick_word(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};
  (void)p;
  c->op = (uint8_t)(1 + inst_which(i, words, 6));
  c->run = (Run *)f->table;
}

static void pick_bfind(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_table(p, f, i, c);
  c->op = inst_has(i, ".shiftamt");
}

static void pick_dp4a(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->op = (uint8_t)((i->types[0] == T_S32) | (i->types[1] == T_S32) << 1);
}

static void pick_slct(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->from = (uint8_t)i->types[1];
  c->ftz = inst_has(i, ".ftz");
}

static void pick_testp(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".finite",     ".infinite", ".number",
                                      ".notanumber", ".normal",   ".subnormal"};
  pick_run(p, f, i, c);
  c->op = (uint8_t)inst_which(i, words, 6);
}

/* mov d, a; mov d, {a, b}; mov {a, b}, d */
static void pick_mov(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 2) mismatch(p, i);
  const Operand *d = i->ops, *a = i->ops + 1;
  Type t = i->types[0];
  const Operand *v = d->kind == O_VECTOR ? d : a->kind == O_VECTOR ? a : NULL;
  if (!v) {
    push(c, dest_slot(p, i, d, t, false));
    push(c, source_slot(p, i, a, t, false));
    c->run = run_mov[type_size(t) == 8 ? T_B64 : type_size(t) == 4 ? T_B32 : T_B16];
    return;
  }
  if (!type_is_bits(t) || type_size(t) % v->n) mismatch(p, i);
  int width = type_size(t) / v->n;
  Type part = width == 1 ? T_B8 : width == 2 ? T_B16 : T_B32;
  if (v->n != 2 && v->n != 4) mismatch(p, i);
  push(c, v == d ? source_slot(p, i, a, t, false) : dest_slot(p, i, d, t, false));
  push_registers(p, i, c, v, part, v == d);
  c->width = (uint8_t)width;
  c->run = v == d ? run_unpack : run_pack;
}

static void cvt_check(Parser *p, const Inst *i, bool marked, bool integral) {
  Type to = i->types[0], from = i->types[1];
  bool to_real = type_is_float(to), from_real = type_is_float(from);
  bool narrows = to_real && from_real && type_size(to) < type_size(from);
  bool same = to_real && from_real && type_size(to) == type_size(from);
  bool needed = (to_real && !from_real) || (!to_real && from_real) || narrows ||
                (to == T_F16 && from == T_BF16);
  if (needed && !marked && !integral)
    ptx_error(p, i->line, "Rounding modifier required for instruction 'cvt'");
  if (!to_real && from_real ? !integral : integral && !same)
    ptx_error(p, i->line, "Illegal rounding modifier for instruction 'cvt'");
  if (marked && !needed && !same)
    ptx_error(p, i->line, "Illegal rounding modifier for instruction 'cvt'");
}

static void cvt_brain(Parser *p, const Inst *i) {
  Type to = i->types[0], from = i->types[1];
  bool brain = to == T_BF16 || from == T_BF16, early = to == T_BF16 && from == T_F32;
  need(p, i, brain, "cvt with .bf16", early ? 70 : 78, early ? 80 : 90);
}

static void pick_cvt(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const integral[] = {".rni", ".rzi", ".rmi", ".rpi"}, *const marks[] = {
                                                                              ".rn", ".rz", ".rm",
                                                                              ".rp", ".rna"};
  Type to = i->types[0], from = i->types[1];
  set_float(f, i, c);
  int whole = inst_which(i, integral, 4);
  if (to != T_TF32) {
    cvt_check(p, i, inst_which(i, marks, 5) >= 0, whole >= 0);
    cvt_brain(p, i);
  }
  c->op = 0;
  c->from = (uint8_t)from;
  if (whole >= 0 && type_is_float(to)) c->op = (uint8_t)(1 + whole), c->round = ROUND_RN;
  else if (whole >= 0) c->round = (uint8_t)whole;
  bool plain = !c->op && to != from && !c->sat && !c->ftz &&
               c->width == (type_size(to) < 4 && !type_is_float(to) ? 2 : type_size(to)) &&
               c->n_more == (type_size(from) < 2 ? 4 : type_size(from));
  if (type_size(from) == 1) plain = plain || (!c->sat && c->width == 4 && c->n_more <= 4);
  c->run = plain && type_size(to) > 1 ? convert_fast(to, from, c->round, c->sat, c->ftz) : NULL;
  if (!c->run) c->run = run_cvt;
}

static void pick_cvt_pack(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p;
  set_float(f, i, c);
  c->from = T_F32;
  c->run = run_cvt_pack;
}

static Space inst_space(const Inst *i) {
  static const struct {
    const char *word;
    Space space;
  } words[] = {{".const", S_CONST},       {".global", S_GLOBAL},      {".local", S_LOCAL},
               {".param", S_PARAM},       {".param::entry", S_PARAM}, {".shared", S_SHARED},
               {".shared::cta", S_SHARED}};
  for (size_t k = 0; k < COUNT(words); k++)
    if (inst_has(i, words[k].word)) return words[k].space;
  return S_GENERIC;
}

/* What loads and stores have in common. */
static void set_access(Parser *p, const Inst *i, Code *c, int address) {
  const Operand *o = i->ops + address;
  int vector = inst_has(i, ".v2") ? 2 : inst_has(i, ".v4") ? 4 : 1, size = type_size(i->types[0]);
  if (c->n_more != vector) mismatch(p, i);
  if (vector * size > 16)
    ptx_error(p, i->line, "Vector operand of '%s' is wider than 16 bytes", i->name);
  Space space = inst_space(i);
  const Variable *v = !o->has_base && o->symbol ? o->symbol->variable : NULL;
  if (v && space == S_GENERIC && v->space == S_CONST) space = S_CONST;
  if (v && space == S_PARAM && v->space == S_LOCAL) space = S_LOCAL; /* of a call */
  if (v && space == S_GENERIC)
    c->offset += v->space == S_SHARED  ? (int64_t)SHARED_WINDOW
                 : v->space == S_LOCAL ? (int64_t)LOCAL_WINDOW
                                       : 0;
  if (v && space != S_GENERIC && v->space != space)
    ptx_error(p, i->line, "State space mismatch between instruction and address in '%s'", i->name);
  if (o->has_base && c->from != 8 && (space == S_GLOBAL || space == S_GENERIC || space == S_CONST))
    mismatch(p, i);
  c->space = (uint8_t)(space == S_CONST ? S_GLOBAL : space);
  c->strong = inst_has(i, ".volatile") || inst_has(i, ".relaxed") || inst_has(i, ".acquire") ||
              inst_has(i, ".release");
  if (space == S_CONST && !v) c->space = S_GLOBAL;
  int granule = size == 1 ? 0 : size == 2 ? 1 : 2;
  if ((space == S_SHARED || space == S_GENERIC) && granule < p->kernel->granule)
    p->kernel->granule = granule;
}

static void pick_ld(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  set_access(p, i, c, 1);
  c->sat = type_is_signed(i->types[0]) && c->width > type_size(i->types[0]);
  c->plain = (c->width == 4 || c->width == 8) && c->width == type_size(i->types[0]);
  for (int k = 0; k < c->n_more; k++) c->plain &= c->more[k] != NO_SLOT;
  c->run = c->space == S_PARAM && c->o[0] == NO_SLOT ? run_ld_param : run_ld;
}

static void pick_st(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  set_access(p, i, c, 0);
  if (c->space == S_PARAM) ptx_error(p, i->line, "a kernel's parameters cannot be stored to");
  c->plain = (c->width == 4 || c->width == 8) && c->width == type_size(i->types[0]);
  c->run = run_st;
}

static void pick_cvta(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f;
  c->op = inst_has(i, ".to");
  c->space = (uint8_t)inst_space(i);
  c->run = run_cvta;
}

static void pick_isspacep(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops != 2) mismatch(p, i);
  push(c, source_slot(p, i, i->ops + 1, T_B64, false));
  c->space = (uint8_t)inst_space(i);
  c->run = run_isspacep;
}

static const char *const atom_words[] = {".add", ".min",  ".max", ".and", ".or",
                                         ".xor", ".exch", ".cas", ".inc", ".dec"};

static void pick_atom(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  c->op = (uint8_t)inst_which(i, atom_words, 10);
  Space space = inst_space(i);
  if (i->ops[1].has_base && c->from != 8 && space != S_SHARED) mismatch(p, i);
  c->space = (uint8_t)space;
  if (i->types[0] == T_F16) p->kernel->granule = p->kernel->granule < 1 ? p->kernel->granule : 1;
  c->strong = true;
  c->run = run_atom;
}

static void pick_red(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  memmove(c->o + 1, c->o, c->n * sizeof *c->o);
  c->o[0] = NO_SLOT;
  c->n++;
  c->op = (uint8_t)inst_which(i, atom_words, 10);
  Space space = inst_space(i);
  if (i->ops[0].has_base && c->from != 8 && space != S_SHARED) mismatch(p, i);
  c->space = (uint8_t)space;
  c->strong = true;
  c->run = run_atom;
}

/* Code.sat: 0 sync, 1 arrive, 2 red. */
static void pick_bar(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".popc", ".and", ".or"};
  const Operand *id = i->ops + (f->op == 2);
  if (id->kind == O_NUMBER && id->bits > 15)
    ptx_error(p, i->line, "Barrier number '%d' out of range, expected to be in range [0..15]",
              (int)id->bits);
  need(p, i, inst_has(i, ".cta"), "barrier.cta", 78, 0);
  c->flow = F_BAR;
  c->sat = (uint8_t)f->op;
  if (f->op < 2) {
    if (c->n < 2) push(c, NO_SLOT);
    return;
  }
  if (i->n_ops < 3 || i->n_ops > 4) mismatch(p, i);
  c->op = (uint8_t)inst_which(i, words, 3);
  if (c->op == 0) push(c, dest_slot(p, i, i->ops, T_U32, false));
  else push_pred_dest(p, i, c, i->ops);
  push(c, source_slot(p, i, i->ops + 1, T_B32, false));
  push(c, i->n_ops == 4 ? source_slot(p, i, i->ops + 2, T_B32, false) : NO_SLOT);
  push_pred_source(p, i, c, i->ops + i->n_ops - 1);
}

static void pick_flow(Parser *p, const Form *f, const Inst *i, Code *c) {
  c->flow = (uint8_t)f->op;
  if (p->leave_label >= 0 && strcmp(i->name, "ret") == 0) {
    c->flow = F_BRA;
    c->target = p->leave_label;
  }
  if (f->op == F_BRX) {
    if (c->target >= 0) mismatch(p, i);
    c->target = -1 - c->target;
  } else if (f->op == F_BRA && c->target < 0) mismatch(p, i);
}

static void pick_sync(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const votes[] = {".all", ".any", ".uni", ".ballot"}, *const sums[] = {
                                                                              ".add", ".min",
                                                                              ".max", ".and",
                                                                              ".or",  ".xor"};
  (void)p;
  c->flow = F_SYNC;
  c->run = (Run *)f->table;
  int op = c->run == run_redux ? inst_which(i, sums, 6) : inst_which(i, votes, 4);
  c->op = (uint8_t)(op < 0 ? 0 : op);
}

static void pick_shfl(Parser *p, const Form *f, const Inst *i, Code *c) {
  static const char *const words[] = {".up", ".down", ".bfly", ".idx"};
  pick_sync(p, f, i, c);
  c->op = (uint8_t)inst_which(i, words, 4);
}

static void pick_match(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_sync(p, f, i, c);
  c->op = inst_has(i, ".all");
}

static void pick_elect(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_sync(p, f, i, c);
  c->op = 0;
}

/* [to], [from], size {, bytes read or a predicate that says none} */
static void pick_cp_async(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)f;
  if (i->n_ops < 3 || i->n_ops > 4) mismatch(p, i);
  push_address(p, i, c, i->ops + 1);
  int64_t from = c->offset;
  if (from != (int32_t)from || (i->ops[1].has_base && c->from != 8)) mismatch(p, i);
  int source = c->o[0];
  if (source == NO_SLOT) source = constant_slot(p, (uint64_t)from, true), from = 0;
  c->n = 0;
  push_address(p, i, c, i->ops);
  int from_size = i->ops[0].has_base ? c->from : 0;
  push(c, source);
  Code copy = *c;
  push_number(p, i, &copy, i->ops + 2);
  int size = copy.target;
  if (size != 16 && (inst_has(i, ".cg") || (size != 4 && size != 8)))
    ptx_error(p, i->line, "cp.async copies 4, 8 or 16 bytes, with .cg 16");
  c->target = (int32_t)from;
  c->width = (uint8_t)size;
  c->from = (uint8_t)from_size;
  c->space = S_SHARED;
  c->run = run_cp_async;
  if (i->n_ops < 4) return;
  c->op = i->ops[3].kind == O_REG && i->ops[3].type == T_PRED ? 2 : 1;
  need(p, i, c->op == 2, "ignore-src on cp.async", 75, 80);
  if (c->op == 2) push_pred_source(p, i, c, i->ops + 3);
  else push(c, source_slot(p, i, i->ops + 3, T_B32, false));
}

static void pick_cp_wait(Parser *p, const Form *f, const Inst *i, Code *c) {
  pick_run(p, f, i, c);
  c->target = -1;
}

static void pick_nothing(Parser *p, const Form *f, const Inst *i, Code *c) {
  (void)p, (void)f, (void)i;
  c->run = run_nothing;
}

/* --- an instruction */

static void version_check(Parser *p, const Form *f, const Inst *i) {
  bool hint = false;
  for (int m = 0; m < i->n_mods; m++)
    hint |= strncmp(i->mods[m], ".L1::", 5) == 0 || strncmp(i->mods[m], ".L2::", 5) == 0;
  need(p, i, true, i->name, f->version, f->target);
  need(p, i, hint, "cache hints", 74, 70);
}

void form_apply(Parser *p, Inst *i) {
  const Form *found = NULL;
  bool known = false;
  for (size_t k = 0; k < COUNT(forms) && !found; k++) {
    if (strcmp(forms[k].name, i->name) != 0) continue;
    known = true;
    if (mods_match(forms[k].mods, i) && operands_count(forms[k].operands, i->n_ops))
      found = forms + k;
  }
  if (!found)
    ptx_error(p, i->line,
              known ? "Illegal modifier, type or number of operands for instruction '%s'"
                    : "Not a name of any known instruction: '%s'",
              i->name);
  version_check(p, found, i);
  Code *c = code_add(p, i->line);
  c->type = (uint8_t)i->types[0];
  if (i->guard) {
    c->guard = (uint16_t)(1 + i->guard_number);
    c->guard_not = i->guard_not;
  }
  push_operands(p, found, i, c);
  found->pick(p, found, i, c);
  touch_close(p, c);
}
