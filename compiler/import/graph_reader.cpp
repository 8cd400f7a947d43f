#include "import/graph_reader.h"

#include "import/aliases.h"
#include "import/autocast.h"

#include <algorithm>

#include "import/convert_arg.h"
#include "import/hidden_writes.h"
#include "import/metadata.h"
#include "import/sym_text.h"
#include "sym/parts.h"

namespace aotc::import {
namespace {

constexpr int kMaxGraphDepth = 16;
constexpr size_t kTextOfAPart = 8;  ///< of an expression, about

bool starts_with(std::string_view s, std::string_view prefix) { return s.substr(0, prefix.size()) == prefix; }

std::string target_name(std::string target) {
  if (starts_with(target, "torch.ops.")) return target.substr(10);
  if (starts_with(target, "_operator.")) return target.substr(1);
  return target;
}

/// Arithmetic on sizes: without effect once its results are Exprs.
bool is_scalar_op(std::string_view target) {
  for (const std::string_view p :
       {"operator.", "math.", "torch.sym_", "aten.sym_size.", "aten.sym_stride.", "aten.sym_numel.", "aten.sym_storage_offset."})
    if (starts_with(target, p)) return true;
  return false;
}

}  // namespace

bool makes_symbol(const PNode& n) {
  const Expr* e = is_scalar_op(n.target) && n.results.size() == 1 ? std::get_if<Expr>(&n.results[0]) : nullptr;
  return e && e->as_symbol() &&
         std::any_of(n.args.begin(), n.args.end(), [](const NamedArg& a) { return std::holds_alternative<SymbolicArg>(a.value); });
}

namespace {

/// Operators that run a subgraph and mean nothing else.
struct Wrapper {
  std::string_view target;
  bool (*applies)(const std::vector<Arg>& before_graph);
};
bool always(const std::vector<Arg>&) { return true; }
bool known_autocast(const std::vector<Arg>& args) { return autocast_region(args).has_value(); }
constexpr Wrapper kWrappers[] = {
    {"higher_order.wrap_with_set_grad_enabled", always},
    {"higher_order.wrap_with_autocast", known_autocast},
    {"higher_order.invoke_subgraph", always},
    {"higher_order.tag_activation_checkpoint", always},
    {"higher_order.wrap_activation_checkpoint", always},
    {"higher_order.strict_mode", always},
};

/// The operator of a with_effects node.
std::string effect_of(const JsonRef& inputs) {
  if (inputs.size() < 2) throw inputs.fault("an effect without an operator");
  const auto [tag, v] = inputs.at(1)["arg"].tagged();
  if (tag != "as_operator") throw inputs.at(1).fault("the operator of an effect is not known");
  return target_name(v.text());
}

std::string memory_format_text(const JsonRef& v) {
  switch (v.integer()) {
    case 1: return "contiguous";
    case 2: return "channels_last";
    case 3: return "channels_last_3d";
    case 4: return "preserve";
    default: throw v.fault("unknown memory format");
  }
}

std::string device_text(const JsonRef& v) {
  const std::string type = v["type"].text();
  return v.has("index") ? fmt::format("{}:{}", type, v["index"].integer()) : type;
}

template <class T, class Fn>
std::vector<T> list_of(const JsonRef& v, Fn&& fn) {
  std::vector<T> r;
  for (size_t i = 0, n = v.size(); i < n; ++i) r.push_back(fn(v.at(i)));
  return r;
}

struct DTypeCode {
  int64_t code;
  DType dtype;
};
constexpr DTypeCode kDTypeCodes[] = {
    {1, DType::u8},       {2, DType::i8},    {3, DType::i16},       {4, DType::i32},     {5, DType::i64},
    {6, DType::f16},      {7, DType::f32},   {8, DType::f64},       {10, DType::c64},    {11, DType::c128},
    {12, DType::boolean}, {13, DType::bf16}, {29, DType::f8e4m3fn}, {30, DType::f8e5m2},
};
struct OtherDType {
  int64_t code;
  std::string_view name;
};
constexpr OtherDType kOtherDTypes[] = {
    {9, "complex32"},       {28, "uint16"}, {31, "float8_e4m3fnuz"}, {32, "float8_e5m2fnuz"},
    {33, "float8_e8m0fnu"}, {34, "uint32"}, {35, "uint64"},
};

}  // namespace

DType read_dtype(const JsonRef& v) {
  const int64_t code = v.integer();
  for (const DTypeCode& d : kDTypeCodes)
    if (d.code == code) return d.dtype;
  std::string_view name = "unknown";
  for (const OtherDType& d : kOtherDTypes)
    if (d.code == code) name = d.name;
  throw Diagnostic(ExitCode::unsupported, v.fault("").loc(), fmt::format("element type {} ({}) is not supported", name, code));
}

void Symbols::set_range(const std::string& name, int64_t min, int64_t max) {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) it = by_name_.emplace(name, table_.add({.name = name})).first;
  table_.edit(it->second).min = min;
  table_.edit(it->second).max = max;
}
Expr Symbols::of(const std::string& name) {
  auto it = by_name_.find(name);
  if (it == by_name_.end()) it = by_name_.emplace(name, table_.add({.name = name})).first;
  return Expr::symbol(it->second);
}

