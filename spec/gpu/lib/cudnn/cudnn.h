/*
** cudnn.h -- what the files of the stand-in of cuDNN share: statuses, kinds and names of attributes as in cudnn_graph_v9.h, descriptors,
** and operation graphs as plain data, which checks (graph.c) and the interpreter (run.c) work on.
*/
#ifndef SOFT_CUDNN_H
#define SOFT_CUDNN_H

#include <stdbool.h>
#include <stdint.h>

#include "../../reach.h"

#define CALL __attribute__((visibility("default"))) int
#define EXPORT __attribute__((visibility("default")))

enum Status {
  SUCCESS,
  NOT_INITIALIZED = 1001,
  BAD_PARAM = 2000,
  NULL_POINTER = 2002,
  MISALIGNED_POINTER = 2003,
  NOT_FINALIZED = 2004,
  OUT_OF_BOUND = 2005,
  SIZE_INSUFFICIENT = 2006,
  STREAM_MISMATCH = 2007,
  SHAPE_MISMATCH = 2008,
  DUPLICATED_ENTRIES = 2009,
  ATTRIBUTE_TYPE = 2010,
  DESCRIPTOR_TYPE = 2012,
  NOT_SUPPORTED = 3000,
  UNSUPPORTED_PATTERN = 3001,
  UNSUPPORTED_SHAPE = 3002,
  UNSUPPORTED_TYPE = 3003,
  UNSUPPORTED_LAYOUT = 3004,
  ARCH_MISMATCH = 3007,
  HOST_ALLOCATION_FAILED = 4003,
  EXECUTION_FAILED = 5000
};

enum Kind {
  POINTWISE = 0,
  ENGINE = 2,
  ENGINECFG = 3,
  ENGINEHEUR = 4,
  PLAN = 5,
  KNOB_CHOICE = 7,
  OP_POINTWISE = 13,
  GRAPH = 15,
  PACK = 16,
  TENSOR = 17,
  MATMUL = 18,
  OP_MATMUL = 19,
  REDUCTION = 21,
  OP_REDUCTION = 22,
  KERNEL_CACHE = 34
};

enum Type { /* of attributes */
            T_HANDLE,
            T_DATA_TYPE,
            T_BOOLEAN,
            T_INT64,
            T_FLOAT,
            T_DOUBLE,
            T_VOID_PTR,
            T_HEUR_MODE = 8,
            T_KNOB_TYPE = 9,
            T_NUMERICAL_NOTE = 11,
            T_POINTWISE_MODE = 14,
            T_DESCRIPTOR = 15,
            T_REDUCTION_OPERATOR = 18,
            T_BEHAVIOR_NOTE = 19,
            T_INT32 = 23
};

enum Data { D_FLOAT = 0, D_HALF = 2, D_INT32 = 4, D_BFLOAT16 = 9, D_BOOLEAN = 11 };

enum Name { /* of attributes */
            PW_MODE = 0,
            PW_PREC = 1,
            PW_AXIS = 9,
            HEUR_MODE = 200,
            HEUR_GRAPH = 201,
            HEUR_RESULTS = 202,
            CFG_ENGINE = 300,
            CFG_KNOBS = 302,
            PLAN_HANDLE = 400,
            PLAN_CFG = 401,
            PLAN_WORKSPACE = 402,
            PLAN_CACHE = 406,
            KNOB_TYPE = 600,
            KNOB_VALUE = 601,
            OP_PW = 750,
            OP_PW_X = 751,
            OP_PW_B = 752,
            OP_PW_Y = 753,
            OP_PW_ALPHA1 = 754,
            OP_PW_ALPHA2 = 755,
            OP_PW_T = 758,
            GRAPH_HANDLE = 800,
            GRAPH_OPS = 801,
            GRAPH_ENGINES = 802,
            GRAPH_DYNAMIC = 803,
            TENSOR_ALIGNMENT = 900,
            TENSOR_TYPE = 901,
            TENSOR_DIMS = 902,
            TENSOR_STRIDES = 903,
            TENSOR_UID = 906,
            TENSOR_VIRTUAL = 907,
            TENSOR_BY_VALUE = 908,
            PACK_UIDS = 1000,
            PACK_POINTERS = 1001,
            PACK_WORKSPACE = 1003,
            ENGINE_GRAPH = 1300,
            ENGINE_INDEX = 1301,
            ENGINE_NUMERICAL_NOTE = 1303,
            ENGINE_BEHAVIOR_NOTE = 1305,
            MM_COMP = 1500,
            MM_PADDING = 1503,
            OP_MM_A = 1520,
            OP_MM_B = 1521,
            OP_MM_C = 1522,
            OP_MM = 1523,
            RED_OP = 1600,
            RED_COMP = 1601,
            OP_RED_X = 1610,
            OP_RED_Y = 1611,
            OP_RED = 1612,
            CACHE_GRAPH = 2400
};

