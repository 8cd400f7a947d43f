#include "import/subprogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace aotc::import {
namespace {

/// Calls fn(name, is_tensor) for every value that an argument or result names; a subgraph's own are its own.
template <class J, class Fn>
void each_name(J& j, Fn&& fn, bool in_tensor = false) {
  if (j.is_array()) {
    for (auto& x : j) each_name(x, fn, in_tensor);
    return;
  }
  if (!j.is_object()) return;
  for (auto it = j.begin(); it != j.end(); ++it) {
    const std::string& key = it.key();
    if (key == "as_graph") continue;
    if (key == "as_name" && it.value().is_string())
      fn(it.value(), false);
    else if (key == "name" && in_tensor && it.value().is_string())
      fn(it.value(), true);
    else
      each_name(it.value(), fn, key.find("tensor") != std::string::npos || (in_tensor && key != "graph"));
  }
}

std::vector<std::string> names_in(const Json& j, bool tensors_only = false) {
  std::vector<std::string> out;
  each_name(j, [&](const Json& name, bool tensor) {
    if (tensor || !tensors_only) out.push_back(name.get<std::string>());
  });
  return out;
}

const Json& graph_of(const Json& model) { return model.at("graph_module").at("graph"); }
Json& graph_of(Json& model) { return model.at("graph_module").at("graph"); }

std::vector<std::string> used_by(const Json& node) {
  std::vector<std::string> names;
  for (const Json& input : node.at("inputs"))
    for (std::string& name : names_in(input.at("arg"))) names.push_back(std::move(name));
  return names;
}

bool is_sizes_only(const Json& node) {
  const std::vector<std::string> made = names_in(node.at("outputs"));
  return !made.empty() && names_in(node.at("outputs"), true).empty();
}

Json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

/// A tuple of leaves as pytree writes it.
std::string tuple_text(size_t leaves) {
  std::string t = R"({"type": "builtins.tuple", "context": "null", "children_spec": [)";
  for (size_t i = 0; i < leaves; ++i) t += std::string(i ? ", " : "") + R"({"type": null, "context": null, "children_spec": []})";
  return t + "]}";
}

/// The call of the whole: as many tensors in a row as there are.
void describe_call(Json& model) {
  Json& module = model.at("graph_module");
  size_t inputs = 0, outputs = 0;
  for (const Json& s : module.at("signature").at("input_specs")) inputs += s.contains("user_input") && !s.at("user_input").is_null();
  for (const Json& s : module.at("signature").at("output_specs")) outputs += s.contains("user_output") && !s.at("user_output").is_null();
  const std::string in = fmt::format(
      R"([1, {{"type": "builtins.tuple", "context": "null", "children_spec": [{}, {{"type": "builtins.dict", "context": "[]", "children_spec": []}}]}}])",
      tuple_text(inputs));
  module["module_call_graph"] = Json::array({{{"fqn", ""},
                                              {"signature",
                                               {{"inputs", Json::array()},
                                                {"outputs", Json::array()},
                                                {"in_spec", in},
                                                {"out_spec", "[1, " + tuple_text(outputs) + "]"},
                                                {"forward_arg_names", nullptr}}}}});
  if (module.contains("treespec_namedtuple_fields")) module["treespec_namedtuple_fields"] = Json::object();
  if (model.contains("guards_code")) model["guards_code"] = Json::array();
  graph_of(model)["is_single_tensor_return"] = false;
}

/// Entries of the tables of values, and ranges of symbols, that nothing names any more go.
void drop_unused_values(Json& model) {
  Json& graph = graph_of(model);
  std::set<std::string> used;
  for (const char* list : {"inputs", "outputs"})
    for (std::string& name : names_in(graph.at(list))) used.insert(std::move(name));
  for (const Json& node : graph.at("nodes")) {
    for (std::string& name : used_by(node)) used.insert(std::move(name));
    for (std::string& name : names_in(node.at("outputs"))) used.insert(std::move(name));
  }
  std::string sizes;
  for (const char* table : {"tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "custom_obj_values"}) {
    if (!graph.contains(table) || !graph.at(table).is_object()) continue;
    Json kept = Json::object();
    for (const auto& [name, value] : graph.at(table).items())
      if (used.count(name)) kept[name] = value;
    sizes += kept.dump();
    graph[table] = std::move(kept);
  }
  if (!model.contains("range_constraints")) return;
  Json ranges = Json::object();
  for (const auto& [symbol, range] : model.at("range_constraints").items())
    if (sizes.find(symbol) != std::string::npos) ranges[symbol] = range;
  model["range_constraints"] = std::move(ranges);
}

/// {tag: {"arg": {"name": x} or {"as_tensor": {"name": x}}}}
std::string name_of(const Json& spec) {
  const std::vector<std::string> names = names_in(Json{{"tensor", spec}});
  return names.empty() ? std::string() : names.front();
}

bool is_user_output(const Json& spec) { return spec.contains("user_output") && !spec.at("user_output").is_null(); }

}  // namespace

std::vector<size_t> operators_of(const Json& model) {
  std::vector<size_t> out;
  const Json& nodes = graph_of(model).at("nodes");
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!is_sizes_only(nodes[i])) out.push_back(i);
  return out;
}

