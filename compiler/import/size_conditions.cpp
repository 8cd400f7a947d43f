#include "import/size_conditions.h"

#include <algorithm>

#include "graph/guard.h"
#include "import/shapes.h"
#include "import/signature.h"
#include "import/sym_eval.h"

namespace aotc::import {
namespace {

constexpr size_t kLongestText = 240;              ///< of a condition, where it is shown
constexpr int64_t kMostSizes = int64_t{1} << 20;  ///< that are tried for one condition

std::string shortened(std::string s) {
  std::replace(s.begin(), s.end(), '\n', ' ');
  if (s.size() > kLongestText) s = s.substr(0, kLongestText - 3) + "...";
  return s;
}

bool is_suffix(std::string_view s, std::string_view end) { return s.size() >= end.size() && s.substr(s.size() - end.size()) == end; }

/// "L['x']['k'][0].f" → "x_k_0_f", as export names the graph's inputs.
std::string graph_name(std::string_view source) {
  std::string out;
  for (size_t i = 1; i < source.size(); ++i) {
    const char c = source[i];
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      out += c;
    else if (!out.empty() && out.back() != '_' && (c == '[' || c == '.'))
      out += '_';
  }
  while (!out.empty() && out.back() == '_') out.pop_back();
  return out;
}

/// The sizes that guards speak of: "L['x'].size()[2]" by the paths of the inputs in the call.
class Sources {
 public:
  Sources(const JsonRef& graph_module, const Program& p) : p_(p) {
    const std::vector<std::string> names = positional_names(graph_module);
    size_t leaf = 0;
    for (const ProgramInput& in : p.inputs) {
      if (in.kind != InputKind::user && in.kind != InputKind::user_scalar) continue;
      inputs_.emplace(fmt::format("L['flat_args'][{}]", leaf++), &in);
      if (!in.name.empty()) by_graph_name_.emplace(in.name, &in);
      add_path(in, names);
    }
  }

  struct Size {
    Expr size;
    std::string text;  ///< "x.size()[2]"
  };
  std::optional<Size> find(const std::string& source) const {
    const size_t at = source.find(".size()[");
    if (at != std::string::npos && source.back() == ']') {
      const ProgramInput* in = input(source.substr(0, at));
      const std::string_view index = std::string_view(source).substr(at + 8, source.size() - at - 9);
      if (!in || in->kind != InputKind::user || index.empty() || index.size() > 2) return std::nullopt;
      size_t d = 0;
      for (const char c : index) {
        if (c < '0' || c > '9') return std::nullopt;
        d = d * 10 + static_cast<size_t>(c - '0');
      }
      const std::vector<Expr>& sizes = p_.tensors.at(in->name).sizes;
      if (d >= sizes.size()) return std::nullopt;
      return Size{sizes[d], fmt::format("{}.size()[{}]", in->name, d)};
    }
    const size_t stride = source.find(".stride()[");
    if (stride != std::string::npos) return dense_stride(source, stride);
    if (is_suffix(source, ".storage_offset()")) return Size{0, source};
    const ProgramInput* in = input(source);
    const Expr* e = in ? std::get_if<Expr>(&in->constant) : nullptr;
    if (!e) return std::nullopt;
    return Size{*e, in->name};
  }

 private:
  /// Artifacts take dense tensors.
  std::optional<Size> dense_stride(const std::string& source, size_t at) const {
    const ProgramInput* in = input(source.substr(0, at));
    if (!in || in->kind != InputKind::user) return std::nullopt;
    const std::vector<Expr>& sizes = p_.tensors.at(in->name).sizes;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (source.substr(at) == fmt::format(".stride()[{}]", d))
        return Size{product({sizes.begin() + static_cast<int64_t>(d) + 1, sizes.end()}), fmt::format("{}.stride()[{}]", in->name, d)};
    return std::nullopt;
  }

  const ProgramInput* input(const std::string& source) const {
    if (const auto it = inputs_.find(source); it != inputs_.end()) return it->second;
    const auto it = by_graph_name_.find(graph_name(source));
    return it == by_graph_name_.end() ? nullptr : it->second;
  }

