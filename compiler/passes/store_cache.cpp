
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "graph/builder.h"
#include "graph/interp_detail.h"
#include "graph/ops.h"
#include "passes/cache_storage.h"
#include "passes/passes.h"

namespace aotc::passes {
namespace {

constexpr double kCacheMostInt8 = 127, kCacheMostFloat8 = 448;

/// Bytes, and of int8 the scale of each row: its dims are those of the bytes but the last, which is 1.
struct StoredRows {
  ValueId values = kNone<ValueId>, scales = kNone<ValueId>;
};

/// Rows that are written: x with `values` at these indices of `dims`.
struct RowPut {
  ValueId x, values;
  std::vector<ValueId> at;
  Ints dims;
  int64_t out_pos;
};

class CacheStorer {
 public:
  CacheStorer(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), b_(g), users_(g.users()) {}

  void run() {
    find_caches();
    settle();
    report();
    for (auto& [state, c] : caches_)
      if (c.why.empty()) store(state, c);
    rewrite_attention();
    g_.compact();
  }

 private:
  struct Cache {
    std::set<ValueId> contents;  ///< what the state holds in the course of a run
    std::string why;             ///< it stays as it is
    std::vector<NodeId> reads;   ///< attention that reads it
    bool written = false;
  };

  // ---- which states
  bool row_is_kept(ValueId from, ValueId to) const {
    const Exprs &a = g_.type(from).dims, &b = g_.type(to).dims;
    return !a.empty() && !b.empty() && g_.syms.proves_eq(a.back(), b.back());
  }

  /// A write of whole rows, also one by places in flat memory (scatter).
  std::optional<RowPut> put_of(const Node& n) const {
    if (n.op == Op::index_put && !n.get_or<bool>(Attr::accumulate, false)) {
      RowPut p{n.inputs[0], n.inputs[1], {n.inputs.begin() + 2, n.inputs.end()}, n.get<Ints>(Attr::dims), n.get<int64_t>(Attr::out_pos)};
      return rows_of(p, g_.type(p.x).rank(), g_.type(p.values).rank()) ? std::optional(p) : std::nullopt;
    }
    // reshape(scatter(reshape(x), reshape(index(reshape(iota), at..)), reshape(values)))
    const Node* s = n.op == Op::reshape ? g_.def(n.inputs[0]) : nullptr;
    if (!s || s->op != Op::scatter || s->get<std::string>(Attr::reduce) != "none") return {};
    const ValueId x = through_reshape(s->inputs[0]), at = through_reshape(s->inputs[1]);
    const Node* places = g_.def(at);
    if (!places || places->op != Op::index || g_.type(x).dims != g_.type(n.outputs[0]).dims) return {};
    const Node* all = g_.def(through_reshape(places->inputs[0]));
    if (!all || all->op != Op::iota || g_.type(all->outputs[0]).rank() != 1 || g_.type(places->inputs[0]).dims != g_.type(x).dims)
      return {};
    RowPut p{x,
             s->inputs[2],
             {places->inputs.begin() + 1, places->inputs.end()},
             places->get<Ints>(Attr::dims),
             places->get<int64_t>(Attr::out_pos)};
    if (!rows_of(p, g_.type(x).rank(), g_.type(at).rank())) return {};
    flat_[n.outputs[0]] = g_.type(at).dims;
    return p;
  }
  ValueId through_reshape(ValueId v) const {
    while (g_.def(v) && g_.def(v)->op == Op::reshape) v = g_.def(v)->inputs[0];
    return v;
  }
  bool rows_of(const RowPut& p, int rank, int values_rank) const {
    const bool last = std::find(p.dims.begin(), p.dims.end(), rank - 1) != p.dims.end();
    return !last && p.out_pos + g_.type(p.at[0]).rank() < values_rank;
  }

