#pragma once
// What choices for a target that is named aim at, whatever machine builds it.

namespace aotc {

/// Threads of a run on CPUs, where nobody says how many: machines that build it agree on every byte.
constexpr int kNamedThreads = 4;

}  // namespace aotc
