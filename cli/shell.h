#pragma once
// A table of verbs as a program.
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "cli.h"

namespace aotc::cli {

struct Program {
  const char* name;
  const char* about;
  std::span<const Verb> verbs;
  nlohmann::json (*built_with)();  ///< what `--version --json` says beside name, version, compiler and C ABI
};

/// Parses the command line, runs the verb and turns failures into exit codes and messages on stderr.
int run_verbs(const Program& program, int argc, char** argv);

/// The verbs of every program: completion SHELL, and, hidden, man-pages FOLDER.
Run add_completion(CLI::App& app);
Run add_man_pages(CLI::App& app);

}  // namespace aotc::cli
