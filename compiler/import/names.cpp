#include "import/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <set>

#include "import/shapes.h"

namespace aotc::import {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool all_digits(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); });
}
/// What export calls a size: "s0", "s77".
bool is_numbered_symbol(std::string_view name) { return name.size() > 1 && name[0] == 's' && all_digits(name.substr(1)); }

/// A name that is not taken yet: "x", "x_2", "x_3".
std::string fresh(const std::string& wanted, std::set<std::string>& taken) {
  std::string name = wanted;
  for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

/// Words of a text for which there is another.
std::string reworded(const std::string& text, const std::map<std::string, std::string>& with) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && is_word(text[end])) ++end;
    const auto it = end > i ? with.find(text.substr(i, end - i)) : with.end();
    if (end == i) ++end;
    out += it == with.end() ? text.substr(i, end - i) : it->second;
    i = end;
  }
  return out;
}

void name_symbols(Program& p) {
  std::set<std::string> taken;
  for (size_t s = 0; s < p.syms.size(); ++s) taken.insert(p.syms[static_cast<SymId>(s)].name);
  for (const ProgramInput& in : p.inputs) taken.insert(in.name);
  std::map<std::string, std::string> renamed;
  const auto give = [&](SymId s, const std::string& wanted) {
    SymInfo& info = p.syms.edit(s);
    if (!is_numbered_symbol(info.name)) return;
    const std::string old = info.name;
    info.name = fresh(wanted, taken);
    p.sym_ints.emplace(old, Expr::symbol(s));
    renamed.emplace(old, info.name);
  };
  for (const bool alone : {true, false})
    for (const ProgramInput& in : p.inputs) {
      const auto* number = std::get_if<Expr>(&in.constant);
      if (in.kind == InputKind::user_scalar && number && number->as_symbol() && !in.name.empty() && alone)
        give(*number->as_symbol(), in.name + "_value");
      if (in.kind != InputKind::user) continue;
      const std::vector<Expr>& sizes = p.tensors.at(in.name).sizes;
      for (size_t d = 0; d < sizes.size(); ++d)
        if (alone) {
          if (const auto s = sizes[d].as_symbol()) give(*s, fmt::format("{}_{}", in.name, d));
        } else {
          for (const SymId s : sizes[d].symbols()) give(s, fmt::format("{}_{}_part", in.name, d));
        }
    }
  if (renamed.empty()) return;
  std::function<void(Program&)> say = [&](Program& q) {
    for (ShapeGuard& g : q.guards) g.why = reworded(g.why, renamed);
    for (BranchGuard& b : q.branch_guards) b.guard.why = reworded(b.guard.why, renamed);
    for (OpenCondition& c : q.open_conditions) c.text = reworded(c.text, renamed), c.why = reworded(c.why, renamed);
    for (Program& sub : q.subgraphs) {
      sub.syms = p.syms;
      say(sub);
    }
  };
  say(p);
}

/// "layers.3." of "layers.3.lifted_tensor_89"; nothing where the tensor has a name of its own.
std::optional<std::string> module_of_lifted(const std::string& target) {
  constexpr std::string_view kLifted = "lifted_tensor_";
  const size_t dot = target.rfind('.'), last = dot == std::string::npos ? 0 : dot + 1;
  if (target.compare(last, kLifted.size(), kLifted) != 0 || !all_digits(std::string_view(target).substr(last + kLifted.size())))
    return std::nullopt;
  return target.substr(0, last);
}

/// The attribute that a statement begins with: "keys" of "self.keys.index_copy_(2, at, k)" and of "cache.keys[:, at] = k".
std::string written_attribute(const std::string& source) {
  const size_t colon = source.find(": ");
  std::string_view code = colon == std::string::npos ? std::string_view() : std::string_view(source).substr(colon + 2);
  std::vector<std::string_view> parts;
  size_t i = 0;
  while (i < code.size()) {
    size_t end = i;
    while (end < code.size() && is_word(code[end])) ++end;
    if (end == i || std::isdigit(static_cast<unsigned char>(code[i]))) return {};
    parts.push_back(code.substr(i, end - i));
    if (end == code.size() || code[end] != '.') {
      i = end;
      break;
    }
    i = end + 1;
  }
  while (i < code.size() && code[i] == ' ') ++i;
  if (i == code.size() || parts.empty()) return {};
  if (code[i] == '(') parts.pop_back();  // the method, of a tensor: what writes in place ends so
  if (code[i] == '(' && (code[i - 1] != '_' || parts.empty())) return {};
  if (code[i] != '(' && code[i] != '[' && code[i] != '=' && code[i] != '+' && code[i] != '*' && code[i] != '-' && code[i] != '/') return {};
  return parts.size() < 2 ? std::string() : std::string(parts.back());
}

