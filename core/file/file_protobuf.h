/*
** file_protobuf.h -- messages of Protocol Buffers, field by field.
*/
#ifndef TY_FILE_PROTOBUF_H
#define TY_FILE_PROTOBUF_H

#include "file/file.h"

enum { WIRE_VARINT, WIRE_I64, WIRE_BYTES, WIRE_I32 = 5 };

/* A message, and its last field: VARINT has a value, the others bytes. */
typedef struct Wire {
  File *f; /* all of it in memory */
  const u8 *p, *end;
  u32 field; /* 0: there was none left */
  u8 type;
  u64 value;
  const u8 *bytes;
  i64 n;
} Wire;

bool ty_wire_next(Wire *w); /* false: f->err */
bool ty_wire_varint(File *f, const u8 **at, const u8 *end, u64 *v);

#endif
