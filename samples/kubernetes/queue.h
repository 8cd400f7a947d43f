#pragma once
// Tensors as the protocol has them, and the requests that wait for a context.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "aotc/aotc.hpp"

namespace server {

using aotc::host::TensorInfo;
using nlohmann::json;

struct Kind {
  uint32_t dtype;
  const char* name;
  size_t bytes;
  void (*put)(const json& from, unsigned char* to);
  json (*get)(const unsigned char* from);
};
template <class T>
constexpr Kind kind(const char* name) {
  return {aotc::host::DtypeOf<T>::value, name, sizeof(T),
          [](const json& from, unsigned char* to) {
            const T x = from.is_boolean() ? static_cast<T>(from.get<bool>()) : from.get<T>();
            std::memcpy(to, &x, sizeof x);
          },
          [](const unsigned char* from) {
            T x;
            std::memcpy(&x, from, sizeof x);
            return json(x);
          }};
}
inline constexpr Kind kKinds[] = {kind<bool>("BOOL"),     kind<uint8_t>("UINT8"), kind<int8_t>("INT8"), kind<int16_t>("INT16"),
                                  kind<int32_t>("INT32"), kind<int64_t>("INT64"), kind<float>("FP32"),  kind<double>("FP64")};

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline const Kind& kind_of(const TensorInfo& t) {
  for (const Kind& k : kKinds)
    if (k.dtype == t.dtype) return k;
  throw std::runtime_error(t.name + " has a type that JSON does not carry");
}

inline int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || (d > 0 && __builtin_mul_overflow(n, d, &n))) throw Refused("a shape has a negative size, or too many elements");
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? n : 0;
}

struct Value {
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
};
using Values = std::vector<Value>;

struct Request {
  Values in;
  std::promise<Values> out;
};

/// Requests in order of arrival. take() waits for one and adds those behind it that have its shapes beside their rows; nothing: closed.
class Queue {
 public:
  std::future<Values> put(Values in) {
    Request r{std::move(in), {}};
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
