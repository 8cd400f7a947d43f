#include "passes/stored_bytes.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "graph/constant_store.h"
#include "graph/interp.h"
#include "graph/scalar.h"
#include "passes/byte_weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/strided.h"

namespace aotc::passes {
namespace {

constexpr int64_t kSmallest = 1024;  ///< elements: below that nothing is gained

bool is_view_of_all(Op op) { return op == Op::permute || op == Op::reshape || op == Op::slice; }
bool computes(Op op) { return op == Op::cast || op == Op::mul || op == Op::add || op == Op::sub; }

/// A product with values of the run, whose second operand is a matrix; a lookup of rows of a matrix.
bool multiplies(const Graph& g, const Node& n, const std::vector<bool>& fixed) {
  return n.op == Op::matmul && !fixed[idx(n.inputs[0])] && g.type(n.inputs[1]).rank() == 2 && n.inputs[0] != n.inputs[1];
}
bool looks_up(const Graph& g, const Node& n, const std::vector<bool>& fixed) {
  return n.op == Op::index && n.inputs.size() == 2 && !fixed[idx(n.inputs[1])] && g.type(n.inputs[0]).rank() == 2 &&
         n.get<Ints>(Attr::dims) == Ints{0} && n.get_or<int64_t>(Attr::out_pos, 0) == 0;
}

/// By value: depends on constants alone.
std::vector<bool> fixed_values(const Graph& g) {
  std::vector<bool> fixed(g.values.size());
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values.raw()[i];
    fixed[i] = v.kind == ValueKind::constant && has_data(g.constants[v.constant]);
  }
  for (const NodeId id : g.order) {
    const Node& n = g.nodes[id];
    bool all = n.op != Op::sym;
    for (const ValueId v : n.inputs) all = all && fixed[idx(v)];
    for (const ValueId v : n.outputs) {
      for (const Expr& d : g.type(v).dims) all = all && d.is_const();
      fixed[idx(v)] = all;
    }
  }
  return fixed;
}

Ints sizes_of(const Graph& g, ValueId v) {
  Ints dims;
  for (const Expr& d : g.type(v).dims) dims.push_back(*d.as_const());
  return dims;
}

using Floats = Strided<float>;

/// ints * scale + offset, elementwise.
struct Affine {
  Strided<int16_t> ints;
  std::optional<Floats> scale, offset;
  std::string name;
};

/// Reads what constants make of integers.
class Reader {
 public:
  explicit Reader(const Graph& g) : g_(g) {}

  std::optional<Affine> affine(ValueId v) const {
    const Node* n = g_.def(v);
    if (!n) return std::nullopt;
    if (n->op == Op::cast && is_int(g_.type(n->inputs[0]).dtype)) return integers(n->inputs[0]);
    if (n->op == Op::cast) return affine(n->inputs[0]);
    if (is_view_of_all(n->op)) {
      auto x = affine(n->inputs[0]);
      if (!x) return std::nullopt;
      x->ints = seen(*n, x->ints);
      if (x->scale) x->scale = seen(*n, *x->scale);
      if (x->offset) x->offset = seen(*n, *x->offset);
      return x;
    }
    if (!computes(n->op)) return std::nullopt;
    for (const size_t first : {0, 1}) {
      if (first == 1 && n->op == Op::sub) break;
      auto x = affine(n->inputs[first]);
      const auto by = x ? number(n->inputs[1 - first]) : std::nullopt;
      if (by) return n->op == Op::mul ? scaled(std::move(*x), *by) : shifted(std::move(*x), *by, n->op == Op::sub ? -1.0f : 1.0f);
    }
    return std::nullopt;
  }

  HostTensor held(ValueId v) const {
    const Value& x = g_.values[v];
    if (x.kind == ValueKind::constant) {
      const ConstData& c = g_.constants[x.constant];
      return {c.type.dtype, sizes_of(g_, v), {c.data, c.data + c.bytes}};
    }
    const Node& n = g_.nodes[x.node];
    std::vector<HostTensor> inputs;
    for (const ValueId i : n.inputs) inputs.push_back(held(i));
    std::vector<const HostTensor*> in;
    for (const HostTensor& t : inputs) in.push_back(&t);
    std::vector<HostTensor> results = interpret_node(g_, n, in);
    return std::move(results[static_cast<size_t>(std::find(n.outputs.begin(), n.outputs.end(), v) - n.outputs.begin())]);
  }

  /// Of the constant that it comes from.
  std::string name_of(ValueId v) const {
    while (g_.values[v].kind != ValueKind::constant && !g_.nodes[g_.values[v].node].inputs.empty())
      v = g_.nodes[g_.values[v].node].inputs[0];
    return g_.values[v].kind == ValueKind::constant ? g_.constants[g_.values[v].constant].name : "weight";
  }

