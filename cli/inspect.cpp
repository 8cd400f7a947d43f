#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "about.h"
#include "artifact.h"
#include "cli.h"
#include "emit/system_needs.h"
#include "import/read_archive.h"
#include "import/result_name.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

json dims_json(const std::vector<Expr>& dims, const SymTable& syms) {
  json out = json::array();
  for (const Expr& d : dims) out.push_back(d.as_const() ? json(*d.as_const()) : json(d.str(syms)));
  return out;
}

json tensor_json(const import::Program& p, const std::string& name) {
  auto it = p.tensors.find(name);
  if (it == p.tensors.end()) return {{"name", name}};
  return {{"name", name}, {"dtype", dtype_name(it->second.dtype)}, {"shape", dims_json(it->second.sizes, p.syms)}};
}

json inspect_archive(const std::string& path, const std::string& program) {
  const import::Program p = import::read_archive(path, program);
  json j = {{"file", path},
            {"kind", "archive"},
            {"id", p.source_id},
            {"torch_version", p.torch_version},
            {"schema_version", fmt::format("{}.{}", p.schema_major, p.schema_minor)}};
  j["inputs"] = json::array(), j["outputs"] = json::array(), j["symbols"] = json::array(), j["ops"] = json::object();
  int64_t weights = 0;
  for (const auto& [name, data] : p.data) weights += static_cast<int64_t>(data.bytes);
  j["weights_bytes"] = weights;
  j["weights"] = p.data.size();
  for (const import::ProgramInput& in : p.inputs)
    if (in.kind == import::InputKind::user)
      j["inputs"].push_back(tensor_json(p, in.name));
    else if (in.kind == import::InputKind::user_scalar && !std::holds_alternative<import::NoneArg>(in.constant))
      j["fixed"].push_back({{"name", in.name}, {"value", import::arg_text(in.constant, p.syms)}, {"at", in.tree_path}});
  for (const import::ProgramOutput& out : p.outputs) {
    const auto* t = std::get_if<import::TensorRef>(&out.value);
    json row = t ? tensor_json(p, t->name) : json{{"name", "constant"}};
    if (const std::string name = import::result_name(out.tree_path); !name.empty() && out.kind == import::OutputKind::user)
      row["name"] = name;
    if (import::is_mutation(out.kind)) row["mutates"] = out.target;
    if (out.kind == import::OutputKind::loss) row["loss"] = true;
    if (out.kind == import::OutputKind::parameter_gradient || out.kind == import::OutputKind::input_gradient)
      row["gradient_of"] = out.target;
    j["outputs"].push_back(row);
  }
  for (uint32_t s = 0; s < p.syms.size(); ++s) {
    const SymInfo& i = p.syms[static_cast<SymId>(s)];
    json row = {{"name", i.name}, {"min", i.min}, {"max", i.max == kInf ? json() : json(i.max)}};
    if (i.multiple_of != 1) row["multiple_of"] = i.multiple_of;
    j["symbols"].push_back(row);
  }
  for (const import::PNode& n : p.nodes) j["ops"][n.target] = j["ops"].value(n.target, 0) + 1;
  return j;
}

/// The archive's only program or, as an artifact tells of its methods, the first and beside it the others.
json inspect_archives(const std::string& path, const std::string& method) {
  const std::vector<std::string> programs = import::programs_of(path);
  if (!method.empty() || programs.size() == 1) return inspect_archive(path, method);
  json j = inspect_archive(path, programs.front());
  j["methods"] = json::array({{{"name", programs.front()}}});
  for (size_t i = 1; i < programs.size(); ++i) {
    j["methods"].push_back(inspect_archive(path, programs[i]));
    j["methods"].back()["name"] = programs[i];
  }
  return j;
}

/// What of the artifact is compared with what was built, and when.
json seal_json(const ArtifactFile& artifact, bool checked) {
  const aotc_seal& s = artifact.seal();
  const uint64_t inside = s.weights_offset ? s.weights_bytes : 0;
  json j = {{"file_bytes", s.file_bytes}, {"always_bytes", s.file_bytes - inside}, {"weights_bytes", s.weights_bytes}};
  if (checked) j["checked_seconds"] = artifact.check_seconds();
  return j;
}

void print_seal(const json& seal) {
  const double mb =
      (seal["file_bytes"].get<double>() - seal["always_bytes"].get<double>() > 0 ? 0 : seal["weights_bytes"].get<double>()) / 1e6 +
      seal["file_bytes"].get<double>() / 1e6;
  if (!seal.contains("checked_seconds")) {
    fmt::print("{:<16}code and tables ({:.1f} MB) at every load, weights too ({:.1f} MB) with --check-weights\n", "checked",
               seal["always_bytes"].get<double>() / 1e6, mb);
    return;
  }
  const double seconds = seal["checked_seconds"].get<double>();
  fmt::print("{:<16}whole: {:.1f} MB in {:.1f} ms ({:.2f} s/GB)\n", "checked", mb, seconds * 1e3, seconds / mb * 1e3);
}

