/*
** tycho.h -- Tycho inside of C and C++ programs: models written in Lua, called with arrays.
**
**   ty_engine *e;
**   ty_model *m;
**   float x[4] = {1, 2, 3, 4};
**   ty_array in = ty_matrix(TY_F32, x, 1, 4), out;
**   if (ty_open(NULL, &e) || ty_load(e, "model.lua", "model.safetensors", &m) ||
**       ty_call(m, &in, 1) || ty_result(m, 0, &out))
**     fprintf(stderr, "%s\n", ty_error());
**   else use((const float *)out.data, out.shape);
**   ty_close(e);
**
** Build: cc main.c $(pkg-config --cflags --libs tycho), or cc main.c libtycho.a -lm -ldl -lpthread. No LuaJIT need be
** linked: where none is, libluajit-5.1.so.2 is opened, on Windows lua51.dll. The Lua part of the library lies inside; there is no search path.
**
** Handles. ty_engine, ty_model, ty_weights are handles, not addresses: one that was closed, or never was one, is told,
** and its use gives TY_CLOSED. NULL is such a one.
** Errors. Each function that can fail returns a code, TY_OK is 0, and leaves a sentence for ty_error. What failed has
** changed nothing that the caller can see, and the handle is as good as before. No function prints, ends the process,
** raises a signal, or asks for the locale. Texts are UTF-8, on Windows paths too.
** Threads. An engine with its models is used by one thread at a time, by different ones one after the other; a call
** that finds another one in progress gives TY_BUSY. Different engines work at the same time: one model in many threads
** is one engine and one ty_load for each thread, which share weights (ty_weights_load). The engines of a process share
** the threads that work inside of a call, machine code, and the cache of buffers.
** Environment variables that begin with TYCHO_ are read, for development: TYCHO_THREADS, TYCHO_DUMP (which writes to stderr).
** Sizes are counts of elements, strides too; memory is in bytes, time in microseconds. Indices count from 0.
*/
#ifndef TYCHO_H
#define TYCHO_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) && !defined(_WIN32)
#define TY_API __attribute__((visibility("default")))
#else
#define TY_API
#endif

typedef struct ty_engine ty_engine; /* a Lua universe with the library in it */
typedef struct ty_model ty_model; /* a compiled function of it, and the results of its last call */
typedef struct ty_weights ty_weights; /* tensors by name, which never change; for any engine */
struct lua_State;

typedef enum ty_status {
  TY_OK = 0,
  TY_INVALID,   /* an argument is NULL, out of range, of a dtype or shape that there is not */
  TY_CLOSED,    /* no handle, or what it stood for was closed */
  TY_BUSY,      /* another call works with this engine, on another thread or around this one */
  TY_NO_LUAJIT, /* there is none, or one that cannot be used: ty_error says what is missing */
  TY_NO_MEMORY, /* the system's, or the engine's limit */
  TY_TIMEOUT,   /* the engine's limit for a call is over */
  TY_FAILED /* Lua raised an error: a file that is not there, wrong shapes; file:line and what was wrong */
} ty_status;

typedef enum ty_dtype {
  TY_NIL = 0, /* Lua's nil: a result that there is not */
  TY_BOOL,    /* one byte, 0 or 1 */
  TY_U8,
  TY_I8,
  TY_I16,
  TY_I32,
  TY_I64,
  TY_F16,
  TY_BF16,
  TY_F32,
  TY_F64,
  TY_U16,
  TY_U32,
  TY_U64,
  TY_C64,  /* pairs of TY_F32, the real part first, as C's float _Complex */
  TY_C128, /* pairs of TY_F64 */
  TY_NUMBER, /* a number of Lua's, in `number`; a compiled model takes another one without another capture */
  TY_LOGICAL, /* a boolean of Lua's: `number` is 0 or not */
  TY_TEXT     /* a string of Lua's: shape[0] bytes at data; results end in a zero byte, too */
} ty_dtype;

