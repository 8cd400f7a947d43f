#include "failing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/diagnostic.h"
#include "base/worker_process.h"

namespace aotc::cli {
namespace {

std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> shell(const std::string& command, const std::string& pt2) {
  std::string line = command;
  for (size_t at = line.find("{}"); at != std::string::npos; at = line.find("{}", at)) {
    const std::string name = shell_quoted(pt2);
    line.replace(at, 2, name);
    at += name.size();
  }
  return {"sh", "-c", line};
}

/// Without what differs between a program and a part of it: numbers and paths.
std::string general(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c < '0' || c > '9')
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  return out;
}

/// What an error of aotc names: the operators of its notes where it lists them, else its message.
std::set<std::string> reasons_of(const std::string& output, const std::string& pt2, int exit_code) {
  std::set<std::string> reasons;
  std::string message;
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const std::string line = output.substr(at, end - at);
    at = end + 1;
    if (const size_t error = line.find("aotc: error: "); error != std::string::npos) {
      message = line.substr(error + 13);
      if (message.rfind(pt2 + ": ", 0) == 0) message.erase(0, pt2.size() + 2);
    } else if (exit_code == static_cast<int>(ExitCode::unsupported) && line.rfind("  note: ", 0) == 0) {
      if (const size_t name = line.find(" ("); name != std::string::npos) reasons.insert(line.substr(8, name - 8));
    }
  }
  if (reasons.empty() && !message.empty()) reasons.insert(general(message));
  return reasons;
}

}  // namespace

Failing::Failing(FailingOptions options, std::string folder) : options_(std::move(options)), folder_(std::move(folder)) {
  const int ways = !options_.test.empty() + !options_.fails.empty() + options_.build + options_.verify;
  if (ways != 1)
    throw Diagnostic(ExitCode::usage, {}, "how does it fail? give one of --test, --fails, --build-fails and --verify-fails")
        .note("aotc reduce model.pt2 --build-fails -o small.pt2");
  for (const std::string* command : {&options_.test, &options_.fails})
    if (!command->empty() && command->find("{}") == std::string::npos)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("'{}' does not say where the program's file goes: write {{}} there", *command));
}

Failing::Outcome Failing::run(const std::string& pt2) {
  ++tests_;
  Outcome o;
  const auto take = [&](const ProcessResult& r) { o.exit_code = r.exit_code, o.output = r.output; };
  if (!options_.test.empty() || !options_.fails.empty()) {
    take(run_process(shell(options_.test.empty() ? options_.fails : options_.test, pt2)));
    return o;
  }
  const std::string so = (std::filesystem::path(folder_) / "candidate.so").string();
  std::vector<std::string> words = {this_program(), "build", pt2, "-o", so, "--quiet"};
  words.insert(words.end(), options_.build_words.begin(), options_.build_words.end());
  take(run_process(words));
  if (options_.build || o.exit_code != 0) {
    o.reasons = reasons_of(o.output, pt2, o.exit_code);
    return o;
  }
  words = {this_program(), "verify", so, "--against", pt2, "--quiet"};
  words.insert(words.end(), options_.verify_words.begin(), options_.verify_words.end());
  take(run_process(words));
  o.verified = true;
  return o;
}

bool Failing::fails(const Outcome& o) const {
  if (o.output.find(options_.message) == std::string::npos) return false;
  if (!options_.test.empty()) return o.exit_code == 0;
  if (options_.verify) return o.verified && o.exit_code == static_cast<int>(ExitCode::failed);
  return o.exit_code != 0;
}

bool Failing::learn(const std::string& pt2) {
  whole_ = run(pt2);
  said_ = fmt::format("exit code {}", whole_.exit_code);
  if (!whole_.reasons.empty()) said_ += fmt::format(": {}", fmt::join(whole_.reasons, ", "));
  if (whole_.output.find(options_.message) == std::string::npos) said_ += fmt::format("; its output lacks '{}'", options_.message);
  return fails(whole_);
}

bool Failing::same(const std::string& pt2) {
  const Outcome o = run(pt2);
  if (!fails(o) || o.exit_code != whole_.exit_code) return false;
  if (whole_.reasons.empty() || !options_.message.empty()) return true;
  return std::any_of(o.reasons.begin(), o.reasons.end(), [&](const std::string& r) { return whole_.reasons.count(r) > 0; });
}

}  // namespace aotc::cli
