/*
** embed.cpp -- the C API from C++: results, errors as exceptions, handles that close themselves.
** In: a model's file and its weights. Out: the lines that examples/embed writes.
*/
#include <cstdio>
#include <tycho.hpp>

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  static const float states[3][4] = {{0.1f, -0.4f, 0.7f, 0.2f}, {1, 2, 3, 4}, {-1, 0, 1, 0}};
  tycho::engine engine;
  tycho::model first(engine, argv[1], argv[2]), agent = std::move(first);
  for (int frame = 0; frame < 3; frame++) {
    agent({tycho::tensor(states[frame], {1, 4}), ty_number(0.5)});
    const float *p = tycho::data<float>(agent["chance"]);
    std::printf("frame %d: action %lld, chances %a %a\n", frame,
                (long long)*tycho::data<int64_t>(agent["action"]), (double)p[0], (double)p[1]);
  }
  try {
    agent({tycho::tensor(states[0], {2, 2}), ty_number(0.5)});
    return 3;
  } catch (const tycho::error &e) {
    if (e.status != TY_FAILED) return 4;
  }
  const float before = *tycho::data<float>(agent({tycho::tensor(states[1], {1, 4}), ty_number(1)})["chance"]);
  agent.start({tycho::tensor(states[1], {1, 4}), ty_number(1)});
  agent.cancel();
  agent.start({tycho::tensor(states[1], {1, 4}), ty_number(1)});
  while (!agent.step(1000)) {}
  if (*tycho::data<float>(agent["chance"]) != before) return 6;
  try {
    tycho::data<double>(agent({tycho::tensor(states[0], {1, 4}), ty_number(1)})["chance"]);
    return 5;
  } catch (const std::invalid_argument &) {}
  return 0;
}