  static bool is_view_of_rows(const Graph& g, const Node& n) {
    const int rank = g.type(n.inputs[0]).rank();
    switch (n.op) {
      case Op::reshape: return rank > 0 && g.type(n.outputs[0]).rank() > 0;
      case Op::expand: return rank > 0;
      case Op::permute: return rank > 0 && n.get<Ints>(Attr::perm).back() == rank - 1;
      case Op::slice: return n.get<int64_t>(Attr::dim) != rank - 1;
      case Op::index: {
        const Ints& dims = n.get<Ints>(Attr::dims);
        return std::find(dims.begin(), dims.end(), rank - 1) == dims.end() &&
               n.get<int64_t>(Attr::out_pos) + g.type(n.inputs[1]).rank() < g.type(n.outputs[0]).rank();
      }
      default: return false;
    }
  }

  void find_caches() {
    for (uint32_t i = 0; i < g_.states.size(); ++i) {
      const StateInfo& s = g_.states[static_cast<StateId>(i)];
      if (!is_float(s.type.dtype) || is_float8(s.type.dtype) || s.type.dtype == DType::f64 || s.type.rank() < 2) continue;
      Cache c;
      c.contents.insert(s.value);
      for (const NodeId id : g_.order) {
        const Node& n = g_.nodes[id];
        const auto p = n.outputs.size() == 1 ? put_of(n) : std::nullopt;
        if (p && c.contents.count(p->x)) c.contents.insert(n.outputs[0]);
      }
      c.written = s.updated != kNone<ValueId> && s.updated != s.value;
      const bool whole = c.written && !c.contents.count(s.updated);
      if (whole && depends_on(s.updated, c.contents)) refuse(c, "a run writes it otherwise than in whole rows along its last dimension");
      for (const ValueId v : std::set<ValueId>(c.contents)) follow(v, c, true);
      const bool wanted = std::find(ctx_.cache_names.begin(), ctx_.cache_names.end(), s.name) != ctx_.cache_names.end();
      const bool told = !c.reads.empty() || wanted || (!c.why.empty() && feeds_attention(c, s));
      if (!told || (c.reads.empty() && c.why.empty() && !c.written)) continue;
      if (!c.written && !wanted) refuse(c, "no run writes it");
      caches_.emplace(static_cast<StateId>(i), std::move(c));
    }
  }

  static void refuse(Cache& c, std::string why) {
    if (c.why.empty()) c.why = std::move(why);
  }

  bool depends_on(ValueId v, const std::set<ValueId>& on) const {
    std::set<ValueId> seen;
    std::vector<ValueId> work = {v};
    while (!work.empty()) {
      const ValueId at = work.back();
      work.pop_back();
      if (on.count(at)) return true;
      if (!seen.insert(at).second) continue;
      if (const Node* n = g_.def(at)) work.insert(work.end(), n->inputs.begin(), n->inputs.end());
    }
    return false;
  }

  /// Whether attention reads it through whatever views and writes.
  bool feeds_attention(const Cache& c, const StateInfo& s) const {
    std::set<ValueId> seen;
    std::vector<ValueId> work(c.contents.begin(), c.contents.end());
    if (c.written) work.push_back(s.updated);
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      if (!seen.insert(v).second || idx(v) >= users_.size()) continue;
      for (const NodeId id : users_[idx(v)]) {
        if (id == kNone<NodeId>) continue;
        const Node& n = g_.nodes[id];
        if (n.op == Op::attention) return true;
        const bool passes =
            op_class(n.op) == OpClass::view || n.op == Op::index || n.op == Op::index_put || n.op == Op::scatter || n.op == Op::cast;
        if (passes) work.insert(work.end(), n.outputs.begin(), n.outputs.end());
      }
    }
    return false;
  }

  /// What reads v, a content or rows of one.
  void follow(ValueId v, Cache& c, bool content) {
    for (const OutputInfo& o : g_.outputs)
      if (o.value == v) refuse(c, fmt::format("the output '{}' is read from it", o.name));
    for (const StateInfo& s : g_.states)
      if (s.updated == v && !c.contents.count(s.value)) refuse(c, fmt::format("the state '{}' is made of it", s.name));
    for (const NodeId id : users_[idx(v)]) {
      if (id == kNone<NodeId>) continue;
      const Node& n = g_.nodes[id];
      if (content && writes(n, v, c)) continue;
      if (n.op == Op::attention) {
        for (size_t i = 0; i < n.inputs.size(); ++i)
          if (n.inputs[i] == v && i != 1 && i != 2) refuse(c, fmt::format("'{}' reads it as something else than keys or values", n.name));
        c.reads.push_back(id);
      } else if (n.inputs[0] == v && is_view_of_rows(g_, n) && row_is_kept(v, n.outputs[0])) {
        follow(n.outputs[0], c, false);
      } else {
        refuse(c, fmt::format("'{}' reads it, which is no attention and no view of whole rows", n.name.empty() ? op_name(n.op) : n.name));
      }
    }
  }

