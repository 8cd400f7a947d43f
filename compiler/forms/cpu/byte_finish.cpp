#include "forms/cpu/byte_finish.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "aotc/detail/bytes_abi.h"
#include "base/initialiser.h"
#include "forms/cpu/finish.h"
#include "loop/attached.h"

namespace aotc::forms::cpu {

using loop::Inst;
using loop::InstId;
using loop::InstKind;
using loop::ParamRole;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Follows the sum through an epilogue. What it becomes goes through stages, each of which takes some instructions and not those of an
/// earlier one; every instruction must be of the sum, a constant, or made of what is loaded beside it.
class Follower {
 public:
  Follower(const loop::LoopKernel& e, const Expr& plane) : e_(e), plane_(plane) {
    f_.at_least = -std::numeric_limits<float>::infinity(), f_.at_most = std::numeric_limits<float>::infinity();
  }

  std::optional<ByteFinish> run() {
    if (e_.inner.size() != 1 || e_.outer.empty()) return std::nullopt;
    for (const loop::Block& b : e_.blocks)
      for (const InstId id : b.insts)
        if (!follow(id)) return std::nullopt;
    const bool bytes = f_.bytes.param != kNone<loop::ParamId>, floats = f_.floats.param != kNone<loop::ParamId>;
    // Where there are bytes, they are the numbers that are stored again.
    if (!bytes && (!floats || stage_ >= Stage::steps)) return std::nullopt;
    if (bytes) drop_covered_limits();
    return f_;
  }

 private:
  enum class Stage { none, sums, floats, scaled, shifted, added, limited, steps, rounded, moved, at_least_0, bytes, read, unmoved, again };

  const Inst& inst(InstId i) const { return e_.insts[i]; }
  std::optional<double> constant(InstId i) const {
    if (inst(i).kind != InstKind::constant || inst(i).dtype != DType::f32) return std::nullopt;
    return inst(i).imm_f;
  }
  bool is_op(InstId i, Op op, DType t) const { return inst(i).kind == InstKind::op && inst(i).op == op && inst(i).dtype == t; }
  std::optional<BytePlace> loaded(InstId id, DType t) const {
    const Inst& i = inst(id);
    if (i.kind != InstKind::load || i.dtype != t || e_.params[i.param].dtype != t || i.mask != kNone<InstId>) return std::nullopt;
    const auto at = finish_place(e_, plane_, i.index);
    return at ? std::optional(BytePlace{i.param, at->base, at->pitch}) : std::nullopt;
  }
  /// One number a column.
  std::optional<BytePlace> column(InstId id, DType t) const {
    const auto at = loaded(id, t);
    return at && at->pitch == 0 ? at : std::nullopt;
  }
  /// Whether the sum has not come further than `s`.
  bool until(Stage s) const { return stage_ <= s && stage_ != Stage::none; }
  bool to(Stage s, InstId id) {
    stage_ = s, sum_ = id;
    return true;
  }

  bool follow(InstId id) {
    const Inst& i = inst(id);
    switch (i.kind) {
      case InstKind::constant: return true;
      case InstKind::load:
        if (e_.params[i.param].role != ParamRole::acc) return i.mask == kNone<InstId>;
        return stage_ == Stage::none && i.dtype == DType::i32 && i.mask == kNone<InstId> && to(Stage::sums, id);
      case InstKind::store: return follow_store(i);
      case InstKind::op: return follow_op(id);
      default: return false;
    }
  }

  bool follow_store(const Inst& i) {
    const DType t = e_.params[i.param].dtype;
    const auto at = finish_place(e_, plane_, i.index);
    const bool bytes = t == DType::u8 && bytes_ != kNone<InstId> && i.args[0] == bytes_;
    const bool floats = t == DType::f32 && i.args[0] == sum_ && inst(sum_).dtype == DType::f32;
    if (!at || i.mask != kNone<InstId> || (!bytes && !floats)) return false;
    BytePlace& to = bytes ? f_.bytes : f_.floats;
    if (to.param != kNone<loop::ParamId> || (floats && stage_ != Stage::again && (stage_ < Stage::floats || stage_ > Stage::limited)))
      return false;
    to = {i.param, at->base, at->pitch};
    stored_ = stored_ || floats;
    return true;
  }

  bool follow_op(InstId id) {
    const Inst& i = inst(id);
    const bool of_sum = std::find(i.args.begin(), i.args.end(), sum_) != i.args.end() && sum_ != kNone<InstId>;
    if (!of_sum) return is_beside(id);
    if (stored_) return false;
    if (i.args.size() == 1) return unary(id);
    if (i.args.size() != 2 || i.args[0] == i.args[1]) return false;
    const bool second = i.args[1] == sum_;
    const InstId other = i.args[second ? 0 : 1];
    if (i.op == Op::sub && second) return false;
    return i.dtype == DType::i32 ? take_away(id, other) : i.dtype == DType::f32 && binary(id, other);
  }

