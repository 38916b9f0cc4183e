/*
** mpi.h -- the calls of MPI that are used, whichever library it is.
** MPI fixes names and not binaries: handles are pointers to exported objects in Open MPI and numbers in MPICH and its
** relatives (Intel MPI, MVAPICH), and so are some constants. mpi_abi.h is compiled once for each; what differs ends there.
** Messages are bytes, all on a copy of the world's communicator. A call gives MPI_SUCCESS, 0, or an error's number:
** errors return, they do not end the process.
*/
#ifndef TY_MPI_H
#define TY_MPI_H

#include "base/base.h"

/* A request in progress, as the library has it. */
typedef union Request {
  int number;
  void *object;
} Request;

typedef enum { SUM_OP, MAX_OP, MIN_OP, PROD_OP, MPI_OPS } MpiOp;

/* MPI_ABORTED: an error that is none of MPI's. The library has called abort(), and must be asked nothing any more. */
enum {
  MPI_ABORTED = -1,
  MPI_ERROR_TEXT = 512,
  MPI_VERSION_TEXT = 8192,
  FROM_ANY = -1,
  TEAMS_MAX = 64
};

typedef struct Mpi {
  /* Finds the calls; the name of one that is missing, or NULL. */
  const char *(*open)(void *library);
  /* Starts MPI where the process has not, and copies the world's communicator. */
  int (*start)(int *rank, int *size);
  int (*finalize)(void);
  int (*send)(const void *p, int bytes, int to, int tag, Request *r);
  int (*receive)(void *p, int bytes, int from, int tag, Request *r); /* from: FROM_ANY too */
  int (*test)(Request *r, int *done);
  int (*cancel)(
      Request *r); /* a message that is to be received and will not come; then it is tested */
  /* A communicator of these ranks; all of them call it. Its number, for `reduce`; 0 is the world. */
  int (*team)(const int *ranks, int n, int tag, int *number);
  /* Whether it has the dtype, and y = op over the ranks of a team, of n elements, in an order of its own. */
  bool (*takes)(int dtype);
  int (*reduce)(const void *x, void *y, int n, int dtype, MpiOp op, int team, Request *r);
  void (*error)(int code, char *text); /* MPI_ERROR_TEXT bytes */
  void (*version)(char *text);         /* MPI_VERSION_TEXT bytes */
} Mpi;

/* Opens the first of the libraries that is there (NULL ends them) and tells its ABI by what it shows. NULL: *err says
** why not. */
const Mpi *ty_mpi_open(const char *const *names, const char **err);

#endif
