/*
** exchange.c -- messages between ranks that all arrive, or end in an error that names the rank.
** In:  bytes to and from other ranks.  Out: they have arrived and left, or ty_world.failure says what happened.
**
** 1. Nothing blocks in MPI: requests are tested in turn, and between tests a wait looks about: has a rank told that it has
**    failed or ended, has the launcher (a file), does the user want an end (Ctrl-C), did nothing move for too long.
** 2. Who finds that a rank is gone tells all others by a notice: one message for which each rank has a receive ready, so
**    that all of them raise the same cause, whichever rank they wait for themselves.
** 3. After a failure MPI is asked nothing any more: requests that are in progress would still write to their memory.
** 4. MPI waits in its finalizing for all ranks, and for ever. So a process that exits tells the others, and finalizes MPI
**    only where all ranks have ended well.
** 5. A message of more bytes than an int counts goes in pieces, which MPI keeps in order.
** 6. Messages travel while other work is done: what has begun is a Flight, which goes on wherever somebody waits or says
**    so (ty_world_go_on). One thread at a time calls MPI.
*/
#include "base/system.h"
#include "dist/dist.h"
#include "ir/type.h"

#include <stdio.h>

enum { NOTICE_TAG = 0, NOTICE_TEXT = 240, RANKS_NAMED = 8 };
enum {
  BUSY = 5000,
  BUSY_CROWDED = 50,
  BRIEF = 500
};                            /* tests before a wait sleeps, briefly at first */
#define LOOK_EVERY 2000000    /* nanoseconds */
#define FILE_EVERY 20000000   /* nanoseconds between looks at the launcher's file */
#define TOLD_WITHIN 500000000 /* by the launcher, behind an error of MPI's */
#define ENDED_GRACE 500000000 /* for messages of a rank that has ended, which are under way */

World ty_world = {.piece = (i64)1 << 30};

typedef struct Notice {
  i32 rank, failed; /* failed: 0 where the rank has ended */
  char text[NOTICE_TEXT];
} Notice;

static Notice incoming, outgoing;
static Request incoming_request;
static bool *ended; /* by rank */
static int nended;
static i64 first_ended, next_file;

/* The failure as this call tells it. */
static void set_failure(const char *who, const char *text) {
  ty_system_format(ty_world.failure, sizeof ty_world.failure, "%.60s: %.239s", who, text);
}

/* --- notices */

static bool listen(void) {
  return !ty_world.mpi->receive(&incoming, sizeof incoming, FROM_ANY, NOTICE_TAG,
                                &incoming_request);
}

/* Small messages leave by themselves on one machine; on a network they need a while of tests. */
static void linger(i64 nanoseconds) {
  const i64 until = ty_system_now() + nanoseconds;
  do {
    int done;
    ty_world.mpi->test(&incoming_request, &done);
    ty_dist_sleep(100000);
  } while (ty_system_now() < until);
}

static void tell(bool failed, const char *text) {
  Request r;
  int done;
  outgoing = (Notice){.rank = ty_world.rank, .failed = failed};
  ty_system_format(outgoing.text, sizeof outgoing.text, "%.239s", text);
  for (int k = 0; k < ty_world.size; k++)
    if (k != ty_world.rank && !ty_world.mpi->send(&outgoing, sizeof outgoing, k, NOTICE_TAG, &r))
      ty_world.mpi->test(&r, &done);
  if (failed) linger(20000000);
}

/* The launcher hears of it too, unless another rank was first. */
static void write_file(const char *text) {
  FILE *f = ty_world.file[0] ? fopen(ty_world.file, "wx") : NULL;
  if (!f) return;
  fprintf(f, "%s\n", text);
  fclose(f);
}

/* What has arrived. False: a rank has failed. */
static bool hear(const char *who) {
  int done = 0;
  while (!ty_world.mpi->test(&incoming_request, &done) && done) {
    const Notice n = incoming;
    if (n.failed) {
      set_failure(who, n.text);
      write_file(n.text);
      return false;
    }
    if (n.rank >= 0 && n.rank < ty_world.size && !ended[n.rank]) {
      ended[n.rank] = true;
      if (!nended++) first_ended = ty_system_now();
    }
    if (!listen()) break;
  }
  return true;
}