Expr Symbols::parse(const std::string& text, const JsonRef& where) {
  if (auto it = parsed_.find(text); it != parsed_.end()) return it->second;
  const auto at = [&] { return where.fault("").loc(); };
  budget_.charge(Budget::Kind::size_parts, static_cast<int64_t>(text.size() / kTextOfAPart), at);
  const Result<Expr> e = parse_sym_text(text, table_, [this](const std::string& name) { return of(name); });
  if (e) budget_.charge(Budget::Kind::size_parts, sym::parts(*e), at);
  if (!e)
    throw Diagnostic(ExitCode::unsupported, where.fault("").loc(),
                     fmt::format("the size \"{}\" cannot be read: {}", text.substr(0, 200), e.why()));
  return parsed_.emplace(text, table_.simplify(*e)).first->second;
}
Expr Symbols::read(const JsonRef& v) {
  const auto [tag, x] = v.tagged();
  if (tag == "as_int") return x.integer();
  if (tag == "as_expr") {
    const Expr e = parse(x["expr_str"].text(), x);
    if (const auto s = e.as_symbol(); s && x.has("hint") && x["hint"].has("as_int"))
      table_.edit(*s).exported = x["hint"]["as_int"].integer();
    return e;
  }
  throw v.fault(fmt::format("unknown kind of size \"{}\"", tag));
}

TensorMeta read_tensor_meta(const JsonRef& m, Symbols& symbols) {
  TensorMeta t;
  t.dtype = read_dtype(m["dtype"]);
  const auto read = [&](const JsonRef& v) { return symbols.read(v); };
  t.sizes = list_of<Expr>(m["sizes"], read);
  t.strides = list_of<Expr>(m["strides"], read);
  t.storage_offset = symbols.read(m["storage_offset"]);
  t.requires_grad = m.has("requires_grad") && m["requires_grad"].boolean();
  if (m["layout"].integer() != 7)
    throw Diagnostic(ExitCode::unsupported, m.fault("").loc(), "only strided tensors are supported, this one is sparse");
  if (t.sizes.size() > 64) throw m.fault("a tensor of more than 64 dimensions");
  if (t.sizes.size() != t.strides.size()) throw m.fault("a tensor with another number of strides than of sizes");
  for (const Expr& e : t.sizes)
    if (const auto c = e.as_const(); c && *c < 0) throw m.fault(fmt::format("a negative size {}", *c));
  return t;
}

Loc GraphReader::loc(const JsonRef& where, const PNode* node) const {
  Loc l = where.fault("").loc();
  if (node) {
    l.node = node->name;
    l.source = node->source;
  }
  return l;
}

void GraphReader::read(const JsonRef& graph) {
  read_values(graph, top_);
  read_inputs(graph, top_);
  const JsonRef nodes = graph["nodes"];
  for (size_t i = 0, n = nodes.size(); i < n; ++i) read_node(nodes.at(i), top_);
}

