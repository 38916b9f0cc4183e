/*
** file_pnm.c -- PGM and PPM, plain and raw (netpbm's pgm(5), ppm(5)).
** In: the file's bytes. Out: grey or RGB. Samples with another maximum than 255 are scaled to 255,
** rounded to nearest. Bitmaps (P1, P4) are refused, and samples above their maximum.
*/
#include "file/file_image.h"

#include <stdio.h>

typedef struct Words {
  File *f;
  const u8 *p, *end;
} Words;

static bool is_space(u8 c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* The next number in digits, behind spaces and comments; -1: there is none. */
static i64 next_number(Words *w) {
  while (w->p < w->end && (is_space(*w->p) || *w->p == '#')) {
    if (*w->p == '#')
      while (w->p < w->end && *w->p != '\n' && *w->p != '\r') w->p++;
    else w->p++;
  }
  const u8 *from = w->p;
  i64 v = 0;
  for (; w->p < w->end && *w->p >= '0' && *w->p <= '9'; w->p++)
    if ((v = v * 10 + (*w->p - '0')) > INT32_MAX) return -1;
  return w->p == from ? -1 : v;
}

static bool plain_samples(Words *w, Image *y, i64 most) {
  i64 n = (i64)y->width * y->height * y->channels;
  for (i64 i = 0; i < n; i++) {
    i64 v = next_number(w);
    if (v < 0 || v > most)
      return ty_file_fail(w->f, "sample %lld of %lld is missing or above the maximum of %lld",
                          (long long)i + 1, (long long)n, (long long)most);
    y->data[i] = (u8)((v * 255 + most / 2) / most);
  }
  return true;
}

static bool raw_samples(Words *w, Image *y, i64 most) {
  i64 n = (i64)y->width * y->height * y->channels;
  const u8 *p = w->p;
  for (i64 i = 0; i < n; i++) {
    i64 v = most > 255 ? p[2 * i] << 8 | p[2 * i + 1] : p[i];
    if (v > most)
      return ty_file_fail(w->f, "sample %lld is above the maximum of %lld", (long long)i + 1,
                          (long long)most);
    y->data[i] = (u8)(most == 255 ? v : (v * 255 + most / 2) / most);
  }
  return true;
}

bool ty_pnm_read(File *f, const ImageWant *want, Image *y) {
  Words w = {f, f->data + 2, f->data + f->size};
  char kind = (char)f->data[1];
  if (kind == '1' || kind == '4') return ty_file_fail(f, "PBM bitmaps are not read");
  i32 channels = kind == '3' || kind == '6' ? 3 : 1;
  i64 width = next_number(&w), height = next_number(&w), most = next_number(&w);
  if (width < 0 || height < 0 || most < 1 || most > 65535)
    return ty_file_fail(f, "the header needs width, height and a maximum from 1 to 65535");
  bool raw = kind >= '5';
  if (raw && (w.p == w.end || !is_space(*w.p++)))
    return ty_file_fail(f, "no space between the header and the samples");
  /* a plain sample takes a digit and a space, but the last */
  i64 n, have = w.end - w.p;
  if (!ty_mul(width, height, &n) || !ty_mul(n, channels * (raw && most < 256 ? 1 : 2), &n) ||
      have < n - (raw ? 0 : 1))
    return ty_file_fail(f, "%lld bytes of samples are too few for %lld x %lld pixels",
                        (long long)have, (long long)width, (long long)height);
  if (!ty_image_room(f, want, width, height, channels, 0, y)) return false;
  return raw ? raw_samples(&w, y, most) : plain_samples(&w, y, most);
}

bool ty_pnm_write(Bytes *b, const Image *x) {
  char head[64];
  int n = snprintf(head, sizeof head, "P%d\n%d %d\n255\n", x->channels == 3 ? 6 : 5, x->width,
                   x->height);
  return ty_bytes_add(b, head, n) &&
         ty_bytes_add(b, x->data, (i64)x->width * x->height * x->channels);
}
