#include "passes/precision.h"

#include <algorithm>

#include "graph/builder.h"
#include "graph/scalar.h"
#include "passes/stored_bytes.h"

namespace aotc::passes {
namespace {

/// What gives elements of its operands as they are, so that rounding may come before it.
struct Carrier {
  Op op;
  bool free;        ///< a view that reads all of its operand: it costs nothing to have it of both types
  size_t operands;  ///< the first of its inputs that elements come from; 0: all
};
constexpr Carrier kCarriers[] = {
    {Op::reshape, true, 1},  {Op::permute, true, 1}, {Op::expand, true, 1},  {Op::flip, true, 1},
    {Op::pad, true, 1},      {Op::window, true, 1},  {Op::slice, false, 1},  {Op::cat, false, 0},
    {Op::strided, false, 1}, {Op::index, false, 1},  {Op::gather, false, 1}, {Op::reduce, false, 1},
};

bool in_bf16(double x) {
  std::byte bits[2];
  double back;
  store_f64(DType::bf16, &x, bits, 1);
  load_f64(DType::bf16, bits, &back, 1);
  return back == x;
}

const Carrier* carrier(const Node& n) {
  if (n.op == Op::reduce && n.reduce_kind() != ReduceKind::max && n.reduce_kind() != ReduceKind::min) return nullptr;
  if (n.has(Attr::value) && !in_bf16(n.get<double>(Attr::value))) return nullptr;
  const auto it = std::find_if(std::begin(kCarriers), std::end(kCarriers), [&](const Carrier& c) { return c.op == n.op; });
  return it == std::end(kCarriers) ? nullptr : it;
}
size_t carried(const Carrier& c, const Node& n) { return c.operands == 0 ? n.inputs.size() : c.operands; }

/// Whether a node's input is only multiplied. Of a recurrence that is the state's weight: the states are added to and given out, too, so
/// they are rounded where the kernel multiplies them.
bool is_factor(const Node& n, size_t i) {
  if (n.op == Op::recurrence) return i == 1;
  return i < (n.op == Op::attention ? 3 : 2);
}

/// A recurrence whose state is projected, which has no kernel of two types.
bool projected(const Node& n) { return n.inputs.size() == 5; }

/// Sums of one product each are no contraction but in name; what they scale (positions by frequencies) may need its bits.
bool sums(const Graph& g, const Node& n) {
  if (n.op == Op::matmul) return !g.type(n.inputs[0]).dims.back().is(1);
  if (n.op != Op::conv) return true;
  const Exprs& w = g.type(n.inputs[1]).dims;
  return std::any_of(w.begin() + 1, w.end(), [](const Expr& e) { return !e.is(1); });
}

class Rounder {
 public:
  Rounder(Graph& g, const PassContext& ctx) : g_(g), b_(g) {
    if (ctx.target.traits().float32_by_bytes) widens_ = widens_stored_bytes(g, ctx.target);
    for (NodeId id : g.order) {
      const Node& n = g.nodes[id];
      if (!multiplies_f32(n) || few_bits(n, ctx)) continue;
      const size_t place = picked_.size();
      const Precision p = n.op == Op::recurrence && !ctx.target.traits().mixed_recurrences ? Precision::f32 : ctx.precision(place);
      picked_[id] = {p, place};
      if (!ctx.precisions) continue;
      const auto ns = [&](DType t) { return ctx.contraction_ns ? ctx.contraction_ns(g, n, t) : 0; };
      ctx.precisions->push_back({n.name, n.source, n.op, p, ns(DType::f32), ns(DType::bf16)});
    }
  }

