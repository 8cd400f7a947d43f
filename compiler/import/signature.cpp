#include "import/signature.h"

#include <algorithm>

#include "import/metadata.h"

namespace aotc::import {
namespace {

/// The call of the whole model: the entry of module_call_graph with an empty name.
std::optional<JsonRef> root_call(const JsonRef& graph_module) {
  if (!graph_module.has("module_call_graph")) return std::nullopt;
  const JsonRef calls = graph_module["module_call_graph"];
  for (size_t i = 0, n = calls.size(); i < n; ++i) {
    const JsonRef c = calls.at(i);
    if (c["fqn"].text().empty() && c.has("signature")) return c["signature"];
  }
  return std::nullopt;
}

std::vector<std::string> paths(const std::optional<JsonRef>& call, const char* key) {
  if (!call || !call->has(key)) return {};
  const JsonRef spec = (*call)[key];
  return tree_paths(spec.text(), std::string_view(key) == "in_spec", spec.fault("").loc());
}

Arg constant_value(const JsonRef& v) {
  const auto [tag, x] = v.tagged();
  if (tag == "as_none") return NoneArg{};
  if (tag == "as_int") return Expr(x.integer());
  if (tag == "as_float") return x.number();
  if (tag == "as_string") return x.text();
  if (tag == "as_bool") return x.boolean();
  throw v.fault(fmt::format("unknown kind of constant \"{}\"", tag));
}

struct DataKind {
  std::string_view tag, target_key;
  InputKind kind;
};
constexpr DataKind kData[] = {
    {"parameter", "parameter_name", InputKind::parameter},
    {"buffer", "buffer_name", InputKind::buffer},
    {"tensor_constant", "tensor_constant_name", InputKind::constant_tensor},
};

/// Outputs that are one tensor. What they have to do with an input or weight stands under target_key.
struct TensorOutput {
  std::string_view tag, target_key;
  OutputKind kind;
};
constexpr TensorOutput kTensorOutputs[] = {
    {"buffer_mutation", "buffer_name", OutputKind::buffer_mutation},
    {"parameter_mutation", "parameter_name", OutputKind::buffer_mutation},
    {"user_input_mutation", "user_input_name", OutputKind::user_input_mutation},
    {"loss_output", "", OutputKind::loss},
    {"gradient_to_parameter", "parameter_name", OutputKind::parameter_gradient},
    {"gradient_to_user_input", "user_input_name", OutputKind::input_gradient},
};

Diagnostic unsupported(const JsonRef& where, const std::string& what) {
  return {ExitCode::unsupported, where.fault("").loc(), what + " is not supported"};
}

/// What orders effects, which nodes of a program are by themselves.
bool is_token(const JsonRef& spec) { return spec.tagged().first == "token"; }

ProgramInput read_input(const JsonRef& spec, GraphReader& reader) {
  const auto [tag, v] = spec.tagged();
  for (const DataKind& d : kData)
    if (d.tag == tag)
      return {.kind = d.kind,
              .name = v["arg"]["name"].text(),
              .target = v[d.target_key].text(),
              .persistent = !v.has("persistent") || v["persistent"].boolean()};
  if (tag == "constant_input") return {.kind = InputKind::user_scalar, .name = v["name"].text(), .constant = constant_value(v["value"])};
  if (tag != "user_input") throw unsupported(v, fmt::format("an input of kind {}", tag));
  const Arg a = reader.value(v["arg"]);
  if (const TensorRef* t = std::get_if<TensorRef>(&a)) return {.kind = InputKind::user, .name = t->name};
  const auto [kind, x] = v["arg"].tagged();
  std::string name;
  if (kind == "as_sym_int" && x.has("as_name")) name = x["as_name"].text();
  return {.kind = InputKind::user_scalar, .name = name, .constant = a};
}

ProgramOutput read_output(const JsonRef& spec, GraphReader& reader) {
  const auto [tag, v] = spec.tagged();
  for (const TensorOutput& m : kTensorOutputs)
    if (m.tag == tag) {
      const Json tensor{{"as_tensor", v["arg"].raw()}};
      return {.kind = m.kind,
              .value = reader.value(v.member("arg", tensor)),
              .target = m.target_key.empty() ? std::string() : v[m.target_key].text()};
    }
  if (tag != "user_output") throw unsupported(v, fmt::format("an output of kind {}", tag));
  const Arg a = reader.value(v["arg"]);
  const bool computed = std::holds_alternative<TensorRef>(a) || std::holds_alternative<Expr>(a);
  return {.kind = computed ? OutputKind::user : OutputKind::user_constant, .value = a};
}

}  // namespace

std::vector<std::string> keyword_order(const JsonRef& graph_module) {
  std::vector<std::string> names;
  for (const std::string& path : paths(root_call(graph_module), "in_spec")) {
    if (path.compare(0, 8, "kwargs['") != 0) continue;
    const std::string name = path.substr(8, path.find("']") - 8);
    if (names.empty() || names.back() != name) names.push_back(name);
  }
  return names;
}

std::vector<std::string> positional_names(const JsonRef& graph_module) {
  std::vector<std::string> names;
  const auto call = root_call(graph_module);
  if (!call || !call->has("forward_arg_names")) return names;
  const JsonRef given = (*call)["forward_arg_names"];
  for (size_t i = 0, n = given.size(); i < n; ++i) names.push_back(given.at(i).text());
  return names;
}

void read_signature(const JsonRef& graph_module, GraphReader& reader, Program& p) {
  const JsonRef signature = graph_module["signature"];
  const JsonRef inputs = signature["input_specs"], outputs = signature["output_specs"];
  if (inputs.size() != graph_module["graph"]["inputs"].size()) throw inputs.fault("another number of inputs than the graph has");
  if (outputs.size() != graph_module["graph"]["outputs"].size()) throw outputs.fault("another number of outputs than the graph has");
  const auto call = root_call(graph_module);
  const std::vector<std::string> in_paths = paths(call, "in_spec"), out_paths = paths(call, "out_spec");

  size_t leaf = 0;
  std::map<std::string, size_t> by_name;
  for (size_t i = 0, n = inputs.size(); i < n; ++i) {
    if (is_token(inputs.at(i))) continue;
    ProgramInput in = read_input(inputs.at(i), reader);
    if (in.kind == InputKind::user || in.kind == InputKind::user_scalar) {
      in.tree_path = leaf < in_paths.size() ? in_paths[leaf] : fmt::format("[{}]", leaf);
      ++leaf;
    } else if (!p.tensors.count(in.name)) {
      throw inputs.at(i).fault(fmt::format("the input '{}' is not a value of the graph", in.name));
    }
    if (!in.name.empty() && !by_name.emplace(in.name, p.inputs.size()).second)
      throw inputs.at(i).fault(fmt::format("two inputs named '{}'", in.name));
    p.inputs.push_back(std::move(in));
  }

  std::set<std::string> mutated;
  leaf = 0;
  for (size_t i = 0, n = outputs.size(); i < n; ++i) {
    if (is_token(outputs.at(i))) continue;
    ProgramOutput out = read_output(outputs.at(i), reader);
    if (out.kind == OutputKind::user || out.kind == OutputKind::user_constant || out.kind == OutputKind::loss) {
      out.tree_path = leaf < out_paths.size() ? out_paths[leaf] : fmt::format("[{}]", leaf);
      ++leaf;
    } else if (is_mutation(out.kind)) {
      mutated.insert(out.target);
    }
    p.outputs.push_back(std::move(out));
  }
  for (ProgramInput& in : p.inputs)
    if (in.kind == InputKind::parameter && mutated.count(in.target)) in.kind = InputKind::buffer;
  for (const std::string& name : reader.written()) {
    const auto it = by_name.find(name);
    if (it == by_name.end()) continue;
    ProgramInput& in = p.inputs[it->second];
    const bool user = in.kind == InputKind::user;
    if (!user) in.kind = InputKind::buffer;  // a constant or parameter that the model writes is a buffer of its own
    const std::string& target = user ? in.name : in.target;
    if (!mutated.insert(target).second) continue;
    p.outputs.push_back(
        {.kind = user ? OutputKind::user_input_mutation : OutputKind::buffer_mutation, .value = TensorRef{name}, .target = target});
  }

  // User outputs, then new contents of inputs, then of buffers in the order of the inputs.
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < p.inputs.size(); ++i)
    position.emplace(p.inputs[i].kind == InputKind::user ? p.inputs[i].name : p.inputs[i].target, i);
  const auto rank = [&](const ProgramOutput& o) -> std::pair<int, size_t> {
    const bool gradient = o.kind == OutputKind::parameter_gradient || o.kind == OutputKind::input_gradient;
    if (!gradient && !is_mutation(o.kind)) return {0, 0};
    const auto it = position.find(o.target);
    if (it == position.end())
      throw outputs.fault(fmt::format("the {} value '{}' is not an input", gradient ? "differentiated" : "mutated", o.target));
    if (gradient) return {0, 0};
    return {o.kind == OutputKind::user_input_mutation ? 1 : 2, it->second};
  };
  std::stable_sort(p.outputs.begin(), p.outputs.end(), [&](const ProgramOutput& x, const ProgramOutput& y) { return rank(x) < rank(y); });
}

}  // namespace aotc::import