Arg GraphReader::value(const JsonRef& argument) { return read_arg(argument, top_); }

void GraphReader::read_values(const JsonRef& graph, Scope& s) {
  const JsonRef tensors = graph["tensor_values"];
  for (const auto& [name, meta] : tensors.object().items()) {
    if (s.bound.count(name)) continue;
    p_.tensors.emplace(s.prefix + name, read_tensor_meta(tensors.member(name, meta), symbols_));
  }
  const JsonRef ints = graph["sym_int_values"];
  for (const auto& [name, v] : ints.object().items()) {
    const Expr e = symbols_.read(ints.member(name, v));
    s.sym_ints.insert_or_assign(name, e);
    p_.sym_ints.emplace(s.prefix + name, e);
  }
  for (const char* key : {"sym_float_values", "sym_bool_values"}) {
    if (!graph.has(key)) continue;
    const JsonRef values = graph[key];
    for (const auto& [name, v] : values.object().items()) {
      const auto [tag, x] = values.member(name, v).tagged();
      s.sym_texts[name] = tag == "as_expr" ? x["expr_str"].text() : x.raw().dump();
    }
  }
}

void GraphReader::read_inputs(const JsonRef& graph, Scope& s) {
  const JsonRef inputs = graph["inputs"];
  for (size_t i = 0, n = inputs.size(); i < n; ++i) {
    const auto [tag, v] = inputs.at(i).tagged();
    if (tag == "as_tensor") define(v["name"].text(), s, v);
  }
}

TensorRef GraphReader::define(const std::string& name, Scope& s, const JsonRef& where) {
  std::string full = s.prefix + name;
  if (const auto it = s.bound.find(name); it != s.bound.end())
    if (const TensorRef* t = std::get_if<TensorRef>(&it->second)) full = t->name;
  if (!defined_.insert(full).second) throw where.fault(fmt::format("the value '{}' is defined twice", name));
  if (!p_.tensors.count(full)) throw where.fault(fmt::format("the value '{}' has no entry in tensor_values", name));
  return {full};
}

Arg GraphReader::tensor(const std::string& name, const Scope& s, const JsonRef& where) const {
  const auto it = s.bound.find(name);
  const Arg a = it == s.bound.end() ? Arg(TensorRef{s.prefix + name}) : it->second;
  if (const TensorRef* t = std::get_if<TensorRef>(&a); t && !defined_.count(t->name))
    throw where.fault(fmt::format("the value '{}' is used before it is defined", name));
  return a;
}

std::optional<Expr> GraphReader::size_named(const std::string& name, const Scope& s) const {
  const auto size = s.sym_ints.find(name);
  return size == s.sym_ints.end() || s.bound.count(name) ? std::nullopt : std::optional(size->second);
}

Arg GraphReader::symbolic(const JsonRef& argument, Scope& s) {
  const auto [tag, v] = argument.tagged();
  if (tag == "as_int") return Expr(v.nearest_integer());  // beyond 64 bits: a limit that torch writes of a symbol
  if (tag == "as_float") return v.number();
  if (tag == "as_bool") return v.boolean();
  if (tag != "as_name") throw argument.fault(fmt::format("unknown kind of symbolic value \"{}\"", tag));
  const std::string name = v.text();
  if (const auto b = s.bound.find(name); b != s.bound.end()) return b->second;
  if (const auto i = s.sym_ints.find(name); i != s.sym_ints.end()) return i->second;
  if (const auto t = s.sym_texts.find(name); t != s.sym_texts.end()) return SymbolicArg{s.prefix + name, t->second};
  throw argument.fault(fmt::format("the symbolic value '{}' is not defined", name));
}

