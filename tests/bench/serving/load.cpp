// Clients of a service, each with a connection of its own and one request at a time: how many are answered a second, and how late.
//
//   c++ -std=c++17 -O2 tests/bench/serving/load.cpp -o load -lpthread
//   ./load PORT PATH BODY HEAD CLIENTS SECONDS [STEPS]      BODY: a file, of which HEAD bytes are JSON (0: all of them)
//   ./load PORT METHOD BODY grpc CLIENTS SECONDS [STEPS]    BODY: a message of the method /package.Service/Method
//
// With STEPS (from 2) each client sends sequences of so many requests: BODY.first, BODY, ..., BODY.last, with the text 1000000000 in them
// replaced by the client's number of as many digits.
//
// Prints a line of JSON. Times are microseconds. The first half second counts in "all" alone. Any answer but 200 (gRPC: OK) is an error.
// BODY.answer is the first client's last answer, with its headers.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "grpc_calls.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Client {
  int fd = -1;
  std::string got;
  std::vector<std::string> requests;  ///< of a first step, one of the middle, a last one; or the only one
  std::vector<float> times;
  long errors = 0, asked = 0;
  GrpcCalls calls;
  bool grpc = false;

  /// `method`: of gRPC, else nothing.
  bool open(int port, const std::string& method) {
    sockaddr_in at{};
    at.sin_family = AF_INET, at.sin_port = htons(static_cast<uint16_t>(port)), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    grpc = !method.empty();
    return connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && (!grpc || calls.begin(fd, method));
  }
  bool more() {
    char buffer[65536];
    const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
    if (n > 0) got.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }
  /// 200 or OK; false: anything else.
  bool ask(const std::string& request) {
    if (grpc) return calls.call(request, &got);
    for (size_t sent = 0; sent < request.size();) {
      const ssize_t n = send(fd, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    got.clear();
    size_t end;
    while ((end = got.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return false;
    std::transform(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(end), got.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const size_t own = got.find("\ncontent-length: ") + 1;  // not the end of Inference-Header-Content-Length
    if (own == 0 || own > end) return false;
    const size_t length = std::strtoul(got.c_str() + got.find(' ', own), nullptr, 10);
    while (got.size() < end + 4 + length)
      if (!more()) return false;
    return got.compare(9, 3, "200") == 0;
  }
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream body;
  body << file.rdbuf();
  return body.str();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7 && argc != 8) {
    std::fprintf(stderr, "usage: load PORT PATH BODY HEAD|grpc CLIENTS SECONDS [STEPS]\n");
    return 2;
  }
  const int steps = argc == 8 ? std::atoi(argv[7]) : 0;
  const int port = std::atoi(argv[1]), count = std::atoi(argv[5]);
  const double seconds = std::atof(argv[6]);
  const bool grpc = std::strcmp(argv[4], "grpc") == 0;
  const std::string file = argv[3], head = std::atoi(argv[4]) ? std::string("Inference-Header-Content-Length: ") + argv[4] + "\r\n" : "";
  std::vector<std::string> requests;
  for (const std::string& path :
       steps > 1 ? std::vector<std::string>{file + ".first", file, file + ".last"} : std::vector<std::string>{file}) {
    const std::string text = read(path);
    requests.push_back(grpc
                           ? GrpcCalls::wrapped(text)
                           : std::string("POST ") + argv[2] + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n" +
                                 head + "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
  }
  std::vector<Client> clients(static_cast<size_t>(count));
  for (Client& c : clients)
    if (!c.open(port, grpc ? argv[2] : "")) {
      std::fprintf(stderr, "load: cannot connect\n");
      return 1;
    }
  static constexpr char kNumber[] = "1000000000";
  for (Client& c : clients) {
    c.requests = requests;
    const std::string own = std::to_string(1000000000 + getpid() % 100000 * 1000 + (&c - clients.data()));
    for (std::string& r : c.requests)
      if (const size_t at = steps > 1 ? r.find(kNumber) : std::string::npos; at != std::string::npos) r.replace(at, own.size(), own);
  }
  const auto from = Clock::now() + std::chrono::milliseconds(500);
  const auto until = from + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  for (Client& c : clients)
    threads.emplace_back([&] {
      while (true) {
        const auto begin = Clock::now();
        const long step = steps > 1 ? c.asked % steps : 0;
        const bool over = begin >= until;
        if (over && step == 0) break;
        const bool fine = c.ask(c.requests[step == 0 ? 0 : over || step == steps - 1 ? 2 : 1]);
        const auto end = Clock::now();
        ++c.asked;
        if (!fine && ++c.errors) break;
        if (over) break;  // what had begun was ended
        if (end >= from && end < until) c.times.push_back(std::chrono::duration<float, std::micro>(end - begin).count());
      }
    });
  for (std::thread& t : threads) t.join();
  std::ofstream(file + ".answer", std::ios::binary) << clients[0].got;
  std::vector<float> all;
  long errors = 0, asked = 0;
  for (Client& c : clients) {
    asked += c.asked;
    all.insert(all.end(), c.times.begin(), c.times.end());
    errors += c.errors;
    close(c.fd);
  }
  std::sort(all.begin(), all.end());
  const auto at = [&](double q) {
    return all.empty() ? 0.0 : static_cast<double>(all[static_cast<size_t>(q * static_cast<double>(all.size() - 1))]);
  };
  std::printf(
      "{\"clients\": %d, \"requests\": %zu, \"rate\": %.2f, \"p50\": %.0f, \"p90\": %.0f, \"p99\": %.0f, \"errors\": %ld, \"all\": %ld}\n",
      count, all.size(), static_cast<double>(all.size()) / seconds, at(0.5), at(0.9), at(0.99), errors, asked);
  return errors != 0;
}
