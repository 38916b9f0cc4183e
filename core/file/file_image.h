/*
** file_image.h -- images in files: PNG and JPEG by libraries, PPM and PGM here.
** In: a file. Out: rows of pixels of 8 bits a channel; or the file's bytes from pixels.
** libpng and libturbojpeg are loaded when the first such image comes; without them all else works.
*/
#ifndef TY_FILE_IMAGE_H
#define TY_FILE_IMAGE_H

#include "file/file.h"

/* Pixels row by row, the channels of a pixel side by side: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. */
typedef struct Image {
  u8 *data; /* ty_image_free */
  i32 width, height, channels;
  bool lent;   /* data is a Scratch's */
  bool planar; /* channel by channel instead: it was resized */
} Image;

/* Memory that one reader uses again and again: fresh pages cost more than copying. */
typedef struct Scratch {
  u8 *bytes, *pixels; /* owned: of the file, as they are decoded */
  i64 bytes_room, pixels_room;
  void *jpeg; /* owned: a decoder, which takes longer to make than a row to decode */
} Scratch;

/* What is wanted of an image. */
typedef struct ImageWant {
  i32 channels;      /* 1, 3, 4; 0: the file's own, alpha with grey as 4 */
  i32 height, width; /* 0: the file's own */
  i64 limit;         /* bytes that reading may take beside the file's own; 0: FILE_LIMIT */
  i32 element;       /* bytes of an element of the floats that it becomes later; 0: it stays u8 */
  Scratch *scratch;  /* NULL: memory of its own */
} ImageWant;

/* Reads, converts, resizes. false: f->err. */
bool ty_image_read(File *f, const ImageWant *want, Image *y);
void ty_image_free(Image *x);
void ty_scratch_free(Scratch *s);
/* At least n bytes at *p, of which *room are there; what they held is lost. False: no memory. */
bool ty_scratch_room(u8 **p, i64 *room, i64 n);
/* Channel by channel, as tensors have them: channels x height x width bytes. The pixels are gone
** then: pages of large images return to the system as they are read, for the sake of the peak. */
void ty_image_take(Image *x, u8 *to);
/* The reverse: pixels of planes. False: no memory. */
bool ty_image_weave(const u8 *planes, Image *y);

/* The formats. The whole file lies at f->data. */
bool ty_png_read(File *f, const ImageWant *want, Image *y);
bool ty_jpeg_read(File *f, const ImageWant *want, Image *y);
bool ty_pnm_read(File *f, const ImageWant *want, Image *y);
void ty_jpeg_drop(void *decoder); /* of a Scratch; NULL: nothing */
/* For them: checks what the image will take at its peak against the limit, and makes room for
** the pixels. work: bytes that the decoder needs beside them. */
bool ty_image_room(File *f, const ImageWant *want, i64 width, i64 height, i32 channels, double work,
                   Image *y);

/* Bytes of a file, growing. */
typedef struct Bytes {
  u8 *data; /* owned */
  i64 n, room;
  char err[FILE_ERR];
} Bytes;
bool ty_bytes_add(Bytes *b, const void *p, i64 n);
/* Encoders. false: b->err; what was written so far must be freed. */
bool ty_png_write(Bytes *b, const Image *x, int level);
bool ty_jpeg_write(Bytes *b, const Image *x, int quality);
bool ty_pnm_write(Bytes *b, const Image *x);

/* file_resize.c: as Pillow's resize does, to the bit for bytes. */
typedef enum { RESIZE_NEAREST, RESIZE_BOX, RESIZE_BILINEAR, RESIZE_BICUBIC } Resize;
/* x: planes of h x w elements each (`step` elements apart in a row, 1 for planes); y: of oh x ow.
** False: no memory. */
/* Bytes that it needs beside x and y, at most. */
double ty_resize_work(double h, double w, double oh, double ow, int bytes);
bool ty_resize_bytes(const u8 *x, i64 planes, i32 h, i32 w, u8 *y, i32 oh, i32 ow, Resize how);
bool ty_resize_floats(const float *x, i64 planes, i32 h, i32 w, float *y, i32 oh, i32 ow,
                      Resize how);

/* Symbols of a library that is loaded when it is first used. NULL: which is missing is said. */
typedef struct Symbol {
  const char *name;
  void **to;
} Symbol;
bool ty_image_library(const char *const *names, const Symbol *symbols);

#endif
