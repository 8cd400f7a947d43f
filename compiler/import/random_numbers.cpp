#include "import/random_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <set>

#include "base/words.h"
#include "import/aliases.h"
#include "import/drawing.h"
#include "import/operands.h"

namespace aotc::import {
namespace {

using Sizes = std::vector<Expr>;
using Made = std::optional<std::vector<Drawn>>;  ///< a node's results; nothing: it stays as it is

/// What a row sees: the arguments, the generators, and the archive's type of the node's first result.
struct Draw : Drawing {
  using Drawing::Drawing;
  Drawn result;
  bool probability(std::string_view name, double& p) const {
    const std::optional<double> n = number(name);
    if (!n || !(*n >= 0 && *n <= 1)) return false;
    p = *n;
    return true;
  }
};

/// Random numbers of a floating type, scaled and moved by the arguments of these names (where there are such).
template <Drawn (*kStandard)(Draw&, const Sizes&, DType)>
Made scaled(Draw& d, std::string_view low, std::string_view scale, bool is_end) {
  Drawn x = kStandard(d, d.result.sizes, d.result.dtype);
  const double from = d.number(low).value_or(0.0), s = d.number(scale).value_or(1.0) - (is_end ? from : 0.0);
  if (const auto t = d.tensor(scale))
    x = d.emit("aten.mul.Tensor", {{"self", x}, {"other", *t}}, x.dtype, x.sizes);
  else if (s != 1)
    x = d.mul(x, s);
  if (const auto t = d.tensor(low))
    x = d.emit("aten.add.Tensor", {{"self", x}, {"other", *t}, {"alpha", Expr(1)}}, x.dtype, x.sizes);
  else if (from != 0)
    x = d.add(x, from);
  return {{x}};
}
Drawn standard_uniform(Draw& d, const Sizes& sizes, DType t) { return d.uniform(sizes, t); }
Drawn standard_normal(Draw& d, const Sizes& sizes, DType t) { return d.normal(sizes, t); }

Made uniform(Draw& d) { return is_float(d.result.dtype) ? scaled<standard_uniform>(d, "from", "to", true) : Made(); }
Made normal(Draw& d) { return is_float(d.result.dtype) ? scaled<standard_normal>(d, "mean", "std", false) : Made(); }
Made log_normal(Draw& d) {
  Made x = normal(d);
  if (x) x->front() = d.unary("aten.exp.default", x->front());
  return x;
}

Made exponential(Draw& d) {
  const std::optional<double> rate = d.number("lambd");
  if (!rate || !(*rate > 0)) return std::nullopt;
  const Drawn e = d.exponential(d.result.sizes, d.result.dtype);
  return {{*rate == 1 ? e : d.div(e, *rate)}};
}
/// The number of the first of many trials that succeeds: ceil(log(u) / log(1 - p)).
Made geometric(Draw& d) {
  double p = 0;
  if (!d.probability("p", p) || p == 0 || p == 1) return std::nullopt;
  const Drawn e = d.exponential(d.result.sizes, DType::f64);
  const Drawn n = d.unary("aten.ceil.default", d.mul(e, -1 / std::log1p(-p)));
  return {{d.emit("aten.clamp.default", {{"self", n}, {"min", 1.0}, {"max", NoneArg{}}}, n.dtype, n.sizes)}};
}
Made cauchy(Draw& d) {
  const Drawn u = d.add(d.uniform(d.result.sizes, d.result.dtype), -0.5);
  const Drawn x = d.unary("aten.tan.default", d.mul(u, std::numbers::pi));
  return {{d.add(d.mul(x, d.number("sigma").value_or(1.0)), d.number("median").value_or(0.0))}};
}

/// Whole numbers in [low, low + count).
Made whole(Draw& d, const Expr& low, const Expr& count) {
  const std::optional<int64_t> n = count.as_const();
  if (n && *n <= 0) return std::nullopt;
  const Drawn bits = d.bits(d.result.sizes);
  Drawn x = bits;
  if (n && *n <= (int64_t{1} << 31)) {  // the high half of a product with 32 bits
    x = d.mul(d.some_bits(bits, 0, 32), count);
    x = d.emit("aten.__rshift__.Scalar", {{"self", x}, {"other", Expr(32)}}, DType::i64, x.sizes);
  } else {
    x = d.emit("aten.remainder.Scalar", {{"self", d.some_bits(bits, 0, 62)}, {"other", count}}, DType::i64, x.sizes);
  }
  return {{low.is(0) ? x : d.add(x, low)}};
}
Made randint(Draw& d) {
  const std::optional<Expr> high = d.integer("high"), low = d.integer("low");
  return high ? whole(d, low.value_or(0), *high - low.value_or(0)) : Made();
}
/// All whole numbers that the type holds one by one, from 0 or `from` on, below `to`.
Made random(Draw& d) {
  const std::optional<Expr> from = d.integer("from"), to = d.integer("to");
  if (to) return whole(d, from.value_or(0), *to - from.value_or(0));
  if (from) return std::nullopt;
  switch (d.result.dtype) {
    case DType::f64: return whole(d, 0, (int64_t{1} << 53) + 1);
    case DType::f32: return whole(d, 0, (int64_t{1} << 24) + 1);
    case DType::i64: return {{d.some_bits(d.bits(d.result.sizes), 0, 62)}};
    case DType::i32: return whole(d, 0, int64_t{1} << 31);
    case DType::boolean: return whole(d, 0, 2);
    default: return std::nullopt;
  }
}

Made bernoulli(Draw& d) {
  if (const auto p = d.tensor("p"); p && is_float(p->dtype) && p->sizes == d.result.sizes) return {{d.chance(d.result.sizes, *p)}};
  if (double p = 0; d.probability("p", p)) return {{d.chance(d.result.sizes, p)}};
  return std::nullopt;
}
Made bernoulli_of_self(Draw& d) {
  const auto p = d.tensor("self");
  return p && is_float(p->dtype) ? Made({{d.chance(p->sizes, *p)}}) : std::nullopt;
}

/// Elements of x kept with probability 1 - p, all of a channel together where `channels` says so: true where they are.
Drawn kept(Draw& d, const Drawn& x, double p, bool channels) {
  Sizes sizes = x.sizes;
  for (size_t i = 2; channels && i < sizes.size(); ++i) sizes[i] = 1;
  return d.chance(sizes, 1 - p);
}
/// x where an element is kept, scaled up by what was lost, else 0 (and as an infinity or a NaN times 0 is).
Drawn dropped(Draw& d, const Drawn& x, const Drawn& keep, double p) {
  Drawn noise = d.to(keep, x.dtype);
  if (p < 1) noise = d.mul(noise, 1 / (1 - p));
  return d.mul(x, noise);
}
/// In training; evaluation has rules of its own.
std::optional<Drawn> dropout_operand(Draw& d, double& p) {
  const auto x = d.tensor(d.absent("input") ? "self" : "input");
  if (!x || !is_float(x->dtype) || !d.probability("p", p) || p == 0 || !d.boolean("train").value_or(d.absent("train"))) return std::nullopt;
  return x;
}
template <bool kChannels>
Made dropout(Draw& d) {
  double p = 0;
  const auto x = dropout_operand(d, p);
  if (!x || (kChannels && x->sizes.size() < 2)) return std::nullopt;
  return {{dropped(d, *x, kept(d, *x, p, kChannels), p)}};
}
Made native_dropout(Draw& d) {
  double p = 0;
  const auto x = dropout_operand(d, p);
  if (!x) return std::nullopt;
  const Drawn keep = kept(d, *x, p, false);
  return {{dropped(d, *x, keep, p), keep}};
}
/// Keeps mean and deviation of what SELU gives (Klambauer et al., 2017): what is dropped becomes SELU's limit, and all is scaled and moved.
template <bool kChannels>
Made alpha_dropout(Draw& d) {
  double p = 0;
  const auto x = dropout_operand(d, p);
  if (!x || p == 1 || (kChannels && x->sizes.size() < 2)) return std::nullopt;
  constexpr double kLimit = 1.7580993408473766;
  const double a = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
  const Drawn keep = d.to(kept(d, *x, p, kChannels), x->dtype);
  const Drawn moved = d.add(d.mul(d.add(keep, -1.0), kLimit * a), kLimit * a * p);
  const Drawn y = d.mul(*x, d.mul(keep, a));
  return {{d.add(y, moved)}};
}
/// Negative numbers times a slope between `lower` and `upper`.
Made rrelu(Draw& d) {
  const auto x = d.tensor("self");
  if (!x || !is_float(x->dtype) || !d.boolean("training").value_or(false)) return std::nullopt;
  const double lower = d.number("lower").value_or(1.0 / 8), upper = d.number("upper").value_or(1.0 / 3);
  const Drawn slope = d.to(d.add(d.mul(d.uniform(x->sizes, x->dtype), upper - lower), lower), x->dtype);
  const Drawn negative = d.emit("aten.le.Scalar", {{"self", *x}, {"other", Expr(0)}}, DType::boolean, x->sizes);
  return {{d.emit("aten.where.self", {{"condition", negative}, {"self", d.mul(*x, slope)}, {"other", *x}}, x->dtype, x->sizes)}};
}

Made randperm(Draw& d) {
  if (d.result.sizes.size() != 1) return std::nullopt;
  const Drawn keys = d.bits(d.result.sizes);
  return {{d.emit("aten.sort.stable", {{"self", keys}, {"stable", true}, {"dim", Expr(0)}, {"descending", false}}, DType::i64, keys.sizes,
                  1, 2)}};
}

/// Indices of the last dim by weights. One after another without putting back: the largest of weights over exponential numbers (the order
/// of arrivals); with it: where uniform numbers fall among the running sums.
Made multinomial(Draw& d) {
  const auto w = d.tensor("self");
  const std::optional<Expr> n = d.integer("num_samples");
  if (!w || !n || !is_float(w->dtype) || w->sizes.empty()) return std::nullopt;
  const Drawn weights = d.to(*w, compute_type(w->dtype));
  const Expr classes = w->sizes.back();
  Sizes picked = w->sizes;
  picked.back() = *n;
  if (n->is(1) || !d.boolean("replacement").value_or(false)) {
    const Drawn race = d.div(weights, d.exponential(w->sizes, weights.dtype));
    if (n->is(1)) return {{d.emit("aten.argmax.default", {{"self", race}, {"dim", Expr(-1)}, {"keepdim", true}}, DType::i64, picked)}};
    return {{d.emit("aten.topk.default", {{"self", race}, {"k", *n}, {"dim", Expr(-1)}, {"largest", true}, {"sorted", true}}, DType::i64,
                    picked, 1, 2)}};
  }
  if (!classes.is_const()) return std::nullopt;
  const Drawn sums = d.emit("aten.cumsum.default", {{"self", weights}, {"dim", Expr(-1)}, {"dtype", NoneArg{}}}, weights.dtype, w->sizes);
  Sizes one = w->sizes;
  one.back() = 1;
  const Drawn all =
      d.emit("aten.slice.Tensor", {{"self", sums}, {"dim", Expr(-1)}, {"start", classes - 1}, {"end", classes}, {"step", Expr(1)}},
             weights.dtype, one);
  const Drawn at = d.mul(d.uniform(picked, weights.dtype), all);
  const Drawn found =
      d.emit("aten.searchsorted.Tensor",
             {{"sorted_sequence", sums}, {"self", at}, {"out_int32", false}, {"right", true}, {"side", NoneArg{}}, {"sorter", NoneArg{}}},
             DType::i64, picked);
  return {{d.emit("aten.clamp.default", {{"self", found}, {"min", NoneArg{}}, {"max", classes - 1}}, DType::i64, picked)}};
}

/// Attention whose weights are dropped: written out, softmax(q k^T * scale + mask) with dropout, times v.
Made attention(Draw& d) {
  const auto q = d.tensor("query"), k = d.tensor("key"), v = d.tensor("value");
  double p = 0;
  if (!q || !k || !v || !d.probability("dropout_p", p) || p == 0 || q->sizes.size() < 2 || k->sizes.size() != q->sizes.size() ||
      v->sizes.size() != q->sizes.size() || d.boolean("enable_gqa").value_or(false))
    return std::nullopt;
  const std::optional<int64_t> width = q->sizes.back().as_const();
  if (!width) return std::nullopt;
  Sizes turned = k->sizes, scores = q->sizes, out = q->sizes;
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  scores.back() = turned.back();
  out.back() = v->sizes.back();
  const Drawn kt = d.emit("aten.transpose.int", {{"self", *k}, {"dim0", Expr(-2)}, {"dim1", Expr(-1)}}, k->dtype, turned);
  const double scale = d.number("scale").value_or(1 / std::sqrt(static_cast<double>(*width)));
  Drawn s = d.emit("aten.matmul.default", {{"self", d.mul(*q, scale)}, {"other", kt}}, q->dtype, scores);
  const double none = -std::numeric_limits<double>::infinity();
  const auto hide = [&](const Drawn& hidden) {
    s = d.emit("aten.masked_fill.Scalar", {{"self", s}, {"mask", hidden}, {"value", none}}, s.dtype, s.sizes);
  };
  const auto negated = [&](const Drawn& mask) { return d.emit("aten.logical_not.default", {{"self", mask}}, DType::boolean, mask.sizes); };
  if (const auto mask = d.tensor("attn_mask")) {
    if (is_bool(mask->dtype))
      hide(negated(*mask));
    else
      s = d.add(s, *mask);
  }
  if (d.boolean("is_causal").value_or(false)) {
    const Sizes square = {scores[scores.size() - 2], scores.back()};
    const Drawn ones =
        d.emit("aten.ones.default",
               {{"size", square}, {"dtype", DType::boolean}, {"layout", NoneArg{}}, {"device", NoneArg{}}, {"pin_memory", NoneArg{}}},
               DType::boolean, square);
    hide(negated(d.emit("aten.tril.default", {{"self", ones}, {"diagonal", Expr(0)}}, DType::boolean, square)));
  }
  const Drawn w = d.emit("aten.softmax.int", {{"self", s}, {"dim", Expr(-1)}, {"dtype", NoneArg{}}}, s.dtype, s.sizes);
  return {{d.emit("aten.matmul.default", {{"self", dropped(d, w, kept(d, w, p, false), p)}, {"other", *v}}, v->dtype, out)}};
}

struct Row {
  std::string_view ops;  ///< without the overload; the name that ends in _ is the form that writes into its operand
  Made (*draw)(Draw&);
  std::string_view overload = {};  ///< empty: any
};
constexpr Row kRows[] = {
    {"rand rand_like uniform", uniform},
    {"randn randn_like normal normal_functional", normal},
    {"log_normal", log_normal},
    {"exponential", exponential},
    {"geometric", geometric},
    {"cauchy", cauchy},
    {"randint randint_like", randint},
    {"random", random},
    {"bernoulli", bernoulli_of_self, "default"},
    {"bernoulli", bernoulli},
    {"dropout", dropout<false>},
    {"feature_dropout", dropout<true>},
    {"native_dropout", native_dropout},
    {"alpha_dropout", alpha_dropout<false>},
    {"feature_alpha_dropout", alpha_dropout<true>},
    {"rrelu", rrelu},
    {"randperm", randperm},
    {"multinomial", multinomial},
    {"scaled_dot_product_attention", attention},
};

/// "aten.normal_.default" → normal, writes, default.
struct Target {
  std::string_view op, overload;
  bool writes = false;
};
std::optional<Target> target_of(std::string_view target) {
  if (!target.starts_with("aten.")) return std::nullopt;
  target.remove_prefix(5);
  const size_t dot = target.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  Target t{target.substr(0, dot), target.substr(dot + 1)};
  if (t.op.ends_with('_')) {
    t.op.remove_suffix(1);
    t.writes = true;
  }
  return t;
}

class Drawer {
 public:
  explicit Drawer(Program& p) : p_(p), state_(kRandomState) {
    while (p.tensors.count(state_) || p.data.count(state_)) state_ += "_";
    for (const PNode& n : p.nodes)
      for (const NamedArg& a : n.args) each_tensor(a.value, [&](const std::string& t) { read_.insert(t); });
    for (const ProgramOutput& o : p.outputs) each_tensor(o.value, [&](const std::string& t) { read_.insert(t); });
  }

