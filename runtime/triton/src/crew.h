#pragma once
// Instances on CPUs that help one another: the server puts together what waits, also when several instances have nothing to do.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace aotc::triton {

class Instance;

/// The instances of one model, and which of them are in use. A batch is spread over those that are not; who has lent his own takes another.
/// Thread-safe.
class Crew {
 public:
  void join(Instance* one);
  /// Waits until nobody uses it.
  void leave(Instance* one);
  /// One that nobody uses, `own` if it can be. Waits for one.
  Instance* take(Instance* own);
  /// Others that nobody uses, at most `most`. Does not wait.
  std::vector<Instance*> take_idle(size_t most);
  void give_back(Instance* one);

 private:
  struct Member {
    Instance* one;
    bool used;
  };
  Member* find(Instance* one);
  std::mutex mutex_;
  std::condition_variable some_;
  std::vector<Member> members_;
};

/// A thread that does one thing at a time for others; started with the first.
class Helper {
 public:
  Helper() = default;
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  /// False: there is no thread to be had, and nothing is done. The work before must have ended. Throws nothing where the function holds two
  /// references at most, for which it takes no memory.
  bool begin(std::function<void()> work);

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable some_;
  std::function<void()> work_;  ///< within the mutex, as what follows
  bool stop_ = false;
  std::thread thread_;
};

/// So many things that are waited for.
class Latch {
 public:
  explicit Latch(size_t things) : left_(things) {}
  void done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--left_ == 0) some_.notify_one();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    some_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable some_;
  size_t left_;
};

}  // namespace aotc::triton
