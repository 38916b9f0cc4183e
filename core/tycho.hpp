/*
** tycho.hpp -- the C API for C++11: handles that close themselves, errors as exceptions.
**
**   tycho::engine engine;
**   tycho::model model(engine, "model.lua", "model.safetensors");
**   const float *y = tycho::data<float>(model({tycho::tensor(x, {1, 4}), ty_number(0.5)})[0]);
**
** An engine outlives its models. Threads, lifetimes of results: tycho.h.
*/
#ifndef TYCHO_HPP
#define TYCHO_HPP

#include "tycho.h"

#include <complex>
#include <initializer_list>
#include <stdexcept>
#include <utility>

namespace tycho {

struct error : std::runtime_error {
  ty_status status;
  explicit error(ty_status s) : std::runtime_error(ty_error()), status(s) {}
};

inline void check(ty_status s) {
  if (s != TY_OK) throw error(s);
}

template <typename T> struct dtype_of;
template <> struct dtype_of<bool> { static constexpr ty_dtype value = TY_BOOL; };
template <> struct dtype_of<uint8_t> { static constexpr ty_dtype value = TY_U8; };
template <> struct dtype_of<int8_t> { static constexpr ty_dtype value = TY_I8; };
template <> struct dtype_of<int16_t> { static constexpr ty_dtype value = TY_I16; };
template <> struct dtype_of<int32_t> { static constexpr ty_dtype value = TY_I32; };
template <> struct dtype_of<int64_t> { static constexpr ty_dtype value = TY_I64; };
template <> struct dtype_of<float> { static constexpr ty_dtype value = TY_F32; };
template <> struct dtype_of<double> { static constexpr ty_dtype value = TY_F64; };
template <> struct dtype_of<std::complex<float>> { static constexpr ty_dtype value = TY_C64; };
template <> struct dtype_of<std::complex<double>> { static constexpr ty_dtype value = TY_C128; };

/* An argument over the caller's elements, row by row. */
template <typename T> ty_array tensor(const T *data, std::initializer_list<int64_t> shape) {
  return ty_tensor(dtype_of<T>::value, data, (int)shape.size(), shape.begin());
}

/* A result's elements. Throws where they are of another type. */
template <typename T> const T *data(const ty_array &a) {
  if (a.dtype != dtype_of<T>::value)
    throw std::invalid_argument("tycho: a result of another dtype");
  return static_cast<const T *>(a.data);
}

/* A handle that closes itself; it moves, and is not copied. */
template <typename H, ty_status (*close)(H *)> class handle {
protected:
  H *h = nullptr;
  handle() = default;

public:
  handle(handle &&o) noexcept : h(o.h) { o.h = nullptr; }
  handle &operator=(handle &&o) noexcept {
    std::swap(h, o.h);
    return *this;
  }
  ~handle() {
    if (h) close(h);
  }
  H *get() const { return h; }
};

struct engine : handle<ty_engine, ty_close> {
  explicit engine(const ty_options *options = nullptr) { check(ty_open(options, &h)); }
};

struct weights : handle<ty_weights, ty_weights_free> {
  weights(const engine &e, const char *path) { check(ty_weights_load(e.get(), path, &h)); }
};

struct model : handle<ty_model, ty_unload> {
  model(const engine &e, const char *path, const char *file = nullptr) {
    check(ty_load(e.get(), path, file, &h));
  }
  model(const engine &e, const ty_source &source) { check(ty_load_source(e.get(), &source, &h)); }
  model(const model &of, const char *method) { check(ty_method(of.h, method, &h)); }

  model &operator()(std::initializer_list<ty_array> arguments) {
    check(ty_call(h, arguments.begin(), (int)arguments.size()));
    return *this;
  }

  /* A call in slices of time: while (!agent.step(1000)) draw(); */
  void start(std::initializer_list<ty_array> arguments) {
    check(ty_start(h, arguments.begin(), (int)arguments.size()));
  }
  bool step(int64_t microseconds) {
    int done;
    check(ty_step(h, microseconds, &done));
    return done != 0;
  }
  void cancel() { check(ty_cancel(h)); }

  ty_array operator[](int i) const {
    ty_array a;
    check(ty_result(h, i, &a));
    return a;
  }
  ty_array operator[](const char *name) const {
    ty_array a;
    check(ty_result_named(h, name, &a));
    return a;
  }
};

} // namespace tycho

#endif
