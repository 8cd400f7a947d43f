#include "emit/cpu/loop_emitter.h"

#include <algorithm>
#include <optional>
#include <set>

#include "emit/cpu/inst_emitter.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/scopes.h"
#include "emit/cpu/text.h"
#include "loop/cost.h"
#include "loop/live.h"

namespace aotc::emit::cpu {
namespace {

using loop::Block;
using loop::LaneAxis;
using loop::LoopKernel;
using loop::LoopVar;
using loop::ParamRole;

constexpr int kVectorRegisters = 16;  ///< that AVX2 has; one text serves AVX-512, too

/// Nests the buffers of the scopes into loops.
class FunctionEmitter {
 public:
  FunctionEmitter(const LoopKernel& k, const FunctionSpec& spec)
      : k_(k),
        spec_(spec),
        attached_(spec.kind != FunctionKind::kernel),
        lanes_(lane_axis(k, spec)),
        turning_(spec.kind == FunctionKind::kernel ? turning(k) : turning_rows(k)),
        scopes_(k.syms),
        insts_(k, scopes_, lanes_, spec.far_size >= 0) {}

  std::string run() {
    prologue();
    if (lanes_ == LaneAxis::outer) {
      const LoopVar& v = k_.outer.back();
      scopes_.open_lanes(v.sym, kOuterSegment, insts_.lane());
      for (const Block& b : k_.blocks) block(b);
      scopes_.add(kUnit, fmt::format("const int64_t lo = o{} * {}L, hi = imin(lo + {}L, {});", k_.outer.size() - 1, lane_block(k_),
                                     lane_block(k_), scopes_.scalar(v.extent)));
      scopes_.add(kUnit, lane_loop("lo", "hi", scopes_.take(kOuterSegment), scopes_.take(kBody), 1, 0, false, true));
      scopes_.close_lanes();
    } else {
      for (const Block& b : k_.blocks) block(b);
    }
    return attached_ ? assemble_attached() : assemble_kernel();
  }

 private:
  static LaneAxis lane_axis(const LoopKernel& k, const FunctionSpec& spec) {
    if (spec.kind != FunctionKind::kernel) return LaneAxis::inner;
    if (k.lanes == LaneAxis::outer) return k.outer.empty() ? LaneAxis::none : LaneAxis::outer;
    return k.inner.empty() ? LaneAxis::none : LaneAxis::inner;  // where the kernel has no wish, its rows are as good
  }
  /// Names of sizes, pointers and outer variables.
  void prologue() {
    for (size_t i = 0; i < spec_.size_symbols.size(); ++i) {
      scopes_.define(spec_.size_symbols[i], kFunction, fmt::format("s{}", i));
      scopes_.add(kFunction, fmt::format("const int64_t s{} = a->size[{}];", i, spec_.first_size + static_cast<int>(i)));
    }
    if (spec_.far_size >= 0) scopes_.add(kFunction, fmt::format("const bool far = a->size[{}] != 0;", spec_.far_size));
    const LocalLayout layout = local_layout(k_);
    for (size_t i = 0; i < k_.params.size(); ++i) {
      const loop::Param& p = k_.params.raw()[i];
      const std::string type = elem_type(p.dtype), c = p.role == ParamRole::input ? "const " : "";
      std::string from = fmt::format("a->ptr[{}]", spec_.ptr.at(i));
      if (p.role == ParamRole::acc || p.role == ParamRole::operand) continue;
      if (p.role == ParamRole::local) from = fmt::format("((char*)a->scratch + {})", scopes_.scalar(layout.offset_bytes[i]));
      scopes_.add(kFunction, fmt::format("{0}{1}* const p{2} = ({0}{1}*){3};", c, type, i, from));
    }
    const size_t plain = k_.outer.size() - (lanes_ == LaneAxis::outer ? 1 : 0);
    for (size_t i = 0; i < plain; ++i) {
      const bool turned = turning_ && turning_->outer == i;
      scopes_.define(k_.outer[i].sym, turned ? kInner + 1 : kUnit, fmt::format("o{}", i));
      if (!turned) continue;
      scopes_.add(kUnit, attached_ ? fmt::format("const int64_t from = m0 + r, to = imin(from + {}, m0 + rows);", turning_->block)
                                   : fmt::format("const int64_t from = b{0} * {1}, to = imin(from + {1}, {2});", i, turning_->block,
                                                 scopes_.scalar(k_.outer[i].extent)));
      insts_.set_turned(k_.outer[i].sym, fmt::format("o{}", i), "from", "to", turning_->block);
    }
  }

