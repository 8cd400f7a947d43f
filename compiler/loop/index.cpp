#include "loop/index.h"

#include <algorithm>
#include <cstring>

namespace aotc::loop {
namespace {

const Expr::Atom* single_atom(const Expr& e) {
  const auto& t = e.terms();
  return t.size() == 1 && t[0].coef == 1 && t[0].atoms.size() == 1 ? &t[0].atoms[0] : nullptr;
}

/// hi*d + lo, or the dividend when hi and lo are its quotient and remainder by d.
Expr join(const Expr& hi, const Expr& lo, const Expr& d, const SymTable& syms) {
  if (const Expr::Atom* a = single_atom(lo); a && a->kind == Expr::AtomKind::mod && a->b == d) {
    const Expr dividend = a->a;
    if (hi == syms.simplify(floordiv(dividend, d))) return dividend;
  }
  return hi * d + lo;
}

struct Axis {
  Expr dim, idx;
};

/// Where the leading dims of both lists have equal products: the shortest such pair of counts, or all.
std::pair<size_t, size_t> leading_group(const std::vector<Axis>& from, size_t i0, const Exprs& to, size_t j0) {
  for (size_t total = 0; total + 2 <= (from.size() - i0) + (to.size() - j0); ++total) {
    for (size_t a = 0; a <= total; ++a) {
      const size_t b = total - a;
      if (i0 + a >= from.size() || j0 + b >= to.size()) continue;
      Expr pa = 1, pb = 1;
      for (size_t i = i0; i <= i0 + a; ++i) pa *= from[i].dim;
      for (size_t j = j0; j <= j0 + b; ++j) pb *= to[j];
      if (pa == pb) return {a + 1, b + 1};
    }
  }
  return {from.size() - i0, to.size() - j0};
}

}  // namespace

Expr linearise(const Exprs& dims, const Exprs& idx, const SymTable& syms) {
  AOTC_CHECK(dims.size() == idx.size(), "{} dims, {} indices", dims.size(), idx.size());
  Expr e = 0;
  bool first = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i].is(1)) continue;
    e = first ? idx[i] : join(e, idx[i], dims[i], syms);
    first = false;
  }
  return syms.simplify(e);
}

Exprs delinearise(const Expr& offset, const Exprs& dims, const SymTable& syms) {
  Exprs idx(dims.size(), Expr(0));
  Expr rest = offset;
  bool more = true;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].is(1)) continue;
    const bool first = std::all_of(dims.begin(), dims.begin() + static_cast<long>(i), [](const Expr& d) { return d.is(1); });
    if (first || dims[i].is(0)) {
      idx[i] = more ? rest : Expr(0);
      more = false;
      continue;
    }
    idx[i] = syms.simplify(mod(rest, dims[i]));
    rest = syms.simplify(floordiv(rest, dims[i]));
  }
  return idx;
}

Exprs reshape_index(const Exprs& from, const Exprs& idx, const Exprs& to, const SymTable& syms) {
  AOTC_CHECK(from.size() == idx.size(), "{} dims, {} indices", from.size(), idx.size());
  if (from == to) return idx;
  std::vector<Axis> a;
  Exprs b;
  std::vector<size_t> b_at;
  for (size_t i = 0; i < from.size(); ++i)
    if (!from[i].is(1)) a.push_back({from[i], idx[i]});
  for (size_t i = 0; i < to.size(); ++i)
    if (!to[i].is(1)) {
      b.push_back(to[i]);
      b_at.push_back(i);
    }
  Exprs out(to.size(), Expr(0));
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const auto [ni, nj] = leading_group(a, i, b, j);
    if (ni == 1 && nj == 1) {
      out[b_at[j]] = a[i].idx;
    } else {
      Exprs ad, ai, bd(b.begin() + static_cast<long>(j), b.begin() + static_cast<long>(j + nj));
      for (size_t t = i; t < i + ni; ++t) {
        ad.push_back(a[t].dim);
        ai.push_back(a[t].idx);
      }
      const Exprs parts = delinearise(linearise(ad, ai, syms), bd, syms);
      for (size_t t = 0; t < nj; ++t) out[b_at[j + t]] = parts[t];
    }
    i += ni;
    j += nj;
  }
  return out;
}

