/*
** sides.h -- queues beside a device's own, for libraries that give it work of theirs (NCCL): it may wait for other processes,
** and so never end.
**
** 1. What a side is given comes behind all that the device was asked for until `open`. What the device is asked for later does not
**    wait for it, until it follows a mark.
** 2. Memory that a side uses belongs to it until the device has followed a mark behind that work: what was freed since then
**    is given out again in the order of the device's own queue.
** 3. Work of a side is a check of the stream that follows it (device.h, Errors): where it fails, nothing of that stream is
**    carried out behind it, and the stream's next `out` or `wait` tells the text.
** 4. Who waits for the device while it may wait for a side asks the watch meanwhile, which ends what would never end.
*/
#ifndef TY_SIDES_H
#define TY_SIDES_H

#include "ir/program.h"

enum { SIDES_MOST = 256 };

/* n: the device's number among those of its kind. */
typedef struct Sides {
  /* Where work goes that is given to side i (a CUDA stream), the device's context being this thread's. NULL: the device has
  ** failed, or is out of memory. */
  void *(*open)(int n, int i);
  /* The end of what side i has been given, to be followed once. NULL: as above. */
  void *(*mark)(int n, int i);
  /* What the device is asked for from now on comes behind the mark. s: of whom. False: as above. */
  bool (*follow)(int n, void *mark, const Stream *s);
  /* wait(n, idle): returns when idle(n) is not 0, or `fail` was called and what sides do comes to an end. idle: 1: all that the
  ** device was asked for is done, 0: not yet, -1: the device has failed. */
  void (*watch)(int n, void (*wait)(int n, int (*idle)(int n)));
  /* Waits for the device as everybody does. */
  void (*settle)(int n);
  /* What sides have not done yet fails with that text. */
  void (*fail)(int n, const char *text);
} Sides;

#endif
