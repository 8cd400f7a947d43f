#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

extern "C" char** environ;

namespace aotc {
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
  const int error = spawn(argv, -1, fds[1], fds[1], &child.pid);
  close(fds[1]);
  if (error != 0) {
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

/// The children under way. Whatever is left when an exception ends the work is ended too.
struct Running {
  std::vector<Child> children;
  ~Running() {
    for (const Child& c : children) kill(-c.pid, SIGTERM);
    for (Child& c : children) finish(c);
  }
};

struct Relation {
  pid_t parent = 0;
  bool ended = false;  ///< a zombie: nothing runs
};

/// Every process that this one may see.
std::map<pid_t, Relation> processes() {
  std::map<pid_t, Relation> out;
  DIR* proc = opendir("/proc");
  if (!proc) return out;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::FILE* f = std::fopen(("/proc/" + std::string(entry->d_name) + "/stat").c_str(), "re");
    if (!f) continue;
    char text[1024];
    const size_t n = std::fread(text, 1, sizeof text - 1, f);
    std::fclose(f);
    text[n] = 0;
    const char* name_end = std::strrchr(text, ')');  // the name may hold anything
    char state = 0;
    int parent = 0;
    if (name_end && std::sscanf(name_end + 1, " %c %d", &state, &parent) == 2) out[pid] = {parent, state == 'Z' || state == 'X'};
  }
  closedir(proc);
  return out;
}

/// Running descendants, parents first.
std::vector<pid_t> descendants() {
  const std::map<pid_t, Relation> all = processes();
  std::vector<pid_t> out, tree = {getpid()};
  for (size_t i = 0; i < tree.size(); ++i)
    for (const auto& [pid, relation] : all)
      if (relation.parent == tree[i] && std::find(tree.begin(), tree.end(), pid) == tree.end()) {
        tree.push_back(pid);
        if (!relation.ended) out.push_back(pid);
      }
  return out;
}

}  // namespace

int spawn(const std::vector<std::string>& argv, int in, int out, int err, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  if (in < 0) posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  for (const auto& [from, to] : {std::pair{in, STDIN_FILENO}, {out, STDOUT_FILENO}, {err, STDERR_FILENO}})
    if (from >= 0) posix_spawn_file_actions_adddup2(&actions, from, to);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& a : argv) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::vector<ProcessResult> run_processes(const std::vector<std::vector<std::string>>& commands, int jobs,
                                         const std::function<void(size_t, const ProcessResult&)>& done) {
  std::vector<ProcessResult> results(commands.size());
  Running under_way;
  std::vector<Child>& running = under_way.children;
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
      Child child = std::move(running[i]);
      running.erase(running.begin() + static_cast<ptrdiff_t>(i));
      finish(child);
      end(child.index, std::move(child.result));
    }
  }
  return results;
}

ProcessResult run_process(const std::vector<std::string>& argv) { return run_processes({argv}, 1).front(); }

void end_children(double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto patience = Clock::now() + std::chrono::duration<double>(seconds), hopeless = patience + std::chrono::seconds(5);
  int signal = SIGTERM;
  for (std::vector<pid_t> left = descendants(); !left.empty() && Clock::now() < hopeless; left = descendants()) {
    for (const pid_t pid : left) {  // the group of a child that leads one has also those that it starts meanwhile
      const pid_t group = getpgid(pid);
      kill(group > 0 && group != getpgrp() ? -group : pid, signal);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    signal = Clock::now() < patience ? 0 : SIGKILL;  // 0: only looks
  }
}

}  // namespace aotc
