/*
** parse.c -- PTX modules: directives, declarations of variables, kernels and functions, the statements of bodies.
** The first error ends the reading, with its line, as an exception would.
*/
#include "ptx.h"

/* --- types */

const char *const type_names[T_COUNT] = {
    "",    ".pred", ".b8",  ".b16", ".b32", ".b64",   ".b128", ".u8",     ".u16",  ".u32", ".u64",
    ".s8", ".s16",  ".s32", ".s64", ".f16", ".f16x2", ".bf16", ".bf16x2", ".tf32", ".f32", ".f64"};

static const uint8_t sizes[T_COUNT] = {0, 0, 1, 2, 4, 8, 16, 1, 2, 4, 8,
                                       1, 2, 4, 8, 2, 4, 2,  4, 4, 4, 8};

int type_size(Type t) { return sizes[t]; }

Type type_find(const char *name, size_t length) {
  for (int t = 1; t < T_COUNT; t++)
    if (strlen(type_names[t]) == length && memcmp(type_names[t], name, length) == 0) return (Type)t;
  return T_NONE;
}

bool type_is_float(Type t) { return t >= T_F16; }
bool type_is_signed(Type t) { return t >= T_S8 && t <= T_S64; }
bool type_is_bits(Type t) { return t >= T_B8 && t <= T_B128; }

/* --- variables */

static Space space_of(const char *word) {
  static const struct {
    const char *name;
    Space space;
  } list[] = {{".reg", S_REG},     {".param", S_PARAM},   {".shared", S_SHARED},
              {".const", S_CONST}, {".global", S_GLOBAL}, {".local", S_LOCAL}};
  for (size_t i = 0; i < COUNT(list); i++)
    if (strcmp(list[i].name, word) == 0) return list[i].space;
  return S_NONE;
}

void parse_declared(Parser *p, Declared *d) {
  char word[64];
  *d = (Declared){T_NONE, 0, 1};
  while (lex_skip(p), lex_dotted(p, word, sizeof word)) {
    Type t = type_find(word, strlen(word));
    if (strcmp(word, ".align") == 0) d->align = lex_integer(p);
    else if (strcmp(word, ".v2") == 0) d->lanes = 2;
    else if (strcmp(word, ".v4") == 0) d->lanes = 4;
    else if (strcmp(word, ".ptr") == 0) {   /* .ptr .space .align N: a hint */
    } else if (space_of(word) && d->type) { /* .u64 .ptr .global */
    } else if (t && !d->type) d->type = t;
    else ptx_error(p, p->line, "Parsing error near '%s': syntax error", word);
  }
  if (!d->type) ptx_error(p, p->line, "a type expected");
  if (d->align & (d->align - 1)) ptx_error(p, p->line, "Alignment must be a power of two");
}

static void parse_registers(Parser *p) {
  Declared d;
  parse_declared(p, &d);
  do {
    char word[512];
    if (!lex_word(p, word, sizeof word)) lex_expect(p, "name");
    int many = 0;
    if (lex_take(p, "<")) {
      many = (int)lex_integer(p);
      lex_expect(p, ">");
      if (many < 1 || many > 1 << 20) ptx_error(p, p->line, "a count of registers that cannot be");
    }
    Symbol *s = symbol_add(p, word, S_REG, d.type);
    s->many = many;
    s->lanes = d.lanes;
    int n = (many ? many : 1) * d.lanes;
    s->slots = arena_alloc(p->arena, (size_t)n * sizeof *s->slots);
    for (int i = 0; i < n; i++) s->slots[i] = -1;
  } while (lex_take(p, ","));
}

