#include "base/worker_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/json_depth.h"
#include "base/no_pipe_signal.h"
#include "base/process.h"

namespace aotc {
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
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  *to = in[1], *from = out[0];
  return true;
}

using Clock = std::chrono::steady_clock;
constexpr double kSlowest = 65536;            // bytes a second that a connection takes at least
constexpr size_t kLongestLine = 64 << 20;     // bytes of an answer
constexpr size_t kMostAfterwards = 16 << 20;  // bytes that are looked at when the time is over

/// Milliseconds to `until`, for poll; 0 when it is over.
int left_until(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<decltype(left)>(left, 0, 1000));
}

/// Processor time of a process that is there, in seconds; 0 where the system does not say.
double cpu_seconds(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(in, text);
  const size_t name_end = text.rfind(')');  // the name may have anything in it
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;  // from the state on; then utime, stime
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

struct WorkerProcess::Child {
  pid_t pid = -1;
  int to = -1, from = -1;
  std::string pending;
  ~Child() { end(std::chrono::milliseconds(0)); }
  /// Its status as waitpid has it; killed where it does not end by itself in that time.
  int end(std::chrono::milliseconds patience) {
    if (to >= 0) close(to);
    if (from >= 0) close(from);
    to = from = -1;
    int status = 0;
    if (pid > 0) {
      const auto until = Clock::now() + patience;
      pid_t ended = 0;
      while (patience.count() > 0 && (ended = waitpid(pid, &status, WNOHANG)) == 0 && Clock::now() < until) usleep(1000);
      if (ended == 0) {
        kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
      }
    }
    pid = -1;
    return status;
  }
  enum class Answer { line, closed, late, given_up, endless };
  /// line: it was taken. late: nothing of it was for that long.
  Answer send(const std::string& line, double seconds) {
    const NoPipeSignal guard;
    const auto begin = Clock::now();
    for (size_t done = 0; done < line.size();) {
      const ssize_t n = write(to, line.data() + done, line.size() - done);
      if (n > 0) done += static_cast<size_t>(n);
      if (n > 0 || (n < 0 && errno == EINTR)) continue;
      if (n == 0 || errno != EAGAIN) return Answer::closed;
      const std::chrono::duration<double> limit(seconds + static_cast<double>(done) / kSlowest);
      const auto until = begin + std::chrono::duration_cast<Clock::duration>(limit);
      pollfd p{to, POLLOUT, 0};
      if (poll(&p, 1, left_until(until)) <= 0 && Clock::now() >= until) return Answer::late;
    }
    return Answer::line;
  }
  /// `watch` is asked while nothing comes; cpu_before: of the worker when the request began.
  Answer receive(double seconds, std::string* line, const Watch& watch, double cpu_before) {
    constexpr int kLook_ms = 250;
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    size_t searched = 0, afterwards = 0;
    for (;;) {
      if (const size_t end = pending.find('\n', searched); end != std::string::npos) {
        *line = pending.substr(0, end);
        pending.erase(0, end + 1);
        return Answer::line;
      }
      searched = pending.size();
      if (searched > kLongestLine) return Answer::endless;
      // What lies there counts even after the time: this process may have been stopped meanwhile.
      const bool over = Clock::now() >= until;
      pollfd p{from, POLLIN, 0};
      if (poll(&p, 1, watch ? std::min(left_until(until), kLook_ms) : left_until(until)) <= 0) {
        if (over) return Answer::late;
        if (watch && !watch(cpu_seconds(pid) - cpu_before)) return Answer::given_up;
        continue;
      }
      char buffer[4096];
      const ssize_t n = read(from, buffer, sizeof(buffer));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Answer::closed;
      pending.append(buffer, static_cast<size_t>(n));
      if (over && (afterwards += static_cast<size_t>(n)) > kMostAfterwards) return Answer::late;
    }
  }
};

std::string this_program() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "/proc/self/exe";
}

WorkerProcess::WorkerProcess(WorkerCommand command) : command_(std::move(command)) {}
WorkerProcess::~WorkerProcess() = default;

Result<nlohmann::json> WorkerProcess::lost(Loss how, std::string why) {
  loss_ = how;
  if (child_ && how == Loss::ended) {
    const int status = child_->end(std::chrono::seconds(2));
    signal_ = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    why += signal_ ? fmt::format(" ({})", strsignal(signal_)) : fmt::format(" (exit code {})", WEXITSTATUS(status));
  }
  child_.reset();
  return Result<nlohmann::json>::fail(std::move(why));
}

Result<nlohmann::json> WorkerProcess::ask(const nlohmann::json& request, double limit_s, const std::string& attachment,
                                          const Watch& watch) {
  using R = Result<nlohmann::json>;
  using Answer = Child::Answer;
  const auto failed = [&](Answer how) {
    if (how == Answer::closed) return lost(Loss::ended, "the worker crashed");
    if (how == Answer::given_up) return lost(Loss::late, "was given up");
    return lost(Loss::late, how == Answer::late ? fmt::format("took longer than {:.0f} s", limit_s) : "the worker's answer has no end");
  };
  loss_ = Loss::none, signal_ = 0;
  if (!child_) {
    auto fresh = std::make_unique<Child>();
    if (auto started = start(command_.words, &fresh->pid, &fresh->to, &fresh->from); !started)
      return lost(Loss::not_started, started.why());
    child_ = std::move(fresh);
    if (const Answer how = child_->send(command_.preamble, limit_s); how != Answer::line) return failed(how);
  }
  std::string line;
  const double cpu_before = watch ? cpu_seconds(child_->pid) : 0;
  if (const Answer how = child_->send(request.dump() + "\n", limit_s); how != Answer::line) return failed(how);
  if (const Answer how = child_->send(attachment, limit_s); how != Answer::line) return failed(how);
  if (const Answer how = child_->receive(limit_s, &line, watch, cpu_before); how != Answer::line) return failed(how);
  nlohmann::json answer = nests_too_deep(line) ? nlohmann::json() : nlohmann::json::parse(line, nullptr, false);
  if (!answer.is_object()) return R::fail("the worker's answer is no JSON");
  if (answer.contains("error") && answer["error"].is_string()) return R::fail(answer["error"].get<std::string>());
  return answer;
}

}  // namespace aotc
