/*
** jitlink.c -- the calls of nvJitLink that assemble one text of PTX: images as cuLinkComplete makes them.
** It needs no device: the processor is an option, -arch=sm_80.
*/
#include "driver.h"

enum { LINK_OK = 0, LINK_BAD_INPUT = 1, LINK_PTX_ERROR = 5, INPUT_PTX = 2 };

typedef struct Linker {
  int capability;
  char *image;
  char log[1024];
} Linker;

CALL nvJitLinkVersion(unsigned *major, unsigned *minor) {
  *major = 12, *minor = 4;
  return LINK_OK;
}

CALL nvJitLinkCreate(Linker **linker, unsigned n, const char **options) {
  if (!linker || n != 1 || strncmp(options[0], "-arch=sm_", 9) != 0) return LINK_BAD_INPUT;
  *linker = calloc(1, sizeof **linker);
  (*linker)->capability = atoi(options[0] + 9);
  return LINK_OK;
}

CALL nvJitLinkDestroy(Linker **linker) {
  if (!linker || !*linker) return LINK_BAD_INPUT;
  free((*linker)->image);
  free(*linker);
  *linker = NULL;
  return LINK_OK;
}

CALL nvJitLinkAddData(Linker *l, int kind, const void *data, size_t size, const char *name) {
  if (!l || kind != INPUT_PTX || l->image || !size || !name) return LINK_BAD_INPUT;
  l->image = calloc(1, size + 64);
  const int at = snprintf(l->image, 64, "%s%d\n", image_mark, l->capability);
  memcpy(l->image + at, data, size);
  return LINK_OK;
}

CALL nvJitLinkComplete(Linker *l) {
  LOCKED;
  if (!l || !l->image) return LINK_BAD_INPUT;
  Log log = {.text = l->log, .size = sizeof l->log};
  int status;
  Module *m = ptx_parse(strchr(l->image, '\n') + 1, l->capability, &log, &status);
  if (!m) return LINK_PTX_ERROR;
  module_free(m);
  return LINK_OK;
}

CALL nvJitLinkGetLinkedCubinSize(Linker *l, size_t *size) {
  if (!l || !l->image) return LINK_BAD_INPUT;
  *size = strlen(l->image) + 1;
  return LINK_OK;
}

CALL nvJitLinkGetLinkedCubin(Linker *l, void *code) {
  if (!l || !l->image) return LINK_BAD_INPUT;
  memcpy(code, l->image, strlen(l->image) + 1);
  return LINK_OK;
}

CALL nvJitLinkGetErrorLogSize(Linker *l, size_t *size) {
  *size = strlen(l->log) + 1;
  return LINK_OK;
}

CALL nvJitLinkGetErrorLog(Linker *l, char *log) {
  memcpy(log, l->log, strlen(l->log) + 1);
  return LINK_OK;
}
