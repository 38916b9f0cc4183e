/*
** file_json.c -- JSON, strictly, token by token.
** In: bytes that may be overwritten. Out: tokens; texts decoded in place, which never grows them.
** Refused, with the byte where it stands: what RFC 8259 does not allow, text that is not UTF-8 or
** holds half a surrogate pair, more than JSON_DEPTH levels. No memory, no recursion.
*/
#include "file/file.h"

#include <stdio.h>

/* What may come next. */
enum { VALUE, FIRST_VALUE, FIRST_KEY, AFTER, DONE, FAILED };

void ty_json_open(Json *j, char *text, i64 n) {
  memset(j, 0, sizeof *j);
  j->begin = j->p = text;
  j->end = text + n;
  j->state = VALUE;
}

static JsonToken json_fail(Json *j, const char *what) {
  if (j->state != FAILED)
    snprintf(j->err, sizeof j->err, "JSON: %s at byte %lld", what, (long long)(j->p - j->begin));
  j->state = FAILED;
  return J_ERROR;
}

static void skip_space(Json *j) {
  while (j->p < j->end && (*j->p == ' ' || *j->p == '\t' || *j->p == '\n' || *j->p == '\r')) j->p++;
}

static bool take(Json *j, char c) {
  if (j->p == j->end || *j->p != c) return false;
  j->p++;
  return true;
}

/* Four hexadecimal digits; -1: there are none. */
static i32 hex(Json *j) {
  i32 v = 0;
  if (j->end - j->p < 4) return -1;
  for (int i = 0; i < 4; i++, j->p++) {
    char c = *j->p;
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

static char *put_utf8(char *to, i32 c) {
  if (c < 0x80) {
    *to++ = (char)c;
  } else if (c < 0x800) {
    *to++ = (char)(0xc0 | c >> 6);
    *to++ = (char)(0x80 | (c & 63));
  } else if (c < 0x10000) {
    *to++ = (char)(0xe0 | c >> 12);
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  } else {
    *to++ = (char)(0xf0 | c >> 18);
    *to++ = (char)(0x80 | (c >> 12 & 63));
    *to++ = (char)(0x80 | (c >> 6 & 63));
    *to++ = (char)(0x80 | (c & 63));
  }
  return to;
}

/* What stands behind a backslash, decoded to *to. An escape is never shorter than its character. */
static bool escape(Json *j, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  char c = j->p < j->end ? *j->p : 0;
  const char *known = c ? strchr(from, c) : NULL;
  if (known) {
    j->p++;
    *(*to)++ = into[known - from];
    return true;
  }
  if (!take(j, 'u')) return json_fail(j, "an unknown escape"), false;
  i32 v = hex(j), low;
  if (v < 0) return json_fail(j, "\\u without four digits"), false;
  if (v >= 0xdc00 && v < 0xe000) return json_fail(j, "half a surrogate pair"), false;
  if (v >= 0xd800 && v < 0xdc00) {
    if (!take(j, '\\') || !take(j, 'u') || (low = hex(j)) < 0xdc00 || low > 0xdfff)
      return json_fail(j, "half a surrogate pair"), false;
    v = 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
  }
  *to = put_utf8(*to, v);
  return true;
}

/* A string behind its first quote. */
static bool string(Json *j) {
  char *to = j->p;
  j->s = j->p;
  while (j->p < j->end) {
    u8 c = (u8)*j->p;
    if (c == '"') {
      j->n = to - j->s;
      j->p++;
      return true;
    }
    if (c < 0x20) return json_fail(j, "a control character"), false;
    if (c == '\\') {
      j->p++;
      if (!escape(j, &to)) return false;
      continue;
    }
    int n = ty_file_utf8((const u8 *)j->p, j->end - j->p);
    if (!n) return json_fail(j, "bytes that are not UTF-8"), false;
    memmove(to, j->p, (size_t)n);
    to += n;
    j->p += n;
  }
  return json_fail(j, "a string without end"), false;
}

static bool digits(Json *j) {
  char *from = j->p;
  while (j->p < j->end && *j->p >= '0' && *j->p <= '9') j->p++;
  return j->p > from;
}

static bool number(Json *j) {
  char *from = j->p;
  take(j, '-');
  if (!take(j, '0') && !digits(j)) return json_fail(j, "no value"), false;
  if (take(j, '.') && !digits(j)) return json_fail(j, "a number without digits"), false;
  if (take(j, 'e') || take(j, 'E')) {
    if (!take(j, '+')) take(j, '-');
    if (!digits(j)) return json_fail(j, "a number without digits"), false;
  }
  j->s = from;
  j->n = j->p - from;
  return true;
}

static bool literal(Json *j, const char *w) {
  i64 n = (i64)strlen(w);
  if (j->end - j->p < n || memcmp(j->p, w, (size_t)n)) return false;
  j->p += n;
  return true;
}

static JsonToken open_level(Json *j, bool object) {
  if (j->depth == JSON_DEPTH) return json_fail(j, "too many levels");
  j->object[j->depth++] = object;
  j->state = object ? FIRST_KEY : FIRST_VALUE;
  return object ? J_OBJECT : J_ARRAY;
}

static JsonToken close_level(Json *j) {
  bool object = j->object[--j->depth];
  j->state = j->depth ? AFTER : DONE;
  return object ? J_OBJECT_END : J_ARRAY_END;
}

static JsonToken value(Json *j) {
  if (take(j, '{')) return open_level(j, true);
  if (take(j, '[')) return open_level(j, false);
  JsonToken t = J_NUMBER;
  if (take(j, '"')) {
    if (!string(j)) return J_ERROR;
    t = J_STRING;
  } else if (literal(j, "true")) {
    t = J_TRUE;
  } else if (literal(j, "false")) {
    t = J_FALSE;
  } else if (literal(j, "null")) {
    t = J_NULL;
  } else if (!number(j)) {
    return J_ERROR;
  }
  j->state = j->depth ? AFTER : DONE;
  return t;
}

static JsonToken key(Json *j) {
  if (!take(j, '"')) return json_fail(j, "no key");
  if (!string(j)) return J_ERROR;
  skip_space(j);
  if (!take(j, ':')) return json_fail(j, "no colon behind a key");
  j->state = VALUE;
  return J_KEY;
}

JsonToken ty_json_next(Json *j) {
  skip_space(j);
  bool object = j->depth && j->object[j->depth - 1];
  switch (j->state) {
  case DONE: return j->p == j->end ? J_END : json_fail(j, "something behind the value");
  case FIRST_KEY: return take(j, '}') ? close_level(j) : key(j);
  case FIRST_VALUE: return take(j, ']') ? close_level(j) : value(j);
  case AFTER:
    if (take(j, object ? '}' : ']')) return close_level(j);
    if (!take(j, ',')) return json_fail(j, object ? "no comma or }" : "no comma or ]");
    skip_space(j);
    return object ? key(j) : value(j);
  case VALUE: return value(j);
  default: return J_ERROR;
  }
}

bool ty_json_skip(Json *j, JsonToken token) {
  int depth = j->depth;
  if (token == J_ERROR) return false;
  if (token != J_OBJECT && token != J_ARRAY) return true;
  while (j->depth >= depth)
    if (ty_json_next(j) == J_ERROR) return false;
  return true;
}

bool ty_json_whole(const Json *j, i64 *v) {
  *v = 0;
  for (i64 i = 0; i < j->n; i++) {
    if (j->s[i] < '0' || j->s[i] > '9') return false;
    if (!ty_mul(*v, 10, v) || !ty_add(*v, j->s[i] - '0', v)) return false;
  }
  return j->n > 0;
}
