#pragma once
// Exprs as slots of postfix code, shared subexpressions once.
#include <cstdint>
#include <map>
#include <vector>

#include "plan/plan.h"

namespace aotc::plan {
/// Collects the size slots of one variant; equal Exprs share a slot.
class SlotTable {
 public:
  explicit SlotTable(std::vector<SymId> model_symbols);  ///< symbol number = position
  int32_t slot(const Expr& e);                           ///< e's value; composite parts of it become slots of their own
  const std::vector<int64_t>& code() const { return code_; }
  struct Range {
    uint32_t begin, end;
  };
  const std::vector<Range>& slots() const { return slots_; }
  /// Postfix code of one expression without slots (dims, guards).
  std::vector<int64_t> encode(const Expr& e) const;

 private:
  std::vector<SymId> symbols_;
  std::vector<int64_t> code_;
  std::vector<Range> slots_;
  struct Less {
    bool operator()(const Expr& a, const Expr& b) const { return Expr::compare(a, b) < 0; }
  };
  std::map<Expr, int32_t, Less> known_;
  std::map<SymId, int64_t> number_;
  template <class Atom>
  void append(const Expr& e, const Atom& atom, std::vector<int64_t>& out) const;
};
}  // namespace aotc::plan