#define TY_RANK_MAX 8

/* An argument, or a result. From TY_BOOL to TY_C128 it is a tensor of `rank` sizes, whose elements lie row by row at data,
** or as strides say. Set unused fields to zero (ty_array a = {0}), or use the functions below. */
typedef struct ty_array {
  ty_dtype dtype;
  int rank;         /* 0: one element */
  const void *data; /* may be NULL where there are no elements; at any address */
  int64_t shape[TY_RANK_MAX];
  int64_t strides[TY_RANK_MAX]; /* in elements, of any sign; read only if `strided` */
  int strided;
  int copy;         /* arguments: see ty_call */
  double number;    /* TY_NUMBER, TY_LOGICAL */
  const char *name; /* results of a table: their key, or NULL; arguments: NULL */
} ty_array;

/* The version as text, "0.1.0". */
TY_API const char *ty_version(void);

/* What went wrong in the calling thread's last call that failed: one sentence, UTF-8, at most 2 KB; "" before any.
** It holds until the thread's next call that fails. */
TY_API const char *ty_error(void);

/* The code's name, "TY_TIMEOUT". */
TY_API const char *ty_status_name(ty_status status);

/* ---- the process ---------------------------------------------------------------------------- */

/* What the host does in the library's place. Zero where the library is to do it itself. */
typedef struct ty_host {
  void *ctx; /* the first argument of all */
  /* Memory, from any thread: of tensors, of the engines and of Lua states that they make; not machine code, stacks of
  ** threads, and what readers of files need while they read. align is a power of two, up to 4 MB. allocate answers NULL
  ** where there is none; bytes of release are those that were asked for. */
  void *(*allocate)(void *ctx, size_t bytes, size_t align);
  void (*release)(void *ctx, void *p, size_t bytes);
  /* job(arg, i) once for each i from 0 to n - 1, in any order, on any threads, at the same time or not; returns when all
  ** have returned. It is called by the threads that call models, several at a time. Jobs neither fail nor wait for each
  ** other. `threads` is how many run at a time: a call is cut by that. */
  void (*run_jobs)(void *ctx, int n, void (*job)(void *arg, int i), void *arg);
  int threads; /* with run_jobs, at least 1; without: how many the library may use, 0: one a processor */
} ty_host;

/* Before the first ty_open; later TY_BUSY. NULL, or what stands in it when it returns, is copied. TY_INVALID: one of
** allocate and release without the other; run_jobs without threads. */
TY_API ty_status ty_setup(const ty_host *host);

/* ---- engines -------------------------------------------------------------------------------- */

/* One line about a function that runs without being compiled. Called inside of calls of the engine's, which it may not
** call; text holds until it returns. */
typedef void ty_log_fn(void *ctx, const char *text);

typedef struct ty_options {
  /* The host's own Lua state, with its libraries open (luaL_openlibs): the engine lives in it, `require "tycho"` gives it
  ** there, and ty_close leaves it open. The state outlives the engine. NULL: the engine makes one. */
  struct lua_State *lua;
  const char *
      luajit; /* the shared library to open where the program has none linked; NULL: by its usual name */
  ty_log_fn *log; /* NULL: nobody is told */
  void *log_ctx;
  int64_t memory;       /* see ty_limit */
  int64_t microseconds; /* see ty_limit */
  /* Where models work: "cuda", "cuda:1" by NVIDIA's driver alone; NULL or "cpu": the CPU. What their Lua code makes lies there
  ** unless it says otherwise; weights, modules and arguments are copied there, results back when a call ends. */
  const char *device;
} ty_options;

/* Opens an engine. options: NULL, or read while it runs. Fails with TY_INVALID, TY_NO_LUAJIT, TY_NO_MEMORY; TY_FAILED
** where the host's state lacks libraries, or has loaded Tycho from elsewhere, and where the device is not there. */
TY_API ty_status ty_open(const ty_options *options, ty_engine **engine);

