/*
** device.c -- the list of devices.
** In:  devices of other shared objects.  Out: a number for each, by which types carry it. Fails where versions
** differ or the list is full. A device that was added is never taken away: buffers outlive whoever made them.
*/
#include "base/system.h"
#include "device/device.h"

static Lock lock = LOCK_INIT;

const Device *ty_device_register(u32 version, const Device *d, const char **err) {
  const char *why = NULL;
  if (version != DEVICE_VERSION) why = "it was made for another version of tycho";
  ty_cpu_open();
  ty_lock(&lock);
  int i = why ? 0 : ty_device_find(d->name);
  if (i < 0) {
    for (i = 0; i < DEVICES_MAX && ty_devices[i]; i++) {}
    if (i == DEVICES_MAX) why = "there are too many devices";
    else {
      __atomic_store_n(&ty_devices[i], d, __ATOMIC_RELEASE);
      __atomic_store_n(&ty_device_names[i], d->name, __ATOMIC_RELEASE);
    }
  }
  ty_unlock(&lock);
  if (why) *err = why;
  return why ? NULL : ty_cpu;
}
