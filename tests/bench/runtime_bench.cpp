// Costs of the runtime beside the kernels, in microseconds, best of several rounds.
//   bench_runtime FOLDER    where toy.so and toy_empty.so of tests/abi are
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "aotc/loader.h"
#include "pool.h"

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

void bench_runs(const std::string& path, int threads) {
  aotc_library lib;
  need(aotc_library_open(path.c_str(), AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_OK, lib.error);
  aotc_model* model;
  aotc_context* context;
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = threads;
  need(lib.api->model_create(nullptr, &model) == AOTC_STATUS_OK && lib.api->context_create(model, &options, &context) == AOTC_STATUS_OK,
       lib.api->last_error());
  constexpr int64_t n = 16;
  const int64_t x_shape[] = {n, 8}, bias_shape[] = {8}, rows[] = {n}, pair[] = {2 * n + 1};
  std::vector<float> x(n * 8), bias(8), p(2 * n + 1), y(n * 8), zeros(2 * n + 1);
  std::vector<int64_t> idx(n);
  float total;
  const aotc_tensor in[] = {aotc_host_tensor(x.data(), x_shape, 2, AOTC_DTYPE_F32, x.size() * 4),
                            aotc_host_tensor(bias.data(), bias_shape, 1, AOTC_DTYPE_F32, 32),
                            aotc_host_tensor(idx.data(), rows, 1, AOTC_DTYPE_I64, idx.size() * 8),
                            aotc_host_tensor(p.data(), pair, 1, AOTC_DTYPE_F32, p.size() * 4)};
  const aotc_tensor out[] = {aotc_host_tensor(y.data(), x_shape, 2, AOTC_DTYPE_F32, y.size() * 4),
                             aotc_host_tensor(&total, nullptr, 0, AOTC_DTYPE_F32, 4),
                             aotc_host_tensor(zeros.data(), pair, 1, AOTC_DTYPE_F32, zeros.size() * 4)};
  aotc_status status = AOTC_STATUS_OK;
  const double us = best_us(50, 1000, [&] { status = std::max(status, lib.api->run(context, in, 4, out, 3)); });
  need(status == AOTC_STATUS_OK, lib.api->last_error());
  std::printf("run of %-13s %d threads   %8.3f us\n", path.substr(path.rfind('/') + 1).c_str(), threads, us);
  lib.api->context_destroy(context);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
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
  bench_runs(folder + "/toy.so", 1);
  bench_runs(folder + "/toy.so", 2);
  bench_load(folder + "/toy.so");
  for (int threads : {2, 4}) bench_fork_join(threads);
  return 0;
}