/* A number, or the address of a variable with an offset, as the element of an initialiser. */
static void parse_element(Parser *p, Variable *v, uint64_t at) {
  Type type;
  uint64_t bits = 0;
  int size = type_size(v->type);
  if (at + (uint64_t)size > v->size)
    ptx_error(p, p->line, "too many initialisers for '%s'", v->name);
  if (lex_number(p, &type, &bits)) {
    if (v->type == T_F32 && type == T_F64) {
      double d;
      memcpy(&d, &bits, 8);
      float f = (float)d;
      memcpy(&bits, &f, 4);
    }
    memcpy(v->init + at, &bits, (size_t)size);
    return;
  }
  char word[512];
  int number, lane;
  bool generic = lex_take(p, "generic");
  if (generic) lex_expect(p, "(");
  if (!lex_word(p, word, sizeof word)) lex_expect(p, "initialiser");
  if (generic) lex_expect(p, ")");
  const Symbol *s = symbol_find(p, word, &number, &lane);
  if (!s || !s->variable || size != 8)
    ptx_error(p, p->line, "'%s' cannot initialise '%s'", word, v->name);
  bits = s->variable->address;
  if (lex_take(p, "+")) bits += lex_integer(p);
  memcpy(v->init + at, &bits, 8);
}

static uint64_t parse_elements(Parser *p, Variable *v, uint64_t at) {
  lex_expect(p, "{");
  if (lex_take(p, "}")) return at;
  do {
    lex_skip(p);
    if (*p->at == '{') at = parse_elements(p, v, at);
    else {
      parse_element(p, v, at);
      at += (uint64_t)type_size(v->type);
    }
  } while (lex_take(p, ","));
  lex_expect(p, "}");
  return at;
}

static void variable_place(Parser *p, Variable *v) {
  if (v->space == S_GLOBAL || v->space == S_CONST) {
    v->address = memory_alloc(v->size ? v->size : 1);
    if (!v->address) ptx_fail(p, OUT_OF_MEMORY, p->line, "no memory for '%s'", v->name);
    v->placed = true;
    Module *m = p->module;
    Variable **list = arena_alloc(p->arena, (size_t)(m->n_variables + 1) * sizeof *list);
    if (m->n_variables) memcpy(list, m->variables, (size_t)m->n_variables * sizeof *list);
    list[m->n_variables++] = v;
    m->variables = list;
  } else if (p->kernel && v->space == S_LOCAL) {
    Kernel *k = p->kernel;
    v->address = (k->local_bytes + v->align - 1) / v->align * v->align;
    k->local_bytes = (uint32_t)(v->address + v->size);
  }
}

static void parse_variable(Parser *p, Space space, const Declared *d, bool external) {
  char word[512];
  if (!lex_word(p, word, sizeof word)) lex_expect(p, "name");
  Variable *v = arena_alloc(p->arena, sizeof *v);
  v->name = arena_text(p->arena, word, strlen(word));
  v->space = space;
  v->type = d->type;
  v->external = external;
  uint64_t element = (uint64_t)type_size(d->type) * (uint64_t)d->lanes;
  v->align = d->align > element ? d->align : element;
  v->size = element;
  bool open = false;
  while (lex_take(p, "[")) {
    if (lex_take(p, "]")) {
      open = true;
      continue;
    }
    v->size *= lex_integer(p);
    lex_expect(p, "]");
  }
  lex_skip(p);
  if (open && *p->at != '=') v->size = 0;
  if (open && external && space != S_SHARED) ptx_error(p, p->line, "'%s' is defined nowhere", word);
  if (open && !external && *p->at != '=')
    ptx_error(p, p->line, "Size of array '%s' is unknown", word);
  if (lex_take(p, "=")) {
    if (space != S_GLOBAL && space != S_CONST)
      ptx_error(p, p->line, "Initializer not allowed for '%s'", word);
    if (open) v->size = 1 << 20;
    v->init = arena_alloc(p->arena, v->size);
    uint64_t end = (uint64_t)type_size(v->type);
    lex_skip(p);
    if (*p->at == '{') end = parse_elements(p, v, 0);
    else parse_element(p, v, 0);
    if (open) v->size = end;
  }
  Symbol *s = symbol_add(p, word, space, d->type);
  s->variable = v;
  variable_place(p, v);
}

static void parse_variables(Parser *p, Space space, bool external) {
  Declared d;
  parse_declared(p, &d);
  do parse_variable(p, space, &d, external);
  while (lex_take(p, ","));
  lex_expect(p, ";");
}

/* --- statements */

