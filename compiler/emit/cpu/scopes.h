#pragma once
// The nested scopes of a generated function and what index expressions become in them.
//
// Scopes are ranked from the function's body inwards; code is appended to the buffer of a rank and the emitter nests the buffers. A scalar
// (int64) expression is computed once, in the outermost scope where its symbols are known.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cpu {

enum Rank : int {
  kFunction = 0,      ///< once a call
  kUnit = 1,          ///< once a work unit
  kOuterSegment = 2,  ///< lanes along outer: once a segment of the lane loop
  kBody = 3,          ///< lanes along outer: once a vector
  kNest = 4,          ///< once a nest of inner loops
  kInner = 5,         ///< body of the first inner loop; +1 for each further one, its segment and its vectors
};

/// How an index varies along the lanes.
struct LaneIndex {
  enum Kind { uniform, contiguous, backward, strided, by_lane } kind = by_lane;
  Expr base;    ///< the index at lane position 0 (all but by_lane); may hold segment symbols
  Expr stride;  ///< elements from lane to lane (strided)
};

class Scopes {
 public:
  explicit Scopes(const SymTable& syms) : syms_(syms) {}

  // ---- text
  void add(int rank, const std::string& line) { text_[rank] += "  " + line + "\n"; }
  void put(int rank, std::string text) { text_[rank] = std::move(text); }  ///< instead of what the buffer has
  std::string take(int rank);                                              ///< the buffer, which is emptied
  std::string fresh(const char* prefix) { return fmt::format("{}{}", prefix, counter_++); }
  void forget_above(int rank);  ///< drops named scalars of scopes with a rank above this one (they are closed)

  // ---- symbols
  void define(SymId s, int rank, std::string text);
  void define_by_lane(SymId s, std::string array);  ///< its value in lane l is array[l]
  const SymTable& syms() const { return syms_; }
  bool by_lane(const Expr& e) const;              ///< depends on a symbol defined by lane
  int rank(const Expr& e) const;                  ///< the outermost scope where it can be computed; not for by_lane symbols
  std::string scalar(const Expr& e);              ///< named there
  std::string text(const Expr& e) const;          ///< in place
  std::string text_in_lane(const Expr& e) const;  ///< in place, for lane `l`: the lane symbol advanced by l
  /// In place, as an i32v of all lanes; nothing where a part of it may leave 32 bits or what is divided may be negative. `vectors`: the
  /// i64v of symbols that differ by lane. What only the lane decides, not in proportion, comes from a table of the function's own.
  std::optional<std::string> text_of_lanes(const Expr& e, const std::map<SymId, std::string>& vectors);
  /// All lanes' places lie among `span` ones from `first` on, which does not depend on the lane: `places`, an i32v, counts from there.
  struct Near {
    Expr first;
    int64_t span;
    std::string places;
  };
  std::optional<Near> near_lanes(const Expr& e, int64_t most);

  // ---- lanes: a loop over `lane`, cut into segments in each of which the divisions by lane-free amounts are constant
  void open_lanes(SymId lane, int segment_rank, std::string lane_text);
  void close_lanes();
  std::optional<SymId> lane() const { return lane_; }
  int segment_rank() const { return segment_rank_; }
  bool segmented() const { return segmented_; }
  bool varies(const Expr& e) const { return (lane_ && e.depends_on(*lane_)) || by_lane(e); }
  LaneIndex classify(const Expr& e);
  /// Cuts segments so that the sign of `d` (negative, zero, positive) is constant in each; gives the text of d's value at the segment's
  /// begin. Refuses when that cannot be done.
  std::optional<std::string> constant_sign(const Expr& d, bool at_zero, bool at_one);

 private:
  std::optional<Expr> freeze(const Expr& e);
  std::optional<Expr> freeze_whole(const Expr& e);
  std::optional<Expr> quotient(const Expr& a, const Expr& b);
  void cut(const Expr& e, int64_t k);  ///< where e >= 0 changes, e affine in the lane with coefficient k
  std::string at_segment(const Expr& e) const;
  std::optional<Expr> of_table(const Expr& e) const;
  std::string lane_table(const Expr& e);
  Interval tabled(const Expr& e) const;

  SymTable syms_;
  std::map<int, std::string> text_;
  int counter_ = 0;
  struct Name {
    int rank;
    std::string text;
  };
  std::map<SymId, Name> names_;
  std::map<SymId, std::string> lane_arrays_;
  std::map<std::string, Name> scalars_;
  std::optional<SymId> lane_;
  int segment_rank_ = 0;
  bool segmented_ = false;
  std::map<std::string, SymId> quotients_;
  std::map<std::string, std::string> tables_;  ///< by the expression in the lane
};

}  // namespace aotc::emit::cpu
