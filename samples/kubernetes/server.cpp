// One artifact by the protocol that KServe and Triton speak (v2, tensors as JSON), for an image that holds nothing else.
//
//   c++ -std=c++17 -O2 -I runtime/include samples/kubernetes/server.cpp -o server -lcpp-httplib -ldl -lpthread
//   ./server net.so [--host 0.0.0.0] [--port 8080] [--contexts 1] [--threads 1] [--batch 1] [--drain 5]
//
// --batch: rows that run together, of requests that wait for a context; who sets it vouches that the first dimension is a batch. SIGTERM:
// not ready any more, --drain seconds later no new connections; what has begun ends. /metrics: the queue, by which replicas are scaled.
#include <httplib.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <thread>

#include "queue.h"

namespace {

using namespace server;

struct Options {
  std::string artifact, host = "0.0.0.0";
  int port = 8080, contexts = 1, threads = 1, batch = 1, drain = 5;
};

class Service {
 public:
  explicit Service(const Options& o) : o_(o), name_(o.artifact.substr(o.artifact.rfind('/') + 1)) {
    if (name_.size() > 3 && name_.compare(name_.size() - 3, 3, ".so") == 0) name_.resize(name_.size() - 3);
    aotc::host::Model::load(o.artifact, &model_).check();
    inputs_ = model_.inputs(), outputs_ = model_.outputs();
    if (o.batch > 1 && inputs_.empty()) throw std::runtime_error("--batch: there are no inputs");
    for (const TensorInfo& t : inputs_) {
      (void)kind_of(t);
      if (o.batch > 1 && t.dims.empty()) throw std::runtime_error("--batch: the input " + t.name + " has no dimension");
    }
    for (const TensorInfo& t : outputs_) (void)kind_of(t);
    for (int i = 0; i < o.contexts; ++i) {
      aotc::host::ContextOptions options;
      options.threads = o.threads;
      contexts_.emplace_back();
      model_.context(&contexts_.back(), options).check();
    }
    for (auto& c : contexts_) workers_.emplace_back([this, &c] { work(c); });
  }
  ~Service() {
    queue_.close();
    for (std::thread& t : workers_) t.join();
  }

  void serve() {
    httplib::Server web;
    const std::string at = "/v2/models/" + name_;
    const auto fine = [](const auto&, auto& to) { to.set_content("{}", "application/json"); };
    const auto ready = [this](const auto&, auto& to) { to.status = draining ? 503 : 200; };
    web.Get("/v2/health/live", fine).Get("/v2/health/ready", ready).Get(at + "/ready", ready).Get(at, [this](const auto&, auto& to) {
      to.set_content(describe().dump(), "application/json");
    });
    web.Get("/metrics", [this](const auto&, auto& to) {
      to.set_content("aotc_queue " + std::to_string(queue_.size()) + "\naotc_requests_total " + std::to_string(requests_.load()) +
                         "\naotc_runs_total " + std::to_string(runs_.load()) + "\n",
                     "text/plain; version=0.0.4");
    });
    web.Post(at + "/infer", [this](const httplib::Request& from, httplib::Response& to) {
      try {
        to.set_content(infer(json::parse(from.body)), "application/json");
      } catch (const Refused& e) { refuse(to, 400, e.what()); } catch (const json::exception& e) {
        refuse(to, 400, e.what());
      } catch (const std::exception& e) { refuse(to, 500, e.what()); }
    });
    web.new_task_queue = [] { return new httplib::ThreadPool(64); };
    web.set_payload_max_length(size_t{64} << 20);
    web.set_tcp_nodelay(true);
    int port = o_.port;
    if (port == 0)
      port = web.bind_to_any_port(o_.host.c_str());
    else if (!web.bind_to_port(o_.host.c_str(), port))
      port = -1;
    if (port < 0) throw std::runtime_error("cannot listen at " + o_.host + ":" + std::to_string(o_.port));
    std::printf("%s: listening at http://%s:%d%s\n", name_.c_str(), o_.host.c_str(), port, at.c_str());
    std::fflush(stdout);
    std::thread([this, &web] {
      sigset_t ends;
      sigemptyset(&ends), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
      int signal = 0;
      sigwait(&ends, &signal);
      draining = true;
      std::this_thread::sleep_for(std::chrono::seconds(o_.drain));
      web.stop();
    }).detach();
    web.listen_after_bind();
  }

 private:
  static void refuse(httplib::Response& to, int status, const char* why) {
    to.status = status;
    to.set_content(json{{"error", why}}.dump(-1, ' ', false, json::error_handler_t::replace), "application/json");
  }
  json describe() const {
    const auto tell = [](const std::vector<TensorInfo>& all) {
      json out = json::array();
      for (const TensorInfo& t : all) {
        json shape = json::array();
        for (const aotc_dim& d : t.dims) shape.push_back(d.symbol ? -1 : d.value);
        out.push_back({{"name", t.name}, {"datatype", kind_of(t).name}, {"shape", shape}});
      }
      return out;
    };
    return {{"name", name_}, {"versions", {"1"}}, {"platform", "aotc"}, {"inputs", tell(inputs_)}, {"outputs", tell(outputs_)}};
  }

