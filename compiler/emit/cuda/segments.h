#pragma once
// Text of kernels of products whose segments are served by one piece of code: those with the same mates. A block finds its segment, which
// the C variable `segment` says, and takes that one's weights, size and epilogue.
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cuda {

class Segments {
 public:
  using Group = std::vector<size_t>;  ///< numbers of segments
  /// symbol: the kernel's function, of which the epilogues' functors have their names.
  Segments(const loop::MatmulKernel& k, const std::string& symbol);

  const std::vector<Group>& groups() const { return groups_; }
  std::string epilogue(size_t segment) const { return symbol_ + "_epilogue" + std::to_string(segment); }
  /// Structs of what the epilogues of a group take beside the sums.
  std::string structs() const;
  /// Declares the constants n0, n1, .. (columns, or pairs of mates), and finds the segment of `block`, which becomes a number of that
  /// segment's blocks of so many columns; returns from the function where there is none. expr: text of an expression.
  template <class F>
  std::string find(int columns, const F& expr) const {
    std::string out = "  int segment = 0;\n";
    for (size_t s = 0; s < k_.segments.size(); ++s) {
      const loop::Segment& seg = k_.segments[s];
      out += step(s, expr(floordiv(seg.n_end - seg.n_begin, seg.mates ? 2 : 1)), columns);
    }
    return out + fmt::format("  if (segment == {}) return;\n", k_.segments.size());
  }
  /// Whether the block's segment is one of the group's.
  static std::string is_of(const Group& group);
  /// The lambdas `ahead(i, j)` and `finish(acc, held, i, j)` of the group. sums: of one point; point: arguments that come before i and j;
  /// row: what is added to i.
  std::string lambdas(const Group& group, int sums, const std::string& indent, const std::string& point, const std::string& row) const;
  /// The text of each of the group's segments, by the one that the block has.
  template <class F>
  static std::string chosen(const Group& group, const F& text) {
    std::string out;
    for (size_t s : group) out += s == group.back() ? text(s) : fmt::format("segment == {} ? {} : ", s, text(s));
    return out;
  }

 private:
  static std::string step(size_t segment, const std::string& columns, int of_block);
  std::string held(const Group& group) const;

  const loop::MatmulKernel& k_;
  std::string symbol_;
  std::vector<Group> groups_;
};

}  // namespace aotc::emit::cuda
