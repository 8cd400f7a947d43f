#include "service.h"

#include "answer.h"
#include "json_text.h"

namespace llm {

namespace {

/// How often an answer in the making sends what means nothing (a space before the object, a comment between the events of a stream): only a
/// write tells whether the client is still there.
constexpr std::chrono::milliseconds kBeat{50};

void set_error(httplib::Response& out, const ApiError& e) {
  out.status = e.status;
  out.set_content(dumped(error_body(e.status, e.what(), e.param, e.code)), "application/json");
}

/// {lora_name, lora_path} of a request's body; the path where it is asked for.
std::pair<std::string, std::string> adapter_of(const std::string& body, bool with_path) {
  const Json j = parse_json(body, 8);
  if (!j.is_object()) throw ApiError(400, "the body is not a JSON object");
  const auto text = [&](const char* name) {
    const auto it = j.find(name);
    if (it == j.end() || !it->is_string()) throw ApiError(400, "expected a text", name);
    return it->get<std::string>();
  };
  return {text("lora_name"), with_path ? text("lora_path") : std::string()};
}

}  // namespace

/// One answer on its way: the parts that outlive the handler. The service counts it from its request to its last byte.
struct Service::Running {
  explicit Running(Service& s) : service(s) {
    const std::lock_guard<std::mutex> lock(service.mutex_);
    ++service.open_;
  }
  ~Running() {
    const std::lock_guard<std::mutex> lock(service.mutex_);
    if (--service.open_ == 0) service.answered_.notify_all();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  Service& service;
  Request request;
  std::shared_ptr<Channel> channel = std::make_shared<Channel>();
  std::unique_ptr<Answer> answer;
  bool begun = false;
  Clock::time_point sent = Clock::now();
};

bool Service::wait_answered(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> lock(mutex_);
  return answered_.wait_for(lock, most, [this] { return open_ == 0; });
}

bool Service::send(Running& r, httplib::DataSink& sink) {
  const auto write = [&](const std::string& text) {
    if (text.empty()) return true;
    r.sent = Clock::now();
    return sink.write(text.data(), text.size());
  };
  if (!std::exchange(r.begun, true) && r.request.stream && !write(r.answer->begin())) return false;
  if (sink.is_writable && !sink.is_writable()) return false;
  std::string text;
  for (const Event& e : r.channel->take(kBeat)) text += r.answer->add(e);
  if (text.empty() && !r.answer->done() && Clock::now() - r.sent >= kBeat) text = r.request.stream ? ":\n\n" : " ";
  if (!write(text)) return false;
  if (!r.answer->done()) return true;
  // Nothing can tell the status any more: without a stream the connection breaks, which clients take for what it is.
  if (!r.request.stream && !r.answer->error().empty()) return false;
  if (!write(r.answer->finish())) return false;
  sink.done();
  return true;
}

void Service::serve(Api api, const httplib::Request& in, httplib::Response& out) {
  try {
    auto r = std::make_shared<Running>(*this);
    if (stopping_) throw ApiError(503, "the server is shutting down");
    r->request = parse(api, in.body, d_, tokenizer_, options_.limits, forms_, adapters_);
    r->answer = std::make_unique<Answer>(r->request, d_, tokenizer_, ++requests_);
    std::vector<Task> tasks = r->request.tasks;
    for (Task& t : tasks) t.traceparent = in.get_header_value("traceparent");
    if (!engine_.submit(std::move(tasks), r->channel)) {
      out.set_header("Retry-After", "1");
      throw ApiError(429, "the queue is full: try again later", {}, "queue_full");
    }
    out.set_chunked_content_provider(
        r->request.stream ? "text/event-stream" : "application/json", [r](size_t, httplib::DataSink& sink) { return send(*r, sink); },
        [r](bool) { r->channel->close(); });
    if (r->request.stream) out.set_header("Cache-Control", "no-cache");
  } catch (const ApiError& e) { set_error(out, e); }
}

Json Service::models() const {
  const auto one = [&](const std::string& id) {
    return Json{{"id", id}, {"object", "model"}, {"created", started_}, {"owned_by", "local"}};
  };
  Json out = Json::array({one(d_.name)});
  for (const std::string& name : adapters_.names()) {
    out.push_back(one(name));
    out.back()["parent"] = d_.name;
  }
  return out;
}

void Service::load_adapter(const httplib::Request& in, httplib::Response& out) {
  try {
    if (options_.adapter_folder.empty()) throw ApiError(403, "this server loads adapters at its start alone (--adapter-folder)");
    const auto [name, path] = adapter_of(in.body, true);
    if (name == d_.name) throw ApiError(400, name + " is the model's own name", "lora_name");
    // Folders below one that the operator named: no way out of it.
    if (path.empty() || path[0] == '/' || path.find("..") != std::string::npos)
      throw ApiError(400, "expected a path below the server's folder of adapters", "lora_path");
    try {
      adapters_.load(name, options_.adapter_folder + "/" + path);
    } catch (const std::runtime_error& e) { throw ApiError(400, e.what(), "lora_path"); }
    out.set_content(dumped({{"id", name}, {"object", "model"}, {"parent", d_.name}}), "application/json");
  } catch (const ApiError& e) { set_error(out, e); }
}

void Service::unload_adapter(const httplib::Request& in, httplib::Response& out) {
  try {
    if (options_.adapter_folder.empty()) throw ApiError(403, "this server loads adapters at its start alone (--adapter-folder)");
    const std::string name = adapter_of(in.body, false).first;
    if (!adapters_.unload(name)) throw ApiError(404, "adapter " + name + " is not here", "lora_name", "model_not_found");
    out.set_content(dumped({{"id", name}, {"object", "model"}, {"deleted", true}}), "application/json");
  } catch (const ApiError& e) { set_error(out, e); }
}

void Service::add_routes(httplib::Server& server) {
  server.set_pre_routing_handler([this](const httplib::Request& in, httplib::Response& out) {
    const bool open =
        in.path == "/health" || options_.api_key.empty() || in.get_header_value("Authorization") == "Bearer " + options_.api_key;
    if (!open) set_error(out, ApiError(401, "a wrong API key", {}, "invalid_api_key"));
    return open ? httplib::Server::HandlerResponse::Unhandled : httplib::Server::HandlerResponse::Handled;
  });
  const auto post = [&](const char* path, Api api) {
    server.Post(path, [this, api](const httplib::Request& in, httplib::Response& out) { serve(api, in, out); });
  };
  post("/v1/chat/completions", Api::chat);
  post("/v1/completions", Api::completions);
  post("/v1/embeddings", Api::embeddings);
  server.Get("/v1/models", [this](const httplib::Request&, httplib::Response& out) {
    out.set_content(dumped({{"object", "list"}, {"data", models()}}), "application/json");
  });
  server.Get(R"(/v1/models/(.+))", [this](const httplib::Request& in, httplib::Response& out) {
    for (const Json& model : models())
      if (model["id"] == in.matches[1].str()) return out.set_content(dumped(model), "application/json");
    set_error(out, ApiError(404, "model " + in.matches[1].str() + " is not here", "model", "model_not_found"));
  });
  server.Post("/v1/load_lora_adapter", [this](const httplib::Request& in, httplib::Response& out) { load_adapter(in, out); });
  server.Post("/v1/unload_lora_adapter", [this](const httplib::Request& in, httplib::Response& out) { unload_adapter(in, out); });
  server.Get("/health", [this](const httplib::Request&, httplib::Response& out) {
    out.status = stopping_ ? 503 : 200;
    out.set_content(stopping_ ? R"({"status":"shutting down"})" : R"({"status":"ok"})", "application/json");
  });
  server.Get("/metrics", [this](const httplib::Request&, httplib::Response& out) {
    out.set_content(metrics_.text(d_.slots, d_.cache), "text/plain; version=0.0.4");
  });
  server.set_error_handler([](const httplib::Request& in, httplib::Response& out) {
    if (!out.body.empty()) return;
    const char* what = out.status == 404   ? "nothing is at "
                       : out.status == 413 ? "the body is larger than this server takes, at "
                                           : "the request cannot be answered, at ";
    set_error(out, ApiError(out.status, what + in.path));
  });
  server.set_exception_handler(
      [](const httplib::Request&, httplib::Response& out, std::exception_ptr) { set_error(out, ApiError(500, "an error of the server")); });
  server.set_logger([this](const httplib::Request& in, const httplib::Response& out) {
    const bool known = in.path == "/v1/chat/completions" || in.path == "/v1/completions" || in.path == "/v1/embeddings";
    metrics_.count_request(known ? in.path : "other", out.status);
  });
}

}  // namespace llm
