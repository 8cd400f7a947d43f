// A server of one language model, with OpenAI's API.
//
//   c++ -std=c++17 -O2 -I runtime/include samples/llm_server/*.cpp samples/tokenizer/*.cpp -o llm_server
//     -lcpp-httplib -lpcre2-8 -lutf8proc -ldl -lpthread
//   ./llm_server model.so [--host 127.0.0.1] [--port 8080] [--threads N] ...
//
// Debian's libcpp-httplib-dev, nlohmann-json3-dev, libpcre2-dev and libutf8proc-dev. The folder of the artifact has server.json and
// tokenizer.json, which samples/llm/export.py writes. SIGTERM and SIGINT: new requests get 503, those that run may end, then the server
// does.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "../tokenizer/nfc_utf8proc.h"
#include "../tokenizer/regex_pcre2.h"
#include "service.h"

namespace {

struct Options {
  std::string model, folder, host = "127.0.0.1", api_key, adapter_folder;
  std::vector<std::pair<std::string, std::string>> adapters;  ///< names and folders
  int64_t port = 8080, threads = -1, queue = 64, max_body = 1 << 20, max_tokens = 0, max_sequences = 16, connections = 256, drain = 30,
          trim_after = 0, prompt_tokens = 0;
};

struct Number {
  const char* name;
  int64_t Options::*member;
  int64_t least, most;
  const char* help;
};
constexpr Number kNumbers[] = {
    {"--port", &Options::port, 0, 65535, "0: any free one, which the first line of the output tells"},
    {"--threads", &Options::threads, -1, 4096, "of the artifact; -1: all cores"},
    {"--queue", &Options::queue, 0, 1 << 20, "sequences that may wait for a slot; more get 429"},
    {"--max-body", &Options::max_body, 1, int64_t{1} << 32, "bytes of a request; larger ones get 413"},
    {"--max-tokens", &Options::max_tokens, 0, INT32_MAX, "of one answer; 0: what the cache holds"},
    {"--max-sequences", &Options::max_sequences, 1, 1 << 16, "of one request: prompts times n"},
    {"--connections", &Options::connections, 1, 1 << 16, "that are served at once; each takes a thread"},
    {"--prompt-tokens", &Options::prompt_tokens, 0, 1 << 20,
     "of a run while answers are under way: fewer for less time between their tokens and more to the first; 0: all that the program takes"},
    {"--trim-after", &Options::trim_after, 0, 1 << 30, "seconds without a request after which the weights' memory is given back; 0: never"},
    {"--drain", &Options::drain, 0, 1 << 20, "seconds that running answers have on SIGTERM"},
};
struct Text {
  const char* name;
  std::string Options::*member;
  const char* help;
};
constexpr Text kTexts[] = {
    {"--folder", &Options::folder, "where server.json and tokenizer.json lie, if not beside the artifact"},
    {"--host", &Options::host, "the address to listen at"},
    {"--api-key", &Options::api_key, "what clients must send"},
    {"--adapter-folder", &Options::adapter_folder, "whose folders /v1/load_lora_adapter may load"},
};

[[noreturn]] void usage(const std::string& wrong) {
  if (!wrong.empty()) std::fprintf(stderr, "llm_server: %s\n", wrong.c_str());
  std::fprintf(stderr, "usage: llm_server model.so [options]\n");
  const Options defaults;
  for (const Number& n : kNumbers) std::fprintf(stderr, "  %-16s %s (%lld)\n", n.name, n.help, static_cast<long long>(defaults.*n.member));
  for (const Text& t : kTexts) std::fprintf(stderr, "  %-16s %s\n", t.name, t.help);
  std::fprintf(stderr, "  %-16s %s\n", "--adapter", "NAME=FOLDER: a LoRA adapter as PEFT saves it, a model of this name (repeatable)");
  std::exit(wrong.empty() ? 0 : 2);
}

Options parse_options(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--help") usage("");
    if (a.rfind("--", 0) != 0) {
      if (!o.model.empty()) usage("two models: " + o.model + " and " + a);
      o.model = a;
      continue;
    }
    bool known = false;
    const auto value = [&]() -> const char* {
      known = true;
      if (i + 1 == argc) usage(a + " needs a value");
      return argv[++i];
    };
    for (const Number& n : kNumbers)
      if (!known && a == n.name) {
        char* rest;
        const char* text = value();
        const long long x = std::strtoll(text, &rest, 10);
        if (!*text || *rest || x < n.least || x > n.most)
          usage(a + " is " + text + ", expected " + std::to_string(n.least) + " to " + std::to_string(n.most));
        o.*n.member = x;
      }
    for (const Text& t : kTexts)
      if (!known && a == t.name) o.*t.member = value();
    if (!known && a == "--adapter") {
      const std::string text = value();
      const size_t equals = text.find('=');
      if (equals == std::string::npos || equals == 0) usage(a + " is " + text + ", expected NAME=FOLDER");
      o.adapters.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    if (!known) usage("unknown option " + a);
  }
  if (o.model.empty()) usage("no model is named");
  if (o.folder.empty()) o.folder = o.model.find('/') == std::string::npos ? "." : o.model.substr(0, o.model.rfind('/'));
  return o;
}

/// What a client writes must not end an answer or a message: tokens that do are marks, even where tokenizer.json does not call them
/// special.
void set_marks(tok::Tokenizer& tokenizer, const llm::Description& d) {
  for (const int64_t id : d.ends) tokenizer.set_mark(id);
  for (const auto* table : {&d.chat.start, &d.chat.between, &d.chat.end})
    for (const auto& [roles, text] : *table)
      for (const int64_t id : tokenizer.marks_in(text)) tokenizer.set_mark(id);
}

int run(const Options& o) {
  using namespace llm;
  // Signals are taken by one thread; all others are made with them blocked.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  const Description d = read_description(o.folder + "/server.json");
  tok::Tokenizer tokenizer(o.folder + "/tokenizer.json", {tok::regex_by_pcre2, tok::normalized_by_utf8proc});
  if (static_cast<int64_t>(tokenizer.size()) > d.vocabulary)
    throw std::runtime_error(o.folder + "/tokenizer.json has " + std::to_string(tokenizer.size()) + " tokens, and the model's vocabulary " +
                             std::to_string(d.vocabulary) + ": it belongs to another model");
  for (const std::vector<int64_t>* ids : {&d.ends, &d.prefix})
    for (const int64_t id : *ids)
      if (id < 0 || id >= d.vocabulary) throw std::runtime_error(o.folder + "/server.json: " + std::to_string(id) + " is not a token id");
  set_marks(tokenizer, d);
  Decoder decoder(o.model, d, static_cast<int>(o.threads));
  Metrics metrics;
  Engine engine(decoder, d, metrics, tokenizer,
                Schedule{static_cast<size_t>(o.queue), o.prompt_tokens, std::chrono::seconds(o.trim_after)});
  Adapters adapters(d.adapters, decoder.adapted(), [&](int64_t row, const std::vector<AdapterRow>& rows) {
    engine.between_runs([&] { decoder.write_adapter(row, rows); });
  });
  for (const auto& [name, folder] : o.adapters) {
    if (name == d.name) throw std::runtime_error("--adapter " + name + ": it is the model's own name");
    adapters.load(name, folder);
  }
  std::vector<std::string> texts(static_cast<size_t>(d.vocabulary));
  for (size_t id = 0; id < texts.size(); ++id) texts[id] = tokenizer.bytes(static_cast<int64_t>(id));
  Forms forms(std::move(texts));
  Service service(engine, d, tokenizer, forms, adapters, metrics, {{o.max_tokens, o.max_sequences}, o.api_key, o.adapter_folder});
  httplib::Server server;
  service.add_routes(server);
  server.set_payload_max_length(static_cast<size_t>(o.max_body));
  server.set_tcp_nodelay(true);
  server.set_write_timeout(10);
  server.set_keep_alive_timeout(6);  // seconds; clients give idle connections up after 5 (httpx), and must do so first
  server.new_task_queue = [&] { return new httplib::ThreadPool(static_cast<size_t>(o.connections)); };
  const int port =
      o.port ? (server.bind_to_port(o.host, static_cast<int>(o.port)) ? static_cast<int>(o.port) : -1) : server.bind_to_any_port(o.host);
  if (port < 0) throw std::runtime_error("cannot listen at " + o.host + ":" + std::to_string(o.port));
  std::printf("listening at http://%s:%d/v1, model %s, %lld slots of %lld tokens\n", o.host.c_str(), port, d.name.c_str(),
              static_cast<long long>(d.slots), static_cast<long long>(d.cache));
  std::fflush(stdout);
  std::atomic<bool> ended{false};
  std::thread waiter([&] {
    int which;
    sigwait(&signals, &which);
    service.begin_shutdown();
    engine.drain(std::chrono::seconds(o.drain));
    service.wait_answered(std::chrono::seconds(o.drain));  // the server breaks what it still writes when it stops
    while (!server.is_running() && !ended)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // what does not run yet is not stopped
    server.stop();
  });
  const bool listened = server.listen_after_bind();
  ended = true;
  if (!listened) pthread_kill(waiter.native_handle(), SIGTERM);
  waiter.join();
  return listened ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse_options(argc, argv);
  try {
    return run(o);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "llm_server: %s\n", e.what());
    return 1;
  }
}
