#include "graph/interp.h"

#include <algorithm>

#include "graph/constant_store.h"
#include "graph/guard.h"
#include "graph/interp_detail.h"
#include "graph/op_table.h"
#include "graph/scalar.h"

namespace aotc {
namespace interp {

std::vector<double> as_f64(const HostTensor& t) {
  std::vector<double> v(t.elems());
  load_f64(t.dtype, t.bytes.data(), v.data(), t.elems());
  return v;
}
std::vector<int64_t> as_i64(const HostTensor& t) {
  std::vector<int64_t> v(t.elems());
  load_i64(t.dtype, t.bytes.data(), v.data(), t.elems());
  return v;
}
void set_f64(HostTensor& t, const std::vector<double>& v) { store_f64(t.dtype, v.data(), t.bytes.data(), t.elems()); }
void set_i64(HostTensor& t, const std::vector<int64_t>& v) { store_i64(t.dtype, v.data(), t.bytes.data(), t.elems()); }

int64_t count_of(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& dims) {
  std::vector<int64_t> s(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
  return s;
}

bool next_point(std::vector<int64_t>& at, const std::vector<int64_t>& dims) {
  for (size_t d = dims.size(); d-- > 0;) {
    if (++at[d] < dims[d]) return true;
    at[d] = 0;
  }
  return false;
}

namespace {

/// What fails is the run: the value says so.
void check(Eval& e) { e.out[0].bytes = e.in[0]->bytes; }
void custom(Eval& e) { AOTC_CHECK(false, "{} is the user's own: not interpreted", e.n.name); }

void run(Eval& e) {
  switch (op_class(e.n.op)) {
    case OpClass::nullary: return nullary(e);
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary: return pointwise(e);
    case OpClass::view:
    case OpClass::cat: return view(e);
    case OpClass::reduce: return reduce(e);
    case OpClass::scan: return scan(e);
    case OpClass::index:
    case OpClass::contraction:
    case OpClass::opaque: break;
  }
  struct Row {
    Op op;
    void (*fn)(Eval&);
  };
  static constexpr Row kRows[] = {
      {Op::index, index},
      {Op::gather, gather},
      {Op::scatter, scatter},
      {Op::index_put, index_put},
      {Op::add_rows, add_rows},
      {Op::sort, sort},
      {Op::topk, sort},
      {Op::matmul, matmul},
      {Op::grouped_matmul, grouped_matmul},
      {Op::conv, conv},
      {Op::conv_transpose, conv},
      {Op::attention, attention},
      {Op::check, check},
      {Op::recurrence, recurrence},
      {Op::cholesky, cholesky},
      {Op::exclude, exclude},
      {Op::lu, lu},
      {Op::qr, qr},
      {Op::svd, svd},
      {Op::solve_triangular, solve_triangular},
      {Op::fourier, fourier},
      {Op::custom, custom},
  };
  static_assert(Fits<misfit(kRows, {OpClass::index, OpClass::contraction, OpClass::opaque})>::value);
  row_of(kRows, e.n.op).fn(e);
}

HostTensor allocate(DType t, std::vector<int64_t> dims, bool f64) {
  HostTensor h{f64 && is_float(t) ? DType::f64 : t, std::move(dims), {}};
  h.bytes.resize(h.elems() * dtype_bytes(h.dtype));
  return h;
}

HostTensor widened(HostTensor t, bool f64) {
  if (!f64 || !is_float(t.dtype) || t.dtype == DType::f64) return t;
  HostTensor w = allocate(t.dtype, t.dims, true);
  load_f64(t.dtype, t.bytes.data(), reinterpret_cast<double*>(w.bytes.data()), t.elems());
  return w;
}

HostTensor constant(const ConstData& c) {
  AOTC_CHECK(has_data(c), "the data of constant {} are not known", c.name);
  HostTensor h{c.type.dtype, {}, {c.data, c.data + c.bytes}};
  for (const Expr& d : c.type.dims) h.dims.push_back(*d.as_const());
  return h;
}

HostTensor zeros(const TensorType& t, bool f64) {
  std::vector<int64_t> dims;
  for (const Expr& d : t.dims) dims.push_back(*d.as_const());
  return allocate(t.dtype, std::move(dims), f64);
}

/// Values of the shape symbols, read off the inputs' dims.
class Symbols {
 public:
  Symbols(const Graph& g, const std::vector<HostTensor>& inputs) : g_(g), value_(g.syms.size()) {
    bool again = true;
    while (again) {
      again = false;
      for (size_t i = 0; i < inputs.size(); ++i)
        for (size_t d = 0; d < inputs[i].dims.size(); ++d) again |= bind(g.type(g.inputs[i].value).dims[d], inputs[i].dims[d]);
    }
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t d = 0; d < inputs[i].dims.size(); ++d) {
        const Expr& e = g.type(g.inputs[i].value).dims[d];
        if (eval(e) != inputs[i].dims[d])
          throw Diagnostic({}, fmt::format("input {}: dim {} is {}, {} expected", g.inputs[i].name, d, inputs[i].dims[d], e.str(g.syms)));
      }
    for (const ShapeGuard& q : g.guards)
      if (!guard_holds(q, [this](SymId s) { return value_[idx(s)]; }))
        throw Diagnostic({}, fmt::format("shape guard fails: {}: {}", guard_text(q, g.syms), q.why));
  }
  int64_t operator()(SymId s) const {
    AOTC_CHECK(idx(s) < value_.size() && value_[idx(s)], "symbol {} is not bound by an input", g_.syms[s].name);
    return *value_[idx(s)];
  }
  int64_t eval(const Expr& e) const {
    return e.eval([this](SymId s) { return (*this)(s); });
  }

 private:
  /// Solves dim == value for its only unknown symbol, where it is linear in it. True when something was learned.
  bool bind(const Expr& dim, int64_t value) {
    std::optional<SymId> unknown;
    for (SymId s : dim.symbols()) {
      if (value_[idx(s)]) continue;
      if (unknown) return false;
      unknown = s;
    }
    if (!unknown) return false;
    const auto slope = dim.linear_coefficient(*unknown);
    if (!slope) return false;
    const int64_t by = eval(*slope), at0 = eval(dim.substitute({{*unknown, Expr(0)}}));
    if (by == 0 || (value - at0) % by != 0) return false;
    value_[idx(*unknown)] = (value - at0) / by;
    return true;
  }
  const Graph& g_;
  std::vector<std::optional<int64_t>> value_;
};

}  // namespace
}  // namespace interp

using interp::Eval;

std::vector<HostTensor> interpret(const Graph& g, const std::vector<HostTensor>& inputs, const InterpOptions& options) {
  AOTC_CHECK(inputs.size() == g.inputs.size(), "{} inputs given, {} expected", inputs.size(), g.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& t = g.type(g.inputs[i].value);
    AOTC_CHECK(inputs[i].dtype == t.dtype || (options.f64 && inputs[i].dtype == DType::f64), "input {} is {}", g.inputs[i].name,
               dtype_name(inputs[i].dtype));
    AOTC_CHECK(static_cast<int>(inputs[i].dims.size()) == t.rank(), "input {} is of rank {}", g.inputs[i].name, inputs[i].dims.size());
  }
  const interp::Symbols symbols(g, inputs);
  std::vector<size_t> uses(g.values.size(), 0);
  for (NodeId id : g.order)
    for (ValueId v : g.nodes[id].inputs) ++uses[idx(v)];
  for (const OutputInfo& o : g.outputs) ++uses[idx(o.value)];
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) ++uses[idx(s.updated)];