  void block(const Block& b) {
    if (!b.over_inner) {
      insts_.set_place({lanes_ == LaneAxis::outer ? kBody : kUnit, kUnit, lanes_ == LaneAxis::outer, false});
      for (loop::InstId id : loop::order_of_few_live(k_, b, kVectorRegisters)) insts_.emit(id);
      return;
    }
    nest(b);
  }

  /// A block over the inner loops.
  void nest(const Block& b) {
    const int n = static_cast<int>(k_.inner.size());
    AOTC_CHECK(n > 0, "kernel {} has a block over inner loops but none", k_.name);
    const bool lanes = lanes_ == LaneAxis::inner;
    const int around = lanes_ == LaneAxis::outer ? kBody : kUnit;
    for (int i = 0; i < n - (lanes ? 1 : 0); ++i) scopes_.define(k_.inner[i].sym, kInner + i, fmt::format("i{}", i));
    const LoopVar& last = k_.inner.back();
    const int innermost = kInner + n - (lanes ? 0 : 1);
    if (lanes) scopes_.open_lanes(last.sym, kInner + n - 1, "i");
    const int unroll = lanes ? insts_.unroll(b) : 1;
    insts_.set_place({innermost, kNest, lanes || lanes_ == LaneAxis::outer, true});
    const int64_t piece = piece_of(b, k_, last.extent, lanes ? unroll * kMaxLanes : 1);
    insts_.open_nest(b, around, n > 1 ? kInner + n - 2 : kNest, unroll, piece > 0);
    if (lanes && ++nests_ == 2) next_row_ahead(b, innermost);
    for (loop::InstId id : loop::order_of_few_live(k_, b, kVectorRegisters)) insts_.emit(id);
    if (insts_.wide()) scopes_.put(innermost, "AOTC_EACH {\n" + scopes_.take(innermost) + "}\n");

    std::string text;
    if (lanes) {
      std::string lo = "0", hi = scopes_.scalar(last.extent);
      if (attached_) lo = "n0", hi = "n0 + cols";
      std::string body = scopes_.take(innermost);
      if (turning_)
        body = insts_.turn_text() +
               fmt::format("for (int64_t o{0} = from; o{0} < to; ++o{0}) {{\n{2}{1}}}\n", turning_->outer, body,
                           attached_ ? tile_row(fmt::format("(o{} - m0)", turning_->outer)) : "") +
               insts_.turn_out_text();
      text = lane_loop(lo, hi, scopes_.take(kInner + n - 1), body, unroll, piece, reduces(b), order_free(b));
    } else if (piece > 0) {
      text = fmt::format(
          "{5}for (int64_t j = 0; j < {0}; j += {1}) {{\nfor (int64_t i{2} = j, je = imin(j + {1}, {0}); i{2} < je; ++i{2}) "
          "{{\n{3}}}\n{4}}}\n",
          scopes_.scalar(last.extent), piece, n - 1, scopes_.take(innermost), insts_.merge_text(), insts_.piece_text());
    } else {
      text = counted_loop(n - 1, scopes_.take(innermost));
    }
    for (int i = n - 2; i >= 0; --i) text = counted_loop(i, scopes_.take(kInner + i) + text);
    text = scopes_.take(kNest) + text;
    Expr points = 1;
    for (const LoopVar& v : k_.inner) points *= v.extent;
    const bool never_empty = attached_ || scopes_.syms().interval(points).min >= 1;
    scopes_.add(around, fmt::format("{}{{\n{}}}", never_empty ? "" : "if (" + scopes_.scalar(points) + " > 0) ", text));
    if (lanes) scopes_.close_lanes();
    insts_.close_nest(around);
    scopes_.forget_above(around);
  }