  /// Whether n is (part of) a write of rows to v.
  bool writes(const Node& n, ValueId v, const Cache& c) const {
    if (n.op == Op::index_put) return n.inputs[0] == v && n.inputs[1] != v && c.contents.count(n.outputs[0]);
    if (n.op != Op::reshape) return false;
    const auto only_user = [&](ValueId x) { return users_[idx(x)].size() == 1 ? users_[idx(x)][0] : kNone<NodeId>; };
    const NodeId s = only_user(n.outputs[0]);
    if (s == kNone<NodeId> || g_.nodes[s].op != Op::scatter || g_.nodes[s].inputs[0] != n.outputs[0]) return false;
    const NodeId r = only_user(g_.nodes[s].outputs[0]);
    return r != kNone<NodeId> && c.contents.count(g_.nodes[r].outputs[0]);
  }

  /// Attention reads keys and values of one type: where one stays as it is the other does, too.
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (auto& [state, c] : caches_) {
        if (!c.why.empty()) continue;
        for (const NodeId id : c.reads) {
          const Node& n = g_.nodes[id];
          for (const size_t i : {size_t{1}, size_t{2}}) {
            const auto of = root(n.inputs[i]);
            const auto other = of ? caches_.find(*of) : caches_.end();
            if (other == caches_.end())
              refuse(c, fmt::format("the {} that '{}' reads beside it are no such state", i == 1 ? "keys" : "values", n.name));
            else if (!other->second.why.empty())
              refuse(c, fmt::format("'{}' reads the state '{}' beside it, which stays as it is", n.name, g_.states[other->first].name));
          }
          again = again || !c.why.empty();
        }
      }
    }
  }

  /// The state of which v is rows.
  std::optional<StateId> root(ValueId v) const {
    for (;;) {
      for (const auto& [state, c] : caches_)
        if (c.contents.count(v)) return state;
      const Node* n = g_.def(v);
      if (!n || !is_view_of_rows(g_, *n)) return {};
      v = n->inputs[0];
    }
  }

  void report() {
    if (!ctx_.stored_caches) return;
    StoredCaches& r = *ctx_.stored_caches;
    r = {ctx_.cache, {}, {}};
    for (const auto& [state, c] : caches_) {
      const StateInfo& s = g_.states[state];
      if (!c.why.empty()) {
        r.left.push_back({s.name, c.why});
        continue;
      }
      const int64_t elems = *s.type.elems().as_const(), rows = elems / std::max<int64_t>(1, *s.type.dims.back().as_const());
      r.caches.push_back({s.name, s.type.dtype, elems + (scaled() ? 4 * rows : 0), elems * dtype_bytes(s.type.dtype)});
    }
  }

  // ---- rewriting
  bool scaled() const { return ctx_.cache == CacheStorage::int8; }
  DType bytes_type() const { return scaled() ? DType::i8 : DType::f8e4m3fn; }
  static Exprs of_scales(Exprs dims) {
    dims.back() = 1;
    return dims;
  }

  StoredRows rounded(ValueId x) {
    if (const auto it = rounded_.find(x); it != rounded_.end()) return it->second;
    const Exprs dims = g_.type(x).dims;
    const ValueId f = b_.cast(x, DType::f32);
    const auto held = [&](ValueId v, double most) {
      return b_.binary(Op::minimum, b_.binary(Op::maximum, v, b_.like(v, -most)), b_.like(v, most));
    };
    if (!scaled()) return rounded_[x] = {b_.cast(held(f, kCacheMostFloat8), DType::f8e4m3fn), kNone<ValueId>};
    const ValueId top = b_.reduce_keep(ReduceKind::max, b_.unary(Op::abs, f), {static_cast<int64_t>(dims.size()) - 1});
    const ValueId scale = b_.binary_scalar(Op::div, top, kCacheMostInt8);
    const ValueId by = b_.where(b_.binary(Op::gt, scale, b_.like(scale, 0)), scale, b_.like(scale, 1));
    const ValueId q = b_.unary(Op::round, b_.binary(Op::div, f, b_.expand(by, dims)));
    return rounded_[x] = {b_.cast(held(q, kCacheMostInt8), DType::i8), scale};
  }

  /// A value that the state holds, in bytes.
  StoredRows content(ValueId v, const Cache& c) {
    if (const auto it = contents_.find(v); it != contents_.end()) return it->second;
    const Node n = *g_.def(v);
    const RowPut p = *put_of(n);
    const StoredRows x = content(p.x, c);
    b_.at(n.name, n.source);
    const StoredRows values = rounded(flat_.count(v) ? b_.reshape(p.values, flat_.at(v)) : p.values);
    const auto put = [&](ValueId to, ValueId of) {
      std::vector<ValueId> inputs = {to, of};
      inputs.insert(inputs.end(), p.at.begin(), p.at.end());
      return b_.make1(Op::index_put, std::move(inputs), {{Attr::dims, p.dims}, {Attr::out_pos, p.out_pos}, {Attr::accumulate, false}});
    };
    return contents_[v] = {put(x.values, values.values), scaled() ? put(x.scales, values.scales) : kNone<ValueId>};
  }

  void store(StateId state, const Cache& c) {
    const StateInfo before = g_.states[state];
    const Exprs dims = before.type.dims;
    ConstId first = kNone<ConstId>, first_scales = kNone<ConstId>;
    if (before.initial != kNone<ConstId>) initial(g_.constants[before.initial], first, first_scales);
    // The state keeps its place; what it held becomes a value of another type.
    const ValueId values = fresh_state(state, {bytes_type(), dims}, first);
    StoredRows s{values, kNone<ValueId>};
    if (scaled()) s.scales = g_.add_state(scales_name(before.name), {DType::f32, of_scales(dims)}, first_scales);
    contents_[before.value] = s;
    if (!c.written) return;
    StoredRows end;
    if (c.contents.count(before.updated)) {
      end = content(before.updated, c);
    } else {
      if (const Node* n = g_.def(before.updated)) b_.at(n->name, n->source);
      end = rounded(before.updated);
    }
    g_.states[state].updated = end.values;
    if (scaled()) g_.states[g_.values[s.scales].state].updated = end.scales;
  }

  ValueId fresh_state(StateId state, TensorType t, ConstId first) {
    StateInfo& s = g_.states[state];
    Value v = g_.values[s.value];
    g_.values[s.value].name.clear();  // what still reads it is dead once attention reads the new one
    v.type = t;
    s.type = std::move(t), s.initial = first;
    return s.value = g_.values.push(std::move(v));
  }

  void initial(const ConstData& from, ConstId& bytes, ConstId& scales) {
    const std::vector<double> x = numbers(from);
    const size_t row = static_cast<size_t>(std::max<int64_t>(1, *from.type.dims.back().as_const()));
    if (std::all_of(x.begin(), x.end(), [](double v) { return v == 0; })) return;  // zeros are rounded to zeros
    std::vector<double> q(x.size()), s(x.size() / row);
    for (size_t i = 0; i < x.size(); i += row) {
      float top = 0;
      for (size_t j = i; j < i + row; ++j) top = std::max(top, std::abs(static_cast<float>(x[j])));
      const float scale = top / static_cast<float>(kCacheMostInt8);
      s[i / row] = scale;
      for (size_t j = i; j < i + row; ++j)
        q[j] = scaled() ? std::nearbyint(static_cast<float>(x[j]) / (scale > 0 ? scale : 1.0f))
                        : std::clamp(x[j], -kCacheMostFloat8, kCacheMostFloat8);
    }
    bytes = add(from.name, bytes_type(), from.type.dims, q);
    if (scaled()) scales = add(scales_name(from.name), DType::f32, of_scales(from.type.dims), s);
  }
  static std::vector<int64_t> host_dims(const Exprs& dims) {
    std::vector<int64_t> d;
    for (const Expr& e : dims) d.push_back(*e.as_const());
    return d;
  }
  static std::vector<double> numbers(const ConstData& c) {
    return interp::as_f64({c.type.dtype, host_dims(c.type.dims), {c.data, c.data + c.bytes}});
  }
  ConstId add(const std::string& name, DType t, const Exprs& dims, const std::vector<double>& numbers) {
    HostTensor x{t, host_dims(dims), {}};
    x.bytes.resize(numbers.size() * static_cast<size_t>(dtype_bytes(t)));
    if (is_float(t)) {
      interp::set_f64(x, numbers);
    } else {
      for (size_t i = 0; i < numbers.size(); ++i) x.bytes[i] = static_cast<std::byte>(static_cast<int8_t>(numbers[i]));
    }
    const auto data = std::make_shared<std::vector<std::byte>>(std::move(x.bytes));
    return g_.constants.push({name, {t, dims}, data, data->data(), data->size()});
  }

  /// Rows v of a state as bytes: the same views of these.
  StoredRows viewed(ValueId v) {
    if (const auto it = contents_.find(v); it != contents_.end()) return it->second;
    if (const auto c = root(v); c && caches_.at(*c).contents.count(v)) return content(v, caches_.at(*c));
    const Node n = *g_.def(v);
    const StoredRows x = viewed(n.inputs[0]);
    const Exprs dims = g_.type(v).dims;
    b_.at(n.name, n.source);
    const auto same = [&](ValueId of, bool scales) {
      if (n.op == Op::reshape || n.op == Op::expand) {
        const Exprs to = scales ? of_scales(dims) : dims;
        return n.op == Op::reshape ? b_.reshape(of, to) : b_.expand(of, to);
      }
      if (n.op == Op::slice)
        return b_.slice(of, static_cast<int>(n.get<int64_t>(Attr::dim)), n.get<Expr>(Attr::start),
                        dims[static_cast<size_t>(n.get<int64_t>(Attr::dim))], n.get<int64_t>(Attr::step));
      std::vector<ValueId> inputs = n.inputs;
      inputs[0] = of;
      return b_.make1(n.op, std::move(inputs), n.attrs);
    };
    return contents_[v] = {same(x.values, false), scaled() ? same(x.scales, true) : kNone<ValueId>};
  }

  void rewrite_attention() {
    std::set<NodeId> reads;
    for (const auto& [state, c] : caches_)
      if (c.why.empty()) reads.insert(c.reads.begin(), c.reads.end());
    for (const NodeId id : reads) {
      const Node n = g_.nodes[id];
      const StoredRows k = viewed(n.inputs[1]), v = viewed(n.inputs[2]);
      std::vector<ValueId> inputs = n.inputs;
      inputs[1] = k.values, inputs[2] = v.values;
      if (scaled()) inputs.insert(inputs.end(), {k.scales, v.scales});
      b_.at(n.name, n.source);
      const ValueId y = b_.make1(Op::attention, std::move(inputs), n.attrs);
      g_.replace_all_uses(n.outputs[0], y);
    }
  }

  Graph& g_;
  PassContext& ctx_;
  Builder b_;
  const std::vector<std::vector<NodeId>> users_;
  std::map<StateId, Cache> caches_;
  mutable std::map<ValueId, Exprs> flat_;  ///< of writes by places in flat memory: the dims of their rows
  std::map<ValueId, StoredRows> contents_, rounded_;
};

}  // namespace

/// Where PassContext::cache says so: states of floats that attention alone reads, as keys or values through views and lookups of whole rows
/// (along the last dim), and that are written by rows or as a whole, become states of bytes (cache_storage.h). What is written is rounded
/// there; attention reads the bytes and multiplies by the scales. Requires fused attention; precisions come later.
void store_cache(Graph& g, PassContext& ctx) {
  if (ctx.cache != CacheStorage::as_is) CacheStorer(g, ctx).run();
}

}  // namespace aotc::passes