InputIndex view_input(const Graph& g, const Node& n, const Exprs& idx, const SymTable& syms) {
  const Exprs& in = g.type(n.inputs[0]).dims;
  const Exprs& out = g.type(n.outputs[0]).dims;
  InputIndex r;
  auto need = [&](const Expr& v, const Expr& extent) {
    if (!(syms.proves_le(0, v) && syms.proves_lt(v, extent))) r.within.push_back({v, extent});
  };
  switch (n.op) {
    case Op::reshape: r.idx = reshape_index(out, idx, in, syms); break;
    case Op::permute: {
      const Ints& perm = n.get<Ints>(Attr::perm);
      r.idx.resize(in.size());
      for (size_t i = 0; i < perm.size(); ++i) r.idx[static_cast<size_t>(perm[i])] = idx[i];
      break;
    }
    case Op::expand:
      for (size_t i = 0; i < in.size(); ++i) r.idx.push_back(in[i].is(1) ? Expr(0) : idx[i]);
      break;
    case Op::slice: {
      r.idx = idx;
      Expr& e = r.idx[static_cast<size_t>(n.get<int64_t>(Attr::dim))];
      e = syms.simplify(e * n.get_or<int64_t>(Attr::step, 1) + n.get<Expr>(Attr::start));
      break;
    }
    case Op::flip:
      r.idx = idx;
      for (int64_t d : n.get<Ints>(Attr::dims)) {
        const size_t i = static_cast<size_t>(d);
        r.idx[i] = syms.simplify(in[i] - 1 - idx[i]);
      }
      break;
    case Op::strided: {
      Expr e = n.get<Expr>(Attr::start);
      const Exprs& s = n.get<Exprs>(Attr::strides);
      for (size_t i = 0; i < idx.size(); ++i) e += idx[i] * s[i];
      r.idx = delinearise(syms.simplify(e), in, syms);
      break;
    }
    case Op::pad: {
      const Exprs& lo = n.get<Exprs>(Attr::lo);
      for (size_t i = 0; i < idx.size(); ++i) {
        r.idx.push_back(syms.simplify(idx[i] - lo[i]));
        if (!(lo[i].is(0) && in[i] == out[i])) need(r.idx[i], in[i]);
      }
      break;
    }
    case Op::window: {
      const Ints &kernel = n.get<Ints>(Attr::kernel), &stride = n.get<Ints>(Attr::stride), &pad = n.get<Ints>(Attr::padding),
                 &dil = n.get<Ints>(Attr::dilation);
      const size_t s = kernel.size(), lead = in.size() - s;
      r.idx.assign(idx.begin(), idx.begin() + static_cast<long>(lead));
      for (size_t i = 0; i < s; ++i) {
        r.idx.push_back(syms.simplify(idx[lead + i] * stride[i] + idx[lead + s + i] * dil[i] - pad[i]));
        need(r.idx.back(), in[lead + i]);
      }
      break;
    }
    default: AOTC_CHECK(false, "{} is not a view", op_name(n.op));
  }
  return r;
}

bool is_one_to_one(const Node& n) { return n.op == Op::reshape || n.op == Op::permute || n.op == Op::flip; }

std::optional<Exprs> view_forward(const Graph& g, const Node& n, size_t input, const Exprs& idx, const SymTable& syms) {
  const Exprs& in = g.type(n.inputs[input]).dims;
  Exprs out;
  switch (n.op) {
    case Op::reshape: return reshape_index(in, idx, g.type(n.outputs[0]).dims, syms);
    case Op::permute:
      for (int64_t p : n.get<Ints>(Attr::perm)) out.push_back(idx[static_cast<size_t>(p)]);
      return out;
    case Op::flip:
      out = idx;
      for (int64_t d : n.get<Ints>(Attr::dims))
        out[static_cast<size_t>(d)] = syms.simplify(in[static_cast<size_t>(d)] - 1 - idx[static_cast<size_t>(d)]);
      return out;
    case Op::cat: {
      out = idx;
      const size_t d = static_cast<size_t>(n.get<int64_t>(Attr::dim));
      for (size_t k = 0; k < input; ++k) out[d] += g.type(n.inputs[k]).dims[d];
      out[d] = syms.simplify(out[d]);
      return out;
    }
    default: return std::nullopt;
  }
}