  void run() {
    std::vector<PNode> nodes;
    for (PNode& n : p_.nodes)
      if (!replace(n, nodes)) nodes.push_back(std::move(n));
    p_.nodes = std::move(nodes);
    if (slot_ > 0) add_state();
  }

 private:
  bool replace(const PNode& n, std::vector<PNode>& into) {
    const std::optional<Target> t = target_of(n.target);
    const Row* row =
        t ? std::find_if(std::begin(kRows), std::end(kRows),
                         [&](const Row& r) { return has_word(r.ops, t->op) && (r.overload.empty() || r.overload == t->overload); })
          : std::end(kRows);
    if (row == std::end(kRows) || n.results.empty()) return false;
    const std::vector<std::string> names = result_names(n);
    if (!t->writes && std::none_of(names.begin(), names.end(), [&](const std::string& s) { return read_.count(s) != 0; })) return false;
    if (!t->writes && names.size() == 1 && silenced(p_, names[0])) return false;
    int64_t slot = slot_;
    Draw d(p_, n, state_, slot);
    const auto* first = std::get_if<TensorRef>(&n.results[0]);
    const auto meta = first ? p_.tensors.find(first->name) : p_.tensors.end();
    if (t->writes) {
      const std::optional<Drawn> self = d.tensor(d.absent("input") ? "self" : "input");
      if (!self) return false;
      d.result = *self;
    } else if (meta != p_.tensors.end()) {
      d.result = {first->name, meta->second.dtype, meta->second.sizes};
    } else {
      return false;
    }
    if (is_complex(d.result.dtype)) return false;
    Made made = row->draw(d);
    if (!made || made->size() < n.results.size()) return false;
    // What the row made, as the archive's results: in its type, and under its name.
    made->front() = d.to(made->front(), d.result.dtype);
    for (size_t i = 0; i < n.results.size(); ++i) {
      PNode as = n;
      as.results = {n.results[i]};
      if (const auto* name = std::get_if<TensorRef>(&n.results[i])) as.name = name->name;
      if (t->writes)
        as.target = "aten.copy_.default", as.args = {{"self", TensorRef{d.result.name}}, {"src", (*made)[i]}, {"non_blocking", false}};
      else
        as.target = "aten.alias.default", as.args = {{"self", (*made)[i]}};
      if (t->writes || !std::holds_alternative<NoneArg>(n.results[i])) d.nodes.push_back(std::move(as));
    }
    slot_ = slot;
    p_.tensors.merge(d.tensors);
    std::move(d.nodes.begin(), d.nodes.end(), std::back_inserter(into));
    return true;
  }

