#pragma once
// aotc-device: what is done with finished artifacts on the machine that they run on, without LibTorch, archives or a compiler.
#include "cli.h"

namespace aotc::cli {

Run add_device_verify(CLI::App& app);
Run add_device_bench(CLI::App& app);
Run add_probe(CLI::App& app);

}  // namespace aotc::cli