Json subprogram(const Json& model, const std::set<size_t>& chosen) {
  const Json& graph = graph_of(model);
  const Json& nodes = graph.at("nodes");
  std::map<std::string, size_t> made_by;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (std::string& name : names_in(nodes[i].at("outputs"))) made_by.emplace(std::move(name), i);
  std::set<size_t> keep = chosen;
  std::vector<size_t> open(chosen.begin(), chosen.end());
  while (!open.empty()) {
    const size_t n = open.back();
    open.pop_back();
    for (const std::string& name : used_by(nodes[n]))
      if (const auto it = made_by.find(name); it != made_by.end() && is_sizes_only(nodes[it->second]) && keep.insert(it->second).second)
        open.push_back(it->second);
  }

  Json out = model;
  Json& g = graph_of(out);
  std::set<std::string> made, used;
  Json kept = Json::array();
  for (const size_t n : keep) {
    kept.push_back(nodes[n]);
    for (std::string& name : names_in(nodes[n].at("outputs"))) made.insert(std::move(name));
  }
  std::vector<std::string> taken;  // from outside, in the order of use
  for (const Json& node : kept)
    for (const std::string& name : used_by(node))
      if (used.insert(name).second && !made.count(name)) taken.push_back(name);
  g["nodes"] = std::move(kept);

  // Inputs: the original's in their order, then the further ones.
  const Json& specs = model.at("graph_module").at("signature").at("input_specs");
  Json inputs = Json::array(), input_specs = Json::array();
  std::set<std::string> there;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::vector<std::string> names = names_in(graph.at("inputs").at(i));
    if (names.empty() || !used.count(names.front()) || !there.insert(names.front()).second) continue;
    inputs.push_back(graph.at("inputs").at(i));
    input_specs.push_back(specs[i]);
  }
  for (const std::string& name : taken) {
    if (!there.insert(name).second) continue;
    if (!graph.at("tensor_values").contains(name)) continue;  // no tensor: the reader of the result says so
    inputs.push_back(tensor(name));
    input_specs.push_back({{"user_input", {{"arg", tensor(name)}}}});
    g["tensor_values"][name]["requires_grad"] = false;
  }

  Json outputs = Json::array(), output_specs = Json::array();
  std::set<std::string> given;
  const auto give = [&](const std::string& name) {
    if (!given.insert(name).second) return;
    outputs.push_back(tensor(name));
    output_specs.push_back({{"user_output", {{"arg", tensor(name)}}}});
  };
  std::set<std::string> targets;  // of inputs that are still there
  for (const Json& s : input_specs)
    for (const auto& [kind, value] : s.items())
      if (value.is_object())
        for (const char* key : {"parameter_name", "buffer_name"})
          if (value.contains(key)) targets.insert(value.at(key).get<std::string>());
  targets.insert(there.begin(), there.end());
  std::vector<std::string> results;
  for (const Json& s : model.at("graph_module").at("signature").at("output_specs")) {
    const std::string name = name_of(s);
    if (!made.count(name)) continue;
    bool writes = false;
    for (const auto& [kind, value] : s.items())
      for (const char* key : {"parameter_name", "buffer_name", "user_input_name"})
        writes = writes || (value.is_object() && kind.find("mutation") != std::string::npos && value.contains(key) &&
                            targets.count(value.at(key).get<std::string>()) > 0);
    if (!writes) {
      results.push_back(name);
      continue;
    }
    outputs.push_back(tensor(name));
    output_specs.push_back(s);
    given.insert(name);
  }
  for (const Json& node : g["nodes"]) {
    const std::string target = node.at("target").get<std::string>(), op = target.substr(0, target.rfind('.'));
    const bool in_place = op.size() > 1 && op.back() == '_' && op[op.size() - 2] != '_';
    for (const std::string& name : names_in(node.at("outputs"), true))
      if (!in_place && !used.count(name) && graph.at("tensor_values").contains(name)) results.push_back(name);
  }
  for (const std::string& name : results)
    if (graph.at("tensor_values").contains(name)) give(name);
  g["inputs"] = std::move(inputs);
  g["outputs"] = std::move(outputs);
  out["graph_module"]["signature"] = {{"input_specs", std::move(input_specs)}, {"output_specs", std::move(output_specs)}};
  describe_call(out);
  drop_unused_values(out);
  return out;
}

