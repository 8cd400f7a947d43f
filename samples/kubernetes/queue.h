#pragma once
// The requests that wait for a context.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>

#include "v2.h"

namespace server {

struct Request {
  Values in;
  std::string traceparent;  ///< the request's header, or nothing
  std::promise<Values> out;
};

/// Requests in order of arrival. take() waits for one and adds those behind it that have its shapes beside their rows; nothing: closed.
class Queue {
 public:
  std::future<Values> put(Values in, std::string traceparent) {
    Request r{std::move(in), std::move(traceparent), {}};
    std::future<Values> out = r.out.get_future();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(std::move(r));
    }
    some_.notify_one();
    return out;
  }
  std::vector<Request> take(int64_t most) {
    std::unique_lock<std::mutex> lock(mutex_);
    some_.wait(lock, [this] { return closed_ || !waiting_.empty(); });
    std::vector<Request> batch;
    for (int64_t rows = 0; !waiting_.empty(); waiting_.pop_front()) {
      const Request& r = waiting_.front();
      const int64_t more = most > 1 ? r.in[0].shape[0] : 1;
      if (!batch.empty() && (rows + more > most || !alike(batch[0].in, r.in))) break;
      rows += more;
      batch.push_back(std::move(waiting_.front()));
    }
    return batch;
  }
  void close() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    some_.notify_all();
  }
  size_t size() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waiting_.size();
  }

 private:
  static bool alike(const Values& a, const Values& b) {
    for (size_t i = 0; i < a.size(); ++i)
      if (b[i].shape[0] != b[0].shape[0] || a[i].shape.size() != b[i].shape.size() ||
          !std::equal(a[i].shape.begin() + 1, a[i].shape.end(), b[i].shape.begin() + 1))
        return false;
    return true;
  }
  std::mutex mutex_;
  std::condition_variable some_;
  std::deque<Request> waiting_;
  bool closed_ = false;
};

}  // namespace server
