#pragma once
// Loads an artifact and drives the hand-written model of toy.c.
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "aotc/aotc.h"

/// One dlopen of an artifact.
class Loaded {
 public:
  explicit Loaded(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    INFO((handle_ ? "" : dlerror()));
    REQUIRE(handle_ != nullptr);
    const auto get = reinterpret_cast<aotc_get_api_fn>(dlsym(handle_, "aotc_get_api"));
    REQUIRE(get != nullptr);
    api = get(AOTC_ABI_VERSION);
    REQUIRE(api != nullptr);
  }
  ~Loaded() { dlclose(handle_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  const aotc_api* api;

 private:
  void* handle_;
};

inline std::string toy_path(const char* name = "toy") { return std::string(AOTC_ABI_DIR) + "/" + name + ".so"; }

/// Model and context of one artifact.
class Session {
 public:
  explicit Session(const aotc_api* api, aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT) : api(api) {
    REQUIRE(api->model_create(nullptr, &model) == AOTC_STATUS_OK);
    INFO(api->last_error());
    REQUIRE(api->context_create(model, &options, &context) == AOTC_STATUS_OK);
  }
  ~Session() {
    api->context_destroy(context);
    api->model_destroy(model);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  const aotc_api* api;
  aotc_model* model = nullptr;
  aotc_context* context = nullptr;
};

/// Tensors of one call of the toy model, and the right answer. Not a checking type, so that threads may use it.
struct ToyCall {
  enum { kX, kBias, kIdx, kPair };
  enum { kY, kTotal, kZeros };
  explicit ToyCall(int64_t batch, int seed = 0) : x_shape{batch, 8}, bias_shape{8}, idx_shape{batch}, pair_shape{2 * batch + 1}, n(batch) {
    for (int64_t i = 0; i < batch * 8; ++i) x.push_back(static_cast<float>((i * 7 + seed) % 11) - 5);
    for (int i = 0; i < 8; ++i) bias.push_back(static_cast<float>(i + seed % 3));
    for (int64_t i = 0; i < batch; ++i) idx.push_back((i + seed) % 4);
    pair.assign(static_cast<size_t>(2 * batch + 1), 5);
    y.assign(static_cast<size_t>(batch) * 8, -77);
    zeros.assign(static_cast<size_t>(2 * batch + 1), -77);
    in = {aotc_host_tensor(x.data(), x_shape, 2, AOTC_DTYPE_F32, x.size() * 4),
          aotc_host_tensor(bias.data(), bias_shape, 1, AOTC_DTYPE_F32, 32),
          aotc_host_tensor(idx.data(), idx_shape, 1, AOTC_DTYPE_I64, idx.size() * 8),
          aotc_host_tensor(pair.data(), pair_shape, 1, AOTC_DTYPE_F32, pair.size() * 4)};
    out = {aotc_host_tensor(y.data(), x_shape, 2, AOTC_DTYPE_F32, y.size() * 4), aotc_host_tensor(&total, nullptr, 0, AOTC_DTYPE_F32, 4),
           aotc_host_tensor(zeros.data(), pair_shape, 1, AOTC_DTYPE_F32, zeros.size() * 4)};
  }
  aotc_status run(const aotc_api* api, aotc_context* context) { return api->run(context, in.data(), 4, out.data(), 3); }
  float expected(int64_t row, int64_t col) const {
    const float v = x[static_cast<size_t>(row * 8 + col)];
    const int64_t t = idx[static_cast<size_t>(row)];
    return (v > 0 ? v : 0) + bias[static_cast<size_t>(col)] + (t < 3 ? static_cast<float>(t + 1) : static_cast<float>(col));
  }
  bool right() const {
    float sum = 0;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < 8; ++c) {
        if (y[static_cast<size_t>(r * 8 + c)] != expected(r, c)) return false;
        sum += expected(r, c);
      }
    for (float z : zeros)
      if (z != 0) return false;
    return total == sum;
  }
  bool untouched() const {
    for (float v : y)
      if (v != -77) return false;
    for (float v : zeros)
      if (v != -77) return false;
    return total == -77;
  }
  int64_t x_shape[2], bias_shape[1], idx_shape[1], pair_shape[1], n;
  std::vector<float> x, bias, pair, y, zeros;
  std::vector<int64_t> idx;
  float total = -77;
  std::vector<aotc_tensor> in, out;
};
