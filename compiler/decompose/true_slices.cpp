#include "decompose/true_slices.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/words.h"
#include "import/operands.h"

namespace aotc::decompose {
namespace {

/// Operators whose rules compute the sizes of the result from those of the operands alone, as the operator itself does: element by element
/// of one shape or broadcast, along one dim, rows by a matrix, sums.
constexpr std::string_view kByElement = "abs add clone cos detach div exp gelu mul neg relu rsub sin silu sigmoid softmax sqrt sub tanh";
constexpr std::string_view kRows = "linear mm matmul";
constexpr std::string_view kSums = "sum mean";

std::string_view base_of(std::string_view target) {
  if (target.rfind("aten.", 0) != 0) return {};
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

bool is_slice(const import::PNode& n) {
  return n.target == "aten.slice.Tensor" && n.results.size() == 1 && std::holds_alternative<import::TensorRef>(n.results[0]);
}

bool equal(const Need& a, const Need& b) {
  return a.guard.kind == b.guard.kind && a.guard.a == b.guard.a && a.guard.b == b.guard.b && a.node->name == b.node->name;
}

using Sizes = std::vector<Expr>;

const Sizes* sizes_of(const import::Program& p, const import::Arg& a) {
  const auto* t = std::get_if<import::TensorRef>(&a);
  const auto it = t ? p.tensors.find(t->name) : p.tensors.end();
  return it == p.tensors.end() ? nullptr : &it->second.sizes;
}

/// The result's sizes of operands that are broadcast; nothing where two differ and neither is 1.
std::optional<Sizes> broadcast(const import::Program& p, const import::PNode& n) {
  Sizes out;
  for (const import::NamedArg& a : n.args) {
    const Sizes* s = sizes_of(p, a.value);
    if (!s) continue;
    if (s->size() > out.size()) out.insert(out.begin(), s->size() - out.size(), Expr(1));
    for (size_t i = 0; i < s->size(); ++i) {
      const Expr& d = (*s)[s->size() - 1 - i];
      Expr& mine = out[out.size() - 1 - i];
      if (mine.is(1))
        mine = d;
      else if (!d.is(1) && d != mine)
        return std::nullopt;
    }
  }
  return out;
}

/// The sizes of the result of an operator, the operands of which are as `p` has them: nothing where that is not known here.
std::optional<Sizes> sizes_of_result(const import::Program& p, const import::PNode& n) {
  const std::string_view base = base_of(n.target);
  if (n.results.size() != 1 || n.args.empty()) return std::nullopt;
  const Sizes* stated = sizes_of(p, n.results[0]);
  const Sizes* first = sizes_of(p, n.args[0].value);
  if (!stated) return std::nullopt;
  if (has_word(kByElement, base)) return broadcast(p, n);
  if (has_word(kSums, base)) return *stated;  // the rule refuses what differs
  if (has_word(kRows, base) && first && first->size() == stated->size() && first->size() > 1) {
    for (size_t i = 1; i < n.args.size(); ++i)
      if (const Sizes* s = sizes_of(p, n.args[i].value))
        if (!std::all_of(s->begin(), s->end(), [](const Expr& d) { return d.is_const(); })) return std::nullopt;
    if (!first->back().is_const()) return std::nullopt;
    Sizes out(first->begin(), first->end() - 1);
    out.push_back(stated->back());
    return out;
  }
  if (base == "cat") {
    const auto* parts = std::get_if<import::TensorList>(&n.args[0].value);
    const std::optional<size_t> dim = import::dim_of(n, stated->size());
    if (!parts || !dim) return std::nullopt;
    Sizes out = *stated;
    out[*dim] = 0;
    for (const import::TensorRef& t : *parts) {
      const Sizes& s = p.tensors.at(t.name).sizes;
      if (s.size() != out.size()) return std::nullopt;
      out[*dim] += s[*dim];
    }
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<import::Program> with_true_slices(const import::Program& program, const std::vector<Need>& needs) {
  std::map<std::string, std::pair<Expr, Expr>> lengths;  // result of a slice → stated and own
  for (const Need& n : needs) {
    const auto* result = is_slice(*n.node) ? std::get_if<import::TensorRef>(&n.node->results[0]) : nullptr;
    if (result && n.guard.kind == ShapeGuard::Kind::eq && n.guard.b.as_const())
      lengths.emplace(result->name, std::pair(n.guard.b, n.guard.a));
  }
  if (lengths.empty()) return std::nullopt;
  import::Program p = program;
  std::set<std::string> follow;
  const auto follows = [&](const std::string& t) { return follow.count(t) != 0; };
  for (const import::PNode& n : p.nodes) {
    if (std::any_of(n.args.begin(), n.args.end(), [&](const import::NamedArg& a) { return import::any_tensor(a.value, follows); })) {
      std::optional<Sizes> sizes = sizes_of_result(p, n);
      if (!sizes) return std::nullopt;
      const std::string& r = std::get<import::TensorRef>(n.results[0]).name;
      p.tensors.at(r).sizes = std::move(*sizes);
      follow.insert(r);
    }
    const auto own = is_slice(n) ? lengths.find(std::get<import::TensorRef>(n.results[0]).name) : lengths.end();
    if (own == lengths.end()) continue;
    Sizes& sizes = p.tensors.at(own->first).sizes;
    const std::optional<size_t> dim = import::dim_of(n, sizes.size());
    if (!dim || sizes[*dim] != own->second.first) return std::nullopt;
    sizes[*dim] = own->second.second;
    follow.insert(own->first);
  }
  return p;
}

bool demands_less(const std::vector<Need>& now, const std::vector<Need>& before) {
  return now.size() < before.size() && std::all_of(now.begin(), now.end(), [&](const Need& n) {
           return std::any_of(before.begin(), before.end(), [&](const Need& b) { return equal(n, b); });
         });
}

}  // namespace aotc::decompose