  std::vector<std::optional<HostTensor>> live(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) live[idx(g.inputs[i].value)] = interp::widened(inputs[i], options.f64);
  auto value = [&](ValueId v) -> HostTensor& {
    std::optional<HostTensor>& slot = live[idx(v)];
    if (!slot) {
      const Value& x = g.values[v];
      AOTC_CHECK(x.kind == ValueKind::constant || x.kind == ValueKind::state, "value {} is not computed yet", idx(v));
      const ConstId c = x.kind == ValueKind::constant ? x.constant : g.states[x.state].initial;
      slot = c == kNone<ConstId> ? interp::zeros(x.type, options.f64) : interp::widened(interp::constant(g.constants[c]), options.f64);
    }
    return *slot;
  };

  for (NodeId id : g.order) {
    const Node& n = g.nodes[id];
    if (n.dead) continue;
    Eval e{g, n, {}, {}, symbols, options.f64};
    for (ValueId v : n.inputs) value(v);
    for (ValueId v : n.inputs) e.in.push_back(&value(v));
    for (ValueId v : n.outputs) {
      std::vector<int64_t> dims;
      for (const Expr& d : g.type(v).dims) dims.push_back(symbols.eval(d));
      e.out.push_back(interp::allocate(g.type(v).dtype, std::move(dims), options.f64));
    }
    interp::run(e);
    for (size_t i = 0; i < n.outputs.size(); ++i)
      if (uses[idx(n.outputs[i])]) live[idx(n.outputs[i])] = std::move(e.out[i]);
    for (ValueId v : n.inputs)
      if (--uses[idx(v)] == 0) live[idx(v)].reset();
  }
  std::vector<HostTensor> results;
  for (const OutputInfo& o : g.outputs) results.push_back(value(o.value));
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) results.push_back(value(s.updated));
  return results;
}

std::vector<HostTensor> found_results(const Graph& g, const std::vector<HostTensor>& inputs, std::vector<HostTensor> outputs) {
  const interp::Symbols symbols(g, inputs);
  std::map<SymId, int64_t> found;
  for (size_t i = 0; i < g.outputs.size(); ++i) {
    const OutputInfo& o = g.outputs[i];
    if (o.role == OutputRole::check && interp::as_i64(outputs.at(i)).at(0) == 0) throw Diagnostic(ExitCode::failed, {}, o.name);
    if (o.role == OutputRole::size) found.emplace(g.syms.find(o.name).value(), interp::as_i64(outputs.at(i)).at(0));
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (i < g.outputs.size() && g.outputs[i].role != OutputRole::result) continue;
    if (i >= g.outputs.size() || g.outputs[i].found.empty()) {
      results.push_back(std::move(outputs[i]));
      continue;
    }
    std::vector<int64_t> dims;
    for (const Expr& d : g.outputs[i].found)
      dims.push_back(d.eval([&](SymId s) {
        const auto it = found.find(s);
        return it == found.end() ? symbols(s) : it->second;
      }));
    results.push_back(beginning(outputs[i], dims));
  }
  return results;
}

std::vector<HostTensor> interpret_node(const Graph& g, const Node& n, const std::vector<const HostTensor*>& inputs) {
  Eval e{g, n, inputs, {}, [](SymId) -> int64_t { AOTC_CHECK(false, "a symbolic size in a constant node"); }, false};
  for (ValueId v : n.outputs) {
    std::vector<int64_t> dims;
    for (const Expr& d : g.type(v).dims) dims.push_back(e.eval(d));
    e.out.push_back(interp::allocate(g.type(v).dtype, std::move(dims), false));
  }
  interp::run(e);
  return std::move(e.out);
}

}  // namespace aotc
