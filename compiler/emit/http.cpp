#include "emit/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/diagnostic.h"
#include "base/no_pipe_signal.h"
#include "base/system_library.h"

namespace aotc::emit {
namespace {

// member, result, arguments: as libcurl's headers declare them (7.32 or later, soname 4), its own types as void*.
#define AOTC_CURL(X)                                \
  X(curl_global_init, int, (long))                  \
  X(curl_easy_init, void*, ())                      \
  X(curl_easy_cleanup, void, (void*))               \
  X(curl_easy_reset, void, (void*))                 \
  X(curl_easy_perform, int, (void*))                \
  X(curl_easy_setopt, int, (void*, int, ...))       \
  X(curl_easy_getinfo, int, (void*, int, ...))      \
  X(curl_easy_strerror, const char*, (int))         \
  X(curl_slist_append, void*, (void*, const char*)) \
  X(curl_slist_free_all, void, (void*))

// Numbers of its binary interface: a long, pointer, function or curl_off_t by the thousands.
constexpr int kUpload = 46, kNoSignal = 99, kTimeoutMs = 155, kConnectTimeoutMs = 156;
constexpr int kWriteData = 10001, kUrl = 10002, kReadData = 10009, kErrorBuffer = 10010, kUserAgent = 10018, kHttpHeader = 10023,
              kHeaderData = 10029, kCaFile = 10065;
constexpr int kWriteFunction = 20011, kReadFunction = 20012, kHeaderFunction = 20079;
constexpr int kInFileSize = 30115;
constexpr int kResponseCode = 0x200000 + 2;
constexpr long kGlobalDefault = 3;
constexpr size_t kErrorBytes = 256;
constexpr size_t kHeaderBytes = 64 << 10;  // more than that of headers is no answer of a cache

struct Library {
#define AOTC_X(name, result, arguments) result(*name) arguments = nullptr;
  AOTC_CURL(AOTC_X)
#undef AOTC_X
  const char* missing = nullptr;  ///< what of it is not on the machine

  Library() {
    SystemLibrary found({"libcurl.so.4", "libcurl-gnutls.so.4"});
#define AOTC_X(name, result, arguments) found.take(#name, name);
    AOTC_CURL(AOTC_X)
#undef AOTC_X
    missing = found.missing();
    if (!missing && curl_global_init(kGlobalDefault) != 0) missing = "a libcurl that starts";
  }
};

const Library& opened() {
  static const Library one;
  return one;
}

/// What libcurl's callbacks fill and read.
struct Transfer {
  std::string body;
  uint64_t limit_bytes = 0;
  size_t header_bytes = 0;
  bool too_large = false;
  std::string_view to_send;
};

size_t on_body(char* bytes, size_t size, size_t n, void* to) {
  Transfer& t = *static_cast<Transfer*>(to);
  t.too_large = t.too_large || size * n > t.limit_bytes - t.body.size();
  if (t.too_large) return 0;  // ends the transfer
  t.body.append(bytes, size * n);
  return size * n;
}

size_t on_header(char*, size_t size, size_t n, void* to) {
  Transfer& t = *static_cast<Transfer*>(to);
  t.header_bytes += size * n;
  t.too_large = t.too_large || t.header_bytes > kHeaderBytes;
  return t.too_large ? 0 : size * n;
}

size_t on_read(char* to, size_t size, size_t n, void* from) {
  Transfer& t = *static_cast<Transfer*>(from);
  const size_t bytes = std::min(size * n, t.to_send.size());
  std::memcpy(to, t.to_send.data(), bytes);
  t.to_send.remove_prefix(bytes);
  return bytes;
}

}  // namespace

/// Handles that are not in use keep their connections open.
struct HttpClient::Connections {
  std::mutex lock;
  std::vector<void*> idle;
  void* headers = nullptr;  ///< of each request