namespace {
/// A small constant whose elements count evenly along its dims (a folded arange), as an expression of the index.
std::optional<Expr> counting_constant(const ConstData& c, const Exprs& at) {
  const Exprs& dims = c.type.dims;
  if (c.type.dtype != DType::i64 || c.bytes == 0 || c.bytes > 65536 || c.data == nullptr) return std::nullopt;
  std::vector<int64_t> data(c.bytes / 8), size, step(dims.size(), 0);
  std::memcpy(data.data(), c.data, c.bytes);
  for (const Expr& d : dims) size.push_back(*d.as_const());
  Expr e = data[0];
  size_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (size[d] > 1) step[d] = data[stride] - data[0];
    e += at[d] * step[d];
    stride *= static_cast<size_t>(size[d]);
  }
  for (size_t i = 0; i < data.size(); ++i) {
    int64_t want = data[0];
    size_t rest = i;
    for (size_t d = dims.size(); d-- > 0; rest /= static_cast<size_t>(size[d]))
      want += step[d] * static_cast<int64_t>(rest % static_cast<size_t>(size[d]));
    if (data[i] != want) return std::nullopt;
  }
  return e;
}
}  // namespace

std::optional<Expr> known_integer(const Graph& g, ValueId v, const Exprs& at, const SymTable& syms) {
  if (g.values[v].kind == ValueKind::constant) return counting_constant(g.constants[g.values[v].constant], at);
  const Node* n = g.def(v);
  if (!n || !is_int(g.type(v).dtype)) return std::nullopt;
  auto input = [&](size_t i) { return known_integer(g, n->inputs[i], at, syms); };
  switch (n->op) {
    case Op::iota: return at[static_cast<size_t>(n->get<int64_t>(Attr::dim))];
    case Op::sym: return n->get<Expr>(Attr::expr);
    case Op::full:
      if (auto i = std::get_if<int64_t>(&n->attrs.at(Attr::value))) return Expr(*i);
      return std::nullopt;
    case Op::cast: return g.type(v).dtype == DType::i64 ? input(0) : std::nullopt;
    case Op::add:
    case Op::sub:
    case Op::mul: {
      if (g.type(v).dtype != DType::i64) return std::nullopt;
      const auto a = input(0), b = input(1);
      if (!a || !b) return std::nullopt;
      return syms.simplify(n->op == Op::add ? *a + *b : n->op == Op::sub ? *a - *b : *a * *b);
    }
    default: break;
  }
  if (!is_view(n->op)) return std::nullopt;
  const InputIndex in = view_input(g, *n, at, syms);
  return in.within.empty() ? known_integer(g, n->inputs[0], in.idx, syms) : std::nullopt;
}

std::optional<Expr> known_index(const Graph& g, ValueId v, const Exprs& at, const Expr& extent, const SymTable& syms) {
  auto e = known_integer(g, v, at, syms);
  if (e && syms.proves_le(0, *e) && syms.proves_lt(*e, extent)) return e;
  return std::nullopt;
}