int label_new(Parser *p, const char *name) {
  Body *b = &p->body;
  if (b->n_labels == b->max_labels) {
    b->max_labels = b->max_labels ? 2 * b->max_labels : 64;
    b->labels = realloc(b->labels, (size_t)b->max_labels * sizeof *b->labels);
  }
  b->labels[b->n_labels] = (Label){name, -1, p->line};
  return b->n_labels++;
}

static void body_label(Parser *p, const char *word) {
  Symbol *found = NULL;
  for (int i = p->n_symbols - 1; i >= 0 && p->symbols[i].scope == p->scope; i--)
    if (strcmp(p->symbols[i].name, word) == 0) found = p->symbols + i;
  Body *b = &p->body;
  if (found && (found->space != S_LABEL || b->labels[found->label].at >= 0))
    ptx_error(p, p->line, "Duplicate definition of '%s'", word);
  if (!found) {
    found = symbol_add(p, word, S_LABEL, T_NONE);
    found->label = label_new(p, found->name);
  }
  b->labels[found->label].at = p->kernel->n_code;
}

static int label_operand(Parser *p) {
  Operand o;
  parse_operand(p, &o);
  if (o.kind != O_NAME || o.symbol->space != S_LABEL) ptx_error(p, p->line, "a label expected");
  return o.symbol->label;
}

/* name: .branchtargets L1, L2; the label then stands for the list. */
static void body_targets(Parser *p, const char *word) {
  Body *b = &p->body;
  Symbol *s = symbol_add(p, word, S_LABEL, T_NONE);
  s->label = -1 - b->n_lists;
  int head = b->n_lists, n = 0;
  do {
    int label = label_operand(p);
    if (b->n_lists + 2 > b->max_lists) {
      b->max_lists = b->max_lists ? 2 * b->max_lists : 64;
      b->lists = realloc(b->lists, (size_t)b->max_lists * sizeof *b->lists);
    }
    if (!n) b->n_lists++;
    b->lists[b->n_lists++] = label;
    b->lists[head] = ++n;
  } while (lex_take(p, ","));
  lex_expect(p, ";");
}

static void parse_guard(Parser *p, Inst *i) {
  Operand o = {0};
  bool negated = lex_take(p, "!");
  parse_operand(p, &o);
  if (o.kind != O_REG || o.type != T_PRED) ptx_error(p, p->line, "a predicate expected after '@'");
  i->guard = o.symbol;
  i->guard_number = o.slot;
  i->guard_not = negated;
}

static void parse_inst(Parser *p, Inst *i, const char *word) {
  char dotted[128];
  i->name = arena_text(p->arena, word, strlen(word));
  while (lex_dotted(p, dotted, sizeof dotted)) {
    if (i->n_mods == MAX_MODS) ptx_error(p, p->line, "too many modifiers");
    i->mods[i->n_mods++] = arena_text(p->arena, dotted, strlen(dotted));
  }
  if (strcmp(word, "call") == 0) {
    parse_call(p, i);
    return;
  }
  lex_skip(p);
  if (*p->at != ';') do {
      if (i->n_ops == MAX_TEXT_OPERANDS) ptx_error(p, i->line, "too many operands");
      parse_operand(p, i->ops + i->n_ops++);
    } while (lex_take(p, ","));
  lex_expect(p, ";");
  form_apply(p, i);
}

void scope_close(Parser *p) {
  int kept = 0;
  while (kept < p->n_symbols && p->symbols[kept].scope < p->scope) kept++;
  for (int i = kept; i < p->n_symbols; i++) {
    Symbol *s = p->symbols + i;
    if (s->space != S_LABEL || s->label < 0 || p->body.labels[s->label].at >= 0 || p->scope == 1)
      continue;
    s->scope--; /* a label that comes after the braces */
    p->symbols[kept++] = *s;
  }
  p->n_symbols = kept;
  p->scope--;
}

static void skip_statement(Parser *p) {
  while (*p->at && *p->at != ';' && *p->at != '\n') p->at++;
  lex_take(p, ";");
}

static void skip_line(Parser *p) {
  while (*p->at && *p->at != '\n') p->at++;
}

