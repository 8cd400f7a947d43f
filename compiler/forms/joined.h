#pragma once
// Small kernels of a GPU that are one launch: data of the plan (plan/join.h), of which emit/cuda/joined.h makes the text. They run one
// after another in one block, so that a barrier of the block stands where a launch was; or they are calls of one kernel beside each other,
// of which none needs another's results: call n by the blocks whose blockIdx.y is n.
#include <vector>

#include "base/ids.h"
#include "forms/choice.h"
#include "loop/loop.h"

namespace aotc::forms {

/// A kernel in one of its forms, which calls of the launch share. Its form says is_part().
struct JoinedPart {
  loop::KernelId kernel = kNone<loop::KernelId>;
  Choice choice;
  friend bool operator==(const JoinedPart&, const JoinedPart&) = default;
};

struct JoinedCall {
  int part = 0;
  std::vector<int> args, sizes;  ///< of the step's, those of the part in their order
  friend bool operator==(const JoinedCall&, const JoinedCall&) = default;
};

struct Joined {
  static constexpr int kThreads = 256;       ///< of the block, and of every part, where calls run one after another
  static constexpr size_t kMostParts = 16;   ///< different ones: their code, and the shared memory that they name, is in one kernel
  static constexpr size_t kMostWords = 400;  ///< pointers and sizes, which are the kernel's parameter
  std::vector<JoinedPart> parts;
  std::vector<JoinedCall> calls;
  bool beside = false;  ///< else one after another
  int threads = kThreads;
  friend bool operator==(const Joined&, const Joined&) = default;
};

}  // namespace aotc::forms
