/*
** call.c -- see call.h. Numbers are given in order, under a lock; entries stay where they are.
*/
#include "ir/call.h"
#include "base/system.h"

enum { BLOCK = 256, BLOCKS = 256 };

static struct {
  Lock lock;
  i32 n;
  const AsyncCall **block[BLOCKS];
} calls = {.lock = LOCK_INIT};

i32 ty_call_register(const AsyncCall *c) {
  i32 number = 0;
  ty_lock(&calls.lock);
  const i32 b = calls.n / BLOCK;
  if (b < BLOCKS && !calls.block[b]) calls.block[b] = ty_mem_zalloc(BLOCK * sizeof(AsyncCall *));
  if (b < BLOCKS && calls.block[b]) {
    calls.block[b][calls.n % BLOCK] = c;
    number = ++calls.n;
  }
  ty_unlock(&calls.lock);
  return number;
}

const AsyncCall *ty_call_find(i32 number) {
  ty_lock(&calls.lock);
  const bool there = number > 0 && number <= calls.n;
  const AsyncCall *c = there ? calls.block[(number - 1) / BLOCK][(number - 1) % BLOCK] : NULL;
  ty_unlock(&calls.lock);
  return c;
}
