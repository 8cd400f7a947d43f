#pragma once
// Sees while runs are under way that nobody waits for their answers any more.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "job.h"

namespace aotc::triton {

/// The server says only when it is asked whether a request was cancelled: one thread asks it every 10 milliseconds for all runs that are
/// under way, and sleeps while there are none. Thread-safe.
class Watch {
 public:
  /// From its making to its end; the jobs are borrowed.
  class Run {
   public:
    Run(Watch& by, const std::vector<Job*>& jobs);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    /// Other than 0 once all of the jobs are cancelled.
    const std::atomic<int32_t>& cancelled() const { return cancelled_; }

   private:
    friend class Watch;
    Watch& by_;
    const std::vector<Job*>& jobs_;
    std::atomic<int32_t> cancelled_{0};
  };

  Watch() = default;
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void look();
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<Run*> runs_;  ///< within the mutex, as what follows
  bool sleeps_ = false, stop_ = false;
  std::thread thread_;  ///< started with the first run
};

}  // namespace aotc::triton
