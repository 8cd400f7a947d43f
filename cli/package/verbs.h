#pragma once
#include "cli.h"

namespace aotc::cli {

Run add_package(CLI::App& app);         ///< of aotc alone
Run add_verify_package(CLI::App& app);  ///< of aotc-device, too

}  // namespace aotc::cli
