#include "pipeline/metadata.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "artifact/versions.h"
#include "base/uarch.h"
#include "graph/ops.h"
#include "import/names.h"
#include "own/description.h"
#include "pipeline/explain.h"

namespace aotc::pipeline {
namespace {

using nlohmann::json;

json sizes(const Exprs& dims, const SymTable& syms) {
  json shape = json::array();
  for (const Expr& d : dims) shape.push_back(d.as_const() ? json(*d.as_const()) : json(d.str(syms)));
  return shape;
}

json tensor(const std::string& name, const TensorType& t, const SymTable& syms) {
  return {{"name", name}, {"dtype", dtype_name(t.dtype)}, {"shape", sizes(t.dims, syms)}};
}

/// The dimensions along which the runs write a state at places that data name (a slot, a position), in order; none where a run writes it
/// otherwise, too.
Ints written_along(const Graph& g, const StateInfo& s) {
  std::set<int64_t> along;
  ValueId v = s.updated;
  for (const Node* n = nullptr; v != kNone<ValueId> && v != s.value; v = n->inputs[0]) {
    n = g.def(v);
    if (!n || (n->op != Op::index_put && n->op != Op::scatter) || g.type(v).dims != s.type.dims) return {};
    if (n->op == Op::scatter)
      along.insert(n->get<int64_t>(Attr::dim));
    else
      for (const int64_t d : n->get<Ints>(Attr::dims)) along.insert(d);
  }
  return {along.begin(), along.end()};
}

/// The user's kernels for operators of the program, by files' names: where they lay says nothing.
json own_kernels(const Front& front) {
  json rows = json::array();
  if (!front.own) return rows;
  const own::Kernels& all = *front.own;
  const auto file = [](const std::string& path, uint64_t hash) {
    return json{{"file", std::filesystem::path(path).filename().string()}, {"hash", fmt::format("{:016x}", hash)}};
  };
  for (const own::Kernel& k : all.rows) {
    const auto& nodes = front.program.nodes;
    if (std::none_of(nodes.begin(), nodes.end(), [&](const import::PNode& n) { return n.target == k.target; })) continue;
    json row = {{"op", k.op}, {"schema", k.schema}};
    for (const own::Pointwise& e : k.pointwise) row["pointwise"].push_back(e.text);
    if (k.cpu) {
      row["cpu"] = file(all.codes.at(k.cpu->code).file, all.codes.at(k.cpu->code).hash);
      row["cpu"].update({{"function", k.cpu->function}, {"work", k.cpu->work.text}, {"scratch_bytes", k.cpu->scratch.text}});
      if (!all.codes.at(k.cpu->code).flags.empty()) row["cpu"]["flags"] = all.codes.at(k.cpu->code).flags;
    }
    if (k.cuda) {
      if (k.cuda->binaries.empty()) row["cuda"] = file(all.cuda_sources.at(k.cuda->source).file, all.cuda_sources.at(k.cuda->source).hash);
      for (const size_t b : k.cuda->binaries) {  // the first as what stands there, further ones beside it
        const json compiled = file(all.cuda_binaries.at(b).file, all.cuda_binaries.at(b).hash);
        if (b == k.cuda->binaries.front())
          row["cuda"] = compiled;
        else
          row["cuda"]["others"].push_back(compiled);
      }
      row["cuda"]["function"] = k.cuda->function;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

void add_uarch(json& to, const Target& target) {
  if (const Uarch* u = target.uarch.get()) to["uarch"] = {{"name", u->name}, {"id", u->id}};
}

std::shared_ptr<const Uarch> stored_uarch(const json& meta) {
  if (!meta.contains("uarch")) return nullptr;
  const json& u = meta["uarch"];
  return named_uarch(u.at("numbers").get<std::string>(), u.at("name").get<std::string>());
}

json stored_weights_json(const passes::StoredWeights& w) {
  json j = {{"as", w.storage.str()}, {"bits", w.storage.bits},           {"group", w.storage.group},
            {"bytes", w.bytes()},    {"bytes_before", w.bytes_before()}, {"error", w.error()}};
  if (w.storage.float8) j["float8"] = true;
  if (w.storage.int8_rows) j["activations"] = "int8";
  j["max_error"] = w.storage.most_error();
  j["weights"] = j["left"] = j["rounded"] = json::array();
  for (const passes::StoredWeight& x : w.weights) j["weights"].push_back({{"name", x.name}, {"bytes", x.bytes}, {"error", x.error}});
  for (const auto& [name, why] : w.left) j["left"].push_back({{"name", name}, {"why", why}});
  for (const passes::RoundedConstant& r : w.rounded)
    j["rounded"].push_back({{"name", r.name}, {"columns_first", r.columns_first}, {"error", r.error}});
  return j;
}

passes::StoredWeights stored_weights_of(const json& stored) {
  passes::StoredWeights w;
  w.storage = {stored.at("bits").get<int>(), stored.at("group").get<int64_t>(), stored.contains("activations"),
               stored.value("max_error", 0.0), stored.value("float8", false)};
  for (const json& r : stored.at("rounded"))
    w.rounded.push_back({r.at("name").get<std::string>(), r.at("columns_first").get<bool>(), r.value("error", 0.0)});
  return w;
}

json stored_caches_json(const passes::StoredCaches& s) {
  json j = {{"as", passes::cache_storage_name(s.storage)}, {"bytes", s.bytes()}, {"bytes_before", s.bytes_before()}};
  j["states"] = j["left"] = json::array();
  for (const passes::StoredCache& c : s.caches) {
    j["states"].push_back({{"name", c.name}, {"dtype", dtype_name(c.before)}, {"bytes", c.bytes}, {"bytes_before", c.bytes_before}});
    if (s.storage == passes::CacheStorage::int8) j["states"].back()["scales"] = passes::scales_name(c.name);
  }
  for (const auto& [name, why] : s.left) j["left"].push_back({{"name", name}, {"why", why}});
  return j;
}

json metadata(const Front& front, const plan::PlanSet& plans, const plan::Decisions& decisions, const Target& target,
              const std::string& shapes_text) {
  const Graph& g = front.graph;
  json m = {{"aotc_version", AOTC_VERSION},
            {"torch_version", front.program.torch_version},
            {"schema_version", fmt::format("{}.{}", front.program.schema_major, front.program.schema_minor)},
            {"source", {{"id", front.program.source_id}}},
            {"target", target.str()},
            {"weights_bytes", plans.weights_bytes},
            {"shapes", shapes_text}};
  for (const char* list : {"inputs", "outputs", "states", "symbols", "code"}) m[list] = json::array();
  if (front.precision.mode != "f32") {
    m["precision"] = {{"mode", front.precision.mode}};
    if (front.precision.max_error > 0) m["precision"]["max_error"] = front.precision.max_error;
  }
  if (const passes::StoredWeights& w = front.stored_weights; w.storage.any()) m["stored_weights"] = stored_weights_json(w);
  if (front.stored_caches.storage != passes::CacheStorage::as_is) m["kv_cache"] = stored_caches_json(front.stored_caches);
  for (const auto& [key, given] : {std::pair("reproducible", target.numerics.reproducible),
                                   {"winograd4", target.numerics.winograd4},
                                   {"strassen", target.numerics.strassen}})
    if (given) m[key] = true;
  if (target.traits().device_code) m["f32_matmul"] = f32_matmul_name(target.numerics.f32_matmul);
  for (Isa isa : target.isas) m["code"].push_back({{"version", isa_name(isa)}, {"needs", feature_names(artifact::cpu_needs(plans, isa))}});
  for (const InputInfo& i : g.inputs) {
    m["inputs"].push_back(tensor(i.name, g.type(i), g.syms));
    m["inputs"].back()["path"] = i.tree_path;
  }
  for (const OutputInfo& o : g.outputs) {
    if (o.role != OutputRole::result) continue;
    m["outputs"].push_back(tensor(o.name, g.type(o), g.syms));
    m["outputs"].back()["path"] = o.tree_path;
    if (!o.found.empty()) m["outputs"].back()["found"] = sizes(g.found(o), g.syms);
    if (!o.gradient_of.empty()) m["outputs"].back()["gradient_of"] = o.gradient_of;
    if (o.alias_input >= 0) m["outputs"].back()["mutates"] = g.inputs[static_cast<size_t>(o.alias_input)].name;
  }
  for (const StateInfo& s : g.states) {
    m["states"].push_back(tensor(s.name, s.type, g.syms));
    m["states"].back()["updated"] = s.updated != kNone<ValueId>;
    if (const Ints along = written_along(g, s); !along.empty()) m["states"].back()["written_along"] = along;
  }
  const auto archive_symbols = import::archive_symbols(front.program);
  for (SymId s : plans.symbols) {
    const SymInfo& i = g.syms[s];
    json row = {{"name", i.name}, {"min", i.min}, {"max", i.max == kInf ? json() : json(i.max)}};
    if (i.multiple_of != 1) row["multiple_of"] = i.multiple_of;
    if (!i.tune.empty()) row["tune"] = i.tune;
    for (const auto& [archive, symbol] : archive_symbols)
      if (symbol == s) row["archive"] = archive;
    m["symbols"].push_back(row);
  }
  if (const json own = own_kernels(front); !own.empty()) m["own_kernels"] = own;
  int64_t arena = 0;
  for (const plan::Plan& p : plans.plans) arena = std::max(arena, p.arena_bytes_max);
  m["arena_bytes"] = arena;
  m["ops"] = json::object();
  for (const import::PNode& n : front.program.nodes) m["ops"][n.target] = m["ops"].value(n.target, 0) + 1;
  m["explain"] = explain(front, plans, decisions);
  if (target.uarch) {
    add_uarch(m, target), add_uarch(m["explain"], target);
    m["uarch"]["numbers"] = print(*target.uarch);
  }
  return m;
}

}  // namespace aotc::pipeline