std::string shape_text(const json& tensor) {
  std::string dims;
  for (const json& d : tensor.value("shape", json::array()))
    dims += (dims.empty() ? "" : ", ") + (d.is_string() ? d.get<std::string>() : d.dump());
  return tensor.value("dtype", std::string("?")) + "[" + dims + "]";
}

std::string found_text(const json& tensor) {
  std::string dims;
  for (const json& d : tensor.at("found")) dims += (dims.empty() ? "" : ", ") + (d.is_string() ? d.get<std::string>() : d.dump());
  return " at most; sizes found in data: [" + dims + "]";
}

/// What a tensor is besides its name and type.
std::string note_of(const json& t) {
  if (t.contains("mutates")) return " -> " + t["mutates"].get<std::string>();
  if (t.contains("gradient_of")) return " gradient of " + t["gradient_of"].get<std::string>();
  if (t.value("loss", false)) return " loss";
  if (t.contains("found")) return found_text(t);
  return t.value("updated", true) ? "" : " written by the caller only";
}

int64_t element_bytes(const std::string& dtype) {
  const std::optional<DType> t = parse_dtype(dtype);
  return t ? dtype_bytes(*t) : 0;
}

/// What the states of a context take, and how much of it is a sequence's. A state that is written along two dimensions has a slot for each
/// sequence along the first of them.
json state_memory(const json& states) {
  int64_t all = 0, cache = 0, sequences = 0, positions = 0, position_bytes = 0;
  for (const json& s : states) {
    int64_t bytes = element_bytes(s.at("dtype").get<std::string>());
    for (const json& d : s.at("shape")) bytes *= d.get<int64_t>();
    all += bytes;
    const auto along = s.value("written_along", std::vector<size_t>());
    if (along.empty() || along.size() > 2) continue;
    const auto size = [&](size_t d) { return s["shape"][d].get<int64_t>(); };
    const int64_t slots = along.size() == 2 ? size(along[0]) : 1, length = size(along.back());
    if (slots == 0 || length == 0 || (sequences && slots != sequences)) return {{"bytes", all}};
    sequences = slots;
    cache += bytes / slots;
    positions = std::max(positions, length);
    position_bytes += bytes / slots / length;
  }
  json j = {{"bytes", all}};
  if (sequences)
    j.update({{"sequences", sequences}, {"positions", positions}, {"sequence_bytes", cache}, {"position_bytes", position_bytes}});
  return j;
}

std::string state_memory_text(const json& m) {
  const std::string all = m.at("bytes").dump() + " bytes a context";
  if (!m.contains("sequences")) return all;
  return fmt::format("{}: {} sequence{} of {} positions, {} bytes each, {} a position", all, m["sequences"].dump(),
                     m["sequences"] == 1 ? "" : "s", m["positions"].dump(), m["sequence_bytes"].dump(), m["position_bytes"].dump());
}

/// "mylib::lookup: lookup4 of lookup.c (3f..)"
std::string own_kernel_text(const json& k) {
  std::string text = k.at("op").get<std::string>() + ":";
  for (const json& e : k.value("pointwise", json::array())) text += " " + e.get<std::string>();
  for (const char* side : {"cpu", "cuda"})
    if (k.contains(side))
      text += fmt::format(" {} of {} ({}, {})", k[side].at("function").get<std::string>(), k[side].at("file").get<std::string>(), side,
                          k[side].at("hash").get<std::string>());
  return text;
}

std::string uarch_text(const json& u) {
  return fmt::format("those of {} (--uarch), id {}", u.at("name").get<std::string>(), u.at("id").get<std::string>());
}

void print_text(const json& j);

/// Of an artifact or archive with several methods: each, its own lines after its name.
void print_methods(const json& j) {
  for (size_t i = 0; i < j["methods"].size(); ++i) {
    json own = i == 0 ? j : j["methods"][i];
    own.erase("methods");
    fmt::print("\n{:<16}{}\n", "method", j["methods"][i].at("name").get<std::string>());
    for (const char* key : {"weights_layout", "source", "file", "kind", "torch_version", "schema_version", "aotc_version", "target",
                            "uarch", "f32_matmul", "reproducible", "graphs", "own_weights", "code", "seal", "system"})
      own.erase(key);
    print_text(own);
  }
}

