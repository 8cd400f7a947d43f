// Costs of the runtime beside the kernels, in microseconds, best of several rounds.
//   bench_runtime FOLDER    where toy.so and toy_empty.so of tests/abi are
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "aotc/loader.h"
#include "pool.h"
#include "traceparent.h"

namespace {

double best_us(int rounds, int each, const std::function<void()>& body) {
  double best = 1e30;
  for (int r = 0; r < rounds; ++r) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < each; ++i) body();
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / each);
  }
  return best;
}

void need(bool ok, const char* why) {
  if (ok) return;
  std::fprintf(stderr, "%s\n", why);
  std::exit(1);
}

/// A model of the toys, a context and the tensors of a call.
struct Toy {
  Toy(const std::string& path, int threads) {
    need(aotc_library_open(path.c_str(), AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_OK, lib.error);
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.num_threads = threads;
    need(lib.api->model_create(nullptr, &model) == AOTC_STATUS_OK && lib.api->context_create(model, &options, &context) == AOTC_STATUS_OK,
         lib.api->last_error());
  }
  ~Toy() {
    lib.api->context_destroy(context);
    lib.api->model_destroy(model);
    aotc_library_close(&lib);
  }
  Toy(const Toy&) = delete;
  Toy& operator=(const Toy&) = delete;

  static constexpr int64_t n = 16;
  const int64_t x_shape[2] = {n, 8}, bias_shape[1] = {8}, rows[1] = {n}, pair[1] = {2 * n + 1};
  std::vector<float> x = std::vector<float>(n * 8), bias = std::vector<float>(8), p = std::vector<float>(2 * n + 1), y = x, zeros = p;
  std::vector<int64_t> idx = std::vector<int64_t>(n);
  float total = 0;
  const aotc_tensor in[4] = {aotc_host_tensor(x.data(), x_shape, 2, AOTC_DTYPE_F32, x.size() * 4),
                             aotc_host_tensor(bias.data(), bias_shape, 1, AOTC_DTYPE_F32, 32),
                             aotc_host_tensor(idx.data(), rows, 1, AOTC_DTYPE_I64, idx.size() * 8),
                             aotc_host_tensor(p.data(), pair, 1, AOTC_DTYPE_F32, p.size() * 4)};
  const aotc_tensor out[3] = {aotc_host_tensor(y.data(), x_shape, 2, AOTC_DTYPE_F32, y.size() * 4),
                              aotc_host_tensor(&total, nullptr, 0, AOTC_DTYPE_F32, 4),
                              aotc_host_tensor(zeros.data(), pair, 1, AOTC_DTYPE_F32, zeros.size() * 4)};
  aotc_library lib;
  aotc_model* model = nullptr;
  aotc_context* context = nullptr;
};

void bench_runs(const std::string& path, int threads) {
  Toy toy(path, threads);
  aotc_status status = AOTC_STATUS_OK;
  const double us = best_us(50, 1000, [&] { status = std::max(status, toy.lib.api->run(toy.context, toy.in, 4, toy.out, 3)); });
  need(status == AOTC_STATUS_OK, toy.lib.api->last_error());
  std::printf("run of %-13s %d threads   %8.3f us\n", path.substr(path.rfind('/') + 1).c_str(), threads, us);
}

/// What the options of a run cost, of a model without steps: the least of rounds in turns.
void bench_options(const std::string& path) {
  Toy toy(path, 1);
  const aotc_api& api = *toy.lib.api;
  aotc_run_options plain = AOTC_RUN_OPTIONS_INIT, request = plain;
  const char* const header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  request.traceparent = header;
  const auto with = [&](const aotc_run_options* o) { return api.run_with(toy.context, 0, toy.in, 4, toy.out, 3, o); };
  aotc_status status = AOTC_STATUS_OK;
  unsigned kept = 0;
  const std::vector<std::pair<const char*, std::function<void()>>> ways = {
      {"run", [&] { status |= api.run(toy.context, toy.in, 4, toy.out, 3); }},
      {"run_with, no options", [&] { status |= with(nullptr); }},
      {"run_with, options", [&] { status |= with(&plain); }},
      {"run_with, traceparent, no tool", [&] { status |= with(&request); }},
      {"reading a traceparent for a tool", [&] { kept += static_cast<unsigned char>(aotc::rt::read_traceparent(header).text[kept % 8]); }},
  };
  std::vector<double> best(ways.size(), 1e30);
  for (int round = 0; round < 2000; ++round)
    for (size_t i = 0; i < ways.size(); ++i) best[i] = std::min(best[i], best_us(1, 100, ways[i].second));
  need(status == AOTC_STATUS_OK && kept > 0, api.last_error());
  for (size_t i = 0; i < ways.size(); ++i) std::printf("%-35s %8.1f ns\n", ways[i].first, best[i] * 1e3);
}

void bench_load(const std::string& path) {
  const double us = best_us(5, 50, [&] {
    aotc_library lib;
    aotc_model* model = nullptr;
    need(aotc_library_open(path.c_str(), AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_OK, lib.error);
    lib.api->model_create(nullptr, &model);
    lib.api->model_destroy(model);
    aotc_library_close(&lib);
  });
  std::printf("load, create and unload             %8.3f us\n", us);
}

void bench_fork_join(int threads) {
  using namespace aotc::rt;
  Threads pool;
  need(threads_create(threads, nullptr, &pool) == AOTC_STATUS_OK && threads_begin(&pool, threads) == AOTC_STATUS_OK, "no threads");
  const double us = best_us(50, 1000, [&] {
    threads_run(
        &pool, threads, threads, [](void*, int32_t, int64_t, int64_t, int64_t*) {}, nullptr);
  });
  threads_end(&pool);
  threads_destroy(&pool);
  std::printf("fork and join       %d threads   %8.3f us\n", threads, us);
}

}  // namespace

int main(int argc, char** argv) {
  need(argc == 2, "usage: bench_runtime FOLDER");
  const std::string folder = argv[1];
  bench_runs(folder + "/toy_empty.so", 1);
  bench_options(folder + "/toy_empty.so");
  bench_runs(folder + "/toy.so", 1);
  bench_runs(folder + "/toy.so", 2);
  bench_load(folder + "/toy.so");
  for (int threads : {2, 4}) bench_fork_join(threads);
  return 0;
}
