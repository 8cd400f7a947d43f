// Assertions of the graph on sizes and on numbers found in data, as conditions that the compiler knows.
#include <algorithm>

#include "import/graph_reader.h"
#include "import/operands.h"
#include "import/size_conditions.h"

namespace aotc::import {
bool is_unbacked(const std::string& name) {
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const std::string kind = name.substr(0, digits);
  return digits < name.size() && (kind == "u" || kind == "zuf");
}

bool GraphReader::outside_branch(SymId s) const {
  const auto tells = [&](const Arg& a) {
    if (const auto* e = std::get_if<Expr>(&a)) return e->depends_on(s);
    bool any = false;
    each_tensor(a, [&](const std::string& name) {
      for (const Expr& e : p_.tensors.at(name).sizes) any = any || e.depends_on(s);
    });
    return any;
  };
  return std::any_of(p_.nodes.begin(), p_.nodes.begin() + static_cast<std::ptrdiff_t>(*branch_),
                     [&](const PNode& n) { return std::any_of(n.results.begin(), n.results.end(), tells); });
}

bool GraphReader::add_guard(const PNode& node) {
  if (node.target != "aten._assert_scalar.default" || node.args.empty()) return false;
  if (const bool* b = std::get_if<bool>(&node.args[0].value); b && *b) return true;
  const SymbolicArg* a = std::get_if<SymbolicArg>(&node.args[0].value);
  if (!a) return false;
  const Result<SymNode> tree = parse_sym(a->text);
  if (!tree) return false;
  const SymbolOf symbol = [this](const std::string& name) { return symbols_.of(name); };
  // Of numbers that are read out of tensors a condition need not be one on sizes: the run computes it.
  bool of_data = false, of_floats = false;
  for_each_symbol(*tree, [&](const std::string& name) {
    of_data = of_data || is_unbacked(name);
    of_floats = of_floats || name.rfind("zuf", 0) == 0;
  });
  const std::string* why = node.args.size() > 1 ? std::get_if<std::string>(&node.args[1].value) : nullptr;
  if (of_floats) return false;
  if (of_data) {
    Result<std::vector<ShapeGuard>> guards = guards_of(*tree, symbols_.table(), symbol);
    if (!guards) return false;
    if (branch_) {
      // A number that the branch reads is under its conditions; others are under them only where it is taken.
      bool own = true;
      for_each_symbol(*tree, [&](const std::string& name) {
        for (const SymId s : symbol(name).symbols()) own = own && !(is_unbacked(name) && outside_branch(s));
      });
      if (!own) return false;
      for (ShapeGuard& g : *guards) {
        g.why = why ? *why : a->text;
        p_.branch_guards.push_back({std::move(g), {}});
      }
      return true;
    }
  }
  const Loc at{.file = p_.file, .path = node.path, .node = node.name, .source = node.source};
  add_condition(p_, *tree, symbols_.table(), symbol, why ? *why : a->text, at);
  return true;
}

}  // namespace aotc::import