  /// Asks for what the first nest of the next unit will read while the second one of this unit has its row in a cache: rows of pages, where
  /// the processor's own prefetching stops.
  void next_row_ahead(const Block& b, int innermost) {
    constexpr int64_t kLeastBytes = 4096, kMostBytes = 128 << 10, kLeastUnits = 4;
    constexpr int kLeastCost = 12;  // nests of less arithmetic wait for memory themselves
    int cost = 0;
    for (loop::InstId id : b.insts)
      if (k_.insts[id].kind == loop::InstKind::op) cost += loop::op_cost(k_.insts[id].op, k_.insts[id].dtype);
    if (cost < kLeastCost) return;
    Expr units = 1, points = 1;
    for (const LoopVar& v : k_.outer) units *= v.extent;
    for (const LoopVar& v : k_.inner) points *= v.extent;
    const int64_t row = points.as_const().value_or(0);
    if (attached_ || k_.outer.empty() || units.as_const().value_or(kLeastUnits) < kLeastUnits) return;
    const SymId unit = k_.outer.back().sym;
    std::set<std::string> asked;
    for (loop::InstId id : std::find_if(k_.blocks.begin(), k_.blocks.end(), [](const Block& b) { return b.over_inner; })->insts) {
      const loop::Inst& i = k_.insts[id];
      if (i.kind != loop::InstKind::load || k_.params[i.param].role != ParamRole::input || scopes_.by_lane(i.index)) continue;
      const int64_t bytes = row * dtype_bytes(k_.params[i.param].dtype);
      const LaneIndex x = scopes_.classify(i.index);
      if (bytes < kLeastBytes || bytes > kMostBytes || x.kind != LaneIndex::contiguous || !x.base.depends_on(unit)) continue;
      const Expr next = x.base.substitute({{unit, Expr::symbol(unit) + 1}});
      const std::string line = fmt::format("ahead(p{} + {} + i);", idx(i.param), scopes_.scalar(next));
      if (asked.insert(line).second) scopes_.add(innermost, line);
    }
  }

  /// Points of the innermost loop whose sums are made on their own before they are added to the whole, about the square root of all that
  /// fall to one accumulator (`lanes` of them share the loop): rounding errors, which a long running sum of like terms makes all to the
  /// same side, then grow with 2 sqrt(n) instead of n. 0: all at once.
  static int64_t piece_of(const Block& b, const loop::LoopKernel& k, const Expr& extent, int64_t lanes) {
    bool sums = false;
    for (loop::InstId id : b.insts) sums = sums || InstEmitter::sums_floats(k.insts[id]);
    const int64_t n = (extent.as_const().value_or(4096 * lanes) + lanes - 1) / lanes;
    if (!sums || n <= 64) return 0;
    int64_t piece = 16;
    while (piece < 1024 && piece * piece < n) piece *= 2;
    return piece * lanes;
  }

  bool reduces(const Block& b) const {
    return std::any_of(b.insts.begin(), b.insts.end(), [&](loop::InstId id) { return k_.insts[id].kind == loop::InstKind::reduce; });
  }

  /// Whether a block's results are the same whichever of its points share a vector.
  bool order_free(const Block& b) const {
    return std::none_of(b.insts.begin(), b.insts.end(), [&](loop::InstId id) {
      return k_.insts[id].kind == loop::InstKind::reduce || k_.insts[id].kind == loop::InstKind::scan;
    });
  }

  std::string counted_loop(int i, const std::string& body) {
    return fmt::format("for (int64_t i{0} = 0; i{0} < {1}; ++i{0}) {{\n{2}}}\n", i, scopes_.scalar(k_.inner[i].extent), body);
  }

