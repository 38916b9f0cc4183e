/*
** main.c -- a C program that calls a model written in Lua. Build and run, in this directory:
**   cc main.c $(pkg-config --cflags --libs tycho) -o embed && ./embed
** or with the static library: cc main.c -I../../build/include ../../build/libtycho.a -lm -ldl -lpthread -o embed
** for Windows (make windows): x86_64-w64-mingw32-gcc main.c -I../../build/windows/include ../../build/windows/tycho.dll -o embed.exe,
** with tycho.dll and lua51.dll beside it.
*/
#include <stdio.h>
#include <tycho.h>

static int failed(const char *what, ty_status status) {
  if (status) fprintf(stderr, "%s: %s: %s\n", what, ty_status_name(status), ty_error());
  return status != TY_OK;
}

int main(int argc, char **argv) {
  const char *model = argc > 1 ? argv[1] : "model.lua";
  const char *weights = argc > 2 ? argv[2] : "model.safetensors";
  const ty_options options = {.device = argc > 3 ? argv[3] : NULL}; /* "cuda" */
  static const float states[3][4] = {{0.1f, -0.4f, 0.7f, 0.2f}, {1, 2, 3, 4}, {-1, 0, 1, 0}};
  ty_engine *engine = NULL;
  ty_model *agent;
  const char *luajit;

  if (failed("open", ty_open(&options, &engine)) ||
      failed("load", ty_load(engine, model, weights, &agent)) ||
      failed("luajit", ty_luajit(engine, &luajit)))
    return 1;
  fprintf(stderr, "%s\n", luajit);

  for (int frame = 0; frame < 3; frame++) {
    ty_array in[2] = {ty_matrix(TY_F32, states[frame], 1, 4), ty_number(0.5)}, action, chance;
    if (failed("call", ty_call(agent, in, 2)) ||
        failed("action", ty_result_named(agent, "action", &action)) ||
        failed("chance", ty_result_named(agent, "chance", &chance)))
      return 1;
    const float *p = chance.data;
    printf("frame %d: action %lld, chances %a %a\n", frame,
           (long long)*(const int64_t *)action.data, (double)p[0], (double)p[1]);
  }
  return failed("close", ty_close(engine));
}
