#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "graph/scalar.h"
#include "graph/text.h"
#include "sym/text_reader.h"

namespace aotc {
namespace {

bool name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }
bool is_name(std::string_view s) { return !s.empty() && std::all_of(s.begin(), s.end(), name_char); }

std::string element_text(DType t, const std::byte* p) {
  if (is_float(t)) {
    double v;
    load_f64(t, p, &v, 1);
    return t == DType::f64 ? real_text(v) : std::isfinite(v) ? fmt::format("{}", static_cast<float>(v)) : real_text(v);
  }
  int64_t v;
  load_i64(t, p, &v, 1);
  return is_bool(t) ? (v ? "true" : "false") : fmt::format("{}", v);
}

struct Printer {
  const Graph& g;
  const PrintOptions& opts;
  std::vector<std::string> names;
  std::set<std::string> used;
  std::string out;

  Printer(const Graph& graph, const PrintOptions& o) : g(graph), opts(o), names(graph.values.size()) {}

  void name_values() {
    auto give = [&](ValueId v) {
      if (!g.values.contains(v) || !names[idx(v)].empty() || g.values[v].name.empty()) return;
      std::string base;
      for (char c : g.values[v].name) base += name_char(c) ? c : '_';
      if (std::all_of(base.begin(), base.end(), [](char c) { return std::isdigit(static_cast<unsigned char>(c)); })) base = "v" + base;
      std::string name = base;
      for (int i = 1; !used.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
      names[idx(v)] = name;
    };
    for (const InputInfo& i : g.inputs) give(i.value);
    for (ValueId v : leaves(ValueKind::constant)) give(v);
    for (const StateInfo& s : g.states) give(s.value);
    for (NodeId id : g.order)
      for (ValueId v : g.nodes[id].outputs) give(v);
    int next = 0;
    auto number = [&](ValueId v) {
      if (g.values.contains(v) && names[idx(v)].empty()) names[idx(v)] = std::to_string(next++);
    };
    for (const InputInfo& i : g.inputs) number(i.value);
    for (ValueId v : leaves(ValueKind::constant)) number(v);
    for (const StateInfo& s : g.states) number(s.value);
    for (NodeId id : g.order)
      for (ValueId v : g.nodes[id].outputs) number(v);
  }

  /// Constant values that something uses, in id order.
  std::vector<ValueId> leaves(ValueKind kind) const {
    std::vector<bool> seen(g.values.size(), false);
    for (NodeId id : g.order)
      for (ValueId v : g.nodes[id].inputs) seen[idx(v)] = true;
    for (const OutputInfo& o : g.outputs) seen[idx(o.value)] = true;
    for (const StateInfo& s : g.states)
      if (g.values.contains(s.updated)) seen[idx(s.updated)] = true;
    std::vector<ValueId> all;
    for (uint32_t i = 0; i < g.values.size(); ++i)
      if (seen[i] && g.values.raw()[i].kind == kind) all.push_back(static_cast<ValueId>(i));
    return all;
  }

  std::string ref(ValueId v) const { return "%" + names[idx(v)]; }
  std::string text(const Expr& e) const { return e.str(g.syms); }

  void symbols() {
    for (uint32_t i = 0; i < g.syms.size(); ++i) {
      const SymInfo& s = g.syms[static_cast<SymId>(i)];
      if (s.kind != SymKind::shape) continue;
      out += symbol_text(s) + '\n';
    }
  }

  static std::string exchangeable_text(const ConstData& c) {
    return !c.exchangeable ? "" : c.bits ? fmt::format(" exchangeable bits {}", c.bits) : " exchangeable";
  }

  std::string data_text(const ConstData& c) const {
    if (c.exchangeable && !opts.exchangeable) return "";
    const int64_t count = c.type.elems().as_const().value_or(0);
    if (count == 0 || !has_data(c)) return "";
    if (count > 16 || is_complex(c.type.dtype)) return opts.constants ? " data " + opts.constants->put(c) : "";
    std::string s = " = [";
    for (int64_t i = 0; i < count; ++i) s += (i ? ", " : "") + element_text(c.type.dtype, c.data + i * dtype_bytes(c.type.dtype));
    return s + "]";
  }

  void edges_in() {
    for (const InputInfo& i : g.inputs) {
      out += fmt::format("input {} : {} {}", ref(i.value), print(g.type(i.value), g.syms), quoted_text(i.tree_path));
      if (names[idx(i.value)] != i.name) out += " name " + quoted_text(i.name);
      if (i.complex) out += " complex";
      out += '\n';
    }
    for (ValueId v : leaves(ValueKind::constant)) {
      const ConstData& c = g.constants[g.values[v].constant];
      out += fmt::format("const {} : {} {}{}{}\n", ref(v), print(c.type, g.syms), quoted_text(c.name), exchangeable_text(c), data_text(c));
    }
    for (const StateInfo& s : g.states) {
      out += fmt::format("state {} : {} {}", ref(s.value), print(s.type, g.syms), quoted_text(s.name));
      if (s.updated != kNone<ValueId>) out += " updated " + ref(s.updated);
      if (g.constants.contains(s.initial)) out += exchangeable_text(g.constants[s.initial]) + data_text(g.constants[s.initial]);
      out += '\n';
    }
    static constexpr std::string_view kKinds[] = {"eq", "le", "divisible"};
    for (const ShapeGuard& q : g.guards)
      out += fmt::format("guard {} {}, {} {}\n", kKinds[static_cast<size_t>(q.kind)], text(q.a), text(q.b), quoted_text(q.why));
  }

  void node(const Node& n) {
    std::string line;
    for (size_t i = 0; i < n.outputs.size(); ++i) line += (i ? ", " : "") + ref(n.outputs[i]);
    line += fmt::format(" = {}(", op_name(n.op));
    for (size_t i = 0; i < n.inputs.size(); ++i) line += (i ? ", " : "") + ref(n.inputs[i]);
    line += ")";
    std::string attrs;
    for (const auto& [a, v] : n.attrs) attrs += fmt::format("{}{}={}", attrs.empty() ? "" : ", ", attr_name(a), attr_text(v, g.syms));
    if (!attrs.empty()) line += " {" + attrs + "}";
    line += " : ";
    for (size_t i = 0; i < n.outputs.size(); ++i) line += (i ? ", " : "") + print(g.type(n.outputs[i]), g.syms);
    if (!n.name.empty()) line += " @" + (is_name(n.name) ? n.name : quoted_text(n.name));
    if (opts.source && !n.source.empty()) line += " " + quoted_text(n.source);
    out += line + '\n';
  }

  std::string run() {
    name_values();
    out = "graph @" + (is_name(g.name) ? g.name : quoted_text(g.name)) + '\n';
    symbols();
    edges_in();
    for (NodeId id : g.order)
      if (!g.nodes[id].dead) node(g.nodes[id]);
    for (const OutputInfo& o : g.outputs) {
      out += fmt::format("output {} {}", ref(o.value), quoted_text(o.name));
      if (!o.tree_path.empty()) out += " tree " + quoted_text(o.tree_path);
      if (o.alias_input >= 0) out += fmt::format(" alias_input {}", o.alias_input);
      if (!o.gradient_of.empty()) out += " gradient_of " + quoted_text(o.gradient_of);
      if (!o.found.empty()) out += " found " + list_text(o.found, g.syms);
      if (o.role == OutputRole::size) out += " size";
      if (o.role == OutputRole::check) out += " check";
      if (o.complex) out += " complex";
      out += '\n';
    }
    return out;
  }
};

}  // namespace

std::string attr_text(const AttrValue& v, const SymTable& syms) {
  struct Visitor {
    const SymTable& syms;
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(int64_t i) const { return fmt::format("{}", i); }
    std::string operator()(double d) const { return real_text(d); }
    std::string operator()(const std::string& s) const { return is_name(s) ? s : quoted_text(s); }
    std::string operator()(const Ints& v) const { return list_text(v); }
    std::string operator()(const Expr& e) const { return e.str(syms); }
    std::string operator()(const Exprs& v) const { return list_text(v, syms); }
  };
  return std::visit(Visitor{syms}, v);
}

std::string print(const TensorType& t, const SymTable& syms) { return std::string(dtype_name(t.dtype)) + list_text(t.dims, syms); }

std::string print(const Graph& g, const PrintOptions& options) { return Printer(g, options).run(); }

}  // namespace aotc