Arg GraphReader::read_arg(const JsonRef& argument, Scope& s) {
  const auto [tag, v] = argument.tagged();
  const auto as_ref = [&](const JsonRef& t) {
    const std::string name = t["name"].text();
    const Arg a = tensor(name, s, t);
    const TensorRef* r = std::get_if<TensorRef>(&a);
    if (!r) throw t.fault(fmt::format("the value '{}' is not a tensor", name));
    return *r;
  };
  const auto as_optional = [&](const JsonRef& o) -> std::optional<TensorRef> {
    const auto [kind, t] = o.tagged();
    if (kind == "as_none") return std::nullopt;
    return as_ref(t);
  };
  if (tag == "as_none") return NoneArg{};
  if (tag == "as_tensor") return tensor(v["name"].text(), s, v);
  if (tag == "as_tensors") {
    for (size_t k = 0, m = v.size(); k < m; ++k)
      if (size_named(v.at(k)["name"].text(), s)) return SymbolicArg{"", "a list of tensors and sizes"};
    return list_of<TensorRef>(v, as_ref);
  }
  if (tag == "as_optional_tensors") return list_of<std::optional<TensorRef>>(v, as_optional);
  if (tag == "as_optional_tensor") {
    if (const auto t = as_optional(v)) return *t;
    return NoneArg{};
  }
  if (tag == "as_int") return Expr(v.nearest_integer());  // beyond 64 bits: a limit that torch writes of a symbol
  if (tag == "as_ints") return list_of<Expr>(v, [](const JsonRef& x) { return Expr(x.integer()); });
  if (tag == "as_float") return v.number();
  if (tag == "as_floats") return list_of<double>(v, [](const JsonRef& x) { return x.number(); });
  if (tag == "as_bool") return v.boolean();
  if (tag == "as_bools") return list_of<bool>(v, [](const JsonRef& x) { return x.boolean(); });
  if (tag == "as_string") return v.text();
  if (tag == "as_strings") return list_of<std::string>(v, [](const JsonRef& x) { return x.text(); });
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return symbolic(v, s);
  if (tag == "as_sym_ints")
    return list_of<Expr>(v, [&](const JsonRef& x) {
      const Arg a = symbolic(x, s);
      const Expr* e = std::get_if<Expr>(&a);
      if (!e) throw x.fault("a size that is not an integer");
      return *e;
    });
  if (tag == "as_scalar_type") return read_dtype(v);
  if (tag == "as_memory_format") return MemoryFormatArg{memory_format_text(v)};
  if (tag == "as_layout") return LayoutArg{v.integer() == 7 ? "strided" : "sparse"};
  if (tag == "as_device") return DeviceArg{device_text(v)};
  if (tag == "as_complex") return std::complex<double>(v["real"].number(), v["imag"].number());
  if (tag == "as_operator") return v.text();
  if (tag == "as_custom_obj") return SymbolicArg{v["name"].text(), "custom object of class " + v["class_fqn"].text()};
  if (tag == "as_graph") {
    if (depth_ >= kMaxGraphDepth) throw v.fault(fmt::format("subgraphs nested deeper than {}", kMaxGraphDepth));
    Program sub;
    sub.file = p_.file;
    GraphReader reader(sub, symbols_, ops_);
    reader.depth_ = depth_ + 1;
    const JsonRef graph = v["graph"];
    reader.read(graph);
    const JsonRef inputs = graph["inputs"], outputs = graph["outputs"];
    for (size_t i = 0, n = inputs.size(); i < n; ++i) {
      const Arg a = reader.value(inputs.at(i));
      if (const TensorRef* t = std::get_if<TensorRef>(&a))
        sub.inputs.push_back({.kind = InputKind::user, .name = t->name});
      else
        sub.inputs.push_back({.kind = InputKind::user_scalar, .name = fmt::format("input_{}", i), .constant = a});
    }
    for (size_t i = 0, n = outputs.size(); i < n; ++i)
      sub.outputs.push_back({.kind = OutputKind::user, .value = reader.value(outputs.at(i))});
    drop_unused_scalar_nodes(sub);
    p_.subgraphs.push_back(std::move(sub));
    return SubgraphArg{v["name"].text(), p_.subgraphs.size() - 1};
  }
  std::string text = v.raw().dump();
  if (text.size() > 200) text = text.substr(0, 197) + "...";
  return SymbolicArg{"", tag + " " + text};  // a form that no operator of PyTorch takes
}