/* What the launcher says. False: a rank has failed. */
static bool read_file(const char *who, i64 now) {
  if (!ty_world.file[0] || now < next_file) return true;
  next_file = now + FILE_EVERY;
  FILE *f = fopen(ty_world.file, "r");
  if (!f) return true;
  char text[240];
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  while (n && text[n - 1] == '\n') n--;
  text[n] = 0;
  if (!n) return true;
  set_failure(who, text);
  return false;
}

void ty_world_fail(const char *who, const char *text) {
  if (ty_world.failure[0]) return;
  set_failure(who, text);
  write_file(text);
  tell(true, text);
}

void ty_world_fail_here(const char *who, const char *what) {
  char text[NOTICE_TEXT];
  ty_system_format(text, sizeof text, "rank %d %.200s", ty_world.rank, what);
  ty_world_fail(who, text);
}

/* Whether the launcher tells soon that a rank has ended: most errors of MPI are about that. */
static bool launcher_tells(const char *who) {
  const i64 until = ty_system_now() + TOLD_WITHIN;
  bool told = false;
  while (ty_world.file[0] && !told && ty_system_now() < until) {
    told = !read_file(who, ty_system_now());
    if (!told) ty_dist_sleep(10000000);
  }
  return told;
}

void ty_world_fail_mpi(const char *who, int code) {
  char text[MPI_ERROR_TEXT], what[NOTICE_TEXT];
  if (ty_world.failure[0] || launcher_tells(who)) return;
  if (code == MPI_ABORTED) { /* the others are told by the launcher alone */
    ty_system_format(what, sizeof what, "rank %d has no MPI any more, which has called abort()",
                     ty_world.rank);
    set_failure(who, what);
    write_file(what);
    return;
  }
  ty_world.mpi->error(code, text);
  ty_system_format(what, sizeof what, "has an error of MPI: %.180s", text);
  ty_world_fail_here(who, what);
}

/* --- waiting */

typedef struct Pending {
  Request request;
  int rank;
  bool sends;
} Pending;

struct Flight {
  const char *about; /* stands for ranks in errors, or NULL */
  Flight *next;
  i64 moved; /* when the last request was done */
  int n;
  char who[64];
  Pending p[];
};

static Flight *flights; /* those that have begun, the last one first */

/* Whether a rank is waited for: those whose messages do not come count, if there are any. */
static bool is_waiting_for(const Flight *w, int rank, bool receives) {
  for (int i = 0; i < w->n; i++)
    if (w->p[i].rank == rank && w->p[i].sends != receives) return true;
  return false;
}

/* The ranks that are waited for: "rank 2", "ranks 1, 3". */
static void name_ranks(const Flight *w, char *text, size_t room) {
  bool receives = false;
  int count = 0, named = 0;
  if (w->about) {
    ty_system_format(text, room, "%s", w->about);
    return;
  }
  for (int i = 0; i < w->n; i++) receives |= !w->p[i].sends;
  for (int rank = 0; rank < ty_world.size; rank++) count += is_waiting_for(w, rank, receives);
  size_t at = (size_t)ty_system_format(text, room, count > 1 ? "ranks" : "rank");
  for (int rank = 0; rank < ty_world.size && named < RANKS_NAMED; rank++)
    if (is_waiting_for(w, rank, receives))
      at += (size_t)ty_system_format(text + at, room - at, named++ ? ", %d" : " %d", rank);
  if (count > named) ty_system_format(text + at, room - at, " and others");
}

static void stall(const Flight *w, const char *after) {
  char ranks[120] = "", text[NOTICE_TEXT];
  name_ranks(w, ranks, sizeof ranks);
  ty_system_format(text, sizeof text, "%.119s %.60s", ranks, after);
  ty_world_fail(w->who, text);
}

/* Whether a rank that is waited for has ended. */
static bool is_waiting_for_ended(const Flight *w) {
  for (int i = 0; i < w->n; i++)
    if (w->p[i].rank >= 0 && ended[w->p[i].rank]) return true;
  return false;
}