/// The attribute in the line of the first node that has this tensor as its first argument and that tells it.
std::string attribute_of(const Program& p, const std::string& name) {
  for (const PNode& n : p.nodes) {
    if (n.args.empty()) continue;
    const auto* first = std::get_if<TensorRef>(&n.args[0].value);
    if (!first || first->name != name) continue;
    const std::string attribute = written_attribute(n.source);
    if (!attribute.empty()) return attribute;
  }
  return {};
}

/// The names that a statement gives to what a call makes of them: {"k", "v"} of "k, v = cache.update(k, v, at)".
std::vector<std::string> updated_names(const std::string& source) {
  const size_t colon = source.find(": "), equals = source.find(" = ", colon == std::string::npos ? 0 : colon);
  if (colon == std::string::npos || equals == std::string::npos) return {};
  std::set<std::string> used;  // on the right
  for (size_t i = equals + 3; i < source.size();) {
    size_t end = i;
    while (end < source.size() && is_word(source[end])) ++end;
    if (end > i) used.insert(source.substr(i, end - i));
    i = std::max(end, i + 1);
  }
  std::vector<std::string> names;
  for (size_t i = colon + 2; i < equals;) {
    size_t end = i;
    while (end < equals && is_word(source[end])) ++end;
    names.push_back(source.substr(i, end - i));
    if (!used.count(names.back()) || (end < equals && source.compare(end, 2, ", ") != 0)) return {};
    i = end + 2;
  }
  return names;
}

/// Names for tensors that are written in one line of one module, as many as that line updates, in the order of the writes.
std::map<std::string, std::string> names_of_updates(const Program& p, const std::map<std::string, std::string>& module_of) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> lines;  // (module, line): tensors
  std::set<std::string> seen;
  for (const PNode& n : p.nodes) {
    const auto* first = n.args.empty() ? nullptr : std::get_if<TensorRef>(&n.args[0].value);
    const auto module = first ? module_of.find(first->name) : module_of.end();
    if (module != module_of.end() && seen.insert(first->name).second) lines[{module->second, n.source}].push_back(first->name);
  }
  std::map<std::string, std::string> out;
  for (const auto& [line, tensors] : lines) {
    const std::vector<std::string> names = updated_names(line.second);
    for (size_t i = 0; i < tensors.size() && names.size() == tensors.size(); ++i) out.emplace(tensors[i], names[i]);
  }
  return out;
}

void name_states(Program& p) {
  std::set<std::string> written, taken;
  for (const ProgramOutput& o : p.outputs)
    if (o.kind == OutputKind::buffer_mutation) written.insert(o.target);
  for (const ProgramInput& in : p.inputs) taken.insert(in.target);
  std::map<std::string, int> numbers;
  std::map<std::string, std::string> renamed, module_of;
  for (const ProgramInput& in : p.inputs)
    if (const auto module = written.count(in.target) ? module_of_lifted(in.target) : std::nullopt;
        module && attribute_of(p, in.name).empty())
      module_of.emplace(in.name, *module);
  const std::map<std::string, std::string> updates = names_of_updates(p, module_of);
  for (const ProgramInput& in : p.inputs) {
    const bool data = in.kind != InputKind::user && in.kind != InputKind::user_scalar;
    const auto module = data && written.count(in.target) ? module_of_lifted(in.target) : std::nullopt;
    if (!module || renamed.count(in.target)) continue;
    std::string attribute = attribute_of(p, in.name);
    if (const auto it = updates.find(in.name); it != updates.end()) attribute = it->second;
    const std::string own = attribute.empty() ? fmt::format("state_{}", numbers[*module]++) : attribute;
    renamed.emplace(in.target, fresh(*module + own, taken));
  }
  if (renamed.empty()) return;
  const auto now = [&](std::string& name) {
    if (const auto it = renamed.find(name); it != renamed.end()) name = it->second;
  };
  for (ProgramInput& in : p.inputs)
    if (in.kind != InputKind::user) now(in.target);
  for (ProgramOutput& o : p.outputs)
    if (o.kind == OutputKind::buffer_mutation) now(o.target);
  for (SharedStorage& s : p.storages)
    for (std::string& t : s.targets) now(t);
  for (const auto& [old, name] : renamed) {
    if (auto node = p.data.extract(old)) node.key() = name, node.mapped().name = name, p.data.insert(std::move(node));
    if (auto node = p.data_meta.extract(old)) node.key() = name, p.data_meta.insert(std::move(node));
  }
}

}  // namespace

std::map<std::string, SymId> archive_symbols(const Program& p) {
  std::map<std::string, SymId> out;
  for (const auto& [name, e] : p.sym_ints)
    if (const auto s = e.as_symbol(); s && is_numbered_symbol(name) && p.syms[*s].name != name) out.emplace(name, *s);
  return out;
}

void name_parts(Program& p) {
  name_symbols(p);
  name_states(p);
}

}  // namespace aotc::import
