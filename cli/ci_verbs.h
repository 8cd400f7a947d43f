#pragma once
// Verbs of jobs that ship models, which aotc-device has not.
#include "cli.h"

namespace aotc::cli {

Run add_check(CLI::App& app);
Run add_diff(CLI::App& app);
Run add_weights(CLI::App& app);
Run add_reduce(CLI::App& app);

}  // namespace aotc::cli
