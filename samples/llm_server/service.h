#pragma once
// OpenAI's API over HTTP: requests into the engine, its events into answers.
#include <httplib.h>

#include <ctime>

#include "request.h"

namespace llm {

struct ServiceOptions {
  Limits limits{0, 16};
  std::string api_key;         ///< empty: none is asked for
  std::string adapter_folder;  ///< whose folders may be loaded as adapters by a request; empty: none may
};

class Service {
 public:
  /// Borrows all of its arguments.
  Service(Engine& engine, const Description& d, const tok::Tokenizer& tokenizer, Forms& forms, Adapters& adapters, Metrics& metrics,
          ServiceOptions options)
      : engine_(engine),
        d_(d),
        tokenizer_(tokenizer),
        forms_(forms),
        adapters_(adapters),
        metrics_(metrics),
        options_(std::move(options)) {}
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
  /// The server's model and what adapters make of it.
  Json models() const;
  void load_adapter(const httplib::Request& in, httplib::Response& out);
  void unload_adapter(const httplib::Request& in, httplib::Response& out);

  Engine& engine_;
  const Description& d_;
  const tok::Tokenizer& tokenizer_;
  Forms& forms_;
  Adapters& adapters_;
  Metrics& metrics_;
  const ServiceOptions options_;
  const std::time_t started_ = std::time(nullptr);
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> requests_{0};
  std::mutex mutex_;
  std::condition_variable answered_;
  size_t open_ = 0;  ///< answers that are not written to the end; under mutex_
};

}  // namespace llm