enum Mode { /* of maps */
            M_ADD = 0,
            M_MUL = 1,
            M_MIN = 2,
            M_MAX = 3,
            M_SQRT = 4,
            M_DIV = 6,
            M_SUB = 9,
            M_ABS = 10,
            M_EXP = 13,
            M_LOG = 15,
            M_NEG = 16,
            M_IDENTITY = 21,
            M_RECIPROCAL = 22,
            M_EQ = 300,
            M_NEQ = 301,
            M_GT = 302,
            M_GE = 303,
            M_LT = 304,
            M_LE = 305,
            M_AND = 400,
            M_OR = 401,
            M_NOT = 402,
            M_INDEX = 501,
            M_SELECT = 601
};
enum Reduce { R_ADD = 0, R_MUL = 1, R_MIN = 2, R_MAX = 3 };

enum {
  RANK = 8,
  TENSORS = 64,
  STEPS = 32,
  VALUES = 8,
  ENGINES = 6,
  KNOBS = 4,
  NONDETERMINISTIC = 4
};

typedef struct Tensor {
  int64_t uid;
  int type, rank;
  int64_t dims[RANK], strides[RANK], alignment;
  bool virtual, by_value;
} Tensor;

/* One operation; operands are places in the graph's tensors, -1 where there is none. */
typedef struct Step {
  int kind, mode, prec, axis;
  int x, b, t, y;
} Step;

typedef struct Graph {
  int n, steps;
  bool dynamic; /* its sizes: kernels may be kept for others */
  Tensor tensors[TENSORS];
  Step step[STEPS];
} Graph;

/* What a plan does with a graph beside it: engine and knobs decide the order of sums. */
typedef struct Config {
  int64_t engine;
  int knobs, type[KNOBS];
  int64_t value[KNOBS];
} Config;

typedef struct Shared { /* a graph, and how many descriptors hold it */
  int holders;
  Graph graph;
} Shared;

typedef struct Value {
  int64_t n;
  void *data;
} Value;

typedef struct Descriptor {
  int magic, kind;
  bool final;
  Value values[VALUES]; /* one for each of the kind's attributes */
  Tensor tensor;        /* these are filled in when it is finalized */
  Step step;
  const struct Descriptor *of[4]; /* tensors of an operation: x, b, t, y */
  Shared *graph;
  Config config;
  int64_t workspace;
  uint64_t kernels; /* of a cache: a bit for each engine that has one */
} Descriptor;

/* cudnn.c */
int fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
const Value *value_of(const Descriptor *d, int name);
const Descriptor *descriptor_of(const Descriptor *d, int name);
int64_t number_of(const Descriptor *d, int name, int64_t otherwise);

void put(Descriptor *d, int name, int64_t n, const void *values);
bool is_live(const Descriptor *d);
void hold(Descriptor *d, Shared *graph);
int setting(const char *name, int otherwise);
int injected(const char *name, int *count, int status);

/* graph.c: what a descriptor says, checked when it is finalized */
int finalize_tensor(Descriptor *d);
int finalize_pointwise(Descriptor *d);
int finalize_matmul(Descriptor *d);
int finalize_reduction(Descriptor *d);
int finalize_op(Descriptor *d);
int finalize_graph(const Descriptor *d, Graph *g);

/* support.c: whether an engine takes the graph */
int graph_supported(const Graph *g);
bool graph_packed(const Graph *g);

/* plan.c: what is chosen, and what a caller's descriptors are filled with */
int rank_of(int64_t engine);
int finalize_heuristics(Descriptor *d);
int finalize_engine(Descriptor *d);
int finalize_config(Descriptor *d);
int finalize_plan(Descriptor *d);
int finalize_cache(Descriptor *d);
int give_engine(const Descriptor *cfg, int64_t n, int64_t *found, void *values);
int give_knobs(const Descriptor *cfg, int64_t n, int64_t *found, void *values);
int give_results(const Descriptor *heur, int64_t n, int64_t *found, void *values);

/* run.c */
int64_t size_of(int type);
int64_t span_of(const Tensor *t); /* bytes from its first element to the end of its last */
int64_t elements_of(const Tensor *t);
typedef struct Work {
  Graph graph;
  Config config;
  uint64_t at[TENSORS];  /* addresses of what is bound */
  float number[TENSORS]; /* what is by value */
  uint64_t workspace;
  int64_t workspace_bytes;
} Work;
void work_run(void *work); /* and frees it */

#endif
