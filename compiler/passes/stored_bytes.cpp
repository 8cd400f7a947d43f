#include "passes/stored_bytes.h"

#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/uarch.h"
#include "graph/constant_store.h"
#include "graph/interp.h"
#include "graph/scalar.h"
#include "passes/byte_weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/strided.h"

namespace aotc::passes {
namespace {

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
  Strided<int16_t> ints;  ///< float8: the bits of float8_e4m3fn
  std::optional<Floats> scale, offset;
  std::string name;
  bool float8 = false;
  /// Whether the program computes float32(ints * scale) + offset, and rounds nothing but the whole: then to `rounded`.
  bool exact = true;
  std::optional<DType> rounded = {};
};
constexpr int kExactHalves = 256;  ///< integers up to here are numbers of every type of 16 bits

/// Reads what constants make of integers.
class Reader {
 public:
  explicit Reader(const Graph& g) : g_(g) {}

  std::optional<Affine> affine(ValueId v) const {
    const Node* n = g_.def(v);
    if (!n) return std::nullopt;
    const DType type = g_.type(v).dtype;
    if (n->op == Op::cast && is_int(g_.type(n->inputs[0]).dtype)) return integers(n->inputs[0]);
    if (n->op == Op::cast && g_.type(n->inputs[0]).dtype == DType::f8e4m3fn) return floats(n->inputs[0]);
    if (n->op == Op::cast) {
      auto x = affine(n->inputs[0]);
      return x ? std::optional(rounded(std::move(*x), type)) : std::nullopt;
    }
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
      if (by)
        return rounded(n->op == Op::mul ? scaled(std::move(*x), *by) : shifted(std::move(*x), *by, n->op == Op::sub ? -1.0f : 1.0f), type);
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
  static Affine rounded(Affine x, DType to) {
    if (!is_half(to) || (!x.scale && !x.offset)) return x;
    x.exact = x.exact && (!x.rounded || x.rounded == to);
    x.rounded = to;
    return x;
  }
  static Affine scaled(Affine x, const Floats& by) {
    x.exact = x.exact && !x.rounded && !x.scale && !x.offset;
    const auto times = [](float a, float b) { return a * b; };
    x.scale = x.scale ? x.scale->with(by, times) : by;
    if (x.offset) x.offset = x.offset->with(by, times);
    return x;
  }
  static Affine shifted(Affine x, const Floats& by, float sign) {
    bool whole = !x.scale && !x.offset && !x.float8;
    by.each([&](float f) { whole = whole && std::fabs(f) <= 255 && f == std::nearbyint(f); });
    if (whole) {
      x.ints = x.ints.with(by, [&](int16_t i, float f) { return static_cast<int16_t>(static_cast<float>(i) + sign * f); });
      x.ints.each([&](int16_t i) { x.exact = x.exact && std::abs(i) <= kExactHalves; });
    } else {
      x.exact = x.exact && !x.rounded && !x.offset;
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
  std::optional<Affine> floats(ValueId v) const {
    const HostTensor t = held(v);
    const auto* bits = reinterpret_cast<const uint8_t*>(t.bytes.data());
    Affine x{Strided<int16_t>::dense({bits, bits + t.bytes.size()}, t.dims), {}, {}, name_of(v)};
    x.float8 = true;
    return x;
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
  Keeper(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), fixed_(fixed_values(g)), widens_(widens_stored_bytes(g, ctx.target)) {}

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
    const auto& as = found_[{root, columns_first}] = w ? stored(*w, root, columns_first) : std::nullopt;
    if (!as && !folded_.count(root) && *g_.type(root).bytes().as_const() <= ctx_.fold_limit_bytes) {
      const Reader read(g_);
      auto data = std::make_shared<std::vector<std::byte>>(read.held(root).bytes);
      const ConstData c = {read.name_of(root) + ".folded", g_.type(root), data, data->data(), data->size()};
      folded_.emplace(root, g_.add_constant(c));
    }
  }

  std::optional<ByteWeight> stored(const Affine& w, ValueId root, bool columns_first) {
    ByteWeight s{w.ints.dims[0], w.ints.dims[1], 0, 0};
    s.by_column = ctx_.target.traits().scales_by_column;
    s.group = group_of(w);
    if ((s.group == 1 && s.k > 1) || (w.float8 && w.offset)) return std::nullopt;
    s.groups = (s.k + s.group - 1) / s.group;
    for (const Bytes& as : ways(w))
      if (const auto found = stored_as(w, as, s, root, columns_first)) return found;
    return std::nullopt;
  }

  /// How the values are stored: without `base`, as this type.
  struct Bytes {
    int base;
    DType type;
  };
  /// The fewest bits first. Products of CPUs are as exact in all ways.
  std::vector<Bytes> ways(const Affine& w) const {
    if (w.float8) return {{0, DType::f8e4m3fn}};
    const bool exactly = !ctx_.target.traits().float32_by_bytes;
    int least = std::numeric_limits<int>::max(), most = std::numeric_limits<int>::min();
    w.ints.each([&](int16_t i) { least = std::min<int>(least, i), most = std::max<int>(most, i); });
    if (most - least > 255) return {};
    std::vector<Bytes> all;
    // What four bits hold begins at 0. A power of two times a scale has the scale's bits.
    if (most - least < 16 && ctx_.target.traits().weights_of_4_bits)
      all.push_back({exactly && least >= 0 && most < 16 ? 0 : exactly && least >= -8 && most < 8 ? -8 : least, DType::i8});
    if (all.empty() || exactly) all.push_back({least < -128 || most > 127 ? least + 128 : 0, DType::i8});
    if (exactly && least >= 0 && most > 127) all.push_back({0, DType::u8});
    return all;
  }

  std::optional<ByteWeight> stored_as(Affine w, const Bytes& as, ByteWeight s, ValueId root, bool columns_first) {
    const bool exactly = !ctx_.target.traits().float32_by_bytes;
    const DType half = half_of(g_.type(root).dtype);
    std::vector<int8_t> values;
    values.reserve(static_cast<size_t>(w.ints.elems()));
    w.ints.each([&](int16_t i) { values.push_back(static_cast<int8_t>(i - as.base)); });
    if (as.base != 0) {
      const Floats more = (w.scale ? *w.scale : Floats::one(1, w.ints.dims)).with(Floats::one(0, w.ints.dims), [&](float a, float) {
        return a * static_cast<float>(as.base);
      });
      // i * scale is (i - base) * scale + base * scale where float32 holds all of these.
      w.exact = w.exact && !w.offset && (!w.scale || in_halves(*w.scale, half));
      w.offset = w.offset ? w.offset->with(more, [](float a, float b) { return a + b; }) : more;
    }
    if ((w.offset || exactly) && !w.scale) w.scale = Floats::one(1, w.ints.dims);  // products of GPUs know weights with scales
    if (exactly && !is_same(w, values, as.type, root, columns_first)) return std::nullopt;
    s.values = g_.add_constant(constant_of(w.name + ".values", as.type, {s.n, s.k}, std::move(values)));
    const bool halves = (!w.scale || in_halves(*w.scale, half)) && (!w.offset || in_halves(*w.offset, half));
    if (w.scale) s.scales = numbers(w.name + ".scales", *w.scale, s, halves ? half : DType::f32);
    if (w.offset) s.offsets = numbers(w.name + ".offsets", *w.offset, s, halves ? half : DType::f32);
    return s;
  }

  /// Whether values * scale + offset, rounded to the type of the weight, is that weight.
  bool is_same(const Affine& w, const std::vector<int8_t>& values, DType as, ValueId root, bool columns_first) const {
    const DType type = g_.type(root).dtype;
    if (w.exact && (type == DType::f32 || w.rounded == type)) return true;
    const HostTensor t = Reader(g_).held(root);
    std::vector<double> wide(static_cast<size_t>(t.elems()));
    load_f64(t.dtype, t.bytes.data(), wide.data(), t.elems());
    auto want = Strided<float>::dense({wide.begin(), wide.end()}, t.dims);
    if (!columns_first) want = want.permuted({1, 0});
    const auto is = Strided<int8_t>::dense(values, w.ints.dims);
    Floats got = is.with(*w.scale, [&](int8_t v, float s) {
      if (as == DType::f8e4m3fn) return e4m3fn_to_float(static_cast<uint8_t>(v)) * s;
      return static_cast<float>(as == DType::u8 ? static_cast<uint8_t>(v) : v) * s;
    });
    if (w.offset) got = got.with(*w.offset, [](float a, float b) { return a + b; });
    bool same = true;
    got.with(want, [&](float a, float b) {
      same = same && static_cast<float>(round_to(type, a)) == b;
      return 0;
    });
    return same;
  }

  /// In which 16 bits scales may be: those of CPUs in bfloat16.
  DType half_of(DType t) const { return is_half(t) && !ctx_.target.traits().float32_by_bytes ? t : DType::bf16; }
  static bool in_halves(const Floats& all, DType t) {
    bool exact = true;
    all.each([&](float f) { exact = exact && static_cast<float>(round_to(t, f)) == f; });
    return exact;
  }

  /// Of each group and column [groups, n], or [n, groups].
  ValueId numbers(std::string name, const Floats& all, const ByteWeight& s, DType type) {
    std::vector<float> floats;
    std::vector<uint16_t> halves;
    for (int64_t x = 0; x < s.groups * s.n; ++x) {
      const int64_t g = s.by_column ? x % s.groups : x / s.n, j = s.by_column ? x / s.groups : x % s.n;
      floats.push_back((*all.data)[static_cast<size_t>(all.start + j * all.strides[0] + g * s.group * all.strides[1])]);
      halves.push_back(type == DType::f16 ? float_to_half(floats.back()) : float_to_bfloat(floats.back()));
    }
    const Exprs dims = s.by_column ? Exprs{s.n, s.groups} : Exprs{s.groups, s.n};
    return g_.add_constant(type == DType::f32 ? constant_of(std::move(name), type, dims, std::move(floats))
                                              : constant_of(std::move(name), type, dims, std::move(halves)));
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
      const ValueId floats = floats_of(b, *w);
      if (!ctx_.target.traits().float32_by_bytes) return b.matmul(n.inputs[0], b.permute(b.cast(floats, in), {1, 0}), to);
      return b.cast(b.matmul(b.cast(n.inputs[0], DType::f32), b.permute(floats, {1, 0}), DType::f32), to);
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

std::vector<bool> widens_stored_bytes(const Graph& g, const Target& target) {
  const bool float8 = target.traits().weights_of_float8;
  const int64_t smallest = uarch_of(target).small_weight;
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
    if (!elems || *elems < smallest) continue;
    if (n.op == Op::cast && (is_int(g.type(n.inputs[0]).dtype) || (float8 && g.type(n.inputs[0]).dtype == DType::f8e4m3fn)))
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

/// Products and lookups of such weights read them as passes/byte_weight.h says: products of CPUs in float32, whose weights are not rounded
/// then; those of GPUs in the program's type, whose weights are the same numbers. A weight that no scales of groups describe is folded.
/// Requires folded constants; nothing may fold them afterwards.
void stored_bytes(Graph& g, PassContext& ctx) { Keeper(g, ctx).run(); }

}  // namespace aotc::passes
