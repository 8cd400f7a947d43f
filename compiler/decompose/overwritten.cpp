#include "decompose/overwritten.h"

#include <algorithm>

#include "base/words.h"
#include "import/aliases.h"
#include "import/operands.h"

namespace aotc::decompose {

using import::Arg;
using import::PNode;
using import::Program;

namespace {

bool mentions(const Arg& a, const std::string& name) {
  return any_tensor(a, [&](const std::string& t) { return t == name; });
}

/// Operators in place whose result does not depend on what stood there, and that take any size of the dim, counted from the last (0).
bool overwrites(const Program& p, const PNode& n, size_t dim) {
  static constexpr std::string_view kTargets = "aten.zero_.default aten.fill_.Scalar aten.fill_.Tensor";
  if (has_word(kTargets, n.target)) return true;
  if (n.target != "aten.copy_.default" || n.args.size() < 2) return false;
  const auto* src = std::get_if<import::TensorRef>(&n.args[1].value);
  const auto type = src ? p.tensors.find(src->name) : p.tensors.end();
  if (type == p.tensors.end()) return false;
  const std::vector<Expr>& sizes = type->second.sizes;
  return sizes.size() <= dim || sizes[sizes.size() - 1 - dim].is(1);
}

/// Whether nothing but overwriting uses the tensor.
bool unread(const Program& p, const std::string& name, size_t dim) {
  for (const import::ProgramOutput& o : p.outputs)
    if (mentions(o.value, name)) return false;
  return std::all_of(p.nodes.begin(), p.nodes.end(), [&](const PNode& n) {
    for (size_t i = 0; i < n.args.size(); ++i)
      if (mentions(n.args[i].value, name) && !(i == 0 && overwrites(p, n, dim))) return false;
    if (n.args.empty() || !overwrites(p, n, dim) || !mentions(n.args[0].value, name)) return true;
    const std::vector<std::string> results = import::result_names(n);
    return std::all_of(results.begin(), results.end(), [&](const std::string& r) { return unread(p, r, dim); });
  });
}

bool constant_bound(const PNode& n, std::string_view name) {
  for (const import::NamedArg& a : n.args)
    if (a.name == name) {
      const auto* e = std::get_if<Expr>(&a.value);
      return std::holds_alternative<import::NoneArg>(a.value) || (e && e->is_const());
    }
  return true;
}

}  // namespace

bool is_used(const Program& p, const std::string& name) {
  const auto reads = [&](const PNode& n) {
    return std::any_of(n.args.begin(), n.args.end(), [&](const import::NamedArg& a) { return mentions(a.value, name); });
  };
  return std::any_of(p.nodes.begin(), p.nodes.end(), reads) ||
         std::any_of(p.outputs.begin(), p.outputs.end(), [&](const import::ProgramOutput& o) { return mentions(o.value, name); });
}

bool only_overwritten(const Program& p, const PNode& node) {
  if (node.target != "aten.slice.Tensor" || !constant_bound(node, "start") || !constant_bound(node, "end")) return false;
  const std::vector<std::string> results = import::result_names(node);
  const auto type = results.size() == 1 ? p.tensors.find(results[0]) : p.tensors.end();
  if (type == p.tensors.end()) return false;
  const size_t rank = type->second.sizes.size();
  const std::optional<size_t> dim = import::dim_of(node, rank);
  return dim && unread(p, results[0], rank - 1 - *dim);
}

}  // namespace aotc::decompose