 private:
  static Affine scaled(Affine x, const Floats& by) {
    const auto times = [](float a, float b) { return a * b; };
    x.scale = x.scale ? x.scale->with(by, times) : by;
    if (x.offset) x.offset = x.offset->with(by, times);
    return x;
  }
  static Affine shifted(Affine x, const Floats& by, float sign) {
    bool whole = !x.scale && !x.offset;
    by.each([&](float f) { whole = whole && std::fabs(f) <= 255 && f == std::nearbyint(f); });
    if (whole) {
      x.ints = x.ints.with(by, [&](int16_t i, float f) { return static_cast<int16_t>(static_cast<float>(i) + sign * f); });
    } else {
      const Floats zero = Floats::one(0, x.ints.dims);
      x.offset = (x.offset ? *x.offset : zero).with(by, [&](float a, float b) { return a + sign * b; });
    }
    return x;
  }

  /// Integers that fit a byte, as they are stored or computed from what is.
  std::optional<Affine> integers(ValueId v) const {
    const HostTensor t = held(v);
    std::vector<int64_t> wide(static_cast<size_t>(t.elems()));
    load_i64(t.dtype, t.bytes.data(), wide.data(), t.elems());
    std::vector<int16_t> ints(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      if (wide[i] < -128 || wide[i] > 255) return std::nullopt;
      ints[i] = static_cast<int16_t>(wide[i]);
    }
    return Affine{Strided<int16_t>::dense(std::move(ints), t.dims), {}, {}, name_of(v)};
  }

  std::optional<Floats> number(ValueId v) const {
    const Value& x = g_.values[v];
    if (const auto all = splat_value(g_, v)) return Floats::one(static_cast<float>(*all), sizes_of(g_, v));
    if (x.kind == ValueKind::constant) {
      const HostTensor t = held(v);
      std::vector<double> wide(static_cast<size_t>(t.elems()));
      if (is_float(t.dtype)) {
        load_f64(t.dtype, t.bytes.data(), wide.data(), t.elems());
      } else {
        std::vector<int64_t> ints(wide.size());
        load_i64(t.dtype, t.bytes.data(), ints.data(), t.elems());
        std::transform(ints.begin(), ints.end(), wide.begin(), [](int64_t i) { return static_cast<double>(i); });
      }
      return Floats::dense({wide.begin(), wide.end()}, t.dims);
    }
    const Node& n = g_.nodes[x.node];
    if (!is_view_of_all(n.op) && n.op != Op::expand && n.op != Op::cast) return std::nullopt;
    const auto from = number(n.inputs[0]);
    if (!from || n.op != Op::cast) return from ? std::optional(seen(n, *from)) : std::nullopt;
    const DType to = x.type.dtype;
    if (!is_float(to)) return std::nullopt;
    return from->with(*from, [&](float f, float) { return static_cast<float>(round_to(to, f)); });
  }

  template <class T>
  Strided<T> seen(const Node& n, const Strided<T>& x) const {
    const Ints to = sizes_of(g_, n.outputs[0]);
    if (n.op == Op::permute) return x.permuted(n.get<Ints>(Attr::perm));
    if (n.op == Op::reshape) return x.reshaped(to);
    if (n.op == Op::expand) return x.expanded(to);
    const auto dim = static_cast<size_t>(n.get<int64_t>(Attr::dim));
    return x.sliced(dim, *n.get<Expr>(Attr::start).as_const(), to[dim], n.get_or<int64_t>(Attr::step, 1));
  }

  const Graph& g_;
};

template <class T>
ConstData constant_of(std::string name, DType t, Exprs dims, std::vector<T> values) {
  auto data = std::make_shared<std::vector<T>>(std::move(values));
  const auto* bytes = reinterpret_cast<const std::byte*>(data->data());
  return {std::move(name), {t, std::move(dims)}, data, bytes, data->size() * sizeof(T)};
}

/// The most neighbouring values of k, in all columns alike, of which each has the scale and the offset of the first.
int64_t group_of(const Affine& w) {
  const int64_t n = w.ints.dims[0], k = w.ints.dims[1];
  int64_t group = 0;
  for (const auto& numbers : {w.scale, w.offset}) {
    if (!numbers || numbers->strides[1] == 0) continue;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 1; i < k; ++i) {
        const float* row = numbers->data->data() + numbers->start + j * numbers->strides[0];
        if ((group == 0 || i % group != 0) && row[i * numbers->strides[1]] != row[(i - 1) * numbers->strides[1]])
          group = std::gcd(group, i);
      }
  }
  return group == 0 ? k : group;
}

class Keeper {
 public:
  Keeper(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), fixed_(fixed_values(g)), widens_(widens_stored_bytes(g)) {}