  /// The state as a buffer, and one more run in its new content.
  void add_state() {
    const Sizes two = {Expr(2)};
    const TensorMeta meta = dense_meta(DType::i64, two);
    const auto zeros = std::make_shared<std::array<int64_t, 2>>();
    ConstData data{state_, {DType::i64, two}, zeros, reinterpret_cast<const std::byte*>(zeros->data()), sizeof *zeros};
    p_.inputs.push_back({.kind = InputKind::buffer, .name = state_, .target = state_});
    p_.tensors.emplace(state_, meta);
    p_.data.emplace(state_, std::move(data));
    p_.data_meta.emplace(state_, meta);
    const auto node = [&](const std::string& name, std::string_view target, std::vector<NamedArg> args) {
      PNode n;
      n.name = name;
      n.target = target;
      n.args = std::move(args);
      n.results = {TensorRef{name}};
      p_.tensors.emplace(name, meta);
      p_.nodes.push_back(std::move(n));
      return TensorRef{name};
    };
    const TensorRef run =
        node(state_ + ".run", "aten.arange.default",
             {{"end", Expr(2)}, {"dtype", DType::i64}, {"layout", NoneArg{}}, {"device", NoneArg{}}, {"pin_memory", NoneArg{}}});
    const TensorRef next = node(state_ + ".next", "aten.add.Tensor", {{"self", TensorRef{state_}}, {"other", run}, {"alpha", Expr(1)}});
    p_.outputs.push_back({.kind = OutputKind::buffer_mutation, .value = next, .target = state_});
  }