static void parse_directive(Parser *p, const char *word) {
  Space space = space_of(word);
  if (space == S_REG) {
    parse_registers(p);
    lex_expect(p, ";");
  } else if (space) parse_variables(p, space == S_PARAM ? S_LOCAL : space, false); /* of calls */
  else if (strcmp(word, ".loc") == 0) skip_line(p);
  else if (strcmp(word, ".pragma") == 0) skip_statement(p);
  else ptx_error(p, p->line, "Parsing error near '%s': syntax error", word);
}

static void parse_statement(Parser *p) {
  char word[512];
  lex_skip(p);
  Inst inst = {.line = p->line};
  if (lex_dotted(p, word, sizeof word)) {
    parse_directive(p, word);
    return;
  }
  if (lex_take(p, "@")) parse_guard(p, &inst);
  if (lex_take(p, ";")) return;
  if (!lex_word(p, word, sizeof word)) lex_expect(p, "instruction");
  if (!inst.guard && (lex_skip(p), *p->at == ':' && p->at[1] != ':')) {
    p->at++;
    lex_skip(p);
    char dotted[64];
    const char *at = p->at;
    if (lex_dotted(p, dotted, sizeof dotted)) {
      if (strcmp(dotted, ".branchtargets") == 0) {
        body_targets(p, word);
        return;
      }
      p->at = at;
    }
    body_label(p, word);
    return;
  }
  parse_inst(p, &inst, word);
}

/* To the brace that closes it. */
void parse_body(Parser *p, bool kernel) {
  int depth = p->scope;
  p->scope++;
  while (p->scope > depth) {
    lex_skip(p);
    if (!*p->at) ptx_error(p, p->line, "Parsing error: '}' expected");
    if (lex_take(p, "{")) p->scope++;
    else if (lex_take(p, "}")) {
      if (kernel && p->scope == depth + 1) build_finish(p);
      scope_close(p);
    } else parse_statement(p);
  }
}

/* --- kernels */

static void parse_params(Parser *p, Kernel *k) {
  Variable list[1024];
  uint64_t at = 0;
  if (!lex_take(p, "(") || lex_take(p, ")")) return;
  do {
    char word[512];
    lex_skip(p);
    if (!lex_dotted(p, word, sizeof word) || strcmp(word, ".param") != 0) lex_expect(p, ".param");
    Declared d;
    parse_declared(p, &d);
    if (!lex_word(p, word, sizeof word)) lex_expect(p, "name");
    uint64_t size = (uint64_t)type_size(d.type) * (uint64_t)d.lanes,
             align = d.align > size ? d.align : size;
    if (d.type == T_PRED || !size)
      ptx_error(p, p->line, "a parameter cannot be of type %s", type_names[d.type]);
    while (lex_take(p, "[")) {
      size *= lex_integer(p);
      lex_expect(p, "]");
    }
    if (k->n_params == COUNT(list)) ptx_error(p, p->line, "too many parameters");
    at = (at + align - 1) / align * align;
    Variable *v = list + k->n_params++;
    *v = (Variable){.name = arena_text(p->arena, word, strlen(word)),
                    .space = S_PARAM,
                    .type = d.type,
                    .size = size,
                    .align = align,
                    .address = at};
    at += size;
  } while (lex_take(p, ","));
  lex_expect(p, ")");
  uint64_t most = p->module->version < 81 || p->module->target < 70 ? 4352 : MAX_PARAMS;
  if (at > most)
    ptx_error(p, p->line, "Formal parameter space overflowed in function '%s'", k->name);
  k->param_bytes = (uint32_t)at;
  k->params = arena_alloc(p->arena, (size_t)(k->n_params + 1) * sizeof *list);
  memcpy(k->params, list, (size_t)k->n_params * sizeof *list);
}

static void parse_limits(Parser *p, Kernel *k) {
  char word[64];
  while (lex_skip(p), lex_dotted(p, word, sizeof word)) {
    int v[3] = {1, 1, 1}, n = 0;
    if (strcmp(word, ".noreturn") == 0) continue;
    if (strcmp(word, ".pragma") == 0) {
      skip_statement(p);
      continue;
    }
    do {
      if (n == 3) ptx_error(p, p->line, "too many dimensions");
      v[n++] = (int)lex_integer(p);
    } while (lex_take(p, ","));
    if (strcmp(word, ".reqntid") == 0) memcpy(k->required, v, sizeof v);
    if (strcmp(word, ".maxntid") == 0 || strcmp(word, ".reqntid") == 0)
      k->max_threads = v[0] * v[1] * v[2];
    else if (strcmp(word, ".minnctapersm") != 0 && strcmp(word, ".maxnreg") != 0 &&
             strcmp(word, ".maxnctapersm") != 0)
      ptx_error(p, p->line, "Parsing error near '%s': syntax error", word);
  }
}

