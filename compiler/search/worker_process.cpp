#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/process.h"
#include "search/worker_process.h"

namespace aotc::search {

struct WorkerProcess::Child {
  pid_t pid = -1;
  int to = -1, from = -1;
  std::string pending;
  ~Child() {
    if (to >= 0) close(to);
    if (from >= 0) close(from);
    if (pid > 0) {
      kill(pid, SIGKILL);
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
    }
  }
  /// False: the pipe is broken.
  bool send(const std::string& line) {
    for (size_t done = 0; done < line.size();) {
      const ssize_t n = write(to, line.data() + done, line.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }
  enum class Answer { line, closed, late };
  Answer receive(double seconds, std::string* line) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      if (const size_t end = pending.find('\n'); end != std::string::npos) {
        *line = pending.substr(0, end);
        pending.erase(0, end + 1);
        return Answer::line;
      }
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (left <= 0) return Answer::late;
      pollfd p{from, POLLIN, 0};
      if (poll(&p, 1, static_cast<int>(left)) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(from, buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Answer::closed;
      pending.append(buffer, static_cast<size_t>(n));
    }
  }
};

namespace {

std::string this_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "/proc/self/exe";
}

}  // namespace

Result<WorkerCommand> worker_on(const std::string& host) {
  using R = Result<WorkerCommand>;
  const std::string path = (std::filesystem::path(this_program()).parent_path() / "aotc-device").string();
  std::ifstream in(path, std::ios::binary);
  if (!in) return R::fail(path + " is missing: it is what measures on another machine");
  WorkerCommand c;
  c.preamble.assign(std::istreambuf_iterator<char>(in), {});
  c.elsewhere = true;
  // A host that begins with a dash would be an option of ssh.
  c.words = {"ssh",
             "-o",
             "BatchMode=yes",
             "--",
             host,
             fmt::format("f=$(mktemp) && head -c {} >\"$f\" && chmod 700 \"$f\" && exec \"$f\" measure --temporary", c.preamble.size())};
  return c;
}

WorkerProcess::WorkerProcess(WorkerCommand command) : command_(std::move(command)) {
  if (command_.words.empty()) command_.words = {this_program(), "measure-worker"};
}
WorkerProcess::~WorkerProcess() = default;

namespace {

Result<bool> start(const std::vector<std::string>& command, pid_t* pid, int* to, int* from) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC)) return Result<bool>::fail("no pipe");
  if (pipe2(out, O_CLOEXEC)) {
    close(in[0]), close(in[1]);
    return Result<bool>::fail("no pipe");
  }
  const int error = spawn(command, in[0], out[1], -1, pid);
  close(in[0]), close(out[1]);
  if (error) {
    close(in[1]), close(out[0]);
    return Result<bool>::fail(fmt::format("{} does not start", command[0]));
  }
  *to = in[1], *from = out[0];
  return true;
}

/// A worker that dies while it is written to must not take this process with it.
class IgnorePipeSignal {
 public:
  IgnorePipeSignal() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~IgnorePipeSignal() { sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

}  // namespace

Result<nlohmann::json> WorkerProcess::ask(const nlohmann::json& request, double limit_s, const std::string& attachment) {
  using R = Result<nlohmann::json>;
  IgnorePipeSignal guard;
  if (!child_) {
    auto fresh = std::make_unique<Child>();
    if (auto started = start(command_.words, &fresh->pid, &fresh->to, &fresh->from); !started) return R::fail(started.why());
    child_ = std::move(fresh);
    if (!child_->send(command_.preamble)) {
      child_.reset();
      return R::fail("the worker crashed");
    }
  }
  std::string line;
  if (!child_->send(request.dump() + "\n") || !child_->send(attachment)) {
    child_.reset();
    return R::fail("the worker crashed");
  }
  switch (child_->receive(limit_s, &line)) {
    case Child::Answer::line: break;
    case Child::Answer::closed: child_.reset(); return R::fail("the worker crashed");
    case Child::Answer::late: child_.reset(); return R::fail(fmt::format("took longer than {:.0f} s", limit_s));
  }
  nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object()) return R::fail("the worker's answer is no JSON");
  if (answer.contains("error") && answer["error"].is_string()) return R::fail(answer["error"].get<std::string>());
  return answer;
}

}  // namespace aotc::search