/* Closes the engine with all of its models; results of theirs are gone. */
TY_API ty_status ty_close(ty_engine *engine);

/* Which LuaJIT runs, and where it was found: "LuaJIT 2.1.0-beta3 (libluajit-5.1.so.2, opened at run time)". The text holds as long as
** the engine. */
TY_API ty_status ty_luajit(ty_engine *engine, const char **text);

/* What models may take from now on; 0: as much as there is.
** bytes: of tensors and of what a call needs beside them. Beyond it garbage is collected, and then the call fails with
** TY_NO_MEMORY. What lives already counts. Shared weights and borrowed arguments do not.
** microseconds: of one ty_call. Later the call fails with TY_TIMEOUT: in operations, between them, and in loops of Lua
** code, which is interpreted in such a call where no compiled code answers it. A capture that takes longer is given up and
** waits for ty_warmup, which has no limit; loading has none, either. */
TY_API ty_status ty_limit(ty_engine *engine, int64_t bytes, int64_t microseconds);

/* Bytes of tensors that the engine holds at the moment, as ty_limit counts. */
TY_API ty_status ty_memory(ty_engine *engine, int64_t *bytes);

/* ---- weights -------------------------------------------------------------------------------- */

/* The tensors of a file (.safetensors, .npz, .npy ...) or a directory of safetensors, by name, once for the process: models
** of all engines that are loaded with them share the memory. They are read by the engine, and outlive it. */
TY_API ty_status ty_weights_load(ty_engine *engine, const char *path, ty_weights **weights);

/* Lets go of them: they stay as long as models use them. */
TY_API ty_status ty_weights_free(ty_weights *weights);

/* ---- models --------------------------------------------------------------------------------- */

typedef struct ty_source {
  const char *path;    /* of a Lua file; or NULL: */
  const char *text;    /* Lua source, ... */
  size_t length;       /* ... so long; 0: it ends in a zero byte */
  const char *name;    /* of the text, for errors; NULL: "model" */
  const char *file;    /* of weights; or NULL */
  ty_weights *weights; /* or these, shared; or NULL */
  const char *
      options; /* of jit.compile, as the inside of a Lua table: "dynamic = true, fullgraph = true"; or NULL */
} ty_source;

/* Runs a Lua file, whose `...` is the table of weights by name, or nil. What it returns is compiled, and called by ty_call:
** a function; a table with `forward`, which gets the table as its first argument; a module of ty.nn, which takes up the
** weights by itself (load_state_dict) and is called without gradients. weights: the path of a file or a directory, as
** ty_weights_load reads it, or NULL. Fails with TY_FAILED where a file cannot be read, Lua raises, or what is returned
** cannot be called. */
TY_API ty_status ty_load(ty_engine *engine, const char *path, const char *weights,
                         ty_model **model);
TY_API ty_status ty_load_source(ty_engine *engine, const ty_source *source, ty_model **model);

/* Another function of the table that the model's file returned: ty_method(m, "reset", &reset). It is a model of its own,
** compiled apart, over the same table. */
TY_API ty_status ty_method(ty_model *model, const char *name, ty_model **method);

/* Lets go of the model and its results. */
TY_API ty_status ty_unload(ty_model *model);

/* Further arguments of a call are refused. */
#define TY_ARGUMENTS_MAX 64

/* Calls the model with n arguments, at most TY_ARGUMENTS_MAX; results are asked for by ty_result.
** Memory of tensors is borrowed for the call: it is never written, nobody reads it after the call, and others may not
** write it meanwhile. Where the model may keep an argument, or runs as Lua, elements are copied before it sees them; so
** are those with strides, those that are not aligned to their size, and all with copy = 1.
** TY_INVALID: an argument is no array (which one, and why); TY_FAILED: the model raised, and what it wrote before that is
** written. The results of the call before are gone, also where this one fails in Lua. */
TY_API ty_status ty_call(ty_model *model, const ty_array *arguments, int n);