std::vector<NamedArg> GraphReader::read_args(const JsonRef& inputs, size_t first, const OpSchema* schema, Scope& s, const Loc& at) {
  std::vector<NamedArg> given;
  std::map<std::string, size_t> places;
  for (size_t i = first, n = inputs.size(); i < n; ++i) {
    const JsonRef in = inputs.at(i);
    std::string name = in["name"].text();
    if (name.empty()) name = schema && i - first < schema->params.size() ? schema->params[i - first].name : std::to_string(i - first);
    if (!places.emplace(name, given.size()).second) throw Diagnostic(at, fmt::format("the argument '{}' is given twice", name));
    given.push_back({std::move(name), read_arg(in["arg"], s)});
  }
  if (!schema) return given;
  std::vector<NamedArg> args;
  for (const OpParam& p : schema->params) {
    if (const auto it = places.find(p.name); it != places.end()) {
      args.push_back(std::move(given[it->second]));
      places.erase(it);
      if (const Fit f = convert_arg(args.back().value, p); !f) throw Diagnostic(at, f.why);
    } else if (p.fallback) {
      args.push_back({p.name, *p.fallback, true});
    } else if (p.optional) {
      args.push_back({p.name, NoneArg{}, true});
    } else {
      throw Diagnostic(at, fmt::format("the argument '{}' is missing", p.name));
    }
  }
  if (!places.empty()) {
    const auto first_of = [](const auto& a, const auto& b) { return a.second < b.second; };
    const std::string& name = std::min_element(places.begin(), places.end(), first_of)->first;
    throw Diagnostic(at, fmt::format("the operator has no argument '{}'", name));
  }
  return args;
}

Arg GraphReader::read_result(const JsonRef& argument, Scope& s, const Loc& at) {
  const auto [tag, v] = argument.tagged();
  if (tag == "as_tensor") return define(v["name"].text(), s, v);
  if (tag == "as_tensors") return list_of<TensorRef>(v, [&](const JsonRef& t) { return define(t["name"].text(), s, t); });
  if (tag == "as_optional_tensor") {
    const auto [kind, t] = v.tagged();
    if (kind == "as_tensor") return define(t["name"].text(), s, t);
    return NoneArg{};
  }
  if (tag == "as_none") return NoneArg{};
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") return symbolic(v, s);
  throw Diagnostic(at, fmt::format("a result of kind {} is not known", tag));
}

void GraphReader::read_node(const JsonRef& j, Scope& s) {
  PNode node;
  node.target = target_name(j["target"].text());
  if (j.has("metadata")) {
    const JsonRef meta = j["metadata"];
    if (meta.has("stack_trace")) {
      const std::string trace = meta["stack_trace"].text();
      node.source = source_line(trace), node.place = source_place(trace);
    }
    if (meta.has("nn_module_stack")) node.module_path = module_path(meta["nn_module_stack"].text());
  }
  node.path = j.path();
  node.name = j.has("name") ? s.prefix + j["name"].text() : fmt::format("node_{}", p_.nodes.size());
  if (inline_node(j, s, node.target) || inline_control_flow(j, s, node)) return;

  // An operator with an effect, in its place among others: (token, operator, its arguments) -> (token, its results). Nodes stay in order.
  const bool effect = node.target == "higher_order.with_effects";
  if (effect) node.target = effect_of(j["inputs"]);
  const OpSchema* schema = ops_.find(node.target);
  node.args = read_args(j["inputs"], effect ? 2 : 0, schema, s, loc(j["inputs"], &node));
  const JsonRef outputs = j["outputs"];
  for (size_t i = effect ? 1 : 0, n = outputs.size(); i < n; ++i)
    node.results.push_back(read_result(outputs.at(i), s, loc(outputs, &node)));
  if (schema) {
    if (effect && schema->results.empty()) node.results.clear();
    // An operator of scalars may be written with its value alone.
    if (node.results.size() != schema->results.size())
      throw Diagnostic(loc(outputs, &node),
                       fmt::format("{} results for an operator that has {}", node.results.size(), schema->results.size()));
    track_aliases(node, *schema);
  }
  if (is_scalar_op(node.target) && !node.results.empty() && !makes_symbol(node) &&
      std::all_of(node.results.begin(), node.results.end(), [](const Arg& a) { return std::holds_alternative<Expr>(a); }))
    return;
  if (add_guard(node)) return;
  if (!autocast_.empty()) cast_operands(node);
  p_.nodes.push_back(std::move(node));
}

