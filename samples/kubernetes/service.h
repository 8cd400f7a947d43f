#pragma once
// A model behind the v2 protocol: routes, a queue, a thread for each context. What runs the model is an Engine.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "http.h"
#include "queue.h"

namespace server {

struct Engine {
  virtual ~Engine() = default;
  std::vector<Signature> inputs, outputs;
  /// In the context of this number, from its thread. traceparent: of the request, the first of several. Throws Refused where the inputs are
  /// at fault.
  virtual Values run(int context, Values& in, const std::string& traceparent) = 0;
};

struct Options {
  std::string model, host = "0.0.0.0", weights;
  int port = 8080, contexts = 1, threads = 1, batch = 1, drain = 5, device = -1;
};
inline constexpr const char kUsage[] =
    "[--host 0.0.0.0] [--port 8080] [--contexts 1] [--threads 1] [--batch 1] [--drain 5] [--weights FILE] [--device N]";

/// From argv[first] on. False: not as kUsage says.
inline bool read_options(int argc, char** argv, int first, Options* o) {
  static constexpr std::pair<const char*, int Options::*> kNumbers[] = {
      {"--port", &Options::port},   {"--contexts", &Options::contexts}, {"--threads", &Options::threads},
      {"--batch", &Options::batch}, {"--drain", &Options::drain},       {"--device", &Options::device}};
  static constexpr std::pair<const char*, std::string Options::*> kTexts[] = {{"--host", &Options::host}, {"--weights", &Options::weights}};
  for (int i = first; i < argc; i += 2) {
    const auto named = [&](const auto& x) { return std::strcmp(x.first, argv[i]) == 0; };
    if (i + 1 == argc) return false;
    if (const auto* t = std::find_if(std::begin(kTexts), std::end(kTexts), named); t != std::end(kTexts)) {
      o->*(t->second) = argv[i + 1];
      continue;
    }
    const auto* n = std::find_if(std::begin(kNumbers), std::end(kNumbers), named);
    size_t value = 0;
    if (n == std::end(kNumbers) || !number(argv[i + 1], &value) || value > 65535) return false;
    o->*(n->second) = static_cast<int>(value);
  }
  return o->contexts >= 1 && o->batch >= 1;
}

/// So that main's thread waits for them, whatever others are started: called before any other thread is.
inline sigset_t block_ends() {
  sigset_t ends;
  sigemptyset(&ends), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  return ends;
}

class Service {
 public:
  Service(Engine& engine, const Options& o)
      : engine_(engine), o_(o), at_("/v2/models/" + o.model), web_([this](const HttpRequest& from, HttpAnswer& to) { answer(from, to); }) {
    if (o.batch > 1 && engine.inputs.empty()) throw std::runtime_error("--batch: there are no inputs");
    for (const Signature& s : engine.inputs)
      if (o.batch > 1 && s.dims.empty()) throw std::runtime_error("--batch: the input " + s.name + " has no dimension");
    for (int i = 0; i < o.contexts; ++i) workers_.emplace_back([this, i] { work(i); });
  }
  ~Service() {
    queue_.close();
    for (std::thread& t : workers_) t.join();
  }

  /// Until SIGTERM or SIGINT, which are blocked: from then on not ready, --drain seconds later no new connections.
  void serve(const sigset_t& ends) {
    const int port = web_.listen(o_.host, o_.port);
    std::printf("%s: listening at http://%s:%d%s\n", o_.model.c_str(), o_.host.c_str(), port, at_.c_str());
    std::fflush(stdout);
    std::thread waits([&] {
      int signal = 0;
      sigwait(&ends, &signal);
      draining_ = true;
      std::this_thread::sleep_for(std::chrono::seconds(o_.drain));
      web_.stop();
    });
    web_.serve();
    waits.join();
  }

 private:
  void answer(const HttpRequest& from, HttpAnswer& to) {
    const bool get = from.method == "GET" || from.method == "HEAD";
    const std::string& path = from.path;
    if (path == at_ + "/infer" || path == at_ + "/versions/1/infer") {
      from.method == "POST" ? infer(from, to) : refuse(to, 405, "POST it");
    } else if (!get) {
      refuse(to, 404, "there is nothing to post to but " + at_ + "/infer");
    } else if (path == "/v2/health/live") {
    } else if (path == "/v2/health/ready" || path == at_ + "/ready") {
      to.status = draining_ ? 503 : 200;
    } else if (path == at_) {
      to.body = describe().dump();
    } else if (path == "/v2") {
      to.body = json{{"name", "aotc"}, {"version", "1"}, {"extensions", {"binary_tensor_data"}}}.dump();
    } else if (path == "/metrics") {
      to.type = "text/plain; version=0.0.4";
      to.body = "aotc_queue " + std::to_string(queue_.size()) + "\naotc_requests_total " + std::to_string(requests_.load()) +
                "\naotc_runs_total " + std::to_string(runs_.load()) + "\n";
    } else {
      refuse(to, 404, "there is nothing at " + path);
    }
  }