  /// "args[1]['k']" → "L['name of the second argument']['k']", "kwargs['m'][0]" → "L['m'][0]".
  void add_path(const ProgramInput& in, const std::vector<std::string>& names) {
    const std::string& path = in.tree_path;
    if (path.compare(0, 7, "kwargs[") == 0) inputs_.emplace("L" + path.substr(6), &in);
    if (path.compare(0, 5, "args[") != 0) return;
    const size_t end = path.find(']');
    const size_t number = static_cast<size_t>(std::strtoul(path.c_str() + 5, nullptr, 10));
    if (end == std::string::npos || number >= names.size()) return;
    const std::string &name = names[number], rest = path.substr(end + 1);
    inputs_.emplace(fmt::format("L['{}']{}", name, rest), &in);
    // A variable argument: *args are args_0, args_1 ...
    const size_t line = name.rfind('_');
    if (line != std::string::npos && line > 0 && line + 1 < name.size() &&
        name.find_first_not_of("0123456789", line + 1) == std::string::npos)
      inputs_.emplace(fmt::format("L['{}'][{}]{}", name.substr(0, line), name.substr(line + 1), rest), &in);
  }

  const Program& p_;
  std::map<std::string, const ProgramInput*> inputs_, by_graph_name_;
};

std::string without_sources(std::string text, const std::map<std::string, std::string>& names) {
  for (const auto& [source, name] : names)
    for (size_t at = text.find(source); at != std::string::npos; at = text.find(source, at + name.size()))
      text.replace(at, source.size(), name);
  return text;
}

/// Values of one symbol (or of none) at which a condition is asked.
class Decision {
 public:
  Decision(Program& p, const OpenCondition& c) : p_(p), c_(c) {
    for (const auto& [name, e] : c.sizes) open_.merge(e.symbols());
  }

  void run() {
    if (open_.empty()) return check(at(0));
    if (open_.size() > 1) return try_all();
    narrow(*open_.begin());
  }

 private:
  Diagnostic fault(ExitCode code, const std::string& what) const {
    return {code, c_.loc, fmt::format("the condition of the archive on its inputs' sizes {}: {}", what, c_.text)};
  }
  [[noreturn]] void stays_open() const {
    throw fault(ExitCode::unsupported, fmt::format("cannot be made a guard ({})", c_.why))
        .note("give these sizes as numbers, or a range of at most a million of them, in shapes.json");
  }

  Truth at(int64_t value) const {
    return evaluate_condition(c_.tree, [&](const std::string& name) -> std::optional<int64_t> {
      const auto it = c_.sizes.find(name);
      if (it == c_.sizes.end()) return std::nullopt;
      return it->second.try_eval([&](SymId s) -> std::optional<int64_t> {
        const auto known = point_.find(s);
        return known == point_.end() ? value : known->second;
      });
    });
  }
  void check(Truth t) const {
    if (t == Truth::unknown) stays_open();
    if (t != Truth::yes) throw fault(ExitCode::bad_input, "is not met by the sizes given");
  }

  struct Values {
    int64_t first, step, count;  ///< count: at most kMostSizes + 1
    int64_t last() const { return first + (count - 1) * step; }
  };
  Values values_of(SymId s) const {
    const SymInfo& i = p_.syms[s];
    const int64_t first = (i.min + i.multiple_of - 1) / i.multiple_of * i.multiple_of;
    return {first, i.multiple_of, std::min((i.max - first) / i.multiple_of, kMostSizes) + 1};
  }

  /// More than one symbol: it must hold for all their values together.
  void try_all() {
    int64_t points = 1;
    for (const SymId s : open_)
      if ((points *= values_of(s).count) > kMostSizes) stays_open();
    for (int64_t n = 0; n < points; ++n) {
      int64_t rest = n;
      for (const SymId s : open_) {
        const Values v = values_of(s);
        point_[s] = v.first + rest % v.count * v.step;
        rest /= v.count;
      }
      if (at(0) != Truth::yes) stays_open();
    }
  }