void print_text(const json& all) {
  json j = all;
  const bool several = j.contains("methods") && j["methods"].size() > 1;
  if (several)
    for (const char* key : {"source", "id", "stored_weights", "kv_cache", "weights_bytes", "arena_bytes", "fixed", "inputs", "outputs",
                            "states", "symbols", "explain", "ops", "parts", "state_memory"})
      j.erase(key);
  if (j.contains("source")) fmt::print("{:<16}an archive with id {}\n", "built from", j["source"]["id"].get<std::string>());
  for (const char* key : {"file", "kind", "id", "torch_version", "schema_version", "aotc_version", "target", "targets", "f32_matmul",
                          "reproducible", "graphs", "own_weights"})
    if (j.contains(key)) fmt::print("{:<16}{}\n", key, j[key].is_string() ? j[key].get<std::string>() : j[key].dump());
  if (j.contains("uarch")) fmt::print("{:<16}{}\n", "costs", uarch_text(j["uarch"]));
  for (const json& p : j.value("parts", json::array()))
    if (p.contains("uarch")) fmt::print("{:<16}{}, of {}\n", "costs", uarch_text(p["uarch"]), p.at("target").get<std::string>());
  for (const json& p : j.value("parts", json::array()))
    fmt::print("{:<16}{}: weights {} bytes, arena {} bytes, {} kernels\n", "part", p.at("target").get<std::string>(),
               p.at("weights_bytes").dump(), p.at("arena_bytes").dump(), p.at("explain").at("kernels").size());
  json code = j.value("code", json::array());
  for (const json& p : j.value("parts", json::array()))
    for (const json& c : p.at("code")) code.push_back(c);
  for (const json& c : code) {
    std::string needs;
    for (const json& n : c.at("needs")) needs += (needs.empty() ? "" : ", ") + n.get<std::string>();
    fmt::print("{:<16}{} for a CPU with {}\n", "code", c.at("version").get<std::string>(), needs.empty() ? "nothing special" : needs);
  }
  if (j.contains("seal")) print_seal(j["seal"]);
  if (j.contains("system")) {
    std::string libraries;
    for (const json& l : j["system"]["libraries"]) libraries += (libraries.empty() ? "" : ", ") + l.get<std::string>();
    fmt::print("{:<16}glibc {} ({})\n", "needs", j["system"]["glibc"].get<std::string>(), libraries);
  }
  if (j.contains("stored_weights")) fmt::print("{:<16}{}\n", "weights", stored_weights_text(j["stored_weights"]));
  if (j.contains("kv_cache")) fmt::print("{:<16}{}\n", "kv cache", stored_caches_text(j["kv_cache"]));
  for (const char* key : {"weights_bytes", "arena_bytes"})
    if (j.contains(key)) fmt::print("{:<16}{}\n", key, j[key].dump());
  for (const json& k : j.value("own_kernels", json::array())) fmt::print("{:<16}{}\n", "own kernel", own_kernel_text(k));
  if (j.contains("weights_layout")) fmt::print("{:<16}{}\n", "weights_layout", j["weights_layout"]["id"].get<std::string>());
  for (const json& f : j.value("fixed", json::array()))
    fmt::print("{:<16}{} = {} at {}: no input of an artifact, export had it as a constant\n", "fixed", f["name"].get<std::string>(),
               f["value"].get<std::string>(), f["at"].get<std::string>());
  for (const char* side : {"inputs", "outputs", "states"})
    for (const json& t : j.value(side, json::array()))
      fmt::print("{:<16}{} {}{}\n", std::string(side, std::char_traits<char>::length(side) - 1), t.value("name", std::string()),
                 shape_text(t), note_of(t));
  if (j.contains("state_memory")) fmt::print("{:<16}{}\n", "state memory", state_memory_text(j["state_memory"]));
  for (const json& s : j.value("symbols", json::array()))
    fmt::print("{:<16}{} in [{}, {}]\n", "symbol", s.at("name").get<std::string>(), s.at("min").dump(),
               s.contains("max") && !s["max"].is_null() ? s["max"].dump() : "unbounded");
  if (j.contains("explain")) {
    const json& e = j["explain"];
    for (const json& v : e.at("variants"))
      fmt::print("{:<16}{} ({} steps, arena {} bytes)\n", "variant", v.at("name").get<std::string>(), v.at("steps").dump(),
                 v.at("arena_bytes").dump());
    for (const json& k : e.at("kernels"))
      fmt::print("{:<16}{} ({}) x{}\n", "kernel", k.at("name").get<std::string>(), k.at("kind").get<std::string>(), k.at("calls").dump());
  }
  const json ops = j.value("ops", json::object());
  for (const auto& [op, n] : ops.items()) fmt::print("{:<16}{:>5} {}\n", "op", n.dump(), op);
  if (several) print_methods(all);
}

}  // namespace

Run add_inspect(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  auto method = std::make_shared<std::string>();
  auto check_weights = std::make_shared<bool>(false);
  add_option(app, "--method", *method, "only this method of the artifact, or program of the archive; default: all");
  add_option(app, "file", *path, "model.pt2 or model.so").required();
  add_check_weights(app, *check_weights);
  return [path, method, check_weights](const Common& common) {
    json j, from = about(common);
    if (is_shared_object(*path)) {
      ArtifactFile artifact(*path, *check_weights);
      if (!method->empty()) artifact.choose_method(*method);
      j = artifact.metadata();
      from = about(common, artifact);
      j["seal"] = seal_json(artifact, *check_weights);
      j["file"] = *path;
      j["kind"] = "artifact";
      if (!j.at("states").empty()) j["state_memory"] = state_memory(j["states"]);
      if (const auto needs = emit::system_needs(*path)) j["system"] = {{"glibc", needs->glibc}, {"libraries", needs->libraries}};
    } else {
      j = inspect_archives(*path, *method);
    }
    if (common.json)
      print_result(j, from);
    else
      print_text(j);
    return 0;
  };
}

}  // namespace aotc::cli