  /// Loop over [lo, hi) in vectors, cut into segments where the segment scope asks for it; `sums`: it reduces them, in pieces of `piece`
  /// points (0: whole).
  std::string lane_loop(const std::string& lo, const std::string& hi, const std::string& segment, const std::string& body, int unroll,
                        int64_t piece, bool sums, bool order_free) {
    std::string s;
    const bool cut = scopes_.segmented();
    if (cut)
      s += fmt::format("for (int64_t z = {}, end_ = {}; z < end_;) {{\nint64_t ze = end_;\n", lo, hi);
    else
      s += fmt::format("{{\nconst int64_t z = {}, ze = {};\n", lo, hi);
    s += segment;
    if (piece > 0) s += insts_.piece_text();
    // A loop of its own for rows whose stores may pass the caches: no question at each of them.
    const InstEmitter::FarStore far = insts_.take_far_store();
    const bool twice = !far.first.empty() && far.kept;
    if (twice) s += "const auto lanes = [&](const bool far) __attribute__((always_inline)) {\n";
    const bool wide = lanes_ == LaneAxis::outer && insts_.wide();
    const std::string one = wide ? "number<1>()" : "number<0>()", u = wide ? "n" : "u";
    s += fmt::format(
        "const auto body = [&](auto w, auto {0}, const int64_t i) __attribute__((always_inline)) {{\n(void)w; (void){0}; "
        "(void)i;\n{1}}};\n",
        u, body);
    s += "int64_t v = z;\n";
    // Up to a whole line first, where no sum depends on which lanes go together.
    if (!far.first.empty() && order_free && !far.kept)
      s += fmt::format(
          "if (far) {{\nconst int64_t head = imin(lanes_to_far({} + z), ze - z);\n"
          "if (head > 0) body(part{{static_cast<int>(head)}}, {}, v), v += head;\n}}\n",
          far.first, one);
    // A row's sums go by the lanes of a set of accumulators, other points by those of a vector.
    const char* lanes = sums ? "AOTC_SUM_L" : "AOTC_L";
    const auto call = [&](const std::string& live, const std::string& number, const std::string& at) {
      return sums ? fmt::format("sum_lanes({}, {}, {}, body);\n", live, number, at) : fmt::format("body({}, {}, {});\n", live, number, at);
    };
    if (piece > 0) s += fmt::format("for (int64_t ve; ve = imin(v + {}, ze), v + {} * {} <= ze;) {{\n", piece, unroll, lanes);
    const char* end = piece > 0 ? "ve" : "ze";
    if (wide)
      s += fmt::format("for (; v + {0} * AOTC_L <= ze; v += {0} * AOTC_L) body(full(), number<{0}>(), v);\n", lane_block(k_) / kMaxLanes);
    if (unroll > 1 || piece > 0) {
      s += fmt::format("for (; v + {0} * {1} <= {2}; v += {0} * {1}) {{\n", unroll, lanes, end);
      for (int u = 0; u < unroll; ++u) s += call("full()", fmt::format("number<{}>()", u), fmt::format("v + {} * {}", u, lanes));
      s += "}\n";
    }
    if (piece > 0) s += insts_.merge_text() + "}\n";
    s += fmt::format("for (; v + {0} <= ze; v += {0}) ", lanes) + call("full()", one, "v");
    s += "if (v < ze) " + call("part{static_cast<int>(ze - v)}", one, "v");
    if (piece > 0) s += insts_.merge_text();
    if (twice) s += fmt::format("}};\nif (far && lanes_to_far({} + z) == 0)\nlanes(true);\nelse\nlanes(false);\n", far.first);
    if (cut) s += "z = ze;\n";
    return s + "}\n";
  }

