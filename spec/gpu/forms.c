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
#include "forms.h"

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
    {"mma", ".sync .aligned .m16n8k8|.m16n8k16 .row .col .f32 .f16 .f16 .f32", "*", 65, 75,
     pick_mma, NULL, 0},
    {"mma", ".sync .aligned .m16n8k8|.m16n8k16 .row .col .f16 .f16 .f16 .f16", "*", 65, 75,
     pick_mma, NULL, 0},
    {"mma", ".sync .aligned .m16n8k8|.m16n8k16 .row .col .f32 .bf16 .bf16 .f32", "*", 70, 80,
     pick_mma, NULL, 0},
    {"mma", ".sync .aligned .m16n8k4|.m16n8k8 .row .col .f32 .tf32 .tf32 .f32", "*", 70, 80,
     pick_mma, NULL, 0},
    {"ldmatrix", ".sync .aligned .m8n8 .x1|.x2|.x4 .trans? .shared|.shared::cta .b16", "*", 65, 75,
     pick_ldmatrix, NULL, 0},
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
int inst_which(const Inst *i, const char *const *list, int n) {
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

/* Where something is used that not every version and target has. */
void need(Parser *p, const Inst *i, bool used, const char *what, int version, int target) {
  if (used && p->module->version < version)
    ptx_error(p, i->line, "Feature '%s' requires PTX ISA .version %d.%d or later", what,
              version / 10, version % 10);
  if (used && p->module->target < target)
    ptx_error(p, i->line, "Feature '%s' requires .target sm_%d or higher", what, target);
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