/* ty_call, until such arguments are answered without running Lua, four times at most, without the limit of time: before
** it counts. What the model writes is written. */
TY_API ty_status ty_warmup(ty_model *model, const ty_array *arguments, int n);

/* ---- calls beside a frame loop -------------------------------------------------------------- */

/* ty_call in slices of time: ty_start begins it, and runs nothing; ty_step goes on with it for so many microseconds, below
** 0 to its end, and says whether it is `done`; then results are those of ty_call, to the bit. One call of a model is under
** way at a time, and ty_call and ty_warmup wait for its end (TY_BUSY); those of other models, and of other functions of its
** table (ty_method), may go on between steps.
** A call that compiled code answers (ty_warmup) stops between tiles, some 0.1 ms; what runs as Lua is not stopped: ty_was_compiled
** tells. Until it is done nothing is seen of it: neither weights that it learns nor results, which are those of the call
** before. What it reads is what was there when it began, arguments are copied; what it writes must not be written by others
** meanwhile, else it fails and writes nothing.
** ty_step fails with TY_INVALID where no call is under way, with what ty_call fails with, and with TY_TIMEOUT where the steps have
** taken more than the engine's limit together; the call has ended then. */
TY_API ty_status ty_start(ty_model *model, const ty_array *arguments, int n);
TY_API ty_status ty_step(ty_model *model, int64_t microseconds, int *done);

/* Leaves undone what was not done yet, if a call is under way; results are those of the call before. */
TY_API ty_status ty_cancel(ty_model *model);

/* ---- results -------------------------------------------------------------------------------- */

/* How many results the last call has. Where a model returns one table its fields are the results: those under 1, 2 ... in
** their order, then those under names, in the names' order. */
TY_API ty_status ty_results(ty_model *model, int *n);

/* Result i, or the one under the name. Elements lie row by row at data, which is the model's, is not to be written, and holds until the
** model's next call, or the end of the model or its engine. TY_INVALID: there is none, or it is no tensor, number,
** boolean, string or nil. */
TY_API ty_status ty_result(ty_model *model, int i, ty_array *result);
TY_API ty_status ty_result_named(ty_model *model, const char *name, ty_array *result);

/* Copies the elements of result i, a tensor of that dtype and of so many bytes, or a number where they are 8 bytes of TY_F64. */
TY_API ty_status ty_result_copy(ty_model *model, int i, ty_dtype dtype, void *to, size_t bytes);

/* Whether the last call was answered by compiled code alone: 1 or 0. */
TY_API ty_status ty_was_compiled(ty_model *model, int *compiled);

/* ---- arrays --------------------------------------------------------------------------------- */

/* A tensor of `rank` sizes, row by row. More than TY_RANK_MAX give an array that ty_call refuses. */
static inline ty_array ty_tensor(ty_dtype dtype, const void *data, int rank, const int64_t *shape) {
  ty_array a;
  int d;
  memset(&a, 0, sizeof a);
  a.dtype = dtype;
  a.rank = rank;
  a.data = data;
  for (d = 0; d < rank && d < TY_RANK_MAX; d++) a.shape[d] = shape[d];
  return a;
}

static inline ty_array ty_vector(ty_dtype dtype, const void *data, int64_t n) {
  return ty_tensor(dtype, data, 1, &n);
}

static inline ty_array ty_matrix(ty_dtype dtype, const void *data, int64_t rows, int64_t columns) {
  int64_t shape[2];
  shape[0] = rows;
  shape[1] = columns;
  return ty_tensor(dtype, data, 2, shape);
}

/* A number of Lua's, such as a learning rate or the time of a frame. */
static inline ty_array ty_number(double value) {
  ty_array a = ty_tensor(TY_NUMBER, NULL, 0, NULL);
  a.number = value;
  return a;
}

#ifdef __cplusplus
}
#endif

#endif
