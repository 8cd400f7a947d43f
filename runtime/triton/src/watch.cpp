#include "watch.h"

#include <algorithm>
#include <chrono>
#include <system_error>

namespace aotc::triton {

namespace {
constexpr std::chrono::milliseconds kPause{10};
}  // namespace

Watch::~Watch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  some_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Watch::Run::Run(Watch& by, const std::vector<Job*>& jobs) : by_(by), jobs_(jobs) {
  bool wake;
  {
    const std::lock_guard<std::mutex> lock(by_.mutex_);
    by_.runs_.push_back(this);
    wake = by_.sleeps_;
    if (!by_.thread_.joinable()) {
      try {
        by_.thread_ = std::thread([&watch = by_] { watch.look(); });
      } catch (const std::system_error&) {
        wake = false;  // runs go on to their ends
      }
    }
  }
  if (wake) by_.some_.notify_one();
}

Watch::Run::~Run() {
  const std::lock_guard<std::mutex> lock(by_.mutex_);
  by_.runs_.erase(std::find(by_.runs_.begin(), by_.runs_.end(), this));
}

void Watch::look() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    sleeps_ = true;
    some_.wait(lock, [this] { return stop_ || !runs_.empty(); });
    sleeps_ = false;
    lock.unlock();
    std::this_thread::sleep_for(kPause);
    lock.lock();
    for (Run* run : runs_)
      if (std::all_of(run->jobs_.begin(), run->jobs_.end(), [](const Job* job) { return job->cancelled(); })) run->cancelled_ = 1;
  }
}

}  // namespace aotc::triton