/* False: the wait has failed. */
static bool look(const Flight *w) {
  const i64 now = ty_system_now();
  char text[60];
  if (!hear(w->who) || !read_file(w->who, now)) return false;
  if (ty_world.interrupted && ty_world.interrupted(ty_world.ctx)) {
    ty_world_fail_here(w->who, "was interrupted");
    return false;
  }
  if (nended && now - first_ended > ENDED_GRACE && now - w->moved > ENDED_GRACE &&
      is_waiting_for_ended(w)) {
    stall(w, "ended and took no part");
    return false;
  }
  if (now - w->moved <= ty_world.patience) return true;
  ty_system_format(text, sizeof text, "did not answer within %.3g s",
                   (double)ty_world.patience * 1e-9);
  stall(w, text);
  return false;
}

/* A message that is under way comes while tests spin, and so does that of a rank which is some hundred microseconds behind in
** the same step: a sleep takes 70 at least, by which the others then wait longer. Else the other rank works, or another
** process has its processor: then who sleeps lets others work, and goes on soon when he wakes, where a yield may cost a
** whole turn of another process. Ranks may outnumber processors. */
static bool is_busy(int spins) { return spins < (ty_world.crowded ? BUSY_CROWDED : BUSY); }

static void pause_after(int spins) {
  if (is_busy(spins)) ty_relax();
  else ty_dist_sleep(is_busy(spins - BRIEF) ? 20000 : 200000);
}

/* Takes out what is done. False: MPI has an error. */
static bool test(Flight *w, bool *moves) {
  for (int i = 0; i < w->n;) {
    int done = 0;
    const int e = ty_world.mpi->test(&w->p[i].request, &done);
    if (e) {
      ty_world_fail_mpi(w->who, e);
      return false;
    }
    if (done) w->p[i] = w->p[--w->n], *moves = true;
    else i++;
  }
  return true;
}

/* Until none is left. */
static bool finish(Flight *w) {
  i64 next_look = ty_system_now() + LOOK_EVERY;
  w->moved = next_look;
  for (int spins = 0; w->n; spins++) {
    bool moves = false;
    if (!test(w, &moves)) return false;
    if (moves) w->moved = next_look - LOOK_EVERY, spins = 0;
    if (!w->n) break;
    pause_after(spins);
    if (spins % 64 && is_busy(spins)) continue;
    if (ty_system_now() < next_look) continue;
    next_look = ty_system_now() + LOOK_EVERY;
    if (!look(w)) return false;
  }
  return true;
}

/* --- all messages of a tag */

static bool post(const char *who, const Message *m, int tag, Pending *p) {
  int e = 0;
  for (i64 at = 0; at < m->bytes && !e; at += ty_world.piece, p++) {
    const int bytes = (int)TY_MIN(ty_world.piece, m->bytes - at);
    *p = (Pending){.rank = m->rank, .sends = m->sends};
    e = m->sends ? ty_world.mpi->send((const u8 *)m->p + at, bytes, m->rank, tag, &p->request)
                 : ty_world.mpi->receive((u8 *)m->p + at, bytes, m->rank, tag, &p->request);
  }
  if (!e) return true;
  ty_world_fail_mpi(who, e);
  return false;
}

static i64 pieces(i64 bytes) { return (bytes + ty_world.piece - 1) / ty_world.piece; }

static Flight *flight_new(const char *who, i64 n) {
  Flight *f = ty_mem_zalloc(sizeof *f + (size_t)n * sizeof *f->p);
  if (!f) {
    ty_world_fail_here(who, "is out of memory");
    return NULL;
  }
  ty_system_format(f->who, sizeof f->who, "%.63s", who);
  f->n = (int)n;
  f->next = flights;
  return flights = f;
}

/* Of a flight that is over. */
static void flight_free(Flight *f) {
  Flight **at = &flights;
  while (*at != f) at = &(*at)->next;
  *at = f->next;
  ty_mem_free(f);
}

/* The first message to a rank behind this one: if all ranks began with the same rank, they would wait for its link, while
** others have nothing to do. */
static int begins_at(const Message *m, int n) {
  for (int i = 0; i < n; i++)
    if (m[i].rank > ty_world.rank) return i;
  return 0;
}

Flight *ty_world_begin(const char *who, const Message *m, int n, int tag) {
  if (ty_world.failure[0]) return NULL;
  i64 count = 0, at = 0;
  for (int i = 0; i < n; i++) count += pieces(m[i].bytes);
  Flight *f = flight_new(who, count);
  const int begin = begins_at(m, n);
  for (int sends = 0; sends < 2; sends++) /* what arrives finds its place */
    for (int k = 0; k < n && f; k++) {
      const Message *x = &m[(begin + k) % n];
      if (x->sends != sends) continue;
      if (!post(who, x, tag, f->p + at)) return NULL;
      at += pieces(x->bytes);
    }
  return f;
}

