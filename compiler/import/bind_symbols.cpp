#include "import/bind_symbols.h"

namespace aotc::import {
namespace {

std::optional<int64_t> evaluate(const Expr& e, const std::map<SymId, int64_t>& known) {
  return e.try_eval([&](SymId s) -> std::optional<int64_t> {
    const auto it = known.find(s);
    if (it == known.end()) return std::nullopt;
    return it->second;
  });
}

}  // namespace

std::optional<std::pair<SymId, int64_t>> solve(const Expr& e, int64_t value, const std::map<SymId, int64_t>& known) {
  SymMap with;
  for (const auto& [s, v] : known) with.emplace(s, v);
  const Expr rest = e.substitute(with);
  const std::set<SymId> open = rest.symbols();
  if (open.size() != 1) return std::nullopt;
  const auto slope = rest.linear_coefficient(*open.begin());
  const auto offset = rest.substitute({{*open.begin(), Expr(0)}}).as_const();
  if (!slope || !slope->is_const() || !offset) return std::nullopt;
  const int64_t c = slope->as_const().value_or(0);
  if (c == 0 || (value - *offset) % c != 0) return std::nullopt;
  return std::pair{*open.begin(), (value - *offset) / c};
}

std::map<SymId, int64_t> bind_symbols(const Program& p, const std::vector<HostTensor>& inputs) {
  std::map<SymId, int64_t> known;
  std::vector<const ProgramInput*> users;
  for (const ProgramInput& in : p.inputs)
    if (in.kind == InputKind::user) users.push_back(&in);
  const auto fault = [&](std::string why) { return Diagnostic(ExitCode::usage, Loc{.file = p.file}, std::move(why)); };
  if (users.size() != inputs.size()) throw fault(fmt::format("{} inputs given, the program takes {}", inputs.size(), users.size()));
  for (size_t i = 0; i < users.size(); ++i) {
    const TensorMeta& m = p.tensors.at(users[i]->name);
    const HostTensor& t = inputs[i];
    if (t.dtype != m.dtype)
      throw fault(fmt::format("input {} is {}, the program takes {}", users[i]->name, dtype_name(t.dtype), dtype_name(m.dtype)));
    if (t.dims.size() != m.sizes.size())
      throw fault(fmt::format("input {} has {} dimensions, the program takes {}", users[i]->name, t.dims.size(), m.sizes.size()));
    for (size_t d = 0; d < t.dims.size(); ++d)
      if (const auto s = m.sizes[d].as_symbol()) known.emplace(*s, t.dims[d]);
  }
  for (size_t i = 0; i < users.size(); ++i) {
    const TensorMeta& m = p.tensors.at(users[i]->name);
    for (size_t d = 0; d < m.sizes.size(); ++d) {
      const int64_t got = inputs[i].dims[d];
      if (const auto bound = solve(m.sizes[d], got, known)) known.insert(*bound);
      const auto want = evaluate(m.sizes[d], known);
      if (!want || *want != got)
        throw fault(
            fmt::format("input {} has size {} in dimension {}, the program takes {}", users[i]->name, got, d, m.sizes[d].str(p.syms)));
    }
  }
  return known;
}

}  // namespace aotc::import
