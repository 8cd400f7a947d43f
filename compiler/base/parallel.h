#pragma once
// Independent pieces of work on several threads.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace aotc {

/// f(0) .. f(n - 1), each once, on up to `threads` threads. The exception of the first that throws is thrown when all have ended; those
/// that have not begun by then are left out.
template <class F>
void parallel_for(size_t n, int threads, F&& f) {
  std::atomic<size_t> next{0};
  std::exception_ptr failed;
  std::mutex lock;
  const auto share = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n;) try {
        f(i);
      } catch (...) {
        next = n;
        const std::lock_guard<std::mutex> guard(lock);
        if (!failed) failed = std::current_exception();
      }
  };
  std::vector<std::thread> others;
  const size_t width = std::min(n, static_cast<size_t>(std::max(1, threads)));
  for (size_t t = 1; t < width; ++t) others.emplace_back(share);
  share();
  for (std::thread& t : others) t.join();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace aotc