  std::string infer(const json& said) {
    Values in;
    for (const TensorInfo& t : inputs_) {
      const auto& all = said.at("inputs");
      const auto at = std::find_if(all.begin(), all.end(), [&](const json& i) { return i.at("name") == t.name; });
      if (at == all.end()) throw Refused("there is no input " + t.name);
      const Kind& k = kind_of(t);
      if (at->at("datatype") != k.name) throw Refused("the input " + t.name + " has another datatype: expected " + k.name);
      Value v{at->at("shape").get<std::vector<int64_t>>(), {}};
      const json& data = at->at("data");
      if (v.shape.size() != t.dims.size())
        throw Refused("the input " + t.name + ": expected " + std::to_string(t.dims.size()) + " dimensions");
      if (!data.is_array() || static_cast<int64_t>(data.size()) != elements(v.shape))
        throw Refused("the input " + t.name + ": data is no list of as many numbers as its shape says");
      v.bytes.resize(data.size() * k.bytes);
      for (size_t i = 0; i < data.size(); ++i) k.put(data[i], v.bytes.data() + i * k.bytes);
      in.push_back(std::move(v));
    }
    const Values out = queue_.put(std::move(in)).get();
    json outputs = json::array();
    for (size_t o = 0; o < out.size(); ++o) {
      const Kind& k = kind_of(outputs_[o]);
      json data = json::array();
      for (size_t i = 0; i < out[o].bytes.size(); i += k.bytes) data.push_back(k.get(out[o].bytes.data() + i));
      outputs.push_back({{"name", outputs_[o].name}, {"datatype", k.name}, {"shape", out[o].shape}, {"data", std::move(data)}});
    }
    return json{{"model_name", name_}, {"model_version", "1"}, {"outputs", std::move(outputs)}}.dump();
  }

  Values run(aotc::host::Context& c, Values& in) {
    const auto views = [](Values& values, const std::vector<TensorInfo>& infos) {
      std::vector<aotc_tensor> out;
      for (size_t i = 0; i < values.size(); ++i)
        out.push_back(aotc_host_tensor(values[i].bytes.data(), values[i].shape.data(), static_cast<int32_t>(values[i].shape.size()),
                                       infos[i].dtype, values[i].bytes.size()));
      return out;
    };
    const auto check = [](const aotc::host::Status& s) {
      if (s.code == AOTC_STATUS_SHAPE_MISMATCH || s.code == AOTC_STATUS_INVALID_ARGUMENT || s.code == AOTC_STATUS_INDEX_OUT_OF_RANGE)
        throw Refused(s.message);
      s.check();
    };
    const std::vector<aotc_tensor> from = views(in, inputs_);
    std::vector<std::vector<int64_t>> shapes;
    check(c.output_bounds(from, &shapes));
    Values out;
    for (size_t o = 0; o < shapes.size(); ++o)
      out.push_back({shapes[o], std::vector<unsigned char>(static_cast<size_t>(elements(shapes[o])) * kind_of(outputs_[o]).bytes)});
    check(c.run(from, views(out, outputs_)));
    ++runs_;
    return out;
  }

  void work(aotc::host::Context& c) {
    for (std::vector<Request> batch = queue_.take(o_.batch); !batch.empty(); batch = queue_.take(o_.batch)) {
      requests_ += static_cast<int64_t>(batch.size());
      if (batch.size() > 1 && together(c, batch)) continue;
      for (Request& r : batch) try {
          r.out.set_value(run(c, r.in));
        } catch (...) { r.out.set_exception(std::current_exception()); }
    }
  }

  /// One run of all rows; false: not, each alone.
  bool together(aotc::host::Context& c, std::vector<Request>& batch) try {
    Values in = batch[0].in;
    for (size_t r = 1; r < batch.size(); ++r)
      for (size_t i = 0; i < in.size(); ++i) {
        const Value& v = batch[r].in[i];
        in[i].shape[0] += v.shape[0];
        in[i].bytes.insert(in[i].bytes.end(), v.bytes.begin(), v.bytes.end());
      }
    const int64_t rows = in[0].shape[0];
    const Values out = run(c, in);
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

  Options o_;
  std::string name_;
  std::atomic<bool> draining{false};
  std::atomic<int64_t> requests_{0}, runs_{0};
  aotc::host::Model model_;
  std::vector<TensorInfo> inputs_, outputs_;
  std::deque<aotc::host::Context> contexts_;
  Queue queue_;
  std::vector<std::thread> workers_;
};

}  // namespace

int main(int argc, char** argv) {
  Options o;
  const std::pair<const char*, int Options::*> numbers[] = {{"--port", &Options::port},
                                                            {"--contexts", &Options::contexts},
                                                            {"--threads", &Options::threads},
                                                            {"--batch", &Options::batch},
                                                            {"--drain", &Options::drain}};
  bool fine = argc > 1 && argc % 2 == 0;
  for (int i = 2; fine && i < argc; i += 2) {
    const auto* n = std::find_if(std::begin(numbers), std::end(numbers), [&](const auto& x) { return std::strcmp(x.first, argv[i]) == 0; });
    char* end = argv[i + 1];
    if (std::strcmp(argv[i], "--host") == 0)
      o.host = argv[i + 1];
    else if ((fine = n != std::end(numbers)))
      o.*(n->second) = static_cast<int>(std::strtol(argv[i + 1], &end, 10)), fine = !*end && argv[i + 1][0] && o.*(n->second) >= 0;
  }
  if (!fine || o.contexts < 1 || o.batch < 1) {
    std::fprintf(stderr, "usage: server model.so [--host 0.0.0.0] [--port 8080] [--contexts 1] [--threads 1] [--batch 1] [--drain 5]\n");
    return 2;
  }
  o.artifact = argv[1];
  sigset_t ends;
  sigemptyset(&ends), sigaddset(&ends, SIGTERM), sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  try {
    Service(o).serve();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "server: %s\n", e.what());
    return 1;
  }
}