  void* take() {
    const std::lock_guard<std::mutex> guard(lock);
    if (idle.empty()) return opened().curl_easy_init();
    void* last = idle.back();
    idle.pop_back();
    return last;
  }
  void give(void* handle) {
    const std::lock_guard<std::mutex> guard(lock);
    idle.push_back(handle);
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)), connections_(std::make_unique<Connections>()) {
  if (const char* missing = opened().missing)
    throw Diagnostic(ExitCode::toolchain, {}, fmt::format("a cache behind a URL needs libcurl: {} is not there", missing))
        .note("Debian: apt-get install libcurl4; a cache in a folder works without it");
  const auto plain = [](unsigned char c) { return c > ' ' && c < 127; };
  if (!std::all_of(options_.token.begin(), options_.token.end(), plain))
    throw Diagnostic(ExitCode::usage, {},
                     "AOTC_CACHE_TOKEN has a character that a token cannot have: a blank, a line break or one beyond ASCII");
  const Library& l = opened();
  // Expect: a server that does not know it would cost a second for each object.
  for (const std::string& line : {std::string("Expect:"), std::string("Content-Type: application/octet-stream")})
    connections_->headers = l.curl_slist_append(connections_->headers, line.c_str());
  if (!options_.token.empty())
    connections_->headers = l.curl_slist_append(connections_->headers, ("Authorization: Bearer " + options_.token).c_str());
}

HttpClient::~HttpClient() {
  for (void* handle : connections_->idle) opened().curl_easy_cleanup(handle);
  opened().curl_slist_free_all(connections_->headers);
}

HttpAnswer HttpClient::get(const std::string& url) { return request(url, nullptr); }
HttpAnswer HttpClient::put(const std::string& url, std::string_view body) { return request(url, &body); }

HttpAnswer HttpClient::request(const std::string& url, const std::string_view* body) {
  const Library& l = opened();
  const NoPipeSignal guard;
  void* handle = connections_->take();
  if (!handle) return {0, {}, "libcurl makes no handle"};
  Transfer t;
  t.limit_bytes = options_.limit_bytes;
  char error[kErrorBytes] = "";
  const long ms = std::max(1l, static_cast<long>(options_.timeout_s * 1000));
  l.curl_easy_setopt(handle, kUrl, url.c_str());
  l.curl_easy_setopt(handle, kUserAgent, "aotc");
  l.curl_easy_setopt(handle, kHttpHeader, connections_->headers);
  l.curl_easy_setopt(handle, kNoSignal, 1l);
  l.curl_easy_setopt(handle, kTimeoutMs, ms);
  l.curl_easy_setopt(handle, kConnectTimeoutMs, ms);
  l.curl_easy_setopt(handle, kErrorBuffer, static_cast<char*>(error));
  l.curl_easy_setopt(handle, kWriteFunction, &on_body);
  l.curl_easy_setopt(handle, kWriteData, static_cast<void*>(&t));
  l.curl_easy_setopt(handle, kHeaderFunction, &on_header);
  l.curl_easy_setopt(handle, kHeaderData, static_cast<void*>(&t));
  if (const char* trusted = std::getenv("SSL_CERT_FILE"); trusted && *trusted) l.curl_easy_setopt(handle, kCaFile, trusted);
  if (body) {
    t.to_send = *body;
    l.curl_easy_setopt(handle, kUpload, 1l);
    l.curl_easy_setopt(handle, kReadFunction, &on_read);
    l.curl_easy_setopt(handle, kReadData, static_cast<void*>(&t));
    l.curl_easy_setopt(handle, kInFileSize, static_cast<int64_t>(body->size()));
  }
  HttpAnswer answer;
  const int failed = l.curl_easy_perform(handle);
  if (failed) {
    answer.why = t.too_large ? "the answer is larger than what is read of one" : *error ? error : l.curl_easy_strerror(failed);
  } else {
    long status = 0;
    l.curl_easy_getinfo(handle, kResponseCode, &status);
    answer.status = static_cast<int>(status);
    answer.body = std::move(t.body);
    if (!status) answer.why = "no HTTP status";
  }
  l.curl_easy_reset(handle);  // connections stay
  connections_->give(handle);
  return answer;
}

}  // namespace aotc::emit