static void module_add(Parser *p, Kernel *k) {
  Module *m = p->module;
  Kernel **list = arena_alloc(p->arena, (size_t)(m->n_kernels + 1) * sizeof *list);
  if (m->n_kernels) memcpy(list, m->kernels, (size_t)m->n_kernels * sizeof *list);
  list[m->n_kernels++] = k;
  m->kernels = list;
}

/* Each kernel lays out the shared variables that it names. */
static void shared_forget(Parser *p) {
  for (int i = 0; i < p->n_symbols; i++)
    if (p->symbols[i].space == S_SHARED) p->symbols[i].variable->placed = false;
}

static void parse_entry(Parser *p) {
  char word[512];
  Kernel *k = arena_alloc(p->arena, sizeof *k);
  k->line = p->line;
  if (!lex_word(p, word, sizeof word)) lex_expect(p, "name");
  if (module_kernel(p->module, word))
    ptx_error(p, p->line, "Duplicate definition of function '%s'", word);
  k->name = arena_text(p->arena, word, strlen(word));
  k->module = p->module;
  k->granule = 2;
  k->max_threads = MAX_THREADS;
  k->max_dynamic = 48 << 10;
  p->kernel = k;
  shared_forget(p);
  p->scope++;
  parse_params(p, k);
  for (int i = 0; i < k->n_params; i++)
    symbol_add(p, k->params[i].name, S_PARAM, k->params[i].type)->variable = k->params + i;
  parse_limits(p, k);
  if (!lex_take(p, ";")) {
    lex_expect(p, "{");
    p->body.n_labels = p->body.n_lists = 0;
    p->leave_label = -1;
    parse_body(p, true);
    module_add(p, k);
  }
  scope_close(p);
  p->kernel = NULL;
}

/* --- the module */

static void parse_version(Parser *p) {
  char word[64];
  static const int known[] = {60, 61, 62, 63, 64, 65, 70, 71, 72, 73, 74, 75, 76,
                              77, 78, 80, 81, 82, 83, 84, 85, 86, 87, 88, 90};
  unsigned major, minor;
  int n = 0;
  lex_skip(p);
  if (!lex_dotted(p, word, sizeof word) || strcmp(word, ".version") != 0)
    ptx_error(p, p->line, "Missing .version directive at start of file");
  lex_skip(p);
  if (sscanf(p->at, "%u.%u%n", &major, &minor, &n) != 2)
    ptx_error(p, p->line, "Parsing error: a version expected");
  p->at += n;
  p->module->version = (int)(major * 10 + minor);
  bool found = false;
  for (size_t i = 0; i < COUNT(known); i++) found |= known[i] == p->module->version;
  int driver = settings.driver / 1000 * 10 +
               settings.driver % 1000 / 10; /* 12.4 reads up to 8.4, 13.0 up to 9.0 */
  int most = driver - 40;
  if (!found || p->module->version > most)
    ptx_fail(p, UNSUPPORTED_PTX_VERSION, p->line,
             "Unsupported .version %u.%u; current version is '%d.%d'", major, minor, most / 10,
             most % 10);
}

/* The first version of PTX that knows a target. */
static int target_version(int target) {
  static const int list[][2] = {{50, 40}, {52, 41}, {53, 42},  {60, 50}, {61, 50}, {62, 50},
                                {70, 60}, {72, 61}, {75, 63},  {80, 70}, {86, 71}, {87, 74},
                                {89, 78}, {90, 78}, {100, 86}, {120, 87}};
  for (size_t i = 0; i < COUNT(list); i++)
    if (list[i][0] == target) return list[i][1];
  return 0;
}