  /// The longest run of sizes at which it holds becomes the range; one that has a size to tune for goes first.
  void narrow(SymId s) {
    const SymInfo& info = p_.syms[s];
    const Values all = values_of(s);
    int64_t best_from = 0, best_to = -1, from = 0;
    bool tuned = false, in_run = false;
    const auto close = [&](int64_t to) {
      const bool has_tune = std::any_of(info.tune.begin(), info.tune.end(), [&](int64_t t) { return from <= t && t <= to; });
      if (std::pair(has_tune, to - from) > std::pair(tuned, best_to - best_from)) best_from = from, best_to = to, tuned = has_tune;
    };
    for (int64_t v = all.first; v <= all.last(); v += all.step) {
      const Truth t = at(v);
      if (t == Truth::unknown) stays_open();
      if (t == Truth::yes && !in_run) from = v;
      if (t != Truth::yes && in_run) close(v - all.step);
      in_run = t == Truth::yes;
    }
    if (in_run) close(all.last());
    if (best_to < best_from) throw fault(ExitCode::bad_input, fmt::format("is met by no size of {}", info.name));
    SymInfo& narrowed = p_.syms.edit(s);
    narrowed.min = best_from;
    narrowed.max = best_to;
  }

  Program& p_;
  const OpenCondition& c_;
  std::set<SymId> open_;
  std::map<SymId, int64_t> point_;
};

}  // namespace

void add_condition(Program& program, const SymNode& tree, const SymTable& syms, const SymbolOf& symbol, std::string text, const Loc& loc) {
  text = shortened(std::move(text));
  const Result<std::vector<ShapeGuard>> guards = guards_of(tree, syms, symbol);
  if (guards) {
    for (ShapeGuard g : *guards) {
      g.why = text;
      const bool known = std::any_of(program.guards.begin(), program.guards.end(),
                                     [&](const ShapeGuard& o) { return o.kind == g.kind && o.a == g.a && o.b == g.b; });
      if (!known) program.guards.push_back(std::move(g));
    }
    return;
  }
  OpenCondition open{tree, {}, std::move(text), guards.why(), loc};
  for_each_symbol(tree, [&](const std::string& name) { open.sizes.emplace(name, symbol(name)); });
  program.open_conditions.push_back(std::move(open));
}

void read_guards_code(const JsonRef& model, const JsonRef& graph_module, const SymTable& syms, Program& program) {
  program.states_guards = model.has("guards_code");
  if (!program.states_guards) return;
  const JsonRef guards = model["guards_code"];
  const Sources sources(graph_module, program);
  std::set<std::string> seen;
  for (size_t i = 0, n = guards.size(); i < n; ++i) {
    const JsonRef where = guards.at(i);
    const std::string text = where.text();
    if (!seen.insert(text).second) continue;
    const auto fault = [&](const std::string& why) {
      return Diagnostic(ExitCode::unsupported, where.fault("").loc(),
                        fmt::format("the guard of the archive on its inputs' sizes cannot be read, {}: {}", why, shortened(text)))
          .note("without it the artifact could take sizes that the exported program refuses");
    };
    const Result<SymNode> tree = parse_sym(text);
    if (!tree) throw fault(tree.why());
    // Artifacts take tensors that are views of nothing: what export saw of the tensor that the example's was a part of is no condition.
    bool of_base = false;
    for_each_symbol(*tree, [&](const std::string& source) { of_base |= source.find("]._base.") != std::string::npos; });
    if (of_base) continue;
    std::map<std::string, std::string> names;
    const SymbolOf size = [&](const std::string& source) {
      const auto found = sources.find(source);
      if (!found) throw fault(source + " is not a size of an input");
      names[source] = found->text;
      return found->size;
    };
    for_each_symbol(*tree, [&](const std::string& source) { size(source); });
    add_condition(program, *tree, syms, size, "the model was exported for sizes with " + without_sources(text, names),
                  where.fault("").loc());
  }
}

std::string unstated_conditions(const Program& program) {
  if (program.states_guards || input_symbols(program).empty()) return "";
  return fmt::format(
      "the archive (of torch {}) does not say what export assumed about sizes: where the model's own code depends on a size (a branch, a "
      "rounded root), the artifact goes the example's way at all sizes; export with torch 2.11 or later, or narrow the sizes with --shapes",
      program.torch_version.empty() ? "an unknown version" : program.torch_version);
}

bool may_be_negative(const Program& program, const ShapeGuard& q) {
  return std::any_of(program.least.begin(), program.least.end(),
                     [&](const auto& s) { return q.a.depends_on(s.first) || q.b.depends_on(s.first); });
}

void decide_conditions(Program& program) {
  for (const OpenCondition& c : program.open_conditions) Decision(program, c).run();
  program.open_conditions.clear();
}

}  // namespace aotc::import
