/*
** catch.c -- a game loop at 60 frames a second whose player learns while it plays. Build and run, in this directory:
**   cc catch.c $(pkg-config --cflags --libs tycho) -o catch && ./catch
** or with the static library: cc catch.c -I../../build/include ../../build/libtycho.a -lm -ldl -lpthread -o catch
** Usage: catch [frames = 600] [budget = 1500 microseconds a frame] [catch.lua]
**
** Balls fall and bounce off two walls; below each a paddle goes where the model says that the ball will land. A step of
** training takes longer than a frame has room for: ty_step goes on with it for what is left of the frame's budget. The table says
** how long frames were in Tycho, and how many balls were caught.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tycho.h>

enum { BALLS = 64, BATCH = 256, MEMORY = 8192, TRAIL = 64, FPS = 60 };
static const float DT = 1.0f / FPS, GRAVITY = 1.5f, REACH = 0.08f, SPEED = 1.2f;

typedef struct Ball {
  float state[4]; /* x, height, speeds */
  float paddle;
  float trail[TRAIL][4]; /* its states so far */
  int seen;
} Ball;

static Ball ball[BALLS];
static float remembered[MEMORY][4], landed[MEMORY];
static int nremembered;

static float random_between(float a, float b) {
  return a + (b - a) * (float)rand() / (float)RAND_MAX;
}

static double now(void) { /* microseconds */
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void wait_until(double when) {
  const double left = when - now();
  struct timespec t;
  t.tv_sec = (time_t)(left > 0 ? left * 1e-6 : 0);
  t.tv_nsec = left > 0 ? (long)((left - (double)t.tv_sec * 1e6) * 1e3) : 0;
  nanosleep(&t, NULL);
}

static void drop(Ball *b) {
  b->state[0] = random_between(0, 1), b->state[1] = 1;
  b->state[2] = random_between(-0.8f, 0.8f), b->state[3] = random_between(-0.3f, 0.3f);
  b->seen = 0;
}

/* What was seen of a ball that has landed is what the model learns from. */
static void remember(const Ball *b) {
  for (int i = 0; i < b->seen; i++, nremembered++) {
    memcpy(remembered[nremembered % MEMORY], b->trail[i], sizeof b->trail[i]);
    landed[nremembered % MEMORY] = b->state[0];
  }
}

/* One frame of a ball and of its paddle, which goes to `target`. Gives 1 where it was caught, 0 where not, -1: it falls. */
static int move(Ball *b, float target) {
  float *s = b->state, way = target - b->paddle;
  const float most = SPEED * DT;
  if (b->seen < TRAIL) memcpy(b->trail[b->seen++], s, sizeof b->state);
  b->paddle += way > most ? most : way < -most ? -most : way;
  s[0] += s[2] * DT, s[1] += s[3] * DT, s[3] -= GRAVITY * DT;
  if (s[0] < 0 || s[0] > 1) s[0] = s[0] < 0 ? -s[0] : 2 - s[0], s[2] = -s[2];
  if (s[1] > 0) return -1;
  remember(b);
  const float off = b->paddle - s[0];
  drop(b);
  return off < REACH && off > -REACH;
}

static int failed(const char *what, ty_status status) {
  if (status) fprintf(stderr, "%s: %s: %s\n", what, ty_status_name(status), ty_error());
  return status != TY_OK;
}

/* Goes on with learning for as long as the frame has time. `under_way`: a step of training was begun. */
static ty_status learn(ty_model *m, int *under_way, double until, int *steps) {
  static float state[BATCH][4], target[BATCH];
  ty_status s = TY_OK;
  int done = 1;
  while (!s && done && now() < until && nremembered >= BATCH) {
    if (!*under_way) {
      const int n = nremembered < MEMORY ? nremembered : MEMORY;
      for (int i = 0; i < BATCH; i++) {
        const int k = rand() % n;
        memcpy(state[i], remembered[k], sizeof state[i]);
        target[i] = landed[k];
      }
      const ty_array in[2] = {ty_matrix(TY_F32, state, BATCH, 4), ty_vector(TY_F32, target, BATCH)};
      s = ty_start(m, in, 2);
      *under_way = !s;
    }
    const double left = until - now();
    if (!s) s = ty_step(m, left > 0 ? (int64_t)left : 0, &done);
    if (!s && done) *under_way = 0, ++*steps;
  }
  return s;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Both functions are captured while the game loads. */
static int warm_up(ty_model *player, ty_model *learner) {
  static const float state[BATCH][4], target[BATCH];
  const ty_array balls = ty_matrix(TY_F32, state, BALLS, 4),
                 in[2] = {ty_matrix(TY_F32, state, BATCH, 4), ty_vector(TY_F32, target, BATCH)};
  return failed("warmup", ty_warmup(player, &balls, 1)) ||
         failed("warmup", ty_warmup(learner, in, 2));
}

int main(int argc, char **argv) {
  const int frames = argc > 1 ? atoi(argv[1]) : 600;
  const double budget = argc > 2 ? atof(argv[2]) : 1500;
  ty_engine *engine = NULL;
  ty_model *player, *learner;
  if (frames < 4 * FPS || failed("open", ty_open(NULL, &engine)) ||
      failed("load", ty_load(engine, argc > 3 ? argv[3] : "catch.lua", NULL, &player)) ||
      failed("learn", ty_method(player, "learn", &learner)) || warm_up(player, learner))
    return 1;
  double *took = malloc(sizeof *took * (size_t)frames), begin = now();
  int under_way = 0, steps = 0, fell[2] = {0, 0}, caught[2] = {0, 0}, late = 0;
  if (!took) return 1;
  for (int i = 0; i < BALLS; i++) drop(&ball[i]), ball[i].paddle = 0.5f;

  for (int frame = 0; frame < frames; frame++) {
    static float state[BALLS][4];
    ty_array in = ty_matrix(TY_F32, state, BALLS, 4), y;
    for (int i = 0; i < BALLS; i++) memcpy(state[i], ball[i].state, sizeof state[i]);

    const double start = now();
    if (failed("call", ty_call(player, &in, 1)) || failed("result", ty_result(player, 0, &y)) ||
        failed("learn", learn(learner, &under_way, start + budget, &steps)))
      return 1;
    took[frame] = now() - start;

    const int later = frame >= 2 * FPS; /* at first nothing is known */
    for (int i = 0; i < BALLS; i++) {
      const int outcome = move(&ball[i], ((const float *)y.data)[i]);
      fell[later] += outcome >= 0, caught[later] += outcome == 1;
    }
    if (frame == frames - 2 * FPS) fell[1] = caught[1] = 0; /* the last two seconds count */
    late += now() > begin + (frame + 1) * 1e6 / FPS;
    wait_until(begin + (frame + 1) * 1e6 / FPS);
  }

  qsort(took, (size_t)frames, sizeof *took, compare);
  printf("frames          %d at %d a second, %d of them late\n", frames, FPS, late);
  printf("in Tycho        median %.2f ms, 99 of 100 below %.2f ms, budget %.2f ms\n",
         took[frames / 2] * 1e-3, took[frames * 99 / 100] * 1e-3, budget * 1e-3);
  printf("training        %d steps of %d samples\n", steps, BATCH);
  printf("caught          %.0f of 100 in the first two seconds, %.0f in the last two\n",
         100.0 * caught[0] / (fell[0] ? fell[0] : 1), 100.0 * caught[1] / (fell[1] ? fell[1] : 1));
  free(took);
  return failed("close", ty_close(engine));
}
