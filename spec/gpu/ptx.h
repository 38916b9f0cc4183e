/*
** ptx.h -- PTX text as the parser leaves it to the builder: names resolved, instructions as words and operands.
*/
#ifndef SOFT_GPU_PTX_H
#define SOFT_GPU_PTX_H

#include <setjmp.h>

#include "gpu.h"

enum { MAX_MODS = 16, MAX_TYPES = 6, MAX_TEXT_OPERANDS = 8, MAX_SYMBOLS = 4096 };

typedef enum OperandKind {
  O_NONE,
  O_REG,     /* a register; of type T_PRED too */
  O_NUMBER,  /* a literal: T_S64, T_U64, T_F32 or T_F64 */
  O_NAME,    /* a variable, function or label */
  O_ADDRESS, /* in brackets */
  O_VECTOR,  /* in braces */
  O_PAIR,    /* p|q */
  O_SPECIAL, /* a special register */
  O_SINK     /* _ */
} OperandKind;

typedef struct Symbol {
  const char *name;
  Space space;
  Type type;
  int many, lanes; /* %r<many>: 0 for a single name; elements of a vector register */
  int scope;
  int *slots; /* of registers by number; -1: not used yet */
  Variable *variable;
  Kernel *function;
  int label; /* its index in Body.labels */
} Symbol;

typedef struct Operand {
  OperandKind kind;
  Type type;
  bool negated;
  int slot;      /* of a register; number of a predicate */
  uint64_t bits; /* of a number */
  int special;
  const Symbol *symbol;
  int64_t offset;       /* of an address */
  bool has_base;        /* an address: slot and type are its register's */
  struct Operand *list; /* of a vector, of a pair */
  int n;
} Operand;

typedef struct Inst {
  const char *name, *text;
  const char *mods[MAX_MODS];
  int n_mods;
  Type types[MAX_TYPES];
  int n_types;
  Operand ops[MAX_TEXT_OPERANDS];
  int n_ops;
  const Symbol *guard;
  int guard_number, line;
  bool guard_not;
} Inst;

typedef struct Label {
  const char *name;
  int at; /* instruction, -1: not seen yet */
  int line;
} Label;

typedef struct Body { /* of the function that is being read */
  Label *labels;
  int n_labels, max_labels;
  int *lists; /* .branchtargets: count, labels */
  int n_lists, max_lists;
} Body;

typedef struct Function { /* of the module's text: each call is its body in place */
  const char *name, *at;  /* at: behind .func */
  int line;
} Function;

typedef struct Touched { /* slots and predicates that the instruction at hand reads and writes */
  uint16_t reads[96], writes[96], preds_read[8], preds_written[4];
  int n_reads, n_writes, n_preds_read, n_preds_written;
} Touched;

typedef struct Patch { /* what lies behind the static shared memory: known at the end of the body */
  int code, constant;  /* one of them, else -1 */
} Patch;

typedef struct Parser {
  const char *at;
  int line, scope;
  Module *module;
  Arena *arena;
  Log *log;
  Symbol *symbols;
  int n_symbols;
  Kernel *kernel;
  Body body;
  Touched touched;
  Patch *patches;
  int n_patches, max_patches;
  int max_constants, max_specials;
  uint64_t dynamic_align;
  Function *functions;
  int n_functions, max_functions, depth; /* depth: of calls */
  int leave_label; /* where `ret` goes in the body of a function; -1: it ends the kernel */
  int status, device;
  jmp_buf leave;
} Parser;

/* A row of the table of instruction forms. */
typedef struct Form {
  const char *name, *mods, *operands;
  int version, target;
  void (*pick)(Parser *p, const struct Form *f, const Inst *i, Code *c);
  const void *table; /* what pick chooses from */
  int op;
} Form;

_Noreturn void ptx_error(Parser *p, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void ptx_fail(Parser *p, int status, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* lex.c */
void lex_skip(Parser *p);
bool lex_take(Parser *p, const char *mark);
void lex_expect(Parser *p, const char *mark);
bool lex_word(Parser *p, char *word, size_t size);   /* an identifier, with %, $, _ */
bool lex_dotted(Parser *p, char *word, size_t size); /* one that begins with a dot */
bool lex_number(Parser *p, Type *type, uint64_t *bits);
uint64_t lex_integer(Parser *p);

/* call.c */
void functions_scan(Parser *p);
void parse_call(Parser *p, const Inst *inst);
void function_skip(Parser *p);

/* parse.c */
typedef struct Declared { /* what stands before the names of a declaration */
  Type type;
  uint64_t align;
  int lanes;
} Declared;
void parse_declared(Parser *p, Declared *d);
void parse_body(Parser *p, bool kernel);
void scope_close(Parser *p);
int label_new(Parser *p, const char *name);

/* operands.c */
void parse_operand(Parser *p, Operand *o);
Symbol *symbol_find(Parser *p, const char *name, int *number, int *lane);
Symbol *symbol_add(Parser *p, const char *name, Space space, Type type);
int register_slot(Parser *p, const Symbol *s, int number, int lane);
int special_find(const char *name, Type *type);

/* forms.c */
void form_apply(Parser *p, Inst *i);

/* build.c */
Code *code_add(Parser *p, int line);
int slots_take(Parser *p, Type type);
int constant_slot(Parser *p, uint64_t bits, bool wide);
int special_slot(Parser *p, int kind, bool wide);
uint64_t variable_address(Parser *p, Variable *v, bool generic);
void patch_add(Parser *p, int code, int constant);
void touch_read(Parser *p, int slot, Type type);
void touch_write(Parser *p, int slot, Type type);
void touch_close(Parser *p, Code *c);
void build_finish(Parser *p);
bool inst_has(const Inst *i, const char *mod);

#endif