  bool unary(InstId id) {
    const Inst& i = inst(id);
    if (i.op == Op::cast) {
      if (i.dtype == DType::f32 && until(Stage::sums)) return to(Stage::floats, id);
      if (i.dtype == DType::f32 && stage_ == Stage::bytes) return to(Stage::read, id);
      if (i.dtype != DType::u8 || stage_ < Stage::rounded || stage_ > Stage::at_least_0) return false;
      // What was rounded is a byte, or the cast would wrap it.
      if ((!below_256_ && !covered_from_above()) || (stage_ != Stage::at_least_0 && !covered_from_below())) return false;
      bytes_ = id;
      return to(Stage::bytes, id);
    }
    if (i.dtype != DType::f32) return false;
    if (i.op == Op::round) return stage_ == Stage::steps && to(Stage::rounded, id);
    if (i.op != Op::relu) return false;
    return limit(id, 0, true);
  }

  bool take_away(InstId id, InstId other) {
    const auto at = column(other, DType::i32);
    if (inst(id).op != Op::sub || stage_ != Stage::sums || f_.sub.param != kNone<loop::ParamId> || !at) return false;
    f_.sub = *at;
    return to(Stage::sums, id);
  }

  bool binary(InstId id, InstId other) {
    const Op op = inst(id).op;
    const auto number = constant(other);
    if (op == Op::mul) return multiply(id, other, number);
    if (op == Op::minimum || op == Op::maximum) return number && limit(id, *number, op == Op::maximum);
    if (op == Op::sub) return number && stage_ == Stage::read && *number == static_cast<double>(f_.zero) && to(Stage::unmoved, id);
    if (op != Op::add) return false;
    if (number) {
      if (stage_ != Stage::rounded || below_256_ || *number != std::nearbyint(*number) || *number < 0 || *number > 255) return false;
      f_.zero = static_cast<int64_t>(*number);
      return to(Stage::moved, id);
    }
    if (stage_ == Stage::again && !comes_back()) return false;
    if (const auto at = column(other, DType::f32); at && until(Stage::scaled) && stage_ >= Stage::floats) {
      f_.bias = *at;
      return to(Stage::shifted, id);
    }
    if (stage_ < Stage::floats || stage_ > Stage::shifted) return false;
    if (const auto at = loaded(other, DType::f32); at && at->pitch > 0) {
      f_.add_kind = AOTC_BYTES_ADD_F32, f_.add = *at;
      return to(Stage::added, id);
    }
    return add_bytes(other) && to(Stage::added, id);
  }

  /// What was rounded goes on as a sum.
  bool comes_back() {
    drop_covered_limits();
    const bool limited = std::isfinite(f_.at_least) || std::isfinite(f_.at_most);
    if (f_.trips || limited || f_.bytes.param != kNone<loop::ParamId>) return false;
    f_.trips = true, f_.trip_zero = f_.zero, f_.trip_steps = f_.steps, f_.trip_scale = f_.again;
    f_.zero = 0, f_.steps = f_.again = 1;
    below_256_ = false, bytes_ = kNone<InstId>, stage_ = Stage::shifted;
    return true;
  }

  bool multiply(InstId id, InstId other, const std::optional<double>& number) {
    if (stage_ == Stage::floats) {
      if (number)
        f_.scale_all = static_cast<float>(*number);
      else if (const auto at = column(other, DType::f32))
        f_.scale = *at;
      else
        return false;
      return to(Stage::scaled, id);
    }
    if (!number) return false;
    const auto x = static_cast<float>(*number);
    if (stage_ == Stage::unmoved || (stage_ == Stage::read && f_.zero == 0)) {
      f_.again = x;
      return to(Stage::again, id);
    }
    if (stage_ < Stage::scaled || stage_ > Stage::limited || !(x > 0) || !std::isfinite(x)) return false;
    f_.steps = x;
    return to(Stage::steps, id);
  }

  bool limit(InstId id, double x, bool least) {
    if (std::isnan(x)) return false;
    if (stage_ >= Stage::scaled && stage_ <= Stage::limited) {
      if (!least && std::isinf(x)) return false;
      // Limits of which the upper one comes last.
      if (least && f_.at_most < kInfinite) return false;
      float& of = least ? f_.at_least : f_.at_most;
      of = least ? std::max(of, static_cast<float>(x)) : std::min(of, static_cast<float>(x));
      return to(Stage::limited, id);
    }
    if (stage_ < Stage::rounded || stage_ > Stage::at_least_0) return false;
    if (least) return x == 0 && to(Stage::at_least_0, id);
    below_256_ = true;
    if (x != 255) return false;
    sum_ = id;
    return true;
  }

