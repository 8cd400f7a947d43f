#include "emit/find_compiler.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/diagnostic.h"
#include "base/process.h"
#include "emit/toolchain.h"

namespace aotc::emit {

namespace fs = std::filesystem;

namespace {

constexpr int kOldestGcc = 12;  // __builtin_shufflevector

/// In the order in which they are tried. Where a distribution's own is older, a newer one is beside it under a name with its number.
constexpr const char* kNames[] = {"g++", "c++", "g++-15", "g++-14", "g++-13", "g++-12"};

struct Asked {
  bool runs;
  std::string said;  ///< the first line
  int exit_code;
};

Asked ask(std::vector<std::string> command) {
  command.push_back("--version");
  const ProcessResult r = run_process(command);
  return {r.ok(), r.output.substr(0, r.output.find('\n')), r.exit_code};
}

/// A line of words, or the path of a program, which may hold spaces.
std::vector<std::string> words_of(const char* cxx) {
  std::error_code ec;
  if (fs::exists(cxx, ec)) return {cxx};
  std::vector<std::string> command;
  std::istringstream words(cxx);
  for (std::string word; words >> word;) command.push_back(word);
  return command;
}

std::string what_is_needed() { return fmt::format("g++ {} or later is needed", kOldestGcc); }

Diagnostic with_advice(Diagnostic d) {
  d.note("install one (Debian 12: apt-get install g++; Ubuntu 22.04: g++-12; RHEL 8 and 9: gcc-toolset-12) or name it in CXX");
  return d;
}

}  // namespace

std::string unfit_compiler(std::string_view version) {
  if (version.find("clang") != std::string_view::npos) return "is clang";
  // "g++ (Debian 12.2.0-14) 12.2.0", "g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-4)"
  const size_t name_ends = version.find(") ");
  if (name_ends == std::string_view::npos) return {};
  int major = 0;
  for (size_t i = name_ends + 2; i < version.size() && version[i] >= '0' && version[i] <= '9' && major < 1000; ++i)
    major = major * 10 + (version[i] - '0');
  return major > 0 && major < kOldestGcc ? "is too old" : "";
}

Compiler find_compiler() {
  if (const char* cxx = std::getenv("CXX"); cxx && *cxx) {
    const std::vector<std::string> command = words_of(cxx);
    const Asked asked = command.empty() ? Asked{false, "", 127} : ask(command);
    if (!asked.runs)
      throw Diagnostic(ExitCode::toolchain, {}, fmt::format("CXX={} is no C++ compiler that runs here", cxx))
          .note(asked.said.empty() ? "it gives exit code " + std::to_string(asked.exit_code) : asked.said)
          .note("unset CXX to take g++ or c++ of PATH");
    if (const std::string why = unfit_compiler(asked.said); !why.empty())
      throw with_advice(Diagnostic(ExitCode::toolchain, {}, fmt::format("CXX={} {}: {}", cxx, why, what_is_needed())).note(asked.said));
    return {command, asked.said};
  }
  std::vector<std::string> unfit;
  for (const char* name : kNames) {
    const Asked asked = ask({name});
    if (!asked.runs) continue;
    const std::string why = unfit_compiler(asked.said);
    if (why.empty()) return {{name}, asked.said};
    unfit.push_back(fmt::format("{} {}: {}", name, why, asked.said));
  }
  Diagnostic none(ExitCode::toolchain, {}, fmt::format("no C++ compiler that serves was found: {}", what_is_needed()));
  for (const std::string& note : unfit) none.note(note);
  throw with_advice(std::move(none));
}

}  // namespace aotc::emit
