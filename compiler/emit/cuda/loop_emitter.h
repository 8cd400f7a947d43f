#pragma once
// What the mappings of fused loops to threads share (loop_kernel.h): the state of one kernel's text and its pieces.
#include <set>
#include <string>
#include <vector>

#include "emit/cuda/code.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

/// The text of one kernel, or of the rows of a prologue. Lives as long as what it was given.
class LoopEmitter {
  using Inst = loop::Inst;
  using InstId = loop::InstId;
  using InstKind = loop::InstKind;
  using LoopKernel = loop::LoopKernel;
  using LoopVar = loop::LoopVar;
  using ParamId = loop::ParamId;
  using ParamRole = loop::ParamRole;

 public:
  LoopEmitter(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol)
      : k_(k), launch_(launch), symbol_(symbol), symbols_(size_symbols(k)), names_(k, symbols_) {
    for (const Inst& i : k.insts) scans_ |= i.kind == InstKind::scan;
    if (launch.across) across_ = store_across(k, launch.lanes);
  }
  /// Rows of a prologue, for emit_rows_function.
  LoopEmitter(const LoopKernel& k, const LoopLaunch& launch, const std::string& symbol, const std::vector<SymId>& symbols)
      : k_(k), launch_(launch), symbol_(symbol), symbols_(symbols), names_(k, symbols_), prologue_(true) {}

  std::string emit_rows(const std::string& args, bool apart);
  std::string emit();