  /// Limits before rounding leave nothing outside of bytes.
  double rounded(float limit) const { return static_cast<double>(limit) * f_.steps + static_cast<double>(f_.zero); }
  bool covered_from_below() const { return rounded(f_.at_least) >= 0; }
  bool covered_from_above() const { return rounded(f_.at_most) < std::numeric_limits<uint8_t>::max() + 0.5 / 2; }

  /// ((f32 of bytes) - zero) * scale.
  bool add_bytes(InstId id) {
    if (!is_op(id, Op::mul, DType::f32)) return false;
    const Inst& mul = inst(id);
    const size_t n = constant(mul.args[0]) ? 0 : 1;
    const auto scale = constant(mul.args[n]);
    InstId at = mul.args[1 - n];
    int64_t zero = 0;
    if (is_op(at, Op::sub, DType::f32)) {
      const auto z = constant(inst(at).args[1]);
      if (!z || *z != std::nearbyint(*z) || std::fabs(*z) > 255) return false;
      zero = static_cast<int64_t>(*z), at = inst(at).args[0];
    }
    if (!scale || !is_op(at, Op::cast, DType::f32)) return false;
    const auto bytes = loaded(inst(at).args[0], DType::u8);
    if (!bytes || bytes->pitch == 0) return false;
    f_.add_kind = AOTC_BYTES_ADD_U8, f_.add = *bytes, f_.add_zero = zero, f_.add_scale = static_cast<float>(*scale);
    return true;
  }
  /// Made of what is loaded: add_bytes looks at it where it is added.
  bool is_beside(InstId id) const {
    const Inst& i = inst(id);
    if (i.op != Op::cast && i.op != Op::sub && i.op != Op::mul) return false;
    return i.dtype == DType::f32 && std::none_of(i.args.begin(), i.args.end(), [&](InstId a) { return a == bytes_; });
  }

  /// What the limits of bytes do anyway.
  void drop_covered_limits() {
    if (rounded(f_.at_least) <= 0) f_.at_least = -std::numeric_limits<float>::infinity();
    if (rounded(f_.at_most) >= 255) f_.at_most = std::numeric_limits<float>::infinity();
  }

  const loop::LoopKernel& e_;
  const Expr plane_;
  ByteFinish f_;
  Stage stage_ = Stage::none;
  InstId sum_ = kNone<InstId>, bytes_ = kNone<InstId>;  ///< what has become of the sum, and its bytes
  bool below_256_ = false;                              ///< rounded numbers were limited from above
  bool stored_ = false;                                 ///< floats were: nothing follows
};

}  // namespace

std::optional<ByteFinish> byte_finish(const loop::ConvKernel& k) {
  if (!k.channels_last || k.acc != DType::i32) return std::nullopt;
  return Follower(k.epilogue, product(Exprs(k.out_dims.begin() + 2, k.out_dims.end()))).run();
}

std::optional<ByteFinish> byte_finish(const loop::MatmulKernel& k, const loop::Segment& s) {
  if (k.acc != DType::i32 || !product(k.batch).is(1)) return std::nullopt;
  return Follower(s.epilogue, 1).run();
}

std::string byte_finish_text(const loop::Kernel& kernel, const std::optional<ByteFinish>& finish) {
  const ByteFinish f = finish.value_or(ByteFinish{});
  const auto place = [&](const BytePlace& p) {
    Initialiser one;
    one.add("ptr", p.param == kNone<loop::ParamId> ? -1 : loop::argument_index(kernel, p.param)).add("base", p.base).add("pitch", p.pitch);
    return one.str();
  };
  const auto number = [](float x) { return std::isinf(x) ? x < 0 ? "-__builtin_inff()" : "__builtin_inff()" : fmt::format("{:a}f", x); };
  Initialiser all;
  all.add("taken", finish.has_value() ? 1 : 0);
  if (!finish) return all.str();
  all.add("add_kind", f.add_kind).add("add_zero", f.add_zero).add("zero", f.zero);
  all.add("trips", f.trips ? 1 : 0).add("trip_zero", f.trip_zero);
  all.add("sub", place(f.sub)).add("scale", place(f.scale)).add("bias", place(f.bias)).add("add", place(f.add));
  all.add("bytes", place(f.bytes)).add("floats", place(f.floats));
  all.add("scale_all", number(f.scale_all)).add("add_scale", number(f.add_scale)).add("at_least", number(f.at_least));
  all.add("at_most", number(f.at_most)).add("steps", number(f.steps)).add("again", number(f.again));
  all.add("trip_steps", number(f.trip_steps)).add("trip_scale", number(f.trip_scale));
  return all.str();
}

}  // namespace aotc::forms::cpu
