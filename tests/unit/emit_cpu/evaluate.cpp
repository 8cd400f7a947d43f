#include "kernel_builder.h"

namespace aotc::test {
namespace {

double as_float(DType t, const Scalar& s) { return is_float(t) ? s.f : static_cast<double>(s.i); }

Scalar pointwise(Op op, DType in, DType out, const std::vector<Scalar>& a) {
  Scalar r;
  const bool flt = is_float(in);
  const auto both = [&](auto f, auto g) {
    if (flt)
      r.f = f();
    else
      r.i = g();
  };
  const Scalar x = a[0], y = a.size() > 1 ? a[1] : Scalar{};
  switch (op) {
    case Op::cast:
      if (is_float(out))
        r.f = out == DType::f32 ? static_cast<float>(as_float(in, x)) : as_float(in, x);
      else if (out == DType::boolean)
        r.i = flt ? x.f != 0 : x.i != 0;
      else {
        r.i = flt ? static_cast<int64_t>(x.f) : x.i;
        if (out == DType::u8) r.i = static_cast<uint8_t>(r.i);
        if (out == DType::i8) r.i = static_cast<int8_t>(r.i);
        if (out == DType::i32) r.i = static_cast<int32_t>(r.i);
      }
      return r;
    case Op::add: both([&] { return x.f + y.f; }, [&] { return x.i + y.i; }); break;
    case Op::sub: both([&] { return x.f - y.f; }, [&] { return x.i - y.i; }); break;
    case Op::mul: both([&] { return x.f * y.f; }, [&] { return x.i * y.i; }); break;
    case Op::div: r.f = x.f / y.f; break;
    case Op::relu: both([&] { return x.f < 0 ? 0 : x.f; }, [&] { return x.i < 0 ? 0 : x.i; }); break;
    case Op::exp: r.f = std::exp(x.f); break;
    case Op::rsqrt: r.f = 1 / std::sqrt(x.f); break;
    case Op::tanh: r.f = std::tanh(x.f); break;
    case Op::maximum: both([&] { return x.f > y.f || x.f != x.f ? x.f : y.f; }, [&] { return x.i > y.i ? x.i : y.i; }); break;
    case Op::lt: r.i = flt ? x.f < y.f : x.i < y.i; break;
    case Op::le: r.i = flt ? x.f <= y.f : x.i <= y.i; break;
    case Op::gt: r.i = flt ? x.f > y.f : x.i > y.i; break;
    case Op::ge: r.i = flt ? x.f >= y.f : x.i >= y.i; break;
    case Op::eq: r.i = flt ? x.f == y.f : x.i == y.i; break;
    case Op::bit_and: r.i = x.i & y.i; break;
    case Op::bit_or: r.i = x.i | y.i; break;
    case Op::logical_not: r.i = !x.i; break;
    case Op::remainder: r.i = y.i == 0 ? 0 : ((x.i % y.i) + y.i) % y.i; break;
    case Op::where: r = x.i ? a[1] : a[2]; break;
    default: AOTC_CHECK(false, "evaluator lacks {}", op_name(op));
  }
  if (out == DType::f32) r.f = static_cast<float>(r.f);
  if (out == DType::u8) r.i = static_cast<uint8_t>(r.i);
  if (out == DType::i8) r.i = static_cast<int8_t>(r.i);
  return r;
}

struct Running {
  bool any = false;
  double f = 0;
  int64_t i = 0, at = 0;
};

/// Takes x into the running reduction; `last_on_ties` for scans of arg kinds.
void take(Running& r, ReduceKind kind, bool flt, const Scalar& x, int64_t at, bool last_on_ties) {
  const bool nan = flt && x.f != x.f, was_nan = flt && r.f != r.f;
  const bool greater = flt ? x.f > r.f : x.i > r.i, less = flt ? x.f < r.f : x.i < r.i, tie = !greater && !less && !nan && !was_nan;
  bool better = !r.any;
  switch (kind) {
    case ReduceKind::sum: r.f += x.f, r.i += x.i, r.any = true; return;
    case ReduceKind::prod:
      r.f = r.any ? r.f * x.f : x.f;
      r.i = r.any ? r.i * x.i : x.i;
      r.any = true;
      return;
    case ReduceKind::logsumexp:
      r.f = r.any ? std::max(r.f, x.f) + std::log1p(std::exp(-std::abs(r.f - x.f))) : x.f;
      r.any = true;
      return;
    case ReduceKind::max:
    case ReduceKind::argmax: better |= greater || (nan && !was_nan) || (last_on_ties && (tie || nan)); break;
    case ReduceKind::min:
    case ReduceKind::argmin: better |= less || (nan && !was_nan) || (last_on_ties && (tie || nan)); break;
  }
  if (better) r.f = x.f, r.i = x.i, r.at = at;
  r.any = true;
}

struct Evaluator {
  const LoopKernel& k;
  std::map<SymId, int64_t> syms;
  Memory& m;
  std::vector<Scalar> values;
  std::map<uint32_t, Running> running;
  int64_t inner_at = 0;

