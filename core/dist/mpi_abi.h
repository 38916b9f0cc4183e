/*
** mpi_abi.h -- the calls of mpi.h by one of the C ABIs of MPI; mpi.c includes it once for each.
** In: ABI(name), which makes a name of this ABI's; HANDLE, the type of communicators, dtypes, requests and others;
** CONSTANT(symbol, number), a handle that the library has from the start, by either ABI's name; REQUEST, the field of
** Request; IGNORE, for MPI_STATUS_IGNORE; ANY, for MPI_ANY_SOURCE. Out: the table ABI(mpi).
*/

static struct {
#define _(name, args) int(*name) args;
  MPI_CALLS(_)
#undef _
  HANDLE team[TEAMS_MAX];
  HANDLE byte, op[MPI_OPS], dtype[T_ALL];
  bool has[T_ALL];
  int teams;
} ABI(calls);

static const char *ABI(open)(void *library) {
  void *p;
#define _(name, args) \
  p = ty_library_symbol(library, "MPI_" #name); \
  memcpy(&ABI(calls).name, &p, sizeof p); \
  if (!p) return "MPI_" #name;
  MPI_CALLS(_)
#undef _
  ABI(calls).team[0] = CONSTANT("ompi_mpi_comm_world", 0x44000000);
  ABI(calls).byte = CONSTANT("ompi_mpi_byte", 0x4c00010d);
#define _(index, symbol, value) ABI(calls).op[index] = CONSTANT(symbol, value);
  MPI_OPS(_)
#undef _
#define _(index, symbol, value) \
  ABI(calls).dtype[index] = CONSTANT(symbol, value); \
  ABI(calls).has[index] = true;
  MPI_DTYPES(_)
#undef _
  return NULL;
}

static int ABI(start)(int *rank, int *size) {
  enum { THREAD_SERIALIZED = 2 };
  int e, there = 0, level = 0;
  const HANDLE world = ABI(calls).team[0];
  if ((e = ABI(calls).Initialized(&there))) return e;
  if (!there && (e = ABI(calls).Init_thread(NULL, NULL, THREAD_SERIALIZED, &level))) return e;
  if ((e = ABI(calls).Comm_set_errhandler(world, ABI(errors_return)()))) return e;
  if ((e = ABI(calls).Comm_dup(world, &ABI(calls).team[0]))) return e;
  if ((e = ABI(calls).Comm_set_errhandler(ABI(calls).team[0], ABI(errors_return)()))) return e;
  ABI(calls).teams = 1;
  if ((e = ABI(calls).Comm_rank(ABI(calls).team[0], rank))) return e;
  return ABI(calls).Comm_size(ABI(calls).team[0], size);
}

static int ABI(finalize)(void) {
  int ended = 0, e = ABI(calls).Finalized(&ended);
  return e || ended ? e : ABI(calls).Finalize();
}

static int ABI(send)(const void *p, int bytes, int to, int tag, Request *r) {
  GUARDED(ABI(calls).Isend(p, bytes, ABI(calls).byte, to, tag, ABI(calls).team[0], &r->REQUEST));
}

static int ABI(receive)(void *p, int bytes, int from, int tag, Request *r) {
  GUARDED(ABI(calls).Irecv(p, bytes, ABI(calls).byte, from == FROM_ANY ? ANY : from, tag,
                           ABI(calls).team[0], &r->REQUEST));
}

static int ABI(test)(Request *r, int *done) { GUARDED(ABI(calls).Test(&r->REQUEST, done, IGNORE)); }

static int ABI(cancel)(Request *r) { return ABI(calls).Cancel(&r->REQUEST); }

static int ABI(team)(const int *ranks, int n, int tag, int *number) {
  HANDLE all, some;
  int e;
  if (ABI(calls).teams == TEAMS_MAX) return *number = 0;
  *number = ABI(calls).teams++;
  if ((e = ABI(calls).Comm_group(ABI(calls).team[0], &all))) return e;
  if ((e = ABI(calls).Group_incl(all, n, ranks, &some))) return e;
  if ((e = ABI(calls).Comm_create_group(ABI(calls).team[0], some, tag, &ABI(calls).team[*number])))
    return e;
  return ABI(calls).Comm_set_errhandler(ABI(calls).team[*number], ABI(errors_return)());
}

static bool ABI(takes)(int dtype) { return ABI(calls).has[dtype]; }

static int ABI(reduce)(const void *x, void *y, int n, int dtype, MpiOp op, int team, Request *r) {
  GUARDED(ABI(calls).Iallreduce(x, y, n, ABI(calls).dtype[dtype], ABI(calls).op[op],
                                ABI(calls).team[team], &r->REQUEST));
}

static void ABI(error)(int code, char *text) {
  int n = 0;
  if (ABI(calls).Error_string(code, text, &n)) n = 0;
  text[TY_MIN(n, MPI_ERROR_TEXT - 1)] = 0;
}

static void ABI(version)(char *text) {
  int n = 0;
  if (ABI(calls).Get_library_version(text, &n)) n = 0;
  text[TY_MIN(n, MPI_VERSION_TEXT - 1)] = 0;
}

static const Mpi ABI(mpi) = {ABI(open),    ABI(start),  ABI(finalize), ABI(send),
                             ABI(receive), ABI(test),   ABI(cancel),   ABI(team),
                             ABI(takes),   ABI(reduce), ABI(error),    ABI(version)};