  Program& p_;
  std::string state_;
  std::set<std::string> read_;
  int64_t slot_ = 0;
};

/// Readers through which zeros stay zeros, whatever else they read.
constexpr std::string_view kKeepZeros =
    "aten.mul.Tensor aten.mul.Scalar aten.neg.default aten.to.device aten.to.dtype aten.to.dtype_layout aten._to_copy.default "
    "aten.view.default aten.reshape.default aten.permute.default aten.transpose.int aten.unsqueeze.default aten.squeeze.dim "
    "aten.expand.default aten.slice.Tensor aten.flip.default aten.contiguous.default aten.clone.default aten.select.int "
    "aten.detach.default";

bool is_zero(const Arg& a) {
  if (const Expr* e = std::get_if<Expr>(&a)) return e->is(0);
  const double* d = std::get_if<double>(&a);
  return d && *d == 0;
}

}  // namespace

bool silenced(const Program& p, const std::string& name) {
  const auto reads = [&](const Arg& a) { return any_tensor(a, [&](const std::string& t) { return t == name; }); };
  for (const ProgramOutput& o : p.outputs)
    if (reads(o.value)) return false;
  return std::all_of(p.nodes.begin(), p.nodes.end(), [&](const PNode& n) {
    if (std::none_of(n.args.begin(), n.args.end(), [&](const NamedArg& a) { return reads(a.value); })) return true;
    if (n.target == "aten._assert_tensor_metadata.default") return true;
    if (!has_word(kKeepZeros, n.target)) return false;
    if (n.target.starts_with("aten.mul.") && n.args.size() == 2 && (is_zero(n.args[0].value) || is_zero(n.args[1].value))) return true;
    const std::vector<std::string> made = result_names(n);
    return std::all_of(made.begin(), made.end(), [&](const std::string& s) { return silenced(p, s); });
  });
}

void draw_numbers(Program& program) { Drawer(program).run(); }

}  // namespace aotc::import