bool ty_world_end(Flight *f) {
  if (ty_world.failure[0] || !finish(f)) return false;
  flight_free(f);
  return true;
}

void ty_world_go_on(void) {
  bool moves = false;
  if (ty_world.failure[0]) return;
  for (Flight *f = flights; f; f = f->next)
    if (!test(f, &moves)) return;
}

bool ty_world_exchange(const char *who, const Message *m, int n, int tag) {
  Flight *f = ty_world_begin(who, m, n, tag);
  return f && ty_world_end(f);
}

Flight *ty_world_reduce(const char *who, const void *x, void *y, i64 n, int dtype, MpiOp op,
                        int team) {
  const i64 size = ty_dtypes[dtype].bytes, most = ty_world.piece / size;
  if (ty_world.failure[0]) return NULL;
  Flight *f = flight_new(who, pieces(n * size));
  i64 k = 0;
  if (f) f->about = "a rank";
  for (i64 at = 0; f && at < n; at += most) {
    Pending *p = &f->p[k++];
    p->rank = -1;
    const int e = ty_world.mpi->reduce((const u8 *)x + at * size, (u8 *)y + at * size,
                                       (int)TY_MIN(most, n - at), dtype, op, team, &p->request);
    if (!e) continue;
    ty_world_fail_mpi(who, e);
    return NULL;
  }
  if (f) f->n = (int)k;
  return f;
}

bool ty_world_until(const char *who, const int *ranks, int n, bool (*done)(void *), void *ctx) {
  Flight *f = flight_new(who, n); /* it has no requests, and nobody tests it */
  if (!f) return false;
  flights = f->next;
  f->n = 0;
  for (int i = 0; i < n; i++)
    if (ranks[i] != ty_world.rank) f->p[f->n++] = (Pending){.rank = ranks[i]};
  i64 next_look = ty_system_now() + LOOK_EVERY;
  bool ok = true;
  f->moved = next_look;
  for (int spins = 0; ok && !done(ctx); spins++) {
    pause_after(spins);
    if (ty_system_now() < next_look) continue;
    next_look = ty_system_now() + LOOK_EVERY;
    ok = look(f);
  }
  ty_mem_free(f);
  return ok;
}

/* --- beginning and end */

/* All others have ended too. False: one has failed. */
static bool all_end(void) {
  while (nended < ty_world.size - 1) {
    if (!hear("exit") || !read_file("exit", ty_system_now())) return false;
    ty_dist_sleep(100000);
  }
  return true;
}

/* No notice is waited for any more. */
static void close_world(void) {
  int done = 0;
  if (!ty_world.mpi->cancel(&incoming_request))
    for (int i = 0; i < 1000 && !done; i++)
      if (ty_world.mpi->test(&incoming_request, &done)) break;
  ty_world.mpi->finalize();
}

static void leave(int status) {
  if (ty_world.failure[0]) return; /* rule 3: what Lua has freed since would be written */
  if (status) {
    char text[60];
    ty_system_format(text, sizeof text, "rank %d has exited with status %d", ty_world.rank, status);
    write_file(text);
    tell(true, text);
    return;
  }
  tell(false, "");
  if (all_end()) close_world();
}

bool ty_world_open(const char *const *names, const char **err) {
  static char why[320];
  ty_dist_catch_abort();
  if (!(ty_world.mpi = ty_mpi_open(names, err))) return false;
  *err = why;
  const int e = ty_world.mpi->start(&ty_world.rank, &ty_world.size);
  if (e) {
    char text[MPI_ERROR_TEXT];
    ty_world.mpi->error(e, text);
    ty_system_format(why, sizeof why, "MPI does not start: %.200s", text);
    ty_world.mpi = NULL;
    return false;
  }
  if (!(ended = ty_mem_zalloc((size_t)ty_world.size)) || !listen()) {
    ty_system_format(why, sizeof why, "MPI does not start: out of memory");
    ty_world.mpi = NULL;
    return false;
  }
  ty_dist_at_exit(leave);
  return true;
}
