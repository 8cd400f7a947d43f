#pragma once
// Verbs of CI jobs, which aotc-device has not.
#include "cli.h"

namespace aotc::cli {

Run add_check(CLI::App& app);
Run add_diff(CLI::App& app);

}  // namespace aotc::cli