  void run() {
    if (std::find(widens_.begin(), widens_.end(), true) == widens_.end()) return;
    for (const NodeId id : g_.order) {
      const Node n = g_.nodes[id];
      if (multiplies(g_, n, fixed_) && made_of_bytes(n.inputs[1])) {
        const auto [root, columns_first] = seen_weight(n);
        find(root, columns_first);
      } else if (looks_up(g_, n, fixed_) && made_of_bytes(n.inputs[0])) {
        find(n.inputs[0], true);
      }
    }
    Rewriter(g_).sweep([&](Rewriter& r, const Node& n) { return replacement(r.b, n); });
  }

 private:
  using Key = std::pair<ValueId, bool>;

  bool made_of_bytes(ValueId v) const {
    const Value& x = g_.values[v];
    return x.kind == ValueKind::node && idx(x.node) < widens_.size() && widens_[idx(x.node)];
  }
  /// What a product multiplies, seen as [n, k] (true) or as [k, n].
  Key seen_weight(const Node& n) const {
    const Node* p = g_.def(n.inputs[1]);
    return p && p->op == Op::permute ? Key{p->inputs[0], true} : Key{n.inputs[1], false};
  }

  void find(ValueId root, bool columns_first) {
    if (found_.count({root, columns_first})) return;
    std::optional<Affine> w = Reader(g_).affine(root);
    if (w && !columns_first)
      for (auto* part : {&w->scale, &w->offset})
        if (*part) *part = (*part)->permuted({1, 0});
    if (w && !columns_first) w->ints = w->ints.permuted({1, 0});
    const auto& as = found_[{root, columns_first}] = w ? stored(std::move(*w)) : std::nullopt;
    if (!as && !folded_.count(root) && *g_.type(root).bytes().as_const() <= ctx_.fold_limit_bytes) {
      const Reader read(g_);
      auto data = std::make_shared<std::vector<std::byte>>(read.held(root).bytes);
      const ConstData c = {read.name_of(root) + ".folded", g_.type(root), data, data->data(), data->size()};
      folded_.emplace(root, g_.add_constant(c));
    }
  }

  std::optional<ByteWeight> stored(Affine w) {
    ByteWeight s{w.ints.dims[0], w.ints.dims[1], 0, 0};
    s.group = group_of(w);
    if (s.group == 1 && s.k > 1) return std::nullopt;
    s.groups = (s.k + s.group - 1) / s.group;
    int least = std::numeric_limits<int>::max(), most = std::numeric_limits<int>::min();
    w.ints.each([&](int16_t i) { least = std::min<int>(least, i), most = std::max<int>(most, i); });
    // What four bits hold begins at 0; the rest are signed bytes.
    const bool four = most - least < 16 && ctx_.target.traits().weights_of_4_bits;
    if (most - least > 255) return std::nullopt;
    const int base = four ? least : least < -128 || most > 127 ? least + 128 : 0;
    std::vector<int8_t> values;
    values.reserve(static_cast<size_t>(w.ints.elems()));
    w.ints.each([&](int16_t i) { values.push_back(static_cast<int8_t>(i - base)); });
    if (base != 0) {
      const Floats more = (w.scale ? *w.scale : Floats::one(1, w.ints.dims)).with(Floats::one(0, w.ints.dims), [&](float a, float) {
        return a * static_cast<float>(base);
      });
      w.offset = w.offset ? w.offset->with(more, [](float a, float b) { return a + b; }) : more;
    }
    if (w.offset && !w.scale) w.scale = Floats::one(1, w.ints.dims);
    s.values = g_.add_constant(constant_of(w.name + ".values", DType::i8, {s.n, s.k}, std::move(values)));
    if (w.scale) s.scales = numbers(w.name + ".scales", *w.scale, s);
    if (w.offset) s.offsets = numbers(w.name + ".offsets", *w.offset, s, w.scale ? g_.type(s.scales).dtype : DType::f32);
    if (w.offset && g_.type(s.offsets).dtype != g_.type(s.scales).dtype) s.scales = numbers(w.name + ".scales", *w.scale, s, DType::f32);
    return s;
  }

  /// Of each group and column [groups, n]: in bfloat16 where that is exact and no `at_least` says otherwise.
  ValueId numbers(std::string name, const Floats& all, const ByteWeight& s, DType at_least = DType::bf16) {
    std::vector<float> floats;
    std::vector<uint16_t> halves;
    bool exact = at_least == DType::bf16;
    for (int64_t g = 0; g < s.groups; ++g)
      for (int64_t j = 0; j < s.n; ++j) {
        const auto at = static_cast<size_t>(all.start + j * all.strides[0] + g * s.group * all.strides[1]);
        floats.push_back((*all.data)[at]);
        halves.push_back(float_to_bfloat(floats.back()));
        exact = exact && bfloat_to_float(halves.back()) == floats.back();
      }
    const Exprs dims = {s.groups, s.n};
    return g_.add_constant(exact ? constant_of(std::move(name), DType::bf16, dims, std::move(halves))
                                 : constant_of(std::move(name), DType::f32, dims, std::move(floats)));
  }