  static void refuse(HttpAnswer& to, int status, const std::string& why) {
    to.status = status;
    to.body = json{{"error", why}}.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  json describe() const {
    const auto tell = [](const std::vector<Signature>& all) {
      json out = json::array();
      for (const Signature& s : all) out.push_back({{"name", s.name}, {"datatype", s.kind->name}, {"shape", s.dims}});
      return out;
    };
    return {{"name", o_.model},
            {"versions", {"1"}},
            {"platform", "aotc"},
            {"inputs", tell(engine_.inputs)},
            {"outputs", tell(engine_.outputs)}};
  }

  void infer(const HttpRequest& from, HttpAnswer& to) {
    static constexpr const char kHead[] = "Inference-Header-Content-Length";
    try {
      size_t head = from.body.size();
      if (const std::string* said = from.header(kHead); said && (!number(*said, &head) || head > from.body.size()))
        throw Refused(std::string(kHead) + " is no length of a part of the body");
      Asked asked(from.body, head, engine_.inputs, engine_.outputs);
      const std::string* traceparent = from.header("traceparent");
      const Values out = queue_.put(std::move(asked.in), traceparent ? *traceparent : std::string()).get();
      Told told = tell(o_.model, asked, out, engine_.outputs);
      if (told.head != told.body.size()) {
        to.type = "application/octet-stream";
        to.headers.emplace_back(kHead, std::to_string(told.head));
      }
      to.body = std::move(told.body);
    } catch (const Refused& e) { refuse(to, 400, e.what()); } catch (const json::exception& e) {
      refuse(to, 400, e.what());
    } catch (const std::exception& e) { refuse(to, 500, e.what()); }
  }

  Values run(int context, Values& in, const std::string& traceparent) {
    Values out = engine_.run(context, in, traceparent);
    ++runs_;
    return out;
  }

  void work(int context) {
    for (std::vector<Request> batch = queue_.take(o_.batch); !batch.empty(); batch = queue_.take(o_.batch)) {
      requests_ += static_cast<int64_t>(batch.size());
      if (batch.size() > 1 && together(context, batch)) continue;
      for (Request& r : batch) try {
          r.out.set_value(run(context, r.in, r.traceparent));
        } catch (...) { r.out.set_exception(std::current_exception()); }
    }
  }

  /// One run of all rows; false: not, each alone.
  bool together(int context, std::vector<Request>& batch) try {
    Values in = batch[0].in;
    for (size_t i = 0; i < in.size(); ++i) {
      size_t bytes = 0;
      for (const Request& r : batch) bytes += r.in[i].bytes.size();
      in[i].bytes.reserve(bytes);
    }
    for (size_t r = 1; r < batch.size(); ++r)
      for (size_t i = 0; i < in.size(); ++i) {
        const Value& v = batch[r].in[i];
        in[i].shape[0] += v.shape[0];
        in[i].bytes.insert(in[i].bytes.end(), v.bytes.begin(), v.bytes.end());
      }
    const int64_t rows = in[0].shape[0];
    const Values out = run(context, in, batch[0].traceparent);
    for (const Value& v : out)
      if (v.shape.empty() || v.shape[0] != rows) return false;
    std::vector<Values> answers;
    for (size_t r = 0, first = 0; r < batch.size(); ++r) {
      const auto count = static_cast<size_t>(batch[r].in[0].shape[0]);
      answers.emplace_back();
      for (const Value& v : out) {
        const size_t row = v.bytes.size() / static_cast<size_t>(rows);
        const auto begin = v.bytes.begin() + static_cast<std::ptrdiff_t>(first * row);
        answers.back().push_back({v.shape, {begin, begin + static_cast<std::ptrdiff_t>(count * row)}});
        answers.back().back().shape[0] = static_cast<int64_t>(count);
      }
      first += count;
    }
    for (size_t r = 0; r < batch.size(); ++r) batch[r].out.set_value(std::move(answers[r]));
    return true;
  } catch (const std::exception&) { return false; }

  Engine& engine_;
  const Options o_;
  const std::string at_;
  std::atomic<bool> draining_{false};
  std::atomic<int64_t> requests_{0}, runs_{0};
  Queue queue_;
  std::vector<std::thread> workers_;
  Http web_;
};

}  // namespace server