 private:
  std::string header();
  /// Declares the loop variables from the row-major linear index held by the variable `linear`.
  std::string decode(const std::vector<LoopVar>& vars, const std::string& linear, int indent);
  static Expr product_of(const std::vector<LoopVar>& vars);
  std::string points(const std::vector<LoopVar>& vars) { return names_.expr(product_of(vars)); }
  AccessRules rules(const std::string& store_guard);
  /// Of a scan with what it has come to, `scanned`.
  std::string accumulate(InstId id, bool scanned = true);
  /// What goes into a reduction or scan at a point, as a value of its reducer.
  std::string reduced(InstId id) const;
  /// The result of a reduction or scan from a value of its reducer.
  std::string result(InstId id, const std::string& value) const;
  /// Whether nothing sees a value that is not negative but products and quotients of it, and its sums, that are rounded to 16 bits.
  bool becomes_half(InstId id) const;
  /// The same of what is loaded of a row's scratch after block `b` has stored it, until another block does.
  bool loads_become_half(ParamId p, size_t b) const;
  /// Whether a sum of this kernel is among what it is computed from. Adds what it looked at to `seen`.
  bool made_of_sum(InstId id, std::set<InstId>& seen) const;
  /// The division's divisor when that is one for the whole row; f32 only.
  InstId row_divisor(InstId id) const;
  /// Of divisors that no block before had; adds to those.
  std::string reciprocals(const loop::Block& b, int indent, std::set<InstId>& had) const;
  std::vector<InstId> of_kind(const loop::Block& b, InstKind kind);
  std::string declare_accumulators(const std::vector<InstId>& reduces, int indent);
  std::string read_accumulators(const std::vector<InstId>& reduces, bool across_block, int indent);
  // ---- several points at once ----------------------------------------------------------------------------------------------------------
  SymId last() const { return lane_var(k_, launch_.mapping)->sym; }
  bool wide(InstId id) const { return (launch_.lanes > 1 || launch_.steps) && is_wide(k_, id, last(), launch_.lanes); }
  bool alike_in_lanes(InstId id) const { return same_in_lanes(k_, id, last()); }
  bool in_registers(const Inst& i) const { return launch_.steps && k_.params[i.param].role == ParamRole::local; }
  /// "p0, p1 and so on are aligned": the parameters with wide accesses.
  std::string aligned();
  /// The first load of what `id` loads, when an earlier block keeps it in registers.
  InstId kept(InstId id) const;
  /// The code of `insts` for `lanes` points from the current values of the loop variables on, the linear one being `linear`.
  std::string group(const std::vector<InstId>& insts, const std::string& linear, int indent);
  // ---- serial: several rows of a thread; what one block hands to another is kept for each of them ---------------------------------------
  /// Instructions whose values these use: as arguments, masks or in places.
  std::set<InstId> read_by(const std::vector<InstId>& insts) const;
  /// Of these, those of other blocks; not those that are alike for all rows.
  std::set<InstId> taken(const std::vector<InstId>& insts) const;
  std::set<InstId> handed() const;
  std::string taken_up(const std::vector<InstId>& insts, int indent);
  std::string handed_on(const std::vector<InstId>& insts, int indent) const;
  std::string for_lanes(const std::string& text) const;
  std::string serial_lanes();
  std::string flat();
  /// Threads that take all of the last outer loop: what they write is together then.
  std::string across();
  // ---- rows of a block or of a warp (loop_rows.cpp) ------------------------------------------------------------------------------------
  std::string row();
  /// What is held in registers over a row.
  std::string row_registers();
  /// Whether a load of a prologue's row that is held in registers depends on nothing that the row computes, so that it can come first.
  bool comes_first(InstId id) const;
  /// Into the registers of a row what `id` loads of it.
  std::string load_of_step(InstId id) const;
  /// All that a row reads is under way before the first of it is waited for.
  std::string first_loads();
  /// first, by: the first row of a block, and from there to its next.
  std::string rows(bool wide, const std::string& first, const std::string& by);
  /// The points of a row that a block has: all of it, or its part.
  std::string begin() const { return launch_.blocks > 1 ? "first_point + " : ""; }
  std::string end() const { return launch_.blocks > 1 ? "end_point" : "inner_points"; }
  /// "this thread is the first of its row".
  std::string is_first() const { return thread() + " == 0" + (launch_.blocks > 1 ? " && first_point == 0" : ""); }
  /// Where the blocks that share a row hand on the values of the next reduction.
  std::string next_place() { return fmt::format("shared + {}", slot_++ % 2 * launch_.place_bytes()); }
  /// The number of a thread among those of a block that have its row.
  std::string thread() const { return launch_.rows == 1 ? "threadIdx.x" : "(threadIdx.x & 31)"; }
  /// A loop over what a thread holds of a row.
  std::string step_begin();
  /// A load that all rows share: where a warp has a row, it is read once, together with the first row.
  bool of_all_rows(InstId id) const;
  std::string shared_by_rows();
  /// A block with scans along the last inner variable, by all threads in pieces of a row; those beyond the row's end look at its last
  /// point.
  std::string scans(const loop::Block& b, const std::vector<InstId>& running);
  std::string serial();
  /// The code of one point of the outer loops: blocks that are not over the inner ones as they are.
  std::string serial_blocks(const std::function<std::string(const loop::Block&)>& over_inner);
  /// The same where threads share an outer point: each goes through its piece twice, first for what the pieces behind it begin with.
  std::string serial_pieces();
  /// The points of `inner` from its value on to before `end`, of a block over them.
  std::string serial_points(const loop::Block& b, const std::string& end);
  /// Of a block that stores, points of `inner` several at a time, whose loads are all under way before the first of them is waited for: the
  /// compiler does not move them across stores. Declares the loop variables of a point by `point`. Empty where nothing can come first.
  std::string loaded_ahead(const loop::Block& b, const std::string& point, const std::string& end);
  /// What these are computed from within the block, with them, in order.
  std::vector<InstId> computed_from(const loop::Block& b, const std::vector<InstId>& insts) const;

  const LoopKernel& k_;
  const LoopLaunch& launch_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
  Names names_;
  const bool prologue_ = false;
  bool scans_ = false;
  InstId across_ = kNone<InstId>;  ///< the store of threads that take all of the last outer loop
  int slot_ = 0;                   ///< of the next reduction over a block
};

}  // namespace aotc::emit::cuda
