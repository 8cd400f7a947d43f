#pragma once
// Exprs as slots of postfix code, shared subexpressions once.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace aotc::plan {
/// Collects the size slots of one variant; equal Exprs share a slot.
class SlotTable {
 public:
  explicit SlotTable(std::vector<SymId> model_symbols);  ///< symbol number = position
  int32_t slot(const Expr& e);
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
  std::map<std::string, int32_t> known_;
};
}  // namespace aotc::plan