  std::optional<ValueId> replacement(Builder& b, const Node& n) const {
    const auto weight = [&](const Key& key) {
      const auto it = found_.find(key);
      return it == found_.end() ? std::nullopt : it->second;
    };
    const auto folded = [&](ValueId root) {
      const auto it = folded_.find(root);
      return it == folded_.end() ? std::nullopt : std::optional(it->second);
    };
    if (n.op == Op::matmul) {
      const Key key = seen_weight(n);
      const auto w = weight(key);
      if (!w) {
        const auto all = folded(key.first);
        return all ? std::optional(b.matmul(n.inputs[0], key.second ? b.permute(*all, {1, 0}) : *all, g_.type(n.outputs[0]).dtype)) : all;
      }
      const DType in = g_.type(n.inputs[1]).dtype, to = g_.type(n.outputs[0]).dtype;
      const ValueId floats = b.permute(floats_of(b, *w), {1, 0});
      if (!ctx_.target.traits().float32_by_bytes) return b.matmul(n.inputs[0], b.cast(floats, in), to);
      return b.cast(b.matmul(b.cast(n.inputs[0], DType::f32), floats, DType::f32), to);
    }
    if (n.op != Op::index || n.inputs.size() != 2 || n.get<Ints>(Attr::dims) != Ints{0}) return std::nullopt;
    const auto w = weight({n.inputs[0], true});
    if (n.get_or<int64_t>(Attr::out_pos, 0) != 0) return std::nullopt;
    if (const auto all = folded(n.inputs[0]); all && !w) return b.index(*all, {n.inputs[1]}, {0}, 0);
    if (!w) return std::nullopt;
    return b.cast(picked_floats_of(b, *w, n.inputs[1]), g_.type(n.outputs[0]).dtype);
  }

  Graph& g_;
  PassContext& ctx_;
  const std::vector<bool> fixed_, widens_;
  std::map<Key, std::optional<ByteWeight>> found_;
  std::map<ValueId, ValueId> folded_;  ///< weights that are no integers with scales
};

}  // namespace

std::vector<bool> widens_stored_bytes(const Graph& g) {
  std::vector<bool> widens(g.nodes.size(), false);
  std::vector<int64_t> stored(g.values.size(), 0);  // bytes of the constants that a value is computed from
  const std::vector<bool> fixed = fixed_values(g);
  for (size_t i = 0; i < g.values.size(); ++i)
    if (const Value& v = g.values.raw()[i]; v.kind == ValueKind::constant) stored[i] = static_cast<int64_t>(g.constants[v.constant].bytes);
  const auto made = [&](ValueId v) {
    const Value& x = g.values[v];
    return x.kind == ValueKind::node && widens[idx(x.node)];
  };
  bool any = false;
  for (const NodeId id : g.order) {
    const Node& n = g.nodes[id];
    for (const ValueId v : n.inputs) stored[idx(n.outputs[0])] += stored[idx(v)];
    const ValueId out = n.outputs[0];
    const DType t = g.type(out).dtype;
    if (!fixed[idx(out)] || (t != DType::f32 && t != DType::bf16 && t != DType::f16)) continue;
    const auto elems = g.type(out).elems().as_const();
    if (!elems || *elems < kSmallest) continue;
    if (n.op == Op::cast && is_int(g.type(n.inputs[0]).dtype))
      widens[idx(id)] = stored[idx(n.inputs[0])] <= *elems;
    else if (is_view_of_all(n.op) || computes(n.op))
      for (const ValueId v : n.inputs) widens[idx(id)] = widens[idx(id)] || made(v);
    any = any || widens[idx(id)];
  }
  if (!any) return widens;
  const auto users = g.users();
  for (size_t i = g.order.size(); i-- > 0;) {
    const NodeId id = g.order[i];
    if (!widens[idx(id)]) continue;
    const ValueId v = g.nodes[id].outputs[0];
    bool read = !users[idx(v)].empty();
    for (const NodeId u : users[idx(v)]) {
      if (u == kNone<NodeId>) {
        read = false;
        continue;
      }
      const Node& n = g.nodes[u];
      read = read && (widens[idx(u)] || (multiplies(g, n, fixed) && n.inputs[1] == v) || (looks_up(g, n, fixed) && n.inputs[0] == v));
    }
    widens[idx(id)] = read;
  }
  return widens;
}

void stored_bytes(Graph& g, PassContext& ctx) { Keeper(g, ctx).run(); }

}  // namespace aotc::passes
