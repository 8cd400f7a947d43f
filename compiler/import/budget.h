#pragma once
// What reading an archive may make of it, beyond what it holds: a few kilobytes say of loops in loops, sums multiplied out and expanded
// tensors what no machine has room for. Weights are mapped and count nothing; the limits are far above what models make.
#include <array>
#include <cstdint>
#include <string_view>

#include "base/diagnostic.h"

namespace aotc::import {

class Budget {
 public:
  enum class Kind : uint8_t {
    nodes,       ///< of loops, branches, subgraphs and composite operators, written out
    size_parts,  ///< terms and atoms of the expressions of sizes (sym::parts)
    bytes,       ///< of tensors laid out densely, beyond their storages
  };

  /// Counts what is about to be made. Throws Diagnostic, with the place that `where()` gives, once all of that kind is more than the limit.
  template <class Where>
  void charge(Kind kind, int64_t amount, const Where& where) {
    const Limit& limit = kLimits[static_cast<size_t>(kind)];
    int64_t& used = used_[static_cast<size_t>(kind)];
    if (__builtin_add_overflow(used, amount, &used)) used = INT64_MAX;
    if (used > limit.most) throw exceeded(limit, used, where());
  }

 private:
  struct Limit {
    int64_t most;
    std::string_view what, advice;
  };
  static constexpr Limit kLimits[] = {
      {int64_t{1} << 19, "nodes once its loops, branches and composite operators are written out",
       "loops that are written out multiply their rounds: export the model with fewer rounds, or with one operator in their place"},
      {int64_t{1} << 22, "terms in the expressions of its sizes",
       "export the model with plain symbols for its dimensions, or with fixed sizes"},
      {int64_t{1} << 30, "bytes of expanded tensors beyond what is stored of them",
       "store the tensors as they are and expand them in the model"},
  };
  static Diagnostic exceeded(const Limit& limit, int64_t used, Loc where) {
    return Diagnostic(ExitCode::unsupported, std::move(where),
                      fmt::format("the archive makes {} {}; at most {} are taken", used, limit.what, limit.most))
        .note(std::string(limit.advice));
  }

  std::array<int64_t, std::size(kLimits)> used_{};
};

}  // namespace aotc::import