std::vector<UserInput> user_inputs(const Json& model) {
  std::vector<UserInput> out;
  for (const Json& spec : model.at("graph_module").at("signature").at("input_specs")) {
    if (!spec.contains("user_input") || spec.at("user_input").is_null()) continue;
    UserInput& in = out.emplace_back();
    const std::vector<std::string> names = names_in(spec, true);
    if (names.empty()) continue;
    in.name = names.front();
    in.sizes.emplace();
    for (const Json& size : graph_of(model).at("tensor_values").at(in.name).at("sizes")) {
      if (in.sizes && size.contains("as_int"))
        in.sizes->push_back(size.at("as_int").get<int64_t>());
      else
        in.sizes.reset();
    }
  }
  return out;
}

std::vector<std::string> returned(const Json& model) {
  std::vector<std::string> out;
  for (const Json& s : model.at("graph_module").at("signature").at("output_specs"))
    if (is_user_output(s)) out.push_back(name_of(s));
  return out;
}

Json without_result(Json model, const std::string& name) {
  Json& specs = model.at("graph_module").at("signature").at("output_specs");
  Json& outputs = graph_of(model).at("outputs");
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!is_user_output(specs[i]) || name_of(specs[i]) != name) continue;
    specs.erase(i);
    outputs.erase(i);
    break;
  }
  describe_call(model);
  return model;
}

Json with_known_sizes(Json model, const std::function<std::optional<int64_t>(const std::string&)>& size) {
  Json& graph = graph_of(model);
  /// {"as_int": 4} of {"as_expr": {"expr_str": "s77", "hint": {"as_int": 4}}}; null where it is not known.
  const auto number_of = [&](const Json& j) -> Json {
    if (!j.is_object() || !j.contains("as_expr") || !j.at("as_expr").is_object()) return nullptr;
    const Json& e = j.at("as_expr");
    if (size && e.contains("expr_str"))
      if (const auto n = size(e.at("expr_str").get<std::string>())) return {{"as_int", *n}};
    return e.value("hint", Json()).is_object() ? Json(e.at("hint")) : Json();
  };
  std::map<std::string, Json> numbers;  // by name
  for (const auto& [name, value] : graph.at("sym_int_values").items()) {
    if (value.contains("as_int")) numbers.emplace(name, value);
    if (Json number = number_of(value); !number.is_null()) numbers.emplace(name, std::move(number));
  }
  std::function<void(Json&)> settle = [&](Json& j) {
    if (Json number = number_of(j); !number.is_null()) {
      j = std::move(number);
      return;
    }
    if (j.is_object() && j.contains("as_name") && j.at("as_name").is_string())
      if (const auto it = numbers.find(j.at("as_name").get<std::string>()); it != numbers.end()) {
        j = it->second;
        return;
      }
    if (j.is_structured())
      for (Json& x : j) settle(x);
  };
  Json nodes = Json::array();
  for (Json& node : graph.at("nodes")) {
    if (is_sizes_only(node)) {
      bool known = true;
      for (const std::string& name : names_in(node.at("outputs"))) known = known && numbers.count(name) > 0;
      if (known) continue;
    }
    settle(node.at("inputs"));
    nodes.push_back(std::move(node));
  }
  graph["nodes"] = std::move(nodes);
  settle(graph.at("tensor_values"));
  drop_unused_values(model);
  describe_call(model);
  return model;
}

