/*
** mpi.c -- the MPI library, found when it is first wanted.
** In:  names of libraries.  Out: its calls (mpi.h). Fails where none of them is there, or it lacks a call of MPI 3;
** *err then says which.
**
** Nothing is included of an MPI's headers: what is known of them is below. Numbers of MPICH's handles and the symbols of
** Open MPI's have not changed since MPICH 3.1 (its ABI is common to Intel MPI and MVAPICH) and Open MPI 1.7.
*/
#include "base/system.h"
#include "dist/dist.h"
#include "dist/mpi.h"
#include "ir/type.h"

#define MPI_CALLS(_) \
  _(Initialized, (int *yes)) \
  _(Finalized, (int *yes)) \
  _(Init_thread, (int *argc, char ***argv, int wanted, int *given)) \
  _(Finalize, (void)) \
  _(Comm_rank, (HANDLE comm, int *rank)) \
  _(Comm_size, (HANDLE comm, int *size)) \
  _(Comm_dup, (HANDLE comm, HANDLE * made)) \
  _(Comm_set_errhandler, (HANDLE comm, HANDLE handler)) \
  _(Comm_group, (HANDLE comm, HANDLE * group)) \
  _(Group_incl, (HANDLE group, int n, const int *ranks, HANDLE *made)) \
  _(Comm_create_group, (HANDLE comm, HANDLE group, int tag, HANDLE *made)) \
  _(Isend, (const void *p, int n, HANDLE type, int to, int tag, HANDLE comm, HANDLE *request)) \
  _(Irecv, (void *p, int n, HANDLE type, int from, int tag, HANDLE comm, HANDLE *request)) \
  _(Test, (HANDLE * request, int *done, void *status)) \
  _(Cancel, (HANDLE * request)) \
  _(Iallreduce, \
    (const void *x, void *y, int n, HANDLE type, HANDLE op, HANDLE comm, HANDLE *request)) \
  _(Error_string, (int code, char *text, int *length)) \
  _(Get_library_version, (char *text, int *length))

/*  op       Open MPI's symbol   MPICH's number */
#define MPI_OPS(_) \
  _(SUM_OP, "ompi_mpi_op_sum", 0x58000003) \
  _(MAX_OP, "ompi_mpi_op_max", 0x58000001) \
  _(MIN_OP, "ompi_mpi_op_min", 0x58000002) \
  _(PROD_OP, "ompi_mpi_op_prod", 0x58000004)

/* Those that MPI has; f16 and bf16 are not among them. */
#define MPI_DTYPES(_) \
  _(T_U8, "ompi_mpi_uint8_t", 0x4c00013b) \
  _(T_U16, "ompi_mpi_uint16_t", 0x4c00023c) \
  _(T_U32, "ompi_mpi_uint32_t", 0x4c00043d) \
  _(T_U64, "ompi_mpi_uint64_t", 0x4c00083e) \
  _(T_I8, "ompi_mpi_int8_t", 0x4c000137) \
  _(T_I16, "ompi_mpi_int16_t", 0x4c000238) \
  _(T_I32, "ompi_mpi_int32_t", 0x4c000439) \
  _(T_I64, "ompi_mpi_int64_t", 0x4c00083a) \
  _(T_F32, "ompi_mpi_float", 0x4c00040a) \
  _(T_F64, "ompi_mpi_double", 0x4c00080b)

/* What a library does where a message comes or goes, which may be to call abort(): UCX does so where it reads memory of a
** process that has just been killed. */
#define GUARDED(call) \
  if (sigsetjmp(*ty_dist_arm(), 0)) return MPI_ABORTED; \
  return ty_dist_disarm(call)

/* --- Open MPI */

static void *opened;

typedef void *Handle_openmpi;
#define ABI(name) name##_openmpi
#define HANDLE Handle_openmpi
#define CONSTANT(symbol, number) ty_library_symbol(opened, symbol)
#define REQUEST object
#define IGNORE NULL
#define ANY -1
static void *errors_return_openmpi(void) {
  return ty_library_symbol(opened, "ompi_mpi_errors_return");
}
#include "dist/mpi_abi.h"
#undef ABI
#undef HANDLE
#undef CONSTANT
#undef REQUEST
#undef IGNORE
#undef ANY

/* --- MPICH */

#define ABI(name) name##_mpich
#define HANDLE int
#define CONSTANT(symbol, number) (number)
#define REQUEST number
#define IGNORE ((void *)1)
#define ANY -2
static int errors_return_mpich(void) { return 0x54000001; }
#include "dist/mpi_abi.h"

const Mpi *ty_mpi_open(const char *const *names, const char **err) {
  static char text[320];
  *err = text;
  if (!(opened = ty_dist_library(names))) {
    ty_system_format(text, sizeof text, "%.200s was not found: is an MPI library installed?",
                     names[0]);
    return NULL;
  }
  const Mpi *mpi = ty_library_symbol(opened, "ompi_mpi_comm_world") ? &mpi_openmpi : &mpi_mpich;
  const char *missing = mpi->open(opened);
  if (!missing) return mpi;
  ty_system_format(text, sizeof text, "the MPI library has no %.100s: it is older than MPI 3",
                   missing);
  return NULL;
}
