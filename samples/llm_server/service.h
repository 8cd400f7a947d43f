#pragma once
// OpenAI's API over HTTP: requests into the engine, its events into answers.
#include <httplib.h>

#include "request.h"

namespace llm {

struct ServiceOptions {
  Limits limits{0, 16};
  std::string api_key;  ///< empty: none is asked for
};

class Service {
 public:
  /// Borrows all of its arguments.
  Service(Engine& engine, const Description& d, const chat::Tokenizer& tokenizer, Forms& forms, Metrics& metrics, ServiceOptions options)
      : engine_(engine), d_(d), tokenizer_(tokenizer), forms_(forms), metrics_(metrics), options_(std::move(options)) {}
  void add_routes(httplib::Server& server);
  /// From now on new requests get 503.
  void begin_shutdown() { stopping_ = true; }
  /// After begin_shutdown(): waits until every answer is written or its client gone. False: the time was over before.
  bool wait_answered(std::chrono::milliseconds most);

 private:
  struct Running;
  /// False where the client is gone.
  static bool send(Running& r, httplib::DataSink& sink);
  void serve(Api api, const httplib::Request& in, httplib::Response& out);

  Engine& engine_;
  const Description& d_;
  const chat::Tokenizer& tokenizer_;
  Forms& forms_;
  Metrics& metrics_;
  const ServiceOptions options_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> requests_{0};
  std::mutex mutex_;
  std::condition_variable answered_;
  size_t open_ = 0;  ///< answers that are not written to the end; under mutex_
};

}  // namespace llm
