#pragma once
// The measuring worker (measure_worker.h) of another machine.
#include "base/worker_process.h"

namespace aotc::search {

/// aotc-device on another machine: over ssh's standard input and output, which bring it there first. Fails where there is none beside this
/// program.
Result<WorkerCommand> worker_on(const std::string& host);

}  // namespace aotc::search