  void run() {
    users_ = g_.users();
    const std::vector<NodeId> order = g_.order;
    for (NodeId id : order) {
      const auto it = picked_.find(id);
      if (it == picked_.end() || it->second.precision == Precision::f32) continue;
      const Node n = g_.nodes[id];  // a copy: building nodes moves them
      b_.at(n.name, n.source);
      const std::vector<ValueId> y =
          it->second.precision == Precision::bf16 ? rounded(n) : asked(n, static_cast<int64_t>(it->second.place));
      for (size_t i = 0; i < y.size(); ++i) {
        made_of_[y[i]] = n.outputs[i];
        g_.replace_all_uses(n.outputs[i], y[i]);
      }
    }
    g_.compact();
  }

 private:
  struct Picked {
    Precision precision;
    size_t place;
  };

  bool multiplies_f32(const Node& n) const {
    const bool plain = n.op == Op::recurrence && !projected(n);
    if (!plain && (op_class(n.op) != OpClass::contraction || !sums(g_, n))) return false;
    if (g_.type(n.outputs[0]).dtype != DType::f32) return false;
    for (size_t i = 0; i < n.inputs.size(); ++i)
      if (is_factor(n, i) && g_.type(n.inputs[i]).dtype != DType::f32) return false;
    return true;
  }

  /// A product with a weight of integers, which has a kernel of its own.
  bool few_bits(const Node& n, const PassContext& ctx) const {
    if (n.op == Op::matmul && !widens_.empty())
      if (const Value& b = g_.values[n.inputs[1]]; b.kind == ValueKind::node && widens_[idx(b.node)]) return true;
    const auto w = product_weight(g_, n);
    const auto rounded = w ? ctx.rounded_weights.find(g_.constants[g_.values[w->constant].constant]) : nullptr;
    return rounded && !rounded->values.empty() && rounded->columns_first == w->columns_first;
  }

  std::vector<ValueId> rounded(const Node& n) {
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_factor(n, i)) inputs[i] = narrow(inputs[i]);
    TensorType t = g_.type(n.outputs[0]);
    if (n.op != Op::attention) return b_.make(n.op, std::move(inputs), n.attrs, n.op == Op::recurrence ? nullptr : &t);
    t.dtype = DType::bf16;
    return {b_.cast(b_.make1(n.op, std::move(inputs), n.attrs, &t), DType::f32)};
  }

  /// The value in bf16.
  ValueId narrow(ValueId v) {
    if (const auto it = narrow_.find(v); it != narrow_.end()) return it->second;
    const Node* d = g_.def(v);
    if (d && d->op == Op::cast && g_.type(d->inputs[0]).dtype == DType::bf16) return narrow_[v] = d->inputs[0];
    const Carrier* c = d ? carrier(*d) : nullptr;
    if (!c || !goes_above(*d, *c)) return narrow_[v] = b_.cast(v, DType::bf16);
    const Node n = *d;
    std::vector<ValueId> inputs = n.inputs;
    for (size_t i = 0; i < carried(*c, n); ++i) inputs[i] = narrow(inputs[i]);
    TensorType t = g_.type(v);
    t.dtype = DType::bf16;
    b_.at(n.name, n.source);
    return narrow_[v] = b_.make1(n.op, std::move(inputs), n.attrs, &t);
  }
  bool goes_above(const Node& n, const Carrier& c) {
    return c.free || std::all_of(n.inputs.begin(), n.inputs.begin() + static_cast<long>(carried(c, n)),
                                 [&](ValueId v) { return only_multiplied(v); });
  }

  /// Nothing but contractions in bf16 looks at the value, through carriers.
  bool only_multiplied(ValueId v) {
    if (const auto it = made_of_.find(v); it != made_of_.end()) v = it->second;
    if (idx(v) >= users_.size()) return false;
    if (const auto it = only_multiplied_.find(v); it != only_multiplied_.end()) return it->second;
    const auto is_one = [&](NodeId id) {
      if (id == kNone<NodeId>) return false;
      const Node& u = g_.nodes[id];
      const auto only_as = [&](const auto& suits) {
        for (size_t i = 0; i < u.inputs.size(); ++i)
          if (u.inputs[i] == v && !suits(i)) return false;
        return true;
      };
      if (const auto it = picked_.find(id); it != picked_.end())
        return it->second.precision == Precision::bf16 && only_as([&](size_t i) { return is_factor(u, i); });
      const Carrier* c = carrier(u);
      return c && only_as([&](size_t i) { return i < carried(*c, u); }) && only_multiplied(u.outputs[0]);
    };
    const auto& users = users_[idx(v)];
    return only_multiplied_[v] = !users.empty() && std::all_of(users.begin(), users.end(), is_one);
  }

