#pragma once
// Instructions of a LoopKernel as statements, each in the outermost scope where it may run.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emit/cpu/scopes.h"
#include "loop/loop.h"
#include "loop/rounding.h"

namespace aotc::emit::cpu {

/// Where the instructions of a block are placed.
struct Place {
  int rank;    ///< innermost scope of the block: stores, reductions and everything that varies
  int least;   ///< outermost scope to which the block's loads may be hoisted
  bool lanes;  ///< the lanes of a vector are different points there; else every lane holds the same value
  bool inner;  ///< the block is over the inner loops
};

class InstEmitter {
 public:
  /// `lanes`: the axis in use, which may differ from the kernel's. `far`: there is a bool of that name, FunctionSpec::far_size.
  InstEmitter(const loop::LoopKernel& k, Scopes& scopes, loop::LaneAxis lanes, bool far);

  /// Lanes along an outer loop of a kernel with inner ones: its code takes n.value vectors side by side, AOTC_EACH of them, so that a row's
  /// lines are read one after another and no sum waits for itself. What differs between them is an array where it is not made in the body
  /// of the innermost loop, which is an AOTC_EACH itself.
  bool wide() const { return wide_; }
  /// The point that the first lane of the vector in work stands for, as text.
  const char* lane() const { return wide_ ? "(i + u * AOTC_L)" : "i"; }
  void set_place(const Place& p) { place_ = p; }
  void emit(loop::InstId id);
  /// Vectors taken at once: several where a reduction would wait for itself.
  int unroll(const loop::Block& b) const;
  /// Declares the accumulators of the block's reductions (in scope `around`) and of its scans (in scope `row`). In `pieces`, sums of floats
  /// go to accumulators t<id>, which piece_text() declares and merge_text() adds to the whole and clears, after each piece of the loop.
  void open_nest(const loop::Block& b, int around, int row, int unroll, bool pieces);
  static bool sums_floats(const loop::Inst& i);
  std::string piece_text() const;
  std::string merge_text() const;
  /// Makes the results of the reductions available in scope `around`.
  void close_nest(int around);
  /// Loads that registers turn (loop_call.h) read rows of tiles, which turn_text() makes, text for the scope around the loop over `var`.
  /// Stores that they turn write such rows, which turn_out_text() hands on behind that loop.
  void set_turned(SymId sym, std::string var, std::string begin, std::string end, int64_t block) {
    turned_ = Turned{sym, std::move(var), std::move(begin), std::move(end), block, {}, {}};
  }
  const std::string& turn_text() const { return turned_->text; }
  const std::string& turn_out_text() const { return turned_->out; }
  /// A store past the caches that the lane loop in work has. first: where its first lane goes, as text for the scope around that loop, to
  /// which i is to be added; empty: there is none. kept: the loop reads a kept row, whose vectors would cross lines if the loop began with
  /// less than one to reach a whole line.
  struct FarStore {
    std::string first;
    bool kept;
  };
  FarStore take_far_store();  ///< and forgets it
  const char* tile_type() const { return tile_type_.c_str(); }

 private:
  struct Value {
    std::string text;
    int rank = kFunction;
    bool varies = false;   ///< its lanes differ
    bool reduced = false;  ///< made of a sum of this kernel
    std::string scalar;    ///< an i64, i32 or bool that is the same in all lanes, as a number; empty: there is only the vector
  };
  static bool may_be_wide(const loop::LoopKernel& k);
  bool in_each(int rank) const { return place_.inner && rank == place_.rank; }
  bool along_lanes(const loop::Inst& i) const;  ///< it reduces the lanes of vectors to one
  std::string accumulators(const loop::Inst& i) const;
  const Value& value(loop::InstId id) const;
  DType dtype(loop::InstId id) const { return k_.insts[id].dtype; }
  void define(loop::InstId id, int rank, bool varies, const std::string& type, const std::string& text);
  /// An i64, i32 or bool that is the same in all lanes; a vector of it is made where one is needed.
  void define_scalar(loop::InstId id, int rank, const std::string& text);
  bool emit_scalar_op(loop::InstId id);
  void bind(loop::InstId id);
  void emit_index(loop::InstId id);
  void emit_op(loop::InstId id);
  bool emit_lane_compare(loop::InstId id);
  bool emit_row_division(loop::InstId id);
  bool emit_index_compare(loop::InstId id, const Expr& difference, const char* compared);
  void emit_load(loop::InstId id);
  std::string near_gather(const loop::Inst& i, const std::string& ptr) const;
  void emit_store(loop::InstId id);
  void emit_reduce(loop::InstId id);
  void emit_scan(loop::InstId id);
  void emit_check(loop::InstId id);
  std::string in_own_type(loop::InstId id, const std::string& x);  ///< what the instruction computed in f32, rounded to a 16-bit type
  std::string arg_as(loop::InstId arg, DType t) const;             ///< the value of an argument as a t
  /// What a store of `arg` writes, and with what pointer: stores round to 16-bit types, which what is of the type already does not need.
  std::string stored(loop::InstId arg, DType t, std::string* pointer);
  std::string lane_zero(loop::InstId id) const;
  std::string alive_mask(loop::InstId mask) const;
  std::string point_index() const;  ///< row-major inner index, an i32v where near_points, else an i64v
  bool near_points() const;
  std::string pointer(const loop::Inst& i) const;
  const char* width() const { return place_.lanes ? "w" : "full()"; }

  const loop::LoopKernel& k_;
  Scopes& scopes_;
  loop::LaneAxis lanes_;
  bool far_;
  bool wide_;
  std::string far_store_;
  bool reads_kept_ = false;  ///< the lane loop in work loads vectors of a local
  Place place_{};
  std::map<loop::InstId, Value> values_;
  std::map<SymId, std::string> lane_values_;  ///< symbols that differ by lane: the i64v or i32v of their values
  std::vector<loop::InstId> reductions_;
  std::map<loop::InstId, std::string> divisors_;
  struct Turned {
    SymId sym;
    std::string var, begin, end;
    int64_t block;  ///< points of var
    std::string text, out;
    int64_t room = 12 << 10;  ///< bytes of the frame that further tiles may take, in vectors of kMaxLanes
  };
  std::optional<Turned> turned_;
  /// Whether registers turn what a load or a store has; takes the room of its tile. Those that find none go by strides.
  bool turns(const loop::Inst& i);
  loop::Representable representable_;
  std::vector<bool> rounded_products_;  ///< loop::products_to_round
  int unroll_ = 1;
  bool pieces_ = false;
  std::string tile_type_ = "float";
};

}  // namespace aotc::emit::cpu
