/*
** file_protobuf.c -- messages of Protocol Buffers, field by field.
** In: the bytes of a message. Out: numbers of fields, and what they hold. Fails where a field ends behind the message,
** and for groups, which nobody writes any more.
** Format: https://protobuf.dev/programming-guides/encoding
*/
#include "file/file_protobuf.h"

bool ty_wire_varint(File *f, const u8 **at, const u8 *end, u64 *v) {
  u64 sum = 0;
  const u8 *p = *at;
  for (int shift = 0; shift < 70 && p < end; shift += 7) {
    const u8 b = *p++;
    if (shift < 64) sum |= (u64)(b & 0x7f) << shift;
    if (b & 0x80) continue;
    *at = p, *v = sum;
    return true;
  }
  return ty_file_fail(f, "a number that has no end, before byte %lld", (long long)(p - f->data));
}

static bool take(Wire *w, i64 n) {
  if (n < 0 || n > w->end - w->p)
    return ty_file_fail(w->f, "a field of %lld bytes at byte %lld, behind the end of its message",
                        (long long)n, (long long)(w->p - w->f->data));
  w->bytes = w->p, w->n = n;
  w->p += n;
  return true;
}

bool ty_wire_next(Wire *w) {
  u64 tag, n;
  w->field = 0;
  if (w->p == w->end) return true;
  if (!ty_wire_varint(w->f, &w->p, w->end, &tag)) return false;
  const u64 field = tag >> 3;
  if (field == 0 || field >= (u64)1 << 29)
    return ty_file_fail(w->f, "no message of Protocol Buffers at byte %lld",
                        (long long)(w->p - w->f->data));
  w->field = (u32)field, w->type = (u8)(tag & 7);
  switch (w->type) {
  case WIRE_VARINT: return ty_wire_varint(w->f, &w->p, w->end, &w->value);
  case WIRE_I64: return take(w, 8);
  case WIRE_I32: return take(w, 4);
  case WIRE_BYTES:
    return ty_wire_varint(w->f, &w->p, w->end, &n) && take(w, n > INT64_MAX ? INT64_MAX : (i64)n);
  default:
    return ty_file_fail(w->f, "a field of the unknown type %d at byte %lld", w->type,
                        (long long)(w->p - w->f->data));
  }
}
