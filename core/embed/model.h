/*
** model.h -- a model of the C API: its arguments, its calls, its results.
*/
#ifndef TY_EMBED_MODEL_H
#define TY_EMBED_MODEL_H

#include "embed/embed.h"

/* What is under numbers in a model's record (lua/tycho/embed.lua). */
enum {
  RECORD_ANSWER = 1,
  RECORD_BORROWED,
  RECORD_CALL,
  RECORD_WARM,
  RECORD_INPUTS,
  RECORD_DEADLINE,
  RECORD_RUN /* of the call that ty_start began */
};

/* The functions on a model's thread; the results of the last call follow. */
enum {
  MODEL_RUN = 1,
  MODEL_LEAVE,
  MODEL_START,
  MODEL_STEP,
  MODEL_CANCEL,
  MODEL_FUNCTIONS = MODEL_CANCEL
};

/* An argument's tensor, which serves the next call if nobody else has come to know it. */
typedef struct Input {
  Tensor *t; /* its handle, in the table of inputs; NULL: none */
  bool lent; /* over the host's memory; clean: of the last call, nothing points to it */
} Input;

typedef struct Outcome {
  ty_array array;
  Buffer *held; /* what data points to; NULL: no tensor */
  Tensor *own;  /* a handle that nobody else has; NULL: others may */
} Outcome;

struct Model {
  Universe *U;
  ty_model *handle;
  Model *next, **prev;
  lua_State *L;       /* its thread: functions, then the results of the last call */
  int anchor, record; /* in the registry: of the thread; of what embed.lua knows of it */
  bool keeps;         /* its traces put arguments where others find them: memory is not borrowed */
  bool compiled;      /* the last call was answered by a trace */
  Input input[TY_ARGUMENTS_MAX];
  Outcome *result;
  int nresults, room;
  /* of the call in progress */
  const ty_array *argument;
  int narguments;
  bool warms;
  /* of the call that ty_start began */
  bool started;
  i64 left;      /* of its time, ns; 0: there is no limit */
  double budget; /* of the step in progress, microseconds; below 0: to the end */
  bool done;     /* the step has ended it */
};

/* The model whose function runs. */
static inline Model *ty_embed_running(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(3));
}

/* array.c: pushes the argument as a value of Lua's; tensors over memory of the host's where `lend`, else copies. A clean
** tensor of the call before is taken again. Raises. */
void ty_embed_push_argument(lua_State *L, Model *m, int i, bool lend, int inputs);
/* Whether the array can be one; else TY_INVALID and why. */
ty_status ty_embed_check(const ty_array *a, const char *who, int i);
/* Reads the value at index i of L as result k; own: it is a tensor's handle that nobody else has. Raises. */
void ty_embed_read(lua_State *L, Model *m, int i, int k, bool own);

/* result.c: results from index `first` on, of which `own` are handles that nobody else has, become the model's. Raises. */
void ty_embed_read_results(lua_State *L, Model *m, int first, u64 own);
void ty_embed_drop_results(Model *m);

/* deadline.c: from now on operations raise when so many ns are over, until the end. */
void ty_embed_deadline_begin(lua_State *L, const Model *m, i64 left);
void ty_embed_deadline_end(lua_State *L, const Model *m);
/* And Lua code between them, until it ends: where there is a deadline, Binding.watch. */
void ty_embed_watch(lua_State *L, void *universe);
void ty_embed_unwatch(lua_State *L, const Universe *U);

/* call.c: the model, for a call that is to begin with these arguments: none that was started is under way. NULL: *y says
** why. */
Model *ty_embed_enter(const ty_model *model, const ty_array *argument, int n, const char *who,
                      Slot **lock, ty_status *y);
void ty_embed_push_arguments(lua_State *L, Model *m, bool lend, int inputs);
void ty_embed_drop_inputs(Model *m);
/* Calls a function of the model's thread: its results are on top. Else the status, and the stack is as it was. */
ty_status ty_embed_protected(Model *m, int function);
int ty_embed_run(lua_State *L);
int ty_embed_leave(lua_State *L);

/* steps.c */
int ty_embed_start(lua_State *L);
int ty_embed_step(lua_State *L);
int ty_embed_cancel(lua_State *L);
/* The call that was started is left undone. */
void ty_embed_end_run(Model *m);

#endif