namespace {

std::vector<std::string> input_names(const Json& model) { return names_in(graph_of(model).at("inputs"), true); }

}  // namespace

std::vector<int64_t> input_sizes(const Json& model) {
  std::set<int64_t, std::greater<>> sizes;
  for (const std::string& name : input_names(model))
    for (const Json& s : graph_of(model).at("tensor_values").at(name).at("sizes"))
      if (s.contains("as_int") && s.at("as_int").get<int64_t>() > 1) sizes.insert(s.at("as_int").get<int64_t>());
  return {sizes.begin(), sizes.end()};
}

Json with_input_size(Json model, int64_t from, int64_t to) {
  Json& graph = graph_of(model);
  std::function<void(Json&)> turn = [&](Json& j) {
    if (j.is_number_integer() && j.get<int64_t>() == from)
      j = to;
    else if (j.is_structured())
      for (auto it = j.begin(); it != j.end(); ++it) turn(*it);
  };
  for (const std::string& name : input_names(model)) {
    Json& meta = graph.at("tensor_values").at(name);
    turn(meta.at("sizes"));
    int64_t stride = 1;
    for (size_t d = meta.at("sizes").size(); d-- > 0;) {
      const Json& size = meta.at("sizes")[d];
      meta.at("strides")[d] = {{"as_int", stride}};
      if (size.contains("as_int")) stride *= std::max<int64_t>(size.at("as_int").get<int64_t>(), 1);
    }
  }
  for (Json& node : graph.at("nodes"))
    for (Json& input : node.at("inputs"))
      for (const char* kind : {"as_int", "as_ints", "as_sym_int", "as_sym_ints"})
        if (input.at("arg").contains(kind)) turn(input.at("arg").at(kind));
  return model;
}

Json anonymous(Json model, std::map<std::string, std::string>& renamed) {
  Json& graph = graph_of(model);
  for (Json& node : graph.at("nodes")) node["metadata"] = Json::object();
  for (Json& spec : model.at("graph_module").at("signature").at("input_specs"))
    for (auto& [kind, value] : spec.items())
      for (const char* key : {"parameter_name", "buffer_name", "tensor_constant_name"})
        if (value.is_object() && value.contains(key)) {
          const std::string old = value.at(key).get<std::string>();
          const auto [it, fresh] = renamed.emplace(old, fmt::format("weight_{}", renamed.size()));
          value[key] = it->second;
        }
  for (Json& spec : model.at("graph_module").at("signature").at("output_specs"))
    for (auto& [kind, value] : spec.items())
      for (const char* key : {"parameter_name", "buffer_name"})
        if (value.is_object() && value.contains(key))
          if (const auto it = renamed.find(value.at(key).get<std::string>()); it != renamed.end()) value[key] = it->second;
  std::map<std::string, std::string> inputs;  // names of placeholders tell of parameters
  for (const std::string& name : input_names(model)) inputs.emplace(name, fmt::format("input_{}", inputs.size()));
  const auto rename = [&](Json& name, bool) {
    if (const auto it = inputs.find(name.get<std::string>()); it != inputs.end()) name = it->second;
  };
  for (const char* list : {"inputs", "outputs"}) each_name(graph.at(list), rename);
  for (Json& node : graph.at("nodes")) each_name(node.at("inputs"), rename);
  for (const char* list : {"input_specs", "output_specs"}) each_name(model.at("graph_module").at("signature").at(list), rename, true);
  for (Json& spec : model.at("graph_module").at("signature").at("output_specs"))
    for (auto& [kind, value] : spec.items())
      if (value.is_object() && value.contains("user_input_name")) rename(value.at("user_input_name"), true);
  Json values = Json::object();
  for (const auto& [name, value] : graph.at("tensor_values").items()) {
    const auto it = inputs.find(name);
    values[it == inputs.end() ? name : it->second] = value;
  }
  graph["tensor_values"] = std::move(values);
  return model;
}

}  // namespace aotc::import
