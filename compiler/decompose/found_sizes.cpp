#include "decompose/found_sizes.h"

#include <algorithm>

#include "decompose/at_bounds.h"
#include "decompose/read_numbers.h"
#include "graph/op_table.h"

namespace aotc::decompose {
namespace {

struct Row {
  Op op;
  void (AtBounds::*fn)(AtBounds::At&);
};
/// All but elementwise operators. keep: each element is made of those at its own place, of those before it, or of none.
constexpr Row kRows[] = {
    {Op::full, &AtBounds::keep},           {Op::iota, &AtBounds::keep},
    {Op::permute, &AtBounds::keep},        {Op::expand, &AtBounds::keep},
    {Op::scan, &AtBounds::keep},           {Op::scan_arg, &AtBounds::keep},
    {Op::check, &AtBounds::keep},          {Op::exclude, &AtBounds::keep},
    {Op::sym, &AtBounds::number},          {Op::reshape, &AtBounds::reshape},
    {Op::flip, &AtBounds::flip},           {Op::slice, &AtBounds::slice},
    {Op::strided, &AtBounds::strided},     {Op::pad, &AtBounds::pad},
    {Op::window, &AtBounds::window},       {Op::cat, &AtBounds::cat},
    {Op::index, &AtBounds::index},         {Op::gather, &AtBounds::gather},
    {Op::scatter, &AtBounds::scatter},     {Op::index_put, &AtBounds::index_put},
    {Op::add_rows, &AtBounds::none},       {Op::reduce, &AtBounds::reduce},
    {Op::matmul, &AtBounds::matmul},       {Op::grouped_matmul, &AtBounds::none},
    {Op::conv, &AtBounds::conv},           {Op::conv_transpose, &AtBounds::conv},
    {Op::attention, &AtBounds::attention}, {Op::sort, &AtBounds::sort},
    {Op::topk, &AtBounds::topk},           {Op::recurrence, &AtBounds::recurrence},
    {Op::fourier, &AtBounds::fourier},     {Op::cholesky, &AtBounds::square_matrices},
    {Op::lu, &AtBounds::square_matrices},  {Op::qr, &AtBounds::matrices},
    {Op::svd, &AtBounds::matrices},        {Op::solve_triangular, &AtBounds::square_matrices},
    {Op::custom, &AtBounds::custom},
};
static_assert(Fits<misfit(kRows, [](const OpInfo& o) { return !is_pointwise(o.cls); })>::value);

/// How an expression moves with a symbol.
enum class Way : uint8_t { still, up, down, both };
Way reversed(Way w) { return w == Way::up ? Way::down : w == Way::down ? Way::up : w; }
Way joined(Way a, Way b) { return a == Way::still ? b : b == Way::still || a == b ? a : Way::both; }

Way way_of(const Expr& e, SymId s) {
  Way all = Way::still;
  for (const Expr::Term& t : e.terms()) {
    Way term = Way::still;
    for (const Expr::Atom& a : t.atoms) {
      Way one = Way::still;
      switch (a.kind) {
        case Expr::AtomKind::symbol: one = a.sym == s ? Way::up : Way::still; break;
        case Expr::AtomKind::floordiv: one = way_of(a.b, s) == Way::still ? way_of(a.a, s) : Way::both; break;
        case Expr::AtomKind::mod: one = way_of(a.a, s) == Way::still && way_of(a.b, s) == Way::still ? Way::still : Way::both; break;
        default: one = joined(way_of(a.a, s), way_of(a.b, s)); break;
      }
      term = joined(term, one);
    }
    all = joined(all, t.coef < 0 ? reversed(term) : term);
  }
  return all;
}

}  // namespace

void AtBounds::run() {
  for (const Value& v : g_.values) known_.push_back(v.kind != ValueKind::node);
  dims_.resize(g_.values.size());
  now_.resize(g_.values.size());
  for (size_t i = 0; i < now_.size(); ++i) {
    now_[i] = static_cast<ValueId>(i);
    dims_[i] = g_.values[now_[i]].type.dims;
  }
  for (const NodeId id : std::exchange(g_.order, {})) {
    if (g_.nodes[id].dead) continue;
    At a{id, g_.nodes[id], {}, {}};
    const bool takes_part = involved(a.n);
    for (const ValueId v : a.n.inputs) a.in.push_back(&dims_[idx(v)]);
    for (const ValueId v : a.n.outputs) a.out.push_back(&dims_[idx(v)]);
    for (ValueId& v : a.n.inputs) v = now_[idx(v)];
    const std::vector<ValueId> results = a.n.outputs;
    const auto done = [&] {
      for (const ValueId v : results) known_[idx(v)] = true;
    };
    if (!takes_part) {
      g_.nodes[id].inputs = a.n.inputs;
      g_.order.push_back(id);
      done();
      continue;
    }
    b_.at(a.n.name, a.n.source);
    if (is_pointwise(a.n.op))
      keep(a);
    else
      (this->*row_of(kRows, a.n.op).fn)(a);
    done();
  }
  for (OutputInfo& o : g_.outputs) {
    if (found(dims_[idx(o.value)])) o.found = dims_[idx(o.value)];
    o.value = now_[idx(o.value)];
  }
  for (StateInfo& s : g_.states) {
    if (s.updated == kNone<ValueId>) continue;
    if (found(dims_[idx(s.updated)]))
      throw Diagnostic(ExitCode::unsupported, Loc{.file = file_},
                       fmt::format("the state '{}' would get a size that depends on data", s.name));
    s.updated = now_[idx(s.updated)];
  }
}

bool AtBounds::found(const Expr& e) const {
  const std::set<SymId> used = e.symbols();
  return std::any_of(used.begin(), used.end(), [&](SymId s) { return sizes_.count(s) != 0; });
}

bool AtBounds::found(const Exprs& dims, size_t from) const {
  return std::any_of(dims.begin() + static_cast<int64_t>(std::min(from, dims.size())), dims.end(), [&](const Expr& e) { return found(e); });
}

bool AtBounds::involved(const Node& n) const {
  const auto has = [&](ValueId v) { return found(dims_[idx(v)]); };
  if (std::any_of(n.inputs.begin(), n.inputs.end(), has) || std::any_of(n.outputs.begin(), n.outputs.end(), has)) return true;
  return std::any_of(n.attrs.begin(), n.attrs.end(), [&](const auto& a) {
    const auto* e = std::get_if<Expr>(&a.second);
    const auto* es = std::get_if<Exprs>(&a.second);
    return (e && found(*e)) || (es && found(*es));
  });
}

void AtBounds::refuse(const At& a, const std::string& why) const {
  throw Diagnostic(ExitCode::unsupported, Loc{file_, "", a.n.name, a.n.source},
                   fmt::format("{} of a tensor whose size depends on data is not compiled: {}", op_name(a.n.op), why))
      .note("make the size one of the inputs' (torch.where instead of a selection), or end the model before it");
}

Expr AtBounds::bound(const At& a, const Expr& e) const {
  if (!found(e)) return g_.syms.simplify(e);
  Expr most = own_bound(a, e);
  for (const auto& [x, y] : equal_)
    for (const auto& [one, other] : {std::pair(x, y), std::pair(y, x)}) {
      const std::optional<int64_t> more = g_.syms.simplify(e - one).as_const();
      if (more) most = g_.syms.simplify(min(most, own_bound(a, other + *more)));
    }
  return g_.syms.simplify(max(most, 0));  // below 0 where no number that the checks let through leaves anything
}

Expr AtBounds::own_bound(const At& a, const Expr& e) const {
  Expr most = e;
  for (bool again = true; again;) {
    again = false;
    for (const SymId s : most.symbols()) {
      const auto it = sizes_.find(s);
      if (it == sizes_.end()) continue;
      const Way way = way_of(most, s);
      if (way == Way::both) return g_.syms.simplify(limit(a, e, End::greatest));
      most = most.substitute({{s, way == Way::down ? Expr(std::max<int64_t>(g_.syms[s].min, 0)) : it->second.bound}});
      again = true;
      break;
    }
  }
  return g_.syms.simplify(most);
}

Expr AtBounds::limit(const At& a, const Expr& e, End end) const {
  if (!found(e)) return e;
  const bool up = end == End::greatest;
  const End other = up ? End::least : End::greatest;
  const auto of_atom = [&](const Expr::Atom& x, End to) -> Expr {
    const bool most = to == End::greatest;
    const End turned = most ? End::least : End::greatest;
    switch (x.kind) {
      case Expr::AtomKind::symbol: {
        const auto it = sizes_.find(x.sym);
        if (it == sizes_.end()) return Expr::symbol(x.sym);
        return most ? limit(a, it->second.bound, to) : Expr(std::max<int64_t>(g_.syms[x.sym].min, 0));
      }
      case Expr::AtomKind::floordiv: return floordiv(limit(a, x.a, to), max(limit(a, x.b, turned), 1));
      case Expr::AtomKind::mod: return most ? max(limit(a, x.b, to) - 1, 0) : Expr(0);
      case Expr::AtomKind::min: return min(limit(a, x.a, to), limit(a, x.b, to));
      case Expr::AtomKind::max: return max(limit(a, x.a, to), limit(a, x.b, to));
    }
    refuse(a, fmt::format("the size {} has no bound that can be given", e.str(g_.syms)));
  };
  Expr sum = 0;
  for (const Expr::Term& t : e.terms()) {
    Expr product = t.coef;
    for (const Expr::Atom& x : t.atoms) product *= of_atom(x, t.coef > 0 ? end : other);
    sum += product;
  }
  return sum;
}

Exprs AtBounds::bound(const At& a, Exprs es) const {
  for (Expr& e : es) e = bound(a, e);
  return es;
}

T AtBounds::value(const Expr& e) {
  const std::string key = e.str(g_.syms);
  if (const auto it = values_.find(key); it != values_.end()) return {b_, it->second};
  const auto make = [&]() -> T {
    if (!found(e)) return scalar_of(b_, e, DType::i64);
    if (const auto s = e.as_symbol()) {
      const ValueId count = sizes_.at(*s).value;
      if (!known_[idx(count)]) throw Diagnostic(Loc{.file = file_}, fmt::format("the size {} is used before it is found", e.str(g_.syms)));
      return {b_, now_[idx(count)]};
    }
    std::optional<T> sum;
    for (const Expr::Term& t : e.terms()) {
      T product = scalar(DType::i64, t.coef);
      for (const Expr::Atom& x : t.atoms) {
        const bool symbol = x.kind == Expr::AtomKind::symbol;
        product = product * (symbol ? value(Expr::symbol(x.sym)) : binary(op_of(x.kind), value(x.a), value(x.b)));
      }
      sum = sum ? *sum + product : product;
    }
    return *sum;
  };
  const T made = make();
  values_.emplace(key, made);
  return made;
}

T AtBounds::within(const At& a, const Expr& size, int d, int rank) {
  Exprs column(static_cast<size_t>(rank), Expr(1));
  const Expr most = bound(a, size);
  column[static_cast<size_t>(d)] = most;
  return (iota(b_, {most}, 0) < value(size)).reshape(column);
}

std::optional<T> AtBounds::there(const At& a, const Exprs& dims, const Ints& over) {
  std::optional<T> all;
  for (const int64_t d : over) {
    const Expr& size = dims.at(static_cast<size_t>(d));
    if (!found(size)) continue;
    const T one = within(a, size, static_cast<int>(d), static_cast<int>(dims.size()));
    all = all ? *all & one : one;
  }
  return all;
}

std::optional<T> AtBounds::there(const At& a, const Exprs& dims) {
  Ints all;
  for (size_t d = 0; d < dims.size(); ++d) all.push_back(static_cast<int64_t>(d));
  return there(a, dims, all);
}

T AtBounds::masked(const At& a, size_t i, const Ints& over, const T& other) {
  const std::optional<T> mask = there(a, *a.in.at(i), over);
  const T x = input(a, i);
  return mask ? where(*mask, x, other) : x;
}
T AtBounds::masked(const At& a, size_t i, const Ints& over, double other) {
  return masked(a, i, over, T(b_, full(b_, input(a, i).dtype(), {}, other)));
}

T AtBounds::settled(const T& places, const Expr& size, const Expr& outside) {
  const T n = value(size), i = where(places < 0.0, places + n, places);
  return where((i < 0.0) | (i >= n), scalar_of(b_, outside, DType::i64), i);
}

void AtBounds::give(const At& a, size_t result, const T& value) { now_[idx(a.n.outputs.at(result))] = value; }

T AtBounds::scalar(DType t, int64_t v) { return {b_, b_.full_int({t, {}}, v)}; }

T AtBounds::fill_of(const At& a, DType t) {
  const AttrValue& v = a.n.attrs.at(Attr::value);
  if (const auto* real = std::get_if<double>(&v)) return {b_, full(b_, t, {}, *real)};
  const auto* truth = std::get_if<bool>(&v);
  return scalar(t, truth ? int64_t{*truth} : a.n.get<int64_t>(Attr::value));
}

T AtBounds::extreme(DType t, End e) {
  const bool least = e == End::least;
  if (is_float(t)) return {b_, full(b_, t, {}, least ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity())};
  if (is_bool(t)) return {b_, full(b_, t, {}, least ? 0.0 : 1.0)};
  if (t == DType::u8) return scalar(t, least ? 0 : 255);
  const int bits = static_cast<int>(dtype_bytes(t)) * 8;
  const auto greatest = static_cast<int64_t>(UINT64_MAX >> (65 - bits));
  return scalar(t, least ? -greatest - 1 : greatest);
}

void AtBounds::keep(At& a) {
  for (auto& [name, v] : a.n.attrs) {
    if (auto* e = std::get_if<Expr>(&v)) *e = bound(a, *e);
    if (auto* es = std::get_if<Exprs>(&v)) *es = bound(a, *es);
  }
  for (size_t i = 0; i < a.out.size(); ++i) g_.values[a.n.outputs[i]].type.dims = bound(a, *a.out[i]);
  g_.nodes[a.id] = std::move(a.n);
  g_.order.push_back(a.id);
}

void AtBounds::none(At& a) { refuse(a, "it reads elements by their places in memory"); }

void AtBounds::custom(At& a) { refuse(a, "a kernel of your own computes it, which takes tensors whole"); }

void take_bounds(Graph& g, const FoundSizes& sizes, const EqualSizes& equal, const std::string& file) {
  if (!sizes.empty()) AtBounds(g, sizes, equal, file).run();
}

}  // namespace aotc::decompose