  std::string assemble_kernel() {
    std::string s = fmt::format("extern \"C\" void {}(const aotc_kargs* a, int64_t begin, int64_t end) {{\n  if (begin >= end) return;\n",
                                spec_.symbol);
    const std::string end = spec_.far_size >= 0 ? "if (far) far_done();\n" : "";
    const size_t n = k_.outer.size();
    // One unit and no loop: GCC 12 crashes on some loops whose bodies are all the same.
    if (n == 0) return s + scopes_.take(kFunction) + "{\n" + scopes_.take(kUnit) + "}\n" + end + "}\n";
    std::string decode, step;
    std::vector<std::string> extents;
    const auto name = [&](size_t i) { return fmt::format("{}{}", turning_ && turning_->outer == i ? "b" : "o", i); };
    for (size_t i = 0; i < n; ++i) extents.push_back(scopes_.scalar(ceildiv(k_.outer[i].extent, unit_points(k_, i))));
    decode = "int64_t rest = begin;\n";
    for (size_t i = n; i-- > 0;) decode += fmt::format("int64_t {0} = rest % {1};\nrest /= {1};\n", name(i), extents[i]);
    decode += "(void)rest;\n";
    for (size_t i = n; i-- > 0;)
      step += i == 0 ? fmt::format("++{};\n", name(0)) : fmt::format("if (++{0} == {1}) {{\n{0} = 0;\n", name(i), extents[i]);
    for (size_t i = 1; i < n; ++i) step += "}\n";
    s += scopes_.take(kFunction) + decode;
    s += "for (int64_t unit = begin; unit < end; ++unit) {\n" + scopes_.take(kUnit) + step + "}\n" + end + "}\n";
    return s;
  }

  /// Epilogues and prologues. Outer vars: the batch (decomposed), then the row; the inner var runs over the tile's columns.
  std::string assemble_attached() {
    const size_t n = k_.outer.size();
    AOTC_CHECK(n >= 1 && k_.inner.size() == 1, "{} needs a row and a column variable", k_.name);
    std::string decode = "int64_t rest = batch;\n";
    for (size_t i = n - 1; i-- > 0;) {
      const std::string extent = scopes_.scalar(k_.outer[i].extent);
      decode += i == 0 ? "const int64_t o0 = rest;\n" : fmt::format("const int64_t o{0} = rest % {1};\nrest /= {1};\n", i, extent);
    }
    decode += "(void)rest;\n";
    constexpr const char* kEpilogue =
        "const void* tile, int64_t ld_elems, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols";
    constexpr const char* kPrologue = "int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols, void* tile, int64_t ld_elems";
    const bool prologue = spec_.kind == FunctionKind::prologue;
    std::string s =
        fmt::format("extern \"C\" void {}(const aotc_kargs* a, {}) {{\n  (void)a;\n", spec_.symbol, prologue ? kPrologue : kEpilogue);
    s += scopes_.take(kFunction) + decode;
    if (turning_)
      s += fmt::format("for (int64_t r = 0; r < rows; r += {}) {{\n", turning_->block);
    else
      s += fmt::format("for (int64_t r = 0; r < rows; ++r) {{\nconst int64_t o{} = m0 + r;\n{}", n - 1, tile_row("r"));
    return s + scopes_.take(kUnit) + "}\n}\n";
  }

  /// Where a row of the tile begins, less the column of its first element.
  std::string tile_row(const std::string& row) const {
    return fmt::format("{0}{1}* const tile_row = ({0}{1}*)tile + {2} * ld_elems - n0;\n(void)tile_row;\n",
                       spec_.kind == FunctionKind::prologue ? "" : "const ", insts_.tile_type(), row);
  }

  const LoopKernel& k_;
  const FunctionSpec& spec_;
  const bool attached_;  ///< an epilogue or a prologue: rows and columns of a tile
  LaneAxis lanes_;
  const std::optional<Turning> turning_;
  Scopes scopes_;
  InstEmitter insts_;
  int nests_ = 0;  ///< with lanes along their last loop, so far
};

}  // namespace

FunctionSpec kernel_spec(const LoopKernel& k, const std::string& symbol) {
  FunctionSpec s;
  s.symbol = symbol;
  s.size_symbols = kernel_symbols(k);
  if (may_store_far(k)) s.far_size = static_cast<int>(s.size_symbols.size());
  int next = 0;
  for (const loop::Param& p : k.params) s.ptr.push_back(loop::takes_argument(p.role) ? next++ : -1);
  return s;
}

std::string emit_function(const LoopKernel& k, const FunctionSpec& spec) { return FunctionEmitter(k, spec).run(); }

}  // namespace aotc::emit::cpu