GraphReader::Scope GraphReader::called(const JsonRef& graph, const std::string& name, const std::vector<Arg>& operands, const Scope& s) {
  if (depth_ >= kMaxGraphDepth) throw graph.fault(fmt::format("subgraphs nested deeper than {}", kMaxGraphDepth));
  Scope inner;
  for (int& copy = copies_[s.prefix + name];;) {
    ++copy;
    inner.prefix = s.prefix + name + (copy > 1 ? fmt::format("_{}.", copy) : std::string("."));
    const auto clash = defined_.lower_bound(inner.prefix);
    if (clash == defined_.end() || !starts_with(*clash, inner.prefix)) break;
  }
  const JsonRef in = graph["inputs"];
  if (in.size() != operands.size())
    throw graph.fault(fmt::format("a subgraph of {} inputs called with {} values", in.size(), operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto [tag, v] = in.at(i).tagged();
    const std::string input = tag == "as_tensor" ? v["name"].text() : tag == "as_sym_int" && v.has("as_name") ? v["as_name"].text() : "";
    if (!input.empty()) inner.bound[input] = operands[i];
  }
  return inner;
}

void GraphReader::read_called(const JsonRef& graph, Scope& inner) {
  const JsonRef nodes = graph["nodes"];
  const size_t values = graph["tensor_values"].object().size() + graph["sym_int_values"].object().size();
  symbols_.budget().charge(Budget::Kind::nodes, static_cast<int64_t>(std::max(nodes.size(), values)),
                           [&] { return graph.fault("").loc(); });
  read_values(graph, inner);
  ++depth_;
  for (size_t i = 0, n = nodes.size(); i < n; ++i) read_node(nodes.at(i), inner);
  --depth_;
}

std::vector<Arg> GraphReader::call(const JsonRef& graph, const std::string& name, const std::vector<Arg>& operands, const Scope& s) {
  Scope inner = called(graph, name, operands, s);
  read_called(graph, inner);
  std::vector<Arg> out;
  const JsonRef outputs = graph["outputs"];
  for (size_t i = 0, n = outputs.size(); i < n; ++i) out.push_back(read_arg(outputs.at(i), inner));
  return out;
}

bool GraphReader::inline_node(const JsonRef& j, Scope& s, const std::string& target) {
  const auto* wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers), [&](const Wrapper& w) { return w.target == target; });
  if (wrapper == std::end(kWrappers)) return false;
  const JsonRef inputs = j["inputs"];
  std::vector<Arg> before, operands;
  std::optional<JsonRef> graph;
  std::string graph_name;
  for (size_t i = 0, n = inputs.size(); i < n; ++i) {
    const JsonRef in = inputs.at(i);
    const auto [tag, v] = in["arg"].tagged();
    if (tag == "as_graph" && !graph) {
      graph = v["graph"];
      graph_name = v["name"].text();
    } else if (!graph) {
      before.push_back(read_arg(in["arg"], s));
    } else if (in["name"].text().empty() && tag != "as_string") {
      const Arg a = read_arg(in["arg"], s);
      if (const TensorList* l = std::get_if<TensorList>(&a))
        operands.insert(operands.end(), l->begin(), l->end());
      else
        operands.push_back(a);
    }
  }
  if (!graph || !wrapper->applies(before)) return false;
  Scope inner = called(*graph, graph_name, operands, s);
  const JsonRef out = (*graph)["outputs"];

  // The caller's names for the results, lists laid flat.
  std::vector<JsonRef> results;
  const JsonRef outputs = j["outputs"];
  for (size_t i = 0, n = outputs.size(); i < n; ++i) {
    const auto [tag, v] = outputs.at(i).tagged();
    if (tag == "as_tensors")
      for (size_t k = 0, m = v.size(); k < m; ++k) results.push_back(v.at(k));
    else
      results.push_back(tag == "as_tensor" ? v : outputs.at(i));
  }
  if (results.size() != out.size())
    throw outputs.fault(fmt::format("{} names for the {} results of a subgraph", results.size(), out.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    const auto [tag, v] = out.at(i).tagged();
    if (tag != "as_tensor" || !results[i].has("name")) continue;
    const std::string name = v["name"].text(), result = results[i]["name"].text();
    if (inner.bound.count(name)) continue;
    const auto named = s.bound.find(result);  // where the caller's own caller names what it gives on
    inner.bound[name] = named != s.bound.end() ? named->second : TensorRef{s.prefix + result};
  }
  const std::string_view around = autocast_;
  if (wrapper->applies == known_autocast) autocast_ = *autocast_region(before);
  read_called(*graph, inner);
  autocast_ = around;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].has("name")) continue;  // an unused or symbolic result: its Expr comes from the caller's own table
    const Arg a = read_arg(out.at(i), inner);
    s.bound[results[i]["name"].text()] = a;
  }
  return true;
}

