#include "load_once.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

extern "C" const unsigned char aotc_load_once_begin[], aotc_load_once_end[];  // load_once_embed.S

namespace aotc::cli {
namespace {

std::string dims_text(const HostTensor& t) {
  std::string s;
  for (int64_t d : t.dims) s += (s.empty() ? "" : "x") + std::to_string(d);
  return s.empty() ? "scalar" : s;
}

}  // namespace

Result<LoadOnce> load_once(const std::string& artifact, int threads, uint32_t flags, int method, const std::vector<HostTensor>& inputs) {
  const int program = memfd_create("aotc_load_once", MFD_CLOEXEC);
  const size_t bytes = static_cast<size_t>(aotc_load_once_end - aotc_load_once_begin);
  if (program < 0 || write(program, aotc_load_once_begin, bytes) != static_cast<ssize_t>(bytes))
    return Result<LoadOnce>::fail("no memory file for the measuring program");
  std::vector<std::string> words = {"load_once", std::filesystem::absolute(artifact).string(), std::to_string(threads),
                                    std::to_string(flags), std::to_string(method)};
  for (const HostTensor& t : inputs) words.push_back(dims_text(t));
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  int out[2];
  if (pipe(out) != 0) return Result<LoadOnce>::fail("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out[1], STDOUT_FILENO);
    dup2(out[1], STDERR_FILENO);
    close(out[0]);
    fexecve(program, argv.data(), environ);
    _exit(127);
  }
  close(out[1]);
  close(program);
  std::string text;
  char block[512];
  for (ssize_t n; (n = read(out[0], block, sizeof block)) > 0;) text.append(block, static_cast<size_t>(n));
  close(out[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    constexpr std::string_view kSaid = "load_once: ";
    if (text.rfind(kSaid, 0) == 0) text.erase(0, kSaid.size());
    return Result<LoadOnce>::fail(text.empty() ? "the measuring program failed" : text.substr(0, text.find('\n')));
  }
  const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  if (j.is_discarded()) return Result<LoadOnce>::fail("the measuring program gave no result");
  return LoadOnce{j.at("load_us"), j.at("first_call_us"), j.at("peak_rss_bytes"), j.at("base_rss_bytes")};
}

}  // namespace aotc::cli
