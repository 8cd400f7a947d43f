#include "import/drawing.h"

#include <cmath>
#include <numbers>

#include "import/random_numbers.h"

namespace aotc::import {
namespace {

/// Of a significand, as PyTorch draws numbers of the type.
int digits(DType t) { return t == DType::f64 ? 53 : t == DType::f16 ? 11 : t == DType::bf16 ? 8 : 24; }
/// What is drawn in: 16-bit floats are made of float32.
DType drawn_in(DType t) { return t == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace

TensorMeta dense_meta(DType dtype, const std::vector<Expr>& sizes) {
  TensorMeta m{dtype, sizes, std::vector<Expr>(sizes.size(), Expr(1)), Expr(0), false};
  for (size_t i = sizes.size(); i-- > 1;) m.strides[i - 1] = m.strides[i] * sizes[i];
  return m;
}

Drawing::Drawing(const Program& program, const PNode& node, std::string state, int64_t& slot)
    : p_(program), node_(node), state_(std::move(state)), prefix_(node.name + ".drawn"), slot_(slot) {
  const auto taken = [&] {
    const auto at = p_.tensors.lower_bound(prefix_);
    return at != p_.tensors.end() && at->first.starts_with(prefix_);
  };
  while (taken()) prefix_ += "_";
}

const Arg* Drawing::find(std::string_view name) const {
  for (const NamedArg& a : node_.args)
    if (a.name == name) return &a.value;
  return nullptr;
}
std::optional<double> Drawing::number(std::string_view name) const {
  const Arg* a = find(name);
  if (const double* d = a ? std::get_if<double>(a) : nullptr) return *d;
  if (const Expr* e = a ? std::get_if<Expr>(a) : nullptr; e && e->as_const()) return static_cast<double>(*e->as_const());
  return std::nullopt;
}
std::optional<Expr> Drawing::integer(std::string_view name) const {
  const Arg* a = find(name);
  if (const Expr* e = a ? std::get_if<Expr>(a) : nullptr) return *e;
  return std::nullopt;
}
std::optional<bool> Drawing::boolean(std::string_view name) const {
  const Arg* a = find(name);
  if (const bool* b = a ? std::get_if<bool>(a) : nullptr) return *b;
  return std::nullopt;
}
std::optional<Drawn> Drawing::tensor(std::string_view name) const {
  const Arg* a = find(name);
  const TensorRef* t = a ? std::get_if<TensorRef>(a) : nullptr;
  const auto meta = t ? p_.tensors.find(t->name) : p_.tensors.end();
  if (meta == p_.tensors.end()) return std::nullopt;
  return Drawn{t->name, meta->second.dtype, meta->second.sizes};
}
bool Drawing::absent(std::string_view name) const {
  const Arg* a = find(name);
  return !a || std::holds_alternative<NoneArg>(*a);
}

Drawn Drawing::emit(std::string_view target, std::vector<NamedArg> args, DType dtype, std::vector<Expr> sizes, size_t result,
                    size_t results) {
  PNode n;
  n.name = fmt::format("{}{}", prefix_, nodes.size());
  n.target = target;
  n.args = std::move(args);
  n.results.resize(results, NoneArg{});
  n.results[result] = TensorRef{n.name};
  n.source = node_.source, n.place = node_.place;
  n.path = node_.path;
  n.module_path = node_.module_path;
  tensors.emplace(n.name, dense_meta(dtype, sizes));
  nodes.push_back(std::move(n));
  return {nodes.back().name, dtype, std::move(sizes)};
}
Drawn Drawing::emit(std::string_view target, std::vector<NamedArg> args, DType dtype, std::vector<Expr> sizes) {
  return emit(target, std::move(args), dtype, std::move(sizes), 0, 1);
}

Drawn Drawing::to(const Drawn& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return emit("aten.to.dtype", {{"self", x}, {"dtype", dtype}, {"non_blocking", false}, {"copy", false}, {"memory_format", NoneArg{}}},
              dtype, x.sizes);
}

Drawn Drawing::bits(const std::vector<Expr>& sizes) {
  return emit(kRandomBits, {{"state", TensorRef{state_}}, {"slot", Expr(slot_++)}, {"size", sizes}}, DType::i64, sizes);
}
Drawn Drawing::some_bits(const Drawn& bits, int from, int count) {
  Drawn x = bits;
  if (from > 0) x = emit("aten.__rshift__.Scalar", {{"self", x}, {"other", Expr(from)}}, DType::i64, x.sizes);
  return emit("aten.bitwise_and.Scalar", {{"self", x}, {"other", Expr((int64_t{1} << count) - 1)}}, DType::i64, x.sizes);
}
Drawn Drawing::uniform(const std::vector<Expr>& sizes, DType dtype, bool open_at_0) {
  const int n = digits(dtype);
  Drawn x = some_bits(bits(sizes), 0, n);
  if (open_at_0) x = add(x, Expr(1));
  return mul(to(x, drawn_in(dtype)), std::ldexp(1.0, -n));
}
Drawn Drawing::normal(const std::vector<Expr>& sizes, DType dtype) {
  const DType t = drawn_in(dtype);
  const int n = t == DType::f64 ? 32 : 24;  // of the 64 for each of the two, exact in the type
  const Drawn all = bits(sizes);
  const Drawn u = mul(to(add(some_bits(all, 32, n), Expr(1)), t), std::ldexp(1.0, -n)),
              v = mul(to(some_bits(all, 0, n), t), std::ldexp(1.0, -n));
  const Drawn radius = unary("aten.sqrt.default", mul(unary("aten.log.default", u), -2.0));
  return mul(radius, unary("aten.cos.default", mul(v, 2 * std::numbers::pi)));
}
Drawn Drawing::exponential(const std::vector<Expr>& sizes, DType dtype) {
  return unary("aten.neg.default", unary("aten.log.default", uniform(sizes, drawn_in(dtype), true)));
}
Drawn Drawing::chance(const std::vector<Expr>& sizes, double p) {
  const Expr below(static_cast<int64_t>(std::ceil(std::ldexp(p, 53))));  // a whole number, which no type rounds
  return emit("aten.lt.Scalar", {{"self", some_bits(bits(sizes), 0, 53)}, {"other", below}}, DType::boolean, sizes);
}
Drawn Drawing::chance(const std::vector<Expr>& sizes, const Drawn& p) {
  const DType t = drawn_in(p.dtype);
  return emit("aten.lt.Tensor", {{"self", uniform(sizes, t)}, {"other", to(p, t)}}, DType::boolean, sizes);
}

}  // namespace aotc::import