void GraphReader::track_aliases(const PNode& node, const OpSchema& schema) {
  const auto names = [](const Arg& a) {
    std::vector<std::string> out;
    if (const TensorRef* t = std::get_if<TensorRef>(&a)) out.push_back(t->name);
    if (const TensorList* l = std::get_if<TensorList>(&a))
      for (const TensorRef& t : *l) out.push_back(t.name);
    return out;
  };
  const auto base = [&](const std::string& name) {
    const auto it = base_.find(name);
    return it == base_.end() ? name : it->second;
  };
  for (const TensorRef& t : hidden_writes(node)) written_.insert(base(t.name));
  for (size_t i = 0; i < schema.params.size(); ++i) {
    const OpParam& p = schema.params[i];
    if (p.alias.empty()) continue;
    const std::vector<std::string> from = names(node.args[i].value);
    if (p.written)
      for (const std::string& n : from) written_.insert(base(n));
    if (may_alias(node.target)) continue;
    for (size_t r = 0; r < schema.results.size(); ++r) {
      if (schema.results[r].alias != p.alias) continue;
      const std::vector<std::string> to = names(node.results[r]);
      for (size_t k = 0; k < to.size() && !from.empty(); ++k) base_[to[k]] = base(from[from.size() == to.size() ? k : 0]);
    }
  }
  const std::vector<std::string> results = result_names(node);
  const std::vector<Alias> aliases = aliases_of(node, p_.tensors, symbols_.table());
  for (size_t i = 0; i < results.size(); ++i)
    if (aliases[i].kind != Alias::none) base_[results[i]] = base(aliases[i].of);
}

void drop_unused_scalar_nodes(Program& p) {
  std::set<std::string> used;
  const auto use = [&](const Arg& a) {
    if (const SymbolicArg* s = std::get_if<SymbolicArg>(&a)) used.insert(s->name);
  };
  for (const ProgramOutput& o : p.outputs) use(o.value);
  std::vector<PNode> kept;
  for (size_t i = p.nodes.size(); i-- > 0;) {
    PNode& n = p.nodes[i];
    const bool needed = !is_scalar_op(n.target) || makes_symbol(n) || std::any_of(n.results.begin(), n.results.end(), [&](const Arg& a) {
      const SymbolicArg* s = std::get_if<SymbolicArg>(&a);
      return s && used.count(s->name);
    });
    if (!needed) continue;
    for (const NamedArg& a : n.args) use(a.value);
    kept.push_back(std::move(n));
  }
  std::reverse(kept.begin(), kept.end());
  p.nodes = std::move(kept);
}

}  // namespace aotc::import
