#include "watch.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace aotc::triton {

namespace {
constexpr std::chrono::milliseconds kPause{2};
}  // namespace

Watch::~Watch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  some_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Watch::begin(const std::vector<Job*>& jobs) {
  cancelled_ = 0;
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { look(); });
    } catch (const std::system_error&) {
      return;  // runs go on to their ends
    }
  }
  bool wake;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    jobs_ = jobs;
    ++run_;
    wake = sleeps_;
  }
  if (wake) some_.notify_one();
}

void Watch::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  jobs_.clear();
}

void Watch::look() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    sleeps_ = true;
    some_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    sleeps_ = false;
    const uint64_t run = run_;
    lock.unlock();
    std::this_thread::sleep_for(kPause);
    lock.lock();
    if (run != run_ || jobs_.empty()) continue;  // it was a short one
    if (std::all_of(jobs_.begin(), jobs_.end(), [](const Job* job) { return job->cancelled(); })) cancelled_ = 1;
  }
}

}  // namespace aotc::triton
