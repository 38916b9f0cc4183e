/*
** call.c -- functions: a call is the body of the function in place of it, with names of its own. Its parameters are variables of
** the caller, by other names; `ret` goes to the end of the body. What calls itself is refused.
*/
#include <ctype.h>

#include "ptx.h"

enum { MAX_DEPTH = 32, MAX_ARGUMENTS = 32 };

/* --- where functions are: found before the module is read, so that a call may come first */

static void skip_braces(Parser *p) {
  int depth = 0;
  do {
    lex_skip(p);
    if (!*p->at) ptx_error(p, p->line, "Parsing error: '}' expected");
    depth += *p->at == '{' ? 1 : *p->at == '}' ? -1 : 0;
    p->at++;
  } while (depth);
}

/* From behind .func to the end of its body or declaration; true: it has a body. */
static bool header_skip(Parser *p, char *name, size_t size) {
  if (lex_take(p, "("))
    while (!lex_take(p, ")")) p->at++;
  if (!lex_word(p, name, size)) lex_expect(p, "name");
  while (lex_skip(p), *p->at && *p->at != '{' && *p->at != ';') p->at++;
  if (*p->at == '{') return true;
  lex_expect(p, ";");
  return false;
}

void function_skip(Parser *p) {
  char name[512];
  if (header_skip(p, name, sizeof name)) skip_braces(p);
}

static void function_note(Parser *p) {
  char name[512];
  Function f = {.at = p->at, .line = p->line};
  if (!header_skip(p, name, sizeof name)) return;
  f.name = arena_text(p->arena, name, strlen(name));
  p->functions = arena_grow(p->arena, p->functions, p->n_functions, &p->max_functions, sizeof f);
  p->functions[p->n_functions++] = f;
  skip_braces(p);
}

void functions_scan(Parser *p) {
  const char *at = p->at;
  int line = p->line;
  while (lex_skip(p), *p->at) {
    if (*p->at == '{') skip_braces(p);
    else if (strncmp(p->at, ".func", 5) == 0 && !isalnum((unsigned char)p->at[5])) {
      p->at += 5;
      function_note(p);
    } else p->at++;
  }
  p->at = at;
  p->line = line;
}

/* --- a call */

typedef struct Arguments {
  Variable *list[MAX_ARGUMENTS];
  int n;
} Arguments;

static void parse_arguments(Parser *p, Arguments *a) {
  if (lex_take(p, ")")) return;
  do {
    Operand o;
    parse_operand(p, &o);
    if (o.kind != O_NAME || !o.symbol->variable || o.symbol->space != S_LOCAL ||
        a->n == MAX_ARGUMENTS)
      ptx_error(p, p->line, "an argument of a call is no variable of .param");
    a->list[a->n++] = o.symbol->variable;
  } while (lex_take(p, ","));
  lex_expect(p, ")");
}

/* The names that a function has for the variables of its caller. */
static void bind(Parser *p, const Arguments *a) {
  char word[512];
  int n = 0;
  if (!lex_take(p, "(") || lex_take(p, ")")) return;
  do {
    Declared d;
    lex_skip(p);
    if (!lex_dotted(p, word, sizeof word) || strcmp(word, ".param") != 0)
      ptx_error(p, p->line, "parameters of functions lie in .param");
    parse_declared(p, &d);
    if (!lex_word(p, word, sizeof word)) lex_expect(p, "name");
    while (lex_take(p, "[")) {
      if (!lex_take(p, "]")) lex_integer(p), lex_expect(p, "]");
    }
    if (n == a->n) ptx_error(p, p->line, "Call has too few arguments");
    symbol_add(p, word, S_LOCAL, d.type)->variable = a->list[n++];
  } while (lex_take(p, ","));
  lex_expect(p, ")");
  if (n != a->n) ptx_error(p, p->line, "Call has too many arguments");
}

static const Function *function_find(const Parser *p, const char *name) {
  for (int i = 0; i < p->n_functions; i++)
    if (strcmp(p->functions[i].name, name) == 0) return p->functions + i;
  return NULL;
}

static void call_body(Parser *p, const Function *f, const Arguments *results,
                      const Arguments *arguments) {
  const char *at = p->at;
  char word[512];
  int line = p->line, leave = p->leave_label;
  p->at = f->at;
  p->line = f->line;
  p->scope++;
  lex_skip(p);
  if (*p->at == '(') bind(p, results);
  lex_word(p, word, sizeof word);
  bind(p, arguments);
  while (lex_skip(p), *p->at != '{') p->at++;
  lex_expect(p, "{");
  p->leave_label = label_new(p, f->name);
  parse_body(p, false);
  p->body.labels[p->leave_label].at = p->kernel->n_code;
  scope_close(p);
  p->leave_label = leave;
  p->at = at;
  p->line = line;
}

void parse_call(Parser *p, const Inst *inst) {
  Arguments results = {.n = 0}, arguments = {.n = 0};
  char name[512];
  if (inst->guard)
    ptx_error(p, p->line, "a call with a predicate is not implemented by the software GPU");
  if (lex_take(p, "(")) {
    parse_arguments(p, &results);
    lex_expect(p, ",");
  }
  if (!lex_word(p, name, sizeof name)) lex_expect(p, "name");
  if (lex_take(p, ",")) {
    lex_expect(p, "(");
    parse_arguments(p, &arguments);
  }
  lex_expect(p, ";");
  const Function *f = function_find(p, name);
  if (!f) ptx_error(p, p->line, "Unresolved function '%s'", name);
  if (++p->depth > MAX_DEPTH) ptx_error(p, p->line, "'%s' is called by itself, or too deep", name);
  call_body(p, f, &results, &arguments);
  p->depth--;
}
