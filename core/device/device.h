/*
** device.h -- a device: memory, what runs loop programs on it, and what carries out jobs.
**
** Devices have numbers, which types carry (type.h): 0 is the CPU. An address that a device gives out means
** something to that device alone: whoever reads elements elsewhere asks for a copy (ty_tensor_read).
** A device may work later than its functions return. It keeps the order of calls as far as memory tells it: a call
** finds what earlier ones wrote, and what is freed stays as it is until those before are done with it. What a call
** was given, but for memory of the device and kernels, is the caller's again when it returns.
*/
#ifndef TY_DEVICE_H
#define TY_DEVICE_H

#include "device/fft_plan.h"
#include "device/sides.h"

/*
** Errors. What a function returns false for has happened at once, and *err says what: text of the device's, good
** until its next call. A device that works later finds errors later: an index out of range (JOB_POSITIONS), memory that
** has run out. From then on it carries out no kernel and no job of that stream, so that memory which was there before
** stays as it was; the stream's next `out` or `wait` tells the error, once, and ends that.
*/

/* What runs loop programs. */
struct Machine {
  const char *name;
  /* A kernel for the program, which is copied. NULL: out of memory, or not a program for this
  ** machine. */
  Kernel *(*make)(const Program *p);
  /* Runs the whole domain, splitting it over the pool. False: out of memory, and nothing was
  ** written. Operands that are written may share memory with operands that are read only when
  ** both are accessed by the same strides and start and have the same element size (an element
  ** is read before it is written). */
  bool (*run)(const Kernel *k, const Run *r);
  /* Gets hold of the memory that a run of k with this launch will want from the calling thread,
  ** and keeps it: later runs then cannot fail. Reservations do not shrink: all steps of a plan
  ** are reserved before the first one overwrites a tensor in place. False: out of memory. NULL:
  ** no such promise is given, and plans write in place only where nothing that can fail follows. */
  bool (*reserve)(const Kernel *k, const Launch *l);
  void (*drop)(Kernel *k);
  size_t (*bytes)(const Kernel *k);
  /* Nanoseconds of a run on one thread, roughly. NULL: `run` does not wait for its end. */
  double (*time)(const Kernel *k, const Launch *l);
};

/* How a copy from another device went. NONE: it cannot be done so. */
typedef enum Receipt { RECEIPT_NONE, RECEIPT_OK, RECEIPT_FAILED } Receipt;

typedef struct Device Device;
struct Device {
  const char *name;
  const Machine *machine;
  const Machine *portable; /* stands in where that one refuses a program; or NULL */
  /* Memory. NULL: there is none left. */
  void *(*allocate)(i64 bytes);
  void (*free)(void *p, i64 bytes);
  /* Copies from the CPU's memory; to it, where the bytes have arrived on return; and within the device. False: the
  ** device has failed, as *err says. */
  bool (*in)(void *to, const void *from, i64 bytes, const char **err);
  bool (*out)(void *to, const void *from, i64 bytes, Stream *s, const char **err);
  bool (*across)(void *to, const void *from, i64 bytes, const char **err);
  /* Copies from the memory of `from`, another device, without the CPU's; errors of `from` are told as by its `out`. NULL,
  ** or NONE: by way of the CPU. */
  Receipt (*receive)(const Device *from, void *to, const void *x, i64 bytes, Stream *s,
                     const char **err);
  /* All that was asked for is done. */
  bool (*wait)(Stream *s, const char **err);
  /* Whether it carries out such jobs. What it refuses, and programs that no machine of its takes, the CPU does
  ** with copies of the operands. */
  bool (*takes)(const Job *j);
  /* buf: an address for each operand, NULL for one that is not there. panels: of b, or NULL. False: out of memory,
  ** and outputs are undefined; or *err says what else. */
  bool (*perform)(const Job *j, void *const *buf, const u64 *scalar, const void *panels, Stream *s,
                  const char **err);
  /* b of a product in the layout that kernels read, packed ahead for one that serves many products: its bytes, 0
  ** where that would not save a noticeable share. NULL: not here. */
  i64 (*panels)(const Gemm *d);
  void (*pack)(const Gemm *d, const void *b, void *panels);
  /* Around the steps of a plan, which the calling thread asks for; they may be carried out at the end, all at once, which
  ** tells what they were. NULL: not here. */
  void (*begin)(void);
  void (*end)(DeviceRun *run);
  /* For profiles: what the calling thread asks for, up to the end of the plan or the next label, belongs to that step of a
  ** plan, or eager operation (kind, plan, step, site: as in an Event). NULL: not here. */
  void (*label)(i32 kind, i32 plan, i32 step, i32 site);
  /* For who gives away what comes behind checks: whether those of the stream have passed, which is waited for; not for
  ** what the device was asked for since `note`, if no check came later. NULL: they are known at once. */
  void (*note)(const Stream *s);
  bool (*passed)(Stream *s, const char **err);
  /* For libraries that give the device work of their own; number: which of them it is. NULL: no library works with it. */
  const Sides *sides;
  int number;
  /* Whether attention at reduced precision, without mask and dropout, takes half floats as they are, of so many features and
  ** values. NULL: never. */
  bool (*halves)(i64 features, i64 values);
  /* Of the CPU's alone: the plan of a length, held, and let go of; NULL: out of memory. */
  const FftPlan *(*fft_plan)(int dtype, i64 n, bool real);
  void (*fft_drop)(const FftPlan *p);
};

extern const Device *ty_devices[DEVICES_MAX]; /* by number */
#define ty_cpu (ty_devices[0])

/* Adds a device, which stays for ever. This is how other shared objects bring theirs: the function's address is in
** Lua's registry under DEVICE_KEY, as a light userdata. version: what this header said when they were compiled. Gives
** the CPU's device, for what they leave to it; NULL: not added, *err says why. A name that is there is not added
** again: its device goes on. */
#define DEVICE_VERSION 10
#define DEVICE_KEY "tycho.device"
typedef const Device *DeviceRegister(u32 version, const Device *d, const char **err);
DeviceRegister ty_device_register;

/* The CPU's device, ready. */
void ty_cpu_open(void);

#endif
