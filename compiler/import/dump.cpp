#include <fmt/ranges.h>

#include "graph/guard.h"
#include "import/program.h"
#include "import/shared_storage.h"

namespace aotc::import {
namespace {

template <class T, class Fn>
std::string list(const std::vector<T>& v, Fn&& fn) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + fn(v[i]);
  return s + "]";
}

std::string sizes_text(const std::vector<Expr>& v, const SymTable& syms) {
  return list(v, [&](const Expr& e) { return e.str(syms); });
}

struct ArgText {
  const SymTable& syms;
  std::string operator()(const NoneArg&) const { return "None"; }
  std::string operator()(const TensorRef& t) const { return "%" + t.name; }
  std::string operator()(const TensorList& l) const {
    return list(l, [](const TensorRef& t) { return "%" + t.name; });
  }
  std::string operator()(const OptTensorList& l) const {
    return list(l, [](const std::optional<TensorRef>& t) { return t ? "%" + t->name : std::string("None"); });
  }
  std::string operator()(const Expr& e) const { return e.str(syms); }
  std::string operator()(const std::vector<Expr>& v) const { return sizes_text(v, syms); }
  std::string operator()(double d) const { return fmt::format("{:#}", d); }
  std::string operator()(const std::vector<double>& v) const {
    return list(v, [](double d) { return fmt::format("{:#}", d); });
  }
  std::string operator()(bool b) const { return b ? "True" : "False"; }
  std::string operator()(const std::vector<bool>& v) const {
    std::string s = "[";
    for (size_t i = 0; i < v.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", v[i] ? "True" : "False");
    return s + "]";
  }
  std::string operator()(const std::string& s) const { return fmt::format("\"{}\"", s); }
  std::string operator()(const std::vector<std::string>& v) const {
    return list(v, [](const std::string& s) { return fmt::format("\"{}\"", s); });
  }
  std::string operator()(DType d) const { return std::string(dtype_name(d)); }
  std::string operator()(const DeviceArg& d) const { return d.text; }
  std::string operator()(const LayoutArg& l) const { return l.text; }
  std::string operator()(const MemoryFormatArg& m) const { return m.text; }
  std::string operator()(const std::complex<double>& c) const { return fmt::format("{}+{}j", c.real(), c.imag()); }
  std::string operator()(const SubgraphArg& s) const { return fmt::format("@{}", s.index); }
  std::string operator()(const SymbolicArg& s) const { return fmt::format("{}<{}>", s.name, s.text); }
};

std::string type_text(const Program& p, const std::string& name) {
  const auto it = p.tensors.find(name);
  return it == p.tensors.end() ? "?" : fmt::format("{}{}", dtype_name(it->second.dtype), sizes_text(it->second.sizes, p.syms));
}

const char* kind_text(InputKind k) {
  constexpr const char* kNames[] = {"user", "parameter", "buffer", "constant", "scalar"};
  return kNames[static_cast<int>(k)];
}
const char* kind_text(OutputKind k) {
  constexpr const char* kNames[] = {"user", "buffer_mutation",    "user_input_mutation", "constant",
                                    "loss", "parameter_gradient", "input_gradient"};
  return kNames[static_cast<int>(k)];
}

void dump_into(const Program& p, const std::string& indent, std::string& out) {
  const ArgText text{p.syms};
  for (const ProgramInput& in : p.inputs) {
    out += fmt::format("{}input {} {}", indent, kind_text(in.kind), in.name);
    if (in.kind == InputKind::user_scalar)
      out += " = " + std::visit(text, in.constant);
    else
      out += ": " + type_text(p, in.name);
    if (!in.target.empty()) out += fmt::format(" from \"{}\"", in.target);
    if (!in.persistent) out += " not persistent";
    if (const std::string* state = state_of(p, in)) out += fmt::format(" in the memory of %{}", *state);
    if (!in.tree_path.empty()) out += " at " + in.tree_path;
    out += "\n";
  }
  for (const PNode& n : p.nodes) {
    out += indent;
    for (size_t i = 0; i < n.results.size(); ++i) {
      const Arg& r = n.results[i];
      out += (i ? ", " : "") + std::visit(text, r);
      if (const TensorRef* t = std::get_if<TensorRef>(&r)) out += ": " + type_text(p, t->name);
      if (const TensorList* l = std::get_if<TensorList>(&r); l && !l->empty()) out += ": " + type_text(p, l->front().name);
    }
    out += fmt::format("{}{}(", n.results.empty() ? "" : " = ", n.target);
    bool first = true;
    for (const NamedArg& a : n.args) {
      if (a.defaulted) continue;
      out += fmt::format("{}{}={}", first ? "" : ", ", a.name, std::visit(text, a.value));
      first = false;
    }
    out += ")";
    if (!n.module_path.empty()) out += "  in " + n.module_path;
    if (!n.source.empty()) out += "  # " + n.source;
    out += "\n";
  }
  for (const ProgramOutput& o : p.outputs) {
    out += fmt::format("{}output {} {}", indent, kind_text(o.kind), std::visit(text, o.value));
    if (!o.target.empty()) out += fmt::format(" to \"{}\"", o.target);
    if (!o.tree_path.empty()) out += " at " + o.tree_path;
    out += "\n";
  }
  for (size_t i = 0; i < p.subgraphs.size(); ++i) {
    out += fmt::format("{}subgraph @{}\n", indent, i);
    dump_into(p.subgraphs[i], indent + "  ", out);
  }
}

}  // namespace

std::string arg_text(const Arg& arg, const SymTable& syms) { return std::visit(ArgText{syms}, arg); }

std::string dump(const Program& p) {
  std::string out = fmt::format("program torch {} schema {}.{}\n", p.torch_version, p.schema_major, p.schema_minor);
  for (size_t i = 0; i < p.syms.size(); ++i) {
    const SymInfo& s = p.syms[static_cast<SymId>(i)];
    out += fmt::format("symbol {} in [{}, {}]\n", s.name, s.min, s.max == kInf ? "inf" : std::to_string(s.max));
  }
  for (const ShapeGuard& g : p.guards) out += fmt::format("guard {}\n", guard_text(g, p.syms));
  for (const OpenCondition& c : p.open_conditions) out += fmt::format("condition {}\n", c.text);
  dump_into(p, "", out);
  return out;
}

}  // namespace aotc::import