  int64_t eval(const Expr& e) {
    return e.eval([&](SymId s) { return syms.at(s); });
  }
  void inst(InstId id) {
    const Inst& i = k.insts[id];
    Scalar& v = values[idx(id)];
    const auto arg = [&](size_t n) { return values[idx(i.args.at(n))]; };
    const auto arg_type = [&](size_t n) { return k.insts[i.args.at(n)].dtype; };
    const bool dead = i.mask != kNone<InstId> && !values[idx(i.mask)].i;
    switch (i.kind) {
      case InstKind::constant: v = {i.imm_f, i.imm_i}; break;
      case InstKind::index: v = {0, eval(i.index)}; break;
      case InstKind::load: v = dead ? Scalar{i.imm_f, i.imm_i} : m.params.at(idx(i.param)).at(static_cast<size_t>(eval(i.index))); break;
      case InstKind::store:
        if (!dead) m.params.at(idx(i.param)).at(static_cast<size_t>(eval(i.index))) = arg(0);
        break;
      case InstKind::op: {
        std::vector<Scalar> a;
        for (size_t n = 0; n < i.args.size(); ++n) a.push_back(arg(n));
        v = pointwise(i.op, i.op == Op::where ? arg_type(1) : arg_type(0), i.dtype, a);
        break;
      }
      case InstKind::reduce: take(running[idx(id)], i.reduce_kind, is_float(arg_type(0)), arg(0), inner_at, false); break;
      case InstKind::scan: {
        Running& r = running[idx(id)];
        const int64_t at = syms.at(k.inner.back().sym);
        if (at == 0) r = {};
        take(r, i.reduce_kind, is_float(arg_type(0)), arg(0), at, true);
        v = {r.f, r.i};
        if (i.reduce_kind == ReduceKind::argmax || i.reduce_kind == ReduceKind::argmin) v.i = r.at;
        break;
      }
      case InstKind::check: m.fault |= !arg(0).i; break;
    }
    if (i.bind != kNone<SymId>) {
      const auto& info = k.syms[i.bind];
      syms[i.bind] = std::max<int64_t>(0, std::min(v.i, eval(*info.extent) - 1));
    }
  }
  void inner_points(const Block& b, size_t depth) {
    if (depth == k.inner.size()) {
      for (InstId id : b.insts) inst(id);
      ++inner_at;
      return;
    }
    for (int64_t n = eval(k.inner[depth].extent), x = 0; x < n; ++x) {
      syms[k.inner[depth].sym] = x;
      inner_points(b, depth + 1);
    }
  }
  void outer_points(size_t depth) {
    if (depth < k.outer.size()) {
      for (int64_t n = eval(k.outer[depth].extent), x = 0; x < n; ++x) {
        syms[k.outer[depth].sym] = x;
        outer_points(depth + 1);
      }
      return;
    }
    running.clear();
    for (const Block& b : k.blocks) {
      if (!b.over_inner) {
        for (InstId id : b.insts) inst(id);
        continue;
      }
      inner_at = 0;
      inner_points(b, 0);
      for (InstId id : b.insts) {
        const Inst& i = k.insts[id];
        if (i.kind != InstKind::reduce) continue;
        const Running& r = running[idx(id)];
        const bool arg = i.reduce_kind == ReduceKind::argmax || i.reduce_kind == ReduceKind::argmin;
        values[idx(id)] = {r.f, arg ? r.at : r.i};
      }
    }
  }
};

}  // namespace

void evaluate(const LoopKernel& k, const std::map<std::string, int64_t>& sizes, Memory& m) {
  Evaluator e{k, {}, m, std::vector<Scalar>(k.insts.size()), {}, 0};
  for (const auto& [name, value] : sizes) e.syms[*k.syms.find(name)] = value;
  for (size_t p = 0; p < k.params.size(); ++p)
    if (k.params.raw()[p].role == ParamRole::local) {
      int64_t n = 1;
      for (const Expr& d : k.params.raw()[p].dims) n *= e.eval(d);
      m.params.at(p).assign(static_cast<size_t>(n), {});
    }
  e.outer_points(0);
}

}  // namespace aotc::test