  /// The contraction with its operands rounded where an element of the input kPrecisionInput says so; a recurrence both ways, of which that
  /// element chooses.
  std::vector<ValueId> asked(const Node& n, int64_t place) {
    if (flags_ == kNone<ValueId>)
      flags_ = g_.add_input(std::string(kPrecisionInput), {DType::boolean, {static_cast<int64_t>(picked_.size())}});
    const ValueId flag = b_.slice(flags_, 0, place, 1);
    const auto everywhere = [&](ValueId like) {
      const Exprs dims = g_.type(like).dims;
      return b_.expand(b_.reshape(flag, Exprs(dims.size(), Expr(1))), dims);
    };
    const auto chosen = [&](ValueId v) {
      const ValueId here = everywhere(v);
      return b_.where(here, b_.cast(b_.cast(v, DType::bf16), DType::f32), v);
    };
    std::vector<ValueId> inputs = n.inputs;
    if (n.op == Op::recurrence) {
      const std::vector<ValueId> no = b_.make(n.op, inputs, n.attrs);
      inputs[1] = b_.cast(inputs[1], DType::bf16);
      std::vector<ValueId> y = b_.make(n.op, std::move(inputs), n.attrs);
      for (size_t i = 0; i < y.size(); ++i) y[i] = b_.where(everywhere(no[i]), y[i], no[i]);
      return y;
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      if (is_factor(n, i)) inputs[i] = chosen(inputs[i]);
    const TensorType t = g_.type(n.outputs[0]);
    const ValueId y = b_.make1(n.op, std::move(inputs), n.attrs, &t);
    return {n.op == Op::attention ? chosen(y) : y};
  }

  Graph& g_;
  Builder b_;
  std::map<NodeId, Picked> picked_;  ///< contractions of float32
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> widens_;  ///< by node: widens_stored_bytes, where products with such weights are of float32
  std::map<ValueId, ValueId> narrow_, made_of_;
  std::map<ValueId, bool> only_multiplied_;
  ValueId flags_ = kNone<ValueId>;
};

}  // namespace

std::function<Precision(size_t)> parse_precisions(std::string_view text) {
  constexpr std::string_view kNames[] = {"f32", "bf16", "asked"};  // in the order of Precision
  std::vector<Precision> all;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view name = text.substr(begin, comma - begin);
    const auto it = std::find(std::begin(kNames), std::end(kNames), name);
    if (it == std::end(kNames))
      throw Diagnostic(ExitCode::usage, Loc{}, fmt::format("'{}' is not a precision", name)).note("known: f32, bf16, asked");
    all.push_back(static_cast<Precision>(it - std::begin(kNames)));
    begin = comma + 1;
  }
  return [all](size_t place) { return all[std::min(place, all.size() - 1)]; };
}

/// Products, convolutions, attention and (on CPUs) recurrences of float32 multiply bf16 where PassContext::precision says so: their
/// operands are rounded, their sums and everything between them stay float32. An operand is rounded where it is computed, above the views
/// (and choices among elements) that lie between, once for all that multiply it; what attention gives is rounded once more, as its kernels
/// do; a recurrence rounds its state where it multiplies it. Changes numerics; what the graph takes and gives keeps its types. Requires
/// folded scales (fold_conv_bn) and found attention; leaves casts of constants to fold.
void precision(Graph& g, PassContext& ctx) {
  if (ctx.precisions) ctx.precisions->clear();
  if (ctx.precision) Rounder(g, ctx).run();
}

}  // namespace aotc::passes
