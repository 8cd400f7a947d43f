#pragma once
// HTTP by libcurl, which is opened when a client is made: no program of aotc is linked with it.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace aotc::emit {

struct HttpOptions {
  double timeout_s = 10;     ///< of a request, with finding and reaching the server
  uint64_t limit_bytes = 0;  ///< of an answer
  std::string token;         ///< sent as Authorization: Bearer; empty: none. It is in no message
};

struct HttpAnswer {
  int status = 0;    ///< 0: no answer that came whole, within the time and the limit
  std::string body;  ///< of GET
  std::string why;   ///< where status is 0
};

/// Redirects are not followed, since a token is not for other servers; proxies are those of the environment (http_proxy, no_proxy). A
/// certificate must be of those that the machine trusts, or of the file SSL_CERT_FILE. Any number of threads may ask at once.
class HttpClient {
 public:
  /// Throws Diagnostic: toolchain where libcurl is not on the machine; usage where the token is none that a header can have.
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpAnswer get(const std::string& url);
  HttpAnswer put(const std::string& url, std::string_view body);

 private:
  struct Connections;
  HttpAnswer request(const std::string& url, const std::string_view* body);
  HttpOptions options_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace aotc::emit
