#pragma once
// Sees while a run is under way that nobody waits for its answer any more.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "job.h"

namespace aotc::triton {

/// The server says only when it is asked whether a request was cancelled: a thread asks it every few milliseconds while a run is under way,
/// and sleeps while there is none. One run at a time; begin and end are calls of one thread.
class Watch {
 public:
  Watch() = default;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// cancelled() becomes other than 0 when all of the jobs are cancelled, until end() returns; the jobs are borrowed until then.
  void begin(const std::vector<Job*>& jobs);
  void end();
  const std::atomic<int32_t>& cancelled() const { return cancelled_; }

 private:
  void look();
  std::atomic<int32_t> cancelled_{0};
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<Job*> jobs_;  ///< of the run that is under way. Within the mutex, as what follows
  uint64_t run_ = 0;
  bool sleeps_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace aotc::triton
