#include "emit/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

extern "C" char** environ;

namespace aotc::emit {
namespace {

struct Child {
  pid_t pid = -1;
  int out = -1;
  size_t index = 0;
  ProcessResult result;
};

bool start(const std::vector<std::string>& argv, Child& child) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
  std::vector<char*> words;
  for (const std::string& a : argv) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  const int rc = posix_spawnp(&child.pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(fds[1]);
  if (rc != 0) {
    close(fds[0]);
    return false;
  }
  child.out = fds[0];
  return true;
}

void finish(Child& child) {
  close(child.out);
  int status = 0;
  waitpid(child.pid, &status, 0);
  child.result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands, int jobs,
                                         const std::function<void(size_t, const ProcessResult&)>& done) {
  std::vector<ProcessResult> results(commands.size());
  std::vector<Child> running;
  size_t next = 0;
  auto end = [&](size_t index, ProcessResult result) {
    results[index] = std::move(result);
    if (done) done(index, results[index]);
  };
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && running.size() < static_cast<size_t>(std::max(1, jobs))) {
      Child child;
      child.index = next;
      if (start(commands[next], child))
        running.push_back(std::move(child));
      else
        end(next, {127, commands[next].front() + ": cannot be started"});
      ++next;
    }
    std::vector<pollfd> fds;
    for (const Child& c : running) fds.push_back({c.out, POLLIN, 0});
    if (fds.empty() || poll(fds.data(), fds.size(), -1) < 0) continue;
    for (size_t i = fds.size(); i-- > 0;) {
      if (!fds[i].revents) continue;
      char block[4096];
      const ssize_t n = read(running[i].out, block, sizeof block);
      if (n > 0) {
        running[i].result.output.append(block, static_cast<size_t>(n));
        continue;
      }
      finish(running[i]);
      end(running[i].index, std::move(running[i].result));
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  return results;
}

ProcessResult run_process(const std::vector<std::string>& argv) { return run_processes({argv}, 1).front(); }

}  // namespace aotc::emit
