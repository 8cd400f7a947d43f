#pragma once
// HTTP/1.1 for one service behind a balancer: a thread a connection, connections that stay open, bodies of a known length. No TLS, no
// chunks, and the host is a number, not a name: so that a program linked statically needs nothing of the system but its kernel.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, path;  ///< the path without what follows a '?'
  Headers headers;
  std::string body;
  const std::string* header(const char* name) const {
    const auto at = std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return strcasecmp(h.first.c_str(), name) == 0; });
    return at == headers.end() ? nullptr : &at->second;
  }
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json", body = "{}";
  Headers headers;
};

/// The number that the whole text is; false: it is none.
inline bool number(std::string_view text, size_t* n) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *n);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

class Http {
 public:
  using Handler = std::function<void(const HttpRequest&, HttpAnswer&)>;
  static constexpr size_t kMostHead = size_t{64} << 10, kMostBody = size_t{64} << 20, kMostConnections = 1024;
  static constexpr time_t kIdleSeconds = 75;  ///< longer than balancers keep a connection that nobody uses

  /// The handler is called by many threads at once; what it throws is answered with 500.
  explicit Http(Handler handler) : handler_(std::move(handler)) {}
  ~Http() {
    if (listener_ >= 0) close(listener_);
  }
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  /// Host: an IPv4 or IPv6 address. Port 0: one that is free. The port.
  int listen(const std::string& host, int port) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET, v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons(static_cast<uint16_t>(port));
    const bool old = inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1;
    if (!old && inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) throw std::runtime_error("--host: " + host + " is no address");
    auto* at = old ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    socklen_t size = old ? sizeof v4 : sizeof v6;
    const int on = 1;
    listener_ = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener_ < 0 || setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) || bind(listener_, at, size) ||
        ::listen(listener_, 1024) || getsockname(listener_, at, &size))
      throw std::runtime_error("cannot listen at " + host + ":" + std::to_string(port) + ": " + std::strerror(errno));
    return ntohs(old ? v4.sin_port : v6.sin6_port);
  }

  /// Until stop(), and until what had begun by then is answered.
  void serve() {
    while (true) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopped_ || open_.size() < kMostConnections; });
      if (stopped_) break;
      lock.unlock();
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      lock.lock();
      if (fd < 0) {
        // Out of descriptors or memory: what is open has to end first.
        if (!stopped_ && errno != EINTR && errno != ECONNABORTED) changed_.wait_for(lock, std::chrono::milliseconds(50));
        continue;
      }
      if (stopped_) {
        close(fd);
        break;
      }
      open_[fd] = false;
      try {
        std::thread([this, fd] { connection(fd); }).detach();
      } catch (const std::system_error&) {  // no more threads
        open_.erase(fd);
        close(fd);
      }
    }
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_.empty(); });
  }

  void stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (const auto& [fd, busy] : open_)
      if (!busy) shutdown(fd, SHUT_RD);
    changed_.notify_all();
  }

 private:
  struct Refused {
    int status;
    const char* why;
  };

  void connection(int fd) {
    const timeval patience{kIdleSeconds, 0};
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    std::string got;
    for (bool stays = true; stays;) {
      HttpRequest request;
      HttpAnswer answer;
      try {
        if (!read(fd, &got, &request, &stays)) break;
        handler_(request, answer);
      } catch (const Refused& r) {
        answer = {r.status, "text/plain", r.why, {}};
        stays = false;  // where the next request would begin is not known
      } catch (const std::exception& e) { answer = {500, "text/plain", e.what(), {}}; } catch (...) {
        answer = {500, "text/plain", "failed", {}};
      }
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        stays = stays && !stopped_;
        open_[fd] = false;
      }
      stays = write(fd, request.method == "HEAD", answer, stays) && stays;
    }
    shutdown(fd, SHUT_WR);  // a close with unread bytes would take the answer back
    const timeval soon{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
    char rest[4096];
    for (int i = 0; i < 64 && recv(fd, rest, sizeof rest, 0) > 0; ++i) {}
    const std::lock_guard<std::mutex> lock(mutex_);
    open_.erase(fd);
    close(fd);
    changed_.notify_all();
  }

  /// More bytes behind those that are there; false: the other side has ended, or says nothing.
  static bool more(int fd, std::string* got, size_t room) {
    const size_t had = got->size();
    got->resize(had + room);
    ssize_t n;
    do n = recv(fd, got->data() + had, room, 0);
    while (n < 0 && errno == EINTR);
    got->resize(had + (n > 0 ? static_cast<size_t>(n) : 0));
    return n > 0;
  }

  /// The next request; `got` is what came behind the one before, and then what came behind this one. False: there is none.
  bool read(int fd, std::string* got, HttpRequest* r, bool* stays) {
    size_t end;
    while ((end = got->find("\r\n\r\n")) == std::string::npos) {
      if (got->size() > kMostHead) throw Refused{431, "the headers are too long"};
      if (!more(fd, got, 16384)) return false;
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      open_[fd] = true;
    }
    const std::string_view head(got->data(), end);
    size_t line = std::min(head.find("\r\n"), head.size());
    const std::string_view first = head.substr(0, line);
    const size_t a = first.find(' '), b = first.rfind(' ');
    if (a == std::string_view::npos || b <= a || first.substr(b + 1, 7) != "HTTP/1.") throw Refused{400, "the request line is none"};
    r->method = first.substr(0, a);
    r->path = first.substr(a + 1, std::min(b, first.find('?')) - a - 1);
    while (line < head.size()) {
      const size_t begin = line + 2;
      line = std::min(head.find("\r\n", begin), head.size());
      const std::string_view h = head.substr(begin, line - begin);
      const size_t colon = h.find(':');
      if (colon == 0 || colon == std::string_view::npos) throw Refused{400, "a header has no name"};
      const size_t from = std::min(h.find_first_not_of(" \t", colon + 1), h.size()), to = h.find_last_not_of(" \t") + 1;
      r->headers.emplace_back(h.substr(0, colon), h.substr(from, std::max(from, to) - from));
    }
    const std::string* how = r->header("Connection");
    *stays = how ? strcasecmp(how->c_str(), "close") != 0 && (first.back() != '0' || strcasecmp(how->c_str(), "keep-alive") == 0)
                 : first.back() != '0';
    if (r->header("Transfer-Encoding")) throw Refused{411, "a body needs its Content-Length"};
    size_t length = 0;
    if (const std::string* said = r->header("Content-Length"); said && !number(*said, &length))
      throw Refused{400, "Content-Length is no number"};
    if (length > kMostBody) throw Refused{413, "the body is too long"};
    got->erase(0, end + 4);
    const std::string* expect = r->header("Expect");
    if (expect && got->size() < length && !all(fd, "HTTP/1.1 100 Continue\r\n\r\n")) return false;
    for (size_t had = got->size(); had < length;) {
      got->resize(length);
      const ssize_t n = recv(fd, got->data() + had, length - had, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      had += static_cast<size_t>(n);
    }
    if (got->size() == length)
      r->body = std::exchange(*got, {});
    else
      r->body = got->substr(0, length), got->erase(0, length);
    return true;
  }

  static bool all(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(fd, text.data(), text.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  static bool write(int fd, bool head_only, const HttpAnswer& a, bool stays) {
    static constexpr std::pair<int, const char*> kReasons[] = {
        {200, "OK"},        {400, "Bad Request"},       {404, "Not Found"}, {405, "Method Not Allowed"}, {411, "Length Required"},
        {413, "Too Large"}, {431, "Headers Too Large"}, {500, "Failed"},    {503, "Service Unavailable"}};
    const auto* reason = std::find_if(std::begin(kReasons), std::end(kReasons), [&](const auto& r) { return r.first == a.status; });
    std::string head = "HTTP/1.1 " + std::to_string(a.status) + " " + (reason == std::end(kReasons) ? "" : reason->second) +
                       "\r\nContent-Type: " + a.type + "\r\nContent-Length: " + std::to_string(a.body.size()) + "\r\n";
    for (const auto& [name, value] : a.headers) head += name + ": " + value + "\r\n";
    head += stays ? "\r\n" : "Connection: close\r\n\r\n";
    if (head_only) return all(fd, head);
    if (a.body.size() <= 16384) return all(fd, head + a.body);
    return all(fd, head) && all(fd, a.body);
  }

  Handler handler_;
  int listener_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, bool> open_;  ///< by descriptor: is a request being answered
  bool stopped_ = false;
};

}  // namespace server