static void parse_target(Parser *p) {
  char word[64];
  Module *m = p->module;
  lex_skip(p);
  if (!lex_dotted(p, word, sizeof word) || strcmp(word, ".target") != 0)
    ptx_error(p, p->line, "Missing .target directive");
  do {
    if (!lex_word(p, word, sizeof word)) lex_expect(p, "target");
    int target, n = 0;
    if (sscanf(word, "sm_%d%n", &target, &n) == 1) {
      m->target = target;
      m->target_exact = word[n] == 'a';
      int first = target_version(target);
      if (!first) ptx_error(p, p->line, "Unknown .target '%s'", word);
      if (m->version < first)
        ptx_error(p, p->line, "PTX .version %d.%d does not support .target %s", m->version / 10,
                  m->version % 10, word);
    }
  } while (lex_take(p, ","));
  if (m->target > p->device || (m->target_exact && m->target != p->device))
    ptx_fail(p, NO_BINARY_FOR_GPU, p->line,
             "SM version specified by .target is higher than default SM version assumed");
}

static bool parse_top(Parser *p) {
  char word[64];
  bool external = false;
  for (;;) {
    lex_skip(p);
    if (!*p->at) return false;
    if (!lex_dotted(p, word, sizeof word))
      ptx_error(p, p->line, "Parsing error near '%.16s': syntax error", p->at);
    Space space = space_of(word);
    if (strcmp(word, ".extern") == 0) external = true;
    else if (strcmp(word, ".visible") == 0 || strcmp(word, ".weak") == 0 ||
             strcmp(word, ".common") == 0)
      continue;
    else if (strcmp(word, ".entry") == 0) {
      parse_entry(p);
      return true;
    } else if (strcmp(word, ".func") == 0) {
      function_skip(p);
      return true;
    } else if (strcmp(word, ".address_size") == 0) {
      p->module->address_size = (int)lex_integer(p);
      if (p->module->address_size != 64) ptx_error(p, p->line, "32-Bit ABI is not supported");
      return true;
    } else if (strcmp(word, ".file") == 0 || strcmp(word, ".loc") == 0) {
      skip_line(p);
      return true;
    } else if (strcmp(word, ".pragma") == 0) {
      skip_statement(p);
      return true;
    } else if (space && space != S_REG && space != S_PARAM && space != S_LOCAL) {
      parse_variables(p, space, external);
      return true;
    } else ptx_error(p, p->line, "Parsing error near '%s': syntax error", word);
  }
}

/* Initial values, once all variables have addresses. */
static void module_init(const Module *m) {
  for (int i = 0; i < m->n_variables; i++) {
    const Variable *v = m->variables[i];
    uint64_t at = v->address - device_region.base;
    memset(device_region.shadow + at, WRITTEN, v->size); /* without a value they begin as zeros */
    if (v->init) memcpy(device_region.bytes + at, v->init, v->size);
    else memset(device_region.bytes + at, 0, v->size);
  }
}

Kernel *module_kernel(const Module *m, const char *name) {
  for (int i = 0; i < m->n_kernels; i++)
    if (strcmp(m->kernels[i]->name, name) == 0) return m->kernels[i];
  return NULL;
}

void module_free(Module *m) {
  for (int i = 0; i < m->n_variables; i++) memory_free(m->variables[i]->address);
  arena_free(m->arena);
}

Module *ptx_parse(const char *text, int device, Log *log, int *status) {
  Arena *arena = arena_new();
  Parser *p = calloc(1, sizeof *p);
  p->at = text;
  p->line = 1;
  p->log = log;
  p->arena = arena;
  p->device = device;
  p->status = INVALID_PTX;
  p->symbols = calloc(MAX_SYMBOLS, sizeof *p->symbols);
  Module *m = arena_alloc(arena, sizeof *m);
  m->arena = arena;
  m->address_size = 64;
  p->module = m;
  *status = OK;
  if (setjmp(p->leave) == 0) {
    parse_version(p);
    parse_target(p);
    functions_scan(p);
    while (parse_top(p)) {}
    module_init(m);
  } else {
    *status = p->status;
    module_free(m);
    m = NULL;
  }
  free(p->body.labels);
  free(p->body.lists);
  free(p->symbols);
  free(p);
  return m;
}