namespace {
/// Of gather and index: the element that is taken.
Exprs taken_at(const Graph& g, const Node& n, const Exprs& at, const SymTable& syms, const LookUp& look_up) {
  const Exprs& dims = g.type(n.inputs[0]).dims;
  const auto position = [&](ValueId v, const Exprs& v_at, const Expr& extent) {
    const std::optional<Expr> known = known_index(g, v, v_at, extent, syms);
    return known ? *known : look_up(v, v_at, extent);
  };
  if (n.op == Op::gather) {
    Exprs x = at;
    const size_t d = static_cast<size_t>(n.get<int64_t>(Attr::dim));
    x[d] = position(n.inputs[1], at, dims[d]);
    return x;
  }
  const Ints& indexed = n.get<Ints>(Attr::dims);
  const size_t pos = static_cast<size_t>(n.get<int64_t>(Attr::out_pos)), rank = g.type(n.inputs[1]).dims.size();
  const Exprs sub(at.begin() + static_cast<long>(pos), at.begin() + static_cast<long>(pos + rank));
  Exprs x;
  for (size_t d = 0, next = 0; d < dims.size(); ++d) {
    const auto which = std::find(indexed.begin(), indexed.end(), static_cast<int64_t>(d));
    if (which != indexed.end()) {
      x.push_back(position(n.inputs[1 + static_cast<size_t>(which - indexed.begin())], sub, dims[d]));
    } else {
      if (next == pos) next += rank;
      x.push_back(at[next++]);
    }
  }
  return x;
}

/// Of a reduction: the element that it takes at its variables.
Exprs reduced_at(const Graph& g, const Node& n, const Exprs& at, const std::vector<SymId>& reduced) {
  const Ints& dims = n.get<Ints>(Attr::dims);
  const Exprs& in = g.type(n.inputs[0]).dims;
  Exprs x;
  for (size_t d = 0, kept = 0, r = 0; d < in.size(); ++d) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      x.push_back(at[kept++]);
    else
      x.push_back(in[d].is(1) ? Expr(0) : Expr::symbol(reduced.at(r++)));
  }
  return x;
}
}  // namespace

std::vector<InputRead> input_reads(const Graph& g, const Node& n, const Exprs& at, const std::vector<SymId>& reduced, const SymTable& syms,
                                   const LookUp& look_up) {
  std::vector<InputRead> reads;
  switch (op_class(n.op)) {
    case OpClass::unary:
    case OpClass::binary:
    case OpClass::ternary:
    case OpClass::scan:
      for (ValueId u : n.inputs) reads.push_back({u, at, {}});
      break;
    case OpClass::view: {
      InputIndex in = view_input(g, n, at, syms);
      reads.push_back({n.inputs[0], std::move(in.idx), std::move(in.within)});
      break;
    }
    case OpClass::cat: {
      const size_t d = static_cast<size_t>(n.get<int64_t>(Attr::dim));
      Expr end = 0;
      for (ValueId u : n.inputs) {
        const Expr extent = g.type(u).dims[d];
        Exprs part = at;
        part[d] = syms.simplify(at[d] - end);
        end += extent;
        const Expr inside = part[d];
        reads.push_back({u, std::move(part), {{inside, extent}}});
      }
      break;
    }
    case OpClass::index: reads.push_back({n.inputs[0], taken_at(g, n, at, syms, look_up), {}}); break;
    case OpClass::reduce: reads.push_back({n.inputs[0], reduced_at(g, n, at, reduced), {}}); break;
    default: AOTC_CHECK(false, "{} has no index map", op_name(n.op));
  }
  return reads;
}

std::optional<Affine> affine(const Expr& e, const std::vector<SymId>& vars) {
  Affine a;
  SymMap zero;
  for (SymId v : vars) {
    auto c = e.linear_coefficient(v);
    if (!c) return std::nullopt;
    for (SymId w : vars)
      if (c->depends_on(w)) return std::nullopt;
    a.coefs.push_back(*c);
    zero[v] = Expr(0);
  }
  a.base = e.substitute(zero);
  return a;
}

bool covers_once(const Exprs& dims, const Exprs& idx, const std::vector<SymId>& vars, const SymTable& syms) {
  // A part of a cat is read at indices outside of it too, where it is not chosen: an offset does not show those of a dim of one element.
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d].is(1) && !idx[d].is(0) && !syms.proves_eq(idx[d], 0)) return false;
  auto a = affine(linearise(dims, idx, syms), vars);
  if (!a || !a->base.is(0)) return false;
  std::vector<bool> used(vars.size(), false);
  Expr stride = 1;
  for (size_t round = 0; round < vars.size(); ++round) {
    bool found = false;
    for (size_t i = 0; i < vars.size() && !found; ++i) {
      if (used[i] || a->coefs[i] != stride) continue;
      used[i] = found = true;
      stride *= *syms[vars[i]].extent;
    }
    if (!found) return false;
  }
  return stride == product(dims) || syms.proves_eq(stride, product(dims));
}

bool depends_on_any(const Exprs& idx, const std::vector<SymId>& vars) {
  for (const Expr& e : idx)
    for (SymId v : vars)
      if (e.depends_on(v)) return true;
  return false;
}

}  // namespace aotc::loop
