/*
** lex.c -- the words of PTX: identifiers, directives, literals, comments; where an error is, in ptxas's wording.
*/
#include <ctype.h>
#include <stdarg.h>

#include "ptx.h"

void log_add(Log *log, const char *format, ...) {
  if (!log->text || log->length + 1 >= log->size) return;
  va_list list;
  va_start(list, format);
  int n = vsnprintf(log->text + log->length, log->size - log->length, format, list);
  va_end(list);
  log->length += (size_t)(n > 0 ? n : 0);
  if (log->length >= log->size) log->length = log->size - 1;
}

static void log_error(Parser *p, int line, const char *format, va_list list) {
  char text[512];
  vsnprintf(text, sizeof text, format, list);
  log_add(p->log, "ptxas application ptx input, line %d; error   : %s\n", line, text);
  log_add(p->log, "ptxas fatal   : Ptx assembly aborted due to errors\n");
  report("line %d: %s", line, text);
  p->log->errors++;
}

void ptx_error(Parser *p, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  log_error(p, line, format, list);
  va_end(list);
  p->status = INVALID_PTX;
  longjmp(p->leave, 1);
}

void ptx_fail(Parser *p, int status, int line, const char *format, ...) {
  va_list list;
  va_start(list, format);
  log_error(p, line, format, list);
  va_end(list);
  p->status = status;
  longjmp(p->leave, 1);
}

static void skip_comment(Parser *p) {
  int from = p->line;
  for (p->at += 2; !(p->at[0] == '*' && p->at[1] == '/'); p->at++) {
    if (!*p->at) ptx_error(p, from, "unterminated comment");
    if (*p->at == '\n') p->line++;
  }
  p->at += 2;
}

void lex_skip(Parser *p) {
  for (;;) {
    if (*p->at == '\n') p->line++, p->at++;
    else if (isspace((unsigned char)*p->at)) p->at++;
    else if (p->at[0] == '/' && p->at[1] == '/') {
      while (*p->at && *p->at != '\n') p->at++;
    } else if (p->at[0] == '/' && p->at[1] == '*') skip_comment(p);
    else return;
  }
}

bool lex_take(Parser *p, const char *mark) {
  lex_skip(p);
  size_t n = strlen(mark);
  if (strncmp(p->at, mark, n) != 0) return false;
  p->at += n;
  return true;
}

void lex_expect(Parser *p, const char *mark) {
  if (lex_take(p, mark)) return;
  char near[24];
  int n = 0;
  while (n < 20 && p->at[n] && !isspace((unsigned char)p->at[n])) n++;
  snprintf(near, sizeof near, "%.*s", n, p->at);
  ptx_error(p, p->line, "Parsing error near '%s': syntax error, '%s' expected", near, mark);
}

static bool is_first(int c) { return isalpha(c) || c == '_' || c == '$' || c == '%'; }
static bool is_next(int c) { return isalnum(c) || c == '_' || c == '$'; }

bool lex_word(Parser *p, char *word, size_t size) {
  lex_skip(p);
  if (!is_first((unsigned char)*p->at)) return false;
  size_t n = 1;
  while (is_next((unsigned char)p->at[n])) n++;
  if (n >= size) ptx_error(p, p->line, "identifier too long");
  memcpy(word, p->at, n);
  word[n] = 0;
  p->at += n;
  return true;
}

bool lex_dotted(Parser *p, char *word, size_t size) {
  if (*p->at != '.' || !(isalnum((unsigned char)p->at[1]) || p->at[1] == '_')) return false;
  size_t n = 1;
  while (is_next((unsigned char)p->at[n]) || (p->at[n] == ':' && p->at[n + 1] == ':') ||
         (p->at[n] == ':' && p->at[n - 1] == ':'))
    n++;
  if (n >= size) ptx_error(p, p->line, "word too long");
  memcpy(word, p->at, n);
  word[n] = 0;
  p->at += n;
  return true;
}

static bool lex_hex_float(Parser *p, Type *type, uint64_t *bits) {
  int digits = p->at[1] == 'f' || p->at[1] == 'F' ? 8 : p->at[1] == 'd' || p->at[1] == 'D' ? 16 : 0;
  if (*p->at != '0' || !digits) return false;
  uint64_t value = 0;
  for (int i = 0; i < digits; i++) {
    int c = tolower((unsigned char)p->at[2 + i]);
    if (!isxdigit(c)) ptx_error(p, p->line, "a literal of %d hexadecimal digits expected", digits);
    value = value * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  p->at += 2 + digits;
  if (is_next((unsigned char)*p->at))
    ptx_error(p, p->line, "a literal of %d hexadecimal digits expected", digits);
  *type = digits == 8 ? T_F32 : T_F64;
  *bits = value;
  return true;
}

bool lex_number(Parser *p, Type *type, uint64_t *bits) {
  lex_skip(p);
  bool minus = false;
  const char *from = p->at;
  if (*p->at == '-') minus = true, p->at++, lex_skip(p);
  if (!isdigit((unsigned char)*p->at) && !(*p->at == '.' && isdigit((unsigned char)p->at[1]))) {
    p->at = from;
    return false;
  }
  if (lex_hex_float(p, type, bits)) {
    if (minus) *bits ^= *type == T_F32 ? (uint64_t)1 << 31 : (uint64_t)1 << 63;
    return true;
  }
  bool based = *p->at == '0' && strchr("xXbB", p->at[1]) && p->at[1];
  size_t n = strspn(p->at, "0123456789");
  if (!based && (p->at[n] == '.' || p->at[n] == 'e' || p->at[n] == 'E')) {
    char *end;
    double d = strtod(p->at, &end);
    if (minus) d = -d;
    memcpy(bits, &d, 8);
    p->at = end;
    *type = T_F64;
    return true;
  }
  char *end;
  bool binary = *p->at == '0' && (p->at[1] == 'b' || p->at[1] == 'B');
  uint64_t value = binary ? strtoull(p->at + 2, &end, 2) : strtoull(p->at, &end, 0);
  *type = value >> 63 ? T_U64 : T_S64;
  if (*end == 'U' || *end == 'u') end++, *type = T_U64;
  if (is_next((unsigned char)*end)) ptx_error(p, p->line, "Parsing error: a number that is none");
  p->at = end;
  *bits = minus ? 0 - value : value;
  return true;
}

uint64_t lex_integer(Parser *p) {
  Type type;
  uint64_t bits;
  if (!lex_number(p, &type, &bits) || (type != T_S64 && type != T_U64))
    ptx_error(p, p->line, "Parsing error: an integer expected");
  return bits;
}
