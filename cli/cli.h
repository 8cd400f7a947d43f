#pragma once
// The command line: one verb, one file. A verb registers its options (options.h) and returns what runs it; main.cpp holds the
// table of verbs and the one place where failures become exit codes.
#include <functional>
#include <string>

#include "base/diagnostic.h"
#include "options.h"

namespace aotc::cli {

/// Options that every verb has.
struct Common {
  bool json = false;          ///< machine-readable result on stdout
  bool quiet = false;         ///< no progress, only errors (on stderr)
  std::string program, verb;  ///< which run: "aotc", "verify"
};

/// Returns the exit code; throws Diagnostic.
using Run = std::function<int(const Common&)>;

struct Verb {
  const char* name;
  const char* summary;
  const char* example;
  Run (*add)(CLI::App& app);
  bool hidden = false;       ///< not listed: for aotc's own child processes
  bool description = false;  ///< it reads what artifacts say of themselves, where a JSON error is the artifact's damage
};

Run add_build(CLI::App& app);
Run add_inspect(CLI::App& app);
Run add_tune(CLI::App& app);
Run add_calibrate(CLI::App& app);
Run add_verify(CLI::App& app);
Run add_references(CLI::App& app);
Run add_bench(CLI::App& app);
Run add_run(CLI::App& app);
Run add_replay(CLI::App& app);
Run add_explain(CLI::App& app);
Run add_ops(CLI::App& app);
Run add_opt(CLI::App& app);
Run add_measure_worker(CLI::App& app);   ///< hidden: the child process of max-autotune
Run add_cubin_worker(CLI::App& app);     ///< hidden: the child processes that run NVRTC
Run add_finish_artifact(CLI::App& app);  ///< hidden: the last step of the script that --keep leaves

}  // namespace aotc::cli
